"""`reduce`, `accumulate`, `reduceat`, `outer` and `at` of every ufunc of two operands, `at` of those of one.

What no reduction, running fold or scatter computes by itself is a loop along the axis, element after element.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tracejit.api.control import bounded_loop, scan
from tracejit.ir.extents import is_empty, prod
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.assigning import scattered
from tracejit.numpy.at import IndexedAt, applied, are_apart, written
from tracejit.numpy.axes import axis_index, keeps, normalize_axes, reject
from tracejit.numpy.counts import check_not_empty
from tracejit.numpy.index_checks import check_index, check_safe_index, known_to_be_outside
from tracejit.numpy.indexing import BasicIndex, classify, getitem, has_traced_mask, rank_at, single_mask
from tracejit.numpy.joining import concatenate, part
from tracejit.numpy.linear import outer_of
from tracejit.numpy.promotion import as_array, aval, broadcast_to, mask_of, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.numpy.strides import in_order_of_kept_axes, in_order_of_operands
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.shape import reshape, transpose
from tracejit.support.dtypes import canonical, result_type
from tracejit.support.errors import DtypeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, IndexLike, Result
from tracejit.tracer.failures import empty_reduction
from tracejit.tracer.layout import LAYOUTS
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import UFUNCS
from tracejit.tracer.tracer import Tracer

__all__ = ["METHODS_OF_UFUNCS", "add_methods", "methods_of"]

METHODS_OF_UFUNCS = ("reduce", "accumulate", "reduceat", "outer", "at")

_SCATTERED: dict[Any, str] = {
    np.add: "add", np.subtract: "add", np.multiply: "mul", np.maximum: "max", np.minimum: "min",
    np.bitwise_and: "and", np.bitwise_or: "or", np.bitwise_xor: "xor",
}  # fmt: skip
"""What a scatter combines by itself."""


def _scatter_of(ufunc: np.ufunc, dtype: np.dtype[Any]) -> str | None:
    """What a scatter calls a ufunc, if it combines such numbers by it: complex ones have no extrema there."""
    return None if dtype.kind == "c" and ufunc in (np.maximum, np.minimum) else _SCATTERED.get(ufunc)


_NOTHING: Any = getattr(np, "_NoValue")  # noqa: B009  # NumPy's mark of an argument that is not given


# -- what NumPy's ufuncs say of themselves -----------------------------------------------------------------------------
@cache
def _dtype_of_fold(ufunc: np.ufunc, method: str, have: np.dtype[Any], dtype: np.dtype[Any] | None) -> np.dtype[Any]:
    """The dtype in which NumPy folds elements.  Raises: DtypeError where it has no such loop."""
    one = np.ones(1, have)
    try:
        with np.errstate(all="ignore"):
            found = (
                getattr(ufunc, method)(one, dtype=dtype) if method != "reduceat" else ufunc.reduceat(one, [0], 0, dtype)
            )
    except (TypeError, ValueError) as error:
        raise DtypeError(f"np.{ufunc.__name__}.{method}: {error}", location=user_location()) from None
    return np.dtype(found.dtype)


@cache
def _is_reorderable(ufunc: np.ufunc) -> bool:
    """Whether NumPy folds it over several axes at once."""
    dtype = next(kind for kind in ("?", "i8", "f8") if _has_loop(ufunc, kind))
    try:
        ufunc.reduce(np.ones((1, 1), dtype), axis=(0, 1))
    except ValueError:
        return False
    return True


def _has_loop(ufunc: np.ufunc, kind: str) -> bool:
    try:
        ufunc.reduce(np.ones(1, kind))
    except TypeError:
        return False
    return True


def _called(ufunc: np.ufunc) -> Callable[..., Any]:
    return UFUNCS[ufunc]


def _rows(x: ArrayLike, axes: tuple[int, ...]) -> Result:
    """x with these axes in front, as one."""
    have = aval(x).shape
    kept = [d for d in range(len(have)) if d not in axes]
    moved = transpose(x, (*axes, *kept))
    return reshape(moved, (prod([have[d] for d in axes]), *[have[d] for d in kept]))


# -- reduce ------------------------------------------------------------------------------------------------------------
def _reduce(ufunc: np.ufunc) -> Callable[..., Any]:
    name = ufunc.__name__

    def function(
        a: ArrayLike,
        axis: AxisLike = 0,
        dtype: DTypeLike = None,
        out: ArrayLike = None,
        keepdims: Any = False,
        initial: ArrayLike = _NOTHING,
        where: ArrayLike = True,
    ) -> Result:
        x = array_of(a)
        rank = aval(x).ndim
        loop = _dtype_of_fold(ufunc, "reduce", aval(x).dtype, None if dtype is None else canonical(dtype))
        axes = () if rank == 0 and axis in (0, -1, None) else normalize_axes(axis, rank)
        if len(axes) > 1 and not _is_reorderable(ufunc):
            raise reject(f"np.{name}.reduce: the order of elements matters, so it takes one axis at most")
        x = to_dtype(x, loop)
        mask = mask_of(where)
        start = initial
        if initial is _NOTHING:  # -1 is all bits, of unsigned integers too
            start = None if ufunc.identity is None else np.asarray(ufunc.identity).astype(loop, casting="unsafe")[()]
        if initial is None and ufunc.identity is not None and any(is_empty(aval(x).shape[d]) for d in axes):
            raise empty_reduction(f"{name}.reduce").error()
        if initial is _NOTHING and start is not None and ufunc not in _FROM_IDENTITY:
            start = None if mask is None else start
        if mask is not None and start is None:
            raise reject(f"np.{name}.reduce has no identity, so where= needs initial=")
        have = aval(x).shape
        result = _folded(ufunc, x, axes, start, mask)
        if keeps(keepdims):
            result = reshape(result, tuple([1 if d in axes else n for d, n in enumerate(have)]))
        return result

    return _named(function, f"np.{name}.reduce", "folded over an axis, or several where order does not matter")


_FROM_IDENTITY = (np.hypot, np.logaddexp, np.logaddexp2, np.gcd)
"""Folds of one element, or of two, in which the identity can be seen: |x| of hypot and gcd."""


def _folded(ufunc: np.ufunc, x: ArrayLike, axes: tuple[int, ...], start: ArrayLike, mask: ArrayLike) -> Result:
    """x folded over axes, from `start`, or without one from the first element."""
    dtype, function = aval(x).dtype, _called(ufunc)
    have = aval(x).shape
    kept = tuple([n for d, n in enumerate(have) if d not in axes])
    initial = None if start is None else broadcast_to(to_dtype(as_array(start), dtype), kept)
    if not axes:
        if initial is None:
            return u.unchanged(x)
        new = to_dtype(function(initial, x), dtype)
        return new if mask is None else u.where(broadcast_to(mask, have), new, initial)
    rows = _rows(x, axes)
    if initial is None:
        identity = ufunc.identity
        count = aval(rows).shape[0]
        if identity is not None:  # there may be no first element
            initial = broadcast_to(np.asarray(identity).astype(dtype), kept)  # -1 is all bits, of unsigned ones too
            if is_empty(count):
                return initial
        else:
            check_not_empty(f"{ufunc.__name__}.reduce", *[have[d] for d in axes])
            if is_empty(count):
                raise empty_reduction(f"{ufunc.__name__}.reduce").error()
            initial = reshape(part(rows, 0, 0, 1), kept)
            rows = part(rows, 0, 1, count - 1)
    masks = None if mask is None else _rows(broadcast_to(mask, have), axes)

    def step(total: Any, row: Any) -> tuple[Any, None]:
        new = to_dtype(function(total, row[0]), dtype)
        return (new if masks is None else u.where(row[1], new, total)), None

    return scan(step, initial, (rows,) if masks is None else (rows, masks))[0]


# -- accumulate, reduceat ----------------------------------------------------------------------------------------------
def _accumulate(ufunc: np.ufunc) -> Callable[..., Any]:
    name = ufunc.__name__

    def function(a: ArrayLike, axis: AxisLike = 0, dtype: DTypeLike = None, out: ArrayLike = None) -> Result:
        x, k = _along(f"{name}.accumulate", a, axis)
        x = to_dtype(x, _dtype_of_fold(ufunc, "accumulate", aval(x).dtype, None if dtype is None else canonical(dtype)))
        have, loop = aval(x).shape, aval(x).dtype
        if is_empty(have[k]):
            return x
        rows = _rows(x, (k,))
        first, others = part(rows, 0, 0, 1), part(rows, 0, 1, have[k] - 1)

        def step(total: Any, row: Any) -> tuple[Any, Any]:
            new = to_dtype(_called(ufunc)(total, row), loop)
            return new, new

        kept = aval(rows).shape[1:]
        _, running = scan(step, reshape(first, kept), others)
        return _moved_back(concatenate([first, running], 0), k)

    return _named(function, f"np.{name}.accumulate", "folded along an axis, every step kept")


def _along(name: str, a: ArrayLike, axis: AxisLike) -> tuple[Result, int]:
    x = array_of(a)
    if aval(x).ndim == 0:
        raise DtypeError(f"np.{name} needs an array of rank 1 or more", location=user_location())
    if isinstance(axis, (tuple, list)):
        if len(axis) != 1:
            raise reject(f"np.{name} goes along one axis")
        axis = axis[0]
    return x, axis_index(axis, aval(x).ndim)


def _moved_back(x: ArrayLike, axis: int) -> Result:
    """x with its first axis at place `axis`."""
    rank = aval(x).ndim
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    return transpose(x, order)


def _reduceat(ufunc: np.ufunc) -> Callable[..., Any]:
    name = ufunc.__name__

    def function(
        array: ArrayLike, indices: IndexLike, axis: AxisLike = 0, dtype: DTypeLike = None, out: ArrayLike = None
    ) -> Result:
        x, k = _along(f"{name}.reduceat", array, axis)
        wanted = None if dtype is None else canonical(dtype)
        x = to_dtype(x, _dtype_of_fold(ufunc, "reduceat", aval(x).dtype, wanted))
        places = array_of(indices)
        if isinstance(indices, (list, tuple)) and not isinstance(places, Tracer):
            places = np.asarray(places).astype(np.int64)
        check_safe_index(f"np.{name}.reduceat", places)
        if aval(places).ndim != 1:
            raise reject(f"np.{name}.reduceat: the indices are a vector")
        rows = _rows(x, (k,))
        places = _checked(to_dtype(places, np.int64), aval(rows).shape[0])
        return _moved_back(_segments(ufunc, rows, places), k)

    return _named(function, f"np.{name}.reduceat", "folded over parts of an axis, each from one index up to the next")


def _checked(places: ArrayLike, n: Any) -> Result:
    """Indices that do not count from the end; the program fails where one is out of range."""
    known = places.seen().made() if isinstance(places, Tracer) else np.asarray(places)
    if known is not None:
        outside = (known < 0) | (known >= int(n)) if known.size else np.zeros(0, bool)
        if outside.any():
            known_to_be_outside(int(known[outside][0]), n)
            return np.clip(known, 0, int(n) - 1)
        return known
    end = OPERATORS.extent(n)
    wrong = u.logical_or(u.less(places, 0), u.greater_equal(places, end))
    worst = r.max(u.where(wrong, u.where(u.less(places, 0), u.subtract(end, places), places), 0), initial=0)
    check_index(worst, r.any(wrong), n)
    return u.maximum(u.minimum(places, u.subtract(end, 1)), 0)


def _segments(ufunc: np.ufunc, rows: ArrayLike, places: ArrayLike) -> Result:
    n, kept = aval(rows).shape[0], aval(rows).shape[1:]
    m = aval(places).shape[0]
    if is_empty(m):
        return broadcast_to(aval(rows).dtype.type(0), (0, *kept))
    if isinstance(places, np.ndarray) and m > 1 and len(set(np.diff(places))) == 1 and places[1] > places[0]:
        return _even_segments(ufunc, rows, [int(k) for k in places])
    if isinstance(places, np.ndarray) and _scatter_of(ufunc, aval(rows).dtype) and ufunc is not np.subtract:
        # Which elements a segment has behind its first is known: one scatter.
        ends = np.append(places[1:], int(n))
        lengths = np.maximum(ends - places - 1, 0)
        segment = np.repeat(np.arange(len(places)), lengths)
        within = np.arange(len(segment)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        firsts, others = (gather(rows, (0,), [at]) for at in (places, places[segment] + 1 + within))
        return scatter(firsts, others, (0,), [segment], _SCATTERED[ufunc])
    ends = concatenate([part(places, 0, 1, m - 1), reshape(OPERATORS.extent(n), (1,))], 0)

    def segment_of(_: Any, bounds: Any) -> tuple[Any, Any]:
        begin, end = bounds

        def more(state: Any) -> Any:
            return u.less(state[0], end)

        def step(state: Any) -> Any:
            k, total = state
            new = _called(ufunc)(total, gather(rows, (0,), [k]))
            return u.add(k, 1), to_dtype(new, aval(total).dtype)

        first = gather(rows, (0,), [begin])
        return None, bounded_loop(more, step, (u.add(begin, 1), first), n)[1]

    return scan(segment_of, None, (places, ends))[1]


def _even_segments(ufunc: np.ufunc, rows: ArrayLike, places: list[int]) -> Result:
    """Segments of one length, and what remains behind the last index."""
    n, kept = aval(rows).shape[0], aval(rows).shape[1:]
    length, count = places[1] - places[0], len(places) - 1
    whole = reshape(part(rows, 0, places[0], count * length), (count, length, *kept))
    rest = part(rows, 0, places[-1], n - places[-1])
    options: dict[str, Any] = {"dtype": aval(rows).dtype} if ufunc in (np.add, np.multiply) else {}
    fold = UFUNCS[ufunc, "reduce"]
    return concatenate([fold(whole, 1, **options), reshape(fold(rest, 0, **options), (1, *kept))], 0)


# -- outer, at ---------------------------------------------------------------------------------------------------------
def _outer(ufunc: np.ufunc) -> Callable[..., Any]:
    def function(a: ArrayLike, b: ArrayLike, /, **options: Any) -> Result:
        return outer_of(_called(ufunc), a, b, **options)

    return _named(function, f"np.{ufunc.__name__}.outer", "of every element of a with every one of b")


def _at(ufunc: np.ufunc) -> Callable[..., Any]:
    name = ufunc.__name__

    def function(a: ArrayLike, indices: IndexLike, b: ArrayLike = None, /, *, inplace: bool = True) -> Result:
        if (b is None) is (ufunc.nin == 2):
            raise reject(f"np.{name}.at takes {'a second operand' if ufunc.nin == 2 else 'one operand alone'}")
        if inplace and not isinstance(a, Tracer):
            raise UnsupportedError(
                "an array that is not traced is changed in place by a traced value; inplace=False gives a changed copy",
                location=user_location(),
            )
        new = _changed(ufunc, a if isinstance(a, Tracer) else array_of(a), indices, b)
        if not inplace:
            return new
        a.assign(new)
        return None

    function.__name__ = function.__qualname__ = f"{name}.at"
    function.__doc__ = (
        f"np.{name} of the elements at an index, as often as it names them: in place, or as a changed copy."
    )
    return function


def _changed(ufunc: np.ufunc, x: ArrayLike, index: IndexLike, values: ArrayLike) -> Result:
    """x with `ufunc` applied at an index."""
    dtype = aval(x).dtype

    def function(old: Any, value: Any) -> Any:
        return to_dtype(_called(ufunc)(old) if ufunc.nin == 1 else _called(ufunc)(old, value), dtype)

    value = None if values is None else as_array(values)
    if value is not None and aval(value).ndim > rank_at(index, aval(x).ndim):  # not even where extra axes have extent 1
        raise reject(f"np.{ufunc.__name__}.at: an operand of shape {aval(value).shape} does not fit what is indexed")
    mask = single_mask(index, aval(x))
    if mask is not None and isinstance(mask, Tracer):
        place, name = IndexedAt(x, index, checked=True), f"np.{ufunc.__name__}.at"
        return place.where_masked(name, mask, function, 0 if value is None else value)
    if has_traced_mask(index):
        place, name = IndexedAt(x, index, checked=True), f"np.{ufunc.__name__}.at"
        return place.where_masked_in_part(name, function, 0 if value is None else value)
    found = classify(x, index)
    if isinstance(found, BasicIndex):
        old = getitem(x, index)
        return written(x, found, old, function(old, value))
    op = _scatter_of(ufunc, dtype)
    if op is not None and value is not None:
        have = aval(value)
        alike = result_type((dtype, False), (have.dtype, have.weak))[0] == dtype
        if alike and not (ufunc is np.subtract and dtype.kind == "b"):
            value = to_dtype(value, dtype)
            return scattered(x, found, u.negative(value) if ufunc is np.subtract else value, op)
    if are_apart(x, found):
        return scattered(x, found, function(getitem(x, index), value), "set", unique=True)
    return applied(x, found, function, value)


# -- the tables --------------------------------------------------------------------------------------------------------
def _named(function: Callable[..., Any], name: str, what: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name.removeprefix("np.")
    function.__doc__ = f"{name.rpartition('.')[0]} {what}, with NumPy's arguments."
    return function


_MAKERS = {"reduce": _reduce, "accumulate": _accumulate, "reduceat": _reduceat, "outer": _outer, "at": _at}


def methods_of(ufunc: np.ufunc) -> dict[str, Callable[..., Any]]:
    """The methods that a ufunc of the tables has here."""
    return {name: UFUNCS[ufunc, name] for name in METHODS_OF_UFUNCS if (ufunc, name) in UFUNCS}


def add_methods() -> None:
    """The methods of all ufuncs that are in the tables."""
    for ufunc in [f for f in UFUNCS if isinstance(f, np.ufunc) and f.signature is None]:
        if ufunc.nout != 1:
            names = ("outer",) if ufunc.nin == 2 else ()
        else:
            names = METHODS_OF_UFUNCS if ufunc.nin == 2 else ("at",) if ufunc.nin == 1 else ()
            if ufunc.nin == 2 and any(loop[0] in "efdg" and loop[1] in "il" for loop in ufunc.types):  # ldexp
                names = ("outer", "at")
        for name in names:
            if (ufunc, name) not in UFUNCS:
                made = UFUNCS[ufunc, name] = _MAKERS[name](ufunc)
                if name == "reduce":
                    LAYOUTS[made] = in_order_of_kept_axes
                elif name == "accumulate":
                    LAYOUTS[made] = in_order_of_operands
