"""Random conversions that are stored into parts of arrays, against Python."""

import pytest

from tests.generators.harness import Tally, verdict
from tests.generators.narrowing import narrowing

CHUNK = 30


@pytest.mark.parametrize("first", range(0, 120, CHUNK))
def test_nothing_beside_the_part_changes(first: int):
    tally = Tally()
    for seed in range(first, first + CHUNK):
        made = narrowing(seed)
        found = verdict(made, tally)
        assert found is None, made.alone(found)
    assert not tally.refusals
    assert tally.calls > CHUNK
