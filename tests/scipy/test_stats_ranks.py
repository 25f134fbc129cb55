"""Ranks and modes, against SciPy."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats

import tracejit as tj
from tracejit.scipy.stats import mode, rankdata
from tracejit.support.errors import ShapeError

RNG = np.random.default_rng(0)


def values(shape: Any, nan: float = 0.0) -> np.ndarray[Any, Any]:
    x = RNG.integers(0, 5, shape).astype(float)
    return np.where(RNG.random(shape) < nan, np.nan, x)


@pytest.mark.parametrize(
    ("method", "policy"),
    [("average", "propagate"), ("min", "omit"), ("max", "omit"), ("dense", "propagate"), ("ordinal", "omit")],
)
def test_ranks_of_equal_elements(method: str, policy: str):
    f = tj.jit(lambda x: rankdata(x, method, axis=1, nan_policy=policy))
    for shape in ((3, 7), (2, 12), (4, 1)):
        x = values(shape, 0.1)
        np.testing.assert_array_equal(f(x), scipy.stats.rankdata(x, method, axis=1, nan_policy=policy))
    x = RNG.integers(0, 4, (3, 4))
    np.testing.assert_array_equal(rankdata(x, method), scipy.stats.rankdata(x, method), strict=True)


@pytest.mark.parametrize(("axis", "keepdims"), [(0, False), (1, True), (None, False), ((0, 2), True)])
@pytest.mark.parametrize("policy", ["propagate", "omit"])
def test_modes_over_axes(axis: Any, keepdims: bool, policy: str):
    x = values((3, 4, 5), 0.3)
    got = mode(x, axis, policy, keepdims)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = scipy.stats.mode(x, axis, policy, keepdims)
    np.testing.assert_array_equal(got.mode, want.mode)
    np.testing.assert_array_equal(got.count, want.count)


def test_one_program_has_modes_of_all_sizes_and_batches():
    f = tj.jit(lambda x: mode(x))
    for n in (5, 30, 1, 2, 0):
        x = values(n)
        got, want = f(x), scipy.stats.mode(x) if n else (np.nan, 0)
        np.testing.assert_array_equal([got.mode, got.count], want)
    x = values((4, 9))
    np.testing.assert_array_equal(tj.jit(tj.vmap(lambda r: mode(r).mode))(x), scipy.stats.mode(x, axis=1).mode)
    np.testing.assert_array_equal(tj.jit(tj.vmap(lambda r: rankdata(r)))(x), scipy.stats.rankdata(x, axis=1))
    np.testing.assert_array_equal(tj.jit(lambda r: rankdata(r), backend="reference")(x[0]), scipy.stats.rankdata(x[0]))


def test_bad_arguments_are_refused():
    with pytest.raises(ShapeError, match="unknown method"):
        rankdata(np.ones(3), "best")
    with pytest.raises(ShapeError, match="nan_policy"):
        mode(np.ones(3), nan_policy="skip")
    with pytest.raises(ValueError, match="contains nan"):
        tj.jit(lambda x: mode(x, nan_policy="raise"))(np.array([1.0, np.nan]))
