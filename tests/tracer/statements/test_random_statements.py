"""Random functions with Python's loops and branches, against plain Python: right, or refused with a line."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.statements import function_of
from tracejit.support.config import config
from tracejit.support.errors import TracejitError

SEEDS = (7, 9, 12, 13, 14, 15, 16, 19, 21, 22, 23, 24, 26, 30, 36, 114)
ABSENT = tuple(range(12))
STATE = tuple(range(16))
LENGTHS = tuple(range(40))


@pytest.fixture(autouse=True)
def loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short loops stay loops."""
    monkeypatch.setattr(config, "unroll", 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_functions(seed: int):
    check(seed)


@pytest.mark.parametrize("seed", ABSENT)
def test_random_functions_with_names_that_may_have_no_value(seed: int):
    check(seed, absent=True)


@pytest.mark.parametrize("seed", STATE)
def test_random_functions_that_change_objects(seed: int):
    check(seed, state=True)


@pytest.mark.parametrize("seed", LENGTHS)
def test_random_functions_with_as_many_elements_as_data_say(seed: int):
    check(seed, (5, 2, 7, 1, 3), lengths=True)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns, or the class of the error that it raises."""
    try:
        return function(*args)
    except TracejitError:
        raise
    except (NameError, TypeError, LookupError, ValueError) as error:
        return UnboundLocalError if isinstance(error, NameError) else type(error)


def check(seed: int, sizes: Sequence[int] = (5, 7), **kinds: bool) -> bool:
    """Whether Python's answer comes out; False if a refusal."""
    function, text = function_of(seed, **kinds)
    jitted = tj.jit(function)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for n in sizes:
            rng = np.random.default_rng(seed)
            x, y, a = rng.normal(size=n), rng.normal(size=n), float(rng.normal())
            ours, theirs = (x.copy(), y.copy()), (x.copy(), y.copy())
            want = outcome(function, *theirs, a, n)
            try:
                got = outcome(jitted, *ours, a, n)
            except TracejitError as error:
                if error.location is None:
                    raise
                return False
            if isinstance(want, type) or isinstance(got, type):
                assert got is want, text
                continue
            for u, v in zip((*got, *ours), (*want, *theirs), strict=True):
                assert np.shape(u) == np.shape(v), text
                np.testing.assert_allclose(u, v, rtol=1e-9, atol=1e-9, err_msg=text)
    return True
