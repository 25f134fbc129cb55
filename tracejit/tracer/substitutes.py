"""What a traced function finds in place of NumPy's functions that do not hand traced arrays over to us.

`REDIRECTED` is filled by the layers above: a function of NumPy (of `math`, a builtin) to the one that understands
traced arrays. Outside of a trace a substitute does what the original does, so one that escapes is harmless.
"""

from __future__ import annotations

import builtins
import functools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from opcode import HAVE_ARGUMENT, opmap, stack_effect
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, greater_extent, has_count, smaller_extent
from tracejit.support.errors import DtypeError, TracerError, UnsupportedError, meet, pass_over
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.tracer.absence import absence_of, known_to_be_there, used
from tracejit.tracer.bytecode import instructions
from tracejit.tracer.calls import handed_out
from tracejit.tracer.cell import aval_of_argument, class_of
from tracejit.tracer.interpreter import Interpreter, current_interpreter, eager
from tracejit.tracer.layout import AS_IS, layout_of_array
from tracejit.tracer.mixed import as_flag, as_pythons, is_pythons, marked, may_be_mixed, without_mark
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.places import MISSING, number_said
from tracejit.tracer.recorder import StageInterpreter
from tracejit.tracer.statements.calls import statements
from tracejit.tracer.tables import LATE, METHODS, TELLS_MIXED, fill_late
from tracejit.tracer.traced_text import TracedText, made, plain_text
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transformation import Transformation

__all__ = [
    "CREATION", "OF_LISTS", "REDIRECTED", "TEXTS", "MethodsOfUfunc", "Redirected", "called_here", "converter",
    "dispatching", "for_nested", "is_instance", "python_number", "reads_attribute", "real_part",
    "redirect_members", "substitute_for", "type_of",
]  # fmt: skip

CREATION = (
    "arange", "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "bartlett", "blackman", "diag",
    "diag_indices", "diagflat", "empty", "empty_like", "eye", "fromfunction", "full", "full_like", "geomspace",
    "hamming", "hanning", "identity", "indices", "kaiser", "linspace", "logspace", "meshgrid", "ones", "ones_like",
    "tri", "tril", "tril_indices", "triu", "triu_indices", "vander", "zeros", "zeros_like",
)  # fmt: skip
"""Names of NumPy's functions that make arrays: in traced functions the arrays are traced,
so that they can be filled in place."""


@frozen(eq=False)
class Redirected:
    """A function, or type, and what stands for it in traced functions."""

    original: Any
    substitute: Any


CALLED: dict[np.ufunc, Callable[..., Any]] = {}
"""What stands for a ufunc of NumPy's where a traced function calls it; elsewhere it is itself, and has its methods."""

_LATE_ONES = ("scipy.fft", "scipy.linalg", "scipy.special")
"""Whose functions are entered when one is met."""

REDIRECTED: dict[int, Redirected] = {}
"""Identity of an original to it and what stands for it while a function is traced.  Filled by `redirect_members`."""


def redirect_members(members: Mapping[Any, Callable[..., Any]], *, only_nested: bool = False) -> None:
    """Have traced functions call `members[original]` where they name `original`: a function, or a type that is called.

    A type or ufunc keeps its identity: only a direct call `np.float32(x)` is redirected.
    only_nested: the original hands traced arguments over by itself, except where they are in lists, as in
    `np.sum([a, b])`.
    """
    for original, function in members.items():
        if isinstance(original, np.ufunc) and only_nested:
            CALLED[original] = for_nested(original, function)
            continue
        if isinstance(original, type):
            substitute = function
        else:
            substitute = for_nested(original, function) if only_nested else dispatching(original, function)
        REDIRECTED[id(original)] = Redirected(original, substitute)


def substitute_for(value: Any) -> Any:
    """What stands for `value` in a traced function; types only where they are called (see `called_here`)."""
    found = REDIRECTED.get(id(value))
    if found is None and LATE and _is_function(value) and (value.__module__ or "").startswith(_LATE_ONES):
        fill_late(".".join(value.__module__.split(".")[:2]))
        found = REDIRECTED.get(id(value))
    return value if found is None or isinstance(value, type) else found.substitute


def _is_function(value: Any) -> bool:
    """Whether it is a function of Python's, or one of SciPy's that several packages may provide."""
    return type(value) is FunctionType or getattr(type(value), "__module__", None) == "uarray"


def converter(value: Any) -> Callable[..., Any] | None:
    """What stands for a type or ufunc in call position, None if nothing does."""
    if isinstance(value, np.ufunc):
        return CALLED.get(value)
    found = REDIRECTED.get(id(value))
    return found.substitute if found is not None and isinstance(value, type) else None


def called_here(frame: FrameType | None) -> bool:
    """Whether the instruction that looks a name or attribute up does so in order to call what it finds."""
    return frame is not None and frame.f_lasti in _called_loads(frame.f_code)


def reads_attribute(frame: FrameType | None, *names: str) -> bool:
    """Whether the instruction that looks a name up does so in order to read an attribute of what it finds:
    any, or one of these names.
    """
    found = None if frame is None else _loads_of_attributes(frame.f_code).get(frame.f_lasti)
    return found is not None and (not names or found in names)


@cache
def _loads_of_attributes(code: CodeType) -> dict[int, str]:
    """Where the instructions are that load what an attribute is read of next, and the attribute's name."""
    found: dict[int, str] = {}
    before: int | None = None
    for name, argument, offset in instructions(code):
        if before is not None and name in ("LOAD_ATTR", "LOAD_METHOD"):
            attribute = code.co_names[
                argument >> 1 if name == "LOAD_ATTR" and sys.version_info >= (3, 12) else argument
            ]
            # a frame may stand on the caches after the instruction
            found.update(dict.fromkeys(range(before, offset, 2), attribute))
        before = offset if name.startswith("LOAD_") else None
    return found


@cache
def _called_loads(code: CodeType) -> frozenset[int]:
    """Where the instructions are that load what is called next.

    Source: CPython's compiler (3.11 to 3.14) puts a null beside a callable, as a bit of the load's argument or by
    PUSH_NULL: before the first load of `np.f` up to 3.12 and after the last from 3.13 on.  Methods are loaded by
    LOAD_METHOD, or LOAD_ATTR with that bit.
    """
    found: set[int] = set()
    steps = [("", 0, -1), ("", 0, -1), *instructions(code), ("", 0, -1)]
    for place in range(2, len(steps) - 1):
        name, argument, offset = steps[place]
        following = steps[place + 1][0]
        if name not in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD") or following in ("LOAD_ATTR", "LOAD_METHOD"):
            continue
        before, nulled, _ = steps[place - 1]
        begun = (before == "LOAD_GLOBAL" and nulled & 1) or (
            before.startswith("LOAD_") and steps[place - 2][0] == "PUSH_NULL"
        )
        marked = argument & 1 if name == "LOAD_GLOBAL" or sys.version_info >= (3, 12) else name == "LOAD_METHOD"
        if marked or following == "PUSH_NULL" or (name == "LOAD_ATTR" and begun and sys.version_info < (3, 13)):
            end = steps[place + 1][2] if following else len(code.co_code)
            found.update(range(offset, end, 2))  # a frame may stand on the caches that follow the instruction
    for offset, end in _decorators(code):
        found.update(range(offset, end, 2))
    return frozenset(found)


def _decorators(code: CodeType) -> Iterator[tuple[int, int]]:
    """(begin, end) of the instructions that load a decorator, `np.vectorize` above a `def`: it lies on the stack below
    the function, and a call of no further arguments takes both.
    """
    steps = list(instructions(code))
    if not any(name == "MAKE_FUNCTION" for name, _, _ in steps):
        return
    for place, (name, _, offset) in enumerate(steps[:-1]):
        if name not in ("LOAD_GLOBAL", "LOAD_ATTR") or steps[place + 1][0] == "LOAD_ATTR":
            continue
        above, makes = 0, False  # what lies on top of what is loaded
        for following, argument, _ in steps[place + 1 :]:
            if following == "CALL" and not argument and makes and above == 1:
                yield offset, steps[place + 1][2]
            above += stack_effect(opmap[following], argument if opmap[following] >= HAVE_ARGUMENT else None, jump=False)
            makes = makes or following == "MAKE_FUNCTION"
            if above < (1 if makes else 0) or following.startswith(("STORE_", "RETURN_")) or "JUMP" in following:
                break


def dispatching(original: Any, function: Callable[..., Any]) -> Any:
    """`original` outside of traces, `function` inside, with new arrays as cells of the trace
    that can be filled in place.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        interpreter = current_interpreter()
        if interpreter is eager:
            return original(*args, **kwargs)
        try:
            result = handed_out(function, *args, **kwargs)
        except DtypeError as error:
            if any(_holds_tracer(x) or _holds_text(x) for x in (*args, *kwargs.values())):
                raise
            pass_over(error)
            return original(*args, **kwargs)  # text, objects, complex numbers: NumPy's own array
        if type(result) in (list, tuple):
            cells = [_cell(x, interpreter) for x in result]
            same = all(x is y for x, y in zip(cells, result, strict=True))
            return result if same else type(result)(cells)  # the greatest of several lists is one of these
        return _cell(result, interpreter)

    return functools.update_wrapper(call, original)


def for_nested(original: Any, function: Callable[..., Any]) -> Any:
    """`original`, but `function` where a traced array is in a list or tuple; that of a ufunc fills `out=` itself."""

    def call(*args: Any, **kwargs: Any) -> Any:
        operands = args if isinstance(original, np.ufunc) else (*args, *kwargs.values())
        if not any(isinstance(x, (list, tuple)) and _holds_tracer(x) for x in operands):
            return original(*args, **kwargs)
        return function(*args, **kwargs) if isinstance(original, np.ufunc) else handed_out(function, *args, **kwargs)

    return functools.update_wrapper(call, original)


OF_LISTS = "reduce", "accumulate", "reduceat", "outer"
"""The methods of ufuncs whose operands may be lists."""


class MethodsOfUfunc:
    """A ufunc of which one of `OF_LISTS` is read: it takes traced arrays in lists and tuples, too."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    def __getattr__(self, name: str) -> Any:
        original = getattr(self._ufunc, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            as_array = REDIRECTED[id(np.array)].substitute
            return original(
                *[as_array(x) if isinstance(x, (list, tuple)) and _holds_tracer(x) else x for x in args], **kwargs
            )

        return functools.update_wrapper(call, original)


def _holds_text(x: Any) -> bool:
    return type(x) is TracedText or (isinstance(x, (list, tuple)) and any(map(_holds_text, x)))


def _holds_tracer(x: Any) -> bool:
    pending = [x]
    while pending:
        item = pending.pop()
        if isinstance(item, (list, tuple)):
            pending += item
        elif isinstance(item, Tracer):
            return True
    return False


def _cell(x: Any, interpreter: Interpreter) -> Any:
    """A new NumPy array as a traced one; one of a dtype that is not traced (text, objects) as it is."""
    if type(x) is not np.ndarray:
        return x
    try:
        aval = aval_of_argument(x)
    except DtypeError as error:
        pass_over(error)
        return x
    if isinstance(interpreter, StageInterpreter) and not interpreter.partial:
        cell = Tracer(interpreter, interpreter.constant(x), aval)
    elif isinstance(interpreter, Transformation):
        cell = interpreter.wrap(x, None)
    else:
        return x
    cell.is_array = not aval.shape
    cell.layout = layout_of_array(x)
    return cell


# -- types that are called: np.float32(x), float(x)
# --------------------------------------------------------------------------------------
_SAID_BY: dict[Any, str] = {bool: "__bool__", int: "__int__", float: "__float__", complex: "__complex__"}
"""By which methods objects become numbers of Python's."""


def _conversion(kind: Any) -> Callable[..., Any]:
    weak = kind in (bool, int, float, complex)

    def convert(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and kind in _SAID_BY and (said := number_said(args[0], _SAID_BY[kind])) is not MISSING:
            args = (said,)
        if args and type(args[0]) is TracedText and kind is not bool:
            hash(args[0])  # which refuses: digits that only the program knows
        if kind is bool and args and args[0] is NotImplemented:
            raise no_answer()
        counted = len(args) == 1 and isinstance(args[0], Dim) and has_count(args[0])
        if kind is complex and (len(args) > 1 or kwargs) and any(map(_is_traced, (*args, *kwargs.values()))):
            return _of_parts(*args, **kwargs)
        if len(args) != 1 or kwargs or not (counted or isinstance(args[0], Tracer)):
            absence = absence_of(args[0]) if kind is bool and args else None  # of a tuple, which is true if it is there
            return kind(*args, **kwargs) if absence is None else (absence.flag ^ True).as_python_number()
        (x,) = args
        if counted:
            if kind is int:
                return x
            x = OPERATORS.number_of_extents(x)
        if weak:
            return python_number(x, kind)
        dtype = np.dtype(kind)
        if x.mixed is not None and dtype.kind in "iu" and not np.can_cast(x.dtype, dtype):
            OPERATORS.check_number(as_pythons(x, x.mixed), dtype)
        if x.aval.weak and dtype != x.dtype:
            return OPERATORS.to_dtype(x, dtype)
        if x.is_array and not x.shape:  # a number, not the array
            number = METHODS["astype"](x, dtype)
            number.is_array = False
            return number
        return METHODS["astype"](x, dtype, copy=False)  # np.float64(x) is x where it is an array of float64

    return convert


def no_answer() -> TracerError:
    """Of a special method that does not know traced numbers, whose NotImplemented would count as true."""
    error = TracerError(
        "NotImplemented as a condition: a special method (`__eq__`, `__lt__`) of a number was called by its name with "
        "a traced number; use the operator",
        location=user_location(),
    )
    meet(error)
    return error


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tracer)


def _of_parts(real: Any = 0.0, imag: Any = 0.0) -> Any:
    """complex(a, b): of numbers put together, so that zeros keep their signs and infinities are none of the other."""
    (a, b), (c, d) = _parts_of(real), _parts_of(imag)
    real, imag = a if d is None else a - d, c if b is None else c + b
    number = OPERATORS.make_complex(*[x if isinstance(x, Tracer) else np.float64(x) for x in (real, imag)])
    return number.as_python_number() if isinstance(number, Tracer) else number


def _parts_of(x: Any) -> tuple[Any, Any]:
    """The real part of a number, and the imaginary one of a complex number."""
    if not isinstance(x, Tracer):
        x = complex(x) if isinstance(x, complex) or hasattr(type(x), "__complex__") else float(x)
        return (x.real, x.imag) if isinstance(x, complex) else (x, None)
    if x.dtype.kind != "c":
        return python_number(x, float), None
    x = python_number(x, complex)
    return METHODS["real"](x), METHODS["imag"](x)


# NumPy took arrays of one element, of any rank, for numbers before.
_RANK_0_ALONE = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 4)


def python_number(x: Tracer, kind: Any) -> Any:
    """float(x) and the like: of rank 0, and weakly typed as a Python number is."""
    dtype = np.dtype(kind)
    if x.absence is not None:
        x.absence.use()
    if x.dtype.kind == "c" and kind in (int, float):
        x = real_part(x, f"{kind.__name__}() argument must be a real number, not complex")
    if x.shape:
        if _RANK_0_ALONE and kind is not bool:
            raise TypeError("only arrays of rank 0 are numbers; take the element (x[0])")
        if x.size != 1:
            if kind is bool:
                raise ValueError("the truth value of an array of not one element is ambiguous; use any() or all()")
            raise TypeError("only arrays of one element can be converted to Python scalars")
        x = METHODS["reshape"](x, ())
    if x.aval.weak and x.dtype == dtype:
        return x
    if kind is int and x.dtype.kind in "fu":
        OPERATORS.check_number(x, dtype)  # Python's integers have no end, and NaN and infinity are none
    y = METHODS["astype"](x, dtype)
    return y.as_python_number() if isinstance(y, Tracer) else y


def real_part(x: Tracer, refusal: str) -> Any:
    """What Python's conversions make of a complex number of NumPy's.  Raises: TypeError for one of Python's, and for
    arrays.
    """
    if x.aval.weak or not x.is_scalar:
        raise TypeError(refusal)
    return METHODS["real"](x)


def _item(x: Tracer, *place: Any) -> Any:
    """x.item(), x.item(3), x.item(1, 2): an element as a Python number."""
    known = x.known()
    if known is not None:
        return known.item(*place)
    if len(place) == 1 and not isinstance(place[0], tuple):
        x = METHODS["reshape"](x, -1)  # counted in C's order, whatever the order in memory
    elif not place and x.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    at: Any = place[0] if len(place) == 1 else place
    element = OPERATORS.getitem(x, at) if place else METHODS["reshape"](x, ()) if x.shape else x
    return python_number(element, _PYTHON_KIND[x.dtype.kind])


_PYTHON_KIND = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
METHODS["item"] = _item


# -- builtins ----------------------------------------------------------------------------------------------------------
def is_instance(x: Any, kinds: Any, /) -> bool:
    """isinstance, for which a traced array is an `np.ndarray`, a result of rank 0 a NumPy scalar,
    a traced Python number that number.
    """
    if type(x) is TracedText:
        return isinstance("", kinds)
    if not isinstance(x, (Tracer, Dim)):
        found = isinstance(x, kinds)
        if isinstance(x, tuple) and found is not isinstance(None, kinds):
            known_to_be_there(x, "the class of")
        return found
    try:
        if issubclass(type_of(x), kinds):
            return True
    except TypeError:  # a protocol with data: only an object can be asked
        return isinstance(_example(x), kinds)
    return any(kind in type(x).__mro__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def _example(x: Any) -> Any:
    """An object of the class that a traced one stands for."""
    kind = type_of(x)
    return np.empty((0,) * x.ndim, x.dtype) if kind is np.ndarray else kind(0)


def type_of(x: Any) -> type:
    """The class of an object; of a traced array that of what it stands for."""
    if isinstance(x, Tracer):
        return class_of(x)
    if type(x) is TracedText:
        return str
    return int if isinstance(x, Dim) else type(known_to_be_there(x, "the class of"))


def _len(x: Any, /) -> Any:
    """len, which Python has give an integer: of a traced array the extent, as `x.shape[0]` does."""
    if isinstance(x, tuple):
        used(x) if absence_of(x) is not None else None
    return x.shape[0] if isinstance(x, Tracer) and x.shape else len(x)


functools.update_wrapper(_len, len)


def _truth(original: Callable[..., Any], folded: Any, joined: Any) -> Callable[..., Any]:
    """any or all of a traced vector, or of traced numbers in a list or tuple."""

    def call(x: Any, /) -> Any:
        if isinstance(x, Tracer) and len(x.shape) == 1:
            found = folded(x)
            return found.as_python_number() if isinstance(found, Tracer) else bool(found)
        if type(x) not in (list, tuple) or not any(isinstance(v, Tracer) and not v.shape for v in x):
            for v in x if type(x) in (list, tuple) else ():
                known_to_be_there(v, "the truth of")
            return original(x)
        if any(np.ndim(v) for v in x):
            return original(x)
        found: Any = original is builtins.all
        for v in x:
            found = joined(found, v if isinstance(v, Tracer) else bool(v))
        return found.as_python_number()

    return functools.update_wrapper(call, original)


def _extremum(original: Callable[..., Any], better: Any) -> Callable[..., Any]:
    """min and max of traced numbers, compared in Python's order (a NaN that comes first stays)."""

    def call(first: Any, /, *rest: Any, **kwargs: Any) -> Any:
        if kwargs and (rest or "default" not in kwargs or kwargs.get("key") is not None):
            return original(first, *rest, **kwargs)
        if not rest and isinstance(first, Tracer) and len(first.shape) == 1 and _is_long(first):
            return _best_element(first, better)
        items: list[Any] = [first, *rest] if rest else list(first)
        if kwargs and not items:
            return kwargs["default"]
        if all(isinstance(x, (int, Dim)) for x in items) and any(isinstance(x, Dim) and has_count(x) for x in items):
            return functools.reduce(greater_extent if better is np.greater else smaller_extent, items)
        if len(items) > 1 and all(type(x) is tuple for x in items):
            return _best_tuple(items, "Gt" if better is np.greater else "Lt")
        if len(items) < 2 or not any(isinstance(x, Tracer) for x in items) or any(map(_shape, items)):
            return original(items)
        _refuse_complex(original, items)
        if len(items) > _WRITTEN_OUT and _are_alike(items):
            found = _best_element(np.stack(items), better)
            return found.as_python_number() if items[0].aval.weak else found
        items = _that_fit(_that_may_win(items, better), better)
        if len(items) == 1 or not any(isinstance(x, Tracer) for x in items):
            return original(items) if len(items) > 1 else items[0]
        found, is_python, ours = items[0], is_pythons(items[0]), _is_ours(items[0])
        dtype = _dtype_of(items)
        for x in items[1:]:
            best = found
            wins, found = _better(better, dtype, without_mark(best), without_mark(x))
            is_python = _chosen(wins, is_pythons(x), is_python)
            ours = ours and _is_ours(x)
            if not isinstance(found, Tracer):
                found = x if wins else best
            elif ours:  # a number of Python's, whose dtype gives way to that of the next
                found = found.as_python_number()
        if not isinstance(found, Tracer):
            return found
        # It is one of the items, though np.where gives an array.
        kinds = {not x.is_scalar if isinstance(x, Tracer) else isinstance(x, np.ndarray) for x in items}
        found.is_array = kinds.pop() if len(kinds) == 1 else None
        for x in items if found.is_array is not False else ():
            if isinstance(x, Tracer) and not x.is_scalar:
                found.may_be(x)
        if ours:
            return found.as_python_number()
        return found if is_python is False or not may_be_mixed(found.aval) else marked(found, is_python)

    return functools.update_wrapper(call, original)


_WRITTEN_OUT = 16
"""Numbers up to which the greatest is found by comparing one after the other."""


def _is_long(x: Tracer) -> bool:
    n = x.shape[0]
    known = isinstance(n, Dim) and not has_count(n)
    return x.dtype.kind in "iuf" and (known or (isinstance(n, int) and n > _WRITTEN_OUT))


def _are_alike(items: Sequence[Any]) -> bool:
    """Whether items are numbers of one kind, which an array can hold."""
    first = items[0]
    return all(
        isinstance(x, Tracer)
        and x.is_scalar
        and x.dtype == first.dtype
        and x.aval.weak == first.aval.weak
        and x.dtype.kind in "iuf"
        and x.mixed is None
        and x.absence is None
        for x in items
    )


def _best_element(x: Any, better: Any) -> Any:
    """The first element that is better than all others; a NaN is better and worse than none."""
    find: Any = np.argmax if better is np.greater else np.argmin
    if x.dtype.kind != "f":
        return x[find(x)]
    worst = -np.inf if better is np.greater else np.inf
    place = find(np.where(np.isnan(x), x.dtype.type(worst), x))
    return x[np.where(np.isnan(x[0]), 0, place)]


def _best_tuple(items: Sequence[Any], better: str) -> Any:
    """The first of the tuples that are better than all others, whose order the program may decide."""
    helpers, best = statements(), items[0]
    for x in items[1:]:
        best = helpers.choose(helpers.compared(better, x, best), lambda x=x: x, lambda best=best: best)
    return best


def _refuse_complex(original: Callable[..., Any], items: Sequence[Any]) -> None:
    """Raises: TypeError for Python's complex numbers, which have no order; UnsupportedError where NumPy's meet numbers
    of another kind, as data would decide which it is.
    """
    if not any(type(x) is complex or (isinstance(x, (Tracer, np.generic)) and x.dtype.kind == "c") for x in items):
        return
    if all(type(x) is complex or _is_ours(x) for x in items):
        sign = ">" if original is builtins.max else "<"
        raise TypeError(f"'{sign}' is not defined for Python's complex numbers")
    if len({None if type(x) is complex or _is_ours(x) else x.dtype for x in items}) > 1:
        raise UnsupportedError(
            f"{original.__name__}() of complex numbers of different kinds is one of them, and data decide of which "
            f"kind; use np.{original.__name__}imum",
            location=user_location(),
        )


def _shape(x: Any) -> Any:
    return x.shape if isinstance(x, Tracer) else np.shape(x)


def _is_ours(x: Any) -> bool:
    """Whether it is a number of Python's."""
    return x.aval.weak if isinstance(x, Tracer) else type(x) in (bool, int, float)


def _dtype_of(items: Sequence[Any]) -> np.dtype[Any] | None:
    """The dtype of NumPy's numbers among the items; None if there are none."""
    dtypes = [
        x.dtype for x in items if (isinstance(x, Tracer) and not x.aval.weak) or isinstance(x, (np.ndarray, np.generic))
    ]
    return np.result_type(*dtypes) if dtypes else None


def _that_may_win(items: list[Any], better: Any) -> list[Any]:
    """The items without those that integers beyond 64 bits, which are constants, are better or worse than."""
    beyond = [x for x in items if type(x) is int and not -(2**63) <= x < 2**63]
    winners = [x for x in beyond if (x > 0) is (better is np.greater)]
    if winners:
        best = max(winners) if better is np.greater else min(winners)
        return [x for x in items if x is best or _may_exceed_64_bits(x, better)]
    if any(isinstance(x, Tracer) and x.dtype.kind in "iu" for x in items):
        return [x for x in items if not any(x is y for y in beyond)]
    return items


def _may_exceed_64_bits(x: Any, better: Any) -> bool:
    """Whether a number may be better than one beyond those of int64."""
    if type(x) is float:
        return True
    return isinstance(x, (Tracer, np.generic)) and (
        x.dtype.kind == "f" or (x.dtype == np.uint64 and better is np.greater)
    )


def _that_fit(items: list[Any], better: Any) -> list[Any]:
    """The items that may be the best, of a wider dtype if one of them is a Python number that NumPy's do not hold.

    Raises: NumberOutOfBounds if no dtype holds all of them.
    """
    dtype = _dtype_of(items)
    if dtype is None or dtype.kind == "b":
        return items
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    if dtype.kind in "iu":  # not of floats, where an infinity may be worse still
        beaten = (lambda x: x < limits.min) if better is np.greater else (lambda x: x > limits.max)
        items = [x for x in items if type(x) is not int or not beaten(x)]
        winners = [x for x in items if type(x) is int and (x > limits.max or x < limits.min)]
        if winners:  # better than all that NumPy's numbers can be
            ours = [x for x in items if isinstance(x, Tracer) and x.aval.weak]
            return [max(winners) if better is np.greater else min(winners), *ours]
    numbers = [x for x in items if type(x) is int]  # a float is rounded, to an infinity if it is too great
    if all(limits.min <= x <= limits.max for x in numbers):
        return items
    wide = np.dtype(np.float64 if dtype.kind == "f" else np.uint64 if dtype == np.uint64 else np.int64)
    return [OPERATORS.to_dtype(x, wide) for x in items]


def _chosen(wins: Any, x: Any, best: Any) -> Any:
    """Whether the better one of two numbers is Python's."""
    if x is best:
        return x
    if not isinstance(wins, Tracer):
        return x if wins else best
    return np.where(wins, as_flag(x), as_flag(best))


def _better(better: Any, dtype: np.dtype[Any] | None, best: Any, x: Any) -> tuple[Any, Any]:
    """Whether x is better than the best so far, and the better one of them, numbers among some of `dtype` (NumPy's).
    The program fails where it is an integer that does not fit.
    """
    wins = better(x, best)
    for number, lost in ((x, (wins, x, 0)), (best, (wins, 0, best))):
        if (
            isinstance(number, Tracer)
            and number.aval.weak
            and number.dtype.kind == "i"
            and dtype is not None
            and dtype.kind in "iu"
        ):
            won = np.where(*lost)
            if isinstance(won, Tracer):
                OPERATORS.check_number(won, dtype)
    return wins, np.where(wins, x, best)


_MAX, _MIN = _extremum(max, np.greater), _extremum(min, np.less)
TELLS_MIXED.update((_MAX, _MIN))
AS_IS.update((_MAX, _MIN))  # with a key they give one of the objects


def _warn(message: Any, category: Any = None, stacklevel: int = 1, *args: Any, **kwargs: Any) -> None:
    """warnings.warn, which looks for what it has said before by the text."""
    warnings.warn(plain_text(message), category, stacklevel + 1, *args, **kwargs)


def _print(*values: Any, **kwargs: Any) -> None:
    """print, which shows traced arrays."""
    print(*[plain_text(made(str, x)) for x in values], **kwargs)


def _making_text(original: Callable[..., Any]) -> Callable[..., Any]:
    """str, repr, format or ascii, whose text is marked."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if original is not repr and args and type(args[0]) is TracedText:
            return args[0]
        return made(original, *args, **kwargs)

    return functools.update_wrapper(call, original, updated=())


TEXTS: dict[Any, Any] = {x: _making_text(x) for x in (builtins.repr, builtins.format, builtins.ascii, builtins.str)}
"""What stands for the functions that make text."""
for _original, _substitute in TEXTS.items():
    REDIRECTED[id(_original)] = Redirected(_original, _substitute)
REDIRECTED[id(builtins.print)] = Redirected(builtins.print, functools.update_wrapper(_print, builtins.print))
REDIRECTED[id(warnings.warn)] = Redirected(warnings.warn, functools.update_wrapper(_warn, warnings.warn))
redirect_members({builtins.max: _MAX, builtins.min: _MIN, builtins.len: _len})
for _original, _folded, _joined in ((builtins.any, np.any, np.logical_or), (builtins.all, np.all, np.logical_and)):
    REDIRECTED[id(_original)] = Redirected(_original, _truth(_original, _folded, _joined))
redirect_members({kind: _conversion(kind) for kind in (bool, int, float, complex)})
redirect_members({np.dtype(code).type: _conversion(np.dtype(code).type) for code in "?bhilqBHILQefdFD"})


# -- np.random ---------------------------------------------------------------------------------------------------------
_KEYED = {
    **dict.fromkeys(("rand", "random", "random_sample", "ranf", "uniform"), "uniform(key, shape)"),
    **dict.fromkeys(("gauss", "normal", "normalvariate", "randn", "standard_normal"), "normal(key, shape)"),
    **dict.fromkeys(("integers", "randint", "random_integers", "randrange"), "randint(key, shape, minval, maxval)"),
    **dict.fromkeys(("choice", "choices", "sample"), "choice(key, a, shape)"),
    **dict.fromkeys(("permutation", "permuted", "shuffle"), "permutation(key, x)"),
    **dict.fromkeys(("exponential", "expovariate", "standard_exponential"), "exponential(key, shape)"),
    **dict.fromkeys(("gamma", "gammavariate", "standard_gamma"), "gamma(key, a, shape)"),
    **dict.fromkeys(("bytes", "getrandbits", "randbytes"), "bits(key, shape)"),
    "beta": "beta(key, a, b, shape)", "betavariate": "beta(key, a, b, shape)",
    "binomial": "binomial(key, n, p, shape)", "chisquare": "chisquare(key, df, shape)",
    "dirichlet": "dirichlet(key, alpha, shape)", "geometric": "geometric(key, p, shape)",
    "gumbel": "gumbel(key, shape)", "laplace": "laplace(key, shape)", "logistic": "logistic(key, shape)",
    "multivariate_normal": "multivariate_normal(key, mean, cov, shape)", "poisson": "poisson(key, lam, shape)",
    "standard_cauchy": "cauchy(key, shape)", "standard_t": "t(key, df, shape)",
}  # fmt: skip
"""What draws from a key, by the names of NumPy's and Python's functions."""


def _keyed(name: str) -> str:
    """The function of `tj.random` that stands for one with a hidden state, as it is called."""
    return "tj.random." + _KEYED.get(name.rpartition(".")[2], "normal(key, shape)")


def refuse_random(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `np.random` that works outside of traces and is refused inside:
    it would be called once, not at each call.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if current_interpreter() is eager:
            return original(*args, **kwargs)
        raise UnsupportedError(
            f"{name} draws from a hidden state, so a compiled function would return the same numbers at each call; "
            f"write {_keyed(name)} with a key (tj.random.key(seed)) that is an argument, or draw them outside and pass "
            "them as an argument",
            location=user_location(),
        )

    call.__name__ = name.rpartition(".")[2]
    return call
