"""The variables that the blocks of a statement share with the function around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CellType, CodeType
from typing import Any

from tracejit.tracer.slots import Slot

__all__ = ["ITEM", "RETURNED", "UNBOUND", "Variables", "codes_within", "is_flag"]

ITEM = "item@"
"""The parameter of the block of a `for`."""

RETURNED = "value@"
"""The name of what a function returns from within a loop: None there is what it returns without one."""
_FLAGS = ("break", "continue", "return", "value", "test")


def is_flag(text: str) -> bool:
    """Whether a name is one that a jump or a test has become: `break@12:4`, `test@12:7`, `return@` and the `value@`
    that it returns.
    """
    return "@" in text and text.split("@")[0] in _FLAGS


class _Unbound:
    def __repr__(self) -> str:
        return "unbound"


UNBOUND: Any = _Unbound()
"""The value of a variable that has none."""


def codes_within(code: CodeType) -> Iterator[CodeType]:
    """A code and those of the functions in it."""
    yield code
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield from codes_within(c)


class Variables:
    """Those of some blocks that have one of `names`, and what they were before.

    slots: places of objects that the blocks bind anew, too, by what errors call them.
    """

    def __init__(
        self, blocks: Iterable[Callable[..., Any] | None], names: Sequence[str], slots: Sequence[Slot] = ()
    ) -> None:
        self.blocks, self.names = tuple(blocks), names
        self.slots: dict[str, Slot] = {}
        self.cells: dict[str, CellType | Slot] = {}
        self.seen: dict[str, CellType] = {}  # also what blocks only read
        self.codes: list[CodeType] = []
        for block in self.blocks:
            if block is not None:
                self.codes.append(block.__code__)
                self.seen.update(zip(block.__code__.co_freevars, block.__closure__ or (), strict=True))
        self.cells.update({name: cell for name, cell in self.seen.items() if name in names})
        for slot in slots:
            same = sum(slot.name == other.name for other in self.slots.values())
            self.slots[slot.name + f" ({same + 1})" * bool(same)] = slot
        self.cells.update(self.slots)
        self.before: dict[str, Any] = {name: self[name] for name in self.cells}

    def __getitem__(self, name: str) -> Any:
        try:
            return self.cells[name].cell_contents
        except ValueError:
            return UNBOUND

    def __setitem__(self, name: str, value: Any) -> None:
        cell = self.cells[name]
        if value is not UNBOUND:
            cell.cell_contents = value
        elif isinstance(cell, CellType) and self[name] is not UNBOUND:
            del cell.cell_contents

    def read(self, name: str) -> Any:
        """What a variable of the blocks is now; UNBOUND also of one that they do not have."""
        try:
            return self.seen[name].cell_contents
        except (KeyError, ValueError):
            return UNBOUND

    def may_be_caught_unbound(self) -> bool:
        """Whether the blocks could go on after they read a variable without a value: they catch errors."""
        return any(c.co_exceptiontable for code in self.codes for c in codes_within(code))

    def joined_by(self, slots: Sequence[Slot]) -> Variables:
        """The variables as they are now, with these places of objects."""
        return Variables(self.blocks, self.names, slots)

    def restore(self) -> None:
        """Everything is as it was before."""
        for name, value in self.before.items():
            self[name] = value
