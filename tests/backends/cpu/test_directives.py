"""Every directive on every loop of kernels that are easily got wrong: it is refused, or nothing changes.

The kernels keep local memory, read what other iterations store, or store where others do; plain Python says what is
right.  Code comes from the cpu backend, as it writes statements out side by side and in lanes, which an interpreter
does not.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np
import pytest

from tracejit.backends.registry import get_backend
from tracejit.ir.check import check_kernel
from tracejit.ir.program import Launch, Program, ProgramBuffer
from tracejit.ir.schedule import apply, parse_schedule
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import ScheduleError, UnsupportedError

N = 4


def local_rows(x, y):
    for i in range(N):
        y[i] = x[i] * 2 + x[i].sum()


def pairs(x, y):
    y[...] = 0
    for i in range(N):
        y[0, i // 2] += x[0, i]


def overlapping(x, y):
    y[...] = 0
    flat = y.reshape(-1)
    for i in range(N):
        for j in range(N):
            flat[i + j] = x[i, j]


def running(x, y):
    y[...] = 1
    for j in range(N - 1):
        y[0, j + 1] = y[0, j] * 3 + sum(x[k, j] for k in range(N))


def plain(x, y):
    y[...] = 0
    for i in range(N):
        for j in range(N):
            y[i, j] = x[j, i] + i


def stepped(x, y):
    y[...] = 0
    for i in range(0, N, 2):
        y[i] = x[i]


ZERO = """
          for %a in 0..4 {
            for %b in 0..4 {
              store y[%a, %b] = START:f64
            }
          }
"""
KERNELS: dict[str, tuple[Callable[..., None], str]] = {
    "local_rows": (
        local_rows,
        """
          for %i in 0..4 {
            alloc row: f64[4] C local
            %s = for %k in 0..4 serial carry(%c = 0.0:f64) combine(%p, %q) { %r = add %p %q; yield %r } {
              %v = load x[%i, %k]
              %d = mul %v 2.0:f64
              store row[%k] = %d
              %w = add %c %v
              yield %w
            }
            for %k in 0..4 {
              %v = load row[%k]
              %o = add %v %s
              store y[%i, %k] = %o
            }
          }
        """,
    ),
    "pairs": (
        pairs,
        ZERO.replace("START", "0.0")
        + """
          for %i in 0..4 {
            %h = idiv %i 2:i64
            %o = load y[0:i64, %h]
            %v = load x[0:i64, %i]
            %n = add %o %v
            store y[0:i64, %h] = %n
          }
        """,
    ),
    "overlapping": (
        overlapping,
        ZERO.replace("START", "0.0")
        + """
          for %i in 0..4 {
            for %j in 0..4 {
              %p = add %i %j
              %r = idiv %p 4:i64
              %c = irem %p 4:i64
              %v = load x[%i, %j]
              store y[%r, %c] = %v
            }
          }
        """,
    ),
    "running": (
        running,
        ZERO.replace("START", "1.0")
        + """
          for %j in 0..3 {
            %s = for %k in 0..4 serial carry(%c = 0.0:f64) combine(%p, %q) { %r = add %p %q; yield %r } {
              %v = load x[%k, %j]
              %w = add %c %v
              yield %w
            }
            %b = load y[0:i64, %j]
            %t = mul %b 3.0:f64
            %o = add %t %s
            %n = add %j 1:i64
            store y[0:i64, %n] = %o
          }
        """,
    ),
    "plain": (
        plain,
        """
          for %i in 0..4 {
            for %j in 0..4 {
              %v = load x[%j, %i]
              %f: f64 = convert %i
              %o = add %v %f
              store y[%i, %j] = %o
            }
          }
        """,
    ),
    "stepped": (
        stepped,
        ZERO.replace("START", "0.0")
        + """
          for %i in 0..4 step 2 {
            for %j in 0..4 {
              %v = load x[%i, %j]
              store y[%i, %j] = %v
            }
          }
        """,
    ),
}
LOOPS = ["L0", "L1", "L2", "L3", "L4"]
DIRECTIVES = [
    "unroll {}", "vector {} 4 1", "vector {} 2 2", "parallel {} 1", "split {} 2", "split {} 3; unroll {}.i",
    "split {} 2; unroll {}.i; unroll {}.o", "split {} 2; vector {}.i 2 1", "split {} 2; parallel {}.o 1", "cut {}",
    "privatize {} 2", "privatize {} 2; parallel {}.o 1; vector {}.i 2 1",
]  # fmt: skip


def run(text: str, schedule: str, x: np.ndarray) -> np.ndarray:
    kernel = parse_kernel(
        textwrap.dedent(f"kernel k(x: f64[4, 4] C, y: f64[4, 4] C out) {{\n{textwrap.dedent(text)}\n}}")
    )
    check_kernel(kernel)
    wanted = parse_schedule(schedule)
    scheduled = apply(kernel, wanted)
    check_kernel(scheduled)
    given, out = (ProgramBuffer(name, "f64", (4, 4), role) for name, role in (("x", "input"), ("y", "output")))
    program = Program("p", (given,), (out,), (), (Launch(scheduled, (given, out), wanted),))
    return get_backend("cpu").compile(program).run([x], {})[0]


@pytest.mark.parametrize("name", KERNELS)
def test_a_directive_is_refused_or_changes_nothing(name: str, record_backend: Callable[[str], None]):
    record_backend("cpu")
    meaning, text = KERNELS[name]
    x, want = np.random.default_rng(0).integers(1, 9, (N, N)).astype(float), np.zeros((N, N))
    meaning(x, want)
    taken: list[str] = []
    for directive in DIRECTIVES:
        for loop in LOOPS:
            schedule = directive.replace("{}", loop)
            try:
                got = run(text, schedule, x)
            except ScheduleError:
                continue
            except UnsupportedError:
                assert name == "stepped"
                continue
            taken.append(schedule)
            np.testing.assert_array_equal(got, want, err_msg=schedule)
    assert taken or name == "stepped"


def test_some_directives_are_taken():
    _, text = KERNELS["plain"]
    x = np.ones((N, N))
    for schedule in ("unroll L0", "vector L1 4 1", "parallel L0 1", "split L0 2"):
        run(text, schedule, x)


@pytest.mark.parametrize(
    "text", ["vector L0 x", "split L0 x", "parallel L0 x", "unroll", "reverse L0", "vector L0 4 1 2"]
)
def test_what_is_no_directive_is_refused_as_such(text: str):
    with pytest.raises(ScheduleError):
        parse_schedule(text)


def test_a_grid_has_no_meaning_on_a_processor():
    with pytest.raises(ScheduleError, match="has no grid"):
        run(KERNELS["plain"][1], "grid work_group 64", np.ones((N, N)))
