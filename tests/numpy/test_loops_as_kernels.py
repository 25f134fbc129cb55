"""Loops of a program that become kernels: which do, and that they give what Python gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.numpy.cases import Cases
from tracejit.ir.kernel import For
from tracejit.ir.program import CountedLoop, Launch, WhileLoop, walk_steps

BACKENDS = ("cpu", "reference", "opencl", "plain_c")
CASES = Cases()
case, everywhere = CASES.case, CASES.everywhere


@everywhere
def recurrence(x: Any, k: Any) -> Any:
    y = x.copy()
    for i in range(1, len(x)):
        y[i] = 0.9 * y[i - 1] + x[i]
    return y


@everywhere
def two_numbers_that_change_places(x: Any, k: Any) -> Any:
    a, b = 1.0, 2.0
    for i in range(len(x)):
        a, b = b, a * 0.5 + x[i]
    return a, b


@everywhere
def table(x: Any, k: Any) -> Any:
    d = np.zeros((len(x) + 1, len(k) + 1))
    for i in range(len(x)):
        for j in range(len(k)):
            d[i + 1, j + 1] = min(d[i, j + 1], d[i + 1, j]) + abs(x[i] - k[j])
    return d


@case
def triangle(x: Any, k: Any) -> Any:
    y = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        for j in range(i + 1):
            s = x[i]
            for m in range(j):
                s -= y[i, m] * y[j, m]
            y[i, j] = s
    return y


@case
def products_of_rows_up_to_the_index(x: Any, k: Any) -> Any:
    y = np.outer(x, x)
    for i in range(len(x)):
        for j in range(i):
            y[i, j] = y[i, :j] @ y[j, :j] * 0.1 + x[j]
    return y


@everywhere
def branches_that_store(x: Any, k: Any) -> Any:
    y = x.copy()
    n = 0
    for i in range(len(x)):
        if x[i] > 0:
            y[i] = -1.0
            n += 1
        elif x[i] < -0.5:
            y[i - 1] = x[i]
    return y, n


@everywhere
def inner_loop_that_ends_early(x: Any, k: Any) -> Any:
    y = x.copy()
    for i in range(1, len(x)):
        key = y[i]
        j = i - 1
        while j >= 0 and y[j] > key:
            y[j + 1] = y[j]
            j -= 1
        y[j + 1] = key
    return y


@case
def small_arrays_that_change_places(x: Any, k: Any) -> Any:
    a, b = np.zeros(3), np.ones(3)
    for i in range(len(x)):
        a, b = b, a * 0.5 + x[i]
    return a, b


@case
def small_array_that_is_replaced(x: Any, k: Any) -> Any:
    best, value = np.zeros(2), 0.0
    for i in range(len(x)):
        new = best + x[i]
        if new.sum() > value:
            best, value = new, new.sum()
    return best, value


@case
def places_from_data(x: Any, k: Any) -> Any:
    count = np.zeros(5, dtype=np.int64)
    for v in k:
        count[int(abs(v) * 2) % 5] += 1
    return count


@everywhere
def sums_between_places(x: Any, k: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.sum(x[i // 2 : i]) * 0.5
    return out


@case
def strided_columns(x: Any, k: Any) -> Any:
    a = np.outer(x, k).T
    b = a[:, ::-1]
    for i in range(1, b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += 0.5 * b[i - 1, j]
    return a


@everywhere
def multiples_struck_out(x: Any, k: Any) -> Any:
    prime = np.ones(7 * len(x), dtype=bool)
    i = 2
    while i * i < len(prime):
        if prime[i]:
            for j in range(i * i, len(prime), i):
                prime[j] = False
        i += 1
    return prime


@case
def steps_from_data(x: Any, k: Any) -> Any:
    up, down = x * 0, x * 0
    for v in k:
        step = int(abs(v) * 2) + (v > -2)  # 0 at times, an error
        for j in range(0, len(x), step):
            up[j] += v
        for j in range(len(x) - 1, -1, -step):
            down[j] += v
            if down[j] > 1:
                break
    return up, down


@case
def index_out_of_range(x: Any, k: Any) -> Any:
    s = 0.0
    for i in range(len(k)):
        s += x[i]
    return s


@case
def number_that_outgrows_its_bits(x: Any, k: Any) -> Any:
    n = 2**62 - len(x) * 2**40
    for i in range(len(x)):
        n = n + 2**40 if x[i] > 0 else n - 1
    return n


def data(generator: np.random.Generator, n: int) -> tuple[Any, ...]:
    return np.round(generator.standard_normal(n), 2), np.round(generator.standard_normal(max(n - 1, 0)), 2)


@pytest.mark.parametrize("f", CASES.functions, ids=lambda f: f.__name__)
def test_loops_over_elements(agree_at_sizes: Callable[..., None], f: Callable[..., Any]):
    agree_at_sizes(f, data)


@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("f", CASES.on_every_backend, ids=lambda f: f.__name__)
def test_on_other_backends(agree_at_sizes: Callable[..., None], f: Callable[..., Any], backend: str):
    agree_at_sizes(f, data, backend, sizes=(9, 4, 1, 0), seeds=1)


def loops(f: Callable[..., Any], *args: Any, backend: str = "cpu") -> tuple[int, int]:
    """(launches, loops of the program)"""
    steps = list(walk_steps(tj.jit(f, backend=backend).lower(*args).program.steps))
    return sum(isinstance(s, Launch) for s in steps), sum(isinstance(s, CountedLoop | WhileLoop) for s in steps)


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize(
    "f",
    [recurrence, table, triangle, branches_that_store, inner_loop_that_ends_early, small_arrays_that_change_places],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_a_nest_of_loops_over_elements_is_one_kernel(f: Callable[..., Any], backend: str):
    x, k = data(np.random.default_rng(0), 40)
    launches, left = loops(f, x, k, backend=backend)
    assert left == 0
    assert launches <= 4


def row_wise(x: Any, k: Any) -> Any:
    y = np.outer(x, x)
    z = np.zeros_like(y)
    for i in range(1, len(x) - 1):
        for j in range(1, len(x) - 1):
            z[i, j] = y[i - 1, j] + y[i + 1, j] - 2 * y[i, j - 1] * y[i, j + 1]
    return z


def inside_only(x: Any, k: Any) -> Any:
    y = np.outer(x, x)
    for i in range(1, len(x)):
        for j in range(len(x)):
            y[i, j] = 0.5 * y[i - 1, j] + x[j]
    return y


def neither(x: Any, k: Any) -> Any:
    y = np.outer(x, x)
    for i in range(1, len(x)):
        for j in range(1, len(x)):
            y[i, j] = 0.5 * y[i - 1, j - 1] + y[i, j - 1]
    return y


def by_data(x: Any, k: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(k)):
        y[k[i]] = 0.5 * y[k[i]] + i
    return y


@pytest.mark.parametrize(
    ("f", "outer", "inner"),
    [(row_wise, "parallel", "vector"), (inside_only, "serial", "vector"), (neither, "serial", "serial")],
)
def test_iterations_that_touch_nothing_of_each_other_run_in_lanes_and_on_threads(f: Any, outer: str, inner: str):
    x, k = np.linspace(-1.0, 1.0, 300), np.arange(3)
    jitted = tj.jit(f)
    np.testing.assert_allclose(jitted(x, k), f(x, k), rtol=1e-13)
    program = jitted.lower(x, k).program
    kernels = [
        s.kernel for s in walk_steps(program.steps) if isinstance(s, Launch) and s.kernel.name.startswith("loop")
    ]
    (loop,) = [s for s in kernels[-1].body if isinstance(s, For)]
    (within,) = [s for s in loop.body if isinstance(s, For)]
    assert (loop.axis.kind, within.axis.kind) == (outer, inner)


def test_elements_that_data_name_are_written_in_order():
    x, k = np.ones(5), np.array([1, 1, 1, 4, 1, 0, 4] * 40)
    np.testing.assert_array_equal(tj.jit(by_data)(x, k), by_data(x, k))


def test_what_is_large_stays_a_loop_of_the_program():
    def exchanged(u: Any) -> Any:
        v = u * 0.5
        for _ in range(500):
            u, v = v, u * 0.5
        return u

    def products(a: Any) -> Any:
        for _ in range(500):
            a = a @ a * 0.1
        return a

    assert loops(exchanged, np.ones(1000))[1] == 1
    assert loops(products, np.ones((40, 40)))[1] == 1


def test_on_a_grid_long_loops_inside_stay_kernels_of_their_own(opencl_as_a_grid: None):
    def rows(a: Any) -> Any:
        for i in range(1, len(a)):
            a[i] += 0.5 * a[i - 1]
        return a

    assert loops(rows, np.ones((50, 1000)), backend="opencl")[1] == 1


def test_the_report_names_the_kernel_of_the_loop():
    x, k = data(np.random.default_rng(0), 40)
    lowered = tj.jit(table).lower(x, k)
    names = {kernel.name for kernel in lowered.program.kernels()}
    assert {where for _, where in lowered.report} <= names | {"program"}
    assert "loop_0" in names


def test_results_that_nobody_reads_leave_a_branch():
    def f(x: Any, n: Any) -> Any:
        y = np.zeros(1000)
        for i in range(1000):
            if i < n:
                y[i] = x
                x = x + 1
        return y, x

    assert loops(f, 1.5, 10)[1] == 0
    y, x = tj.jit(f)(1.5, 10)
    want = f(1.5, 10)
    np.testing.assert_array_equal(y, want[0])
    assert x == want[1]


def test_a_row_as_long_as_the_index_says_is_changed_in_place_though_others_are_read():
    def substituted(a, b):
        x = b.copy()
        for i in range(1, len(a)):
            x[i, i:] -= a[i, :i] @ x[:i, i:]
        return x

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 200)) / 200, rng.normal(size=(200, 200))
    np.testing.assert_allclose(tj.jit(substituted)(a, b), substituted(a, b), rtol=1e-9, atol=1e-9)
    program = tj.jit(substituted).lower(a, b).text("program")
    assert "temporary" not in "\n".join(line for line in program.splitlines() if "f64[200, 200]" in line)
