"""What the Array API standard asks of a namespace, and signs of NaN."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import WriteError


def test_info():
    info = tj.Array([1.0]).__array_namespace__().__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert "cpu" in info.devices()
    assert info.default_dtypes(device="cpu")["real floating"] == np.float64
    assert info.dtypes(kind="bool") == {"bool": np.dtype(bool)}
    assert set(info.dtypes(kind=("integral", "complex floating"))) >= {"int8", "uint64", "complex64"}
    assert info.capabilities()["boolean indexing"] is True
    with pytest.raises(ValueError, match="no device 'moon'"):
        info.dtypes(device="moon")


def test_arrays_of_other_packages():
    x = np.arange(3.0)
    made = tj.numpy.from_dlpack(x)
    x[0] = 9.0
    assert isinstance(made, tj.Array)
    assert np.asarray(made).tolist() == [0.0, 1.0, 2.0]
    assert tj.numpy.from_dlpack(made) is made
    assert tj.numpy.from_dlpack(made, copy=True) is not made
    assert tj.numpy.from_dlpack(x, device="cpu").device == "cpu"
    with pytest.raises(WriteError, match="copy=False"):
        tj.numpy.from_dlpack(x, copy=False)


def test_deviations_by_their_correction():
    x = np.random.default_rng(0).normal(size=(4, 5))
    got = tj.jit(lambda x: np.std(x, axis=1, correction=1, keepdims=True))(x)
    np.testing.assert_allclose(got, np.std(x, axis=1, correction=1, keepdims=True), rtol=1e-14)


@pytest.mark.parametrize("backend", ["cpu", "reference", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_signs_of_zeros_and_nan(dtype: Any, backend: str):
    values = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, np.copysign(np.nan, -1), 1e-7, -1e-7], dtype)
    x, y = (a.copy() for a in np.meshgrid(values, values))
    signs, copied = tj.jit(lambda x, y: (np.signbit(y), np.copysign(x, y)), backend=backend)(x, y)
    np.testing.assert_array_equal(np.asarray(signs), np.signbit(y))
    np.testing.assert_array_equal(np.asarray(copied), np.copysign(x, y))
    np.testing.assert_array_equal(np.signbit(np.asarray(copied)), np.signbit(y))


def test_the_version_of_the_standard_is_named_and_clip_has_its_parameters():
    import inspect

    assert tj.numpy.__array_api_version__ == "2025.12"
    assert list(inspect.signature(tj.numpy.clip).parameters)[:3] == ["a", "min", "max"]
    x = np.arange(6.0)
    want = np.clip(x, 1, 3)
    for f in (
        lambda x: np.clip(x, 1, 3), lambda x: np.clip(x, a_min=1, a_max=3), lambda x: np.clip(x, min=1, max=3),
        lambda x: np.clip(x, 1, a_max=3), lambda x: x.clip(1, 3), lambda x: x.clip(min=1, max=3),
    ):  # fmt: skip
        np.testing.assert_array_equal(tj.jit(f)(x), want)
    np.testing.assert_array_equal(tj.jit(lambda x: np.clip(x, None, 3))(x), np.clip(x, None, 3))
    np.testing.assert_array_equal(tj.numpy.clip(x, a_min=1, a_max=3), want)
