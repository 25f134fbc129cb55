"""Items of lists and dicts, attributes of objects and variables of enclosing functions, as variables of a statement.

What the body of a loop or a branch of the program binds anew in an object that the function has made is handed on from
one iteration to the next, and out of the statement, as its own variables are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from types import MemberDescriptorType
from typing import Any

from tracejit.support.errors import TracerError
from tracejit.support.nodes import define
from tracejit.support.source import user_location
from tracejit.tracer.places import held_by_class

__all__ = ["HeldChanges", "Slot"]


@define(eq=False)
class Slot:
    """One place of an object; for a statement, what the cell of a variable is.

    part: `item` of a list, `value` of a dict, `attribute`, or `variable` of an enclosing function.
    """

    holder: Any
    part: str
    key: Any

    @property
    def identity(self) -> tuple[int, str, Any]:
        """The same of slots that are one place."""
        return id(self.holder), self.part, self.key

    @property
    def name(self) -> str:
        """What errors call it."""
        match self.part:
            case "item":
                return f"item {self.key} of a list"
            case "value":
                return f"[{self.key!r:.40}] of a {type(self.holder).__name__}"
            case "attribute":
                return f".{self.key} of a {type(self.holder).__name__}"
            case _:
                return "a variable of an enclosing function"

    @property
    def cell_contents(self) -> Any:
        """What is there.  Raises: ValueError where nothing is."""
        holder, key = self.holder, self.key
        try:
            match self.part:
                case "item":
                    return list.__getitem__(holder, key)
                case "value":
                    return dict.__getitem__(holder, key)
                case "attribute":
                    own = _slot_of(type(holder), key)
                    return _names_of(holder)[key] if own is None else own.__get__(holder)
                case _:
                    return holder.cell_contents
        except (LookupError, AttributeError):
            raise ValueError(f"{self.name} is not there") from None

    @cell_contents.setter
    def cell_contents(self, value: Any) -> None:
        holder, key = self.holder, self.key
        match self.part:
            case "item":
                list.__setitem__(holder, key, value)
            case "value":
                kind: Any = OrderedDict if isinstance(holder, OrderedDict) else dict
                kind.__setitem__(holder, key, value)
            case "attribute":
                own = _slot_of(type(holder), key)
                if own is None:
                    _names_of(holder)[key] = value
                else:
                    own.__set__(holder, value)
            case _:
                holder.cell_contents = value


def _names_of(holder: Any) -> dict[str, Any]:
    return object.__getattribute__(holder, "__dict__")


def _slot_of(kind: type, name: str) -> MemberDescriptorType | None:
    """The descriptor of an attribute that is none of an object's dict."""
    found = held_by_class(kind, name)
    return found if isinstance(found, MemberDescriptorType) else None


class HeldChanges(TracerError):
    """A body binds something anew in objects that are there before and after it.

    slots: where, if a statement can hand all of it on, with what was there before.
    """

    def __init__(self, text: str, slots: Iterable[tuple[Slot, Any]]) -> None:
        super().__init__(text, location=user_location())
        self.slots = tuple(slots)

    def undo(self) -> None:
        """The objects are as they were."""
        for slot, before in self.slots:
            slot.cell_contents = before
