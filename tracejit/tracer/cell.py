"""A cell: what stands for an array, or a number, while a function is traced.

It holds the current value in the terms of the interpreter that made it.  A write puts a new value into the cell, so the
recorded program stays pure.  A view holds its root cell and an index, reads through the root, and writes through it.
`tracer.py` makes an array of it, with NumPy's methods and Python's operators.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any, NoReturn
from weakref import ref

import numpy as np

from tracejit.ir.extents import Dim, Extent, Index
from tracejit.ir.ranges import ANYTHING, Range, fixed, for_all_iterations
from tracejit.ir.types import ShapedArray, aval_of
from tracejit.support.errors import ConcretizationError, LeakedTracerError, TracerError, UnsupportedError, meet
from tracejit.support.source import Location, user_location
from tracejit.support.typing import has_aval
from tracejit.tracer.advice import for_package
from tracejit.tracer.bytecode import catches_at
from tracejit.tracer.interpreter import Interpreter, Owned, current_interpreter, use_interpreter
from tracejit.tracer.layout import Layout
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.statements.decisions import as_python

__all__ = [
    "Cell", "aval_of_argument", "check_is_number", "class_of", "has_attribute", "is_number", "python_name",
]  # fmt: skip

_NONE: dict[int, Any] = {}
_NUMBERS = {np.dtype(kind): kind.__name__ for kind in (bool, int, float, complex)}


class Cell(Owned):
    """What stands for an array while a function is traced.  Shape and dtype are known, values are not."""

    __slots__ = (
        "_aval",
        "_value",
        "_version",
        "absence",
        "alternatives",
        "fixed",
        "index",
        "is_array",
        "layout",
        "location",
        "mixed",
        "of_loop",
        "root",
        "selection",
        "twins",
        "__weakref__",
    )

    def __init__(
        self, interpreter: Interpreter, value: Any, aval: ShapedArray, root: Cell | None = None, index: Any = None
    ) -> None:
        self.interpreter = interpreter
        self._value = value
        self._aval = aval
        self._version = 0
        self.root = root
        self.index = index
        self.twins: dict[int, tuple[ref[Cell], Any]] = _NONE  # by identity: arrays that it may turn out to be
        self.location = None
        self.alternatives: Any = None  # of what a branch gives: which of its results are certainly two arrays
        self.absence: Any = None  # when the name that has it has none, where that is known to the program alone
        self.mixed: Any = None  # of a mixed number: whether it is Python's
        self.of_loop: Any = None  # of what an iteration is handed: the loop, and the number that it has there
        self.layout: Layout = None  # of an array that is no view
        # of rank 0: an array, which `+=` changes, and not a number; None if only the values tell
        self.is_array: bool | None = False
        self.fixed = False  # a tj.Array's, which never changes: `+=` makes a new one
        if root is not None:
            self.fixed = root.fixed
            self._version = root.version
            if root.absence is not None:
                root.absence.use()

    # -- what it holds -------------------------------------------------------------------------------------------------
    @property
    def version(self) -> int:
        """How often the cell was written; a view has its root's."""
        return self._version if self.root is None else self.root.version

    @property
    def last_value(self) -> Any:
        """The value as it was when it was last asked for: of a view, what its root held then."""
        return self._value

    @property
    def value(self) -> Any:
        """The current value in the terms of `interpreter`."""
        root = self.root
        if root is None:
            return self._value
        base = root
        while base.root is not None:
            base = base.root
        # what a loop body has written into an outer array, its version does not tell
        outer = base.interpreter is not self.interpreter
        if outer or root.version != self._version:
            with use_interpreter(self.interpreter):  # a loop's body may be what asks for it
                read = OPERATORS.read_view(root, self.index)
                # the view was all of the root; else `value` would ask here again
                now = root.value if read is root else read._value
            if outer:
                return now
            self._value, self._version = now, root.version
        return self._value

    def assign(self, value: Any) -> None:
        """Put a traced value of the same shape and dtype into the cell, through the root if this is a view."""
        if self.absence is not None:
            self.absence.use()
        if self.root is not None:
            OPERATORS.setitem(self.root, self.index, value)
            return
        self.check_alone()
        check_is_number(self)
        current_interpreter().write(self, value)

    def may_be(self, other: Cell, by: Any = None) -> None:
        """Which arrays they are depends on the data: they may be one.  Neither is changed in place as long as both are
        there.

        by: the site of the loop that made it so, which Python can run instead, or the condition of the branch.
        """
        for twin in (other, *other.possible()):  # which it may then be as well, also once `other` is gone
            if twin is not self:
                self.twins = {**self.twins, id(twin): (ref(twin), by)}
                twin.twins = {**twin.twins, id(self): (ref(self), by)}

    def possible(self) -> list[Cell]:
        """The arrays which this may turn out to be that are still there."""
        return [found for other, _ in self.twins.values() if (found := other()) is not None]

    def alike(self) -> list[Cell]:
        """This, what it is a view of, and the arrays which that may turn out to be."""
        root = self
        while root.root is not None:
            root = root.root
        return [self, *([root] if root is not self else []), *root.possible()]

    def is_apart_from(self, other: Cell) -> bool:
        """Whether both are results of one branch or loop, and two arrays whatever data say."""
        mine = self.alternatives
        return mine is not None and mine is other.alternatives and {id(self), id(other)} in mine.two

    def check_alone(self) -> None:
        """Raises: UnsupportedError, or what has Python run a loop, for an array that may turn out to be another one."""
        for other, by in self.twins.values():
            found = other()
            if found is None or self.is_apart_from(found):
                continue
            why = "an array is changed in place that may be another one as well, depending on the data"
            if isinstance(by, Cell):
                by.ask()  # a flag among the arguments (`copy=True`) is no data
            elif by is not None:
                as_python(by, why)
            raise UnsupportedError(f"{why}; change a copy (x = x.copy())", location=user_location())

    def store(self, interpreter: Interpreter, value: Any) -> None:
        """Set the cell's value (called by the interpreter that owns it)."""
        if interpreter is not self.interpreter:
            raise UnsupportedError(
                f"an array made outside of `{interpreter.name}` is changed in place inside it; copy it first (x = "
                "x.copy()) "
                "or return the new value",
                location=user_location(),
            )
        self._value = value._value if isinstance(value, Cell) else value
        self._version += 1

    def seen(self) -> Cell:
        """What it is for the current trace: the body of a loop or branch may have changed it,
        or change it before it runs again.
        """
        current = current_interpreter()
        return self if current is self.interpreter else current.seen(self)

    # -- what it is ----------------------------------------------------------------------------------------------------
    @property
    def aval(self) -> ShapedArray:
        return self._aval

    @property
    def shape(self) -> tuple[Any, ...]:
        if self._aval.weak:
            has_attribute(self, "shape")
        return self._aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        if self._aval.weak:
            has_attribute(self, "dtype")
        return self._aval.dtype

    @property
    def ndim(self) -> int:
        if self._aval.weak:
            has_attribute(self, "ndim")
        return len(self._aval.shape)

    @property
    def is_scalar(self) -> bool:
        """Whether it is a number, and not an array of rank 0 or a view of one element (`x[..., 0]`)."""
        return not self._aval.shape and not self.is_array and self.root is None

    def weaken(self) -> None:
        """Make it stand for a Python number."""
        self._aval = ShapedArray(self._aval.shape, self._aval.dtype, True)

    def returned(self) -> None:
        """The traced function returns it: raises for what stands for an array of no known shape."""

    # -- what is known of its value ------------------------------------------------------------------------------------
    def concrete(self) -> Any:
        """The concrete value if this interpreter knows it, else None."""
        return self.interpreter.concrete(self)

    def known(self) -> Any:
        """The value that NumPy's functions may have for it, None if there is none or it would drop a derivative."""
        if not self.interpreter.alive or self.interpreter.loses_derivative(self):
            return None
        return self.seen().concrete()

    def _number(self) -> Any:
        """The concrete value where a transformation computes eagerly, as in NumPy,
        or where it depends on no argument of a trace.
        """
        known = self.seen().concrete() if self.interpreter.alive else None
        return None if known is None else known[()]

    def value_range(self) -> Range:
        """Between which numbers its elements lie, if it holds integers and the trace can tell."""
        return for_all_iterations(self.range_here())

    def range_here(self) -> Range:
        """The same in one iteration: the index of a loop may be in it."""
        return self.interpreter.value_range(self) if self.interpreter.alive else ANYTHING

    def extent(self) -> Extent | None:
        """The extent that this integer is, of the index of a loop, say; None if that is not known."""
        if self.shape or self.dtype.kind not in "iu":
            return None
        found = fixed(self.seen().range_here())
        if isinstance(found, Dim):
            for symbol in found.symbols():
                if isinstance(symbol, Index):
                    symbol.used = True
        return found

    def made(self) -> Any:
        """Its value if it follows from nothing but arrays which the trace made, else None."""
        return self.interpreter.made_here(self)

    def _refuse(self, what: str | Callable[[Cell, Location | None], tuple[str, str]], advice: str = "") -> NoReturn:
        if not self.interpreter.alive:
            raise LeakedTracerError(
                f"a traced array {self.aval} is used after the function that was traced had returned; return it "
                "instead of storing it",
                location=user_location(),
            )
        self.ask()
        location = user_location()
        asked = for_package()
        if asked is not None:
            what, advice, location = asked
        elif not isinstance(what, str):
            what, advice = what(self, location)
        raise _noted(
            ConcretizationError(
                f"{what} needs the value of a traced array {self.aval}, which is not known while tracing; {advice}",
                location=location,
            )
        )

    def ask(self) -> None:
        """Begin the trace again with the value, if it can be had:
        it follows from Python numbers among the arguments.
        """
        if self.interpreter.alive:
            self.interpreter.need_value(self)


def _noted(error: ConcretizationError) -> ConcretizationError:
    """An error that NumPy's arrays would not raise: the trace raises it again if the function catches it."""
    meet(error)
    interpreter = current_interpreter()
    while interpreter is not None:
        if interpreter.keeps_refusals and interpreter.refused is None:
            interpreter.refused = error
            break
        interpreter = interpreter.parent
    return error


def is_number(x: Cell) -> bool:
    """Whether it stands for a Python number."""
    aval = x.aval
    return aval.weak and not aval.shape and not x.is_array and aval.dtype in _NUMBERS


OF_ATTRIBUTES = frozenset({"AttributeError", "Exception", "BaseException"})
"""The classes of errors by which a missing attribute is caught."""


def has_attribute(x: Cell, name: str) -> None:
    """Raises AttributeError where a traced function asks a Python number for an attribute of arrays within an `except`
    for it, as in `try: n = x.shape[0]`.  What does not ask so may have the attribute: numbers of JAX's loops do.

    To be called by what Python calls for the attribute.
    """
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    if type(frame.f_globals) is dict or not is_number(x):
        return
    if catches_at(frame.f_code, frame.f_lasti) or OPERATORS.may_be_caught(OF_ATTRIBUTES):
        raise AttributeError(f"{python_name(x)!r} object has no attribute {name!r}")


def python_name(x: Cell) -> str:
    """The name of the Python number's type that it stands for."""
    return _NUMBERS[x.aval.dtype]


def check_is_number(x: Cell) -> None:
    """Raises: UnsupportedError where data decide whether something that would change is a number or an array."""
    if x.is_array is None and not x.aval.shape:
        raise UnsupportedError(
            "whether this is a number, or an array of rank 0, which would change in place, depends on data (a loop or "
            "branch hands on either); make it a number (x = x + 0) or an array of one element",
            location=user_location(),
        )


def tell_apart(x: Any, y: Any) -> bool:
    """False: two arrays are not one, as far as is known, and loops see to it that what they hand on never is.

    Raises: their errors, at their ends.
    """
    ones, others = (z.alike() if isinstance(z, Cell) else [] for z in (x, y))
    for one, other in [*itertools.product(ones, others), *itertools.product(others, ones)]:
        if one.of_loop is not None:
            loop, number = one.of_loop
            loop.told_apart.append((number, other, other.of_loop))
    return False


def class_of(x: Cell) -> type:
    """The class of what it stands for.  Raises: TracerError where that may be None's, depending on data."""
    if x.absence is not None and not x.absence.none:
        x.absence.use()
    if x.absence is not None and x.absence.none:
        raise TracerError(
            f"the class of {x.absence.name!r}, which is None or a value, is known to the program alone; ask "
            f"`{x.absence.name} is None` first",
            location=user_location(),
        )
    if x.mixed is not None:
        raise TracerError(
            f"whether a number is a Python integer or a NumPy {x.dtype} is known to the program alone; make it one of "
            "Python's where it is NumPy's (int(x[i]))",
            location=user_location(),
        )
    check_is_number(x)
    if x.aval.weak and not x.shape:
        kind: type = {"b": bool, "i": int, "u": int, "c": complex}.get(x.dtype.kind, float)
    else:
        kind = x.dtype.type if x.is_scalar else np.ndarray
    if x.of_loop is not None:
        loop, number = x.of_loop
        loop.check_class(number, kind)
    return kind


def aval_of_argument(x: Any) -> ShapedArray:
    """The abstract value of a runtime argument: tracer, array or number."""
    return x.aval if has_aval(x) else aval_of(x)
