"""Sums of numbers and of arrays of rank 0 begin with 0: of -0.0 they are 0.0, as those of longer arrays."""

import numpy as np
import pytest

import tracejit as tj


@pytest.mark.parametrize("function", [np.sum, np.nansum, np.mean, np.prod, np.max])
@pytest.mark.parametrize(
    "x", [-0.0, np.float32(-0.0), np.array(-0.0), np.array([-0.0]), np.full((1, 2), -0.0)], ids=repr
)
def test_the_sign_of_zero(function, x):
    found, want = tj.jit(function)(x), function(x)
    assert np.array_equal(np.signbit(found), np.signbit(want))
