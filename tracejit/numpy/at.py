"""`x.at[index]`: changed copies of arrays, for arrays that never change and for code that changes none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.numpy import ufuncs as u
from tracejit.numpy.assigning import scattered, updated
from tracejit.numpy.indexing import BasicIndex, classify, expanded, getitem, single_mask
from tracejit.numpy.masked import Selection, assigned
from tracejit.numpy.powers import power
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.primitives.shape import reshape
from tracejit.support.dtypes import result_type
from tracejit.support.errors import DtypeError, UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import METHODS, UFUNCS
from tracejit.tracer.tracer import Tracer

__all__ = ["At"]

_ADDITIVE = ("add", "subtract")


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

    `set`, `add` and `subtract` take any index, and add every value where elements are named more than once; the others
    take integers, slices and masks.  Indices known while tracing are checked; what others name out of range is dropped.
    """

    array: Any
    index: Any
    checked: bool = False  # traced indices out of range are an error

    def get(self) -> Result:
        """x[index]"""
        return (
            getitem(self.array, self.index, self.checked) if isinstance(self.array, Tracer) else self.array[self.index]
        )

    def set(self, values: ArrayLike) -> Result:
        """x with x[index] replaced."""
        x = self.array
        mask = single_mask(self.index, aval(x)) if isinstance(values, Selection) else None
        if mask is not None:
            return assigned(x, mask, 0, values)
        value = to_dtype(as_array(values), x.dtype)
        if self.index is Ellipsis or single_mask(self.index, aval(x)) is not None:
            return updated(x, self.index, value)
        found = classify(x, self.index, self.checked)
        if isinstance(found, BasicIndex) and not found.static:
            return scattered(x, expanded(self.index, aval(x).ndim), value, "set", self.checked)
        return updated(x, self.index, value, self.checked)

    def add(self, values: ArrayLike) -> Result:
        """x with values added to x[index]."""
        return self._combined("add", u.add, values)

    def subtract(self, values: ArrayLike) -> Result:
        """x with values subtracted from x[index]."""
        return self._combined("subtract", u.subtract, values)

    def multiply(self, values: ArrayLike) -> Result:
        """x with x[index] multiplied."""
        return self._combined("multiply", u.multiply, values)

    mul = multiply

    def divide(self, values: ArrayLike) -> Result:
        """x with x[index] divided."""
        return self._combined("divide", u.divide, values)

    def power(self, values: ArrayLike) -> Result:
        """x with x[index] raised to a power."""
        return self._combined("power", power, values)

    def min(self, values: ArrayLike) -> Result:
        """x with x[index] replaced by values where those are smaller."""
        return self._combined("min", u.minimum, values)

    def max(self, values: ArrayLike) -> Result:
        """x with x[index] replaced by values where those are greater."""
        return self._combined("max", u.maximum, values)

    def apply(self, function: Callable[[Any], Any]) -> Result:
        """x with x[index] replaced by function(x[index])."""
        return self._combined("apply", lambda part, _: function(part), 0)

    def _combined(self, name: str, combine: Callable[[Any, Any], Any], values: ArrayLike) -> Result:
        x, dtype = self.array, self.array.dtype
        mask = single_mask(self.index, aval(x))
        if mask is not None:
            have = aval(as_array(values))
            if have.ndim and have.size != 1:
                raise UnsupportedError(
                    f"with a mask {name} takes one number: how many an array would need depends on the mask; use "
                    "np.where(mask, y, x)",
                    location=user_location(),
                )
            values = reshape(values, ()) if have.ndim else values
            wide = reshape(mask, (*aval(mask).shape, *[1] * (aval(x).ndim - aval(mask).ndim)))
            return u.where(wide, to_dtype(combine(x, values), dtype), x)
        found = classify(x, self.index, self.checked)
        if isinstance(found, BasicIndex) and (found.static or name not in _ADDITIVE):
            return _written(x, found, self.get(), to_dtype(combine(self.get(), values), dtype))
        if name in _ADDITIVE:
            values = to_dtype(as_array(values), dtype)
            parts = expanded(self.index, aval(x).ndim) if isinstance(found, BasicIndex) else found
            return scattered(x, parts, values if name == "add" else u.negative(values), "add", self.checked)
        raise UnsupportedError(
            f"x.at[index].{name} is supported for integers, slices and masks; for index arrays use set, add or "
            "subtract",
            location=user_location(),
        )


def _written(x: ArrayLike, place: BasicIndex, old: ArrayLike, new: ArrayLike) -> Result:
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


def _ufunc_at(change: Callable[[IndexedAt, Any], Any]) -> Callable[[Any, Any, Any], None]:
    """`np.add.at(x, index, values)`: x changed in place, repeated indices counted."""

    def function(x: ArrayLike, index: IndexLike, values: ArrayLike) -> None:
        if not isinstance(x, Tracer):
            raise UnsupportedError(
                "an array that is not traced is changed in place by a traced value", location=user_location()
            )
        have = aval(as_array(values))
        kind = result_type((x.dtype, False), (have.dtype, have.weak))[0].kind
        if x.dtype.kind in "biu" and (kind in "fc" or (x.dtype.kind == "b" and kind != "b")):
            raise DtypeError(
                f"a ufunc's at() adds {have} to an array of {x.dtype} one by one and rounds each sum; convert the "
                "values, or the array",
                location=user_location(),
            )
        x.assign(change(IndexedAt(x, index, checked=True), values))

    return function


METHODS["at"] = At
UFUNCS[np.add, "at"] = _ufunc_at(IndexedAt.add)
UFUNCS[np.subtract, "at"] = _ufunc_at(IndexedAt.subtract)
