"""Binding to a grid: which loops become work-items, how kernels are cut, what is shared;
and every bound kernel verifies."""

import re

import pytest

from tracejit.backends.grid import GridProgram, GridSchedule, bind_grid
from tracejit.backends.nest import nest_of
from tracejit.ir.check import check_kernel
from tracejit.ir.kernel import For, walk
from tracejit.ir.passes.independence import independent, linear
from tracejit.ir.text import parse_kernel, print_kernel
from tracejit.support.errors import ScheduleError


def bound(text: str, schedule: GridSchedule | None = None) -> GridProgram:
    kernel = parse_kernel(text)
    check_kernel(kernel)
    program = bind_grid(kernel, schedule)
    for launch in program.launches:
        check_kernel(launch.kernel)
    return program


def free_loops(body: str, buffers: str = "x: f32[50, 30] C out") -> list[bool]:
    """For each loop of the outermost nest, outside in, whether it is independent."""
    (root,) = (s for s in parse_kernel(f"kernel f({buffers}) {{ {body} }}").body if isinstance(s, For))
    nest = nest_of(root)
    loops = {loop.index: loop in nest.free for loop in (*nest.free, *nest.ordered)}
    return [loops[s.index] for s in walk((root,)) if isinstance(s, For) and s.index in loops]


LOOPS = "for %i in 1..9 {{ for %j in 1..9 {{ {0} }} }}"


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("store x[%i, %j] = 1.0:f32", [True, True]),
        ("%a = load x[%i, %j]; store x[%i, %j] = %a", [True, True]),
        ("%k = mul %i 3; %l = sub 20 %j; store x[%k, %l] = 1.0:f32", [True, True]),
        ("store x[%j, %i] = 1.0:f32", [True, True]),
        ("%k = sub %i 1; %a = load x[%k, %j]; store x[%i, %j] = %a", [False, True]),
        ("%k = add %i %j; store x[%k, 0] = 1.0:f32", [False, False]),
        ("store x[%i, 0] = 1.0:f32", [True, False]),
        ("store x[0, 0] = 1.0:f32", [False, False]),
        ("%k = mul %i 0; store x[%k, %j] = 1.0:f32", [False, True]),
        ("%k = irem %i 4; store x[%k, %j] = 1.0:f32", [False, True]),
        ("%a = load x[%j, %i]; store x[%i, %j] = %a", [False, False]),
        ("%t = load y[%i]; store x[%t, %j] = 1.0:f32", [False, True]),
        ("atomic add x[0, 0] 1.0:f32", [True, True]),
        ("alloc t: f32[2] C local; store t[0] = 1.0:f32; %a = load t[0]; store x[%i, %j] = %a", [True, True]),
    ],
)
def test_a_loop_is_independent_when_each_iteration_has_its_own_memory(body: str, want: list[bool]):
    assert free_loops(LOOPS.format(body), "x: f32[50, 30] C out, y: i64[50] C") == want


def test_a_loop_that_a_schedule_calls_parallel_is_taken_at_its_word_outside_of_ordered_ones_only():
    scatter = "%t = load y[%i]; store x[%t, 0] = 1.0:f32"
    assert free_loops(f"for %i in 0..9 parallel {{ {scatter} }}", "x: f32[50, 30] C out, y: i64[50] C") == [True]
    inner = "for %k in 0..9 { for %i in 0..9 parallel { %t = load y[%i]; store x[%t, 0] = 1.0:f32 } }"
    assert free_loops(inner, "x: f32[50, 30] C out, y: i64[50] C") == [False, False]


def test_linear_forms_keep_symbolic_coefficients():
    kernel = parse_kernel(
        "kernel f(x: f32[n] C out) dims(n) { for %i in 0..2 { %a = mul %i n; %b = add %a 3; %c = sub %b %i; store "
        "x[%c] = 0.0:f32 } }"
    )
    (loop,) = kernel.body
    defined = {s.out: s for s in loop.body[:-1]}
    form = linear(loop.body[-1].index[0], defined)
    assert {k: str(v) for k, v in form.items()} == {None: "3", loop.index: "n-1"}
    assert independent(loop, loop.index)  # n - 1 is at least 1


def test_a_nest_becomes_one_flat_grid_loop():
    program = bound("kernel f(x: f32[5, 7] C out) { for %i in 0..5 { for %j in 1..7 { store x[%i, %j] = 1.0:f32 } } }")
    (launch,) = program.launches
    assert launch.extents == (5, 6)
    assert launch.items({}) == 32  # few work-items make small groups
    assert print_kernel(launch.kernel) == "\n".join(
        [
            "kernel f(x: f32[5, 7] C out) {",
            "  for %i0 in 0..30 grid {",
            "    %0: u32 = convert %i0",
            "    %1 = irem %0 6:u32",
            "    %2 = idiv %0 6:u32",
            "    %3: i64 = convert %1",
            "    %4 = add %3 1",
            "    %5: i64 = convert %2",
            "    store x[%5, %4] = 1.0:f32",
            "  }",
            "}",
        ]
    )


ROWS = """
kernel rows(x: f32[{n}, {m}] C, out: f32[{n}] C out) dims(k) {{
  for %i in 0..{n} {{
    %s = for %j in 0..{m} carry(%a = 0.0:f32) combine(%p, %q) {{ %r = add %p %q; yield %r }} {{
      %v = load x[{load}]; %w = add %a %v
      yield %w
    }}
    store out[%i] = %s
  }}
}}"""


@pytest.mark.parametrize(
    ("n", "m", "load", "grouped"),
    [
        ("100000", "512", "%i, %j", True),
        ("100000", "32", "%i, %j", False),
        ("k", "k", "%i, %j", True),
        ("k", "k", "%j, %i", False),
        ("5000", "5000", "%j, %i", False),
        ("40", "40", "%j, %i", False),
        ("4", "5000", "%i, %j", True),
    ],
)
def test_a_row_takes_a_group_when_it_is_long_and_contiguous(n: str, m: str, load: str, grouped: bool):
    (launch,) = bound(ROWS.format(n=n, m=m, load=load)).launches
    assert launch.grouped == grouped


def test_a_few_long_columns_are_folded_in_parts():
    text = ROWS.format(n="8", m="5000", load="%j, %i").replace("x: f32[8, 5000]", "x: f32[5000, 8]")
    program = bound(text)
    folded, joined = program.launches
    assert not folded.grouped
    assert not joined.grouped
    (parts,) = program.temporaries
    assert parts.shape == folded.extents == (78, 8)  # of 64 elements at least
    assert joined.extents == (8,)
    (launch,) = bound(text, GridSchedule(contiguous=True)).launches
    assert launch.grouped


def test_the_group_size_and_row_mode_are_the_schedules():
    text = ROWS.format(n="10", m="512", load="%i, %j")
    (launch,) = bound(text, GridSchedule(work_group=32)).launches
    assert (launch.work_group, launch.items({})) == (32, 320)
    (launch,) = bound(text, GridSchedule(rows="item")).launches
    assert not launch.grouped
    with pytest.raises(ScheduleError, match=r"GridSchedule.work_group must be a power of two, not 48"):
        GridSchedule(work_group=48)


def test_what_stands_before_an_inner_loop_is_repeated_if_it_is_cheap():
    text = """
    kernel f(b: f32[64] C, x: f32[64, 32] C out) {{
      for %i in 0..64 {{ %v = load b[%i]; %w = {op}; for %j in 0..32 {{ store x[%i, %j] = %w }} }}
    }}"""
    (launch,) = bound(text.format(op="div %v 3.0:f32")).launches
    assert launch.extents == (64, 32)
    (launch,) = bound(text.format(op="pow %v 3.0:f32")).launches
    assert launch.extents == (64,)


def test_a_load_of_written_memory_is_not_repeated():
    text = """
    kernel f(x: f32[64, 32] C out) {
      for %i in 0..64 { %v = load x[%i, 0]; for %j in 0..32 { store x[%i, %j] = %v } }
    }"""
    (launch,) = bound(text).launches
    assert launch.extents == (64,)


def test_results_that_share_an_outer_loop_get_loops_of_their_own():
    text = """
    kernel f(b: f32[64] C, x: f32[64, 32] C out, y: f32[64, 7] C out) {
      for %i in 0..64 {
        %v = load b[%i]
        for %j in 0..32 { store x[%i, %j] = %v }
        for %k in 0..7 { store y[%i, %k] = %v }
      }
    }"""
    assert [a.extents for a in bound(text).launches] == [(64, 32), (64, 7)]


def test_long_independent_inner_loops_are_a_groups_when_they_cannot_be_flattened():
    text = """
    kernel f(x: f32[9, 512] C, y: f32[9, 512] C out) {
      for %i in 0..9 {
        %v = load x[%i, 0]
        %w = pow %v 2.0:f32
        for %j in 0..512 { %a = load x[%i, %j]; %b = mul %a %w; store y[%i, %j] = %b }
      }
    }"""
    (launch,) = bound(text).launches
    assert (launch.grouped, launch.extents) == (True, (9,))


HISTOGRAM = """
kernel f(at: i64[1000] C, v: {0}[1000] C, y: {0}[16] C out) {{
  for %i in 0..1000 {{ %t = load at[%i]; %a = load y[%t]; %b = load v[%i]; %c = {1} %b %a; store y[%t] = %c }}
}}"""


def test_integer_updates_whose_order_cannot_be_seen_become_atomics():
    (launch,) = bound(HISTOGRAM.format("i64", "add"), GridSchedule(atomics=frozenset({"i64"}))).launches
    assert launch.extents == (1000,)
    assert "atomic add y[" in str(launch.kernel)


@pytest.mark.parametrize(
    ("dtype", "op", "atomics"), [("f32", "add", "f32"), ("i64", "sub", "i64"), ("i64", "add", "i32")]
)
def test_other_updates_keep_their_order(dtype: str, op: str, atomics: str):
    (launch,) = bound(HISTOGRAM.format(dtype, op), GridSchedule(atomics=frozenset({atomics}))).launches
    assert launch.extents == ()
    assert "atomic" not in str(launch.kernel)


def test_an_update_whose_result_is_seen_is_not_atomic():
    text = (
        HISTOGRAM.format("i64", "add")
        .replace("v: i64[1000] C", "v: i64[1000] C, z: i64[1000] C out")
        .replace("; store y", "; store z[%i] = %a; store y")
    )
    (launch,) = bound(text, GridSchedule(atomics=frozenset({"i64"}))).launches
    assert "atomic" not in str(launch.kernel)


def test_lanes_never_meet_in_memory_without_a_barrier():
    text = """
    kernel f(x: f32[4, 256] C out) {
      for %i in 0..4 {
        alloc row: f32[256] C local
        for %j in 0..256 { %v = load x[%i, %j]; store row[%j] = %v }
        for %k in 0..256 { %b = sub 255 %k; %v = load row[%b]; store x[%i, %k] = %v }
      }
    }"""
    (launch,) = bound(text, GridSchedule(rows="group")).launches
    kinds = [type(s).__name__ for s in launch.kernel.body[0].body]
    assert kinds == ["Alloc", "For", "Barrier", "For"]


def test_a_value_that_later_kernels_need_travels_through_memory_and_what_is_pure_is_computed_again():
    text = """
    kernel f(x: f32[64] C, k: f32[] C, out: f32[64] C out) {
      %k = load k[]
      %kk = mul %k %k
      %s = for %j in 0..64 carry(%a = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
        %v = load x[%j]; %u = mul %v %kk; %w = add %a %u
        yield %w
      }
      for %i in 0..64 { %v = load x[%i]; %d = div %v %s; %e = add %d %kk; store out[%i] = %e }
    }"""
    program = bound(text)
    assert [t.shape for t in program.temporaries] == [()]
    first, second = (a.kernel for a in program.launches)
    assert [b.name for b in first.buffers] == ["x", "k", "temporary0"]
    assert [b.name for b in second.buffers] == ["x", "k", "out", "temporary0"]
    assert print_kernel(second).count("mul") == 1


def test_a_load_of_what_the_kernel_writes_is_not_repeated():
    text = """
    kernel f(x: f32[64] C out) {
      %first = load x[0]
      for %i in 0..64 { %v = load x[%i]; %d = sub %v %first; store x[%i] = %d }
    }"""
    program = bound(text)
    assert [a.items({}) for a in program.launches] == [1, 64]
    assert len(program.temporaries) == 1


def test_a_reduction_over_several_loops_is_shared_out_as_one():
    text = """
    kernel f(x: f32[3, 100000] C, out: f32[] C out) {
      %s = for %i in 0..3 carry(%a = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
        %t = for %j in 0..100000 carry(%b = %a) combine(%p, %q) { %r = add %p %q; yield %r } {
          %v = load x[%i, %j]; %w = add %b %v
          yield %w
        }
        yield %t
      }
      store out[] = %s
    }"""
    first, second = bound(text).launches
    assert first.extents == (64,)
    assert "300000" in str(first.kernel)
    assert second.extents == (1,)


def test_a_short_reduction_is_one_groups():
    text = ROWS.format(n="1", m="100", load="%i, %j")
    assert len(bound(text).launches) == 1


def test_partitions_do_not_depend_on_the_device():
    text = ROWS.format(n="k", m="k", load="%i, %j")
    assert str(bound(text).launches[0].kernel) == str(bound(text).launches[0].kernel)


def test_long_serial_sums_fold_in_blocks():
    text = ROWS.format(n="10", m="1000", load="%i, %j")
    (launch,) = bound(text, GridSchedule(rows="item")).launches
    assert "step 128" in str(launch.kernel)
    integers = text.replace("f32", "i32").replace("0.0:", "0:")
    (launch,) = bound(integers, GridSchedule(rows="item")).launches
    assert "step 128" not in str(launch.kernel)


@pytest.mark.parametrize(
    ("m", "steps"), [("1000", ["128"]), ("40000", ["16384", "128"]), ("k", ["2097152", "16384", "128"])]
)
def test_sums_of_many_blocks_fold_in_blocks_of_blocks(m: str, steps: list[str]):
    (launch,) = bound(ROWS.format(n="10", m=m, load="%i, %j"), GridSchedule(rows="item")).launches
    assert re.findall(r" step (\d+)", str(launch.kernel)) == steps


def test_launch_sizes_follow_the_symbols():
    (launch,) = bound("kernel f(x: i64[n] C out) dims(n) { for %i in 0..n { store x[%i] = %i } }").launches
    assert [launch.items({"n": n}) for n in (0, 1, 128, 129)] == [0, 128, 128, 256]
    assert str(launch.extents) == "(n,)"
