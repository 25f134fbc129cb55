"""The conformance suite on every backend, and on one that a stranger wrote; the tutorial is that one."""

import math
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.backends.plain_c import EVERY_BACKEND
from tests.conftest import cuda_driver
from tracejit.backends import registry
from tracejit.backends.registry import GROUP, backend_reason, list_backends
from tracejit.testing import CASES, TIERS, Case, verdict

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "examples" / "backend_plugin"


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("backend", EVERY_BACKEND)
def test_every_tier(backend: str, tier: str, record_backend: Callable[[str], None]):
    if backend == "cuda":
        cuda_driver()
    record_backend(backend)
    assert not backend_reason(backend)
    # the stand-in for CUDA interprets each item
    largest = 1000 if backend == "cuda" and hasattr(cuda_driver(), "set") else math.inf
    found = [verdict(case, backend, largest) for case in CASES if case.tier == tier]
    wrong = [(case.name, v.reason) for case, v in zip([c for c in CASES if c.tier == tier], found, strict=True)
             if v.outcome in ("fail", "refused")]  # fmt: skip
    assert not wrong
    ran = sum(v.outcome == "pass" for v in found)
    assert ran == len(found) if largest == math.inf else ran > len(found) // 3


def test_a_case_that_did_not_run_has_not_passed():
    assert verdict(CASES[1], "cpu", largest=10).outcome == "left out"


def test_a_wrong_answer_is_seen():
    off = Case("1", "off", lambda x, y: x * (1 + 1e-4), CASES[0].calls, 1e-6, lambda x, y: x)
    assert verdict(off, "cpu").outcome == "fail"
    other = Case("1", "dtype", lambda x, y: (x + y).astype("f8"), CASES[0].calls, 1e-6, lambda x, y: x + y)
    assert "float64" in verdict(other, "cpu").reason


def test_the_tutorial_is_the_example():
    page = (ROOT / "docs" / "add_a_backend.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    said = [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
    source = (PLUGIN / "tracejit_plain_c" / "__init__.py").read_text()
    assert said == [line.strip() for line in source.splitlines() if line.strip()]
    assert len(source.splitlines()) < 300


def test_an_entry_point_makes_a_backend_known(monkeypatch: pytest.MonkeyPatch):
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())
    ((name, value),) = project["project"]["entry-points"][GROUP].items()
    assert (name, value) == ("plain_c", "tracejit_plain_c:plain_c")

    class Point:
        name = "stranger"

    point = Point()
    point.value = "tests.backends.plain_c:plain_c"  # type: ignore[attr-defined]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == GROUP else [])
    registry._know_of_packages.cache_clear()
    try:
        assert "stranger" in list_backends()
        assert "plain_c" in backend_reason("stranger")  # its class has another name
    finally:
        registry._BACKENDS.pop("stranger", None)
        registry._know_of_packages.cache_clear()


@pytest.mark.slow
def test_the_suite_is_pytests(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tracejit.testing.plugin",
        "--pyargs",
        "tracejit.testing",
        "--backend",
        "cpu",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert f"{len(CASES)} passed" in done.stdout


@pytest.mark.slow
def test_the_matrix_is_written(tmp_path: Path):
    target = tmp_path / "backends.md"
    command = [sys.executable, "-m", "tracejit.testing", "--backend", "cpu", "--output", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert all(f"| {tier}: " in target.read_text() for tier in TIERS)
