"""Triangular systems and the Cholesky decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.comparison import Gt
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.elementwise import add, div, mul, neg, select, sub
from tracejit.primitives.shape import broadcast_in_dim, reshape, slice_array, transpose
from tracejit.primitives.slicing import update_slice
from tracejit.primitives.transcendental import Sqrt
from tracejit.support.dtypes import short_name
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front, spread
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["Cholesky", "TriangularSolve", "check_matrices", "cholesky", "triangular_solve"]


BLOCK = 32
"""Rows that are solved before the others of a large system are changed, by one product."""
FEW = 8
"""Right-hand sides for which products are too narrow."""


def check_matrices(name: str, x: ShapedArray, square: bool = True) -> None:
    """Raises: ShapeError, DtypeError unless x is a stack of matrices of float32, float64, complex64 or complex128."""
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise ShapeError(f"[{name}] takes {'square ' if square else ''}matrices in the last two axes, not {x}")
    if x.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise DtypeError(
            f"[{name}] computes in float32, float64 or complex numbers of these, not in {short_name(x.dtype)}; convert "
            "first"
        )


@frozen(eq=False)
class TriangularSolve(Primitive):
    """The solutions of triangular systems.   a: [.., n, n], b: [.., n, k] -> [.., n, k]

    lower: which triangle of a counts.  transposed: a's transpose in its place.  unit: its diagonal is taken for ones.
    A zero on the diagonal gives infinities and NaN.
    """

    name = "triangular_solve"
    lower_triangle: bool
    transposed: bool = False
    unit: bool = False

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        a, b = avals
        check_matrices(self.name, a)
        if b.dtype != a.dtype:
            raise DtypeError(f"[{self.name}] operands differ in dtype: {a} and {b}")
        if b.ndim != a.ndim or b.shape[:-2] != a.shape[:-2] or b.shape[-2] != a.shape[-1]:
            raise ShapeError(f"[{self.name}] {b} are no right-hand sides for {a}")
        return b.strong()

    def impl(self, *args: ArrayLike) -> Result:
        a, b = (np.asarray(x) for x in args)
        t = np.tril(a) if self.lower_triangle else np.triu(a)
        if self.transposed:
            t = np.swapaxes(t, -1, -2)
        x = np.zeros_like(b)
        n = a.shape[-1]
        downwards = self.lower_triangle != self.transposed
        with np.errstate(all="ignore"):
            for i in range(n) if downwards else reversed(range(n)):
                done = slice(0, i) if downwards else slice(i + 1, n)
                row = b[..., i, :] - np.einsum("...k,...kj->...j", t[..., i, done], x[..., done, :])
                x[..., i, :] = row if self.unit else row / t[..., i, i, None]
        return x

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        downwards = self.lower_triangle != self.transposed

        def rows_of(
            a: ArrayLike, b: ArrayLike, x: ArrayLike, first: Extent, count: Extent, level: int
        ) -> Sequence[Result]:
            """x with `count` rows from `first` on solved, b being right for these alone."""
            k = shape_of(b)[1]

            def step(at: Extent, _: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
                (a, b), (x,) = consts, carries
                i, start = (first + at, first) if downwards else (first + count - 1 - at, first + count - at)
                factors = slice_array(a, (i, start), (1, at))
                done = slice_array(x, (start, 0), (at, k))
                row = sub(slice_array(b, (i, 0), (1, k)), m.product(factors, done))
                if not self.unit:
                    row = div(row, broadcast_in_dim(reshape(slice_array(a, (i, i), (1, 1)), ()), (1, k), ()))
                return [m.put(x, row, i, 0)]

            return m.index_loop(count, step, [x], [a, b], level)

        def one(a: ArrayLike, b: ArrayLike) -> Sequence[Result]:
            n, k = shape_of(b)
            x = m.zeros((n, k), m.dtype_of(b))
            if (isinstance(n, int) and n < 2 * BLOCK) or (isinstance(k, int) and k < FEW):
                return rows_of(a, b, x, 0, n, 0)
            whole = n // BLOCK
            rest = n - BLOCK * whole

            def block(at: Extent, _: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
                a, (b, x) = consts[0], carries
                first = BLOCK * at if downwards else n - BLOCK * at - BLOCK
                (x,) = rows_of(a, b, x, first, BLOCK, 1)
                # what the solved rows contribute to the others
                start, count = (first + BLOCK, n - BLOCK * at - BLOCK) if downwards else (0, first)
                factors = slice_array(a, (start, first), (count, BLOCK))
                done = slice_array(x, (first, 0), (BLOCK, k))
                others = slice_array(b, (start, 0), (count, k))
                return [m.put(b, sub(others, m.product(factors, done)), start, 0), x]

            b, x = m.index_loop(whole, block, [b, x], [a])
            return rows_of(a, b, x, BLOCK * whole if downwards else 0, rest, 0)

        def together(a: ArrayLike, b: ArrayLike) -> Result:
            *lead, n, k = shape_of(b)
            assert isinstance(n, int)
            wide, first, over = (*lead, 1, k), (0,) * len(lead), tuple(range(len(lead)))
            factors = m.elements_of(m.swapped(a) if self.transposed else a)
            out, done = m.zeros((*lead, n, k), m.dtype_of(b)), dict[int, Any]()
            for i in range(n) if downwards else reversed(range(n)):
                pairs = [(broadcast_in_dim(factors[i][j], wide, over), x) for j, x in sorted(done.items())]
                row = m.less_products(slice_array(b, (*first, i, 0), wide), pairs)
                done[i] = row if self.unit else div(row, broadcast_in_dim(factors[i][i], wide, over))
                out = update_slice(out, done[i], (*first, i, 0))
            return out

        if m.is_stack_of_small(operands[0].shape):
            return Expand(together)

        def whole(a: ArrayLike, b: ArrayLike) -> Sequence[Result]:
            return m.each_matrix(one, m.swapped(a) if self.transposed else a, b, ranks=(2, 2))

        return Expand(whole)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (a, b), (da, db) = primals, tangents
        x = bind(self, a, b)
        right = db
        if da is not None:
            part = m.lower_part(da, self.unit) if self.lower_triangle else m.upper_part(da, self.unit)
            moved = neg(m.product(m.swapped(part) if self.transposed else part, x))
            right = moved if db is None else sub(db, neg(moved))
        return x, None if right is None else bind(self, a, right)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        a, b = args
        assert isinstance(b, UndefinedPrimal)
        return [None, bind(TriangularSolve(self.lower_triangle, not self.transposed, self.unit), a, ct)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        (a, b), (da, db) = args, dims
        if da is None and len(shape_of(a)) == 2 and db is not None:  # one matrix: the mapped axis is of columns
            moved = move_to_front(b, db)
            _, n, k = shape_of(moved)
            wide = reshape(transpose(moved, (1, 0, 2)), (n, size * k))
            out = reshape(bind(self, a, wide), (n, size, k))
            return out, 1
        return bind(self, spread(a, da, size), spread(b, db, size)), 0


def triangular_solve(
    a: ArrayLike, b: ArrayLike, *, lower: bool, transposed: bool = False, unit: bool = False
) -> Result:
    """Solutions of triangular systems."""
    return bind(TriangularSolve(lower, transposed, unit), a, b)


@frozen(eq=False)
class Cholesky(Primitive):
    """L with L @ L.T = a (of complex numbers L @ L.mT.conj()), of which the lower triangle counts.
    a: [.., n, n] -> [.., n, n]

    What a has of imaginary parts on its diagonal does not count.  From the first column on where a is found not to be
    positive definite, diagonal elements are NaN.  symmetrized: derivatives are those of the function of the symmetric
    part of a, which is the same where a is symmetric.
    """

    name = "cholesky"
    symmetrized: bool = False

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        check_matrices(self.name, avals[0])
        return avals[0].strong()

    def impl(self, *args: ArrayLike) -> Result:
        a = np.asarray(args[0])
        x = np.zeros_like(a)
        with np.errstate(all="ignore"):
            for j in range(a.shape[-1]):
                column = a[..., j:, j] - np.einsum("...ik,...k->...i", x[..., j:, :j], x[..., j, :j].conj())
                pivot = column[..., :1].real
                root = np.sqrt(np.where(pivot > 0, pivot, pivot.dtype.type(np.nan)))
                x[..., j:, j] = column / root
                x[..., j, j] = root[..., 0]
        return x

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike) -> Sequence[Result]:
            n, _ = shape_of(a)
            dtype = m.part_dtype(a)

            def step(j: Extent, _: ArrayLike, consts: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
                (a,), (x,) = consts, carries
                rest = n - j
                left, row = slice_array(x, (j, 0), (rest, j)), conj(m.row_of(x, j, 0, j))
                column = sub(m.column_of(a, j, j), dot_general(left, row, ((1,), (0,))))
                pivot = real(reshape(slice_array(column, (0,), (1,)), ()))
                root = bind(Sqrt(), select(bind(Gt(), pivot, dtype.type(0)), pivot, dtype.type(np.nan)))
                by = broadcast_in_dim(root, (rest,), ())
                column = _over(column, by)
                if m.is_complex(a):
                    column = update_slice(column, reshape(m.like(root, a), (1,)), (0,))
                return [m.put_column(x, column, j, j)]

            return m.index_loop(n, step, [m.zeros((n, n), m.dtype_of(a))], [a])

        def together(a: ArrayLike) -> Result:
            given, dtype = m.elements_of(a), m.part_dtype(a)
            lead = shape_of(given[0][0])
            zero, lost = (broadcast_in_dim(dtype.type(x), lead, ()) for x in (0, np.nan))
            found: list[list[Any]] = [[None] * len(given) for _ in given]
            roots: list[Any] = []
            for j in range(len(given)):
                for i in range(j, len(given)):
                    x = m.less_products(given[i][j], [(found[i][k], conj(found[j][k])) for k in range(j)])
                    if i == j:
                        x = real(x)
                        roots.append(bind(Sqrt(), select(bind(Gt(), x, zero), x, lost)))
                        found[j][j] = m.like(roots[j], a)
                    else:
                        found[i][j] = _over(x, roots[j])
            return m.from_elements(found)

        if m.is_stack_of_small(operands[0].shape):
            return Expand(together)
        return Expand(lambda a: m.each_matrix(one, a, ranks=(2,)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        """dL = L Phi(L^-1 da L^-H), Phi the lower triangle with half of the diagonal.

        Source: Giles 2008, section 2.2 (Cholesky factorisation).
        """
        (a,), (t,) = primals, tangents
        x = bind(self, a)
        if t is None:
            return x, None
        if self.symmetrized:
            t = mul(add(t, m.adjoint(t)), broadcast_in_dim(m.dtype_of(t).type(0.5), shape_of(t), ()))
        inner = triangular_solve(x, t if self.symmetrized else m.mirrored(t), lower=True)
        inner = m.adjoint(triangular_solve(x, m.adjoint(inner), lower=True))
        return x, m.product(x, half_of_diagonal(inner))

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        return bind(self, move_to_front(args[0], dims[0])), 0


def _over(x: ArrayLike, by: ArrayLike) -> Result:
    """Numbers over real ones, complex ones part by part."""
    return make_complex(div(real(x), by), div(imag(x), by)) if m.is_complex(x) else div(x, by)


def half_of_diagonal(x: ArrayLike) -> Result:
    """The lower triangles, with half of the diagonals."""
    part = m.lower_part(x)
    half = m.dtype_of(x).type(0.5)
    return sub(part, mul(mul(m.eye_like(x), part), half))


def cholesky(a: ArrayLike) -> Result:
    """The Cholesky factors of symmetric, or Hermitian, positive definite matrices."""
    return bind(Cholesky(), a)
