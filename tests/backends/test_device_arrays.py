"""Arrays that lie on a device: moved there, computed with, left there, and asked for."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
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


@pytest.mark.parametrize("poison", [False, True])
def test_a_failed_check_travels_with_the_results(
    driver: str, there: Any, monkeypatch: pytest.MonkeyPatch, poison: bool
):
    monkeypatch.setattr(config, "poison", poison)
    a, good, bad = (tj.device_put(x, driver) for x in (X, np.array([0, 3]), np.array([1, 7])))
    rows = tj.jit(lambda x, i: x[i])
    then = tj.jit(lambda x, y: (x * 2 + y, y.sum()))
    for _ in range(3):
        before = there.downloads
        wrong, right = rows(a, bad), rows(a, good)
        after, alone = then(wrong, right)
        clean, _ = then(right, right)
        assert there.downloads == before
        for x in (wrong, after, alone, wrong):  # each time that somebody looks
            for look in (np.asarray, tj.Array.block_until_ready, str, lambda x: x.sum().item()):
                with pytest.raises(IndexError, match="index 7 is out of bounds for an axis of extent"):
                    look(x)
        np.testing.assert_array_equal(right, X[[0, 3]])
        np.testing.assert_allclose(clean, X[[0, 3]] * 3, rtol=1e-6)
        np.testing.assert_array_equal(tj.device_put(right, "cpu"), X[[0, 3]])
        with pytest.raises(IndexError, match="index 7"):
            tj.device_put(wrong, "cpu")


def test_what_a_failed_check_decides_is_not_run(driver: str):
    x, bad = tj.device_put(np.arange(4.0, dtype="f4"), driver), tj.device_put(np.array(9), driver)
    wrong = tj.jit(lambda x, i: x[i])(x, bad)

    @tj.jit
    def halved(x):
        count = 0
        y = np.zeros(5000, "f4") + x
        while y.max() > 0.1:  # on garbage it might never end
            y = y / 2
            count += 1
        return count

    with pytest.raises(IndexError, match="index 9"):
        np.asarray(halved(wrong))


def test_many_checks_are_looked_at_now_and_then(driver: str, there: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)
    order = tj.device_put(np.array([1, 2, 3, 4, 5, 6, 0]), driver)
    turned = tj.jit(lambda x, i: x[i])
    x = tj.device_put(X, driver)
    for _ in range(3):
        x = turned(x, order)
    before, uses = there.downloads, there.in_use
    for _ in range(40):
        x = turned(x, order)
    assert 0 < there.downloads - before <= 40
    assert there.in_use - uses < 1 << 12
    np.testing.assert_array_equal(x, np.roll(X, -43, 0))
    bad = tj.device_put(np.array([1, 2, 3, 4, 5, 6, 7]), driver)

    def go_on(x: Any) -> None:
        for _ in range(40):
            x = turned(x, bad)

    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        go_on(x)


def test_a_failed_check_of_a_function_without_results_is_raised_at_once(driver: str):
    @tj.jit
    def check(x):
        if x.min() < 0:
            raise ValueError("not positive")

    @tj.jit
    def same(x, i):
        x[i]
        return x

    plus, minus = tj.device_put(X + 9, driver), tj.device_put(X - 9, driver)
    for _ in range(3):
        assert check(plus[0]) is None
        with pytest.raises(ValueError, match="not positive"):
            check(minus[0])
        np.testing.assert_array_equal(same(plus, tj.device_put(np.array(1), driver)), X + 9)
        with pytest.raises(IndexError, match="index 44"):
            np.asarray(same(plus, tj.device_put(np.array(44), driver)))


def test_arrays_of_the_host_are_changed_beside_arrays_on_a_device(driver: str):
    @tj.jit
    def f(x, total, i):
        total[0] += x.sum()
        return x[i] + 1

    a, total = tj.device_put(np.arange(4.0, dtype="f4"), driver), np.zeros(2, "f4")
    for n in (1, 2):
        np.testing.assert_array_equal(f(a, total, 1), np.float32(2))
        np.testing.assert_array_equal(total, [6 * n, 0])
    with pytest.raises(IndexError, match="index 4"):  # and nothing is changed
        f(a, total, 4)
    np.testing.assert_array_equal(total, [12, 0])


INDICES = [
    3, -1, np.int64(2), (1, 2), (0, -3), (..., 1), (None, 2), slice(1, None, 2), slice(None, None, -1),
    (slice(3, 1), 1), (slice(None), slice(1, 4, 2)), (slice(-3, None), None, -1), ..., (), (1, ..., None), slice(2, 2),
    np.array([2, 0]), [1, -1], (np.array([0, 1]), slice(None, None, 2)), (slice(1, 3), np.array([[3], [0]])),
    (np.array([1, 2]), 2), ([0, 3], [1, 2]), X[:, 0] > 0, True,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "i8", "?", "i1", "f2", "c8"])
def test_parts_of_an_array_stay_on_its_device(driver: str, there: Any, dtype: str):
    if dtype == "c8" and driver == "vulkan" and get_backend(driver).target().reason("f64", "f64"):
        dtype = "u4"
    x = np.asarray(X * 5).astype(dtype)
    a = tj.device_put(x, driver)
    for index in INDICES:
        found = a[index]
        assert (found.shape, found.dtype) == (x[index].shape, x.dtype), index
        np.testing.assert_array_equal(found, x[index], err_msg=str(index))
        whole = np.asarray(index).dtype != np.bool_ if isinstance(index, (np.ndarray, bool)) else True
        assert not whole or found.device == a.device, index
    before = there.downloads
    for n in range(4):
        a[n], a[n:], a[:, -n]
    assert there.downloads == before
    for bad in (7, -8, (0, 9), (0, 0, 0)):
        with pytest.raises(IndexError):
            a[bad]
    with pytest.raises(IndexError, match="index 8"):
        np.asarray(a[[1, 8]])
    assert [row.tolist() for row in a] == x.tolist()


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


def test_a_call_like_one_before_looks_its_launches_up(driver: str, there: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)
    step = tj.jit(lambda x, y: (np.exp(-x) + y, x.sum(0)))
    a, b = tj.device_put(X, driver), tj.device_put(X * 2, driver)
    kept: list[Any] = []
    for n in range(12):  # results that stay alive take memory of their own each time
        first, second = step(a, b)
        kept.append((n, first, second))
        (known,) = step._state.straight.values()  # type: ignore[attr-defined]
        assert known[1] is not None
    for n, first, second in kept:
        np.testing.assert_allclose(first, np.exp(-X) + X * 2, rtol=1e-5, err_msg=str(n))
        np.testing.assert_allclose(second, X.sum(0), rtol=1e-5, atol=1e-6, err_msg=str(n))
    np.testing.assert_allclose(step(b, a)[0], np.exp(-X * 2) + X, rtol=1e-5)
    np.testing.assert_allclose(step(first, a)[0], np.exp(-(np.exp(-X) + X * 2)) + X, rtol=1e-5)


SCALE = np.float32(2.0)


def test_such_a_call_sees_what_changed_outside(driver: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)
    f = tj.jit(lambda x: x * SCALE)
    a = tj.device_put(X, driver)
    for value in (2.0, 2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", np.float32(value))
        for _ in range(3):
            np.testing.assert_allclose(f(a), X * value, rtol=1e-6)
    f.clear_cache()
    np.testing.assert_allclose(f(a), X * 2, rtol=1e-6)


def test_other_kinds_go_the_long_way(driver: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)
    f = tj.jit(lambda x, y=1: x + y)
    a = tj.device_put(X, driver)
    for _ in range(3):
        np.testing.assert_array_equal(f(a), X + 1)
        np.testing.assert_array_equal(f(a, y=a), X + X)
        np.testing.assert_array_equal(f(a, a), X + X)
        np.testing.assert_array_equal(f(a[:3], a[:3]), X[:3] + X[:3])
        np.testing.assert_array_equal(f(X, X), X + X)
        np.testing.assert_array_equal(f(tj.device_put(X.astype("i4"), driver)), X.astype("i4") + 1)
        np.testing.assert_allclose(tj.jit(lambda x: f(x) * 2)(a), (X + 1) * 2, rtol=1e-6)


def test_arrays_from_outside_are_copied_to_the_device_once(driver: str, there: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)
    weights, elsewhere = tj.Array(X.T), tj.device_put(X.T, driver)
    a = tj.device_put(X, driver)
    for table in (weights, elsewhere):
        f = tj.jit(lambda x, table=table: x @ table)
        f(a)
        before = there.uploads
        for _ in range(4):
            np.testing.assert_allclose(f(a), X @ X.T, rtol=1e-4, atol=1e-5)
        assert there.uploads == before
    changing = X.T.copy()
    g = tj.jit(lambda x: x @ changing)
    for factor in (1, 2, 3):
        changing[:] = X.T * factor
        np.testing.assert_allclose(g(a), X @ X.T * factor, rtol=1e-4, atol=1e-5)


def test_such_calls_from_several_threads(driver: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)
    f = tj.jit(lambda x: (x * 2).sum(0) + x)
    arrays = [tj.device_put(X + n, driver) for n in range(4)]
    f(arrays[0])

    def run(n: int) -> bool:
        found = [np.asarray(f(arrays[n])) for _ in range(20)]
        return all(np.allclose(r, ((X + n) * 2).sum(0) + X + n, rtol=1e-4, atol=1e-4) for r in found)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


class Foreign:
    """Another package's array on a CUDA device."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self.array = array  # its memory stays
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}


@pytest.mark.parametrize("shape", [(7, 5), (3,), (), (0, 4)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?", "c16"])
def test_arrays_of_other_packages_on_a_cuda_device(driver: str, there: Any, shape: tuple[int, ...], dtype: str):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    a = tj.device_put(values, driver)
    if driver != "cuda":
        assert not hasattr(a, "__cuda_array_interface__")
        assert not hasattr(tj.Array(values), "__cuda_array_interface__")
        return
    told = a.__cuda_array_interface__
    assert (told["shape"], told["typestr"], told["version"], told["strides"]) == (shape, values.dtype.str, 3, None)
    asked = there.uploads, there.downloads
    for changes in ({}, {"stream": 1}, {"strides": values.strides}):
        b = tj.device_put(Foreign(a, **changes), driver)
        assert b.device == a.device
        assert (there.uploads, there.downloads) == asked
        np.testing.assert_array_equal(np.asarray(b), values, strict=True)
        asked = there.uploads, there.downloads
        doubled = tj.jit(lambda x: np.add(x, x))(b)
        np.testing.assert_array_equal(np.asarray(doubled), np.add(values, values))
        asked = there.uploads, there.downloads


def test_what_of_other_packages_is_not_taken(driver: str):
    a = tj.device_put(X, driver)
    told = {"shape": X.shape, "typestr": X.dtype.str, "version": 3, "data": (64, False)}
    foreign = type("Foreign", (), {"__cuda_array_interface__": {**told, "strides": (4, 28)}})()
    text = r"with strides \(4, 28\) is not copied" if driver == "cuda" else "goes to a device of the backend 'cuda'"
    with pytest.raises(UnsupportedError, match=text):
        tj.device_put(foreign, driver)
    assert a.device == f"{driver}:0"
