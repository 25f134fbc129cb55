"""The calls of CUDA's driver API that the backend makes, through pycuda or through cuda-bindings.

Either is enough.  pycuda has to be built where it is installed; cuda-bindings comes as a wheel.

Source: NVIDIA's CUDA Driver API (primary contexts, stream-ordered calls, `cuLaunchKernel`).
"""

from __future__ import annotations

import ctypes
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import numpy as np

from tracejit.support.config import variable
from tracejit.support.errors import BackendUnavailable

__all__ = ["Driver", "drivers"]

T = TypeVar("T")
Array = np.ndarray[Any, Any]
_BYTES = np.uint8


class Driver(ABC):
    """One device through one package.  Memory, modules, functions and prepared launches are what the package has.

    full, failed: what is raised where there is no memory, and where anything fails.  capability: times ten.
    """

    package: ClassVar[str]
    full: type[Exception]
    failed: type[Exception]
    name: str
    version: str
    capability: int
    memory: int
    units: int
    items: int

    @abstractmethod
    @contextmanager
    def current(self) -> Generator[None]:
        """This thread's calls go to the device."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Any: ...

    @abstractmethod
    def free(self, memory: Any) -> None: ...

    @abstractmethod
    def write(self, memory: Any, array: Array) -> None: ...

    @abstractmethod
    def read(self, array: Array, memory: Any) -> None: ...

    @abstractmethod
    def move(self, target: Any, source: Any, nbytes: int) -> None: ...

    @abstractmethod
    def fill(self, memory: Any, byte: int, nbytes: int) -> None: ...

    @abstractmethod
    def module(self, ptx: bytes) -> Any: ...

    @abstractmethod
    def function(self, module: Any, name: str) -> Any: ...

    @abstractmethod
    def most_items(self, function: Any) -> int: ...

    @abstractmethod
    def prepare(self, function: Any, values: Sequence[Any]) -> Any:
        """A function with its arguments, memory and numbers of 64 bits."""

    @abstractmethod
    def launch(self, prepared: Any, groups: int, items: int) -> None: ...

    @abstractmethod
    def synchronize(self) -> None: ...

    @abstractmethod
    def synchronize_all(self) -> None:
        """Wait for everybody's work on the device."""


class Pycuda(Driver):
    """The driver API through pycuda."""

    package: ClassVar[str] = "pycuda"

    def __init__(self, ordinal: int) -> None:
        cuda = self._cuda = import_module("pycuda.driver")
        self.full, self.failed = cuda.MemoryError, cuda.Error
        device = cuda.Device(ordinal)
        self._context = device.retain_primary_context()
        self.name = device.name()
        self.version = ".".join(map(str, cuda.get_version()))
        major, minor = device.compute_capability()
        self.capability = 10 * major + minor
        self.memory = device.total_memory()
        self.units = device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT)
        self.items = device.get_attribute(cuda.device_attribute.MAX_THREADS_PER_BLOCK)
        with self.current():
            self._stream = cuda.Stream()

    @staticmethod
    def count() -> int:
        """How many devices there are.  Raises Exception where the driver does not start."""
        cuda = import_module("pycuda.driver")
        cuda.init()
        return cuda.Device.count()

    @contextmanager
    def current(self) -> Generator[None]:
        # popped again: pycuda ends the process where a context is left on a thread's stack at exit
        self._context.push()
        try:
            yield
        finally:
            self._cuda.Context.pop()

    def allocate(self, nbytes: int) -> Any:
        return self._cuda.mem_alloc(nbytes)

    def free(self, memory: Any) -> None:
        memory.free()

    def write(self, memory: Any, array: Array) -> None:
        self._cuda.memcpy_htod_async(memory, array, self._stream)  # pageable memory is copied before it returns

    def read(self, array: Array, memory: Any) -> None:
        self._cuda.memcpy_dtoh_async(array, memory, self._stream)
        self._stream.synchronize()

    def move(self, target: Any, source: Any, nbytes: int) -> None:
        self._cuda.memcpy_dtod_async(target, source, nbytes, self._stream)

    def fill(self, memory: Any, byte: int, nbytes: int) -> None:
        self._cuda.memset_d8_async(memory, byte, nbytes, self._stream)

    def module(self, ptx: bytes) -> Any:
        return self._cuda.module_from_buffer(ptx)

    def function(self, module: Any, name: str) -> Any:
        return module.get_function(name)

    def most_items(self, function: Any) -> int:
        return function.max_threads_per_block

    def prepare(self, function: Any, values: Sequence[Any]) -> Any:
        return function, struct.pack(f"{len(values)}q", *map(int, values))

    def launch(self, prepared: Any, groups: int, items: int) -> None:
        function, arguments = prepared
        # the public calls set the group's shape by one more, deprecated, call
        function._launch_kernel((groups, 1, 1), (items, 1, 1), arguments, 0, self._stream)

    def synchronize(self) -> None:
        self._stream.synchronize()

    def synchronize_all(self) -> None:
        self._cuda.Context.synchronize()


class BindingsError(Exception):
    """A call of the driver's failed."""


class BindingsFull(BindingsError):
    """There is no memory left."""


class Bindings(Driver):
    """The driver API through cuda-bindings."""

    package: ClassVar[str] = "cuda-bindings"

    def __init__(self, ordinal: int) -> None:
        cuda = self._cuda = import_module("cuda.bindings.driver")
        self.full, self.failed = BindingsFull, BindingsError
        device = self._call(cuda.cuDeviceGet, ordinal)
        self._context = self._call(cuda.cuDevicePrimaryCtxRetain, device)
        self.name = self._call(cuda.cuDeviceGetName, 256, device).split(b"\0")[0].decode()
        self.version = str(self._call(cuda.cuDriverGetVersion))
        attribute = cuda.CUdevice_attribute

        def asked(what: Any) -> int:
            return int(self._call(cuda.cuDeviceGetAttribute, what, device))

        self.capability = 10 * asked(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) + asked(
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
        )
        self.memory = int(self._call(cuda.cuDeviceTotalMem, device))
        self.units = asked(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        self.items = asked(attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        with self.current():
            self._stream = self._call(cuda.cuStreamCreate, 0)

    @staticmethod
    def count() -> int:
        """How many devices there are.  Raises Exception where the driver does not start."""
        cuda = import_module("cuda.bindings.driver")
        for call, arguments in ((cuda.cuInit, (0,)), (cuda.cuDeviceGetCount, ())):
            result, *found = call(*arguments)
            if int(result):
                raise BindingsError(f"{call.__name__}: {result.name}")
        return int(found[0])

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a call gives.  Raises BindingsFull, BindingsError."""
        result, *found = function(*arguments)
        if int(result):
            kind = BindingsFull if result == self._cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY else BindingsError
            raise kind(f"{function.__name__}: {result.name}")
        return found[0] if found else None

    @contextmanager
    def current(self) -> Generator[None]:
        self._call(self._cuda.cuCtxSetCurrent, self._context)
        yield

    def allocate(self, nbytes: int) -> Any:
        return int(self._call(self._cuda.cuMemAlloc, nbytes))

    def free(self, memory: Any) -> None:
        self._call(self._cuda.cuMemFree, memory)

    def write(self, memory: Any, array: Array) -> None:
        self._call(self._cuda.cuMemcpyHtoDAsync, memory, array.ctypes.data, array.nbytes, self._stream)

    def read(self, array: Array, memory: Any) -> None:
        self._call(self._cuda.cuMemcpyDtoHAsync, array.ctypes.data, memory, array.nbytes, self._stream)
        self.synchronize()

    def move(self, target: Any, source: Any, nbytes: int) -> None:
        self._call(self._cuda.cuMemcpyDtoDAsync, target, source, nbytes, self._stream)

    def fill(self, memory: Any, byte: int, nbytes: int) -> None:
        self._call(self._cuda.cuMemsetD8Async, memory, byte, nbytes, self._stream)

    def module(self, ptx: bytes) -> Any:
        return self._call(self._cuda.cuModuleLoadData, ptx + b"\0")

    def function(self, module: Any, name: str) -> Any:
        return self._call(self._cuda.cuModuleGetFunction, module, name.encode())

    def most_items(self, function: Any) -> int:
        attribute = self._cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        return int(self._call(self._cuda.cuFuncGetAttribute, attribute, function))

    def prepare(self, function: Any, values: Sequence[Any]) -> Any:
        numbers = (ctypes.c_int64 * max(1, len(values)))(*values)
        first = ctypes.addressof(numbers)
        places = (ctypes.c_void_p * max(1, len(values)))(*[first + 8 * n for n in range(len(values))])
        return function, ctypes.addressof(places), (numbers, places)

    def launch(self, prepared: Any, groups: int, items: int) -> None:
        function, places, _ = prepared
        self._call(self._cuda.cuLaunchKernel, function, groups, 1, 1, items, 1, 1, 0, self._stream, places, 0)

    def synchronize(self) -> None:
        self._call(self._cuda.cuStreamSynchronize, self._stream)

    def synchronize_all(self) -> None:
        self._call(self._cuda.cuCtxSynchronize)


def drivers() -> list[Driver]:
    """The devices of this machine, through the first package that reaches them, or the one that TRACEJIT_CUDA_DRIVER
    names.

    Raises: BackendUnavailable, with what each package says.
    """
    wanted = variable("CUDA_DRIVER") or ""
    known: list[type[Pycuda] | type[Bindings]] = [Pycuda, Bindings]
    packages = [kind for kind in known if wanted in ("", kind.package)]
    if not packages:
        names = ", ".join(kind.package for kind in known)
        raise BackendUnavailable(f"TRACEJIT_CUDA_DRIVER={wanted}: there are {names}")
    said: list[str] = []
    for kind in packages:
        try:
            count = kind.count()
            if count:
                return [kind(n) for n in range(count)]
            said.append(f"{kind.package}: no device")
        except Exception as error:  # each package has classes of its own, and raises others where libraries are missing
            said.append(f"{kind.package}: {error}")
    raise BackendUnavailable(
        "the cuda backend needs NVIDIA's driver, and pycuda or cuda-bindings (pip install 'tracejit[cuda]'): "
        + "; ".join(said)
    )
