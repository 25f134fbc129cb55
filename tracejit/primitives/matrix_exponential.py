"""The exponential of matrices, and its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, factorial, log2
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.arithmetic import Abs, Ceil, Floor, Maximum, Minimum
from tracejit.primitives.comparison import Eq, Gt
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.elementwise import add, convert, div, mul, neg, select, sub
from tracejit.primitives.lu import lu, permuted_rows
from tracejit.primitives.reduction import reduce_max, reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, slice_array
from tracejit.primitives.slicing import update_slice
from tracejit.primitives.transcendental import Exp2, Log2
from tracejit.primitives.triangular import check_matrices, triangular_solve
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front, spread
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["Expm", "ExpmFrechet", "expm", "expm_frechet"]

_MOST_SQUARINGS = 1100
"""More than any norm asks for."""


@frozen
class _Approximant:
    """Padé's approximant of exp of one order.

    coefficients: of the numerator, the constant first.  limit: the greatest norm for which it is exact, limit_of_both:
    for which its derivative is, too.
    """

    coefficients: tuple[float, ...]
    limit: float
    limit_of_both: float


def _coefficients(order: int) -> tuple[float, ...]:
    def one(k: int) -> int:
        return factorial(2 * order - k) * factorial(order) // (factorial(k) * factorial(order - k))

    return tuple([float(one(k) // one(order)) for k in range(order + 1)])


_DOUBLE = _Approximant(_coefficients(13), 4.25, 4.74)
_SINGLE = _Approximant(_coefficients(7), 3.92, 3.0)
"""Source: Al-Mohy and Higham 2009, "A new scaling and squaring algorithm for the matrix exponential" and "Computing the
Fréchet derivative of the matrix exponential"; Higham 2005 for single precision."""


def _of(dtype: np.dtype[Any]) -> _Approximant:
    return _DOUBLE if dtype == np.float64 else _SINGLE


@frozen(eq=False)
class Expm(Primitive):
    """The exponentials of square matrices.   a: [.., n, n] -> [.., n, n]

    Source: Al-Mohy and Higham 2009, with one order for each precision.
    """

    name = "expm"

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        check_matrices(self.name, avals[0])
        return avals[0].strong()

    def impl(self, *args: ArrayLike) -> Result:
        a = np.asarray(args[0])
        return _by_numpy(a.astype(_widest(a))).astype(a.dtype)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return Expand(lambda a: m.each_matrix(_exponential, a, ranks=(2,)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (a,), (t,) = primals, tangents
        return bind(self, a), None if t is None else bind(ExpmFrechet(), a, t)

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        return bind(self, move_to_front(args[0], dims[0])), 0


@frozen(eq=False)
class ExpmFrechet(Primitive):
    """The derivatives of the exponentials of square matrices, in directions.   a, e: [.., n, n] -> [.., n, n]

    Source: Al-Mohy and Higham 2009.
    """

    name = "expm_frechet"

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        a, e = avals
        check_matrices(self.name, a)
        if e.dtype != a.dtype:
            raise DtypeError(f"[{self.name}] operands differ in dtype: {a} and {e}")
        if e.shape != a.shape:
            raise ShapeError(f"[{self.name}] {e} is no direction at {a}")
        return e.strong()

    def impl(self, *args: ArrayLike) -> Result:
        """The corner of the exponential of [[a, e], [0, a]]."""
        a, e = (np.asarray(x, _widest(np.asarray(x))) for x in args)
        both = np.concatenate([np.concatenate([a, e], -1), np.concatenate([np.zeros_like(a), a], -1)], -2)
        n = a.shape[-1]
        return _by_numpy(both)[..., :n, n:].astype(np.asarray(args[0]).dtype)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return Expand(lambda a, e: m.each_matrix(_derivative, a, e, ranks=(2, 2)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        """In the direction (da, de): the derivative in direction de, and the corner of that of [[a, e], [0, a]] in
        direction [[da, 0], [0, da]].

        Source: Higham and Relton 2014, "Higher order Fréchet derivatives of matrix functions".
        """
        (a, e), (da, de) = primals, tangents
        out = bind(self, a, e)
        change = None if de is None else bind(self, a, de)
        if da is not None:
            n = shape_of(a)[-1]
            *lead, _, _ = shape_of(a)
            none = (0,) * len(lead)
            empty = m.zeros((*lead, 2 * n, 2 * n), m.dtype_of(a))

            def twice(x: ArrayLike) -> Result:
                return update_slice(update_slice(empty, x, (*none, 0, 0)), x, (*none, n, n))

            wide = bind(self, update_slice(twice(a), e, (*none, 0, n)), twice(da))
            corner = slice_array(wide, (*none, 0, n), (*lead, n, n))
            change = corner if change is None else add(change, corner)
        return out, change

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        a, e = args
        assert isinstance(e, UndefinedPrimal)
        return [None, bind(self, m.swapped(a), ct)]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        (a, e), (da, de) = args, dims
        return bind(self, spread(a, da, size), spread(e, de, size)), 0


def _widest(x: np.ndarray[Any, Any]) -> Any:
    return np.complex128 if x.dtype.kind == "c" else np.float64


def _by_numpy(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By Taylor's series of a matrix of small norm, squared, in the widest precision that there is."""
    out = np.zeros_like(a)
    for at in np.ndindex(*a.shape[:-2]):
        x = a[at]
        norm = float(np.max(np.sum(np.abs(x), 0), initial=0.0))
        if not np.isfinite(norm):
            out[at] = np.nan
            continue
        count = max(0, int(np.ceil(log2(norm))) + 1) if norm else 0
        with np.errstate(all="ignore"):
            x = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble) * np.ldexp(np.longdouble(1), -count)
            total = term = np.eye(len(x), dtype=x.dtype)
            for k in range(1, 24):
                term = term @ x / k
                total = total + term
            for _ in range(count):
                total = total @ total
        out[at] = total
    return out


# -- one matrix --------------------------------------------------------------------------------------------------------
def _times(x: ArrayLike, y: ArrayLike) -> Result:
    return dot_general(x, y, ((1,), (0,)))


def _norm(x: ArrayLike) -> Result:
    """The greatest sum of magnitudes of a column."""
    return reduce_max(reduce_sum(bind(Abs(), x), (0,)), (0,))


def _scaled(x: ArrayLike, by: ArrayLike) -> Result:
    return mul(x, broadcast_in_dim(m.like(by, x), shape_of(x), ()))


def _sum(terms: Sequence[tuple[float, ArrayLike]]) -> Result:
    """The sum of matrices times numbers."""
    total: Any = None
    for factor, x in terms:
        term = _scaled(x, m.dtype_of(x).type(factor))
        total = term if total is None else add(total, term)
    return total


def _squarings(ratio: ArrayLike, rounding: Any = Ceil, most: ArrayLike = None) -> Result:
    """The logarithm of a ratio, as a floating-point integer from 0 on."""
    dtype = m.dtype_of(ratio)
    found = bind(rounding(), bind(Log2(), ratio))
    found = bind(Maximum(), found, dtype.type(0))
    return bind(Minimum(), found, dtype.type(_MOST_SQUARINGS) if most is None else most)


def _as_count(x: ArrayLike) -> Result:
    """How often a matrix is squared, whatever the numbers are."""
    count = bind(Maximum(), convert(x, np.int64), np.int64(0))
    return bind(Minimum(), count, np.int64(_MOST_SQUARINGS))


def _power_of_two(x: ArrayLike) -> Result:
    return bind(Exp2(), x)


def _count_of(a: ArrayLike) -> Result:
    """How often a matrix is halved, as a floating-point number: as far as its powers ask for, and not its norm.

    Source: Al-Mohy and Higham 2009, section 5, with the norms of the powers that are there.
    """
    dtype = m.part_dtype(a)
    given = _of(dtype)
    order = len(given.coefficients) - 1
    limit = dtype.type(given.limit)
    most = _squarings(div(_norm(a), limit))
    x = _scaled(a, _power_of_two(neg(most)))
    second = _times(x, x)
    fourth = _times(second, second)
    quarter, sixth = (
        bind(Exp2(), mul(bind(Log2(), _norm(y)), dtype.type(1 / k)))
        for y, k in ((fourth, 4), (_times(second, fourth), 6))
    )
    less = _squarings(div(limit, bind(Maximum(), quarter, sixth)), Floor, most)
    count = sub(most, less)
    # of matrices far from normal ones the powers of the magnitudes are larger
    x = _scaled(a, _power_of_two(neg(count)))
    (n, _) = shape_of(a)
    sums: Any = broadcast_in_dim(dtype.type(1), (n,), ())
    magnitudes = bind(Abs(), x)
    for _ in range(2 * order + 1):
        sums = dot_general(magnitudes, sums, ((0,), (0,)))
    leading = 1.0 / (comb(2 * order, order) * float(factorial(2 * order + 1)))
    norm = _norm(x)
    safe = select(bind(Gt(), norm, dtype.type(0)), norm, dtype.type(1))
    error = div(reduce_max(sums, (0,)), safe)
    bits = add(bind(Log2(), error), dtype.type(log2(leading) - log2(np.finfo(dtype).eps / 2)))
    more = bind(Ceil(), div(bits, dtype.type(2 * order)))
    more = bind(Minimum(), bind(Maximum(), more, dtype.type(0)), less)
    return add(count, more)


def _even_powers(x: ArrayLike) -> list[Result]:
    """The identity, x^2, x^4 and x^6."""
    second = _times(x, x)
    fourth = _times(second, second)
    return [m.eye_like(x), second, fourth, _times(fourth, second)]


def _odd_and_even(b: Sequence[float], powers: Sequence[ArrayLike]) -> list[tuple[Result | None, Result]]:
    """For the odd terms (without a factor x) and the even ones: (what x^6 is multiplied by, the rest)."""
    found: list[tuple[Result | None, Result]] = []
    for first in (1, 0):
        low = _sum([(b[first + 2 * k], powers[k]) for k in range(4)])
        high = _sum([(b[first + 6 + 2 * k], powers[k]) for k in (1, 2, 3)]) if len(b) > 8 else None
        found.append((high, low))
    return found


def _solved(left: ArrayLike, right: ArrayLike) -> Result:
    factors, _, order = lu(left)
    y = triangular_solve(factors, permuted_rows(right, order), lower=True, unit=True)
    return triangular_solve(factors, y, lower=False)


def _exponential(a: ArrayLike) -> Sequence[Result]:
    (n, _) = shape_of(a)
    if isinstance(n, int) and not n:
        return [a]
    count = _count_of(a)
    x = _scaled(a, _power_of_two(neg(count)))
    powers = _even_powers(x)
    odd, even = [
        low if high is None else add(_times(powers[3], high), low)
        for high, low in _odd_and_even(_of(m.part_dtype(a)).coefficients, powers)
    ]
    odd = _times(x, odd)
    start = _solved(sub(even, odd), add(even, odd))

    def squared(left: ArrayLike, x: ArrayLike) -> Sequence[Result]:
        return [sub(left, np.int64(1)), _times(x, x)]

    return [_unless_infinite(a, m.while_loop(_any_left, squared, [_as_count(count), start])[1])]


def _unless_infinite(a: ArrayLike, out: ArrayLike) -> Result:
    """NaN everywhere if an element of a is infinite or NaN."""
    norm, dtype = _norm(a), m.dtype_of(a)
    finite = bind(Eq(), sub(norm, norm), m.part_dtype(a).type(0))
    return select(broadcast_in_dim(finite, shape_of(a), ()), out, broadcast_in_dim(dtype.type(np.nan), shape_of(a), ()))


def _any_left(left: ArrayLike, *_: ArrayLike) -> Result:
    return bind(Gt(), left, np.int64(0))


def _derivative(a: ArrayLike, e: ArrayLike) -> Sequence[Result]:
    (n, _) = shape_of(a)
    if isinstance(n, int) and not n:
        return [e]
    dtype = m.part_dtype(a)
    given = _of(dtype)
    b = given.coefficients
    count = _squarings(div(_norm(a), dtype.type(given.limit_of_both)))
    scale = _power_of_two(neg(count))
    x, t = _scaled(a, scale), _scaled(e, scale)
    powers = _even_powers(x)
    _, second, fourth, sixth = powers
    d2 = add(_times(x, t), _times(t, x))
    d4 = add(_times(second, d2), _times(d2, second))
    d6 = add(_times(fourth, d2), _times(d4, second))
    slopes = [m.zeros(shape_of(a), m.dtype_of(a)), d2, d4, d6]
    values: list[Result] = []
    changes: list[Result] = []
    for (high, low), (high_slope, low_slope) in zip(_odd_and_even(b, powers), _odd_and_even(b, slopes), strict=True):
        if high is not None and high_slope is not None:
            low_slope = add(add(_times(sixth, high_slope), _times(d6, high)), low_slope)
            low = add(_times(sixth, high), low)
        values.append(low)
        changes.append(low_slope)
    odd, even = _times(x, values[0]), values[1]
    odd_slope, even_slope = add(_times(x, changes[0]), _times(t, values[0])), changes[1]
    left = sub(even, odd)
    start = _solved(left, add(even, odd))
    slope = _solved(left, add(add(odd_slope, even_slope), _times(sub(odd_slope, even_slope), start)))

    def squared(left: ArrayLike, x: ArrayLike, t: ArrayLike) -> Sequence[Result]:
        return [sub(left, np.int64(1)), _times(x, x), add(_times(x, t), _times(t, x))]

    return [_unless_infinite(a, m.while_loop(_any_left, squared, [_as_count(count), start, slope])[2])]


def expm(a: ArrayLike) -> Result:
    """The exponentials of square matrices."""
    return bind(Expm(), a)


def expm_frechet(a: ArrayLike, e: ArrayLike) -> Result:
    """Their derivatives, in directions e."""
    return bind(ExpmFrechet(), a, e)
