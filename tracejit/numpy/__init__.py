"""Layer 8: NumPy's names over tracejit's arrays.

Each function does the same on traced arrays, where it records operations, and on others, where it computes at once and
returns a tj.Array.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any

from numpy import (
    bool_ as bool_,
    dtype as dtype,
    e as e,
    euler_gamma as euler_gamma,
    finfo as finfo,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    iinfo as iinfo,
    inf as inf,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    nan as nan,
    ndarray as ndarray,
    newaxis as newaxis,
    pi as pi,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)

from tracejit.api.array import own
from tracejit.numpy import (
    at as at,
    indexing as indexing,
    linalg as linalg,
    norms as norms,
    operators as operators,
    redirected as redirected,
)
from tracejit.numpy.comparing import *  # noqa: F403
from tracejit.numpy.complex_parts import *  # noqa: F403
from tracejit.numpy.conversions import *  # noqa: F403
from tracejit.numpy.convolution import *  # noqa: F403
from tracejit.numpy.creation import *  # noqa: F403
from tracejit.numpy.differences import *  # noqa: F403
from tracejit.numpy.einstein import *  # noqa: F403
from tracejit.numpy.filling import *  # noqa: F403
from tracejit.numpy.finding import *  # noqa: F403
from tracejit.numpy.inserting import *  # noqa: F403
from tracejit.numpy.joining import *  # noqa: F403
from tracejit.numpy.linear import *  # noqa: F403
from tracejit.numpy.nan_reductions import *  # noqa: F403
from tracejit.numpy.padding import *  # noqa: F403
from tracejit.numpy.powers import *  # noqa: F403
from tracejit.numpy.queries import result_type_of as result_type  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tracejit.numpy.real_functions import *  # noqa: F403
from tracejit.numpy.reductions import *  # noqa: F403
from tracejit.numpy.rounding import *  # noqa: F403
from tracejit.numpy.selecting import *  # noqa: F403
from tracejit.numpy.shaping import *  # noqa: F403
from tracejit.numpy.sorting import *  # noqa: F403
from tracejit.numpy.spacing import *  # noqa: F403
from tracejit.numpy.taking import *  # noqa: F403
from tracejit.numpy.triangles import *  # noqa: F403
from tracejit.numpy.ufuncs import *  # noqa: F403
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.calls import handed_out
from tracejit.tracer.interpreter import current_interpreter, eager
from tracejit.tracer.tables import LATE

LATE["scipy"] = lambda: import_module("tracejit.numpy.special").enter()


def _returning_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as users call it: outside of a trace its results are tj.Arrays."""

    @wraps(function)
    def call(*args: ArrayLike, **kwargs: Any) -> Result:
        result = handed_out(function, *args, **kwargs)
        return own(result, args, kwargs) if current_interpreter() is eager else result

    return call


globals().update({
    _name: _returning_arrays(_value) for _name, _value in list(globals().items())
    if type(_value) is FunctionType and _value.__module__.startswith("tracejit.numpy.")
})  # fmt: skip
for _name in linalg.__all__:
    setattr(linalg, _name, _returning_arrays(getattr(linalg, _name)))
