"""What every test runs under: verification after every pass, no deadline for property tests,
and a record of the backends that ran."""

import ctypes
import functools
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TRACEJIT_CHECKS", "1")  # read when tracejit is imported, so set before
os.environ.setdefault("TRACEJIT_POISON", "1")  # elements that nothing writes show
os.environ.setdefault("TRACEJIT_TIERS", "0")  # code as it is made well; tests/backends/cpu/test_tiers.py has the other
os.environ["TRACEJIT_TUNE_DB"] = ""  # schedules that the user has tuned are not what is tested

import hypothesis
import pytest

from tracejit.api import native
from tracejit.backends.intrinsics import DEFINED, unregister_scalar_op
from tracejit.backends.registry import backend_reason, register_backend, try_again
from tracejit.support.config import config

BACKENDS_REPORT = Path(__file__).resolve().parent.parent / "out" / "backends.json"

# CI runs the same examples every time, so that it fails by what was changed; everywhere else they are new ones.
hypothesis.settings.register_profile("tracejit", deadline=None, print_blob=True, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("tracejit")


# what a newcomer writes, hidden from the lists of backends; missing tools fail its tests
register_backend("plain_c", "tests.backends.plain_c:plain_c", priority=-1)


@functools.cache
def cuda_driver() -> object:
    """NVIDIA's driver; where this machine has none, the stand-in is one from now on."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        from tests.standin.cuda import install

        standin = install()
        standin.set("synchronous", 1)
        try_again("cuda")
        return standin


@pytest.fixture(autouse=True, scope="module")
def _operations_of_users_end_with_their_tests() -> Iterator[None]:
    """What a module's tests register, `tj.native` among it, is not there for the next one's."""
    before = set(DEFINED)
    yield
    made = DEFINED - before
    operations = native._OPS  # pyright: ignore[reportPrivateUsage]
    for key in [key for key, name in operations.items() if name in made]:
        del operations[key]
    for name in made:
        unregister_scalar_op(name)


@pytest.fixture
def without_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are traced as those without source are: Python runs their statements."""
    monkeypatch.setattr(config, "statements", False)


@pytest.fixture
def opencl_as_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels on OpenCL are shared out among work-items, as on GPUs, on processors too."""
    from tracejit.backends.registry import get_backend
    from tracejit.support.nodes import evolve

    device = get_backend("opencl").device  # type: ignore[attr-defined]
    monkeypatch.setattr(device, "capabilities", evolve(device.capabilities, vector_bits=0))
    monkeypatch.setattr(device, "cores", False)


@pytest.fixture
def record_backend(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Call with the name of a backend whose code this test executes:
    the run's matrix counts the test's outcome under it.

    Devices that this machine lacks skip the test, and the matrix shows it; `.ci/backends_ran.py` says which must have
    run."""

    def record(name: str) -> None:
        record_property("backend", name)
        if name == "cuda":
            cuda_driver()
        if name not in ("cpu", "reference", "plain_c") and (reason := backend_reason(name)):
            pytest.skip(reason)

    return record


class BackendMatrix:
    """Counts outcomes per backend in the process that reports, so that it works under pytest-xdist as well."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        for name in {value for key, value in report.user_properties if key == "backend"}:
            self.counts[str(name)][report.outcome] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.counts:
            return
        if os.environ.get("TRACEJIT_CPU", "native") == "native":  # runs at other levels leave the other backends out
            BACKENDS_REPORT.parent.mkdir(exist_ok=True)
            BACKENDS_REPORT.write_text(json.dumps(self.counts, indent=2, sort_keys=True) + "\n")
        terminalreporter.section("backends")
        for name, counts in sorted(self.counts.items()):
            terminalreporter.line(
                f"{name:12} " + ", ".join(f"{counts[k]} {k}" for k in ("passed", "failed", "skipped"))
            )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(BackendMatrix(), "tracejit-backends")
