"""The Faddeeva function w(z) = exp(-z^2) erfc(-iz) of complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.api.custom import custom_jvp
from tracejit.numpy import ufuncs as u
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.primitives.complex_numbers import imag, make_complex
from tracejit.support.dtypes import complex_dtype
from tracejit.support.typing import ArrayLike, Result

__all__ = ["wofz"]

_TERMS = 48
_SCALE = float(np.sqrt(_TERMS / np.sqrt(2)))
_FAR = 7.0
_STEPS = 24


def _expansion() -> np.ndarray[Any, Any]:
    """Coefficients of powers of (L + iz) / (L - iz), the highest first, L being the scale.

    Source: Weideman, Computation of the complex error function, 1994.
    """
    points = 4 * _TERMS
    angles = np.arange(1 - points // 2, points // 2) * 2 * np.pi / points
    t = _SCALE * np.tan(angles / 2)
    f = np.concatenate([[0.0], np.exp(-t * t) * (_SCALE**2 + t * t)])
    return np.real(np.fft.fft(np.fft.fftshift(f)))[1 : _TERMS + 1][::-1] / points


_COEFFICIENTS = _expansion()


def _upper(z: ArrayLike) -> Result:
    """w of the upper half plane: Weideman's rational functions near 0, Laplace's continued fraction beyond."""
    far = u.greater(u.absolute(z), _FAR)
    near = u.where(far, 0, z)
    inner = u.multiply(1j, near)
    ratio = u.divide(u.add(_SCALE, inner), u.subtract(_SCALE, inner))
    value: Any = _COEFFICIENTS[0]
    for c in _COEFFICIENTS[1:]:
        value = u.add(u.multiply(value, ratio), c)
    below = u.subtract(_SCALE, inner)
    value = u.add(u.divide(u.multiply(2, value), u.multiply(below, below)), u.divide(1 / np.sqrt(np.pi), below))
    beyond = u.where(far, z, 2 * _FAR)
    fraction = beyond
    for k in range(_STEPS, 0, -1):
        fraction = u.subtract(beyond, u.divide(k / 2, fraction))
    return u.where(far, u.divide(1j / np.sqrt(np.pi), fraction), value)


@custom_jvp
def _faddeeva(z: ArrayLike) -> Result:
    low = u.less(imag(z), 0)
    above = _upper(u.where(low, u.negative(z), z))
    # w(z) + w(-z) = 2 exp(-z^2); what is not needed must not overflow
    square = u.where(low, u.multiply(z, z), 0)
    out = u.where(low, u.subtract(u.multiply(2, u.exp(u.negative(square))), above), above)
    infinite = u.logical_and(u.isinf(u.absolute(z)), u.logical_not(low))
    return u.where(infinite, 0, out)


@_faddeeva.defjvp
def _slope(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Result, Result]:
    """w' = 2i / sqrt(pi) - 2 z w."""
    (z,), (t,) = primals, tangents
    w = _faddeeva(z)
    return w, u.multiply(t, u.subtract(2j / np.sqrt(np.pi), u.multiply(2, u.multiply(z, w))))


def wofz(z: ArrayLike) -> Result:
    """The Faddeeva function, exp(-z^2) erfc(-iz), complex.

    Within 1e-13 of its magnitude in the upper half plane; below, where it grows as exp(-z^2), within |z|^2 roundings.

    Of real x the real part is exp(-x^2).

    Source: SciPy's scipy.special.wofz; Weideman 1994 and Gautschi 1970.

    >>> import tracejit as tj
    >>> complex(tj.scipy.special.wofz(1j)).real.__round__(12)
    0.427583576156
    """
    x = as_array(z)
    have = aval(x).dtype
    whole = (
        have if have.kind == "c" else complex_dtype(have if have.kind == "f" and have.itemsize > 2 else np.dtype("f8"))
    )
    if have.kind != "c":
        y = to_dtype(x, np.float64)
        w = _faddeeva(to_dtype(y, np.complex128))
        return to_dtype(make_complex(u.exp(u.negative(u.multiply(y, y))), imag(w)), whole)
    return to_dtype(_faddeeva(to_dtype(x, np.complex128)), whole)
