"""Layer 8: JAX's lax names over tracejit's primitives.

Thin: operands of one dtype, shapes that fit; what `tracejit.numpy` promotes and broadcasts is written out here.
"""

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

from tracejit.lax import linalg as linalg
from tracejit.lax.arrays import *  # noqa: F403
from tracejit.lax.bits import *  # noqa: F403
from tracejit.lax.complex_numbers import *  # noqa: F403
from tracejit.lax.control import *  # noqa: F403
from tracejit.lax.convolution import *  # noqa: F403
from tracejit.lax.elementwise import *  # noqa: F403
from tracejit.lax.fourier import *  # noqa: F403
from tracejit.lax.gathering import *  # noqa: F403
from tracejit.lax.named_axes import *  # noqa: F403
from tracejit.lax.padding import padtype_to_pads as padtype_to_pads
from tracejit.lax.products import *  # noqa: F403
from tracejit.lax.reductions import *  # noqa: F403
from tracejit.lax.shapes import *  # noqa: F403
from tracejit.lax.sorting import *  # noqa: F403
from tracejit.lax.special import *  # noqa: F403
from tracejit.lax.windows import *  # noqa: F403
from tracejit.support.precision import (
    AccuracyMode as AccuracyMode,
    DotAlgorithm as DotAlgorithm,
    DotAlgorithmPreset as DotAlgorithmPreset,
    Precision as Precision,
    PrecisionLike as PrecisionLike,
    RoundingMethod as RoundingMethod,
    Tolerance as Tolerance,
)
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.calls import handed_out
from tracejit.tracer.interpreter import prepare

prepare()  # what is called without jit needs the operators of arrays before anything is traced


def _with_own_results(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as users call it: what it gives is never an operand or a view of one,
    so a write into the one leaves the other alone.
    """

    @wraps(function)
    def call(*args: ArrayLike, **kwargs: Any) -> Result:
        result = handed_out(function, *args, **kwargs)
        if type(result) is np.ndarray and (
            result.base is not None or not result.flags.writeable or any(result is x for x in args)
        ):
            return np.array(result)
        return result

    return call


globals().update({
    _name: _with_own_results(_value) for _name, _value in list(globals().items())
    if type(_value) is FunctionType and _value.__module__ in ("tracejit.lax.arrays", "tracejit.lax.bits",
    "tracejit.lax.complex_numbers", "tracejit.lax.convolution", "tracejit.lax.elementwise", "tracejit.lax.fourier",
    "tracejit.lax.gathering", "tracejit.lax.products", "tracejit.lax.reductions", "tracejit.lax.shapes",
    "tracejit.lax.sorting", "tracejit.lax.special", "tracejit.lax.windows")
})  # fmt: skip
for _name in linalg.__all__:
    if not isinstance(getattr(linalg, _name), type):
        setattr(linalg, _name, _with_own_results(getattr(linalg, _name)))


def __getattr__(name: str) -> Any:
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
