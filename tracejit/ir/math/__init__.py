"""The elementary functions as straight-line scalar operations, written once for every backend.

`expand(name, b, *args)` writes the function `name` of f32 or f64 operands into the builder `b`; the operations it uses
are rows of `ir.scalar.OPS` that are not math themselves.  Accuracy: docs/numerics.md.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tracejit.ir.math.term import ScalarBuilder, Term

__all__ = ["EXPANSIONS", "ScalarBuilder", "expand"]

_FUNCTIONS = {
    "bessel": ["bessel_i0e", "bessel_i1e"],
    "exp_log": ["exp", "exp2", "log", "log1p", "log2", "log10"],
    "gamma": ["digamma", "lgamma", "tgamma"],
    "hyperbolic": ["cosh", "expm1", "sinh", "tanh"],
    "inverse_hyperbolic": ["acosh", "asinh", "atanh"],
    "inverse_trig": ["acos", "asin", "atan", "atan2"],
    "power": ["pow"],
    "remainder": ["fmod"],
    "roots": ["cbrt"],
    "special": ["erf", "erf_inv", "erfc", "erfc_inv", "erfcx"],
    "trig": ["cos", "sin", "tan"],
}
"""The functions of each module here; a module is loaded when one of its functions is first expanded."""


def _expansion(module: str, name: str) -> Callable[..., Term]:
    return lambda *terms: getattr(import_module(f"{__name__}.{module}"), name)(*terms)


EXPANSIONS: dict[str, Callable[..., Term]] = {
    name: _expansion(module, name) for module, names in _FUNCTIONS.items() for name in names
}


def expand(name: str, b: ScalarBuilder, *args: Any) -> Any:
    """Write `name` of `args` (all f32 or all f64) into `b`; the operand of the result.

    Raises: KeyError for an operation that has no expansion.
    """
    return EXPANSIONS[name](*(Term(b, a) for a in args)).operand
