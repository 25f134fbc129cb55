"""`np.piecewise`, whose functions get the elements for which their condition holds."""

import numpy as np
import pytest

import tracejit as tj

CALLS = [
    "np.piecewise(x, [x > 1, x <= 1], [lambda v: v - v.mean(), lambda v: v * 2])",
    "np.piecewise(x, [x > 1], [lambda v: v.sum(), lambda v: np.cumsum(v)])",
    "np.piecewise(x, [x > 1], [lambda v: v.size, lambda v: v[::-1]])",
    "np.piecewise(x, [x > 1, x < 0], [lambda v: np.sort(v), -1.0, 7.0])",
    "np.piecewise(x, [x < 0, x >= 0], [-1, 1])",
    "np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: np.sqrt(v)])",
    "np.piecewise(x, [x > 100], [lambda v: v * 2, lambda v: v + 1])",
    "np.piecewise(np.stack([x, x * 2]), [np.array([True, False])], [lambda v: v * 2, lambda v: v.sum()])",
    "np.piecewise(np.stack([x, x * 2]), [np.stack([x, x * 2]) > 2], [lambda v: v * 2, lambda v: v.sum()])",
    "np.piecewise(x.astype(int), [x > 1], [lambda v: v / 2, lambda v: v * 1.5])",
    "np.piecewise(x, x > 1, [lambda v, k: v + k, lambda v, k: k], 5)",
]


@pytest.mark.parametrize("call", CALLS)
def test_as_numpy(call: str):
    f = eval(f"lambda x: {call}")
    jitted = tj.jit(f)
    for n in (1, 3, 5, 12):
        for x in (np.arange(float(n)), np.arange(float(n)) - 2, np.arange(float(n))[::-1] + 1):
            np.testing.assert_allclose(jitted(x), f(x), rtol=1e-14, strict=True)


def test_derivatives():
    got = tj.jit(tj.grad(lambda x: np.piecewise(x, [x > 1], [lambda v: v * v.sum(), lambda v: 3 * v]).sum()))
    np.testing.assert_allclose(got(np.array([0.5, 2.0, 1.0, 3.0])), [3.0, 10.0, 3.0, 10.0])
    root = tj.jit(tj.grad(lambda x: np.piecewise(x, [x > 0], [lambda v: np.sqrt(v), 0.0]).sum()))
    np.testing.assert_allclose(root(np.array([0.0, 4.0, -1.0])), [0.0, 0.25, 0.0])
