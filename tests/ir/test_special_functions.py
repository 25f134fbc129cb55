"""The special functions' expansions and loops against mpmath, evaluated with the NumPy meaning of each operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tracejit.ir.math import EXPANSIONS, hypergeometric, incomplete, integrals, zeta
from tracejit.ir.math.evaluate import evaluate
from tracejit.ir.scalar import OPS

rng = np.random.default_rng(20)
COUNT = 60


def inverse_erfc(q: Any) -> Any:
    if q > 1e-3:
        return mpmath.erfinv(1 - q)
    y = mpmath.sqrt(-mpmath.log(q))
    for _ in range(40):
        value = mpmath.erfc(y)
        y += (mpmath.log(value) - mpmath.log(q)) * value * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
    return y


EXACT: dict[str, Callable[[Any], Any]] = {
    "lgamma": lambda x: mpmath.re(mpmath.loggamma(x)), "digamma": mpmath.digamma, "tgamma": mpmath.gamma,
    "erfc": mpmath.erfc, "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x), "erf_inv": mpmath.erfinv,
    "erfc_inv": inverse_erfc, "bessel_i0e": lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x),
    "bessel_i1e": lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x),
}  # fmt: skip
POINTS = {
    "lgamma": [rng.uniform(0, 3, COUNT), rng.uniform(3, 12, COUNT), 10 ** rng.uniform(-30, 30, COUNT),
               1 + 10 ** rng.uniform(-6, -1, 9), 2 - 10 ** rng.uniform(-6, -1, 9), -rng.uniform(0, 2, 9)],
    "digamma": [rng.uniform(0, 3, COUNT), rng.uniform(3, 12, COUNT), 10 ** rng.uniform(-30, 30, COUNT),
                1.4616321 + rng.uniform(-1, 1, 9) * 1e-3],
    "tgamma": [rng.uniform(0, 12, COUNT), rng.uniform(9, 34, COUNT), -rng.uniform(0, 10, COUNT),
               10 ** rng.uniform(-30, 0, 9)],
    "erfc": [rng.uniform(-4, 4, COUNT), rng.uniform(0, 9, COUNT), 10 ** rng.uniform(-20, 0, COUNT)],
    "erfcx": [rng.uniform(-5, 10, COUNT), 10 ** rng.uniform(-5, 3, COUNT)],
    "erf_inv": [rng.uniform(-1, 1, COUNT), 1 - 10 ** rng.uniform(-7, 0, COUNT), 10 ** rng.uniform(-20, 0, COUNT)],
    "erfc_inv": [rng.uniform(0, 2, COUNT), 10 ** rng.uniform(-37, 0, COUNT)],
    "bessel_i0e": [rng.uniform(-20, 20, COUNT), 10 ** rng.uniform(-5, 10, COUNT)],
    "bessel_i1e": [rng.uniform(-20, 20, COUNT), 10 ** rng.uniform(-5, 10, COUNT)],
}  # fmt: skip
BOUND = {"bessel_i0e": 8.0, "bessel_i1e": 8.0, "erfcx": 6.0, "tgamma": 6.0}
"""Units in the last place, where it is not 4."""


def units(got: np.ndarray[Any, Any], want: list[Any]) -> np.ndarray[Any, Any]:
    """How far results are from exact ones in units in the last place."""
    info = np.finfo(got.dtype)
    sizes = [max(abs(w), mpmath.mpf(float(info.tiny))) for w in want]
    unit = [mpmath.ldexp(1, int(mpmath.frexp(s)[1]) - 1 - info.nmant) for s in sizes]
    return np.array([float(abs(mpmath.mpf(float(g)) - w) / e) for g, w, e in zip(got, want, unit, strict=True)])


@pytest.mark.parametrize("name", sorted(EXACT))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operations_are_within_few_units_of_mpmath(name: str, dtype: Any):
    x = np.concatenate(POINTS[name]).astype(dtype)
    if name == "erf_inv":
        x = x[np.abs(x) < 1]
    got = OPS[name].impl(np.dtype(dtype), x)
    with mpmath.workprec(220):
        errors = units(got, [EXACT[name](mpmath.mpf(float(v))) for v in x])
    worst = int(np.argmax(errors))
    assert errors[worst] <= BOUND.get(name, 4.0), f"{name}({x[worst]!r}) = {got[worst]!r}, {errors[worst]} units off"


def test_extreme_tails_of_erfc_inv_are_exact():
    x = np.array([1e-300, 2.2e-308, 5e-324, 1e-60])
    got = OPS["erfc_inv"].impl(np.dtype(np.float64), x)
    with mpmath.workprec(200):
        assert units(got, [inverse_erfc(mpmath.mpf(float(v))) for v in x]).max() <= 3


INF, NAN = math.inf, math.nan
AT = [0.0, -0.0, 1.0, -1.0, 2.0, -2.5, INF, -INF, NAN, 5e-324, -1e300]
SPECIAL = {
    "lgamma": [INF, INF, 0, INF, 0, math.lgamma(-2.5), INF, INF, NAN, math.lgamma(5e-324), INF],
    "tgamma": [INF, -INF, 1, NAN, 1, math.gamma(-2.5), INF, NAN, NAN, INF, NAN],
    "digamma": [-INF, INF, -0.5772156649015329, NAN, 0.42278433509846713, 1.1031566406452433, INF, NAN, NAN, -INF,
                NAN],
    "erfc": [1, 1, math.erfc(1), math.erfc(-1), math.erfc(2), math.erfc(-2.5), 0, 2, NAN, 1, 2],
    "erf_inv": [0, -0.0, INF, -INF, NAN, NAN, NAN, NAN, NAN, 5e-324, NAN],
    "erfc_inv": [INF, INF, 0, NAN, -INF, NAN, NAN, NAN, NAN, 27.213293210812948, NAN],
    "erfcx": [1, 1, 0.427583576155807, 5.008980080762283, 0.25539567631050574, 1035.8148429726228, 0, INF, NAN, 1,
              INF],
    "bessel_i0e": [1, 1, 0.46575960759364043, 0.46575960759364043, 0.30850832255367103, 0.2700464416122027, 0, 0, NAN,
                   1, 3.9894228040143267e-151],
    "bessel_i1e": [0, -0.0, 0.2079104153497085, -0.2079104153497085, 0.21526928924893765, -0.2065846495312666, 0, -0.0,
                   NAN, 0, -3.9894228040143267e-151],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_zeros_infinities_and_nan(name: str):
    got = OPS[name].impl(np.dtype(np.float64), np.array(AT))
    np.testing.assert_allclose(got, SPECIAL[name], rtol=1e-14 if name == "lgamma" else 3e-15)  # a root is near -2.5
    zero = np.array(SPECIAL[name]) == 0
    if name != "bessel_i1e":
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(np.array(SPECIAL[name])[zero]))


def test_operations_of_half_precision_are_rounded_once():
    x = np.linspace(0.1, 5, 40).astype(np.float16)
    for name in ("lgamma", "erfc", "bessel_i0e"):
        want = OPS[name].impl(np.dtype(np.float32), x.astype(np.float32)).astype(np.float16)
        np.testing.assert_array_equal(OPS[name].impl(np.dtype(np.float16), x), want)


def test_every_special_operation_is_a_row_of_the_table():
    assert set(EXACT) <= {name for name, row in OPS.items() if row.math} & set(EXPANSIONS)


# -- loops
# ---------------------------------------------------------------------------------------------------------------------
a, b = 10 ** rng.uniform(-2, 3, 40), 10 ** rng.uniform(-1, 2, 40)
near = a * rng.uniform(0.6, 1.5, 40)
part = rng.uniform(0, 1, 40)
whole = rng.integers(0, 8, 40).astype(np.float64)
x = rng.uniform(0.05, 30, 40)
P = lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)  # noqa: E731
LOOPS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any], float]] = {
    "igamma": (incomplete.igamma, P, [a, near], 1e-12),
    "igammac": (incomplete.igammac, lambda a, x: mpmath.gammainc(a, x, regularized=True), [a, near], 1e-12),
    "betainc": (
        incomplete.regularized_incomplete_beta, lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True),
        [a / 10, b, part], 1e-11,
    ),
    "zeta": (zeta.zeta, mpmath.zeta, [1 + 10 ** rng.uniform(-2, 1.3, 40), b], 1e-12),
    "polygamma": (zeta.polygamma, lambda n, x: mpmath.polygamma(int(n), x), [whole, b], 1e-13),
    "expn": (integrals.expn, mpmath.expint, [whole, x], 1e-13),
    "expi": (integrals.expi, mpmath.ei, [np.concatenate([x, x + 20, -x])], 1e-12),
    "sine_integral": (integrals.sine_integral, mpmath.si, [np.concatenate([x, -x])], 1e-13),
    "cosine_integral": (integrals.cosine_integral, mpmath.ci, [x], 1e-11),
    "fresnel_s": (integrals.fresnel_s, mpmath.fresnels, [np.concatenate([x / 8, -x])], 1e-13),
    "fresnel_c": (integrals.fresnel_c, mpmath.fresnelc, [np.concatenate([x / 8, -x])], 1e-13),
    "spence": (integrals.spence, lambda x: mpmath.re(mpmath.polylog(2, 1 - x)), [np.concatenate([x / 15, x])], 1e-14),
    "dawsn": (
        integrals.dawsn, lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
        [np.concatenate([x / 20, -x])], 1e-14,
    ),
    "owens_t": (
        integrals.owens_t,
        lambda h, a: mpmath.quad(lambda t: mpmath.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a / 2, a])
        / (2 * mpmath.pi),
        [rng.uniform(-4, 4, 12), rng.uniform(-3, 3, 12)], 1e-12,
    ),
    "hyp1f1": (hypergeometric.hyp1f1, mpmath.hyp1f1, [4 * part[20:], 1 + part[:20], rng.uniform(-9, 9, 20)], 1e-11),
    "hyp2f1": (
        hypergeometric.hyp2f1, mpmath.hyp2f1,
        [part[:20] * 3, part[20:] * 2, 0.5 + part[:20],
         np.concatenate([rng.uniform(-9, 0.9, 15), rng.uniform(0.9, 1, 5)])],
        1e-11,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_loops_are_as_near_to_mpmath_as_the_manual_says(name: str):
    function, exact, args, bound = LOOPS[name]
    with mpmath.workdps(30):
        want = [float(exact(*map(mpmath.mpf, map(float, row)))) for row in zip(*args, strict=True)]
    inside = np.abs(want) > 1e-290
    np.testing.assert_allclose(evaluate(function, np.float64, *args)[inside], np.array(want)[inside], rtol=bound)
    narrow = [v.astype(np.float32) for v in args]
    wide = evaluate(function, np.float64, *[v.astype(np.float64) for v in narrow])
    inside = (np.abs(wide) > 1e-30) & (np.abs(wide) < 1e30)
    got = evaluate(function, np.float32, *narrow)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got[inside], wide[inside], rtol=2e-4)


@pytest.mark.parametrize("name", ["igamma_grad_a", "random_gamma_grad"])
def test_derivatives_of_the_incomplete_gamma_function_in_a(name: str):
    first, second = b[:12] + 0.1, (b * near / a)[:12]
    with mpmath.workdps(40):
        want = []
        for row in zip(first, second, strict=True):
            s, t = map(mpmath.mpf, map(float, row))
            slope = mpmath.diff(lambda v, t=t: P(v, t), s)
            density = mpmath.exp((s - 1) * mpmath.log(t) - t - mpmath.loggamma(s))
            want.append(float(slope if name == "igamma_grad_a" else -slope / density))
    got = evaluate(getattr(incomplete, name), np.float64, first, second)
    np.testing.assert_allclose(got, want, rtol=1e-11)


EDGES: list[tuple[Callable[..., Any], list[list[float]], list[float]]] = [
    (incomplete.igamma, [[0, 0, 1, 1, 1, -1, INF, 2, NAN], [0, 1, 0, INF, -1, 1, 3, NAN, 1]],
     [NAN, 1, 0, 1, NAN, NAN, 0, NAN, NAN]),
    (incomplete.igammac, [[0, 0, 1, 1, 1, -1, INF, 2, NAN], [0, 1, 0, INF, -1, 1, 3, NAN, 1]],
     [NAN, 0, 1, 0, NAN, NAN, 1, NAN, NAN]),
    (incomplete.regularized_incomplete_beta,
     [[0, 1, 1, 1, 1, 0, -1, 1], [1, 0, 1, 1, 1, 0, 1, NAN], [0.5, 0.5, 0, 1, 1.5, 0.5, 0.5, 0.5]],
     [1, 0, 0, 1, NAN, NAN, NAN, NAN]),
    (zeta.zeta, [[1, 2, 2, 2, 0.5, 2, 2.5, NAN, INF], [1, 0, -1, -1.5, 2, INF, -1.5, 1, 2]],
     [INF, INF, INF, 9.37924664498912, NAN, 0, NAN, NAN, 0]),
    (zeta.polygamma, [[0, 1, 2, 1.5, -1, 1], [-1.5, -1.5, 2, 1, 1, NAN]],
     [0.7031566406452432, 9.37924664498912, -0.4041138063191886, NAN, NAN, NAN]),
    (integrals.expn, [[0, 1, 2, 3, 1, 1, -1, 1.5, 2], [2, 0, 0, 0, INF, -1, 1, 1, NAN]],
     [math.exp(-2) / 2, INF, 1, 0.5, 0, NAN, NAN, NAN, NAN]),
    (integrals.expi, [[0, INF, -INF, NAN, 800]], [-INF, INF, 0, NAN, INF]),
    (integrals.spence, [[0, 1, -1, NAN]], [math.pi**2 / 6, 0, NAN, NAN]),
    (integrals.sine_integral, [[0, INF, -INF, NAN]], [0, math.pi / 2, -math.pi / 2, NAN]),
    (integrals.cosine_integral, [[0, INF, -INF, NAN]], [-INF, 0, 0, NAN]),
    (integrals.fresnel_s, [[0, INF, -INF, NAN, 1e300]], [0, 0.5, -0.5, NAN, 0.5]),
    (integrals.fresnel_c, [[0, INF, -INF, NAN, 1e300]], [0, 0.5, -0.5, NAN, 0.5]),
    (integrals.dawsn, [[0, INF, -INF, NAN, 1e6]], [0, 0, 0, NAN, 5e-7]),
    (integrals.owens_t, [[0, 1, INF, NAN, 0, 1], [1, 0, 1, 1, INF, NAN]], [0.125, 0, 0, NAN, 0.25, NAN]),
    (hypergeometric.hyp1f1, [[1, -2, 1, 1], [1, 2, -1, 1], [0, 1, 1, NAN]], [1, 1 / 6, NAN, NAN]),
    (hypergeometric.hyp2f1, [[1, 1, 1, -2, 1], [1, 1, 1, 1, 1], [3, 2, 1, 2, -1], [1, 1, 2, 0.5, 0.5]],
     [2, INF, NAN, 0.5833333333333334, NAN]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "args", "want"), EDGES, ids=[e[0].__name__ for e in EDGES])
def test_loops_end_and_are_right_at_the_ends_of_their_domains(
    function: Any, args: list[list[float]], want: list[float]
):
    np.testing.assert_allclose(evaluate(function, np.float64, *args), want, rtol=1e-12)
