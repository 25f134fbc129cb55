"""Lists, dicts and other containers of which only the program knows whether they are one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import define, field
from tracejit.support.source import Location, user_location
from tracejit.support.tree import split_node

__all__ = ["GivenContainers"]


@define(eq=False)
class GivenContainers:
    """Those that branches give, or have given instead, and what they held then: they may not change any more."""

    held: list[tuple[Any, Any, tuple[Any, ...], Location | None]] = field(
        factory=list["tuple[Any, Any, tuple[Any, ...], Location | None]"]
    )

    def add(self, containers: Sequence[Any]) -> None:
        """From now on these stay as they are."""
        for x in containers:
            split = split_node(x)
            assert split is not None
            _, data, children = split
            self.held.append((x, data, tuple(children), user_location()))

    def has(self, x: Any) -> bool:
        """Whether something is among them."""
        return any(x is y for y, *_ in self.held)

    def check(self) -> None:
        """Raises: UnsupportedError where one has changed."""
        for x, data, children, location in self.held:
            split = split_node(x)
            same = split is not None and split[1] == data and len(split[2]) == len(children)
            if not same or not all(a is b for a, b in zip(split[2], children, strict=True)):  # type: ignore[index]
                raise UnsupportedError(
                    f"a {type(x).__name__} is changed that may have two names, depending on the data: what a branch "
                    "gives here, or an index or a key that data decide, is one of several that were there before; "
                    "change it where it is known which one it is, or a copy of it (list(x), dict(x), copy.copy(x))",
                    location=location,
                )

    def clear(self) -> None:
        """What was recorded is given up."""
        self.held.clear()
