"""What passes and backends do with statements that nothing but their class declares: no effect is lost or moved."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest

from tracejit.autotune.heuristic import heuristic_schedule
from tracejit.autotune.rating import nests_of, strides_in
from tracejit.backends.distribute import distribute
from tracejit.backends.grid import bind_grid
from tracejit.backends.nest import nest_of, repeatable
from tracejit.backends.reference.dependence import depends_on_order
from tracejit.compiler.donate import _element_by_element  # pyright: ignore[reportPrivateUsage]
from tracejit.ir import kernel as k
from tracejit.ir.check import check_kernel
from tracejit.ir.conflicts import Conflicts, conflicts
from tracejit.ir.kernel import Block, Buffer, For, Operand, Value
from tracejit.ir.passes.collapse import collapse
from tracejit.ir.passes.cut import can_cut, cut
from tracejit.ir.passes.dead import remove_dead
from tracejit.ir.passes.independence import accesses, can_run_in_step, independent
from tracejit.ir.passes.merge_loops import merge_loops
from tracejit.ir.passes.privatize import can_privatize
from tracejit.ir.program import kernel_effects
from tracejit.ir.rewrite import fresh_copy, map_accesses, replace_buffers, substitute
from tracejit.ir.schedule import Parallel, Schedule, Vector, apply
from tracejit.ir.text import ParseError, parse_kernel, print_kernel
from tracejit.support.errors import ScheduleError, VerifyError


@k.statement
class Fill:
    """Every element of a buffer becomes `value`."""

    syntax: ClassVar = "fill {buffer} with {value}"

    buffer: Buffer = k.stored()
    value: Operand = k.used()


@k.statement
class Exchange:
    """`out` is the element that `value` replaces."""

    syntax: ClassVar = "exchange {buffer}[{index}] by {value}"
    like: ClassVar = "buffer"

    out: Value = k.defined()
    buffer: Buffer = k.updated(at="index")
    index: tuple[Operand, ...] = k.used()
    value: Operand = k.used()


@k.statement
class Move:
    """An element of one buffer into another: two accesses at two places."""

    syntax: ClassVar = "move {target}[{to}] from {source}[{place}]"

    target: Buffer = k.stored(at="to")
    to: tuple[Operand, ...] = k.used()
    source: Buffer = k.loaded(at="place")
    place: tuple[Operand, ...] = k.used()


@k.statement
class Total:
    """The sum of all elements of a buffer."""

    syntax: ClassVar = "total {buffer}"
    like: ClassVar = "buffer"

    out: Value = k.defined()
    buffer: Buffer = k.loaded()


@k.statement
class Scratch:
    """Memory of its own."""

    syntax: ClassVar = "scratch {buffer:declared}"

    buffer: Buffer = k.allocated()


@k.statement
class Repeat:
    """`body` so many times; each time sees its number."""

    syntax: ClassVar = "repeat {count} as {index} {body}"

    index: Value = k.bound()
    count: Operand = k.used()
    body: Block = k.nested()


@k.statement
class Sweep:
    """`body` from the last element to the first, with what the one before yielded; `results` are the last yields."""

    syntax: ClassVar = "sweep {buffer}< by {step}> as {index}< carry({params=inits})> {body}< at {place}>"
    like: ClassVar = "inits"

    buffer: Buffer = k.loaded()
    index: Value = k.bound()
    body: Block = k.nested()
    place: tuple[Operand, ...] = k.used()
    params: tuple[Value, ...] = k.bound(default=())
    inits: tuple[Operand, ...] = k.used(default=())
    yields: tuple[Operand, ...] = k.yielded(default=())
    results: tuple[Value, ...] = k.defined(default=())
    step: int = 1


@k.statement
class Attempt:
    """`trial`, and where `found` does not hold after it, `orelse`, which sees the values of the trial."""

    syntax: ClassVar = "attempt {trial}< otherwise {orelse}>"
    like: ClassVar = "value"

    out: Value = k.defined()
    trial: Block = k.nested(word="keep", seen=True)
    found: Operand = k.yielded()
    value: Operand = k.yielded()
    orelse: Block = k.nested(default=())
    others: tuple[Operand, ...] = k.yielded(default=())


NEW = [Fill, Exchange, Move, Total, Scratch, Repeat, Sweep, Attempt]
for _kind in NEW:
    k.STATEMENTS.remove(_kind)  # only the tests below have them


@pytest.fixture(autouse=True)
def _known():
    k.STATEMENTS.extend(NEW)
    yield
    for kind in NEW:
        k.STATEMENTS.remove(kind)


def kernel(body: str) -> Any:
    made = parse_kernel(
        f"kernel f(x: f64[n] C, y: f64[n] C out, z: f64[n] C out, m: f64[8, n] C out) dims(n) {{ {body} }}"
    )
    check_kernel(made)
    return made


def loop(body: str) -> For:
    return next(s for s in kernel(body).body if isinstance(s, For))


FILL = "fill y with 1.0:f64"
WRITERS = {
    "fill": "fill y with %v",
    "exchange": "%e = exchange y[%i] by %v",
    "move": "move y[%i] from x[%i]",
}


def test_they_are_written_and_read():
    text = """kernel f(x: f64[n] C, y: f64[n] C out) dims(n) {
  scratch t: f64[n] C local
  fill t with 0.0:f64
  %0 = total x
  for %i0 in 0..n {
    %1 = exchange t[%i0] by %0
    move y[%i0] from t[%i0]
  }
}"""
    made = parse_kernel(text)
    check_kernel(made)
    assert print_kernel(made) == text
    assert print_kernel(made.with_body(fresh_copy(made.body, {}))) == text
    assert {b.name for b in kernel_effects(made)[0]} == {"x"}
    assert {b.name for b in kernel_effects(made)[1]} == {"y"}
    touched = accesses(made.body)
    assert ({b.name for b in touched.reads}, {b.name for b in touched.writes}) == ({"x"}, {"y"})


NESTED = """kernel f(x: f64[n] C, y: f64[n] C out) dims(n) {
  repeat n as %i0 {
    %0 = load x[%i0]
    scratch t: f64[3] C local
    repeat 3 as %i1 {
      store t[%i1] = %0
    }
    %4, %5 = sweep x by 2 as %i2 carry(%c0 = %0, %c1 = 0) {
      %1 = load x[%i2]
      %2 = add %c0 %1
      %3 = add %c1 1
      yield %2 %3
    } at 0 %i0
    sweep t as %i3 {
      move y[%i0] from t[%i3]
    }
    %9 = attempt {
      %6 = lt %5 n
      %7 = mul %4 2.0:f64
      keep %6 %7
    } otherwise {
      %8 = neg %7
      yield %8
    }
    %11 = attempt {
      %10 = gt %9 0.0:f64
      keep %10 %9
    }
    store y[%i0] = %11
  }
}"""


def test_nested_ones_are_written_and_read():
    made = parse_kernel(NESTED)
    check_kernel(made)
    assert print_kernel(made) == NESTED
    copied = made.with_body(fresh_copy(made.body, {}))
    check_kernel(copied)
    assert print_kernel(copied) == NESTED
    check_kernel(made.with_body((*made.body, *copied.body)))
    (outer,) = made.body
    assert isinstance(outer, Repeat)
    with pytest.raises(VerifyError, match="not defined before"):
        check_kernel(made.with_body((substitute(outer, {outer.index: Value("i64")}),)))
    with pytest.raises(VerifyError, match="defined in a block that does not enclose"):
        check_kernel(made.with_body((outer, *outer.body)))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("repeat 3 as %j { yield %j }", "body in `repeat` ends with no operands"),
        ("%a = attempt { keep True }", "trial in `attempt` ends with `keep` and 2 operands"),
        ("%a = attempt { yield True 1 }", "trial in `attempt` ends with `keep` and 2 operands"),
        ("repeat 3 { }", "expected 'as', found '{'"),
        ("%a = repeat 3 as %j { }", "'repeat' has not 1 results"),
        ("repeat 3 as %j { }; store y[0] = %j", "%j is not defined here"),
    ],
)
def test_nested_ones_that_are_written_otherwise_are_refused(line: str, what: str):
    with pytest.raises(ParseError, match=re.escape(what)):
        kernel(line)


def test_nested_ones_go_through_all_passes():
    made = parse_kernel(NESTED)
    kinds = [type(s).__name__ for s in k.walk(made.body)]
    for after in (remove_dead(made), merge_loops(made), collapse(made)):
        check_kernel(after)
        assert [type(s).__name__ for s in k.walk(after.body)] == kinds
    assert heuristic_schedule(made, 256) == Schedule()
    (launch,) = bind_grid(made).launches
    check_kernel(launch.kernel)
    assert [type(s).__name__ for s in k.walk(launch.kernel.body)] == kinds


def test_what_is_dead_in_blocks_goes_and_effects_stay():
    made = kernel("repeat n as %i { %a = load x[%i]; %d = neg %a; %b = mul %a 2.0:f64; store y[%i] = %b }")
    assert [type(s).__name__ for s in k.walk(remove_dead(made).body)] == ["Repeat", "Load", "Op", "Store"]


def test_pieces_of_a_loop_have_blocks_of_their_own():
    uncut = kernel(
        """for %i in 0..8 {
          %c = lt %i 3
          repeat n as %j {
            if %c { store m[%i, %j] = 1.0:f64 } else { %a = load x[%j]; store m[%i, %j] = %a }
          }
        }"""
    )
    (made,) = uncut.body
    assert isinstance(made, For)
    assert can_cut(made)
    whole = uncut.with_body(tuple(cut(made, {made.index: "L0"})))
    check_kernel(whole)
    assert [type(s).__name__ for s in k.walk(whole.body)] == [
        "For",
        "Repeat",
        "Store",
        "For",
        "Repeat",
        "Load",
        "Store",
    ]


def test_loops_over_blocks_are_shared_out():
    body = "for %i in 0..n { repeat 8 as %j { %a = load x[%i]; %e = exchange m[%j, %i] by %a } }"
    made = loop(body)
    assert independent(made, made.index)
    assert nest_of(made).free == (made,)
    (launch,) = bind_grid(kernel(body)).launches
    check_kernel(launch.kernel)
    (grid,) = launch.kernel.body
    assert isinstance(grid, For)
    assert grid.axis.kind == "grid"
    for writes in ("%e = exchange y[%j] by 1.0:f64", "%e = exchange m[%j, 0] by 1.0:f64", "fill y with 1.0:f64"):
        other = loop(f"for %i in 0..n {{ repeat 8 as %j {{ {writes} }} }}")
        assert not independent(other, other.index)
        assert not nest_of(other).free
        assert depends_on_order(other, lambda b: (id(b), True), {"n": 5})


def test_scalars_reach_the_blocks_of_a_later_launch():
    made = kernel(
        """%s = for %i in 0..n carry(%a = 0.0:f64) combine(%p, %q) { %r = add %p %q; yield %r } {
          %v = load x[%i]; %w = add %a %v; yield %w }
        for %i in 0..n { repeat 2 as %j { store m[%j, %i] = %s } }"""
    )
    bound = bind_grid(made)
    for launch in bound.launches:
        check_kernel(launch.kernel)
    assert any(isinstance(s, Repeat) for s in k.walk(bound.launches[-1].kernel.body))


def test_what_blocks_see_varies_with_what_the_statement_reads():
    made = loop(
        """for %i in 0..n { %a = load x[%i]; %s = sweep x as %j carry(%c = %a) { yield %c }
        %t = sweep x as %k carry(%d = 0.0:f64) { yield %d } }"""
    )
    (nest,) = nests_of((made,))
    first, second = [s for s in made.body if isinstance(s, Sweep)]
    vary = strides_in(nest)
    assert all(vary[v] is None for v in (*first.params, *first.results))
    assert not vary.keys() & {*second.params, *second.results}


def test_threads_are_not_started_in_blocks_that_may_be_skipped():
    for around in ("repeat 3 as %j { LOOP }", "%a = attempt { LOOP; keep True 1 }", "sweep x as %j { LOOP }"):
        made = kernel(around.replace("LOOP", "for %i in 0..n { store y[%i] = 1.0:f64 }"))
        with pytest.raises(ScheduleError, match="inside of another parallel, vector or conditional region"):
            apply(made, Schedule((Parallel("L0"),)))
        assert not heuristic_schedule(made, 256).directives


@pytest.mark.parametrize("body", ["fill x with 1.0:f64", "move x[0] from y[0]", "%e = exchange x[0] by 1.0:f64"])
def test_what_is_no_output_is_not_written(body: str):
    with pytest.raises(VerifyError, match="is written but is not an output"):
        kernel(body)


def test_memory_is_gone_after_its_block():
    made = kernel("for %i in 0..n { scratch t: f64[n] C local; fill t with 0.0:f64 }")
    (outer,) = made.body
    assert isinstance(outer, For)
    with pytest.raises(VerifyError, match="neither a parameter nor allocated here"):
        check_kernel(made.with_body((outer, outer.body[1])))


@pytest.mark.parametrize("writer", WRITERS)
def test_effects_are_not_dead(writer: str):
    made = kernel(f"for %i in 0..n {{ %v = load x[%i]; %w = mul %v 2.0:f64; %t = total x; {WRITERS[writer]} }}")
    left = [type(s).__name__ for s in k.walk(remove_dead(made).body)]
    assert left[-1].lower() == writer
    assert "Total" not in left
    assert "Op" not in left


@pytest.mark.parametrize("between", ["fill y with 2.0:f64", "move y[0] from x[0]", "%e = exchange y[0] by 1.0:f64"])
def test_loops_do_not_merge_over_them(between: str):
    made = kernel(
        f"for %i in 0..n {{ %a = load y[%i]; store z[%i] = %a }}\n{between}\n"
        "for %j in 0..n { %b = load y[%j]; store m[1, %j] = %b }"
    )
    assert len([s for s in merge_loops(made).body if isinstance(s, For)]) == 2


def test_equal_loads_of_merged_loops_stay_where_one_is_of_memory_that_is_changed():
    made = kernel(
        "for %i in 0..n { %a = load x[%i]; %e = exchange y[%i] by %a }\n"
        "for %j in 0..n { %b = load x[%j]; store z[%j] = %b }"
    )
    (only,) = merge_loops(made).body
    assert isinstance(only, For)
    assert [type(s).__name__ for s in only.body] == ["Load", "Exchange", "Store"]
    apart = kernel(
        "for %i in 0..n { %a = load y[%i]; store z[%i] = %a }\n"
        "for %j in 0..n { %b = load y[%j]; %e = exchange y[%j] by 2.0:f64; store m[0, %j] = %b }"
    )
    merged = merge_loops(apart)
    assert [type(s).__name__ for s in k.walk(merged.body)].count("Load") == 2


def test_nests_collapse_with_their_places_or_stay():
    nest = "for %i in 0..8 { for %j in 0..n { %a = load m[%i, %j]; BODY } }"
    joined = collapse(kernel(nest.replace("BODY", "%e = exchange m[%i, %j] by %a")))
    (outer,) = joined.body
    assert isinstance(outer, For)
    (exchange,) = [s for s in k.walk(joined.body) if isinstance(s, Exchange)]
    assert exchange.index == (outer.index,)
    assert len(exchange.buffer.shape) == 1
    for body in ("fill m with %a", "move y[%j] from m[%i, %j]", "%e = exchange m[%i, 0] by %a"):
        made = kernel(nest.replace("BODY", body))
        assert print_kernel(collapse(made)) == print_kernel(made)


@pytest.mark.parametrize(
    ("body", "free"),
    [
        ("%e = exchange y[%i] by 1.0:f64", True),
        ("move y[%i] from x[0]", True),
        ("move y[0] from x[%i]", False),
        ("%e = exchange y[0] by 1.0:f64", False),
        ("fill y with 1.0:f64", False),
        ("%t = total y; store y[%i] = %t", False),
        ("%t = total x; store y[%i] = %t", True),
        ("move y[%i] from y[0]", False),
    ],
)
def test_which_iterations_are_apart(body: str, free: bool):
    made = loop(f"for %i in 0..n {{ {body} }}")
    assert independent(made, made.index) == free
    assert can_run_in_step(made) == free
    places: dict[Buffer, int] = {}
    lone = body == "move y[0] from x[%i]"  # the last iteration's is what stays, as of a store
    assert depends_on_order(made, lambda b: (places.setdefault(b, len(places)), True), {"n": 5}) == (
        not free and not lone
    )
    if not free:
        assert not nest_of(made).free
        whole = kernel(f"for %i in 0..n {{ {body} }}")
        with pytest.raises(ScheduleError):
            apply(whole, Schedule((Vector("L0", 4),)))
        assert not [d for d in heuristic_schedule(whole, 256).directives if isinstance(d, Vector | Parallel)]


def test_places_read_from_memory_meet():
    body = "for %i in 0..n {{ %a = load x[%i]; %j = convert %a; {} }}"
    made = loop(body.format("%e = exchange y[%j] by 1.0:f64").replace("%j = convert", "%j:i64 = convert"))
    assert conflicts(made) == Conflicts(True, True)
    made = loop(body.format("move y[%j] from x[%i]").replace("%j = convert", "%j:i64 = convert"))
    assert conflicts(made) == Conflicts(True, False)
    assert conflicts(loop("for %i in 0..n { fill y with 1.0:f64 }")) == Conflicts(True, False)


def test_columns_are_not_privatized_over_them():
    text = """for %j in 0..n { BEFORE
      %r = for %i in 0..8 carry(%s = 0.0:f64) combine(%p, %q) { %u = add %p %q; yield %u } {
        %a = load m[%i, %j]; %t = add %s %a; yield %t }
      store y[%j] = %r }"""
    assert can_privatize(loop(text.replace("BEFORE", "")))
    assert not can_privatize(loop(text.replace("BEFORE", "%e = exchange z[%j] by 1.0:f64")))
    assert not can_privatize(loop(text.replace("BEFORE", "scratch w: f64[4] C local; fill w with 0.0:f64")))


def test_results_take_no_memory_over_that_is_read_elsewhere():
    made = kernel("for %i in 0..n { %a = load x[%i]; store y[%i] = %a }")
    x, y = made.buffers[:2]
    assert _element_by_element(made, x, y)
    for body in ("%t = total x; store y[%i] = %t", "move y[%i] from x[0]", "%a = load x[%i]; fill y with %a"):
        made = kernel(f"for %i in 0..n {{ {body} }}")
        assert not _element_by_element(made, *made.buffers[:2]), body
    moved = kernel("for %i in 0..n { move y[%i] from x[%i] }")
    assert _element_by_element(moved, *moved.buffers[:2])


def test_what_reads_changed_memory_is_not_repeated():
    made = kernel("%t = total x; %u = total y; %e = exchange y[0] by %t; store z[0] = %u")
    written = accesses(made.body).writes
    assert [repeatable(s, written) for s in made.body] == [True, False, False, False]
    nest = loop("for %i in 0..n { %e = exchange y[%i] by 1.0:f64; for %j in 0..8 { store m[%j, %i] = %e } }")
    assert distribute(nest) == (nest,)


def test_buffers_are_replaced_at_each_access():
    made = kernel("for %i in 0..n { move y[%i] from x[%i]; %e = exchange x[%i] by 1.0:f64 }".replace(
        "%e = exchange x", "%e = exchange z"
    ))  # fmt: skip
    x, y = made.buffers[:2]
    wide = Buffer("wide", "f64", (2, *y.shape))
    one = k.index_const(1)
    (only,) = replace_buffers(made.body, {y: wide}, (one,))
    assert isinstance(only, For)
    move = only.body[0]
    assert isinstance(move, Move)
    assert (move.target, move.to) == (wide, (one, only.index))
    assert (move.source, move.place) == (x, (only.index,))
    fill = kernel(FILL)
    with pytest.raises(ValueError, match="cannot take indices"):
        replace_buffers(fill.body, {fill.buffers[1]: wide}, (one,))
    (same,) = replace_buffers(fill.body, {fill.buffers[1]: x})
    assert isinstance(same, Fill)
    assert same.buffer is x
    assert map_accesses(same, lambda b, i: (b, i)) is same


def test_a_field_says_how_many_it_holds():
    with pytest.raises(TypeError, match="its annotation must be one of"):

        @k.statement
        class Odd:  # pyright: ignore[reportUnusedClass]
            args: list[Operand] = k.used()


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("odd {valu}", {"value": k.used}, "Odd.syntax names 'valu', which is no field; there are value"),
    ("odd", {"value": k.used}, "Odd.syntax leaves out value: what is not written is not read again"),
    ("odd {value} {value}", {"value": k.used}, "Odd.syntax names value twice"),
    ("odd {value", {"value": k.used}, "Odd.syntax has a hole that is none of"),
    ("odd< {value}", {"value": k.used}, "Odd.syntax has a < without a >"),
    ("odd {value}>", {"value": k.used}, "Odd.syntax has a > without a <"),
    ("odd< by {value}>", {"value": k.used}, "Odd.syntax may leave out value, which has no default"),
    ("odd<{value}>", {"value": k.used}, "Odd.syntax has no word or sign behind a <"),
    ("{value} odd", {"value": k.used}, "Odd.syntax begins with a word"),
    ("load {value}", {"value": k.used}, "Odd.syntax begins with 'load', which begins other lines already"),
    ("add {value}", {"value": k.used}, "Odd.syntax begins with 'add', which begins other lines already"),
    ("yield {value}", {"value": k.used}, "Odd.syntax begins with 'yield', which begins other lines already"),
    ("odd {value} {body}", {"body": k.nested, "value": k.yielded}, "names value, which is yielded: it stands"),
    ("odd {value}", {"value": k.defined}, "names value, which is defined: it stands before the statement by itself"),
    ("odd {body} {value}", {"value": k.bound, "body": k.nested}, "Odd.syntax names value behind all blocks"),
    ("odd", {"value": k.yielded}, "Odd.value is yielded: there is no block before it"),
    ("odd {values} {value}", {"values": k.used, "value": k.used}, "has nothing between values and what follows"),
    ("odd {body}", {"body": k.nested, "values": k.yielded, "args": k.yielded}, "values and args hold several each"),
    ("test {value}", {"value": k.used}, "Odd.syntax begins with 'test', which begins other lines already"),
    ("odd {body}", {"body": lambda: k.nested(word="store")}, "Odd.body ends with 'store', which begins other lines"),
    ("odd {f}", {"f": None}, "Odd.syntax always writes f, which may be None: it belongs between < and >"),
    ("odd {x}", {"x": None}, "Odd.syntax writes x, whose annotation is float"),
]  # fmt: skip
ANNOTATIONS = {
    "value": "Value", "values": "tuple[Operand, ...]", "args": "tuple[Operand, ...]", "body": "Block",
    "f": "Lambda | None",
}  # fmt: skip


@pytest.mark.parametrize(("syntax", "fields", "what"), WRONG, ids=[syntax for syntax, _, _ in WRONG])
def test_a_line_that_cannot_be_followed_is_refused_with_its_class(syntax: str, fields: dict[str, Any], what: str):
    annotations = {name: ANNOTATIONS.get(name, "float") for name in fields}
    made = {name: role() for name, role in fields.items() if role}
    before = list(k.STATEMENTS)
    with pytest.raises(TypeError, match=re.escape(what)):
        k.statement(type("Odd", (), {"syntax": syntax, "__annotations__": annotations, **made}))
    assert before == k.STATEMENTS
    assert print_kernel(parse_kernel(NESTED)) == NESTED


def test_a_line_is_asked_for_and_what_it_is_like():
    with pytest.raises(TypeError, match="Odd has no `syntax`, the line that says how it is written"):
        k.statement(type("Odd", (), {"__annotations__": {}}))
    with pytest.raises(TypeError, match=re.escape("Odd.like is 'valu', no field of operands and no buffer")):
        k.statement(type("Odd", (), {"syntax": "odd", "like": "valu", "__annotations__": {}}))


def test_annotations_are_text():
    with pytest.raises(
        TypeError, match=r"Odd\.value: the annotations of a statement are read as text; its module begins"
    ):
        k.statement(
            type("Odd", (), {"syntax": "odd {value}", "__annotations__": {"value": Operand}, "value": k.used()})
        )
