"""Statistics of samples."""

from __future__ import annotations

from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.exponentials import inexact
from tracejit.numpy.nan_reductions import nanstd
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import ravel
from tracejit.support.errors import UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result

__all__ = ["sem"]


def sem(
    a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Result:
    """The standard error of the mean along `axis`, of all elements where it is None.

    nan_policy: "propagate", or "omit": NaN do not count.

    Raises: UnsupportedError for another nan_policy.   Source: SciPy's stats.sem.

    >>> import numpy as np, tracejit as tj
    >>> float(tj.scipy.stats.sem(np.array([1.0, 3.0])))
    1.0
    """
    if nan_policy not in ("propagate", "omit"):
        raise UnsupportedError(
            f"scipy.stats.sem: nan_policy={nan_policy!r} is not supported; leave it out", location=user_location()
        )
    (x,) = inexact(as_array(a))
    if axis is None and not keepdims:
        x, axis = ravel(x), 0
    if nan_policy == "omit":
        numbers = r.sum(to_dtype(u.logical_not(u.isnan(x)), aval(x).dtype), axis=axis, keepdims=keepdims)
        return nanstd(x, axis=axis, ddof=ddof, keepdims=keepdims) / u.sqrt(numbers)
    shape = aval(x).shape
    count = aval(x).dtype.type(1)
    for n in shape if axis is None else [shape[axis]]:
        count = count * n
    return r.std(x, axis=axis, ddof=ddof, keepdims=keepdims) / u.sqrt(count)
