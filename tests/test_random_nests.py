"""Random nests of loops over elements, against plain Python: right, or refused with a line."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tracejit as tj
from tests.generators.nests import function_of
from tracejit.support.config import config
from tracejit.support.errors import UnsupportedError

SIZES = (5, 3, 33, 7, 1, 2)


def check(seed: int, backend: str = "cpu") -> bool:
    """Whether Python's answer comes out at all sizes; False if a refusal."""
    function, text = function_of(seed)
    jitted = tj.jit(function, backend=backend)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for n in SIZES:
            rng = np.random.default_rng(seed)
            args = rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, n))
            ours, theirs = [a.copy() for a in args], [a.copy() for a in args]
            try:
                want = function(*theirs, n)
            except IndexError:
                with pytest.raises(IndexError):
                    jitted(*ours, n)
                continue
            try:
                got = jitted(*ours, n)
            except UnsupportedError as error:
                if error.location is None:
                    raise
                return False
            for u, v in zip((*got, *ours), (*want, *theirs), strict=True):
                np.testing.assert_allclose(u, v, rtol=1e-9, atol=1e-9, err_msg=text)
    return True


@pytest.fixture(autouse=True)
def loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short loops stay loops."""
    monkeypatch.setattr(config, "unroll", 0)


@pytest.mark.parametrize("seed", range(30))
def test_random_nests(seed: int):
    check(seed)


@pytest.mark.parametrize("backend", ["reference", "opencl", "vulkan"])
@pytest.mark.parametrize("seed", range(30, 34))
def test_random_nests_on_other_backends(record_backend, seed: int, backend: str):
    record_backend(backend)
    check(seed, backend)


def test_most_have_an_answer():
    assert sum(check(seed) for seed in range(40, 50)) >= 6
