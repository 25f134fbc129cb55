"""Forms as text, for reading: the name, what is not scalar code on the first line,
then each scalar function as a block.
"""

from __future__ import annotations

from typing import Any, cast

from tracejit.ir.forms import Form, Piece
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.kernel import Const, Lambda
from tracejit.ir.text.kernel import KernelPrinter
from tracejit.ir.text.values import print_value
from tracejit.support.nodes import fields_of

__all__ = ["print_form"]


def print_form(form: Form) -> str:
    """The text of a form."""
    return "\n".join(_lines(form))


def _lines(form: Any) -> list[str]:
    printer = KernelPrinter()
    head: list[str] = [type(form).__name__.lower()]
    inner: list[str] = []
    for field in fields_of(type(form)):
        value = getattr(form, field.name)
        if value == field.default:
            continue
        if isinstance(value, Lambda):
            inner += _function(printer, field.name, value)
        elif _is_nested(value):
            for item in value:
                inner += _nested(item)
        elif isinstance(value, Jaxpr):
            inner += _nested(value)
        else:
            head.append(f"{field.name}={_value(printer, value)}")
    return [" ".join(head), *("  " + line for line in inner)]


def _is_nested(value: Any) -> bool:
    items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    return bool(items) and all(isinstance(item, Piece | Jaxpr | Lambda) for item in items)


def _nested(item: Any) -> list[str]:
    if isinstance(item, Jaxpr):
        return str(item).split("\n")
    return _function(KernelPrinter(), "body", item) if isinstance(item, Lambda) else _lines(item)


def _function(printer: KernelPrinter, name: str, function: Lambda) -> list[str]:
    printer.lines, printer.indent = [], ""
    last = printer.function(function, (), name)
    return [*printer.lines, last]


def _value(printer: KernelPrinter, value: Any) -> str:
    if isinstance(value, Const):
        return printer.use(value)
    if isinstance(value, tuple):
        items = [_value(printer, item) for item in cast("tuple[Any, ...]", value)]
        return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
    name = getattr(value, "__qualname__", None)
    return name if callable(value) and isinstance(name, str) else print_value(value)
