"""Shapes, orders of axes and orders of elements, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError, UnsupportedError


def written(expression: str, *names: str) -> Any:
    return eval(f"lambda xp, {', '.join(names)}: {expression}", {})


REARRANGEMENTS = [
    "xp.reshape(x, (4, 6))", "xp.reshape(x, -1)", "xp.reshape(x, (3, -1))", "xp.reshape(x, (2, 3, -1, 1))",
    "x.reshape(6, 4)", "x.reshape((6, -1))", "x.reshape(-1)", "x.reshape([2, 12])", "xp.ravel(x)", "x.ravel()",
    "x.flatten()", "xp.transpose(x)", "xp.transpose(x, (1, 2, 0))", "x.T", "x.mT", "x.transpose(2, 0, 1)",
    "x.transpose((0, 2, 1))", "x.transpose()", "x.transpose(None)", "xp.transpose(x, (-1, 0, 1))",
    "xp.permute_dims(x, (2, 1, 0))", "xp.matrix_transpose(x)", "xp.swapaxes(x, 0, -1)", "x.swapaxes(1, 2)",
    "xp.moveaxis(x, 0, -1)", "xp.moveaxis(x, (0, 1), (-1, 0))", "xp.moveaxis(x, [2, 0], [0, 1])", "xp.rollaxis(x, 2)",
    "xp.rollaxis(x, 0, 3)", "xp.rollaxis(x, -1, 1)", "xp.rollaxis(x, 1, -1)", "xp.expand_dims(x, 0)",
    "xp.expand_dims(x, (0, -1))", "xp.expand_dims(x, 2)", "xp.atleast_1d(x)", "xp.atleast_3d(x)",
    "xp.broadcast_to(x, (5, 2, 3, 4))", "xp.broadcast_arrays(x, x[0], x[:, :1])", "xp.flip(x)", "xp.flip(x, 1)",
    "xp.flip(x, (0, -1))", "xp.fliplr(x)", "xp.flipud(x)", "xp.rot90(x)", "xp.rot90(x, 2)", "xp.rot90(x, 3, (1, 2))",
    "xp.rot90(x, -1, (0, 2))", "xp.copy(x)", "x.copy()", "xp.rot90(x, 4)", "xp.reshape(xp.transpose(x), (4, 6))",
    "xp.flip(xp.flip(x, 0) + x, 1)", "x.T.T", "xp.squeeze(x[:, :1])", "x[:1, :, :1].squeeze(0)",
    "xp.squeeze(x[:1, :, :1], (0, -1))",
]  # fmt: skip


@pytest.mark.parametrize("expression", REARRANGEMENTS)
def test_rearranging_three_axes(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x"), numbers((2, 3, 4)))


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float32])
def test_rearranging_other_dtypes(agree_together: Any, numbers: Any, dtype: Any):
    agree_together([written(e, "x") for e in REARRANGEMENTS], numbers((2, 3, 4), dtype))


@pytest.mark.parametrize(
    "expression",
    [
        "xp.reshape(x, -1)", "x.ravel()", "x.T", "xp.swapaxes(x, 0, 1)", "xp.moveaxis(x, 0, 2)", "xp.expand_dims(x, 1)",
        "xp.flip(x)", "xp.rot90(x)", "x.reshape(-1, x.shape[2])", "x.reshape(x.shape[0], -1)",
        "x.reshape(x.shape[1], x.shape[0], x.shape[2])", "xp.broadcast_to(x, (5, *x.shape))", "xp.squeeze(x[None])",
        "xp.atleast_3d(x[0])", "xp.ravel(x.T)", "xp.broadcast_arrays(x, x[0])",
        "x.reshape(x.shape[0] * x.shape[1], x.shape[2])", "x.transpose(1, 0, 2).reshape(-1)",
        "xp.reshape(x, x.shape[::-1])",
    ],
)  # fmt: skip
def test_rearranging_needs_no_extents(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x"), numbers((5, 3, 4)), symbolic=True)


@pytest.mark.parametrize(
    "expression",
    [
        "xp.reshape(x, (0, 5))", "xp.reshape(x, (0,))", "x.reshape(3, -1)", "x.T", "xp.ravel(x)", "xp.flip(x)",
        "xp.flip(x, 0)", "xp.rot90(x)", "xp.expand_dims(x, 0)", "xp.broadcast_to(x, (4, 3, 0))",
    ],
)  # fmt: skip
def test_rearranging_nothing(agree: Any, expression: str):
    agree(written(expression, "x"), np.zeros((3, 0)))


@pytest.mark.parametrize(
    "expression",
    [
        "xp.reshape(x, (1, 1))", "xp.reshape(x, ())", "xp.ravel(x)", "x.T", "xp.expand_dims(x, 0)", "xp.atleast_1d(x)",
        "xp.atleast_2d(x)", "xp.atleast_3d(x)", "xp.squeeze(x)", "xp.flip(x)", "xp.broadcast_to(x, (2, 2))",
        "xp.copy(x)",
    ],
)  # fmt: skip
def test_rearranging_one_number(agree: Any, expression: str):
    agree(written(expression, "x"), np.array(2.5))


def test_atleast_lifts_every_rank(agree: Any, numbers: Any):
    agree(
        lambda xp, x, y: (xp.atleast_1d(x, y), xp.atleast_2d(x, y), xp.atleast_3d(x, y), xp.atleast_2d(x[0])),
        numbers((3, 2)),
        numbers(4),
    )


def test_questions_have_python_answers():
    seen: list[Any] = []

    @tj.jit
    def f(x: Any) -> Any:
        seen.append((np.shape(x), np.ndim(x), np.size(x), np.size(x, 1), x.size, x.ndim, len(x)))
        return x

    f(np.zeros((2, 3)))
    assert seen == [((2, 3), 2, 6, 3, 6, 2, 2)]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("np.reshape(x, (4, 5))", "cannot reshape an array of 6 elements"),
        ("np.reshape(x, (-1, 4))", "cannot reshape an array of 6 elements"),
        ("np.reshape(x, (-1, -1))", "only one extent"), ("np.reshape(x, (-2, 3))", "negative"),
        ("np.transpose(x, (0, 0))", "twice"), ("np.transpose(x, (0,))", "every axis"),
        ("np.swapaxes(x, 0, 2)", "axis 2 is out of bounds"), ("np.moveaxis(x, 0, (0, 1))", "numbers of axes differ"),
        ("np.squeeze(x, 0)", "cannot squeeze axis 0"), ("np.expand_dims(x, 5)", "axis 5 is out of bounds"),
        ("np.broadcast_to(x, (2, 4))", "cannot be broadcast"), ("np.broadcast_to(x, (3,))", "cannot be broadcast"),
        ("np.broadcast_arrays(x, np.ones(2))", "cannot be broadcast"), ("np.flip(x, 3)", "axis 3 is out of bounds"),
        ("np.fliplr(x[0])", "at least 2 axes"), ("np.rot90(x, 1, (0, 0))", "twice"),
        ("np.rollaxis(x, 0, 5)", "out of bounds"), ("np.matrix_transpose(x[0])", "at least 2 axes"),
    ],
)  # fmt: skip
def test_errors_name_the_fault_and_the_line(expression: str, message: str):
    f = eval(compile(f"lambda np, x: {expression}", "user_program.py", "eval"))
    with pytest.raises(ShapeError, match=message) as caught:
        tj.jit(lambda x: f(np, x))(np.zeros((2, 3)))
    assert "user_program.py" in str(caught.value)
    with pytest.raises(ShapeError, match=message):
        f(tj.numpy, np.zeros((2, 3)))


def test_what_is_no_order_is_refused():
    with pytest.raises(ShapeError, match="order='Z' is none of"):
        tj.jit(lambda x: np.reshape(x, (3, 2), order="Z"))(np.zeros((2, 3)))


def test_a_copy_is_written_apart_from_its_source():
    def f(x: Any) -> Any:
        y = x.copy()
        y[0] = 7.0
        return x + 0, y

    x, y = tj.jit(f)(np.zeros(3))
    np.testing.assert_array_equal(x, [0, 0, 0])
    np.testing.assert_array_equal(y, [7, 0, 0])


def test_a_number_spread_is_one_element_many_times():
    """What is made of it by `ravel` is a copy, as of any array whose elements are one."""

    def f(x):
        t = np.broadcast_arrays(x, x[0])[1]
        r = t.ravel()
        r[-1:] -= 6
        u = np.broadcast_to(x[1], (2, 3))
        v = u.T.ravel()
        v[0] = 9
        return t, r, u, v

    x = np.arange(1.0, 7.0)
    for want, got in zip(f(x), tj.jit(f)(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "function", [np.all, np.any, np.sum, np.max, np.mean, np.nanmean, np.nanvar, np.nanstd, np.logical_or.reduce]
)
def test_where_that_does_not_fit_the_array(function: Any):
    options = {"initial": 0.0} if function is np.max else {}
    with pytest.raises(ValueError, match="broadcast"):
        function(np.ones((6, 1, 1)), axis=2, where=np.ones(6, bool), **options)
    with pytest.raises(ShapeError):
        tj.jit(lambda x, w: function(x, axis=2, where=w, **options))(np.ones((6, 1, 1)), np.ones(6, bool))


VECTORS = [
    "xp.repeat(x, 2, axis=0)", "xp.repeat(x, 3, -1)", "x.repeat(2, axis=0)", "xp.take(x, [0, 0], axis=0)",
    "x.take([0], axis=-1)", "xp.squeeze(x, axis=0)",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
@pytest.mark.parametrize("expression", VECTORS)
def test_scalars_are_vectors_where_numpy_checks_axes_so(agree: Any, expression: str, dtype: Any):
    agree(written(expression, "x"), dtype(3))


@pytest.mark.parametrize(
    "expression", ["x + [1, 2, 3]", "[1, 2, 3] - x", "x < [1, 5]", "x & [1, 2]", "x // (1, 2)", "(1, 2) + x"]
)
def test_integers_of_numpy_take_lists_for_arrays(expression: str):
    f = eval(f"lambda x: {expression}")
    got, want = tj.jit(f)(np.uint8(3)), f(np.uint8(3))
    assert got.dtype == want.dtype
    assert np.array_equal(got, want)


def test_a_view_of_no_dtype_is_one_of_float64():
    np.testing.assert_array_equal(tj.jit(lambda x: x.view(None) * 2)(np.ones(3)), np.ones(3) * 2)
    with pytest.raises(UnsupportedError, match="float64"):
        tj.jit(lambda x: x.view(None))(np.ones(3, np.int64))
