"""Arrays that lie on a device: moved there, computed with, left there, and asked for."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.registry import get_backend
from tracejit.support.config import config
from tracejit.support.errors import UnsupportedError, UserError


@pytest.fixture
def there(driver: str) -> Any:
    """The device of the backend."""
    return get_backend(driver).device  # type: ignore[attr-defined]


X = np.random.default_rng(4).standard_normal((7, 5)).astype("f4")


def test_an_array_is_moved_and_asked_for(driver: str, there: Any):
    a = tj.device_put(X, driver)
    assert isinstance(a, tj.Array)
    assert a.device == f"{driver}:0" in tj.devices()
    assert (a.shape, a.dtype, a.ndim, a.size, a.nbytes, len(a)) == ((7, 5), X.dtype, 2, 35, 140, 7)
    asked = there.downloads
    for _ in range(2):  # the host's copy is kept
        np.testing.assert_array_equal(np.asarray(a), X)
    assert there.downloads == asked + 1
    assert a.to_device(a.device) is a
    assert a.to_device("cpu").device == "cpu"
    assert repr(a) == repr(tj.Array(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a)), X)
    assert copy.deepcopy(a) is a
    assert float(tj.device_put(2.5, driver)) == 2.5


def test_results_stay_where_the_arguments_lie(driver: str, there: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)  # which comes from the host
    a = tj.device_put(X, driver)
    step = tj.jit(lambda x, y: np.tanh(x @ y.T) @ y)
    want = a_host = X
    step(a, a)
    before = there.uploads, there.downloads
    for _ in range(3):
        a = step(a, a)
        want = np.tanh(want @ want.T) @ want
    assert (there.uploads, there.downloads) == before
    assert a.device == f"{driver}:0"
    np.testing.assert_allclose(a, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(step(a_host, a_host), np.tanh(X @ X.T) @ X, rtol=1e-4, atol=1e-5)  # on the host


def test_numpy_arrays_come_along_to_a_device(driver: str, there: Any):
    a = tj.device_put(X, driver)
    found = tj.jit(lambda x, y, n: x * y + n)(a, X, 2)
    assert found.device == a.device
    np.testing.assert_array_equal(found, X * X + 2)


def test_results_of_several_kinds(driver: str):
    a = tj.device_put(X, driver)
    found = tj.jit(lambda x: {"sum": x.sum(), "rows": (x[0], x[:, 1]), "all": x, "some": x[x > 0], "none": x[:0]})(a)
    want = {"sum": X.sum(), "rows": (X[0], X[:, 1]), "all": X, "some": X[X > 0], "none": X[:0]}
    np.testing.assert_allclose(found["sum"], want["sum"], rtol=1e-5)
    for f, w in zip(
        (*found["rows"], found["all"], found["some"], found["none"]),
        (*want["rows"], X, want["some"], X[:0]),
        strict=True,
    ):
        np.testing.assert_array_equal(f, w)


def test_operators_run_where_the_array_is(driver: str, there: Any):
    a = tj.device_put(X, driver)
    (a + 1) * a
    before = there.downloads
    found = -((a + 1) * a - a / 2)
    assert (found.device, there.downloads) == (f"{driver}:0", before)
    np.testing.assert_allclose(found, -((X + 1) * X - X / 2), rtol=1e-6)
    assert bool((a == a).all())


def test_derivatives_and_batches(driver: str):
    a = tj.device_put(X, driver)
    gradient = tj.jit(tj.grad(lambda x: (np.sin(x) ** 2).sum()))(a)
    assert gradient.device == a.device
    np.testing.assert_allclose(gradient, np.sin(2 * X), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(tj.jit(tj.vmap(lambda r: r / r.max()))(a), X / X.max(1, keepdims=True), rtol=1e-6)


def test_an_index_out_of_range_is_an_error(driver: str):
    a = tj.device_put(X, driver)
    row = tj.jit(lambda x, i: x[i])
    np.testing.assert_array_equal(row(a, 3), X[3])
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        np.asarray(row(a, 7))


def test_arrays_elsewhere_are_refused(driver: str):
    a = tj.device_put(X, driver)
    with pytest.raises(
        UnsupportedError, match=r"an argument lies on .*:0, and the function runs on cpu; move it: tj.device_get"
    ):
        tj.jit(lambda x: x + 1, backend="cpu")(a)
    with pytest.raises(UserError, match=rf"there is no device '{driver}:9'; there are cpu, {driver}:0"):
        tj.device_put(X, f"{driver}:9")


def test_memory_is_given_back(driver: str, there: Any):
    before = there.in_use
    a = tj.device_put(np.zeros(1000), driver)
    assert there.in_use >= before + 8000
    del a
    assert there.in_use == before
