"""Arrays put together, repeated and taken apart, against NumPy."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, TracerError


def written(expression: str, *names: str) -> Any:
    return eval(f"lambda xp, {', '.join(names)}: {expression}", {})


EXPRESSIONS = [
    "xp.concatenate([x, y])", "xp.concatenate((x, y, x), axis=-2)", "xp.concatenate([x, x], 1)",
    "xp.concatenate([x, y], axis=None)", "xp.concatenate(x)", "xp.concat([x, y])", "xp.stack([x, x])",
    "xp.stack([x, x], axis=-1)", "xp.stack((x, x), 1)", "xp.stack(x)", "xp.vstack([x, y])", "xp.vstack([x, x[0]])",
    "xp.hstack([x, x])", "xp.hstack([x[0], y[0]])", "xp.dstack([x, x])", "xp.dstack([x[0], x[0]])",
    "xp.column_stack([x[:, 0], x])", "xp.append(x, y)", "xp.append(x, y, axis=0)", "xp.append(x, 3.0)",
    "xp.block([[x, x], [y, y]])", "xp.block([x, x])", "xp.block(x)", "xp.tile(x, 2)", "xp.tile(x, (2, 1))",
    "xp.tile(x, (2, 3, 1))", "xp.tile(x, 1)", "xp.tile(x[0], (2, 2))", "xp.repeat(x, 2)", "xp.repeat(x, 3, axis=0)",
    "x.repeat(2, axis=1)", "xp.repeat(x, [1, 0, 2], axis=0)", "xp.repeat(x, [2], axis=1)", "xp.repeat(x, 0, axis=1)",
    "xp.resize(x, (2, 7))", "xp.resize(x, (2, 2))", "xp.roll(x, 1)", "xp.roll(x, -2, axis=0)", "xp.roll(x, 1, axis=1)",
    "xp.roll(x, 7, axis=1)", "xp.roll(x, (1, 2), axis=(0, 1))", "xp.roll(x, (1, 1), axis=(0, 0))",
    "xp.roll(x, 1, axis=(0, 1))", "xp.roll(x, 3, axis=0)", "xp.roll(x, 0)", "xp.split(x, 2, axis=1)",
    "xp.split(x, [1, 2])", "xp.split(x, [0, 5, 2])", "xp.split(x, [-1])", "xp.array_split(x, 2)",
    "xp.array_split(x, 5, axis=1)", "xp.array_split(x, 5)", "xp.hsplit(x, 2)", "xp.vsplit(x, 3)",
    "xp.dsplit(x[None], 2)", "xp.hsplit(x[0], [1, 3])", "xp.unstack(x)", "xp.unstack(x, axis=1)",
    "xp.delete(x, 1, axis=0)", "xp.delete(x, [0, -1], axis=1)", "xp.delete(x, slice(0, 2), axis=1)", "xp.delete(x, 3)",
    "xp.delete(x, [], axis=0)", "xp.insert(x, 1, 5.0, axis=0)", "xp.insert(x, -1, x[:, 0], axis=1)",
    "xp.insert(x, 4, x[0, 0], axis=1)", "xp.insert(x, 2, 9.0)", "xp.insert(x, [1], x, axis=0)",
    "xp.insert(x, 0, x[1], axis=0)",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_joining_and_splitting(agree: Any, numbers: Any, expression: str):
    if "unstack" in expression and not hasattr(np, "unstack"):
        pytest.skip("numpy.unstack is new in NumPy 2.1")
    agree(written(expression, "x", "y"), numbers((3, 4)), numbers((2, 4), seed=1))


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_joining_and_splitting_other_dtypes(agree_together: Any, numbers: Any, dtype: Any):
    functions = [written(e, "x", "y") for e in EXPRESSIONS if "unstack" not in e]
    agree_together(functions, numbers((3, 4), dtype), numbers((2, 4), dtype, seed=1))


@pytest.mark.parametrize(
    "expression",
    [
        "xp.concatenate([x, y])", "xp.stack([x, x], 1)", "xp.vstack([x, y])", "xp.hstack([x, x])", "xp.append(x, y, 0)",
        "xp.tile(x, (2, 2))", "xp.repeat(x, 2, axis=1)", "xp.roll(x, 1, axis=0)", "xp.roll(x, -1, axis=1)",
        "xp.roll(x, 1)", "xp.roll(x, 2, 0)", "xp.roll(x, 5, axis=1)", "xp.delete(x[:, :3], 1, axis=1)",
        "xp.block([[x, x], [y, y]])", "xp.column_stack([x[:, 0], x])", "xp.split(x, [1])",
        "xp.concatenate([x[1:], x[:1] * 2], axis=0)",
    ],
)  # fmt: skip
def test_joining_needs_no_extents(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x", "y"), numbers((6, 4)), numbers((5, 4), seed=1), symbolic=True)


@pytest.mark.parametrize(
    "dtypes",
    [
        (np.int8, np.float32), (np.uint8, np.int8), (np.bool_, np.int64), (np.float16, np.float32),
        (np.int64, np.float32),
    ],
)  # fmt: skip
def test_joined_dtypes_are_promoted(agree: Any, numbers: Any, dtypes: Any):
    x, y = numbers((2, 3), dtypes[0]), numbers((2, 3), dtypes[1], seed=1)
    agree(
        lambda xp, x, y: (xp.concatenate([x, y]), xp.stack([x, y]), xp.append(x, y), xp.hstack([x, 1 * y])),
        x,
        y,
        symbolic=False,
    )


def test_a_dtype_can_be_asked_for(agree: Any, numbers: Any):
    agree(
        lambda xp, x: (
            xp.concatenate([x, x], dtype=np.float32),
            xp.stack([x, x], dtype=np.float64),
            xp.hstack([x, x], dtype=np.int32, casting="unsafe"),
        ),
        numbers(3, np.int16),
    )


def test_a_dtype_that_loses_is_refused():
    with pytest.raises(DtypeError, match="cannot be cast to int32"):
        tj.jit(lambda x: np.concatenate([x, x], dtype=np.int32))(np.zeros(2))


@pytest.mark.parametrize(
    "expression",
    [
        "xp.concatenate([x, x[:0]])", "xp.concatenate([x[:0], x[:0]])", "xp.stack([x[:0], x[:0]])", "xp.tile(x[:0], 3)",
        "xp.repeat(x[:0], 2)", "xp.roll(x[:0], 1)", "xp.array_split(x, 4)", "xp.tile(x, 0)", "xp.hstack([x[:0], x])",
    ],
)  # fmt: skip
def test_empty_parts(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x"), numbers(3))


def test_numbers_are_joined(agree: Any):
    agree(
        lambda xp, x: (
            xp.stack([x, x * 2, 3.0]),
            xp.hstack([x, 1.0]),
            xp.vstack([x, x]),
            xp.tile(x, 3),
            xp.repeat(x, 2),
            xp.append(x, x),
        ),
        np.array(2.5),
    )


def test_parts_of_a_split_are_views():
    def f(x: Any) -> Any:
        a, b = np.split(x, 2)
        a[:] = b
        return x + 0

    np.testing.assert_array_equal(tj.jit(f)(np.arange(4.0)), [2, 3, 2, 3])


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("np.concatenate([x, x[:, :2]])", r"differ in axis 1: shape \(2, 3\) of array 0 and \(2, 2\) of array 1"),
        ("np.concatenate([x, x[0]])", "differ in rank"), ("np.concatenate([x, x], 2)", "axis 2 is out of bounds"),
        ("np.concatenate([x[0, 0], x[0, 0]])", "rank 0"), ("np.stack([x, x[0]])", "differ in shape"),
        ("np.stack([x, x], 4)", "axis 4 is out of bounds"),
        ("np.split(x, 2, axis=1)", "cannot be split into 2 equal parts"), ("np.array_split(x, 0)", "must be positive"),
        ("np.repeat(x, [1, 2, 3], axis=0)", "3 counts for an axis of extent 2"), ("np.repeat(x, -1)", "negative"),
        ("np.tile(x, -1)", "cannot repeat"), ("np.vsplit(x[0], 1)", "at least 2 axes"),
        ("np.roll(x, 1, axis=2)", "axis 2 is out of bounds"), ("np.delete(x, 9, axis=0)", "out of bounds"),
        ("np.insert(x, 9, 0, axis=0)", "out of bounds"), ("np.block([[x], x])", "different depths"),
    ],
)  # fmt: skip
def test_errors_name_the_fault_and_the_line(expression: str, message: str):
    f = eval(compile(f"lambda np, x: {expression}", "user_program.py", "eval"))
    kind = IndexError if ", 9, " in expression else ShapeError
    with pytest.raises(kind, match=message) as caught:
        tj.jit(lambda x: f(np, x))(np.zeros((2, 3)))
    assert "user_program.py" in str(caught.value)
    with pytest.raises(kind, match=message):
        f(tj.numpy, np.zeros((2, 3)))


ROLLED: list[Callable[[Any, Any], Any]] = [
    lambda x, s: np.roll(x, s[0]),
    lambda x, s: np.roll(x, s[:1]),
    lambda x, s: np.roll(x, s[0], axis=1),
    lambda x, s: np.roll(x, s[0], axis=(0, 1)),
    lambda x, s: np.roll(x, (s[0], s[1]), axis=(0, 1)),
    lambda x, s: np.roll(x, s, axis=(1, 0)),
    lambda x, s: np.roll(x, (s[0], 1), axis=(0, 0)),
    lambda x, s: sum(np.roll(x, k, axis=0) * 1 for k in s),
]


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint64])
@pytest.mark.parametrize("f", ROLLED)
def test_rolled_by_what_data_say(f: Callable[[Any, Any], Any], dtype: Any):
    compiled = tj.jit(f)
    rng = np.random.default_rng(0)
    for shape in [(3, 4), (1, 1), (2, 2), (5, 1), (1, 5), (0, 3), (7, 2)]:
        x = rng.permutation(shape[0] * shape[1]).reshape(shape)
        shifts = rng.integers(0 if dtype is np.uint64 else -20, 20, 2).astype(dtype)
        np.testing.assert_array_equal(compiled(x, shifts), f(x, shifts.astype(np.int64)))


def test_rolled_in_a_loop_with_derivatives_and_batches():
    def f(x: Any, n: Any) -> Any:
        y, k = x, 0
        while k < n[0]:
            y = np.roll(y, k) + x
            k += 1
        return y

    x, n = np.arange(5.0), np.array([7])
    np.testing.assert_array_equal(tj.jit(f)(x, n), f(x, n))
    slope = tj.grad(lambda x, s: np.sum(np.roll(x, s[0]) * np.arange(5.0)))(x, np.array([2]))
    np.testing.assert_array_equal(slope, np.roll(np.arange(5.0), -2))
    batch, shifts = np.arange(6.0).reshape(2, 3), np.array([1, -1])
    np.testing.assert_array_equal(
        tj.vmap(np.roll)(batch, shifts), [np.roll(b, s) for b, s in zip(batch, shifts, strict=True)]
    )


def test_counts_that_are_not_known_are_refused():
    with pytest.raises(TracerError, match=r"np.repeat's counts must be known"):
        tj.jit(lambda x, n: np.repeat(x, n))(np.zeros(3), np.array([1, 2, 3]))
    with pytest.raises(TracerError, match=r"np.insert's place must be known"):
        tj.jit(lambda x, n: np.insert(x, n, 1.0))(np.zeros(3), np.array([0, 1]))


SUMS_IN_ONE_ARRAY = [
    lambda x: np.array([x.mean(), x.max(), x.min()]),
    lambda x: np.array([(x * x).sum(), (x[1:] * x[:-1]).sum()]),
    lambda x: np.array([(x**2).mean(), (np.diff(x) ** 2).mean()]),
    lambda x: np.array([x[x > 3].sum(), x[1:].sum()]),
    lambda x: np.array([(x[: len(x) - k] * x[k:]).sum() / len(x) for k in range(2)]),
    lambda x: np.array([[x.sum(), x[1:].max()], [x.min(), (x * 2).sum()]]),
    lambda x: np.concatenate([x.sum(keepdims=True), x[1:].max(keepdims=True), x]),
    lambda x: np.stack([x.reshape(50, -1).sum(1), x.reshape(50, -1)[:, 1:].sum(1), x.reshape(50, -1).max(1)], axis=1),
    lambda x: np.stack([x.reshape(50, -1).sum(0), x.reshape(50, -1)[1:].sum(0), x.reshape(50, -1).max(0)]),
    lambda x: np.array([x.argmax(), x.argmin(), x.size]),
]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("number", range(len(SUMS_IN_ONE_ARRAY)))
def test_several_sums_of_long_arrays_in_one_array(number: int, dynamic: Any):
    """One loop over the sums, each of whose iterations does something else:
    it is cut apart, and the loops in it are scheduled."""
    f = SUMS_IN_ONE_ARRAY[number]
    jitted = tj.jit(f, dynamic_shapes=dynamic) if dynamic else tj.jit(f)
    for n in (100, 5000, 100_000, 200):
        x = 5 * np.sin(np.arange(n) * 1.0)
        np.testing.assert_allclose(jitted(x), f(x), rtol=1e-9, atol=1e-9)


_ROWS = [
    "x * 0.9", "x", "A[0]", "np.sin(x)", "np.cumsum(x)", "x[::-1]", "A.sum(0)", "A[1]", "A.T.max(1)",
    "np.full_like(x, x.mean())", "np.roll(x, 1)",
]  # fmt: skip


_PAIRS = ["A", "A * 2", "A[::-1]", "np.sin(A)", "np.cumsum(A, 1)"]


def joined(rng: random.Random, rank: int) -> str:
    """An array of that rank, with two of everything in front of the last axis, joined of others."""
    if rank == 1:
        return f"np.sum({joined(rng, 2)}, 0)" if rng.random() < 0.03 else rng.choice(_ROWS)
    if rank == 2 and rng.random() < 0.4:
        return rng.choice(_PAIRS)
    parts = f"{joined(rng, rank - 1)}, {joined(rng, rank - 1)}"
    if rank > 2 and rng.random() < 0.3:
        return f"np.concatenate([{parts}]).reshape({(2,) * (rank - 1)} + x.shape)"
    return f"np.stack([{parts}])" if rng.random() < 0.7 else f"np.array([{parts}])"


@pytest.mark.parametrize("seed", range(40))
def test_arrays_that_are_joined_of_joined_arrays_have_a_legal_schedule(seed: int):
    rng = random.Random(seed)
    text = joined(rng, 3 + seed % 2)
    f = eval(f"lambda A, x: {rng.choice(['np.tanh', 'np.array', 'np.arctan'])}({text})", {"np": np})
    jitted = tj.jit(f)
    for n in (30_000, 7, 1, 20_001):
        A, x = np.linspace(0.1, 1.5, 2 * n).reshape(2, n), np.linspace(0.3, 1.2, n)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(jitted(A, x), f(A, x), rtol=1e-11, err_msg=text)


@pytest.mark.parametrize("form", ["np.resize([True, False], n)", "np.resize([1, 2], (2, n))", "np.resize(x, n + 3)"])
def test_resize_takes_extents(form: str):
    f = eval(f"lambda x: (lambda n: {form})(x.shape[0])", {"np": np})
    jitted = tj.jit(f)
    for n in (5, 8, 3, 0, 1):
        x = np.arange(float(n))
        np.testing.assert_array_equal(jitted(x), f(x))


@pytest.mark.parametrize("where", [slice(None, None, 2), np.arange(3, 500, 7), np.arange(1000) % 2 == 0])
def test_deleting_many_places_is_no_code_for_each(where):
    x = np.arange(1000.0)
    f = tj.jit(lambda x: np.delete(x, where))
    np.testing.assert_array_equal(f(x), np.delete(x, where))
    assert len(f.lower(x).jaxpr.equations) < 10
    y = np.asfortranarray(np.arange(6000.0).reshape(1000, 6))
    got = tj.jit(lambda y: np.delete(y, where, axis=0).ravel(order="K"))(y)
    np.testing.assert_array_equal(got, np.delete(y, where, axis=0).ravel(order="K"))
