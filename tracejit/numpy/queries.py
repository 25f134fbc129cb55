"""What NumPy tells of dtypes and memory without looking at elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent
from tracejit.numpy.axes import as_shape, unsupported
from tracejit.numpy.promotion import broadcast_shapes as common_shape
from tracejit.support.dtypes import PYTHON_NUMBERS
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result, ShapeLike, has_aval
from tracejit.tracer.captured import CellTracer
from tracejit.tracer.cell import tell_apart
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = [
    "broadcast_shapes", "can_cast", "common_type", "isdtype", "isscalar", "issubdtype", "may_share_memory",
    "min_scalar_type", "promote_types", "result_type", "shares_memory",
]  # fmt: skip


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype in which arrays, dtypes and numbers meet; Python numbers bend to the others.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.result_type(np.ones(2, np.float32), 1.5, np.int16)
    dtype('float32')
    """

    def plain(x: ArrayLike) -> Result:
        if not isinstance(x, Tracer):
            return 0 if isinstance(x, Dim) else x.aval.dtype if has_aval(x) else x
        return PYTHON_NUMBERS[x.dtype.kind] if x.aval.weak and not x.shape else x.dtype

    return np.result_type(*map(plain, arrays_and_dtypes))


def common_type(*arrays: ArrayLike) -> Any:
    """The floating-point or complex type in which arrays meet; integers count as float64.

    Raises: DtypeError, a TypeError, for bools.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.common_type(np.ones(2, np.float32), np.arange(3)).__name__
    'float64'
    """
    dtypes = [x.aval.dtype if has_aval(x) else np.asarray(x).dtype for x in arrays]
    if any(dtype.kind not in "iufc" for dtype in dtypes):
        raise DtypeError("np.common_type: can't get common type for non-numeric array", location=user_location())
    return np.common_type(*[np.empty(0, dtype) for dtype in dtypes])


def broadcast_shapes(*args: ShapeLike) -> tuple[Extent, ...]:
    """The shape that arrays of these shapes are broadcast to.  Raises: ShapeError where they are not.

    >>> import tracejit as tj
    >>> tj.numpy.broadcast_shapes((2, 1), 3)
    (2, 3)
    """
    return common_shape(*map(as_shape, args))


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a rule of casting converts a dtype, or that of an array, to another.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.can_cast(np.int32, np.float32), tj.numpy.can_cast(np.int32, np.float32, "same_kind")
    (False, True)
    """
    return np.can_cast(_dtype_of(from_), to, casting)


def _dtype_of(x: Any) -> Any:
    """The dtype of an array; anything else as it is."""
    return x.aval.dtype if isinstance(x, Tracer) or has_aval(x) else x


def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """The least dtype that holds two.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.promote_types(np.int32, np.float32)
    dtype('float64')
    """
    return np.promote_types(type1, type2)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype belongs to a kind, `tj.numpy.floating`, or is another one.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.issubdtype(np.float32, tj.numpy.floating), tj.numpy.issubdtype(np.int8, tj.numpy.floating)
    (True, False)
    """
    return np.issubdtype(arg1, arg2)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another one, or of a kind by name ("real floating", "integral", ...), or one of several.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.isdtype(np.float32, "real floating"), tj.numpy.isdtype(np.float32, (np.int8, "integral"))
    (True, False)
    """
    return np.isdtype(np.dtype(dtype), kind)


def isscalar(element: Any) -> bool:
    """Whether something is a number, Python's or NumPy's, and no array.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.isscalar(3.5), tj.numpy.isscalar(np.array(3.5))
    (True, False)
    """
    return element.is_scalar if isinstance(element, Tracer) else isinstance(element, Dim) or np.isscalar(element)


def may_share_memory(a: ArrayLike, b: ArrayLike, max_work: Any = None) -> bool:
    """Whether two arrays are views of one: which elements they have in common is not looked at."""
    if not isinstance(a, Tracer) and not isinstance(b, Tracer):
        return np.may_share_memory(np.asarray(a), np.asarray(b))
    a, b = _base(a), _base(b)
    if isinstance(a, CellTracer) and isinstance(b, CellTracer):
        return np.may_share_memory(a.array, b.array)  # as long as that holds: see `Dependencies.renewed`
    return a is b or tell_apart(a, b)


def min_scalar_type(a: Any) -> np.dtype[Any]:
    """The least dtype that holds a number; of an array its own.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.min_scalar_type(200), tj.numpy.min_scalar_type(np.ones(2))
    (dtype('uint8'), dtype('float64'))
    """
    if not isinstance(a, Tracer):
        return np.min_scalar_type(np.asarray(a))
    if a.shape:
        return a.dtype
    number = a.known()
    if number is None:
        raise unsupported("np.min_scalar_type of a number that only the program knows is not supported; use x.dtype")
    return np.min_scalar_type(number)


def shares_memory(a: ArrayLike, b: ArrayLike, max_work: Any = None) -> bool:
    """Whether two arrays are views of one with elements in common.

    Raises: UnsupportedError for two views of one array in traced code.
    """
    if not isinstance(a, Tracer) and not isinstance(b, Tracer):
        return np.shares_memory(np.asarray(a), np.asarray(b))
    if may_share_memory(a, b):
        raise unsupported(
            "np.shares_memory of two views of one array is not supported in traced code; np.may_share_memory is"
        )
    return False


def _base(x: ArrayLike) -> Result:
    while isinstance(x, Tracer) and x.root is not None:
        x = x.root
    return x


FUNCTIONS.update({
    np.result_type: result_type, np.common_type: common_type, np.can_cast: can_cast, np.shares_memory: shares_memory,
    np.may_share_memory: may_share_memory, np.min_scalar_type: min_scalar_type,
})  # fmt: skip
