"""Functions along an axis: of each element, or of what they are together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api import control
from tracejit.api.option_checks import expect, flag
from tracejit.api.transform import is_array
from tracejit.api.vmap import vmap
from tracejit.support.errors import ShapeError, TracerError
from tracejit.support.source import user_location
from tracejit.support.tree import flatten, flatten_like, map_tree, unflatten
from tracejit.tracer.cell import aval_of_argument

__all__ = ["associative_scan", "map"]


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: Any = None) -> Any:
    """f of each element of the leading axis, in order, stacked.

    batch_size: how many are taken at once, by `vmap`; the last ones may be fewer.

    Raises: OptionError for a batch_size below 1, ShapeError where leading axes differ.
    Source: JAX's lax.map.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda xs: tj.lax.map(lambda x: x @ x, xs))(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([ 5., 25.])
    """
    if batch_size is None:
        return control.map(f, xs)
    fits = isinstance(batch_size, (int, np.integer)) and not isinstance(batch_size, bool) and bool(batch_size > 0)
    expect(fits, "tj.lax.map", "batch_size", batch_size, "an integer above 0, or None")
    leaves, tree = flatten(xs)
    counts = {int(aval_of_argument(x).shape[0]) if aval_of_argument(x).shape else None for x in leaves if is_array(x)}
    if len(counts) != 1 or None in counts:
        raise ShapeError("map goes along the leading axis of xs, which all arrays have alike", location=user_location())
    count, size = counts.pop() or 0, int(batch_size)
    whole, rest = count // size, count % size
    each = vmap(f)
    parts: list[Any] = []
    if whole or not rest:
        groups = [np.reshape(x[: whole * size], (whole, size, *aval_of_argument(x).shape[1:])) for x in leaves]
        made = control.map(each, unflatten(tree, groups))
        parts.append(map_tree(lambda y: np.reshape(y, (whole * size, *aval_of_argument(y).shape[2:])), made))
    if rest:
        parts.append(each(unflatten(tree, [x[whole * size :] for x in leaves])))
    return parts[0] if len(parts) == 1 else map_tree(lambda a, b: np.concatenate([a, b]), *parts)


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes of `elems` along an axis, joined by an associative function: `y[k] = fn(y[k - 1], elems[k])`.

    fn: of two pytrees like elems with arrays of one length along the axis, element by element.  It is called on halves,
    quarters and so on, some 2 log2(n) times in all, rather than n times.
    reverse: suffixes, from the end.

    Raises: ShapeError where the arrays differ in length or lack the axis, TracerError where fn returns another
    structure.
    Source: JAX's lax.associative_scan; the algorithm is Blelloch's, Prefix sums and their applications, 1990.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.associative_scan(np.multiply, np.array([1.0, 2.0, 3.0, 4.0]))
    array([ 1.,  2.,  6., 24.])
    """
    flag("tj.lax.associative_scan", "reverse", reverse)
    leaves, tree = flatten(elems)
    if not leaves or not all(is_array(x) for x in leaves):
        raise TracerError("associative_scan wants a pytree of arrays", location=user_location())
    shapes = [aval_of_argument(x).shape for x in leaves]
    if not all(-len(s) <= axis < len(s) for s in shapes):
        raise ShapeError(f"associative_scan: axis {axis} of arrays of shapes {shapes}", location=user_location())
    places = [axis % len(s) for s in shapes]
    counts = {int(s[d]) for s, d in zip(shapes, places, strict=True)}
    if len(counts) != 1:
        raise ShapeError(
            f"associative_scan: the arrays have different lengths along axis {axis}: {sorted(counts)}",
            location=user_location(),
        )

    def joined(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        result = fn(unflatten(tree, a), unflatten(tree, b))
        found = flatten_like(result, tree)
        if found is None:
            raise TracerError(f"associative_scan: fn returns {flatten(result)[1]} for {tree}", location=user_location())
        return found

    def along(xs: Sequence[Any], begin: int | None, end: int | None, step: int = 1) -> list[Any]:
        return [x[(*[slice(None)] * d, slice(begin, end, step))] for x, d in zip(xs, places, strict=True)]

    def prefixes(xs: Sequence[Any], count: int) -> list[Any]:
        """Those at odd places are prefixes of the joined pairs; the others follow from these."""
        if count < 2:
            return list(xs)
        pairs = count // 2
        odd = prefixes(joined(along(xs, 0, 2 * pairs, 2), along(xs, 1, None, 2)), pairs)
        later = (count - 1) // 2  # of the even places, those after the first
        first = along(xs, 0, 1)
        if later:
            even = joined(along(odd, 0, later), along(xs, 2, None, 2))
            first = [np.concatenate([a, b], axis=d) for a, b, d in zip(first, even, places, strict=True)]
        return [_alternating(a, b, d, pairs, count) for a, b, d in zip(first, odd, places, strict=True)]

    count = counts.pop()
    xs = [np.flip(x, d) for x, d in zip(leaves, places, strict=True)] if reverse else leaves
    found = prefixes(xs, count)
    if reverse:
        found = [np.flip(x, d) for x, d in zip(found, places, strict=True)]
    if count < 2:
        found = [np.copy(x) for x in found]
    return unflatten(tree, found)


def _alternating(even: Any, odd: Any, axis: int, pairs: int, count: int) -> Any:
    """The elements of two arrays by turns, from the first of the one; it may have one more."""
    before = (slice(None),) * axis
    shape = aval_of_argument(odd).shape
    both = np.stack([even[(*before, slice(0, pairs))], odd], axis=axis + 1)
    whole = np.reshape(both, (*shape[:axis], 2 * pairs, *shape[axis + 1 :]))
    return whole if 2 * pairs == count else np.concatenate([whole, even[(*before, slice(pairs, None))]], axis=axis)
