"""Devices, and arrays that are moved between them and the host."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api.array import Array, adopt, as_numpy, data_of, host_of
from tracejit.api.jit import jit
from tracejit.api.placing import compiling
from tracejit.backends.base import Resident
from tracejit.backends.copies import copied
from tracejit.backends.registry import backend_reason, get_backend, list_backends
from tracejit.ir.primitive import Primitive
from tracejit.support.dtypes import canonical
from tracejit.support.errors import UserError
from tracejit.support.source import user_location
from tracejit.support.tree import map_tree
from tracejit.tracer.interpreter import bind

__all__ = ["computed_there", "device_get", "device_put", "devices", "part_there"]


def devices(backend: str | None = None) -> list[str]:
    """The devices that arrays can lie on: "cpu", which is the host's memory, and those of backends that work here,
    "opencl:0".

    backend: only those of one.  Raises: UnknownBackend, BackendUnavailable for this one.

    >>> import tracejit as tj
    >>> tj.devices("cpu")
    ['cpu']
    """
    if backend is not None:
        return [*get_backend(backend).places()] or ["cpu"]
    found = [place for name in list_backends() if not backend_reason(name) for place in get_backend(name).places()]
    return ["cpu", *found]


def device_put(x: Any, device: str) -> Any:
    """The arrays of a tree on a device, as tj.Arrays: "cpu", the name of a backend, or one of `devices()`.

    Functions that `tj.jit` compiles without `backend=` run where their arguments lie, and leave their results there.
    Arrays of other packages on a CUDA device (`__cuda_array_interface__`) are copied there.

    Raises: UserError for a device that there is not, BackendUnavailable, OutOfMemory.

    >>> import numpy as np, tracejit as tj
    >>> tj.device_put(np.arange(3.0), "cpu")
    Array([0., 1., 2.], dtype=float64)
    """
    if device == "cpu":
        return map_tree(lambda leaf: leaf if _lies_on(leaf, "cpu") else Array(leaf), x)  # a copy of what the host sees
    name, _, number = device.partition(":")
    backend = get_backend(name)
    places = backend.places()
    place = device if number else backend.place
    if place not in places:
        known = ", ".join(["cpu", *places])
        raise UserError(f"device_put: there is no device {device!r}; there are {known}", location=user_location())

    def put(leaf: Any) -> Array:
        if _lies_on(leaf, place):
            return leaf
        interface = None if type(leaf) is Array else getattr(leaf, "__cuda_array_interface__", None)
        if interface is not None:
            return adopt(backend.put_from_cuda(interface, place))
        return adopt(copied(_data(leaf), backend, place))

    return map_tree(put, x)


def device_get(x: Any) -> Any:
    """The arrays of a tree as NumPy's, copied from where they lie; numbers of NumPy's for rank 0.

    >>> import tracejit as tj
    >>> tj.device_get([tj.Array([1.0, 2.0])])
    [array([1., 2.])]
    """
    return map_tree(lambda leaf: np.array(copied(data_of(leaf), None, "cpu"))[()] if type(leaf) is Array else leaf, x)


def computed_there(primitive: Primitive, args: Sequence[Any]) -> tuple[Any, ...]:
    """The results of one operation on arrays of which some lie on a device: computed there, where they stay."""
    places = [data.place for x in args if type(x) is Array and isinstance(data := data_of(x), Resident)]
    with compiling():
        return _operation(primitive, places[0])(*args)


def part_there(x: Array, index: Any) -> Array:
    """x[index] of an array on a device: there, but for masks, which say only on the host how much they take.

    Raises: IndexError, for integers in arrays when somebody looks at the result.
    """
    parts = index if type(index) is tuple else (index,)
    parts = tuple([operator.index(i) if _is_integer(i) else i for i in parts])
    if all(type(i) is int or _is_part(i) for i in parts):
        return adopt(data_of(x).part(parts))
    arrays = [i if type(i) is Array else np.asarray(i) for i in parts if not _is_part(i)]
    if not all(a.dtype.kind in "iu" for a in arrays):
        return adopt(host_of(x)[as_numpy(index)])
    kinds = [(i.start, i.stop, i.step) if isinstance(i, slice) else i if _is_part(i) else () for i in parts]
    with compiling():
        return _gather(tuple(kinds), data_of(x).place)(x, *arrays)


def _is_part(i: Any) -> bool:
    """Whether a part of an index is neither a number nor an array."""
    return i is None or i is ... or isinstance(i, slice)


def _is_integer(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


@functools.lru_cache(maxsize=256)
def _gather(kinds: tuple[Any, ...], backend: str) -> Callable[..., Array]:
    """x[index] with the arrays of an index as arguments.

    kinds: None and ellipses of the index, slices as tuples, and empty tuples where arrays are.
    """

    def gather(x: Any, *arrays: Any) -> Any:
        left = iter(arrays)
        index = [next(left) if kind == () else slice(*kind) if isinstance(kind, tuple) else kind for kind in kinds]
        return x[tuple(index)]

    return jit(gather, backend=backend, redirect=False)


@functools.lru_cache(maxsize=1024)
def _operation(primitive: Primitive, backend: str) -> Callable[..., tuple[Any, ...]]:
    def operation(*args: Any) -> tuple[Any, ...]:
        found = bind(primitive, *args)
        return found if isinstance(found, tuple) else (found,)

    return jit(operation, backend=backend, redirect=False)


def _data(x: Any) -> Any:
    """What holds the elements of an array, or of what `np.array` takes, with a dtype of kernels."""
    if type(x) is Array:
        return data_of(x)
    if isinstance(x, np.ndarray) and x.dtype.isnative and canonical(x.dtype) == x.dtype and type(x) is np.ndarray:
        return x  # the copy is made where it is going
    return data_of(Array(x))


def _lies_on(x: Any, place: str) -> bool:
    if type(x) is not Array:
        return False
    data = data_of(x)
    return (data.place if isinstance(data, Resident) else "cpu") == place
