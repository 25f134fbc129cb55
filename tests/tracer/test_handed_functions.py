"""Functions of Python's, written in C, that a traced function hands to others: they see numbers as NumPy would."""

import functools
import itertools
import operator
from collections import Counter
from itertools import groupby
from typing import Any

import numpy as np
import pytest

import tracejit as tj

SMALLER_THAN_FOUR = (4).__gt__

PROGRAMS: dict[str, Any] = {
    "any, map": lambda x, k: any(map((9).__eq__, x.shape)),
    "filter": lambda x, k: len(list(filter((9).__lt__, [k, 20]))),
    "filter, extents": lambda x, k: len(list(filter((9).__lt__, [len(x), 20]))),
    "next, filter": lambda x, k: next(filter((9).__eq__, [k]), -1),
    "filterfalse": lambda x, k: sum(itertools.filterfalse((9).__eq__, [k, 9, 1])),
    "takewhile": lambda x, k: sum(itertools.takewhile((9).__ne__, [len(x), 9, 1])),
    "dropwhile": lambda x, k: sum(itertools.dropwhile((9).__gt__, [len(x), 9, 1])),
    "map, products": lambda x, k: sum(map((2).__mul__, [k, 3])),
    "map, mirrored": lambda x, k: list(map((2).__rsub__, [k, len(x)])),
    "map, unbound": lambda x, k: list(map(int.__neg__, [k, len(x)])),
    "map, divmod": lambda x, k: list(map((17).__divmod__, [k, len(x)])),
    "partial": lambda x, k: functools.partial(int.__add__, 2)(k),
    "reduce": lambda x, k: functools.reduce(int.__mul__, [2, k]),
    "accumulate": lambda x, k: list(itertools.accumulate([2, k, len(x)], int.__mul__)),
    "starmap": lambda x, k: list(itertools.starmap(int.__sub__, [(k, 1), (len(x), 2)])),
    "max, key": lambda x, k: max([5, k, len(x)], key=(3).__sub__),
    "min, key": lambda x, k: min([5, k, len(x)], key=(3).__sub__),
    "max, repr": lambda x, k: max((k, 7, 12, 2), key=repr),
    "sorted, key": lambda x, k: sorted((k, 3, 8), key=(0).__sub__)[0],
    "of a float": lambda x, k: list(filter((2.5).__le__, [float(k), 2.0])),
    "elements": lambda x, k: list(map((2.0).__add__, x[:2])),
    "compared": lambda x, k: np.sum(list(map((2.0).__gt__, x))),
    "classes": lambda x, k: next(map(type, (k, 7))) is int,
    "classes of extents": lambda x, k: set(map(type, x.shape)) == {int},
    "counted": lambda x, k: Counter(map(type, (k, 1, 2.5)))[int],
    "grouped": lambda x, k: len([*groupby((k, len(x), 1.5), type)]),
    "partial, type": lambda x, k: functools.partial(type)(k) is int,
    "classes of elements": lambda x, k: list(map(type, x)).count(np.float64),
    "joined": lambda x, k: " ".join(map(repr, (len(x), k))) == "4 4",
    "user's": lambda x, k: list(map(lambda v: v * 2, [k, len(x)])),
    "operator's": lambda x, k: list(map(operator.add, [k, len(x)], [1, 2])),
    "from outside": lambda x, k: len(list(filter(SMALLER_THAN_FOUR, [k, len(x)]))),
    "wrong class": lambda x, k: next(map((9).__lt__, [2.5])) is NotImplemented,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_see_what_numpy_would_give(name: str):
    f = PROGRAMS[name]
    compiled = tj.jit(f)
    for size, k in ((3, 4), (4, 4), (5, 9), (9, 12), (10, 1), (2, 20), (2, 20)):
        x = np.arange(1.0, size + 1)
        np.testing.assert_array_equal(compiled(x, k), f(x, k), err_msg=f"{size}, {k}")


def test_classes_that_call_functions_keep_what_they_are():
    """`map` and `partial` are classes, and stay so where they are not called."""

    def f(x: Any) -> Any:
        doubled = map(lambda v: v * 2, x)
        half = functools.partial(np.multiply, 0.5)
        assert isinstance(doubled, map)
        assert isinstance(half, functools.partial)
        assert isinstance(filter(None, [1]), filter)
        assert isinstance(groupby([1]), itertools.groupby)
        return half(sum(doubled))

    np.testing.assert_array_equal(tj.jit(f)(np.arange(4.0)), 6.0)
