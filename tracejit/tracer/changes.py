"""What a traced function changes outside of itself: attributes, variables of enclosing functions, containers.

Python's own changes (a counter, a cache that is filled) happen, and the program is one for the state before them: the
next call finds another state and is traced for it.  A traced array must not stay behind.  One that depends on no
argument is replaced by its value, as Python would have left it; for others the change is undone, and refused.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import define, field
from tracejit.support.source import Location, user_location
from tracejit.tracer.bytecode import instructions, name_of
from tracejit.tracer.captured import Reads, content
from tracejit.tracer.contents import (
    contents,
    copied,
    family,
    is_keyed,
    may_be_counted,
    merge,
    namespace_of,
    refill,
    same,
)
from tracejit.tracer.kept import CalledLater, Kept, Lowered, StandIns
from tracejit.tracer.places import (
    MISSING,
    AttributePlace,
    CellPlace,
    ClassPlace,
    ContentsPlace,
    KindPlace,
    OwnDictPlace,
    SlotPlace,
    StandIn,
    default_of,
    held_by_class,
    is_same,
)
from tracejit.tracer.special_names import is_special

__all__ = ["Changes", "Mark", "Shown"]


Stored = AttributePlace | SlotPlace | CellPlace | KindPlace | OwnDictPlace
"""The places to which stores are seen."""


@define(eq=False)
class _Store:
    """A place that the trace stores to, what it held before, and where the user's code first did so."""

    place: Stored
    before: Any
    location: Location | None
    cell: CellType | None = None
    """The variable for which `place` stands in clones, if it is another."""
    first: Any = None
    """What that variable held before."""
    done: Any = None
    """What is in `place` for what the variable holds now."""


@define(eq=False)
class _Copy:
    """A container from outside, the copy that the trace has, and what was in the copy at first."""

    original: Any
    copy: Any
    first: tuple[Any, ...]
    items: tuple[Any, ...]  # what was in the original
    before: tuple[Any, ...]  # what was there when the trace began
    begun: tuple[Any, ...] | None = None  # what was in the copy when it was made, where `first` is later


@define(eq=False)
class Shown:
    """What code that is not traced finds, where the trace may have changed it."""

    places: list[_ShownPlace]
    classes: dict[type, dict[str, Any]]


@define(eq=False)
class _ShownPlace:
    """What code that is not traced finds in a place to which the trace stores."""

    store: _Store
    inside: Any  # what the trace has there
    outside: Any


@define(eq=False)
class Mark:
    """What was there at one point of a trace."""

    stores: dict[tuple[Any, ...], Any]
    copies: dict[tuple[int, int], tuple[Any, ...]]
    uncopied: dict[int, tuple[Any, ...]]
    classes: dict[tuple[type, str], Any]


@define(eq=False)
class Changes:
    """Collects what one trace changes outside, to keep it or to undo it."""

    reads: Reads
    stand_ins: StandIns
    classes: Callable[[], dict[type, dict[str, Any]]]  # that the trace redirects, and what they held before
    _stores: dict[tuple[Any, ...], _Store] = field(factory=dict[tuple[Any, ...], _Store])
    _copies: dict[tuple[int, int], _Copy] = field(factory=dict[tuple[int, int], _Copy])
    # containers that the trace has themselves, under their identity, and what was in them at first
    _uncopied: dict[int, tuple[Any, tuple[Any, ...]]] = field(factory=dict[int, tuple[Any, tuple[Any, ...]]])
    # functions from outside and their clones
    clones: Callable[[], Iterable[tuple[FunctionType, FunctionType]]] = tuple[tuple[FunctionType, FunctionType], ...]
    _arrays: dict[int, tuple[Any, Any]] = field(factory=dict[int, tuple[Any, Any]])  # see `Kept`
    bound: frozenset[str] = frozenset()  # attributes that traced code sets, of whatever

    def store(self, owner: Any, name: str, put: Callable[..., None], *value: Any) -> None:
        """Set an attribute, or delete it; of an object from outside it is remembered what it held."""
        target, owner = owner, self.reads.original(owner)
        if self.reads.is_outside(owner):
            held = held_by_class(type(owner), name)
            if name == "__class__":
                self._about_to_store(KindPlace(owner))
            elif name == "__dict__" and type(owner).__dictoffset__:
                own = object.__getattribute__(owner, name)
                for attribute in (*own, *(value[0] if value and isinstance(value[0], dict) else ())):
                    self._about_to_store(AttributePlace(owner, attribute))
                self._about_to_store(OwnDictPlace(owner))
            elif hasattr(type(held), "__get__") and type(held).__name__ == "member_descriptor":
                self._about_to_store(SlotPlace(owner, held))
            elif type(owner).__dictoffset__ and not hasattr(type(held), "__set__"):
                self._about_to_store(AttributePlace(owner, name))
        put(owner if is_special(name) else target, name, *value)

    def may_store(self, cell: CellType, new: CellType, name: str, function: FunctionType) -> None:
        """A function from outside stores a variable of one that encloses it, for which its clone has `new`."""
        code = function.__code__
        offset = next(
            (at for op, n, at in instructions(code) if op == "STORE_DEREF" and name_of(code, op, n) == name), 0
        )
        if new is cell:
            self._about_to_store(CellPlace(cell, name), Location(code, offset))
            return
        place = CellPlace(new, name)
        if place.identity() not in self._stores:
            before = place.read()
            first = CellPlace(cell, name).read()
            self._stores[place.identity()] = _Store(place, before, Location(code, offset), cell, first, before)

    def _about_to_store(self, place: Stored, location: Location | None = None) -> None:
        key = place.identity()
        if key not in self._stores:
            before = place.read()
            self._stores[key] = _Store(place, before, location or user_location())
            if isinstance(place, OwnDictPlace):  # there may be values of the trace in it
                self.reads.note_object(place, before)
            else:
                self.reads.note(place, before)

    def copy(
        self, container: Any, key: tuple[int, int], stands_for: Callable[[Any], Any], begin: Callable[[Any], None]
    ) -> Any:
        """What the trace has in place of a container: a copy, or itself where it cannot be copied.

        begin: told of the copy before it is filled, as a container may hold itself.
        """
        namespace = namespace_of(container)
        if namespace is not None:
            made = object.__new__(type(container)) if type(container) is not SimpleNamespace else SimpleNamespace()
            self.stand_ins.add(made, container)
            begin(made)
            for name, item in namespace.items():
                made.__dict__[name] = stands_for(item)
            self._copies[key] = _Copy(namespace, made.__dict__, contents(made.__dict__), *2 * [contents(namespace)])
            return made
        made = copied(container, stands_for, begin)
        if made is not container:
            self.stand_in(container, made, key)
            if hasattr(made, "__dict__"):
                self.reads.stands_for(made, container)
        else:
            self.use(container)
        return made

    def replace_in_copies(self, one: Any, other: Any) -> None:
        """Where copies hold `one` itself they get what stands for it, which was not there when they were made."""
        for copy in list(self._copies.values()):
            if any(item is one for item in copy.first):
                copy.first = tuple([other if item is one else item for item in copy.first])
                refill(copy.copy, copy.first)

    def use(self, container: Any) -> None:
        """The trace has a container itself: if it starts again, what is in it now is in it again."""
        if family(type(container)) is not None:
            self._uncopied.setdefault(id(container), (container, contents(container)))

    def flush(self) -> Shown:
        """Code that is not traced is about to run: what the trace has changed so far, it finds.  What it finds in each
        place that the trace stores to.

        Raises: UnsupportedError if that is a traced array that depends on an argument.
        """
        kept = self._kept()
        for copy in list(self._copies.values()):
            self._keep_copy(copy, kept)()
            copy.begun = copy.first if copy.begun is None else copy.begun
            copy.first, copy.items = contents(copy.copy), contents(copy.original)
        shown: list[_ShownPlace] = []
        for store in list(self._stores.values()):
            now = store.place.read()
            self._keep_store(store, kept)()
            store.done = now
            shown.append(_ShownPlace(store, now, _outside(store).read()))
        return Shown(shown, {kind: dict(vars(kind)) for kind in self.classes()})

    def refresh(self, shown: Shown, stands_for: Callable[[Any], Any]) -> None:
        """Code that is not traced has run, and may have changed what the trace stores to, and what it has copies of.
        That stays if the trace starts again: the code may not run a second time.

        shown: what `flush` gave.
        """
        for kind, before in self.classes().items():
            for name, now in list(vars(kind).items()):
                if not is_special(name) and now is not shown.classes.get(kind, {}).get(name, MISSING):
                    if kind in shown.classes and not isinstance(now, StandIn):
                        before[name] = now
                        self.reads.spent = f"{ClassPlace(kind, name)} was changed by a function that keeps its results"
        for one in shown.places:
            store, now = one.store, _outside(one.store).read()
            if now is not one.outside and store.cell is not None:
                store.first = now
            elif now is not one.outside:
                store.before = now
            elif store.cell is None:
                _put(store.place, one.inside)
        for copy in list(self._copies.values()):
            now = contents(copy.original)
            if not _same_items(copy.original, copy.items):
                self.reads.spent = f"{self._where(copy.original)}, was changed by a function that keeps its results"
                earlier = copied(copy.original)
                refill(earlier, copy.before)
                merge(earlier, copy.items, now)
                copy.before = contents(earlier)
                refill(copy.copy, contents(copied(copy.original, stands_for)))
                copy.first, copy.items = contents(copy.copy), now

    def is_stored(self, place: Stored) -> bool:
        """Whether the trace has stored to a place."""
        return place.identity() in self._stores

    def show_in(self, cell: CellType, value: Any) -> None:
        """A variable that clones share with the function itself holds what stands for what it was bound to outside."""
        place = CellPlace(cell, "")
        now = place.read()
        if value is not now:
            self._stores.pop(place.identity(), None)
            self._about_to_store(place)
            cell.cell_contents = value

    def refreshed(self, new: CellType) -> None:
        """What clones have for a variable holds anew what stands for what is in the variable."""
        store = self._stores.get(CellPlace(new, "").identity())
        if store is not None:
            store.done = store.place.read()

    def leave(self, interpreter: Any) -> None:
        """A transformation, or a part of the trace, ends: what it has stored outside and depends on none of its
        arguments belongs to what is around it.
        """
        lowered = Lowered(self.stand_ins, self.reads, ending=interpreter)
        for store in list(self._stores.values()):
            now = store.place.read()
            if lowered.matters(now):
                _put(store.place, lowered.value(now, "", None))
        for copy in list(self._copies.values()):
            now = contents(copy.copy)
            if any(map(lowered.matters, now)):
                refill(copy.copy, tuple([lowered.value(item, "", None) for item in now]))
        for container, _ in list(self._uncopied.values()):
            now = contents(container)
            if any(map(lowered.matters, now)):
                refill(container, tuple([lowered.value(item, "", None) for item in now]))
        for kind, name, _, now in self._class_changes():
            if lowered.matters(now):
                type.__setattr__(kind, name, lowered.value(now, "", None))
        dicts = [clone.__dict__ for _, clone in self._with_new_attributes()]
        for own in (*dicts, *[own for own, _ in self.reads.members.values()]):
            for name, now in list(dict.items(own)):
                if lowered.matters(now):
                    dict.__setitem__(own, name, lowered.value(now, "", None))

    def stand_in(self, container: Any, made: Any, key: tuple[int, int]) -> None:
        """The trace has `made` in place of a container."""
        items = contents(container)
        self.stand_ins.add(made, container)
        self._copies[key] = _Copy(container, made, contents(made), items, items)

    def changed_copy(self, container: Any) -> Any:
        """What the trace has made of a container from outside, None if nothing else than what it was."""
        found = [c for c in self._copies.values() if c.original is container and not _same_items(c.copy, c.first)]
        return found[-1].copy if found else None

    def mark(self) -> Mark:
        """What is there now of all that has been changed or copied."""
        stores = {key: store.place.read() for key, store in self._stores.items()}
        copies = {key: contents(copy.copy) for key, copy in self._copies.items()}
        uncopied = {key: contents(container) for key, (container, _) in self._uncopied.items()}
        return Mark(stores, copies, uncopied, {(kind, name): now for kind, name, _, now in self._class_changes()})

    def held_outside(self) -> list[Any]:
        """What the trace has put into objects, containers and variables from outside: it can be reached from there."""
        found = [store.place.read() for store in self._stores.values()]
        pairs = [(c.copy, c.first if c.begun is None else c.begun) for c in self._copies.values()]
        for container, items in (*pairs, *self._uncopied.values()):
            there = set(map(id, items))
            found += [x for x in contents(container) if id(x) not in there]
        found += [now for _, _, _, now in self._class_changes()]
        found += self.with_new_attributes()
        return [x for x in found if x is not MISSING]

    def with_new_attributes(self) -> list[FunctionType]:
        """The clones that have attributes of functions that have none."""
        return [clone for _, clone in self._with_new_attributes()]

    def added_since(self, mark: Mark) -> dict[Any, Any]:
        """What stands under names and keys from outside that were not there, by these."""
        found: dict[Any, Any] = {}
        for key, store in self._stores.items():
            if mark.stores.get(key, store.before) is MISSING and (now := store.place.read()) is not MISSING:
                found[key] = now
        for key, copy in self._copies.items():
            before, now = mark.copies.get(key, copy.first), contents(copy.copy)
            if is_keyed(type(copy.copy)) and len(now) > len(before):
                found.update({(key, n): now[n] for n in range(len(before) + 1, len(now), 2)})
        for kind, name, before, now in self._class_changes():
            if mark.classes.get((kind, name), before) is MISSING:
                found[kind, name] = now
        return found

    def forget_since(self, mark: Mark) -> None:
        """Take away again what stands under names and keys from outside that were not there."""
        for key, store in self._stores.items():
            if mark.stores.get(key, store.before) is MISSING and store.place.read() is not MISSING:
                _put(store.place, MISSING)
        for key, copy in self._copies.items():
            before, now = mark.copies.get(key, copy.first), contents(copy.copy)
            if is_keyed(type(copy.copy)) and len(now) > len(before):
                base: Any = family(type(copy.copy))
                start = 1 if base is defaultdict else 0
                there = before[start::2]
                for name in [k for k in now[start::2] if not any(k is known or k == known for known in there)]:
                    base.__delitem__(copy.copy, name)
        for kind, name, before, now in self._class_changes():
            if mark.classes.get((kind, name), before) is MISSING and now is not MISSING:
                type.__delattr__(kind, name)

    def changed_since(self, mark: Mark) -> str | None:
        """Something that held a value at the mark and holds another now, in words."""
        for key, store in self._stores.items():
            before = mark.stores.get(key, store.before)
            if before is MISSING and isinstance(store.place, AttributePlace):
                before = default_of(type(store.place.owner), store.place.name)
            now = store.place.read()
            if may_be_counted(now) if before is MISSING else not same(before, now):
                return str(store.place)
        for key, copy in self._copies.items():
            before, now = mark.copies.get(key, copy.first), contents(copy.copy)
            grown = len(now) > len(before) and is_keyed(type(copy.copy))  # a cache
            counted = grown and any(map(may_be_counted, now[len(before) + 1 :: 2]))
            if (len(now) != len(before) and not grown) or counted or not all(map(same, before, now)):
                return self._where(copy.original)
        for key, (container, items) in self._uncopied.items():
            before, now = mark.uncopied.get(key, items), contents(container)
            if len(now) != len(before) or not all(map(same, before, now)):
                return self._where(container)
        for kind, name, before, now in self._class_changes():
            before = mark.classes.get((kind, name), before)
            if may_be_counted(now) if before is MISSING else not same(before, now):
                return str(ClassPlace(kind, name))
        for (kind, name), before in mark.classes.items():  # what is as it was before the call is in no change
            if not same(before, vars(kind).get(name, MISSING)):
                return str(ClassPlace(kind, name))
        return None

    def undo(self) -> None:
        """The trace starts again, or is refused: everything is as it was before."""
        for store in sorted(self._stores.values(), key=lambda s: not isinstance(s.place, OwnDictPlace)):
            _put(store.place, store.before)
            if store.cell is not None:
                _put(_outside(store), store.first)
        for kind, name, before, _ in self._class_changes():
            type.__delattr__(kind, name) if before is MISSING else type.__setattr__(kind, name, before)
        for container, items in self._changed_containers():
            refill(container, items)
        for copy in list(self._copies.values()):
            if not _same_items(copy.original, copy.before):
                refill(copy.original, copy.before)
        for _, clone in self._with_new_attributes():
            clone.__dict__.clear()
        for array, first in self.reads.frozen_first.values():
            if first is not None and content(array) != content(first):
                array[...] = first
        for container, items in (*self._uncopied.values(), *self.reads.members.values()):
            if not _same_items(container, items):
                refill(container, items)
        self._forget()

    def _forget(self) -> None:
        self._stores.clear()
        self._copies.clear()
        self._uncopied.clear()

    def keep(self, *, refuse: bool = True) -> None:
        """The trace is over: what it has changed stays.

        refuse: False where an exception is on its way; traced arrays are then removed without a word.

        Raises: UnsupportedError if a traced array that depends on an argument would stay; then nothing is changed.
        """
        refused: UnsupportedError | None = None
        actions: list[Callable[[], None]] = []
        kept = self._kept()
        for change in (*self._told(), *self._untold()):
            try:
                actions.append(change(kept))
            except UnsupportedError as error:
                refused = refused or error
        if refuse and refused is not None:
            self.undo()
            raise refused
        for container, items in self._uncopied.values():
            if not _same_items(container, items):
                self.reads.spent = f"{self._where(container)}, was changed by the function"
        for act in actions:
            act()
        if refused is not None:
            self._remove_tracers()
        self._forget()

    def has_made(self, x: Any) -> bool:
        """Whether a value, or what it holds, is there in the trace alone.  What is from outside is not looked into."""
        return self._kept().matters(x)

    def called_later(self, function: Any, what: str) -> Any:
        """What a function is outside of the trace, for the program to call.  what: for messages.

        Raises: UnsupportedError where it reads a traced array.
        """
        return CalledLater(self.stand_ins, self.reads).value(function, what, None)

    def _kept(self) -> Kept:
        return Kept(self.stand_ins, self.reads, self._arrays)

    def _told(self) -> list[Callable[[Kept], Callable[[], None]]]:
        """For each change that was seen what finds out how to keep it."""
        return [functools.partial(self._keep_store, s) for s in self._stores.values()] + [
            functools.partial(self._keep_copy, c) for c in self._copies.values()
        ]

    def _keep_store(self, store: _Store, kept: Kept) -> Callable[[], None]:
        now = store.place.read()
        if now is (store.done if store.cell is not None else store.before):
            return _nothing
        if store.cell is None and not kept.matters(now):
            return _nothing
        return functools.partial(_put, _outside(store), kept.value(now, str(store.place), store.location))

    def _keep_copy(self, copy: _Copy, kept: Kept) -> Callable[[], None]:
        now = contents(copy.copy)
        if _same_items(copy.copy, copy.first):
            return _nothing
        ordered = family(type(copy.copy)) is not set
        known = {id(first): item for first, item in zip(copy.first, copy.items, strict=True)} if ordered else {}
        where = self._where(copy.original)
        items = tuple([known[id(x)] if id(x) in known else kept.value(x, where, None) for x in now])
        return functools.partial(merge, copy.original, copy.items, items)

    def _untold(self) -> list[Callable[[Kept], Callable[[], None]]]:
        """The same for what was changed in ways that are not seen:
        classes, containers without a copy, dicts of objects.
        """
        found: list[Callable[[Kept], Callable[[], None]]] = []
        for kind, held in self.classes().items():  # the store may have put there what was there already
            for name in self.bound & held.keys():
                self.reads.note(ClassPlace(kind, name), held[name])
        for kind, name, before, now in self._class_changes():
            self.reads.note(ClassPlace(kind, name), before)
            found.append(functools.partial(self._keep_class, kind, name, now))
        for container, _ in self._changed_containers():
            found.append(functools.partial(self._keep_contents, container))
        for function, clone in self._with_new_attributes():
            self.reads.reach(function.__dict__)
            found.append(functools.partial(self._keep_attributes, function, clone))
        for array, _ in self.reads.frozen_first.values():
            if array.dtype.hasobject:
                found.append(functools.partial(self._keep_elements, array))
        for owner, name, before in self._changed_objects():
            found.append(functools.partial(self._keep_store, _Store(AttributePlace(owner, name), before, None)))
        return found

    def _keep_class(self, kind: type, name: str, now: Any, kept: Kept) -> Callable[[], None]:
        if not kept.matters(now):
            return _nothing
        return functools.partial(type.__setattr__, kind, name, kept.value(now, str(ClassPlace(kind, name)), None))

    def _keep_elements(self, array: Any, kept: Kept) -> Callable[[], None]:
        kept.value(array, f"an array of {array.dtype}", None)
        return _nothing

    def _with_new_attributes(self) -> list[tuple[FunctionType, FunctionType]]:
        """Functions without attributes and their clones, which have some; of others the clones have copies."""
        return [(f, clone) for f, clone in self.clones() if clone.__dict__ and not f.__dict__]

    def _keep_attributes(self, function: FunctionType, clone: FunctionType, kept: Kept) -> Callable[[], None]:
        where = f"an attribute of {function.__qualname__}"
        found = {name: kept.value(x, where, None) for name, x in clone.__dict__.items()}
        return functools.partial(function.__dict__.update, found)

    def _keep_contents(self, container: Any, kept: Kept) -> Callable[[], None]:
        where = self._where(container)
        return functools.partial(refill, container, tuple([kept.value(x, where, None) for x in contents(container)]))

    def _remove_tracers(self) -> None:
        """An exception is on its way: what cannot stay is as before."""
        kept = self._kept()
        for store in list(self._stores.values()):
            if kept.matters(store.place.read()):
                _put(store.place, store.before)
        for kind, name, before, now in self._class_changes():
            if kept.matters(now):
                type.__delattr__(kind, name) if before is MISSING else type.__setattr__(kind, name, before)
        for container, items in self._changed_containers():
            refill(container, items)
        for owner, name, before in self._changed_objects():
            _put(AttributePlace(owner, name), before)

    def _class_changes(self) -> list[tuple[type, str, Any, Any]]:
        """(class, name, what it held before, what it holds) of data of the user's classes
        that the trace has bound anew.
        """
        found: list[tuple[type, str, Any, Any]] = []
        for kind, before in self.classes().items():
            for name, now in list(vars(kind).items()):
                if not is_special(name) and not isinstance(now, StandIn) and before.get(name, MISSING) is not now:
                    found.append((kind, name, before.get(name, MISSING), now))
            gone = before.keys() - vars(kind).keys()
            found += [(kind, name, before[name], MISSING) for name in gone if not is_special(name)]
        return found

    def _changed_containers(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """Containers without a copy into which traced arrays got, and what was in them."""
        kept = self._kept()
        copied_here = {id(copy.original) for copy in self._copies.values()}
        places = [(p.container, items) for p, items in self.reads.found.values() if isinstance(p, ContentsPlace)]
        return [(c, items) for c, items in places if id(c) not in copied_here and any(map(kept.matters, contents(c)))]

    def _changed_objects(self) -> list[tuple[Any, str, Any]]:
        """(object, name, what it held) of attributes with traced arrays that got into an object's dict by itself."""
        kept, found = self._kept(), list[tuple[Any, str, Any]]()
        told = {(id(s.place.owner), s.place.name) for s in self._stores.values() if isinstance(s.place, AttributePlace)}
        for owner in self.reads.outside():
            has_own = type(owner).__dictoffset__ and not issubclass(type(owner), type)
            own = object.__getattribute__(owner, "__dict__") if has_own else {}
            for name, value in list(own.items()):
                if (id(owner), name) not in told and kept.matters(value):
                    found.append((owner, name, self.reads.before.get(id(owner), {}).get(name, MISSING)))
        return found

    def _where(self, container: Any) -> str:
        """Where a container was found, in words."""
        kind = f"a {type(container).__name__}"
        return next((f"{place}, {kind}" for place, value in self.reads.found.values() if value is container), kind)


def _outside(store: _Store) -> Stored:
    """Where Python's own code finds what is stored."""
    return store.place if store.cell is None else CellPlace(store.cell, store.place.name)  # type: ignore[union-attr]


def _same_items(container: Any, items: tuple[Any, ...]) -> bool:
    now = contents(container)
    return len(now) == len(items) and all(map(is_same, now, items))


def _nothing() -> None:
    pass


def _put(place: Stored, value: Any) -> None:
    if isinstance(place, KindPlace):
        object.__setattr__(place.owner, "__class__", value)
    elif isinstance(place, OwnDictPlace):
        object.__setattr__(place.owner, "__dict__", value)
    elif isinstance(place, CellPlace):
        if value is MISSING:
            del place.cell.cell_contents
        else:
            place.cell.cell_contents = value
    elif isinstance(place, AttributePlace):
        own = object.__getattribute__(place.owner, "__dict__")
        if value is MISSING:
            own.pop(place.name, None)
        else:
            own[place.name] = value
    elif value is MISSING:
        if place.read() is not MISSING:
            place.slot.__delete__(place.owner)
    else:
        place.slot.__set__(place.owner, value)
