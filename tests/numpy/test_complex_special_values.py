"""Complex numbers with parts that are infinite, NaN, huge or zeros: NumPy's values, and the signs of its zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INF, NAN = float("inf"), float("nan")


def grid(dtype: Any, *more: float) -> Any:
    """All numbers whose parts are among these."""
    parts = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, *more]
    return np.array([complex(a, b) for a in parts for b in parts], dtype)


def huge(dtype: Any) -> float:
    return 1e300 if dtype == np.complex128 else 1e35


def check(got: Any, want: Any, *operands: Any) -> None:
    """Equal up to rounding, zeros with their signs; the sign of a NaN means nothing."""
    assert got.dtype == want.dtype
    if want.dtype.kind != "c":
        np.testing.assert_array_equal(got, want) if want.dtype.kind == "b" else np.testing.assert_allclose(got, want)
        return
    close = 1e-13 if want.dtype == np.complex128 else 1e-5
    for part in ("real", "imag"):
        a, b = getattr(got, part), getattr(want, part)
        size = np.where(np.isfinite(want) & (b != 0), abs(want), 0)
        near = np.isclose(a, b, close, close * size, equal_nan=True)
        same = near & ((b != 0) | (np.signbit(a) == np.signbit(b)))
        wrong = [(*(str(x[k]) for x in operands), str(got[k]), str(want[k])) for k in np.flatnonzero(~same)]
        assert not wrong, f"(operands, ours, NumPy's): {wrong[:8]} and {max(len(wrong) - 8, 0)} more"


ONE: dict[str, Callable[[Any], Any]] = {
    **{
        name: getattr(np, name)
        for name in (
            "abs", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "conj", "cos", "cosh", "exp",
            "exp2", "expm1", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "negative", "positive",
            "reciprocal", "rint", "sign", "sin", "sinc", "sinh", "sqrt", "tan", "tanh",
        )
    },
    "x**-1": lambda x: x**-1, "x**-2": lambda x: x**-2, "x**0": lambda x: x**0, "x**0.5": lambda x: x**0.5,
    "x**1": lambda x: x**1, "x**1.5": lambda x: x**1.5, "x**3": lambda x: x**3, "x**7": lambda x: x**7,
    "x**-99": lambda x: x**-99, "x**100": lambda x: x**100, "x**2j": lambda x: x**2j,
    "2**x": lambda x: 2**x, "x**x.real": lambda x: x**x.real, "x.real**x": lambda x: x.real**x,
    "1/x": lambda x: 1 / x, "x/2": lambda x: x / 2, "x/2j": lambda x: x / 2j, "x*1j": lambda x: x * 1j,
    "x/x.real": lambda x: x / x.real, "x.imag/x": lambda x: x.imag / x, "1-x": lambda x: 1 - x,
    "float_power": lambda x: np.float_power(x, 3),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one(name: str, backend: str, record_backend: Any):
    record_backend(backend)
    f = ONE[name]
    for dtype in (np.complex128, np.complex64):
        # powers of huge numbers, and angles of huge numbers in the exponent, are rounded otherwise
        x = grid(dtype) if "**" in name else grid(dtype, huge(dtype))
        check(tj.jit(lambda x: f(x), backend=backend)(x), f(x), x)


@pytest.mark.parametrize("name", ["square", "multiply", "divide", "power", "maximum", "minimum", "fmax", "fmin", "add"])
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_functions_of_two(name: str, dtype: Any):
    f: Any = (lambda x, _: np.square(x)) if name == "square" else getattr(np, name)
    # products that overflow depend on the processor in NumPy
    values = grid(dtype) if name in ("multiply", "square", "power") else grid(dtype, huge(dtype))
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    check(tj.jit(lambda x, y: f(x, y))(x, y), f(x, y), x, y)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_zero_to_a_complex_power(dtype: Any):
    y = np.array([2 + 3j, 1j, -1 + 1j, 0.5 - 1j, 0, 3, -3, 1e-3 + 1e3j])
    for x in (np.zeros(8, dtype), -np.zeros(8, dtype), np.zeros(8, np.int64), np.zeros(8, bool)):
        check(tj.jit(lambda x, y: x**y)(x, y), x**y, x, y)


def test_whole_powers_are_products():
    x = np.array([1j, -1j, 1 + 1j, 3 - 4j, -2, 1e200, complex(0, 1e-200)])
    for n in (-7, -1, 2, 3, 4, 5, 11, 12, 99):
        check(tj.jit(lambda x, n: x**n)(x, np.full(7, n)), x ** np.full(7, n), x)
        check(tj.jit(lambda x, n=n: np.power(x, n))(x), np.power(x, n), x)
    mixed = np.array([2, 0.5, -3, 1 + 1j, 4, 100, 101.0])
    check(tj.jit(lambda x, y: x**y)(x, mixed), x**mixed, x)


FIRST = [
    [complex(0, INF)], [complex(0, -0.0)], [complex(-0.0, -0.0)], [complex(-INF, 0), 1, 2],
    [-0.0, 1j, complex(INF, 0)], [complex(NAN, 1), 2], [1, complex(0, INF)], [complex(0, -0.0)] * 5,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.cumprod(x), lambda x: x[:, None].cumprod(axis=0), lambda x: np.nancumprod(x),
        lambda x: np.multiply.accumulate(x), lambda x: np.cumprod(x[::-1]), lambda x: np.cumsum(x),
        lambda x: np.add.accumulate(x), lambda x: np.stack([x, 2 * x, x]).cumprod(axis=0).ravel(),
        lambda x: np.atleast_1d(np.prod(x)), lambda x: np.atleast_1d(np.multiply.reduce(x)),
        lambda x: np.subtract.accumulate(x), lambda x: np.divide.accumulate(x),
    ],
)  # fmt: skip
def test_running_products_begin_with_the_first_number(f: Callable[[Any], Any], backend: str, record_backend: Any):
    record_backend(backend)
    for values in FIRST:
        for dtype in (np.complex128, np.complex64):
            x = np.array(values, dtype)
            check(tj.jit(lambda x: f(x), backend=backend)(x), f(x), f(x))


def test_running_products_from_the_end_begin_with_the_last_number():
    x = np.array([1, 1j, complex(0, INF)])
    check(np.asarray(tj.lax.cumprod(x, reverse=True)), np.cumprod(x[::-1])[::-1], x)


def test_derivatives_of_running_products_stay():
    x, t = np.array([1 + 1j, 2j, 0.5]), np.array([1, 1j, 2 - 1j])
    _, got = tj.jvp(lambda x: np.cumprod(x), (x,), (t,))
    np.testing.assert_allclose(got, [1, 2j + 1j * (1 + 1j), 0.5 * (2j + 1j * (1 + 1j)) + (2 - 1j) * (1 + 1j) * 2j])


@pytest.mark.parametrize("f", [np.nanmax, np.nanmin, np.fmax.reduce])
def test_of_nan_alone_the_first_stays(f: Any):
    x = np.array([[complex(NAN, 1), complex(2, NAN)], [complex(1, NAN), complex(NAN, NAN)]])
    for axis in (0, 1):
        check(tj.jit(lambda x, axis=axis: f(x, axis=axis))(x), f(x, axis=axis), x[0])
    check(tj.jit(lambda x: f(x, axis=0))(x[:1, :]), f(x[:1, :], axis=0), x[0])
    check(tj.jit(lambda x: f(x))(x[0])[None], f(x[0])[None], x[0])


def test_derivatives_of_reciprocals_and_powers():
    z = np.array([1 + 2j, -3j, 0.5])
    np.testing.assert_allclose(tj.jvp(lambda z: np.reciprocal(z), (z,), (np.ones(3) + 0j,))[1], -1 / z**2)
    np.testing.assert_allclose(tj.jvp(lambda z: z**3, (z,), (np.ones(3) + 0j,))[1], 3 * z**2)
    np.testing.assert_allclose(tj.jvp(lambda z: z**1, (z,), (np.ones(3) + 0j,))[1], np.ones(3))
    zero = np.zeros(2, complex)
    np.testing.assert_allclose(tj.jvp(lambda z: z**1, (zero,), (np.ones(2) + 0j,))[1], np.ones(2))
    np.testing.assert_allclose(tj.jvp(lambda z: z**3, (zero,), (np.ones(2) + 0j,))[1], np.zeros(2))
