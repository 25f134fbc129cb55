"""Sorts by keys that are integers: short rows by counting what comes before each element, long ones by digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape
from tracejit.ir.forms import FormBuilder
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.types import ShapedArray
from tracejit.primitives.comparison import And, Eq, Lt, Or, ShiftRight, Xor
from tracejit.primitives.creation import extent_value, full, iota
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.elementwise import Elementwise, Partials, add, convert, mul, sub
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.matrix_loops import dtype_of, index_loop, while_loop, zeros
from tracejit.primitives.reduction import reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, reshape
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = ["SortKey", "sorted_by_comparing", "sorted_by_digits"]


def _key_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    size = 4 if dtype == np.float16 else dtype.itemsize
    return np.dtype(f"u{size}")


@frozen(eq=False)
class SortKey(Elementwise):
    """An unsigned integer of x that is in the same order: one for all NaN, the greatest, and one for -0.0 and 0.0."""

    name = "sort_key"
    kinds = "biuf"

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return _key_dtype(avals[0].dtype)

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        return super().abstract_eval(*avals).strong()

    def impl(self, *args: ArrayLike) -> Result:
        x: Any = np.asarray(args[0])
        x = x.astype(np.float32) if x.dtype == np.float16 else x
        unsigned: Any = _key_dtype(x.dtype)
        if x.dtype.kind in "bu":
            return x.astype(unsigned)
        top = unsigned.type(1 << (8 * x.dtype.itemsize - 1))
        if x.dtype.kind == "i":
            return x.view(unsigned) ^ top
        bits = np.where(x == 0, x.dtype.type(0), x).view(unsigned)
        key = np.where(bits & top, ~bits, bits | top)
        return np.where(np.isnan(x), unsigned.type(np.iinfo(unsigned).max), key)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        (x,) = xs
        if x.dtype in ("bool", "f16"):
            x = b.op("convert", x, dtype="u8" if x.dtype == "bool" else "f32")
        width = int(x.dtype[1:])
        if x.dtype[0] == "u":
            return x
        signed, unsigned = f"i{width}", f"u{width}"
        top = b.const(-(1 << (width - 1)), signed)
        if x.dtype[0] == "i":
            return b.op("bitcast", b.op("xor", x, top), dtype=unsigned)
        zero = b.const(0.0, x.dtype)
        bits = b.op("bitcast", b.op("select", b.op("eq", x, zero), zero, x), dtype=signed)
        key = b.op("xor", bits, b.op("or", b.op("shr", bits, b.const(width - 1, signed)), top))
        key = b.op("select", b.op("ne", x, x), b.const(-1, signed), key)
        return b.op("bitcast", key, dtype=unsigned)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (None,)


def sorted_by_comparing(arrays: Sequence[ArrayLike], rows: Extent, n: Extent) -> list[Result]:
    """Rows of n elements each, flat one behind the other, in the order of the first array; equal elements stay so.

    The place of an element is how many come before it, of all pairs: vectors of comparisons, and no branch.
    """
    pairs = (rows, n, n)
    key = reshape(bind(SortKey(), arrays[0]), (rows, n))
    mine, other = broadcast_in_dim(key, pairs, (0, 1)), broadcast_in_dim(key, pairs, (0, 2))
    i, j = iota(pairs, 1, np.int64), iota(pairs, 2, np.int64)
    before = bind(Or(), bind(Lt(), other, mine), bind(And(), bind(Eq(), other, mine), bind(Lt(), j, i)))
    place = reduce_sum(convert(before, np.int64), (2,))
    begin = mul(iota((rows, n), 0, np.int64), broadcast_in_dim(extent_value(n, np.int64), (rows, n), ()))
    at = reshape(add(begin, place), _shape_of_flat(rows, n))
    return [scatter(zeros(_shape_of_flat(rows, n), dtype_of(x)), x, (0,), [at]) for x in arrays]


def sorted_by_digits(arrays: Sequence[ArrayLike], rows: Extent, n: Extent) -> list[Result]:
    """Rows of n elements each, flat one behind the other, in the order of the first array; equal elements stay so.

    Each pass counts how often every value of a digit occurs, and then moves the elements, in order, to where those
    with their digit begin; the next one moves them back.  Passes over digits that all keys have alike are left out.

    Source: least significant digit first, Knuth, The Art of Computer Programming, volume 3, 5.2.5.
    """
    spare = [zeros(_shape_of_flat(rows, n), dtype_of(x)) for x in arrays]
    if isinstance(rows, int) and rows == 1:
        return _row(list(arrays), spare, np.int64(0), n)[: len(arrays)]
    count = len(arrays)

    def body(_: Extent, i: ArrayLike, consts: Sequence[ArrayLike], carries: Sequence[ArrayLike]) -> list[Result]:
        return _row(carries[:count], carries[count:], mul(i, extent_value(n, np.int64)), n)

    return index_loop(rows, body, [*arrays, *spare])[:count]


def _shape_of_flat(rows: Extent, n: Extent) -> Shape:
    return (rows * n,)


def _row(arrays: Sequence[ArrayLike], spare: Sequence[ArrayLike], base: ArrayLike, n: Extent) -> list[Result]:
    """One row, which begins at `base`, sorted in place; the spare arrays behind."""
    count = len(arrays)
    key = _key_dtype(dtype_of(arrays[0]))
    bits = 8 * key.itemsize
    digit = 4 if bits == 8 else 8

    def differs(_: Extent, i: ArrayLike, consts: Sequence[ArrayLike], carries: Sequence[ArrayLike]) -> list[Result]:
        x, first, begin = consts
        mine = bind(SortKey(), gather(x, (0,), [add(begin, i)]))
        return [bind(Or(), carries[0], bind(Xor(), mine, first))]

    first = bind(SortKey(), gather(arrays[0], (0,), [base]))
    (varying,) = index_loop(n, differs, [key.type(0)], [arrays[0], first, base])

    def unsorted(v: ArrayLike, begin: ArrayLike, shift: ArrayLike, *_: ArrayLike) -> Result:
        return bind(Lt(), shift, np.int64(bits))

    def both(v: ArrayLike, begin: ArrayLike, shift: ArrayLike, *state: ArrayLike) -> list[Result]:
        there = _moved(state[:count], state[count:], begin, n, shift, digit)
        back = _moved(there, state[:count], begin, n, add(shift, np.int64(digit)), digit)
        return [_next_shift(v, add(shift, np.int64(2 * digit)), bits, digit), *back, *there]

    start = _next_shift(varying, np.int64(0), bits, digit)
    return while_loop(unsorted, both, [start, *arrays, *spare], [varying, base])[1:]


def _next_shift(varying: ArrayLike, shift: ArrayLike, bits: int, digit: int) -> Result:
    """From `shift` on where the next two digits are that not all keys have alike."""
    if bits <= 2 * digit:
        return shift

    def alike(v: ArrayLike, at: ArrayLike) -> Result:
        pair = _digit(v, at, 2 * digit)
        return bind(And(), bind(Lt(), at, np.int64(bits)), bind(Lt(), pair, np.int64(1)))

    def further(v: ArrayLike, at: ArrayLike) -> list[Result]:
        return [add(at, np.int64(2 * digit))]

    return while_loop(alike, further, [shift], [varying])[0]


def _digit(key: ArrayLike, shift: ArrayLike, width: int) -> Result:
    dtype = dtype_of(key)
    part = bind(And(), bind(ShiftRight(), key, convert(shift, dtype)), dtype.type((1 << width) - 1))
    return convert(part, np.int64)


def _moved(
    sources: Sequence[ArrayLike],
    targets: Sequence[ArrayLike],
    base: ArrayLike,
    n: Extent,
    shift: ArrayLike,
    width: int,
) -> list[Result]:
    """One pass: the row at `base` in the order of a digit of its keys, from one set of arrays to the other."""
    values = 1 << width
    one = np.int64(1)

    def digit_at(x: ArrayLike, at: ArrayLike, by: ArrayLike) -> Result:
        return _digit(bind(SortKey(), gather(x, (0,), [at])), by, width)

    def counted(_: Extent, i: ArrayLike, consts: Sequence[ArrayLike], carries: Sequence[ArrayLike]) -> list[Result]:
        x, begin, by = consts
        return [scatter(carries[0], one, (0,), [digit_at(x, add(begin, i), by)], "add")]

    def moved(_: Extent, i: ArrayLike, consts: Sequence[ArrayLike], carries: Sequence[ArrayLike]) -> list[Result]:
        *xs, begin, by = consts
        at = add(begin, i)
        d = digit_at(xs[0], at, by)
        place = gather(carries[0], (0,), [d])
        placed = [scatter(t, gather(x, (0,), [at]), (0,), [place]) for x, t in zip(xs, carries[1:], strict=True)]
        return [scatter(carries[0], add(place, one), (0,), [d]), *placed]

    (counts,) = index_loop(n, counted, [zeros((values,), np.dtype(np.int64))], [sources[0], base, shift])
    starts = add(sub(cumulative("cumsum", counts, 0), counts), full((values,), base))
    return index_loop(n, moved, [starts, *targets], [*sources, base, shift])[1:]
