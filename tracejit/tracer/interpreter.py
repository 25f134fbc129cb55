"""`bind` and the current interpreter.

All operations go through `bind(primitive, *args)`, which hands them to the current interpreter: the eager one computes
with NumPy, the staging one records an equation, a transformation computes on pairs under the interpreter below it.  The
stack of interpreters is a linked list of parents held in a context variable, so threads and async tasks do not see each
other's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import ANYTHING, Range
from tracejit.ir.types import aval_of
from tracejit.support.errors import LeakedTracerError, Restart, TracejitError
from tracejit.support.source import user_location

if TYPE_CHECKING:
    from tracejit.ir.jaxpr import Equation
    from tracejit.tracer.cell import Cell
    from tracejit.tracer.failures import Failures
    from tracejit.tracer.tracer import Tracer

__all__ = [
    "EagerArray", "EvalInterpreter", "Interpreter", "Owned", "before_tracing", "bind", "current_interpreter", "eager",
    "enter", "in_program",
    "prepare", "surely_runs", "use_interpreter",
]  # fmt: skip


class EagerArray:
    """An array class of a layer above: what the eager interpreter does where one is among the operands."""

    __slots__ = ()

    @staticmethod
    def __evaluate__(primitive: Primitive, args: Sequence[Any]) -> tuple[Any, ...]:
        """The results of one operation."""
        raise NotImplementedError


class Owned:
    """What belongs to one interpreter, which alone can compute with it: the base of cells."""

    __slots__ = ("interpreter",)
    interpreter: Interpreter

    @property
    def value(self) -> Any:
        """The current value in the terms of `interpreter`."""
        raise NotImplementedError


class Interpreter:
    """What `bind` does.  `parent` is the interpreter below; `alive` ends with the trace that owns it."""

    name = "interpreter"
    is_part = False  # of the trace around it: what fails in it fails there (see `failures`)
    is_program = False
    certain = True  # what is traced runs, if what is around it does; a branch may not
    partial = False  # records only operations on its own tracers
    failures: Failures | None = None
    keeps_refusals = False  # what is refused while it traces is raised at its end, should the function catch it
    refused: TracejitError | Restart | None = None

    def __init__(self, parent: Interpreter | None) -> None:
        self.parent = parent
        self.alive = True
        self.checked: dict[Any, Any] = {}  # the indices that need no further check here

    def process(self, primitive: Primitive, args: Sequence[Any]) -> tuple[Any, ...]:
        """The results of one operation, always a tuple."""
        raise NotImplementedError

    def lift(self, value: Any) -> Tracer:
        """A value from outside as a tracer of this interpreter."""
        raise NotImplementedError

    def fresh(self, cell: Cell) -> Tracer:
        """A new array of this trace with the present value of one, which may belong to a trace around it."""
        raise NotImplementedError

    def seen(self, cell: Cell) -> Cell:
        """A tracer as the innermost trace around sees it: a loop or branch may have changed an array from outside."""
        return cell if self.parent is None or cell.interpreter is self else self.parent.seen(cell)

    def write(self, cell: Any, value: Any) -> None:
        """Put `value` into a tracer's cell (see `Cell.assign`)."""
        cell.store(self, value)

    # -- what it can tell of its tracers
    # --------------------------------------------------------------------------------------------
    def concrete(self, tracer: Cell) -> Any:
        """The value, where it is known, else None."""
        return None

    def made_here(self, tracer: Cell) -> Any:
        """The value, where it follows from nothing but arrays which the trace made, else None."""
        return None

    def lowered(self, tracer: Cell) -> Any:
        """The value for what is around it, where it depends on none of its arguments, else None."""
        return None

    def made_by(self, tracer: Cell) -> Equation | None:
        """The equation that made the value."""
        return None

    def value_range(self, tracer: Cell) -> Range:
        """Between which numbers the elements lie, if they are integers."""
        return ANYTHING

    def same_value(self, x: Cell, y: Cell) -> bool:
        """Whether two of them certainly have the same elements."""
        return False

    def distance(self, x: Cell, y: Cell) -> int | None:
        """The constant that an integer y is greater than x by, if that is known."""
        return None

    def loses_derivative(self, tracer: Cell) -> bool:
        """Whether a Python number made of the value would silently drop its derivative."""
        return False

    def need_value(self, tracer: Cell) -> None:
        """Python asks for a value: begin the trace again with it, if it can be had."""


def surely_runs() -> bool:
    """Whether what is traced here and now runs at each call: it is not in a branch,
    nor in a loop that may have no iteration.
    """
    interpreter: Interpreter | None = current_interpreter()
    while interpreter is not None:
        if not interpreter.certain:
            return False
        interpreter = interpreter.parent
    return True


def in_program() -> bool:
    """Whether what happens here and now becomes part of a program, where Python's branches and loops are compiled."""
    interpreter: Interpreter | None = current_interpreter()
    while interpreter is not None and not interpreter.is_program:
        interpreter = interpreter.parent
    return interpreter is not None


class EvalInterpreter(Interpreter):
    """Runs each primitive's `impl` at once, after its `abstract_eval`."""

    name = "eager"

    def process(self, primitive: Primitive, args: Sequence[Any]) -> tuple[Any, ...]:
        for a in args:
            if type(a) is np.ndarray:
                continue
            if isinstance(a, EagerArray):
                return a.__evaluate__(primitive, args)
            if isinstance(a, Owned):
                if a.interpreter is self:  # the cell of its failures
                    return self.process(
                        primitive, [x.value if isinstance(x, Owned) and x.interpreter is self else x for x in args]
                    )
                raise _leaked(a)
        # What a trace refuses is refused here too; NumPy would broadcast, promote or cut off in silence.
        primitive.abstract_eval(*[aval_of(a) for a in args])
        result = primitive.impl(*args)
        return tuple(result) if primitive.multiple_results else (result,)

    def fresh(self, cell: Cell) -> Tracer:
        """It has no arrays but those of a trace that has ended."""
        raise _leaked(cell)


def _leaked(tracer: Any) -> LeakedTracerError:
    if tracer.interpreter.alive:
        return LeakedTracerError(
            f"a traced array {tracer.aval} is used in another thread than the one that traces; do in one thread what "
            "is compiled together, "
            "or give each thread a compiled function of its own"
        )
    return LeakedTracerError(
        f"a traced array {tracer.aval} is used after its trace has ended; it was stored where it outlived its function"
    )


eager = EvalInterpreter(None)
_current: ContextVar[Interpreter] = ContextVar("tracejit_interpreter", default=eager)


def current_interpreter() -> Interpreter:
    """The interpreter `bind` hands operations to here and now."""
    return _current.get()


_preparations: list[Callable[[], Any]] = []


def before_tracing(prepare: Callable[[], Any]) -> None:
    """Run `prepare` once, before anything is traced: what a program that traces nothing need not import."""
    _preparations.append(prepare)


def prepare() -> None:
    """Run what `before_tracing` was given, now.  Several threads may do so at once."""
    for preparation in tuple(_preparations):
        preparation()
        with suppress(ValueError):  # another thread was as far
            _preparations.remove(preparation)


def enter(interpreter: Interpreter) -> None:
    """Make `interpreter` the current one until another is: for what cannot be a block, as a loop is in a generator."""
    if _preparations:
        prepare()
    _current.set(interpreter)


class use_interpreter:
    """Make `interpreter` the current one inside the block.  A class:
    entered for every operation of every transformation.
    """

    __slots__ = ("_interpreter", "_token")

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> Interpreter:
        if _preparations:
            prepare()
        self._token = _current.set(self._interpreter)
        return self._interpreter

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


watchers: list[Callable[[Primitive, Sequence[Any]], None]] = []
"""What looks at every primitive with its operands before it is applied; none as long as nothing needs it."""


def bind(primitive: Primitive, *args: Any) -> Any:
    """Apply a primitive.  One result, or a tuple when the primitive has several.

    Raises whatever the primitive's rules raise, with the user's line attached.
    """
    try:
        for watch in watchers:
            watch(primitive, args)
        results = _current.get().process(primitive, args)
    except TracejitError as error:
        error.about(primitive=primitive.name)
        if error.location is None:
            error.location = user_location()
        raise
    return results if primitive.multiple_results else results[0]
