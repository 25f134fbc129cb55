"""The interpreter on what NVRTC makes of CUDA C, against NumPy."""

import numpy as np
import pytest

from tests.standin.harness import assert_same, launch
from tests.standin.kernels import CASES, Case
from tests.standin.module import load
from tests.standin.nvrtc import FOLDER, compile_cuda, kept_ptx


@pytest.mark.parametrize("made", ["once", "now"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_kernel_of_cuda_c_gives_what_numpy_gives(case: Case, made: str) -> None:
    text = kept_ptx(case.name, case.source)
    if made == "now":
        text = compile_cuda(case.source) or text
    arguments = case.arguments(np.random.default_rng(0))
    with np.errstate(all="ignore"):
        expected = case.expected(*[a.copy() for a in arguments])
    launch(load(text), "k", arguments, grid=case.grid, block=case.block, shared=case.shared)
    for number, (actual, wanted) in enumerate(zip(arguments, expected, strict=True)):
        if wanted is not None:
            assert_same(actual, wanted, f"argument {number}")


def test_ptx_is_kept_of_every_kernel() -> None:
    assert {c.name for c in CASES} == {p.stem for p in FOLDER.glob("*.ptx")}
