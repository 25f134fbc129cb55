"""Functions between their samples: `scipy.interpolate`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.api.returning import returning_arrays
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.exponentials import inexact
from tracejit.numpy.joining import stack
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import broadcast_arrays, reshape
from tracejit.numpy.taking import searchsorted
from tracejit.support.errors import UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.tree import register_node
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import Raised
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = ["RegularGridInterpolator"]

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """A function known at the points of a grid, between them.   points: vectors, one for each axis of the grid, of
    ascending (or descending) numbers; values: [*(their lengths), *s]

    method: "linear" in each coordinate, or "nearest".  fill_value: outside of the grid, NaN by default; None goes on as
    at its edge.  The object is a pytree of its points, values and fill value.

    Raises: UnsupportedError for bounds_error and other methods; ShapeError for shapes that do not fit, and points that
    are known and not in order.
    Source: SciPy's interpolate.RegularGridInterpolator.

    >>> import numpy as np, tracejit as tj
    >>> x, y = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0])
    >>> f = tj.scipy.interpolate.RegularGridInterpolator((x, y), x[:, None] + 10 * y)
    >>> f(np.array([[2.0, 1.0], [0.5, 0.5], [4.0, 0.0]]))
    Array([12. ,  5.5,  nan], dtype=float64)
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        self.method = _checked_method(method)
        if bounds_error:
            raise UnsupportedError(
                "RegularGridInterpolator: bounds_error is not supported; points outside have the fill value",
                location=user_location(),
            )
        self.bounds_error = False
        self.fill_value = fill_value
        given = [as_array(x) for x in points]
        y = as_array(values)
        shape = aval(y).shape
        if len(given) > len(shape):
            raise reject(f"RegularGridInterpolator: {len(given)} vectors of points for values of rank {len(shape)}")
        for k, x in enumerate(given):
            if aval(x).ndim != 1 or aval(x).shape[0] != shape[k]:
                raise reject(
                    f"RegularGridInterpolator: points {k} are {aval(x)}, and values have {shape[k]} along that axis"
                )
        grid: list[Result] = []
        for k, x in enumerate(given):
            down = _is_descending(x, k)
            grid.append(_turned(x, 0, down))
            y = _turned(y, k, down)
        self.values, self.grid = y, tuple(grid)

    def __call__(self, xi: ArrayLike, method: str | None = None) -> Result:
        """The function at points.   xi: [.., n], or a tuple of n arrays that are broadcast -> [.., *s]; a vector is one
        point of n coordinates, or of a line some points

        Raises: ShapeError for another number of coordinates, UnsupportedError for another method.
        """
        return _interpolated(self, xi, self.method if method is None else _checked_method(method))


def _checked_method(method: Any) -> str:
    if method not in _METHODS:
        raise UnsupportedError(
            f"RegularGridInterpolator: method={method!r} is not supported; it is 'linear' or 'nearest'",
            location=user_location(),
        )
    return method


def _turned(x: Result, axis: int, down: Any) -> Result:
    """An array the other way round along an axis, if points descend there."""
    if isinstance(down, bool) and not down:
        return x
    back = OPERATORS.getitem(x, (*[slice(None)] * axis, slice(None, None, -1)))
    return back if isinstance(down, bool) else u.where(down, back, x)


def _is_descending(x: ArrayLike, k: int) -> Any:
    """Whether points descend, a traced number where they are not known.

    Raises: ShapeError for known ones that do neither; others make the program fail.
    """
    known = x.known() if isinstance(x, Tracer) else np.asarray(x)
    if known is None:
        steps = OPERATORS.getitem(x, slice(1, None)) - OPERATORS.getitem(x, slice(None, -1))
        up, down = (r.all(u.greater(s, 0)) for s in (steps, u.negative(steps)))
        OPERATORS.check_none(
            u.logical_not(u.logical_or(up, down)),
            Raised(ValueError(f"the points in dimension {k} must be strictly ascending or descending")),
        )
        return u.logical_not(up)
    if known.size < 2:
        return False
    steps = np.diff(known)
    if not (np.all(steps > 0) or np.all(steps < 0)):
        raise reject(f"RegularGridInterpolator: points {k} neither ascend nor descend")
    return bool(steps[0] < 0)


@returning_arrays
def _interpolated(f: RegularGridInterpolator, xi: ArrayLike, method: str) -> Result:
    count = len(f.grid)
    if isinstance(xi, tuple):
        xi = stack(broadcast_arrays(*[as_array(x) for x in xi]), -1)
    (x,) = inexact(as_array(xi))
    if aval(x).ndim == 1:
        x = reshape(x, (-1, count))
    shape = aval(x).shape
    if not shape or shape[-1] != count:
        raise reject(f"RegularGridInterpolator: points {aval(x)} for a grid with {count} axes")
    (values,) = inexact(f.values) if aval(f.values).dtype.kind in "biu" else (f.values,)
    rest = len(aval(values).shape) - count
    neighbours: list[list[tuple[Result, Any]]] = []
    outside: Any = False
    for k, grid in enumerate(f.grid):
        coordinate = OPERATORS.getitem(x, (..., k))
        last = OPERATORS.extent(aval(grid).shape[0]) - 1
        place = searchsorted(grid, coordinate, side="right") - 1
        place = u.maximum(u.minimum(place, last - 1), 0)
        low, high = OPERATORS.getitem(grid, place), OPERATORS.getitem(grid, u.minimum(place + 1, last))
        part = (coordinate - low) / (high - low)
        if method == "nearest":
            neighbours.append([(u.where(u.less_equal(part, 0.5), place, place + 1), None)])
        else:
            neighbours.append([(place, 1 - part), (place + 1, part)])
        first, end = OPERATORS.getitem(grid, 0), OPERATORS.getitem(grid, -1)
        beyond = u.logical_or(u.less(coordinate, first), u.greater(coordinate, end))
        outside = u.logical_or(outside, u.logical_or(beyond, u.isnan(coordinate)))
    total: Any = None
    for corner in itertools.product(*neighbours):
        value = OPERATORS.getitem(values, tuple([i for i, _ in corner]))
        for _, weight in corner:
            value = value if weight is None else value * reshape(weight, (*shape[:-1], *[1] * rest))
        total = value if total is None else total + value
    if f.fill_value is None:
        # an axis beyond which the function goes on; NaN has no place on it
        outside = r.any(u.isnan(x), axis=-1)
    fill = np.nan if f.fill_value is None else f.fill_value
    mask = reshape(outside, (*shape[:-1], *[1] * rest))
    return u.where(mask, to_dtype(as_array(fill), aval(total).dtype), total)


def _of_parts(data: str, children: Sequence[Any]) -> RegularGridInterpolator:
    # without the checks: leaves may be anything while a tree is taken apart
    made = object.__new__(RegularGridInterpolator)
    made.method, made.bounds_error = data, False
    made.grid, made.values, made.fill_value = children
    return made


register_node(RegularGridInterpolator, lambda f: ((f.grid, f.values, f.fill_value), f.method), _of_parts)


def __getattr__(name: str) -> Any:
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
