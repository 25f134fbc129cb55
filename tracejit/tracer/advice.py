"""What to write instead where Python asks a traced array for its value: it depends on what asks."""

from __future__ import annotations

import importlib
import sys
from types import FrameType
from typing import Any

import numpy as np

from tracejit.support.config import config
from tracejit.support.source import Location, is_internal
from tracejit.support.syntax import construct
from tracejit.tracer.ownership import is_installed
from tracejit.tracer.statements.source import why_not

__all__ = ["for_attribute", "for_function", "for_index", "for_number", "for_package", "for_truth", "full_name"]

_CHOOSE = (
    "use np.where(condition, a, b) or a mask (x[mask] = value) to choose elements, tj.lax.cond(condition, f, g, x) to "
    "run one of two "
    "functions"
)
_LOOPS = "loops are tj.range(n), of n steps, and tj.lax.while_loop(condition, body, state)"

_TRUTH = {
    "if": ("a branch (`if`)", f"{_CHOOSE}; {_LOOPS}"),
    "break": (
        "a branch (`if`) that leaves a loop",
        f"use tj.lax.while_loop(condition, body, state), which ends when its condition fails; else {_CHOOSE}, or "
        "tj.range for the loop",
    ),
    "while": (
        "a `while`",
        "use tj.lax.while_loop(condition, body, state), or tj.range(n) with np.where or masks if the number of steps "
        "is known",
    ),
    "assert": ("an `assert`", "return the condition and check it outside of the compiled function"),
    "and": (
        "`and`, `or` or `not`",
        "use &, | and ~ on comparisons in parentheses, or np.logical_and, np.logical_or and np.logical_not",
    ),
    "chain": ("a chained comparison (a < x < b)", "use (a < x) & (x < b)"),
    "in": ("`in`", "use np.any(x == value)"),
    "filter": (
        "the `if` of a comprehension",
        "use np.where(condition, a, b), or a mask (x[mask]) with np.sum and other sums",
    ),
    "any()": ("any()", "use np.any(x)"),
    "all()": ("all()", "use np.all(x)"),
    "sorted()": ("sorted()", "sort outside of the compiled function"),
    "min()": ("min() with these arguments", "use np.min(x), or np.minimum(x, y) of two"),
    "max()": ("max() with these arguments", "use np.max(x), or np.maximum(x, y) of two"),
    "filter()": ("filter()", "use np.where(condition, a, b) or a mask (x[mask])"),
    "index()": ("index()", "use np.argmax(x == value)"),
    "count()": ("count()", "use np.sum(x == value)"),
    "remove()": ("remove()", "compare by `is`, or keep the arrays in a dict"),
}


def for_truth(location: Location | None) -> tuple[str, str]:
    """(what needs the truth value, what to write instead)"""
    found = _TRUTH.get(construct(location))
    if found is not None:
        return found
    return "a branch (`if`, `while`, `and`, `or`)", f"{_without_source(location)}{_CHOOSE}; {_LOOPS}"


def _without_source(location: Location | None) -> str:
    """That a function's branches would be compiled if its source were to be had, which is not so at every prompt."""
    why = why_not(location.code) if location is not None and config.statements else None
    if location is None or why is None:
        return ""
    return (
        f"branches and loops of Python's are compiled where the source of a function is known, not in "
        f"{location.code.co_name} ({why}): put it into a file; or "
    )


_INDEX = {
    "range()": ("range()", "use tj.range(n) for a loop, or make the argument a Python number"),
    "index": (
        "an index of a list or another sequence of Python's",
        "use np.stack(items)[i] for arrays of one shape, or tj.lax.switch(i, functions)",
    ),
    "slice": (
        "a slice",
        "for a block of known size use tj.lax.dynamic_slice(x, starts, sizes), for part of an array a mask (x[mask])",
    ),
}


def for_index(location: Location | None) -> tuple[str, str]:
    """(what needs the integer, what to write instead)"""
    kind = construct(location)
    found = _INDEX.get(kind)
    if found is None and kind.endswith("()"):
        return f"a shape, count or axis in {kind}", "make it a Python number, or take it from a shape (x.shape[0])"
    return found or (
        "range(), a shape or a list index",
        "use tj.range(n) for a loop, or make the argument a Python number",
    )


_OUTSIDE = "call it before or after the compiled function"
_FUNCTIONS = {
    "np.array_str": "print outside of the compiled function", "np.array_repr": "print outside of the compiled function",
    "np.array2string": "print outside of the compiled function",
}  # fmt: skip


def full_name(function: Any) -> str:
    """A function as a user writes it: `np.linalg.solve`, `scipy.special.gammaln`."""
    name = function.__name__
    if isinstance(function, np.ufunc):  # which do not say where they are from
        if getattr(np, name, None) is function:
            return f"np.{name}"
        found = next((m for m in ("scipy.special",) if getattr(sys.modules.get(m), name, None) is function), None)
        return f"{found}.{name}" if found else name
    module = getattr(function, "__module__", None) or ""
    return (
        f"np{module.removeprefix('numpy')}.{name}"
        if module.split(".")[0] == "numpy"
        else f"{module}.{name}"
        if module
        else name
    )


def for_package() -> tuple[str, str, Location | None] | None:
    """(the function of an installed package that asks for the value of a traced array, what to write instead,
    where the user calls it); None where the user's own code asks.
    """
    calls: list[tuple[str, str]] = []
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_internal(file):
            if not is_installed(file):
                break
            calls.append((frame.f_globals.get("__name__", ""), frame.f_code.co_qualname))
        frame = frame.f_back
    for module, name in reversed(calls):  # the outermost first: what the user has called
        public = ".".join(part for part in module.split(".") if not part.startswith("_"))
        name = name.removesuffix(".__init__")
        if not public or any(part.startswith("_") or part == "<locals>" for part in name.split(".")):
            continue
        full = f"{public}.{name}"
        try:
            here = hasattr(importlib.import_module(f"tracejit.{public}"), name)
        except ImportError:
            here = False
        users = None if frame is None else Location(frame.f_code, frame.f_lasti)
        return full, f"use tj.{full}" if here else _OUTSIDE, users
    return None


def for_number(location: Location | None, kind: str) -> tuple[str, str]:
    """(what needs a Python number, what to write instead); kind: "int" or "float"."""
    found = construct(location)
    if found == "format":
        return "formatting", "return the array and format it outside"
    if found.endswith("()") and found != f"{kind}()":
        return found, f"use NumPy's functions of arrays, or {_OUTSIDE}"
    return f"{kind}()", f"use x.astype({kind}), or make the argument a Python number"


def for_function(name: str) -> str:
    """What to write instead of a function that is not supported."""
    if name.endswith((".reduce", ".accumulate", ".reduceat")):
        return "use tj.lax.scan, or call it before or after the compiled function"
    if name.endswith(".at"):
        return "use x.at[index], np.add.at or np.subtract.at"
    return _FUNCTIONS.get(name, _OUTSIDE)


_ATTRIBUTES = {
    "resize": "use np.resize(x, shape), a new array",
    "strides": "an array here has no memory of its own", "base": "an array here has no memory of its own",
    "data": "an array here has no memory of its own", "ctypes": "an array here has no memory of its own",
    "flags": "arrays here are in C order, and writable", "setflags": "leave it out",
    "tobytes": "return the array and call tobytes() outside", "tofile": "return the array and save it outside",
    "dump": "return the array and save it outside", "dumps": "return the array and save it outside",
    "byteswap": "arrays here are in the machine's byte order",
}  # fmt: skip


def for_attribute(name: str) -> str:
    """What to write instead of an attribute or method of ndarrays that traced ones lack."""
    return _ATTRIBUTES.get(name, _OUTSIDE)
