"""Functions of elements that layers of networks end in."""

from __future__ import annotations

import math

import numpy as np

from tracejit.numpy import ufuncs as u
from tracejit.numpy.exponentials import inexact, logaddexp, numbers
from tracejit.numpy.joining import split
from tracejit.numpy.promotion import as_array, aval, promote
from tracejit.numpy.special import erfc, expit
from tracejit.support.errors import ShapeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu",
    "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus",
    "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip


def identity(x: ArrayLike) -> Result:
    """x itself.

    >>> import tracejit as tj
    >>> tj.nn.identity(2.0)
    Array(2.0, dtype=float64)
    """
    return u.positive(np.asarray(x) if isinstance(x, (bool, int, float)) else as_array(x))


def relu(x: ArrayLike) -> Result:
    """max(x, 0), in the dtype of x.  The derivative at 0 is 0.   Source: JAX's nn.relu.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.relu(np.array([-1.0, 0.0, 2.0]))
    Array([0., 0., 2.], dtype=float64)
    """
    (y,) = promote(x)
    return u.where(u.less_equal(y, 0), 0, y)


def relu6(x: ArrayLike) -> Result:
    """min(max(x, 0), 6).   Source: JAX's nn.relu6.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.relu6(np.array([-1.0, 3.0, 7.0]))
    Array([0., 3., 6.], dtype=float64)
    """
    (y,) = inexact(x)
    return u.minimum(u.maximum(y, 0), 6)


def sigmoid(x: ArrayLike) -> Result:
    """1 / (1 + exp(-x)), of full relative precision for negative x, too.   Source: JAX's nn.sigmoid.

    >>> import tracejit as tj
    >>> float(tj.nn.sigmoid(0.0))
    0.5
    """
    return expit(x)


def softplus(x: ArrayLike) -> Result:
    """log(1 + exp(x)) without overflow, of complex numbers, too.   Source: JAX's nn.softplus.

    >>> import tracejit as tj
    >>> float(tj.nn.softplus(1000.0))
    1000.0
    """
    (y,) = numbers(x)
    return logaddexp(y, 0)


def sparse_plus(x: ArrayLike) -> Result:
    """0 up to -1, x from 1 on, (x + 1)**2 / 4 between.   Source: JAX's nn.sparse_plus.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.sparse_plus(np.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float64)
    """
    (y,) = inexact(x)
    next_ = u.add(y, 1)
    middle = u.divide(u.multiply(next_, next_), 4)
    return u.where(u.less_equal(y, -1), 0, u.where(u.greater_equal(y, 1), y, middle))


def sparse_sigmoid(x: ArrayLike) -> Result:
    """0 up to -1, 1 from 1 on, (x + 1) / 2 between.   Source: JAX's nn.sparse_sigmoid.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.sparse_sigmoid(np.array([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    (y,) = inexact(x)
    return u.multiply(u.minimum(u.maximum(u.add(y, 1), 0), 2), 0.5)


def soft_sign(x: ArrayLike) -> Result:
    """x / (1 + |x|).   Source: JAX's nn.soft_sign.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.soft_sign(np.array([-1.0, 0.0, 3.0]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float64)
    """
    (y,) = inexact(x)
    return u.divide(y, u.add(u.absolute(y), 1))


def silu(x: ArrayLike) -> Result:
    """x sigmoid(x).   Source: JAX's nn.silu.

    >>> import tracejit as tj
    >>> float(tj.nn.silu(0.0))
    0.0
    """
    y = as_array(x)
    if aval(y).dtype.kind != "c":
        (y,) = inexact(y)
    return u.multiply(y, expit(y))


swish = silu


def log_sigmoid(x: ArrayLike) -> Result:
    """log(sigmoid(x)) without overflow, of complex numbers, too.   Source: JAX's nn.log_sigmoid.

    >>> import tracejit as tj
    >>> float(tj.nn.log_sigmoid(-1000.0))
    -1000.0
    """
    (y,) = numbers(x)
    return u.negative(softplus(u.negative(y)))


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Result:
    """x above 0, alpha (exp(x) - 1) below.   Source: JAX's nn.elu.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.elu(np.array([0.0, 2.0]))
    Array([0., 2.], dtype=float64)
    """
    y, slope = inexact(x, alpha)
    above = u.greater(y, 0)
    return u.where(above, y, u.multiply(slope, u.expm1(u.where(above, 0, y))))


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Result:
    """x above 0, alpha (exp(x / alpha) - 1) below.   Source: JAX's nn.celu.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.celu(np.array([0.0, 2.0]))
    Array([0., 2.], dtype=float64)
    """
    y, slope = inexact(x, alpha)
    above = u.greater(y, 0)
    return u.where(above, y, u.multiply(slope, u.expm1(u.divide(u.where(above, 0, y), slope))))


def selu(x: ArrayLike) -> Result:
    """elu with the factors that keep mean and variance.   Source: Klambauer et al. 2017; JAX's nn.selu.

    >>> import tracejit as tj
    >>> round(float(tj.nn.selu(1.0)), 6)
    1.050701
    """
    return u.multiply(elu(x, 1.6732632423543772848170429916717), 1.0507009873554804934193349852946)


def gelu(x: ArrayLike, approximate: bool = True) -> Result:
    """x times the normal distribution's cumulative function; approximate: by tanh.   Source: JAX's nn.gelu.

    >>> import tracejit as tj
    >>> round(float(tj.nn.gelu(1.0, approximate=False)), 6)
    0.841345
    """
    (y,) = inexact(x)
    if approximate:
        cube = u.multiply(y, u.multiply(y, y))
        inner = u.multiply(u.add(y, u.multiply(cube, 0.044715)), math.sqrt(2.0 / math.pi))
        return u.multiply(y, u.multiply(u.add(u.tanh(inner), 1), 0.5))
    return u.multiply(u.multiply(y, 0.5), erfc(u.multiply(y, -math.sqrt(0.5))))


def glu(x: ArrayLike, axis: int = -1) -> Result:
    """The first half of x along `axis` times sigmoid of the second one.

    Raises: ShapeError for an odd extent.   Source: JAX's nn.glu.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.glu(np.array([4.0, 0.0]))
    Array([2.], dtype=float64)
    """
    (y,) = inexact(as_array(x))
    extent = aval(y).shape[axis]
    if isinstance(extent, int) and extent % 2:
        raise ShapeError(
            f"nn.glu: axis {axis} has {extent} elements, which two do not divide", location=user_location()
        )
    first, second = split(y, 2, axis)
    return u.multiply(first, expit(second))


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Result:
    """x from 0 on, negative_slope x below.   Source: JAX's nn.leaky_relu.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.leaky_relu(np.array([-1.0, 2.0]), 0.5)
    Array([-0.5,  2. ], dtype=float64)
    """
    y, slope = inexact(x, negative_slope)
    return u.where(u.greater_equal(y, 0), y, u.multiply(slope, y))


def hard_tanh(x: ArrayLike) -> Result:
    """x limited to [-1, 1].   Source: JAX's nn.hard_tanh.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.hard_tanh(np.array([-2.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float64)
    """
    (y,) = promote(x)
    return u.where(u.greater(y, 1), 1, u.where(u.less(y, -1), -1, y))


def hard_sigmoid(x: ArrayLike) -> Result:
    """relu6(x + 3) / 6.   Source: JAX's nn.hard_sigmoid.

    >>> import tracejit as tj
    >>> float(tj.nn.hard_sigmoid(0.0))
    0.5
    """
    (y,) = inexact(x)
    return u.divide(relu6(u.add(y, 3)), 6)


def hard_silu(x: ArrayLike) -> Result:
    """x hard_sigmoid(x).   Source: JAX's nn.hard_silu.

    >>> import tracejit as tj
    >>> float(tj.nn.hard_silu(3.0))
    3.0
    """
    (y,) = inexact(x)
    return u.multiply(y, hard_sigmoid(y))


hard_swish = hard_silu


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Result:
    """(x + sqrt(x**2 + b)) / 2.   Source: JAX's nn.squareplus.

    >>> import tracejit as tj
    >>> float(tj.nn.squareplus(0.0))
    1.0
    """
    y, offset = inexact(x, b)
    return u.divide(u.add(y, u.sqrt(u.add(u.multiply(y, y), offset))), 2)


def mish(x: ArrayLike) -> Result:
    """x tanh(softplus(x)).   Source: JAX's nn.mish.

    >>> import tracejit as tj
    >>> float(tj.nn.mish(0.0))
    0.0
    """
    (y,) = numbers(x)
    return u.multiply(y, u.tanh(softplus(y)))


def tanh(x: ArrayLike, /) -> Result:
    """The hyperbolic tangent.

    >>> import tracejit as tj
    >>> float(tj.nn.tanh(0.0))
    0.0
    """
    return u.tanh(*numbers(x))


def log1mexp(x: ArrayLike) -> Result:
    """log(1 - exp(-x)), x positive, without cancellation.   Source: JAX's nn.log1mexp.

    >>> import numpy as np, tracejit as tj
    >>> bool(np.isclose(tj.nn.log1mexp(1e-20), np.log(1e-20)))
    True
    """
    (y,) = inexact(x)
    small = u.less(y, math.log(2.0))
    near, far = u.where(small, y, 1), u.where(small, 1, y)
    return u.where(small, u.log(u.negative(u.expm1(u.negative(near)))), u.log1p(u.negative(u.exp(u.negative(far)))))
