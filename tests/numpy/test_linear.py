"""Products of vectors, matrices and tensors, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError

RTOL = {"f": 1e-5, "d": 1e-12, "e": 2e-2}


def written(expression: str, *names: str) -> Any:
    return eval(f"lambda xp, {', '.join(names)}: {expression}", {"np": np})


SHAPES = [
    ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((6, 1, 3, 4), (1, 5, 4, 2)), ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)), ((1, 3, 4), (1, 4, 2)), ((0, 4), (4, 2)), ((3, 0), (0, 2)), ((2, 0, 3), (3, 1)),
    ((1, 1), (1, 1)), ((7, 1, 2, 3), (3,)), ((2, 3, 1), (1, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("shape_x", "shape_y"), SHAPES)
def test_matrix_products(agree: Any, numbers: Any, shape_x: Any, shape_y: Any):
    agree(lambda xp, x, y: (xp.matmul(x, y), x @ y), numbers(shape_x), numbers(shape_y, seed=1), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.bool_])
@pytest.mark.parametrize(
    ("shape_x", "shape_y"), [((3, 4), (4, 5)), ((6, 1, 3, 4), (1, 5, 4, 2)), ((3, 4), (4,)), ((3, 0), (0, 2))]
)
def test_matrix_products_of_other_dtypes(agree: Any, numbers: Any, dtype: Any, shape_x: Any, shape_y: Any):
    x, y = numbers(shape_x, dtype), numbers(shape_y, dtype, seed=1)
    agree(lambda xp, x, y: x @ y, x, y, rtol=RTOL.get(np.dtype(dtype).char, 0.0), symbolic=False, protocols=False)


PRODUCTS = [
    "xp.dot(x, y)", "x.dot(y)", "xp.dot(x[0], y)", "xp.dot(x, y[:, 0])", "xp.dot(x[0], y[:, 0])", "xp.dot(x, 2.0)",
    "xp.dot(x, xp.stack([y, y]))", "xp.dot(xp.stack([x, x]), xp.stack([y, y]))", "xp.inner(x, y.T)",
    "xp.inner(x[0], x)", "xp.inner(3, x)", "xp.vdot(x, y)", "xp.outer(x, y)", "xp.outer(x[0], 2)",
    "xp.tensordot(x, y, 1)", "xp.tensordot(x, y, 0)", "xp.tensordot(x, y.T, 2)", "xp.tensordot(x, y, axes=(0, 1))",
    "xp.tensordot(x, y, axes=([1, 0], [0, 1]))", "xp.tensordot(x, y, ((-1,), (-2,)))", "xp.kron(x, y)",
    "xp.kron(x, y[0])", "xp.kron(x[0, 0], y)", "xp.trace(x)", "xp.trace(x, 1)", "x.trace(-1)",
    "xp.trace(xp.stack([x, x]), 0, 1, 2)", "xp.diagonal(x)", "xp.diagonal(x, 2)", "xp.diagonal(x, -1)", "x.diagonal(9)",
    "xp.diagonal(xp.stack([x, x]), 0, 2, 1)", "xp.diagonal(xp.stack([x, x]))", "xp.cross(x[:, :3], y[:3, :3])",
    "xp.cross(x[0, :3], y[:3])", "xp.cross(x[:, :3], y[0, :3])", "xp.cross(x.T, y.T, axisa=-1, axisb=0)",
    "xp.cross(y[:3], y[1:], axis=0)", "xp.add.outer(x[0], y)", "xp.subtract.outer(x, y[0])",
    "xp.multiply.outer(x[0], x[1])", "xp.less.outer(x[0], x[1])",
]  # fmt: skip


@pytest.mark.parametrize("expression", PRODUCTS)
def test_products(agree: Any, numbers: Any, expression: str):
    through_ufunc = ".outer(" in expression and not expression.startswith("xp.outer")
    f = (lambda _, x, y: written(expression, "x", "y")(np, x, y)) if through_ufunc else written(expression, "x", "y")
    agree(f, numbers((3, 4)), numbers((4, 3), seed=1), rtol=1e-12)


def test_products_of_integers(agree_together: Any, numbers: Any):
    functions = [written(e, "x", "y") for e in PRODUCTS if ".outer(" not in e or e.startswith("xp.outer")]
    agree_together(functions, numbers((3, 4), np.int64), numbers((4, 3), np.int32, seed=1))


@pytest.mark.parametrize("name", ["vecdot", "matvec", "vecmat"])
def test_products_over_leading_axes(agree: Any, numbers: Any, name: str):
    if not hasattr(np, name):
        pytest.skip(f"numpy.{name} is newer than this NumPy")
    shapes = {"vecdot": ((2, 1, 4), (3, 4)), "matvec": ((2, 1, 3, 4), (5, 4)), "vecmat": ((2, 1, 4), (5, 4, 3))}[name]
    agree(lambda xp, x, y: getattr(xp, name)(x, y), numbers(shapes[0]), numbers(shapes[1], seed=1), rtol=1e-12)


@pytest.mark.parametrize(
    "expression",
    [
        "x @ y", "xp.dot(x, y)", "xp.vdot(x, y)", "xp.outer(x, y)", "xp.tensordot(x, y, 1)", "xp.kron(x, y)",
        "xp.diagonal(x @ y)", "xp.trace(x @ y)", "xp.inner(x, y.T)", "x @ y[:, 0]", "xp.stack([x, x]) @ y",
        "xp.stack([x, x]) @ xp.stack([y, y])",
    ],
)  # fmt: skip
def test_products_need_no_extents(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x", "y"), numbers((5, 3)), numbers((3, 5), seed=1), symbolic=True, rtol=1e-12)


def test_mixed_dtypes_are_promoted(agree: Any, numbers: Any):
    agree(
        lambda xp, x, y: (x @ y, xp.dot(x, y), xp.outer(x, y), xp.tensordot(x, y, 1)),
        numbers((3, 3), np.int16),
        numbers((3, 3), np.float32, seed=1),
        rtol=1e-5,
    )


def test_a_half_precision_product_accumulates_in_single(numbers: Any):
    x, y = numbers((5, 300), np.float16), numbers((300, 4), np.float16, seed=1)
    want = (x.astype(np.float32) @ y.astype(np.float32)).astype(np.float16)
    got = tj.jit(lambda x, y: x @ y)(x, y)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=2e-3, atol=2e-2)


def test_large_products(agree: Any, numbers: Any):
    agree(lambda xp, x, y: x @ y, numbers((67, 130)), numbers((130, 45), seed=1), rtol=1e-11)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("x @ x", r"axis 1 of shape \(3, 4\) is 4, axis 0 of shape \(3, 4\) is 3"), ("np.dot(x, x)", "np.dot: axis 1"),
        ("np.matmul(x, 2.0)", "rank 0"), ("np.inner(x, x[0, :2])", "np.inner"), ("np.vdot(x, x[0])", "differ in size"),
        ("np.tensordot(x, x, 3)", "3 axes"), ("np.tensordot(x, x, ((0,), (1,)))", "np.tensordot"),
        ("np.tensordot(x, x, ((0, 1), (0,)))", "2 axes of the first"), ("np.diagonal(x[0])", "at least 2 axes"),
        ("np.diagonal(x, 0, 1, 1)", "twice"), ("np.cross(x, x)", "2 or 3 elements"),
        ("np.stack([x, x]) @ np.stack([x.T] * 3)", "cannot be broadcast"),
    ],
)  # fmt: skip
def test_errors_name_the_fault_and_the_line(expression: str, message: str):
    f = eval(compile(f"lambda np, x: {expression}", "user_program.py", "eval"))
    with pytest.raises(ShapeError, match=message) as caught:
        tj.jit(lambda x: f(np, x))(np.zeros((3, 4)))
    assert "user_program.py" in str(caught.value)


def test_cross_of_truth_values_is_refused():
    with pytest.raises(DtypeError, match="does not accept bool"):
        tj.numpy.cross(np.zeros(3, bool), np.zeros(3, bool))


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning", "ignore::RuntimeWarning")
def test_cross_products_of_two_elements_have_no_third(n: int, m: int):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-2, 3, (40, n)).astype(float), rng.integers(-2, 3, (40, m)).astype(float)
    a[0, 0], b[1, 1], b[2, -1] = np.inf, np.inf, -np.inf
    got = tj.jit(np.cross)(a, b)
    try:
        want = np.cross(a, b)
    except ValueError:  # NumPy 2.5 takes vectors of three elements only
        wide = [np.concatenate([x, np.zeros((40, 3 - x.shape[1]))], 1) for x in (a, b)]
        want = np.cross(*wide)[:, 2] if n == m else np.cross(*wide)
        np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)])
        return
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
