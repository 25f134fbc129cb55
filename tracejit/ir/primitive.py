"""The base class of primitives and their registry.

A primitive is a `frozen` class in `tracejit.primitives`: fields are its parameters, methods its rules.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tracejit.ir.extents import Dim
from tracejit.ir.printed import printed
from tracejit.support.errors import MissingRuleError
from tracejit.support.nodes import as_dict, frozen

if TYPE_CHECKING:
    from tracejit.ir.forms import Form, FormBuilder, Operand
    from tracejit.ir.ranges import Range
    from tracejit.ir.types import ShapedArray

__all__ = ["Primitive", "primitives"]

_REGISTRY: dict[str, type[Primitive]] = {}


def primitives() -> dict[str, type[Primitive]]:
    """Every registered primitive by name."""
    return dict(_REGISTRY)


def _same(a: Any, b: Any) -> bool:
    """Whether two parameters are equal: extents where they are written alike, so that nothing is left undecided."""
    if isinstance(a, Dim) or isinstance(b, Dim):
        return isinstance(a, Dim) and a.same(b)
    if type(a) is tuple:
        return type(b) is tuple and len(a) == len(b) and all(map(_same, a, b))
    return a is b or bool(a == b)


@frozen(eq=False)
class Primitive:
    """One array operation; a subclass is the operation, an instance fixes its parameters.

    Rules (all shapes and dtypes are abstract unless said otherwise):
      abstract_eval(*avals)        -> aval, or a tuple of avals when `multiple_results`
      impl(*arrays)                -> NumPy's answer: the executable specification
      lower(b, *operands)          -> a form (device-free data)
      jvp(primals, tangents)       -> (primal out, tangent out); a tangent of None is a symbolic zero
      transpose(ct, *args)         -> cotangents of the linear arguments; args hold `UndefinedPrimal` where linear
      batch(args, dims, size)      -> (result, batch axis); a dim of None means not batched
      simplify(eqn args)           -> an argument that equals the result, or None; of several results the first, which
                                      the arguments after it equal in turn
      trimmed(inputs, wanted)      -> the same without the results that nobody wants, or None
      value_range(ranges, *avals)  -> the range of an integer result (`ir.ranges`) from those of the arguments
    """

    name: ClassVar[str] = ""
    multiple_results: ClassVar[bool] = False
    gives_view: ClassVar[bool] = False  # NumPy's answer may share memory with the first operand
    calls_python: ClassVar[bool] = False  # a function of the user's, for each element that it is mapped over
    runs_jaxprs: ClassVar[bool] = False  # among its parameters, once or often
    binds: ClassVar[str] = ""  # the parameter that is a symbol of extents, whose value is its operand from here on
    changes_part: ClassVar[bool] = False  # the result is the first operand with other elements at some places
    __slots__ = ()

    @property
    def named_axis(self) -> Any:
        """The axis of a `vmap` that it is about: its rule `collected` has it."""
        return None

    def _key(self) -> tuple[Any, ...]:
        return (type(self), *self.parameters().values())

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and all(map(_same, self._key(), other._key())))

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return str(self)

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__ and cls.name:
            _REGISTRY[cls.name] = cls

    def _missing(self, rule: str) -> MissingRuleError:
        module = sys.modules[type(self).__module__]
        return MissingRuleError(
            f"primitive {self.name!r} has no `{rule}` rule; it belongs in class {type(self).__name__} of "
            f"{module.__name__}"
        )

    def abstract_eval(self, *avals: ShapedArray) -> Any:
        raise self._missing("abstract_eval")

    def impl(self, *args: Any) -> Any:
        raise self._missing("impl")

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        raise self._missing("lower")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        raise self._missing("jvp")

    def transpose(self, ct: Any, *args: Any) -> Sequence[Any]:
        raise self._missing("transpose")

    def batch(self, args: Sequence[Any], dims: Sequence[int | None], size: Any) -> tuple[Any, Any]:
        raise self._missing("batch")

    def simplify(self, *args: Any) -> int | None:
        """The position of an argument that the result equals, if that can be told."""
        return None

    def trimmed(
        self, inputs: Sequence[Any], wanted: Sequence[bool]
    ) -> tuple[Primitive, Sequence[Any], Sequence[bool]] | None:
        """The same with the `wanted` results alone, or a few more, its operands, all of which count, and which results
        it has.  None where that changes nothing.
        """
        return None

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        """Between which values every element of an integer result lies, as far as that can be told;
        overflow is the caller's matter.
        """
        return None, None

    def parameters(self) -> dict[str, Any]:
        """Field names and values, in order: all that it is compared and printed by."""
        return as_dict(self)

    def __str__(self) -> str:
        return self.name + printed("parameters", self.parameters())
