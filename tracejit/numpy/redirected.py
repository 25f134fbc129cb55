"""NumPy's names as functions see them while they are traced: fills the table of `tracer.substitutes` with this package's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracejit.numpy import (
    creation,
    differences,
    einstein,
    joining,
    linear,
    nan_reductions,
    padding,
    real_functions,
    reductions,
    selecting,
    shaping,
    taking,
)
from tracejit.numpy.strides import in_order_of_operands
from tracejit.tracer.layout import LAYOUTS
from tracejit.tracer.substitutes import CREATION, redirect_members, substitute_for
from tracejit.tracer.tracer import FUNCTIONS, UFUNCS, Tracer

__all__ = ["fromfunction", "isscalar", "ndenumerate", "new_array"]

_MODULES = (
    creation, differences, einstein, joining, linear, nan_reductions, padding, real_functions, reductions, selecting, shaping, taking,
)  # fmt: skip


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    """`function` of the index grids of a shape."""
    return function(*creation.indices(shape, dtype=dtype), **kwargs)


def isscalar(element: Any) -> bool:
    """Whether something is a number and no array: a traced Python number is."""
    return element.aval.weak and not element.shape if isinstance(element, Tracer) else np.isscalar(element)


def ndenumerate(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """(index, element) pairs in C order."""
    return ((index, arr[index]) for index in np.ndindex(arr.shape)) if isinstance(arr, Tracer) else iter(np.ndenumerate(arr))


def new_array(shape: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
    """`np.ndarray(shape, dtype)` called to make an array; other ways to call it are NumPy's."""
    if args or kwargs:
        return np.ndarray(shape, dtype, *args, **kwargs)
    return substitute_for(np.empty)(shape, dtype)


def _own() -> dict[str, Callable[..., Any]]:
    """This package's functions by NumPy's names."""
    found: dict[str, Callable[..., Any]] = {}
    for module in _MODULES:
        found.update({name: getattr(module, name) for name in module.__all__ if callable(getattr(module, name))})
    found |= {"asanyarray": creation.asarray, "fromfunction": fromfunction}
    return found


def _fill() -> None:
    own = _own()
    redirect_members({getattr(np, name): own[name] for name in CREATION if name in own})
    redirect_members({np.require: creation.require, np.isscalar: isscalar, np.ndenumerate: ndenumerate, np.ndarray: new_array})
    handed_over = {getattr(np, name, None): function for name, function in own.items() if name not in CREATION}
    elementwise = [f for key, f in UFUNCS.items() if isinstance(key, str) or (isinstance(key, np.ufunc) and key.signature is None)]
    LAYOUTS.update(dict.fromkeys(elementwise, in_order_of_operands))
    redirect_members({f: g for f, g in handed_over.items() if f in FUNCTIONS and not isinstance(f, (np.ufunc, type))}, only_nested=True)


_fill()
