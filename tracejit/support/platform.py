"""What the operating system has for this process: processors, memory, and a place for files that can be made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tracejit.support.config import variable

__all__ = ["available_cpus", "cache_folder", "physical_memory", "thread_count", "user_cache"]


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


def cache_folder() -> Path | None:
    """Where what is made once for a machine is kept: TRACEJIT_CACHE_DIR (empty: nowhere), else a folder of the user's
    cache; None if there is none.
    """
    named = variable("CACHE_DIR")
    if named is not None:
        return Path(named) if named else None
    cache = user_cache()
    return None if cache is None else cache / "tracejit"


def physical_memory() -> int:
    """Bytes of main memory, 4 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 << 30
