"""Random programs of nested loops and branches that change arrays in place and index them,
compiled and as plain Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import tracejit as tj
from tracejit.support.errors import ConcretizationError

EXAMPLES = int(os.environ.get("TRACEJIT_RANDOM_PROGRAMS", "40"))
ARRAYS = 5  # two arguments and three that the program makes
SIZE = 4
Statement = tuple[Any, ...]


class Plain:
    """Loops and branches as Python has them."""

    def times(self, kind: str, n: int, body: Callable[[Any], None]) -> None:
        for i in range(n):
            body(i)

    def branch(self, flag: Any, yes: Callable[[], None], no: Callable[[], None]) -> None:
        (yes if flag else no)()

    def slope(self, factor: Any) -> Any:
        return 2 * factor

    def mapped(self, f: Callable[[Any], Any], xs: Any) -> Any:
        return np.array([f(x) for x in xs])


class Traced(Plain):
    def times(self, kind: str, n: int, body: Callable[[Any], None]) -> None:
        def with_carry(i: Any, carry: Any) -> Any:
            body(i)
            return carry + 1

        match kind:
            case "range":
                for i in tj.range(n):
                    body(i)
            case "fori":
                tj.lax.fori_loop(0, n, with_carry, 0)
            case "while":
                tj.lax.while_loop(lambda k: k < n, lambda k: with_carry(k, k), 0)
            case _:
                tj.lax.scan(lambda c, i: (with_carry(i, c), c), 0, np.arange(n))

    def branch(self, flag: Any, yes: Callable[[], None], no: Callable[[], None]) -> None:
        tj.lax.cond(flag, yes, no)

    def slope(self, factor: Any) -> Any:
        return tj.grad(lambda z: z * z * factor)(np.float64(1))

    def mapped(self, f: Callable[[Any], Any], xs: Any) -> Any:
        return tj.vmap(f)(xs)


def run(statements: list[Statement], arrays: list[Any], way: Plain, counters: list[Any]) -> None:
    for kind, *rest in statements:
        if kind == "loop":
            how, n, body = rest
            way.times(how, n, lambda i, body=body: run(body, arrays, way, [*counters, i]))
        elif kind == "branch":
            a, limit, yes, no = rest
            way.branch(
                arrays[a][0] > limit,
                lambda yes=yes: run(yes, arrays, way, counters),
                lambda no=no: run(no, arrays, way, counters),
            )
        else:
            change(kind, *rest, arrays, way, counters)


def change(kind: str, a: int, b: int, k: int, arrays: list[Any], way: Plain, counters: list[Any]) -> None:
    x, y = arrays[a], arrays[b]
    i = counters[-1 - k % len(counters)] if counters else k % SIZE
    match kind:
        case "add":
            x[k % SIZE] += y[(a + k) % SIZE]
        case "all":
            x[:] = (x + y[::-1]) % 23
        case "view":
            part = x[::-1][1:]
            part += y[0]
            part[-1] -= part[0]
        case "read":
            x[1] += y[i]
        case "write":
            x[i] = y[1] + 1
        case "lookup":
            x[0] = (x[0] + y[x[k % SIZE] - 3]) % 11
        case "lookups":
            x[:2] = (x[2:] + y[x[1:3] - 3]) % 11
        case "clipped":
            x[0] += y[np.clip(x[1] - 2, -4, 3)]
        case "wrapped":
            x[0] += y[(x[1] + i) % SIZE]
        case "slope":
            x[2] += way.slope(y[2] * 1.0).astype(np.int64) % 13
        case "mapped":
            x[:] = (x + way.mapped(lambda z: z * y[3] + arrays[0][z % SIZE], y)) % 29
        case "known":
            if arrays[2 + b % 3][k % SIZE] > 1:  # known of arrays that the program has made and no loop around changes
                x[1] += 2
        case _:
            x[...] = x % 7


CHANGES = [
    "add",
    "all",
    "view",
    "read",
    "write",
    "lookup",
    "lookups",
    "clipped",
    "wrapped",
    "slope",
    "mapped",
    "known",
    "reset",
]
places = st.integers(0, ARRAYS - 1)
changes = st.tuples(st.sampled_from(CHANGES), places, places, st.integers(0, 7))
statements = st.recursive(
    st.lists(changes, min_size=1, max_size=3),
    lambda inner: st.lists(
        st.one_of(
            changes,
            st.tuples(
                st.just("loop"), st.sampled_from(["range", "range", "fori", "while", "scan"]), st.integers(0, 3), inner
            ),
            st.tuples(st.just("branch"), places, st.integers(-1, 3), inner, inner),
        ),
        min_size=1,
        max_size=4,
    ),
    max_leaves=6,
)


def program(body: list[Statement], way: Plain) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> Any:
        arrays = [x, y, np.zeros(SIZE, np.int64), np.arange(SIZE), np.array([3, 0, 5, -2])]
        run(body, arrays, way, [])
        return arrays[2:]

    return f


def outcome(f: Callable[..., Any], plain: bool = False) -> list[Any]:
    """What a call returns or that it fails, and what its arguments are then."""
    x, y = np.array([2, 1, 0, 4]), np.array([1, 7, -1, 2])
    try:
        return [np.asarray(r).tolist() for r in (*f(x, y), x, y)]
    except IndexError:
        if not plain:
            assert [x.tolist(), y.tolist()] == [[2, 1, 0, 4], [1, 7, -1, 2]]
        return ["failed"]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=statements)
def test_as_python_does(backend: str, body: list[Statement]):
    want = outcome(program(body, Plain()), True)
    f = tj.jit(program(body, Traced()), backend=backend)
    try:
        assert outcome(f) == want
    except ConcretizationError:
        assume(False)
    assert outcome(f) == want
