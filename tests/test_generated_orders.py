"""Random questions whether something is a view, asked by writing to it, for arguments of every memory order, against
NumPy.
"""

import pytest

from tests.generators.harness import Case, Tally, reduced, verdict
from tests.generators.orders import order

CHUNK = 30


@pytest.mark.parametrize("first", range(0, 120, CHUNK))
def test_views_are_views_and_copies_copies(first: int):
    tally = Tally()
    for seed in range(first, first + CHUNK):
        case = order(seed)
        found = verdict(case, tally)
        assert found is None, f"seed {seed}\n" + Case.alone(*reduced(case))
    assert sum(tally.refusals.values()) <= CHUNK // 4, tally.refusals
