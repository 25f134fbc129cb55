"""Fail unless the last test run exercised every backend named on the command line.

The suite writes `out/backends.json` (see tests/conftest.py): for each backend the tests that passed, failed and were
skipped.
"""

import json
import sys
from pathlib import Path

REPORT = Path(__file__).resolve().parent.parent / "out" / "backends.json"


def main(required: list[str]) -> int:
    if not REPORT.exists():
        print(f"{REPORT} is missing: the test run wrote no backend matrix")
        return 1
    matrix: dict[str, dict[str, int]] = json.loads(REPORT.read_text())
    for name in sorted({*matrix, *required}):
        counts = matrix.get(name, {})
        print(
            f"{name:12} {counts.get('passed', 0):6} passed {counts.get('failed', 0):4} failed "
            f"{counts.get('skipped', 0):4} skipped"
        )
    silent = [name for name in required if not matrix.get(name, {}).get("passed")]
    broken = [name for name in required if matrix.get(name, {}).get("failed")]
    for name in silent:
        print(f"backend {name}: no test passed on it; a backend that did not run counts as a failure")
    for name in broken:
        print(f"backend {name}: tests failed on it")
    return 1 if silent or broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
