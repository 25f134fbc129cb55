"""Programs of hand-made steps on every backend: loops, branches, swaps and copies do what their text says."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backends.drivers import DRIVERS
from tests.backends.plain_c import EVERY_BACKEND
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.backends.registry import backend_reason, get_backend
from tracejit.backends.runner import plan_of, run_program, seen_as
from tracejit.ir.extents import Dim
from tracejit.ir.program import Branch, Copy, CountedLoop, Launch, Program, ProgramBuffer, Swap, WhileLoop
from tracejit.ir.text import parse_kernel
from tracejit.support.config import config
from tracejit.support.errors import InternalError

pytestmark = pytest.mark.opencl


@pytest.fixture(params=EVERY_BACKEND)
def backend(request: pytest.FixtureRequest, record_backend: Callable[[str], None]) -> Any:
    record_backend(request.param)
    if request.param in DRIVERS:
        request.getfixturevalue(f"{request.param}_devices")
    assert not (reason := backend_reason(request.param)), reason
    return get_backend(request.param)


def elementwise(name: str, body: str, shape: str = "4") -> Any:
    """A kernel `y = body(x)`."""
    return parse_kernel(f"""
kernel {name}(x: f64[{shape}] C, y: f64[{shape}] C out) {"dims(n)" if shape == "n" else ""} {{
  for %i in 0..{shape} {{
    %a = load x[%i]
    {body}
    store y[%i] = %b
  }}
}}
""")


DOUBLE = elementwise("double", "%b = add %a %a")
INCREMENT = elementwise("increment", "%b = add %a 1.0:f64")
COPY = elementwise("same", "%b = add %a 0.0:f64")
BELOW = parse_kernel("""
kernel below(x: f64[4] C, flag: bool[] C out) {
  %a = load x[0]
  %f = lt %a 100.0:f64
  store flag[] = %f
}
""")
X = np.array([1.0, 2.0, 3.0, 4.0])


def buffers(*specs: tuple[str, str, str]) -> dict[str, ProgramBuffer]:
    return {name: ProgramBuffer(name, dtype, () if dtype == "bool" else (4,), role) for name, dtype, role in specs}


def run(backend: Any, names: dict[str, ProgramBuffer], steps: list[Any], *inputs: np.ndarray) -> list[np.ndarray]:
    by_role = {r: tuple(b for b in names.values() if b.role == r) for r in ("input", "output", "temporary")}
    program = Program("main", by_role["input"], by_role["output"], by_role["temporary"], tuple(steps))
    return backend.compile(program).run([*inputs], {})


BASIC = [("x", "f64", "input"), ("out", "f64", "output"), ("t", "f64", "temporary")]


def test_kernels_run_in_order_through_temporaries(backend: Any):
    b = buffers(*BASIC)
    steps = [Launch(DOUBLE, (b["x"], b["t"])), Launch(INCREMENT, (b["t"], b["out"]))]
    np.testing.assert_array_equal(run(backend, b, steps, X)[0], 2 * X + 1)


def test_a_swapped_output_is_returned_from_what_it_stands_for(backend: Any):
    b = buffers(*BASIC)
    steps = [Launch(DOUBLE, (b["x"], b["t"])), Launch(COPY, (b["x"], b["out"])), Swap(b["out"], b["t"])]
    np.testing.assert_array_equal(run(backend, b, steps, X)[0], 2 * X)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_counted_loops_with_swapped_carries(backend: Any, count: int):
    b = buffers(*BASIC)
    body = (Launch(DOUBLE, (b["out"], b["t"])), Swap(b["out"], b["t"]))
    steps = [Copy(b["out"], b["x"]), CountedLoop(count, body)]
    np.testing.assert_array_equal(run(backend, b, steps, X)[0], X * 2**count)
    np.testing.assert_array_equal(X, [1, 2, 3, 4])


def test_nested_loops(backend: Any):
    b = buffers(*BASIC)
    inner = CountedLoop(3, (Launch(INCREMENT, (b["out"], b["t"])), Swap(b["out"], b["t"])))
    outer = CountedLoop(2, (Launch(DOUBLE, (b["out"], b["t"])), Swap(b["out"], b["t"]), inner))
    expected = X
    for _ in range(2):
        expected = 2 * expected + 3
    np.testing.assert_array_equal(run(backend, b, [Copy(b["out"], b["x"]), outer], X)[0], expected)


@pytest.mark.parametrize("start", [1.0, 99.0, 100.0])
def test_while_loops_test_before_each_iteration(backend: Any, start: float):
    b = buffers(*BASIC, ("flag", "bool", "temporary"))
    body = (Launch(DOUBLE, (b["out"], b["t"])), Swap(b["out"], b["t"]))
    steps = [Copy(b["out"], b["x"]), WhileLoop((Launch(BELOW, (b["out"], b["flag"])),), b["flag"], body)]
    expected = X + start - 1
    while expected[0] < 100:
        expected = expected * 2
    np.testing.assert_array_equal(run(backend, b, steps, X + start - 1)[0], expected)


@pytest.mark.parametrize("start", [1.0, 200.0])
def test_branches(backend: Any, start: float):
    b = buffers(("x", "f64", "input"), ("out", "f64", "output"), ("flag", "bool", "temporary"))
    branch = Branch(b["flag"], (Launch(DOUBLE, (b["x"], b["out"])),), (Launch(INCREMENT, (b["x"], b["out"])),))
    x = X * start
    expected = 2 * x if x[0] < 100 else x + 1
    np.testing.assert_array_equal(run(backend, b, [Launch(BELOW, (b["x"], b["flag"])), branch], x)[0], expected)


def test_symbolic_extents_and_counts(backend: Any):
    n = Dim.symbol("n")
    x, out, t = (
        ProgramBuffer(name, "f64", (n,), role) for name, role in (("x", "input"), ("out", "output"), ("t", "temporary"))
    )
    body = (Launch(elementwise("double", "%b = add %a %a", "n"), (out, t)), Swap(out, t))
    compiled = backend.compile(Program("main", (x,), (out,), (t,), (Copy(out, x), CountedLoop(n, body)), ("n",)))
    for size in (0, 1, 6):
        np.testing.assert_array_equal(compiled.run([np.ones(size)], {"n": size})[0], np.full(size, 2.0**size))


def test_one_program_may_run_many_times_with_different_arguments(backend: Any):
    b = buffers(*BASIC)
    program = Program(
        "main",
        (b["x"],),
        (b["out"],),
        (b["t"],),
        (Launch(DOUBLE, (b["x"], b["t"])), Launch(INCREMENT, (b["t"], b["out"]))),
    )
    compiled = backend.compile(program)
    results = [compiled.run([X * k], {})[0] for k in range(20)]
    for k, got in enumerate(results):
        np.testing.assert_array_equal(got, 2 * X * k + 1)


class Counting:
    """A machine of arrays that counts what is allocated and how much is alive."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def allocate(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        self.log.append("allocate")
        return np.full(shape, np.nan)

    def upload(self, array: np.ndarray, layout: str) -> np.ndarray:
        return array

    def download(self, memory: np.ndarray, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        self.log.append("download")
        return memory

    def copy(self, target: np.ndarray, source: np.ndarray) -> None:
        self.log.append("copy")
        np.copyto(target, source)

    def launch(self, step: Launch, arguments: Any, dims: Any) -> None:
        self.log.append(step.kernel.name)
        run_kernel(step.kernel, {b.name: a for b, a in zip(step.kernel.buffers, arguments, strict=True)}, dims)


def test_temporaries_begin_where_they_are_first_mentioned_and_end_after_the_last(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)
    b = buffers(("x", "f64", "input"), ("out", "f64", "output"), ("t", "f64", "temporary"), ("u", "f64", "temporary"))
    steps = (
        Launch(DOUBLE, (b["x"], b["t"])),
        CountedLoop(2, (Launch(INCREMENT, (b["t"], b["u"])), Swap(b["t"], b["u"]))),
        Launch(COPY, (b["t"], b["out"])),
    )
    plan = plan_of(Program("main", (b["x"],), (b["out"],), (b["t"], b["u"]), steps))
    assert [[x.name for x in block] for block in plan.begins] == [["t"], ["u"], ["out"]]
    assert [[x.name for x in block] for block in plan.ends] == [[], ["u"], ["t"]]
    machine = Counting()
    np.testing.assert_array_equal(run_program(plan, machine, [X], {})[0], 2 * X + 2)
    assert machine.log == ["allocate", "double", "allocate", "increment", "increment", "allocate", "same", "download"]


def test_a_copy_onto_the_same_memory_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)
    b = buffers(("x", "f64", "input"), ("out", "f64", "output"), ("t", "f64", "temporary"))
    steps = (
        Launch(DOUBLE, (b["x"], b["t"])),
        Launch(COPY, (b["x"], b["out"])),
        Copy(b["t"], b["t"]),
        Copy(b["out"], b["t"]),
    )
    machine = Counting()
    plan = plan_of(Program("main", (b["x"],), (b["out"],), (b["t"],), steps))
    np.testing.assert_array_equal(run_program(plan, machine, [X], {})[0], 2 * X)
    assert machine.log.count("copy") == 1


def test_arguments_that_do_not_fit_are_bugs_that_are_named():
    b = buffers(*BASIC)
    plan = plan_of(Program("main", (b["x"],), (b["out"],), (), (Launch(DOUBLE, (b["x"], b["out"])),)))
    with pytest.raises(InternalError, match="takes 1 inputs, not 2"):
        run_program(plan, Counting(), [X, X], {})
    with pytest.raises(InternalError, match="is f64\\[4\\], the array of shape \\(2, 2\\) is not contiguous"):
        seen_as(DOUBLE.buffers[0], np.ones((4, 2))[::2, :], {})
