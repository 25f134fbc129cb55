"""Reading and writing parts of arrays: update_slice, dynamic_slice, dynamic_update_slice, gather, scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir import ranges as ranges_of
from tracejit.ir.extents import Extent, Shape, same_extent
from tracejit.ir.forms import Form, FormBuilder, Operand, Scatter as ScatterForm, Update
from tracejit.ir.kernel import Const, index_const
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.types import ShapedArray
from tracejit.primitives.arithmetic import Maximum, Minimum
from tracejit.primitives.comparison import Eq
from tracejit.primitives.creation import extent_value, full, iota
from tracejit.primitives.elementwise import add, convert, mul, select
from tracejit.primitives.shape import broadcast_in_dim, check_inside, slice_array
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.interpreter import bind
from tracejit.tracer.stage import aval_of_argument
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["dynamic_slice", "dynamic_update_slice", "gather", "scatter", "update_slice"]


def _zeros_like(x: ArrayLike) -> Result:
    aval = aval_of_argument(x)
    return full(aval.shape, aval.dtype.type(0))


def _filled(tangents: Sequence[ArrayLike], primals: Sequence[ArrayLike]) -> list[Result]:
    return [_zeros_like(p) if t is None else t for t, p in zip(tangents, primals, strict=True)]


def _batched(x: ArrayLike, axis: int | None, size: Extent) -> Result:
    """x with the mapped axis in front, repeated if it has none."""
    if axis is not None:
        return move_to_front(x, axis)
    shape = shape_of(x)
    return broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))


@frozen(eq=False)
class UpdateSlice(Primitive):
    """`base` with `update` at start, start + step, ...   base: [*s], update: [*r] -> [*s]"""

    name = "update_slice"
    start: Shape
    step: tuple[int, ...]

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        base, update = avals
        if base.ndim != update.ndim or base.dtype != update.dtype:
            raise ShapeError(f"[{self.name}] {update} cannot be written into {base}")
        check_inside(self.name, base, self.start, update.shape, self.step)
        return base.strong()

    def _index(self, shape: Shape) -> tuple[slice, ...]:
        out: list[slice] = []
        for a, n, k in zip(self.start, shape, self.step, strict=True):
            stop = a + n * k
            out.append(slice(a, None if k < 0 and stop < 0 else stop, k))
        return tuple(out)

    def impl(self, *args: ArrayLike) -> Result:
        base, update = args
        out = np.array(base)
        out[self._index(np.shape(update))] = update
        return out

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        base, update = operands
        start = b.body(0, lambda _: tuple(index_const(a) for a in self.start))
        return Update(base.shape, update.shape, start, self.step, b.body(len(update.shape), lambda i: update[i]))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        return out, None if all(t is None for t in tangents) else bind(self, *_filled(tangents, primals))

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        base, update = args
        shape = shape_of(update)
        return [
            bind(self, ct, full(shape, aval_of_argument(ct).dtype.type(0)))
            if isinstance(base, UndefinedPrimal)
            else None,
            slice_array(ct, self.start, shape, self.step) if isinstance(update, UndefinedPrimal) else None,
        ]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        base, update = (_batched(a, d, size) for a, d in zip(args, dims, strict=True))
        return bind(UpdateSlice((0, *self.start), (1, *self.step)), base, update), 0


def _clamped(b: ArrayLike, start: ArrayLike, extent: Extent, size: Extent) -> Result:
    """A start limited so that `size` elements from it lie inside `extent`."""
    start = b.op("convert", start, dtype="i64")
    return b.op("max", b.op("min", start, index_const(extent - size)), index_const(0))


def _start_values(starts: Sequence[ArrayLike], shape: Shape, sizes: Shape) -> list[int]:
    return [max(0, min(int(s), n - m)) for s, n, m in zip(starts, shape, sizes, strict=True)]  # type: ignore[operator,type-var]


def _is_zero(n: Extent) -> bool:
    return isinstance(n, int) and n == 0


def _check_starts(name: str, x: ShapedArray, starts: Sequence[ShapedArray], block: Shape) -> None:
    if len(starts) != x.ndim or len(block) != x.ndim:
        raise ShapeError(
            f"[{name}] {x} has {x.ndim} axes but {len(starts)} starts and a block of {len(block)} axes are given"
        )
    for d, (n, m) in enumerate(zip(x.shape, block, strict=True)):
        # Clamping the start would not bring a larger block inside.  One element of none is asked for by loops that
        # never run.
        if not same_extent(m, n) and (m < 0 or m > n) and not (_is_zero(n) and same_extent(m, 1)):
            raise ShapeError(f"[{name}] a block of {m} elements does not fit axis {d} of {x}")
    for s in starts:
        if s.shape or s.dtype.kind not in "iu":
            raise DtypeError(f"[{name}] a start is {s}, not an integer scalar")


@frozen(eq=False)
class DynamicSlice(Primitive):
    """`shape` elements of x from starts that are computed, clamped so that all lie inside.   x: [*s], starts:
    int[] each -> [*shape]
    """

    name = "dynamic_slice"
    gives_view = True
    shape: Shape

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        _check_starts(self.name, avals[0], avals[1:], self.shape)
        return avals[0].with_shape(self.shape).strong()

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        if 0 in x.shape:
            return np.zeros(self.shape, x.dtype)  # type: ignore[arg-type]
        starts = _start_values(args[1:], x.shape, self.shape)
        return x[tuple(slice(a, a + n) for a, n in zip(starts, self.shape, strict=True))]  # type: ignore[operator]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        x, *starts = operands
        if any(map(_is_zero, x.shape)):
            return b.map(self.shape, lambda i: Const(0, x.dtype))
        return b.map(
            self.shape,
            lambda i: x[
                tuple(
                    b.op("add", _clamped(b, s[()], n, m), k)
                    for s, n, m, k in zip(starts, x.shape, self.shape, i, strict=True)
                )
            ],
        )

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        t = tangents[0]
        return bind(self, *primals), None if t is None else bind(self, t, *primals[1:])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, *starts = args
        zeros = full(x.aval.shape, x.aval.dtype.type(0))
        return [dynamic_update_slice(zeros, ct, starts), *[None] * len(starts)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        x, *starts = args
        if all(d is None for d in dims[1:]):
            zero = np.int64(0)
            return bind(DynamicSlice((size, *self.shape)), move_to_front(x, dims[0]), zero, *starts), 0
        # One start per element: a gather over all axes.
        shape = shape_of(x)
        inner = shape if dims[0] is None else shape_of(move_to_front(x, dims[0]))[1:]
        wide = (size, *self.shape)
        indices: list[Any] = []
        for k, (s, d, n, m) in enumerate(zip(starts, dims[1:], inner, self.shape, strict=True)):
            first = convert(_batched(s, d, size), np.int64)
            limit = extent_value(n - m, np.int64)
            first = bind(Maximum(), bind(Minimum(), first, limit), np.int64(0))
            indices.append(add(broadcast_in_dim(first, wide, (0,)), iota(wide, k + 1, np.int64)))
        if dims[0] is None:
            return gather(x, tuple(range(len(inner))), indices), 0
        return gather(move_to_front(x, dims[0]), tuple(range(len(inner) + 1)), [iota(wide, 0, np.int64), *indices]), 0

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges[0]


@frozen(eq=False)
class DynamicUpdateSlice(Primitive):
    """`base` with `update` written at computed starts, clamped so that all of it lies inside.

    base: [*s], update: [*r], starts: int[] each
    """

    name = "dynamic_update_slice"

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        base, update, *starts = avals
        if base.ndim != update.ndim or base.dtype != update.dtype:
            raise ShapeError(f"[{self.name}] {update} cannot be written into {base}")
        _check_starts(self.name, base, starts, update.shape)
        return base.strong()

    def impl(self, *args: ArrayLike) -> Result:
        base, update, *starts = args
        out = np.array(base)
        update = np.asarray(update)
        if not out.size:
            return out
        at = _start_values(starts, out.shape, update.shape)
        out[tuple(slice(a, a + n) for a, n in zip(at, update.shape, strict=True))] = update
        return out

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        base, update, *starts = operands
        if any(map(_is_zero, base.shape)):
            return b.map(base.shape, lambda i: base[i])
        start = b.body(
            0,
            lambda _: tuple(_clamped(b, s[()], n, m) for s, n, m in zip(starts, base.shape, update.shape, strict=True)),
        )
        return Update(
            base.shape, update.shape, start, (1,) * len(base.shape), b.body(len(update.shape), lambda i: update[i])
        )

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        if tangents[0] is None and tangents[1] is None:
            return out, None
        return out, bind(self, *_filled(tangents[:2], primals[:2]), *primals[2:])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        base, update, *starts = args
        shape = shape_of(update)
        return [
            bind(self, ct, full(shape, aval_of_argument(ct).dtype.type(0)), *starts)
            if isinstance(base, UndefinedPrimal)
            else None,
            dynamic_slice(ct, starts, shape) if isinstance(update, UndefinedPrimal) else None,
            *[None] * len(starts),
        ]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        base, update, *starts = args
        base, update = _batched(base, dims[0], size), _batched(update, dims[1], size)
        if all(d is None for d in dims[2:]):
            return bind(self, base, update, np.int64(0), *starts), 0
        region = shape_of(update)
        indices: list[Any] = [iota(region, 0, np.int64)]
        for k, (s, d, n, m) in enumerate(zip(starts, dims[2:], shape_of(base)[1:], region[1:], strict=True)):
            first = convert(_batched(s, d, size), np.int64)
            first = bind(Maximum(), bind(Minimum(), first, extent_value(n - m, np.int64)), np.int64(0))
            indices.append(add(broadcast_in_dim(first, region, (0,)), iota(region, k + 1, np.int64)))
        return scatter(base, update, tuple(range(len(region))), indices, "set"), 0


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

        def body(i: Sequence[ArrayLike]) -> Result:
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
            indices = [
                bind(Maximum(), bind(Minimum(), convert(i, np.int64), extent_value(n, np.int64)), np.int64(0))
                for i, n in zip(indices, limits, strict=True)
            ]
        return [scatter(zeros, ct, self.axes, indices, "add"), *[None] * len(indices)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        x, *indices = args
        over_indices = any(d is not None for d in dims[1:])
        if not over_indices:
            out = bind(Gather(tuple(a + 1 for a in self.axes), self.fill), move_to_front(x, dims[0]), *indices)
            return out, len(shape_of(indices[0]))
        moved = [_batched(i, d, size) for i, d in zip(indices, dims[1:], strict=True)]
        if dims[0] is None:
            return bind(self, x, *moved), 0
        lanes = iota(shape_of(moved[0]), 0, np.int64)
        return bind(Gather((0, *[a + 1 for a in self.axes]), self.fill), move_to_front(x, dims[0]), lanes, *moved), 0

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.either(ranges[0], (0, 0)) if self.fill else ranges[0]


@frozen(eq=False)
class Scatter(Primitive):
    """`base` with `updates` set or added at index arrays over `axes`;
    in order, so that of equal targets the last one stays.

    base: [*s], updates: [*b, *s without axes], one int[*b] per axis -> [*s].  Indices outside are dropped.
    """

    name = "scatter"
    axes: tuple[int, ...]
    op: str

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        base, updates, *indices = avals
        _check_indices(self.name, base, self.axes, indices)
        want = (*indices[0].shape, *[base.shape[d] for d in _rest(base.shape, self.axes)])
        if updates.shape != want or updates.dtype != base.dtype:
            raise ShapeError(f"[{self.name}] updates are {updates}, not {base.with_shape(want)}")
        if self.op not in ("set", "add"):
            raise ShapeError(f"[{self.name}] unknown operation {self.op!r}; known are set and add")
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
            if self.op == "add":
                np.add.at(moved, at, updates[valid])
            else:
                moved[at] = updates[valid]
        return out

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        base, updates, *indices = operands
        rank, rest = len(indices[0].shape), _rest(base.shape, self.axes)

        def body(i: Sequence[ArrayLike]) -> Result:
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

        combine = (
            b.combiner([base.dtype], lambda r, acc, e: r.op("or" if base.dtype == "bool" else "add", acc[0], e[0]))
            if self.op == "add"
            else None
        )
        return ScatterForm(base.shape, updates.shape, b.body(len(updates.shape), body), combine)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        if tangents[0] is None and tangents[1] is None:
            return out, None
        return out, bind(self, *_filled(tangents[:2], primals[:2]), *primals[2:])

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
            second = self._of_winners(ct, shape_of(updates), indices)
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
        base, updates = _batched(base, dims[0], size), _batched(updates, dims[1], size)
        moved = [_batched(i, d, size) for i, d in zip(indices, dims[2:], strict=True)]
        lanes = iota(shape_of(moved[0]), 0, np.int64)
        return bind(Scatter((0, *[a + 1 for a in self.axes]), self.op), base, updates, lanes, *moved), 0


# -- shorthands --------------------------------------------------------------------------------------------------------
def update_slice(base: ArrayLike, update: ArrayLike, start: Shape, step: tuple[int, ...] | None = None) -> Result:
    """`base` with `update` written at `start` with `step`."""
    return bind(UpdateSlice(tuple(start), tuple(step or (1,) * len(tuple(start)))), base, update)


def dynamic_slice(x: ArrayLike, starts: Sequence[ArrayLike], shape: Shape) -> Result:
    """`shape` elements from computed starts, clamped so that all of them lie inside."""
    return bind(DynamicSlice(tuple(shape)), x, *starts)


def dynamic_update_slice(base: ArrayLike, update: ArrayLike, starts: Sequence[ArrayLike]) -> Result:
    """`base` with `update` written at computed starts, clamped so that all of it lies inside."""
    return bind(DynamicUpdateSlice(), base, update, *starts)


def gather(x: ArrayLike, axes: tuple[int, ...], indices: Sequence[IndexLike], *, fill: bool = False) -> Result:
    """The elements of x at `indices` along `axes`; with `fill` zero for those out of range."""
    return bind(Gather(tuple(axes), fill), x, *indices)


def scatter(
    base: ArrayLike, updates: ArrayLike, axes: tuple[int, ...], indices: Sequence[IndexLike], op: str = "set"
) -> Result:
    """`base` with `updates` combined by `op` into the elements at `indices` along `axes`."""
    return bind(Scatter(tuple(axes), op), base, updates, *indices)
