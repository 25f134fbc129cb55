"""Functions with derivatives of the user's: custom_jvp, custom_vjp; with derivatives that compute anew: checkpoint."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api.apart import apart
from tracejit.api.bodies import check_none_mixed
from tracejit.api.differentiable import concrete_shape, float0
from tracejit.api.option_checks import expect, flag, positions
from tracejit.api.transform import (
    array_leaf,
    checked_function,
    compiled_like,
    is_array,
    name_of,
    of_some_leaves,
    result_leaves,
)
from tracejit.ir.types import ShapedArray
from tracejit.primitives.control_flow import is_differentiable
from tracejit.primitives.creation import filled_tangents, zeros_of
from tracejit.primitives.custom import Checkpoint, CustomJVP, CustomVJP, ForwardRule, ReverseRule, stop_gradient
from tracejit.primitives.elementwise import convert
from tracejit.support.dtypes import short_name, weak_kind
from tracejit.support.errors import DtypeError, ShapeError, TracerError, UnsupportedError, UserError
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, flatten, flatten_like, unflatten
from tracejit.tracer.cell import Cell, aval_of_argument
from tracejit.tracer.interpreter import bind, current_interpreter, eager
from tracejit.tracer.mixed import check_dtypes, marked
from tracejit.tracer.redirect import prepared
from tracejit.tracer.tracer import Tracer

__all__ = ["checkpoint", "custom_jvp", "custom_vjp", "remat"]


class _Custom:
    """What both decorators share: a call as leaves."""

    decorator = ""
    definition = ""

    def __init__(self, function: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()) -> None:
        checked_function(self.decorator, function)
        functools.update_wrapper(self, function)
        self.fun = function
        self.nondiff_argnums = positions(f"tj.{self.decorator}", "nondiff_argnums", nondiff_argnums)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<tj.{self.decorator} of {name_of(self.fun)}>"

    def _is_defined(self) -> bool:
        raise NotImplementedError

    def _primitive(self, call: _Call, results: int) -> Any:
        raise NotImplementedError

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if not self._is_defined():
            raise UserError(
                f"{name_of(self.fun)} has no derivative yet: call its {self.definition} before it",
                location=user_location(),
            )
        if current_interpreter() is eager and not any(isinstance(x, Tracer) for x in flatten((args, kwargs))[0]):
            return self.fun(*args, **kwargs)
        given: list[Any] = []
        call = _Call(self, _positional(self.fun, args, kwargs), given)
        stopped = [_as_before(stop_gradient(x), x) for x in given]
        result = prepared(self.fun)(*call.with_leaves(stopped))
        if any(isinstance(x, Tracer) and x.version for x in stopped):
            raise TracerError(
                f"{name_of(self.fun)} changes an argument in place, which has no derivative of the user's; copy it "
                "first (x = x.copy()) and return the new value",
                location=user_location(),
            )
        leaves, call.out = result_leaves(self.decorator, self.fun, result)
        if not leaves:
            return result
        made = bind(self._primitive(call, len(leaves)), *leaves, *given)
        return unflatten(call.out, [_as_before(new, old) for new, old in zip(made, leaves, strict=True)])


def _as_before(new: Any, old: Any) -> Any:
    """A value that has only gone through a primitive: a Python number where it was one, or may be one."""
    if isinstance(new, Cell):
        if weak_kind(old) is not None or (isinstance(old, Cell) and old.aval.weak):
            new.weaken()
        if isinstance(old, Cell) and old.mixed is not None:
            return marked(new, old.mixed)
    return new


def _positional(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments by position, those with defaults too."""
    if not kwargs and not hasattr(function, "__code__"):
        return args
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:  # a builtin without a signature
        return args
    bound.apply_defaults()
    if bound.kwargs:
        raise UserError(
            f"{name_of(function)} takes keyword-only arguments ({', '.join(bound.kwargs)}); a function with a "
            "derivative of its own has positional ones",
            location=user_location(),
        )
    return bound.args


class _Call:
    """What rules know of the arguments of one call: of those that are differentiated, whose leaves are added to
    `given`, the structure; the others are as they are.
    """

    def __init__(self, custom: _Custom, args: tuple[Any, ...], given: list[Any]) -> None:
        decorator = f"tj.{custom.decorator}"
        numbers = custom.nondiff_argnums
        if any(not -len(args) <= n < len(args) for n in numbers):
            raise UserError(
                f"{decorator}: nondiff_argnums {numbers} with {len(args)} positional arguments",
                location=user_location(),
            )
        others = {n % len(args) for n in numbers}
        self.custom = custom
        self.places = [n for n in range(len(args)) if n not in others]
        self.args = [args[n] if n in others else None for n in range(len(args))]  # the rules outlive the others
        self.others = tuple([args[n] for n in sorted(others)])
        self.avals: list[ShapedArray] = []
        self.trees: list[TreeDef] = []
        self.out: Any = None
        for n in self.places:
            leaves, tree = flatten(args[n])
            for x in leaves:
                if not is_array(x):
                    raise TracerError(
                        f"{decorator}: argument {n + 1} of {name_of(custom.fun)} holds a {type(x).__name__}, not an "
                        "array or a number; list it in nondiff_argnums",
                        location=user_location(),
                    )
                array_leaf(x, decorator, str(n + 1))
            given += leaves
            self.trees.append(tree)
        self.avals = [aval_of_argument(x) for x in given]

    @property
    def name(self) -> str:
        return name_of(self.custom.fun)

    def split(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Leaves as one pytree for each argument that is differentiated."""
        given = iter(leaves)
        return tuple([unflatten(tree, [next(given) for _ in range(tree.leaves)]) for tree in self.trees])

    def with_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments with other leaves."""
        args = list(self.args)
        for n, part in zip(self.places, self.split(leaves), strict=True):
            args[n] = part
        return args


def _run(function: Callable[..., Sequence[Any]], args: Sequence[Any], what: str) -> list[Any]:
    """A rule of the user's, traced apart: what it writes into arrays of its own is no matter of the derivative's."""
    staged = apart(function, [aval_of_argument(x) for x in args], what)
    return staged.run_as_rule([*args, *staged.constants])


def _fitted(x: Any, aval: ShapedArray, what: str) -> Any:
    """A tangent or cotangent, of the shape and dtype of what it belongs to; None for zero."""
    if x is None or getattr(x, "dtype", None) == float0:
        return None
    if not is_array(x):
        raise TracerError(f"{what} is a {type(x).__name__}, not an array", location=user_location())
    have = aval_of_argument(x)
    if have.shape != aval.shape:
        raise ShapeError(f"{what} has shape {have.shape}; the value has {aval.shape}", location=user_location())
    if have.dtype != aval.dtype:
        if not have.weak:
            raise DtypeError(
                f"{what} is {short_name(have.dtype)}; the value is {short_name(aval.dtype)}", location=user_location()
            )
        x = convert(x, aval.dtype)
    return x


# -- forward -----------------------------------------------------------------------------------------------------------
class custom_jvp(_Custom):
    """A function whose derivative is what `defjvp` or `defjvps` says, in forward and reverse mode.

    nondiff_argnums: positions of arguments that are not differentiated: anything, handed to the rule as it is, before
    all others.

    Raises: UserError where it is called without a rule; ShapeError, DtypeError, TracerError where tangents do not fit
    the results; UnsupportedError where the function reads a value from outside with respect to which it is
    differentiated.
    Source: JAX's custom_jvp.

    >>> import numpy as np, tracejit as tj
    >>> @tj.custom_jvp
    ... def softplus(x):
    ...     return np.log1p(np.exp(x))
    >>> @softplus.defjvp
    ... def softplus_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return softplus(x), t / (1 + np.exp(-x))
    >>> float(tj.grad(softplus)(1000.0))
    1.0
    """

    decorator = "custom_jvp"
    definition = "defjvp"

    def __init__(self, function: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(function, nondiff_argnums)
        self._jvp: Callable[..., Any] | None = None

    def _is_defined(self) -> bool:
        return self._jvp is not None

    def _primitive(self, call: _Call, results: int) -> CustomJVP:
        assert self._jvp is not None
        return CustomJVP(_Forward(call, self._jvp), results)

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """The rule: `jvp(*nondiff, primals, tangents) -> (result, tangent of the result)`.

        Tangents of what does not vary are zeros, those of integers of dtype float0.   Raises: UnsupportedError for
        symbolic_zeros=True.

        >>> import numpy as np, tracejit as tj
        >>> f = tj.custom_jvp(lambda x: x**2)
        >>> _ = f.defjvp(lambda primals, tangents: (primals[0] ** 2, 10.0 * tangents[0]))
        >>> float(tj.grad(f)(3.0))
        10.0
        """
        checked_function("custom_jvp.defjvp", jvp)
        _no_symbolic_zeros("defjvp", symbolic_zeros)
        self._jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """One rule for each argument, `jvp(tangent, result, *primals) -> tangent of the result`, or None for zero.

        >>> import numpy as np, tracejit as tj
        >>> f = tj.custom_jvp(lambda x, y: x * y)
        >>> f.defjvps(lambda t, ans, x, y: t * y, None)
        >>> [float(d) for d in tj.grad(f, (0, 1))(2.0, 5.0)]
        [5.0, 0.0]
        """
        if self.nondiff_argnums:
            raise UserError("custom_jvp.defjvps has no nondiff_argnums; use defjvp", location=user_location())

        def jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            if len(jvps) != len(primals):
                raise UserError(
                    f"custom_jvp.defjvps has {len(jvps)} rules for {len(primals)} arguments", location=user_location()
                )
            result = self(*primals)
            parts = [f(t, result, *primals) for f, t in zip(jvps, tangents, strict=True) if f is not None]
            leaves, tree = flatten(result)
            columns = [flatten_like(part, tree) for part in parts]
            total: list[Any] = []
            for k, x in enumerate(leaves):
                found = [c[k] for c in columns if c is not None]
                total.append(sum(found[1:], found[0]) if found else zeros_of(aval_of_argument(x).strong()))
            return result, unflatten(tree, total)

        self._jvp = jvp


def _no_symbolic_zeros(name: str, given: Any) -> None:
    flag(name, "symbolic_zeros", given)
    if given:
        raise UnsupportedError(
            f"{name}: symbolic_zeros=True is not supported; zeros are arrays", location=user_location()
        )


def _zero_of_integer(x: Any) -> Any:
    return np.zeros(concrete_shape(x), float0)


class _Forward(ForwardRule):
    __slots__ = ("call", "rule")

    def __init__(self, call: _Call, rule: Callable[..., Any]) -> None:
        super().__init__(call.name)
        self.call, self.rule = call, rule

    def tangents(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        call, count = self.call, len(primals)
        smooth = [is_differentiable(aval_of_argument(p)) for p in primals]
        filled = filled_tangents(tangents, primals)
        nonzero: list[bool] = []

        def flat(*args: Any) -> list[Any]:
            given = iter(args[count:])
            dots = [next(given) if f else _zero_of_integer(p) for p, f in zip(primals, smooth, strict=True)]
            pair = prepared(self.rule)(*call.others, call.split(args[:count]), call.split(dots))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TracerError(
                    f"the rule of {call.name} (defjvp) returns a pair (result, tangent), not {type(pair).__name__}",
                    location=user_location(),
                )
            result, slope = (flatten_like(part, call.out) for part in pair)
            if result is None or slope is None:
                raise TracerError(
                    f"the rule of {call.name} (defjvp) returns another structure than the function, {call.out}",
                    location=user_location(),
                )
            made = [
                _fitted(t, a, f"the tangent of {call.name}") if is_differentiable(a) else None
                for t, a in zip(slope, map(aval_of_argument, result), strict=True)
            ]
            nonzero[:] = [t is not None for t in made]
            return [t for t in made if t is not None]

        given = iter(_run(flat, [*primals, *[t for t, f in zip(filled, smooth, strict=True) if f]], "a rule of defjvp"))
        return [next(given) if f else None for f in nonzero]


# -- reverse -----------------------------------------------------------------------------------------------------------
class custom_vjp(_Custom):
    """A function whose derivative in reverse mode is what `defvjp` says; it has none in forward mode.

    nondiff_argnums: positions of arguments that are not differentiated: anything, handed to the rules as it is, to the
    forward one at its place, to the backward one before all others.

    Raises: UserError where it is called without rules; ShapeError, DtypeError, TracerError where cotangents do not fit
    the arguments; UnsupportedError in forward mode, and where the function reads a value from outside with respect to
    which it is differentiated.
    Source: JAX's custom_vjp.

    >>> import numpy as np, tracejit as tj
    >>> @tj.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1.0, 1.0),))
    >>> tj.grad(lambda x: np.sum(clipped(x) ** 2))(np.array([0.25, 3.0]))
    array([0.5, 1. ])
    """

    decorator = "custom_vjp"
    definition = "defvjp"

    def __init__(self, function: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(function, nondiff_argnums)
        self._rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def _is_defined(self) -> bool:
        return self._rules is not None

    def _primitive(self, call: _Call, results: int) -> CustomVJP:
        assert self._rules is not None
        return CustomVJP(_Reverse(call, *self._rules), results)

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """The rules: `fwd(*args) -> (result, residuals)`, `bwd(*nondiff, residuals, cotangent) -> cotangents`.

        residuals: any pytree.  cotangents: a tuple with one entry for each differentiated argument, None for zero.
        Raises: UnsupportedError for symbolic_zeros=True.

        >>> import numpy as np, tracejit as tj
        >>> f = tj.custom_vjp(lambda x, y: x * y)
        >>> f.defvjp(lambda x, y: (x * y, (x, y)), lambda res, g: (g * res[1], None))
        >>> [float(d) for d in tj.grad(f, (0, 1))(2.0, 5.0)]
        [5.0, 0.0]
        """
        checked_function("custom_vjp.defvjp", fwd)
        checked_function("custom_vjp.defvjp", bwd)
        _no_symbolic_zeros("defvjp", symbolic_zeros)
        flag("defvjp", "optimize_remat", optimize_remat)
        self._rules = fwd, bwd


class _Reverse(ReverseRule):
    __slots__ = ("bwd", "call", "fwd", "residuals")

    def __init__(self, call: _Call, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        super().__init__(call.name)
        self.call, self.fwd, self.bwd = call, fwd, bwd
        self.residuals: Any = None

    def forward(self, primals: Sequence[Any]) -> list[Any]:
        call = self.call

        def flat(*args: Any) -> list[Any]:
            pair = prepared(self.fwd)(*call.with_leaves(args))
            results = flatten_like(pair[0], call.out) if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
            if results is None:
                raise TracerError(
                    f"the forward rule of {call.name} (defvjp) returns a pair (result, residuals), the result of "
                    f"structure {call.out}",
                    location=user_location(),
                )
            leaves, tree = flatten(pair[1])
            places = [k for k, x in enumerate(leaves) if is_array(x)]
            self.residuals = tree, places, [None if is_array(x) else x for x in leaves]
            return [*results, *[leaves[k] for k in places]]

        return _run(flat, primals, "a rule of defvjp")

    def backward(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        call, count = self.call, len(residuals)
        tree, places, kept = self.residuals
        on = [c is not None for c in cotangents]
        nonzero: list[bool] = []

        def flat(*args: Any) -> list[Any]:
            leaves = list(kept)
            for k, x in zip(places, args, strict=False):
                leaves[k] = x
            given = iter(args[count:])
            cts = [next(given) if f else np.zeros((), float0) for f in on]
            parts = prepared(self.bwd)(*call.others, unflatten(tree, leaves), unflatten(call.out, cts))
            if not isinstance(parts, (tuple, list)) or len(parts) != len(call.trees):
                raise TracerError(
                    f"the backward rule of {call.name} (defvjp) returns a tuple with one cotangent for each of "
                    f"{len(call.trees)} arguments",
                    location=user_location(),
                )
            made: list[Any] = []
            for n, part, argument in zip(call.places, parts, call.trees, strict=True):
                found = [None] * argument.leaves if part is None else _cotangents(part, argument)
                if found is None:
                    raise TracerError(
                        f"the backward rule of {call.name} (defvjp) returns for argument {n + 1} another structure "
                        f"than {argument}",
                        location=user_location(),
                    )
                made += found
            made = [
                _fitted(c, a, f"the cotangent of an argument of {call.name}") if is_differentiable(a) else None
                for c, a in zip(made, call.avals, strict=True)
            ]
            nonzero[:] = [c is not None for c in made]
            return [c for c in made if c is not None]

        given = iter(_run(flat, [*residuals, *[c for c in cotangents if c is not None]], "a rule of defvjp"))
        return [next(given) if f else None for f in nonzero]


def _cotangents(part: Any, argument: TreeDef) -> list[Any] | None:
    """The leaves of a cotangent, in which None stands for zeros of a whole subtree; None where it does not fit."""
    if part is None:
        return [None] * argument.leaves
    if argument.kind == "leaf":
        return flatten_like(part, argument)
    if argument.kind == "dict" and isinstance(part, dict) and set(part) == set(argument.data):
        children = [part[k] for k in argument.data]
    elif argument.kind in ("tuple", "list") and isinstance(part, (tuple, list)):
        children = list(part)
    else:
        return flatten_like(part, argument)
    if len(children) != len(argument.children):
        return None
    found = [_cotangents(x, t) for x, t in zip(children, argument.children, strict=True)]
    return None if any(f is None for f in found) else [c for f in found for c in f or ()]


# -- memory ------------------------------------------------------------------------------------------------------------
def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Any = None,
    static_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """The function, of which reverse-mode derivatives keep the arguments alone and compute the rest again.

    In a loop this is memory: what an iteration computes is not kept for all of them.  Elsewhere the compiler may find
    that both are the same, and compute once.  policy: None; what is kept cannot be chosen.  static_argnums: arguments
    that are no arrays need not be listed.

    Raises: UnsupportedError for a policy.
    Source: JAX's checkpoint, which is its remat.

    >>> import numpy as np, tracejit as tj
    >>> step = tj.checkpoint(lambda x: np.sin(np.sin(x)))
    >>> float(tj.grad(lambda x: tj.lax.fori_loop(0, 3, lambda i, c: step(c), x))(0.0))
    1.0
    """
    flag("tj.checkpoint", "prevent_cse", prevent_cse)
    static = positions("tj.checkpoint", "static_argnums", static_argnums)
    expect(all(n >= 0 for n in static), "tj.checkpoint", "static_argnums", static_argnums, "positions from 0 on")
    if policy is not None:
        raise UnsupportedError(
            "tj.checkpoint keeps the arguments and nothing else; policy= is not supported", location=user_location()
        )
    if fun is None:
        return functools.partial(checkpoint, prevent_cse=prevent_cse, static_argnums=static_argnums)
    checked_function("checkpoint", fun)

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if current_interpreter() is eager and not any(isinstance(x, Tracer) for x in flatten((args, kwargs))[0]):
            return fun(*args, **kwargs)
        leaves, tree = flatten((args, kwargs))
        places = [
            k for k, x in enumerate(leaves)
            if isinstance(x, Tracer) or (isinstance(x, np.ndarray) and x.dtype.kind in "biufc")
        ]  # fmt: skip
        flat, out = of_some_leaves("checkpoint", fun, prepared(fun), leaves, tree, places)
        given = [leaves[k] for k in places]
        check_dtypes(given)  # a number that may be Python's is NumPy's in there
        weak: list[bool] = []  # which of the results are Python numbers

        def noted(*xs: Any) -> Sequence[Any]:
            made = flat(*xs)
            check_none_mixed(made)
            weak[:] = [weak_kind(x) is not None or (isinstance(x, Cell) and x.aval.weak) for x in made]
            return made

        staged = apart(noted, [aval_of_argument(x) for x in given], "a function under tj.checkpoint")
        xs = [*given, *staged.constants]
        results = staged.run([stop_gradient(x) for x in xs])
        if not results:
            return unflatten(out[0], [])
        made = bind(Checkpoint(staged.pure, len(results)), *results, *xs)
        for x, is_python in zip(made, weak, strict=True):
            if is_python and isinstance(x, Cell):
                x.weaken()
        return unflatten(out[0], made)

    return compiled_like(fun, checkpointed)


remat = checkpoint
