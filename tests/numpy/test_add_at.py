"""np.add.at in traced functions: repeated indices count each time."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError


def counted(x, index, value):
    x = x.copy()
    np.add.at(x, index, value)
    return x


@pytest.mark.parametrize("value", [1.0, np.arange(6.0)])
def test_index_arrays_count_repetitions(value):
    index = np.array([0, 3, 3, -1, 3, 0])
    np.testing.assert_array_equal(tj.jit(counted)(np.ones(5), index, value), counted(np.ones(5), index, value))


def test_slices_and_integers_add_in_place():
    x = np.arange(12.0).reshape(3, 4)
    for index in (1, (slice(None), 2), slice(0, 2)):
        np.testing.assert_array_equal(tj.jit(counted)(x, index, 5.0), counted(x, index, 5.0))


def test_pairs_of_index_arrays():
    x, rows, columns = np.zeros((3, 3)), np.array([0, 2, 2, 0]), np.array([1, 1, 1, 1])

    def pairs(x, rows, columns):
        x = x.copy()
        np.add.at(x, (rows, columns), 1.0)
        return x

    np.testing.assert_array_equal(tj.jit(pairs)(x, rows, columns), pairs(x, rows, columns))


def test_places_out_of_range_in_a_short_loop_that_is_written_out():
    """Each copy of the loop's body has a condition of its own, and may have an address that is none."""
    x = np.arange(12.0).reshape(2, 6)
    f = tj.jit(lambda x, k: tj.vmap(lambda x: tj.vmap(lambda i: x.at[np.array([0, 1]) + i].add(0.5))(k))(x))
    assert "unroll" in f.lower(x, np.array([2, 3])).text("scheduled")
    for starts in ([2, 3], [5, -1], [10**12, 0], [-(10**12), 10**15]):
        want = np.stack([x, x], axis=1)
        for row, start in enumerate(starts):
            for place in (start, start + 1):
                if -6 <= place < 6:
                    want[:, row, place] += 0.5
        np.testing.assert_array_equal(f(x, np.array(starts)), want)


def test_with_a_mask_one_number_is_added():
    def f(x: Any, m: Any, v: Any) -> Any:
        np.add.at(x, m, v)
        return x

    mask = np.array([True, False, True])
    for v in (2.0, np.ones(1), np.array(3.0)):
        np.testing.assert_array_equal(tj.jit(f)(np.zeros(3), mask, v), f(np.zeros(3), mask, v))
    for v in (np.ones(3), np.ones(4), np.ones(2)):  # NumPy takes the last, two for two, and raises for the others
        with pytest.raises(UnsupportedError, match="takes one number"):
            tj.jit(f)(np.zeros(3), mask, v)


def test_integers_into_bools():
    """NumPy makes a bool of each sum: True - 1 is False, which no sum of all and no `or` gives."""
    b = np.array([True, False, True])
    tj.jit(lambda b, v: np.add.at(b, np.array([0, 0, 1]), v))(b, np.array([-1, 0, -1]))
    assert b.tolist() == [False, True, True]
    b[0] = True
    f = tj.jit(lambda b, v: np.add.at(b, np.array([0, 0, 1]), v))
    f(b, np.array([False, False, True]))
    assert b.tolist() == [True, True, True]
