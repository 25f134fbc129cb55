"""What is fused of whole functions: row statistics join the loops over their rows, and are never computed again for every column."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


def normalised(x: Any) -> Any:
    return x / np.sum(x, axis=1, keepdims=True)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


X = np.random.default_rng(0).uniform(1, 2, (50, 30))


def kernels(f: Callable[..., Any]) -> int:
    compiled = tj.jit(f)
    np.testing.assert_allclose(compiled(X), f(X), rtol=1e-13)
    return len(compiled.lower(X).program.kernels())


@pytest.mark.parametrize("f", [normalised, softmax, lambda x: np.cumsum(normalised(x), axis=1), lambda x: np.sum(softmax(x) ** 2, axis=1)])
def test_row_statistics_join_loops_over_rows(f: Callable[..., Any]):
    assert kernels(f) == 1


AGAINST_ROWS: dict[str, Callable[..., Any]] = {
    "a scan down the columns": lambda x: np.cumsum(normalised(x), axis=0),
    "a sum down the columns": lambda x: np.sum(normalised(x), axis=0),
    "a transpose": lambda x: np.transpose(normalised(x)),
    "a transpose of a softmax": lambda x: np.transpose(softmax(x)),
    "a transpose, then cheap work": lambda x: np.transpose(normalised(x)) * 2 + 1,
}


@pytest.mark.parametrize("case", AGAINST_ROWS)
def test_row_statistics_are_stored_where_columns_are_the_outer_loop(case: str):
    assert kernels(AGAINST_ROWS[case]) == 2
