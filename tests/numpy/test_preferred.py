"""Products in a dtype that is preferred, and other options that JAX has and NumPy has not."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import numpy as tnp
from tracejit.support.errors import DtypeError, OptionError, UnsupportedError

A = np.arange(6, dtype=np.int8).reshape(2, 3) * 20
PRODUCTS = {
    "dot": lambda xp, a, **k: xp.dot(a, a.T, **k), "matmul": lambda xp, a, **k: xp.matmul(a, a.T, **k),
    "inner": lambda xp, a, **k: xp.inner(a, a, **k), "vdot": lambda xp, a, **k: xp.vdot(a, a, **k),
    "vecdot": lambda xp, a, **k: xp.vecdot(a, a, **k), "tensordot": lambda xp, a, **k: xp.tensordot(a, a.T, 1, **k),
    "einsum": lambda xp, a, **k: xp.einsum("ij,kj->ik", a, a, **k),
    "one": lambda xp, a, **k: xp.einsum("ij->i", a, **k),
    "linalg.matmul": lambda xp, a, **k: xp.linalg.matmul(a, a.T, **k),
    "linalg.tensordot": lambda xp, a, **k: xp.linalg.tensordot(a, a.T, axes=1, **k),
    "linalg.vecdot": lambda xp, a, **k: xp.linalg.vecdot(a, a, **k),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_summed_in_the_dtype_that_is_preferred(name: str):
    f: Any = PRODUCTS[name]
    want = f(np, A.astype(np.int32)) if name != "one" else A.astype(np.int32).sum(1, dtype=np.int32)
    options = {"preferred_element_type": np.int32, "precision": tj.lax.Precision.HIGHEST}
    for got in (f(tnp, A, **options), tj.jit(lambda a: f(tnp, a, **options))(A)):
        assert got.dtype == np.int32
        np.testing.assert_array_equal(np.asarray(got), want)
    assert f(tnp, A, precision="high").dtype == np.int8


def test_a_narrow_sum_that_is_preferred_is_taken_in_the_wider_dtype():
    x = np.array([1e3, 1.0], np.float16)
    assert tnp.dot(x, x, preferred_element_type=np.float32) == 1000001.0
    assert tnp.dot(x.astype(np.float32), x, preferred_element_type=np.float16).dtype == np.float16


def test_options_that_make_no_sense_are_rejected():
    x = np.ones((2, 2), np.int32)
    with pytest.raises(OptionError, match="precision is 'zz'"):
        tnp.dot(x, x, precision="zz")
    with pytest.raises(DtypeError, match="narrower"):
        tnp.matmul(x, x, preferred_element_type=np.int8)
    with pytest.raises(UnsupportedError, match="out_sharding=3"):
        tnp.einsum("ij,jk", x, x, out_sharding=3)
    with pytest.raises(UnsupportedError, match="BF16_BF16_F32"):
        tnp.dot(x, x, precision=tj.lax.DotAlgorithmPreset.BF16_BF16_F32)


def test_integers_are_summed_in_their_own_dtype_where_that_is_asked_for():
    assert tnp.sum(A, promote_integers=False).dtype == np.int8
    assert tnp.prod(A, promote_integers=False).dtype == np.int8
    assert tnp.sum(A).dtype == np.int64
    assert int(tnp.sum(A, promote_integers=False)) == int(A.sum(dtype=np.int8))


def test_variances_without_nan_take_a_mean():
    x, mean = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]]), np.array([[2.0], [5.0]])
    for f in (np.nanvar, np.nanstd):
        np.testing.assert_allclose(tj.jit(lambda x, m, f=f: f(x, axis=1, mean=m))(x, mean), f(x, axis=1, mean=mean))
