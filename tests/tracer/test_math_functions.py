"""Functions of `math` on numbers that the program computes, against Python's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "erf": lambda x, y: (math.erf(x), math.erfc(x)),
    "the normal distribution": lambda x, y: 0.5 * (1 + math.erf((x - y) / math.sqrt(2))),
    "gamma": lambda x, y: (math.gamma(abs(x) + 0.1), math.lgamma(abs(x) + 0.1)),
    "isclose": lambda x, y: (
        math.isclose(x, y), math.isclose(x, y, rel_tol=0.3), math.isclose(x, y, abs_tol=1.0),
        math.isclose(x, x + 1e-12), math.isclose(x, math.inf), math.isclose(math.inf, math.copysign(math.inf, x)),
        math.isclose(x, math.nan),
    ),
    "dist": lambda x, y: (math.dist((x, y), (0.0, 1)), math.dist([x], [y])),
    "remainder": lambda x, y: (
        math.remainder(x, 0.5), math.remainder(x * 7, y + 9), math.remainder(x, math.inf),
        math.remainder(3.5, x * 0 + 1),
    ),
    "parts": lambda x, y: (math.modf(x), math.frexp(x), math.ldexp(x, 3), math.nextafter(x, y), math.ulp(x)),
    "in a branch": lambda x, y: 1 if math.isclose(x, y, abs_tol=2) else 2,
}  # fmt: skip
INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "gcd": lambda m, n: (math.gcd(m, n), math.gcd(m, n, 12), math.gcd(m), math.gcd(m - m, n - n), math.gcd(-m, n)),
    "lcm": lambda m, n: (math.lcm(m, n), math.lcm(m, 0), math.lcm(-m), math.lcm(m, n, 6)),
    "isqrt": lambda m, n: (math.isqrt(abs(m)), math.isqrt(m * m), math.isqrt(m * m + abs(n)), math.isqrt(n * 0 + 7)),
}


def flat(x: Any) -> list[Any]:
    return [y for part in x for y in flat(part)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("name", FLOATS)
def test_of_floats(name: str) -> None:
    function = FLOATS[name]
    f = tj.jit(lambda x: function(x[0], x[1]))
    g = tj.jit(function)  # of Python's numbers
    for x, y in ((0.7, 0.71), (-1.25, 2.0), (2.5, 3.0), (1e-3, -4.0), (0.0, 0.0), (-0.75, 0.25)):
        want = function(x, y)
        np.testing.assert_allclose(flat(f(np.array([x, y]))), flat(want), rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(flat(g(x, y)), flat(want), rtol=1e-13, atol=1e-300)
    assert type(f(np.array([0.5, 1.5]))) is type(function(0.5, 1.5))


@pytest.mark.parametrize("name", INTEGERS)
def test_of_integers(name: str) -> None:
    function = INTEGERS[name]
    f = tj.jit(lambda x: function(x[0], x[1]))
    for m, n in ((12, 18), (-35, 14), (0, 5), (7, 0), (2**31 - 1, 4), (1, 1), (3037000499, 1)):
        assert f(np.array([m, n])) == function(m, n)


def test_arrays_of_coordinates() -> None:
    x = np.array([1.0, 2.5, -3.0])
    np.testing.assert_allclose(tj.jit(lambda x: math.dist(x, x[::-1] + 1))(x), math.dist(x, x[::-1] + 1))
    assert tj.jit(lambda x: math.dist(x[:2], [x[2], 0.0]))(x) == pytest.approx(math.dist(x[:2], [x[2], 0.0]))


def test_what_python_refuses() -> None:
    with pytest.raises(TypeError, match="interpreted as an integer"):
        tj.jit(lambda x: math.gcd(x[0], 2))(np.array([1.5]))
    with pytest.raises(ValueError, match="nonnegative"):
        tj.jit(lambda x: math.isqrt(x[0]))(np.array([-4]))
    with pytest.raises(ValueError, match="same number of dimensions"):
        tj.jit(lambda x: math.dist((x[0],), (x[0], 1.0)))(np.ones(1))


def test_derivatives() -> None:
    def price(s: Any) -> Any:
        d = (math.log(s / 95.0) + 0.02) / 0.2
        return s * 0.5 * (1 + math.erf(d / math.sqrt(2.0)))

    step = 1e-5
    assert tj.jit(tj.grad(price))(100.0) == pytest.approx((price(100 + step) - price(100 - step)) / (2 * step))


def test_at_the_ends() -> None:
    one = tj.jit(lambda x: (math.ulp(x), math.pow(x, 0.5), math.isclose(1.0, 2.0 + 0 * x, abs_tol=math.inf)))
    assert one(0.0) == (math.ulp(0.0), 0.0, True)
    assert math.copysign(1, one(-0.0)[1]) == 1
    power = tj.jit(lambda x: (math.ulp(x), math.pow(x, 0.5)))
    assert power(-math.inf) == (math.inf, math.inf)
    assert power(math.inf) == (math.inf, math.inf)
    for bad in (lambda x: math.isclose(x, 1.0, rel_tol=-1.0), lambda x: math.isclose(x, 1.0, abs_tol=-x)):
        with pytest.raises(ValueError, match="non-negative"):
            tj.jit(bad)(2.0)
    with pytest.raises(OverflowError):
        tj.jit(lambda a, b: math.lcm(a, b))(2, 2**63 - 1)
    with pytest.raises(OverflowError):
        tj.jit(lambda x: math.gcd(x[0], 0))(np.array([-(2**63)]))


@pytest.mark.parametrize("a", [6, 12, 0, -9, np.int64(8)])
def test_divisors_and_multiples_whose_first_number_is_known(a: Any):
    def f(a: Any, x: Any) -> Any:
        return (
            math.gcd(len(x), a), math.gcd(2**61, a), math.gcd(0, a), math.gcd(12, a, 30), math.gcd(a, 4),
            math.lcm(8, a), math.lcm(a, 8, len(x)), math.gcd(12, 18), math.lcm(),
        )  # fmt: skip

    for n in (4, 5):
        assert tj.jit(f)(a, np.ones(n)) == f(a, np.ones(n))


@pytest.mark.parametrize("p", [np.float32(0.1), 0.1, np.int8(3)])
def test_distances_are_taken_in_double_precision(p: Any):
    def f(p: Any) -> Any:
        return math.dist((p, p), (0.1, 0.1)), math.dist((p, 1), (1e308, 4)), math.dist([p], (np.float32(0.2),))

    np.testing.assert_allclose(tj.jit(f)(p), f(p), rtol=1e-15)


@pytest.mark.parametrize(
    ("a", "b"), [(-4.0, -0.0), (1.0, math.inf), (math.inf, -1.0), (1.0, math.nan), (-0.0, -0.0), (-0.0, 0.0), (3, 4)]
)
def test_complex_numbers_are_put_together(a: Any, b: Any):
    def f(a: Any, b: Any) -> Any:
        return (
            complex(a, b), complex(imag=b), complex(2, a), complex(a, 0), complex(1j, a), complex(a, 2j), complex(b),
            np.sqrt(complex(a, b)), [complex(v.real, -v.imag) for v in np.array([complex(a, b), 1j])],
        )  # fmt: skip

    assert repr(tj.jit(f)(a, b)) == repr(f(a, b))
