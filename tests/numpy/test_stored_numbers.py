"""What stores make of integers of classes of their own, and conversions of complex arrays; views that data decide."""

import enum
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError


class Level(enum.IntEnum):
    LOW = 7
    HIGH = 300


def set_item(x: Any, a: Any) -> Any:
    x[0] = a
    return x


def set_all(x: Any, a: Any) -> Any:
    x[:] = a
    return x


def set_masked(x: Any, a: Any) -> Any:
    x[x == 0] = a
    return x


def set_listed(x: Any, a: Any) -> Any:
    x[[0, 1]] = a
    return x


def filled(x: Any, a: Any) -> Any:
    x.fill(a)
    return x


def put(x: Any, a: Any) -> Any:
    np.put(x, [0], a)
    return x


STORES: list[Callable[[Any, Any], Any]] = [
    set_item, set_all, set_masked, set_listed, filled, put, lambda x, a: np.insert(x, 0, a),
    lambda x, a: np.max(x, initial=a), lambda x, a: np.sum(x, initial=a, dtype=np.int64),
]  # fmt: skip


@pytest.mark.parametrize("f", STORES)
def test_an_integer_of_a_class_of_its_own_has_to_fit(f: Callable[[Any, Any], Any]):
    for level in Level:
        for make in (lambda x, f=f, level=level: f(x, level), f):
            given = (np.zeros(3, np.uint8),) if make is not f else (np.zeros(3, np.uint8), level)
            again = (np.zeros(3, np.uint8), *given[1:])
            try:
                want = make(*given)
            except OverflowError:
                with pytest.raises(OverflowError):
                    tj.jit(make)(*again)
                continue
            got = tj.jit(make)(*again)
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype


@pytest.mark.parametrize(
    "convert", [lambda x: int(x), lambda x: float(x), lambda x: math.floor(x), lambda x: math.ceil(x)]
)
@pytest.mark.parametrize("x", [np.array(1j), np.array([1j])])
def test_a_complex_array_is_no_real_number(convert: Any, x: Any):
    with pytest.raises(TypeError):
        convert(x)
    with pytest.raises(TypeError, match="complex"):
        tj.jit(convert)(x)


def test_places_of_uint64_are_refused_where_numpy_refuses_them():
    def f(x: Any, places: Any) -> Any:
        np.put(x, places, 5.0, mode="clip")
        return x

    with pytest.raises(TypeError, match="uint64"):
        f(np.zeros(3), np.array([0, 1], np.uint64))
    with pytest.raises(DtypeError, match="uint64"):
        tj.jit(f)(np.zeros(3), np.array([0, 1], np.uint64))


def test_what_trim_zeros_leaves_is_a_view():
    def f(x: Any) -> Any:
        inside = np.trim_zeros(x)
        inside.sort()
        inside += 1
        return x

    compiled = tj.jit(f)
    for values in ([0.0, 3, 1, 0], [0.0, 0, 0], [2.0, 0, 1], [0.0, 5], []):
        x = np.array(values)
        want = f(x.copy())
        np.testing.assert_array_equal(compiled(x), want)
        np.testing.assert_array_equal(x, want)
