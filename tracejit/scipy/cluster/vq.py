"""Points and the nearest of some others: `scipy.cluster.vq`."""

from __future__ import annotations

from typing import Any

from tracejit.api.returning import returning_arrays
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.exponentials import inexact
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import expand_dims
from tracejit.support.errors import ShapeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result

__all__ = ["vq"]


@returning_arrays
def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Result, Result]:
    """(which point of the code book is nearest to each observation, how far it is).
    obs: [m, n], code_book: [k, n] -> i64[m], float[m]; vectors are points of a line

    Of several that are as near it is the first.  check_finite: changes nothing; a NaN is nearest.

    Raises: ShapeError for other ranks, and points of another number of coordinates.
    Source: SciPy's cluster.vq.vq.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.cluster.vq.vq(np.array([[0.0, 1.0], [5.0, 5.0]]), np.array([[5.0, 4.0], [0.0, 0.0]]))
    (Array([1, 0], dtype=int64), Array([1., 1.], dtype=float64))
    """
    given = [as_array(obs), as_array(code_book)]
    dtype = aval(inexact(*[aval(x).dtype.type(0) for x in given])[0]).dtype
    points, codes = [to_dtype(x, dtype) for x in given]
    shape, others = aval(points).shape, aval(codes).shape
    if len(shape) != len(others) or len(shape) not in (1, 2) or shape[1:] != others[1:]:
        raise ShapeError(
            f"vq: observations {aval(points)} and code book {aval(codes)} are not points of one space",
            location=user_location(),
        )
    if len(shape) == 1:
        points, codes = expand_dims(points, -1), expand_dims(codes, -1)
    apart = expand_dims(points, 1) - expand_dims(codes, 0)
    squares = r.sum(apart * apart, axis=-1)
    return r.argmin(squares, axis=1), u.sqrt(r.min(squares, axis=1))


def __getattr__(name: str) -> Any:
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
