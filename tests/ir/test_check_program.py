"""The verifier of programs: what it refuses, and with which words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir.check_program import check_program
from tracejit.ir.forms import Environment
from tracejit.ir.program import (
    Branch,
    Call,
    Check,
    Copy,
    CountedLoop,
    Launch,
    Program,
    ProgramBuffer,
    Steps,
    Swap,
    WhileLoop,
)
from tracejit.support.errors import VerifyError
from tracejit.support.nodes import evolve

N = 8
GIVEN = ProgramBuffer("x", "f64", (N,), "input")
STRIDED = ProgramBuffer("s", "f64", (N,), "input", "strided")
RESULT = ProgramBuffer("y", "f64", (N,), "output")
SPARE, OTHER = (ProgramBuffer(name, "f64", (N,), "temporary") for name in ("t", "u"))
SHORT = ProgramBuffer("short", "f64", (N - 1,), "temporary")
SINGLE = ProgramBuffer("single", "f32", (N,), "temporary")
FLAG = ProgramBuffer("flag", "bool", (), "temporary")
FAILURE = ProgramBuffer("failure", "i64", (), "temporary")
LIBRARY = Environment("lib", lambda symbol: 0)

(LAUNCH,) = tj.jit(lambda x: x + 1).lower(np.zeros(N)).program.steps
assert isinstance(LAUNCH, Launch)
KERNEL = LAUNCH.kernel


def program(*steps: object) -> Program:
    made: Steps = steps  # type: ignore[assignment]
    temporaries = (SPARE, OTHER, SHORT, SINGLE, FLAG, FAILURE)
    return Program("p", (GIVEN, STRIDED), (RESULT,), temporaries, made)


def launched(*arguments: ProgramBuffer) -> Launch:
    return Launch(KERNEL, arguments)


FILLED = Copy(RESULT, GIVEN)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (program(), "nothing fills the result y"),
        (program(launched(GIVEN)), "takes 2 buffers, not 1"),
        (program(launched(SPARE, RESULT)), "t is read before it is filled, in `launch"),
        (program(launched(STRIDED, RESULT)), "s is strided, and the kernel takes rows"),
        (program(launched(SHORT, RESULT)), "short has 7 elements, and the kernel takes 8"),
        (program(launched(SINGLE, RESULT)), "single is f32, and the kernel takes f64"),
        (program(launched(GIVEN, STRIDED)), "s is strided"),
        (program(launched(GIVEN, evolve(GIVEN))), "x is not declared"),
        (program(Copy(SPARE, GIVEN), launched(SPARE, GIVEN)), "x is an input that is not given up"),
        (program(Copy(SHORT, GIVEN)), "short is f64 of 7 elements, x f64 of 8"),
        (program(Copy(SPARE, GIVEN), Swap(SPARE, OTHER)), "u is read before it is filled, in `swap t, u`"),
        (program(FILLED, Check(FAILURE)), "failure is read before"),
        (program(FILLED, Check(GIVEN)), r"x is f64\[8\], not one i64"),
        (program(FILLED, WhileLoop((), FLAG, ())), "flag is read before it is filled, in `while"),
        (program(FILLED, Branch(FLAG, (), ())), "flag is read before it is filled, in `if"),
        (program(Call("f", LIBRARY, (STRIDED, RESULT), (RESULT,))), "libraries take rows"),
        (program(Call("f", LIBRARY, (GIVEN,), (RESULT,))), "writes what it is not given"),
        (evolve(program(FILLED), outputs=(evolve(RESULT, role="temporary"),)), "says temporary"),
        (evolve(program(FILLED), temporaries=(evolve(SPARE, name="y"),)), "two buffers are called y"),
        (
            evolve(program(FILLED), steps=(FILLED, Launch(evolve(KERNEL, dims=("n0",)), (GIVEN, RESULT)))),
            "no extent n0",
        ),
    ],
)
def test_a_malformed_program_is_refused(made: Program, message: str):
    with pytest.raises(VerifyError, match=message):
        check_program(made)


def test_what_only_one_side_of_a_branch_fills_is_not_filled():
    flagged = evolve(program(), inputs=(GIVEN, STRIDED, evolve(FLAG, role="input")))
    flag = flagged.inputs[2]
    flagged = evolve(flagged, temporaries=(SPARE,))
    check_program(evolve(flagged, steps=(Branch(flag, (FILLED,), (FILLED,)),)))
    with pytest.raises(VerifyError, match="nothing fills the result y"):
        check_program(evolve(flagged, steps=(Branch(flag, (FILLED,), ()),)))


def test_a_counted_loop_fills_what_its_body_fills():
    check_program(program(CountedLoop(3, (FILLED,))))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x + 1,
        lambda x: tj.lax.fori_loop(0, 5, lambda i, c: c * 2, x),
        lambda x: tj.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, x),
        lambda x: tj.lax.cond(x.sum() > 0, lambda c: c + 1, lambda c: c - 1, x),
        lambda x: (x[1:] @ x[:-1], np.cumsum(x)),
    ],
)
def test_what_is_compiled_passes(f: Callable[..., object]):
    check_program(tj.jit(f).lower(np.ones(N)).program)
