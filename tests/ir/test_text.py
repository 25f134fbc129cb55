"""Jaxprs, kernels and forms as text: what is printed parses back to the same text."""

from __future__ import annotations

import enum
import textwrap
import time
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import frozen

import tracejit as tj
from tracejit.ir.extents import Dim, has_count
from tracejit.ir.jaxpr import Equation, Jaxpr, Literal, Var, bound_symbols
from tracejit.ir.primitive import _REGISTRY, Primitive  # pyright: ignore[reportPrivateUsage]
from tracejit.ir.text import ParseError, parse_extent, parse_jaxpr, print_jaxpr, print_parameters, print_value
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import UserError


class Mode(enum.Enum):
    CLIP = 1
    FILL = 2


@frozen
class Numbers:
    offset: tuple[int, ...]
    mode: Mode = Mode.CLIP


@pytest.fixture(autouse=True)
def _own_primitives():
    """Primitives of this module only while its tests run."""
    before = dict(_REGISTRY)

    @frozen
    class Plus(Primitive):
        name: ClassVar[str] = "t_add"

    @frozen
    class Holds(Primitive):
        name: ClassVar[str] = "t_holds"
        multiple_results: ClassVar[bool] = True
        value: Any = None
        other: Any = 1

    Holds.__module__ = Plus.__module__ = __name__
    globals().update(Plus=Plus, Holds=Holds)
    yield
    _REGISTRY.clear()
    _REGISTRY.update(before)


def round_trip(text: str) -> str:
    text = textwrap.dedent(text).strip()
    printed = print_jaxpr(parse_jaxpr(text))
    assert printed == text
    return printed


def holds(value: Any) -> Any:
    """The value of a parameter after printing and parsing."""
    x = Var(ShapedArray((), "f4"))
    text = str(Jaxpr([x], [Equation(_REGISTRY["t_holds"](value=value), (x,), ())], [x]))
    again = parse_jaxpr(text)
    assert str(again) == text
    return again.equations[0].primitive.value


def test_jaxpr_text_is_stable():
    round_trip(
        """
        jaxpr(a: f32[3], b: f32~[], c: bool[n0, 2*n0+1]) {
          d: f32[3] = t_add a b
          e: f32[3], f: i64[3] = t_holds[value=0, other=1] d c
          () = t_holds[value=None, other='x'] e
          return e 1.0:f32[] True:bool[] -3:i8~[] -inf:f64[] nan:f16[]
        }
        """.replace("n0, 2*n0+1", "n0,2*n0+1")
    )


def test_names_do_not_depend_on_ids():
    def build() -> Jaxpr:
        x = Var(ShapedArray((3,), "f4"))
        y = Var(ShapedArray((3,), "f4"))
        return Jaxpr([x], [Equation(_REGISTRY["t_add"](), (x, x), (y,))], [y])

    a, b = build(), build()
    assert str(a) == str(b)
    assert a == b
    assert hash(a) == hash(b)


def test_names_go_on_after_z_and_skip_words_of_the_grammar():
    x = Var(ShapedArray((), "f4"))
    outs = [Var(ShapedArray((), "f4")) for _ in range(12_000)]
    jaxpr = Jaxpr([x], [Equation(_REGISTRY["t_add"](), (x, x), (o,)) for o in outs], [outs[-1]])
    text = str(jaxpr)
    assert "\n  z: " in text
    assert "\n  aa: " in text
    assert "\n  inf: " not in text
    assert str(parse_jaxpr(text)) == text


def test_nested_jaxpr_is_an_indented_block_with_its_own_names():
    round_trip(
        """
        jaxpr(a: f32[]) {
          b: f32[] = t_holds[value=(jaxpr(a: f32[]) {
            b: f32[] = t_holds[value=jaxpr() {
              return 2.0:f32[]
            }, other=1] a
            return b
          }, 3), other=1] a
          return b
        }
        """
    )


@pytest.mark.parametrize(
    "value",
    [
        0, -7, 2**70, 1.5, 1e-30, -0.0, float("inf"), float("-inf"), True, None, ..., "a 'b' \n # c", b"\x00'", (),
        (1,), (1, (2.0, "x")), np.dtype("f4"), np.dtype("?"), ShapedArray((3,), "i8", True), slice(1, None, -1),
        range(1, 9, 2), frozenset({3, 1}), Mode.FILL, Numbers((1, 2), Mode.FILL), (Mode.CLIP, Numbers(())),
        np.float32(0.1), np.int8(-3), np.dtype,
    ],
    ids=repr,
)  # fmt: skip
def test_parameter_values_come_back_equal_and_of_the_same_type(value: Any):
    again = holds(value)
    assert type(again) is type(value)
    assert again == value


def test_nan_and_negative_zero_parameters_keep_their_sign():
    assert print_value(float("nan")) == "nan"
    assert np.isnan(holds(float("nan")))
    assert np.signbit(holds(-0.0))


def test_array_parameters_come_back_exactly():
    array = np.array([[0.1, np.inf, -0.0]], np.float32)
    again = holds(array)
    assert again.dtype == array.dtype
    assert again.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "n0",
        "2*n0+1",
        "-1*n0",
        "n0*n1-3",
        "floordiv(n0, 2)",
        "n0+2*mod(n0+1, 3)",
        "max(n0, n1)",
        "min(n0, 3)",
        "floordiv(7, n0)",
    ],
)
def test_symbolic_extents_come_back_in_shapes_and_parameters(text: str):
    dim = parse_extent(text)
    assert isinstance(dim, Dim)
    assert str(dim) == text
    assert dim.same(holds(dim))
    assert dim.same(holds((1, dim))[1])
    round_trip(f"jaxpr(a: f32[3,{text}]) {{\n  return a\n}}")


def test_extents_that_a_program_computes_come_back():
    def f(x):
        v = x[x > 0]
        w = np.cumsum(v)
        return w[w > 1], v[: len(w[w > 2])]

    for jitted in (tj.jit(f), tj.jit(tj.grad(lambda x: (f(x)[0] ** 2).sum()))):
        jaxpr = jitted.lower(np.arange(5.0)).jaxpr
        again = parse_jaxpr(str(jaxpr))
        assert again == jaxpr
        ours, theirs = bound_symbols(again.equations), bound_symbols(jaxpr.equations)
        assert list(ours) == list(theirs)
        assert [s.most for s in ours] == [s.most for s in theirs]
        computed = [[has_count(n) for v in j.outputs for n in v.aval.shape] for j in (again, jaxpr)]
        assert computed[0] == computed[1]
    (first,) = [e for e in jaxpr.equations if e.primitive.binds][:1]
    assert "as_extent[index=Count(1, 5, 'x[mask]')]" in str(first.primitive)


def test_opaque_objects_come_back_by_identity_while_they_live():
    def one() -> None: ...
    def two() -> None: ...

    assert holds(one) is one
    assert print_value(one) != print_value(two)
    text = "jaxpr() {\n  () = t_holds[value=opaque('gone', 987654321)]\n  return\n}"
    with pytest.raises(ParseError, match="gone is a Python object without text"):
        parse_jaxpr(text)


def test_parameters_print_in_brackets_and_not_at_all_when_there_are_none():
    assert print_parameters({}) == ""
    assert print_parameters({"axis": (0, 1), "dtype": np.dtype("i8")}) == "[axis=(0, 1), dtype=i64]"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_float_literals_come_back_exactly(dtype: str):
    rng = np.random.default_rng(0)
    aval = ShapedArray((), dtype)
    values = (
        rng.integers(0, 2**16, 400, dtype=np.uint64).astype("u2")
        if dtype == "f2"
        else rng.integers(0, 2 ** (8 * aval.dtype.itemsize), 400, dtype=np.uint64)
    )
    values = values.astype(f"u{aval.dtype.itemsize}").view(dtype)
    values = values[~np.isnan(values)]
    jaxpr = Jaxpr([], [], [Literal(v, aval) for v in values])
    again = np.array([o.value for o in parse_jaxpr(str(jaxpr)).outputs])
    assert again.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("jaxpr(a: f32[]) {\n  b: f32[] = t_add a c\n  return b\n}", 2, "'c' is not defined"),
        ("jaxpr(a: f32[]) {\n\n  a: f32[] = t_add a a\n  return a\n}", 3, "a is defined twice"),
        ("jaxpr(a: f32[]) {\n  b: f32[] = t_missing a\n  return b\n}", 2, "there is no primitive 't_missing'"),
        ("jaxpr(a: f99[]) {\n  return a\n}", 1, "expected a type such as f32[3], found 'f99'"),
        (
            "jaxpr(a: f32[]) {\n  b: f32[] = t_holds[size=3] a\n  return b\n}",
            2,
            "parameters do not fit primitive 't_holds'",
        ),
        ("jaxpr(a: f32[]) {\n  return a", 2, "expected '}', found the end of the text"),
        ("jaxpr(a: f32[]) {\n  return a\n}\nmore", 4, "nothing may follow here, found 'more'"),
        ("jaxpr() {\n  return x1:i64[]\n}", 2, "'x1' is not a value of i64[]"),
        (
            "jaxpr(a: f32[]) {\n  b: f32[] = t_holds[value=Unknown.X] a\n  return b\n}",
            2,
            "'Unknown' is not a class in module",
        ),
        ("jaxpr(a: f32[1/2]) {\n  return a\n}", 1, "is not an extent"),
    ],
)
def test_parse_errors_name_the_line_and_what_is_wrong(text: str, line: int, what: str):
    with pytest.raises(ParseError) as caught:
        parse_jaxpr(text)
    assert caught.value.line == line
    assert what in str(caught.value)
    assert isinstance(caught.value, UserError)


def test_comments_and_blank_lines_are_skipped():
    text = "jaxpr(a: f32[]) { # inputs\n\n  # nothing\n  return a\n}\n"
    assert str(parse_jaxpr(text)) == "jaxpr(a: f32[]) {\n  return a\n}"


def chain(equations: int) -> Jaxpr:
    x = Var(ShapedArray((3,), "f4"))
    made: list[Equation] = []
    last = x
    for _ in range(equations):
        out = Var(ShapedArray((3,), "f4"))
        made.append(Equation(_REGISTRY["t_add"](), (last, Literal(1.0, ShapedArray((), "f4"))), (out,)))
        last = out
    return Jaxpr([x], made, [last])


def test_time_and_memory_are_linear_in_the_number_of_equations():
    def seconds(n: int) -> float:
        jaxpr = chain(n)
        start = time.process_time()
        text = print_jaxpr(jaxpr)
        assert print_jaxpr(parse_jaxpr(text)) == text
        return time.process_time() - start

    small, large = min(seconds(1000) for _ in range(3)), min(seconds(10_000) for _ in range(2))
    assert large < 60 * small
