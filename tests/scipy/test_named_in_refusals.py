"""What refuses a function of SciPy's that is not here names it, and the one that is here instead."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ConcretizationError

pytest.importorskip("scipy")
import scipy.integrate
import scipy.interpolate
import scipy.signal

CASES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "scipy.integrate.simpson": (scipy.integrate.simpson, "call it before or after"),
    "scipy.signal.lfilter": (lambda x: scipy.signal.lfilter([1.0], [1.0, 0.5], x), "use tj.scipy.signal.lfilter"),
    "scipy.signal.convolve": (lambda x: scipy.signal.convolve(x, x), "use tj.scipy.signal.convolve"),
    "scipy.interpolate.CubicSpline": (lambda x: scipy.interpolate.CubicSpline(x, x)(0.5), "call it before or after"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_function_is_named(name: str):
    function, instead = CASES[name]

    def f(x: Any) -> Any:
        return function(x)

    with pytest.raises(ConcretizationError) as caught:
        tj.jit(f)(np.arange(8.0))
    assert f"{name} needs the value of a traced array f64[8]" in str(caught.value)
    assert instead in str(caught.value)
    assert "test_named_in_refusals.py" in str(caught.value)


def test_the_users_own_conversions_are_not_named_after_a_package():
    with pytest.raises(ConcretizationError, match=r"np.asarray / np.array needs the value"):
        tj.jit(lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)))(np.arange(8.0))
