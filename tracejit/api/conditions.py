"""Expressions that decide: `a if c else b`, `and`, `or`, `not`, `a < b < c`, what is asserted."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tracejit.api import control
from tracejit.api.absent import VALUE, AbsentThere, MayBeAbsent, kind_of
from tracejit.api.carries import Sharing
from tracejit.api.handing_on import shared_results
from tracejit.ir.extents import Dim, has_count
from tracejit.support.errors import TracejitError
from tracejit.tracer.absence import absence_of, used
from tracejit.tracer.current import current_trace
from tracejit.tracer.failures import Raised
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.recorder import StageInterpreter, recording
from tracejit.tracer.statements.decisions import Site
from tracejit.tracer.tracer import Tracer

__all__ = [
    "both",
    "branching",
    "chain",
    "choose",
    "claim",
    "condition",
    "either",
    "flag",
    "is_decided",
    "is_none",
    "is_open",
    "negation",
    "site_of",
]


def is_open(x: Any) -> bool:
    """Whether a condition is known only when the program runs; arrays of several elements are none, as in NumPy."""
    return isinstance(x, Tracer) and x.size == 1 and x.seen().concrete() is None and recording() is not None


def condition(x: Any) -> Any:
    """A condition; of an extent that the program computes, the number."""
    return OPERATORS.number_of_extents(x) if isinstance(x, Dim) and has_count(x) else x


def flag(x: Tracer) -> Any:
    """A condition as an array of rank 0."""
    used(x)
    return x if not x.shape else x.reshape(())


def site_of(block: Callable[..., Any]) -> Site:
    """The branch that a block belongs to."""
    return Site(block.__code__, 0, "branch")


def is_decided(site: Site) -> bool:
    """Whether Python has to decide a branch."""
    trace = current_trace()
    return trace is not None and site in trace.loops.python


def branching(site: Site) -> AbstractContextManager[None]:
    """The sides of a branch are traced in the block."""
    trace = current_trace()
    return nullcontext() if trace is None else trace.loops.branching(site)


def choose(test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """`yes() if test else no()`."""
    test = condition(test)
    if not is_open(test) or is_decided(site_of(yes)):
        return yes() if test else no()
    return _value_of_branch(test, yes, no, site_of(yes))


def _value_of_branch(test: Tracer, yes: Callable[[], Any], no: Callable[[], Any], site: Site) -> Any:
    seen: dict[Callable[[], Any], tuple[Any, Sharing]] = {}
    kinds: dict[Callable[[], Any], dict[str, Any]] = {}
    perhaps_absent = MayBeAbsent()

    def run(value_of: Callable[[], Any]) -> Callable[[], Any]:
        def traced() -> Any:
            value = value_of()
            kinds[value_of] = {VALUE: kind_of(value)}
            if len(kinds) > 1:
                perhaps_absent.settle(kinds[yes], kinds[no])
            value = perhaps_absent.pair(VALUE, value)
            interpreter = current_interpreter()
            assert isinstance(interpreter, StageInterpreter)
            seen[value_of] = value, Sharing.of(interpreter, (), value)
            return value

        return traced

    while True:
        try:
            with branching(site):
                result = control.cond(flag(test), run(yes), run(no))
            break
        except AbsentThere:
            kinds.clear()
        except TracejitError:
            test.ask()  # where it follows from numbers among the arguments, the trace starts again for their values
            raise
    return perhaps_absent.value(VALUE, shared_results(tuple(seen.values()), result, ()))


def both(value: Any, *later: Callable[[], Any]) -> Any:
    """`value and later() and ...`."""
    for k, following in enumerate(later):
        value = condition(value)
        site = site_of(following)
        if is_open(value) and not is_decided(site):
            left, rest = value, later[k + 1 :]
            return _value_of_branch(left, lambda f=following, rest=rest: both(f(), *rest), lambda left=left: left, site)
        if not value:
            return value
        value = following()
    return value


def either(value: Any, *later: Callable[[], Any]) -> Any:
    """`value or later() or ...`."""
    for k, following in enumerate(later):
        value = condition(value)
        site = site_of(following)
        if is_open(value) and not is_decided(site):
            left, rest = value, later[k + 1 :]
            return _value_of_branch(
                left, lambda left=left: left, lambda f=following, rest=rest: either(f(), *rest), site
            )
        if value:
            return value
        value = following()
    return value


def negation(value: Any) -> Any:
    """`not value`."""
    value = condition(value)
    if not is_open(value):
        return not value
    result: Any = np.logical_not(flag(value))
    if value.aval.weak and isinstance(result, Tracer):
        result.weaken()  # of a number it is a bool of Python's
    return result


def is_none(x: Any) -> Any:
    """`x is None`, which may be known to the program alone."""
    absence = absence_of(x)
    return absence.flag if absence is not None and absence.none else x is None


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne, "Is": operator.is_, "IsNot": operator.is_not,
    "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b,
}  # fmt: skip


def chain(left: Any, *pairs: tuple[str, Callable[[], Any]]) -> Any:
    """`left < later() < ...`, each operand computed where those before it hold."""
    for k, (which, later) in enumerate(pairs):
        right = later()
        result = _OPERATORS[which](condition(left), condition(right))
        if k == len(pairs) - 1:
            return result
        site = site_of(later)
        if is_open(result) and not is_decided(site):
            rest = pairs[k + 1 :]
            return _value_of_branch(
                result, lambda right=right, rest=rest: chain(right, *rest), lambda result=result: result, site
            )
        if not result:
            return result
        left = right
    return left


def claim(test: Any, message: Callable[[], Any] | None) -> Any:
    """What is to be asserted; a condition of the program is checked there."""
    test = condition(test)
    if not is_open(test):
        return test
    said = () if message is None else (message(),)
    OPERATORS.check_none(np.logical_not(flag(test)), Raised(AssertionError(*said)))
    return True
