"""Functions that define classes: their loops and branches are the program's too."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import tracejit as tj


def empty(x):
    class State:
        pass

    s = State()
    s.total = 0.0
    for v in x:
        if v > 1:
            s.total += v
    return s.total


def with_methods(x):
    class Filter:
        gain = 0.5

        def __init__(self, at):
            self.at = at

        def step(self, v):
            if v > self.at:
                self.at += self.gain * (v - self.at)
            return self.at

    f, out = Filter(0.0), np.zeros(len(x))
    for i in range(len(x)):
        out[i] = f.step(x[i])
    return out


def inherited(x):
    class Base:
        def value(self, v):
            return 2.0 * v

    class Derived(Base):
        def value(self, v):
            if v > 1:
                return super().value(v)
            return -v

    d = Derived()
    total = 0.0
    for v in x:
        total += d.value(v)
    return total


def named_tuple(x):
    class Best(NamedTuple):
        at: int
        value: Any

    best = Best(-1, -1.0)
    for i in range(len(x)):
        if x[i] > best.value:
            best = Best(i, x[i])
    return best.at, best.value


def that_calls_itself(x, depth=0):
    class Scale:
        by = 2.0

    if depth > 2:
        return x
    if x[0] > 100:
        return x - 1.0
    return that_calls_itself(x * Scale.by, depth + 1)


def with_a_function_beside(x):
    class Unused:
        pass

    def chosen(v):
        if v > 1:
            return v
        return -v

    return chosen(x[0]) + chosen(x[-1])


def its_names(x):
    class Thing:
        class Part:
            pass

    y = 0.0
    for v in x:
        if v > 1:
            y += v
    return y, len(Thing.__qualname__), len(Thing.Part.__qualname__), len(Thing.__name__)


@pytest.mark.parametrize(
    "f", [empty, with_methods, inherited, named_tuple, that_calls_itself, with_a_function_beside, its_names]
)
def test_as_python(f):
    jitted = tj.jit(f)
    for n in (1, 3, 4, 12):
        for x in (np.arange(float(n)), np.zeros(n), np.arange(float(n)) + 2):
            np.testing.assert_array_equal(jitted(x), f(x))


def with_a_truth(x):
    class Above:
        def __init__(self, v):
            self.v = v

        def __bool__(self):
            return bool(self.v > 1)

    a, b, count = Above(x[0]), Above(x[-1]), 0
    for v in x:
        if Above(v):
            count += 1
    return 1.0 if a else 2.0, not b, count, 3.0 if a and b else 4.0


def test_the_truth_of_an_object_that_data_say():
    jitted = tj.jit(with_a_truth)
    for n in (1, 3, 12):
        for x in (np.arange(float(n)), np.arange(float(n)) + 2):
            assert jitted(x) == with_a_truth(x)


def with_parameters_of_the_same_names(x):
    d = np.zeros(len(x))

    class Queue:
        def __init__(self):
            self.k = 0

        def push(self, a, v):
            if x[a] > 0 or d[a] > 1:
                return False
            d[a] = v
            self.k += 1
            return True

        def pop(self):
            if self.k > len(x):
                return None
            self.k += 1
            return self.k - 1, 5

    def least(a, w):
        b = a if a < w else w
        return b

    q = Queue()
    q.push(0, 2.0)
    total = 0.0
    while True:
        c = q.pop()
        if c is None:
            break
        a, b = c
        total += least(a, b)
    for v in x:
        a = v if v > 1 else None
        if a is None:
            continue
        w = a
        total += least(w, 2.0)
    return q.k, total, d


def test_names_of_methods_are_their_own():
    jitted = tj.jit(with_parameters_of_the_same_names)
    for n in (1, 3, 12):
        for x in (np.arange(float(n)), np.zeros(n), np.arange(float(n)) - 1):
            for found, want in zip(jitted(x), with_parameters_of_the_same_names(x), strict=True):
                np.testing.assert_array_equal(found, want)
