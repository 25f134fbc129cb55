"""What NumPy tells of dtypes and memory without looking at elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.numpy.axes import unsupported
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.captured import CellTracer
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = ["result_type_of"]


def result_type_of(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """numpy.result_type for traced arrays, dtypes and numbers."""
    number: dict[str, Any] = {"b": False, "i": 0, "f": 0.0}

    def plain(x: ArrayLike) -> Result:
        if not isinstance(x, Tracer):
            return 0 if isinstance(x, Dim) else x
        return number[x.dtype.kind] if x.aval.weak and not x.shape else x.dtype

    return np.result_type(*map(plain, arrays_and_dtypes))


def _can_cast(from_: Any, to: np.dtype[Any] | type | str, casting: Any = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, Tracer) else from_, to, casting)


def _may_share(a: ArrayLike, b: ArrayLike, max_work: Any = None) -> bool:
    """Whether two arrays are views of one: which elements they have in common is not looked at."""
    a, b = _base(a), _base(b)
    if isinstance(a, CellTracer) and isinstance(b, CellTracer):
        return np.may_share_memory(a.array, b.array)  # as long as that holds: see `Dependencies.renewed`
    return a is b


def _share(a: ArrayLike, b: ArrayLike, max_work: Any = None) -> bool:
    if _may_share(a, b):
        raise unsupported(
            "np.shares_memory of two views of one array is not supported in traced code; np.may_share_memory is"
        )
    return False


def _base(x: ArrayLike) -> Result:
    while isinstance(x, Tracer) and x.root is not None:
        x = x.root
    return x


FUNCTIONS.update({
    np.result_type: result_type_of, np.can_cast: _can_cast, np.shares_memory: _share, np.may_share_memory: _may_share,
})  # fmt: skip
