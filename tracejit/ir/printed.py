"""How nodes become text: printers know the nodes that they print, and register here; nodes know no printer."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["PRINTERS", "printed"]

PRINTERS: dict[str, Callable[[Any], str]] = {}
"""What prints each kind of node; `ir/text` fills it."""


def printed(kind: str, node: Any) -> str:
    """The text of a node."""
    if not PRINTERS:
        import_module("tracejit.ir.text")  # for speed of import

    return PRINTERS[kind](node)
