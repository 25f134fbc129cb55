"""Names that hold the size of an array and are bound anew in loops and branches are numbers of the program."""

import numpy as np
import pytest

import tracejit as tj


def binary_search(x, k):
    x = np.cumsum(x)
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < 2.0:
            low = middle + 1
        else:
            high = middle
    return low


def one_less(x, k):
    n = len(x)
    if k > 2:
        n = n - 1
    return n, x.sum()


def on_one_side(x, k):
    if k > 2:
        n = len(x)
    else:
        n = 0
    return n * 2.0


def halved(x, k):
    n, steps = len(x), 0
    while steps < k + 3 and n > 0:
        n = n // 2
        steps += 1
    return n, steps


def first_place(x, k):
    best = len(x)
    for i in range(len(x)):
        if x[i] > 0.5:
            best = min(best, i)
    return best


def conditional(x, k):
    return len(x) if k > 2 else -1


def turned_round(x, k):
    last = len(x) - 1
    i = 0
    while i < last:
        x[i], x[last] = x[last], x[i]
        i += 1
        last -= 1
    return x


def comb_sort(x, k):
    gap = len(x)
    swapped = True
    while gap > 1 or swapped:
        gap = max(1, int(gap / 1.3))
        swapped = False
        for i in range(len(x) - gap):
            if x[i] > x[i + gap]:
                x[i], x[i + gap] = x[i + gap], x[i]
                swapped = True
    return x


def heap_sort(x, k):
    end, start = len(x), len(x) // 2
    while end > 1:
        if start > 0:
            start = start - 1
        else:
            end = end - 1
            x[end], x[0] = x[0], x[end]
        root = start
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and x[child] < x[child + 1]:
                child = child + 1
            if x[root] < x[child]:
                x[root], x[child] = x[child], x[root]
                root = child
            else:
                break
    return x


def last_container(x, k):
    total = 0.0
    for i in range(len(x) - 1):
        pair = {"a": x[i], "b": x[i + 1]}
        total += pair["a"] * pair["b"]
    return total, pair["a"]


@pytest.mark.parametrize(
    "function",
    [binary_search, one_less, on_one_side, halved, first_place, conditional, turned_round, comb_sort, heap_sort,
     last_container],
)  # fmt: skip
def test_sizes_are_numbers_that_loops_and_branches_hand_on(function):
    jitted = tj.jit(function)
    for n in (9, 9, 12, 5, 2, 7):
        for k in (1, 4):
            x = np.random.default_rng(n + k).random(n)
            ours, theirs = x.copy(), x.copy()
            np.testing.assert_allclose(jitted(ours, k), function(theirs, k), rtol=1e-12)
            np.testing.assert_array_equal(ours, theirs)
