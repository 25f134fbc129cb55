"""Schur's form of square matrices, which their eigenvalues follow from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.types import ShapedArray
from tracejit.primitives import matrix_loops as m
from tracejit.primitives.arithmetic import Abs, Maximum, Minimum, Remainder
from tracejit.primitives.comparison import And, Eq, Ge, Gt, Le, Lt, Ne, Or
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.elementwise import add, convert, div, mul, neg, select, sub
from tracejit.primitives.hessenberg import hessenberg_by_numpy, reduced, reflector_of
from tracejit.primitives.shape import broadcast_in_dim, concatenate, pad, reshape, slice_array, transpose
from tracejit.primitives.slicing import dynamic_slice, dynamic_update_slice
from tracejit.primitives.transcendental import Sqrt
from tracejit.primitives.triangular import check_matrices
from tracejit.primitives.undetermined import Undetermined
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = ["Schur", "schur", "to_complex", "values_of"]

EXCEPTIONAL = 10
"""Sweeps after which a block that has not come apart gets another shift."""
MOST_SWEEPS = 30
"""Sweeps for each eigenvalue; some 2 or 3 are needed."""


@frozen(eq=False)
class Schur(Undetermined):
    """a = z t z^H with unitary z and a triangle t.   a: [.., n, n] -> t [.., n, n], z [.., n, n]

    Of a real matrix t is real, too: pairs of complex eigenvalues are blocks of two rows on its diagonal, whose diagonal
    elements are equal.  vectors: z is a result.  All are NaN where the sweeps do not converge.
    Source: the shifts, the order and the normal form of blocks of LAPACK's lahqr and lanv2.
    """

    name = "schur"
    what = "Schur's form"
    vectors: bool = True

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        (a,) = avals
        check_matrices(self.name, a)
        return (a.strong(),) * (1 + self.vectors)

    def impl(self, *args: ArrayLike) -> list[Result]:
        t = np.array(args[0])
        z = np.broadcast_to(np.eye(t.shape[-1], dtype=t.dtype), t.shape).copy()
        with np.errstate(all="ignore"):
            for at in np.ndindex(*t.shape[:-2]):
                hessenberg_by_numpy(t[at], z[at])
                _by_numpy(t[at], z[at])
        return [t, z] if self.vectors else [t]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        def one(a: ArrayLike) -> Sequence[Result]:
            return _triangle(a, self.vectors)

        return Expand(lambda a: m.each_matrix(one, a, ranks=(2,)))


def schur(a: ArrayLike) -> tuple[Result, Result]:
    """t and z."""
    t, z = bind(Schur(), a)
    return t, z


# -- by NumPy ----------------------------------------------------------------------------------------------------------
def _size(x: Any) -> Any:
    return abs(x.real) + abs(x.imag)


def _is_small(h: Any, k: int, least: Any, eps: Any) -> bool:
    below, above = abs(h[k, k - 1]), _size(h[k - 1, k])
    if below <= least:
        return True
    around = _size(h[k - 1, k - 1]) + _size(h[k, k])
    if around == 0:
        around += (_size(h[k - 1, k - 2]) if k > 1 else 0) + (_size(h[k + 1, k]) if k + 1 < len(h) else 0)
    if not below <= eps * around:
        return False
    more, less = max(below, above), min(below, above)
    apart = _size(h[k - 1, k - 1] - h[k, k])
    high, low = max(_size(h[k, k]), apart), min(_size(h[k, k]), apart)
    return less * (more / (high + more)) <= max(least, eps * (low * (high / (high + more))))


def _by_numpy(h: Any, z: Any) -> None:
    """One Hessenberg matrix changed to t, and z multiplied by the reflections from the right."""
    n, part = len(h), np.real(h).dtype
    is_complex = h.dtype.kind == "c"
    eps = np.finfo(part).eps
    least = np.finfo(part).tiny * (n / eps)
    end, since = n - 1, 0
    for _ in range(MOST_SWEEPS * (n + EXCEPTIONAL)):
        if end < 0:
            return
        start = end
        while start > 0 and not _is_small(h, start, least, eps):
            start -= 1
        if start > 0:
            h[start, start - 1] = 0
        if start >= end - (not is_complex):
            if start < end:
                _standard_by_numpy(h, z, end)
            end, since = start - 1, 0
            continue
        since += 1
        at, other = end, end - 1
        if since % (2 * EXCEPTIONAL) and since % EXCEPTIONAL == 0:
            at, other = start, start + 1
        coupling = abs(h[max(at, other), min(at, other)])
        column, is_negligible = (_complex_columns if is_complex else _real_columns)(h, end, at, coupling, since)
        first, x = end - 1 - (not is_complex), None
        while True:
            x = column(first)
            if first == start or is_negligible(first, x):
                break
            first -= 1
        width = len(x)
        for k in range(first, end):
            if k > first:
                x = h[k : k + width, k - 1].copy()
            v, tau, beta = reflector_of(x[: min(width, end - k + 1)])
            rows = slice(k, k + len(v))
            h[rows] -= np.conj(tau) * np.outer(v, v.conj() @ h[rows])
            if k > 0:
                h[k + 1 : k + len(v), k - 1] = 0
            if k > first:
                h[k, k - 1] = beta
            for y in (h, z):
                y[:, rows] -= tau * np.outer(y[:, rows] @ v, v.conj())
    h[...] = z[...] = np.nan


def _complex_columns(h: Any, end: int, at: int, coupling: Any, since: int) -> tuple[Any, Any]:
    """The column at a row that the first reflection of a sweep is of, and whether the sweep may begin there."""
    shift = h[end, end]
    if since % EXCEPTIONAL == 0:
        shift = h[at, at] + 0.75 * coupling
    else:
        u = np.sqrt(h[end - 1, end]) * np.sqrt(h[end, end - 1])
        if _size(u) != 0:
            x = (h[end - 1, end - 1] - shift) / 2
            s = max(_size(u), _size(x))
            y = s * np.sqrt((x / s) ** 2 + (u / s) ** 2)
            shift -= u * (u / (x - y if (x.conjugate() * y).real < 0 else x + y))

    def column(k: int) -> Any:
        x = np.array([h[k, k] - shift, h[k + 1, k]])
        return x / (_size(x[0]) + abs(x[1]))

    def is_negligible(k: int, x: Any) -> bool:
        around = _size(h[k, k]) + _size(h[k + 1, k + 1])
        return abs(h[k, k - 1]) * abs(x[1]) <= np.finfo(h.dtype).eps * (_size(x[0]) * around)

    return column, is_negligible


def _real_columns(h: Any, end: int, at: int, coupling: Any, since: int) -> tuple[Any, Any]:
    h11, h12, h21, h22 = h[end - 1, end - 1], h[end - 1, end], h[end, end - 1], h[end, end]
    if since % EXCEPTIONAL == 0:
        coupling = coupling + (abs(h[end - 1, end - 2]) if at == end else abs(h[at + 2, at + 1]))
        h11 = h22 = 0.75 * coupling + h[at, at]
        h12, h21 = -0.4375 * coupling, coupling
    s = abs(h11) + abs(h12) + abs(h21) + abs(h22)
    half = (h11 + h22) / 2
    determinant = ((h11 - half) / s) * ((h22 - half) / s) - (h12 / s) * (h21 / s)
    root = np.sqrt(abs(determinant)) * s
    turn = 0 * root
    if determinant >= 0:
        shift, turn = half, root
    else:
        shift = half + root if abs(half + root - h22) <= abs(half - root - h22) else half - root

    def column(k: int) -> Any:
        a, b, c = h[k, k], h[k + 1, k], h[k + 2, k + 1]
        s = abs(a - shift) + abs(turn) + abs(b)
        first = (b / s) * h[k, k + 1] + (a - shift) * ((a - shift) / s) + turn * (turn / s)
        x = np.array([first, (b / s) * (a + h[k + 1, k + 1] - shift - shift), (b / s) * c])
        return x / np.sum(np.abs(x))

    def is_negligible(k: int, x: Any) -> bool:
        around = abs(h[k - 1, k - 1]) + abs(h[k, k]) + abs(h[k + 1, k + 1])
        return abs(h[k, k - 1]) * (abs(x[1]) + abs(x[2])) <= np.finfo(h.dtype).eps * abs(x[0]) * around

    return column, is_negligible


def _standard_by_numpy(h: Any, z: Any, end: int) -> None:
    rows = slice(end - 1, end + 1)
    found = _standard([h[i, j] for i in (end - 1, end) for j in (end - 1, end)], _Plain)
    turn = np.array([[found[0], found[1]], [-found[1], found[0]]])
    h[rows] = turn @ h[rows]
    for x in (h, z):
        x[:, rows] = x[:, rows] @ turn.T
    h[rows, rows] = np.reshape(found[2:], (2, 2))


class _Plain:
    """Operations on NumPy's numbers; `_Traced` has them for traced ones."""

    add, sub, mul, div = np.add, np.subtract, np.multiply, np.divide
    absolute, sqrt, maximum, minimum = np.absolute, np.sqrt, np.maximum, np.minimum
    eq, ge, lt = np.equal, np.greater_equal, np.less
    select = np.where


class _Traced:
    add, sub, mul, div = staticmethod(add), staticmethod(sub), staticmethod(mul), staticmethod(div)
    select = staticmethod(select)

    @staticmethod
    def absolute(x: ArrayLike) -> Result:
        return bind(Abs(), x)

    @staticmethod
    def sqrt(x: ArrayLike) -> Result:
        return bind(Sqrt(), x)

    @staticmethod
    def maximum(x: ArrayLike, y: ArrayLike) -> Result:
        return bind(Maximum(), x, y)

    @staticmethod
    def minimum(x: ArrayLike, y: ArrayLike) -> Result:
        return bind(Minimum(), x, y)

    @staticmethod
    def eq(x: ArrayLike, y: ArrayLike) -> Result:
        return bind(Eq(), x, y)

    @staticmethod
    def ge(x: ArrayLike, y: ArrayLike) -> Result:
        return bind(Ge(), x, y)

    @staticmethod
    def lt(x: ArrayLike, y: ArrayLike) -> Result:
        return bind(Lt(), x, y)


def _standard(block: Sequence[Any], o: Any) -> list[Any]:
    """(cosine, sine, a, b, c, d): the turn that makes a real block a triangle if its eigenvalues are real, and else
    its diagonal elements equal.   block: these numbers, row by row, o: the operations on them

    Source: LAPACK's lanv2.
    """
    a, b, c, d = block
    dtype = m.dtype_of(a)
    zero, one, half = (dtype.type(x) for x in (0, 1, 0.5))
    eps = dtype.type(4 * np.finfo(dtype).eps)

    def choose(test: Any, these: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        return [o.select(test, x, y) for x, y in zip(these, others, strict=True)]

    def sign(x: Any) -> Any:
        return o.select(o.lt(x, zero), -one, one)

    def safe(x: Any) -> Any:
        return o.select(o.eq(x, zero), one, x)

    difference = o.sub(a, d)
    p = o.mul(half, difference)
    size_b, size_c = o.absolute(b), o.absolute(c)
    most = o.maximum(size_b, size_c)
    least = o.mul(o.minimum(size_b, size_c), o.mul(sign(b), sign(c)))
    scale = safe(o.maximum(o.absolute(p), most))
    z = o.add(o.mul(o.div(p, scale), p), o.mul(o.div(most, scale), least))
    # two real eigenvalues
    root = o.mul(o.sqrt(scale), o.sqrt(o.maximum(z, zero)))
    w = safe(o.add(p, o.mul(sign(p), root)))
    tau = safe(o.sqrt(o.add(o.mul(c, c), o.mul(w, w))))
    apart = [o.div(w, tau), o.div(c, tau), o.add(d, w), o.sub(b, c), zero, o.sub(d, o.mul(o.div(most, w), least))]
    # two complex ones, or two that are nearly equal
    sigma = o.add(b, c)
    tau = safe(o.sqrt(o.add(o.mul(sigma, sigma), o.mul(difference, difference))))
    cosine = o.sqrt(o.mul(half, o.add(one, o.div(o.absolute(sigma), tau))))
    sine = o.mul(o.div(o.mul(-one, p), o.mul(tau, cosine)), sign(sigma))
    aa, bb = o.add(o.mul(a, cosine), o.mul(b, sine)), o.sub(o.mul(b, cosine), o.mul(a, sine))
    cc, dd = o.add(o.mul(c, cosine), o.mul(d, sine)), o.sub(o.mul(d, cosine), o.mul(c, sine))
    a1, b1 = o.add(o.mul(aa, cosine), o.mul(cc, sine)), o.add(o.mul(bb, cosine), o.mul(dd, sine))
    c1, d1 = o.sub(o.mul(cc, cosine), o.mul(aa, sine)), o.sub(o.mul(dd, cosine), o.mul(bb, sine))
    middle = o.mul(half, o.add(a1, d1))
    pair = [cosine, sine, middle, b1, c1, middle]
    root_b, root_c = o.sqrt(o.absolute(b1)), o.sqrt(o.absolute(c1))
    q = o.mul(o.mul(root_b, root_c), sign(c1))
    by = o.div(one, safe(o.sqrt(o.absolute(o.add(b1, c1)))))
    second, sine2 = o.mul(root_b, by), o.mul(root_c, by)
    turned = [
        o.sub(o.mul(cosine, second), o.mul(sine, sine2)), o.add(o.mul(cosine, sine2), o.mul(sine, second)),
        o.add(middle, q), o.sub(b1, c1), zero, o.sub(middle, q),
    ]  # fmt: skip
    swapped = [o.mul(-one, sine), cosine, middle, o.mul(-one, c1), zero, middle]
    pair = choose(o.eq(sign(b1), sign(c1)), turned, pair)
    pair = choose(o.eq(b1, zero), swapped, pair)
    pair = choose(o.eq(c1, zero), [cosine, sine, middle, b1, c1, middle], pair)
    out = choose(o.ge(z, eps), apart, pair)
    equal = o.select(o.eq(difference, zero), o.select(o.eq(sign(b), sign(c)), zero, one), zero)
    same = [one, zero, a, b, c, d]
    out = choose(o.eq(equal, one), same, out)
    out = choose(o.eq(b, zero), [zero, one, d, o.mul(-one, c), zero, a], out)
    return choose(o.eq(c, zero), same, out)


# -- as loops ----------------------------------------------------------------------------------------------------------
_NONE, _ONE = np.int64(0), np.int64(1)


def _most(*xs: ArrayLike) -> ArrayLike:
    out = xs[0]
    for x in xs[1:]:
        out = bind(Maximum(), out, x)
    return out


def _triangle(a: ArrayLike, vectors: bool) -> list[Result]:
    """(t, z if wanted) of one matrix.

    The matrix has rows and columns of zeros behind it, so that the rows that a reflection changes are there.
    """
    n = shape_of(a)[0]
    if isinstance(n, int) and not n:
        return [a] * (1 + vectors)
    h, *q = reduced(a, vectors)
    width = 2 if m.is_complex(a) else 3
    zero = m.dtype_of(a).type(0)
    h = pad(h, zero, [0, 0], [width - 1, width - 1])
    rows = [pad(transpose(x, (1, 0)), zero, [0, 0], [width - 1, 0]) for x in q]
    end, _, _, h, *rows = m.while_loop(
        _unfinished(n), _sweep(n, width), [extent_value(n - 1, np.int64), _NONE, _NONE, h, *rows]
    )
    t = slice_array(h, (0, 0), (n, n))
    i, j = iota((n, n), 0, np.int64), iota((n, n), 1, np.int64)
    kept = bind(Le(), i, j if m.is_complex(a) else add(j, broadcast_in_dim(_ONE, (n, n), ())))
    t = select(kept, t, m.zeros((n, n), m.dtype_of(a)))
    found = broadcast_in_dim(bind(Lt(), end, _NONE), (n, n), ())
    lost = broadcast_in_dim(m.dtype_of(a).type(np.nan), (n, n), ())
    outs = [t, *[transpose(slice_array(x, (0, 0), (n, n)), (1, 0)) for x in rows]]
    return [select(found, x, lost) for x in outs]


def _unfinished(n: Extent) -> Callable[..., Any]:
    def test(end: ArrayLike, _: ArrayLike, sweeps: ArrayLike, *__: ArrayLike) -> Result:
        most = extent_value(MOST_SWEEPS * n + MOST_SWEEPS * EXCEPTIONAL, np.int64)
        return bind(And(), bind(Ge(), end, _NONE), bind(Lt(), sweeps, most))

    return test


def _at(h: ArrayLike, i: ArrayLike, j: ArrayLike) -> Result:
    """An element, at indices that may be less than zero where it does not count."""
    return m.element(h, _most(i, _NONE), _most(j, _NONE))


def _start_of(h: ArrayLike, end: ArrayLike, n: Extent) -> Result:
    """The first row of the block that ends at a row."""
    part = m.part_dtype(h)
    eps = part.type(np.finfo(part).eps)

    def goes_on(h: ArrayLike, k: ArrayLike) -> Result:
        before, after = sub(k, _ONE), add(k, _ONE)
        least = mul(extent_value(n, part), part.type(np.finfo(part).tiny / np.finfo(part).eps))
        below, above = bind(Abs(), _at(h, k, before)), m.size_of(_at(h, before, k))
        here, last = _at(h, k, k), _at(h, before, before)
        around = add(m.size_of(last), m.size_of(here))
        further = select(bind(Gt(), k, _ONE), m.size_of(_at(h, before, sub(before, _ONE))), part.type(0))
        further = add(further, m.size_of(_at(h, after, k)))
        around = select(bind(Eq(), around, part.type(0)), further, around)
        more, less = bind(Maximum(), below, above), bind(Minimum(), below, above)
        apart = m.size_of(sub(last, here))
        high, low = bind(Maximum(), m.size_of(here), apart), bind(Minimum(), m.size_of(here), apart)
        total = add(high, more)
        limit = bind(Maximum(), least, mul(eps, mul(low, div(high, total))))
        small = bind(And(), bind(Le(), below, mul(eps, around)), bind(Le(), mul(less, div(more, total)), limit))
        small = bind(Or(), small, bind(Le(), below, least))
        return bind(And(), bind(Gt(), k, _NONE), bind(Eq(), convert(small, np.int64), _NONE))

    return m.while_loop(goes_on, lambda h, k: [sub(k, _ONE)], [end], [h])[0]


def _sweep(n: Extent, width: int) -> Callable[..., Sequence[Result]]:
    """One sweep over the last block, or its end."""

    def body(end: ArrayLike, since: ArrayLike, sweeps: ArrayLike, h: ArrayLike, *rows: ArrayLike) -> Sequence[Result]:
        zero = m.dtype_of(h).type(0)
        start = _start_of(h, end, n)
        before = sub(start, _ONE)
        inside = bind(Gt(), start, _NONE)
        h = m.with_element(h, select(inside, zero, _at(h, start, before)), start, _most(before, _NONE))
        alone = bind(Ge(), start, end if width == 2 else sub(end, _ONE))
        since = select(alone, _NONE, add(since, _ONE))
        shifts = (_complex_shift if width == 2 else _real_shifts)(h, start, end, since)
        first = _first_row(h, start, sub(end, np.int64(width - 1)), shifts)
        column = _column_at(h, first, shifts)

        def below(_: ArrayLike, end: ArrayLike, *state: ArrayLike) -> Result:
            return bind(Lt(), state[width], end)

        def step(first: ArrayLike, end: ArrayLike, *state: ArrayLike) -> Sequence[Result]:
            x, k, h, rows = list(state[:width]), state[width], state[width + 1], list(state[width + 2 :])
            begun = bind(Gt(), k, first)
            before = sub(k, _ONE)
            for i in range(width):
                x[i] = select(begun, _at(h, add(k, np.int64(i)), before), x[i])
            if width == 3:
                x[2] = select(bind(Lt(), add(k, _ONE), end), x[2], zero)
            v, tau, beta = _reflection(x)
            h = _from_left(h, v, conj(v), conj(tau), k)
            now = [select(begun, beta, _at(h, k, before))]
            inside = bind(Gt(), k, _NONE)
            now += [select(inside, zero, _at(h, add(k, np.int64(i)), before)) for i in range(1, width)]
            beside = reshape(concatenate([reshape(y, (1,)) for y in now], 0), (width, 1))
            h = dynamic_update_slice(h, beside, (k, _most(before, _NONE)))
            h = _from_right(h, v, tau, k)
            rows = [_from_left(y, conj(v), v, tau, k) for y in rows]
            return [*x, add(k, _ONE), h, *rows]

        state = [*column, select(alone, end, first), h, *rows]
        outs = m.while_loop(below, step, state, [first, end])[width + 1 :]
        if width == 3:
            outs = _standardized(outs, end, bind(Eq(), start, sub(end, _ONE)))
        return [select(alone, sub(start, _ONE), end), since, add(sweeps, _ONE), *outs]

    return body


def _reflection(x: Sequence[Any]) -> tuple[Result, Result, Result]:
    """What `reflector` gives, of numbers."""
    dtype, part = m.dtype_of(x[0]), m.part_dtype(x[0])
    one, zero = dtype.type(1), dtype.type(0)
    top = real(x[0])
    squares: Any = part.type(0)
    for y in x[1:]:
        squares = add(squares, m.squared(y))
    size = bind(Sqrt(), add(m.squared(x[0]), squares))
    beta = select(_is_negative(top), size, neg(size))
    flat = bind(Eq(), squares, part.type(0))
    safe = select(bind(Eq(), beta, part.type(0)), part.type(1), beta)
    tau = div(sub(beta, top), safe)
    if m.is_complex(x[0]):
        flat = bind(And(), flat, bind(Eq(), imag(x[0]), part.type(0)))
        tau = make_complex(tau, div(neg(imag(x[0])), safe))
    scale = select(flat, one, sub(x[0], m.like(beta, x[0])))
    v = concatenate([reshape(y, (1,)) for y in (one, *[div(y, scale) for y in x[1:]])], 0)
    return v, select(flat, zero, tau), m.like(select(flat, top, beta), x[0])


def _is_negative(x: ArrayLike) -> Result:
    return bind(Lt(), x, m.dtype_of(x).type(0))


def _from_left(x: ArrayLike, v: ArrayLike, by: ArrayLike, tau: ArrayLike, k: ArrayLike) -> Result:
    """Rows from k on less tau v (by @ these)."""
    (width,), columns = shape_of(v), shape_of(x)[1]
    shape = (width, columns)
    part = dynamic_slice(x, (k, _NONE), shape)
    sums = mul(dot_general(by, part, ((0,), (0,))), broadcast_in_dim(tau, (columns,), ()))
    change = mul(broadcast_in_dim(v, shape, (0,)), broadcast_in_dim(sums, shape, (1,)))
    return dynamic_update_slice(x, sub(part, change), (k, _NONE))


def _from_right(x: ArrayLike, v: ArrayLike, tau: ArrayLike, k: ArrayLike) -> Result:
    """Columns from k on less (these @ v) tau v^H."""
    rows, (width,) = shape_of(x)[0], shape_of(v)
    shape = (rows, width)
    part = dynamic_slice(x, (_NONE, k), shape)
    sums = mul(dot_general(part, v, ((1,), (0,))), broadcast_in_dim(tau, (rows,), ()))
    change = mul(broadcast_in_dim(sums, shape, (0,)), broadcast_in_dim(conj(v), shape, (1,)))
    return dynamic_update_slice(x, sub(part, change), (_NONE, k))


def _exceptional(h: ArrayLike, start: ArrayLike, end: ArrayLike, since: ArrayLike) -> tuple[Result, Result, Result]:
    """(whether a block gets another shift, the row that it is from, the next row of the block)."""
    rest = bind(Remainder(), since, np.int64(EXCEPTIONAL))
    whole = bind(Eq(), bind(Remainder(), since, np.int64(2 * EXCEPTIONAL)), _NONE)
    here = select(whole, end, start)
    return bind(Eq(), rest, _NONE), here, select(whole, sub(end, _ONE), add(start, _ONE))


def _coupling(h: ArrayLike, here: ArrayLike, other: ArrayLike) -> Result:
    """The size of the element beside the diagonal that belongs to two rows."""
    return bind(Abs(), _at(h, bind(Maximum(), here, other), bind(Minimum(), here, other)))


def _first_row(h: ArrayLike, start: ArrayLike, last: ArrayLike, shifts: Sequence[ArrayLike]) -> Result:
    """Where a sweep begins: at the start of the block, or behind two elements beside the diagonal that are small."""
    part = m.part_dtype(h)
    eps = part.type(np.finfo(part).eps)

    def goes_on(h: ArrayLike, start: ArrayLike, *more: ArrayLike) -> Result:
        *shifts, k = more
        x = _column_at(h, k, shifts)
        around = add(m.size_of(_at(h, k, k)), m.size_of(_at(h, add(k, _ONE), add(k, _ONE))))
        rest: Any = bind(Abs(), x[1])
        if len(x) > 2:
            rest = add(rest, bind(Abs(), x[2]))
            around = add(around, m.size_of(_at(h, sub(k, _ONE), sub(k, _ONE))))
        beside = mul(bind(Abs(), _at(h, k, sub(k, _ONE))), rest)
        small = bind(Le(), beside, mul(eps, mul(m.size_of(x[0]), around)))
        return bind(And(), bind(Gt(), k, start), bind(Eq(), convert(small, np.int64), _NONE))

    begin = bind(Maximum(), last, start)
    return m.while_loop(goes_on, lambda *xs: [sub(xs[-1], _ONE)], [begin], [h, start, *shifts])[0]


def _column_at(h: ArrayLike, k: ArrayLike, shifts: Sequence[ArrayLike]) -> list[Result]:
    """The column at a row that the first reflection of a sweep is of, over its size."""
    after = add(k, _ONE)
    a, b = _at(h, k, k), _at(h, after, k)
    part = m.part_dtype(h)

    def scaled(xs: Sequence[Any], sizes: Sequence[Any]) -> list[Result]:
        total = sizes[0]
        for x in sizes[1:]:
            total = add(total, x)
        total = m.like(select(bind(Eq(), total, part.type(0)), part.type(1), total), h)
        return [div(x, total) for x in xs]

    if m.is_complex(h):
        x = [sub(a, shifts[0]), b]
        return scaled(x, [m.size_of(x[0]), bind(Abs(), b)])
    shift, turn = shifts
    apart, c = sub(a, shift), _at(h, add(after, _ONE), after)
    by, scaled_apart, scaled_turn = scaled([b, apart, turn], [bind(Abs(), x) for x in (apart, turn, b)])
    top = add(add(mul(by, _at(h, k, after)), mul(apart, scaled_apart)), mul(turn, scaled_turn))
    x = [top, mul(by, sub(sub(add(a, _at(h, after, after)), shift), shift)), mul(by, c)]
    return scaled(x, [bind(Abs(), y) for y in x])


def _complex_shift(h: ArrayLike, start: ArrayLike, end: ArrayLike, since: ArrayLike) -> list[Result]:
    """Wilkinson's shift."""
    part, dtype = m.part_dtype(h), m.dtype_of(h)
    other, here, near = _exceptional(h, start, end, since)
    before = sub(end, _ONE)
    last = _at(h, end, end)
    u = mul(bind(Sqrt(), _at(h, before, end)), bind(Sqrt(), _at(h, end, before)))
    none = bind(Eq(), m.size_of(u), part.type(0))
    u1 = select(none, dtype.type(1), u)
    x = mul(sub(_at(h, before, before), last), dtype.type(0.5))
    s = m.like(bind(Maximum(), m.size_of(u1), m.size_of(x)), h)
    x1, u2 = div(x, s), div(u1, s)
    y = mul(s, bind(Sqrt(), add(mul(x1, x1), mul(u2, u2))))
    turned = bind(Lt(), real(mul(conj(x), y)), part.type(0))
    change = mul(u1, div(u1, select(turned, sub(x, y), add(x, y))))
    shift = select(none, last, sub(last, change))
    forced = add(_at(h, here, here), m.like(mul(part.type(0.75), _coupling(h, here, near)), h))
    return [select(other, forced, shift)]


def _real_shifts(h: ArrayLike, start: ArrayLike, end: ArrayLike, since: ArrayLike) -> list[Result]:
    """The two shifts of Francis: the real part that they share, and the imaginary one."""
    dtype = m.dtype_of(h)
    zero, one, half = (dtype.type(x) for x in (0, 1, 0.5))
    other, here, near = _exceptional(h, start, end, since)
    before = sub(end, _ONE)
    further = select(bind(Eq(), here, end), sub(near, _ONE), add(near, _ONE))
    coupling = add(_coupling(h, here, near), _coupling(h, near, further))
    forced = add(mul(dtype.type(0.75), coupling), _at(h, here, here))
    h11 = select(other, forced, _at(h, before, before))
    h12 = select(other, mul(dtype.type(-0.4375), coupling), _at(h, before, end))
    h21 = select(other, coupling, _at(h, end, before))
    h22 = select(other, forced, _at(h, end, end))

    def size(*xs: ArrayLike) -> Result:
        total: Any = bind(Abs(), xs[0])
        for x in xs[1:]:
            total = add(total, bind(Abs(), x))
        return select(bind(Eq(), total, zero), one, total)

    s = size(h11, h12, h21, h22)
    middle = mul(half, add(h11, h22))
    determinant = mul(div(sub(h11, middle), s), div(sub(h22, middle), s))
    determinant = sub(determinant, mul(div(h12, s), div(h21, s)))
    root = mul(bind(Sqrt(), bind(Abs(), determinant)), s)
    pair = bind(Ge(), determinant, zero)
    more, less = add(middle, root), sub(middle, root)
    closer = bind(Le(), bind(Abs(), sub(more, h22)), bind(Abs(), sub(less, h22)))
    return [select(pair, middle, select(closer, more, less)), select(pair, root, zero)]


def _standardized(state: Sequence[Any], end: ArrayLike, apply: ArrayLike) -> list[Result]:
    """The block of two rows that ends at a row in its normal form, where `apply` holds.   state: the
    matrix, and the rows of vectors if wanted
    """
    h, *rows = state
    dtype = m.dtype_of(h)
    first = bind(Maximum(), sub(end, _ONE), _NONE)
    second = add(first, _ONE)
    given = [m.element(h, i, j) for i in (first, second) for j in (first, second)]
    c, s, *block = _standard(given, _Traced)
    c, s = select(apply, c, dtype.type(1)), select(apply, s, dtype.type(0))
    block = [select(apply, x, y) for x, y in zip(block, given, strict=True)]

    def turned(x: ArrayLike) -> Result:
        one, other = m.rotated(m.some_row(x, first), m.some_row(x, second), c, neg(s))
        return m.with_row(m.with_row(x, one, first), other, second)

    h = turned(h)
    size = shape_of(h)[0]
    one, other = (reshape(dynamic_slice(h, (_NONE, k), (size, 1)), (size,)) for k in (first, second))
    for k, x in zip((first, second), m.rotated(one, other, c, neg(s)), strict=True):
        h = dynamic_update_slice(h, reshape(x, (size, 1)), (_NONE, k))
    places = [(i, j) for i in (first, second) for j in (first, second)]
    for (i, j), x in zip(places, block, strict=True):
        h = m.with_element(h, x, i, j)
    return [h, *[turned(x) for x in rows]]


# -- from real to complex forms ----------------------------------------------------------------------------------------
def values_of(t: ArrayLike) -> Result:
    """The eigenvalues, complex, of triangles with blocks of two rows as `Schur` has them.   t: [.., n, n] -> [.., n]"""
    values = m.diagonal_of(t)
    if m.is_complex(t):
        return values
    *lead, n, _ = shape_of(t)
    if isinstance(n, int) and n < 2:
        return make_complex(values, m.zeros((*lead, n), m.dtype_of(t)))
    none = [0] * len(lead)
    over, under = (m.diagonal_of(slice_array(t, (*none, i, j), (*lead, n - 1, n - 1))) for i, j in ((0, 1), (1, 0)))
    size = mul(bind(Sqrt(), bind(Abs(), over)), bind(Sqrt(), bind(Abs(), under)))
    zero = m.dtype_of(t).type(0)
    size = select(
        bind(Ne(), under, m.zeros(shape_of(under), m.dtype_of(t))), size, m.zeros(shape_of(size), m.dtype_of(t))
    )
    above = pad(size, zero, [0] * (len(lead) + 1), [*none, 1])
    below = pad(size, zero, [*none, 1], [0] * (len(lead) + 1))
    return make_complex(values, sub(above, below))


def to_complex(t: ArrayLike, z: ArrayLike) -> list[Result]:
    """A triangle and vectors, complex, of those of one matrix that have blocks of two rows.

    Source: SciPy's scipy.linalg.rsf2csf.
    """
    n = shape_of(t)[0]
    dtype = m.dtype_of(t)
    part = m.part_dtype(t)
    eps = part.type(np.finfo(part).eps)
    one, zero = dtype.type(1), dtype.type(0)
    if isinstance(n, int) and n < 2:
        return [t, z]

    def step(_: Extent, at: ArrayLike, __: Sequence[Any], carries: Sequence[Any]) -> Sequence[Result]:
        t, rows = carries
        second = sub(extent_value(n - 1, np.int64), at)
        first = sub(second, _ONE)
        a, b, c, d = (m.element(t, i, j) for i in (first, second) for j in (first, second))
        apply = bind(Gt(), bind(Abs(), c), mul(eps, add(bind(Abs(), a), bind(Abs(), d))))
        block = reshape(concatenate([reshape(x, (1,)) for x in (a, b, c, d)], 0), (2, 2))
        value = sub(m.element(bind(Schur(False), block)[0], _NONE, _NONE), d)
        length = bind(Sqrt(), add(m.squared(value), m.squared(c)))
        length = m.like(select(apply, length, part.type(1)), t)
        cosine, sine = select(apply, div(value, length), one), select(apply, div(c, length), zero)

        def turned(given: Sequence[Any], c: ArrayLike, s: ArrayLike) -> tuple[Result, Result]:
            x, y = given
            c1, c2, s1 = (broadcast_in_dim(k, (n,), ()) for k in (c, conj(c), s))
            return add(mul(c2, x), mul(s1, y)), sub(mul(c1, y), mul(s1, x))

        places = iota((n,), 0, np.int64)
        rows_of_t = [m.some_row(t, i) for i in (first, second)]
        kept = bind(Ge(), places, broadcast_in_dim(first, (n,), ()))
        for i, old, new in zip((first, second), rows_of_t, turned(rows_of_t, cosine, sine), strict=True):
            t = m.with_row(t, select(kept, new, old), i)
        columns = [reshape(dynamic_slice(t, (_NONE, j), (n, 1)), (n,)) for j in (first, second)]
        kept = bind(Le(), places, broadcast_in_dim(second, (n,), ()))
        for j, old, new in zip((first, second), columns, turned(columns, conj(cosine), conj(sine)), strict=True):
            t = dynamic_update_slice(t, reshape(select(kept, new, old), (n, 1)), (_NONE, j))
        vectors = turned([m.some_row(rows, i) for i in (first, second)], conj(cosine), conj(sine))
        for i, new in zip((first, second), vectors, strict=True):
            rows = m.with_row(rows, new, i)
        return [m.with_element(t, zero, second, first), rows]

    t, rows = m.index_loop(n - 1, step, [t, transpose(z, (1, 0))])
    return [t, transpose(rows, (1, 0))]
