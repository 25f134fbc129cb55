"""Functions that compare arrays, up to a tolerance or as wholes."""

from __future__ import annotations

import numpy as np

from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import same_shape
from tracejit.numpy.complex_parts import is_python_number
from tracejit.numpy.promotion import (
    aval,
    broadcast_shapes,
    to_dtype,
)
from tracejit.numpy.shaping import array_of
from tracejit.numpy.strides import in_order_of_operands
from tracejit.support.dtypes import result_type
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.layout import LAYOUTS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1.0e-5, atol: ArrayLike = 1.0e-8, equal_nan: bool = False
) -> Result:
    """|a - b| <= atol + rtol * |b|, elementwise; equal infinities are close, NaN only with `equal_nan`."""
    x, y, absolute, relative = (t if is_python_number(t) else array_of(t) for t in (a, b, atol, rtol))
    if aval(y).dtype.kind not in "fc":
        y = (
            y * 1.0
            if is_python_number(y)
            else to_dtype(y, result_type((aval(y).dtype, False), (np.dtype(np.float64), True))[0])
        )
    near = u.less_equal(u.absolute(u.subtract(x, y)), absolute + relative * abs(y))
    out = u.logical_or(u.logical_and(near, u.isfinite(y)), u.equal(x, y))
    return u.logical_or(out, u.logical_and(u.not_equal(x, x), u.not_equal(y, y))) if equal_nan else out


def _truth(x: ArrayLike) -> Result:
    return x.as_python_number() if isinstance(x, Tracer) else bool(x)


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1.0e-5, atol: ArrayLike = 1.0e-8, equal_nan: bool = False
) -> Result:
    """Whether all elements are close, as a bool of Python's."""
    return _truth(r.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Result:
    """Whether shapes and all elements are equal, as a bool of Python's."""
    x, y = array_of(a1), array_of(a2)
    if aval(x).ndim != aval(y).ndim or (
        not same_shape(aval(x).shape, aval(y).shape) and aval(x).shape != aval(y).shape
    ):
        return False
    same = u.equal(x, y)
    if equal_nan:
        same = u.logical_or(same, u.logical_and(u.isnan(x), u.isnan(y)))
    return _truth(r.all(same))


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Result:
    """Whether the arrays are equal after broadcasting one to the other, as a bool of Python's."""
    x, y = array_of(a1), array_of(a2)
    try:
        broadcast_shapes(aval(x).shape, aval(y).shape)
    except ValueError:
        return False
    return _truth(r.all(u.equal(x, y)))


for _function in (isclose, allclose, array_equal, array_equiv):
    FUNCTIONS[getattr(np, _function.__name__)] = _function
LAYOUTS[isclose] = in_order_of_operands
