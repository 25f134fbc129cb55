"""Eigenvalues of symmetric and Hermitian matrices, and singular values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, same_extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.arithmetic import Abs
from tracejit.primitives.comparison import And, Eq, Gt, Lt, Or
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.creation import extent_value
from tracejit.primitives.elementwise import add, convert, div, mul, neg, select, sub
from tracejit.primitives.indexing import gather
from tracejit.primitives.lu import is_wide, shorter
from tracejit.primitives.qr import qr
from tracejit.primitives.reduction import reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, concatenate, slice_array, transpose
from tracejit.primitives.transcendental import Sqrt
from tracejit.primitives.triangular import check_matrices
from tracejit.primitives.tridiagonal import diagonalized, tridiagonalized
from tracejit.support.dtypes import real_dtype
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import of_stacks
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["SVD", "Eigh", "eigh", "inverse_gaps", "signs_of", "svd"]

MOST_SWEEPS = 40
"""Sweeps over all pairs; some 6 to 10 are needed, and convergence is quadratic at the end."""


def _turn(difference: ArrayLike, coupling: ArrayLike, apply: ArrayLike) -> tuple[Result, Result, Result]:
    """(cosine, sine, tangent) of the smaller angle that decouples two elements whose diagonal ones differ by
    `difference`; no turn where `apply` is false.

    Source: Rutishauser 1966, "The Jacobi method for real symmetric matrices".
    """
    dtype = m.dtype_of(difference)
    one, zero = dtype.type(1), dtype.type(0)
    safe = select(apply, coupling, one)
    ratio = div(difference, mul(dtype.type(2), safe))
    size = add(bind(Abs(), ratio), bind(Sqrt(), add(mul(ratio, ratio), one)))
    t = div(select(bind(Lt(), ratio, zero), dtype.type(-1), one), size)
    t = select(apply, t, zero)
    c = div(one, bind(Sqrt(), add(mul(t, t), one)))
    return c, mul(t, c), t


def _over_pairs(n: Extent, turn: Callable[..., Sequence[Any]], x: ArrayLike) -> Result:
    """Sweeps over all pairs p < q of n rows, until one has turned nothing.

    turn(p, q, x, turned) -> (x, turned), turned being an int64 that is set where it turns something.
    """
    nothing = np.int64(0)

    def sweep(done: ArrayLike, _: ArrayLike, x: ArrayLike) -> Sequence[Result]:
        def first(k: Extent, i: ArrayLike, _: Sequence[Any], outer: Sequence[Any]) -> Sequence[Result]:
            def second(_: Extent, j: ArrayLike, given: Sequence[Any], inner: Sequence[Any]) -> Sequence[Result]:
                (p,) = given
                return turn(p, add(add(p, j), np.int64(1)), *inner)

            return m.index_loop(n - 1 - k, second, outer, [i], level=1)

        x, turned = m.index_loop(n - 1, first, [x, nothing])
        return [add(done, np.int64(1)), turned, x]

    def unfinished(done: ArrayLike, turned: ArrayLike, _: ArrayLike) -> Result:
        return bind(And(), bind(Gt(), turned, nothing), bind(Lt(), done, np.int64(MOST_SWEEPS)))

    return m.while_loop(unfinished, sweep, [nothing, np.int64(1), x])[2]


@frozen(eq=False)
class Eigh(Primitive):
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices, or Hermitian ones, of which one triangle counts.
    a: [.., n, n] -> w real[.., n], v [.., n, n]

    lower: which triangle counts.  vectors: v, whose columns are of length 1 and have their element of greatest
    magnitude positive, is a result.
    """

    name = "eigh"
    multiple_results = True
    lower_triangle: bool = True
    vectors: bool = True

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (a,) = avals
        check_matrices(self.name, a)
        values = ShapedArray(a.shape[:-1], real_dtype(a.dtype))
        return (values, a.strong()) if self.vectors else (values,)

    def impl(self, *args: ArrayLike) -> list[Result]:
        a = np.asarray(args[0])
        w, v = np.linalg.eigh(a, "L" if self.lower_triangle else "U")
        if not self.vectors:
            return [w]
        return [w, v * signs_of(np.swapaxes(v, -1, -2))[..., None, :]]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike) -> Sequence[Result]:
            n, _ = shape_of(a)
            if isinstance(n, int) and not n:
                return [m.zeros((0,), m.part_dtype(a)), *([a] if self.vectors else [])]
            factor = m.safe_factor(a)
            x = mul(a, broadcast_in_dim(m.like(factor, a), (n, n), ()))
            diagonal, beside, *rows = tridiagonalized(x, self.vectors)
            turned = [m.eye_like(real(x))] if rows and m.is_complex(a) else rows
            w, *turned = diagonalized(diagonal, beside, turned)
            order = m.order_of(w)
            w = div(gather(w, (0,), [order]), broadcast_in_dim(factor, (n,), ()))
            if not rows:
                return [w]
            v = gather(turned[0], (0,), [order])
            if m.is_complex(a):
                v = m.product(m.like(v, a), rows[0])
            return [w, transpose(m.scaled_rows(v, m.upright_rows(v)), (1, 0))]

        return Expand(lambda a: m.each_matrix(one, m.mirrored(a, self.lower_triangle), ranks=(2,)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        """With C = V^H da V: dw is C's diagonal, dV = V (F * C) with F_ij = 1 / (w_j - w_i) off the diagonal; complex
        vectors are turned so that their element of greatest magnitude stays real.

        Source: Giles 2008, section 3.1 (eigenvalues and eigenvectors).
        """
        (a,), (t,) = primals, tangents
        if t is None:
            outs = list(bind(self, a))
            return outs, [None] * len(outs)
        w, v = bind(Eigh(self.lower_triangle), a)
        c = m.product(m.product(m.adjoint(v), m.mirrored(t, self.lower_triangle)), v)
        dw = real(m.diagonal_of(c))
        if not self.vectors:
            return list(bind(self, a)), [dw]
        dv = m.product(v, mul(m.like(inverse_gaps(w), c), c))
        if m.is_complex(a):
            dv = sub(dv, m.scaled_columns(v, m.without_turns(m.swapped(v), m.swapped(dv))))
        return [w, v], [dw, dv]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int]]:
        return of_stacks(self, args[0], dims[0])


def inverse_gaps(w: ArrayLike) -> Result:
    """1 / (w_j - w_i), 0 on the diagonal."""
    *lead, n = shape_of(w)
    wide, rank = (*lead, n, n), len(lead) + 2
    mine = broadcast_in_dim(w, wide, tuple(range(rank - 1)))
    other = broadcast_in_dim(w, wide, (*range(rank - 2), rank - 1))
    eye = m.eye_like(mine)
    # the ones keep the diagonal from a division by zero, which is 0 in the end
    return div(sub(broadcast_in_dim(m.dtype_of(w).type(1), wide, ()), eye), add(sub(other, mine), eye))


def signs_of(rows: Any) -> Any:
    """What `upright_rows` gives, of NumPy arrays."""
    if not rows.shape[-1]:
        return np.zeros(rows.shape[:-1], rows.dtype)
    place = np.argmax(np.abs(rows), -1)
    found = np.take_along_axis(rows, place[..., None], -1)[..., 0]
    if rows.dtype.kind == "c":
        none = found == 0
        return np.where(none, 1, found.conj() / np.where(none, 1, np.abs(found))).astype(rows.dtype)
    return np.where(found < 0, -1, 1).astype(rows.dtype)


def eigh(a: ArrayLike, lower: bool = True) -> tuple[Result, Result]:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    w, v = bind(Eigh(lower), a)
    return w, v


@frozen(eq=False)
class SVD(Primitive):
    """a = u @ diag(s) @ vt.   a: [.., m, n] -> u [.., m, k], s real[.., k], vt [.., k, n]

    k is the lesser of m and n; s descends.  full: u and vt are square.  vectors: u and vt are results.  Of each pair
    the vector of the shorter axis has its element of greatest magnitude positive.
    """

    name = "svd"
    multiple_results = True
    full: bool = False
    vectors: bool = True

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (a,) = avals
        check_matrices(self.name, a, square=False)
        *lead, rows, columns = a.shape
        k = shorter(rows, columns)
        s = ShapedArray((*lead, k), real_dtype(a.dtype))
        if not self.vectors:
            return (s,)
        mu, mv = (rows, columns) if self.full else (k, k)
        return a.with_shape((*lead, rows, mu)).strong(), s, a.with_shape((*lead, mv, columns)).strong()

    def impl(self, *args: ArrayLike) -> list[Result]:
        a = np.asarray(args[0])
        if not self.vectors:
            return [np.linalg.svd(a, compute_uv=False)]
        if a.shape[-2] < a.shape[-1]:
            u, s, vt = SVD(self.full).impl(np.swapaxes(a, -1, -2))
            return [np.ascontiguousarray(np.swapaxes(vt, -1, -2)), s, np.ascontiguousarray(np.swapaxes(u, -1, -2))]
        q, r = np.linalg.qr(a, "complete" if self.full else "reduced")
        n = a.shape[-1]
        u, s, vt = np.linalg.svd(r[..., :n, :])
        signs = signs_of(vt)
        u, vt = u * signs[..., None, :].conj(), vt * signs[..., None]
        return [np.concatenate([q[..., :n] @ u, q[..., n:]], -1), s, vt]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def turn(p: ArrayLike, q: ArrayLike, x: ArrayLike, turned: ArrayLike) -> Sequence[Result]:
            dtype = m.part_dtype(x)
            n = shape_of(x)[0]
            whole_p, whole_q = m.some_row(x, p), m.some_row(x, q)
            row_p, row_q = slice_array(whole_p, (0,), (n,)), slice_array(whole_q, (0,), (n,))
            pp, qq = (reduce_sum(m.squared(row), (0,)) for row in (row_p, row_q))
            pq = reduce_sum(mul(conj(row_p), row_q), (0,))
            least = mul(
                mul(bind(Sqrt(), pp), bind(Sqrt(), qq)),
                mul(dtype.type(np.finfo(dtype).eps), bind(Sqrt(), convert(extent_value(n, np.int64), dtype))),
            )
            apply = bind(Gt(), bind(Abs(), pq), least)
            if m.is_complex(x):  # the second row is turned so that their product is positive
                size = bind(Abs(), pq)
                safe = select(apply, size, dtype.type(1))
                phase = make_complex(div(real(pq), safe), neg(div(imag(pq), safe)))
                phase = select(apply, phase, m.dtype_of(x).type(1))
                whole_q, pq = mul(whole_q, broadcast_in_dim(phase, shape_of(whole_q), ())), size
            c, s, _ = _turn(sub(qq, pp), pq, apply)
            new_p, new_q = m.rotated(whole_p, whole_q, c, s)
            x = m.with_row(m.with_row(x, new_p, p), new_q, q)
            return [x, bind(Or(), turned, convert(apply, np.int64))]

        def one(r: ArrayLike) -> Sequence[Result]:
            """Of a square matrix; u comes with the lengths of its columns as they are, zeros included."""
            n, _ = shape_of(r)
            dtype = m.part_dtype(r)
            factor = m.safe_factor(r)
            x = mul(transpose(r, (1, 0)), broadcast_in_dim(m.like(factor, r), (n, n), ()))
            w = _over_pairs(n, turn, concatenate([x, m.eye_like(x)], 1) if self.vectors else x)
            x = slice_array(w, (0, 0), (n, n))
            s = bind(Sqrt(), reduce_sum(m.squared(x), (1,)))
            order = m.order_of(s, descending=True)
            s = gather(s, (0,), [order])
            if not self.vectors:
                return [div(s, broadcast_in_dim(factor, (n,), ()))]
            x, v = gather(x, (0,), [order]), conj(gather(slice_array(w, (0, n), (n, n)), (0,), [order]))
            none = bind(Eq(), s, broadcast_in_dim(dtype.type(0), (n,), ()))
            lengths = select(none, broadcast_in_dim(dtype.type(1), (n,), ()), s)
            x = div(x, broadcast_in_dim(m.like(lengths, x), (n, n), (0,)))
            signs = m.upright_rows(v)
            out = transpose(m.scaled_rows(x, conj(signs)), (1, 0))
            return [out, div(s, broadcast_in_dim(factor, (n,), ())), m.scaled_rows(v, signs)]

        def tall(a: ArrayLike) -> Sequence[Result]:
            *lead, _, n = shape_of(a)
            q, r = qr(a, complete=self.full and self.vectors)
            square = slice_array(r, (0,) * len(shape_of(r)), (*lead, n, n))
            if not self.vectors:
                return m.each_matrix(one, square, ranks=(2,))
            u, s, vt = m.each_matrix(one, square, ranks=(2,))
            # columns of zeros, which have no direction, come last: reflections complete those before them
            turned, triangle = qr(u)
            signs = real(m.diagonal_of(triangle))
            zero, one_ = m.part_dtype(a).type(0), m.part_dtype(a).type(1)
            negative = bind(Lt(), signs, broadcast_in_dim(zero, shape_of(signs), ()))
            u = m.scaled_columns(
                turned, select(negative, *[broadcast_in_dim(k, shape_of(signs), ()) for k in (-one_, one_)])
            )
            start = (0,) * len(shape_of(a))
            rows = shape_of(a)[-2]
            first = m.product(slice_array(q, start, (*lead, rows, n)), u)
            if self.full and not same_extent(rows, n):
                rest = slice_array(q, (*start[:-1], n), (*lead, rows, rows - n))
                first = concatenate([first, rest], len(lead) + 1)
            return [first, s, vt]

        def any_shape(a: ArrayLike) -> Sequence[Result]:
            if not is_wide(*shape_of(a)[-2:]):
                return tall(a)
            outs = tall(m.swapped(a))
            if not self.vectors:
                return outs
            u, s, vt = outs
            return [m.swapped(vt), s, m.swapped(u)]

        return Expand(any_shape)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        """With C = u^H da v: ds is C's diagonal, du = u (F * (C S + S C^H)) and dv = v (F * (S C + C^H S)) with
        F_ij = 1 / (s_j^2 - s_i^2) off the diagonal, and what of da lies outside of the span of u, or v, over s.
        Complex vectors are turned so that the element which is real stays so.

        Source: Giles 2008, section 3.2 (singular values); the product rule for the vectors.
        """
        (a,), (t,) = primals, tangents
        if t is None:
            outs = list(bind(self, a))
            return outs, [None] * len(outs)
        rows, columns = shape_of(a)[-2:]
        if self.vectors and self.full and not same_extent(rows, columns):
            raise UnsupportedError(
                "the singular value decomposition of matrices that are not square has a derivative with "
                "full_matrices=False only: which vectors complete the others is arbitrary"
            )
        u, s, vt = bind(SVD(), a)
        c = m.product(m.product(m.adjoint(u), t), m.adjoint(vt))
        ds = real(m.diagonal_of(c))
        if not self.vectors:
            return list(bind(self, a)), [ds]
        gaps = m.like(inverse_gaps(mul(s, s)), c)
        cs, sc = m.scaled_columns(c, s), m.scaled_rows(c, s)
        du = m.product(u, mul(gaps, add(cs, m.adjoint(cs))))
        dv = m.product(m.adjoint(vt), mul(gaps, add(sc, m.adjoint(sc))))
        inverse = div(broadcast_in_dim(m.dtype_of(s).type(1), shape_of(s), ()), s)
        wide = is_wide(rows, columns)
        if not same_extent(rows, columns):
            if wide:
                across = m.product(m.adjoint(t), u)
                outside = sub(across, m.product(m.adjoint(vt), m.product(vt, across)))
                dv = add(dv, m.scaled_columns(outside, inverse))
            else:
                across = m.product(t, m.adjoint(vt))
                outside = sub(across, m.product(u, m.product(m.adjoint(u), across)))
                du = add(du, m.scaled_columns(outside, inverse))
        dvt = m.adjoint(dv)
        if m.is_complex(a):
            turns = imag(m.diagonal_of(c))
            turns = make_complex(m.zeros(shape_of(s), m.dtype_of(s)), mul(turns, inverse))
            du = add(du, m.scaled_columns(u, turns))
            of_left = m.without_turns(m.swapped(u), m.swapped(du)) if wide else neg(m.without_turns(vt, dvt))
            du, dvt = sub(du, m.scaled_columns(u, of_left)), add(dvt, m.scaled_rows(vt, of_left))
        return [u, s, vt], [du, ds, dvt]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int]]:
        return of_stacks(self, args[0], dims[0])


def svd(a: ArrayLike, full: bool = False) -> tuple[Result, Result, Result]:
    """u, s and vt."""
    u, s, vt = bind(SVD(full), a)
    return u, s, vt
