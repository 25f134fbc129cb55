"""Arrays that a name has, or None, depending on data, while another name keeps the array, or None, of before."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import loaded
from tracejit.support.errors import TracejitError

FIRST = {"made": "x * 2", "selected": "x[x > 1]", "given": "x"}
STEPS = {  # by which r may become None
    "branch": "if x[0] > {c}: r = None",
    "while": "i = 0\n    while i < x[0] - {c}:\n        i += 1\n        r = None",
    "for": "for v in x:\n        if v > {c} + 2: r = None",
    "chosen": "r = None if x.sum() > {c} + 4 else r",
}
ENDS = {
    "asked": "return (0 if r is None else 1), (0 if q is None else 1)",
    "one": "return (1 if q is r else 0), (1 if r is not q else 0)",
    "read": "return (-1.0 if r is None else r.sum()), (-1.0 if q is None else q.sum())",
    "elements": "return (-1.0 if r is None or len(r) < 1 else r[0]), (-1.0 if q is None else q.size)",
    "changed": "if r is not None: r += 1\n    return (-1.0 if r is None else r.sum()), x",
    "element changed": "if r is not None and len(r) > 0: r[0] = 7\n    return (-1.0 if r is None else r.sum()), x",
    "used": "return r.sum(), 0",
    "set": "r[:1] = 5\n    return r.sum(), x",
    "filled": "np.copyto(r, 2)\n    return r, x",
}
REFUSED = ["whether two names have one array is known to the program alone", "that may be another one as well"]
"""Of an array that may be the argument, or of a name that may be another one of one array."""

MADE = """
import numpy as np

def f(x):
    r = {first}
    {one}
    {alias}
    {other}
    {end}
"""


def outcome(f: Callable[..., Any], x: np.ndarray[Any, Any]) -> Any:
    given = x.copy()
    try:
        return [np.asarray(y).tolist() for y in f(given)], given.tolist()
    except TracejitError as error:
        if any(why in str(error) for why in REFUSED):
            return None
        if "is None here" not in str(error):
            raise
    except (TypeError, AttributeError):
        pass
    return "fails", given.tolist()


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("steps", [*itertools.product(STEPS, STEPS)], ids="-".join)
def test_as_python(first: str, steps: tuple[str, str]):
    one, other = (STEPS[s].format(c=c) for s, c in zip(steps, (2, 0), strict=True))
    for name, end in ENDS.items():
        changes = name not in ("asked", "one", "read", "elements")
        alias = "q = 0" if changes else "q = r"  # two names of an array that is changed, or None, are refused
        f = loaded(MADE.format(first=FIRST[first], one=one, alias=alias, other=other, end=end))["f"]
        jitted = tj.jit(f)
        for x in (np.zeros(3), np.arange(3.0) + 2, np.arange(3.0), np.arange(12.0) + 1, np.ones(12)):
            found = outcome(jitted, x)
            assert (found is None and (name == "one" or (first == "given" and changes))) or found == outcome(f, x), (
                name,
                x,
            )
