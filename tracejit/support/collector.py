"""Python's garbage collector while this package is imported and a process compiles its first function.

Both make a hundred thousand objects that stay, which collections would walk several times, a tenth of the time.  They
are handed to the oldest generation instead.  Later compilations leave the collector alone: what they make goes again.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["first_call", "kept"]

_once = threading.Lock()


@contextmanager
def kept() -> Generator[None]:
    """A block in which nothing is collected, for what makes objects that stay."""
    mine = gc.isenabled() and not gc.get_freeze_count()
    if mine:
        gc.disable()
    try:
        yield
    finally:
        if mine:
            gc.freeze()
            gc.unfreeze()  # both together make everything old
            gc.enable()


@contextmanager
def first_call() -> Generator[None]:
    """The same, the first time that a process comes to such a block."""
    if not _once.acquire(blocking=False):
        yield
        return
    with kept():
        yield
