"""NumPy's names as functions see them while they are traced: fills the table
of `tracer.substitutes` with this package's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.numpy import (
    applying,
    conversions,
    convolution,
    creation,
    differences,
    einstein,
    evenly_spaced,
    inserting,
    joining,
    linear,
    nan_reductions,
    number_parts,
    padding,
    polynomials,
    positions,
    real_functions,
    reductions,
    selecting,
    shaping,
    taking,
    triangles,
    windows,
)
from tracejit.numpy.axes import unsupported
from tracejit.numpy.index_syntax import Grid, Joined
from tracejit.numpy.queries import broadcast_shapes, isscalar
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.substitutes import CREATION, REDIRECTED, Redirected, of_lists, redirect_members, substitute_for
from tracejit.tracer.tables import FUNCTIONS, UFUNCS
from tracejit.tracer.tracer import Tracer

__all__ = ["fromfunction", "ndenumerate", "new_array", "nditer", "redirect_numpy", "resize", "vectorize"]

_MODULES = (
    conversions, convolution, creation, differences, einstein, evenly_spaced, inserting, joining, linear,
    nan_reductions, number_parts, padding, polynomials, positions, real_functions, reductions, selecting, shaping,
    taking, triangles, windows,
)  # fmt: skip


def fromfunction(
    function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike = float, like: Any = None, **kwargs: Any
) -> Result:
    """`function` of the index grids of a shape."""
    return function(*creation.indices(shape, dtype=dtype), **kwargs)


def ndenumerate(arr: ArrayLike) -> Iterator[tuple[tuple[int, ...], Result]]:
    """(index, element) pairs in C order."""
    return (
        ((index, arr[index]) for index in np.ndindex(arr.shape))
        if isinstance(arr, Tracer)
        else iter(np.ndenumerate(arr))
    )


def new_array(shape: ShapeLike, dtype: DTypeLike = float, *args: ArrayLike, **kwargs: Any) -> Result:
    """`np.ndarray(shape, dtype)` called to make an array; other ways to call it are NumPy's."""
    if args or kwargs:
        return np.ndarray(shape, dtype, *args, **kwargs)
    return substitute_for(np.empty)(shape, dtype)


def vectorize(pyfunc: Any, *args: ArrayLike, **kwargs: Any) -> Result:
    """np.vectorize, which calls Python for each element of arrays that are known; for others it is mapped over them."""
    real = np.vectorize(pyfunc, *args, **kwargs)
    mapped = applying.vectorize(pyfunc, *args, **kwargs)

    def call(*xs: ArrayLike, **kws: Any) -> Result:
        if any(isinstance(x, Tracer) and x.known() is None for x in (*xs, *kws.values())):
            return mapped(*xs, **kws)
        return real(*xs, **kws)

    return call


def nditer(op: ArrayLike, *args: ArrayLike, **kwargs: Any) -> Result:
    """np.nditer of known arrays.  Raises UnsupportedError for others."""
    if any(isinstance(x, Tracer) and x.known() is None for x in (op if isinstance(op, (list, tuple)) else (op,))):
        raise unsupported(
            "np.nditer is not supported in traced code; loop over x.flat, or over the indices np.ndindex(x.shape)"
        )
    return np.nditer(op, *args, **kwargs)


def resize(a: ArrayLike, new_shape: ShapeLike) -> Result:
    """np.resize, which wants numbers for extents, whatever `a` is."""
    if isinstance(new_shape, Dim):
        new_shape = int(new_shape)
    elif isinstance(new_shape, (tuple, list)):
        new_shape = tuple([int(n) if isinstance(n, Dim) else n for n in new_shape])
    return np.resize(a, new_shape)


def _own() -> dict[str, Callable[..., Any]]:
    """This package's functions by NumPy's names."""
    found: dict[str, Callable[..., Any]] = {}
    for module in _MODULES:
        found.update({name: getattr(module, name) for name in module.__all__ if callable(getattr(module, name))})
    found |= {"asanyarray": conversions.asarray, "fromfunction": fromfunction}
    return found


def redirect_numpy() -> None:
    """Fill the table, when all modules of this package have entered their functions."""
    own = _own()
    redirect_members({getattr(np, name): own[name] for name in CREATION if name in own})
    redirect_members(
        {np.require: conversions.require, np.isscalar: isscalar, np.ndenumerate: ndenumerate, np.ndarray: new_array}
    )
    redirect_members({np.nditer: nditer, np.vectorize: vectorize})
    for written, substitute in (
        (np.r_, Joined(original=np.r_)), (np.c_, Joined(-1, 2, 0, np.c_)), (np.mgrid, Grid(False, np.mgrid)),
        (np.ogrid, Grid(True, np.ogrid)),
    ):  # fmt: skip
        REDIRECTED[id(written)] = Redirected(written, substitute)
    made = {getattr(np, name) for name in CREATION}
    nested = {f: g for f, g in FUNCTIONS.items() if f not in made and (f.__module__ or "").startswith("numpy")}
    redirect_members(nested, only_nested=True)
    redirect_members({f: of_lists(f) for f in UFUNCS})
    redirect_members(
        {np.resize: resize, np.broadcast_shapes: broadcast_shapes, np.mask_indices: positions.mask_indices}
    )
