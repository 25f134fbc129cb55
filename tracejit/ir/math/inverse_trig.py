"""asin, acos, atan, atan2: one odd polynomial each over a reduced argument, no branch.

asin: above 1/2, asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).  atan: above 1, atan(x) = pi/2 - atan(1/x).
Coefficients: benchmarks/fit_math.py.
"""

from __future__ import annotations

from tracejit.ir.math.term import Term, fma, polynomial, select

__all__ = ["acos", "asin", "atan", "atan2"]

PI = 3.141592653589793
_PI_LOW = {"f32": -8.742277657347586e-08, "f64": 1.2246467991473532e-16}  # pi minus pi rounded to the format

# asin(x) = x + x z p(z), z = x^2 <= 1/4
_ASIN: dict[str, tuple[float, ...]] = {
    "f32": (0.16666752099990845, 0.07495306432247162, 0.04546976462006569, 0.02418084256350994, 0.04216625541448593),
    "f64": (0.16666666666665403, 0.07500000000338608, 0.04464285682692091, 0.03038195919803292, 0.022371756542442986,
            0.01735972773019251, 0.013885009878638171, 0.012170667483376144, 0.006521838689231855, 0.019544536548332558,
            -0.016248898721610644, 0.031928544056316475),
}  # fmt: skip
# atan(x) = x + x z p(z), z = x^2 <= 1
_ATAN: dict[str, tuple[float, ...]] = {
    "f32": (-0.33333152532577515, 0.19993767142295837, -0.14211003482341766, 0.10665778070688248, -0.07551684230566025,
            0.043205082416534424, -0.016363464295864105, 0.00291950860992074),
    "f64": (-0.3333333333333307, 0.19999999999951734, -0.14285714282585077, 0.11111111007169412, -0.09090907003105062,
            0.07692279814724082, -0.06666403662298591, 0.05880524390136986, -0.05253498826549022, 0.04722240792918544,
            -0.04218929128078861, 0.03663610164635052, -0.029893530986256536, 0.02197081065012587,
            -0.013886068169714067, 0.007185350685574531, -0.0028787197239540144, 0.0008289713292692843,
            -0.00015161682375030924, 1.3167100292285506e-05),
}  # fmt: skip


def _asin_parts(x: Term) -> tuple[Term, Term, Term]:
    """(large, s, w): s + w is asin(x) for small x, else asin(sqrt((1 - |x|) / 2)); w is the small part."""
    a = abs(x)
    large = a > 0.5
    z = select(large, fma(a, -0.5, 0.5), x * x)
    s = select(large, z.sqrt(), x)
    return large, s, s * (z * polynomial(z, _ASIN[x.dtype]))


def asin(x: Term) -> Term:
    """Arc sine; NaN outside [-1, 1]."""
    large, s, w = _asin_parts(x)
    # pi/2 in two parts: the first sum is nearly exact, and at 1, where s is 0, the low part of pi/2 vanishes in it
    far = (fma(s, -2.0, PI / 2 - 0.5) + fma(w, -2.0, _PI_LOW[x.dtype] / 2)) + 0.5
    return select(large, far, s + w).with_sign_of(x)


def acos(x: Term) -> Term:
    """Arc cosine; NaN outside [-1, 1]."""
    large, s, w = _asin_parts(x)
    low = _PI_LOW[x.dtype]
    near = (PI / 2 - s) + (low / 2 - w)
    twice = s + w
    far = select(x < 0.0, PI - ((twice + twice) - low), twice + twice)
    return select(large, far, near)


def _atan_parts(u: Term) -> Term:
    """atan(u) - u, |u| <= 1."""
    z = u * u
    first, second, *rest = _ATAN[u.dtype]
    return fma(fma(polynomial(z, rest), z, second), z, first) * (z * u)


def _turned(u: Term, turn: Term, low: Term) -> Term:
    """turn + low + atan(u); at u = 0 the low part vanishes, and the result is turn, as annex F of C99 wants it."""
    return turn + (u + (_atan_parts(u) + low))


def atan(x: Term) -> Term:
    """Arc tangent."""
    a = abs(x)
    large = a > 1.0
    u = select(large, -1.0, a) / select(large, a, 1.0)
    turn, low = select(large, x.const(PI / 2), 0.0), select(large, x.const(_PI_LOW[x.dtype] / 2), 0.0)
    return _turned(u, turn, low).with_sign_of(x)


def atan2(y: Term, x: Term) -> Term:
    """Angle of the point (x, y) from the positive x axis, in [-pi, pi];
    signs of zeros and infinities as C99's atan2.
    """
    ax, ay = abs(x), abs(y)
    steep = ay > ax
    u = select(steep, ax, ay) / select(steep, ay, ax)
    u = select(ax.equals(ay), select(ax.equals(0.0), ax, 1.0), u)  # 0/0 and inf/inf
    left = x.bits() < 0
    u = select(left ^ steep, -u, u)
    turn = select(steep, x.const(PI / 2), select(left, x.const(PI), 0.0))
    return _turned(u, turn, turn * (_PI_LOW[x.dtype] / PI)).with_sign_of(y)
