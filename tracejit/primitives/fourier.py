"""Discrete Fourier transforms along an axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape, prod
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives.butterflies import Butterflies, constant_table, one_table, roots
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.elementwise import add, mul, sub, zero_like
from tracejit.primitives.shape import broadcast_in_dim, concatenate, pad, reverse, slice_array
from tracejit.support.dtypes import complex_dtype, real_dtype, short_name
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["FFT", "KINDS", "fft", "fft_table", "next_smooth"]

KINDS = ("fft", "ifft", "rfft", "irfft")
GREATEST_PRIME = 13
"""Lengths with greater prime factors are transformed by way of a convolution (Bluestein)."""
RADICES = {2: 2.2, 3: 2.4, 4: 2.5, 5: 3.0, 6: 3.1, 7: 3.7, 8: 3.0, 9: 3.7, 10: 3.7, 11: 5.5, 12: 3.9, 13: 6.4,
           16: 4.3}  # fmt: skip
"""What a pass of a radix costs an element: loads and stores, and arithmetic that grows as its logarithm."""


@frozen(eq=False)
class Plan:
    """How a transform of `n` complex numbers is made.

    radices: of the passes; offsets: where the roots of each begin in the table.  padded: for a length with great prime
    factors the plan of the convolution's length; chirp and spectrum: where those begin.
    table: complex128, what is multiplied by, of the transform with a negative exponent.
    """

    n: int
    radices: tuple[int, ...]
    offsets: tuple[int, ...]
    table: np.ndarray[Any, Any]
    padded: Plan | None = None
    chirp: int = 0
    spectrum: int = 0


@functools.cache
def _radices(n: int) -> tuple[float, tuple[int, ...]] | None:
    """(cost, the cheapest radices whose product is n); 8 and then other powers of two come first, so that the passes
    behind them have whole vectors, and their 16 complex parts fit into registers where elements are exchanged.
    """
    if n == 1:
        return 0.0, ()
    best: tuple[float, tuple[int, ...]] | None = None
    for r, cost in RADICES.items():
        rest = None if n % r else _radices(n // r)
        if rest is not None and (best is None or rest[0] + cost < best[0]):
            best = rest[0] + cost, (*rest[1], r)
    if best is None:
        return None
    return best[0], tuple(sorted(best[1], key=lambda r: (r == 8, r & -r, r), reverse=True))


def next_smooth(target: int) -> int:
    """The least number from `target` on with prime factors 2, 3 and 5 only."""
    best = 1 << max(target - 1, 0).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            need = -(-target // three)
            best = min(best, three << max(need - 1, 0).bit_length())
            three *= 3
        five *= 5
    return best


@functools.lru_cache(maxsize=64)
def _plan(n: int) -> Plan:
    found = _radices(n)
    if found is None:
        return _padded_plan(n)
    parts: list[np.ndarray[Any, Any]] = []
    offsets: list[int] = []
    size, length = 0, n
    for r in found[1]:
        m = length // r
        offsets.append(size)
        if m > 1:
            powers = np.outer(np.arange(1, r), np.arange(m)) * (n // length) % n
            parts.append(roots(n)[powers].reshape(-1))
            size += (r - 1) * m
        length = m
    return Plan(n, found[1], tuple(offsets), np.concatenate([*parts, np.ones(1, complex)]))


def _padded_plan(n: int) -> Plan:
    """With j k = (j**2 + k**2 - (k - j)**2) / 2 a transform is a convolution with a chirp.

    Source: Bluestein 1970, "A linear filtering approach to the computation of discrete Fourier transform".
    """
    inner = _plan(next_smooth(2 * n - 1))
    m = inner.n
    chirp = roots(2 * n)[np.arange(n, dtype=np.int64) ** 2 % (2 * n)]
    around = np.zeros(m, complex)
    around[:n] = chirp.conj()
    around[m - n + 1 :] = chirp[:0:-1].conj()
    spectrum = np.fft.fft(around) / m  # of a constant
    table = np.concatenate([inner.table, chirp, spectrum])
    return Plan(n, (), (), table, inner, len(inner.table), len(inner.table) + n)


def _length(kind: str, n: int) -> int:
    """How many complex numbers are transformed: half as many as there are real ones, if these are even."""
    return n // 2 if kind in ("rfft", "irfft") and n % 2 == 0 else n


@functools.lru_cache(maxsize=64)
def fft_table(kind: str, n: int, dtype: str) -> np.ndarray[Any, Any]:
    """What a transform of n numbers multiplies by, complex[t], read only: the roots of its passes, and those by which
    transforms of real numbers are made of transforms of half the length.
    """
    table = _plan(_length(kind, n)).table
    if _length(kind, n) != n:
        table = np.concatenate([table, -0.5j * roots(n)[: n // 2]])
    found = table.astype(dtype)
    found.flags.writeable = False
    return found


@frozen(eq=False)
class FFT(Primitive):
    """The discrete Fourier transform along an axis, times `scale`.

    kind: "fft" complex[.., n, ..] -> complex[.., n, ..], sums of x[j] exp(-2 pi i j k / n); "ifft" the same with the
    other sign; "rfft" real[.., n, ..] -> complex[.., n // 2 + 1, ..], the first half of "fft"; "irfft"
    complex[.., n // 2 + 1, ..] -> real[.., n, ..], "ifft" of numbers whose second half are conjugates of the first,
    the imaginary parts of the first and, for an even n, the last one left out.
    n is known while tracing: passes, and the roots in `table` (`fft_table`), depend on it.
    """

    name = "fft"
    kind: str
    n: int
    axis: int
    scale: float = 1.0

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        x, table = avals
        if self.kind not in KINDS or self.n < 1:
            raise ShapeError(f"[{self.name}] there is no {self.kind} of {self.n} numbers")
        if not 0 <= self.axis < x.ndim:
            raise ShapeError(f"[{self.name}] {self.axis} is not an axis of {x}")
        given = "float32 or float64" if self.kind == "rfft" else "complex64 or complex128"
        if x.dtype.name not in given.split(" or "):
            raise DtypeError(f"[{self.name}] {self.kind} computes in {given}, not in {short_name(x.dtype)}")
        size = len(fft_table(self.kind, self.n, "complex128"))
        if table.dtype != complex_dtype(x.dtype) or table.shape != (size,):
            raise ShapeError(f"[{self.name}] {table} is not the table of {self.kind} of {self.n} numbers of {x}")
        half = self.n // 2 + 1
        if x.shape[self.axis] != (half if self.kind == "irfft" else self.n):
            raise ShapeError(f"[{self.name}] axis {self.axis} of {x} does not fit {self.kind} of {self.n} numbers")
        dtype = real_dtype(x.dtype) if self.kind == "irfft" else complex_dtype(x.dtype)
        return ShapedArray(_with(x.shape, self.axis, half if self.kind == "rfft" else self.n), dtype)

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        dtype = real_dtype(x.dtype) if self.kind == "irfft" else complex_dtype(x.dtype)
        if x.size == 0:
            return np.zeros([*x.shape[: self.axis], self.n, *x.shape[self.axis + 1 :]], dtype)
        match self.kind:
            case "fft" | "rfft":
                found = getattr(np.fft, self.kind)(x, self.n, self.axis)
            case _:
                found = getattr(np.fft, self.kind)(x, self.n, self.axis, norm="forward")
        return (found * real_dtype(dtype).type(self.scale)).astype(dtype)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return Expand(getattr(self, f"_{self.kind}"))

    def _fft(self, x: ArrayLike, table: ArrayLike) -> Result:
        return _transformed(x, table, self.axis, _plan(self.n), -1, self.scale, shape_of(x))

    def _ifft(self, x: ArrayLike, table: ArrayLike) -> Result:
        return _transformed(x, table, self.axis, _plan(self.n), 1, self.scale, shape_of(x))

    def _rfft(self, x: ArrayLike, table: ArrayLike) -> Result:
        """Two neighbours are the parts of one number; the transforms of the even and the odd ones are the even and the
        odd part of what comes out.
        """
        n, axis, half = self.n, self.axis, self.n // 2
        if n % 2:
            whole = _transformed(make_complex(x, zero_like(x)), table, axis, _plan(n), -1, self.scale, shape_of(x))
            return _part(whole, axis, 0, half + 1)
        numbers = make_complex(_part(x, axis, 0, half, 2), _part(x, axis, 1, half, 2))
        z = _transformed(numbers, table, axis, _plan(half), -1, self.scale, shape_of(numbers))
        first = _part(z, axis, 0, 1)
        a, b = real(first), imag(first)
        zero = zero_like(a)
        pieces = [make_complex(add(a, b), zero)]
        if half > 1:
            mine, other = _part(z, axis, 1, half - 1), conj(_part(z, axis, half - 1, half - 1, -1))
            root = _spread(_untangling(table, half), mine, axis)
            total, gap = add(mine, other), mul(sub(mine, other), root)
            pieces.append(make_complex(add(_halved(real(total)), real(gap)), add(_halved(imag(total)), imag(gap))))
        return concatenate([*pieces, make_complex(sub(a, b), zero)], axis)

    def _irfft(self, x: ArrayLike, table: ArrayLike) -> Result:
        """`_rfft` backwards; of an odd number of elements the other half is written out."""
        n, axis, half = self.n, self.axis, self.n // 2
        shape = _with(shape_of(x), axis, n)
        first = real(_part(x, axis, 0, 1))
        if n % 2:
            numbers = make_complex(first, zero_like(first))
            if half:
                rest = _part(x, axis, 1, half)
                numbers = concatenate([numbers, rest, conj(reverse(rest, (axis,)))], axis)
            return real(_transformed(_stored(numbers, table, axis), table, 1, _plan(n), 1, self.scale, shape))
        last = real(_part(x, axis, half, 1))
        numbers = make_complex(add(first, last), sub(first, last))
        if half > 1:
            mine, other = _part(x, axis, 1, half - 1), conj(_part(x, axis, half - 1, half - 1, -1))
            root = conj(_spread(_untangling(table, half), mine, axis))
            gap = mul(sub(mine, other), root)
            numbers = concatenate([numbers, add(add(mine, other), add(gap, gap))], axis)
        return _transformed(_stored(numbers, table, axis), table, 1, _plan(half), 1, self.scale, shape, pairs=True)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (_, table), (t, of_table) = primals, tangents
        constant_table(self.name, of_table)
        return bind(self, *primals), None if t is None else bind(self, t, table)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        """A matrix of roots is symmetric; those of real transforms count what stands for two twice."""
        x, table = args
        assert isinstance(x, UndefinedPrimal)
        match self.kind:
            case "rfft":
                weights = _weights(self.n, 0.5, real_dtype(x.aval.dtype))
                back = FFT("irfft", self.n, self.axis, self.scale)
                return [bind(back, _weighted(conj(ct), weights, self.axis), table), None]
            case "irfft":
                weights = _weights(self.n, 2.0, real_dtype(x.aval.dtype))
                there = bind(FFT("rfft", self.n, self.axis, self.scale), ct, table)
                return [_weighted(conj(there), weights, self.axis), None]
            case _:
                return [bind(self, ct, table), None]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int | None]:
        (x, table), (at, of_table) = args, dims
        table = one_table(table, of_table)
        if at is None:
            return bind(self, x, table), None
        return bind(FFT(self.kind, self.n, self.axis + 1, self.scale), move_to_front(x, at), table), 0


# -- parts -------------------------------------------------------------------------------------------------------------
def _with(shape: Shape, axis: int, n: Extent) -> Shape:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _part(x: ArrayLike, axis: int, start: int, count: int, step: int = 1) -> Result:
    """`count` elements along an axis."""
    shape = shape_of(x)
    starts = tuple([start if d == axis else 0 for d in range(len(shape))])
    steps = tuple([step if d == axis else 1 for d in range(len(shape))])
    return slice_array(x, starts, _with(shape, axis, count), steps)


def _spread(x: ArrayLike, like: ArrayLike, axis: int) -> Result:
    """A vector along one axis of the shape of an array."""
    return broadcast_in_dim(x, shape_of(like), (axis,))


def _halved(x: ArrayLike) -> Result:
    half = aval_of_argument(x).dtype.type(0.5)
    return mul(x, broadcast_in_dim(half, shape_of(x), ()))


def _untangling(table: ArrayLike, half: int) -> Result:
    """The roots for the elements behind the first one."""
    (size,) = shape_of(table)
    assert isinstance(size, int)
    return slice_array(table, (size - half + 1,), (half - 1,))


def _weights(n: int, inner: float, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    found = np.full(n // 2 + 1, inner, dtype)
    found[0] = 1
    if n % 2 == 0:
        found[-1] = 1
    return found


def _weighted(x: ArrayLike, weights: ArrayLike, axis: int) -> Result:
    """Complex numbers times real ones along an axis."""
    by = _spread(weights, x, axis)
    return make_complex(mul(real(x), by), mul(imag(x), by))


# -- complex transforms ------------------------------------------------------------------------------------------------
def _transformed(
    x: ArrayLike, table: ArrayLike, axis: int, plan: Plan, sign: int, scale: float, shape: Shape, pairs: bool = False
) -> Result:
    """Of complex numbers along an axis, under the shape of the result.  pairs: that is real, the parts of each number
    side by side.
    """
    if plan.padded is None:
        return _passes(x, table, axis, plan, sign, scale, shape, pairs)
    n, m = plan.n, plan.padded.n
    wanted: Callable[[ArrayLike], Result] = (lambda t: t) if sign < 0 else conj
    chirp = wanted(slice_array(table, (plan.chirp,), (n,)))
    spectrum = wanted(slice_array(table, (plan.spectrum,), (m,)))
    rank = len(shape_of(x))
    turned = mul(x, _spread(chirp, x, axis))
    none, more = (0,) * rank, tuple([m - n if d == axis else 0 for d in range(rank)])
    wide = _stored(pad(turned, aval_of_argument(x).dtype.type(0), none, more), table, axis)
    there = _passes(wide, table, 1, plan.padded, -1, 1.0, shape_of(wide))
    there = mul(there, _spread(spectrum, there, 1))
    back = _part(_passes(there, table, 1, plan.padded, 1, scale, shape_of(wide)), 1, 0, n)
    found = mul(back, _spread(chirp, back, 1))
    return bind(Butterflies(1, 1, 1, shape, pairs=0 if pairs else -1), found, table)


def _stored(x: ArrayLike, table: ArrayLike, axis: int) -> Result:
    """x as complex[outer, n, inner], by a pass that does nothing: without it the first true one would compute each
    number for itself.
    """
    shape = shape_of(x)
    return bind(Butterflies(1, axis, 1, (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))), x, table)


def _passes(
    x: ArrayLike, table: ArrayLike, axis: int, plan: Plan, sign: int, scale: float, shape: Shape, pairs: bool = False
) -> Result:
    """The passes of a plan, one after the other."""
    have = shape_of(x)
    outer, n, inner = prod(have[:axis]), have[axis], prod(have[axis + 1 :])
    assert isinstance(n, int)
    *before, last = plan.radices or (1,)
    done = 1
    for number, r in enumerate(before):
        done *= r
        apart = pairs and number == len(before) - 1  # so that pairs can lie between them
        to = (outer, n // done, done, inner) if apart else (outer, n // done, done * inner)
        x = bind(Butterflies(r, axis, sign, to, plan.offsets[number]), x, table)
        axis = 1
    behind = -1 if not pairs else 1 if before else 0
    return bind(Butterflies(last, axis, sign, shape, 0, scale, behind), x, table)


def fft(x: ArrayLike, kind: str, n: int, axis: int, scale: float = 1.0) -> Result:
    """The transform of n numbers along an axis, times `scale`; shapes and dtypes as in `FFT`."""
    table = fft_table(kind, n, str(complex_dtype(aval_of_argument(x).dtype)))
    return bind(FFT(kind, n, axis, float(scale)), x, table)
