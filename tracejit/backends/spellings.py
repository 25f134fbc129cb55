"""What is wrong with a spelling of a scalar operation: templates of text, and functions."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from string import Formatter

__all__ = ["fault_of_function", "fault_of_template"]


def fault_of_template(
    spelling: object, arity: int, kind: str, named: Iterable[str] = (), *, lines: bool = False
) -> str:
    """Why something is no template over the operands {0}, {1}, ..., as the rest of a sentence; empty if it is one.

    kind: what its text is, in the plural.  named: other fields that it may have.  lines: whether there may be several,
    all but the last of them `name = text`, after which {name} is a field too.
    """
    if not isinstance(spelling, str):
        return f"is a template of {kind}, not {spelling!r}"
    if not spelling.strip():
        return "is empty"
    known = [*map(str, range(arity)), *named]
    for line in spelling.strip().splitlines() if lines else [spelling]:
        name, equals, text = line.strip().partition(" = ") if lines else ("", "", line)
        try:
            fields = list(Formatter().parse(text if equals else line))
        except ValueError as error:
            return f"is no template: {error}; braces of the text itself are doubled"
        for _, field, form, conversion in fields:
            if field is not None and (field not in known or form or conversion):
                given = field + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
                fields_known = ", ".join(f"{{{n}}}" for n in known)
                return f"names {given!r}, which there is not; it may have {fields_known}: {spelling!r}"
        if equals:
            known.append(name)
    return ""


def fault_of_function(spelling: object, arity: int) -> str:
    """Why something is no function of so many NumPy arrays, as the rest of a sentence; empty if it is one."""
    if not callable(spelling):
        return f"is a function of NumPy arrays, not {spelling!r}"
    try:
        inspect.signature(spelling).bind(*range(arity))
    except ValueError:  # a built-in function that does not tell
        return ""
    except TypeError as error:
        return f"is called with {arity} arrays, which it does not take: {error}"
    return ""
