"""Checks of Python numbers that are traced: NumPy raises OverflowError for one that does not fit an array's dtype,
and so does the program.

A Python integer takes the dtype of the array that it meets (NEP 50).  Traced it is an i64 whose value no trace knows,
so the program fails if it does not fit, after it has run: what it computed with the wrapped number meanwhile is thrown
away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import surely_at_most
from tracejit.ir.ranges import ANYTHING, Range, difference, total, within
from tracejit.primitives import elementwise
from tracejit.primitives.arithmetic import Abs, Power
from tracejit.primitives.comparison import And, Eq, Gt, Lt, Not, Or, Xor
from tracejit.primitives.elementwise import Add, Mul, Sub
from tracejit.primitives.reduction import reduce_max
from tracejit.primitives.transcendental import Exp2
from tracejit.support.errors import NumberOutOfBounds, UnsupportedError
from tracejit.support.typing import ArrayLike
from tracejit.tracer.catching import may_be_caught, refuse_if_caught
from tracejit.tracer.current import give_up
from tracejit.tracer.failures import GROWTH, INDEX_BITS, NEGATIVE_POWER, Raised, Reason, failures_here, note_failure
from tracejit.tracer.interpreter import bind, current_interpreter, surely_runs
from tracejit.tracer.tracer import Tracer

__all__ = ["check_exponent", "check_growth", "check_none", "check_number"]


def check_number(x: Tracer, dtype: np.dtype[Any]) -> None:
    """The program fails if the number `x`, or an element of it, does not fit the integer dtype."""
    have = x.dtype
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    if have.kind == "b" or (have.kind == "i" and (dtype == np.int64 or within(x.seen().value_range(), low, high))):
        return
    seen = current_interpreter().checked
    if seen.get((id(x.value), dtype)) is x.value:
        return
    seen[id(x.value), dtype] = x.value  # kept, so that its identity is not given out again
    if have.kind == "f":  # without its fraction it is between the limits; NaN is not
        number = elementwise.convert(x, np.float64)
        below = float(low) - 1 if low > -(2**63) else np.nextafter(float(low), -np.inf)
        inside = bind(
            And(),
            bind(Gt(), number, np.float64(below)),
            bind(Lt(), number, np.float64(float(high) + 1)),
        )
        outside = bind(Not(), inside)
    elif have.kind == "u":
        number = elementwise.convert(x, np.uint64)
        outside = bind(Gt(), number, np.uint64(high))
    else:
        number = elementwise.convert(x, np.int64)
        outside = bind(Lt(), number, np.int64(low))
        if dtype != np.uint64:
            outside = bind(Or(), outside, bind(Gt(), number, np.int64(high)))
    _fail(outside, elementwise.convert(number, np.int64), dtype)


def check_exponent(x: ArrayLike) -> None:
    """The program fails if an element of an integer exponent is negative.

    Raises: NegativePower where that is known.
    """
    if not isinstance(x, Tracer):
        if np.any(np.asarray(x) < 0):
            raise NEGATIVE_POWER.error()
        return
    least, _ = x.seen().value_range()
    if x.dtype.kind != "i" or (least is not None and within((least, least), 0, 2**63 - 1)):
        return
    if any(isinstance(n, int) and n == 0 for n in x.shape):
        return
    seen = current_interpreter().checked
    if seen.get((id(x.value), NEGATIVE_POWER)) is x.value:
        return
    seen[id(x.value), NEGATIVE_POWER] = x.value
    _fail(bind(Lt(), x, x.dtype.type(0)), np.int64(-1), NEGATIVE_POWER)


def check_none(wrong: ArrayLike, reason: Reason | Raised, number: ArrayLike = None) -> None:
    """The program fails for this reason if an element of `wrong` holds.  Raises: its error where that is known.

    number: an i64 of rank 0 that the text names, of a `wrong` of rank 0.
    """
    if isinstance(wrong, Tracer):
        if not any(isinstance(n, int) and n == 0 for n in wrong.shape):
            some = reduce_max(wrong, tuple(range(wrong.ndim))) if wrong.shape else wrong
            _fail(some, np.int64(-1) if number is None else number, reason)
    elif np.any(wrong):
        raise reason.error(number=int(number)) if number is not None and isinstance(reason, Reason) else reason.error()


def check_growth(name: str, x: ArrayLike, y: ArrayLike) -> None:
    """The program fails if the result of arithmetic on Python integers that are arguments has more than 64 bits.

    Products of two such integers, powers and shifts are estimated in floating point: what is within 2**-50 of the limit
    fails too.
    """
    if any((z.dtype.kind != "i" if isinstance(z, Tracer) else type(z) is not int) for z in (x, y)):
        return
    if not all(isinstance(z, Tracer) or -(2**63) <= z < 2**63 for z in (x, y)):
        return  # refused where it is given its dtype
    if within(
        _reached(name, *[z.seen().value_range() if isinstance(z, Tracer) else (z, z) for z in (x, y)]),
        -(2**63),
        2**63 - 1,
    ):
        return
    if name == "pow" and type(y) is int and y == 2:
        name, y = "mul", x
    if name == "lshift" and type(y) is int and 0 <= y < 63:
        name, y = "mul", 1 << y
    if name in ("pow", "lshift"):
        give_up("an integer may outgrow 64 bits")
    if name in ("floordiv", "divmod"):
        a, b = (z if isinstance(z, Tracer) else np.int64(z) for z in (x, y))
        _fail(
            bind(And(), bind(Eq(), a, np.int64(-(2**63))), bind(Eq(), b, np.int64(-1))),
            np.int64(-1),
            GROWTH,
        )
        return
    ends = _ends(name, x, y)
    if ends is not None:
        z, low, high = ends
        outside = [bind(Lt(), z, np.int64(low))] * (low > -(2**63)) + [bind(Gt(), z, np.int64(high))] * (
            high < 2**63 - 1
        )
        if outside:
            _fail(outside[0] if len(outside) == 1 else bind(Or(), *outside), np.int64(-1), GROWTH)
        return
    if name in ("add", "sub"):
        a, b = (z if isinstance(z, Tracer) else np.int64(z) for z in (x, y))
        wrapped = bind(Add() if name == "add" else Sub(), a, b)
        # The sign of a sum is that of an operand, unless these differ; of a difference it is the first's where they do.
        other = bind(Xor(), b, wrapped) if name == "add" else bind(Xor(), a, b)
        _fail(
            bind(Lt(), bind(And(), bind(Xor(), a, wrapped), other), np.int64(0)),
            np.int64(-1),
            GROWTH,
        )
        return
    a, b = (elementwise.convert(z, np.float64) if isinstance(z, Tracer) else np.float64(z) for z in (x, y))
    if name == "lshift":
        b = bind(Exp2(), b)
    size = bind(Abs(), bind(Power() if name == "pow" else Mul(), a, b))
    _fail(bind(Not(), bind(Lt(), size, np.float64(2.0**63))), np.int64(-1), GROWTH)


def _ends(name: str, x: ArrayLike, y: ArrayLike) -> tuple[Tracer, int, int] | None:
    """(z, low, high): beside a number that is known, between which the other one, z, has to lie."""
    least, most = -(2**63), 2**63 - 1
    if isinstance(x, Tracer) == isinstance(y, Tracer):
        return None
    z, k = (x, int(y)) if isinstance(x, Tracer) else (y, int(x))
    assert isinstance(z, Tracer)
    match name:
        case "sub" if z is y:
            return z, max(least, k - most), min(most, k - least)
        case "add" | "sub":
            k = k if name == "add" else -k
            return z, max(least, least - k), min(most, most - k)
        case "mul" if k > 0:
            return z, -(-least // k), most // k
        case "mul" if k < 0:
            return z, max(least, -(most // -k)), min(most, -least // -k)
        case "mul":
            return z, least, most
        case _:
            return None


def _reached(name: str, x: Range, y: Range) -> Range:
    """Between which numbers the result of an operator lies."""
    if name in ("add", "sub"):
        return total(x, y) if name == "add" else difference(x, y)
    if name in ("floordiv", "divmod"):  # only -2**63 by -1 does
        return (0, 0) if within(x, 1 - 2**63, 2**63 - 1) or not _may_be(y, -1) else ANYTHING
    if not all(isinstance(end, int) for end in (*x, *y)):
        return ANYTHING
    if name in ("pow", "lshift"):
        largest = max(map(abs, x))  # type: ignore[arg-type, type-var]
        least, most = y
        if not 0 <= least <= most < 64 and not (least >= 0 and largest <= 1 and name == "pow"):  # type: ignore[operator]
            return ANYTHING
        reached = largest << most if name == "lshift" else largest**most if largest > 1 else 1  # type: ignore[operator]
        return -reached, reached
    if name != "mul":
        return ANYTHING
    corners = [a * b for a in x for b in y]  # type: ignore[operator]
    return min(corners), max(corners)  # type: ignore[type-var]


def _may_be(x: Range, number: int) -> bool:
    low, high = x
    return not (
        (low is not None and surely_at_most(number + 1, low)) or (high is not None and surely_at_most(high, number - 1))
    )


def _fail(outside: ArrayLike, number: ArrayLike, about: Any) -> None:
    """The program fails where `outside` holds, and says which number it was.

    Raises: TracerError within a `try` that would catch it.
    """
    if isinstance(about, (Reason, Raised)) and may_be_caught():
        value = outside.known() if isinstance(outside, Tracer) else None
        if value is not None and not value.any():
            return
        if value is not None and surely_runs():
            raise about.error()
        kind = about.kind if isinstance(about, Reason) else type(about.exception)
        base = next(base for base in kind.__mro__ if not base.__module__.startswith("tracejit."))
        if base is not Exception and not issubclass(kind, (NumberOutOfBounds, UnsupportedError)):
            refuse_if_caught(kind, f"{base.__name__} ({about.text})", numbers=(outside,))
    site = np.int64((failures_here().site(about) + 1) << INDEX_BITS)
    mark = bind(Or(), bind(And(), number, np.int64((1 << INDEX_BITS) - 1)), site)
    note_failure(elementwise.select(outside, mark, np.int64(0)))
