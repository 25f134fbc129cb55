"""OpenCL kernels under oclgrind, a simulator that sees every access: no races, nothing out of bounds, no barrier that
some work-items miss, nothing read that was not written, and NumPy's results.

oclgrind ends with 0 whatever it has seen, so its log is read.  Kernels are compiled without optimisation: its check of
what was written does not know an instruction (`freeze`) that clang's passes make.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.backends.under_oclgrind import PROGRAM_SCHEDULES, PROGRAMS

pytestmark = pytest.mark.opencl

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = (
    "--data-races",
    "--uninitialized",
    "--num-threads=1",
    "--max-errors=100000",
    "--build-options=-cl-opt-disable",
)
SECONDS = 570
GROUPS = {"barrier(", "__local", "get_group_id"}
USED = {
    "a GPU's": {*GROUPS, "atom_", "4*)("},
    "small tiles": GROUPS,
    "an item a row": {"atom_", "2*)("},
    "random nests": {"barrier(", "atom_", "get_group_id"},
    "random tiles": GROUPS,
    "atomics": {"atomic_", "atom_", "cmpxchg"},
}
"""What kernels of each part must have, so that it is the templates that are watched."""
REPORTED = {
    "no fault": "",
    "race": "Write-write data race at global memory",
    "race in shared memory": "Read-write data race at local memory",
    "race between groups": "Read-write data race at global memory",
    "out of bounds": "Invalid write of size 4 at global memory",
    "divergent barrier": "Work-group divergence detected (barrier)",
    "not initialised": "Uninitialized value written to global memory",
    "no barriers": "Read-write data race at local memory",
}


@pytest.fixture
def watched(
    record_property: Callable[[str, object], None], tmp_path: Path
) -> Callable[[str], dict[str, dict[str, Any]]]:
    """Runs a part of under_oclgrind.py; gives what happened to each piece of it, "reports" among it."""
    record_property("backend", "oclgrind")
    if not shutil.which("oclgrind"):
        pytest.skip("oclgrind is not installed: apt-get install oclgrind")
    return lambda part: run(part, tmp_path / "oclgrind.log")


def run(part: str, log: Path) -> dict[str, dict[str, Any]]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRACEJIT_", "OCL_", "PYOPENCL_"))}
    environment = {**kept, "TRACEJIT_PROBE": "0", "TRACEJIT_TUNE_DB": "", "PYTHONPATH": str(ROOT)}
    options = [part for option in OPTIONS for part in option.split("=", 1)]
    child = [sys.executable, "-m", "tests.backends.under_oclgrind", part, str(log)]
    done = subprocess.run(
        ["oclgrind", *options, "--log", str(log), *child],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    said = log.read_bytes()
    found = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    for line in found.values():
        line["reports"] = said[slice(*line["log"])].decode(errors="replace").strip()
    assert sum(end - begin for begin, end in (x["log"] for x in found.values())) == len(said)  # nothing between them
    return found


@pytest.mark.parametrize("part", USED)
def test_nothing_is_reported_and_results_are_numpys(watched: Callable[[str], Any], part: str):
    found = watched(part)
    wrong = {name: x["fault"] or x["reports"][:2000] for name, x in found.items() if x["fault"] or x["reports"]}
    assert not wrong, "\n\n".join(f"{name}: {said}" for name, said in wrong.items())
    assert USED[part] <= {word for x in found.values() for word in x["words"]}
    assert list(found) == list(PROGRAMS) if part in PROGRAM_SCHEDULES else len(found) > 20


def test_what_is_wrong_is_reported(watched: Callable[[str], Any]):
    found = watched("faults")
    assert {name: x["fault"] for name, x in found.items()} == dict.fromkeys(REPORTED, "")
    for name, said in REPORTED.items():
        assert said in found[name]["reports"], name
        assert bool(said) == bool(found[name]["reports"]), name
