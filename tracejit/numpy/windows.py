"""Windows: weights of n points that fall towards both ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import as_extent, at_least_none, static_array
from tracejit.numpy.creation import fresh
from tracejit.numpy.evenly_spaced import arange
from tracejit.primitives import creation as c
from tracejit.support.typing import ArrayLike, Result

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _window(M: ArrayLike, weights: Callable[[Any, Any], Any]) -> Result:
    """`weights(n, m)` of the odd or even numbers n from -m to m, two apart, where m is M - 1; none below 1, and a one
    for 1.
    """
    count = _count(M)
    if isinstance(count, int) and count < 2:
        return fresh(np.ones(max(count, 0)))
    if isinstance(M, (float, np.floating)):
        return weights(fresh(np.arange(1 - M, M, 2)), float(M) - 1)
    last: Any = c.extent_value(count - 1, np.float64) if isinstance(count, Dim) else float(count - 1)
    n = u.subtract(u.multiply(arange(count), 2.0), last)
    return weights(n, u.maximum(last, 1.0))  # of one point n is 0


def _count(M: ArrayLike) -> Extent:
    if isinstance(M, (float, np.floating)):
        return int(np.ceil(M)) if M >= 1 else 0  # as many points as np.arange has
    return at_least_none(as_extent(M))


def hanning(M: ArrayLike) -> Result:
    """The Hann window of M points, float64.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: x * np.hanning(3))(np.ones(3))
    array([0., 1., 0.])
    """
    return _window(M, lambda n, m: u.add(0.5, u.multiply(0.5, u.cos(u.divide(u.multiply(np.pi, n), m)))))


def hamming(M: ArrayLike) -> Result:
    """The Hamming window of M points, float64.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: x * np.hamming(3))(np.ones(3)).round(12)
    array([0.08, 1.  , 0.08])
    """
    return _window(M, lambda n, m: u.add(0.54, u.multiply(0.46, u.cos(u.divide(u.multiply(np.pi, n), m)))))


def blackman(M: ArrayLike) -> Result:
    """The Blackman window of M points, float64.

    >>> import numpy as np, tracejit as tj
    >>> abs(tj.jit(lambda x: x * np.blackman(3))(np.ones(3))).round(12)
    array([0., 1., 0.])
    """

    def weights(n: Any, m: Any) -> Result:
        first = u.multiply(0.5, u.cos(u.divide(u.multiply(np.pi, n), m)))
        return u.add(u.add(0.42, first), u.multiply(0.08, u.cos(u.divide(u.multiply(2.0 * np.pi, n), m))))

    return _window(M, weights)


def bartlett(M: ArrayLike) -> Result:
    """The triangle of M points with zeros at both ends, float64.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: x * np.bartlett(5))(np.ones(5))
    array([0. , 0.5, 1. , 0.5, 0. ])
    """

    def weights(n: Any, m: Any) -> Result:
        share = u.divide(n, m)
        return u.where(u.less_equal(n, 0), u.add(1, share), u.subtract(1, share))

    return _window(M, weights)


def kaiser(M: ArrayLike, beta: ArrayLike) -> Result:
    """The Kaiser window of M points and a shape `beta`, both known while tracing; float64.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: x * np.kaiser(3, 0.0))(np.ones(3))
    array([1., 1., 1.])
    """
    points = M if isinstance(M, (float, np.floating)) else int(_count(M))
    return fresh(np.kaiser(points, float(static_array(beta, "np.kaiser's beta")[()])))
