"""Mixed numbers: Python integers on one way to where they are used, NumPy's on another.

Which it is, only the program knows.  A mixed number has NumPy's dtype and a flag that says whether it is Python's, for
which dtypes do not exist: 44 + 300 is 344, and not 88 as among uint8s.  What follows from it is computed as from
NumPy's, and where that may differ also as from Python's.  The program fails if the number is Python's and they do
differ.  One that is int64 or Python's has the range of a traced Python number; only beside other dtypes, and beyond 64
bits, there is a difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.types import ShapedArray
from tracejit.tracer.cell import Cell
from tracejit.tracer.operators import ARITHMETIC, OPERATORS, PRIMITIVES

__all__ = [
    "as_flag", "as_pythons", "check_dtypes", "computed", "has_mixed", "is_pythons", "joined", "marked", "may_be_mixed",
    "mixed_among", "without_mark",
]  # fmt: skip

_MARKED: list[bool] = []
"""Whether there was a mixed number in this process: most programs have none."""
_GROWING = ("add", "sub", "mul")
"""Operators by which Python integers may outgrow 64 bits, where the program can tell."""


def may_be_mixed(aval: ShapedArray) -> bool:
    """Whether a number of NumPy's is one that may be Python's on another way."""
    return not aval.shape and not aval.weak and aval.dtype.kind in "iub"


def is_pythons(x: Any) -> Any:
    """Whether a number is a Python integer or bool: True, False, or the flag that tells."""
    if isinstance(x, Cell):
        return (x.aval.weak and x.dtype.kind in "ib") if x.mixed is None else x.mixed
    return type(x) in (int, bool)


def joined(one: Any, other: Any) -> bool:
    """Whether a number that is either of two is mixed, if it is narrow.  one, other: whether these are Python's."""
    return not (one is other and isinstance(one, bool))


def as_flag(is_python: Any) -> Any:
    """What `is_pythons` says, as a number of NumPy's."""
    return is_python if isinstance(is_python, Cell) else np.bool_(is_python)


def marked(x: Any, flag: Any) -> Any:
    """The number with the flag that tells whether it is Python's."""
    if not isinstance(x, Cell):
        return int(x) if flag is True or (isinstance(flag, np.generic) and flag) else x
    made = _copied(x)
    if isinstance(flag, Cell) or flag:
        made.mixed = flag
        _MARKED[:] = [True]
    return made


def _copied(x: Cell) -> Cell:
    made = type(x)(x.interpreter, x.value, x.aval)
    made.absence, made.is_array = x.absence, x.is_array
    return made


def without_mark(x: Any) -> Any:
    """A number whose flag is handed on beside it."""
    return _copied(x) if isinstance(x, Cell) and x.mixed is not None else x


def has_mixed(*operands: Any) -> bool:
    """Whether one of the operands is mixed."""
    return any([isinstance(x, Cell) and x.mixed is not None for x in operands])


def mixed_among(operands: Sequence[Any]) -> list[Cell]:
    """The mixed numbers among operands, those in lists and tuples too."""
    if not _MARKED:
        return []
    found: list[Cell] = []
    pending = [*operands]
    while pending:
        x = pending.pop()
        if isinstance(x, Cell):
            found += [x] * (x.mixed is not None)
        elif type(x) in (list, tuple):
            pending += x
    return found


def check_dtypes(operands: Sequence[Any], *, gives_way: bool = False) -> None:
    """The program fails where a mixed number among operands is Python's, unless that makes no difference to the dtype
    that they have in common.

    gives_way: whether Python's numbers do, which are int64 elsewhere, and in lists always.
    """
    found = mixed_among(operands)
    if not found:
        return
    strong, dtypes = _dtypes(operands), [x.dtype for x in found]
    pythons = [] if gives_way and has_mixed(*operands) else [np.dtype(np.int64)]
    if not strong + pythons or np.result_type(*strong, *dtypes) != np.result_type(*strong, *pythons):
        for x in found:
            OPERATORS.check_mixed(x.mixed)


def computed(function: Callable[..., Any], operands: Sequence[Any], name: str = "") -> Any:
    """What a function of numbers or arrays makes of operands, of which some are mixed.

    name: of Python's operator that it is.
    """
    result = function(*operands)
    found = [x for x in operands if isinstance(x, Cell) and x.mixed is not None]
    strong, dtypes = _dtypes(operands), [x.dtype for x in found]
    if strong and np.result_type(*strong, *dtypes) == np.result_type(*strong):
        return result
    flag = found[0].mixed
    for x in found[1:]:  # of two of one dtype, one of which is NumPy's, the other one is as well
        flag = _flag("and" if not strong or x.dtype == dtypes[0] else "or", flag, x.mixed)
    if not strong:
        _check_narrower(found, flag)
    numbers = [as_pythons(x, flag) if any(x is m for m in found) else x for x in operands]
    if name in _GROWING and not strong:
        OPERATORS.check_growth(name, *numbers)
    if not strong and all(dtype == np.int64 for dtype in dtypes):  # the same, as what does it
        return _marked_as(result, flag)
    if np.int64 in dtypes and strong and np.result_type(*strong, *dtypes).kind == "f":
        return result  # more exact than of Python's, and its dtype is that of the numbers of NumPy's
    other = function(*numbers)
    if isinstance(result, tuple):
        return tuple([_checked(a, b, flag, bool(strong)) for a, b in zip(result, other, strict=True)])
    return _checked(result, other, flag, bool(strong))


def _check_narrower(found: Sequence[Cell], all_pythons: Any) -> None:
    """The program fails where those mixed numbers that are NumPy's have a narrower dtype than all of them together."""
    common = np.result_type(*[x.dtype for x in found])
    if all(x.dtype == common for x in found):
        return
    decisive = [x.mixed for x in found if x.dtype == common]
    if decisive:
        narrower = functools.reduce(lambda a, b: _flag("and", a, b), decisive)
    else:  # it takes several of them to have it
        narrower = functools.reduce(lambda a, b: _flag("or", a, b), [x.mixed for x in found])
    OPERATORS.check_mixed(_flag("and", narrower, _negated(all_pythons)))


def _negated(flag: Any) -> Any:
    negated: Any = np.logical_not
    return negated(flag) if isinstance(flag, Cell) else not flag


def _dtypes(operands: Sequence[Any]) -> list[np.dtype[Any]]:
    """The dtypes of operands that are neither Python numbers nor mixed, those in lists and tuples too."""
    found: list[np.dtype[Any]] = []
    pending = [*operands]
    while pending:
        x = pending.pop()
        if isinstance(x, Cell):
            found += [x.dtype] * (not x.aval.weak and x.mixed is None)
        elif isinstance(x, (np.ndarray, np.generic)):
            found.append(x.dtype)
        elif isinstance(x, (list, tuple)):
            pending += x
    return found


def _flag(name: str, a: Any, b: Any) -> Any:
    """`and` or `or` of two flags."""
    if isinstance(a, Cell) or isinstance(b, Cell):
        return ARITHMETIC[name](a, b)
    return (a and b) if name == "and" else (a or b)


def as_pythons(x: Any, flag: Any) -> Any:
    """The Python integer that a mixed number is; where it is none, 0, which fits everywhere."""
    number = OPERATORS.to_dtype(x, np.int64)
    if isinstance(flag, Cell):
        number = PRIMITIVES.select(flag, number, np.int64(0))
    return number.as_python_number()


def _checked(result: Any, other: Any, flag: Any, with_numpys: bool) -> Any:
    """A result; the program fails where it is another one than that of Python's numbers, and there is one of these.

    with_numpys: whether there are numbers of NumPy's for certain: then the result is one, of another dtype.
    """
    have, want = (getattr(x, "dtype", None) for x in (result, other))
    if have is None or want is None or (have.kind == "b" and want.kind == "b"):
        return result
    if have == want:
        return result if with_numpys else _marked_as(result, flag)
    if with_numpys:
        OPERATORS.check_mixed(flag)
        return result
    differs: Any = True
    if (have.kind == "f") == (want.kind == "f"):
        differs = ARITHMETIC["ne"](result, other)
    if have.kind == want.kind == "f":  # NaN is not NaN
        numbers = _flag("or", ARITHMETIC["eq"](result, result), ARITHMETIC["eq"](other, other))
        differs = _flag("and", differs, numbers)
    OPERATORS.check_mixed(_flag("and", differs, flag))
    return _marked_as(result, flag)


def _marked_as(result: Any, flag: Any) -> Any:
    """What was computed from a mixed number: an integer is one, too."""
    if isinstance(result, tuple):
        return tuple([_marked_as(x, flag) for x in result])
    if isinstance(result, Cell) and not result.is_array and may_be_mixed(result.aval):
        result.mixed = flag
    return result
