"""Functions of complex numbers, for the real ones that arrays hold here."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tracejit.numpy import ufuncs as u
from tracejit.numpy.promotion import (
    as_array,
    aval,
    broadcast_to as spread,
)
from tracejit.numpy.shaping import array_of, for_reading
from tracejit.numpy.strides import in_order_of_operands
from tracejit.support.dtypes import weak_kind
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.cell import is_number
from tracejit.tracer.layout import AS_IS, LAYOUTS
from tracejit.tracer.tables import FUNCTIONS, METHODS
from tracejit.tracer.tracer import Tracer

__all__ = ["conj", "conjugate", "imag", "iscomplex", "iscomplexobj", "isreal", "isrealobj", "real"]


def real(val: ArrayLike) -> Result:
    """The real part: arrays here are real."""
    if type(val) is bool or (isinstance(val, Tracer) and is_number(val) and val.dtype.kind == "b"):
        return +cast("Any", val)  # as Python's attribute of that name gives it
    return val if is_python_number(val) else array_of(val)


def imag(val: ArrayLike) -> Result:
    """The imaginary part: zeros of the same dtype, which cannot be written."""
    if isinstance(val, Tracer) and is_number(val):
        return 0.0 if val.dtype.kind == "f" else 0
    have = aval(array_of(val))
    if is_python_number(val) or (isinstance(val, Tracer) and val.is_scalar):
        return spread(have.dtype.type(0), have.shape)
    return for_reading(FUNCTIONS[np.zeros](have.shape, have.dtype), "imag")


def conjugate(x: ArrayLike, out: ArrayLike = None) -> Result:
    """The complex conjugate, as a new array: arrays here are real."""
    return u.unchanged(x)


conj = conjugate


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the dtype is complex."""
    return aval(as_array(x)).dtype.kind == "c"


def isrealobj(x: ArrayLike) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isreal(x: ArrayLike) -> Result:
    """Whether the imaginary part is 0: True everywhere."""
    return True if isinstance(x, Tracer) and is_number(x) else spread(np.bool_(True), aval(array_of(x)).shape)


def iscomplex(x: ArrayLike) -> Result:
    """Whether the imaginary part is not 0: False everywhere."""
    return spread(np.bool_(False), aval(array_of(x)).shape)


def is_python_number(x: ArrayLike) -> bool:
    """Whether it is a number of Python, which has no dtype of its own."""
    return weak_kind(x) is not None or (isinstance(x, Tracer) and x.aval.weak)


METHODS.update({"real": real, "imag": imag, "conj": real, "conjugate": real})
for _function in (real, imag, iscomplexobj, isrealobj, isreal, iscomplex):
    FUNCTIONS[getattr(np, _function.__name__)] = _function
AS_IS.update((real, imag))
for _elementwise in (isreal, iscomplex, conjugate):
    LAYOUTS[_elementwise] = in_order_of_operands
