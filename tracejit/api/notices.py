"""What a compilation tells: the log, and warnings of functions that are compiled too often."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from tracejit.api.signature import CallSignature, NumberLeaf, StaticLeaf, leaf_path, static_numbers
from tracejit.support.source import Location, frames_of, is_ours

if TYPE_CHECKING:
    from tracejit.api.versions import Version, Versions

__all__ = ["log", "log_retreat", "warn_of_many_dtypes", "warn_of_many_values"]

_MANY_DTYPES = 4  # combinations of dtypes after which a function warns
_MANY_VALUES = 8  # values after which a function warns


def log(f: Versions, version: Version, seconds: float) -> None:
    """Tell the logger `tracejit` of a compilation.  Who has not imported logging does not listen."""
    logging = sys.modules.get("logging")
    if logging is None:
        return
    logger = logging.getLogger("tracejit")
    if logger.isEnabledFor(logging.INFO):
        from tracejit.api.explain import shown

        name, leaves = (
            getattr(f.function, "__qualname__", "a function"),
            ", ".join(map(shown, version.signature.leaves)),
        )
        logger.info(
            "%s(%s) on %s: %.0f ms, %s", name, leaves, version.lowered.backend.name, 1000 * seconds, version.reason
        )


def log_retreat(f: Versions, wanted: CallSignature, error: Exception) -> None:
    """Tell the logger `tracejit` that a trace with symbolic extents has failed, and is made with those of the call.
    Where code of this package has raised the error, that is a warning.
    """
    logging = sys.modules.get("logging")
    if logging is None:
        return
    from tracejit.api.explain import shown

    code, place = frames_of(error)[-1]
    logging.getLogger("tracejit").log(
        logging.WARNING if is_ours(code.co_filename) else logging.INFO,
        "%s(%s) cannot be traced with symbolic extents, and is compiled for those of the call: %s: %s\n%s",
        f.named("a function"),
        ", ".join(map(shown, wanted.leaves)),
        type(error).__name__,
        error,
        Location(code, place).show(),
    )


def warn_of_many_dtypes(f: Versions, version: Version) -> None:
    """Once a function, when it was compiled for many dtypes of arguments of one structure and rank."""
    signature = version.signature
    if f.warned_of_dtypes:
        return
    ranks = _ranks(signature)
    alike = [s for s in f.versions if s.tree == signature.tree and _ranks(s) == ranks]
    known = list(dict.fromkeys(map(_dtypes, alike)))
    if len(known) < _MANY_DTYPES:
        return
    columns = [list(dict.fromkeys(column)) for column in zip(*known, strict=True)]
    told = [
        f"argument {leaf_path(signature.tree, n)} was {', '.join(names)}"
        for n, names in enumerate(columns)
        if len(names) > 1
    ]
    f.warned_of_dtypes = True
    warnings.warn(
        f"{f.named('a function')} was compiled for {_MANY_DTYPES} combinations of dtypes of arguments of the same "
        "ranks: "
        f"{'; '.join(told)}; convert them to one dtype (x.astype(dtype)) unless all are meant",
        stacklevel=5,
    )


def _ranks(signature: CallSignature) -> list[Any]:
    return [leaf if isinstance(leaf, StaticLeaf) else len(leaf.aval.shape) for leaf in signature.leaves]


def _dtypes(signature: CallSignature) -> tuple[str, ...]:
    """Those of a call's arguments; what is constant has none."""
    return tuple(
        [
            "" if isinstance(x, StaticLeaf) else x.kind if isinstance(x, NumberLeaf) else x.dtype.name
            for x in signature.leaves
        ]
    )


def warn_of_many_values(f: Versions, version: Version) -> None:
    """Once a function, when it was compiled for many values of numbers that its trace asks for."""
    asked = static_numbers(version.signature, version.static)
    if not asked or f.warned_of_values:
        return
    leaves = version.signature.leaves
    f.values.add(
        tuple([(n, type(x.value).__name__, repr(x.value)) for n in asked if isinstance(x := leaves[n], StaticLeaf)])
    )
    if len(f.values) == _MANY_VALUES:
        f.warned_of_values = True
        places = " and ".join(f"argument {leaf_path(version.signature.tree, p)}" for p in asked)
        warnings.warn(
            f"{f.named('a function')} was compiled for {_MANY_VALUES} values of {places}, whose value its trace needs "
            "(for "
            "a shape, range() or a branch); keep it to few values, or have the function take an array instead",
            stacklevel=5,
        )
