"""What arrays with as many elements as data say cannot do: by which words it is refused, or fails in the program."""

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import IndexOutOfBounds, ShapeError, TracejitError, UnsupportedError

X = np.linspace(0.05, 0.95, 10)


def refused(f, *args, options=None):
    with pytest.raises(TracejitError) as caught:
        tj.jit(f, **options or {})(*args)
    return caught.value, str(caught.value).replace("\n", " ")


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
def test_two_lengths_that_differ_fail_where_they_meet(backend, record_backend):
    record_backend(backend)
    f = tj.jit(lambda x, a, b: x[x > a] + x[x < b], backend=backend)
    np.testing.assert_allclose(f(X, 0.5, 0.5), X[X > 0.5] + X[X < 0.5])  # five and five
    with pytest.raises(ShapeError, match="arrays of different lengths, of which data say one at least, cannot be") as e:
        f(X, 0.5, 0.6)
    assert isinstance(e.value, ValueError)
    assert "x[x > a] + x[x < b]" in str(e.value)
    with pytest.raises(ShapeError, match="one that has one element by chance is not spread either"):
        f(X, 0.9, 0.6)


def test_a_known_length_beside_one_that_differs():
    f = tj.jit(lambda x, a: x[x > a] * np.arange(5.0))
    np.testing.assert_allclose(f(X, 0.5), X[X > 0.5] * np.arange(5.0))
    with pytest.raises(ShapeError, match="arrays of different lengths"):
        f(X, 0.6)


def test_assigned_values_are_as_many_as_places():
    def f(x, a):
        x[x > a] = np.array([1.0, 2.0])
        return x

    jitted = tj.jit(f)
    np.testing.assert_array_equal(jitted(X.copy(), 0.8), f(X.copy(), 0.8))
    x = X.copy()
    with pytest.raises(ShapeError, match="arrays of different lengths"):
        jitted(x, 0.5)
    np.testing.assert_array_equal(x, X)  # a program that fails has changed no argument


def test_reductions_of_nothing_have_the_words_of_numpy():
    for f in (lambda x: x[x > 5].max(), lambda x: np.cumsum(x[x > 5]).min()):
        error, text = refused(f, X)
        assert isinstance(error, ShapeError)
        assert "zero-size array to a reduction that has no identity" in text


def test_an_index_beyond_the_length():
    error, text = refused(lambda x: x[x > 0.9][3], X)
    assert isinstance(error, IndexOutOfBounds)
    assert text.startswith("index 3 is out of bounds for an axis that data make shorter")


def test_vmap_names_the_mask():
    error, text = refused(lambda x: tj.vmap(lambda r: np.cumsum(r[r > 0.5]).sum())(x), X.reshape(2, 5))
    assert isinstance(error, UnsupportedError)
    assert text.startswith("under vmap, the shape of x[mask] differs from element to element; use np.where(mask, ")
    assert "r[r > 0.5]" in text


def test_vmap_over_something_else():
    f = tj.jit(lambda x: tj.vmap(lambda r: r * x[x > 0.5].sum() + len(x[x > 0.5]))(x.reshape(2, 5)))
    np.testing.assert_allclose(f(X), X.reshape(2, 5) * X[X > 0.5].sum() + 5)


@pytest.mark.parametrize(
    "f",
    [lambda x: tj.lax.cond(x.sum() > 1, lambda x: x[x > 0.5], lambda x: x, x),
     lambda x: tj.lax.fori_loop(0, 3, lambda i, x: x[x > 0.5], x)],
)  # fmt: skip
def test_what_leaves_a_loop_or_branch_of_lax_is_refused(f):
    _, text = refused(f, X)
    assert text.startswith("an array has in a loop or branch of the program as many elements as data say")


@pytest.mark.parametrize("f", [lambda x: x[x > 0.5].reshape(2, -1), lambda x: list(x[x > 0.5])])
def test_what_the_length_decides_while_tracing_is_refused(f):
    error, text = refused(f, X)
    assert isinstance(error, UnsupportedError)
    assert text.startswith("how many elements x[mask] has is known when the program runs, and decides what is done ")


def test_a_slice_by_numbers_has_no_step():
    _, text = refused(lambda x: x[(x > 0.5).sum() :: 2], X)
    assert text.startswith("a slice whose bounds are traced numbers has no step; take it first: x[a:b][::step]")
