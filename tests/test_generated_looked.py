"""Random programs with items at places that data decide and the order of tuples, with expressions that raise only while
they are traced, with integers at the ends of their dtypes, and with state that is made on the way: slices of the long
runs.
"""

from collections.abc import Callable

import pytest

from tests.generators.harness import Case, Tally, verdict
from tests.generators.identities import identities
from tests.generators.integers import integers
from tests.generators.looked import looked
from tests.generators.making import making
from tests.generators.onlytraced import onlytraced
from tests.generators.renewed import renewed


@pytest.mark.parametrize("program", [looked, onlytraced, integers, making, identities, renewed])
@pytest.mark.parametrize("first", range(0, 60, 15))
def test_a_slice(program: Callable[[int], Case], first: int):
    tally = Tally()
    for seed in range(first, first + 15):
        assert verdict(program(seed), tally) is None, f"seed {seed}"
    assert tally.calls > 15
