"""What the tests of scipy.linalg share: matrices, and calls that SciPy and compiled functions have to agree on."""

import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj

scipy_linalg: Any = pytest.importorskip("scipy.linalg")
RNG = np.random.default_rng(0)
GENERAL = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
DEFINITE = GENERAL @ GENERAL.T
TALL = RNG.normal(size=(6, 4))
NAMES: dict[str, Any] = {
    "a": GENERAL, "s": DEFINITE, "tall": TALL, "wide": np.ascontiguousarray(TALL.T), "v": RNG.normal(size=4),
    "columns": RNG.normal(size=(4, 3)), "stack": np.stack([np.linalg.inv(GENERAL), GENERAL, GENERAL[::-1]]),
}  # fmt: skip


def leaves(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


def outcome(f: Any, *args: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # SciPy's of matrices that are nearly singular
        try:
            return f(*args)
        except Exception as error:
            return error


def agree(got: Any, want: Any, near: float = 1e-9, signs: bool = True) -> None:
    """Values, shapes and dtypes, or an error of that class with that text.   signs: False for vectors of any sign."""
    if isinstance(want, Exception):
        assert isinstance(got, type(want)), got
        assert str(want) in str(got)
        return
    assert not isinstance(got, Exception), got
    for x, y in zip(leaves(got), leaves(want), strict=True):
        if isinstance(y, bool):
            assert x is y
            continue
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if not signs:
            x, y = np.abs(x), np.abs(y)
        scale = max(1.0, float(np.max(np.abs(y), initial=0)))
        np.testing.assert_allclose(x, y, rtol=near, atol=near * scale)


def check_call(call: str, near: float = 1e-9, signs: bool = True, eagerly: bool = False) -> None:
    """A call of SciPy's in a compiled function, whose program computes it, gives what it gives outside."""
    f = eval(f"lambda m, {', '.join(NAMES)}: m.{call}", {"np": np})
    args = list(NAMES.values())
    want = outcome(f, scipy_linalg, *args)
    compiled = tj.jit(lambda *xs: f(scipy_linalg, *xs))
    agree(outcome(compiled, *args), want, near, signs)
    if eagerly:
        agree(outcome(f, tj.scipy.linalg, *args), want, near, signs)
