"""The suites that depend on the processor, at every level of x86-64 that this machine has: `python .ci/levels.py
[jobs]`.

Says at the end which levels ran and which this machine lacks.  Code for those is assembled all the same, see
tests/backends/cpu/test_elsewhere.py.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # for `tests`

from tests.backends.cpu import arm
from tracejit.backends.cpu.runtime import processor

# Kernels, products, the table of primitives, random programs: of what the front end does nothing depends on the level.
SUITES = [
    "tests/primitives", "tests/ir/test_contract.py", "tests/ir/test_math.py",
    "tests/numpy/test_einsum.py", "tests/numpy/test_elementwise.py", "tests/numpy/test_linear.py",
    "tests/numpy/test_loops_as_kernels.py", "tests/numpy/test_norms.py",
    "tests/backends/cpu/test_emit.py", "tests/backends/cpu/test_half.py", "tests/backends/cpu/test_matmul.py",
    "tests/backends/cpu/test_same_bits.py", "tests/backends/test_backends.py", "tests/backends/test_poison.py",
    "tests/test_features.py", "tests/test_random_control_flow.py", "tests/test_random_nests.py",
    "tests/test_random_products.py", "tests/test_random_programs.py",
]  # fmt: skip
# Other backends make the same code at every level.
ONLY_CPU = [
    "-m",
    "not cuda and not opencl and not vulkan",
    "-k",
    "not cuda and not opencl and not vulkan and not reference",
]


def run(level: str, jobs: str) -> bool:
    print(f"== {level}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", jobs, *ONLY_CPU, *SUITES]
    return subprocess.run(command, env={**os.environ, "TRACEJIT_CPU": level}, check=False).returncode == 0


def main() -> int:
    jobs = sys.argv[1] if len(sys.argv) > 1 else "2"
    if platform.machine().lower() not in ("x86_64", "amd64"):
        print(f"levels of x86-64: not run, this is {platform.machine()}")
        return 0
    said: list[str] = []
    good = True
    for level in processor.LEVELS:
        missing = sorted(processor.level_features(level) - processor.features())
        if missing:
            said.append(f"{level}: NOT RUN, this processor has no {', '.join(missing)}")
            continue
        start = time.monotonic()
        passed = run(level, jobs)
        good = good and passed
        said.append(f"{level}: {'passed' if passed else 'FAILED'} in {time.monotonic() - start:.0f} s")
    natively = f"{processor.cpu_name()}, {processor.vector_bits()} bits"
    print(f"== levels of x86-64 (the whole suite ran natively: {natively})")
    lacking = arm.missing()
    said.append(f"aarch64, emulated: {f'NOT RUN, there is no {lacking}' if lacking else 'ran with the whole suite'}")
    print("\n".join(said))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
