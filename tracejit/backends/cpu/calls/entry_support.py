"""The functions that compiled entries call, as LLVM IR: work that loops or is rare, so that entries stay short."""

from __future__ import annotations

from tracejit.backends.cpu.runtime.templates import Template
from tracejit.backends.cpython import Layout
from tracejit.ir.ranges import ARGUMENTS
from tracejit.support.nodes import as_dict

__all__ = ["SUPPORT_FUNCTIONS", "support_text"]

SUPPORT_FUNCTIONS = (
    "tj_dict_values", "tj_disjoint", "tj_entry_status", "tj_int_value", "tj_keyword_values", "tj_keywords_in_order",
    "tj_match_arrays", "tj_release", "tj_static_equal", "tj_watched",
)  # fmt: skip
"""What entries may call; `dispatch.ensure_loaded` makes the names known."""


def support_text(at: Layout) -> str:
    """The definitions, with the declarations they need; also `@word`,
    `@read` and `@read_i64` to inline in other functions.
    """
    largest = ARGUMENTS[1]
    return Template("calls/entry_support").text(
        as_dict(at),
        complex_imaginary=at.complex_value + 8,
        long_tag=str(at.long_tag).lower(),
        most_argument=largest,
        twice_most_argument=2 * largest,
    )
