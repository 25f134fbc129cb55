"""Minima of functions of vectors, as JAX has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tracejit.api.autodiff import grad, value_and_grad
from tracejit.api.jacobian import jacfwd
from tracejit.api.returning import returning_arrays
from tracejit.api.transform import checked_function
from tracejit.lax.control import custom_root, stop_gradient, while_loop
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import convert
from tracejit.support.errors import DtypeError, OptionError, ShapeError, TracerError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import has_aval
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.redirect import prepared
from tracejit.tracer.tracer import Tracer

__all__ = ["OptimizeResults", "minimize"]

_ENOUGH, _FLAT = 1e-4, 0.9
"""How much of what the slope promises a step has to win, and how much of the slope may be left after it."""


class OptimizeResults(NamedTuple):
    """What `minimize` has found.

    status: 0 where the gradient is small enough, 1 after maxiter iterations, 3 where no step along a line was good
    enough; success: whether it is 0.  nfev, njev, nit: how many values, gradients and iterations it took.

    >>> import numpy as np, tracejit as tj
    >>> found = tj.scipy.optimize.minimize(lambda x: np.sum((x - 3.0) ** 2), np.zeros(2), method="BFGS")
    >>> bool(found.success), int(found.status)
    (True, 0)
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


@returning_arrays
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    *,
    method: Any,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A minimum of `fun(x, *args)` near x0, by the method of Broyden, Fletcher, Goldfarb and Shanno.

    x0: a vector of floats.  method: "BFGS".  tol: what option gtol is by default.  options: maxiter (200 a number),
    gtol (1e-5): the norm of the gradient at which it ends, norm (np.inf): the order of that norm, line_search_maxiter
    (10).  `x` and `fun` have derivatives with respect to args, and what `fun` reads from outside, by the implicit
    function theorem, as if the gradient at x were 0; x0 and the other results have none.  Results are not JAX's bit by
    bit, whose steps along a line are others.
    Raises: UnsupportedError for another method; ShapeError, DtypeError for an x0 that is no vector of floats;
    OptionError for options that there are not; TracerError for args that are no tuple.
    Source: JAX's scipy.optimize.minimize; Nocedal, Wright, Numerical optimization, 2006, algorithms 3.5, 3.6 and 6.1.

    >>> import numpy as np, tracejit as tj
    >>> def rosenbrock(x, a):
    ...     return (a - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2
    >>> def place(a):
    ...     return tj.scipy.optimize.minimize(rosenbrock, np.zeros(2), (a,), method="BFGS", tol=1e-8).x
    >>> tj.jit(place)(2.0).round(4), tj.jacrev(place)(2.0).round(4)
    (array([2., 4.]), array([1., 4.]))
    """
    checked_function("scipy.optimize.minimize", fun)
    given: Any = args
    wanted: Any = method
    if not isinstance(given, tuple):
        raise TracerError(f"minimize: args is a tuple, not {type(args).__name__}", location=user_location())
    if not isinstance(wanted, str) or wanted.lower() != "bfgs":
        raise UnsupportedError(f"minimize: method is 'BFGS', not {method!r}", location=user_location())
    x0 = x0 if isinstance(x0, (Tracer, np.ndarray)) or has_aval(x0) else np.asarray(x0)
    aval = aval_of_argument(x0)
    if aval.ndim != 1:
        raise ShapeError(
            f"minimize: x0 is a vector, not of shape {aval.shape}; use tj.flatten_util.ravel_pytree",
            location=user_location(),
        )
    if aval.dtype.kind != "f":
        raise DtypeError(f"minimize: x0 is {aval}, not of floats; use x0.astype(float)", location=user_location())
    chosen = _Options.of(dict(options or {}), tol, aval.shape[0])
    called = prepared(fun)

    def function(x: Any) -> Any:
        value = called(x, *args)
        found = aval_of_argument(value)
        if found.shape or found.dtype.kind != "f":
            raise ShapeError(f"minimize: the function returned {found}, not one number", location=user_location())
        return convert(value, aval.dtype)

    def solve(_: Any, x: Any) -> Any:
        return _bfgs(function, x, chosen)

    def tangent_solve(g: Any, y: Any) -> Any:
        return np.linalg.solve(jacfwd(g)(y), y)

    x, (status, jac, inverse, nfev, njev, nit) = custom_root(
        grad(function), stop_gradient(x0), solve, tangent_solve, True
    )
    return OptimizeResults(x, status == 0, status, function(x), jac, inverse, nfev, njev, nit)


class _Options(NamedTuple):
    maxiter: Any
    gtol: Any
    norm: Any
    line_search_maxiter: Any

    @staticmethod
    def of(given: dict[str, Any], tol: Any, size: Any) -> _Options:
        unknown = given.keys() - set(_Options._fields)
        if unknown:
            raise OptionError(
                f"minimize: BFGS has the options {', '.join(_Options._fields)}, not "
                f"{', '.join(sorted(map(str, unknown)))}",
                location=user_location(),
            )
        most = given.get("maxiter")
        return _Options(
            200 * size if most is None else most,
            given.get("gtol", 1e-5 if tol is None else tol),
            given.get("norm", np.inf),
            given.get("line_search_maxiter", 10),
        )


class _State(NamedTuple):
    x: Any
    value: Any
    slope: Any
    inverse: Any
    values: Any
    count: Any
    stuck: Any


def _bfgs(function: Callable[[Any], Any], x: Any, options: _Options) -> tuple[Any, tuple[Any, ...]]:
    aval = aval_of_argument(x)
    n: Any = aval.shape[0]
    kind = aval.dtype
    both = value_and_grad(function)
    unit = convert(iota((n, n), 0, np.int64) == iota((n, n), 1, np.int64), kind)

    def small(slope: Any) -> Any:
        return np.linalg.norm(slope, options.norm) < options.gtol

    def goes_on(s: _State) -> Any:
        return ~small(s.slope) & (s.count < options.maxiter) & ~s.stuck

    def step(s: _State) -> _State:
        along = -np.matmul(s.inverse, s.slope)
        at, value, slope, more, found = _line_search(both, s, along, options.line_search_maxiter)
        moved, change = at * along, slope - s.slope
        curvature = np.sum(moved * change)
        usable = curvature > 0
        rho = kind.type(1) / np.where(usable, curvature, kind.type(1))
        w = unit - rho * moved[:, None] * change[None, :]
        new = np.matmul(np.matmul(w, s.inverse), w.T) + rho * moved[:, None] * moved[None, :]
        inverse = np.where(usable, new, s.inverse)
        return _State(s.x + moved, value, slope, inverse, s.values + more, s.count + 1, ~found)

    value, slope = both(x)
    s = while_loop(goes_on, step, _State(x, value, slope, unit, 1, 0, np.False_))
    status = np.where(small(s.slope), 0, np.where(s.stuck, 3, 1))
    return s.x, (status, s.slope, s.inverse, s.values, s.values, s.count)


class _Line(NamedTuple):
    """The search along a line.  low, high: between them there is a good step, once there is an upper end."""

    low: Any
    value_low: Any
    slope_low: Any
    high: Any
    value_high: Any
    bounded: Any
    at: Any
    value: Any
    gradient: Any
    count: Any
    found: Any


def _line_search(both: Callable[[Any], Any], s: _State, along: Any, most: Any) -> tuple[Any, ...]:
    """(step, value, gradient, evaluations, whether it is good): one that leads down, and is flatter if possible."""
    kind = aval_of_argument(s.x).dtype
    zero, one = kind.type(0), kind.type(1)
    steep = np.sum(s.slope * along)
    # of the inverse of the Hessian nothing is known before the first step
    begin = np.where(s.count == 0, np.minimum(one, one / np.sqrt(np.sum(s.slope**2))), one)
    noise = kind.type(8 * np.finfo(kind).eps) * np.abs(s.value)

    def goes_on(t: _Line) -> Any:
        return ~t.found & (t.count < most)

    def step(t: _Line) -> _Line:
        at = np.where(t.bounded, _between(t), np.where(t.low == 0, begin, 2 * t.low))
        value, gradient = both(s.x + at * along)
        slope = np.sum(gradient * along)
        high = ~(value <= s.value + kind.type(_ENOUGH) * at * steep + noise) | (value > t.value_low + noise)
        found = ~high & (np.abs(slope) <= -kind.type(_FLAT) * steep)
        turns = ~high & ~found & np.where(t.bounded, slope * (t.high - t.low) >= 0, slope >= 0)
        ahead = ~high & ~found
        return _Line(
            np.where(ahead, at, t.low),
            np.where(ahead, value, t.value_low),
            np.where(ahead, slope, t.slope_low),
            np.where(high, at, np.where(turns, t.low, t.high)),
            np.where(high, value, np.where(turns, t.value_low, t.value_high)),
            t.bounded | high | turns,
            np.where(found | ahead, at, t.at),
            np.where(found | ahead, value, t.value),
            np.where(found | ahead, gradient, t.gradient),
            t.count + 1,
            found,
        )

    first = _Line(zero, s.value, steep, zero, s.value, np.False_, zero, s.value, s.slope, 0, np.False_)
    t = while_loop(goes_on, step, first)
    return t.at, t.value, t.gradient, t.count, t.found | (t.bounded & (t.at > 0))


def _between(t: _Line) -> Any:
    """The least point of the parabola through what is known of both ends, but not near one of them."""
    kind = aval_of_argument(t.low).dtype
    width = t.high - t.low
    bend = t.value_high - t.value_low - t.slope_low * width
    part = -t.slope_low * width / (2 * np.where(bend > 0, bend, kind.type(1)))
    part = np.clip(part, kind.type(0.1), kind.type(0.9))
    return t.low + np.where(bend > 0, part, kind.type(0.5)) * width
