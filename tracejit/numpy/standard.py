"""What the Array API standard asks of a namespace beside functions of arrays.

Source: https://data-apis.org/array-api/2024.12.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.api.array import Array
from tracejit.api.devices import device_put, devices
from tracejit.support.errors import WriteError
from tracejit.support.source import user_location

__all__ = ["__array_namespace_info__", "finfo", "from_dlpack"]


class finfo:  # named as NumPy's
    """The limits of a float dtype, or of the parts of a complex one: what `np.finfo` has, as floats of Python's, which
    is what the standard asks for.

    Raises: ValueError for other dtypes.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.finfo(np.float32).eps, tj.numpy.finfo("c16").bits
    (1.1920928955078125e-07, 64)
    """

    __slots__ = ("_numpys",)

    def __init__(self, dtype: Any) -> None:
        self._numpys = np.finfo(dtype)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._numpys, name)
        return float(found) if isinstance(found, np.floating) and found.itemsize <= 8 else found

    def __dir__(self) -> list[str]:
        return dir(self._numpys)

    def __repr__(self) -> str:
        return repr(self._numpys)


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """An array of another package as a tj.Array: a copy, since nobody may change it later; a tj.Array as it is.

    x: with `__dlpack__`, in the host's memory.  device: "cpu", or one of `tj.devices()`.

    Raises: WriteError where `copy` forbids the copy that is needed.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.from_dlpack(np.arange(3.0))
    Array([0., 1., 2.], dtype=float64)
    """
    if type(x) is Array and not copy:
        found = x
    elif copy is False:
        raise WriteError(
            "from_dlpack(copy=False): a tj.Array never changes, and the memory of another package's array may",
            location=user_location(),
        )
    elif device is not None and device != "cpu":
        return device_put(np.from_dlpack(x), device)  # copied where it is going
    else:
        found = Array(np.from_dlpack(x))
    return found if device is None else device_put(found, device)


_NUMPYS: Any = np.__array_namespace_info__()


class _Info:
    """What this namespace can do, as the standard's inspection functions ask."""

    def capabilities(self) -> dict[str, Any]:
        """Whether shapes may depend on data, and how many axes an array may have."""
        return _NUMPYS.capabilities()

    def default_device(self) -> str:
        """Where arrays are made."""
        return "cpu"

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        """The dtypes of arrays of Python numbers, and of indices.  device: any of `devices()`."""
        self._check(device)
        return _NUMPYS.default_dtypes()

    def devices(self) -> tuple[str, ...]:
        """Where arrays can lie."""
        return tuple(devices())

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Any]:
        """The standard's dtypes by name.  kind: only these, "integral" and the like.  device: any of `devices()`."""
        self._check(device)
        return _NUMPYS.dtypes(kind=kind)

    def _check(self, device: str | None) -> None:
        if device is not None and device not in devices():
            raise ValueError(f"there is no device {device!r}; there are {', '.join(devices())}")


def __array_namespace_info__() -> _Info:
    """What this namespace can do.

    >>> import tracejit as tj
    >>> tj.numpy.__array_namespace_info__().default_device()
    'cpu'
    """
    return _Info()
