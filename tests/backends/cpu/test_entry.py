"""The warm call path: guards, slots, outputs, results, errors, reference counts;
compiled entries and their Python form answer alike."""

import collections
import copy
import ctypes
import functools
import gc
import math
import operator
import struct
import sys
import threading
import time
import tracemalloc
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given, settings, strategies as st

from tracejit.backends import cpython, entry as e
from tracejit.backends.callable import CompiledFunction
from tracejit.backends.cpu.calls import dispatch, dispatch_chain
from tracejit.backends.cpu.calls.dispatch_chain import CAPACITY
from tracejit.backends.cpu.calls.dispatch_python import PythonDispatcher
from tracejit.backends.cpu.calls.entry_emit import emit_entry, join
from tracejit.backends.cpu.runtime import llvm
from tracejit.support.errors import InternalError

T = TypeVar("T")
NATIVE = cpython.native_dispatch_supported()[0]
MISS = "no entry matches"


@pytest.fixture(
    params=[
        pytest.param("native", marks=pytest.mark.skipif(not NATIVE, reason="native dispatch is not supported")),
        "python",
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def new(kind: str, miss: Callable[..., Any] = lambda *args, **kwargs: MISS) -> Any:
    return dispatch.NativeDispatcher(miss) if kind == "native" else PythonDispatcher(miss)


def add(dispatcher: Any, spec: e.EntrySpec, program: str, **options: Any) -> llvm.Library:
    """Compile `program` (IR that defines `spec.program`) with its entry, and add it."""
    if dispatcher.native:
        dispatch.ensure_loaded()
        library = llvm.load(join(program, emit_entry(spec, "entry")))
    else:
        library = llvm.load(program)
    dispatcher.add(spec, library.address("entry" if dispatcher.native else spec.program), library, **options)
    return library


# Copies `count` slots into the array that the slot after them points to: what the entry passed becomes the result.
RECORD = """
define i32 @record(ptr %slots) {{
entry:
  %last = getelementptr i64, ptr %slots, i64 {count}
  %out = load ptr, ptr %last
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %copy]
  %more = icmp ult i64 %i, {count}
  br i1 %more, label %copy, label %done
copy:
  %from = getelementptr i64, ptr %slots, i64 %i
  %word = load i64, ptr %from
  %to = getelementptr i64, ptr %out, i64 %i
  store i64 %word, ptr %to
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}}
"""

# out[i] = in[i] + 1 for float32; slots: in, out, n.
PLUS_ONE = """
define i32 @plus_one(ptr %slots) {
entry:
  %in = load ptr, ptr %slots
  %out_place = getelementptr i64, ptr %slots, i64 1
  %out = load ptr, ptr %out_place
  %n_place = getelementptr i64, ptr %slots, i64 2
  %n = load i64, ptr %n_place
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %from = getelementptr float, ptr %in, i64 %i
  %x = load float, ptr %from
  %y = fadd float %x, 1.0
  %to = getelementptr float, ptr %out, i64 %i
  store float %y, ptr %to
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
"""
NOTHING = "define i32 @nothing(ptr %slots) {\n  ret i32 0\n}\n"


def recording(signature: e.Signature, *slots: e.Slot, **options: Any) -> tuple[e.EntrySpec, str]:
    """An entry that returns the words of `slots` as int64."""
    output = e.OutputSpec(np.int64, (len(slots),))
    spec = e.EntrySpec(signature, (*slots, e.OutSlot(0)), (output,), e.OutLeaf(0), "record", **options)
    return spec, RECORD.format(count=len(slots))


def recorder(
    kind: str,
    *args: e.Guard,
    slots: tuple[e.Slot, ...] = (),
    kwargs: tuple[tuple[str, e.Guard], ...] = (),
    ordered: bool = False,
    **options: Any,
) -> Any:
    dispatcher = new(kind)
    add(dispatcher, *recording(e.Signature(args, kwargs, ordered), *slots, **options))
    return dispatcher.callable


def matcher(kind: str, *args: e.Guard, **options: Any) -> Callable[..., bool]:
    """Whether a call with these arguments matches."""
    function = recorder(kind, *args, **options)
    return lambda *values, **named: function(*values, **named) is not MISS


def plus_one(kind: str, shape: int | str = "n", **options: Any) -> Any:
    dispatcher = new(kind)
    spec = e.EntrySpec(
        e.Signature([e.ArrayGuard("f4", (shape,))]),
        [e.DataSlot(0), e.OutSlot(0), e.DimSlot(shape)],
        [e.OutputSpec("f4", (shape,))],
        e.OutLeaf(0),
        "plus_one",
        **options,
    )
    add(dispatcher, spec, PLUS_ONE)
    return dispatcher


def bits(number: float) -> int:
    return struct.unpack("q", struct.pack("d", number))[0]


# What programs receive.


def test_a_matching_call_runs_the_program(kind: str):
    function = plus_one(kind).callable
    x = np.arange(10, dtype=np.float32)
    result = function(x)
    assert type(result) is np.ndarray
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert result.flags.owndata or result.base is not None
    np.testing.assert_array_equal(result, x + 1)
    np.testing.assert_array_equal(function(x[:0]), x[:0])


def test_array_slots_are_address_strides_and_extents(kind: str):
    slots = (
        e.DataSlot(0),
        e.StrideSlot(0, 0),
        e.StrideSlot(0, 1),
        e.DimSlot("n"),
        e.DimSlot("m"),
        e.DimSlot(("mul", "n", "m")),
        e.DimSlot(7),
    )
    function = recorder(kind, e.ArrayGuard("f8", ("n", "m"), "strided"), slots=slots)
    base = np.zeros((6, 8))
    for x in (base, base.T, base[::-1, 1:], base[::2, ::-2], np.broadcast_to(base[0], (5, 8)), base[2:2]):
        n, m = x.shape
        assert function(x).tolist() == [x.__array_interface__["data"][0], *x.strides, n, m, n * m, 7]


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, -3e300, math.inf, math.nan, 5e-324])
def test_floats_arrive_as_their_bits(kind: str, number: float):
    function = recorder(kind, e.ScalarGuard("float"), slots=(e.ScalarSlot(0),))
    assert function(number).tolist() == [bits(number)]


@pytest.mark.parametrize(
    "number",
    [0, 1, -1, 5, 257, -(2**30) + 1, 2**30 - 1, 2**30, -(2**30), 2**31, 2**60, -(2**60) - 1, 2**61 - 1, 1 - 2**61],
)
def test_ints_of_64_bits_arrive(kind: str, number: int):
    assert recorder(kind, e.ScalarGuard("int"), slots=(e.ScalarSlot(0),))(number).tolist() == [number]


@pytest.mark.parametrize("number", [2**61, -(2**61), 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40, -(10**40)])
def test_larger_ints_do_not_match(kind: str, number: int):
    assert not matcher(kind, e.ScalarGuard("int"))(number)


def test_bools_and_complex_numbers_arrive(kind: str):
    function = recorder(
        kind,
        e.ScalarGuard("bool"),
        e.ScalarGuard("complex"),
        slots=(e.ScalarSlot(0), e.ScalarSlot(1), e.ScalarSlot(1, 1)),
    )
    assert function(True, 1.5 - 2j).tolist() == [1, bits(1.5), bits(-2.0)]
    assert function(False, complex(-0.0, math.inf)).tolist() == [0, bits(-0.0), bits(math.inf)]


def test_numpy_scalars_arrive_by_address(kind: str):
    dispatcher = new(kind)
    spec = e.EntrySpec(
        e.Signature([e.NumpyScalarGuard("f4")]),
        [e.DataSlot(0), e.OutSlot(0), e.DimSlot(1)],
        [e.OutputSpec("f4", ())],
        e.OutLeaf(0),
        "plus_one",
    )
    add(dispatcher, spec, PLUS_ONE)
    assert dispatcher.callable(np.float32(2.5)) == np.float32(3.5)
    assert dispatcher.callable(np.float64(2.5)) is MISS
    assert dispatcher.callable(np.array(2.5, np.float32)) is MISS


def test_constant_words_are_passed(kind: str):
    words = [0, 1, 2**63 - 1, -1]
    assert recorder(kind, slots=tuple(e.ConstSlot(word) for word in words))().tolist() == words


# Guards.

BASE = np.arange(24, dtype=np.float32).reshape(4, 6)
UNALIGNED = np.zeros(25, np.uint8)[1:].view(np.float32)
WITH_METADATA = BASE.astype(np.dtype(np.float32, metadata={"unit": "m"}))


def read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize(
    ("guard", "value", "matches"),
    [
        (e.ArrayGuard("f4", (4, 6)), BASE, True),
        (e.ArrayGuard("f4", (4, 6)), read_only(BASE), True),
        (e.ArrayGuard("f4", (4, 6)), WITH_METADATA, True),
        (e.ArrayGuard("f4", (4, 6)), BASE.astype("f8"), False),
        (e.ArrayGuard("f4", (4, 6)), BASE.astype(">f4"), False),
        (e.ArrayGuard("f4", (4, 6)), BASE.view(np.int32), False),
        (e.ArrayGuard("f4", (4, 6)), BASE.reshape(24), False),
        (e.ArrayGuard("f4", (4, 6)), BASE.reshape(6, 4), False),
        (e.ArrayGuard("f4", (4, 6)), np.asfortranarray(BASE), False),
        (e.ArrayGuard("f4", (4, 6)), np.ma.masked_array(BASE), False),
        (e.ArrayGuard("f4", (4, 6)), BASE.view(np.recarray), False),
        (e.ArrayGuard("f4", (4, 6)), BASE.tolist(), False),
        (e.ArrayGuard("f4", (4, 6)), None, False),
        (e.ArrayGuard("f4", (6,)), UNALIGNED, False),
        (e.ArrayGuard("f4", (6,), "strided"), UNALIGNED, False),
        (e.ArrayGuard("f4", (3,)), BASE[0, ::2], False),
        (e.ArrayGuard("f4", (3,), "strided"), BASE[0, ::2], True),
        (e.ArrayGuard("f4", (6, 4), "strided"), BASE.T, True),
        (e.ArrayGuard("f4", (4, 6), "strided"), BASE[::-1], True),
        (e.ArrayGuard("f4", (4, 6)), BASE[::-1], False),
        (e.ArrayGuard("f4", (5, 6), "strided"), np.broadcast_to(BASE[0], (5, 6)), True),
        (e.ArrayGuard("f4", ()), np.array(1, "f4"), True),
        (e.ArrayGuard("f4", ()), np.float32(1), False),
        (e.ArrayGuard("f4", ()), BASE[:1, 0], False),
        (e.ArrayGuard("f4", (0, 6)), BASE[:0], True),
        (e.ArrayGuard("f4", ("n", 6)), BASE[:0], True),
        (e.ArrayGuard("f4", ("n", 6)), BASE, True),
        (e.ArrayGuard("f4", ("n", 6)), BASE[:1], False),
        (e.ArrayGuard("f4", ("n", "n")), BASE, False),
        (e.ArrayGuard("f4", ("n", "n")), BASE[:, :4].copy(), True),
        (e.ArrayGuard("f4", (1, 6)), BASE[:1], True),
        (e.ArrayGuard("f4", (4, 6), writeable=True), BASE, True),
        (e.ArrayGuard("f4", (4, 6), writeable=True), read_only(BASE), False),
        (e.ArrayGuard("f4", (4, 6), "strided", True), BASE[::-1], True),
        (e.ArrayGuard("f4", (4, 6), "strided", scattered=True), BASE[::-1], True),
        (e.ArrayGuard("f4", (4, 6), "strided", scattered=True), BASE, False),
        (e.ArrayGuard("f4", (4, 6), "strided"), BASE, True),
        (e.ArrayGuard("i8", (2,)), np.zeros(2, np.int64), True),
        (e.ArrayGuard("i8", (2,)), np.zeros(2, np.uint64), False),
        (e.ArrayGuard(np.longlong, (2,)), np.zeros(2, np.longlong), True),
        (e.ArrayGuard("?", (2,)), np.zeros(2, bool), True),
        (e.ArrayGuard("f2", (2,)), np.zeros(2, "f2"), True),
        (e.ArrayGuard("c8", (2,)), np.zeros(2, "c8"), True),
        (e.ArrayGuard("M8[s]", (2,)), np.zeros(2, "M8[ms]"), False),
        (e.ScalarGuard("float"), 1.0, True),
        (e.ScalarGuard("float"), 1, False),
        (e.ScalarGuard("float"), np.float64(1), False),
        (e.ScalarGuard("int"), 1, True),
        (e.ScalarGuard("int"), True, False),
        (e.ScalarGuard("int"), 1.0, False),
        (e.ScalarGuard("int"), np.int64(1), False),
        (e.ScalarGuard("bool"), True, True),
        (e.ScalarGuard("bool"), 1, False),
        (e.ScalarGuard("bool"), np.True_, False),
        (e.ScalarGuard("complex"), 1j, True),
        (e.ScalarGuard("complex"), np.complex128(1j), False),
        (e.NumpyScalarGuard("?"), np.True_, True),
        (e.NumpyScalarGuard("f8"), np.float64(1), True),
        (e.NumpyScalarGuard("f8"), 1.0, False),
        (e.TupleGuard([]), (), True),
        (e.TupleGuard([]), (1,), False),
        (e.TupleGuard([e.ScalarGuard("int")]), (1,), True),
        (e.TupleGuard([e.ScalarGuard("int")]), [1], False),
        (e.TupleGuard([e.ScalarGuard("int")]), (1, 2), False),
        (e.TupleGuard([e.ScalarGuard("int")]), collections.namedtuple("P", "x")(1), False),
        (e.ListGuard([]), [], True),
        (e.ListGuard([e.ScalarGuard("int")]), [1], True),
        (e.ListGuard([e.ScalarGuard("int")]), [1.0], False),
        (e.ListGuard([e.ScalarGuard("int")]), (1,), False),
        (e.ListGuard([e.ScalarGuard("int")]), [], False),
        (e.DictGuard([], []), {}, True),
        (e.DictGuard([], []), {"a": 1}, False),
        (e.DictGuard(["a"], [e.ScalarGuard("int")]), {"a": 1}, True),
        (e.DictGuard(["a"], [e.ScalarGuard("int")]), {"b": 1}, False),
        (e.DictGuard(["a"], [e.ScalarGuard("int")]), {"a": 1, "b": 2}, False),
        (e.DictGuard(["a"], [e.ScalarGuard("int")]), {}, False),
        (e.DictGuard(["a"], [e.ScalarGuard("int")]), {1: 1}, False),
        (e.DictGuard(["a"], [e.ScalarGuard("int")]), {("a",): 1}, False),
        (e.DictGuard(["a"], [e.ScalarGuard("int")]), collections.OrderedDict(a=1), False),
    ],
)
def test_guard(kind: str, guard: e.Guard, value: Any, matches: bool):
    assert matcher(kind, guard)(value) == matches


def test_int64_and_longlong_are_two_types_where_numpy_says_so(kind: str):
    function = matcher(kind, e.ArrayGuard("i8", (2,)))
    assert function(np.zeros(2, np.longlong)) == (np.dtype(np.longlong).num == np.dtype("i8").num)


def test_an_array_that_warns_when_written_is_not_written(kind: str):
    view = np.zeros((2, 3))
    assert matcher(kind, e.ArrayGuard("f8", (2, 3), writeable=True))(view)
    view.flags._warn_on_write = True  # what np.broadcast_arrays returns
    assert matcher(kind, e.ArrayGuard("f8", (2, 3)))(view)
    assert not matcher(kind, e.ArrayGuard("f8", (2, 3), writeable=True))(view)


def test_names_bind_across_arguments(kind: str):
    function = matcher(kind, e.ArrayGuard("f4", ("n", "k")), e.ArrayGuard("f4", ("k", "m")))
    assert function(np.zeros((2, 3), "f4"), np.zeros((3, 4), "f4"))
    assert not function(np.zeros((2, 3), "f4"), np.zeros((4, 3), "f4"))
    assert not function(np.zeros((2, 1), "f4"), np.zeros((1, 3), "f4"))


def test_other_dtypes_match_by_identity_only(kind: str):
    record = np.dtype([("a", "f4"), ("b", "i4")])
    function = matcher(kind, e.ArrayGuard(record, (2,)))
    assert function(np.zeros(2, record))
    assert not function(np.zeros(2, np.dtype([("a", "f4"), ("b", "f4")])))


def test_object_and_swapped_dtypes_are_refused():
    for dtype in ("O", ">f4"):
        with pytest.raises(ValueError, match="native dtypes without objects"):
            e.ArrayGuard(dtype, (1,))


# Static arguments.


class Equal:
    """Equal to its own kind, by the answer it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __eq__(self, other: object) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    __hash__ = None  # type: ignore[assignment]


def fresh(text: str) -> str:
    """An equal string that is another object."""
    return "".join(list(text))


@pytest.mark.parametrize(
    ("value", "item", "matches"),
    [
        (None, None, True),
        (None, 0, False),
        ("relu", fresh("relu"), True),
        ("relu", fresh("gelu"), False),
        (np.dtype("f4"), np.dtype("f4", metadata={"a": 1}), True),
        (np.dtype("f4"), np.dtype("f8"), False),
        (np.float32, np.float32, True),
        (np.float32, np.float64, False),
        (1, True, False),
        (1, 1.0, False),
        (10**20, 10**20 + 0, True),
        (0.0, -0.0, False),
        (1.5, 3.0 / 2.0, True),
        (math.nan, float("nan"), True),
        (complex(0, 0.0), complex(0, -0.0), False),
        (complex(1, 2), complex(1, 2), True),
        ((1, "a"), (1, fresh("a")), True),
        ((1, "a"), (True, "a"), False),
        ((1, (2, 0.0)), (1, (2, -0.0)), False),
        ((1, (2, 0.5)), (1, (2, 1 / 2)), True),
        ((1, 2), (1, 2, 3), False),
        ((1, 2), [1, 2], False),
        (slice(1, 2), slice(1, 2), True),
        (slice(1, 2), slice(1, 3), False),
        (Equal(True), Equal(False), True),
        (Equal(False), Equal(True), False),
        (Equal(ValueError()), Equal(True), False),
        (Equal(np.zeros(2)), Equal(True), False),
    ],
)
def test_static_argument(kind: str, value: Any, item: Any, matches: bool):
    assert matcher(kind, e.StaticGuard(value))(item) == matches
    assert (
        matcher(kind, e.ListGuard([e.StaticGuard(value), e.TupleGuard([e.StaticGuard(value)])]))([item, (item,)])
        == matches
    )
    assert matcher(kind, e.StaticGuard(value))(value)


class Emptying:
    """Clears a list, and forces its memory to be used again, when compared."""

    def __init__(self, target: list[Any] | None = None) -> None:
        self.target = target

    def __eq__(self, other: object) -> bool:
        for side in (self, other):
            if isinstance(side, Emptying) and side.target is not None:
                side.target.clear()
                side.target = [np.full(1000, 7, "f4") for _ in range(20)]
        return True

    __hash__ = None  # type: ignore[assignment]


def test_a_comparison_may_empty_the_container_it_is_found_in(kind: str):
    array = e.ArrayGuard("f4", (1000,))
    function = recorder(kind, e.ListGuard([array, e.StaticGuard(Emptying()), array, e.StaticGuard(Emptying())]))
    for _ in range(10):
        items: list[Any] = [np.ones(1000, "f4"), Emptying(), np.ones(1000, "f4"), Emptying()]
        items[1].target = items
        if kind == "native":
            assert function(items) is MISS
        else:
            function(items)


# Any guards against any values: compiled and Python entries agree.

ARRAYS = st.builds(
    lambda dtype, shape, view: view(np.zeros(shape, dtype)),
    st.sampled_from(["f4", "f8", ">f4", "i8", "?"]),
    st.sampled_from([(), (1,), (3,), (4,), (0,), (3, 4), (4, 4), (1, 4)]),
    st.sampled_from([lambda a: a, lambda a: a.T, lambda a: a[::-1] if a.ndim else a, read_only]),
)
VALUES = st.recursive(
    ARRAYS | st.sampled_from([1.5, 2, 2**70, True, False, 1j, "a", "b", None, np.float32(1), np.dtype("f4"), (1, 2.0)]),
    lambda inner: (
        st.lists(inner, max_size=3).flatmap(lambda items: st.sampled_from([items, tuple(items)]))
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES_OR_NUMBERS = st.sampled_from([lambda n: n, lambda n: "n", lambda n: "m"])


@st.composite
def guards_for(draw: Any, value: Any) -> e.Guard:
    """A guard that `value` matches, unless it is an array that the drawn layout, names or writing exclude."""
    match value:
        case list():
            return e.ListGuard([draw(guards_for(item)) for item in value])
        case tuple():
            return e.TupleGuard([draw(guards_for(item)) for item in value])
        case dict():
            keys = draw(st.permutations(list(value)))
            return e.DictGuard(keys, [draw(guards_for(value[key])) for key in keys])
        case np.ndarray():
            shape = [draw(NAMES_OR_NUMBERS)(extent) for extent in value.shape]
            return e.ArrayGuard(
                value.dtype.newbyteorder("="), shape, draw(st.sampled_from(["C", "strided"])), draw(st.booleans())
            )
        case np.generic():
            return e.NumpyScalarGuard(value.dtype)
        case bool() | int() | float() | complex():
            return draw(st.sampled_from([e.ScalarGuard(type(value).__name__), e.StaticGuard(value)]))
        case _:
            return e.StaticGuard(value)


def slots_of(signature: e.Signature) -> Iterator[e.Slot]:
    for number, leaf in enumerate(e.leaves(signature)):
        match leaf:
            case e.ArrayGuard(_, shape):
                yield from (e.DataSlot(number), *(e.StrideSlot(number, axis) for axis in range(len(shape))))
            case e.ScalarGuard(kind):
                yield from (e.ScalarSlot(number, part) for part in range(2 if kind == "complex" else 1))
            case _:
                pass
    yield from (e.DimSlot(name) for name in e.bound_names(signature))


@pytest.mark.skipif(not NATIVE, reason="native dispatch is not supported")
@settings(max_examples=150)
@given(st.data())
def test_compiled_and_python_entries_agree(data: st.DataObject):
    args = data.draw(st.lists(VALUES, max_size=3))
    kwargs = data.draw(st.dictionaries(st.sampled_from(["p", "q", "r"]), VALUES, max_size=2))
    order = data.draw(st.permutations(list(kwargs)))
    signature = e.Signature(
        [data.draw(guards_for(item)) for item in args], [(key, data.draw(guards_for(kwargs[key]))) for key in order]
    )
    native, python = (
        recorder(kind, *signature.args, kwargs=signature.kwargs, slots=tuple(slots_of(signature)))
        for kind in ("native", "python")
    )
    other = data.draw(st.lists(VALUES, min_size=len(args), max_size=len(args)))
    for call in ((args, kwargs), (other, kwargs), (args[::-1], kwargs), (args, {**kwargs, "p": 1.5})):
        one, two = native(*call[0], **call[1]), python(*call[0], **call[1])
        assert (one is MISS) == (two is MISS)
        assert one is MISS or one.tolist() == two.tolist()


# Keywords and arity.


def test_arity(kind: str):
    number = e.ScalarGuard("int")
    function = matcher(kind, number, number)
    assert function(1, 2)
    assert function(1, 2, **{})
    for args, kwargs in (((), {}), ((1,), {}), ((1, 2, 3), {}), ((1,), {"b": 2}), ((1, 2), {"c": 3})):
        assert not function(*args, **kwargs)


def test_keywords_come_in_any_order(kind: str):
    number = e.ScalarGuard("int")
    slots = tuple(e.ScalarSlot(leaf) for leaf in range(4))
    function = recorder(kind, number, slots=slots, kwargs=(("a", number), ("b", number), ("c", number)))
    assert function(0, a=1, b=2, c=3).tolist() == [0, 1, 2, 3]
    assert function(0, c=3, a=1, b=2).tolist() == [0, 1, 2, 3]
    assert function(0, b=2, c=3, a=1).tolist() == [0, 1, 2, 3]
    for wrong in ({"a": 1, "b": 2}, {"a": 1, "b": 2, "d": 3}, {"a": 1, "b": 2, "c": 3, "d": 4}, {}):
        assert function(0, **wrong) is MISS
    assert function(0, 1, b=2, c=3) is MISS


def test_keywords_in_their_order(kind: str):
    number = e.ScalarGuard("int")
    function = recorder(
        kind, slots=(e.ScalarSlot(0), e.ScalarSlot(1)), kwargs=(("a", number), ("b", number)), ordered=True
    )
    assert function(a=1, b=2).tolist() == [1, 2]
    assert function(**{fresh("a"): 1, fresh("b"): 2}).tolist() == [1, 2]
    for wrong in ({"b": 2, "a": 1}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 2}):
        assert function(**wrong) is MISS


def test_keywords_and_keys_match_by_value(kind: str):
    class Text(str):
        pass

    number = e.ScalarGuard("int")
    function = recorder(
        kind,
        e.DictGuard(["width", "height"], [number, number]),
        kwargs=(("depth", number),),
        slots=tuple(e.ScalarSlot(leaf) for leaf in range(3)),
    )
    assert function({fresh("width"): 1, fresh("height"): 2}, **{fresh("depth"): 3}).tolist() == [1, 2, 3]
    assert function({"width": 1, "height": 2}, **{Text("depth"): 3}).tolist() == [1, 2, 3]
    assert function({"width": 1, Text("height"): 2}, depth=3) is MISS
    assert function({"depth": 1, "height": 2}, depth=3) is MISS
    assert function({"width": 1, "height": 2, "more": 0}, depth=3) is MISS
    assert function({"width": 1}, depth=3) is MISS


def test_keys_match_in_their_order(kind: str):
    number = e.ScalarGuard("int")
    function = recorder(kind, e.DictGuard(["a", "b"], [number, number]), slots=(e.ScalarSlot(0), e.ScalarSlot(1)))
    assert function({"a": 1, "b": 2}).tolist() == [1, 2]
    assert function({"b": 2, "a": 1}) is MISS


def test_large_dicts(kind: str):
    names = [f"key{number}" for number in range(40)]
    function = recorder(
        kind, e.DictGuard(names, [e.ScalarGuard("int")] * 40), slots=tuple(e.ScalarSlot(leaf) for leaf in range(40))
    )
    values = {name: place for place, name in enumerate(names)}
    assert function(values).tolist() == list(range(40))
    assert function({fresh(name): place for name, place in values.items()}).tolist() == list(range(40))
    assert function(dict(reversed(values.items()))) is MISS
    assert function({name: values[name] for name in names[:20] + names[:19:-1]}) is MISS
    del values["key7"]
    assert function(values) is MISS


def test_leaves_are_numbered_in_order_through_containers(kind: str):
    number = e.ScalarGuard("int")
    tree = e.TupleGuard(
        [number, e.ListGuard([number, e.DictGuard(["a", "b"], [number, e.TupleGuard([number])])]), number]
    )
    function = recorder(
        kind, tree, number, slots=tuple(e.ScalarSlot(leaf) for leaf in range(7)), kwargs=(("k", number),)
    )
    assert function((0, [1, {"a": 2, "b": (3,)}], 4), 5, k=6).tolist() == list(range(7))


# Arrays that are written.


def writing(kind: str, *guards: e.ArrayGuard) -> Callable[..., bool]:
    return matcher(kind, *guards)


def test_written_arrays_do_not_overlap_others(kind: str):
    base = np.zeros(100)
    function = writing(kind, e.ArrayGuard("f8", ("n",), writeable=True), e.ArrayGuard("f8", ("m",)))
    assert function(base[:50], base[50:])
    assert function(base[50:], base[:50])
    assert not function(base[:51], base[50:])
    assert not function(base[50:], base[:51])
    assert not function(base, base)
    assert not function(base, base[40:60])
    assert function(base, base[40:][:0])
    assert function(base[40:][:0], base)
    assert not writing(kind, e.ArrayGuard("f8", ("n",)), e.ArrayGuard("f8", ("n",), writeable=True))(base, base)


def test_arrays_that_are_read_may_overlap(kind: str):
    base = np.zeros(100)
    assert writing(kind, e.ArrayGuard("f8", ("n",)), e.ArrayGuard("f8", ("n",)))(base, base)


def test_overlap_of_strided_arrays_is_by_range_of_bytes(kind: str):
    base = np.zeros((10, 10))
    function = writing(kind, e.ArrayGuard("f8", ("n", "m"), "strided", True), e.ArrayGuard("f8", ("k", "l"), "strided"))
    assert function(base[:5], base[5:])
    assert function(base[4::-1], base[:4:-1])
    assert function(base.T[:, :5], base[5:])
    assert not function(base[:6], base[:4:-1])
    assert not function(base[::-1], base)
    assert not function(base[:, :5], base[:, 5:])  # interleaved rows: refused, though no element is shared
    assert function(base[:, :0], base)


def test_an_array_that_overlaps_itself_is_not_written(kind: str):
    windows = np.lib.stride_tricks.as_strided
    base = np.zeros(64)
    function = writing(kind, e.ArrayGuard("f8", ("n", "m"), "strided", True))
    assert not function(windows(base, (4, 3), (8, 8)))
    assert not function(windows(base, (4, 3), (0, 8)))
    assert not function(windows(base, (4, 3), (16, 8)))
    assert function(windows(base, (4, 3), (24, 8)))
    assert function(windows(base, (4, 3), (8, 32)))
    assert function(windows(base[::-1], (4, 3), (-24, -8)))
    assert function(base.reshape(8, 8)[::2, ::-3])
    assert function(base.reshape(8, 8)[:0])


def test_writes_land_in_the_argument(kind: str):
    dispatcher = new(kind)
    spec = e.EntrySpec(
        e.Signature([e.ArrayGuard("f4", ("n",), writeable=True)]),
        [e.DataSlot(0), e.DataSlot(0), e.DimSlot("n")],
        [],
        e.OutArg(0),
        "plus_one",
    )
    add(dispatcher, spec, PLUS_ONE)
    x = np.arange(5, dtype=np.float32)
    assert dispatcher.callable(x) is x
    np.testing.assert_array_equal(x, np.arange(1, 6))


# Extents and conditions.

EXTENTS = st.recursive(
    st.sampled_from(["n", "m"]) | st.integers(-9, 9) | st.sampled_from([2**62, -(2**63)]),
    lambda inner: st.tuples(st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "max", "min"]), inner, inner),
    max_leaves=6,
)


def expected(extent: e.Extent, dims: dict[str, int]) -> int | None:
    """What Python makes of an extent; None where a call must not match."""
    match extent:
        case int():
            return extent
        case str():
            return dims[extent]
        case (operation, left, right):
            a, b = expected(left, dims), expected(right, dims)
            if a is None or b is None or (operation in ("floordiv", "mod") and b in (0, -1)):
                return None
            functions = {"max": max, "min": min}
            value = (functions.get(operation) or getattr(operator, operation))(a, b)
            return value if -(2**63) <= value < 2**63 else None


@pytest.mark.skipif(not NATIVE, reason="native dispatch is not supported")
@settings(max_examples=60)
@given(st.lists(EXTENTS, min_size=1, max_size=4))
@example([("floordiv", "n", ("sub", 0, 1))])
@example([("mod", "n", ("sub", 0, 1))])
@example([("floordiv", -(2**63), -1)])
@example([("floordiv", "n", "m")])
@example([("floordiv", ("sub", 0, "n"), 4), ("mod", ("sub", 0, "n"), 4), ("mod", "n", -4)])
def test_extents_are_python_arithmetic(extents: list[Any]):
    signature = e.Signature([e.ArrayGuard("i1", ("n", "m"))])
    functions = [
        recorder(kind, *signature.args, slots=tuple(e.DimSlot(extent) for extent in extents))
        for kind in ("native", "python")
    ]
    for shape in ((0, 0), (2, 3), (7, 2), (5, 0), (64, 9)):
        want = [expected(extent, {"n": shape[0], "m": shape[1]}) for extent in extents]
        for function in functions:
            got = function(np.zeros(shape, np.int8))
            assert (got is MISS) if None in want else got.tolist() == want


def test_output_shapes_are_computed(kind: str):
    dispatcher = new(kind)
    shape = (("add", "n", "m"), 3, ("floordiv", ("mul", "n", "m"), 2))
    spec = e.EntrySpec(
        e.Signature([e.ArrayGuard("f4", ("n", "m"))]), [], [e.OutputSpec("i2", shape)], e.OutLeaf(0), "nothing"
    )
    add(dispatcher, spec, NOTHING)
    result = dispatcher.callable(np.zeros((4, 5), "f4"))
    assert result.shape == (9, 3, 10)
    assert result.dtype == np.int16


def test_a_negative_extent_of_an_output_does_not_match(kind: str):
    dispatcher = new(kind)
    signature = e.Signature([e.ArrayGuard("f4", ("n",))])
    add(
        dispatcher,
        e.EntrySpec(signature, [], [e.OutputSpec("f4", (("sub", "n", 3),))], e.OutLeaf(0), "nothing"),
        NOTHING,
    )
    assert dispatcher.callable(np.zeros(2, "f4")) is MISS
    assert dispatcher.callable(np.zeros(3, "f4")).shape == (0,)


@pytest.mark.parametrize("relation", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_conditions(kind: str, relation: Any):
    condition = e.Condition(relation, ("mod", "n", 4), 2)
    function = recorder(kind, e.ArrayGuard("f4", ("n",)), conditions=(condition,))
    for n in (0, 2, 3, 4, 5, 6, 7):
        assert (function(np.zeros(n, "f4")) is not MISS) == getattr(operator, relation)(n % 4, 2)


# Results.

# Fills the outputs whose addresses the slots hold, one byte each, with 1, 2, 3.
FILL = """
define i32 @fill(ptr %slots) {
  %a = load ptr, ptr %slots
  store i8 1, ptr %a
  %b_place = getelementptr i64, ptr %slots, i64 1
  %b = load ptr, ptr %b_place
  store i8 2, ptr %b
  %c_place = getelementptr i64, ptr %slots, i64 2
  %c = load ptr, ptr %c_place
  store i8 3, ptr %c
  ret i32 0
}
"""
Pair = collections.namedtuple("Pair", "first second")


def filling(kind: str, result: e.Result, *guards: e.Guard) -> Any:
    dispatcher = new(kind)
    slots = [e.OutSlot(index) for index in range(3)]
    outputs = [e.OutputSpec("u1", (1,)), e.OutputSpec("i1", ()), e.OutputSpec("u1", (1, 1))]
    add(dispatcher, e.EntrySpec(e.Signature(guards), slots, outputs, result, "fill"), FILL)
    return dispatcher.callable


def plain(value: Any) -> Any:
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case tuple() | list():
            return (
                type(value)(plain(item) for item in value) if type(value) in (tuple, list) else Pair(*map(plain, value))
            )
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case _:
            return value


A, B, C = (e.OutLeaf(index) for index in range(3))
RESULTS = [
    (A, [1]),
    (B, 2),
    (e.OutTuple([A, B, C]), ([1], 2, [[3]])),
    (e.OutTuple([C, A]), ([[3]], [1])),
    (e.OutTuple([]), ()),
    (e.OutList([]), []),
    (e.OutDict([], []), {}),
    (
        e.OutList([A, e.OutTuple([B]), e.OutDict(["x", "y"], [C, e.OutConst(None)])]),
        [[1], (2,), {"x": [[3]], "y": None}],
    ),
    (e.OutTuple([A, A, e.OutList([A, B, B])]), ([1], [1], [[1], 2, 2])),
    (e.OutConst("text"), "text"),
    (e.OutCall(Pair, [A, e.OutTuple([B, B])]), Pair([1], (2, 2))),
    (e.OutCall(list, []), []),
    (e.OutDict(["b", "a"], [e.OutDict(["c"], [A]), e.OutCall(Pair, [A, C])]), {"b": {"c": [1]}, "a": Pair([1], [[3]])}),
]


@pytest.mark.parametrize(("result", "wanted"), RESULTS)
def test_results(kind: str, result: e.Result, wanted: Any):
    got = filling(kind, result)()
    assert type(got) is type(wanted) or isinstance(got, np.ndarray | np.generic)
    assert plain(got) == wanted


def test_results_hold_arguments(kind: str):
    guards = (
        e.DictGuard(["a"], [e.StaticGuard(None)]),
        e.ListGuard([e.ArrayGuard("f4", (2,)), e.ScalarGuard("float")]),
    )
    function = filling(kind, e.OutTuple([e.OutArg(1), A, e.OutArg(2), e.OutArg(1), e.OutArg(0)]), *guards)
    x = np.zeros(2, "f4")
    one, first, number, two, none = function({"a": None}, [x, 2.5])
    assert one is x
    assert two is x
    assert number == 2.5
    assert none is None
    assert first.tolist() == [1]


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_rank_0_outputs_are_numpy_scalars(kind: str, dtype: str):
    dispatcher = new(kind)
    spec = e.EntrySpec(
        e.Signature(), [e.OutSlot(0), e.OutSlot(1), e.OutSlot(1)], [e.OutputSpec(dtype, ())] * 2, e.OutLeaf(0), "fill"
    )
    add(dispatcher, spec, FILL)
    result = dispatcher.callable()
    assert type(result) is np.dtype(dtype).type


class Boxed:
    """Immutable, with two slots; made without its constructor."""

    __slots__ = ("array", "tag")

    def __init__(self, array: Any, tag: Any) -> None:
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "tag", tag)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


class BoxedMore(Boxed):
    __slots__ = ()


def boxing(kind: str) -> Any:
    dispatcher = new(kind)
    spec = e.EntrySpec(
        e.Signature([e.ObjectGuard(Boxed, ("array", "tag"), [e.ArrayGuard("f4", ("n",)), e.StaticGuard("t")])]),
        [e.DataSlot(0), e.OutSlot(0), e.DimSlot("n")],
        [e.OutputSpec("f4", ("n",))],
        e.OutTuple(
            [e.OutObject(Boxed, ("array", "tag"), [A, e.OutArg(1)]), e.OutObject(Boxed, ("tag",), [e.OutConst(3)])]
        ),
        "plus_one",
    )
    add(dispatcher, spec, PLUS_ONE)
    return dispatcher.callable


def test_objects_with_slots_in_and_out(kind: str):
    function = boxing(kind)
    x = np.zeros(3, "f4")
    result, other = function(Boxed(x, "t"))
    assert type(result) is Boxed
    assert result.array.tolist() == [1, 1, 1]
    assert result.tag == "t"
    assert gc.is_tracked(result)
    assert other.tag == 3
    assert not hasattr(other, "array")
    for wrong in (Boxed(x, "u"), BoxedMore(x, "t"), Boxed([1.0], "t"), other, object(), (x, "t")):
        assert function(wrong) is MISS


def test_reference_counts_of_objects_with_slots(kind: str):
    function, x = boxing(kind), np.zeros(3, "f4")
    box = Boxed(x, "t")
    before = counts(box, x, Boxed)
    repeat(function, calls(kind), box)
    after = counts(box, x, Boxed)
    assert not leaked(before, after)


def test_only_slots_are_read():
    with pytest.raises(TypeError, match="'y' is not in the __slots__ of Boxed"):
        cpython.member_offset(Boxed, "y")


# Errors.


def test_a_miss_gets_the_call_as_it_was(kind: str):
    dispatcher = new(kind, lambda *args, **kwargs: (args, kwargs))
    assert dispatcher.callable(1, "a", k=2) == ((1, "a"), {"k": 2})
    add(dispatcher, *recording(e.Signature([e.ScalarGuard("int")])))
    assert dispatcher.callable(1, "a", z=3, k=2) == ((1, "a"), {"z": 3, "k": 2})
    assert dispatcher.callable() == ((), {})


def test_an_exception_of_the_miss_passes(kind: str):
    def miss(*args: Any) -> Any:
        raise KeyError(args)

    with pytest.raises(KeyError):
        new(kind, miss).callable(3)


STATUS = (
    "define i32 @status(ptr %slots) {\n  %word = load i64, ptr %slots\n  %status = trunc i64 %word to i32\n  "
    "ret i32 %status\n}\n"
)


@pytest.mark.parametrize("release", [False, True])
def test_a_status_goes_to_its_handler(kind: str, release: bool):
    calls: list[Any] = []

    def on_status(*call: Any) -> Any:
        calls.append(call)
        if call[0] == 7:
            raise IndexError("index 9 is out of bounds")
        return "handled"

    dispatcher = new(kind)
    number = e.ScalarGuard("int")
    outputs = [e.OutputSpec("f8", (3,))]
    spec = e.EntrySpec(
        e.Signature([number], [("k", number)]), [e.ScalarSlot(0)], outputs, e.OutLeaf(0), "status", release
    )
    add(dispatcher, spec, STATUS, on_status=on_status)
    assert dispatcher.callable(0, k=1).shape == (3,)
    assert dispatcher.callable(-5, k=1) == "handled"
    assert dispatcher.callable(-1, k=1) == "handled"  # -1 without an exception
    with pytest.raises(IndexError, match="out of bounds"):
        dispatcher.callable(7, k=2)
    assert calls == [(-5, (-5,), {"k": 1}), (-1, (-1,), {"k": 1}), (7, (7,), {"k": 2})]


def test_an_unexpected_status_is_a_bug_report(kind: str):
    dispatcher = new(kind)
    add(
        dispatcher,
        e.EntrySpec(e.Signature([e.ScalarGuard("int")]), [e.ScalarSlot(0)], [], e.OutConst(None), "status"),
        STATUS,
    )
    assert dispatcher.callable(0) is None
    with pytest.raises(InternalError, match="status 3"):
        dispatcher.callable(3)


RAISING = """
@message = private constant [12 x i8] c"interrupted\\00"
@PyExc_KeyError = external global ptr
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_SetString(ptr, ptr)
define i32 @raising(ptr %slots) {
  %gil = call i32 @PyGILState_Ensure()
  %kind = load ptr, ptr @PyExc_KeyError
  call void @PyErr_SetString(ptr %kind, ptr @message)
  call void @PyGILState_Release(i32 %gil)
  ret i32 -1
}
"""


@pytest.mark.parametrize("release", [False, True])
def test_an_exception_that_the_program_set_is_raised(kind: str, release: bool):
    dispatcher = new(kind)
    x = np.zeros(4, "f4")
    before = sys.getrefcount(x)
    signature = e.Signature([e.ListGuard([e.ArrayGuard("f4", (4,))])])
    add(
        dispatcher,
        e.EntrySpec(signature, [e.DataSlot(0)], [e.OutputSpec("f8", (3,))], e.OutLeaf(0), "raising", release),
        RAISING,
    )
    for _ in range(100):
        with pytest.raises(KeyError, match="interrupted"):
            dispatcher.callable([x])
    assert sys.getrefcount(x) == before


def test_an_output_that_does_not_fit_in_memory_is_an_error(kind: str):
    dispatcher = new(kind)
    signature = e.Signature([e.DictGuard(["x"], [e.ArrayGuard("f4", ("n",))])])
    outputs = [e.OutputSpec("f4", (5,)), e.OutputSpec("f8", (("mul", "n", 2**55),))]
    add(dispatcher, e.EntrySpec(signature, [], outputs, e.OutTuple([A, B]), "nothing"), NOTHING)
    x = np.zeros(4, "f4")
    before = sys.getrefcount(x), sys.getrefcount(np.dtype("f4"))
    for _ in range(100):
        with pytest.raises(MemoryError):
            dispatcher.callable({"x": x})
    assert (sys.getrefcount(x), sys.getrefcount(np.dtype("f4"))) == before


def test_a_result_constructor_that_raises(kind: str):
    class Held:
        pass

    def construct(*parts: Any) -> Any:
        raise ZeroDivisionError

    held = Held()
    function = filling(kind, e.OutTuple([e.OutConst(held), A, e.OutList([A, B]), e.OutCall(construct, [A, C]), C]))
    before = sys.getrefcount(held)
    for _ in range(1000):
        with pytest.raises(ZeroDivisionError):
            function()
    gc.collect()
    assert sys.getrefcount(held) == before


def test_specs_with_dangling_references_are_refused():
    signature = e.Signature([e.ArrayGuard("f4", ("n",)), e.ScalarGuard("float")])
    for slots, outputs, result in (
        ([e.DataSlot(1)], [], e.OutConst(None)),
        ([e.DataSlot(2)], [], e.OutConst(None)),
        ([e.StrideSlot(0, 1)], [], e.OutConst(None)),
        ([e.ScalarSlot(0)], [], e.OutConst(None)),
        ([e.ScalarSlot(1, 1)], [], e.OutConst(None)),
        ([e.OutSlot(0)], [], e.OutConst(None)),
        ([e.DimSlot("m")], [], e.OutConst(None)),
        ([], [e.OutputSpec("f4", (("add", "n", "k"),))], e.OutConst(None)),
        ([], [e.OutputSpec("f4", (("pow", "n", 2),))], e.OutConst(None)),
        ([], [], e.OutLeaf(0)),
        ([], [], e.OutArg(2)),
        ([], [], e.OutDict(["a"], [])),
    ):
        with pytest.raises(ValueError, match="The entry of 'p'"):
            e.EntrySpec(signature, slots, outputs, result, "p")


# The GIL.

HELD = """
declare i32 @PyGILState_Check()
define i32 @held(ptr %slots) {
  %held = call i32 @PyGILState_Check()
  %wide = sext i32 %held to i64
  %out = load ptr, ptr %slots
  store i64 %wide, ptr %out
  ret i32 0
}
"""


@pytest.mark.parametrize(
    ("release", "n", "held"),
    [(False, 9, 1), (True, 9, 0), ("n", 9, 1), (("mul", "n", e.GIL_WORK), 1, None), (("mul", "n", e.GIL_WORK), 2, 0)],
)
def test_the_gil_is_released_when_asked(kind: str, release: Any, n: int, held: int | None):
    dispatcher = new(kind)
    signature = e.Signature([e.ArrayGuard("i1", ("n",))])
    add(dispatcher, e.EntrySpec(signature, [e.OutSlot(0)], [e.OutputSpec("i8", ())], A, "held", release), HELD)
    assert dispatcher.callable(np.zeros(n, np.int8)) == (MISS if held is None else held)


# Writes 1 into byte 1 of the array in slot 0, then waits until its byte 0 is not 0.
WAIT = """
define i32 @wait(ptr %slots) {
entry:
  %flag = load ptr, ptr %slots
  %started = getelementptr i8, ptr %flag, i64 1
  store atomic i8 1, ptr %started release, align 1
  br label %loop
loop:
  %value = load atomic i8, ptr %flag acquire, align 1
  %go = icmp ne i8 %value, 0
  br i1 %go, label %done, label %loop
done:
  ret i32 0
}
"""


class Weak:
    """Something a weak reference can refer to."""


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_leaves_of_containers_and_code_are_held_during_the_program(kind: str):
    dispatcher = new(kind)
    spec = e.EntrySpec(
        e.Signature([e.ListGuard([e.ArrayGuard("u1", (2,))])]), [e.DataSlot(0)], [], e.OutArg(0), "wait", True
    )
    library = add(new(kind), spec, WAIT)
    code = Weak()
    gone = weakref.ref(code)
    dispatcher.add(spec, library.address("entry" if dispatcher.native else "wait"), code)
    arguments = [np.zeros(2, np.uint8)]
    flags = (ctypes.c_uint8 * 2).from_address(arguments[0].ctypes.data)
    array = weakref.ref(arguments[0])
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(dispatcher.callable(arguments)))
    thread.start()
    wait_for(lambda: flags[1])
    arguments.clear()
    dispatcher.clear()
    del code
    gc.collect()
    alive = gone() is not None, array() is not None
    flags[0] = 1
    thread.join()
    assert alive == (True, True)
    assert result[0].tolist() == [1, 1]
    gc.collect()
    assert gone() is None
    assert len(dispatcher) == 0
    assert dispatcher.callable([result[0]]) is MISS


# The chain.


def consistent(dispatcher: Any) -> bool:
    """Whether the chain holds each entry once, and the hints only such."""
    if not dispatcher.native:
        return len(set(map(id, dispatcher._entries))) == len(dispatcher)
    words = dispatcher.state.tolist()
    records = words[dispatch_chain.CHAIN :][: words[dispatch_chain.COUNT]]
    hints = set(words[dispatch_chain.CHAIN + CAPACITY : dispatch_chain.NAME]) - {0}
    return sorted(records) == sorted(dispatcher._entries) and hints <= set(records)


def sized(kind: str, dispatcher: Any, n: int, **options: Any) -> None:
    spec = e.EntrySpec(
        e.Signature([e.ArrayGuard("f4", (n,))]),
        [e.DataSlot(0), e.OutSlot(0), e.DimSlot(n)],
        [e.OutputSpec("f4", (n,))],
        A,
        "plus_one",
        **options,
    )
    add(dispatcher, spec, PLUS_ONE)


@pytest.mark.parametrize("count", [2, 8, 9, 30, CAPACITY])
def test_every_entry_is_found(kind: str, count: int):
    dispatcher = new(kind)
    arrays = [np.arange(n, dtype=np.float32) for n in range(1, count + 1)]
    for x in arrays:
        sized(kind, dispatcher, x.size)
    rng = np.random.default_rng(0)
    for index in (*range(count), *range(count), *reversed(range(count)), *rng.integers(0, count, 500)):
        result = dispatcher.callable(arrays[index])
        assert result is not MISS
        assert result.tolist() == (arrays[index] + 1).tolist()
    assert len(dispatcher) == count
    assert consistent(dispatcher)
    assert dispatcher.callable(np.zeros(count + 1, "f4")) is MISS
    dispatcher.clear()
    assert dispatcher.callable(arrays[0]) is MISS


def test_the_least_recently_used_entry_makes_room(kind: str):
    dispatcher = new(kind)
    arrays = [np.zeros(n, "f4") for n in range(CAPACITY + 20)]
    for n in range(CAPACITY):
        sized(kind, dispatcher, n)
    for _ in range(2):
        for n in reversed(range(CAPACITY)):
            assert dispatcher.callable(arrays[n]) is not MISS
    before = list(dispatcher._entries.values() if dispatcher.native else dispatcher._entries)
    for n in range(CAPACITY, CAPACITY + 20):
        sized(kind, dispatcher, n)
    assert len(dispatcher) == CAPACITY
    assert consistent(dispatcher)
    before.clear()  # until here the evicted entries' addresses could not be used again
    forgotten = [n for n in range(CAPACITY + 20) if dispatcher.callable(arrays[n]) is MISS]
    assert forgotten == list(range(CAPACITY - 20, CAPACITY))


def test_an_evicted_entry_is_released(kind: str):
    dispatcher = new(kind)
    spec = e.EntrySpec(e.Signature([e.ScalarGuard("int")]), [], [], e.OutConst(None), "nothing")
    library = add(new(kind), spec, NOTHING)
    address = library.address("entry" if dispatcher.native else "nothing")
    held = [Weak() for _ in range(3 * CAPACITY)]
    gone = [weakref.ref(item) for item in held]
    while held:
        dispatcher.add(spec, address, held.pop(0))
    gc.collect()
    assert [item() is None for item in gone] == [True] * (2 * CAPACITY) + [False] * CAPACITY
    dispatcher.clear()
    gc.collect()
    assert not any(item() for item in gone)


def test_the_newest_entry_is_tried_first(kind: str):
    dispatcher = new(kind)
    for answer in ("old", "new"):
        add(
            dispatcher, e.EntrySpec(e.Signature([e.ScalarGuard("int")]), [], [], e.OutConst(answer), "nothing"), NOTHING
        )
    assert dispatcher.callable(1) == "new"


def test_a_call_may_change_the_dispatcher_it_came_through(kind: str):
    dispatcher = new(kind)
    depth: list[int] = []

    def again(x: Any) -> Any:
        if len(depth) == 50:
            dispatcher.clear()
            gc.collect()
            return x
        depth.append(1)
        return dispatcher.callable(x)

    spec = e.EntrySpec(
        e.Signature([e.ArrayGuard("f4", (4,))]),
        [e.DataSlot(0), e.OutSlot(0), e.DimSlot(4)],
        [e.OutputSpec("f4", (4,))],
        e.OutCall(again, [A]),
        "plus_one",
    )
    add(dispatcher, spec, PLUS_ONE)
    assert dispatcher.callable(np.zeros(4, "f4")).tolist() == [51.0] * 4
    assert len(dispatcher) == 0


def test_a_call_may_add_entries_before_its_own(kind: str):
    dispatcher = new(kind)

    def constant(answer: Any, signature: e.Signature) -> e.EntrySpec:
        result = e.OutCall(answer, []) if callable(answer) else e.OutConst(answer)
        return e.EntrySpec(signature, [], [], result, "nothing")

    def grow() -> str:
        add(dispatcher, constant("float", e.Signature([e.ScalarGuard("float")])), NOTHING)
        return "int"

    add(dispatcher, constant(grow, e.Signature([e.ScalarGuard("int")])), NOTHING)
    add(dispatcher, constant("bool", e.Signature([e.ScalarGuard("bool")])), NOTHING)
    for value in (1, True, 1.5, 1, 1.5, True):
        assert dispatcher.callable(value) == type(value).__name__
        assert consistent(dispatcher)
    assert len(dispatcher) == 4


def test_endless_recursion_is_python_s_error():
    function: Any = None
    function = dispatch.make_dispatcher(lambda x: function(x)).callable
    with pytest.raises(RecursionError):
        function(1)


def test_the_callable_keeps_what_it_needs(kind: str):
    function = plus_one(kind).callable
    gc.collect()
    assert function(np.zeros(2, "f4")).tolist() == [1, 1]
    assert "compiled" in repr(function) or kind == "python"


def test_a_dispatcher_in_a_cycle_is_collected(kind: str):
    class Owner:
        __slots__ = ("__call__", "__weakref__", "held")

        def miss(self, *args: Any) -> Any:
            return MISS

    owner = Owner()
    dispatcher = new(kind, owner.miss)
    owner.__call__ = dispatcher.callable
    owner.held = Weak()
    spec = e.EntrySpec(e.Signature([e.ScalarGuard("int")]), [], [], e.OutConst(owner), "nothing")
    add(dispatcher, spec, NOTHING)
    assert owner("a") is MISS
    assert owner(1) is owner
    gone = weakref.ref(owner), weakref.ref(owner.held)
    del owner, dispatcher, spec
    gc.collect()
    assert [item() for item in gone] == [None, None]


def test_threads_call_while_another_adds_and_clears(kind: str):
    dispatcher = new(kind, lambda x: x + 1)
    spec_of = {}
    for n in range(1, 20):
        spec = e.EntrySpec(
            e.Signature([e.ArrayGuard("f4", (n,))]),
            [e.DataSlot(0), e.OutSlot(0), e.DimSlot(n)],
            [e.OutputSpec("f4", (n,))],
            A,
            "plus_one",
            n % 2 == 0,
        )
        library = add(new(kind), spec, PLUS_ONE)
        spec_of[n] = spec, library.address("entry" if dispatcher.native else "plus_one"), library
    wrong: list[Any] = []
    stop = threading.Event()

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            while not stop.is_set():
                x = rng.random(rng.integers(1, 20), np.float32)
                if not np.array_equal(dispatcher.callable(x), x + np.float32(1)):
                    wrong.append(x)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for round_number in range(60):
            for n, (spec, address, library) in spec_of.items():
                if (n + round_number) % 3:
                    dispatcher.add(spec, address, library)
            if round_number % 7 == 0:
                dispatcher.clear()
            time.sleep(0.002)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not wrong
    assert consistent(dispatcher)


# Objects that are called through a dispatcher.


class Function(CompiledFunction, Generic[T]):
    """As `jit` makes them."""

    __slots__ = ("__call__", "__dict__", "__weakref__")


def installed(kind: str, miss: Callable[..., Any] = lambda *args, **kwargs: MISS) -> Any:
    """A function whose dispatcher adds keyword `k` to argument 0, both int."""
    dispatcher = new(kind, miss)
    number = e.ScalarGuard("int")
    slots = (e.ScalarSlot(0), e.ScalarSlot(1))
    add(dispatcher, *recording(e.Signature([number], [("k", number)]), *slots))
    function: Any = Function()
    function.__call__ = dispatcher.callable
    assert dispatch.attach(function, dispatcher) == (kind == "native" and NATIVE)
    return function


def test_a_function_goes_through_its_own_call_until_it_is_installed(kind: str):
    function: Any = Function()
    function.__call__ = lambda *args, **kwargs: ("own", args, kwargs)
    assert function(1, k=2) == ("own", (1,), {"k": 2})
    dispatcher = plus_one(kind)
    x = np.zeros(3, "f4")
    if dispatch.attach(function, dispatcher):
        assert function(x).tolist() == [1, 1, 1]
        assert function("a") is MISS
    else:
        assert function(x)[0] == "own"


def test_every_way_to_call_a_function(kind: str):
    function = installed(kind, lambda *args, **kwargs: (args, kwargs))
    assert function(3, k=4).tolist() == [3, 4]
    assert function(*[3], **{"k": 4}).tolist() == [3, 4]
    assert functools.partial(function, k=4)(3).tolist() == [3, 4]
    assert function.__call__(3, k=4).tolist() == [3, 4]
    assert list(map(function, [5, 6])) == [((5,), {}), ((6,), {})]
    assert function() == ((), {})
    assert function(1, 2, a=3) == ((1, 2), {"a": 3})
    method = types.MethodType(function, 3)
    assert method(k=4).tolist() == [3, 4]
    assert method(9) == ((3, 9), {})


def test_functions_have_attributes(kind: str):
    function = installed(kind)
    function.note = 1
    assert function.note == 1
    assert callable(function)
    assert weakref.ref(function)() is function


@pytest.mark.skipif(not NATIVE, reason="native dispatch is not supported")
def test_functions_are_not_copied_with_their_address(kind: str):
    with pytest.raises(TypeError, match="cannot pickle"):
        copy.copy(installed(kind))


def test_a_function_in_a_cycle_with_its_dispatcher_is_collected(kind: str):
    function = installed(kind)
    function.itself = function
    function.__call__ = functools.partial(function.__call__, tag=function)
    gone = weakref.ref(function)
    assert function(3, k=4) is not None
    del function
    gc.collect()
    assert gone() is None


def test_a_function_whose_state_was_cleared_raises():
    function = installed("native" if NATIVE else "python")
    if _uses_vectorcall(function):
        del function._called_state
        with pytest.raises(ReferenceError):
            function(3, k=4)


def _uses_vectorcall(function: Any) -> bool:
    return hasattr(function, "_called_state")


def test_reference_counts_of_a_million_calls_of_a_function(kind: str):
    function, number = installed(kind), 2**61
    before = counts(function, number, MISS, *Function.__mro__[:-1])
    repeat(function, calls(kind), number, k=number)
    repeat(function, calls(kind), number)
    after = counts(function, number, MISS, *Function.__mro__[:-1])
    assert not leaked(before, after)


# Reference counts over many calls.


def calls(kind: str) -> int:
    return 1_000_000 if kind == "native" else 20_000


def counts(*objects: object) -> list[int]:
    return [sys.getrefcount(item) for item in objects]


def leaked(before: list[int], after: list[int]) -> list[int]:
    """By how much counts differ where that is more than a few: strings and dtypes belong to the whole process,
    its other threads too."""
    return [b - a for a, b in zip(before, after, strict=True) if abs(b - a) > 20]


def repeat(function: Callable[..., Any], times: int, *args: Any, **kwargs: Any) -> None:
    for _ in range(times):
        function(*args, **kwargs)


def test_reference_counts_of_a_million_calls(kind: str):
    tag = Weak()
    array = e.ArrayGuard("f4", (10,))
    guards = (
        array,
        e.DictGuard(["a", "b"], [array, e.ListGuard([array, e.ScalarGuard("float")])]),
        e.StaticGuard(("mode", 3)),
    )
    dispatcher = new(kind)
    result = e.OutTuple([A, e.OutDict(["x", "y"], [A, e.OutConst(tag)]), e.OutArg(1), B])
    spec = e.EntrySpec(
        e.Signature(guards, [("k", e.ScalarGuard("int"))]),
        [e.DataSlot(0), e.OutSlot(0), e.DimSlot(10)],
        [e.OutputSpec("f4", (10,)), e.OutputSpec("f4", ())],
        result,
        "plus_one",
    )
    add(dispatcher, spec, PLUS_ONE)
    function = dispatcher.callable
    x, number, key = np.zeros(10, "f4"), 1e100, "k"
    tree = {"a": x, "b": [x, number]}
    mode = ("mode", 3)
    kept = (x, tree, tree["b"], number, key, mode, np.dtype("f4"), tag, function, np.float32, "x", "y", MISS)
    assert function(x, tree, mode, k=3)[1]["y"] is tag
    repeat(function, 2000, x, tree, mode, k=3)
    tracemalloc.start()
    try:
        repeat(function, 1000, x, tree, mode, k=3)
        gc.collect()  # garbage of other tests refers to interned strings too
        before, grown = counts(*kept), list[int]()
        for _ in range(2):  # what is lost is lost each time; what other threads allocate meanwhile is not
            memory = tracemalloc.get_traced_memory()[0]
            repeat(function, calls(kind) // 4, x, tree, mode, k=3)
            gc.collect()
            grown.append(tracemalloc.get_traced_memory()[0] - memory)
    finally:
        tracemalloc.stop()
    repeat(function, calls(kind), x, tree, mode, k=3)
    gc.collect()
    assert not leaked(before, counts(*kept))
    # less than any object each call; the rest is what free lists hold
    assert min(grown) < 6 * calls(kind) // 4 + 65_536


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((1,), {}),
        ((np.zeros(9, "f4"), {"a": 1}), {}),
        ((np.zeros(10, "f4"), {"b": 0, "a": 0}, 3), {"k": 2**70}),
    ],
)
def test_reference_counts_of_a_million_misses(kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]):
    array = e.ArrayGuard("f4", (10,))
    guards = (array, e.DictGuard(["a", "b"], [e.ScalarGuard("int")] * 2), e.StaticGuard(4))
    dispatcher = new(kind)
    for _ in range(3):
        add(dispatcher, *recording(e.Signature(guards, [("k", e.ScalarGuard("int"))])))
    function = dispatcher.callable
    kept = (*args, *kwargs, *kwargs.values(), MISS)
    assert function(*args, **kwargs) is MISS
    before = counts(*kept)
    repeat(function, calls(kind), *args, **kwargs)
    assert not leaked(before, counts(*kept))


def test_reference_counts_of_failing_programs(kind: str):
    dispatcher = new(kind)
    x, tag = np.zeros(4, "f4"), Weak()
    signature = e.Signature(
        [e.ListGuard([e.ArrayGuard("f4", (4,)), e.ScalarGuard("int")])], [("k", e.StaticGuard(None))]
    )
    spec = e.EntrySpec(
        signature, [e.ScalarSlot(1)], [e.OutputSpec("f8", (3,))], e.OutTuple([A, e.OutConst(tag)]), "status"
    )
    add(dispatcher, spec, STATUS, on_status=lambda status, args, kwargs: None)
    function, items = dispatcher.callable, [x, 5]
    assert function(items, k=None) is None
    before = counts(x, items, tag, np.dtype("f8"))
    repeat(function, calls(kind) // 10, items, k=None)
    after = counts(x, items, tag, np.dtype("f8"))  # not in the assert: pytest would hold the dtype once more
    assert not leaked(before, after)


@pytest.mark.skipif(not NATIVE, reason="native dispatch is not supported")
def test_every_allocation_may_fail():
    testcapi = pytest.importorskip("_testcapi")
    array = e.ArrayGuard("f4", (10,))
    box = e.OutObject(Boxed, ("array", "tag"), [A, e.OutDict(["x", "y"], [A, e.OutArg(1)])])
    result = e.OutTuple([A, e.OutList([B, box]), e.OutConst(3.5)])
    outputs = [e.OutputSpec("f4", (10,)), e.OutputSpec("f8", ())]
    spec = e.EntrySpec(
        e.Signature([e.ListGuard([array, array])]),
        [e.DataSlot(0), e.OutSlot(0), e.DimSlot(10)],
        outputs,
        result,
        "plus_one",
    )
    dispatcher = new("native")
    add(dispatcher, spec, PLUS_ONE)
    function, items = dispatcher.callable, [np.zeros(10, "f4"), np.ones(10, "f4")]
    function(items)
    before = counts(*items, items, np.dtype("f4"), np.dtype("f8"))
    failures = 0
    for start in range(14):
        for _ in range(50):
            testcapi.set_nomemory(start, 0)
            try:
                function(items)
            except MemoryError:
                failures += 1
            finally:
                testcapi.remove_mem_hooks()
    assert failures >= 50
    after = counts(*items, items, np.dtype("f4"), np.dtype("f8"))
    assert not leaked(before, after)


# The text.


@pytest.mark.skipif(not NATIVE, reason="native dispatch is not supported")
def test_code_does_not_depend_on_the_process():
    def spec(value: Any, word: int, handler: Any) -> e.EntrySpec:
        signature = e.Signature([e.StaticGuard(value), e.ArrayGuard("f4", ("n",))], [("k", e.ScalarGuard("int"))])
        return e.EntrySpec(
            signature,
            [e.ConstSlot(word), e.DimSlot("n")],
            [e.OutputSpec("i8", (2,))],
            e.OutCall(handler, [A]),
            "record",
        )

    one, two = emit_entry(spec("relu", 1, list), "entry"), emit_entry(spec((1, 2), 2**63, tuple), "entry")
    assert one == two
    assert str(id(np.ndarray)) not in one
    assert hex(id(np.ndarray)) not in one


@pytest.mark.skipif(not NATIVE, reason="native dispatch is not supported")
def test_object_code_is_loaded_again():
    spec, program = recording(e.Signature([e.ArrayGuard("f4", ("n",)), e.StaticGuard("a")]), e.DimSlot("n"))
    dispatch.ensure_loaded()
    code = llvm.load(join(program, emit_entry(spec, "entry"))).object
    library = llvm.load_object(code)
    dispatcher = new("native")
    dispatcher.add(spec, library.address("entry"), library)
    assert dispatcher.callable(np.zeros(7, "f4"), "a").tolist() == [7]
    assert dispatcher.callable(np.zeros(7, "f4"), "b") is MISS


def test_joined_texts_declare_a_symbol_once():
    texts = ("declare ptr @f(ptr)\ndeclare i64 @g()\n", "declare i64 @g()\ndefine ptr @f(ptr %x) {\n  ret ptr %x\n}\n")
    assert join(*texts) == "declare i64 @g()\ndefine ptr @f(ptr %x) {\n  ret ptr %x\n}\n"


# What is known about the interpreter.


def test_the_environment_can_ask_for_python(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACEJIT_DISPATCH", "python")
    assert cpython.native_dispatch_supported() == (False, "TRACEJIT_DISPATCH=python")
    assert isinstance(dispatch.make_dispatcher(print), PythonDispatcher)
    monkeypatch.delenv("TRACEJIT_DISPATCH")
    assert dispatch.make_dispatcher(print).native == cpython.native_dispatch_supported()[0]


def wrong_layouts() -> Iterator[cpython.Layout]:
    right = cpython.layout()
    for name in (
        "array_ndim",
        "array_flags",
        "dtype_num",
        "dtype_byteorder",
        "float_value",
        "complex_value",
        "long_size",
        "numpy_scalar",
    ):
        yield evolve(right, **{name: getattr(right, name) + 4})
    yield evolve(right, array_data=right.array_shape)
    yield evolve(right, tuple_items=right.tuple_items - 8)
    yield evolve(right, wide_refcount=not right.wide_refcount)
    yield evolve(right, long_tag=not right.long_tag)


@pytest.mark.skipif(not NATIVE, reason="native dispatch is not supported")
def test_a_wrong_layout_is_noticed():
    assert all(right for _, right in cpython.probes(cpython.layout()))
    for layout in wrong_layouts():
        assert not all(right for _, right in cpython.probes(layout)), layout
