"""What exceptions that the program raises carry, and in which order errors come."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import loaded


class Coded(ValueError):
    def __init__(self, code):
        super().__init__("no convergence")
        self.code = code


def test_exceptions_of_one_line_have_what_they_carry():
    def coded(x):
        for k in range(3):
            if x[k] > 0:
                raise Coded(k)
        return x

    def alike(x):
        for k in ((1, 2), "(1, 2)"):
            if x[len(k) % 2] > 0:
                raise ValueError(k)
        return x

    compiled, plain = tj.jit(coded), tj.jit(alike)
    for k in range(3):
        with pytest.raises(Coded) as caught:
            compiled(np.eye(3)[k])
        assert caught.value.code == k
    for k, want in enumerate([(1, 2), (1, 2)]):
        with pytest.raises(ValueError, match="1, 2") as error:
            plain(np.eye(2)[k]) if k == 0 else plain(np.ones(2))
        assert error.value.args == (want,)


class Machine:
    closed = False

    def run(self, x):
        if self.closed:
            raise RuntimeError("closed", len(x), x.shape)
        return x.sum()


def test_exceptions_carry_numbers_and_no_extents():
    machine = Machine()
    compiled = tj.jit(machine.run)
    for n in (3, 4, 5):
        assert compiled(np.ones(n)) == n
    machine.closed = True
    for n in (6, 7, 3):
        with pytest.raises(RuntimeError) as caught:
            compiled(np.ones(n))
        assert caught.value.args == ("closed", n, (n,))

    asserted = loaded(ASSERTED)["asserted"]
    checked = tj.jit(asserted)
    assert checked(np.ones(3)) == 3
    with pytest.raises(AssertionError, match="Tracer<"):
        checked(-np.ones(3))
    with pytest.raises(ValueError, match=r"only Tracer<.*> points of 4"):
        checked(np.array([1.0, 2.0, -1.0, -1.0]))


ASSERTED = """
def asserted(x):
    n = len(x[x > 0])
    assert n > 1, n
    if n < 3:
        raise ValueError(f"only {n} points of {len(x)}")
    return x.sum()
"""


def by_shapes(x):
    if x[0] > 1:
        raise KeyError("neg")
    return x @ np.ones(7)


def by_ranks(x):
    for v in x:
        if v > 1:
            raise RuntimeError("big")
    return np.concatenate([x, np.ones((2, 2))])


def by_an_index(x):
    if x[0] > 1:
        raise KeyError("neg")
    return x[100]


def by_a_name(x):
    if x[0] > 1:
        raise KeyError("neg")
    return undefined_name  # noqa: F821


def by_a_branch(x):
    if x[0] > 1:
        y = 1
    else:
        raise KeyError("neg")
    return y + x @ np.ones(7)


@pytest.mark.parametrize("f", [by_shapes, by_ranks, by_an_index, by_a_name, by_a_branch])
def test_errors_of_numpys_come_behind_those_that_data_decide(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for x in ([1.5, 0.2, 3.0], [0.5, 0.2, 0.3], [1.5, 0.1, 0.1, 0.1], [0.5, 0.2, 0.3, 0.4]):
        with pytest.raises(Exception) as want:  # noqa: PT011
            f(np.array(x))
        with pytest.raises(type(want.value)):
            compiled(np.array(x))


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    msg: str


class Holding(Exception):
    def __init__(self, text: str, have: Any = None) -> None:
        super().__init__(text)
        self.have = have


def test_exceptions_of_frozen_classes():
    def f(x: Any) -> Any:
        if x[0] > 2:
            raise Frozen(f"bad {x[0]:.2f}")
        return x

    compiled: Any = tj.jit(f)
    assert np.array_equal(compiled(np.ones(2)), np.ones(2))
    for _ in range(2):
        with pytest.raises(Frozen):
            compiled(np.full(2, 3.0))


def test_counts_in_containers_that_exceptions_carry():
    def f(x: Any) -> Any:
        s = x[x > 0]
        raise Holding("few", {"n": len(s), "all": [len(s), (1, len(s))]})

    def listed(x: Any) -> Any:
        s = x[x > 0]
        raise ValueError([len(s), 2])

    with pytest.raises(Holding) as held:
        tj.jit(f)(np.arange(4.0))
    with pytest.raises(ValueError, match="Tracer") as error:
        tj.jit(listed)(np.arange(4.0))
    assert type(held.value.have["n"]) is type(held.value.have["all"][1][1]) is type(error.value.args[0][0]) is str
