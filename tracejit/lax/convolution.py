"""Convolutions of arrays with filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tracejit.ir.extents import Extent, Shape, is_one, prod
from tracejit.lax.operands import array, aval, operands, reject
from tracejit.lax.padding import integers, pads
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.convolution import ConvGeneralDilated
from tracejit.primitives.elementwise import convert
from tracejit.primitives.shape import reshape, reverse, transpose
from tracejit.primitives.windows import dilated, surrounded, window_count, windows
from tracejit.support.dtypes import canonical
from tracejit.support.errors import TracerError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.interpreter import bind

__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv", "conv_dimension_numbers",
    "conv_general_dilated", "conv_general_dilated_local", "conv_general_dilated_patches", "conv_general_permutations",
    "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose", "conv_transpose_shape_tuple",
    "conv_with_general_padding",
]  # fmt: skip


class ConvDimensionNumbers(NamedTuple):
    """Which axes of an array, a filter and a result are which.

    lhs_spec, out_spec: the axes of the batch, of channels, and the spatial ones; rhs_spec: of channels out, channels
    in, and the spatial ones.

    >>> conv_dimension_numbers((8, 32, 32, 3), (5, 5, 3, 16), ("NHWC", "HWIO", "NHWC")).rhs_spec
    (3, 2, 0, 1)
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers: TypeAlias = ConvDimensionNumbers | tuple[str, str, str] | None
"""What `dimension_numbers=` takes."""


# -- which axis is which -----------------------------------------------------------------------------------------------
def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The axes that three strings name: those of the array and the result as (N, C, spatial), of the filter as (O, I,
    spatial), spatial ones in the filter's order.

    Raises: TracerError for strings that do not name axes so.

    >>> tj.lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, rhs, out = dimension_numbers
    for text, pair in ((lhs, "NC"), (rhs, "OI"), (out, "NC")):
        if len(set(text)) != len(text) or not set(pair) <= set(text):
            raise _wrong_numbers(
                f"{text!r} has each letter once, {pair[0]} and {pair[1]} among them", dimension_numbers
            )
    spatial = [letter for letter in rhs if letter not in "OI"]
    if not set(lhs) - set("NC") == set(out) - set("NC") == set(spatial):
        raise _wrong_numbers("the three have the same spatial letters", dimension_numbers)
    lhs_axes, rhs_axes, out_axes = (
        tuple([text.index(letter) for letter in (*pair, *spatial)])
        for text, pair in ((lhs, "NC"), (rhs, "OI"), (out, "NC"))
    )
    return lhs_axes, rhs_axes, out_axes


def conv_dimension_numbers(
    lhs_shape: Sequence[Any], rhs_shape: Sequence[Any], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """The dimension numbers of a convolution in full.

    dimension_numbers: three strings, as ("NHWC", "HWIO", "NHWC"); None for "NCHW", "OIHW", "NCHW" with so many spatial
    axes; or what this returns.

    Raises: TracerError for anything else, ShapeError where ranks differ.

    >>> tuple(tj.lax.conv_dimension_numbers((1, 2, 9), (4, 2, 3), None))
    ((0, 1, 2), (0, 1, 2), (0, 1, 2))
    """
    rank = len(lhs_shape)
    if len(rhs_shape) != rank:
        raise reject(
            f"a convolution of an array of rank {rank} with a filter of rank {len(rhs_shape)}; ranks are equal"
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        specs = [tuple([int(a) for a in spec]) for spec in dimension_numbers]
    elif dimension_numbers is None:
        specs = [tuple(range(rank))] * 3
    elif isinstance(dimension_numbers, (list, tuple)):
        if len(dimension_numbers) != 3 or not all(isinstance(s, str) for s in dimension_numbers):
            raise _wrong_numbers("they are three strings", dimension_numbers)
        specs = list(conv_general_permutations(dimension_numbers))
    else:
        raise _wrong_numbers("they are three strings, ConvDimensionNumbers or None", dimension_numbers)
    if any(sorted(spec) != list(range(rank)) for spec in specs) or rank < 2:
        raise _wrong_numbers(f"arrays of rank {rank} have other axes", dimension_numbers)
    return ConvDimensionNumbers(*specs)


def _wrong_numbers(why: str, given: Any) -> TracerError:
    return TracerError(f"dimension_numbers of a convolution: {why}; not {given!r}", location=user_location())


# -- convolutions ------------------------------------------------------------------------------------------------------
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[Any],
    padding: Any,
    lhs_dilation: Sequence[Any] | None = None,
    rhs_dilation: Sequence[Any] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: None = None,
) -> Result:
    """For each place of a window and each output channel the sum of products of window and filter.

    window_strides: how far apart windows begin.  padding: "SAME", "VALID", "SAME_LOWER", or zeros (low, high) around
    each spatial axis, negative ones cut.  lhs_dilation, rhs_dilation: how far apart elements of the array, of the
    filter are taken to lie.  dimension_numbers: see `conv_dimension_numbers`.  feature_group_count,
    batch_group_count: in how many groups the channels, or the batch, come, each with its part of the output channels.
    preferred_element_type: the operands are converted to it first.  precision: everything is exact to rounding.

    lhs: [batch, channels, *spatial], rhs: [out, channels / feature groups, *window] -> [batch / batch groups, out,
    *places], axes in the order of the dimension numbers.  float16 accumulates in float32.

    Raises: ShapeError where shapes, strides or groups do not fit, DtypeError for operands of two dtypes, TracerError
    for dimension numbers and padding that are none.
    Source: XLA's ConvGeneralDilated.

    >>> import numpy as np, tracejit as tj
    >>> x, taps = np.arange(5.0).reshape(1, 1, 5), np.array([[[1.0, 2.0]]])
    >>> tj.lax.conv_general_dilated(x, taps, (1,), "VALID")
    array([[[ 2.,  5.,  8., 11.]]])
    """
    name = "conv_general_dilated"
    x, w = operands(name, lhs, rhs)
    numbers = conv_dimension_numbers(aval(x).shape, aval(w).shape, dimension_numbers)
    count = aval(x).ndim - 2
    strides = integers(name, "window_strides", window_strides, count, least=1)
    apart = [
        integers(name, what, given, count, least=1)
        for what, given in (("lhs_dilation", lhs_dilation), ("rhs_dilation", rhs_dilation))
    ]
    if isinstance(padding, str) and not all(is_one(d) for d in apart[0]):
        raise reject(
            f"[{name}] padding={padding!r} says nothing of an array with lhs_dilation {apart[0]}; give pairs of "
            "widths, or use conv_transpose"
        )
    groups = [
        _group_count(name, what, n) for what, n in (("feature", feature_group_count), ("batch", batch_group_count))
    ]
    if groups[0] > 1 and groups[1] > 1:
        raise reject(f"[{name}] feature_group_count and batch_group_count are {groups}; one of them is 1")
    x, w = _as_preferred(x, preferred_element_type), _as_preferred(w, preferred_element_type)
    sizes, reach = _extents(aval(x).shape, aval(w).shape, numbers, apart[1])
    lhs_axes, rhs_axes, out_axes = [tuple(spec) for spec in numbers]
    widths = pads(name, padding, sizes, reach, strides)
    made = ConvGeneralDilated(strides, widths, apart[0], apart[1], lhs_axes, rhs_axes, out_axes, groups[0], groups[1])
    return bind(made, x, w)


def _group_count(name: str, what: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
        raise reject(f"[{name}] {what}_group_count is an integer above 0, not {given!r}")
    return int(given)


def _as_preferred(x: ArrayLike, dtype: DTypeLike) -> Result:
    return x if dtype is None else convert(x, canonical(dtype))


def _extents(
    x: Shape, w: Shape, numbers: ConvDimensionNumbers, dilation: Sequence[Extent]
) -> tuple[list[Extent], list[Extent]]:
    """The spatial extents of the array, and how far a window reaches."""
    sizes = [x[a] for a in numbers.lhs_spec[2:]]
    return sizes, [dilated(w[a], d) for a, d in zip(numbers.rhs_spec[2:], dilation, strict=True)]


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[Any],
    padding: str,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Result:
    """`conv_general_dilated` of arrays [batch, channels, *spatial] and filters [out, channels, *window].

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.conv(np.ones((1, 2, 3)), np.ones((1, 2, 3)), (1,), "SAME")
    array([[[4., 6., 4.]]])
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[Any],
    padding: Any,
    lhs_dilation: Sequence[Any] | None,
    rhs_dilation: Sequence[Any] | None,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Result:
    """`conv` with any padding, and dilations.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.conv_with_general_padding(np.ones((1, 1, 3)), np.ones((1, 1, 2)), (1,), [(1, 1)], (2,), None)
    array([[[1., 1., 1., 1., 1., 1.]]])
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, None, 1, 1, precision, preferred_element_type
    )


_CHANNELS_LAST = (("NC", "IO", "NC"), ("NHC", "HIO", "NHC"), ("NHWC", "HWIO", "NHWC"), ("NHWDC", "HWDIO", "NHWDC"))


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[Any],
    padding: Any,
    rhs_dilation: Sequence[Any] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    use_consistent_padding: bool = False,
) -> Result:
    """The convolution whose array was enlarged by `strides`: the transpose of one with these strides.

    padding: "SAME" (results `strides` times as long), "VALID" (all places where the filter touches an element), or
    widths.  dimension_numbers: channels last where none are given, as ("NHWC", "HWIO", "NHWC").  transpose_kernel: the
    filter is that of the convolution whose gradient this is, turned around and with its channels exchanged.
    use_consistent_padding: widths are those of that convolution.

    Raises: as `conv_general_dilated`.
    Source: JAX's lax.conv_transpose.

    >>> import numpy as np, tracejit as tj
    >>> x, taps = np.array([1.0, 2.0]).reshape(1, 2, 1), np.array([1.0, 10.0]).reshape(2, 1, 1)
    >>> tj.lax.conv_transpose(x, taps, (2,), "VALID").ravel()
    array([10.,  1., 20.,  2.])
    """
    name = "conv_transpose"
    x, w = array(lhs), array(rhs)
    rank = aval(x).ndim
    if dimension_numbers is None:
        if not 2 <= rank <= 5:
            raise reject(f"[{name}] dimension_numbers of arrays of rank {rank} are given, not guessed")
        dimension_numbers = _CHANNELS_LAST[rank - 2]
    numbers = conv_dimension_numbers(aval(x).shape, aval(w).shape, dimension_numbers)
    stretch = integers(name, "strides", strides, rank - 2, least=1)
    dilation = integers(name, "rhs_dilation", rhs_dilation, rank - 2, least=1)
    _, reach = _extents(aval(x).shape, aval(w).shape, numbers, dilation)
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise reject(f"[{name}] padding is 'SAME', 'VALID' or pairs of widths, not {padding!r}")
        widths = [_transposed_padding(k, s, padding.upper() == "SAME") for k, s in zip(reach, stretch, strict=True)]
    else:
        widths = pads(name, padding, reach, reach, stretch)
        if use_consistent_padding:
            widths = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(reach, widths, strict=True)]
    if transpose_kernel:
        w = reverse(w, tuple(numbers.rhs_spec[2:])) if rank > 2 else w
        o, i, *spatial = numbers.rhs_spec
        numbers = numbers._replace(rhs_spec=(i, o, *spatial))
    return conv_general_dilated(
        x, w, (1,) * (rank - 2), widths, stretch, dilation, numbers, 1, 1, precision, preferred_element_type
    )


def _transposed_padding(k: Extent, s: Extent, same: bool) -> tuple[Extent, Extent]:
    """Of the enlarged array, so that windows of reach k give s places for each element ("SAME"), or all they touch."""
    if same:
        total = k + s - 2
        low = k - 1 if s > k - 1 else -(-total // 2)
        return low, total - low
    return k - 1, s - 1 + (k - s if k > s else 0)


# -- windows as channels -----------------------------------------------------------------------------------------------
def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[Any],
    window_strides: Sequence[Any],
    padding: Any,
    lhs_dilation: Sequence[Any] | None = None,
    rhs_dilation: Sequence[Any] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Result:
    """The elements of each window as channels: what a convolution with a filter of `filter_shape` multiplies.

    lhs: [batch, channels, *spatial] -> [batch, channels * elements of a window, *places], axes in the order of the
    dimension numbers; the elements of a window lie in the filter's order, one channel after the other.

    Raises: as `conv_general_dilated`.
    Source: JAX's lax.conv_general_dilated_patches.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.conv_general_dilated_patches(np.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    array([[[0., 1., 2.],
            [1., 2., 3.]]])
    """
    name = "conv_general_dilated_patches"
    x = _as_preferred(array(lhs), preferred_element_type)
    rank = aval(x).ndim
    sizes = integers(name, "filter_shape", filter_shape, rank - 2, least=1)
    numbers = conv_dimension_numbers(aval(x).shape, (0,) * rank, dimension_numbers)
    found = _windows(name, x, numbers, sizes, window_strides, padding, lhs_dilation, rhs_dilation)
    count, channels, *places = aval(found).shape[:rank]
    order = (0, 1, *range(rank, 2 * rank - 2), *range(2, rank))
    merged = reshape(transpose(found, order), (count, channels * prod(sizes), *places))
    return transpose(merged, _inverse(numbers.out_spec))


def _windows(
    name: str,
    x: ArrayLike,
    numbers: ConvDimensionNumbers,
    sizes: Sequence[Extent],
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
) -> Result:
    """[batch, channels, *places, *window]"""
    count = len(sizes)
    strides = integers(name, "window_strides", window_strides, count, least=1)
    inner = integers(name, "lhs_dilation", lhs_dilation, count, least=1)
    outer = integers(name, "rhs_dilation", rhs_dilation, count, least=1)
    if isinstance(padding, str) and not all(is_one(d) for d in inner):
        raise reject(f"[{name}] padding={padding!r} says nothing of an array with lhs_dilation {inner}; give widths")
    x = transpose(x, numbers.lhs_spec)
    have = aval(x).shape
    widths = pads(name, padding, have[2:], [dilated(k, d) for k, d in zip(sizes, outer, strict=True)], strides)
    around = surrounded(x, aval(x).dtype.type(0), [(0, 0), (0, 0), *widths], (1, 1, *inner))
    return windows(around, tuple(range(2, 2 + count)), sizes, strides, outer) if count else around


def _inverse(spec: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(spec)), key=lambda k: spec[k]))


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[Any],
    padding: Any,
    filter_shape: Sequence[Any],
    lhs_dilation: Sequence[Any] | None = None,
    rhs_dilation: Sequence[Any] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Result:
    """A convolution whose filter is another one at each place.

    rhs: [out, channels * elements of a window, *places], as `conv_general_dilated_patches` gives the windows.

    Raises: as `conv_general_dilated`.
    Source: JAX's lax.conv_general_dilated_local.

    >>> import numpy as np, tracejit as tj
    >>> x, taps = np.arange(3.0).reshape(1, 1, 3), np.array([[[1.0, 10.0], [0.0, 1.0]]])
    >>> tj.lax.conv_general_dilated_local(x, taps, (1,), "VALID", (2,))
    array([[[ 0., 12.]]])
    """
    name = "conv_general_dilated_local"
    x, w = operands(name, lhs, rhs)
    rank = aval(x).ndim
    numbers = conv_dimension_numbers(aval(x).shape, aval(w).shape, dimension_numbers)
    sizes = integers(name, "filter_shape", filter_shape, rank - 2, least=1)
    found = _windows(name, x, numbers, sizes, window_strides, padding, lhs_dilation, rhs_dilation)
    shape, w = aval(found).shape, transpose(w, numbers.rhs_spec)
    places, elements = shape[2:rank], shape[1] * prod(sizes)
    if aval(w).shape[1:] != (elements, *places):
        raise reject(
            f"[{name}] rhs is {aval(w).shape} in the order (out, in, spatial), not (out, {elements}, {places})"
        )
    order = (*range(2, rank), 0, 1, *range(rank, len(shape)))
    rows = reshape(transpose(found, order), (*places, shape[0], elements))
    filters = transpose(w, (*range(2, rank), 0, 1))
    batch, last = tuple(range(rank - 2)), (rank - 1,)
    y = dot_general(rows, filters, (last, last), (batch, batch))
    return transpose(y, [(rank - 2, rank - 1, *range(rank - 2))[k] for k in _inverse(numbers.out_spec)])


# -- shapes ------------------------------------------------------------------------------------------------------------
def conv_shape_tuple(
    lhs_shape: Sequence[Any], rhs_shape: Sequence[Any], strides: Sequence[Any], pads: Any, batch_group_count: int = 1
) -> tuple[Any, ...]:
    """The shape of `conv` of such shapes.

    >>> tj.lax.conv_shape_tuple((8, 3, 10), (4, 3, 3), (2,), "SAME")
    (8, 4, 5)
    """
    return _result("conv_shape_tuple", lhs_shape, rhs_shape, strides, pads, batch_group_count)


def conv_general_shape_tuple(
    lhs_shape: Sequence[Any],
    rhs_shape: Sequence[Any],
    window_strides: Sequence[Any],
    padding: Any,
    dimension_numbers: Any,
) -> tuple[Any, ...]:
    """The shape of `conv_general_dilated` of such shapes.

    >>> tj.lax.conv_general_shape_tuple((8, 10, 3), (3, 3, 4), (2,), "SAME", ("NHC", "HIO", "NHC"))
    (8, 5, 4)
    """
    return _in_shape("conv_general_shape_tuple", lhs_shape, rhs_shape, window_strides, padding, dimension_numbers)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[Any],
    rhs_shape: Sequence[Any],
    window_strides: Sequence[Any],
    padding: Any,
    dimension_numbers: Any,
) -> tuple[Any, ...]:
    """The shape of `conv_transpose` of such shapes.

    >>> tj.lax.conv_transpose_shape_tuple((8, 5, 3), (3, 3, 4), (2,), "SAME", ("NHC", "HIO", "NHC"))
    (8, 10, 4)
    """
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    name = "conv_transpose_shape_tuple"
    stretch = integers(name, "window_strides", window_strides, len(lhs_shape) - 2, least=1)
    sizes, reach = _extents(tuple(lhs_shape), tuple(rhs_shape), numbers, (1,) * len(stretch))
    if isinstance(padding, str):
        padding = [_transposed_padding(k, s, padding.upper() == "SAME") for k, s in zip(reach, stretch, strict=True)]
    longer = list(lhs_shape)
    for a, n, s in zip(numbers.lhs_spec[2:], sizes, stretch, strict=True):
        longer[a] = dilated(n, s)
    return _in_shape(name, longer, rhs_shape, (1,) * len(stretch), padding, numbers)


def _in_shape(
    name: str, lhs: Sequence[Any], rhs: Sequence[Any], strides: Any, padding: Any, given: Any
) -> tuple[Any, ...]:
    numbers = conv_dimension_numbers(lhs, rhs, given)
    x, w = [lhs[a] for a in numbers.lhs_spec], [rhs[a] for a in numbers.rhs_spec]
    found = _result(name, x, w, strides, padding, 1)
    return tuple([found[k] for k in _inverse(numbers.out_spec)])


def _result(
    name: str, x: Sequence[Any], w: Sequence[Any], window_strides: Any, padding: Any, groups: int
) -> tuple[Any, ...]:
    strides = integers(name, "window_strides", window_strides, len(x) - 2, least=1)
    widths = pads(name, padding, x[2:], w[2:], strides)
    places = [window_count(n + a + b, k, s, 1) for n, k, s, (a, b) in zip(x[2:], w[2:], strides, widths, strict=True)]
    return (x[0] // groups, w[0], *places)
