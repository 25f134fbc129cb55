"""Expressions that decide: `a if c else b`, `and`, `or`, `not`, `a < b < c`, what is asserted."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from types import FunctionType
from typing import Any

import numpy as np

from tracejit.api.bodies import Body
from tracejit.api.branches import traced_branch
from tracejit.api.carries import is_array, root_of
from tracejit.api.deciding import (
    condition,
    flag,
    is_decided,
    is_open,
    is_taken,
    negation,
    operand,
    python_bool,
    site_of,
)
from tracejit.ir.extents import Dim, DimDependent, has_count, on_behalf
from tracejit.support.errors import IndexOutOfBounds, TracejitError, TracerError, refusals
from tracejit.support.source import user_location
from tracejit.support.tree import flatten
from tracejit.tracer.absence import absence_of, known_to_be_there, unmarked
from tracejit.tracer.cell import is_number, tell_apart
from tracejit.tracer.current import current_trace
from tracejit.tracer.failures import Raised, with_numbers
from tracejit.tracer.interpreter import Interpreter, current_interpreter
from tracejit.tracer.mixed import is_pythons, without_mark
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.slots import HeldChanges
from tracejit.tracer.statements.decisions import Site
from tracejit.tracer.statements.variables import Variables
from tracejit.tracer.traced_text import TracedText
from tracejit.tracer.tracer import Tracer

__all__ = [
    "all_of",
    "any_of",
    "both",
    "chain",
    "choose",
    "claim",
    "compared",
    "either",
    "identical",
    "is_hashed",
    "key_of",
    "among",
    "held_by",
    "selects",
    "subject",
    "value_of_branch",
]


def choose(test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """`yes() if test else no()`."""
    test = condition(test)
    if not is_open(test) or is_decided(site_of(yes)):
        return yes() if is_taken(test, site_of(yes)) else no()
    return value_of_branch(test, yes, no, site_of(yes))


def both(value: Any, *later: Callable[[], Any]) -> Any:
    """`value and later() and ...`."""
    for k, following in enumerate(later):
        site, test = site_of(following), condition(value)
        if is_open(test) and not is_decided(site):
            left, rest = value, later[k + 1 :]
            return value_of_branch(test, lambda f=following, rest=rest: both(f(), *rest), lambda left=left: left, site)
        if not test:
            return value
        value = following()
    return value


def either(value: Any, *later: Callable[[], Any]) -> Any:
    """`value or later() or ...`."""
    for k, following in enumerate(later):
        site, test = site_of(following), condition(value)
        if is_open(test) and not is_decided(site):
            left, rest = value, later[k + 1 :]
            return value_of_branch(
                test, lambda left=left: left, lambda f=following, rest=rest: either(f(), *rest), site
            )
        if test:
            return value
        value = following()
    return value


def value_of_branch(test: Tracer, yes: Callable[[], Any], no: Callable[[], Any], site: Site) -> Any:
    """`yes() if test else no()` of a test that the program decides.  site: for a trace that starts again."""
    return traced_branch(test, yes, no, Variables((yes, no), ()), (), (), (), site)


def all_of(value: Any, *later: Callable[[], Any]) -> Any:
    """Whether `value and later() and ...` holds."""
    return _truth(value, later, True)


def any_of(value: Any, *later: Callable[[], Any]) -> Any:
    """Whether `value or later() or ...` holds."""
    return _truth(value, later, False)


def _truth(value: Any, later: Sequence[Callable[[], Any]], goes_on: bool) -> Any:
    """What the operands are together, of which those that `goes_on` is not the truth of end the expression."""
    for k, following in enumerate(later):
        site, test = site_of(following), condition(value)
        if is_open(test) and not is_decided(site):
            rest, found = later[k + 1 :], list[Any]()

            def go_on(following: Any = following, rest: Any = rest, found: list[Any] = found) -> Any:
                found.append(_as_flag(_truth(following(), rest, goes_on)))
                return found[-1]

            def end() -> bool:
                return not goes_on

            yes, no = (go_on, end) if goes_on else (end, go_on)
            result = value_of_branch(test, yes, no, site)
            return result if not found or isinstance(found[-1], Tracer) or found[-1] is goes_on else not goes_on
        if bool(test) is not goes_on:
            return value
        value = following()
    return value


def _as_flag(x: Any) -> Any:
    """The truth of a value, a bool of Python's."""
    test = condition(x)
    return python_bool(np.not_equal(flag(test), 0)) if is_open(test) else bool(test)


def among(value: Any, python: Callable[[Any], Any], *elements: Callable[[], Any]) -> Any:
    """`value in (elements() ...)`, by `python` where it is no number of the program among numbers."""
    if _holds_open(value):
        return _equal_to_one([element() for element in elements], value)
    if value is None:
        return _one_is_none([element() for element in elements])
    x = known_to_be_there(operand(value), "whether something holds")
    if not is_open(x) or x.shape or absence_of(x) is not None:
        return python(value)
    found = [element() for element in elements]
    if any(y is value for y in found):  # as in Python also a NaN
        return True
    if not all(y is None or isinstance(y, (bool, int, float, complex, np.generic, str, Tracer)) for y in found):
        return value in found
    if any(isinstance(y, Tracer) and (y.shape or absence_of(y) is not None) for y in found):
        return value in found
    result: Any = False
    for y in found:
        same = False if y is None or isinstance(y, str) else x == y
        if same is not False:
            result = same if result is False else np.logical_or(result, same)
    return python_bool(result) if isinstance(result, Tracer) else bool(result)


def _holds_open(x: Any) -> bool:
    """Whether a tuple or list holds numbers that only the program knows."""
    return type(x) in (tuple, list) and absence_of(x) is None and any(is_open(operand(leaf)) for leaf in flatten(x)[0])


def _equal_to_one(elements: Sequence[Any], value: Any) -> Any:
    """Whether a tuple or list is equal to one of these."""
    return _one_holds(y is value or compared("Eq", value, y) for y in elements)


def _one_is_none(elements: Sequence[Any]) -> Any:
    """Whether one of these is None."""
    return _one_holds(identical(y, None) for y in elements)


def _one_holds(tests: Iterable[Any]) -> Any:
    """Whether one of these holds, as far as Python knows; else what the program finds."""
    result: Any = False
    for same in tests:
        if is_open(same):
            result = same if result is False else np.logical_or(result, same)
        elif same:
            return True
    return python_bool(result) if isinstance(result, Tracer) else False


def held_by(value: Any, holder: Any) -> Any:
    """`value in holder`: whether an element of an array, or of a collection of numbers or tuples, is equal."""
    if type(value) is TracedText:
        hash(value)  # which refuses: digits that only the program knows
    if value is None and type(holder) in (tuple, list):
        return _one_is_none(holder)
    if type(holder) in (tuple, list, set, frozenset, dict) and _holds_open(value):
        return _equal_to_one([*holder], value)
    if isinstance(value, (Dim, tuple)) and is_hashed(holder):
        value = key_of(value)
    x = known_to_be_there(operand(value), "whether something holds")
    if isinstance(holder, Tracer) and not holder.is_scalar and (holder.known() is None or isinstance(x, Tracer)):
        return _any_equal(holder, x)
    if not is_open(x) or x.shape or absence_of(x) is not None:
        return value in holder
    if type(holder) is np.ndarray:
        return _any_equal(holder, x)
    if type(holder) is range:
        if not holder:
            return False
        low, high = sorted((holder[0], holder[-1]))
        return python_bool((x >= low) & (x <= high) & ((x - low) % abs(holder.step) == 0))
    if type(holder) in (tuple, list, set, frozenset, dict):
        return among(value, lambda v: v in holder, *[lambda y=y: y for y in holder])
    return value in holder


def is_hashed(holder: Any) -> bool:
    """Whether a container of Python's looks for what it holds by its hash."""
    return (
        isinstance(holder, AbstractSet | Mapping)
        and type(getattr(type(holder), "__contains__", None)) is not FunctionType
    )


def key_of(value: Any) -> Any:
    """What a value is to a container that looks for it by its hash: extents are numbers, which have to be known;
    those that the program counts are computed.
    """
    if isinstance(value, Dim):
        return OPERATORS.number_of_extents(value) if has_count(value) else value.__index__()
    if isinstance(value, tuple):
        parts = tuple(map(key_of, value))
        return value if all(map(operator.is_, parts, value)) else parts
    return value


def _any_equal(array: Any, value: Any) -> Any:
    """Whether an element of an array is equal to a value, or where it is an array any element to any."""
    if value is None or isinstance(value, str):
        return False
    found = np.any(np.equal(array, value))
    return python_bool(found) if isinstance(found, Tracer) else bool(found)


def identical(x: Any, y: Any) -> Any:
    """`x is y`, which may be known to the program alone: whether a name has None, or which bool a bool of Python's is.

    Raises: TracerError for arrays, and what holds some, that may be one, depending on data.
    """
    if x is y:
        return True
    if _may_be_one(x, y):
        raise TracerError(
            f"whether two names have one {type(x).__name__} is known to the program alone; compare what they hold",
            location=user_location(),
        )
    for one, other in ((x, y), (y, x)):
        absence = absence_of(one)
        none = absence is not None and absence.none
        if absence is not None and not none:
            absence.use()
        if other is None:
            return absence.flag if none and absence is not None else one is None
        if type(one) is Tracer and type(other) is bool and one.mixed is not None and one.dtype == np.bool_ and not none:
            same = np.equal(without_mark(one), other)  # if it is one of Python's
            return python_bool(np.logical_and(same, is_pythons(one)))
        if type(one) is Tracer and type(other) is bool and one.aval.weak and one.dtype == np.bool_:
            there = unmarked(one) if none else one
            same = there if other else np.logical_not(there)
            return python_bool(
                np.logical_and(same, np.logical_not(absence.flag)) if none and absence is not None else same
            )
    if type(x) is Tracer and type(y) is Tracer:
        absences = absence_of(x), absence_of(y)
        if any(absences):
            if not (is_array(x) and is_array(y)):
                raise TracerError("`is` of values that may be None both is not supported", location=user_location())
            one, other = [a.flag if a is not None else np.False_ for a in absences]
            same = identical(unmarked(x), unmarked(y))
            return python_bool(np.equal(one, other) if same else np.logical_and(one, other))
        if any(root is root_of(y) for root in root_of(x).possible()):
            raise TracerError(
                "whether two names have one array is known to the program alone; compare what they hold",
                location=user_location(),
            )
        tell_apart(x, y)
    kinds = {_kind_of_number(x), _kind_of_number(y)}
    if len(kinds) == 1 and (kinds <= {"f", "c"} or (kinds == {"i"} and type(x) is Tracer and type(y) is Tracer)):
        raise TracerError(
            "whether two numbers of Python's are one object (`is`) is known to Python alone, and not to the program "
            "that computes one; compare them by ==, or by np.isnan",
            location=user_location(),
        )
    if type(x) is Tracer or type(y) is Tracer:
        number = next((z for z in (x, y) if type(z) is int), None)
        other = y if number is x else x
        if number is not None and -5 <= number <= 256 and is_number(other) and other.dtype.kind == "i":
            return python_bool(other == number)  # CPython has one object for each of these
    return False


def _kind_of_number(x: Any) -> str:
    """The kind of dtype of a number of Python's, which the program may know; empty for anything else, also bools."""
    if type(x) is Tracer:
        return x.dtype.kind if x.aval.weak and not x.shape else ""
    return {int: "i", float: "f", complex: "c"}.get(type(x), "")


def _may_be_one(x: Any, y: Any) -> bool:
    """Whether only the program may know if two containers are one."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return any(isinstance(leaf, Tracer) for leaf in flatten((x, y))[0])
    trace = current_trace()
    return trace is not None and (trace.loops.given.has(x) or trace.loops.given.has(y)) and type(x) is type(y)


@on_behalf
def compared(which: str, x: Any, y: Any) -> Any:
    """`x == y`, `x < y` and so on: of None and what may be it, and of tuples and lists whose order data decide."""
    if which in ("Eq", "NotEq") and (x is None or y is None):
        return _compared_with_none(which, x, y)
    if which in ("Eq", "NotEq") and (_may_be_none(x) or _may_be_none(y)):
        return _of_perhaps_none(which, x, y)
    if isinstance(x, (tuple, list)) and type(x) is type(y) and which in _METHODS and _compares_as_plain(type(x), which):
        return _in_order(which, x, y)
    try:
        return _OPERATORS[which](x, y)
    except DimDependent:
        if not any(isinstance(z, Dim) and has_count(z) for z in (x, y)):
            raise
        return _OPERATORS[which](operand(x), operand(y))


_METHODS = {"Eq": "__eq__", "NotEq": "__ne__", "Lt": "__lt__", "LtE": "__le__", "Gt": "__gt__", "GtE": "__ge__"}


def _compares_as_plain(kind: Any, which: str) -> bool:
    """Whether a class of tuples or lists leaves a comparison to these."""
    plain = tuple if issubclass(kind, tuple) else list
    return getattr(kind, _METHODS[which]) is getattr(plain, _METHODS[which])


@on_behalf
def _in_order(which: str, x: Sequence[Any], y: Sequence[Any]) -> Any:
    """A comparison of tuples or lists: by the first items that are not equal, which only the program may know.

    Raises: TracerError where items that Python cannot compare would be, depending on data.
    """
    found: list[tuple[Any, Any, Any]] = []  # whether two items are equal, which data decide, and these
    for a, b in zip(x, y, strict=False):
        if found and a is not b and any(isinstance(z, (Tracer, np.ndarray)) and z.shape for z in (a, b)):
            raise TracerError(
                "whether Python compares the arrays in these tuples, data decide; compare the numbers before them",
                location=user_location(),
            )
        same = a is b or compared("Eq", a, b)
        if is_open(same):
            found.append((same, a, b))
        elif not same:
            found.append((False, a, b))
            break
    if not any(is_open(same) for same, _, _ in found):
        return _OPERATORS[which](x, y)
    result: Any = _OPERATORS[which](len(x), len(y))
    for same, a, b in reversed(found):
        if same is False:
            result = which == "NotEq" if which in ("Eq", "NotEq") else _of_items(which, a, b)
            continue
        differ = which == "NotEq" if which in ("Eq", "NotEq") else _of_items(which, a, b)
        result = np.logical_or(np.logical_and(flag(same), result), np.logical_and(np.logical_not(flag(same)), differ))
    return python_bool(result)


@on_behalf
def _of_items(which: str, a: Any, b: Any) -> Any:
    try:
        found = compared(which, a, b)
    except TypeError as error:
        raise TracerError(
            f"whether items of these kinds are compared ({error}), data decide; compare the first ones by `if`",
            location=user_location(),
        ) from None
    return flag(found) if isinstance(found, Tracer) else found


def _compared_with_none(which: str, x: Any, y: Any) -> Any:
    for one, other in ((x, y), (y, x)):
        absence = absence_of(one)
        alone = isinstance(one, tuple) or (type(one) is Tracer and one.is_scalar)
        if other is None and absence is not None and absence.none:
            if not alone:
                raise TracerError(
                    f"`==` with None of {absence.name!r}, which is None or an array, depending on data: it gives a "
                    "bool or an array; ask `is None`",
                    location=user_location(),
                )
            return absence.flag if which == "Eq" else negation(absence.flag)
    return _OPERATORS[which](x, y)


def _of_perhaps_none(which: str, x: Any, y: Any) -> Any:
    """`x == y` or `x != y` of what may be None, numbers or tuples: None is equal to None alone."""
    one, other = [flag(a.flag) if a is not None and a.none else np.False_ for a in map(absence_of, (x, y))]
    equal = compared("Eq", unmarked(x), unmarked(y))
    there = np.logical_not(np.logical_or(one, other))
    same = np.logical_or(np.logical_and(one, other), np.logical_and(there, flag(equal) if is_open(equal) else equal))
    return python_bool(same if which == "Eq" else np.logical_not(same))


def _may_be_none(x: Any) -> bool:
    absence = absence_of(x)
    return absence is not None and absence.none and (isinstance(x, tuple) or (type(x) is Tracer and x.is_scalar))


def selects(x: Any) -> Any:
    """What a comprehension asks for its truth.   Raises: TracerError for a tuple that may be None."""
    return known_to_be_there(x, "the truth of")


def subject(x: Any) -> Any:
    """What is matched with `case None` or `case True`.

    Raises: TracerError where the program alone knows which of these it is.
    """
    for leaf in flatten(x)[0]:
        absence = absence_of(leaf)
        bools = type(leaf) is Tracer and leaf.aval.weak and leaf.dtype == np.bool_ and is_open(leaf)
        if bools or (absence is not None and absence.none):
            raise TracerError(
                "`case None`, `case True` and `case False` of a value that only the program knows are not supported; "
                "use `if x is None`, `if x`",
                location=user_location(),
            )
    return x


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne, "Is": operator.is_, "IsNot": operator.is_not,
    "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b,
}  # fmt: skip


def chain(left: Any, *pairs: tuple[str, Callable[[], Any]]) -> Any:
    """`left < later() < ...`, each operand computed where those before it hold."""
    for k, (which, later) in enumerate(pairs):
        right = later()
        result = compared(which, operand(left), operand(right))
        if k == len(pairs) - 1:
            return result
        site = site_of(later)
        if is_open(result) and not is_decided(site):
            rest = pairs[k + 1 :]
            return value_of_branch(
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
    failed = AssertionError() if message is None else _failed(message)
    OPERATORS.check_none(np.logical_not(flag(test)), Raised(with_numbers(failed)))
    return True


def _failed(message: Callable[[], Any]) -> Exception:
    """What an assertion that fails raises.  Its message is computed apart, as it is said only then, and what that
    changes is undone; where it needs values that only the program knows, it says so.

    Raises: TracerError where that cannot be undone.
    """
    found: list[Exception] = []

    def said() -> Any:
        refused = [(i, i.refused) for i in _interpreters()]
        with refusals() as met:
            try:
                made: Exception = AssertionError(message())
            except IndexOutOfBounds as error:
                made = error
            except TracejitError:
                made = AssertionError(_UNKNOWN)
            except Exception as error:  # which comes in place of the assertion's
                made = AssertionError(_UNKNOWN) if "Tracer" in str(error) else error
            met.clear()
        for interpreter, before in refused:
            interpreter.refused = before
        found.append(made)
        return ()

    try:
        Body(said, (), once=True)
    except HeldChanges as error:
        if not error.slots:
            raise
        error.undo()
    return found[-1]


def _interpreters() -> Iterator[Interpreter]:
    """Those that are at work, the innermost first."""
    interpreter: Interpreter | None = current_interpreter()
    while interpreter is not None:
        yield interpreter
        interpreter = interpreter.parent


_UNKNOWN = "(what is said of this depends on the data)"
