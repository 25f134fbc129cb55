"""How variables vary together."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import is_empty, same_extent
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.joining import concatenate
from tracejit.numpy.linear import diagonal, dot
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.numpy.rounding import around
from tracejit.numpy.selecting import clip
from tracejit.numpy.shaping import array_of, as_rank_0_array, squeeze
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.creation import extent_value
from tracejit.primitives.shape import broadcast_in_dim, reshape, transpose
from tracejit.support.dtypes import canonical, result_type
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.failures import Reason
from tracejit.tracer.tables import FUNCTIONS

__all__ = ["corrcoef", "cov"]

_NEGATIVE = {name: Reason(ShapeError, f"np.cov: {name} cannot be negative") for name in ("fweights", "aweights")}
_NOT_WHOLE = Reason(DtypeError, "np.cov: fweights must be integer")


def cov(
    m: ArrayLike,
    y: ArrayLike = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike = None,
    aweights: ArrayLike = None,
    *,
    dtype: DTypeLike = None,
) -> Result:
    """The covariance matrix of variables, which are rows of m (columns where `rowvar` is False), and of y.

    ddof: what is taken off the number of observations, 1 by default, 0 with `bias`.  fweights: how often each
    observation counts, whole numbers; aweights: how much.  float64 unless `dtype` says otherwise.

    Raises: ShapeError for arrays of more than 2 axes, weights of another length, and negative ones; DtypeError for
    fweights that are no whole numbers; where that depends on values, the program does.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.cov(x))(np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    if ddof is not None and ddof != int(ddof):
        raise reject("ddof must be integer")
    first = array_of(m)
    second = None if y is None else array_of(y)
    given = [aval(z) for z in (first, second) if z is not None]
    for n, z in enumerate(given):
        if z.ndim > 2:
            raise reject(f"np.cov: {'my'[n]} has more than 2 dimensions")
    if dtype is None:
        result = result_type(*[(z.dtype, z.weak) for z in given], (np.dtype(np.float64), False))[0]
    else:
        result = canonical(dtype)
    x = _variables(to_dtype(first, result), rowvar, given[0].ndim != 1)
    if is_empty(aval(x).shape[0]):
        return np.zeros((0, 0))
    if second is not None:
        other = _variables(to_dtype(second, result), True, True)
        if not rowvar and not _is_one(aval(other).shape[0]):
            other = transpose(other, (1, 0))
        x = concatenate([x, other], 0)
    rows, n = aval(x).shape
    less = (0 if bias else 1) if ddof is None else int(ddof)
    count = _weights("fweights", fweights, n)
    amount = _weights("aweights", aweights, n)
    w = count if amount is None else amount if count is None else u.multiply(count, amount)
    mean, total = _mean(x, w)
    if w is None:
        factor: Any = u.subtract(extent_value(n, np.float64), float(less))
    elif less == 0:
        factor = total
    elif amount is None:
        factor = u.subtract(total, float(less))
    else:
        factor = u.subtract(total, u.divide(u.multiply(float(less), r.sum(u.multiply(w, amount))), total))
    factor = u.where(u.less_equal(factor, 0), 0.0, factor)
    x = u.subtract(x, broadcast_in_dim(mean, (rows, n), (0,)))
    right = x if w is None else u.multiply(x, broadcast_in_dim(w, (rows, n), (1,)))
    found = dot(x, conj(transpose(right, (1, 0))))
    found = u.multiply(found, to_dtype(u.divide(1.0, factor), aval(found).dtype))
    return as_rank_0_array(reshape(found, ())) if aval(found).shape == (1, 1) else squeeze(found)


def _is_one(n: Any) -> bool:
    return bool(n == 1)


def _variables(x: ArrayLike, rowvar: bool, turns: bool) -> Result:
    """One variable a row."""
    have = aval(x)
    if have.ndim < 2:
        return reshape(x, (1, have.shape[0] if have.ndim else 1))
    return x if rowvar or not turns else transpose(x, (1, 0))


def _weights(name: str, weights: ArrayLike, n: Any) -> Result:
    if weights is None:
        return None
    w = to_dtype(array_of(weights), np.float64)
    if aval(w).ndim != 1:
        raise reject(f"np.cov: cannot handle multidimensional {name}")
    if not same_extent(aval(w).shape[0], n):
        raise reject(f"np.cov: incompatible numbers of samples and {name}")
    if name == "fweights":
        check_none(u.not_equal(w, around(w)), _NOT_WHOLE)
    check_none(u.less(w, 0), _NEGATIVE[name])
    return w


def _mean(x: ArrayLike, w: ArrayLike) -> tuple[Result, Result]:
    """(the means of rows, the sum of the weights)"""
    if w is None:
        return r.mean(x, axis=1), None
    return r.average(x, 1, w), r.sum(w)


def corrcoef(x: ArrayLike, y: ArrayLike = None, rowvar: bool = True, *, dtype: DTypeLike = None) -> Result:
    """The correlation coefficients of variables, which are rows of x (columns where `rowvar` is False), and of y:
    covariances divided by both standard deviations, between -1 and 1.

    Raises: as `cov`.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.corrcoef(x)[0, 1])(np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    np.float64(-1.0)
    """
    c = cov(x, y, rowvar, dtype=dtype)
    have = aval(c)
    if have.ndim == 0:
        return u.divide(c, c)
    deviations = u.sqrt(real(diagonal(c)))
    c = u.divide(c, broadcast_in_dim(deviations, have.shape, (0,)))
    c = u.divide(c, broadcast_in_dim(deviations, have.shape, (1,)))
    if have.dtype.kind == "c":
        return make_complex(clip(real(c), -1, 1), clip(imag(c), -1, 1))
    return clip(c, -1, 1)


for _name in __all__:
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
