"""Axes that `vmap` has given a name: sums and exchanges over them, against the same on whole arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import OptionError, ShapeError, UnsupportedError, UserError

lax = tj.lax
X = np.array([1.0, 2.0, 4.0])
SQUARE, CUBE, LONG = np.arange(9.0).reshape(3, 3), np.arange(18.0).reshape(3, 3, 2), np.arange(36.0).reshape(3, 6, 2)

CASES: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "psum": (lambda x: lax.psum(x, "i"), X, [7.0] * 3),
    "psum of a number": (lambda x: x * lax.psum(1, "i"), X, 3 * X),
    "psum of what is the same for all": (lambda x: x * lax.psum(np.ones(2), "i")[0], X, 3 * X),
    "psum of bools": (lambda x: lax.psum(x > 1, "i"), X, [2, 2, 2]),
    "pmean": (lambda x: x - lax.pmean(x, "i"), X, X - X.mean()),
    "pmean of integers": (lambda x: lax.pmean(x, "i"), np.array([1, 2, 4]), [7 / 3] * 3),
    "pmax": (lambda x: lax.pmax(x, "i"), X, [4.0] * 3),
    "pmin": (lambda x: lax.pmin(x, "i"), np.array([3, 1, 2]), [1] * 3),
    "axis_index": (lambda x: x * lax.axis_index("i"), X, X * np.arange(3)),
    "axis_size": (lambda x: x * lax.axis_size("i"), X, 3 * X),
    "all_gather": (lambda x: lax.all_gather(x, "i"), X, [X] * 3),
    "all_gather behind": (lambda x: lax.all_gather(x, "i", axis=-1), LONG, [LONG.transpose(1, 2, 0)] * 3),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", tiled=True), CUBE, [CUBE.reshape(9, 2)] * 3),
    "all_gather of a constant": (lambda x: lax.all_gather(np.ones(2), "i")[:, 0] * x, X, np.outer(X, np.ones(3))),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (2, 0)]), X, [4.0, 1.0, 0.0]),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [2, 0, 1]), X, [4.0, 1.0, 2.0]),
    "pswapaxes": (lambda x: lax.pswapaxes(x, "i", 1), CUBE.swapaxes(1, 2), CUBE.transpose(1, 2, 0)),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 1), CUBE, CUBE.transpose(1, 2, 0)),
    "all_to_all tiled": (
        lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
        LONG,
        LONG.reshape(3, 3, 2, 2).transpose(1, 2, 0, 3).reshape(3, 2, 6),
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), SQUARE, SQUARE.sum(axis=0)),
    "psum_scatter tiled": (
        lambda x: lax.psum_scatter(x, "i", scatter_dimension=0, tiled=True),
        LONG,
        LONG.sum(axis=0).reshape(3, 2, 2),
    ),
    "in a scan": (
        lambda x: lax.scan(lambda c, _: (lax.pmean(c, "i") + x * c, None), x, None, length=2)[0],
        X,
        (X.mean() + X * X).mean() + X * (X.mean() + X * X),
    ),
    "in a branch": (lambda x: lax.cond(x > 1.5, lambda y: lax.psum(y, "i"), lambda y: y, x), X, [1.0, 7.0, 7.0]),
    "in a loop of Python's": (lambda x: sum(lax.psum(x, "i") * n for n in range(3)), X, [21.0] * 3),
    "under checkpoint": (tj.checkpoint(lambda x: lax.psum(x, "i") * x), X, 7 * X),
    "in another vmap": (lambda x: tj.vmap(lambda y: lax.psum(x * y, "i"))(np.arange(2.0)), X, [[0.0, 7.0]] * 3),
    "where nothing varies": (
        lambda x: x * lax.fori_loop(0, 2, lambda _, c: c + lax.psum(np.float64(1.0), "i"), np.float64(0.0)),
        X,
        6 * X,
    ),
}


@pytest.mark.parametrize("compiled", [lambda f: f, tj.jit])
@pytest.mark.parametrize("name", CASES)
def test_elements_of_a_named_axis_see_each_other(name: str, compiled: Callable[..., Any]):
    f, x, want = CASES[name]
    got = compiled(tj.vmap(f, axis_name="i"))(x)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert got.dtype == np.asarray(want).dtype


LINEAR = ["psum", "pmean", "all_gather", "all_gather behind", "all_gather tiled", "ppermute", "pshuffle", "pswapaxes",
          "all_to_all", "all_to_all tiled", "psum_scatter", "psum_scatter tiled"]  # fmt: skip


@pytest.mark.parametrize("name", LINEAR)
def test_derivatives_within_and_without_agree(name: str):
    f, x, _ = CASES[name]
    mapped = tj.vmap(f, axis_name="i")
    weights = np.random.default_rng(0).normal(size=np.shape(mapped(x)))
    want = tj.grad(lambda x: np.sum(weights * mapped(x)))(x)
    # the transpose: what all elements are asked for goes back to where it came from
    within = tj.vmap(lambda x, w: tj.vjp(f, x)[1](w)[0], axis_name="i")
    for got in (within(x, weights), tj.jit(within)(x, weights)):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    _, slope = tj.vmap(lambda x: tj.jvp(f, (x,), (x,)), axis_name="i")(x)
    np.testing.assert_allclose(slope, mapped(x), rtol=1e-12)


def test_losses_that_share_a_mean_have_jax_s_gradients():
    assert tj.vmap(tj.grad(lambda x: lax.psum(x, "i") ** 2), axis_name="i")(X).tolist() == [42.0] * 3
    normed = tj.vmap(lambda x, w: (w * x - lax.pmean(w * x, "i")) ** 2, (0, None), axis_name="i")
    slope = tj.jit(tj.grad(lambda w: np.sum(normed(X, w))))(2.0)
    np.testing.assert_allclose(slope, 4 * np.sum((X - X.mean()) ** 2), rtol=1e-12)
    top = tj.grad(lambda x: np.sum(tj.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(x)))(X)
    np.testing.assert_allclose(top, [0, 0, 3])


def test_batches_are_normed_in_a_loop_that_is_trained():
    xs = np.random.default_rng(1).normal(size=(5, 4, 3))

    def norm(x: Any) -> Any:
        mean = lax.pmean(x, "batch")
        return (x - mean) / np.sqrt(lax.pmean((x - mean) ** 2, "batch") + 1e-5)

    @tj.jit
    def loss(w: Any, xs: Any) -> Any:
        def step(total: Any, x: Any) -> Any:
            return total + np.sum(tj.vmap(lambda x: norm(np.tanh(w * x)) * x, axis_name="batch")(x) ** 2), None

        return lax.scan(step, 0.0, xs)[0]

    w = np.array([0.5, -0.7, 1.1])
    slope = tj.jit(tj.grad(loss))(w, xs)
    for n in range(3):
        ends = [loss(w + h * np.eye(3)[n], xs) for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(slope[n], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_axes_have_their_own_names():
    x = np.arange(6.0).reshape(2, 3)

    def over(names: Any) -> Any:
        return tj.vmap(tj.vmap(lambda x: lax.psum(x, names), axis_name="i"), axis_name="j")(x)

    np.testing.assert_allclose(over("i"), np.repeat(x.sum(axis=1), 3).reshape(2, 3))
    np.testing.assert_allclose(over("j"), np.tile(x.sum(axis=0), (2, 1)))
    np.testing.assert_allclose(over(("i", "j")), np.full((2, 3), 15.0))
    index = tj.vmap(tj.vmap(lambda _: lax.axis_index(("j", "i")), axis_name="i"), axis_name="j")(x)
    np.testing.assert_array_equal(index, np.arange(6).reshape(2, 3))
    inner = tj.vmap(lambda x: tj.vmap(lambda y: lax.psum(y, "i"), axis_name="i")(np.stack([x, x])), axis_name="i")(X)
    np.testing.assert_allclose(inner, np.stack([2 * X, 2 * X], axis=1))  # the nearest
    numbers = tj.vmap(lambda: lax.axis_index("i"), axis_name="i", axis_size=3)()
    assert numbers.tolist() == [0, 1, 2]
    assert float(tj.vmap(lambda x: lax.psum(x, "i"), out_axes=None, axis_name="i")(X)) == 7.0  # type: ignore[arg-type]


def test_trees_are_summed_leaf_by_leaf():
    got = tj.vmap(lambda x: lax.psum({"a": x, "b": (2 * x, 1)}, "i"), axis_name="i")(X)
    assert got["a"].tolist() == [7.0] * 3
    assert got["b"][0].tolist() == [14.0] * 3
    assert got["b"][1].tolist() == [3] * 3


def test_a_loop_whose_elements_end_apart_sums_over_all_of_them():
    def step(x: Any) -> Any:
        return lax.while_loop(lambda c: c < 20, lambda c: c + lax.pmean(c, "i"), x)

    state = X.copy()
    while (state < 20).any():
        state = np.where(state < 20, state + state.mean(), state)
    for f in (tj.vmap(step, axis_name="i"), tj.jit(tj.vmap(step, axis_name="i"))):
        np.testing.assert_allclose(f(X), state, rtol=1e-13)


def test_sizes_that_change_need_no_other_program():
    f = tj.jit(tj.vmap(lambda x: x / lax.psum(x, "i") + lax.axis_index("i") * lax.axis_size("i"), axis_name="i"))
    for n in (3, 4, 7, 9):
        x = np.arange(1.0, n + 1)
        np.testing.assert_allclose(f(x), x / x.sum() + np.arange(n) * n, rtol=1e-13)
    assert f.compilations <= 3


def test_what_does_not_fit_is_refused():
    def mapped(f: Any, x: Any = X) -> Any:
        return tj.vmap(f, axis_name="i")(x)

    with pytest.raises(UserError, match=r"lax\.psum: no axis has the name 'j' here; give it with tj\.vmap"):
        mapped(lambda x: lax.psum(x, "j"))
    with pytest.raises(UserError, match="no axis has the name 'i'"):
        lax.axis_index("i")
    with pytest.raises(UnsupportedError, match="axis_index_groups is not supported; split the axis in two"):
        mapped(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2]]))
    with pytest.raises(UnsupportedError, match=r"lax\.pmax has no derivative within tj\.vmap"):
        mapped(tj.grad(lambda x: lax.pmax(x, "i")))
    with pytest.raises(OptionError, match=r"pairs \(source, target\) of different elements from 0 to 2"):
        mapped(lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]))
    with pytest.raises(ShapeError, match="has not the extent of the named axis, 3; use tiled=True"):
        mapped(lambda x: lax.psum_scatter(x, "i"), LONG)
    with pytest.raises(ShapeError, match="is not divided by the extent of the named axis, 3"):
        mapped(lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True), LONG)
    with pytest.raises(UnsupportedError, match=r"lax\.all_gather is about one axis, not 2"):
        mapped(lambda x: lax.all_gather(x, ("i", "i")))
    with pytest.raises(OptionError, match="axis_name is \\['i'\\]; it is a name"):
        tj.vmap(lambda x: x, axis_name=["i"])


def test_tiles_of_equal_extents_at_every_size():
    def exchanged(x: Any) -> Any:
        return tj.vmap(lambda row: tj.lax.all_to_all(row, "i", 0, 0, tiled=True), axis_name="i")(x)

    def summed(x: Any) -> Any:
        return tj.vmap(lambda row: tj.lax.psum_scatter(row, "i", tiled=True), axis_name="i")(x)

    exchange, add = tj.jit(exchanged), tj.jit(summed)
    for n, m in ((2, 2), (3, 3), (4, 4), (2, 4), (3, 6), (5, 5)):
        x = np.arange(float(n * m)).reshape(n, m)
        np.testing.assert_array_equal(exchange(x), x.reshape(n, n, -1).transpose(1, 0, 2).reshape(n, m))
        np.testing.assert_array_equal(np.ravel(add(x)), x.sum(axis=0))
