"""put, place, put_along_axis, take_along_axis and fill_diagonal, in place and as changed copies, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, IndexOutOfBounds, ShapeError, UnsupportedError

X = np.arange(12.0).reshape(3, 4)


def changes(f: Callable[..., Any], *args: Any) -> None:
    """f changes its first argument as NumPy does, with known and with unknown others."""
    want = args[0].copy()
    f(want, *args[1:])
    got = args[0].copy()
    tj.jit(f)(got, *args[1:])
    np.testing.assert_array_equal(got, want)
    got = args[0].copy()
    tj.jit(lambda x: f(x, *args[1:]))(got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_put(mode: str):
    places = np.array([[0, -1], [5, 3]]) if mode == "raise" else np.array([[0, -1], [50, -30]])
    for values in (np.array([7.0, 8.0, 9.0]), np.ones((5, 4)), 5.0):
        changes(lambda x, i, v: np.put(x, i, v, mode), X, places, values)
    changes(lambda x, i: x.put(i, 3, mode=mode), X, places)
    changes(lambda x, i: np.put(x[1:, ::2], i, [-1.0]), X, np.array([0, 3]))
    changes(lambda x, i: np.put(x, [0, 2], [], mode), X, places)


def test_put_fails_where_numpys_does():
    f = tj.jit(lambda x, i: np.put(x, i, 1.0))
    for bad in (12, -13):
        with pytest.raises(IndexError):
            f(X.copy(), np.array([0, bad]))
    for call, error in (
        (lambda x: np.put(x, [0, 12], 1.0), IndexOutOfBounds),
        (lambda x: np.put(x, np.array([0.5]), 1.0), DtypeError),
        (lambda x: np.put(x, 0, 1.0, "around"), ShapeError),
        (lambda x: np.put(x[:0], 0, 1.0, "wrap"), IndexError),
    ):
        with pytest.raises((IndexError, TypeError, ValueError)):
            call(X.copy())
        with pytest.raises(error):
            tj.jit(call)(X.copy())
    with pytest.raises(OverflowError):
        tj.jit(lambda x: np.put(x, 0, 300))(np.zeros(3, np.int8))


def test_place_puts_values_one_after_another():
    for mask in (X % 3 == 0, np.zeros((3, 4), bool), X.ravel() > 4, (X % 2).astype(int)):
        changes(np.place, X, mask, np.array([1.0, 2.0, 3.0]))
    for values in (np.array([7.0]), np.arange(30.0).reshape(2, 15)):
        changes(np.place, X, X > 4, values)
    changes(lambda x, m: np.place(x, m, [1.5, 2.5]), np.arange(5), np.array([True, False, True, True, False]))
    with pytest.raises(DtypeError, match="'safe'"):
        tj.jit(lambda x: np.place(x, x > 1, np.array([1.5])))(np.arange(4))
    with pytest.raises(ValueError, match="no values"):
        tj.jit(lambda x: np.place(x, x > 1, np.array([])))(X.copy())
    with pytest.raises(ShapeError, match="a mask of shape"):
        tj.jit(lambda x: np.place(x, x[0] > 1, np.array([1.0])))(X.copy())


def test_put_along_axis():
    rows, columns = np.array([[0, 2, 1, 0]]), np.array([[3], [0], [-1]])
    changes(lambda x, i, v: np.put_along_axis(x, i, v, 0), X, rows, np.array([[9.0, 8.0, 7.0, 6.0]]))
    changes(lambda x, i, v: np.put_along_axis(x, i, v, -1), X, columns, 5.0)
    changes(lambda x, i, v: np.put_along_axis(x, i, v, axis=None), X, np.array([0, 11, 3]), np.array([1.0, 2.0, 3.0]))
    changes(lambda x: np.put_along_axis(x, np.argmax(x, 1)[:, None], 99.0, axis=1), np.cos(X))
    with pytest.raises(IndexError):
        tj.jit(lambda x, i: np.put_along_axis(x, i, 0.0, 1))(X.copy(), np.array([[4]] * 3))
    with pytest.raises(ShapeError, match="rank"):
        tj.jit(lambda x: np.put_along_axis(x, np.array([0]), 0.0, 1))(X.copy())


def test_copies_are_changed_with_inplace_false():
    def f(x: Any, i: Any) -> Any:
        n = tj.numpy
        return (
            n.put(x, i, np.array([5.0, 6.0]), "clip", inplace=False),
            n.put(x, i, 1, None, inplace=False),
            n.place(x, x > 4, np.array([1.0, 2.0]), inplace=False),
            n.put_along_axis(x, i[None, :] % 3, 0.5, 0, inplace=False),
            n.put_along_axis(x, i[None, :], 0.5, 0, inplace=False, mode="drop"),
            n.fill_diagonal(x, np.array([9, 8]), inplace=False),
            n.fill_diagonal(x.T, 7, True, inplace=False),
        )

    places = np.array([0, 50, -1, 2])
    want = [X.copy() for _ in range(6)] + [X.T.copy()]
    np.put(want[0], places, [5.0, 6.0], "clip")
    want[1].ravel()[[0, 11, 11, 2]] = 1
    np.place(want[2], X > 4, [1.0, 2.0])
    np.put_along_axis(want[3], places[None, :] % 3, 0.5, 0)
    for column, row in ((0, 0), (2, -1), (3, 2)):
        want[4][row, column] = 0.5
    np.fill_diagonal(want[5], [9, 8])
    np.fill_diagonal(want[6], 7, True)
    x = tj.Array(X)
    for run in (lambda x, i: f(x, i), tj.jit(f)):
        for n, (got, w) in enumerate(zip(run(x, places), want, strict=True)):
            np.testing.assert_array_equal(got, w, err_msg=str(n))
    for call in (lambda: tj.numpy.put(x, 0, 1.0), lambda: tj.numpy.place(x, x > 4, 1.0)):
        with pytest.raises(UnsupportedError, match="inplace=False"):
            call()


def test_take_along_axis_obeys_modes():
    x, i = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[0, 5, -1], [-9, 1, 2]])

    def f(x: Any, i: Any) -> Any:
        take, nan = tj.numpy.take_along_axis, 0.5
        return (
            take(x, i, 1, "clip"),
            take(x, i, 1, mode="fill"),
            take(x, i, 1, mode="fill", fill_value=nan),
            take(x, i, 1, mode="one_hot"),
            take(x, i, 1, mode="promise_in_bounds", wrap_negative_indices=False),
            take(x, i[0], None, mode="clip"),
        )

    nan = np.nan
    want = (
        [[1, 3, 3], [4, 5, 6]], [[1, nan, 3], [nan, 5, 6]], [[1, 0.5, 3], [0.5, 5, 6]], [[1, 0, 3], [0, 5, 6]],
        [[1, 3, 1], [4, 5, 6]], [1, 6, 6],
    )  # fmt: skip
    for run in (lambda x, i: f(x, i), tj.jit(f)):
        for n, (got, w) in enumerate(zip(run(x, i), want, strict=True)):
            np.testing.assert_array_equal(got, w, err_msg=str(n))
    with pytest.raises(IndexError):
        tj.jit(lambda x, i: np.take_along_axis(x, i, 1))(x, i)


def test_derivatives_batches_and_sizes():
    def f(x: Any, i: Any, v: Any) -> Any:
        y = x.copy()
        np.put(y, i, v, "wrap")
        np.place(y, x > 0.5, v)
        return (y * np.cos(np.arange(len(x)))).sum()

    g = tj.jit(tj.grad(f, argnums=(0, 2)))
    for n in (5, 5, 2, 9, 3):
        rng = np.random.default_rng(n)
        x, i, v = rng.standard_normal(n), rng.integers(0, 20, 4), rng.standard_normal(3)
        of_x, of_v = g(x, i, v)
        for slope, where in ((of_x, 0), (of_v, 2)):
            for k in range(len(slope)):
                ends = []
                for h in (1e-6, -1e-6):
                    args = [x.copy(), i, v.copy()]
                    args[where][k] += h
                    ends.append(f(*args))
                np.testing.assert_allclose(slope[k], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)
    rows = np.random.default_rng(0).standard_normal((3, 6))

    def one(x: Any, i: Any) -> Any:
        y = x.copy()
        np.put(y, i, [1.0, 2.0])
        return y

    places = np.array([[0, 1], [5, -2], [3, 3]])
    np.testing.assert_array_equal(tj.vmap(one)(rows, places), [one(x, i) for x, i in zip(rows, places, strict=True)])


def test_place_of_an_arrays_own_elements_is_refused():
    def f(x):
        np.place(x, x > 0, x)
        return x

    with pytest.raises(UnsupportedError, match="own elements"):
        tj.jit(f)(np.array([1.0, -2.0, 3.0]))
