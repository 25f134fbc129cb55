"""Results with derivatives of the user's: identities that the computation of the results stands in front of.

A function with a derivative of its own is traced like any other, on arguments whose derivatives are stopped.  Its
results go through one of these primitives, beside the arguments: nothing of it is left when the program is compiled,
and derivatives, also of the bodies of loops and branches that were recorded before, meet the user's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.ir.extents import Extent, same_shape
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.types import ShapedArray
from tracejit.primitives.control_flow import is_differentiable, is_linearizing, placed, staged_body, tangents_out
from tracejit.primitives.creation import zeros_of
from tracejit.primitives.reduction import reduce_sum
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import batch as batch_function, batch_pairs, move_to_front
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp as jvp_function
from tracejit.tracer.linearize import evaluate_jaxpr, linearize
from tracejit.tracer.transpose import UndefinedPrimal

__all__ = [
    "Checkpoint", "CustomJVP", "CustomVJP", "ForwardRule", "Identity", "ReverseRule", "StopGradient", "stop_gradient",
]  # fmt: skip


class ForwardRule:
    """What `custom_jvp` has for the arguments and results of one call, both flat: equal to itself only."""

    __slots__ = ("__weakref__", "function_name")

    def __init__(self, function_name: str) -> None:
        self.function_name = function_name

    def tangents(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """One tangent for each result, None where it is zero.  tangents: None where they are."""
        raise NotImplementedError


class ReverseRule:
    """What `custom_vjp` has for the arguments and results of one call, both flat: equal to itself only."""

    __slots__ = ("__weakref__", "function_name")

    def __init__(self, function_name: str) -> None:
        self.function_name = function_name

    def forward(self, primals: Sequence[Any]) -> list[Any]:
        """The results, and after them what the backward rule wants to know, as arrays."""
        raise NotImplementedError

    def backward(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """One cotangent for each argument, None where it is zero.  cotangents: of all results, None for integers."""
        raise NotImplementedError

    def push(self, residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """One tangent for each result, from those of the arguments.   Raises: UnsupportedError."""
        raise UnsupportedError(
            f"{self.function_name} has a reverse derivative only (tj.custom_vjp); use tj.grad, tj.vjp or "
            "tj.jacrev, or give it a forward one with tj.custom_jvp"
        )


class _MappedForward(ForwardRule):
    """A rule for each element of a mapped axis, which comes first; dims: None for arguments without it."""

    __slots__ = ("dims", "rule", "size")

    def __init__(self, rule: ForwardRule, dims: tuple[int | None, ...], size: Extent) -> None:
        super().__init__(rule.function_name)
        self.rule, self.dims, self.size = rule, dims, size

    def tangents(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        on = [t is not None for t in tangents]
        found: list[bool] = []
        n = len(primals)

        def run(*args: Any) -> list[Any]:
            given = iter(args[n:])
            out = self.rule.tangents(args[:n], [next(given) if f else None for f in on])
            found[:] = [t is not None for t in out]
            return [t for t in out if t is not None]

        some = [t for t in tangents if t is not None]
        dims = [*self.dims, *[d for d, f in zip(self.dims, on, strict=True) if f]]
        given = iter(batch_function(run, [*primals, *some], dims, _extent(dims, self.size)))
        return [next(given) if f else None for f in found]


class _MappedReverse(ReverseRule):
    """A rule for each element of a mapped axis, which comes first; dims: None for arguments without it."""

    __slots__ = ("dims", "rule", "size")

    def __init__(self, rule: ReverseRule, dims: tuple[int | None, ...], size: Extent) -> None:
        super().__init__(rule.function_name)
        self.rule, self.dims, self.size = rule, dims, size

    def forward(self, primals: Sequence[Any]) -> list[Any]:
        return batch_function(
            lambda *xs: self.rule.forward(xs), list(primals), self.dims, _extent(self.dims, self.size)
        )

    def backward(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        on = [c is not None for c in cotangents]
        found: list[bool] = []
        n = len(residuals)

        def run(*args: Any) -> list[Any]:
            given = iter(args[n:])
            out = self.rule.backward(args[:n], [next(given) if f else None for f in on])
            found[:] = [c is not None for c in out]
            return [c for c in out if c is not None]

        some = [c for c in cotangents if c is not None]
        dims = [0] * (n + len(some))
        given = iter(batch_function(run, [*residuals, *some], dims, _extent(dims, self.size)))
        parts = [next(given) if f else None for f in found]
        return [
            part if part is None or d is not None else reduce_sum(part, (0,))
            for part, d in zip(parts, self.dims, strict=True)
        ]


def _extent(dims: Sequence[int | None], size: Extent) -> Extent | None:
    """The extent of the mapped axis where no argument has it."""
    return size if all(d is None for d in dims) else None


@frozen(eq=False)
class StopGradient(Primitive):
    """x, as a constant for derivatives.   x -> x"""

    name = "stop_gradient"
    gives_view = True

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def impl(self, *args: ArrayLike) -> Result:
        return args[0]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        return b.map(x.shape, lambda i: x[i])

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        return bind(self, *primals), None

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        """In a linear program, where x is a tangent itself, it is the identity."""
        return [ct]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int | None]:
        return bind(self, *args), dims[0]

    def simplify(self, *args: Any) -> int | None:
        return 0

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges[0]


def stop_gradient(x: ArrayLike) -> Result:
    """x, as a constant for derivatives."""
    return bind(StopGradient(), x)


class Identity(Primitive):
    """The first `results` operands; the others are the arguments that they were computed from."""

    multiple_results = True
    gives_view = True
    __slots__ = ()
    results: int

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return tuple(avals[: self.results])

    def impl(self, *args: ArrayLike) -> Result:
        return list(args[: self.results])

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        ys = operands[: self.results]
        if all(same_shape(y.shape, ys[0].shape) for y in ys):
            return b.map(ys[0].shape, lambda i: ys[0][i] if len(ys) == 1 else tuple([y[i] for y in ys]))
        return Expand(lambda *args: list(args[: self.results]))

    def simplify(self, *args: Any) -> int | None:
        return 0

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        """In a linear program, that of a rule which calls such a function on tangents, it is the function alone."""
        return [*ct, *[None] * (len(args) - self.results)]

    def check_outside(self, tangents: Sequence[ArrayLike], function_name: str, decorator: str) -> None:
        """Raises UnsupportedError where a result has a derivative that is none of the arguments'."""
        if any(t is not None for t in tangents[: self.results]):
            raise UnsupportedError(
                f"{function_name} has a derivative of its own (tj.{decorator}) for its arguments, but reads another "
                "value from outside, with respect to which it is differentiated too; pass that value as an argument, "
                "or through tj.lax.stop_gradient"
            )


@frozen(eq=False)
class CustomJVP(Identity):
    """The results of a function whose forward derivative is the user's.   results, arguments -> results"""

    name = "custom_jvp"
    rule: ForwardRule
    results: int

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        self.check_outside(tangents, self.rule.function_name, "custom_jvp")
        n = self.results
        return bind(self, *primals), self.rule.tangents(primals[n:], tangents[n:])

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[Result, Sequence[int | None]]:
        n = self.results
        moved = [move_to_front(x, d) for x, d in zip(args, dims, strict=True)]
        at = tuple([None if d is None else 0 for d in dims])
        ys = _spread(moved[:n], at[:n], size)
        return bind(CustomJVP(_MappedForward(self.rule, at[n:], size), n), *ys, *moved[n:]), [0] * n


@frozen(eq=False)
class CustomVJP(Identity):
    """The results of a function whose reverse derivative is the user's.   results, arguments -> results

    With `given` it is their derivative, as part of a linear program that is there to be transposed: tangents of the
    arguments that have some, residuals -> tangents of the results.   given: which arguments have tangents; out: the
    results.
    """

    name = "custom_vjp"
    rule: ReverseRule
    results: int
    given: tuple[bool, ...] = ()
    out: tuple[ShapedArray, ...] = ()

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.out if self.given else super().abstract_eval(*avals)

    def impl(self, *args: ArrayLike) -> Result:
        return self._pushed(*args) if self.given else super().impl(*args)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return Expand(self._pushed) if self.given else super().lower(b, *operands)

    def simplify(self, *args: Any) -> int | None:
        return None if self.given else 0

    def _pushed(self, *args: ArrayLike) -> list[Result]:
        given = iter(args)
        tangents = [next(given) if f else None for f in self.given]
        slopes = self.rule.push(list(given), tangents)
        return [zeros_of(a) if t is None else t for t, a in zip(slopes, self.out, strict=True)]

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        if self.given:
            return jvp_function(self._pushed, primals, tangents)
        n = self.results
        self.check_outside(tangents, self.rule.function_name, "custom_vjp")
        xs, dots = primals[n:], tangents[n:]
        if not is_linearizing(tangents):
            return bind(self, *primals), self.rule.push(xs, dots)
        found = self.rule.forward(xs)
        return found[:n], slopes_of(self.rule, found[:n], dots, found[n:])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        if not self.given:
            return super().transpose(ct, *args)
        count = sum(self.given)
        tangents, residuals = args[:count], args[count:]
        cts = [
            (zeros_of(a) if c is None else c) if is_differentiable(a) else None
            for c, a in zip(ct, self.out, strict=True)
        ]
        parts = self.rule.backward(residuals, cts)
        wanted = [p for p, f in zip(parts, self.given, strict=True) if f]
        assert all(isinstance(t, UndefinedPrimal) for t in tangents)
        return [*wanted, *[None] * len(residuals)]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[Result, Sequence[int | None]]:
        if self.given:
            pairs = batch_pairs(self._pushed, args, dims, size)
            return [x for x, _ in pairs], [d for _, d in pairs]
        n = self.results
        moved = [move_to_front(x, d) for x, d in zip(args, dims, strict=True)]
        at = tuple([None if d is None else 0 for d in dims])
        ys = _spread(moved[:n], at[:n], size)
        return bind(CustomVJP(_MappedReverse(self.rule, at[n:], size), n), *ys, *moved[n:]), [0] * n


def slopes_of(
    rule: ReverseRule, results: Sequence[ArrayLike], tangents: Sequence[ArrayLike], residuals: Sequence[ArrayLike]
) -> list[Result]:
    """Tangents of results, None for those of integers, as a linear program has them that a rule transposes."""
    out = [aval_of_argument(y).strong() for y in results]
    linear = CustomVJP(rule, len(out), tuple([t is not None for t in tangents]), tuple(out))
    slopes = bind(linear, *[t for t in tangents if t is not None], *residuals)
    return [t if is_differentiable(a) else None for t, a in zip(slopes, out, strict=True)]


class _Recomputed(ReverseRule):
    """The derivative of a jaxpr that is computed again where it is transposed; on: which inputs have tangents."""

    __slots__ = ("jaxpr", "on")

    def __init__(self, jaxpr: Jaxpr, on: Sequence[bool]) -> None:
        super().__init__("checkpoint")
        self.jaxpr, self.on = jaxpr, tuple(on)

    def _floats(self, residuals: Sequence[Any]) -> tuple[Callable[..., list[Any]], list[Any]]:
        def only(*floats: Any) -> list[Any]:
            given = iter(floats)
            return evaluate_jaxpr(
                self.jaxpr, [next(given) if f else a for a, f in zip(residuals, self.on, strict=True)]
            )

        return only, [a for a, f in zip(residuals, self.on, strict=True) if f]

    def backward(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        function, point = self._floats(residuals)
        return placed(linearize(function, point).pullback(cotangents), self.on)

    def push(self, residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        function, point = self._floats(residuals)
        return jvp_function(function, point, [t for t in tangents if t is not None])[1]


@frozen(eq=False)
class Checkpoint(Identity):
    """The results of a jaxpr, of which reverse derivatives keep the arguments alone.   results, arguments -> results"""

    name = "checkpoint"
    runs_jaxprs = True
    jaxpr: Jaxpr
    results: int

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        n = self.results
        xs, dots = primals[n:], tangents[n:]
        ys = bind(self, *primals)
        if not is_linearizing(tangents):
            return ys, jvp_function(lambda *a: evaluate_jaxpr(self.jaxpr, a), xs, dots)[1]
        on = [t is not None for t in dots]
        slopes = slopes_of(_Recomputed(self.jaxpr, on), ys, dots, xs)
        return ys, [t if f else None for t, f in zip(slopes, tangents_out(self.jaxpr, on), strict=True)]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[Result, Sequence[int | None]]:
        n = self.results
        moved = [move_to_front(x, d) for x, d in zip(args, dims, strict=True)]
        at = [None if d is None else 0 for d in dims]
        ys, xs = _spread(moved[:n], at[:n], size), moved[n:]
        jaxpr = staged_body(
            lambda *a: batch_function(lambda *z: evaluate_jaxpr(self.jaxpr, z), a, at[n:], size),
            [aval_of_argument(x) for x in xs],
            "checkpoint",
        )
        return bind(Checkpoint(jaxpr, n), *ys, *xs), [0] * n


def _spread(values: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> list[Result]:
    """Values with the mapped axis in front, repeated where they have none: a rule's tangents have it."""
    return batch_function(lambda *ys: list(ys), list(values), dims, size)
