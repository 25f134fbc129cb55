"""The programs of `benchmarks/programs` at small sizes, against plain Python: loops as their authors write them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from benchmarks.programs import PROGRAMS, Program
from benchmarks.programs.__main__ import copied, error

SIZES = (12, 7, 7, 19)
ELSEWHERE = (
    "biquad", "thomas", "edit_distance", "knapsack", "sobel", "error_diffusion", "gauss", "newton_roots",
    "bellman_ford", "insertion_sort", "sparse_product", "escape_times",
)  # fmt: skip


def agree(program: Program, jitted: Callable[..., Any], n: int) -> None:
    theirs, ours = copied(program.inputs(n)), copied(program.inputs(n))
    want = program.function(*theirs)
    got = jitted(*ours)
    assert error((got, *ours), (want, *theirs)) <= program.tolerance, n


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_python_gives(name: str):
    program = PROGRAMS[name]
    jitted = tj.jit(program.function)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error", RuntimeWarning)  # no loop is run by Python
        for n in SIZES:
            agree(program, jitted, n)


@pytest.mark.parametrize("backend", ["reference", "opencl", "vulkan"])
@pytest.mark.parametrize("name", ELSEWHERE)
def test_programs_on_other_backends(record_backend: Callable[[str], None], name: str, backend: str):
    record_backend(backend)
    program = PROGRAMS[name]
    agree(program, tj.jit(program.function, backend=backend), 6)


def test_there_are_many_of_all_kinds():
    assert len(PROGRAMS) >= 40
    assert len({program.family for program in PROGRAMS.values()}) == 6
