"""sin, cos, tan: reduction by pi (tan by pi/2) and one odd polynomial.

|x| up to `_Trig.limit`: n pi is subtracted in three parts by fma (Cody and Waite 1980); the first subtraction is exact.
Above, by a rare branch: Payne and Hanek 1983, x / (2 pi) modulo 1 in 64 (f32) or 128 (f64) bits of integer arithmetic,
the window of 1 / (2 pi) picked by selects on the exponent.
Coefficients: benchmarks/fit_math.py.
"""

from __future__ import annotations

from tracejit.ir.math.double_word import fast_sum, product
from tracejit.ir.math.term import F32, Term, fma, polynomial, rare, select
from tracejit.support.nodes import frozen

__all__ = ["cos", "sin", "tan"]

# 1 / (2 pi) to 1216 binary places
INVERSE_TURN = int(
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef1586dc91b8e909374b801924bba827464873f877ac72c4a69cfba208d7d4baed121"
    "3a671c09ad17df904e64758e60d4ce7d272117e2ef7e4a0ec7fe25fff7816603fbcbc462d6829b47db4d9fb3c9f2c26dd3d18fd9a797fa8b5d49eeb1faf97c5e"
    "cf41ce7de294a4ba9afed7ec47e357421580cc11bf1edaea",
    16,
)
INVERSE_TURN_BITS = 1216


@frozen
class _Trig:
    """Constants of one format: limit of the fast reduction, pi in three parts, 1/pi;
    sin(r) = r + r z p(z), tan likewise.
    """

    limit: float
    pi: tuple[float, float, float]
    inverse_pi: float
    sine: tuple[float, ...]
    tangent: tuple[float, ...]


_TRIG = {
    "f32": _Trig(
        2.0**17, (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15), 0.31830987334251404,
        (-0.16666658222675323, 0.00833303015679121, -0.00019806850468739867, 2.59951843872841e-06),
        (0.33333104848861694, 0.13340161740779877, 0.05329780653119087, 0.02483639493584633, 0.0024673789739608765,
        0.009771661832928658),
    ),
    "f64": _Trig(
        2.0**28, (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33), 0.3183098861837907,
        (-0.16666666666666666, 0.008333333333333207, -0.00019841269841212484, 2.7557319211571693e-06,
        -2.5052106904744636e-08,
         1.605894102361597e-10, -7.643020027079587e-13, 2.7214271486298222e-15),
        (0.33333333333332743, 0.13333333333419425, 0.053968253924357196, 0.021869489664677312, 0.008863218377900871,
         0.0035922961753809303,
         0.0014547149009020517, 0.0005952456599790661, 0.00022184715003462492, 0.0001376215134749969,
         -2.7929581670271214e-05, 9.08697144559692e-05, -4.564114295778484e-05, 2.1046993314812552e-05),
    ),
}  # fmt: skip


def _sine(r: Term) -> Term:
    """sin(r), |r| <= pi/2 and a little.  The last roundings could step over 1: clamped."""
    z = r * r
    first, *rest = _TRIG[r.dtype].sine
    p = fma(polynomial(z, rest), z, first)
    return fma(r * z, p, r).at_least(-1.0).at_most(1.0)


def _flip(y: Term, odd: Term) -> Term:
    """y with its sign changed where the lowest bit of the integer `odd` is set."""
    return ((odd << (y.format.bits - 1)) ^ y.bits()).bitcast(y.dtype)


def sin(x: Term) -> Term:
    """Sine of radians."""
    c, form = _TRIG[x.dtype], x.format
    a = abs(x)
    t = fma(a, c.inverse_pi, form.magic)
    y = _sine(_minus_pi(a, t - form.magic, c.pi))

    def far() -> Term:
        r, _, odd = _fold(*_turns(a), 63, x.dtype)
        return _finite_only(a, _flip(_sine(r), odd))

    y = rare(~(a < c.limit), far, _flip(y, t.bits()))
    return (y.bits() ^ (x.bits() & form.sign_bit)).bitcast(x.dtype)


def cos(x: Term) -> Term:
    """Cosine of radians: sin(x + pi/2), with n an odd multiple of 1/2."""
    c, form = _TRIG[x.dtype], x.format
    a = abs(x)
    t = fma(a, c.inverse_pi, -0.5) + form.magic
    y = _sine(_minus_pi(a, (t - form.magic) + 0.5, c.pi))

    def far() -> Term:
        high, low = _turns(a)
        r, _, odd = _fold(high + (1 << 62), low, 63, x.dtype)
        return _finite_only(a, _flip(_sine(r), odd))

    return rare(~(a < c.limit), far, _flip(y, ~t.bits()))


def tan(x: Term) -> Term:
    """Tangent of radians: tan(r) or -1/tan(r), r = x - n pi/2 kept in two words."""
    c, form = _TRIG[x.dtype], x.format
    a = abs(x)
    t = fma(a, 2 * c.inverse_pi, form.magic)
    n = t - form.magic
    p0, p1, p2 = (-p / 2 for p in c.pi)
    middle, middle_low = product(n, p1)
    r, lost = fast_sum(fma(n, p0, a), middle)
    r, low = fast_sum(r, fma(n, p2, lost + middle_low))

    def far() -> Term:
        r, low, odd = _fold(*_turns(a), 62, x.dtype)
        return _finite_only(a, _tangent(r, low, odd))

    y = rare(~(a < c.limit), far, _tangent(r, low, t.bits()))
    return (y.bits() ^ (x.bits() & form.sign_bit)).bitcast(x.dtype)


def _tangent(r: Term, low: Term, odd: Term) -> Term:
    """tan(r + low), or -1/tan where the lowest bit of `odd` is set."""
    z = r * r
    y, y_low = fast_sum(r, fma(r * z, polynomial(z, _TRIG[r.dtype].tangent), fma(low, z, low)))
    q = -1.0 / y
    return select((odd & 1).differs(0), fma(q * q, y_low, q), y)


def _minus_pi(x: Term, n: Term, pi: tuple[float, float, float]) -> Term:
    r = fma(n, -pi[0], x)
    r = fma(n, -pi[1], r)
    return fma(n, -pi[2], r)


def _finite_only(a: Term, y: Term) -> Term:
    """y, and NaN where a is infinite or NaN."""
    return select(a < float("inf"), y, float("nan"))


def _window(first: Term, words: int, size: int, steps: int, pad: int) -> list[Term]:
    """`words` words of `size` bits of 1/(2 pi), after `pad` zeros, from word `first` (below 2**steps) on:
    a shifter of selects.
    """
    count = words + (1 << steps) - 1
    shift = INVERSE_TURN_BITS + pad - size * count
    value = INVERSE_TURN >> shift
    row = [first.const((value >> (size * (count - 1 - k))) & ((1 << size) - 1)) for k in range(count)]
    for step in reversed(range(steps)):
        hop = 1 << step
        far = (first & hop).differs(0)
        row = [select(far, row[k + hop], row[k]) for k in range(words + hop - 1)]
    return row


def _turns(a: Term) -> tuple[Term, Term | None]:
    """a / (2 pi) modulo 1 as a u64 of 64 binary places, and for f64 a second u64
    of the next 64.  a is at least `limit`.
    """
    return (_turns_f32(a), None) if a.format is F32 else _turns_f64(a)


def _turns_f32(a: Term) -> Term:
    bits = a.bits()
    start = ((bits >> 23) - (127 + 17)).bitcast("u32").convert("u64")  # the places before it multiply to whole turns
    m = ((bits & 0x7FFFFF) | 0x800000).bitcast("u32").convert("u64")
    words = _window(start >> 5, 4, 32, 2, pad=6)
    shift = start & 31
    v0, v1, v2 = ((((words[k] << 32) | words[k + 1]) << shift) >> 32 for k in range(3))
    return ((m * v0) << 32) + m * v1 + ((m * v2) >> 32)


def _turns_f64(a: Term) -> tuple[Term, Term]:
    bits = a.bitcast("u64")
    start = (bits >> 52) - (1023 + 28)
    m = (bits & a.format.fraction_mask) | (1 << 52)
    words = _window(start >> 6, 4, 64, 4, pad=24)
    shift = start & 63
    v0, v1, v2 = ((words[k] << shift) | ((words[k + 1] >> 1) >> (63 - shift)) for k in range(3))
    middle = m * v1
    low = middle + _high_product(m, v2)
    carry = select(low < middle, low.const(1), low.const(0))
    return m * v0 + _high_product(m, v1) + carry, low


def _high_product(x: Term, y: Term) -> Term:
    """The upper 64 bits of x * y; x is below 2**53."""
    mask = 0xFFFFFFFF
    xh, xl, yh, yl = x >> 32, x & mask, y >> 32, y & mask
    outer = xl * yh + ((xl * yl) >> 32)
    inner = xh * yl + (outer & mask)
    return xh * yh + (outer >> 32) + (inner >> 32)


def _fold(high: Term, low: Term | None, period: int, dtype: str) -> tuple[Term, Term, Term]:
    """(r, tail, odd): the angle of `high`:`low` minus the nearest multiple of 2**period places, in radians;
    the multiple's parity.
    """
    half = 1 << (period - 1)
    moved = high + half
    parity = moved >> period
    near = ((moved & ((1 << period) - 1)) - half).bitcast("i64")
    if low is None:
        return *_radians_f32(near), parity.convert("u32").bitcast("i32")
    return *_radians_f64(near, low), parity.bitcast("i64")


def _radians_f32(near: Term) -> tuple[Term, Term]:
    pi = [p * 2.0**-63 for p in _TRIG["f32"].pi]
    h = near.convert("f32")
    tail = (near - h.convert("i64")).convert("f32")
    r = h * pi[0]
    return fast_sum(r, fma(h, pi[0], -r) + fma(h, pi[1], tail * pi[0]))


def _radians_f64(near: Term, low: Term) -> tuple[Term, Term]:
    """The angle as a sum of two f64, the second below half a unit of the first."""
    pi = [p * 2.0**-63 for p in _TRIG["f64"].pi]
    mask = 0xFFFFFFFF
    a = near.shr(32).convert("f64") * 2.0**32
    b = (near & mask).convert("f64")
    c = fma((low >> 32).convert("f64"), 2.0**-32, (low & mask).convert("f64") * 2.0**-64)
    h = a + b
    h, tail = fast_sum(h, ((a - h) + b) + c)
    r = h * pi[0]
    return fast_sum(r, fma(h, pi[0], -r) + fma(h, pi[1], tail * pi[0]))
