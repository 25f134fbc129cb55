"""One pass of a Fourier transform: many short transforms side by side, each written out."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tracejit.ir.extents import Extent, Shape, prod, same_shape
from tracejit.ir.forms import Form, FormBuilder, Operand
from tracejit.ir.kernel import Operand as Scalar, index_const
from tracejit.ir.primitive import Primitive
from tracejit.ir.scalar import part_dtype
from tracejit.ir.types import ShapedArray
from tracejit.primitives.complex_numbers import conj, make_complex
from tracejit.primitives.elementwise import mul, neg
from tracejit.primitives.shape import broadcast_in_dim, concatenate, reshape, slice_array, transpose
from tracejit.support.dtypes import real_dtype, short_name
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["Butterflies", "constant_table", "one_table", "roots"]

Number: TypeAlias = tuple[Scalar, Scalar]
"""The real and the imaginary part of a complex number of a kernel."""


@functools.lru_cache(maxsize=64)
def roots(n: int) -> np.ndarray[Any, Any]:
    """exp(-2 pi i k / n) for k from 0 to n - 1, correctly rounded but for few.   -> complex128[n], read only

    Sines and cosines are of angles of an eighth of a turn at most, in long doubles; the others mirror them.
    """
    k = np.arange(n, dtype=np.int64)
    eighth, rest = np.divmod(8 * k, n)
    back = eighth % 2 == 1  # mirrored at the end of the eighth
    angle = np.where(back, n - rest, rest).astype(np.longdouble) * _PI / (4 * n)
    c, s = np.cos(angle).astype(np.float64), np.sin(angle).astype(np.float64)
    quarter = ((eighth + 1) // 2) % 4
    s = np.where(back, -s, s)
    real = np.choose(quarter, [c, -s, -c, s])
    imag = np.choose(quarter, [s, c, -s, -c])
    found = real - 1j * imag
    found.flags.writeable = False
    return found


_PI = np.arctan(np.longdouble(1)) * 4


def one_table(x: ArrayLike, axis: int | None) -> ArrayLike:
    """A table that is the same for all elements of a batch: the first one."""
    if axis is None:
        return x
    x = move_to_front(x, axis)
    shape = shape_of(x)
    return reshape(slice_array(x, (0,) * len(shape), (1, *shape[1:])), shape[1:])


def constant_table(name: str, tangent: ArrayLike | None) -> None:
    """Raises: UnsupportedError where a table would have a tangent."""
    if tangent is not None:
        raise UnsupportedError(
            f"[{name}] has no derivative with respect to its table of roots", location=user_location()
        )


@frozen(eq=False)
class Butterflies(Primitive):
    """Transforms of `radix` numbers that lie apart, each result times a root: a pass of a longer transform.

    x: complex[*outer, radix * m, *inner], `axis` the one between; table: complex[t] -> complex[*shape], which has as
    many elements as [*outer, m, radix, *inner], row-major:
        y[.., p, k, ..] = scale * w(p, k) * sum over j of exp(sign 2 pi i j k / radix) * x[.., j * m + p, ..]
    with w(p, k) = table[offset + (k - 1) * m + p], its conjugate for a positive sign, and 1 for k = 0 or m = 1.
    pairs: if not negative, the result is real, and the parts of each number are two elements along an axis behind so
    many of `inner`.
    Source: Stockham's order, in which the passes of Cooley and Tukey's algorithm need no permutation (Cochran et al.
    1967, "What is the fast Fourier transform?").
    """

    name = "butterflies"
    radix: int
    axis: int
    sign: int
    shape: Shape
    offset: int = 0
    scale: float = 1.0
    pairs: int = -1

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        x, table = avals
        if x.dtype.kind != "c" or table.dtype != x.dtype:
            raise DtypeError(f"[{self.name}] {short_name(x.dtype)} and {short_name(table.dtype)} are not complex alike")
        n = x.shape[self.axis]
        if not isinstance(n, int) or n % self.radix or table.ndim != 1:
            raise ShapeError(f"[{self.name}] radix {self.radix} does not fit axis {self.axis} of {x} and {table}")
        m, size = n // self.radix, table.shape[0]
        if m > 1 and not (isinstance(size, int) and self.offset + (self.radix - 1) * m <= size):
            raise ShapeError(f"[{self.name}] {table} has not {(self.radix - 1) * m} roots from {self.offset} on")
        if prod(self.shape) != x.size * (2 if self.pairs >= 0 else 1):
            raise ShapeError(f"[{self.name}] {x} has not as many elements as {self.shape}")
        return ShapedArray(self.shape, real_dtype(x.dtype) if self.pairs >= 0 else x.dtype)

    def _split(self, shape: Shape) -> tuple[Shape, int, Shape]:
        """(outer axes, m, inner axes)"""
        n = shape[self.axis]
        assert isinstance(n, int)
        return shape[: self.axis], n // self.radix, shape[self.axis + 1 :]

    def impl(self, *args: ArrayLike) -> Result:
        x, table = np.asarray(args[0]), np.asarray(args[1])
        outer, m, inner = self._split(x.shape)
        r, rank = self.radix, len(outer)
        spread = x.reshape((*outer, r, m, *inner))
        matrix = roots(r)[np.outer(np.arange(r), np.arange(r)) % r]
        matrix = (matrix if self.sign < 0 else matrix.conj()).astype(x.dtype)
        y = np.moveaxis(np.tensordot(matrix, spread, ((0,), (rank,))), 0, rank + 1)  # [*outer, m, r, *inner]
        factors = np.ones((m, r), x.dtype)
        if m > 1:
            factors[:, 1:] = table[self.offset : self.offset + (r - 1) * m].reshape(r - 1, m).T
        factors = factors if self.sign < 0 else factors.conj()
        y = y * factors.reshape((m, r, *[1] * len(inner))) * real_dtype(x.dtype).type(self.scale)
        if self.pairs < 0:
            return y.reshape(self.shape)
        return np.stack([y.real, y.imag], rank + 2 + self.pairs).reshape(self.shape)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        x, table = operands
        outer, m, inner = self._split(x.shape)
        r, rank = self.radix, len(outer)
        joined = rank > 1 and not same_shape(self.shape[:rank], outer)  # as one axis, like those of the passes behind
        lead = (prod(outer),) if joined else outer
        view, axes = (*lead, m, r, *inner), (len(lead) + 1,)
        if self.pairs >= 0:
            at = len(lead) + 2 + self.pairs
            view, axes = (*view[:at], 2, *view[at:]), (len(lead) + 1, at)

        def body(i: tuple[Scalar, ...]) -> list[Scalar]:
            do = _Arithmetic(b, part_dtype(x.dtype), self.sign)
            before, p, behind = i[: len(lead)], i[len(lead)], i[len(lead) + 1 :]
            if joined:
                before = _indices(b, before[0], outer)
            places = [b.op("add", p, index_const(j * m)) if j else p for j in range(r)]
            xs = do.transform([do.parts(x[(*before, at, *behind)]) for at in places])
            if m > 1:
                for k in range(1, r):
                    root = table[(b.op("add", p, index_const(self.offset + (k - 1) * m)),)]
                    xs[k] = do.times(xs[k], do.parts(root))
            if self.scale != 1.0:
                by = b.const(self.scale, do.dtype)
                xs = [(b.op("mul", re, by), b.op("mul", im, by)) for re, im in xs]
            if self.pairs >= 0:
                return [part for number in xs for part in number]
            return [b.op("complex", re, im) for re, im in xs]

        return b.fan_out(self.shape, view, axes, body)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (_, table), (t, of_table) = primals, tangents
        constant_table(self.name, of_table)
        return bind(self, *primals), None if t is None else bind(self, t, table)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, table = args
        assert isinstance(x, UndefinedPrimal)
        shape = x.aval.shape
        outer, m, inner = self._split(shape)
        r, rank = self.radix, len(outer)
        if self.pairs >= 0:
            at = rank + 2 + self.pairs
            full = (*outer, m, r, *inner)
            wide = reshape(ct, (*full[:at], 2, *full[at:]))
            start = [0] * (len(full) + 1)
            part = (*full[:at], 1, *full[at:])
            re, im = (reshape(slice_array(wide, (*start[:at], k, *start[at + 1 :]), part), full) for k in (0, 1))
            ct = make_complex(re, neg(im))
        ct = reshape(ct, (*outer, m, r, *inner))
        if m > 1:
            ones = np.ones((1, m), x.aval.dtype)
            count = (r - 1) * m
            rest = reshape(slice_array(table, (self.offset,), (count,)), (r - 1, m))
            factors = concatenate([ones, rest if self.sign < 0 else conj(rest)], 0)
            ct = mul(ct, broadcast_in_dim(transpose(factors, (1, 0)), (*outer, m, r, *inner), (rank, rank + 1)))
        back = Butterflies(r, rank + 1, self.sign, (*outer, m, r, *inner), 0, self.scale)
        ct = bind(back, ct, table)
        order = (*range(rank), rank + 1, rank, *range(rank + 2, rank + 2 + len(inner)))
        return [reshape(transpose(ct, order), shape), None]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int | None]:
        (x, table), (at, of_table) = args, dims
        table = one_table(table, of_table)
        if at is None:
            return bind(self, x, table), None
        shape = (size, *self.shape)
        wide = Butterflies(self.radix, self.axis + 1, self.sign, shape, self.offset, self.scale, self.pairs)
        return bind(wide, move_to_front(x, at), table), 0


def _indices(b: FormBuilder, place: Scalar, shape: Shape) -> tuple[Scalar, ...]:
    """The indices of an element at a place in row-major order."""
    found: list[Scalar] = []
    for n in reversed(shape[1:]):
        found.append(b.op("irem", place, index_const(n)))
        place = b.op("idiv", place, index_const(n))
    return place, *reversed(found)


class _Arithmetic:
    """Complex arithmetic of a kernel, on parts: what the rule of `Butterflies` is written with."""

    def __init__(self, b: FormBuilder, dtype: str, sign: int) -> None:
        self.b = b
        self.dtype = dtype
        self.sign = sign

    def parts(self, x: Scalar) -> Number:
        return self.b.op("real", x), self.b.op("imag", x)

    def const(self, value: float) -> Scalar:
        return self.b.const(value, self.dtype)

    def add(self, x: Number, y: Number) -> Number:
        return self.b.op("add", x[0], y[0]), self.b.op("add", x[1], y[1])

    def sub(self, x: Number, y: Number) -> Number:
        return self.b.op("sub", x[0], y[0]), self.b.op("sub", x[1], y[1])

    def turned(self, x: Number, y: Number) -> tuple[Number, Number]:
        """(x + u y, x - u y) with u the square root of -1 that has the sign of the transform."""
        op, sign = self.b.op, self.sign
        plus = op("sub", x[0], y[1]), op("add", x[1], y[0])
        minus = op("add", x[0], y[1]), op("sub", x[1], y[0])
        return (plus, minus) if sign > 0 else (minus, plus)

    def plus_product(self, a: Scalar, b: Scalar, c: Scalar | None) -> Scalar:
        """a * b + c, or a * b without c."""
        if c is None:
            return self.b.op("mul", a, b)
        if self.b.fuses():
            return self.b.op("fma", a, b, c)
        return self.b.op("add", self.b.op("mul", a, b), c)

    def times(self, x: Number, w: Number) -> Number:
        """x times w, or times its conjugate for a positive sign."""
        op = self.b.op
        first, second = op("mul", x[1], w[1]), op("mul", x[0], w[1])
        if self.sign < 0:
            return self.plus_product(x[0], w[0], op("neg", first)), self.plus_product(x[1], w[0], second)
        return self.plus_product(x[0], w[0], first), self.plus_product(x[1], w[0], op("neg", second))

    def times_root(self, x: Number, k: int, n: int) -> Number:
        """x times exp(sign 2 pi i k / n), for 0 <= k < n."""
        op = self.b.op
        if k == 0:
            return x
        if 4 * k == n or 4 * k == 3 * n:
            up = (4 * k == n) == (self.sign > 0)
            return (op("neg", x[1]), x[0]) if up else (x[1], op("neg", x[0]))
        if 2 * k == n:
            return op("neg", x[0]), op("neg", x[1])
        if 8 * k == n:
            half = self.const(math.sqrt(0.5))
            a, b = op("add", *x), op("sub", *x)
            re, im = (b, a) if self.sign > 0 else (a, op("sub", x[1], x[0]))
            return op("mul", re, half), op("mul", im, half)
        w = complex(roots(n)[k])
        return self.times(x, (self.const(w.real), self.const(w.imag)))

    def transform(self, xs: Sequence[Number]) -> list[Number]:
        """The transform of a few numbers, in order."""
        n = len(xs)
        if n == 1:
            return list(xs)
        if n == 2:
            return [self.add(*xs), self.sub(*xs)]
        if n == 4:
            a, c = self.add(xs[0], xs[2]), self.sub(xs[0], xs[2])
            b, d = self.add(xs[1], xs[3]), self.sub(xs[1], xs[3])
            first, third = self.turned(c, d)
            return [self.add(a, b), first, self.sub(a, b), third]
        a = next((a for a in (4, 2, 3, 5, 7) if n % a == 0 and a < n), n)
        if a == n:
            return self.of_prime(xs)
        b = n // a
        columns = [self.transform(xs[j::b]) for j in range(b)]  # [b][a]
        found: list[Number] = [xs[0]] * n
        for k in range(a):
            found[k::a] = self.transform([self.times_root(columns[j][k], j * k, n) for j in range(b)])
        return found

    def of_prime(self, xs: Sequence[Number]) -> list[Number]:
        """Of an odd number of numbers: pairs from both ends share their products with sines and cosines."""
        n = len(xs)
        first = xs[0]
        sums = [self.add(xs[j], xs[n - j]) for j in range(1, n // 2 + 1)]
        gaps = [self.sub(xs[j], xs[n - j]) for j in range(1, n // 2 + 1)]
        total = functools.reduce(self.add, sums, first)
        found: list[Number] = [total] * n
        w = roots(n)
        for k in range(1, n // 2 + 1):
            even, odd = list(first), [None, None]
            for j, (s, d) in enumerate(zip(sums, gaps, strict=True), 1):
                root = complex(w[j * k % n])
                c, t = self.const(root.real), self.const(-root.imag)
                even = [self.plus_product(v, c, e) for v, e in zip(s, even, strict=True)]
                odd = [self.plus_product(v, t, e) for v, e in zip(d, odd, strict=True)]
            found[k], found[n - k] = self.turned((even[0], even[1]), (odd[0], odd[1]))  # type: ignore[arg-type]
        return found
