"""What Python's operators do with a traced array or number, and with whom they leave it to."""

import functools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, same_shape
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.tracer.calls import handed_out, unchecked
from tracejit.tracer.cell import Cell, check_is_number
from tracejit.tracer.current import give_up, wants_booleans
from tracejit.tracer.mixed import computed, has_mixed, is_pythons, marked
from tracejit.tracer.operators import ARITHMETIC, OPERATORS
from tracejit.tracer.tables import FUNCTIONS

__all__ = [
    "BINARY",
    "COMPARISONS",
    "UNARY",
    "has_its_own_ufuncs",
    "in_place",
    "operator",
    "python_operand",
    "reflected",
    "unary",
]

# Names of special methods, without the underscores: operators of two operands, which may be reflected, and of one.
BINARY = "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"
COMPARISONS = "eq", "ne", "lt", "le", "gt", "ge"
UNARY = "neg", "pos", "abs", "invert"
_PYTHONS = frozenset({bool, int, float, complex, Dim})
"""Classes of what is a Python number for the function that is traced."""
_ARRAYS = frozenset({bool, int, float, complex, list, tuple, str, np.ndarray})
_BITWISE = ("and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge")
"""Operators under which Python's bools are no integers."""
_DIVIDING = ("truediv", "floordiv", "mod", "divmod")
_OF_RESULTS = frozenset({"ArithmeticError", "OverflowError"})
_OF_VALUES = frozenset({"ValueError"})
_OF_ZEROS = frozenset({"ArithmeticError", "ZeroDivisionError"})
"""By which classes errors are caught that are rare: nobody writes `except Exception` for them."""
_ORDERED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_GROWING = ("add", "sub", "mul", "pow", "lshift", "floordiv", "divmod")
"""Operators by which integers outgrow 64 bits."""


def operator(name: str) -> Callable[..., Any]:
    """The special method of an operator: `__add__`."""

    def method(self: Cell, other: Any, *modulo: Any) -> Any:
        function = ARITHMETIC.get(name)
        if other is None and name in ("eq", "ne") and self.absence is not None and self.absence.none and self.is_scalar:
            return self.absence.flag if name == "eq" else np.logical_not(self.absence.flag)
        absence = self.absence
        if absence is not None and absence.none and name in ("eq", "ne") and self.is_scalar and _is_number(other):
            self.absence = None  # for a moment: None is unlike every number
            try:
                found = method(self, other)
            finally:
                self.absence = absence
            if name == "eq":
                return np.logical_and(np.logical_not(absence.flag), found)
            return np.logical_or(absence.flag, found)
        other = _plain(name, self, other)
        if function is None or modulo or _is_sequence_operation(name, self, other) or _gives_way(self, other):
            return NotImplemented
        if name in COMPARISONS and _is_no_number(self, other):
            return NotImplemented
        if name in ("eq", "ne") and self.shape and (other is None or isinstance(other, (str, bytes))):
            return handed_out(FUNCTIONS[np.full], self.shape, name == "ne", np.bool_)  # which no element is
        if has_mixed(self, other) and name not in COMPARISONS:
            return _of_mixed(name, function, self, other)
        return _of_numbers(name, function, self, other, other) if self.aval.weak else handed_out(function, self, other)

    return method


def _is_number(x: Any) -> bool:
    """Whether something is a number, and not one that may be None."""
    if isinstance(x, Cell):
        return x.is_scalar and x.absence is None
    return type(x) in _PYTHONS or isinstance(x, np.generic)


def reflected(name: str) -> Callable[..., Any]:
    """The special method where the array stands to the right: `__radd__`."""

    def method(self: Cell, other: Any) -> Any:
        function = ARITHMETIC.get(name)
        other = _plain(name, self, other)
        if function is None or _is_sequence_operation(name, self, other) or _gives_way(self, other):
            return NotImplemented
        if has_mixed(self, other):
            return _of_mixed(name, function, other, self)
        return _of_numbers(name, function, other, self, other) if self.aval.weak else handed_out(function, other, self)

    return method


def in_place(name: str) -> Callable[..., Any]:
    """The special method that changes an array: `__iadd__`. Of numbers it makes new ones."""

    def method(self: Cell, other: Any) -> Any:
        if self.fixed:  # as outside of a trace, where a tj.Array has no such operator
            return getattr(self, f"__{name}__")(other)
        if self.is_scalar:
            check_is_number(self)
            self.check_alone()  # where only the data tell whether it is an array
            return getattr(self, f"__{name}__")(other)  # results of rank 0 are NumPy scalars: `s += 1` makes a new one
        result = computed(ARITHMETIC[name], (self, other)) if has_mixed(other) else ARITHMETIC[name](self, other)
        shape = np.shape(result)
        if name == "matmul" and not same_shape(shape, self.shape):  # which NumPy does not spread
            raise ShapeError(
                f"a product of shape {shape} does not go into an array of shape {self.shape} in place; use y = x @ ... "
                "for a new array",
                location=user_location(),
            )
        if len(shape) > self.ndim:
            raise ShapeError(
                f"an array of shape {self.shape} cannot become one of shape {shape} in place; use y = x + "
                "... for a new array",
                location=user_location(),
            )
        OPERATORS.setitem(self, Ellipsis, result, casting="same_kind")
        return self

    return method


def unary(name: str) -> Callable[..., Any]:
    """The special method of an operator of one operand: `__neg__`."""

    def method(self: Cell) -> Any:
        if self.mixed is not None:
            return computed(partial(unchecked, ARITHMETIC[name]), (self,))
        return (
            _number(handed_out(ARITHMETIC[name], python_operand(self)), 0)
            if self.aval.weak
            else handed_out(ARITHMETIC[name], self)
        )

    return method


def _of_numbers(name: str, function: Callable[..., Any], x: Any, y: Any, other: Any) -> Any:
    """An operator on a traced Python number and `other`, which is x or y."""
    is_number = type(other) in _PYTHONS or (isinstance(other, Cell) and other.aval.weak)
    if is_number and name in _ORDERED and any(map(_is_complex, (x, y))):
        raise TypeError(f"'{_ORDERED[name]}' is not defined for Python's complex numbers")
    if is_number and name not in _BITWISE:
        x, y = python_operand(x), python_operand(y)
        if name in _GROWING:
            OPERATORS.check_growth(name, x, y)
        if name in _DIVIDING:
            _check_divisor(y)
        if name == "pow":
            if type(y) is int and y < 0 and isinstance(x, Cell) and x.dtype.kind == "i":
                x = python_operand(x) * 1.0  # as Python's integers to negative powers are computed
            _check_power(x, y)
        if name in ("lshift", "rshift") and isinstance(y, Cell) and _may_be_negative(y):
            OPERATORS.refuse_if_caught(ValueError, "ValueError (a negative shift count)", by=_OF_VALUES, numbers=(y,))
    result = _number(handed_out(function, x, y), other)
    if is_number and name in COMPARISONS and isinstance(result, Cell):
        if not wants_booleans():
            return result
        known = result.known()  # `(n == 2) is True`
        if known is None:
            result.ask()
        return result if known is None else bool(known)
    return result


def _check_divisor(y: Any) -> None:
    """Python refuses zero, for which the program has an answer."""
    if not isinstance(y, Cell):
        if not y:
            raise ZeroDivisionError("division by zero")
        return
    if y.dtype.kind in "iu":
        if not _may_be_zero(y):
            return
        give_up("a number may be divided by zero, which Python refuses")
    OPERATORS.refuse_if_caught(ZeroDivisionError, "ZeroDivisionError", numbers=(y,))


def _check_power(x: Any, y: Any) -> None:
    """Python refuses powers of floats that are too great, and of zero to negative numbers."""
    if not any((x.dtype.kind if isinstance(x, Cell) else "f" if type(x) is float else "") == "f" for x in (x, y)):
        return
    OPERATORS.refuse_if_caught(OverflowError, "OverflowError", by=_OF_RESULTS, numbers=(x, y))
    if isinstance(y, Cell) or type(y) is complex or y < 0:
        OPERATORS.refuse_if_caught(ZeroDivisionError, "ZeroDivisionError", by=_OF_ZEROS, numbers=(x, y))


def _is_complex(x: Any) -> bool:
    return type(x) is complex or (isinstance(x, Cell) and x.dtype.kind == "c")


def _of_mixed(name: str, function: Callable[..., Any], x: Any, y: Any) -> Any:
    """An operator on operands of which one is a mixed number."""
    if all(map(_is_bool, (x, y))):
        result = unchecked(function, *[np.bool_(z) if type(z) is bool else z for z in (x, y)])
        pythons = [is_pythons(z) if isinstance(z, Cell) else type(z) is bool for z in (x, y)]
        if any(p is False for p in pythons):
            return result
        both = functools.reduce(np.logical_and, pythons)
        if name in ("and", "or", "xor"):
            return marked(result, both)
        OPERATORS.check_mixed(both)  # of two bools Python makes an integer, NumPy none
        return result
    return computed(partial(unchecked, function), (python_operand(x), python_operand(y)), name)


def _may_be_negative(x: Cell) -> bool:
    low = x.seen().value_range()[0]
    return low is None or low < 0


def _is_bool(x: Any) -> bool:
    return type(x) is bool or (isinstance(x, Cell) and x.dtype.kind == "b")


def _may_be_zero(x: Any) -> bool:
    """Whether a traced integer may be 0 (of a float nothing is known)."""
    if not isinstance(x, Cell) or x.dtype.kind not in "iu":
        return False
    low, high = x.seen().value_range()
    return (low is None or low <= 0) and (high is None or high >= 0)


def python_operand(x: Any) -> Any:
    """An operand of Python's arithmetic on Python numbers: True is 1."""
    if not isinstance(x, Cell):
        return OPERATORS.number_of_extents(x) if isinstance(x, Dim) else int(x) if type(x) is bool else x
    if not x.aval.weak or x.dtype.kind != "b":
        return x
    number = OPERATORS.to_dtype(x, np.int64)
    number.weaken()
    return number


def _number(result: Any, other: Any) -> Any:
    """The result of Python's operators on Python numbers: a Python number, whose dtype gives way to an array's."""
    if type(other) in _PYTHONS or (isinstance(other, Cell) and other.aval.weak):
        for x in result if isinstance(result, tuple) else (result,):
            if isinstance(x, Cell):
                x.weaken()
    return result


def _plain(name: str, number: Cell, x: Any) -> Any:
    """The other operand of a number's operator: if its class derives from Python's numbers and calculates as they do,
    as members of an IntEnum do, it is such a number, to NumPy's numbers one of NumPy's.
    """
    kind: Any = type(x)
    if kind in _ARRAYS or not number.is_scalar or not issubclass(kind, (int, float)) or issubclass(kind, np.generic):
        return x
    base = int if issubclass(kind, int) else float
    inherits = all(
        getattr(kind, method, None) is getattr(base, method, None) for method in (f"__{name}__", f"__r{name}__")
    )
    if not inherits and not hasattr(kind, "__members__"):
        return x
    return base(x) if number.aval.weak else np.asarray(base(x))[()]


def _is_sequence_operation(name: str, x: Cell, other: Any) -> bool:
    """`[a, b] * n` with an integer that is no array repeats the list, as it does with NumPy's integers:
    Python asks `__index__`.
    """
    if isinstance(other, Cell):  # asked first: of one, `isinstance` of anything else asks for its `__class__`
        return False
    if not isinstance(other, (list, tuple, str, bytes)) or x.aval.shape or x.is_array:
        return False
    if name == "mul" and type(other) in (list, tuple) and x.is_scalar and not x.aval.weak and x.dtype.kind in "bfc":
        raise TypeError(f"can't multiply sequence by non-int of type 'numpy.{x.dtype.type.__name__}'")
    return x.aval.weak or (x.dtype.kind in "iu" and (name == "mul" or isinstance(other, (str, bytes))))


def _is_no_number(x: Cell, other: Any) -> bool:
    """Whether a number is compared with what is none, like None or text: they are different, as Python says."""
    return x.is_scalar and (other is None or isinstance(other, (str, bytes, dict, set, frozenset, type)))


def _gives_way(x: Cell, other: Any) -> bool:
    """Whether an operator leaves an operand to that operand's own class, as NumPy's arrays do,
    and numbers with all that is none.

    Source: NumPy's binop_override.h: `__array_ufunc__` if the class has one, else a greater `__array_priority__`.
    """
    kind: Any = type(other)
    if kind in _ARRAYS or isinstance(other, (np.ndarray, np.generic)) or kind.__module__.startswith("tracejit."):
        return False
    if hasattr(kind, "__array_ufunc__") or (x.is_scalar and x.aval.weak):
        return True
    priority = getattr(kind, "__array_priority__", 0)
    if isinstance(priority, (int, float)) and priority > 0:
        return True
    if (
        x.is_scalar
        and hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
        and not issubclass(kind, (str, bytes, Mapping))
    ):
        raise UnsupportedError(
            f"of a number of NumPy's and a {kind.__name__}, which is a sequence, NumPy makes an array; write "
            "np.array([*v]) or, for the operators of the class, float(x) or `__array_ufunc__ = None` in the class",
            location=user_location(),
        )
    return x.is_scalar and not hasattr(kind, "__array__") and not hasattr(kind, "__array_interface__")


def has_its_own_ufuncs(x: Any) -> bool:
    """Whether an operand is of somebody else's class with an `__array_ufunc__`, which then answers."""
    kind: Any = type(x)
    if kind in _ARRAYS or not hasattr(kind, "__array_ufunc__"):
        return False
    return kind.__array_ufunc__ is not np.ndarray.__array_ufunc__ and not kind.__module__.startswith("tracejit.")
