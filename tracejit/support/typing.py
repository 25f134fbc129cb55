"""Names for what functions of arrays take and give.  What NumPy accepts is wider than types can say,
so they say what is meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, SupportsIndex, TypeAlias, TypeGuard

import numpy as np

__all__ = ["ArrayLike", "AxisLike", "DTypeLike", "HasAval", "IndexLike", "Result", "ShapeLike", "has_aval"]


class HasAval(Protocol):
    """What stands for an array or is one of ours: a traced array, `tj.Array`, a value that is only described."""

    @property
    def aval(self) -> Any:
        """Its abstract value, an `ir.types.ShapedArray`."""
        ...


def has_aval(x: object) -> TypeGuard[HasAval]:
    """Whether x says itself what array it stands for, so that NumPy need not be asked."""
    return hasattr(x, "aval")


ArrayLike: TypeAlias = Any
"""What NumPy takes for an array: one, traced or NumPy's, a number, a list or tuple of such."""
Result: TypeAlias = Any
"""An array or number: traced if one went in, else NumPy's."""
AxisLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
"""An integer, negative ones from the end; where several axes make sense a tuple, or None for all."""
DTypeLike: TypeAlias = np.dtype[Any] | type | str | None
"""What np.dtype takes; None for what follows from the operands."""
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""An extent, or a tuple or list of extents; they may be symbolic."""
IndexLike: TypeAlias = Any
"""What stands in brackets: integers, slices, None, Ellipsis, arrays of integers or booleans, a tuple of these."""
