"""Primitives that move elements without computing: broadcast, reshape, transpose, slice, reverse, concatenate, pad."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir import ranges as ranges_of
from tracejit.ir.extents import DimDependent, Extent, Shape, prod, same_extent, same_shape
from tracejit.ir.forms import Form, FormBuilder, Operand, Piece, Piecewise
from tracejit.ir.kernel import Operand as Scalar, index_const
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import PRIMITIVES
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["broadcast_in_dim", "check_inside", "concatenate", "pad", "reshape", "reverse", "slice_array", "transpose"]

_MOST_PIECES = 64  # arrays that one kernel puts together


class _Linear(Primitive):
    """A linear operation of its first operand: the tangent goes through the same operation."""

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), None if t is None else bind(self, t)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges[0]


def check_inside(name: str, x: ShapedArray, start: Shape, shape: Shape, step: tuple[int, ...]) -> None:
    """Raise ShapeError for elements outside of x, as far as extents are integers;
    others were checked where they were computed.
    """
    for d, (n, a, m, k) in enumerate(zip(x.shape, start, shape, step, strict=True)):
        if not (isinstance(n, int) and isinstance(a, int) and isinstance(m, int)) or m == 0:
            continue
        if m < 0 or not 0 <= a < n or not 0 <= a + (m - 1) * k < n:
            raise ShapeError(f"[{name}] {m} elements from {a} with step {k} do not lie inside axis {d} of {x}")


@frozen(eq=False)
class BroadcastInDim(_Linear):
    """Operand axis k becomes axis dims[k] of the result, repeated over all others.   x: [*s] -> [*shape]"""

    name = "broadcast_in_dim"
    gives_view = True
    shape: Shape
    dims: tuple[int, ...]

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if len(self.dims) != x.ndim or any(b <= a for a, b in zip(self.dims, self.dims[1:], strict=False)):
            raise ShapeError(f"[{self.name}] dims {self.dims} do not place the axes of {x} in order")
        for n, d in zip(x.shape, self.dims, strict=True):
            if not _is_one(n) and n != self.shape[d]:
                raise ShapeError(
                    f"[{self.name}] {x} cannot be broadcast to {self.shape}: axis of extent {n} meets {self.shape[d]}"
                )
        return x.with_shape(self.shape)

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        full = [1] * len(self.shape)
        for d, n in zip(self.dims, x.shape, strict=True):
            full[d] = n
        return np.broadcast_to(x.reshape(full), cast("tuple[int, ...]", self.shape))

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        zero = index_const(0)
        return b.map(
            self.shape,
            lambda i: x[
                tuple(
                    zero if _is_one(n) and not _is_one(self.shape[d]) else i[d]
                    for n, d in zip(x.shape, self.dims, strict=True)
                )
            ],
        )

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        aval = args[0].aval
        place = dict(zip(self.dims, aval.shape, strict=True))
        over = tuple(d for d, n in enumerate(self.shape) if d not in place or (_is_one(place[d]) and not _is_one(n)))
        return [reshape(PRIMITIVES.reduce_sum(ct, over), aval.shape) if over else ct]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        x = move_to_front(args[0], dims[0])
        return broadcast_in_dim(x, (size, *self.shape), (0, *[d + 1 for d in self.dims])), 0

    def simplify(self, *args: ArrayLike) -> int | None:
        return 0 if same_shape(args[0].aval.shape, self.shape) else None


def _is_one(n: Extent) -> bool:
    return isinstance(n, int) and n == 1


@frozen(eq=False)
class Reshape(_Linear):
    """The same elements in row-major order under another shape."""

    name = "reshape"
    gives_view = True
    shape: Shape

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if x.size != prod(self.shape):
            raise ShapeError(f"[{self.name}] {x} has {x.size} elements, which do not fit shape {self.shape}")
        return x.with_shape(self.shape)

    def impl(self, *args: ArrayLike) -> Result:
        return np.reshape(args[0], self.shape)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        if _is_zero(prod(self.shape)):  # no element to find; the index must lie in the loop that never runs
            empty = next(d for d, n in enumerate(self.shape) if _is_zero(n))
            return b.map(self.shape, lambda i: x[(i[empty],) * len(x.shape)])
        return b.map(self.shape, lambda i: x[tuple(_reindex(b, i, self.shape, x.shape))])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [reshape(ct, args[0].aval.shape)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        return reshape(move_to_front(args[0], dims[0]), (size, *self.shape)), 0

    def simplify(self, *args: ArrayLike) -> int | None:
        return 0 if same_shape(args[0].aval.shape, self.shape) else None


def _reindex(b: FormBuilder, index: Sequence[IndexLike], shape: Shape, target: Shape) -> list[Result]:
    """Indices under `target` of the element at `index` under `shape`, axis groups with equal products apart.

    Division is needed only inside a group that splits an axis; merging and unit axes cost no division.
    """
    zero = index_const(0)
    if any(isinstance(n, int) and n == 0 for n in shape):
        return [zero] * len(target)  # never run
    out: list[Any] = []
    s, t = 0, 0
    while s < len(shape) or t < len(target):
        if t < len(target) and _is_one(target[t]):
            out.append(zero)
            t += 1
            continue
        if s < len(shape) and _is_one(shape[s]):
            s += 1
            continue
        s0, t0 = s, t
        have: Extent = shape[s]
        want: Extent = target[t]
        s, t = s + 1, t + 1
        while not same_extent(have, want):
            if s < len(shape) and (t >= len(target) or _smaller(have, want)):
                have, s = have * shape[s], s + 1
            elif t < len(target):
                want, t = want * target[t], t + 1
            else:
                break
        flat: Any = zero
        for k in range(s0, s):
            flat = b.op("add", b.op("mul", flat, index_const(shape[k])), index[k])
        group = target[t0:t]
        parts: list[Any] = []
        for n in reversed(group[1:]):
            parts.append(b.op("irem", flat, index_const(n)))
            flat = b.op("idiv", flat, index_const(n))
        out += [flat, *reversed(parts)]
    return out


def _smaller(a: Extent, b: Extent) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    try:
        return a < b
    except DimDependent:  # undecided: either order ends at the full product
        return True


@frozen(eq=False)
class Transpose(_Linear):
    """Axis k of the result is axis perm[k] of the operand."""

    name = "transpose"
    gives_view = True
    perm: tuple[int, ...]

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if sorted(self.perm) != list(range(x.ndim)):
            raise ShapeError(f"[{self.name}] {self.perm} is not a permutation of the {x.ndim} axes of {x}")
        return x.with_shape(x.shape[p] for p in self.perm)

    def impl(self, *args: ArrayLike) -> Result:
        return np.transpose(args[0], self.perm)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        inverse = _inverse(self.perm)
        return b.map(b.out_avals[0].shape, lambda i: x[tuple(i[inverse[k]] for k in range(len(self.perm)))])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [transpose(ct, _inverse(self.perm))]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        return transpose(move_to_front(args[0], dims[0]), (0, *[p + 1 for p in self.perm])), 0

    def simplify(self, *args: ArrayLike) -> int | None:
        return 0 if self.perm == tuple(range(len(self.perm))) else None


def _inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    out = [0] * len(perm)
    for k, p in enumerate(perm):
        out[p] = k
    return tuple(out)


@frozen(eq=False)
class Slice(_Linear):
    """Elements start, start + step, ... along each axis, `shape` of them;
    a step may be negative.   x: [*s] -> [*shape]
    """

    name = "slice"
    gives_view = True
    start: Shape
    shape: Shape
    step: tuple[int, ...]

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if not len(self.start) == len(self.shape) == len(self.step) == x.ndim:
            raise ShapeError(f"[{self.name}] parameters do not fit the rank of {x}")
        check_inside(self.name, x, self.start, self.shape, self.step)
        return x.with_shape(self.shape)

    def _index(self) -> tuple[slice, ...]:
        out: list[slice] = []
        for a, n, k in zip(self.start, self.shape, self.step, strict=True):
            stop = a + n * k
            out.append(slice(0, 0) if n == 0 else slice(a, None if k < 0 and stop < 0 else stop, k))
        return tuple(out)

    def impl(self, *args: ArrayLike) -> Result:
        return np.asarray(args[0])[self._index()]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        return b.map(
            self.shape,
            lambda i: x[tuple(_affine(b, p, a, k) for p, a, k in zip(i, self.start, self.step, strict=True))],
        )

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        aval = args[0].aval
        zeros = PRIMITIVES.full(aval.shape, aval.dtype.type(0))
        return [PRIMITIVES.update_slice(zeros, ct, self.start, self.step)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        x = move_to_front(args[0], dims[0])
        return bind(Slice((0, *self.start), (size, *self.shape), (1, *self.step)), x), 0

    def simplify(self, *args: ArrayLike) -> int | None:
        plain = all(_is_zero(a) and k == 1 for a, k in zip(self.start, self.step, strict=True))
        return 0 if plain and same_shape(args[0].aval.shape, self.shape) else None


def _is_zero(n: Extent) -> bool:
    return isinstance(n, int) and n == 0


def _affine(b: FormBuilder, i: Scalar, start: Extent, step: int) -> Scalar:
    return b.op("add", b.op("mul", i, index_const(step)), index_const(start))


@frozen(eq=False)
class Concatenate(Primitive):
    """Operands one after the other along `axis`."""

    name = "concatenate"
    axis: int

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        first, a = avals[0], self.axis
        for x in avals[1:]:
            if x.ndim != first.ndim or x.shape[:a] + x.shape[a + 1 :] != first.shape[:a] + first.shape[a + 1 :]:
                raise ShapeError(f"[{self.name}] {first} and {x} differ outside of axis {a}")
            if x.dtype != first.dtype:
                raise DtypeError(f"[{self.name}] {first} and {x} differ in dtype")
        total: Extent = 0
        for x in avals:
            total = total + x.shape[a]
        return ShapedArray((*first.shape[:a], total, *first.shape[a + 1 :]), first.dtype)

    def impl(self, *args: ArrayLike) -> Result:
        return np.concatenate(args, axis=self.axis)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        domain, a = b.out_avals[0].shape, self.axis
        pieces: list[Piece] = []
        offset: Extent = 0
        for x in operands:
            end = offset + x.shape[a]
            at = index_const(offset)
            body = b.body(len(domain), lambda i, x=x, at=at: x[(*i[:a], b.op("sub", i[a], at), *i[a + 1 :])])
            lower = tuple(offset if d == a else 0 for d in range(len(domain)))
            upper = tuple(end if d == a else n for d, n in enumerate(domain))
            pieces.append(Piece(lower, upper, body))
            offset = end
        return Piecewise(domain, tuple(pieces))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        if all(t is None for t in tangents):
            return out, None
        full = [
            t if t is not None else PRIMITIVES.full(shape_of(p), aval_of_argument(p).dtype.type(0))
            for p, t in zip(primals, tangents, strict=True)
        ]
        return out, bind(self, *full)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        out: list[Any] = []
        offset: Extent = 0
        shape = shape_of(ct)
        for x in args:
            n = shape_of(x)[self.axis]
            start = tuple(offset if d == self.axis else 0 for d in range(len(shape)))
            sizes = tuple(n if d == self.axis else m for d, m in enumerate(shape))
            out.append(bind(Slice(start, sizes, (1,) * len(shape)), ct) if isinstance(x, UndefinedPrimal) else None)
            offset = offset + n
        return out

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        full = [
            move_to_front(a, d)
            if d is not None
            else broadcast_in_dim(a, (size, *shape_of(a)), tuple(range(1, len(shape_of(a)) + 1)))
            for a, d in zip(args, dims, strict=True)
        ]
        return bind(Concatenate(self.axis + 1), *full), 0

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return functools.reduce(ranges_of.either, ranges)

    def simplify(self, *args: ArrayLike) -> int | None:
        return 0 if len(args) == 1 else None


@frozen(eq=False)
class Pad(Primitive):
    """x with `low` and `high` elements of `value` (operand 1, rank 0) around each axis.

    x: [*s] -> [*s + low + high]
    """

    name = "pad"
    gives_view = True  # of diagonals of any size
    low: Shape
    high: Shape

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        x, value = avals
        if value.shape or value.dtype != x.dtype:
            raise ShapeError(f"[{self.name}] the padding value is {value}, not a scalar of {x.dtype}")
        if any(isinstance(n, int) and n < 0 for n in (*self.low, *self.high)):
            raise ShapeError(f"[{self.name}] widths {self.low} and {self.high} around {x} may not be negative")
        return x.with_shape(n + a + c for n, a, c in zip(x.shape, self.low, self.high, strict=True)).strong()

    def impl(self, *args: ArrayLike) -> Result:
        x, value = map(np.asarray, args)
        widths = cast("list[tuple[int, int]]", list(zip(self.low, self.high, strict=True)))
        return np.pad(x, widths, constant_values=value.item()) if x.ndim else x

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        x, value = operands
        domain = b.out_avals[0].shape
        inside = b.body(
            len(domain), lambda i: x[tuple(b.op("sub", p, index_const(a)) for p, a in zip(i, self.low, strict=True))]
        )
        outside = b.body(len(domain), lambda i: value[()])
        upper = tuple(a + n for a, n in zip(self.low, x.shape, strict=True))
        return Piecewise(domain, (Piece(self.low, upper, inside), Piece((0,) * len(domain), domain, outside)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        if all(t is None for t in tangents):
            return out, None
        zeros = [PRIMITIVES.full(shape_of(p), aval_of_argument(p).dtype.type(0)) for p in primals]
        return out, bind(self, *[z if t is None else t for t, z in zip(tangents, zeros, strict=True)])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, value = args
        inner = bind(Slice(self.low, shape_of(x), (1,) * len(self.low)), ct)
        rest = None
        if isinstance(value, UndefinedPrimal):
            every = tuple(range(len(self.low)))
            rest = PRIMITIVES.sub(PRIMITIVES.reduce_sum(ct, every), PRIMITIVES.reduce_sum(inner, every))
        return [inner if isinstance(x, UndefinedPrimal) else None, rest]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        x, value = args
        if dims[1] is None:
            return bind(Pad((0, *self.low), (0, *self.high)), move_to_front(x, dims[0]), value), 0
        if dims[0] is None:
            x = broadcast_in_dim(x, (size, *shape_of(x)), tuple(range(1, len(shape_of(x)) + 1)))
        x = move_to_front(x, dims[0])
        inner = bind(Pad((0, *self.low), (0, *self.high)), x, aval_of_argument(x).dtype.type(0))
        mask = bind(Pad((0, *self.low), (0, *self.high)), PRIMITIVES.full(shape_of(x), np.bool_(True)), np.bool_(False))
        return PRIMITIVES.select(mask, inner, broadcast_in_dim(move_to_front(value, dims[1]), shape_of(inner), (0,))), 0


# -- shorthands --------------------------------------------------------------------------------------------------------
def broadcast_in_dim(x: ArrayLike, shape: Shape, dims: tuple[int, ...]) -> Result:
    """x spread to `shape`, its axis k becoming axis dims[k]."""
    if same_shape(shape_of(x), tuple(shape)):
        return x
    return bind(BroadcastInDim(tuple(shape), tuple(dims)), x)


def reshape(x: ArrayLike, shape: Shape) -> Result:
    """The elements of x in order with another shape; x itself if it has it."""
    return x if same_shape(shape_of(x), tuple(shape)) else bind(Reshape(tuple(shape)), x)


def transpose(x: ArrayLike, perm: Sequence[int]) -> Result:
    """x with axis `perm[d]` as axis d; x itself if that is its order."""
    return x if tuple(perm) == tuple(range(len(perm))) else bind(Transpose(tuple(perm)), x)


def slice_array(x: ArrayLike, start: Shape, shape: Shape, step: tuple[int, ...] | None = None) -> Result:
    """`shape` elements from `start` with `step` along each axis."""
    return bind(Slice(tuple(start), tuple(shape), tuple(step or (1,) * len(shape))), x)


def reverse(x: ArrayLike, axes: Sequence[int]) -> Result:
    """x with the order of elements along `axes` reversed."""
    shape = shape_of(x)
    start = tuple(n - 1 if d in axes else 0 for d, n in enumerate(shape))
    return bind(Slice(start, shape, tuple(-1 if d in axes else 1 for d in range(len(shape)))), x)


def concatenate(arrays: Sequence[ArrayLike], axis: int) -> Result:
    """Arrays of one dtype after each other along `axis`; many of them group by group,
    so that no kernel reads too many.
    """
    while len(arrays) > _MOST_PIECES:
        arrays = [_joined(arrays[n : n + _MOST_PIECES], axis) for n in range(0, len(arrays), _MOST_PIECES)]
    return bind(Concatenate(axis), *arrays)


def _joined(arrays: Sequence[ArrayLike], axis: int) -> Result:
    return arrays[0] if len(arrays) == 1 else bind(Concatenate(axis), *arrays)


def pad(x: ArrayLike, value: ArrayLike, low: Sequence[Extent], high: Sequence[Extent]) -> Result:
    """x with `low[d]` elements `value` before and `high[d]` after it along each axis d."""
    return bind(Pad(tuple(low), tuple(high)), x, value)
