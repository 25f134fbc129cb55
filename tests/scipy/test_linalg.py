"""SciPy's linear algebra in compiled functions, and under its names, against SciPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.scipy.linear_algebra import DEFINITE, GENERAL, NAMES, TALL, agree, check_call, outcome, scipy_linalg
from tracejit.support.errors import DtypeError, TracerError, UnsupportedError

L: Any = tj.scipy.linalg

CALLS = """
solve_triangular(a, v)
solve_triangular(a, columns, trans='T', lower=True)
solve_triangular(a, columns, unit_diagonal=True, trans=1)
solve_triangular(stack, columns)
solve_triangular(stack, v)
cholesky(s)
cholesky(np.stack([s, 2 * s]), lower=True)
cho_factor(s)
cho_factor(s, lower=True)
cho_solve((s, False), v)
cho_solve((s, True), columns)
lu(a)
lu(tall)
lu(wide)
lu(stack)
lu(tall, permute_l=True)
lu(stack, permute_l=True)
lu(wide, p_indices=True)
lu_factor(tall)
lu_factor(stack)
lu_solve((a, np.array([1, 3, 2, 3])), v)
lu_solve((a, np.array([1, 3, 2, 3])), columns, trans=1)
solve(a, v)
solve(stack, columns)
solve(stack, v)
solve(a, columns, transposed=True)
solve(s, columns, assume_a='pos')
solve(s + a, columns, assume_a='sym')
solve(s + a, columns, assume_a='pos', lower=True)
solve(a, columns, assume_a='upper triangular')
solve(a, columns, assume_a='lower triangular', transposed=True)
solve(a, columns, assume_a='diagonal')
solve(a, columns, assume_a='tridiagonal')
solve(a, v, assume_a='tridiagonal', transposed=True)
solve(a[0, 0], v)
solve(a[:1, :1], v)
solve(a, columns[:, :0])
solve(a[:0, :0], v[:0])
inv(a)
inv(stack)
inv(s + a, assume_a='pos')
inv(a[:0, :0])
det(a)
det(stack)
det(stack[:, :0, :0])
norm(a)
norm(a, 1)
norm(tall, 2)
norm(v, np.inf)
qr(a)
qr(tall)
qr(wide)
qr(tall, mode='economic')
qr(tall, mode='r')
qr(stack)
qr(tall[:, :0])
qr_multiply(tall, np.ones((3, 6)))
qr_multiply(tall, np.ones((4, 2)), 'left')
qr_multiply(tall, np.ones(6))
svdvals(stack)
svd(wide, compute_uv=False)
svd(tall[:0])
svd(tall[:, :0], full_matrices=False)
eigh(s, eigvals_only=True)
eigh(s[:0, :0])
eigvalsh(s, s + np.eye(4))
eigvalsh(np.stack([s, 2 * s]))
eigvalsh_tridiagonal(v, v[1:], select='i', select_range=(1, 2))
eigvalsh_tridiagonal(columns.T, columns.T[:, 1:])
pinv(tall)
pinv(wide, return_rank=True)
pinv(tall[:0])
pinvh(s + a, lower=False)
lstsq(tall, np.ones((6, 2)))
lstsq(np.ones((5, 3)), np.arange(5.0))
lstsq(tall[:0], np.ones(0))
polar(a)
polar(tall)
polar(wide, 'left')
orthogonal_procrustes(tall, tall[::-1])
subspace_angles(np.ones((4, 2)), tall[:4, :3])
expm(a)
expm(stack)
expm(0.5)
expm(a[:1, :1])
expm(a[:0, :0])
expm_frechet(a, s)
tanhm(a)
sinm(stack)
tanm(a)
""".strip().splitlines()

OF_ANY_SIGN = """
svd(a)
svd(tall, full_matrices=False)
eigh(s)
eigh(a, lower=False)
eigh(s, s + np.eye(4))
eigh(s - 3 * np.eye(4), s + np.eye(4), type=2, lower=False)
eigh(s - 3 * np.eye(4), s + np.eye(4), type=3)
eigh(s, subset_by_index=[1, 2])
eigh(s, subset_by_value=[-np.inf, 20])
eigh_tridiagonal(v, v[1:])
eigh_tridiagonal(v, v[1:], select='v', select_range=(0, 3))
orth(tall)
orth(np.ones((3, 2)))
null_space(np.ones((2, 2)))
null_space(np.zeros((2, 2)))
""".strip().splitlines()
"""Which vectors there are is the same, and which of two opposite ones differs."""

ERRORS = """
solve_triangular(a * 0, v)
solve_triangular(a * np.array([1, 1, 0, 1]), v)
solve_triangular(a, v[:2])
solve_triangular(tall, v)
solve_triangular(a * np.nan, v)
cholesky(-s)
cholesky(s * np.array([1, 1, -1, 1]))
cholesky(tall)
cholesky(v)
cho_solve((s, True), v[:2])
cho_solve((tall, True), v[:2])
lu(v)
lu_solve((a, np.array([1, 3, 2, 3])), v[:2])
solve(-s, v, assume_a='pos')
solve(a * 0, v)
solve(a * 0, v, assume_a='upper triangular')
solve(a * 0, v, assume_a='tridiagonal')
solve(a, v[:2])
solve(tall, v)
solve(a, v, assume_a='x')
solve(a[:1, :1] * 0, v)
solve(a * np.inf, v)
inv(a * 0)
inv(tall)
inv(v)
det(tall)
norm(a * np.nan)
qr(a, mode='z')
qr(v)
qr_multiply(tall, np.ones(4), 'up')
svd(a * np.nan)
svd(v)
eigh(s, -s)
eigh(s, subset_by_index=[1, 8])
eigh(s, subset_by_value=[20, 10])
eigh(tall)
eigh(s, driver='gv')
eigh(s, driver='foo')
eigh(s, tall)
eigh_tridiagonal(v, v)
eigh_tridiagonal(v, v[1:], select='q')
pinv(a, rtol=-1.0)
pinvh(tall)
lstsq(tall, v)
subspace_angles(tall, a)
polar(a, 'x')
orthogonal_procrustes(tall, a)
expm(v)
expm(tall)
expm_frechet(a, tall)
expm_frechet(tall, a)
expm_frechet(a, a[:2, :2])
expm_frechet(a, s, method='q')
""".strip().splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_a_compiled_function_computes_what_scipy_does(call: str):
    check_call(call)


@pytest.mark.parametrize("call", OF_ANY_SIGN)
def test_vectors_agree_but_for_their_signs(call: str):
    check_call(call, signs=False)


@pytest.mark.parametrize("call", ERRORS)
def test_errors_are_scipys(call: str):
    check_call(call)


@pytest.mark.parametrize("call", [*CALLS[:20:4], *ERRORS[:12:3]])
def test_names_of_this_package_need_no_compiled_function(call: str):
    check_call(call, eagerly=True)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i2", "i4"])
def test_dtypes_are_scipys(dtype: str):
    def f(x: Any) -> Any:
        m = scipy_linalg
        return (*m.lu(x), m.inv(x), m.solve(x, x), m.det(x), m.cholesky(x), m.coshm(x + x), m.solve_toeplitz(x[0], x))

    x = (np.eye(2) * 2).astype(dtype)
    agree(outcome(tj.jit(f), x), outcome(f, x), 1e-5)


@pytest.mark.parametrize("order", ["F", "strided"])
def test_any_memory_order_will_do(order: str):
    x = np.asfortranarray(GENERAL) if order == "F" else np.repeat(GENERAL, 2, 1)[:, ::2]
    for f in (L.inv, L.expm, L.lu_factor):
        agree(tj.jit(lambda x, f=f: f(x))(x), f(GENERAL), 1e-12)


def test_the_program_computes_it():
    f = tj.jit(lambda a, b: scipy_linalg.solve(a, b, assume_a="pos"))
    reported = {name for name, _ in f.lower(DEFINITE, NAMES["v"]).report}
    assert {"cholesky", "triangular_solve"} <= reported
    f = tj.jit(lambda a: scipy_linalg.expm(a))
    assert "expm" in {name for name, _ in f.lower(GENERAL).report}


def test_one_program_serves_all_sizes():
    solve = tj.jit(lambda a, b: scipy_linalg.solve(a, b))
    factor = tj.jit(lambda a: scipy_linalg.lu_factor(a))
    exponential = tj.jit(lambda a: scipy_linalg.expm(a))
    for n in (2, 3, 7, 33, 70):
        a, b = np.random.default_rng(n).normal(size=(n, n)), np.ones((n, 2))
        agree(solve(a, b), np.linalg.solve(a, b), 1e-8)
        factors, pivots = factor(a)
        agree(scipy_linalg.lu_solve((factors, pivots), b), np.linalg.solve(a, b), 1e-8)
        agree(exponential(a / n), scipy_linalg.expm(a / n))
    assert solve.compilations == factor.compilations == exponential.compilations == 2


@pytest.mark.parametrize("backend", ["reference", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_other_backends_agree(backend: str):
    a, v = NAMES["a"], NAMES["v"]
    for f in (
        lambda a, v: L.expm(a) @ v,
        lambda a, v: L.lu_solve(L.lu_factor(a), v),
        lambda a, v: L.solve(a, v, assume_a="tridiagonal"),
    ):
        agree(tj.jit(f, backend=backend)(a, v), np.asarray(f(a, v)), 1e-10)


def test_in_loops_and_branches():
    def implicit(a: Any, x: Any, steps: int) -> Any:
        factors = scipy_linalg.lu_factor(np.eye(4) + 0.1 * a)
        for _ in range(steps):
            x = scipy_linalg.lu_solve(factors, x)
        return x

    def chosen(a: Any, x: Any) -> Any:
        return scipy_linalg.expm(a) @ x if x[0] > 0 else scipy_linalg.solve(a, x)

    v = NAMES["v"]
    agree(tj.jit(implicit)(GENERAL, v, 30), implicit(GENERAL, v, 30))
    for x in (v, -v):
        agree(tj.jit(chosen)(GENERAL, x), chosen(GENERAL, x))


def test_results_can_be_changed_in_place():
    def f(a: Any) -> Any:
        h = scipy_linalg.hilbert(4)
        h[0] = a[0]
        x = scipy_linalg.inv(a)
        x[1, 1] = 0.0
        return x + h

    agree(tj.jit(f)(GENERAL), f(GENERAL))


def test_a_known_matrix_is_scipys_own_business():
    """What no argument decides is a constant of the program."""
    f = tj.jit(lambda x: scipy_linalg.ldl(np.eye(2))[0] * x)
    agree(f(2.0), np.eye(2) * 2.0)


def test_what_is_not_supported_is_refused_by_name():
    band = np.ones((1, 3)) + 1j
    with pytest.raises(DtypeError, match=r"scipy\.linalg\.solve_banded computes with real numbers here, not with c128"):
        tj.jit(lambda a: scipy_linalg.solve_banded((0, 0), a, np.ones(3)))(band)
    for name in ("logm", "ldl", "signm"):
        with pytest.raises(UnsupportedError, match=rf"scipy\.linalg\.{name} is not supported in traced code; \w+"):
            tj.jit(lambda a, name=name: getattr(scipy_linalg, name)(a))(GENERAL)
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': "):
            getattr(L, name)
    with pytest.raises(AttributeError, match=r"^module 'tracejit\.scipy\.linalg' has no attribute 'nothing'$"):
        L.nothing  # noqa: B018
    with pytest.raises(UnsupportedError, match="sort='lhp' is not supported"):
        tj.jit(lambda a: scipy_linalg.schur(a, sort="lhp"))(GENERAL)
    with pytest.raises(UnsupportedError, match=r"lstsq takes one matrix here"):
        tj.jit(lambda a: scipy_linalg.lstsq(a, a))(NAMES["stack"])
    with pytest.raises(UnsupportedError, match="lapack_driver='gelsy' is not supported; use 'gelsd'"):
        tj.jit(lambda a: scipy_linalg.lstsq(a, a, lapack_driver="gelsy"))(TALL)


def test_an_error_that_a_try_around_it_would_catch_is_refused():
    def caught(a: Any) -> Any:
        try:
            return scipy_linalg.cholesky(a)
        except ValueError:
            return a

    with pytest.raises(TracerError, match=r"whether ValueError \(array must not contain infs or NaNs\) is raised"):
        tj.jit(caught)(np.eye(2))


def test_a_singular_matrix_of_a_stack_is_named():
    stack = np.stack([GENERAL, GENERAL * 0])
    with pytest.raises(np.linalg.LinAlgError, match="A singular matrix detected: slice 1 of the stack is singular"):
        tj.jit(lambda a: scipy_linalg.solve(a, np.ones(4)))(stack)
    with pytest.raises(np.linalg.LinAlgError, match="3-th leading minor of the array is not positive definite"):
        tj.jit(tj.vmap(lambda a: scipy_linalg.cholesky(a)))(np.stack([np.eye(4), np.diag([1.0, 1, -1, 1])]))


def test_the_residual_of_a_vector_is_one_number_of_an_array():
    x, residuals, rank, s = tj.jit(lambda a, b: scipy_linalg.lstsq(a, b))(TALL, np.arange(6.0))
    want = scipy_linalg.lstsq(TALL, np.arange(6.0))
    agree((x, residuals[0], s), (want[0], want[1], want[3]))
    assert (residuals.shape, int(rank)) == ((1,), 4)


def test_without_the_check_nan_goes_through():
    a = np.full((2, 2), np.nan)
    assert np.isnan(tj.jit(lambda a: L.inv(a, check_finite=False))(a)).all()
    assert np.isnan(tj.jit(lambda a: L.eigvalsh(a, check_finite=False))(a)).all()
    assert np.isnan(tj.jit(lambda a: L.expm(a))(np.array([[np.inf, 0], [0, 1]]))).all()
