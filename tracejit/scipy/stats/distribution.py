"""What all distributions share: a class of functions, of which some follow from others."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from tracejit.api.returning import returning_arrays
from tracejit.numpy import ufuncs as u
from tracejit.numpy.exponentials import inexact
from tracejit.support.typing import ArrayLike, Result

__all__ = ["Distribution", "log1mexp", "outside", "standard"]


def outside(valid: Any, value: Any, otherwise: float = -np.inf, *, of: Any = None) -> Any:
    """`value` where the argument is in the support, else another number; NaN where the argument `of` is."""
    found = u.where(valid, value, otherwise)
    return found if of is None else u.where(u.isnan(of), np.nan, found)


def standard(x: ArrayLike, loc: ArrayLike, scale: ArrayLike, *shapes: ArrayLike) -> list[Any]:
    """((x - loc) / scale, scale, shape parameters) in one floating-point dtype."""
    y, where, width, *rest = inexact(x, loc, scale, *shapes)
    return [(y - where) / width, width, *rest]


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x from 0 on; the derivative is 0 where x is."""
    none, small = u.equal(x, 0), x < np.log(2.0)
    near, far = u.where(small & ~none, x, 1), u.where(small, 1, x)
    return u.where(none, -np.inf, u.where(small, u.log(-u.expm1(-near)), u.log1p(-u.exp(-far))))


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose infinities and NaN are meant, as NumPy's warnings about them are not."""

    @wraps(function)
    def call(*args: ArrayLike, **kwargs: Any) -> Result:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return call


def _log(x: Any) -> Any:
    """log(x); the derivative is 0 where x is, so that numbers outside of the support have none."""
    none = u.equal(x, 0)
    return u.where(none, -np.inf, u.log(u.where(none, 1, x)))


_DERIVED: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "pdf": ("logpdf", u.exp, "The density."),
    "pmf": ("logpmf", u.exp, "The probability of a number."),
    "cdf": ("logcdf", u.exp, "The probability of less than or equal to x."),
    "logcdf": ("cdf", _log, "The logarithm of `cdf`."),
    "sf": ("logsf", u.exp, "The probability of more than x."),
    "logsf": ("sf", _log, "The logarithm of `sf`."),
}
"""Functions by others of the class: which, what is made of its result, and what that is."""


class Distribution:
    """A distribution: its functions are called as `norm.logpdf(x, loc, scale)`.

    `derived` names those that follow from others of the class (`_DERIVED`); subclasses give the others.
    Operands are promoted as NumPy does, integers to float64, and broadcast.
    """

    derived: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        for name in cls.derived:
            source, then, text = _DERIVED[name]
            setattr(cls, name, _following(vars(cls)[source].__func__, then, name, text))
        for name, member in list(vars(cls).items()):
            if isinstance(member, staticmethod):
                setattr(cls, name, staticmethod(returning_arrays(_quiet(member.__func__))))


def _following(source: Callable[..., Any], then: Callable[[Any], Any], name: str, text: str) -> Any:
    @wraps(source)
    def function(*args: ArrayLike, **kwargs: Any) -> Result:
        return then(source(*args, **kwargs))

    function.__name__, function.__doc__ = name, text
    return staticmethod(function)
