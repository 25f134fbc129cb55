"""Functions of `math` on traced numbers: NumPy's and SciPy's of float64, with results that are numbers of Python's.

Where `math` raises ValueError or OverflowError for what a function has no value of, these give NumPy's NaN or infinity.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.tracer.calls import handed_out
from tracejit.tracer.failures import Raised
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.substitutes import python_number, real_part, redirect_members
from tracejit.tracer.tables import UFUNCS, fill_late
from tracejit.tracer.tracer import Tracer

__all__ = ["enter"]


def _traced(*args: Any) -> bool:
    """Whether one of some arguments is a number that the program computes."""
    return any(isinstance(x, Tracer) and not x.shape for x in args)


def _math(original: Callable[..., Any], ufunc: Any) -> Callable[..., Any]:
    """A function of `math`, NumPy's for traced numbers: of float64, and with a result that is a number of Python's."""

    def call(*args: Any) -> Any:
        if any(isinstance(x, Tracer) and not x.shape for x in args):
            if len(args) != ufunc.nin:
                raise TypeError(f"{original.__name__} expected {ufunc.nin} arguments, got {len(args)}")
            return _of_floats(ufunc, *args)
        return original(*args)

    return functools.update_wrapper(call, original)


_MATH = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh,
    "degrees": np.degrees, "exp": np.exp, "expm1": np.expm1, "fabs": np.fabs, "fmod": np.fmod, "hypot": np.hypot,
    "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan, "log1p": np.log1p, "log2": np.log2,
    "log10": np.log10, "radians": np.radians, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh, "log": np.log, "exp2": np.exp2, "cbrt": np.cbrt, "nextafter": np.nextafter,
}  # fmt: skip


def _of_floats(ufunc: Any, *args: Any) -> Any:
    for x in args:
        if isinstance(x, Tracer) and x.dtype.kind == "c" and x.aval.weak:
            raise TypeError("must be real number, not complex")
    result = ufunc(*[python_number(x, float) if isinstance(x, Tracer) else float(x) for x in args])
    return result.as_python_number() if isinstance(result, Tracer) else result.item()


def _log(x: Any, base: Any = None) -> Any:
    if not isinstance(x, Tracer) and not isinstance(base, Tracer):
        return math.log(x) if base is None else math.log(x, base)
    return _of_floats(np.log, x) if base is None else _of_floats(np.log, x) / _of_floats(np.log, base)


def _hypot(*coordinates: Any) -> Any:
    if not any(isinstance(x, Tracer) and not x.shape for x in coordinates):
        return math.hypot(*coordinates)
    return functools.reduce(lambda length, x: _of_floats(np.hypot, length, x), coordinates, 0.0)


def _floor_like(name: str, ufunc: Any) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        if not isinstance(x, Tracer):
            return getattr(math, name)(x)
        if x.dtype.kind == "c":
            if name == "trunc" or x.aval.weak:
                raise TypeError(f"math.{name} takes a real number, not a complex one")
            x = real_part(x, f"math.{name} takes a real number, not a complex one")
        return python_number(ufunc(x), int)

    return functools.update_wrapper(call, getattr(math, name))


def _special(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function of `math` that `scipy.special` has as well."""

    def call(x: Any) -> Any:
        if not _traced(x):
            return original(x)
        fill_late("scipy.special")
        return _of_floats(lambda y: handed_out(UFUNCS[f"scipy.special.{name}"], y), x)

    return functools.update_wrapper(call, original)


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    if not _traced(a, b, rel_tol, abs_tol):
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)

    negative = np.logical_or(np.less(rel_tol, 0), np.less(abs_tol, 0))
    if not isinstance(negative, Tracer):
        if negative:
            raise ValueError("tolerances must be non-negative")
    else:
        OPERATORS.check_none(negative, Raised(ValueError("tolerances must be non-negative")))

    def close(a: Any, b: Any, rel: Any, least: Any) -> Any:
        allowed = np.maximum(np.multiply(rel, np.maximum(np.abs(a), np.abs(b))), least)
        near = np.less_equal(np.abs(np.subtract(a, b)), allowed)
        finite = np.logical_and(np.isfinite(a), np.isfinite(b))
        return np.logical_or(np.equal(a, b), np.logical_and(near, finite))

    return _of_floats(close, a, b, rel_tol, abs_tol)


def _gcd(*integers: Any) -> Any:
    if not _traced(*integers):
        return math.gcd(*integers)
    return functools.reduce(_common, map(_size, integers), 0)


def _common(a: Any, b: Any) -> Any:
    """The greatest common divisor of two."""
    return python_number(np.gcd(a, b), int) if _traced(a, b) else math.gcd(a, b)


def _lcm(*integers: Any) -> Any:
    if not _traced(*integers):
        return math.lcm(*integers)
    # a product of Python's numbers: it is checked
    return functools.reduce(_multiple, map(_size, integers), 1)


def _multiple(a: Any, b: Any) -> Any:
    """The least common multiple of two."""
    if not _traced(a, b):
        return math.lcm(a, b)
    return python_number(np.floor_divide(a, np.maximum(np.gcd(a, b), 1)), int) * b


def _size(x: Any) -> Any:
    """The absolute value of an integer."""
    if not isinstance(x, Tracer):
        return abs(x.__index__())
    x = _integer(x)
    OPERATORS.check_none(np.equal(x, -(2**63)), Raised(OverflowError("2**63 is beyond 64 bits")))
    return python_number(np.abs(x), int)


def _integer(x: Any) -> Any:
    """An argument that has to be an integer.  Raises: TypeError."""
    if not isinstance(x, Tracer):
        return x.__index__()
    if x.dtype.kind not in "iub":
        raise TypeError(f"'{'complex' if x.dtype.kind == 'c' else 'float'}' object cannot be interpreted as an integer")
    return python_number(x, int)


def _isqrt(n: Any) -> Any:
    if not _traced(n):
        return math.isqrt(n)
    whole = _integer(n).astype(np.int64)
    OPERATORS.check_none(whole < 0, Raised(ValueError("isqrt() argument must be nonnegative")))
    root = np.sqrt(whole).astype(np.int64)  # of more than 53 bits it may be one too many or too few
    root = root - np.greater(root, np.floor_divide(whole, np.maximum(root, 1)))
    root = root + np.greater_equal(np.floor_divide(whole, root + 1), root + 1)
    return python_number(root, int)


def _dist(p: Any, q: Any) -> Any:
    """The distance of two points, which are sequences or arrays."""
    given = [isinstance(x, Tracer) or (isinstance(x, (tuple, list)) and _traced(*x)) for x in (p, q)]
    if not any(given):
        return math.dist(p, q)
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    if all(isinstance(x, (tuple, list)) for x in (p, q)):
        return _hypot(*[_double(a) - _double(b) for a, b in zip(p, q, strict=True)])
    return python_number(np.hypot.reduce(np.subtract(p, q, dtype=np.float64)), float)


def _double(x: Any) -> Any:
    """A number as Python's functions of floats take it."""
    return python_number(x, float) if isinstance(x, Tracer) else float(x)


def _remainder(x: Any, y: Any) -> Any:
    if not _traced(x, y):
        return math.remainder(x, y)

    def nearest(x: Any, y: Any) -> Any:
        size, step = np.abs(x), np.abs(y)
        rest = np.fmod(size, step)
        other = np.subtract(step, rest)
        even = np.subtract(rest, np.multiply(2.0, np.fmod(np.multiply(0.5, np.subtract(size, rest)), step)))
        found = np.where(np.less(rest, other), rest, np.where(np.greater(rest, other), np.negative(other), even))
        found = np.multiply(np.copysign(1.0, x), found)
        return np.where(np.logical_and(np.isinf(y), np.isfinite(x)), x, found)

    return _of_floats(nearest, x, y)


def _modf(x: Any) -> Any:
    if not _traced(x):
        return math.modf(x)
    return _of_floats(lambda y: np.modf(y)[0], x), _of_floats(lambda y: np.modf(y)[1], x)


def _frexp(x: Any) -> Any:
    if not _traced(x):
        return math.frexp(x)
    return _of_floats(lambda y: np.frexp(y)[0], x), _of_floats(lambda y: np.frexp(y)[1].astype(np.int64), x)


def _ldexp(x: Any, i: Any) -> Any:
    if _traced(x, i):
        return _of_floats(lambda y: np.ldexp(y, _integer(i)), x)
    return math.ldexp(x, int(i) if isinstance(i, Dim) else i)  # which takes nothing but an int


def _ulp(x: Any) -> Any:
    if not _traced(x):
        return math.ulp(x)
    return _of_floats(lambda y: np.where(np.isinf(y), np.abs(y), np.spacing(np.abs(y))), x)


def _pow(x: Any, y: Any) -> Any:
    if not _traced(x, y):
        return math.pow(x, y)
    if not isinstance(y, Tracer) and y == 0.5:  # no root: of -inf and -0.0 it has values
        return _of_floats(lambda z: np.where(np.equal(z, -np.inf), np.inf, np.add(np.sqrt(z), 0.0)), x)
    return _of_floats(np.power, x, y)


_OF_A_DOMAIN = (
    "acos", "acosh", "asin", "atanh", "fmod", "gamma", "lgamma", "log", "log10", "log1p", "log2", "pow", "remainder",
    "sqrt",
)  # fmt: skip
_OF_THE_FINITE = "cos", "sin", "tan"
_GROWING = "cosh", "exp", "exp2", "expm1", "gamma", "ldexp", "pow", "sinh"
_RAISING = (
    (_OF_A_DOMAIN, ValueError, "math domain error", frozenset[str]()),
    (_OF_THE_FINITE, ValueError, "math domain error", frozenset({"ValueError"})),
    (_GROWING, OverflowError, "math range error", frozenset({"OverflowError", "ArithmeticError"})),
)
"""What functions of `math` raise where NumPy's have a value: the class, the text, and by which classes that is caught
(nobody writes `except Exception` for results that are too great, or for infinite angles).
"""


def _where_math_raises(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `math` that gives NumPy's NaN or infinity only where no `except` waits for an error."""
    found = [(kind, text, by) for names, kind, text, by in _RAISING if name in names]
    if not found:
        return function

    def call(*args: Any) -> Any:
        if any(isinstance(x, Tracer) for x in args):
            for kind, text, by in found:
                OPERATORS.refuse_if_caught(kind, f"{kind.__name__} ({text})", by=by, numbers=args)
        return function(*args)

    return functools.update_wrapper(call, function)


def enter() -> None:
    """Have traced functions call these."""
    functions = _log, _hypot, _pow, _isclose, _gcd, _lcm, _isqrt, _dist, _remainder, _modf, _frexp, _ldexp, _ulp
    own = {f.__name__[1:]: f for f in functions}
    members = {getattr(math, name): f for name, f in own.items()}
    members |= {f: _math(f, ufunc) for name, ufunc in _MATH.items() if name not in own and (f := getattr(math, name))}
    for name, ufunc in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)):
        members[getattr(math, name)] = _floor_like(name, ufunc)
    for name, other in (("erf", "erf"), ("erfc", "erfc"), ("gamma", "gamma"), ("lgamma", "gammaln")):
        members[getattr(math, name)] = _special(getattr(math, name), other)
    redirect_members({f: _where_math_raises(f.__name__, g) for f, g in members.items()})
