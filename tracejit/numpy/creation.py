"""Functions that make arrays: constants, ranges, grids, triangles."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import as_extent, as_shape, axis_index, reject, static_array, static_int, unsupported
from tracejit.numpy.powers import power
from tracejit.numpy.promotion import as_array, aval, broadcast, broadcast_to as spread, numbers_to_dtype, to_dtype
from tracejit.numpy.shaping import array_of, as_rank_0_array, broadcast_arrays, check_order, copy, moveaxis, ravel
from tracejit.numpy.strides import layout_of, like as laid_out_like
from tracejit.numpy.views import contiguous, reshaped
from tracejit.primitives import creation as c, shape as p
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.elementwise import select
from tracejit.support.config import config
from tracejit.support.dtypes import canonical, result_type, weak_kind
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.layout import AS_IS, UNKNOWN
from tracejit.tracer.tables import FUNCTIONS, METHODS
from tracejit.tracer.tracer import Tracer

__all__ = [
    "arange", "array", "asarray", "ascontiguousarray", "asfortranarray", "astype", "diag", "diagflat", "empty",
    "empty_like", "eye", "full", "full_like", "geomspace", "identity", "indices", "linspace", "logspace", "meshgrid",
    "ones", "ones_like", "tri", "tril", "triu", "vander", "zeros", "zeros_like",
]  # fmt: skip


def default_float() -> np.dtype[Any]:
    """The dtype of a float that nobody gave one: float64, or float32 if `tj.config.default_dtype_bits` is 32."""
    return np.dtype(np.float32 if config.default_dtype_bits == 32 else np.float64)


def default_int() -> np.dtype[Any]:
    """The dtype of an integer that nobody gave one."""
    return np.dtype(np.int32 if config.default_dtype_bits == 32 else np.int64)


def _refuse_like(like: Any, order: Any = "C") -> None:
    check_order(order)
    if like is not None and not isinstance(like, (np.ndarray, Tracer)):
        raise unsupported(f"like={type(like).__name__} is not supported; like= is an array")


# -- constants ---------------------------------------------------------------------------------------------------------
def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Result:
    """An array filled with a value, which may be traced and is broadcast."""
    _refuse_like(like, order)
    return _in_order(_filled(as_shape(shape), fill_value, dtype), order)


def _filled(shape: Shape, value: ArrayLike, dtype: DTypeLike) -> Result:
    x = as_array(value)
    if dtype is None:
        kind = weak_kind(x)
        if kind is None or kind == np.bool_:
            dtype = aval(x).dtype
        elif kind.kind == "f":
            dtype = default_float()
        else:
            dtype = np.uint64 if type(value) is int and 2**63 <= value < 2**64 else default_int()
    return _fresh(spread(to_dtype(x, dtype), shape))


def _fresh(x: ArrayLike) -> Result:
    """An array that can be written and shares no memory."""
    if isinstance(x, Tracer):
        made = current_interpreter().fresh(x)
        made.is_array = True
        return made
    return np.array(x, order="C") if isinstance(x, (np.ndarray, np.generic)) else x


def _in_order(x: ArrayLike, order: Any, model: ArrayLike = None) -> Result:
    """A new array as it lies in memory by `order`; "K" and "A" ask how `model` lies."""
    if isinstance(x, Tracer):
        x.layout = laid_out_like(x if model is None else model, x.shape, x.dtype, order)
    elif order == "F":
        x = np.asfortranarray(x)
    return x


def _constant(name: str, value: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def function(
        shape: ShapeLike, dtype: DTypeLike = None, order: Any = "C", *, device: Any = None, like: Any = None
    ) -> Result:
        _refuse_like(like, order)
        return _in_order(_filled(as_shape(shape), value, dtype if dtype is not None else default_float()), order)

    def function_like(
        a: ArrayLike,
        dtype: DTypeLike = None,
        order: Any = "K",
        subok: bool = True,
        shape: ShapeLike = None,
        *,
        device: Any = None,
    ) -> Result:
        return full_like(a, value, dtype, order, subok, shape)

    meaning = "zeros (memory is never left uninitialised)" if name == "empty" else name
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"An array of {meaning}, float64 by default."
    function_like.__name__ = function_like.__qualname__ = f"{name}_like"
    function_like.__doc__ = f"An array of {meaning} with the shape and dtype of `a`, unless given."
    return function, function_like


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    order: Any = "K",
    subok: bool = True,
    shape: ShapeLike = None,
    *,
    device: Any = None,
) -> Result:
    """An array filled with a value, with the shape and dtype of `a`, unless given."""
    check_order(order)
    model = as_array(a)
    have = aval(model)
    made = _filled(have.shape if shape is None else as_shape(shape), fill_value, have.dtype if dtype is None else dtype)
    return _in_order(made, order, model)


zeros, zeros_like = _constant("zeros", 0)
ones, ones_like = _constant("ones", 1)
empty, empty_like = _constant("empty", 0)


# -- conversions -------------------------------------------------------------------------------------------------------
def array(
    object: ArrayLike,
    dtype: DTypeLike = None,
    *,
    copy: Any = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
) -> Result:
    """A new array from an array, a number, or nested sequences of them, traced ones included."""
    _refuse_like(like, order)
    return _uncopied(copy, object, _converted(object, dtype, ndmin, order, copy is True))


def _converted(value: ArrayLike, dtype: DTypeLike, ndmin: int, order: Any, fresh: bool, name: str = "array") -> Result:
    """value as an array: itself where it is one of that dtype and order, unless it is to be `fresh`."""
    x = array_of(value if dtype is None else numbers_to_dtype(value, dtype))
    if isinstance(x, (np.ndarray, np.generic)):
        made = np.array(x, dtype, copy=True if fresh else None, order=order or "K", ndmin=ndmin)
        canonical(made.dtype)
        return made
    y = x if dtype is None else to_dtype(x, dtype)
    if fresh or y is not value:
        y = copy(y) if y is value else y
        if isinstance(y, Tracer):
            y.layout = laid_out_like(x, y.shape, y.dtype, order or "K")
    elif order in ("C", "F"):
        y = contiguous(y, y.shape, order, name)
    y = as_rank_0_array(y)
    have = y.shape
    return reshaped(y, (*(1,) * (ndmin - len(have)), *have)) if len(have) < ndmin else y


def asarray(
    a: ArrayLike, dtype: DTypeLike = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Result:
    """An array from an array, a number, or nested sequences of them; the same one if nothing changes."""
    _refuse_like(like, order)
    return _uncopied(copy, a, _converted(a, dtype, 0, order, copy is True, "asarray"))


def _uncopied(copy: Any, given: ArrayLike, made: ArrayLike) -> Result:
    """Raises: ShapeError (a ValueError) where copy=False asks for the array itself and it is another."""
    if copy is False and made is not given:
        raise reject("an array cannot be made without a copy here, as copy=False asks; leave copy= away")
    return made


def ascontiguousarray(a: ArrayLike, dtype: DTypeLike = None, *, like: Any = None) -> Result:
    """An array of rank 1 or more in C order: itself if it is one."""
    _refuse_like(like)
    return _converted(a, dtype, 1, "C", False, "ascontiguousarray")


def asfortranarray(a: ArrayLike, dtype: DTypeLike = None, *, like: Any = None) -> Result:
    """An array of rank 1 or more in Fortran's order: itself if it is one."""
    _refuse_like(like)
    return _converted(a, dtype, 1, "F", False, "asfortranarray")


def require(a: ArrayLike, dtype: DTypeLike = None, requirements: Any = None, *, like: Any = None) -> Result:
    """An array with properties: "C", "F" and "A", "W", "O", "E", which traced arrays have."""
    names = {"C_CONTIGUOUS": "C", "CONTIGUOUS": "C", "F_CONTIGUOUS": "F", "FORTRAN": "F"}
    given = {requirements} if isinstance(requirements, str) else set(requirements or ())
    wanted = {names.get(str(r).upper(), str(r).upper()) for r in given}
    if {"C", "F"} <= wanted:
        raise ValueError('Cannot specify both "C" and "F" order')
    return _converted(a, dtype, 0, "C" if "C" in wanted else "F" if "F" in wanted else None, False, "require")


def astype(
    x: ArrayLike,
    /,
    dtype: DTypeLike,
    order: Any = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
    *,
    device: Any = None,
) -> Result:
    """x as another dtype.

    Raises: DtypeError if `casting` does not allow it.
    """
    check_order(order)
    y = array_of(x)
    have = aval(y).dtype
    target = canonical(dtype)
    if not np.can_cast(have, target, casting):  # pyright: ignore[reportArgumentType]
        raise DtypeError(f"{have} cannot be cast to {target} by the rule {casting!r}", location=user_location())
    out = to_dtype(y, target)
    if not isinstance(out, Tracer):
        return _copied(out) if out is y and copy else out
    if out is y and not copy:
        return out if order in ("K", "A", None) else contiguous(out, out.shape, order, "astype")
    out = _copied(out) if out is y else out
    out.layout = laid_out_like(y, out.shape, target, order or "K")
    out.is_array = y.is_array or y.root is not None  # a NumPy scalar becomes one
    return out


def _copied(x: ArrayLike, order: str = "K") -> Result:
    return copy(x, order)


# -- ranges ------------------------------------------------------------------------------------------------------------
def arange(
    start_or_stop: ArrayLike = None,
    /,
    stop: ArrayLike = None,
    step: ArrayLike = 1,
    dtype: DTypeLike = None,
    *,
    device: Any = None,
    like: Any = None,
    start: ArrayLike = None,
) -> Result:
    """start, start + step, ... before stop; all three are known while tracing (symbolic extents with step 1 are)."""
    _refuse_like(like)
    first = start if start is not None else start_or_stop
    if first is None:
        if stop is None:
            raise reject("arange needs a stop")
        first = 0
    if stop is None:
        first, stop = 0, first
    step = 1 if step is None else step
    if any(isinstance(n, Dim) for n in (first, stop, step)):
        return _symbolic_range(first, stop, step, dtype)
    a, b, s = [cast(Any, static_array(n, "arange's arguments")[()]) for n in (first, stop, step)]
    line: np.ndarray[Any, Any] = np.arange(a, b, s, dtype=dtype)  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
    if dtype is None and config.default_dtype_bits == 32:
        line = line.astype(default_float() if line.dtype.kind == "f" else default_int())
    return _affine_line(line)


def _affine_line(line: np.ndarray[Any, Any]) -> Result:
    """A range computed where it is used instead of read, as NumPy computes it: first + k * (second - first)."""
    dtype = line.dtype
    if line.size < 2:
        return _filled(line.shape, line[0] if line.size else dtype.type(0), dtype)
    if dtype.kind == "b":
        return to_dtype(c.iota(line.shape, 0, np.int64), dtype)
    wide = dtype
    if dtype.itemsize < 4:
        wide = np.dtype(np.float32 if dtype.kind == "f" else np.int64)
    first, second = line[0].astype(wide), line[1].astype(wide)
    x = c.iota(line.shape, 0, wide)
    x = x if second - first == 1 else u.multiply(x, second - first)
    x = x if first == 0 else u.add(x, first)
    return _fresh(to_dtype(x, dtype))


def _symbolic_range(first: ArrayLike, stop: ArrayLike, step: ArrayLike, dtype: DTypeLike) -> Result:
    if not all(isinstance(n, (Dim, int, np.integer)) for n in (first, stop, step)):
        first, stop, step = [n if not isinstance(n, Dim) else int(n) for n in (first, stop, step)]
    if not isinstance(step, (int, np.integer)):
        step = int(step)
    if step == 0:
        raise reject("arange's step may not be 0")
    span = (stop - first if step > 0 else first - stop) + (builtins.abs(step) - 1)
    count: Extent = span // int(builtins.abs(step))
    count = 0 if count < 0 else count
    dtype = default_int() if dtype is None else canonical(dtype)
    x = c.iota((count,), 0, dtype)
    x = x if step == 1 else u.multiply(x, int(step))
    return x if isinstance(first, (int, np.integer)) and first == 0 else u.add(x, to_dtype(as_array(first), dtype))


def _together(a: ArrayLike, b: ArrayLike) -> list[Result]:
    return broadcast([a, b], [aval(a).shape, aval(b).shape], keep_scalars=False)


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: ArrayLike = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: AxisLike = 0,
    *,
    device: Any = None,
) -> Result:
    """`num` evenly spaced values from start to stop, which may be traced arrays.

    Source: the order of operations of numpy.linspace, so that values agree to the last bit.
    """
    count = as_extent(num)
    if isinstance(count, int) and count < 0:
        raise reject(f"linspace: the number of values is {count}")
    a, b = as_array(start), as_array(stop)
    computed, _ = result_type(
        (aval(a).dtype, aval(a).weak), (aval(b).dtype, aval(b).weak), (np.dtype(np.float64), True)
    )
    computed = default_float() if weak_kind(a) is not None and weak_kind(b) is not None else computed
    target = computed if dtype is None else canonical(dtype)
    a, b = _together(to_dtype(a, computed), to_dtype(b, computed))
    gaps = count - 1 if endpoint else count
    delta = u.subtract(b, a)
    shape = (count, *aval(a).shape)
    k = c.iota(shape, 0, computed)
    lead = tuple(range(1, len(shape)))

    def along(x: ArrayLike) -> Result:
        return p.broadcast_in_dim(x, shape, lead)

    if gaps <= 0:
        step = u.multiply(delta, np.nan)
        y = u.add(u.multiply(k, along(delta)), along(a))
    else:
        div = to_dtype(as_array(gaps), computed)
        step = u.divide(delta, div)
        # Where one step underflows to zero, or is none, all are taken after the product.
        late = FUNCTIONS[np.any](u.equal(step, 0))
        y = u.where(spread(late, shape), u.multiply(u.divide(k, div), along(delta)), u.multiply(k, along(step)))
        y = u.add(y, along(a))
        if endpoint:
            y = u.where(u.equal(k, div), along(b), y)
    if target.kind in "iu" and computed.kind == "f":
        y = u.floor(y)
    y = to_dtype(y, target)
    y = _moved(_fresh(y), axis, start, stop)
    return (y, step) if retstep else y


def _moved(y: ArrayLike, axis: AxisLike, *operands: ArrayLike) -> Result:
    """What is made of operands along its first axis, with that at `axis`, as it lies in memory."""
    if not axis_index(axis, aval(y).ndim):
        return y
    moved = moveaxis(y, 0, axis)
    if not isinstance(moved, Tracer):
        return moved
    made = _in_order(_fresh(moved), "K", moved)
    if any(layout_of(x) is not None for x in operands):
        made.layout = UNKNOWN
    return made


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: ArrayLike = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: AxisLike = 0,
) -> Result:
    """`base` to evenly spaced powers from start to stop."""
    y = power(base, linspace(start, stop, num, endpoint))
    return _moved(y if dtype is None else to_dtype(y, dtype), axis, start, stop)


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: ArrayLike = 50,
    endpoint: bool = True,
    dtype: DTypeLike = None,
    axis: AxisLike = 0,
) -> Result:
    """`num` values with equal quotients from start to stop, both of one sign and not 0."""
    a, b = as_array(start), as_array(stop)
    asked = np.dtype(np.float64) if dtype is None else canonical(dtype)
    computed, _ = result_type(
        (aval(a).dtype, aval(a).weak), (aval(b).dtype, aval(b).weak), (np.dtype(np.float64), True), (asked, False)
    )
    a, b = _together(to_dtype(a, computed), to_dtype(b, computed))
    sign = u.sign(a)
    low, high = u.log10(u.multiply(sign, a)), u.log10(u.multiply(sign, b))
    y = logspace(low, high, num, endpoint, 10.0)
    count = as_extent(num)
    shape = (count, *aval(a).shape)
    lead = tuple(range(1, len(shape)))
    k = c.iota(shape, 0, np.int64)
    y = u.multiply(p.broadcast_in_dim(sign, shape, lead), y)
    if endpoint and count != 1:
        y = u.where(u.equal(k, as_array(count - 1)), p.broadcast_in_dim(b, shape, lead), y)
    y = u.where(u.equal(k, 0), p.broadcast_in_dim(a, shape, lead), y)
    return _moved(y if dtype is None else to_dtype(y, dtype), axis, start, stop)


# -- grids -------------------------------------------------------------------------------------------------------------
def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Result, ...]:
    """Coordinate arrays of a grid from the coordinates along each axis."""
    if indexing not in ("xy", "ij"):
        raise reject("meshgrid's indexing is 'xy' or 'ij'")
    xs = [reshaped(x, (aval(x).size,)) for x in map(array_of, xi)]
    rank = len(xs)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[0], order[1] = 1, 0
    extents: list[Extent] = [1] * rank
    for d, x in zip(order, xs, strict=True):
        extents[d] = aval(x).shape[0]
    lines = [
        reshaped(x, tuple([n if k == d else 1 for k, n in enumerate(extents)])) for d, x in zip(order, xs, strict=True)
    ]
    out = lines if sparse else broadcast_arrays(*lines)
    return tuple([_copied(x, "C") for x in out] if copy else out)


def indices(dimensions: ShapeLike, dtype: DTypeLike = int, sparse: bool = False) -> Result:
    """The index of every element along every axis: stacked, or one thin array per axis if `sparse`."""
    shape = as_shape(dimensions)
    rank = len(shape)
    if sparse:
        return tuple(
            [c.iota(tuple([n if k == d else 1 for k, n in enumerate(shape)]), d, canonical(dtype)) for d in range(rank)]
        )
    if rank == 0:
        return zeros((0,), dtype)
    return p.concatenate([p.reshape(c.iota(shape, d, canonical(dtype)), (1, *shape)) for d in range(rank)], 0)


# -- triangles and diagonals
# ------------------------------------------------------------------------------------------------------------
def _below(rows: Extent, columns: Extent, k: int) -> Result:
    """bool[rows, columns]: on or below diagonal k."""
    shape = (rows, columns)
    i = c.iota(shape, 0, np.int64)
    return u.greater_equal(i if k == 0 else u.add(i, k), c.iota(shape, 1, np.int64))


def _diagonal_number(k: ArrayLike) -> int:
    return static_int(k, "the number of a diagonal")


def tri(N: ArrayLike, M: ArrayLike = None, k: ArrayLike = 0, dtype: DTypeLike = float, *, like: Any = None) -> Result:
    """Ones on and below diagonal k, zeros above."""
    _refuse_like(like)
    rows = as_extent(N)
    return to_dtype(_below(rows, rows if M is None else as_extent(M), _diagonal_number(k)), canonical(dtype))


def _triangle(m: ArrayLike, k: ArrayLike, below: bool) -> Result:
    x = array_of(m)
    have = aval(x)
    if have.ndim == 0:
        raise reject("a triangle needs an array with at least 1 axis")
    if have.ndim == 1:
        x = p.broadcast_in_dim(x, (have.shape[0], have.shape[0]), (1,))
        have = aval(x)
    number = _diagonal_number(k)
    mask = _below(have.shape[-2], have.shape[-1], number if below else number - 1)
    mask = p.broadcast_in_dim(mask, have.shape, (have.ndim - 2, have.ndim - 1))
    zero = have.dtype.type(0)
    return select(mask, x, zero) if below else select(mask, zero, x)


def tril(m: ArrayLike, k: ArrayLike = 0) -> Result:
    """The elements on and below diagonal k of the last two axes, zeros elsewhere."""
    return _triangle(m, k, True)


def triu(m: ArrayLike, k: ArrayLike = 0) -> Result:
    """The elements on and above diagonal k of the last two axes, zeros elsewhere."""
    return _triangle(m, k, False)


def eye(
    N: ArrayLike,
    M: ArrayLike = None,
    k: ArrayLike = 0,
    dtype: DTypeLike = float,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Result:
    """Ones on diagonal k of an N x M matrix, zeros elsewhere."""
    _refuse_like(like, order)
    rows = as_extent(N)
    table = _on_diagonal((rows, rows if M is None else as_extent(M)), _diagonal_number(k))
    return _in_order(to_dtype(table, np.dtype(dtype if dtype is not None else float)), order)


def _on_diagonal(shape: Shape, k: int) -> Result:
    i = c.iota(shape, 0, np.int64)
    return u.equal(i if k == 0 else u.add(i, k), c.iota(shape, 1, np.int64))


def identity(n: ArrayLike, dtype: DTypeLike = None, *, like: Any = None) -> Result:
    """The n x n identity matrix."""
    return eye(n, dtype=dtype if dtype is not None else default_float(), like=like)


def diag(v: ArrayLike, k: ArrayLike = 0) -> Result:
    """The diagonal k of a matrix, or the matrix that has a vector on its diagonal k."""
    x = array_of(v)
    have = aval(x)
    number = _diagonal_number(k)
    if have.ndim == 2:
        from tracejit.numpy.linear import diagonal

        return diagonal(x, number)
    if have.ndim != 1:
        raise reject(f"np.diag takes an array of rank 1 or 2, not {have.ndim}")
    extent = have.shape[0] + builtins.abs(number)
    zero = have.dtype.type(0)
    if number:
        x = p.pad(x, zero, (0,) if number > 0 else (-number,), (number,) if number > 0 else (0,))
    row = p.broadcast_in_dim(x, (extent, extent), (0,))
    return select(_on_diagonal((extent, extent), number), row, zero)


def diagflat(v: ArrayLike, k: ArrayLike = 0) -> Result:
    """The matrix that has the elements of v, in C order, on its diagonal k."""
    return diag(ravel(v), k)


def vander(x: ArrayLike, N: ArrayLike = None, increasing: bool = False) -> Result:
    """Powers of x as columns, the highest first unless `increasing`."""
    x = array_of(x)
    have = aval(x)
    if have.ndim != 1:
        raise reject("np.vander takes an array of rank 1")
    count = int(have.shape[0] if N is None else as_extent(N))
    dtype = np.promote_types(have.dtype, np.int64)
    x = to_dtype(x, dtype)
    if count == 0:
        return zeros((have.shape[0], 0), dtype)
    table = p.broadcast_in_dim(x, (have.shape[0], count), (0,))
    ones_first = select(u.equal(c.iota((have.shape[0], count), 1, np.int64), 0), dtype.type(1), table)
    powers = cumulative("cumprod", ones_first, 1)
    return powers if increasing else p.reverse(powers, (1,))


METHODS["astype"] = astype
AS_IS.update((
    array, asarray, ascontiguousarray, asfortranarray, require, astype, diag, empty, empty_like, eye, full, full_like,
    meshgrid, ones, ones_like, zeros, zeros_like,
))  # fmt: skip
for _name in (
    "arange", "array", "asarray", "ascontiguousarray", "asfortranarray", "astype", "diag", "diagflat", "empty",
    "empty_like", "eye", "full", "full_like", "geomspace", "identity", "linspace", "logspace", "meshgrid", "ones",
    "ones_like", "tri", "tril", "triu", "vander", "zeros", "zeros_like",
):  # fmt: skip
    if hasattr(np, _name):
        FUNCTIONS[getattr(np, _name)] = globals()[_name]
FUNCTIONS.update({np.asanyarray: asarray, np.require: require})
