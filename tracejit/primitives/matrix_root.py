"""The principal square root of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.comparison import Eq, Gt
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import extent_value
from tracejit.primitives.elementwise import add, convert, div, select, sub
from tracejit.primitives.schur import Schur, schur, to_complex
from tracejit.primitives.shape import reshape
from tracejit.primitives.slicing import dynamic_slice
from tracejit.primitives.sylvester import sylvester
from tracejit.primitives.transcendental import Sqrt
from tracejit.primitives.triangular import check_matrices
from tracejit.support.dtypes import complex_dtype
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["Sqrtm", "sqrtm"]


@frozen(eq=False)
class Sqrtm(Primitive):
    """The principal square roots of square matrices, complex in any case.   a: [.., n, n] -> complex[.., n, n]

    Source: Bjorck and Hammarling 1983, "A Schur method for the square root of a matrix".
    """

    name = "sqrtm"

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (a,) = avals
        check_matrices(self.name, a)
        return ShapedArray(a.shape, complex_dtype(a.dtype))

    def impl(self, *args: ArrayLike) -> Result:
        a = np.asarray(args[0])
        out = np.zeros(a.shape, complex_dtype(a.dtype))
        for at in np.ndindex(*a.shape[:-2]):
            t, z = Schur().impl(a[at])
            with np.errstate(all="ignore"):
                t, z = _complex_by_numpy(t.astype(out.dtype), z.astype(out.dtype))
                x = np.diag(np.sqrt(np.diag(t)))
                for j in range(len(t)):
                    for i in reversed(range(j)):
                        rest = t[i, j] - x[i, i + 1 : j] @ x[i + 1 : j, j]
                        x[i, j] = rest / (x[i, i] + x[j, j]) if rest != 0 else 0
            out[at] = z @ x @ z.conj().T
        return out

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return Expand(lambda a: m.each_matrix(_root, a, ranks=(2,)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        """dX with X dX + dX X = da."""
        (a,), (t,) = primals, tangents
        out = bind(self, a)
        return out, None if t is None else sylvester(out, out, m.like(t, out))

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        return bind(self, move_to_front(args[0], dims[0])), 0


def _complex_by_numpy(t: Any, z: Any) -> tuple[Any, Any]:
    """Blocks of two rows made triangles; a triangle stays as it is."""
    eps = np.finfo(t.dtype).eps
    for k in range(len(t) - 1, 0, -1):
        rows = slice(k - 1, k + 1)
        if abs(t[k, k - 1]) > eps * (abs(t[k - 1, k - 1]) + abs(t[k, k])):
            value = Schur(False).impl(t[rows, rows])[0][0, 0] - t[k, k]
            length = np.hypot(abs(value), abs(t[k, k - 1]))
            c, s = value / length, t[k, k - 1] / length
            turn = np.array([[c.conjugate(), s], [-s, c]])
            t[rows, k - 1 :] = turn @ t[rows, k - 1 :]
            t[: k + 1, rows] = t[: k + 1, rows] @ turn.conj().T
            z[:, rows] = z[:, rows] @ turn.conj().T
        t[k, k - 1] = 0
    return t, z


def _root(a: ArrayLike) -> list[Result]:
    """Of one matrix, by Schur's form: the root of the triangle, row by row from the last.

    What is not known yet is zero, so that products of whole rows and columns are those of the known part.
    """
    t, z = schur(a)
    if not m.is_complex(a):  # negative eigenvalues have no imaginary parts, whose sign would decide
        dtype = complex_dtype(m.dtype_of(a))
        t, z = to_complex(convert(t, dtype), convert(z, dtype))
    n = shape_of(a)[0]
    zero, one = m.dtype_of(t).type(0), m.dtype_of(t).type(1)
    none = np.int64(0)

    def row(_: Extent, at: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
        (t,), (x,) = consts, carries
        i = sub(extent_value(n - 1, np.int64), at)

        def column(_: Extent, j: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
            (t, i), (x,) = consts, carries
            above = reshape(dynamic_slice(x, (none, j), (n, 1)), (n,))
            rest = sub(m.element(t, i, j), dot_general(m.some_row(x, i), above, ((0,), (0,))))
            size = add(m.element(x, i, i), m.element(x, j, j))
            flat = bind(Eq(), rest, zero)
            found = select(flat, zero, div(rest, select(flat, one, size)))
            return [m.with_element(x, select(bind(Gt(), j, i), found, m.element(x, i, j)), i, j)]

        return m.index_loop(n, column, [x], [t, i], level=1)

    start = m.scaled_columns(m.eye_like(t), bind(Sqrt(), m.diagonal_of(t)))
    (x,) = m.index_loop(n, row, [start], [t])
    return [m.product(m.product(z, x), m.adjoint(z))]


def sqrtm(a: ArrayLike) -> Result:
    """The principal square roots of square matrices."""
    return bind(Sqrtm(), a)
