"""Hankel transforms of what is known at logarithmic steps, of `scipy.fft`."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from tracejit.ir.math.complex_gamma import log_gamma
from tracejit.ir.math.evaluate import evaluate_complex
from tracejit.lax.operands import array, aval, reject
from tracejit.numpy import fourier
from tracejit.numpy.exponentials import inexact
from tracejit.primitives.elementwise import mul
from tracejit.primitives.shape import broadcast_in_dim, reverse
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result

__all__ = ["fht", "fhtoffset", "ifht"]

_LN2 = math.log(2.0)


def fht(a: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Result:
    """The Hankel transform of order mu along the last axis, of numbers whose places have logarithms `dln` apart.

    offset: of the logarithms of the places of the result; bias: the exponent of the power that is taken off before.
    dln, mu, offset and bias are numbers of Python's.

    Raises: DtypeError for complex numbers.  Warns where the transform is singular.
    Source: SciPy's scipy.fft.fht; Hamilton 2000, "Uncorrelated modes of the non-linear power spectrum" (FFTLog).

    >>> import numpy as np, tracejit as tj
    >>> a = np.exp(-np.linspace(-2, 2, 16) ** 2)
    >>> there = tj.scipy.fft.fht(a, 0.25, 0.5)
    >>> bool(np.allclose(tj.scipy.fft.ifht(there, 0.25, 0.5), a))
    True
    """
    x, n = _numbers("fht", a)
    if bias:
        x = _times(x, np.exp(-bias * (np.arange(n) - (n - 1) / 2) * dln))
    x = _mixed(x, n, _coefficients(n, dln, mu, offset, bias, inverse=False))
    return _times(x, np.exp(-bias * ((np.arange(n) - (n - 1) / 2) * dln + offset))) if bias else x


def ifht(A: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Result:
    """The inverse of `fht` with the same numbers.

    Raises: as `fht`.
    Source: SciPy's scipy.fft.ifht.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.fft.ifht(np.ones(4), 0.1, 1.0).shape
    (4,)
    """
    x, n = _numbers("ifht", A)
    if bias:
        x = _times(x, np.exp(bias * ((np.arange(n) - (n - 1) / 2) * dln + offset)))
    with np.errstate(divide="ignore", invalid="ignore"):
        over = 1 / np.conj(_coefficients(n, dln, mu, offset, bias, inverse=True))
    x = _mixed(x, n, np.where(np.isfinite(over), over, 0))
    return _times(x, np.exp(bias * (np.arange(n) - (n - 1) / 2) * dln)) if bias else x


def fhtoffset(dln: float, mu: float, initial: float = 0.0, bias: float = 0.0) -> float:
    """The offset nearest to `initial` with which `fht` rings least.

    Source: SciPy's scipy.fft.fhtoffset.

    >>> import tracejit as tj
    >>> round(tj.scipy.fft.fhtoffset(0.1, 2.0, 0.5), 12)
    0.545458147768
    """
    upper, lower = (mu + 1 + bias) / 2, (mu + 1 - bias) / 2
    height = math.pi / (2 * dln)
    angles = evaluate_complex(log_gamma, np.array([complex(upper, height), complex(lower, height)])).imag
    turns = (_LN2 - initial) / dln + float(angles.sum()) / math.pi
    return initial + (turns - round(turns)) * dln


def _numbers(name: str, x: ArrayLike) -> tuple[Any, int]:
    given = array(x)
    if aval(given).dtype.kind == "c":
        raise DtypeError(f"{name} takes real numbers; transform the parts", location=user_location())
    (y,) = inexact(given)
    shape = aval(y).shape
    if not shape or int(shape[-1]) < 1:
        raise reject(f"{name}: {aval(y)} has no numbers along its last axis")
    return y, int(shape[-1])


def _times(x: ArrayLike, vector: Any) -> Result:
    have = aval(x)
    dtype = np.result_type(have.dtype, np.complex64) if np.iscomplexobj(vector) else have.dtype
    return mul(x, broadcast_in_dim(vector.astype(dtype), have.shape, (have.ndim - 1,)))


def _mixed(x: ArrayLike, n: int, factors: Any) -> Result:
    """The transform of a convolution."""
    spectrum = _times(fourier.rfft(x), factors)
    return reverse(fourier.irfft(spectrum, n), (aval(x).ndim - 1,))


def _coefficients(n: int, dln: float, mu: float, offset: float, bias: float, *, inverse: bool) -> Any:
    """(k r)**(-i y) 2**(q + i y) gamma((mu + 1 + q + i y) / 2) / gamma((mu + 1 - q - i y) / 2), complex[n // 2 + 1]"""
    upper, lower = (mu + 1 + bias) / 2, (mu + 1 - bias) / 2
    y = np.linspace(0, math.pi * (n // 2) / (n * dln), n // 2 + 1)
    above, below = (evaluate_complex(log_gamma, x + 1j * y) for x in (upper, lower))
    angle = above.imag + below.imag + 2 * (_LN2 - offset) * y
    with np.errstate(invalid="ignore"):
        found = np.exp(above.real - below.real + _LN2 * bias + 1j * angle)
    if n % 2 == 0:
        found[-1] = found[-1].real
    if not np.isfinite(found[0]):
        found[0] = 2.0**bias * _ratio_of_gammas(lower, bias)
    singular = found[0] == 0 if inverse else np.isinf(found[0])
    if singular:
        kind = "singular inverse transform" if inverse else "singular transform"
        warnings.warn(f"{kind}; consider changing the bias", RuntimeWarning, stacklevel=4)
        found[0] = np.inf if inverse else 0
    return found


def _ratio_of_gammas(x: float, more: float) -> float:
    """gamma(x + more) / gamma(x), where one of the two is infinite."""
    if more != int(more):
        return 0.0 if x == int(x) and x <= 0 else math.inf
    steps = [x + k for k in range(int(more))] if more > 0 else [x - k for k in range(1, 1 - int(more))]
    product = math.prod(steps)
    return product if more > 0 else 1 / product if product else math.inf
