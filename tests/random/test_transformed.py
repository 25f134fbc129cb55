"""Random numbers under jit, vmap, grad, in loops and branches, on other backends."""

from typing import Any

import mpmath
import numpy as np
import pytest

import tracejit as tj

KEY = tj.random.key(7)
R = tj.random


def test_compiled_numbers_are_those_without_jit_bit_for_bit():
    def draw(k: Any) -> Any:
        return (
            R.normal(k, (40,)), R.normal(k, (40,), np.float32), R.gamma(k, 0.4, (40,)), R.poisson(k, 4.0, (40,)),
            R.binomial(k, 90, 0.4, (40,)),
        )  # fmt: skip

    for found, want in zip(tj.jit(draw)(KEY), draw(KEY), strict=True):
        np.testing.assert_array_equal(found, want)


def test_a_batch_of_keys_gives_what_each_gives():
    keys, a = R.split(KEY, 4), np.linspace(0.3, 20.0, 4)

    def draw(k: Any, a: Any) -> Any:
        first, second = R.split(k)
        return R.normal(first, (3,)), R.poisson(second, a, (3,)), R.randint(first, (3,), 0, 10), R.uniform(k, maxval=a)

    for batch in (tj.vmap(draw), tj.jit(tj.vmap(draw))):
        for found, want in zip(batch(keys, a), zip(*map(draw, keys, a), strict=True), strict=True):
            np.testing.assert_array_equal(found, np.stack(want))
    one_key = tj.jit(tj.vmap(lambda k, a: R.normal(k, (2,)) * a, in_axes=(None, 0)))(KEY, a)
    np.testing.assert_array_equal(one_key, R.normal(KEY, (2,)) * a[:, None])


def test_loops_and_branches_draw_anew():
    @tj.jit
    def walk(key: Any, steps: Any) -> Any:
        x = 0.0
        for n in tj.range(steps):
            step = R.normal(R.fold_in(key, n))
            if step > 0:
                x = x + R.uniform(R.fold_in(key, n + 1000))
            else:
                x = x + step
        return x

    for steps in (0, 1, 2, 30):
        x = 0.0
        for n in range(steps):
            step = R.normal(R.fold_in(KEY, n))
            x = x + (R.uniform(R.fold_in(KEY, n + 1000)) if step > 0 else step)
        assert abs(walk(KEY, steps) - x) < 1e-12


def test_a_key_may_be_made_inside():
    f = tj.jit(lambda seed: R.normal(R.key(seed), (2,)))
    np.testing.assert_array_equal(f(7), R.normal(KEY, (2,)))
    np.testing.assert_array_equal(tj.jit(lambda: R.normal(R.key(7), (2,)))(), R.normal(KEY, (2,)))


def test_results_can_be_written_and_belong_to_the_caller():
    for make in (R.bits, R.uniform, R.normal, lambda k, s: R.permutation(k, s[0]), lambda k, s: R.randint(k, s, 0, 9)):
        x = make(KEY, (4,))
        x[0] = 1
        assert x[0] == 1


def test_samples_have_derivatives_in_their_parameters():
    z = R.normal(KEY, (4,))
    slopes = tj.jit(tj.grad(lambda m, s: np.sum(m + s * R.normal(KEY, (4,))), argnums=(0, 1)))(1.0, 2.0)
    np.testing.assert_allclose(slopes, (4.0, z.sum()))
    for f, x in (
        (lambda b: R.pareto(KEY, b), 2.0), (lambda s: R.rayleigh(KEY, s), 2.0), (lambda s: R.lognormal(KEY, s), 0.5),
        (lambda c: R.weibull_min(KEY, 2.0, c), 1.5), (lambda m: R.triangular(KEY, 0.0, m, 3.0), 1.0),
        (lambda a: R.truncated_normal(KEY, a, 2.0), -0.5), (lambda m: R.wald(KEY, m), 1.5),
    ):  # fmt: skip
        want = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
        np.testing.assert_allclose(tj.grad(f)(x), want, rtol=1e-6)


def cumulative(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, 0, x, regularized=True)


@pytest.mark.parametrize("a", [0.4, 1.0, 3.0, 30.0])
def test_the_derivative_of_a_gamma_sample_keeps_its_probability(a: float):
    x = float(R.gamma(KEY, a))
    with mpmath.workprec(120):
        in_a = mpmath.diff(lambda b: cumulative(b, mpmath.mpf(x)), a)
        density = mpmath.diff(lambda y: cumulative(a, y), x)
        want = float(-in_a / density)
    np.testing.assert_allclose(tj.grad(lambda b: R.gamma(KEY, b))(a), want, rtol=1e-9)
    np.testing.assert_allclose(tj.jit(tj.grad(lambda b: R.loggamma(KEY, b)))(a), want / x, rtol=1e-9)
    np.testing.assert_allclose(tj.jvp(lambda b: R.chisquare(KEY, b), (2 * a,), (2.0,))[1], 2 * want, rtol=1e-9)


def test_the_derivative_of_a_tiny_sample_is_finite():
    a = 1e-3
    x = float(R.loggamma(KEY, a))
    assert x < -40
    want = (float(mpmath.digamma(a + 1).real) - x) / a
    np.testing.assert_allclose(tj.grad(lambda b: R.loggamma(KEY, b))(a), want, rtol=1e-12)


def test_derivatives_of_means_are_means_of_derivatives():
    n = 4000
    slope = tj.jit(tj.grad(lambda a: np.mean(R.beta(KEY, a, 2.0, (n,)))))(3.0)
    assert abs(slope - 2.0 / 25.0) < 0.01
    slopes = tj.grad(lambda a: np.mean(R.dirichlet(KEY, a, (n,))[:, 0]))(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(slopes, [5 / 36, -1 / 36, -1 / 36], atol=0.01)


def test_counts_have_no_slope():
    assert tj.grad(lambda lam: R.poisson(KEY, lam) * 1.0)(3.0) == 0.0
    assert tj.grad(lambda p: R.binomial(KEY, 10, p))(0.3) == 0.0


@pytest.mark.parametrize("backend", ["reference", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_other_backends_have_the_same_numbers(backend: str, record_backend: Any):
    record_backend(backend)

    def draw(k: Any, lam: Any) -> Any:
        return R.normal(k, (5,)), R.poisson(k, lam), R.permutation(k, 5)

    lam = np.array([3.0, 20.0, 0.0, -1.0], np.float32)
    for found, want in zip(tj.jit(draw, backend=backend)(KEY, lam), draw(KEY, lam), strict=True):
        np.testing.assert_array_equal(found, want)
