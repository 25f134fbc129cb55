"""Forks wait for locks, in the order in which threads take them.

Python runs what is registered with `os.register_at_fork` for before a fork in the reverse order, so a lock that is
taken inside of another would be taken first, and a thread that holds the outer one waits for it: a deadlock.
"""

import os
import threading
from collections.abc import Callable

__all__ = ["at_fork"]

_waits: list[tuple[Callable[[], object], Callable[[], object], Callable[[], object]]] = []
_begun: dict[int, int] = {}  # thread that forks -> how many of them wait: others may be added meanwhile


def at_fork(before: Callable[[], object], in_parent: Callable[[], object], in_child: Callable[[], object]) -> None:
    """Call `before` before each fork, after those that were given earlier, and one of the others after it,
    in the reverse order.
    """
    _waits.append((before, in_parent, in_child))


def _before() -> None:
    count = len(_waits)
    for before, _, _ in _waits[:count]:
        before()
    _begun[threading.get_ident()] = count


def _in_parent() -> None:
    for _, in_parent, _ in reversed(_waits[: _begun.pop(threading.get_ident())]):
        in_parent()


def _in_child() -> None:
    for _, _, in_child in reversed(_waits[: _begun.pop(threading.get_ident())]):
        in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
