"""Integers that no dtype for Python's holds are constants, and among others in `max`, `min` and branches."""

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError

U = np.array([0, 1, 2], "u8")


@pytest.mark.parametrize(
    ("f", "args"),
    [(lambda i, j: max(i, j), (2**63, -1)), (lambda i, j: max(i, j, 3), (2**63, -1)),
     (lambda i, x: max(i, int(x[0])), (2**63, np.arange(3))), (lambda x, i, j: max(i, j, x[0]), (U, 2**64, 3)),
     (lambda x, i, j: max(max(i, j), x[0]), (U, 2**70, 3)), (lambda i, j: max(i, j, 2.5), (2**64 - 1, 3)),
     (lambda x, j: max(2**64, j, x[0]), (U, 3)), (lambda i, j: min(i, j), (2**63, -1)),
     (lambda i, j: min(i, j, 7), (-(2**63) - 1, -1)), (lambda i, j: max(i, j, 7), (-(2**63) - 1, -1)),
     (lambda x, i: min(i, x[0]), (np.array([3.0]), 2**64)), (lambda x, i: max(i, x[0]), (np.array([3, 1]), 2**64))],
)  # fmt: skip
def test_the_greatest_and_the_least(f, args):
    assert tj.jit(f)(*args) == f(*args)


def test_beside_a_uint64_the_value_is_right():
    f = lambda x, i, j: max(i, j, x[0])  # noqa: E731
    assert tj.jit(f)(U, 2**64 - 1, 3) == 2**64 - 1
    assert tj.jit(f)(U + np.uint64(2**63 + 7), 2**63, 3) == 2**63 + 7


def test_a_branch_hands_on_64_bits():
    def f(x, i, j):
        return i if x[0] > 1 else j

    assert tj.jit(f)(np.arange(3.0), 2**62, 3) == 3
    with pytest.raises(UnsupportedError, match="hands on integers of 64 bits, and 18446744073709551615 is none"):
        tj.jit(f)(np.arange(3.0), 2**64 - 1, 3)
    with pytest.raises(UnsupportedError, match="hands on integers of 64 bits"):
        tj.jit(lambda x: 2**63 if x[0] > 1 else 5)(np.arange(3.0))


def test_slices_and_shapes_of_bad_numbers_are_errors():
    with pytest.raises(TypeError, match="slice indices must be integers"):
        tj.jit(lambda x, i, j: x[i:j])(np.arange(5.0), 1e10, 63)
    with pytest.raises(ValueError, match="must be non-negative"):
        tj.jit(lambda x, k: np.broadcast_to(x, (k, 3)))(np.arange(3.0), -1)
