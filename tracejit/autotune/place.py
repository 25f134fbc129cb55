"""Where tuned schedules are kept; apart from the database, which programs without one need not load."""

from __future__ import annotations

from pathlib import Path

from tracejit.support.config import variable
from tracejit.support.platform import user_cache

__all__ = ["database_path"]


def database_path() -> Path | None:
    """The file of tuned schedules: TRACEJIT_TUNE_DB (empty: nowhere), else one in the user's cache directory."""
    named = variable("TUNE_DB")
    if named is not None:
        return Path(named) if named else None
    cache = user_cache()
    return None if cache is None else cache / "tracejit" / "schedules.txt"
