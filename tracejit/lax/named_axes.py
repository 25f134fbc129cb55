"""What elements of an axis that `tj.vmap` has given a name do together: sums, exchanges, their numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, same_extent
from tracejit.lax.operands import array, aval, reject
from tracejit.primitives import shape as p
from tracejit.primitives.elementwise import convert
from tracejit.primitives.named_axes import Collective
from tracejit.support.axes import axis_index as position
from tracejit.support.dtypes import weak_kind
from tracejit.support.errors import OptionError, UnsupportedError, UserError
from tracejit.support.source import user_location
from tracejit.support.tree import map_tree
from tracejit.support.typing import Result
from tracejit.tracer.batch import size_of_axis
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS

__all__ = [
    "all_gather", "all_to_all", "axis_index", "axis_size", "pmax", "pmean", "pmin", "ppermute", "pshuffle", "psum",
    "psum_scatter", "pswapaxes",
]  # fmt: skip


def axis_size(axis_name: Any) -> Any:
    """The extent of the axis, or the product of those of several.   Source: JAX's lax.axis_size.

    Raises: UserError for a name that no `vmap` around has given.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: x / tj.lax.axis_size("i"), axis_name="i")(np.array([3.0, 6.0, 9.0]))
    array([1., 2., 3.])
    """
    total: Any = 1
    for name in _names(axis_name):
        total = total * _extent("axis_size", name)
    return total


def _names(axis_name: Any) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def _extent(what: str, name: Any) -> Extent:
    found = size_of_axis(name)
    if found is None:
        raise UserError(
            f"lax.{what}: no axis has the name {name!r} here; give it with tj.vmap(..., axis_name={name!r})",
            location=user_location(),
        )
    return found


def _without_groups(what: str, groups: Any) -> None:
    if groups is not None:
        raise UnsupportedError(
            f"lax.{what}: axis_index_groups is not supported; split the axis in two and map over both",
            location=user_location(),
        )


def _one(what: str, axis_name: Any) -> Any:
    names = _names(axis_name)
    if len(names) != 1:
        raise UnsupportedError(
            f"lax.{what} is about one axis, not {len(names)}; do it for one after another", location=user_location()
        )
    return names[0]


# -- over all elements -------------------------------------------------------------------------------------------------
def _over(kind: str, x: Any, axis_name: Any) -> Any:
    made = array(x)
    if kind == "sum" and aval(made).dtype.kind == "b":
        made = convert(made, np.int64)
    for name in _names(axis_name):
        made = bind(Collective(kind, name, _extent(f"p{kind}", name)), made)
    return made


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over the elements of a named axis, for each array of a pytree; a Python number times the extent.

    axis_name: one name, or several for sums over all of them.
    Raises: UserError for a name that no `vmap` around has given; UnsupportedError for axis_index_groups.
    Source: JAX's lax.psum.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: x / tj.lax.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    _without_groups("psum", axis_index_groups)

    def one(leaf: Any) -> Any:
        if weak_kind(leaf) is not None:
            size = axis_size(axis_name)
            return leaf * (OPERATORS.number_of_extents(size) if isinstance(size, Dim) else size)
        return _over("sum", leaf, axis_name)

    return map_tree(one, x)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over the elements of a named axis.   See `psum`.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: x - tj.lax.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    size = psum(1, axis_name, axis_index_groups=axis_index_groups)
    return map_tree(lambda leaf: np.divide(_over("sum", leaf, axis_name), size), x)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The greatest element along a named axis.   See `psum`.

    It has no derivative within the `vmap`, but has one of the mapped function.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: x == tj.lax.pmax(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([False,  True])
    """
    _without_groups("pmax", axis_index_groups)
    return map_tree(lambda leaf: _over("max", leaf, axis_name), x)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The least element along a named axis.   See `pmax`.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: x - tj.lax.pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0., 2.])
    """
    _without_groups("pmin", axis_index_groups)
    return map_tree(lambda leaf: _over("min", leaf, axis_name), x)


def axis_index(axis_name: Any) -> Result:
    """The number of the element along a named axis, int32; of several axes the first counts slowest.

    Raises: UserError for a name that no `vmap` around has given.
    Source: JAX's lax.axis_index.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: x * tj.lax.axis_index("i"), axis_name="i")(np.array([5, 5, 5], np.int32))
    array([ 0,  5, 10], dtype=int32)
    """
    total: Any = None
    for name in _names(axis_name):
        size = _extent("axis_index", name)
        index = bind(Collective("index", name, size))
        total = index if total is None else total * convert(array(size), np.int32) + index
    return total


# -- exchanges ---------------------------------------------------------------------------------------------------------
def _mapped(x: Any, function: Callable[[Any], Any]) -> Any:
    return map_tree(lambda leaf: function(array(leaf)), x)


def _merged(x: Result, at: int) -> Result:
    """Two axes, at and at + 1, as one."""
    shape = aval(x).shape
    return p.reshape(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


def _parted(what: str, x: Result, at: int, size: Extent) -> Result:
    """An axis as two, of which the first has an extent."""
    shape = aval(x).shape
    if shape[at] % size != 0:
        raise reject(f"lax.{what}: axis {at} of {aval(x)} is not divided by the extent of the named axis, {size}")
    return p.reshape(x, (*shape[:at], size, shape[at] // size, *shape[at + 1 :]))


def _check(what: str, x: Result, at: int, size: Extent) -> None:
    if not same_extent(aval(x).shape[at], size):
        raise reject(
            f"lax.{what}: axis {at} of {aval(x)} has not the extent of the named axis, {size}; use tiled=True where it "
            "is a multiple"
        )


def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False) -> Any:
    """What all elements of a named axis have, along a new axis; with tiled=True one after another along `axis`.

    Raises: UserError for a name that no `vmap` around has given; UnsupportedError for axis_index_groups, several names.
    Source: JAX's lax.all_gather.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: np.sort(tj.lax.all_gather(x, "i"))[0], axis_name="i")(np.array([3.0, 1.0]))
    array([1., 1.])
    """
    _without_groups("all_gather", axis_index_groups)
    name = _one("all_gather", axis_name)
    size = _extent("all_gather", name)

    def one(leaf: Result) -> Result:
        at = position(axis, aval(leaf).ndim + (not tiled))
        made = bind(Collective("gather", name, size, at), leaf)
        return _merged(made, at) if tiled else made

    return _mapped(x, one)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """The sum over a named axis, of which each element gets its part along scatter_dimension.

    That axis has the extent of the named one, and goes; with tiled=True a multiple of it, and stays.
    Raises: ShapeError for another extent, UserError, UnsupportedError as `all_gather`.
    Source: JAX's lax.psum_scatter.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: tj.lax.psum_scatter(x, "i"), axis_name="i")(np.array([[1.0, 2.0], [10.0, 20.0]]))
    array([11., 22.])
    """
    _without_groups("psum_scatter", axis_index_groups)
    name = _one("psum_scatter", axis_name)
    size = _extent("psum_scatter", name)

    def one(leaf: Result) -> Result:
        at = position(scatter_dimension, aval(leaf).ndim)
        if tiled:
            leaf = _parted("psum_scatter", leaf, at, size)
        _check("psum_scatter", leaf, at, size)
        return bind(Collective("scatter_sum", name, size, at), leaf)

    return _mapped(x, one)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Each element gives one part along split_axis to each, and has those that it gets along concat_axis.

    split_axis has the extent of the named axis, and goes, concat_axis is a new one; with tiled=True the former is a
    multiple of it, and both stay.
    Raises: ShapeError for another extent, UserError, UnsupportedError as `all_gather`.
    Source: JAX's lax.all_to_all.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: tj.lax.all_to_all(x, "i", 0, 0), axis_name="i")(np.array([[1, 2], [3, 4]]))
    array([[1, 3],
           [2, 4]])
    """
    _without_groups("all_to_all", axis_index_groups)
    name = _one("all_to_all", axis_name)
    size = _extent("all_to_all", name)

    def one(leaf: Result) -> Result:
        rank = aval(leaf).ndim
        at, to = position(split_axis, rank), position(concat_axis, rank)
        if tiled:
            leaf = _parted("all_to_all", leaf, at, size)
        _check("all_to_all", leaf, at, size)
        made = bind(Collective("exchange", name, size, at, to), leaf)
        return _merged(made, to) if tiled else made

    return _mapped(x, one)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """A named axis and another one, of the same extent, change places.   See `all_to_all`.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: tj.lax.pswapaxes(x, "i", 0), axis_name="i")(np.array([[1, 2], [3, 4]]))
    array([[1, 3],
           [2, 4]])
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """What the source of each pair (source, target) has, for the target; zeros for elements that are no target.

    Raises: OptionError for pairs that are none, or not of different sources and targets; UserError, UnsupportedError as
    `all_gather`.
    Source: JAX's lax.ppermute.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: tj.lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(np.array([5.0, 6.0, 7.0]))
    array([0., 5., 6.])
    """
    name = _one("ppermute", axis_name)
    size = _extent("ppermute", name)
    count = operator.index(size)
    try:
        pairs = [(operator.index(a), operator.index(b)) for a, b in perm]
        fits = all(len({pair[k] for pair in pairs}) == len(pairs) for k in (0, 1))
        fits = fits and all(0 <= n < count for pair in pairs for n in pair)
    except (TypeError, ValueError):
        pairs, fits = [], False
    if not fits:
        raise OptionError(
            f"lax.ppermute: perm is {perm!r}; it is pairs (source, target) of different elements from 0 to {count - 1}",
            location=user_location(),
        )
    found = {b: a for a, b in pairs}
    sources = tuple([found.get(n, -1) for n in range(count)])
    return _mapped(x, lambda leaf: bind(Collective("permute", name, size, sources=sources), leaf))


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """What element perm[n] has, for element n.   See `ppermute`.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda x: tj.lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(np.array([5.0, 6.0, 7.0]))
    array([7., 5., 6.])
    """
    return ppermute(x, axis_name, [(source, n) for n, source in enumerate(perm)])
