"""Products of vectors, matrices and tensors, all through one primitive, `dot_general`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import axis_index, axis_list, reject, same_extent, static_int
from tracejit.numpy.joining import concatenate, part
from tracejit.numpy.promotion import aval, broadcast_shapes, broadcast_to as spread, to_dtype
from tracejit.numpy.shaping import array_of, as_rank_0_array, moveaxis
from tracejit.numpy.strides import like
from tracejit.numpy.views import Reading, view
from tracejit.primitives import shape as p
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import convert
from tracejit.support.dtypes import canonical, result_type
from tracejit.support.errors import DtypeError
from tracejit.support.nodes import frozen
from tracejit.support.precision import PrecisionLike, check_one_device, check_precision
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, Result
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.layout import AS_IS, LAYOUTS, Strides, in_c_order
from tracejit.tracer.tables import FUNCTIONS, IN_DTYPE_OF_OUT, METHODS, OUT_CASTING, UFUNCS, dtype_of_sum
from tracejit.tracer.tracer import Tracer

__all__ = [
    "cross", "diagonal", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "trace", "vdot", "vecdot",
    "vecmat",
]  # fmt: skip


def alike(*operands: ArrayLike, dtype: DTypeLike = None) -> list[Result]:
    """Operands of one dtype: the promoted one, or `dtype`."""
    xs = [array_of(x) for x in operands]
    target = canonical(dtype) if dtype is not None else result_type(*[(aval(x).dtype, aval(x).weak) for x in xs])[0]
    return [to_dtype(x, target) for x in xs]


def preferring(
    name: str, xs: Sequence[ArrayLike], precision: PrecisionLike, preferred: DTypeLike, out_sharding: Any = None
) -> tuple[list[Result], np.dtype[Any] | None]:
    """Operands of one dtype in the dtype that their products are summed in, and that of the result, None for the same.

    Raises: DtypeError where integers would be summed in a narrower dtype than theirs.
    """
    check_precision(f"np.{name}", precision)
    check_one_device(f"np.{name}", out_sharding=out_sharding)
    if preferred is None:
        return list(xs), None
    have, wanted = aval(xs[0]).dtype, canonical(preferred)
    if wanted.kind in "iu" and have.kind in "iu" and wanted.itemsize < have.itemsize:
        raise DtypeError(
            f"np.{name}: preferred_element_type={wanted} is narrower than the operands' {have}; convert the result",
            location=user_location(),
        )
    wide = np.promote_types(have, wanted) if have.kind in "bf" and wanted.kind == "f" else wanted
    return [to_dtype(x, wide) for x in xs], wanted


def preferred(x: ArrayLike, dtype: np.dtype[Any] | None) -> Result:
    """A result in the dtype that was preferred."""
    return x if dtype is None else convert(x, dtype)


def _paired(name: str, x: ArrayLike, y: ArrayLike, i: int, j: int) -> None:
    """Raises ShapeError unless axis i of x and axis j of y are of one extent."""
    n, m = aval(x).shape[i], aval(y).shape[j]
    if not same_extent(n, m) and n != m:
        raise reject(
            f"np.{name}: axis {i} of shape {aval(x).shape} is {n}, axis {j} of shape {aval(y).shape} is {m}; their "
            "products are summed"
        )


# -- matrices ----------------------------------------------------------------------------------------------------------
def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    dtype: DTypeLike = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
    **kwargs: Any,
) -> Result:
    """The matrix product; a vector is a row on the left and a column on the right; leading axes are broadcast.

    preferred_element_type: the dtype of sums and result.  precision: changes nothing.

    Raises: ShapeError if the inner extents differ or an operand is of rank 0.
    """
    _no_keywords("matmul", kwargs)
    (x, y), wanted = preferring("matmul", alike(x1, x2, dtype=dtype), precision, preferred_element_type, out_sharding)
    if aval(x).ndim == 0 or aval(y).ndim == 0:
        raise reject("np.matmul does not accept arrays of rank 0; use *")
    i, j = aval(x).ndim - 1, max(aval(y).ndim - 2, 0)
    _paired("matmul", x, y, i, j)
    return preferred(_batched_product(x, y, i, j, min(aval(x).ndim, 2), min(aval(y).ndim, 2)), wanted)


def _no_keywords(name: str, kwargs: dict[str, Any]) -> None:
    plain = {"casting": "same_kind", "order": "K", "subok": True, "signature": None, "keepdims": False}
    for key, value in kwargs.items():
        if value is not np._NoValue and plain.get(key, value is None) != value:  # pyright: ignore[reportPrivateUsage]
            raise reject(f"np.{name} does not take {key}= in traced code")


def _batched_product(x: ArrayLike, y: ArrayLike, i: int, j: int, core_x: int, core_y: int) -> Result:
    """Contract axis i of x with axis j of y; the axes before the last `core` ones are broadcast against each other.

    An axis that only one operand has (or that is of extent 1 in the other) is not spread: it stays a free axis of the
    product.
    """
    lead_x, lead_y = aval(x).shape[: aval(x).ndim - core_x], aval(y).shape[: aval(y).ndim - core_y]
    lead = broadcast_shapes(lead_x, lead_y)
    rank = len(lead)
    at_x = {d + rank - len(lead_x): d for d in range(len(lead_x)) if not _is_one(lead_x[d])}
    at_y = {d + rank - len(lead_y): d for d in range(len(lead_y)) if not _is_one(lead_y[d])}
    shared = [d for d in range(rank) if d in at_x and d in at_y]
    kept_x = [d for d in range(aval(x).ndim) if d >= len(lead_x) or d in at_x.values()]
    kept_y = [d for d in range(aval(y).ndim) if d >= len(lead_y) or d in at_y.values()]
    x = p.reshape(x, tuple([aval(x).shape[d] for d in kept_x]))
    y = p.reshape(y, tuple([aval(y).shape[d] for d in kept_y]))
    batch = [kept_x.index(at_x[d]) for d in shared], [kept_y.index(at_y[d]) for d in shared]
    out = dot_general(x, y, ((kept_x.index(i),), (kept_y.index(j),)), batch)
    # The result has: shared leading axes, those of x alone, x's own core axis, those of y alone, y's own core axis.
    own_x = [d for d in range(rank) if d in at_x and d not in at_y]
    own_y = [d for d in range(rank) if d in at_y and d not in at_x]
    order: list[Any] = [*shared, *own_x, *(["m"] if core_x == 2 else []), *own_y, *(["n"] if core_y == 2 else [])]
    want: list[Any] = [d for d in range(rank) if d in order] + [c for c in ("m", "n") if c in order]
    out = p.transpose(out, tuple([order.index(w) for w in want]))
    core = aval(out).shape[len(aval(out).shape) - (core_x - 1) - (core_y - 1) :] if core_x + core_y > 2 else ()
    return p.reshape(out, (*lead, *core))


def _is_one(n: Extent) -> bool:
    return isinstance(n, int) and n == 1


def matvec(x1: ArrayLike, x2: ArrayLike, /, **kwargs: Any) -> Result:
    """Matrices times vectors over broadcast leading axes."""
    _no_keywords("matvec", kwargs)
    x, y = alike(x1, x2)
    if aval(x).ndim < 2 or aval(y).ndim < 1:
        raise reject("np.matvec takes matrices and vectors")
    _paired("matvec", x, y, aval(x).ndim - 1, aval(y).ndim - 1)
    return _batched_product(x, y, aval(x).ndim - 1, aval(y).ndim - 1, 2, 1)


def vecmat(x1: ArrayLike, x2: ArrayLike, /, **kwargs: Any) -> Result:
    """Vectors, conjugated, times matrices over broadcast leading axes."""
    _no_keywords("vecmat", kwargs)
    x, y = alike(x1, x2)
    if aval(x).ndim < 1 or aval(y).ndim < 2:
        raise reject("np.vecmat takes vectors and matrices")
    _paired("vecmat", x, y, aval(x).ndim - 1, aval(y).ndim - 2)
    return _batched_product(conj(x), y, aval(x).ndim - 1, aval(y).ndim - 2, 1, 2)


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: AxisLike = -1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    **kwargs: Any,
) -> Result:
    """Sums of products of vectors, the first conjugated, over broadcast leading axes.

    preferred_element_type: the dtype of sums and result.  precision: changes nothing.
    """
    _no_keywords("vecdot", kwargs)
    (x, y), wanted = preferring("vecdot", alike(x1, x2), precision, preferred_element_type)
    if aval(x).ndim == 0 or aval(y).ndim == 0:
        raise reject("np.vecdot takes vectors")
    axis = -1 if axis is np._NoValue else axis  # pyright: ignore[reportPrivateUsage, reportUnnecessaryComparison]
    if axis != -1:
        x, y = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    _paired("vecdot", x, y, aval(x).ndim - 1, aval(y).ndim - 1)
    return preferred(_batched_product(conj(x), y, aval(x).ndim - 1, aval(y).ndim - 1, 1, 1), wanted)


def dot(
    a: ArrayLike,
    b: ArrayLike,
    out: ArrayLike = None,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Result:
    """The sum of products over the last axis of a and the last but one of b;
    with an operand of rank 0 the plain product.

    preferred_element_type: the dtype of sums and result.  precision: changes nothing.
    """
    (x, y), wanted = preferring("dot", alike(a, b), precision, preferred_element_type, out_sharding)
    if aval(x).ndim == 0 or aval(y).ndim == 0:
        return preferred(u.multiply(x, y), wanted)
    i, j = aval(x).ndim - 1, max(aval(y).ndim - 2, 0)
    _paired("dot", x, y, i, j)
    return preferred(dot_general(x, y, ((i,), (j,))), wanted)


def inner(
    a: ArrayLike,
    b: ArrayLike,
    /,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Result:
    """The sum of products over the last axes.

    preferred_element_type: the dtype of sums and result.  precision: changes nothing.
    """
    (x, y), wanted = preferring("inner", alike(a, b), precision, preferred_element_type)
    if aval(x).ndim == 0 or aval(y).ndim == 0:
        return preferred(u.multiply(x, y), wanted)
    i, j = aval(x).ndim - 1, aval(y).ndim - 1
    _paired("inner", x, y, i, j)
    return preferred(dot_general(x, y, ((i,), (j,))), wanted)


def vdot(
    a: ArrayLike,
    b: ArrayLike,
    /,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Result:
    """The sum of products of all elements, the first of each pair conjugated.

    preferred_element_type: the dtype of sums and result.  precision: changes nothing.
    """
    (x, y), wanted = preferring("vdot", alike(a, b), precision, preferred_element_type)
    x = conj(x)
    if not same_extent(aval(x).size, aval(y).size) and aval(x).size != aval(y).size:
        raise reject(f"np.vdot: shapes {aval(x).shape} and {aval(y).shape} differ in size")
    made = dot_general(p.reshape(x, (aval(x).size,)), p.reshape(y, (aval(y).size,)), ((0,), (0,)))
    return preferred(made, wanted)


def outer(a: ArrayLike, b: ArrayLike, out: ArrayLike = None) -> Result:
    """Products of every element of a with every element of b."""
    x, y = alike(a, b)
    n, m = aval(x).size, aval(y).size
    return u.multiply(
        p.broadcast_in_dim(p.reshape(x, (n,)), (n, m), (0,)), p.broadcast_in_dim(p.reshape(y, (m,)), (n, m), (1,))
    )


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: AxisLike = 2,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Result:
    """The sum of products over pairs of axes: the last of a with the first of b, or the ones named.

    preferred_element_type: the dtype of sums and result.  precision: changes nothing.

    Raises: ShapeError if paired axes differ.
    """
    (x, y), wanted = preferring("tensordot", alike(a, b), precision, preferred_element_type, out_sharding)
    rank_x, rank_y = aval(x).ndim, aval(y).ndim
    if isinstance(axes, (tuple, list)):
        first, second = axes
        over_x, over_y = axis_list(first, rank_x), axis_list(second, rank_y)
    else:
        n = static_int(axes, "np.tensordot's number of axes")
        if n < 0 or n > min(rank_x, rank_y):
            raise reject(f"np.tensordot: {n} axes of arrays of rank {rank_x} and {rank_y}")
        over_x, over_y = tuple(range(rank_x - n, rank_x)), tuple(range(n))
    if len(over_x) != len(over_y):
        raise reject(f"np.tensordot: {len(over_x)} axes of the first array and {len(over_y)} of the second")
    for i, j in zip(over_x, over_y, strict=True):
        _paired("tensordot", x, y, i, j)
    return as_rank_0_array(preferred(dot_general(x, y, (over_x, over_y)), wanted))


def kron(a: ArrayLike, b: ArrayLike) -> Result:
    """The Kronecker product: blocks of b, each times an element of a."""
    x, y = alike(a, b)
    rank = max(aval(x).ndim, aval(y).ndim)
    have_x: Shape = (*(1,) * (rank - aval(x).ndim), *aval(x).shape)
    have_y: Shape = (*(1,) * (rank - aval(y).ndim), *aval(y).shape)
    wide = tuple([n for pair in zip(have_x, have_y, strict=True) for n in pair])
    left = p.broadcast_in_dim(p.reshape(x, have_x), wide, tuple(range(0, 2 * rank, 2)))
    right = p.broadcast_in_dim(p.reshape(y, have_y), wide, tuple(range(1, 2 * rank, 2)))
    product = u.logical_and if aval(x).dtype == np.bool_ else u.multiply
    return p.reshape(product(left, right), tuple([n * m for n, m in zip(have_x, have_y, strict=True)]))


# -- diagonals ---------------------------------------------------------------------------------------------------------
@frozen(eq=False)
class _Diagonal(Reading):
    """Diagonal number `offset` of the planes of two axes."""

    offset: int
    plane: tuple[int, ...]
    name = "diagonal"

    def read(self, x: ArrayLike) -> Result:
        return _diagonals(x, self.offset, self.plane)

    def strides(self, shape: Shape, strides: Strides) -> Strides | None:
        i, j = self.plane
        return (*[s for d, s in enumerate(strides) if d not in self.plane], strides[i] + strides[j])


@frozen(eq=False)
class _Written(_Diagonal):
    """The main diagonal of squares, for writing too."""

    def write(self, x: ArrayLike, value: ArrayLike) -> Result:
        have = aval(x).shape
        i, j = self.plane
        spread_out = p.broadcast_in_dim(value, have, (*[d for d in range(len(have)) if d not in self.plane], i))
        return u.where(u.equal(iota(have, i, np.int64), iota(have, j, np.int64)), spread_out, x)


def diagonal_view(x: ArrayLike, axis1: int, axis2: int) -> Result:
    """The main diagonal of squares, along a new last axis: a view for writing too."""
    return view(x, _Written(0, (axis1, axis2)))


def diagonal(a: ArrayLike, offset: ArrayLike = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1) -> Result:
    """The diagonals of the planes of two axes, along a new last axis: a view for reading."""
    x = array_of(a)
    rank = aval(x).ndim
    if rank < 2:
        raise reject(f"a diagonal needs at least 2 axes; the array has {rank}")
    return view(x, _Diagonal(static_int(offset, "the offset of a diagonal"), axis_list((axis1, axis2), rank)))


def _diagonals(x: ArrayLike, k: int, plane: tuple[int, ...]) -> Result:
    rank = aval(x).ndim
    x = p.transpose(x, (*[d for d in range(rank) if d not in plane], *plane))
    *rest, n, m = aval(x).shape
    lead = tuple(rest)
    if same_extent(n, m) and isinstance(n, Dim) and k == 0:
        return _symbolic_diagonal(x, lead, n)
    n, m = int(n), int(m)
    extent = max(min(n, m - k) if k >= 0 else min(n + k, m), 0)
    start = k if k >= 0 else -k * m
    flat = p.reshape(x, (*lead, n * m))
    zero = tuple([0] * len(lead))
    return p.slice_array(flat, (*zero, start if extent else 0), (*lead, extent), (*[1] * len(lead), m + 1))


def _symbolic_diagonal(x: ArrayLike, lead: Shape, n: Extent) -> Result:
    """The diagonal of a square of symbolic extent: rows read one element longer put it into the first column."""
    size = n * n
    nothing = [0] * len(lead)
    flat = p.pad(p.reshape(x, (*lead, size)), aval(x).dtype.type(0), [*nothing, 0], [*nothing, n])
    square = p.reshape(flat, (*lead, n, n + 1))
    return p.reshape(part(square, len(lead) + 1, 0, 1), (*lead, n))


def trace(
    a: ArrayLike,
    offset: ArrayLike = 0,
    axis1: SupportsIndex = 0,
    axis2: SupportsIndex = 1,
    dtype: DTypeLike = None,
    out: ArrayLike = None,
) -> Result:
    """The sum along the diagonals."""
    return r.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def cross(
    a: ArrayLike, b: ArrayLike, axisa: AxisLike = -1, axisb: AxisLike = -1, axisc: AxisLike = -1, axis: AxisLike = None
) -> Result:
    """The cross product of vectors of 3 elements (the third is 0 where there are 2)."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = alike(a, b)
    if aval(x).ndim == 0 or aval(y).ndim == 0:
        raise reject("np.cross takes vectors")
    if aval(x).dtype == np.bool_:
        raise DtypeError("np.cross does not accept bool", location=user_location())
    x = moveaxis(x, axis_index(axisa, aval(x).ndim), -1)
    y = moveaxis(y, axis_index(axisb, aval(y).ndim), -1)
    n, m = aval(x).shape[-1], aval(y).shape[-1]
    if n not in (2, 3) or m not in (2, 3):
        raise reject(f"np.cross takes vectors of 2 or 3 elements, not of {n} and {m}")
    lead = broadcast_shapes(aval(x).shape[:-1], aval(y).shape[:-1])

    def times(i: int, j: int) -> Result:
        """Element i of x times j of y; None for 0, which one of 2 elements has for a third:
        infinite ones there make no NaN.
        """
        return u.multiply(part(x, aval(x).ndim - 1, i, 1), part(y, aval(y).ndim - 1, j, 1)) if i < n and j < m else None

    def minor(i: int, j: int) -> Result:
        plus, minus = times(i, j), times(j, i)
        if plus is None:
            return u.negative(minus)
        return plus if minus is None else u.subtract(plus, minus)

    if n == 2 and m == 2:
        return _new(p.reshape(minor(0, 1), lead))
    out = concatenate([spread(minor(i, j), (*lead, 1)) for i, j in ((1, 2), (2, 0), (0, 1))], -1)
    place = axis_index(axisc, len(lead) + 1)
    return _new(out) if place == len(lead) else _new(moveaxis(_new(out), -1, place))


def _new(x: ArrayLike) -> Result:
    """An array of its own that lies in memory as x does."""
    if not isinstance(x, Tracer):
        return x
    made = current_interpreter().fresh(x)
    made.layout = like(x, made.shape, made.dtype)
    return made


AS_IS.update((diagonal, cross))
IN_DTYPE_OF_OUT[trace] = dtype_of_sum
OUT_CASTING.update({dot: "equiv", outer: "same_kind"})
LAYOUTS.update(dict.fromkeys((dot, inner, matmul, outer, tensordot), in_c_order))
METHODS.update({"dot": dot, "diagonal": diagonal, "trace": trace})
UFUNCS[np.matmul] = matmul
for _name in ("matvec", "vecmat", "vecdot"):
    if hasattr(np, _name):
        UFUNCS[getattr(np, _name)] = globals()[_name]


def outer_of(function: Any, a: ArrayLike, b: ArrayLike, **options: Any) -> Result:
    """function of every element of a with every element of b, the axes of b after those of a."""
    x, y = array_of(a), array_of(b)
    return function(p.reshape(x, (*aval(x).shape, *(1,) * aval(y).ndim)), y, **options)


for _ufunc in (
    np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.power, np.equal, np.not_equal, np.less,
    np.less_equal, np.greater, np.greater_equal, np.arctan2, np.hypot, np.floor_divide, np.remainder, np.logical_and,
    np.logical_or, np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift,
    np.copysign, np.fmax, np.fmin,
):  # fmt: skip
    UFUNCS[_ufunc, "outer"] = lambda a, b, /, _f=_ufunc, **options: outer_of(UFUNCS[_f], a, b, **options)
for _function in (dot, inner, vdot, outer, tensordot, kron, diagonal, trace, cross):
    FUNCTIONS[getattr(np, _function.__name__)] = _function
