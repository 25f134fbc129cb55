"""Sorting along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, prod, surely_at_most
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives.arithmetic import Minimum
from tracejit.primitives.branch import Cond
from tracejit.primitives.comparison import And, Eq, Ge, Lt, Ne, Not, Or
from tracejit.primitives.complex_numbers import imag, real
from tracejit.primitives.control_flow import staged_body
from tracejit.primitives.counted_loop import Loop
from tracejit.primitives.creation import extent_value, iota, zeros_of
from tracejit.primitives.elementwise import add, convert, mul, select, zero_like
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.radix import sorted_by_comparing, sorted_by_digits
from tracejit.primitives.shape import reshape, transpose
from tracejit.primitives.while_loop import While
from tracejit.support.errors import ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front, spread
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.stage import stage
from tracejit.tracer.transpose import shape_of

__all__ = ["Sort", "sort"]

LONG = 128
"""Elements from which on a row is sorted by the digits of its keys, rather than by comparing all of them."""


@frozen(eq=False)
class Sort(Primitive):
    """Operands of one shape, in the order that the first `keys` of them have along `axis`.

    The first key decides, then the second, and so on; equal elements stay in order.  NaN comes after all numbers,
    and -0.0 equals 0.0.
    """

    name = "sort"
    multiple_results = True
    axis: int
    keys: int = 1

    def abstract_eval(self, *avals: ShapedArray) -> Result:
        if not 1 <= self.keys <= len(avals):
            raise ShapeError(f"[{self.name}] {self.keys} keys of {len(avals)} operands")
        for x in avals:
            if x.shape != avals[0].shape:
                raise ShapeError(f"[{self.name}] operands differ in shape: {avals[0]} and {x}")
        if not 0 <= self.axis < avals[0].ndim:
            raise ShapeError(f"[{self.name}] {self.axis} is not an axis of {avals[0]}")
        return tuple(x.strong() for x in avals)

    def impl(self, *args: ArrayLike) -> Result:
        arrays = [np.asarray(a) for a in args]
        places = np.lexsort(arrays[: self.keys][::-1], axis=self.axis)
        return [np.take_along_axis(a, places, self.axis) for a in arrays]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return Expand(self._along_rows)

    def _along_rows(self, *args: ArrayLike) -> Sequence[Result]:
        """The operands sorted as rows, which lie flat one behind the other."""
        shape = shape_of(args[0])
        if any(isinstance(n, int) and n == 0 for n in shape):
            return list(args)
        rank, n = len(shape), shape[self.axis]
        order = [*[d for d in range(rank) if d != self.axis], self.axis]
        wide = tuple(shape[d] for d in order)
        total = prod(shape)
        flat = [reshape(transpose(x, order), (total,)) for x in args]
        rows = prod(wide[:-1])
        if self.keys > 1 or aval_of_argument(args[0]).dtype.kind == "c":
            found = self._merged(flat, n, total)
        elif surely_at_most(n, LONG - 1):
            found = sorted_by_comparing(flat, rows, n)
        elif surely_at_most(LONG, n):
            found = sorted_by_digits(flat, rows, n)
        else:
            avals = [aval_of_argument(x) for x in flat]
            few = staged_body(lambda *xs: sorted_by_comparing(xs, rows, n), avals, "cond")
            many = staged_body(lambda *xs: sorted_by_digits(xs, rows, n), avals, "cond")
            found = bind(Cond((few, many)), bind(Ge(), extent_value(n, np.int64), np.int64(LONG)), *flat)
        back = [order.index(d) for d in range(rank)]
        return [transpose(reshape(x, wide), back) for x in found]

    def _merged(self, flat: Sequence[ArrayLike], n: Extent, total: Extent) -> list[Result]:
        """Rows of n elements, flat one behind the other, sorted by merging runs, twice as long each time, in two sets
        of arrays by turns.
        """
        avals = [aval_of_argument(x) for x in flat]
        spare = [zeros_of(x) for x in avals]
        width = ShapedArray((), np.dtype(np.int64))
        count = len(flat)

        def unsorted(w: ArrayLike, *_: ArrayLike) -> Result:
            return bind(Lt(), w, extent_value(n, np.int64))

        def twice(w: ArrayLike, *arrays: ArrayLike) -> list[Result]:
            there = self._level(arrays[:count], arrays[count:], w, n, total)
            back = self._level(there, arrays[:count], mul(w, np.int64(2)), n, total)
            return [mul(w, np.int64(4)), *back, *there]

        inputs = [width, *avals, *avals]
        test, body = stage(lambda *xs: [unsorted(*xs)], inputs), stage(twice, inputs)
        return list(bind(While(test.jaxpr, body.jaxpr, 0, 0), np.int64(1), *flat, *spare)[1 : count + 1])

    def _level(
        self, sources: Sequence[ArrayLike], targets: Sequence[ArrayLike], width: ArrayLike, n: Extent, total: Extent
    ) -> list[Result]:
        """Neighbouring runs of `width` merged, from one set of arrays to the other.

        The places in both runs (i, j), their ends (middle, end) and the end of the row are carried.
        """
        count = len(sources)

        def step(*xs: ArrayLike) -> list[Result]:
            w, k = xs[count], xs[count + 1]
            rows, (i, j, middle, end, last) = xs[:count], xs[count + 2 + count :]
            fresh, further = bind(Eq(), k, end), bind(Eq(), k, last)
            last = select(further, add(last, extent_value(n, np.int64)), last)
            middle = select(fresh, bind(Minimum(), add(k, w), last), middle)
            end = select(fresh, bind(Minimum(), add(middle, w), last), end)
            i, j = select(fresh, k, i), select(fresh, middle, j)
            one, other = ([gather(x, (0,), [at]) for x in rows] for at in (i, j))
            later = self._precedes(other[: self.keys], one[: self.keys])
            right = bind(Or(), bind(Ge(), i, middle), bind(And(), bind(Lt(), j, end), later))
            moved = [
                scatter(t, select(right, b, a), (0,), [k])
                for t, a, b in zip(xs[count + 2 : 2 * count + 2], one, other, strict=True)
            ]
            taken = convert(right, np.int64)
            return [*moved, add(i, convert(bind(Not(), right), np.int64)), add(j, taken), middle, end, last]

        avals = [aval_of_argument(x) for x in sources]
        number = ShapedArray((), np.dtype(np.int64))
        body = stage(step, [*avals, number, number, *avals, *[number] * 5]).jaxpr
        zero = np.int64(0)
        out = bind(Loop(body, total, count + 1, count + 5), *sources, width, *targets, *[zero] * 5)
        return list(out[:count])

    def _precedes(self, a: Sequence[ArrayLike], b: Sequence[ArrayLike]) -> Result:
        """Whether keys `a` come before keys `b`."""
        found: Any = None
        for x, y in reversed(list(zip(a, b, strict=True))):
            less = _less(x, y)
            found = less if found is None else bind(Or(), less, bind(And(), bind(Not(), _less(y, x)), found))
        return found

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        shape = shape_of(primals[0])
        places = iota(shape, self.axis, np.int64)
        *outs, moved = bind(self, *primals, places)
        index = [moved if d == self.axis else iota(shape, d, np.int64) for d in range(len(shape))]
        axes = tuple(range(len(shape)))
        return outs, [None if t is None else gather(t, axes, index) for t in tangents]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[Sequence[Result], Sequence[int]]:
        rows = [spread(a, None, size, 0) if d is None else move_to_front(a, d) for a, d in zip(args, dims, strict=True)]
        return bind(Sort(self.axis + 1, self.keys), *rows), [0] * len(args)


def _less(x: ArrayLike, y: ArrayLike) -> Result:
    """x < y, NaN after all numbers."""
    kind = aval_of_argument(x).dtype.kind
    if kind == "b":
        return bind(And(), bind(Not(), x), y)
    if kind == "c":
        return _less_complex(x, y)
    less = bind(Lt(), x, y)
    if kind != "f":
        return less
    return bind(Or(), less, bind(And(), bind(Eq(), x, x), bind(Ne(), y, y)))


def _less_complex(x: ArrayLike, y: ArrayLike) -> Result:
    """By real and then imaginary parts; after all others those with a NaN, in the imaginary part, in the real one, in
    both.  Source: numpy.sort.
    """
    (a, p, m), (b, q, n) = map(_places, (x, y))
    after = bind(Or(), bind(Lt(), a, b), bind(And(), bind(Eq(), a, b), bind(Lt(), p, q)))
    return bind(Or(), bind(Lt(), m, n), bind(And(), bind(Eq(), m, n), after))


def _places(x: ArrayLike) -> tuple[Result, Result, Result]:
    """(the real part, the imaginary part, 0 where they are, and which of them is NaN)"""
    a, b = real(x), imag(x)
    missing = [bind(Ne(), part, part) for part in (a, b)]
    rank = add(mul(convert(missing[0], np.int8), np.int8(2)), convert(missing[1], np.int8))
    return select(missing[0], zero_like(a), a), select(missing[1], zero_like(b), b), rank


def sort(operands: Sequence[ArrayLike], axis: int, keys: int = 1) -> Sequence[Result]:
    """Operands of one shape, sorted along `axis` by the first `keys` of them."""
    return bind(Sort(axis, keys), *operands)
