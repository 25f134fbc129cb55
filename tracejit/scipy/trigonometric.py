"""Cosine and sine transforms, of `scipy.fft`: by real and complex transforms of about the same length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.lax.operands import array, aval, reject
from tracejit.numpy.shaping import moveaxis
from tracejit.numpy.taking import take
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.elementwise import mul, neg, zero_like
from tracejit.primitives.fourier import fft as transformed
from tracejit.primitives.shape import broadcast_in_dim, concatenate, pad, reshape, reverse, slice_array
from tracejit.support.axes import axis_index
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.operators import OPERATORS

__all__ = ["dct", "dctn", "dst", "dstn", "idct", "idctn", "idst", "idstn"]


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

    type: 1 (of two elements and more), 2, 3 or 4.  norm: "backward" (the inverse is divided by 2 n, by 2 n - 2 for
    type 1), "ortho" (both by its root), "forward".  orthogonalize: whether the ends are scaled so that the matrix is
    orthogonal but for a factor; by default with norm="ortho".  Real and imaginary parts are transformed each for
    itself.  float32 for float16 and float32, else float64, and complex numbers of these.

    Raises: ShapeError for another type or norm, and lengths that there are not.
    Source: SciPy's scipy.fft.dct; by real transforms of the same length (Makhoul 1980, "A fast cosine transform in one
    and two dimensions"), type 4 by complex ones of half the length, or by real ones where that is odd.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.fft.dct(np.array([1.0, 0.0]), 3)
    Array([1., 1.], dtype=float64)
    """
    return _transform("dct", x, type, n, axis, norm, orthogonalize)


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
    return _transform("idct", x, type, n, axis, norm, orthogonalize)


def dst(
    x: ArrayLike,
    type: int = 2,
    n: Any = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
    orthogonalize: bool | None = None,
) -> Result:
    """The sine transform of a type along an axis, of n elements (cut, or with zeros behind).

    type: 1, 2, 3 or 4; "backward" divides the inverse of type 1 by 2 n + 2.  Everything else as in `dct`.

    Raises: as `dct`.
    Source: SciPy's scipy.fft.dst; types 2 to 4 are cosine transforms of what has other signs, or runs backwards.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.fft.dst(np.array([1.0, 0.0]), 3)
    Array([1.41421356, 1.41421356], dtype=float64)
    """
    return _transform("dst", x, type, n, axis, norm, orthogonalize)


def idst(
    x: ArrayLike,
    type: int = 2,
    n: Any = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
    orthogonalize: bool | None = None,
) -> Result:
    """The inverse of `dst`.

    Raises: as `dct`.
    Source: SciPy's scipy.fft.idst.

    >>> import numpy as np, tracejit as tj
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> bool(np.allclose(tj.scipy.fft.idst(tj.scipy.fft.dst(x)), x))
    True
    """
    return _transform("idst", x, type, n, axis, norm, orthogonalize)


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
    return _over_axes("dct", x, type, s, axes, norm, orthogonalize)


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
    return _over_axes("idct", x, type, s, axes, norm, orthogonalize)


def dstn(
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
    """`dst` along several axes, all by default.

    Raises: as `dct`.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.fft.dstn(np.ones((1, 1)), 1)
    Array([[4.]], dtype=float64)
    """
    return _over_axes("dst", x, type, s, axes, norm, orthogonalize)


def idstn(
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
    """The inverse of `dstn`.

    Raises: as `dct`.

    >>> import numpy as np, tracejit as tj
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> bool(np.allclose(tj.scipy.fft.idstn(tj.scipy.fft.dstn(x)), x))
    True
    """
    return _over_axes("idst", x, type, s, axes, norm, orthogonalize)


# -- what they share ---------------------------------------------------------------------------------------------------
def _over_axes(name: str, x: ArrayLike, kind: int, s: Any, axes: Any, norm: str | None, orthogonalize: Any) -> Result:
    y = array(x)
    rank = aval(y).ndim
    listed: list[Any] | None = None if s is None else list(s) if isinstance(s, (tuple, list, np.ndarray)) else [s]
    if axes is None:
        if listed is not None and len(listed) > rank:
            raise reject(f"{name}n: s={s} is of {len(listed)} axes, the array has {rank}")
        places = list(range(0 if listed is None else rank - len(listed), rank))
    else:
        places = [axis_index(a, rank) for a in (axes if isinstance(axes, (tuple, list, np.ndarray)) else (axes,))]
    sizes: list[Any] = [None] * len(places) if listed is None else listed
    if len(sizes) != len(places) or len(set(places)) != len(places):
        raise reject(f"{name}n: s={s} and axes={axes} do not fit each other")
    for n, k in zip(sizes, places, strict=True):
        y = _transform(name, y, kind, None if n == -1 else n, k, norm, orthogonalize)
    return y


def _transform(name: str, x: ArrayLike, kind: int, n: Any, axis: int, norm: str | None, orthogonalize: Any) -> Result:
    """name: "dct", "idct", "dst" or "idst"."""
    if kind not in (1, 2, 3, 4):
        raise reject(f"{name}: invalid type {kind!r}; there are types 1 to 4")
    if norm not in (None, "backward", "ortho", "forward"):
        raise reject(f'{name}: invalid norm {norm!r}; should be "backward", "ortho" or "forward"')
    y = array(x)
    have = aval(y).dtype
    if have.kind == "c":
        parts = (_transform(name, part, kind, n, axis, norm, orthogonalize) for part in (real(y), imag(y)))
        return make_complex(*parts)
    y = OPERATORS.to_dtype(y, np.dtype(np.float32 if have.kind == "f" and have.itemsize <= 4 else np.float64))
    k = axis_index(axis, aval(y).ndim)
    y = moveaxis(y, k, -1)
    count = int(aval(y).shape[-1]) if n is None else int(n)
    inverse, of_sines = name.startswith("i"), name.endswith("dst")
    if count < (2 if kind == 1 and not of_sines else 1):
        raise reject(f"{name}: type {kind} of {count} elements is not defined")
    y = _resized(y, count)
    kind = {2: 3, 3: 2}.get(kind, kind) if inverse else kind
    whole = 2 * (count + (kind == 1) * (1 if of_sines else -1))
    scale = 1 / np.sqrt(whole) if norm == "ortho" else 1 / whole if inverse == (norm != "forward") else 1.0
    ends = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
    return moveaxis((_sines if of_sines else _cosines)(y, kind, count, float(scale), ends), -1, k)


def _cosines(x: ArrayLike, kind: int, n: int, scale: float, ends: bool) -> Result:
    """Of the last axis; ends: scaled, where the transform is of that kind."""
    if ends and kind in (1, 3):
        x = _ends_scaled(x, np.sqrt(2.0), last=kind == 1)
    of_kind: dict[int, Callable[..., Result]] = {1: _first, 2: _second, 3: _third, 4: _fourth}
    found = of_kind[kind](x, n, scale)
    if ends and kind in (1, 2):
        found = _ends_scaled(found, np.sqrt(0.5), last=kind == 1)
    return found


def _sines(x: ArrayLike, kind: int, n: int, scale: float, ends: bool) -> Result:
    """sin((2 j + 1) (k + 1) pi / 2 n) is (-1)^j times the cosine of element n - 1 - k, the others likewise."""
    if kind == 1:
        return _first_of_sines(x, n, scale)
    axis = aval(x).ndim - 1
    signs = _along(np.where(np.arange(n) % 2, -1.0, 1.0), x)
    if kind == 2:
        return reverse(_cosines(mul(x, signs), 2, n, scale, ends), (axis,))
    return mul(_cosines(reverse(x, (axis,)), kind, n, scale, ends), signs)


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


def _roots(angle: Any) -> Any:
    """exp(-i angle)"""
    return np.cos(angle) - 1j * np.sin(angle)


# -- each type of the last axis ----------------------------------------------------------------------------------------
def _first(x: ArrayLike, n: int, scale: float) -> Result:
    """The transform of x and its mirror image without their ends."""
    axis = aval(x).ndim - 1
    mirrored = concatenate([x, reverse(_part(x, 1, n - 2), (axis,))], axis) if n > 2 else x
    return real(transformed(mirrored, "rfft", 2 * (n - 1), axis, scale))


def _first_of_sines(x: ArrayLike, n: int, scale: float) -> Result:
    """The transform of x and its mirror image of the other sign, with a zero in front of each."""
    axis = aval(x).ndim - 1
    front, none = (*[0] * axis, 1), (0,) * (axis + 1)
    pieces = [pad(y, zero_like(x), front, none) for y in (x, neg(reverse(x, (axis,))))]
    return neg(_part(imag(transformed(concatenate(pieces, axis), "rfft", 2 * (n + 1), axis, scale)), 1, n))


def _second(x: ArrayLike, n: int, scale: float) -> Result:
    """Of the even elements and, behind them, the odd ones backwards."""
    axis, half = aval(x).ndim - 1, (n + 1) // 2
    even = _part(x, 0, half, 2)
    ordered = concatenate([even, reverse(_part(x, 1, n - half, 2), (axis,))], axis) if n > 1 else even
    spectrum = transformed(ordered, "rfft", n, axis, 2 * scale)
    turned = mul(spectrum, _along(_roots(np.pi * np.arange(n // 2 + 1) / (2 * n)), spectrum))
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
    turned = mul(pairs, conj(_along(_roots(np.pi * np.arange(n // 2 + 1) / (2 * n)), pairs)))
    ordered = transformed(turned, "irfft", n, axis, scale)
    places = np.empty(n, np.int64)
    places[0::2] = np.arange(half)
    places[1::2] = np.arange(n - 1, half - 1, -1)
    return take(ordered, places, axis=axis)


def _fourth(x: ArrayLike, n: int, scale: float) -> Result:
    """The even elements and the odd ones backwards are the parts of half as many complex numbers, and of the result.

    Source: Britanak, Yip and Rao 2007, "Discrete cosine and sine transforms", 4.4.
    """
    if n % 2:
        return _fourth_of_odd(x, n, scale)
    axis, half = aval(x).ndim - 1, n // 2
    pairs = make_complex(_part(x, 0, half, 2), reverse(_part(x, 1, half, 2), (axis,)))
    turn = _along(_roots(np.pi * (np.arange(half) + 0.125) / n), pairs)
    found = mul(transformed(mul(pairs, turn), "fft", half, axis, 2 * scale), turn)
    column = (*aval(found).shape, 1)
    sides = [reshape(y, column) for y in (real(found), neg(reverse(imag(found), (axis,))))]
    return reshape(concatenate(sides, axis + 1), (*column[:-2], n))


def _fourth_of_odd(x: ArrayLike, n: int, scale: float) -> Result:
    """Element j of what is transformed is element (n - 1) / 2 + 4 j of x, which goes on beyond its ends as the cosines
    do; then element k of the result is element 2 k + 1 of the transform, turned by an odd number of eighths.

    Source: FFTW's reodft11e-radix2 (the method of its REDFT11 of odd lengths).
    """
    axis = aval(x).ndim - 1
    beyond = (n // 2 + 4 * np.arange(n)) % (4 * n)  # n to 3 n have the other sign, and odd multiples of n run back
    back = beyond // n % 2 == 1
    places = np.where(back, n - 1 - beyond % n, beyond % n)
    signs = np.where((beyond >= n) & (beyond < 3 * n), -1.0, 1.0)
    spectrum = transformed(mul(take(x, places, axis=axis), _along(signs, x)), "rfft", n, axis, 2 * scale)
    k = np.arange(n)
    wanted = (2 * k + 1) % n
    mirrored = wanted > n // 2  # what the transform of real numbers leaves out
    there = take(spectrum, np.where(mirrored, n - wanted, wanted), axis=axis)
    turn = _roots(np.pi * ((2 * k + 1) % 8) / 4)
    return real(mul(there, _along(np.where(mirrored, turn.conj(), turn), there)))
