"""Kernels and forms as text."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from tracejit.ir import kernel as k
from tracejit.ir.extents import Dim
from tracejit.ir.forms import FormBuilder, Map, Operand, Piece, Piecewise
from tracejit.ir.text import ParseError, parse_kernel, print_form, print_kernel, show_statement
from tracejit.ir.types import ShapedArray

SOFTMAX = """
kernel softmax(x: f32[n0, 512] C, y: f32[n0, 512] C out) dims(n0) {
  for %i0 in 0..n0 parallel {
    alloc row: f32[512] C local
    %4 = for %i1 in 0..512 vector(16, 4) carry(%c0 = -inf:f32) combine(%0, %1) { %2 = max %0 %1; yield %2 } {
      %3 = load x[%i0, %i1]
      store row[%i1] = %3
      %5 = max %c0 %3
      yield %5
    }
  }
}
"""

EVERYTHING = """
kernel all(x: f32[n0, 2*n0+1] strided, u: u8[] unit align 64, y: f64[n0] C out, z: i32[3] C out) dims(n0, n1)\
 product(f32, 1, n0, 2*n1+1, 64, k, x computed, 3) {
  alloc shared_row: f64[16] C shared align 32
  alloc lone: bool[] C local
  for %i0 in 0..n0 grid(256, 2) {
    for %i1 in %i0..(2*n0+1) step 2 {
      %0 = load x[%i0, %i1]
      %1: f64 = convert %0
      %2 = load u[]
      %3 = lt %1 -0.5:f64
      %4: u32 = bitcast %0
      %5 = add %4 7:u32
      %6, %7 = if %3 {
        yield %1 5
      } else {
        %8 = neg %1
        yield %8 n0
      }
      if %3 {
        atomic add y[%i0] %6
      }
      if %3 {
      } else {
        barrier
      }
      %9, %10 = while carry(%c0 = %6, %c1 = 0) unroll(4) {
        %11 = lt %c1 (n0-1)
        test %11
      } do {
        %12 = add %c1 1
        yield %c0 %12
      }
      %13 = for %i2 in -3..-1 unroll(1, 4) carry(%c2 = nan:f64) {
        %14 = add %c2 (mod(n0, 3)):f64
        yield %14
      }
      store shared_row[0] = %13
      store lone[] = True
    }
  }
  for %i4 in 0..4 vector(4, 1) carry(%c5 = 0.0:f64) combine(%p, %q) { %s = add %p %q; yield %s } {
    %y = load y[%i4]
    %f = prefix(%c5) %y
    yield %f
  }
  %15, %16 = for %i3 in 0..8 block carry(%c3 = -inf:f32, %c4 = 0) combine(%17, %18, %19, %20) {
    %21 = gt %19 %17
    %22 = if %21 {
      yield %20
    } else {
      yield %18
    }
    %23 = max %17 %19
    yield %23 %22
  } {
    yield 1.0:f32 %i3
  }
}
"""


def normal(text: str) -> str:
    """The text with values numbered as the printer numbers them."""
    return print_kernel(parse_kernel(text))


@pytest.mark.parametrize("text", [SOFTMAX, EVERYTHING], ids=["softmax", "everything"])
def test_printed_kernel_parses_back_to_the_same_text(text: str):
    printed = normal(text)
    assert normal(printed) == printed
    strip = [" ".join(w for w in line.split() if "%" not in w) for line in text.strip().split("\n")]
    assert [" ".join(w for w in line.split() if "%" not in w) for line in printed.split("\n")] == strip


def test_values_are_numbered_in_order_of_definition_results_after_the_loop_body():
    assert normal(SOFTMAX) == textwrap.dedent(
        """\
        kernel softmax(x: f32[n0, 512] C, y: f32[n0, 512] C out) dims(n0) {
          for %i0 in 0..n0 parallel {
            alloc row: f32[512] C local
            %5 = for %i1 in 0..512 vector(16, 4) carry(%c0 = -inf:f32) combine(%0, %1) { %2 = max %0 %1; yield %2 } {
              %3 = load x[%i0, %i1]
              store row[%i1] = %3
              %4 = max %c0 %3
              yield %4
            }
          }
        }"""
    )


def test_every_field_survives():
    kernel = parse_kernel(EVERYTHING)
    assert kernel.outputs == {"y", "z"}
    assert kernel.dims == ("n0", "n1")
    n0, n1 = Dim.symbol("n0"), Dim.symbol("n1")
    assert kernel.product == k.MatrixProduct(
        "f32", 1, n0, 2 * n1 + 1, 64, k.Factor("k"), k.Factor("x", computed=True), 3
    )
    x, u, y, _ = kernel.buffers
    assert (x.layout, u.layout, u.alignment, y.space, x.shape[1]) == (
        "strided",
        "unit",
        64,
        "global",
        2 * Dim.symbol("n0") + 1,
    )
    found = list(k.walk(kernel.body))
    loops = [s for s in found if isinstance(s, k.For)]
    assert [s.axis for s in loops] == [
        k.Axis("grid", 256, 2),
        k.Axis(),
        k.Axis("unroll", 1, 4),
        k.Axis("vector", 4),
        k.Axis("block"),
    ]
    assert loops[1].step == 2
    assert [r.dtype for r in loops[-1].results] == ["f32", "i64"]
    assert next(s for s in found if isinstance(s, k.While)).unroll == 4
    ops = {s.op: s for s in found if isinstance(s, k.Op)}
    assert (ops["convert"].out.dtype, ops["bitcast"].out.dtype, ops["lt"].out.dtype) == ("f64", "u32", "bool")
    prefix = next(s for s in found if isinstance(s, k.Prefix))
    assert (prefix.params, prefix.outs) == (loops[3].params, loops[3].yields)
    allocs = [s.buffer for s in found if isinstance(s, k.Alloc)]
    assert [(b.name, b.space, b.alignment) for b in allocs] == [("shared_row", "shared", 32), ("lone", "local", 0)]


def test_constants_are_equal_when_they_are_the_same_bits():
    assert k.Const(0.0, "f64") != k.Const(-0.0, "f64")
    assert k.Const(float("nan"), "f64") == k.Const(float("nan"), "f64")
    assert k.Const(0, "i64") != k.Const(0, "i32")
    assert len({k.Const(0.0, "f64"), k.Const(-0.0, "f64"), k.Const(0.0, "f64"), k.Const(0.0, "f32")}) == 3


@pytest.mark.parametrize(
    ("operand", "printed"),
    [
        (k.Const(0.1, "f64"), "0.1:f64"), (k.Const(2, "f32"), "2.0:f32"), (k.Const(float("-inf"), "f16"), "-inf:f16"),
        (k.Const(np.copysign(np.nan, -1), "f32"), "-nan:f32"), (k.Const(-0.0, "f32"), "-0.0:f32"),
        (k.Const(np.True_, "bool"), "True"), (k.Const(np.int64(-5), "i64"), "-5"),
        (k.Const(2**64 - 1, "u64"), "18446744073709551615:u64"), (k.Const(Dim.symbol("n0"), "i64"), "n0"),
        (k.index_const(Dim.symbol("n0") + 1), "(n0+1)"),
        (k.Const(Dim.symbol("n0") // 2, "i32"), "(floordiv(n0, 2)):i32"),
    ],
)  # fmt: skip
def test_constants_print_and_come_back(operand: k.Const, printed: str):
    kernel = k.Kernel(
        "c",
        (b := k.Buffer("y", operand.dtype, (1,)),),
        frozenset({"y"}),
        (k.Store(b, (k.index_const(0),), operand),),
        ("n0",),
    )
    assert print_kernel(kernel).split("\n")[1] == f"  store y[0] = {printed}"
    again = parse_kernel(print_kernel(kernel))
    assert print_kernel(again) == print_kernel(kernel)
    assert again.body[0].value.dtype == operand.dtype


def test_two_buffers_of_one_name_print_apart():
    blocks = [
        k.For(k.Value("i64"), k.index_const(0), k.index_const(2), (k.Alloc(k.Buffer("t", "f32", (2,), space="local")),))
        for _ in range(2)
    ]
    text = print_kernel(k.Kernel("twice", (), frozenset(), tuple(blocks)))
    assert "alloc t: " in text
    assert "alloc t_1: " in text
    assert normal(text) == text


def test_extents_stated_as_constants_print_as_their_values():
    y = k.Buffer("y", "f32", (k.index_const(3), k.index_const(Dim.symbol("n0") + 1)))
    text = print_kernel(k.Kernel("t", (y,), frozenset(), (), ("n0",)))
    assert text == "kernel t(y: f32[3, n0+1] C) dims(n0) {\n}"
    assert normal(text) == text


def test_a_block_of_many_statements_needs_no_recursion():
    value, body = k.Value("f32"), []
    y = k.Buffer("y", "f32", (1,))
    body.append(k.Op(value, "neg", (k.Const(1.0, "f32"),)))
    for _ in range(20_000):
        value, last = k.Value("f32"), value
        body.append(k.Op(value, "add", (last, last)))
    body.append(k.Store(y, (k.index_const(0),), value))
    text = print_kernel(k.Kernel("long", (y,), frozenset({"y"}), tuple(body)))
    assert normal(text) == text


def test_statement_is_shown_underlined_in_context():
    kernel = parse_kernel(SOFTMAX)
    store = next(s for s in k.walk(kernel.body) if isinstance(s, k.Store))
    assert show_statement(kernel, store, context=1) == (
        "    5 |       %3 = load x[%i0, %i1]\n"
        "    6 |       store row[%i1] = %3\n"
        "      |       ^^^^^^^^^^^^^^^^^^^\n"
        "    7 |       %4 = max %c0 %3"
    )


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("%0 = frobnicate %i", "there is no scalar operation 'frobnicate'"),
        ("%0 = add %9 1", "%9 is not defined here"),
        ("%0 = load w[%i]", "buffer w is not declared here"),
        ("%0 = convert %i", "the dtype of %0 must be stated: %0: f32"),
        ("%0 = add 1.5 2.5", "1.5 is not a value of i64; constants that are not i64 state their dtype"),
        ("store x[%i] = 1.0:f33", "'f33' is not a dtype"),
        ("%0 = add %i 1 store", "add takes 2 operands, not 3"),
        ("alloc x: f32[1] C", "buffer x is declared twice"),
        ("while { yield %i } do { }", "ends with `test` and one operand"),
        ("frob x", "there is no statement 'frob'"),
        ("%0 = barrier", "'barrier' has not 1 results"),
        ("%0 = add n0+1 2", "expected an operand, found '+'"),
        ("%0 = add (n0/2) 2", "is not an extent"),
    ],
)
def test_kernel_parse_errors_name_the_line(line: str, what: str):
    text = f"kernel t(x: f32[n0] C) dims(n0) {{\n  for %i in 0..n0 {{\n    {line}\n  }}\n}}"
    with pytest.raises(ParseError) as caught:
        parse_kernel(text)
    assert caught.value.line == 3
    assert what in str(caught.value)


def test_a_value_is_not_known_outside_its_block():
    text = "kernel t(y: i64[1] C out) {\n  for %i in 0..2 {\n    %0 = add %i 1\n  }\n  store y[0] = %0\n}"
    with pytest.raises(ParseError, match="%0 is not defined here") as caught:
        parse_kernel(text)
    assert caught.value.line == 5


def test_form_prints_its_domain_and_functions():
    aval = ShapedArray((Dim.symbol("n0"), 3), "f4")
    b = FormBuilder([aval])
    x = Operand(b.recorder, 0, aval)
    form = b.reduce(
        (Dim.symbol("n0"),),
        (3,),
        lambda i, j: (x[i[0], j[0]],),
        (b.const(0.0, "f32"),),
        lambda r, acc, new: (r.op("add", acc[0], new[0]),),
    )
    assert print_form(form) == textwrap.dedent(
        """\
        reduce domain=(n0,) over=(3,) init=(0.0:f32,)
          body(%0: i64, %1: i64) {
            %2: f32 = read 0[%0, %1]
            yield %2
          }
          combine(%3: f32, %4: f32) { %5 = add %3 %4; yield %5 }"""
    )


def test_piecewise_form_prints_every_piece():
    aval = ShapedArray((4,), "f4")
    b = FormBuilder([aval])
    x = Operand(b.recorder, 0, aval)
    body = b.body(1, lambda i: x[i[0]])
    text = print_form(Piecewise((4,), (Piece((0,), (2,), body), Piece((2,), (4,), body))))
    assert text.split("\n")[:2] == ["piecewise domain=(4,)", "  piece lower=(0,) upper=(2,)"]
    assert text.count("read 0[%0]") == 2
    assert print_form(Map((4,), body)).startswith("map domain=(4,)\n  body(%0: i64) {")
