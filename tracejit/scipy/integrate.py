"""Integrals of samples: those of `scipy.integrate`."""

from __future__ import annotations

from typing import Any

from tracejit.api.returning import returning_arrays
from tracejit.numpy import differences
from tracejit.support.typing import ArrayLike, AxisLike, Result

__all__ = ["trapezoid"]


@returning_arrays
def trapezoid(y: ArrayLike, x: ArrayLike = None, dx: ArrayLike = 1.0, axis: AxisLike = -1) -> Result:
    """The integral along an axis by the trapezoidal rule, over coordinates x or even steps dx.

    Raises: ShapeError for shapes that do not fit and an axis that there is not.
    Source: SciPy's integrate.trapezoid.

    >>> import numpy as np, tracejit as tj
    >>> float(tj.scipy.integrate.trapezoid(np.array([1.0, 2.0, 4.0]), dx=2.0))
    9.0
    """
    return differences.trapezoid(y, x, dx, axis)


def __getattr__(name: str) -> Any:
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
