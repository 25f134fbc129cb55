"""A device of each driver for the tests that need one; the drivers' caches go to directories of their own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.backends.drivers import DRIVERS, cache, devices, validated


@pytest.fixture(scope="session")
def cuda_devices() -> list[Any]:
    """Those of the driver, or of the stand-in (`tests.standin`) where there is none."""
    return devices("cuda")


@pytest.fixture(scope="session")
def opencl_devices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    with cache("POCL_CACHE_DIR", str(tmp_path_factory.mktemp("pocl"))):
        yield devices("opencl")


@pytest.fixture(scope="session")
def vulkan_devices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """Every module that a test has them build is looked at by SPIR-V's own validator, where it is installed."""
    with cache("MESA_SHADER_CACHE_DIR", str(tmp_path_factory.mktemp("mesa"))):
        found = devices("vulkan")
        with pytest.MonkeyPatch.context() as patched:
            for device in found:
                patched.setattr(device, "build", lambda source, build=device.build: build(validated(source)))
            yield found


@pytest.fixture(params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in DRIVERS])
def driver(request: pytest.FixtureRequest, record_backend: Callable[[str], None]) -> str:
    """The name of a backend whose devices are there; a test that needs one is skipped, and counted as such, where there
    is none.
    """
    record_backend(request.param)
    assert request.getfixturevalue(f"{request.param}_devices")
    return request.param


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> Any:
    """The first device of a driver."""
    return request.getfixturevalue(f"{driver}_devices")[0]


@pytest.fixture
def cuda_device(record_backend: Callable[[str], None], request: pytest.FixtureRequest) -> Any:
    record_backend("cuda")
    return request.getfixturevalue("cuda_devices")[0]


@pytest.fixture
def opencl_device(opencl_devices: list[Any], record_backend: Callable[[str], None]) -> Any:
    record_backend("opencl")
    return opencl_devices[0]


@pytest.fixture
def vulkan_device(vulkan_devices: list[Any], record_backend: Callable[[str], None]) -> Any:
    record_backend("vulkan")
    return vulkan_devices[0]
