"""Functions of networks along axes: means of exponentials, standardisation, classes, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.ir.extents import same_extent
from tracejit.lax.products import scaled_dot
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.einstein import einsum
from tracejit.numpy.evenly_spaced import arange
from tracejit.numpy.exponentials import inexact, logsumexp, numbers, softmax
from tracejit.numpy.promotion import as_array, aval, broadcast_to, to_dtype
from tracejit.numpy.shaping import expand_dims, reshape, squeeze
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, Result

__all__ = ["dot_product_attention", "logmeanexp", "one_hot", "scaled_matmul", "standardize"]


def logmeanexp(x: ArrayLike, axis: AxisLike = None, where: ArrayLike | None = None, keepdims: bool = False) -> Result:
    """log(mean(exp(x))) along `axis`, without overflow.   Source: JAX's nn.logmeanexp.

    >>> import numpy as np, tracejit as tj
    >>> float(tj.nn.logmeanexp(np.array([1000.0, 1000.0])))
    1000.0
    """
    (y,) = numbers(as_array(x))
    total = logsumexp(y, axis=axis, where=where, keepdims=keepdims)
    ones = broadcast_to(aval(y).dtype.type(1), aval(y).shape)
    count = r.sum(ones, axis=axis, keepdims=keepdims, where=True if where is None else where)
    return u.subtract(total, u.log(count))


def standardize(
    x: ArrayLike,
    axis: AxisLike = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Result:
    """(x - mean) / sqrt(variance + epsilon) along `axis`.

    algorithm: how a variance that is not given is computed, "fast" from the mean of squares,
    "twopass" from differences.

    Raises: UnsupportedError for another algorithm.   Source: JAX's nn.standardize.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.standardize(np.array([1.0, 3.0]), epsilon=0.0)
    Array([-1.,  1.], dtype=float64)
    """
    if algorithm not in ("fast", "twopass"):
        raise UnsupportedError(
            f"nn.standardize: algorithm is 'fast' or 'twopass', not {algorithm!r}", location=user_location()
        )
    (y,) = inexact(as_array(x))
    which: Any = True if where is None else where
    centre = r.mean(y, axis=axis, keepdims=True, where=which) if mean is None else mean
    if variance is None:
        if algorithm == "fast":
            squares = r.mean(u.multiply(y, y), axis=axis, keepdims=True, where=which)
            variance = u.subtract(squares, u.multiply(centre, centre))
        else:
            rest = u.subtract(y, centre)
            variance = r.mean(u.multiply(rest, rest), axis=axis, keepdims=True, where=which)
    return u.divide(u.subtract(y, centre), u.sqrt(u.add(variance, epsilon)))


def one_hot(x: ArrayLike, num_classes: int, *, dtype: DTypeLike = None, axis: int = -1) -> Result:
    """For each element a vector along a new `axis` with 1 at its place, and 0 elsewhere; all 0 for a place outside.

    dtype: float64 by default.   Source: JAX's nn.one_hot.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.one_hot(np.array([1, 0]), 2)
    Array([[0., 1.],
           [1., 0.]], dtype=float64)
    """
    places = as_array(x)
    rank = len(aval(places).shape) + 1
    if not -rank <= axis < rank:
        raise ShapeError(f"nn.one_hot: {axis} is not an axis of {rank}", location=user_location())
    axis %= rank
    classes = reshape(arange(num_classes), [num_classes if d == axis else 1 for d in range(rank)])
    if not aval(places).weak:
        classes = to_dtype(classes, aval(places).dtype) if aval(places).dtype.kind != "b" else classes
    return to_dtype(u.equal(expand_dims(places, axis), classes), np.float64 if dtype is None else dtype)


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
) -> Result:
    """softmax(query key^T scale + bias) value for each head, where the mask is True.

    query: (batch, T, heads, H) or without batch; key, value: (batch, S, K, H), K divides heads.  bias, mask: (batch,
    heads, T, S), extents of 1 are repeated.  scale: 1 / sqrt(H) by default.  is_causal: position t sees keys up to t.
    query_seq_lengths, key_value_seq_lengths: (batch,) ints, later positions do not count.  local_window_size: how many
    positions before and after are seen.  The result has the shape and dtype of query.

    Raises: ShapeError for shapes that do not go together.   Source: JAX's nn.dot_product_attention.

    >>> import numpy as np, tracejit as tj
    >>> x = np.ones((1, 3, 2, 4), np.float32)
    >>> tj.nn.dot_product_attention(x, x, x).shape
    (1, 3, 2, 4)
    """
    if implementation not in (None, "xla"):
        raise UnsupportedError(
            f"nn.dot_product_attention: there is no implementation {implementation!r}; leave it out",
            location=user_location(),
        )
    q, k, v = as_array(query), as_array(key), as_array(value)
    alone = len(aval(q).shape) == 3
    q, k, v = (expand_dims(x, 0) if len(aval(x).shape) == 3 else x for x in (q, k, v))
    shapes = [aval(x).shape for x in (q, k, v)]
    if any(len(s) != 4 for s in shapes):
        raise ShapeError("nn.dot_product_attention: operands have rank 3 or 4", location=user_location())
    (batch, rows, heads, width), (_, columns, groups, _), _ = shapes
    if not (isinstance(heads, int) and isinstance(groups, int)) or heads % max(groups, 1):
        raise ShapeError(
            f"nn.dot_product_attention: {groups} heads of keys do not divide {heads} of queries",
            location=user_location(),
        )
    if not same_extent(shapes[1][1], shapes[2][1]):
        raise ShapeError("nn.dot_product_attention: keys and values differ in length", location=user_location())
    dtype = aval(q).dtype
    each = heads // groups
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    factor = 1.0 / math.sqrt(int(width)) if scale is None else scale
    parts = reshape(to_dtype(q, wide), (batch, rows, groups, each, width))
    logits = u.multiply(einsum("btkgh,bskh->bkgts", parts, to_dtype(k, wide)), factor)
    logits = reshape(logits, (batch, heads, rows, columns))
    if bias is not None:
        logits = u.add(logits, to_dtype(as_array(bias), wide))
    seen = _seen(rows, columns, mask, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size)
    if seen is not None:
        logits = u.where(seen, logits, np.finfo(wide).min * 0.7)
    weights = reshape(softmax(logits, axis=-1), (batch, groups, each, rows, columns))
    out = einsum("bkgts,bskh->btkgh", weights, to_dtype(v, wide))
    out = to_dtype(reshape(out, (batch, rows, heads, aval(v).shape[3])), dtype)
    return squeeze(out, 0) if alone else out


def _seen(
    rows: Any,
    columns: Any,
    mask: ArrayLike | None,
    is_causal: bool,
    row_lengths: ArrayLike | None,
    column_lengths: ArrayLike | None,
    window: int | tuple[int, int] | None,
) -> Any:
    """Which keys (last axis) each query (the one before) sees; None where all do."""
    found: Any = None if mask is None else as_array(mask)

    def both(also: Any) -> None:
        nonlocal found
        found = also if found is None else u.logical_and(found, also)

    at, of = reshape(arange(rows), (rows, 1)), reshape(arange(columns), (1, columns))
    if is_causal:
        both(u.less_equal(of, at))
    if window is not None:
        before, after = (window, window) if isinstance(window, int) else window
        both(u.logical_and(u.less_equal(u.subtract(at, of), before), u.less_equal(u.subtract(of, at), after)))
    for place, lengths in ((at, row_lengths), (of, column_lengths)):
        if lengths is not None:
            each = as_array(lengths)
            both(u.less(place, reshape(each, (*aval(each).shape, 1, 1, 1))))
    return found


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = np.float32,
) -> Result:
    """Products of the rows of lhs with those of rhs, each number times the scale of its block.

    lhs: [b, m, k], rhs: [b, n, k] -> [b, m, n]; lhs_scales: [b, m, k / size of a block], rhs_scales likewise.

    Raises: ShapeError for other shapes.
    Source: JAX's nn.scaled_matmul.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.scaled_matmul(np.ones((1, 1, 2)), np.ones((1, 1, 2)), np.full((1, 1, 1), 0.5), np.full((1, 1, 2), 3.0))
    Array([[[3.]]], dtype=float32)
    """
    dimensions = (((2,), (2,)), ((0,), (0,)))
    given = [as_array(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    if any(aval(x).ndim != 3 for x in given):
        raise ShapeError(
            f"scaled_matmul takes arrays of rank 3, not {', '.join(str(aval(x)) for x in given)}",
            location=user_location(),
        )
    x, y, of_x, of_y = (to_dtype(v, np.promote_types(aval(v).dtype, np.float32)) for v in given)
    return scaled_dot(
        x,
        y,
        lhs_scale=of_x,
        rhs_scale=of_y,
        dimension_numbers=dimensions,
        preferred_element_type=preferred_element_type,
    )
