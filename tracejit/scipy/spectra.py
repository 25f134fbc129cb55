"""Trends and spectra of signals: those of `scipy.signal`.

Spectra are of segments that overlap, each without its trend, times a window, and transformed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.lax.operands import array, aval, reject
from tracejit.numpy import fourier, padding, quantiles, reductions, shaping, ufuncs as u
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import full, iota
from tracejit.primitives.elementwise import convert
from tracejit.primitives.indexing import scatter
from tracejit.primitives.reduction import reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, concatenate, slice_array, transpose
from tracejit.support.axes import axis_index
from tracejit.support.dtypes import real_dtype
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.operators import OPERATORS

__all__ = ["csd", "detrend", "istft", "part_of", "stft", "welch"]


# -- trends ------------------------------------------------------------------------------------------------------------
def detrend(
    data: ArrayLike, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool | None = False
) -> Result:
    """The data without their mean ("constant"), or without the line of least squares ("linear"), along an axis.

    bp: where pieces with lines of their own begin.

    Raises: ShapeError for another type, an axis that there is not, and a place behind the end.
    Source: SciPy's scipy.signal.detrend.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.detrend(np.array([1.0, 2.0, 4.0]), type="constant").round(6)
    Array([-1.333333, -0.333333,  1.666667], dtype=float64)
    """
    if type not in ("linear", "l", "constant", "c"):
        raise reject(f"detrend: type is 'linear' or 'constant', not {type!r}")
    x = array(data)
    constant = type in ("constant", "c")
    if aval(x).dtype.kind not in "fc" or (aval(x).dtype == np.float16 and not constant):
        x = convert(x, np.dtype(np.float64))
    k = axis_index(axis, aval(x).ndim)
    n = aval(x).shape[k]
    if constant:
        return u.subtract(x, _kept_mean(x, k))
    places = sorted({0, *[int(b) for b in np.ravel(bp)]})
    if places[0] < 0 or (places[-1] > 0 and places[-1] > n):
        raise reject(f"detrend: bp={bp!r} is not inside an axis of {n} elements")
    ends = [*places[1:], n]
    spans = [(low, end) for low, end in zip(places, ends, strict=True) if end is n or end > low]
    pieces = [_flattened(part_of(x, k, low, end), k) for low, end in spans]
    return concatenate(pieces, k) if len(pieces) > 1 else pieces[0]


def part_of(x: ArrayLike, k: int, low: Extent, end: Extent) -> Result:
    """The elements from `low` to `end` along axis k."""
    shape = aval(x).shape
    start = tuple([low if d == k else 0 for d in range(len(shape))])
    return slice_array(x, start, tuple([end - low if d == k else m for d, m in enumerate(shape)]))


def _kept_mean(x: ArrayLike, k: int) -> Result:
    shape = aval(x).shape
    count = convert(OPERATORS.extent(shape[k]), aval(x).dtype)
    mean = u.divide(reduce_sum(x, (k,)), count)
    return broadcast_in_dim(mean, shape, tuple([d for d in range(len(shape)) if d != k]))


def _flattened(x: ArrayLike, k: int) -> Result:
    """Without the line of least squares: with places counted from their middle, slope and mean are apart."""
    shape, dtype = aval(x).shape, aval(x).dtype
    n = shape[k]
    rest = tuple([d for d in range(len(shape)) if d != k])
    middle = u.divide(convert(OPERATORS.extent(n - 1), dtype), dtype.type(2))
    place = u.subtract(iota((n,), 0, dtype), middle)
    weight = reduce_sum(u.multiply(place, place), (0,))
    flat = u.subtract(x, _kept_mean(x, k))
    rise = dot_general(flat, place, ((k,), (0,)))
    slope = u.divide(rise, u.maximum(weight, dtype.type(0.5)))  # one place has no slope, two have weight 0.5
    line = u.multiply(broadcast_in_dim(slope, shape, rest), broadcast_in_dim(place, shape, (k,)))
    return u.subtract(flat, line)


# -- windows -----------------------------------------------------------------------------------------------------------
_COSINES = {
    "boxcar": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}  # fmt: skip
"""Windows that are sums of cosines: their coefficients, the signs alternating."""


def _cosine(x: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    return np.sin(np.pi / n * (x + 0.5))


def _bartlett(x: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    return 1 - np.abs(2 * x / max(n - 1, 1) - 1)


def _triangle(x: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    return 1 - np.abs(2 * x - (n - 1)) / (n + n % 2 * 1)


def _tukey(x: np.ndarray[Any, Any], n: int, alpha: float = 0.5) -> np.ndarray[Any, Any]:
    """A cosine over a share of alpha at both ends, 1 between them."""
    if alpha <= 0:
        return np.ones(len(x))
    beside = np.minimum(x, n - 1 - x) / (max(n - 1, 1) * min(alpha, 1.0) / 2)
    return np.where(beside < 1, 0.5 * (1 - np.cos(np.pi * np.minimum(beside, 1))), 1.0)


def _kaiser(x: np.ndarray[Any, Any], n: int, beta: float) -> np.ndarray[Any, Any]:
    middle = (n - 1) / 2
    return np.i0(beta * np.sqrt(1 - ((x - middle) / middle) ** 2)) / np.i0(beta)


def _gaussian(x: np.ndarray[Any, Any], n: int, std: float) -> np.ndarray[Any, Any]:
    return np.exp(-(((x - (n - 1) / 2) / std) ** 2) / 2)


_OTHERS: dict[str, Callable[..., np.ndarray[Any, Any]]] = {
    "bartlett": _bartlett, "cosine": _cosine, "gaussian": _gaussian, "kaiser": _kaiser, "triang": _triangle,
    "tukey": _tukey,
}  # fmt: skip
_SYNONYMS = {"hanning": "hann", "ones": "boxcar", "rectangular": "boxcar", "rect": "boxcar"}


def _window(name: str, window: Any, size: int) -> np.ndarray[Any, Any]:
    """The numbers that segments are multiplied by; those that have a name are periodic.

    Raises: ShapeError for other names and lengths.
    """
    kind, *parameters = window if isinstance(window, tuple) else (window,)
    if isinstance(window, float):
        kind, parameters = "kaiser", [window]
    if not isinstance(kind, str):
        given = np.asarray(window, np.float64)
        if given.shape != (size,):
            raise reject(f"{name}: the window is of shape {given.shape}, not a vector of {size} numbers")
        return given
    kind = _SYNONYMS.get(kind, kind)
    if size == 1 and (kind in _COSINES or kind in _OTHERS):
        return np.ones(1)
    if kind in _COSINES and not parameters:
        angles = 2 * np.pi * np.arange(size) / size
        return np.sum([(-1) ** j * a * np.cos(j * angles) for j, a in enumerate(_COSINES[kind])], axis=0)
    if kind not in _OTHERS or (kind in ("gaussian", "kaiser") and not parameters):
        names = ", ".join(map(repr, [*_COSINES, *_OTHERS]))
        raise reject(
            f"{name}: window is an array, or one of {names} (kaiser and gaussian in a tuple with their parameter), not "
            f"{window!r}"
        )
    # a periodic window is one that is longer by its first element, without its last
    return _OTHERS[kind](np.arange(size + 1.0), size + 1, *parameters)[:-1]


# -- spectra -----------------------------------------------------------------------------------------------------------
@frozen
class _Cut:
    """How signals are cut.  size: of a segment, shared: of it with the next one, count: elements of a transform."""

    size: int
    shared: int
    count: int

    @property
    def step(self) -> int:
        return self.size - self.shared


def _cut(name: str, n: int, window: Any, nperseg: Any, noverlap: Any, nfft: Any, default: int = 256) -> _Cut:
    """Raises: ShapeError for lengths that do not fit."""
    if not isinstance(window, (str, tuple, float)):
        if nperseg is not None and int(nperseg) != len(window):
            raise reject(f"{name}: nperseg={nperseg} and a window of {len(window)} numbers")
        nperseg = len(window)
    size = default if nperseg is None else int(nperseg)
    if size < 1:
        raise reject("nperseg must be a positive integer")
    size = min(size, n)
    count = size if nfft is None else int(nfft)
    if count < size:
        raise reject("nfft must be greater than or equal to nperseg.")
    shared = size // 2 if noverlap is None else int(noverlap)
    if shared >= size:
        raise reject("noverlap must be less than nperseg.")
    return _Cut(size, shared, count)


def _scale(scaling: str, weights: np.ndarray[Any, Any], fs: Any) -> Any:
    if scaling not in ("density", "spectrum"):
        raise reject(f"Unknown scaling: {scaling!r}")
    return 1 / (fs * np.sum(weights * weights)) if scaling == "density" else 1 / np.sum(weights) ** 2


def _frequencies(count: int, fs: Any, sided: bool) -> np.ndarray[Any, Any]:
    return np.fft.rfftfreq(count, 1 / fs) if sided else np.fft.fftfreq(count, 1 / fs)


def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Result, Result]:
    """(frequencies, cross spectral density) of two signals by Welch's method: the mean over segments of
    conj(X) * Y, X and Y being their Fourier transforms.

    fs: the frequency of samples.  window: a name ("hann", "hamming", "blackman", "boxcar", "bartlett", "triang",
    "cosine", "nuttall", "blackmanharris", "flattop", "tukey"), a tuple of "tukey", "kaiser" or "gaussian" and its
    parameter, or an array of nperseg numbers.  nperseg: how long a segment is (256, or as long as the signals are),
    noverlap: how much of it is the next one's, too (a half).  nfft: the length of transforms, with zeros behind.
    detrend: as in `detrend`, a function, or False.  scaling: "density" or "spectrum".  average: "mean", or "median",
    whose bias is taken out.  The shorter signal has zeros behind it.

    Raises: ShapeError for lengths that do not fit, and other windows, scalings and averages.
    Source: SciPy's scipy.signal.csd.

    >>> import numpy as np, tracejit as tj
    >>> f, p = tj.scipy.signal.csd(np.array([1.0, 0.0, -1.0, 0.0]), np.ones(4), window="boxcar")
    >>> f
    Array([0.  , 0.25, 0.5 ], dtype=float64)
    """
    if average not in ("mean", "median"):
        raise reject(f"csd: average is 'mean' or 'median', not {average!r}")
    first = array(x)
    second = first if y is None else array(y)
    rank = max(aval(first).ndim, aval(second).ndim)
    k = axis_index(axis, rank)
    first, second = (shaping.moveaxis(z, k - rank, -1) for z in (first, second))
    lengths = [_length(z) for z in (first, second)]
    n = max(lengths)
    first, second = (_lengthened(z, n - m) for z, m in zip((first, second), lengths, strict=True))
    cut = _cut("csd", n, window, nperseg, noverlap, nfft)
    dtype = np.result_type(aval(first).dtype, aval(second).dtype, np.complex64)
    weights = _window("csd", window, cut.size)
    sided = return_onesided and all(aval(z).dtype.kind != "c" for z in (first, second))
    spectra = [_segments(z, cut, weights, detrend, sided) for z in (first, second)]
    scale = np.full(cut.count // 2 + 1 if sided else cut.count, _scale(scaling, weights, fs))
    if sided:
        scale[1 : None if cut.count % 2 else -1] *= 2
    products = u.multiply(conj(spectra[0]), spectra[1])
    mean = reductions.mean(products, axis=-2) if average == "mean" else _unbiased_median(products)
    out = convert(u.multiply(mean, scale.astype(dtype)), dtype)
    return _frequencies(cut.count, fs, sided), shaping.moveaxis(out, -1, k)


def _unbiased_median(x: ArrayLike) -> Result:
    """The median over segments of real and imaginary parts, over what it is for noise of mean 1.

    Source: Allen et al., FINDCHIRP, 2012, appendix B; the median of exponential variates.
    """
    count = int(aval(x).shape[-2])
    even = 2 * np.arange(1, (count - 1) // 2 + 1)
    bias = 1 + np.sum(1 / (even + 1) - 1 / even)
    parts = [quantiles.median(part(x), axis=-2) for part in (real, imag)]
    return u.divide(make_complex(*parts), aval(x).dtype.type(bias))


def welch(
    x: ArrayLike,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Result, Result]:
    """(frequencies, power spectral density) of a signal by Welch's method: `csd` of the signal and itself, which is
    real.

    Raises: as `csd`.   Source: SciPy's scipy.signal.welch.

    >>> import numpy as np, tracejit as tj
    >>> f, p = tj.scipy.signal.welch(np.cos(np.arange(64) * np.pi / 2), nperseg=16)
    >>> float(f[np.argmax(p)])
    0.25
    """
    frequencies, power = csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )
    return frequencies, real(power)


_AROUND = {"zeros": "constant", "constant": "edge", "even": "reflect"}
"""What lies beside a signal, as `np.pad` calls it."""


def stft(
    x: ArrayLike,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Result, Result, Result]:
    """(frequencies, times, transforms of segments), the short-time Fourier transform of a signal along an axis.
    x: [.., n, ..] -> .., [.., frequencies, .., times]

    window, nperseg, noverlap, nfft, detrend: as in `csd`.  boundary: what half a segment beside the signal has:
    "zeros", "even" (reflected), "odd" (and turned around), "constant" (its first and last element), or None for nothing
    beside it.  padded: zeros follow, so that segments end where the signal does.  scaling: "spectrum", or "psd".

    Raises: ShapeError for lengths that do not fit, and other windows, boundaries and scalings.
    Source: SciPy's scipy.signal.stft.

    >>> import numpy as np, tracejit as tj
    >>> f, t, z = tj.scipy.signal.stft(np.ones(8), nperseg=4, boundary=None)
    >>> t, np.abs(z[:, 0]).round(6)
    (Array([2., 4., 6.], dtype=float64), Array([1. , 0.5, 0. ], dtype=float64))
    """
    if scaling not in ("spectrum", "psd"):
        raise reject(f"stft: scaling is 'spectrum' or 'psd', not {scaling!r}")
    if boundary not in (None, False, "odd", *_AROUND):
        raise reject(f"stft: boundary is 'odd', {', '.join(map(repr, _AROUND))} or None, not {boundary!r}")
    signal = array(x)
    k = axis_index(axis, aval(signal).ndim)
    rows = shaping.moveaxis(signal, k, -1)
    cut = _cut("stft", _length(rows), window, nperseg, noverlap, nfft)
    beside = cut.size // 2
    if boundary:
        if boundary != "zeros" and beside >= _length(rows):
            raise reject(f"stft: half a segment is {beside} elements; the signal has to have more")
        widths = [(0, 0)] * (aval(rows).ndim - 1) + [(beside, beside)]
        if boundary == "odd":
            rows = padding.pad(rows, widths, "reflect", reflect_type="odd")
        else:
            rows = padding.pad(rows, widths, _AROUND[boundary])
    if padded:
        rows = _lengthened(rows, -(_length(rows) - cut.size) % cut.step % cut.size)
    n = _length(rows)
    weights = _window("stft", window, cut.size)
    sided = return_onesided and aval(rows).dtype.kind != "c"
    dtype = np.result_type(aval(rows).dtype, np.complex64)
    scale = _scale("spectrum" if scaling == "spectrum" else "density", weights, fs)
    spectra = _segments(rows, cut, weights, detrend, sided)
    out = convert(u.multiply(spectra, dtype.type(np.sqrt(scale))), dtype)
    times = np.arange(cut.size / 2, n - cut.size / 2 + 1, cut.step) / fs
    if boundary:
        times = times - cut.size / 2 / fs
    # [.., times, frequencies]: the times are last, the frequencies where the signal's axis was
    order = [*range(aval(out).ndim)]
    order.remove(aval(out).ndim - 1)
    last = order.pop()
    order.insert(k, aval(out).ndim - 1)
    return _frequencies(cut.count, fs, sided), times, transpose(out, (*order, last))


def istft(
    Zxx: ArrayLike,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Result, Result]:
    """(times, the signal) whose `stft` this is; of least squares where it is none.

    The arguments are those of `stft`.  nperseg: by default as many elements as the frequencies say.  input_onesided:
    the frequencies that are not negative are there alone.  boundary: what was beside the signal is cut off.  Elements
    on which windows are zero are lost.

    Raises: ShapeError for lengths and axes that do not fit, and other windows and scalings.
    Source: SciPy's scipy.signal.istft; Griffin and Lim, Signal estimation from modified short-time Fourier transform,
    1984.

    >>> import numpy as np, tracejit as tj
    >>> x = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0])
    >>> _, _, z = tj.scipy.signal.stft(x, nperseg=4)
    >>> tj.scipy.signal.istft(z, nperseg=4)[1].round(6)
    Array([3., 1., 4., 1., 5., 9.], dtype=float64)
    """
    if scaling not in ("spectrum", "psd"):
        raise reject(f"istft: scaling is 'spectrum' or 'psd', not {scaling!r}")
    z = array(Zxx)
    if aval(z).ndim < 2:
        raise reject("Input stft must be at least 2d!")
    at, along = axis_index(time_axis, aval(z).ndim), axis_index(freq_axis, aval(z).ndim)
    if at == along:
        raise reject("Must specify differing time and frequency axes!")
    z = convert(z, np.result_type(aval(z).dtype, np.complex64))
    segments, have = (_extent(aval(z).shape[d]) for d in (at, along))
    whole = 2 * (have - 1) if input_onesided else have
    size = whole if nperseg is None else int(nperseg)
    if size < 1:
        raise reject("nperseg must be a positive integer")
    if nfft is None:
        count = size if input_onesided and size == whole + 1 else whole
    elif nfft < size:
        raise reject("nfft must be greater than or equal to nperseg.")
    else:
        count = int(nfft)
    shared = size // 2 if noverlap is None else int(noverlap)
    if shared >= size:
        raise reject("noverlap must be less than nperseg.")
    step = size - shared
    weights = _window("istft", window, size)
    rest = [d for d in range(aval(z).ndim) if d not in (at, along)]
    z = transpose(z, (at, along, *rest))
    parts = (fourier.irfft if input_onesided else fourier.ifft)(z, count, axis=1)
    lead = aval(parts).shape[2:]
    parts = slice_array(parts, (0,) * (2 + len(lead)), (segments, size, *lead))
    single = real_dtype(aval(parts).dtype).type
    scale = np.sum(weights) if scaling == "spectrum" else np.sqrt(fs * np.sum(weights**2))
    parts = u.multiply(parts, (weights * scale).astype(single).reshape(1, size, *[1] * len(lead)))
    places = np.arange(size) + step * np.arange(segments)[:, None]
    length = size + (segments - 1) * step
    sums = scatter(full((length, *lead), aval(parts).dtype.type(0)), parts, (0,), [places], "add")
    squares = np.bincount(places.ravel(), np.tile(weights**2, segments), length)
    out = u.divide(sums, np.where(squares > 1e-10, squares, 1).astype(single).reshape(length, *[1] * len(lead)))
    if boundary:
        length -= 2 * (size // 2)
        out = slice_array(out, (size // 2, *[0] * len(lead)), (length, *lead))
    where = at - (along < at)
    return np.arange(length) / fs, shaping.moveaxis(out, 0, where)


def _extent(n: Extent) -> int:
    return n if isinstance(n, int) else int(n)


def _length(x: ArrayLike) -> int:
    return _extent(aval(x).shape[-1])


def _lengthened(x: ArrayLike, by: int) -> Result:
    return padding.pad(x, [(0, 0)] * (aval(x).ndim - 1) + [(0, by)]) if by else x


def _segments(x: ArrayLike, cut: _Cut, weights: np.ndarray[Any, Any], kind: Any, sided: bool) -> Result:
    """The transforms of the segments.   x: [.., n] -> [.., segments, frequencies]"""
    places = np.arange(cut.size) + cut.step * np.arange((_length(x) - cut.shared) // cut.step)[:, None]
    parts = OPERATORS.getitem(x, (..., places))
    if kind:
        parts = kind(parts) if callable(kind) else _detrended(parts, kind)
    single = aval(parts).dtype.name in ("float32", "complex64")
    parts = u.multiply(parts, weights.astype(np.float32) if single else weights)
    return fourier.rfft(parts, cut.count) if sided else fourier.fft(parts, cut.count)


def _detrended(x: ArrayLike, kind: str) -> Result:
    return detrend(x, -1, kind)
