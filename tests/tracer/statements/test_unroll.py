"""`tj.unroll`: loops that are written out."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ConcretizationError

X = np.arange(1.0, 51.0)


def listed(x: Any) -> Any:
    parts: list[Any] = []
    for i in tj.unroll(range(40)):
        parts.append(x[i] * i)
    return np.stack(parts)


def shapes(x: Any) -> Any:
    return [np.ones(k) * x[k] for k in tj.unroll(range(1, 5))]


def left_early(x: Any) -> Any:
    for k in tj.unroll(range(30)):
        if x[k] > 10:
            break
        x = x + k
    return x


def of_pairs(x: Any) -> Any:
    total = 0.0
    for k, name in tj.unroll(enumerate("abcd")):
        total += x[k] if name < "c" else -x[k]
    return total


def of_the_extent(x: Any) -> Any:
    total = 0.0
    for k in tj.unroll(range(len(x))):
        total += x[k] / (k + 1)
    return total


@pytest.mark.parametrize("f", [listed, shapes, left_early, of_pairs, of_the_extent])
def test_as_python(f: Any):
    compiled = tj.jit(f)
    for n in (50, 40, 45):
        got, want = compiled(X[:n]), f(X[:n])
        for g, w in zip(got, want, strict=True) if isinstance(want, list) else [(got, want)]:
            np.testing.assert_allclose(g, w)


def test_it_is_written_out():
    assert tj.jit(of_the_extent).lower(X).text("jaxpr").count(" div ") == len(X)


def test_outside_of_traces_it_is_the_iterable():
    assert list(tj.unroll(range(3))) == [0, 1, 2]
    assert len(tj.unroll(range(3))) == 3


def test_a_number_of_items_that_data_decide():
    def f(x: Any) -> Any:
        total = 0.0
        for k in tj.unroll(range(int(x[0]))):
            total += x[k]
        return total

    with pytest.raises(ConcretizationError, match=r"range\(\) needs the value"):
        tj.jit(f)(X)
