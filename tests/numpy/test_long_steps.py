"""Steps that lead beyond any array, also from places that only the program knows."""

import numpy as np
import pytest

import tracejit as tj

STEPS = [2**40, 2**62, 2**62 + 1, 2**63 - 2, 2**63 - 1, -(2**40), -(2**62), -(2**63) + 1, -(2**63)]
SIZES = [4, 5, 3, 0, 1, 9]


def parts(x, s):
    return x[::s], x[::s].sum(), x[::-1][::s], x[1:][::s], x[::2][::s], x[: len(x) // 2 : s]


def changed(x, s):
    x[::s] += 5
    x[::-1][::s] -= 2
    return x


def counted(x, s):
    n = 0
    for i in range(0, len(x), s) if s > 0 else range(len(x), 0, s):
        n += i + 1
    return n


def ranges(x, s):
    return np.arange(0, len(x), s), np.arange(len(x), 0, s)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("function", [parts, changed, counted, ranges])
def test_steps_beyond_the_end(function, step):
    f = tj.jit(lambda x: function(x, step))
    for n in SIZES:
        x = np.arange(1.0, n + 1)
        for found, right in zip(as_list(f(x.copy())), as_list(function(x.copy(), step)), strict=True):
            np.testing.assert_array_equal(found, right)


def as_list(x):
    return x if isinstance(x, tuple) else (x,)


def test_a_step_that_is_an_argument():
    f = tj.jit(lambda x, s: x[::s])
    for n in SIZES:
        np.testing.assert_array_equal(f(np.arange(n), 2**63 - 1), np.arange(n)[:: 2**63 - 1])
