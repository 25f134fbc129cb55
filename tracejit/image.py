"""Images of other sizes, under the names of `jax.image`: products with matrices of weights, axis by axis."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api.returning import returning_arrays
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.exponentials import inexact
from tracejit.numpy.linear import tensordot
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import expand_dims, moveaxis
from tracejit.primitives.creation import iota
from tracejit.support.axes import axis_index
from tracejit.support.dtypes import real_dtype
from tracejit.support.errors import OptionError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.operators import OPERATORS

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How an image is interpolated.

    >>> import tracejit as tj
    >>> tj.image.ResizeMethod.from_string("bicubic")
    <ResizeMethod.CUBIC: 4>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name.   Raises: OptionError for names that are none."""
        found = _NAMES.get(s)
        if found is None:
            raise OptionError(
                f"tj.image: method is one of {', '.join(map(repr, _NAMES))}, not {s!r}", location=user_location()
            )
        return found


_NAMES = {
    "nearest": ResizeMethod.NEAREST, "linear": ResizeMethod.LINEAR, "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR, "triangle": ResizeMethod.LINEAR, "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5, "cubic": ResizeMethod.CUBIC, "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
}  # fmt: skip


# -- kernels, of distances that are not negative -----------------------------------------------------------------------
def _triangle(x: Result) -> Result:
    return u.maximum(1 - x, 0)


def _cubic(x: Result) -> Result:
    """Source: Keys, Cubic convolution interpolation for digital image processing, 1981, with a = -1/2."""
    near = ((1.5 * x - 2.5) * x) * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return u.where(u.less(x, 1), near, u.where(u.less(x, 2), far, 0.0))


def _lanczos(radius: int) -> Callable[[Result], Result]:
    """sinc(x) sinc(x / radius) up to the radius."""

    def kernel(x: Result) -> Result:
        near = u.less_equal(x, 1e-3)  # the quotient is 1 there, and loses its digits
        safe = u.where(near, 1.0, x) * np.pi
        value = radius * u.sin(safe) * u.sin(safe / radius) / (safe * safe)
        return u.where(u.greater(x, radius), 0.0, u.where(near, 1.0, value))

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle, ResizeMethod.CUBIC: _cubic, ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
}  # fmt: skip


def _weights(
    n: Any, count: Any, scale: ArrayLike, translation: ArrayLike, kernel: Any, antialias: bool, dtype: np.dtype[Any]
) -> Result:
    """How much of each of n elements is in each of `count` new ones.   -> dtype[n, count]

    Element k, in the middle of [k, k + 1], lies at scale * (k + 1/2) + translation.  With antialias the kernel is as
    wide as a new element where these are wider than the old ones.
    """
    one = dtype.type(1)
    inverse = one / scale
    wide = u.maximum(inverse, one) if antialias else one
    samples = (iota((count,), 0, dtype) + dtype.type(0.5)) * inverse - translation * inverse - dtype.type(0.5)
    distances = u.absolute(expand_dims(samples, 0) - expand_dims(iota((n,), 0, dtype), 1)) / wide
    weights = to_dtype(kernel(distances), dtype)
    total = r.sum(weights, axis=0, keepdims=True)
    enough = u.greater(u.absolute(total), 1000 * float(np.finfo(np.float32).eps))
    weights = u.where(enough, weights / u.where(u.not_equal(total, 0), total, one), 0)
    end = to_dtype(OPERATORS.extent(n), dtype) - dtype.type(0.5)
    inside = u.logical_and(u.greater_equal(samples, -0.5), u.less_equal(samples, end))
    return to_dtype(u.where(expand_dims(inside, 0), weights, 0), dtype)


def _method(method: Any) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


def _resampled(
    x: ArrayLike,
    shape: Sequence[Any],
    axes: Sequence[int],
    scales: Sequence[Any],
    translations: Sequence[Any],
    kernel: Any,
    antialias: bool,
) -> Result:
    own = real_dtype(aval(x).dtype)
    dtype = np.dtype(np.float32) if own == np.float16 else own
    out = x
    for d, scale, translation in zip(axes, scales, translations, strict=True):
        moved = [to_dtype(as_array(v), dtype) for v in (scale, translation)]
        weights = _weights(aval(out).shape[d], shape[d], moved[0], moved[1], kernel, antialias, dtype)
        summed: Any = ((d,), (0,))
        out = moveaxis(tensordot(out, to_dtype(weights, aval(x).dtype), axes=summed), -1, d)
    return out


@returning_arrays
def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[Any],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Result:
    """An image scaled and moved along some axes: what lay at x lies at scale * x + translation.
    scale, translation: float[axes] -> float[*shape]

    Elements are intervals of length 1 from 0 on; outside of the old image the new one is 0.  method: "linear", "cubic",
    "lanczos3" or "lanczos5" (see `ResizeMethod`); "nearest" is of `resize` alone.  antialias: elements that become
    narrower are averaged.  precision: changes nothing.  Derivatives are there with respect to the image, scale and
    translation.

    Raises: OptionError for another method, ShapeError for another rank of `shape` and other extents along the other
    axes.
    Source: JAX's image.scale_and_translate.

    >>> import numpy as np, tracejit as tj
    >>> x = np.array([0.0, 4.0, 0.0])
    >>> tj.image.scale_and_translate(x, (3,), (0,), np.array([1.0]), np.array([0.5]), "linear")
    Array([0., 2., 2.], dtype=float64)
    """
    x = _of_floats(image)
    kind = _method(method)
    if kind not in _KERNELS:
        raise OptionError("tj.image.scale_and_translate: nearest is not among its methods", location=user_location())
    axes = [axis_index(d, aval(x).ndim) for d in spatial_dims]
    _check(aval(x).shape, shape, axes)
    moves = [as_array(scale), as_array(translation)]
    if any(aval(v).shape != (len(axes),) for v in moves):
        raise reject(f"tj.image.scale_and_translate: scale and translation are vectors of {len(axes)} numbers")
    parts = [[OPERATORS.getitem(v, k) for k in range(len(axes))] for v in moves]
    return _resampled(x, shape, axes, parts[0], parts[1], _KERNELS[kind], antialias)


def _of_floats(x: ArrayLike) -> Result:
    y = as_array(x)
    return y if aval(y).dtype.kind == "c" else inexact(y)[0]


def _check(have: Sequence[Any], shape: Sequence[Any], axes: Sequence[int]) -> None:
    if len(shape) != len(have):
        raise reject(f"tj.image: shape {tuple(shape)} has another rank than an image of shape {tuple(have)}")
    for d, (n, m) in enumerate(zip(have, shape, strict=True)):
        if d not in axes and n != m:
            raise reject(f"tj.image: axis {d} has {n} elements, and shape {m}; it is not among those that change")


@returning_arrays
def resize(
    image: ArrayLike,
    shape: Sequence[Any],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Result:
    """An image of another size.   image: [*s] -> [*shape], of its dtype; of integers float64, unless "nearest"

    method: "nearest", "linear", "cubic", "lanczos3" or "lanczos5" (see `ResizeMethod`).  antialias: what becomes
    smaller is averaged.  precision: changes nothing.

    Raises: OptionError for another method, ShapeError for another rank.
    Source: JAX's image.resize.

    >>> import numpy as np, tracejit as tj
    >>> tj.image.resize(np.array([0.0, 1.0, 2.0, 3.0]), (2,), "linear")
    Array([0.71428571, 2.28571429], dtype=float64)
    >>> tj.image.resize(np.array([[1, 2]]), (2, 4), "nearest")
    Array([[1, 1, 2, 2],
           [1, 1, 2, 2]], dtype=int64)
    """
    x = as_array(image)
    have = aval(x).shape
    axes = [d for d, (n, m) in enumerate(zip(have, shape, strict=False)) if n != m]
    _check(have, shape, axes)
    kind = _method(method)
    if kind is ResizeMethod.NEAREST:
        for d in axes:
            n, m = OPERATORS.extent(have[d]), OPERATORS.extent(shape[d])
            # the element in whose interval the middle of the new one lies
            places = ((2 * iota((shape[d],), 0, np.int64) + 1) * n) // (2 * m)
            x = OPERATORS.getitem(x, (slice(None),) * d + (places,))
        return x
    x = _of_floats(x)
    scales = [u.divide(OPERATORS.extent(shape[d]), OPERATORS.extent(have[d])) for d in axes]
    return _resampled(x, shape, axes, scales, [0.0] * len(axes), _KERNELS[kind], antialias)
