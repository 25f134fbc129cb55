"""Updates at places that data say: random kernels whose groups keep tables in shared memory, by the reference
interpreter and on devices, and how many work-items histograms get.
"""

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.backends.test_grid_random import run_bound
from tests.backends.test_staged_random import SYMBOLS
from tracejit.backends.device.schedules import gpu_schedule
from tracejit.backends.grid import GridProgram, GridSchedule, bind_grid
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir import kernel as k
from tracejit.ir.check import check_kernel
from tracejit.ir.extents import evaluate
from tracejit.ir.text import parse_kernel

DTYPES = frozenset({"i32", "u32", "i64", "u64"})
SCHEDULES = [
    GridSchedule(work_group=4, groups=16, atomics=DTYPES, tables=DTYPES),
    GridSchedule(work_group=2, groups=64, atomics=DTYPES, tables=DTYPES, shared_bytes=64),
    GridSchedule(work_group=8, groups=8, atomics=DTYPES, tables=DTYPES, wide=True),
]


def updating(seed: int) -> str:
    """Text of a kernel: rows of places and values that update a table, some of them out of its bounds, with the
    check of these or without, under another condition or not.
    """
    pick = random.Random(seed).choice
    rows, columns = pick([1, 3, 40, "n"]), pick([1, 7, 64, 150])
    shape = pick(["5", "1", "3, 4", "", "40", "9, 1"])
    op, size = pick(["add", "add", "max", "min", "xor", "or", "and", "mul"]), [int(n) for n in shape.split(", ") if n]
    nested = pick([True, False])
    at = "x1[%i, %j]" if nested else "x1[%j]"
    index = ["%l"] if len(size) == 1 else ["%l", "%m"][: len(size)]
    lines = [f"%l = load {at}", "%m = and %l 3" if len(size) == 2 and size[1] == 4 else "%m = mul %l 0"]
    if size:
        lines += ["%u: u64 = convert %l", f"%b = lt %u {size[0]}:u64"]
    else:
        lines += ["%b = lt %l 5"]
    if pick([True, False]):
        lines += ["%a = gt %l 1", "%c = and %a %b"]
    else:
        lines += ["%c = and %b %b"]
    place = f"x0[{', '.join(index)}]"
    change = f"if %c {{ %x = load {place}; %v = mul %l 3; %y = {op} %x %v; store {place} = %y }}"
    checked, given = pick([True, False]), ""
    if checked and not nested:
        lines.append(f"{change}; %w = max %k %l; yield %w")
        carry = "carry(%k = 0) combine(%e, %f) { %g = max %e %f; yield %g }"
        body = f"%r = for %j in 0..{columns} {carry} {{ {'; '.join(lines)} }}; store x2[] = %r"
        given = ", x2: i64[] C out"
    else:
        body = f"for %j in 0..{columns} {{ {'; '.join([*lines, change])} }}"
        body = f"for %i in 0..{rows} {{ {body} }}" if nested else body
    places = f"{rows}, {columns}" if nested else f"{columns}"
    dims = "dims(n)" if nested and rows == "n" else ""
    return f"kernel updating(x0: i64[{shape}] C out, x1: i64[{places}] C{given}) {dims} {{ {body} }}"


def kernel_of(seed: int) -> k.Kernel:
    kernel = parse_kernel(updating(seed))
    check_kernel(kernel)
    return kernel


def arrays(kernel: k.Kernel, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {b.name: rng.integers(-2, 9, tuple(evaluate(n, SYMBOLS) for n in b.shape)) for b in kernel.buffers}


def keeps_tables(program: GridProgram) -> bool:
    return any(
        isinstance(s, k.Atomic) and s.buffer.space == "shared" for a in program.launches for s in k.walk(a.kernel.body)
    )


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_a_kernel_with_tables_does_what_the_kernel_does(first: int):
    for seed in range(first, first + 20):
        kernel = kernel_of(seed)
        want = arrays(kernel, seed)
        run_kernel(kernel, want, SYMBOLS)
        for schedule in SCHEDULES:
            got = arrays(kernel, seed)
            run_bound(bind_grid(kernel, schedule), got)
            for name, array in want.items():
                np.testing.assert_array_equal(got[name], array, err_msg=f"seed {seed}, {schedule}, {name}\n{kernel}")


def test_the_random_kernels_are_bound_in_every_way():
    seen: Counter[str] = Counter()
    for seed in range(160):
        kernel = kernel_of(seed)
        for schedule in SCHEDULES:
            program = bind_grid(kernel, schedule)
            seen["tables"] += keeps_tables(program)
            seen["no tables"] += not keeps_tables(program)
            seen["apart"] += len(program.launches) > 1
    assert min(seen.values()) > 40, seen


def test_kernels_with_tables_on_devices(device: Any):
    seeds = [s for s in range(99) if keeps_tables(bind_grid(kernel_of(s), SCHEDULES[0]))]
    for seed in seeds[:12]:
        kernel = kernel_of(seed)
        want = arrays(kernel, seed)
        run_kernel(kernel, want, SYMBOLS)
        given = arrays(kernel, seed)
        buffers = {name: device.from_host(array) for name, array in given.items()}
        device.compile_kernel(kernel, SCHEDULES[0]).launch(list(buffers.values()), SYMBOLS)
        for name, array in want.items():
            got = device.to_host(buffers[name], array.dtype, array.shape)
            np.testing.assert_array_equal(got, array, err_msg=f"seed {seed}, {name}\n{kernel}")


def counted(i: Any) -> Any:
    return np.bincount(i, minlength=16)


def added(x: Any, i: Any) -> Any:
    np.add.at(x, i, 1)
    return x


def in_bins(v: Any) -> Any:
    return np.histogram(v, bins=16, range=(0, 1))[0]


@pytest.mark.parametrize("function", [counted, added, in_bins])
def test_histograms_are_shared_out_among_groups_and_their_checks_too(function: Any, cuda_device: Any):
    """No part of one runs in one work-item, but for what joins the groups' results."""
    rng = np.random.default_rng(0)
    given = {"i": rng.integers(0, 16, 200_000), "x": np.zeros(16, np.int64), "v": rng.random(200_000)}
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    text = tj.jit(function, backend="cuda").lower(*(given[n] for n in names)).text("scheduled")
    kernels = [parse_kernel("kernel " + part) for part in text.split("kernel ")[1:]]
    programs = [bind_grid(kernel, gpu_schedule(132, 1024, DTYPES, DTYPES)) for kernel in kernels]
    assert any(map(keeps_tables, programs))
    for program in programs:
        for launch in program.launches:
            loops = [s for s in k.walk(launch.kernel.body) if isinstance(s, k.For) and s.axis.kind == "serial"]
            long = [s for s in loops if isinstance(s.upper, k.Const) and s.upper.value == 200_000 and s.step == 1]
            assert not long, launch.kernel
