"""Functions of complex numbers: their parts, and what tells them from real ones."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Dim, Shape
from tracejit.numpy import ufuncs as u
from tracejit.numpy.promotion import (
    as_array,
    aval,
    broadcast_to as spread,
)
from tracejit.numpy.shaping import array_of, for_reading
from tracejit.numpy.strides import in_order_of_operands
from tracejit.numpy.views import Rearranged, view
from tracejit.primitives import complex_numbers as parts
from tracejit.support.dtypes import weak_kind
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.cell import is_number
from tracejit.tracer.layout import AS_IS, LAYOUTS, Strides
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS, METHODS
from tracejit.tracer.tracer import Tracer

__all__ = ["angle", "conj", "conjugate", "imag", "iscomplex", "iscomplexobj", "isreal", "isrealobj", "real"]


def real(val: ArrayLike) -> Result:
    """The real part; of a real array the array itself."""
    if type(val) is bool or (isinstance(val, Tracer) and is_number(val) and val.dtype.kind == "b"):
        return +cast("Any", val)  # as Python's attribute of that name gives it
    if _is_complex(val):
        return _part(_REAL, val)
    return val if is_python_number(val) else array_of(val)


def imag(val: ArrayLike) -> Result:
    """The imaginary part; of a real array zeros of the same dtype, which cannot be written."""
    if _is_complex(val):
        return _part(_IMAG, val)
    if isinstance(val, Tracer) and is_number(val):
        return 0.0 if val.dtype.kind == "f" else 0
    have = aval(array_of(val))
    if is_python_number(val) or (isinstance(val, Tracer) and val.is_scalar):
        return spread(have.dtype.type(0), have.shape)
    return for_reading(FUNCTIONS[np.zeros](have.shape, have.dtype), "imag")


@frozen(eq=False)
class _Part(Rearranged):
    """The real or the imaginary parts of complex numbers, which lie beside each other."""

    name: str
    keeps_order = True

    def read(self, x: ArrayLike) -> Result:
        return getattr(parts, self.name)(x)

    def write(self, x: ArrayLike, value: ArrayLike) -> Result:
        value = parts.real(value)
        both = (value, parts.imag(x)) if self.name == "real" else (parts.real(x), value)
        return parts.make_complex(*both)

    def of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        return getattr(array, self.name)

    def strides(self, shape: Shape, strides: Strides) -> Strides | None:
        return strides


_REAL, _IMAG = _Part("real"), _Part("imag")


def _part(which: _Part, val: ArrayLike) -> Result:
    """A part of complex numbers: a view of an array, a number of a number."""
    x = val if is_python_number(val) else array_of(val)
    return which.read(x) if not isinstance(x, Tracer) or x.is_scalar else view(x, which)


def set_part(x: Tracer, name: str, value: ArrayLike) -> None:
    """x.real = value, x.imag = value: of a complex value its real part, as in NumPy.

    Raises: TypeError for imaginary parts of arrays of real numbers; AttributeError for parts of numbers.
    """
    if x.is_scalar:
        raise AttributeError(f"attribute {name!r} of numbers is not writable")
    if x.dtype.kind == "c":
        OPERATORS.setitem(_part(_REAL if name == "real" else _IMAG, x), Ellipsis, real(value))
    elif name == "real":
        OPERATORS.setitem(x, Ellipsis, value)
    else:
        raise TypeError("cannot set the imaginary part of an array of real numbers")


def conjugate(x: ArrayLike, out: ArrayLike = None) -> Result:
    """The complex conjugate, as a new array."""
    x = as_array(x)
    return parts.conj(x if isinstance(x, Tracer) else array_of(x)) if _is_complex(x) else u.unchanged(x)


conj = conjugate


def angle(z: ArrayLike, deg: bool = False) -> Result:
    """The angle of complex numbers in the plane, in radians or degrees, between -pi and pi."""
    x = as_array(z)
    if _is_complex(x):
        found = u.arctan2(parts.imag(x), parts.real(x))
    else:
        found = u.arctan2(0, x)
    return u.multiply(found, 180 / math.pi) if deg else found


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the dtype is complex."""
    return _is_complex(x)


def isrealobj(x: ArrayLike) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isreal(x: ArrayLike) -> Result:
    """Whether the imaginary part is 0: True everywhere for real arrays."""
    if _is_complex(x):
        return u.equal(parts.imag(as_array(x)), 0)
    return True if isinstance(x, Tracer) and is_number(x) else spread(np.bool_(True), aval(array_of(x)).shape)


def iscomplex(x: ArrayLike) -> Result:
    """Whether the imaginary part is not 0: False everywhere for real arrays."""
    if _is_complex(x):
        return u.not_equal(parts.imag(as_array(x)), 0)
    return spread(np.bool_(False), aval(array_of(x)).shape)


def _is_complex(x: ArrayLike) -> bool:
    return aval(as_array(x)).dtype.kind == "c"


def is_python_number(x: ArrayLike) -> bool:
    """Whether it is a number of Python, which has no dtype of its own."""
    return weak_kind(x) is not None or isinstance(x, Dim) or (isinstance(x, Tracer) and x.aval.weak)


def _conjugated(x: ArrayLike) -> Result:
    """x.conj(): of a real array the array itself."""
    return conjugate(x) if _is_complex(x) else real(x)


METHODS.update({"real": real, "imag": imag, "conj": _conjugated, "conjugate": _conjugated})
for _function in (real, imag, angle, iscomplexobj, isrealobj, isreal, iscomplex):
    FUNCTIONS[getattr(np, _function.__name__)] = _function
AS_IS.update((real, imag, _conjugated))
for _elementwise in (isreal, iscomplex, conjugate, angle):
    LAYOUTS[_elementwise] = in_order_of_operands
