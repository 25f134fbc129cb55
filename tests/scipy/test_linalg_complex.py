"""scipy.linalg of complex matrices, in compiled functions, against SciPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.scipy.linear_algebra import agree, outcome, scipy_linalg

RNG = np.random.default_rng(2)


def matrix(*shape: int) -> Any:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


A = matrix(4, 4) + 2 * np.eye(4)
NAMES = {"a": A, "h": A @ A.T.conj(), "b": matrix(4, 3), "tall": matrix(5, 3), "stack": np.stack([A, A @ A])}
CALLS = [
    *[f"solve_triangular(a, b, {trans}, lower={lower})" for trans in (0, 1, 2) for lower in (False, True)],
    *[f"lu_solve(lu_factor(a), b, {trans})" for trans in (0, 1, 2)],
    *[f"solve(h, b, assume_a={kind!r}, lower={low})" for kind in ("sym", "her", "pos") for low in (False, True)],
    "cholesky(h)", "cholesky(h, lower=True)", "cho_solve(cho_factor(h), b)", "cho_solve(cho_factor(h, True), b)",
    "lu(a)", "lu(tall.T)", "lu(a.astype('c8'))", "inv(a)", "det(stack)", "solve(a, b.real)", "svdvals(tall)",
    "pinv(tall)", "pinvh(h)",
    "lstsq(tall, tall[:, :1] + 1)", "subspace_angles(tall, tall[:, :2] * 1j + 1)", "eigvalsh(a, lower=False)",
    "eigvalsh(a, h)", "qr(tall)", "qr(tall.T)", "qr_multiply(tall, tall.T)",
    "qr_multiply(tall, tall.T, conjugate=True)",
    "polar(tall)", "polar(tall.T, 'left')", "orthogonal_procrustes(tall, 1j * tall[::-1])", "expm(stack)",
    "expm_frechet(a, h)", "cosm(a)", "tanm(a)", "sinhm(a)",
]  # fmt: skip
CALLS += [
    *[f"qr({x}, mode={mode!r}, pivoting=True)" for x in ("a", "tall", "tall.T") for mode in ("full", "economic", "r")],
    "qr_multiply(tall, tall.T, pivoting=True)", "qr(tall.real, pivoting=True)", "qr(a[:, :0], pivoting=True)",
]  # fmt: skip
OF_ANY_PHASE = ["svd(tall)", "eigh(h)", "orth(tall)", "null_space(tall.T)"]


def check(call: str, signs: bool) -> None:
    f = eval(f"lambda m, {', '.join(NAMES)}: m.{call}", {"np": np})
    args = list(NAMES.values())
    want = outcome(f, scipy_linalg, *args)
    agree(outcome(tj.jit(lambda *xs: f(scipy_linalg, *xs)), *args), want, 1e-5 if "c8" in call else 1e-9, signs)


@pytest.mark.parametrize("call", CALLS)
def test_functions_agree_with_scipy(call: str):
    check(call, True)


@pytest.mark.parametrize("call", OF_ANY_PHASE)
def test_vectors_agree_with_scipys_up_to_their_phase(call: str):
    check(call, False)


def test_columns_in_order_have_derivatives():
    def loss(a: Any) -> Any:
        return np.sum(np.sin(scipy_linalg.qr(a, mode="economic", pivoting=True)[1]))

    a, t, step = NAMES["tall"].real, matrix(5, 3).real, 1e-6
    found, compiled = tj.jit(tj.grad(loss))(a), tj.jit(loss)
    want = (compiled(a + step * t) - compiled(a - step * t)) / (2 * step)
    np.testing.assert_allclose(np.sum(found * t), want, rtol=1e-6)
    _, _, order = tj.vmap(lambda a: tj.lax.linalg.qr(a, pivoting=True))(NAMES["stack"])
    np.testing.assert_array_equal(order[1], scipy_linalg.qr(NAMES["stack"][1], pivoting=True)[2])
