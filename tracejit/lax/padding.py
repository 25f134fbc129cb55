"""How windows are padded, by name: what convolutions and reductions over windows share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.lax.operands import reject
from tracejit.support.errors import OptionError, TracerError
from tracejit.support.source import user_location
from tracejit.tracer.tracer import extent_of

__all__ = ["integers", "pads", "padtype_to_pads"]


def integers(name: str, what: str, given: Any, count: int, *, least: int | None = None) -> tuple[Extent, ...]:
    """A sequence of `count` integers, or of ones for None.

    Raises: TracerError for other than integers, ShapeError for another number of them or ones below `least`.
    """
    if given is None:
        return (1,) * count
    found: list[Any]
    try:
        found = [extent_of(n) for n in given]
    except TypeError:
        found = [None]
    if any(isinstance(n, (bool, float, np.floating)) or not hasattr(n, "__floordiv__") for n in found):
        raise TracerError(f"[{name}] {what} is a sequence of integers, not {given!r}", location=user_location())
    out = tuple([int(n) if isinstance(n, np.integer) else n for n in found])
    if len(out) != count:
        raise reject(f"[{name}] {what} has {len(out)} entries for {count} axes")
    if least is not None and any(isinstance(n, int) and n < least for n in out):
        raise reject(f"[{name}] {what} is {out}; its entries are at least {least}")
    return out


def padtype_to_pads(
    in_shape: Sequence[Any], window_shape: Sequence[Any], window_strides: Sequence[Any], padding: Any
) -> list[tuple[Any, Any]]:
    """Widths (low, high) of the padding of each axis.

    padding: "VALID" (none), "SAME" (as many windows as `in_shape / window_strides`, rounded up; an odd element goes to
    the end), "SAME_LOWER" (it goes to the beginning), or the widths themselves.

    Raises: OptionError for another name.
    Source: XLA's padding types.

    >>> padtype_to_pads((5, 8), (2, 3), (1, 2), "SAME"), padtype_to_pads((5,), (2,), (1,), "SAME_LOWER")
    ([(0, 1), (0, 1)], [(1, 0)])
    """
    if not isinstance(padding, str):
        return [(low, high) for low, high in padding]
    kind = padding.upper()
    if kind not in ("VALID", "SAME", "SAME_LOWER"):
        raise OptionError(
            f"padding is 'VALID', 'SAME', 'SAME_LOWER' or pairs of widths, not {padding!r}", location=user_location()
        )
    if kind == "VALID":
        return [(0, 0) for _ in in_shape]
    out: list[tuple[Any, Any]] = []
    for n, k, s in zip(in_shape, window_shape, window_strides, strict=True):
        count = -(-n // s)
        total = _at_least_zero((count - 1) * s + k - n)
        small = total // 2
        out.append((small, total - small) if kind == "SAME" else (total - small, small))
    return out


def _at_least_zero(n: Extent) -> Extent:
    return n if n > 0 else 0


def pads(name: str, padding: Any, extents: Sequence[Extent], reach: Sequence[Extent], strides: Sequence[Extent]) -> Any:
    """The widths of `count` axes, checked.   reach: of a window, from its first element to its last"""
    if isinstance(padding, str):
        return tuple(padtype_to_pads(extents, reach, strides, padding))
    try:
        pairs = [tuple([extent_of(n) for n in pair]) for pair in padding]
    except TypeError:
        pairs = [()]
    if any(len(pair) != 2 for pair in pairs):
        raise TracerError(
            f"[{name}] padding is 'VALID', 'SAME', 'SAME_LOWER' or pairs of widths, not {padding!r}",
            location=user_location(),
        )
    if len(pairs) != len(extents):
        raise reject(f"[{name}] padding has {len(pairs)} pairs for {len(extents)} axes")
    return tuple([tuple([int(n) if isinstance(n, np.integer) else n for n in pair]) for pair in pairs])
