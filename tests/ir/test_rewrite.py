"""Copies and replacements of statements, for every statement there is, and for one more that nothing else knows of."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.ir.test_kernel_text import EVERYTHING
from tracejit.ir import kernel as k
from tracejit.ir.check import check_kernel
from tracejit.ir.kernel import Block, Buffer, Operand, Value
from tracejit.ir.rewrite import fresh_copy, fresh_lambda, inline, map_blocks, replace_buffers, substitute
from tracejit.ir.text import parse_kernel, print_kernel
from tracejit.support.errors import VerifyError


def values_of(body: Block) -> list[Value]:
    """All that a block and what is nested in it defines."""
    return [v for s in k.walk(body) for v in (*k.results_of(s), *k.bound_in(s))]


def test_the_text_has_every_statement_of_a_kernel():
    assert {type(s) for s in k.walk(parse_kernel(EVERYTHING).body)} == set(k.STATEMENTS) - {k.Read}


def test_a_fresh_copy_reads_the_same_and_shares_no_value():
    kernel = parse_kernel(EVERYTHING)
    copied = kernel.with_body(fresh_copy(kernel.body, {}))
    assert print_kernel(copied) == print_kernel(kernel)
    assert not set(values_of(copied.body)) & set(values_of(kernel.body))
    for s in k.walk(copied.body):
        assert not set(k.operands_of(s)) & set(values_of(kernel.body))


def test_both_a_block_and_its_copy_may_stand_in_one_kernel():
    kernel = parse_kernel(
        """kernel twice(y: f32[n] C out) dims(n) {
          for %i in 0..n { atomic add y[%i] 1.0:f32; barrier }
        }"""
    )
    check_kernel(kernel.with_body((*kernel.body, *fresh_copy(kernel.body, {}))))


@pytest.mark.parametrize("statement", ["atomic add y[%i] %a", "store y[%i] = %a", "%b = add %a %a; store y[%i] = %b"])
def test_substitution_reaches_operands_of_every_kind(statement: str):
    kernel = parse_kernel(f"kernel f(y: f32[n] C out) dims(n) {{ for %i in 0..n {{ %a = load y[%i]; {statement} }} }}")
    (loop,) = kernel.body
    assert isinstance(loop, k.For)
    load, *rest = loop.body
    (old,) = k.results_of(load)
    new = Value("f32")
    made = [substitute(s, {old: new}) for s in rest]
    assert not any(old in k.operands_of(s) for s in made)
    assert any(new in k.operands_of(s) for s in made)
    assert [k.results_of(s) for s in made] == [k.results_of(s) for s in rest]


def test_what_no_rewrite_changes_stays_itself():
    kernel = parse_kernel(EVERYTHING)
    assert all(map_blocks(s, lambda block: block) is s for s in kernel.body)


def test_a_function_is_inlined_with_values_of_its_own():
    loop = next(s for s in k.walk(parse_kernel(EVERYTHING).body) if isinstance(s, k.For) and s.combine)
    assert loop.combine is not None
    args = [Value(p.dtype) for p in loop.combine.params]
    body, results = inline(loop.combine, args)
    assert not set(values_of(body)) & set(values_of(loop.combine.body))
    assert len(results) == len(loop.combine.results)
    other = fresh_lambda(loop.combine)
    assert not set(other.params) & set(loop.combine.params)


def test_buffers_are_replaced_in_nested_statements_and_their_allocations_dropped():
    kernel = parse_kernel(
        """kernel f(x: f32[n] C, y: f32[n] C out) dims(n) {
          alloc t: f32[n] C local
          for %i in 0..n { %a = load x[%i]; store t[%i] = %a; atomic add t[%i] %a; %b = load t[%i]; store y[%i] = %b }
        }"""
    )
    (alloc, _) = kernel.body
    assert isinstance(alloc, k.Alloc)
    wide = Buffer("w", "f32", (2, *alloc.buffer.shape))
    one = k.index_const(1)
    found = list(k.walk(replace_buffers(kernel.body, {alloc.buffer: wide}, (one,))))
    assert not any(isinstance(s, k.Alloc) for s in found)
    touched = [s for s in found if isinstance(s, k.Load | k.Store | k.Atomic) and s.buffer is wide]
    assert len(touched) == 3
    assert all(s.index[0] is one for s in touched)


@k.statement
class Swap:
    """`out` is the element that `value` replaces: a statement that only this test knows."""

    syntax: ClassVar = "swap {buffer}[{index}] by {value} {order} {times}"
    like: ClassVar = "buffer"

    out: Value = k.defined()
    buffer: Buffer
    index: tuple[Operand, ...] = k.used()
    value: Operand = k.used()
    order: str = "relaxed"
    times: int = 1


@pytest.fixture
def _swap():
    k.STATEMENTS.append(Swap)
    yield
    k.STATEMENTS.remove(Swap)


k.STATEMENTS.remove(Swap)  # only the tests below have it
SWAP = """kernel f(x: f32[n, 3] C out) dims(n) {
  for %i0 in 0..n {
    %0 = swap x[%i0, 2] by 1.5:f32 acquire 4
    store x[%i0, 0] = %0
  }
}"""


@pytest.mark.usefixtures("_swap")
def test_a_new_statement_is_a_class_and_nothing_else():
    kernel = parse_kernel(SWAP)
    check_kernel(kernel)
    assert print_kernel(kernel) == SWAP
    (swap,) = [s for s in k.walk(kernel.body) if isinstance(s, Swap)]
    assert (swap.order, swap.times, swap.out.dtype) == ("acquire", 4, "f32")
    assert k.operands_of(swap) == (*swap.index, swap.value)  # type: ignore[arg-type]
    copied = kernel.with_body(fresh_copy(kernel.body, {}))
    check_kernel(copied)
    assert print_kernel(copied) == SWAP
    (loop,) = kernel.body
    assert isinstance(loop, k.For)
    with pytest.raises(VerifyError, match="defined twice"):
        check_kernel(kernel.with_body((loop, loop)))
    with pytest.raises(VerifyError, match="not defined before"):
        check_kernel(kernel.with_body((substitute(loop, {loop.index: Value("i64")}),)))


def test_every_statement_but_operations_says_how_it_is_written():
    for kind in k.STATEMENTS:
        assert kind is k.Op or k.syntax_of(kind).word == kind.__name__.lower()
