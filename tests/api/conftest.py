"""What several files of tests of the interface share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.backends.plain_c import EVERY_BACKEND
from tracejit.backends.registry import backend_reason


@pytest.fixture(params=EVERY_BACKEND)
def backend(request: pytest.FixtureRequest, record_backend: Callable[[str], None]) -> str:
    """Each backend in turn, which is recorded as one that tests have run on."""
    record_backend(request.param)
    if backend_reason(request.param):
        pytest.skip(backend_reason(request.param))
    return request.param
