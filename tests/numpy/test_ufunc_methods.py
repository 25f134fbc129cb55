"""reduce, accumulate, reduceat, outer and at of ufuncs, against NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError

ARITHMETIC = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum", "fmax",
              "fmin", "hypot", "copysign", "logaddexp")  # fmt: skip
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
LOGIC = ("logical_and", "logical_or", "logical_xor", "less", "equal", "greater_equal")
FLOATS = np.random.default_rng(0).uniform(0.5, 2.0, (3, 4, 5))
INTEGERS = np.random.default_rng(1).integers(0, 4, (3, 4, 5))


def check(got: Any, want: Any, what: str) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}"
    if want.dtype.kind == "f":
        eps = 100 * np.finfo(want.dtype).eps
        np.testing.assert_allclose(got, want, rtol=eps, atol=eps, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


def agree(names: tuple[str, ...], f: Callable[[Any, Any], Any], x: np.ndarray) -> None:
    """f(ufunc, x) of every name: tracejit's function by itself, and NumPy's ufuncs in one compiled function."""
    with np.errstate(all="ignore"):
        want = [f(getattr(np, name), x) for name in names]
    compiled = tj.jit(lambda x: [f(getattr(np, name), x) for name in names])(x)
    for name, got, w in zip(names, compiled, want, strict=True):
        check(got, w, f"{name} compiled")
        check(f(getattr(tj.numpy, name), x), w, name)


def of_kind(kind: str) -> tuple[tuple[str, ...], np.ndarray]:
    return {
        "float": (ARITHMETIC, FLOATS),
        "integer": ((*BITS, *ARITHMETIC, "logical_xor"), INTEGERS.astype(np.int16)),
        "bool": ((*LOGIC, "bitwise_xor", "maximum", "add", "multiply"), INTEGERS > 1),
    }[kind]


KINDS = ["float", "integer", "bool"]
STEPS = np.array([0, 3, 1, 1, 4])


@pytest.mark.parametrize("kind", KINDS)
def test_reduce(kind: str):
    names, x = of_kind(kind)
    x = np.where(x == 0, x.dtype.type(1), x) if kind == "integer" else x
    agree(names, lambda u, x: u.reduce(x, axis=-1), x)
    agree(names, lambda u, x: u.reduce(x[0], 0, keepdims=True), x)


@pytest.mark.parametrize("kind", KINDS)
def test_accumulate(kind: str):
    names, x = of_kind(kind)
    x = np.where(x == 0, x.dtype.type(1), x) if kind == "integer" else x
    agree(names, lambda u, x: u.accumulate(x, 1), x)


@pytest.mark.parametrize("kind", KINDS)
def test_reduceat(kind: str):
    names, x = of_kind(kind)
    x = np.where(x == 0, x.dtype.type(1), x) if kind == "integer" else x
    agree(names, lambda u, x: u.reduceat(x, [0, 3, 1, 1, 4], axis=2), x)


def test_reduceat_of_segments_of_one_length():
    x = np.arange(1.0, 12.0)
    names = ("add", "subtract", "multiply", "maximum", "fmin", "logical_xor")
    for places in ([0, 3, 6, 9], [1, 2, 3], [2, 6, 10], [0, 10], [3, 3, 3], [9, 5, 1]):
        agree(names, lambda u, x, k=places: u.reduceat(x, k), x)
    agree(("add", "multiply"), lambda u, x: u.reduceat(x, [0, 2]), np.arange(5, dtype=np.int8))
    for n in (11, 11, 7, 12):
        check(tj.jit(lambda x: np.add.reduceat(x, [0, 3, 6]))(x[:n]), np.add.reduceat(x[:n], [0, 3, 6]), str(n))


@pytest.mark.parametrize("kind", KINDS)
def test_outer(kind: str):
    names, x = of_kind(kind)
    agree(names, lambda u, x: u.outer(x[0, 0] + 1 if kind == "integer" else x[0, 0], x[1, :2]), x)


@pytest.mark.parametrize("kind", KINDS)
def test_at_counts_repetitions(kind: str):
    names, x = of_kind(kind)
    if kind == "integer":
        names = tuple(n for n in names if n not in ("hypot", "copysign", "logaddexp"))  # in float16
    places, values = (np.array([0, 2, 0, 0]), slice(1, None)), x[:2, 1:3].reshape(4, 1, 5) + (x.dtype.kind == "i")

    def f(u: Any, x: Any) -> Any:
        if u is getattr(np, u.__name__):
            y = x.copy()
            u.at(y, places, values.astype(x.dtype))
            return y
        return u.at(x, places, values.astype(x.dtype), inplace=False)

    agree(names, f, x)


def test_at_of_ufuncs_of_one_operand_and_of_other_indices():
    def f(x: Any, i: Any) -> Any:
        np.negative.at(x, i)
        np.sqrt.at(x, 3)
        np.maximum.at(x, slice(0, 2), 0.5)
        np.multiply.at(x, x > 2.0, 10.0)
        np.add.at(x, [0, 0], [1.0, 2.0])

    x, i = np.array([1.0, 2.0, 4.0, 9.0]), np.array([0, 0, 0, 1])
    want = x.copy()
    f(want, i)
    tj.jit(f)(x, i)
    np.testing.assert_array_equal(x, want)


def test_at_computes_in_the_dtype_of_both_and_converts_each_time():
    i, v = np.array([0, 0, 1]), np.array([1e-9, 1e-9, 0.5])

    def f(x: Any, b: Any, n: Any) -> Any:
        np.divide.at(x, i, v + 1)
        np.add.at(x, i, v)
        np.multiply.at(n, i, [0.5, 0.5, 1.5])
        np.divide.at(n, [1, 1], 2)
        np.add.at(n, i, np.array([-1, 200, 7], np.int16))
        np.add.at(b, i, [-1, 0, 1])
        np.less.at(x, [1], 9.0)
        return x, b, n

    def data() -> list[Any]:
        return [np.ones(2, np.float32), np.array([True, False]), np.array([9, 7], np.int8)]

    for got, want in zip(tj.jit(f)(*data()), f(*data()), strict=True):
        check(got, want, str(want.dtype))


def test_folds_go_in_order_where_numpys_vector_loops_do_not():
    """NumPy 2.4 computes np.arctan2.reduce([3, 2, 5, 7]) as arctan2(3, 7)."""
    x = np.array([3.0, 2.0, 5.0, 7.0])
    for name in ("arctan2", "power"):
        ufunc, want = getattr(np, name), x[0]
        running = [want]
        for y in x[1:] / 4:
            want = ufunc(want, y)
            running.append(want)
        y = np.append(x[:1], x[1:] / 4)
        np.testing.assert_allclose(tj.jit(ufunc.reduce)(y), want, rtol=1e-14)
        np.testing.assert_allclose(tj.jit(lambda y, u=ufunc: u.accumulate(y))(y), running, rtol=1e-14)
        np.testing.assert_allclose(tj.jit(lambda y, u=ufunc: u.reduceat(y, [0]))(y), [want], rtol=1e-14)


def test_reduce_takes_numpys_arguments():
    mask = INTEGERS > 1

    def f(x: Any, m: Any) -> Any:
        return (
            np.bitwise_or.reduce(m, axis=None),
            np.logaddexp.reduce(x, axis=(0, 2), keepdims=True),
            np.subtract.reduce(x, initial=7.0),
            np.subtract.reduce(x, axis=1, initial=1, where=m),
            np.fmax.reduce(x, axis=(0, 1), where=m, initial=0.0),
            np.hypot.reduce(-x, axis=1, where=m),
            np.minimum.reduce(x, where=m, initial=9, axis=None),
            np.divide.reduce(x.astype(np.float32), dtype=np.float64),
            np.bitwise_xor.reduce(x.astype(np.uint8), axis=()),
            np.left_shift.reduce(m, axis=1),
            np.subtract.reduce(x[0, 0, 0]),
        )

    for n, (got, want) in enumerate(zip(tj.jit(f)(FLOATS, mask), f(FLOATS, mask), strict=True)):
        check(got, want, str(n))


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.bool_])
@pytest.mark.parametrize(
    "name",
    [n for n in dir(np) if isinstance(u := getattr(np, n), np.ufunc) and (u.nin, u.nout, u.signature) == (2, 1, None)],
)
def test_what_a_fold_of_no_one_or_two_elements_begins_with(name: str, dtype: Any):
    """NumPy begins some folds with the identity and some with the first element, which negative numbers show."""
    ufunc = getattr(np, name)
    x = np.array([[-3.0], [3.0], [1.0], [-0.0]]).astype(dtype)
    for part, axis in [(x, 1), (x[:1], 0), (x[:2], 0), (x[:0], 0)]:
        try:
            with np.errstate(all="ignore"):
                want = ufunc.reduce(part, axis)
        except (TypeError, ValueError):
            continue
        if name == "ldexp":
            with pytest.raises(NotImplementedError, match="ldexp"):
                tj.jit(lambda y, u=ufunc, d=axis: u.reduce(y, d))(part)
        else:
            check(tj.jit(lambda y, u=ufunc, d=axis: u.reduce(y, d))(part), want, f"{name}, axis {axis} of {part.shape}")


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (2, 0), (1, 1)])
def test_short_axes(shape: tuple[int, ...]):
    x = np.full(shape, 3.0)
    names = ("hypot", "logaddexp", "add", "logical_xor")
    agree(names, lambda u, x: u.reduce(x), x)
    agree(("subtract", "hypot", "fmax", "add"), lambda u, x: u.accumulate(x), x)
    if shape[0]:
        agree(("subtract", "fmin", "copysign"), lambda u, x: u.reduce(x), x)
        agree(("subtract", "add", "maximum"), lambda u, x: u.reduceat(x, [0]), x)
    else:
        for ufunc in (np.subtract, np.fmax):
            with pytest.raises(ValueError, match="zero-size"):
                ufunc.reduce(x)
            with pytest.raises(ShapeError, match="zero-size"):
                tj.jit(lambda x, u=ufunc: u.reduce(x))(x)


def test_one_program_serves_arrays_of_many_sizes():
    def f(x: Any, i: Any) -> Any:
        return (
            np.subtract.reduce(x),
            np.fmin.accumulate(x),
            np.divide.reduceat(x, i),
            np.add.reduceat(x, i, axis=1),
            np.hypot.outer(x[0], x[1]),
        )

    g = tj.jit(f)
    for n in (4, 4, 2, 7, 3):
        x, i = np.random.default_rng(n).uniform(1, 2, (n, n)), np.array([0, n - 1, 1, 1])
        for k, (got, want) in enumerate(zip(g(x, i), f(x, i), strict=True)):
            check(got, want, f"{k} of size {n}")
    for bad in (np.array([0, 3, 1, 1]), np.array([0, -1, 1, 1])):
        with pytest.raises(IndexError):
            g(np.ones((3, 3)), bad)
    with pytest.raises(IndexError):
        tj.jit(lambda x: np.add.reduceat(x, [0, 5]))(np.ones(3))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.subtract.reduce(x, axis=(0, 1)), ShapeError),
        (lambda x: np.less.reduce(x), DtypeError),
        (lambda x: np.bitwise_and.reduce(x), DtypeError),
        (lambda x: np.subtract.reduce(x, axis=3), ShapeError),
        (lambda x: np.fmax.reduce(x, where=x > 0), ShapeError),
        (lambda x: np.subtract.accumulate(x, axis=3), ShapeError),
        (lambda x: np.hypot.accumulate(x[0, 0, 0]), DtypeError),
        (lambda x: np.add.reduceat(x, np.array([0.5])), DtypeError),
        (lambda x: np.add.reduceat(x, [[0]]), ShapeError),
    ],
)
def test_what_numpy_refuses_is_refused(call: Callable[..., Any], error: type[Exception]):
    with pytest.raises((TypeError, ValueError, IndexError)):
        call(FLOATS)
    with pytest.raises(error):
        tj.jit(call)(FLOATS)


def test_the_functions_have_what_ufuncs_have():
    add = tj.numpy.add
    assert (add.nin, add.nout, add.identity) == (2, 1, 0)  # pyright: ignore
    assert tj.numpy.subtract.identity is None  # pyright: ignore
    x = np.arange(3.0)
    assert isinstance(add.reduce(tj.Array(x)), (tj.Array, np.generic))  # pyright: ignore
    np.testing.assert_array_equal(add.at(tj.Array(x), np.array([0, 0]), 1.0, inplace=False), [2, 1, 2])  # pyright: ignore
    np.testing.assert_array_equal(tj.numpy.negative.at(x, [1], inplace=False), [0, -1, 2])  # pyright: ignore
    with pytest.raises(UnsupportedError, match="inplace=False"):
        add.at(tj.Array(x), np.array([0]), 1.0)  # pyright: ignore


def test_derivatives_and_batches():
    def f(x: Any) -> Any:
        return (
            np.sum(np.divide.reduce(x, axis=1))
            + np.sum(np.hypot.accumulate(x, axis=1) ** 2)
            + np.sum(np.multiply.reduceat(x, [0, 2, 1], axis=1) * x[:, :3])
            + np.sum(np.subtract.reduceat(x, np.argsort(x[0, :3]), axis=1) ** 3)
        )

    x = FLOATS[0]
    slope, h = np.asarray(tj.grad(f)(x)), 1e-6
    for k in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[k] = h
        np.testing.assert_allclose(slope[k], (f(x + e) - f(x - e)) / (2 * h), rtol=1e-6, atol=1e-6)
    t = np.cos(x)
    np.testing.assert_allclose(tj.jvp(f, (x,), (t,))[1], np.sum(slope * t), rtol=1e-10)
    each = tj.jit(tj.vmap(lambda x: (np.subtract.reduce(x), np.fmax.accumulate(x, 1), np.power.reduceat(x, [0, 2]))))
    for got, want in zip(
        each(FLOATS),
        (np.subtract.reduce(FLOATS, 1), np.fmax.accumulate(FLOATS, 2), np.power.reduceat(FLOATS, [0, 2], 1)),
        strict=True,
    ):
        check(got, want, "vmap")


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.opencl
def test_other_backends_agree(backend: str, record_backend: Callable[[str], None]):
    record_backend(backend)

    def f(x: Any, i: Any) -> Any:
        np.bitwise_xor.at(x, i, 5)
        return np.bitwise_or.reduce(x), np.subtract.accumulate(x), np.add.reduceat(x, i), x

    x, i = np.array([4, 7, 1, 3]), np.array([0, 2, 0, 1])
    for got, want in zip(tj.jit(f, backend=backend)(x.copy(), i), f(x.copy(), i), strict=True):
        np.testing.assert_array_equal(got, want)


OF_LISTS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: np.logical_and.reduce([x > 1, y < 1.5, x != y]),
    lambda x, y: np.maximum.reduce((x, y, x * y), axis=1),
    lambda x, y: np.add.accumulate([x, y]),
    lambda x, y: np.add.outer([x[0], 2.0], (y[0], 1)),
    lambda x, y: np.add.reduceat([x[0], y[1], 3.0], [0, 1]),
    lambda x, y: np.minimum.reduce([x[0], 1.0, y[1]]),
    lambda x, y: (np.add.reduce([1, 2]), np.add.nin, np.add.__name__, x),
]


@pytest.mark.parametrize("f", OF_LISTS)
def test_of_lists_of_arrays(f: Callable[[Any, Any], Any]) -> None:
    x, y = FLOATS[0, 0], FLOATS[1, 1]
    np.testing.assert_equal(tj.jit(f)(x, y), f(x, y))
