"""Complex numbers and their parts, elementwise.

Derivatives follow JAX's convention: tangents are complex, cotangents are not conjugated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.forms import FormBuilder
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.types import ShapedArray
from tracejit.primitives.elementwise import Elementwise, neg, zero_like
from tracejit.support.dtypes import complex_dtype, real_dtype
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, sum_to

__all__ = ["conj", "imag", "make_complex", "real"]


@frozen(eq=False)
class Real(Elementwise):
    """The real part."""

    name = "real"
    gives_view = True
    op = "real"
    kinds = "c"

    def impl(self, *args: ArrayLike) -> Result:
        return np.real(args[0]).copy()

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return real_dtype(avals[0].dtype)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), None if t is None else bind(self, t)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [make_complex(ct, zero_like(ct))]


@frozen(eq=False)
class Imag(Elementwise):
    """The imaginary part."""

    name = "imag"
    gives_view = True
    op = "imag"
    kinds = "c"

    def impl(self, *args: ArrayLike) -> Result:
        return np.imag(args[0]).copy()

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return real_dtype(avals[0].dtype)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), None if t is None else bind(self, t)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [make_complex(zero_like(ct), neg(ct))]


@frozen(eq=False)
class Conj(Elementwise):
    """The complex conjugate."""

    name = "conj"
    numpy_function = np.conjugate
    kinds = "c"

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        (x,) = xs
        return b.op("complex", b.op("real", x), b.op("neg", b.op("imag", x)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), None if t is None else bind(self, t)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [bind(self, ct)]


@frozen(eq=False)
class MakeComplex(Elementwise):
    """The complex number of two parts, of float32 or float64."""

    name = "complex"
    op = "complex"
    kinds = "f"

    def impl(self, *args: ArrayLike) -> Result:
        from tracejit.ir.scalar import OPS

        x, y = np.asarray(args[0]), np.asarray(args[1])
        return OPS["complex"].impl(complex_dtype(x.dtype), x, y)

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return complex_dtype(avals[0].dtype)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        if all(t is None for t in tangents):
            return out, None
        shapes = [zero_like(x) if t is None else t for x, t in zip(primals, tangents, strict=True)]
        from tracejit.primitives.elementwise import fill_tangent

        return out, fill_tangent(bind(self, *shapes), out)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, y = args
        return [
            sum_to(real(ct), x.aval) if isinstance(x, UndefinedPrimal) else None,
            sum_to(neg(imag(ct)), y.aval) if isinstance(y, UndefinedPrimal) else None,
        ]


def real(x: ArrayLike) -> Result:
    """The real part, elementwise; x itself if it is real."""
    return bind(Real(), x) if _is_complex(x) else x


def imag(x: ArrayLike) -> Result:
    """The imaginary part of complex numbers, elementwise."""
    return bind(Imag(), x)


def conj(x: ArrayLike) -> Result:
    """The complex conjugate, elementwise; x itself if it is real."""
    return bind(Conj(), x) if _is_complex(x) else x


def make_complex(x: ArrayLike, y: ArrayLike) -> Result:
    """x + iy of two of one dtype, float32 or float64, elementwise."""
    return bind(MakeComplex(), x, y)


def _is_complex(x: ArrayLike) -> bool:
    from tracejit.tracer.cell import aval_of_argument

    return aval_of_argument(x).dtype.kind == "c"
