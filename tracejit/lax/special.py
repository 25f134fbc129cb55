"""The special functions by JAX's names: operands of one dtype, and of one rank or rank 0."""

from __future__ import annotations

from collections.abc import Callable

from tracejit.lax.operands import operands, spread
from tracejit.primitives.elementwise import Elementwise
from tracejit.primitives.special import (
    BesselI0e,
    BesselI1e,
    Digamma,
    Erfc,
    ErfInv,
    IGamma,
    IGammaC,
    IGammaGradA,
    LGamma,
    Polygamma,
    RandomGammaGrad,
    RegularizedIncompleteBeta,
    Zeta,
)
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = [
    "bessel_i0e", "bessel_i1e", "betainc", "digamma", "erf_inv", "erfc", "igamma", "igamma_grad_a", "igammac",
    "lgamma", "polygamma", "random_gamma_grad", "regularized_incomplete_beta", "zeta",
]  # fmt: skip


def _unary(name: str, primitive: Elementwise) -> Callable[[ArrayLike], Result]:
    def function(x: ArrayLike) -> Result:
        return bind(primitive, *operands(name, x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Primitive `{primitive.name}`: {type(primitive).__doc__}"
    return function


lgamma = _unary("lgamma", LGamma())
digamma = _unary("digamma", Digamma())
erfc = _unary("erfc", Erfc())
erf_inv = _unary("erf_inv", ErfInv())
bessel_i0e = _unary("bessel_i0e", BesselI0e())
bessel_i1e = _unary("bessel_i1e", BesselI1e())


def polygamma(m: ArrayLike, x: ArrayLike) -> Result:
    """The derivative of order m of digamma; m holds integers in the dtype of x."""
    return bind(Polygamma(), *spread(operands("polygamma", m, x)))


def igamma(a: ArrayLike, x: ArrayLike) -> Result:
    """The regularised lower incomplete gamma function."""
    return bind(IGamma(), *spread(operands("igamma", a, x)))


def igammac(a: ArrayLike, x: ArrayLike) -> Result:
    """The regularised upper incomplete gamma function."""
    return bind(IGammaC(), *spread(operands("igammac", a, x)))


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Result:
    """The derivative of igamma with respect to a."""
    return bind(IGammaGradA(), *spread(operands("igamma_grad_a", a, x)))


def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Result:
    """The derivative of a sample x of the gamma distribution with respect to its parameter a."""
    return bind(RandomGammaGrad(), *spread(operands("random_gamma_grad", a, x)))


def regularized_incomplete_beta(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Result:
    """The regularised incomplete beta function."""
    return bind(RegularizedIncompleteBeta(), *spread(operands("regularized_incomplete_beta", a, b, x)))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Result:
    """The regularised incomplete beta function."""
    return bind(RegularizedIncompleteBeta(), *spread(operands("betainc", a, b, x)))


def zeta(x: ArrayLike, q: ArrayLike) -> Result:
    """Hurwitz' zeta function: the sum of (q + k)**-x over k = 0, 1, ..."""
    return bind(Zeta(), *spread(operands("zeta", x, q)))
