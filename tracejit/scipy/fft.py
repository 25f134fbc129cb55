"""Fourier, cosine and sine transforms: those of `scipy.fft`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.api.returning import returning_arrays
from tracejit.lax.operands import array, aval, reject
from tracejit.numpy import fourier
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.fourier import next_smooth
from tracejit.scipy.hankel import fht, fhtoffset, ifht
from tracejit.scipy.trigonometric import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from tracejit.support.axes import axis_index
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.substitutes import redirect_members

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "fht", "fhtoffset", "hfft", "hfft2",
    "hfftn", "idct", "idctn", "idst", "idstn", "ifft", "ifft2", "ifftn", "ifftshift", "ifht", "ihfft", "ihfft2",
    "ihfftn", "irfft", "irfft2", "irfftn", "next_fast_len", "prev_fast_len", "rfft", "rfft2", "rfftfreq", "rfftn",
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
_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward"}


def _hfftn(x: ArrayLike, s: Any, axes: Any, norm: str | None) -> Result:
    y = array(x)
    return fourier.irfftn(conj(y) if aval(y).dtype.kind == "c" else y, s, axes, _SWAPPED.get(norm, norm))


def _ihfftn(x: ArrayLike, s: Any, axes: Any, norm: str | None) -> Result:
    return conj(fourier.rfftn(x, s, axes, _SWAPPED.get(norm, norm)))


def _hermitian(name: str, function: Callable[..., Any], axes: Any, text: str) -> Callable[..., Any]:
    made = _of_axes(function, axes)
    made.__name__ = made.__qualname__ = name
    made.__doc__ = (
        f"{text}\n\nRaises: ShapeError for sizes, axes and a norm that there are not.\n"
        f"Source: SciPy's scipy.fft.{name}."
    )
    return made


_TO_REAL = (
    "The transform along axes of what is conjugate to itself there, given by the first half of the last one: real."
)
_FROM_REAL = "The inverse of `hfftn`: of real numbers the first half along the last axis."
hfftn, hfft2 = (_hermitian(name, _hfftn, axes, _TO_REAL) for name, axes in (("hfftn", None), ("hfft2", (-2, -1))))
ihfftn, ihfft2 = (
    _hermitian(name, _ihfftn, axes, _FROM_REAL) for name, axes in (("ihfftn", None), ("ihfft2", (-2, -1)))
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


def prev_fast_len(target: int, real: bool = False) -> int:
    """The greatest length up to `target` whose prime factors are 2, 3 and 5.

    Raises: ShapeError for a target below 1.

    >>> import tracejit as tj
    >>> tj.scipy.fft.prev_fast_len(97)
    96
    """
    n = int(target)
    if n < 1:
        raise reject(f"prev_fast_len: target={n} is not a length")
    while next_smooth(n) != n:
        n -= 1
    return n


def enter() -> None:
    """Have SciPy's functions of these names redirected, if they are loaded."""
    found = sys.modules.get("scipy.fft")
    if found is not None:
        redirect_members({getattr(found, name): _TRACED[name] for name in __all__})


_TRACED = {name: globals()[name] for name in __all__}
globals().update({
    _name: returning_arrays(globals()[_name]) for _name in __all__ if not _name.endswith(("fast_len", "offset"))
})  # fmt: skip
