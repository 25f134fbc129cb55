"""np.pad in all its modes, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError, TracerError, UnsupportedError

MODES = ["constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect", "symmetric", "wrap"]


def padded(width: Any, mode: str, **kwargs: Any) -> Any:
    return lambda xp, x: xp.pad(x, width, mode, **kwargs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, (1, 2), ((1, 0), (0, 2)), ((0, 0), (3, 3)), [(5, 7), (9, 4)]])
def test_modes_and_widths(agree: Any, numbers: Any, mode: str, width: Any):
    agree(padded(width, mode), numbers((3, 4)), rtol=1e-14)


@pytest.mark.parametrize("width", [(1, 2), ((1, 0), (0, 2)), [(5, 7), (9, 4)]])
def test_modes_for_integers(agree_together: Any, numbers: Any, width: Any):
    agree_together([padded(width, mode) for mode in MODES], numbers((3, 4), np.int32))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_borders_of_one_need_no_extents(agree: Any, numbers: Any, mode: str):
    agree(padded(1, mode), numbers((5, 3)), symbolic=True)


@pytest.mark.parametrize(
    ("width", "kwargs"),
    [
        (2, {"constant_values": 3}), ((1, 2), {"constant_values": (4, 5)}),
        (((1, 2), (3, 4)), {"constant_values": ((1, 2), (3, 4))}), (1, {"mode": "linear_ramp", "end_values": (1, -2)}),
        (2, {"mode": "mean", "stat_length": 2}), (1, {"mode": "maximum", "stat_length": ((1, 2), (3, 9))}), ((2,), {}),
        ([[1], [2]], {}), (np.array([[1, 2], [0, 1]]), {"mode": "edge"}), (0, {}), (1, {"constant_values": 2.7}),
        (1, {"constant_values": np.nan}), (2, {"mode": "median", "stat_length": 2}),
        (2, {"mode": "reflect", "reflect_type": "odd"}), ((3, 9), {"mode": "reflect", "reflect_type": "odd"}),
        ((7, 2), {"mode": "symmetric", "reflect_type": "odd"}),
    ],
)  # fmt: skip
def test_options(agree: Any, numbers: Any, width: Any, kwargs: Any):
    agree(lambda xp, x: xp.pad(x, width, **kwargs), numbers((3, 4)), rtol=1e-14, symbolic=False)
    if kwargs.get("constant_values") is not np.nan:
        agree(lambda xp, x: xp.pad(x, width, **kwargs), numbers((3, 4), np.int16), symbolic=False, protocols=False)


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "wrap", "edge"])
@pytest.mark.parametrize("extent", [1, 2, 3])
@pytest.mark.parametrize("width", range(8))
def test_borders_wider_than_the_array(mode: str, extent: int, width: int):
    x = np.arange(float(extent)) + 1
    np.testing.assert_array_equal(tj.numpy.pad(x, (width, 7 - width), mode), np.pad(x, (width, 7 - width), mode))


def test_a_border_can_be_a_traced_value(agree: Any, numbers: Any):
    agree(lambda xp, x: xp.pad(x, 1, constant_values=x[0, 0]), numbers((2, 2)), protocols=False)


def test_empty_arrays_are_extended_by_constants(agree: Any):
    agree(padded(2, "constant"), np.zeros((0, 2)))
    with pytest.raises(ShapeError, match="cannot extend the empty axis 0"):
        tj.numpy.pad(np.zeros((0, 2)), 1, "edge")


def test_widths_by_axis_from_a_dict():
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(tj.numpy.pad(x, {-1: (1, 2)}), np.pad(x, ((0, 0), (1, 2))))


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((-1,), ShapeError, "may not be negative"), ((1.5,), TracerError, "made of integers"),
        (((1, 2, 3),), ShapeError, "does not fit an array of rank 2"),
        ((1, "middle"), UnsupportedError, "supported are constant"),
        ((((1, 1), (1, 1), (1, 1)),), ShapeError, "does not fit"),
        ((1, lambda v: v), UnsupportedError, "not supported"),
    ],
)  # fmt: skip
def test_errors(args: Any, error: Any, message: str):
    with pytest.raises(error, match=message):
        tj.jit(lambda x: np.pad(x, *args))(np.zeros((2, 2)))
    with pytest.raises(ShapeError, match="has no meaning in mode"):
        tj.numpy.pad(np.zeros(2), 1, "edge", constant_values=1)


@pytest.mark.parametrize("end", [2.7, -1.5, -3, 300, (1, 2.5), np.float32(1.3)])
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.float32, np.float64, bool])
def test_ramps_of_integers_to_numbers_that_are_none(end: Any, dtype: Any):
    """NumPy computes the line with the number as it is, and rounds down then."""
    for x in (np.array([5, 6, 100, 0]).astype(dtype), np.arange(6).reshape(2, 3).astype(dtype)):
        f = lambda x: np.pad(x, 3, mode="linear_ramp", end_values=end)  # noqa: E731
        got, want = tj.jit(f)(x), f(x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
