"""Comparisons and clamps of indices fold where a loop's bounds decide them, and nowhere else."""

import operator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir.builder import fold_constants
from tracejit.ir.extents import Dim
from tracejit.ir.kernel import Const, Value
from tracejit.ir.ranges import _COMPUTED, IndexRanges
from tracejit.ir.scalar import DTYPES, EXACT, OPS

COMPARE = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


@pytest.mark.parametrize("name", [*COMPARE, "min", "max"])
def test_what_folds_is_true_for_every_value(name: str):
    decided = 0
    for low in range(-2, 3):
        for high in range(low + 1, 5):
            ranges, i = IndexRanges(), Value("i64")
            ranges.bind(i, Const(low, "i64"), Const(high, "i64"))
            for c in range(-4, 7):
                for swapped in (False, True):
                    args = (Const(c, "i64"), i) if swapped else (i, Const(c, "i64"))
                    folded = ranges.fold(name, args)
                    values = [(c, n) if swapped else (n, c) for n in range(low, high)]
                    if name in COMPARE:
                        outcomes = {COMPARE[name](a, b) for a, b in values}
                        assert (folded is not None) == (len(outcomes) == 1) or name in ("eq", "ne")
                        assert folded is None or {folded.value} == outcomes  # type: ignore[union-attr]
                    else:
                        choose = min if name == "min" else max
                        left, right = (all(choose(v) == v[k] for v in values) for k in (0, 1))
                        assert (folded is not None) == (left or right)
                        assert folded is None or (folded is args[0] and left) or (folded is args[1] and right)
                    decided += folded is not None
    assert decided > 50


def test_sums_with_constants_and_symbolic_extents():
    ranges, i, up = IndexRanges(), Value("i64"), Value("i64")
    n = Dim.symbol("n")
    ranges.bind(i, Const(0, "i64"), Const(n, "i64"))
    ranges.computed(up, "add", (i, Const(2, "i64")))
    assert ranges.fold("lt", (i, Const(n, "i64"))) == Const(True, "bool")
    assert ranges.fold("min", (i, Const(n - 1, "i64"))) is i
    assert ranges.fold("ge", (up, Const(2, "i64"))) == Const(True, "bool")
    assert ranges.fold("lt", (up, Const(n, "i64"))) is None
    assert ranges.fold("lt", (i, Const(n - 1, "i64"))) is None


def test_nothing_is_known_of_data_and_of_computed_bounds():
    ranges, i, x = IndexRanges(), Value("i64"), Value("i64")
    ranges.bind(i, Const(0, "i64"), x)
    assert ranges.fold("lt", (i, Const(0, "i64"))) is None
    assert ranges.fold("lt", (x, Const(0, "i64"))) is None
    assert ranges.fold("lt", (Value("f64"), Const(0.0, "f64"))) is None


def test_an_index_of_a_loop_is_not_clamped():
    def total(x: Any) -> Any:
        s = np.zeros(())
        for n in tj.range(x.shape[0]):
            s += x[n] * x[-1 - n]
        return s

    x = np.random.default_rng(0).normal(size=50)
    f = tj.jit(total)
    np.testing.assert_allclose(f(x), total(x))
    text = f.lower(x).text("scheduled")
    assert not any(f"{name} " in text for name in ("select", "lt", "min", "max")), text


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("bool", 0, 1), ("i8", -128, 127), ("u8", 0, 255), ("i32", -(2**31), 2**31 - 1)]
)
def test_a_narrow_integer_lies_within_its_dtype(dtype: str, low: int, high: int):
    ranges, wide = IndexRanges(), Value("i64")
    ranges.computed(wide, "convert", (Value(dtype),))
    assert ranges.fold("lt", (wide, Const(low, "i64"))) == Const(False, "bool")
    assert ranges.fold("gt", (wide, Const(high, "i64"))) == Const(False, "bool")
    assert ranges.fold("gt", (wide, Const(low, "i64"))) is None
    assert ranges.fold("eq", (wide, Const(high + 1, "i64"))) == Const(False, "bool")


FLOATS_ONLY = {"div", "fma", "sqrt", "floor", "ceil", "trunc", "roundeven", "copysign"}
INTEGERS_ONLY = {"idiv", "irem", "shl", "shr", "lshr", "and", "or", "xor", "not"}
DEFINED = [
    (name, dtype)
    for name in sorted(EXACT)
    if OPS[name].result not in ("part", "whole")  # complex numbers are two constants where constants fold
    for dtype in sorted(DTYPES)
    if dtype[0] in ("f" if name in FLOATS_ONLY else "iu" if name in INTEGERS_ONLY else "iuf")
]


@pytest.mark.parametrize(("name", "dtype"), DEFINED)
def test_operations_on_constants_fold_to_their_values(name: str, dtype: str):
    numbers = [3.5, -2.25, -0.0, float("inf")] if dtype[0] == "f" else [3, 1, 0, 7]
    result = "bool" if OPS[name].result == "bool" else "i16" if OPS[name].result == "out" else dtype
    for n, x in enumerate(numbers):
        args = tuple(Const(v, dtype) for v in [x, numbers[n - 1], numbers[n - 2]][: OPS[name].arity])
        if name == "select":
            args = (Const(n % 2 == 0, "bool"), *args[1:])
        arrays = [np.array([a.value], DTYPES[a.dtype]) for a in args]
        want = OPS[name].impl(DTYPES[result], *arrays)[0]
        got = fold_constants(name, args, result)
        assert got is not None
        assert got.dtype == result
        assert np.array(got.value, DTYPES[result]).tobytes() == np.array(want, DTYPES[result]).tobytes() or want != want


def test_what_is_no_number_does_not_fold():
    assert fold_constants("exp", (Const(1.0, "f64"),), "f64") is None
    assert fold_constants("add", (Const(1.0, "f64"), Value("f64")), "f64") is None
    assert fold_constants("idiv", (Const(Dim.symbol("n"), "i64"), Const(2, "i64")), "i64") is None


def test_sums_that_may_wrap_around_are_not_known():
    for name, number in (("add", 2**63 - 1), ("sub", -(2**63)), ("add", -(2**63)), ("sub", 2**63 - 1)):
        ranges, wide, total = IndexRanges(), Value("i64"), Value("i64")
        ranges.computed(wide, "convert", (Value("i32"),))
        ranges.computed(total, name, (wide, Const(number, "i64")))
        assert ranges.fold("gt", (total, Const(0, "i64"))) is None
        assert ranges.fold("lt", (total, Const(0, "i64"))) is None


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.astype("i8") + (2**63 - 1)) > 0,
        lambda x: (x.astype("i8") - (-(2**63))) < 0,
        lambda x: np.subtract(np.logical_or(-2, x), -(2**63)),
        lambda x: np.int64(2**63 - 1) + x.astype("i8") * 1 + np.int64(1) > 0,
        lambda x: np.arange(3) + np.int64(2**63 - 1) + x.astype("i8")[:1],
    ],
)
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4"])
def test_comparisons_of_what_wraps_around(f: Any, dtype: str):
    x = np.array([0, 1, 3, 1], dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(tj.jit(f)(x), f(x))


@pytest.mark.parametrize("name", sorted(_COMPUTED))
@pytest.mark.parametrize("dtype", ["u8", "i8", "i32", "u64", "i64"])
def test_what_is_computed_lies_in_its_range(name: str, dtype: str):
    """Of operands that are themselves computed (masked, shifted, the rest of a division),
    with every operation of `ir.scalar` as oracle."""
    rng = np.random.default_rng(0)
    numpy_dtype = DTYPES[dtype]
    limits = np.iinfo(numpy_dtype)
    edges = [limits.min, limits.max, 0, 1, 2, 3, 7, 100]

    def narrowed(ranges: IndexRanges) -> tuple[Value | Const, Any]:
        """An operand, and values that it may have."""
        number = int(edges[rng.integers(len(edges))])
        if rng.random() < 0.3:
            return Const(number, dtype), np.full(400, number, numpy_dtype)
        x, y = Value(dtype), Value(dtype)
        values = np.concatenate(
            [rng.integers(limits.min, limits.max, 392, dtype=numpy_dtype, endpoint=True), np.array(edges, numpy_dtype)]
        )
        op = ("and", "irem", "shr", "max")[rng.integers(4)]
        ranges.computed(y, op, (x, Const(number, dtype)))
        return y, OPS[op].impl(numpy_dtype, values, np.full_like(values, number))

    for _ in range(300):
        ranges = IndexRanges()
        (a, x), (b, y) = narrowed(ranges), narrowed(ranges)
        result = ("u8", "i8", "i64", "bool", "i16")[rng.integers(5)] if name == "convert" else dtype
        out = Value(result)
        if name == "select":
            constant, want = ranges.computed(out, name, (Value("bool"), a, b)), np.concatenate([x, y])
        elif name == "convert":
            constant, want = ranges.computed(out, name, (a,)), OPS[name].impl(DTYPES[result], x)
        else:
            constant, want = ranges.computed(out, name, (a, b)), OPS[name].impl(numpy_dtype, x, y)
        if constant is not None:
            assert np.all(want == constant.value), (name, a, b, constant)
        for test in ("lt", "gt", "eq", "ge"):
            for number in edges:
                if np.can_cast(np.min_scalar_type(number), DTYPES[result]) and result != "bool":
                    folded = ranges.fold(test, (out, Const(number, result)))
                    if folded is not None:
                        assert np.all(OPS[test].impl(None, want, DTYPES[result].type(number)) == folded.value), (
                            name,
                            a,
                            b,
                            test,
                            number,
                        )
