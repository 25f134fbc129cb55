"""np.linalg's decompositions and what follows from them, against NumPy; derivatives against finite differences."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, TracerError, UnsupportedError

FUNCTIONS = {
    "cholesky": lambda a: np.linalg.cholesky(a @ a.mT + np.eye(a.shape[-1])),
    "cholesky, upper": lambda a: np.linalg.cholesky(a @ a.mT + np.eye(a.shape[-1]), upper=True),
    "cond": lambda a: np.linalg.cond(a),
    "cond, 1": lambda a: np.linalg.cond(a, 1),
    "cond, -2": lambda a: np.linalg.cond(a, -2),
    "det": lambda a: np.linalg.det(a),
    "eigvalsh": lambda a: np.linalg.eigvalsh(a),
    "eigvalsh, U": lambda a: np.linalg.eigvalsh(a, "U"),
    "inv": lambda a: np.linalg.inv(a),
    "matrix_power": lambda a: np.linalg.matrix_power(a, -2),
    "matrix_rank": lambda a: np.linalg.matrix_rank(a),
    "matrix_rank, tol": lambda a: np.linalg.matrix_rank(a, 3.0),
    "norm, 2": lambda a: np.linalg.norm(a, 2, (-2, -1)),
    "norm, nuc": lambda a: np.linalg.norm(a, "nuc", (-2, -1), True),
    "pinv": lambda a: np.linalg.pinv(a),
    "pinv, hermitian": lambda a: np.linalg.pinv(a + a.mT, rcond=1e-9, hermitian=True),
    "qr": lambda a: np.linalg.qr(a),
    "qr, complete": lambda a: np.linalg.qr(a, "complete"),
    "qr, r": lambda a: np.linalg.qr(a, mode="r"),
    "slogdet": lambda a: np.linalg.slogdet(a),
    "solve, columns": lambda a: np.linalg.solve(a, a[..., :2]),
    "solve, one matrix": lambda a: np.linalg.solve(2 * np.eye(a.shape[-1]), a),
    "solve": lambda a: np.linalg.solve(a, np.arange(a.shape[-1])),
    "svdvals": lambda a: np.linalg.svdvals(a),
}
SQUARE = ((3, 3), (5, 5), (0, 0), (1, 1), (2, 4, 4))


def leaves(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [x]


def check(got: Any, want: Any, near: float = 1e-9) -> None:
    assert type(got) is type(want)
    for x, y in zip(leaves(got), leaves(want), strict=True):
        assert (np.shape(x), np.asarray(x).dtype) == (np.shape(y), np.asarray(y).dtype)
        scale = float(np.max(np.abs(np.where(np.isfinite(y), y, 0)), initial=1.0))
        np.testing.assert_allclose(x, y, rtol=near, atol=near * scale)


def outcome(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except Exception as error:
        return error


def check_outcome(f: Any, compiled: Any, *args: Any, near: float = 1e-9) -> None:
    with np.errstate(all="ignore"):
        want = outcome(f, *args)
    got = outcome(compiled, *args)
    if isinstance(want, Exception):
        assert isinstance(got, type(want))
        assert str(want) in str(got)
    else:
        check(got, want, near)


def matrices(shape: tuple[int, ...], dtype: str = "f8", seed: int = 0) -> Any:
    x = np.random.default_rng([seed, *shape]).normal(size=shape) * 4
    return x.astype(dtype) + 10 * np.eye(*shape[-2:], dtype=dtype) if dtype[0] in "iu" else x.astype(dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_compiled_function_agrees_with_numpy_for_all_sizes(name: str):
    f = FUNCTIONS[name]
    compiled = tj.jit(f)
    for shape in SQUARE if "," not in name else ((3, 3),):
        check_outcome(f, compiled, matrices(shape))


@pytest.mark.parametrize("dtype", ["f4", "i4", "?"])
@pytest.mark.parametrize("name", ["inv", "svdvals"])
def test_dtypes_are_numpys(name: str, dtype: str):
    f = FUNCTIONS[name]
    a = np.eye(3, dtype=dtype) if dtype == "?" else np.abs(matrices((3, 3), dtype))
    check_outcome(f, tj.jit(f), a, near=1e-5 if dtype == "f4" else 1e-9)


@pytest.mark.parametrize("backend", ["reference", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("name", ["inv", "qr", "eigvalsh"])
def test_other_backends_agree_with_numpy(name: str, backend: str):
    check_outcome(FUNCTIONS[name], tj.jit(FUNCTIONS[name], backend=backend), matrices((4, 4)))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (0, 3)])
@pytest.mark.parametrize("name", ["qr, complete", "svdvals"])
def test_matrices_that_are_not_square(name: str, shape: tuple[int, ...]):
    f = FUNCTIONS[name]
    check_outcome(f, tj.jit(f), matrices(shape))


@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 3)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_vectors_are_orthonormal_and_give_the_matrix(shape: tuple[int, ...], full: bool):
    a = matrices(shape)
    u, s, vt = found = tj.jit(lambda a: np.linalg.svd(a, full_matrices=full))(a)
    want = np.linalg.svd(a, full_matrices=full)
    assert type(found) is type(want)
    assert [x.shape for x in found] == [x.shape for x in want]
    np.testing.assert_allclose(s, want.S, atol=1e-12)
    k = s.shape[-1]
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vt[..., :k, :], a, atol=1e-12)
    for x in (u.mT @ u, vt @ vt.mT):
        np.testing.assert_allclose(x, np.broadcast_to(np.eye(x.shape[-1]), x.shape), atol=1e-13)


SVD = tj.jit(lambda a: np.linalg.svd(a))
EIGH = {uplo: tj.jit(lambda a, uplo=uplo: np.linalg.eigh(a, uplo)) for uplo in "LU"}


@pytest.mark.parametrize(
    "a",
    [
        np.zeros((3, 3)),
        np.ones((4, 3)),
        np.outer([1.0, 2, 3], [1, 0, -1]),
        np.diag([1.0, 0, 1e-200]),
        np.diag([1e200, 1e190, 1.0]),
        np.array([[0.0, 1], [0, 0]]),
        1e-170 * np.arange(9.0).reshape(3, 3),
    ],
)
def test_singular_vectors_of_matrices_without_full_rank_or_of_any_magnitude(a: Any):
    u, s, vt = SVD(a)
    scale = np.max(np.abs(a)) or 1.0
    np.testing.assert_allclose(s / scale, np.linalg.svdvals(a) / scale, atol=1e-14)
    k = len(s)
    np.testing.assert_allclose((u[:, :k] * (s / scale)) @ vt[:k], a / scale, atol=1e-14)
    np.testing.assert_allclose(u.T @ u, np.eye(len(u)), atol=1e-14)
    np.testing.assert_allclose(vt @ vt.T, np.eye(len(vt)), atol=1e-14)


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (0, 0), (3, 4, 4), (30, 30), (61, 61)])
def test_eigenvectors_are_orthonormal_and_give_the_matrix(shape: tuple[int, ...], uplo: str):
    a = matrices(shape)
    w, v = found = EIGH[uplo](a)
    want = np.linalg.eigh(a, uplo)
    assert type(found) is type(want)
    np.testing.assert_allclose(w, want.eigenvalues, atol=1e-12)
    triangle = np.tril(a) if uplo == "L" else np.triu(a)
    symmetric = triangle + triangle.mT - triangle * np.eye(shape[-1])
    np.testing.assert_allclose((v * w[..., None, :]) @ v.mT, symmetric, atol=1e-12)
    np.testing.assert_allclose(v.mT @ v, np.broadcast_to(np.eye(shape[-1]), shape), atol=1e-13)


@pytest.mark.parametrize("a", [np.zeros((3, 3)), np.eye(4), np.ones((5, 5)), np.diag([1e200, -1e200, 1e-200])])
def test_eigenvalues_that_are_equal_or_far_apart(a: Any):
    w, v = EIGH["L"](a)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a), rtol=1e-14, atol=1e-14 * max(1.0, np.max(np.abs(a))))
    np.testing.assert_allclose(v.T @ v, np.eye(len(a)), atol=1e-14)


SIZES = (31, 32, 33, 63, 64, 65, 96, 100, 129)


def test_large_systems_are_solved_in_blocks_of_any_number():
    solve, inv = tj.jit(lambda a, b: np.linalg.solve(a, b)), tj.jit(lambda a: np.linalg.inv(a))
    slogdet = tj.jit(lambda a: np.linalg.slogdet(a))
    for n in SIZES:
        a = matrices((n, n))
        b = np.random.default_rng(n).normal(size=(n, 20))
        np.testing.assert_allclose(solve(a, b), np.linalg.solve(a, b), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(inv(a), np.linalg.inv(a), rtol=1e-8, atol=1e-8)
        check(slogdet(a), np.linalg.slogdet(a))
    assert solve.compilations == inv.compilations == slogdet.compilations == 2


@pytest.mark.parametrize(
    ("name", "a", "text"),
    [
        ("inv", np.zeros((2, 2)), "Singular matrix"),
        ("solve", np.ones((3, 3)), "Singular matrix"),
        ("matrix_power", np.zeros((2, 2)), "Singular matrix"),
        ("inv", np.stack([np.eye(2), np.zeros((2, 2))]), "Singular matrix"),
        ("svdvals", np.full((2, 2), np.nan), "SVD did not converge"),
        ("pinv", np.full((2, 2), np.nan), "SVD did not converge"),
    ],
)
def test_what_only_the_program_finds_is_numpys_error(name: str, a: Any, text: str):
    f = FUNCTIONS[name]
    with pytest.raises(np.linalg.LinAlgError, match=text):
        f(a)
    with pytest.raises(np.linalg.LinAlgError, match=text):
        tj.jit(f)(a)
    with pytest.raises(np.linalg.LinAlgError, match=text):
        tj.jit(tj.vmap(f))(a[None])
    with pytest.raises(np.linalg.LinAlgError, match=text):
        tj.vmap(f)(a[None])


@pytest.mark.parametrize("a", [np.array([[1.0, 2], [2, 1]]), np.zeros((2, 2)), np.array([[-1.0]])])
def test_matrices_that_are_not_positive_definite(a: Any):
    with pytest.raises(np.linalg.LinAlgError, match="Matrix is not positive definite"):
        tj.jit(lambda a: np.linalg.cholesky(a))(a)
    np.testing.assert_array_equal(np.isnan(np.diag(tj.jit(lambda a: np.linalg.cholesky(a))(a * np.nan))), True)


def test_a_singular_matrix_has_a_determinant_and_a_condition():
    for f in (FUNCTIONS["det"], FUNCTIONS["slogdet"], FUNCTIONS["cond"], FUNCTIONS["cond, 1"]):
        check(tj.jit(f)(np.zeros((2, 2))), f(np.zeros((2, 2))))


def test_an_error_that_a_try_around_it_would_catch_is_refused():
    def caught(a: Any) -> Any:
        try:
            return np.linalg.inv(a)
        except np.linalg.LinAlgError:
            return np.linalg.pinv(a)

    with pytest.raises(TracerError, match="a `try` or `with` around it may catch it"):
        tj.jit(caught)(np.eye(2))


def test_in_loops_and_branches():
    def refine(a: Any, b: Any) -> Any:
        x = np.zeros_like(b)
        for _ in range(50):
            x = x + np.linalg.solve(a, b - a @ x)
        return x

    def if_regular(a: Any) -> Any:
        return np.linalg.inv(a) if np.linalg.det(a) != 0 else a

    def minors(a: Any) -> Any:
        total = 0.0
        for i in range(1, len(a)):
            total += np.linalg.det(a[:i, :i])
        return total

    a = matrices((6, 6))
    for f, args in (
        (refine, (a, np.ones(6))),
        (if_regular, (a,)),
        (if_regular, (np.zeros((2, 2)),)),
        (minors, (a,)),
    ):
        check(tj.jit(f)(*args), f(*args))


GRADIENTS = ("cholesky", "det", "inv", "qr, r", "svdvals", "eigvalsh")


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_agree_with_finite_differences(name: str):
    n = 3
    weights = np.random.default_rng(1).normal(size=(n, n))

    def loss(a: Any) -> Any:
        return sum(np.sum(np.sin(x) * (weights if np.ndim(x) == 2 else 1.5)) for x in leaves(FUNCTIONS[name](a)))

    a = matrices((n, n)) / 4 + 3 * np.eye(n)
    got = tj.jit(tj.grad(loss))(a)
    want = np.zeros_like(a)
    for at in np.ndindex(n, n):
        h = np.zeros_like(a)
        h[at] = 1e-6
        want[at] = (loss(a + h) - loss(a - h)) / 2e-6
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6 * np.max(np.abs(want)))
    if name not in ("cholesky", "inv"):
        return
    each = tj.jit(tj.vmap(tj.grad(loss)))(np.stack([a, 2 * a]))
    np.testing.assert_allclose(each[0], got, rtol=1e-9, atol=1e-9)


def test_decompositions_without_a_derivative_say_so():
    tall = matrices((4, 2))
    with pytest.raises(UnsupportedError, match="use mode='reduced'"):
        tj.grad(lambda a: np.sum(np.linalg.qr(a, "complete").Q))(tall)
    with pytest.raises(UnsupportedError, match="full_matrices=False only"):
        tj.grad(lambda a: np.sum(np.linalg.svd(a).U))(tall)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (matrices((5, 3)), np.ones(5)),
        (np.ones((5, 3)), matrices((5, 2))),
        (matrices((3, 5)), np.ones(3)),
        (matrices((4, 4)), matrices((4, 3))),
        (matrices((7, 2), "f4"), matrices((7, 3), "f4")),
        (matrices((6, 2)), np.ones((6, 0))),
        (matrices((3, 2), "i8"), np.arange(3)),
    ],
)
def test_least_squares(a: Any, b: Any):
    want = np.linalg.lstsq(a, b)
    near = 1e-5 if a.dtype == np.float32 else 1e-9
    check(tj.jit(lambda a, b: np.linalg.lstsq(a, b))(a, b), want, near)
    check(tuple(map(np.asarray, tj.numpy.linalg.lstsq(a, b))), tuple(map(np.asarray, want)), near)


@pytest.mark.parametrize(
    "call",
    [
        "inv(np.ones(3) + x)",
        "inv(np.ones((2, 3)) + x)",
        "cholesky(np.ones((2, 3)) + x)",
        "solve(np.eye(2) + x, np.ones(3))",
        "solve(np.eye(2) + x, np.ones((3, 1)))",
        "qr(np.ones((2, 2)) + x, 'x')",
        "eigh(np.eye(2) + x, 'X')",
        "lstsq(np.ones((2, 2)) + x, np.ones(3))",
        "cond(np.ones((0, 0)) + x)",
        "svd(np.ones(3) + x)",
        "norm(np.ones((2, 2)) + x, 3)",
        "tensorinv(np.ones((2, 2)) + x, 0)",
        "matrix_rank(np.eye(2) + x, 1.0, rtol=1.0)",
        "pinv(np.eye(2) + x, 1.0, rtol=1.0)",
    ],
)
def test_errors_of_shapes_and_options_are_numpys(call: str):
    f = eval(f"lambda x: np.linalg.{call}", {"np": np})
    check_outcome(f, tj.jit(f), np.float64(0))


def test_what_is_not_supported_is_refused_by_name():
    half = np.eye(2, dtype=np.float16)
    with pytest.raises(DtypeError, match="array type float16 is unsupported in linalg"):
        tj.jit(lambda a: np.linalg.inv(a))(half)
    with pytest.raises(UnsupportedError, match="mode 'raw'"):
        tj.jit(lambda a: np.linalg.qr(a, "raw"))(np.eye(2))


def test_tensors_are_matrices_of_some_axes():
    a, b = matrices((4, 2, 2)), np.arange(4.0)
    check(tj.jit(lambda a, b: np.linalg.tensorsolve(a, b))(a, b), np.linalg.tensorsolve(a, b))
    c = matrices((2, 6, 3, 4))
    check(tj.jit(lambda a: np.linalg.tensorinv(a))(c), np.linalg.tensorinv(c))
    moved = np.moveaxis(a, 0, 1)
    check(
        tj.jit(lambda a, b: np.linalg.tensorsolve(a, b, axes=(0, 2)))(moved, b),
        np.linalg.tensorsolve(moved, b, axes=(0, 2)),
    )


def test_names_of_linalg_work_without_jit():
    a = matrices((3, 3))
    for name in ("inv", "det", "qr", "svdvals", "slogdet", "pinv"):
        for got, want in zip(
            leaves(getattr(tj.numpy.linalg, name)(a)), leaves(getattr(np.linalg, name)(a)), strict=True
        ):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-10, atol=1e-10)


def test_what_is_not_finite_has_no_eigenvalues():
    f = tj.jit(lambda a: (np.linalg.eigvalsh(a), *np.linalg.eigh(a)))
    for a in (np.array([[2.0, np.nan], [np.nan, 6.0]]), np.array([[np.inf, 2.0], [2.0, 4.0]]), np.diag([2.0, np.nan])):
        for found in f(a):
            assert np.isnan(found).all()
    upper = np.array([[2.0, np.nan], [1.0, 3.0]])  # which is not read
    np.testing.assert_allclose(f(upper)[0], np.linalg.eigvalsh(upper))
    both = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    np.testing.assert_array_equal(tj.jit(lambda a: np.linalg.eigvalsh(a))(both), [[1, 1], [np.nan, np.nan]])


def test_gradients_of_the_cholesky_factor_are_symmetric():
    a = matrices((3, 3))
    a = a @ a.T + np.eye(3)

    def loss(a: Any) -> Any:
        return np.sum(np.sin(np.linalg.cholesky(a)))

    found = tj.jit(tj.grad(loss))(a)
    np.testing.assert_allclose(found, found.T)
    t = matrices((3, 3), seed=1)
    t, step = t + t.T, 1e-6
    np.testing.assert_allclose(np.sum(found * t), (loss(a + step * t) - loss(a - step * t)) / (2 * step), rtol=1e-6)


def test_the_rank_of_a_vector_is_a_python_number():
    f = lambda x: x.astype(np.float32) * np.linalg.matrix_rank(x)  # noqa: E731
    for x in (np.zeros(3), np.ones(3)):
        check(tj.jit(f)(x), f(x))
        assert type(tj.numpy.linalg.matrix_rank(x)) is int
