"""Drivers that crash or hang: their backend is not there, and the process lives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends import registry, trial
from tracejit.backends.reference.backend import ReferenceBackend
from tracejit.backends.registry import backend_reason, register_backend, try_again
from tracejit.support.errors import BackendUnavailable

DRIVER = """
import os, pathlib, signal, sys, time
from tracejit.backends.reference.backend import ReferenceBackend
from tracejit.support.errors import BackendUnavailable

with pathlib.Path({calls!r}).open("a") as calls:
    calls.write(str(os.getpid()) + " ")

class Driven(ReferenceBackend):
    name = {name!r}
    def __init__(self):
        {does}
"""


@pytest.fixture
def driven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], Path]:
    """Registers a backend whose driver does something when it is asked; gives the file that lists who asked."""
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRACEJIT_PROBE", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, does: str) -> Path:
        calls = tmp_path / f"{name}.calls"
        calls.touch()
        (tmp_path / f"{name}_driver.py").write_text(DRIVER.format(calls=str(calls), name=name, does=does))
        register_backend(name, f"{name}_driver:Driven", priority=1, packages=(f"{name}_driver",))
        return calls

    return make


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"ended the process \(signal 11; nothing was said\)"),
        ("sys.stderr.write('assertion failed'); os._exit(3)", r"ended the process \(exit status 3; assertion failed\)"),
        ("os.abort()", r"ended the process \(signal 6; "),
    ],
)
def test_a_driver_that_crashes_takes_nobody_along(driven: Callable[[str, str], Path], does: str, why: str):
    calls = driven("crashing", does)
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match=rf"the driver of backend 'crashing' {why}.*; mend or remove it"):
            tj.jit(lambda x: x + 1, backend="crashing")(np.ones(3))
    assert len(calls.read_text().split()) == 1  # a process asks once
    assert "crashing" in tj.list_backends()
    assert tj.devices()[0] == "cpu"
    np.testing.assert_array_equal(tj.jit(lambda x: x + 1, backend="reference")(np.ones(3)), np.full(3, 2.0))


def test_a_driver_that_never_answers(driven: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trial, "_SECONDS", 3)
    driven("hanging", "time.sleep(100)")
    assert "the driver of backend 'hanging' gave no answer in 3 s" in backend_reason("hanging")


def test_a_driver_is_tried_once_for_a_machine(driven: Callable[[str, str], Path], tmp_path: Path):
    calls = driven("fine", "pass")
    assert backend_reason("fine") == ""
    assert len(calls.read_text().split()) == 2  # the trial, and this process
    np.testing.assert_array_equal(tj.jit(lambda x: x + 1, backend="fine")(np.ones(3)), np.full(3, 2.0))
    register_backend("fine", "fine_driver:Driven", priority=1, packages=("fine_driver",))
    assert backend_reason("fine") == ""  # the trial is noted
    assert len(calls.read_text().split()) == 2
    (note,) = (tmp_path / "cache").glob("*.tried")
    note.unlink()
    register_backend("fine", "fine_driver:Driven", priority=1, packages=("fine_driver",))
    assert backend_reason("fine") == ""
    assert len(calls.read_text().split()) == 3


def test_an_exception_is_no_crash(driven: Callable[[str, str], Path]):
    driven("absent", "raise BackendUnavailable('no such device here')")
    assert backend_reason("absent") == "no such device here"


def test_the_trial_can_be_left_out(driven: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACEJIT_PROBE", "0")
    calls = driven("trusted", "pass")
    assert backend_reason("trusted") == ""
    assert len(calls.read_text().split()) == 1


def test_a_driver_that_has_been_mended_is_tried_again(driven: Callable[[str, str], Path], tmp_path: Path):
    driven("broken", "os._exit(1)")
    assert "exit status 1" in backend_reason("broken")
    driver = tmp_path / "broken_driver.py"
    driver.write_text(driver.read_text().replace("os._exit(1)", "super().__init__()"))
    assert "exit status 1" in backend_reason("broken")
    try_again("broken")
    assert backend_reason("broken") == ""


def test_a_backend_without_packages_is_made_at_once(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any) -> str:
        raise AssertionError

    monkeypatch.setattr(trial, "_tried", refuse)
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))  # pyright: ignore[reportPrivateUsage]
    name = ReferenceBackend.name
    register_backend(name, "tracejit.backends.reference.backend:ReferenceBackend", priority=1)
    register_backend("driverless", "tracejit.backends.opencl.backend:Missing", priority=1, packages=("no_such_driver",))
    assert backend_reason(name) == ""
    assert "has no Missing" in backend_reason("driverless")
