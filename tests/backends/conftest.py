"""An OpenCL device for the tests that need one; the driver's cache goes to a directory of its own."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def opencl_devices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    before = os.environ.get("POCL_CACHE_DIR")
    os.environ["POCL_CACHE_DIR"] = str(tmp_path_factory.mktemp("pocl"))
    from tracejit.backends.opencl import runtime

    reason = runtime.unavailable_reason()
    yield [] if reason else runtime.devices()
    if before is None:
        del os.environ["POCL_CACHE_DIR"]
    else:
        os.environ["POCL_CACHE_DIR"] = before


@pytest.fixture
def device(opencl_devices: list[Any], record_backend: Callable[[str], None]) -> Any:
    """The first OpenCL device; a test that needs one is skipped, and counted as such, where there is none."""
    record_backend("opencl")
    return opencl_devices[0]
