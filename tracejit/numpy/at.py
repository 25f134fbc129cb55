"""`x.at[index]`: changed copies of arrays, for arrays that never change and for code that changes none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api.applying import applied_at
from tracejit.numpy import ufuncs as u
from tracejit.numpy.assigning import changed_part, scattered, updated, value_for
from tracejit.numpy.axes import is_whole
from tracejit.numpy.bounds import Bounds
from tracejit.numpy.indexing import (
    BasicIndex,
    classify,
    expanded,
    fitting_mask,
    getitem,
    has_traced_mask,
    index_arrays,
    single_mask,
)
from tracejit.numpy.masked import Selection, assigned
from tracejit.numpy.powers import power
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.primitives.creation import full
from tracejit.primitives.shape import broadcast_in_dim, reshape
from tracejit.support.dtypes import result_type
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import METHODS
from tracejit.tracer.tracer import Tracer

__all__ = ["At", "IndexedAt", "applied", "are_apart", "written"]

_SCATTERED = {"add": "add", "subtract": "add", "multiply": "mul", "min": "min", "max": "max"}
"""What a scatter combines by itself, where indices may name an element more than once."""
_ADDITIVE = ("add", "subtract")
_MOST_COMPARED = 1 << 20  # so many known indices are looked through for two that are equal


@frozen(eq=False)
class At:
    """`x.at`: indexed, it gives `IndexedAt`."""

    array: Any

    def __getitem__(self, index: IndexLike) -> IndexedAt:
        return IndexedAt(self.array, _plain(index))

    def __repr__(self) -> str:
        return f"{self.array!r}.at"


@frozen(eq=False)
class IndexedAt:
    """What `x.at[index]` can do.  None of it changes x.

    Every value counts where an index names an element more than once: sums, products, quotients, powers, extrema, and
    a function that is applied again; of values that are set the last one stays.  A mask known only when the program
    runs takes one value.

    mode: what becomes of indices out of range (`tj.lax.GatherScatterMode`, or its name: "clip", "fill", "drop",
    "promise_in_bounds").  By default those known while tracing are an error, others are dropped, and get takes the
    nearest element.  fill_value: what get gives for those out of range with "fill", by default NaN, the least signed or
    the greatest unsigned integer.  unique_indices: no element is named twice.  indices_are_sorted: makes no difference.
    wrap_negative_indices: whether -1 is the last element, or out of range.
    """

    array: Any
    index: Any
    checked: bool = False  # traced indices out of range are an error

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: ArrayLike = None,
        wrap_negative_indices: bool = True,
    ) -> Result:
        """x[index]"""
        bounds = self._bounds(mode, wrap_negative_indices, reads=True)
        if isinstance(self.array, Tracer) or bounds is not None:
            return getitem(self.array, self.index, self.checked, bounds, fill_value)
        return self.array[self.index]

    def set(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Result:
        """x with x[index] replaced."""
        x, bounds = self.array, self._bounds(mode, wrap_negative_indices)
        mask = single_mask(self.index, aval(x)) if isinstance(values, Selection) else None
        if mask is not None:
            return assigned(x, mask, 0, values)
        value = to_dtype(as_array(values), x.dtype)
        if self.index is Ellipsis or single_mask(self.index, aval(x)) is not None:
            return updated(x, self.index, value)
        found = classify(x, self.index, self.checked, bounds)
        if isinstance(found, BasicIndex) and not found.static:
            return scattered(x, expanded(self.index, aval(x).ndim), value, "set", self.checked, unique=True)
        return updated(x, self.index, value, self.checked, bounds, unique_indices)

    def add(self, values: ArrayLike, **options: Any) -> Result:
        """x with values added to x[index]."""
        return self._combined("add", u.add, values, **options)

    def subtract(self, values: ArrayLike, **options: Any) -> Result:
        """x with values subtracted from x[index]."""
        return self._combined("subtract", u.subtract, values, **options)

    sub = subtract

    def multiply(self, values: ArrayLike, **options: Any) -> Result:
        """x with x[index] multiplied."""
        return self._combined("multiply", u.multiply, values, **options)

    mul = multiply

    def divide(self, values: ArrayLike, **options: Any) -> Result:
        """x with x[index] divided: true quotients, float64 of integers."""
        if self.array.dtype.kind in "biu":
            divided = IndexedAt(to_dtype(self.array, np.float64), self.index, self.checked)
            return divided.divide(to_dtype(as_array(values), self.array.dtype), **options)
        return self._combined("divide", u.divide, values, **options)

    def power(self, values: ArrayLike, **options: Any) -> Result:
        """x with x[index] raised to a power."""
        return self._combined("power", power, values, **options)

    def min(self, values: ArrayLike, **options: Any) -> Result:
        """x with x[index] replaced by values where those are smaller."""
        return self._combined("min", u.minimum, values, **options)

    def max(self, values: ArrayLike, **options: Any) -> Result:
        """x with x[index] replaced by values where those are greater."""
        return self._combined("max", u.maximum, values, **options)

    def apply(self, func: Callable[[Any], Any], **options: Any) -> Result:
        """x with x[index] replaced by func(x[index])."""
        return self._combined("apply", lambda part, _: func(part), 0, **options)

    def _bounds(self, mode: Any, wrap: bool, *, reads: bool = False) -> Bounds | None:
        if mode is None and wrap:
            return None
        return Bounds.of("promise_in_bounds" if mode is None else mode, wrap=bool(wrap), reads=reads)

    def _combined(
        self,
        name: str,
        combine: Callable[[Any, Any], Any],
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Result:
        x, dtype = self.array, self.array.dtype
        bounds = self._bounds(mode, wrap_negative_indices)
        mask = single_mask(self.index, aval(x))
        if mask is not None and (isinstance(mask, Tracer) or not mask.ndim or aval(as_array(values)).size == 1):
            return self.where_masked(name, mask, combine, values)
        if has_traced_mask(self.index):
            return self.where_masked_in_part(name, combine, values)
        found = classify(x, self.index, self.checked, bounds)
        if isinstance(found, BasicIndex) and (found.static or name not in _ADDITIVE):
            return written(x, found, self.get(), to_dtype(combine(self.get(), values), dtype))
        parts = expanded(self.index, aval(x).ndim) if isinstance(found, BasicIndex) else found
        if name in _SCATTERED:
            op, values = _SCATTERED[name], to_dtype(as_array(values), dtype)
            values = u.negative(values) if name == "subtract" else values
            unique = unique_indices or (op == "mul" and are_apart(x, parts))
            return scattered(x, parts, values, op, self.checked, unique)
        if unique_indices or are_apart(x, parts):
            options: dict[str, Any] = {
                "mode": mode or "promise_in_bounds",
                "wrap_negative_indices": wrap_negative_indices,
            }
            old = self.get(**options)
            return self.set(to_dtype(combine(old, values), dtype), unique_indices=True, **options)
        if name == "apply":
            return applied(x, parts, lambda old, _: combine(old, 0), checked=self.checked)
        # once, by the product of all divisors or exponents of an element
        factor = as_array(values)
        kind = result_type((dtype, False), (aval(factor).dtype, aval(factor).weak))[0]
        ones = full(aval(x).shape, kind.type(1))
        return to_dtype(combine(x, scattered(ones, parts, to_dtype(factor, kind), "mul", self.checked)), dtype)

    def where_masked(self, name: str, mask: ArrayLike, combine: Callable[[Any, Any], Any], values: ArrayLike) -> Result:
        """A mask that is known only when the program runs."""
        x = self.array
        have = aval(as_array(values))
        if have.ndim and have.size != 1:
            raise UnsupportedError(
                f"with a mask {name} takes one number: how many an array would need depends on the mask; use "
                "np.where(mask, y, x)",
                location=user_location(),
            )
        values = reshape(values, ()) if have.ndim else values
        wide = reshape(mask, (*aval(mask).shape, *[1] * (aval(x).ndim - aval(mask).ndim)))
        return u.where(wide, to_dtype(combine(x, values), x.dtype), x)

    def where_masked_in_part(self, name: str, combine: Callable[[Any, Any], Any], values: ArrayLike) -> Result:
        """A mask that is known only when the program runs, beside numbers and slices."""
        x = self.array
        parts = expanded(self.index, aval(x).ndim)
        masks = [k for k, part in enumerate(parts) if isinstance(part, Tracer) and part.dtype == np.bool_]
        arrays = [part for part in parts if getattr(part, "shape", ()) or isinstance(part, (list, tuple))]
        if len(masks) > 1 or len(arrays) > 1:
            raise UnsupportedError(
                f"{name} at an index of a mask that is not known while tracing and of other masks or arrays is not "
                "supported; index in two steps, or use np.where",
                location=user_location(),
            )
        place = masks[0]
        mask = parts[place]
        others = (*parts[:place], *[slice(None)] * mask.ndim, *parts[place + 1 :])
        part = self.array[others] if not isinstance(x, Tracer) else getitem(x, others)
        before = sum(1 for p in parts[:place] if p is None or isinstance(p, slice))
        have = aval(part).shape
        mask = fitting_mask(mask, have[before : before + mask.ndim])
        wide = broadcast_in_dim(mask, have, tuple(range(before, before + mask.ndim)))
        changed = IndexedAt(part, wide, self.checked).where_masked(name, wide, combine, values)
        return updated(x, others, changed, self.checked)


def written(x: ArrayLike, place: BasicIndex, old: ArrayLike, new: ArrayLike) -> Result:
    """x with new values at the place; with the old ones where a traced integer is out of range."""
    inside: Any = None
    for start, n in zip(place.start, aval(x).shape, strict=True):
        if isinstance(start, Tracer):
            ok = u.logical_and(u.greater_equal(start, 0), u.less(start, OPERATORS.extent(n)))
            inside = ok if inside is None else u.logical_and(inside, ok)
    return updated(x, place, new if inside is None else u.where(inside, new, old))


def _plain(index: IndexLike) -> Result:
    """The index with NumPy arrays in place of other arrays that are not traced."""
    if isinstance(index, tuple):
        return tuple([_plain(part) for part in index])
    return (
        index
        if isinstance(index, (Tracer, np.ndarray)) or not hasattr(index, "__array__") or isinstance(index, np.generic)
        else np.asarray(index)
    )


def are_apart(x: ArrayLike, parts: Sequence[Any]) -> bool:
    """Whether it is known that an index names no element twice."""
    _, arrays, _, _ = index_arrays(x, parts, checked=False)
    if not aval(arrays[0]).shape:
        return True
    known = [_known(a) for a in arrays]
    if any(k is None or k.size > _MOST_COMPARED for k in known):
        return False
    rows = np.stack([k.ravel() for k in known])
    return np.unique(rows, axis=1).shape[1] == rows.shape[1]


def _known(x: ArrayLike) -> Any:
    """The elements of x where these are known while tracing."""
    return x.seen().made() if isinstance(x, Tracer) else np.asarray(x)


def applied(
    x: ArrayLike,
    parts: Sequence[Any],
    function: Callable[[Any, Any], Any],
    values: ArrayLike = None,
    *,
    checked: bool = True,
) -> Result:
    """x with function(x[k], value) at each of the places k of an index with arrays, one after another, as often as an
    element is named; without `values` function(x[k], None).
    """
    axes, arrays, rest, first = index_arrays(x, parts, checked)
    have = aval(x)
    partial = {item[0]: item[1] for item in rest if isinstance(item, tuple) and not is_whole(item[1])}
    if partial:
        return changed_part(
            x, parts, partial, lambda part, inner: applied(part, inner, function, values, checked=checked)
        )
    kept = tuple([n for d, n in enumerate(have.shape) if d not in axes])
    spread = None if values is None else value_for(values, aval(arrays[0]).shape, kept, rest, first)
    return applied_at(x, axes, arrays, function, spread)


METHODS["at"] = At
