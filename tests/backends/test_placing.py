"""Where functions run: `default_device`, `backend="auto"`, `device=`, and backends with several devices."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import attrs
import numpy as np
import pytest

import tracejit as tj
from tracejit.backends import registry
from tracejit.backends.base import DEVICE_KINDS
from tracejit.backends.reference.backend import ReferenceBackend
from tracejit.support.config import config
from tracejit.support.errors import BackendUnavailable, OptionError, UnknownBackend

X = np.arange(6.0).reshape(2, 3)


def backend_of(f: tj.JitFunction) -> str:
    return f.explain().splitlines()[-1].rpartition(" on ")[2]


@pytest.fixture
def f() -> tj.JitFunction:
    return tj.jit(lambda x: np.exp(x).sum(axis=0))


def test_functions_run_on_the_default_device(f: tj.JitFunction, driver: str):
    for _ in range(3):  # a native entry is there
        np.testing.assert_allclose(f(X), np.exp(X).sum(0))
    assert backend_of(f) == "cpu"
    with tj.default_device(driver):
        np.testing.assert_allclose(f(X), np.exp(X).sum(0))
        assert f.compilations == 2
        assert backend_of(f) == driver
        np.testing.assert_allclose(f(X), np.exp(X).sum(0))
        with tj.default_device("reference"):
            np.testing.assert_allclose(f(X), np.exp(X).sum(0))
            assert backend_of(f) == "reference"
        new = tj.jit(lambda x: x + 1)  # first called there
        np.testing.assert_array_equal(new(X), X + 1)
        assert backend_of(new) == driver
    for _ in range(2):
        f(X)
        np.testing.assert_array_equal(new(X), X + 1)
    assert f.compilations == 3
    assert backend_of(new) == "cpu"


def test_what_was_asked_for_by_name_stays(driver: str):
    fixed = tj.jit(lambda x: x * 2, backend="cpu")
    fixed(X)
    with tj.default_device(driver):
        fixed(X)
        tj.jit(lambda x: x * 3, backend="reference")(X)
    assert fixed.compilations == 1
    a = tj.device_put(X, driver)
    with tj.default_device("reference"):  # arrays decide where they lie
        free = tj.jit(lambda x: x * 2)
        assert free(a).device == f"{driver}:0"


def test_a_default_is_that_of_a_thread(f: tj.JitFunction):
    inside, go = threading.Event(), threading.Event()

    def other() -> None:
        with tj.default_device("reference"):
            inside.set()
            go.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    f(X)
    assert backend_of(f) == "cpu"
    go.set()
    thread.join()
    f(X)
    assert f.compilations == 1


def test_the_cpu_may_be_the_default_of_a_while(f: tj.JitFunction, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "backend", "reference")
    with tj.default_device("cpu"):
        for _ in range(3):
            f(X)
        assert backend_of(f) == "cpu"
    f(X)
    assert backend_of(f) == "reference"


def test_an_exception_ends_it(f: tj.JitFunction):
    with pytest.raises(ZeroDivisionError), tj.default_device("reference"):
        raise ZeroDivisionError
    f(X)
    assert backend_of(f) == "cpu"


def test_names_of_devices_are_checked():
    with pytest.raises(UnknownBackend, match="default_device: there is no backend 'gpu'"), tj.default_device("gpu"):
        pass
    with pytest.raises(BackendUnavailable, match="reference backend has no device 'reference:3'"):
        tj.jit(lambda x: x, backend="reference:3")(X)
    with pytest.raises(BackendUnavailable, match="there is no device 'opencl:99'; there are opencl:0"):
        tj.jit(lambda x: x, device="opencl:99")(X)
    with pytest.raises(OptionError, match="device is 'opencl:0'; it is a device of the backend 'vulkan'"):
        tj.jit(lambda x: x, backend="vulkan", device="opencl:0")
    with pytest.raises(OptionError, match="device is 7; it is the name"):
        tj.jit(lambda x: x, device=7)  # type: ignore[call-overload]


def test_a_device_is_chosen(driver: str):
    for options in ({"device": f"{driver}:0"}, {"backend": driver, "device": f"{driver}:0"}, {"device": driver}):
        f = tj.jit(lambda x: x - 1, **options)  # type: ignore[call-overload]
        np.testing.assert_array_equal(f(X), X - 1)
        assert backend_of(f) == driver


class Accelerator(ReferenceBackend):
    """A device that is no processor."""

    name = "accelerator"
    accelerates = True  # type: ignore[assignment]


def test_auto_takes_the_best_device_that_is_not_the_processor(monkeypatch: pytest.MonkeyPatch, software_devices: None):
    f = tj.jit(lambda x: x + 2, backend="auto")
    np.testing.assert_array_equal(f(X), X + 2)
    assert backend_of(f) == "cpu"
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    registry.register_backend("accelerator", Accelerator, priority=70)
    for f in (tj.jit(lambda x: x + 2, backend="auto"), tj.jit(lambda x: x + 3)):
        with tj.default_device("auto"):
            f(X)
        assert backend_of(f) == "accelerator"


@attrs.frozen
class Tensors:
    tops: int


def test_a_kind_of_device_of_a_package(monkeypatch: pytest.MonkeyPatch, software_devices: None):
    DEVICE_KINDS.register("tensors")(Tensors)
    try:
        kind = DEVICE_KINDS(Tensors(400))
        assert kind is DEVICE_KINDS("tensors(400)")
        monkeypatch.setattr(Accelerator, "accelerates", property(lambda self: self.kind != "cpu"))
        monkeypatch.setattr(Accelerator, "kind", kind)
        monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
        registry.register_backend("accelerator", Accelerator, priority=70)
        assert registry.best_backend() == "accelerator"
        match registry.get_backend("auto").kind.value:
            case Tensors(tops=400):
                pass
            case other:
                pytest.fail(str(other))
        monkeypatch.setattr(Accelerator, "kind", DEVICE_KINDS("cpu"))
        assert registry.best_backend() == "cpu"
    finally:
        DEVICE_KINDS.unregister("tensors")


@pytest.fixture
def software_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever devices the machine has, they count as its processor."""
    for name in tj.list_backends():
        if not registry.backend_reason(name):
            monkeypatch.setattr(type(registry.get_backend(name)), "accelerates", False)


def test_a_backend_with_several_devices():
    """PoCL's device taken apart: arrays lie on either, functions run where they lie, two in one call are refused."""
    program = """
        import numpy as np, tracejit as tj
        from tracejit.backends.registry import get_backend
        from tracejit.support.errors import UnsupportedError
        devices = tj.devices("opencl")[:2]
        assert devices == ["opencl:0", "opencl:1"], devices
        first, second = (get_backend(d) for d in devices)
        assert first is get_backend("opencl") and second is get_backend("opencl:1") and first is not second
        assert first.device is not second.device
        x = np.arange(5.0)
        a, b = (tj.device_put(x, d) for d in devices)
        assert (a.device, b.device) == ("opencl:0", "opencl:1")
        f = tj.jit(lambda x: np.sin(x) + 1)
        for _ in range(3):
            for y in (a, b):
                z = f(y)
                assert z.device == y.device
                np.testing.assert_allclose(z, np.sin(x) + 1)
        assert f.compilations == 2
        assert (b + b).device == "opencl:1"
        g = tj.jit(lambda x, y: x * y)
        try:
            g(a, b)
        except UnsupportedError as error:
            assert "an argument lies on opencl:1, and the function runs on opencl:0" in str(error), error
        else:
            raise AssertionError("two devices in one call")
        with tj.default_device("opencl:1"):
            h = tj.jit(lambda x: x - 1)
            np.testing.assert_array_equal(h(x), x - 1)
        fixed = tj.jit(lambda x: x - 1, device="opencl:1")
        assert fixed(b).device == "opencl:1"
        try:
            fixed(a)
        except UnsupportedError as error:
            assert "tj.device_put(x, 'opencl:1')" in str(error), error
        else:
            raise AssertionError("an array of another device")
    """
    import pyopencl

    units = pyopencl.get_platforms()[0].get_devices()[0].max_compute_units
    if units < 2:
        pytest.skip("a processor of one core cannot be taken apart")
    environment = {**os.environ, "TRACEJIT_OPENCL_PARTS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_calls_on_a_device_are_short_again_behind_a_default(driver: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "poison", False)
    f = tj.jit(lambda x: x * 2)
    a = tj.device_put(X, driver)
    f(X)
    f.finish()
    f(X)
    f(a)
    with tj.default_device("reference"):
        f(a)
    for _ in range(2):
        assert f(a).device == f"{driver}:0"
    assert len(f._state.straight) == 1


def test_parts_of_opencl_devices_are_a_number(monkeypatch: pytest.MonkeyPatch):
    from tracejit.backends.opencl import runtime

    monkeypatch.setenv("TRACEJIT_OPENCL_PARTS", "two")
    assert runtime.unavailable_reason() == "TRACEJIT_OPENCL_PARTS=two is no number of devices"


def test_arrays_of_the_host_and_of_a_device_in_turn(driver: str):
    f = tj.jit(lambda x: x * 2)
    for n in (3, 4, 5):
        host = tj.Array(np.arange(float(n)))
        for x in (host, tj.device_put(host, driver), host):
            assert f(x).device == x.device
            np.testing.assert_array_equal(f(x), 2 * np.arange(float(n)))
