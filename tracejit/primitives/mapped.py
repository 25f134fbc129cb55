"""Loops and branches under vmap: one for each element of the axes that it maps over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracejit.ir.extents import Extent, Shape
from tracejit.ir.jaxpr import Jaxpr, primitives_of
from tracejit.ir.primitive import Primitive
from tracejit.primitives.control_flow import is_differentiable
from tracejit.primitives.custom import stop_gradient
from tracejit.primitives.elementwise import select
from tracejit.primitives.reduction import ArgMax
from tracejit.primitives.shape import broadcast_in_dim, reshape
from tracejit.primitives.slicing import dynamic_slice
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import batch as batch_function, move_to_front, spread
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["as_those_on", "constant_where_off", "may_not_end", "over_domain", "remapped"]


def remapped(
    args: Sequence[ArrayLike],
    dims: Sequence[int | None],
    mapped: Sequence[bool],
    domain: Shape,
    size: Extent,
) -> tuple[list[Result], tuple[bool, ...]]:
    """Operands of what runs for each element of a domain, for one with another axis in front; and which are mapped.

    mapped: which operands have the axes of the domain.  dims: the new axis, of those that vary along it.
    """
    rank = len(domain)
    out: list[Result] = []
    for a, d, was in zip(args, dims, mapped, strict=True):
        x = move_to_front(a, d)
        if d is not None and not was and rank:
            shape = shape_of(x)
            x = broadcast_in_dim(x, (size, *domain, *shape[1:]), (0, *range(1 + rank, len(shape) + rank)))
        elif was and d is None:
            x = spread(x, None, size)
        out.append(x)
    return out, tuple([was or d is not None for was, d in zip(mapped, dims, strict=True)])


def over_domain(primitive: Primitive, domain: Shape, mapped: Sequence[bool], args: Sequence[ArrayLike]) -> list[Result]:
    """The results of a primitive with several for each element of a domain, whose axes they have in front.

    mapped: which operands have them.
    """
    if not domain:
        return list(bind(primitive, *args))
    size, *inner = domain
    dims = [0 if m else None for m in mapped]
    return batch_function(lambda *a: over_domain(primitive, tuple(inner), mapped, a), args, dims, size)


def may_not_end(body: Jaxpr) -> bool:
    """Whether there is a loop in it that ends when its condition says: never, perhaps, where the body is not to run."""
    return any(p.name == "while" for e in body.equations for p in primitives_of(e.primitive))


def constant_where_off(on: ArrayLike, x: ArrayLike, axis: int | None) -> Result:
    """x, whose derivative is 0 in elements that are not on, be it made of something infinite there.

    on: bool[size]; axis: 0, or None if x has no mapped axis.
    """
    if axis is None or not is_differentiable(aval_of_argument(x)):
        return x
    return select(broadcast_in_dim(on, shape_of(x), (0,)), x, stop_gradient(x))


def as_those_on(on: ArrayLike, args: Sequence[ArrayLike], dims: Sequence[int | None]) -> list[Result]:
    """Operands by which elements that are not on do what the first that is on does: nothing fails or goes on for ever
    that would not, nothing is infinite.   on: bool[size], one of which holds; dims: 0, or None of what is not mapped
    """
    first = bind(ArgMax(0), on)
    out: list[Result] = []
    for x, d in zip(args, dims, strict=True):
        if d is not None:
            shape = shape_of(x)
            row = dynamic_slice(x, [first, *[np.int64(0)] * (len(shape) - 1)], (1, *shape[1:]))
            row = broadcast_in_dim(reshape(row, shape[1:]), shape, tuple(range(1, len(shape))))
            x = select(broadcast_in_dim(on, shape, (0,)), x, stop_gradient(row))
        out.append(x)
    return out
