"""Matrices of derivatives of plain NumPy functions: jacfwd, jacrev, hessian."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracejit.api.differentiable import (
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
from tracejit.api.transform import (
    Call,
    compiled_like,
    name_of,
)
from tracejit.ir.extents import Shape
from tracejit.ir.types import ShapedArray
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import convert
from tracejit.primitives.shape import reshape, slice_array
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.tree import unflatten
from tracejit.tracer.batch import batch_pairs, spread
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.jvp import jvp as flat_jvp
from tracejit.tracer.operators import ARITHMETIC

__all__ = ["hessian", "jacfwd", "jacrev"]


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
    holomorphic: bool,
    columns: Callable[[Prepared], tuple[Sequence[Any], list[list[Any]]]],
) -> Callable[..., Any]:
    """`columns` gives the result's leaves, and for each a list with one derivative for each differentiable leaf."""
    wanted = checked_options(name, function, argnums, has_aux=has_aux, allow_int=allow_int, holomorphic=holomorphic)

    @functools.wraps(function)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        c = prepare(name, Call.of(function, args, kwargs, checked_argnums(name, wanted, args)), has_aux, allow_int)
        outputs, derivatives = columns(c)
        for x in outputs[: c.out["main"]]:
            if aval_of_argument(x).dtype.kind not in "fc":
                raise DtypeError(
                    f"{name}: {name_of(function)} returned {aval_of_argument(x)}, which has no derivative",
                    location=user_location(),
                )
        check_kinds(name, holomorphic, c.primals, outputs[: c.out["main"]], forward=name == "jacfwd")
        own = c.call.owner()
        rows: list[Any] = []
        for output, row in zip(outputs, derivatives, strict=False):
            made = dict(zip(c.smooth, row, strict=True))
            shape = aval_of_argument(output).shape
            leaves = [
                own(made[n]) if n in made else np.zeros((*shape, *concrete_shape(x)), float0)
                for n, x in enumerate(c.call.leaves)
            ]
            parts = c.call.split(leaves)
            rows.append(parts if isinstance(argnums, Iterable) else parts[0])
        result = unflatten(c.out["tree"], rows)
        return (result, c.aux(outputs, own)) if has_aux else result

    jacobian.__name__ = jacobian.__qualname__ = f"{name}_{name_of(function)}"
    return jacobian if allow_int else compiled_like(function, jacobian)


def jacfwd(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by forward mode, one pass for each input element: best where there are fewer inputs than outputs.

    For a result of shape [*o] and an argument of shape [*i] an array [*o, *i], in the result's structure and in it the
    arguments'.  holomorphic: of complex numbers.

    Source: JAX's jacfwd.

    >>> import numpy as np, tracejit as tj
    >>> tj.jacfwd(lambda x: x[:2] * x[2])(np.array([1.0, 2.0, 3.0]))
    array([[3., 0., 1.],
           [0., 3., 2.]])
    """

    def columns(c: Prepared) -> tuple[Sequence[Any], list[list[Any]]]:
        avals = [aval_of_argument(x) for x in c.primals]
        total = _total(avals)
        if not avals:
            outputs = c.flat(*c.primals)
            return outputs, [[] for _ in outputs[: c.out["main"]]]

        def push(*tangents: Any) -> list[Any]:
            # the function at its primals does not vary from one tangent to the next: it is computed once
            outputs, slopes = flat_jvp(c.flat, c.primals, tangents, name="jacfwd", describe=c.describe)
            main = c.out["main"]
            made = [zeros_like(x) if t is None else t for t, x in zip(slopes[:main], outputs, strict=False)]
            return [*outputs, *made]

        pairs = batch_pairs(push, _basis(avals, total), [0] * len(avals), total)
        main = c.out["main"]
        given, made = pairs[: len(pairs) - main], pairs[len(pairs) - main :]
        outputs = [value for value, _ in given]
        if any(axis is not None for _, axis in given):  # loops, which run their function beside each tangent
            outputs = c.flat(*c.primals)
        outs = [aval_of_argument(x) for x in outputs[:main]]
        return outputs, [
            _blocks(spread(value, axis, total, -1), avals, len(o.shape), lambda a, o=o: (*o.shape, *a.shape))
            for (value, axis), o in zip(made, outs, strict=True)
        ]

    return _jacobian("jacfwd", function, argnums, has_aux, allow_int, holomorphic, columns)


def jacrev(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode, one pass for each output element: best where there are fewer outputs than inputs.

    For a result of shape [*o] and an argument of shape [*i] an array [*o, *i], in the result's structure and in it the
    arguments'.  holomorphic: of complex numbers.

    Source: JAX's jacrev.

    >>> import numpy as np, tracejit as tj
    >>> tj.jacrev(lambda x: x[:2] * x[2])(np.array([1.0, 2.0, 3.0]))
    array([[3., 0., 1.],
           [0., 3., 2.]])
    """

    def columns(c: Prepared) -> tuple[Sequence[Any], list[list[Any]]]:
        linear = linearized(c)
        outs = [aval_of_argument(x) for x in linear.outputs[: c.out["main"]]]
        total = _total(outs)
        rest = len(linear.outputs) - len(outs)
        if not outs:
            return linear.outputs, []

        def pull(*cotangents: Any) -> list[Any]:
            parts = linear.pullback([*cotangents, *[None] * rest])
            return [p if p is not None else zeros_like(x) for p, x in zip(parts, c.primals, strict=True)]

        pairs = batch_pairs(pull, _basis(outs, total), [0] * len(outs), total)
        columns_of = [
            _blocks(spread(value, axis, total, 0), outs, 0, lambda o, x=x: (*o.shape, *aval_of_argument(x).shape))
            for (value, axis), x in zip(pairs, c.primals, strict=True)
        ]
        rows = [list(row) for row in zip(*columns_of, strict=True)] if columns_of else [[] for _ in outs]
        return linear.outputs, rows

    return _jacobian("jacrev", function, argnums, has_aux, allow_int, holomorphic, columns)


def hessian(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The matrix of second derivatives: `jacfwd(jacrev(function))`.  For an argument of shape [*i] an array [*i, *i].

    Source: JAX's hessian.

    >>> import numpy as np, tracejit as tj
    >>> tj.hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 5.0]))
    array([[10.,  4.],
           [ 4.,  0.]])
    """
    checked_options("hessian", function, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(
        jacrev(function, argnums, has_aux, holomorphic=holomorphic), argnums, has_aux, holomorphic=holomorphic
    )
