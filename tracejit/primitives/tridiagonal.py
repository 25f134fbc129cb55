"""Eigenvalues of symmetric matrices by way of tridiagonal ones: what the rule of `Eigh` is written with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.arithmetic import Abs
from tracejit.primitives.comparison import And, Eq, Ge, Gt, Lt
from tracejit.primitives.complex_numbers import conj, real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import extent_value
from tracejit.primitives.elementwise import add, div, mul, neg, select, sub
from tracejit.primitives.qr import reflected, reflector
from tracejit.primitives.shape import broadcast_in_dim, reshape, slice_array, transpose
from tracejit.primitives.slicing import update_slice
from tracejit.primitives.transcendental import Sqrt
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["diagonalized", "tridiagonalized"]

MOST_SWEEPS = 30
"""Sweeps for each eigenvalue; fewer than 2 are needed on average."""


def tridiagonalized(a: ArrayLike, vectors: bool) -> list[Result]:
    """(diagonal, elements beside it and a 0, rows of Q^T if wanted) of Q^H a Q, for a symmetric matrix, or a Hermitian
    one; these two are real.

    Source: Householder's reflections, each applied from both sides (Wilkinson 1960, "Householder's method for the
    solution of the algebraic eigenproblem").
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
    x, beside, scales, *kept = m.index_loop(n - 1, step, start)
    if not vectors:
        return [real(m.diagonal_of(x)), real(beside)]

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
