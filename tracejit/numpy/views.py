"""Views: parts of an array, another shape, another order of axes or elements, read-only spreads.

A view of a traced array reads through the array it was taken from and writes through it, where NumPy's would share
memory.  Whether NumPy's would is decided from the strides, see `strides`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from tracejit.ir.extents import DimDependent, Shape
from tracejit.numpy.promotion import aval
from tracejit.numpy.strides import is_contiguous, like, reshaped_strides, sliced_strides, strides_of
from tracejit.primitives import shape as p
from tracejit.support.errors import UnsupportedError, WriteError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.layout import Open, Strides
from tracejit.tracer.tracer import Tracer

__all__ = [
    "BasicIndex", "Flat", "Reading", "Rearranged", "Reshaped", "Reversed", "Transposed", "contiguous", "of_a_number",
    "reshaped", "reversed_along", "transposed", "view",
]  # fmt: skip


@frozen(eq=False)
class BasicIndex:
    """One entry per axis of the array: where it starts (a number, extent or traced integer), how many elements,
    with which step.

    shape: of the view: the sizes with integer-indexed axes dropped and new axes of extent 1.
    """

    start: tuple[Any, ...]
    size: Shape
    step: tuple[int, ...]
    shape: Shape
    keeps_order = True

    def strides(self, shape: Shape, strides: Strides) -> Strides:
        """The view's strides from its root's."""
        return sliced_strides(self, strides)

    @property
    def static(self) -> bool:
        return not any(isinstance(s, Tracer) for s in self.start)

    def of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """The view of a NumPy array; None if where it begins is not known."""
        starts = [s.known() if isinstance(s, Tracer) else s for s in self.start]
        if any(s is None for s in starts):
            return None
        parts: list[slice] = []
        for s, size, step in zip(starts, self.size, self.step, strict=True):
            begin, end = int(s), int(s) + int(size) * step
            parts.append(slice(begin, end if end >= 0 else None, step) if size else slice(0, 0))
        return array[(..., *parts)].reshape(tuple(map(int, self.shape)))  # with ... never a NumPy scalar


class Rearranged:
    """What a view does to its root.  `read` and `write` are inverse where there is a `write`.

    keeps_order: whether axes walk through memory in the order in which the root's do.
    """

    keeps_order = False

    def read(self, x: ArrayLike) -> Result:
        """The view's value."""
        raise NotImplementedError

    def of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """The view of a NumPy array; None if there is no way to say."""
        return None

    def write(self, x: ArrayLike, value: ArrayLike) -> Result:
        """x with the view's elements replaced by `value`, which has the view's shape and dtype."""
        raise NotImplementedError

    def strides(self, shape: Shape, strides: Strides) -> Strides | None:
        """The view's strides from its root's; None if unknown."""
        raise NotImplementedError


@frozen(eq=False)
class Reshaped(Rearranged):
    """The same elements in C order under another shape."""

    shape: Shape
    keeps_order = True

    def read(self, x: ArrayLike) -> Result:
        return p.reshape(x, self.shape)

    def write(self, x: ArrayLike, value: ArrayLike) -> Result:
        return p.reshape(value, aval(x).shape)

    def of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        found = array.reshape(tuple(map(int, self.shape)))
        return found if np.may_share_memory(found, array) or not array.size else None

    def strides(self, shape: Shape, strides: Strides) -> Strides | None:
        return reshaped_strides(shape, strides, self.shape)


@frozen(eq=False)
class Flat(Reshaped):
    """What iterates over all elements in C order: what is written there is written to the array,
    what is read there is copied.
    """


@frozen(eq=False)
class Transposed(Rearranged):
    """Axis k of the view is axis perm[k] of its root."""

    perm: tuple[int, ...]

    def read(self, x: ArrayLike) -> Result:
        return p.transpose(x, self.perm)

    def write(self, x: ArrayLike, value: ArrayLike) -> Result:
        return p.transpose(value, tuple(self.perm.index(d) for d in range(len(self.perm))))

    def of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        return array.transpose(self.perm)

    def strides(self, shape: Shape, strides: Strides) -> Strides | None:
        return tuple([strides[d] for d in self.perm])


@frozen(eq=False)
class Reversed(Rearranged):
    """Elements in the opposite order along axes."""

    axes: tuple[int, ...]
    keeps_order = True

    def read(self, x: ArrayLike) -> Result:
        return p.reverse(x, self.axes)

    def write(self, x: ArrayLike, value: ArrayLike) -> Result:
        return p.reverse(value, self.axes)

    def of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        return np.flip(array, self.axes)

    def strides(self, shape: Shape, strides: Strides) -> Strides | None:
        return tuple([-s if d in self.axes else s for d, s in enumerate(strides)])


class Reading(Rearranged):
    """A view that NumPy gives for reading only: a subclass has `read`."""

    name: str

    def write(self, x: ArrayLike, value: ArrayLike) -> Result:
        raise WriteError(
            f"the result of np.{self.name} is a view for reading; copy it first (x = x.copy())",
            location=user_location(),
        )

    def strides(self, shape: Shape, strides: Strides) -> Strides | None:
        return None


# -- making views ------------------------------------------------------------------------------------------------------
def view(x: ArrayLike, how: Rearranged) -> Result:
    """The view of an array; of one that is not traced, its value; of a number, an array of its own."""
    value = how.read(x)
    if value is x or not isinstance(value, Tracer) or not isinstance(x, Tracer):
        return value
    if x.is_scalar:
        return of_a_number(value, x)
    return Tracer(value.interpreter, value.value, value.aval, root=x, index=how)


def of_a_number(value: Tracer, number: Tracer) -> Tracer:
    """The array that NumPy makes of a number where it gives a view of an array."""
    made = Tracer(value.interpreter, value.value, value.aval)
    made.is_array = not value.shape
    if number.is_array is None:  # or it is a view, where data say that this is an array
        made.may_be(number)
    return made


def reshaped(x: ArrayLike, shape: Shape) -> Result:
    """x under another shape of as many elements: a view where NumPy gives one, else a copy."""
    if not isinstance(x, Tracer):
        return p.reshape(x, shape)
    if x.root is None and x.layout is None:
        return view(x, Reshaped(shape))
    return _view_if(x, shape, lambda strides: reshaped_strides(x.shape, strides, shape) is not None, "reshape")


def contiguous(x: ArrayLike, shape: Shape, order: str, name: str) -> Result:
    """x under a shape, as a view if x itself is contiguous in an order (C, or "F", Fortran's),
    else as a copy in that order.
    """
    if not isinstance(x, Tracer):
        return p.reshape(x, shape)
    if x.root is None and x.layout is None and order == "C":
        return view(x, Reshaped(shape))
    made = _view_if(x, shape, lambda strides: is_contiguous(x.shape, strides, x.itemsize, order), name)
    if order == "F" and made.root is None:
        made.layout = like(x, shape, x.dtype, "F")
    return made


def _view_if(x: Tracer, shape: Shape, shares: Callable[[Strides], bool], name: str) -> Result:
    """x under a shape, as a view if its strides allow that; where they are not known, as what is one or the other."""
    strides = strides_of(x)
    try:
        if isinstance(strides, tuple):
            return view(x, Reshaped(shape)) if shares(strides) else current_interpreter().fresh(p.reshape(x, shape))
        error: BaseException | None = strides.error if isinstance(strides, Open) else None
    except DimDependent as dependent:
        error = dependent
    return undecided(
        x,
        p.reshape(x, shape),
        f"whether the result of {name} is a view or a copy depends on the memory order of an array that is not "
        "followed here, and a change in place makes the difference; copy it first (x.ravel().copy(), or np.array(x, "
        "order='C') before the call)",
        error,
    )


def undecided(x: Tracer, value: Tracer, why: str, error: BaseException | None = None) -> Tracer:
    """A part of x with its present value that is a view or a copy: neither it nor x may be changed as long as it is
    used.  why: the message then.  error: raised instead to start the trace again with more knowledge.
    """
    return Tracer(value.interpreter, value.value, value.aval, root=x, index=_Undecided(value.shape, why, error))


@frozen(eq=False)
class _Undecided(Reshaped):
    """A view or a copy: as long as neither it nor its root is changed it does not matter which.

    error: raised to start the trace again with more knowledge, None if there is none to be had.
    """

    why: str
    error: BaseException | None

    def read(self, x: ArrayLike) -> Result:
        self._decide()

    def write(self, x: ArrayLike, value: ArrayLike) -> Result:
        self._decide()

    def strides(self, shape: Shape, strides: Strides) -> Result:
        return None if self.error is None else Open(self.error)

    def _decide(self) -> NoReturn:
        if self.error is not None:
            raise self.error
        raise UnsupportedError(self.why, location=user_location())


def transposed(x: ArrayLike, perm: Sequence[int]) -> Result:
    """x with its axes in another order, as a view."""
    return view(x, Transposed(tuple(perm)))


def reversed_along(x: ArrayLike, axes: Sequence[int]) -> Result:
    """x with the order of elements along axes reversed, as a view."""
    return view(x, Reversed(tuple(axes)))
