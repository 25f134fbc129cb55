# ruff: noqa: RUF060 -- written as users do

import numpy as np
import pytest

import tracejit as tj


def in_a_loop(k):
    s = 0
    for i in range(len(k)):
        if k[i] in (1, 3):
            s += 1
        elif k[i] not in [0, 5]:
            s += 100
    return s


def in_sets(k):
    s = 0
    for v in k:
        if v in {2, 7} and v not in (s,):
            s += v
    return s


def of_an_argument(k, n):
    return k * 2 if n in (1, 2) else k


def among_traced_ones(k):
    m = k.sum() in (k[0], k[-1], 6)
    return m


def of_sizes(k):
    return k.shape[0] in (3, 4), len(k) in {5}, 3 in (len(k), 7)


def beside_text_and_none(k):
    return k[0] in ("a", None, 1)


def in_nothing(k):
    return k[0] in ()


def floats_and_bools(k):
    x = k * 0.5
    return x[0] in (0.5, 1), x[1] in [True]


def in_a_while(k):
    n = 0
    while k[n % len(k)] not in (0, 9) and n < 20:
        n += 1
    return n


def of_python_s_own(k):
    return [v in (1, 2) for v in (1, 3)], "a" in ("a", "b")


@pytest.mark.parametrize(
    ("function", "more"),
    [
        (in_a_loop, ()),
        (in_sets, ()),
        (of_an_argument, (1,)),
        (of_an_argument, (3,)),
        (among_traced_ones, ()),
        (of_sizes, ()),
        (beside_text_and_none, ()),
        (in_nothing, ()),
        (floats_and_bools, ()),
        (in_a_while, ()),
        (of_python_s_own, ()),
    ],
)
def test_numbers_among_elements_in_the_code(function, more):
    jitted = tj.jit(function)
    for values in ([1, 2, 3], [3, 3, 9, 0], [5, 0, 1, 7, 2], [0, 0], [6, 0, 0]):
        k = np.array(values)
        got, want = jitted(k, *more), function(k, *more)
        assert repr(got) == repr(want) or (np.ndim(want) == 0 and got == want)


def test_a_nan_is_among_itself():
    def f(x):
        y = x[0]
        return y in (1.0, y), x[0] in (1.0, x[0])

    assert tj.jit(f)(np.array([np.nan])) == f(np.array([np.nan])) == (True, False)


def test_elements_are_evaluated_once():
    calls = []

    def f(x):
        def seen(v):
            calls.append(v)
            return v

        return x[0] in (seen(1), seen(2))

    tj.jit(f)(np.array([2]))
    assert calls == [1, 2]
