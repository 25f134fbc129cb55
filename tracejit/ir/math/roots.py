"""cbrt: a polynomial first guess and one Newton step on an exact residual.  Coefficients: benchmarks/fit_math.py."""

from __future__ import annotations

from tracejit.ir.math.double_word import product
from tracejit.ir.math.exp_log import normal_bits, split_exponent, unusual
from tracejit.ir.math.term import Term, fma, polynomial, rare, select

__all__ = ["cbrt"]

# m**(1/3) for m in [sqrt(1/2), sqrt(2)], relative error 2**-13 (f32), 2**-28 (f64): the Newton step squares it
_GUESS: dict[str, tuple[float, ...]] = {
    "f32": (0.4925030469894409, 0.7397358417510986, -0.2903951108455658, 0.05822552740573883),
    "f64": (0.36369672957575727, 1.4570186371225298, -2.0275394911458986, 2.5001998525727034, -2.225440849210873,
            1.3594802997703577, -0.5400469484419633, 0.1256165125782361, -0.012984739560956053),
}  # fmt: skip
_ROOT_OF_2 = 1.2599210498948732


def cbrt(x: Term) -> Term:
    """Cube root, of negative numbers too."""
    a = abs(x)
    rest = unusual(a)
    y = _positive(*split_exponent(normal_bits(a, rest), x.format))
    return rare(rest, lambda: select(a.equals(0.0) | ~(a < float("inf")), a, y), y).with_sign_of(x)


def _positive(m: Term, k: Term) -> Term:
    """Cube root of m 2**k, k = 3 q + j, j in -1, 0, 1."""
    form = m.format
    shift = form.magic + form.bias
    t = fma(k, 1.0 / 3.0, shift)
    j = fma(t - shift, -3.0, k)
    above, below = j > 0.0, j < 0.0
    m_scaled = m * select(above, m.const(2.0), select(below, m.const(0.5), 1.0))
    root = select(above, m.const(_ROOT_OF_2), select(below, m.const(1.0 / _ROOT_OF_2), 1.0))
    y = polynomial(m, _GUESS[m.dtype]) * root
    square, square_low = product(y, y)
    residual = fma(square_low, y, fma(square, y, -m_scaled))
    y = fma(residual / square, -1.0 / 3.0, y)
    return y * (t.bits() << form.fraction).bitcast(m.dtype)
