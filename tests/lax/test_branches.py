"""Branches as functions: how `cond` is called."""

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UserError


def test_an_operand_of_a_branch_may_be_named():
    f = tj.jit(lambda x: tj.lax.cond(np.sum(x) > 3, lambda a: 2 * a, lambda a: -a, operand=x))
    assert f(np.array([1.0, 3.0])).tolist() == [2.0, 6.0]
    assert f(np.array([1.0, 1.0])).tolist() == [-1.0, -1.0]
    assert tj.lax.cond(True, lambda a: a, lambda a: -a, operand=1.0) == 1.0
    assert tj.lax.cond(False, lambda a: 1.0, lambda a: 2.0, operand=None) == 2.0
    with pytest.raises(UserError, match=r"by place, or one by name \(operand=\)"):
        tj.lax.cond(True, lambda a, b: a, lambda a, b: b, 1.0, operand=2.0)


def test_the_backend_decides_which_function_is_called():
    def f(x):
        return tj.lax.platform_dependent(x, cpu=np.sin, opencl=np.tan, default=np.cos)

    x = np.linspace(0.1, 1.0, 4)
    for g, want in ((f, np.sin), (tj.jit(f), np.sin), (tj.jit(f, backend="reference"), np.sin)):
        np.testing.assert_allclose(g(x), want(x), rtol=1e-14)
    np.testing.assert_allclose(tj.vmap(f)(x), np.sin(x), rtol=1e-14)
    np.testing.assert_allclose(tj.grad(lambda x: np.sum(f(x)))(x), np.cos(x), rtol=1e-14)
    others = tj.jit(lambda x: tj.lax.platform_dependent(x, cuda=np.sin, default=np.cos))
    np.testing.assert_allclose(others(x), np.cos(x), rtol=1e-14)
    ours = tj.jit(lambda x: tj.lax.platform_dependent(x, reference=np.tan, cpu=np.sin), backend="reference")
    np.testing.assert_allclose(ours(x), np.tan(x), rtol=1e-14)
    with pytest.raises(UserError, match="no function for the backend 'cpu'; give it, or a default"):
        tj.jit(lambda x: tj.lax.platform_dependent(x, cuda=np.sin))(x)
