"""Parts of arrays on a device: what an index of numbers and slices takes, copied there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.ir.kernel import Buffer, For, Kernel, Load, Statement, Store, Value, index_const

if TYPE_CHECKING:
    from tracejit.backends.device.device import Device
    from tracejit.backends.device.launch import Launchable
    from tracejit.backends.device.memory import DeviceBuffer

__all__ = ["copied_part"]


def copied_part(buffer: DeviceBuffer, dtype: np.dtype[Any], shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """(memory, shape) of the elements that a basic index takes of a row-major array, row-major again.

    Raises: IndexError as NumPy does; OutOfMemory, LaunchError.
    """
    device = buffer.device
    view, offset = _seen(dtype, shape, index)
    made = device.alloc(view.size * dtype.itemsize, f"u{8 * min(dtype.itemsize, 8)}")
    if view.size:
        words = dtype.itemsize // 16 + 1  # no integer is as long as a complex number
        extents, strides = (*view.shape, words), (*view.strides, dtype.itemsize // words)
        launchable = _launchable(device, dtype.itemsize // words, len(extents))
        launchable.launch([buffer.view(offset, strides), made], {f"n{k}": n for k, n in enumerate(extents)})
    return made, view.shape


def _seen(dtype: np.dtype[Any], shape: Sequence[int], index: tuple[Any, ...]) -> tuple[np.ndarray[Any, Any], int]:
    """What NumPy makes of the index, over memory that nobody looks at, and the byte where it begins."""
    strides = [dtype.itemsize] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * max(shape[axis], 1)
    whole = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
    view = whole[index if any(i is ... for i in index) else (*index, ...)]  # a view, even of one element
    return view, view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]


def _launchable(device: Device, itemsize: int, rank: int) -> Launchable:
    """The kernel for words of so many bytes, of any extents."""
    key = itemsize, rank
    found = device.slices.get(key)
    if found is None:
        found = device.slices[key] = device.compile_kernel(_kernel(f"u{8 * itemsize}", rank))
    return found


def _kernel(dtype: str, rank: int) -> Kernel:
    dims = tuple(f"n{k}" for k in range(rank))
    extents = tuple(map(Dim.symbol, dims))
    source, target = Buffer("x", dtype, extents, "strided"), Buffer("out", dtype, extents)
    index, value = tuple(Value("i64") for _ in dims), Value(dtype)
    body: tuple[Statement, ...] = (Load(value, source, index), Store(target, index, value))
    for i, n in reversed([*zip(index, extents, strict=True)]):
        body = (For(i, index_const(0), index_const(n), body),)
    return Kernel("part", (source, target), frozenset({"out"}), body, dims)
