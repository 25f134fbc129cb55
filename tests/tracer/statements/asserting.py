"""Functions that assert: in a module of their own, as pytest rewrites those of tests."""

from typing import Any


def all_positive(x: Any) -> Any:
    for i in range(x.shape[0]):
        assert x[i] > 0, "not positive"
    return x.sum()
