"""Copies between memories: the rule of the pair, the fewest copies, and the host looking at memory that it shares."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.copies import copy_rule, register_copy, unregister_copy
from tracejit.backends.registry import get_backend
from tracejit.backends.shared_arrays import SharedArray
from tracejit.support.errors import UserError

X = np.random.default_rng(0).random((40, 50)).astype("f4")


@pytest.fixture
def there(driver: str) -> Any:
    return get_backend(driver).device  # type: ignore[attr-defined]


def test_an_array_of_the_hosts_is_copied_once(driver: str, there: Any):
    before = there.uploads, there.downloads
    a = tj.device_put(X, driver)
    assert (there.uploads, there.downloads) == (before[0] + 1, before[1])
    for given in (X[::2, ::-1], np.asfortranarray(X), np.float32(2), 3, [1.0, 2.0], X.astype(">f4"), tj.Array(X)):
        np.testing.assert_array_equal(tj.device_get(tj.device_put(given, driver)), np.asarray(given))
    assert tj.device_put(a, driver) is a


def test_what_is_put_there_may_change_afterwards(driver: str):
    x = X.copy()
    a = tj.device_put(x, driver)
    x[:] = 0
    np.testing.assert_array_equal(tj.device_get(a), X)


def test_what_is_taken_may_be_changed(driver: str):
    a = tj.device_put(X, driver)
    got = tj.device_get(a)
    got[:] = 0
    np.testing.assert_array_equal(tj.device_get(a), X)


def test_between_devices_of_two_backends(driver: str, there: Any):
    a = tj.device_put(X, driver)
    b = tj.device_put(a, "plain_c:1")
    assert b.device == "plain_c:1"
    np.testing.assert_array_equal(np.asarray(b), X)
    before = there.uploads
    c = tj.device_put(b, driver)
    assert (c.device, there.uploads) == (a.device, before + 1)
    np.testing.assert_array_equal(np.asarray(c), X)


def test_devices_that_share_memory_share_arrays():
    a = tj.device_put(X, "plain_c:0")
    b = tj.device_put(a, "plain_c:1")
    assert (a.device, b.device) == ("plain_c:0", "plain_c:1")
    assert np.shares_memory(np.asarray(a), np.asarray(b))
    np.testing.assert_array_equal(np.asarray(tj.jit(lambda x: x + 1)(b)), X + 1)


def test_a_check_that_fails_is_found_where_its_array_is_moved():
    a = tj.jit(lambda x, i: x[i], backend="plain_c:0")(tj.device_put(X, "plain_c"), tj.device_put(99, "plain_c"))
    b = tj.device_put(a, "plain_c:1")
    with pytest.raises(IndexError):
        np.asarray(b)


@pytest.fixture
def rules() -> Iterator[list[Any]]:
    seen: list[Any] = []

    @register_copy("plain_c", "reference")
    def direct(x: Any, backend: Any, place: str) -> Any:
        seen.append((x.place, backend, place))
        return x

    @register_copy("plain_c", "host")
    def home(x: Any, backend: Any, place: str) -> Any:
        seen.append((x.place, backend, place))
        return x.host()

    yield seen
    unregister_copy("plain_c", "reference")
    unregister_copy("plain_c", "host")


def test_the_rule_of_a_pair_comes_first(rules: list[Any]):
    assert copy_rule("plain_c", "host") is not copy_rule("opencl", "host")
    assert copy_rule("plain_c", "reference") is not copy_rule("plain_c", "opencl")
    assert copy_rule("reference", "opencl") is copy_rule("vulkan", "opencl")
    assert copy_rule("host", "opencl") is not copy_rule("vulkan", "opencl")
    np.testing.assert_array_equal(tj.device_get(tj.device_put(X, "plain_c")), X)
    assert rules == [("plain_c:0", None, "cpu")]
    with pytest.raises(UserError, match="a copy from plain_c to host already; unregister_copy takes it away"):
        register_copy("plain_c", "host")(lambda x, backend, place: x)


def test_captured_arrays_go_by_the_rules(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []

    @register_copy("host", "plain_c")
    def counted(x: Any, backend: Any, place: str) -> Any:
        seen.append(place)
        return backend.put(np.ascontiguousarray(x), place)

    try:
        captured = tj.Array(X)
        f = tj.jit(lambda x: x @ captured.T)
        x = tj.device_put(X, "plain_c:1")
        for _ in range(3):
            np.testing.assert_allclose(f(x), X @ X.T, rtol=1e-5)
        assert seen == ["plain_c:1", "plain_c:1"]  # the argument and, once, what is captured
    finally:
        unregister_copy("host", "plain_c")


def test_the_host_looks_at_memory_that_it_shares(driver: str, there: Any):
    """In place on software devices, whose memory is then not given to others; a copy on others."""
    f = tj.jit(lambda x: x * 2 + 1)
    a = tj.device_put(X, driver)
    y = f(a)
    seen = np.asarray(y)
    np.testing.assert_array_equal(seen, X * 2 + 1)
    assert not seen.flags.writeable
    shared = np.from_dlpack(y)
    assert np.shares_memory(shared, seen)
    place = seen.__array_interface__["data"][0]
    if driver == "cuda":  # its memory is the device's
        assert there.seen(y._data.buffer.memory.raw, 4) is None
        return
    assert there.software
    del y
    gc.collect()
    for _ in range(5):
        others = [f(a) for _ in range(3)]
        assert place not in [np.asarray(o).__array_interface__["data"][0] for o in others]
    np.testing.assert_array_equal(seen, X * 2 + 1)
    del seen, shared, others
    gc.collect()
    again = [f(a) for _ in range(12)]
    assert place in [np.asarray(o).__array_interface__["data"][0] for o in again]  # it is the device's own memory


def test_a_program_reads_what_the_host_looks_at(driver: str):
    a = tj.device_put(X, driver)
    seen = np.asarray(a)
    b = tj.jit(lambda x: x - 1)(a)
    np.testing.assert_array_equal(np.asarray(b), X - 1)
    np.testing.assert_array_equal(seen, X)
    np.testing.assert_array_equal(np.asarray(tj.numpy.from_dlpack(np.from_dlpack(b), device=driver)), X - 1)


def test_a_part_of_a_shared_array_is_one():
    part = SharedArray(X, "plain_c:0").part((slice(3, 9, 2), ...))
    assert np.shares_memory(part.host(), X)
    assert part.kind == ("plain_c:0", X.dtype, (3, 50))
