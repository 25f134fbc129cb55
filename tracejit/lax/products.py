"""Products of vectors, matrices and stacks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import same_extent
from tracejit.lax.operands import array, aval, operands, reject
from tracejit.primitives import contraction, shape as p
from tracejit.primitives.comparison import Le, Lt
from tracejit.primitives.creation import iota
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.elementwise import convert, mul, select
from tracejit.primitives.indexing import gather
from tracejit.primitives.reduction import reduce_sum
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError
from tracejit.support.precision import PrecisionLike, check_one_device, check_precision
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.interpreter import bind

__all__ = ["batch_matmul", "dot", "dot_general", "ragged_dot", "scaled_dot"]


def _product_dtype(x: np.dtype[Any], y: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a product of two: floating before integer, then the wider one, then that with a sign.

    Source: jax.lax.dot_general.
    """
    return max((x, y), key=lambda dtype: ("biufc".index(dtype.kind) > 2, dtype.itemsize, dtype.kind == "i"))


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    *,
    out_sharding: Any = None,
) -> Result:
    """Sums of products over pairs of axes.

    dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)) -> [*batch, *free of lhs, *free
    of rhs].
    preferred_element_type: the dtype of the result; sums are taken in it, or in the operands' if that is wider.
    precision: changes nothing, see `tracejit.support.precision`.

    Raises: DtypeError for a narrower integer preferred; UnsupportedError for out_sharding.

    >>> import numpy as np, tracejit as tj
    >>> x = np.array([100, 100], np.int8)
    >>> tj.lax.dot_general(x, x, (((0,), (0,)), ((), ())), preferred_element_type=np.int32)
    array(20000, dtype=int32)
    """
    check_precision("dot_general", precision)
    check_one_device("dot_general", out_sharding=out_sharding)
    x, y = (array(z) for z in (lhs, rhs))
    if aval(x).dtype != aval(y).dtype and not (aval(x).weak or aval(y).weak):
        dtype = _product_dtype(aval(x).dtype, aval(y).dtype)
        x, y = convert(x, dtype), convert(y, dtype)
    x, y = operands("dot_general", x, y)
    contract, batch = dimension_numbers
    have = aval(x).dtype
    if preferred_element_type is None:
        return contraction.dot_general(x, y, contract, batch)
    wanted = canonical(preferred_element_type)
    if wanted.kind in "iu" and have.kind in "iu" and wanted.itemsize < have.itemsize:
        raise DtypeError(
            f"[dot_general] preferred_element_type={wanted} is narrower than the operands' {have}; convert the result",
            location=user_location(),
        )
    wide = np.promote_types(have, wanted) if have.kind in "bf" and wanted.kind == "f" else wanted
    return convert(contraction.dot_general(convert(x, wide), convert(y, wide), contract, batch), wanted)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    *,
    dimension_numbers: Any = None,
    out_sharding: Any = None,
) -> Result:
    """The product of vectors or matrices; with dimension_numbers that of any arrays, as `dot_general`.

    Raises: ShapeError for other ranks.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    array(11.)
    """
    x, y = array(lhs), array(rhs)
    if dimension_numbers is None:
        if not (1 <= aval(x).ndim <= 2 and 1 <= aval(y).ndim <= 2):
            raise reject("[dot] takes vectors and matrices; use dot_general for other ranks")
        dimension_numbers = (((aval(x).ndim - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Result:
    """Products of matrices in the last two axes, for each index of the others, which both have alike.

    Raises: ShapeError for ranks that differ or are below 2.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.batch_matmul(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    x, y = array(lhs), array(rhs)
    rank = aval(x).ndim
    if min(rank, aval(y).ndim) < 2:
        raise reject(f"[batch_matmul] takes matrices, not arrays of rank {rank} and {aval(y).ndim}")
    if rank != aval(y).ndim:
        raise reject(f"[batch_matmul] arrays of one rank, not of {rank} and {aval(y).ndim}")
    lead = tuple(range(rank - 2))
    return dot_general(x, y, (((rank - 1,), (rank - 2,)), (lead, lead)), precision)


def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: ArrayLike | None = None,
    rhs_scale: ArrayLike | None = None,
    dimension_numbers: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Result:
    """`dot_general` of operands times their scales, of which one stands for several numbers along contracted axes.

    lhs_scale, rhs_scale: of the ranks of the operands, None for 1; contracted extents divide those of the operands.
    dimension_numbers: as in `dot_general`; by default matrix products, of rank 2 or in a stack of rank 3.
    preferred_element_type: of the result, by default that in which operands and scales meet.

    Raises: ShapeError for other ranks and extents.
    Source: JAX's lax.scaled_dot, for floats of 8 bits, which there are not here.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.scaled_dot(np.ones((1, 4)), np.ones((4, 1)), lhs_scale=np.array([[10.0, 1.0]]))
    array([[22.]])
    """
    x, y = array(lhs), array(rhs)
    if dimension_numbers is None:
        rank = aval(x).ndim
        if rank not in (2, 3) or aval(y).ndim != rank:
            raise reject(f"[scaled_dot] {aval(x)} and {aval(y)} are no matrices; give dimension_numbers")
        batch = tuple(range(rank - 2))
        dimension_numbers = (((rank - 1,), (rank - 2,)), (batch, batch))
    (of_x, of_y), _ = dimension_numbers
    x, y = _scaled("lhs_scale", x, lhs_scale, of_x), _scaled("rhs_scale", y, rhs_scale, of_y)
    return dot_general(x, y, dimension_numbers, preferred_element_type=preferred_element_type)


def _scaled(name: str, x: ArrayLike, scale: ArrayLike | None, contracted: Sequence[int]) -> Result:
    if scale is None:
        return x
    by = array(scale)
    have, given = aval(x).shape, aval(by).shape
    axes = {k % len(have) for k in contracted}
    if len(given) != len(have) or any(
        int(n) % max(int(s), 1) if k in axes else not same_extent(n, s)
        for k, (n, s) in enumerate(zip(have, given, strict=True))
    ):
        raise reject(f"[scaled_dot] {name} {aval(by)} does not fit {aval(x)}, contracted along {tuple(contracted)}")
    wide: list[Any] = []
    kept: list[int] = []
    for k, (n, s) in enumerate(zip(have, given, strict=True)):
        kept.append(len(wide))
        wide += [s, int(n) // max(int(s), 1)] if k in axes else [n]
    dtype = _product_dtype(aval(x).dtype, aval(by).dtype)
    spread = p.reshape(p.broadcast_in_dim(convert(by, dtype), tuple(wide), tuple(kept)), have)
    return mul(convert(x, dtype), spread)


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    group_offset: ArrayLike = None,
    out_sharding: Any = None,
) -> Result:
    """Rows of lhs, in groups one after the other, times a matrix of rhs each.   lhs: [m, k], rhs: [g, k, n] -> [m, n]

    group_sizes: integers [g], how many rows belong to each group; rows that belong to none give zeros.

    Raises: ShapeError for other ranks and extents, UnsupportedError for group_offset and out_sharding.

    >>> import numpy as np, tracejit as tj
    >>> rows, factors = np.ones((3, 1)), np.array([[[10.0]], [[20.0]]])
    >>> tj.lax.ragged_dot(rows, factors, np.array([1, 2])).ravel()
    array([10., 20., 20.])
    """
    check_one_device("ragged_dot", group_offset=group_offset, out_sharding=out_sharding)
    x, y, sizes = array(lhs), array(rhs), array(group_sizes)
    if (aval(x).ndim, aval(y).ndim, aval(sizes).ndim) != (2, 3, 1):
        raise reject(
            f"[ragged_dot] takes a matrix, a stack of matrices and a vector, not {aval(x)}, {aval(y)} and {aval(sizes)}"
        )
    if aval(sizes).dtype.kind not in "iu":
        raise DtypeError(f"[ragged_dot] group_sizes are integers, not {aval(sizes)}", location=user_location())
    m, groups = aval(x).shape[0], aval(y).shape[0]
    ends = p.broadcast_in_dim(cumulative("cumsum", convert(sizes, np.int64), 0), (m, groups), (1,))
    past = convert(bind(Le(), ends, iota((m, groups), 0, np.int64)), np.int64)  # the groups that end before a row
    group = reduce_sum(past, (1,))
    made = dot_general(x, gather(y, (0,), [group]), (((1,), (1,)), ((0,), (0,))), precision, preferred_element_type)
    shape = aval(made).shape
    member = bind(Lt(), group, reduce_sum(p.broadcast_in_dim(np.int64(1), (groups,), ()), (0,)))
    return select(p.broadcast_in_dim(member, shape, (0,)), made, aval(made).dtype.type(0))
