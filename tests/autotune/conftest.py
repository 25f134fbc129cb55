"""A database of its own for every test that tunes."""

from pathlib import Path

import pytest


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path that does not exist yet, named by TRACEJIT_TUNE_DB."""
    path = tmp_path / "cache" / "schedules.txt"
    monkeypatch.setenv("TRACEJIT_TUNE_DB", str(path))
    return path


@pytest.fixture
def opencl_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The OpenCL driver's own cache goes to a directory of the test."""
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
