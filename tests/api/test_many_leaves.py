"""Arguments and results of very many arrays and numbers: work that grows with their number, and a limit with advice."""

import cProfile
import pstats

import numpy as np
import pytest

import tracejit as tj
from tracejit.api.signature import MOST_LEAVES
from tracejit.support.errors import UserError


def floats(n):
    return [0.5 * k for k in range(n)]


def arrays(n):
    return [np.arange(3.0) + k for k in range(n)]


def increments(t):
    for a in t:
        a += 1
    return t[0].sum()


CASES = {
    "numbers": (lambda t: t[0] + t[-1], floats),
    "numbers that become an array": (lambda t: np.array(t), floats),
    "a sum of numbers": (lambda t: sum(t), floats),
    "a sum of arrays": (lambda t: sum(t), arrays),
    "arrays after each other": (lambda t: np.concatenate(t), arrays),
    "arrays on top of each other": (lambda t: np.stack(t, axis=1), arrays),
    "pairs": (lambda t: t[0][1] + t[-1][0], lambda n: [(float(k), k) for k in range(n)]),
    "a dict": (lambda d: sum(d.values()), lambda n: {f"k{k}": x for k, x in enumerate(arrays(n))}),
    "strings": (lambda t: np.ones(len(t)), lambda n: [f"s{k}" for k in range(n)]),
    "arrays changed in place": (increments, arrays),
    "results": (lambda x: [x + k for k in range(len(x))], lambda n: np.arange(float(n))),
}


def calls(function, argument) -> int:
    """The Python functions that a first call calls: does not depend on how fast the machine is."""
    profile = cProfile.Profile()
    profile.runcall(tj.jit(function), argument)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CASES)
def test_four_times_as_many_take_about_four_times_the_work(name):
    function, make = CASES[name]
    calls(function, make(30))
    few, many = calls(function, make(100)), calls(function, make(400))
    assert many < 6 * few


@pytest.mark.parametrize("name", CASES)
def test_many_leaves_mean_what_they_mean_in_numpy(name):
    function, make = CASES[name]
    f = tj.jit(function)
    for _ in range(2):
        mine, theirs = make(500), make(500)
        found, expected = f(mine), function(theirs)
        for a, b in zip(
            found if isinstance(found, list) else [found],
            expected if isinstance(expected, list) else [expected],
            strict=True,
        ):
            np.testing.assert_allclose(a, b)
        if name == "arrays changed in place":
            np.testing.assert_array_equal(mine, theirs)


def test_one_array_given_twice_among_many_that_are_changed():
    f = tj.jit(increments)
    t = arrays(40)
    f(t)
    same = arrays(40)
    same[7] = same[31]
    expected = same[31] + 2
    f(same)
    np.testing.assert_array_equal(same[31], expected)
    whole = np.arange(10.0)
    t = arrays(40)
    t[3], t[30] = whole[:3], whole[2:5]
    with pytest.raises(UserError, match="overlap in memory"):
        f(t)


def test_too_many_are_refused_with_advice():
    f = tj.jit(lambda t: t[0])
    assert f(floats(MOST_LEAVES)) == 0.0
    with pytest.raises(
        UserError, match=r"contain 100,000 arrays, numbers and other values, more than the 2,048 .*np.array\(x\)"
    ):
        f(floats(100_000))
    with pytest.raises(UserError, match=r"returned 3,000 arrays and numbers, more than the 2,048 .*np.stack"):
        tj.jit(lambda x: [x + k for k in range(3000)])(np.ones(2))
