"""`tj.Array`: an array that never changes, over NumPy memory.

It has NumPy's operators, methods and protocols and the Array API standard's; what each of them does stands in the
tables that traced arrays use too, so eager and traced code agree.  Under a trace it is a captured array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from tracejit.backends.base import Resident
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError, UnsupportedError, WriteError, pass_over
from tracejit.support.source import user_location
from tracejit.support.tree import flatten, map_tree
from tracejit.tracer.interpreter import EagerArray, current_interpreter, eager, use_interpreter
from tracejit.tracer.operators import ARITHMETIC, OPERATORS
from tracejit.tracer.python_operators import BINARY, COMPARISONS, UNARY
from tracejit.tracer.tables import FUNCTIONS, METHODS, PROPERTIES, UFUNCS
from tracejit.tracer.tracer import Tracer

__all__ = ["Array", "as_numpy", "data_of", "own"]


class Array(EagerArray):
    """An immutable array.

    `tj.Array(x)` copies anything that `np.array` takes; functions of `tracejit.numpy` and jitted functions of tj.Arrays
    return it. `np.asarray(a)` is a read-only view of its memory, `a.at[i].set(v)` a changed copy.

    shape, dtype, ndim, size, itemsize, nbytes: as of a NumPy array.

    Raises: DtypeError for dtypes without kernels.

    >>> import numpy as np, tracejit as tj
    >>> a = tj.Array([1.0, 2.0, 3.0])
    >>> b = a.at[0].set(9.0)
    >>> np.asarray(a), np.asarray(b)
    (array([1., 2., 3.]), array([9., 2., 3.]))
    """

    __slots__ = ("__weakref__", "_data")
    __array_priority__ = 900.0
    __hash__ = None  # type: ignore[assignment]

    # an array of any layout, native and aligned, or for rank 0 a NumPy scalar; nobody else writes into its memory
    _data: Any

    def __new__(cls, value: Any, dtype: Any = None) -> Array:
        made = np.array(as_numpy(value), dtype, order="C")
        return adopt(made.astype(canonical(made.dtype.newbyteorder("=")), copy=False))

    @staticmethod
    def __evaluate__(primitive: Primitive, args: Sequence[Any]) -> tuple[Any, ...]:
        if any(type(a) is Array and isinstance(a._data, Resident) for a in args):
            from tracejit.api.devices import computed_there  # for speed of import

            return computed_there(primitive, args)
        plain = [a._host if type(a) is Array else a for a in args]
        foreign = [a for a in args if isinstance(a, np.ndarray)]
        return tuple(_owned(np.asarray(r), foreign) for r in eager.process(primitive, plain))

    # -- what an array has ---------------------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._data.dtype

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        return self._data.size

    @property
    def itemsize(self) -> int:
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    @property
    def aval(self) -> ShapedArray:
        """The abstract value: shape and dtype."""
        return ShapedArray(self._data.shape, self._data.dtype)

    @property
    def _host(self) -> Any:
        """Its elements on the host, where NumPy computes with them."""
        data = self._data
        return data.host() if isinstance(data, Resident) else data

    @property
    def device(self) -> str:
        """Where the memory is: "cpu", or a device of a backend, "opencl:0"."""
        data = self._data
        return data.place if isinstance(data, Resident) else "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Array:
        """The array on another device.  Raises: UnsupportedError for one that there is not, and for a stream."""
        if stream is not None:
            raise UnsupportedError(
                "streams are not supported; work on a device is done in order", location=user_location()
            )
        from tracejit.api.devices import device_put  # for speed of import

        return device_put(self, device)

    def block_until_ready(self) -> Array:
        """The array itself, once its values are there."""
        data = self._data
        if isinstance(data, Resident):
            data.wait()
        return self

    # -- its values ----------------------------------------------------------------------------------------------------
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is True:
            return np.array(self._host, dtype)
        found = np.asarray(self._host).view() if dtype is None else np.asarray(self._host).astype(dtype, copy=False)
        if copy is False and not np.may_share_memory(found, self._host) and self._host.ndim:
            raise ValueError(f"an array of {self.dtype} as {np.dtype(dtype)} needs a copy")
        if found.base is not None or found is self._host:
            found = found.view()
            found.flags.writeable = False
        return found

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return sys.modules["tracejit.numpy"]

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        # Consumers that know no read-only memory (max_version below 1.0) promise not to write; nobody can check it.
        x = np.asarray(self) if max_version is not None and max_version >= (1, 0) else np.asarray(self._host)
        return x.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return np.asarray(self._host).__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where an array lies on a CUDA device, for other packages, which must not write there.

        Raises: AttributeError for one that lies elsewhere.
        """
        data = self._data
        address = data.cuda_address() if isinstance(data, Resident) else None
        if address is None:
            raise AttributeError(f"an array on {self.device!r} has no __cuda_array_interface__")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (address if self.size else 0, False),  # there are packages that take no array for reading only
            "version": 3,
            "strides": None,
            "stream": None,  # all is computed
        }

    def __bool__(self) -> bool:
        return bool(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __complex__(self) -> complex:
        return complex(self._host)

    def __index__(self) -> int:
        return self._host.__index__()

    def item(self, *index: Any) -> Any:
        """One element as a Python number."""
        return self._host.item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._host.tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The elements' bytes."""
        return self._host.tobytes(order)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (adopt(row) for row in self._host)

    def __contains__(self, value: Any) -> bool:
        return as_numpy(value) in np.asarray(self._host)

    def __repr__(self) -> str:
        if not self.shape:
            return f"Array({self._host.item()!r}, dtype={self.dtype})"
        return f"Array({np.array2string(self._host, separator=', ', prefix='Array(')}, dtype={self.dtype})"

    def __str__(self) -> str:
        return str(self._host)

    def __format__(self, spec: str) -> str:
        return format(self._host, spec)

    def __reduce__(self) -> Any:
        return _unpickled, (np.asarray(self._host),)

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: Any) -> Array:
        return self

    # -- indexing ------------------------------------------------------------------------------------------------------
    def __getitem__(self, index: Any) -> Any:
        if _has_tracer(index):
            return OPERATORS.getitem(self, index)
        if isinstance(self._data, Resident):
            from tracejit.api.devices import part_there  # for speed of import

            return part_there(self, index)
        return adopt(self._host[as_numpy(index)])

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise WriteError(
            "a tj.Array never changes; x = x.at[index].set(value) is a changed copy, np.array(x) one that can be "
            "written",
            location=user_location(),
        )

    def __getattr__(self, name: str) -> Any:
        function = METHODS.get(name)
        if function is None:
            raise AttributeError(f"a tj.Array has no attribute {name!r}")
        if name in PROPERTIES:
            return own(function(self))
        return lambda *args, **kwargs: own(function(self, *args, **kwargs), args, kwargs)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *METHODS})

    # -- NumPy's protocols ---------------------------------------------------------------------------------------------
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        _refuse_out(kwargs.get("out"))
        function = UFUNCS.get(ufunc) if method == "__call__" else UFUNCS.get((ufunc, method))
        if function is not None and "out" not in kwargs and kwargs.get("where", True) is True:
            return own(function(*inputs, **kwargs), inputs, kwargs)
        return own(getattr(ufunc, method)(*as_numpy(inputs), **as_numpy(kwargs)), inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        _refuse_out(kwargs.get("out"))
        function = FUNCTIONS.get(func)
        if function is not None and kwargs.get("out") is None:
            return own(function(*args, **kwargs), args, kwargs)
        return own(func(*as_numpy(args), **as_numpy(kwargs)), args, kwargs)


def _unpickled(data: Any) -> Array:
    with use_interpreter(eager):  # a new process has to load the tables first
        return Array(data)


def adopt(data: Any) -> Array:
    """An Array over memory that nobody writes any more, or over what lies on a device."""
    made = object.__new__(Array)
    object.__setattr__(made, "_data", data if data.ndim or isinstance(data, Resident) else data[()])
    return made


def data_of(x: Array) -> Any:
    """The NumPy array within, a NumPy scalar if it has rank 0: the memory itself, which must not be written; or what
    lies on a device.
    """
    return x._data  # pyright: ignore[reportPrivateUsage]


def host_of(x: Array) -> Any:
    """The same on the host: copied from the device where it lies there."""
    return x._host  # pyright: ignore[reportPrivateUsage]


def as_numpy(x: Any) -> Any:
    """x with NumPy arrays in place of tj.Arrays, in tuples, lists and dicts too."""
    kind = type(x)
    if kind is Array:
        return x.__array__() if x.shape else host_of(x)
    if kind is tuple or kind is list:
        return kind([as_numpy(item) for item in x])
    return {k: as_numpy(v) for k, v in x.items()} if kind is dict else x


def own(result: Any, *inputs: Any) -> Any:
    """A result of eager code on `inputs` with tj.Arrays in place of NumPy's; under a trace it stays as it is."""
    if current_interpreter() is not eager or type(result) in (Array, bool, int, float, complex):
        return result
    if isinstance(result, (np.ndarray, np.generic)):
        return _owned(result, [x for x in flatten(inputs)[0] if isinstance(x, np.ndarray)])
    return (
        map_tree(lambda x: own(x, *inputs), result)
        if type(result) in (tuple, list, dict) or hasattr(result, "_fields")
        else result
    )


def _owned(x: Any, foreign: Sequence[np.ndarray[Any, Any]]) -> Any:
    """x as an Array, copied if it shares memory with one of `foreign`;
    untouched if there are no kernels for its dtype.
    """
    try:
        canonical(x.dtype)
    except DtypeError as error:
        pass_over(error)
        return x
    shared = isinstance(x, np.ndarray) and any(np.may_share_memory(x, a) for a in foreign)
    return adopt(np.array(x) if shared or not x.flags.aligned else x)


def _has_tracer(index: Any) -> bool:
    if type(index) in (tuple, list):
        return any(_has_tracer(part) for part in index)
    if type(index) is slice:
        return any(isinstance(part, Tracer) for part in (index.start, index.stop, index.step))
    return isinstance(index, Tracer)


def _refuse_out(out: Any) -> None:
    if any(type(x) is Array for x in (out if isinstance(out, tuple) else (out,))):
        raise WriteError("out= is a tj.Array, which never changes; use the result instead", location=user_location())


def _binary(name: str, *, reflected: bool = False) -> Callable[[Array, Any], Any]:
    def method(self: Array, other: Any) -> Any:
        return own(ARITHMETIC[name](other, self) if reflected else ARITHMETIC[name](self, other), other)

    return method


def _unary(name: str) -> Callable[[Array], Any]:
    return lambda self: own(ARITHMETIC[name](self))


for _name in (*BINARY, "divmod"):
    setattr(Array, f"__{_name}__", _binary(_name))
    setattr(Array, f"__r{_name}__", _binary(_name, reflected=True))
for _name in COMPARISONS:
    setattr(Array, f"__{_name}__", _binary(_name))
for _name in UNARY:
    setattr(Array, f"__{_name}__", _unary(_name))
