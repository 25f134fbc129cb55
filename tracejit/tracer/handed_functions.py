"""Functions of Python's that a traced function hands to others written in C: `map(type, numbers)`, `filter((9).__lt__,
numbers)`, `max(numbers, key=repr)`.

What is called there is C code itself, which finds traced numbers and extents as they are, not as the numbers they stand
for.  So what calls functions (`map`, `filter`, `sorted`, parts of `itertools` and `functools`) is handed others in
their place.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from types import MethodWrapperType, WrapperDescriptorType
from typing import Any

from tracejit.ir.extents import Dim
from tracejit.tracer.substitutes import REDIRECTED, TEXTS, Redirected, python_number, type_of
from tracejit.tracer.tracer import Tracer

__all__ = ["handed"]

_NUMBERS = (bool, int, float, complex)
"""Each knows those before it, and bool as much as int."""
_UNARY = ("neg", "pos", "abs", "invert")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")


def _operators() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in (*_UNARY, *_COMPARISONS, *_BINARY):
        yield f"__{name}__", getattr(operator, f"__{name}__")
    yield "__divmod__", divmod
    for name in (*_BINARY, "divmod"):
        yield f"__r{name}__", _mirrored(divmod if name == "divmod" else getattr(operator, f"__{name}__"))


def _mirrored(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: operation(y, x)


_OPERATORS = dict(_operators())


def handed(function: Any) -> Any:
    """What stands for a function where other than the traced function's own code calls it.

    >>> list(map(handed((9).__lt__), [4, 20]))
    [False, True]
    """
    if function is type:
        return type_of
    if any(function is x for x in TEXTS):
        return TEXTS[function]
    if type(function) is MethodWrapperType and isinstance(function.__self__, _NUMBERS):
        kind, given = type(function.__self__), (function.__self__,)
    elif type(function) is WrapperDescriptorType and function.__objclass__ in _NUMBERS:
        kind, given = function.__objclass__, ()
    else:
        return function
    operation = _OPERATORS.get(function.__name__)
    if kind not in _NUMBERS or operation is None:
        return function

    def call(*args: Any) -> Any:
        if not any(isinstance(x, (Tracer, Dim)) for x in args):
            return function(*args)
        operands = [_as(kind, x) for x in (*given, *args)]
        if any(x is NotImplemented for x in operands):
            return NotImplemented
        return operation(*operands)

    return call


def _as(kind: type, x: Any) -> Any:
    """An operand of one of the methods of a class of numbers, NotImplemented if they do not know its class."""
    have = next((base for base in type_of(x).__mro__ if base in _NUMBERS), None)
    if have is None or _NUMBERS.index(have) > max(1, _NUMBERS.index(kind)):
        return NotImplemented
    return python_number(x, have) if isinstance(x, Tracer) and not x.aval.weak else x


def _by(original: Any, place: int | None = 0, keyword: str = "") -> None:
    """Has `original` be handed others: as the argument at a place, or by keyword."""
    before = REDIRECTED.get(id(original))
    calls = original if before is None else before.substitute

    def call(*args: Any, **kwargs: Any) -> Any:
        if place is not None and len(args) > place:
            args = (*args[:place], handed(args[place]), *args[place + 1 :])
        if keyword in kwargs:
            kwargs[keyword] = handed(kwargs[keyword])
        return calls(*args, **kwargs)

    call = call if isinstance(original, type) else functools.update_wrapper(call, original)
    REDIRECTED[id(original)] = Redirected(original, call)


for _original in (builtins.map, builtins.filter, functools.partial, functools.reduce, itertools.starmap):
    _by(_original)
for _original in (itertools.filterfalse, itertools.takewhile, itertools.dropwhile):
    _by(_original)
_by(itertools.accumulate, 1, "func")
_by(itertools.groupby, 1, "key")
for _original in (builtins.sorted, builtins.max, builtins.min):
    _by(_original, None, "key")
