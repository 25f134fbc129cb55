"""Complex numbers and their parts."""

from __future__ import annotations

from tracejit.lax.operands import aval, operands, spread
from tracejit.primitives import complex_numbers as p
from tracejit.primitives.elementwise import neg, zero_like
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result

__all__ = ["complex", "conj", "imag", "real"]


def real(x: ArrayLike) -> Result:
    """The real parts of complex numbers: float32 of complex64, float64 of complex128.

    Raises: DtypeError for numbers that are not complex.   Source: JAX's lax.real.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.real(np.array([1 + 2j, 3 - 1j]))
    array([1., 3.])
    """
    return p.real(_complex("real", x))


def imag(x: ArrayLike) -> Result:
    """The imaginary parts of complex numbers: float32 of complex64, float64 of complex128.

    Raises: DtypeError for numbers that are not complex.   Source: JAX's lax.imag.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.imag(np.array([1 + 2j, 3 - 1j]))
    array([ 2., -1.])
    """
    return p.imag(_complex("imag", x))


def conj(x: ArrayLike) -> Result:
    """The conjugates of numbers; real ones become complex as in JAX.

    Raises: DtypeError for integers and bool.   Source: JAX's lax.conj.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.conj(np.array([1 + 2j]))
    array([1.-2.j])
    """
    (y,) = operands("conj", x)
    if aval(y).dtype.kind == "f":
        return p.make_complex(y, neg(zero_like(y)))
    return p.conj(_complex("conj", y))


def complex(x: ArrayLike, y: ArrayLike) -> Result:
    """Complex numbers of these real and imaginary parts: complex64 of float32, complex128 of float64.

    Raises: DtypeError for other dtypes, and for parts of different ones.   Source: JAX's lax.complex.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.complex(np.array([1.0, 3.0]), np.array([2.0, -1.0]))
    array([1.+2.j, 3.-1.j])
    """
    a, b = spread(operands("complex", x, y))
    have = aval(a)
    if have.dtype not in ("f4", "f8"):
        raise _other("complex", have.dtype, "float32 and float64")
    return p.make_complex(a, b)


def _complex(name: str, x: ArrayLike) -> Result:
    (y,) = operands(name, x)
    dtype = aval(y).dtype
    if dtype.kind != "c":
        raise _other(name, dtype, "complex numbers")
    return y


def _other(name: str, dtype: object, wanted: str) -> DtypeError:
    return DtypeError(f"[{name}] does not accept {dtype}, only {wanted}", location=user_location())
