"""What a trace read from outside of its function: global names, closure cells, attributes, and what is in containers.

A compiled program is valid as long as those places hold what they held.  Arrays found there become inputs of the
program, read at each call; only their dtype, shape and layout are part of it, so another array of that kind may take
the place.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum, EnumMeta
from functools import partial, partialmethod, singledispatchmethod
from types import (
    BuiltinMethodType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NoReturn, cast

import numpy as np

from tracejit.ir.types import aval_of
from tracejit.support.errors import DtypeError, UnsupportedError, pass_over
from tracejit.support.nodes import define, field, frozen
from tracejit.support.source import user_location, warn_once
from tracejit.support.type_flags import HEAP_TYPE
from tracejit.tracer.contents import contents, family, namespace_of, underlying
from tracejit.tracer.interpreter import Interpreter, current_interpreter
from tracejit.tracer.known import MOST_CONTENT, TAKEN_FOR_CONSTANT
from tracejit.tracer.layout import layout_of_array
from tracejit.tracer.ownership import is_users_type
from tracejit.tracer.places import (
    MISSING,
    AttributePlace,
    ClassPlace,
    ComputedPlace,
    ContentsPlace,
    FunctionPlace,
    KindPlace,
    Place,
    SlotPlace,
    held_by_class,
    is_same,
)
from tracejit.tracer.recorder import StageInterpreter
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transformation import Transformation

__all__ = ["MOST_ITEMS", "CellTracer", "Dependencies", "Read", "Reads", "content", "same_layout"]

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
MOST_ITEMS = 1 << 16
"""Items of containers that are compared at each call, of all together;
a container with more is taken to stay as it is."""
_METHODS_IN_C = (BuiltinMethodType, MethodWrapperType)


@frozen(eq=False)
class Read:
    """What a place held.  `constant` is the program's captured array that follows the place,
    -1 if the object itself was used.

    constants: the same for each of a container's items, empty if none is followed.
    """

    place: Place
    value: Any
    constant: int = -1
    constants: tuple[int, ...] = ()

    def holds(self) -> bool:
        """Whether the place holds the very same."""
        found = self.place.read()
        if found is self.value:
            return True
        return (
            isinstance(self.place, ContentsPlace)
            and len(found) == len(self.value)
            and all(map(is_same, self.value, found))
        )

    def stays(self) -> bool:
        """Whether the place holds the very same, or an equal number: not another array."""
        found = self.place.read()
        if found is self.value:
            return True
        if not isinstance(self.place, ContentsPlace):
            return _equal_scalars(self.value, found)
        return len(found) == len(self.value) and all(
            one is two or _equal_scalars(one, two) for one, two in zip(self.value, found, strict=True)
        )

    def now(self) -> Read | None:
        """The same read of what the place holds now; None if the program is not valid for it."""
        found = self.place.read()
        if found is self.value:
            return self
        if isinstance(self.place, ContentsPlace):
            if len(found) != len(self.value):
                return None
            numbers = self.constants or (-1,) * len(found)
            fits = all(one is two or _fits(one, two, n) for one, two, n in zip(self.value, found, numbers, strict=True))
        else:
            fits = _fits(self.value, found, self.constant)
        return Read(self.place, found, self.constant, self.constants) if fits else None

    def follow(self, constants: list[Any]) -> None:
        """Put the arrays that the place holds among the program's captured ones."""
        if self.constant >= 0:
            constants[self.constant] = self.value
        for n, item in zip(self.constants, self.value if self.constants else (), strict=True):
            if n >= 0:
                constants[n] = item


def _fits(one: Any, two: Any, constant: int) -> bool:
    """Whether a program made for `one` serves `two`."""
    if constant >= 0:
        return type(two) is np.ndarray and same_layout(two, one)
    return _equal_scalars(one, two)


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


def _is_computed(held: Any) -> bool:
    """Whether what a class holds is a descriptor for data that is written in C."""
    kind: Any = type(held)
    return (
        isinstance(getattr(kind, "__get__", None), WrapperDescriptorType)
        and isinstance(getattr(kind, "__set__", None), WrapperDescriptorType)
        and not issubclass(kind, property)
    )


class CellTracer(Tracer):
    """The tracer of an array from outside: an input of the program from its first use on."""

    __slots__ = ("array",)

    def __init__(self, interpreter: Interpreter, array: np.ndarray[Any, Any]) -> None:
        super().__init__(interpreter, None, aval_of(array))
        self.array = array
        self.layout = layout_of_array(array)
        self.is_array = not array.shape

    @property
    def value(self) -> Any:
        if self._value is None:  # pyright: ignore[reportUnnecessaryComparison] -- until it is used
            recorder = self.interpreter
            self._value = (
                recorder.capture(self.array)
                if isinstance(recorder, StageInterpreter)
                else recorder.lift(self.array).value
            )
        return self._value

    def store(self, interpreter: Interpreter, value: Any) -> NoReturn:
        raise UnsupportedError(
            "an array from outside of the traced function is changed in place; pass it as an argument (it is then "
            "changed for the caller), "
            "or change a copy (x = x.copy())",
            location=user_location(),
        )


def _reader() -> Interpreter | None:
    """What arrays from outside belong to: the innermost interpreter that records a program,
    else the transformation in progress.
    """
    current = current_interpreter()
    interpreter: Interpreter | None = current
    while interpreter is not None:
        if isinstance(interpreter, StageInterpreter) and not interpreter.partial:
            return interpreter
        interpreter = interpreter.parent
    return current if isinstance(current, Transformation) else None


@define(eq=False)
class Reads:
    """Collects what a trace reads from outside."""

    found: dict[tuple[Any, ...], tuple[Place, Any]] = field(factory=dict[tuple[Any, ...], tuple[Place, Any]])
    # arrays that cannot be traced: their elements are part of the program
    frozen: dict[Any, Any] = field(factory=dict[Any, Any])
    # these, and copies of what they were at first, of those that are not large
    frozen_first: dict[Any, tuple[Any, Any]] = field(factory=dict[Any, "tuple[Any, Any]"])
    # object -> its attributes when one was first read
    before: dict[int, dict[str, Any]] = field(factory=dict[int, dict[str, Any]])
    # attributes to which traced code stores directly, of members of enumerations and containers of Python's classes,
    # and what was in them at first
    members: dict[int, tuple[dict[str, Any], tuple[Any, ...]]] = field(
        factory=dict[int, tuple[dict[str, Any], tuple[Any, ...]]]
    )
    _tracers: dict[tuple[int, int], CellTracer] = field(factory=dict[tuple[int, int], CellTracer])
    _watched: dict[int, Any] = field(factory=dict[int, Any])  # containers and objects from outside
    _twins: dict[int, Any] = field(factory=dict[int, Any])  # copy of a container -> the container
    # arrays in what stays as it is, like a tuple: no place says that another one has come
    _kept: dict[int, Any] = field(factory=dict[int, Any])
    spent: str = ""  # what code that is not traced has changed meanwhile, in words: the program is for this call only
    _items: int = 0

    def note(self, place: Place, value: Any) -> None:
        """Remember that `place` held `value`; the first time counts."""
        key = place.identity()
        if key not in self.found:
            self.found[key] = place, value
            self.reach(value, place)

    def note_object(self, place: Place, value: Any) -> None:
        """Remember which object `place` held, not what is in it."""
        self.found.setdefault(place.identity(), (place, value))

    def reach(self, value: Any, place: Place | None = None, *, unseen: bool = False) -> None:
        """Take a value for one from outside: what is in it, if it is a container, is watched,
        as are attributes read from it later.

        unseen: arrays in it are used without our seeing it, so their elements are part of the program.
        """
        pending: list[tuple[Any, bool]] = [(value, place is not None)]
        while pending:
            value, followed = pending.pop()
            kind: Any = type(value)
            if kind is np.ndarray and not followed:
                self._kept[id(value)] = value
            if kind is np.ndarray and unseen:
                self._freeze(id(value), value)
            if kind in _SCALARS or kind is np.ndarray or id(value) in self._watched:
                continue
            if isinstance(value, (tuple, frozenset)):
                self._watched[id(value)] = value
                pending += [(x, False) for x in cast("Sequence[Any]", value)]
            elif family(kind) is not None:
                self._watched[id(value)] = value
                self._items += len(value)
                if self._items > MOST_ITEMS:
                    self._items -= len(value)
                    what = f"a {kind.__name__} of {len(value)} items" + (f" in {place}" if place is not None else "")
                    warn_once(f"{what} {TAKEN_FOR_CONSTANT}", user_location())
                    continue
                if kind.__dictoffset__ and not is_users_type(kind):
                    self._members(object.__getattribute__(value, "__dict__"))
                inside = ContentsPlace(value)
                items = contents(value)
                self.found[inside.identity()] = inside, items
                pending += [(x, True) for x in items]
            elif (namespace := namespace_of(value)) is not None:
                self._watched[id(value)] = value
                pending.append((namespace, True))
            elif kind is MappingProxyType:
                self._watched[id(value)] = value
                pending.append((underlying(value), True))
            elif isinstance(value, (partial, partialmethod)):
                self._watched[id(value)] = value
                pending += [(value.func, False), (value.args, False), (value.keywords, True)]
            elif kind is MethodType:
                pending.append((value.__self__, False))
            elif kind is FunctionType and type(value.__dict__.get("registry")) is MappingProxyType:
                pending.append((value.__dict__["registry"], False))  # functools.singledispatch's
            elif kind is singledispatchmethod:
                pending.append((value.dispatcher, False))
            elif kind in _METHODS_IN_C and not isinstance(value.__self__, ModuleType):
                pending.append((value.__self__, False))
            elif isinstance(value, (Enum, EnumMeta)):
                self._watched[id(value)] = value
                self._enumeration(value)
            elif kind.__flags__ & HEAP_TYPE and not isinstance(value, type):
                self._watched[id(value)] = value

    def _enumeration(self, value: Enum | EnumMeta) -> None:
        """A member, or all and what their class holds beside them."""
        if isinstance(value, Enum):
            self._members(object.__getattribute__(value, "__dict__"))
            return
        for member in value:
            self._members(object.__getattribute__(member, "__dict__"))
        for name, held in list(vars(value).items()):
            if name[0] != "_" and not hasattr(held, "__get__"):
                self.note(ClassPlace(value, name), held)

    def _members(self, own: dict[str, Any]) -> None:
        """The attributes of an object whose class lets nobody see what is read and stored."""
        self.members.setdefault(id(own), (own, contents(own)))
        self.reach(own, unseen=True)

    def is_outside(self, owner: Any) -> bool:
        """Whether an object was reached from outside, and not made by the trace."""
        return id(owner) in self._watched

    def stands_for(self, copy: Any, original: Any) -> None:
        """An object of the trace has the attributes of one from outside."""
        self._watched[id(copy)] = copy
        self._twins[id(copy)] = original

    def outside(self) -> list[Any]:
        """The objects and containers that were reached."""
        return [x for key, x in self._watched.items() if key not in self._twins]

    def owner_of(self, attributes: dict[str, Any]) -> Any:
        """The object that was reached whose `__dict__` a dict is, None if there is none."""
        for x in self._watched.values():
            if type(x).__dictoffset__ and not issubclass(type(x), dict):
                if object.__getattribute__(x, "__dict__") is attributes and id(x) not in self._twins:
                    return x
        return None

    def original(self, owner: Any) -> Any:
        """The object from outside whose attributes an object of the trace has; itself if there is none."""
        return self._twins.get(id(owner), owner)

    def attribute(self, owner: Any, name: str, value: Any) -> bool:
        """Note where an attribute of an object was found, `MISSING` if it was not.  Whether it is data
        that the object or class holds.
        """
        owner = self._twins.get(id(owner), owner)
        kind: Any = type(owner)
        held = held_by_class(kind, name)
        if isinstance(held, MemberDescriptorType):
            if self.is_outside(owner):
                self.note(SlotPlace(owner, held), value)
            return True
        own = object.__getattribute__(owner, "__dict__") if kind.__dictoffset__ else {}
        if kind.__dictoffset__ and id(owner) not in self.before and self.is_outside(owner):
            self.before[id(owner)] = dict(dict.items(own))  # an object may be its own `__dict__`
        if name in own and own[name] is value:
            if self.is_outside(owner):
                self.note(AttributePlace(owner, name), value)
            return True
        if not isinstance(kind, type) or not self.is_outside(owner):
            return held is value
        if type(value) in _SCALARS and _is_computed(held):
            self.note(ComputedPlace(owner, name, held), value)
        self.note(ClassPlace(kind, name), held)
        self.note(KindPlace(owner), kind)
        if kind.__dictoffset__ and name not in own:
            self.note(AttributePlace(owner, name), MISSING)
        return held is value

    def function(self, function: FunctionType) -> None:
        """A function from outside is used: what it can be given anew counts."""
        self.note(FunctionPlace(function, "__code__"), function.__code__)
        if function.__defaults__ is not None:
            self.note(FunctionPlace(function, "__defaults__"), function.__defaults__)
        if function.__kwdefaults__ is not None:
            self.note(FunctionPlace(function, "__kwdefaults__"), function.__kwdefaults__)

    def array(self, array: np.ndarray[Any, Any]) -> Any:
        """The tracer that stands for an array from outside; the array itself where nothing is recorded,
        or it cannot be traced.
        """
        interpreter = _reader()
        if interpreter is None:
            return array
        if type(array) not in (np.ndarray, np.memmap):  # what its methods read becomes part of the program
            for part in (array.view(np.ndarray), getattr(array, "mask", None)):
                if isinstance(part, np.ndarray):
                    self._freeze((id(array), len(self.frozen)), part)
            return array
        if not array.dtype.isnative:
            self._freeze(id(array), array)
            return array
        key = id(interpreter), id(array)
        tracer = self._tracers.get(key)
        if tracer is None:
            try:
                tracer = self._tracers[key] = CellTracer(interpreter, array)
            except DtypeError as error:
                pass_over(error)
                self._freeze(id(array), array)
                if array.dtype.hasobject:
                    self.reach(tuple(array.flat), unseen=True)
                return array
        return tracer

    def _freeze(self, key: Any, array: np.ndarray[Any, Any]) -> None:
        """What NumPy makes of the elements while tracing becomes part of the program."""
        if key not in self.frozen and array.nbytes > MOST_CONTENT:
            warn_once(
                f"what NumPy makes of an array from outside that is not traced, {array.dtype}{list(array.shape)}, "
                f"{TAKEN_FOR_CONSTANT}",
                user_location(),
            )
        if key not in self.frozen_first:
            self.frozen_first[key] = array, np.array(array) if array.nbytes <= MOST_CONTENT else None
        self.frozen[key] = array

    def arrays(self) -> dict[int, Any]:
        """The arrays from outside that are traced, under their identities."""
        return {id(t.array): t.array for t in self._tracers.values()}

    def dependencies(self, constants: Sequence[Any], frozen_arrays: Sequence[Any] = ()) -> Dependencies:
        """What the program depends on, whose captured arrays are `constants`.

        frozen_arrays: those whose elements are part of the program, so that only the very same array is right.
        """
        number = {id(x): n for n, x in enumerate(constants)}
        for x in frozen_arrays:
            number.pop(id(x), None)
        traced = self.arrays()
        count: dict[int, int] = {}
        for place, value in self.found.values():
            for x in value if isinstance(place, ContentsPlace) else (value,):
                count[id(x)] = count.get(id(x), 0) + 1

        def followed(x: Any) -> int:
            alone = type(x) is np.ndarray and count[id(x)] == 1 and id(x) not in self._kept
            return number.get(id(x), -1) if alone and id(x) in traced else -1

        for array, first in self.frozen_first.values():
            if first is not None and content(array) != content(first) and array.flags.writeable:
                self.spent = self.spent or f"an array of {array.dtype} from outside was changed"
        captured = set(map(id, constants))
        looked_at = tuple([x for key, x in traced.items() if key not in captured])
        reads: list[Read] = []
        for place, value in self.found.values():
            if isinstance(place, ContentsPlace):
                numbers = tuple(map(followed, value))
                reads.append(Read(place, value, constants=numbers if any(n >= 0 for n in numbers) else ()))
            else:
                reads.append(Read(place, value, followed(value)))
        return Dependencies(
            tuple(reads), tuple(constants), (*frozen_arrays, *self.frozen.values()), looked_at, self.spent
        )


def _form(array: Any) -> Any:
    """What can be changed of an array in place and is part of a program or of how it is called."""
    return (array.dtype, array.shape, array.strides, array.ctypes.data) if isinstance(array, np.ndarray) else None


def content(array: np.ndarray[Any, Any]) -> tuple[Any, ...] | None:
    """Form and elements of an array, to compare with what they are later; None of a large one."""
    if array.nbytes > MOST_CONTENT:
        return None
    elements = tuple(map(id, array.flat)) if array.dtype.hasobject else array.tobytes()
    return array.dtype, array.shape, array.flags.writeable, elements


@define(eq=False)
class Dependencies:
    """The places a program depends on, its captured arrays, and those whose elements became part of it.

    Elements of the latter are compared up to `MOST_CONTENT` bytes; a larger array is taken to stay as it is, of which
    the trace warned.
    """

    reads: tuple[Read, ...] = ()
    constants: tuple[Any, ...] = ()
    frozen_arrays: tuple[np.ndarray[Any, Any], ...] = ()
    looked_at: tuple[np.ndarray[Any, Any], ...] = ()
    """Arrays that are no inputs of the program: of them it has the shape or dtype at most."""
    spent: str = ""
    """What the trace itself changed, in words: the program is not for another call, even if all is as before again."""
    _forms: tuple[Any, ...] = ()
    _contents: tuple[tuple[Any, ...] | None, ...] = ()

    def __post_init__(self) -> None:
        self._forms = tuple(map(_form, (*self.constants, *self.looked_at)))
        self._contents = tuple(map(content, self.frozen_arrays))

    def changed(self) -> bool:
        """Whether a place holds something else than when this was made."""
        return (
            bool(self.spent)
            or not all(read.holds() for read in self.reads)
            or any(_form(x) != form for x, form in zip(self._arrays(), self._forms, strict=True))
            or not self._contents_hold()
        )

    def _arrays(self) -> tuple[Any, ...]:
        return (*self.constants, *self.looked_at)

    def _contents_hold(self) -> bool:
        return all(content(x) == known for x, known in zip(self.frozen_arrays, self._contents, strict=True))

    def any(self) -> bool:
        """Whether there is anything to depend on."""
        return bool(self.reads or self.constants or self.frozen_arrays)

    def renewed(self) -> Dependencies | None:
        """The dependencies as of now: itself if nothing changed, None if the program is no longer valid."""
        if not self.changed():
            return self
        if self.spent:
            return None
        reads: list[Read] = []
        constants = list(self.constants)
        for read in self.reads:
            now = read.now()
            if now is None:
                return None
            if now is not read:
                now.follow(constants)
            reads.append(now)
        for array, form in zip(self._arrays(), self._forms, strict=True):
            if form is not None and _form(array)[:3] != form[:3]:
                return None
        if not self._contents_hold() or self._sharing(constants) != self._sharing(self.constants):
            return None
        return Dependencies(tuple(reads), tuple(constants), self.frozen_arrays, self.looked_at)

    def _sharing(self, constants: Sequence[Any]) -> frozenset[tuple[int, int]]:
        """Which arrays share memory, were `constants` the captured ones:
        the function may have asked, by `is` or by writing to one.
        """
        arrays = [*constants, *self.frozen_arrays, *[read.value for read in self.reads if read.constant < 0]]
        spans: list[tuple[int, int, int]] = []
        for n, x in enumerate(arrays):
            if type(x) is np.ndarray and x.size:
                ends = [(size - 1) * step for size, step in zip(x.shape, x.strides, strict=True)]
                start = x.ctypes.data + sum(e for e in ends if e < 0)
                spans.append((start, start + sum(map(abs, ends)) + x.itemsize, n))
        spans.sort()
        found: set[tuple[int, int]] = set()
        open_spans: list[tuple[int, int]] = []
        for start, end, n in spans:
            open_spans = [(e, m) for e, m in open_spans if e > start]
            found.update((min(m, n), max(m, n)) for _, m in open_spans)
            open_spans.append((end, n))
        return frozenset(found)

    def spend(self) -> None:
        """The trace is over.  Where it has put something else into a place that it depends on, the program is good for
        this call only: it does not do so again.
        """
        self.spent = self.reason() or next((f"{r.place} has changed" for r in self.reads if not r.stays()), "")

    def reason(self) -> str:
        """Which place makes the program invalid, in words; empty if it is valid."""
        if self.spent or self.renewed() is not None:
            return self.spent
        return next(
            (f"{read.place} has changed" for read in self.reads if read.now() is None), "a captured array has changed"
        )
