"""Random kernels: loops in step give what the same loops give one iteration after the other, element by element."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tracejit.backends.reference import interpreter
from tracejit.ir import kernel as k
from tracejit.ir.check import check_kernel
from tracejit.ir.scalar import OPS, numpy_dtype
from tracejit.ir.text import parse_kernel, print_kernel

SIZE = 8


def run_one_by_one(kernel: k.Kernel, arrays: dict[str, Any]) -> None:
    """The plain meaning of a kernel, in the order of its text."""
    env: dict[Any, Any] = {}

    def value(x: k.Operand) -> Any:
        return env[x] if isinstance(x, k.Value) else numpy_dtype(x.dtype).type(x.value)

    def run(block: Any) -> None:
        for s in block:
            match s:
                case k.Op():
                    env[s.out] = OPS[s.op].impl(numpy_dtype(s.out.dtype), *map(value, s.args))[()]
                case k.Load():
                    env[s.out] = arrays[s.buffer.name][tuple(map(value, s.index))]
                case k.Store():
                    arrays[s.buffer.name][tuple(map(value, s.index))] = value(s.value)
                case k.If():
                    taken, yields = (s.then, s.then_yields) if value(s.condition) else (s.orelse, s.else_yields)
                    run(taken)
                    env.update(zip(s.results, [value(y) for y in yields], strict=True))
                case k.For():
                    carried = [value(i) for i in s.inits]
                    for i in range(value(s.lower), value(s.upper), s.step):
                        env[s.index] = np.int64(i)
                        env.update(zip(s.params, carried, strict=True))
                        run(s.body)
                        carried = [value(y) for y in s.yields]
                    env.update(zip(s.results, carried, strict=True))
                case k.While():
                    carried = [value(i) for i in s.inits]
                    while True:
                        env.update(zip(s.params, carried, strict=True))
                        run(s.condition)
                        if not value(s.test):
                            break
                        run(s.body)
                        carried = [value(y) for y in s.yields]
                    env.update(zip(s.results, carried, strict=True))
                case k.Prefix():
                    loop = next(f for f in k.walk(kernel.body) if isinstance(f, k.For) and s in f.body)
                    env.update(zip(loop.combine.params, map(value, (*s.params, *s.elements)), strict=True))
                    run(loop.combine.body)
                    env.update(zip(s.outs, map(value, loop.combine.results), strict=True))
                case _:
                    raise AssertionError(s)

    with np.errstate(all="ignore"):
        run(kernel.body)


class Generator:
    """Random statements over a few small buffers; every index is brought into bounds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.buffers = [k.Buffer(name, "i64", (SIZE,)) for name in "ayz"]
        self.grid = k.Buffer("w", "i64", (SIZE, SIZE))
        self.row: k.Value | None = None

    def kernel(self) -> k.Kernel:
        """Half of the kernels are a loop over rows that each iteration keeps to, so that what is in it runs in step."""
        if self.random.random() < 0.5:
            self.row = k.Value("i64")
            inner = self.block([k.index_const(2), self.row], [self.row], 3, 6)
            body: tuple[Any, ...] = (k.For(self.row, k.index_const(0), k.index_const(SIZE), inner),)
            return k.Kernel("rows", (*self.buffers, self.grid), frozenset("yzw"), body)
        body = self.block([k.index_const(2), k.index_const(5)], [], 3, self.random.randint(2, 4))
        return k.Kernel("random", (*self.buffers, self.grid), frozenset("yzw"), body)

    def op(self, body: list[Any], name: str, *args: k.Operand) -> k.Value:
        out = k.Value("bool" if OPS[name].result == "bool" else "i64")
        body.append(k.Op(out, name, args))
        return out

    def index(self, body: list[Any], values: list[Any], indices: list[k.Value]) -> k.Operand:
        if indices and self.random.random() < 0.7:
            i = self.random.choice(indices[-2:])
            if self.random.random() < 0.6:
                return i
            shifted = self.op(body, self.random.choice(["add", "sub"]), i, k.index_const(self.random.randint(0, 3)))
            return self.op(body, "and", shifted, k.index_const(SIZE - 1))
        return self.op(body, "and", self.random.choice(values), k.index_const(SIZE - 1))

    def place(
        self, body: list[Any], values: list[Any], indices: list[k.Value], *, written: bool
    ) -> tuple[k.Buffer, tuple[k.Operand, ...]]:
        if self.row is not None:
            row = self.grid, (self.row, self.index(body, values, indices))
            return (
                row
                if written or self.random.random() < 0.4
                else (self.buffers[0], (self.index(body, values, indices),))
            )
        if self.random.random() < 0.4:
            return self.grid, (self.index(body, values, indices), self.index(body, values, indices))
        return self.random.choice(self.buffers[written:]), (self.index(body, values, indices),)

    def block(self, values: list[Any], indices: list[k.Value], depth: int, count: int) -> tuple[Any, ...]:
        values, body = list(values), list[Any]()
        for _ in range(count):
            kind = self.random.random()
            if kind < 0.25:
                values.append(
                    self.op(body, self.random.choice(["add", "sub", "mul", "xor"]), *self.random.choices(values, k=2))
                )
            elif kind < 0.45:
                buffer, index = self.place(body, values, indices, written=False)
                values.append(out := k.Value("i64"))
                body.append(k.Load(out, buffer, index))
            elif kind < 0.65:
                buffer, index = self.place(body, values, indices, written=True)
                body.append(k.Store(buffer, index, self.random.choice(values)))
            elif depth:
                body += self.nested(values, indices, depth - 1)
        return tuple(body)

    def nested(self, values: list[Any], indices: list[k.Value], depth: int) -> list[Any]:
        body: list[Any] = []
        count = self.random.randint(1, 4)
        kind = self.random.random()
        if kind < 0.2:
            flag = self.op(body, "lt", *self.random.choices(values, k=2))
            then, orelse = self.block(values, indices, depth, count), self.block(values, indices, depth, count - 1)
            result = k.Value("i64")
            body.append(
                k.If(flag, then, orelse, (self.random.choice(values),), (self.random.choice(values),), (result,))
            )
            values.append(result)
        elif kind < 0.3:
            values.append(self.countdown(body, values, indices, depth, count))
        else:
            values += self.loop(body, values, indices, depth, count)
        return body

    def countdown(self, body: list[Any], values: list[Any], indices: list[k.Value], depth: int, count: int) -> k.Value:
        """A while of varying length."""
        start = self.op(body, "and", self.random.choice(values), k.index_const(3))
        left, other = k.Value("i64"), k.Value("i64")
        head: list[Any] = []
        test = self.op(head, "gt", left, k.index_const(0))
        inner = list(self.block([*values, left, other], indices, depth, count))
        less = self.op(inner, "sub", left, k.index_const(1))
        more = self.op(inner, "add", other, left)
        results = (k.Value("i64"), k.Value("i64"))
        body.append(
            k.While((left, other), (start, k.index_const(0)), tuple(head), test, tuple(inner), (less, more), results)
        )
        return results[1]

    def loop(self, body: list[Any], values: list[Any], indices: list[k.Value], depth: int, count: int) -> list[k.Value]:
        index, upper = k.Value("i64"), k.index_const(self.random.choice([1, 3, SIZE]))
        if self.random.random() < 0.3:
            upper = self.op(body, "and", self.random.choice(values), k.index_const(SIZE - 1))
        step = self.random.choice([1, 1, 2])
        inner = list(self.block([*values, index], [*indices, index], depth, count))
        kind = self.random.random()
        if kind < 0.4:
            body.append(k.For(index, k.index_const(0), upper, tuple(inner), step=step))
            return []
        param, result = k.Value("i64"), k.Value("i64")
        element = self.op(inner, "mul", index, self.random.choice(values))
        p, q, r = k.Value("i64"), k.Value("i64"), k.Value("i64")
        combine: k.Lambda | None = k.Lambda((p, q), (k.Op(r, "add", (p, q)),), (r,))
        if kind < 0.6:
            out = k.Value("i64")
            inner.append(k.Prefix((out,), (param,), (element,)))
            inner.append(
                k.Store(
                    self.grid,
                    (self.row or k.index_const(0), self.op(inner, "and", index, k.index_const(SIZE - 1))),
                    out,
                )
            )
        else:
            out = self.op(inner, "add", param, element)
            combine = combine if kind < 0.8 else None
        body.append(
            k.For(
                index,
                k.index_const(0),
                upper,
                tuple(inner),
                k.SERIAL,
                (param,),
                (k.index_const(0),),
                (out,),
                (result,),
                combine,
                step,
            )
        )
        return [result]


def inputs(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-9, 10, (SIZE, SIZE) if name == "w" else SIZE) for name in "ayzw"}


@pytest.mark.parametrize("seed", range(300))
def test_in_step_is_as_one_by_one(seed: int, record_backend: Callable[[str], None], monkeypatch: pytest.MonkeyPatch):
    record_backend("reference")
    kernel = Generator(seed).kernel()
    check_kernel(kernel)
    text = print_kernel(kernel)
    assert print_kernel(parse_kernel(text)) == text
    expected, found, pieces = inputs(seed), inputs(seed), inputs(seed)
    run_one_by_one(kernel, expected)
    interpreter.run_kernel(kernel, found, {})
    monkeypatch.setattr(interpreter, "_LANES", 5)
    interpreter.run_kernel(kernel, pieces, {})
    for name, want in expected.items():
        np.testing.assert_array_equal(found[name], want, err_msg=text)
        np.testing.assert_array_equal(pieces[name], want, err_msg=text)


def test_the_random_kernels_exercise_both_ways_of_running():
    """Loops in step, loops in order for their dependence, stores, branches, recurrences and scans all occur often."""
    seen = {"in step": 0, "dependent": 0, "recurrence": 0, "scan": 0}
    for seed in range(300):
        kernel = Generator(seed).kernel()
        machine = interpreter._Machine(kernel, inputs(seed), {})
        for s in k.walk(kernel.body):
            if not isinstance(s, k.For):
                continue
            if any(isinstance(inner, k.Prefix) for inner in s.body):
                seen["scan"] += 1
            elif s.params and s.combine is None:
                seen["recurrence"] += 1
            else:
                seen["dependent" if machine._is_in_order(s) else "in step"] += 1
    assert min(seen.values()) > 30, seen
