"""SciPy's special functions under its names: values, dtypes, sizes, derivatives, and SciPy's own on traced arrays.

How exact the functions beneath are: tests/ir/test_special_functions.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import tracejit as tj

special = tj.scipy.special
rng = np.random.default_rng(30)
x = rng.uniform(0.2, 6, 12)
y = rng.uniform(0.2, 6, 12)
u = rng.uniform(0.05, 0.95, 12)
signed = rng.uniform(-4, 4, 12)
n = rng.integers(0, 9, 12).astype(np.float64)
m = mpmath


def entropy(v: Any) -> Any:
    return -v * m.log(v)


ORACLES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "gammaln": (lambda v: m.re(m.loggamma(v)), [signed]),
    "gamma": (m.gamma, [signed]),
    "loggamma": (m.loggamma, [x]),
    "gammasgn": (lambda v: m.sign(m.gamma(v)), [signed]),
    "digamma": (m.digamma, [signed]),
    "psi": (m.digamma, [x]),
    "polygamma": (lambda k, v: m.polygamma(int(k), v), [n, x]),
    "erf": (m.erf, [signed]),
    "erfc": (m.erfc, [signed]),
    "erfcx": (lambda v: m.exp(v * v) * m.erfc(v), [signed]),
    "erfinv": (m.erfinv, [2 * u - 1]),
    "erfcinv": (lambda v: m.erfinv(1 - v), [2 * u]),
    "ndtr": (m.ncdf, [signed]),
    "ndtri": (lambda v: m.sqrt(2) * m.erfinv(2 * v - 1), [u]),
    "log_ndtr": (lambda v: m.log(m.ncdf(v)), [signed * 5]),
    "expit": (lambda v: 1 / (1 + m.exp(-v)), [signed * 9]),
    "logit": (lambda v: m.log(v / (1 - v)), [u]),
    "log_expit": (lambda v: -m.log1p(m.exp(-v)), [signed * 9]),
    "xlogy": (lambda a, b: a * m.log(b), [signed, y]),
    "xlog1py": (lambda a, b: a * m.log1p(b), [signed, y]),
    "entr": (entropy, [x]),
    "rel_entr": (lambda a, b: a * m.log(a / b), [x, y]),
    "kl_div": (lambda a, b: a * m.log(a / b) - a + b, [x, y]),
    "i0": (lambda v: m.besseli(0, v), [signed * 5]),
    "i0e": (lambda v: m.exp(-abs(v)) * m.besseli(0, v), [signed * 5]),
    "i1": (lambda v: m.besseli(1, v), [signed * 5]),
    "i1e": (lambda v: m.exp(-abs(v)) * m.besseli(1, v), [signed * 5]),
    "betaln": (lambda a, b: m.log(abs(m.beta(a, b))), [x, y]),
    "beta": (m.beta, [x - 2, y]),
    "betainc": (lambda a, b, v: m.betainc(a, b, 0, v, regularized=True), [x, y, u]),
    "gammainc": (lambda a, v: m.gammainc(a, 0, v, regularized=True), [x, y]),
    "gammaincc": (lambda a, v: m.gammainc(a, v, regularized=True), [x, y]),
    "zeta": (m.zeta, [x + 1.05, y]),
    "factorial": (m.factorial, [x]),
    "comb": (m.binomial, [n + 2, np.minimum(n, 2)]),
    "binom": (m.binomial, [n + 2.5, np.minimum(n, 2)]),
    "poch": (m.rf, [signed, y]),
    "boxcox": (lambda v, k: (v**k - 1) / k, [x, signed]),
    "boxcox1p": (lambda v, k: ((1 + v) ** k - 1) / k, [x, signed]),
    "inv_boxcox": (lambda v, k: (1 + k * v) ** (1 / k), [x, y]),
    "inv_boxcox1p": (lambda v, k: (1 + k * v) ** (1 / k) - 1, [x, y]),
    "expn": (m.expint, [n, x]),
    "exp1": (m.e1, [x]),
    "expi": (m.ei, [signed]),
    "spence": (lambda v: m.re(m.polylog(2, 1 - v)), [x]),
    "dawsn": (lambda v: m.sqrt(m.pi) / 2 * m.exp(-v * v) * m.erfi(v), [signed]),
    "hyp1f1": (m.hyp1f1, [x, y, signed]),
    "hyp2f1": (m.hyp2f1, [u, y, x, u - 0.5]),
}
NEAR = {"beta": 1e-12, "hyp1f1": 1e-11, "hyp2f1": 1e-11, "gammaln": 1e-13, "poch": 1e-12, "betainc": 1e-12}
"""Relative errors, where they are not below 3e-14."""


def oracle(name: str) -> np.ndarray[Any, Any]:
    exact, args = ORACLES[name]
    with m.workdps(30):
        return np.array([float(m.re(exact(*map(m.mpf, map(float, row))))) for row in zip(*args, strict=True)])


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_functions_agree_with_mpmath(name: str):
    args = ORACLES[name][1]
    f = getattr(special, name)
    want = oracle(name)
    got = f(*args)
    assert type(got) is tj.Array
    np.testing.assert_allclose(got, want, rtol=NEAR.get(name, 3e-14), atol=1e-15)
    narrow = f(*[a.astype(np.float32) for a in args])
    assert narrow.dtype == np.float32
    wide = f(*[a.astype(np.float32).astype(np.float64) for a in args])
    np.testing.assert_allclose(narrow, wide, rtol=3e-5, atol=1e-6)
    assert f(*[a.astype(np.float16) for a in args]).dtype == np.float16
    assert f(*[np.ones(2, np.int32) for _ in args]).dtype == np.float64


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_compiled_functions_agree_with_eager_ones(name: str):
    args = ORACLES[name][1]
    f = getattr(special, name)
    np.testing.assert_allclose(tj.jit(lambda *xs: f(*xs))(*args), f(*args), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["gammaln", "erfinv", "gammainc", "expn"])
def test_one_compiled_function_serves_all_sizes(name: str):
    args = ORACLES[name][1]
    f = tj.jit(lambda *xs: getattr(special, name)(*xs))
    want = oracle(name)
    for size in (5, 0, 1, 2, 12, 24):
        got = f(*[np.resize(a, size) for a in args])
        np.testing.assert_allclose(got, np.resize(want, size), rtol=NEAR.get(name, 3e-14), atol=1e-15)
    got = f(np.resize(args[0], (3, 1)), *[np.resize(a, 2) for a in args[1:]])
    assert got.shape == ((3, 2) if len(args) > 1 else (3, 1))
    assert f(*[a[0] for a in args]).shape == ()


CONSTANT = {"polygamma": 1, "expn": 1, "zeta": 1, "hyp1f1": 2, "hyp2f1": 3, "betainc": 2}
"""How many first operands have no derivative."""
STEPS = {"gammasgn": 0, "comb": 0, "binom": 0}


@pytest.mark.parametrize("name", sorted(set(ORACLES) - set(STEPS)))
def test_derivatives_of_first_and_second_order(name: str):
    f, args = getattr(special, name), [a[:3] for a in ORACLES[name][1]]
    h = 1e-6
    for k in range(CONSTANT.get(name, 0), len(args)):

        def along(v: Any, k: int = k) -> Any:
            return f(*[v if j == k else a for j, a in enumerate(args)])

        def slope(v: Any, along: Any = along) -> Any:
            return np.asarray(tj.jvp(along, (v,), (np.ones(3),))[1])

        want = (np.asarray(along(args[k] + h)) - np.asarray(along(args[k] - h))) / (2 * h)
        np.testing.assert_allclose(slope(args[k]), want, rtol=3e-7, atol=1e-7 * max(0.01, np.abs(want).max()))
        back = tj.vjp(along, args[k])[1](np.ones(3))[0]
        np.testing.assert_allclose(back, slope(args[k]), rtol=1e-12)
        if (name, k) in (("gammainc", 0), ("gammaincc", 0)):
            continue
        second = tj.jvp(slope_of(along), (args[k],), (np.ones(3),))[1]
        want = (slope(args[k] + h) - slope(args[k] - h)) / (2 * h)
        np.testing.assert_allclose(second, want, rtol=3e-6, atol=1e-6 * max(1e-3, np.abs(want).max()))


def slope_of(f: Any) -> Any:
    return lambda v: tj.jvp(f, (v,), (np.ones(3),))[1]


@pytest.mark.parametrize(
    ("name", "args", "operand"),
    [("gammainc", (2.0, 3.0), "a"), ("zeta", (2.0, 3.0), "x"), ("betainc", (2.0, 3.0, 0.5), "a")],
)
def test_what_has_no_derivative_says_so(name: str, args: tuple[float, ...], operand: str):
    f = lambda v: getattr(special, name)(v, *args[1:])  # noqa: E731
    with pytest.raises(NotImplementedError, match=f"has no derivative with respect to {operand}; hold it constant"):
        tj.grad(tj.grad(f) if name == "gammainc" else f)(args[0])


def test_pairs_of_integrals():
    for f, first, second in ((special.sici, m.si, m.ci), (special.fresnel, m.fresnels, m.fresnelc)):
        got = tj.jit(lambda v, f=f: f(v))(x)
        for values, exact in zip(got, (first, second), strict=True):
            np.testing.assert_allclose(values, [float(exact(v)) for v in x], rtol=1e-11, atol=1e-14)


def test_bessel_functions_of_all_orders():
    z = np.array([0.0, 1e-3, 0.5, -2.0, 2.404825557695773, 7.5, 20.0])
    got = tj.jit(lambda v: special.bessel_jn(v, v=5))(z)
    want = [[float(m.besselj(k, float(v))) for v in z] for k in range(6)]
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-14)
    slope = tj.grad(lambda v: special.bessel_jn(v, v=1)[0])(1.5)
    np.testing.assert_allclose(slope, -float(m.besselj(1, 1.5)), rtol=1e-12)
    with pytest.raises(ValueError, match="0 <= v < n_iter, not 60 and 50"):
        special.bessel_jn(z, v=60)


def test_owen_s_function():
    h, a = rng.uniform(-4, 4, 9), rng.uniform(-3, 3, 9)
    want = [
        float(m.quad(lambda t, h=h: m.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, float(a)]) / (2 * m.pi))
        for h, a in zip(map(float, h), map(float, a), strict=True)
    ]
    np.testing.assert_allclose(special.owens_t(h, a), want, rtol=1e-11, atol=1e-15)
    for k in (0, 1):
        step = np.where(np.arange(2) == k, 1e-6, 0)
        difference = special.owens_t(1.2 + step[0], 0.7 + step[1]) - special.owens_t(1.2 - step[0], 0.7 - step[1])
        np.testing.assert_allclose(tj.grad(special.owens_t, argnums=k)(1.2, 0.7), difference / 2e-6, rtol=1e-8)


def test_limits_of_entropies_and_logarithms():
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(special.entr(np.array([0.0, -1.0, nan])), [0, -inf, nan])
    np.testing.assert_array_equal(
        special.xlogy(np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.0, inf, nan, 0.0])), [0, 0, nan, -inf]
    )
    np.testing.assert_array_equal(special.xlog1py(np.array([0.0, 0.0]), np.array([-1.0, nan])), [0, nan])
    p, q = np.array([0.0, 0.0, 1.0, -1.0, nan, 0.0]), np.array([0.0, 2.0, 0.0, 1.0, 1.0, -1.0])
    np.testing.assert_array_equal(special.rel_entr(p, q), [0, 0, inf, inf, nan, inf])
    np.testing.assert_array_equal(special.kl_div(p, q), [0, 2, inf, inf, nan, inf])
    np.testing.assert_array_equal(special.logit(np.array([0.0, 1.0, -1.0, 2.0])), [-inf, inf, nan, nan])
    np.testing.assert_array_equal(special.boxcox(np.array([2.0, 0.0]), 0.0), [math.log(2), -inf])
    np.testing.assert_array_equal(special.ndtri(np.array([0.0, 1.0, -1.0, 0.5])), [-inf, inf, nan, 0])


def test_counts_outside_of_their_ranges_are_0():
    np.testing.assert_array_equal(special.factorial(np.array([-1.0, 0.0, -0.5])), [0, 1, 0])
    np.testing.assert_array_equal(special.comb(np.array([3, 3, -1, 0]), np.array([4, -1, 0, 0])), [0, 0, 0, 1])
    np.testing.assert_allclose(special.comb(4, 3, repetition=True), 20, rtol=1e-13)
    assert special.comb(0, 0, repetition=True) == 1
    assert tj.grad(lambda v: special.comb(3.0, v))(5.0) == 0
    for f in (lambda: special.factorial(3, exact=True), lambda: special.comb(3, 2, exact=True)):
        with pytest.raises(NotImplementedError, match="exact=True gives Python's integers"):
            f()


def test_numbers_of_bernoulli_and_gamma_functions_of_matrices():
    np.testing.assert_array_equal(special.bernoulli(12), [float(m.bernoulli(k)) for k in range(13)])
    np.testing.assert_array_equal(special.bernoulli(0), [1])
    for bad in (-1, 2.0, True):
        with pytest.raises(ValueError, match="n is an integer of Python's from 0 on"):
            special.bernoulli(bad)
    want = 1.5 * math.log(math.pi) + sum(math.lgamma(4.2 - j / 2) for j in range(3))
    np.testing.assert_allclose(special.multigammaln(4.2, 3), want, rtol=1e-14)
    with pytest.raises(ValueError, match="d is a positive integer of Python's, not 0"):
        special.multigammaln(4.2, 0)


def test_derivatives_stay_finite_where_values_do():
    """What is not chosen by a condition has no say in a derivative."""
    cases = [(special.log_ndtr, 50.0), (special.log_ndtr, -50.0), (special.expit, -800.0), (special.expit, 800.0),
             (lambda v: special.poch(v, 0.0), 2.0), (lambda v: special.boxcox(2.0, v), 0.0), (special.i1e, 0.0),
             (special.spence, 1.0), (lambda v: special.sici(v)[0], 0.0)]  # fmt: skip
    for f, at in cases:
        assert np.isfinite(tj.grad(f)(at)), at
    np.testing.assert_allclose(tj.grad(special.log_ndtr)(-50.0), 50.01998403509, rtol=1e-9)
    np.testing.assert_allclose(tj.grad(special.expit)(-700.0), math.exp(-700), rtol=1e-12)
    np.testing.assert_allclose(tj.grad(special.i1e)(0.0), 0.5, rtol=1e-14)


def test_random_arguments_in_loops_branches_and_maps():
    @tj.jit
    def f(v: Any) -> Any:
        total = np.zeros(3)
        for k in range(1, 5):
            total += special.gammainc(v, k) if v[0] > 1 else special.gammaincc(v, k)
        return total

    for _ in range(5):
        v = rng.uniform(0.1, 4, 3)
        g = special.gammainc if v[0] > 1 else special.gammaincc
        np.testing.assert_allclose(f(v), sum(np.asarray(g(v, float(k))) for k in range(1, 5)), rtol=1e-12)
    mapped = tj.jit(tj.vmap(tj.grad(lambda a, v: special.gammainc(a, v), argnums=(0, 1))))(x, y)
    want = tj.lax.igamma_grad_a(x, y)
    np.testing.assert_allclose(mapped[0], want, rtol=1e-11)
    np.testing.assert_allclose(mapped[1], np.exp((x - 1) * np.log(y) - y - np.vectorize(math.lgamma)(x)), rtol=1e-11)


@pytest.mark.parametrize("backend", ["reference", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_backends_give_the_same(backend: str, dtype: Any):
    f = lambda a, b, p: (  # noqa: E731
        special.gammaln(a), special.digamma(a), special.erfcx(a), special.erfinv(p), special.i0e(b),
        special.gammaincc(a, b), special.betainc(a, b, p), special.zeta(a + 1.1, b), special.expi(a),
    )  # fmt: skip
    args = [v.astype(dtype) for v in (x, y, u)]
    for got, want in zip(tj.jit(f, backend=backend)(*args), f(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=100 * np.finfo(dtype).eps)


def test_numpy_s_i0_is_known():
    v = np.linspace(-20, 20, 9)
    np.testing.assert_allclose(tj.jit(lambda w: np.i0(w))(v), np.i0(v), rtol=1e-13)
    np.testing.assert_allclose(tj.numpy.i0(v), np.i0(v), rtol=1e-13)
    assert tj.jit(lambda w: np.i0(w))(np.arange(3)).dtype == np.float64


LAX = {
    "lgamma": ("gammaln", [x]), "digamma": ("digamma", [x]), "erfc": ("erfc", [signed]), "erf_inv": ("erfinv", [u]),
    "bessel_i0e": ("i0e", [signed]), "bessel_i1e": ("i1e", [signed]), "polygamma": ("polygamma", [n, x]),
    "igamma": ("gammainc", [x, y]), "igammac": ("gammaincc", [x, y]), "zeta": ("zeta", [x + 1.1, y]),
    "betainc": ("betainc", [x, y, u]), "regularized_incomplete_beta": ("betainc", [x, y, u]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LAX))
def test_jax_s_names_are_the_same_functions(name: str):
    other, args = LAX[name]
    np.testing.assert_array_equal(getattr(tj.lax, name)(*args), getattr(special, other)(*args))
    with pytest.raises(TypeError, match=r"\[\w+\] does not accept i64|operands differ in dtype"):
        getattr(tj.lax, name)(*[np.ones(2, np.int64) for _ in args])


def test_lax_refuses_operands_of_several_dtypes():
    with pytest.raises(TypeError, match=r"\[igamma\] operands differ in dtype"):
        tj.lax.igamma(np.ones(2, np.float32), np.ones(2))


def test_a_sample_of_the_gamma_distribution_moves_with_its_parameter():
    a, v, h = 2.5, 1.75, 1e-6
    density = float(tj.scipy.stats.gamma.pdf(v, a))
    slope = (float(tj.lax.igamma(a + h, v)) - float(tj.lax.igamma(a - h, v))) / (2 * h)
    np.testing.assert_allclose(tj.lax.random_gamma_grad(a, v), -slope / density, rtol=1e-8)


def test_scipy_s_functions_know_traced_arrays():
    """Its ufuncs reach a traced array by NumPy's protocol, other functions by their names in the traced function."""
    scipy = pytest.importorskip("scipy.special")

    @tj.jit
    def f(v: Any) -> Any:
        return (
            scipy.gammaln(v), scipy.psi(v), scipy.betainc(2.0, v, 0.5), scipy.logsumexp(v), scipy.softmax(v, axis=0),
            scipy.log_softmax(v), scipy.factorial(v), scipy.comb(5, v), scipy.zeta(2.0, v), scipy.sici(v)[1],
        )  # fmt: skip

    for got, want in zip(f(x), f.__wrapped__(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11)
    np.testing.assert_allclose(tj.grad(lambda v: scipy.gammaln(v))(3.0), special.digamma(3.0), rtol=1e-14)
