"""Fourier and cosine transforms: those of `scipy.fft`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.api.returning import returning_arrays
from tracejit.lax.operands import array, aval, reject
from tracejit.numpy import fourier
from tracejit.numpy.shaping import moveaxis
from tracejit.numpy.taking import take
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.elementwise import mul, neg, zero_like
from tracejit.primitives.fourier import fft as transformed, next_smooth
from tracejit.primitives.shape import broadcast_in_dim, concatenate, pad, reverse, slice_array
from tracejit.support.axes import axis_index
from tracejit.support.dtypes import short_name
from tracejit.support.errors import DtypeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.substitutes import redirect_members

__all__ = [
    "dct", "dctn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "idct", "idctn", "ifft", "ifft2", "ifftn",
    "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "next_fast_len", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


# -- Fourier transforms ------------------------------------------------------------------------------------------------
def _of_one_axis(function: Callable[..., Any]) -> Callable[..., Any]:
    """`np.fft`'s function with SciPy's parameters, of which some say how to compute only."""

    def transform(
        x: ArrayLike,
        n: Any = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Result:
        return function(x, n, axis, norm)

    return _documented(transform, function)


def _of_axes(function: Callable[..., Any], axes: Any) -> Callable[..., Any]:
    default = axes

    def transform(
        x: ArrayLike,
        s: Any = None,
        axes: Any = default,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Result:
        if axes is not None:
            rank = np.ndim(x)
            axes = [axis_index(k, rank) for k in (axes if isinstance(axes, (tuple, list, np.ndarray)) else (axes,))]
            if len(set(axes)) < len(axes):
                raise reject("all axes must be unique")
        return function(x, s, axes, norm)

    return _documented(transform, function)


def _documented(made: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    made.__name__ = made.__qualname__ = function.__name__
    made.__doc__ = (
        f"`np.fft.{function.__name__}` with SciPy's parameters; overwrite_x, workers and plan change nothing."
    )
    return made


fft, ifft, rfft, irfft, hfft, ihfft = (
    _of_one_axis(getattr(fourier, name)) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
)
fftn, ifftn, rfftn, irfftn = (_of_axes(getattr(fourier, name), None) for name in ("fftn", "ifftn", "rfftn", "irfftn"))
fft2, ifft2, rfft2, irfft2 = (
    _of_axes(getattr(fourier, name), (-2, -1)) for name in ("fft2", "ifft2", "rfft2", "irfft2")
)
fftfreq, rfftfreq = fourier.fftfreq, fourier.rfftfreq
fftshift, ifftshift = fourier.fftshift, fourier.ifftshift


def next_fast_len(target: int, real: bool = False) -> int:
    """The least length from `target` on whose prime factors are 2, 3 and 5: its transforms take little time.

    Raises: ShapeError for a target below 1.

    >>> import tracejit as tj
    >>> tj.scipy.fft.next_fast_len(97)
    100
    """
    n = int(target)
    if n < 1:
        raise reject(f"next_fast_len: target={n} is not a length")
    return next_smooth(n)


# -- cosine transforms -------------------------------------------------------------------------------------------------
def dct(
    x: ArrayLike,
    type: int = 2,
    n: Any = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
    orthogonalize: bool | None = None,
) -> Result:
    """The cosine transform of a type along an axis, of n elements (cut, or with zeros behind).

    type: 1 (of two elements and more), 2 or 3.  norm: "backward" (the inverse is divided by 2 n, by 2 n - 2 for type
    1), "ortho" (both by its root), "forward".  orthogonalize: whether the ends are scaled so that the matrix is
    orthogonal but for a factor; by default with norm="ortho".  float32 for float16 and float32, else float64.

    Raises: UnsupportedError for type 4; ShapeError for another type or norm, and lengths that there are not; DtypeError
    for complex numbers.
    Source: SciPy's scipy.fft.dct; by real transforms of the same length (Makhoul 1980, "A fast cosine transform in one
    and two dimensions").

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.fft.dct(np.array([1.0, 0.0]), 3)
    Array([1., 1.], dtype=float64)
    """
    return _cosine("dct", x, type, n, axis, norm, orthogonalize, inverse=False)


def idct(
    x: ArrayLike,
    type: int = 2,
    n: Any = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
    orthogonalize: bool | None = None,
) -> Result:
    """The inverse of `dct`.

    Raises: as `dct`.
    Source: SciPy's scipy.fft.idct.

    >>> import numpy as np, tracejit as tj
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> bool(np.allclose(tj.scipy.fft.idct(tj.scipy.fft.dct(x)), x))
    True
    """
    return _cosine("idct", x, type, n, axis, norm, orthogonalize, inverse=True)


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Any = None,
    axes: Any = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
    *,
    orthogonalize: bool | None = None,
) -> Result:
    """`dct` along several axes, all by default.

    Raises: as `dct`.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.fft.dctn(np.ones((2, 2)))[0, 0]
    Array(16.0, dtype=float64)
    """
    return _cosine_over("dctn", x, type, s, axes, norm, orthogonalize, inverse=False)


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Any = None,
    axes: Any = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
    *,
    orthogonalize: bool | None = None,
) -> Result:
    """The inverse of `dctn`.

    Raises: as `dct`.

    >>> import numpy as np, tracejit as tj
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> bool(np.allclose(tj.scipy.fft.idctn(tj.scipy.fft.dctn(x)), x))
    True
    """
    return _cosine_over("idctn", x, type, s, axes, norm, orthogonalize, inverse=True)


def _cosine_over(
    name: str, x: ArrayLike, kind: int, s: Any, axes: Any, norm: str | None, orthogonalize: Any, *, inverse: bool
) -> Result:
    y = array(x)
    rank = aval(y).ndim
    if axes is None:
        places = list(range(rank if s is None else rank - len(s), rank)) if s is not None else list(range(rank))
    else:
        places = [axis_index(a, rank) for a in (axes if isinstance(axes, (tuple, list)) else (axes,))]
    sizes: list[Any] = [None] * len(places) if s is None else list(s)
    if len(sizes) != len(places) or len(set(places)) != len(places):
        raise reject(f"{name}: s={s} and axes={axes} do not fit each other")
    for n, k in zip(sizes, places, strict=True):
        y = _cosine(name, y, kind, None if n == -1 else n, k, norm, orthogonalize, inverse=inverse)
    return y


def _cosine(
    name: str, x: ArrayLike, kind: int, n: Any, axis: int, norm: str | None, orthogonalize: Any, *, inverse: bool
) -> Result:
    if kind == 4:
        raise UnsupportedError(f"{name}: type 4 is not there; types 1, 2 and 3 are", location=user_location())
    if kind not in (1, 2, 3):
        raise reject(f"{name}: invalid type {kind!r}; there are types 1, 2 and 3")
    if norm not in (None, "backward", "ortho", "forward"):
        raise reject(f'{name}: invalid norm {norm!r}; should be "backward", "ortho" or "forward"')
    y = array(x)
    dtype = aval(y).dtype
    if dtype.kind == "c":
        raise DtypeError(
            f"{name} takes real numbers, not {short_name(dtype)}; transform the parts", location=user_location()
        )
    y = OPERATORS.to_dtype(y, np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64))
    k = axis_index(axis, aval(y).ndim)
    y = moveaxis(y, k, -1)
    count = int(aval(y).shape[-1]) if n is None else int(n)
    if count < 1 + (kind == 1):
        raise reject(f"{name}: type {kind} of {count} elements is not defined")
    y = _resized(y, count)
    kind = {1: 1, 2: 3, 3: 2}[kind] if inverse else kind
    whole = 2 * (count - 1) if kind == 1 else 2 * count
    scale = 1 / np.sqrt(whole) if norm == "ortho" else 1 / whole if inverse == (norm != "forward") else 1.0
    ends = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
    if ends and kind in (1, 3):
        y = _ends_scaled(y, np.sqrt(2.0), last=kind == 1)
    found = {1: _first, 2: _second, 3: _third}[kind](y, count, float(scale))
    if ends and kind in (1, 2):
        found = _ends_scaled(found, np.sqrt(0.5), last=kind == 1)
    return moveaxis(found, -1, k)


def _resized(x: ArrayLike, n: int) -> Result:
    *outer, have = aval(x).shape
    none = (0,) * (len(outer) + 1)
    if have > n:
        return slice_array(x, none, (*outer, n))
    return pad(x, zero_like(x), none, (*[0] * len(outer), n - have)) if have < n else x


def _part(x: ArrayLike, start: int, count: int, step: int = 1) -> Result:
    *outer, _ = aval(x).shape
    rank = len(outer)
    return slice_array(x, (*[0] * rank, start), (*outer, count), (*[1] * rank, step))


def _along(vector: Any, x: ArrayLike) -> Result:
    """A constant vector along the last axis of the shape of x, in its precision."""
    have = aval(x)
    dtype = np.result_type(have.dtype, np.complex64) if np.iscomplexobj(vector) else have.dtype
    return broadcast_in_dim(vector.astype(dtype), have.shape, (have.ndim - 1,))


def _ends_scaled(x: ArrayLike, by: float, *, last: bool) -> Result:
    factors = np.ones(int(aval(x).shape[-1]))
    factors[0] = by
    factors[-1] = by if last else factors[-1]
    return mul(x, _along(factors, x))


def _turns(n: int) -> Any:
    """exp(-i pi k / 2 n) for k up to n // 2."""
    angle = np.pi * np.arange(n // 2 + 1) / (2 * n)
    return np.cos(angle) - 1j * np.sin(angle)


def _first(x: ArrayLike, n: int, scale: float) -> Result:
    """The transform of x and its mirror image without their ends."""
    axis = aval(x).ndim - 1
    mirrored = concatenate([x, reverse(_part(x, 1, n - 2), (axis,))], axis) if n > 2 else x
    return real(transformed(mirrored, "rfft", 2 * (n - 1), axis, scale))


def _second(x: ArrayLike, n: int, scale: float) -> Result:
    """Of the even elements and, behind them, the odd ones backwards."""
    axis, half = aval(x).ndim - 1, (n + 1) // 2
    even = _part(x, 0, half, 2)
    ordered = concatenate([even, reverse(_part(x, 1, n - half, 2), (axis,))], axis) if n > 1 else even
    spectrum = transformed(ordered, "rfft", n, axis, 2 * scale)
    turned = mul(spectrum, _along(_turns(n), spectrum))
    head = real(turned)
    rest = n - (n // 2 + 1)
    return concatenate([head, neg(reverse(_part(imag(turned), 1, rest), (axis,)))], axis) if rest else head


def _third(x: ArrayLike, n: int, scale: float) -> Result:
    """`_second` backwards, times 2 n."""
    axis, half = aval(x).ndim - 1, (n + 1) // 2
    head = _part(x, 0, n // 2 + 1)
    tail = reverse(_part(x, n - n // 2, n // 2), (axis,))
    tail = pad(tail, zero_like(x), (*[0] * axis, 1), (0,) * (axis + 1))  # what would be element n of x is 0
    pairs = make_complex(head, neg(tail))
    turned = mul(pairs, conj(_along(_turns(n), pairs)))
    ordered = transformed(turned, "irfft", n, axis, scale)
    places = np.empty(n, np.int64)
    places[0::2] = np.arange(half)
    places[1::2] = np.arange(n - 1, half - 1, -1)
    return take(ordered, places, axis=axis)


def enter() -> None:
    """Have SciPy's functions of these names redirected, if they are loaded."""
    found = sys.modules.get("scipy.fft")
    if found is not None:
        redirect_members({getattr(found, name): _TRACED[name] for name in __all__})


_TRACED = {name: globals()[name] for name in __all__}
globals().update({
    _name: returning_arrays(globals()[_name]) for _name in __all__ if _name != "next_fast_len"
})  # fmt: skip
