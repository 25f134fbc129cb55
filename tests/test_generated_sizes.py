"""One compiled function called with arguments of many sizes, 0, 1 and equal extents among them, and memory orders,
against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators import sizes
from tests.generators.harness import Tally


@pytest.mark.parametrize("seed", range(1, 9))
def test_as_numpy_answers_at_every_size(seed: int):
    made, tally = sizes.sequence(seed, 24), Tally()
    found = sizes.verdict(made, tally)
    assert found is None, sizes.alone(made, *found)
    assert tally.calls >= 20


def test_the_sequences_have_empty_unit_equal_and_large_extents():
    pairs = {(n, m) for seed in range(20) for n, m, _, _ in sizes.sequence(seed).calls}
    assert any(n == m and n > 10 for n, m in pairs)
    assert {n for n, _ in pairs} >= {0, 1, 2, 3, 17, 65}
    orders = {order for seed in range(20) for *_, given, _ in sizes.sequence(seed).calls for order in given}
    assert orders == set(sizes.ORDERS)


@pytest.mark.parametrize("order", sorted(set(sizes.ORDERS)))
def test_every_order_holds_the_same_values(order: str):
    a = np.arange(12.0).reshape(3, 4)
    made = sizes.laid_out(a, order)
    np.testing.assert_array_equal(made, np.broadcast_to(a[:1], a.shape) if order == "repeated" else a)
    np.testing.assert_array_equal(tj.jit(lambda x: x.T + 1)(made), made.T + 1)


def test_another_byte_order_is_read_and_written():
    def f(x: Any) -> Any:
        x[0] = 7
        return x + 1

    given, expected = np.arange(3.0).astype(">f8"), np.arange(3.0).astype(">f8")
    np.testing.assert_array_equal(tj.jit(f)(given), f(expected))
    np.testing.assert_array_equal(given, expected)
