"""LLVM IR that is written by hand: the files `*.ll` of this folder's parent, each beside the module that uses it.

`${name}` is a hole for what Python knows: an offset, a limit, a type. A file is read when its text is asked for, not at
import.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tracejit.support.errors import InternalError

__all__ = ["Template"]

_FOLDER = Path(__file__).parent.parent


class Template:
    """The file of that name, `Template("runtime/pool")` for runtime/pool.ll."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def text(self, record: Mapping[str, object] | None = None, /, **values: object) -> str:
        """The file's text with all holes filled.

        record: more names and values, as of a struct's fields; the file need not use them all.

        Raises: InternalError for a hole without a value, and for one of `values` without a hole.
        """
        head, *rest = (_FOLDER / f"{self.name}.ll").read_text("utf-8").split("${")
        parts = [part.partition("}") for part in rest]
        holes = {hole for hole, _, _ in parts}
        every = {**(record or {}), **values}
        if empty := sorted(holes - every.keys()):
            raise InternalError(f"{self.name}.ll has holes without a value: {', '.join(empty)}")
        if unknown := sorted(values.keys() - holes):
            raise InternalError(f"{self.name}.ll has no holes for these values: {', '.join(unknown)}")
        return head + "".join(f"{every[hole]}{after}" for hole, _, after in parts)
