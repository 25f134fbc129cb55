"""The functions of arrays that a trace knows, and how they fill `out=`: tables that the layers above fill."""

from collections.abc import Callable
from typing import Any

import numpy as np

METHODS: dict[str, Callable[..., Any]] = {}
"""ndarray method or property name to function; properties are listed in `PROPERTIES`."""
UFUNCS: dict[Any, Callable[..., Any]] = {}
"""NumPy ufunc to function; ufuncs of SciPy, which is not imported for it, by name."""
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""NumPy function (of `__array_function__`) to function."""
PROPERTIES = frozenset({"T", "mT", "real", "imag", "flat", "at"})
SPREADING: set[Any] = set()
"""Functions of NumPy's that are ufuncs inside: their out= may be larger than the result, which is then repeated."""
IN_DTYPE_OF_OUT: dict[Any, Callable[[np.dtype[Any], np.dtype[Any]], np.dtype[Any] | None]] = {}
"""Functions that compute in another dtype where there is an out=: in which, by the operands' and its;
None: in their own."""
TELLS_MIXED: set[Any] = set()
"""Functions that see themselves which of their operands may be numbers of Python's (`mixed.py`)."""
LEAST_INTO_INTEGERS: dict[Any, int] = {}
"""The least size, in bytes, of an integer out= of means and variances, whose sums NumPy keeps there."""
OUT_CASTING: dict[Any, str | Callable[..., str]] = {}
"""By which rule other functions convert to the dtype of out=, where it is not any conversion ("unsafe"), or what gives
it for their arguments;
"equiv": not at all; "back": the dtype of out= has to be safely converted to that of the result, as NumPy fills a copy
of the array with the results."""

LATE: dict[str, Callable[[], Any]] = {}
"""By package, as `scipy.special`: what enters its functions in these tables, once, when one is met that is not
there."""


def fill_late(package: str) -> None:
    """Have the functions of a package entered that is seldom used."""
    enter = LATE.pop(package, None)
    if enter is not None:
        enter()


def dtype_of_sum(have: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    """In which dtype NumPy adds or multiplies elements up into out=."""
    return out if np.can_cast(have, out, "same_kind") else np.result_type(have, out)


def dtype_of_loop(ufunc: np.ufunc, have: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    """In which dtype a method of a ufunc folds elements into out=.  Raises: TypeError where NumPy does."""
    return ufunc.resolve_dtypes((out, have, None), reduction=True, casting="unsafe")[0]
