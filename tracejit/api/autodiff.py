"""Derivatives of plain NumPy functions: jvp, vjp, grad, value_and_grad, linearize, jacfwd, jacrev, hessian.

All of them work on arrays at once, under `jit`, and under each other in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracejit.api.option_checks import flag, positions
from tracejit.api.transform import (
    Call,
    Owner,
    array_leaf,
    checked_function,
    compiled_like,
    is_array,
    name_of,
    result_leaves,
)
from tracejit.ir.extents import Shape
from tracejit.ir.types import ShapedArray
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import convert
from tracejit.primitives.shape import broadcast_in_dim, reshape, slice_array
from tracejit.support.dtypes import short_name, weak_kind
from tracejit.support.errors import DtypeError, ShapeError, TracerError, UserError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, flatten, flatten_like, unflatten
from tracejit.tracer.batch import batch_pairs, spread
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.jvp import jvp as flat_jvp
from tracejit.tracer.linearize import Linearized, linearize as flat_linearize
from tracejit.tracer.operators import ARITHMETIC

__all__ = ["float0", "grad", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "value_and_grad", "vjp"]

float0 = np.dtype([("float0", np.void, 0)])
"""The dtype of derivatives with respect to integers and booleans: there is nothing in them."""


@frozen(eq=False)
class _Call:
    """A call whose differentiable leaves are `primals`; the function's last run left its results' structure in
    `out`.
    """

    call: Call
    transformation: str
    smooth: tuple[int, ...]  # positions of the differentiable leaves
    has_aux: bool
    out: dict[str, Any]

    @property
    def primals(self) -> list[Any]:
        return [self.call.leaves[n] for n in self.smooth]

    def flat(self, *tracers: Any) -> list[Any]:
        """Leaves of the result, then those of aux."""
        leaves = list(self.call.leaves)
        for n, t in zip(self.smooth, tracers, strict=True):
            leaves[n] = t
        result, aux = self.call.run(leaves), None
        if self.has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise TracerError(
                    f"{self.transformation}: with has_aux=True {name_of(self.call.function)} returns a pair (result, "
                    "aux), "
                    f"not {type(result).__name__}",
                    location=user_location(),
                )
            result, aux = result
        main, self.out["tree"] = result_leaves(self.transformation, self.call.function, result)
        extra, self.out["aux"] = flatten(aux)
        self.out["main"] = len(main)
        return main + extra

    def describe(self, position: int) -> str:
        return self.call.describe(self.smooth[position])

    def aux(self, values: Sequence[Any], own: Owner) -> Any:
        """The aux result from the values after the main ones."""
        return unflatten(self.out["aux"], [own(x) for x in values[self.out["main"] :]])

    def result(self, values: Sequence[Any], own: Owner) -> Any:
        return unflatten(self.out["tree"], [own(x) for x in values[: self.out["main"]]])

    def spread(self, parts: Sequence[Any], own: Owner) -> list[Any]:
        """One derivative for each leaf, zeros for None and float0 for the others."""
        made = {
            n: part if part is not None else _zeros(x)
            for n, x, part in zip(self.smooth, self.primals, parts, strict=True)
        }
        return [
            own(made[n]) if n in made else np.zeros(_concrete_shape(x), float0) for n, x in enumerate(self.call.leaves)
        ]


def _concrete_shape(x: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in aval_of_argument(x).shape)


def _zeros(like: Any) -> Any:
    aval = aval_of_argument(like)
    return broadcast_in_dim(aval.dtype.type(0), aval.shape, ())


def _prepare(transformation: str, call: Call, has_aux: bool, allow_int: bool) -> _Call:
    """Raises DtypeError for leaves that have no derivative (unless `allow_int`),
    TracerError for leaves that are no arrays.
    """
    smooth: list[int] = []
    for n, x in enumerate(call.leaves):
        path = call.describe(n)
        array_leaf(x, transformation, path)
        aval = aval_of_argument(x)
        if aval.dtype.kind == "f":
            smooth.append(n)
        elif not allow_int:
            how = f"pass {float(x)}" if type(x) is int else "pass x.astype(float)"
            kind = f"the number {x}" if weak_kind(x) is not None else str(aval)
            raise DtypeError(
                f"{transformation}: argument {path} is {kind}, and derivatives are taken with respect to "
                f"floating-point numbers; {how}, "
                "or choose other arguments with argnums=",
                location=user_location(),
            )
    return _Call(call, transformation, tuple(smooth), has_aux, {})


def _checked(transformation: str, function: Any, argnums: Any, **flags: Any) -> tuple[int, ...]:
    """The numbers in `argnums`.   Raises: UserError for a function that is none; OptionError."""
    checked_function(transformation, function)
    for name, given in flags.items():
        flag(transformation, name, given)
    return positions(transformation, "argnums", argnums)


def _argnums(transformation: str, argnums: tuple[int, ...], args: tuple[Any, ...]) -> tuple[int, ...]:
    """Positions of the arguments of a call, from 0 on."""
    for n in argnums:
        if not -len(args) <= n < len(args):
            raise UserError(
                f"{transformation}: argnums {n} with {len(args)} positional arguments", location=user_location()
            )
    out = tuple(n % len(args) for n in argnums)
    if len(set(out)) != len(out):
        raise UserError(f"{transformation}: argnums {argnums!r} names an argument twice", location=user_location())
    return out


def _linearized(c: _Call) -> Linearized:
    return flat_linearize(c.flat, c.primals, name=c.transformation, describe=c.describe)


# -- one derivative ----------------------------------------------------------------------------------------------------
def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, allow_int: bool = False
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
        lambda value, gradient, aux: ((value, aux) if has_aux else value, gradient),
    )


def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, allow_int: bool = False
) -> Callable[..., Any]:
    """The gradient of a function whose result is one real number.

    argnums: which positional argument to differentiate, or several (the gradient is then a tuple); each may be a pytree
    of floating-point arrays and numbers.  has_aux: the function returns (value, aux), the gradient function (gradient,
    aux).  allow_int: integer leaves get derivatives of dtype float0 instead of an error.

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
        lambda value, gradient, aux: (gradient, aux) if has_aux else gradient,
    )


def _gradient_function(
    name: str,
    function: Callable[..., Any],
    argnums: Any,
    has_aux: bool,
    allow_int: bool,
    answer: Callable[[Any, Any, Any], Any],
) -> Callable[..., Any]:
    wanted = _checked(name, function, argnums, has_aux=has_aux, allow_int=allow_int)

    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        numbers = _argnums(name, wanted, args)
        c = _prepare(name, Call.of(function, args, kwargs, numbers), has_aux, allow_int)
        linear = _linearized(c)
        one = _scalar_one(name, c, linear.outputs)
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


def _scalar_one(name: str, c: _Call, outputs: Sequence[Any]) -> Any:
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
    if aval.dtype.kind != "f":
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
    c = _prepare("jvp", Call.of(function, tuple(primals), {}, range(len(primals))), has_aux, True)
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
    return _zeros(output) if aval_of_argument(output).dtype.kind == "f" else np.zeros(_concrete_shape(output), float0)


def _tangent(c: _Call, n: int, t: Any) -> Any:
    return fitting(
        t, aval_of_argument(c.call.leaves[n]), f"{c.transformation}: the tangent of argument {c.call.describe(n)}"
    )


def fitting(t: Any, aval: ShapedArray, what: str) -> Any:
    """A tangent or cotangent checked against the value it belongs to.  Raises ShapeError, DtypeError."""
    if not is_array(t):
        raise TracerError(f"{what} is a {type(t).__name__}, not an array", location=user_location())
    if weak_kind(t) is not None and type(t) is not complex:
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
    c = _prepare("linearize", Call.of(function, primals, {}, range(len(primals))), has_aux, False)
    linear = _linearized(c).detached()
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
            c.out["tree"], [keep(_output_tangent(t, a)) for t, a in zip(slopes, map(_Like, avals), strict=False)]
        )

    result = c.result(linear.outputs, own)
    return (result, pushforward, c.aux(linear.outputs, own)) if has_aux else (result, pushforward)


@frozen(eq=False)
class _Like:
    """Something with an abstract value and nothing else."""

    aval: ShapedArray


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
    c = _prepare("vjp", Call.of(function, primals, {}, range(len(primals))), has_aux, True)
    linear = _linearized(c).detached()
    own = c.call.owner()
    avals = [aval_of_argument(x) for x in linear.outputs[: c.out["main"]]]
    rest = len(linear.outputs) - len(avals)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        given = flatten_like(cotangent, c.out["tree"])
        if given is None:
            raise TracerError("vjp: the cotangent differs in structure from the result", location=user_location())
        cts = [
            fitting(t, a, f"vjp: the cotangent of {_result_name(c.out['tree'], k)}") if a.dtype.kind == "f" else None
            for k, (t, a) in enumerate(zip(given, avals, strict=True))
        ]
        return c.call.split(c.spread(linear.pullback([*cts, *[None] * rest]), Owner(given, own.arrays)))

    result = c.result(linear.outputs, own)
    return (result, pullback, c.aux(linear.outputs, own)) if has_aux else (result, pullback)


def _result_name(tree: TreeDef, position: int) -> str:
    return f"result {position + 1}" if tree.leaves > 1 else "the result"


# -- matrices of derivatives
# --------------------------------------------------------------------------------------------------------
def _basis(avals: Sequence[ShapedArray], total: Any) -> list[Any]:
    """The unit vectors of the space of all leaves: for each leaf an array [total, *shape]."""
    out: list[Any] = []
    offset: Any = 0
    for a in avals:
        n = a.size
        row, column = iota((total, n), 0, np.int64), iota((total, n), 1, np.int64)
        unit = ARITHMETIC["eq"](row, column if _is_zero(offset) else ARITHMETIC["add"](column, int(offset)))
        out.append(reshape(convert(unit, a.dtype), (total, *a.shape)))
        offset = offset + n
    return out


def _is_zero(n: Any) -> bool:
    return isinstance(n, int) and n == 0


def _total(avals: Sequence[ShapedArray]) -> Any:
    total: Any = 0
    for a in avals:
        total = total + a.size
    return total


def _blocks(matrix: Any, avals: Sequence[ShapedArray], axis: int, inner: Callable[[ShapedArray], Shape]) -> list[Any]:
    """A result with the basis along `axis`, cut into one block for each leaf and shaped as that leaf."""
    shape = aval_of_argument(matrix).shape
    out: list[Any] = []
    offset: Any = 0
    for a in avals:
        block = matrix
        if len(avals) > 1:
            start = tuple(offset if d == axis else 0 for d in range(len(shape)))
            block = slice_array(matrix, start, tuple(a.size if d == axis else n for d, n in enumerate(shape)))
        out.append(reshape(block, inner(a)))
        offset = offset + a.size
    return out


def _jacobian(
    name: str,
    function: Callable[..., Any],
    argnums: Any,
    has_aux: bool,
    allow_int: bool,
    columns: Callable[[_Call, Linearized], list[list[Any]]],
) -> Callable[..., Any]:
    """`columns` gives for each output leaf a list with one derivative for each differentiable leaf."""
    wanted = _checked(name, function, argnums, has_aux=has_aux, allow_int=allow_int)

    @functools.wraps(function)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        c = _prepare(name, Call.of(function, args, kwargs, _argnums(name, wanted, args)), has_aux, allow_int)
        linear = _linearized(c)
        for x in linear.outputs[: c.out["main"]]:
            if aval_of_argument(x).dtype.kind != "f":
                raise DtypeError(
                    f"{name}: {name_of(function)} returned {aval_of_argument(x)}, which has no derivative",
                    location=user_location(),
                )
        own = c.call.owner()
        rows: list[Any] = []
        for output, row in zip(linear.outputs, columns(c, linear), strict=False):
            made = dict(zip(c.smooth, row, strict=True))
            shape = aval_of_argument(output).shape
            leaves = [
                own(made[n]) if n in made else np.zeros((*shape, *_concrete_shape(x)), float0)
                for n, x in enumerate(c.call.leaves)
            ]
            parts = c.call.split(leaves)
            rows.append(parts if isinstance(argnums, Iterable) else parts[0])
        result = unflatten(c.out["tree"], rows)
        return (result, c.aux(linear.outputs, own)) if has_aux else result

    jacobian.__name__ = jacobian.__qualname__ = f"{name}_{name_of(function)}"
    return jacobian if allow_int else compiled_like(function, jacobian)


def jacfwd(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, allow_int: bool = False
) -> Callable[..., Any]:
    """The Jacobian by forward mode, one pass for each input element: best where there are fewer inputs than outputs.

    For a result of shape [*o] and an argument of shape [*i] an array [*o, *i], in the result's structure and in it the
    arguments'.

    Source: JAX's jacfwd.

    >>> import numpy as np, tracejit as tj
    >>> tj.jacfwd(lambda x: x[:2] * x[2])(np.array([1.0, 2.0, 3.0]))
    array([[3., 0., 1.],
           [0., 3., 2.]])
    """

    def columns(c: _Call, linear: Linearized) -> list[list[Any]]:
        avals = [aval_of_argument(x) for x in c.primals]
        total = _total(avals)
        outs = [aval_of_argument(x) for x in linear.outputs[: c.out["main"]]]
        if not avals:
            return [[] for _ in outs]

        def push(*tangents: Any) -> list[Any]:
            slopes = linear.pushforward(tangents)[: c.out["main"]]
            return [t if t is not None else _zeros(_Like(o)) for t, o in zip(slopes, outs, strict=True)]

        pairs = batch_pairs(push, _basis(avals, total), [0] * len(avals), total)
        return [
            _blocks(spread(value, axis, total, -1), avals, len(o.shape), lambda a, o=o: (*o.shape, *a.shape))
            for (value, axis), o in zip(pairs, outs, strict=True)
        ]

    return _jacobian("jacfwd", function, argnums, has_aux, allow_int, columns)


def jacrev(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, allow_int: bool = False
) -> Callable[..., Any]:
    """The Jacobian by reverse mode, one pass for each output element: best where there are fewer outputs than inputs.

    For a result of shape [*o] and an argument of shape [*i] an array [*o, *i], in the result's structure and in it the
    arguments'.

    Source: JAX's jacrev.

    >>> import numpy as np, tracejit as tj
    >>> tj.jacrev(lambda x: x[:2] * x[2])(np.array([1.0, 2.0, 3.0]))
    array([[3., 0., 1.],
           [0., 3., 2.]])
    """

    def columns(c: _Call, linear: Linearized) -> list[list[Any]]:
        outs = [aval_of_argument(x) for x in linear.outputs[: c.out["main"]]]
        total = _total(outs)
        rest = len(linear.outputs) - len(outs)
        if not outs:
            return []

        def pull(*cotangents: Any) -> list[Any]:
            parts = linear.pullback([*cotangents, *[None] * rest])
            return [p if p is not None else _zeros(x) for p, x in zip(parts, c.primals, strict=True)]

        pairs = batch_pairs(pull, _basis(outs, total), [0] * len(outs), total)
        columns_of = [
            _blocks(spread(value, axis, total, 0), outs, 0, lambda o, x=x: (*o.shape, *aval_of_argument(x).shape))
            for (value, axis), x in zip(pairs, c.primals, strict=True)
        ]
        return [list(row) for row in zip(*columns_of, strict=True)] if columns_of else [[] for _ in outs]

    return _jacobian("jacrev", function, argnums, has_aux, allow_int, columns)


def hessian(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The matrix of second derivatives: `jacfwd(jacrev(function))`.  For an argument of shape [*i] an array [*i, *i].

    Source: JAX's hessian.

    >>> import numpy as np, tracejit as tj
    >>> tj.hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 5.0]))
    array([[10.,  4.],
           [ 4.,  0.]])
    """
    _checked("hessian", function, argnums, has_aux=has_aux)
    return jacfwd(jacrev(function, argnums, has_aux), argnums, has_aux)
