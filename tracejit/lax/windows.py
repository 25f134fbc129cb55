"""Folds by any function: of whole axes, and of windows that slide over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api.control import fori_loop
from tracejit.api.inspecting import ShapeDtypeStruct, make_jaxpr
from tracejit.api.vmap import vmap
from tracejit.ir.extents import Extent, Shape, is_one, prod
from tracejit.ir.scalar import kernel_dtype
from tracejit.lax.operands import array, aval, reject
from tracejit.lax.padding import integers, pads
from tracejit.primitives import reduction as p
from tracejit.primitives.arithmetic import Maximum, Minimum
from tracejit.primitives.comparison import And, Or
from tracejit.primitives.creation import full
from tracejit.primitives.elementwise import Add, Mul, select
from tracejit.primitives.shape import broadcast_in_dim, reshape, slice_array, transpose
from tracejit.primitives.slicing import dynamic_slice
from tracejit.primitives.windows import FirstMax, FirstMin, dilated, surrounded, window_count, windows
from tracejit.support.axes import axis_index
from tracejit.support.dtypes import weak_kind
from tracejit.support.errors import DtypeError, TracejitError, TracerError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.tree import flatten, flatten_like, unflatten
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = ["reduce", "reduce_window", "reduce_window_shape_tuple"]

Computation = Callable[[Any, Any], Any]


# -- which function it is ----------------------------------------------------------------------------------------------
@frozen(eq=False)
class _Monoid:
    """An associative function with an identity.

    combine: of two arrays; fold: of axes, over_windows: of the axes of windows, which differ in their derivatives.
    """

    combine: Callable[[Any, Any], Any]
    identity: Callable[[str], Any]
    fold: Callable[[Any, tuple[int, ...]], Any]
    over_windows: Callable[[Any, tuple[int, ...]], Any]


def _of(primitive: Any, identity: Callable[[str], Any], fold: Any, over_windows: Any = None) -> _Monoid:
    return _Monoid(lambda a, b: bind(primitive(), a, b), identity, fold, over_windows or fold)


_SUM = _of(Add, lambda dtype: 0, p.reduce_sum)
_PRODUCT = _of(Mul, lambda dtype: 1, p.reduce_prod)
_MAX = _of(
    Maximum, lambda dtype: p.extreme(dtype, -1), p.reduce_max, lambda x, axes: bind(FirstMax(axes), x) if axes else x
)
_MIN = _of(
    Minimum, lambda dtype: p.extreme(dtype, 1), p.reduce_min, lambda x, axes: bind(FirstMin(axes), x) if axes else x
)
_ANY = _of(Or, lambda dtype: False, p.reduce_max)
_EVERY = _of(And, lambda dtype: True, p.reduce_min)
_MONOIDS = {"add": _SUM, "mul": _PRODUCT, "max": _MAX, "min": _MIN}
_OF_TRUTHS = {"add": _ANY, "or": _ANY, "max": _ANY, "mul": _EVERY, "and": _EVERY, "min": _EVERY}


def _monoid(computation: Computation, dtype: np.dtype[Any]) -> _Monoid | None:
    """The monoid that a function is, found in what it does with two numbers."""
    number = ShapeDtypeStruct((), dtype)
    try:
        jaxpr = make_jaxpr(computation)(number, number)
    except TracejitError:
        return None  # what is wrong with it shows where it is called
    if len(jaxpr.equations) != 1 or len(jaxpr.inputs) != 2 or len(jaxpr.outputs) != 1:
        return None
    (e,) = jaxpr.equations
    if tuple(e.outputs) != tuple(jaxpr.outputs) or set(e.inputs) != set(jaxpr.inputs):
        return None
    return (_OF_TRUTHS if dtype == np.bool_ else _MONOIDS).get(e.primitive.name)


def _is(x: ArrayLike, value: Any) -> bool:
    """Whether a number is known to be `value`."""
    known = x.known() if isinstance(x, Tracer) else x
    return known is not None and bool(np.asarray(known) == value)


# -- operands ----------------------------------------------------------------------------------------------------------
def _arrays_and_starts(name: str, operands: Any, init_values: Any) -> tuple[list[Any], list[Any], Any]:
    """Leaves of both, the numbers in the arrays' dtypes, and the structure."""
    leaves, tree = flatten(operands)
    starts = flatten_like(init_values, tree)
    if starts is None or not leaves:
        raise TracerError(
            f"[{name}] init_value has another structure than the operand, or none", location=user_location()
        )
    arrays = [array(x) for x in leaves]
    first = aval(arrays[0]).shape
    if any(aval(x).shape != first for x in arrays):
        raise reject(f"[{name}] operands differ in shape: {', '.join(str(aval(x)) for x in arrays)}")
    out: list[Any] = []
    for x, start in zip(arrays, starts, strict=True):
        dtype, have = aval(x).dtype, aval(start if weak_kind(start) is not None else array(start))
        if have.shape:
            raise reject(f"[{name}] init_value is a number, not {have}")
        if not have.weak and have.dtype != dtype:
            raise DtypeError(
                f"[{name}] operand {aval(x)} and init_value {have} differ in dtype; convert one of them",
                location=user_location(),
            )
        out.append(OPERATORS.to_dtype(start if weak_kind(start) is not None else array(start), dtype))
    return arrays, out, tree


def _element_by_element(name: str, computation: Computation, tree: Any, rank: int) -> Callable[..., list[Any]]:
    """The function of lists of arrays of one rank, applied to each of their elements."""

    def of_leaves(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        found = flatten_like(computation(unflatten(tree, a), unflatten(tree, b)), tree)
        if found is None:
            raise TracerError(f"[{name}] the function returns another structure", location=user_location())
        return found

    def checked(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        found = of_leaves(a, b)
        for x, y in zip(a, found, strict=True):
            want, have = aval(x), aval(y)
            if have.shape or (have.dtype != want.dtype and not have.weak):
                raise DtypeError(f"[{name}] the function makes {have} of two {want}", location=user_location())
        return [OPERATORS.to_dtype(y, aval(x).dtype) for x, y in zip(a, found, strict=True)]

    each: Callable[..., list[Any]] = checked
    for _ in range(rank):
        each = vmap(each)
    return each


# -- whole axes --------------------------------------------------------------------------------------------------------
def reduce(
    operands: Any,
    init_values: Any,
    computation: Computation,
    dimensions: Sequence[int],
    out_sharding: None = None,
) -> Any:
    """The fold of `computation` over axes, which are dropped, beginning with `init_values`.

    operands: an array, or a pytree of arrays of one shape which are folded together.  computation: of two numbers (or
    such pytrees of numbers); addition, multiplication, maximum, minimum, `and` and `or` are reductions, whatever they
    are called, others go over the elements in order.

    Raises: ShapeError for axes that there are not, DtypeError where dtypes differ, TracerError for another structure.
    Source: JAX's lax.reduce.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.reduce(np.array([[1, 2], [3, 4]]), 0, lambda a, b: 10 * a + b, (1,))
    array([12, 34])
    """
    name = "reduce"
    arrays, starts, tree = _arrays_and_starts(name, operands, init_values)
    shape = aval(arrays[0]).shape
    axes = tuple(sorted(axis_index(d, len(shape)) for d in dimensions))
    if len(set(axes)) != len(axes):
        raise reject(f"[{name}] dimensions {tuple(dimensions)} name an axis twice")
    kept = tuple([n for d, n in enumerate(shape) if d not in axes])
    if len(arrays) == 1:
        monoid = _monoid(computation, aval(arrays[0]).dtype)
        empty = any(isinstance(shape[d], int) and shape[d] == 0 for d in axes)
        if monoid is not None and not (empty and monoid.fold not in (p.reduce_sum, p.reduce_prod)):
            return unflatten(tree, [_begun(monoid, starts[0], monoid.fold(arrays[0], axes))])
    order = (*axes, *[d for d in range(len(shape)) if d not in axes])
    count = prod([shape[d] for d in axes])
    rows = [reshape(transpose(x, order), (count, *kept)) for x in arrays]
    each = _element_by_element(name, computation, tree, len(kept))
    begin = [full(kept, s) for s in starts]

    def step(i: Any, total: list[Any]) -> list[Any]:
        place = [i, *[np.int64(0)] * len(kept)]
        return each(total, [reshape(dynamic_slice(x, place, (1, *kept)), kept) for x in rows])

    if isinstance(count, int) and count == 0:
        return unflatten(tree, begin)
    return unflatten(tree, fori_loop(0, count, step, begin))


def _begun(monoid: _Monoid, start: Any, total: Any) -> Any:
    """The fold with its first value."""
    if _is(start, monoid.identity(kernel_dtype(aval(total).dtype))):
        return total
    shape = aval(total).shape
    return monoid.combine(broadcast_in_dim(start, shape, ()) if shape else start, total)


# -- windows -----------------------------------------------------------------------------------------------------------
@frozen(eq=False)
class _Slide:
    """How windows slide over all axes of an array."""

    sizes: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    widths: tuple[tuple[Extent, Extent], ...]
    base: tuple[Extent, ...]
    apart: tuple[Extent, ...]

    @staticmethod
    def of(name: str, shape: Shape, sizes: Any, strides: Any, padding: Any, base: Any, apart: Any) -> _Slide:
        rank = len(shape)
        window = integers(name, "window_dimensions", sizes, rank, least=1)
        steps = integers(name, "window_strides", strides, rank, least=1)
        inner = integers(name, "base_dilation", base, rank, least=1)
        outer = integers(name, "window_dilation", apart, rank, least=1)
        reach = [dilated(k, d) for k, d in zip(window, outer, strict=True)]
        # a padding by name is that of the array as it is, not as base_dilation spreads it: so it is in JAX
        return _Slide(window, steps, pads(name, padding, shape, reach, steps), inner, outer)

    def counts(self, shape: Shape) -> tuple[Extent, ...]:
        return tuple([
            window_count(dilated(n, b) + low + high, k, s, d)
            for n, b, (low, high), k, s, d in zip(
                shape, self.base, self.widths, self.sizes, self.strides, self.apart, strict=True
            )
        ])  # fmt: skip

    @property
    def is_plain(self) -> bool:
        """Whether no window lies between or beside the elements."""
        return all(is_one(d) for d in self.base) and all(
            isinstance(n, int) and n <= 0 for pair in self.widths for n in pair
        )


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Computation,
    window_dimensions: Sequence[Any],
    window_strides: Sequence[Any] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[Any] | None = None,
    window_dilation: Sequence[Any] | None = None,
) -> Any:
    """The fold of `computation` over windows that slide along all axes, beginning with `init_value`.

    operand: an array, or a pytree of arrays of one shape which are folded together.  computation: as for `reduce`.
    window_dimensions, window_strides: an entry for each axis.  padding: "VALID", "SAME", "SAME_LOWER" or widths (low,
    high) for each axis; what lies beside the array is left out.  base_dilation, window_dilation: how far apart the
    elements of the array, of a window are taken to lie.

    Of a maximum or minimum the first element of a window that attains it has the derivative.

    Raises: ShapeError for numbers that do not fit the rank, DtypeError where dtypes differ, TracerError for another
    structure.
    Source: XLA's ReduceWindow.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.reduce_window(np.array([1.0, 3.0, 2.0, 5.0]), -np.inf, tj.lax.max, (2,), (2,))
    array([3., 5.])
    """
    name = "reduce_window"
    arrays, starts, tree = _arrays_and_starts(name, operand, init_value)
    shape = aval(arrays[0]).shape
    slide = _Slide.of(name, shape, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    counts = slide.counts(shape)
    if any(isinstance(n, int) and n == 0 for n in counts):
        return unflatten(tree, [full(counts, s) for s in starts])
    monoid = _monoid(computation, aval(arrays[0]).dtype) if len(arrays) == 1 else None
    if monoid is not None:
        return unflatten(tree, [_begun(monoid, starts[0], _folded(monoid, arrays[0], slide))])
    return unflatten(tree, _in_turn(name, computation, tree, arrays, starts, slide, counts))


def _folded(monoid: _Monoid, x: ArrayLike, slide: _Slide) -> Result:
    have = aval(x)
    beside = have.dtype.type(monoid.identity(kernel_dtype(have.dtype)))
    around = surrounded(x, beside, slide.widths, slide.base)
    moving = [d for d in range(have.ndim) if not is_one(slide.sizes[d]) or not is_one(slide.strides[d])]
    if not moving:
        return around
    sizes, strides, apart = ([given[d] for d in moving] for given in (slide.sizes, slide.strides, slide.apart))
    found = windows(around, moving, sizes, strides, apart)
    return monoid.over_windows(found, tuple(range(have.ndim, have.ndim + len(moving))))


def _in_turn(
    name: str,
    computation: Computation,
    tree: Any,
    arrays: Sequence[Any],
    starts: Sequence[Any],
    slide: _Slide,
    counts: tuple[Extent, ...],
) -> list[Any]:
    """All windows at once, one of their elements after the other."""
    rank = len(counts)
    around = [surrounded(x, aval(x).dtype.type(0), slide.widths, slide.base) for x in arrays]
    there = None
    if not slide.is_plain:
        there = surrounded(full(aval(arrays[0]).shape, np.bool_(True)), np.bool_(False), slide.widths, slide.base)
    each = _element_by_element(name, computation, tree, rank)
    reach = tuple([dilated(n, s) for n, s in zip(counts, slide.strides, strict=True)])

    def elements(x: ArrayLike, place: list[Any]) -> Result:
        part = dynamic_slice(x, place, reach)
        return part if all(is_one(s) for s in slide.strides) else slice_array(part, (0,) * rank, counts, slide.strides)  # type: ignore[arg-type]

    def step(i: Any, total: list[Any]) -> list[Any]:
        place: list[Any] = []
        for k, d in zip(reversed(slide.sizes), reversed(slide.apart), strict=True):
            place.append((i % k) * d)
            i = i // k
        place.reverse()
        after = each(total, [elements(x, place) for x in around])
        if there is None:
            return after
        mask = elements(there, place)
        return [select(mask, y, x) for x, y in zip(total, after, strict=True)]

    return fori_loop(0, prod(slide.sizes), step, [full(counts, s) for s in starts])


def reduce_window_shape_tuple(
    operand_shape: Sequence[Any],
    window_dimensions: Sequence[Any],
    window_strides: Sequence[Any] | None,
    padding: Any,
    base_dilation: Sequence[Any] | None = None,
    window_dilation: Sequence[Any] | None = None,
) -> tuple[Any, ...]:
    """The shape of `reduce_window` of an array of such a shape.

    >>> tj.lax.reduce_window_shape_tuple((8, 9), (2, 3), (1, 3), [(0, 0), (0, 0)])
    (7, 3)
    """
    shape = tuple(operand_shape)
    name = "reduce_window_shape_tuple"
    return _Slide.of(name, shape, window_dimensions, window_strides, padding, base_dilation, window_dilation).counts(
        shape
    )
