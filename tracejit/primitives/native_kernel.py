"""Kernels over whole arrays that users write in the languages of backends (`tj.native.kernel`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape
from tracejit.ir.forms import Expand, Form, FormBuilder, KernelSources, LibraryCall, Operand, Whole
from tracejit.ir.kernel import Const
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives.matrix_loops import each_matrix
from tracejit.primitives.shape import broadcast_in_dim
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError, UserError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp as jvp_function
from tracejit.tracer.redirect import prepared

__all__ = ["NativeKernel", "WrittenKernel"]

_Avals = Sequence[ShapedArray]


class WrittenKernel:
    """What the user gave: equal to itself only.

    results, sizes, grid: of the operands, the results, the integers that are passed after the arrays, and how many
    groups there are.  fallback: a function of arrays; None if there is none.
    """

    __slots__ = ("__weakref__", "fallback", "grid", "name", "results", "rule_of_batches", "sizes", "sources")

    def __init__(
        self,
        name: str,
        sources: KernelSources,
        results: Callable[[_Avals], tuple[ShapedArray, ...]],
        sizes: Callable[[_Avals], tuple[Extent, ...]],
        grid: Callable[[_Avals], Extent],
        fallback: Callable[..., Any] | None,
    ) -> None:
        self.name, self.sources, self.results = name, sources, results
        self.sizes, self.grid, self.fallback = sizes, grid, fallback
        self.rule_of_batches: Callable[..., Any] | None = None

    def traced(self, *args: ArrayLike) -> list[Result]:
        """The fallback of the operands, traced."""
        assert self.fallback is not None
        return self.checked(prepared(self.fallback)(*args), [aval_of_argument(x) for x in args])

    def checked(self, made: Any, avals: _Avals) -> list[Result]:
        """What the fallback has given.   Raises: ShapeError, DtypeError where it is not what `out` says."""
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        wanted = self.results(avals)
        if len(results) != len(wanted):
            raise ShapeError(f"the fallback of {self.name} gives {len(results)} results; out= has {len(wanted)}")
        for x, want in zip(results, wanted, strict=True):
            found = aval_of_argument(x)
            if found.shape != want.shape:
                raise ShapeError(f"the fallback of {self.name} gives shape {found.shape}; out= says {want.shape}")
            if found.dtype != want.dtype:
                raise DtypeError(f"the fallback of {self.name} gives {found}; out= says {want}")
        return results


@frozen(eq=False)
class NativeKernel(Primitive):
    """A user's kernel, in the language of a backend, or its fallback where it has none there.

    lead: leading axes of all operands and results, for each of whose elements it runs.
    """

    name = "native_kernel"
    multiple_results = True
    kernel: WrittenKernel
    lead: Shape = ()

    def _inner(self, avals: _Avals) -> list[ShapedArray]:
        return [ShapedArray(a.shape[len(self.lead) :], a.dtype) for a in avals]

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        found = self.kernel.results(self._inner(avals))
        return tuple([ShapedArray((*self.lead, *a.shape), a.dtype) for a in found])

    def impl(self, *args: ArrayLike) -> list[Result]:
        own = self.kernel
        function = own.sources.sources.get("reference") or own.fallback
        if function is None:
            raise UnsupportedError(
                f"{own.name} (tj.native.kernel) is called on NumPy arrays outside of compiled functions; give it a "
                'source for "reference" or a fallback='
            )
        arrays = [np.asarray(x) for x in args]
        outs = [np.empty(tuple(map(int, a.shape)), a.dtype) for a in self.abstract_eval(*map(aval_of_argument, arrays))]
        for place in np.ndindex(*map(int, self.lead)):
            made = function(*[x[place].copy() for x in arrays])
            for out, x in zip(outs, made if isinstance(made, (tuple, list)) else (made,), strict=True):
                out[place] = x
        return list(outs)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        own = self.kernel
        if b.backend not in own.sources.sources:
            if own.fallback is None:
                have = ", ".join(sorted(own.sources.sources))
                raise UnsupportedError(
                    f"{own.name} (tj.native.kernel) has no source for the {b.backend} backend, only for {have}; give "
                    f"it one, tj.native.kernel({{{b.backend!r}: ...}}), or a fallback= of NumPy functions",
                    location=user_location(),
                )
            return self._mapped(own.traced, operands)
        if self.lead:
            return self._mapped(lambda *xs: list(bind(NativeKernel(own), *xs)), operands)
        avals = [x.aval for x in operands]
        sizes = [Const(n, "i64") for n in own.sizes(avals)]
        arrays = [Whole("operand", n) for n in range(len(operands))]
        results = [Whole("result", n) for n in range(len(own.results(avals)))]
        return LibraryCall(own.sources.entry, own.sources, (*arrays, *results, *sizes), own.grid(avals))

    def _mapped(self, function: Callable[..., list[Result]], operands: Sequence[Operand]) -> Expand:
        """The function of the operands, or of each element along the leading axes."""
        if not self.lead:
            return Expand(function)
        ranks = [len(x.shape) - len(self.lead) for x in operands]
        return Expand(lambda *xs: list(each_matrix(function, *xs, ranks=ranks)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        outs = list(bind(self, *primals))
        if all(t is None for t in tangents):
            return outs, [None] * len(outs)
        own = self.kernel
        if own.fallback is None:
            raise UnsupportedError(
                f"{own.name} (tj.native.kernel) has no derivative; give it one with its defjvp or defvjp, or a "
                "fallback= of NumPy functions, which is differentiated",
                location=user_location(),
            )
        ranks = [aval_of_argument(x).ndim - len(self.lead) for x in primals]

        def all_of(*xs: Any) -> list[Any]:
            return own.traced(*xs) if not self.lead else list(each_matrix(own.traced, *xs, ranks=ranks))

        return outs, jvp_function(all_of, primals, tangents)[1]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int | None]]:
        rule = self.kernel.rule_of_batches
        if rule is not None and not self.lead:
            moved = [move_to_front(x, d) for x, d in zip(args, dims, strict=True)]
            return self._by_rule(prepared(rule)(size, [d is not None for d in dims], *moved))
        spread = [
            broadcast_in_dim(x, (size, *aval_of_argument(x).shape), tuple(range(1, aval_of_argument(x).ndim + 1)))
            if d is None
            else move_to_front(x, d)
            for x, d in zip(args, dims, strict=True)
        ]
        outs = list(bind(NativeKernel(self.kernel, (size, *self.lead)), *spread))
        return outs, [0] * len(outs)

    def _by_rule(self, made: Any) -> tuple[list[Result], Sequence[int | None]]:
        """What the user's rule gives.   Raises: UserError where it is no pair."""
        if not isinstance(made, tuple) or len(made) != 2:
            raise UserError(
                f"the rule of {self.kernel.name}.def_batch gives {type(made).__name__}; it gives a pair: results, and "
                "which of them have the axis (True or False)",
                location=user_location(),
            )
        results, mapped = [list(x) if isinstance(x, (tuple, list)) else [x] for x in made]
        return results, [0 if m else None for m in mapped]
