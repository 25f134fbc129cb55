"""What a trace read from outside of its function: global names, closure cells, attributes, and the items of containers.

A compiled program is valid as long as those places hold what they held.  Arrays found there become inputs of the program, read at each
call; only their dtype, shape and layout are part of it, so another array of that kind may take the place.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import CellType, MemberDescriptorType, SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from tracejit.ir.types import aval_of
from tracejit.support.errors import DtypeError, UnsupportedError
from tracejit.support.nodes import field, node, record
from tracejit.support.source import user_location
from tracejit.tracer.interpreter import Interpreter, current_interpreter
from tracejit.tracer.layout import layout_of_array
from tracejit.tracer.stage import StageInterpreter
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transformation import Transformation

__all__ = [
    "MISSING", "MOST_CONTENT", "MOST_ITEMS", "AttributePlace", "CellPlace", "CellTracer", "ClassPlace", "Dependencies", "ItemPlace",
    "NamePlace", "Place", "Read", "Reads", "SizePlace", "SlotPlace", "same_layout",
]  # fmt: skip


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING: Any = _Missing()
"""What a place holds where there is nothing."""

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
MOST_ITEMS = 256
"""Containers with more items are neither watched nor looked into."""
MOST_CONTENT = 1024
"""Bytes up to which the elements of an array are compared, where the trace asked for their values."""
_HEAP_TYPE = 1 << 9  # of classes made by class statements
_DEPTH = 4  # how far into containers


@node
class NamePlace:
    """A name in a module's namespace."""

    namespace: dict[str, Any]
    name: str

    def identity(self) -> tuple[Any, ...]:
        return NamePlace, id(self.namespace), self.name

    def read(self) -> Any:
        return self.namespace.get(self.name, MISSING)

    def __str__(self) -> str:
        return f"the global {self.name!r}"


@node
class CellPlace:
    """A variable of an enclosing function."""

    cell: CellType
    name: str

    def identity(self) -> tuple[Any, ...]:
        return CellPlace, id(self.cell), None

    def read(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            return MISSING

    def __str__(self) -> str:
        return f"{self.name!r} of an enclosing function"


@node
class AttributePlace:
    """An attribute kept in an object's own `__dict__`."""

    owner: Any
    name: str

    def identity(self) -> tuple[Any, ...]:
        return AttributePlace, id(self.owner), self.name

    def read(self) -> Any:
        return self.owner.__dict__.get(self.name, MISSING)

    def __str__(self) -> str:
        return f"the attribute {self.name!r} of a {type(self.owner).__name__}"


@node
class ClassPlace:
    """An attribute of a class, found through an object that has none of that name itself."""

    owner: Any
    base: type
    name: str

    def identity(self) -> tuple[Any, ...]:
        return ClassPlace, id(self.owner), self.name

    def read(self) -> Any:
        if self.name in getattr(self.owner, "__dict__", ()):
            return MISSING
        return self.base.__dict__.get(self.name, MISSING)

    def __str__(self) -> str:
        return f"the attribute {self.name!r} of the class {self.base.__name__}"


@node
class SlotPlace:
    """An attribute of an object of a class with `__slots__`."""

    owner: Any
    slot: MemberDescriptorType

    def identity(self) -> tuple[Any, ...]:
        return SlotPlace, id(self.owner), id(self.slot)

    def read(self) -> Any:
        try:
            return self.slot.__get__(self.owner)
        except AttributeError:
            return MISSING

    def __str__(self) -> str:
        return f"the attribute {self.slot.__name__!r} of a {type(self.owner).__name__}"


@node
class ItemPlace:
    """An item of a dict or list."""

    container: Any
    key: Any

    def identity(self) -> tuple[Any, ...]:
        return ItemPlace, id(self.container), self.key

    def read(self) -> Any:
        try:
            return self.container[self.key]
        except (LookupError, TypeError):
            return MISSING

    def __str__(self) -> str:
        return f"item {self.key!r} of a {type(self.container).__name__}"


@node
class SizePlace:
    """How many items a dict or list has."""

    container: Any

    def identity(self) -> tuple[Any, ...]:
        return SizePlace, id(self.container), None

    def read(self) -> int:
        return len(self.container)

    def __str__(self) -> str:
        return f"the size of a {type(self.container).__name__}"


Place = NamePlace | CellPlace | AttributePlace | SlotPlace | ClassPlace | ItemPlace | SizePlace


@node
class Read:
    """What a place held.  `constant` is the program's captured array that follows the place, -1 if the object itself was used."""

    place: Place
    value: Any
    constant: int = -1

    def now(self) -> Read | None:
        """The same read of what the place holds now; None if the program is not valid for it."""
        found = self.place.read()
        if found is self.value:
            return self
        if self.constant >= 0:
            fits = type(found) is np.ndarray and same_layout(found, self.value)
        else:
            fits = _equal_scalars(self.value, found)
        return Read(self.place, found, self.constant) if fits else None


def same_layout(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays may take each other's place in a program: dtype, shape, contiguity, alignment."""
    return (
        one.dtype == two.dtype
        and one.shape == two.shape
        and (one.strides == two.strides or (one.flags.c_contiguous and two.flags.c_contiguous))
        and one.flags.aligned == two.flags.aligned
    )


def _equal_scalars(one: Any, two: Any) -> bool:
    kind = type(one)
    if kind is not type(two):
        return False
    if kind is float:
        return struct.pack("d", one) == struct.pack("d", two)
    if kind is complex:
        return struct.pack("dd", one.real, one.imag) == struct.pack("dd", two.real, two.imag)
    if isinstance(one, np.generic) and not one.dtype.hasobject:
        return one.dtype == two.dtype and one.tobytes() == two.tobytes()
    return kind in _SCALARS and one == two


class CellTracer(Tracer):
    """The tracer of an array from outside: an input of the program from its first use on."""

    __slots__ = ("array",)

    def __init__(self, interpreter: Interpreter, array: np.ndarray[Any, Any]) -> None:
        super().__init__(interpreter, None, aval_of(array))
        self.array = array
        self.layout = layout_of_array(array)

    @property
    def value(self) -> Any:
        if self._value is None:  # pyright: ignore[reportUnnecessaryComparison] -- until it is used
            recorder = self.interpreter
            self._value = recorder.capture(self.array) if isinstance(recorder, StageInterpreter) else recorder.lift(self.array).value
        return self._value

    def store(self, interpreter: Interpreter, value: Any) -> NoReturn:
        raise UnsupportedError(
            "an array from outside of the traced function is changed in place; pass it as an argument (it is then changed for the caller), "
            "or change a copy (x = x.copy())",
            location=user_location(),
        )


def _reader() -> Interpreter | None:
    """What arrays from outside belong to: the innermost interpreter that records a program, else the transformation in progress."""
    current = current_interpreter()
    interpreter: Interpreter | None = current
    while interpreter is not None:
        if isinstance(interpreter, StageInterpreter) and not interpreter.partial:
            return interpreter
        interpreter = interpreter.parent
    return current if isinstance(current, Transformation) else None


@record
class Reads:
    """Collects what a trace reads from outside."""

    found: dict[tuple[Any, ...], tuple[Place, Any]] = field(factory=dict[tuple[Any, ...], tuple[Place, Any]])
    _tracers: dict[tuple[int, int], CellTracer] = field(factory=dict[tuple[int, int], CellTracer])
    _watched: dict[int, Any] = field(factory=dict[int, Any])  # containers and objects from outside

    def note(self, place: Place, value: Any) -> None:
        """Remember that `place` held `value`; the first time counts."""
        key = place.identity()
        if key not in self.found:
            self.found[key] = place, value
            self.reach(value)

    def reach(self, value: Any, depth: int = _DEPTH) -> None:
        """Take a value for one from outside: its items, if it is a container, are watched, as are attributes read from it later."""
        kind = type(value)
        if kind is SimpleNamespace or (kind.__module__, kind.__name__) == (
            "argparse",
            "Namespace",
        ):  # their attributes are read without our seeing it
            self._watched[id(value)] = value
            value, kind = value.__dict__, dict
        if kind in (list, dict):
            if id(value) in self._watched or len(value) > MOST_ITEMS or not depth:
                return
            self._watched[id(value)] = value
            size = SizePlace(value)
            self.found[size.identity()] = size, len(value)
            for key, item in value.items() if kind is dict else enumerate(value):
                place = ItemPlace(value, key)
                self.found[place.identity()] = place, item
                self.reach(item, depth - 1)
        elif kind is tuple and depth:
            for item in value[:MOST_ITEMS]:
                self.reach(item, depth - 1)
        elif kind.__flags__ & _HEAP_TYPE and not isinstance(value, type):
            self._watched[id(value)] = value

    def is_outside(self, owner: Any) -> bool:
        """Whether an object was reached from outside, and not made by the trace."""
        return id(owner) in self._watched

    def array(self, array: np.ndarray[Any, Any]) -> Any:
        """The tracer that stands for an array from outside; the array itself where nothing is recorded, or it cannot be traced."""
        interpreter = _reader()
        if interpreter is None or not array.dtype.isnative or not array.flags.aligned:
            return array
        key = id(interpreter), id(array)
        tracer = self._tracers.get(key)
        if tracer is None:
            try:
                tracer = self._tracers[key] = CellTracer(interpreter, array)
            except DtypeError:
                return array
        return tracer

    def dependencies(self, constants: Sequence[Any], frozen_arrays: Sequence[Any] = ()) -> Dependencies:
        """What the program depends on, whose captured arrays are `constants`.

        frozen_arrays: those whose elements are part of the program, so that only the very same array is right.
        """
        number = {id(x): n for n, x in enumerate(constants)}
        for x in frozen_arrays:
            number.pop(id(x), None)
        traced = {id(t.array) for t in self._tracers.values()}
        places: dict[int, int] = {}
        for _, value in self.found.values():
            places[id(value)] = places.get(id(value), 0) + 1
        reads: list[Read] = []
        for place, value in self.found.values():
            if place.read() is not value:
                continue  # the trace itself changed it
            follows = places[id(value)] == 1 and id(value) in traced
            reads.append(Read(place, value, number.get(id(value), -1) if follows else -1))
        return Dependencies(tuple(reads), tuple(constants), tuple(frozen_arrays))


def _form(array: Any) -> Any:
    """What can be changed of an array in place and is part of a program or of how it is called."""
    return (array.dtype, array.shape, array.strides, array.ctypes.data) if isinstance(array, np.ndarray) else None


def _content(array: np.ndarray[Any, Any]) -> bytes | None:
    return array.tobytes() if array.nbytes <= MOST_CONTENT and array.flags.c_contiguous else None


@record
class Dependencies:
    """The places a program depends on, its captured arrays, and those whose elements became part of it.

    Elements of the latter are compared where they are few (`MOST_CONTENT` bytes); a large array is taken to stay as it is.
    """

    reads: tuple[Read, ...] = ()
    constants: tuple[Any, ...] = ()
    frozen_arrays: tuple[np.ndarray[Any, Any], ...] = ()
    _forms: tuple[Any, ...] = ()
    _contents: tuple[bytes | None, ...] = ()

    def __post_init__(self) -> None:
        self._forms = tuple(map(_form, self.constants))
        self._contents = tuple(map(_content, self.frozen_arrays))

    def changed(self) -> bool:
        """Whether a place holds something else than when this was made."""
        return (
            any(read.place.read() is not read.value for read in self.reads)
            or any(_form(x) != form for x, form in zip(self.constants, self._forms, strict=True))
            or any(_content(x) != content for x, content in zip(self.frozen_arrays, self._contents, strict=True))
        )

    def any(self) -> bool:
        """Whether there is anything to depend on."""
        return bool(self.reads or self.constants or self.frozen_arrays)

    def renewed(self) -> Dependencies | None:
        """The dependencies as of now: itself if nothing changed, None if the program is no longer valid."""
        if not self.changed():
            return self
        reads: list[Read] = []
        constants = list(self.constants)
        for read in self.reads:
            now = read.now()
            if now is None:
                return None
            if now.constant >= 0:
                constants[now.constant] = now.value
            reads.append(now)
        for array, form in zip(self.constants, self._forms, strict=True):
            if form is not None and _form(array)[:2] != form[:2]:
                return None
        if any(_content(x) != content for x, content in zip(self.frozen_arrays, self._contents, strict=True)):
            return None
        return Dependencies(tuple(reads), tuple(constants), self.frozen_arrays)

    def reason(self) -> str:
        """Which place makes the program invalid, in words; empty if it is valid."""
        if self.renewed() is not None:
            return ""
        return next((f"{read.place} has changed" for read in self.reads if read.now() is None), "a captured array has changed")
