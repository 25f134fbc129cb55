"""Convolutions, filters and trends of signals: those of `scipy.signal`, by direct sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.api.control import scan
from tracejit.api.returning import returning_arrays
from tracejit.ir.extents import Extent, Shape, is_empty, prod
from tracejit.lax.operands import array, aval, reject
from tracejit.numpy import convolution, padding, ufuncs as u
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.convolution import ConvGeneralDilated
from tracejit.primitives.elementwise import convert
from tracejit.primitives.shape import broadcast_in_dim, concatenate, reshape, reverse, slice_array, transpose
from tracejit.primitives.sorting import sort
from tracejit.primitives.windows import surrounded, windows
from tracejit.scipy.spectra import csd, detrend, istft, part_of, stft, welch
from tracejit.support.axes import axis_index
from tracejit.support.dtypes import result_type
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "correlation_lags", "csd", "detrend", "fftconvolve",
    "istft", "lfilter", "medfilt", "medfilt2d", "oaconvolve", "stft", "upfirdn", "welch",
]  # fmt: skip

_MODES = ("full", "same", "valid")


# -- convolutions ------------------------------------------------------------------------------------------------------
def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Result:
    """The convolution of two arrays of one rank.

    mode: "full" (n + m - 1 elements along each axis), "same" (as many as in1 has), "valid" (where one lies on all of
    the other, n - m + 1).  method: "auto", "direct" or "fft"; sums are direct with any of them.

    Raises: ShapeError for other ranks, another mode or method, and where neither array fits into the other (in mode
    "valid").
    Source: SciPy's scipy.signal.convolve.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.convolve(np.array([[1, 2], [3, 4]]), np.array([[1, 1]]))
    Array([[1, 3, 2],
           [3, 7, 4]], dtype=int64)
    """
    return _convolved("convolve", in1, in2, mode, method)


def correlate(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None
) -> Result:
    """The cross-correlation of two arrays of one rank, the second conjugated, in the modes of `convolve`.

    Raises: as `convolve`.
    Source: SciPy's scipy.signal.correlate.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0]))
    Array([1., 2., 3., 0.], dtype=float64)
    """
    y = array(in2)
    if aval(y).dtype.kind == "c":
        y = conj(y)
    return _convolved("correlate", in1, reverse(y, range(aval(y).ndim)) if aval(y).ndim else y, mode, method)


def _convolved(name: str, in1: ArrayLike, in2: ArrayLike, mode: str, method: str) -> Result:
    if method not in ("auto", "direct", "fft"):
        raise reject(f"{name}: method is 'auto', 'direct' or 'fft', not {method!r}")
    x, y = _pair(name, in1, in2, mode)
    rank = aval(x).ndim
    if _is_empty(x) or _is_empty(y):
        return _empty(aval(x).dtype)
    if not rank:
        return u.multiply(x, y)
    if mode == "valid" and _fits(aval(y).shape, aval(x).shape, name):
        x, y = y, x
    if rank == 1 and mode != "same":
        return convolution.convolve(x, y, mode)
    return _slid(x, y, [_widths(k, mode) for k in aval(y).shape])


def _pair(name: str, in1: ArrayLike, in2: ArrayLike, mode: str) -> tuple[Result, Result]:
    """The arrays in one dtype, checked."""
    if mode not in _MODES:
        raise reject(f"{name}: mode is 'full', 'same' or 'valid', not {mode!r}")
    x, y = array(in1), array(in2)
    if aval(x).ndim != aval(y).ndim:
        raise reject(f"{name}: arrays of ranks {aval(x).ndim} and {aval(y).ndim}; both have one rank")
    dtype = result_type(*[(aval(z).dtype, False) for z in (x, y)])[0]
    return convert(x, dtype), convert(y, dtype)


def _is_empty(x: ArrayLike) -> bool:
    return any(map(is_empty, aval(x).shape))


def _empty(dtype: np.dtype[Any]) -> Result:
    return np.zeros((0,), dtype)


def _fits(inner: Shape, outer: Shape, name: str) -> bool:
    """Whether the arrays of mode "valid" change places: the first lies inside of the second."""
    if all(n >= m for n, m in zip(inner, outer, strict=True)):
        return not all(m >= n for n, m in zip(inner, outer, strict=True))
    if not all(m >= n for n, m in zip(inner, outer, strict=True)):
        raise reject(f"{name}: of shapes {outer} and {inner} neither is at least as long as the other along all axes")
    return False


def _widths(k: Extent, mode: str, turned: bool = True) -> tuple[Extent, Extent]:
    """What lies beside the array: of a mode, for a filter of k elements that is turned around or not."""
    if mode == "valid":
        return 0, 0
    if mode == "full":
        return k - 1, k - 1
    half = (k - 1) // 2
    return (k - 1 - half, half) if turned else (half, k - 1 - half)


def _slid(x: ArrayLike, taps: ArrayLike, widths: Sequence[tuple[Extent, Extent]], *, turned: bool = True) -> Result:
    """Sums of products of windows of x and the taps, in the opposite order if they are turned around."""
    rank = aval(x).ndim
    ones, spec = (1,) * rank, tuple(range(rank + 2))
    taps = reverse(taps, range(rank)) if turned else taps
    p = ConvGeneralDilated(ones, tuple(widths), ones, ones, spec, spec, spec)
    y = bind(p, reshape(x, (1, 1, *aval(x).shape)), reshape(taps, (1, 1, *aval(taps).shape)))
    return reshape(y, aval(y).shape[2:])


def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Any = None) -> Result:
    """The convolution along axes, in the modes of `convolve`, with floating-point results; sums are direct.

    axes: along which the arrays are convolved, by default all; along others they broadcast.

    Raises: as `convolve`, and for axes that there are not.
    Source: SciPy's scipy.signal.fftconvolve.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.fftconvolve(np.array([1, 2, 3]), np.array([1, 1]))
    Array([1., 3., 5., 3.], dtype=float64)
    """
    return _along_axes("fftconvolve", in1, in2, mode, axes)


def oaconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Any = None) -> Result:
    """`fftconvolve`, which SciPy computes by overlapping parts.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.oaconvolve(np.array([1.0, 2.0]), np.array([1.0, 1.0]), mode="same")
    Array([1., 3.], dtype=float64)
    """
    return _along_axes("oaconvolve", in1, in2, mode, axes)


def _along_axes(name: str, in1: ArrayLike, in2: ArrayLike, mode: str, axes: Any) -> Result:
    x, y = _pair(name, in1, in2, mode)
    rank = aval(x).ndim
    dtype = aval(x).dtype if aval(x).dtype.kind in "fc" else np.dtype(np.float64)
    x, y = convert(x, dtype), convert(y, dtype)
    given = range(rank) if axes is None else axes if isinstance(axes, Sequence) else (axes,)
    along = sorted(axis_index(a, rank) for a in given)
    if len(set(along)) != len(along):
        raise reject(f"{name}: axes {axes!r} name an axis twice")
    if _is_empty(x) or _is_empty(y):
        return _empty(dtype)
    if len(along) == rank:
        return _convolved(name, x, y, mode, "fft")
    if not along:
        raise reject(f"{name}: axes is empty; name at least one")
    rest = [d for d in range(rank) if d not in along]
    beside: list[Extent] = []
    for d in rest:
        n, m = aval(x).shape[d], aval(y).shape[d]
        if n != m and n != 1 and m != 1:
            raise reject(f"{name}: axis {d} of shapes {aval(x).shape} and {aval(y).shape} differs")
        if mode == "same" and n == 1 and m != 1:  # as many as in1 has: the one in the middle
            y, m = part_of(y, d, (m - 1) // 2, (m - 1) // 2 + 1), 1
        beside.append(m if n == 1 else n)
    inner = [[aval(z).shape[d] for d in along] for z in (x, y)]
    if mode == "valid" and _fits(tuple(inner[1]), tuple(inner[0]), name):
        x, y, inner = y, x, inner[::-1]
    # each element of the other axes is a channel with a filter of its own
    order, places = (*rest, *along), tuple(range(rank))
    rows = [
        broadcast_in_dim(transpose(z, order), (*beside, *sizes), places)
        if [aval(z).shape[d] for d in rest] != beside
        else transpose(z, order)
        for z, sizes in ((x, inner[0]), (y, inner[1]))
    ]
    count = prod(beside)
    ones, spec = (1,) * len(along), tuple(range(len(along) + 2))
    taps = reverse(reshape(rows[1], (count, 1, *inner[1])), range(2, len(along) + 2))
    p = ConvGeneralDilated(ones, tuple([_widths(k, mode) for k in inner[1]]), ones, ones, spec, spec, spec, count)
    found = bind(p, reshape(rows[0], (1, count, *inner[0])), taps)
    found = reshape(found, (*beside, *aval(found).shape[2:]))
    return transpose(found, [order.index(d) for d in range(rank)])


_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
    precision: Any = None,
) -> Result:
    """The convolution of two matrices, in the modes of `convolve`.

    boundary: what lies beside in1: `fillvalue` ("fill"), in1 again ("wrap"), or in1 mirrored ("symm").

    Raises: ShapeError for other ranks than 2, an empty array, another mode or boundary, and as `convolve`.
    Source: SciPy's scipy.signal.convolve2d.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.convolve2d(np.eye(2), np.ones((2, 2)), mode="same", boundary="wrap")
    Array([[2., 2.],
           [2., 2.]], dtype=float64)
    """
    return _in_plane("convolve2d", in1, in2, mode, boundary, fillvalue, turned=True)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
    precision: Any = None,
) -> Result:
    """The cross-correlation of two matrices, with the options of `convolve2d`.

    Raises: as `convolve2d`.
    Source: SciPy's scipy.signal.correlate2d.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.correlate2d(np.eye(2), np.array([[1.0, 2.0]]))
    Array([[2., 1., 0.],
           [0., 2., 1.]], dtype=float64)
    """
    y = array(in2)
    return _in_plane(
        "correlate2d", in1, conj(y) if aval(y).dtype.kind == "c" else y, mode, boundary, fillvalue, turned=False
    )


def _in_plane(
    name: str, in1: ArrayLike, in2: ArrayLike, mode: str, boundary: str, fillvalue: ArrayLike, *, turned: bool
) -> Result:
    x, y = _pair(name, in1, in2, mode)
    if boundary not in _BOUNDARIES:
        raise reject(f"{name}: boundary is 'fill', 'wrap' or 'symm', not {boundary!r}")
    if aval(x).ndim != 2:
        raise reject(f"{name} takes matrices; the arrays have rank {aval(x).ndim}")
    if _is_empty(x) or _is_empty(y):
        raise reject(f"{name}: an array of shape {aval(x).shape} or {aval(y).shape} is empty")
    swapped = mode == "valid" and _fits(aval(y).shape, aval(x).shape, name)
    if swapped:
        x, y = y, x
    widths = [_widths(k, mode, turned) for k in aval(y).shape]
    if mode != "valid" and (boundary != "fill" or not isinstance(fillvalue, (int, float)) or fillvalue != 0):
        options: dict[str, Any] = {"constant_values": fillvalue} if boundary == "fill" else {}
        x, widths = padding.pad(x, widths, _BOUNDARIES[boundary], **options), [(0, 0), (0, 0)]
    found = _slid(x, y, widths, turned=turned)
    if not swapped or turned:
        return found
    found = reverse(found, (0, 1))  # of which SciPy conjugates the other matrix
    return conj(found) if aval(found).dtype.kind == "c" else found


def correlation_lags(in1_len: int, in2_len: int, mode: str = "full") -> Result:
    """By how many elements in2 lies behind in1 at each element of their correlation.

    Raises: ShapeError for another mode.
    Source: SciPy's scipy.signal.correlation_lags.

    >>> import tracejit as tj
    >>> tj.scipy.signal.correlation_lags(3, 2)
    Array([-1,  0,  1,  2], dtype=int64)
    """
    if mode == "full":
        return np.arange(1 - in2_len, in1_len)
    if mode == "same":
        low = (in1_len + in2_len - 1) // 2 - in1_len // 2
        return np.arange(1 - in2_len, in1_len)[low : low + in1_len]
    if mode == "valid":
        return np.arange(in1_len - in2_len + 1) if in1_len >= in2_len else np.arange(in1_len - in2_len, 1)
    raise reject(f"correlation_lags: mode is 'full', 'same' or 'valid', not {mode!r}")


# -- filters -----------------------------------------------------------------------------------------------------------
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None) -> Any:
    """The output of a filter with numerator b and denominator a, along an axis.

    b, a: vectors of known length, a[0] not zero; zi: the state before the first element, [.., max(len(a), len(b)) - 1]
    along the axis.  The result is a pair with the state behind the last element if zi is given.

    Raises: ShapeError for other ranks or an empty vector, and a zi of another shape.
    Source: SciPy's scipy.signal.lfilter; the transposed direct form II.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.lfilter([1.0], [1.0, -0.5], np.array([1.0, 0.0, 0.0]))
    Array([1.  , 0.5 , 0.25], dtype=float64)
    """
    arrays = [array(z) for z in ((b, a, x) if zi is None else (b, a, x, zi))]
    if any(aval(z).ndim != 1 or not isinstance(aval(z).shape[0], int) or aval(z).shape[0] == 0 for z in arrays[:2]):
        raise reject("lfilter: b and a are vectors with a length that is known and not 0")
    if not aval(arrays[2]).ndim:
        raise reject("lfilter: x is a number; it needs an axis to filter along")
    dtype = result_type(*[(aval(z).dtype, False) for z in arrays])[0]
    dtype = dtype if dtype.kind in "fc" and dtype.itemsize > 2 else np.dtype(np.float64)
    top, bottom, signal = [convert(z, dtype) for z in arrays[:3]]
    k = axis_index(axis, aval(signal).ndim)
    order = (k, *[d for d in range(aval(signal).ndim) if d != k])
    rows = transpose(signal, order)
    shape = aval(rows).shape[1:]
    count = max(int(aval(top).shape[0]), int(aval(bottom).shape[0]))
    first = _tap(bottom, 0)
    ups = [u.divide(_tap(top, n), first) for n in range(count)]
    downs = [u.divide(_tap(bottom, n), first) for n in range(count)]
    state = [u.multiply(broadcast_in_dim(dtype.type(0), shape, ()), dtype.type(1)) for _ in range(count - 1)]
    if zi is not None:
        given = transpose(convert(arrays[3], dtype), order) if aval(arrays[3]).ndim == len(order) else arrays[3]
        if aval(given).ndim != len(order) or aval(given).shape[0] != count - 1:
            raise reject(f"lfilter: zi is {aval(arrays[3])}; it has {count - 1} elements along axis {axis}")
        state = [
            broadcast_in_dim(reshape(slice_array(given, (n, *(0,) * len(shape)), (1, *aval(given).shape[1:])),
            aval(given).shape[1:]), shape, tuple(range(len(shape))))
            for n in range(count - 1)
        ]  # fmt: skip

    def step(z: list[Any], value: Any) -> tuple[list[Any], Any]:
        out = u.multiply(ups[0], value)
        if z:
            out = u.add(out, z[0])
        after = [*z[1:], None]
        moved = [
            u.subtract(u.multiply(ups[n + 1], value), u.multiply(downs[n + 1], out))
            if after[n] is None
            else u.add(after[n], u.subtract(u.multiply(ups[n + 1], value), u.multiply(downs[n + 1], out)))
            for n in range(count - 1)
        ]
        return moved, out

    last, found = scan(step, state, rows)
    back = [order.index(d) for d in range(len(order))]
    y = transpose(found, back)
    if zi is None:
        return y
    ends = [reshape(z, (1, *shape)) for z in last]
    end = concatenate(ends, 0) if len(ends) > 1 else ends[0] if ends else np.zeros((0, *shape), dtype)  # type: ignore[arg-type]
    return y, transpose(end, back)


def _tap(x: ArrayLike, n: int) -> Result:
    """One element, 0 behind the end."""
    length = aval(x).shape[0]
    if isinstance(length, int) and n >= length:
        return aval(x).dtype.type(0)
    return reshape(slice_array(x, (n,), (1,)), ())


def medfilt(volume: ArrayLike, kernel_size: Any = None) -> Result:
    """The median of a window around each element; zeros lie beside the array.

    kernel_size: odd numbers, one for each axis or one for all; 3 if not given.

    Raises: ShapeError for an even number, or another number of them, DtypeError for bool and float16.
    Source: SciPy's scipy.signal.medfilt.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.medfilt(np.array([1.0, 9.0, 2.0, 3.0]))
    Array([1., 2., 3., 2.], dtype=float64)
    """
    return _medians("medfilt", volume, kernel_size)


def medfilt2d(input: ArrayLike, kernel_size: Any = 3) -> Result:
    """`medfilt` of a matrix.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.medfilt2d(np.full((2, 2), 5.0), (1, 1))
    Array([[5., 5.],
           [5., 5.]], dtype=float64)
    """
    x = array(input)
    if aval(x).ndim != 2:
        raise reject(f"medfilt2d takes a matrix, not {aval(x)}")
    return _medians("medfilt2d", x, kernel_size)


def _medians(name: str, volume: ArrayLike, kernel_size: Any) -> Result:
    x = array(volume)
    shape, dtype = aval(x).shape, aval(x).dtype
    if dtype == np.bool_ or dtype == np.float16:
        raise DtypeError(f"{name} does not accept {aval(x)}; convert it first", location=user_location())
    sizes = np.ravel(3 if kernel_size is None else kernel_size)
    sizes = [int(k) for k in (np.repeat(sizes, len(shape)) if sizes.size == 1 else sizes)]
    if len(sizes) != len(shape):
        raise reject(f"{name}: kernel_size has {len(sizes)} entries for {len(shape)} axes")
    if any(k % 2 != 1 or k < 1 for k in sizes):
        raise reject(f"{name}: kernel_size is {tuple(sizes)}; its entries are odd")
    if not shape or _is_empty(x):
        return x
    around = surrounded(x, dtype.type(0), [(k // 2, k // 2) for k in sizes], (1,) * len(sizes))
    total = int(np.prod(sizes))
    rows = reshape(windows(around, tuple(range(len(shape))), sizes), (*shape, total))
    (ordered,) = sort([rows], len(shape))
    return reshape(slice_array(ordered, (*(0,) * len(shape), total // 2), (*shape, 1)), shape)


def upfirdn(h: ArrayLike, x: ArrayLike, up: int = 1, down: int = 1, axis: int = -1) -> Result:
    """x with zeros between its elements, times the taps h, every `down`-th of it, along an axis.

    h: a vector.  up, down: how many elements one becomes, and of how many one is kept.

    Raises: ShapeError for another rank of h, numbers below 1, and an axis that there is not.
    Source: SciPy's scipy.signal.upfirdn.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.signal.upfirdn([1.0, 1.0], np.array([1.0, 2.0, 3.0]), up=2)
    Array([1., 1., 2., 2., 3., 3.], dtype=float64)
    """
    taps, signal = array(h), array(x)
    if aval(taps).ndim != 1 or _is_empty(taps):
        raise reject(f"upfirdn: h is a vector, not {aval(taps)}")
    if up < 1 or down < 1:
        raise reject(f"upfirdn: up={up} and down={down}; both are at least 1")
    dtype = result_type(*[(aval(z).dtype, False) for z in (taps, signal)])[0]
    dtype = dtype if dtype.kind in "fc" and dtype.itemsize > 2 else np.dtype(np.float64)
    k = axis_index(axis, aval(signal).ndim)
    order = (*[d for d in range(aval(signal).ndim) if d != k], k)
    rows = transpose(convert(signal, dtype), order)
    *rest, n = aval(rows).shape
    m = aval(taps).shape[0]
    spec = (0, 1, 2)
    p = ConvGeneralDilated((down,), ((m - 1, m - 1),), (up,), (1,), spec, spec, spec)
    filter_ = reshape(reverse(convert(taps, dtype), (0,)), (1, 1, m))
    found = bind(p, reshape(rows, (prod(rest), 1, n)), filter_)
    found = reshape(found, (*rest, aval(found).shape[2]))
    return transpose(found, [order.index(d) for d in range(len(order))])


globals().update({_name: returning_arrays(globals()[_name]) for _name in __all__})
