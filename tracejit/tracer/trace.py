"""One tracing of a function: what it reads outside, what it changes there, the clones that are good for it alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from tracejit.ir.extents import Extent
from tracejit.support.errors import Restart
from tracejit.support.nodes import define, field
from tracejit.support.source import user_location, warn_once
from tracejit.tracer.bytecode import asks_for_booleans, stored_attributes
from tracejit.tracer.captured import MOST_ITEMS, Reads
from tracejit.tracer.changes import Changes
from tracejit.tracer.current import current_trace, entered
from tracejit.tracer.interpreter import Interpreter, current_interpreter, eager, use_interpreter
from tracejit.tracer.methods import ClassPatches
from tracejit.tracer.own_attributes import OwnAttributes
from tracejit.tracer.ownership import module_of
from tracejit.tracer.places import MISSING, AttributePlace, CellPlace, SlotPlace
from tracejit.tracer.statements.decisions import Decisions
from tracejit.tracer.unfollowed import state_of

if TYPE_CHECKING:
    from tracejit.tracer.substitution import Substitution

_NOT_FOLLOWED = (
    "is not followed: the compiled program has what was there while the function was traced, which may be more than "
    "once; pass the values as arguments, or call clear_cache() when it has changed"
)

_CHANGED_BY_CACHED = "a variable was changed by a function that keeps its results"

__all__ = ["Trace", "leave", "outside"]


def leave(interpreter: Interpreter) -> None:
    """A transformation, or a part of the trace, ends.  What it has stored outside belongs to what is around it."""
    trace = current_trace()
    if trace is not None:
        trace.changes.leave(interpreter)


@contextmanager
def outside() -> Generator[None]:
    """Nothing is traced in the block: functions that keep what they compute compute it as they do elsewhere."""
    with entered(None), use_interpreter(eager):
        yield


def _holds_another(cell: CellType, before: Any) -> bool:
    now = CellPlace(cell, "").read()
    return now is not before and now is not MISSING


@define(eq=False)
class _Variable:
    """A variable of an enclosing function, and what all clones have in its place."""

    cell: CellType
    new: CellType
    interpreter: Any  # whose tracers the clones see


@define(eq=False)
class Trace:
    """One tracing of a function: what it reads from outside, its own clones, the classes whose methods it redirects."""

    patches: ClassPatches
    reads: Reads
    changes: Changes
    substitution: Substitution
    # the function tells an argument's True from other objects (`x is True`)
    need_booleans: Callable[[], None] = lambda: None
    wants_booleans: bool = False  # it does so, perhaps with what a comparison gave
    # the interpreter in which the trace began: that of an eager transformation, whose function is traced, or what is
    # around the one that records the function
    base: Interpreter = field(factory=current_interpreter)
    is_eager: bool = False
    backend: str | None = None  # the one that the program is for, where it is known
    # masks whose number of True elements is an extent: the mask, what the extent was bound in, it, and where they are
    counted: list[tuple[Any, Interpreter, Extent, Any]] = field(factory=list["tuple[Any, Interpreter, Extent, Any]"])
    lengths: list[tuple[Any, Interpreter, Extent]] = field(factory=list["tuple[Any, Interpreter, Extent]"])  # of slices
    selected: list[tuple[Any, Any, Any]] = field(factory=list["tuple[Any, Any, Any]"])  # masks x[m], x, m
    loops: Decisions = field(factory=Decisions)
    _clones: dict[tuple[int, int], tuple[FunctionType, Any, FunctionType]] = field(
        factory=dict[tuple[int, int], tuple[FunctionType, Any, FunctionType]]
    )
    _cells: dict[tuple[int, int], _Variable] = field(factory=dict[tuple[int, int], "_Variable"])
    _shared: dict[int, CellType] = field(factory=dict[int, CellType])
    _entered: set[int] = field(factory=set[int])
    _containers: dict[tuple[int, int], tuple[Any, Any]] = field(factory=dict[tuple[int, int], tuple[Any, Any]])
    _attributes: dict[tuple[int, int], tuple[Any, OwnAttributes]] = field(
        factory=dict[tuple[int, int], tuple[Any, OwnAttributes]]
    )
    # functions that keep what they compute, and what computes it for the trace's own objects
    _cached: dict[tuple[int, int], tuple[Any, Any, Callable[..., Any]]] = field(
        factory=dict[tuple[int, int], tuple[Any, Any, Callable[..., Any]]]
    )
    # tuples whose items are being found, and whether one of these holds the tuple
    _begun: dict[tuple[int, int], bool] = field(factory=dict[tuple[int, int], bool])

    @property
    def root(self) -> Interpreter:
        """The interpreter of the whole function: what its branches, loops and transformations see of the world outside
        are its tracers, so that all see the same.
        """
        current = current_interpreter()
        if self.is_eager or current is self.base:
            return self.base
        found = current
        while found.parent is not self.base:
            if found.parent is None:
                return current
            found = found.parent
        return found

    def clone(self, function: FunctionType, build: Callable[[FunctionType, Trace], FunctionType]) -> FunctionType:
        """The clone of a function with cells, one for each time that the function is traced."""
        root = self.root
        found = self._clones.get((id(function), id(root)))
        if found is not None:
            return found[2]
        with use_interpreter(root):
            return build(function, self)

    def clones(self) -> Iterator[tuple[FunctionType, FunctionType]]:
        """The functions that were cloned, and their clones."""
        return ((function, clone) for function, _, clone in list(self._clones.values()))

    def remember(self, function: FunctionType, clone: FunctionType) -> None:
        interpreter = self.root
        self._clones[id(function), id(interpreter)] = function, interpreter, clone

    def cached(self, function: Any, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """What `make` has made for a function, once for each time that it is traced."""
        root = self.root
        found = self._cached.get((id(function), id(root)))
        if found is None:
            found = self._cached[id(function), id(root)] = function, root, make()
        return found[2]

    def share(self, cell: CellType) -> None:
        """All clones have a variable of an enclosing function itself, whatever it holds later."""
        self._shared[id(cell)] = cell

    def shares(self, cell: CellType) -> bool:
        """Whether clones have the variable itself."""
        return id(cell) in self._shared

    def stands_in_for(self, cell: CellType) -> bool:
        """Whether clones have another variable in its place."""
        return (id(cell), id(self.root)) in self._cells

    def cell(self, cell: CellType) -> tuple[CellType, bool]:
        """(what all clones have in place of a variable of an enclosing function, whether it is new)"""
        interpreter = self.root
        key = id(cell), id(interpreter)
        found = self._cells.get(key)
        if found is None:
            new = CellType()
            self._cells[key] = _Variable(cell, new, interpreter)
            self.changes.stand_ins.variables[id(new)] = new, cell
        return self._cells[key].new, found is None

    @contextmanager
    def unseen(self) -> Generator[None]:
        """Code outside of the trace runs in the block: it finds what the trace has changed, and the trace what it
        changes.

        Raises: UnsupportedError if a traced array that depends on an argument would have to be found.
        """
        with entered(None):
            stored = self.changes.flush()
        contents = [(x, CellPlace(x.cell, "").read()) for x in self._cells.values()]
        shared = [(cell, CellPlace(cell, "").read()) for cell in self._shared.values()]
        try:
            with outside():
                yield
        finally:
            rebound = [(cell, CellPlace(cell, "").read()) for cell, before in shared if _holds_another(cell, before)]
            with use_interpreter(self.root):
                self.changes.refresh(stored, self.substitution.value)
            for x, before in contents:
                now = CellPlace(x.cell, "").read()
                if now is not before and now is not MISSING:
                    self.reads.spent = _CHANGED_BY_CACHED
                    self.reads.reach(now, CellPlace(x.cell, ""))
                    with use_interpreter(self.root):
                        x.new.cell_contents = self.substitution.value(now)
                    self.changes.refreshed(x.new)
            for cell, now in rebound:
                self.reads.spent = _CHANGED_BY_CACHED
                self.reads.reach(now, CellPlace(cell, ""))
                with use_interpreter(self.root):
                    self.changes.show_in(cell, self.substitution.value(now))
            for place, before in list(self.reads.found.values()):
                if isinstance(place, (AttributePlace, SlotPlace)) and not self.changes.is_stored(place):
                    now = place.read()
                    if now is not before:
                        self.reads.reach(now, place)

    def enter(self, function: FunctionType) -> None:
        """A function is about to be used: the classes its module defines get redirected methods."""
        self.reads.function(function)
        if asks_for_booleans(function.__code__):
            self.wants_booleans = True
            self.need_booleans()
        self.changes.bound |= stored_attributes(function.__code__)
        key = id(function.__globals__)
        if key not in self._entered:
            self._entered.add(key)
            for kind in self.substitution.namespace(function.__globals__).classes():
                self.patches.add(kind)

    @contextmanager
    def changing(self, again: Callable[[BaseException], bool]) -> Generator[None]:
        """The block runs the function.  What it has changed before an exception stays, unless it will be run again."""
        try:
            yield
        except Restart:
            raise
        except BaseException as error:
            with entered(None):
                if again(error):
                    self.changes.undo()
                else:
                    self.changes.keep(refuse=False)
            raise

    def keep(self) -> None:
        """The function has run: what it has changed stays.

        Raises: UnsupportedError if a traced array that depends on an argument would stay, or one of two containers is
        changed that only the program knows to be one.
        """
        self.loops.given.check()
        with entered(None):  # keys are hashed as they are outside
            self.changes.keep()

    def warn_of_state(self, value: Any) -> None:
        """Where the state of an object of Python's own classes is not followed, say so."""
        state = state_of(value)
        if state:
            warn_once(f"{state} {_NOT_FOLLOWED}", user_location())

    def warn_of(self, value: Any) -> None:
        """Where an object of an installed package holds items that are not followed, say so."""
        kind: Any = type(value)
        holds_items = any("__getitem__" in vars(base) for base in kind.__mro__)
        if holds_items and not module_of(kind).startswith(("tracejit.", "numpy")):
            warn_once(
                f"what is in an object of {module_of(kind)}.{kind.__qualname__} from outside is taken for a constant "
                "of the compiled "
                "program: only its attributes are followed; pass arrays as arguments, or call clear_cache() when it "
                "has changed",
                user_location(),
            )

    def restart(self) -> None:
        """The function is run again: what it has changed is undone."""
        with entered(None):
            self.changes.undo()
        self._containers.clear()
        self._shared.clear()
        self._begun.clear()

    def is_from_outside(self, x: Any) -> bool:
        """Whether an object, or what it stands for, was there before the function ran."""
        return self.reads.is_outside(x) or self.changes.stand_ins.is_one(x)

    def container(self, value: Any) -> Any:
        """A container from outside, with what stands for its items: a tuple, or a copy, one for the whole trace.

        A copy, because traced arrays must not get into the container itself; what the trace changes in it is put there
        at the end.
        """
        if not self.reads.is_outside(value) or self.changes.stand_ins.is_one(value):
            return value
        if hasattr(value, "__len__") and len(value) > MOST_ITEMS:
            self.changes.use(value)
            return value
        root = self.root
        key = id(value), id(root)
        known = self._containers.get(key)
        if known is None and type(value) is dict and self.patches.with_attributes:
            owner = self.reads.owner_of(value)
            if owner is not None:
                return self.own_attributes(owner, value)
        if known is not None:
            if key in self._begun:
                self._begun[key] = True
            return known[1]

        def begin(made: Any) -> None:  # before it is filled: a container may hold itself
            self._containers[key] = value, made

        begin(value)
        with use_interpreter(root):
            if isinstance(value, (tuple, frozenset)):
                self._begun[key] = False
                items = [self.substitution.value(item) for item in value]
                changed = any(item is not one for item, one in zip(items, value, strict=True))
                base: Any = tuple if isinstance(value, tuple) else frozenset
                found = base.__new__(type(value), items) if changed else value
                if changed and type(value).__dictoffset__:  # its attributes are those of the other
                    object.__setattr__(found, "__dict__", object.__getattribute__(value, "__dict__"))
                    self.reads.stands_for(found, value)
                if self._begun.pop(key) and changed:
                    self.changes.replace_in_copies(value, found)
            else:
                found = self.changes.copy(value, key, self.substitution.value, begin)
        self._containers[key] = value, found
        return found

    def once(self, value: Any, build: Callable[[Any], Any]) -> Any:
        """What stands for a `functools.partial` or a function that keeps its results, one for the whole trace."""
        root = self.root
        key = id(value), id(root)
        known = self._containers.get(key)
        if known is None:
            with use_interpreter(root):
                made = build(value)
            known = self._containers[key] = value, made
            if made is not value and type(value) is partial:
                self.changes.stand_in(value.keywords, made.keywords, key)
        return known[1]

    def own_attributes(self, owner: Any, held: dict[str, Any]) -> OwnAttributes:
        """What stands for the dict of an object's own attributes, one for the whole trace."""
        key = id(held), id(owner)
        known = self._attributes.get(key)
        if known is None:
            known = self._attributes[key] = held, OwnAttributes(owner, self.patches.attributes, self.reads.note)
            self.changes.stand_ins.add(known[1], held)
        known[1].show()
        return known[1]

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function that is traced, redirected."""
        owner = getattr(function, "__self__", function)
        if not self.has_made(owner):
            self.reads.reach(owner)
        return self.substitution.redirect(function)

    def has_made(self, owner: Any) -> bool:
        """Whether an object that is called, or a `functools.partial`, was made while tracing: it has traced arrays in
        it, or functions as they are traced.
        """
        return bool(self._clones) and type(owner) is not FunctionType and self.changes.has_made(owner)

    def argument(self, value: Any) -> Any:
        """What stands for an argument that is not traced: a function, an object of the user's."""
        self.reads.reach(value)
        return self.substitution.value(value)
