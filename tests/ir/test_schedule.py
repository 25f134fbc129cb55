"""Schedules: text, legality, and that every directive keeps the meaning of a kernel."""

from typing import Any, ClassVar

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir.check import check_kernel
from tracejit.ir.kernel import Const, For, index_const
from tracejit.ir.rewrite import fresh_copy
from tracejit.ir.schedule import (
    Directive,
    Loops,
    Parallel,
    Privatize,
    Schedule,
    Split,
    Unroll,
    Vector,
    WhileUnroll,
    apply,
    parse_schedule,
)
from tracejit.numpy.assigning import scattered
from tracejit.numpy.indexing import IndexArray
from tracejit.support.errors import ScheduleError
from tracejit.support.nodes import evolve, frozen


def kernel_of(function, *args):
    (kernel, _, _) = tj.jit(function).lower(*args).log.kernels[0]
    return kernel


def run(kernel, x, shape, dtype):
    arrays = {
        b.name: (x.reshape(b.shape) if b.name not in kernel.outputs else np.full(b.shape, -7, dtype))
        for b in kernel.buffers
    }
    run_kernel(kernel, arrays, {})
    (out,) = [arrays[name] for name in kernel.outputs]
    return out.reshape(shape)


def test_text_round_trips():
    schedule = Schedule(
        (
            Split("L0", 4096),
            Privatize("L1", 64),
            Parallel("L0.o", 2),
            Vector("L0.i", 8, 4),
            Unroll("L2"),
            WhileUnroll(4),
        )
    )
    assert parse_schedule(str(schedule)) == schedule


@pytest.mark.parametrize(
    "text",
    [
        "split L0 7; parallel L0.o 1",
        "vector L0 8 2",
        "privatize L0 16; parallel L0.o 1; vector L0.i 8 2",
        "vector L1 4 1",
        "parallel L0 3",
        "unroll L0",
    ],
)
def test_a_directive_does_not_change_a_column_sum(text):
    x = np.random.default_rng(0).standard_normal((37, 45)).astype(np.float32)
    kernel = kernel_of(lambda x: x.sum(axis=0), x)
    scheduled = apply(kernel, parse_schedule(text))
    check_kernel(scheduled)
    np.testing.assert_allclose(
        run(scheduled, x, (45,), np.float32), x.astype(np.float64).sum(axis=0), rtol=1e-5, atol=1e-5
    )


def test_privatize_keeps_carriers_that_are_pairs():
    x = np.random.default_rng(0).integers(0, 5, (50, 33)).astype(np.float64)
    kernel = kernel_of(lambda x: x.argmax(axis=0), x)
    scheduled = apply(kernel, parse_schedule("privatize L0 8; vector L0.i 4 1"))
    check_kernel(scheduled)
    np.testing.assert_array_equal(run(scheduled, x, (33,), np.int64), x.argmax(axis=0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vector L7 8 1", "has no loop L7"),
        ("vector L0 3 1", "power of two"),
        ("vector L1 8 1; vector L0 8 1", "inside of another vector loop"),
        ("privatize L1 8", "not a loop over columns, independent"),
        ("split L0 0", "must be positive"),
        ("turn L0", "not a schedule directive"),
        ("parallel L0 0", "the grain must be positive"),
        ("while_unroll 0", "the factor must be positive"),
        ("parallel L0 1; unroll L0", "parallel already; a loop has one axis"),
        ("vector L1 8 1; vector L1 4 1", "vector already"),
    ],
)
def test_an_illegal_directive_is_an_error(text, message):
    x = np.ones((20, 30))
    kernel = kernel_of(lambda x: x.sum(axis=0), x)
    with pytest.raises(ScheduleError, match=message):
        apply(kernel, parse_schedule(text))


def test_a_recurrence_is_neither_parallel_nor_vector():
    def recurrence(x):
        return tj.lax.fori_loop(0, 100, lambda i, c: c * 0.5 + x[i], 0.0)

    kernel = kernel_of(recurrence, np.ones(100))
    for text in ("vector L0 4 1", "parallel L0 1", "split L0 10"):
        with pytest.raises(ScheduleError, match="L0"):
            apply(kernel, parse_schedule(text))


def test_a_scatter_runs_in_order():
    """Its targets may repeat: neither the heuristic nor a schedule makes lanes or threads of it."""

    def count(x, i):
        return scattered(x, [IndexArray(i)], 1.0, "add")

    x, i = np.zeros(8), np.random.default_rng(0).integers(0, 8, 100_000)
    np.testing.assert_array_equal(tj.jit(count)(x, i), np.bincount(i, minlength=8).astype(np.float64))
    kernel = kernel_of(count, x, i)
    for directive in ("parallel L1 1", "vector L1 4 1"):
        with pytest.raises(ScheduleError, match="write to memory"):
            apply(kernel, parse_schedule(directive))


@frozen
class Peel(Directive):
    """The last iteration behind the loop: what a directive looks like that is not there yet."""

    word: ClassVar = "peel"
    order: ClassVar = 0

    loop: str

    def apply(self, loops: Loops) -> None:
        def peeled(s: For) -> list[Any]:
            if s.params or not isinstance(s.upper, Const):
                raise ScheduleError(f"{self}: it carries values, or its end is computed")
            last = index_const(s.upper.value - 1)
            return [evolve(s, upper=last), *fresh_copy(s.body, {s.index: last})]

        loops.change(self, self.loop, peeled)


def test_a_directive_is_one_class():
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    kernel = kernel_of(lambda x: x.sum(axis=0), x)
    schedule = parse_schedule("vector L0 4 1; peel L0")
    assert schedule == Schedule((Vector("L0", 4, 1), Peel("L0")))
    assert str(schedule) == "vector L0 4 1; peel L0"
    scheduled = apply(kernel, schedule)
    check_kernel(scheduled)
    loops = [s for s in scheduled.body if isinstance(s, For)]
    assert (loops[0].upper, loops[0].axis.kind) == (Const(7, "i64"), "vector")
    np.testing.assert_allclose(run(scheduled, x, (8,), np.float32), x.sum(axis=0), rtol=1e-5, atol=1e-6)
    total = kernel_of(lambda x: x.sum(), np.ones(100))
    with pytest.raises(ScheduleError, match="peel L0: it carries values"):
        apply(total, parse_schedule("peel L0"))


@pytest.mark.parametrize("text", ["parallel L0.o 1; split L0 8", "vector L0.i 4 1; parallel L0.o 1; split L0 8"])
def test_directives_run_by_their_order_however_they_are_written(text: str):
    kernel = kernel_of(lambda x: x * 2 + 1, np.ones(100))
    sorted_text = "; ".join(sorted(text.split("; "), key=lambda d: not d.startswith("split")))
    assert str(apply(kernel, parse_schedule(text))) == str(apply(kernel, parse_schedule(sorted_text)))
