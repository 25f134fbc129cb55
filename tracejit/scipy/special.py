"""Special functions: those of `scipy.special`, and what JAX has under that name."""

from typing import Any

from tracejit.api.returning import returning_arrays
from tracejit.numpy import exponentials, faddeeva, harmonics, special as _functions
from tracejit.numpy.exponentials import logsumexp
from tracejit.numpy.special import *  # noqa: F403
from tracejit.support.typing import ArrayLike, AxisLike, Result


def softmax(x: ArrayLike, axis: AxisLike = None) -> Result:
    """exp(x) over its sum along `axis`, by default over all elements.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.special.softmax(np.zeros(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float64)
    """
    return exponentials.softmax(x, axis)


def log_softmax(x: ArrayLike, axis: AxisLike = None) -> Result:
    """log(softmax(x)) along `axis`, by default over all elements.

    >>> import numpy as np, tracejit as tj
    >>> bool(np.allclose(tj.scipy.special.log_softmax(np.zeros(4)), -np.log(4.0)))
    True
    """
    return exponentials.log_softmax(x, axis)


globals().update({
    _name: returning_arrays(_value)
    for _name, _value in [*[(n, getattr(_functions, n)) for n in _functions.__all__], ("logsumexp", logsumexp),
    ("softmax", softmax), ("log_softmax", log_softmax), ("sph_harm_y", harmonics.sph_harm_y),
    ("wofz", faddeeva.wofz)]
})  # fmt: skip


def __getattr__(name: str) -> Any:
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
