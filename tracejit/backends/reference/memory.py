"""Buffers of the interpreter: every access checked, stores of lanes to one place found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np

from tracejit.ir.kernel import Buffer
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen

Fail: TypeAlias = Callable[[str], NoReturn]
Array: TypeAlias = "np.ndarray[Any, Any]"
Lanewise: TypeAlias = "Array | np.generic"  # a value of each lane, or one of all
Indices: TypeAlias = "Array | np.int64"
Mask: TypeAlias = "Array | np.bool_"

__all__ = ["Array", "Indices", "Lanes", "Lanewise", "Mask", "Storage", "poison"]

_ATOMIC: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def poison(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Fresh memory, filled so that reading it before it is written shows:
    NaN, the least signed or greatest unsigned integer, True.
    """
    match dtype.kind:
        case "f":
            value: Any = np.nan
        case "i":
            value = np.iinfo(dtype).min
        case "u":
            value = np.iinfo(dtype).max
        case _:
            value = True
    return np.full(shape, value, dtype)


@frozen(eq=False)
class Lanes:
    """The loops that run in step, outermost first.

    A value is an array with one axis a loop, the innermost first, so that values of outer loops broadcast as they are.
    ordered: for each loop whether its iterations have an order (serial, unroll), in which case later stores win.
    """

    sizes: tuple[int, ...] = ()
    ordered: tuple[bool, ...] = ()
    cooperative: tuple[bool, ...] = ()

    @property
    def count(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes[::-1]

    def opened(self, size: int, kind: str) -> Lanes:
        ordered, cooperative = kind in ("serial", "unroll"), kind in ("block", "vector")
        return Lanes((*self.sizes, size), (*self.ordered, ordered), (*self.cooperative, cooperative))

    def coordinate(self, axis: int) -> Array:
        """The iteration number of loop `axis` in each lane."""
        size = self.sizes[axis]
        return np.arange(size).reshape((size,) + (1,) * axis)


class Storage:
    """Memory of one buffer: for allocated buffers one copy for each lane of the loops `owners`."""

    def __init__(self, buffer: Buffer, array: Array, owners: Sequence[int] = ()) -> None:
        self.buffer = buffer
        self.owners = tuple(owners)
        self.shape = array.shape[len(self.owners) :]
        # NumPy has no list of places in an array of rank 0: it is seen as one row.
        self.array = array if array.ndim else array[np.newaxis]
        self._winner: Array | None = None

    def _place(self, index: Sequence[Indices], lanes: Lanes) -> tuple[Indices | int, ...]:
        return (*(lanes.coordinate(a) for a in self.owners), *index) or (0,)

    def _checked(self, index: Sequence[Indices], mask: Mask | None, fail: Fail) -> list[Indices] | None:
        """Indices that are in bounds in every lane: those of lanes that are off are set to 0;
        None where the buffer has no element.
        """
        out: list[Indices] = []
        for axis, (i, extent) in enumerate(zip(index, self.shape, strict=True)):
            wrong = (i < 0) | (i >= extent)
            if np.any(wrong):
                active = wrong if mask is None else wrong & mask
                if np.any(active):
                    bad = np.broadcast_to(i, np.shape(active))[active] if np.ndim(active) else i
                    fail(
                        f"buffer {self.buffer.name} of shape {self.shape} is accessed at {np.ravel(bad)[0]} on axis "
                        f"{axis}"
                    )
                if extent == 0:
                    return None
                i = np.where(wrong, 0, i)
            out.append(i)
        return out

    def load(self, index: Sequence[Indices], lanes: Lanes, mask: Mask | None, fail: Fail) -> Lanewise:
        checked = self._checked(index, mask, fail)
        if checked is None:
            return self.array.dtype.type(0)
        return self.array[self._place(checked, lanes)]

    def _active(
        self, index: Sequence[Indices], value: Lanewise, lanes: Lanes, mask: Mask | None, fail: Fail
    ) -> tuple[tuple[Array, ...], Array, Array] | None:
        """(places, values, lane numbers) of the lanes that are on, in the order of the iterations."""
        checked = self._checked(index, mask, fail)
        if checked is None:
            return None
        shape = lanes.shape
        numbers = np.arange(lanes.count)
        place = [np.broadcast_to(i, shape).T.reshape(-1) for i in self._place(checked, lanes)]
        values = np.broadcast_to(value, shape).T.reshape(-1)
        if mask is not None:
            on = np.broadcast_to(mask, shape).T.reshape(-1)
            place, values, numbers = [p[on] for p in place], values[on], numbers[on]
        return tuple(place), values, numbers

    def store(self, index: Sequence[Indices], value: Lanewise, lanes: Lanes, mask: Mask | None, fail: Fail) -> None:
        found = self._active(index, value, lanes, mask, fail)
        if found is None:
            return
        place, values, numbers = found
        if len(numbers) > 1:
            self._refuse_races(place, numbers, lanes, fail)
        # NumPy assigns in order, so that of ordered iterations the last one wins.
        self.array[place] = values

    def _refuse_races(self, place: tuple[Array, ...], numbers: Array, lanes: Lanes, fail: Fail) -> None:
        linear = np.ravel_multi_index(place, self.array.shape)
        if self._winner is None:
            self._winner = np.empty(self.array.size, np.int64)
        winner = self._winner
        winner[linear] = numbers
        clash = winner[linear] != numbers
        if not clash.any():
            return
        mine = cast("tuple[Array, ...]", np.unravel_index(numbers[clash], lanes.sizes))
        other = cast("tuple[Array, ...]", np.unravel_index(winner[linear][clash], lanes.sizes))
        for axis, ordered in enumerate(lanes.ordered):
            if not ordered and np.any(mine[axis] != other[axis]):
                at = int(np.argmax(mine[axis] != other[axis]))
                element = [int(p[clash][at]) for p in place[len(self.owners) :]][: len(self.shape)]
                fail(
                    f"iterations {mine[axis][at]} and {other[axis][at]} of parallel loop number {axis} both store to "
                    f"{self.buffer.name}{element}"
                )

    def atomic(
        self, op: str, index: Sequence[Indices], value: Lanewise, lanes: Lanes, mask: Mask | None, fail: Fail
    ) -> None:
        function = _ATOMIC.get(op)
        if function is None:
            raise UnsupportedError(f"atomic {op} is not supported by the reference backend; {', '.join(_ATOMIC)} are")
        found = self._active(index, value, lanes, mask, fail)
        if found is not None:
            with np.errstate(all="ignore"):
                function.at(self.array, found[0], found[1])
