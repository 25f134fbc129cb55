"""Random functions with Python's loops and branches, against plain Python: right, or refused with a line."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tracejit as tj
from tests.generators.statements import function_of
from tracejit.support.config import config
from tracejit.support.errors import TracejitError

SEEDS = (7, 9, 12, 13, 14, 15, 16, 19, 21, 22, 23, 24, 26, 30, 36, 114)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_functions(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "statements", True)
    function, text = function_of(seed)
    jitted = tj.jit(function)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for n in (5, 7):
            rng = np.random.default_rng(seed)
            x, y, a = rng.normal(size=n), rng.normal(size=n), float(rng.normal())
            ours, theirs = (x.copy(), y.copy()), (x.copy(), y.copy())
            want = function(*theirs, a, n)
            try:
                got = jitted(*ours, a, n)
            except TracejitError as error:
                if error.location is None:
                    raise
                return
            for u, v in zip((*got, *ours), (*want, *theirs), strict=True):
                np.testing.assert_allclose(u, v, rtol=1e-9, atol=1e-9, err_msg=text)
