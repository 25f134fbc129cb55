"""Functions and ufuncs of NumPy take lists and tuples with traced numbers in them, as they take others."""

import numpy as np
import pytest
from numpy import sqrt

import tracejit as tj

CALLS = [
    "np.sqrt([x[0],x[1]])",
    "sqrt((x[0],2.))",
    "np.multiply([x[0],1.],2)",
    "np.maximum([x[0],x[1]],0)",
    "np.abs([x[0],-1])",
    "np.sort([x[0],x[2],2])",
    "np.median([x[0],x[2],2])",
    "np.unique([x[0],x[2],2])",
    "np.round([x[0],.55],1)",
    "np.histogram([x[0],x[2]],bins=3,range=(0,4))[0]",
    "np.fft.fft([x[0],1])",
    "np.allclose([x[0]],[3.])",
    "np.exp([[x[0],1],[2,x[1]]])",
    "np.isnan([x[0]])",
    "np.hypot(*[x[0],x[1]])",
    "np.argsort([x[0],x[2]])",
    "np.percentile([x[0],x[1],x[2]],50)",
    "np.searchsorted([0,x[2],x[1]],x[0])",
    "np.linalg.norm([x[0],x[1]])",
    "np.logical_and([x[0]>1,x[1]>5],True)",
    "np.isin(x,[x[0],9])",
    "np.interp(x[0],[0,x[1]],[0,1])",
    "np.std([x[0],x[1]])",
    "np.diff([x[0],x[1]])",
    "np.ptp([x[0],x[1]])",
    "np.average([x[0],x[1]],weights=[1,x[0]])",
]


@pytest.mark.parametrize("call", CALLS)
def test_lists_with_traced_numbers(call):
    x = np.array([3.0, 4.0, 1.0])
    space = {"np": np, "sqrt": sqrt}
    function = eval(f"lambda x: {call}", space)
    got, want = tj.jit(function)(x), function(x)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    np.testing.assert_allclose(got, want, rtol=1e-15)


def test_ufuncs_are_themselves():
    def f(x):
        return np.add is np.add, isinstance(np.add, np.ufunc), np.add.reduce(x), np.add.nin, np.multiply.outer(x, x)

    got, want = tj.jit(f)(np.arange(3.0)), f(np.arange(3.0))
    assert got[:4] == want[:4]
    np.testing.assert_array_equal(got[4], want[4])
