"""Index expressions as sums."""

from __future__ import annotations

from tracejit.ir.kernel import Const, Op, Operand, Value
from tracejit.ir.passes.independence import linear


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
