"""Python's signal handlers wait while the objects of a C library are in between.

A handler may raise between any two operations of the main thread, as Ctrl-C does: also where a library has freed
memory and not yet noted so, which is then freed again.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["undisturbed"]

_NAMES = "SIGINT SIGBREAK SIGTERM SIGHUP SIGQUIT SIGALRM SIGVTALRM SIGPROF SIGUSR1 SIGUSR2"  # that Python code handles
_SIGNALS = [getattr(signal, name) for name in _NAMES.split() if hasattr(signal, name)]
_waiting = False


@contextmanager
def undisturbed() -> Generator[None]:
    """A block in which no handler of a signal runs; those of signals that came meanwhile run at its end, in order.

    Handlers run in the main thread only, so in others there is nothing to do.
    """
    global _waiting
    if _waiting or threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))}
    came: list[tuple[int, FrameType | None]] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    try:
        _waiting = True
        for number in handlers:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is note:
                signal.signal(number, handler)
        _waiting = False
        for number, frame in came:
            handlers[number](number, frame)
