"""Different elements, and sets of them: against NumPy, with sizes of JAX's against plain Python."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ConcretizationError, ShapeError, UnsupportedError

SIZES = (7, 0, 1, 2, 30)


def values(n: Any, seed: int = 0, nan: float = 0.0, dtype: str = "f8") -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, n).astype(dtype)
    return np.where(rng.random(n) < nan, np.nan, x) if nan else x


def check(got: Any, want: Any) -> None:
    if not isinstance(want, tuple):
        got, want = (got,), (want,)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("nan", [0, 0.3])
def test_unique_counts_places_and_inverts(nan: float):
    def g(x):
        return np.unique(x, return_index=True, return_inverse=True, return_counts=True)

    f = tj.jit(lambda x: g(x))
    for n in SIZES:
        check(f(values(n, n, nan)), g(values(n, n, nan)))


def test_every_nan_may_be_one_of_its_own():
    x = values(12, 1, 0.4)
    got = tj.jit(lambda x: (np.unique(x, equal_nan=False), *np.unique_all(x)))(x)
    check(got[0], np.unique(x, equal_nan=False))
    check(got[1:], tuple(np.unique_all(x)))


def test_unique_has_the_classes_of_numpys_results():
    x = values(9)
    got = tj.jit(lambda x: (np.unique_counts(x), np.unique_inverse(x), np.unique_values(x)))(x)
    assert type(got[0]).__name__ == "UniqueCountsResult"
    check(tuple(got[0]), tuple(np.unique_counts(x)))
    check(got[1].inverse_indices, np.unique_inverse(x).inverse_indices)
    check(np.sort(got[2]), np.sort(np.unique_values(x)))


@pytest.mark.parametrize("axis", [0, -1])
def test_unique_parts_along_an_axis(axis: int):
    def g(x):
        return np.unique(x, axis=axis, return_index=True, return_inverse=True, return_counts=True)

    f = tj.jit(lambda x: g(x))
    for shape in ((4, 3), (9, 3), (3, 2), (1, 1)):
        x = np.random.default_rng(0).integers(0, 2, shape)
        check(f(x), g(x))


@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setdiff1d", "setxor1d"])
@pytest.mark.parametrize("nan", [0, 0.3])
def test_sets_of_two_arrays(name: str, nan: float):
    function = getattr(np, name)
    f = tj.jit(lambda x, y: function(x, y))
    for n, m in ((5, 6), (1, 1), (2, 9), (30, 20), (0, 3), (3, 0)):
        x, y = values(n, n, nan), values(m, m + 1, nan) + 3
        check(f(x, y), function(x, y))


@pytest.mark.parametrize("name", ["intersect1d", "setdiff1d", "setxor1d"])
def test_elements_that_are_known_to_differ(name: str):
    function = getattr(np, name)
    rng = np.random.default_rng(0)
    f = tj.jit(lambda x, y: function(x, y, assume_unique=True))
    for n, m in ((5, 6), (30, 20)):
        x, y = rng.permutation(40)[:n], rng.permutation(40)[:m].reshape(2, -1)
        check(f(x, y), function(x, y, assume_unique=True))


def test_intersections_tell_where_they_are():
    f = tj.jit(lambda x, y: np.intersect1d(x, y, return_indices=True))
    for n, m in ((5, 6), (30, 20), (2, 2)):
        x, y = values(n, n, dtype="i4"), values(m, m + 1, dtype="i8") + 2
        check(f(x, y), np.intersect1d(x, y, return_indices=True))


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("m", [3, 40])
def test_isin_compares_few_and_sorts_many(invert: bool, m: int):
    f = tj.jit(lambda x, y: np.isin(x, y, invert=invert))
    for x, y in ((values((3, 4), 0, 0.2), values(m, 1, 0.2)), (values(5, 0, dtype="i2"), values(m, 1) + 0.5 * (m > 3))):
        check(f(x, y), np.isin(x, y, invert=invert))
    big = np.array([2**53, 2**53 + 1])
    check(f(big, np.arange(m, dtype=np.uint64) + 2**53), np.isin(big, np.arange(m) + 2**53, invert=invert))


@pytest.mark.parametrize("size", [0, 2, 9])
@pytest.mark.parametrize("fill", [None, -1])
def test_a_size_cuts_or_fills(size: int, fill: Any):
    def filled(found: np.ndarray[Any, Any], least: Any) -> np.ndarray[Any, Any]:
        rest = np.full(max(0, size - len(found)), least if fill is None else fill, found.dtype)
        return np.concatenate([found[:size], rest])

    jnp = tj.numpy
    x, y = values(7, 1, dtype="i8"), values(6, 2, dtype="i8") + 3
    f = tj.jit(
        lambda x, y: (
            jnp.unique(x, size=size, fill_value=fill),
            jnp.union1d(x, y, size=size, fill_value=fill),
            jnp.intersect1d(x, y, size=size, fill_value=fill),
            jnp.setdiff1d(x, y, size=size, fill_value=fill),
            jnp.setxor1d(x, y, size=size, fill_value=fill),
            jnp.flatnonzero(x > 2, size=size, fill_value=fill),
        )
    )
    wants = (np.unique(x), np.union1d(x, y), np.intersect1d(x, y), np.setdiff1d(x, y), np.setxor1d(x, y))
    got = f(x, y)
    for n, (a, b) in enumerate(zip(got[:5], wants, strict=True)):
        np.testing.assert_array_equal(a, filled(b, 0 if n == 3 else b.min()))
    np.testing.assert_array_equal(got[5], filled(np.flatnonzero(x > 2), 0))
    parts = jnp.unique(x, True, True, True, size=size, fill_value=fill)
    want = np.unique(x, True, True, True)
    k = min(size, len(want[0]))
    np.testing.assert_array_equal(np.asarray(parts[1])[:k], want[1][:k])
    np.testing.assert_array_equal(parts[2], want[2])
    np.testing.assert_array_equal(parts[3], [*want[3][:k], *[0] * (size - k)])


def test_places_with_a_size_in_a_batch():
    x = np.random.default_rng(0).integers(0, 2, (5, 3, 4))
    f = tj.jit(tj.vmap(lambda r: tj.numpy.nonzero(r, size=7, fill_value=(-1, -2))))
    i, j = f(x)
    for k in range(5):
        a, b = np.nonzero(x[k])
        np.testing.assert_array_equal(i[k], [*a, *[-1] * 7][:7])
        np.testing.assert_array_equal(j[k], [*b, *[-2] * 7][:7])
    places = tj.jit(lambda x: tj.numpy.argwhere(x, size=3))(x[0])
    np.testing.assert_array_equal(places, np.argwhere(x[0])[:3])
    unique = tj.jit(tj.vmap(lambda r: tj.numpy.unique(r, size=2, fill_value=9)))(x)
    np.testing.assert_array_equal(unique, [[*np.unique(r), 9][:2] for r in x])


def test_zeros_are_trimmed():
    f = tj.jit(lambda x: (np.trim_zeros(x), np.trim_zeros(x, "f"), np.trim_zeros(x, "B")))
    for x in ([0, 0, 1, 0, 2, 0], [0, 0], [1, 2], [0, 3, 0, 0, 0, 0, 5]):
        check(f(np.array(x)), tuple(np.trim_zeros(np.array(x), t) for t in ("fb", "f", "b")))
    g = tj.jit(lambda x: (np.trim_zeros(x), np.trim_zeros(x, axis=1)))
    for x in (np.pad(np.ones((2, 1), int), ((1, 2), (2, 0))), np.zeros((2, 3), int)):
        check(g(x), (np.trim_zeros(x), np.trim_zeros(x, axis=1)))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_sets_are_used_further_on_every_backend(backend: str):
    def f(x: Any) -> Any:
        values, counts = np.unique(x, return_counts=True)
        return (values * counts).sum(), len(values), values[::-1]

    x = values(20, 3)
    for got, want in zip(tj.jit(f, backend=backend)(x), f(x), strict=True):
        np.testing.assert_allclose(got, want)


def test_the_gradient_of_unique_elements_goes_to_the_first_of_them():
    x = np.array([3.0, 1.0, 3.0])
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda x: (np.unique(x) ** 2).sum()))(x), [6, 2, 0])


def test_what_is_refused():
    with pytest.raises(UnsupportedError, match="1 to 64 numbers"):
        tj.jit(lambda x: np.unique(x, axis=0))(np.ones((2, 65)))
    with pytest.raises(ShapeError, match="negative"):
        tj.jit(lambda x: tj.numpy.unique(x, size=-1))(np.ones(2))
    with pytest.raises(ShapeError):
        tj.jit(lambda x: np.unique(x, axis=2))(np.ones((2, 2)))
    with pytest.raises(ValueError, match="unexpected character"):
        tj.jit(lambda x: np.trim_zeros(x, "x"))(np.ones(2))
    with pytest.raises(ConcretizationError, match="give size="):
        tj.vjp(lambda x: np.unique(x), np.ones(2))
    with pytest.raises(UnsupportedError, match="under vmap"):
        tj.jit(tj.vmap(lambda x: np.unique(x)))(np.ones((2, 2)))


def test_derivatives_of_as_many_elements_as_data_say_are_compiled_outside_of_jit():
    np.testing.assert_array_equal(tj.grad(lambda x: (np.unique(x) ** 2).sum())(np.array([3.0, 1.0, 2.0])), [6, 2, 4])


@pytest.mark.parametrize("total", [0, 3, 6, 9])
def test_elements_are_repeated_up_to_a_length(total: int):
    f = tj.jit(lambda x, n: tj.numpy.repeat(x, n, axis=1, total_repeat_length=total))
    for counts in ([1, 2, 3], [0, 0, 4], [5, 0, 1]):
        x = np.arange(6.0).reshape(2, 3)
        want = np.repeat(x, counts, axis=1)
        want = np.concatenate([want, np.repeat(x[:, -1:], 9, axis=1)], axis=1)[:, :total]
        np.testing.assert_array_equal(f(x, np.array(counts)), want)
