"""Random numbers: Threefry's blocks, numbers made of them, and samplers of an element each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Form, FormBuilder, Operand
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.math.term import Term
from tracejit.ir.primitive import Primitive
from tracejit.ir.scalar import kernel_dtype
from tracejit.ir.types import ShapedArray
from tracejit.primitives.comparison import Lt
from tracejit.primitives.elementwise import (
    Elementwise,
    Partials,
    add,
    constant_like,
    div,
    one_like,
    select,
    sub,
)
from tracejit.primitives.special import Digamma, RandomGammaGrad
from tracejit.primitives.transcendental import Exp
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import field, frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import align_batched
from tracejit.tracer.interpreter import bind

__all__ = ["RandomBinomial", "RandomGamma", "RandomPoisson", "Threefry2x32", "UnitFloat"]

_WORD = np.dtype(np.uint32)


@frozen(eq=False)
class Threefry2x32(Primitive):
    """A block of two words under a key of two words, elementwise.   (u32, u32, u32, u32) -> (u32, u32)

    The first two operands are the key, the others the block; those of rank 0 are repeated.
    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC11, 2011.
    """

    name = "threefry2x32"
    multiple_results = True

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ShapedArray]:
        for a in avals:
            if a.dtype != _WORD:
                raise DtypeError(f"[{self.name}] takes uint32, not {a}")
        full = next((a.shape for a in avals if a.shape), ())
        for a in avals:
            if a.shape and a.shape != full:
                raise ShapeError(f"[{self.name}] operands differ in shape: {', '.join(map(str, avals))}")
        result = ShapedArray(full, _WORD)
        return result, result

    def impl(self, *args: ArrayLike) -> Result:
        from tracejit.ir.math.sampling import PARITY, ROTATIONS  # for speed of import

        with np.errstate(over="ignore"):  # NumPy warns where single numbers wrap around
            k0, k1, x0, x1 = np.broadcast_arrays(*[np.asarray(a, _WORD) for a in args])
            keys = (k0, k1, k0 ^ k1 ^ _WORD.type(PARITY))
            x0, x1 = x0 + k0, x1 + k1
            for n in range(5):
                for r in ROTATIONS[n % 2]:
                    x0 = x0 + x1
                    x1 = ((x1 << _WORD.type(r)) | (x1 >> _WORD.type(32 - r))) ^ x0
                x0, x1 = x0 + keys[(n + 1) % 3], x1 + keys[(n + 2) % 3] + _WORD.type(n + 1)
        return x0, x1

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        from tracejit.ir.math.sampling import threefry  # for speed of import

        def block(i: tuple[Scalar, ...]) -> tuple[Scalar, Scalar]:
            words = [Term(b.recorder(), x[i] if x.aval.shape else x[()]) for x in operands]
            first, second = threefry(*words)
            return first.operand, second.operand

        return b.map(b.out_avals[0].shape, block)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, list[None]]:
        return bind(self, *primals), [None, None]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, list[int]]:
        return bind(self, *align_batched(args, dims)), [0, 0]


class _Drawn(Elementwise):
    """A number made of two words of an element, which come first among the operands."""

    same_dtype = False
    kinds = "uf"
    parameters_dtype: ClassVar[str] = "f"

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        for a in avals[:2]:
            if a.dtype != _WORD:
                raise DtypeError(f"[{self.name}] takes words of uint32, not {a}")
        if any(a.dtype.kind != "f" or a.dtype != avals[-1].dtype for a in avals[2:]):
            raise DtypeError(f"[{self.name}] takes floats of one dtype, not {', '.join(map(str, avals[2:]))}")
        return super().abstract_eval(*avals).strong()

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return avals[-1].dtype

    def formula(self) -> Callable[..., Term]:
        """The sample as a function of terms."""
        return getattr(import_module("tracejit.ir.math.sampling"), self.sampler())

    def sampler(self) -> str:
        """The name of the function of `ir.math.sampling`."""
        return self.name

    def impl(self, *args: ArrayLike) -> Result:
        from tracejit.ir.math.evaluate import evaluate_as_given  # for speed of import

        return evaluate_as_given(self.formula(), *args)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        recorder = b.recorder()
        narrow = xs[-1].dtype == "f16"
        wide = [b.op("convert", x, dtype="f32") if x.dtype == "f16" else x for x in xs]
        result = self.formula()(*[Term(recorder, x) for x in wide]).operand
        return b.op("convert", result, dtype="f16") if narrow else result

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (None,) * len(xs)


@frozen(eq=False)
class UnitFloat(_Drawn):
    """A number in [0, 1), a multiple of the distance of 1 from the next one.   (u32, u32) -> dtype"""

    name = "unit_float"
    dtype: np.dtype[Any] = field(converter=canonical)

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return self.dtype

    def impl(self, *args: ArrayLike) -> Result:
        high, low = np.broadcast_arrays(*[np.asarray(a, _WORD) for a in args])
        if self.dtype == np.float64:
            fraction = (high.astype(np.int64) << 20) | (low >> _WORD.type(12)).astype(np.int64)
            return fraction * 2.0**-52
        mixed = high ^ low
        if self.dtype == np.float32:
            return (mixed >> _WORD.type(9)).astype(np.float32) * np.float32(2.0**-23)
        return ((mixed & _WORD.type(0xFFFF)) >> _WORD.type(6)).astype(np.float16) * np.float16(2.0**-10)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        from tracejit.ir.math.sampling import unit_float  # for speed of import

        high, low = (Term(b.recorder(), x) for x in xs)
        return unit_float(high, low, kernel_dtype(self.dtype)).operand


@frozen(eq=False)
class RandomGamma(_Drawn):
    """A sample of the gamma distribution of shape a, or its logarithm.   (u32, u32, a) -> as a

    Its derivative is the one that keeps the cumulative probability of the sample.
    Source: Figurnov, Mohamed, Mnih, Implicit reparameterization gradients, NeurIPS 2018.
    """

    name = "random_gamma"
    logarithm: bool = False

    def sampler(self) -> str:
        return "loggamma_sample" if self.logarithm else "gamma_sample"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        a = xs[-1]

        def slope() -> Result:
            if not self.logarithm:
                return bind(RandomGammaGrad(), a, out)
            # near 0 the cumulative probability is a power: x**a / gamma(a + 1)
            tiny = bind(Lt(), out, constant_like(out, {2: -6.0, 4: -15.0}.get(np.dtype(out.dtype).itemsize, -36.0)))
            x = bind(Exp(), select(tiny, constant_like(out, 0.0), out))
            usual = div(bind(RandomGammaGrad(), a, x), x)
            return select(tiny, div(sub(bind(Digamma(), add(a, one_like(a))), out), a), usual)

        return (None, None, slope)


@frozen(eq=False)
class RandomPoisson(_Drawn):
    """A count of the Poisson distribution of mean lam, as a float.   (u32, u32, lam) -> as lam

    -1 where lam is negative or NaN.
    """

    name = "random_poisson"

    def sampler(self) -> str:
        return "poisson_sample"


@frozen(eq=False)
class RandomBinomial(_Drawn):
    """How many of n trials succeed with probability p, as a float.   (u32, u32, n, p) -> as p

    NaN where there is no such number.
    """

    name = "random_binomial"

    def sampler(self) -> str:
        return "binomial_sample"
