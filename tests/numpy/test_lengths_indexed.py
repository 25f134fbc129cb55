"""Any index of an array with as many elements as data say: NumPy's answer, NumPy's error, or a refusal."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError

X = np.arange(-3.0, 7.0)
MADE: dict[str, Callable[[Any], Any]] = {
    "a mask": lambda x: x[x > 0],
    "rows": lambda x: np.stack([x, -x], 1)[x > 0],
    "columns": lambda x: np.stack([x, -x], 0)[:, x > 0],
    "a mask of rank 2": lambda x: np.stack([x, -x], 1)[np.stack([x, -x], 1) > 0],
    "a mask of rank 2 before an axis": lambda x: np.stack([x, -x] * 3).reshape(3, 2, 10)[np.eye(3, 2) + x[0] > -3],
    "unique": np.unique,
    "places": lambda x: np.flatnonzero(x > 0),
    "a slice": lambda x: x[: np.sum(x > 0)],
}
PARTS: dict[str, Any] = {
    "...": ...,
    ":": slice(None),
    ":-1": slice(None, -1),
    "1:": slice(1, None),
    "::-1": slice(None, None, -1),
    "::2": slice(None, None, 2),
    "0": 0,
    "-1": -1,
    "None": None,
    "[0, 1]": [0, 1],
}
INDICES = [parts for n in (1, 2, 3) for parts in itertools.product(PARTS, repeat=n) if parts.count("...") < 2]


def outcome(f: Callable[[], Any]) -> Any:
    try:
        return f()
    except IndexError:
        return IndexError


def check(make: Callable[[Any], Any], names: tuple[str, ...], write: bool) -> bool:
    """Whether it was answered."""
    index = tuple(PARTS[name] for name in names)

    def read(x: Any) -> Any:
        return make(x)[index]

    def written(x: Any) -> Any:
        v = make(x) * 1
        v[index] = 5
        return v

    f = written if write else read
    wanted = outcome(lambda: f(X.copy()))
    try:
        found = outcome(lambda: tj.jit(f)(X.copy()))
    except UnsupportedError:
        return False
    if wanted is IndexError or found is IndexError:
        assert found is wanted, names
        return True
    assert (np.shape(found), found.dtype) == (np.shape(wanted), wanted.dtype), names
    np.testing.assert_array_equal(found, wanted, err_msg=str(names))
    return True


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("write", [False, True])
def test_any_index(made: str, write: bool):
    rng = np.random.default_rng(len(made) + write)
    chosen = [INDICES[k] for k in rng.choice(len(INDICES), 40, replace=False)]
    answered = sum(check(MADE[made], names, write) for names in [*[(name,) for name in PARTS], *chosen])
    assert answered >= 20
