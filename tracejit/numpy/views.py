"""Views that are no slices: another shape, another order of axes or elements, read-only spreads.

Such a view of a traced array reads through the array it was taken from and writes through it, where NumPy's would share memory.  Whether
NumPy's would is decided from the strides, which follow from how a view was made; a traced array that is no view is in C order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tracejit.ir.types import Extent, Shape, same_extent
from tracejit.numpy.promotion import aval
from tracejit.primitives import shape as p
from tracejit.support.errors import WriteError
from tracejit.support.nodes import node
from tracejit.support.source import user_location
from tracejit.tracer.tracer import Tracer

__all__ = ["Reading", "Rearranged", "Reshaped", "Reversed", "Transposed", "reshaped", "reversed_along", "transposed", "view"]


class Rearranged:
    """What a view does to its root.  `read` and `write` are inverse where there is a `write`."""

    def read(self, x: Any) -> Any:
        """The view's value."""
        raise NotImplementedError

    def write(self, x: Any, value: Any) -> Any:
        """x with the view's elements replaced by `value`, which has the view's shape and dtype."""
        raise NotImplementedError

    def strides(self, shape: Shape, strides: Sequence[Extent]) -> tuple[Extent, ...] | None:
        """The view's strides from its root's; None if unknown."""
        raise NotImplementedError


@node
class Reshaped(Rearranged):
    """The same elements in C order under another shape."""

    shape: Shape

    def read(self, x: Any) -> Any:
        return p.reshape(x, self.shape)

    def write(self, x: Any, value: Any) -> Any:
        return p.reshape(value, aval(x).shape)

    def strides(self, shape: Shape, strides: Sequence[Extent]) -> tuple[Extent, ...] | None:
        return _reshaped_strides(shape, strides, self.shape)


@node
class Transposed(Rearranged):
    """Axis k of the view is axis perm[k] of its root."""

    perm: tuple[int, ...]

    def read(self, x: Any) -> Any:
        return p.transpose(x, self.perm)

    def write(self, x: Any, value: Any) -> Any:
        return p.transpose(value, tuple(self.perm.index(d) for d in range(len(self.perm))))

    def strides(self, shape: Shape, strides: Sequence[Extent]) -> tuple[Extent, ...] | None:
        return tuple([strides[d] for d in self.perm])


@node
class Reversed(Rearranged):
    """Elements in the opposite order along axes."""

    axes: tuple[int, ...]

    def read(self, x: Any) -> Any:
        return p.reverse(x, self.axes)

    def write(self, x: Any, value: Any) -> Any:
        return p.reverse(value, self.axes)

    def strides(self, shape: Shape, strides: Sequence[Extent]) -> tuple[Extent, ...] | None:
        return tuple([-s if d in self.axes else s for d, s in enumerate(strides)])


class Reading(Rearranged):
    """A view that NumPy gives for reading only: a subclass has `read`."""

    name: str

    def write(self, x: Any, value: Any) -> Any:
        raise WriteError(f"the result of np.{self.name} is a view for reading; copy it first (x = x.copy())", location=user_location())

    def strides(self, shape: Shape, strides: Sequence[Extent]) -> tuple[Extent, ...] | None:
        return None


# -- strides ----------------------------------------------------------------------------------------------------------------------------
def _c_strides(shape: Shape) -> tuple[Extent, ...]:
    out: list[Extent] = []
    step: Extent = 1
    for n in reversed(shape):
        out.append(step)
        step = step * n
    return tuple(reversed(out))


def _strides(x: Tracer) -> tuple[Extent, ...] | None:
    """The strides NumPy's array would have, in elements; None if unknown."""
    chain: list[Tracer] = [x]
    while chain[-1].root is not None:
        chain.append(chain[-1].root)
    shape = chain[-1].shape
    strides: tuple[Extent, ...] | None = _c_strides(shape)
    for t in reversed(chain[:-1]):
        if strides is None:
            return None
        index = t.index
        strides = index.strides(shape, strides) if isinstance(index, Rearranged) else _sliced_strides(index, strides)
        shape = t.shape
    return strides


def _sliced_strides(index: Any, strides: Sequence[Extent]) -> tuple[Extent, ...]:
    """Strides of a basic slice: those of axes of extent 1 do not matter."""
    wide = [s * k for s, k, n in zip(strides, index.step, index.size, strict=True) if not _is_one(n)]
    rest = iter(wide)
    return tuple([0 if _is_one(n) else next(rest) for n in index.shape])


def _is_one(n: Extent) -> bool:
    return isinstance(n, int) and n == 1


def _reshaped_strides(shape: Shape, strides: Sequence[Extent], want: Shape) -> tuple[Extent, ...] | None:
    """Strides under another shape if no element has to move, else None.   Source: NumPy's rule for reshape without a copy."""
    if any(isinstance(n, int) and n == 0 for n in shape):
        return _c_strides(want)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if not _is_one(n)]
    if all(same_extent(a[1], b[0] * b[1]) for a, b in pairwise(old)):
        unit = old[-1][1] if old else 1
        return tuple([unit * s for s in _c_strides(want)])
    return _by_groups(old, want)


def _by_groups(old: Sequence[tuple[Extent, Extent]], want: Shape) -> tuple[Extent, ...] | None:
    """Runs of old and new axes with equal products; the old ones of a run must lie behind each other in memory."""
    new = [n for n in want if not _is_one(n)]
    found: list[Extent] = []
    i, j = 0, 0
    while i < len(old) and j < len(new):
        first, begin = i, j
        have, need = old[i][0], new[j]
        i, j = i + 1, j + 1
        while not same_extent(have, need) and have != need:
            if have < need:
                have, i = have * old[i][0], i + 1
            else:
                need, j = need * new[j], j + 1
        if any(not same_extent(a[1], b[0] * b[1]) and a[1] != b[0] * b[1] for a, b in pairwise(old[first:i])):
            return None
        found += [old[i - 1][1] * s for s in _c_strides(tuple(new[begin:j]))]
    rest = iter(found)
    return tuple([0 if _is_one(n) else next(rest) for n in want])


# -- making views -----------------------------------------------------------------------------------------------------------------------
def view(x: Any, how: Rearranged) -> Any:
    """The view of an array; of one that is not traced, its value."""
    value = how.read(x)
    if value is x or not isinstance(value, Tracer) or not isinstance(x, Tracer):
        return value
    return Tracer(value.interpreter, value.value, value.aval, root=x, index=how)


def reshaped(x: Any, shape: Shape) -> Any:
    """x under another shape of as many elements: a view where NumPy gives one, else a copy."""
    if isinstance(x, Tracer) and x.root is not None:
        strides = _strides(x)
        if strides is None or _reshaped_strides(x.shape, strides, shape) is None:
            value = p.reshape(x, shape)
            return value if value is not x else Tracer(x.interpreter, x.value, x.aval)
    return view(x, Reshaped(shape))


def transposed(x: Any, perm: Sequence[int]) -> Any:
    """x with its axes in another order, as a view."""
    return view(x, Transposed(tuple(perm)))


def reversed_along(x: Any, axes: Sequence[int]) -> Any:
    """x with the order of elements along axes reversed, as a view."""
    return view(x, Reversed(tuple(axes))) if axes else x
