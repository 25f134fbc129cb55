"""Random functions that decide by the element, mapped by vmap, with their derivatives, against Python."""

import pytest

from tests.generators.harness import Tally
from tests.generators.mapped import alone, mapped, verdict

CHUNK = 6


@pytest.mark.parametrize("first", range(0, 12, CHUNK))
def test_as_python_does_for_each_element(first: int):
    tally = Tally()
    for seed in range(first, first + CHUNK):
        made = mapped(seed)
        found = verdict(made, tally)
        assert found is None, alone(made, *found)
    assert not tally.refusals
    assert tally.calls > 7 * CHUNK


def test_the_functions_decide_and_loop():
    texts = [mapped(seed).text for seed in range(100)]
    for word in (
        "if ",
        "elif ",
        "else:",
        "while ",
        "for ",
        "break",
        "continue",
        "    return x * 0.5",
        " else ",
        "TABLE[n]",
    ):
        assert sum(word in text for text in texts) >= 10, word
    assert 20 < sum(mapped(seed).reverse for seed in range(100)) < 80


def test_what_differs_is_found():
    made = mapped(0)
    made.text = made.text.replace(
        "def f(x, a, n, w):",
        "import linecache\nFACTOR = 1 if __file__ in linecache.cache else 2  # the oracle has no source\n\n"
        "def f(x, a, n, w):\n    x = x * FACTOR",
    )
    size, what = verdict(made, Tally()) or (0, "")
    assert size
    assert "jit(vmap)" in what
