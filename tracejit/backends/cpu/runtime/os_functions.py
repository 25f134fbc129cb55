"""What the run time's modules ask of the operating system and of the core, as functions of LLVM IR.

The tests run on Linux, x86-64. The texts for aarch64, macOS, Windows and other POSIX systems are parsed and verified by
the tests, but have not been run.
"""

from __future__ import annotations

import ctypes
import platform
import sys

from tracejit.backends.cpu.runtime.templates import Template

__all__ = ["native_symbols", "native_text"]

_FUTEX_NUMBER = {
    "x86_64": 202, "amd64": 202, "aarch64": 98, "arm64": 98, "riscv64": 98, "loongarch64": 98, "ppc64le": 221,
    "s390x": 238,
}  # fmt: skip


def native_text(system: str = sys.platform, machine: str = "") -> str:
    """IR text of internal functions that every run-time module may include.

    void @os_wait(ptr word, i32 expected, i32 milliseconds)
        Sleeps while the i32 equals `expected`, until woken or, if `milliseconds` is positive, that long; may return
        early.
    void @os_wake(ptr word, i32 count)
        Wakes up to `count` sleepers.
    i64 @os_milliseconds()
        A clock that never goes back; a few milliseconds exact, cheap.
    i64 @os_nanoseconds()
        Another; exact, 25 ns a reading.
    i32 @os_spawn(ptr fn, ptr arg)
        Starts a detached thread that runs `ptr fn(ptr arg)`; 0 if it could. It takes no signals but its own faults:
        Python's handlers stay with Python's threads.
    void @os_prefer_huge_pages(ptr data, i64 bytes)
        A hint for memory not touched yet, aligned to 2 MiB.
    void @os_pause()
        Tells the core that this is a spin loop.
    i32 @os_float_mode(), void @os_set_float_mode(i32)
        Rounding and denormals of this thread.
    """
    machine = (machine or platform.machine()).lower()
    return _system(system, machine) + _core(machine)


def _system(system: str, machine: str) -> str:
    # Clocks of POSIX have other numbers everywhere: on Linux CLOCK_MONOTONIC_COARSE (5 ns a reading) and
    # CLOCK_MONOTONIC, on macOS CLOCK_MONOTONIC_RAW_APPROX and CLOCK_UPTIME_RAW. So have SIG_SETMASK and
    # PTHREAD_CREATE_DETACHED.
    posix = Template("runtime/os_posix")
    match system:
        case "linux" if machine in _FUTEX_NUMBER:
            own = Template("runtime/os_linux").text(futex=_FUTEX_NUMBER[machine])
            return own + posix.text(coarse_clock=6, exact_clock=1, set_mask=2, detached=1)
        case "darwin":
            own = Template("runtime/os_darwin").text()
            return own + posix.text(coarse_clock=5, exact_clock=8, set_mask=3, detached=2)
        case "win32":
            return Template("runtime/os_windows").text()
        case _:
            own = Template("runtime/os_elsewhere").text()
            return own + posix.text(coarse_clock=1, exact_clock=1, set_mask=3, detached=2)


def _core(machine: str) -> str:
    match machine:
        case "x86_64" | "amd64":
            return Template("runtime/core_x86").text()
        case "aarch64" | "arm64":
            return Template("runtime/core_aarch64").text()
        case _:
            return Template("runtime/core_elsewhere").text()


def native_symbols() -> dict[str, int]:
    """Addresses that `native_text` needs and that the process does not export by itself."""
    if sys.platform != "win32":
        return {}
    kernel = ctypes.WinDLL("KernelBase")
    names = (
        "WaitOnAddress",
        "WakeByAddressSingle",
        "WakeByAddressAll",
        "GetTickCount64",
        "CreateThread",
        "CloseHandle",
        "QueryInterruptTimePrecise",
    )
    return {name: ctypes.cast(getattr(kernel, name), ctypes.c_void_p).value or 0 for name in names}
