"""Bodies of loops and branches: staged once, on fresh arrays.

Arrays of the surrounding function that a body changes in place become further carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, surely_at_most
from tracejit.ir.jaxpr import Atom, Jaxpr, Literal, Var, bound_symbols, symbols_of
from tracejit.ir.ranges import Range
from tracejit.ir.text import print_jaxpr
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import LeakedTracerError, Restart, TracerError, UnsupportedError
from tracejit.support.nodes import evolve
from tracejit.support.source import user_location
from tracejit.support.tree import LEAF, TreeDef, flatten, flatten_like, split_node, unflatten
from tracejit.tracer.absence import absence_of, perhaps, unmarked, used
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.contents import same
from tracejit.tracer.interpreter import Interpreter, current_interpreter, eager, use_interpreter
from tracejit.tracer.layout import UNKNOWN, Layout, same_layout
from tracejit.tracer.mixed import is_pythons, mixed_among
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.python_state import PythonState, is_array_alone
from tracejit.tracer.recorder import StageInterpreter
from tracejit.tracer.redirect import prepared
from tracejit.tracer.slots import HeldChanges
from tracejit.tracer.stage import Staged, stage
from tracejit.tracer.tracer import Tracer

__all__ = [
    "Again",
    "Body",
    "IndexDecides",
    "alike",
    "are_alike",
    "apart",
    "as_number",
    "carried",
    "check_none_mixed",
    "in_64_bits",
    "is_positive",
    "layouts_of",
    "leaves_like",
    "leaves_of",
    "may_be_state",
    "lying",
    "own",
    "redirected",
    "settle",
    "OF_ITS_OWN_LENGTH",
    "settle_layouts",
    "strong",
    "takes",
    "varies",
]


class IndexDecides(TracerError):
    """What the body of a loop does depends on the value of its index, which is in an extent there.

    apart: how many iterations at the beginning and at the end are the reason, if that is known.
    """

    def __init__(self, apart: tuple[int, int] | None) -> None:
        super().__init__(
            "what a loop does with an array as long as its index differs from one iteration to another (where that is "
            "0 or 1, say); begin the loop later, or end it earlier, and write these iterations apart",
            location=user_location(),
        )
        self.apart = apart


def leaves_of(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree, as arrays or numbers, and its structure."""
    leaves, treedef = flatten(tree)
    return [_array(x) for x in leaves], treedef


def _array(x: Any) -> Any:
    return x if isinstance(x, (Tracer, np.ndarray, np.generic, bool, int, float, complex)) else np.asarray(x)


def apart(tree: Any) -> Any:
    """A tree with arrays of their own in place of its arrays: what a body changes or returns is no array
    of its surroundings.
    """
    absence = absence_of(tree)
    if absence is not None:  # which of its values it has, or None, the caller asks
        return perhaps(apart(unmarked(tree)), absence.flag, absence.name, none=absence.none)
    split = split_node(tree)
    if split is None:
        return own(tree)
    kind, data, children = split
    return unflatten(TreeDef(kind, data, (LEAF,) * len(children)), [apart(x) for x in children])


def check_none_mixed(tree: Any) -> None:
    """The program fails where a number that is handed on without a flag is mixed, and Python's."""
    for x in mixed_among(flatten(tree)[0]):
        OPERATORS.check_mixed(x.mixed)


def own(x: Any) -> Any:
    """An array that shares nothing with x, laid out as a copy of it; a number as it is."""
    if isinstance(x, np.ndarray):
        return np.array(x, order="K")
    if not isinstance(x, Tracer):
        return x
    made = current_interpreter().fresh(x)
    made.layout, made.mixed = OPERATORS.layout_of_copy(x), x.mixed
    return made


def redirected(function: Callable[..., Any]) -> Callable[..., Any]:
    """A body as it is traced: outside of a trace nobody has redirected it yet,
    and its changes of outer arrays would happen once.
    """
    return prepared(function) if current_interpreter() is eager else function


def layouts_of(leaves: Sequence[Any]) -> list[Layout]:
    """How arrays lie that are handed into or out of a body: as copies of them."""
    return [OPERATORS.layout_of_copy(x) if isinstance(x, (Tracer, np.ndarray)) else None for x in leaves]


def lying(x: Any, layout: Layout) -> Any:
    """A result, whose layout is known; without a trace one of rank 0 is a NumPy scalar,
    as compiled functions give it.
    """
    if isinstance(x, np.ndarray) and not x.ndim:
        return x[()]
    if isinstance(x, Tracer):
        x.layout = layout
    return x


class Again(Restart):
    """A body is to be traced again, or left out: what it has done to Python's objects must be nothing."""


_NOT_TWICE = "the body of a loop or branch", "return the value as part of the state"


class Body:
    """A staged body: jaxpr over (captured values, changed outer arrays, arguments).

    cells: outer arrays that it may change; those that it does are its `cells` then, the others are captured.  Others
    that it changes are found by tracing it, and it is traced again.  once: it runs at most once, so that these are
    captured like all others, and listed in `staged`.  as_given: all cells stay its `cells`.

    repeats: what it puts under new names and keys is there in the next iteration, be it arrays alone: it is traced with
    that, too, and refused where it would do another thing.  Otherwise arrays are taken for what a cache keeps.

    converted: what becomes of the results.  flagged: whether results that are mixed numbers come with their flags.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        avals: Sequence[ShapedArray],
        cells: Sequence[Tracer] = (),
        ranges: Mapping[int, Range] | None = None,
        layouts: Sequence[Layout] = (),
        *,
        certain: bool = False,
        once: bool = False,
        as_given: bool = False,
        repeats: bool = False,
        converted: Callable[..., Sequence[Any]] | None = None,
        flagged: bool = False,
    ) -> None:
        self.tree: TreeDef | None = None
        self.layouts: list[Layout] = []  # of the results
        self.weak: list[bool] = []  # which of them are Python numbers
        self.pythons: list[bool | None] = []  # and which integers were before they were converted: None where mixed
        cells = list(cells)
        held = PythonState((function,), certain=certain and not once)
        seen: tuple[str, list[Any]] | None = None  # what it computes, and from what
        put: dict[Any, Any] = {}  # under new names and keys
        rounds = 0
        try:
            while True:
                rounds += 1
                left: list[bool] = []

                def flat(*tracers: Any) -> Sequence[Any]:
                    result, self.tree = leaves_of(function(*tracers))
                    for x in result:
                        used(x)  # statements hand on a flag of their own where it may be None
                        if type(x) is int and not -(2**63) <= x < 2**63:
                            raise UnsupportedError(
                                f"a loop or branch of the program hands on integers of 64 bits, and {x} is none; use "
                                "float(x), or an array of np.uint64",
                                location=user_location(),
                            )
                    pythons = [is_pythons(x) for x in result]
                    self.pythons = [x if isinstance(x, bool) else None for x in pythons]
                    if converted is not None:
                        result = [*converted(*result)]
                    self.layouts = layouts_of(result)
                    self.weak = [aval_of_argument(x).weak for x in result]
                    if not flagged and mixed_among(result):
                        raise UnsupportedError(
                            "the body of a loop returns a number that is Python's or NumPy's, depending on data; make "
                            "it one of them (int(x), np.int8(x))",
                            location=user_location(),
                        )
                    return [*result, *[x for x in pythons if flagged and not isinstance(x, bool)]]

                try:
                    staged: Staged = stage(
                        flat,
                        avals,
                        own_changes=True,
                        cells=cells,
                        ranges=ranges,
                        layouts=layouts,
                        certain=certain,
                        finish=lambda _, left=left: left.append(varies(current_interpreter(), held.filled())),
                    )
                except Again:  # it begins with what it has left
                    held.check(*_NOT_TWICE)
                    raise
                except HeldChanges as error:  # of a body within this one, which no statement hands on
                    held.check(*_NOT_TWICE)
                    error.slots = ()
                    raise
                except LeakedTracerError as error:
                    if put:  # it reads what the iteration before it has put somewhere
                        raise filled_a_cache("the body of a loop or branch") from error
                    raise
                # of each: two may cancel out
                held.check(*_NOT_TWICE)
                # What it has put somewhere is there in the next iteration, which is to be the same.
                added = held.added_now()
                done = None
                if left[0] or may_be_state(added) or (repeats and added):
                    done = _text(staged.jaxpr, len(cells)), list(map(_source, staged.constants))
                same = seen is None or (
                    done is not None and done[0] == seen[0] and all(map(_is_like, done[1], seen[1]))
                )
                alike = done is None or (seen is not None and same and are_alike(put, added))
                if not same or (rounds == _MOST_ROUNDS and not alike):
                    raise filled_a_cache("the body of a loop or branch")
                seen, put = done, added
                if once or (alike and not staged.outer_cells):
                    break
                cells += [c for c, _ in staged.outer_cells]
        except BaseException:
            held.forget()
            raise
        self.keeps = bool(put)
        _check_lengths(staged.jaxpr)
        self.staged = staged
        self.flags = self.pythons.count(None) if flagged else 0
        self.count = len(staged.jaxpr.outputs) - len(cells) - self.flags
        n, k = len(avals), len(cells)
        inputs, outputs = staged.jaxpr.inputs, staged.jaxpr.outputs
        after = outputs[self.count + self.flags :]
        kept = [m for m in range(k) if as_given or after[m] is not inputs[n + m]]
        same = [m for m in range(k) if m not in kept]
        self.cells = [cells[m] for m in kept]
        self.constants = (*staged.constants, *[cells[m] for m in same])
        # Inputs come as arguments, cells, captured; kernels of loops want captured, then cells, then arguments.
        self.jaxpr = Jaxpr(
            (*inputs[n + k :], *[inputs[n + m] for m in same], *[inputs[n + m] for m in kept], *inputs[:n]),
            staged.jaxpr.equations,
            (*outputs[: self.count + self.flags], *[after[m] for m in kept]),
        )

    def convert(self, function: Callable[..., Sequence[Any]]) -> bool:
        """Has its results from now on converted by `function`; whether that can be done.

        Where it can, nothing is traced again: with nested bodies that would double at every level.
        """
        after = Body(function, self.out_avals(), layouts=self.layouts, once=True)
        if after.constants or after.staged.outer_cells:  # it may fail
            return False
        given: dict[Atom, Atom] = dict(zip(after.jaxpr.inputs, self.jaxpr.outputs, strict=False))
        equations = [evolve(e, inputs=tuple([given.get(a, a) for a in e.inputs])) for e in after.jaxpr.equations]
        results = [given.get(a, a) for a in after.jaxpr.outputs]
        outputs = (*results, *self.jaxpr.outputs[self.count :])
        self.jaxpr = Jaxpr(self.jaxpr.inputs, (*self.jaxpr.equations, *equations), outputs)
        self.layouts, self.weak = after.layouts, after.weak
        return True

    def flags_of(self, numbers: Sequence[int]) -> None:
        """From now on the results end in the flags of these, whether they are mixed or not."""
        found = iter(self.jaxpr.outputs[self.count :])
        flags = {k: next(found) for k, python in enumerate(self.pythons) if python is None}
        flag = ShapedArray((), np.bool_)
        outputs = [flags[k] if k in flags else Literal(self.pythons[k], flag) for k in numbers]
        self.jaxpr = Jaxpr(self.jaxpr.inputs, self.jaxpr.equations, (*self.jaxpr.outputs[: self.count], *outputs))

    def out_avals(self) -> tuple[ShapedArray, ...]:
        """Of the results: a Python number is known by its traced value, not by what the program computes."""
        return tuple(
            [
                ShapedArray(a.shape, a.dtype, w)
                for a, w in zip(self.jaxpr.out_avals[: self.count], self.weak, strict=True)
            ]
        )


_MOST_ROUNDS = 8
"""How often a body is traced until what it puts under new names and keys is the same: a count never is."""

OF_ITS_OWN_LENGTH = (
    "{} has in a loop or branch of the program as many elements as data say, so that it cannot be handed on; use what "
    "follows from it there (its sum, its length), np.where(mask, x, other), or Python's own for, while and if"
)


def are_alike(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> bool:
    """Whether an iteration has put the same somewhere as the one before it: arrays of its own, or what was there."""
    return before.keys() == now.keys() and all(_is_like(x, now[key]) for key, x in before.items())


def _is_like(x: Any, y: Any) -> bool:
    if type(x) is tuple and type(y) is tuple:
        return len(x) == len(y) and all(map(_is_like, x, y))
    return x is y or (not isinstance(x, Tracer) and same(x, y))


def _source(x: Any) -> Any:
    """What a captured array is in the program around: a variable, or an array of NumPy's."""
    while isinstance(x, Tracer):
        x = x.value[0] if type(x.value) is tuple else x.value
    return x


def may_be_state(added: Mapping[Any, Any]) -> bool:
    """Whether among what an iteration has put somewhere is another thing than arrays, from which the next may go on."""
    return not all(isinstance(x, np.ndarray) or is_array_alone(x) for x in added.values())


def _check_lengths(jaxpr: Jaxpr) -> None:
    """Raises: UnsupportedError where a result has as many elements as the body computes."""
    bound = bound_symbols(jaxpr.equations)
    if bound and not bound.keys().isdisjoint(symbols_of(Jaxpr([], [], jaxpr.outputs))):
        raise UnsupportedError(OF_ITS_OWN_LENGTH.format("an array"), location=user_location())


def _text(jaxpr: Jaxpr, cells: int) -> str:
    """What a body computes, whichever of its inputs are cells."""
    inputs = {v: None for e in jaxpr.equations for v in e.inputs if v in jaxpr.inputs}
    return print_jaxpr(Jaxpr(tuple(inputs), jaxpr.equations, jaxpr.outputs[: len(jaxpr.outputs) - cells]))


def filled_a_cache(what: str) -> TracerError:
    """The error of a body that keeps a value for the iterations that follow."""
    return TracerError(
        f"{what} keeps a traced array for the next iteration, in an attribute, a dict or a cached function; there it "
        "would be another value; pass it on in the state or in an array (y[...] = value)",
        location=user_location(),
    )


def varies(inner: Interpreter, values: Iterable[Tracer]) -> bool:
    """Whether one of the values that the body of a loop, which is being traced, has put somewhere differs from one
    iteration to the next.
    """
    assert isinstance(inner, StageInterpreter)
    put = list(values)
    if not all(x.interpreter.alive for x in put):
        return True  # of a loop within this one
    own = [x for x in put if x.interpreter is inner]
    if not own:
        return False
    with use_interpreter(inner):
        if any(x.known() is not None for x in own):
            return True  # it may be the first of several: what a cache holds costs nothing then
    varying: set[Any] = set(inner.inputs)
    varying.update(
        known[1] for cell, _ in inner.cells.values() if (known := inner.captured_cells.get(id(cell))) is not None
    )
    for equation in inner.equations:
        if not varying.isdisjoint(x for x in equation.inputs if isinstance(x, Var)):
            varying.update(equation.outputs)
    return any(isinstance(atom := inner.atom(x), Var) and atom in varying for x in own)


def strong(x: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """A carry with a dtype of its own."""
    aval = aval_of_argument(x)
    if dtype is None and not aval.weak:
        return x
    want = aval.dtype if dtype is None else dtype
    return OPERATORS.to_dtype(x, want)


def settle(inits: list[Any], weak: list[bool], outs: Sequence[ShapedArray]) -> bool:
    """Carries that came as Python numbers become what the body makes of them, a number or of a dtype that holds them;
    whether one changed.  A bool stays one: as an integer it would be another mask, index or text.
    """
    changed = False
    for k, (x, w, o) in enumerate(zip(inits, weak, outs, strict=True)):
        have = aval_of_argument(x)
        if have.dtype == np.bool_ and o.dtype != np.bool_:
            continue
        if w and takes(o, have) and (have.dtype != o.dtype or not o.weak):
            x = strong(x, o.dtype)
            if o.weak:
                x = x.as_python_number() if isinstance(x, Tracer) else x.item()
            inits[k], weak[k], changed = x, o.weak, True
    return changed


def takes(into: ShapedArray, number: ShapedArray) -> bool:
    """Whether a Python number of a kind, known or not, may become of a dtype: as in NumPy, a float does not become an
    integer, nor an integer a bool.
    """
    kinds = "b", "iu", "f", "c"
    wide, narrow = (next(n for n, kind in enumerate(kinds) if a.dtype.kind in kind) for a in (into, number))
    return narrow <= wide


def alike(results: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """What a body leaves of the numbers that it was given: a Python number takes the dtype of NumPy's in its place."""
    made: list[Any] = []
    for x, number in zip(results, given, strict=True):
        have, want = aval_of_argument(x), aval_of_argument(number)
        takes_it = have.weak and not want.weak and not want.shape and takes(want, have)
        made.append(strong(x, want.dtype) if takes_it and have.dtype != np.bool_ else x)
    return made


def as_number(x: Any, weak: bool) -> Any:
    """A loop's result, as a Python number if its carry is one."""
    if not weak:
        return x
    return x.as_python_number() if isinstance(x, Tracer) else np.asarray(x).item()


def carried(inits: Sequence[Any]) -> list[ShapedArray]:
    """What a body gets: Python numbers stay such as long as it makes nothing else of them."""
    return [aval_of_argument(x) for x in inits]


def leaves_like(tree: Any, wanted: TreeDef, what: str) -> list[Any]:
    """The leaves of what a body returns, in the order of what it was given."""
    leaves = flatten_like(tree, wanted)
    if leaves is None:
        raise TracerError(
            f"{what}: the body returns another structure than it was given ({flatten(tree)[1]} instead of {wanted})",
            location=user_location(),
        )
    return [_array(x) for x in leaves]


def settle_layouts(layouts: list[Layout], outs: Sequence[Layout]) -> bool:
    """Carries that a body lays out in another way than it got them have no known layout;
    whether there is a new one of these.
    """
    odd = [k for k, (a, b) in enumerate(zip(layouts, outs, strict=False)) if a is not UNKNOWN and not same_layout(a, b)]
    for k in odd:
        layouts[k] = UNKNOWN
    return bool(odd)


def in_64_bits(number: int, name: str) -> int:
    """An end of a loop, which counts in 64 bits.  Raises UnsupportedError."""
    if not -(2**63) <= number < 2**63:
        raise UnsupportedError(f"{name} counts in 64 bits, to {number} it cannot", location=user_location())
    return number


def is_positive(count: Extent | None) -> bool:
    """Whether a loop surely has an iteration."""
    return count is not None and surely_at_most(1, count)
