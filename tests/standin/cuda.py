"""A CUDA driver for machines without a GPU: `install` before pycuda.driver or cuda.bindings is imported.

    standin = install(folder)
    import pycuda.driver            # finds libcuda.so.1, which this process has loaded

Kernels are run by `simt.py`.  What they do wrong is an error of the driver's, reported by the calls that follow the
launch (as real drivers do; `standin.set("synchronous", 1)` has the launch report it), and `standin.errors` has it in
words.  A process that has loaded the stand-in keeps it: tests do it in processes of their own.
"""

from __future__ import annotations

import ctypes
import os
import traceback
from ctypes import POINTER, c_char, c_char_p, c_int, c_longlong, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from tests.standin.build import build_cuda, default_folder
from tests.standin.memory import Range
from tests.standin.module import Loaded, load
from tests.standin.ptx import PTXError

__all__ = ["Standin", "install"]

_INVALID_PTX = 218
_NOT_FOUND = 500
_LAUNCH_FAILED = 719


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("parameters", c_longlong),
        ("static_shared", c_longlong),
        ("local", c_longlong),
        ("threads", c_longlong),
    )


_LOAD = ctypes.CFUNCTYPE(c_int, c_uint64, c_char_p, POINTER(c_char), c_size_t)
_UNLOAD = ctypes.CFUNCTYPE(None, c_uint64)
_KERNEL = ctypes.CFUNCTYPE(c_int, c_uint64, c_char_p, POINTER(_Kernel), POINTER(c_int), POINTER(c_int), c_int)
_SYMBOL = ctypes.CFUNCTYPE(c_int, c_uint64, c_char_p, POINTER(c_uint64), POINTER(c_size_t))
_LAUNCH = ctypes.CFUNCTYPE(c_int, c_uint64, c_char_p, POINTER(c_uint), c_uint, c_void_p, c_size_t)


def install(folder: str | os.PathLike[str] | None = None) -> Standin:
    """Loads the driver into this process, built in `folder` if it is not there.

    Environment variables (`libcuda.c` lists them) set what devices there are; they are read now."""
    path = build_cuda(Path(folder) if folder is not None else default_folder())
    return Standin(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL), path)


class Standin:
    """The driver that this process has loaded.

    `library` is its path, `errors` what went wrong in modules and kernels, in order.  With `check_global_races` two
    threads of a launch that access the same place of global memory, one writing, are an error (`global_races.py`)."""

    def __init__(self, driver: ctypes.CDLL, library: Path) -> None:
        self.library = library
        self.errors: list[BaseException] = []
        self.check_global_races = False
        self._driver = driver
        self._modules: dict[int, Loaded] = {}
        driver.standin_counter.restype = c_longlong
        driver.standin_counter.argtypes = [c_char_p]
        driver.standin_set.argtypes = [c_char_p, c_longlong]
        driver.standin_setting.restype = c_longlong
        driver.standin_setting.argtypes = [c_char_p]
        driver.standin_fault.restype = c_char_p
        driver.standin_allocate.restype = c_uint64
        driver.standin_allocate.argtypes = [c_size_t]
        driver.standin_host_address.restype = c_uint64
        driver.standin_host_address.argtypes = [c_uint64]
        driver.standin_release.argtypes = [c_uint64]
        driver.standin_blocks.argtypes = [POINTER(c_uint64)] * 3 + [c_int]
        # kept: the driver has only their addresses
        self._callbacks = (
            _LOAD(self._load),
            _UNLOAD(self._unload),
            _KERNEL(self._kernel),
            _SYMBOL(self._symbol),
            _LAUNCH(self._launch),
        )
        driver.standin_callbacks(*self._callbacks)

    # -- for tests

    @property
    def last_error(self) -> BaseException | None:
        """What went wrong last, with the thread and the address where it was a kernel."""
        return self.errors[-1] if self.errors else None

    @property
    def fault(self) -> str:
        """What the user of the driver did wrong last: a double free, a handle that does not exist."""
        return self._driver.standin_fault().decode()

    def set(self, name: str, value: int) -> None:
        """Changes a setting: devices, capability, memory, fail_launch, synchronous, version."""
        if self._driver.standin_set(name.encode(), value):
            raise KeyError(name)

    def reset(self) -> None:
        """Forgets errors and counts, so that one process can test several: spoiled contexts work again."""
        self.errors.clear()
        self._driver.standin_reset()

    def setting(self, name: str) -> int:
        value = self._driver.standin_setting(name.encode())
        if value < 0:
            raise KeyError(name)
        return value

    def counter(self, name: str) -> int:
        """launches, allocations, frees, to_device, to_host, on_device (copies), bytes_to_device, bytes_to_host,
        bytes_on_device, memsets, synchronizations, modules, faults, in_use, peak (bytes)."""
        value = self._driver.standin_counter(name.encode())
        if value < 0:
            raise KeyError(name)
        return value

    def allocations(self) -> list[Range]:
        """What is allocated now, variables of modules and pinned memory included."""
        room = self._driver.standin_blocks(None, None, None, 0)
        columns = [(c_uint64 * max(room, 1))() for _ in range(3)]
        count = min(self._driver.standin_blocks(*columns, room), room)
        return [Range(*(column[i] for column in columns)) for i in range(count)]

    # -- for the driver

    def _failed(self, error: BaseException, code: int) -> int:
        self.errors.append(error)
        if isinstance(error, PTXError):
            return error.code
        traceback.print_exception(error)
        return code

    def _allocate(self, size: int) -> Range:
        address = self._driver.standin_allocate(size)
        return Range(address, size, self._driver.standin_host_address(address))

    def _load(self, module: int, text: bytes, log: Any, log_size: int) -> int:
        try:
            loaded = load(text.decode(), self._allocate)
            self._check_target(loaded.module.target)
            self._modules[module] = loaded
        except BaseException as error:
            message = str(error).encode()[: log_size - 1]
            ctypes.memmove(log, message + b"\0", len(message) + 1)
            self._failed(error, _INVALID_PTX)
            return _INVALID_PTX
        return 0

    def _check_target(self, target: str) -> None:
        """PTX for newer devices than this one is refused."""
        if int(target.removeprefix("sm_").rstrip("af")) > self.setting("capability"):
            raise PTXError(f".target {target} is newer than the device")

    def _unload(self, module: int) -> None:
        for place in self._modules.pop(module).variables.values():
            self._driver.standin_release(place.device)

    def _kernel(self, module: int, name: bytes, out: Any, offsets: Any, sizes: Any, room: int) -> int:
        try:
            loaded = self._modules[module]
            function = loaded.kernel(name.decode())
            if len(function.parameters) > room:
                raise PTXError(f"{function.name} has more than {room} parameters")
            for i, parameter in enumerate(function.parameters):
                offsets[i], sizes[i] = parameter.offset, parameter.size
            threads = loaded.thread_limit(function.name)
            shared = loaded.shared_size(function.name)
            out[0] = _Kernel(len(function.parameters), shared, function.local_size, threads)
        except BaseException as error:
            return self._failed(error, _NOT_FOUND)
        return 0

    def _symbol(self, module: int, name: bytes, address: Any, size: Any) -> int:
        place = self._modules[module].variables.get(name.decode())
        if place is None:
            return _NOT_FOUND
        address[0], size[0] = place.device, place.size
        return 0

    def _launch(self, module: int, name: bytes, extents: Any, shared: int, given: int | None, size: int) -> int:
        try:
            parameters = ctypes.string_at(given, size) if given else b""
            grid, block = tuple(extents[:3]), tuple(extents[3:6])
            loaded, memory = self._modules[module], self.allocations()
            loaded.launch(name.decode(), grid, block, shared, parameters, memory, global_races=self.check_global_races)
        except BaseException as error:
            return self._failed(error, _LAUNCH_FAILED)
        return 0
