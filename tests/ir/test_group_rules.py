"""When groups stay apart, and when a value is not stored by a kernel that computes it: each rule by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir.passes.group_rules import MERGE_RULES, PREFIX_RULES

X = np.ones((40, 50))


def sum_and_join(x: Any) -> Any:
    e = np.exp(x)
    return e.sum(axis=0), np.concatenate([e[:20] * 2, e[5:7]]).sum()


@pytest.mark.parametrize(
    ("f", "args", "reason"),
    [
        (lambda x: (np.exp(x), np.exp(x).sum(axis=0)[None] * x[:7].sum()), (X,), "it is a result of the program"),
        (sum_and_join, (X,), "several kernels read it: they loop over different extents"),
        (lambda x: (lambda s: (s, x * s))(x.sum()), (X,), "it is a result of the program; it is a number"),
        (lambda x: (lambda m: (m, np.cumsum(m, axis=1)))(np.exp(x)), (X,), "the kernel scans, updates or scatters"),
    ],
)
def test_why_a_value_is_stored_is_told(f: Callable[..., Any], args: tuple[Any, ...], reason: str):
    text = tj.jit(f).lower(*args).text("fused")
    assert reason in text, text


def test_rules_have_names_of_their_own():
    for rules in (MERGE_RULES, PREFIX_RULES):
        assert len({r.name for r in rules}) == len({r.reason for r in rules}) == len(rules)
