"""Dispatch without compiled entries: the guards of an `EntrySpec` evaluated in Python,
its program called through ctypes.

Serves where native dispatch is not supported and under TRACEJIT_DISPATCH=python. It answers every call as
`dispatch.NativeDispatcher` does, so it also says in Python what a guard means; the tests run both ways.
"""

from __future__ import annotations

import ctypes
import operator
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tracejit.backends import entry as e
from tracejit.backends.cpu.calls.dispatch_chain import CAPACITY
from tracejit.backends.cpu.calls.entry_constants import FLAG_WARN_ON_WRITE, FLAG_WRITEABLE
from tracejit.ir.ranges import ARGUMENTS
from tracejit.support.errors import InternalError
from tracejit.support.nodes import define, field, frozen

__all__ = ["PythonDispatcher", "evaluate_extent", "static_equal", "unexpected_status"]

_INT64 = range(-(2**63), 2**63)
_ARGUMENTS = range(ARGUMENTS[0], ARGUMENTS[1] + 1)
_RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def unexpected_status(status: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The status handler of programs that should only return 0.   Raises: InternalError"""
    raise InternalError(f"A compiled program returned the status {status}, which its caller gives no meaning.")


def _is(item: Any, kind: type) -> bool:
    return type(item) is kind


class _NoMatch(Exception):
    """The arguments do not fit the signature."""


@frozen(eq=False)
class _Entry:
    spec: e.EntrySpec
    leaves: tuple[e.Leaf, ...]
    program: Callable[[Any], int]  # keeps the GIL
    program_released: Callable[[Any], int]
    slots: type[ctypes.Array[ctypes.c_int64]]
    keep_alive: object
    on_status: Callable[..., Any]


class PythonDispatcher:
    """`NativeDispatcher` in Python: entries tried in turn, most recently used first;
    a call that none matches goes to `miss(*args, **kwargs)`.

    callable: the function to call.
    """

    __slots__ = ("_entries", "_lock", "callable")
    native = False

    def __init__(self, miss: Callable[..., Any], name: str = "compiled") -> None:
        entries: list[_Entry] = []
        lock = threading.Lock()

        def call(*args: Any, **kwargs: Any) -> Any:
            for entry in tuple(entries):
                match = _match(entry, args, kwargs)
                if match is not None:
                    _move_to_front(entries, entry, lock)
                    return _run(entry, match, args, kwargs)
            return miss(*args, **kwargs)

        call.__name__ = name
        self._entries = entries
        self._lock = lock
        self.callable: Callable[..., Any] = call

    def __len__(self) -> int:
        return len(self._entries)

    def add(
        self, spec: e.EntrySpec, address: int, keep_alive: object, on_status: Callable[..., Any] = unexpected_status
    ) -> None:
        """Try `spec` from now on, before the entries there are. Beyond `CAPACITY` (64) the least recently used entry
        goes.

        address: of `spec.program` itself. The rest as for `NativeDispatcher.add`.
        """
        held, released = (
            ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p),
            ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p),
        )
        slots = ctypes.c_int64 * max(len(spec.slots), 1)
        entry = _Entry(spec, e.leaves(spec.signature), held(address), released(address), slots, keep_alive, on_status)
        with self._lock:
            self._entries.insert(0, entry)
            gone = self._entries[CAPACITY:]
            del self._entries[CAPACITY:]
        gone.clear()  # outside the lock: what they keep alive may call back

    def remove(self, spec: e.EntrySpec) -> None:
        """Forget the entries of this very spec. Calls in progress finish."""
        with self._lock:
            gone = [entry for entry in self._entries if entry.spec is spec]
            for entry in gone:
                self._entries.remove(entry)
        gone.clear()  # outside the lock

    def clear(self) -> None:
        """Forget all entries. Calls in progress finish."""
        with self._lock:
            gone = list(self._entries)
            self._entries.clear()
        gone.clear()


def _move_to_front(entries: list[_Entry], entry: _Entry, lock: threading.Lock) -> None:
    with lock:
        if entries and entries[0] is not entry and entry in entries:
            entries.remove(entry)
            entries.insert(0, entry)


@define(eq=False)
class _Match:
    """A call that fits: the objects at the leaves, and the extents bound to names."""

    objects: list[Any] = field(factory=list[Any])
    dims: dict[str, int] = field(factory=dict[str, int])
    slot_extents: list[int] = field(factory=list[int])
    shapes: list[tuple[int, ...]] = field(factory=list[tuple[int, ...]])
    released: bool = False


def _match(entry: _Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Match | None:
    try:
        return _matched(entry, args, kwargs)
    except _NoMatch:
        return None


def _need(condition: bool) -> None:
    if not condition:
        raise _NoMatch


def _matched(entry: _Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Match:
    spec = entry.spec
    signature = spec.signature
    _need(len(args) == len(signature.args) and kwargs.keys() == {name for name, _ in signature.kwargs})
    _need(not signature.ordered or list(kwargs) == [name for name, _ in signature.kwargs])
    match = _Match()
    roots = [*zip(signature.args, args, strict=True), *((guard, kwargs[name]) for name, guard in signature.kwargs)]
    found = list(_leaf_objects(roots))
    for guard, item in found:
        if isinstance(guard, e.StaticGuard):
            _need(item is guard.value if guard.identical else static_equal(guard.value, item))
    _need(spec.watch is None or spec.watch.holds())
    for guard, item in found:
        _check_leaf(guard, item, match)
        match.objects.append(item)
    _check_overlaps(entry.leaves, match.objects)
    for condition in spec.conditions:
        _need(_RELATIONS[condition.relation](_extent(condition.left, match), _extent(condition.right, match)))
    match.shapes = [tuple(_extent(extent, match) for extent in output.shape) for output in spec.outputs]
    _need(all(extent >= 0 for shape in match.shapes for extent in shape))
    match.slot_extents = [_extent(slot.extent, match) for slot in spec.slots if isinstance(slot, e.DimSlot)]
    match.released = (
        spec.release_gil if isinstance(spec.release_gil, bool) else _extent(spec.release_gil, match) >= e.GIL_WORK
    )
    return match


def _leaf_objects(roots: list[tuple[e.Guard, Any]]) -> Iterator[tuple[e.Leaf, Any]]:
    pending = roots[::-1]
    while pending:
        guard, item = pending.pop()
        match guard:
            case e.TupleGuard(items) | e.ListGuard(items):
                _need(_is(item, tuple if isinstance(guard, e.TupleGuard) else list) and len(item) == len(items))
                pending += list(zip(items, list(item), strict=True))[::-1]
            case e.DictGuard(keys, items):
                _need(_is(item, dict) and all(_is(key, str) for key in item) and tuple(item) == keys)
                pending += [(child, item[key]) for key, child in zip(keys, items, strict=True)][::-1]
            case e.ObjectGuard(kind, slots, items):
                _need(_is(item, kind) and all(hasattr(item, slot) for slot in slots))
                pending += [(child, getattr(item, slot)) for slot, child in zip(slots, items, strict=True)][::-1]
            case _:
                yield guard, item


def static_equal(value: Any, item: Any) -> bool:
    """Whether `item` is `value` as a static argument: identical, or of exactly its type and equal;
    see `StaticGuard`.
    """
    if value is item:
        return True
    if type(value) is not type(item):
        return False
    if _is(value, tuple):
        return len(value) == len(item) and all(static_equal(one, two) for one, two in zip(value, item, strict=True))
    if _is(value, float):
        return struct.pack("d", value) == struct.pack("d", item)
    if _is(value, complex):
        return struct.pack("dd", value.real, value.imag) == struct.pack("dd", item.real, item.imag)
    try:
        return bool(value == item)
    except BaseException:  # whatever == raises means no match, as in compiled entries
        return False


def _check_leaf(guard: e.Leaf, item: Any, match: _Match) -> None:
    match guard:
        case e.ArrayGuard():
            _check_array(guard, item, match)
        case e.NumpyScalarGuard(dtype):
            _need(_is(item, dtype.type))
        case e.ScalarGuard(kind):
            _need(
                type(item).__name__ == kind
                and type(item) in (float, int, bool, complex)
                and (kind != "int" or item in _ARGUMENTS)
            )
        case e.StaticGuard():
            pass


def _check_array(guard: e.ArrayGuard, item: Any, match: _Match) -> None:
    _need(_is(item, np.ndarray) and item.ndim == len(guard.shape) and item.flags.aligned)
    _need(not guard.scattered if item.flags.c_contiguous else guard.layout == "strided")
    _need(not guard.writeable or item.flags.num & (FLAG_WRITEABLE | FLAG_WARN_ON_WRITE) == FLAG_WRITEABLE)
    same = item.dtype is guard.dtype or (
        e.is_builtin_number(guard.dtype) and item.dtype.num == guard.dtype.num and item.dtype.isnative
    )
    _need(same)
    for extent, actual in zip(guard.shape, item.shape, strict=True):
        if isinstance(extent, str):
            _need(actual != 1 and match.dims.setdefault(extent, actual) == actual)
        else:
            _need(actual == extent)


def _check_overlaps(leaves: tuple[e.Leaf, ...], objects: list[Any]) -> None:
    arrays = [(leaf, item) for leaf, item in zip(leaves, objects, strict=True) if isinstance(leaf, e.ArrayGuard)]
    for index, (leaf, item) in enumerate(arrays):
        _need(not (leaf.writeable and leaf.layout == "strided") or not _overlaps_itself(item))
        for other_leaf, other in arrays[index + 1 :]:
            if leaf.writeable or other_leaf.writeable:
                (low, high), (start, end) = _byte_range(item), _byte_range(other)
                _need(high <= start or end <= low or low == high or start == end)


def _byte_range(array: Any) -> tuple[int, int]:
    low = high = array.__array_interface__["data"][0]
    if not array.size:
        return low, high
    spans = [stride * (extent - 1) for stride, extent in zip(array.strides, array.shape, strict=True)]
    return low + sum(min(span, 0) for span in spans), high + sum(max(span, 0) for span in spans) + array.itemsize


def _overlaps_itself(array: Any) -> bool:
    """Whether an axis does not step over everything that the axes with smaller steps span."""
    steps = [(abs(stride), extent) for stride, extent in zip(array.strides, array.shape, strict=True)]
    for axis, (step, extent) in enumerate(steps):
        inside = sum(small * (size - 1) for other, (small, size) in enumerate(steps) if other != axis and small <= step)
        if extent > 1 and step < inside + array.itemsize:
            return True
    return False


def _extent(extent: e.Extent, match: _Match) -> int:
    return evaluate_extent(extent, match.dims)


def evaluate_extent(extent: e.Extent, dims: Mapping[str, int]) -> int:
    """The value of an extent. Raises a private no-match exception for what does not match:
    division by 0 or -1, 64-bit overflow.
    """
    match extent:
        case int():
            return extent
        case str():
            return dims[extent]
        case (operation, left, right):
            return _operation(operation, evaluate_extent(left, dims), evaluate_extent(right, dims))


def _operation(operation: str, left: int, right: int) -> int:
    match operation:
        case "max" | "min":
            return max(left, right) if operation == "max" else min(left, right)
        case "floordiv" | "mod":
            _need(right not in (0, -1))
            return left // right if operation == "floordiv" else left % right
        case _:
            value = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}[operation](left, right)
            _need(value in _INT64)
            return value


def _run(entry: _Entry, match: _Match, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from tracejit.backends.cpu.runtime.memory import new_array  # for speed of import: a program has loaded LLVM

    outputs = [new_array(output.dtype, shape) for shape, output in zip(match.shapes, entry.spec.outputs, strict=True)]
    numpy_scalars = (place for place, leaf in enumerate(entry.leaves) if isinstance(leaf, e.NumpyScalarGuard))
    scalars: dict[int, Any] = {place: np.array(match.objects[place]) for place in numpy_scalars}
    words = _slot_words(entry, match, scalars, outputs)
    slots = entry.slots(*words)
    status = _call(entry.program_released, slots) if match.released else entry.program(ctypes.addressof(slots))
    if status:
        return entry.on_status(status, args, kwargs)
    return _result(entry.spec.result, [array if array.ndim else array[()] for array in outputs], match.objects)


def _call(program: Callable[[Any], int], slots: Any) -> int:
    try:
        return program(ctypes.addressof(slots))
    except SystemError as error:  # a function that ctypes calls without the GIL is not expected to set an exception
        if error.__cause__ is None:
            raise
        cause = error.__cause__
    try:
        raise cause  # outside the handler: otherwise the two errors would refer to each other
    finally:
        del cause  # its traceback holds this frame


def _slot_words(entry: _Entry, match: _Match, scalars: Mapping[int, Any], outputs: list[Any]) -> list[int]:
    extents = iter(match.slot_extents)
    words: list[int] = []
    for slot in entry.spec.slots:
        match slot:
            case e.DataSlot(leaf):
                words.append(scalars.get(leaf, match.objects[leaf]).__array_interface__["data"][0])
            case e.StrideSlot(leaf, axis):
                words.append(match.objects[leaf].strides[axis])
            case e.DimSlot():
                words.append(next(extents))
            case e.ScalarSlot(leaf, part):
                words.append(_scalar_word(match.objects[leaf], part))
            case e.OutSlot(index):
                words.append(outputs[index].__array_interface__["data"][0])
            case e.ConstSlot(word):
                words.append(word)
    return words


def _scalar_word(number: Any, part: int) -> int:
    if isinstance(number, int):
        return int(number)
    value = number if isinstance(number, float) else (number.imag if part else number.real)
    return struct.unpack("q", struct.pack("d", value))[0]


def _result(result: e.Result, outputs: list[Any], objects: list[Any]) -> Any:
    match result:
        case e.OutLeaf(index, number):
            return outputs[index].item() if number else outputs[index]
        case e.OutArg(leaf):
            return objects[leaf]
        case e.OutConst(value):
            return value
        case e.OutTuple(items):
            return tuple(_result(item, outputs, objects) for item in items)
        case e.OutList(items):
            return [_result(item, outputs, objects) for item in items]
        case e.OutDict(keys, items):
            return {key: _result(item, outputs, objects) for key, item in zip(keys, items, strict=True)}
        case e.OutObject(kind, slots, items):
            made = _blank(kind)
            for slot, item in zip(slots, items, strict=True):
                getattr(kind, slot).__set__(made, _result(item, outputs, objects))  # past a __setattr__ that refuses
            return made
        case e.OutCall(function, items):
            return function(*(_result(item, outputs, objects) for item in items))


def _blank(kind: Any) -> Any:
    return object.__new__(kind)
