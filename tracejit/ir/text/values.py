"""The text of parameter values: numbers, strings, tuples, dtypes, extents, nested jaxprs,
enumerations and classes with fields.
"""

from __future__ import annotations

import enum
import itertools
import sys
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Count, Dim, Index
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.scalar import ALL_DTYPES
from tracejit.ir.text.tokens import Tokens, print_float
from tracejit.ir.types import ShapedArray
from tracejit.support.dtypes import short_name
from tracejit.support.nodes import fields_of, has_fields

__all__ = ["print_parameters", "print_value", "read_aval", "read_parameters"]

_CONSTANTS: dict[str, Any] = {
    "True": True,
    "False": False,
    "None": None,
    "inf": float("inf"),
    "nan": float("nan"),
    "Ellipsis": ...,
}
_SCALAR: Any = np.generic
_opaque_numbers = itertools.count(1)
_opaque_of: dict[int, tuple[int, Callable[[], Any]]] = {}
_opaque_by_number: dict[int, Callable[[], Any]] = {}


def print_parameters(parameters: dict[str, Any]) -> str:
    """`[axis=0, num_keys=1]`; nothing where there are no parameters."""
    if not parameters:
        return ""
    return "[" + ", ".join([f"{name}={print_value(value)}" for name, value in parameters.items()]) + "]"


def print_value(value: Any) -> str:
    """The text of one parameter value; every kind parses back."""
    cls = cast("Any", type(value))
    printer = _PRINTERS.get(cls)
    if printer is not None:
        return printer(value)
    if issubclass(cls, np.dtype):
        return short_name(value)
    if issubclass(cls, enum.Enum):
        return f"{cls.__name__}.{value.name}"
    if issubclass(cls, _SCALAR) and value.dtype in ALL_DTYPES.values():
        return f"{short_name(value.dtype)}({print_value(value.item())})"
    if hasattr(cls, "_fields"):
        return f"{cls.__name__}({', '.join(map(print_value, value))})"
    if has_fields(cls):
        fields = [(f.alias, getattr(value, f.name)) for f in fields_of(cls) if f.init]
        return f"{cls.__name__}({', '.join(f'{name}={print_value(v)}' for name, v in fields)})"
    return _print_opaque(value)


def _print_tuple(value: tuple[Any, ...]) -> str:
    return f"({print_value(value[0])},)" if len(value) == 1 else "(" + ", ".join(map(print_value, value)) + ")"


def _print_array(value: np.ndarray[Any, Any]) -> str:
    if value.dtype not in ALL_DTYPES.values():
        return _print_opaque(value)
    return f"array({ShapedArray(value.shape, value.dtype)}, {_print_tuple(tuple(value.ravel().tolist()))})"


def _print_opaque(value: Any) -> str:
    """A Python object that has no text: numbered in this process, so that two of them never print the same."""
    known = _opaque_of.get(id(value))
    if known is None or known[1]() is not value:
        try:
            alive: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            alive = _Strong(value)
        known = _opaque_of[id(value)] = (next(_opaque_numbers), alive)
        _opaque_by_number[known[0]] = alive
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"opaque({name!r}, {known[0]})"


class _Strong:
    """Stands in for a weak reference to what cannot have one."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value


_PRINTERS: dict[type, Callable[[Any], str]] = {
    bool: str,
    int: str,
    float: print_float,
    complex: lambda c: f"complex({print_float(c.real)}, {print_float(c.imag)})",
    str: repr,
    bytes: repr,
    type(None): str,
    type(...): lambda _: "Ellipsis",
    tuple: _print_tuple,
    Dim: str,
    Count: lambda c: f"Count({c.number}, {print_value(c.most)}, {c.what!r})",
    Index: lambda i: f"Index({i.number}, {print_value(i.most)})",
    ShapedArray: str,
    Jaxpr: str,
    np.ndarray: _print_array,
    slice: lambda s: f"slice({print_value(s.start)}, {print_value(s.stop)}, {print_value(s.step)})",
    range: lambda r: f"range({r.start}, {r.stop}, {r.step})",
    frozenset: lambda s: f"frozenset({_print_tuple(tuple(sorted(s, key=print_value)))})",
}


class Reader:
    """Reads values; class names mean what they mean in `module`."""

    def __init__(self, tokens: Tokens, module: str, read_jaxpr: Callable[[Tokens], Jaxpr]) -> None:
        self.tokens = tokens
        self.module = module
        self.read_jaxpr = read_jaxpr

    def value(self) -> Any:
        tokens = self.tokens
        start = tokens.at
        token = tokens.next()
        first = token[:1]
        if first == "(":
            return self._items(")")
        if first in "'\"" or token[:2] in ("b'", 'b"'):
            tokens.at = start
            return tokens.string()
        if token[-1:] == "]":
            return read_aval(tokens, token)
        if first.isalpha() or first == "_":
            if tokens.peek == "(" and token not in ("floordiv", "mod", "max", "min", "jaxpr"):
                return self._named(token)
            constant = self._constant(token)
            if constant is not _NO:
                return constant
        if (tokens.peek in ("*", "+", "-", "(") or tokens.peek[:1] == "-" or first.isalpha()) and not _is_float(token):
            tokens.at = start
            found = tokens.extents(",", ")", "]")
            if len(found) != 1:
                tokens.fail("expected a value")
            return found[0]
        try:
            return float(token) if _is_float(token) else int(token)
        except ValueError:
            tokens.fail(f"expected a value, found {token!r}", back=1)

    def _constant(self, token: str) -> Any:
        if token == "jaxpr":
            self.tokens.at -= 1
            return self.read_jaxpr(self.tokens)
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if token in ALL_DTYPES:
            return ALL_DTYPES[token]
        if "." not in token:
            return _NO
        name, _, member = token.rpartition(".")
        try:
            return self._class(name)[member]
        except (KeyError, TypeError):
            self.tokens.fail(f"{name} has no member {member}", back=1)

    def _items(self, close: str) -> tuple[Any, ...]:
        tokens, items = self.tokens, list[Any]()
        while not tokens.accept(close):
            items.append(self.value())
            if not tokens.accept(","):
                tokens.expect(close)
                break
        return tuple(items)

    def _named(self, name: str) -> Any:
        tokens = self.tokens
        tokens.expect("(")
        if name in ALL_DTYPES:
            return ALL_DTYPES[name].type(self._items(")")[0])
        if name == "array":
            aval, items = self._items(")")
            return np.array(items, aval.dtype).reshape(aval.shape)
        if name == "opaque":
            return self._opaque(*self._items(")"))
        builtin = {"slice": slice, "range": range, "complex": complex}.get(name)
        if builtin is not None:
            return builtin(*self._items(")"))
        if name == "frozenset":
            return frozenset(self._items(")")[0])
        cls = self._class(name)
        positional, fields = self._arguments(cls.__module__)
        return cls(*positional, **fields)

    def _arguments(self, module: str) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of a class, whose own class names mean what they mean in its module."""
        tokens, reader = self.tokens, Reader(self.tokens, module, self.read_jaxpr)
        positional: list[Any] = []
        fields: dict[str, Any] = {}
        while not tokens.accept(")"):
            if tokens.items[tokens.at + 1] == "=":
                field = tokens.name()
                tokens.expect("=")
                fields[field] = reader.value()
            else:
                positional.append(reader.value())
            if not tokens.accept(","):
                tokens.expect(")")
                break
        return positional, fields

    def _opaque(self, name: str, number: int) -> Any:
        value = _opaque_by_number.get(number, lambda: None)()
        if value is None:
            self.tokens.fail(
                f"{name} is a Python object without text: only the process that printed it reads it back, while it "
                "lives"
            )
        return value

    def _class(self, name: str) -> Any:
        found = getattr(sys.modules.get(self.module), name, None)
        if not isinstance(found, type):
            self.tokens.fail(
                f"{name!r} is not a class in module {self.module}, where a primitive's values are looked up"
            )
        return found


class _No:
    pass


_NO = _No()


def _is_float(token: str) -> bool:
    return token.lstrip("-") in ("inf", "nan") or (not token[:1].isalpha() and ("." in token or "e" in token))


_AVALS: dict[str, ShapedArray] = {}


def read_aval(tokens: Tokens, token: str) -> ShapedArray:
    """The abstract value that one type token such as `f32~[3, n0]` states."""
    known = _AVALS.get(token)
    if known is not None:
        return known
    head, bracket, rest = token.partition("[")
    weak = head.endswith("~")
    name = head.removesuffix("~")
    if not bracket or name not in ALL_DTYPES:
        tokens.fail(f"expected a type such as f32[3], found {token!r}", back=1)
    inner = Tokens(rest)
    try:
        shape = inner.extents("]")
    except ValueError as error:
        tokens.fail(getattr(error, "what", str(error)), back=1)
    aval = ShapedArray(shape, ALL_DTYPES[name], weak)
    if len(_AVALS) < 10_000:
        _AVALS[token] = aval
    return aval


def read_parameters(tokens: Tokens, module: str, read_jaxpr: Callable[[Tokens], Jaxpr]) -> dict[str, Any]:
    """`field=value, ...]` after the opening bracket, the closing one included."""
    reader = Reader(tokens, module, read_jaxpr)
    found: dict[str, Any] = {}
    while not tokens.accept("]"):
        name = tokens.name("a parameter")
        tokens.expect("=")
        found[name] = reader.value()
        if not tokens.accept(","):
            tokens.expect("]")
            break
    return found
