"""Every expansion against mpmath (f64) and float64 (f32), evaluated with the NumPy meaning of each operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tracejit.ir.math import EXPANSIONS, expand
from tracejit.ir.scalar import OPS, numpy_dtype

mpmath.mp.prec = 120
TWO_ARGUMENTS = {"pow", "atan2", "fmod"}
SPECIAL = {
    "bessel_i0e", "bessel_i1e", "digamma", "erf_inv", "erfc", "erfc_inv", "erfcx", "lgamma", "tgamma",
}  # fmt: skip  # see test_special_functions.py
UNARY = sorted(set(EXPANSIONS) - TWO_ARGUMENTS - SPECIAL)
BOUND = 2.0  # units in the last place


class Evaluated:
    """An operand: an array and its kernel dtype."""

    def __init__(self, array: np.ndarray, dtype: str) -> None:
        self.array = array
        self.dtype = dtype


class NumpyBuilder:
    """A ScalarBuilder that evaluates at once with `OPS[...].impl`."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.branches = 0

    def op(self, name: str, *args: Evaluated, dtype: str | None = None) -> Evaluated:
        row = OPS[name]
        assert not row.math, f"{name} is itself to be expanded"
        assert len(args) == row.arity, f"{name} takes {row.arity} operands"
        assert (dtype is not None) == (row.result == "out"), "dtype goes with convert and bitcast"
        operands = args[1:] if name == "select" else args
        assert len({a.dtype for a in operands}) == 1, f"{name} of {[a.dtype for a in operands]}"
        assert name != "select" or args[0].dtype == "bool"
        self.written.append(name)
        result = dtype or ("bool" if row.result == "bool" else args[-1].dtype)
        array = np.asarray(row.impl(numpy_dtype(result), *(a.array for a in args)))
        assert array.dtype == numpy_dtype(result), f"{name}: {array.dtype} for {result}"
        return Evaluated(array, result)

    def const(self, value: float | int, dtype: str) -> Evaluated:
        return Evaluated(np.asarray(value, numpy_dtype(dtype)), dtype)

    def rare(self, condition: Evaluated, then: Callable[[], Evaluated], otherwise: Evaluated) -> Evaluated:
        self.branches += 1
        if not np.any(condition.array):
            return otherwise
        return self.op("select", condition, then(), otherwise)


def evaluate(name: str, dtype: str, *args: Any) -> np.ndarray:
    arrays = np.broadcast_arrays(*(np.asarray(a, numpy_dtype(dtype)) for a in args))
    return np.broadcast_to(
        expand(name, NumpyBuilder(), *(Evaluated(np.array(a), dtype) for a in arrays)).array, arrays[0].shape
    )


def reference(name: str) -> Callable[..., Any]:
    """The function over mpmath numbers."""
    spelled = {
        "exp2": lambda x: mpmath.power(2, x), "log2": lambda x: mpmath.log(x, 2),
        "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), "pow": mpmath.power,
        "fmod": lambda x, y: mpmath.sign(x) * (abs(x) % abs(y)),
    }  # fmt: skip
    return spelled.get(name) or getattr(mpmath, name)


def units(got: float, want: mpmath.mpf, dtype: str) -> float:
    """|got - want| in units in the last place of `want` rounded."""
    info = np.finfo(numpy_dtype(dtype))
    largest = mpmath.mpf(float(info.max))
    unit_of = max(abs(want), mpmath.mpf(float(info.tiny)))
    unit = mpmath.ldexp(1, mpmath.frexp(unit_of)[1] - 1 - info.nmant)
    if math.isinf(got):
        return 0.0 if abs(want) >= largest + unit / 2 and (got > 0) == (want > 0) else math.inf
    return float(abs(mpmath.mpf(got) - want) / unit) if not math.isnan(got) else math.inf


DOMAIN: dict[str, tuple[float, float]] = {
    "log": (0, math.inf), "log2": (0, math.inf), "log10": (0, math.inf), "log1p": (-1, math.inf), "asin": (-1, 1),
    "acos": (-1, 1), "acosh": (1, math.inf), "atanh": (-1, 1),
}  # fmt: skip
OVERFLOW = {"exp", "exp2", "expm1", "sinh", "cosh"}


def sample(name: str, dtype: str, count: int, seed: int = 0) -> np.ndarray:
    """Points over every binade, near 0, near 1 and in ordinary ranges, inside the domain."""
    rng = np.random.default_rng([seed, *name.encode()])
    kind = numpy_dtype(dtype)
    top = 700.0 if dtype == "f64" else 87.0
    random_bits = rng.integers(0, 2 ** (8 * kind.itemsize), count, dtype=f"u{kind.itemsize}").view(kind)
    near_one = 1 + rng.uniform(-1, 1, count) * 10.0 ** rng.uniform(-15, 0, count)
    parts = [
        random_bits,
        near_one,
        rng.uniform(-3, 3, count),
        rng.uniform(-40, 40, count),
        rng.uniform(-1.04, 1.04, count) * top,
    ]
    parts.append(np.exp(rng.uniform(-30, 15, count)) * rng.choice([-1.0, 1.0], count))
    with np.errstate(over="ignore"):
        x = np.concatenate([p.astype(kind) for p in parts])
    low, high = DOMAIN.get(name, (-math.inf, math.inf))
    if name in OVERFLOW:
        low, high = -2.5 * top, 2.5 * top
    return x[np.isfinite(x) & (x > low) & (x < high)]


HARD: dict[str, list[float]] = {
    "sin": [math.pi, 2 * math.pi, 355.0, 1e22, 5.319372648326541e255, 6381956970095103.0 * 2.0**797, 2.0**28, 131072.0],
    "cos": [math.pi / 2, 11.0, 1e22, 6381956970095103.0 * 2.0**797, 5.319372648326541e255, 2.0**28 - 1],
    "tan": [math.pi / 2, math.pi / 4, 84716.0, 1e22, 6381956970095103.0 * 2.0**797, 1.0063324385912227],
    "exp": [709.782712893384, -745.1332191019411, -708.3964185322641, 88.72283, -103.97207, -87.33655, 1e-300],
    "exp2": [1023.9999999999999, -1074.9999, -1022.0, -1022.5, 127.99999, -149.9, -126.5],
    "log": [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.9999999999999999, 1.0000000000000002, 1e-45],
    "log1p": [5e-324, -0.9999999999999999, 0.41421356237309503, -0.2928932188134524, 1e300, 1.7e308, 2.0**100, 3e38,
    1e31], "expm1": [5e-324, 1e-20, 0.34657359027997264, -0.34657359027997264, 709.4, 709.9, 710.1, 711.0, -37.5, 88.6,
    88.9, 89.1],
    "sinh": [5e-324, 710.4, 710.55, -710.7, 88.9, 89.45, 89.7, 0.4376, -0.3552],
    "cosh": [710.4, 710.55, 710.7, 88.9, 89.45, 89.7, 1e-10],
    "asinh": [5e-324, 1e10, 1e20, 1e160, 1.7e308, 2.0**60, 3e38],
    "acosh": [1.0000000000000002, 1e10, 1e20, 1e160, 1.7e308, 2.0**60, 3e38],
    "atan": [1.0, 1.0000032651224706, 0.9999999999999999, 1e300, 5e-324],
    "cbrt": [5e-324, 27.0, -1e-310, 1.7976931348623157e308],
    "erf": [5e-324, 0.95, 0.9999999999999999, 1.0, 3.9, 5.9, 6.0, 27.0],
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_results_are_within_two_units_of_mpmath(name: str, dtype: str) -> None:
    x = sample(name, dtype, 60)
    with np.errstate(over="ignore"):
        hard = np.array(HARD.get(name, []), numpy_dtype(dtype))
    low, high = DOMAIN.get(name, (-math.inf, math.inf))
    x = np.concatenate([x, hard[np.isfinite(hard) & (hard != 0) & (hard > low) & (hard < high)]])
    got, exact = evaluate(name, dtype, x), reference(name)
    with mpmath.workprec(1200 if name in ("sin", "cos", "tan") else 160):
        errors = [units(float(g), exact(mpmath.mpf(float(v))), dtype) for g, v in zip(got, x, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= BOUND, f"{name}({x[worst]!r}) = {got[worst]!r}, {errors[worst]:.3f} units off"


@pytest.mark.parametrize("name", UNARY)
def test_float32_agrees_with_float64_over_all_binades(name: str) -> None:
    bits = np.arange(0, 2**32, 150_001, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    x = x[np.isfinite(x)]
    got = evaluate(name, "f32", x)
    with np.errstate(all="ignore"):
        want = OPS[name].impl(np.dtype(np.float64), x.astype(np.float64))
        rounded = want.astype(np.float32)
        unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(np.float32).tiny)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - want) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error = np.where(same, 0.0, error)
    worst = int(np.argmax(error))
    assert error[worst] <= BOUND, f"{name}({x[worst]!r}) = {got[worst]!r} for {want[worst]!r}"


TINY_AND_HUGE = [1e-310, -1e-310, 5e-324, -5e-324, 1e308, -1e308, 3e-39, 1e-45, 3e38, -3e38]
VALUES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, math.inf, -math.inf, math.nan, *TINY_AND_HUGE]


def assert_same_value(name: str, dtype: str, got: np.ndarray, want: np.ndarray, where: Callable[[int], str]) -> None:
    """Equal infinities, NaNs, signs of zero; finite values within two units."""
    for k, (g, w) in enumerate(zip(got.tolist(), want.tolist(), strict=True)):
        if math.isnan(w) or math.isnan(g):
            assert math.isnan(w) == math.isnan(g), f"{name}({where(k)}) = {g}, not {w}"
            continue
        assert math.copysign(1, g) == math.copysign(1, w), f"{name}({where(k)}) = {g}, not {w}"
        if g != w:
            assert math.isfinite(w), f"{name}({where(k)}) = {g}, not {w}"
            assert abs(g - w) <= 3 * float(np.spacing(numpy_dtype(dtype).type(abs(w)))), (
                f"{name}({where(k)}) = {g}, not {w}"
            )


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_special_values_are_those_of_numpy(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = np.array(VALUES).astype(numpy_dtype(dtype))
    want = OPS[name].impl(x.dtype, x)
    assert_same_value(name, dtype, evaluate(name, dtype, x), want, lambda k: str(x[k]))


PAIRS = [*VALUES, 3.0, -3.0, 2.5, -2.5, 2.0**53, 2.0**53 + 2, -(2.0**60), 1e16, 1 / 3, 4e15 + 0.5]


@pytest.mark.parametrize("name", sorted(TWO_ARGUMENTS))
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_special_pairs_are_those_of_numpy(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        values = np.array(PAIRS).astype(numpy_dtype(dtype))
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    want = OPS[name].impl(x.dtype, x, y)
    assert_same_value(name, dtype, evaluate(name, dtype, x, y), want, lambda k: f"{x[k]}, {y[k]}")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_pow_and_atan2_are_within_two_units_of_mpmath(dtype: str) -> None:
    rng = np.random.default_rng(7)
    kind = numpy_dtype(dtype)
    top = 700.0 if dtype == "f64" else 86.0
    near_one = 1 + rng.uniform(-1, 1, 150) * 10.0 ** rng.uniform(-6, -1, 150)
    large = rng.uniform(-1, 1, 150) * 10.0 ** rng.uniform(0, 6, 150)
    x = np.concatenate([np.exp(rng.uniform(-5, 5, 150)), np.exp(rng.uniform(-top, top, 150)), near_one])
    y = np.concatenate([rng.uniform(-30, 30, 150), rng.uniform(-1.05, 1.05, 150), large])
    x, y = x.astype(kind), y.astype(kind)
    for name in ("pow", "atan2"):
        got, exact = evaluate(name, dtype, x, y), reference(name)
        for g, a, b in zip(got.tolist(), x.tolist(), y.tolist(), strict=True):
            error = units(g, exact(mpmath.mpf(a), mpmath.mpf(b)), dtype)
            assert error <= BOUND, f"{name}({a!r}, {b!r}) = {g!r}, {error:.3f} units off"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_fmod_is_exact_for_any_quotient(dtype: str) -> None:
    rng = np.random.default_rng(11)
    kind = numpy_dtype(dtype)
    bits = rng.integers(0, 2 ** (8 * kind.itemsize), (2, 3000), dtype=f"u{kind.itemsize}").view(kind)
    near = np.exp(rng.uniform(-20, 20, (2, 1000))).astype(kind)
    whole = rng.integers(1, 100, (2, 1000)).astype(kind)
    x, y = np.concatenate([bits, near, whole], axis=1)
    got = evaluate("fmod", dtype, x, y)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    different = np.nonzero(~((got == want) | (np.isnan(got) & np.isnan(want))))[0]
    assert different.size == 0, [(x[k], y[k], got[k], want[k]) for k in different[:3]]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_exact_cases_are_exact(dtype: str) -> None:
    n = np.arange(-140, 128)
    powers = np.ldexp(np.ones(n.size), n).astype(numpy_dtype(dtype))
    assert np.array_equal(evaluate("log2", dtype, powers), n)
    assert np.array_equal(evaluate("exp2", dtype, n), powers)
    whole = np.arange(1, 200)
    assert np.array_equal(evaluate("cbrt", dtype, whole**3), whole)
    assert np.array_equal(evaluate("pow", dtype, whole, 2.0), whole**2)
    assert np.array_equal(evaluate("pow", dtype, -whole, 3.0), -(whole**3))
    assert np.array_equal(evaluate("log10", dtype, 10.0 ** np.arange(11)), np.arange(11))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_inverse_functions_give_the_rounded_multiples_of_pi(dtype: str) -> None:
    """At 0, 1, infinity and on the axes, where programs compare with `np.float32(np.pi)`; annex F of C99 names them."""
    of = numpy_dtype(dtype).type
    assert np.array_equal(evaluate("asin", dtype, np.array([-1.0, 0, 1])), of([-math.pi / 2, 0, math.pi / 2]))
    assert np.array_equal(evaluate("acos", dtype, np.array([-1.0, 0, 1])), of([math.pi, math.pi / 2, 0]))
    assert np.array_equal(evaluate("atan", dtype, np.array([-np.inf, 0, np.inf])), of([-math.pi / 2, 0, math.pi / 2]))
    for far in (1e-30, 1.0, 1e30, math.inf):
        y, x = np.array([0.0, -0.0, far, -far, 0.0]), np.array([-far, -far, 0.0, -0.0, far])
        want = of([math.pi, -math.pi, math.pi / 2, -math.pi / 2, 0])
        assert np.array_equal(evaluate("atan2", dtype, y, x), want)


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sine_and_cosine_never_exceed_one(name: str, dtype: str) -> None:
    turns = np.arange(-4000, 4000) * (math.pi / 2)
    assert np.max(np.abs(evaluate(name, dtype, turns))) <= 1.0


@pytest.mark.parametrize("name", sorted(set(EXPANSIONS) - SPECIAL))
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_ordinary_arguments_take_few_operations_and_branches(name: str, dtype: str) -> None:
    b = NumpyBuilder()
    x = Evaluated(np.array([0.25, 0.5, 0.75] if name != "acosh" else [1.5, 2.0, 9.0], numpy_dtype(dtype)), dtype)
    expand(name, b, *[x] * (2 if name in TWO_ARGUMENTS else 1))
    assert len(b.written) < 125, f"{name}: {len(b.written)} operations"
    assert b.branches <= 2


def test_unknown_names_raise_key_error() -> None:
    with pytest.raises(KeyError):
        expand("add", NumpyBuilder(), Evaluated(np.zeros(1), "f64"))


def test_every_math_row_of_the_table_has_an_expansion() -> None:
    assert {name for name, row in OPS.items() if row.math} == set(EXPANSIONS)
