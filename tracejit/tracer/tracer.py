"""The tracer: a cell that behaves like an array while a function is traced.

What a method, an operator or a NumPy function does is looked up in `tables.py`, which the layers above fill.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from tracejit.ir.extents import ASKED, is_asked_by_the_user
from tracejit.ir.jaxpr import Var
from tracejit.support.errors import (
    ConcretizationError,
    RefusedByNumPy,
    ShapeError,
    UnsupportedAttribute,
    UnsupportedError,
    meet,
)
from tracejit.support.source import Location, user_location
from tracejit.tracer.bytecode import loads_attribute
from tracejit.tracer.calls import call_function, call_ufunc, handed_out
from tracejit.tracer.cell import Cell, class_of, has_attribute, is_number, python_name
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.ownership import is_installed
from tracejit.tracer.python_operators import (
    BINARY,
    COMPARISONS,
    UNARY,
    has_its_own_ufuncs,
    in_place,
    operator,
    python_operand,
    reflected,
    unary,
)
from tracejit.tracer.statements.decisions import Site, as_python
from tracejit.tracer.tables import FUNCTIONS, METHODS, PROPERTIES
from tracejit.tracer.traced_text import MARK, shown

__all__ = ["Lost", "Tracer", "lose"]

_MATCHES_SEQUENCES = 1 << 5
"""The flag of a type whose objects match `case [a, b]:`."""
_ONE = {"b": 1, "i": 1, "f": 1.0, "c": 1.0}
_OF_NUMBERS = frozenset({
    "real", "imag", "conjugate", "numerator", "denominator", "bit_length", "bit_count", "to_bytes", "as_integer_ratio",
    "is_integer", "hex",
})  # fmt: skip
"""Attributes of Python's numbers that mean something else, or nothing, for arrays."""


class Tracer(Cell):
    """An array while a function is traced.  Shapes and dtypes are known, values are not."""

    __slots__ = ()
    __array_priority__ = 1000.0

    # -- what an array has ---------------------------------------------------------------------------------------------
    @Cell.shape.setter
    def shape(self, shape: Any) -> None:
        _refuse_assignment("shape", "x.reshape(shape)")

    @Cell.dtype.setter
    def dtype(self, dtype: Any) -> None:
        _refuse_assignment("dtype", "x.astype(dtype)")

    @property
    def size(self) -> Any:
        if self._aval.weak:
            has_attribute(self, "size")
        return self._aval.size

    @property
    def itemsize(self) -> int:
        return self._aval.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize

    @property
    def real(self) -> Any:
        return self.__getattr__("real")

    @real.setter
    def real(self, value: Any) -> None:
        OPERATORS.set_part(self, "real", value)

    @property
    def imag(self) -> Any:
        return self.__getattr__("imag")

    @imag.setter
    def imag(self, value: Any) -> None:
        OPERATORS.set_part(self, "imag", value)

    @property
    def flat(self) -> Any:
        return self.__getattr__("flat")

    @flat.setter
    def flat(self, value: Any) -> None:
        OPERATORS.set_flat(self, value)

    def __len__(self) -> int:
        if not self.shape:
            raise RefusedByNumPy(f"len() of {self._of_rank_0()}", location=user_location())
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise RefusedByNumPy(f"iteration over {self._of_rank_0()}", location=user_location())
        return (self[i] for i in range(int(self.shape[0])))

    def _of_rank_0(self) -> str:
        return f"a Python {python_name(self)}" if is_number(self) else "an array of rank 0"

    def __getitem__(self, index: Any) -> Any:
        if self._aval.weak and is_number(self):
            raise RefusedByNumPy(f"an element of {self._of_rank_0()}", location=user_location())
        return OPERATORS.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if value is None and self.dtype.kind == "f":
            value = np.nan  # as NumPy has it: float(None) is refused, by Python
        OPERATORS.assign(self, index, value)

    def __delitem__(self, index: Any) -> NoReturn:
        raise ShapeError(
            "elements of arrays cannot be deleted, in NumPy neither; use np.delete(x, index)", location=user_location()
        )

    @property  # pyright: ignore[reportIncompatibleMethodOverride]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
        """For the function that is traced, as in `case np.ndarray():`, and for other packages,
        the class of what it stands for.
        """
        return class_of(self) if _is_asked_by_others() else Tracer

    def __getattr__(self, name: str) -> Any:
        if self._aval.weak and name in _OF_NUMBERS and is_number(self):
            return self._of_number(name)
        if self._aval.weak:
            has_attribute(self, name)
        if name == "is_integer" and self.is_scalar and self.dtype.kind in "iuf":
            return self._is_integer
        function = METHODS.get(name)
        if function is None:
            if name.startswith("__"):
                raise AttributeError(name)
            self._refuse_attribute(name)
        if name in PROPERTIES:
            return handed_out(function, self)

        def method(*args: Any, **kwargs: Any) -> Any:
            return handed_out(METHODS[name], self, *args, **kwargs)

        return method

    def _of_number(self, name: str) -> Any:
        """An attribute of a Python number."""
        if self.dtype.kind == "c" and name in ("real", "imag", "conjugate"):
            part = METHODS[name](self)
            part.weaken()
            return (lambda: part) if name == "conjugate" else part
        if name in ("real", "numerator"):
            return python_operand(self)
        if name in ("imag", "denominator"):
            return type(_ONE[self.dtype.kind])(name == "denominator")
        if name == "conjugate":
            return lambda: python_operand(self)
        if name == "is_integer":
            return self._is_integer
        known = self._number()
        if known is None:
            self._refuse(f"{name} of a Python number", "compute it outside and hand it in")
        return getattr(known.item(), name)

    def _is_integer(self) -> Any:
        """is_integer(), which Python's and NumPy's numbers have."""
        if self.dtype.kind in "biu":
            return True
        whole = np.isfinite(self) & (np.floor(self) == self)  # pyright: ignore[reportCallIssue, reportArgumentType]
        return whole.as_python_number()

    def _refuse_attribute(self, name: str) -> NoReturn:
        if not hasattr(np.ndarray, name):
            raise AttributeError(f"an array has no attribute {name!r}")
        from tracejit.tracer.advice import for_attribute

        what = f"{name}()" if callable(getattr(np.ndarray, name)) else name
        error = UnsupportedAttribute(
            f"x.{what} is not supported in traced code; {for_attribute(name)}", location=user_location()
        )
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        if loads_attribute(frame.f_code, frame.f_lasti):
            meet(error)
        raise error

    # -- NumPy's protocols ---------------------------------------------------------------------------------------------
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(map(has_its_own_ufuncs, inputs)):
            return NotImplemented
        return call_ufunc(ufunc, method, inputs, dict(kwargs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call_function(func, args, dict(kwargs))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        known = self.known()
        if known is not None:
            found = np.array(known, dtype)
            found.flags.writeable = False  # a change of it would be lost
            return found
        self._refuse(
            "np.asarray / np.array",
            "use the traced array itself, and np.array([a, b]) for a list of them; to create an array inside the "
            "function use np.zeros and "
            "fill it",
        )

    # -- as a number ---------------------------------------------------------------------------------------------------
    def __bool__(self) -> bool:
        known = self._number()
        if known is not None:
            return bool(known)
        self._refuse(_truth)

    def __int__(self) -> int:
        known = self._number()
        if known is not None:
            return int(known)
        self._refuse(_int)

    def __index__(self) -> int:
        known = self._number()
        if known is not None:
            return known.__index__()
        self._refuse(_index)

    def __float__(self) -> float:
        known = self._number()
        if known is None:
            self._refuse(_float)
        if self.interpreter.loses_derivative(self):
            raise ConcretizationError(
                f"float() of a value that is being differentiated ({self.aval}) would drop its derivative; "
                "use NumPy's functions instead of math's",
                location=user_location(),
            )
        return float(known)

    def __complex__(self) -> complex:
        known = self._number()
        if known is None:
            self._refuse("complex()", "use x + 0j, or x.astype(complex)")
        if self.interpreter.loses_derivative(self):
            raise ConcretizationError(
                f"complex() of a value that is being differentiated ({self.aval}) would drop its derivative; "
                "use NumPy's functions instead of cmath's, and x + 0j",
                location=user_location(),
            )
        return complex(known)

    def __round__(self, ndigits: int | None = None) -> Any:
        if self.absence is not None:
            self.absence.use()
        if self.shape:
            raise RefusedByNumPy("round() is for numbers, in NumPy too; use np.round(x)", location=user_location())
        if self.dtype.kind == "c":
            raise TypeError(f"type {class_of(self).__name__} doesn't define __round__ method")
        if self.aval.weak and ndigits is not None:
            return self._rounded(ndigits)
        rounded = FUNCTIONS[np.round](self, ndigits or 0)
        if ndigits is None:
            if rounded.dtype.kind in "fu":
                OPERATORS.check_number(rounded, np.dtype(np.int64))
            rounded = METHODS["astype"](rounded, np.int64)
        return rounded.as_python_number() if isinstance(rounded, Tracer) and ndigits is None else rounded

    def _rounded(self, ndigits: int) -> Any:
        """round() of a Python number, which rounds its decimal digits: arithmetic like NumPy's rounds 2.55 to 2.6."""
        if self.dtype.kind != "f" and ndigits >= 0:
            return python_operand(self)
        if self.dtype.kind == "f" and 0 <= ndigits <= 22:
            return OPERATORS.round_decimals(self, ndigits)
        known = self._number()
        if known is None:
            self._refuse("round() of a Python number to so many digits", "use np.round(x, digits), or round it outside")
        return round(known.item(), ndigits)

    def as_python_number(self) -> Tracer:
        """This number, of rank 0, as one of Python's: its dtype bends to that of arrays."""
        made = Tracer(self.interpreter, self.value, type(self.aval)((), self.dtype, weak=True))
        made.absence = self.absence
        return made

    def as_numpy_number(self) -> Tracer | None:
        """This Python number as one of NumPy's of its dtype; None where that takes an equation,
        as its value is a Python number too.
        """
        made = self.value
        if (
            self.interpreter is not current_interpreter()
            or self.root is not None
            or not isinstance(made, Var)
            or made.aval.weak
        ):
            return None
        number = Tracer(self.interpreter, made, made.aval)
        number.absence = self.absence
        return number

    # -- as an object --------------------------------------------------------------------------------------------------
    def tolist(self) -> Any:
        known = self.known()
        if known is not None:
            return known.tolist()
        self._refuse("tolist()", "return the array and call tolist() outside")

    def __format__(self, spec: str) -> str:
        known = self._number()
        if known is not None:
            return format(known, spec)
        self.ask()
        return shown(self._described())

    def __str__(self) -> str:
        """Of a Python number its digits, as keys are made of them; an array shows what is known of it."""
        if self._aval.weak and not self._aval.shape:
            known = self._number()
            if known is not None:
                return format(known, "")
            if is_asked_by_the_user():
                self.ask()
        return shown(self._described())

    def __repr__(self) -> str:
        if self._aval.weak and not self._aval.shape and is_asked_by_the_user():  # a key, or part of one
            known = self._number()
            if known is not None:
                return repr(known.item())
            self.ask()
        return shown(self._described())

    def _described(self) -> str:
        text, ASKED.text = ASKED.text, False  # symbols stay symbols
        try:
            return f"{MARK}{self.aval} by {self.interpreter.name}>"
        finally:
            ASKED.text = text

    def __copy__(self) -> Any:
        return self if self.is_scalar else METHODS["copy"](self, "K")

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._refuse("pickling", "return the array and pickle it outside")

    def __hash__(self) -> int:
        if not self.is_scalar:
            raise RefusedByNumPy(
                "a traced array is unhashable, as np.ndarray is; look it up by something else", location=user_location()
            )
        known = self._number()
        if known is not None:
            return hash(known)
        self._refuse(
            "a lookup in a dict or set, or a cached function,",
            "use np.select or tj.lax.switch, or make the argument a Python number",
        )


def _refuse_assignment(name: str, instead: str) -> NoReturn:
    raise UnsupportedError(
        f"an assignment to x.{name} is not supported in traced code; use x = {instead}", location=user_location()
    )


def _float(x: Cell, location: Location | None) -> tuple[str, str]:
    """What needs a number there, and what to write instead."""
    from tracejit.tracer.advice import for_number

    return for_number(location, "float")


def _int(x: Cell, location: Location | None) -> tuple[str, str]:
    from tracejit.tracer.advice import for_number

    return for_number(location, "int")


def _truth(x: Cell, location: Location | None) -> tuple[str, str]:
    """What needs a truth value there, and what to write instead.  Raises ShapeError for arrays
    that have none in NumPy either.
    """
    from tracejit.tracer.advice import for_truth  # for speed of import: only errors need it

    if any(not isinstance(n, int) or n > 1 for n in x.shape):
        raise ShapeError(
            f"the truth value of an array of shape {x.shape} is ambiguous, in NumPy too; use np.any(x) or np.all(x), "
            "and to choose "
            "elements np.where(condition, a, b) or a mask (x[mask] = value)",
            location=location,
        )
    return for_truth(location)


def _index(x: Cell, location: Location | None) -> tuple[str, str]:
    """What needs an integer there, and what to write instead."""
    from tracejit.tracer.advice import for_index

    return for_index(location)


def _is_asked_by_others() -> bool:
    """Whether a traced function, whose globals are no dict, or another package's called the function
    which calls this.
    """
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    if type(frame.f_globals) is not dict:
        return True
    return is_installed(frame.f_code.co_filename) and not str(frame.f_globals.get("__name__")).startswith("tracejit.")


for _name in BINARY:
    setattr(Tracer, f"__{_name}__", operator(_name))
    setattr(Tracer, f"__r{_name}__", reflected(_name))
    setattr(Tracer, f"__i{_name}__", in_place(_name))
for _name in (*COMPARISONS, "divmod"):
    setattr(Tracer, f"__{_name}__", operator(_name))
if np.ndarray.__flags__ & _MATCHES_SEQUENCES:  # from NumPy 2.5 on
    cast("Any", Sequence).register(Tracer)
Tracer.__rdivmod__ = reflected("divmod")  # type: ignore[attr-defined]
for _name in UNARY:
    setattr(Tracer, f"__{_name}__", unary(_name))


class Lost(Tracer):
    """An array that a loop has changed in place before it bound the array's name to another one: what it holds is not
    kept, so nobody may look.
    """

    __slots__ = ()

    @property
    def value(self) -> NoReturn:
        self.check()

    def check(self) -> NoReturn:
        """Raises: UnsupportedError, or what has Python run the loop."""
        why = (
            "a loop changes an array in place and then binds its name to another one; the first array has another name "
            "as well, or is an argument, and is wanted afterwards"
        )
        if self.location is not None:
            as_python(self.location, why)
        raise UnsupportedError(f"{why}; have the loop begin with a copy (x = x.copy())", location=user_location())


def lose(x: Tracer, site: Site | None) -> None:
    """Nobody may look at an array any more.  site: of the loop that changed it, which Python can run instead."""
    x.location = cast("Any", site)
    x.store(x.interpreter, None)
    _CLASS.__set__(x, Lost)


_CLASS: Any = vars(object)["__class__"]


def extent_of(n: Any) -> Any:
    """A traced integer as the extent that it is (of the index of a loop), if that is known; anything else as it is."""
    if not isinstance(n, Tracer):
        return n
    found = n.extent()
    return n if found is None else found
