"""searchsorted, digitize and interp of arrays with as many elements as data say."""

import numpy as np
import pytest

import tracejit as tj


def ranks(x):
    return np.searchsorted(np.unique(x), x)


def ranks_from_the_right(x):
    return np.searchsorted(np.sort(x[x > 0.3]), x, "right"), np.unique(x).searchsorted(x)


def of_none(x):
    return np.searchsorted(x[x > 9], x), np.searchsorted(np.unique(x), 0.5)


def in_bins(x):
    return np.digitize(x, np.unique(x)), np.digitize(x, np.unique(x)[::-1], True)


def between_points(x):
    s = np.sort(x)
    chosen = s[s > 0.3]
    return np.interp(x, chosen, np.cumsum(s)[s > 0.3]), np.interp(x, chosen, chosen**2, left=-1.0, right=7.0)


def between_points_and_nan(x):
    s = np.unique(x)
    return np.interp(np.append(x, np.nan), s, s**2)


def growing(x):
    s, out = np.sort(x), np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.searchsorted(s[:i], x[i])
    return out


@pytest.mark.parametrize(
    "f", [ranks, ranks_from_the_right, of_none, in_bins, between_points, between_points_and_nan, growing]
)
def test_sorted_arrays_are_searched_whatever_their_length(f, agree_at_sizes):
    agree_at_sizes(f, lambda generator, n: (np.round(generator.random(n), 1),), sizes=(20, 20, 33, 1, 2, 0), seeds=1)


@pytest.mark.parametrize("backend", ["opencl", "reference"])
def test_they_are_searched_on_other_backends(backend, agree_at_sizes):
    agree_at_sizes(ranks, lambda generator, n: (np.round(generator.random(n), 1),), backend, sizes=(7, 7), seeds=1)


def test_points_of_different_lengths_are_an_error():
    f = tj.jit(lambda x: np.interp(x, x[x > 0.3], x[x > 0.5]))
    x = np.linspace(0.6, 1, 5)
    np.testing.assert_array_equal(f(x), x)
    with pytest.raises(ValueError, match="different lengths"):
        f(np.linspace(0, 1, 5))
    with pytest.raises(ValueError, match="at least one point"):
        f(np.linspace(0, 0.2, 5))
