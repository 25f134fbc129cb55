"""The QR decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, same_extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.comparison import And, Eq, Ge, Lt
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import add, div, mul, neg, select, sub
from tracejit.primitives.lu import is_wide, permuted_rows, shorter
from tracejit.primitives.reduction import ArgMax, reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, concatenate, reshape, slice_array
from tracejit.primitives.slicing import dynamic_slice, dynamic_update_slice, update_slice
from tracejit.primitives.transcendental import Sqrt
from tracejit.primitives.triangular import check_matrices, triangular_solve
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["QR", "ColumnOrder", "qr", "qr_of_ordered", "reflected", "reflector"]


@frozen(eq=False)
class QR(Primitive):
    """a = Q R with orthonormal columns in Q.   a: [.., m, n] -> Q [.., m, k], R [.., k, n]

    k is the lesser of m and n, and m with `complete`.  Source: Householder reflections with the signs of geqrf.
    """

    name = "qr"
    multiple_results = True
    complete: bool = False

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (a,) = avals
        check_matrices(self.name, a, square=False)
        *lead, rows, columns = a.shape
        k = rows if self.complete else shorter(rows, columns)
        return a.with_shape((*lead, rows, k)).strong(), a.with_shape((*lead, k, columns)).strong()

    def impl(self, *args: ArrayLike) -> list[Result]:
        q, r = np.linalg.qr(np.asarray(args[0]), "complete" if self.complete else "reduced")
        return [q, r]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike) -> Sequence[Result]:
            rows, columns = shape_of(a)
            dtype = m.dtype_of(a)
            steps = shorter(rows, columns)
            k = rows if self.complete else steps

            def reduced(j: Extent, _: ArrayLike, __: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
                r, vectors, scales = carries
                rest = rows - j
                x = m.column_of(r, j, j)
                v, tau, top = reflector(x)
                r = reflected(r, v, conj(tau), j)
                r = m.put_column(r, update_slice(m.zeros((rest,), dtype), reshape(top, (1,)), (0,)), j, j)
                vectors = m.put_row(vectors, v, j, j)
                return [r, vectors, update_slice(scales, reshape(tau, (1,)), (j,))]

            factor = m.safe_factor(a)
            scaled = mul(a, broadcast_in_dim(m.like(factor, a), (rows, columns), ()))
            start = [scaled, m.zeros((steps, rows), dtype), m.zeros((steps,), dtype)]
            r, vectors, scales = m.index_loop(steps, reduced, start)

            def formed(at: Extent, _: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
                (vectors, scales), (q,) = consts, carries
                j = steps - 1 - at
                tau = reshape(slice_array(scales, (j,), (1,)), ())
                return [reflected(q, m.row_of(vectors, j, j), tau, j)]

            (q,) = m.index_loop(steps, formed, [m.eye_like(m.zeros((rows, k), dtype))], [vectors, scales])
            r = slice_array(r, (0, 0), (k, columns))
            return [q, div(r, broadcast_in_dim(m.like(factor, a), (k, columns), ()))]

        return Expand(lambda a: m.each_matrix(one, a, ranks=(2,)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        """With C = Q^H da R^-1 and W the skew-Hermitian matrix of C's strict lower triangle and what its diagonal has
        of imaginary parts: dQ = da R^-1 + Q (W - C), dR = (C - W) R.  Of wide matrices that is so for the leading
        square.

        Source: the product rule, with Q^H dQ skew-Hermitian and dR a triangle whose diagonal is real.
        """
        (a,), (t,) = primals, tangents
        q, r = bind(self, a)
        if t is None:
            return [q, r], [None, None]
        *lead, rows, columns = shape_of(a)
        wide = is_wide(rows, columns)
        if self.complete and not wide and not same_extent(rows, columns):
            raise UnsupportedError(
                "the complete QR decomposition of matrices with more rows than columns has no derivative: which "
                "vectors complete Q is arbitrary; use mode='reduced'"
            )
        k = rows if wide else columns
        start = (0,) * (len(lead) + 2)
        square, change = r, t
        if wide:
            square = slice_array(r, start, (*lead, k, k))
            change = slice_array(t, start, (*lead, rows, k))
        scaled = m.swapped(triangular_solve(square, m.swapped(change), lower=False, transposed=True))
        c = m.product(m.adjoint(q), scaled)
        below = m.lower_part(c, True)
        turned = sub(sub(below, m.adjoint(below)), c)
        if m.is_complex(a):
            zero = m.zeros(shape_of(c), m.part_dtype(c))
            turned = add(turned, mul(m.eye_like(c), make_complex(zero, imag(c))))
        dq = add(scaled, m.product(q, turned))
        dr = neg(m.product(turned, square))
        dr = m.upper_part(dr)
        if wide:
            rest = (*start[:-1], k)
            others = slice_array(a, rest, (*lead, rows, columns - k))
            moved = slice_array(t, rest, (*lead, rows, columns - k))
            more = add(m.product(m.adjoint(dq), others), m.product(m.adjoint(q), moved))
            dr = concatenate([dr, more], len(lead) + 1)
        return [q, r], [dq, dr]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int]]:
        return list(bind(self, move_to_front(args[0], dims[0]))), (0, 0)


def _is_negative(x: ArrayLike) -> Result:
    """Whether the sign bit of a number is set: zero has one, too."""
    one = m.dtype_of(x).type(1)
    zero = m.dtype_of(x).type(0)
    return bind(Lt(), select(bind(Eq(), x, zero), div(one, x), x), zero)


def reflector(x: ArrayLike) -> tuple[Result, Result, Result]:
    """(v, tau, b) of the reflection H = 1 - tau v v^H for which H^H makes a vector (b, 0, 0, ..), v beginning with 1
    and b being real.

    Where all but the first element are zeros, and that one is real, nothing is reflected.  Source: LAPACK's larfg.
    """
    (n,) = shape_of(x)
    dtype, part = m.dtype_of(x), m.part_dtype(x)
    zero, one = dtype.type(0), dtype.type(1)
    top = reshape(slice_array(x, (0,), (1,)), ())
    others = update_slice(x, m.zeros((1,), dtype), (0,))
    squares = reduce_sum(m.squared(others), (0,))
    size = bind(Sqrt(), add(m.squared(top), squares))
    beta = select(_is_negative(real(top)), size, neg(size))
    flat = bind(Eq(), squares, part.type(0))
    if m.is_complex(x):
        flat = bind(And(), flat, bind(Eq(), imag(top), part.type(0)))
        ratio = make_complex(div(sub(beta, real(top)), beta), div(neg(imag(top)), beta))
    else:
        ratio = div(sub(beta, top), beta)
    tau = select(flat, zero, ratio)
    scale = select(flat, one, sub(top, m.like(beta, x)))
    v = update_slice(div(others, broadcast_in_dim(scale, (n,), ())), broadcast_in_dim(one, (1,), ()), (0,))
    return v, tau, m.like(select(flat, real(top), beta), x)


def reflected(x: ArrayLike, v: ArrayLike, tau: ArrayLike, j: Extent) -> Result:
    """x[j:, j:] - tau v (v^H @ x[j:, j:]) in its place."""
    rows, columns = shape_of(x)
    shape = (rows - j, columns - j)
    part = slice_array(x, (j, j), shape)
    sums = mul(dot_general(conj(v), part, ((0,), (0,))), broadcast_in_dim(tau, (shape[1],), ()))
    change = mul(broadcast_in_dim(v, shape, (0,)), broadcast_in_dim(sums, shape, (1,)))
    return m.put(x, sub(part, change), j, j)


def qr(a: ArrayLike, complete: bool = False) -> tuple[Result, Result]:
    """Q and R."""
    q, r = bind(QR(complete), a)
    return q, r


@frozen(eq=False)
class ColumnOrder(Primitive):
    """The order of columns in which each has the greatest part outside of the span of those before it.
    a: [.., m, n] -> i32[.., n]

    Source: the pivots of LAPACK's geqp3.
    """

    name = "column_order"

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (a,) = avals
        check_matrices(self.name, a, square=False)
        return ShapedArray((*a.shape[:-2], a.shape[-1]), np.int32)

    def impl(self, *args: ArrayLike) -> Result:
        a = np.array(args[0])
        *lead, rows, columns = a.shape
        out = np.broadcast_to(np.arange(columns, dtype=np.int32), (*lead, columns)).copy()
        for at in np.ndindex(*lead):
            x, order = a[at], out[at]
            for k in range(min(rows, columns)):
                p = k + int(np.argmax(np.sum(np.abs(x[k:, k:]) ** 2, 0)))
                x[:, [k, p]], order[[k, p]] = x[:, [p, k]], order[[p, k]]
                size = np.linalg.norm(x[k:, k])
                if size:
                    unit = x[k:, k] / size
                    # what is left of the others, in the rows that follow, has the lengths that a reflection would give
                    turn = np.linalg.qr(unit[:, None], "complete").Q
                    x[k:, k:] = turn.conj().T @ x[k:, k:]
        return out

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike) -> Sequence[Result]:
            rows, columns = shape_of(a)
            none = np.int64(0)

            def step(k: Extent, i: ArrayLike, __: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
                x, order = carries
                rest = slice_array(x, (k, 0), (rows - k, columns))
                sizes = reduce_sum(m.squared(rest), (0,))
                places = iota((columns,), 0, np.int64)
                left = bind(Ge(), places, broadcast_in_dim(i, (columns,), ()))
                sizes = select(left, sizes, broadcast_in_dim(m.dtype_of(sizes).type(-1), (columns,), ()))
                p = bind(ArgMax(0), sizes)
                mine, other = (dynamic_slice(x, (none, at), (rows, 1)) for at in (i, p))
                x = dynamic_update_slice(dynamic_update_slice(x, mine, (none, p)), other, (none, i))
                first, chosen = (dynamic_slice(order, (at,), (1,)) for at in (i, p))
                order = dynamic_update_slice(dynamic_update_slice(order, first, (p,)), chosen, (i,))
                v, tau, _ = reflector(m.column_of(x, k, k))
                return [reflected(x, v, conj(tau), k), order]

            start = [a, iota((columns,), 0, np.int32)]
            return [m.index_loop(shorter(rows, columns), step, start)[1]]

        return Expand(lambda a: m.each_matrix(one, a, ranks=(2,)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Any]:
        return bind(self, *primals), None

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        return bind(self, move_to_front(args[0], dims[0])), 0


def qr_of_ordered(a: ArrayLike, complete: bool = False) -> tuple[Result, Result, Result]:
    """Q and R of the matrices with their columns in order, and this order."""
    order = bind(ColumnOrder(), a)
    q, r = qr(m.swapped(permuted_rows(m.swapped(a), order)), complete)
    return q, r, order
