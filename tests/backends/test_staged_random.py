"""Random products, transposes and scans, of which groups keep parts in shared memory: by the reference interpreter,
which refuses accesses out of bounds, and on devices, against the kernels as they were.
"""

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.backends.test_grid_random import run_bound
from tracejit.backends.grid import GridSchedule, bind_grid
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir import kernel as k
from tracejit.ir.check import check_kernel
from tracejit.ir.extents import evaluate
from tracejit.ir.text import parse_kernel

SYMBOLS = {"n": 13}
SCHEDULES = [
    GridSchedule(work_group=32, groups=2, jam=4, stage=16, fold=16, group_extent=4),
    GridSchedule(work_group=64, groups=2, jam=8, stage=64, fold=8, shared_bytes=30_000),
    GridSchedule(work_group=32, groups=16, shares=5, in_order=2, jam=2, stage=8, rows="group", shared_bytes=9000),
]


class Staged:
    """Text of a kernel.  Extents are those of rows %i, columns %j and a contracted axis %k, one of them symbolic
    perhaps."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        self.kind = pick(["product", "product", "copy", "scan"])
        sizes = [1, 8, 9, 16, 17, 31, 32, 33, 40, 64] if self.kind != "scan" else [1, 3, 20, 33, 300]
        self.m, self.n, self.depth = pick(sizes), pick(sizes), pick([1, 15, 16, 17, 24, 40, 100])
        self.batch = pick([None, None, 2])
        self.symbolic = pick(["", "", "m", "n", "depth"])
        self.buffers: dict[str, str] = {}
        if self.symbolic:
            setattr(self, self.symbolic, "n")

    def buffer(self, axes: list[str]) -> str:
        """A new buffer over some axes, in an order."""
        sizes = {"%b": self.batch, "%i": self.m, "%j": self.n, "%k": self.depth}
        name = f"x{len(self.buffers)}"
        self.buffers[name] = ", ".join(str(sizes[a]) for a in axes)
        return f"{name}[{', '.join(axes)}]"

    def operand(self, *axes: str) -> str:
        """A new buffer over some axes in any order, with an axis for the batch at times."""
        have = [*axes, *(["%b"] if self.batch and self.random.random() < 0.5 else [])]
        self.random.shuffle(have)
        return self.buffer(have)

    def text(self) -> str:
        out = self.buffer([*(["%b"] if self.batch else []), "%i", "%j"])
        body = {"product": self.product, "copy": self.copy, "scan": self.scan}[self.kind](out)
        for index, extent in (("%j", self.n), ("%i", self.m), ("%b", self.batch)):
            if extent is not None and not (self.kind == "scan" and index == "%j"):
                body = f"for {index} in 0..{extent} {{ {body} }}"
        given = ", ".join(f"{name}: i64[{shape}] C{' out' * (name == 'x0')}" for name, shape in self.buffers.items())
        return f"kernel staged({given}) {'dims(n)' * bool(self.symbolic)} {{ {body} }}"

    def after(self, value: str, out: str) -> str:
        """What follows a value of each element: others, and the store."""
        more = self.random.choice([["%i"], ["%j"], ["%i", "%j"], ["%j", "%i"]])
        return f"%y = load {self.operand(*more)}; %z = sub {value} %y; store {out} = %z"

    def product(self, out: str) -> str:
        fold = self.random.choice(["add", "max", "xor"])
        zero = {"add": 0, "max": -(2**63), "xor": 0}[fold]
        lhs, rhs = self.operand("%i", "%k"), self.operand("%k", "%j")
        if self.random.random() < 0.3:
            lhs, rhs = rhs, lhs
        made = "%p = neg %l; %q = mul %p %p" if self.random.random() < 0.5 else "%q = add %l 0"
        both = (
            f"%w = load {self.operand('%i', '%j', '%k')}; %v = add %u %w"
            if self.random.random() < 0.2
            else "%v = add %u 1"
        )
        inner = f"%l = load {lhs}; %r = load {rhs}; {made}; %u = mul %q %r; {both}; %t = {fold} %c %v; yield %t"
        before = f"%d = load {self.operand('%j')}; "
        loop = (
            f"%s = for %k in 0..{self.depth} carry(%c = {zero}) combine(%e, %f) {{ %g = {fold} %e %f; yield %g }} "
            f"{{ {inner} }}; %h = add %s %d; "
        )
        return before + loop + self.after("%h", out)

    def copy(self, out: str) -> str:
        loads = [self.operand("%j", "%i") for _ in range(self.random.randint(1, 3))]
        lines = [f"%l{n} = load {x}" for n, x in enumerate(loads)]
        sums = [f"%s{n + 1} = add %s{n} %l{n}" for n in range(len(loads))]
        return "; ".join(["%s0 = mul %i 3", *lines, *sums]) + "; " + self.after(f"%s{len(loads)}", out)

    def scan(self, out: str) -> str:
        fold = self.random.choice(["add", "max", "sub"])  # the last one is none: it does not associate
        fold = "add" if fold == "sub" else fold
        element = f"%l = load {self.operand('%i', '%j')}; %m = mul %l 2"
        after = self.after("%o", out)
        return (
            f"%s = for %j in 0..{self.n} carry(%c = 0) combine(%e, %f) {{ %g = {fold} %e %f; yield %g }} "
            f"{{ {element}; %o = prefix(%c) %m; {after}; yield %o }}"
        )


def arrays(kernel: k.Kernel, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {b.name: rng.integers(-9, 10, tuple(evaluate(n, SYMBOLS) for n in b.shape)) for b in kernel.buffers}


def kernel_of(seed: int) -> k.Kernel:
    kernel = parse_kernel(Staged(seed).text())
    check_kernel(kernel)
    return kernel


@pytest.mark.parametrize("first", range(0, 120, 12))
def test_a_staged_kernel_does_what_the_kernel_does(first: int):
    for seed in range(first, first + 12):
        kernel = kernel_of(seed)
        want = arrays(kernel, seed)
        run_kernel(kernel, want, SYMBOLS)
        for schedule in SCHEDULES:
            got = arrays(kernel, seed)
            run_bound(bind_grid(kernel, schedule), got)
            np.testing.assert_array_equal(got["x0"], want["x0"], err_msg=f"seed {seed}, {schedule}\n{kernel}")


def test_the_random_kernels_are_staged_in_every_way():
    seen: Counter[str] = Counter()
    for seed in range(120):
        kind = Staged(seed).kind
        for schedule in SCHEDULES:
            launches = bind_grid(kernel_of(seed), schedule).launches
            seen[kind] += any(
                isinstance(s, k.For)
                and s.axis.kind == "block"
                and any(isinstance(x, k.Barrier) for x in k.walk(s.body))
                for launch in launches
                for s in k.walk(launch.kernel.body)
            )
    assert min(seen["product"], seen["copy"], seen["scan"]) > 10, seen


def test_staged_kernels_on_devices(device: Any):
    """Barriers and the printed text are tested here: the interpreter's work-items run in step."""
    seeds = [next(s for s in range(99) if Staged(s).kind == kind) for kind in ("product", "copy", "scan")]
    for seed in (*seeds, *range(40, 46)):
        kernel = kernel_of(seed)
        want = arrays(kernel, seed)
        run_kernel(kernel, want, SYMBOLS)
        buffers = {name: device.from_host(array) for name, array in arrays(kernel, seed).items()}
        device.compile_kernel(kernel, SCHEDULES[0]).launch(list(buffers.values()), SYMBOLS)
        got = device.to_host(buffers["x0"], "i8", want["x0"].shape)
        np.testing.assert_array_equal(got, want["x0"], err_msg=f"seed {seed}\n{kernel}")
