"""Derivatives of plain NumPy functions: jvp, vjp, grad, value_and_grad, linearize.

All of them work on arrays at once, under `jit`, and under each other in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracejit.api.differentiable import (
    Like,
    Prepared,
    check_kinds,
    checked_argnums,
    checked_options,
    concrete_shape,
    float0,
    linearized,
    prepare,
    zeros_like,
)
from tracejit.api.option_checks import flag
from tracejit.api.transform import (
    Call,
    Owner,
    checked_function,
    compiled_like,
    is_array,
    name_of,
)
from tracejit.ir.types import ShapedArray
from tracejit.support.dtypes import short_name, weak_kind
from tracejit.support.errors import DtypeError, ShapeError, TracerError
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, flatten_like, unflatten
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.jvp import jvp as flat_jvp

__all__ = ["float0", "grad", "jvp", "linearize", "value_and_grad", "vjp"]


# -- one derivative ----------------------------------------------------------------------------------------------------
def value_and_grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that returns `(value, gradient)`, with has_aux `((value, aux), gradient)`.  See `grad`.

    >>> import numpy as np, tracejit as tj
    >>> value, gradient = tj.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), gradient
    (5.0, array([2., 4.]))
    """
    return _gradient_function(
        "value_and_grad",
        function,
        argnums,
        has_aux,
        allow_int,
        holomorphic,
        lambda value, gradient, aux: ((value, aux) if has_aux else value, gradient),
    )


def grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The gradient of a function whose result is one real number.

    argnums: which positional argument to differentiate, or several (the gradient is then a tuple); each may be a pytree
    of floating-point arrays and numbers.  has_aux: the function returns (value, aux), the gradient function (gradient,
    aux).  allow_int: integer leaves get derivatives of dtype float0 instead of an error.  holomorphic: the result is a
    complex number, a holomorphic function of complex arguments.

    The gradient of a real result by a complex argument x + iy is df/dx - i df/dy, as JAX's: its conjugate
    points to where the result grows.

    Gradients have the argument's structure, shapes and dtypes.  The gradient of a jitted function is compiled too.

    Raises: DtypeError for integer arguments and results, ShapeError for a result that is not one number, TracerError
    where the function changes an argument in place or returns something that is no array.
    Source: JAX's grad.

    >>> import numpy as np, tracejit as tj
    >>> tj.grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return _gradient_function(
        "grad",
        function,
        argnums,
        has_aux,
        allow_int,
        holomorphic,
        lambda value, gradient, aux: (gradient, aux) if has_aux else gradient,
    )


def _gradient_function(
    name: str,
    function: Callable[..., Any],
    argnums: Any,
    has_aux: bool,
    allow_int: bool,
    holomorphic: bool,
    answer: Callable[[Any, Any, Any], Any],
) -> Callable[..., Any]:
    wanted = checked_options(name, function, argnums, has_aux=has_aux, allow_int=allow_int, holomorphic=holomorphic)

    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        numbers = checked_argnums(name, wanted, args)
        c = prepare(name, Call.of(function, args, kwargs, numbers), has_aux, allow_int)
        linear = linearized(c)
        one = _scalar_one(name, c, linear.outputs, holomorphic)
        cotangents = [one, *[None] * (len(linear.outputs) - 1)]
        own = c.call.owner()
        parts = c.call.split(c.spread(linear.pullback(cotangents), own))
        return answer(
            c.result(linear.outputs, own),
            parts if isinstance(argnums, Iterable) else parts[0],
            c.aux(linear.outputs, own),
        )

    gradient.__name__ = gradient.__qualname__ = f"{name}_{name_of(function)}"
    return gradient if allow_int else compiled_like(function, gradient)


def _scalar_one(name: str, c: Prepared, outputs: Sequence[Any], holomorphic: bool) -> Any:
    """The cotangent of the result, 1.  Raises ShapeError, DtypeError, TracerError for results that have no gradient."""
    what = f"{name} wants a function whose result is one real number; {name_of(c.call.function)} returned"
    if c.out["tree"].kind != "leaf":
        hint = (
            "; pass has_aux=True if the second is extra output"
            if c.out["tree"].kind == "tuple" and len(c.out["tree"].children) == 2
            else ""
        )
        raise TracerError(f"{what} a {c.out['tree'].kind}{hint}", location=user_location())
    aval = aval_of_argument(outputs[0])
    if aval.shape:
        raise ShapeError(
            f"{what} {aval}; reduce it (result.sum()), or use tj.jacrev or tj.vjp", location=user_location()
        )
    check_kinds(name, holomorphic, c.primals, outputs[:1], forward=False)
    if aval.dtype.kind not in "fc":
        raise DtypeError(f"{what} {aval}, which has no derivative; compute in floating point", location=user_location())
    return aval.dtype.type(1)


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """(result, its derivative along `tangents`) of `function(*primals)`; with has_aux also aux.

    primals, tangents: sequences of one pytree for each argument, alike in structure, shapes and dtypes; the tangent of
    an integer array is of dtype float0.

    Raises: ShapeError, DtypeError, TracerError where tangents do not fit.
    Source: JAX's jvp.

    >>> import numpy as np, tracejit as tj
    >>> tj.jvp(lambda x: x**3, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    (array([1., 8.]), array([  3., 120.]))
    """
    checked_function("jvp", function)
    flag("jvp", "has_aux", has_aux)
    for what, x in (("primals", primals), ("tangents", tangents)):
        if not isinstance(x, (tuple, list)):
            raise TracerError(
                f"jvp: {what} is a {type(x).__name__}; it is a tuple with one entry for each argument",
                location=user_location(),
            )
    c = prepare("jvp", Call.of(function, tuple(primals), {}, range(len(primals))), has_aux, True)
    given = _leaves_like(tangents, c.call.trees)
    if given is None:
        raise TracerError("jvp: primals and tangents differ in structure", location=user_location())
    directions = [_tangent(c, n, given[n]) for n in c.smooth]
    for n, t in enumerate(given):
        if n not in c.smooth and getattr(t, "dtype", None) != float0:
            raise DtypeError(
                f"jvp: argument {c.call.describe(n)} is {aval_of_argument(c.call.leaves[n])} and has no tangent; "
                "pass it through a closure (lambda x: f(x, n)) or give a tangent of dtype tj.float0",
                location=user_location(),
            )
    outputs, slopes = flat_jvp(c.flat, c.primals, directions, name="jvp", describe=c.describe)
    own = c.call.owner(given)
    result = c.result(outputs, own)
    slope = unflatten(
        c.out["tree"], [own(_output_tangent(t, o)) for t, o in zip(slopes[: c.out["main"]], outputs, strict=False)]
    )
    return (result, slope, c.aux(outputs, own)) if has_aux else (result, slope)


def _leaves_like(trees: Sequence[Any], wanted: Sequence[TreeDef]) -> list[Any] | None:
    """The leaves of trees in the order of these structures, None if they do not fit."""
    parts = (
        [flatten_like(x, tree) for x, tree in zip(trees, wanted, strict=True)] if len(trees) == len(wanted) else [None]
    )
    return None if None in parts else [leaf for part in parts for leaf in part or ()]


def _output_tangent(tangent: Any, output: Any) -> Any:
    if tangent is not None:
        return tangent
    return (
        zeros_like(output) if aval_of_argument(output).dtype.kind in "fc" else np.zeros(concrete_shape(output), float0)
    )


def _tangent(c: Prepared, n: int, t: Any) -> Any:
    return fitting(
        t, aval_of_argument(c.call.leaves[n]), f"{c.transformation}: the tangent of argument {c.call.describe(n)}"
    )


def fitting(t: Any, aval: ShapedArray, what: str) -> Any:
    """A tangent or cotangent checked against the value it belongs to.  Raises ShapeError, DtypeError."""
    if not is_array(t):
        raise TracerError(f"{what} is a {type(t).__name__}, not an array", location=user_location())
    if weak_kind(t) is not None and (type(t) is not complex or aval.dtype.kind == "c"):
        t = aval.dtype.type(t)
    have = aval_of_argument(t)
    if have.shape != aval.shape:
        raise ShapeError(f"{what} has shape {have.shape}; the value has {aval.shape}", location=user_location())
    if have.dtype != aval.dtype:
        raise DtypeError(
            f"{what} is {short_name(have.dtype)}; the value is {short_name(aval.dtype)}", location=user_location()
        )
    return t


# -- linear functions --------------------------------------------------------------------------------------------------
def linearize(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(result, linear function of tangents) at `primals`; with has_aux also aux.  The function's own work is done once.

    Source: JAX's linearize.

    >>> import numpy as np, tracejit as tj
    >>> value, pushforward = tj.linearize(lambda x: x**2, np.array([3.0, 5.0]))
    >>> pushforward(np.array([1.0, 0.5]))
    array([6., 5.])
    """
    checked_function("linearize", function)
    flag("linearize", "has_aux", has_aux)
    c = prepare("linearize", Call.of(function, primals, {}, range(len(primals))), has_aux, False)
    linear = linearized(c).detached()
    own = c.call.owner()
    avals = [aval_of_argument(x) for x in linear.outputs[: c.out["main"]]]

    def pushforward(*tangents: Any) -> Any:
        given = _leaves_like(tangents, c.call.trees)
        if given is None:
            raise TracerError(
                "linearize: the tangents differ in structure from the arguments", location=user_location()
            )
        slopes = linear.pushforward([_tangent(c, n, t) for n, t in enumerate(given)])
        keep = Owner(given, own.arrays)
        return unflatten(
            c.out["tree"], [keep(_output_tangent(t, a)) for t, a in zip(slopes, map(Like, avals), strict=False)]
        )

    result = c.result(linear.outputs, own)
    return (result, pushforward, c.aux(linear.outputs, own)) if has_aux else (result, pushforward)


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(result, function from a cotangent of the result to a tuple of cotangents of the arguments);
    with has_aux also aux.

    The function may be called many times.  Cotangents of integer arguments are of dtype float0.

    Raises: ShapeError, DtypeError, TracerError where a cotangent does not fit the result.
    Source: JAX's vjp.

    >>> import numpy as np, tracejit as tj
    >>> product, pullback = tj.vjp(lambda x, y: x * y, np.array([2.0, 3.0]), np.array([5.0, 7.0]))
    >>> pullback(np.ones(2))
    (array([5., 7.]), array([2., 3.]))
    """
    checked_function("vjp", function)
    flag("vjp", "has_aux", has_aux)
    c = prepare("vjp", Call.of(function, primals, {}, range(len(primals))), has_aux, True)
    linear = linearized(c).detached()
    own = c.call.owner()
    avals = [aval_of_argument(x) for x in linear.outputs[: c.out["main"]]]
    rest = len(linear.outputs) - len(avals)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        given = flatten_like(cotangent, c.out["tree"])
        if given is None:
            raise TracerError("vjp: the cotangent differs in structure from the result", location=user_location())
        cts = [
            fitting(t, a, f"vjp: the cotangent of {_result_name(c.out['tree'], k)}") if a.dtype.kind in "fc" else None
            for k, (t, a) in enumerate(zip(given, avals, strict=True))
        ]
        return c.call.split(c.spread(linear.pullback([*cts, *[None] * rest]), Owner(given, own.arrays)))

    result = c.result(linear.outputs, own)
    return (result, pullback, c.aux(linear.outputs, own)) if has_aux else (result, pullback)


def _result_name(tree: TreeDef, position: int) -> str:
    return f"result {position + 1}" if tree.leaves > 1 else "the result"
