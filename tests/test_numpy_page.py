"""docs/numpy.md is what its generator makes of the tables now."""

import re
import sys

import numpy as np
import pytest

import tests.numpy_names as names
import tracejit as tj
from tracejit.support.errors import UnsupportedError

WRITTEN = re.search(r"NumPy (\d+\.\d+)'s public names", names.PAGE.read_text())


@pytest.mark.skipif(
    WRITTEN is None or WRITTEN[1] != names.version() or sys.platform != "linux",
    reason="the page has the names of another NumPy",
)
def test_the_page_is_what_the_generator_gives():
    assert names.PAGE.read_text() == names.page(), f"write it anew: {names.COMMAND}"


def section(title: str) -> str:
    return names.page().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def listed(text: str, heading: str) -> set[str]:
    found = re.search(rf"^{heading} \(\d+\):\n\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, heading
    return set(re.findall(r"`(\w+)`", found[1]))


def test_every_function_and_ufunc_of_numpy_stands_on_the_page():
    text = section("Functions") + section("Ufuncs")
    callables = {n for n in dir(np) if not n.startswith("_") and callable(getattr(np, n))}
    callables -= {n for n in callables if isinstance(getattr(np, n), type)} | {"test"}
    assert callables - set(re.findall(r"`(\w+)`", text)) == set()


def test_what_the_page_has_in_full_and_not_at_all_is_so():
    text = section("Functions")
    full, partly = listed(text, "In full"), dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE))
    assert {"where", "sum", "concatenate", "take_along_axis"} <= full
    assert "interp" in full
    assert "mode" in partly["pad"]
    with pytest.raises(UnsupportedError, match="mode"):
        tj.jit(lambda x: np.pad(x, 1, lambda *_: None))(np.arange(3.0))
    assert "isnat" in section("Ufuncs").partition("Not there")[2]
    with pytest.raises(UnsupportedError, match=r"np\.isnat is not supported"):
        tj.jit(lambda x: np.isnat(x))(np.ones((2, 2)))


def test_arguments_that_are_handed_on_count_as_taken():
    assert "nansum" in listed(section("Functions"), "In full")


def test_ufuncs_take_the_keywords_that_the_page_says():
    x, y = np.arange(3.0), np.ones(3)
    got = tj.jit(lambda x, y: np.add(x, y, out=np.zeros(3), where=x > 0, dtype=np.float64, casting="same_kind"))(x, y)
    assert list(got) == [0, 2, 3]
    for options in ({"order": "F"}, {"subok": True}, {"signature": "dd->d"}):
        with pytest.raises(UnsupportedError):
            tj.jit(lambda x, y, options=options: np.add(x, y, **options))(x, y)
