"""Functions that choose between elements, or limit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.ranges import ANYTHING, Range, within
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import reject, same_shape
from tracejit.numpy.counts import may_count
from tracejit.numpy.creation import zeros
from tracejit.numpy.index_checks import check_safe_index
from tracejit.numpy.number_checks import check_none, check_number
from tracejit.numpy.promotion import (
    as_array,
    aval,
    broadcast_shapes,
    broadcast_to as spread,
    to_dtype,
    wrapped_to_dtype,
)
from tracejit.numpy.shaping import array_of, as_rank_0_array, copy, reshape
from tracejit.numpy.strides import in_order_of_operands
from tracejit.primitives.complex_numbers import imag, make_complex, real
from tracejit.primitives.custom import stop_gradient
from tracejit.primitives.elementwise import select as choose_between
from tracejit.support.dtypes import result_type, weak_kind
from tracejit.support.errors import DtypeError, IndexOutOfBounds
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.calls import handed_out
from tracejit.tracer.failures import NO_CHOICE
from tracejit.tracer.layout import AS_IS, LAYOUTS
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS, METHODS, SPREADING
from tracejit.tracer.tracer import Tracer

__all__ = ["choose", "clip", "nan_to_num", "piecewise", "select", "where"]


_INTO_WHERE = to_dtype if np.lib.NumpyVersion(np.__version__) >= "2.5.0" else wrapped_to_dtype
"""NumPy's where wraps Python integers that do not fit up to 2.4; then it raises OverflowError."""


def where(
    condition: ArrayLike,
    x: ArrayLike = None,
    y: ArrayLike = None,
    /,
    *,
    size: ArrayLike = None,
    fill_value: ArrayLike = None,
) -> Result:
    """x where condition else y; without these the places where it holds, as `nonzero` gives them.

    size, fill_value: JAX's, of `nonzero`.
    """
    if x is None and y is None:
        given = {} if size is None and fill_value is None else {"size": size, "fill_value": fill_value}
        return FUNCTIONS[np.nonzero](condition, **given)
    if size is not None or fill_value is not None:
        raise reject("np.where: size and fill_value are for places, without x and y")
    if x is None or y is None:
        raise reject("np.where takes both x and y, or neither")
    return as_rank_0_array(u.where(condition, x, y, _INTO_WHERE))


def clip(
    a: ArrayLike,
    min: ArrayLike = None,
    max: ArrayLike = None,
    out: ArrayLike = None,
    *,
    a_min: ArrayLike = None,
    a_max: ArrayLike = None,
    dtype: DTypeLike = None,
) -> Result:
    """a limited to [min, max], either of which may be absent; NaN stays.   a_min, a_max: the same by older names"""
    absent = (None, np._NoValue)  # pyright: ignore[reportPrivateUsage]
    low = min if any(a_min is x for x in absent) else a_min
    high = max if any(a_max is x for x in absent) else a_max
    x = array_of(a)
    low, high = (None if any(bound is x for x in absent) else as_array(bound) for bound in (low, high))
    if aval(x).dtype.kind in "iu":  # a Python integer that limits nothing may be beyond the dtype's range
        own = aval(x).dtype
        wide = np.result_type(own, *[aval(z).dtype for z in (low, high) if z is not None and not aval(z).weak])
        low, high = _limit(low, u.maximum, own, wide), _limit(high, u.minimum, own, wide)
    x = to_dtype(x, result_type(*[(aval(z).dtype, aval(z).weak) for z in (x, low, high) if z is not None])[0])
    numbers = low is not None and high is not None and not (aval(low).shape or aval(high).shape)
    if low is not None:
        x = _limited(x, low, u.less, u.maximum) if numbers else u.maximum(x, low)
    if high is not None:
        x = _limited(x, high, u.greater, u.minimum) if numbers else u.minimum(x, high)
    x = x if dtype is None else to_dtype(x, dtype)
    return copy(x) if x is a else x


def _limited(x: ArrayLike, bound: ArrayLike, beyond: Any, nearer: Any) -> Result:
    """x, or the number `bound` where x is beyond it.  Of zeros of both signs x stays,
    where NumPy's maximum would choose the bound.
    """
    if weak_kind(bound) is not None and bound == bound and aval(x).dtype.kind == "f":
        return nearer(x, bound) if bound else u.where(beyond(x, bound), bound, x)
    found = nearer(x, bound)
    return (
        found if aval(found).dtype.kind != "f" or weak_kind(bound) is not None else u.where(u.equal(x, bound), x, found)
    )


def _limit(bound: ArrayLike, nearer: Any, own: np.dtype[Any], wide: np.dtype[Any]) -> ArrayLike:
    """A Python integer as a bound of integers of dtype `own`, of which it may limit none, in a result of dtype `wide`:
    to what NumPy limits then.
    """
    below = nearer is u.maximum
    end, far = (_ends(x)[0 if below else 1] for x in (own, wide))
    if type(bound) is int:
        return bound if (bound > end if below else bound < end) else far
    if isinstance(bound, Tracer) and bound.aval.weak and bound.dtype.kind == "i" and -(2**63) <= end < 2**63:
        if far == end:
            found = nearer(bound, end)
        elif wide == np.uint64:  # which no number of Python's in the program holds
            check_number(bound, wide)
            return u.where(nearer(bound, end) == end, np.uint64(far), bound)
        else:
            found = u.where(nearer(bound, end) == end, far, bound)
        found.weaken()
        return found
    return bound


def _ends(dtype: np.dtype[Any]) -> tuple[int | float, int | float]:
    """The least and greatest number of a dtype."""
    if dtype.kind not in "iu":
        return -np.inf, np.inf
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Result:
    """For each element the choice of the first condition that holds, else `default`."""
    if len(condlist) != len(choicelist):
        raise reject(f"np.select: {len(condlist)} conditions for {len(choicelist)} choices")
    if not condlist:
        raise reject("np.select needs at least one condition")
    conditions = [as_array(x) for x in condlist]
    for n, x in enumerate(conditions):
        if aval(x).dtype != np.bool_:
            raise DtypeError(f"np.select: condition {n} is {aval(x)}, not bool", location=user_location())
    choices = [as_array(x) for x in choicelist]
    fallback = as_array(default)
    dtype, _ = result_type(*[(aval(x).dtype, aval(x).weak) for x in [*choices, fallback]])
    shape = broadcast_shapes(*[aval(x).shape for x in [*conditions, *choices, fallback]])
    out = spread(wrapped_to_dtype(fallback, dtype), shape)
    for x, y in zip(reversed(conditions), reversed(choices), strict=True):
        out = choose_between(spread(x, shape), spread(wrapped_to_dtype(y, dtype), shape), out)
    return as_rank_0_array(out)


def choose(a: ArrayLike, choices: ArrayLike, out: ArrayLike = None, mode: str = "raise") -> Result:
    """For each element of a the choice of that number.

    mode: "clip" and "wrap" as NumPy; with "raise" the program fails where there is no such choice.

    Raises: ChoiceOutOfBounds, a ValueError as NumPy's and an IndexError.
    """
    if mode not in ("raise", "clip", "wrap"):
        raise reject(f"np.choose: mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    options = [as_array(x) for x in choices]
    if not options:
        raise reject("np.choose needs at least one choice")
    index = array_of(a)
    check_safe_index("np.choose", index)
    surely_there = aval(index).dtype.kind == "b" and len(options) > 1
    index = to_dtype(index, np.int64)
    if mode == "raise" and not surely_there and not within(_range_of(index), 0, len(options) - 1):
        check_none(u.logical_or(u.less(index, 0), u.greater_equal(index, len(options))), NO_CHOICE)
    index = u.remainder(index, len(options)) if mode == "wrap" else clip(index, 0, len(options) - 1)
    dtype, _ = result_type(*[(aval(x).dtype, aval(x).weak) for x in options])
    shape = broadcast_shapes(aval(index).shape, *[aval(x).shape for x in options])
    index = spread(index, shape)
    result = spread(wrapped_to_dtype(options[-1], dtype), shape)
    for n in reversed(range(len(options) - 1)):
        result = choose_between(u.equal(index, n), spread(wrapped_to_dtype(options[n], dtype), shape), result)
    return copy(result) if len(options) == 1 else result


def _range_of(x: ArrayLike) -> Range:
    return x.seen().value_range() if isinstance(x, Tracer) else ANYTHING


def piecewise(x: ArrayLike, condlist: ArrayLike, funclist: Sequence[Any], *args: ArrayLike, **kw: Any) -> Result:
    """For each element the function (or constant) of the last condition that holds;
    one more function is the default, else 0.

    Functions get the elements for which their condition holds, also where there is none; outside of a trace and under
    vmap they get all elements, so they must take each by itself.  Derivatives are those of where they are taken.
    """
    x = array_of(x)
    have = aval(x)
    conditions = [condlist]
    if isinstance(condlist, (list, tuple)):
        conditions = list(condlist)
    # each row is a condition, in NumPy too
    elif (rows := as_array(condlist)) is not None and aval(rows).ndim > min(have.ndim, 1):
        conditions = [rows[k] for k in range(int(aval(rows).shape[0]))]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise reject(
            f"np.piecewise: {len(conditions)} conditions take as many functions, or one more; there are {len(funclist)}"
        )

    def value(f: Any, test: ArrayLike, mask: ArrayLike) -> Result:
        if callable(f):  # elsewhere x is a constant for derivatives, which may be infinite there
            given = choose_between(test, x, stop_gradient(x)) if have.dtype.kind in "fc" else x
            if isinstance(mask, Tracer) and isinstance(given, Tracer) and have.shape and may_count():
                made = zeros(have.shape, have.dtype)
                OPERATORS.setitem(made, mask, f(OPERATORS.getitem(given, mask), *args, **kw))
                return made
            f = f(given, *args, **kw)
        return spread(to_dtype(as_array(f), have.dtype), have.shape)

    tests: list[Result] = []
    masks: list[Result] = []
    for condition in conditions:
        test = as_array(condition)
        test = np.bool_(test) if weak_kind(test) is not None else test
        leading = aval(test).shape  # an index into the first axes, as a mask is
        if not same_shape(leading, have.shape[: len(leading)]) and leading != have.shape[: len(leading)]:
            raise IndexOutOfBounds(f"np.piecewise: a condition of shape {leading} for {have}", location=user_location())
        masks.append(test)
        test = reshape(test, (*leading, *(1,) * (have.ndim - len(leading)))) if leading else test
        tests.append(spread(test, have.shape))
    out = value(0, None, None)
    if len(funclist) > len(conditions):
        some = spread(np.bool_(False), have.shape)
        for test in tests:
            some = u.logical_or(some, test)
        none = u.logical_not(some)
        out = value(funclist[-1], none, none)
    for test, mask, f in zip(tests, masks, funclist, strict=False):
        out = choose_between(test, value(f, test, mask), out)
    return as_rank_0_array(out)


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike = None, neginf: ArrayLike = None
) -> Result:
    """NaN replaced by `nan`, infinities by the greatest and least finite numbers unless given;
    in place where `copy` is False.
    """
    found = handed_out(_finite, x, nan, posinf, neginf)
    if copy or not isinstance(x, Tracer) or not (x.shape or x.is_array):
        return found
    if x.dtype.kind in "fc":
        x[...] = found
    return x


def _finite(x: ArrayLike, nan: ArrayLike, posinf: ArrayLike, neginf: ArrayLike) -> Result:
    y = array_of(x)
    dtype = aval(y).dtype
    if dtype.kind == "c":
        return make_complex(_finite(real(y), nan, posinf, neginf), _finite(imag(y), nan, posinf, neginf))
    if dtype.kind != "f":
        return u.unchanged(y)
    info = np.finfo(dtype)
    high = to_dtype(as_array(info.max if posinf is None else posinf), dtype)
    low = to_dtype(as_array(info.min if neginf is None else neginf), dtype)
    out = u.where(u.isnan(y), to_dtype(as_array(nan), dtype), y)
    out = u.where(u.equal(y, np.inf), high, out)
    return u.where(u.equal(y, -np.inf), low, out)


METHODS.update({"choose": choose, "clip": clip})
for _function in (where, clip, select, choose, piecewise, nan_to_num):
    FUNCTIONS[getattr(np, _function.__name__)] = _function
AS_IS.add(nan_to_num)
SPREADING.add(clip)
for _elementwise in (where, clip, _finite):
    LAYOUTS[_elementwise] = in_order_of_operands
