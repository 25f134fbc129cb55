"""Spherical harmonics."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.api.control import fori_loop
from tracejit.numpy import powers, ufuncs as u
from tracejit.numpy.axes import reject, unsupported
from tracejit.numpy.promotion import aval, broadcast_shapes, to_dtype
from tracejit.numpy.shaping import array_of, broadcast_to
from tracejit.numpy.special import gammaln
from tracejit.primitives.complex_numbers import make_complex
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.tracer import Tracer

__all__ = ["sph_harm_y"]


def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: Any = None, n_max: int | None = None
) -> Result:
    """Spherical harmonics of degree n and order m at the polar angle theta and the azimuth phi, elementwise.

    n_max: the greatest degree, where n is data of the program, which are clipped to it; as JAX has it.  0 where the
    magnitude of m is greater than n.  There are derivatives with respect to the angles.

    Raises: ShapeError for degrees and orders that are no integers, UnsupportedError for degrees without a greatest one,
    and for diff_n.
    Source: the recurrence of normalised Legendre functions (Press et al., Numerical Recipes, section 6.7); SciPy's
    scipy.special.sph_harm_y.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.special.sph_harm_y(1, 0, 0.0, 0.0).round(6)
    Array((0.488603+0j), dtype=complex128)
    """
    if diff_n:
        raise unsupported("special.sph_harm_y: diff_n is not supported; use tj.grad and tj.hessian")
    degree, order, polar, azimuth = (array_of(x) for x in (n, m, theta, phi))
    if any(aval(x).dtype.kind not in "biu" for x in (degree, order)):
        raise reject("special.sph_harm_y: degrees and orders are integers")
    steps = _greatest(degree) if n_max is None else int(n_max)
    dtype = np.result_type(np.float32, aval(polar).dtype, aval(azimuth).dtype)
    shape: Any = ()
    for x in (degree, order, polar, azimuth):
        shape = broadcast_shapes(shape, aval(x).shape)
    degree, order = (broadcast_to(to_dtype(x, np.dtype(np.int64)), shape) for x in (degree, order))
    polar, azimuth = (broadcast_to(to_dtype(x, dtype), shape) for x in (polar, azimuth))
    degree = u.minimum(degree, steps)
    size = u.absolute(order)
    k, x = to_dtype(size, dtype), u.cos(polar)
    half = dtype.type(0.5)
    constant = u.subtract(gammaln(u.add(k, half)), gammaln(u.add(k, dtype.type(1))))
    constant = u.add(constant, dtype.type(-np.log(4 * np.pi) - 0.5 * np.log(np.pi)))
    start = u.exp(u.multiply(half, u.add(u.log(u.add(u.multiply(dtype.type(2), k), dtype.type(1))), constant)))
    sine = u.where(u.equal(size, 0), dtype.type(1), powers.power(u.absolute(u.sin(polar)), k))
    odd = u.equal(u.remainder(size, 2), 1)
    start = u.multiply(u.where(odd, u.negative(start), start), sine)

    def step(i: ArrayLike, carry: tuple[ArrayLike, ArrayLike]) -> tuple[Result, Result]:
        before, last = carry
        at = u.add(size, u.add(i, 1))
        j = to_dtype(at, dtype)
        squares, previous = u.multiply(j, j), powers.square(u.subtract(j, dtype.type(1)))
        by = u.sqrt(u.divide(u.subtract(u.multiply(dtype.type(4), squares), 1), u.subtract(squares, u.multiply(k, k))))
        less = u.divide(u.subtract(previous, u.multiply(k, k)), u.subtract(u.multiply(dtype.type(4), previous), 1))
        less = u.sqrt(u.where(u.equal(i, 0), dtype.type(0), less))
        following = u.multiply(by, u.subtract(u.multiply(x, last), u.multiply(less, before)))
        inside = u.less_equal(at, degree)
        return u.where(inside, last, before), u.where(inside, following, last)

    _, value = fori_loop(0, steps, step, (u.multiply(start, dtype.type(0)), start))
    value = u.where(u.greater(size, degree), dtype.type(0), value)
    value = u.where(u.logical_and(odd, u.less(order, 0)), u.negative(value), value)
    angle = u.multiply(to_dtype(order, dtype), azimuth)
    return make_complex(u.multiply(value, u.cos(angle)), u.multiply(value, u.sin(angle)))


def _greatest(degree: ArrayLike) -> int:
    value = degree.known() if isinstance(degree, Tracer) else degree
    if value is None:
        raise unsupported("special.sph_harm_y: degrees that are data of the program need n_max=, the greatest of them")
    return max(0, int(np.max(value, initial=0)))
