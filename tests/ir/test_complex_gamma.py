"""log(gamma(z)), digamma and its derivatives of complex numbers against mpmath."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tracejit.ir.math.complex_gamma import log_gamma, polygamma
from tracejit.ir.math.evaluate import evaluate_complex

rng = np.random.default_rng(21)
COUNT = 24


def around(center: Any, radius: float) -> Any:
    return center + radius * (rng.normal(size=COUNT) + 1j * rng.normal(size=COUNT))


PLACES = {
    "near": rng.uniform(-6, 8, COUNT) + 1j * rng.uniform(-8, 8, COUNT),
    "around one": around(1.0, 0.1),
    "around two": around(2.0, 0.1),
    "around zero": around(0.0, 1e-8),
    "around poles": around(-rng.integers(0, 9, COUNT), 1e-5),
    "left of zero": -rng.uniform(0, 9, COUNT) + 1j * rng.uniform(5, 9, COUNT),
    "along the imaginary axis": 1j * rng.uniform(-20, 20, COUNT),
    "positive": rng.uniform(0.1, 20, COUNT) + 0j,
}
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "log_gamma": (log_gamma, mpmath.loggamma),
    **{f"polygamma {n}": (functools.partial(polygamma, n), functools.partial(mpmath.psi, n)) for n in range(4)},
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("place", PLACES)
def test_it_is_near_the_exact_value(name: str, place: str):
    function, exact = FUNCTIONS[name]
    for dtype, bound in (("c16", 1e-13), ("c8", 5e-5)):
        z = PLACES[place].astype(dtype)
        got = evaluate_complex(function, z)
        assert got.dtype == z.dtype
        with mpmath.workdps(25):
            for at, have in zip(z, got, strict=True):
                want = exact(mpmath.mpc(complex(at)))
                assert abs(mpmath.mpc(complex(have)) - want) <= bound * abs(want), at


def test_far_from_zero():
    z = np.array([1e30, 1e300 + 1e300j, 1e6j, -1e5 + 0.25j, -1e6 + 1e3j])
    for name in ("log_gamma", "polygamma 0"):
        function, exact = FUNCTIONS[name]
        got = evaluate_complex(function, z)
        with mpmath.workdps(40):
            want = [complex(exact(mpmath.mpc(complex(at)))) for at in z]
        np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_conjugates_poles_and_what_is_no_number(name: str):
    function, _ = FUNCTIONS[name]
    z = PLACES["near"]
    np.testing.assert_array_equal(evaluate_complex(function, z.conj()), evaluate_complex(function, z).conj())
    nowhere = np.array([0j, complex(-0.0, -0.0), -1 + 0j, -7 - 0j, complex(np.nan, 1), complex(1, np.nan)])
    got = evaluate_complex(function, nowhere)
    assert np.isnan(got.real).all()
    assert np.isnan(got.imag).all()
    real = evaluate_complex(function, np.array([0.5 + 0j, 1 + 0j, 2 + 0j, 30 + 0j]))
    np.testing.assert_array_equal(real.imag, 0)
