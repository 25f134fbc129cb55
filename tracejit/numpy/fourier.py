"""Discrete Fourier transforms, by the names of `numpy.fft`.

A transform of n = a b numbers is b transforms of a, n products, and a transforms of b (Cooley and Tukey 1965), down to
few numbers, of which it is a product with a matrix; a large prime n is a convolution of a length that is a power of
two (Bluestein 1970).  Everything is products of arrays, so derivatives, batches and backends are theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import axis_index, axis_list, reject, static_int
from tracejit.numpy.joining import roll
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.numpy.shaping import array_of, moveaxis
from tracejit.primitives import shape as p
from tracejit.primitives.complex_numbers import conj, real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.elementwise import zero_like
from tracejit.support.dtypes import complex_dtype, real_dtype
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.tables import FUNCTIONS

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_DIRECT = 16  # numbers up to which a transform is one product with a matrix, if they have no smaller factors
_PRIME = 200  # the same for primes: above this a convolution is faster


# -- one axis ----------------------------------------------------------------------------------------------------------
@functools.cache
def _roots(n: int, sign: int) -> np.ndarray[Any, Any]:
    """exp(sign 2 pi i k / n) for k from 0 to n - 1, exact on the axes and diagonals."""
    angle = 2 * np.pi * np.arange(n) / n
    found = np.cos(angle) + sign * 1j * np.sin(angle)
    eighth = 8 * np.arange(n) % n == 0
    turns = (8 * np.arange(n) // n)[eighth]
    half = np.sqrt(0.5)
    exact = np.array([1, half + half * 1j, 1j, -half + half * 1j, -1, -half - half * 1j, -1j, half - half * 1j])
    found[eighth] = exact[turns] if sign > 0 else exact[turns].conj()
    return found


def _powers(n: int, rows: int, columns: int, sign: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """exp(sign 2 pi i j k / n) for row j and column k."""
    return _roots(n, sign)[np.outer(np.arange(rows), np.arange(columns)) % n].astype(dtype)


def _factor(n: int) -> int:
    """The number to go by: the greatest factor up to `_DIRECT`, else the least prime factor."""
    for a in range(_DIRECT, 1, -1):
        if n % a == 0:
            return a
    return next((a for a in range(_DIRECT + 1, int(n**0.5) + 1) if n % a == 0), n)


def _transform(x: ArrayLike, sign: int) -> Result:
    """The transform along the last axis, not scaled.   x: complex[*s, n], n known -> complex[*s, n]"""
    have = aval(x)
    *outer, n = have.shape
    n = int(n)
    if n == 1:
        return x
    a = _factor(n)
    rank = len(outer)
    if a == n and n > _PRIME:
        return _by_convolution(x, sign)
    if a == n:
        return dot_general(x, _powers(n, n, n, sign, have.dtype), ((rank,), (0,)))
    b = n // a
    # row j1 b + j2 of the numbers goes to k1 + a k2 of the result
    parts = p.reshape(x, (*outer, a, b))
    first = dot_general(parts, _powers(a, a, a, sign, have.dtype), ((rank,), (0,)))  # [*s, b, a]
    turned = u.multiply(first, _powers(n, b, a, sign, have.dtype))
    order = (*range(rank), rank + 1, rank)
    rest = _transform(p.transpose(turned, order), sign)  # [*s, a, b]
    return p.reshape(p.transpose(rest, order), (*outer, n))


def _by_convolution(x: ArrayLike, sign: int) -> Result:
    """Of a prime number of elements: with j k = (j**2 + k**2 - (k - j)**2) / 2 it is a convolution with a chirp."""
    have = aval(x)
    *outer, n = have.shape
    n = int(n)
    m = 1 << (2 * n - 2).bit_length()
    squares = np.arange(n, dtype=np.int64) ** 2 % (2 * n)
    chirp = _roots(2 * n, sign)[squares]
    around = np.zeros(m, complex)
    around[:n] = chirp.conj()
    around[m - n + 1 :] = chirp[:0:-1].conj()
    spectrum = (np.fft.fft(around) / m).astype(have.dtype)  # a constant of the program
    wide = _resized(u.multiply(x, chirp.astype(have.dtype)), m)
    found = _transform(u.multiply(_transform(wide, -1), spectrum), 1)
    cut = p.slice_array(found, (0,) * (len(outer) + 1), (*outer, n))
    return u.multiply(cut, chirp.astype(have.dtype))


def _resized(x: ArrayLike, n: int) -> Result:
    """The last axis cut to n elements, or with zeros behind it."""
    *outer, have = aval(x).shape
    if have > n:
        return p.slice_array(x, (0,) * (len(outer) + 1), (*outer, n))
    if have < n:
        return p.pad(x, zero_like(x), (0,) * (len(outer) + 1), (*[0] * len(outer), n - have))
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


def _scaled(x: ArrayLike, by: float) -> Result:
    return x if by == 1.0 else u.multiply(x, real_dtype(aval(x).dtype).type(by))


def _complex(x: ArrayLike) -> Result:
    y = array_of(x)
    dtype = aval(y).dtype
    return to_dtype(y, complex_dtype(dtype if dtype.kind in "fc" else np.dtype(np.float64)))


def _along(name: str, a: ArrayLike, n: Any, axis: AxisLike, norm: str | None, *, inverse: bool) -> Result:
    x = _complex(a)
    rank = aval(x).ndim
    if not rank:
        raise reject(f"np.fft.{name} takes arrays, not numbers")
    k = axis_index(axis, rank)
    last = moveaxis(x, k, -1)
    count = _length(name, n, aval(last).shape[-1])
    found = _transform(_resized(last, count), 1 if inverse else -1)
    return moveaxis(_scaled(found, _scale(name, count, norm, inverse=inverse)), -1, k)


def fft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The discrete Fourier transform along an axis, of n elements (cut, or with zeros behind).

    complex64 for float16, float32 and complex64, else complex128.  norm: "backward" (the inverse is divided by n),
    "ortho" (both by its root), "forward".  The number of elements is known while tracing: each has its own program.

    Raises: ShapeError for n below 1 and a norm there is not.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.fft.fft(x).real)(np.array([1.0, 2.0, 3.0, 4.0]))
    array([10., -2., -2., -2.])
    """
    return _along("fft", a, n, axis, norm, inverse=False)


def ifft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The inverse of `fft`."""
    return _along("ifft", a, n, axis, norm, inverse=True)


def rfft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The first half of the transform of real numbers, n // 2 + 1 of them; the others are their conjugates.

    Raises: as `fft`; DtypeError for complex numbers.
    """
    x = array_of(a)
    if aval(x).dtype.kind == "c":
        x = real_only("rfft", x)
    k = axis_index(axis, aval(x).ndim) if aval(x).ndim else 0
    found = fft(x, n, axis, norm)
    return moveaxis(_resized(moveaxis(found, k, -1), int(aval(found).shape[k]) // 2 + 1), -1, k)


def real_only(name: str, x: ArrayLike) -> Result:
    """Raises: DtypeError."""
    return to_dtype(x, real_dtype(aval(x).dtype))  # which says what to do


def irfft(a: ArrayLike, n: Any = None, axis: AxisLike = -1, norm: str | None = None, out: ArrayLike = None) -> Result:
    """The inverse of `rfft`: n real numbers, 2 (m - 1) of m unless it is given."""
    x, given = _complex(a), aval(array_of(a)).dtype
    rank = aval(x).ndim
    if not rank:
        raise reject("np.fft.irfft takes arrays, not numbers")
    k = axis_index(axis, rank)
    last = moveaxis(x, k, -1)
    count = _length("irfft", n, 2 * (int(aval(last).shape[-1]) - 1))
    half = _resized(last, count // 2 + 1)
    *outer, m = aval(half).shape
    more = count - int(m)
    if more:
        at = (0,) * len(outer)
        other = p.slice_array(half, (*at, 1), (*outer, more))
        half = p.concatenate([half, conj(p.reverse(other, (len(outer),)))], len(outer))
    found = real(_transform(half, 1))
    found = moveaxis(_scaled(found, _scale("irfft", count, norm, inverse=True)), -1, k)
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
        found = axis_list(axes, rank) if len(set(axes)) == len(axes) else [axis_index(a, rank) for a in axes]
    sizes = [None] * len(found) if s is None else list(s)
    if len(sizes) != len(found):
        raise reject("Shape and axes have different lengths.")
    return [None if n is None or n == -1 else n for n in sizes], list(found)


def _over(name: str, function: Callable[..., Any], a: ArrayLike, s: Any, axes: Any, norm: str | None) -> Result:
    x = array_of(a)
    sizes, places = _sizes_and_axes(name, aval(x).ndim, s, axes)
    for n, k in zip(reversed(sizes), reversed(places), strict=True):
        x = function(x, n, k, norm)
    return x if places else _complex(x)


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
    count = _length("fftfreq", n, 0)
    k = np.arange(count)
    return _frequencies(np.where(k < (count + 1) // 2, k, k - count), count, d, dtype)


def rfftfreq(n: Any, d: ArrayLike = 1.0, device: Any = None, *, dtype: Any = None) -> Result:
    """The frequency of each element of `rfft` of n samples that are `d` apart: [n // 2 + 1]."""
    count = _length("rfftfreq", n, 0)
    return _frequencies(np.arange(count // 2 + 1), count, d, dtype)


def _frequencies(k: np.ndarray[Any, Any], n: int, d: ArrayLike, dtype: Any) -> Result:
    found = u.multiply(k, u.divide(1.0, u.multiply(float(n), d)))
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
