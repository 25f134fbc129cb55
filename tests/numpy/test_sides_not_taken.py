"""What NumPy refuses counts where it runs: on a side of a branch that is taken; and batches of nothing."""

import numpy as np
import pytest

import tracejit as tj


def changes(x, c):
    if c[0] > 0:
        x[0] += 1
    return x


def stores(x, c):
    y = np.zeros(2, np.uint8)
    if c[0] > 0:
        y[0] = 300
    else:
        y[0] = 3
    return y


def reads(x, c):
    return x[2] if c[0] > 0 else x.sum()


def in_a_loop(x, c):
    s = 0.0
    for k in range(len(c)):
        if c[k] > 0:
            s += x[5]
        else:
            s += k
    return s


def both(x, c):
    if c[0] > 0:
        return x[7]
    return x[8]


def powers(x, c):
    k = np.arange(3)
    if c[0] > 0:
        return k**-1
    return k


def again(f, *args):
    copies = [x.copy() for x in args]
    try:
        return f(*copies), copies
    except Exception as error:
        return type(error), [x.copy() for x in args]


@pytest.mark.parametrize("function", [changes, stores, reads, in_a_loop, both, powers])
def test_errors_of_numpy_s_on_one_side_of_a_branch(function):
    jitted = tj.jit(function)
    for x in (np.zeros(0), np.ones(2), np.ones(3), np.ones(9)):
        for c in ([-1, -2], [1, -1], [-1, 2], [-3]):
            (want, theirs), (got, ours) = again(function, x, np.array(c)), again(jitted, x, np.array(c))
            if isinstance(want, type):
                assert issubclass(got, want)
            else:
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(ours[0], theirs[0])


def halvings(k):
    n = 0
    while k > 1:
        k = k // 2
        n += 1
    return n


def total(k):
    s = 0
    for i in range(k):
        s += i
    return s


def inserted(x):
    x = x.copy()
    for i in range(1, len(x)):
        j = i
        while j > 0 and x[j - 1] > x[j]:
            x[j - 1], x[j] = x[j], x[j - 1]
            j -= 1
    return x


@pytest.mark.parametrize(
    ("function", "batches"),
    [
        (halvings, [np.arange(2, 5), np.zeros(0, int), np.array([7])]),
        (total, [np.arange(2, 5), np.zeros(0, int), np.array([7])]),
        (inserted, [np.eye(3, 4), np.zeros((0, 4)), np.zeros((2, 0)), -np.eye(3)]),
    ],
)
def test_loops_over_batches_of_nothing(function, batches):
    jitted = tj.jit(tj.vmap(function))
    for batch in batches:
        want = [function(x) for x in batch]
        got = jitted(batch)
        assert got.shape[0] == len(batch)
        if want:
            np.testing.assert_array_equal(got, want)
