"""Complex numbers where Python's functions and NumPy's promotion want numbers."""

import math

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")

OF_REAL_NUMBERS = [
    lambda x: int(x), lambda x: float(x), lambda x: round(x), lambda x: round(x, 1), lambda x: max(x, 1),
    lambda x: min(x, 0.5), lambda x: min(1, 2, x), lambda x: max([x, x]), lambda x: math.sqrt(x),
    lambda x: math.copysign(1, x), lambda x: math.floor(x), lambda x: math.ceil(x), lambda x: math.trunc(x),
    lambda x: math.hypot(x, 1), lambda x: math.log(x), lambda x: math.log(2, x), lambda x: math.pow(x, 2),
    lambda x: math.isnan(x), lambda x: math.atan2(1, x), lambda x: divmod(x, 2), lambda x: x // 2, lambda x: x % 2,
    lambda x: x < 1, lambda x: ~x, lambda x: np.int64(x), lambda x: np.float32(x), lambda x: [1, 2][x],
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OF_REAL_NUMBERS)))
def test_pythons_complex_numbers_are_no_real_numbers(number):
    f = OF_REAL_NUMBERS[number]
    for call in (f, tj.jit(f)):
        with pytest.raises(TypeError):
            call(1 + 2j)


OF_ELEMENTS = [
    lambda z: int(z[0]), lambda z: float(z[0]), lambda z: math.sqrt(z[0]), lambda z: math.floor(z[0]),
    lambda z: math.ceil(z[1]), lambda z: math.isnan(z[0]), lambda z: max(z[0], z[1]), lambda z: min(z[0], z[1]),
    lambda z: complex(z[0]) * 2, lambda z: bool(z[0]), lambda z: round(z[0]), lambda z: round(z[0], 1),
    lambda z: math.trunc(z[0]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OF_ELEMENTS)))
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_numpys_complex_numbers_are_converted_as_numpy_converts_them(number, dtype):
    f, z = OF_ELEMENTS[number], np.array([1.5 + 2j, -3.25 - 4j], dtype)
    try:
        want = f(z)
    except TypeError:
        with pytest.raises(TypeError):
            tj.jit(f)(z)
        return
    got = tj.jit(f)(z)
    assert type(got) is type(want)
    assert got == want


def test_an_extremum_of_which_data_decide_the_kind_is_refused():
    for f in (lambda z: max(z[0], 1), lambda z: min(z[0], 0.5, z[1]), lambda z: max(z[0], z[1].real)):
        with pytest.raises(UnsupportedError, match="complex numbers of different kinds"):
            tj.jit(f)(np.array([1j, 2]))


def test_a_python_complex_number_has_a_dtype():
    x, z = np.ones(2, np.float32), np.array([1 + 2j, 0])
    made = tj.jit(lambda x, y: np.zeros(2, np.result_type(x, y)))(x, 1j)
    assert made.dtype == np.result_type(x, 1j) == np.complex64

    def copied(z, y):
        np.copyto(z, y, where=z != 0)
        return z

    np.testing.assert_array_equal(tj.jit(copied)(z.copy(), 1j), copied(z.copy(), 1j))
    with pytest.raises(TypeError):
        tj.jit(lambda x, y: np.copyto(x, y))(x, 1j)


@pytest.mark.parametrize("argument", [np.array([1j, 2]), np.array([1.0, 2]), np.array([1, 2])])
@pytest.mark.parametrize("name", ["real", "imag"])
def test_parts_of_numbers_cannot_be_written(argument, name):
    def of_an_element(x):
        setattr(x[0], name, 3)

    def by_statement(x):
        x[0].real = 3

    def of_a_number(x):
        x.real = 3

    for f, x in ((of_an_element, argument), (by_statement, argument), (of_a_number, argument[0]), (of_a_number, 1j)):
        for call in (f, tj.jit(f)):
            with pytest.raises(AttributeError):
                call(x)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_sets_have_one_nan(dtype):
    nan = np.nan
    x = np.array([nan + 0j, complex(1, nan), 2, 2, complex(nan, nan), 1], dtype)
    y = np.array([1 + 0j, complex(3, nan)], dtype)
    for f in (
        lambda x, y: np.unique(x),
        lambda x, y: np.unique(x, return_index=True),
        lambda x, y: np.unique(x, return_inverse=True, return_counts=True),
        lambda x, y: np.unique(x, equal_nan=False),
        lambda x, y: np.union1d(x, y),
        lambda x, y: np.union1d(y, x),
        lambda x, y: np.setdiff1d(x, y),
        lambda x, y: np.setdiff1d(y, x),
        lambda x, y: np.intersect1d(x, y),
        lambda x, y: np.setxor1d(x[:4], y[:1]),
        lambda x, y: np.unique_counts(x).counts,
    ):
        got, want = tj.jit(f)(x, y), f(x, y)
        for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.complex64, np.uint64])
def test_a_union_with_a_python_number_has_the_arrays_dtype(dtype):
    x = np.array([1, 2, 3]).astype(dtype)
    for f in (lambda x: np.union1d(x, 2), lambda x: np.union1d(7, x), lambda x: np.union1d(x, [2])):
        np.testing.assert_array_equal(tj.jit(f)(x), f(x), strict=True)
