"""Random functions of many kernels that differ in constants only, against NumPy."""

import copy

import numpy as np
import pytest

import tracejit as tj
from tests.generators.alike import function_of


def check(seed):
    function, text, writer = function_of(seed)
    jitted = tj.jit(function)
    for n in (9, 4, 17, 6):
        arguments = writer.arguments(n, seed)
        theirs, ours = copy.deepcopy(arguments), copy.deepcopy(arguments)
        want, got = function(*theirs), jitted(*ours)
        for k, (a, b) in enumerate(zip((*got, *ours), (*want, *theirs), strict=True)):
            # sums are of few small numbers, halves of integers: they are exact
            np.testing.assert_array_equal(a, b, err_msg=f"seed {seed}, n {n}, result {k} of\n{text}", strict=True)


@pytest.mark.parametrize("seed", range(30))
def test_kernels_that_differ_in_constants(seed):
    check(seed)


def test_the_columns_of_pairs_stay_apart():
    """Two kernels for the two columns of an array became one, which knew only one of them."""
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32, np.int64):
        p = (rng.random((20, 2)) * 9).astype(dtype)
        f = tj.jit(lambda p: (np.lexsort((p[:, 1], p[:, 0])), np.sort(p[:, 0]), np.sort(p[:, 1])))
        for got, want in zip(f(p), f.__wrapped__(p), strict=True):
            np.testing.assert_array_equal(got, want)
