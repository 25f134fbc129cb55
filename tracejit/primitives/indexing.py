"""Reading and writing elements at computed indices: gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir import ranges as ranges_of
from tracejit.ir.extents import Extent, Shape
from tracejit.ir.forms import Form, FormBuilder, Operand, Scatter as ScatterForm
from tracejit.ir.kernel import Const, Operand as Scalar, index_const
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.types import ShapedArray
from tracejit.primitives.arithmetic import Maximum, Minimum
from tracejit.primitives.comparison import Eq
from tracejit.primitives.creation import extent_value, filled_tangents, full, iota
from tracejit.primitives.elementwise import add, convert, div, mul, select
from tracejit.primitives.shape import broadcast_in_dim
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.batch import move_to_front, spread
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp as jvp_function
from tracejit.tracer.operators import PRIMITIVES
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["filled", "gather", "scatter"]


def clamped(x: ArrayLike, limit: Extent) -> Result:
    """Indices brought between 0 and a limit."""
    return bind(Maximum(), bind(Minimum(), convert(x, np.int64), extent_value(limit, np.int64)), np.int64(0))


def _check_indices(name: str, x: ShapedArray, axes: tuple[int, ...], indices: Sequence[ShapedArray]) -> None:
    if len(indices) != len(axes) or any(not 0 <= a < x.ndim for a in axes) or len(set(axes)) != len(axes):
        raise ShapeError(f"[{name}] {len(indices)} index arrays for axes {axes} of {x}")
    for i in indices:
        if i.dtype.kind not in "iu":
            raise DtypeError(f"[{name}] an index array is {i}; indices are integers")
        if i.shape != indices[0].shape:
            raise ShapeError(f"[{name}] index arrays differ in shape: {i} and {indices[0]}")


def _rest(shape: Shape, axes: tuple[int, ...]) -> list[int]:
    return [d for d in range(len(shape)) if d not in axes]


@frozen(eq=False)
class Gather(Primitive):
    """Elements of x at index arrays over `axes`.   x: [*s], one int[*b] per axis -> [*b, *s without axes]

    Indices outside are clamped; with `fill` their elements are 0.
    """

    name = "gather"
    gives_view = True  # of diagonals and windows
    axes: tuple[int, ...]
    fill: bool = False

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        x, *indices = avals
        _check_indices(self.name, x, self.axes, indices)
        return ShapedArray((*indices[0].shape, *[x.shape[d] for d in _rest(x.shape, self.axes)]), x.dtype)

    def impl(self, *args: ArrayLike) -> Result:
        x, *indices = map(np.asarray, args)
        index: list[Any] = [slice(None)] * x.ndim
        valid = np.ones(indices[0].shape, np.bool_)
        for a, i in zip(self.axes, indices, strict=True):
            valid &= (i >= 0) & (i < x.shape[a])
            index[a] = np.clip(i, 0, max(x.shape[a] - 1, 0))
        moved = np.moveaxis(x, self.axes, range(len(self.axes)))
        out = (
            moved[tuple(index[a] for a in self.axes)]
            if moved.size or not valid.size
            else np.zeros(self._empty(x, indices), x.dtype)
        )
        if self.fill:
            out = np.where(valid.reshape(valid.shape + (1,) * (out.ndim - valid.ndim)), out, x.dtype.type(0))
        return out

    def _empty(self, x: ArrayLike, indices: IndexLike) -> tuple[int, ...]:
        return (*indices[0].shape, *[x.shape[d] for d in _rest(x.shape, self.axes)])

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        x, *indices = operands
        rank, rest = len(indices[0].shape), _rest(x.shape, self.axes)
        domain = b.out_avals[0].shape

        def body(i: Sequence[Scalar]) -> Scalar:
            at: list[Any] = [None] * len(x.shape)
            inside: Any = None
            for a, index in zip(self.axes, indices, strict=True):
                k = b.op("convert", index[tuple(i[:rank])], dtype="i64")
                limit = index_const(x.shape[a] - 1)
                if self.fill:
                    ok = b.op("and", b.op("ge", k, index_const(0)), b.op("le", k, limit))
                    inside = ok if inside is None else b.op("and", inside, ok)
                at[a] = b.op("max", b.op("min", k, limit), index_const(0))
            for d, k in zip(rest, i[rank:], strict=True):
                at[d] = k
            if any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in self.axes):
                return Const(0, x.dtype)
            value = x[tuple(at)]
            return b.op("select", inside, value, Const(0, x.dtype)) if self.fill else value

        return b.map(domain, body)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        t = tangents[0]
        return bind(self, *primals), None if t is None else bind(self, t, *primals[1:])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, *indices = args
        zeros = full(x.aval.shape, x.aval.dtype.type(0))
        if not self.fill:
            limits = [x.aval.shape[a] - 1 for a in self.axes]
            indices = [clamped(i, n) for i, n in zip(indices, limits, strict=True)]
        return [scatter(zeros, ct, self.axes, indices, "add"), *[None] * len(indices)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        x, *indices = args
        over_indices = any(d is not None for d in dims[1:])
        if not over_indices:
            out = bind(Gather(tuple(a + 1 for a in self.axes), self.fill), move_to_front(x, dims[0]), *indices)
            return out, len(shape_of(indices[0]))
        moved = [spread(i, d, size) for i, d in zip(indices, dims[1:], strict=True)]
        if dims[0] is None:
            return bind(self, x, *moved), 0
        lanes = iota(shape_of(moved[0]), 0, np.int64)
        return bind(Gather((0, *[a + 1 for a in self.axes]), self.fill), move_to_front(x, dims[0]), lanes, *moved), 0

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.either(ranges[0], (0, 0)) if self.fill else ranges[0]


_COMBINING: dict[str, tuple[np.ufunc, str, str]] = {
    "add": (np.add, "add", "or"),
    "mul": (np.multiply, "mul", "and"),
    "min": (np.minimum, "min", "and"),
    "max": (np.maximum, "max", "or"),
    "and": (np.bitwise_and, "and", "and"),
    "or": (np.bitwise_or, "or", "or"),
    "xor": (np.bitwise_xor, "xor", "xor"),
}
"""How `Scatter` combines: NumPy's function, and the scalar operation of numbers and of bool."""


@frozen(eq=False)
class Scatter(Primitive):
    """`base` with `updates` set at index arrays over `axes`, or combined with what is there; in order, so that of equal
    targets the last one stays.  op: set, add, mul, min, max, and, or, xor

    base: [*s], updates: [*b, *s without axes], one int[*b] per axis -> [*s].  Indices outside are dropped.
    unique: no two indices name one element.
    """

    name = "scatter"
    changes_part = True
    axes: tuple[int, ...]
    op: str
    unique: bool = False

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        base, updates, *indices = avals
        _check_indices(self.name, base, self.axes, indices)
        want = (*indices[0].shape, *[base.shape[d] for d in _rest(base.shape, self.axes)])
        if updates.shape != want or updates.dtype != base.dtype:
            raise ShapeError(f"[{self.name}] updates are {updates}, not {base.with_shape(want)}")
        if self.op != "set" and self.op not in _COMBINING:
            raise ShapeError(f"[{self.name}] unknown operation {self.op!r}; known are set, {', '.join(_COMBINING)}")
        if self.op in ("and", "or", "xor") and base.dtype.kind not in "biu":
            raise DtypeError(f"[{self.name}] {self.op} takes integers and bool, not {base}")
        if self.op in ("min", "max") and base.dtype.kind == "c":
            raise DtypeError(f"[{self.name}] {self.op} takes real numbers, not {base}")
        return base.strong()

    def impl(self, *args: ArrayLike) -> Result:
        base, updates, *indices = map(np.asarray, args)
        out = np.array(base)
        valid = np.ones(indices[0].shape, np.bool_)
        for a, i in zip(self.axes, indices, strict=True):
            valid &= (i >= 0) & (i < base.shape[a])
        moved = np.moveaxis(out, self.axes, range(len(self.axes)))
        at = tuple(i[valid] for i in indices)
        with np.errstate(all="ignore"):
            if self.op == "set":
                moved[at] = updates[valid]
            else:
                _COMBINING[self.op][0].at(moved, at, updates[valid])
        return out

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        base, updates, *indices = operands
        rank, rest = len(indices[0].shape), _rest(base.shape, self.axes)

        def body(i: Sequence[Scalar]) -> tuple[Scalar, ...]:
            at: list[Any] = [None] * len(base.shape)
            inside: Any = None
            for a, index in zip(self.axes, indices, strict=True):
                k = b.op("convert", index[tuple(i[:rank])], dtype="i64")
                ok = b.op("and", b.op("ge", k, index_const(0)), b.op("lt", k, index_const(base.shape[a])))
                inside = ok if inside is None else b.op("and", inside, ok)
                at[a] = k
            for d, k in zip(rest, i[rank:], strict=True):
                at[d] = k
            return (*at, inside if inside is not None else Const(True, "bool"), updates[tuple(i)])

        combine = None if self.op == "set" else b.combiner([base.dtype], self._combined)
        return ScatterForm(base.shape, updates.shape, b.body(len(updates.shape), body), combine)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        if tangents[0] is None and tangents[1] is None:
            return out, None
        if self.op == "mul":
            return out, self._tangent_of_product(primals, tangents)
        if self.op in ("min", "max"):
            return out, self._tangent_of_extremum(out, primals, tangents)
        return out, bind(self, *filled_tangents(tangents[:2], primals[:2]), *primals[2:])

    def _combined(self, r: Any, acc: Sequence[Scalar], e: Sequence[Scalar]) -> Scalar:
        _, op, of_bool = _COMBINING[self.op]
        old, new = acc[0], e[0]
        if old.dtype == "bool":
            return r.op(of_bool, old, new)
        swapped = self.op in ("min", "max") and old.dtype == "f16"  # of zeros of both signs as NumPy has it
        return r.op(op, new, old) if swapped else r.op(op, old, new)

    def _tangent_of_product(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> Result:
        """The base's tangent times all factors; each factor's times the others of its element, in any order if none
        shares one, else in those of the factors (`segments.py`).
        """
        base, updates, *indices = primals
        if tangents[1] is not None and not self.unique:
            _, (tangent,) = jvp_function(
                lambda x, y: [PRIMITIVES.product_by_segments(x, y, self.axes, indices)], [base, updates], tangents[:2]
            )
            return tangent
        total: Any = None
        if tangents[0] is not None:
            ones = full(shape_of(base), aval_of_argument(base).dtype.type(1))
            total = mul(tangents[0], bind(self, ones, updates, *indices))
        if tangents[1] is not None:
            zeros = full(shape_of(base), aval_of_argument(base).dtype.type(0))
            term = mul(tangents[1], gather(base, self.axes, indices, fill=True))
            term = scatter(zeros, term, self.axes, indices, "add", unique=True)
            total = term if total is None else add(total, term)
        return total

    def _tangent_of_extremum(
        self, out: ArrayLike, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]
    ) -> Result:
        """The mean of the tangents of all that are equal to the extremum.   Source: JAX's convention."""
        base, updates, *indices = primals
        dtype = aval_of_argument(base).dtype
        zero, zeros = dtype.type(0), full(shape_of(base), dtype.type(0))
        kept = bind(Eq(), base, out)
        new = bind(Eq(), updates, gather(out, self.axes, indices, fill=True))

        def summed(first: ArrayLike, others: ArrayLike) -> Result:
            return scatter(first, others, self.axes, indices, "add", unique=self.unique)

        of_base, of_updates = tangents[:2]
        picked = summed(
            zeros if of_base is None else select(kept, of_base, zero),
            full(shape_of(updates), zero) if of_updates is None else select(new, of_updates, zero),
        )
        return div(picked, summed(convert(kept, dtype), convert(new, dtype)))

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        base, updates, *indices = args
        none = [None] * len(indices)
        if self.op == "add":
            return [
                ct if isinstance(base, UndefinedPrimal) else None,
                gather(ct, self.axes, indices, fill=True) if isinstance(updates, UndefinedPrimal) else None,
                *none,
            ]
        first = second = None
        if isinstance(base, UndefinedPrimal):
            first = bind(self, ct, full(shape_of(updates), aval_of_argument(ct).dtype.type(0)), *indices)
        if isinstance(updates, UndefinedPrimal):
            second = (
                gather(ct, self.axes, indices, fill=True)
                if self.unique
                else self._of_winners(ct, shape_of(updates), indices)
            )
        return [first, second, *none]

    def _of_winners(self, ct: ArrayLike, shape: Shape, indices: Sequence[IndexLike]) -> Result:
        """The cotangent of the updates that stayed: of equal targets only the last one was kept."""
        batch = shape_of(indices[0])
        if not batch:
            return gather(ct, self.axes, indices, fill=True)
        number: Any = np.int64(0)
        for d in range(len(batch)):
            number = add(mul(number, extent_value(batch[d], np.int64)), iota(batch, d, np.int64))
        kept = tuple(range(len(batch)))
        owner = scatter(
            full(shape_of(ct), np.int64(-1)), broadcast_in_dim(number, shape, kept), self.axes, indices, "set"
        )
        won = bind(Eq(), gather(owner, self.axes, indices, fill=True), broadcast_in_dim(number, shape, kept))
        return select(won, gather(ct, self.axes, indices, fill=True), aval_of_argument(ct).dtype.type(0))

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        base, updates, *indices = args
        base, updates = spread(base, dims[0], size), spread(updates, dims[1], size)
        moved = [spread(i, d, size) for i, d in zip(indices, dims[2:], strict=True)]
        lanes = iota(shape_of(moved[0]), 0, np.int64)
        over = (0, *[a + 1 for a in self.axes])
        return bind(Scatter(over, self.op, self.unique), base, updates, lanes, *moved), 0


def gather(x: ArrayLike, axes: tuple[int, ...], indices: Sequence[IndexLike], *, fill: bool = False) -> Result:
    """The elements of x at `indices` along `axes`; with `fill` zero for those out of range."""
    return bind(Gather(tuple(axes), fill), x, *indices)


def filled(out: ArrayLike, valid: ArrayLike, fill_value: ArrayLike = None) -> Result:
    """What was gathered with `valid` over its first axes; where that does not hold a value of its dtype: by default
    NaN, the least signed and the greatest unsigned integer, True.

    Source: JAX's lax.gather.
    """
    have = aval_of_argument(out)
    value: Any = fill_value
    if value is None and have.dtype.kind in "iu":
        limits = np.iinfo(have.dtype)
        value = have.dtype.type(limits.min if have.dtype.kind == "i" else limits.max)
    elif value is None:
        value = have.dtype.type(True if have.dtype.kind == "b" else np.nan)
    rank = len(shape_of(valid))
    wide = valid if rank == have.ndim else broadcast_in_dim(valid, have.shape, tuple(range(rank)))
    return select(wide, out, value)


def scatter(
    base: ArrayLike,
    updates: ArrayLike,
    axes: tuple[int, ...],
    indices: Sequence[IndexLike],
    op: str = "set",
    *,
    unique: bool = False,
) -> Result:
    """`base` with `updates` combined by `op` into the elements at `indices` along `axes`;
    `unique`: no two indices name one element.
    """
    return bind(Scatter(tuple(axes), op, unique), base, updates, *indices)
