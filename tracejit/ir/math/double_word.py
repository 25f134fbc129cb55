"""Numbers as unevaluated sums of two words of one format: about twice the precision, with fma.

Source: Dekker 1971; Joldes, Muller and Popescu 2017, "Tight and rigorous error bounds for basic building blocks of
double-word arithmetic".
"""

from __future__ import annotations

from tracejit.ir.math.term import Term, fma

__all__ = ["fast_sum", "product"]


def fast_sum(x: Term | float, y: Term) -> tuple[Term, Term]:
    """x + y rounded, and its error.  |x| >= |y|, or x is zero or of no smaller exponent."""
    s = x + y
    return s, (x - s) + y


def product(x: Term, y: Term | float) -> tuple[Term, Term]:
    """x * y rounded, and its error (exact unless it is subnormal)."""
    p = x * y
    return p, fma(x, y, -p)
