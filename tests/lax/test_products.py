"""Products under JAX's names: dtypes that differ or are preferred, batches, and groups of rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError

lax = tj.lax


@pytest.mark.parametrize(
    ("a", "b", "wide"),
    [("u1", "i2", "i2"), ("f2", "u2", "f2"), ("u1", "i1", "i1"), ("i8", "f4", "f4"), ("u4", "i4", "i4")],
)
def test_operands_of_several_dtypes_meet_as_in_jax(a: str, b: str, wide: str):
    x, y = np.array([1, 2, 3], a), np.arange(6).reshape(3, 2).astype(b)
    for f in (lax.dot, tj.jit(lambda x, y: lax.dot(x, y))):
        got = f(x, y)
        assert got.dtype == np.dtype(wide)
        np.testing.assert_array_equal(got, [16, 22])


def test_products_are_summed_in_the_dtype_that_is_preferred():
    x = np.array([100, 100], np.int8)
    assert tj.jit(lambda x: lax.dot(x, x, preferred_element_type=np.int32))(x) == 20000
    with pytest.raises(DtypeError, match="narrower"):
        lax.dot(x.astype(np.int32), x.astype(np.int32), preferred_element_type=np.int8)


def test_dot_takes_dimension_numbers():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(lax.dot(x, y, dimension_numbers=(((1,), (1,)), ((), ()))), x @ y.T)


def test_matrices_are_multiplied_in_batches():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 2, 3)), rng.standard_normal((5, 3, 4))
    np.testing.assert_allclose(tj.jit(lambda x, y: lax.batch_matmul(x, y))(x, y), x @ y)
    for a, b in ((x[0, 0], y[0]), (x, y[0])):
        with pytest.raises(ShapeError):
            lax.batch_matmul(a, b)


def grouped(x: Any, y: Any, sizes: Any) -> Any:
    out, start = np.zeros((x.shape[0], y.shape[2])), 0
    for matrix, n in zip(y, sizes, strict=True):
        out[start : start + n] = x[start : start + n] @ matrix
        start += n
    return out


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
def test_groups_of_rows_have_a_matrix_each(record_backend: Callable[[str], None], backend: str):
    record_backend(backend)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((5, 3)), rng.standard_normal((2, 3, 4))
    f = tj.jit(lambda x, y, n: lax.ragged_dot(x, y, n), backend=backend)
    for sizes in ([2, 3], [5, 0], [0, 0], [1, 2]):
        np.testing.assert_allclose(f(x, y, np.array(sizes)), grouped(x, y, sizes))
    y[1] = np.inf  # of a group without rows
    assert np.isfinite(f(x, y, np.array([5, 0]))).all()


def test_groups_of_rows_have_derivatives():
    rng = np.random.default_rng(2)
    x, y, sizes = rng.standard_normal((5, 3)), rng.standard_normal((2, 3, 4)), np.array([2, 2])
    left, right = tj.jit(tj.grad(lambda x, y, n: lax.ragged_dot(x, y, n).sum(), argnums=(0, 1)))(x, y, sizes)
    np.testing.assert_allclose(left, [*[y[0].sum(1)] * 2, *[y[1].sum(1)] * 2, np.zeros(3)])
    np.testing.assert_allclose(right, [np.stack([x[a:b].sum(0)] * 4, 1) for a, b in ((0, 2), (2, 4))])


def test_products_of_numbers_with_scales_of_blocks():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 8, 4))
    of_x, of_y = rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 4, 4))
    want = (x * np.repeat(of_x, 4, 2)) @ (y * np.repeat(of_y, 2, 1))
    f = tj.jit(lambda x, y, a, b: lax.scaled_dot(x, y, lhs_scale=a, rhs_scale=b))
    np.testing.assert_allclose(f(x, y, of_x, of_y), want)
    np.testing.assert_allclose(lax.scaled_dot(x[0], y[0], rhs_scale=of_y[0]), x[0] @ (y[0] * np.repeat(of_y[0], 2, 0)))
    turned = lax.scaled_dot(
        y, x, lhs_scale=of_y, dimension_numbers=(((1,), (2,)), ((0,), (0,))), preferred_element_type=np.float32
    )
    assert turned.dtype == np.float32
    np.testing.assert_allclose(turned, np.einsum("bkn,bmk->bnm", y * np.repeat(of_y, 2, 1), x), rtol=1e-5, atol=1e-5)
    slopes = tj.grad(lambda a: f(x, y, a, of_y).sum())(of_x)
    each = x * (y * np.repeat(of_y, 2, 1)).sum(2)[:, None]
    np.testing.assert_allclose(slopes, each.reshape(2, 3, 2, 4).sum(3))
    for a in (of_x[0], of_x[:, :2], of_x[:, :, [0, 1, 1]]):
        with pytest.raises(ShapeError, match=r"lhs_scale .* does not fit"):
            lax.scaled_dot(x, y, lhs_scale=a)
    with pytest.raises(ShapeError, match="are no matrices"):
        lax.scaled_dot(x, y[0])


def test_what_is_not_supported_is_refused_by_name():
    x, y = np.ones((2, 3)), np.ones((1, 3, 4))
    with pytest.raises(UnsupportedError, match="group_offset"):
        lax.ragged_dot(x, y, np.array([2]), group_offset=np.array([0]))
    with pytest.raises(UnsupportedError, match="TF32_TF32_F32"):
        lax.dot(x, x.T, lax.DotAlgorithmPreset.TF32_TF32_F32)
    with pytest.raises(DtypeError, match="group_sizes are integers"):
        lax.ragged_dot(x, y, np.array([2.0]))
