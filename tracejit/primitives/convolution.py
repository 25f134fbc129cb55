"""Convolutions: sums of products over windows of one array and a filter."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from tracejit.ir.extents import Extent, Shape, is_one, prod, same_extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import full
from tracejit.primitives.elementwise import add, convert, mul
from tracejit.primitives.reduction import reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, reshape, reverse, slice_array, transpose
from tracejit.primitives.slicing import update_slice
from tracejit.primitives.windows import dilated, surrounded, window_count, windows
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["ConvGeneralDilated"]

MOST_PHASES = 9  # kernels that share the places of a convolution with an array that is spread out
PHASED_WORK = 1_000_000  # multiply-adds, those with zeros included, from which on that is worth it
FEW_COLUMNS = 24  # so few places along the last axis make no columns of a product: output channels do

Labels: TypeAlias = "list[str]"
"""What the axes of an array are: n (batch), g (group), c and o (channels in and out), s0, s1, ... (places), k0, k1, ...
(of the filter).
"""


@frozen(eq=False)
class ConvGeneralDilated(Primitive):
    """For each output channel the sum of products of windows of x with the filter's channel.

    strides: of the windows; padding: zeros before and after each spatial axis of x (negative: elements cut off), after
    `lhs_dilation - 1` zeros were put between its elements; rhs_dilation: how far apart a window's elements lie.
    lhs_spec, rhs_spec, out_spec: which axes are (batch, channels, *spatial) of x and the result, and (channels out, in,
    *spatial) of the filter.  With feature_groups the channels of x come in so many groups, with batch_groups its
    batch; each has its part of the output channels.

    x: [batch, channels, *s], filter: [out, channels / feature_groups, *k] -> [batch / batch_groups, out, *places], with
    axes in the order of the specs.  float16 accumulates in float32.
    Source: XLA ConvGeneralDilated.
    """

    name = "conv_general_dilated"
    strides: tuple[Extent, ...]
    padding: tuple[tuple[Extent, Extent], ...]
    lhs_dilation: tuple[Extent, ...]
    rhs_dilation: tuple[Extent, ...]
    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]
    feature_groups: Extent = 1
    batch_groups: Extent = 1

    # -- shapes --------------------------------------------------------------------------------------------------------
    def _padded(self, shape: Shape) -> list[Extent]:
        """The spatial extents of x with what is put between and around its elements."""
        return [
            dilated(shape[a], d) + low + high
            for a, d, (low, high) in zip(self.lhs_spec[2:], self.lhs_dilation, self.padding, strict=True)
        ]

    def _places(self, x: Shape, w: Shape) -> list[Extent]:
        return [
            window_count(n, w[a], s, d)
            for n, a, s, d in zip(self._padded(x), self.rhs_spec[2:], self.strides, self.rhs_dilation, strict=True)
        ]

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        x, w = avals
        if x.dtype != w.dtype:
            raise DtypeError(f"[{self.name}] operands differ in dtype: {x} and {w}")
        if not x.ndim == w.ndim == len(self.lhs_spec):
            raise ShapeError(f"[{self.name}] operands differ in rank, or from the dimension numbers: {x} and {w}")
        (n, c), (o, i) = [[a.shape[d] for d in s[:2]] for a, s in ((x, self.lhs_spec), (w, self.rhs_spec))]
        if not same_extent(c, i * self.feature_groups) and c != i * self.feature_groups:
            raise ShapeError(
                f"[{self.name}] {x} has {c} channels, the filter {w} takes {i} in each of {self.feature_groups} groups"
            )
        groups = self.feature_groups * self.batch_groups
        if o % groups != 0 or n % self.batch_groups != 0:
            raise ShapeError(
                f"[{self.name}] {o} output channels of {w} or a batch of {n} in {x} cannot be shared out to {groups} "
                "groups"
            )
        out: list[Extent] = [0] * x.ndim
        for d, e in zip(self.out_spec, (n // self.batch_groups, o, *self._places(x.shape, w.shape)), strict=True):
            out[d] = e
        return ShapedArray(tuple(out), x.dtype)

    def impl(self, *args: ArrayLike) -> Result:
        x, w = np.transpose(args[0], self.lhs_spec), np.transpose(args[1], self.rhs_spec)
        dtype = x.dtype
        wide = np.float32 if dtype == np.float16 else dtype
        (n, c, *s), (o, _, *k) = x.shape, w.shape
        reach = [dilated(m, d) for m, d in zip(s, self.lhs_dilation, strict=True)]
        spread = np.zeros((n, c, *reach), wide)  # type: ignore[arg-type]
        spread[(..., *[slice(None, None, d) for d in self.lhs_dilation])] = x  # type: ignore[misc]
        for d, (low, high) in enumerate(self.padding, 2):
            widths = [(0, 0)] * d + [(max(low, 0), max(high, 0))] + [(0, 0)] * (x.ndim - d - 1)  # type: ignore[type-var]
            spread = np.pad(spread, widths)  # type: ignore[arg-type]
            stop = spread.shape[d] + min(high, 0)  # type: ignore[type-var]
            spread = spread[(slice(None),) * d + (slice(max(-low, 0), max(stop, 0)),)]  # type: ignore[type-var,misc]
        places = self._places(np.shape(args[0]), np.shape(args[1]))
        f, b = self.feature_groups, self.batch_groups
        g = f * b
        parts = spread.reshape(b, n // b, f, c // f, *spread.shape[2:])  # type: ignore[arg-type,operator]
        taps = w.reshape(b, f, o // g, c // f, *k).astype(wide)  # type: ignore[arg-type,operator]
        out = np.zeros((n // b, b, f, o // g, *places), wide)  # type: ignore[arg-type,operator]
        if 0 not in places:
            for at in np.ndindex(*k):
                box = [
                    slice(j * d, j * d + (m - 1) * t + 1, t)  # type: ignore[operator]
                    for j, d, m, t in zip(at, self.rhs_dilation, places, self.strides, strict=True)
                ]
                with np.errstate(all="ignore"):
                    out += np.einsum("bnfc...,bfoc->nbfo...", parts[(..., *box)], taps[(..., *at)])
        result = out.reshape(n // b, o, *places).astype(dtype)  # type: ignore[arg-type,operator]
        return np.transpose(result, np.argsort(self.out_spec))

    # -- compiled ------------------------------------------------------------------------------------------------------
    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return Expand(self.composed)

    def composed(self, x: ArrayLike, w: ArrayLike) -> Result:
        """The windows of x times the filter, as one product: where that packs x, it reads the windows."""
        dtype, spatial = aval_of_argument(x).dtype, range(len(self.strides))
        out_shape = self.abstract_eval(aval_of_argument(x), aval_of_argument(w)).shape
        places = [out_shape[d] for d in self.out_spec[2:]]
        if _has_none((*out_shape, *shape_of(x), *shape_of(w))):
            return full(out_shape, dtype.type(0))
        final = _labels(self.out_spec, "n", "o", "s")
        phased = self._phased(shape_of(x), shape_of(w), places)
        if phased:
            return self._by_phases(x, w, out_shape, phased)
        few = bool(places) and isinstance(places[-1], int) and places[-1] < FEW_COLUMNS
        features_last = few or not places or final[-1] == "o"
        x = self._surrounded(x, features_last)
        names = _labels(self.lhs_spec, "n", "c", "s") if not features_last else ["n", *[f"s{d}" for d in spatial], "c"]
        filter_names = _labels(self.rhs_spec, "o", "c", "k")
        groups = self.feature_groups * self.batch_groups
        if not is_one(groups):
            x, names = _split(x, names, "n" if not is_one(self.batch_groups) else "c", groups)
            w, filter_names = _split(w, filter_names, "o", groups)
        sizes = [shape_of(w)[filter_names.index(f"k{d}")] for d in spatial]
        moving = [d for d in spatial if not is_one(sizes[d]) or not is_one(self.strides[d])]
        if moving:
            axes = [names.index(f"s{d}") for d in moving]
            x = windows(
                x,
                axes,
                [sizes[d] for d in moving],
                [self.strides[d] for d in moving],
                [self.rhs_dilation[d] for d in moving],
            )
            names = [*names, *[f"k{d}" for d in moving]]
        still = [filter_names.index(f"k{d}") for d in spatial if d not in moving]
        w = reshape(w, tuple([n for a, n in enumerate(shape_of(w)) if a not in still]))
        filter_names = [name for a, name in enumerate(filter_names) if a not in still]
        y, have = self._multiplied(x, names, w, filter_names, features_last)
        want = [name for label in final for name in (("g", "o") if label == "o" and "g" in have else (label,))]
        return reshape(_in_order(y, have, want), out_shape)

    def _phased(self, x: Shape, w: Shape, places: Sequence[Extent]) -> list[int]:
        """The axes along which places are computed in turn, as each sees a part of the filter only.

        The others would be multiplied with the zeros between elements of x.  None where it is not worth kernels of
        their own.
        """
        found: list[int] = []
        kernels = 1
        for d, (apart, (low, _), step, further) in enumerate(
            zip(self.lhs_dilation, self.padding, self.strides, self.rhs_dilation, strict=True)
        ):
            known = all(isinstance(n, int) for n in (apart, low, w[self.rhs_spec[2 + d]]))
            if known and isinstance(apart, int) and apart > 1 and is_one(step) and is_one(further):
                found.append(d)
                kernels *= apart
        work = prod([*w, *places, x[self.lhs_spec[0]]])
        return found if kernels <= MOST_PHASES and isinstance(work, int) and work >= PHASED_WORK else []

    def _by_phases(self, x: ArrayLike, w: ArrayLike, out_shape: Shape, axes: list[int]) -> Result:
        """Place `q * apart + r` sees the elements `j0 + t * apart` of the filter, with those of x from `q` on."""
        out = full(out_shape, aval_of_argument(x).dtype.type(0))
        step, every = [1] * len(out_shape), [1] * len(out_shape)  # of places, and of elements of the filter
        for d in axes:
            step[self.out_spec[2 + d]] = every[self.rhs_spec[2 + d]] = cast("int", self.lhs_dilation[d])
        for turn in itertools.product(*[range(cast("int", self.lhs_dilation[d])) for d in axes]):
            padding, apart = list(self.padding), list(self.lhs_dilation)
            start, begin, extents = [0] * len(out_shape), [0] * len(out_shape), list(shape_of(w))
            counts: list[Extent] = []
            for d, r in zip(axes, turn, strict=True):
                low, dilation = cast("int", self.padding[d][0]), cast("int", self.lhs_dilation[d])
                first = (low - r) % dilation
                a, b, c = self.lhs_spec[2 + d], self.rhs_spec[2 + d], self.out_spec[2 + d]
                taps = len(range(first, cast("int", extents[b]), dilation))
                count = -((r - out_shape[c]) // dilation)
                before = (low - r - first) // dilation
                padding[d], apart[d] = (before, count - 1 + taps - before - shape_of(x)[a]), 1
                start[c], begin[b], extents[b] = r, first, taps
                counts += [taps, count]
            if _has_none(tuple(counts)):
                continue
            part = slice_array(w, tuple(begin), tuple(extents), tuple(every))
            y = bind(evolve(self, padding=tuple(padding), lhs_dilation=tuple(apart)), x, part)
            out = update_slice(out, y, tuple(start), tuple(step))
        return out

    def _surrounded(self, x: ArrayLike, channels_last: bool) -> Result:
        """x with zeros between and around its elements."""
        names = _labels(self.lhs_spec, "n", "c", "s")
        want = ["n", *[f"s{d}" for d in range(len(self.strides))], "c"] if channels_last else names
        widths: list[tuple[Extent, Extent]] = [(0, 0)] * len(want)
        apart: list[Extent] = [1] * len(want)
        for d, (pair, dilation) in enumerate(zip(self.padding, self.lhs_dilation, strict=True)):
            widths[want.index(f"s{d}")], apart[want.index(f"s{d}")] = pair, dilation
        return surrounded(_in_order(x, names, want), aval_of_argument(x).dtype.type(0), widths, apart)

    def _multiplied(
        self, x: ArrayLike, names: Labels, w: ArrayLike, filter_names: Labels, features_last: bool
    ) -> tuple[Result, Labels]:
        """The product and what its axes are."""
        sizes = {**dict(zip(filter_names, shape_of(w), strict=True)), **dict(zip(names, shape_of(x), strict=True))}
        # in the order in which elements lie in x
        contracted = [
            name
            for label in names
            for name in ([label] if label == "c" else [f"k{label[1:]}"] if label[0] == "s" else [])
            if name in filter_names and name in names
        ]
        group = ["g"] if "g" in names else []
        if group and (is_one(sizes["c"]) or is_one(sizes["o"])):
            order = [
                d for label in _labels(self.out_spec, "n", "o", "s") for d in (("g", "o") if label == "o" else (label,))
            ]
            every = [*order, *contracted]
            dtype = aval_of_argument(x).dtype
            wide = np.dtype(np.float32) if dtype == np.float16 else dtype
            shape = tuple([sizes[name] for name in every])
            one, other = (_spread(convert(z, wide), have, every, shape) for z, have in ((x, names), (w, filter_names)))
            axes = tuple(range(len(order), len(every)))
            return convert(_total(mul(one, other), axes), dtype), order
        batch = group if features_last else [*group, "n"]
        if not features_last:
            # the filter is the same for each element of the batch: rows are channels, columns places
            filter_names = ["n", *filter_names]
            w = broadcast_in_dim(w, (sizes["n"], *shape_of(w)), tuple(range(1, len(filter_names))))
        left, right = (x, names), (w, filter_names)
        if not features_last:
            left, right = right, left
        (a, a_names), (b, b_names) = left, right
        at = lambda have, labels: tuple([have.index(label) for label in labels])  # noqa: E731
        y = dot_general(
            a, b, (at(a_names, contracted), at(b_names, contracted)), (at(a_names, batch), at(b_names, batch))
        )
        free = [[label for label in have if label not in (*batch, *contracted)] for have in (a_names, b_names)]
        return y, [*batch, *free[0], *free[1]]

    # -- derivatives ---------------------------------------------------------------------------------------------------
    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (x, w), (s, t) = primals, tangents
        parts = [bind(self, *pair) for pair in ((s, w), (x, t)) if pair[0] is not None and pair[1] is not None]
        return bind(self, x, w), None if not parts else parts[0] if len(parts) == 1 else add(*parts)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, w = args
        linear = x if isinstance(x, UndefinedPrimal) else w
        if _has_none(shape_of(ct)):  # no window, so nothing that the extents of other operands would follow from
            found = full(shape_of(linear), aval_of_argument(ct).dtype.type(0))
        elif linear is x:
            found = self._to_lhs(ct, shape_of(x), w)
        else:
            found = self._to_rhs(ct, x, shape_of(w))
        return [found, None] if linear is x else [None, found]

    def _reaches(self, ct: ArrayLike, x: Shape, w: Shape) -> list[tuple[Extent, Extent, Extent]]:
        """How far the elements of x, of the filter and of the cotangent reach along each spatial axis."""
        y = shape_of(ct)
        return [
            (dilated(x[a], ld), dilated(w[b], rd), dilated(y[c], s))
            for a, ld, b, rd, c, s in zip(
                self.lhs_spec[2:], self.lhs_dilation, self.rhs_spec[2:], self.rhs_dilation, self.out_spec[2:],
                self.strides, strict=True,
            )
        ]  # fmt: skip

    def _to_lhs(self, ct: ArrayLike, shape: Shape, w: ArrayLike) -> Result:
        """Windows of the cotangent, its elements as far apart as windows were, times the filter turned around."""
        reaches = self._reaches(ct, shape, shape_of(w))
        padding = tuple([(k - 1 - low, n - y + low) for (n, k, y), (low, _) in zip(reaches, self.padding, strict=True)])
        o, i = self.rhs_spec[:2]
        w = reverse(w, self.rhs_spec[2:]) if self.strides else w
        groups = self.feature_groups * self.batch_groups
        if not is_one(groups):
            w = _moved_groups(w, o, i, groups)
        back = ConvGeneralDilated(
            self.lhs_dilation, padding, self.strides, self.rhs_dilation, self.out_spec, (i, o, *self.rhs_spec[2:]),
            self.lhs_spec, groups,
        )  # fmt: skip
        found = bind(back, ct, w)
        if not is_one(self.batch_groups):
            found = _moved_groups(found, self.lhs_spec[1], self.lhs_spec[0], groups)
        return found

    def _to_rhs(self, ct: ArrayLike, x: ArrayLike, shape: Shape) -> Result:
        """Windows of x as far apart as elements of the filter were, times the cotangent; channels are the batch."""
        reaches = self._reaches(ct, shape_of(x), shape)
        padding = tuple([(low, y + k - 1 - n - low) for (n, k, y), (low, _) in zip(reaches, self.padding, strict=True)])
        (n, c, *s), (o, i, *k), (m, f, *p) = self.lhs_spec, self.rhs_spec, self.out_spec
        across = ConvGeneralDilated(
            self.rhs_dilation, padding, self.lhs_dilation, self.strides, (c, n, *s), (f, m, *p), (i, o, *k),
            self.batch_groups, self.feature_groups,
        )  # fmt: skip
        return bind(across, x, ct)

    # -- batches -------------------------------------------------------------------------------------------------------
    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        x, w = (move_to_front(a, d) for a, d in zip(args, dims, strict=True))
        (n, c), (o, _), (m, f) = self.lhs_spec[:2], self.rhs_spec[:2], self.out_spec[:2]
        groups = self.feature_groups * self.batch_groups
        if dims[1] is None:  # more elements of the batch, in each of its groups
            return _unmerged(bind(self, _merged(x, n, self.batch_groups), w), m, 1, size), 0
        if dims[0] is None:  # more output channels, in each group
            return _unmerged(bind(self, x, _merged(w, o, groups)), f, groups, size), 0
        if is_one(self.batch_groups):
            same, x = evolve(self, feature_groups=self.feature_groups * size), _merged(x, c, 1)
        else:
            same, x = evolve(self, batch_groups=self.batch_groups * size), _merged(x, n, 1)
        return _unmerged(bind(same, x, _merged(w, o, 1)), f, 1, size), 0


# -- axes --------------------------------------------------------------------------------------------------------------
def _labels(spec: Sequence[int], first: str, second: str, others: str) -> Labels:
    """What each axis is."""
    out = [""] * len(spec)
    for d, name in zip(spec, (first, second, *[f"{others}{k}" for k in range(len(spec) - 2)]), strict=True):
        out[d] = name
    return out


def _in_order(x: ArrayLike, have: Labels, want: Labels) -> Result:
    return transpose(x, [have.index(name) for name in want])


def _spread(x: ArrayLike, have: Labels, want: Labels, shape: Shape) -> Result:
    """x with its axes in the order of `want`, repeated over those that it has not."""
    mine = [name for name in want if name in have]
    places = tuple([want.index(name) for name in mine])
    return broadcast_in_dim(_in_order(x, have, mine), shape, places)


def _split(x: ArrayLike, names: Labels, label: str, groups: Extent) -> tuple[Result, Labels]:
    """The axis as two: the group, and the place in it."""
    a, shape = names.index(label), shape_of(x)
    return reshape(x, (*shape[:a], groups, shape[a] // groups, *shape[a + 1 :])), [*names[:a], "g", *names[a:]]


def _moved_groups(x: ArrayLike, source: int, target: int, groups: Extent) -> Result:
    """x with the groups of one axis as groups of another."""
    shape = list(shape_of(x))
    split = reshape(x, (*shape[:source], groups, shape[source] // groups, *shape[source + 1 :]))
    rest = [d for d in range(len(shape) + 1) if d != source]
    at = rest.index(target if target < source else target + 1)
    shape[source], shape[target] = shape[source] // groups, groups * shape[target]
    return reshape(transpose(split, [*rest[:at], source, *rest[at:]]), tuple(shape))


def _merged(x: ArrayLike, axis: int, groups: Extent) -> Result:
    """x, mapped over its first axis, with that inside of each group of an axis of the others."""
    size, *shape = shape_of(x)
    whole = (*shape[:axis], size * shape[axis], *shape[axis + 1 :])
    split = reshape(x, (size, *shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]))
    order = [*range(1, axis + 2), 0, *range(axis + 2, len(shape) + 2)]
    return reshape(transpose(split, order), whole)


def _unmerged(y: ArrayLike, axis: int, groups: Extent, size: Extent) -> Result:
    """The mapped axis taken out of each group of an axis again, and put first."""
    shape = list(shape_of(y))
    inner = shape[axis] // (groups * size)
    split = reshape(y, (*shape[:axis], groups, size, inner, *shape[axis + 1 :]))
    order = [axis + 1, *range(axis + 1), *range(axis + 2, len(shape) + 2)]
    return reshape(transpose(split, order), (size, *shape[:axis], groups * inner, *shape[axis + 1 :]))


def _has_none(shape: Shape) -> bool:
    return any(isinstance(n, int) and n == 0 for n in shape)


def _total(x: ArrayLike, axes: tuple[int, ...]) -> Any:
    """The sum over axes; of truth values whether one is true."""
    from tracejit.primitives.reduction import reduce_max

    return (reduce_max if aval_of_argument(x).dtype == np.bool_ else reduce_sum)(x, axes)
