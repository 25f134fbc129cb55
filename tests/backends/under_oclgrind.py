"""What test_oclgrind.py has run under oclgrind: `python -m tests.backends.under_oclgrind PART LOG`.

Everything runs as on a GPU.  After each piece of work a line of JSON says where in oclgrind's log its reports are.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tracejit as tj
from tests.backends.test_device_functions import FUNCTIONS, STAGED, X, integers, normal
from tests.backends.test_grid_random import SCHEDULES as GRID_SCHEDULES, SYMBOLS, Generator, arrays
from tests.backends.test_staged_random import SCHEDULES as STAGED_SCHEDULES, Staged, arrays as staged_arrays, kernel_of
from tracejit.backends.device import memory
from tracejit.backends.device.schedules import gpu_schedule
from tracejit.backends.grid import GridSchedule
from tracejit.backends.opencl import target
from tracejit.backends.opencl.runtime import OpenCLDevice, devices
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir.kernel import Kernel
from tracejit.ir.scalar import numpy_dtype
from tracejit.ir.text import parse_kernel
from tracejit.support.nodes import evolve

ATOMICS = frozenset({"i32", "u32", "i64", "u64"})
PROGRAM_SCHEDULES = {
    "a GPU's": evolve(gpu_schedule(2, 64, ATOMICS, ATOMICS), pack_extent=1),
    "small tiles": GridSchedule(
        work_group=32, groups=4, jam=4, stage=16, fold=16, group_extent=4, part_extent=4, shares=5, in_order=2,
        array_bytes=64, shared_bytes=9000,
    ),
    "an item a row": GridSchedule(
        work_group=8, groups=2, rows="item", fold=2, pack=2, pack_extent=1, shares=3, atomics=ATOMICS
    ),
}  # fmt: skip
PARTS = (*PROGRAM_SCHEDULES, "random nests", "random tiles", "atomics", "faults")
WORDS = ("barrier(", "__local", "atomic_", "atom_", "cmpxchg", "get_group_id", "4*)(", "2*)(")
"""Of kernels, by which the tests see what they use."""


def stencil(u: Any) -> Any:
    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def loops(x: Any) -> Any:
    def more(state: Any) -> Any:
        return state[0].sum() < 100.0

    def step(state: Any) -> Any:
        return state[0] * 1.5, state[1] + 1

    return tj.lax.while_loop(more, step, (tj.lax.fori_loop(0, 4, lambda i, c: c * 0.5 + i, x), 0))


def drawn(seed: Any) -> Any:
    key = tj.random.key(seed)
    return tj.random.normal(key, (40,)), tj.random.permutation(key, 20), tj.random.uniform(key, (7, 9))


SLOW = ("cumsum", "outer and dot", "counts", "a long running sum", "product", "batch of products", "gradient")
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{name: given for name, given in {**FUNCTIONS, **STAGED}.items() if name not in SLOW},
    "a long running sum": (np.cumsum, (integers(4100, dtype="i8"),)),
    "outer product": (np.outer, (normal(20), normal(33, seed=3))),
    "a product of tiles": (lambda a, b: np.tanh(a @ b.T) + b[:, 0], (normal(34, 40), normal(33, 40, seed=2))),
    "products of a batch": (lambda a, b: a @ b, (normal(2, 17, 18), normal(2, 18, 33, seed=2))),
    "gradient of a product": (tj.grad(lambda a, b: ((a @ b) ** 2).sum()), (normal(9, 20), normal(20, 17, seed=2))),
    "axes": (lambda x: (x.sum((0, 2)), x.max((1, 2)), x.min(1), x.prod(0)), (normal(7, 33, 19),)),
    "a long sum": (lambda x: (x.sum(), x.argmax()), (integers(3000, dtype="i8"),)),
    "sums along both": (lambda x: (np.cumsum(x, 0), np.cumsum(x, 1)), (normal(20, 50),)),
    "sort": (lambda x: (np.sort(x), np.argsort(x, kind="stable")), (normal(130),)),
    "sort of rows": (lambda x: np.sort(x, 1), (normal(5, 40),)),
    "radix sort": (np.sort, (integers(100, dtype="u1", low=0, high=9),)),
    "places in order": (np.searchsorted, (np.sort(normal(70)), normal(50, seed=2))),
    "weights": (lambda at, w: np.bincount(at, w, 50), (integers(200, low=0, high=50), normal(200, dtype="f8"))),
    "counts": (lambda at: np.bincount(at, minlength=50), (integers(200, low=0, high=50),)),
    "histogram": (lambda x: np.histogram(x, 10, (-3.0, 3.0))[0], (normal(200),)),
    "convolution": (lambda x, k: np.convolve(x, k, "valid"), (normal(150), normal(9, seed=2))),
    "stencil": (stencil, (normal(17, 20),)),
    "fourier": (np.fft.fft, (normal(48, dtype="f8"),)),
    "loops over arrays": (loops, (np.abs(X[0]),)),
    "random numbers": (drawn, (5,)),
    "a batch of loops": (tj.vmap(FUNCTIONS["a while loop"][0]), (np.arange(1, 20),)),
    "gradient of a gather": (tj.grad(lambda x: (x[np.array([1, 1, 2])] ** 3).sum()), (X,)),
}

FAULTS: dict[str, str] = {
    "no fault": "out[i] = i;",
    "race": "out[0] = i;",
    "race in shared memory": "__local int t[8]; t[get_local_id(0)] = i; out[i] = t[7 - get_local_id(0)];",
    "race between groups": "out[i] = out[(i + 8) % 16];",
    "out of bounds": "out[i + 3] = i;",
    "divergent barrier": "if (i % 2) barrier(CLK_LOCAL_MEM_FENCE); out[i] = i;",
    "not initialised": "__local int t[9]; t[get_local_id(0)] = i; barrier(CLK_LOCAL_MEM_FENCE); out[i] = t[8];",
}
"""Bodies of kernels of two groups of 8 work-items that fill 16 integers."""


def main(part: str, log: str) -> None:
    """Run a part, a line of output for each piece of it."""
    device = gpu()
    if part in PROGRAM_SCHEDULES:
        device.default_schedule = PROGRAM_SCHEDULES[part]
        work = ((name, lambda a=f, b=given: run_program(device, a, b)) for name, (f, given) in PROGRAMS.items())
    else:
        made = {"random nests": nests, "random tiles": tiles, "atomics": atomics, "faults": faults}[part]
        work = made(device)
    reports, began = Path(log), time.perf_counter()
    reports.touch()
    for name, run in work:
        begin, fault, words = reports.stat().st_size, "", list[str]()
        try:
            words = run()
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - began
        line = {"name": name, "words": words, "fault": fault, "log": [begin, reports.stat().st_size], "at": seconds}
        print(json.dumps(line), flush=True)


def gpu() -> OpenCLDevice:
    """oclgrind's device as a GPU.  No memory is larger than what was asked for, nor used twice: oclgrind notes what was
    written by address, also for buffers that are gone.
    """
    memory._capacity = lambda size: size  # pyright: ignore[reportPrivateUsage]
    (device,) = devices()
    assert "Oclgrind" in device.name
    device.capabilities = evolve(device.capabilities, software=False, vector_bits=0)
    device.cores = device.software = False
    device.intrinsics = target.intrinsics(device.capabilities)
    device.pool.limit = 0
    kept: list[Any] = []
    device.pool._release = kept.append  # pyright: ignore[reportPrivateUsage]
    build = device.build
    device.build = lambda source: build(noted(source))
    return device


SOURCES: list[str] = []


def noted(source: str) -> str:
    SOURCES.append(source)
    return source


def seen() -> list[str]:
    """The words in the kernels since the last time."""
    found = [word for word in WORDS if any(word in source for source in SOURCES)]
    SOURCES.clear()
    return found


def run_program(device: OpenCLDevice, function: Callable[..., Any], given: tuple[Any, ...]) -> list[str]:
    """Compile and run; compare with the CPU backend, whose tests compare it with NumPy, in doubles where it can be."""
    found = tj.jit(function, backend="opencl")(*given)
    want = tj.jit(function, backend="cpu")(*given)
    pairs = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
    for g, w in ((np.asarray(g), np.asarray(w)) for g, w in pairs):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind in "fc":
            eps = np.finfo(w.dtype).eps
            np.testing.assert_allclose(g, w, rtol=256 * eps, atol=256 * eps * max(1, np.abs(w).max(initial=0)))
        else:
            np.testing.assert_array_equal(g, w)
    return seen()


def run_bound(device: OpenCLDevice, kernel: Kernel, schedule: GridSchedule, made: Callable[[], Any]) -> list[str]:
    """Run a kernel as the device binds it; compare with the interpreter of kernels."""
    want = made()
    run_kernel(kernel, want, SYMBOLS)
    given = made()
    buffers = {name: device.from_host(array) for name, array in given.items()}
    device.compile_kernel(kernel, schedule).launch(list(buffers.values()), SYMBOLS)
    for name, array in given.items():
        got = device.to_host(buffers[name], array.dtype, array.shape)
        np.testing.assert_array_equal(got, want[name], err_msg=f"{name}\n{kernel}")
    return seen()


def nests(device: OpenCLDevice) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    for seed in range(40):
        kernel, schedule = Generator(seed).kernel(), GRID_SCHEDULES[seed // 2 % len(GRID_SCHEDULES)]
        yield f"nest {seed}", lambda a=kernel, b=schedule, c=seed: run_bound(device, a, b, lambda: arrays(a, c))


def tiles(device: OpenCLDevice) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    for seed in range(40):
        if tile_work(seed) > 12_000:
            continue
        kernel, schedule = kernel_of(seed), STAGED_SCHEDULES[seed % len(STAGED_SCHEDULES)]
        yield f"tile {seed}", lambda a=kernel, b=schedule, c=seed: run_bound(device, a, b, lambda: staged_arrays(a, c))


def atomics(device: OpenCLDevice) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """Every operation on every dtype, by a group of each of two: by the device's own and by exchanges."""
    have = device.capabilities
    for own in (True, False):
        device.intrinsics = target.intrinsics(evolve(have, more_int64_atomics=own))
        for dtype in ("i32", "u32", "i64", "u64", "f32", "f64"):
            bits = ("and", "or", "xor") if dtype[0] != "f" else ()
            for op in ("add", "mul", "min", "max", *bits):
                text = (
                    f"kernel update(v: {dtype}[16] C, out: {dtype}[3] C out) "
                    f"{{ for %i in 0..16 {{ %k = irem %i 3; %x = load v[%i]; atomic {op} out[%k] %x }} }}"
                )
                kernel, schedule = parse_kernel(text), GridSchedule(work_group=8)
                kind = numpy_dtype(dtype)

                def given(kind: Any = kind) -> dict[str, Any]:
                    return {"v": np.arange(1, 17).astype(kind), "out": np.array([5, 6, 7], kind)}

                yield f"{op} {dtype} {own}", lambda a=kernel, b=schedule, c=given: run_bound(device, a, b, c)


def tile_work(seed: int) -> int:
    """Multiplications and additions of a kernel: oclgrind takes a second for some 100,000."""
    made = Staged(seed)
    sizes = (made.m, made.n, made.batch or 1, made.depth if made.kind == "product" else 1)
    return math.prod(SYMBOLS["n"] if n == "n" else int(n) for n in sizes)


def without_barriers(device: OpenCLDevice) -> list[str]:
    """A product of tiles that are read before they are there."""
    build = device.build
    device.build = lambda source: build(source.replace("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);", ";"))
    device.default_schedule = PROGRAM_SCHEDULES["small tiles"]
    product = tj.jit(lambda a, b: a @ b, backend="opencl")
    np.asarray(product(normal(17, 18), normal(18, 33, seed=2)))
    return seen()


def faults(device: OpenCLDevice) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    for name, body in FAULTS.items():
        source = (
            f"__kernel void fault(__global const int* given, __global int* out) {{ int i = get_global_id(0); {body} }}"
        )
        kernel = tj.native.kernel(
            {"opencl": source},
            entry="fault",
            out=lambda x: x,
            grid=lambda x: 2,
            block=8,
        )
        yield name, lambda f=kernel: [str(tj.jit(lambda x: f(x), backend="opencl")(np.zeros(16, "i4")))]
    yield "no barriers", lambda: without_barriers(device)


if __name__ == "__main__":
    main(*sys.argv[1:])
