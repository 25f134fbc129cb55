"""SciPy's own special functions on traced arrays: its dtypes, and its values outside of the usual domains."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, UnsupportedError

sp = pytest.importorskip("scipy.special")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

OPERANDS = {
    1: (
        "dawsn", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi", "expit",
        "factorial", "fresnel", "gamma", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e", "log_expit", "log_ndtr",
        "loggamma", "logit", "logsumexp", "ndtr", "ndtri", "psi", "sici", "spence", "zeta",
    ),
    2: (
        "beta", "betaln", "binom", "boxcox", "boxcox1p", "comb", "expn", "gammainc", "gammaincc", "inv_boxcox",
        "inv_boxcox1p", "kl_div", "owens_t", "poch", "polygamma", "rel_entr", "xlog1py", "xlogy", "zeta",
    ),
    3: ("betainc", "hyp1f1"),
    4: ("hyp2f1",),
}  # fmt: skip
DTYPES = ["?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d"]
NUMBERS = [2, 2.0, np.float64(2), np.float32(2), np.int64(2), np.uint8(2)]


def dtypes(result: Any) -> list[str]:
    return [np.dtype(r.dtype).char for r in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize(("name", "n"), [(name, n) for n, names in OPERANDS.items() for name in names])
def test_dtypes_are_scipy_s(name: str, n: int):
    f = getattr(sp, name)
    mixed = list(itertools.product("BHife", "Bhfd")) if n == 2 else []
    for chars in [(c,) * n for c in DTYPES if (name, c) != ("factorial", "?")] + mixed:
        xs = [np.ones(2, c) for c in chars]
        assert dtypes(tj.eval_shape(lambda *xs: f(*xs), *xs)) == dtypes(f(*xs)), chars


@pytest.mark.parametrize("name", ["beta", "binom", "comb", "expn", "gammainc", "polygamma", "xlogy", "zeta"])
def test_dtypes_beside_numbers_are_scipy_s(name: str):
    f = getattr(sp, name)
    for c, number in itertools.product("?Bhife", NUMBERS):
        x = np.ones(2, c)
        for g in (lambda x, f=f, k=number: f(x, k), lambda x, f=f, k=number: f(k, x)):
            assert dtypes(tj.eval_shape(g, x)) == dtypes(g(x)), (c, number)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_in_the_dtypes_of_exp(name: str):
    f = getattr(sp, name)
    for c in DTYPES[1:]:
        x = np.array([[1, 2, 5], [5, 0, 3]], c)
        for axis in (None, 0, 1):
            got = tj.jit(lambda x, axis=axis: f(x, axis=axis))(x)
            # SciPy's differences of unsigned integers wrap around
            want = f(x.astype(np.int64) if x.dtype.kind == "u" else x, axis=axis)
            assert got.dtype == f(x, axis=axis).dtype
            np.testing.assert_allclose(got, want, 16 * np.finfo(got.dtype).eps)
    for empty, axis in ((np.zeros(0), None), (np.zeros((3, 0)), 1)):
        with pytest.raises(ValueError, match="zero-size array"):
            f(empty, axis=axis)
        with pytest.raises(ValueError, match="zero-size array"):
            tj.jit(lambda x, axis=axis: f(x, axis=axis))(empty)
    assert tj.jit(lambda x: f(x, axis=0))(np.zeros((3, 0))).shape == (3, 0)
    with pytest.raises(DtypeError, match="does not take bools"):
        tj.jit(lambda x: f(x))(np.ones(2, bool))


def test_factorials_of_no_numbers_and_of_narrow_ones():
    for c in DTYPES[1:]:
        for shape in ((0,), (3, 0)):
            got = tj.jit(lambda x: sp.factorial(x))(np.zeros(shape, c))
            assert (got.dtype, got.shape) == (np.dtype(c), shape)
        x = np.arange(5).astype(c)
        np.testing.assert_allclose(tj.jit(lambda x: sp.factorial(x))(x), sp.factorial(x), 1e-6)
    with pytest.raises(DtypeError, match="does not take bools"):
        tj.jit(lambda x: sp.factorial(x))(np.ones(2, bool))


PARTS = [0.0, -0.0, 1, -1, 2, 3, -2, -3, 5, -5, 20, -20, 0.5, -0.5, 1.5, -1.5, -2.5, 3.5, -0.13, 4.25, 1e-3, 10.5]
FIRST, SECOND = (v.ravel() for v in np.meshgrid(PARTS, PARTS))
EVERYWHERE = ["binom", "poch", "beta", "betaln", "comb", "rel_entr", "kl_div", "boxcox", "boxcox1p"]


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
@pytest.mark.parametrize("name", EVERYWHERE)
def test_values_outside_of_the_usual_domain(name: str, backend: str, record_backend: Any):
    record_backend(backend)
    f = getattr(sp, name)
    for dtype, close in ((np.float64, 1e-11), (np.float32, 1e-4)):
        x, y = FIRST.astype(dtype), SECOND.astype(dtype)
        want = f(x.astype(np.float64), y.astype(np.float64))
        fits = ~(np.isfinite(want) & ((abs(want) > 1e30) | ((abs(want) < 1e-30) & (want != 0))))
        got = tj.jit(lambda x, y: f(x, y), backend=backend)(x, y)
        np.testing.assert_allclose(got[fits], want[fits], close, 1e-6 if dtype == np.float32 else 0)


def test_orders_of_polygamma():
    n, x = (v.ravel() for v in np.meshgrid([0, 1, 2, 3.0, 7], [0.5, -0.5, 3.25, -2.25, 1e-3, 30.0, -1.0, np.nan]))
    np.testing.assert_allclose(tj.jit(lambda n, x: sp.polygamma(n, x))(n, x), sp.polygamma(n, x), 1e-11)
    np.testing.assert_allclose(tj.jit(lambda x: sp.polygamma(2, x))(x), sp.polygamma(2, x), 1e-11)
    got = tj.jit(lambda x: sp.polygamma(np.arange(3)[:, None], x))(x)
    np.testing.assert_allclose(got, sp.polygamma(np.arange(3)[:, None], x), 1e-11)
    np.testing.assert_allclose(tj.grad(lambda x: sp.polygamma(1, x))(2.5), sp.polygamma(2, 2.5), 1e-12)


@pytest.mark.parametrize("name", ["binom", "poch", "beta", "betaln"])
def test_operands_that_are_infinite_or_nan(name: str):
    f = getattr(sp, name)
    known: dict[str, Any] = {
        "binom": ([np.inf, np.inf, np.inf, np.nan, np.nan, 2.0, 2.5], [0.0, 1.0, 3.0, -1.0, 2.0, np.nan, np.inf]),
        "poch": ([np.inf, np.inf, np.nan, np.nan, 1.0, np.inf, 2.0], [1.0, -1.0, 1.0, -2.0, np.nan, 0.5, -np.inf]),
        "beta": ([np.inf, 2.0, -0.5, -1.5, np.nan, -2.0], [0.5, np.inf, np.inf, np.inf, -1.0, np.nan]),
    }
    x, y = map(np.array, known["beta" if name == "betaln" else name])
    np.testing.assert_array_equal(tj.jit(lambda x, y: f(x, y))(x, y), f(x, y))


EXACT = {"binom": mpmath.binomial, "poch": mpmath.rf, "beta": mpmath.beta}
INSIDE = [(5.0, 2.0), (4.5, 2.0), (4.5, 1.25), (0.5, 0.75), (2.5, 3.25), (7.0, 0.5), (-0.5, 1.25), (-2.5, 1.25)]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("at", INSIDE)
@pytest.mark.parametrize("k", [0, 1])
def test_derivatives_where_gamma_has_no_pole(name: str, at: tuple[float, float], k: int):
    if name == "poch" and at[0] + at[1] <= 0:
        return
    f, exact = getattr(sp, name), EXACT[name]
    got = tj.grad(lambda x, y: f(x, y), argnums=k)(*at)
    with mpmath.workdps(40):
        want = mpmath.diff(lambda v: exact(*[v if j == k else a for j, a in enumerate(at)]), at[k])
    np.testing.assert_allclose(got, float(want), 1e-10, 1e-12)


def test_derivatives_at_poles_are_finite():
    for f, at in ((sp.binom, (2.0, 3.0)), (sp.poch, (-3.0, 2.0)), (sp.beta, (-3.0, 2.0)), (sp.betaln, (-3.0, 2.0))):
        for k in (0, 1):
            assert math.isfinite(tj.grad(lambda x, y, f=f: f(x, y), argnums=k)(*at))


def test_limits():
    jit = lambda f, *xs: tj.jit(lambda *xs: f(*xs))(*xs)  # noqa: E731
    for f in (sp.gammainc, sp.gammaincc):
        assert np.isnan(jit(f, np.inf, np.inf))
    np.testing.assert_array_equal(jit(sp.gammaln, np.array([-np.inf, np.inf, 0.0])), [-np.inf, np.inf, np.inf])
    assert jit(sp.kl_div, 1.0, -np.inf) == np.inf
    assert jit(sp.boxcox, 0.0, 1e-300) == -np.inf
    x = np.array([1e14, 1e16, 1e20, 1e100, 1e300, np.inf])
    for got, want in zip(jit(sp.sici, x), sp.sici(x), strict=True):
        np.testing.assert_allclose(got, want, 1e-9)


def test_spherical_harmonics_agree_with_scipys():
    scipy_special = pytest.importorskip("scipy.special")
    n, m = np.array([0, 1, 2, 3, 4, 5, 8, 8, 1]), np.array([0, -1, 2, -3, 1, 0, -8, 5, 2])
    theta, phi = np.linspace(0.1, 3.0, 9), np.linspace(-4.0, 5.0, 9)
    f = tj.scipy.special.sph_harm_y
    want = scipy_special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(f(n, m, theta, phi), want, atol=1e-14)
    compiled = tj.jit(lambda *xs: f(*xs, n_max=8))
    for k in (9, 5, 1):
        np.testing.assert_allclose(compiled(n[:k], m[:k], theta[:k], phi[:k]), want[:k], atol=1e-14)
    assert f(1, 1, np.float32(0.5), np.float32(1)).dtype == np.complex64
    g, step = tj.jit(tj.grad(lambda t: np.sum(f(n, m, t, phi).real)))(theta), 1e-6
    moved = [scipy_special.sph_harm_y(n, m, theta + h, phi).real for h in (step, -step)]
    np.testing.assert_allclose(g, (moved[0] - moved[1]) / (2 * step), atol=1e-8)
    with pytest.raises(UnsupportedError, match="need n_max="):
        tj.jit(lambda n: f(n, 0, 0.5, 0.5))(n)


@pytest.mark.parametrize("x", [
    [np.inf, 1.0], [-np.inf, 1.0], [-np.inf, -np.inf], [np.inf, np.inf], [np.nan, 1.0], [1e308, -1e308], [1.0, 2.0],
])  # fmt: skip
def test_softmax_of_infinities(x: Any):
    for f in (lambda x: sp.softmax(x), lambda x: sp.log_softmax(x)):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(tj.jit(f)(np.array(x)), f(np.array(x)), rtol=1e-14)


def test_binomials_of_whole_numbers_are_whole():
    n, k = np.meshgrid(np.arange(60.0), np.arange(60.0))
    want = np.vectorize(lambda a, b: float(math.comb(int(a), int(b))))(n, k)
    few = np.minimum(k, n - k) < 30
    for f in (lambda n, k: sp.comb(n, k), lambda n, k: sp.binom(n, k)):
        got = tj.jit(f)(n, k)
        exact = few & (want * 60 < 2**53) & (k <= n)
        np.testing.assert_array_equal(got[exact], want[exact])
        np.testing.assert_allclose(got[few], want[few], rtol=1e-15)
    assert tj.jit(lambda x, n, k: int(sp.comb(n, k)))(1.0, 5, 2) == 10
    np.testing.assert_array_equal(tj.jit(lambda p: sp.comb(len(p), np.arange(4)).astype(int))(np.ones(3)), [1, 3, 3, 1])
    great = (np.array([1e9, 1e12, 1e12, 2.5, -2.5, 50, 100, 1000.5]), np.array([2, 1, 3.5, 2, 3, 25, 50, 400.25]))
    np.testing.assert_allclose(tj.jit(lambda n, k: sp.binom(n, k))(*great), sp.binom(*great), rtol=1e-11)


def test_binomials_have_derivatives():
    h = 1e-6
    for f in (lambda n: sp.binom(n, 3.0), lambda k: sp.binom(10.0, k), lambda n: sp.factorial(n)):
        for x in (5.0, 7.5):
            np.testing.assert_allclose(tj.grad(f)(x), (f(x + h) - f(x - h)) / (2 * h), rtol=1e-6, atol=1e-3)


def test_factorials_of_whole_numbers_are_exact():
    m = np.arange(-3.0, 171)
    want = np.array([0.0 if i < 0 else float(math.factorial(int(i))) for i in m])
    np.testing.assert_array_equal(tj.jit(lambda m: sp.factorial(m))(m), want)
    np.testing.assert_allclose(tj.jit(lambda m: sp.factorial(m))(m + 0.5), sp.factorial(m + 0.5), rtol=1e-13)


@pytest.mark.parametrize(("name", "pairs"), [
    ("beta", [(1e12, 1.0), (1e300, 1.0), (2.0, 3.0), (20.0, 0.5), (17.0, -0.5), (0.3, 1e8), (16.0, 16.0)]),
    ("betaln", [(1e12, 1.0), (1e300, 1.0), (2.0, 3.0), (1e10, 1e12), (16.0, 16.0), (1e-3, 40.0)]),
    ("poch", [(1e12, 1.0), (2.0, 3.0), (20.0, -3.0), (17.0, 50.5), (1e6, -0.5), (-3.5, 30.0)]),
])  # fmt: skip
def test_quotients_of_gammas_of_great_operands(name: str, pairs: list[tuple[float, float]]):
    f, (a, b) = getattr(sp, name), np.array(pairs).T
    want = f(a, b)
    np.testing.assert_allclose(tj.jit(lambda a, b: f(a, b))(a, b), want, rtol=1e-13)
    h = 1e-4 * np.minimum(a, 1)
    slopes = [float(tj.grad(lambda y, z=z: f(y, z))(y)) for y, z in pairs if y < 100]
    np.testing.assert_allclose(slopes, ((f(a + h, b) - f(a - h, b)) / (2 * h))[a < 100], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zeta_far_to_the_right(dtype: Any):
    x = np.array([2, 10.25, 49, 50, 60, 100, 700, 1e4, 1e30, np.inf], dtype)
    rtol = 1e-14 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(tj.jit(lambda x: sp.zeta(x))(x), sp.zeta(x), rtol=rtol)
    for q in (2.0, 17.0, 1e3):
        got = tj.jit(lambda x, q: sp.zeta(x, q))(x[:-2], np.full(8, q, dtype))
        np.testing.assert_allclose(got, sp.zeta(x[:-2], np.full(8, q, dtype)), rtol=rtol, atol=1e-300)


def test_relative_entropies_of_what_is_far_apart():
    p, q = np.array([1e300, 1e-300, 2.0, 1e-310, 0.0]), np.array([1e-10, 1e20, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(tj.jit(lambda p, q: sp.rel_entr(p, q))(p, q), sp.rel_entr(p, q), rtol=1e-13)
    assert tj.grad(lambda q: sp.rel_entr(1e300, q))(1e-9) == -np.inf


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_the_upper_incomplete_gamma_function_of_small_orders(dtype: Any, rtol: float):
    orders = np.array([1e-30, 1e-20, 1e-10, 1e-8, 1e-4, 0.01, 0.1, 0.19, 0.21, 0.5], dtype)
    a, x = np.meshgrid(orders, np.array([1e-10, 0.001, 0.1, 0.5, 0.9, 1.0, 1.05, 1.2, 1.5, 3.0], dtype))
    upper = np.vectorize(
        lambda a, x: float(mpmath.gammainc(mpmath.mpf(float(a)), mpmath.mpf(float(x)), regularized=True))
    )
    with mpmath.workdps(40):
        want = upper(a, x)
    np.testing.assert_allclose(tj.jit(lambda a, x: sp.gammaincc(a, x))(a, x), want, rtol=rtol)
