"""Eigenvalues and eigenvectors of any square matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.arithmetic import Abs, Maximum
from tracejit.primitives.comparison import Eq, Gt, Lt
from tracejit.primitives.complex_numbers import conj, real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.elementwise import div, mul, select, sub
from tracejit.primitives.lu import lu, permuted_rows
from tracejit.primitives.reduction import reduce_max, reduce_sum
from tracejit.primitives.schur import Schur, to_complex, values_of
from tracejit.primitives.shape import broadcast_in_dim
from tracejit.primitives.spectral import inverse_gaps, signs_of
from tracejit.primitives.transcendental import Sqrt
from tracejit.primitives.triangular import check_matrices, triangular_solve
from tracejit.support.dtypes import complex_dtype
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import of_stacks
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["Eig", "eig", "left_vectors"]


@frozen(eq=False)
class Eig(Primitive):
    """Eigenvalues and eigenvectors, a @ v = v * w, both complex.   a: [.., n, n] -> w [.., n], v [.., n, n]

    vectors: v is a result, whose columns are of length 1 and have their element of greatest magnitude positive.  The
    eigenvalues are in the order of Schur's form.  Pairs of those of real matrices are conjugates.
    """

    name = "eig"
    multiple_results = True
    vectors: bool = True

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (a,) = avals
        check_matrices(self.name, a)
        dtype = complex_dtype(a.dtype)
        values = ShapedArray(a.shape[:-1], dtype)
        return (values, ShapedArray(a.shape, dtype)) if self.vectors else (values,)

    def impl(self, *args: ArrayLike) -> list[Result]:
        a = np.asarray(args[0])
        lost = np.asarray(~np.isfinite(a).all(axis=(-2, -1), keepdims=True))
        w, v = np.linalg.eig(np.where(lost, 0, a))
        v = v * signs_of(np.swapaxes(v, -1, -2))[..., None, :]
        w, v = (np.asarray(x, complex_dtype(a.dtype)) for x in (w, v))
        w, v = np.where(lost[..., 0], np.nan, w), np.where(lost, np.nan, v)
        return [w, v] if self.vectors else [w]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike) -> Sequence[Result]:
            n, _ = shape_of(a)
            dtype = complex_dtype(m.dtype_of(a))
            if isinstance(n, int) and not n:
                return [m.zeros((0,), dtype), *([m.zeros((0, 0), dtype)] if self.vectors else [])]
            if not self.vectors:
                return [_unless_infinite(a, values_of(bind(Schur(False), a)[0]))]
            t, z = bind(Schur(), a)
            w = values_of(t)
            if not m.is_complex(a):
                t, z = to_complex(m.like(t, w), m.like(z, w))
            v = m.product(z, _of_triangle(t, w))
            length = bind(Sqrt(), reduce_sum(m.squared(v), (0,)))
            v = div(v, broadcast_in_dim(m.like(length, v), (n, n), (1,)))
            v = m.scaled_columns(v, m.upright_rows(m.swapped(v)))
            return [_unless_infinite(a, w), _unless_infinite(a, v)]

        return Expand(lambda a: m.each_matrix(one, a, ranks=(2,)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        """With C = V^-1 da V: dw is C's diagonal, dV = V (F * C) with F_ij = 1 / (w_j - w_i) off the diagonal, less
        what would change lengths, and turn the elements of greatest magnitude.

        Source: Giles 2008, section 3.1 (eigenvalues and eigenvectors).
        """
        (a,), (t,) = primals, tangents
        if t is None:
            outs = list(bind(self, a))
            return outs, [None] * len(outs)
        w, v = bind(Eig(), a)
        c = _solved(v, m.product(m.like(t, v), v))
        dw = m.diagonal_of(c)
        if not self.vectors:
            return list(bind(self, a)), [dw]
        dv = m.product(v, mul(inverse_gaps(w), c))
        along = real(reduce_sum(mul(conj(v), dv), (len(shape_of(v)) - 2,)))
        dv = sub(dv, m.scaled_columns(v, along))
        dv = sub(dv, m.scaled_columns(v, m.without_turns(m.swapped(v), m.swapped(dv))))
        return [w, v], [dw, dv]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int]]:
        return of_stacks(self, args[0], dims[0])


def _unless_infinite(a: ArrayLike, x: ArrayLike) -> Result:
    """NaN everywhere if an element of a is infinite or NaN."""
    wrong = m.size_of(mul(a, broadcast_in_dim(m.dtype_of(a).type(0), shape_of(a), ())))
    finite = bind(Eq(), reduce_sum(wrong, (0, 1)), m.part_dtype(a).type(0))
    shape = shape_of(x)
    return select(broadcast_in_dim(finite, shape, ()), x, broadcast_in_dim(m.dtype_of(x).type(np.nan), shape, ()))


def _of_triangle(t: ArrayLike, w: ArrayLike) -> Result:
    """Eigenvectors, as columns, of a triangle with these eigenvalues: row by row from the last, all columns at once.

    Eigenvalues that are nearly equal are taken apart by rounding, and columns that grow are made small.
    """
    n = shape_of(t)[0]
    dtype, part = m.dtype_of(t), m.part_dtype(t)
    least = mul(part.type(np.finfo(part).eps), reduce_max(m.size_of(t), (0, 1)))
    least = bind(Maximum(), least, part.type(np.finfo(part).tiny / np.finfo(part).eps))
    large = part.type(1e100 if part == np.float64 else 1e10)

    def step(_: Extent, at: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
        (t, w, least), (x,) = consts, carries
        places = iota((n,), 0, np.int64)
        one, zero = (broadcast_in_dim(dtype.type(k), (n,), ()) for k in (1, 0))
        i = sub(extent_value(n - 1, np.int64), at)
        here = broadcast_in_dim(i, (n,), ())
        apart = sub(w, broadcast_in_dim(m.element(w, i), (n,), ()))
        close = bind(Lt(), m.size_of(apart), broadcast_in_dim(least, (n,), ()))
        apart = select(close, broadcast_in_dim(m.like(least, t), (n,), ()), apart)
        # what the row has before its diagonal meets zeros, and so does the diagonal
        row = div(dot_general(m.some_row(t, i), x, ((0,), (0,))), apart)
        row = select(bind(Gt(), places, here), row, select(bind(Eq(), places, here), one, zero))
        size = bind(Abs(), row)
        limit = broadcast_in_dim(large, (n,), ())
        by = select(bind(Gt(), size, limit), div(broadcast_in_dim(part.type(1), (n,), ()), size),
                    broadcast_in_dim(part.type(1), (n,), ()))  # fmt: skip
        x = m.scaled_columns(m.with_row(x, row, i), by)
        return [x]

    return m.index_loop(n, step, [m.zeros((n, n), dtype)], [t, w, least])[0]


def eig(a: ArrayLike) -> tuple[Result, Result]:
    """Eigenvalues and eigenvectors of any square matrices."""
    w, v = bind(Eig(), a)
    return w, v


def _solved(v: ArrayLike, right: ArrayLike) -> Result:
    factors, _, order = lu(v)
    half = triangular_solve(factors, permuted_rows(right, order), lower=True, unit=True)
    return triangular_solve(factors, half, lower=False)


def left_vectors(v: ArrayLike) -> Result:
    """Eigenvectors of the left side, of those of the right one: the columns of the inverse's adjoint, of length 1 and
    with their element of greatest magnitude positive.
    """
    left = m.adjoint(_solved(v, m.eye_like(v)))
    length = bind(Sqrt(), reduce_sum(m.squared(left), (len(shape_of(v)) - 2,)))
    shape = shape_of(v)
    rank = len(shape)
    left = div(left, broadcast_in_dim(m.like(length, v), shape, (*range(rank - 2), rank - 1)))
    return m.scaled_columns(left, m.upright_rows(m.swapped(left)))
