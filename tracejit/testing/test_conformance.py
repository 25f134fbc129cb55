"""Every case on every backend asked for."""

from __future__ import annotations

import pytest

from tracejit.testing import CASES, Case, verdict


@pytest.mark.parametrize("case", CASES, ids=[f"tier {case.tier}: {case.name}" for case in CASES])
def test_conformance(case: Case, conforming_backend: str) -> None:
    """What is refused by name is expected."""
    found = verdict(case, conforming_backend)
    if found.outcome == "refused":
        pytest.xfail(found.reason)
    assert found.outcome == "pass", found.reason
