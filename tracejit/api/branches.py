"""`if` in traced functions: decided by Python where it can be, else a branch of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api import control
from tracejit.api.absent import VALUE, AbsentThere, MayBeAbsent, kind_of
from tracejit.api.carries import Sharing
from tracejit.api.containers import Given
from tracejit.api.deciding import branching, condition, flag, is_decided, is_open, is_taken, site_of
from tracejit.api.handing_on import (
    check_bound,
    check_kept,
    extents_as_numbers,
    finish,
    holding,
    named_in,
    number_of,
    probed,
    run_by_python,
    shared_results,
    stays,
    taken_on,
)
from tracejit.api.lengths import LeftLengths, LengthsVary, settled
from tracejit.api.raising import Raises, raise_where, run_block
from tracejit.support.errors import ShapeError, TracejitError
from tracejit.tracer.absence import handed_on_absence
from tracejit.tracer.failures import failures_noted
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.recorder import StageInterpreter
from tracejit.tracer.slots import HeldChanges
from tracejit.tracer.statements.decisions import Site
from tracejit.tracer.statements.variables import UNBOUND, Variables, is_flag
from tracejit.tracer.tracer import Tracer

__all__ = ["branch", "traced_branch"]


def branch(
    test: Any,
    then: Callable[[], Any],
    orelse: Callable[[], Any],
    assigned: Sequence[str],
    known: Sequence[str],
    augmented: Sequence[str],
    sure: Sequence[str],
) -> Any:
    """`if test: then() else: orelse()`; what the block returns, where the statement ends the function."""
    site, test = site_of(then), condition(test)
    if not is_open(test) or is_decided(site):
        return run_by_python(then if is_taken(test, site) else orelse, assigned)
    return traced_branch(test, then, orelse, Variables((then, orelse), assigned), known, augmented, sure, site)


def traced_branch(
    test: Any,
    then: Callable[[], Any],
    orelse: Callable[[], Any],
    variables: Variables,
    known: Sequence[str],
    augmented: Sequence[str],
    sure: Sequence[str],
    site: Site,
) -> Any:
    """A branch of the program; see `branch`.  site: for a trace that starts again.

    A name that one side leaves without a value, or with None, and the other with one, has a value that may be absent.
    """

    def run(joined: Variables) -> Any:
        return _branch(test, then, orelse, joined, [*known, *joined.slots], augmented, sure, site)

    return holding(variables, run)


def _branch(
    test: Any,
    then: Callable[[], Any],
    orelse: Callable[[], Any],
    variables: Variables,
    known: Sequence[str],
    augmented: Sequence[str],
    sure: Sequence[str],
    site: Site,
) -> Any:
    """The same, with the places of objects that are known by now among the variables.

    Raises: HeldChanges where the blocks bind others anew.
    """
    before = variables.before
    extents_as_numbers(variables, [n for n in known if n in variables.cells])
    for n in known:
        if n in variables.cells:
            settled(before[n])
    kept = [n for n in known if n in variables.cells and before[n] is not None and stays(before[n], n in augmented)]
    names = [n for n in known if n in variables.cells and n not in kept]
    filled = _filled(variables, (then, orelse), [n for n in names if before[n] is UNBOUND and n not in sure])
    perhaps_absent = MayBeAbsent(n for n in names if handed_on_absence(before[n]) is not None)
    seen: dict[Callable[[], Any], tuple[Any, Sharing]] = {}  # of each block the last trace counts
    kinds: dict[Callable[[], Any], dict[str, Any]] = {}
    lengths = LeftLengths()
    given = Given()
    checking: list[Callable[[], Any]] = []  # blocks that raise, and that may fail before

    def run(block: Callable[[], Any]) -> Callable[[], Any]:
        def traced() -> Any:
            variables.restore()
            before = failures_noted()
            try:
                value = run_block(block, tuple(variables.cells))
                check_kept(variables, kept)
                value, values = given.add(block, number_of(value)), {n: number_of(variables[n]) for n in names}
                values.update({n: zeros() for n, zeros in filled.items() if values[n] is UNBOUND})
                kinds[block] = {n: kind_of(x) for n, x in [(VALUE, value), *values.items()]}
                if len(kinds) > 1:
                    perhaps_absent.settle(kinds[then], kinds[orelse])
                left = tuple([perhaps_absent.pair(n, x) for n, x in values.items()])
                check_bound(names, left)
                value = perhaps_absent.pair(VALUE, value)
                interpreter = current_interpreter()
                assert isinstance(interpreter, StageInterpreter)
                seen[block] = (value, left), Sharing.of(interpreter, (), (value, left))
                return lengths.handed(block, (value, left))
            except Raises:
                if failures_noted() != before:
                    checking.append(block)
                raise
            finally:
                variables.restore()

        return traced

    def checks(block: Callable[[], Any], here: Any) -> Callable[[], Any]:
        """What a block that raises may fail by before it does, and then that."""

        def traced() -> int:
            try:
                run_block(block, tuple(variables.cells))
            except Raises as raising:
                raise_where(here, raising)
            finally:
                variables.restore()
            return 0

        return traced

    while True:
        try:
            with branching(site):
                results = control.cond(flag(test), run(then), run(orelse))
            break
        except AbsentThere:
            kinds.clear()
            lengths.begin(anew=True)
        except LengthsVary:
            test.ask()  # shapes that Python knows are better
            lengths.begin()
        except Raises as raising:
            fails = raising.block is then
            here = flag(test) if fails else np.logical_not(flag(test))
            if raising.block in checking:
                with branching(site):
                    control.cond(here, checks(raising.block, here), lambda: 0)
            else:
                raise_where(here, raising)
            return run_by_python(orelse if fails else then, tuple(variables.cells))
        except HeldChanges as error:
            if not taken_on(variables, error):
                test.ask()
            raise
        except TracejitError as error:
            test.ask()  # where it follows from numbers among the arguments, the trace starts again for their values
            if isinstance(error, ShapeError) and len(seen) == 2:
                (one, left), (other, right) = (seen[block][0] for block in (then, orelse))
                raise named_in(error, [("", one, other), *zip(names, left, right, strict=True)]) from error.__cause__
            raise
    # a condition within a branch is not kept: it would keep what is recorded there, all of whose arrays were alive then
    by = test if isinstance(test, Tracer) and test.interpreter.is_program else None
    value, left = shared_results(tuple(seen.values()), lengths.taken(results), (), by)
    value = given.shared(perhaps_absent.value(VALUE, value))
    left = [perhaps_absent.value(n, x) for n, x in zip(names, left, strict=True)]
    finish(variables, names, left, [*kept, *[n for n in variables.cells if n in augmented and n not in known]])
    return value()


def _filled(
    variables: Variables, blocks: Sequence[Callable[[], Any]], names: Sequence[str]
) -> dict[str, Callable[[], Any]]:
    """Of names that one of the blocks binds: what the other has for them, which nobody reads.  Only of those that an
    early `return` has made, a flag tells whether they count.
    """
    wanted = [n for n in names if is_flag(n)]
    if not wanted:
        return {}
    found: dict[str, Callable[[], Any]] = {}
    for block in blocks:
        likes = probed(variables, wanted, (), lambda block=block: _tried(block))
        found.update({n: like.zeros for n, like in likes.items() if n not in found})
    return found


def _tried(block: Callable[[], Any]) -> None:
    """Run a block that may raise: then it binds no more names."""
    try:
        run_block(block)
    except Raises:
        return
