"""Objects of np.vectorize that are made outside, or by a decorator, and the numbers that their functions get."""

import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import NumberOutOfBounds

X = np.array([1.0, 2.0, 100.0, 3.0])


@np.vectorize
def folded(a):
    return a * 2 if a > 1 else a - 1


@np.vectorize(otypes=[float])
def scaled(a, b=1):
    return a * b


class Holder:
    @staticmethod
    @np.vectorize
    def shifted(v):
        return v + 0.5


limited = np.vectorize(lambda v, low: v * 1.0 if v > low else low * 1.0, excluded=[1])
products = np.vectorize(lambda p, q: p @ q, signature="(n),(n)->()")


def decorated_inside(x):
    @np.vectorize
    def moved(a):
        return a + x[0]

    return moved(x)


def decorated_inside_with_options(x):
    @np.vectorize(otypes=[np.float32])
    def turned(a, kind=np.float32):
        return a if a < 2 else -a

    return turned(x)


def decorated_twice(x):
    def doubled(f):
        return lambda a: 2 * f(a)

    @np.vectorize
    @doubled
    def g(a, b=np.int8, *, c: int = 4):
        return a + c

    return g(x)


def made_without_a_function(x):
    decorator = np.vectorize(otypes=["d"])
    g = decorator(lambda a: a + 1)
    return g(x), isinstance(g, np.vectorize)


EVERY: list[Any] = [
    lambda x: folded(x), lambda x: scaled(x, 2), lambda x: scaled(x, b=x), lambda x: Holder.shifted(x),
    lambda x: limited(x, 2.0), lambda x: products(x, x) * 1, lambda x: folded([x[0], x[1], 1.0]),
    lambda x: folded(np.arange(4)) + x, lambda x: folded.pyfunc(x[1]), lambda x: list(map(folded, [x, x])),
    decorated_inside, decorated_inside_with_options, decorated_twice, made_without_a_function,
]  # fmt: skip


def same(got, want):
    if isinstance(want, (tuple, list)):
        assert type(got) is type(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
    else:
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("number", range(len(EVERY)))
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_objects_of_vectorize_are_mapped_wherever_they_are_made(number, dtype):
    f, x = EVERY[number], X.astype(dtype)
    same(tj.jit(f)(x), f(x))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.float16, np.float32, np.complex64])
def test_functions_get_pythons_numbers_and_results_the_dtype_of_numpys(dtype):
    x = np.array([100, 3, 5]).astype(dtype)
    for f in (
        lambda x: np.vectorize(lambda a: a * 2 + 0.5)(x),
        lambda x: np.vectorize(lambda a: a * 2 + 0.5, otypes=[complex])(x),
        lambda x: np.vectorize(lambda a: a * 200, otypes=[complex])(x),
        lambda x: np.vectorize(lambda a: (a + 1, a * 1j))(x),
        lambda x: np.vectorize(lambda a: -abs(a), otypes=[np.float32])(x),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a first element that is too great for its dtype
            want = f(x)
        same(tj.jit(f)(x), want)


def test_results_that_do_not_fit_are_an_error():
    f = tj.jit(lambda x: np.vectorize(lambda a: a * 2)(x))
    np.testing.assert_array_equal(f(np.array([3, 60], np.int8)), np.array([6, 120], np.int8), strict=True)
    with pytest.raises(NumberOutOfBounds):  # NumPy says so too
        f(np.array([3, 100], np.int8))
