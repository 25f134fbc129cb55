"""Numbers that are no index, count or shift of 64 bits with a sign, and windows of a fraction of a point."""

import numpy as np
import pytest

import tracejit as tj

HUGE = np.uint64(2**63 + 5)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: x[:k], lambda x, k: x[k:], lambda x, k: x[1:k], lambda x, k: np.roll(x, k),
        lambda x, k: np.roll(x, k - np.uint64(1)), lambda x, k: np.roll(x.reshape(2, 3), k, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("k", [HUGE, np.uint64(2**64 - 1), np.uint64(2)])
def test_unsigned_bounds_and_shifts(f, k):
    x = np.arange(6.0)
    np.testing.assert_array_equal(tj.jit(f)(x, k), f(x, k))


@pytest.mark.parametrize("window", [np.hanning, np.hamming, np.blackman, np.bartlett], ids=lambda f: f.__name__)
@pytest.mark.parametrize("points", [-2.5, 0.5, 1.0, 1.5, 2.0, 4.7, 6.25])
def test_windows_of_fractions(window, points):
    got = tj.jit(lambda x: window(points) + x)(np.zeros(1))
    np.testing.assert_allclose(got, window(points), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("points", [1.0, 2.0, 4.7])
def test_kaiser_of_fractions(points):
    with np.errstate(invalid="ignore"):
        want = np.kaiser(points, 3.0)
        np.testing.assert_allclose(tj.jit(lambda x: np.kaiser(points, 3.0) + x)(np.zeros(1)), want, rtol=1e-12)


def test_edges_are_a_list_as_numpys():
    points = np.arange(12.0).reshape(6, 2)
    counts, edges = tj.jit(lambda x: np.histogramdd(x, bins=2))(points)
    want, wanted = np.histogramdd(points, bins=2)
    np.testing.assert_array_equal(counts, want)
    assert type(edges) is list
    np.testing.assert_array_equal(edges, wanted)


def test_a_rule_of_casting_holds_beside_where():
    x = np.arange(5, dtype=np.int8)

    def f(x):
        return np.add(x, x, where=x > 1, out=np.zeros(5), casting="no")

    with pytest.raises(TypeError, match="no"):
        f(x)
    with pytest.raises(TypeError, match="'no'"):
        tj.jit(f)(x)


def test_any_and_all_of_vectors_and_numbers():
    def f(x):
        return any(x > 3), all(x > -1), any([x[0] > 2, x[1] > 0]), all((x[0] >= 0, x[2] > 50)), any(x[:0]), all(x[:0])

    x = np.arange(5.0)
    got = tj.jit(f)(x)
    assert got == f(x)
    assert [type(g) for g in got] == [bool] * 6

    def doubled(x):
        while any(x < 20):
            x = x * 2 + 1
        return x

    np.testing.assert_array_equal(tj.jit(doubled)(x), doubled(x))


def test_piecewise_has_derivatives_of_what_is_taken():
    def f(x):
        return np.piecewise(x, [x < 0, x >= 1], [lambda x: -(x**2), lambda x: np.sqrt(x - 0.5), lambda x: x * 3])

    x = np.array([2.0, -2.0, 0.5, 0.25])
    wanted = np.diag([0.5 / np.sqrt(1.5), 4.0, 3.0, 3.0])
    np.testing.assert_allclose(tj.jit(f)(x), f(x), rtol=1e-15)
    for jacobian in (tj.jit(tj.jacrev(f)), tj.jit(tj.jacfwd(f)), tj.jacrev(f)):
        np.testing.assert_allclose(jacobian(x), wanted, rtol=1e-14)


def test_an_index_that_the_function_would_catch_is_known():
    def value(x, i):
        try:
            return x[i] * 2
        except IndexError:
            return -1.0

    def changed(x, i):
        try:
            x = x.copy()
            x[i] = 5
        except IndexError:
            x = x * 0
        return x

    def loop(x, i):
        for k in range(3):
            try:
                x = x + x[i + k]
            except IndexError:
                break
        return x

    x = np.arange(5.0)
    for f in (value, changed, loop):
        jitted = tj.jit(f)
        for i in (2, 7, -3, -9, 4, 3):
            np.testing.assert_array_equal(jitted(x, i), f(x, i))


@pytest.mark.parametrize("f", [lambda x, k: np.delete(x, k), lambda x, k: np.insert(x, k, 2)], ids=["delete", "insert"])
def test_places_outside_raise_index_errors(f):
    for k in (7, -9):
        for g in (f, tj.jit(f)):
            with pytest.raises(IndexError):
                g(np.arange(4.0), k)
