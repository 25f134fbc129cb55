"""f16 on the CPU: conversions are NumPy's, also those that are functions of ours
where the processor has no instruction for them."""

import ctypes

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.cpu.runtime import llvm

HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def doubles():
    """Every f16, every point half way between two, what lies next to these, and random bits."""
    values = np.unique(HALVES[np.isfinite(HALVES)].astype(np.float64))
    middles = np.concatenate([(values[1:] + values[:-1]) / 2, [65520.0, -65520.0]])
    near = [np.nextafter(middles, side) for side in (np.inf, -np.inf)]
    rest = np.random.default_rng(1).integers(0, 2**64, 20000, dtype=np.uint64).view(np.float64)
    return np.concatenate([values, middles, *near, rest, [1e-300, -1e300, np.inf, -np.inf, np.nan, 0.0, -0.0]])


def singles():
    with np.errstate(all="ignore"):
        middles = doubles().astype(np.float32)
    rest = np.random.default_rng(2).integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    return np.concatenate([middles, *(np.nextafter(middles, np.float32(side)) for side in (np.inf, -np.inf)), rest])


def same(result, expected):
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result)[~np.isnan(result)], np.signbit(expected)[~np.isnan(expected)])


def library_function(text, argument, result, x):
    """`text` with %a, the loaded element, and %b, the one to store, over an array."""
    library = llvm.load(f"""
{text.partition("!")[0]}
define void @all(ptr %x, ptr %y, i64 %n) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %j, %next ]
  %p = getelementptr {argument}, ptr %x, i64 %i
  %q = getelementptr {result}, ptr %y, i64 %i
  %a = load {argument}, ptr %p
  {text.partition("!")[2]}
  store {result} %b, ptr %q
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %next, label %out
out:
  ret void
}}""")
    y = np.empty(x.shape, {"half": "f2", "float": "f4"}[result])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library.address("all"))(
        x.ctypes.data, y.ctypes.data, x.size
    )
    return y


@pytest.mark.parametrize(
    ("symbol", "argument", "values"), [("__truncsfhf2", "float", singles), ("__truncdfhf2", "double", doubles)]
)
def test_the_functions_that_round_to_f16_are_numpys_conversion(symbol, argument, values):
    x = values()
    text = f"declare half @{symbol}({argument}) ! %b = call half @{symbol}({argument} %a)"
    with np.errstate(all="ignore"):
        same(library_function(text, argument, "half", x), x.astype(np.float16))


def test_the_function_that_widens_f16_is_exact():
    text = "declare float @__extendhfsf2(half) ! %b = call float @__extendhfsf2(half %a)"
    same(library_function(text, "half", "float", HALVES), HALVES.astype(np.float32))


def test_conversions_round_once():
    with np.errstate(all="ignore"):
        for dtype, values in (
            (np.float16, doubles()),
            (np.float16, singles()),
            (np.float32, HALVES),
            (np.float64, HALVES),
        ):
            same(tj.jit(lambda x, dtype=dtype: x.astype(dtype))(values), values.astype(dtype))
        for kind in (np.int64, np.uint64, np.int32, np.uint16, np.int8):
            integers = np.concatenate([np.arange(-70000, 70000, 7), [2**62, -(2**63)]]).astype(kind)
            same(tj.jit(lambda x: x.astype(np.float16))(integers), integers.astype(np.float16))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: np.sqrt(np.abs(a)), np.maximum,
        np.minimum, lambda a, b: a < b, lambda a, b: np.floor(a), lambda a, b: -a, lambda a, b: np.where(b > 1, a, b),
        lambda a, b: np.copysign(a, b), lambda a, b: np.rint(a),
    ],
)  # fmt: skip
def test_operations_on_f16_round_once(function):
    a, b = HALVES[HALVES == HALVES], HALVES[::-1][HALVES[::-1] == HALVES[::-1]]
    b = np.random.default_rng(3).permutation(b)
    b[b == 0] = 1  # which zero of two `maximum` returns is another question
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(tj.jit(function)(a, b), function(a, b))


def test_one_of_two_halves_is_spread_to_lanes():
    """LLVM 22 ended the process for x86, where it made a table of the two."""

    def f(a, b):
        h = np.copysign(True, np.square(a))
        return h, np.greater_equal.outer(h, b)

    a, b = np.arange(17, dtype=np.uint8), np.arange(-7, 8, dtype=np.int8)
    for got, expected in zip(tj.jit(f)(a, b), f(a, b), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float32, np.float64])
def test_one_of_two_numbers_whose_choice_is_found_late_is_spread_to_lanes(dtype):
    """The sign of 0 or 1 is known to LLVM 22 only after it has made the table."""

    def f(a):
        return np.copysign(dtype(2), np.pad(a.all(0, keepdims=True), (2, 1), "edge"))

    a = np.array([2, -1, -2, -2, 2], np.int8)
    np.testing.assert_array_equal(tj.jit(f)(a), f(a))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("first", [-2.5, np.inf, np.nan, 0.1, -0.0, 1e-40, 5e-324])
def test_one_of_two_numbers(dtype, first):
    def f(x, n):
        return np.where(n > x, dtype(first), dtype(1.1))

    for n in range(3):
        got, expected = tj.jit(f)(np.int64(1), np.int64(n)), f(np.int64(1), np.int64(n))
        assert got.dtype == expected.dtype
        assert got.tobytes() == expected.tobytes()
