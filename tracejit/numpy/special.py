"""SciPy's special functions, by its names; what SciPy's ufuncs do with traced arrays.

Operands are promoted as NumPy does, integers to float64, and broadcast.  SciPy's own names take and give the dtypes
that SciPy does: see `_in_dtypes_of_scipy`.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tracejit.numpy import ufuncs as u
from tracejit.numpy.elementwise import registered
from tracejit.numpy.exponentials import inexact, log_softmax, logsumexp, numbers, softmax
from tracejit.numpy.joining import stack
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.reductions import max as greatest
from tracejit.numpy.taking import take
from tracejit.primitives import complex_numbers, hypergeometric, integrals, special as p
from tracejit.primitives.custom import stop_gradient
from tracejit.primitives.transcendental import Erf
from tracejit.support.errors import DtypeError, OptionError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.substitutes import redirect_members

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "binom", "boxcox", "boxcox1p", "comb", "dawsn",
    "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi", "expit", "expn", "factorial",
    "fresnel", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1",
    "i1e", "inv_boxcox", "inv_boxcox1p", "kl_div", "log_expit", "log_ndtr", "loggamma", "logit", "multigammaln",
    "ndtr", "ndtri", "owens_t", "poch", "polygamma", "psi", "rel_entr", "sici", "spence", "xlog1py", "xlogy",
    "zeta",
]  # fmt: skip


def _is_whole(n: Any) -> bool:
    return isinstance(n, (int, np.integer)) and not isinstance(n, bool)


_FLOAT32_FIRST = frozenset({
    "_zeta", "betainc", "binom", "boxcox", "boxcox1p", "comb", "entr", "erfcinv", "erfinv", "exp1", "expi", "expn",
    "hyp1f1", "inv_boxcox", "inv_boxcox1p", "kl_div", "ndtri", "owens_t", "poch", "rel_entr", "sici", "spence",
})  # fmt: skip
"""SciPy's ufuncs that try their loop of float32 before that of float64: operands that float32 holds (bools, integers of
up to 16 bits, float16) are computed in it.  The others do so for operands that are all float32.
"""


def _dtype_in_scipy(name: str, *xs: ArrayLike) -> np.dtype[Any] | None:
    """In which dtype SciPy's ufunc computes; None for complex operands, which it has other loops for."""
    avals = [aval(as_array(x)) for x in xs]
    kinds = [a.dtype.kind for a in avals]
    if "c" in kinds:
        return None
    wide = np.dtype(np.float64)
    if name not in _FLOAT32_FIRST:
        return avals[0].dtype if all(a.dtype == np.float32 and not a.weak for a in avals) else wide
    if name == "expn" and kinds[0] != "f":
        return wide  # its order is an integer, and x a float64
    order = "biuf"
    most = max([order.index(a.dtype.kind) for a in avals if not a.weak], default=-1)
    for a in avals:
        # a Python number is of any dtype beside arrays of its kind
        narrow = (0 < order.index(a.dtype.kind) <= max(most, 2 * (most > 0))) if a.weak else np.can_cast(a.dtype, "f4")
        if not narrow:
            return wide
    return np.dtype(np.float32)


def _in_dtypes_of_scipy(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as SciPy's of this name: operands are converted to what SciPy computes in."""

    @functools.wraps(function)
    def run(*xs: ArrayLike, **options: Any) -> Any:
        dtype = _dtype_in_scipy(name, *xs)
        return function(*(xs if dtype is None else [to_dtype(as_array(x), dtype) for x in xs]), **options)

    return run


def _entered(*others: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as the answer to SciPy's ufunc of its name, and of others."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        registered(function, f"scipy.special.{function.__name__}")
        for name in (function.__name__, *others):
            registered(_in_dtypes_of_scipy(name, function), f"scipy.special.{name}")
        return function

    return enter


@_entered()
def gammaln(x: ArrayLike) -> Result:
    """log(abs(gamma(x))), -inf at -inf.

    Raises: DtypeError for complex numbers, which `loggamma` takes.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.gammaln(3.0)), 6)
    0.693147
    """
    if _is_complex(x):
        raise DtypeError("gammaln takes real numbers; loggamma takes complex ones", location=user_location())
    (y,) = inexact(x)
    return u.where(u.equal(y, -np.inf), -np.inf, bind(p.LGamma(), y))


def _is_complex(x: ArrayLike) -> bool:
    return aval(as_array(x)).dtype.kind == "c"


def _complex_polygamma(order: int, x: ArrayLike) -> Result:
    """In complex128, whatever x is, as SciPy does."""
    y = as_array(x)
    return to_dtype(bind(p.ComplexPolygamma(order), to_dtype(y, np.complex128)), aval(y).dtype)


@_entered()
def gamma(x: ArrayLike) -> Result:
    """The gamma function, of complex numbers, too; NaN at negative integers.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.gamma(5.0)), 6)
    24.0
    """
    if _is_complex(x):
        y = as_array(x)
        wide = u.exp(bind(p.ComplexPolygamma(-1), to_dtype(y, np.complex128)))
        return to_dtype(wide, aval(y).dtype)
    return bind(p.Gamma(), *inexact(x))


@_entered("psi")
def digamma(x: ArrayLike) -> Result:
    """The logarithmic derivative of the gamma function, of complex numbers, too; NaN at negative integers.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.digamma(1.0)), 6)
    -0.577216
    """
    if _is_complex(x):
        return _complex_polygamma(0, x)
    return bind(p.Digamma(), *inexact(x))


@_entered()
def erf(x: ArrayLike) -> Result:
    """The error function.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.erf(1.0)), 6)
    0.842701
    """
    return bind(Erf(), *inexact(x))


@_entered()
def erfc(x: ArrayLike) -> Result:
    """1 - erf(x), without cancellation.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.erfc(1.0)), 6)
    0.157299
    """
    return bind(p.Erfc(), *inexact(x))


@_entered()
def erfcx(x: ArrayLike) -> Result:
    """exp(x * x) * erfc(x), without overflow of the first factor.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.erfcx(1.0)), 6)
    0.427584
    """
    return bind(p.Erfcx(), *inexact(x))


@_entered()
def erfinv(x: ArrayLike) -> Result:
    """The inverse of erf; NaN outside of [-1, 1].

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.erfinv(0.5)), 6)
    0.476936
    """
    return bind(p.ErfInv(), *inexact(x))


@_entered()
def erfcinv(x: ArrayLike) -> Result:
    """The inverse of erfc; NaN outside of [0, 2].

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.erfcinv(1.5)), 6)
    -0.476936
    """
    return bind(p.ErfcInv(), *inexact(x))


@_entered()
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Result:
    """The logarithm of `ndtr`, without underflow.

    series_order: JAX's, which changes nothing.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.log_ndtr(0.0)), 6)
    -0.693147
    """
    return bind(p.LogNdtr(), *inexact(x))


@_entered()
def expit(x: ArrayLike) -> Result:
    """1 / (1 + exp(-x)), of full relative precision for negative x, too; of complex numbers as well.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.expit(0.0)), 6)
    0.5
    """
    y = as_array(x)
    if aval(y).dtype.kind == "c":
        # of the half plane where the exponential is at most 1
        low = u.less(complex_numbers.real(y), 0)
        e = u.exp(u.where(low, y, u.negative(y)))
        return u.divide(u.where(low, e, 1), u.add(e, 1))
    return bind(p.Logistic(), *inexact(x))


@_entered()
def logit(x: ArrayLike) -> Result:
    """log(x / (1 - x)); NaN outside of [0, 1]; of complex numbers as well.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.logit(0.5)), 6)
    0.0
    """
    y = as_array(x)
    if aval(y).dtype.kind == "c":
        return u.log(u.divide(y, u.subtract(1, y)))
    return bind(p.Logit(), *inexact(x))


@_entered()
def i0e(x: ArrayLike) -> Result:
    """The modified Bessel function of the first kind and order 0, times exp(-|x|).

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.i0e(1.0)), 6)
    0.46576
    """
    return bind(p.BesselI0e(), *inexact(x))


@_entered()
def i1e(x: ArrayLike) -> Result:
    """The modified Bessel function of the first kind and order 1, times exp(-|x|).

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.i1e(1.0)), 6)
    0.20791
    """
    return bind(p.BesselI1e(), *inexact(x))


@_entered()
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Result:
    """The regularised incomplete beta function I_x(a, b); NaN for a < 0, b < 0 and x outside of [0, 1].
    There is no derivative with respect to a and b.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.betainc(1.0, 2.0, 0.5)), 6)
    0.75
    """
    return bind(p.RegularizedIncompleteBeta(), *inexact(a, b, x))


@_entered()
def gammainc(a: ArrayLike, x: ArrayLike) -> Result:
    """The regularised lower incomplete gamma function P(a, x); NaN for a < 0 or x < 0.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.gammainc(1.0, 1.0)), 6)
    0.632121
    """
    return _not_of_infinities(p.IGamma(), *inexact(a, x))


@_entered()
def gammaincc(a: ArrayLike, x: ArrayLike) -> Result:
    """The regularised upper incomplete gamma function Q(a, x); NaN for a < 0 or x < 0.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.gammaincc(1.0, 1.0)), 6)
    0.367879
    """
    return _not_of_infinities(p.IGammaC(), *inexact(a, x))


def _not_of_infinities(of: Any, a: Any, x: Any) -> Any:
    """NaN where both operands are infinite."""
    return u.where(u.logical_and(u.equal(a, np.inf), u.equal(x, np.inf)), np.nan, bind(of, a, x))


@_entered()
def xlogy(x: ArrayLike, y: ArrayLike) -> Result:
    """x log(y), and 0 where x is 0.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.xlogy(2.0, 3.0)), 6)
    2.197225
    """
    if _is_complex(x) or _is_complex(y):
        return _product_with(u.log, x, y)
    return bind(p.XLogY(), *inexact(x, y))


def _product_with(function: Callable[..., Any], x: ArrayLike, y: ArrayLike) -> Result:
    """Of complex numbers x function(y), 0 where x is 0 and y is a number."""
    factor, of = numbers(x, y)
    none = u.logical_and(u.equal(factor, 0), u.logical_not(u.isnan(of)))
    return u.where(none, 0, u.multiply(factor, function(u.where(none, 1, of))))


@_entered()
def xlog1py(x: ArrayLike, y: ArrayLike) -> Result:
    """x log(1 + y), and 0 where x is 0.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.xlog1py(2.0, 2.0)), 6)
    2.197225
    """
    if _is_complex(x) or _is_complex(y):
        return _product_with(u.log1p, x, y)
    return bind(p.XLog1PY(), *inexact(x, y))


def _wofz(z: ArrayLike) -> Result:
    from tracejit.numpy.faddeeva import wofz  # for speed of import

    return wofz(z)


registered(_wofz, "scipy.special.wofz")


@_entered()
def polygamma(n: ArrayLike, x: ArrayLike) -> Result:
    """The derivative of order n of `digamma`; n holds integers, with respect to which there is none.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.polygamma(1, 1.0)), 6)
    1.644934
    """
    return bind(p.Polygamma(), *inexact(n, x))


psi = digamma


@_entered()
def gammasgn(x: ArrayLike) -> Result:
    """The sign of `gamma`: 1 or -1, NaN at negative integers.

    >>> import tracejit as tj
    >>> float(tj.scipy.special.gammasgn(-0.5))
    -1.0
    """
    (y,) = inexact(x)
    whole = u.floor(y)
    odd = u.not_equal(u.multiply(u.floor(u.multiply(whole, 0.5)), 2), whole)
    one = aval(y).dtype.type(1)
    sign = u.where(u.equal(y, 0), u.copysign(one, y), u.where(u.logical_and(u.less(y, 0), odd), -one, one))
    nowhere = u.logical_or(u.isnan(y), u.logical_and(u.less(y, 0), u.equal(whole, y)))
    return u.where(nowhere, np.nan, sign)


@_entered()
def loggamma(x: ArrayLike) -> Result:
    """log(gamma(x)), NaN for negative real numbers; of complex ones the branch that is cut along these.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.loggamma(3.0)), 6)
    0.693147
    >>> round(float(tj.scipy.special.loggamma(-0.5 + 0j).imag), 6)
    -3.141593
    """
    if _is_complex(x):
        return _complex_polygamma(-1, x)
    (y,) = inexact(x)
    return u.where(u.less(y, 0), np.nan, gammaln(y))


@_entered()
def betaln(a: ArrayLike, b: ArrayLike) -> Result:
    """log(abs(beta(a, b)))

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.betaln(2.0, 3.0)), 6)
    -2.484907
    """
    return _beta_in_parts(a, b)[0]


@_entered()
def beta(a: ArrayLike, b: ArrayLike) -> Result:
    """The beta function gamma(a) gamma(b) / gamma(a + b).

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.beta(2.0, 3.0)), 6)
    0.083333
    """
    logarithm, sign = _beta_in_parts(a, b)
    return u.multiply(sign, u.exp(logarithm))


def _beta_in_parts(a: ArrayLike, b: ArrayLike) -> tuple[Any, Any]:
    """(log(abs(beta(a, b))), its sign).  Infinite where one is an integer below 1, unless the other is one above 0 and
    their sum is below 1: gamma's poles cancel.

    Source: Cephes' beta
    """
    y, z = inexact(a, b)
    pole = u.logical_or(_is_pole(y), _is_pole(z))
    low, other = u.where(_is_pole(y), y, z), u.where(_is_pole(y), z, y)
    rest = u.subtract(u.subtract(1, low), other)
    alternates = u.logical_and(pole, u.logical_and(u.equal(u.floor(other), other), u.greater(rest, 0)))
    cancels = u.logical_and(alternates, u.greater(other, 0))
    infinite = u.logical_and(pole, u.logical_not(cancels))
    y, z = (u.where(cancels, new, u.where(infinite, 1, old)) for new, old in ((rest, y), (other, z)))
    both = u.add(y, z)
    none = _is_pole(both)  # 1 / gamma is 0
    both = u.where(none, 1, both)
    low, high = u.minimum(y, z), u.maximum(y, z)
    large = u.logical_and(u.greater(low, 0), u.greater_equal(high, _LARGE))
    logarithm = u.where(
        large,
        u.subtract(gammaln(u.where(large, low, 1)), _log_rise(high, low, large)),
        u.add(u.subtract(gammaln(y), gammaln(both)), gammaln(z)),
    )
    sign = u.multiply(u.multiply(gammasgn(y), gammasgn(z)), gammasgn(both))
    sign = u.where(u.logical_and(alternates, _is_odd(other)), -1, u.where(infinite, 1, sign))
    # infinite operands: beta falls to 0 along positive others, and grows along negative ones
    far = u.logical_and(u.equal(u.maximum(y, z), np.inf), u.isfinite(u.minimum(y, z)))
    logarithm = u.where(far, u.where(u.greater(u.minimum(y, z), 0), -np.inf, aval(y).dtype.type(np.inf)), logarithm)
    return u.where(infinite, np.inf, u.where(none, -np.inf, logarithm)), sign


_LARGE = 16


def _log_rise(x: Any, d: Any, where: Any) -> Any:
    """log(gamma(x + d) / gamma(x)) where x and x + d are `_LARGE` and more, as `where` says; anything elsewhere.  Of
    logarithms of gamma the digits would go that they have in common.

    Source: Stirling's series for the logarithm of gamma, Abramowitz and Stegun 6.1.40.
    """
    far = u.logical_and(where, u.isfinite(u.add(x, d)))
    x, d = u.where(far, x, _LARGE), u.where(far, d, 1)
    z = u.add(x, d)

    def series(t: Any) -> Any:
        of = u.divide(1, u.multiply(t, t))
        total: Any = _STIRLING[-1]
        for term in _STIRLING[-2::-1]:
            total = u.add(u.multiply(total, of), term)
        return u.divide(total, t)

    leading = u.add(u.multiply(u.subtract(x, 0.5), u.log1p(u.divide(d, x))), u.multiply(d, u.subtract(u.log(z), 1)))
    return u.add(leading, u.subtract(series(z), series(x)))


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def _with_value(exact: Any, general: Any) -> Any:
    """A number that is known more exactly than by the formula which has its derivative."""
    differs = stop_gradient(u.subtract(exact, general))
    return u.where(u.isfinite(differs), u.add(general, differs), stop_gradient(exact))


def _is_pole(x: Any) -> Any:
    """Where gamma has a pole: integers from 0 down."""
    return u.logical_and(u.logical_and(u.less_equal(x, 0), u.greater(x, -np.inf)), u.equal(u.floor(x), x))


def _is_odd(whole: Any) -> Any:
    return u.not_equal(u.multiply(u.floor(u.multiply(whole, 0.5)), 2), whole)


@_entered()
def poch(z: ArrayLike, m: ArrayLike) -> Result:
    """The rising factorial gamma(z + m) / gamma(z); infinite where gamma(z + m) alone is, 0 where gamma(z) alone is,
    a product where both are.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.poch(2.0, 3.0)), 6)
    24.0
    """
    y, n = inexact(z, m)
    none = u.equal(n, 0)
    last = u.add(y, u.where(none, 1, n))
    above, below = _is_pole(last), _is_pole(y)
    both, either = u.logical_and(above, below), u.logical_or(above, below)
    top = u.where(both, u.subtract(1, y), u.where(either, 1, last))
    bottom = u.where(both, u.subtract(1, last), u.where(either, 1, y))
    large = u.logical_and(u.greater_equal(top, _LARGE), u.greater_equal(bottom, _LARGE))
    logarithm = u.where(
        large,
        # the difference of great numbers is none
        _log_rise(bottom, u.where(u.logical_or(both, either), u.subtract(top, bottom), n), large),
        u.subtract(gammaln(top), gammaln(bottom)),
    )
    value = u.multiply(u.multiply(gammasgn(top), gammasgn(bottom)), u.exp(logarithm))
    value = u.where(u.logical_and(both, _is_odd(n)), u.negative(value), value)
    far = u.logical_and(u.equal(y, np.inf), u.isfinite(n))
    alone = u.where(u.where(far, u.greater(n, 0), above), aval(y).dtype.type(np.inf), 0)
    missing = u.logical_or(u.isnan(y), u.isnan(n))
    alone = u.where(missing, aval(y).dtype.type(np.nan), alone)
    single = u.logical_or(u.logical_and(either, u.logical_not(both)), u.logical_or(far, missing))
    return u.where(none, 1, u.where(single, alone, value))


@_entered()
def binom(n: ArrayLike, k: ArrayLike) -> Result:
    """gamma(n + 1) / (gamma(k + 1) gamma(n - k + 1)), 0 at poles of the divisor, where its
    derivatives are 0, too; NaN for negative integers n.  A product of quotients for whole k, or n - k, below 30.

    Source: SciPy's binom, for that product.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.binom(4, 2)), 6)
    6.0
    """
    x, kept = inexact(n, k)
    nowhere = _is_pole(u.add(x, 1))
    none = u.logical_or(_is_pole(u.add(kept, 1)), _is_pole(u.add(u.subtract(x, kept), 1)))
    strange = u.logical_or(nowhere, none)
    y, m = u.where(strange, 0, x), u.where(strange, 0, kept)
    of = [u.add(y, 1), u.add(m, 1), u.add(u.subtract(y, m), 1)]
    total, first, second = [gammaln(v) for v in of]
    signs = [gammasgn(v) for v in of]
    sign = u.multiply(u.multiply(signs[0], signs[1]), signs[2])
    fewer = u.minimum(m, u.subtract(y, m))
    rest = u.add(u.subtract(y, fewer), 1)
    large = u.logical_and(u.greater(fewer, -1), u.greater_equal(rest, _LARGE))
    logarithm = u.where(
        large,
        u.subtract(_log_rise(rest, fewer, large), gammaln(u.add(u.where(large, fewer, 0), 1))),
        u.subtract(u.subtract(total, first), second),
    )
    value = _product_of_few(y, m, u.multiply(sign, u.exp(logarithm)))
    value = u.where(none, 0, value)
    many = u.logical_and(u.equal(x, np.inf), u.greater_equal(kept, 0))
    value = u.where(many, u.where(u.equal(kept, 0), 1, aval(x).dtype.type(np.inf)), value)
    missing = u.logical_or(u.logical_or(nowhere, u.isnan(x)), u.logical_not(u.isfinite(kept)))
    return u.where(missing, np.nan, value)


_FEW = 30


def _product_of_few(n: Any, k: Any, general: Any) -> Any:
    """The binomial as (n - k + 1) / 1 * (n - k + 2) / 2 * ... where there are few factors."""
    whole = u.equal(u.floor(k), k)
    other = u.logical_and(u.equal(u.floor(n), n), u.greater(k, u.multiply(n, 0.5)))
    count = u.where(u.logical_and(other, u.greater(n, 0)), u.subtract(n, k), k)
    few = u.logical_and(u.logical_and(whole, u.greater_equal(count, 0)), u.less(count, _FEW))
    usable = u.logical_and(few, u.logical_or(u.greater(u.absolute(n), 1e-8), u.equal(n, 0)))
    before = stop_gradient(u.subtract(n, u.where(usable, count, 0)))
    value: Any = aval(before).dtype.type(1)
    for i in range(1, _FEW):  # each a binomial itself, so that no digits are lost while they have room
        value = u.where(u.less_equal(i, count), u.divide(u.multiply(value, u.add(before, i)), i), value)
    value = u.where(u.equal(u.floor(n), n), u.rint(value), value)
    return u.where(usable, _with_value(value, general), general)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Result:
    """Hurwitz' zeta function, the sum of (q + k)**-x over k = 0, 1, ...; q is 1 if it is not given.  NaN for x < 1.

    There is no derivative with respect to x.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.zeta(2.0, 1.0)), 6)
    1.644934
    """
    return bind(p.Zeta(), *inexact(x, 1.0 if q is None else q))


registered(zeta, "scipy.special.zeta")
registered(_in_dtypes_of_scipy("_zeta", zeta), "scipy.special._zeta")


_FACTORIALS = np.array([math.factorial(n) for n in range(171)], np.float64)


def factorial(n: ArrayLike, exact: bool = False) -> Result:
    """gamma(n + 1), 0 for negative n.

    Raises: UnsupportedError for exact=True, which is Python's integers.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.factorial(4)), 6)
    24.0
    """
    if exact:
        raise UnsupportedError(
            "scipy.special.factorial: exact=True gives Python's integers, which a program has not; leave it out",
            location=user_location(),
        )
    (y,) = inexact(as_array(n))
    outside = u.less(y, 0)
    general = gamma(u.add(u.where(outside, 0, y), 1))
    known = u.logical_and(u.logical_and(u.equal(u.floor(y), y), u.logical_not(outside)), u.less(y, len(_FACTORIALS)))
    place = to_dtype(u.where(known, y, 0), np.int64)
    exact = to_dtype(take(_FACTORIALS, place), aval(y).dtype)
    return u.where(outside, 0, u.where(known, _with_value(exact, general), general))


def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Result:
    """In how many ways k of N are chosen; with `repetition` each as often as one likes.  0 for k outside of [0, N].

    Raises: UnsupportedError for exact=True, which is Python's integers.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.comb(5, 2)), 6)
    10.0
    """
    if exact:
        raise UnsupportedError(
            "scipy.special.comb: exact=True gives Python's integers, which a program has not; leave it out",
            location=user_location(),
        )
    n, m = inexact(as_array(N), as_array(k))
    if repetition:
        nothing = u.logical_and(u.equal(m, 0), u.greater_equal(n, 0))
        return u.where(nothing, 1, binom(u.where(nothing, 0, u.subtract(u.add(n, m), 1)), m))
    inside = u.logical_and(u.logical_and(u.less_equal(m, n), u.greater_equal(n, 0)), u.greater_equal(m, 0))
    return u.where(inside, binom(u.where(inside, n, 0), u.where(inside, m, 0)), 0)


def multigammaln(a: ArrayLike, d: int) -> Result:
    """The logarithm of the multivariate gamma function of dimension d, an integer of Python's.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.multigammaln(2.0, 1)), 6)
    0.0
    """
    if not _is_whole(d) or d < 1:
        raise OptionError(
            f"scipy.special.multigammaln: d is a positive integer of Python's, not {d!r}", location=user_location()
        )
    (y,) = inexact(as_array(a))
    total: Any = 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(int(d)):
        total = u.add(gammaln(u.subtract(y, 0.5 * j)), total)
    return total


@_entered()
def ndtr(x: ArrayLike) -> Result:
    """The normal distribution's cumulative function.

    >>> import tracejit as tj
    >>> float(tj.scipy.special.ndtr(0.0))
    0.5
    """
    (y,) = inexact(x)
    return u.multiply(erfc(u.multiply(y, -math.sqrt(0.5))), 0.5)


@_entered()
def ndtri(p: ArrayLike) -> Result:
    """The inverse of `ndtr`; NaN outside of [0, 1].

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.ndtri(0.975)), 6)
    1.959964
    """
    (y,) = inexact(p)
    return u.multiply(erfcinv(u.multiply(y, 2)), -math.sqrt(2.0))


@_entered()
def log_expit(x: ArrayLike) -> Result:
    """log(expit(x)) without overflow.

    >>> import tracejit as tj
    >>> float(tj.scipy.special.log_expit(-1000.0))
    -1000.0
    """
    (y,) = inexact(x)
    return u.negative(u.logaddexp(u.negative(y), 0))


@_entered()
def entr(x: ArrayLike) -> Result:
    """-x log(x), 0 at 0 and -inf for negative x.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.entr(0.5)), 6)
    0.346574
    """
    (y,) = inexact(x)
    low = u.less(y, 0)
    inside = u.where(low, 1, y)
    return u.where(low, -np.inf, u.negative(xlogy(inside, inside)))


@_entered()
def rel_entr(p: ArrayLike, q: ArrayLike) -> Result:
    """p log(p / q) for positive operands, 0 where p is 0 and q from 0 on, inf elsewhere.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.rel_entr(2.0, 1.0)), 6)
    1.386294
    """
    y, z = inexact(p, q)
    both = u.logical_and(u.greater(y, 0), u.greater(z, 0))
    first, second = u.where(both, y, 1), u.where(both, z, 1)
    quotient = stop_gradient(u.divide(first, second))
    near = u.logical_and(u.isfinite(quotient), u.greater(quotient, np.finfo(aval(y).dtype).tiny))
    together = u.log(u.divide(u.where(near, first, 1), u.where(near, second, 1)))
    value = u.multiply(first, u.where(near, together, u.subtract(u.log(first), u.log(second))))
    zero = u.logical_and(u.equal(y, 0), u.greater_equal(z, 0))
    nowhere = u.logical_or(u.isnan(y), u.isnan(z))
    rest = u.where(nowhere, np.nan, u.where(zero, 0, aval(y).dtype.type(np.inf)))
    return u.where(both, value, rest)


@_entered()
def kl_div(p: ArrayLike, q: ArrayLike) -> Result:
    """p log(p / q) - p + q for positive operands, q where p is 0 and q from 0 on, inf elsewhere.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.kl_div(2.0, 1.0)), 6)
    0.386294
    """
    y, z = inexact(p, q)
    value = rel_entr(y, z)
    inside = u.where(u.equal(y, 0), u.greater_equal(z, 0), u.logical_and(u.greater(y, 0), u.greater(z, 0)))
    return u.where(inside, u.add(u.subtract(value, y), z), value)


@_entered()
def i0(x: ArrayLike) -> Result:
    """The modified Bessel function of the first kind and order 0.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.i0(1.0)), 6)
    1.266066
    """
    (y,) = inexact(x)
    return u.multiply(u.exp(u.absolute(y)), i0e(y))


@_entered()
def i1(x: ArrayLike) -> Result:
    """The modified Bessel function of the first kind and order 1.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.i1(1.0)), 6)
    0.565159
    """
    (y,) = inexact(x)
    return u.multiply(u.exp(u.absolute(y)), i1e(y))


@_entered()
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Result:
    """(x**lmbda - 1) / lmbda, log(x) where lmbda is 0.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.boxcox(3.0, 2.0)), 6)
    4.0
    """
    y, power = inexact(x, lmbda)
    return _powers_less_one(u.log(y), power)


@_entered()
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Result:
    """((1 + x)**lmbda - 1) / lmbda, log(1 + x) where lmbda is 0.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.boxcox1p(2.0, 2.0)), 6)
    4.0
    """
    y, power = inexact(x, lmbda)
    return _powers_less_one(u.log1p(y), power)


def _powers_less_one(logarithm: Any, power: Any) -> Any:
    """(exp(power * logarithm) - 1) / power, by its series where the product is small, so that derivatives are exact."""
    product = u.multiply(power, logarithm)
    none = u.logical_or(u.less(u.absolute(power), 1e-19), u.less(u.absolute(product), _SMALL))
    exponent = u.where(none, 1, power)
    found = u.divide(u.expm1(u.multiply(exponent, logarithm)), exponent)
    return u.where(none, _series(logarithm, power, (1, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720)), found)


_SMALL = 1e-3


def _series(x: Any, power: Any, terms: Sequence[float]) -> Any:
    """x times a polynomial in power * x; an infinite x itself."""
    finite = u.isfinite(x)
    y = u.where(finite, x, 0)
    product = u.multiply(power, y)
    total: Any = terms[-1]
    for c in terms[-2::-1]:
        total = u.add(u.multiply(total, product), c)
    return u.where(finite, u.multiply(y, total), x)


@_entered()
def inv_boxcox(y: ArrayLike, lmbda: ArrayLike) -> Result:
    """The inverse of `boxcox`.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.inv_boxcox(4.0, 2.0)), 6)
    3.0
    """
    return u.exp(_logarithm_of_powers(*inexact(y, lmbda)))


@_entered()
def inv_boxcox1p(y: ArrayLike, lmbda: ArrayLike) -> Result:
    """The inverse of `boxcox1p`.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.inv_boxcox1p(4.0, 2.0)), 6)
    2.0
    """
    return u.expm1(_logarithm_of_powers(*inexact(y, lmbda)))


def _logarithm_of_powers(y: Any, power: Any) -> Any:
    """log(1 + power * y) / power, by its series where the product is small, so that derivatives are exact."""
    product = u.multiply(power, y)
    none = u.logical_or(u.equal(power, 0), u.less(u.absolute(product), _SMALL))
    exponent = u.where(none, 1, power)
    found = u.divide(u.log1p(u.multiply(exponent, u.where(none, 0, y))), exponent)
    return u.where(none, _series(y, power, (1, -1 / 2, 1 / 3, -1 / 4, 1 / 5, -1 / 6)), found)


def bernoulli(n: int) -> Result:
    """The Bernoulli numbers B_0 to B_n in float64; n is an integer of Python's.

    >>> import tracejit as tj
    >>> tj.scipy.special.bernoulli(2).tolist()
    [1.0, -0.5, 0.16666666666666666]
    """
    if not _is_whole(n) or n < 0:
        raise OptionError(
            f"scipy.special.bernoulli: n is an integer of Python's from 0 on, not {n!r}", location=user_location()
        )
    row, numbers = [Fraction(0)] * (n + 1), [0.0] * (n + 1)
    for m in range(n + 1):  # by the triangle of Akiyama and Tanigawa
        row[m] = Fraction(1, m + 1)
        for j in range(m, 0, -1):
            row[j - 1] = j * (row[j - 1] - row[j])
        numbers[m] = float(row[0])
    if n >= 1:
        numbers[1] = -0.5
    return np.array(numbers)


@_entered()
def expn(n: ArrayLike, x: ArrayLike) -> Result:
    """The exponential integral of order n, an integer from 0 on; NaN for negative x.

    There is no derivative with respect to n.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.expn(2, 1.0)), 6)
    0.148496
    """
    return bind(integrals.Expn(), *inexact(n, x))


@_entered()
def exp1(x: ArrayLike) -> Result:
    """The exponential integral of order 1; NaN for negative x.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.exp1(1.0)), 6)
    0.219384
    """
    return expn(1, *inexact(x))


@_entered()
def expi(x: ArrayLike) -> Result:
    """The exponential integral Ei, the principal value for positive x.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.expi(1.0)), 6)
    1.895118
    """
    return bind(integrals.Expi(), *inexact(x))


@_entered()
def spence(x: ArrayLike) -> Result:
    """The dilogarithm of 1 - x, the integral of log(t) / (1 - t) from 1 to x; NaN for negative x.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.spence(0.0)), 6)
    1.644934
    """
    return bind(integrals.Spence(), *inexact(x))


@_entered()
def sici(x: ArrayLike) -> tuple[Result, Result]:
    """The sine and the cosine integral, the latter of |x|.

    >>> import tracejit as tj
    >>> [round(float(y), 6) for y in tj.scipy.special.sici(1.0)]
    [0.946083, 0.337404]
    """
    (y,) = inexact(x)
    return bind(integrals.SineIntegral(), y), bind(integrals.CosineIntegral(), y)


@_entered()
def fresnel(x: ArrayLike) -> tuple[Result, Result]:
    """The integrals of Fresnel, S and C.

    >>> import tracejit as tj
    >>> [round(float(y), 6) for y in tj.scipy.special.fresnel(1.0)]
    [0.438259, 0.779893]
    """
    (y,) = inexact(x)
    return bind(integrals.FresnelS(), y), bind(integrals.FresnelC(), y)


@_entered()
def dawsn(x: ArrayLike) -> Result:
    """The integral of Dawson.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.dawsn(1.0)), 6)
    0.53808
    """
    return bind(integrals.Dawsn(), *inexact(x))


@_entered()
def owens_t(h: ArrayLike, a: ArrayLike) -> Result:
    """Owen's function: the probability of X > h and 0 < Y < a X for independent normal X and Y.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.owens_t(0.0, 1.0)), 6)
    0.125
    """
    return bind(integrals.OwensT(), *inexact(h, a))


@_entered()
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Result:
    """Kummer's confluent hypergeometric function M(a, b, x).  There is no derivative with respect to a and b.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.hyp1f1(1.0, 1.0, 1.0)), 6)
    2.718282
    """
    return bind(hypergeometric.Hyp1F1(), *inexact(a, b, x))


@_entered()
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Result:
    """Gauss' hypergeometric function F(a, b; c; x); NaN for x > 1.

    There is no derivative with respect to a, b and c.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.special.hyp2f1(1.0, 1.0, 2.0, 0.5)), 6)
    1.386294
    """
    return bind(hypergeometric.Hyp2F1(), *inexact(a, b, c, x))


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Result:
    """The Bessel functions of the first kind of orders 0 to v at z, along a new first axis.

    n_iter: the order at which Miller's recurrence begins; it is exact for |z| up to half of it.

    Raises: OptionError where v and n_iter are no integers of Python's, v from 0 up to n_iter.
    Source: JAX's scipy.special.bessel_jn.

    >>> import tracejit as tj
    >>> [round(float(y), 6) for y in tj.scipy.special.bessel_jn(1.0, v=1)]
    [0.765198, 0.440051]
    """
    if not (_is_whole(v) and _is_whole(n_iter) and 0 <= v < n_iter):
        raise OptionError(
            f"scipy.special.bessel_jn: v and n_iter are integers of Python's, 0 <= v < n_iter, "
            f"not {v!r} and {n_iter!r}",
            location=user_location(),
        )
    (y,) = inexact(as_array(z))
    # quotients of one order to the one before, which neither overflow nor underflow
    quotients: list[Any] = []
    ratio: Any = aval(y).dtype.type(0)
    for k in range(n_iter, 0, -1):
        ratio = u.divide(y, u.subtract(2.0 * k, u.multiply(y, ratio)))
        quotients.append(ratio)
    quotients.reverse()
    # J_0 + 2 (J_2 + J_4 + ...) is 1
    total: Any = aval(y).dtype.type(0)
    for k in range(n_iter - n_iter % 2, 0, -2):
        total = u.multiply(u.multiply(quotients[k - 1], quotients[k - 2]), u.add(total, 1))
    value = u.divide(1, u.add(u.multiply(total, 2), 1))
    values = [value]
    for k in range(v):
        value = u.multiply(value, quotients[k])
        values.append(value)
    return stack(values)


def enter() -> None:
    """Have SciPy's functions that are no ufuncs redirected, if it is loaded."""
    found = sys.modules.get("scipy.special")
    ours: dict[str, Callable[..., Any]] = {
        "bernoulli": bernoulli, "comb": _comb_of_scipy, "factorial": _factorial_of_scipy,
        "log_softmax": _over_all(log_softmax), "logsumexp": logsumexp, "multigammaln": multigammaln,
        "polygamma": _in_dtypes_of_scipy("polygamma", polygamma),
        "softmax": _over_all(softmax), "zeta": _zeta_of_scipy,
    }  # fmt: skip
    redirect_members({getattr(found, name): f for name, f in ours.items() if hasattr(found, name)})


@functools.wraps(comb)
def _comb_of_scipy(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Result:
    return _in_dtypes_of_scipy("comb", comb)(_strong(N), _strong(k), exact=exact, repetition=repetition)


@functools.wraps(zeta)
def _zeta_of_scipy(x: ArrayLike, q: ArrayLike | None = None) -> Result:
    return _in_dtypes_of_scipy("zeta", zeta)(x) if q is None else _in_dtypes_of_scipy("_zeta", zeta)(x, q)


@functools.wraps(factorial)
def _factorial_of_scipy(n: ArrayLike, exact: bool = False) -> Result:
    """In float64, whatever n's dtype is; of no elements in n's."""
    x = _strong(n)
    have = aval(x)
    if have.dtype.kind == "b":
        raise DtypeError(
            "scipy.special.factorial does not take bools; convert them: n.astype(int)", location=user_location()
        )
    if any(isinstance(extent, int) and extent == 0 for extent in have.shape):
        return x
    found = factorial(to_dtype(x, np.float64) if have.dtype == np.float16 else x, exact)
    return to_dtype(found, np.float64)


def _strong(x: ArrayLike) -> Any:
    """An operand as `np.asarray` makes it: Python's numbers are int64 and float64."""
    y = as_array(x)
    return to_dtype(y, aval(y).dtype) if aval(y).weak else y


def _over_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with SciPy's default axis, which is all, and its dtypes: those that `np.exp` has.

    Raises: EmptyReduction where there is nothing along the axis.
    """

    @functools.wraps(function)
    def call(x: ArrayLike, axis: AxisLike = None) -> Result:
        y = _strong(x)
        dtype = aval(y).dtype
        if dtype.kind == "b":
            raise DtypeError(
                f"scipy.special.{function.__name__} does not take bools; convert them: x.astype(float)",
                location=user_location(),
            )
        greatest(y, axis)
        narrow = np.exp(np.zeros((), dtype)).dtype
        wide = np.promote_types(narrow, np.float32)  # differences of integers do not wrap around
        return to_dtype(function(to_dtype(y, wide) if dtype.kind in "iu" else y, axis), narrow)

    return call
