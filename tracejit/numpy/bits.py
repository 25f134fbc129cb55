"""The bits of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import prod
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import as_extent, axis_index, reject
from tracejit.numpy.elementwise import composed
from tracejit.numpy.joining import part
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.primitives import bits, shape as p
from tracejit.primitives.elementwise import convert
from tracejit.primitives.reduction import reduce_sum
from tracejit.support.dtypes import weak_kind
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, Result, has_aval
from tracejit.tracer.interpreter import bind
from tracejit.tracer.tables import FUNCTIONS

__all__ = ["bitwise_count", "packbits", "unpackbits"]


@composed("bitwise_count")
def bitwise_count(x: ArrayLike) -> Result:
    """How many bits of |x| are set, as uint8.

    x: integer or bool of any shape.   Raises: DtypeError for floating point.   Source: NumPy's bitwise_count.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.bitwise_count(x))(np.array([7, -8, 0]))
    array([3, 1, 0], dtype=uint8)
    """
    y = as_array(x)
    y = np.asarray(y)[()] if weak_kind(y) is not None and not has_aval(y) else y
    have = aval(y)
    if have.dtype.kind not in "biu":
        raise DtypeError(f"np.bitwise_count counts the bits of integers, not of {have}", location=user_location())
    if have.dtype.kind == "b":
        return to_dtype(y, np.uint8)
    return convert(bind(bits.PopulationCount(), u.absolute(to_dtype(y, have.dtype))), np.uint8)


def _orders(bitorder: str) -> np.ndarray[Any, Any]:
    """By how much the bits of a byte are shifted, from first to last."""
    if bitorder not in ("big", "little"):
        raise reject(f"the bits of a byte are in order 'big' or 'little', not {bitorder!r}")
    shifts = np.arange(8, dtype=np.uint8)
    return shifts[::-1].copy() if bitorder == "big" else shifts


def _flat_or_along(name: str, x: ArrayLike, axis: AxisLike) -> tuple[Result, int]:
    have = aval(x)
    if axis is None or (have.ndim == 0 and axis in (0, -1)):
        return p.reshape(x, (have.size,)), 0
    return x, axis_index(axis, have.ndim)


def packbits(a: ArrayLike, /, axis: AxisLike = None, bitorder: str = "big") -> Result:
    """Truth values as the bits of bytes, eight by eight along an axis (of the flattened array with None); zeros follow.

    a: integer or bool, of extent n along the axis -> uint8, of extent ceil(n / 8).
    bitorder: whether the first of eight is the highest bit ("big") or the lowest ("little").
    Raises: DtypeError for floating point, ShapeError for an axis that is not there.   Source: NumPy's packbits.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.packbits(x))(np.array([1, 0, 0, 0, 0, 0, 1, 1, 1]))
    array([131, 128], dtype=uint8)
    """
    x = array_of(a)
    if aval(x).dtype.kind not in "biu":
        raise DtypeError(f"np.packbits takes integers or bool, not {aval(x)}", location=user_location())
    shifts = _orders(bitorder)
    x, k = _flat_or_along("packbits", to_dtype(u.not_equal(x, 0), np.uint8), axis)
    have = aval(x).shape
    n = have[k]
    count = (n + 7) // 8
    zeros = [0] * len(have)
    after: list[Any] = list(zeros)
    after[k] = count * 8 - n
    if not isinstance(after[k], int) or after[k]:
        x = p.pad(x, np.uint8(0), zeros, after)
    wide = (*have[:k], count, 8, *have[k + 1 :])
    shifted = u.left_shift(p.reshape(x, wide), p.broadcast_in_dim(shifts, wide, (k + 1,)))
    return reduce_sum(shifted, (k + 1,))


def unpackbits(a: ArrayLike, /, axis: AxisLike = None, count: Any = None, bitorder: str = "big") -> Result:
    """The bits of bytes as zeros and ones along an axis (of the flattened array with None).

    a: uint8, of extent n along the axis -> uint8, of extent 8 n.
    count: how many bits there are instead, zeros at the end if it is more; a negative one leaves out so many.
    bitorder: whether the highest bit of a byte comes first ("big") or the lowest ("little").
    Raises: DtypeError for other dtypes, ShapeError for an axis that is not there or a count that leaves out more than
    there is.   Source: NumPy's unpackbits.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.unpackbits(x))(np.array([131], np.uint8))
    array([1, 0, 0, 0, 0, 0, 1, 1], dtype=uint8)
    """
    x = array_of(a)
    if aval(x).dtype != np.uint8:
        raise DtypeError(f"np.unpackbits takes uint8, not {aval(x)}", location=user_location())
    shifts = _orders(bitorder)
    x, k = _flat_or_along("unpackbits", x, axis)
    have = aval(x).shape
    wide = (*have[: k + 1], 8, *have[k + 1 :])
    kept = tuple(d for d in range(len(wide)) if d != k + 1)
    over = p.broadcast_in_dim(x, wide, kept)
    masks = p.broadcast_in_dim(np.uint8(1) << shifts, wide, (k + 1,))
    one = to_dtype(u.not_equal(u.bitwise_and(over, masks), 0), np.uint8)
    total = prod((have[k], 8))
    out = p.reshape(one, (*have[:k], total, *have[k + 1 :]))
    if count is None:
        return out
    want = as_extent(count)
    if isinstance(want, int) and want < 0:
        want = total + want
        if isinstance(want, int) and want < 0:
            raise reject(f"np.unpackbits: count={count} leaves out more bits than there are")
    if want <= total:
        return part(out, k, 0, want)
    zeros = [0] * len(have)
    after: list[Any] = list(zeros)
    after[k] = want - total
    return p.pad(out, np.uint8(0), zeros, after)


for _name in ("packbits", "unpackbits"):
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
