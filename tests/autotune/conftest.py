"""A database of its own for every test that tunes, and a clock that does not depend on the machine."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tracejit.autotune import measure, search
from tracejit.ir.schedule import Schedule, Tile, Vector


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path that does not exist yet, named by TRACEJIT_TUNE_DB."""
    path = tmp_path / "cache" / "schedules.txt"
    monkeypatch.setenv("TRACEJIT_TUNE_DB", str(path))
    return path


class Clock:
    """Time that passes only where candidates run: the less, the more elements their schedule computes at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def cost(self, schedule: Schedule) -> float:
        at_once = 1
        for d in schedule.directives:
            at_once *= (
                d.rows * d.columns if isinstance(d, Tile) else (d.width * d.factor if isinstance(d, Vector) else 1)
            )
        return 1e-3 / at_once

    def sample(self, contender: measure.Contender, repetitions: int) -> float:
        contender.call()  # it must run, however long that takes
        seconds = self.cost(contender.schedule) + 2e-3 * (getattr(contender.compiled, "behaviour", "") == "slow")
        self.now += repetitions * seconds
        return seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the search takes for the time."""
    clock = Clock()
    monkeypatch.setattr(measure.Contender, "_time", lambda self, repetitions: clock.sample(self, repetitions))
    pretended: Any = SimpleNamespace(monotonic=lambda: clock.now, perf_counter=time.perf_counter)
    monkeypatch.setattr(measure, "time", pretended)
    monkeypatch.setattr(search, "time", pretended)
    return clock


@pytest.fixture
def opencl_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The OpenCL driver's own cache goes to a directory of the test."""
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
