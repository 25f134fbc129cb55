"""The special functions, elementwise: of gamma and beta, of errors, Bessel's, zeta."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from tracejit.ir.forms import FormBuilder
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.math.term import Term
from tracejit.ir.scalar import OPS
from tracejit.primitives.arithmetic import Abs, Sign
from tracejit.primitives.comparison import Eq
from tracejit.primitives.elementwise import (
    Elementwise,
    Floating,
    Partials,
    add,
    constant_like,
    div,
    mul,
    neg,
    one_like,
    select,
    sub,
    zero_like,
)
from tracejit.primitives.transcendental import Exp, Log, Log1p
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = [
    "BesselI0e",
    "BesselI1e",
    "ComplexPolygamma",
    "Digamma",
    "ErfInv",
    "Erfc",
    "ErfcInv",
    "Erfcx",
    "Formula",
    "Gamma",
    "IGamma",
    "IGammaC",
    "IGammaGradA",
    "LGamma",
    "LogNdtr",
    "Logistic",
    "Logit",
    "Polygamma",
    "RandomGammaGrad",
    "RegularizedIncompleteBeta",
    "XLog1PY",
    "XLogY",
    "Zeta",
]  # fmt: skip


class _Operation(Floating):
    """A function that is one scalar operation."""

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        return OPS[self.op].impl(x.dtype, x)


class Formula(Floating):
    """A function of the module `home` of `ir.math`: series and fractions that end where the arguments say."""

    home: ClassVar[str]

    def formula(self) -> Callable[..., Term]:
        return getattr(import_module(f"tracejit.ir.math.{self.home}"), self.name)

    def impl(self, *args: ArrayLike) -> Result:
        from tracejit.ir.math.evaluate import evaluate  # for speed of import

        arrays = np.broadcast_arrays(*args)
        return evaluate(self.formula(), arrays[0].dtype, *arrays)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        """float16 is computed in float32 and rounded once."""
        recorder = b.recorder()
        narrow = xs[0].dtype == "f16"
        terms = [Term(recorder, b.op("convert", x, dtype="f32") if narrow else x) for x in xs]
        result = self.formula()(*terms).operand
        return b.op("convert", result, dtype="f16") if narrow else result

    def no_derivative(self, operand: str) -> Callable[[], Any]:
        """What stands for a partial derivative that there is not.  Raises: UnsupportedError."""

        def refuse() -> Any:
            raise UnsupportedError(
                f"{self.name} has no derivative with respect to {operand}; hold it constant "
                f"(tj.lax.stop_gradient({operand}))",
                location=user_location(),
            )

        return refuse


@frozen(eq=False)
class LGamma(_Operation):
    """log(abs(gamma(x)))"""

    name = "lgamma"
    op = "lgamma"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: bind(Digamma(), xs[0]),)


@frozen(eq=False)
class Digamma(_Operation):
    """The logarithmic derivative of the gamma function."""

    name = "digamma"
    op = "digamma"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: bind(Polygamma(), constant_like(xs[0], 1), xs[0]),)


@frozen(eq=False)
class Gamma(_Operation):
    """The gamma function."""

    name = "gamma"
    op = "tgamma"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: mul(out, bind(Digamma(), xs[0])),)


@frozen(eq=False)
class ComplexPolygamma(Elementwise):
    """Of complex numbers the derivative of an order of digamma; log(gamma(x)) for order -1."""

    name = "complex_polygamma"
    kinds = "c"
    order: int

    def _of_parts(self, z: tuple[Term, Term]) -> tuple[Term, Term]:
        from tracejit.ir.math import complex_gamma  # for speed of import

        return complex_gamma.log_gamma(z) if self.order < 0 else complex_gamma.polygamma(self.order, z)

    def impl(self, *args: ArrayLike) -> Result:
        from tracejit.ir.math.evaluate import evaluate_complex  # for speed of import

        return evaluate_complex(self._of_parts, args[0])

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        (x,) = xs
        recorder = b.recorder()
        parts = Term(recorder, b.op("real", x)), Term(recorder, b.op("imag", x))
        real, imaginary = self._of_parts(parts)
        return b.op("complex", real.operand, imaginary.operand)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: bind(ComplexPolygamma(self.order + 1), xs[0]),)


@frozen(eq=False)
class Erfc(_Operation):
    """1 - erf(x) without cancellation."""

    name = "erfc"
    op = "erfc"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: mul(constant_like(out, -2.0 / np.sqrt(np.pi)), bind(Exp(), neg(mul(xs[0], xs[0])))),)


@frozen(eq=False)
class Erfcx(_Operation):
    """exp(x * x) * erfc(x) without overflow of the first factor."""

    name = "erfcx"
    op = "erfcx"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        (x,) = xs
        return (lambda: sub(mul(add(x, x), out), constant_like(out, 2.0 / np.sqrt(np.pi))),)


@frozen(eq=False)
class ErfInv(_Operation):
    """The inverse of the error function."""

    name = "erf_inv"
    op = "erf_inv"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: mul(constant_like(out, np.sqrt(np.pi) / 2.0), bind(Exp(), mul(out, out))),)


@frozen(eq=False)
class ErfcInv(_Operation):
    """The inverse of 1 - erf(x)."""

    name = "erfc_inv"
    op = "erfc_inv"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: mul(constant_like(out, -np.sqrt(np.pi) / 2.0), bind(Exp(), mul(out, out))),)


@frozen(eq=False)
class LogNdtr(Formula):
    """The logarithm of the normal distribution's cumulative function."""

    name = "log_ndtr"
    home = "special"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        (x,) = xs
        scaled = lambda: bind(Erfcx(), mul(x, constant_like(x, -np.sqrt(0.5))))  # noqa: E731
        return (lambda: div(constant_like(x, np.sqrt(2.0 / np.pi)), scaled()),)


@frozen(eq=False)
class Logistic(Formula):
    """1 / (1 + exp(-x))"""

    name = "logistic"
    home = "special"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: mul(out, bind(self, neg(xs[0]))),)


@frozen(eq=False)
class Logit(Formula):
    """log(x / (1 - x))"""

    name = "logit"
    home = "special"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        (x,) = xs
        return (lambda: div(one_like(x), mul(x, sub(one_like(x), x))),)


@frozen(eq=False)
class XLogY(Formula):
    """x * log(y), 0 where x is 0."""

    name = "xlogy"
    home = "special"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        x, y = xs
        return (lambda: bind(Log(), y), lambda: div(x, y))


@frozen(eq=False)
class XLog1PY(Formula):
    """x * log(1 + y), 0 where x is 0."""

    name = "xlog1py"
    home = "special"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        x, y = xs
        return (lambda: bind(Log1p(), y), lambda: div(x, add(one_like(y), y)))


@frozen(eq=False)
class BesselI0e(_Operation):
    """The modified Bessel function of the first kind and order 0, times exp(-|x|)."""

    name = "bessel_i0e"
    op = "bessel_i0e"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        (x,) = xs
        return (lambda: sub(bind(BesselI1e(), x), mul(bind(Sign(), x), out)),)


@frozen(eq=False)
class BesselI1e(_Operation):
    """The modified Bessel function of the first kind and order 1, times exp(-|x|)."""

    name = "bessel_i1e"
    op = "bessel_i1e"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        (x,) = xs

        def slope() -> Result:
            # i1(x) / x is 1 / 2 at 0
            small = bind(Eq(), x, zero_like(x))
            nonzero = select(small, one_like(x), x)
            quotient = select(small, constant_like(x, 0.5), div(out, nonzero))
            return sub(sub(bind(BesselI0e(), x), mul(bind(Sign(), x), out)), quotient)

        return (slope,)


@frozen(eq=False)
class IGamma(Formula):
    """The regularised lower incomplete gamma function P(a, x)."""

    name = "igamma"
    home = "incomplete"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        a, x = xs
        return (lambda: bind(IGammaGradA(), a, x), lambda: _gamma_density(a, x))


@frozen(eq=False)
class IGammaC(Formula):
    """The regularised upper incomplete gamma function Q(a, x)."""

    name = "igammac"
    home = "incomplete"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        a, x = xs
        return (lambda: neg(bind(IGammaGradA(), a, x)), lambda: neg(_gamma_density(a, x)))


@frozen(eq=False)
class IGammaGradA(Formula):
    """The derivative of igamma(a, x) with respect to a."""

    name = "igamma_grad_a"
    home = "incomplete"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        a, x = xs

        def in_x() -> Result:
            return mul(_gamma_density(a, x), sub(bind(Log(), x), bind(Digamma(), a)))

        return (self.no_derivative("a"), in_x)


@frozen(eq=False)
class RandomGammaGrad(Formula):
    """The derivative of a sample x of the gamma distribution with respect to its parameter a."""

    name = "random_gamma_grad"
    home = "incomplete"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        a, x = xs

        def in_x() -> Result:
            slope = sub(div(sub(a, one_like(a)), x), one_like(x))
            return sub(sub(bind(Digamma(), a), bind(Log(), x)), mul(out, slope))

        return (self.no_derivative("a"), in_x)


@frozen(eq=False)
class RegularizedIncompleteBeta(Formula):
    """The regularised incomplete beta function I_x(a, b)."""

    name = "regularized_incomplete_beta"
    home = "incomplete"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        a, b, x = xs

        def in_x() -> Result:
            one = one_like(x)
            powers = add(bind(XLogY(), sub(a, one), x), bind(XLog1PY(), sub(b, one), neg(x)))
            beta = sub(add(bind(LGamma(), a), bind(LGamma(), b)), bind(LGamma(), add(a, b)))
            return bind(Exp(), sub(powers, beta))

        return (self.no_derivative("a"), self.no_derivative("b"), in_x)


@frozen(eq=False)
class Zeta(Formula):
    """Hurwitz' zeta function: the sum of (q + k)**-x."""

    name = "zeta"
    home = "zeta"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        x, q = xs
        return (self.no_derivative("x"), lambda: neg(mul(x, bind(self, add(x, one_like(x)), q))))


@frozen(eq=False)
class Polygamma(Formula):
    """The derivative of order n of digamma at x."""

    name = "polygamma"
    home = "zeta"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        n, x = xs
        return (self.no_derivative("n"), lambda: bind(self, add(n, one_like(n)), x))


def _gamma_density(a: ArrayLike, x: ArrayLike) -> Result:
    """x**(a - 1) exp(-x) / gamma(a)"""
    logarithm = sub(bind(XLogY(), sub(a, one_like(a)), x), add(bind(Abs(), x), bind(LGamma(), a)))
    return bind(Exp(), logarithm)
