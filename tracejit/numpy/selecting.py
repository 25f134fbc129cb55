"""Functions that choose between elements, limit them, or compare whole arrays."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.numpy import joining, reductions as r, ufuncs as u
from tracejit.numpy.axes import reject, same_shape, static_int, unsupported
from tracejit.numpy.promotion import (
    as_array,
    aval,
    broadcast_shapes,
    broadcast_to as spread,
    to_dtype,
    wrapped_to_dtype,
)
from tracejit.numpy.shaping import array_of, as_rank_0_array, copy, flat, for_reading, ravel, reshape
from tracejit.numpy.strides import in_order_of_operands, like_first
from tracejit.primitives.elementwise import select as choose_between
from tracejit.support.dtypes import result_type, weak_kind
from tracejit.support.errors import ConcretizationError, DtypeError, IndexOutOfBounds
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.captured import CellTracer
from tracejit.tracer.layout import AS_IS, LAYOUTS, Layout
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import FUNCTIONS, METHODS, OUT_CASTING, SPREADING, Tracer, handed_out, is_number

__all__ = [
    "allclose", "array_equal", "array_equiv", "around", "choose", "clip", "conj", "conjugate", "copyto",
    "fill_diagonal", "fix", "imag", "isclose", "iscomplex", "iscomplexobj", "isreal", "isrealobj", "nan_to_num",
    "piecewise", "place", "putmask", "real", "round", "select", "where",
]  # fmt: skip


def _data_dependent(name: str, advice: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function for values that are known, an error for others."""

    def run(*args: ArrayLike, **kwargs: Any) -> Result:
        try:
            return function(
                *[np.asarray(a) if isinstance(a, Tracer) or hasattr(a, "aval") else a for a in args], **kwargs
            )
        except ConcretizationError as error:
            raise ConcretizationError(
                f"np.{name} gives a result whose shape depends on values, which are not known while tracing; {advice}",
                location=user_location(),
            ) from error

    return run


_INTO_WHERE = to_dtype if np.lib.NumpyVersion(np.__version__) >= "2.5.0" else wrapped_to_dtype
"""NumPy's where wraps Python integers that do not fit up to 2.4; then it raises OverflowError."""


def where(condition: ArrayLike, x: ArrayLike = None, y: ArrayLike = None, /) -> Result:
    """x where condition else y.

    Raises: ConcretizationError for the form with one argument where its values are not known: the result's shape
    depends on them.
    """
    if x is None and y is None:
        return _data_dependent("where(condition)", f"{_MASK}; np.sum(mask) counts", np.where)(condition)
    if x is None or y is None:
        raise reject("np.where takes both x and y, or neither")
    return as_rank_0_array(u.where(condition, x, y, _INTO_WHERE))


def clip(
    a: ArrayLike,
    a_min: ArrayLike = None,
    a_max: ArrayLike = None,
    out: ArrayLike = None,
    *,
    min: ArrayLike = None,
    max: ArrayLike = None,
    dtype: DTypeLike = None,
) -> Result:
    """a limited to [a_min, a_max], either of which may be absent; NaN stays."""
    low = min if a_min is None or a_min is np._NoValue else a_min  # pyright: ignore[reportPrivateUsage]
    high = max if a_max is None or a_max is np._NoValue else a_max  # pyright: ignore[reportPrivateUsage]
    x = array_of(a)
    low, high = (bound if bound is None else as_array(bound) for bound in (low, high))
    if aval(x).dtype.kind in "iu":  # a Python integer that limits nothing may be beyond the dtype's range
        info = np.iinfo(aval(x).dtype)
        low, high = _limit(low, u.maximum, int(info.min)), _limit(high, u.minimum, int(info.max))
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


def _limit(bound: ArrayLike, nearer: Any, end: int) -> Result:
    """A Python integer, or `end` if that limits as much."""
    if type(bound) is int:
        return bound if (bound > end) == (nearer is u.maximum) else end
    if isinstance(bound, Tracer) and bound.aval.weak and bound.dtype.kind == "i" and -(2**63) <= end < 2**63:
        found = nearer(bound, end)
        found.weaken()
        return found
    return bound


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

    mode: "clip" and "wrap" as NumPy; "raise" checks values that are known and otherwise clips, since compiled code does
    not raise here.
    """
    if mode not in ("raise", "clip", "wrap"):
        raise reject(f"np.choose: mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    options = [as_array(x) for x in choices]
    if not options:
        raise reject("np.choose needs at least one choice")
    index = array_of(a)
    if aval(index).dtype.kind not in "iub":
        raise DtypeError(f"np.choose: {aval(index)} is not an index", location=user_location())
    if mode == "raise":
        if isinstance(index, Tracer):
            raise unsupported(
                "np.choose checks its index in mode 'raise', which compiled code cannot; use mode='clip' or mode='wrap'"
            )
        if index.size and not (0 <= index.min() and index.max() < len(options)):
            raise reject("np.choose: invalid entry in the index")
    index = to_dtype(index, np.int64)
    index = u.remainder(index, len(options)) if mode == "wrap" else clip(index, 0, len(options) - 1)
    dtype, _ = result_type(*[(aval(x).dtype, aval(x).weak) for x in options])
    shape = broadcast_shapes(aval(index).shape, *[aval(x).shape for x in options])
    index = spread(index, shape)
    result = spread(wrapped_to_dtype(options[-1], dtype), shape)
    for n in reversed(range(len(options) - 1)):
        result = choose_between(u.equal(index, n), spread(wrapped_to_dtype(options[n], dtype), shape), result)
    return copy(result) if len(options) == 1 else result


def piecewise(x: ArrayLike, condlist: ArrayLike, funclist: Sequence[Any], *args: ArrayLike, **kw: Any) -> Result:
    """For each element the function (or constant) of the last condition that holds;
    one more function is the default, else 0.

    Functions are evaluated everywhere.
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

    def value(f: Any) -> Result:
        return spread(to_dtype(as_array(f(x, *args, **kw) if callable(f) else f), have.dtype), have.shape)

    out = value(funclist[-1]) if len(funclist) > len(conditions) else value(0)
    for condition, f in zip(conditions, funclist, strict=False):
        test = as_array(condition)
        test = np.bool_(test) if weak_kind(test) is not None else test
        leading = aval(test).shape  # an index into the first axes, as a mask is
        if not same_shape(leading, have.shape[: len(leading)]) and leading != have.shape[: len(leading)]:
            raise IndexOutOfBounds(f"np.piecewise: a condition of shape {leading} for {have}", location=user_location())
        test = reshape(test, (*leading, *(1,) * (have.ndim - len(leading)))) if leading else test
        out = choose_between(spread(test, have.shape), value(f), out)
    return as_rank_0_array(out)


# -- numbers -----------------------------------------------------------------------------------------------------------
def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike = None, neginf: ArrayLike = None
) -> Result:
    """NaN replaced by `nan`, infinities by the greatest and least finite numbers unless given;
    in place where `copy` is False.
    """
    found = handed_out(_finite, x, nan, posinf, neginf)
    if copy or not isinstance(x, Tracer) or not (x.shape or x.is_array):
        return found
    if x.dtype.kind == "f":
        x[...] = found
    return x


def _finite(x: ArrayLike, nan: ArrayLike, posinf: ArrayLike, neginf: ArrayLike) -> Result:
    y = array_of(x)
    dtype = aval(y).dtype
    if dtype.kind != "f":
        return u.unchanged(y)
    info = np.finfo(dtype)
    high = to_dtype(as_array(info.max if posinf is None else posinf), dtype)
    low = to_dtype(as_array(info.min if neginf is None else neginf), dtype)
    out = u.where(u.isnan(y), to_dtype(as_array(nan), dtype), y)
    out = u.where(u.equal(y, np.inf), high, out)
    return u.where(u.equal(y, -np.inf), low, out)


def round(a: ArrayLike, decimals: Any = 0, out: ArrayLike = None) -> Result:
    """Rounded to `decimals` places, halves to even; negative ones round before the point."""
    x = array_of(a)
    dtype = aval(x).dtype
    places = static_int(decimals, "np.round's decimals")
    if dtype.kind == "b":
        if places:
            raise DtypeError(
                "np.round: booleans have no decimals; convert them first (x.astype(float))", location=user_location()
            )
        return to_dtype(x, np.float16)
    if dtype.kind in "iu":
        return u.unchanged(x) if places >= 0 else _round_integer(x, -places)
    if places == 0:
        return u.rint(x)
    scale = dtype.type(_power_of_ten(builtins.abs(places)))
    scaled = u.rint(u.multiply(x, scale) if places > 0 else u.divide(x, scale))
    return u.divide(scaled, scale) if places > 0 else u.multiply(scaled, scale)


def _power_of_ten(places: int) -> float:
    return 10.0**places if places <= 308 else float("inf")


def _round_integer(x: ArrayLike, places: int) -> Result:
    """An integer rounded to a multiple of 10**places, through double precision as NumPy."""
    scale = _power_of_ten(places)
    return to_dtype(u.multiply(u.rint(u.divide(x, scale)), scale), aval(x).dtype)


around = round


def _round_decimals(x: ArrayLike, digits: int) -> Result:
    """Python's round() of a float, which rounds the number that it is and not a product:
    2.55, a little less than that, to 2.5.

    The error of the product with 10**digits, which is exact up to 10**22, says to which side of a half it was.
    Source: Dekker, A floating-point technique for extending the available precision.
    """
    scale = 10.0**digits
    product = u.multiply(x, scale)
    high, low = _split(x)
    scale_high, scale_low = (float(part) for part in _split(np.float64(scale)))
    error = u.subtract(u.multiply(high, scale_high), product)
    error = u.add(
        u.add(u.add(error, u.multiply(high, scale_low)), u.multiply(low, scale_high)), u.multiply(low, scale_low)
    )
    whole = u.rint(product)
    gap = u.subtract(product, whole)
    whole = u.where(u.logical_and(u.equal(gap, 0.5), u.greater(error, 0)), u.add(whole, 1), whole)
    whole = u.where(u.logical_and(u.equal(gap, -0.5), u.less(error, 0)), u.subtract(whole, 1), whole)
    found = u.where(u.less(u.absolute(product), 2.0**53), u.divide(u.copysign(whole, x), scale), x)
    return found.as_python_number()


def _split(x: ArrayLike) -> tuple[Result, Result]:
    """x as a sum of two numbers of half as many bits."""
    large = u.multiply(x, 2.0**27 + 1)
    high = u.subtract(large, u.subtract(large, x))
    return high, u.subtract(x, high)


OPERATORS.round_decimals = _round_decimals


def fix(x: ArrayLike, out: ArrayLike = None) -> Result:
    """Rounded towards zero."""
    return u.trunc(x)


def real(val: ArrayLike) -> Result:
    """The real part: arrays here are real."""
    if type(val) is bool or (isinstance(val, Tracer) and is_number(val) and val.dtype.kind == "b"):
        return +cast("Any", val)  # as Python's attribute of that name gives it
    return val if _is_number(val) else array_of(val)


def imag(val: ArrayLike) -> Result:
    """The imaginary part: zeros of the same dtype, which cannot be written."""
    if isinstance(val, Tracer) and is_number(val):
        return 0.0 if val.dtype.kind == "f" else 0
    have = aval(array_of(val))
    if _is_number(val) or (isinstance(val, Tracer) and val.is_scalar):
        return spread(have.dtype.type(0), have.shape)
    return for_reading(FUNCTIONS[np.zeros](have.shape, have.dtype), "imag")


def conjugate(x: ArrayLike, out: ArrayLike = None) -> Result:
    """The complex conjugate, as a new array: arrays here are real."""
    return u.unchanged(x)


conj = conjugate


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the dtype is complex."""
    return aval(as_array(x)).dtype.kind == "c"


def isrealobj(x: ArrayLike) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isreal(x: ArrayLike) -> Result:
    """Whether the imaginary part is 0: True everywhere."""
    return True if isinstance(x, Tracer) and is_number(x) else spread(np.bool_(True), aval(array_of(x)).shape)


def iscomplex(x: ArrayLike) -> Result:
    """Whether the imaginary part is not 0: False everywhere."""
    return spread(np.bool_(False), aval(array_of(x)).shape)


# -- comparing arrays --------------------------------------------------------------------------------------------------
def _is_number(x: ArrayLike) -> bool:
    """Whether it is a number of Python, which has no dtype of its own."""
    return weak_kind(x) is not None or (isinstance(x, Tracer) and x.aval.weak)


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1.0e-5, atol: ArrayLike = 1.0e-8, equal_nan: bool = False
) -> Result:
    """|a - b| <= atol + rtol * |b|, elementwise; equal infinities are close, NaN only with `equal_nan`."""
    x, y, absolute, relative = (t if _is_number(t) else array_of(t) for t in (a, b, atol, rtol))
    if aval(y).dtype.kind != "f":
        y = (
            y * 1.0
            if _is_number(y)
            else to_dtype(y, result_type((aval(y).dtype, False), (np.dtype(np.float64), True))[0])
        )
    near = u.less_equal(u.absolute(u.subtract(x, y)), absolute + relative * abs(y))
    out = u.logical_or(u.logical_and(near, u.isfinite(y)), u.equal(x, y))
    return u.logical_or(out, u.logical_and(u.not_equal(x, x), u.not_equal(y, y))) if equal_nan else out


def _truth(x: ArrayLike) -> Result:
    return x.as_python_number() if isinstance(x, Tracer) else bool(x)


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1.0e-5, atol: ArrayLike = 1.0e-8, equal_nan: bool = False
) -> Result:
    """Whether all elements are close, as a bool of Python's."""
    return _truth(r.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Result:
    """Whether shapes and all elements are equal, as a bool of Python's."""
    x, y = array_of(a1), array_of(a2)
    if aval(x).ndim != aval(y).ndim or (
        not same_shape(aval(x).shape, aval(y).shape) and aval(x).shape != aval(y).shape
    ):
        return False
    same = u.equal(x, y)
    if equal_nan:
        same = u.logical_or(same, u.logical_and(u.isnan(x), u.isnan(y)))
    return _truth(r.all(same))


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Result:
    """Whether the arrays are equal after broadcasting one to the other, as a bool of Python's."""
    x, y = array_of(a1), array_of(a2)
    try:
        broadcast_shapes(aval(x).shape, aval(y).shape)
    except ValueError:
        return False
    return _truth(r.all(u.equal(x, y)))


# -- writing -----------------------------------------------------------------------------------------------------------
def copyto(dst: ArrayLike, src: ArrayLike, casting: Any = "same_kind", where: ArrayLike = True) -> None:
    """Write src, broadcast, into dst (where the mask holds)."""
    if not isinstance(dst, Tracer):
        raise unsupported(
            "np.copyto in traced code writes into arrays made inside the function or its arguments; this one is a "
            "constant"
        )
    number = _is_number(src)
    x = src if number else array_of(src)
    least = {"b": np.bool_, "i": np.uint8, "f": np.float16}
    if number and not np.can_cast(least[aval(x).dtype.kind], dst.dtype, casting):
        raise DtypeError(
            f"np.copyto: a Python number cannot be cast to {dst.dtype} by the rule {casting!r}",
            location=user_location(),
        )
    if not number and not np.can_cast(aval(x).dtype, dst.dtype, casting):
        raise DtypeError(
            f"np.copyto: {aval(x)} cannot be cast to {dst.dtype} by the rule {casting!r}", location=user_location()
        )
    have = aval(x).shape
    if len(have) > dst.ndim and {*have[: len(have) - dst.ndim]} == {1}:  # as in an assignment
        x = reshape(x, have[len(have) - dst.ndim :])
    value = spread(to_dtype(x, dst.dtype), dst.shape)
    if where is not True:
        value = choose_between(spread(array_of(where), dst.shape), value, dst)
    OPERATORS.setitem(dst, Ellipsis, value)


def putmask(a: ArrayLike, mask: ArrayLike, values: ArrayLike) -> None:
    """Write the elements of values, repeated along a's, into a where the mask holds."""
    if not isinstance(a, Tracer):
        raise unsupported(
            "np.putmask in traced code writes into arrays made inside the function or its arguments; this one is a "
            "constant"
        )
    number = (
        weak_kind(values) is not None
        or isinstance(values, np.generic)
        or (isinstance(values, Tracer) and values.is_scalar)
    )
    value = (
        FUNCTIONS[np.array](values, a.dtype)
        if isinstance(values, (list, tuple))
        else values
        if number
        else as_array(values)
    )
    test = as_array(mask)
    if not number and not np.can_cast(aval(value).dtype, a.dtype):
        raise DtypeError(
            f"np.putmask: {aval(value)} cannot be cast to {a.dtype} by the rule 'safe'", location=user_location()
        )
    size = aval(test).size
    if not same_shape((size,), (a.size,)) and size != a.size:
        raise reject(f"np.putmask: a mask of shape {aval(test).shape} is given for an array of shape {a.shape}")
    if aval(value).ndim and int(aval(value).size) == 0:
        return
    value = to_dtype(value, a.dtype)
    value = joining.resize(value, a.shape) if aval(value).ndim else spread(value, a.shape)
    OPERATORS.setitem(a, Ellipsis, choose_between(reshape(u.not_equal(test, 0), a.shape), value, a))


def set_flat(a: ArrayLike, values: ArrayLike) -> None:
    """`a.flat = values`: all elements in C order, the values again and again."""
    value = ravel(
        FUNCTIONS[np.array](values, a.dtype)
        if isinstance(values, (list, tuple))
        else to_dtype(as_array(values), a.dtype)
    )
    if int(aval(value).size) == 0:
        raise reject("x.flat = y: y is empty")
    OPERATORS.setitem(a, Ellipsis, joining.resize(value, a.shape))


OPERATORS.set_flat = set_flat


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike) -> None:
    """Write one value into arr where the mask holds.

    Raises: UnsupportedError for several, which are put down one after another: where each goes depends on the values of
    the mask.
    """
    have = aval(as_array(vals))
    if have.ndim and int(have.size) != 1:
        raise unsupported(
            "np.place with several values, each for the next True element, is not supported; use x[mask] = y[mask]"
        )
    putmask(arr, mask, vals)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False) -> None:
    """Set the main diagonal of a to val, repeated or cut to its length;
    with `wrap` it starts again below a tall matrix.
    """
    have = aval(array_of(a))
    if have.ndim < 2:
        raise reject("np.fill_diagonal needs at least 2 axes")
    shape = [int(n) for n in have.shape]
    if have.ndim > 2 and len(set(shape)) > 1:
        raise reject("np.fill_diagonal: all axes must be of one extent")
    step = shape[1] + 1 if have.ndim == 2 else 1 + sum(shape[0] ** d for d in range(1, have.ndim))
    end = int(have.size) if wrap or have.ndim > 2 else min(int(have.size), shape[1] * shape[1])
    value = as_array(val)
    if aval(value).ndim:
        value = joining.resize(value, (len(range(0, end, step)),))
    OPERATORS.setitem(flat(a), slice(0, end, step), value)


def fill(a: ArrayLike, value: ArrayLike) -> None:
    """Set all elements of a to a value.  Raises: ShapeError for an array of values."""
    if aval(as_array(value)).ndim:
        raise reject("fill() sets all elements to one value; use x[...] = values")
    OPERATORS.assign(a, Ellipsis, value)


def result_type_of(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """numpy.result_type for traced arrays, dtypes and numbers."""
    number: dict[str, Any] = {"b": False, "i": 0, "f": 0.0}

    def plain(x: ArrayLike) -> Result:
        if not isinstance(x, Tracer):
            return 0 if isinstance(x, Dim) else x
        return number[x.dtype.kind] if x.aval.weak and not x.shape else x.dtype

    return np.result_type(*map(plain, arrays_and_dtypes))


def _can_cast(from_: Any, to: DTypeLike, casting: Any = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, Tracer) else from_, to, casting)


def _may_share(a: ArrayLike, b: ArrayLike, max_work: Any = None) -> bool:
    """Whether two arrays are views of one: which elements they have in common is not looked at."""
    a, b = _base(a), _base(b)
    if isinstance(a, CellTracer) and isinstance(b, CellTracer):
        return np.may_share_memory(a.array, b.array)  # as long as that holds: see `Dependencies.renewed`
    return a is b


def _share(a: ArrayLike, b: ArrayLike, max_work: Any = None) -> bool:
    if _may_share(a, b):
        raise unsupported(
            "np.shares_memory of two views of one array is not supported in traced code; np.may_share_memory is"
        )
    return False


def _base(x: ArrayLike) -> Result:
    while isinstance(x, Tracer) and x.root is not None:
        x = x.root
    return x


METHODS.update(
    {
        "clip": clip,
        "real": real,
        "imag": imag,
        "conj": real,
        "conjugate": real,
        "round": round,
        "fill": fill,
        "choose": choose,
    }
)
for _function in (
    where, clip, select, choose, piecewise, nan_to_num, around, round, fix, real, imag, iscomplexobj, isrealobj,
    isreal, iscomplex, isclose, allclose, array_equal, array_equiv, copyto, putmask, place, fill_diagonal,
):  # fmt: skip
    FUNCTIONS[getattr(np, _function.__name__)] = _function


def _layout_of_rounded(
    arrays: Sequence[ArrayLike], result: Tracer, a: ArrayLike, decimals: Any = 0, *operands: ArrayLike, **options: Any
) -> Layout:
    scaled = result.dtype.kind == "f" and not (isinstance(decimals, int) and decimals == 0)
    return like_first(arrays, result) if scaled else in_order_of_operands(arrays, result)


AS_IS.update((real, imag, nan_to_num))
SPREADING.update((clip, fix))
OUT_CASTING.update({round: "equiv", around: "equiv"})  # NumPy rounds in the dtype of out=
LAYOUTS.update({round: _layout_of_rounded, around: _layout_of_rounded})
for _elementwise in (where, clip, _finite, fix, isreal, iscomplex, isclose, conjugate):
    LAYOUTS[_elementwise] = in_order_of_operands
FUNCTIONS.update(
    {
        np.around: around,
        np.result_type: result_type_of,
        np.can_cast: _can_cast,
        np.shares_memory: _share,
        np.may_share_memory: _may_share,
    }
)
_OUTSIDE = "call it before or after the compiled function"
_MASK = "index with the mask itself (x[mask] = value), or use np.where(mask, x, other)"
for _name, _advice in (
    ("nonzero", _MASK), ("flatnonzero", _MASK), ("argwhere", _MASK), ("unique", _OUTSIDE),
    ("extract", "use np.where(condition, x, fill)"), ("compress", "use np.where(condition, x, fill)"),
    ("union1d", _OUTSIDE), ("intersect1d", "use np.isin(x, y), a mask"), ("setdiff1d", "use ~np.isin(x, y), a mask"),
    ("trim_zeros", "slice with known bounds"),
):  # fmt: skip
    FUNCTIONS[getattr(np, _name)] = _data_dependent(_name, _advice, getattr(np, _name))
METHODS["nonzero"] = _data_dependent("nonzero", _MASK, np.nonzero)
METHODS["compress"] = lambda x, condition, axis=None: FUNCTIONS[np.compress](condition, x, axis)
