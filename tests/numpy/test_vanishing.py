"""Parts that have no elements, or one, where the arguments have a few: extents that are 0 or 1 by arithmetic."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators import families, sizes
from tests.generators.harness import Tally

SIZES = (7, 9, 10, 2, 1, 8, 3, 0, 4, 11)


def part(x: Any) -> Any:
    return x[: len(x) // 3]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "median": lambda x: np.median(part(x)),
    "median of columns": lambda x: np.median(part(x)[:, None] * np.ones(2), axis=0),
    "quantile": lambda x: np.quantile(part(x), 0.5),
    "percentiles": lambda x: np.percentile(part(x)[:, None] * np.ones(2), [5, 50], axis=0),
    "nanmedian": lambda x: np.nanmedian(part(x)),
    "nanquantile": lambda x: np.nanquantile(part(x), 0.3),
    "quantile of those selected": lambda x: np.quantile(x[x > 2], 0.5),
    "median of those selected": lambda x: np.median(x[x > 2]),
    "hamming": lambda x: np.hamming(len(part(x))),
    "hanning": lambda x: np.hanning(len(part(x))),
    "blackman": lambda x: np.blackman(len(part(x))),
    "bartlett": lambda x: np.bartlett(len(part(x))),
    "kaiser": lambda x: np.kaiser(len(part(x)), 2.0),
    "window of those selected": lambda x: np.hamming(len(x[x > 2])),
    "right_shift.reduce": lambda x: np.right_shift.reduce(part(x).astype(int)),
    "subtract.reduce": lambda x: np.subtract.reduce(part(x)),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(part(x)),
    "maximum.reduce from nothing": lambda x: np.maximum.reduce(part(x), initial=None),
    "hypot.accumulate": lambda x: np.hypot.accumulate(part(x)),
    "reduceat": lambda x: np.maximum.reduceat(x, np.arange(len(part(x)))),
    "apply_along_axis": lambda x: np.apply_along_axis(np.sort, 1, part(x)[:, None]),
    "reshape": lambda x: part(x).reshape(len(part(x)), -1),
    "repeat": lambda x: np.repeat(part(x), 2),
    "gradient": lambda x: np.gradient(part(x)),
    "cov": lambda x: np.cov(part(x)),
    "interp": lambda x: np.interp(x, part(x)[::-1], part(x)),
    "histogram": lambda x: np.histogram(part(x), 3)[1],
    "pad": lambda x: np.pad(part(x), 1, "edge"),
    "take": lambda x: np.take(part(x), [0], mode="clip"),
    "the last": lambda x: part(x)[-1],
    "norm": lambda x: np.linalg.norm(part(x)[:, None], 2),
    "lstsq": lambda x: np.linalg.lstsq(np.eye(len(part(x))), part(x))[0],
    "trapezoid": lambda x: np.trapezoid(part(x)),
    "argmin": lambda x: np.argmin(part(x)),
    "polyder of rows": lambda x: np.polyder(x[:, None] * np.ones((1, len(part(x)))), 1),
}


NEGATIVE: dict[str, Callable[..., Any]] = {
    "zeros": lambda x: np.zeros(len(x) - 3),
    "ones": lambda x: np.ones((len(x) - 3, len(x) - 4)),
    "empty": lambda x: np.empty(len(x) - 3).shape,
    "full": lambda x: np.full((len(x) - 3, len(x) - 3), 2.0),
    "zeros_like": lambda x: np.zeros_like(x, shape=(len(x) - 3, len(x) - 4)),
    "eye": lambda x: np.eye(len(x) - 3),
    "identity": lambda x: np.identity(len(x) - 3),
    "tri": lambda x: np.tri(len(x) - 3, len(x) - 4),
    "diag_indices": lambda x: np.diag_indices(len(x) - 3)[0],
    "indices": lambda x: np.indices((len(x) - 3,)),
    "resize": lambda x: np.resize(x, (len(x) - 3, len(x) - 4)),
    "broadcast_to": lambda x: np.broadcast_to(1.0, (len(x) - 3, len(x) - 4)),
    "tile": lambda x: np.tile(x[:1], len(x) - 3),
    "repeat": lambda x: np.repeat(x[:1], len(x) - 3),
    "pad": lambda x: np.pad(x[:1], len(x) - 3),
    "linspace": lambda x: np.linspace(0, 1, len(x) - 3),
    "geomspace": lambda x: np.geomspace(1, 2, len(x) - 3),
    "arange": lambda x: np.arange(len(x) - 3),
    "hamming": lambda x: np.hamming(len(x) - 3),
    "sliding_window_view": lambda x: np.lib.stride_tricks.sliding_window_view(x, len(x) - 3),
}


def outcome(f: Callable[..., Any], x: Any) -> Any:
    """The result, or the builtin exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(x.copy())
        except (ValueError, IndexError, TypeError, np.linalg.LinAlgError) as error:
            return next(t for t in type(error).__mro__ if t.__module__ == "builtins")


@pytest.mark.parametrize("name", NEGATIVE)
def test_extents_that_are_negative(name: str):
    """Where the argument has one or two elements: NumPy raises, or has nothing."""
    compare(NEGATIVE[name], (7, 10, 2, 1, 9, 3, 4, 40))


def test_an_extent_that_data_make_negative():
    jitted = tj.jit(lambda x: np.zeros(len(x[x > 2]) - 1))
    assert jitted(np.arange(6.0)).shape == (2,)
    with pytest.raises(ValueError, match="negative dimensions"):
        jitted(np.zeros(6))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts_without_elements(name: str):
    compare(FUNCTIONS[name], SIZES)


def compare(f: Callable[..., Any], at: tuple[int, ...]) -> None:
    jitted = tj.jit(f)
    for n in at:
        x = np.arange(n, 0, -1.0)
        got, expected = outcome(jitted, x), outcome(f, x)
        if isinstance(expected, type):
            assert isinstance(got, type), (n, got, expected)
            assert issubclass(got, expected) or issubclass(expected, got), n
        else:
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12, err_msg=str(n))


@pytest.mark.parametrize("seed", range(0, 40 * 41, 41))
def test_any_function_of_parts_that_vanish(seed: int):
    """`python -m tests.generators vanishing` runs all of them."""
    made = sizes.vanishing(seed)
    found = sizes.verdict(made, Tally())
    assert found is None, sizes.alone(made, *found)


def test_most_functions_take_parts_that_vanish():
    """Else the test above compares nothing."""
    assert sum(bool(sizes.vanishing(seed).nodes) for seed in range(0, 40 * 41, 41)) >= 30


@pytest.mark.parametrize("seed", range(0, 40 * 11, 11))
def test_any_function_that_is_compared_loosely(seed: int):
    """`python -m tests.generators families` runs all of them."""
    tally = Tally()
    found = families.verdict(families.family(seed), tally)
    assert found is None, found
    assert sum(tally.refusals.values()) < tally.calls


def test_frequencies_of_as_many_samples_as_data_select():
    for f in (lambda x: np.fft.fftfreq(len(x[x > 2]), 0.5), lambda x: np.fft.rfftfreq(len(x[x > 2]))):
        jitted = tj.jit(f)
        for n in (9, 4, 7, 3):
            np.testing.assert_allclose(jitted(np.arange(float(n + 1))), f(np.arange(float(n + 1))), rtol=1e-15)
        with pytest.raises(ValueError, match="Invalid number of FFT data points"):
            jitted(np.zeros(3))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: np.convolve(x[x > 2], [1.0, 2.0]), "np.convolve: a vector is empty"),
        (lambda x: np.pad(x[x > 2], 1, "edge"), "np.pad cannot extend the empty axis 0"),
        (lambda x: np.quantile(x[x > 2], 0.5), "index -1 is out of bounds"),
    ],
)
def test_nothing_that_data_select(f: Callable[..., Any], message: str):
    jitted = tj.jit(f)
    np.testing.assert_allclose(jitted(np.arange(6.0)), f(np.arange(6.0)))
    with pytest.raises((ValueError, IndexError), match=message):
        jitted(np.zeros(6))
