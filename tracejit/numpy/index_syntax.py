"""Arrays written as an index: `r_`, `c_`, `mgrid` and `ogrid`."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tracejit.api.array import own
from tracejit.ir.extents import Dim
from tracejit.numpy.axes import reject, static_array, unsupported
from tracejit.numpy.evenly_spaced import arange, linspace
from tracejit.numpy.joining import concatenate
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import array_of, reshape, swapaxes, transpose
from tracejit.support.dtypes import result_type, weak_kind
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import current_interpreter, eager
from tracejit.tracer.substitutes import substitute_for

__all__ = ["Grid", "Joined", "c_", "index_exp", "mgrid", "ogrid", "r_", "s_"]

s_, index_exp = np.s_, np.index_exp


@frozen(eq=False)
class Joined:
    """Arrays, numbers and ranges joined along an axis: `r_[1:4, 0, x]`, as numpy.r_.

    A range with a complex step, `0:1:5j`, has that many numbers, the last included.  Text that comes first names the
    axis, the least rank, and where the axes of arrays of a lower rank go: "0,2,-1".

    Raises: ValueError for other text; UnsupportedError for matrices ("r", "c").
    """

    axis: int = 0
    ndmin: int = 1
    trans1d: int = -1
    original: Any = None  # what is asked outside of a trace

    def __getitem__(self, key: Any) -> Result:
        if self.original is not None and current_interpreter() is eager:
            return self.original[key]
        return own(self._joined(key if isinstance(key, tuple) else (key,)), key)

    def __len__(self) -> int:
        return 0

    def _joined(self, key: tuple[Any, ...]) -> Result:
        axis, rank, place = self.axis, self.ndmin, self.trans1d
        if key and isinstance(key[0], str):
            axis, rank, place = _directive(key[0], axis, rank, place)
            key = key[1:]
        items: list[Any] = []
        for item in key:
            if isinstance(item, str):
                raise ValueError("special directives must be the first entry.")
            if isinstance(item, slice):
                made = _range(item)
                items.append(made if rank < 2 else _moved(_lifted(made, rank), place))
            elif isinstance(item, (np.generic, Dim)) or aval(as_array(item)).weak:
                items.append(as_array(item))
            else:
                items.append(_placed(array_of(item), rank, place))
        if not items:
            raise reject("need at least one array to concatenate")
        dtype, _ = result_type(*[(aval(x).dtype, aval(x).weak) for x in items])
        return concatenate([_lifted(array_of(to_dtype(x, dtype)), rank) for x in items], axis)


def _directive(text: str, axis: int, rank: int, place: int) -> tuple[int, int, int]:
    if text in ("r", "c"):
        raise unsupported(f"np.r_[{text!r}, ...] makes a matrix, which is not supported; use np.atleast_2d")
    parts = text.split(",")
    try:
        numbers = [int(x) for x in parts[:3]]
    except ValueError as error:
        shown = f" {text!r}" if len(parts) > 1 else ""
        raise ValueError(f"unknown special directive{shown}") from error
    return cast("tuple[int, int, int]", (*numbers, axis, rank, place)[:3] if len(numbers) == 3 else (
        (numbers[0], rank, place) if len(numbers) == 1 else (*numbers, place)
    ))  # fmt: skip


def _range(item: slice) -> Result:
    start, step = 0 if item.start is None else item.start, 1 if item.step is None else item.step
    if isinstance(step, (complex, np.complexfloating)):
        return linspace(start, item.stop, int(abs(step)))
    return arange(start, item.stop, step)


def _lifted(x: ArrayLike, rank: int) -> Result:
    """With leading axes of extent 1, up to a rank."""
    have = aval(x).shape
    return x if len(have) >= rank else reshape(x, (*(1,) * (rank - len(have)), *have))


def _moved(x: ArrayLike, place: int) -> Result:
    return x if place == -1 else swapaxes(x, -1, place)


def _placed(x: ArrayLike, rank: int, place: int) -> Result:
    """An array with the new axes that it needs, its own from `place` on."""
    missing = rank - aval(x).ndim
    y = _lifted(x, rank)
    if place == -1 or missing <= 0:
        return y
    first = place + missing + 1 if place < 0 else place
    axes = list(range(rank))
    return transpose(y, (*axes[:first], *axes[missing:], *axes[first:missing]))


@frozen(eq=False)
class Grid:
    """The coordinates of a grid, whose ranges are known while tracing: `mgrid[0:2, 0:1:5j]`, as numpy.mgrid.

    sparse: one thin array for each axis, as numpy.ogrid; otherwise all in one array, the axis first.
    """

    sparse: bool = False
    original: Any = None  # what is asked outside of a trace

    def __getitem__(self, key: Any) -> Any:
        made = (np.ogrid if self.sparse else np.mgrid)[_plain(key)]
        if current_interpreter() is eager:
            return made if self.original is not None else own(made)
        fresh = substitute_for(np.array)  # of the trace, so that they can be filled
        return tuple([fresh(x) for x in made]) if isinstance(made, tuple) else fresh(made)


def _plain(key: Any) -> Any:
    """A key whose numbers are Python's."""
    if isinstance(key, tuple):
        return tuple([_plain(part) for part in cast("tuple[Any, ...]", key)])
    if isinstance(key, slice):
        return slice(_plain(key.start), _plain(key.stop), _plain(key.step))
    if isinstance(key, Dim):
        return int(key)
    if key is None or isinstance(key, (complex, np.generic)) or weak_kind(key) is not None:
        return key
    return static_array(key, "the ranges of a grid")[()].item()


r_, c_ = Joined(), Joined(-1, 2, 0)
mgrid, ogrid = Grid(), Grid(True)
