"""Random jumps out of branches and loops, where Python decides all: the rewritten function does what is written."""

import pytest

import tracejit as tj
from tests.generators.jumps import jumping

ARGUMENTS = [(a, b) for a in (0, 3, 7, 10) for b in (1, 5, 9)]


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_random_jumps(first: int):
    for seed in range(first, first + 20):
        check(seed)


def check(seed: int) -> None:
    function, text = jumping(seed)
    got = tj.jit(lambda: [function(*args) for args in ARGUMENTS])()
    assert got == [function(*args) for args in ARGUMENTS], text
