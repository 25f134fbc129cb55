"""Arrays of iterators, memory, text and files, and files of arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracejit.numpy.axes import reject
from tracejit.numpy.conversions import array
from tracejit.numpy.joining import stack
from tracejit.numpy.promotion import as_array, aval, leaves_of, to_dtype
from tracejit.support.dtypes import short_name
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.tracer import Tracer

__all__ = ["frombuffer", "fromfile", "fromiter", "fromstring", "load", "save", "savez"]


def fromiter(iter: Iterable[Any], dtype: DTypeLike, count: int = -1, *, like: Any = None) -> Result:
    """The numbers that an iterator gives, all of them or the first `count`; in a traced function they may be traced.

    Raises: ShapeError, a ValueError, for an iterator that gives fewer than `count`; DtypeError for traced numbers of a
    dtype of parts or of Python's objects.

    >>> import tracejit as tj
    >>> tj.numpy.fromiter((k * k for k in range(4)), float)
    Array([0., 1., 4., 9.], dtype=float64)
    """
    items = list(iter if count < 0 else itertools.islice(iter, count))
    if not any(isinstance(leaf, Tracer) for leaf in leaves_of(items)):
        return array(np.fromiter(items, dtype, count))
    if len(items) < count:
        raise reject(f"iterator too short: Expected {count} but iterator had only {len(items)} items.")
    kind = np.dtype(dtype)
    if kind.kind not in "biufc":
        raise DtypeError(f"np.fromiter of traced numbers does not give {kind}", location=user_location())
    found: list[Any] = []
    for item in items:
        have = aval(as_array(item))
        if have.ndim:
            raise reject(f"np.fromiter: setting an array element with a sequence, {have}; np.stack takes arrays")
        if have.dtype.kind == "c" and kind.kind != "c":
            raise DtypeError(
                f"np.fromiter: {short_name(have.dtype)} as {short_name(kind)} would lose the imaginary part",
                location=user_location(),
            )
        found.append(to_dtype(as_array(item), kind))
    return stack(found)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0, *, like: Any = None) -> Result:
    """An array with the bits that are in some memory, a copy of them.

    Raises: as NumPy's; UnsupportedError for a traced array.

    >>> import tracejit as tj
    >>> tj.numpy.frombuffer(bytes([1, 2, 3]), "u1")
    Array([1, 2, 3], dtype=uint8)
    """
    from tracejit.numpy.redirected import memory_of  # for speed of import

    return array(memory_of(buffer, dtype, count, offset))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str, like: Any = None) -> Result:
    """The numbers in a text, between separators.   Raises: as NumPy's.

    >>> import tracejit as tj
    >>> tj.numpy.fromstring("1 2 3", sep=" ")
    Array([1., 2., 3.], dtype=float64)
    """
    return array(np.fromstring(string, dtype, count, sep=sep))


def fromfile(
    file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0, *, like: Any = None
) -> Result:
    """The numbers in a file: their bits, or as text between separators.   Raises: as NumPy's.

    >>> import numpy as np, tempfile, tracejit as tj
    >>> with tempfile.TemporaryFile() as file:
    ...     np.arange(3.0).tofile(file)
    ...     _ = file.seek(0)
    ...     tj.numpy.fromfile(file)
    Array([0., 1., 2.], dtype=float64)
    """
    return array(np.fromfile(file, dtype, count, sep, offset))


def load(file: Any, *args: Any, **options: Any) -> Any:
    """What `save` has stored; of what `savez` has stored a mapping of NumPy's, from names to arrays.

    Raises: as NumPy's.

    >>> import tempfile, tracejit as tj
    >>> with tempfile.TemporaryFile() as file:
    ...     tj.numpy.save(file, [1.0, 2.0])
    ...     _ = file.seek(0)
    ...     tj.numpy.load(file)
    Array([1., 2.], dtype=float64)
    """
    found = np.load(file, *args, **options)
    return array(found) if isinstance(found, np.ndarray) else found


def save(file: Any, arr: ArrayLike, *args: Any, **options: Any) -> None:
    """Store an array.   Raises: as NumPy's; UnsupportedError for a traced array, which the program does not know yet.

    >>> import tempfile, tracejit as tj
    >>> with tempfile.TemporaryFile() as file:
    ...     tj.numpy.save(file, tj.numpy.ones(3))
    """
    np.save(file, arr, *args, **options)  # pyright: ignore[reportArgumentType]


def savez(file: Any, *args: ArrayLike, **named: Any) -> None:
    """Store several arrays.   Raises: as NumPy's; UnsupportedError for a traced array.

    >>> import tempfile, tracejit as tj
    >>> with tempfile.TemporaryFile() as file:
    ...     tj.numpy.savez(file, tj.numpy.ones(3), more=tj.numpy.zeros(2))
    ...     _ = file.seek(0)
    ...     sorted(tj.numpy.load(file))
    ['arr_0', 'more']
    """
    np.savez(file, *args, **named)  # pyright: ignore[reportArgumentType]
