"""A program of the conformance suite, and the tiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.support.nodes import frozen

__all__ = ["TIERS", "Case"]

TIERS = {
    "1": "elements: arithmetic, comparisons, mathematical functions, conversions, transposes",
    "2": "reductions, scans, sorts, histograms, gathers, products, convolutions, stencils",
    "3": "complex numbers, containers, one function for several dtypes and ranks",
    "4": "programs",
    "derivatives": "gradients, batches and Jacobian products of these",
    "sizes": "one compiled function at many sizes",
}


@frozen(eq=False)
class Case:
    """A program and the arguments of its calls, all to one compiled function.

    rtol: how far a result may be off, by its greatest element; 0: not at all.  reference: what to compare with where
    that is not the function itself, run by NumPy.
    """

    tier: str
    name: str
    function: Callable[..., Any]
    calls: Sequence[tuple[Any, ...]]
    rtol: float = 0.0
    reference: Callable[..., Any] | None = None
