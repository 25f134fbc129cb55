"""Random programs that call Python while they run: slices of the long runs."""

import pytest

from tests.generators.calling import calling, verdict
from tests.generators.harness import Tally


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_a_slice(first: int):
    tally = Tally()
    for seed in range(first, first + 10):
        assert verdict(calling(seed), tally) is None, f"seed {seed}"
    assert tally.calls > 10
