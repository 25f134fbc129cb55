"""Layer 8: random numbers by JAX's names, from keys that the caller holds: the same key gives the same numbers.

A key is an array, uint32 of shape (2,), and the generator is Threefry-2x32, counter by counter: bits, uniform numbers,
integers, permutations and keys are JAX's, bit for bit (with jax_threefry_partitionable, its default), whether compiled
or not, batched or not, on every backend.  Floats are float64 where no dtype is given.
"""

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

from tracejit.random.choosing import *  # noqa: F403
from tracejit.random.continuous import *  # noqa: F403
from tracejit.random.counts import *  # noqa: F403
from tracejit.random.gammas import *  # noqa: F403
from tracejit.random.keys import *  # noqa: F403
from tracejit.random.uniforms import *  # noqa: F403
from tracejit.random.vectors import *  # noqa: F403
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.calls import handed_out
from tracejit.tracer.interpreter import prepare

prepare()  # what is called without jit needs the operators of arrays before anything is traced


def _with_own_results(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as users call it: what it gives can be written, and is no view."""

    @wraps(function)
    def call(*args: ArrayLike, **kwargs: Any) -> Result:
        result = handed_out(function, *args, **kwargs)
        if type(result) is np.ndarray and (result.base is not None or not result.flags.writeable):
            return np.array(result)
        return result

    return call


globals().update({
    _name: _with_own_results(_value) for _name, _value in list(globals().items())
    if type(_value) is FunctionType and _value.__module__.startswith("tracejit.random.")
})  # fmt: skip
