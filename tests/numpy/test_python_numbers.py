"""Python numbers as arguments and as literals mean what they mean to NumPy,
whatever their size and the array's dtype."""

from __future__ import annotations

import copy
import enum
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import NumberOutOfBounds

DTYPES = [np.dtype(c) for c in "?bBhHiIlLefd"]
INTEGERS = (
    0, 1, 3, -1, 127, 128, -128, -129, 255, 256, 300, 32767, -32768, 32768, 65535, 65536, 2**31 - 1, 2**31, -(2**31),
    -(2**31) - 1, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**63) - 1,
)  # fmt: skip
FEW = (3, -1, 255, 300, 2**63, 2**64)


def some(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Small numbers and the limits of a dtype."""
    if dtype.kind in "iu":
        return np.array([0, 1, 3, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    return np.array([0, 1, 3, 60000, -60000], dtype)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """(what a call makes of copies of its arguments), or the kind of its error."""
    args = tuple(x.copy() if isinstance(x, np.ndarray) else x for x in args)
    try:
        with np.errstate(all="ignore"):
            result = function(*args)
    except (OverflowError, ValueError, TypeError) as error:
        return (
            "OverflowError"
            if isinstance(error, OverflowError)
            else "TypeError"
            if isinstance(error, TypeError)
            else "ValueError"
        )
    return [
        (np.asarray(x).dtype, np.asarray(x).tobytes())
        for x in (result, *args)
        if isinstance(x, (np.ndarray, np.generic))
    ]


def assign(a: Any, t: Any) -> None:
    a[0] = t


def add_in_place(a: Any, t: Any) -> None:
    a += t


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": lambda a, t: a < t, "le": lambda a, t: a <= t, "gt": lambda a, t: a > t, "ge": lambda a, t: a >= t,
    "eq": lambda a, t: a == t, "ne": lambda a, t: a != t, "reflected": lambda a, t: t < a,
    "ufunc": lambda a, t: np.greater_equal(t, a), "scalar": lambda a, t: a[1] <= t, "element": lambda a, t: t > a[3],
}  # fmt: skip

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, t: a + t, "sub": lambda a, t: t - a, "mul": lambda a, t: a * t, "div": lambda a, t: a / t,
    "floordiv": lambda a, t: a // t, "and": lambda a, t: a & t, "shift": lambda a, t: a << t,
    "insert": lambda a, t: np.insert(a, 1, t), "putmask": lambda a, t: np.putmask(a, a == 3, t),
    "minimum": np.minimum, "maximum": lambda a, t: np.maximum(t, a), "clip": lambda a, t: np.clip(a, 0, t),
    "clip from": lambda a, t: np.clip(a, t, 300), "method": lambda a, t: a.clip(max=t),
    "where": lambda a, t: np.where(a > 1, a, t), "select": lambda a, t: np.select([a > 1], [a], t), "assign": assign,
    "fill": lambda a, t: a.fill(t), "in place": add_in_place, "full": lambda a, t: np.full(3, t, a.dtype),
    "full_like": np.full_like, "array": lambda a, t: np.array([t, 1], a.dtype),
    "asarray": lambda a, t: np.asarray(t, a.dtype), "initial": lambda a, t: np.max(a, initial=t),
    "sum": lambda a, t: np.sum(a, initial=t), "scalar": lambda a, t: a[1] + t, "type": lambda a, t: np.uint8(t),
}  # fmt: skip


def all_comparisons(a: Any, t: Any) -> Any:
    return np.concatenate([np.atleast_1d(compare(a, t)) for compare in COMPARISONS.values()])


def test_comparisons_with_any_integer_as_an_argument():
    f = tj.jit(all_comparisons)
    for dtype in DTYPES:
        for t in INTEGERS:
            assert outcome(f, some(dtype), t) == outcome(all_comparisons, some(dtype), t), (dtype, t)


def test_an_integer_beyond_the_dtype_needs_no_version_of_its_own():
    f = tj.jit(lambda a, t: a > t)
    for t in (5, -1, 300, 2**61 - 1, 1 - 2**61):
        np.testing.assert_array_equal(f(some(np.dtype("u1")), t), some(np.dtype("u1")) > t)
    assert f.compilations == 1
    for t in (2**61, 2**63 - 1, -(2**63), 2**64, -(10**30)):
        np.testing.assert_array_equal(f(some(np.dtype("u1")), t), some(np.dtype("u1")) > t)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_comparisons_with_any_integer_as_a_literal(dtype: np.dtype[Any]):
    def compared(a: Any) -> Any:
        return [compare(a, t) for compare in COMPARISONS.values() for t in values]

    values = [t for t in INTEGERS if dtype.kind != "b" or -(2**63) <= t < 2**63]
    with np.errstate(all="ignore"):
        for found, wanted in zip(tj.jit(compared)(some(dtype)), compared(some(dtype)), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_with_any_integer_as_an_argument(name: str):
    operation = OPERATIONS[name]
    f = tj.jit(operation)
    for dtype in DTYPES:
        for t in INTEGERS:
            if name in ("full", "full_like", "where", "select") and (dtype.kind == "b" or not -(2**63) <= t < 2**64):
                continue  # NumPy's answer is an array of objects, or is one by mistake
            assert outcome(f, some(dtype), t) == outcome(operation, some(dtype), t), (dtype, t)


@pytest.mark.parametrize("dtype", [np.dtype(c) for c in "BLf"], ids=str)
def test_operations_with_any_integer_as_a_literal(dtype: np.dtype[Any]):
    for name, operation in OPERATIONS.items():
        for t in FEW:
            if name not in ("full", "full_like", "where", "select") or -(2**63) <= t < 2**64:
                assert outcome(tj.jit(lambda a, o=operation, t=t: o(a, t)), some(dtype)) == outcome(
                    operation, some(dtype), t
                ), (name, t)


@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")
def test_integers_and_bools_are_counted_as_python_counts_them():
    def f(a: Any, n: Any, m: Any) -> Any:
        return a + (n + m), a * -n, a + ~n, a + (n - m) * m, a << (n + m)

    a = np.arange(4)
    for found, wanted in zip(tj.jit(f)(a, True, True), f(a, True, True), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


def test_integers_that_outgrow_64_bits_are_refused():
    x = np.ones(3)
    for f, fits, grows in (
        (lambda x, n: x * n**3, 2_000_000, 3_000_000), (lambda x, n: x * (n * n), 2**31, -(2**32)),
        (lambda x, n: x * (1 << n), 62, 64), (lambda x, n: x * (n * 10), 10**17, 10**18),
        (lambda x, n: x * ((n + 1) * (n - 1)), 10**9, 10**10),
    ):  # fmt: skip
        np.testing.assert_array_equal(tj.jit(f)(x, fits), f(x, fits))
        with pytest.raises(NumberOutOfBounds, match=r"an integer beyond 64 bits.*in floating point \(2.0\*\*n\)"):
            tj.jit(f)(x, grows)
    power = tj.jit(lambda x, n: x * 2**n)  # the exponent decides of what type that is, so it is a constant
    for n in (-1, 3, 63, 100):
        np.testing.assert_array_equal(power(x, n), x * 2.0**n)
    np.testing.assert_array_equal(tj.jit(lambda x, n: x * (n + 1) * (n - 1) / n)(x, 7), x * 48 / 7)


def test_what_is_computed_from_the_argument_is_checked():
    f = tj.jit(lambda a, n: a + (n + 1))
    np.testing.assert_array_equal(f(np.zeros(2, np.uint8), 254), np.full(2, 255, np.uint8), strict=True)
    with pytest.raises(NumberOutOfBounds, match="Python integer 256 out of bounds for uint8") as caught:
        f(np.zeros(2, np.uint8), 255)
    assert str(caught.value).splitlines()[-1].strip() == "^" * len("a + (n + 1)")


def test_no_argument_has_changed_when_a_number_did_not_fit():
    def f(a: Any, t: Any) -> None:
        a[0] = 1
        a[1] = t

    a = np.zeros(3, np.uint8)
    for t in (300, -1, 300.5):
        with pytest.raises(OverflowError):
            tj.jit(f)(a, t)
    assert not a.any()
    tj.jit(f)(a, 255.9)
    assert a.tolist() == [1, 255, 0]


@pytest.mark.parametrize(
    "t", [3.7, -0.9, 255.9, 256.0, -1.0, 1e30, -1e30, np.inf, 9.2e18, -(2.0**63), 2.0**63, 1.8e19, 2.0**64]
)
def test_a_float_is_stored_in_integers_where_its_integer_fits(t: float):
    for dtype in "bBhHiIlL":
        assert outcome(tj.jit(assign), np.zeros(2, dtype), t) == outcome(assign, np.zeros(2, dtype), t), dtype


def test_numbers_in_loops_and_branches():
    def counted(a: Any, n: Any) -> Any:
        for i in tj.range(n):
            a[i % 3] = i
        return a

    def chosen(a: Any, n: Any) -> Any:
        return tj.lax.cond(n < 256, lambda: a + n, lambda: a)

    def repeated(a: Any, n: Any) -> Any:
        return tj.lax.while_loop(lambda c: c[0] < n, lambda c: c + n // 2, a)

    a = np.zeros(3, np.uint8)
    assert tj.jit(counted)(a.copy(), 256).tolist() == [255, 253, 254]
    with pytest.raises(OverflowError, match="integer 256"):
        tj.jit(counted)(a.copy(), 257)
    assert tj.jit(chosen)(a, 7).tolist() == [7] * 3
    assert tj.jit(chosen)(a, 300).tolist() == [0] * 3  # the branch that would fail is not taken
    assert tj.jit(repeated)(a, 10).tolist() == [10] * 3
    with pytest.raises(OverflowError, match="integer 300"):
        tj.jit(repeated)(a, 600)


def test_numbers_under_transformations():
    a = np.array([0, 1, 255], np.uint8)
    for wrap in (tj.jit, lambda f: f):
        add = wrap(tj.vmap(lambda x, n: x + n, in_axes=(0, None)))
        less = wrap(tj.vmap(lambda x, n: x < n, in_axes=(0, None)))
        slope = wrap(tj.grad(lambda w, x, n: np.sum((x + n) * w)))
        assert add(a, 5).tolist() == [5, 6, 4]
        assert less(a, 300).tolist() == [True] * 3
        assert slope(np.ones(3), a, 2).tolist() == [2, 3, 1]
        for failing in (lambda: add(a, 300), lambda: slope(np.ones(3), a, -1)):  # noqa: B023
            with pytest.raises(OverflowError, match="out of bounds for uint8"):
                failing()


def test_signed_and_unsigned_integers_are_compared_as_numbers():
    signed = np.array([-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1])
    unsigned = np.array([0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)

    def compared(x: Any, y: Any) -> Any:
        return x < y, x <= y, x > y, x >= y, x == y, x != y, np.less(y, x), np.equal(y, x)

    for dtype in "bhil":
        x, y = signed.astype(dtype)[:, None], unsigned[None, :]
        for found, wanted in zip(tj.jit(compared)(x, y), compared(x, y), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    mapped = tj.jit(tj.vmap(tj.vmap(compared, in_axes=(None, 0)), in_axes=(0, None)))(signed, unsigned)
    for found, wanted in zip(mapped, compared(signed[:, None], unsigned[None, :]), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
def test_numbers_on_other_backends(backend: str, record_backend: Any):
    f = tj.jit(lambda a, t: (a < t, a >= t, np.clip(a, 0, t)), backend=backend)
    a = np.array([0, 1, 255], np.uint8)
    for t in (3, 300, 255):
        for found, wanted in zip(f(a, t), (a < t, a >= t, np.clip(a, 0, t)), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    with pytest.raises(OverflowError, match="integer -1 out of bounds for uint8"):
        f(a, -1)


def test_arithmetic_is_checked_only_where_a_number_might_not_fit():
    def checked(function: Any, *args: Any) -> bool:
        return tj.jit(function).lower(*args).program.checked

    assert checked(lambda a, n: a + n, np.zeros(3, np.uint8), 3)
    assert not checked(lambda a, n: a + n, np.zeros(3, np.int64), 3)
    assert not checked(lambda a, n: a * n, np.zeros(3, np.float32), 3)
    assert not checked(lambda a, n: a < n, np.zeros(3, np.uint8), 3)
    assert not checked(lambda a, n: a + n % 10, np.zeros(3, np.uint8), 3)
    raises = np.lib.NumpyVersion(np.__version__) >= "2.5.0"  # before, numbers that do not fit wrap around there
    assert checked(lambda a, n: np.where(a > 1, a, n), np.zeros(3, np.uint8), 3) == raises
    assert not checked(lambda a, n: a + (n + 1), np.zeros(3), 3)
    assert not checked(lambda a, n, m: a + (n - m), np.zeros(3), 3, 4)
    assert checked(lambda a, n: a + n * n, np.zeros(3), 3)


@pytest.mark.parametrize("n", [2**61 - 1, 2**61, 2**62, 2**63 - 1, -(2**61), -(2**63), 2**64, 1 - 2**61, 12345])
def test_sums_of_integers_are_right_or_refused(n: int):
    forms = [
        lambda x, n: x * (n + 1), lambda x, n: x * (n - 1), lambda x, n: x * (n + n),
        lambda x, n: x * (n + n + n + n + n), lambda x, n: x * (n - 2**62 + n), lambda x, n: x * (-n - n),
        lambda x, n: x * (2**62 - n + 2**62), lambda x, n: x * (n - (0 - n)),
    ]  # fmt: skip
    for f in forms:
        try:
            found = tj.jit(f)(np.ones(2), n)
        except NumberOutOfBounds:
            continue
        np.testing.assert_array_equal(found, f(np.ones(2), n))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize(
    "statement",
    [
        "x[0] = s", "x[1:] = s", "x[...] = s", "x.fill(s)", "x[[0, 1]] = s", "x[x == 0] = s", "x[i] = s", "x[0] = a[0]",
        "x[0] = a.sum()", "x[:] = a[0]", "np.copyto(x, s, casting='unsafe')", "np.copyto(x, 300)",
        "np.copyto(x, i + 299)",
    ],
)  # fmt: skip
def test_scalars_of_numpy_that_do_not_fit_signed_integers_are_errors_where_they_are_assigned(
    statement: str, dtype: str
):
    scope: dict[str, Any] = {"np": np}
    exec(f"def f(x, s, a, i):\n    {statement}\n    return x", scope)
    compiled = tj.jit(scope["f"])

    def result(function: Any, s: Any) -> Any:
        x = np.zeros(4, dtype)
        try:
            with np.errstate(all="ignore"):
                return function(x, s, np.array([s, 0], s.dtype), 1).tolist()
        except OverflowError:
            return OverflowError

    for s in (
        np.uint16(40000), np.int64(300), np.int64(-1), np.uint64(2**63 + 5), np.int8(5), np.float16(300),
        np.float32(-3.5), np.float64(1e10),
    ):  # fmt: skip
        expected = result(scope["f"], s)
        if s.dtype.kind != "f" or expected is OverflowError or abs(float(s)) < 100:  # others are undefined in C
            assert result(compiled, s) == expected, s


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 2.5, True, np.float32(2.5), np.float64(2.5), np.int8(3)])
def test_functions_of_numbers_give_python_numbers(n: Any, dtype: type):
    """math.sqrt(n) is a float, of float64 whatever n is, and a float leaves an array's dtype as it is."""
    forms: list[Callable[[Any, Any], Any]] = [
        lambda x, n: x * math.sqrt(n), lambda x, n: math.exp(n) * np.ones(2), lambda x, n: x * math.exp(n),
        lambda x, n: math.atan2(1, n) + x,
        lambda x, n: math.log(n, 2) * x, lambda x, n: math.log(n + 1) * x, lambda x, n: math.log(3, n + 1) * np.ones(2),
        lambda x, n: x * math.isnan(n), lambda x, n: math.pow(n, 2) * np.float16(2) + x, lambda x, n: math.floor(n) * x,
        lambda x, n: x / math.sqrt(x[0] + x.shape[0]), lambda x, n: x - math.hypot(n, x[1]),
        lambda x, n: round(float(n)) * x, lambda x, n: round(float(n), 1) * x, lambda x, n: max(float(n), 2.25) * x,
        lambda x, n: min(int(n), 1, 7) * x,
    ]  # fmt: skip
    x = np.array([1.5, 2.5, 4.0], dtype)
    for number, f in enumerate(forms):
        expected, found = f(x, n), tj.jit(f)(x, n)
        assert expected.dtype == found.dtype, number
        np.testing.assert_allclose(
            found, expected, rtol={2: 2e-3, 4: 3e-7, 8: 1e-14}[expected.dtype.itemsize], err_msg=str(number)
        )


@pytest.mark.parametrize(
    "y", [np.float32(1), np.int8(1), 1, 300, -(2**63), 2**63, 2**70, 1.5, np.inf, np.nan, 1e300, True]
)
def test_isclose_to_numbers_that_the_dtype_cannot_hold(y: Any):
    for x in (
        *(np.array([0, 1, 5, 100], d) for d in ("i1", "u1", "i8", "u8", "f2", "f4", "f8", "?")),
        2**63,
        2**70,
        1.5,
        np.nan,
    ):
        for more in ({}, {"rtol": 1}, {"atol": 0, "rtol": np.float32(0.5)}, {"equal_nan": True}):
            for a, b in ((x, y), (y, x)):
                with np.errstate(all="ignore"):
                    try:
                        want = np.isclose(a, b, **more)
                    except (TypeError, OverflowError):
                        continue
                got = tj.jit(lambda a, b, more=more: np.isclose(a, b, **more))(a, b)
                assert (got.shape, got.tolist()) == (want.shape, want.tolist()), (a, b, more)


NUMBER_FORMS = [
    "x * divmod(n, 3)[1]", "divmod(n, 3)", "divmod(-n, 3)", "divmod(n, 3.5)", "divmod(7, n)", "divmod(7, x)",
    "divmod(7.5, x)", "divmod(x, 2)",
    "x * n.real", "x * n.imag", "x * n.conjugate()", "n.real", "n.imag", "x * copy.copy(n)",
    "x * copy.deepcopy([n])[0]", "hasattr(n, 'shape')", "hasattr(n, '__len__')", "hasattr(n, 'is_integer')",
    "getattr(n, 'ndim', -1)", "np.zeros(3, np.result_type(x, n))",
    "math.hypot(n, 2, 6)", "math.hypot(n)", "math.hypot(x[0], x[1], n, 2)", "round(n, 1)", "round(n, 2)", "round(n)",
    "x * round(n, 1)", "x * np.array_equal(x, x)", "np.array_equal(x, x + n)", "np.allclose(x, x)",
    "np.array_equiv(x, x)",
]  # fmt: skip


@pytest.mark.parametrize("form", NUMBER_FORMS)
def test_what_python_does_with_numbers(form: str):
    for n in (7, -3, 2.55, -2.5, 0.0, True):
        if isinstance(n, bool) and form == "divmod(-n, 3)":
            continue
        f = eval(f"lambda x, n: {form}", {"np": np, "math": math, "copy": copy, "divmod": divmod})
        x = np.array([1.5, 2.0, 4.0], np.float32)
        try:
            want = f(x, n)
        except ZeroDivisionError:
            continue
        found = tj.jit(f)(x, n)
        for a, b in zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]:
            assert type(a) is type(b), (n, a, b)
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_almost_equal_nulp(np.asarray(a, float), np.asarray(b, float), 2)


@pytest.mark.parametrize(
    "form", ["n.numerator", "n.denominator", "n.bit_length()", "n.bit_count()", "n.to_bytes(2, 'big')[1]"]
)
def test_what_integers_have(form: str):
    f = eval(f"lambda x, n: x * {form}")
    assert tj.jit(f)(np.ones(2), 7).tolist() == f(np.ones(2), 7).tolist()


def test_rounding_of_decimals_is_pythons():
    """Products with powers of ten are not exact: 2.55 is less than its digits say, and rounds to 2.5."""
    generator = random.Random(5)
    for digits in (0, 1, 2, 3, 5, 12):
        f = tj.jit(eval(f"lambda y: round(y, {digits})"))
        for _ in range(1000):
            kind, sign = generator.random(), generator.choice([1, -1])
            if kind < 0.5:
                y = generator.randrange(10**5) / 10 ** generator.randrange(7)
            elif kind < 0.9:
                y = generator.random() * 10.0 ** generator.randrange(-8, 20)
            else:
                y = (generator.randrange(10**6) + 0.5) / 10**digits
            y *= sign
            assert repr(f(y)) == repr(round(y, digits)), (y, digits)
        for y in (math.inf, math.nan, -0.0, 5e-324, 1.7976931348623157e308):
            assert repr(f(y)) == repr(round(y, digits))


def test_powers_of_bools():
    for n in (0, 1, 2, 3):
        for b in (np.array([True, False]), np.array(True), np.bool_(True)):
            want, found = b**n, tj.jit(lambda b, n: b**n)(b, n)
            assert (found.dtype, found.tolist()) == (want.dtype, want.tolist())
            literal = tj.jit(eval(f"lambda b: b**{n}"))(b)
            assert (literal.dtype, literal.tolist()) == (want.dtype, want.tolist())


SLICES = [
    "x[:n] = 0", "x[n:] = 0", "x[::n] = 1", "x[n:n + 2] = 9", "m = np.zeros(9); m[n:n + len(x)] = x; x = m",
    "x[-n:] = 0", "x[n:] += 1", "x[n:][...] = 0", "x.ravel()[n:] = 5", "x.flat[n:] = 5", "x.T[n:] = 4",
    "x[:n] = x[::-1][:n]", "x[:n][x[:n] > 1] = 0", "x = x * (n in (None, 2, 'a'))", "x = x * [None, 3, 2, 1].index(n)",
    "x = x * ((n,) == (None,))", "x = x * (slice(n, None) == slice(None))",
    "x = x * (n == None)", "x = x * (n != None)", "x = x * (n == 'a')", "x = x * (x[0] == None)", "x = x * (n == {})",
    "b = n > 1; x = x * (b is True)", "x = x * (1 if (n == 2) is True else 5)", "x = x * ((n > 1) is False)",
]  # fmt: skip


@pytest.mark.parametrize("statement", SLICES)
def test_integers_in_slices_and_comparisons(statement: str):
    names: dict[str, Any] = {"np": np}
    exec(f"def f(x, n):\n    {statement}\n    return x + 0", names)
    jitted = tj.jit(names["f"])
    for n in (2, 1, 3, 2):
        plain, traced = np.arange(6.0), np.arange(6.0)
        np.testing.assert_array_equal(jitted(traced, n), names["f"](plain, n))
        np.testing.assert_array_equal(traced, plain)


TO_INTEGERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda t: int(t), "round": lambda t: round(t), "floor": lambda t: math.floor(t),
    "ceil": lambda t: math.ceil(t), "trunc": lambda t: math.trunc(t), "compared": lambda t: int(t) > 5,
    "of a sum": lambda t: int(np.sum(np.array([1.0, 2.0]) * t)), "index": lambda t: np.arange(3) + int(t),
}  # fmt: skip


@pytest.mark.parametrize("name", TO_INTEGERS)
def test_a_float_that_is_no_integer_of_64_bits_is_no_integer(name: str):
    f, g = TO_INTEGERS[name], tj.jit(TO_INTEGERS[name])
    for t in (2.5, -0.5, 1e15, -7.0):
        np.testing.assert_array_equal(g(t), f(t))
    for t in (9.3e18, -1e300, math.inf, -math.inf, math.nan):
        with pytest.raises(NumberOutOfBounds, match="int64"):
            g(t)


@pytest.mark.parametrize("initial", [np.float32(-np.inf), np.uint64(2**64 - 1), np.float16(2.5), np.int8(7)])
def test_an_initial_number_fits_as_one_of_pythons(initial: Any):
    for function in (np.sum, np.max):
        for dtype in ("i8", "i4", "f4"):
            x = np.arange(4).astype(dtype)
            assert outcome(lambda a, function=function: function(a, initial=initial), x) == outcome(
                tj.jit(lambda a, function=function: function(a, initial=initial)), x
            )


def test_putmask_casts_arrays_by_the_rule_safe_and_wraps_scalars():
    for value in (np.float64(2.5), np.array(2.5), 2.5, np.array([2.5]), [2.5], 300, np.int64(300), np.array(300)):
        for dtype in ("i8", "u1"):

            def f(a: Any, value: Any = value) -> Any:
                np.putmask(a, a > 2, value)

            x = np.arange(5).astype(dtype)
            assert outcome(f, x) == outcome(tj.jit(f), x), value


BIG = (np.int64(2**62 + 1), np.uint64(2**63 + 3), 2.5, 2**62 + 1)


def _stored_all(x: Any, a: Any, b: Any) -> Any:
    x[:] = [a, b]
    return x


def _stored_flat(x: Any, a: Any, b: Any) -> Any:
    x.flat[:] = [a, b]
    return x


def _stored_flat_all(x: Any, a: Any, b: Any) -> Any:
    x.flat = [a, b]
    return x


STORED = {
    "array": lambda x, a, b: np.array([a, b], x.dtype), "asarray": lambda x, a, b: np.asarray([a, b], dtype=x.dtype),
    "nested": lambda x, a, b: np.array([[a], [b]], x.dtype), "slice": _stored_all, "flat": _stored_flat,
    "flat =": _stored_flat_all, "arrays": lambda x, a, b: np.array([np.full(2, a), np.full(2, b)], x.dtype),
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("dtype", ["i8", "u8", "i1", "u1", "f8"])
@pytest.mark.filterwarnings("ignore")
def test_members_of_a_list_are_converted_each_by_itself(name: str, dtype: str):
    function = STORED[name]
    for a, b in [
        *itertools.product(BIG, BIG),
        (np.int64(300), 1),
        (np.int64(-1), 2.5),
        (np.float64(300.5), 1),
        (True, 2.5),
    ]:
        try:
            expected = function(np.zeros(2, dtype), a, b)
        except OverflowError:
            with pytest.raises(OverflowError):
                tj.jit(function)(np.zeros(2, dtype), a, b)
            continue
        np.testing.assert_array_equal(tj.jit(function)(np.zeros(2, dtype), a, b), expected, f"{a!r}, {b!r}")


def test_the_one_quotient_that_outgrows_64_bits():
    for function in (lambda a, b: a // b, lambda a, b: divmod(a, b)[0], lambda a, b: (a - 1) // b):
        for a, b in ((-(2**63), -1), (-(2**63) + 1, -1), (7, -1), (-(2**60), 3)):
            expected = function(a, b)
            try:
                got = tj.jit(function)(a, b)
            except (
                OverflowError
            ):  # allowed where Python's number, or one on the way, has more than 64 bits; nothing else is
                assert abs(expected) >= 2**63 or a - 1 < -(2**63)
            else:
                assert got == expected
    with pytest.raises(OverflowError):
        tj.jit(lambda a, b: a // b)(-(2**63), -1)


EXTENTS_AND_NUMBERS = [
    "k + n", "n - k", "k * n", "k / n", "n / k", "k // n", "n % k", "divmod(n, k)", "k ** n", "n ** k", "k < n",
    "n >= k", "n == k", "n != k", "-n + k", "abs(n - k)", "(k + n) * .5", "k * .5 * n", "x * (k * n)", "x / (n + k)",
    "x.sum() / (n + k)", "np.where(x > 0, x, k + n)", "np.clip(x, 0, k + n)", "np.multiply(n, k)", "np.full(3, k * n)",
    "np.array([k, n])", "x.mean(0) * (n / k)",
    "sum([n, k]) * x", "k * n * n", "(n * k) // 2 + x", "math.prod([n, k]) * x", "(k > 1) * n * x", "float(k) * n * x",
    "round(k / n, 1) * x",
]  # fmt: skip


@pytest.mark.parametrize("k", [2, 3.5, True])
@pytest.mark.parametrize("expression", EXTENTS_AND_NUMBERS)
def test_numbers_computed_from_extents_and_numbers_are_pythons(expression: str, k: Any):
    f = eval(f"lambda x, k: (lambda n: {expression})(x.shape[0])", {"np": np, "math": math})
    for dtype in (np.float32, np.int8):
        jitted = tj.jit(f)
        for size in (4, 6, 5):
            x = np.ones(size, dtype)
            want, got = f(x, k), jitted(x, k)
            assert type(got) is type(want)
            assert getattr(got, "dtype", None) == getattr(want, "dtype", None)
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[:1] * (x.size * (x.size + 1) / ((x.size - 1) * (x.size - 2) * (x.size - 3))),
        lambda x: x * (x.shape[0] * 10**19),
        lambda x: x[:1] + (x.size * 2**50 + 2**63),
        lambda x: x[:1] * (x.size * (x.size - 1) / 2),
        lambda x: x.reshape(1, 1, -1).sum() / x.size**3,
    ],
)
def test_numbers_computed_from_extents_do_not_wrap(f: Any):
    jitted = tj.jit(f)
    for size in (10, 3_000_000, 7):
        np.testing.assert_allclose(jitted(np.ones(size)), f(np.ones(size)), rtol=1e-9)


def test_extents_among_what_numpy_asks_of_numbers():
    f = tj.jit(lambda x: (x * 2).astype(np.result_type(x, x.shape[0])) * int(np.isscalar(x.shape[0])))
    for size in (4, 6, 5):
        got = f(np.ones(size, np.float32))
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, np.full(size, 2))


@pytest.mark.parametrize("k", [2.5, 3, True, np.float32(2), np.int8(3)])
@pytest.mark.parametrize("function", [np.real, np.imag, np.isreal, np.iscomplex, np.isrealobj])
def test_parts_of_numbers(function: Any, k: Any):
    got, want = tj.jit(lambda k: function(k))(k), function(k)
    assert type(got) is type(want)
    assert got == want


@pytest.mark.parametrize("k", [3, True, 3.0, np.int8(3), np.int64(3)])
@pytest.mark.parametrize("e", [np.array([0, 1], "i4"), np.array([2], "u1"), np.array([True]), 2, np.int64(2)])
def test_the_dtype_of_ldexp(k: Any, e: Any):
    got, want = tj.jit(lambda k, e: np.ldexp(k, e))(k, e), np.ldexp(k, e)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("better", [max, min])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "iu"], ids=str)
def test_max_and_min_never_wrap_a_number_that_does_not_fit(better: Any, dtype: np.dtype[Any]):
    given = tj.jit(lambda a, n: better(a[1], n))
    a, limits = some(dtype), np.iinfo(dtype)
    for n in INTEGERS:
        for f in (tj.jit(eval(f"lambda a, n: better(a[1], {n})", {"better": better})), given):
            try:
                got = f(a, n)
            except OverflowError:
                assert not limits.min <= n <= limits.max
            else:
                assert got == better(a[1], n)


@pytest.mark.parametrize("number", [1e300, -1e300, 70000, 70000.0, 0.5, 3, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_max_and_min_keep_a_number_that_a_float_does_not_hold(dtype: str, number: float):
    x = np.array([3.0, -2.0], dtype)
    with np.errstate(over="ignore"):  # which NumPy says while it compares them
        for better in (max, min):
            want = float(better(float(x[0]), float(number)))
            assert tj.jit(eval(f"lambda x: better(x[0], {number})", {"better": better, "inf": math.inf}))(x) == want


class Mode(enum.IntEnum):
    ON = 1
    OFF = 2


class Metres(float):
    pass


@pytest.mark.parametrize("value", [3, 3.0, True, np.float32(3), np.int8(3), np.ones(2)], ids=repr)
@pytest.mark.parametrize("other", [Mode.OFF, Metres(2.5)], ids=repr)
@pytest.mark.parametrize("form", ["x * m", "m - x", "x + m", "x < m", "m == x", "m ** x", "x // m", "x != m"])
def test_members_of_an_int_enum_and_other_derived_numbers_are_numbers(form: str, other: Any, value: Any):
    for f, args in [
        (eval(f"lambda x, m: {form}"), (value, other)),
        (eval(f"lambda x: {form}", {"m": other}), (value,)),
    ]:
        got, want = tj.jit(f)(*args), f(*args)
        assert np.array_equal(got, want)
        assert getattr(got, "dtype", type(got)) == getattr(want, "dtype", type(want))


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


@pytest.mark.parametrize("form", ["n & m", "m | n", "n | m | 8", "(n & m) != 0", "n ^ m"])
def test_flags_are_integers(form: str):
    f = eval(f"lambda n: {form}", {"m": Access.WRITE})
    assert [tj.jit(f)(n) for n in (1, 2, 3)] == [f(n) for n in (1, 2, 3)]


@pytest.mark.parametrize("expression", [
    "round(n, -1)", "round(n, -2)", "round(n, 0)", "round(n)", "n * np.int64(2)", "n + np.uint8(3)", "n // np.int64(2)",
    "n % np.int16(4)", "n - np.int64(2)", "divmod(n, np.int64(3))[0]", "(n > np.int64(5)) + np.int8(1)",
    "(n == np.int64(27)) + np.int8(1)", "~(n != np.int64(3))", "(n < np.int64(3)) | False", "n ** np.int64(2)",
    "np.int64(2) * n", "abs(np.int64(3) - n)", "max(n, np.int64(9))", "-(-n // np.int64(2))",
])  # fmt: skip
def test_extents_with_numbers_of_numpy_that_the_function_writes(expression: str):
    """They are NumPy's: a narrow array beside them is as wide as they are."""
    f = eval(f"lambda x: (lambda n: x * ({expression}))(len(x))", {"np": np})
    compiled = tj.jit(f)
    for size in (3, 27, 28, 5, 2, 1, 0):
        for dtype in (np.int8, np.float32):
            x = np.ones(size, dtype)
            got, want = compiled(x), f(x)
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype


def test_unsigned_integers_with_their_highest_bit():
    a = np.array([0, 1, 2**63, 2**64 - 1, 2**63 + 5], np.uint64)
    for f in (
        lambda a, b: (a ^ b) >= np.uint64(2**63), lambda a, b: np.minimum(a ^ b, np.uint64(2**63)),
        lambda a, b: ((a ^ b) >> np.uint64(63)) == 1, lambda a, b: np.clip(a ^ b, np.uint64(7), np.uint64(2**63 + 1)),
        lambda a, b: np.where((a ^ b) > np.uint64(2**63 - 1), 1, 0),
    ):  # fmt: skip
        np.testing.assert_array_equal(tj.jit(f)(a[:, None], a), f(a[:, None], a))


def test_bounds_that_limit_nothing_beside_wider_ones():
    """NumPy leaves a bound out that no number of the array's dtype is beyond."""
    bounds = [None, 0, 3, 127, 128, 255, 300, -129, 32767, 2**62, np.int16(300), np.uint8(200), np.float32(1.5)]
    bounds += [np.int64(2**40), np.int8(5)]
    for dtype in (np.int8, np.uint8, np.int16):
        a = np.array([np.iinfo(dtype).min, 0, 3, 100, np.iinfo(dtype).max], dtype)
        for low, high in itertools.product(bounds, bounds):
            try:
                want = np.clip(a, low, high)
            except OverflowError:
                continue
            assert repr(tj.jit(lambda a, low=low, high=high: np.clip(a, low, high))(a)) == repr(want), (low, high)
    traced = tj.jit(lambda a, low, high: np.clip(a, low, high))
    for low, high in ((np.int16(300), 127), (np.int16(300), 300), (np.float32(1.5), 127), (3, 100), (3, 127), (3, 400)):
        a = np.arange(-5, 120, 20, dtype=np.int8)
        assert repr(traced(a, low, high)) == repr(np.clip(a, low, high)), (low, high)
