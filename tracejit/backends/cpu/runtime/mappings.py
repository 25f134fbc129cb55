"""How many memory mappings the process has, and may have."""

from __future__ import annotations

__all__ = ["count", "limit"]


def limit() -> int:
    """How many mappings a process may have; a number out of reach where the system does not say so."""
    try:
        with open("/proc/sys/vm/max_map_count", "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 1 << 62


def count() -> int:
    """How many mappings this process has."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return file.read().count(b"\n")
    except OSError:
        return 0
