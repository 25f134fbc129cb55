"""Functions that give an array another shape or order its axes differently: views, nothing is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from tracejit.ir.extents import Extent, Shape, is_empty, is_one, prod, same_shape, spreads
from tracejit.numpy.axes import (
    as_extent,
    axis_index,
    axis_list,
    is_flattened,
    is_sequence,
    items_of,
    not_negative,
    reject,
    same_extent,
    unsupported,
)
from tracejit.numpy.promotion import as_array, aval, broadcast_shapes, broadcast_to as spread, to_dtype
from tracejit.numpy.strides import as_iterated, is_contiguous, known_strides, like
from tracejit.numpy.views import Flat, Reading, contiguous, reshaped, reversed_along, transposed, view
from tracejit.primitives import shape as p
from tracejit.support.dtypes import canonical, weak_kind
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.layout import AS_IS, Strides
from tracejit.tracer.tables import FUNCTIONS, METHODS
from tracejit.tracer.tracer import Tracer

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "copy", "expand_dims", "flip",
    "fliplr", "flipud", "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel", "reshape", "rollaxis", "rot90",
    "shape", "size", "squeeze", "swapaxes", "transpose",
]  # fmt: skip


def array_of(x: ArrayLike) -> Result:
    """An operand with a dtype of its own, as numpy.asarray gives:
    Python numbers become rank-0 arrays of their default dtype.
    """
    x = as_array(x)
    if weak_kind(x) is not None:
        return np.asarray(x)
    return to_dtype(x, x.dtype) if isinstance(x, Tracer) and x.aval.weak else x


def copy(a: ArrayLike, order: Any = "K", subok: bool = False) -> Result:
    """A new array with the same elements.  For a traced array only the cell is new: nothing is computed."""
    check_order(order)
    x = array_of(a)
    if isinstance(x, Tracer):
        made = current_interpreter().fresh(x)
        made.layout = like(x, x.shape, x.dtype, order)
        made.is_array = True
        return made
    return np.array(x)


new_copy = copy  # for functions whose parameter is called `copy`, as NumPy's is


def as_rank_0_array(x: ArrayLike) -> Result:
    """x, which if it is a traced number becomes an array of rank 0, which `+=` changes."""
    if not isinstance(x, Tracer) or x.shape or x.is_array or x.root is not None:
        return x
    made = current_interpreter().fresh(x)
    made.is_array = True
    perhaps_its_own(made, x)
    return made


def perhaps_its_own(made: Tracer, x: Tracer) -> None:
    """An array that is made of a number is that very array where data say that it was none."""
    if x.is_array is None:
        made.may_be(x)


def _copy_method(a: ArrayLike, order: Any = "C") -> Result:
    made = copy(a, order)
    if isinstance(made, Tracer):
        made.is_array = a.root is not None or a.is_array  # a NumPy scalar's copy is one
    return made


def check_order(order: Any) -> None:
    """Raises UserError for what is no memory order."""
    if order not in ("C", "F", "A", "K", None):
        raise reject(f"order={order!r} is none of 'C', 'F', 'A' and 'K'")


def in_memory_order(x: ArrayLike, order: Any) -> str:
    """What order="A" means for an array: "C" or "F"."""
    if order != "A" or not isinstance(x, Tracer):
        return order if order in ("C", "F") else "C"
    strides = known_strides(x)
    if strides is None:
        raise _order_unknown(order)
    fortran = is_contiguous(x.shape, strides, x.itemsize, "F") and not is_contiguous(x.shape, strides, x.itemsize)
    return "F" if fortran else "C"


def _order_unknown(order: Any) -> Exception:
    return unsupported(
        f"order={order!r} of an array whose memory order is not followed here; name the order, 'C' or 'F'"
    )


def _along_memory(x: ArrayLike) -> Result:
    """The array with its axes in the order of memory, as a view: what order="K" reads along."""
    if not isinstance(x, Tracer) or x.ndim < 2 or (x.root is None and x.layout is None):
        return x
    strides = known_strides(x)
    if strides is None:
        raise _order_unknown("K")
    return transposed(x, as_iterated(x.shape, strides))


# -- shapes ------------------------------------------------------------------------------------------------------------
def _wanted(size: Extent, have: Shape, shape: Sequence[ArrayLike]) -> Shape:
    """The target of a reshape, with -1 replaced."""
    want = [as_extent(n) for n in shape]
    holes = [d for d, n in enumerate(want) if isinstance(n, int) and n < 0]
    if any(want[d] != -1 for d in holes):
        raise reject(f"reshape to {tuple(want)}: an extent is negative (-1 stands for the one to be found)")
    if len(holes) > 1:
        raise reject(f"reshape to {tuple(want)}: only one extent can be -1")
    if holes:
        rest = prod(n for d, n in enumerate(want) if d != holes[0])
        if is_empty(rest):
            raise reject(f"cannot reshape an array of shape {have} to {tuple(want)}: -1 could be any extent")
        found = size // rest
        if not same_extent(found * rest, size) and found * rest != size:
            raise reject(f"cannot reshape an array of {size} elements, of shape {have}, to {tuple(want)}")
        want[holes[0]] = found
    elif not same_extent(prod(want), size) and prod(want) != size:
        raise reject(f"cannot reshape an array of {size} elements, of shape {have}, to {tuple(want)}")
    return tuple(want)


def reshape(a: ArrayLike, /, shape: ShapeLike | None = None, order: Any = "C", *, copy: bool | None = None) -> Result:
    """The same elements, in C order, under another shape; one extent may be -1.  copy: whether to copy in any case.

    Raises: ShapeError if the number of elements differs; UnsupportedError for copy=False.
    """
    if copy is False:
        raise unsupported(
            "reshape with copy=False is not supported in traced code: it asks whether the strides allow a view"
        )
    if copy:
        return new_copy(reshape(a, shape, order), "C")
    check_order(order)
    if shape is None:
        raise reject("reshape needs a shape")
    if order == "K":
        raise reject("reshape by order='K' has no meaning; 'C', 'F' or 'A'")
    x = array_of(a)
    have = aval(x)
    want = _wanted(have.size, have.shape, items_of(shape))
    if in_memory_order(x, order) == "F":
        return transpose(reshaped(transpose(x), want[::-1]))
    return reshaped(x, want)


def _reshape_method(a: ArrayLike, *shape: ShapeLike, order: Any = "C", copy: bool | None = None) -> Result:
    return reshape(a, shape[0] if len(shape) == 1 else cast("tuple[SupportsIndex, ...]", shape), order, copy=copy)


def ravel(a: ArrayLike, order: Any = "C") -> Result:
    """All elements along one axis, in C order by default: a view where they lie in memory so."""
    check_order(order)
    x = array_of(a)
    if order == "K":
        x = _along_memory(x)
    elif in_memory_order(x, order) == "F":
        x = transpose(x)
    return contiguous(x, (aval(x).size,), "C", "ravel")


def flat(a: ArrayLike) -> Result:
    """All elements in C order along one axis; what is written there is written to `a`."""
    x = array_of(a)
    how = Flat((aval(x).size,))
    if isinstance(x, Tracer) and x.ndim == 1:  # the same elements, but other slices
        return Tracer(x.interpreter, x.value, x.aval, root=x, index=how)
    return view(x, how)


def flatten(a: ArrayLike, order: Any = "C") -> Result:
    """As `ravel`, always a new array."""
    check_order(order)
    x = array_of(a)
    if order == "K":
        x = _along_memory(x)
    elif in_memory_order(x, order) == "F":
        x = transpose(x)
    return copy(p.reshape(x, (aval(x).size,)))


def expand_dims(a: ArrayLike, axis: AxisLike) -> Result:
    """New axes of extent 1 at the places `axis` of the result."""
    x = array_of(a)
    rest = iter(aval(x).shape)
    rank = aval(x).ndim + len(items_of(axis))
    axes = axis_list(axis, rank, "a result")
    return reshaped(x, tuple([1 if d in axes else next(rest) for d in range(rank)]))


def squeeze(a: ArrayLike, axis: AxisLike = None) -> Result:
    """Without the axes of extent 1 (all, or those given).

    Raises: ShapeError if a given axis has another extent.
    """
    x = array_of(a)
    have = aval(x).shape
    if axis is None:
        axes = tuple([d for d, n in enumerate(have) if is_one(n)])
    else:
        axes = () if is_flattened(axis, len(have)) else axis_list(axis, len(have))
        for d in axes:
            if have[d] != 1:
                raise reject(f"cannot squeeze axis {d} of shape {have}: its extent is {have[d]}, not 1")
    return reshaped(x, tuple([n for d, n in enumerate(have) if d not in axes]))


def _atleast(x: ArrayLike, rank: int) -> Result:
    x = array_of(x)
    have = aval(x).shape
    if len(have) >= rank:
        return x
    if rank < 3:
        return reshaped(x, (*(1,) * (rank - len(have)), *have))
    return reshaped(x, {0: (1, 1, 1), 1: (1, *have, 1), 2: (*have, 1)}[len(have)])


def _atleast_nd(rank: int) -> Callable[..., Any]:
    def function(*arys: ArrayLike) -> Result:
        out = tuple([_atleast(x, rank) for x in arys])
        return out[0] if len(out) == 1 else out

    function.__name__ = function.__qualname__ = f"atleast_{rank}d"
    function.__doc__ = f"Arrays with at least {rank} axes; a tuple if several are given."
    return function


atleast_1d = _atleast_nd(1)
atleast_2d = _atleast_nd(2)
atleast_3d = _atleast_nd(3)


def broadcast_to(array: ArrayLike, shape: ShapeLike, subok: bool = False) -> Result:
    """The array repeated to `shape` by NumPy's rules.

    Raises: ShapeError if it does not fit.
    """
    fault = "all elements of broadcast shape must be non-negative"
    want = tuple([not_negative(as_extent(n), fault) for n in items_of(shape)])
    x = array_of(array)
    have = aval(x).shape
    if len(have) > len(want) or any(not spreads(n, m) for n, m in zip(reversed(have), reversed(want), strict=False)):
        raise reject(f"an array of shape {have} cannot be broadcast to {want}")
    if not want or (isinstance(x, Tracer) and not x.is_scalar and same_shape(have, want)):  # no more elements
        return for_reading(as_rank_0_array(x), "broadcast_to")
    return _spread(x, want)


def _spread(x: ArrayLike, shape: Shape) -> Result:
    # of the array that NumPy makes of the number, whose one element all are
    if isinstance(x, Tracer) and x.is_scalar and shape:
        number, x = x, Tracer(x.interpreter, x.value, x.aval)
        x.is_array = not number.shape
    return view(x, _Spread(shape))


def for_reading(x: ArrayLike, name: str) -> Result:
    """An array as what np.`name` gives, which cannot be written."""
    return Tracer(x.interpreter, x.value, x.aval, root=x, index=_Spread(x.shape, name)) if isinstance(x, Tracer) else x


@frozen(eq=False)
class _Spread(Reading):
    """The array repeated to a shape."""

    shape: Shape
    name: str = "broadcast_to"

    def read(self, x: ArrayLike) -> Result:
        return spread(x, self.shape)

    def strides(self, shape: Shape, strides: Strides) -> Strides | None:
        kept = [0 if is_one(n) else s for n, s in zip(shape, strides, strict=True)]
        return (*(0,) * (len(self.shape) - len(kept)), *kept)


def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> tuple[Result, ...]:
    """The arrays, all of their common shape."""
    xs = [array_of(x) for x in args]
    if not xs:
        return ()
    want = broadcast_shapes(*[aval(x).shape for x in xs])
    return tuple([_spread(x, want) for x in xs])


# -- order of axes -----------------------------------------------------------------------------------------------------
def transpose(a: ArrayLike, axes: AxisLike = None) -> Result:
    """Axis k of the result is axis axes[k] of `a`; without `axes` their order is reversed."""
    x = array_of(a)
    rank = aval(x).ndim
    if axes is None:
        return transposed(x, tuple(reversed(range(rank))))
    perm = axis_list(axes, rank)
    if len(perm) != rank:
        raise reject(f"transpose by {tuple(items_of(axes))} of an array of rank {rank}: every axis is named once")
    return transposed(x, perm)


permute_dims = transpose


def _transpose_method(a: ArrayLike, *axes: AxisLike) -> Result:
    if len(axes) == 1 and (axes[0] is None or is_sequence(axes[0])):
        return transpose(a, axes[0])
    return transpose(a, cast("tuple[SupportsIndex, ...]", axes) or None)


def matrix_transpose(x: ArrayLike, /) -> Result:
    """The last two axes swapped."""
    x = array_of(x)
    if aval(x).ndim < 2:
        raise reject(f"a matrix transpose needs at least 2 axes; the array has {aval(x).ndim}")
    return swapaxes(x, -1, -2)


def swapaxes(a: ArrayLike, axis1: AxisLike, axis2: AxisLike) -> Result:
    """Two axes swapped."""
    x = array_of(a)
    perm = list(range(aval(x).ndim))
    i, j = axis_index(axis1, len(perm)), axis_index(axis2, len(perm))
    perm[i], perm[j] = perm[j], perm[i]
    return transposed(x, tuple(perm))


def moveaxis(a: ArrayLike, source: AxisLike, destination: AxisLike) -> Result:
    """Axes `source` moved to the places `destination`; the others keep their order."""
    x = array_of(a)
    rank = aval(x).ndim
    origin, target = axis_list(source, rank), axis_list(destination, rank)
    if len(origin) != len(target):
        raise reject(f"moveaxis from {source} to {destination}: the numbers of axes differ")
    perm = [d for d in range(rank) if d not in origin]
    for to, d in sorted(zip(target, origin, strict=True)):
        perm.insert(to, d)
    return transposed(x, tuple(perm))


def rollaxis(a: ArrayLike, axis: AxisLike, start: int = 0) -> Result:
    """Axis `axis` moved until it lies before place `start`."""
    x = array_of(a)
    rank = aval(x).ndim
    k = axis_index(axis, rank)
    place = start + rank if start < 0 else start
    if not 0 <= place <= rank:
        raise reject(f"start {start} is out of bounds for an array of rank {rank}")
    place -= k < place
    perm = [d for d in range(rank) if d != k]
    perm.insert(place, k)
    return transposed(x, tuple(perm))


# -- order of elements -------------------------------------------------------------------------------------------------
def flip(m: ArrayLike, axis: AxisLike = None) -> Result:
    """Elements in the opposite order along `axis` (all axes by default)."""
    x = array_of(m)
    rank = aval(x).ndim
    axes = tuple(range(rank)) if axis is None else axis_list(axis, rank)
    if not rank and isinstance(x, Tracer):  # indexed by (), which gives a number
        made = current_interpreter().fresh(x)
        made.is_array = False
        return made
    return reversed_along(x, axes)


def flipud(m: ArrayLike) -> Result:
    """Elements in the opposite order along the first axis."""
    x = array_of(m)
    if aval(x).ndim < 1:
        raise reject("flipud needs at least 1 axis")
    return flip(x, 0)


def fliplr(m: ArrayLike) -> Result:
    """Elements in the opposite order along the second axis."""
    x = array_of(m)
    if aval(x).ndim < 2:
        raise reject("fliplr needs at least 2 axes")
    return flip(x, 1)


def rot90(m: ArrayLike, k: int = 1, axes: AxisLike = (0, 1)) -> Result:
    """The plane of `axes` turned by k quarters, from the first axis to the second."""
    x = array_of(m)
    plane = axis_list(axes, aval(x).ndim)
    if len(plane) != 2:
        raise reject(f"rot90 turns a plane of 2 axes, not {axes}")
    turns = int(k) % 4
    if turns == 0:
        return reversed_along(x, ())
    if turns == 2:
        return reversed_along(x, plane)
    if turns == 1:
        return swapaxes(reversed_along(x, plane[1:]), *plane)
    return reversed_along(swapaxes(x, *plane), plane[1:])


# -- questions ---------------------------------------------------------------------------------------------------------
def shape(a: ArrayLike) -> Shape:
    """The shape."""
    return aval(as_array(a)).shape


def ndim(a: ArrayLike) -> int:
    """The number of axes."""
    return aval(as_array(a)).ndim


def size(a: ArrayLike, axis: AxisLike = None) -> Extent:
    """The number of elements, of the whole array or along some axes."""
    have = aval(as_array(a))
    return have.size if axis is None else prod(have.shape[d] for d in axis_list(axis, have.ndim))


def _view_method(a: ArrayLike, dtype: DTypeLike = np.ndarray, type: Any = None) -> Result:
    """Another array over the same elements.   dtype: that of the array by default; None is float64, as everywhere.

    Raises: UnsupportedError for one of another dtype, which reads the elements' bits.
    """
    want = np.dtype(np.float64) if dtype is None else a.dtype if dtype is np.ndarray else canonical(dtype)
    if type is not None or want == a.dtype:
        return reshaped(a, a.shape)
    raise unsupported(
        f"x.view({want}) of an array of {a.dtype} is not supported in traced code; x.astype({want}) converts"
    )


METHODS.update({
    "T": transpose, "view": _view_method,
    "copy": _copy_method, "flat": flat, "flatten": flatten, "mT": matrix_transpose, "ravel": ravel,
    "reshape": _reshape_method, "squeeze": squeeze,
    "swapaxes": swapaxes, "transpose": _transpose_method,
})  # fmt: skip
for _function in (
    copy, reshape, ravel, expand_dims, squeeze, atleast_1d, atleast_2d, atleast_3d, broadcast_to, broadcast_arrays,
    transpose, matrix_transpose, swapaxes, moveaxis, rollaxis, flip, flipud, fliplr, rot90, shape, ndim, size,
):  # fmt: skip
    FUNCTIONS[getattr(np, _function.__name__)] = _function
AS_IS.update((
    reshape, _reshape_method, ravel, flat, expand_dims, squeeze, atleast_1d, atleast_2d, atleast_3d, broadcast_to,
    broadcast_arrays, transpose, _transpose_method, _view_method, matrix_transpose, swapaxes, moveaxis, rollaxis, flip,
    flipud, fliplr, rot90, copy, _copy_method, flatten,
))  # fmt: skip
