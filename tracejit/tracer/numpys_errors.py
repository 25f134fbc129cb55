"""What NumPy raises where this package raises something, for an `except` of the user's: which one runs depends on the
class of the error, and what it does on the text.

An operation that failed is done once more by NumPy itself, on arrays of the same shapes and dtypes.
"""

from __future__ import annotations

import functools
import operator as operators
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, DimDependent
from tracejit.support.errors import RefusedByNumPy, Restart, TracejitError, TracerError, UnsupportedError
from tracejit.support.source import is_internal, raised_at
from tracejit.support.tree import flatten, map_tree
from tracejit.tracer.cell import Cell
from tracejit.tracer.current import current_trace
from tracejit.tracer.python_operators import in_place, operator, reflected, unary
from tracejit.tracer.recorder import symbols_here
from tracejit.tracer.substitutes import dispatching, for_nested
from tracejit.tracer.traced_text import message, names_a_tracer
from tracejit.tracer.tracer import Tracer

__all__ = ["as_numpy_raises", "given_a_tracer", "is_refusal", "numpys", "numpys_own"]

_MOST = 1_000_000
"""Elements of an array that NumPy is tried with."""

_STAND_FOR_PYTHON = ("looked_up.py", "conditions.py")
"""Modules whose functions do what rewritten code did: the operation is what they call."""

_Operation = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]


def numpys() -> None:
    """An error is about to meet the `except` of a `try` around it.  Raises: what NumPy raises, if another one."""
    error = sys.exc_info()[1]
    found = as_numpy_raises(error)
    if found is not error and found is not None:
        raise found from None


def as_numpy_raises(error: BaseException | None) -> BaseException | None:
    """The error of NumPy's in whose place one was raised, that itself where this cannot be told.

    A refusal where NumPy raises none: no `except` of the user's may catch it.
    Raises: DimDependent where the sizes have to be known first.
    """
    if isinstance(error, BaseExceptionGroup):  # of `except*`
        return next((x for x in _parts(error) if isinstance(x, Restart | TracejitError)), error)
    if not isinstance(error, Exception) or current_trace() is None or is_refusal(error):
        return error
    if names_a_tracer(error):
        return given_a_tracer(error)
    frame = _frame_of_operation(error)
    found = None if frame is None else _operation(frame)
    if frame is None or found is None:
        return error
    symbols = symbols_here()
    if symbols:
        raise DimDependent(symbols)
    try:
        operation, args, kwargs = found[0], *_examples(found[1:])
    except _Unknown:
        return error
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            operation(*args, **kwargs)
    except Exception as numpys_error:
        if _takes_integers(operation, found[1:]):
            return _joined(error)
        return error if type(numpys_error) is type(error) else numpys_error.with_traceback(error.__traceback__)
    text = error.message if isinstance(error, TracejitError) else message(error)
    where = error.location if isinstance(error, TracejitError) else raised_at(error)
    return TracerError(f"{text}; NumPy takes it, so the `except` around it may not run", location=where)


def numpys_own(error: TracejitError) -> Exception:
    """An error that NumPy raises where this one was raised: this one, if it is of that class.

    Raises: that itself if NumPy raises none, or it is not known; DimDependent where the sizes have to be known first.
    """
    found = as_numpy_raises(error)
    if not isinstance(found, Exception) or isinstance(found, TracejitError):
        raise error
    return error if isinstance(error, type(found)) else found


def given_a_tracer(error: Exception) -> TracerError:
    """A function that is not traced was given a number of the program's, and says so in its own words."""
    return TracerError(
        f"{type(error).__name__}: {error}; the function takes no number that only the program knows (Tracer): compute "
        "it outside, or by operators and NumPy's functions",
        location=raised_at(error),
    )


def _parts(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group."""
    if isinstance(error, BaseExceptionGroup):
        group: BaseExceptionGroup[BaseException] = error
        for part in group.exceptions:
            yield from _parts(part)
    else:
        yield error


def is_refusal(error: BaseException) -> bool:
    """Whether an error says that something cannot be traced, or of branches and loops that they do not fit."""
    if isinstance(error, TracerError):
        return not isinstance(error, RefusedByNumPy)
    if isinstance(error, UnsupportedError):
        return True
    return isinstance(error, TracejitError) and error.message.startswith(("[cond]", "[loop]", "[while]"))


def _frame_of_operation(error: BaseException) -> FrameType | None:
    """The frame of this package that the innermost of the user's called, and that the error came from."""
    at = error.__traceback__
    within = found = None
    while at is not None:
        frame = at.tb_frame
        if not is_internal(frame.f_code.co_filename):
            within, found = frame, None
        elif within is not None and found is None and not frame.f_code.co_filename.endswith(_STAND_FOR_PYTHON):
            found = frame
        at = at.tb_next
    return found


def _operation(frame: FrameType) -> _Operation | None:
    """What NumPy does where the user's code called this package."""
    read = _OPERATIONS.get(frame.f_code)
    return None if read is None else read(frame.f_locals)


def _of(function: Callable[..., Any], *operands: str) -> Callable[[Mapping[str, Any]], _Operation]:
    return lambda held: (function, tuple([held[x] for x in operands]), {})


def _method(held: Mapping[str, Any]) -> _Operation:
    return _called, (held["name"], held["self"], *held["args"]), held["kwargs"]


def _called(name: str, x: Any, /, *args: Any, **kwargs: Any) -> Any:
    return getattr(x, name)(*args, **kwargs)


def _binary(held: Mapping[str, Any]) -> _Operation:
    if held.get("modulo"):
        return pow, (held["self"], held["other"], *held["modulo"]), {}
    return _named(held["name"]), (held["self"], held["other"]), {}


def _reflected(held: Mapping[str, Any]) -> _Operation:
    return _named(held["name"]), (held["other"], held["self"]), {}


def _in_place(held: Mapping[str, Any]) -> _Operation:
    return _named(f"i{held['name']}"), (held["self"], held["other"]), {}


def _unary(held: Mapping[str, Any]) -> _Operation:
    return _named(held["name"]), (held["self"],), {}


def _named(name: str) -> Callable[..., Any]:
    """The function of an operator."""
    return divmod if name == "divmod" else getattr(operators, f"__{name}__")


def _codes(function: Callable[..., Any]) -> CodeType:
    """The code of the functions that one defines."""
    code: CodeType = function.__code__  # type: ignore[attr-defined]
    return next(x for x in code.co_consts if isinstance(x, CodeType))


_OPERATIONS: dict[CodeType, Callable[[Mapping[str, Any]], _Operation]] = {
    _codes(dispatching): lambda held: (held["original"], held["args"], held["kwargs"]),
    _codes(for_nested): lambda held: (held["original"], held["args"], held["kwargs"]),
    Tracer.__array_function__.__code__: lambda held: (held["func"], held["args"], held["kwargs"]),
    Tracer.__array_ufunc__.__code__: lambda held: (
        held["ufunc"] if held["method"] == "__call__" else getattr(held["ufunc"], held["method"]),
        held["inputs"],
        held["kwargs"],
    ),
    Tracer.__getitem__.__code__: _of(operators.getitem, "self", "index"),
    Tracer.__setitem__.__code__: _of(operators.setitem, "self", "index", "value"),
    Tracer.__iter__.__code__: _of(iter, "self"),
    Tracer.__len__.__code__: _of(len, "self"),
    Tracer.__getattr__.__code__: _of(getattr, "self", "name"),
    _codes(Tracer.__getattr__): _method,
    _codes(operator): _binary,
    _codes(reflected): _reflected,
    _codes(in_place): _in_place,
    _codes(unary): _unary,
}  # fmt: skip


def _takes_integers(operation: Callable[..., Any], given: tuple[Any, Any]) -> bool:
    """Whether an operation that takes no float takes integers in the place of floats, as which the program
    has what is an int on one way and a float on another one.
    """
    if not any(_is_float(x) for x in flatten(given)[0]):
        return False
    args, kwargs = _examples(map_tree(lambda x: 1 if _is_float(x) else x, given))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            operation(*args, **kwargs)
    except Exception:
        return False
    return True


def _is_float(x: Any) -> bool:
    return isinstance(x, Cell) and x.is_scalar and x.aval.dtype.kind == "f"


def _joined(error: Exception) -> TracerError:
    text = error.message if isinstance(error, TracejitError) else message(error)
    return TracerError(
        f"{text}; an int and a float that meet in a branch or loop become a float: write int(k)",
        location=error.location if isinstance(error, TracejitError) else raised_at(error),
    )


class _Unknown(Exception):
    """An operand has no example."""


def _examples(x: Any) -> Any:
    """Arrays and numbers in place of traced ones, in containers."""
    if isinstance(x, Cell):
        return _example(x)
    if isinstance(x, (Dim, FunctionType, MethodType, functools.partial)):  # functions of the user's are not run twice
        raise _Unknown
    if isinstance(x, np.ndarray):
        return x.copy()
    if type(x) in (list, tuple):
        return type(x)(_examples(v) for v in x)
    if type(x) is dict:
        return {key: _examples(v) for key, v in x.items()}
    if type(x) is slice:
        return slice(*_examples((x.start, x.stop, x.step)))
    return x


def _example(x: Cell) -> Any:
    known = x.known()
    if known is not None and x.shape:
        return np.array(known)
    aval = x.aval
    if any(isinstance(n, Dim) for n in aval.shape) or aval.size > _MOST:
        raise _Unknown
    if aval.weak:
        return (aval.dtype.type(1) if known is None else known).item()
    if x.is_scalar:
        return aval.dtype.type(1 if known is None else known)
    return np.ones(aval.shape, aval.dtype) if known is None else np.array(known)
