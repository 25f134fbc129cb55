"""What is decided of symbolic extents, against all extents that they stand for."""

import itertools
import operator
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import tracejit as tj
from tracejit.ir.builder import extent_function
from tracejit.ir.extents import (
    Count,
    Dim,
    DimDependent,
    Extent,
    Index,
    _bounds,  # pyright: ignore[reportPrivateUsage]
    decided_from,
    evaluate,
    greater_extent,
    greatest_extent,
    has_count,
    held,
    same_extent,
    smaller_extent,
    substituted,
    surely_at_most,
)
from tracejit.ir.kernel import Const, Op, Operand
from tracejit.ir.program import ProgramBuffer
from tracejit.ir.scalar import DTYPES, OPS

N, M = Dim.symbol("n0"), Dim.symbol("large1")
VALUES = [{"n0": n, "large1": m} for n, m in itertools.product([*range(2, 16), 60], [*range(16, 24), 61])]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]

LEAVES = st.one_of(st.just("n"), st.just("m"), st.integers(-7, 7))
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "max", "min"]), inner, inner),
    max_leaves=7,
)


def extent(expression: Any) -> Extent | None:
    """The extent that an expression is; None where it divides by what may be zero."""
    if not isinstance(expression, tuple):
        return {"n": N, "m": M}.get(expression, expression)
    name, left, right = expression
    a, b = extent(left), extent(right)
    if a is None or b is None:
        return None
    if name in ("max", "min"):
        return greater_extent(a, b) if name == "max" else smaller_extent(a, b)
    try:
        return getattr(operator, name)(a, b)
    except (ZeroDivisionError, DimDependent):
        assert any(evaluate(b, v) == 0 for v in VALUES) or not isinstance(b, int)
        return None


def value(expression: Any, values: dict[str, int]) -> int:
    """What an expression is for given extents, by Python's integers."""
    if isinstance(expression, str):
        return values["n0" if expression == "n" else "large1"]
    if isinstance(expression, int):
        return expression
    name, left, right = expression
    operation = {"max": max, "min": min}.get(name) or getattr(operator, name)
    return operation(value(left, values), value(right, values))


@given(EXPRESSIONS, EXPRESSIONS)
@example(("floordiv", "n", 2), "n")
@example(("floordiv", ("sub", 3, "n"), 4), ("mod", ("sub", 3, "n"), 4))
@example(("mul", ("mod", "n", 3), ("mod", "n", 3)), ("mod", "n", 3))
@example(("floordiv", ("floordiv", "n", 2), 3), ("floordiv", "n", 6))
@example(("floordiv", ("sub", 1, "n"), "m"), -1)
@example(("max", ("mod", "n", 5), ("floordiv", "m", 4)), 4)
@example(("min", "n", ("sub", 20, "m")), 4)
def test_comparisons_are_decided_as_all_extents_decide_them(left: Any, right: Any):
    a, b = extent(left), extent(right)
    if a is None or b is None:
        return
    values = [(evaluate(a, v), evaluate(b, v)) for v in VALUES]
    for compare in COMPARISONS if isinstance(a, Dim) else []:
        try:
            decided = compare(a, b)
        except DimDependent:
            continue
        assert {compare(x, y) for x, y in values} == {decided}, f"{compare.__name__}({a}, {b})"
    assert not surely_at_most(a, b) or all(x <= y for x, y in values)


@given(EXPRESSIONS)
@example(("floordiv", "n", -2))
@example(("mod", ("floordiv", 50, ("sub", 1, "n")), -3))
@example(("mod", 17, ("sub", 1, "m")))
def test_bounds_hold_for_all_extents(expression: Any):
    x = extent(expression)
    if x is None:
        return
    low, high = _bounds(x)
    values = [evaluate(x, v) for v in VALUES]
    assert values == [value(expression, v) for v in VALUES]
    assert low is None or low <= min(values)
    assert high is None or high >= max(values)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (lambda n: n // 2 <= n, True),
        (lambda n: n - n // 2 >= 1, True),
        (lambda n: n // 2 >= 1, True),
        (lambda n: n // 3 >= 0, True),
        (lambda n: n % 8 <= n, True),
        (lambda n: n - n // 2 * 2 < 2, True),
        (lambda n: (n + 1) // 2 + n // 2 == n, True),
        (lambda n: n // 4 * 4 > n, False),
        (lambda n: 2 * n // 3 >= n // 3, True),
        (lambda n: -(n // 2) < 0, True),
        (lambda n: n * n // 2 <= n * n, True),
        (lambda n: (n + 3) // 4 * 4 >= n, True),
        (lambda n: (n + 3) // 4 * 4 <= n + 3, True),
        (lambda n: n % 4 == 4, False),
        (lambda n: 7 // n <= 3, True),
        (lambda n: n // 1000 <= n, True),
        (lambda n: n % (n + 1) < 0, False),
    ],
)
def test_quotients_and_remainders_are_bounded_by_what_they_are_made_of(claim: Any, expected: bool):
    assert claim(N) is expected
    assert all(claim(n) is expected for n in range(2, 100))


@pytest.mark.parametrize(
    "claim",
    [lambda n: n // 3 >= 1, lambda n: n % 2 == 0, lambda n: n // 2 * 2 == n, lambda n: n // 3 * 2 > n % 3],
)
def test_what_differs_between_extents_is_not_decided(claim: Any):
    assert len({claim(n) for n in range(2, 100)}) == 2
    with pytest.raises(DimDependent):
        claim(N)


def test_extents_of_equal_atoms_divide_without_deciding_whether_others_are_equal():
    m = Dim.symbol("n1")
    assert str((N // 2 * m) // (N // 2)) == "n1"
    assert str((N // 2 * m) // (m // 2)) == "floordiv(floordiv(n0, 2)*n1, floordiv(n1, 2))"


@pytest.mark.parametrize(
    "divided", [lambda n: n // (n // 3), lambda n: n % (n - 2), lambda n: 5 // (n - 2), lambda n: 5 % (n // 3)]
)
def test_a_divisor_that_may_be_zero_fixes_the_extent(divided: Any):
    with pytest.raises(DimDependent):
        divided(N)
    with pytest.raises(ZeroDivisionError):
        divided(2)


def test_what_divides_evenly_leaves_a_quotient():
    assert str((2 * N + 1) // 2) == "n0"
    assert (2 * N + 1) % 2 == 1
    assert type((2 * N + 1) % 2) is int
    assert str((4 * N + 6 * M + 7) // 4) == "large1+n0+floordiv(2*large1+3, 4)+1"
    assert str((5 - N) % 3) == "mod(2*n0+2, 3)"
    assert all((5 - n) % 3 == (2 * n + 2) % 3 for n in range(20))


@pytest.mark.parametrize(
    ("claim", "periods"),
    [
        (lambda n: n % 6 == 4, {"n0": 6}),
        (lambda n: n // 2 == n - n // 2, {"n0": 2}),
        (lambda n: n // 3 % 2 == 1, {"n0": 6}),
        (lambda n: n % 2 + n % 3 == 1, {"n0": 6}),
        (lambda n: n // 2 == 5, {}),  # not by remainders alone
        (lambda n: n == 7, {}),
    ],
)
def test_an_undecided_comparison_says_which_remainders_would_decide_it(claim: Any, periods: dict[str, int]):
    with pytest.raises(DimDependent) as error:
        claim(N)
    assert error.value.periods == periods
    for r in range(periods.get("n0", 0)):
        assert claim(periods["n0"] * N + r) in (True, False)


def test_sameness_is_that_of_what_is_written():
    m = Dim.symbol("n1")
    assert same_extent(N // 2, Dim.symbol("n0") // 2)
    assert not same_extent(N // 2, m // 2)  # undecided, were it by value
    assert not same_extent(N - N // 2, (N + 1) // 2)
    assert N - N // 2 == (N + 1) // 2
    assert not same_extent(N // 2, N % 2)


@given(st.lists(EXPRESSIONS, min_size=1, max_size=3))
@example([("floordiv", ("sub", 0, "n"), 4), ("mod", ("sub", 0, "n"), 4), ("floordiv", "n", "m")])
def test_scalar_operations_of_extents_give_their_values(expressions: list[Any]):
    extents = [n for n in map(extent, expressions) if isinstance(n, Dim)]
    symbols, function = extent_function(*extents)
    for values in VALUES[::5]:
        found: dict[Any, Any] = {p: np.int64(values[s]) for p, s in zip(function.params, symbols, strict=True)}

        def value(x: Operand, found: dict[Any, Any] = found) -> Any:
            return DTYPES[x.dtype].type(x.value) if isinstance(x, Const) else found[x]

        for s in function.body:
            assert isinstance(s, Op)
            found[s.out] = OPS[s.op].impl(DTYPES[s.out.dtype], *map(value, s.args))
        assert [int(value(r)) for r in function.results] == [evaluate(n, values) for n in extents]


# -- indices of loops --------------------------------------------------------------------------------------------------
def test_what_an_index_decides():
    n = Dim.symbol("n0")
    outer = Index(0, n - 1)
    i = Dim.symbol(outer)
    j = Dim.symbol(Index(1, i - 1))
    assert n > i
    assert i + 1 <= n
    assert i > j
    assert n - j >= 2
    with pytest.raises(DimDependent) as decision:
        bool(n - i - 1 == 1)
    assert decision.value.difference is not None
    assert decided_from(decision.value.difference, outer) == (0, 2)
    assert decided_from(i - 1, outer) == (2, 0)
    assert decided_from(i * 2 - n, outer) is None
    assert greatest_extent(i + 2) == n + 1
    assert greatest_extent(n - i) == n
    assert greatest_extent(i - j) == n - 1
    assert substituted(i * (n - i), {outer: n - 1 - i}) == (n - 1 - i) * (i + 1)


def test_bounds_of_random_extents_with_indices():
    rng = random.Random(1)
    n = Dim.symbol("n0")
    for _ in range(400):
        outer = Index(0, n - rng.choice([1, 1, 2, 3]))
        i = Dim.symbol(outer)
        inner = Index(1, rng.choice([i, i + 1, n - i, n - 1 - i]))
        j = Dim.symbol(inner)

        def atom() -> Any:
            x = rng.choice([n, i, j, i, j, rng.randint(1, 4)])  # noqa: B023
            how = rng.random()
            return x if how > 0.25 or isinstance(x, int) else x // rng.randint(2, 5) if how > 0.1 else x % 3

        extent: Any = 0
        for _ in range(rng.randint(1, 4)):
            term: Any = rng.choice([-3, -2, -1, 1, 1, 2])
            for _ in range(rng.randint(0, 2)):
                term = term * atom()
            extent = extent + term
        most = greatest_extent(extent)
        lows = [c for c in range(-8, 9) if surely_at_most(c, extent)]
        highs = [c for c in range(-8, 9) if surely_at_most(extent, c)]
        for size in (2, 3, 4, 7):
            for a in range(evaluate(outer.most, {"n0": size}) + 1):
                for b in range(evaluate(inner.most, {"n0": size, outer: a}) + 1):
                    value = evaluate(extent, {"n0": size, outer: a, inner: b})
                    assert all(c <= value for c in lows)
                    assert all(c >= value for c in highs)
                    assert value <= max(0, evaluate(most, {"n0": size}))


def test_what_a_program_computes_is_bounded_by_its_most():
    count = Dim.symbol(Count(1, N - 1, "x[mask]"))
    assert has_count(count + N)
    assert not has_count(N)
    assert greatest_extent(count * 2 + 1).same(2 * N - 1)
    assert surely_at_most(count, N - 1)
    assert not surely_at_most(1, count)
    assert smaller_extent(count, N).same(count)
    assert str(smaller_extent(count, 3)) == f"min({count}, 3)"
    with pytest.raises(DimDependent):
        bool(count == 0)


def test_memory_has_an_element_where_a_program_computes_none():
    count = Dim.symbol(Count(1, N - 2))
    values = {"n0": 2, str(count): 0}
    assert (held(count, values), held(N - 2, values), held(count + 3, values)) == (1, 0, 3)
    buffer = ProgramBuffer("t", "f64", (count, N - 2), "temporary")
    assert [evaluate(n, values) for n in buffer.room] == [1, 0]


def test_quotients_of_quotients_are_one():
    n = Dim.symbol("n")
    x: Any = n
    for _ in range(30):
        x = (x + 1) // 2
    assert str(x).count("floordiv") == 1
    rng = random.Random(0)
    for _ in range(300):
        made: Any = n * rng.randint(1, 3) + rng.randint(-3, 5)
        steps = [(rng.randint(1, 5), rng.randint(-3, 4)) for _ in range(rng.randint(1, 4))]
        found = made
        for by, more in steps:
            found = found // by + more
        for size in (2, 3, 5, 17, 1001):
            want = evaluate(made, {"n": size})
            for by, more in steps:
                want = want // by + more
            assert (evaluate(found, {"n": size}) if isinstance(found, Dim) else found) == want


def test_parts_that_make_up_a_whole_are_one():
    n, m = Dim.symbol("n0"), Dim.symbol("n1")
    assert (n // 2 + (n + 1) // 2).same(n)
    assert (n // 3 + (n + 2) // 3 + (n + 1) // 3).same(n)
    assert ((n * 5 + 1) // 2 + (n * 5) // 2).same(n * 5)
    assert (m * ((n + 1) // 2) + 3 + m * (n // 2)).same(m * n + 3)
    assert (n // 2 - n // 2) == 0
    assert (2 * (n // 2) + (n + 1) // 2).same(n + n // 2)
    assert (n // 2 - (n + 1) // 2).symbols() == {"n0"}
    for size in range(2, 20):
        for d in (2, 3, 5):
            total = sum((n * 2 + k) // d for k in range(d)) + (n // 2) * m
            assert evaluate(total, {"n0": size, "n1": 7}) == sum((size * 2 + k) // d for k in range(d)) + size // 2 * 7


def test_even_and_odd_parts_are_joined_again_and_again():
    def shuffled(x):
        for _ in range(6):
            x = np.concatenate([x[::2], x[1::2]])
        return x

    compiled = tj.jit(shuffled)
    for n in (30, 41, 64):
        np.testing.assert_array_equal(compiled(np.arange(n)), shuffled(np.arange(n)))
