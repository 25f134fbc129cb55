"""Where tuned schedules are kept; apart from the database, which programs without one need not load."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["database_path"]


def database_path() -> Path | None:
    """The file of tuned schedules: TRACEJIT_TUNE_DB (empty: nowhere), else one in the user's cache directory."""
    named = os.environ.get("TRACEJIT_TUNE_DB")
    if named is not None:
        return Path(named) if named.strip() else None
    return _cache_directory() / "tracejit" / "schedules.txt"


def _cache_directory() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
