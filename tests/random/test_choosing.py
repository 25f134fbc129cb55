"""Permutations and choices: recorded orders of JAX's, sizes, axes, probabilities."""

import itertools
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError

KEY = tj.random.key(42)
R = tj.random
P = np.array([0.1, 0.2, 0.3, 0.4])


def test_orders_and_choices_are_those_of_jax():
    rows = np.arange(6.0).reshape(3, 2)
    draws = {
        "permutation": (lambda k: R.permutation(k, 10), [7, 4, 2, 5, 3, 6, 8, 9, 0, 1]),
        "independent": (lambda k: R.permutation(k, rows, independent=True), [[4, 5], [2, 3], [0, 1]]),
        "choice": (lambda k: R.choice(k, 10, (4,)), [5, 8, 3, 1]),
        "different ones": (lambda k: R.choice(k, 10, (4,), replace=False), [7, 4, 2, 5]),
        "weighed": (lambda k: R.choice(k, 4, (6,), p=P), [2, 3, 2, 1, 2, 2]),
        "weighed different ones": (lambda k: R.choice(k, 4, (3,), replace=False, p=P), [3, 2, 0]),
        "categorical": (
            lambda k: R.categorical(k, np.array([[0.1, 0.2, 0.7], [1.0, 2, 3]]), shape=(4, 2)),
            [[2, 2], [0, 2], [1, 2], [1, 2]],
        ),
    }
    for name, (draw, want) in draws.items():
        assert draw(KEY).tolist() == want, name
        assert tj.jit(draw)(KEY).tolist() == want, name


def test_many_elements_are_sorted_more_than_once():
    x = R.permutation(KEY, 2000)
    assert sorted(x) == list(range(2000))
    assert x[:4].tolist() == JAX_2000
    f = tj.jit(lambda k, x: R.permutation(k, x))
    for n in (5, 2000, 0, 1, 2, 1626):
        np.testing.assert_array_equal(f(KEY, np.arange(n)), R.permutation(KEY, n))
    assert f.compilations <= 4


JAX_2000 = [1474, 815, 539, 874]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lines_move_together_or_each_by_itself(axis: int):
    x = np.arange(30).reshape(5, 6)
    together = tj.jit(lambda k, x: R.permutation(k, x, axis))(KEY, x)
    moved = np.moveaxis(together, axis, 0)
    assert sorted(map(tuple, moved)) == sorted(map(tuple, np.moveaxis(x, axis, 0)))
    apart = R.permutation(KEY, x, axis, independent=True)
    np.testing.assert_array_equal(np.sort(apart, axis=axis), x)
    assert sorted(map(tuple, np.moveaxis(apart, axis, 0))) != sorted(map(tuple, np.moveaxis(x, axis, 0)))


def test_all_orders_are_equally_likely():
    keys = R.split(KEY, 3000)
    found = tj.jit(tj.vmap(lambda k: R.permutation(k, 4)))(keys)
    places = {p: n for n, p in enumerate(itertools.permutations(range(4)))}
    counts = np.bincount([places[tuple(map(int, row))] for row in found], minlength=24)
    assert np.sum((counts - 125.0) ** 2 / 125.0) < 23 + 5 * np.sqrt(46)
    np.testing.assert_array_equal(found[:3], [R.permutation(k, 4) for k in keys[:3]])


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,), 2])
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("p", [None, P])
def test_choices_are_elements(shape: Any, replace: bool, p: Any):
    wide = (shape,) if isinstance(shape, int) else shape
    x = np.arange(12.0).reshape(3, 4) * 2
    numbers = R.choice(KEY, 4, shape, replace, p)
    assert (numbers.shape, numbers.dtype) == (wide, np.int64)
    assert ((numbers >= 0) & (numbers < 4)).all()
    assert replace or len(set(numbers.ravel())) == numbers.size
    np.testing.assert_array_equal(R.choice(KEY, np.arange(4) * 2.0, shape, replace, p), numbers * 2.0)
    columns = tj.jit(lambda k, x: R.choice(k, x, shape, replace, p, axis=1))(KEY, x)
    np.testing.assert_array_equal(columns, np.take(x, numbers, axis=1))


def test_one_program_serves_all_sizes():
    def draw(k: Any, x: Any) -> Any:
        return R.choice(k, x, (4,)), R.choice(k, x, (4,), p=x / x.sum()), R.categorical(k, x)

    f = tj.jit(draw)
    for n in (3, 5, 1, 2, 40):
        x = np.linspace(1.0, 2.0, n)
        for found, want in zip(f(KEY, x), draw(KEY, x), strict=True):
            np.testing.assert_array_equal(found, want)


def test_places_without_replacement_are_different():
    logits = np.log(np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]))
    for axis, shape in ((1, (3, 2)), (-1, (2, 2)), (0, (2, 3))):
        found = R.categorical(KEY, logits, axis, shape, replace=False)
        assert found.shape == shape
        for column in found.reshape(shape[0], -1).T:
            assert len(set(column)) == shape[0]
    often = R.choice(KEY, 3, (1,), replace=False, p=np.array([0.0, 0.0, 1.0]))
    assert often.tolist() == [2]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: R.permutation(KEY, 2.5), DtypeError, "takes an integer or an array"),
        (lambda: R.permutation(KEY, np.zeros((2, 2)), 2), ShapeError, "axis 2"),
        (lambda: R.choice(KEY, 3, (4,), replace=False), ShapeError, "4 different ones of 3 are too many"),
        (lambda: R.choice(KEY, 0, (4,)), ShapeError, "nothing to choose from"),
        (lambda: R.choice(KEY, 3, (4,), p=P), ShapeError, "one probability for each of 3 elements"),
        (lambda: R.categorical(KEY, 1.0), ShapeError, "logits have an axis at least"),
        (lambda: R.categorical(KEY, P, shape=(5,), replace=False), ShapeError, "5 different places of 4 are too many"),
        (lambda: R.categorical(KEY, np.zeros((2, 3)), shape=(3,)), ShapeError, "cannot be broadcast"),
    ],
)
def test_what_does_not_fit_is_an_error(call: Any, error: type[Exception], text: str):
    with pytest.raises(error) as found:
        call()
    assert text in str(found.value)
