"""Masks of no axes beside other indices, bools as numbers, and other finds of random programs."""

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError, UnsupportedError


def first(x):
    x[x[0] > 1, 2] = 9
    return x


def last(x):
    x[2, x[0] > 1] = 9
    return x


def in_place(x):
    x[x[0] > 1, 2] += 9
    return x


def read(x):
    return x[x[0] > 1, 2].sum() + x[2, x[0] > 1].sum()


def in_a_loop(x):
    for i in range(3):
        x[x[i] > 1, i] = i
        x[i, x[i] > 1] -= 1
    return x


def of_an_array(x):
    x[x[0] > 1, 2] = np.array([4.0])
    return x


def through_a_view(x):
    y = x[1:]
    y[x[0] > 1, 0] *= 3
    return x


def two_numbers(x):
    a = x[:, None] + x
    a[a[0, 0] > 1, 1, 2] = 5
    a[1, a[0, 0] > 1, 0] = 6
    return a


def a_row(x):
    a = x[:, None] + x
    a[a[0, 0] > 1, 1] = 5
    a[a[0, 0] > 3, 2, 1:] = np.arange(4.0)
    return a


@pytest.mark.parametrize(
    "function", [first, last, in_place, read, in_a_loop, of_an_array, through_a_view, two_numbers, a_row]
)
def test_masks_of_no_axes(function):
    jitted = tj.jit(function)
    for x in ([2.0, 2, 5, 0, 4], [0.0, 1, 2, 3, 4], [5.0, 1, 2, 0, 3]):
        ours, theirs = np.array(x), np.array(x)
        np.testing.assert_array_equal(jitted(ours), function(theirs))
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros((0, 3)), np.array([1.0, 2.0])])
def test_a_diagonal_of_nothing(values):
    def fill(x, values):
        np.fill_diagonal(x, values)
        return x

    np.testing.assert_array_equal(tj.jit(fill)(np.full((3, 3), 0.5), values), fill(np.full((3, 3), 0.5), values))


def test_bools_to_the_power_of_their_number():
    jitted = tj.jit(lambda x: x ** x.shape[0])
    for n in (3, 4, 2, 5, 2, 1):
        x = np.arange(n) % 2 == 0
        got, want = jitted(x), x**n
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_a_bool_that_one_side_of_a_branch_makes_a_number():
    def count(x):
        s = True
        if x[0] > 3:
            s = s + x[0]
        return s

    with pytest.raises(ShapeError, match=r"i64.* in the true branch and a Python bool"):
        tj.jit(count)(np.array([1, 2]))


def test_sums_over_many_axes():
    x = np.arange(2.0**13).reshape((2,) * 13)
    assert tj.jit(lambda x: x.sum())(x) == x.sum()


def test_index_arrays_beside_slices_that_a_number_ends():
    def beside(x, k, i):
        return x[k, :i].sum()

    def after(x, k, i):
        return x[:, :i][k].sum()

    x, k = np.arange(16.0).reshape(4, 4), np.array([0, 2])
    with pytest.raises(UnsupportedError, match="an index array beside a slice whose bounds are numbers"):
        tj.jit(beside)(x, k, 2)
    assert tj.jit(after)(x, k, 2) == beside(x, k, 2)
