"""Random functions in which Python integers meet narrow ones of NumPy's, against plain Python."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.narrow import function_of
from tracejit.support.errors import TracejitError

DTYPES = [
    (np.int8, np.uint8),
    (np.uint8, np.int16),
    (np.uint32, np.int8),
    (np.uint64, np.uint8),
    (np.int64, np.int8),
    (np.int16, np.int16),
]


def check(seed: int, backend: str = "cpu") -> tuple[int, int]:
    """How many calls had Python's answer, and how many an error where Python has none.

    Raises: AssertionError for another answer, or for one where Python has an error.
    """
    function, text = function_of(seed)
    jitted = tj.jit(function, backend=backend)
    rng = np.random.default_rng(seed)
    answers = errors = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for call in range(6):
            n = (2, 6)[call % 2]
            b, c = (rng.integers(0, (9, 100)[call // 3], n).astype(d) for d in DTYPES[(seed + call // 2) % len(DTYPES)])
            out, i = np.zeros(n, (np.int64, np.int16)[call % 2]), int(rng.integers(0, 100))
            ours, theirs = out.copy(), out.copy()
            want, failed = _outcome(function, b, c, theirs, i)
            got, refused = _outcome(jitted, b, c, ours, i)
            if refused is not None:
                expected = failed is not None or isinstance(refused, TracejitError)
                assert expected, f"{text}\nraised {refused!r}"
                errors += failed is None
                continue
            assert failed is None, f"{text}\ngave {got!r} instead of {failed!r}"
            for u, v in zip((*_numbers(got), ours), (*_numbers(want), theirs), strict=True):
                np.testing.assert_array_equal(np.asarray(u, np.float64), np.asarray(v, np.float64), err_msg=text)
            answers += 1
    return answers, errors


def _outcome(function: Any, *args: Any) -> tuple[Any, Exception | None]:
    try:
        return function(*args), None
    except Exception as error:  # whatever NumPy or Python says
        return None, error


def _numbers(value: Any) -> list[Any]:
    return [x for part in value for x in _numbers(part)] if isinstance(value, tuple) else [value]


def test_numbers_that_may_be_pythons():
    counts = [check(seed) for seed in range(40)]
    answers, errors = (sum(n) for n in zip(*counts, strict=True))
    assert answers > 3 * errors, f"{answers} answers, {errors} refusals"


@pytest.mark.parametrize("backend", ["reference", "opencl", "vulkan"])
def test_on_other_backends(record_backend: Any, backend: str):
    record_backend(backend)
    assert any([check(seed, backend)[0] for seed in range(40, 44)])
