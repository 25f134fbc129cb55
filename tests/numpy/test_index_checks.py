"""A computed index that is out of bounds raises IndexError with the user's line and changes no argument."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tracejit as tj
from tracejit.support.errors import IndexOutOfBounds, TracerError

X = np.arange(5.0)
BACKENDS = tj.list_backends()


def message(call: Callable[[], Any]) -> tuple[str, str]:
    """What an IndexError says, and the part of the user's line that it marks."""
    with pytest.raises(IndexError) as caught:
        call()
    error = caught.value
    assert isinstance(error, IndexOutOfBounds)
    text = str(error).splitlines()
    line, marks = text[-2], text[-1]
    start = marks.index("^")
    return error.message, line[start : start + marks.count("^")]


def out_of_bounds(index: int, extent: int) -> str:
    return f"index {index} is out of bounds for an axis of extent {extent}"


def read(x: Any, i: Any) -> Any:
    return x[i]


def summed(x: Any, places: Any) -> Any:
    total = np.zeros(1)
    for i in tj.range(places.shape[0]):
        total[0] += x[places[i]]
    return total[0]


def written(x: Any, i: Any) -> None:
    x[i] = 7


def checks(function: Any, *args: Any) -> bool:
    """Whether the program of a call checks an index."""
    return tj.jit(function).lower(*args).program.checked


# -- raising -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_number_out_of_bounds(backend: str, record_backend: Any):
    record_backend(backend)
    f = tj.jit(read, backend=backend)
    assert [f(X, i) for i in (0, 4, -1, -5)] == [0, 4, 4, 0]
    for i in (5, -6, np.int64(99), np.int32(-6), np.uint8(200)):
        assert message(lambda i=i: f(X, i)) == (out_of_bounds(int(i), 5), "x[i]")
    assert f(X, 2) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_of_indices(backend: str, record_backend: Any):
    record_backend(backend)
    f = tj.jit(read, backend=backend)
    np.testing.assert_array_equal(f(X, np.array([0, -5, 4])), [0, 0, 4])
    assert message(lambda: f(X, np.array([0, 5, 1]))) == (out_of_bounds(5, 5), "x[i]")
    assert message(lambda: f(X, np.array([[0, -6]]))) == (out_of_bounds(-6, 5), "x[i]")
    assert message(lambda: f(X, np.array([2], np.uint32) + np.uint32(7))) == (out_of_bounds(9, 5), "x[i]")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_index_in_a_loop(backend: str, record_backend: Any):
    """The first failure counts, whatever garbage the rest of the loop computes."""
    record_backend(backend)
    f = tj.jit(summed, backend=backend)
    assert f(X, np.array([1, 2, -1])) == 7
    assert message(lambda: f(X, np.array([1, 9, -8]))) == (out_of_bounds(9, 5), "x[places[i]]")


def test_indices_of_several_axes():
    table = np.arange(12.0).reshape(3, 4)
    f = tj.jit(lambda x, i, j: x[i, j])
    assert f(table, 2, -4) == 8
    assert message(lambda: f(table, 2, 4)) == (out_of_bounds(4, 4), "x[i, j]")
    assert message(lambda: f(table, -4, 0)) == (out_of_bounds(-4, 3), "x[i, j]")
    assert message(lambda: f(table, np.array([0, 3]), np.array([0, 0]))) == (out_of_bounds(3, 3), "x[i, j]")
    assert message(lambda: f(table, np.array([0, 1]), 7)) == (out_of_bounds(7, 4), "x[i, j]")


def test_functions_that_index():
    table = np.arange(12.0).reshape(3, 4)
    take = tj.jit(lambda x, i: np.take(x, i, axis=1))
    np.testing.assert_array_equal(take(table, np.array([3, -4])), np.take(table, [3, -4], axis=1))
    assert message(lambda: take(table, np.array([4])))[0] == out_of_bounds(4, 4)
    along = tj.jit(lambda x, i: np.take_along_axis(x, i, axis=0))
    assert message(lambda: along(table, np.array([[0, 1, 2, 3]])))[0] == out_of_bounds(3, 3)

    def counted(bins: Any) -> Any:
        total = np.zeros(4)
        np.add.at(total, bins, 1)
        return total

    count = tj.jit(counted)
    np.testing.assert_array_equal(count(np.array([0, 3, 3, -1])), [1, 0, 0, 3])
    assert message(lambda: count(np.array([0, 4]))) == (out_of_bounds(4, 4), "np.add.at(total, bins, 1)")


def test_indices_of_many_sizes():
    """The extent in the message is that of the call."""
    f = tj.jit(read)
    for n in (3, 4, 50, 7):
        assert f(np.arange(float(n)), n - 1) == n - 1
        assert message(lambda n=n: f(np.arange(float(n)), n))[0] == out_of_bounds(n, n)
    assert f.compilations == 2


def test_an_axis_without_elements():
    assert message(lambda: tj.jit(read)(np.zeros(0), 0))[0] == out_of_bounds(0, 0)
    assert tj.jit(read)(np.zeros(0), np.zeros(0, np.int64)).shape == (0,)
    assert tj.jit(summed)(np.zeros(0), np.zeros(0, np.int64)) == 0

    def never(x: Any) -> Any:
        for i in tj.range(0):
            x[i] = 1
        return x.sum()

    assert tj.jit(never)(np.zeros(0)) == 0


def test_numbers_that_no_index_reaches():
    f = tj.jit(read)
    for i in (2**62, -(2**62), 2**63 - 1, -(2**63)):
        assert message(lambda i=i: f(X, i))[0].endswith("out of bounds for an axis of extent 5")


def test_no_reference_is_lost_where_a_call_fails():
    import sys

    f, big = tj.jit(read), np.zeros(5)
    f(big, 1), f(big, 2)
    before = sys.getrefcount(big)
    for _ in range(1000):
        with pytest.raises(IndexError):
            f(big, 9)
    gc.collect()
    assert sys.getrefcount(big) == before


# -- arguments ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_argument_changes_where_a_call_fails(backend: str, record_backend: Any):
    record_backend(backend)
    f = tj.jit(written, backend=backend)
    x = X.copy()
    f(x, 1)
    np.testing.assert_array_equal(x, [0, 7, 2, 3, 4])
    for i in (5, -6, np.array([0, 5])):
        before = x.copy()
        assert message(lambda i=i: f(x, i))[1] == "x[i]"
        np.testing.assert_array_equal(x, before)

    def scattered(x: Any, places: Any) -> None:
        for i in tj.range(places.shape[0]):
            x[places[i]] += 1

    g = tj.jit(scattered, backend=backend)
    g(x, np.array([0, 0, -1]))
    np.testing.assert_array_equal(x, [2, 7, 2, 3, 5])
    assert message(lambda: g(x, np.array([0, 1, 17])))[0] == out_of_bounds(17, 5)
    np.testing.assert_array_equal(x, [2, 7, 2, 3, 5])


def test_a_donated_argument_survives_a_call_that_fails():
    f = tj.jit(lambda x, i: x + x[i], donate_argnums=0)
    x = X.copy()
    assert message(lambda: f(x, 5))[1] == "x[i]"
    np.testing.assert_array_equal(x, X)


# -- control flow ------------------------------------------------------------------------------------------------------
def test_a_branch_that_is_not_taken_does_not_fail():
    f = tj.jit(lambda x, i: tj.lax.cond(i < 5, lambda: x[i], lambda: -1.0))
    assert (f(X, 3), f(X, 9)) == (3, -1)
    assert message(lambda: f(X, -6)) == (out_of_bounds(-6, 5), "x[i]")


def test_a_loop_whose_end_was_out_of_bounds_ends():
    """With the nearest element in its place the condition would hold for ever."""
    find = tj.jit(lambda x: tj.lax.while_loop(lambda k: x[k] < 10, lambda k: k + 1, 0))
    assert find(np.array([1.0, 2.0, 30.0, 4.0])) == 2
    assert message(lambda: find(X)) == (out_of_bounds(5, 5), "x[k]")

    def follow(next_one: Any, k: Any) -> Any:
        return tj.lax.while_loop(lambda k: k != 0, lambda k: next_one[k], k)

    f = tj.jit(follow)
    assert f(np.array([9, 0, 1, 2]), 3) == 0
    assert message(lambda: f(np.array([9, 9, 1, 2]), 3)) == (out_of_bounds(9, 4), "next_one[k]")


def test_conditions_may_fail_but_not_write():
    def f(x: Any) -> Any:
        def test(k: Any) -> Any:
            x[0] = 5
            return k < 3

        return tj.lax.while_loop(test, lambda k: k + 1, 0)

    with pytest.raises(TracerError, match="the condition changes an array in place"):
        tj.jit(f)(X.copy())


def test_scans_and_nested_loops():
    f = tj.jit(lambda x, places: tj.lax.scan(lambda c, i: (c + x[i], x[i]), 0.0, places)[1])
    np.testing.assert_array_equal(f(X, np.array([3, 1])), [3, 1])
    assert message(lambda: f(X, np.array([3, 5])))[1] == "x[i]"

    def nested(x: Any, shift: Any) -> Any:
        out = np.zeros(3)
        for i in tj.range(3):
            for j in tj.range(2):
                out[i] += x[i + j + shift]
        return out

    g = tj.jit(nested)
    np.testing.assert_array_equal(g(X, 1), [3, 5, 7])
    assert message(lambda: g(X, 2)) == (out_of_bounds(5, 5), "x[i + j + shift]")


def test_an_array_that_a_loop_changes_is_not_known_to_be_in_bounds():
    """Its first value is known while the body is traced."""

    def by_element(x: Any) -> Any:
        k = np.array([0, 1])
        total = np.zeros(1)
        for _ in tj.range(3):
            total += x[k[0]]
            k += 3
        return total

    def by_array(x: Any) -> Any:
        k = np.array([0, 1])
        total = np.zeros(2)
        for _ in tj.range(3):
            total += x[k]
            k += 3
        return total

    def by_number(x: Any) -> Any:
        k = np.array(0)
        total = np.zeros(1)
        for _ in tj.range(3):
            for _ in tj.range(1):
                total += x[k]
            k += 3
        return total

    for f in (by_element, by_array, by_number):
        assert message(lambda f=f: tj.jit(f)(X))[0] in (out_of_bounds(6, 5), out_of_bounds(7, 5))
        np.testing.assert_array_equal(tj.jit(f)(np.arange(9.0)), f(np.arange(9.0)))


# -- transformations ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("compiled", [True, False])
def test_transformations(compiled: bool):
    run: Any = tj.jit if compiled else lambda f: f
    mapped = run(tj.vmap(read, in_axes=(None, 0)))
    np.testing.assert_array_equal(mapped(X, np.array([4, 0])), [4, 0])
    assert message(lambda: mapped(X, np.array([4, 5]))) == (out_of_bounds(5, 5), "x[i]")
    slope = run(tj.grad(lambda x, i: x[i] ** 2))
    np.testing.assert_array_equal(slope(X, -2), [0, 0, 0, 6, 0])
    assert message(lambda: slope(X, -6)) == (out_of_bounds(-6, 5), "x[i]")
    each = run(tj.vmap(tj.grad(lambda x, i: x[i] ** 2), in_axes=(None, 0)))
    np.testing.assert_array_equal(each(X, np.array([1, 2])), [[0, 2, 0, 0, 0], [0, 0, 4, 0, 0]])
    assert message(lambda: each(X, np.array([1, -7]))) == (out_of_bounds(-7, 5), "x[i]")


@pytest.mark.parametrize("compiled", [True, False])
def test_transformed_loops(compiled: bool):
    run: Any = tj.jit if compiled else lambda f: f

    def body(x: Any, n: Any) -> Any:
        return tj.lax.fori_loop(0, 3, lambda k, s: s + x[k + n], 0.0)

    mapped = run(tj.vmap(body, in_axes=(None, 0)))
    np.testing.assert_array_equal(mapped(X, np.array([0, 2])), [3, 9])
    assert message(lambda: mapped(X, np.array([0, 3]))) == (out_of_bounds(5, 5), "x[k + n]")
    slope = run(tj.grad(body))
    np.testing.assert_array_equal(slope(X, 1), [0, 1, 1, 1, 0])
    assert message(lambda: slope(X, 4)) == (out_of_bounds(5, 5), "x[k + n]")
    tangent = run(lambda x, n: tj.jvp(lambda x: body(x, n), (x,), (x,))[1])
    assert tangent(X, 1) == 6
    assert message(lambda: tangent(X, 3)) == (out_of_bounds(5, 5), "x[k + n]")


def test_a_mapped_loop_ends_when_one_element_fails():
    find = tj.jit(tj.vmap(lambda x: tj.lax.while_loop(lambda k: x[k] < 3, lambda k: k + 1, 0)))
    np.testing.assert_array_equal(find(np.array([[0, 1, 5.0], [7, 0, 0]])), [2, 0])
    assert message(lambda: find(np.array([[0, 1, 5.0], [0, 0, 0]]))) == (out_of_bounds(3, 3), "x[k]")


def test_loops_without_jit_raise():
    assert message(lambda: tj.lax.fori_loop(0, 7, lambda i, c: c + c[i], X)) == (out_of_bounds(5, 5), "c[i]")
    np.testing.assert_array_equal(tj.lax.fori_loop(0, 2, lambda i, c: c + c[i], X), X + X[0] + (X[0] + X[1]))


# -- what does not raise
# --------------------------------------------------------------------------------------------------------------
def test_at_and_lax_clamp_and_drop():
    f = tj.jit(lambda x, i: (x.at[i].get(), x.at[i].set(9), x.at[i].add(1), tj.lax.dynamic_slice(x, (i,), (1,))))
    for i in (7, -9):
        nearest = X[4] if i > 0 else X[0]
        got = f(X, i)
        assert (got[0], got[3]) == (nearest, nearest)
        np.testing.assert_array_equal(got[1], X)
        np.testing.assert_array_equal(got[2], X)
    assert not checks(lambda x, i: x.at[i].set(9), X, 2)


def test_functions_that_search_or_clip_do_not_check():
    assert not checks(lambda x, v: np.searchsorted(x, v), X, X)
    assert not checks(lambda x, v: np.interp(v, x, x), X, X)
    for mode in ("clip", "wrap"):
        f = tj.jit(lambda x, i, mode=mode: np.take(x, i, mode=mode))
        np.testing.assert_array_equal(f(X, np.array([-7, 9])), np.take(X, [-7, 9], mode=mode))
        assert not checks(lambda x, i, mode=mode: np.take(x, i, mode=mode), X, np.array([3]))


# -- what needs no check
# --------------------------------------------------------------------------------------------------------------
def stencil(x: Any) -> Any:
    y = x.copy()
    for i in tj.range(1, x.shape[0] - 1):
        y[i] = (x[i - 1] + x[i + 1]) / 2
    return y


def backwards(x: Any) -> Any:
    y = np.zeros(x.shape[0])
    for i in tj.range(x.shape[0] - 1, -1, -1):
        y[i] = x[i] * x[-1 - i]
    return y


def carried(x: Any) -> Any:
    return tj.lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i], 0.0)


def nearest(x: Any) -> Any:
    return x[np.clip((x * 3).astype(np.int64), 0, x.shape[0] - 1)]


def largest(x: Any) -> Any:
    return x[np.argmax(x)]


def ring(x: Any) -> Any:
    y = np.zeros(x.shape[0])
    for i in tj.range(x.shape[0]):
        y[i] = x[(i + 1) % x.shape[0]] + x[i // 2]
    return y


def rows(x: Any) -> Any:
    return x[np.arange(x.shape[0]),]


@pytest.mark.parametrize("function", [stencil, backwards, carried, nearest, largest, ring, rows])
def test_what_cannot_be_out_of_bounds_is_not_checked(function: Any):
    assert not checks(function, X)
    f = tj.jit(function)
    for n in (5, 6, 7, 20):  # nor where the extent is a symbol
        x = np.arange(float(n)) / 3
        np.testing.assert_allclose(f(x), np.asarray(tj.jit(function, dynamic_shapes=False)(x)))
    assert f.compilations == 2
    assert "check" not in f.lower(np.arange(9.0)).text("program")


def test_a_table_of_all_values_of_a_byte_is_not_checked():
    picture = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert not checks(read, np.arange(256.0), picture)
    assert checks(read, np.arange(255.0), picture)
    assert not checks(read, np.arange(256.0), picture.astype(np.int8))  # -128..127


def test_one_index_is_checked_once():
    text = tj.jit(lambda x, y, i: x[i] * y[i] + x[i]).lower(X, X, 1).text("jaxpr")
    assert text.count("ge ") == 1
    twice = tj.jit(lambda x, y, i: x[i] * y[i]).lower(X, X[:4].copy(), 1).text("jaxpr")
    assert twice.count("ge ") == 2


def test_a_check_shares_the_loop_that_reads_the_indices():
    """Neither a gather nor a sum into bins reads its indices twice."""

    def binned(places: Any, x: Any) -> Any:
        total = np.zeros(10)
        np.add.at(total, places, x)
        return total

    places = np.arange(100_000) % 10
    for lowered in (tj.jit(read).lower(X, places), tj.jit(binned).lower(places, np.ones(100_000))):
        assert len(lowered.program.kernels()) == 1
        loads = [s for s in lowered.text("kernel").splitlines() if "load in0[" in s]
        assert len(loads) == 1


def test_the_report_names_kernels_that_exist():
    """Equal kernels are written once: the counter and the failure both start as 0."""
    lowered = tj.jit(summed).lower(X, np.array([1, 2]))
    assert {where for _, where in lowered.report} <= {k.name for k in lowered.program.kernels()} | {"program"}


# -- NumPy -------------------------------------------------------------------------------------------------------------
WAYS = {
    "read": tj.jit(read), "write": tj.jit(written), "loop": tj.jit(summed), "number": tj.jit(read),
    "mapped": tj.jit(lambda x, i: tj.vmap(read, in_axes=(None, 0))(x, i)),
}  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=4), st.integers(1, 7), st.sampled_from(sorted(WAYS)))
def test_numpy_raises_where_we_raise(places: list[int], n: int, how: str):
    x, index = np.arange(float(n)) + 1, np.array(places)
    function: Any = {"write": written, "loop": summed}.get(how, read)
    given_index: Any = places[0] if how == "number" else index
    reference, mine = x.copy(), x.copy()
    try:
        want, fails = function(reference, given_index), False
    except IndexError:
        want, fails = None, True
    f = WAYS[how]
    if fails:
        with pytest.raises(IndexError):
            f(mine, given_index)
        np.testing.assert_array_equal(mine, x)
    else:
        got = f(mine, given_index)
        if want is not None:
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(mine, reference)


def known_index_in_a_branch(x: Any, i: Any) -> Any:
    return tj.lax.cond(i > 0, lambda: x[7], lambda: x[0])


def known_indices_in_a_branch(x: Any, i: Any) -> Any:
    def put() -> None:
        x[:2] = x[np.array([6, 0])]

    tj.lax.cond(i > 0, put, lambda: None)
    return x + 1


def known_index_in_a_loop(x: Any, i: Any) -> Any:
    s = np.zeros(1)
    for _ in tj.range(i):
        s += x[5]
    return s


def known_index_in_a_while_loop(x: Any, i: Any) -> Any:
    return tj.lax.while_loop(lambda s: s[0] < i, lambda s: (s[0] + 1, s[1] + x[-9]), (0, 0.0))[1]


@pytest.mark.parametrize(
    ("program", "otherwise"),
    [
        (known_index_in_a_branch, 0.0), (known_indices_in_a_branch, [1, 2, 3, 4]), (known_index_in_a_loop, [0]),
        (known_index_in_a_while_loop, 0.0),
    ],
)  # fmt: skip
def test_a_known_index_out_of_range_fails_only_where_it_is_reached(program: Callable[..., Any], otherwise: Any):
    f = tj.jit(program)
    np.testing.assert_array_equal(f(np.arange(4.0), 0), otherwise)
    x = np.arange(4.0)
    with pytest.raises(IndexError, match="out of bounds for an axis of extent 4"):
        f(x, 1)
    np.testing.assert_array_equal(x, np.arange(4.0))
    np.testing.assert_array_equal(f(np.arange(4.0), np.int64(0)), otherwise)
    rows = np.arange(8.0).reshape(2, 4)
    if program is not known_indices_in_a_branch:
        mapped = tj.jit(tj.vmap(program, in_axes=(0, None)))
        added = rows[:, 0] if program is known_index_in_a_branch else np.zeros(2)
        np.testing.assert_array_equal(mapped(rows, np.int64(0)), [otherwise + a for a in added])


def test_ranges_and_tuples_are_lists_of_indices():
    x, y = np.arange(12.0).reshape(4, 3), np.array([2, 0, 1, 1])

    def f(p: Any, y: Any) -> Any:
        q = p.copy()
        q[range(p.shape[0]), y] -= 1
        q[(0, 1), (1, 0)] = 7
        return p[range(4), y], p[range(0)], p[range(3, 0, -1)], p[:, range(2)], p[(0, 2), (1, 1)], q

    for found, expected in zip(tj.jit(f)(x, y), f(x, y), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("index", [np.uint64(2**64 - 1), np.uint64(2**63), np.uint64(5)])
def test_an_unsigned_index_does_not_turn_around(index: Any):
    def put(x: Any, i: Any) -> Any:
        y = x.copy()
        y[i] = 7
        return y

    for f in (lambda x, i: x[i], put, lambda x, i: x[(np.zeros(1, np.uint64) + i)[0]]):
        with pytest.raises((IndexError, OverflowError)):
            f(X, index)
        with pytest.raises(IndexOutOfBounds):
            tj.jit(f)(X, index)
    assert tj.jit(lambda x, i: x[i])(X, np.uint64(3)) == 3


ARRAYS = {
    "i": np.array([0, 1, 0]),
    "j": np.array([[1], [0]]),
    "1": 1,
    ":": slice(None),
    "None": None,
    ":2": slice(0, 2),
}
WITH_ARRAYS = [names for names in itertools.product(ARRAYS, repeat=3) if {"i", "j"} & set(names)]


@pytest.mark.parametrize("place", range(4))
def test_an_ellipsis_of_no_axes_separates_index_arrays(place: int):
    x = np.arange(12.0).reshape(2, 3, 2)
    for names in WITH_ARRAYS:

        def index(i: Any, j: Any, names: Any = names) -> Any:
            parts = [{**ARRAYS, "i": i, "j": j}[name] for name in names]
            return (*parts[:place], ..., *parts[place:])

        def put(x: Any, value: Any, i: Any, j: Any, index: Any = index) -> Any:
            x = x.copy()
            x[index(i, j)] = value
            return x

        i, j = ARRAYS["i"], ARRAYS["j"]
        try:
            expected = x[index(i, j)]
        except IndexError:
            continue
        found = tj.jit(lambda x, i, j, index=index: x[index(i, j)])(x, i, j)
        np.testing.assert_array_equal(found, expected)
        value = np.arange(float(expected.size)).reshape(expected.shape)
        np.testing.assert_array_equal(tj.jit(put)(x, value, i, j), put(x, value, i, j))
