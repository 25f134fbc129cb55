"""Python function to jaxpr: run it once on tracers and record what it binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.ir.jaxpr import Jaxpr, Var
from tracejit.ir.ranges import Range
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import (
    LeakedTracerError,
    TracejitError,
    TracerError,
    refusals,
)
from tracejit.support.nodes import frozen
from tracejit.support.source import Location, user_location
from tracejit.support.typing import has_aval
from tracejit.tracer.failures import Site
from tracejit.tracer.interpreter import current_interpreter, use_interpreter
from tracejit.tracer.layout import Layout
from tracejit.tracer.recorder import StageInterpreter, left_early
from tracejit.tracer.trace import leave
from tracejit.tracer.tracer import Tracer

__all__ = ["Staged", "stage"]


@frozen(eq=False)
class Staged:
    """A staged function.  `constants` are the values of the last inputs
    of the jaxpr (captured arrays and outer tracers).
    """

    jaxpr: Jaxpr
    constants: tuple[Any, ...]
    # (argument position, equations before the first change) of arguments the function changed
    written: tuple[tuple[int, int], ...] = ()
    outer_cells: tuple[tuple[Tracer, Any], ...] = ()
    captured_cells: tuple[tuple[Tracer, Var], ...] = ()  # outer cells whose value from before is an input
    looked_into: tuple[Any, ...] = ()  # captured arrays whose elements became part of the jaxpr
    sites: tuple[Site, ...] | None = None  # the last output says which of these has failed, if one can
    numbers: frozenset[int] = frozenset()  # the results that are Python numbers
    # loops and branches that could be none of the program, and why
    by_python: tuple[tuple[str, Location, str], ...] = ()


def stage(
    function: Callable[..., Sequence[Any]],
    avals: Sequence[ShapedArray],
    *,
    specialise: Callable[[int], bool] | None = None,
    writeback: bool = False,
    cells: Sequence[Tracer] = (),
    own_changes: bool = False,
    program: bool = False,
    careful: bool = False,
    masks_by_value: bool = False,
    ranges: Mapping[int, Range] | None = None,
    layouts: Sequence[Layout] = (),
    certain: bool = True,
    finish: Callable[[Staged], None] = lambda _: None,
) -> Staged:
    """Trace `function(*tracers) -> flat results`.

    `specialise(position)` says whether the value of an argument can be had by a restart.  With `writeback` the new
    values of arguments the function changed in place are appended to the outputs and listed in `written`; without it a
    change is refused, unless `own_changes` says that arguments are the function's own copies (loop carries).  `cells`
    are outer arrays that the function changes: they come as further arguments after `avals`, and their new values after
    the results.  Changed outer arrays that are not among them are listed in `outer_cells`.  A `program` has what can
    fail in it as its last output, if anything can; other traces leave that to the trace around them.  `ranges` tells
    between which numbers integer arguments lie, `layouts` how arguments lie in memory. `certain` says whether the
    function runs where what is around it does.  `finish` is called with what was staged while its values are known.

    Raises: ChangedLater unless `careful`, which relies in loops over tj.range on no value of an array from outside;
    MasksByValue for a
        program unless `masks_by_value`, which makes values of masks that follow from such arrays a part of it.
    """
    parent = current_interpreter()
    positions: dict[Var, int] = {}

    def position_of(var: Var) -> int | None:
        position = positions.get(var)
        return position if position is not None and specialise is not None and specialise(position) else None

    interpreter = StageInterpreter(parent, specialise=position_of)
    tracers = [interpreter.new_input(a) for a in avals]
    for n, tracer in enumerate(tracers):
        positions[tracer.value] = n
    interpreter.is_program, interpreter.is_part = program, not program
    interpreter.certain = certain
    interpreter.careful |= careful
    interpreter.masks_by_value |= masks_by_value
    interpreter.of_program |= program
    interpreter.careful |= not interpreter.of_program  # nobody is there to start again
    for tracer, layout in zip(tracers, layouts, strict=False):
        tracer.layout = layout
    for n, known in (ranges or {}).items():
        interpreter.ranges[tracers[n].value] = known
    for cell in cells:
        interpreter.cells[id(cell)] = (cell, interpreter.new_input(cell.aval.strong()).value)
    given = dict(interpreter.cells)
    try:
        with use_interpreter(interpreter):
            results = _results(function, tracers, interpreter)
            outputs = [interpreter.atom(_as_array(r)) for r in results]
            changed = [] if own_changes else [n for n, t in enumerate(tracers) if t.version]
            if changed and not writeback:
                raise TracerError(
                    f"argument {changed[0]} is changed in place, which is refused here; copy it first (x = x.copy())"
                )
            outputs += [interpreter.atom(tracers[n]) for n in changed]
            outputs += [interpreter.cells[id(c)][1] for c in cells]
            failures = interpreter.failures
            if failures is not None and failures.cell.version:
                outputs.append(interpreter.atom(failures.cell))
            jaxpr = Jaxpr([*interpreter.inputs, *interpreter.captured.values()], interpreter.equations, outputs)
            written = tuple((n, interpreter.first_writes[id(tracers[n])]) for n in changed)
            outer_cells = tuple(c for n, c in interpreter.cells.items() if n not in given)
            sites = tuple(failures.sites) if failures is not None and failures.cell.version else None
            staged = Staged(
                jaxpr,
                tuple(interpreter.constants),
                written,
                outer_cells,
                tuple(interpreter.captured_cells.values()),
                tuple(interpreter.looked_into),
                sites,
            )
            finish(staged)
    except Exception as error:
        if interpreter.cells and not isinstance(error, TracejitError):
            _lost_changes(interpreter, error)
        raise
    finally:
        if not program:
            leave(interpreter)
            interpreter.forget()
        interpreter.alive = False
    return staged


def _lost_changes(interpreter: StageInterpreter, error: Exception) -> None:
    """A body of a loop or branch that changes outer arrays has ended with an error of the user's: should the function
    catch it, the changes that NumPy's arrays would have are missing, so that its trace is refused.
    """
    around = interpreter.parent
    while around is not None and not (isinstance(around, StageInterpreter) and not around.partial):
        around = around.parent
    if around is not None and around.refused is None:
        around.refused = TracerError(
            f"the body of a loop or branch changes an array and then raises {type(error).__name__}, which the function "
            "catches: the body is traced, not run, so that the change is not to be had; raise before anything is "
            "changed, or catch the error inside of the body",
            location=user_location(),
        )


def _results(
    function: Callable[..., Sequence[Any]], tracers: Sequence[Tracer], interpreter: StageInterpreter
) -> list[Any]:
    """The function's results; what was refused on the way is raised now,
    before values of an abandoned loop are missed.
    """
    try:
        with refusals() as met:
            results = list(function(*tracers))
    except LeakedTracerError:
        if interpreter.refused is None:
            raise
        raise interpreter.refused from None
    if interpreter.open_loops and interpreter.refused is None:  # their generators are kept, as by an error's traceback
        interpreter.refused = left_early()
    # What a function catches of ours has not happened to NumPy's arrays: the handler would be wrong.
    if interpreter.refused is not None:
        raise interpreter.refused
    if met:
        raise met[0]
    return results


def _as_array(x: Any) -> Any:
    if type(x) is not Tracer and isinstance(x, Tracer):
        x.returned()
    if isinstance(x, (Tracer, np.ndarray, np.generic, bool, int, float, complex)) or has_aval(x):
        return x
    raise TracerError(
        f"a traced function returned {type(x).__name__}; results are arrays, numbers, or containers of them",
        location=user_location(),
    )
