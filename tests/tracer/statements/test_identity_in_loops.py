"""`is` between what a loop hands on and arrays from around: as in plain Python, or refused."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracerError


class Node:
    def __init__(self, v: Any) -> None:
        self.v = v


def buffers_in_turn(x: Any) -> Any:
    a, b = x * 2, x + 1
    cur, s = a, x[0] * 0
    for i in range(len(x)):
        if cur is a:
            s = s + x[i]
            cur = b
        else:
            s = s - x[i]
            cur = a
    return s


def copied_before_the_first_write(x: Any) -> Any:
    out = x
    for i in range(len(x)):
        if out is x:
            out = x.copy()
        out[i] = 0.0
    return out


def the_first_is_another(x: Any) -> Any:
    a = x * 2
    cur, s = a, x[0] * 0
    for i in range(len(x)):
        s = s + x[i] * (1.0 if cur is a else -3.0)
        cur = cur * 1
    return s


def the_best_so_far(x: Any) -> Any:
    cur = x * 2
    best, n = cur, 0
    for i in range(len(x)):
        if best is cur:
            n += 1
        cur = cur * 0.9
        if x[i] > 3:
            best = cur
    return n, best


def has_it_changed(x: Any) -> Any:
    a, n = x * 1, 0
    prev = a
    for v in x:
        if v > 3:
            a = a + v
        if prev is a:
            n += 1
        prev = a
    return n


def of_an_attribute(x: Any) -> Any:
    o, n = Node(x), 0
    for _ in range(len(x)):
        if o.v is x:
            n += 1
            o.v = x.copy()
    return n


def of_an_item(x: Any) -> Any:
    buffers, n = [x, x * 2], 0
    for _ in range(len(x)):
        if buffers[0] is x:
            n += 1
        buffers[0], buffers[1] = buffers[1], buffers[0]
    return n


def of_memory(x: Any) -> Any:
    a, b = x * 2, x * 3
    cur, n = a, 0
    for _ in range(len(x)):
        if np.may_share_memory(cur, a):
            n += 1
        cur = b
    return n


def never_another(x: Any) -> Any:
    a = x * 2
    cur = x * 3
    for v in x:
        if cur is not a:
            cur = cur * 0.5 + v
    return cur


def its_class(x: Any) -> Any:
    s, n = 0, 0
    for v in x:
        if isinstance(s, int):
            n += 1
        s = s + v
    return n, s


PROGRAMS = [
    buffers_in_turn, copied_before_the_first_write, the_first_is_another, of_an_attribute, of_an_item, of_memory,
    never_another, its_class,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*is written out:UserWarning")
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_what_is_one_array_in_python_is_one(number: int):
    program = PROGRAMS[number]
    compiled = tj.jit(program)
    for size in (10, 7, 40, 3):
        x = np.sin(np.arange(1.0, size + 1)) * 9
        given, again = x.copy(), x.copy()
        want = program(given)
        got = compiled(again)
        for one, other in zip(
            want if type(want) is tuple else (want,), got if type(got) is tuple else (got,), strict=True
        ):
            np.testing.assert_allclose(other, one, rtol=1e-12)
        np.testing.assert_array_equal(again, given)


@pytest.mark.filterwarnings("ignore:.*is written out:UserWarning")
@pytest.mark.parametrize("program", [the_best_so_far, has_it_changed])
def test_what_data_decide_is_refused(program: Any):
    with pytest.raises(TracerError, match="whether two names have one array"):
        tj.jit(program)(np.sin(np.arange(1.0, 11)) * 9)


def test_names_that_never_have_one_array_are_a_loop_of_the_program():
    compiled = tj.jit(never_another)
    compiled(np.ones(100))
    assert "loop[" in compiled.lower(np.ones(100)).text("jaxpr")


def test_a_while_loop_that_asks_is_refused():
    def turns(x: Any) -> Any:
        a, b = x * 2, x + 1
        cur, n, i = a, 0, 0
        while i < len(x) and x[i] < 1e9:
            n += 1 if cur is a else 10
            cur = b if cur is a else a
            i += 1
        return n

    with pytest.raises(TracerError, match="whether two names have one array"):
        tj.jit(turns)(np.ones(7))
