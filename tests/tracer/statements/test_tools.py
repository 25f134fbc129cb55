"""Compiled functions with loops under the tools that look at Python code: debuggers, coverage, notebooks, prompts."""

import code
import inspect
import io
import linecache
import pdb
import pickle
import sys
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ConcretizationError

X = np.array([1.0, -2.0, 3.0])


@tj.jit
def total(x: Any, n: int) -> Any:
    found = 0.0
    for i in range(n):
        if x[i] > 0:
            found += x[i]
        else:
            found -= 1
    return found


LINES = range(inspect.unwrap(total).__code__.co_firstlineno + 1, inspect.unwrap(total).__code__.co_firstlineno + 9)


def test_inspect_and_pickle():
    assert str(inspect.signature(total)).startswith("(x: Any, n: int)")
    assert "for i in range(n)" in inspect.getsource(total)
    assert pickle.loads(pickle.dumps(total)) is total


def test_a_tracer_of_lines_sees_the_users():
    seen: set[int] = set()

    def lines(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename == __file__ and event == "line":
            seen.add(frame.f_lineno)
        return lines

    total.clear_cache()
    before = sys.gettrace()
    sys.settrace(lines)
    try:
        assert total(X, 3) == 3.0
    finally:
        sys.settrace(before)
    assert seen & set(LINES) == {LINES[0] + n for n in (1, 2, 3, 4, 6, 7)}  # all of the body but `else:`


def test_a_breakpoint_in_a_loop():
    line = LINES[0] + 3
    shown = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO(f"b {__file__}:{line}\nc\np 'here', i\ncl 1\nc\n"), stdout=shown, readrc=False)
    debugger.use_rawinput = False
    total.clear_cache()
    before = sys.gettrace()
    try:
        assert debugger.runcall(total, X, 3) == 3.0
    finally:
        sys.settrace(before)
    assert "('here', " in shown.getvalue(), shown.getvalue()


def test_a_cell_of_a_notebook():
    text = (
        "import tracejit as tj\n"
        "@tj.jit\n"
        "def positive(x):\n"
        "    s = 0.0\n"
        "    for v in x:\n"
        "        if v > 0:\n"
        "            s += v\n"
        "    return s\n"
    )
    name = "/tmp/ipykernel_1/2.py"
    lines = list(map(str, text.splitlines(keepends=True)))
    linecache.cache[name] = len(text), None, lines, name
    cell: dict[str, Any] = {}
    exec(compile(text, name, "exec"), cell)
    assert cell["positive"](X) == 4.0


def test_a_prompt_without_source_says_so():
    """Python keeps no source of what is typed there (the prompt of 3.13 and later does)."""
    prompt = code.InteractiveConsole()
    lines = ["import tracejit as tj", "@tj.jit", "def f(x):", "    if x[0] > 0:", "        x = -x", "    return x", ""]
    for line in lines:
        prompt.push(line)
    with pytest.raises(ConcretizationError, match=r"not in f \(its source is not known.*put it into a file"):
        prompt.locals["f"](X)  # type: ignore[operator]
    for line in ["@tj.jit", "def g(x):", "    return x + 1", ""]:
        prompt.push(line)
    assert list(prompt.locals["g"](X)) == [2.0, -1.0, 4.0]  # type: ignore[operator]
