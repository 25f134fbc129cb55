"""Programs of a test module, listed where they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Cases:
    """functions: all of them.  on_every_backend: those that run on other backends too."""

    def __init__(self) -> None:
        self.functions: list[Callable[..., Any]] = []
        self.on_every_backend: list[Callable[..., Any]] = []

    def case(self, f: Callable[..., Any]) -> Callable[..., Any]:
        self.functions.append(f)
        return f

    def everywhere(self, f: Callable[..., Any]) -> Callable[..., Any]:
        self.on_every_backend.append(f)
        return self.case(f)
