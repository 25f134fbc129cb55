"""Symmetric and Hermitian matrices as tridiagonal ones, and the eigenvalues of these, which `Eigh` is written with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.arithmetic import Abs
from tracejit.primitives.comparison import And, Eq, Ge, Gt, Lt
from tracejit.primitives.complex_numbers import conj, real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.elementwise import add, div, mul, neg, select, sub
from tracejit.primitives.hessenberg import reflector_of
from tracejit.primitives.qr import reflected, reflector
from tracejit.primitives.shape import broadcast_in_dim, reshape, reverse, slice_array, transpose
from tracejit.primitives.slicing import update_slice
from tracejit.primitives.transcendental import Sqrt
from tracejit.primitives.triangular import check_matrices
from tracejit.primitives.undetermined import Undetermined
from tracejit.support.dtypes import real_dtype
from tracejit.support.errors import ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["Tridiagonal", "diagonalized", "tridiagonalized"]

MOST_SWEEPS = 30
"""Sweeps for each eigenvalue; fewer than 2 are needed on average."""


@frozen(eq=False)
class Tridiagonal(Undetermined):
    """The tridiagonal q^H a q of symmetric matrices, or Hermitian ones, of which one triangle counts, and the
    reflections whose product q is.   a: [.., n, n] -> packed [.., n, n], d real[.., n], e real[.., n-1], taus [.., n-1]

    packed: d on the diagonal, e beside it, the reflections' vectors without their ones in the rest of that triangle,
    and in the other what a has there.   Source: the conventions of LAPACK's hetrd.
    """

    name = "tridiagonal"
    what = "the tridiagonal form"
    lower_triangle: bool = True

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (a,) = avals
        check_matrices(self.name, a)
        *lead, n, _ = a.shape
        part = real_dtype(a.dtype)
        if isinstance(n, int) and not n:
            raise ShapeError(f"[{self.name}] takes matrices with elements, not {a}")
        beside = (*lead, n - 1)
        return a.strong(), ShapedArray((*lead, n), part), ShapedArray(beside, part), ShapedArray(beside, a.dtype)

    def impl(self, *args: ArrayLike) -> list[Result]:
        a = np.asarray(args[0])
        turn = 1 if self.lower_triangle else -1
        given = a[..., ::turn, ::turn]
        *lead, n, _ = a.shape
        part = np.real(a).dtype
        packed, taus = given.copy(), np.zeros((*lead, n - 1), a.dtype)
        d, e = np.zeros((*lead, n), part), np.zeros((*lead, n - 1), part)
        for at in np.ndindex(*lead):
            below = np.tril(given[at], -1)
            x = below + below.conj().T + np.diag(np.real(np.diag(given[at])))
            for k in range(n - 1):
                v, tau, e[(*at, k)] = reflector_of(x[k + 1 :, k])
                packed[(*at, slice(k + 1, None), k)], taus[(*at, k)] = v, tau
                packed[(*at, k + 1, k)] = e[(*at, k)]
                y = tau * (x[k + 1 :, k + 1 :] @ v)
                y = y - tau * (y.conj() @ v) / 2 * v
                x[k + 1 :, k + 1 :] -= np.outer(v, y.conj()) + np.outer(y, v.conj())
            d[at] = np.real(np.diag(x))
            packed[at][np.diag_indices(n)] = d[at]
        return [
            packed[..., ::turn, ::turn].copy(),
            d[..., ::turn].copy(),
            e[..., ::turn].copy(),
            taus[..., ::turn].copy(),
        ]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike) -> Sequence[Result]:
            n = shape_of(a)[0]
            given = a if self.lower_triangle else reverse(a, (0, 1))
            x, beside, scales, rows = _reflected_to_bands(m.mirrored(given), True)
            d, e, taus = (
                real(m.diagonal_of(x)),
                slice_array(real(beside), (0,), (n - 1,)),
                slice_array(scales, (0,), (n - 1,)),
            )
            i, j = iota((n, n), 0, np.int64), iota((n, n), 1, np.int64)
            packed = select(bind(Gt(), i, j), m.swapped(rows), given)
            packed = select(bind(Eq(), i, j), broadcast_in_dim(m.like(d, a), (n, n), (0,)), packed)
            next_to = bind(Eq(), i, add(j, broadcast_in_dim(np.int64(1), (n, n), ())))
            packed = select(next_to, broadcast_in_dim(beside, (n, n), (1,)), packed)
            if self.lower_triangle:
                return [packed, d, e, taus]
            return [reverse(packed, (0, 1)), *[reverse(y, (0,)) for y in (d, e, taus)]]

        return Expand(lambda a: m.each_matrix(one, a, ranks=(2,)))


def _reflected_to_bands(a: ArrayLike, vectors: bool) -> list[Result]:
    """(the matrix with the diagonal of Q^H a Q, elements beside it and a 0, factors of the reflections and, if wanted,
    their vectors as rows), for a symmetric matrix or a Hermitian one.
    """
    n = shape_of(a)[0]
    dtype = m.dtype_of(a)

    def step(k: Extent, _: ArrayLike, __: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
        x, beside, scales, *kept = carries
        j, rest = k + 1, n - 1 - k
        v, tau, beta = reflector(m.column_of(x, k, j))
        part = slice_array(x, (j, j), (rest, rest))
        spread = broadcast_in_dim(tau, (rest,), ())
        turned = mul(dot_general(part, v, ((1,), (0,))), spread)
        along = mul(mul(dot_general(conj(turned), v, ((0,), (0,))), tau), dtype.type(0.5))
        turned = sub(turned, mul(broadcast_in_dim(along, (rest,), ()), v))
        shape = (rest, rest)
        change = add(
            mul(broadcast_in_dim(v, shape, (0,)), broadcast_in_dim(conj(turned), shape, (1,))),
            mul(broadcast_in_dim(turned, shape, (0,)), broadcast_in_dim(conj(v), shape, (1,))),
        )
        x = m.put(x, sub(part, change), j, j)
        beside = update_slice(beside, reshape(beta, (1,)), (k,))
        scales = update_slice(scales, reshape(tau, (1,)), (k,))
        return [x, beside, scales, *[m.put_row(rows, v, k, j) for rows in kept]]

    zeros = m.zeros((n,), dtype)
    start = [a, zeros, zeros, *([m.zeros((n, n), dtype)] if vectors else [])]
    return m.index_loop(n - 1, step, start)


def tridiagonalized(a: ArrayLike, vectors: bool) -> list[Result]:
    """(diagonal, elements beside it and a 0, rows of Q^T if wanted) of Q^H a Q, for a symmetric matrix, or a Hermitian
    one; these two are real.

    Source: Householder's reflections, each applied from both sides (Wilkinson 1960, "Householder's method for the
    solution of the algebraic eigenproblem").
    """
    x, beside, scales, *kept = _reflected_to_bands(a, vectors)
    if not vectors:
        return [real(m.diagonal_of(x)), real(beside)]
    n = shape_of(a)[0]

    def formed(at: Extent, _: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
        (rows, scales), (q,) = consts, carries
        k = n - 2 - at
        tau = reshape(slice_array(scales, (k,), (1,)), ())
        return [reflected(q, m.row_of(rows, k, k + 1), tau, k + 1)]

    (q,) = m.index_loop(n - 1, formed, [m.eye_like(x)], [*kept, scales])
    return [real(m.diagonal_of(x)), real(beside), transpose(q, (1, 0))]


def diagonalized(diagonal: ArrayLike, beside: ArrayLike, rows: Sequence[ArrayLike]) -> list[Result]:
    """(eigenvalues, rows of the eigenvectors if these are wanted) of a tridiagonal matrix, in no order.

    rows: none, or the one matrix whose rows are turned along.
    Source: the implicit QL algorithm with Wilkinson's shifts (Dubrulle, Martin and Wilkinson 1968).
    """
    (n,) = shape_of(diagonal)
    dtype = m.dtype_of(diagonal)
    zero, one, two = (dtype.type(x) for x in (0, 1, 2))
    eps = dtype.type(np.finfo(dtype).eps)
    none, single = np.int64(0), np.int64(1)

    def split(place: ArrayLike, d: ArrayLike, e: ArrayLike) -> ArrayLike:
        """The end of the block that begins at a place."""

        def goes_on(d: ArrayLike, e: ArrayLike, at: ArrayLike) -> ArrayLike:
            size = add(bind(Abs(), m.element(d, at)), bind(Abs(), m.element(d, add(at, single))))
            coupled = bind(Gt(), bind(Abs(), m.element(e, at)), mul(eps, size))
            return bind(And(), bind(Lt(), at, extent_value(n - 1, np.int64)), coupled)

        return m.while_loop(goes_on, lambda d, e, at: [add(at, single)], [place], [d, e])[0]

    def unfinished(place: ArrayLike, sweeps: ArrayLike, *_: ArrayLike) -> ArrayLike:
        inside = bind(Lt(), place, extent_value(n, np.int64))
        return bind(And(), inside, bind(Lt(), sweeps, extent_value(MOST_SWEEPS * n, np.int64)))

    def below(place: ArrayLike, _: ArrayLike, i: ArrayLike, *__: ArrayLike) -> ArrayLike:
        return bind(Ge(), i, place)

    def turn(_: ArrayLike, end: ArrayLike, i: ArrayLike, *state: ArrayLike) -> Sequence[Result]:
        s, c, p, g, d, e, *z = state
        after = add(i, single)
        coupling = m.element(e, i)
        f, b = mul(s, coupling), mul(c, coupling)
        r = bind(Sqrt(), add(mul(f, f), mul(g, g)))
        nothing = bind(Eq(), r, zero)
        safe = select(nothing, one, r)
        s, c = select(nothing, zero, div(f, safe)), select(nothing, one, div(g, safe))
        e = m.with_element(e, select(bind(Eq(), after, end), zero, r), after)
        h = sub(m.element(d, after), p)
        r = add(mul(sub(m.element(d, i), h), s), mul(mul(two, c), b))
        p = mul(s, r)
        d = m.with_element(d, add(h, p), after)
        g = sub(mul(c, r), b)
        if z:
            first, second = m.rotated(m.some_row(z[0], i), m.some_row(z[0], after), c, s)
            z = [m.with_row(m.with_row(z[0], first, i), second, after)]
        return [sub(i, single), s, c, p, g, d, e, *z]

    def sweep(place: ArrayLike, sweeps: ArrayLike, d: ArrayLike, e: ArrayLike, *z: ArrayLike) -> Sequence[Result]:
        end = split(place, d, e)
        moved = bind(Gt(), end, place)
        mine, coupling = m.element(d, place), m.element(e, place)
        ratio = div(sub(m.element(d, add(place, single)), mine), mul(two, select(moved, coupling, one)))
        size = bind(Sqrt(), add(mul(ratio, ratio), one))
        size = add(ratio, select(bind(Lt(), ratio, zero), neg(size), size))
        g = add(sub(m.element(d, end), mine), div(coupling, size))
        start = [sub(end, single), one, one, zero, g, d, e, *z]
        _, _, _, p, g, d, e, *turned = m.while_loop(below, turn, start, [place, end])
        d = m.with_element(d, sub(m.element(d, place), p), place)
        e = m.with_element(e, select(moved, g, m.element(e, place)), place)
        # a block of one element is an eigenvalue
        return [select(moved, place, add(place, single)), add(sweeps, single), d, e, *turned]

    _, _, d, _, *z = m.while_loop(unfinished, sweep, [none, none, diagonal, beside, *rows])
    return [d, *z]
