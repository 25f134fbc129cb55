"""A Python number has no attributes of arrays: functions that find out by an exception take the way of Python."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj


def shape(v):
    try:
        return v.shape[0]
    except AttributeError:
        return -1


def astype(v):
    try:
        return v.astype("f4")
    except AttributeError:
        return np.float32(v)


def mean(v):
    try:
        return v.mean()
    except (AttributeError, TypeError):
        return v * 2


def in_a_loop(v):
    for _ in range(3):
        try:
            v = v.copy() + 1
        except AttributeError:
            v = v + 10
    return v


def element(v):
    try:
        return v[0]
    except TypeError:
        return v


def length(v):
    try:
        return len(v)
    except TypeError:
        return 0


FUNCTIONS = [shape, astype, mean, in_a_loop, element, length]


@pytest.mark.parametrize("x", [3, 2.5, True, 1j, np.arange(3.0), np.float64(2)], ids=repr)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_way_is_that_of_python(f, x):
    if isinstance(x, complex) and f is astype:
        return
    if isinstance(x, np.float64) and f in (element, shape):
        for g in (f, tj.jit(f)):
            with pytest.raises(IndexError):
                g(x)
        return
    want, got = f(x), tj.jit(f)(x)
    np.testing.assert_array_equal(got, want)
    assert np.result_type(got) == np.result_type(want)


def test_numbers_of_loops_have_what_those_of_jax_have():
    f = tj.jit(lambda x: tj.lax.fori_loop(0, 3, lambda i, c: c + i.astype(np.float64), x))
    assert f(1.0) == 4.0


def total(v):
    return v.sum()


def shaped(v):
    return v.reshape(-1)[0]


def named(v):
    return v.mean()


class Forwards:
    def __init__(self, v):
        self.v = v

    def __getattr__(self, name):
        return getattr(self.v, name)


@pytest.mark.parametrize("f", [total, shaped, named, lambda v: Forwards(v).max()])
def test_attributes_of_arrays_that_a_caller_catches_the_lack_of(f):
    def g(x, k):
        try:
            return f(k) + x
        except AttributeError:
            return x * 2

    compiled = tj.jit(g)
    for k in (3, 2.5, True, 3):
        np.testing.assert_array_equal(compiled(np.ones(2), k), g(np.ones(2), k))
    np.testing.assert_array_equal(compiled(np.ones(2), np.ones(3)), g(np.ones(2), np.ones(3)))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_whether_an_array_holds_a_number_is_a_bool_of_pythons(size: int):
    def held(x, y):
        return 2.0 in x, y in x, (2.0 in x) + 1

    x = np.arange(size) * 1.0
    got, want = tj.jit(held)(x, 1.0), held(x, 1.0)
    assert got == want
    assert [type(v) for v in got] == [type(v) for v in want] == [bool, bool, int]


@pytest.mark.parametrize("name", ["index", "value", "layout", "location", "root", "aval", "known", "extent", "at"])
def test_arrays_have_no_attributes_but_numpys(name: str):
    def asked(x: Any) -> Any:
        return x * 2 if hasattr(x, name) else x

    def given(x: Any) -> Any:
        return getattr(x, name, x) + 1

    def caught(x: Any) -> Any:
        try:
            return getattr(x[1:], name)
        except AttributeError:
            return x + 5

    x = np.arange(3.0)
    for f in (asked, given, caught) if name != "at" else (asked, given):
        assert np.array_equal(tj.jit(f)(x), f(x))
