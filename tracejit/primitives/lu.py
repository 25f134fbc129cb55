"""The LU decomposition with partial pivoting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, same_extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.comparison import And, Eq, Gt, Ne, Or
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.elementwise import add, convert, div, mul, select, sub
from tracejit.primitives.indexing import gather
from tracejit.primitives.reduction import ArgMax
from tracejit.primitives.shape import broadcast_in_dim, pad, reshape, slice_array
from tracejit.primitives.slicing import dynamic_slice, dynamic_update_slice, update_slice
from tracejit.primitives.triangular import check_matrices, triangular_solve
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["LU", "is_wide", "lu", "lu_parts", "permuted_rows", "shorter"]


BLOCK = 32
"""Columns that are decomposed before the rest of a large matrix is changed, by one product."""


def is_wide(rows: Extent, columns: Extent) -> bool:
    """Whether matrices have more columns than rows.  Raises: DimDependent where the call's sizes decide."""
    return not same_extent(rows, columns) and not rows >= columns


def shorter(rows: Extent, columns: Extent) -> Extent:
    """The lesser extent of matrices.  Raises: DimDependent where the call's sizes decide."""
    return rows if is_wide(rows, columns) else columns


@frozen(eq=False)
class LU(Primitive):
    """P a = L U with partial pivoting.   a: [.., m, n] -> factors [.., m, n], pivots i32[.., k], permutation i32[.., m]

    k is the lesser of m and n.  The factors are U, and below its diagonal L without its ones.  Step i exchanges
    rows i and pivots[i]; row i of P a is row permutation[i] of a.  A pivot of zero divides nothing.
    Of complex numbers the pivot is the one whose parts have the greatest sum of magnitudes.
    Source: the conventions of LAPACK's getrf, pivots counted from 0.
    """

    name = "lu"
    multiple_results = True

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (a,) = avals
        check_matrices(self.name, a, square=False)
        *lead, rows, columns = a.shape
        pivots = ShapedArray((*lead, shorter(rows, columns)), np.int32)
        return a.strong(), pivots, ShapedArray((*lead, rows), np.int32)

    def impl(self, *args: ArrayLike) -> list[Result]:
        a = np.array(args[0])
        *lead, rows, columns = a.shape
        k = min(rows, columns)
        pivots = np.zeros((*lead, k), np.int32)
        order = np.broadcast_to(np.arange(rows, dtype=np.int32), (*lead, rows)).copy()
        for at in np.ndindex(*lead):
            x = a[at]
            for j in range(k):
                with np.errstate(all="ignore"):
                    x[j:, j] -= x[j:, :j] @ x[:j, j]
                    p = j + int(np.argmax(_size(x[j:, j])))
                    pivots[(*at, j)] = p
                    x[[j, p]] = x[[p, j]]
                    order[at][[j, p]] = order[at][[p, j]]
                    x[j, j + 1 :] -= x[j, :j] @ x[:j, j + 1 :]
                    if x[j, j] != 0:
                        x[j + 1 :, j] /= x[j, j]
        return [a, pivots, order]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike) -> Sequence[Result]:
            rows, columns = shape_of(a)
            k = shorter(rows, columns)

            def block(at: Extent, _: ArrayLike, __: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
                start = BLOCK * at
                x, pivots, order = _panel(carries, start, BLOCK, start + BLOCK)
                right = (start, start + BLOCK)
                rest = (rows - start - BLOCK, columns - start - BLOCK)

                def substituted(i: Extent, _: ArrayLike, __: Sequence[Any], inner: Sequence[Any]) -> Sequence[Result]:
                    (x,) = inner
                    row = slice_array(x, (start + i, right[1]), (1, rest[1]))
                    factors = slice_array(x, (start + i, start), (1, i))
                    above = slice_array(x, (start, right[1]), (i, rest[1]))
                    return [m.put(x, sub(row, m.product(factors, above)), start + i, right[1])]

                (x,) = m.index_loop(BLOCK, substituted, [x], level=1)
                left = slice_array(x, (right[1], start), (rest[0], BLOCK))
                top = slice_array(x, right, (BLOCK, rest[1]))
                corner = slice_array(x, (right[1], right[1]), rest)
                return [m.put(x, sub(corner, m.product(left, top)), right[1], right[1]), pivots, order]

            start = [a, m.zeros((k,), np.dtype(np.int32)), iota((rows,), 0, np.int32)]
            if (isinstance(k, int) and k < 2 * BLOCK) or not same_extent(rows, columns):
                return _panel(start, 0, k, columns)
            whole = k // BLOCK
            state = m.index_loop(whole, block, start)
            return _panel(state, BLOCK * whole, k - BLOCK * whole, columns)

        if m.is_stack_of_small(operands[0].shape):
            return Expand(_together)
        return Expand(lambda a: m.each_matrix(one, a, ranks=(2,)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        """With X = L^-1 P da U^-1: dL = L tril(X, -1), dU = triu(X) U, L and U made square by ones on the diagonal.

        Source: the product rule on P a = L U, whose two terms are a strict lower and an upper triangle.
        """
        (a,), (t,) = primals, tangents
        out, pivots, order = bind(self, a)
        if t is None:
            return [out, pivots, order], [None, None, None]
        left, right = _squares(out)
        x = triangular_solve(left, permuted_rows(t, order), lower=True, unit=True)
        x = m.swapped(triangular_solve(right, m.swapped(x), lower=False, transposed=True))
        lower = add(m.lower_part(left, True), m.eye_like(left))
        slope = add(m.product(lower, m.lower_part(x, True)), m.product(m.upper_part(x), m.upper_part(right)))
        return [out, pivots, order], [slope, None, None]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int]]:
        return list(bind(self, move_to_front(args[0], dims[0]))), (0, 0, 0)


def _size(x: Any) -> Any:
    """What `size_of` gives, of NumPy arrays."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def _panel(state: Sequence[Any], start: Extent, width: Extent, end: Extent) -> Sequence[Result]:
    """`width` columns from `start` on decomposed, and rows of U up to column `end`; whole rows are exchanged."""
    rows, columns = shape_of(state[0])
    dtype, part = m.dtype_of(state[0]), m.part_dtype(state[0])
    zero = np.int64(0)

    def step(k: Extent, i: ArrayLike, _: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
        x, pivots, order = carries
        j = start + k
        rest = rows - j
        here = add(i, extent_value(start, np.int64))
        left, above = slice_array(x, (j, start), (rest, k)), m.column_of(x, j, start, k)
        column = sub(m.column_of(x, j, j), dot_general(left, above, ((1,), (0,))))
        # among all rows, of which there surely are some
        sizes = update_slice(broadcast_in_dim(part.type(-1), (rows,), ()), m.size_of(column), (j,))
        p = bind(ArgMax(0), sizes)
        offset = sub(p, here)
        mine, other = slice_array(x, (j, 0), (1, columns)), dynamic_slice(x, (p, zero), (1, columns))
        x = dynamic_update_slice(x, mine, (p, zero))
        x = m.put(x, other, j, 0)
        first = slice_array(column, (0,), (1,))
        pivot = dynamic_slice(column, (offset,), (1,))
        column = dynamic_update_slice(column, first, (offset,))
        top = reshape(pivot, ())
        divisor = select(bind(Eq(), top, dtype.type(0)), dtype.type(1), top)
        x = m.put_column(x, div(column, broadcast_in_dim(divisor, (rest,), ())), j, j)
        right = slice_array(x, (start, j), (k, end - j))
        factors = slice_array(x, (j, start), (1, k))
        row = sub(slice_array(other, (0, j), (1, end - j)), m.product(factors, right))
        x = m.put(x, update_slice(row, reshape(top, (1, 1)), (0, 0)), j, j)
        pivots = update_slice(pivots, reshape(convert(p, np.int32), (1,)), (j,))
        moved = dynamic_slice(order, (p,), (1,))
        order = update_slice(dynamic_update_slice(order, slice_array(order, (j,), (1,)), (p,)), moved, (j,))
        return [x, pivots, order]

    return m.index_loop(width, step, state, level=1)


def _together(a: ArrayLike) -> Sequence[Result]:
    """Of a stack of small matrices, all of them at once: rows are exchanged by choosing between elements."""
    x, dtype = m.elements_of(a), m.dtype_of(a)
    n, lead = len(x), shape_of(x[0][0])

    def everywhere(value: Any) -> Result:
        return broadcast_in_dim(value, lead, ())

    order: list[Any] = [everywhere(np.int32(i)) for i in range(n)]
    pivots: list[Any] = []
    for k in range(n):
        best, place = m.size_of(x[k][k]), everywhere(np.int32(k))
        for i in range(k + 1, n):
            size = m.size_of(x[i][k])
            # as argmax has it, the first NaN is the greatest
            more = bind(Or(), bind(Gt(), size, best), bind(And(), bind(Ne(), size, size), bind(Eq(), best, best)))
            best, place = select(more, size, best), select(more, everywhere(np.int32(i)), place)
        for i in range(k + 1, n):
            here = bind(Eq(), place, everywhere(np.int32(i)))
            row, other = x[k], x[i]
            for j in range(n):
                row[j], other[j] = select(here, other[j], row[j]), select(here, row[j], other[j])
            order[k], order[i] = select(here, order[i], order[k]), select(here, order[k], order[i])
        pivots.append(place)
        divisor = select(bind(Eq(), x[k][k], everywhere(dtype.type(0))), everywhere(dtype.type(1)), x[k][k])
        for i in range(k + 1, n):
            x[i][k] = div(x[i][k], divisor)
            for j in range(k + 1, n):
                x[i][j] = m.less_products(x[i][j], [(x[i][k], x[k][j])])
    rows = [reshape(m.from_elements([v]), (*lead, n)) for v in (pivots, order)]
    return [m.from_elements(x), *rows]


def _squares(factors: ArrayLike) -> tuple[Result, Result]:
    """L and U as square matrices, in triangles of whatever else."""
    *lead, rows, columns = shape_of(factors)
    zero, none = m.dtype_of(factors).type(0), [0] * len(lead)
    if same_extent(rows, columns):
        return factors, factors
    start = (0,) * (len(lead) + 2)
    if is_wide(rows, columns):
        square = slice_array(factors, start, (*lead, rows, rows))
        tall = pad(factors, zero, [*none, 0, 0], [*none, columns - rows, 0])
        inside = pad(m.zeros((*lead, rows, rows), m.dtype_of(factors)), m.dtype_of(factors).type(1),
                     [*none, 0, 0], [*none, columns - rows, columns - rows])  # fmt: skip
        return square, add(tall, mul(m.eye_like(tall), inside))
    wide = pad(factors, zero, [*none, 0, 0], [*none, 0, rows - columns])
    return wide, slice_array(factors, start, (*lead, columns, columns))


def permuted_rows(x: ArrayLike, order: ArrayLike) -> Result:
    """Row i of each matrix is the row order[..., i] of x."""
    shape = shape_of(x)
    rank = len(shape)
    at = [iota(shape_of(order), d, np.int64) for d in range(rank - 2)]
    return gather(x, tuple(range(rank - 1)), [*at, convert(order, np.int64)])


def lu(a: ArrayLike) -> tuple[Result, Result, Result]:
    """Factors in one matrix, pivots and permutation."""
    factors, pivots, order = bind(LU(), a)
    return factors, pivots, order


def lu_parts(factors: ArrayLike) -> tuple[Result, Result]:
    """L, with its ones, and U of factors that lie in one matrix."""
    *lead, rows, columns = shape_of(factors)
    k = shorter(rows, columns)
    start = (0,) * (len(lead) + 2)
    left = slice_array(factors, start, (*lead, rows, k))
    return add(m.lower_part(left, True), m.eye_like(left)), m.upper_part(
        slice_array(factors, start, (*lead, k, columns))
    )
