"""The tracer: a cell that stands for an array while a function is traced, and behaves like one.

It holds the current value in the terms of the interpreter that made it.  `x[i] = v` and `x += y` put a new value into
the cell, so the recorded program stays pure.  A basic slice is a view: it holds its root cell and an index, reads
through the root, and writes through it.  What an operator or a NumPy function does is looked up in tables that the
layers above fill.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.ir.jaxpr import Var
from tracejit.ir.ranges import ANYTHING, Range
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import (
    ConcretizationError,
    DtypeError,
    LeakedTracerError,
    ShapeError,
    TracerError,
    UnsupportedAttribute,
    UnsupportedError,
    meet,
)
from tracejit.support.source import Location, user_location
from tracejit.tracer.bytecode import loads_attribute
from tracejit.tracer.interpreter import Interpreter, current_interpreter, use_interpreter
from tracejit.tracer.layout import AS_IS, LAYOUTS, UNKNOWN, Layout
from tracejit.tracer.operators import ARITHMETIC, OPERATORS
from tracejit.tracer.ownership import is_installed

__all__ = [
    "BINARY", "COMPARISONS", "FUNCTIONS", "IN_DTYPE_OF_OUT", "LEAST_INTO_INTEGERS", "METHODS", "OUT_CASTING",
    "SPREADING", "UFUNCS", "UNARY", "Tracer", "dtype_of_sum", "handed_out", "is_number",
]  # fmt: skip

METHODS: dict[str, Callable[..., Any]] = {}
"""ndarray method or property name to function; properties are listed in `PROPERTIES`."""
UFUNCS: dict[Any, Callable[..., Any]] = {}
"""NumPy ufunc to function; ufuncs of SciPy, which is not imported for it, by name."""
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""NumPy function (of `__array_function__`) to function."""
PROPERTIES = frozenset({"T", "mT", "real", "imag", "flat", "at"})


class Tracer:
    """An array while a function is traced.  Shapes and dtypes are known, values are not."""

    __slots__ = (
        "_aval",
        "_value",
        "_version",
        "index",
        "interpreter",
        "is_array",
        "layout",
        "location",
        "root",
        "__weakref__",
    )
    __array_priority__ = 1000.0

    def __init__(
        self, interpreter: Interpreter, value: Any, aval: ShapedArray, root: Tracer | None = None, index: Any = None
    ) -> None:
        self.interpreter = interpreter
        self._value = value
        self._aval = aval
        self._version = 0
        self.root = root
        self.index = index
        self.location = None
        self.layout: Layout = None  # of an array that is no view
        self.is_array = False  # of rank 0: an array, which `+=` changes, and not a number
        if root is not None:
            self._version = root.version

    # -- the cell ------------------------------------------------------------------------------------------------------
    @property
    def version(self) -> int:
        """How often the cell was written; a view has its root's."""
        return self._version if self.root is None else self.root.version

    @property
    def value(self) -> Any:
        """The current value in the terms of `interpreter`."""
        root = self.root
        if root is None:
            return self._value
        base = root
        while base.root is not None:
            base = base.root
        # what a loop body has written into an outer array, its version does not tell
        outer = base.interpreter is not self.interpreter
        if outer or root.version != self._version:
            with use_interpreter(self.interpreter):  # a loop's body may be what asks for it
                read = OPERATORS.read_view(root, self.index)
                # the view was all of the root; else `value` would ask here again
                now = root.value if read is root else read._value
            if outer:
                return now
            self._value, self._version = now, root.version
        return self._value

    @property
    def aval(self) -> ShapedArray:
        return self._aval

    @property
    def is_scalar(self) -> bool:
        """Whether it is a number, and not an array of rank 0 or a view of one element (`x[..., 0]`)."""
        return not self._aval.shape and not self.is_array and self.root is None

    def weaken(self) -> None:
        """Make it stand for a Python number."""
        self._aval = ShapedArray(self._aval.shape, self._aval.dtype, True)

    def assign(self, value: Any) -> None:
        """Put a traced value of the same shape and dtype into the cell, through the root if this is a view."""
        if self.root is not None:
            OPERATORS.setitem(self.root, self.index, value)
            return
        current_interpreter().write(self, value)

    def store(self, interpreter: Interpreter, value: Any) -> None:
        """Set the cell's value (called by the interpreter that owns it)."""
        if interpreter is not self.interpreter:
            raise UnsupportedError(
                f"an array made outside of `{interpreter.name}` is changed in place inside it; copy it first (x = "
                "x.copy()) "
                "or return the new value",
                location=user_location(),
            )
        self._value = value._value if isinstance(value, Tracer) else value
        self._version += 1

    # -- what an array has ---------------------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[Any, ...]:
        return self._aval.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        _refuse_assignment("shape", "x.reshape(shape)")

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._aval.dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        _refuse_assignment("dtype", "x.astype(dtype)")

    @property
    def ndim(self) -> int:
        return len(self._aval.shape)

    @property
    def size(self) -> Any:
        return self._aval.size

    @property
    def itemsize(self) -> int:
        return self._aval.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TracerError("len() of an array of rank 0", location=user_location())
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TracerError("iteration over an array of rank 0", location=user_location())
        return (self[i] for i in range(int(self.shape[0])))

    def __getitem__(self, index: Any) -> Any:
        return OPERATORS.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
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
        return OPERATORS.type_of(self) if _is_asked_by_others() else Tracer

    def __getattr__(self, name: str) -> Any:
        if self._aval.weak and name in _OF_NUMBERS and is_number(self):
            return self._of_number(name)
        function = METHODS.get(name)
        if function is None:
            if name.startswith("__"):
                raise AttributeError(name)
            self._refuse_attribute(name)
        return (
            handed_out(function, self)
            if name in PROPERTIES
            else lambda *args, **kwargs: handed_out(function, self, *args, **kwargs)
        )

    def _of_number(self, name: str) -> Any:
        """An attribute of a Python number."""
        if name in ("real", "numerator"):
            return _python_operand(self)
        if name in ("imag", "denominator"):
            return type(_ONE[self.dtype.kind])(name == "denominator")
        if name == "conjugate":
            return lambda: _python_operand(self)
        known = self._number()
        if known is None:
            self._refuse(f"{name} of a Python number", "compute it outside and hand it in")
        return getattr(known.item(), name)

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

    @property
    def real(self) -> Any:
        return self.__getattr__("real")

    @real.setter
    def real(self, value: Any) -> None:
        OPERATORS.setitem(self, Ellipsis, value)

    @property
    def flat(self) -> Any:
        return self.__getattr__("flat")

    @flat.setter
    def flat(self, value: Any) -> None:
        OPERATORS.set_flat(self, value)

    # -- NumPy's protocols ---------------------------------------------------------------------------------------------
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(map(_has_its_own_ufuncs, inputs)):
            return NotImplemented
        if method == "__call__":
            function = UFUNCS.get(ufunc) or UFUNCS.get(f"scipy.special.{ufunc.__name__}")
        else:
            function = UFUNCS.get((ufunc, method))
        if function is None:
            return _computed_now(
                getattr(ufunc, method), ufunc, inputs, kwargs, "" if method == "__call__" else f".{method}"
            )
        folds = method in ("reduce", "accumulate")
        casting = kwargs.pop("casting", "unsafe" if folds else "same_kind")
        if casting != "same_kind" and not folds:
            inputs = tuple(_cast(ufunc, inputs, kwargs, casting))
        out = kwargs.pop("out", None)
        if isinstance(out, tuple):
            out = out[0] if len(out) == 1 else out
        if out is None:
            return handed_out(function, *inputs, **kwargs)
        where = kwargs.pop("where", True)
        if folds and ufunc in (np.add, np.multiply) and kwargs.get("dtype") is None:
            kwargs["dtype"] = _computed_in(out, inputs[:1], dtype_of_sum)
        result = function(*inputs, **kwargs)
        mask = OPERATORS.mask_of(where)
        return _write_out(out, result if mask is None else FUNCTIONS[np.where](mask, result, out), casting=casting)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = FUNCTIONS.get(func)
        if function is None:
            return _computed_now(func, func, args, kwargs)
        return handed_out(function, *args, **kwargs)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        known = self.known()
        if known is not None:
            return np.array(known, dtype)
        self._refuse(
            "np.asarray / np.array",
            "use the traced array itself, and np.array([a, b]) for a list of them; to create an array inside the "
            "function use np.zeros and "
            "fill it",
        )

    def returned(self) -> None:
        """The traced function returns it: raises for what stands for an array of no known shape."""

    def seen(self) -> Tracer:
        """What it is for the current trace: the body of a loop or branch may have changed it,
        or change it before it runs again.
        """
        current = current_interpreter()
        return self if current is self.interpreter else current.seen(self)

    # -- no concrete value ---------------------------------------------------------------------------------------------
    def concrete(self) -> Any:
        """The concrete value if this interpreter knows it, else None."""
        return self.interpreter.concrete(self)

    def known(self) -> Any:
        """The value that NumPy's functions may have for it, None if there is none or it would drop a derivative."""
        if not self.interpreter.alive or self.interpreter.loses_derivative(self):
            return None
        return self.seen().concrete()

    def value_range(self) -> Range:
        """Between which numbers its elements lie, if it holds integers and the trace can tell."""
        return self.interpreter.value_range(self) if self.interpreter.alive else ANYTHING

    def made(self) -> Any:
        """Its value if it follows from nothing but arrays which the trace made, else None."""
        return self.interpreter.made_here(self)

    def _refuse(self, what: str | Callable[[Tracer, Location | None], tuple[str, str]], advice: str = "") -> NoReturn:
        if not self.interpreter.alive:
            raise LeakedTracerError(
                f"a traced array {self.aval} is used after the function that was traced had returned; return it "
                "instead of storing it",
                location=user_location(),
            )
        self.ask()
        location = user_location()
        if not isinstance(what, str):
            what, advice = what(self, location)
        raise _noted(
            ConcretizationError(
                f"{what} needs the value of a traced array {self.aval}, which is not known while tracing; {advice}",
                location=location,
            )
        )

    def ask(self) -> None:
        """Begin the trace again with the value, if it can be had:
        it follows from Python numbers among the arguments.
        """
        if self.interpreter.alive:
            self.interpreter.need_value(self)

    def _number(self) -> Any:
        """The concrete value where a transformation computes eagerly, as in NumPy,
        or where it depends on no argument of a trace.
        """
        known = self.seen().concrete() if self.interpreter.alive else None
        return None if known is None else known[()]

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

    def __round__(self, ndigits: int | None = None) -> Any:
        if self.shape:
            raise TracerError("round() is for numbers, in NumPy too; use np.round(x)", location=user_location())
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
            return _python_operand(self)
        if self.dtype.kind == "f" and 0 <= ndigits <= 22:
            return OPERATORS.round_decimals(self, ndigits)
        known = self._number()
        if known is None:
            self._refuse("round() of a Python number to so many digits", "use np.round(x, digits), or round it outside")
        return round(known.item(), ndigits)

    def as_python_number(self) -> Tracer:
        """This number, of rank 0, as one of Python's: its dtype bends to that of arrays."""
        return Tracer(self.interpreter, self.value, type(self.aval)((), self.dtype, weak=True))

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
        return Tracer(self.interpreter, made, made.aval)

    def __format__(self, spec: str) -> str:
        known = self._number()
        if known is None and not spec:
            self.ask()
            return repr(self)
        if known is None:
            self._refuse("formatting", "return the array and format it outside")
        return format(known, spec)

    def __str__(self) -> str:
        """Of a Python number its digits, as keys are made of them; an array shows what is known of it."""
        return format(self) if self._aval.weak and not self._aval.shape else repr(self)

    def __complex__(self) -> complex:
        self._refuse("complex()", "complex numbers are not supported; use two arrays, of real and imaginary parts")

    def item(self, *place: Any) -> Any:
        self._refuse("item()", "return the array and call item() outside")

    def tolist(self) -> Any:
        known = self.known()
        if known is not None:
            return known.tolist()
        self._refuse("tolist()", "return the array and call tolist() outside")

    def __copy__(self) -> Any:
        return self if is_number(self) else METHODS["copy"](self, "K")

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._refuse("pickling", "return the array and pickle it outside")

    def __hash__(self) -> int:
        if not self.is_scalar:
            raise TracerError(
                "a traced array is unhashable, as np.ndarray is; look it up by something else", location=user_location()
            )
        known = self._number()
        if known is not None:
            return hash(known)
        self._refuse(
            "a lookup in a dict or set, or a cached function,",
            "use np.select or tj.lax.switch, or make the argument a Python number",
        )

    def __repr__(self) -> str:
        return f"Tracer<{self.aval} by {self.interpreter.name}>"


def _refuse_assignment(name: str, instead: str) -> NoReturn:
    raise UnsupportedError(
        f"an assignment to x.{name} is not supported in traced code; use x = {instead}", location=user_location()
    )


def _noted(error: ConcretizationError) -> ConcretizationError:
    """An error that NumPy's arrays would not raise: the trace raises it again if the function catches it."""
    meet(error)
    interpreter = current_interpreter()
    while interpreter is not None:
        if interpreter.keeps_refusals and interpreter.refused is None:
            interpreter.refused = error
            break
        interpreter = interpreter.parent
    return error


def _float(x: Tracer, location: Location | None) -> tuple[str, str]:
    """What needs a number there, and what to write instead."""
    from tracejit.tracer.advice import for_number

    return for_number(location, "float")


def _int(x: Tracer, location: Location | None) -> tuple[str, str]:
    from tracejit.tracer.advice import for_number

    return for_number(location, "int")


def _truth(x: Tracer, location: Location | None) -> tuple[str, str]:
    """What needs a truth value there, and what to write instead.  Raises ShapeError for arrays
    that have none in NumPy either.
    """
    from tracejit.tracer.advice import for_truth  # reads the source: only for errors

    if any(not isinstance(n, int) or n > 1 for n in x.shape):
        raise ShapeError(
            f"the truth value of an array of shape {x.shape} is ambiguous, in NumPy too; use np.any(x) or np.all(x), "
            "and to choose "
            "elements np.where(condition, a, b) or a mask (x[mask] = value)",
            location=location,
        )
    return for_truth(location)


def _index(x: Tracer, location: Location | None) -> tuple[str, str]:
    """What needs an integer there, and what to write instead."""
    from tracejit.tracer.advice import for_index

    return for_index(location)


def handed_out(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function of the tables gives, as NumPy hands it out:
    arrays of their own, unless the function is one of `AS_IS`; or `out=`.
    """
    if not args and kwargs:
        args, kwargs = _first_by_place(function, kwargs)
    if "out" in kwargs or len(args) > 1:
        args, kwargs, out = _without_out(function, args, kwargs)
        if out is not None:
            if (
                isinstance(out, Tracer)
                and out.dtype.kind in "iu"
                and out.dtype.itemsize < LEAST_INTO_INTEGERS.get(function, 0)
            ):
                raise UnsupportedError(
                    f"np.{function.__name__} into out= of {out.dtype} is not supported: NumPy keeps its sums there; "
                    "convert the result",
                    location=user_location(),
                )
            rule = IN_DTYPE_OF_OUT.get(function)
            if rule is not None:
                args, kwargs = _in_dtype_of_out(function, args, kwargs, out, rule)
            return _write_out(out, function(*args, **kwargs), function)
    try:
        result = function(*args, **kwargs)
    except TypeError as error:
        # the call itself: arguments that it does not take
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise UnsupportedError(f"in traced code {error}", location=user_location()) from None
        raise
    if function in AS_IS:
        return result
    if isinstance(result, Tracer):
        return _own(function, result, args, kwargs)
    if type(result) in (list, tuple):
        return type(result)(
            [_own(function, x, args, kwargs) if isinstance(x, Tracer) else x for x in cast("list[Any]", result)]
        )
    return result


def _own(function: Callable[..., Any], result: Tracer, args: Sequence[Any], kwargs: dict[str, Any]) -> Tracer:
    made = current_interpreter().fresh(result)
    operands = _arrays((*args, *kwargs.values()))
    regular = all(map(_is_regular, operands))
    if function in LAYOUTS and not (regular and result.layout is None):
        made.layout = LAYOUTS[function](operands, made, *args, **kwargs)
    elif regular:
        made.layout = result.layout
    elif result.layout is not None and not any(result is x for x in operands):
        made.layout = result.layout
    elif made.ndim > 1:
        made.layout = UNKNOWN
    return made


def _arrays(xs: Any) -> list[Any]:
    """The arrays among operands, those in lists too."""
    found: list[Any] = []
    pending = list(xs)[::-1]
    while pending:
        x = pending.pop()
        if isinstance(x, (Tracer, np.ndarray)):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            pending += cast("list[Any]", x)[::-1]
    return found


def _is_regular(x: Any) -> bool:
    """Whether the axes of an array walk through memory in C order, as far as the way it was made tells."""
    if not isinstance(x, Tracer):
        return x.ndim < 2 or x.flags.c_contiguous
    while x.root is not None:
        if not x.index.keeps_order:
            return False
        x = x.root
    return x.layout is None


def _computed_now(function: Any, named: Any, args: Any, kwargs: Any, method: str = "") -> Any:
    """What NumPy makes of values that depend on no argument of the trace.  Raises UnsupportedError if one does.

    named: the function as the user knows it, of which `method` is called.
    """

    def value(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(map(value, cast("list[Any]", x))) if type(x) in (list, tuple) else x
        if not isinstance(x, Tracer):
            return x
        known = x.known()
        if known is None:
            from tracejit.tracer.advice import for_function, full_name

            name = full_name(named) + method
            raise UnsupportedError(
                f"{name} is not supported in traced code; {for_function(name)}", location=user_location()
            )
        return known

    return function(*map(value, args), **{key: value(x) for key, x in kwargs.items()})


def _first_by_place(function: Any, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments and keywords of a call that names its first argument: `np.sum(a=x)`."""
    code = getattr(function, "__code__", None)
    name = code.co_varnames[0] if code and code.co_argcount else None
    return ((kwargs[name],), {key: x for key, x in kwargs.items() if key != name}) if name in kwargs else ((), kwargs)


def _without_out(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """(arguments, keywords, out) of a call: out is a keyword, or stands where the function's signature says."""
    if "out" in kwargs:
        return args, {name: x for name, x in kwargs.items() if name != "out"}, kwargs["out"]
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code else ()
    place = names.index("out") if "out" in names else len(args)
    return (
        (args, kwargs, None) if place >= len(args) else ((*args[:place], None, *args[place + 1 :]), kwargs, args[place])
    )


SPREADING: set[Any] = set()
"""Functions of NumPy's that are ufuncs inside: their out= may be larger than the result, which is then repeated."""
IN_DTYPE_OF_OUT: dict[Any, Callable[[np.dtype[Any], np.dtype[Any]], np.dtype[Any] | None]] = {}
"""Functions that compute in another dtype where there is an out=: in which, by the operands' and its;
None: in their own."""
LEAST_INTO_INTEGERS: dict[Any, int] = {}
"""The least size, in bytes, of an integer out= of means and variances, whose sums NumPy keeps there."""
OUT_CASTING: dict[Any, str] = {}
"""By which rule other functions convert to the dtype of out=, where it is not any conversion ("unsafe");
"equiv": not at all."""


def dtype_of_sum(have: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    """In which dtype NumPy adds or multiplies elements up into out=."""
    return out if np.can_cast(have, out, "same_kind") else np.result_type(have, out)


def _computed_in(out: Any, operands: Sequence[Any], rule: Callable[..., Any]) -> np.dtype[Any] | None:
    """The dtype for what goes into out=, None where that makes no difference."""
    dtypes = [x.dtype for x in operands if hasattr(x, "dtype")]
    if not isinstance(out, Tracer) or not dtypes or out.dtype.kind not in "iuf":
        return None
    return rule(np.result_type(*dtypes), out.dtype)


def _in_dtype_of_out(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, rule: Callable[..., Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments and keywords of a call with the dtype of out= for a dtype= that is not given,
    or for its operand's where it takes none.
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    if "dtype" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        dtype = _computed_in(out, args[:1], rule)
        return args if dtype is None else (METHODS["astype"](args[0], dtype), *args[1:]), kwargs
    place = names.index("dtype") if "dtype" in names else len(args)
    if kwargs.get("dtype") is not None or any(x is not None for x in args[place : place + 1]):
        return args, kwargs
    dtype = _computed_in(out, args[:1] if names else args, rule)
    return args[:place], {**dict(zip(names[place + 1 :], args[place + 1 :], strict=False)), **kwargs, "dtype": dtype}


def _cast(ufunc: Any, inputs: Sequence[Any], kwargs: dict[str, Any], casting: str) -> list[Any]:
    """The operands of a ufunc by another rule than "same_kind".  Raises:
    DtypeError where it forbids what has to be converted.
    """
    dtype = kwargs.get("dtype")
    if casting == "unsafe":  # which allows any conversion to dtype=
        return [x if dtype is None or not isinstance(x, Tracer) else METHODS["astype"](x, dtype) for x in inputs]
    strong = [x.dtype for x in inputs if isinstance(x, np.ndarray) or (isinstance(x, Tracer) and not x.aval.weak)]
    loop = np.dtype(dtype) if dtype is not None else np.result_type(*strong) if strong else None
    if any(not np.can_cast(have, loop, casting) for have in strong):  # type: ignore[arg-type]
        names = ", ".join(map(str, strong))
        raise DtypeError(
            f"np.{ufunc.__name__} of {names} converts, which casting={casting!r} forbids", location=user_location()
        )
    return list(inputs)


def _write_out(out: Any, result: Any, function: Any = None, casting: str = "") -> Any:
    """The array given as out=, filled with a result; `function` is None for a ufunc.  Raises:
    DtypeError, ShapeError where NumPy does.
    """
    if isinstance(out, tuple):
        if len(out) == 1:
            return _write_out(out[0], result, function, casting)
        return tuple(
            [
                made if to is None else _write_out(to, made, function, casting)
                for to, made in zip(out, result, strict=True)
            ]
        )
    if not isinstance(out, Tracer):
        raise UnsupportedError(
            "an array that the trace did not make is changed in place (or is out=) by traced values; make it in the "
            "function, by np.zeros, "
            "np.empty or np.array",
            location=user_location(),
        )
    shape = np.shape(result)
    if len(shape) > out.ndim or (
        function is not None and function not in SPREADING and not _fits_exactly(shape, out.shape)
    ):
        raise ShapeError(
            f"a result of shape {shape} does not go into out= of shape {out.shape}", location=user_location()
        )
    casting = casting or OUT_CASTING.get(
        function, "same_kind" if function is None or function in SPREADING else "unsafe"
    )
    OPERATORS.setitem(out, Ellipsis, result, casting=casting)
    return out


def _fits_exactly(shape: Sequence[Any], out: Sequence[Any]) -> bool:
    return len(shape) == len(out) and all(m == n for m, n in zip(shape, out, strict=True))


_PYTHONS = frozenset({bool, int, float, Dim})
"""Classes of what is a Python number for the function that is traced."""


def _number(result: Any, other: Any) -> Any:
    """The result of Python's operators on Python numbers: a Python number, whose dtype gives way to an array's."""
    if type(other) in _PYTHONS or (isinstance(other, Tracer) and other.aval.weak):
        for x in result if isinstance(result, tuple) else (result,):
            if isinstance(x, Tracer):
                x.weaken()
    return result


_MATCHES_SEQUENCES = 1 << 5
"""The flag of a type whose objects match `case [a, b]:`."""
_ONE = {"b": 1, "i": 1, "f": 1.0}
_OF_NUMBERS = frozenset({
    "real", "imag", "conjugate", "numerator", "denominator", "bit_length", "bit_count", "to_bytes", "as_integer_ratio",
    "is_integer", "hex",
})  # fmt: skip
"""Attributes of Python's numbers that mean something else, or nothing, for arrays."""
_NUMBERS = (np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64))


def _is_asked_by_others() -> bool:
    """Whether a traced function, whose globals are no dict, or another package's called the function
    which calls this.
    """
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    if type(frame.f_globals) is not dict:
        return True
    return is_installed(frame.f_code.co_filename) and not str(frame.f_globals.get("__name__")).startswith("tracejit.")


def is_number(x: Tracer) -> bool:
    """Whether it stands for a Python number."""
    return x.aval.weak and not x.shape and not x.is_array and x.dtype in _NUMBERS


def _is_sequence_operation(name: str, x: Tracer, other: Any) -> bool:
    """`[a, b] * n` with an integer that is no array repeats the list, as it does with NumPy's integers:
    Python asks `__index__`.
    """
    if isinstance(other, Tracer):  # asked first: of one, `isinstance` of anything else asks for its `__class__`
        return False
    if not isinstance(other, (list, tuple, str, bytes)) or x.aval.shape or x.is_array:
        return False
    return x.aval.weak or (x.dtype.kind in "iu" and (name == "mul" or isinstance(other, (str, bytes))))


_ARRAYS = frozenset({bool, int, float, complex, list, tuple, str, np.ndarray, Tracer})


def _plain(name: str, number: Tracer, x: Any) -> Any:
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


def _gives_way(x: Tracer, other: Any) -> bool:
    """Whether an operator leaves an operand to that operand's own class, as NumPy's arrays do,
    and numbers with all that is none.

    Source: NumPy's binop_override.h: `__array_ufunc__` if the class has one, else a greater `__array_priority__`.
    """
    kind: Any = type(other)
    if kind in _ARRAYS or isinstance(other, (np.ndarray, np.generic)) or kind.__module__.startswith("tracejit."):
        return False
    if hasattr(kind, "__array_ufunc__"):
        return True
    if x.is_scalar and not hasattr(kind, "__array__") and not hasattr(kind, "__array_interface__"):
        return True
    priority = getattr(kind, "__array_priority__", 0)
    return isinstance(priority, (int, float)) and priority > 0


def _has_its_own_ufuncs(x: Any) -> bool:
    kind: Any = type(x)
    if kind in _ARRAYS or not hasattr(kind, "__array_ufunc__"):
        return False
    return kind.__array_ufunc__ is not np.ndarray.__array_ufunc__ and not kind.__module__.startswith("tracejit.")


def _is_no_number(x: Tracer, other: Any) -> bool:
    """Whether a number is compared with what is none, like None or text: they are different, as Python says."""
    return x.is_scalar and (other is None or isinstance(other, (str, bytes, dict, set, frozenset, type)))


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_BITWISE = ("and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge")
"""Operators under which Python's bools are no integers."""
_GROWING = ("add", "sub", "mul", "pow", "lshift", "floordiv", "divmod")
"""Operators by which integers outgrow 64 bits."""


def _python_operand(x: Any) -> Any:
    """An operand of Python's arithmetic on Python numbers: True is 1."""
    if not isinstance(x, Tracer):
        return OPERATORS.number_of_extents(x) if isinstance(x, Dim) else int(x) if type(x) is bool else x
    if not x.aval.weak or x.dtype.kind != "b":
        return x
    number = OPERATORS.to_dtype(x, np.int64)
    number.weaken()
    return number


def _of_numbers(name: str, function: Callable[..., Any], x: Any, y: Any, other: Any) -> Any:
    """An operator on a traced Python number and `other`, which is x or y."""
    is_number = type(other) in _PYTHONS or (isinstance(other, Tracer) and other.aval.weak)
    if is_number and name not in _BITWISE:
        x, y = _python_operand(x), _python_operand(y)
        if name in _GROWING:
            OPERATORS.check_growth(name, x, y)
    result = _number(handed_out(function, x, y), other)
    if is_number and name in _COMPARISONS and isinstance(result, Tracer) and OPERATORS.wants_booleans():
        known = result.known()  # `(n == 2) is True`
        if known is None:
            result.ask()
        return result if known is None else bool(known)
    return result


def _operator(name: str) -> Callable[..., Any]:
    def method(self: Tracer, other: Any, *modulo: Any) -> Any:
        function = ARITHMETIC.get(name)
        other = _plain(name, self, other)
        if function is None or modulo or _is_sequence_operation(name, self, other) or _gives_way(self, other):
            return NotImplemented
        if name in _COMPARISONS and _is_no_number(self, other):
            return NotImplemented
        return _of_numbers(name, function, self, other, other) if self.aval.weak else handed_out(function, self, other)

    return method


def _reflected(name: str) -> Callable[..., Any]:
    def method(self: Tracer, other: Any) -> Any:
        function = ARITHMETIC.get(name)
        other = _plain(name, self, other)
        if function is None or _is_sequence_operation(name, self, other) or _gives_way(self, other):
            return NotImplemented
        return _of_numbers(name, function, other, self, other) if self.aval.weak else handed_out(function, other, self)

    return method


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: Tracer, other: Any) -> Any:
        if self.is_scalar:
            return getattr(self, f"__{name}__")(other)  # results of rank 0 are NumPy scalars: `s += 1` makes a new one
        result = ARITHMETIC[name](self, other)
        if len(np.shape(result)) > self.ndim:
            raise ShapeError(
                f"an array of shape {self.shape} cannot become one of shape {np.shape(result)} in place; use y = x + "
                "... for a new array",
                location=user_location(),
            )
        OPERATORS.setitem(self, Ellipsis, result, casting="same_kind")
        return self

    return method


def _unary(name: str) -> Callable[..., Any]:
    def method(self: Tracer) -> Any:
        return (
            _number(handed_out(ARITHMETIC[name], _python_operand(self)), 0)
            if self.aval.weak
            else handed_out(ARITHMETIC[name], self)
        )

    return method


# Names of special methods, without the underscores: operators of two operands, which may be reflected, and of one.
BINARY = "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"
COMPARISONS = "eq", "ne", "lt", "le", "gt", "ge"
UNARY = "neg", "pos", "abs", "invert"

for _name in BINARY:
    setattr(Tracer, f"__{_name}__", _operator(_name))
    setattr(Tracer, f"__r{_name}__", _reflected(_name))
    setattr(Tracer, f"__i{_name}__", _in_place(_name))
for _name in (*COMPARISONS, "divmod"):
    setattr(Tracer, f"__{_name}__", _operator(_name))
if np.ndarray.__flags__ & _MATCHES_SEQUENCES:  # from NumPy 2.5 on
    cast("Any", Sequence).register(Tracer)
Tracer.__rdivmod__ = _reflected("divmod")  # type: ignore[attr-defined]
for _name in UNARY:
    setattr(Tracer, f"__{_name}__", _unary(_name))
