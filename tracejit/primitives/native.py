"""Expressions that users write in the languages of backends (`tj.native`): elementwise, fused like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.types import ShapedArray
from tracejit.primitives.elementwise import Floating
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp as jvp_function
from tracejit.tracer.redirect import prepared

__all__ = ["Native", "NativeExpression"]


class NativeExpression:
    """What the user gave: equal to itself only.

    op: the scalar operation.  backends: those that have a source.  reference: the source as a function of NumPy arrays.
    """

    __slots__ = ("__weakref__", "backends", "fallback", "name", "op", "reference")

    def __init__(
        self,
        name: str,
        op: str,
        backends: frozenset[str],
        reference: Callable[..., Any] | None,
        fallback: Callable[..., Any] | None,
    ) -> None:
        self.name, self.op, self.backends = name, op, backends
        self.reference, self.fallback = reference, fallback

    def traced(self, *args: ArrayLike) -> Result:
        """The fallback of the operands, traced."""
        assert self.fallback is not None
        wanted = Native(self).abstract_eval(*[aval_of_argument(x) for x in args])
        result = prepared(self.fallback)(*args)
        found = aval_of_argument(result)
        if found.shape != wanted.shape:
            raise ShapeError(
                f"the fallback of {self.name} (tj.native) gives shape {found.shape}; the operands have {wanted.shape}"
            )
        if found.dtype != wanted.dtype:
            raise DtypeError(f"the fallback of {self.name} (tj.native) gives {found}; the operands are {wanted}")
        return result


@frozen(eq=False)
class Native(Floating):
    """A user's expression of elements, in the language of a backend, or its fallback where it has none there."""

    name = "native"
    expression: NativeExpression

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        return super().abstract_eval(*avals).strong()

    def impl(self, *args: ArrayLike) -> Result:
        own = self.expression.reference or self.expression.fallback
        if own is None:
            raise UnsupportedError(
                f"{self.expression.name} (tj.native) is called on NumPy arrays outside of compiled functions; give it "
                'a source for "reference" or a fallback='
            )
        with np.errstate(all="ignore"):
            return np.asarray(own(*args)).astype(np.result_type(*args), copy=False)[()]

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        return b.op(self.expression.op, *xs)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        own = self.expression
        if b.backend in own.backends:
            return super().lower(b, *operands)
        if own.fallback is None:
            have = ", ".join(sorted(own.backends))
            raise UnsupportedError(
                f"{own.name} (tj.native) has no source for the {b.backend} backend, only for {have}; give it one, "
                f"tj.native({{{b.backend!r}: ...}}), or a fallback= of NumPy functions"
            )
        return Expand(own.traced)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        if all(t is None for t in tangents):
            return out, None
        if self.expression.fallback is None:
            raise UnsupportedError(
                f"{self.expression.name} (tj.native) has no derivative; give it one with its defjvp or defvjp, or a "
                "fallback= of NumPy functions, which is differentiated"
            )
        return out, jvp_function(lambda *xs: [self.expression.traced(*xs)], primals, tangents)[1][0]
