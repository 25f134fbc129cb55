"""The interpreter on what NVRTC makes of CUDA C, against NumPy."""

import numpy as np
import pytest

from tests.standin.harness import assert_same, launch
from tests.standin.kernels import CASES, Case
from tests.standin.module import load
from tests.standin.nvrtc import FOLDER, ptx_of


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_kernel_of_cuda_c_gives_what_numpy_gives(case: Case) -> None:
    arguments = case.arguments(np.random.default_rng(0))
    with np.errstate(all="ignore"):
        expected = case.expected(*[a.copy() for a in arguments])
    launch(load(ptx_of(case.name, case.source)), "k", arguments, grid=case.grid, block=case.block, shared=case.shared)
    for number, (actual, wanted) in enumerate(zip(arguments, expected, strict=True)):
        if wanted is not None:
            assert_same(actual, wanted, f"argument {number}")


def test_ptx_is_kept_of_every_kernel() -> None:
    assert {c.name for c in CASES} == {p.stem for p in FOLDER.glob("*.ptx")}
