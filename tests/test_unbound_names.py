"""A name without a value where data decide: whatever uses it, the error is Python's."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.unbound import ARGUMENTS, programs
from tracejit.support.errors import TracejitError

PARTS = 7


@pytest.mark.parametrize("part", [0, 3])
def test_a_use_of_a_name_that_has_no_value_is_an_error(part: int):
    for text, function in itertools.islice(programs(), part, None, PARTS):
        jitted = tj.jit(function)
        for first, count in ARGUMENTS:
            want, got = _outcome(function, first, count), _outcome(jitted, first, count)
            if isinstance(got, TracejitError) and not isinstance(want, UnboundLocalError):
                continue
            if isinstance(want, Exception):
                # what Python would refuse of its value may be refused first
                same = isinstance(got, type(want) | TracejitError | TypeError)
                assert same, f"{text}\n{got!r} instead of {want!r}"
            else:
                assert str(got) == str(want) or got == want, f"{text}\n{got!r} instead of {want!r}"


def _outcome(function: Any, first: float, count: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(np.array([first, 1.0, 2.0]), np.array([1, count]))
        except Exception as error:  # whatever Python raises
            return error
