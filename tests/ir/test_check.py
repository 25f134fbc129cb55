"""The verifiers: what they refuse, with which words, and what they let pass."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import attrs
import pytest
from attrs import frozen

from tracejit.ir import kernel as k
from tracejit.ir.check import check_jaxpr, check_kernel
from tracejit.ir.extents import Dim
from tracejit.ir.jaxpr import Equation, Jaxpr, Literal, Var
from tracejit.ir.primitive import Primitive
from tracejit.ir.text import parse_kernel
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import InternalError, ShapeError, VerifyError
from tracejit.support.source import user_location

F32 = ShapedArray((3,), "f4")


# Without `name`, so that they stay out of the registry.
@frozen
class Plus(Primitive):
    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        x, y = avals
        if x.shape and y.shape and len(x.shape) != len(y.shape):
            raise ShapeError("shapes do not fit")
        return x


@frozen
class Split(Primitive):
    multiple_results: ClassVar[bool] = True
    body: Any = None

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return (avals[0], avals[0])


def refused(jaxpr: Jaxpr) -> str:
    with pytest.raises(VerifyError) as caught:
        check_jaxpr(jaxpr)
    return str(caught.value)


def plus(x: Any, y: Any, out: ShapedArray = F32) -> Equation:
    return Equation(Plus(), (x, y), (Var(out),))


def test_a_sound_jaxpr_passes():
    x, one = Var(F32), Literal(1.0, ShapedArray((), "f4"))
    a = plus(x, one)
    b = Equation(Split(), (a.outputs[0],), (Var(F32), Var(F32)))
    check_jaxpr(Jaxpr([x], [a, b], [b.outputs[1], one]))


def test_symbolic_extents_are_compared_as_they_stand():
    n = Dim.symbol("n0")
    x = Var(ShapedArray((n, 2 * n), "f4"))
    good = plus(x, x, ShapedArray((n, 2 * n), "f4"))
    check_jaxpr(Jaxpr([x], [good], [good.outputs[0]]))
    bad = plus(x, x, ShapedArray((n, n + 1), "f4"))
    assert "result 0 is f32[n0,2*n0], the equation says f32[n0,n0+1]" in refused(Jaxpr([x], [bad], [bad.outputs[0]]))


def test_weak_types_are_free():
    x = Var(ShapedArray((), "f4", weak=True))
    eqn = plus(x, x, ShapedArray((), "f4"))
    check_jaxpr(Jaxpr([x], [eqn], [eqn.outputs[0]]))


def test_a_variable_is_defined_before_it_is_used():
    x, y = Var(F32), Var(F32)
    eqn = plus(x, y)
    assert "operand 1 of type f32[3] is used before it is defined" in refused(Jaxpr([x], [eqn], [eqn.outputs[0]]))
    assert "operand 0 of type f32[3] is used before it is defined" in refused(Jaxpr([x], [], [y]))


def test_a_variable_is_defined_once():
    x = Var(F32)
    eqn = plus(x, x)
    again = attrs.evolve(eqn, inputs=(x, x))
    assert "is defined twice" in refused(Jaxpr([x], [eqn, again], [x]))
    assert "is defined twice" in refused(Jaxpr([x, x], [], [x]))


def test_literals_are_scalar():
    lit = Literal(1.0, F32)
    assert "operand 0 is a literal of type f32[3]; literals are scalar" in refused(Jaxpr([], [], [lit]))


def test_results_are_those_of_the_rule():
    x = Var(F32)
    eqn = Equation(Split(), (x,), (Var(F32),))
    assert "has 2 results, the equation 1" in refused(Jaxpr([x], [eqn], [x]))
    eqn = plus(x, x, ShapedArray((3,), "f8"))
    assert "result 0 is f32[3], the equation says f64[3]" in refused(Jaxpr([x], [eqn], [x]))


def test_what_the_rule_refuses_is_refused():
    x, y = Var(F32), Var(ShapedArray((3, 3), "f4"))
    assert "does not accept its operands: ShapeError: shapes do not fit" in refused(Jaxpr([x, y], [plus(x, y)], [x]))


def test_nested_jaxprs_are_checked():
    x, y = Var(F32), Var(F32)
    inner = Jaxpr([], [], [y])
    eqn = Equation(Split(body=(1, (inner,))), (x,), (Var(F32), Var(F32)))
    assert "is used before it is defined" in refused(Jaxpr([x], [eqn], [x]))


def test_the_equation_is_underlined_and_the_users_line_shown():
    x = Var(F32)
    location = user_location()
    good = plus(x, x)
    bad = attrs.evolve(plus(x, x, ShapedArray((3,), "f8")), location=location)
    message = refused(Jaxpr([x], [good, bad], [x]))
    assert "    3 |   c: f64[3] =  a a\n      |   ^^^" in message
    assert "test_check.py" in message
    assert "location = user_location()" in message
    assert issubclass(VerifyError, InternalError)


SOUND = """
kernel sound(x: f32[n0, 512] C, y: f32[n0, 512] C out, z: f64[n0] strided out) dims(n0) {
  for %i in 0..n0 parallel {
    alloc row: f32[512] C local
    %m = for %k in 0..512 vector(16, 4) carry(%a = -inf:f32) combine(%p, %q) { %r = max %p %q; yield %r } {
      %v = load x[%i, %k]
      store row[%k] = %v
      %w = max %a %v
      yield %w
    }
    %n = while carry(%c = 0) {
      %t = lt %c n0
      test %t
    } do {
      %u = add %c 1
      %seen = select %t %u 0
      yield %seen
    }
    %b = gt %m 0.0:f32
    %e, %f = if %b {
      yield %m %n
    } else {
      yield 1.0:f32 %i
    }
    for %s in 0..512 vector(16, 1) carry(%c5 = 0.0:f32) combine(%g, %h) { %j = add %g %h; yield %j } {
      %l = load row[%s]
      %o = prefix(%c5) %l
      store y[%i, %s] = %o
      yield %o
    }
    %d: f64 = convert %e
    atomic add z[%f] %d
  }
}
"""


def test_a_sound_kernel_passes():
    kernel = parse_kernel(SOUND.replace("    for %s", "    %last = for %s"))
    check_kernel(kernel)


def kernel_refused(kernel: k.Kernel) -> str:
    with pytest.raises(VerifyError) as caught:
        check_kernel(kernel)
    return str(caught.value)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("%a = add %i 1:i32", "add: the operands are i64 and i32; they must have one dtype"),
        ("%a = div %i 2", "div is not defined on i64"),
        ("%a = shl 1.0:f32 1.0:f32", "shl is not defined on f32"),
        ("%a = not 1.0:f32", "not is not defined on f32"),
        ("%a = add True False", "add is not defined on bool"),
        ("%a = select %i 1 2", "select: the condition is i64, not bool"),
        ("%a = select True 1 2.0:f32", "select: the operands are i64 and f32"),
        ("%a: f32 = add %i 1", "add: the result is f32, it must be i64"),
        ("%a: f32 = bitcast %i", "bitcast from i64 to f32: the sizes differ"),
        ("%a = load x[%i]", "buffer x of rank 2 is indexed by 1 operands"),
        ("%a = load x[%i, 1:i32]", "x: index 1 is i32, not i64"),
        ("%a: f64 = load x[%i, 0]", "load from x: the result is f64, the buffer f32"),
        ("store x[%i, 0] = 1.0:f32", "buffer x is written but is not an output"),
        ("store y[%i] = 1.0:f64", "store to y: the value is f64, not f32"),
        ("atomic lt y[%i] 1.0:f32", "'lt' is not an operation that can be atomic"),
        ("atomic xor y[%i] 1.0:f32", "xor is not defined on f32"),
        ("alloc t: f32[2] strided local", "is allocated with layout strided; allocations are C"),
        ("alloc t: f32[n7] C local", "extent n7 uses n7, which the kernel does not declare in dims"),
        ("%a = add %i n1", "extent n1 uses n1, which the kernel does not declare in dims"),
        ("%a = add 1:u8 300:u8", "is the constant 300, which is no u8"),
        ("for %k in 0:i32..3 {\n}", "the lower bound is i32, not i64"),
        ("for %k in 0..3 step 0 {\n}", "the step is 0, not a positive integer"),
        ("for %k in 0..3 diagonal {\n}", "there is no axis kind 'diagonal'"),
        ("for %k in 0..3 lane {\n}", "there is no axis kind 'lane'; kinds are block, grid, parallel, serial, unroll,"),
        ("for %k in 0..3 vector(0, 1) {\n}", "axis vector has width 0 and factor 1"),
        (
            "%a = for %k in 0..3 vector(8, 1) carry(%c = 0) {\nyield %c\n}",
            "a recurrence (carried values without combine) runs in order",
        ),
        ("%a = for %k in 0..3 parallel carry(%c = 0) {\nyield %c\n}", "its axis may not be parallel"),
        (
            "for %k in 0..3 vector(8, 1) {\nfor %l in 0..3 parallel {\n}\n}",
            "a parallel axis may not lie inside a vector axis",
        ),
        ("%a = for %k in 0..3 carry(%c = 0) {\n}", "1 carried values have 1 initial values, 0 yields and 1 results"),
        ("%a = for %k in 0..3 carry(%c = 0) {\nyield 1.0:f32\n}", "carried value 0 is i64, its yield f32"),
        (
            "%a = for %k in 0..3 carry(%c = 0) combine(%p) { yield %p } {\nyield %c\n}",
            "combine takes i64; the carried values twice are",
        ),
        (
            "%a = for %k in 0..3 carry(%c = 0) combine(%p, %q) { yield } {\nyield %c\n}",
            "combine gives nothing; the carried values are i64",
        ),
        (
            "%a = for %k in 0..3 carry(%c = 0) combine(%p, %q) { yield %i } {\nyield %c\n}",
            "result of combine 0 is defined in a block that",
        ),
        ("for %k in 0..3 combine() { yield } {\n}", "combine without carried values"),
        ("%a = while carry(%c = 0) {\ntest %c\n} do {\nyield %c\n}", "the test of a while is i64, not bool"),
        ("%a = while carry(%c = 0) {\ntest True\n} do {\n}", "1 carried values have 1 initial values, 0 yields"),
        ("%a = if True {\nyield 1\n} else {\nyield 1.0:f32\n}", "result 0 of the if is i64, where false it yields f32"),
        ("%a = if True {\nyield 1\n}", "the if has 1 results, yields 1 where true and 0 where false"),
        ("if %i {\n}", "the condition is i64, not bool"),
        ("%a: i64 = read 0[%i]", "Read is not a statement of a kernel"),
        (
            "%a = for %k in 0..3 carry(%c = 0) {\n%d = prefix(%c) %k\nyield %d\n}",
            "a prefix stands directly in the body of a",
        ),
        (
            "%a = for %k in 0..3 carry(%c = 0) combine(%p, %q) { yield %q } {\n%d = prefix(%c) %k\nyield %k\n}",
            "the loop yields its results",
        ),
        (
            "%a = for %k in 0..3 carry(%c = 0) combine(%p, %q) { alloc t: f32[] C local; yield %q } {\nyield %k\n}",
            "works on scalars only",
        ),
    ],
)
def test_what_is_unsound_is_refused_with_its_statement(lines: str, what: str):
    text = f"kernel t(x: f32[n0, 3] C, y: f32[n0] C out) dims(n0) {{\nfor %i in 0..n0 {{\n{lines}\n}}\n}}"
    message = kernel_refused(parse_kernel(text))
    assert what in message
    assert "^^^" in message


def statement(*body: Any, outputs: frozenset[str] = frozenset({"y"})) -> k.Kernel:
    return k.Kernel("t", (Y,), outputs, body)


Y = k.Buffer("y", "i64", (4,))


def test_a_value_is_defined_before_use_once_and_in_an_enclosing_block():
    a, zero = k.Value("i64"), k.index_const(0)
    define = k.Op(a, "add", (zero, k.index_const(1)))
    use = k.Store(Y, (zero,), a)
    check_kernel(statement(define, use))
    assert "the value is not defined before" in kernel_refused(statement(use, define))
    assert "a value is defined twice" in kernel_refused(statement(define, define))
    inner = k.For(k.Value("i64"), zero, k.index_const(3), (define,))
    assert "defined in a block that does not enclose this one" in kernel_refused(statement(inner, use))
    index = k.Value("i64")
    assert "defined in a block" in kernel_refused(
        statement(k.For(index, zero, k.index_const(3), ()), k.Store(Y, (zero,), index))
    )


def test_buffers_are_declared_and_outputs_are_parameters():
    zero = k.index_const(0)
    stray = k.Buffer("s", "i64", (1,))
    assert "buffer s is neither a parameter nor allocated here" in kernel_refused(
        statement(k.Store(stray, (zero,), zero))
    )
    inner = k.For(k.Value("i64"), zero, k.index_const(3), (k.Alloc(stray),))
    assert "neither a parameter nor allocated here" in kernel_refused(statement(inner, k.Store(stray, (zero,), zero)))
    assert "outputs ['z'] are not parameters" in kernel_refused(statement(outputs=frozenset({"z"})))
    assert "two parameters have one name" in kernel_refused(
        k.Kernel("t", (Y, k.Buffer("y", "f32", ())), frozenset(), ())
    )


def test_an_error_in_a_combiner_marks_its_loop():
    text = (
        "kernel t() {\n%m = for %k in 0..3 carry(%a = True) combine(%p, %q) { %r = mul %p %q; yield %r } {\nyield "
        "%a\n}\n}"
    )
    message = kernel_refused(parse_kernel(text))
    assert "mul is not defined on bool\n    1 | kernel t() {\n    2 |   %3 = for %i0 in 0..3 carry" in message
    assert "      |   ^^^" in message


def test_one_combiner_may_serve_several_loops():
    kernel = parse_kernel(
        "kernel t(y: i64[4] C out) {\n%a = for %k in 0..3 carry(%c = 0) combine(%p, %q) { %r = add %p %q; yield %r } "
        "{\nyield %k\n}\n"
        "%b = for %k in 0..3 carry(%c = 0) combine(%p, %q) { %r = add %p %q; yield %r } {\nyield %k\n}\n}"
    )
    first, second = kernel.body
    check_kernel(kernel.with_body((first, attrs.evolve(second, combine=first.combine))))


def test_the_users_line_is_shown():
    location = user_location()
    a = k.Value("i64")
    message = kernel_refused(statement(k.Op(a, "add", (k.index_const(0), k.Const(1, "i32")), location)))
    assert "location = user_location()" in message
    assert "    2 |   %0: i64 = add 0 1:i32\n      |   ^^^^^^^^^^^^^^^^^^^^^\n" in message


def test_verification_is_linear():
    def seconds(n: int) -> float:
        value, body = k.Value("i64"), []
        body.append(k.Op(value, "add", (k.index_const(1), k.index_const(2))))
        for _ in range(n):
            value, last = k.Value("i64"), value
            body.append(k.Op(value, "add", (last, last)))
        kernel = statement(*body)
        start = time.process_time()
        check_kernel(kernel)
        return time.process_time() - start

    small, large = min(seconds(1000) for _ in range(3)), min(seconds(20_000) for _ in range(2))
    assert large < 150 * small
