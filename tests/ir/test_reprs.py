"""What the nodes of every IR show of themselves: never an address."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.compiler.lowered import Lowered
from tracejit.ir.forms import FormBuilder, Operand
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.types import ShapedArray
from tracejit.support.source import user_location


def program() -> Lowered:
    def f(x, n):
        y = tj.lax.fori_loop(0, n, lambda i, y: np.sin(y) + x[i], x)
        return np.where(y > 0, y, -y).sum(axis=0) @ np.ones(4), np.cumsum(y, axis=1)

    return tj.jit(f, backend="reference").lower(np.ones((3, 4)), 2)


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    return program()


@pytest.mark.parametrize("what", ["jaxpr", "forms", "groups", "refusals", "kernels", "program"])
def test_nodes_show_what_they_are(what: str, lowered: Lowered):
    found = getattr(lowered, what) if hasattr(lowered, what) else getattr(lowered.log, what)
    text = repr(found)
    assert " at 0x" not in text
    assert what in ("groups", "refusals", "program", "kernels") or "Location(test_reprs.py:" in text


def test_a_location_is_a_line_and_a_function():
    location = user_location()
    assert repr(location) == f"Location({location} in test_a_location_is_a_line_and_a_function)"


def test_a_jaxpr_shows_the_same_before_and_after_it_is_printed():
    jaxpr = Jaxpr([], [], [])
    assert repr(jaxpr) == "Jaxpr(inputs=(), equations=(), outputs=())"
    str(jaxpr)
    assert repr(jaxpr) == "Jaxpr(inputs=(), equations=(), outputs=())"


def test_an_operand_of_a_rule_shows_its_number_and_type():
    aval = ShapedArray((2, 3), "f4")
    assert repr(Operand(FormBuilder([aval]).recorder, 1, aval)) == "Operand(1: f32[2,3])"
