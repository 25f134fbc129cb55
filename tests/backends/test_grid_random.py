"""Random kernels bound to a grid, run by the reference interpreter, against the kernels as they were.

The interpreter refuses accesses out of bounds and two work-items that store to one place; fresh memory is poisoned.
"""

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from tracejit.backends.grid import GridProgram, GridSchedule, bind_grid
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir import kernel as k
from tracejit.ir.builder import make_lambda
from tracejit.ir.check import check_kernel
from tracejit.ir.extents import Dim, evaluate

N = Dim.symbol("n")
SYMBOLS = {"n": 13}
SCHEDULES = [
    GridSchedule(
        work_group=4, groups=2, shares=2, rows="item", fold=2, pack=4, pack_extent=1, atomics=frozenset({"i64"})
    ),
    GridSchedule(work_group=8, groups=4, shares=3, rows="group", contiguous=True, fold=2),
    GridSchedule(work_group=2, groups=2, shares=2, rows="group", array_bytes=8, shared_bytes=100_000),
    GridSchedule(
        work_group=16, groups=2, shares=4, in_order=2, rows="auto", group_extent=1, part_extent=2, shared_bytes=64
    ),
]


class Generator:
    """A sequence of what compose makes: nests, reductions, scans, rows with kept values, scalars between them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.extents = [self.random.choice([1, 2, 5, 7, N, N + 1]) for _ in range(2)]
        self.x = k.Buffer("x", "i64", tuple(self.extents))
        self.flat = k.Buffer("flat", "i64", (self.extents[1],))
        self.outs = [k.Buffer(f"out{n}", "i64", tuple(self.extents)) for n in range(2)]
        self.line = k.Buffer("line", "i64", (self.extents[1],))
        self.scalars: list[Any] = [k.const(3, "i64")]

    def kernel(self) -> k.Kernel:
        body: list[Any] = []
        if self.random.random() < 0.4:
            self.kept = k.Buffer("kept", "i64", tuple(self.extents), space="local")
            body += [k.Alloc(self.kept), *self.nest([self.kept])]
            self.outs.append(self.kept)
        for _ in range(self.random.randint(1, 5)):
            body += self.random.choice(
                [self.nest, self.rows, self.total, self.scan, self.scalar, self.update, self.several, self.scatter]
            )()
        given = [b for b in self.outs if b.space == "global"]
        outputs = frozenset(b.name for b in (*given, self.line))
        return k.Kernel("random", (self.x, self.flat, *given, self.line), outputs, tuple(body), ("n",))

    def op(self, body: list[Any], name: str, *args: k.Operand) -> k.Value:
        out = k.Value("bool" if name in ("lt", "eq") else "i64")
        body.append(k.Op(out, name, args))
        return out

    def load(self, body: list[Any], buffer: k.Buffer, *index: k.Operand) -> k.Value:
        out = k.Value("i64")
        body.append(k.Load(out, buffer, index))
        return out

    def value(self, body: list[Any], i: k.Operand, j: k.Operand, *more: k.Operand) -> k.Operand:
        """An expression over elements and scalars."""
        out: Any = self.random.choice([*self.scalars, *more])
        for _ in range(self.random.randint(1, 3)):
            other = self.random.choice(
                [
                    lambda: self.load(body, self.x, i, j),
                    lambda: self.load(body, self.flat, j),
                    lambda: self.random.choice([i, j, *self.scalars, *more]),
                ]
            )()
            out = self.op(body, self.random.choice(["add", "sub", "mul", "xor", "max"]), out, other)
        return out

    def loop(self, extent: Any, body: list[Any], index: k.Value, **more: Any) -> k.For:
        return k.For(index, k.index_const(0), k.index_const(extent), tuple(body), **more)

    def nest(self, targets: list[k.Buffer] | None = None) -> list[Any]:
        """Stores to one or two arrays; at times reads what another iteration writes."""
        i, j = k.Value("i64"), k.Value("i64")
        body: list[Any] = []
        for out in targets or self.random.sample(self.outs, self.random.randint(1, 2)):
            v = self.value(body, i, j)
            kind = self.random.random()
            if targets is None and kind < 0.2:
                v = self.op(body, "add", v, self.load(body, out, i, j))
            elif targets is None and kind < 0.35:
                last = self.op(body, "sub", k.index_const(self.extents[0] - 1), i)
                v = self.op(body, "sub", v, self.load(body, out, last, j))
            body.append(k.Store(out, (i, j), v))
        return [self.loop(self.extents[0], [self.loop(self.extents[1], body, j)], i)]

    def fold(self, extent: Any, element: Any, outer: k.For | None = None) -> tuple[k.For, k.Value]:
        """A reduction of `element(body, index)`."""
        name, identity = self.random.choice([("add", 0), ("max", -(2**63)), ("xor", 0)])
        index, param, result = k.Value("i64"), k.Value("i64"), k.Value("i64")
        body: list[Any] = []
        out = self.op(body, name, param, element(body, index))
        combine = make_lambda(["i64", "i64"], lambda r, a, b: r.op(name, a, b))
        inits = (k.const(identity, "i64"),)
        return self.loop(
            extent, body, index, params=(param,), inits=inits, yields=(out,), results=(result,), combine=combine
        ), result

    def element(self, body: list[Any], j: k.Value) -> k.Operand:
        """One that also stores where all iterations store: the last one wins."""
        v = self.value(body, k.index_const(0), j)
        if self.random.random() < 0.3:
            body.append(k.Store(self.line, (k.index_const(0),), v))
        return v

    def rows(self) -> list[Any]:
        """Rows: a reduction, perhaps one that keeps its elements, then what depends on it."""
        i, body = k.Value("i64"), list[Any]()
        row = k.Buffer("row", "i64", (self.extents[1],), space="local")
        keep = self.random.random() < 0.5
        if keep:
            body.append(k.Alloc(row))

        def element(inner: list[Any], j: k.Value) -> k.Operand:
            v = self.value(inner, i, j)
            if keep:
                inner.append(k.Store(row, (j,), v))
            return v

        first, total = self.fold(self.extents[1], element)
        body.append(first)
        scale = self.value(body, i, k.index_const(0), total)
        j, inner = k.Value("i64"), list[Any]()
        v = self.load(inner, row, j) if keep else self.value(inner, i, j, total)
        v = self.op(inner, "add", v, scale)
        inner.append(k.Store(self.random.choice(self.outs), (i, j), v))
        body.append(self.loop(self.extents[1], inner, j))
        return [self.loop(self.extents[0], body, i)]

    def total(self) -> list[Any]:
        """A reduction over everything, as one loop or two."""
        i = k.Value("i64")
        if self.random.random() < 0.5:
            loop, result = self.fold(self.extents[1], self.element)
            self.scalars.append(result)
            return [loop]
        inner, _ = self.fold(self.extents[1], lambda body, j: self.value(body, i, j))
        (inits,) = inner.inits
        param, result = k.Value("i64"), k.Value("i64")
        inner = evolve(inner, inits=(param,))
        before = [k.Op(k.Value("i64"), "neg", (i,))] if self.random.random() < 0.3 else []
        self.scalars.append(result)
        carry = {
            "params": (param,),
            "inits": (inits,),
            "yields": inner.results,
            "results": (result,),
            "combine": inner.combine,
        }
        return [self.loop(self.extents[0], [*before, inner], i, **carry)]

    def scan(self) -> list[Any]:
        index, param, out, result = (k.Value("i64") for _ in range(4))
        body: list[Any] = []
        element: k.Operand = self.value(body, k.index_const(0), index)
        if self.random.random() < 0.3:  # reads what the scan writes
            before = self.op(body, "max", self.op(body, "sub", index, k.index_const(1)), k.index_const(0))
            element = self.op(body, "sub", element, self.load(body, self.line, before))
        body += [k.Prefix((out,), (param,), (element,)), k.Store(self.line, (index,), out)]
        combine = make_lambda(["i64", "i64"], lambda r, a, b: r.op("add", a, b))
        zero = (k.const(0, "i64"),)
        self.scalars.append(result)
        return [
            self.loop(
                self.extents[1],
                body,
                index,
                params=(param,),
                inits=zero,
                yields=(out,),
                results=(result,),
                combine=combine,
            )
        ]

    def scalar(self) -> list[Any]:
        """Arithmetic, a branch or a store between the nests."""
        body: list[Any] = []
        v = self.value(body, k.index_const(0), k.index_const(0))
        small = self.op(body, "lt", v, k.const(50, "i64"))
        then: list[Any] = []
        w = self.op(then, "mul", v, k.const(2, "i64"))
        result = k.Value("i64")
        body.append(k.If(small, tuple(then), (), (w,), (v,), (result,)))
        if self.random.random() < 0.5:
            body.append(k.Store(self.line, (k.index_const(0),), result))
        self.scalars += [v, result]
        return body

    def several(self) -> list[Any]:
        """Inner loops that share an outer one, with values before them."""
        i, body = k.Value("i64"), list[Any]()
        shared = self.value(body, i, k.index_const(0))
        for out in self.random.sample(self.outs, 2):
            j, inner = k.Value("i64"), list[Any]()
            v = self.op(
                inner, "add", self.value(inner, i, j, shared), self.load(inner, self.random.choice(self.outs), i, j)
            )
            inner.append(k.Store(out, (i, j), v))
            body.append(self.loop(self.extents[1], inner, j))
        return [self.loop(self.extents[0], body, i)]

    def scatter(self) -> list[Any]:
        """Updates of elements that data choose; several may meet."""
        i, body = k.Value("i64"), list[Any]()
        v = self.value(body, k.index_const(0), i)
        at = self.op(body, "irem", self.op(body, "and", v, k.index_const(255)), k.index_const(self.extents[1]))
        old = self.load(body, self.line, at)
        name = self.random.choice(["add", "max", "xor", "sub"])
        body.append(k.Store(self.line, (at,), self.op(body, name, old, self.load(body, self.flat, i))))
        return [self.loop(self.extents[1], body, i)]

    def update(self) -> list[Any]:
        """A region whose bounds depend on data."""
        body: list[Any] = []
        v = self.value(body, k.index_const(0), k.index_const(0))
        low = self.op(body, "and", v, k.index_const(3))
        start = self.op(body, "min", low, k.index_const(self.extents[0]))
        i, j, inner = k.Value("i64"), k.Value("i64"), list[Any]()
        inner.append(k.Store(self.random.choice(self.outs), (i, j), self.value(inner, i, j)))
        loop = k.For(i, start, k.index_const(self.extents[0]), (self.loop(self.extents[1], inner, j),))
        return [*body, loop]


def arrays(kernel: k.Kernel, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {b.name: rng.integers(-9, 10, tuple(evaluate(n, SYMBOLS) for n in b.shape)) for b in kernel.buffers}


def run_bound(program: GridProgram, given: dict[str, Any]) -> None:
    memory = dict(given)
    for t in program.temporaries:
        memory[t.name] = np.full(
            tuple(evaluate(n, SYMBOLS) for n in t.shape), -(2**62), {"i64": np.int64, "bool": np.bool_}[t.dtype]
        )
    for launch in program.launches:
        check_kernel(launch.kernel)
        run_kernel(launch.kernel, {b.name: memory[b.name] for b in launch.kernel.buffers}, SYMBOLS)


@pytest.mark.parametrize("first", range(0, 240, 24))
def test_a_bound_kernel_does_what_the_kernel_does(first: int):
    for seed in range(first, first + 24):
        kernel = Generator(seed).kernel()
        check_kernel(kernel)
        want = arrays(kernel, seed)
        run_kernel(kernel, want, SYMBOLS)
        for schedule in SCHEDULES:
            got = arrays(kernel, seed)
            run_bound(bind_grid(kernel, schedule), got)
            for name, array in want.items():
                np.testing.assert_array_equal(got[name], array, err_msg=f"seed {seed}, {schedule}, {name}\n{kernel}")


def test_the_random_kernels_exercise_every_way_of_binding():
    seen: Counter[str] = Counter()
    for seed in range(240):
        kernel = Generator(seed).kernel()
        for schedule in SCHEDULES:
            program = bind_grid(kernel, schedule)
            seen["several kernels"] += len(program.launches) > 1
            seen["temporaries"] += bool(program.temporaries)
            for launch in program.launches:
                seen["groups" if launch.grouped else "one" if launch.extents == () else "items"] += 1
                shared = any(isinstance(s, k.Alloc) and s.buffer.space == "shared" for s in k.walk(launch.kernel.body))
                seen["shared memory"] += shared
                seen["atomics"] += any(isinstance(s, k.Atomic) for s in k.walk(launch.kernel.body))
                seen["data-dependent"] += str(launch.extents) == f"({schedule.items},)"
    assert min(seen.values()) > 50, seen


@pytest.mark.opencl
@pytest.mark.parametrize("schedule", SCHEDULES[:2], ids=["item", "group"])
def test_random_kernels_on_a_device(device: Any, schedule: GridSchedule):
    """Barriers and the printed text are tested here: the interpreter's work-items run in step."""
    kernels = [Generator(seed).kernel() for seed in range(5, 11)]
    for seed, kernel, compiled in zip(range(5, 11), kernels, device.compile_kernels(kernels, schedule), strict=True):
        want = arrays(kernel, seed)
        run_kernel(kernel, want, SYMBOLS)
        buffers = {name: device.from_host(array) for name, array in arrays(kernel, seed).items()}
        compiled.launch(list(buffers.values()), SYMBOLS)
        for name, array in want.items():
            np.testing.assert_array_equal(
                device.to_host(buffers[name], "i8", array.shape), array, err_msg=f"{name}\n{kernel}"
            )
