"""Images of any rank: `scipy.ndimage`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api.returning import returning_arrays
from tracejit.ir.extents import Extent
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.support.dtypes import result_type
from tracejit.support.errors import UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.operators import OPERATORS

__all__ = ["map_coordinates"]


def _clipped(i: ArrayLike, n: ArrayLike) -> Result:
    return u.maximum(u.minimum(i, n - 1), 0)


def _mirrored(i: ArrayLike, n: ArrayLike) -> Result:
    """Reflected at the middle of the outermost elements."""
    last = n - 1
    period = u.maximum(2 * last, 1)
    return u.absolute(u.remainder(i + last, period) - last)


def _reflected(i: ArrayLike, n: ArrayLike) -> Result:
    """Reflected at the edges, so that the outermost elements come twice."""
    return _mirrored(2 * i + 1, 2 * n + 1) // 2


_INSIDE: dict[str, Callable[[Any, Any], Any]] = {
    "constant": _clipped, "mirror": _mirrored, "nearest": _clipped, "reflect": _reflected, "wrap": u.remainder,
}  # fmt: skip
"""Of a mode: which element an index outside of the array stands for."""


def _nearest(x: ArrayLike) -> list[tuple[Result, Any]]:
    return [(to_dtype(u.rint(x), np.int64), None)]


def _linear(x: ArrayLike) -> list[tuple[Result, Any]]:
    """(index, weight) of both neighbours."""
    lower = u.floor(x)
    upper = x - lower
    first = to_dtype(lower, np.int64)
    return [(first, 1 - upper), (first + 1, upper)]


@returning_arrays
def map_coordinates(
    input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = "constant", cval: ArrayLike = 0.0
) -> Result:
    """The values of an array between its elements.   input: [*s], coordinates: as many arrays of one shape as the input
    has axes -> of that shape, in the input's dtype

    order: 0 takes the nearest element, 1 is linear in each coordinate.  mode: what lies outside: "constant" `cval`,
    "nearest" the nearest element, "wrap" the array again, "mirror" it reflected at its outermost elements, "reflect"
    at its edges.  So "constant" and "wrap" are what SciPy calls "grid-constant" and "grid-wrap", as in JAX.  Integers
    are rounded, halves away from zero.

    Raises: UnsupportedError for splines (an order above 1), ShapeError for another mode or number of coordinates.
    Source: SciPy's ndimage.map_coordinates.

    >>> import numpy as np, tracejit as tj
    >>> image = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> tj.scipy.ndimage.map_coordinates(image, [np.array([0.5, 1.0]), np.array([0.5, 0.25])], 1)
    Array([1.5 , 2.25], dtype=float64)
    """
    x = as_array(input)
    shape, dtype = aval(x).shape, aval(x).dtype
    places = list(coordinates) if isinstance(coordinates, (list, tuple)) else _rows(coordinates)
    if len(places) != len(shape):
        raise reject(f"map_coordinates: {len(places)} coordinates for an input of rank {len(shape)}")
    if mode not in _INSIDE:
        raise reject(f"map_coordinates: mode is one of {', '.join(map(repr, _INSIDE))}, not {mode!r}")
    if order not in (0, 1):
        raise UnsupportedError(
            f"map_coordinates: order={order!r} is not supported; 0 is the nearest element and 1 linear",
            location=user_location(),
        )
    wide = result_type((dtype, False), *[(aval(c).dtype, False) for c in map(as_array, places)], (np.dtype("f4"), True))
    neighbours = [(_nearest if order == 0 else _linear)(_float(c)) for c in places]
    total: Any = None
    for corner in itertools.product(*neighbours):
        value = _at(x, [i for i, _ in corner], shape, mode, cval)
        for _, weight in corner:
            value = value if weight is None else weight * value
        total = value if total is None else total + value
    if dtype.kind in "iu":
        total = to_dtype(total, wide[0])
        total = u.copysign(u.floor(u.absolute(total) + 0.5), total)  # halves away from zero
    return to_dtype(total, dtype)


def _rows(x: ArrayLike) -> list[Result]:
    """The parts of an array along its first axis."""
    y = as_array(x)
    if not aval(y).ndim:
        raise reject("map_coordinates: coordinates are arrays, one for each axis of the input")
    return [OPERATORS.getitem(y, k) for k in range(int(aval(y).shape[0]))]


def _float(x: ArrayLike) -> Result:
    y = as_array(x)
    return y if aval(y).dtype.kind == "f" else to_dtype(y, np.float64)


def _at(x: ArrayLike, indices: list[Result], shape: Sequence[Extent], mode: str, cval: ArrayLike) -> Result:
    """The elements at indices that may be outside."""
    extents = [OPERATORS.extent(n) for n in shape]
    found = OPERATORS.getitem(x, tuple([_INSIDE[mode](i, n) for i, n in zip(indices, extents, strict=True)]))
    if mode != "constant":
        return found
    valid: Any = True
    for i, n in zip(indices, extents, strict=True):
        valid = u.logical_and(valid, u.logical_and(u.greater_equal(i, 0), u.less(i, n)))
    return u.where(valid, found, to_dtype(as_array(cval), aval(x).dtype))


def __getattr__(name: str) -> Any:
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
