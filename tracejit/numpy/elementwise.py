"""How a function of elements is made: which dtype it computes in, and where it is entered.

`of_primitive` makes one of a primitive, `composed` one of other functions; both enter it in the tables, with results
that lie in memory as the operands do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.numpy.promotion import as_array, aval, promote, to_dtype
from tracejit.numpy.strides import in_order_of_operands
from tracejit.primitives.elementwise import Elementwise
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.layout import LAYOUTS
from tracejit.tracer.tables import UFUNCS

__all__ = ["composed", "floating_dtype", "floats", "number_dtype", "of_primitive", "registered"]


def floating_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype a floating-point ufunc computes in: NumPy's table for integers."""
    if dtype.kind in "fc":
        return dtype
    return np.dtype(np.float16 if dtype.itemsize == 1 else (np.float32 if dtype.itemsize == 2 else np.float64))


def floats(*xs: ArrayLike) -> list[Result]:
    """Operands in the first of float16, float32 and float64 that holds all of them,
    as NumPy looks for a loop of such a ufunc.

    It is not the dtype of their sum: int16 and uint16 both fit float32, but only int32 holds them as integers.
    """
    arrays = [as_array(x) for x in xs]
    avals = [aval(x) for x in arrays]
    for a in avals:
        if a.dtype.kind == "c":
            raise DtypeError(f"the function is not defined for complex numbers ({a})", location=user_location())
    strong = [a.dtype for a in avals if not a.weak]
    if strong:  # a Python number counts only if it is of a higher kind than the arrays
        order = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
        highest = max(order[d.kind] for d in strong)
        strong += [a.dtype for a in avals if a.weak and order[a.dtype.kind] > highest]
    return promote(*arrays, to=np.result_type(*[floating_dtype(d) for d in strong or [a.dtype for a in avals]]))


def number_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of arithmetic: int8 for bool."""
    return np.dtype(np.int8) if dtype.kind == "b" else dtype


def registered(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A function of elements, entered in the tables as the answer to NumPy's ufuncs of these names;
    "scipy.special.erf" is one of SciPy's.  A name that neither has is the function's alone.
    """
    function.__name__ = function.__qualname__ = names[0].rpartition(".")[2]
    for name in names:
        ufunc = name if "." in name else getattr(np, name, None)
        if ufunc is not None:
            UFUNCS[ufunc] = function
    LAYOUTS[function] = in_order_of_operands
    return function


def _checked(kwargs: dict[str, Any], name: str) -> tuple[Any, DTypeLike]:
    """(where, dtype) of the keywords every ufunc has.  Raises UnsupportedError for others."""
    where, dtype = kwargs.pop("where", True), kwargs.pop("dtype", None)
    casting = kwargs.pop("casting", "same_kind")
    if casting not in ("same_kind", "unsafe", "safe") or (casting == "safe" and dtype is not None):
        raise UnsupportedError(f"np.{name} does not take casting={casting!r} here", location=user_location())
    out = kwargs.pop("out", None)
    if kwargs or out is not None:
        raise UnsupportedError(f"np.{name} does not take {', '.join(kwargs) or 'out'} here", location=user_location())
    return where, dtype


_LEAST = {"b": np.bool_, "i": np.int8, "f": np.float16, "c": np.complex64}


def _refuse_conversions(name: str, dtype: DTypeLike, *xs: ArrayLike) -> None:
    """Raises: DtypeError for an operand that is not converted to the dtype asked for (dtype=) by the rule
    "same_kind".
    """
    if dtype is None:
        return
    for have in [aval(as_array(x)) for x in xs]:
        if have.weak and have.dtype.kind == "i" and np.dtype(dtype).kind == "u":
            continue  # a Python integer is checked by its value
        if not np.can_cast(_LEAST.get(have.dtype.kind, have.dtype) if have.weak else have.dtype, dtype, "same_kind"):
            raise DtypeError(
                f"np.{name} with dtype={canonical(dtype)} does not convert {have}; convert it first",
                location=user_location(),
            )


def of_primitive(
    name: str, primitive: Elementwise, arity: int, convert: Callable[[Any], Any] | None = None
) -> Callable[..., Any]:
    """The function of `arity` operands that promotes them and computes a primitive.

    convert: the dtype it computes in, of the promoted one; or `floats`.
    """
    shown = name.rpartition(".")[2]

    def function(*xs: ArrayLike, **kwargs: Any) -> Result:
        if len(xs) != arity:
            raise UnsupportedError(
                f"np.{shown} takes {arity} operand{'s' if arity > 1 else ''}, not {len(xs)}", location=user_location()
            )
        where, dtype = _checked(kwargs, shown) if kwargs else (True, None)
        if where is not True:
            raise UnsupportedError(f"np.{shown} with where= needs out=", location=user_location())
        if convert is floats and dtype is None:
            return bind(primitive, *floats(*xs))
        _refuse_conversions(shown, dtype, *xs)
        return bind(primitive, *promote(*xs, to=dtype or convert))

    function.__doc__ = f"numpy.{shown} for traced and eager arrays.\n\n    Source: {type(primitive).__doc__}"
    return registered(function, name)


def rounded_once(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of floats whose steps are not rounded to float16: it computes in float32, as NumPy's loops do."""

    @functools.wraps(function)
    def run(*xs: ArrayLike) -> Result:
        operands = floats(*xs)
        if aval(operands[0]).dtype != np.float16:
            return function(*operands)
        return to_dtype(function(*[to_dtype(x, np.dtype(np.float32)) for x in operands]), np.dtype(np.float16))

    return run


def composed(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function made of others under NumPy's ufuncs of these names."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: ArrayLike, **kwargs: Any) -> Result:
            if kwargs:
                where, dtype = _checked(kwargs, names[0])
                if where is not True or dtype is not None:
                    raise UnsupportedError(f"np.{names[0]} takes no where= or dtype= here", location=user_location())
            return function(*args)

        run.__doc__ = function.__doc__
        return registered(run, *names)

    return register
