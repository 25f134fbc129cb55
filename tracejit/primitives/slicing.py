"""Slices that are written, and slices that start at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape, exceeds, same_extent
from tracejit.ir.forms import Form, FormBuilder, Operand, Update
from tracejit.ir.kernel import Const, Operand as Scalar, index_const
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.types import ShapedArray
from tracejit.primitives.creation import filled_tangents, full, iota
from tracejit.primitives.elementwise import add
from tracejit.primitives.indexing import clamped, gather, scatter
from tracejit.primitives.shape import broadcast_in_dim, check_inside, slice_array
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front, spread
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["dynamic_slice", "dynamic_update_slice", "update_slice"]


@frozen(eq=False)
class UpdateSlice(Primitive):
    """`base` with `update` at start, start + step, ...   base: [*s], update: [*r] -> [*s]"""

    name = "update_slice"
    changes_part = True
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
        return out, None if all(t is None for t in tangents) else bind(self, *filled_tangents(tangents, primals))

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
        base, update = (spread(a, d, size) for a, d in zip(args, dims, strict=True))
        return bind(UpdateSlice((0, *self.start), (1, *self.step)), base, update), 0


def _clamped(b: FormBuilder, start: Scalar, extent: Extent, size: Extent) -> Scalar:
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
        if not same_extent(m, n) and (exceeds(0, m) or exceeds(m, n)) and not (exceeds(1, n) and same_extent(m, 1)):
            raise ShapeError(f"[{name}] a block of {m} elements does not fit axis {d} of {x}")
    for s in starts:
        if s.shape or s.dtype.kind not in "iu":
            raise DtypeError(f"[{name}] a start is {s}, not an integer scalar")


@frozen(eq=False)
class DynamicSlice(Primitive):
    """`shape` elements of x from starts that are computed, clamped so that all lie inside.

    x: [*s], starts: int[] each -> [*shape]
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
            first = clamped(spread(s, d, size), n - m)
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
    changes_part = True

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
        return out, bind(self, *filled_tangents(tangents[:2], primals[:2]), *primals[2:])

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
        base, update = spread(base, dims[0], size), spread(update, dims[1], size)
        if all(d is None for d in dims[2:]):
            return bind(self, base, update, np.int64(0), *starts), 0
        region = shape_of(update)
        indices: list[Any] = [iota(region, 0, np.int64)]
        for k, (s, d, n, m) in enumerate(zip(starts, dims[2:], shape_of(base)[1:], region[1:], strict=True)):
            first = clamped(spread(s, d, size), n - m)
            indices.append(add(broadcast_in_dim(first, region, (0,)), iota(region, k + 1, np.int64)))
        return scatter(base, update, tuple(range(len(region))), indices, "set"), 0


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
