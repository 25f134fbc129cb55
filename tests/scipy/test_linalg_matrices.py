"""Banded, Toeplitz's and circulant systems, and matrices that follow from a vector or a number, against SciPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.scipy.linear_algebra import NAMES, agree, check_call, outcome, scipy_linalg
from tracejit.support.errors import UnsupportedError

L: Any = tj.scipy.linalg

SYSTEMS = """
solve_banded((1, 1), np.stack([v, v + 4, v]), v)
solve_banded((1, 1), np.stack([v, v + 4, v]), columns)
solve_banded((0, 1), np.stack([v, v + 4]), columns)
solve_banded((1, 0), np.stack([v, v + 4]), columns)
solve_banded((0, 0), v[None], columns)
solve_banded((2, 1), np.stack([v, v + 4, v, v**2]), columns)
solve_banded((2, 1), np.stack([np.stack([v, v + 4, v, v**2]), np.stack([v, v**3, v, v**2])]), columns)
solve_banded((5, 6), np.concatenate([tall, tall]) * 1.0, v)
solve_banded((1, 1), np.ones((3, 1)), v[:1])
solve_banded((1, 1), np.stack([v, v + 4, v]), columns[:, :0])
cholesky_banded(np.stack([v, v * 0 + 9]))
cholesky_banded(np.stack([v * 0 + 9, v, v / 2]), lower=True)
cholesky_banded(np.stack([v / 3, v, v * 0 + 9]))
cholesky_banded((v * 0 + 9)[None])
solveh_banded(np.stack([v / 3, v, v * 0 + 9]), columns)
solveh_banded(np.stack([v * 0 + 9, v]), v, lower=True)
cho_solve_banded((np.stack([v / 3, v, v * 0 + 9]), False), columns)
cho_solve_banded((np.stack([v * 0 + 9, v]), True), v)
solve_toeplitz(v + np.array([5, 0, 0, 0]), v)
solve_toeplitz((v + np.array([5, 0, 0, 0]), v[::-1]), columns)
solve_toeplitz(columns.T + np.array([5, 0, 0, 0]), v)
solve_toeplitz(v[:1], v[:1])
matmul_toeplitz(v, columns)
matmul_toeplitz((v, v[:2]), v[:2])
solve_circulant(v, v)
solve_circulant(v, columns)
solve_circulant(np.ones(4), v, singular='lstsq')
solve_circulant(columns, v, caxis=0)
solve_circulant(v, columns.T, baxis=-1, outaxis=-1)
solve_circulant(v + 1j, v)
""".strip().splitlines()

MATRICES = """
toeplitz(v)
toeplitz(v, v[:2])
toeplitz(columns, v)
toeplitz(3.0)
toeplitz(v[:0])
toeplitz(v + 1j * v)
circulant(columns)
hankel(v)
hankel(v, v[:2])
companion(columns)
companion(np.array([1, 2, 3]))
leslie(columns.T, columns.T[:, 1:])
fiedler(columns)
fiedler(v[:0])
fiedler(v[:1])
fiedler_companion(v)
fiedler_companion(np.append(v, v))
fiedler_companion(np.append(v, v[:1]))
fiedler_companion(v[:3])
fiedler_companion(v[:2])
fiedler_companion(v[:1])
fiedler_companion(np.stack([v, v + 1]))
fiedler_companion(np.stack([v, v + 1])[:, :2])
convolution_matrix(v, 3)
convolution_matrix(v, 6, 'same')
convolution_matrix(v, 3, 'same')
convolution_matrix(v, 3, 'valid')
convolution_matrix(columns, 5, 'valid')
diagsvd(v, 4, 6)
diagsvd(v, 6, 4)
block_diag(a, v, tall)
block_diag(stack, a)
block_diag()
block_diag(a[:0], a)
khatri_rao(a, tall)
khatri_rao(stack, a)
hilbert(5)
invhilbert(5)
invhilbert(14, exact=True)
pascal(34)
pascal(5, 'lower')
pascal(5, 'upper', exact=False)
invpascal(5)
invpascal(5, 'lower')
invpascal(5, 'upper', exact=False)
invpascal(0)
hadamard(8)
hadamard(4, 'f4')
helmert(5)
helmert(5, full=True)
dft(5)
dft(5, 'sqrtn')
dft(4, 'n')
""".strip().splitlines()

ERRORS = """
solve_banded((1, 1), np.stack([v, v * 0, v * 0]), v)
solve_banded((1, 1), np.stack([v, v + 4]), v)
solve_banded((1, 1), np.stack([v, v + 4, v]), v[:2])
cholesky_banded(np.stack([v * 0 + 9, v, v / 2]) * np.array([1, 1, -1, 1]), lower=True)
solveh_banded(-np.stack([v * 0 + 9, v, v]), v, lower=True)
solveh_banded(np.stack([v * 0 + 9, v]), v[:2], lower=True)
solve_toeplitz((v * 0, v * 0), columns)
solve_toeplitz(v, v[:2])
matmul_toeplitz((v, v[:2]), v)
solve_circulant(np.ones(4), v)
solve_circulant(v, columns[:3], baxis=0)
solve_circulant(v, v, caxis=2)
companion(v * 0)
companion(v[:1])
leslie(v, v)
leslie(v[:1], v[:0])
fiedler_companion(v * 0)
convolution_matrix(v, 0)
convolution_matrix(v, 2, 'z')
convolution_matrix(v[:0], 2)
diagsvd(v, 5, 6)
khatri_rao(a, columns)
pascal(5, 'z')
invpascal(5, 'z')
hadamard(6)
dft(3, 'z')
""".strip().splitlines()


@pytest.mark.parametrize("call", [*SYSTEMS, *MATRICES])
def test_a_compiled_function_computes_what_scipy_does(call: str):
    check_call(call)


@pytest.mark.parametrize("call", ERRORS)
def test_errors_are_scipys(call: str):
    check_call(call)


@pytest.mark.parametrize("call", [*SYSTEMS[::6], *MATRICES[::5], *ERRORS[::5]])
def test_names_of_this_package_need_no_compiled_function(call: str):
    check_call(call, eagerly=True)


@pytest.mark.parametrize("dtype", ["f4", "i2", "i8"])
def test_dtypes_are_scipys(dtype: str):
    def f(x: Any) -> Any:
        m = scipy_linalg
        band = np.stack([x * 0, x])
        return (
            m.solve_banded((0, 1), band, x), m.solveh_banded(band, x), m.solve_circulant(x, x), m.hankel(x),
            m.toeplitz(x), m.block_diag(x, x), m.companion(x), m.fiedler(x), m.diagsvd(x, 3, 4),
        )  # fmt: skip

    x = np.array([4, 1, 2], dtype)
    agree(outcome(tj.jit(f), x), outcome(f, x), 1e-5)


def test_bands_of_any_length_are_one_program():
    solve = tj.jit(lambda ab, b: scipy_linalg.solve_banded((1, 2), ab, b))
    definite = tj.jit(lambda ab, b: scipy_linalg.solveh_banded(ab, b, lower=True))
    toeplitz = tj.jit(lambda c, b: scipy_linalg.solve_toeplitz(c, b))
    for n in (5, 9, 100, 1000):
        rng = np.random.default_rng(n)
        ab, b = rng.normal(size=(4, n)) + np.array([0.0, 0, 5, 0])[:, None], rng.normal(size=(n, 2))
        agree(solve(ab, b), scipy_linalg.solve_banded((1, 2), ab, b))
        band = ab[2:] * np.array([[2.0], [1.0]]) ** 2
        agree(definite(band, b), scipy_linalg.solveh_banded(band, b, lower=True))
        c = 0.5 ** np.arange(n)
        agree(toeplitz(c, b), scipy_linalg.solve_toeplitz(c, b))
    assert solve.compilations == definite.compilations == toeplitz.compilations == 2


def test_pivots_are_exchanged():
    """Without exchanges the first pivot, zero, would end it."""
    ab = np.array([[0.0, 1, 2, 3], [0, 0, 0, 0], [1, 2, 1, 0]])
    agree(
        tj.jit(lambda b: L.solve_banded((1, 1), ab, b))(NAMES["v"]), scipy_linalg.solve_banded((1, 1), ab, NAMES["v"])
    )


def test_extents_of_arguments_are_numbers():
    f = tj.jit(lambda x: scipy_linalg.hilbert(len(x)) @ x + scipy_linalg.pascal(len(x), exact=False)[0])
    for n in (2, 3, 5):
        agree(f(np.ones(n)), scipy_linalg.hilbert(n) @ np.ones(n) + 1)


def test_what_is_not_supported_is_refused_by_name():
    for call, text in (
        (lambda x: L.invhilbert(15, exact=True) * x, "exact=True gives Python's integers for n=15"),
        (lambda x: L.pascal(35) * x, "exact=True gives Python's integers for n=35"),
        (lambda x: L.hankel(x * np.ones((2, 2))), "hankel takes vectors here; flatten"),
        (
            lambda x: L.solve_continuous_lyapunov(x, x),
            "has no attribute 'solve_continuous_lyapunov': write the equation",
        ),
    ):
        with pytest.raises((UnsupportedError, AttributeError), match=text):
            tj.jit(call)(1.0)
