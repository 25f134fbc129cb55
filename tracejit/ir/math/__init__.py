"""The elementary functions as straight-line scalar operations, written once for every backend.

`expand(name, b, *args)` writes the function `name` of f32 or f64 operands into the builder `b`; the operations it uses
are rows of `ir.scalar.OPS` that are not math themselves.  Accuracy: docs/numerics.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracejit.ir.math import exp_log, hyperbolic, inverse_hyperbolic, inverse_trig, power, remainder, roots, special, trig
from tracejit.ir.math.term import ScalarBuilder, Term

__all__ = ["EXPANSIONS", "ScalarBuilder", "expand"]

EXPANSIONS: dict[str, Callable[..., Term]] = {
    "exp": exp_log.exp,
    "exp2": exp_log.exp2,
    "log": exp_log.log,
    "log2": exp_log.log2,
    "log10": exp_log.log10,
    "sin": trig.sin,
    "cos": trig.cos,
    "log1p": exp_log.log1p,
    "expm1": hyperbolic.expm1,
    "sinh": hyperbolic.sinh,
    "cosh": hyperbolic.cosh,
    "pow": power.pow,
    "tan": trig.tan,
    "asin": inverse_trig.asin,
    "acos": inverse_trig.acos,
    "atan": inverse_trig.atan,
    "atan2": inverse_trig.atan2,
    "asinh": inverse_hyperbolic.asinh,
    "acosh": inverse_hyperbolic.acosh,
    "atanh": inverse_hyperbolic.atanh,
    "cbrt": roots.cbrt,
    "fmod": remainder.fmod,
    "tanh": hyperbolic.tanh,
    "erf": special.erf,
}


def expand(name: str, b: ScalarBuilder, *args: Any) -> Any:
    """Write `name` of `args` (all f32 or all f64) into `b`; the operand of the result.

    Raises: KeyError for an operation that has no expansion.
    """
    return EXPANSIONS[name](*(Term(b, a) for a in args)).operand
