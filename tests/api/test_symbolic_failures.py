"""What fails while a function is traced with symbolic extents, and not with those of the call."""

import logging
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir.extents import Dim
from tracejit.numpy import shaping
from tracejit.support.config import config
from tracejit.support.errors import InternalError


def thirds(x: Any) -> Any:
    return x * float(Fraction(x.shape[0], 3))


def flat(x: Any) -> Any:
    return np.reshape(x, (x.shape[1], -1))


def test_a_function_that_wants_numbers_gets_them_and_the_log_says_so(caplog: pytest.LogCaptureFixture):
    f = tj.jit(thirds)
    with caplog.at_level(logging.INFO, "tracejit"):
        for n in (3, 6, 9):
            np.testing.assert_array_equal(f(np.ones(n)), thirds(np.ones(n)))
    retreats = [r for r in caplog.records if "cannot be traced with symbolic extents" in r.getMessage()]
    assert [r.levelno for r in retreats] == [logging.INFO] * 2
    assert "thirds(f64[n0])" in retreats[0].getMessage()
    assert "TypeError: both arguments should be Rational instances" in retreats[0].getMessage()


@pytest.mark.parametrize("error", [AttributeError, InternalError])
@pytest.mark.parametrize("checks", [False, True])
def test_an_error_of_our_own_is_told_and_raised_where_checks_are_on(
    checks: bool, error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(config, "checks", checks)
    f = tj.jit(flat)
    f(np.ones((2, 3)))
    monkeypatch.setattr(shaping, "prod", broken(error))
    if checks or error is InternalError:
        with pytest.raises(InternalError, match="out of order"):
            f(np.ones((2, 4)))
        return
    with caplog.at_level(logging.WARNING, "tracejit"):
        f(np.ones((2, 4)))
    (record,) = caplog.records
    assert "flat(f64[2,n0])" in record.getMessage()
    assert "AttributeError: out of order" in record.getMessage()


def broken(error: type[Exception]) -> Any:
    """`prod` that fails for symbolic extents, as if this package had raised it."""
    source = """
def prod(shape):
    shape = tuple(shape)
    if any(isinstance(n, Dim) for n in shape):
        raise error("out of order")
    return product(shape)
"""
    names: dict[str, Any] = {"Dim": Dim, "error": error}
    exec(compile(source, shaping.__file__, "exec"), names)
    names["product"] = shaping.prod
    return names["prod"]
