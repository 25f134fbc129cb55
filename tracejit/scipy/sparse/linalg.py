"""Linear systems solved by products with the matrix: cg, bicgstab, gmres, as JAX has them.

A is a matrix or a linear function; right side and solution are pytrees of float arrays.  Derivatives, of all modes and
orders, are those of the exact solution: they solve further systems in the same way.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.api.returning import returning_arrays
from tracejit.lax.control import custom_linear_solve, fori_loop, stop_gradient, while_loop
from tracejit.primitives.creation import zeros_of
from tracejit.primitives.elementwise import convert
from tracejit.support.errors import DtypeError, OptionError, ShapeError, TracerError
from tracejit.support.source import user_location
from tracejit.support.tree import flatten, flatten_like, map_tree, unflatten
from tracejit.support.typing import has_aval
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.tracer import Tracer

__all__ = ["bicgstab", "cg", "gmres"]

Product = Callable[[Any], Any]


def _identity(x: Any) -> Any:
    return x


def _product(name: str, what: str, a: Any) -> Product:
    """The linear function that a matrix is, or a function."""
    if callable(a):
        return a
    shape = aval_of_argument(a).shape if isinstance(a, (Tracer, np.ndarray)) or has_aval(a) else None
    if shape is None:
        raise TracerError(f"{name}: {what} is a matrix or a function, not {type(a).__name__}", location=user_location())
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ShapeError(f"{name}: {what} is a square matrix, not of shape {shape}", location=user_location())
    matrix: Any = a
    return lambda x: np.matmul(matrix, x)


# -- vectors that are trees --------------------------------------------------------------------------------------------
def _dot(x: Any, y: Any) -> Any:
    """The real part of the inner product: all that is wanted of one of a vector with itself, or by a Hermitian."""
    return sum(np.real(np.vdot(a, b)) for a, b in zip(flatten(x)[0], flatten(y)[0], strict=True))


def _inner(x: Any, y: Any) -> Any:
    return sum(np.vdot(a, b) for a, b in zip(flatten(x)[0], flatten(y)[0], strict=True))


def _combined(*terms: tuple[Any, Any]) -> Any:
    """Sums of vectors times numbers."""
    leaves = [flatten(x)[0] for _, x in terms]
    made = [
        sum(_scaled(factor, part) for (factor, _), part in zip(terms, parts, strict=True))
        for parts in zip(*leaves, strict=True)
    ]
    return unflatten(flatten(terms[0][1])[1], made)


def _scaled(factor: Any, x: Any) -> Any:
    if isinstance(factor, int):  # 1 or -1
        return x if factor == 1 else -x
    return convert(factor, aval_of_argument(x).dtype) * x


def _kind(tree: Any) -> np.dtype[Any]:
    return np.result_type(*[aval_of_argument(x).dtype for x in flatten(tree)[0]])


# -- what all do first -------------------------------------------------------------------------------------------------
def _solved(
    name: str, a: Any, b: Any, x0: Any, m: Any, maxiter: Any, hermitian: bool, method: Callable[..., Any]
) -> tuple[Any, None]:
    """(solution, None).   method(product, b, x0, preconditioner, most) -> solution"""
    b = map_tree(lambda x: _floats(name, x), b)
    start = map_tree(lambda x: zeros_of(aval_of_argument(x).strong()), b) if x0 is None else x0
    leaves, tree = flatten(b)
    mine = flatten_like(start, tree)
    if mine is None:
        raise TracerError(f"{name}: x0 differs in structure from b, {tree}", location=user_location())
    for x, y in zip(leaves, mine, strict=True):
        if aval_of_argument(x).shape != aval_of_argument(y).shape:
            raise ShapeError(
                f"{name}: x0 has shape {aval_of_argument(y).shape}, b has {aval_of_argument(x).shape}",
                location=user_location(),
            )
    start = unflatten(tree, [
        convert(stop_gradient(y), aval_of_argument(x).dtype) for x, y in zip(leaves, mine, strict=True)
    ])  # fmt: skip
    product, before = _product(name, "A", a), _identity if m is None else _product(name, "M", m)
    size = sum(math.prod(aval_of_argument(x).shape) for x in leaves)
    most = 10 * size if maxiter is None else maxiter

    def solve(product: Product, b: Any) -> Any:
        return method(product, b, start, before, most)

    real = all(aval_of_argument(x).dtype.kind == "f" for x in leaves)
    return custom_linear_solve(product, b, solve, solve, symmetric=hermitian and real), None


def _floats(name: str, x: Any) -> Any:
    x = x if isinstance(x, (Tracer, np.ndarray)) or has_aval(x) else np.asarray(x)
    if aval_of_argument(x).dtype.kind not in "fc":
        raise DtypeError(
            f"{name} solves systems of floating-point numbers; b is {aval_of_argument(x)}, use b.astype(float)",
            location=user_location(),
        )
    return x


def _least(b: Any, tol: Any, atol: Any) -> Any:
    """The square of the length of the residual from which on it is small enough."""
    return np.maximum(tol * tol * _dot(b, b), atol * atol * np.ones((), _kind(b).type(0).real.dtype))


# -- methods -----------------------------------------------------------------------------------------------------------
@returning_arrays
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """(x, None) with A x = b, by conjugate gradients: for A that is Hermitian and positive definite.

    A: a square matrix, or a linear function from a pytree of arrays to one alike.  b: such a pytree.  x0: where to
    begin, zeros by default.  The residual's length ends at most at max(tol * norm(b), atol), or after maxiter steps
    (10 a number by default).  M: a matrix or function near the inverse of A.  What A and b depend on has derivatives;
    x0 and M have none.
    Raises: ShapeError, DtypeError, TracerError for what does not fit.
    Source: JAX's scipy.sparse.linalg.cg; Hestenes, Stiefel, Methods of conjugate gradients, 1952.

    >>> import numpy as np, tracejit as tj
    >>> a, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> x, _ = tj.scipy.sparse.linalg.cg(a, b)
    >>> x.round(4)
    Array([0.0909, 0.6364], dtype=float64)
    """

    def method(product: Product, b: Any, x: Any, before: Product, most: Any) -> Any:
        least = _least(b, tol, atol)

        def goes_on(state: Any) -> Any:
            _, r, gamma, _, k = state
            return ((gamma if before is _identity else _dot(r, r)) > least) & (k < most)

        def step(state: Any) -> Any:
            x, r, gamma, p, k = state
            ap = product(p)
            alpha = gamma / _dot(p, ap)
            x, r = _combined((1, x), (alpha, p)), _combined((1, r), (-alpha, ap))
            z = before(r)
            new = _dot(r, z)
            return x, r, new, _combined((1, z), (new / gamma, p)), k + 1

        r = _combined((1, b), (-1, product(x)))
        z = before(r)
        return while_loop(goes_on, step, (x, r, _dot(r, z), z, 0))[0]

    return _solved("cg", A, b, x0, M, maxiter, True, method)


@returning_arrays
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """(x, None) with A x = b, by stabilised biconjugate gradients: for any regular A.   See `cg`.

    It ends, too, where it can get no further: the residual tells.
    Raises: ShapeError, DtypeError, TracerError for what does not fit.
    Source: JAX's scipy.sparse.linalg.bicgstab; van der Vorst, Bi-CGSTAB, 1992.

    >>> import numpy as np, tracejit as tj
    >>> x, _ = tj.scipy.sparse.linalg.bicgstab(np.array([[4.0, 1.0], [2.0, 3.0]]), np.array([1.0, 2.0]))
    >>> x.round(4)
    Array([0.1, 0.6], dtype=float64)
    """

    def method(product: Product, b: Any, x: Any, before: Product, most: Any) -> Any:
        least = _least(b, tol, atol)
        shadow = _combined((1, b), (-1, product(x)))
        one = np.ones((), _kind(b))

        def goes_on(state: Any) -> Any:
            return (_dot(state[1], state[1]) > least) & (state[-1] < most) & ~state[-2]

        def step(state: Any) -> Any:
            x, r, alpha, omega, rho, p, q, _, k = state
            new = _inner(shadow, r)
            beta = new / rho * alpha / omega
            p = _combined((1, r), (beta, _combined((1, p), (-omega, q))))
            first = before(p)
            q = product(first)
            alpha = new / _inner(shadow, q)
            s = _combined((1, r), (-alpha, q))
            early = _dot(s, s) < least
            second = before(s)
            t = product(second)
            omega = np.where(early, 0 * one, _inner(t, s) / np.where(early, one, _inner(t, t)))
            x = _combined((1, x), (alpha, first), (omega, second))
            r = _combined((1, s), (-omega, t))
            stuck = ~early & ((omega == 0) | (alpha == 0) | (new == 0))
            return x, r, alpha, omega, new, p, q, stuck, k + 1

        zeros = map_tree(np.zeros_like, b)
        return while_loop(goes_on, step, (x, shadow, one, one, one, zeros, zeros, np.False_, 0))[0]

    return _solved("bicgstab", A, b, x0, M, maxiter, False, method)


@returning_arrays
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Any]:
    """(x, info) with A x = b, by minimal residuals: for any regular A.   See `cg`.

    info: 0, or -1 where there is NaN in x.

    restart: how many products are made before it begins anew at the best x, with as many vectors in memory; maxiter
    counts these beginnings.  solve_method: "batched" or "incremental", which differ in JAX and not here.
    Raises: ShapeError, DtypeError, TracerError for what does not fit; OptionError for a restart or solve_method.
    Source: JAX's scipy.sparse.linalg.gmres; Saad, Schultz, GMRES, 1986.

    >>> import numpy as np, tracejit as tj
    >>> x, _ = tj.scipy.sparse.linalg.gmres(np.array([[4.0, 1.0], [2.0, 3.0]]), np.array([1.0, 2.0]))
    >>> x.round(4)
    Array([0.1, 0.6], dtype=float64)
    """
    if solve_method not in ("batched", "incremental"):
        raise OptionError(
            f"gmres: solve_method is 'batched' or 'incremental', not {solve_method!r}", location=user_location()
        )
    number: Any = restart
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
        raise OptionError(f"gmres: restart is a number of vectors, not {restart!r}", location=user_location())

    def method(product: Product, b: Any, x: Any, before: Product, most: Any) -> Any:
        size = sum(math.prod(aval_of_argument(y).shape) for y in flatten(b)[0])
        steps, kind = min(int(restart), operator.index(size)), _kind(b)
        length = np.sqrt(_dot(b, b))
        wanted = np.sqrt(_least(b, tol, atol))
        before_b = before(b)
        least = np.sqrt(_dot(before_b, before_b)) * np.minimum(1, wanted / np.where(length == 0, 1, length))

        def residual(x: Any) -> Any:
            return _flat(before(_combined((1, b), (-1, product(x)))), kind)

        def goes_on(state: Any) -> Any:
            return (np.sqrt(_dot(state[1], state[1])) > least) & (state[-1] < most)

        def step(state: Any) -> Any:
            x, r, k = state
            beta = np.sqrt(_dot(r, r))
            basis, h = _arnoldi(lambda v: _flat(before(product(_unflat(v, b))), kind), r / beta, steps)
            y = _least_squares(h, beta)
            x = _combined((1, x), (1, _unflat(np.matmul(y, basis[:-1]), b)))
            return x, residual(x), k + 1

        return while_loop(goes_on, step, (x, residual(x), 0))[0]

    x, _ = _solved("gmres", A, b, x0, M, maxiter, False, method)
    return x, np.where(np.isnan(_dot(x, x)), -1, 0)


def _flat(tree: Any, kind: np.dtype[Any]) -> Any:
    return np.concatenate([convert(np.reshape(x, (-1,)), kind) for x in flatten(tree)[0]])


def _unflat(v: Any, like: Any) -> Any:
    leaves, tree = flatten(like)
    out: list[Any] = []
    at = 0
    for x in leaves:
        aval = aval_of_argument(x)
        n = math.prod(aval.shape)
        out.append(convert(np.reshape(v[at : at + n], aval.shape), aval.dtype))
        at += n
    return unflatten(tree, out)


def _arnoldi(product: Product, first: Any, steps: int) -> tuple[Any, Any]:
    """(orthonormal vectors as rows, [steps + 1, steps] products with these in their terms).

    Vectors after one that the others span are zeros.
    """
    aval = aval_of_argument(first)
    kind, n = aval.dtype, aval.shape[0]
    real = kind.type(0).real.dtype
    rows, columns = np.arange(steps + 1), np.arange(steps)

    def step(k: Any, state: Any) -> Any:
        basis, h = state
        w = product(np.sum(np.where((rows == k)[:, None], basis, kind.type(0)), axis=0))
        before = np.sqrt(_dot(w, w))
        total = np.zeros(steps + 1, kind)
        for _ in range(2):  # once more, for what the first left over by rounding
            parts = np.sum(np.conj(basis) * w, axis=1)
            w = w - np.sum(parts[:, None] * basis, axis=0)
            total = total + parts
        after = np.sqrt(_dot(w, w))
        spanned = after <= 10 * np.finfo(real).eps * before
        w = np.where(spanned, kind.type(0), w / np.where(spanned, real.type(1), after))
        after = np.where(spanned, real.type(0), after)
        column = np.where(rows == k + 1, convert(after, kind), total)
        return (
            np.where((rows == k + 1)[:, None], w, basis),
            np.where(columns == k, column[:, None], h),
        )

    basis = np.where((rows == 0)[:, None], first, np.zeros((steps + 1, n), kind))
    return fori_loop(0, steps, step, (basis, np.zeros((steps + 1, steps), kind)))


def _least_squares(h: Any, beta: Any) -> Any:
    """y with the least norm(beta * e_1 - h @ y), by rotations of rows; 0 for vectors that are zeros."""
    kind = aval_of_argument(h).dtype
    steps = operator.index(aval_of_argument(h).shape[1])
    side = np.where(np.arange(steps + 1) == 0, convert(beta, kind), kind.type(0))
    rows = [h[n] for n in range(steps + 1)]
    sides = [side[n] for n in range(steps + 1)]
    for n in range(steps):
        a, b = rows[n][n], rows[n + 1][n]
        length = np.sqrt(np.real(a * np.conj(a)) + np.real(b * np.conj(b)))
        empty = length == 0
        inverse = 1 / np.where(empty, 1, length)
        c = np.where(empty, kind.type(1), np.conj(a) * inverse)
        s = np.where(empty, kind.type(0), np.conj(b) * inverse)
        upper, lower = rows[n], rows[n + 1]
        rows[n], rows[n + 1] = c * upper + s * lower, np.conj(c) * lower - np.conj(s) * upper
        sides[n], sides[n + 1] = c * sides[n] + s * sides[n + 1], np.conj(c) * sides[n + 1] - np.conj(s) * sides[n]
        rows[n] = np.where((np.arange(steps) == n) & empty, kind.type(1), rows[n])
        sides[n] = np.where(empty, kind.type(0), sides[n])
    y = np.zeros(steps, kind)
    for n in reversed(range(steps)):
        value = (sides[n] - np.sum(rows[n] * y)) / rows[n][n]
        y = np.where(np.arange(steps) == n, value, y)
    return y
