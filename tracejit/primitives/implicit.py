"""Solutions of equations, with derivatives by the implicit function theorem: identities like those of `custom`.

A solution is computed on operands whose derivatives are stopped, and goes through one of these primitives, beside what
the equation depends on.  Derivatives solve a linear equation; how the solution was found is no matter of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tracejit.ir.extents import Extent
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.types import ShapedArray
from tracejit.primitives.control_flow import is_differentiable
from tracejit.primitives.creation import zeros_of
from tracejit.primitives.custom import Identity, stop_gradient
from tracejit.primitives.elementwise import neg, sub
from tracejit.primitives.reduction import reduce_sum
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import batch as batch_function, move_to_front, spread
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp as jvp_function
from tracejit.tracer.linearize import evaluate_jaxpr
from tracejit.tracer.transpose import UndefinedPrimal

__all__ = ["Implicit", "ImplicitRule", "LinearSystem", "RootOf"]


class ImplicitRule:
    """What is known of an equation and its solution, both flat: equal to itself only."""

    __slots__ = ("__weakref__",)

    def tangents(self, results: Sequence[Any], args: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """One tangent for each result, None where it is zero.  tangents: of the arguments, None where they are."""
        raise NotImplementedError

    def cotangents(self, args: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """One cotangent for each argument of a linear equation, None where there is none.

        args: None for those that are not known.  cotangents: of the results, None where they are zero.
        """
        raise NotImplementedError


@frozen(eq=False)
class Implicit(Identity):
    """The solution of an equation, and what else came of finding it.   results, arguments -> results"""

    name = "implicit"
    rule: ImplicitRule
    results: int

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        n = self.results
        ys = bind(self, *primals)
        return ys, self.rule.tangents(ys, primals[n:], tangents[n:])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        n = self.results
        known = [None if isinstance(a, UndefinedPrimal) else a for a in args[n:]]
        return [*[None] * n, *self.rule.cotangents(known, ct)]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[Result, Sequence[int | None]]:
        n = self.results
        moved = [move_to_front(x, d) for x, d in zip(args, dims, strict=True)]
        at = tuple([None if d is None else 0 for d in dims])
        ys = [spread(y, d, size) for y, d in zip(moved[:n], at[:n], strict=True)]
        return bind(Implicit(_Mapped(self.rule, at[n:], size), n), *ys, *moved[n:]), [0] * n


class _Mapped(ImplicitRule):
    """A rule for each element of a mapped axis, which comes first; dims: None for arguments without it."""

    __slots__ = ("dims", "rule", "size")

    def __init__(self, rule: ImplicitRule, dims: tuple[int | None, ...], size: Extent) -> None:
        self.rule, self.dims, self.size = rule, dims, size

    def tangents(self, results: Sequence[Any], args: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        n, m = len(results), len(args)
        on = [t is not None for t in tangents]
        found: list[bool] = []

        def run(*given: Any) -> list[Any]:
            some = iter(given[n + m :])
            out = self.rule.tangents(given[:n], given[n : n + m], [next(some) if f else None for f in on])
            found[:] = [t is not None for t in out]
            return [t for t in out if t is not None]

        some = [t for t in tangents if t is not None]
        dims = [*[0] * n, *self.dims, *[d for d, f in zip(self.dims, on, strict=True) if f]]
        given = iter(batch_function(run, [*results, *args, *some], dims, self.size))
        return [next(given) if f else None for f in found]

    def cotangents(self, args: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        known, on = [a is not None for a in args], [c is not None for c in cotangents]
        count = sum(known)
        found: list[bool] = []

        def run(*given: Any) -> list[Any]:
            first, rest = iter(given[:count]), iter(given[count:])
            out = self.rule.cotangents(
                [next(first) if f else None for f in known], [next(rest) if f else None for f in on]
            )
            found[:] = [c is not None for c in out]
            return [c for c in out if c is not None]

        dims = [*[d for d, f in zip(self.dims, known, strict=True) if f], *[0] * sum(on)]
        values = [*[a for a in args if a is not None], *[c for c in cotangents if c is not None]]
        given = iter(batch_function(run, values, dims, self.size))
        parts = [next(given) if f else None for f in found]
        return [
            part if part is None or d is not None else reduce_sum(part, (0,))
            for part, d in zip(parts, self.dims, strict=True)
        ]


# -- linear equations --------------------------------------------------------------------------------------------------
@frozen(eq=False)
class _Solver:
    """`solve`: right side, constants of the product, constants of its own -> solution, aux.
    `product`: x, constants of the product -> A x.
    """

    product: Jaxpr
    solve: Jaxpr | None
    own: int  # constants of `solve`


class LinearSystem(ImplicitRule):
    """A x = b.   Arguments: constants of the products, of the solver, of the transposed solver, b.

    there, back: how A x = b is solved, and the transposed equation.
    """

    __slots__ = ("aux", "back", "constants", "size", "there")

    def __init__(self, there: _Solver, back: _Solver, constants: int, size: int, aux: int) -> None:
        self.there, self.back, self.constants, self.size, self.aux = there, back, constants, size, aux

    @staticmethod
    def of(
        product: Jaxpr,
        solve: tuple[Jaxpr, int],
        transposed: Jaxpr | None,
        transposed_solve: tuple[Jaxpr | None, int],
        constants: int,
        size: int,
    ) -> LinearSystem:
        """The system whose jaxprs these are, each solver with the number of its own constants."""
        there = _Solver(product, *solve)
        back = _Solver(product if transposed is None else transposed, *transposed_solve)
        return LinearSystem(there, back, constants, size, len(solve[0].outputs) - size)

    def solution(self, args: Sequence[Any]) -> list[Any]:
        """x, and what else the solver gives."""
        m, own = self.constants, self.there.own
        shared, mine, b = args[:m], args[m : m + own], args[len(args) - self.size :]
        assert self.there.solve is not None
        found = evaluate_jaxpr(self.there.solve, [stop_gradient(a) for a in (*b, *shared, *mine)])
        return list(bind(Implicit(self, len(found)), *found, *args))

    def tangents(self, results: Sequence[Any], args: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        m, n = self.constants, self.size
        x = results[:n]
        sides = list(tangents[len(args) - n :])
        if any(t is not None for t in tangents[:m]):
            _, moved = jvp_function(lambda *c: evaluate_jaxpr(self.there.product, [*x, *c]), args[:m], tangents[:m])
            sides = [_difference(s, t) for s, t in zip(sides, moved, strict=True)]
        if all(s is None for s in sides):
            return [None] * len(results)
        return [
            *self.solution([*args[: len(args) - n], *_filled(sides, map(aval_of_argument, x))])[:n],
            *[None] * (len(results) - n),
        ]

    def cotangents(self, args: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        if self.back.solve is None:
            raise UnsupportedError(
                "custom_linear_solve has no transpose_solve, which the derivative in reverse mode needs; give one, or "
                "symmetric=True"
            )
        m, n, own = self.constants, self.size, self.there.own
        mine, theirs = args[m : m + own], args[m + own : len(args) - n]
        ct = _filled(cotangents[:n], self.there.product.out_avals)
        other = LinearSystem(self.back, self.there, m, n, len(self.back.solve.outputs) - n)
        return [*[None] * (len(args) - n), *other.solution([*args[:m], *theirs, *mine, *ct])[:n]]


def _difference(s: Any, t: Any) -> Any:
    return s if t is None else neg(t) if s is None else sub(s, t)


def _filled(values: Sequence[Any], avals: Iterable[ShapedArray]) -> list[Any]:
    """Values, of which those that are None are zeros."""
    return [zeros_of(a.strong()) if v is None else v for v, a in zip(values, avals, strict=False)]


# -- roots -------------------------------------------------------------------------------------------------------------
class RootOf(ImplicitRule):
    """f(x, constants) = 0.   Arguments: constants of f, of the linear solver.

    linear: x, right side, constants -> solution of the equation of the function that is linearised at x.
    """

    __slots__ = ("constants", "function", "linear", "size")

    def __init__(self, function: Jaxpr, linear: Jaxpr, constants: int, size: int) -> None:
        self.function, self.linear, self.constants, self.size = function, linear, constants, size

    def tangents(self, results: Sequence[Any], args: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        m, n = self.constants, self.size
        if all(t is None for t in tangents[:m]):
            return [None] * len(results)
        x = results[:n]
        _, sides = jvp_function(lambda *c: evaluate_jaxpr(self.function, [*x, *c]), args[:m], tangents[:m])
        if all(s is None for s in sides):
            return [None] * len(results)
        found = evaluate_jaxpr(self.linear, [*x, *_filled(sides, map(aval_of_argument, x)), *args])
        return [*[neg(t) if is_differentiable(aval_of_argument(y)) else None for t, y in zip(found, x, strict=True)],
                *[None] * (len(results) - n)]  # fmt: skip

    def cotangents(self, args: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        raise UnsupportedError("custom_root is no linear function, and is transposed; use tj.vjp")
