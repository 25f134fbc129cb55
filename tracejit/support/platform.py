"""What differs between systems: processors and memory at hand, and the few native calls
of the run time as LLVM IR text.

The tests run on Linux, x86-64. The texts for aarch64, macOS, Windows and other POSIX systems are parsed and verified by
the tests, but have not been run.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

from tracejit.support.config import variable

__all__ = ["available_cpus", "native_symbols", "native_text", "physical_memory", "thread_count"]

_FUTEX_NUMBER = {
    "x86_64": 202, "amd64": 202, "aarch64": 98, "arm64": 98, "riscv64": 98, "loongarch64": 98, "ppc64le": 221,
    "s390x": 238,
}  # fmt: skip


def available_cpus() -> int:
    """How many processors this process may use: its affinity mask, and a container's quota where there is one."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(affinity, _cgroup_quota()))


def _cgroup_quota(path: str = "/sys/fs/cgroup/cpu.max") -> int:
    """The container's processor quota, rounded up; very large where none is set."""
    unlimited = 1 << 30
    try:
        quota, period = Path(path).read_text(encoding="ascii").split()[:2]
        return unlimited if quota == "max" else -(-int(quota) // int(period))
    except (OSError, ValueError):
        return unlimited


def thread_count() -> int:
    """How many threads parallel loops use, the caller included: TRACEJIT_THREADS, or `available_cpus()`.

    Raises: ValueError if TRACEJIT_THREADS is not a positive integer.
    """
    text = variable("THREADS")
    if not text:
        return available_cpus()
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"TRACEJIT_THREADS must be a positive integer, not {text!r}.")
    return int(text)


def user_cache() -> Path | None:
    """The user's directory for what can be made again, None if there is none.

    Source: the XDG base directory specification; LOCALAPPDATA on Windows, Library/Caches on macOS.
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) if base and os.path.isabs(base) else None


def physical_memory() -> int:
    """Bytes of main memory, 4 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 << 30


def native_text(system: str = sys.platform, machine: str = "") -> str:
    """IR text of internal functions that every run-time module may include.

    void @os_wait(ptr word, i32 expected, i32 milliseconds): sleep while the i32 equals `expected`, until woken or, if
    `milliseconds` is
        positive, that long; may return early.
    void @os_wake(ptr word, i32 count): wake up to `count` sleepers.
    i64 @os_milliseconds(): a clock that never goes back; a few milliseconds exact, cheap.
    i64 @os_nanoseconds(): another; exact, 25 ns a reading.
    i32 @os_spawn(ptr fn, ptr arg): start a detached thread that runs `ptr fn(ptr arg)`; 0 if it could. It takes no
    signals but its own
        faults: Python's handlers stay with Python's threads.
    void @os_prefer_huge_pages(ptr data, i64 bytes): a hint for memory not touched yet, aligned to 2 MiB.
    void @os_pause(): tell the core that this is a spin loop.
    i32 @os_float_mode(), void @os_set_float_mode(i32): rounding and denormals of this thread.
    """
    machine = (machine or platform.machine()).lower()
    match system:
        case "linux" if machine in _FUTEX_NUMBER:
            return _linux(_FUTEX_NUMBER[machine]) + _spawn(set_mask=2) + _HUGE_LINUX + _core_text(machine)
        case "darwin":
            return _DARWIN + _spawn(set_mask=3) + _HUGE_ELSEWHERE + _core_text(machine)
        case "win32":
            return _WINDOWS + _HUGE_ELSEWHERE + _core_text(machine)
        case _:
            return _POSIX + _spawn(set_mask=3) + _HUGE_ELSEWHERE + _core_text(machine)


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


def _core_text(machine: str) -> str:
    match machine:
        case "x86_64" | "amd64":
            return _X86
        case "aarch64" | "arm64":
            return _AARCH64
        case _:
            return _ANY_CORE


def _linux(futex: int) -> str:
    # Futex operations 128 and 129: wait and wake, private; the time-out is relative. Clocks: CLOCK_MONOTONIC_COARSE (5
    # ns a reading) and CLOCK_MONOTONIC.
    return f"""
declare i64 @syscall(i64, ...)
define internal void @os_wait(ptr %word, i32 %expected, i32 %milliseconds) alwaysinline {{
  %limited = icmp sgt i32 %milliseconds, 0
  %time = alloca [2 x i64]
  %total = zext i32 %milliseconds to i64
  %seconds = udiv i64 %total, 1000
  %rest = urem i64 %total, 1000
  %nanoseconds = mul i64 %rest, 1000000
  %time1 = getelementptr i64, ptr %time, i64 1
  store i64 %seconds, ptr %time
  store i64 %nanoseconds, ptr %time1
  %timeout = select i1 %limited, ptr %time, ptr null
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 128, i32 %expected, ptr %timeout)
  ret void
}}
define internal void @os_wake(ptr %word, i32 %count) alwaysinline {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 129, i32 %count)
  ret void
}}
{_clocks(6, 1)}"""


def _clocks(coarse: int, exact: int) -> str:
    return f"""
declare i32 @clock_gettime(i32, ptr)
define internal i64 @os_milliseconds() alwaysinline {{
  %now = call i64 @os_clock(i32 {coarse})
  %r = udiv i64 %now, 1000000
  ret i64 %r
}}
define internal i64 @os_nanoseconds() alwaysinline {{
  %now = call i64 @os_clock(i32 {exact})
  ret i64 %now
}}
define internal i64 @os_clock(i32 %clock) alwaysinline {{
  %time = alloca [2 x i64]
  %r = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %time1 = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %time1
  %a = mul i64 %seconds, 1000000000
  %b = add i64 %a, %nanoseconds
  ret i64 %b
}}
"""


def _spawn(set_mask: int) -> str:
    # 2,048 bytes hold a sigset_t or pthread_attr_t of any system. Signals 4 to 8, 10 and 11 are the faults (ILL TRAP
    # ABRT BUS FPE SEGV). musl and macOS give threads 128 and 512 KiB of stack unless asked; pages that are not touched
    # cost nothing.
    faults = "\n".join(f"  call i32 @sigdelset(ptr %mask, i32 {signal})" for signal in (4, 5, 6, 7, 8, 10, 11))
    return f"""
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
define internal i32 @os_spawn(ptr %fn, ptr %arg) alwaysinline {{
  %attributes = alloca [256 x i64]
  %mask = alloca [256 x i64]
  %old = alloca [256 x i64]
  %id = alloca i64
  call i32 @pthread_attr_init(ptr %attributes)
  call i32 @pthread_attr_setstacksize(ptr %attributes, i64 8388608)
  call i32 @pthread_attr_setdetachstate(ptr %attributes, i32 {1 if set_mask == 2 else 2})
  call i32 @sigfillset(ptr %mask)
{faults}
  call i32 @pthread_sigmask(i32 {set_mask}, ptr %mask, ptr %old)
  %failed = call i32 @pthread_create(ptr %id, ptr %attributes, ptr %fn, ptr %arg)
  call i32 @pthread_sigmask(i32 {set_mask}, ptr %old, ptr null)
  call i32 @pthread_attr_destroy(ptr %attributes)
  ret i32 %failed
}}
"""


# UL_COMPARE_AND_WAIT = 1, ULF_NO_ERRNO = 0x01000000, ULF_WAKE_ALL = 0x100; the time-out counts microseconds, 0 is none.
# Not a documented interface, but the one that the system's own C++ library stands on. Clocks:
# CLOCK_MONOTONIC_RAW_APPROX and CLOCK_UPTIME_RAW.
_DARWIN = f"""
declare i32 @__ulock_wait(i32, ptr, i64, i32)
declare i32 @__ulock_wake(i32, ptr, i64)
define internal void @os_wait(ptr %word, i32 %expected, i32 %milliseconds) alwaysinline {{
  %value = zext i32 %expected to i64
  %limited = icmp sgt i32 %milliseconds, 0
  %scaled = mul i32 %milliseconds, 1000
  %timeout = select i1 %limited, i32 %scaled, i32 0
  %r = call i32 @__ulock_wait(i32 16777217, ptr %word, i64 %value, i32 %timeout)
  ret void
}}
define internal void @os_wake(ptr %word, i32 %count) alwaysinline {{
  %many = icmp sgt i32 %count, 1
  %operation = select i1 %many, i32 16777473, i32 16777217
  %r = call i32 @__ulock_wake(i32 %operation, ptr %word, i64 0)
  ret void
}}
{_clocks(5, 8)}"""

# WaitOnAddress compares the bytes at the address with those at a second address; time-out in milliseconds, -1 is none.
_WINDOWS = """
declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressSingle(ptr)
declare void @WakeByAddressAll(ptr)
declare i64 @GetTickCount64()
declare void @QueryInterruptTimePrecise(ptr)
define internal i64 @os_nanoseconds() {
  %cell = alloca i64
  call void @QueryInterruptTimePrecise(ptr %cell)
  %hundreds = load i64, ptr %cell
  %now = mul i64 %hundreds, 100
  ret i64 %now
}
declare ptr @CreateThread(ptr, i64, ptr, ptr, i32, ptr)
declare i32 @CloseHandle(ptr)
define internal i32 @os_spawn(ptr %fn, ptr %arg) alwaysinline {
  %handle = call ptr @CreateThread(ptr null, i64 8388608, ptr %fn, ptr %arg, i32 65536, ptr null)
  %none = icmp eq ptr %handle, null
  br i1 %none, label %failed, label %running
running:
  call i32 @CloseHandle(ptr %handle)
  ret i32 0
failed:
  ret i32 1
}
define internal void @os_wait(ptr %word, i32 %expected, i32 %milliseconds) alwaysinline {
  %value = alloca i32
  store i32 %expected, ptr %value
  %limited = icmp sgt i32 %milliseconds, 0
  %timeout = select i1 %limited, i32 %milliseconds, i32 -1
  %r = call i32 @WaitOnAddress(ptr %word, ptr %value, i64 4, i32 %timeout)
  ret void
}
define internal void @os_wake(ptr %word, i32 %count) alwaysinline {
  %many = icmp sgt i32 %count, 1
  br i1 %many, label %all, label %one
one:
  call void @WakeByAddressSingle(ptr %word)
  ret void
all:
  call void @WakeByAddressAll(ptr %word)
  ret void
}
define internal i64 @os_milliseconds() alwaysinline {
  %now = call i64 @GetTickCount64()
  ret i64 %now
}
"""

# No way to sleep on a word: sleep 100 us while it has not changed. Nobody has to wake such a sleeper.
_POSIX = f"""
declare i32 @usleep(i32)
define internal void @os_wait(ptr %word, i32 %expected, i32 %milliseconds) alwaysinline {{
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %expected
  br i1 %same, label %sleep, label %leave
sleep:
  %r = call i32 @usleep(i32 100)
  br label %leave
leave:
  ret void
}}
define internal void @os_wake(ptr %word, i32 %count) alwaysinline {{
  ret void
}}
{_clocks(1, 1)}"""

# 14 is MADV_HUGEPAGE. A first write to 64 MB took 37 ms with small pages and 9 with huge ones (2 cores, Zen 4, a
# virtual machine).
_HUGE_LINUX = """
declare i32 @madvise(ptr, i64, i32)
define internal void @os_prefer_huge_pages(ptr %data, i64 %bytes) alwaysinline {
  %whole = and i64 %bytes, -2097152
  %r = call i32 @madvise(ptr %data, i64 %whole, i32 14)
  ret void
}
"""

_HUGE_ELSEWHERE = """
define internal void @os_prefer_huge_pages(ptr %data, i64 %bytes) alwaysinline {
  ret void
}
"""

_X86 = """
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal void @os_pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
define internal i32 @os_float_mode() alwaysinline {
  %cell = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %cell)
  %flags = load i32, ptr %cell
  %mode = and i32 %flags, -64
  ret i32 %mode
}
define internal void @os_set_float_mode(i32 %mode) alwaysinline {
  %cell = alloca i32
  store i32 %mode, ptr %cell
  call void @llvm.x86.sse.ldmxcsr(ptr %cell)
  ret void
}
"""

_AARCH64 = """
declare void @llvm.aarch64.isb(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal void @os_pause() alwaysinline {
  call void @llvm.aarch64.isb(i32 15)
  ret void
}
define internal i32 @os_float_mode() alwaysinline {
  %flags = call i64 @llvm.aarch64.get.fpcr()
  %mode = trunc i64 %flags to i32
  ret i32 %mode
}
define internal void @os_set_float_mode(i32 %mode) alwaysinline {
  %flags = zext i32 %mode to i64
  call void @llvm.aarch64.set.fpcr(i64 %flags)
  ret void
}
"""

_ANY_CORE = """
define internal void @os_pause() alwaysinline {
  fence seq_cst
  ret void
}
define internal i32 @os_float_mode() alwaysinline {
  ret i32 0
}
define internal void @os_set_float_mode(i32 %mode) alwaysinline {
  ret void
}
"""
