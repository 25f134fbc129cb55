"""Loops cut where conditions on their index change: the same values, and no condition left."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir.check import check_kernel
from tracejit.ir.kernel import For, If, walk
from tracejit.ir.schedule import apply, parse_schedule
from tracejit.support.errors import ScheduleError

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "roll": lambda x: np.roll(x, 1, axis=1) * 2 + x,
    "roll of rows": lambda x: np.roll(x, -2, axis=0) - x,
    "rolls": lambda x: np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1) - 4 * x,
    "padded": lambda x: np.pad(x, 1) * 2 + np.pad(x, ((2, 0), (0, 2))),
    "joined": lambda x: np.concatenate([x, x * 3], axis=1) + 1,
    "compared": lambda x: np.where(np.arange(x.shape[1]) >= 5, np.roll(x, 1, 1), x),
}

CONDITIONAL = {  # the loops with conditions
    "roll": ["L1"], "roll of rows": ["L0"], "rolls": ["L0", "L1"], "padded": ["L0", "L1"], "joined": ["L1"],
    "compared": ["L1"]
}  # fmt: skip


def kernel_of(f: Callable[[Any], Any], x: Any) -> Any:
    *_, (kernel, _, _) = tj.jit(f).lower(x).log.kernels
    return kernel


def run(kernel: Any, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    arrays = {b.name: (x if b.name not in kernel.outputs else np.full(b.shape, np.nan)) for b in kernel.buffers}
    run_kernel(kernel, arrays, {})
    (out,) = [arrays[name] for name in kernel.outputs]
    return out.reshape(shape)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "text",
    [
        "cut L1",
        "cut L0",
        "cut L0; cut L1",
        "cut L1; parallel L0 2; vector L1 4 2",
        "cut L0; cut L1; vector L1 8 1; parallel L0 1",
    ],
)
def test_values_stay(name: str, text: str):
    f, x = PROGRAMS[name], np.random.default_rng(0).normal(size=(11, 13))
    kernel = kernel_of(f, x)
    kept = [d for d in text.split("; ") if not d.startswith("cut") or d[-2:] in CONDITIONAL[name]]
    scheduled = apply(kernel, parse_schedule("; ".join(kept)))
    check_kernel(scheduled)
    np.testing.assert_array_equal(run(scheduled, x, f(x).shape), f(x))
    if "cut L0; cut L1" in text:
        assert not any(isinstance(s, If) for s in walk(scheduled.body))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (1, 300), (3, 7), (70, 130)])
def test_compiled_programs_agree(name: str, shape: tuple[int, int]):
    f, x = PROGRAMS[name], np.random.default_rng(1).normal(size=shape)
    np.testing.assert_array_equal(tj.jit(f)(x), f(x))


def test_the_interior_has_no_conditions_by_default():
    x = np.ones((64, 64), np.float32)
    text = tj.jit(PROGRAMS["rolls"]).lower(x).text("scheduled")
    assert "if " not in text
    assert text.count("parallel") <= 1


def test_symbolic_extents():
    f = tj.jit(PROGRAMS["rolls"], dynamic_shapes=True)
    for shape in [(2, 2), (5, 3), (40, 33), (3, 100)]:
        x = np.random.default_rng(2).normal(size=shape)
        np.testing.assert_array_equal(f(x), PROGRAMS["rolls"](x))
    assert f.compilations <= 2
    loops = [s for k in f.lower(np.ones((6, 7))).program.kernels() for s in walk(k.body) if isinstance(s, For)]
    assert len(loops) >= 4


def test_a_loop_without_conditions_is_not_cut():
    kernel = kernel_of(lambda x: x * 2 + np.sum(x), np.ones((3, 4)))
    with pytest.raises(ScheduleError, match="cut L0: no condition on its index changes"):
        apply(kernel, parse_schedule("cut L0"))
