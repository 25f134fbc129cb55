"""Input that does not fit: NumPy's answer, or an error that says what to write instead, with the user's line; never a crash or damage.

Each error is compared as a whole text.
"""

import copy
import decimal
import fractions
import functools
import gc
import pickle
import random
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import (
    ConcretizationError,
    DtypeError,
    IndexOutOfBounds,
    LeakedTracerError,
    NegativePower,
    NumberOutOfBounds,
    RefusedByNumPy,
    ShapeError,
    TracejitError,
    TracerError,
    UnsupportedError,
    UserError,
)

PARENTHESES = "; comparisons joined by &, | and ~ need parentheses: (x > 0) & (x < 1)"
DTYPES = "bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64, c64, c128"
X = np.arange(3.0)
M = np.arange(6.0).reshape(2, 3)


def failure(call: Callable[[], Any], kind: type[Exception] = TracejitError) -> Any:
    """The error of a call.  What was jitted before works afterwards."""
    with pytest.raises(kind) as error:
        call()
    np.testing.assert_array_equal(tj.jit(lambda x: x + 1)(np.zeros(2)), [1, 1])
    return error.value


def refused(function: Callable[..., Any], *args: Any) -> tuple[type, str, str]:
    """(class, message, the underlined text) of the error that a jitted function raises, twice the same."""
    jitted = tj.jit(function)
    first, again = failure(lambda: jitted(*args)), failure(lambda: jitted(*args))
    assert first.message == again.message
    assert jitted.compilations == 0
    lines = str(first).splitlines()
    assert lines[1].startswith("  at test_bad_input.py:"), str(first)
    marked = ""
    if len(lines) > 3 and set(lines[3].strip()) == {"^"}:
        start = lines[3].index("^")
        marked = lines[2][start : start + len(lines[3].strip())]
    return type(first), first.message, marked


# -- shapes, ranks, axes, arity -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "args", "message", "marked"),
    [
        (lambda x, y: x + y, (X, np.ones(4)), "shapes (3,) and (4,) cannot be broadcast: axis -1 is 3 and 4", "x + y"),
        (lambda x, y: x * y, (M, np.ones((3, 2))), "shapes (2, 3) and (3, 2) cannot be broadcast: axis -2 is 2 and 3", "x * y"),
        (lambda x, y: np.maximum(x, y), (M, np.ones(2)), "shapes (2, 3) and (2,) cannot be broadcast: axis -1 is 3 and 2", "np.maximum(x, y)"),
        (
            lambda x, y: x @ y, (M, M),
            "np.matmul: axis 1 of shape (2, 3) is 3, axis 0 of shape (2, 3) is 2; their products are summed", "x @ y",
        ),
        (lambda x, y: x @ y, (M, 3.0), "np.matmul does not accept arrays of rank 0; use *", "x @ y"),
        (lambda x: x.sum(axis=2), (M,), "axis 2 is out of bounds for an array of rank 2", "x.sum(axis=2)"),
        (lambda x: np.sum(x, axis=(0, 0)), (M,), "duplicate axes in (0, 0)", "np.sum(x, axis=(0, 0))"),
        (lambda x: x.reshape(4, 4), (M,), "cannot reshape an array of 6 elements, of shape (2, 3), to (4, 4)", "x.reshape(4, 4)"),
        (lambda x: np.zeros((2, -1)) + x, (X,), "negative dimensions are not allowed in shape (2, -1)", "np.zeros((2, -1))"),
        (lambda x: x.min(), (np.zeros(0),), "np.min: zero-size array f64[0] has no identity for this reduction", "x.min()"),
        (lambda x: x.argmax(), (np.zeros(0),), "np.argmax: an empty axis of f64[0] has no extremum", "x.argmax()"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit(function: Any, args: Any, message: str, marked: str):
    kind, *said = refused(function, *args)
    assert issubclass(kind, ShapeError)
    assert said == [message, marked]


def test_shape_errors_are_value_errors_and_name_the_function():
    def loss(x: Any, y: Any) -> Any:
        z = x * 2
        return z + y

    error = failure(lambda: tj.jit(loss)(X, np.ones(4)), ValueError)
    first = loss.__code__.co_firstlineno
    assert str(error) == (
        "shapes (3,) and (4,) cannot be broadcast: axis -1 is 3 and 4\n"
        f"  at test_bad_input.py:{first + 2}:16 in loss\n"
        "      return z + y\n"
        "             ^^^^^"
    )


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1.0,), {}, "<lambda>() missing 1 required positional argument: 'y'"),
        ((1, 2, 3), {}, "<lambda>() takes 2 positional arguments but 3 were given"),
        ((1,), {"z": 3}, "<lambda>() got an unexpected keyword argument 'z'"),
        ((1, 2), {"x": 3}, "<lambda>() got multiple values for argument 'x'"),
    ],
)
def test_arity_is_pythons(args: Any, kwargs: Any, message: str):
    f = tj.jit(lambda x, y: x + y)
    f(1.0, 2.0)
    error = failure(lambda: f(*args, **kwargs), TypeError)
    assert str(error).endswith(message)


# -- arguments ------------------------------------------------------------------------------------------------------------------------------
def unsupported(name: str) -> str:
    return f"argument 1: dtype {name} is not supported; supported are {DTYPES}"


def no_leaf(name: str) -> str:
    return (
        f"argument 1 is of type {name}, which is neither an array, a number, a container of them, nor hashable; "
        "register its class with tj.tree_util.register_node, or pass it through a closure"
    )


def subclass(name: str) -> str:
    return f"argument 1 is a {name}: subclasses of ndarray are not supported; pass np.asarray(x)"


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (np.array([None, 1]), DtypeError, unsupported("object")),
        (np.array(["a"]), DtypeError, unsupported("<U1")),
        (np.array([b"a"]), DtypeError, unsupported("|S1")),
        (np.zeros(2, [("a", "f4")]), DtypeError, unsupported("[('a', '<f4')]")),
        (np.array(["2020"], "M8[D]"), DtypeError, unsupported("datetime64[D]")),
        (np.array([1], "m8[s]"), DtypeError, unsupported("timedelta64[s]")),
        (np.array([1j], "G"), DtypeError, unsupported("complex256")),
        (np.str_("a"), DtypeError, unsupported("<U1")),
        (np.datetime64("2020"), DtypeError, unsupported("datetime64[Y]")),
        (np.ones((1, 2)).view(np.matrix), UnsupportedError, subclass("numpy.matrix")),
        (np.ma.array([1, 2], mask=[0, 1]), UnsupportedError, subclass("numpy.ma.MaskedArray")),
        (np.rec.array([(1,)], dtype=[("a", "i4")]), UnsupportedError, subclass("numpy.rec.recarray")),
        ({"a": 1}.keys(), UnsupportedError, no_leaf("dict_keys")),
        (memoryview(bytearray(b"ab")), UnsupportedError, no_leaf("memoryview")),
    ],
)  # fmt: skip
def test_arguments_of_other_kinds(value: Any, kind: type, message: str):
    f = tj.jit(lambda x: x)
    for _ in range(2):
        error = failure(lambda: f(value))
        assert (type(error), error.message) == (kind, message)
        assert "f(value)" in str(error)  # the caller's line
    nested = failure(lambda: tj.jit(lambda d: d["a"][1])({"a": (1.0, value)}))
    assert nested.message == message.replace("argument 1", "argument 1['a'][1]")


def test_arguments_that_contain_themselves():
    loop: list[Any] = [1]
    loop.append(loop)
    error = failure(lambda: tj.jit(lambda x: x)(loop))
    assert (type(error), error.message) == (
        UserError,
        "an argument contains itself, or is nested deeper than Python's recursion limit; arguments are trees of arrays",
    )


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).astype(">f8"), np.arange(6, dtype=">i4"), np.frombuffer(bytes(range(49)), np.uint8)[1:].view(np.float64), np.zeros((0, 3)),
        np.array(3.0), np.broadcast_to(np.arange(3.0), (2, 3)), np.arange(6.0)[::-1], np.asfortranarray(M), np.zeros((3, 0, 2)), np.ones((1, 1, 1)),
        np.lib.stride_tricks.sliding_window_view(np.arange(6.0), 3), np.bool_(True), np.float16(2.5), np.int8(-3),
    ],
)  # fmt: skip
def test_arrays_of_every_memory(array: Any):
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    f = tj.jit(lambda x: (x * 2 + 1, x.sum(), x > 1))
    for _ in range(3):
        for got, want in zip(f(array), (array * 2 + 1, array.sum(), array > 1), strict=True):
            assert np.asarray(got).dtype == want.dtype.newbyteorder("=")
            np.testing.assert_allclose(got, want)


@pytest.mark.parametrize(
    "value", ["text", b"bytes", None, np.float32, np.dtype("i4"), len, Ellipsis, frozenset({1}), (1, "a"), slice(1, None, 2), str]
)
def test_constants_of_every_kind(value: Any):
    def f(x: Any, c: Any) -> Any:
        assert c == value or isinstance(value, tuple)  # (1, "a") holds a number, which is traced
        return x + 1

    jitted = tj.jit(f)
    for _ in range(3):
        np.testing.assert_array_equal(jitted(X, value), X + 1)
    assert jitted.compilations == 1


def test_slices_are_constants():
    f = tj.jit(lambda x, s: x[s])
    for s in (slice(1, 3), slice(None, None, -1), slice(1, 3), slice(-2, None)):
        np.testing.assert_array_equal(f(X, s), X[s])
    assert f.compilations == 3


def test_numbers_that_are_equal_and_differ():
    f = tj.jit(lambda x, n: x * 1.0 if n > 0 else x + np.copysign(1.0, n))
    np.testing.assert_array_equal(f(X, 0.0), X + 1)
    np.testing.assert_array_equal(f(X, -0.0), X - 1)
    np.testing.assert_array_equal(f(X, float("nan")), X + 1)
    np.testing.assert_array_equal(f(X, float("nan")), X + 1)
    assert f.compilations == 1  # a branch of the program
    g = tj.jit(lambda x, n: x[: n + 1])
    for n in (True, 1, 2):
        np.testing.assert_array_equal(g(X, n), X[: n + 1])


def test_constants_whose_comparison_fails():
    class Bad:
        def __eq__(self, other: object) -> Any:
            raise ValueError("mine")

        def __hash__(self) -> int:
            return 1

    class Elementwise(Bad):
        def __eq__(self, other: object) -> Any:
            return np.array([True, False])

        __hash__ = Bad.__hash__

    f = tj.jit(lambda x, c: x + 1)
    for value in (Bad(), Bad(), Elementwise(), Elementwise()):
        np.testing.assert_array_equal(f(X, value), X + 1)


def test_subclasses_of_numbers_are_constants():
    class Count(int):
        pass

    assert tj.jit(lambda x, n: x[n])(X, Count(2)) == 2
    np.testing.assert_array_equal(tj.jit(lambda x, n: x * n)(X, Count(2)), X * 2)


def test_dicts_with_any_keys():
    f = tj.jit(lambda d: {**d, "sum": d[1] + d[(2, 3)]})
    for _ in range(2):
        out = f({1: X, (2, 3): X * 2})
        assert list(out) == [1, (2, 3), "sum"]
        np.testing.assert_array_equal(out["sum"], X * 3)


CHANGES = (
    "f changes a list or dict that it was given, which the caller would not see; copy it first (d = dict(d)) and return the copy, or change the "
    "arrays in it in place (d['x'][...] = v)"
)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(new=1), lambda d: d.__setitem__("x", d["x"] + 1), lambda d: d.pop("x"), lambda d: d["list"].append(3),
        lambda d: d["list"].clear(),
    ],
)  # fmt: skip
def test_changed_containers(change: Any):
    def f(d: Any) -> Any:
        change(d)
        return 1

    given = {"x": X, "list": [X]}
    error = failure(lambda: tj.jit(f)(given))
    assert (type(error), error.message) == (UserError, CHANGES)
    assert list(given) == ["x", "list"]
    assert len(given["list"]) == 1


# -- operands -----------------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "message", "marked"),
    [
        (lambda x: x + "a", "str is not an array", 'x + "a"'),
        (lambda x: x + None, "NoneType is not an array; use `x is None`", "x + None"),
        (lambda x: x + object(), f"dtype object is not supported; supported are {DTYPES}", "x + object()"),
        (lambda x: x * decimal.Decimal(1), f"dtype object is not supported; supported are {DTYPES}", "x * decimal.Decimal(1)"),
        (lambda x: x * fractions.Fraction(1, 2), f"dtype object is not supported; supported are {DTYPES}", "x * fractions.Fraction(1, 2)"),
        (lambda x: ~x, f"np.invert does not accept f64{PARENTHESES}", "~x"),
        (lambda x: x << 1, "np.left_shift does not accept f64", "x << 1"),
        (lambda x: x & x, f"np.bitwise_and does not accept f64{PARENTHESES}", "x & x"),
        (lambda x: -(x > 1), "np.negative does not accept bool; use ~ for boolean arrays", "-(x > 1)"),
        (lambda x: (x > 1) - (x > 1), "np.subtract does not accept bool; use ^ for boolean arrays", "(x > 1) - (x > 1)"),
        (lambda x: x.astype("G"), f"dtype complex256 is not supported; supported are {DTYPES}", 'x.astype("G")'),
        (lambda x: x.astype("no"), "'no' is not a dtype", 'x.astype("no")'),
    ],
)  # fmt: skip
def test_operands_of_other_kinds(function: Any, message: str, marked: str):
    kind, *rest = refused(function, X)
    assert issubclass(kind, DtypeError)
    assert rest == [message, marked]


def test_numbers_that_do_not_fit_the_dtype():
    assert refused(lambda x: x + 300, np.ones(2, np.uint8)) == (
        NumberOutOfBounds,
        "Python integer 300 out of bounds for uint8",
        "x + 300",
    )
    failure(lambda: tj.jit(lambda x: x + 2**70)(np.ones(2, np.int64)), OverflowError)
    np.testing.assert_array_equal(tj.jit(lambda x: x + 2**70)(X), X + 2**70)


def test_changing_an_integer_array_by_floats():
    def f(x: Any) -> None:
        x += 1.5

    assert refused(f, np.ones(2, int)) == (
        DtypeError,
        "cannot change an array of int64 in place by one of float64; use y = x + ... for a new array",
        "x += 1.5",
    )


# -- indices --------------------------------------------------------------------------------------------------------------------------------
def set_far(x: Any) -> None:
    x[np.array([9])] = 1


def set_item(index: Any, value: Any = 1) -> Callable[[Any], None]:
    def f(x: Any) -> None:
        x[index] = value

    return f


@pytest.mark.parametrize(
    ("function", "message", "marked"),
    [
        (lambda x: x[5], "index 5 is out of bounds for an axis of extent 3", "x[5]"),
        (lambda x: x[-4], "index -4 is out of bounds for an axis of extent 3", "x[-4]"),
        (lambda x: x[np.array([0, 7])], "index 7 is out of bounds for an axis of extent 3", "x[np.array([0, 7])]"),
        (lambda x: x[[0, -5]], "index -5 is out of bounds for an axis of extent 3", "x[[0, -5]]"),
        (lambda x: x[0, 0], "too many indices: the array has 1 axes, 2 are indexed", "x[0, 0]"),
        (lambda x: x[..., ...], "an index can have one Ellipsis only", "x[..., ...]"),
        (lambda x: x[1.0], "an index is float; indices are integers, slices, None, Ellipsis and arrays", "x[1.0]"),
        (lambda x: x["a"], "an index is str; indices are integers, slices, None, Ellipsis and arrays", 'x["a"]'),
        (lambda x: x[::0], "a slice step cannot be zero", "x[::0]"),
        (lambda x: x[np.array([True, False])], "a mask of shape (2,) does not fit axes of (3,)", "x[np.array([True, False])]"),
        (set_item(5), "index 5 is out of bounds for an axis of extent 3", "x[index]"),
        (set_far, "index 9 is out of bounds for an axis of extent 3", "x[np.array([9])]"),
    ],
)
def test_indices_out_of_range(function: Any, message: str, marked: str):
    assert refused(function, X) == (IndexOutOfBounds, message, marked)
    assert issubclass(IndexOutOfBounds, IndexError)


def test_values_that_do_not_fit_the_place():
    assert refused(set_item(slice(0, 2), X), X)[:2] == (ShapeError, "a value of shape (3,) cannot be assigned to (2,)")
    assert refused(set_item(slice(0, 2), "a"), X)[:2] == (DtypeError, "str is not an array")


def test_traced_indices_stay_inside_the_array():
    """No index reaches foreign memory before it raises."""
    f = tj.jit(lambda x, i: x[i])
    for index in (7, -9, np.int64(100), np.array([0, 7, -9]), 2**62, -(2**62)):
        assert failure(lambda index=index: f(X, index), IndexOutOfBounds).message.endswith("is out of bounds for an axis of extent 3")

    def g(x: Any, i: Any) -> None:
        x[i] = 5

    before, after = np.zeros(3), np.zeros(3)
    whole = np.concatenate([before, X, after])
    for index in (np.int64(100), np.int64(-100), np.array([50, -50])):
        failure(lambda index=index: tj.jit(g)(whole[3:6], index), IndexOutOfBounds)
        np.testing.assert_array_equal(whole[:3], before)
        np.testing.assert_array_equal(whole[6:], after)


# -- values that are not known ------------------------------------------------------------------------------------------------------------------
def test_numbers_as_keys():
    """A lookup by an argument needs its value: comparing objects instead would miss it without a word."""
    names, calls = {1: "double", 2: "triple"}, list[int]()

    @functools.lru_cache
    def weights(n: int) -> Any:
        calls.append(n)
        return np.arange(3) * n

    by_name = tj.jit(lambda x, n: x * 2 if names[n] == "double" else x * 3)
    by_set = tj.jit(lambda x, n: x[:2] if n in {1, 2} else x)
    by_cache = tj.jit(lambda x, n: x + weights(n))
    for n in (1, 2, 1):
        np.testing.assert_array_equal(by_name(X, n), X * (n + 1))
        np.testing.assert_array_equal(by_set(X, n), X[:2])
        np.testing.assert_array_equal(by_cache(X, n), X + np.arange(3) * n)
    np.testing.assert_array_equal(by_set(X, 3), X)
    assert calls == [1, 2]
    with pytest.raises(KeyError):
        by_name(X, 4)
    assert refused(lambda x: names[x[0].astype(np.int64)], X) == (
        ConcretizationError,
        "a lookup in a dict or set, or a cached function, needs the value of a traced array i64[], which is not known while tracing; use np.select "
        "or tj.lax.switch, or make the argument a Python number",
        "names[x[0].astype(np.int64)]",
    )
    assert refused(lambda x: x in {1, 2}, X)[:2] == (
        RefusedByNumPy, "a traced array is unhashable, as np.ndarray is; look it up by something else",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("function", "message", "marked"),
    [
        (
            lambda x: x.tolist(),
            "tolist() needs the value of a traced array f64[3], which is not known while tracing; return the array and call tolist() outside",
            "x.tolist()",
        ),
    ],
)
def test_values_that_are_needed_while_tracing(function: Any, message: str, marked: str):
    kind, text, found = refused(function, X)
    assert (kind, text) == (ConcretizationError, message)
    assert found.strip("{}") in (marked, "") or marked in found


def test_values_of_numbers_are_asked_for():
    assert tj.jit(lambda n: "positive" if n > 0 else "negative")(3.0) == "positive"
    np.testing.assert_array_equal(tj.jit(lambda x, n: np.stack([x] * n))(X, 2), [X, X])


def test_masks_have_shapes_that_are_not_known():
    kind, message, marked = refused(lambda x: tj.vmap(lambda r: r[r > 1])(x), X.reshape(1, -1))
    assert (kind, message, marked) == (
        UnsupportedError,
        "under vmap, the shape of x[mask] differs from element to element; use np.where(mask, x, other), or call the function in a loop",
        "tj.vmap(lambda r: r[r > 1])(x)",
    )


# -- leaks ------------------------------------------------------------------------------------------------------------------------------------
def leaking() -> Any:
    """A traced array that was kept where nobody looks: in a generator."""
    kept: list[Any] = []

    def keep() -> Any:
        while True:
            kept.append((yield))

    keeper = keep()
    next(keeper)
    with pytest.warns(UserWarning, match="where a generator from outside stands is not followed"):
        tj.jit(lambda x: keeper.send(x + 1) or x)(X)
    return kept[0]


ENDED = "a traced array f64[3] is used after its trace has ended; it was stored where it outlived its function"
RETURNED = "a traced array f64[3] is used after the function that was traced had returned; return it instead of storing it"
OTHER = "a traced array f64[3] of another trace is used here; it was stored where it outlived its function"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda t: t + 1, ENDED), (lambda t: np.sin(t), ENDED), (lambda t: t[0], ENDED), (lambda t: t.__setitem__(0, 1), ENDED),
        (lambda t: t.sum(), ENDED), (lambda t: np.asarray(t), RETURNED), (lambda t: bool(t), RETURNED), (lambda t: t.tolist(), RETURNED),
        (lambda t: tj.jit(lambda x: x + t)(X), OTHER), (lambda t: tj.lax.fori_loop(0, 3, lambda i, c: c + t, X), OTHER),
        (lambda t: tj.grad(lambda x: (x * t).sum())(X), ENDED),
        (lambda t: tj.jit(lambda x: x)(t), "argument 1 is a traced array f64[3] whose trace has ended; return it instead of storing it"),
        (
            lambda t: tj.jit(lambda x: x)([1, t]),
            "argument 1[1] is a traced array f64[3] whose trace has ended; return it instead of storing it",
        ),
    ],
)  # fmt: skip
def test_leaked_arrays(use: Any, message: str):
    leaked = leaking()
    assert leaked.shape == (3,)
    error = failure(lambda: use(leaked))
    assert (type(error), error.message) == (LeakedTracerError, message)
    assert error.location is not None


def test_arrays_that_leak_out_of_a_loop_body():
    def f(x: Any) -> Any:
        kept: dict[str, Any] = {}
        tj.lax.fori_loop(0, 3, lambda i, c: kept.setdefault("c", c) + 1, x)
        return kept["c"] + x

    kind, text = refused(f, X)[:2]
    assert kind is TracerError
    assert text.startswith("the body of a loop or branch keeps a traced array for the next iteration")


# -- results ----------------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "shown"),
    [({1, 2}, "a set"), ((i for i in ()), "a generator"), (abs, "a builtin_function_or_method"), (object(), "an object"), (Ellipsis, "an ellipsis")],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:where a generator from outside stands:UserWarning")
def test_results_of_other_kinds(value: Any, shown: str):
    def f(x: Any) -> Any:
        return {"a": [x, value]}

    error = failure(lambda: tj.jit(f)(X))
    assert (type(error), error.message) == (
        TracerError,
        f"f returned {shown}; results are arrays, numbers, strings, None or containers of them",
    )


def test_results_of_no_arguments():
    assert tj.jit(lambda: 3)() == 3
    assert tj.jit(lambda: None)() is None
    np.testing.assert_array_equal(tj.jit(lambda: np.arange(3) * 2)(), [0, 2, 4])


# -- arithmetic -----------------------------------------------------------------------------------------------------------------------------------
EXTREMES = np.array([0, 1, -1, 2, -2, 7, 2**63 - 1, -(2**63), -(2**63) + 1])
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1.7e308])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x // y, lambda x, y: x % y, lambda x, y: x / y,
        lambda x, y: divmod(x, y), lambda x, y: x << (y & 7), lambda x, y: x >> (y & 7), lambda x, y: np.abs(x), lambda x, y: -x,
        lambda x, y: np.sum(x * y), lambda x, y: np.cumsum(x), lambda x, y: np.prod(x), lambda x, y: x == y,
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_integer_arithmetic_wraps_and_never_traps(function: Any, dtype: Any, backend: str):
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(EXTREMES, EXTREMES))
    with np.errstate(all="ignore"):
        want = function(x, y)
    got = tj.jit(function, backend=backend)(x, y)
    for g, w in zip(got, want, strict=True) if isinstance(want, tuple) else ((got, want),):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x // y, lambda x, y: x % y, lambda x, y: np.maximum(x, y),
        lambda x, y: np.fmin(x, y), lambda x, y: x < y, lambda x, y: x == y, lambda x, y: np.sign(x), lambda x, y: np.sqrt(x),
        lambda x, y: np.floor(x), lambda x, y: np.exp(x), lambda x, y: np.log(x), lambda x, y: np.tanh(x), lambda x, y: np.arctan2(x, y),
        lambda x, y: x.max(), lambda x, y: x.argmax(), lambda x, y: np.isnan(x), lambda x, y: np.copysign(x, y), lambda x, y: np.rint(x),
        lambda x, y: np.hypot(x, y), lambda x, y: np.where(x > y, x, y), lambda x, y: np.clip(x, -1, 1), lambda x, y: x.sum(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_nan_infinities_and_subnormals(function: Any, dtype: Any, backend: str):
    with np.errstate(all="ignore"):
        x, y = (a.ravel().astype(dtype) for a in np.meshgrid(SPECIAL, SPECIAL))
        want = function(x, y)
    got = tj.jit(function, backend=backend)(x, y)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    np.testing.assert_allclose(got, want, rtol=2e-6 if dtype is np.float32 else 1e-14, atol=0)
    if np.asarray(want).dtype.kind == "f":
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(np.asarray(got)[known]), np.signbit(np.asarray(want)[known]))


# -- sizes ------------------------------------------------------------------------------------------------------------------------------------
def test_a_thousand_sizes_compile_twice():
    @tj.jit
    def f(x: Any, y: Any) -> Any:
        z = np.concatenate([x, y * 2])
        return (z.reshape(2, -1) + np.roll(x, 1)).sum(), z.argmax(), np.cumsum(x)[-1] / x.shape[0], z[1:-1:2], np.pad(x, 1).max()

    def plain(x: Any, y: Any) -> Any:
        z = np.concatenate([x, y * 2])
        return (z.reshape(2, -1) + np.roll(x, 1)).sum(), z.argmax(), np.cumsum(x)[-1] / x.shape[0], z[1:-1:2], np.pad(x, 1).max()

    rng = np.random.default_rng(0)
    for n in rng.permutation(np.arange(3, 1003)):
        x, y = rng.random(n), rng.random(n)
        for got, want in zip(f(x, y), plain(x, y), strict=True):
            np.testing.assert_allclose(got, want)
    assert f.compilations == 2


def outer(x: Any) -> Any:
    return x[:, None] * x


def running(x: Any) -> Any:
    return np.cumsum(x[:, None] * x, axis=0)[-1, -1]


def cube(x: Any) -> Any:
    """More elements than 64 bits count, for arrays that are large."""
    return np.cumsum(x[:, None, None, None] * x[:, None, None] * x[:, None] * x, axis=1)[-1, -1, -1, -1]


@pytest.mark.parametrize("function", [outer, running, cube])
def test_memory_that_nobody_has(function: Any):
    """Results and intermediate arrays that do not fit: MemoryError, and the next call works."""
    f = tj.jit(function)
    for _ in range(2):
        np.testing.assert_allclose(f(X), function(X))
        failure(lambda: f(np.ones(4_000_000)), MemoryError)
        failure(lambda: f(np.ones(5_000_000)), MemoryError)


# -- loops --------------------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda i, c: c * 0.5, "[loop] carry 0 is i64[3] before and f64[3] after an iteration; make them equal (astype, reshape)"),
        (lambda i, c: c[:1], "[loop] carry 0 is i64[3] before and i64[1] after an iteration; make them equal (astype, reshape)"),
        (lambda i, c: (c, c), "loop: the body returns another structure than it was given ((*, *) instead of *)"),
        (lambda i, c: None, "loop: the body returns another structure than it was given (None instead of *)"),
    ],
)
def test_carries_that_change(body: Any, message: str):
    assert failure(lambda: tj.jit(lambda x: tj.lax.fori_loop(0, 3, body, x))(np.arange(3))).message == message


LEFT = (
    "a loop over tj.range is left early (break, return or an exception); its body is traced once and stands for every iteration; use "
    "tj.lax.while_loop, or Python's range for a loop that is unrolled"
)


def test_loops_that_are_left_early(without_statements: None):
    def breaking(x: Any) -> Any:
        for _ in tj.range(10):
            x[0] += 1
            break
        return x

    def returning(x: Any) -> Any:
        for _ in tj.range(10):
            return x + 1
        return x

    for f in (breaking, returning):
        assert refused(f, X.copy())[:2] == (TracerError, LEFT)


def test_loops_that_are_left_by_an_error_which_is_kept():
    kept: list[Any] = []

    def caught(x: Any) -> Any:
        try:
            [missing for _ in tj.range(3)]  # type: ignore[name-defined]
        except NameError as error:
            kept.append(error)
        x[0] = 5
        return x

    def started(x: Any) -> Any:
        kept.append(iter(tj.range(3)))
        next(kept[-1])
        return x

    for f in (caught, tj.vmap(lambda x: caught(x * 1)), started):
        error, message, *_ = refused(f, np.ones((2, 4)))
        assert error is TracerError
        assert message == LEFT or f is started
    kept.clear()


def test_the_generator_of_a_loop_may_go_at_any_time():
    def f(x: Any) -> Any:
        return [missing for _ in tj.range(3)]  # type: ignore[name-defined]  # noqa: F821

    def after(x: Any, drop: Any) -> Any:
        y = x + 1
        drop()
        y[0] = 7
        return y * 2

    kept: list[Any] = []

    def drop() -> None:
        kept.clear()
        gc.collect()

    def in_another_thread() -> None:
        thread = threading.Thread(target=drop)
        thread.start()
        thread.join()

    for way in (drop, in_another_thread):
        for traced in (False, True):
            try:
                tj.jit(f)(X)
            except NameError as error:
                kept.append(error)
            if not traced:
                way()
            made = tj.jit(functools.partial(after, drop=way if traced else lambda: None))
            np.testing.assert_array_equal(made(np.ones(3)), [14, 4, 4])


@pytest.mark.parametrize("loop", [
    lambda x, body: tj.lax.fori_loop(0, 2, lambda i, c: body(), 0),
    lambda x, body: tj.lax.while_loop(lambda c: c < 3, lambda c: body(), 0),
    lambda x, body: tj.lax.cond(x[0] > 0, body, body),
    lambda x, body: tj.lax.scan(lambda c, e: body(), 0, x),
])  # fmt: skip
def test_changes_of_a_body_that_raises_are_not_lost(loop: Any):
    def f(x: Any) -> Any:
        y = x.copy()

        def body() -> Any:
            y[0] += 1
            raise ValueError("enough")

        try:
            loop(x, body)
        except ValueError:
            pass
        return y

    error, message, *_ = refused(f, np.ones(3))
    assert error is TracerError
    assert "changes an array and then raises ValueError, which the function catches" in message

    def unchanged(x: Any) -> Any:
        def body() -> Any:
            raise ValueError("enough")

        try:
            loop(x, body)
        except ValueError:
            return x + 1
        return x

    np.testing.assert_array_equal(tj.jit(unchanged)(np.ones(3)), [2, 2, 2])


def test_the_smallest_of_an_array_of_rank_0_and_a_number_may_be_either():
    def changed(a: Any, c: Any) -> Any:
        row = a[min(np.where(c, 1, 2), 2)]
        row += 100
        return a

    def read(a: Any, c: Any) -> Any:
        return a + a[min(np.where(c, 1, 2), 2)] + a[max(np.where(c, 1, 0), np.where(c, 0, 2))]

    def of_arrays(a: Any, c: Any) -> Any:
        row = a[min(np.where(c, 1, 2), np.where(c, 2, 0))]
        row += 100
        return a

    def of_numbers(a: Any, c: Any) -> Any:
        row = a[min(c + 1, 2)]
        row += 100
        return a

    a = np.arange(6.0).reshape(3, 2)
    with pytest.raises(UnsupportedError, match="is a view or a copy depends on what k is"):
        tj.jit(changed)(a.copy(), True)
    for f in (read, of_arrays, of_numbers):
        for c in (True, False):
            np.testing.assert_array_equal(tj.jit(f)(a.copy(), c), f(a.copy(), c))


def test_names_that_a_loop_binds_anew(without_statements: None):
    def f(x: Any) -> Any:
        total = 0.0
        for i in tj.range(3):
            total += x[i]
        return total

    assert refused(f, X)[:2] == (
        TracerError,
        "the loop over tj.range binds 'total' anew in every iteration, which is not carried to the next; change an array in place "
        "(total[...] = ...) or use tj.lax.fori_loop",
    )


# -- what was found and fixed ----------------------------------------------------------------------------------------------------------------------
def agree(function: Callable[..., Any], *args: Any) -> None:
    """The jitted function gives NumPy's results and changes arguments as NumPy does."""
    want_args, got_args = [a.copy() for a in args], [a.copy() for a in args]
    want, got = function(*want_args), tj.jit(function)(*got_args)
    for g, w in zip(got, want, strict=True) if isinstance(want, tuple) else ((got, want),):
        np.testing.assert_array_equal(g, w)
    for g, w in zip(got_args, want_args, strict=True):
        np.testing.assert_array_equal(g, w)


def test_an_element_is_a_number_and_no_view():
    def f(x: Any) -> Any:
        first = x[0]
        first += 5
        x[0] = 9
        return first, x * 1

    def swap(x: Any) -> Any:
        x[0], x[2] = x[2], x[0]
        return x * 1

    def view(x: Any) -> Any:
        first = x[0, ...]
        first += 5
        return x * 1

    agree(f, X)
    agree(swap, X)
    agree(view, X)


def test_an_argument_of_rank_0_is_an_array():
    def f(total: Any, x: Any) -> Any:
        total += x.sum()
        return total * 2

    agree(f, np.array(1.0), X)
    assert tj.jit(f)(1.0, X) == 8.0
    assert tj.jit(f)(np.float64(1.0), X) == 8.0


def test_out_and_where():
    def f(x: Any) -> Any:
        y = x.copy()
        np.add(x, 1, out=y, where=x > 1)
        np.multiply(y, 2, out=x)
        return y

    agree(f, X)
    assert refused(lambda x: np.sin(x, out=x), np.arange(3))[:2] == (
        DtypeError,
        "cannot change an array of int64 in place by one of float64; use y = x + ... for a new array",
    )


def test_ufunc_at():
    def f(x: Any, i: Any) -> Any:
        np.add.at(x, i, 2.0)
        np.subtract.at(x, 1, 1.0)
        return x * 1

    agree(f, X, np.array([0, 0, 2]))


def test_lists_are_repeated_by_integers():
    f = tj.jit(lambda x, n: np.stack([x] * n) + np.array([1.0] * len((x,) * n))[:, None])
    for n in (2, 3, np.int64(2)):
        np.testing.assert_array_equal(f(X, n), np.stack([X] * n) + 1)
    assert refused(lambda x: [1] * x.argmax(), X)[0] is ConcretizationError


def test_masks_that_the_trace_makes_select():
    def f(x: Any) -> Any:
        return x[np.array([True, False, True])], x[np.arange(3) > 0] * 2

    agree(f, X)


def test_round():
    assert tj.jit(lambda x: round(x, 1))(np.float64(2.345)) == 2.3
    assert tj.jit(lambda x: round(x))(np.float64(2.5)) == 2


SIZES = (10, 20, 6, 3, 7, 5)


def each_size(function: Callable[..., Any], sizes: tuple[int, ...] = SIZES) -> None:
    """One jitted function, called with one size after the other, gives NumPy's results, or an error where NumPy raises one."""
    jitted = tj.jit(function)
    for n in sizes:
        whole = np.arange(n + 20.0)  # what is written outside of the argument shows
        other = whole.copy()
        try:
            want = function(whole[10 : n + 10])
        except (IndexError, ValueError):
            failure(lambda other=other, n=n: jitted(other[10 : n + 10]), (IndexError, ValueError))  # type: ignore[arg-type]
        else:
            got = jitted(other[10 : n + 10])
            for g, w in zip(got, want, strict=True) if isinstance(want, tuple) else ((got, want),):
                np.testing.assert_array_equal(g, w)
        np.testing.assert_array_equal(other, whole)


def test_indices_outside_of_a_later_size():
    """A program that was compiled for all sizes must not read or write where a smaller array ends."""

    def store(x: Any) -> None:
        x[5] = -1.0

    def store_back(x: Any) -> None:
        x[-6] = -1.0

    each_size(lambda x: x[5])
    each_size(lambda x: x[-6])
    each_size(lambda x: (x[0], x[1], x[-1], x[x.shape[0] // 2]))
    each_size(lambda x: x[x.shape[0] - 4])
    each_size(lambda x: np.stack([x, x])[1, 4])
    each_size(lambda x: x[np.array([4, -4])])
    each_size(store)
    each_size(store_back)


def test_downward_loops_of_every_size():
    def every_other(x: Any) -> Any:
        total = np.zeros(2)
        for i in tj.range(x.shape[0] - 1, -1, -2):
            total[0] = total[0] * 2 + x[i]
            total[1] += 1
        return total

    def downward(x: Any) -> Any:
        total = np.zeros(2)
        for i in tj.range(x.shape[0], 4, -1):
            total[0] = total[0] * 2 + x[i - 1]
            total[1] += 1
        return total

    def upward(x: Any) -> Any:
        total = np.zeros(1)
        for i in tj.range(6, x.shape[0], 3):
            total[0] = total[0] * 2 + x[i]
        return total

    for function in (every_other, downward, upward):
        each_size(function)


@pytest.mark.parametrize("jit", [False, True])
def test_blocks_that_are_larger_than_the_array(jit: bool):
    """Clamping the start would not keep them inside."""
    run = tj.jit if jit else lambda f: f
    for function, message in (
        (lambda x: tj.lax.dynamic_slice(x, (0,), (5,)), "[dynamic_slice] a block of 5 elements does not fit axis 0 of f64[3]"),
        (lambda x: tj.lax.dynamic_slice(x, (0,), (-1,)), "shape (-1,) has a negative extent"),
        (
            lambda x: tj.lax.dynamic_update_slice(x, np.ones(4), (0,)),
            "[dynamic_update_slice] a block of 4 elements does not fit axis 0 of f64[3]",
        ),
        (lambda x: tj.lax.dynamic_update_slice(x, np.ones((1, 2)), (0,)), "[dynamic_update_slice] f64[1,2] cannot be written into f64[3]"),
        (lambda x: tj.lax.slice(x, (1,), (5,)), "[slice] 1:5:1 is not a slice of axis 0 of extent 3"),
        (lambda x: tj.lax.pad(x, 0.0, [(-2, -2, 0)]), "[slice] -1 elements from 2 with step 1 do not lie inside axis 0 of f64[3]"),
    ):
        error = failure(lambda function=function: run(function)(X))
        assert (type(error), error.message) == (ShapeError, message)
    sized = tj.jit(lambda x: tj.lax.dynamic_slice(x, (1,), (5,)))
    for n in (10, 20, 6, 5):
        np.testing.assert_array_equal(sized(np.arange(float(n))), np.arange(float(n))[min(1, n - 5) :][:5])
    assert failure(lambda: sized(np.zeros(4)), ShapeError).message == "[dynamic_slice] a block of 5 elements does not fit axis 0 of f64[4]"


def test_eager_operations_refuse_what_traced_ones_refuse():
    def different(f: Any) -> tuple[type, str]:
        traced, eager = failure(lambda: tj.jit(f)(X)), failure(lambda: f(X))
        assert (type(traced), traced.message) == (type(eager), eager.message)
        return type(eager), eager.message

    assert different(lambda x: tj.lax.select(x, x, x)) == (
        DtypeError,
        "[select] the condition is f64[3], not bool; compare it first (x != 0)",
    )
    assert different(lambda x: tj.lax.add(x, np.ones((2, 3)))) == (ShapeError, "[add] operands differ in shape: f64[3], f64[2,3]")
    assert different(lambda x: tj.lax.add(x, np.ones(4))) == (ShapeError, "[add] operands differ in shape: f64[3], f64[4]")
    assert different(lambda x: tj.lax.bitwise_not(x)) == (DtypeError, f"[not] does not accept f64{PARENTHESES}")
    assert different(lambda x: tj.lax.scan(lambda c, y: (c[:2], y), x, x)) == (
        ShapeError,
        "[loop] carry 0 is f64[3] before and f64[2] after an iteration; make them equal (astype, reshape)",
    )


def test_traced_indices_of_at_outside_are_dropped():
    f = tj.jit(lambda x, i: (x.at[i].set(9.0), x.at[i].add(9.0), x.at[i, 0].max(9.0), x.at[i].multiply(3.0)))
    m = np.arange(6.0).reshape(3, 2)
    for index in (0, 2, -1, -3, 3, -4, 100):
        want = [m.copy() for _ in range(4)]
        if -3 <= index < 3:
            want[0][index] = 9.0
            want[1][index] += 9.0
            want[2][index, 0] = 9.0
            want[3][index] *= 3.0
        for got, w in zip(f(tj.numpy.asarray(m), np.int64(index)), want, strict=True):
            np.testing.assert_array_equal(got, w)
    whole = tj.numpy.asarray(m)
    each = tj.vmap(lambda i: whole.at[i + 1].set(0.5))(np.array([0, 2]))
    np.testing.assert_array_equal(each[1], m)


@pytest.mark.parametrize("dispatch", ["native", "python"])
def test_empty_arrays_after_a_program_for_all_sizes(dispatch: str, monkeypatch: pytest.MonkeyPatch):
    """Such a program is for extents of at least 2: it divides by them, and has no extremum of none to refuse."""
    monkeypatch.setenv("TRACEJIT_DISPATCH", dispatch)
    for function in (
        lambda x: np.roll(x, 5),
        lambda x: x[:: x.shape[0] - 1] if x.shape[0] > 1 else x,
        lambda x: x.max(),
        lambda x: x.argmin(),
        lambda x: x.mean(),
        lambda x: x[0],
        lambda x: np.concatenate([x[-1:], x]).reshape(-1, x.shape[0] + 1),
    ):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            each_size(function, (10, 20, 7, 0, 1, 0, 30, 2))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_loops_over_nothing(backend: str):
    """Their bodies are traced and compiled, though there is no element that they could take."""

    def running(x: Any) -> Any:
        total, rows = tj.lax.scan(lambda c, y: (c + y, c * y), 1.5, x)
        return total, rows, tj.lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 2.5)

    def filled(x: Any) -> Any:
        y = x + 1
        for i in tj.range(x.shape[0]):
            y[i] += x[i]
        return y

    for n in (0, 3, 4, 0):
        x = np.arange(float(n))
        total, rows, again = tj.jit(running, backend=backend)(x)
        assert (total, rows.shape, again) == (1.5 + x.sum(), (n,), 2.5 + x.sum())
        np.testing.assert_array_equal(tj.jit(filled, backend=backend)(x), 2 * x + 1)
    total, rows = tj.lax.scan(lambda c, y: (c + y, c * y), 1.5, np.zeros(0))
    assert (total, rows.shape) == (1.5, (0,))


def test_sizes_that_are_returned():
    f = tj.jit(lambda x: (x.shape[0], {"n": x.size}, x.sum()))
    for n in (4, 5, 6, 20, 0):
        size, named, total = f(np.ones(n))
        assert (type(size), size, named, total) == (int, n, {"n": n}, n)


def test_slices_that_leave_out_a_few_elements_serve_all_large_sizes():
    """Whether 3 elements can be left out is open for extents of 2 and more, but not for those of 16 and more."""

    def smoothed(u: Any) -> Any:
        v = u.copy()
        v[2:-2, 2:-2] = (u[:-4, 2:-2] + u[4:, 2:-2] + u[2:-2, 4:] + u[2:-2, :-4]) / 4
        return v, u[5], u[3, -7], np.diff(u, 3)

    f = tj.jit(smoothed)
    rng, counts = np.random.default_rng(0), []
    for n in (20, 30, 16, 50, 17, 9, 60, 18):
        u = rng.random((n, n + 2))
        for got, want in zip(f(u), smoothed(u), strict=True):
            np.testing.assert_allclose(got, want)
        counts.append(f.compilations)
    assert counts == [1, 2, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_the_index_of_a_loop_bends_to_the_dtype_of_arrays(dtype: Any):
    """As the integers of Python's range do: uint8 arrays wrap around instead of becoming int64."""

    def f(x: Any) -> Any:
        a = x.copy()
        for i in tj.range(1, 4):
            a[1:] = np.clip(a[1:] + a[:-1] - i, 0, 40)
        return a

    x = np.array([5, 0, 3, 0, 1, 2, 0, 0], dtype)
    np.testing.assert_array_equal(tj.jit(f)(x), f(x))
    text = tj.jit(f).lower(x).text("jaxpr")
    assert "i64[8]" not in text
    assert "f64" not in text


# -- views inside of loops -----------------------------------------------------------------------------------------------------------------------
def in_range(u: Any) -> Any:
    for _ in tj.range(3):
        c = u[1:-1]
        c += 1
        c *= c[::-1]
    return u * 1


def of_rows(u: Any) -> Any:
    table = u.reshape(2, 3)
    for n in tj.range(2):
        row = table[n]
        row += n + 1
        table.T[0] -= 1
        turned = u.reshape(3, 2).T[1]
        turned[...] = turned * 2 + row[0]
    return u * 1, table * 1


def nested(u: Any) -> Any:
    inner = u[1:]
    for _ in tj.range(2):
        c = inner[1:-1]
        for _ in tj.range(2):
            d = c[::2]
            d += 1
            c[1:] *= 2
        u[0] += c[0]
    for i in tj.range(2):
        u[i] += 1
    for k in tj.range(2):
        i = 5 - k
        u[i] -= k
    return u * 1


def red_black(u: Any) -> Any:
    def relax(i: int, j: int) -> None:
        middle = u[i:-1:2, j:-1:2]
        middle += 0.5 * (u[i - 1 : -2 : 2, j:-1:2] + u[i + 1 :: 2, j:-1:2] - 2 * middle)

    for _ in tj.range(4):
        for i, j in ((1, 1), (2, 2), (1, 2), (2, 1)):
            relax(i, j)
    return u * 1


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("function", "x"), [(in_range, np.arange(6.0)), (of_rows, np.arange(6.0)), (nested, np.arange(7.0)), (red_black, np.cos(np.arange(64.0)).reshape(8, 8))]
)
def test_views_that_a_loop_body_takes_and_changes(function: Any, x: Any, backend: str):
    """They write through to the array outside of the loop, though a trace of their own takes them."""
    want, got = x.copy(), x.copy()
    results = function(want), tj.jit(function, backend=backend)(got)
    np.testing.assert_allclose(got, want)
    for g, w in zip(*reversed(results), strict=True) if isinstance(results[0], tuple) else (tuple(reversed(results)),):
        np.testing.assert_allclose(g, w)


def test_views_that_a_body_or_branch_changes():
    def looped(u: Any) -> Any:
        def body(i: Any, total: Any) -> Any:
            c = u[1:-1]
            c += 1
            return total + c.sum() + u[2]

        total = tj.lax.fori_loop(0, 3, body, 0.0)
        return u * 1, total

    def chosen(u: Any) -> Any:
        def yes(x: Any) -> Any:
            first = u.reshape(2, 3)[0]
            first[...] += x
            return first.sum()

        return tj.lax.cond(u[0] < 5, yes, lambda x: x, 2.0), u * 1

    u, total = tj.jit(looped)(np.arange(6.0))
    np.testing.assert_array_equal(u, [0, 4, 5, 6, 7, 5])
    assert total == 14 + 3 + 18 + 4 + 22 + 5
    for start, want in ((0.0, 9.0), (5.0, 2.0)):
        got, u = tj.jit(chosen)(np.arange(6.0) + start)
        assert got == want
        np.testing.assert_array_equal(u, np.arange(6.0) + start + np.array([2, 2, 2, 0, 0, 0]) * (start == 0))


def test_a_view_of_an_outer_array_is_not_changed_under_a_transformation():
    def f(u: Any, w: Any) -> Any:
        def loss(w: Any) -> Any:
            row = u[1:]
            row += w
            return (row**2).sum()

        return tj.grad(loss)(w)

    kind, message, _ = refused(f, X.copy(), np.ones(2))
    assert kind is UnsupportedError
    assert message.startswith("an array made outside of `grad` is changed in place inside it; copy it first (x = x.copy())")


# -- what Python makes of objects ----------------------------------------------------------------------------------------------------------------
MASKED = np.ma.array(X, mask=[True, False, False])


def test_subclasses_of_arrays_that_a_function_uses():
    def subclass_used(name: str) -> str:
        return f"a {name} is used in traced code: subclasses of ndarray are not supported; use np.asarray(x)"

    matrix = np.ones((3, 3)).view(np.matrix)
    for function, name in (
        (lambda x: x + MASKED, "numpy.ma.MaskedArray"),
        (lambda x: np.maximum(x, np.ma.array(X)), "numpy.ma.MaskedArray"),
        (lambda x: np.multiply(x, matrix), "numpy.matrix"),
    ):
        kind, message, _ = refused(function, X)
        assert (kind, message) == (UnsupportedError, subclass_used(name))


def test_memory_maps_that_a_function_uses(tmp_path: Any):
    mapped = np.memmap(tmp_path / "x", dtype="f8", mode="w+", shape=(3,))
    mapped[:] = 5
    f = tj.jit(lambda x: x + mapped)
    np.testing.assert_array_equal(f(X), X + 5)
    mapped[0] = 6
    np.testing.assert_array_equal(f(X), X + mapped)


def test_copies_and_pickles_of_traced_arrays():
    def f(x: Any) -> Any:
        kept = copy.deepcopy({"x": x, "y": [x * 2]})
        again = copy.copy(x)
        x += 1
        kept["y"][0] += 3
        return kept["x"], kept["y"][0], again, x * 1

    agree(f, X)
    kind, message, marked = refused(lambda x: pickle.dumps(x), X)
    assert (kind, marked) == (ConcretizationError, "pickle.dumps(x)")
    assert message == (
        "pickling needs the value of a traced array f64[3], which is not known while tracing; return the array and pickle it outside"
    )


def test_negative_powers_of_integers():
    assert refused(lambda x: x**-1, np.array([1, 2])) == (
        NegativePower,
        "integers to negative integer powers are not allowed; make the base floating point",
        "x**-1",
    )
    np.testing.assert_array_equal(tj.jit(lambda x: x**-1)(np.array([1.0, 2.0])), [1, 0.5])
    np.testing.assert_array_equal(tj.jit(lambda x: x**-1.0)(np.array([1, 2])), [1, 0.5])


# -- what a loop leaves ----------------------------------------------------------------------------------------------------------------------------
def test_values_of_a_loop_s_body_after_the_loop(without_statements: None):
    def index(x: Any) -> Any:
        for i in tj.range(3):
            x[i] += 1
        return x * i

    def part(x: Any) -> Any:
        for _ in tj.range(3):
            c = x[1:]
            c += 1
        return c * 1

    for function, array, marked in ((index, "i64[]", "x * i"), (part, "f64[2]", "c * 1")):
        kind, message, found = refused(function, X.copy())
        assert (kind, found) == (LeakedTracerError, marked)
        assert message.replace("~", "") == (
            f"a traced array {array} of the body of a loop over tj.range is used after the loop; put it into an array that was made before the "
            "loop (y[...] = value)"
        )


def test_slices_with_traced_bounds(without_statements: None):
    def f(x: Any) -> Any:
        for i in tj.range(1, 3):
            x[i] += x[i - 1 : i].sum()
        return x * 1

    np.testing.assert_allclose(tj.jit(f)(X.copy()), f(X.copy()))
    kind, message, marked = refused(lambda x: x[x.sum() :], X)
    assert (kind, marked) == (ConcretizationError, "x[x.sum() :]")
    assert message == (
        "a slice needs the value of a traced array f64[], which is not known while tracing; for one element use x[i], for a block of known size "
        "tj.lax.dynamic_slice(x, starts, sizes)"
    )
    g = tj.jit(lambda x, n: x[:n])  # Python numbers are asked for
    for n in (1, 2):
        np.testing.assert_array_equal(g(X, n), X[:n])


def test_functions_that_are_missing_have_their_whole_name():
    matrix = np.eye(2)
    assert refused(lambda x: np.is_busday(x), matrix) == (
        UnsupportedError, "np.is_busday is not supported in traced code; call it before or after the compiled function", "np.is_busday(x)",
    )  # fmt: skip


def test_random_numbers_are_drawn_outside():
    assert refused(lambda x: x + np.random.rand(3), X) == (
        UnsupportedError,
        "np.random.rand draws from a hidden state, so a compiled function would return the same numbers at each call; write "
        "tj.random.uniform(key, shape) with a key (tj.random.key(seed)) that is an argument, or draw them outside and pass "
        "them as an argument",
        "np.random.rand(3)",
    )
    own, gauss = random.Random(0), random.gauss
    for name, f in (
        ("random.random", lambda x: x + random.random()), ("random.randint", lambda x: x + random.randint(1, 6)),
        ("random.gauss", lambda x: x + gauss(0, 1)), ("Random.uniform", lambda x: x + own.uniform(0, 1)),
    ):  # fmt: skip
        error, message, _ = refused(f, X)
        assert error is UnsupportedError
        assert message.startswith(f"{name} draws from a hidden state, ")


@pytest.mark.parametrize(
    "expression",
    [
        "x.dumps()", "x.tobytes()", "np.random.rand()", "x.astype('G')", "x.astype('>f8')",
        "np.sum(x, dtype=object)", "x.view('i4')", "x.ctypes", "np.add(x, x, where=x > 1)", "list(range(x[0]))",
        "tj.lax.cond(x[0] > 0, lambda: x.tobytes(), lambda: 1.0)", "tj.lax.fori_loop(0, 3, lambda i, c: c if c > 0 else c + 1, 0.0)",
        "tj.grad(lambda x: x.tobytes())(x)", "tj.vmap(lambda v: v.tobytes())(x[None])", "np.testing.assert_allclose(x, x)",
    ],
)  # fmt: skip
def test_what_numpy_would_have_done_is_refused_although_the_function_catches_it(expression):
    scope: dict[str, Any] = {"np": np, "tj": tj, "__name__": "program"}
    exec(f"def f(x):\n  try:\n    return {expression}\n  except Exception:\n    return x.mean()", scope)
    with pytest.raises(TracejitError):
        tj.jit(scope["f"])(np.array([1.0, 2, 9]))


@pytest.mark.parametrize("expression", ["x.reshape(2, 2)", "np.zeros((2, 2)) @ x", "x[7]", "x.foo", "x & 1.5", "np.sin('a')"])
def test_what_numpy_raises_may_be_caught(expression):
    scope: dict[str, Any] = {"np": np, "__name__": "program"}
    exec(f"def f(x):\n  try:\n    return {expression}\n  except Exception:\n    return x.mean()", scope)
    x = np.array([1.0, 2, 9])
    assert tj.jit(scope["f"])(x) == scope["f"](x)


def test_text_and_objects_beside_traced_arrays_are_numpys():
    def f(x):
        names = np.array(["a", "b"])
        return x + len(names) + (names == "b").sum() + len(np.array([1, "a"], object))

    np.testing.assert_array_equal(tj.jit(f)(np.ones(2)), [6, 6])


SUPPORTED_CHANGES: dict[str, Callable[[Any], Any]] = {
    "maximum.at": lambda y: np.maximum.at(y, [0], 9),
    "put": lambda y: np.put(y, [0], 9),
    "put_along_axis": lambda y: np.put_along_axis(y, np.array([0]), 9, 0),
    "quantile": lambda y: np.quantile(np.ones((3, 3)), 0.5, axis=0, out=y),
    "reduceat": lambda y: np.add.reduceat(np.arange(3.0), [0, 1, 2], out=y),
}
CHANGES_BY_NUMPYS_CODE: dict[str, Callable[[Any], Any]] = {
    "as_strided": lambda y: np.lib.stride_tricks.as_strided(y, (3,), (8,)).fill(9),
    "nditer": lambda y: [x.fill(7) for x in np.nditer(y, op_flags=["readwrite"])],  # type: ignore[call-overload]
    "masked": lambda y: np.ma.array(y, copy=False).__setitem__(0, 9),
}
FILLED_OUTSIDE = np.zeros(3)


@pytest.mark.parametrize("name", SUPPORTED_CHANGES)
def test_functions_that_change_arrays_change_those_that_are_traced_and_no_other(name: str):
    def f(x: Any, y: Any) -> Any:
        SUPPORTED_CHANGES[name](y)
        return x + y

    def inside(x: Any) -> Any:
        return f(x, np.zeros(3))

    np.testing.assert_array_equal(tj.jit(inside)(np.ones(3)), inside(np.ones(3)))
    kind, message, _ = refused(lambda x: f(x, FILLED_OUTSIDE), np.ones(3))
    assert issubclass(kind, TracejitError)
    assert message.startswith("an array from outside of the traced function is changed in place")
    assert not FILLED_OUTSIDE.any()


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("name", CHANGES_BY_NUMPYS_CODE)
def test_numpys_own_code_changes_no_array_that_is_traced(name: str, outside: bool):
    def f(x: Any) -> Any:
        y = FILLED_OUTSIDE if outside else np.zeros(3)
        CHANGES_BY_NUMPYS_CODE[name](y)
        return x + y

    with pytest.raises((UnsupportedError, ValueError), match=r"is not supported|changes an array|read-only|write flag"):
        tj.jit(f)(np.ones(3))
    assert not FILLED_OUTSIDE.any()


NO_SUCH_AXIS = {
    "sum": lambda x: np.sum(x, axis=3), "expand_dims": lambda x: np.expand_dims(x, 5),
    "concatenate": lambda x: np.concatenate([x, x], 4), "sort": lambda x: np.sort(x, axis=-4),
    "stack": lambda x: np.stack([x], 7), "moveaxis": lambda x: np.moveaxis(x, 0, 9),
    "flip": lambda x: np.flip(x, 4), "roll": lambda x: np.roll(x, 1, axis=4), "take": lambda x: np.take(x, 0, axis=5),
    "cumsum": lambda x: x.cumsum(3), "squeeze": lambda x: np.squeeze(x, 5), "argmax": lambda x: x.argmax(axis=3),
    "diff": lambda x: np.diff(x, axis=4), "transpose": lambda x: x.transpose(0, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_SUCH_AXIS)
def test_an_axis_that_there_is_not_is_numpys_axis_error(name):
    x = np.ones((2, 3))
    with pytest.raises(np.exceptions.AxisError) as want:
        NO_SUCH_AXIS[name](x)
    with pytest.raises(np.exceptions.AxisError, match=r"is out of bounds for .* of rank ") as found:
        tj.jit(NO_SUCH_AXIS[name])(x)
    assert isinstance(found.value, ShapeError)
    assert (found.value.axis, found.value.ndim) == (want.value.axis, want.value.ndim)
