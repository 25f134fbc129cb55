"""The interpreter that records equations, and what the traces in progress know of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, DimDependent, Extent, Index, Shape, prod
from tracejit.ir.jaxpr import Atom, Equation, Literal, Var
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import ANYTHING, Range
from tracejit.ir.types import ShapedArray, aval_of
from tracejit.support.errors import (
    LeakedTracerError,
    TracerError,
    UnsupportedError,
)
from tracejit.support.source import user_location, warn_once
from tracejit.support.typing import has_aval
from tracejit.tracer.cell import Cell
from tracejit.tracer.interpreter import Interpreter, current_interpreter, use_interpreter
from tracejit.tracer.known import MOST_CONTENT, TAKEN_FOR_CONSTANT, KnownRanges, KnownValues, range_of_array
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.restarts import NeedValue
from tracejit.tracer.same import same_value
from tracejit.tracer.tracer import Tracer

__all__ = [
    "StageInterpreter", "left_early", "recording", "recording_of", "sizes_of_inputs", "symbols_here",
    "with_masks_by_value",
]  # fmt: skip


class StageInterpreter(Interpreter):
    """Records equations.  Values of outer interpreters and NumPy arrays become captured inputs;
    scalars become literals.

    With `partial` only operations on its own tracers are recorded, all others go to the parent: the recorder of linear
    programs.
    """

    name = "jit"
    is_part = True
    keeps_refusals = True

    def __init__(
        self,
        parent: Interpreter | None,
        *,
        partial: bool = False,
        specialise: Callable[[Var], int | None] | None = None,
    ) -> None:
        super().__init__(parent)
        self.equations: list[Equation] = []
        self.inputs: list[Var] = []
        self.captured: dict[tuple[int, int], Var] = {}  # (identity, version) -> input
        self._identities: list[Any] = []  # what was captured, kept alive so that no identity is given out twice
        self.constants: list[Any] = []
        self.captured_cells: dict[int, tuple[Tracer, Var]] = {}
        self.partial = partial
        self.cells: dict[int, tuple[Tracer, Any]] = {}  # outer cells written inside: id -> (cell, value here)
        self.first_writes: dict[int, int] = {}  # cell of this trace -> how many equations came before its first change
        self._specialise = specialise
        self.ranges: dict[Var, Range] = {}  # of inputs that count
        self._known = KnownValues(self.equations, self._given)
        self._ranges = KnownRanges(self._known, self._range_given)
        around = parent
        while around is not None and not isinstance(around, StageInterpreter):
            around = around.parent
        self._looked_into: dict[int, Any] = {} if around is None else around._looked_into
        # arrays from outside, under their identities: what they hold is no constant for the traces around, either
        self._outside: dict[int, Any] = {} if around is None else around._outside
        # loops over tj.range rely on no value of an array from outside
        self.careful: bool = around is not None and around.careful
        # it, or a trace around it, is that of a program
        self.of_program: bool = around is not None and around.of_program
        self.masks_by_value: bool = around is not None and around.masks_by_value
        self.open_loops = 0  # over tj.range, whose bodies are being traced
        self.relied_on: set[Var] = set()  # arrays from outside of which a value was asked for and known
        self._made_here: set[int] = set()

    def forget(self) -> None:
        """Let go the cells of traces around: who asks later which of them are still there shall not find them here."""
        self._identities.clear()
        self.captured_cells.clear()
        self.cells.clear()

    def new_input(self, aval: ShapedArray) -> Tracer:
        var = Var(aval)
        self.inputs.append(var)
        return Tracer(self, var, aval)

    def lift(self, value: Any) -> Tracer:
        atom = self.atom(value)
        return Tracer(self, atom, atom.aval)

    def need_value(self, tracer: Cell) -> None:
        """Ask for a restart if the tracer follows from arguments whose values the caller has."""
        if self._specialise is None or not isinstance(tracer.value, Var):
            return
        captured = set(self.captured.values())
        positions = [self._specialise(var) for var in self._known.sources(tracer.value) if var not in captured]
        if positions and positions[0] is not None and None not in positions:
            self.refused = NeedValue(positions[0], user_location())  # should a bare `except:` catch it
            raise self.refused

    def concrete(self, tracer: Cell) -> Any:
        """The value of a tracer that depends on no argument, None for others.  It becomes part of the trace."""
        return None if self.partial else self._known.value(self.atom(tracer))

    def made_here(self, tracer: Cell) -> Any:
        """The value of a tracer that follows from nothing but arrays which the trace itself made, None for others."""
        if tracer.interpreter is not self or self.partial:
            return None
        atom = self.atom(tracer)
        if not isinstance(atom, Literal) and not all(map(self._is_made, self._known.sources(atom))):
            return None
        try:
            return self._known.value(atom)
        except DimDependent:  # what it is follows from an extent
            return None

    def _is_made(self, var: Var) -> bool:
        """Whether an input is an array that the trace made, or one around it."""
        for value, captured in zip(self.constants, self.captured.values(), strict=True):
            if captured is var:
                return value.made() is not None if isinstance(value, Tracer) else id(value) in self._made_here
        return False

    def lowered(self, tracer: Cell) -> Any:
        """The value for the trace around, where it is known."""
        known = self.concrete(tracer)
        around = self.parent
        if known is None or around is None or (not tracer.shape and not tracer.is_array):
            return known
        if isinstance(around, StageInterpreter) and not around.partial:
            return Tracer(around, around.constant(np.array(known)), tracer.aval)
        return around.lift(np.array(known)) if around.parent is not None else known

    def made_by(self, tracer: Cell) -> Equation | None:
        """The equation that computes a tracer, None for an input."""
        return next((e for e in reversed(self.equations) if tracer.last_value in e.outputs), None)

    def value_range(self, tracer: Cell) -> Range:
        """Between which numbers the elements of a tracer of integers lie."""
        return ANYTHING if self.partial else self._ranges.of(self.atom(tracer))

    def _range_given(self, var: Var) -> Range:
        known = self.ranges.get(var)
        if known is not None:
            return known
        for place, (value, captured) in enumerate(zip(self.constants, self.captured.values(), strict=True)):
            if captured is var:
                if isinstance(value, Tracer):
                    return ANYTHING if self._may_change(place) else self._relying(var, value.range_here(), ANYTHING)
                return range_of_array(value) if id(value) in self._made_here else ANYTHING
        return ANYTHING

    @property
    def looked_into(self) -> list[Any]:
        """The captured arrays whose elements became part of the trace."""
        return list(self._looked_into.values())

    def _given(self, var: Var) -> Any:
        for place, captured in enumerate(self.captured.values()):
            if captured is var:
                value = self.constants[place]
                if isinstance(value, Tracer):
                    return None if self._may_change(place) else self._relying(var, value.concrete(), None)
                if id(value) not in self._made_here:
                    self._look_into(value)
                return np.array(value)
        return None

    def _look_into(self, array: np.ndarray[Any, Any]) -> None:
        if id(array) not in self._looked_into:
            self._looked_into[id(array)] = array
            if array.nbytes > MOST_CONTENT:
                warn_once(
                    f"an array {aval_of(array)} from outside, whose values decide here, {TAKEN_FOR_CONSTANT}",
                    user_location(),
                )

    def _may_change(self, place: int) -> bool:
        """Whether what was captured there must be taken for an array that the body of a loop changes later on."""
        captured = self._identities[place]
        return self.careful and self.name == "range" and (bool(captured.shape) or captured.is_array)

    def _relying(self, var: Var, known: Any, unknown: Any) -> Any:
        """What is known of a captured array: nothing in the program may turn out to depend on it if the array
        changes.
        """
        if known is not unknown:
            self.relied_on.add(var)
        return known

    def same_value(self, x: Cell, y: Cell) -> bool:
        """Whether two arrays have the same elements (see `same.same_value`)."""
        return self._same(self.atom(x), self.atom(y))

    def distance(self, x: Cell, y: Cell) -> int | None:
        """The constant that an integer y is greater than x by, where both are sums of one value and constants."""
        (one, less), (other, more) = (self._with_offset(self.atom(z)) for z in (x, y))
        return more - less if self._same(one, other) else None

    def _with_offset(self, atom: Atom) -> tuple[Atom, int]:
        """(a value, the constants that make `atom` of it, added)."""
        total = 0
        while isinstance(atom, Var):
            made = self._known.producer(atom)
            name = None if made is None else made.primitive.name
            if made is None or name not in ("add", "sub") or atom.aval.shape or atom.aval.dtype.kind != "i":
                break
            one, other = made.inputs
            if name == "add" and isinstance(one, Literal):
                one, other = other, one
            if not isinstance(other, Literal):
                break
            atom, total = one, total + (int(other.value) if name == "add" else -int(other.value))
        return atom, total

    def _same(self, one: Atom, other: Atom) -> bool:
        pending: list[tuple[Atom, Atom]] = [(one, other)]
        seen: set[tuple[int, int]] = set()
        while pending:
            a, b = pending.pop()
            if a is b or (id(a), id(b)) in seen:
                continue
            seen.add((id(a), id(b)))
            if isinstance(a, Literal) or isinstance(b, Literal):
                if not (
                    isinstance(a, Literal)
                    and isinstance(b, Literal)
                    and a.aval == b.aval
                    and a.value.tobytes() == b.value.tobytes()
                ):
                    return False
                continue
            made, again = self._known.producer(a), self._known.producer(b)
            if made is None or again is None:
                if made is not again or not self._captured_alike(a, b):
                    return False
                continue
            if made.primitive != again.primitive or made.outputs.index(a) != again.outputs.index(b):
                return False
            pending += zip(made.inputs, again.inputs, strict=True)  # a primitive takes as many operands each time
        return True

    def _captured_alike(self, a: Var, b: Var) -> bool:
        """Whether two inputs are the same array from outside."""
        places = [place for var in (a, b) for place, captured in enumerate(self.captured.values()) if captured is var]
        if len(places) < 2 or any(map(self._may_change, places)) or self.parent is None:
            return False
        with use_interpreter(self.parent):
            if not same_value(*[self.constants[place] for place in places]):
                return False
        self.relied_on.update((a, b))
        return True

    def _owns(self, x: Any) -> bool:
        return isinstance(x, Tracer) and (x.interpreter is self or id(x) in self.cells)

    def atom(self, x: Any) -> Atom:
        """The atom of an argument: own tracer, scalar literal, or captured value."""
        if isinstance(x, Tracer):
            if x.interpreter is self:
                return x.value
            # a view of an outer array reads through it here: it may be changed here
            if x.root is not None and not self.partial:
                self._check_alive(x)
                read: Any = OPERATORS.read_view(x.root, x.index)
                # its `value` would be read again, and so twice as often for each view of a view
                fresh = isinstance(read, Tracer) and read is not x.root and read.interpreter is self
                return read.last_value if fresh else self.atom(read)
            if id(x) in self.cells:
                return self.cells[id(x)][1]
            self._check_alive(x)
            return self._capture(x, x, x.aval)
        if has_aval(x):
            return self._capture(x, x, x.aval)
        aval = aval_of(x)
        return self._capture(x, x, aval) if aval.shape or id(x) in self._outside else Literal(x, aval)

    def _check_alive(self, x: Tracer) -> None:
        interpreter = self.parent
        while interpreter is not None:
            if interpreter is x.interpreter:
                return
            interpreter = interpreter.parent
        if x.interpreter.name == "range":
            raise LeakedTracerError(
                f"a traced array {x.aval} of the body of a loop over tj.range is used after the loop; put it into an "
                "array that was made "
                "before the loop (y[...] = value)",
                location=user_location(),
            )
        raise LeakedTracerError(
            f"a traced array {x.aval} of another trace is used here; it was stored where it outlived its function",
            location=user_location(),
        )

    def capture(self, array: np.ndarray[Any, Any]) -> Var:
        """The input for an array from outside, whose elements are read at each call whatever its rank."""
        self._outside[id(array)] = array
        return self._capture(array, array, aval_of(array))

    def constant(self, array: np.ndarray[Any, Any]) -> Var:
        """The input for an array that the trace made and that nobody changes."""
        self._made_here.add(id(array))
        return self._capture(array, array, aval_of(array))

    def _capture(self, key: Any, value: Any, aval: ShapedArray) -> Var:
        # A written outer cell is a new value under the same identity, hence the version in the key.
        ident = (id(key), key.version if isinstance(key, Tracer) else 0)
        var = self.captured.get(ident)
        if var is None:
            # its arithmetic may be another
            if isinstance(value, np.ndarray) and type(value) not in (np.ndarray, np.memmap):
                kind: Any = type(value)
                raise UnsupportedError(
                    f"a {kind.__module__}.{kind.__qualname__} is used in traced code: subclasses of ndarray are not "
                    "supported; "
                    "use np.asarray(x)",
                    location=user_location(),
                )
            if isinstance(value, Tracer):
                value = self._snapshot(value)  # before anything is noted: it may end in a RecursionError
            var = self.captured[ident] = Var(aval.strong() if not isinstance(key, Tracer) else aval)
            self.constants.append(value)
            if isinstance(key, Tracer):
                self.captured_cells[id(key)] = (key, var)
            self._identities.append(key)
        return var

    def fresh(self, cell: Cell) -> Tracer:
        if self.partial and not self._owns(cell):
            assert self.parent is not None
            return self.parent.fresh(cell)
        made = Tracer(self, self.atom(cell), cell.aval)
        made.is_array = cell.is_array
        return made

    def seen(self, cell: Cell) -> Cell:
        if self.partial or cell.interpreter is self:
            return super().seen(cell)
        with use_interpreter(self):
            return Tracer(self, self.atom(cell), cell.aval)

    def _snapshot(self, cell: Tracer) -> Tracer:
        """The present value of a captured cell, as the trace around sees it:
        a later write to the cell must not count.
        """
        assert self.parent is not None
        found = self.parent.seen(cell)
        return Tracer(found.interpreter, found.value, found.aval)

    def process(self, primitive: Primitive, args: Sequence[Any]) -> tuple[Any, ...]:
        if self.partial and not any(self._owns(a) for a in args):
            assert self.parent is not None
            with use_interpreter(self.parent):
                return self.parent.process(primitive, args)
        atoms = tuple([self.atom(a) for a in args])
        avals = primitive.abstract_eval(*[a.aval for a in atoms])
        out_avals = avals if primitive.multiple_results else (avals,)
        outputs = tuple([Var(a) for a in out_avals])
        self.equations.append(Equation(primitive, atoms, outputs, user_location(2)))
        return tuple([Tracer(self, v, v.aval) for v in outputs])

    def write(self, cell: Any, value: Any) -> None:
        if cell.interpreter is self:
            self.first_writes.setdefault(id(cell), len(self.equations))
            cell.store(self, Tracer(self, self.atom(value), cell.aval))
            return
        self._check_alive(cell)
        between = self.parent
        while isinstance(between, StageInterpreter) and between is not cell.interpreter:
            between = between.parent
        if between is not cell.interpreter:
            cell.store(self, value)  # refuses: a transformation lies between
        self.cells[id(cell)] = (cell, self.atom(value))


def sizes_of_inputs() -> list[Extent]:
    """How many elements the arrays have that the trace in progress was given, from the innermost trace out."""
    found: list[Extent] = []
    interpreter: Interpreter | None = current_interpreter()
    while interpreter is not None:
        if isinstance(interpreter, StageInterpreter):
            found += [prod(var.aval.shape) for var in interpreter.inputs]
        interpreter = interpreter.parent
    return found


def left_early() -> TracerError:
    """The error for a loop over tj.range whose body is not run to its end."""
    return TracerError(
        "a loop over tj.range is left early (break, return or an exception); its body is traced once and stands for "
        "every iteration; "
        "use tj.lax.while_loop, or Python's range for a loop that is unrolled",
        location=user_location(),
    )


def with_masks_by_value() -> bool | None:
    """Whether the trace at hand has the values of masks that follow from arrays outside;
    None if it cannot start again to have them.
    """
    interpreter: Interpreter | None = current_interpreter()
    while interpreter is not None and not isinstance(interpreter, StageInterpreter):
        interpreter = interpreter.parent
    return interpreter.masks_by_value if interpreter is not None and interpreter.of_program else None


def recording_of(interpreter: Interpreter | None) -> StageInterpreter | None:
    """What records a program at the bottom of the transformations in progress, if anything:
    a loop is then one operation.
    """
    while interpreter is not None:
        if isinstance(interpreter, StageInterpreter) and not interpreter.partial:
            return interpreter
        interpreter = interpreter.parent
    return None


def recording() -> StageInterpreter | None:
    """What records a program, if anything does here and now."""
    return recording_of(current_interpreter())


def symbols_here() -> frozenset[str]:
    """The symbolic extents of what a program is recorded for."""
    found, shapes = recording(), list[Shape]()
    while found is not None:
        shapes += [v.aval.shape for v in found.inputs]
        found = recording_of(found.parent)
    every = frozenset[str]().union(*[n.symbols() for shape in shapes for n in shape if isinstance(n, Dim)])
    return frozenset(s for s in every if not isinstance(s, Index))
