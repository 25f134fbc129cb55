"""What the CPU's kernel emitter writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import lax
from tracejit.backends.cpu.codegen import emit
from tracejit.backends.cpu.codegen.program import WRITERS
from tracejit.backends.registry import get_backend
from tracejit.compiler.pipeline import lower_jaxpr
from tracejit.ir.kernel import Kernel
from tracejit.ir.schedule import Schedule, apply, parse_schedule
from tracejit.support.errors import ScheduleError


def test_copies_of_an_index_share_one_broadcast():
    f, x = tj.jit(lambda x: x * np.arange(x.shape[0])), np.arange(-2048, 2048)
    lowered = f.lower(x)
    (loop,) = [line for line in lowered.text("scheduled").splitlines() if "vector(" in line]
    assert ", 4)" in loop  # four vectors in flight
    assert lowered.text("code").count("zeroinitializer") == 1
    np.testing.assert_array_equal(f(x), x * np.arange(4096))


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "loop in a branch": lambda x, c: lax.cond(c > 0, lambda: lax.fori_loop(0, 20, lambda i, s: s * 0.5 + x[i], x[0]),
    lambda: x[1]), "branch in a loop": lambda x, c: lax.fori_loop(0, 20, lambda i, s: lax.cond(c > s, lambda: s + x[i],
    lambda: s - 1.0), c),
    "branch in a loop in a branch": lambda x, c: lax.cond(
        c > 0,
        lambda: lax.fori_loop(
            0, 20, lambda i, s: lax.cond(s > 1, lambda: s + x[i] * x[i + 1] * np.exp(x[i]),
            lambda: s * 1.5 + np.sin(x[i])), c
        ),
        lambda: x[0],
    ),
    "loops in both branches": lambda x, c: lax.cond(
        c > 0,
        lambda: lax.fori_loop(0, 20, lambda i, s: s * 0.5 + x[i] * x[i + 1], x[3]),
        lambda: lax.fori_loop(0, 9, lambda i, s: s - x[i], c),
    ),
    "a length that varies": lambda x, c: lax.cond(
        c > 0, lambda: lax.fori_loop(0, (c * 10).astype(int), lambda i, s: s * 0.5 + x[i], x[0]), lambda: x[1]
    ),
    "while": lambda x, c: lax.cond(
        c > 0,
        lambda: lax.while_loop(lambda s: s[0] < c * 10, lambda s: (s[0] + 1, s[1] + x[s[0].astype(int)]),
        (0.0 * c, c))[1], lambda: x[1],
    ),
}  # fmt: skip


SCHEDULES = ["unroll L0", "unroll L0; unroll L1", "vector L0 4 1", "vector L0 2 2", "vector L0 4 1; unroll L1"]


def where_legal(kernel: Kernel, text: str) -> Schedule:
    """A schedule, or none for a kernel that it does not suit."""
    for part in (text, text.partition(";")[0]):
        try:
            apply(kernel, parse_schedule(part))
        except ScheduleError:
            continue
        return parse_schedule(part)
    return Schedule()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_whose_copies_or_lanes_go_different_ways(name: str, schedule: str, record_backend: Callable[[str], None]):
    record_backend("cpu")
    rng = np.random.default_rng(0)
    for n in (4, 16):
        x, c = rng.random((n, 21)), rng.random(n) - 0.3
        lowered = tj.jit(tj.vmap(LOOPS[name])).lower(x, c)
        again = lower_jaxpr(
            lowered.jaxpr, get_backend("cpu"), ["C", "C"], schedule=lambda kernel: where_legal(kernel, schedule)
        )
        assert "unroll" in again.text("scheduled") or "vector" in again.text("scheduled")
        want = [LOOPS[name](a, b) for a, b in zip(x, c, strict=True)]
        np.testing.assert_allclose(again.compile().run((x, c), {})[0], want, rtol=1e-12)


def test_a_trial_puts_all_back_that_an_emitter_changes():
    emitter = emit.FunctionEmitter(emit.Module(WRITERS), "f")
    constant = {"module", "name", "parent", "line", "declare", "backend", "own", "guards_operands", "is_x86"}
    texts = {"entry", "exit", "required", "regions", "ways"}
    learned = {"read_in", "settled"}  # what trials are for
    assert set(vars(emitter)) == constant | texts | learned | set(emit.PLAIN_STATE) | set(emit.TABLES)
    before = repr({name: x for name, x in vars(emitter).items() if name not in constant})
    with emitter.trial():
        emitter.line("add i64 1, 1")
        emitter.enter()
        emitter.put("nothing")
        emitter.start(emitter.fresh_label("loop"))
        emitter.nowhere, emitter.width, emitter.polled, emitter.env = "%nowhere", 8, True, {}
        for text in (emitter.entry, emitter.exit, emitter.required, emitter.ways):
            text.append("kept by nobody")
        for table in (emitter.captured, emitter.dims, emitter.counts):
            table["x"] = "y"  # type: ignore[index]
    assert repr({name: x for name, x in vars(emitter).items() if name not in constant}) == before


DECIDED = {
    "below nothing": lambda x, xp: x < x.dtype.type(0) if x.dtype.kind == "u" else (x & 1) > 5,
    "bits": lambda x, xp: (x & 3) > 5,
    "clipped": lambda x, xp: xp.minimum(xp.maximum(x, 0), 10) > 11,
    "remainder": lambda x, xp: x % 4 > 7,
    "shifted": lambda x, xp: (x >> (8 * x.dtype.itemsize - 1)) > 2,
    "of a bool": lambda x, xp: (x > 3).astype(x.dtype) > 2,
}


@pytest.mark.parametrize("name", DECIDED)
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "u4", "i4", "u8", "i8"])
def test_comparisons_that_are_decided_make_no_constants_that_llvm_fails_at(name: str, dtype: str):
    """LLVM 22 aborts the process where two equal constants, found during code generation only, become vectors."""

    def f(x: Any) -> Any:
        flag = DECIDED[name](x, np).astype(np.float32) * np.float32(-2)
        return (
            np.broadcast_to(np.floor(flag)[:, None], (5, 5)).copy(),
            np.broadcast_to(flag[:, None], (5, 5)).copy(),
            flag,
        )

    x = np.arange(5).astype(dtype)
    for found, expected in zip(tj.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_indices_are_computed_where_they_change():
    """In the innermost loop only its own index counts: the row's place is known outside,
    and what differs by a constant shares it."""
    x = np.random.default_rng(0).random((64, 1024))

    def f(x: Any) -> Any:
        return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]

    jitted = tj.jit(f)
    np.testing.assert_array_equal(jitted(x), f(x))
    lines = jitted.lower(x).text("code").splitlines()
    loads = [n for n, line in enumerate(lines) if " = load <" in line]
    starts = [n for n, line in enumerate(lines) if line.endswith(":")]
    bodies = {max(s for s in starts if s < n) for n in loads}
    for start in bodies:
        body = lines[start : min([s for s in starts if s > start], default=len(lines))]
        assert not [line for line in body if " = mul i64" in line]
        assert not [line for line in body if " = sdiv i64" in line or " = srem i64" in line]


@pytest.mark.parametrize("n", [1, 7, 16, 33])
@pytest.mark.parametrize("order", ["C", "F"])
def test_addresses_of_every_kind(n: int, order: Any):
    """Constants, sums and differences of indices, strides known or not, turned round, gathered, in unrolled copies."""

    def f(x: Any, k: Any) -> Any:
        y = np.zeros((n + 3, n + 2))
        y[1:-2, 1:-1] = x[::-1] * 2
        y[:n, :n] += x.T
        y[2 : n + 2, ::-1][:, :n] -= x[:, ::-1]
        y[k, 0] += x[0, k]
        for i in tj.range(n):
            y[i + 2, i % 2 + 1] += x[i, n - 1 - i] + x[(i * 3) % n, (i + 1) % n]
        return y, y[k], x[:, k].T - x[k], np.add.outer(x[0], x[:, 0])

    x = np.asarray(np.random.default_rng(n).random((n, n)), order=order)
    for a in (x, np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3]):
        k = np.arange(n)[:: 2 if n > 1 else 1]
        for got, want in zip(tj.jit(f)(a, k), f(a, k), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-15)


# -- kernels that serve several
# ----------------------------------------------------------------------------------------------------------
def kernels_of(function: Any, *args: Any) -> int:
    """How many functions for kernels a program has."""
    text = tj.jit(function).lower(*args).text("code")
    return sum(
        line.startswith("define internal void") and "%frame" not in line and "_guards(" not in line
        for line in text.splitlines()
    )


def test_kernels_that_differ_in_offsets_are_one_function():
    def sums(w: Any, x: Any) -> Any:
        total = 0
        for i in range(3):
            for j in range(3):
                total = total + x @ w[i, j]
        return total

    w, x = np.random.default_rng(0).random((3, 3, 16, 16)), np.random.default_rng(1).random((40, 16))
    np.testing.assert_allclose(tj.jit(sums)(w, x), sums(w, x), rtol=1e-13)
    assert kernels_of(sums, w, x) <= 3  # the first has nothing to add to


@pytest.mark.parametrize("n", [5, 40])
def test_offsets_reach_the_right_kernels(n: int):
    """The same places in other orders, in loads and stores, with two offsets in one index, and at several sizes."""

    def f(a: Any) -> Any:
        out = np.zeros((8, n))
        for i in (0, 3, 1):
            out[2 * i + 1] = np.cumsum(a[i, 1:] * a[i + 1, :-1] - a[4 - i, 1:])
            out[2 * i] += np.cumsum(a[i + 1, 1:] + a[i, :-1] - a[i, 1:])
        return out, [np.cumsum(a[k, k : k + n]) for k in (0, 1)]

    jitted = tj.jit(f)
    a = np.random.default_rng(n).random((5, n + 1))
    (got, parts), (want, wanted) = jitted(a), f(a)
    np.testing.assert_allclose(got, want, rtol=1e-13)
    for g, w in zip(parts, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-13)


def test_code_of_others_is_generated_as_before():
    """LLVM's switches are the process's: what another package compiles must not change."""
    import llvmlite.binding as binding

    text = """
define void @f(ptr %p, i64 %n, i64 %s) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %a = mul i64 %i, %s
  %q = getelementptr double, ptr %p, i64 %a
  store double 1.0, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}"""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(opt=3)
    before = machine.emit_assembly(binding.parse_assembly(text))
    tj.jit(lambda x: x * 3 + 1)(np.ones(7))
    assert machine.emit_assembly(binding.parse_assembly(text)) == before
    assert "imul" not in before  # strength reduction has made a sum of the product
