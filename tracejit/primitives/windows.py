"""Windows that slide along axes of an array, and the sum of windows where they overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape, is_one, prod, same_shape
from tracejit.ir.forms import Form, FormBuilder, Operand
from tracejit.ir.kernel import Const, Operand as Scalar, index_const
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.types import ShapedArray
from tracejit.primitives.comparison import Eq
from tracejit.primitives.creation import full, iota
from tracejit.primitives.elementwise import select
from tracejit.primitives.reduction import ArgMax, ArgMin, ReduceMax, ReduceMin, reduce_sum, wider
from tracejit.primitives.shape import broadcast_in_dim, reshape, slice_array, transpose
from tracejit.primitives.slicing import update_slice
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["FirstMax", "FirstMin", "WindowSum", "Windows", "window_count", "surrounded", "windows"]


def window_count(n: Extent, size: Extent, stride: Extent, dilation: Extent) -> Extent:
    """How many windows of `size` elements, `dilation` apart, begin every `stride` elements of n and lie inside."""
    span = (size - 1) * dilation + 1
    return 0 if span > n else (n - span) // stride + 1


def dilated(n: Extent, dilation: Extent) -> Extent:
    """How far n elements reach that lie `dilation` apart."""
    if isinstance(n, int):
        return 0 if n == 0 else (n - 1) * dilation + 1
    return n if is_one(dilation) else (n - 1) * dilation + 1


@frozen(eq=False)
class Windows(Primitive):
    """Element k of window i along each of `axes`: `x[..., i * stride + k * dilation, ...]`.

    x: [*s] -> [*s with numbers of windows, *sizes]
    """

    name = "windows"
    axes: tuple[int, ...]
    sizes: Shape
    strides: tuple[Extent, ...]
    dilations: tuple[Extent, ...]

    def _counts(self, shape: Shape) -> list[Extent]:
        counts = list(shape)
        for a, k, s, d in zip(self.axes, self.sizes, self.strides, self.dilations, strict=True):
            counts[a] = window_count(shape[a], k, s, d)
        return counts

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if len(set(self.axes)) != len(self.axes) or any(not 0 <= a < x.ndim for a in self.axes):
            raise ShapeError(f"[{self.name}] axes {self.axes} are not axes of {x}")
        if any(isinstance(n, int) and n < 1 for n in (*self.sizes, *self.strides, *self.dilations)):
            raise ShapeError(
                f"[{self.name}] windows of {self.sizes} elements with strides {self.strides} and dilations "
                f"{self.dilations}: all are at least 1"
            )
        return x.with_shape((*self._counts(x.shape), *self.sizes)).strong()

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        index: list[Any] = []
        counts: list[Any] = self._counts(x.shape)
        rank, sizes = x.ndim + len(self.sizes), tuple[Any, ...](self.sizes)
        for d, n in enumerate(counts):
            at = np.arange(n).reshape([-1 if e == d else 1 for e in range(rank)])
            if d in self.axes:
                j = self.axes.index(d)
                k = np.arange(sizes[j]).reshape([-1 if e == x.ndim + j else 1 for e in range(rank)])
                at = at * self.strides[j] + k * self.dilations[j]
            index.append(at)
        shape = (*counts, *sizes)
        return x[tuple(index)] if 0 not in shape else np.zeros(shape, x.dtype)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        rank = len(x.shape)

        def element(i: Sequence[Scalar]) -> Result:
            at = list(i[:rank])
            for a, k, s, d in zip(self.axes, i[rank:], self.strides, self.dilations, strict=True):
                at[a] = b.op("add", b.op("mul", at[a], index_const(s)), b.op("mul", k, index_const(d)))
            return x[tuple(at)]

        return b.map(b.out_avals[0].shape, element)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), None if t is None else bind(self, t)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        extents = tuple([shape_of(args[0])[a] for a in self.axes])
        return [bind(WindowSum(self.axes, self.sizes, self.strides, self.dilations, extents), ct)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        up = tuple([a + 1 for a in self.axes])
        return bind(Windows(up, self.sizes, self.strides, self.dilations), move_to_front(args[0], dims[0])), 0

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges[0]


@frozen(eq=False)
class WindowSum(Primitive):
    """Windows added where they overlap: what `Windows` is transposed.  `extents`: of the result, along `axes`.

    x: [*s with numbers of windows, *sizes] -> [*s]
    """

    name = "window_sum"
    axes: tuple[int, ...]
    sizes: Shape
    strides: tuple[Extent, ...]
    dilations: tuple[Extent, ...]
    extents: Shape

    def _shape(self, shape: Shape) -> list[Extent]:
        out = list(shape[: len(shape) - len(self.sizes)])
        for a, n in zip(self.axes, self.extents, strict=True):
            out[a] = n
        return out

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if x.dtype == np.bool_:
            raise DtypeError(f"[{self.name}] does not accept bool; convert it to an integer type first")
        if x.ndim < 2 * len(self.sizes):
            raise ShapeError(f"[{self.name}] {x} are no windows of {self.sizes} elements")
        return x.with_shape(self._shape(x.shape)).strong()

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        rank = x.ndim - len(self.sizes)
        wide = np.float32 if x.dtype == np.float16 else x.dtype
        out = np.zeros(self._shape(x.shape), wide)  # type: ignore[arg-type]
        for k in np.ndindex(*x.shape[rank:]):
            at = [slice(None)] * rank
            for a, j, s, d in zip(self.axes, k, self.strides, self.dilations, strict=True):
                at[a] = slice(j * d, j * d + x.shape[a] * s, s)  # type: ignore[operator]
                at[a] = slice(at[a].start, min(at[a].stop, at[a].start + (x.shape[a] - 1) * s + 1), s)  # type: ignore[operator]
            with np.errstate(all="ignore"):
                out[tuple(at)] += x[(..., *k)]
        return out.astype(x.dtype)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        rank, dtype = len(x.shape) - len(self.sizes), wider(x.dtype)
        domain = b.out_avals[0].shape
        nothing = any(isinstance(n, int) and n == 0 for n in x.shape)

        def element(i: Sequence[Scalar], k: Sequence[Scalar]) -> Result:
            if nothing:
                return b.const(0, dtype)
            at: list[Scalar] = list(i)
            inside: Scalar | None = None
            for a, j, s, d in zip(self.axes, k, self.strides, self.dilations, strict=True):
                start = b.op("sub", i[a], b.op("mul", j, index_const(d)))
                first, step = b.op("max", start, index_const(0)), index_const(s)
                at[a] = first if s == 1 else b.op("idiv", first, step)
                tests = [b.op("ge", start, index_const(0)), b.op("lt", at[a], index_const(x.shape[a]))]
                if s != 1:
                    tests.append(b.op("eq", b.op("irem", first, step), index_const(0)))
                for test in tests:
                    inside = test if inside is None else b.op("and", inside, test)
                at[a] = b.op("min", at[a], index_const(x.shape[a] - 1))
            value = b.op("convert", x[(*at, *k)], dtype=dtype)
            return value if inside is None else b.op("select", inside, value, Const(0, dtype))

        return b.reduce(
            domain,
            x.shape[rank:],
            element,
            [Const(0, dtype)],
            lambda r, acc, e: r.op("add", acc[0], e[0]),
            None if dtype == x.dtype else (lambda r, acc: r.op("convert", acc, dtype=x.dtype)),
        )

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), None if t is None else bind(self, t)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [bind(Windows(self.axes, self.sizes, self.strides, self.dilations), ct)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        up = tuple([a + 1 for a in self.axes])
        same = WindowSum(up, self.sizes, self.strides, self.dilations, self.extents)
        return bind(same, move_to_front(args[0], dims[0])), 0


class _First:
    """An extremum whose tangent is that of the first element which attains it.

    Source: XLA's SelectAndScatter with `ge` or `le`, by which JAX differentiates pooling.
    """

    axes: tuple[int, ...]

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (x,), (t,) = primals, tangents
        out = bind(self, x)  # type: ignore[arg-type]
        if t is None:
            return out, None
        shape = shape_of(x)
        kept = [d for d in range(len(shape)) if d not in self.axes]
        order, last = (*kept, *sorted(self.axes)), len(kept)
        flat = (*[shape[d] for d in kept], prod([shape[a] for a in self.axes]))
        rows, slopes = (reshape(transpose(y, order), flat) for y in (x, t))
        place = bind((ArgMax if isinstance(self, ReduceMax) else ArgMin)(last), rows)
        there = bind(Eq(), iota(flat, last, np.int64), broadcast_in_dim(place, flat, tuple(range(last))))
        return out, reduce_sum(select(there, slopes, aval_of_argument(t).dtype.type(0)), (last,))


@frozen(eq=False)
class FirstMax(_First, ReduceMax):
    """The maximum over `axes`, as `reduce_max`; the first element that attains it has the derivative."""

    name = "first_max"
    axes: tuple[int, ...]


@frozen(eq=False)
class FirstMin(_First, ReduceMin):
    """The minimum over `axes`, as `reduce_min`; the first element that attains it has the derivative."""

    name = "first_min"
    axes: tuple[int, ...]


def windows(
    x: ArrayLike,
    axes: Sequence[int],
    sizes: Sequence[Extent],
    strides: Sequence[Extent] | None = None,
    dilations: Sequence[Extent] | None = None,
) -> Result:
    """Windows of `sizes` along `axes` of x, behind its axes."""
    ones = (1,) * len(axes)
    return bind(Windows(tuple(axes), tuple(sizes), tuple(strides or ones), tuple(dilations or ones)), x)


def surrounded(
    x: ArrayLike, value: ArrayLike, widths: Sequence[tuple[Extent, Extent]], dilations: Sequence[Extent]
) -> Result:
    """x with `dilation - 1` times a value between its elements and widths (low, high) around them, along each axis; a
    negative width cuts.

    This is an array in memory: windows that overlap, and products that pack them, would decide for each element
    again whether it is one of x.
    """
    shape = shape_of(x)
    low, high = [[_positive(w[side]) for w in widths] for side in (0, 1)]
    reach = [dilated(n, d) for n, d in zip(shape, dilations, strict=True)]
    if not all(is_one(d) for d in dilations) or any(not isinstance(n, int) or n for n in (*low, *high)):
        whole = tuple([a + n + b for a, n, b in zip(low, reach, high, strict=True)])
        x = update_slice(full(whole, value), x, tuple(low), tuple(dilations))  # type: ignore[arg-type]
    begin = tuple([a - w[0] for a, w in zip(low, widths, strict=True)])
    extents = tuple([w[0] + n + w[1] for n, w in zip(reach, widths, strict=True)])
    extents = tuple([max(n, 0) if isinstance(n, int) else n for n in extents])
    return x if same_shape(extents, shape_of(x)) else slice_array(x, begin, extents)


def _positive(n: Extent) -> Extent:
    return max(n, 0) if isinstance(n, int) else n
