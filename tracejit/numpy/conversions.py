"""Arrays made of what is given: array, asarray, astype and their relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.numpy.axes import reject, unsupported
from tracejit.numpy.promotion import aval, numbers_to_dtype, to_dtype
from tracejit.numpy.shaping import array_of, as_rank_0_array, check_order, copy, copy as copied
from tracejit.numpy.strides import like as laid_out_like
from tracejit.numpy.views import contiguous, reshaped
from tracejit.primitives.complex_numbers import real
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError
from tracejit.support.precision import check_one_device
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.layout import AS_IS
from tracejit.tracer.tables import FUNCTIONS, METHODS
from tracejit.tracer.tracer import Tracer

__all__ = ["array", "asarray", "ascontiguousarray", "asfortranarray", "astype"]


# -- conversions -------------------------------------------------------------------------------------------------------
def refuse_like(like: Any, order: Any = "C") -> None:
    """Raises: UnsupportedError for a like= that is no array, or an order that NumPy has not."""
    check_order(order)
    if like is not None and not isinstance(like, (np.ndarray, Tracer)):
        raise unsupported(f"like={type(like).__name__} is not supported; like= is an array")


def array(
    object: ArrayLike,
    dtype: DTypeLike = None,
    *,
    copy: Any = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Result:
    """A new array from an array, a number, or nested sequences of them, traced ones included."""
    refuse_like(like, order)
    check_one_device("np.array", out_sharding=out_sharding)
    return _uncopied(copy, object, _converted(object, dtype, ndmin, order, copy is True))


def _converted(value: ArrayLike, dtype: DTypeLike, ndmin: int, order: Any, fresh: bool, name: str = "array") -> Result:
    """value as an array: itself where it is one of that dtype and order, unless it is to be `fresh`."""
    x = array_of(value if dtype is None else numbers_to_dtype(value, dtype))
    if isinstance(x, (np.ndarray, np.generic)):
        made = np.array(x, dtype, copy=True if fresh else None, order=order or "K", ndmin=ndmin)
        canonical(made.dtype)
        return made
    y = x if dtype is None else to_dtype(x, dtype)
    if fresh or y is not value:
        y = copy(y) if y is value else y
        if isinstance(y, Tracer):
            y.layout = laid_out_like(x, y.shape, y.dtype, order or "K")
    elif order in ("C", "F"):
        y = contiguous(y, y.shape, order, name)
    y = as_rank_0_array(y)
    have = y.shape
    return reshaped(y, (*(1,) * (ndmin - len(have)), *have)) if len(have) < ndmin else y


def asarray(
    a: ArrayLike, dtype: DTypeLike = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Result:
    """An array from an array, a number, or nested sequences of them; the same one if nothing changes."""
    refuse_like(like, order)
    return _uncopied(copy, a, _converted(a, dtype, 0, order, copy is True, "asarray"))


def _uncopied(copy: Any, given: ArrayLike, made: ArrayLike) -> Result:
    """Raises: ShapeError (a ValueError) where copy=False asks for the array itself and it is another."""
    if copy is False and made is not given:
        raise reject("an array cannot be made without a copy here, as copy=False asks; leave copy= away")
    return made


def ascontiguousarray(a: ArrayLike, dtype: DTypeLike = None, *, like: Any = None) -> Result:
    """An array of rank 1 or more in C order: itself if it is one."""
    refuse_like(like)
    return _converted(a, dtype, 1, "C", False, "ascontiguousarray")


def asfortranarray(a: ArrayLike, dtype: DTypeLike = None, *, like: Any = None) -> Result:
    """An array of rank 1 or more in Fortran's order: itself if it is one."""
    refuse_like(like)
    return _converted(a, dtype, 1, "F", False, "asfortranarray")


def require(a: ArrayLike, dtype: DTypeLike = None, requirements: Any = None, *, like: Any = None) -> Result:
    """An array with properties: "C", "F" and "A", "W", "O", "E", which traced arrays have."""
    names = {"C_CONTIGUOUS": "C", "CONTIGUOUS": "C", "F_CONTIGUOUS": "F", "FORTRAN": "F"}
    given = {requirements} if isinstance(requirements, str) else set(requirements or ())
    wanted = {names.get(str(r).upper(), str(r).upper()) for r in given}
    if {"C", "F"} <= wanted:
        raise ValueError('Cannot specify both "C" and "F" order')
    return _converted(a, dtype, 0, "C" if "C" in wanted else "F" if "F" in wanted else None, False, "require")


def astype(
    x: ArrayLike,
    /,
    dtype: DTypeLike,
    order: Any = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
    *,
    device: Any = None,
) -> Result:
    """x as another dtype; of complex numbers a real dtype takes the real part.

    Raises: DtypeError if `casting` does not allow it.
    """
    check_order(order)
    y = array_of(x)
    have = aval(y).dtype
    target = canonical(dtype)
    if not np.can_cast(have, target, casting):  # pyright: ignore[reportArgumentType]
        raise DtypeError(f"{have} cannot be cast to {target} by the rule {casting!r}", location=user_location())
    if have.kind == "c" and target.kind in "iuf":  # NumPy warns
        out = to_dtype(real(y), target)
    else:
        out = to_dtype(y, target)
    if not isinstance(out, Tracer):
        return copied(out) if out is y and copy else out
    if out is y and not copy:
        return out if order in ("K", "A", None) else contiguous(out, out.shape, order, "astype")
    out = copied(out) if out is y else out
    out.layout = laid_out_like(y, out.shape, target, order or "K")
    out.is_array = y.root is not None or y.is_array  # a NumPy scalar becomes one
    return out


METHODS["astype"] = astype
AS_IS.update((array, asarray, ascontiguousarray, asfortranarray, require, astype))
FUNCTIONS.update({
    np.array: array, np.asarray: asarray, np.asanyarray: asarray, np.ascontiguousarray: ascontiguousarray,
    np.asfortranarray: asfortranarray, np.require: require,
})  # fmt: skip
if hasattr(np, "astype"):  # from NumPy 2.1 on
    FUNCTIONS[np.astype] = astype
