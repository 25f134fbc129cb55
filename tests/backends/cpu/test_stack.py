"""Local memory of a program: of many small arrays only some are on the stack, which a thread has little of."""

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tracejit as tj

STACK = 1 << 19


def branching(x: Any) -> Any:
    for i in tj.unroll(range(60)):
        if x[i] > 0:
            x = np.cumsum(x[::-1]) % 5 - 2
        else:
            x = np.cumsum(x) % 7 - 3
    return x


def in_a_thread() -> None:
    """Call a program of many arrays where the stack is small."""
    compiled = tj.jit(branching)
    x = (np.arange(900) % 13 - 6).astype(np.float32)
    np.testing.assert_array_equal(compiled(x), branching(x))
    found: list[Any] = []
    threading.stack_size(STACK)
    thread = threading.Thread(target=lambda: found.append(compiled(x)))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0], branching(x))


@pytest.mark.parametrize("poison", ["0", "1"])
def test_a_thread_with_a_small_stack(poison: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACEJIT_POISON", poison)
    command = [sys.executable, "-c", f"from {__name__} import in_a_thread; in_a_thread()"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
