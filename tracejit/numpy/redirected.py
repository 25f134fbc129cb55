"""NumPy's names as functions see them while they are traced: fills the table
of `tracer.substitutes` with this package's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tracejit.api.inspecting import eval_shape
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
from tracejit.numpy.promotion import as_array, fitting, leaves_of, to_dtype
from tracejit.numpy.queries import broadcast_shapes, isscalar
from tracejit.numpy.reading import fromfile, fromiter
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike
from tracejit.tracer import math_functions
from tracejit.tracer.absence import used
from tracejit.tracer.calls import call_ufunc
from tracejit.tracer.redirect import prepared
from tracejit.tracer.substitutes import CREATION, REDIRECTED, Redirected, redirect_members, substitute_for
from tracejit.tracer.tables import FUNCTIONS, METHODS, UFUNCS
from tracejit.tracer.tracer import Tracer

__all__ = ["fill_nested", "fromfunction", "memory_of", "ndenumerate", "new_array", "nditer", "resize", "vectorize"]

_MODULES = (
    conversions, convolution, creation, differences, einstein, evenly_spaced, inserting, joining, linear,
    nan_reductions, number_parts, padding, polynomials, positions, real_functions, reductions, selecting, shaping,
    taking, triangles, windows,
)  # fmt: skip


def fromfunction(
    function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike = float, like: Any = None, **kwargs: Any
) -> Result:
    """`function` of the index grids of a shape."""
    return used(function(*creation.indices(shape, dtype=dtype), **kwargs))


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


class vectorize(np.vectorize):  # pyright: ignore[reportIncompatibleVariableOverride]
    """np.vectorize, which calls Python for each element of arrays that are known; for others it is mapped over them."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        is_decorator = self.pyfunc is np._NoValue  # pyright: ignore[reportPrivateUsage]
        if is_decorator or not _depends_on_arguments((*args, *kwargs.values())):
            return super().__call__(*args, **kwargs)
        function, otypes = self.pyfunc, self.otypes
        operands = [x for n, x in enumerate(args) if n not in self.excluded]
        operands += [x for key, x in kwargs.items() if key not in self.excluded]
        if self.signature is None and any(_is_narrow(x) for x in operands):
            # NumPy finds the dtype by a call for elements of the array, and gives Python's numbers to all others.
            otypes = otypes or self._dtypes_of_results(args, kwargs)
            function = _of_python_numbers(function, self.excluded, [np.dtype(kind) for kind in otypes])
        return applying.vectorize(function, otypes, None, self.excluded, self.cache, self.signature)(*args, **kwargs)

    def _dtypes_of_results(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[np.dtype[Any]]:
        mapped = applying.vectorize(self.pyfunc, None, None, self.excluded)
        found = eval_shape(lambda: mapped(*args, **kwargs))
        return [x.dtype for x in (found if isinstance(found, tuple) else (found,))]


def _is_narrow(x: Any) -> bool:
    """Whether arithmetic on elements is not that on Python's numbers."""
    return (
        isinstance(x, (Tracer, np.ndarray, np.generic))
        and x.dtype.kind in "iufc"
        and x.dtype.itemsize < (16 if x.dtype.kind == "c" else 8)
    )


def _depends_on_arguments(x: Any) -> bool:
    """Whether an array, or one in a list, has a value that is not known while tracing."""
    return any(isinstance(leaf, Tracer) and leaf.known() is None for leaf in leaves_of(x))


def _of_python_numbers(
    function: Callable[..., Any], excluded: Iterable[int | str], dtypes: Sequence[np.dtype[Any]]
) -> Callable[..., Any]:
    """A function that is given elements as NumPy's vectorize gives them, as Python's numbers; what it gives has to fit
    the dtypes.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        given = [x if n in excluded else _python_number(x) for n, x in enumerate(args)]
        named = {key: x if key in excluded else _python_number(x) for key, x in kwargs.items()}
        found = prepared(function)(*given, **named)
        results = found if isinstance(found, tuple) else (found,)
        results = [x if np.ndim(x) else to_dtype(fitting(x, d), d) for x, d in zip(results, dtypes, strict=False)]
        return tuple(results) if isinstance(found, tuple) else results[0]

    return call


def _python_number(x: Any) -> Any:
    return METHODS["item"](x) if isinstance(x, Tracer) else x.item() if isinstance(x, np.generic) else x


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


def memory_of(buffer: Any, *args: Any, **kwargs: Any) -> Any:
    """np.frombuffer, which asks the memory of an array itself."""
    if isinstance(buffer, Tracer):
        raise unsupported("np.frombuffer of a traced array reads its bits; x.astype(dtype) converts, x.ravel() is flat")
    return np.frombuffer(buffer, *args, **kwargs)


def _of_lists(ufunc: np.ufunc) -> Callable[..., Any]:
    """A ufunc of lists that hold traced arrays."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return call_ufunc(ufunc, "__call__", [as_array(x) if isinstance(x, (list, tuple)) else x for x in args], kwargs)

    return call


def _own() -> dict[str, Callable[..., Any]]:
    """This package's functions by NumPy's names."""
    found: dict[str, Callable[..., Any]] = {}
    for module in _MODULES:
        found.update({name: getattr(module, name) for name in module.__all__ if callable(getattr(module, name))})
    found |= {"asanyarray": conversions.asarray, "fromfunction": fromfunction}
    return found


def fill_nested() -> None:
    """All functions that are in the tables by now, as they are called with lists that hold traced arrays."""
    nested = {f: g for f, g in FUNCTIONS.items() if callable(f) and id(f) not in REDIRECTED}
    nested |= {f: _of_lists(f) for f in UFUNCS if isinstance(f, np.ufunc)}
    redirect_members(nested, only_nested=True)


def _fill() -> None:
    math_functions.enter()
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
    redirect_members(
        {
            np.frombuffer: memory_of,
            np.fromiter: fromiter,
            np.fromfile: fromfile,  # a path would be opened with the globals of the function
            np.resize: resize,
            np.broadcast_shapes: broadcast_shapes,
            np.mask_indices: positions.mask_indices,
        }
    )


_fill()
