"""Numbers that are Python integers on one way and NumPy's of a narrow dtype on another."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import MixedNumber, TracejitError, UnsupportedError


def of_a_branch(b, i):
    y = b[0] if b[0] > 5 else i
    return y * 3


def of_nested_branches(b, i):
    if b[0] > 5:
        y = b[0]
    elif b[1] > 5:
        y = i
    else:
        y = b[2]
    return y + 100


def of_a_tuple(b, i):
    pair = (b[0], i) if b[1] > 5 else (i, b[0])
    return pair[0] + 100, pair[1] + 100


def of_max(b, i):
    return max(b[0], i) + 100


def of_min_of_three(b, i):
    return min(100, b[0] + 90, i) * 2


def negated(b, i):
    return -(b[0] if b[1] > 5 else i)


def reflected(b, i):
    return 2 - (b[0] if b[1] > 5 else i)


def of_ufuncs(b, i):
    y = b[0] if b[1] > 5 else i
    return np.add(y, 100)


def halved(b, i):
    y = b[0] if b[1] > 5 else i
    return np.sqrt(y)


def carried(b, i):
    s = 0
    for k in range(len(b)):
        if b[k] > 5:
            s = b[k]
        else:
            s += 50
    return s


def carried_from_numpys(b, i):
    last = b[0]
    for k in range(len(b)):
        last = last + 1
        if b[k] > 5:
            last = k
    return last * 30


def carried_into_a_sum(b, i):
    last = total = 0
    for k in range(len(b)):
        last = b[k] if b[k] > 5 else k
        total += last * 2
    return total


def carried_by_while(b, i):
    y, turns = i, 0
    while y < 100 and b[y % 4] == 0 and turns < 50:
        turns += 1
        y += 1
        if b[y % 4] > 0:
            y = b[1]
    return y * 3


def rebound_by_while(b, i):
    y, k = b[0], 0
    while k < i and b[k % 4] < 5:
        y = 7
        k += 1
    return y * 40


def perhaps_none(b, i):
    found = None
    for k in range(len(b)):
        if b[k] > 5:
            found = b[k] if b[k] > 9 else i
            break
    return 0 if found is None else found * 3


def into_an_array(b, i):
    out = b.copy()
    out += b[0] if b[1] > 5 else i
    return out.astype(int) + 1000


PROGRAMS = [
    of_a_branch, of_nested_branches, of_a_tuple, of_max, of_min_of_three, negated, reflected, of_ufuncs, halved,
    carried, carried_from_numpys, carried_into_a_sum, carried_by_while, rebound_by_while, perhaps_none, into_an_array,
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.uint64])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_pythons_answer_or_an_error(program: Any, dtype: Any):
    jitted = tj.jit(program)
    rng = np.random.default_rng(0)
    answers = 0
    with np.errstate(over="ignore"):
        for top, size in ((3, 4), (10, 4), (60, 7), (100, 4), (10, 40), (3, 90)):
            for i in (0, 3, 64, 90):
                b = rng.integers(0, top, size).astype(dtype)
                try:
                    want = program(b.copy(), i)
                except OverflowError:
                    continue
                try:
                    found = jitted(b, i)
                except MixedNumber:
                    continue
                np.testing.assert_array_equal(np.asarray(found, float), np.asarray(want, float), err_msg=f"{b}, {i}")
                answers += 1
    assert answers


@pytest.mark.parametrize("program", [of_a_branch, of_max, carried, carried_into_a_sum, carried_by_while])
def test_what_would_wrap_around_is_an_error(program: Any):
    with pytest.raises(MixedNumber, match=r"int\(x\[i\]\)") as caught:
        tj.jit(program)(np.zeros(90, np.int8), 64)
    assert program.__name__ in str(caught.value)


def test_numpys_numbers_wrap_around():
    """A carry that begins as a Python number is NumPy's from the first iteration on."""

    def hashed(x):
        h = 7
        for k in range(len(x)):
            h = h * 31 + x[k]
        return h

    x = np.arange(60, dtype=np.uint32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(tj.jit(hashed)(x), hashed(x))


def test_sums_of_narrow_elements_are_not_checked():
    """`s = 0; s += x[i]` are NumPy's sums on every way, so that nothing can fail."""

    def total(x):
        s = 0
        for k in range(len(x)):
            if x[k] > 3:
                s += x[k]
        return s

    x = np.arange(200, dtype=np.uint8)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(tj.jit(total)(x), total(x))


def test_in_batches():
    rows = np.arange(12, dtype=np.uint8).reshape(3, 4)
    found = tj.jit(tj.vmap(of_a_branch, in_axes=(0, None)))(rows, 5)
    np.testing.assert_array_equal(found, [of_a_branch(row, 5) for row in rows])
    with pytest.raises(MixedNumber):
        tj.jit(tj.vmap(of_a_branch, in_axes=(0, None)))(rows, 100)


USES = {
    "full": lambda y, x: np.full(2, y) * 2,
    "array": lambda y, x: np.array([y, y]) * 2,
    "stack": lambda y, x: np.stack([y, y]) * 2,
    "dot": lambda y, x: np.dot(y, y),
    "outer": lambda y, x: np.outer([y], [y]),
    "where": lambda y, x: np.where(x > 1, x, y),
    "where of numbers": lambda y, x: np.where(x > 1, y, 1) * 100,
    "clip": lambda y, x: np.clip(y, 0, 100) * 100,
    "broadcast": lambda y, x: np.broadcast_to(y, (2,)) * 100,
    "tile": lambda y, x: np.tile(y, 2) * 100,
    "concatenate": lambda y, x: np.concatenate([x, [y]]) * 2,
    "numpy of tracejit": lambda y, x: tj.numpy.add(y, 100),
    "full_like": lambda y, x: np.full_like(x, y),
    "conversion": lambda y, x: np.uint8(y),
    "sum": lambda y, x: sum([y, y, y]),
    "array operand": lambda y, x: x + y,
    "float": lambda y, x: np.float64(y) + float(y),
    "compared": lambda y, x: np.array([y > 3, y == 100, y < x[0]]),
    "kind": lambda y, x: isinstance(y, int),
}


def element(y, x):
    x[0] = y
    return x


def filled(y, x):
    x.fill(y)
    return x


def increased(y, x):
    x[0] += y
    return x


@pytest.mark.parametrize("use", [*USES.values(), element, filled, increased], ids=[*USES, "element", "fill", "augment"])
def test_whatever_is_made_of_them(use: Any):
    def program(b, i, x):
        return use(b[0] if b[0] > 5 else i, x)

    jitted = tj.jit(program)
    with np.errstate(over="ignore"):
        for dtype in (np.int8, np.int16):
            for value, i in ((1, 100), (1, 3), (7, 3), (1, -51), (1, 3000)):
                b, x = np.array([value], dtype), np.array([1, 2], np.uint8)
                try:
                    want = program(b, i, x.copy())
                except OverflowError:
                    with pytest.raises(TracejitError):
                        jitted(b, i, x.copy())
                    continue
                try:
                    found = jitted(b, i, x.copy())
                except TracejitError:
                    continue
                np.testing.assert_array_equal(found, want)


def in_a_list(b, i):
    y = b[0] if b[0] > 5 else i
    return np.array([y, b[0]]) * 3


def copied(b, i):
    y = b[0] if b[0] > 5 else i
    return copy.copy(y) * 3 + copy.deepcopy([y])[0] * 3


def through_a_loop_of_lax(b, i):
    y = b[0] if b[0] > 5 else i
    return tj.lax.fori_loop(0, 3, lambda k, s: s * 3, y)


def into_a_loop_of_lax(b, i):
    y = b[0] if b[0] > 5 else i
    return tj.lax.fori_loop(0, 3, lambda k, s: s + y, 0)


def through_a_while_of_lax(b, i):
    y = b[0] if b[0] > 5 else i
    return tj.lax.while_loop(lambda s: s < 1000, lambda s: s * 2, y)


def through_a_branch_of_lax(b, i):
    y = b[0] if b[0] > 5 else i
    return tj.lax.cond(b[1] > 0, lambda s: s * 3, lambda s: s, y)


def through_a_jitted_function(b, i):
    y = b[0] if b[0] > 5 else i
    return tj.jit(lambda s: s * 3)(y) + tj.jit(lambda s: s)(y) * 3


@pytest.mark.parametrize(
    "program",
    [
        in_a_list, copied, through_a_loop_of_lax, into_a_loop_of_lax, through_a_while_of_lax, through_a_branch_of_lax,
        through_a_jitted_function,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_where_they_are_handed_on(program: Any):
    jitted = tj.jit(program)
    with pytest.raises((MixedNumber, UnsupportedError)):
        jitted(np.array([1, 1], np.int8), 100)
    b = np.array([6, 1], np.int8)
    if program is into_a_loop_of_lax:
        with pytest.raises(UnsupportedError, match="Python's or NumPy's, depending on data"):
            jitted(b, 100)
    elif program is not through_a_while_of_lax:  # without an end among int8s, as in NumPy
        np.testing.assert_array_equal(jitted(b, 100), program(b, 100))


def test_bits_that_are_shifted_in():
    """A shift by a number that is known is a product: the loop stays one of the program."""

    def pack(b):
        acc, c, out = 0, 0, np.zeros(len(b) // 8 + 1, np.int64)
        for i in range(len(b)):
            acc = acc << 1 | int(b[i])
            c += 1
            if c == 8:
                out[i // 8] = acc
                acc = c = 0
        return out, acc, c

    jitted = tj.jit(pack)
    for n in (5, 40, 1003):
        b = np.random.default_rng(n).random(n) > 0.5
        for got, want in zip(jitted(b), pack(b), strict=True):
            np.testing.assert_array_equal(got, want)
    assert "left to Python" not in jitted.explain()
    with pytest.raises(OverflowError):
        tj.jit(lambda n: n << 40)(2**30)


@pytest.mark.parametrize("dtype", ["u8", "i8", "u1", "i1"])
@pytest.mark.parametrize("into", ["f2", "f4", "f8", "u8", "i1", "?"])
def test_stores_into_arrays_of_all_dtypes(dtype: str, into: str):
    def f(b: Any, out: Any) -> Any:
        out[0] = max(5, b[0])
        return out

    got = tj.jit(f)(np.array([7, 9], dtype), np.zeros(2, into))
    np.testing.assert_array_equal(got, f(np.array([7, 9], dtype), np.zeros(2, into)))


def _grown(b: Any, z: Any) -> Any:
    z = max(z, b[0])
    return z * z


def _of_a_branch(b: Any, z: Any) -> Any:
    if b[0] > 90:
        z = b[0]
    return z * z * z


def _of_a_loop(b: Any, z: Any) -> Any:
    found = z
    for i in range(len(b)):
        if b[i] > 90:
            found = b[i]
    return found * found * found


@pytest.mark.parametrize("f", [_grown, _of_a_branch, _of_a_loop])
def test_pythons_integers_beyond_64_bits_are_errors_where_numpys_wrap_around(f: Any):
    jitted = tj.jit(f)
    small, great = np.array([1] * 9), np.array([2**40] * 9)
    assert jitted(small, 7) == f(small, 7)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert jitted(great, 7) == f(great, 7)  # NumPy's
    with pytest.raises(OverflowError, match="an integer beyond 64 bits"):
        jitted(small, 2**40)


def test_64_bits_beside_narrower_integers():
    def plus(b: Any, u: Any) -> Any:
        m = b[0] if b[1] > 3 else 100
        return u + m

    jitted = tj.jit(plus)
    u = np.array([1, 2], "i1")
    np.testing.assert_array_equal(jitted(np.array([1000, 9]), u), [1001, 1002])
    with pytest.raises(TracejitError, match="data decide whether a number is a Python integer"):
        jitted(np.array([1, 1]), u)  # of int8, where the program has int64
    with pytest.raises(TracejitError, match="data decide whether a number is a Python integer"):
        jitted(np.array([1, 1]), np.array([100, 60], "i1"))


def test_signed_and_unsigned_have_no_integer_dtype_in_common():
    def rest(b: Any, u: Any) -> Any:
        m = b[0] if b[1] > 3 else 0
        return u[0] % m

    with pytest.raises(TracejitError, match="data decide whether a number is a Python integer"):
        tj.jit(rest)(np.array([1, 1], "i4"), np.array([2**63 + 1, 3], "u8"))


def test_a_constant_that_no_number_of_the_dtype_exceeds_is_pythons():
    f = tj.jit(lambda b: max(b[0], 300))
    assert f(np.array([1, 2], "i1")) == 300
    with pytest.raises(OverflowError):
        tj.jit(lambda b: b + max(b[0], 300))(np.array([1, 2], "i1"))
    assert tj.jit(lambda b, n: max(b[0], 300, n))(np.array([1, 2], "i1"), 500) == 500
    assert tj.jit(lambda b: min(b[0], -300, 2**40))(np.array([1, 2], "i1")) == -300


# -- what meets numbers of other dtypes ------------------------------------------------------------------------------
def two_of_a_kind(b: Any, c: Any, n: int) -> Any:
    p = b[0] if n > 0 else 0
    q = c[0] if n < 0 else 100
    return b + p, c + q, p + q if n == 0 else 0


def of_other_dtypes(b: Any, c: Any, n: int) -> Any:
    p = b[0] if n > 0 else 0
    q = c[0] if n < 0 else 100
    return np.asarray(p + q)[None]


def beside_an_array(b: Any, c: Any, n: int) -> Any:
    p = b[0] if n > 0 else 5
    return np.add(c, p) * 3


def divided(b: Any, c: Any, n: int) -> Any:
    p = b[0] if n > 0 else 5
    return c // p * 20 + 7


def by_a_place(b: Any, c: Any, n: int) -> Any:
    p = np.argmax(c) if n > 0 else 0
    return b + p


def of_bools(b: Any, c: Any, n: int) -> Any:
    p = b[0] > 1 if n > 0 else True
    return c * (p + p)


def of_three(b: Any, c: Any, n: int) -> Any:
    return b * max(0, n, b[0]), c + min(100, n, c[0]), max([0, n, c[1]]) + c


def in_a_loop(b: Any, c: Any, n: int) -> Any:
    m, least = 0, 100
    for i in range(len(b)):
        m, least = max(m, i, b[i]), min(least, c[i])
    return m * b, least + c


@pytest.mark.parametrize(
    "program",
    [two_of_a_kind, of_other_dtypes, beside_an_array, divided, by_a_place, of_bools, of_three, in_a_loop],
    ids=lambda f: f.__name__,
)
def test_dtypes_are_numpys_or_the_program_refuses(program: Any):
    jitted = tj.jit(program)
    answers = 0
    for one, other in (
        ("u1", "i2"),
        ("i2", "u1"),
        ("u1", "i1"),
        ("i1", "u1"),
        ("u1", "u1"),
        ("i2", "i8"),
        ("u2", "i4"),
    ):
        for n in (1, 0, -1):
            for values in ([100, 7, 3], [2, 3, 1]):
                args = np.array(values, one), np.array(values[::-1], other), n
                with np.errstate(all="ignore"):
                    try:
                        want = program(*args)
                    except OverflowError:  # a Python number that does not fit
                        continue
                try:
                    got = jitted(*args)
                except TracejitError:
                    continue
                answers += 1
                for x, y in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
                    if isinstance(y, np.ndarray):
                        assert x.dtype == y.dtype, (one, other, n)
                    np.testing.assert_array_equal(x, y)
    assert answers > 10


def test_the_greatest_of_narrow_numbers_from_0_on():
    def greatest(x: Any) -> Any:
        m = 0
        for v in x:
            m = max(m, v)
        return m * x

    x = np.array([250, 3, 7, 8, 9, 10, 11, 12, 13, 14], "u1")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(tj.jit(greatest)(x), greatest(x))
