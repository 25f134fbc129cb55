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
