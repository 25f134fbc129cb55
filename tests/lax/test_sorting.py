"""tj.lax.sort and its relatives, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import lax
from tracejit.support.errors import DtypeError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dimension", [0, 1, -1])
def test_operands_follow_their_keys(dimension: int):
    f = tj.jit(lambda *xs: (lax.sort(xs, dimension, num_keys=2), lax.sort_key_val(xs[0], xs[2], dimension)))
    for shape in ((3, 7), (2, 12), (4, 1)):
        a, b, c = RNG.integers(0, 3, shape), RNG.integers(0, 2, shape).astype("f4"), RNG.random(shape)
        every, pair = f(a, b, c)
        order = np.lexsort((b, a), dimension)
        for got, x in zip(every, (a, b, c), strict=True):
            np.testing.assert_array_equal(got, np.take_along_axis(x, order, dimension), strict=True)
        order = np.argsort(a, dimension, kind="stable")
        np.testing.assert_array_equal(pair[0], np.sort(a, dimension))
        np.testing.assert_array_equal(pair[1], np.take_along_axis(c, order, dimension))


def test_one_operand_is_no_tuple():
    x = np.array([2.0, np.nan, -1.0])
    np.testing.assert_array_equal(lax.sort(x), [-1, 2, np.nan])
    assert isinstance(lax.sort([x]), tuple)


@pytest.mark.parametrize(("axis", "k"), [(0, 1), (1, 3), (-1, 0)])
def test_the_greatest_come_first_and_of_equal_ones_the_first(axis: int, k: int):
    f = tj.jit(lambda x: (lax.top_k(x, k, axis=axis), lax.approx_min_k(x, k, axis)))
    for shape in ((3, 4), (7, 5)):
        x = RNG.integers(0, 4, shape).astype("f8")
        x[0, 0] = np.nan
        top, least = f(x)
        order = np.take(np.argsort(np.where(np.isnan(x), -np.inf, -x), axis, kind="stable"), range(k), axis)
        np.testing.assert_array_equal(top[1], order)
        np.testing.assert_array_equal(top[0], np.take_along_axis(x, order, axis))
        assert top[1].dtype == np.int32
        np.testing.assert_array_equal(lax.approx_max_k(x, k, axis)[1], order)
        np.testing.assert_array_equal(least[0], np.take(np.sort(x, axis), range(k), axis))


def test_the_greatest_have_derivatives_and_batches():
    x = RNG.permutation(12).reshape(3, 4) / 3
    w = np.array([1.0, -2.0])
    got = tj.jit(tj.grad(lambda x: (lax.top_k(x, 2)[0] * w).sum()))(x)
    want = np.zeros_like(x)
    np.put_along_axis(want, np.argsort(-x)[:, :2], np.broadcast_to(w, (3, 2)), 1)
    np.testing.assert_array_equal(got, want)
    values, places = tj.jit(tj.vmap(lambda r: lax.top_k(r, 2), in_axes=1))(x)
    np.testing.assert_array_equal(places, np.argsort(-x.T)[:, :2])
    np.testing.assert_array_equal(values, -np.sort(-x.T)[:, :2])
    out, tangent = tj.jit(lambda x, t: tj.jvp(lambda x: lax.sort_key_val(x, x * 2)[1], (x,), (t,)))(
        x[0], np.arange(4.0)
    )
    np.testing.assert_array_equal(out, np.sort(x[0]) * 2)
    np.testing.assert_array_equal(tangent, 2 * np.argsort(x[0]))


def test_in_a_loop_and_on_another_backend():
    x = RNG.permutation(8) * 1.0

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, s: s + lax.top_k(x * (i + 1), 2)[0].sum(), 0.0)

    assert tj.jit(f)(x) == tj.jit(f, backend="reference")(x) == 13 * 6


def test_bad_arguments_are_refused():
    x = np.ones((2, 3))
    for f in (
        lambda x: lax.top_k(x, 4),
        lambda x: lax.top_k(x, -1),
        lambda x: lax.top_k(x, 1, axis=2),
        lambda x: lax.sort((x, x[0])),
        lambda x: lax.sort((x, x), num_keys=3),
        lambda x: lax.sort(x, 2),
        lambda x: lax.sort(()),
    ):
        with pytest.raises(ShapeError):
            tj.jit(f)(x)
    with pytest.raises(DtypeError, match="known while tracing"):
        tj.jit(lambda x: lax.top_k(x, x[0]))(x)
