"""What a function would do: its jaxpr, the shapes of its results, the transpose of a linear one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracejit.api.array import Array
from tracejit.api.autodiff import fitting
from tracejit.api.option_checks import expect, flag, positions
from tracejit.api.tracing import staged_at_last
from tracejit.api.transform import Owner, checked_function, is_array, name_of, result_leaves
from tracejit.ir.extents import prod
from tracejit.ir.jaxpr import Jaxpr, Var
from tracejit.ir.types import ShapedArray
from tracejit.primitives.creation import zeros_of
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError, MissingRuleError, TracerError, UnsupportedError
from tracejit.support.nodes import field, frozen
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, flatten, flatten_like, map_tree, unflatten
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.current import current_trace
from tracejit.tracer.redirect import prepared, tracing
from tracejit.tracer.stage import Staged, stage
from tracejit.tracer.transpose import backward_pass

__all__ = ["ShapeDtypeStruct", "block_until_ready", "eval_shape", "linear_transpose", "make_jaxpr", "named_scope"]


@frozen
class ShapeDtypeStruct:
    """The shape and dtype of an array that there is not.   Source: JAX's ShapeDtypeStruct.

    >>> import numpy as np, tracejit as tj
    >>> tj.eval_shape(np.sin, tj.ShapeDtypeStruct((2, 3), np.float32))
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    shape: tuple[Any, ...] = field(converter=tuple)
    dtype: np.dtype[Any] = field(converter=np.dtype)

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """How many elements."""
        return prod(self.shape)

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name})"


@frozen(eq=False)
class _Seen:
    """A function traced on leaves that need no values; the others are as they are."""

    staged: Staged
    out: TreeDef

    @property
    def shapes(self) -> Any:
        """Its result, of shapes and dtypes."""
        avals = self.staged.jaxpr.out_avals[: self.out.leaves]
        return unflatten(self.out, [ShapeDtypeStruct(a.shape, a.dtype) for a in avals])


def _aval(x: Any) -> ShapedArray | None:
    if isinstance(x, ShapeDtypeStruct):
        return ShapedArray(x.shape, canonical(x.dtype))
    return aval_of_argument(x) if is_array(x) else None


def _seen(what: str, function: Callable[..., Any], args: Any, kwargs: Any, static: Sequence[int] = ()) -> _Seen:
    fixed = {n % len(args) for n in static if -len(args) <= n < len(args)}
    leaves, tree = flatten(([None if n in fixed else x for n, x in enumerate(args)], kwargs))
    avals = [_aval(x) for x in leaves]
    out: list[TreeDef] = []

    def flat(*tracers: Any) -> list[Any]:
        given = iter(tracers)
        filled = [x if a is None else next(given) for x, a in zip(leaves, avals, strict=True)]
        positional, named = unflatten(tree, filled)
        positional = [args[n] if n in fixed else x for n, x in enumerate(positional)]
        found, treedef = result_leaves(what, function, prepared(function)(*positional, **named))
        out[:] = [treedef]
        return found

    given = [a for a in avals if a is not None]
    if current_trace() is not None:
        return _Seen(stage(flat, given), out[0])
    with tracing() as trace:
        return _Seen(staged_at_last(lambda **known: stage(flat, given, program=True, **known), trace), out[0])


def eval_shape(fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """The result of a function in shapes and dtypes; nothing is computed.

    args, kwargs: arrays, numbers, or `ShapeDtypeStruct`s in their place.

    Raises: what tracing the function raises.
    Source: JAX's eval_shape.

    >>> import numpy as np, tracejit as tj
    >>> tj.eval_shape(lambda x: {"s": x.sum(), "y": x @ x.T}, tj.ShapeDtypeStruct((2, 3), np.float64))["y"]
    ShapeDtypeStruct(shape=(2, 2), dtype=float64)
    """
    checked_function("eval_shape", fun)
    return _seen("eval_shape", fun, args, kwargs).shapes


def make_jaxpr(
    fun: Callable[..., Any], static_argnums: int | Sequence[int] = (), return_shape: bool = False
) -> Callable[..., Any]:
    """A function of the same arguments that gives the jaxpr of `fun`, as it is traced: before any pass.

    Arrays from outside come as inputs after the arguments.  return_shape: the result is a pair (jaxpr, what
    `eval_shape` gives).

    Source: JAX's make_jaxpr, whose jaxprs have other primitives.

    >>> import numpy as np, tracejit as tj
    >>> print(tj.make_jaxpr(lambda x: np.sin(x) * 2.0)(np.ones(3)))
    jaxpr(a: f64[3]) {
      b: f64[3] = sin a
      c: f64[3] = mul b 2.0:f64[]
      return c
    }
    """
    checked_function("make_jaxpr", fun)
    static = positions("tj.make_jaxpr", "static_argnums", static_argnums)
    flag("tj.make_jaxpr", "return_shape", return_shape)

    @functools.wraps(fun)
    def made(*args: Any, **kwargs: Any) -> Any:
        seen = _seen("make_jaxpr", fun, args, kwargs, static)
        return (seen.staged.jaxpr, seen.shapes) if return_shape else seen.staged.jaxpr

    made.__name__ = made.__qualname__ = f"make_jaxpr_{name_of(fun)}"
    return made


# -- linear functions --------------------------------------------------------------------------------------------------
def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """The transpose of a linear function: from a cotangent of its result to a tuple of those of its arguments.

    primals: arrays, or `ShapeDtypeStruct`s: only shapes and dtypes count.

    Raises: UnsupportedError where the function is not linear, DtypeError for arguments that are no floats.
    Source: JAX's linear_transpose.

    >>> import numpy as np, tracejit as tj
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> tj.linear_transpose(lambda x: a @ x, np.zeros(2))(np.array([1.0, 0.0]))
    (array([1., 2.]),)
    """
    checked_function("linear_transpose", fun)
    leaves, tree = flatten(primals)
    for x in leaves:
        aval = _aval(x)
        if aval is None or aval.dtype.kind not in "fc":
            what = type(x).__name__ if aval is None else str(aval)
            raise DtypeError(f"linear_transpose: an argument is {what}, not of floats", location=user_location())
    seen = _seen("linear_transpose", fun, primals, {})
    jaxpr = seen.staged.jaxpr
    _check_linear(jaxpr, len(leaves), name_of(fun))

    def transposed(cotangent: Any) -> tuple[Any, ...]:
        given = flatten_like(cotangent, seen.out)
        if given is None:
            raise TracerError(
                "linear_transpose: the cotangent differs in structure from the result", location=user_location()
            )
        cts = [fitting(ct, a, "linear_transpose: the cotangent") for ct, a in zip(given, jaxpr.out_avals, strict=False)]
        try:
            parts = backward_pass(jaxpr, seen.staged.constants, cts, len(leaves))
        except MissingRuleError as error:
            raise _not_linear(name_of(fun), error.primitive) from None
        own = Owner(given)
        filled = [
            own(zeros_of(v.aval.strong()) if part is None else part)
            for part, v in zip(parts, jaxpr.inputs, strict=False)
        ]
        return unflatten(tree, filled)

    return transposed


def _check_linear(jaxpr: Jaxpr, count: int, name: str) -> None:
    """Raises: UnsupportedError for a product of two values that depend on the arguments, or a quotient by one."""
    varying: set[Var] = set(jaxpr.inputs[:count])
    for e in jaxpr.equations:
        on = [isinstance(a, Var) and a in varying for a in e.inputs]
        if any(on):
            varying.update(e.outputs)
            if (e.primitive.name in ("mul", "dot_general") and all(on)) or (e.primitive.name == "div" and on[1]):
                raise _not_linear(name, e.primitive.name)


def _not_linear(name: str, primitive: str) -> UnsupportedError:
    return UnsupportedError(
        f"linear_transpose: {name} is not linear in its arguments{f' ({primitive})' if primitive else ''}; use tj.vjp",
        location=user_location(),
    )


# -- what JAX needs and programs for it say ----------------------------------------------------------------------------
def block_until_ready(x: Any) -> Any:
    """The pytree, once all of its arrays are computed: those on the host are.

    >>> import numpy as np, tracejit as tj
    >>> tj.block_until_ready({"x": np.ones(2)})
    {'x': array([1., 1.])}
    """
    return map_tree(lambda leaf: leaf.block_until_ready() if type(leaf) is Array else leaf, x)


@contextmanager
def named_scope(name: Any) -> Generator[None]:
    """A block with a name, for readers: programs and their texts do not have it.

    >>> import numpy as np, tracejit as tj
    >>> with tj.named_scope("layer"):
    ...     y = np.ones(2) * 2
    >>> y
    array([2., 2.])
    """
    expect(isinstance(name, str), "tj.named_scope", "name", name, "text")
    yield
