"""Random programs that fail and go on, against Python."""

import pytest

from tests.generators.failing import failing
from tests.generators.harness import Tally, verdict

CHUNK = 25


@pytest.mark.parametrize("first", range(0, 200, CHUNK))
def test_errors_go_where_pythons_go(first: int):
    tally = Tally()
    for seed in range(first, first + CHUNK):
        made = failing(seed)
        found = verdict(made, tally)
        assert found is None, made.alone(found)
    assert sum(tally.refusals.values()) < CHUNK / 3
    assert tally.calls > 2 * CHUNK
