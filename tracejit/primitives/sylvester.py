"""Sylvester's equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.arithmetic import Abs
from tracejit.primitives.comparison import Gt, Le
from tracejit.primitives.complex_numbers import real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import extent_value
from tracejit.primitives.elementwise import add, convert, div, select, sub
from tracejit.primitives.reduction import reduce_sum
from tracejit.primitives.schur import schur
from tracejit.primitives.shape import broadcast_in_dim, reshape
from tracejit.primitives.slicing import dynamic_slice
from tracejit.primitives.triangular import check_matrices
from tracejit.support.dtypes import complex_dtype
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import spread
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["Sylvester", "sylvester"]


@frozen(eq=False)
class Sylvester(Primitive):
    """x with a @ x + x @ b = c.   a: [.., m, m], b: [.., n, n], c: [.., m, n] -> [.., m, n]

    NaN where an eigenvalue of a is the opposite of one of b, to within a tolerance.
    Source: Bartels and Stewart 1972, "Solution of the matrix equation AX + XB = C".
    """

    name = "sylvester"
    tolerance: float = 0.0

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        a, b, c = avals
        for x in (a, b):
            check_matrices(self.name, x)
        if not a.dtype == b.dtype == c.dtype:
            raise DtypeError(f"[{self.name}] operands differ in dtype: {a}, {b} and {c}")
        if c.shape != (*a.shape[:-1], b.shape[-1]) or b.shape[:-2] != a.shape[:-2]:
            raise ShapeError(f"[{self.name}] {c} is no right-hand side for {a} and {b}")
        return c.strong()

    def impl(self, *args: ArrayLike) -> Result:
        a, b, c = (np.asarray(x) for x in args)
        out = np.zeros_like(c)
        for at in np.ndindex(*c.shape[:-2]):
            sums = np.linalg.eigvals(a[at])[:, None] + np.linalg.eigvals(b[at])
            if np.min(np.abs(sums), initial=np.inf) <= self.tolerance:
                out[at] = np.nan
                continue
            whole = np.kron(a[at], np.eye(b.shape[-1])) + np.kron(np.eye(a.shape[-1]), b[at].T)
            try:
                out[at] = np.linalg.solve(whole, c[at].ravel()).reshape(c.shape[-2:])
            except np.linalg.LinAlgError:
                out[at] = np.nan
        return out

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Sequence[Result]:
            wide = complex_dtype(m.dtype_of(c))
            (t, left), (s, right) = (schur(convert(x, wide)) for x in (a, b))
            inner = m.product(m.product(m.adjoint(left), convert(c, wide)), right)
            x = m.product(m.product(left, _of_triangles(t, s, inner)), m.adjoint(right))
            x = x if m.is_complex(c) else real(x)
            shape = shape_of(x)
            sums = [broadcast_in_dim(m.diagonal_of(y), shape, (d,)) for d, y in ((0, t), (1, s))]
            close = bind(
                Le(), bind(Abs(), add(*sums)), broadcast_in_dim(m.part_dtype(c).type(self.tolerance), shape, ())
            )
            lost = bind(Gt(), reduce_sum(convert(close, np.int64), (0, 1)), np.int64(0))
            nan = broadcast_in_dim(m.dtype_of(x).type(np.nan), shape, ())
            return [select(broadcast_in_dim(lost, shape, ()), nan, x)]

        return Expand(lambda a, b, c: m.each_matrix(one, a, b, c, ranks=(2, 2, 2)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        (a, b, c), (da, db, dc) = primals, tangents
        x = bind(self, a, b, c)
        right = dc
        for change in (None if da is None else m.product(da, x), None if db is None else m.product(x, db)):
            if change is not None:
                right = sub(m.zeros(shape_of(x), m.dtype_of(x)) if right is None else right, change)
        return x, None if right is None else bind(self, a, b, right)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        a, b, c = args
        assert isinstance(c, UndefinedPrimal)
        return [None, None, bind(self, m.swapped(a), m.swapped(b), ct)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        return bind(self, *[spread(x, d, size) for x, d in zip(args, dims, strict=True)]), 0


def _of_triangles(t: ArrayLike, s: ArrayLike, c: ArrayLike) -> Result:
    """x with t @ x + x @ s = c, of two upper triangles: row by row from the last, column by column from the first.

    What is not solved yet is zero, so that products of whole rows and columns are those of the known part.
    """
    rows, columns = shape_of(c)
    none = np.int64(0)

    def row(_: Extent, at: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
        (t, s, c), (x,) = consts, carries
        i = sub(extent_value(rows - 1, np.int64), at)

        def column(_: Extent, j: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
            (t, s, c, i), (x,) = consts, carries

            def column_of(y: ArrayLike, size: Extent) -> Result:
                return reshape(dynamic_slice(y, (none, j), (size, 1)), (size,))

            known = dot_general(m.some_row(t, i), column_of(x, rows), ((0,), (0,)))
            known = add(known, dot_general(m.some_row(x, i), column_of(s, columns), ((0,), (0,))))
            found = div(sub(m.element(c, i, j), known), add(m.element(t, i, i), m.element(s, j, j)))
            return [m.with_element(x, found, i, j)]

        return m.index_loop(columns, column, [x], [t, s, c, i], level=1)

    return m.index_loop(rows, row, [m.zeros((rows, columns), m.dtype_of(c))], [t, s, c])[0]


def sylvester(a: ArrayLike, b: ArrayLike, c: ArrayLike, tolerance: float = 0.0) -> Result:
    """x with a @ x + x @ b = c."""
    return bind(Sylvester(tolerance), a, b, c)
