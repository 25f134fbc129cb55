"""The reader of bytecode says what `dis` says."""

import argparse
import dis
import inspect
import typing
from types import CodeType, ModuleType

import numpy.lib._function_base_impl as numpy_functions
import pytest

from tracejit.tracer.bytecode import instructions, name_of

NAMED = (
    "LOAD_GLOBAL",
    "STORE_GLOBAL",
    "LOAD_NAME",
    "STORE_ATTR",
    "IMPORT_NAME",
    "LOAD_DEREF",
    "STORE_DEREF",
    "DELETE_DEREF",
)


def codes(module: ModuleType) -> list[CodeType]:
    """Every code object of a module."""
    found: list[CodeType] = []
    pending = [compile(inspect.getsource(module), module.__name__, "exec")]
    while pending:
        found.append(code := pending.pop())
        pending += [x for x in code.co_consts if isinstance(x, CodeType)]
    return found


def long_function(lines: int) -> CodeType:
    """Names and jumps beyond 255: arguments with prefixes."""
    body = "".join(f"    a{n} = outer + g{n}.b{n}\n    if a{n}: x = a{n}\n" for n in range(lines))
    inner = "    def inner():\n        nonlocal x\n        x = a300\n        return inner, x\n"
    return next(
        c for c in compile(f"def f(outer):\n    x = 0\n{body}{inner}", "f", "exec").co_consts if isinstance(c, CodeType)
    )


@pytest.mark.parametrize("module", [argparse, typing, inspect, numpy_functions], ids=lambda m: m.__name__)
def test_as_dis(module: ModuleType):
    found = codes(module)
    assert len(found) > 50
    for code in found:
        compare(code)


def test_as_dis_with_prefixes():
    code = long_function(400)
    compare(code)
    compare(next(c for c in code.co_consts if isinstance(c, CodeType)))


def compare(code: CodeType) -> None:
    wanted = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    got = list(instructions(code))
    assert [(op, offset) for op, _, offset in got] == [(i.opname, i.offset) for i in wanted]
    for (op, argument, _), i in zip(got, wanted, strict=True):
        assert argument == (i.arg or 0) or i.arg is None
        if op in NAMED:
            assert name_of(code, op, argument) == i.argval
