"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tracejit.ir.extents import Extent, Shape, is_empty
from tracejit.ir.forms import Form, FormBuilder, Operand, Reduce
from tracejit.ir.kernel import Const, Operand as Scalar
from tracejit.ir.math.complex import lexicographic
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.scalar import is_complex, is_float, numpy_dtype
from tracejit.ir.types import ShapedArray
from tracejit.primitives.arithmetic import greater_complex, lesser_complex
from tracejit.primitives.comparison import Eq
from tracejit.primitives.elementwise import convert, div, mul, select
from tracejit.primitives.shape import broadcast_in_dim, concatenate, reshape, slice_array, transpose
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import PRIMITIVES
from tracejit.tracer.transpose import shape_of

__all__ = ["reduce_max", "reduce_min", "reduce_prod", "reduce_sum"]


def _kept(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def _merge(i: Sequence[Scalar], k: Sequence[Scalar], axes: tuple[int, ...], rank: int) -> tuple[Scalar, ...]:
    """Operand index from kept indices i and reduced indices k."""
    outer, inner = iter(i), iter(k)
    return tuple(next(inner) if d in axes else next(outer) for d in range(rank))


def _spread(x: ArrayLike, shape: Shape, axes: tuple[int, ...]) -> Result:
    """A reduced value back over the reduced axes."""
    return broadcast_in_dim(x, shape, tuple(d for d in range(len(shape)) if d not in axes))


def extreme(dtype: str, sign: int) -> Any:
    """The least (-1) or greatest (+1) value of a dtype, infinities included: the identity of max or min."""
    if dtype == "bool":
        return sign > 0
    if is_float(dtype):
        return sign * float("inf")
    if is_complex(dtype):
        return complex(sign * float("inf"), sign * float("inf"))
    info = np.iinfo(numpy_dtype(dtype))
    return int(info.max if sign > 0 else info.min)


def wider(dtype: str) -> str:
    """The dtype a sum accumulates in: float16 in float32, all others in their own."""
    return "f32" if dtype == "f16" else dtype


class _Reduction(Primitive):
    axes: tuple[int, ...]
    op: ClassVar[str]
    empty_ok: ClassVar[bool] = True

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if len(set(self.axes)) != len(self.axes) or any(not 0 <= a < x.ndim for a in self.axes):
            raise ShapeError(f"[{self.name}] axes {self.axes} are not axes of {x}")
        if not self.empty_ok and any(is_empty(x.shape[a]) for a in self.axes):
            raise ShapeError(f"[{self.name}] zero-size array {x} has no identity for this reduction")
        return x.with_shape(_kept(x.shape, self.axes)).strong()

    def identity(self, dtype: str) -> Result:
        raise NotImplementedError

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        rank, dtype = len(x.shape), wider(x.dtype)
        over = tuple(x.shape[a] for a in sorted(self.axes))
        axes = tuple(sorted(self.axes))
        finish = None if dtype == x.dtype else (lambda r, acc: r.op("convert", acc, dtype=x.dtype))
        return b.reduce(
            _kept(x.shape, axes),
            over,
            lambda i, k: b.op("convert", x[_merge(i, k, axes, rank)], dtype=dtype),
            [Const(self.identity(dtype), dtype)],
            lambda r, acc, e: self.combine(r, acc[0], e[0]),
            finish,
        )

    def combine(self, r: ArrayLike, acc: ArrayLike, element: ArrayLike) -> Result:
        return r.op(self.op, acc, element)

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        make: Any = type(self)
        return bind(make(tuple(a + 1 for a in self.axes)), move_to_front(args[0], dims[0])), 0

    def simplify(self, *args: ArrayLike) -> int | None:
        return 0 if not self.axes else None


@frozen(eq=False)
class ReduceSum(_Reduction):
    """The sum over `axes`; wraps around for integers, accumulated in f32 for f16.

    x: number[*s] -> number[s without axes]
    """

    name = "reduce_sum"
    axes: tuple[int, ...]
    op = "add"

    def identity(self, dtype: str) -> Result:
        return 0

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        if avals[0].dtype == np.bool_:
            raise DtypeError(f"[{self.name}] does not accept bool; convert it to an integer type first")
        return super().abstract_eval(*avals)

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        return np.sum(x, axis=self.axes, dtype=x.dtype)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), None if t is None else bind(self, t)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [_spread(ct, args[0].aval.shape, self.axes)]


@frozen(eq=False)
class ReduceProd(_Reduction):
    """The product over `axes`; wraps around for integers."""

    name = "reduce_prod"
    axes: tuple[int, ...]

    def combine(self, r: ArrayLike, acc: ArrayLike, element: ArrayLike) -> Result:
        return r.op("and" if acc.dtype == "bool" else "mul", acc, element)

    def identity(self, dtype: str) -> Result:
        return True if dtype == "bool" else 1

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        with np.errstate(all="ignore"):
            return np.prod(x, axis=self.axes, dtype=x.dtype)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (x,), (t,) = primals, tangents
        out = bind(self, x)
        if t is None:
            return out, None
        # Products of all others from both sides, right where elements are zero: reduced axes last, as one.
        shape, rank = shape_of(x), len(shape_of(x))
        kept = tuple(d for d in range(rank) if d not in self.axes)
        order = (*kept, *sorted(self.axes))
        outer = tuple(shape[d] for d in kept)
        total: Extent = 1
        for a in self.axes:
            total = total * shape[a]
        if isinstance(total, int) and total == 0:  # the product of nothing, or nothing
            return out, reduce_sum(t, self.axes)
        y = reshape(transpose(x, order), (*outer, total))
        s = reshape(transpose(t, order), (*outer, total))
        one = broadcast_in_dim(aval_of_argument(x).dtype.type(1), (*outer, 1), ())
        last = len(outer)
        inner = (*outer, total - 1)
        front = PRIMITIVES.cumulative("cumprod", y, last)
        before = concatenate([one, slice_array(front, (0,) * (last + 1), inner)], last)
        back = PRIMITIVES.cumulative("cumprod", y, last, reverse_order=True)
        after = concatenate([slice_array(back, (*(0,) * last, 1), inner), one], last)
        return out, reduce_sum(mul(s, mul(before, after)), (last,))


class _Extremum(_Reduction):
    empty_ok = False

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (x,), (t,) = primals, tangents
        out = bind(self, x)
        if t is None:
            return out, None
        # The tangents of all places where the extremum is taken, averaged.  Source: JAX's convention.
        where = bind(Eq(), x, _spread(out, shape_of(x), self.axes))
        dtype = aval_of_argument(x).dtype
        hit = convert(where, dtype)
        count = reduce_sum(hit, self.axes)
        if not all(isinstance(shape_of(x)[a], int) for a in self.axes):  # of no elements none is the extremum
            some = select(bind(Eq(), count, dtype.type(0)), dtype.type(1), count)
            count = select(bind(Eq(), out, out), some, count)
        picked = reduce_sum(select(where, t, dtype.type(0)), self.axes)
        return out, div(picked, count)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges[0]


@frozen(eq=False)
class ReduceMax(_Extremum):
    """The maximum over `axes`; NaN if there is one.  Raises ShapeError for an empty axis."""

    name = "reduce_max"
    axes: tuple[int, ...]

    def identity(self, dtype: str) -> Result:
        return extreme(dtype, -1)

    def impl(self, *args: ArrayLike) -> Result:
        return np.max(args[0], axis=self.axes)

    def combine(self, r: ArrayLike, acc: ArrayLike, element: ArrayLike) -> Result:
        if is_complex(acc.dtype):
            return greater_complex(r, acc, element)
        return r.op("or" if acc.dtype == "bool" else "max", *((element, acc) if acc.dtype == "f16" else (acc, element)))


@frozen(eq=False)
class ReduceMin(_Extremum):
    """The minimum over `axes`; NaN if there is one.  Raises ShapeError for an empty axis."""

    name = "reduce_min"
    axes: tuple[int, ...]

    def identity(self, dtype: str) -> Result:
        return extreme(dtype, 1)

    def impl(self, *args: ArrayLike) -> Result:
        return np.min(args[0], axis=self.axes)

    def combine(self, r: ArrayLike, acc: ArrayLike, element: ArrayLike) -> Result:
        if is_complex(acc.dtype):
            return lesser_complex(r, acc, element)
        return r.op(
            "and" if acc.dtype == "bool" else "min", *((element, acc) if acc.dtype == "f16" else (acc, element))
        )


class _Arg(Primitive):
    """The index of the first extremum along one axis, or of the first NaN.   x: [*s] -> i64[s without axis]"""

    axis: int
    better: ClassVar[str]

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if not 0 <= self.axis < x.ndim:
            raise ShapeError(f"[{self.name}] {self.axis} is not an axis of {x}")
        if is_empty(x.shape[self.axis]):
            raise ShapeError(f"[{self.name}] an empty axis of {x} has no extremum")
        return ShapedArray(_kept(x.shape, (self.axis,)), np.int64)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        extent, rank = x.shape[self.axis], len(x.shape)
        narrow = "i32" if isinstance(extent, int) and extent < 2**31 else "i64"
        worst = extreme(x.dtype, -1 if self.better == "gt" else 1)
        wide = "u8" if x.dtype == "bool" else x.dtype

        def is_better(r: ArrayLike, new: ArrayLike, old: ArrayLike) -> Result:
            """Strictly better, a NaN better than any number."""
            if is_complex(wide):
                unordered = r.op("not", lexicographic("le" if self.better == "gt" else "ge", r, new, old))
                return r.op("and", unordered, r.op("eq", old, old))
            if not is_float(wide):
                return r.op(self.better, new, old)
            unordered = r.op("not", r.op("le" if self.better == "gt" else "ge", new, old))
            return r.op("and", unordered, r.op("eq", old, old))

        def step(r: Any, v: Scalar, at: Scalar, new: Scalar, k: Scalar) -> Any:
            take = is_better(r, new, v)
            return r.op("select", take, new, v), r.op("select", take, k, at)

        def combine(r: ArrayLike, acc: ArrayLike, e: ArrayLike) -> Result:
            (v, at), (new, k) = acc, e
            earlier = r.op("and", r.op("not", is_better(r, v, new)), r.op("lt", k, at))
            take = r.op("or", is_better(r, new, v), earlier)
            return r.op("select", take, new, v), r.op("select", take, k, at)

        from tracejit.ir.builder import make_lambda

        # The first of elements that are all the worst has index 0, so the start needs no mark of its own.
        init = (Const(int(worst) if wide == "u8" else worst, wide), Const(0, narrow))
        axes = (self.axis,)
        form = b.reduce(
            _kept(x.shape, axes),
            (extent,),
            lambda i, k: (
                b.op("convert", x[_merge(i, k, axes, rank)], dtype=wide),
                b.op("convert", k[0], dtype=narrow),
            ),
            init,
            combine,
            lambda r, v, at: r.op("convert", at, dtype="i64"),
        )
        fold = make_lambda([wide, narrow, wide, narrow], step)
        return Reduce(form.domain, form.over, form.body, form.init, form.combine, form.finish, fold)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        return bind(self, *primals), None

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        make: Any = type(self)
        return bind(make(self.axis + 1), move_to_front(args[0], dims[0])), 0

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return 0, avals[0].shape[self.axis] - 1


@frozen(eq=False)
class ArgMax(_Arg):
    """The index of the first maximum along `axis`.   x: [*s] -> i64[s without axis]"""

    name = "argmax"
    axis: int
    better = "gt"

    def impl(self, *args: ArrayLike) -> Result:
        return np.argmax(args[0], axis=self.axis)


@frozen(eq=False)
class ArgMin(_Arg):
    """The index of the first minimum along `axis`.   x: [*s] -> i64[s without axis]"""

    name = "argmin"
    axis: int
    better = "lt"

    def impl(self, *args: ArrayLike) -> Result:
        return np.argmin(args[0], axis=self.axis)


def reduce_sum(x: ArrayLike, axes: Sequence[int]) -> Result:
    """Sum over `axes`; x itself if there are none."""
    return bind(ReduceSum(tuple(axes)), x) if axes else x


def reduce_prod(x: ArrayLike, axes: Sequence[int]) -> Result:
    """Product over `axes`; x itself if there are none."""
    return bind(ReduceProd(tuple(axes)), x) if axes else x


def reduce_max(x: ArrayLike, axes: Sequence[int]) -> Result:
    """Maximum over `axes`; x itself if there are none."""
    return bind(ReduceMax(tuple(axes)), x) if axes else x


def reduce_min(x: ArrayLike, axes: Sequence[int]) -> Result:
    """Minimum over `axes`; x itself if there are none."""
    return bind(ReduceMin(tuple(axes)), x) if axes else x
