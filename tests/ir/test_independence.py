"""Index expressions as sums."""

from __future__ import annotations

import pytest

from tracejit.ir.kernel import Const, For, Op, Operand, Value, walk
from tracejit.ir.passes.independence import independent, linear
from tracejit.ir.text import parse_kernel


def test_a_long_chain_that_reads_each_value_twice_is_summed_in_no_time():
    i = Value("i64")
    defined: dict[Value, Op] = {}
    last: Operand = i
    for n in range(3000):
        out = Value("i64")
        defined[out] = Op(out, "add", (last, Const(1, "i64") if n % 50 else last))
        last = out
    assert isinstance(last, Value)
    assert linear(last, dict(defined))[i] == 2**60


def test_what_is_no_sum_stands_for_itself():
    i, j, product, double = (Value("i64") for _ in range(4))
    defined = {product: Op(product, "mul", (i, j)), double: Op(double, "mul", (Const(2, "i64"), product))}
    assert linear(double, dict(defined)) == {product: 2}
    assert linear(i, {}) == {i: 1}
    assert linear(Const(7, "i64"), {}) == {None: 7}


def loops(place: str, i: int = 8, j: int = 2) -> list[For]:
    """The loops over i and j of a kernel that stores at two places, `place` and one that is so much further."""
    at, further = place.split("; ")
    text = f"""kernel k(out: f64[64] C out) {{
  for %i in 0..{i} {{
    for %j in 0..{j} {{
      %a = mul %i {at}
      %b = add %a %j
      %c = add %b {further}
      store out[%b] = 1.0:f64
      store out[%c] = 2.0:f64
    }}
  }}
}}"""
    return [s for s in walk(parse_kernel(text).body) if isinstance(s, For)]


@pytest.mark.parametrize(
    ("place", "apart"),
    [
        ("8; 2", True),
        ("2; 16", True),
        ("4; 2", True),
        ("3; 2", False),
        ("8; 1", False),
        ("1; 8", False),
        ("2; 4", False),
    ],
)
def test_places_that_are_digits_of_a_number_are_apart(place: str, apart: bool):
    step, further = map(int, place.split("; "))
    stored = [(i, step * i + j + c) for i in range(8) for j in range(2) for c in (0, further)]
    truth = len({p for _, p in stored}) == len(stored)
    outer, inner = loops(place)
    assert independent(outer, outer.index) == apart
    assert truth or not apart
    assert independent(inner, inner.index) == (further >= 2)
