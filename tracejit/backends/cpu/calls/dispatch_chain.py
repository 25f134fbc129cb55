"""`tj_dispatch`, the C function behind every `NativeDispatcher.callable`,
and the functions that change a dispatcher's chain, as LLVM IR.

They know the words of a dispatcher's state and of an entry's record by the numbers below; `dispatch` lays them out.
"""

from __future__ import annotations

from tracejit.backends.callable import FUNCTION_STATE
from tracejit.backends.cpu.runtime.templates import Template
from tracejit.backends.cpython import Layout
from tracejit.support.nodes import as_dict

__all__ = [
    "CAPACITY", "CHAIN", "CONSTANTS", "COUNT", "FUNCTION", "HOLDER", "METHOD", "MISS", "NAME", "RECORD_WORDS", "STAMP",
    "chain_text",
]  # fmt: skip

CAPACITY = 64
"""How many entries a dispatcher keeps; a further one replaces the least recently used."""

_SHORT = 8  # up to here the chain is simply tried in order, a hit moves to the front
_HINTS = 64  # a power of two

# Words of a dispatcher's state: how many entries, the callable for a miss, a clock, a PyMethodDef, the chain, the
# hints, its name.
COUNT, MISS, _CLOCK, METHOD, CHAIN = 0, 1, 2, 4, 8
_HINT = CHAIN + CAPACITY
NAME = _HINT + _HINTS
# Words of an entry's record: its function, its constants, the object that holds both, when it was used last.
FUNCTION, CONSTANTS, HOLDER, STAMP, RECORD_WORDS = 0, 1, 2, 3, 4


def chain_text(at: Layout) -> str:
    """The definitions, for the module that `entry_support.support_text` begins."""
    return Template("calls/dispatch_chain").text(
        as_dict(at),
        chain_word=CHAIN,
        chain_bytes=8 * CHAIN,
        miss_bytes=8 * MISS,
        clock_word=_CLOCK,
        hints_word=_HINT,
        hints_bytes=8 * _HINTS,
        hint_mask=_HINTS - 1,
        short=_SHORT,
        stamp_word=STAMP,
        function_state=FUNCTION_STATE,
        count_type="i64" if at.wide_refcount else "i32",
    )
