"""Elementwise primitives.  Operands have one shape, or rank 0; dtypes are already promoted.

A class states NumPy's function (`impl`), the scalar expression (`scalar`) and the partial derivatives (`partials`);
everything else is inherited from `Elementwise`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from tracejit.ir import ranges as ranges_of
from tracejit.ir.extents import Extent
from tracejit.ir.forms import Form, FormBuilder, Operand
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.math.complex import expand_complex
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import ANYTHING, Range
from tracejit.ir.scalar import OPS, is_complex, kernel_dtype
from tracejit.ir.types import ShapedArray
from tracejit.support.dtypes import canonical, short_name
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import field, frozen
from tracejit.support.typing import ArrayLike, DTypeLike, Result, has_aval
from tracejit.tracer.batch import align_batched
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of, sum_to

__all__ = [
    "Add", "Analytic", "Convert", "Div", "Elementwise", "Floating", "MinusOne", "Mul", "Neg", "One", "Partials",
    "Select", "Sub",
    "add", "constant_like", "convert", "div", "fill_tangent", "mul", "neg", "one_like", "select", "sub", "zero_like",
]  # fmt: skip

_PARENTHESES = "; comparisons joined by &, | and ~ need parentheses: (x > 0) & (x < 1)"
_INSTEAD = {
    ("neg", "b"): "; use ~ for boolean arrays", ("sub", "b"): "; use ^ for boolean arrays",
    **{(name, "f"): _PARENTHESES for name in ("and", "or", "xor", "not")},
}  # fmt: skip
"""What to write instead, by operation and kind of dtype."""


Partials: TypeAlias = Sequence[Callable[[], Any] | None]
"""For each operand a function that gives d out / d operand (`One` and `MinusOne` stand for these),
None where it is zero everywhere."""


class Elementwise(Primitive):
    """`result[i] = scalar(x[i], y[i], ...)`."""

    numpy_function: ClassVar[Callable[..., Any]]
    op: ClassVar[str] = ""
    kinds: ClassVar[str] = "biufc"  # dtype kinds accepted
    same_dtype: ClassVar[bool] = True

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return avals[0].dtype

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        first = avals[0]
        # dtypes of abstract values are canonical
        if self.same_dtype and any([a.dtype is not first.dtype for a in avals]):
            raise DtypeError(
                f"[{self.name}] operands differ in dtype: {', '.join(map(str, avals))}; convert them first "
                "(x.astype(...))"
            )
        for a in avals:
            if a.dtype.kind not in self.kinds:
                advice = _INSTEAD.get((self.name, a.dtype.kind), "")
                raise DtypeError(f"[{self.name}] does not accept {short_name(a.dtype)}{advice}")
        shape = first.shape
        for a in avals[1:]:
            if not shape:
                shape = a.shape
            elif a.shape and a.shape is not shape and a.shape != shape:
                raise ShapeError(f"[{self.name}] operands differ in shape: {', '.join(map(str, avals))}")
        dtype, weak = self.result_dtype(*avals), all([a.weak for a in avals])
        for a in avals:  # an operand's abstract value, if it fits, is one object less
            if a.shape is shape and a.dtype is dtype and a.weak is weak:
                return a
        return ShapedArray(shape, dtype, weak)

    def impl(self, *args: ArrayLike) -> Result:
        with np.errstate(all="ignore"):
            return type(self).numpy_function(*args)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        """The scalar expression; `b.op(name, ...)` and `b.const(value, dtype)` record it."""
        if is_complex(xs[-1].dtype) and not OPS[self.op].accepts(xs[-1].dtype):
            return expand_complex(self.op, b.recorder(), *xs)
        return b.op(self.op, *xs)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        domain = b.out_avals[0].shape
        return b.map(domain, lambda i: self.scalar(b, *[x[i] if x.aval.shape else x[()] for x in operands]))

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        """The partial derivatives at the operands xs, where the result is `out`."""
        raise self._missing("partials")

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        total: Any = None
        if any(t is not None for t in tangents):
            for t, partial in zip(tangents, self.partials(out, *primals), strict=True):
                if t is None or partial is None:
                    continue
                term = t if partial is One else (neg(t) if partial is MinusOne else mul(t, partial()))
                total = term if total is None else add(total, term)
        return out, fill_tangent(total, out)

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        return bind(self, *align_batched(args, dims)), 0


class One:
    """d out / d x = 1: the tangent passes."""


class MinusOne:
    """d out / d x = -1."""


def fill_tangent(tangent: ArrayLike, like: Any) -> Result:
    """A tangent of rank 0 spread to the result's shape."""
    if tangent is None:
        return None
    shape = shape_of(like)
    if shape_of(tangent) == shape:
        return tangent
    from tracejit.primitives.shape import broadcast_in_dim

    return broadcast_in_dim(tangent, shape, ())


class Floating(Elementwise):
    """A function of floating-point operands."""

    kinds = "f"


class Analytic(Elementwise):
    """A function of real and complex floating-point operands."""

    kinds = "fc"


@frozen(eq=False)
class Add(Elementwise):
    """x + y; wraps around for integers, `or` for bool."""

    name = "add"
    numpy_function = np.add

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        return b.op("or" if xs[0].dtype == "bool" else "add", *xs)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (One, One)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [sum_to(ct, a.aval) if isinstance(a, UndefinedPrimal) else None for a in args]

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.total(*ranges)


@frozen(eq=False)
class Sub(Elementwise):
    """x - y; wraps around for integers."""

    name = "sub"
    numpy_function = np.subtract
    op = "sub"
    kinds = "iufc"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (One, MinusOne)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, y = args
        return [
            sum_to(ct, x.aval) if isinstance(x, UndefinedPrimal) else None,
            sum_to(neg(ct), y.aval) if isinstance(y, UndefinedPrimal) else None,
        ]

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.difference(*ranges)


@frozen(eq=False)
class Mul(Elementwise):
    """x * y; wraps around for integers, `and` for bool."""

    name = "mul"
    numpy_function = np.multiply

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        return b.op("and" if xs[0].dtype == "bool" else "mul", *xs)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: xs[1], lambda: xs[0])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, y = args
        if isinstance(x, UndefinedPrimal):
            return [sum_to(mul(ct, y), x.aval), None]
        return [None, sum_to(mul(x, ct), y.aval)]

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.product(*ranges)


@frozen(eq=False)
class Div(Analytic):
    """x / y in floating point."""

    name = "div"
    numpy_function = np.divide
    op = "div"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(one_like(xs[1]), xs[1]), lambda: neg(div(out, xs[1])))

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, y = args
        return [sum_to(div(ct, y), x.aval), None]


@frozen(eq=False)
class Neg(Elementwise):
    """-x; wraps around for integers."""

    name = "neg"
    numpy_function = np.negative
    op = "neg"
    kinds = "iufc"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (MinusOne,)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [neg(ct)]

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.negated(ranges[0])


@frozen(eq=False)
class Select(Elementwise):
    """x where condition else y.   condition: bool"""

    name = "select"
    same_dtype = False
    op = "select"

    def impl(self, *args: ArrayLike) -> Result:
        return np.where(*args)

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        if avals[0].dtype != np.bool_:
            raise DtypeError(f"[select] the condition is {avals[0]}, not bool; compare it first (x != 0)")
        if avals[1].dtype != avals[2].dtype:
            raise DtypeError(f"[select] branches differ in dtype: {avals[1]} and {avals[2]}")
        return super().abstract_eval(*avals)

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return avals[1].dtype

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        _, t, f = tangents
        if t is None and f is None:
            return out, None
        zero = zero_like(out)
        return out, bind(
            self,
            primals[0],
            fill_tangent(t, out) if t is not None else zero,
            fill_tangent(f, out) if f is not None else zero,
        )

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        condition, x, y = args
        zero = zero_like(ct)
        return [
            None,
            sum_to(select(condition, ct, zero), x.aval) if isinstance(x, UndefinedPrimal) else None,
            sum_to(select(condition, zero, ct), y.aval) if isinstance(y, UndefinedPrimal) else None,
        ]

    def simplify(self, *args: ArrayLike) -> int | None:
        return 1 if args[1] is args[2] else None

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.either(ranges[1], ranges[2])


@frozen(eq=False)
class Convert(Elementwise):
    """x as another dtype, as NumPy's astype; out-of-range and NaN to integers are total (see ir.scalar)."""

    name = "convert"
    dtype: np.dtype[Any] = field(converter=canonical)

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return self.dtype

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        return super().abstract_eval(*avals).strong()

    def impl(self, *args: ArrayLike) -> Result:
        return OPS["convert"].impl(self.dtype, np.asarray(args[0]))

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        (x,) = xs
        target = kernel_dtype(self.dtype)
        if target == "bool" and x.dtype != "bool":
            return b.op("ne", x, b.const(0, x.dtype))
        return b.op("convert", x, dtype=target)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), bind(self, t) if t is not None and self.dtype.kind in "fc" else None

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [bind(Convert(args[0].aval.dtype), ct)]

    def simplify(self, *args: ArrayLike) -> int | None:
        return 0 if args[0].aval.dtype == self.dtype and not args[0].aval.weak else None

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        # beyond an end that is not known numbers of another dtype may wrap around
        return ranges[0] if None not in ranges[0] or avals[0].dtype == self.dtype else ANYTHING


def _dtype_of(x: ArrayLike) -> np.dtype[Any]:
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def constant_like(x: ArrayLike, value: ArrayLike) -> Result:
    """A scalar of x's dtype."""
    return _dtype_of(x).type(value)


def one_like(x: ArrayLike) -> Result:
    """A scalar one of x's dtype."""
    return constant_like(x, 1)


def zero_like(x: ArrayLike) -> Result:
    """A scalar zero of x's dtype."""
    return constant_like(x, 0)


def add(x: ArrayLike, y: ArrayLike) -> Result:
    """x + y, elementwise."""
    return bind(Add(), x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Result:
    """x - y, elementwise."""
    return bind(Sub(), x, y)


def mul(x: ArrayLike, y: ArrayLike) -> Result:
    """x * y, elementwise."""
    return bind(Mul(), x, y)


def div(x: ArrayLike, y: ArrayLike) -> Result:
    """x / y, elementwise."""
    return bind(Div(), x, y)


def neg(x: ArrayLike) -> Result:
    """-x, elementwise."""
    return bind(Neg(), x)


def select(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Result:
    """x where condition else y, elementwise."""
    return bind(Select(), condition, x, y)


def convert(x: ArrayLike, dtype: DTypeLike) -> Result:
    """x as `dtype`; x itself if it has it already."""
    dtype = np.dtype(dtype)
    if has_aval(x) and x.aval.dtype == dtype and not x.aval.weak:
        return x
    return bind(Convert(dtype), x)
