"""What elements of a mapped axis with a name do together: sums over all of them, exchanges of what each has.

An operation waits, through all transformations, for the `vmap` whose axis has its name; there it is one on the whole
axis (`collected`).  None is left in a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from tracejit.ir.extents import Extent, Shape
from tracejit.ir.forms import Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.elementwise import mul, select
from tracejit.primitives.indexing import gather
from tracejit.primitives.reduction import reduce_max, reduce_min, reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, transpose
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front, spread
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind

__all__ = ["Collective"]


@frozen(eq=False)
class Collective(Primitive):
    """One operation on all elements of an axis with a name.   x -> what each element gets

    kind: "sum", "max", "min" over the elements; "gather": all of them along a new axis `at`; "scatter_sum": the sum,
    of which each element gets its part along axis `at`, which goes; "exchange": the parts along axis `at`, one from
    each element, along a new axis `to`; "permute": that of another element, zeros where there is none (`sources`);
    "index": the number of the element, int32.   axis, size: the name and the extent of the mapped axis.
    """

    name = "collective"
    kind: str
    axis: Any
    size: Extent
    at: int = 0
    to: int = 0
    sources: tuple[int, ...] = ()  # of each element, -1 where there is none

    @property
    def named_axis(self) -> Any:
        return self.axis

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        if self.kind == "index":
            return ShapedArray((), np.int32)
        (x,) = avals
        return x.strong().with_shape(self._shape(x.shape))

    def _shape(self, shape: Shape) -> Shape:
        match self.kind:
            case "gather":
                return (*shape[: self.at], self.size, *shape[self.at :])
            case "scatter_sum":
                return shape[: self.at] + shape[self.at + 1 :]
            case "exchange":
                rest = shape[: self.at] + shape[self.at + 1 :]
                return (*rest[: self.to], self.size, *rest[self.to :])
            case _:
                return shape

    def _unbound(self) -> NoReturn:
        raise UnsupportedError(
            f"an operation on the elements of the axis {self.axis!r} ({self.kind}) is in a place that tj.vmap does not "
            "reach; take it out of the loop or branch that it is in"
        )

    def impl(self, *args: ArrayLike) -> Result:
        self._unbound()

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        self._unbound()

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        if self.kind == "index" or tangents[0] is None:
            return out, None
        if self.kind in ("max", "min"):
            raise UnsupportedError(
                f"lax.p{self.kind} has no derivative within tj.vmap; take the derivative of the mapped function, or "
                "use lax.all_gather and a maximum of that"
            )
        return out, bind(self, *tangents)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        match self.kind:
            case "gather":
                back = evolve(self, kind="scatter_sum")
            case "scatter_sum":
                back = evolve(self, kind="gather")
            case "exchange":
                back = evolve(self, at=self.to, to=self.at)
            case "permute":
                targets = {source: n for n, source in enumerate(self.sources)}
                back = evolve(self, sources=tuple([targets.get(n, -1) for n in range(len(self.sources))]))
            case _:
                back = self
        return [bind(back, ct)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int | None]:
        """Over another axis, which comes first."""
        (x,) = args
        return bind(evolve(self, at=self.at + 1, to=self.to + 1), move_to_front(x, dims[0])), 0

    def collected(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[Result, int | None]:
        """The rule for the axis itself: (result, where the axis is in it, None if all elements get the same)."""
        if self.kind == "index":
            return iota((size,), 0, np.int32), 0
        (x,), (dim,) = args, dims
        if dim is None:
            if self.kind in ("max", "min"):
                return x, None
            if self.kind == "sum":
                return mul(x, extent_value(size, aval_of_argument(x).dtype)), None
        return _RULES[self.kind](self, move_to_front(x, dim) if dim is not None else spread(x, None, size))


def _gathered(p: Collective, x: ArrayLike) -> tuple[Result, int | None]:
    order = list(range(1, aval_of_argument(x).ndim))
    order.insert(p.at, 0)
    return transpose(x, order), None


def _scattered(p: Collective, x: ArrayLike) -> tuple[Result, int | None]:
    return reduce_sum(x, (0,)), p.at


def _exchanged(p: Collective, x: ArrayLike) -> tuple[Result, int | None]:
    order = list(range(1, aval_of_argument(x).ndim))
    mine = order.pop(p.at)
    order.insert(p.to, 0)
    return transpose(x, [mine, *order]), 0


def _permuted(p: Collective, x: ArrayLike) -> tuple[Result, int | None]:
    sources = np.array(p.sources, np.int64)
    found = gather(x, (0,), (np.maximum(sources, 0),))
    if (sources >= 0).all():
        return found, 0
    shape = aval_of_argument(found).shape
    zeros = broadcast_in_dim(aval_of_argument(x).dtype.type(0), shape, ())
    return select(broadcast_in_dim(sources >= 0, shape, (0,)), found, zeros), 0


_RULES: dict[str, Callable[[Collective, ArrayLike], tuple[Result, int | None]]] = {
    "sum": lambda _, x: (reduce_sum(x, (0,)), None),
    "max": lambda _, x: (reduce_max(x, (0,)), None),
    "min": lambda _, x: (reduce_min(x, (0,)), None),
    "gather": _gathered,
    "scatter_sum": _scattered,
    "exchange": _exchanged,
    "permute": _permuted,
}
