"""i0e and i1e, the modified Bessel functions of the first kind times exp(-|x|).

Up to 16 a power series in x * x, whose terms are all positive, times the exponential; beyond it sqrt(x) times the
function is a polynomial in 1 / x.  Coefficients: benchmarks/fit_special.py.
"""

from __future__ import annotations

from tracejit.ir.math import fits
from tracejit.ir.math.exp_log import exp
from tracejit.ir.math.term import Term, polynomial, select

__all__ = ["bessel_i0e", "bessel_i1e"]

_FAR = 16.0


def _scaled(a: Term, near: Term, far: tuple[float, ...]) -> Term:
    low, high = a.at_most(_FAR), a.at_least(_FAR)
    beyond = polynomial(1.0 / high, far) / high.sqrt()
    return select(a < _FAR, near * exp(-low), beyond)


def _square(a: Term) -> Term:
    low = a.at_most(_FAR) * (1.0 / _FAR)
    return low * low


def bessel_i0e(x: Term) -> Term:
    """exp(-|x|) i0(x)"""
    a = abs(x)
    return _scaled(a, polynomial(_square(a), fits.I0[x.dtype]), fits.I0_FAR[x.dtype])


def bessel_i1e(x: Term) -> Term:
    """exp(-|x|) i1(x), with the sign of x."""
    a = abs(x)
    near = polynomial(_square(a), fits.I1[x.dtype]) * a.at_most(_FAR)
    return _scaled(a, near, fits.I1_FAR[x.dtype]).with_sign_of(x)
