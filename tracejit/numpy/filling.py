"""Functions that put values into an array that is there."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.numpy import joining, ufuncs as u
from tracejit.numpy.assigning import updated
from tracejit.numpy.axes import reject, same_shape, unsupported
from tracejit.numpy.complex_parts import is_python_number
from tracejit.numpy.promotion import (
    as_array,
    aval,
    broadcast_to as spread,
    to_dtype,
)
from tracejit.numpy.shaping import array_of, flat, ravel, reshape
from tracejit.primitives import shape as p
from tracejit.primitives.elementwise import select as choose_between
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.cell import check_is_number
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS, METHODS
from tracejit.tracer.tracer import Tracer

__all__ = ["copyto", "fill_diagonal", "putmask"]


def copyto(dst: ArrayLike, src: ArrayLike, casting: Any = "same_kind", where: ArrayLike = True) -> None:
    """Write src, broadcast, into dst (where the mask holds)."""
    if not isinstance(dst, Tracer):
        raise unsupported(
            "np.copyto in traced code writes into arrays made inside the function or its arguments; this one is a "
            "constant"
        )
    if dst.is_scalar:
        check_is_number(dst)
        raise DtypeError("np.copyto changes an array, and was given a number", location=user_location())
    number = is_python_number(src)
    x = src if number else array_of(src)
    least = {"b": np.bool_, "i": np.uint8, "f": np.float16, "c": np.complex64}
    if number and not np.can_cast(least[aval(x).dtype.kind], dst.dtype, casting):
        raise DtypeError(
            f"np.copyto: a Python number cannot be cast to {dst.dtype} by the rule {casting!r}",
            location=user_location(),
        )
    if not number and not np.can_cast(aval(x).dtype, dst.dtype, casting):
        raise DtypeError(
            f"np.copyto: {aval(x)} cannot be cast to {dst.dtype} by the rule {casting!r}", location=user_location()
        )
    have = aval(x).shape
    if len(have) > dst.ndim and {*have[: len(have) - dst.ndim]} == {1}:  # as in an assignment
        x = reshape(x, have[len(have) - dst.ndim :])
    value = spread(to_dtype(x, dst.dtype), dst.shape)
    if where is not True:
        value = choose_between(spread(array_of(where), dst.shape), value, dst)
    OPERATORS.setitem(dst, Ellipsis, value)


def putmask(a: ArrayLike, mask: ArrayLike, values: ArrayLike) -> None:
    """Write the elements of values, repeated along a's, into a where the mask holds."""
    if not isinstance(a, Tracer):
        raise unsupported(
            "np.putmask in traced code writes into arrays made inside the function or its arguments; this one is a "
            "constant"
        )
    if a.is_scalar:
        check_is_number(a)
        raise DtypeError("np.putmask changes an array, and was given a number", location=user_location())
    number = (
        is_python_number(values) or isinstance(values, np.generic) or (isinstance(values, Tracer) and values.is_scalar)
    )
    value = (
        FUNCTIONS[np.array](values, a.dtype)
        if isinstance(values, (list, tuple))
        else values
        if number
        else as_array(values)
    )
    test = as_array(mask)
    if not number and not np.can_cast(aval(value).dtype, a.dtype):
        raise DtypeError(
            f"np.putmask: {aval(value)} cannot be cast to {a.dtype} by the rule 'safe'", location=user_location()
        )
    size = aval(test).size
    if not same_shape((size,), (a.size,)) and size != a.size:
        raise reject(f"np.putmask: a mask of shape {aval(test).shape} is given for an array of shape {a.shape}")
    if aval(value).ndim and int(aval(value).size) == 0:
        return
    value = to_dtype(value, a.dtype)
    value = joining.resize(value, a.shape) if aval(value).ndim else spread(value, a.shape)
    OPERATORS.setitem(a, Ellipsis, choose_between(reshape(u.not_equal(test, 0), a.shape), value, a))


def set_flat(a: ArrayLike, values: ArrayLike) -> None:
    """`a.flat = values`: all elements in C order, the values again and again."""
    value = ravel(
        FUNCTIONS[np.array](values, a.dtype)
        if isinstance(values, (list, tuple))
        else to_dtype(as_array(values), a.dtype)
    )
    if int(aval(value).size) == 0:
        raise reject("x.flat = y: y is empty")
    OPERATORS.setitem(a, Ellipsis, joining.resize(value, a.shape))


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Result:
    """Set the main diagonal of a to val, repeated or cut to its length;
    with `wrap` it starts again below a tall matrix.

    inplace: whether `a` is changed, or a changed copy is the result.
    """
    x = array_of(a)
    have = aval(x)
    if have.ndim < 2:
        raise reject("np.fill_diagonal needs at least 2 axes")
    shape = [int(n) for n in have.shape]
    if have.ndim > 2 and len(set(shape)) > 1:
        raise reject("np.fill_diagonal: all axes must be of one extent")
    step = shape[1] + 1 if have.ndim == 2 else 1 + sum(shape[0] ** d for d in range(1, have.ndim))
    end = int(have.size) if wrap or have.ndim > 2 else min(int(have.size), shape[1] * shape[1])
    value = as_array(val)
    if aval(value).ndim:
        if aval(value).size == 0:
            return None if inplace else x
        value = joining.resize(value, (len(range(0, end, step)),))
    if inplace:
        OPERATORS.setitem(flat(a), slice(0, end, step), value)
        return None
    return p.reshape(updated(ravel(x), slice(0, end, step), to_dtype(value, have.dtype)), have.shape)


def fill(a: ArrayLike, value: ArrayLike) -> None:
    """Set all elements of a to a value.  Raises: ShapeError for an array of values."""
    if aval(as_array(value)).ndim:
        raise reject("fill() sets all elements to one value; use x[...] = values")
    OPERATORS.assign(a, Ellipsis, value)


METHODS["fill"] = fill
for _function in (copyto, putmask, fill_diagonal):
    FUNCTIONS[getattr(np, _function.__name__)] = _function
