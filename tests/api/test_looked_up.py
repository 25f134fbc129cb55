"""Items of lists, tuples and dicts at places that only the program knows, and the order of tuples that data decide."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ConcretizationError, TracejitError

DIRECTIONS = [(0, 1), (1, 0), (0, -1), (-1, 0)]
COSTS = {0: 1.5, 3: 2.5, -1: 7.0}


class Step(NamedTuple):
    y: int
    x: int


STEPS = (Step(0, 1), Step(1, 0), Step(2, 2))


def walk(grid, steps):
    y = x = d = score = 0
    for _ in range(steps):
        dy, dx = DIRECTIONS[d]
        if 0 <= y + dy < grid.shape[0] and 0 <= x + dx < grid.shape[1] and grid[y + dy, x + dx] != 1:
            y, x = y + dy, x + dx
            score += [10, 20, 30, 40][d]
        else:
            d = (d + 1) % 4
    return y, x, d, score


def of_arrays(i, a):
    chosen = [a, a + 1, a * 2][i[0]]
    return chosen * 2


def of_float32(i, a):
    return [np.float32(1), np.float32(2), np.float32(3)][i[0]] * a.astype(np.float32)


def of_traced(i, a):
    return (a[0], a[1], a[0] * 3)[i[0]] + [a.sum(), a.max(), a.min()][-1 - i[0]]


def of_strided(i, a):
    return [1, 2, 3, 4, 5, 6][::2][i[0]] * a


def of_dict(i, a):
    return COSTS[3 * i[0]] * a if i[0] >= 0 and i[0] < 2 else COSTS[-1] + a


def of_bools(i, a):
    return {True: 1, False: -1}[bool(i[0] > 1)] * [5, 7][a[0] > a[1]] if len(a) > 9 else {1: 4, 0: 3, 2: 9}[i[0]]


def nearest(i, a):
    best = (np.inf, -1)
    for k in range(len(a)):
        if (abs(a[k] - i[0]), k) < best:
            best = abs(a[k] - i[0]), k
    return best


def least_pair(i, a):
    return min((a[k], k) for k in range(len(a))), max(zip(a, a[::-1], strict=True)), min((a[0], 1), (a[1], 0))


def by_key(i, a):
    return min(range(len(a)), key=lambda k: (a[k] > 1, -k)) + i[0]


def ordered(i, a):
    p, q = (i[0], 3), (a[0], 3)
    return p == q, p != q, bool(p < q), bool(p >= q), [i[0], 1] == [2, 1], (i[0],) == (i[0], 1)


def until_in_order(i, a):
    p, q = (i[0], 0), (5, 1)
    while p < q:
        p = p[0] + 1, p[1]
    return p


FUNCTIONS = [
    of_arrays, of_float32, of_traced, of_strided, of_dict, of_bools, nearest, least_pair, by_key, ordered,
    until_in_order,
]  # fmt: skip


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*copy.deepcopy(args))
    except LookupError as error:
        return next(kind for kind in (KeyError, IndexError) if isinstance(error, kind))


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.int64, np.int8])
def test_as_in_python(f: Callable[..., Any], dtype: type):
    compiled = tj.jit(f)
    rng = np.random.default_rng(0)
    for i in (0, 1, 2, -1, -3, 3, 0):
        for n in (2, 3, 7):
            place, a = np.array([i], dtype), rng.integers(0, 4, n).astype(float)
            got, want = outcome(compiled, place, a), outcome(f, place, a)
            assert type(got) is type(want)
            if want is KeyError or want is IndexError:
                assert got is want
                continue
            got, want = [x if isinstance(x, tuple) else (x,) for x in (got, want)]
            for g, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(g, w)
                assert np.asarray(g).dtype == np.asarray(w).dtype


def test_a_walk_over_a_grid():
    compiled = tj.jit(walk)
    rng = np.random.default_rng(1)
    for shape, steps in (((5, 6), 40), ((4, 4), 5), ((7, 3), 0)):
        grid = rng.integers(0, 2, shape)
        assert compiled(grid, steps) == walk(grid, steps)
    assert "left to Python" not in compiled.explain()


def test_named_tuples_of_a_tuple():
    compiled = tj.jit(lambda i: STEPS[i[0]].y + 10 * STEPS[i[0]].x)
    for i in range(-3, 3):
        assert compiled(np.array([i])) == STEPS[i].y + 10 * STEPS[i].x


def test_a_list_from_outside_is_followed():
    table = [1, 2, 3]
    compiled = tj.jit(lambda i: table[i[0]] * 2)
    assert compiled(np.array([1])) == 4
    table[1] = 7
    assert compiled(np.array([1])) == 14
    table.append(9)
    assert compiled(np.array([-1])) == 18


def test_one_of_several_arrays_is_not_changed_in_place():
    def f(a, b, i):
        z = [a, b][i[0]]
        z[0] = 5.0
        return z

    with pytest.raises(TracejitError, match="depending on"):
        tj.jit(f)(np.ones(3), np.zeros(3), np.array([1]))


def test_derivatives_and_batches():
    def f(x, i):
        return [x[0] * 2, x[1] ** 2, x.sum()][i] * [1.0, 2.0, 3.0][i]

    x = np.array([1.5, -2.0, 4.0])
    for i, want in enumerate(([2.0, 0, 0], [0, -8.0, 0], [3.0, 3.0, 3.0])):
        np.testing.assert_allclose(tj.jit(tj.grad(f))(x, np.int64(i)), want)
    places = np.array([2, 0, 1, -1])
    np.testing.assert_allclose(tj.jit(tj.vmap(f, (None, 0)))(x, places), [f(x, i) for i in places])


def test_a_comparison_that_python_may_refuse_depending_on_data_is_refused():
    def f(a):
        return 1 if (a[0], None) < (a[1], 1) else 2

    with pytest.raises(TracejitError, match="data decide"):
        tj.jit(f)(np.array([1, 2]))


def test_a_recursion_that_data_end_says_so():
    def gcd(a, b):
        return a if b == 0 else gcd(b, a % b)

    with pytest.raises(ConcretizationError, match=r"data cannot say how deep a recursion goes: write a loop") as caught:
        tj.jit(lambda x: gcd(x[0], x[1]))(np.array([12, 18]))
    assert "source" not in str(caught.value).partition("\n")[0]


def test_a_while_whose_first_iteration_fails_as_a_loop_of_the_program_is_run_by_python():
    def f(x):
        a, i = 0, 0
        while i < 20:
            i += 1
            a = (2**63 - i) + x[0]
        return a

    x = np.array([1.0])
    assert tj.jit(f)(x) == f(x)


class Backwards(NamedTuple):
    n: Any

    def __lt__(self, other: Any) -> Any:
        return self.n > other.n


def test_a_class_that_says_itself_how_it_compares():
    def f(x):
        return (1 if Backwards(x[0]) < Backwards(x[1]) else 2), Backwards(x[0]) == Backwards(x[1])

    for x in (np.array([1, 2]), np.array([2, 1]), np.array([1, 1])):
        assert tj.jit(f)(x) == f(x)


FLAG_FUNCTIONS = [
    lambda x, p: [10, 20, 30][bool(x[0] > 0)],
    lambda x, p: [(1, 2), (3, 4)][not x[0] > 0][1],
    lambda x, p: ((0, 1), (1, 0))[p][0] + (5, 6)[p and bool(x[1] > 1)],
    lambda x, p: [x, x + 1][bool(x[0] > 0) and bool(x[1] > 0)] if p else 0 * x,
    lambda x, p: [1, 2.5][bool(x[0] > 0)] * x,
    lambda x, p: {True: 4, False: 3}[bool(x[0] > 0)] + {0: 1, 1: 7}[bool(x[1] > 0)],
]


@pytest.mark.parametrize("number", range(len(FLAG_FUNCTIONS)))
def test_bools_are_places(number: int):
    f = FLAG_FUNCTIONS[number]
    compiled = tj.jit(f)
    for x in ([1.0, 2.0], [-1.0, 2.0], [1.0, -2.0, 3.0], [-1.0, -1.0]):
        for p in (True, False):
            np.testing.assert_array_equal(compiled(np.array(x), p), f(np.array(x), p))


def test_a_bool_of_numpy_is_no_place():
    with pytest.raises((TypeError, TracejitError)):
        tj.jit(lambda x: [1, 2][x[0] > 0])(np.array([1.0]))


def written(i):
    table = [[0, 0], [0, 0]]
    table[i[0]][1] = 5
    return table


def counted(i):
    table = [[0, 0], [0, 0]]
    for k in i:
        table[k][1] += 1
    return table


def appended(i):
    table = {0: [1], 1: [2]}
    table[int(i[0])].append(3)
    return table


def by_name(i):
    table = [{"a": 1}, {"a": 2}]
    chosen = table[i[0]]
    chosen["a"] = 7
    return table


def changed_afterwards(i):
    table = [[2, 1], [5, 3]]
    chosen = table[i[0]]
    table[0][0] = 9
    return chosen


def in_a_tuple(i):
    table = [([2], 1), ([5], 3)]
    chosen, _ = table[i[0]]
    chosen[0] = 9
    return table


def one_of_them(i):
    table = [[2, 1], [5, 3]]
    return table[i[0]] is table[1]


@pytest.mark.parametrize(
    "f", [written, counted, appended, by_name, changed_afterwards, in_a_tuple, one_of_them], ids=lambda f: f.__name__
)
def test_lists_at_such_places_stay_as_they_are(f: Callable[..., Any]):
    with pytest.raises(TracejitError, match=r"depending on the data|known to the program alone"):
        tj.jit(f)(np.array([1, 0, 1]))


def test_lists_at_such_places_are_read():
    def f(i):
        table = [[1.0, 2.5], [4.0, 5.0]]
        table[1][0] = float(i[0])
        chosen = table[i[1]]
        return chosen[0], table[i[0]][i[1]], sum(chosen)

    compiled = tj.jit(f)
    for i in ([0, 0], [1, 0], [0, 1], [1, 1]):
        assert compiled(np.array(i)) == f(np.array(i))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, v: v is np.nan,
        lambda x, v: v is v + 0.0,
        lambda x, v: [1.5, 2.5, 2.5][x[0]] is v,
        lambda x, v: [1j, 2j, 2j][x[0]] is 1j * v,
    ],
)
def test_whether_numbers_are_one_object_is_not_known(f: Callable[..., Any]):
    with pytest.raises(TracejitError, match="known to Python alone"):
        tj.jit(f)(np.array([1, 0]), 1.5)


def test_what_a_lost_change_would_lead_to_is_no_error_of_the_function():
    def f(i):
        table = [[0, 0], [1, 1]]
        table[i[0]][0] = 5
        if table[0][0] == 0 and table[1][0] == 1:
            raise ValueError("lost")
        return table

    with pytest.raises(TracejitError, match="depending on the data"):
        tj.jit(f)(np.array([1]))


def test_the_greatest_by_a_key_may_be_none():
    def f(x):
        return max([None, 1.0], key=lambda t: 1 if t is None else 0), min(
            [3, None], key=lambda t: 0 if t is None else 1
        )

    assert tj.jit(f)(np.ones(2)) == f(np.ones(2))


def test_bools_that_are_pythons_or_numpys():
    def f(x, k):
        q = x[0] > 0 and k > 0
        return q & True, q is True, q ^ True, q | (x[1] > 0)

    compiled = tj.jit(f)
    for x in ([1.0, 2.0], [-1.0, 2.0], [-1.0, -2.0]):
        for k in (3, -3):
            assert compiled(np.array(x), k) == f(np.array(x), k)
