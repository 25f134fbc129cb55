"""Discrete Fourier transforms, by the names of `numpy.fft`.

What is computed is in `primitives/fourier.py`; here are axes, lengths, norms and dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, is_empty
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import as_extent, axis_index, not_negative, reject, static_int
from tracejit.numpy.counts import check_not_empty
from tracejit.numpy.evenly_spaced import arange
from tracejit.numpy.joining import roll
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.primitives import shape as p
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.creation import extent_value
from tracejit.primitives.elementwise import zero_like
from tracejit.primitives.fourier import fft as transformed
from tracejit.support.dtypes import complex_dtype, real_dtype
from tracejit.support.errors import ShapeError
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.failures import Reason
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.substitutes import redirect_members
from tracejit.tracer.tables import FUNCTIONS

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


_NO_SAMPLES = Reason(ShapeError, "Invalid number of FFT data points (0) specified.")


# -- one axis ----------------------------------------------------------------------------------------------------------
def _resized(x: ArrayLike, n: int, axis: int) -> Result:
    """An axis cut to n elements, or with zeros behind it."""
    shape = aval(x).shape
    have, none = shape[axis], (0,) * len(shape)
    if have > n:
        return p.slice_array(x, none, tuple([n if d == axis else m for d, m in enumerate(shape)]))
    if have < n:
        return p.pad(x, zero_like(x), none, tuple([n - have if d == axis else 0 for d in range(len(shape))]))
    return x


def _length(name: str, n: Any, have: Any) -> int:
    count = int(have) if n is None else static_int(n, f"np.fft.{name}'s n")
    if count < 1:
        raise reject(f"Invalid number of FFT data points ({count}) specified.")
    return count


def _scale(name: str, n: int, norm: str | None, *, inverse: bool) -> float:
    """What the sums are multiplied by.  Raises: ShapeError, a ValueError, for a norm there is not."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise reject(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    if norm == "ortho":
        return 1 / np.sqrt(n)
    return 1 / n if inverse == (norm != "forward") else 1.0


def _complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return complex_dtype(dtype if dtype.kind in "fc" else np.dtype(np.float64))


def _complex(x: ArrayLike) -> Result:
    y = array_of(x)
    return to_dtype(y, _complex_dtype(aval(y).dtype))


def _along(name: str, kind: str, x: ArrayLike, n: Any, axis: AxisLike, norm: str | None, *, inverse: bool) -> Result:
    rank = aval(x).ndim
    if not rank:
        raise reject(f"np.fft.{name} takes arrays, not numbers")
    k = axis_index(axis, rank)
    have = aval(x).shape[k]
    count = _length(name, n, 2 * (int(have) - 1) if kind == "irfft" and n is None else have)
    y = _resized(x, count // 2 + 1 if kind == "irfft" else count, k)
    return transformed(y, kind, count, k, _scale(name, count, norm, inverse=inverse))


def fft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The discrete Fourier transform along an axis, of n elements (cut, or with zeros behind).

    complex64 for float16, float32 and complex64, else complex128.  norm: "backward" (the inverse is divided by n),
    "ortho" (both by its root), "forward".  The number of elements is known while tracing: each has its own program.

    Raises: ShapeError for n below 1 and a norm there is not.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.fft.fft(x).real)(np.array([1.0, 2.0, 3.0, 4.0]))
    array([10., -2., -2., -2.])
    """
    return _along("fft", "fft", _complex(a), n, axis, norm, inverse=False)


def ifft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The inverse of `fft`."""
    return _along("ifft", "ifft", _complex(a), n, axis, norm, inverse=True)


def rfft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The first half of the transform of real numbers, n // 2 + 1 of them; the others are their conjugates.

    Raises: as `fft`; DtypeError for complex numbers.
    """
    x = array_of(a)
    dtype = aval(x).dtype
    x = real_only("rfft", x) if dtype.kind == "c" else to_dtype(x, real_dtype(_complex_dtype(dtype)))
    return _along("rfft", "rfft", x, n, axis, norm, inverse=False)


def real_only(name: str, x: ArrayLike) -> Result:
    """Raises: DtypeError."""
    return to_dtype(x, real_dtype(aval(x).dtype))  # which says what to do


def irfft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The inverse of `rfft`: n real numbers, 2 (m - 1) of m unless it is given."""
    given = aval(array_of(a)).dtype
    found = _along("irfft", "irfft", _complex(a), n, axis, norm, inverse=True)
    return to_dtype(found, given) if given == np.float16 else found


_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def hfft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The transform, real, of numbers of which the first half is given and the others are its conjugates."""
    x = array_of(a)
    if n is None:
        n = 2 * (int(aval(x).shape[axis_index(axis, aval(x).ndim)]) - 1)
    return irfft(conj(x) if aval(x).dtype.kind == "c" else x, n, axis, _SWAPPED.get(norm, norm))


def ihfft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The inverse of `hfft`."""
    return conj(rfft(a, n, axis, _SWAPPED.get(norm, norm)))


# -- several axes ------------------------------------------------------------------------------------------------------
def _sizes_and_axes(name: str, rank: int, s: Any, axes: Any) -> tuple[list[Any], list[int]]:
    if axes is None:
        count = rank if s is None else len(s)
        found = list(range(rank - count, rank))
    else:
        found = [axis_index(a, rank) for a in axes]  # NumPy transforms along an axis twice that is named twice
    sizes = [None] * len(found) if s is None else list(s)
    if len(sizes) != len(found):
        raise reject("Shape and axes have different lengths.")
    return [None if n is None or n == -1 else n for n in sizes], list(found)


def _over(name: str, function: Callable[..., Any], a: ArrayLike, s: Any, axes: Any, norm: str | None) -> Result:
    x = array_of(a)
    sizes, places = _sizes_and_axes(name, aval(x).ndim, s, axes)
    for n, k in zip(reversed(sizes), reversed(places), strict=True):
        x = function(x, n, k, norm)
    return x  # without axes the array itself, as NumPy has it, real or complex


def fftn(a: ArrayLike, s: Any = None, axes: Any = None, norm: str | None = None, out: ArrayLike = None) -> Result:
    """`fft` along several axes, all by default; s: the numbers of elements there, -1 for all."""
    return _over("fftn", fft, a, s, axes, norm)


def ifftn(a: ArrayLike, s: Any = None, axes: Any = None, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The inverse of `fftn`."""
    return _over("ifftn", ifft, a, s, axes, norm)


def fft2(
    a: ArrayLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None, out: ArrayLike = None
) -> Result:
    """`fftn` along two axes, the last ones by default."""
    return fftn(a, s, axes, norm)


def ifft2(
    a: ArrayLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None, out: ArrayLike = None
) -> Result:
    """The inverse of `fft2`."""
    return ifftn(a, s, axes, norm)


def rfftn(a: ArrayLike, s: Any = None, axes: Any = None, norm: str | None = None, out: ArrayLike = None) -> Result:
    """`rfft` along the last of several axes, `fft` along the others."""
    x = array_of(a)
    sizes, places = _sizes_and_axes("rfftn", aval(x).ndim, s, axes)
    if not places:
        raise reject("at least 1 axis must be transformed")
    sizes = [aval(x).shape[k] if n is None else n for n, k in zip(sizes, places, strict=True)]
    x = rfft(x, sizes[-1], places[-1], norm)
    for n, k in zip(reversed(sizes[:-1]), reversed(places[:-1]), strict=True):
        x = fft(x, n, k, norm)
    return x


def irfftn(a: ArrayLike, s: Any = None, axes: Any = None, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The inverse of `rfftn`; the last axis gets an even number of elements unless `s` says how many."""
    x = array_of(a)
    sizes, places = _sizes_and_axes("irfftn", aval(x).ndim, s, axes)
    if not places:
        raise reject("at least 1 axis must be transformed")
    if s is not None and sizes[-1] is None:  # -1: as many as there are, and not as many as there were
        sizes[-1] = aval(x).shape[places[-1]]
    for n, k in zip(sizes[:-1], places[:-1], strict=True):
        x = ifft(x, n, k, norm)
    return irfft(x, sizes[-1], places[-1], norm)


def rfft2(
    a: ArrayLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None, out: ArrayLike = None
) -> Result:
    """`rfftn` along two axes, the last ones by default."""
    return rfftn(a, s, axes, norm)


def irfft2(
    a: ArrayLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None, out: ArrayLike = None
) -> Result:
    """The inverse of `rfft2`."""
    return irfftn(a, s, axes, norm)


# -- frequencies -------------------------------------------------------------------------------------------------------
def fftfreq(n: Any, d: ArrayLike = 1.0, device: Any = None, *, dtype: Any = None) -> Result:
    """The frequency of each element of a transform of n samples that are `d` apart: [n], negative ones last."""
    count = not_negative(as_extent(n), f"Invalid number of FFT data points ({n}) specified.")
    k = arange(count)
    half, whole = extent_value((count + 1) // 2, np.int64), extent_value(count, np.int64)
    return _frequencies(u.where(u.less(k, half), k, u.subtract(k, whole)), count, d, dtype)


def rfftfreq(n: Any, d: ArrayLike = 1.0, device: Any = None, *, dtype: Any = None) -> Result:
    """The frequency of each element of `rfft` of n samples that are `d` apart: [n // 2 + 1]."""
    count = as_extent(n)
    return _frequencies(arange(count // 2 + 1), count, d, dtype)


def _frequencies(k: ArrayLike, n: Extent, d: ArrayLike, dtype: Any) -> Result:
    check_not_empty("fft.fftfreq", n, why=_NO_SAMPLES)
    if is_empty(n):
        raise _NO_SAMPLES.error()
    whole = OPERATORS.number_of_extents(n) if isinstance(n, Dim) else n
    found = u.multiply(k, u.divide(1.0, u.multiply(whole, d)))
    return found if dtype is None else to_dtype(found, dtype)


def _shifted(x: ArrayLike, axes: Any, *, back: bool) -> Result:
    y = array_of(x)
    shape = aval(y).shape
    if axes is None:
        places = list(range(len(shape)))
    else:
        places = [axis_index(a, len(shape)) for a in (axes if isinstance(axes, (tuple, list)) else (axes,))]
    for k in places:
        y = roll(y, -(shape[k] // 2) if back else shape[k] // 2, k)
    return y


def fftshift(x: ArrayLike, axes: Any = None) -> Result:
    """The element of frequency zero in the middle of each axis."""
    return _shifted(x, axes, back=False)


def ifftshift(x: ArrayLike, axes: Any = None) -> Result:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, back=True)


for _name in __all__:
    FUNCTIONS[getattr(np.fft, _name)] = globals()[_name]
redirect_members({np.fft.fftfreq: fftfreq, np.fft.rfftfreq: rfftfreq})  # whose argument is no array
