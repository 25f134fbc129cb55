"""Python numbers carried by tj.lax loops and branches stay Python numbers until they meet an array,
as in a plain loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError


class Plain:
    """tj.lax in plain Python."""

    @staticmethod
    def fori_loop(low: int, high: int, body: Callable[..., Any], carry: Any) -> Any:
        for i in range(low, high):
            carry = body(i, carry)
        return carry

    @staticmethod
    def while_loop(test: Callable[..., Any], body: Callable[..., Any], carry: Any) -> Any:
        while test(carry):
            carry = body(carry)
        return carry

    @staticmethod
    def scan(f: Callable[..., Any], carry: Any, xs: Any) -> Any:
        ys: list[Any] = []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, np.stack([np.asarray(y) for y in ys[1:]])  # the first may be the number itself

    @staticmethod
    def cond(flag: Any, yes: Callable[..., Any], no: Callable[..., Any], *operands: Any) -> Any:
        return yes(*operands) if flag else no(*operands)


PROGRAMS: list[Callable[[Any, Any], Any]] = [
    lambda lax, x: lax.fori_loop(0, 3, lambda i, s: s + x[i], 0.0),
    lambda lax, x: lax.fori_loop(0, 3, lambda i, s: s + x[i], 0),
    lambda lax, x: lax.fori_loop(0, 3, lambda i, s: s + i * x, x),
    lambda lax, x: lax.fori_loop(0, 3, lambda i, s: s + i, 0),
    lambda lax, x: lax.fori_loop(0, 3, lambda i, s: s + 0.5, 0),
    lambda lax, x: lax.fori_loop(0, 3, lambda i, s: s + 0.5, 0) * x,
    lambda lax, x: lax.fori_loop(0, 3, lambda i, s: (s[0] * 1.5, s[1] + s[0] * x), (1, x)),
    lambda lax, x: lax.fori_loop(0, 3, lambda i, s: (s[1], s[0]), (x[1], x[0])),
    lambda lax, x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x[0]), (0, 1.0)),
    lambda lax, x: lax.while_loop(lambda s: s < 3, lambda s: s + 1, 0),
    lambda lax, x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + s[0] * x), (0, x)),
    lambda lax, x: x * lax.while_loop(lambda s: s < 3, lambda s: s + 1, 0),
    lambda lax, x: lax.scan(lambda c, y: (c + y, c), 0.0, x)[0],
    lambda lax, x: lax.scan(lambda c, y: (c + 1, c * y), 0, x),
    lambda lax, x: lax.cond(x[0] > 0, lambda a: a, lambda a: a * 2, 3),
    lambda lax, x: x * lax.cond(x[0] > 0, lambda: 2, lambda: 3),
    lambda lax, x: x + lax.cond(x[0] > 0, lambda a: a, lambda a: a / 2, 3),
    lambda lax, x: lax.fori_loop(0, 2, lambda i, s: lax.fori_loop(0, 2, lambda j, t: t + i * j * x, s), x),
]


def alike(got: Any, want: Any) -> None:
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            alike(g, w)
        return
    assert type(got) is type(want)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "i8"])
def test_numbers_are_what_they_are_in_plain_loops(dtype: str, number: int):
    program = PROGRAMS[number]
    x = np.array([1, 2, 3], dtype)
    # a number that is an integer in one branch is a float if it is one in the other
    if dtype[0] == "i" and number == 16:
        assert tj.jit(lambda x: program(tj.lax, x))(x).dtype == np.float64
        return
    if dtype[0] == "i" and number == 6:  # an array of integers would become one of floats on the way
        with pytest.raises(ShapeError, match="after an iteration"):
            tj.jit(lambda x: program(tj.lax, x))(x)
        return
    want = program(Plain, x)
    for got in (program(tj.lax, x), tj.jit(lambda x: program(tj.lax, x))(x)):
        if isinstance(want, tuple) and isinstance(want[1], np.ndarray) and want[1].shape == (2,):
            alike((got[0], got[1][1:]), want)
        else:
            alike(got, want)


@pytest.mark.parametrize("number", [0, 2, 5, 12])
def test_derivatives_and_maps_of_loops_that_carry_numbers(number: int):
    program = PROGRAMS[number]
    x = np.array([1.0, 2.0, 3.0], np.float32)
    step = 1e-2
    slope = tj.jit(tj.grad(lambda x: np.sum(program(tj.lax, x))))(x)
    for n in range(3):
        delta = np.zeros(3, np.float32)
        delta[n] = step
        want = (np.sum(program(Plain, x + delta)) - np.sum(program(Plain, x - delta))) / (2 * step)
        np.testing.assert_allclose(slope[n], want, rtol=1e-2)
    rows = np.stack([x, x * 2])
    got = tj.jit(tj.vmap(lambda x: program(tj.lax, x)))(rows)
    want = np.stack([program(Plain, row) for row in rows])
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_errors_name_the_variable_that_has_two_kinds():
    def root(i, parents):
        while parents[i] != i:
            i = parents[i]
        return i

    with pytest.raises(
        ShapeError, match=r"is i32\[\] before and i64\[\] after an iteration: it is 'i'; make them equal"
    ):
        tj.jit(lambda p, i: root(i[0], p))(np.array([1, 1]), np.zeros(1, np.int32))

    def last(x, i):
        found = i[0]
        for k in range(len(x)):
            if x[k] > 2:
                found = x[k]
        return found

    with pytest.raises(ShapeError, match=r"in the false branch: it is 'found'; make them equal"):
        tj.jit(last)(np.arange(20), np.zeros(1, np.int32))


def test_a_loop_that_is_written_out_at_length_is_warned_of():
    def f(q):
        k = q.astype(np.int16)
        for i in range(len(q)):
            q[i] = k[i] if i % 2 == 0 else q[i]
        return q

    with pytest.warns(
        UserWarning, match=r"a loop of 1500 iterations is written out to .* operations.*as \[cond\] result"
    ):
        tj.jit(f)(np.arange(1500))
