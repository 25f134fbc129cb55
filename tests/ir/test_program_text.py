"""Programs as text: what is printed parses back to the same text, and what is no program is refused with the line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, get_args

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import program as p
from tracejit.ir.check_program import check_program
from tracejit.ir.effects import effects_of
from tracejit.ir.extents import Dim
from tracejit.ir.forms import Environment, KernelSources
from tracejit.ir.kernel import Const
from tracejit.ir.program import (
    Call,
    KernelCall,
    Program,
    ProgramBuffer,
    Steps,
    mentions,
    nested,
    parts_of,
    step_effects,
)
from tracejit.ir.text import ParseError
from tracejit.ir.text.program import parse_program
from tracejit.support.errors import VerifyError
from tracejit.support.nodes import evolve

X = np.arange(12.0).reshape(3, 4)


def program_of(f: Callable[..., Any], *args: Any, **options: Any) -> Program:
    return tj.jit(f, **options).lower(*args).program


def bounded(x: Any) -> Any:
    x = tj.lax.cond(x.sum() > 3, lambda x: np.cumsum(x, axis=0) / x.sum(), lambda x: x - x.max(), x)
    return tj.lax.fori_loop(0, 5, lambda i, x: x * (x / np.sum(x, axis=0)).max(), x)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "several kernels": lambda: program_of(lambda x: (np.cumsum(x), x[::2] @ x[:2].T), X),
    "strided": lambda: program_of(lambda x: x + 1, X[:, ::2]),
    "no results": lambda: program_of(lambda x: None, X),
    "loops and branches": lambda: program_of(bounded, np.arange(60.0).reshape(3, 20)),
    "while": lambda: program_of(lambda x: tj.lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2, x), X),
    "a library": lambda: program_of(lambda x: x @ x.T, X, alternatives="blas"),
    "donated": lambda: program_of(lambda x, y: (x.sum(), y - x), X, X, donate_argnums=1),
    "checked": lambda: program_of(lambda x, i: x[i], X, 1),
    "computed extents": lambda: program_of(lambda x: (x[x > 3], np.cumsum(x[x[:, 0] > 1], axis=0)), X),
    "a name of its own": lambda: Program("a function's", (), (), (), ()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_printed_parses_back(name: str):
    program = PROGRAMS[name]()
    again = parse_program(str(program), program)
    assert str(again) == str(program)
    assert again.kernels() == program.kernels()
    assert effects_of(again) == effects_of(program)
    check_program(again)


def test_symbolic_extents_parse_back():
    f = tj.jit(lambda x: tj.lax.fori_loop(0, x.shape[0], lambda i, c: c + np.sum(x[i] @ x.T), 0.0))
    f(X)
    f(X[:2])
    program = f.lower(X[:2, :3]).program
    assert str(parse_program(str(program), program)) == str(program)


def test_a_program_says_which_extents_it_computes():
    text = tj.jit(lambda x: x[x > 3]).lower(np.arange(5.0)).text("program")
    (line,) = [line for line in text.splitlines() if " extent " in line]
    assert re.fullmatch(r"  extent index1to5 is t\d+ most 5", line)
    assert "output out0: f64[index1to5]" in text


def test_constants_parse_back():
    x, y = ProgramBuffer("x", "f64", (3,), "input"), ProgramBuffer("y", "f64", (3,), "output")
    values = (Const(-1.5e-7, "f32"), Const(float("inf"), "f64"), Const(True, "bool"), Const(-3, "i8"), Const(7, "i64"))
    call = Call("f", Environment("mine", lambda _: 0), (x, *values, y), (y,))
    program = Program("p", (x,), (y,), (), (call,))
    assert "call mine.f(x, -1.5e-07:f32, inf:f64, True:bool, -3:i8, 7:i64, y) writes y" in str(program)
    (again,) = parse_program(str(program), program).steps
    assert isinstance(again, Call)
    assert again.arguments[1:-1] == values


def test_kernels_of_users_parse_back():
    n = Dim.symbol("n")
    x, y = ProgramBuffer("x", "f64", (n,), "input"), ProgramBuffer("y", "f64", (n,), "output")
    sources = KernelSources("mine.0", "f", 64, {})
    call = KernelCall("f", sources, (x, y, Const(n * 2, "i64")), (y,), (n + 63) // 64)
    program = Program("p", (x,), (y,), (), (call,), ("n",))
    (line,) = [line for line in str(program).splitlines() if " run " in line]
    assert line.startswith("  run mine.0.f(x, y, 2*n:i64) on floordiv(")
    assert line.endswith(" writes y")
    (again,) = parse_program(str(program), program).steps
    assert isinstance(again, KernelCall)
    assert (again.environment, again.symbol) == (sources, "f")
    assert str(again.grid) == str(call.grid)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("program bounded", "prog bounded", "line 1: expected 'program'"),
        ("  output out0", "  output in0", "buffer in0 is declared twice"),
        ("f64[3, 20]", "f65[3, 20]", "'f65' is not a dtype"),
        (
            "  launch ",
            "  lunch ",
            "there is no step 'lunch'; there are launch, call, run, python, copy, swap, while, for",
        ),
        ("for _ in 5 {", "for _ in 5, 6 {", "expected one extent"),
        ("return out0", "return out1", "buffer out1 is not declared"),
        ("return out0", "return out0 out0", "expected '}'"),
        ("} else {", "} otherwise {", "expected 'else'"),
        ("if ", "if no_", "is not declared"),
    ],
)
def test_what_is_no_program_is_refused(old: str, new: str, message: str):
    program = PROGRAMS["loops and branches"]()
    text = str(program)
    assert old in text
    with pytest.raises(ParseError, match=message.replace("(", r"\(")):
        parse_program(text.replace(old, new, 1), program)


def test_kernels_and_libraries_are_those_of_the_program():
    program = PROGRAMS["strided"]()
    text = str(program)
    with pytest.raises(ParseError, match="there is no kernel sub_1; there are add_1"):
        parse_program(text.replace("add_1", "sub_1"), program)
    with pytest.raises(ParseError, match="kernel add_1 takes 2 buffers, not 1"):
        parse_program(text.replace("add_1(in0, out0)", "add_1(in0)"), program)
    with pytest.raises(ParseError, match="'atlas' is no library that the program calls; there are none"):
        parse_program(text.replace("launch add_1", "call atlas.add"), program)
    library = PROGRAMS["a library"]()
    with pytest.raises(ParseError, match="'atlas' is no library that the program calls; there are blas"):
        parse_program(str(library).replace("call blas.", "call atlas."), library)


def test_of_several_kernels_with_one_name_the_arguments_tell():
    """Donation changes a kernel where it is launched, and leaves its name."""
    program = PROGRAMS["strided"]()
    (launch,) = program.steps
    assert isinstance(launch, p.Launch)
    (x,), (y,) = program.inputs, program.outputs
    t = ProgramBuffer("t", "f64", y.shape, "temporary")
    other = p.Launch(evolve(launch.kernel, dims=("n",)), (x, t))
    both = evolve(program, temporaries=(t,), steps=(launch, other))
    assert parse_program(str(both), both).kernels() == [launch.kernel, other.kernel]
    with pytest.raises(ParseError, match="line 6: there are several kernels add_1; edit what an earlier pass makes"):
        parse_program(str(both).replace("launch add_1(in0, t)", "launch add_1(t, t)"), both)


# -- a step that no file of the package knows --------------------------------------------------------------------------
@pytest.fixture
def another(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """Runs one block, then fills a buffer with the sum of two; taken back after the test."""
    monkeypatch.setattr(p, "STEPS", [*p.STEPS])
    monkeypatch.setattr("tracejit.ir.text.program.STEPS", p.STEPS)

    @p.step
    class Sum:
        """As above."""

        syntax: ClassVar = "sum {out} of {left} and {right} after {block}"
        alike: ClassVar = ("left", "right")

        block: Steps = p.inside("once")
        left: ProgramBuffer = p.read()
        right: ProgramBuffer = p.read()
        out: ProgramBuffer = p.written()

    return Sum


def test_a_step_is_one_class(another: type[Any]):
    x, s = ProgramBuffer("x", "f64", (3,), "input"), ProgramBuffer("s", "f64", (2,), "input")
    y, t = ProgramBuffer("y", "f64", (3,), "output"), ProgramBuffer("t", "f64", (3,), "temporary")
    step: Any = another((p.Copy(t, x),), x, t, y)
    program = Program("p", (x, s), (y,), (t,), (step,))
    assert str(program).splitlines()[5:8] == ["  sum y of x and t after {", "    copy t <- x", "  }"]
    assert str(parse_program(str(program), program)) == str(program)
    check_program(program)
    assert mentions(step) == (x, t, y)
    assert nested(step) == (step.block,)
    assert step_effects(step) == ({x, t}, {y})
    changed: Any = p.replace_in_step(step, {t: s})
    assert (changed.right, changed.block[0].target, changed.left) == (s, s, x)
    with pytest.raises(VerifyError, match=r"x is f64 of 3 elements, s f64 of 2, in `sum y of x and s after \{`"):
        check_program(Program("p", (x, s), (y,), (t,), (another((), x, s, y),)))
    with pytest.raises(VerifyError, match="t is read before it is filled, in `sum"):
        check_program(Program("p", (x, s), (y,), (t,), (another((), x, t, y),)))


def test_every_class_of_steps_is_declared():
    assert tuple(p.STEPS) == get_args(p.Step)
    for kind in p.STEPS:
        assert {part.role for part in parts_of(kind).values()} <= {
            "read", "written", "exchanged", "passed", "inside", "extent",
        }  # fmt: skip
