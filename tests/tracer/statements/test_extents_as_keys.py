"""Extents, and what is computed of them, looked for in containers that know their items by a hash."""

from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError

D = {3: 1.0, 1: 2.0, 8: 0.5}
S = {1, 3, 6}
SHAPES = {(3,): 1.0, (1,): 4.0}
PAIRS = {(3, "a"), (4, "b"), (3, (1, 2))}


class Table:
    def __init__(self):
        self.table = {3: 5.0, 4: 6.0}

    def __contains__(self, n):
        return n in self.table

    def weight(self, n):
        return self.table[n] if n in self.table else -1.0


def looked_up(x):
    if len(x) in D:
        return x * D[len(x)]
    return x * 0


def by_shape(x):
    return x * SHAPES[x.shape] if x.shape in SHAPES else x


def of_a_method(x):
    t = Table()
    return x * t.weight(len(x)), len(x) in t, (len(x), "a") in PAIRS, (len(x), (1, 2)) in PAIRS


def many(x):
    n = len(x)
    return [
        n in D, n in S, n in frozenset(S), n in D.keys(), (n, 1.0) in D.items(), n in MappingProxyType(D),
        n in Counter(S), n in defaultdict(int, D), n in OrderedDict(D), n in UserDict(D), n in deque(S), n in list(S),
        n in dict(D), n in {k for k in D}, n in set(range(2, 4)), n not in S, n + 1 in S, -n in S, n % 4 in S,
        x.nbytes in {8, 24}, x[1:].size in S, any(n in d for d in (D, S)), all(v in S for v in x.shape),
        [v for v in x.shape if v in S], (lambda v: v in D)(n), "yes" if n in D else "no", n in S and n in D,
        n in {1: 2, 3: 4}, n in {1, 3}, x.shape in {(3,), (2,)}, n in range(2, 5), np.int64(n) in S,
    ]  # fmt: skip


def counted_up(x):
    n = 0
    while len(x) + n not in S and n < 9:
        n += 1
    return n


class Pair(NamedTuple):
    rows: int
    columns: int


class Key(tuple):
    pass


def named(x):
    table = {Pair(3, 2): 1.0, Pair(6, 2): 2.0}
    n = len(x)
    return (
        Pair(n, 2) in table, Pair(n, 2) not in table, Pair(n, 2) in {*table}, (Pair(n, 2), "a") in {(Pair(3, 2), "a")},
        Key((n, 1)) in {Key((3, 1))}, Pair(n, 2) in table.keys(), (Pair(n, 2), 1.0) in table.items(),
        x * table[Pair(n, 2)] if Pair(n, 2) in table else x,
    )  # fmt: skip


def made_of_extents(x, y):
    d = {len(x): 1}
    if len(y) in d:
        del d[len(y)]
    return len(d), len(x) in {len(y): 1}.keys(), (len(x), len(y)) in {(3, 3), (4, 5)}


@pytest.mark.parametrize("function", [looked_up, by_shape, of_a_method, many, counted_up, named])
@pytest.mark.parametrize("dynamic", [None, True])
def test_extents_are_numbers_to_containers(function, dynamic):
    f = tj.jit(function) if dynamic is None else tj.jit(function, dynamic_shapes=True)
    for n in (4, 5, 3, 1, 8, 3, 6, 0):
        for _ in range(2):
            same(f(np.arange(1.0, n + 1)), function(np.arange(1.0, n + 1)))


def test_keys_that_are_extents():
    f = tj.jit(made_of_extents)
    for n, m in ((3, 4), (4, 5), (3, 3), (5, 5), (6, 3)):
        same(f(np.ones(n), np.ones(m)), made_of_extents(np.ones(n), np.ones(m)))


@pytest.mark.parametrize("transform", [tj.grad, tj.vmap])
def test_under_transformations(transform):
    f = lambda x: np.sum(looked_up(x))  # noqa: E731
    g = tj.jit(transform(f))
    for n in (4, 5, 3, 8):
        x = np.arange(1.0, n + 1)
        if transform is tj.grad:
            same(g(x), np.full(n, D.get(n, 0.0)))
        else:
            same(g(np.stack([x, x])), np.full(2, f(x)))


def same(found, right):
    if isinstance(right, (list, tuple)):
        assert type(found) is type(right)
        for a, b in zip(found, right, strict=True):
            same(a, b)
    else:
        np.testing.assert_array_equal(found, right)


class WithDefault(dict):
    def __missing__(self, key):
        return -1.0


COUNTED = {0: 1.0, 3: 5.0, 2: 4.0, 1: 7.0, 4: 8.0, 5: 9.0}


@pytest.mark.parametrize("f", [
    lambda n: COUNTED[n], lambda n: COUNTED[n] if n in COUNTED else -1.0, lambda n: WithDefault(COUNTED)[n],
    lambda n: Counter([3, 3, 2])[n], lambda n: defaultdict(float, {3: 5.0})[n], lambda n: OrderedDict(COUNTED)[n],
    lambda n: {(3, 1): 2.0, (2, 1): 3.0, (5, 1): 3.0, (4, 1): 3.0}[n, 1],
    lambda n: defaultdict(float, {(3, 1): 2.0})[n, 1],
    lambda n: COUNTED[round(n, -1)],
])  # fmt: skip
@pytest.mark.parametrize("count", [lambda x: len(x[x > 0]), lambda x: x[x > 0].size, lambda x: len(np.unique(x))])
def test_counts_of_the_program_as_keys(f, count):
    """They are numbers, or refused: no key is missed for what a trace calls them by."""

    def g(x):
        return f(count(x))

    def caught(x):
        try:
            return f(count(x))
        except KeyError:
            return -1.0

    for function in (g, caught):
        compiled = tj.jit(function)
        for x in (np.array([1.0, -2, 3, -4, 5]), np.array([1.0, 2, -3, -4, -5]), np.array([1.0, 2, 3, -4, 5])):
            try:
                want = function(x)
            except KeyError:
                continue
            try:
                got = compiled(x)
            except TracejitError:
                continue
            assert got == want
