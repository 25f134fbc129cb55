"""Running sums, products and extrema along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tracejit.ir.builder import ScalarRecorder, make_lambda
from tracejit.ir.extents import Extent, is_empty
from tracejit.ir.forms import Form, FormBuilder, Operand, Scan
from tracejit.ir.kernel import Const, Operand as Scalar
from tracejit.ir.primitive import Primitive
from tracejit.ir.scalar import is_complex
from tracejit.ir.types import ShapedArray
from tracejit.primitives.arithmetic import greater_complex, lesser_complex
from tracejit.primitives.comparison import And, Eq, Ge, Le, Ne, Not, Or
from tracejit.primitives.elementwise import convert, mul, select, zero_like
from tracejit.primitives.reduction import extreme, reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, transpose
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["cumulative"]


SHORT = 16  # elements up to which the derivative of cumprod is a table of all pairs


class _Cumulative(Primitive):
    """A running fold along `axis`, from the end with `reverse`."""

    axis: int
    reverse: bool
    op: ClassVar[str]

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if not 0 <= self.axis < x.ndim:
            raise ShapeError(f"[{self.name}] {self.axis} is not an axis of {x}")
        if x.dtype == np.bool_:
            raise DtypeError(f"[{self.name}] does not accept bool; convert it to an integer type first")
        return x.strong()

    def identity(self, dtype: str) -> Result:
        raise NotImplementedError

    def accumulate(self, x: ArrayLike) -> Result:
        raise NotImplementedError

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        flip = (slice(None),) * self.axis + (slice(None, None, -1),)
        with np.errstate(all="ignore"):
            return self.accumulate(x[flip])[flip] if self.reverse else self.accumulate(x)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        dtype = x.dtype
        return Scan(
            x.shape,
            self.axis,
            b.body(len(x.shape), lambda i: x[i]),
            (Const(self.identity(dtype), dtype),),
            b.combiner([dtype], lambda r, acc, e: self.combine(r, acc[0], e[0])),
            self.reverse,
            ordered=self.op == "mul" and dtype[0] in "fc",
        )

    def combine(self, r: ScalarRecorder, acc: Scalar, element: Scalar) -> Scalar:
        if is_complex(acc.dtype) and self.op in ("max", "min"):
            return (greater_complex if self.op == "max" else lesser_complex)(r, acc, element)
        return r.op(self.op, acc, element)

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        make: Any = type(self)
        return bind(make(self.axis + 1, self.reverse), move_to_front(args[0], dims[0])), 0


@frozen(eq=False)
class CumSum(_Cumulative):
    """Running sums along `axis`."""

    name = "cumsum"
    axis: int
    reverse: bool = False
    op = "add"

    def identity(self, dtype: str) -> Result:
        # a sum of negative zeros is one
        return -0.0 if dtype[0] == "f" else complex(-0.0, -0.0) if is_complex(dtype) else 0

    def accumulate(self, x: ArrayLike) -> Result:
        return np.cumsum(x, axis=self.axis, dtype=x.dtype)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), None if t is None else bind(self, t)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [bind(CumSum(self.axis, not self.reverse), ct)]


@frozen(eq=False)
class CumProd(_Cumulative):
    """Running products along `axis`."""

    name = "cumprod"
    axis: int
    reverse: bool = False
    op = "mul"

    def identity(self, dtype: str) -> Result:
        return 1

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        """Of complex numbers the first is taken as it is: 1 times an infinite one has a part that is NaN."""
        (x,) = operands
        if not is_complex(x.dtype):
            return super().lower(b, *operands)
        axis = self.axis
        start = b.extent(x.shape[axis] - 1 if self.reverse else 0)

        def element(i: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
            return x[i], b.op("eq", i[axis], start)

        def joined(r: ScalarRecorder, product: Scalar, e: Scalar, first: Scalar) -> Scalar:
            return r.op("select", first, e, r.op("mul", product, e))

        combine = make_lambda([x.dtype, x.dtype, "bool"], joined)
        init = (Const(1, x.dtype),)
        return Scan(x.shape, axis, b.body(len(x.shape), element), init, combine, self.reverse, ordered=True)

    def accumulate(self, x: ArrayLike) -> Result:
        return np.cumprod(x, axis=self.axis, dtype=x.dtype)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (x,), (t,) = primals, tangents
        out = bind(self, x)
        if t is None:
            return out, None
        if isinstance(shape_of(x)[self.axis], int) and shape_of(x)[self.axis] <= SHORT:
            return out, self._tangent_of_few(x, t)
        # p_k = p_k-1 * x_k, so dp_k = dp_k-1 * x_k + p_k-1 * t_k: right where elements are zero, and linear work.
        before = _shifted(out, self.axis, self.reverse, aval_of_argument(x).dtype.type(1))
        return out, _linear_recurrence(x, mul(before, t), self.axis, self.reverse)

    def _tangent_of_few(self, x: ArrayLike, t: ArrayLike) -> Result:
        """d p_k = sum over j <= k of t_j * prod over i <= k, i != j of x_i: a pairwise table, one kernel."""
        from tracejit.primitives.creation import iota

        shape, a = shape_of(x), self.axis
        n, rank = shape[a], len(shape_of(x))
        wide = (*shape[: a + 1], n, *shape[a + 1 :])
        source = tuple(d if d < a else d + 1 for d in range(rank))  # x_i along axis a + 1
        over = broadcast_in_dim(x, wide, source)
        j, i = iota(wide, a, np.int64), iota(wide, a + 1, np.int64)
        dtype = aval_of_argument(x).dtype
        others = bind(type(self)(a + 1, self.reverse), select(bind(Eq(), i, j), dtype.type(1), over))
        seen = bind(Ge(), j, i) if self.reverse else bind(Le(), j, i)
        along = broadcast_in_dim(t, wide, tuple(d if d <= a else d + 1 for d in range(rank)))
        return reduce_sum(select(seen, mul(along, others), dtype.type(0)), (a,))


def _shifted(x: ArrayLike, axis: int, reverse: bool, first: ArrayLike) -> Result:
    """x one place on along `axis` (towards the start with `reverse`), `first` where nothing comes."""
    from tracejit.primitives.shape import pad, slice_array

    shape = shape_of(x)
    if is_empty(shape[axis]):
        return x
    inner = tuple(n - 1 if d == axis else n for d, n in enumerate(shape))
    start, before, after = ([0] * len(shape) for _ in range(3))
    start[axis], before[axis], after[axis] = (1, 0, 1) if reverse else (0, 1, 0)
    return pad(slice_array(x, tuple(start), inner), first, before, after)


def _linear_recurrence(x: ArrayLike, u: ArrayLike, axis: int, reverse: bool) -> Result:
    """y_k = y_k-1 * x_k + u_k along `axis`: linear in u."""
    from tracejit.primitives.counted_loop import Loop
    from tracejit.primitives.elementwise import add
    from tracejit.tracer.stage import stage

    rank = len(shape_of(x))
    order = (axis, *[d for d in range(rank) if d != axis])
    rows, news = transpose(x, order), transpose(u, order)
    aval = aval_of_argument(rows)
    row = ShapedArray(aval.shape[1:], aval.dtype)

    def step(_: ArrayLike, y: ArrayLike, factor: ArrayLike, new: ArrayLike) -> list[Result]:
        out = add(mul(y, factor), new)
        return [out, out]

    body = stage(step, [ShapedArray((), np.int64), row, row, row]).jaxpr
    start = broadcast_in_dim(aval.dtype.type(0), row.shape, ())
    _, found = bind(Loop(body, aval.shape[0], 0, 1, reverse), start, rows, news)
    return transpose(found, [order.index(d) for d in range(rank)])


class _CumulativeExtremum(_Cumulative):
    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (x,), (t,) = primals, tangents
        out = bind(self, x)
        if t is None:
            return out, None
        # The tangent of the place where the running extremum was set: of equal ones the first.
        from tracejit.primitives.creation import extent_value, iota
        from tracejit.primitives.indexing import gather

        shape, a, rank = shape_of(x), self.axis, len(shape_of(x))
        at = iota(shape, a, np.int64)
        same = bind(Eq(), x, _shifted(out, a, self.reverse, aval_of_argument(x).dtype.type(0)))
        first = bind(Eq(), at, extent_value(shape[a] - 1, np.int64) if self.reverse else np.int64(0))
        new = bind(And(), bind(Eq(), x, out), bind(Or(), first, bind(Not(), same)))
        if self.reverse:
            found = cumulative("cummin", select(new, at, extent_value(shape[a] - 1, np.int64)), a, True)
        else:
            found = cumulative("cummax", select(new, at, np.int64(0)), a)
        return out, gather(t, tuple(range(rank)), [found if d == a else iota(shape, d, np.int64) for d in range(rank)])


@frozen(eq=False)
class CumMax(_CumulativeExtremum):
    """Running maxima along `axis`; NaN from the first NaN on."""

    name = "cummax"
    axis: int
    reverse: bool = False
    op = "max"

    def identity(self, dtype: str) -> Result:
        return extreme(dtype, -1)

    def accumulate(self, x: ArrayLike) -> Result:
        return np.maximum.accumulate(x, axis=self.axis)


@frozen(eq=False)
class CumMin(_CumulativeExtremum):
    """Running minima along `axis`; NaN from the first NaN on."""

    name = "cummin"
    axis: int
    reverse: bool = False
    op = "min"

    def identity(self, dtype: str) -> Result:
        return extreme(dtype, 1)

    def accumulate(self, x: ArrayLike) -> Result:
        return np.minimum.accumulate(x, axis=self.axis)


@frozen(eq=False)
class CumLogSumExp(_Cumulative):
    """Running log(sum(exp(x))) along `axis`, without overflow."""

    name = "cumlogsumexp"
    axis: int
    reverse: bool = False

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        if avals[0].dtype.kind != "f":
            raise DtypeError(f"[{self.name}] takes floating-point numbers, not {avals[0]}; convert them first")
        return super().abstract_eval(*avals)

    def accumulate(self, x: ArrayLike) -> Result:
        return np.logaddexp.accumulate(x, axis=self.axis, dtype=x.dtype)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        (x,) = operands
        dtype = x.dtype

        def joined(r: Any, acc: Sequence[Any], e: Sequence[Any]) -> Any:
            (a,), (c,) = acc, e
            top = r.op("max", a, c)
            gap = r.op("sub", r.op("min", a, c), top)
            more = r.op("add", top, r.op("log1p", r.op("exp", gap)))
            infinite = r.op("ne", r.op("sub", top, top), r.const(0, dtype))
            return r.op("select", infinite, top, more)

        return Scan(
            x.shape,
            self.axis,
            b.body(len(x.shape), lambda i: x[i]),
            (Const(-np.inf, dtype),),
            b.combiner([dtype], joined),
            self.reverse,
            ordered=True,
        )

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        from tracejit.primitives.elementwise import sub
        from tracejit.primitives.transcendental import Exp

        (x,), (t,) = primals, tangents
        out = bind(self, x)
        if t is None:
            return out, None
        # d y_k = d y_k-1 * exp(y_k-1 - y_k) + t_k * exp(x_k - y_k), where nothing but -inf has come: 0.
        nothing = aval_of_argument(x).dtype.type(-np.inf)
        some = bind(Ne(), out, nothing)

        def share(z: ArrayLike) -> Result:
            return select(some, bind(Exp(), sub(z, select(some, out, zero_like(out)))), zero_like(out))

        before = _shifted(out, self.axis, self.reverse, nothing)
        return out, _linear_recurrence(share(before), mul(share(x), t), self.axis, self.reverse)


_CUMULATIVE = {c.name: c for c in (CumSum, CumProd, CumMax, CumMin, CumLogSumExp)}


def cumulative(name: str, x: ArrayLike, axis: int, reverse_order: bool = False) -> Result:
    """cumsum, cumprod, cummax, cummin or cumlogsumexp along `axis`; but for extrema, float16 is carried in float32."""
    primitive = _CUMULATIVE[name](axis, reverse_order)
    if aval_of_argument(x).dtype == np.float16 and name in ("cumsum", "cumprod", "cumlogsumexp"):
        return convert(bind(primitive, convert(x, np.float32)), np.float16)
    return bind(primitive, x)
