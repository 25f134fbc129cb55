"""Kernels as C text: what the printer writes, and what it refuses."""

import textwrap

import pytest
from attrs import evolve

from tracejit.backends.c_like import print_kernels
from tracejit.backends.c_scalar import Intrinsics, scalar_intrinsics
from tracejit.backends.grid import bind_grid
from tracejit.backends.nest import printable
from tracejit.backends.opencl import target
from tracejit.backends.printing import Argument, Printed
from tracejit.ir.scalar import OPS
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import InternalError, UnsupportedError

FULL = target.Capabilities()


def printed(text: str, table: Intrinsics | None = None, capabilities: target.Capabilities = FULL) -> Printed:
    kernels = [(a.kernel, a.work_group) for a in bind_grid(parse_kernel(text)).launches]
    return print_kernels(kernels, target.dialect(capabilities), table or target.intrinsics(capabilities))


def kernels(text: str, capabilities: target.Capabilities = FULL) -> str:
    """The text without header and helpers."""
    source = printed(text, capabilities=capabilities).source
    return source[source.index("__kernel") :]


AXPY = """
kernel axpy(a: f32[] C, x: f32[n, 8] strided, out: f32[n, 8] C out) dims(n) {
  %a = load a[]
  for %i in 0..n { for %j in 0..8 { %x = load x[%i, %j]; %y = mul %a %x; store out[%i, %j] = %y } }
}"""


def test_a_kernel_prints_as_one_readable_function():
    head, rest = kernels(AXPY).split("\n", 1)
    assert head == (
        "__kernel void kernel_axpy(__global const float* in_0, __global const float* in_1, const long in_1_offset, "
        "const long in_1_stride0, const long in_1_stride1, __global float* out_2, const long n_n) {"
    )
    assert rest == textwrap.dedent(
        """\
          const long v1 = (long)((ulong)8L * (ulong)n_n);
          const float v2 = in_0[0];
          const long i3 = (long)get_global_id(0);
          if (i3 < v1) {
            const uint v4 = (uint)i3;
            const uint v5 = (uint)(v4 % (uint)8);
            const uint v6 = (uint)(v4 / (uint)8);
            const long v7 = (long)v5;
            const long v8 = (long)v6;
            const float v9 = *(__global const float*)((__global const char*)in_1 + in_1_offset + v8 * in_1_stride0 + v7 * in_1_stride1);
            const float v10 = v2 * v9;
            out_2[(v8) * 8L + v7] = v10;
          }
        }
        """  # noqa: E501
    )


def test_extents_are_computed_once_at_the_head():
    text = """
    kernel pool(x: f32[n, n+m] C, out: f32[floordiv(n, 2), n+m] C out) dims(n, m) {
      for %i in 0..(floordiv(n, 2)) { %v = load x[%i, 0]; store out[%i, (n+m-1)] = %v }
    }"""
    assert kernels(text).split("\n", 1)[1] == textwrap.dedent(
        """\
          const long v1 = (long)(n_n % 2L);
          const bool v2 = v1 < 0L;
          const long v3 = (long)(n_n / 2L);
          const long v4 = (long)v2;
          const long v5 = (long)((ulong)v3 - (ulong)v4);
          const long v6 = (long)((ulong)n_m + (ulong)n_n);
          const long v7 = (long)((ulong)v6 + (ulong)(-1L));
          const long i8 = (long)get_global_id(0);
          if (i8 < v5) {
            const float v9 = in_0[(i8) * v6 + 0L];
            out_1[(i8) * v6 + v7] = v9;
          }
        }
        """
    )


def test_extents_are_divided_by_extents_without_a_check():
    text = """
    kernel f(out: i64[2] C out) dims(n, m) {
      store out[0] = (mod(n, m))
      %a = load out[0]; %b = irem %a m; store out[1] = %b
    }"""
    lines = [line.strip() for line in kernels(text).split("\n")]
    assert lines[1] == "const long v1 = (long)(n_n % n_m);"
    assert "const long v6 = tj_irem_i64(v5, n_m);" in lines


def test_arguments_are_listed_in_the_order_of_the_parameters():
    (entry,) = printed(AXPY).entries
    assert entry.name == "kernel_axpy"
    assert entry.arguments == (
        Argument("buffer", "a"),
        Argument("buffer", "x"),
        Argument("offset", "x"),
        Argument("stride", "x", 0),
        Argument("stride", "x", 1),
        Argument("buffer", "out"),
        Argument("dim", "n"),
    )


def test_carries_are_variables_that_change_all_at_once():
    text = """
    kernel fib(out: i64[20] C out) {
      for %i in 0..20 {
        %a, %b = for %j in 0..%i carry(%p = 0, %q = 1) { %s = add %p %q; yield %q %s }
        %c, %d = while carry(%x = %a, %y = 3:u8) { %t = gt %x 5; test %t } do {
          %z = shr %x 1; %w = add %y 255:u8; yield %z %w
        }
        %e = eq %d 0:u8
        %o = if %e { yield %c } else { %n = neg %c; yield %n }
        store out[%i] = %o
      }
    }"""
    assert kernels(text) == textwrap.dedent(
        """\
        __kernel void kernel_fib(__global long* out_0) {
          const long i1 = (long)get_global_id(0);
          if (i1 < 20L) {
            long c2 = 0L;
            long c3 = 1L;
            for (long i4 = 0L; i4 < i1; i4 += 1L) {
              const long v5 = (long)((ulong)c2 + (ulong)c3);
              const long t6 = c3;
              c2 = t6;
              c3 = v5;
            }
            long c7 = c2;
            uchar c8 = (uchar)3;
            for (;;) {
              const bool v9 = c7 > 5L;
              if (!v9) break;
              const long v10 = (long)(c7 >> 1L);
              const uchar v11 = (uchar)((uint)c8 + (uint)(uchar)255);
              c7 = v10;
              c8 = v11;
            }
            const bool v12 = c8 == (uchar)0;
            long v13;
            if (v12) {
              v13 = c7;
            } else {
              const long v14 = (long)(0UL - (ulong)c7);
              v13 = v14;
            }
            out_0[i1] = v13;
          }
        }
        """
    )


def test_kernels_of_one_program_have_distinct_names_that_are_identifiers():
    kernel = parse_kernel("kernel exp.1(out: i64[] C out) { store out[] = 1 }")
    program = print_kernels([(kernel, 1), (kernel, 1)], target.dialect(FULL), target.intrinsics(FULL))
    assert [e.name for e in program.entries] == ["kernel_exp_1", "kernel_exp_1_1"]


def test_equal_kernels_give_equal_text():
    assert printed(AXPY).source == printed(AXPY).source


def constant(value: str) -> str:
    dtype = value.split(":")[1] if ":" in value else "bool"
    line = kernels(f"kernel f(out: {dtype}[] C out) {{ store out[] = {value} }}").split("\n")[1]
    return line.removeprefix("  out_0[0] = ").removesuffix(";")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("-9223372036854775808:i64", "(-9223372036854775807L - 1)"),
        ("18446744073709551615:u64", "18446744073709551615UL"),
        ("-2147483648:i32", "(-2147483647 - 1)"),
        ("-128:i8", "(char)(-128)"),
        ("0.1:f32", "0x1.99999ap-4f"),
        ("-0.0:f64", "(-0x0p+0)"),
        ("inf:f32", "as_float(0x7f800000u)"),
        ("nan:f64", "as_double(0x7ff8000000000000UL)"),
        ("True", "(uchar)(true)"),
        ("1e-45:f32", "0x1p-149f"),
        ("65504.0:f16", "tj_f16_store(0x1.ffcp+15f)"),
    ],
)
def test_constants_are_exact(value: str, text: str):
    assert constant(value) == text


def test_contraction_is_off_in_every_program():
    assert printed(AXPY).source.startswith("#pragma OPENCL FP_CONTRACT OFF\n")


def test_a_mathematical_function_is_written_out_once_from_its_expansion():
    text = """
    kernel f(x: f32[4] C, out: f32[4] C out) {
      for %i in 0..4 { %v = load x[%i]; %a = exp %v; %b = exp %a; %c = log %b; store out[%i] = %c }
    }"""
    source = printed(text).source
    assert source.count("static inline float tj_exp_f32(") == 1
    assert source.count("tj_exp_f32(") == 3
    assert "static inline float tj_log_f32(" in source
    assert " exp(" not in source


def test_every_mathematical_function_can_be_printed_for_every_float():
    for op, spec in OPS.items():
        for dtype in ("f16", "f32", "f64") if spec.math else ():
            args = " ".join(["%v"] * spec.arity)
            text = (
                f"kernel f(x: {dtype}[] C, out: {dtype}[] C out) {{ %v = load x[]; %y = {op} {args}; store out[] "
                "= %y }"
            )
            assert f"tj_{op}_{dtype}(" in printed(text).source


def test_the_dtypes_of_an_expansion_count_as_used():
    text = (
        "kernel f(x: f32[] C, out: f32[] C out) { %v = load x[]; %y: f64 = convert %v; %z: f32 = convert %y; "
        "store out[] = %z }"
    )
    assert printed(text).uses >= {"f32", "f64"}
    assert "f64" not in printed(AXPY).uses


def test_a_table_may_be_extended_without_changing_the_one_it_came_from():
    table = target.intrinsics(FULL)
    mine = table.copy()
    mine.define("mul.f32", "fast_mul({0}, {1})")
    assert "fast_mul(v2, v9)" in printed(AXPY, mine).source
    assert "fast_mul" not in printed(AXPY, table).source


def test_an_intrinsic_that_needs_an_unknown_helper_is_refused():
    with pytest.raises(KeyError, match="needs the helpers half_it"):
        target.intrinsics(FULL).define("exp.f32", "half_it({0})", "half_it")


def test_helpers_are_printed_before_what_calls_them():
    table = Intrinsics()
    table.define_helper("c", "C", "b", "a")
    table.define_helper("b", "B", "a")
    table.define_helper("a", "A")
    assert table.closure(["c"]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("dtype", "capabilities"),
    [("f16", FULL), ("i8", FULL), ("f64", target.Capabilities(int64_atomics=False))],
    ids=["f16", "i8", "no int64"],
)
def test_an_atomic_that_the_device_lacks_is_refused(dtype: str, capabilities: target.Capabilities):
    with pytest.raises(UnsupportedError, match=f"no spelling of atomic.add.{dtype}.global"):
        printed(
            f"kernel f(out: {dtype}[] C out) {{ atomic add out[] 1:{dtype} }}".replace("1:f", "1.0:f"),
            capabilities=capabilities,
        )


def test_a_thread_loop_with_carries_is_refused():
    text = """
    kernel f(out: f32[4] C out) {
      for %b in 0..4 grid {
        %s = for %l in 0..32 block carry(%a = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
          %w = add %a 1.0:f32; yield %w
        }
        store out[%b] = %s
      }
    }"""
    with pytest.raises(UnsupportedError, match="cannot run a block loop with carries"):
        printed(text)


def test_f32_division_goes_through_f64_where_the_device_does_not_round_it():
    text = "kernel f(x: f32[] C, out: f32[] C out) { %v = load x[]; %y = div 1.0:f32 %v; store out[] = %y }"
    assert "(float)((double)0x1p+0f / (double)v1)" in kernels(text, target.Capabilities(correct_divide=False))
    assert "0x1p+0f / v1" in kernels(text, target.Capabilities(correct_divide=False, fp64=False))


def test_full_groups_run_without_a_test_on_processors():
    text = "kernel f(out: i64[{n}] C out) {{ for %i in 0..{n} {{ store out[%i] = %i }} }}"
    assert "if" not in kernels(text.format(n=1280))
    source = kernels(text.format(n=1281), target.Capabilities(software=True))
    assert "if ((long)get_group_id(0) < 1281L / 64L) {" in source
    assert "} else if (i1 < 1281L) {" in source
    assert kernels(text.format(n=1281)).count("out_0[i1]") == 1


def test_names_of_symbols_become_distinct_identifiers():
    text = (
        "kernel f(out: i64[n0, n_1] C out) dims(n0, n_1) { for %i in 0..n0 { for %j in 0..n_1 { store out[%i, %j] "
        "= n0 } } }"
    )
    assert "const long n_n0, const long n_n_5f_1" in kernels(text)


def test_a_bit_cast_may_have_braces_of_its_own():
    """As C99 has them, which lacks `as_float`."""
    union = "((union {{ {source} a; {type} b; }}) {{ {0} }}).b"
    words = evolve(target.dialect(FULL), bitcast=union)
    text = "kernel f(x: u32[] C, out: f32[] C out) { %v = load x[]; %y: f32 = bitcast %v; store out[] = %y }"
    printed_text = print_kernels([(parse_kernel(text), 1)], words, scalar_intrinsics(words)).source
    assert "((union { uint a; float b; }) { v1 }).b" in printed_text


def test_a_printer_says_what_makes_a_kernel_ready_for_it():
    text = """
    kernel f(x: i64[9] C, out: i64[9] C out) {
      %t = for %i in 0..9 carry(%s = 0:i64) combine(%p, %q) {
        %r = add %p %q
        yield %r
      } {
        %v = load x[%i]
        %u = prefix(%s) %v
        store out[%i] = %u
        yield %u
      }
    }"""
    kernel, words = parse_kernel(text), target.dialect(FULL)
    with pytest.raises(InternalError, match=r"`grid\.bind_grid` or `nest\.printable` makes of a kernel"):
        print_kernels([(kernel, 1)], words, target.intrinsics(FULL))
    ready = kernel.with_body(printable(kernel.body, 128))
    assert "for (" in print_kernels([(ready, 1)], words, target.intrinsics(FULL)).source
