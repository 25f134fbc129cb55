"""Slices as long as the index of a loop, and loops that begin or end at it: one loop of the program, for all sizes,
with derivatives and in batches, on every backend.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.triangles import function_of
from tracejit.support.config import config
from tracejit.support.errors import TracejitError


@pytest.fixture(autouse=True)
def _statements(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "statements", True)
    monkeypatch.setattr(config, "unroll", 0)


def prefix_sums(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = np.sum(x[:i])
    return y


def suffixes(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = (x[i:] * 2).sum()
    return y


def windows(x):
    y = np.zeros(len(x) - 3)
    for i in range(len(x) - 3):
        y[i] = x[i : i + 4].max()
    return y


def forward_substitution(L, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return x


def backward_substitution(U, b):
    n = len(b)
    x = np.zeros_like(b)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - U[i, i + 1 :] @ x[i + 1 :]) / U[i, i]
    return x


def cholesky(A):
    n = A.shape[0]
    A[0, 0] = np.sqrt(A[0, 0])
    for i in range(1, n):
        for j in range(i):
            A[i, j] -= np.dot(A[i, :j], A[j, :j])
            A[i, j] /= A[j, j]
        A[i, i] -= np.dot(A[i, :i], A[i, :i])
        A[i, i] = np.sqrt(A[i, i])
    return A


def doolittle(A):
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            A[i, j] -= A[i, :i] @ A[:i, j]
    return A


def elimination(A):
    for k in range(A.shape[0]):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return A


def covariance(A):
    m = A.shape[1]
    A = A - A.mean(axis=0)
    c = np.zeros((m, m))
    for i in range(m):
        c[i:m, i] = c[i, i:m] = A[:, i] @ A[:, i:m] / (A.shape[0] - 1.0)
    return c


def durbin(r):
    y = np.empty_like(r)
    alpha, beta = -r[0], 1.0
    y[0] = -r[0]
    for k in range(1, len(r)):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def gram_schmidt(A):
    n = A.shape[1]
    Q, R = np.zeros_like(A), np.zeros((n, n))
    for k in range(n):
        R[k, k] = np.sqrt(np.dot(A[:, k], A[:, k]))
        Q[:, k] = A[:, k] / R[k, k]
        R[k, k + 1 :] = Q[:, k] @ A[:, k + 1 :]
        A[:, k + 1 :] -= np.outer(Q[:, k], R[k, k + 1 :])
    return Q, R


def matrix(n: int) -> np.ndarray[Any, Any]:
    a = np.random.default_rng(n).normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


def vector(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).normal(size=n)


PROGRAMS: list[tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = [
    (prefix_sums, lambda n: (vector(n),)),
    (suffixes, lambda n: (vector(n),)),
    (windows, lambda n: (vector(n + 3),)),
    (forward_substitution, lambda n: (np.tril(matrix(n)), vector(n))),
    (backward_substitution, lambda n: (np.triu(matrix(n)), vector(n))),
    (cholesky, lambda n: (matrix(n),)),
    (doolittle, lambda n: (matrix(n),)),
    (elimination, lambda n: (matrix(n),)),
    (covariance, lambda n: (matrix(n),)),
    (durbin, lambda n: (0.1 * vector(n),)),
    (gram_schmidt, lambda n: (matrix(n),)),
]
NAMES = [f.__name__ for f, _ in PROGRAMS]


def agrees(got: Any, want: Any, text: str = "") -> None:
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9, err_msg=text)


@pytest.mark.parametrize(("function", "arguments"), PROGRAMS, ids=NAMES)
def test_one_loop_for_all_sizes(function: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]]):
    jitted = tj.jit(function)
    for n in (9, 20, 31, 17, 5, 2, 1):
        ours, theirs = arguments(n), arguments(n)
        with np.errstate(invalid="ignore"):
            agrees(jitted(*ours), function(*theirs))
        agrees(ours, theirs)
    assert "loop" in {e.primitive.name for e in jitted.lower(*arguments(20)).jaxpr.equations}
    assert "left to Python" not in jitted.explain()


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.parametrize("function", [forward_substitution, cholesky, durbin], ids=lambda f: f.__name__)
def test_other_backends(function: Callable[..., Any], backend: str):
    arguments = dict(PROGRAMS)[function]
    agrees(tj.jit(function, backend=backend)(*arguments(8)), function(*arguments(8)))


@pytest.mark.parametrize(("function", "arguments"), PROGRAMS, ids=NAMES)
def test_derivatives_and_batches(function: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]]):
    first, *rest = arguments(6)

    def loss(a: Any) -> Any:
        found = function(np.copy(a), *rest)
        return np.sum(np.sin(found[1] if isinstance(found, tuple) else found))

    direction = np.random.default_rng(1).normal(size=first.shape)
    if first.ndim == 2 and not np.triu(first, 1).any():
        direction = np.tril(direction)
    step = 1e-6
    slope = (loss(first + step * direction) - loss(first - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(tj.jit(tj.grad(loss))(first) * direction), slope, rtol=1e-5, atol=1e-7)
    _, tangent = tj.jit(lambda a, d: tj.jvp(loss, (a,), (d,)))(first, direction)
    np.testing.assert_allclose(tangent, slope, rtol=1e-5, atol=1e-7)
    batch = np.stack([first, 1.1 * first, 0.9 * first])
    np.testing.assert_allclose(tj.jit(tj.vmap(loss))(batch), [loss(a) for a in batch], rtol=1e-9)


SEEDS = (0, 1, 2, 3, 6, 8)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_functions(seed: int):
    function, text = function_of(seed)
    jitted = tj.jit(function)
    for n in (7, 9, 2, 1):
        rng = np.random.default_rng(seed + n)
        A, x = rng.normal(size=(n, n)), rng.normal(size=n)
        ours, theirs = (A.copy(), x.copy()), (A.copy(), x.copy())
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = function(*theirs)
            try:
                got = jitted(*ours)
            except TracejitError as error:
                if error.location is None:
                    raise
                return
        agrees(got, want, text=text)
        agrees(ours, theirs, text=text)
