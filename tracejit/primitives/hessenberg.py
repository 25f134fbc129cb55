"""Hessenberg's form of square matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.elementwise import add, mul, sub
from tracejit.primitives.qr import reflected, reflector
from tracejit.primitives.shape import broadcast_in_dim, reshape, slice_array
from tracejit.primitives.slicing import update_slice
from tracejit.primitives.triangular import check_matrices
from tracejit.primitives.undetermined import Undetermined
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["Hessenberg", "PackedHessenberg", "hessenberg", "reduced", "reflector_of"]


@frozen(eq=False)
class Hessenberg(Undetermined):
    """a = q h q^H with zeros in h below the elements beside its diagonal, and unitary q.
    a: [.., n, n] -> h [.., n, n], q [.., n, n]

    vectors: q is a result.  Source: Householder's reflections, as LAPACK's gehrd.
    """

    name = "hessenberg"
    what = "Hessenberg's form"
    vectors: bool = True

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (a,) = avals
        check_matrices(self.name, a)
        return (a.strong(),) * (1 + self.vectors)

    def impl(self, *args: ArrayLike) -> list[Result]:
        h = np.array(args[0])
        q = np.broadcast_to(np.eye(h.shape[-1], dtype=h.dtype), h.shape).copy()
        for at in np.ndindex(*h.shape[:-2]):
            hessenberg_by_numpy(h[at], q[at])
        return [h, q] if self.vectors else [h]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike) -> Sequence[Result]:
            h, *q = reduced(a, self.vectors)
            return [h, *q]

        return Expand(lambda a: m.each_matrix(one, a, ranks=(2,)))


@frozen(eq=False)
class PackedHessenberg(Undetermined):
    """Hessenberg's form with the reflections by which it is made: their vectors, without the ones, lie below it.
    a: [.., n, n] -> packed [.., n, n], taus [.., n - 1]

    Source: LAPACK's gehrd.
    """

    name = "packed_hessenberg"
    what = "Hessenberg's form"

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (a,) = avals
        check_matrices(self.name, a)
        return a.strong(), ShapedArray((*a.shape[:-2], extent_before(a.shape[-1])), a.dtype)

    def impl(self, *args: ArrayLike) -> list[Result]:
        h = np.array(args[0])
        n = h.shape[-1]
        taus = np.zeros((*h.shape[:-2], max(n - 1, 0)), h.dtype)
        for at in np.ndindex(*h.shape[:-2]):
            vectors = hessenberg_by_numpy(h[at], np.zeros((0, n), h.dtype))
            for k, (v, tau) in enumerate(vectors):
                h[at][k + 2 :, k], taus[at][k] = v[1:], tau
        return [h, taus]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return Expand(lambda a: m.each_matrix(packed, a, ranks=(2,)))


def extent_before(n: Extent) -> Extent:
    """n - 1, of nothing 0."""
    return 0 if isinstance(n, int) and n == 0 else n - 1


def reflector_of(x: Any) -> tuple[Any, Any, Any]:
    """What `reflector` gives, of a NumPy array."""
    v, part = x.copy(), np.real(x).dtype.type
    top, squares = x[0], np.sum(np.abs(x[1:]) ** 2)
    v[0] = 1
    if squares == 0 and np.imag(top) == 0:
        return v, x.dtype.type(0), top
    beta = part(-np.copysign(np.sqrt(np.abs(top) ** 2 + squares), np.real(top)))
    v[1:] /= top - beta
    return (
        v,
        x.dtype.type((beta - np.real(top)) / beta - (1j * np.imag(top) / beta if x.dtype.kind == "c" else 0)),
        beta,
    )


def hessenberg_by_numpy(h: Any, q: Any) -> list[tuple[Any, Any]]:
    """One matrix changed to h, and q multiplied by the reflections from the right; their vectors and factors."""
    found: list[tuple[Any, Any]] = []
    for k in range(len(h) - 1):
        v, tau, beta = reflector_of(h[k + 1 :, k])
        h[k + 1 :, k:] -= np.conj(tau) * np.outer(v, v.conj() @ h[k + 1 :, k:])
        for x in (h, q):
            x[:, k + 1 :] -= tau * np.outer(x[:, k + 1 :] @ v, v.conj())
        h[k + 1, k] = beta
        h[k + 2 :, k] = 0
        found.append((v, tau))
    return found


def packed(a: ArrayLike) -> list[Result]:
    """(h with the vectors of the reflections below it, their factors) of one matrix."""
    n = shape_of(a)[0]
    if isinstance(n, int) and n < 2:
        return [a, m.zeros((extent_before(n),), m.dtype_of(a))]
    h, rows, scales = _steps(a, True)
    # a row of `rows` is a column's vector, its one beside the diagonal, where h stands
    lower = slice_array(m.swapped(rows), (1, 0), (n - 1, n))
    below = update_slice(m.zeros((n, n), m.dtype_of(a)), m.lower_part(lower, True), (1, 0))
    return [add(h, below), slice_array(scales, (0,), (n - 1,))]


def reduced(a: ArrayLike, vectors: bool) -> list[Result]:
    """(h, q if wanted) of one matrix."""
    n = shape_of(a)[0]
    h, *kept = _steps(a, vectors)
    if not vectors:
        return [h]

    def formed(at: Extent, _: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
        (rows, scales), (q,) = consts, carries
        k = n - 2 - at
        tau = reshape(slice_array(scales, (k,), (1,)), ())
        return [reflected(q, m.row_of(rows, k, k + 1), tau, k + 1)]

    (q,) = m.index_loop(n - 1, formed, [m.eye_like(h)], kept)
    return [h, q]


def _steps(a: ArrayLike, vectors: bool) -> list[Result]:
    """(h, and if wanted the vectors of the reflections as rows and their factors) of one matrix."""
    n = shape_of(a)[0]
    dtype = m.dtype_of(a)

    def step(k: Extent, _: ArrayLike, __: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
        x, *kept = carries
        j, rest = k + 1, n - 1 - k
        v, tau, beta = reflector(m.column_of(x, k, j))
        shape = (rest, n - k)
        part = slice_array(x, (j, k), shape)
        sums = mul(dot_general(conj(v), part, ((0,), (0,))), broadcast_in_dim(conj(tau), (n - k,), ()))
        part = sub(part, mul(broadcast_in_dim(v, shape, (0,)), broadcast_in_dim(sums, shape, (1,))))
        x = m.put(x, part, j, k)
        x = m.put_column(x, update_slice(m.zeros((rest,), dtype), reshape(beta, (1,)), (0,)), k, j)
        part = slice_array(x, (0, j), (n, rest))
        sums = mul(dot_general(part, v, ((1,), (0,))), broadcast_in_dim(tau, (n,), ()))
        change = mul(broadcast_in_dim(sums, (n, rest), (0,)), broadcast_in_dim(conj(v), (n, rest), (1,)))
        x = m.put(x, sub(part, change), 0, j)
        if kept:
            rows, scales = kept
            kept = [m.put_row(rows, v, k, j), update_slice(scales, reshape(tau, (1,)), (k,))]
        return [x, *kept]

    return m.index_loop(n - 1, step, [a, *([m.zeros((n, n), dtype), m.zeros((n,), dtype)] if vectors else [])])


def hessenberg(a: ArrayLike) -> tuple[Result, Result]:
    """h and q."""
    h, q = bind(Hessenberg(), a)
    return h, q
