"""Distributions whose samples are a formula of uniform or normal numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.ir.extents import Shape
from tracejit.primitives.arithmetic import Abs, Maximum, Minimum, Sign
from tracejit.primitives.comparison import Le, Lt
from tracejit.primitives.elementwise import add, constant_like, div, mul, neg, one_like, select, sub
from tracejit.primitives.special import ErfInv
from tracejit.primitives.transcendental import Erf, Exp, Log, Log1p, Sqrt, Tan
from tracejit.random.keys import split
from tracejit.random.operands import as_shape, aval, float_dtype, parameters, spread
from tracejit.random.uniforms import between, rademacher, unit
from tracejit.support.errors import OptionError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.interpreter import bind

__all__ = [
    "cauchy", "double_sided_maxwell", "exponential", "gumbel", "laplace", "logistic", "lognormal", "maxwell", "normal",
    "pareto", "rayleigh", "triangular", "truncated_normal", "wald", "weibull_min",
]  # fmt: skip


def normal(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """Numbers of the normal distribution of mean 0 and variance 1.   -> dtype[*shape]

    dtype: float64 where none is given, as NumPy has it (JAX: float32).
    They are sqrt(2) * erf_inv(u) of uniform numbers u in (-1, 1): JAX's, up to how erf_inv is rounded.
    Raises: DtypeError for a dtype that is not floating-point, ShapeError, DtypeError for what is no key.

    >>> import numpy as np, tracejit as tj
    >>> tj.random.normal(tj.random.key(42), (3,)).round(4)
    array([-0.1847, -2.1698,  0.1869])
    >>> draw = tj.jit(lambda key, x: x + tj.random.normal(key, x.shape))
    >>> draw(tj.random.key(42), np.zeros(3)).round(4)
    array([-0.1847, -2.1698,  0.1869])
    """
    return normals("normal", key, as_shape(shape), float_dtype("normal", dtype))


def normals(name: str, key: ArrayLike, shape: Shape, dtype: np.dtype[Any]) -> Result:
    """The same for a shape and a dtype that are checked."""
    least = float(np.nextafter(dtype.type(-1), dtype.type(0)))
    u = between(name, key, shape, dtype, least, 1.0)
    return mul(bind(ErfInv(), u), constant_like(u, math.sqrt(2.0)))


def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None
) -> Result:
    """Numbers of the normal distribution between two bounds.   -> dtype[*shape], by default the bounds' shape

    Raises: ShapeError for bounds that do not fit the shape.

    >>> import tracejit as tj
    >>> tj.random.truncated_normal(tj.random.key(42), 1.0, 2.0, (3,)).round(3)
    array([1.278, 1.008, 1.401])
    """
    kind = float_dtype("truncated_normal", dtype)
    out, (low, high) = parameters("truncated_normal", shape, kind, lower, upper)
    half = constant_like(low, math.sqrt(0.5))
    a, b = bind(Erf(), mul(low, half)), bind(Erf(), mul(high, half))
    u = bind(Maximum(), a, add(mul(unit("truncated_normal", key, out, kind), sub(b, a)), a))
    x = mul(bind(ErfInv(), u), constant_like(u, math.sqrt(2.0)))
    return bind(Minimum(), bind(Maximum(), x, low), high)


def exponential(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """Numbers of the exponential distribution of mean 1.   -> dtype[*shape]

    >>> import tracejit as tj
    >>> tj.random.exponential(tj.random.key(42), (3,)).round(4)
    array([0.5564, 0.0151, 0.8537])
    """
    return exponentials("exponential", key, as_shape(shape), float_dtype("exponential", dtype))


def exponentials(name: str, key: ArrayLike, shape: Shape, dtype: np.dtype[Any]) -> Result:
    """The same for a shape and a dtype that are checked."""
    return neg(bind(Log1p(), neg(unit(name, key, shape, dtype))))


def gumbel(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None, mode: str | None = None) -> Result:
    """Numbers of the Gumbel distribution.   -> dtype[*shape]

    mode: "high" takes twice the bits, for the far right; "low" is the default.
    Raises: OptionError for another mode.

    >>> import tracejit as tj
    >>> tj.random.gumbel(tj.random.key(42), (3,)).round(4)
    array([ 0.1606, -1.4349,  0.589 ])
    """
    return gumbels("gumbel", key, as_shape(shape), float_dtype("gumbel", dtype), mode)


def gumbels(name: str, key: ArrayLike, shape: Shape, dtype: np.dtype[Any], mode: str | None) -> Result:
    """The same for a shape and a dtype that are checked."""
    info = np.finfo(dtype)
    if mode in (None, "low"):
        u = between(name, key, shape, dtype, float(info.tiny), 1.0)
        return neg(bind(Log(), neg(bind(Log(), u))))
    if mode != "high":
        raise OptionError(f"tj.random.{name}: mode is 'low' or 'high', not {mode!r}", location=user_location())
    both = unit(name, key, (2, *shape), dtype)
    high, low = both[0], both[1]
    fine = add(add(high, mul(low, constant_like(low, float(info.eps)))), constant_like(low, float(info.tiny)))
    u = select(bind(Lt(), high, constant_like(high, 0.5)), fine, high)
    return neg(bind(Log(), neg(bind(Log1p(), neg(u)))))


def laplace(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """Numbers of the Laplace distribution of mean 0 and scale 1.   -> dtype[*shape]

    >>> import tracejit as tj
    >>> tj.random.laplace(tj.random.key(42), (3,)).round(4)
    array([ 0.1585,  3.5059, -0.1605])
    """
    kind = float_dtype("laplace", dtype)
    u = between("laplace", key, as_shape(shape), kind, -1.0 + float(np.finfo(kind).epsneg), 1.0)
    return mul(bind(Sign(), u), bind(Log1p(), neg(bind(Abs(), u))))


def logistic(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """Numbers of the logistic distribution of mean 0 and scale 1.   -> dtype[*shape]

    >>> import tracejit as tj
    >>> tj.random.logistic(tj.random.key(42), (3,)).round(4)
    array([-0.2952, -4.1839,  0.2988])
    """
    kind = float_dtype("logistic", dtype)
    u = between("logistic", key, as_shape(shape), kind, float(np.finfo(kind).tiny), 1.0)
    return sub(bind(Log(), u), bind(Log1p(), neg(u)))


def cauchy(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """Numbers of the Cauchy distribution.   -> dtype[*shape]

    >>> import tracejit as tj
    >>> tj.random.cauchy(tj.random.key(42), (3,)).round(4)
    array([ -0.2343, -21.1907,   0.2372])
    """
    kind = float_dtype("cauchy", dtype)
    u = between("cauchy", key, as_shape(shape), kind, float(np.finfo(kind).eps), 1.0)
    return bind(Tan(), mul(constant_like(u, math.pi), sub(u, constant_like(u, 0.5))))


def pareto(key: ArrayLike, b: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """Numbers of the Pareto distribution of exponent b, from 1 on.   -> dtype[*shape], by default b's shape

    Raises: ShapeError for b that does not fit the shape.

    >>> import tracejit as tj
    >>> tj.random.pareto(tj.random.key(42), 2.0, (3,)).round(4)
    array([1.3207, 1.0076, 1.5324])
    """
    kind = float_dtype("pareto", dtype)
    out, (exponent,) = parameters("pareto", shape, kind, b)
    return bind(Exp(), div(exponentials("pareto", key, out, kind), exponent))


def rayleigh(key: ArrayLike, scale: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """Numbers of the Rayleigh distribution.   -> dtype[*shape], by default the scale's shape

    Raises: ShapeError for a scale that does not fit the shape.

    >>> import tracejit as tj
    >>> tj.random.rayleigh(tj.random.key(42), 1.0, (3,)).round(4)
    array([1.0549, 0.1739, 1.3066])
    """
    kind = float_dtype("rayleigh", dtype)
    out, (size,) = parameters("rayleigh", shape, kind, scale)
    e = exponentials("rayleigh", key, out, kind)
    return mul(bind(Sqrt(), add(e, e)), size)


def weibull_min(
    key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None
) -> Result:
    """Numbers of the Weibull distribution.   -> dtype[*shape]

    Raises: ShapeError for parameters that do not fit the shape.

    >>> import tracejit as tj
    >>> tj.random.weibull_min(tj.random.key(42), 2.0, 1.5, (3,)).round(4)
    array([1.353 , 0.1223, 1.7998])
    """
    kind = float_dtype("weibull_min", dtype)
    out, (size, c) = parameters("weibull_min", as_shape(shape), kind, scale, concentration)
    e = exponentials("weibull_min", key, out, kind)
    return mul(bind(Exp(), div(bind(Log(), e), c)), size)


def maxwell(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """Numbers of the Maxwell distribution of scale 1: lengths of three normal numbers.   -> dtype[*shape]

    >>> import tracejit as tj
    >>> tj.random.maxwell(tj.random.key(42), (2,)).round(4)
    array([2.1857, 0.8665])
    """
    kind = float_dtype("maxwell", dtype)
    x = normals("maxwell", key, (*as_shape(shape), 3), kind)
    return np.sqrt(np.sum(x * x, axis=-1))


def double_sided_maxwell(
    key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None
) -> Result:
    """Numbers of the Maxwell distribution on both sides of `loc`.   -> dtype[*shape, *shape of the parameters]

    >>> import tracejit as tj
    >>> tj.random.double_sided_maxwell(tj.random.key(42), 1.0, 2.0, (2,)).shape
    (2,)
    """
    kind = float_dtype("double_sided_maxwell", dtype)
    inner, (middle, size) = parameters("double_sided_maxwell", None, kind, loc, scale)
    out = (*as_shape(shape), *inner)
    first, second = split(key)
    signed = mul(rademacher(second, out, kind), maxwell(first, out, kind))
    middle, size = (spread(x, out) if aval(x).shape else x for x in (middle, size))
    return add(mul(signed, size), middle)


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: ShapeLike | None = None, dtype: DTypeLike = None
) -> Result:
    """Numbers whose logarithm is normal, of deviation sigma.   -> dtype[*shape], by default sigma's shape

    Raises: ShapeError for sigma that does not fit the shape.

    >>> import tracejit as tj
    >>> tj.random.lognormal(tj.random.key(42), 1.0, (3,)).round(4)
    array([0.8313, 0.1142, 1.2055])
    """
    kind = float_dtype("lognormal", dtype)
    out, (deviation,) = parameters("lognormal", shape, kind, sigma)
    return bind(Exp(), mul(normals("lognormal", key, out, kind), deviation))


def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = None,
) -> Result:
    """Numbers of the triangular distribution.   -> dtype[*shape], by default the parameters' shape

    Raises: ShapeError for parameters that do not fit the shape.

    >>> import tracejit as tj
    >>> tj.random.triangular(tj.random.key(42), 0.0, 1.0, 3.0, (3,)).round(4)
    array([1.1454, 0.2122, 1.4015])
    """
    kind = float_dtype("triangular", dtype)
    out, (low, middle, high) = parameters("triangular", shape, kind, left, mode, right)
    u = unit("triangular", key, out, kind)
    width = sub(high, low)
    rising = add(low, bind(Sqrt(), mul(mul(u, width), sub(middle, low))))
    falling = sub(high, bind(Sqrt(), mul(mul(sub(one_like(u), u), width), sub(high, middle))))
    return select(bind(Lt(), mul(u, width), sub(middle, low)), rising, falling)


def wald(key: ArrayLike, mean: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """Numbers of Wald's distribution (the inverse Gaussian one) of scale 1.   -> dtype[*shape], by default the mean's

    Raises: ShapeError for a mean that does not fit the shape.
    Source: Michael, Schucany, Haas, Generating random variates using transformations with multiple roots, 1976.

    >>> import tracejit as tj
    >>> tj.random.wald(tj.random.key(42), 1.0, (2,)).shape
    (2,)
    """
    kind = float_dtype("wald", dtype)
    out, (mu,) = parameters("wald", shape, kind, mean)
    first, second = split(key)
    v = normals("wald", first, out, kind)
    u = unit("wald", second, out, kind)
    half = constant_like(u, 0.5)
    y = mul(mul(mul(v, v), mu), half)  # the smaller root is mu / (1 + y + sqrt(y * (y + 2))): nothing cancels
    x = div(mu, add(add(one_like(y), y), bind(Sqrt(), mul(y, add(y, constant_like(y, 2.0))))))
    mu = spread(mu, out) if aval(mu).shape else mu
    first_root = bind(Le(), mul(u, add(mu, x)), mu)
    return select(first_root, x, div(mul(mu, mu), x))
