"""Discrete Fourier transforms of the last axes."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import same_extent
from tracejit.lax.operands import array, aval, reject
from tracejit.primitives.fourier import fft as transformed
from tracejit.support.dtypes import complex_dtype, real_dtype, short_name
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.operators import OPERATORS

__all__ = ["FftType", "fft"]


class FftType(enum.IntEnum):
    """Which transform `fft` makes.   Source: JAX's lax.FftType.

    >>> import tracejit as tj
    >>> tj.lax.FftType.RFFT.name
    'RFFT'
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: int | Sequence[int]) -> Result:
    """The Fourier transform along as many last axes as there are lengths.

    FFT and IFFT: complex[.., *lengths] to the same, the inverse divided by the number of elements; RFFT:
    real[.., *lengths] to complex, of the last axis the first n // 2 + 1 elements; IRFFT: the inverse of that.  Real
    operands of the others are made complex, integers float64 ones.

    Raises: ShapeError for lengths that are not those of the axes, DtypeError for complex operands of RFFT, and a type
    that there is not.
    Source: JAX's lax.fft.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.fft(x, tj.lax.FftType.RFFT, 4).real)(np.array([1.0, 2.0, 3.0, 4.0]))
    array([10., -2., -2.])
    """
    kind = _type_of(fft_type)
    y = array(x)
    lengths: list[Any] = list(fft_lengths) if isinstance(fft_lengths, Sequence) else [fft_lengths]
    if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) for n in lengths):
        raise DtypeError(
            f"[fft] fft_lengths are integers known while tracing, not {fft_lengths!r}", location=user_location()
        )
    lengths = [int(n) for n in lengths]
    dtype = aval(y).dtype
    if kind is FftType.RFFT and dtype.kind == "c":
        raise DtypeError(f"[fft] RFFT takes real numbers, not {short_name(dtype)}", location=user_location())
    wide = complex_dtype(dtype if dtype.kind in "fc" else np.dtype(np.float64))
    y = OPERATORS.to_dtype(y, real_dtype(wide) if kind is FftType.RFFT else wide)
    have = aval(y)
    first = have.ndim - len(lengths)
    given = [n // 2 + 1 if kind is FftType.IRFFT and d == len(lengths) - 1 else n for d, n in enumerate(lengths)]
    if first < 0 or not all(same_extent(n, m) for n, m in zip(have.shape[first:], given, strict=True)):
        raise reject(f"[fft] the last axes of {have} are not those that {kind.name} of fft_lengths={lengths} takes")
    if any(n < 1 for n in lengths):
        raise reject(f"[fft] fft_lengths={lengths}: there is no transform of no numbers")
    match kind:
        case FftType.FFT:
            steps = [("fft", d, 1.0) for d in range(len(lengths))]
        case FftType.IFFT:
            steps = [("ifft", d, 1 / n) for d, n in enumerate(lengths)]
        case FftType.RFFT:
            steps = [("fft", d, 1.0) for d in range(len(lengths) - 1)]
            steps = [*[("rfft", len(lengths) - 1, 1.0)][: len(lengths)], *steps]
        case _:
            steps = [("irfft" if d == len(lengths) - 1 else "ifft", d, 1 / n) for d, n in enumerate(lengths)]
    for name, d, scale in steps:
        y = transformed(y, name, lengths[d], first + d, scale)
    return y


def _type_of(fft_type: Any) -> FftType:
    if isinstance(fft_type, str) and fft_type.upper() in FftType.__members__:
        return FftType[fft_type.upper()]
    if isinstance(fft_type, (int, FftType)) and not isinstance(fft_type, bool) and fft_type in list(FftType):
        return FftType(fft_type)
    raise reject(f"[fft] there is no transform {fft_type!r}; there are {', '.join(FftType.__members__)}")
