"""Systems whose matrices have elements near the diagonal alone, in time that grows with their number."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.api.control import scan
from tracejit.ir.extents import Shape
from tracejit.lax.operands import aval, operands, reject
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.comparison import Eq
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import div, mul, select, sub
from tracejit.primitives.reduction import ArgMax, reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, concatenate, pad, reshape, slice_array, transpose
from tracejit.support.errors import DtypeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = ["back_substituted", "banded_solution", "tridiagonal_solve", "with_leading_steps", "with_steps_back"]


def with_leading_steps(x: ArrayLike, axis: int) -> Result:
    """x with an axis, counted from the end, in front."""
    rank = aval(x).ndim
    return transpose(x, (rank + axis, *[d for d in range(rank) if d != rank + axis]))


def with_steps_back(x: ArrayLike, axis: int) -> Result:
    """The opposite of `with_leading_steps`."""
    rank = aval(x).ndim
    order = list(range(1, rank))
    order.insert(rank + axis, 0)
    return transpose(x, order)


def _row(x: ArrayLike, i: int, count: int = 1) -> Result:
    """Rows from i on, along the last axis but one."""
    shape = aval(x).shape
    return slice_array(x, (*[0] * (len(shape) - 2), i, 0), (*shape[:-2], count, shape[-1]))


def _from_column(x: ArrayLike, j: int) -> Result:
    """Columns from j on, and zeros behind them, so that there are as many."""
    shape = aval(x).shape
    none = [0] * (len(shape) - 1)
    kept = slice_array(x, (*none, j), (*shape[:-1], shape[-1] - j))
    return pad(kept, m.dtype_of(x).type(0), [0] * len(shape), [*none, j])


def _along_row(x: ArrayLike, shape: Shape) -> Result:
    """A number of each row, or a matrix of one row or column, repeated."""
    return broadcast_in_dim(x, shape, tuple(range(len(shape))))


def banded_solution(rows: ArrayLike, lower: int, b: ArrayLike) -> tuple[Result, Result]:
    """(x with A @ x == b, whether a pivot is zero), by elimination with partial pivoting.
    rows: [.., n, w], b: [.., n, k] -> [.., n, k], bool[.., n]

    rows[.., i, t] is A[i, i - lower + t], and zero where there is no such element; w is lower + upper + 1.

    Source: the loops of LAPACK's gbsv, with the rows in which a column is not zero yet as a window that moves down.
    """
    *lead, n, width = aval(rows).shape
    k = aval(b).shape[-1]
    dtype = m.dtype_of(b)
    zero, one = dtype.type(0), dtype.type(1)
    steps, sides = with_leading_steps(rows, -2), with_leading_steps(b, -2)
    if lower:
        none = [0] * len(lead)
        # rows that come into the window, with rows of zeros at the end
        entering = pad(
            slice_array(steps, (lower, *none, 0), (n - lower, *lead, width)), zero, [0] * (len(lead) + 2),
            [lower, *none, 0],
        )  # fmt: skip
        entering_sides = pad(
            slice_array(sides, (lower, *none, 0), (n - lower, *lead, k)), zero, [0] * (len(lead) + 2),
            [lower, *none, 0],
        )  # fmt: skip
        first = concatenate([_from_column(_row(rows, i), lower - i) for i in range(lower)], len(lead))

        def eliminate(carry: Any, x: Any) -> Any:
            (window, side), (row, value) = carry, x
            window = concatenate([window, reshape(row, (*lead, 1, width))], len(lead))
            side = concatenate([side, reshape(value, (*lead, 1, k))], len(lead))
            column = reshape(slice_array(window, (*none, 0, 0), (*lead, lower + 1, 1)), (*lead, lower + 1))
            best = bind(ArgMax(len(lead)), m.size_of(column))
            spread = broadcast_in_dim(best, (*lead, lower + 1), tuple(range(len(lead))))
            chosen = bind(Eq(), iota((*lead, lower + 1), len(lead), np.int64), spread)

            def exchanged(y: ArrayLike) -> tuple[Result, Result]:
                """The row of the pivot, and the others with the first in its place."""
                shape = aval(y).shape
                here = broadcast_in_dim(chosen, shape, tuple(range(len(lead) + 1)))
                top = reduce_sum(select(here, y, m.zeros(shape, dtype)), (len(lead),))
                moved = select(here, _along_row(_row(y, 0), shape), y)
                return top, _row(moved, 1, lower)

            top, others = exchanged(window)
            top_side, other_sides = exchanged(side)
            pivot = slice_array(top, (*none, 0), (*lead, 1))
            divisor = select(bind(Eq(), pivot, m.zeros((*lead, 1), dtype)), _ones((*lead, 1), one), pivot)
            heads = slice_array(others, (*none, 0, 0), (*lead, lower, 1))
            factors = div(heads, _along_row(reshape(divisor, (*lead, 1, 1)), (*lead, lower, 1)))

            def reduced(y: ArrayLike, by: ArrayLike) -> Result:
                shape = aval(y).shape
                wide = broadcast_in_dim(by, shape, (*range(len(lead)), len(lead) + 1))
                return sub(y, mul(_along_row(factors, shape), wide))

            return (_from_column(reduced(others, top), 1), reduced(other_sides, top_side)), (top, top_side)

        _, (steps, sides) = scan(eliminate, (first, _row(b, 0, lower)), (entering, entering_sides))
    x = back_substituted(steps, sides)
    pivots = reshape(slice_array(steps, (0,) * (len(lead) + 2), (n, *lead, 1)), (n, *lead))
    singular = bind(Eq(), pivots, m.zeros((n, *lead), dtype))
    return with_steps_back(x, -2), transpose(singular, (*range(1, len(lead) + 1), 0))


def _ones(shape: Shape, one: Any) -> Result:
    return broadcast_in_dim(one, shape, ())


def back_substituted(rows: ArrayLike, sides: ArrayLike) -> Result:
    """x with sum(rows[i, .., t] * x[i + t, ..]) == sides[i, ..], from the last to the first.
    rows: [n, .., w], sides: [n, .., k] -> [n, .., k]
    """
    n, *lead, width = aval(rows).shape
    k = aval(sides).shape[-1]
    dtype = m.dtype_of(sides)
    none = [0] * len(lead)
    if width == 1:
        return div(sides, broadcast_in_dim(rows, (n, *lead, k), tuple(range(len(lead) + 2))))

    def substitute(known: ArrayLike, x: Any) -> Any:
        row, side = x
        pivot = slice_array(row, (*none, 0), (*lead, 1))
        factors = slice_array(row, (*none, 1), (*lead, width - 1))
        shape = (*lead, width - 1, k)
        wide = broadcast_in_dim(factors, shape, tuple(range(len(lead) + 1)))
        sums = reduce_sum(mul(wide, known), (len(lead),))
        found = div(sub(side, sums), broadcast_in_dim(pivot, (*lead, k), tuple(range(len(lead) + 1))))
        kept = slice_array(known, (*none, 0, 0), (*lead, width - 2, k))
        return concatenate([reshape(found, (*lead, 1, k)), kept], len(lead)), found

    return scan(substitute, m.zeros((*lead, width - 1, k), dtype), (rows, sides), reverse=True)[1]


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Result:
    """x with A @ x == b, A having d on its diagonal, dl below it and du above it.   dl, d, du: [.., n], b: [.., n, k]

    dl[i] is A[i, i-1] and du[i] A[i, i+1]; the first element of dl and the last of du do not count.

    Raises: ShapeError for shapes that do not fit, UnsupportedError for perturb_singular.
    Source: jax.lax.linalg.tridiagonal_solve.

    >>> import numpy as np, tracejit as tj
    >>> dl, d, du = np.array([0.0, 1.0]), np.array([2.0, 4.0]), np.array([0.0, 0.0])
    >>> tj.jit(lambda b: tj.lax.linalg.tridiagonal_solve(dl, d, du, b))(np.array([[2.0], [9.0]]))
    array([[1.],
           [2.]])
    """
    if perturb_singular:
        raise UnsupportedError(
            "tj.lax.linalg.tridiagonal_solve: perturb_singular is not supported; leave it out", location=user_location()
        )
    low, middle, high, right = operands("tridiagonal_solve", dl, d, du, b)
    shape = aval(middle).shape
    if m.dtype_of(right).name not in ("float32", "float64", "complex64", "complex128"):
        raise DtypeError(
            f"tridiagonal_solve computes in float32, float64 or complex numbers of these, not in {m.dtype_of(right)}; "
            "convert first",
            location=user_location(),
        )
    have = aval(right).shape
    fits = all(aval(x).shape == shape for x in (low, high)) and len(have) == len(shape) + 1
    if not shape or not fits or have[:-1] != shape:
        raise reject(
            "tridiagonal_solve takes diagonals of one shape [.., n] and right-hand sides [.., n, k], not "
            f"{aval(low)}, {aval(middle)}, {aval(high)} and {aval(right)}"
        )
    if isinstance(shape[-1], int) and shape[-1] < 2:
        return div(right, broadcast_in_dim(middle, have, tuple(range(len(shape)))))
    n, zero, none = shape[-1], m.dtype_of(right).type(0), [0] * (len(shape) - 1)
    low = pad(slice_array(low, (*none, 1), (*shape[:-1], n - 1)), zero, [*none, 1], [*none, 0])
    high = pad(slice_array(high, (*none, 0), (*shape[:-1], n - 1)), zero, [*none, 0], [*none, 1])
    rows = concatenate([reshape(x, (*shape, 1)) for x in (low, middle, high)], len(shape))
    return banded_solution(rows, 1, right)[0]
