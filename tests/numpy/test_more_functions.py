"""Ufuncs made of others, reductions without NaN, and searches, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError


def written(expression: str, *names: str) -> Any:
    return eval(f"lambda xp, {', '.join(names)}: {expression}", {"np": np})


HOLES = np.array([[1.5, np.nan, -2.0, 7.0], [np.nan, np.nan, np.nan, np.nan], [0.0, 3.0, -1.0, np.nan]])


@pytest.mark.parametrize(
    "name", ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nancumsum", "nancumprod"]
)
@pytest.mark.filterwarnings("ignore")
def test_reductions_without_nan(agree: Any, name: str):
    agree(
        lambda xp, x: (
            getattr(xp, name)(x, axis=1),
            getattr(xp, name)(x),
            getattr(xp, name)(x.astype(np.float32), axis=0),
        ),
        HOLES,
        rtol=1e-6,
    )
    agree(lambda xp, x: getattr(xp, name)(x, axis=0), np.arange(6).reshape(2, 3), rtol=1e-12, symbolic=False)


def test_options_of_reductions_without_nan(agree: Any):
    x = HOLES[[0, 2]]
    agree(
        lambda xp, x: (
            xp.nanvar(x, axis=1, ddof=1), xp.nanmean(x, axis=1, keepdims=True), xp.nanargmax(x, axis=1),
            xp.nanargmin(x), xp.nanmax(x, axis=0, keepdims=True),
        ),
        x, rtol=1e-12, symbolic=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["arcsinh", "arccosh", "arctanh", "signbit", "isposinf", "isneginf", "conjugate"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_functions_of_one_operand(agree: Any, name: str, dtype: Any):
    if name == "conjugate":
        agree(lambda xp, x: np.conjugate(x), np.array([1.0, -2.0], dtype), symbolic=False, protocols=False)
        return
    x = np.array([0.0, -0.0, 0.5, -0.5, 1.0, 2.0, 1e-9, 1e30, -3.0, np.inf, -np.inf, np.nan], dtype)
    agree(lambda xp, x: getattr(xp, name)(x), x, rtol=1e-6 if dtype == np.float32 else 1e-14, symbolic=False)


@pytest.mark.parametrize(
    "dtypes",
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.int64, np.int8),
        (np.uint8, np.uint8),
        (np.bool_, np.int16),
    ],
)
def test_functions_of_two_operands(agree: Any, numbers: Any, dtypes: Any):
    x, y = numbers(20, dtypes[0]), numbers(20, dtypes[1], seed=1)
    rtol = 2e-3 if np.logaddexp2(x, y).dtype == np.float16 else 1e-6
    agree(
        lambda xp, x, y: (xp.fmod(x, y), xp.float_power(abs(x), y), xp.logaddexp2(x, y), xp.logaddexp(x, y)),
        x,
        y,
        rtol=rtol,
        symbolic=False,
    )


def test_ldexp(agree: Any):
    agree(lambda xp, x: xp.ldexp(x, np.array([3, -2, 1023, -1074])), np.array([1.5, -3.0, 1.0, 1.0]), symbolic=False)


def test_fmod_at_the_edges(agree: Any):
    agree(
        lambda xp, x, y: xp.fmod(x, y),
        np.array([np.iinfo(np.int64).min, 7, -7, 5]),
        np.array([3, -4, 4, 0]),
        symbolic=False,
    )
    agree(
        lambda xp, x, y: xp.fmod(x, y),
        np.array([5.5, -5.5, np.inf, 1.0, 1e300]),
        np.array([2.0, 2.0, 2.0, np.inf, 3.0]),
        symbolic=False,
    )


@pytest.mark.parametrize(
    "expression",
    [
        "xp.take(x, [0, 2, 1])", "xp.take(x, [[0, 1], [2, -1]], axis=1)", "x.take([1], axis=0)",
        "xp.take(x, [-9, 9], axis=0, mode='clip')", "xp.take(x, [-3, 5], mode='wrap', axis=0)", "xp.take(x, 1, axis=1)",
        "xp.take_along_axis(x, xp.argmax(x, axis=1, keepdims=True), axis=1)",
        "xp.take_along_axis(x, np.array([[1], [0], [2]]), 1)", "xp.take_along_axis(x, np.array([3, 1]), None)",
        "xp.isin(x, [x[0, 0], 2.0])", "xp.isin(x, x[0], invert=True)", "xp.cumulative_sum(x, axis=1)",
        "xp.cumulative_sum(x[0], include_initial=True)", "xp.cumulative_prod(x, axis=0, include_initial=True)",
    ],
)  # fmt: skip
def test_taking(agree: Any, numbers: Any, expression: str):
    if "cumulative" in expression and not hasattr(np, "cumulative_sum"):
        pytest.skip("numpy.cumulative_sum is new in NumPy 2.1")
    # lanes add in another order
    agree(written(expression, "x"), numbers((3, 4)), rtol=1e-15 if "cumulative" in expression else 0.0)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("extent", [0, 1, 2, 5, 8, 33])
def test_searches(agree: Any, extent: int, side: Any):
    rng = np.random.default_rng(extent)
    line = np.sort(rng.integers(0, 12, extent)).astype(float)
    values = np.array([*rng.integers(-2, 15, 7), np.nan, np.inf, -np.inf, 3.5])
    agree(
        lambda xp, a, v: (
            xp.searchsorted(a, v, side),
            xp.searchsorted(a, 4.0, side),
            xp.searchsorted(a, v.reshape(11, 1), side),
        ),
        line,
        values,
    )


def test_searches_among_nan_and_integers(agree: Any):
    agree(
        lambda xp, a, v: (xp.searchsorted(a, v), xp.searchsorted(a, v, "right")),
        np.array([1.0, 2.0, np.nan, np.nan]),
        np.array([np.nan, 5.0, 1.0]),
    )
    agree(
        lambda xp, a, v: (xp.searchsorted(a, v), a.searchsorted(v)),
        np.array([1, 3, 3, 9], np.int16),
        np.array([3, 0, 10], np.int32),
        symbolic=False,
    )
    agree(
        lambda xp, x: (xp.digitize(x, [0.0, 1.0, 2.5]), xp.digitize(x, [0.0, 1.0, 2.5], right=True)),
        np.array([-1.0, 0.0, 1.0, 2.0, 9.0]),
    )


def test_falling_bins():
    x, bins = np.array([-1.0, 0.0, 1.0, 2.0, 9.0]), np.array([2.5, 1.0, 0.0])
    for right in (False, True):
        np.testing.assert_array_equal(tj.numpy.digitize(x, bins, right), np.digitize(x, bins, right))


@pytest.mark.parametrize("options", [{}, {"left": -5.0}, {"left": 0, "right": 100}])
@pytest.mark.parametrize("extent", [1, 2, 7])
def test_interpolation(agree: Any, extent: int, options: Any):
    rng = np.random.default_rng(extent)
    nodes, values = np.sort(rng.standard_normal(extent)), rng.standard_normal(extent)
    x = np.array([*rng.standard_normal(9) * 2, nodes[0], nodes[-1], np.nan, np.inf])
    agree(lambda xp, x, a, b: (xp.interp(x, a, b, **options), xp.interp(x[0], a, b)), x, nodes, values, rtol=1e-13)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("np.take(x, [0], axis=3)", "out of bounds"), ("np.take(x, [0], mode='no')", "mode is"),
        ("np.searchsorted(x, 1.0)", "is a vector"), ("np.searchsorted(x[0], 1.0, 'up')", "'left' or 'right'"),
        ("np.interp(1.0, x[0], x[0, :2])", "not two vectors"),
        ("np.take_along_axis(x, np.array([1]), 0)", "rank 2 and 1"),
        ("np.interp(1.0, x[0, :0], x[0, :0])", "at least one point"),
    ],
)  # fmt: skip
def test_errors_name_the_fault(expression: str, message: str):
    f = eval(f"lambda np, x: {expression}")
    with pytest.raises(ShapeError, match=message):
        tj.jit(lambda x: f(np, x))(np.zeros((3, 4)))


# -- what was found by comparing with recorded answers
# -----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["hypot", "copysign", "arctan2", "heaviside", "logaddexp", "logaddexp2"])
@pytest.mark.parametrize(
    "dtypes",
    [("i1", "u1"), ("i2", "u2"), ("i1", "u2"), ("?", "i1"), ("f2", "i2"), ("f4", "i4"), ("i4", "u4"), ("u2", "?")],
)
def test_floating_point_functions_of_mixed_integers(agree: Any, numbers: Any, name: str, dtypes: Any):
    """NumPy takes the first floating-point dtype that holds both operands,
    not the one that holds their common integer."""
    x, y = (np.abs(numbers(5, d, seed)) if d != "?" else numbers(5, d, seed) for seed, d in enumerate(dtypes))
    agree(lambda xp, x, y: getattr(xp, name)(x, y), x, y, rtol=2e-3, symbolic=False)


@pytest.mark.parametrize("name", ["hypot", "arctan2"])
@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "?", "f4"])
@pytest.mark.parametrize("number", [3, 1.5])
def test_floating_point_functions_of_numbers(agree: Any, numbers: Any, name: str, dtype: Any, number: Any):
    agree(
        lambda xp, x: (getattr(xp, name)(x, number), getattr(xp, name)(number, x)),
        numbers(5, dtype),
        rtol=2e-3,
        symbolic=False,
    )


CUBE = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "expression",
    [
        "xp.average(x, 0, np.array([1, 2]))", "xp.average(x.astype(np.float32), 0, np.array([1, 2]))",
        "xp.average(x, (0, 2), w[:, 0])", "xp.average(x, (2, 0), w[:, 0].T, returned=True)",
        "xp.average(x, (2, 1, 0), w.T)", "xp.average(x, None, w)", "xp.average(x, 1, w)",
        "xp.average(x, (0, 1), w[:, :, 0], keepdims=True)", "xp.average(x, -1, returned=True)",
        "xp.average(x, (0, 2), returned=True)",
        "xp.average(x.astype(np.int32), -1, np.arange(4, dtype=np.int8), returned=True)", "xp.average(x > 3, 1)",
    ],
)  # fmt: skip
def test_average(agree: Any, expression: str):
    agree(written(expression, "x", "w"), CUBE, np.cos(CUBE) + 2, rtol=1e-6)


def test_weights_that_do_not_fit():
    x = CUBE
    for call, message in (
        (
            lambda: tj.numpy.average(x, 1, np.ones(2)),
            "np.average: weights of shape (2,) do not fit axes (1,) of shape (2, 3, 4)",
        ),
        (
            lambda: tj.numpy.average(x, (0, 1), np.ones((3, 2))),
            "np.average: weights of shape (3, 2) do not fit axes (0, 1) of shape (2, 3, 4)",
        ),
        (
            lambda: tj.numpy.average(x, None, np.ones(4)),
            "np.average: weights of shape (4,) for an array of shape (2, 3, 4) need an axis",
        ),
    ):
        with pytest.raises(ShapeError) as error:
            call()
        assert error.value.message == message


@pytest.mark.filterwarnings("ignore")
def test_extrema_without_nan_from_an_initial_value(agree: Any):
    agree(
        lambda xp, x: (
            xp.nanmax(x, axis=1, initial=1.0), xp.nanmin(x, axis=1, initial=1.0),
            xp.nanmax(x, axis=1, initial=-3.0, where=np.array([True, False, True, False])),
        ),
        HOLES,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float32])
def test_unwrap_keeps_the_dtype(agree: Any, dtype: Any):
    agree(lambda xp, x: xp.unwrap(x, period=7), np.array([0, 3, 12, 3, 25]).astype(dtype), rtol=1e-6)
    agree(lambda xp, x: xp.unwrap(x, axis=0), np.zeros((0, 4), dtype))


@pytest.mark.filterwarnings("ignore")
def test_round_to_places_beyond_the_dtype(agree: Any):
    agree(lambda xp, x: (xp.round(x, 400), xp.round(x, -400), xp.round(x, 3)), np.array([1.5, -2.25]), rtol=1e-15)
    agree(lambda xp, x: (xp.round(x, 400), xp.round(x, -400), xp.round(x, -1)), np.array([15, -25]))


def test_polynomials_whose_coefficients_are_arrays(agree: Any):
    agree(lambda xp, p, x: xp.polyval(p, x), CUBE[0], CUBE[1, 0])


def test_places_of_nonzero_elements_of_arrays():
    x = tj.numpy.asarray([[0, 3], [4, 0]])
    for got, want in zip(tj.numpy.where(x), np.where(np.asarray(x)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_scipy_s_error_function():
    """SciPy's ufuncs reach a traced array by NumPy's protocol; nothing of tracejit imports SciPy."""
    special = pytest.importorskip("scipy.special")
    f = tj.jit(lambda x: special.erf(x) * 2)
    for dtype in (np.float32, np.float64, np.int32):
        x = np.linspace(-3, 3, 50).astype(dtype)
        assert f(x).dtype == (special.erf(x) * 2).dtype
        np.testing.assert_allclose(f(x), special.erf(x) * 2, rtol=1e-6 if dtype == np.float32 else 1e-15)
    np.testing.assert_allclose(tj.grad(lambda x: special.erf(x))(0.5), 2 / np.sqrt(np.pi) * np.exp(-0.25), rtol=1e-14)


def test_running_truth(agree: Any):
    agree(
        lambda xp, x: (
            xp.cumsum(x, dtype=bool),
            xp.cumprod(x, dtype=bool),
            xp.sum(x, dtype=bool),
            xp.prod(x, dtype=bool),
        ),
        np.array([0, 3, 256, 0, 1]),
    )


def test_folds_of_numbers_take_axis_0_and_minus_1(agree: Any):
    names = (
        "sum",
        "prod",
        "max",
        "min",
        "all",
        "any",
        "argmax",
        "argmin",
        "cumsum",
        "cumprod",
        "count_nonzero",
        "ptp",
        "nansum",
        "nanmax",
    )
    for axis in (0, -1):
        agree(
            lambda xp, x, axis=axis: tuple([getattr(xp, n)(x, axis=axis) for n in names]),
            np.array(3.0),
            protocols=False,
        )


def test_initial_takes_the_dtype_of_the_result(agree: Any):
    agree(lambda xp, x: (xp.max(x, initial=3), xp.min(x, initial=0), xp.sum(x, initial=2.5)), np.array([True, False]))
    agree(
        lambda xp, x: (xp.max(x, initial=2.5), xp.sum(x, initial=2.5), xp.prod(x, axis=0, initial=1.5)),
        np.array([1, 2]),
    )
    agree(lambda xp, x: (xp.max(x, initial=-1.5), xp.sum(x, initial=2.1)), np.array([1, 2], np.float16))


def test_booleans_have_no_decimals(agree: Any):
    x = np.array([True, False])
    agree(lambda xp, x: xp.round(x), x)
    for places in (1, -1):
        with pytest.raises(TypeError, match="Cannot cast ufunc"):
            np.round(x, places)
        with pytest.raises(TypeError, match="booleans have no decimals"):
            tj.jit(lambda x, n=places: np.round(x, n))(x)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_powers_by_loops_that_end_elsewhere_for_each_copy(agree: Any, dtype: str):
    """The exponent varies over unrolled rows and not over lanes: the loop of squarings ends elsewhere for each row."""
    x, y = np.array([0, 3, 1, 2, 7, 5, 4], dtype), np.array([[4, 0, 1], [9, 2, 3], [5, 17, 3]], dtype)
    agree(lambda xp, x, y: (np.power.outer(x, y), np.power.outer(y, x), np.power.outer(y, y)), x, y, protocols=False)
    agree(lambda xp, x, y: (xp.power(y[..., None], x), xp.power(x[:, None, None], y)), x, y)


def test_masks_of_what_is_not_nan(agree: Any):
    x, mask = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]]), np.array([[True, True, False], [True, True, True]])
    agree(
        lambda xp, x, m: (
            xp.nanmean(x, axis=1, where=m),
            xp.nanvar(x, where=m),
            xp.nanstd(x, axis=1, where=m, keepdims=True),
        ),
        x,
        mask,
    )


@pytest.mark.parametrize(
    "call", ["argmax(x, axis=(0, 1))", "cumsum(x, axis=(0,))", "argmin(x, axis=())", "maximum.accumulate(x, axis=(0,))"]
)
def test_one_axis_where_one_is_meant(call: str):
    with pytest.raises(TypeError, match="one axis is expected"):
        tj.jit(eval(f"lambda x: np.{call}"))(np.ones((2, 3)))


@pytest.mark.parametrize("x", [np.array(True), np.array(3, "i2"), np.array(2.5, "f4"), np.array([True, False])])
def test_the_imaginary_part_of_an_array_of_rank_0_is_one(x: Any):
    for f in (
        lambda a: np.imag(a) ** 2,
        lambda a: a.imag**2,
        lambda a: a[()].imag ** 2,
        lambda a: np.imag(a) + np.int8(1),
    ):
        want, got = f(x), tj.jit(f)(x)
        assert (got.dtype, got.tolist()) == (want.dtype, want.tolist())


WEIGHTLESS = {
    "all": lambda x: np.average(x, weights=x * 0),
    "a column": lambda x: np.average(x, axis=0, weights=x * (x > 0)),
    "known": lambda x: np.average(x, axis=0, weights=np.zeros(3)),
}


@pytest.mark.parametrize("name", WEIGHTLESS)
def test_weights_that_sum_to_zero_are_an_error(name: str):
    x = np.arange(12.0).reshape(3, 4) % 4
    with pytest.raises(ZeroDivisionError):
        WEIGHTLESS[name](x)
    with pytest.raises(ZeroDivisionError, match="weights sum to zero"):
        tj.jit(WEIGHTLESS[name])(x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [2, 3, 6, 9])
def test_interpolation_beside_special_values(special: float, n: int):
    xp = np.arange(n) * 1.5
    at = np.concatenate([xp, xp + 0.25, [-1.0, np.nan, 99.0]])
    for places in ((0,), (n - 1,), (n // 2,), (0, 1), (n - 2, n - 1)):
        fp = np.arange(1.0, n + 1) ** 2
        fp[list(places)] = special
        np.testing.assert_array_equal(tj.jit(np.interp)(at, xp, fp), np.interp(at, xp, fp))


def test_a_variance_from_a_wider_mean_is_wide():
    x = np.arange(6, dtype=np.float32)
    for mean in (np.full(1, 2.0), np.full(1, 2.0, np.float32), 2.0):
        found, expected = tj.jit(lambda x, m: np.var(x, mean=m))(x, mean), np.var(x, mean=mean)  # pyright: ignore[reportCallIssue]
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def _filled(x: Any) -> None:
    x.fill(np.arange(6.0))


def _rank_0(x: Any) -> None:
    np.array(x[0])[:] = 5


REFUSED_BY_NUMPY = {
    "a list as axis": lambda x: np.sum(x, axis=[0]),
    "a cast": lambda x: np.concatenate([x, x.astype(np.float32)], casting="no"),
    "a narrow sum of products": lambda x: np.einsum("i->", x, dtype=np.float32),
    "fill": _filled,
    "all of rank 0": _rank_0,
    "out of another shape": lambda x: np.round(x, 1, out=np.zeros((2, 6))),
}


@pytest.mark.parametrize("name", REFUSED_BY_NUMPY)
def test_what_numpy_refuses(name: str):
    kinds = (TypeError, ValueError, IndexError)
    for function in (REFUSED_BY_NUMPY[name], tj.jit(REFUSED_BY_NUMPY[name])):
        with pytest.raises(kinds):
            function(np.arange(6.0))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i2"])
@pytest.mark.parametrize("asked", [None, "f4", "f8", "i8"])
def test_equal_quotients_are_float64_unless_asked_otherwise(dtype: str, asked: Any):
    ends = np.array([2, 5], dtype)

    def f(low: Any, high: Any) -> Any:
        return np.geomspace(low, high, 4, dtype=asked)

    found, expected = tj.jit(f)(ends[0], ends[1]), f(ends[0], ends[1])
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["cumsum", "nancumsum", "cumprod"])
@pytest.mark.parametrize("size", [1, 8, 9, 200])
def test_running_folds_of_float16_are_carried_in_float32(name: str, size: int):
    steps = [300, 300, 1 / 512, 1 / 512] if name == "cumprod" else [-60000, 1, 60000, 60000, 1, -60000]
    x = np.resize(np.array(steps, np.float16), size)
    f = getattr(np, name)
    with np.errstate(over="ignore"):
        expected = f(x.astype(np.float32)).astype(np.float16)
    for got in (tj.jit(f)(x), tj.jit(lambda x: f(x, axis=0))(np.stack([x, x], 1))[:, 0]):
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, expected, rtol=2e-3)


@pytest.mark.parametrize("weights", [[1, 2, 3], np.arange(3) + 1, np.array([0.5, 1, 1])])
def test_average_of_no_rows(weights: Any):
    x = np.zeros((0, 3))
    np.testing.assert_array_equal(
        tj.jit(lambda x: np.average(x, axis=1, weights=weights))(x), np.average(x, axis=1, weights=weights)
    )


@pytest.mark.parametrize("function", [np.add, np.multiply, np.subtract])
@pytest.mark.parametrize("number", [1, 300, -1])
@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "i1"])
def test_a_python_integer_with_dtype_of_the_array(dtype: str, number: int, function: Any):
    x = np.arange(3, dtype=dtype)
    try:
        want = function(x, number, dtype=x.dtype)
    except OverflowError:
        with pytest.raises(OverflowError):
            tj.jit(lambda x: function(x, number, dtype=x.dtype))(x)
        return
    got = tj.jit(lambda x: function(x, number, dtype=x.dtype))(x)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


class Quaternion:
    __array_priority__ = 1000

    def __init__(self, v: Any) -> None:
        self.v = v

    def __rmul__(self, other: Any) -> Any:
        return self.v * other

    def __rsub__(self, other: Any) -> Any:
        return self.v - other * 10

    def __rmatmul__(self, other: Any) -> Any:
        return (self.v * other).sum()

    def __gt__(self, other: Any) -> Any:
        return self.v > other


class Dual(np.lib.mixins.NDArrayOperatorsMixin):
    def __init__(self, v: Any) -> None:
        self.v = v

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return Dual(getattr(ufunc, method)(*[x.v if isinstance(x, Dual) else x for x in inputs]))


@pytest.mark.parametrize("function", [
    lambda x: x * Quaternion(x), lambda x: x - Quaternion(x), lambda x: x @ Quaternion(x),
    lambda x: x < Quaternion(x + 1), lambda x: x[0] * Quaternion(x), lambda x: x.sum() - Quaternion(x),
    lambda x: (x * Dual(x)).v, lambda x: np.multiply(x, Dual(x)).v, lambda x: (Dual(x) + x).v,
    lambda x: (x[1] * Dual(x)).v, lambda x: np.sin(Dual(x)).v, lambda x: (2 * Dual(x)).v,
])  # fmt: skip
def test_arrays_give_way_to_classes_that_ask_for_it(function: Any):
    x = np.arange(3.0)
    np.testing.assert_allclose(tj.jit(function)(x), function(x), rtol=1e-15)


class State:
    """Of a Runge-Kutta step, as classes without protocols are written."""

    def __init__(self, d: Any) -> None:
        self.d = d

    def __rmul__(self, k: Any) -> Any:
        return State(self.d * k)

    def __radd__(self, k: Any) -> Any:
        return State(self.d + k)


@pytest.mark.parametrize("function", [
    lambda h, x: (h * State(x)).d, lambda h, x: (h / 2 * State(x)).d, lambda h, x: (x.sum() * State(x)).d,
    lambda h, x: (h + State(x)).d, lambda h, x: x if h == State(x) else x * 2,
    lambda h, x: x if h != State(x) else x * 2, lambda h, x: (x[0] * State(x)).d,
])  # fmt: skip
def test_numbers_leave_operands_to_classes_that_know_them(function: Any):
    x = np.ones(2) * 3
    np.testing.assert_allclose(tj.jit(function)(2.0, x), function(2.0, x), rtol=1e-15)


def test_a_number_and_an_object_that_knows_none():
    for f in (lambda h, x: h + object(), tj.jit(lambda h, x: h + object())):
        with pytest.raises(TypeError, match="unsupported operand type"):
            f(2.0, np.ones(2))


@pytest.mark.parametrize("function", [
    lambda x: np.take(x, range(len(x)), axis=0), lambda x: np.take(x, [0] * len(x), axis=0),
    lambda x: np.take(x, [], axis=1), lambda x: np.repeat(x, [2] * len(x), axis=0),
    lambda x: np.repeat(x, range(len(x)), axis=0), lambda x: x.take((), axis=1),
])  # fmt: skip
def test_lists_of_no_indices(function: Any):
    compiled = tj.jit(function)
    for n in (0, 3, 0, 2):
        x = np.ones((n, 3))
        np.testing.assert_array_equal(compiled(x), function(x))


def test_interp_gives_a_knots_own_value():
    at, knots, values = np.array([0.0, -1.0, 1.0, 0.5]), np.array([-1.0, 0, 1]), np.array([-1.0, -0.0, 1])
    got, want = tj.jit(np.interp)(at, knots, values), np.interp(at, knots, values)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
