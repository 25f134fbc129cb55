"""Dtypes by name, and what NumPy tells of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import numpy as tnp
from tracejit.support.errors import UnsupportedError

KINDS = ("generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating")
TYPES = ("bool", "int_", "uint", "single", "double", "half", "intp", "float32", "int8", "uint64", "longlong")


def test_kinds_and_types_are_numpys():
    assert all(getattr(tnp, name) is getattr(np, name) for name in (*KINDS, *TYPES, "ufunc", "ndarray"))


def test_questions_about_dtypes_are_answered_as_by_numpy(agree: Callable[..., None]):
    def f(xp: Any, x: Any) -> Any:
        return (
            xp.issubdtype(x.dtype, xp.floating), xp.issubdtype(np.int8, xp.floating), xp.isdtype(x.dtype, "integral"),
            xp.result_type(x, np.int16) == np.float32, xp.can_cast(x.dtype, "f2"), xp.can_cast(x, "f2", "same_kind"),
            xp.promote_types("i4", "f4") == np.float64, xp.isscalar(3.5), xp.isscalar(x), xp.finfo(x.dtype).bits,
            xp.iinfo(np.int8).max, xp.min_scalar_type(300) == np.uint16, x * 2,
        )  # fmt: skip

    agree(f, np.ones(3, np.float32))


def test_a_tj_array_has_the_dtype_that_it_says():
    x = tj.Array([1, 2])
    assert tnp.result_type(x, np.int8) == np.int64
    assert tnp.can_cast(x, np.float64)
    assert tnp.min_scalar_type(x) == np.int64
    assert not tnp.may_share_memory(np.ones(2), np.ones(2))


def test_types_convert_traced_arrays():
    x = np.array([1.5, -2.5])
    assert tj.jit(lambda x: tnp.float32(x))(x).dtype == np.float32
    assert tj.jit(lambda x: tj.numpy.int32(x))(x).dtype == np.int32
    assert tj.jit(lambda n: tnp.float32(n) * tnp.float32(2))(3).dtype == np.float32


def test_the_least_type_of_a_traced_number_is_refused():
    with pytest.raises(UnsupportedError, match=r"use x\.dtype"):
        tj.jit(lambda n: np.zeros(2, np.min_scalar_type(n + np.int64(1))))(3)


def test_shapes_are_broadcast(agree: Callable[..., None]):
    agree(lambda xp, x: xp.zeros(xp.broadcast_shapes(x.shape, (1, 3), 3)), np.zeros((2, 1)), protocols=False)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        tnp.broadcast_shapes((2, 3), (4,))


@pytest.mark.parametrize(
    ("name", "other"),
    [("acos", "arccos"), ("asin", "arcsin"), ("atan", "arctan"), ("degrees", "rad2deg"), ("radians", "deg2rad")],
)
def test_second_names_are_the_same_functions(name: str, other: str):
    x = np.array([0.1, 0.7])
    np.testing.assert_array_equal(np.asarray(getattr(tnp, name)(x)), np.asarray(getattr(tnp, other)(x)))
    assert np.asarray(tnp.pow(x, 2)).tolist() == (x**2).tolist()
    assert tnp.bitwise_not(np.int8(3)) == -4
    assert tnp.atan2(1.0, 1.0) == np.arctan2(1.0, 1.0)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_limits_of_floats_are_floats_of_pythons(dtype):
    found, want = tj.numpy.finfo(dtype), np.finfo(dtype)
    for name in ("eps", "max", "min", "smallest_normal", "tiny", "resolution", "epsneg"):
        assert type(getattr(found, name)) is float
        assert getattr(found, name) == getattr(want, name)
    assert (found.bits, found.dtype, repr(found)) == (want.bits, want.dtype, repr(want))
    with pytest.raises(ValueError, match="not inexact"):
        tj.numpy.finfo(int)


@pytest.mark.parametrize("k", [2**62, -(2**62), 5])
def test_diagonals_that_no_matrix_has(k):
    for f in (np.eye, np.tri):
        np.testing.assert_array_equal(tj.jit(lambda x, f=f: f(3, k=k) + x)(0.0), f(3, k=k))


def test_the_common_type_of_arrays():
    x = np.ones(3)
    for dtypes in (("f4", "f2"), ("f4", "i4"), ("c8", "f8"), ("i1", "u2"), ("f2",)):
        arrays = [x.astype(d) for d in dtypes]
        seen: list[Any] = []
        tj.jit(lambda *a: seen.append(np.common_type(*a)) or a[0])(*arrays)  # noqa: B023
        assert seen[-1] is np.common_type(*arrays)
        assert tj.numpy.common_type(*arrays) is seen[-1]
    with pytest.raises(TypeError, match="non-numeric"):
        tj.jit(lambda x: np.common_type(x > 0) and x)(x)
