"""TRACEJIT_POISON: an element that nothing writes shows, in results, between kernels and inside of them."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.backends.plain_c import EVERY_BACKEND
from tracejit.backends.registry import get_backend
from tracejit.ir.program import Launch, Program, ProgramBuffer
from tracejit.ir.text import parse_kernel
from tracejit.support.config import config
from tracejit.support.errors import InternalError

ROOT = Path(__file__).resolve().parents[2]

HALF_WRITTEN = """
kernel half(out: {dtype}[8] C out) {{
  for %i in 0..4 {{
    store out[%i] = {one}
  }}
}}
"""

STALE = """
kernel stale(out: f32[3, 4] C out) {
  for %i in 0..3 {
    alloc row: f32[4] C local
    %even: i64 = and %i 1
    %first = eq %even 0
    if %first {
      for %j in 0..4 {
        store row[%j] = 1.0:f32
      }
    }
    for %k in 0..4 {
      %a = load row[%k]
      store out[%i, %k] = %a
    }
  }
}
"""

COPY = """
kernel copy(x: f64[{n}] C, out: f64[{n}] C out) {{
  for %i in 0..{n} {{
    %a = load x[%i]
    store out[%i] = %a
  }}
}}
"""

BACKENDS = EVERY_BACKEND


def run(backend, *steps, output, temporaries=()):
    """The result of kernels that take no arguments."""
    return get_backend(backend).compile(Program("p", (), (output,), tuple(temporaries), tuple(steps))).run([], {})[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i64", "u8"])
def test_an_element_of_a_result_that_nothing_writes_shows(backend, dtype, record_backend):
    record_backend(backend)
    assert config.poison
    kernel = parse_kernel(HALF_WRITTEN.format(dtype=dtype, one=f"{'1.0' if dtype[0] == 'f' else 1}:{dtype}"))
    result = run(backend, Launch(kernel, (out := ProgramBuffer("out", dtype, (8,), "output"),)), output=out)
    np.testing.assert_array_equal(result[:4], np.ones(4))
    assert np.isnan(result[4:]).all() if dtype[0] == "f" else (np.abs(result[4:].astype(float)) > 100).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_local_array_holds_nothing_from_the_iteration_before(backend, record_backend):
    record_backend(backend)
    out = ProgramBuffer("out", "f32", (3, 4), "output")
    result = run(backend, Launch(parse_kernel(STALE), (out,)), output=out)
    np.testing.assert_array_equal(result, [[1] * 4, [np.nan] * 4, [1] * 4])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [8, 5000])  # on the CPU's stack and on its heap
def test_an_array_between_kernels_that_nothing_writes_shows(backend, n, record_backend):
    record_backend(backend)
    between, out = ProgramBuffer("t", "f64", (n,), "temporary"), ProgramBuffer("out", "f64", (n,), "output")
    result = run(backend, Launch(parse_kernel(COPY.format(n=n)), (between, out)), output=out, temporaries=[between])
    assert np.isnan(result).all()


def test_the_switch_costs_nothing_when_it_is_off(monkeypatch):
    monkeypatch.setattr(config, "poison", False)
    out = ProgramBuffer("out", "f32", (3, 4), "output")
    program = get_backend("cpu").compile(Program("p", (), (out,), (), (Launch(parse_kernel(STALE), (out,)),)))
    assert "memset" not in program.text("code")


BEYOND = """
kernel beyond(out: f64[{n}] C out) {{
  for %i in 0..{more} {{
    store out[%i] = 1.0:f64
  }}
}}
"""


def test_who_writes_outside_of_a_result_is_found(record_backend):
    record_backend("cpu")
    out = ProgramBuffer("out", "f64", (5,), "output")
    assert run("cpu", Launch(parse_kernel(BEYOND.format(n=5, more=5)), (out,)), output=out).tolist() == [1.0] * 5
    with pytest.raises(InternalError, match=r"written outside of its result float64\[5\]"):
        run("cpu", Launch(parse_kernel(BEYOND.format(n=5, more=6)), (out,)), output=out)


@pytest.mark.parametrize("n", [5, 5000])
def test_who_writes_outside_of_intermediate_memory_ends_the_process(n, record_backend):
    record_backend("cpu")
    program = f"""
from tests.backends.test_poison import *
temporary, out = ProgramBuffer("t", "f64", ({n},), "temporary"), ProgramBuffer("out", "f64", ({n},), "output")
def go(more):
    beyond, copy = parse_kernel(BEYOND.format(n={n}, more=more)), parse_kernel(COPY.format(n={n}))
    steps = Launch(beyond, (temporary,)), Launch(copy, (temporary, out))
    print(len(run("cpu", *steps, output=out, temporaries=(temporary,))), flush=True)
go({n})
go({n + 1})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == f"{n}\n"
    assert done.returncode in (-signal.SIGILL, -signal.SIGTRAP)


LOCAL = """
kernel local(out: f64[8] C out) {{
  alloc row: f64[8] C local
  for %i in 0..{more} {{
    store row[%i] = 1.0:f64
  }}
  for %k in 0..8 {{
    %a = load row[%k]
    store out[%k] = %a
  }}
}}
"""


def test_who_writes_outside_of_local_memory_ends_the_process(record_backend):
    record_backend("cpu")
    program = """
from tests.backends.test_poison import *
out = ProgramBuffer("out", "f64", (8,), "output")
for more in (8, 9):
    print(len(run("cpu", Launch(parse_kernel(LOCAL.format(more=more)), (out,)), output=out)), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "8\n"
    assert done.returncode in (-signal.SIGILL, -signal.SIGTRAP)  # as the processor says it
