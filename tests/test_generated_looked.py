"""Random programs with items at places that data decide, and the order of tuples: a slice of the long runs."""

import pytest

from tests.generators.harness import Tally, verdict
from tests.generators.looked import looked


@pytest.mark.parametrize("first", range(0, 60, 15))
def test_a_slice(first: int):
    tally = Tally()
    for seed in range(first, first + 15):
        assert verdict(looked(seed), tally) is None, f"seed {seed}"
    assert tally.calls > 15
