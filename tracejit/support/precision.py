"""How exact products of matrices and elementary functions are asked to be: JAX's names for it.

Everything here is computed in the dtype of its operands, which is what `HIGHEST` asks for; what asks for less changes
nothing.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, NamedTuple, TypeAlias, cast

from tracejit.support.errors import OptionError, UnsupportedError
from tracejit.support.source import user_location

__all__ = [
    "AccuracyMode", "DotAlgorithm", "DotAlgorithmPreset", "Precision", "PrecisionLike", "RoundingMethod", "Tolerance",
    "check_accuracy", "check_one_device", "check_precision",
]  # fmt: skip


class Precision(Enum):
    """How exact a product is to be: all three are the same here.

    A name of JAX's gives one too.

    >>> import tracejit as tj
    >>> tj.lax.Precision("float32")
    <Precision.HIGHEST: 2>
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _NAMES.get(value) if isinstance(value, str) else None

    def __str__(self) -> str:
        return self.name


_NAMES = {
    "default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
}  # fmt: skip


class DotAlgorithm(NamedTuple):
    """In which types a product is computed: its operands' here, so that only such are accepted."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(Enum):
    """Algorithms of products by name, as TYPE_TYPE_ACCUMULATION; those of 8-bit and bfloat16 numbers and of TF32 are
    refused.
    """

    DEFAULT = 0
    ANY_F8_ANY_F8_F32 = 1
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 2
    ANY_F8_ANY_F8_ANY = 3
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 4
    F16_F16_F16 = 5
    F16_F16_F32 = 6
    BF16_BF16_BF16 = 7
    BF16_BF16_F32 = 8
    BF16_BF16_F32_X3 = 9
    BF16_BF16_F32_X6 = 10
    BF16_BF16_F32_X9 = 11
    TF32_TF32_F32 = 12
    TF32_TF32_F32_X3 = 13
    F32_F32_F32 = 14
    F64_F64_F64 = 15


PrecisionLike: TypeAlias = (
    str | Precision | tuple[str | Precision, str | Precision] | DotAlgorithm | DotAlgorithmPreset | None
)
"""What `precision=` takes."""


class RoundingMethod(IntEnum):
    """Where `lax.round` takes halves: away from zero, or to the even neighbour."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class AccuracyMode(Enum):
    """How exact an elementary function is to be: both are the same here."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """How far an elementary function may be off: `atol`, `rtol` times the value, `ulps` units in its last place."""

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> None:
        if min(atol, rtol, ulps) < 0:
            raise OptionError("Tolerance: atol, rtol and ulps are not negative", location=user_location())
        self.atol, self.rtol, self.ulps = atol, rtol, ulps


def check_precision(name: str, precision: Any) -> None:
    """Raises: OptionError for what is no precision, UnsupportedError for an algorithm in types of its own."""
    if precision is None or isinstance(precision, Precision):
        return
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        shown = precision.name if isinstance(precision, DotAlgorithmPreset) else str(precision)
        plain = isinstance(precision, DotAlgorithmPreset) and shown.split("_")[0] in ("DEFAULT", "F16", "F32", "F64")
        if not plain:
            raise UnsupportedError(
                f"{name}: precision={shown} is not supported; products are computed in the dtype of their operands",
                location=user_location(),
            )
        return
    pair = cast("tuple[Any, ...]", precision) if isinstance(precision, tuple) else (precision,)
    known = [isinstance(part, Precision) or (isinstance(part, str) and part in _NAMES) for part in pair]
    if not all(known) or (isinstance(precision, tuple) and len(known) != 2):
        raise OptionError(
            f"{name}: precision is {precision!r}; it is None, a tj.lax.Precision, a name such as 'highest', or a pair "
            "of these",
            location=user_location(),
        )


def check_accuracy(name: str, accuracy: Any) -> None:
    """Raises: OptionError for what is no accuracy."""
    if accuracy is not None and not isinstance(accuracy, (AccuracyMode, Tolerance)):
        raise OptionError(
            f"{name}: accuracy is {accuracy!r}; it is None, a tj.lax.AccuracyMode or a tj.lax.Tolerance",
            location=user_location(),
        )


def check_one_device(name: str, **options: Any) -> None:
    """Raises: UnsupportedError for an option that shares an array out among devices."""
    for option, value in options.items():
        if value is not None:
            raise UnsupportedError(
                f"{name}: {option}={value!r} is not supported, a program runs on one device; leave it out",
                location=user_location(),
            )
