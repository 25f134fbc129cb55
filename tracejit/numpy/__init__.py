"""Layer 8: NumPy's names over tracejit's arrays.

Each function does the same on traced arrays, where it records operations, and on others, where it computes at once and
returns a tj.Array.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as _numpy
from numpy import (
    False_ as False_,
    True_ as True_,
    array2string as array2string,
    array_repr as array_repr,
    array_str as array_str,
    base_repr as base_repr,
    binary_repr as binary_repr,
    bool as bool,
    bool_ as bool_,
    byte as byte,
    cdouble as cdouble,
    character as character,
    complex64 as complex64,
    complex128 as complex128,
    complexfloating as complexfloating,
    csingle as csingle,
    double as double,
    dtype as dtype,
    e as e,
    errstate as errstate,
    euler_gamma as euler_gamma,
    flexible as flexible,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    floating as floating,
    format_float_positional as format_float_positional,
    format_float_scientific as format_float_scientific,
    generic as generic,
    get_printoptions as get_printoptions,
    geterr as geterr,
    half as half,
    iinfo as iinfo,
    inexact as inexact,
    inf as inf,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    int_ as int_,
    intc as intc,
    integer as integer,
    intp as intp,
    iterable as iterable,
    little_endian as little_endian,
    long as long,
    longlong as longlong,
    mintypecode as mintypecode,
    nan as nan,
    ndarray as ndarray,
    ndenumerate as ndenumerate,
    ndindex as ndindex,
    newaxis as newaxis,
    number as number,
    object_ as object_,
    pi as pi,
    printoptions as printoptions,
    set_printoptions as set_printoptions,
    seterr as seterr,
    short as short,
    signedinteger as signedinteger,
    single as single,
    typename as typename,
    ubyte as ubyte,
    ufunc as ufunc,
    uint as uint,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    uintc as uintc,
    uintp as uintp,
    ulong as ulong,
    ulonglong as ulonglong,
    unsignedinteger as unsignedinteger,
    ushort as ushort,
)
from numpy.exceptions import ComplexWarning as ComplexWarning

from tracejit.api.array import own
from tracejit.numpy import (
    at as at,
    fft as fft,
    indexing as indexing,
    linalg as linalg,
    norms as norms,
    operators as operators,
    redirected as redirected,
    sliding as sliding,
)
from tracejit.numpy.aliases import *  # noqa: F403
from tracejit.numpy.applying import *  # noqa: F403
from tracejit.numpy.binning import *  # noqa: F403
from tracejit.numpy.bits import *  # noqa: F403
from tracejit.numpy.comparing import *  # noqa: F403
from tracejit.numpy.complex_parts import *  # noqa: F403
from tracejit.numpy.conversions import *  # noqa: F403
from tracejit.numpy.convolution import *  # noqa: F403
from tracejit.numpy.creation import *  # noqa: F403
from tracejit.numpy.differences import *  # noqa: F403
from tracejit.numpy.einstein import *  # noqa: F403
from tracejit.numpy.evenly_spaced import *  # noqa: F403
from tracejit.numpy.exponentials import logaddexp, logaddexp2  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tracejit.numpy.filling import *  # noqa: F403
from tracejit.numpy.finding import *  # noqa: F403
from tracejit.numpy.index_syntax import *  # noqa: F403
from tracejit.numpy.inserting import *  # noqa: F403
from tracejit.numpy.joining import *  # noqa: F403
from tracejit.numpy.linear import *  # noqa: F403
from tracejit.numpy.nan_reductions import *  # noqa: F403
from tracejit.numpy.number_parts import *  # noqa: F403
from tracejit.numpy.padding import *  # noqa: F403
from tracejit.numpy.polynomials import *  # noqa: F403
from tracejit.numpy.positions import *  # noqa: F403
from tracejit.numpy.powers import *  # noqa: F403
from tracejit.numpy.putting import *  # noqa: F403
from tracejit.numpy.quantiles import *  # noqa: F403
from tracejit.numpy.queries import *  # noqa: F403
from tracejit.numpy.reading import *  # noqa: F403
from tracejit.numpy.real_functions import *  # noqa: F403
from tracejit.numpy.redirected import fill_nested, fromfunction  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tracejit.numpy.reductions import *  # noqa: F403
from tracejit.numpy.rounding import *  # noqa: F403
from tracejit.numpy.selecting import *  # noqa: F403
from tracejit.numpy.sets import *  # noqa: F403
from tracejit.numpy.shaping import *  # noqa: F403
from tracejit.numpy.sorting import *  # noqa: F403
from tracejit.numpy.standard import *  # noqa: F403
from tracejit.numpy.statistics import *  # noqa: F403
from tracejit.numpy.taking import *  # noqa: F403
from tracejit.numpy.triangles import *  # noqa: F403
from tracejit.numpy.ufunc_methods import add_methods, methods_of
from tracejit.numpy.ufuncs import *  # noqa: F403
from tracejit.numpy.windows import *  # noqa: F403
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.calls import handed_out
from tracejit.tracer.interpreter import current_interpreter, eager
from tracejit.tracer.tables import LATE

__array_api_version__ = "2025.12"
complex_, float_ = complex128, float64  # JAX's names

LATE["scipy.special"] = lambda: import_module("tracejit.numpy.special").enter()


def _returning_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as users call it: outside of a trace its results are tj.Arrays."""

    @wraps(function)
    def call(*args: ArrayLike, **kwargs: Any) -> Result:
        result = handed_out(function, *args, **kwargs)
        return own(result, args, kwargs) if current_interpreter() is eager else result

    return call


add_methods()
fill_nested()
globals().update({
    _name: _returning_arrays(_value) for _name, _value in list(globals().items())
    if type(_value) is FunctionType and _value.__module__.startswith("tracejit.numpy.")
})  # fmt: skip
for _name, _value in list(globals().items()):
    _ufunc = getattr(_numpy, _name, None)
    if isinstance(_ufunc, _numpy.ufunc) and type(_value) is FunctionType:
        for _method, _function in methods_of(_ufunc).items():
            setattr(_value, _method, _returning_arrays(_function))
        for _attribute in ("nin", "nout", "nargs", "identity", "signature"):
            setattr(_value, _attribute, getattr(_ufunc, _attribute))
for _module in (linalg, fft):
    for _name in _module.__all__:
        setattr(_module, _name, _returning_arrays(getattr(_module, _name)))
