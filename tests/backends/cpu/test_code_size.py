"""The code of a loop stays short where each lane needs an instruction, or a branch, of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.cpu.codegen.program import emit_program
from tracejit.backends.cpu.runtime import llvm

LONG = np.arange(1003)


def rows_updated(x: Any) -> Any:
    for i in tj.range(3):
        x[i] = x[i] * x[2 - i]
    return x


def rows_swapped(x: Any) -> Any:
    for i in tj.range(2):
        x[i] = x[i + 1]
    return x


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "f2", "f4", "f8"])
@pytest.mark.parametrize(
    ("function", "x"),
    [
        (rows_updated, np.ones((3, 3))), (rows_updated, np.ones((3, 2))), (rows_swapped, np.ones((3, 5))),
        (lambda x: x[::2] | x[1::2] if x.dtype == bool else x[::2] + x[1::2], LONG[:-1]),
        (lambda x: x.T.copy(), np.ones((40, 30))), (lambda x: x[:, 0] * x[:, 1] * x[:, 2], np.ones((400, 3))),
        (lambda x: x[::-3][x[:4].astype(int)], LONG % 7),
    ],
)  # fmt: skip
def test_narrow_elements_that_lie_apart(function: Any, x: np.ndarray, dtype: str):
    x = x.astype(dtype)
    program = tj.jit(function).lower(x.copy()).program
    passes = "sroa,instcombine,simplifycfg"
    lines = llvm.load(emit_program(program), passes=passes).assembly().count("\n")
    assert lines < 8000
    np.testing.assert_array_equal(tj.jit(function)(x.copy()), function(x.copy()))


@pytest.mark.parametrize("k", range(1, 10))
@pytest.mark.parametrize("function", [
    lambda x, y: np.tanh(x @ y), lambda x, y: (x @ y) * x.sum(), lambda x, y: np.einsum("ik,kj,ij->i", x, y, x @ y),
])  # fmt: skip
def test_loops_in_loops_are_not_all_written_out(function: Any, k: int):
    """Short loops are written out while what is around them stays short: the packing of a product's operand was 500
    loads and 500 stores.
    """
    rng = np.random.default_rng(k)
    x, y = rng.standard_normal((128, k)), rng.standard_normal((k, 64))
    text = emit_program(tj.jit(function).lower(x, y).program)
    functions = text.split("\ndefine ")[1:]
    assert max(function.count("\n") for function in functions) < 900
    np.testing.assert_allclose(tj.jit(function)(x, y), function(x, y), rtol=1e-12)
