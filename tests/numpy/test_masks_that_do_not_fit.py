"""Masks of another length than the axes they are for, wherever a mask may stand: NumPy's error, or nothing selected."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


def _set(x, index):
    x[index] = 5
    return x


def _added(x, index):
    np.add.at(x, index, 1)
    return x


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "get": lambda x, i: x[i].sum(),
    "set": _set,
    "at": _added,
}
INDICES: dict[str, Callable[[Any], Any]] = {
    "behind a slice": lambda m: (slice(None), m),
    "before a slice": lambda m: (m, slice(None)),
    "behind an ellipsis": lambda m: (..., m),
    "behind a number": lambda m: (0, m),
    "alone": lambda m: m,
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("index", INDICES)
def test_as_numpy(function: str, index: str):
    f, at = FUNCTIONS[function], INDICES[index]

    def call(x, m):
        return f(x, at(m))

    def outcome(g: Callable[..., Any], x: Any, m: Any) -> Any:
        try:
            return np.asarray(g(x.copy(), m)).tolist()
        except IndexError:
            return IndexError

    jitted = tj.jit(call)
    for shape in ((1, 3), (3, 3), (3, 1), (1, 1)):
        for mask in ([True], [False], [True, False, True], [True, False, True, False], []):
            x, m = np.ones(shape), np.array(mask, bool)
            assert outcome(jitted, x, m) == outcome(call, x, m), (shape, mask)


def test_copyto_changes_no_number():
    def f(x):
        v = x.sum()
        np.copyto(v, 3.0)
        return v

    for g in (f, tj.jit(f)):
        with pytest.raises(TypeError):
            g(np.ones(3))


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda x: int(x),
    "float": lambda x: float(x),
    "complex": lambda x: complex(x),
    "bool": lambda x: bool(x),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_python_numbers_of_arrays_of_one_element(kind: str):
    f = NUMBERS[kind]
    jitted = tj.jit(f)
    for x in (np.ones(()), np.ones(1), np.ones((1, 1))):
        try:
            want = f(x)
        except TypeError:
            with pytest.raises(TypeError):
                jitted(x)
        else:
            assert jitted(x) == want


@pytest.mark.parametrize("f", [lambda x: np.cov(x), lambda x: np.i0(x[0]), lambda x: np.resize(x, ())])
def test_arrays_of_rank_0_change_in_place(f: Callable[[Any], Any]):
    def changed(x):
        w = f(x)
        v = w
        w += 1
        return v

    x = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(tj.jit(changed)(x), changed(x))
