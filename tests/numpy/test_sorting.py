"""Sorting and orders, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError, UnsupportedError

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


def values(shape: Any, dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Many equal ones; NaN, infinities and both zeros where there are such."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2 if dtype == "?" else 9, shape).astype(dtype)
    if dtype[0] == "f":
        x = np.where(rng.random(shape) < 0.2, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), x).astype(dtype)
    return x


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_and_argsort_are_stable_and_put_nan_last(dtype: str):
    f = tj.jit(lambda x: (np.sort(x), np.argsort(x)))
    for n in (5, 0, 1, 2, 33, 1000) if dtype in ("f4", "i8") else (33,):
        x = values(n, dtype, n)
        got, places = f(x)
        want = np.argsort(x, kind="stable")
        np.testing.assert_array_equal(places, want)
        assert places.dtype == np.int64
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, x[want])
        if dtype[0] == "f":
            np.testing.assert_array_equal(np.signbit(got), np.signbit(x[want]))


@pytest.mark.parametrize("dtype", ["i8", "u8", "i1"])
def test_extreme_integers_are_in_order(dtype: str):
    info = np.iinfo(dtype)
    x = np.array([info.max, 0, info.min, info.max - 1, 1], dtype)
    np.testing.assert_array_equal(tj.jit(lambda x: np.sort(x))(x), np.sort(x))


@pytest.mark.parametrize("axis", [0, -2, None])
@pytest.mark.parametrize("dynamic", [False, True])
def test_every_axis(axis: Any, dynamic: bool):
    f = tj.jit(lambda x: (np.sort(x, axis=axis), np.argsort(x, axis)), dynamic_shapes=dynamic)
    for shape in ((3, 4, 5), (2, 2, 7), (0, 2, 3), (3, 0, 2), (1, 1, 1)):
        x = values(shape, "f4")
        got, places = f(x)
        np.testing.assert_array_equal(got, np.sort(x, axis))
        np.testing.assert_array_equal(places, np.argsort(x, axis, kind="stable"))


def test_the_method_sorts_in_place():
    def f(x: Any) -> Any:
        y = x.copy()
        y.sort(axis=0)
        return y, x.argsort()

    x = values((6, 3), "i4")
    for got, want in zip(tj.jit(f)(x), (np.sort(x, 0), np.argsort(x, kind="stable")), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_method_sorts_a_part_and_an_argument():
    def f(x: Any) -> None:
        x[1:4].sort()

    x = np.array([9.0, 5.0, 4.0, 3.0, 0.0])
    tj.jit(f)(x)
    np.testing.assert_array_equal(x, [9.0, 3.0, 4.0, 5.0, 0.0])


@pytest.mark.parametrize("seed", range(2))
def test_lexsort_is_decided_by_the_last_key(seed: int):
    f = tj.jit(lambda a, b, c: np.lexsort((a, b, c)))
    for n in (7, 1, 0, 40):
        keys = [values(n, d, seed + k) for k, d in enumerate(("f8", "?", "i2"))]
        np.testing.assert_array_equal(f(*keys), np.lexsort(keys))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_on_every_backend(backend: str):
    x = values((3, 9), "f4")
    got, places = tj.jit(lambda x: (np.sort(x), np.argsort(x, 0)), backend=backend)(x)
    np.testing.assert_array_equal(got, np.sort(x))
    np.testing.assert_array_equal(places, np.argsort(x, 0, kind="stable"))


def test_under_vmap_and_in_a_loop():
    x = values((4, 6), "i8")
    np.testing.assert_array_equal(tj.jit(tj.vmap(lambda r: np.sort(r), in_axes=1))(x), np.sort(x.T))

    def f(x: Any) -> Any:
        return tj.lax.fori_loop(0, 3, lambda i, y: np.sort(y) * -1, x)

    np.testing.assert_array_equal(tj.jit(f)(x[0]), np.sort(np.sort(np.sort(x[0]) * -1) * -1) * -1)


def test_the_gradient_goes_where_the_elements_came_from():
    w = np.arange(5.0)
    x = np.array([0.3, -1.0, 2.0, 0.5, -0.2])
    want = np.empty(5)
    want[np.argsort(x)] = w
    np.testing.assert_allclose(tj.jit(tj.grad(lambda x: (np.sort(x) * w).sum()))(x), want)


def test_a_single_element_without_axes():
    np.testing.assert_array_equal(tj.jit(lambda x: np.argsort(x))(np.float64(3.0)), [0], strict=True)
    np.testing.assert_array_equal(tj.jit(lambda x: np.sort(x, None))(np.float64(3.0)), [3.0])
    with pytest.raises(ShapeError):
        tj.jit(lambda x: np.sort(x))(np.float64(3.0))


def test_what_is_refused():
    x = np.ones((2, 3))
    for f in (np.sort, np.argsort):
        with pytest.raises(ShapeError):
            tj.jit(lambda x, f=f: f(x, 2))(x)
        with pytest.raises(UnsupportedError, match="order= names fields"):
            tj.jit(lambda x, f=f: f(x, order="a"))(x)
        with pytest.raises(ShapeError, match="kind is"):
            tj.jit(lambda x, f=f: f(x, kind="bogo"))(x)
    with pytest.raises(ShapeError, match="differ in shape"):
        tj.jit(lambda x: np.lexsort((x[0], x[0, :2])))(x)


def test_a_short_row_is_sorted_without_loops_of_the_program_and_one_of_many_keys_is_one_kernel():
    text = tj.jit(lambda x: np.sort(x)).lower(np.ones(9)).text("program")
    assert "while" not in text
    assert "for " not in text
    text = tj.jit(lambda x: np.lexsort((x, x))).lower(np.ones(9)).text("program")
    assert text.count("launch loop_") == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows_are_sorted_by_the_digits_of_their_keys(dtype: str):
    f = tj.jit(lambda x: (np.sort(x), np.argsort(x)))
    for shape in ((2, 130), (4, 127), (1, 700)) if dtype in ("f8", "i2") else ((2, 130),):
        x = values(shape, dtype, shape[1])
        if dtype[0] != "?":
            x[:, ::3] *= np.array(-9 if dtype[0] in "if" else 27).astype(dtype)
        got, places = f(x)
        want = np.argsort(x, kind="stable")
        np.testing.assert_array_equal(places, want)
        np.testing.assert_array_equal(got.view("u1"), np.take_along_axis(x, want, 1).view("u1"))


@pytest.mark.parametrize("dtype", ["i8", "u8", "f8", "i4", "f4"])
@pytest.mark.parametrize("seed", range(1))
def test_random_bits_are_sorted(dtype: str, seed: int):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, 1000 * np.dtype(dtype).itemsize, dtype="u1").view(dtype)
    x = np.concatenate([x, x[:77], -x[:300]])
    x.view(f"u{x.itemsize}")[::5] &= rng.integers(0, 2 ** (8 * x.itemsize - 1), dtype=f"u{x.itemsize}")
    f = tj.jit(lambda x: (np.sort(x), np.argsort(x)))
    with np.errstate(all="ignore"):
        want = np.argsort(x, kind="stable")
    got, places = f(x)
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(got.view("u1"), x[want].view("u1"))


@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_descending_is_jaxs(dtype: str):
    x = values((3, 9), dtype)
    f = tj.jit(lambda x: (tj.numpy.sort(x, descending=True), tj.numpy.argsort(x, descending=True)))
    got, places = f(x)
    np.testing.assert_array_equal(got, np.sort(x)[:, ::-1])
    want = 8 - np.argsort(x[:, ::-1], kind="stable")[:, ::-1]
    np.testing.assert_array_equal(places, want)


@pytest.mark.parametrize(("axis", "kth"), [(0, 2), (None, -1), (-1, (1, 3)), (0, np.array([2]))])
def test_partitions_have_the_elements_at_their_places(axis: Any, kth: Any):
    def check(x: Any, got: Any) -> None:
        ordered, k = np.sort(x, axis), axis or 0
        assert got.shape == ordered.shape
        np.testing.assert_array_equal(np.sort(got, k), ordered)
        for place in np.atleast_1d(kth):
            value = np.take(ordered, [place], k)
            np.testing.assert_array_equal(np.take(got, [place], k), value)
            first = np.take(got, range(place % got.shape[k]), k)
            assert (first <= value).all()
            assert (np.take(got, range(place % got.shape[k], got.shape[k]), k) >= value).all()

    f = tj.jit(lambda x: (np.partition(x, kth, axis), np.argpartition(x, kth, axis)))
    for shape in ((5, 4),) if axis is None else ((5, 4), (6, 7)):
        x = values(shape, "i4")
        got, places = f(x)
        check(x, got)
        check(x, x.ravel()[places] if axis is None else np.take_along_axis(x, places, axis))


def test_the_method_partitions_in_place():
    def f(x: Any) -> Any:
        x.partition(1)
        return x.argpartition(0)

    x = np.array([5, 3, 1, 4])
    places = tj.jit(f)(x)
    assert x[1] == 3
    assert sorted(places) == [0, 1, 2, 3]


def test_bad_places_of_partitions_are_refused():
    x = np.ones(3)
    with pytest.raises(ValueError, match=r"kth\(=3\) out of bounds \(3\)"):
        tj.jit(lambda x: np.partition(x, 3))(x)
    with pytest.raises(TypeError, match="must be integer"):
        tj.jit(lambda x: np.argpartition(x, 1.0))(x)
    with pytest.raises(ValueError, match="kind is 'introselect'"):
        tj.jit(lambda x: np.partition(x, 1, kind="quicksort"))(x)
    with pytest.raises(ShapeError):
        tj.jit(lambda x: np.partition(x, 1, axis=1))(x)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f4", "f8", "c8", "c16", "?"])
def test_sort_complex_gives_complex_numbers(dtype: str):
    x = (np.random.default_rng(0).normal(size=(3, 5)) * 4).astype("f8").astype(dtype)
    if dtype[0] == "c":
        x = x + (1j * np.arange(5)).astype(dtype)
    got, want = tj.jit(lambda x: np.sort_complex(x))(x), np.sort_complex(x)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
