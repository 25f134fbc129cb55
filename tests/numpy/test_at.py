"""x.at[index] for every kind of index and mode, against loops over the places that an index names."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError, UnsupportedError

A = np.array
INDICES: dict[str, Any] = {
    "one array": A([0, 2, 1]),
    "named twice": A([0, 0, -1]),
    "narrow": A([0, 2], np.int32),
    "unsigned": A([0, 2, 2], np.uint8),
    "rank 0": A(1),
    "rank 2": A([[0, 1], [2, 0]]),
    "a list": [2, 0],
    "with an integer": (0, A([1, 2])),
    "second axis": (slice(None), A([0, 2, 2])),
    "pairs": (A([0, 0, 2]), A([1, 3, 1])),
    "apart": (A([0, 1]), slice(None), A([2, 4])),
    "grid": (A([0, 1])[:, None], A([1, 2, 3])[None, :]),
    "with slices": (slice(0, 2), None, slice(None), A([4, 0])),
    "between slices": (slice(None), A([[0, 1], [1, 0]]), slice(1, 4)),
    "backwards": (slice(None), slice(None, None, -2), A([0, -1])),
    "ellipsis": (..., A([0, 3])),
    "mask": (slice(None), A([True, False, False, True])),
    "mask of two axes": A([[True, False, True, False]] * 2 + [[False] * 4]),
    "mask and array": (A([True, False, True]), A([0, 3])),
    "slices": (slice(1, None), slice(None, None, -2)),
    "newaxis": (None, 1, ..., slice(0, 5, 2)),
    "empty": A([], np.int64),
}
COMPILED = ("named twice", "rank 2", "with an integer", "apart", "with slices", "backwards", "slices")
APPLY: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda x, v: v,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "min": np.minimum,
    "max": np.maximum,
}
X = np.random.default_rng(0).integers(1, 6, (3, 4, 5)).astype(np.float64)


def listed(index: Any) -> Any:
    return np.array(index) if isinstance(index, list) else index


def expected(x: np.ndarray, index: Any, f: Callable[[Any, Any], Any], values: Any) -> np.ndarray:
    places = np.arange(x.size).reshape(x.shape)[index]
    out = x.copy().ravel()
    for place, v in zip(places.ravel(), np.broadcast_to(values, places.shape).ravel(), strict=True):
        out[place] = f(out[place], v)
    return out.reshape(x.shape)


@pytest.mark.parametrize("name", INDICES)
def test_every_operation_counts_an_element_as_often_as_it_is_named(name: str):
    index = INDICES[name]
    shape = X[listed(index)].shape
    values = np.random.default_rng(1).integers(1, 4, shape).astype(np.float64)

    def f(x: Any, v: Any) -> Any:
        at = x.at[index]
        return [*[getattr(at, op)(v) for op in APPLY], at.apply(lambda y: 2 * y + 1), at.get()]

    want = [expected(X, listed(index), APPLY[op], values) for op in APPLY]
    want += [expected(X, listed(index), lambda x, _: 2 * x + 1, 0), X[listed(index)]]
    # Within jit a mask from outside is one that the program knows.
    for run in (lambda x, v: f(tj.Array(x), v), *([tj.jit(f)] if name in COMPILED else [])):
        for op, got, w in zip([*APPLY, "apply", "get"], run(X, values), want, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-13, err_msg=op)
    for op in APPLY:
        got = getattr(tj.Array(X).at[index], op)(2.0)
        np.testing.assert_allclose(got, expected(X, listed(index), APPLY[op], 2.0), rtol=1e-13, err_msg=op)


def test_indices_that_are_arguments():
    def f(x: Any, i: Any, j: Any, v: Any) -> Any:
        at = x.at[i, :, j]
        return [getattr(at, op)(v) for op in APPLY if op != "set"] + [at.apply(np.sqrt)]

    i, j = A([0, 2, 0, 2]), A([1, -1, 1, 4])
    v = np.arange(1.0, 17.0).reshape(4, 4) / 4
    ops = [op for op in APPLY if op != "set"]
    want = [expected(X, (i, slice(None), j), APPLY[op], v) for op in ops]
    want.append(expected(X, (i, slice(None), j), lambda x, _: np.sqrt(x), 0))
    for got, w in zip(tj.jit(f)(X, i, j, v), want, strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-12)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.opencl
def test_other_backends_agree(backend: str, record_backend: Callable[[str], None]):
    record_backend(backend)

    def f(x: Any, i: Any, v: Any) -> Any:
        at = x.at[i]
        return at.multiply(v), at.max(v), at.power(v), at.apply(lambda y: y + 1), at.get(mode="fill", fill_value=7)

    x, i, v = X[:, 0, 0].astype(np.int64), A([0, 2, 0, 5]), A([2, 3, 4, 5])
    for got, want in zip(tj.jit(f, backend=backend)(x, i, v), tj.jit(f)(x, i, v), strict=True):
        np.testing.assert_array_equal(got, want)


# -- modes -------------------------------------------------------------------------------------------------------------
LINE, OUTSIDE = np.arange(5.0), A([7, -1, -9, 2])


@pytest.mark.parametrize("known", [True, False])
def test_modes_say_what_becomes_of_indices_out_of_range(known: bool):
    def f(x: Any, i: Any) -> Any:
        k = OUTSIDE if known else i
        return (
            x.at[k].get(mode="clip"),
            x.at[k].get(mode="fill"),
            x.at[k].get(mode="fill", fill_value=-5),
            x.at[k].get(mode="promise_in_bounds"),
            x.at[k].get(mode="fill", wrap_negative_indices=False),
            x.at[k].set(9, mode="clip"),
            x.at[k].set(9, mode="drop"),
            x.at[k].add(1, mode=tj.lax.GatherScatterMode.FILL_OR_DROP),
            x.at[k].multiply(2, mode="drop", wrap_negative_indices=False),
            x.at[k].divide(2, mode="drop"),
            x.at[k].apply(np.negative, mode="clip"),
            x.at[7].set(1, mode="drop"),
            x.at[-7].get(mode="fill"),
            x.at[-1].set(3, wrap_negative_indices=False),
        )

    nan = np.nan
    want = [
        [4, 4, 0, 2], [nan, 4, nan, 2], [-5, 4, -5, 2], [4, 4, 0, 2], [nan, nan, nan, 2],
        [9, 1, 9, 3, 9], [0, 1, 9, 3, 9], [0, 1, 3, 3, 5], [0, 1, 4, 3, 4], [0, 1, 1, 3, 2], [0, 1, -2, 3, 4],
        LINE, nan, LINE,
    ]  # fmt: skip
    for run in (lambda x, i: f(tj.Array(x), i), tj.jit(f)):
        for n, (got, w) in enumerate(zip(run(LINE, OUTSIDE), want, strict=True)):
            np.testing.assert_array_equal(got, w, err_msg=str(n))


@pytest.mark.parametrize(("dtype", "fill"), [("i2", -(2**15)), ("u4", 2**32 - 1), ("?", True), ("f4", np.nan)])
def test_the_fill_value_follows_the_dtype(dtype: str, fill: Any):
    x = np.zeros(3, dtype)
    got = tj.jit(lambda x, i: x.at[i].get(mode="fill"))(x, A([0, 5]))
    np.testing.assert_array_equal(got, A([0, fill], dtype))
    assert got.dtype == x.dtype


def test_mixed_indices_obey_a_mode():
    x = np.arange(24.0).reshape(2, 3, 4)

    def f(x: Any, i: Any) -> Any:
        return (
            x.at[i, 1:].get(mode="fill", fill_value=-1.0),
            x.at[:, i, 9].get(mode="clip"),
            x.at[i, ..., A([0, 3])].add(100, mode="drop"),
            x.at[1, i].set(0, mode="drop"),
        )

    got = tj.jit(f)(x, A([1, 5]))
    np.testing.assert_array_equal(got[0], np.stack([x[1, 1:], np.full((2, 4), -1.0)]))
    np.testing.assert_array_equal(got[1], x[:, [1, 2], 3])
    want = x.copy()
    want[1, :, 0] += 100
    np.testing.assert_array_equal(got[2], want)
    want = x.copy()
    want[1, 1] = 0
    np.testing.assert_array_equal(got[3], want)


def test_without_a_mode_known_indices_out_of_range_are_an_error():
    for call in (lambda x: x.at[A([0, 5])].multiply(2), lambda x: x.at[5].set(0), lambda x: x.at[[0, 9]].get()):
        with pytest.raises(IndexError):
            call(tj.Array(LINE))
    with pytest.raises(ShapeError, match="not 'wrap'"):
        tj.Array(LINE).at[0].set(1, mode="wrap")
    with pytest.raises(UnsupportedError, match="takes one number"):
        tj.jit(lambda x, v: x.at[x > 2].multiply(v))(LINE, A([1.0, 2.0]))


def test_a_mask_of_the_program_beside_slices_and_numbers():
    def f(x: Any, m: Any) -> Any:
        return (
            x.at[1, :, m].multiply(3),
            x.at[:, m[:4]].max(4.0),
            x.at[..., m].apply(np.square),
            x.at[m[:3], 1:3].add(1),
        )

    m = A([True, False, True, True, False])
    want = [X.copy() for _ in range(4)]
    want[0][1][:, m] *= 3
    want[1][:, m[:4]] = np.maximum(want[1][:, m[:4]], 4)
    want[2][..., m] **= 2
    want[3][m[:3], 1:3] += 1
    for n, (got, w) in enumerate(zip(tj.jit(f)(X, m), want, strict=True)):
        np.testing.assert_array_equal(got, w, err_msg=str(n))


def test_a_mask_of_the_program_takes_one_value():
    f = tj.jit(lambda x: (x.at[x > 2].multiply(10), x.at[x > 2].power(2.0), x.at[x > 2].apply(lambda y: -y)))
    for got, want in zip(f(LINE), ([0, 1, 2, 30, 40], [0, 1, 2, 9, 16], [0, 1, 2, -3, -4]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_one_program_serves_arrays_of_many_sizes():
    def f(x: Any, i: Any, v: Any) -> Any:
        return (
            x.at[i].multiply(v),
            x.at[i].get(mode="fill"),
            x.at[i].max(v, mode="clip"),
            x.at[i].apply(lambda y: y * 3),
        )

    g = tj.jit(f)
    for n, m in ((5, 4), (2, 2), (7, 3), (1, 1), (3, 0), (9, 20)):
        rng = np.random.default_rng(n)
        x, i, v = rng.standard_normal(n), rng.integers(0, n, m), rng.standard_normal(m)
        got = g(x, i, v)
        np.testing.assert_allclose(got[0], expected(x, i, np.multiply, v), rtol=1e-13)
        np.testing.assert_array_equal(got[1], x[i])
        np.testing.assert_array_equal(got[2], expected(x, i, np.maximum, v))
        np.testing.assert_allclose(got[3], expected(x, i, lambda y, _: 3 * y, 0), rtol=1e-13)


# -- derivatives and batches -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("op", ["add", "multiply", "divide", "power", "min", "max", "set", "apply"])
@pytest.mark.parametrize("known", [True, False])
def test_derivatives(op: str, known: bool):
    places = A([0, 3, 3, 1])

    def f(x: Any, v: Any, i: Any) -> Any:
        k = places if known else i
        if op == "apply":
            return x.at[k].apply(lambda y: y * y) * np.sum(v)
        return getattr(x.at[k], op)(v)

    rng = np.random.default_rng(2)
    x, v = rng.uniform(0.5, 2.0, 5), rng.uniform(0.5, 2.0, 4)
    t = (rng.standard_normal(5), rng.standard_normal(4))
    _, got = tj.jit(lambda x, v, i: tj.jvp(lambda x, v: f(x, v, i), (x, v), t))(x, v, places)

    def plain(x: Any, v: Any) -> Any:
        if op == "apply":
            return expected(x, places, lambda y, _: y * y, 0) * v.sum()
        return expected(x, places, APPLY[op], v)

    h = 1e-6
    want = (plain(x + h * t[0], v + h * t[1]) - plain(x - h * t[0], v - h * t[1])) / (2 * h)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    w = rng.standard_normal(5)
    back = tj.grad(lambda x, v: (f(x, v, places) * w).sum(), argnums=(0, 1))(x, v)
    np.testing.assert_allclose(back[0] @ t[0] + back[1] @ t[1], w @ np.asarray(got), rtol=1e-10)


def test_batches_over_arrays_indices_and_values():
    rng = np.random.default_rng(3)
    x, i, v = rng.standard_normal((3, 5)), rng.integers(-5, 5, (3, 4)), rng.standard_normal((3, 4))

    def f(x: Any, i: Any, v: Any) -> Any:
        return x.at[i].multiply(v), x.at[i].min(v), x.at[i].apply(lambda y: y * 2), x.at[i].get(mode="fill")

    for axes in ((0, 0, 0), (0, None, None), (None, 0, 0)):
        args = [a if d == 0 else a[0] for a, d in zip((x, i, v), axes, strict=True)]
        got = tj.vmap(f, in_axes=axes)(*args)
        for k in range(3):
            xs, ks, vs = [a[k] if d == 0 else a for a, d in zip(args, axes, strict=True)]
            np.testing.assert_allclose(got[0][k], expected(xs, ks, np.multiply, vs), rtol=1e-13)
            np.testing.assert_array_equal(got[1][k], expected(xs, ks, np.minimum, vs))
            np.testing.assert_allclose(got[2][k], expected(xs, ks, lambda y, _: 2 * y, 0), rtol=1e-13)
            np.testing.assert_array_equal(got[3][k], xs[ks])


def test_in_loops_and_branches():
    @tj.jit
    def f(x: Any, i: Any) -> Any:
        for k in range(40):
            if x[0] < 100:
                x = x.at[i + k % 2].multiply(1.5)
        return x

    want, i = np.ones(4), A([0, 1, 1])
    for k in range(40):
        if want[0] < 100:
            want = expected(want, i + k % 2, np.multiply, 1.5)
    np.testing.assert_allclose(f(np.ones(4), i), want)
