"""Programs for aarch64 compute on an emulated processor what NumPy does:
every primitive, its extreme values, and products of any tile.

Where the emulator or the linker is missing these tests are not run, and say what is missing; CI installs both, and runs
a part of the primitives' examples: TRACEJIT_ARM_EXAMPLES=1 runs all of them.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import tracejit as tj
from tests.backends.cpu.arm import ArmBackend, missing
from tests.primitives.test_registry import CASES, EDGES, check_equal, edge_arguments, expected, staged
from tracejit.compiler.pipeline import lower_jaxpr

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"programs for aarch64 are NOT RUN: there is no {missing()}")
EVERY = int(os.environ.get("TRACEJIT_ARM_EXAMPLES", "4"))
RNG = np.random.default_rng(0)


def run(jaxpr, args):
    layouts = ["C" if a.flags.c_contiguous else "strided" for a in args]
    return lower_jaxpr(jaxpr, ArmBackend(), layouts).compile().run(args, {})


# a program of another processor's cannot call the Python that this process runs
THERE = [case for case in CASES if case.values[0].instance(case.values[1]).name != "callback"]


@pytest.mark.parametrize(("example", "dtype"), THERE[::EVERY])
def test_primitives_agree_with_impl(example, dtype):
    p, args = example.instance(dtype), example.arguments(dtype)
    for got, want in zip(run(staged(p, args), args), expected(p, *args), strict=True):
        check_equal(got, want, example)


@pytest.mark.parametrize(("example", "dtype"), EDGES[:: max(1, EVERY // 2)])
def test_primitives_agree_with_impl_on_extreme_values(example, dtype):
    p, args = example.instance(dtype), edge_arguments(example, dtype)
    for got, want in zip(run(staged(p, args), args), expected(p, *args), strict=True):
        check_equal(got, want, example)


@pytest.mark.parametrize("shape", [(1, 40, 30), (37, 41, 43), (70, 90, 50), (300, 20, 200)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "u8"])
def test_products(shape, dtype):
    m, k, n = shape
    a, b = RNG.integers(0, 3, (m, k)).astype(dtype), RNG.integers(0, 3, (k, n)).astype(dtype)
    f = tj.jit(lambda a, b: np.maximum(a @ b, a.dtype.type(1)))
    np.testing.assert_array_equal(run(f.lower(a, b).jaxpr, [a, b])[0], np.maximum(a @ b, a.dtype.type(1)))


def test_sums_scans_and_loops_over_much_memory():
    x = RNG.normal(size=(300, 1001))
    f = tj.jit(
        lambda x: (
            x.sum(),
            x.sum(axis=0),
            np.cumsum(x, axis=1),
            tj.lax.fori_loop(0, 5, lambda i, c: np.sin(c) + i, x[:9]),
        )
    )
    after = x[:9]
    for i in range(5):
        after = np.sin(after) + i
    for got, want in zip(
        run(f.lower(x).jaxpr, [x]), (x.sum(), x.sum(axis=0), np.cumsum(x, axis=1), after), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
