"""How a function of the tables is called: its results are arrays of their own, and it fills `out=`."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tracejit.support.errors import DtypeError, ShapeError, TracejitError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.tracer.cell import Cell, aval_of_argument, check_is_number
from tracejit.tracer.interpreter import current_interpreter, watchers
from tracejit.tracer.layout import AS_IS, HANDED_BACK, LAYOUTS, UNKNOWN
from tracejit.tracer.mixed import check_dtypes, computed, has_mixed, mixed_among
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import (
    FUNCTIONS,
    IN_DTYPE_OF_OUT,
    LEAST_INTO_INTEGERS,
    METHODS,
    OUT_CASTING,
    SPREADING,
    TELLS_MIXED,
    UFUNCS,
    dtype_of_loop,
    dtype_of_sum,
    fill_late,
)

__all__ = ["call_function", "call_ufunc", "handed_out", "unchecked"]

_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
"""Of integers of any dtypes, by their values."""


def call_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a ufunc, or a method of it like "reduce", makes of its operands: `__array_ufunc__` of traced arrays."""
    if method == "__call__":
        function = UFUNCS.get(ufunc)
        if function is None:
            fill_late("scipy.special")
            function = UFUNCS.get(f"scipy.special.{ufunc.__name__}")
    else:
        function = UFUNCS.get((ufunc, method))
    if function is None:
        return _computed_now(
            getattr(ufunc, method), ufunc, inputs, kwargs, "" if method == "__call__" else f".{method}"
        )
    folds = method in ("reduce", "accumulate", "reduceat")
    casting = kwargs.pop("casting", "unsafe" if folds else "same_kind")
    if casting != "same_kind" and not folds:
        inputs = tuple(_cast(ufunc, inputs, kwargs, casting))
    out = kwargs.pop("out", None)
    if isinstance(out, tuple):
        out = out[0] if len(out) == 1 else out
    if out is None:
        return handed_out(function, *inputs, **kwargs)
    check_dtypes(inputs)
    where = True if folds else kwargs.pop("where", True)
    if folds and ufunc not in _TRUTHS and kwargs.get("dtype") is None:
        kwargs["dtype"] = _folded_in(ufunc, out, inputs[0])
    kwargs = _begun_in(out, kwargs)
    mask = OPERATORS.mask_of(where)
    if mask is not None and ufunc not in _TAME:
        inputs = tuple([_within(mask, x) for x in inputs])
    result = function(*inputs, **kwargs)
    if mask is not None:
        to: Any = out
        if isinstance(result, Cell) and not result.aval.weak:
            if not np.can_cast(result.dtype, to.dtype, casting):
                raise DtypeError(
                    f"a result of {result.dtype} is not converted to out= of {to.dtype} by the rule {casting!r}",
                    location=user_location(),
                )
            result = METHODS["astype"](result, to.dtype)
        result = FUNCTIONS[np.where](mask, result, out)
    if ufunc.signature is not None and isinstance(out, Cell):
        _check_core(ufunc, inputs, np.shape(result), out)
    return _write_out(out, result, casting=casting, exact=folds)


_TAME = frozenset({np.add, np.subtract, np.negative, np.positive, np.conjugate, np.fabs, np.absolute})
"""Ufuncs with finite derivatives everywhere."""


def _within(mask: Any, x: Any) -> Any:
    """An operand with 1 where the mask does not hold: what is computed of it there is thrown away, and must not be
    infinite for its derivative.
    """
    if not isinstance(x, Cell) or x.aval.dtype.kind not in "fc" or (x.aval.weak and np.ndim(mask)):
        return x
    inside = FUNCTIONS[np.where](mask, x, x.aval.dtype.type(1))
    if x.aval.weak and isinstance(inside, Cell):
        inside.weaken()
    return inside


def _begun_in(out: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keywords with an initial= that is not whole in the dtype of out=, where NumPy puts it first."""
    initial = kwargs.get("initial")
    if not isinstance(out, Cell) or out.dtype.kind not in "iuf":
        return kwargs
    if isinstance(initial, Cell) and initial.dtype.kind == "f":
        return {**kwargs, "initial": METHODS["astype"](initial, out.dtype)}
    if isinstance(initial, (float, np.floating)):
        with np.errstate(all="ignore"):
            return {**kwargs, "initial": np.asarray(initial).astype(out.dtype).item()}
    return kwargs


_TRUTHS = (np.logical_and, np.logical_or, np.logical_xor)
"""They fold truth values, whatever the dtypes are."""


def _folded_in(ufunc: np.ufunc, out: Any, x: Any) -> np.dtype[Any] | None:
    """The dtype in which a method of a ufunc folds elements into out=.  Raises: DtypeError where NumPy has no loop."""
    if not isinstance(out, Cell):
        return None
    have = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype if not isinstance(x, Sequence) else None
    if have is None:
        return _computed_in(out, [x], dtype_of_sum) if ufunc in (np.add, np.multiply) else None
    try:
        return dtype_of_loop(ufunc, have, out.dtype)
    except TypeError as error:
        raise DtypeError(f"np.{ufunc.__name__} into out= of {out.dtype}: {error}", location=user_location()) from None


def _check_core(ufunc: np.ufunc, inputs: Sequence[Any], shape: Sequence[Any], out: Cell) -> None:
    """Raises: ShapeError where out= differs in the axes over which a generalised ufunc does not loop."""
    assert ufunc.signature is not None
    core = ufunc.signature.partition("->")[2].count(",") + ("()" not in ufunc.signature.partition("->")[2])
    if "?" in ufunc.signature:  # a vector has one axis less
        core -= sum(np.ndim(x) == 1 for x in inputs)
    if core > 0 and not _fits_exactly(shape[len(shape) - core :], out.shape[max(0, out.ndim - core) :]):
        raise ShapeError(
            f"a result of shape {tuple(shape)} does not go into out= of shape {out.shape}", location=user_location()
        )


def call_function(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function of NumPy's makes of its arguments: `__array_function__` of traced arrays."""
    function = FUNCTIONS.get(func)
    if function is None:
        return _computed_now(func, func, args, kwargs)
    return handed_out(function, *args, **kwargs)


def handed_out(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What a function of the tables gives, as NumPy hands it out:
    arrays of their own, unless the function is one of `AS_IS` or gives an operand back; or `out=`.
    """
    operands = (*args, *kwargs.values())
    if watchers:
        for x in operands:
            if isinstance(x, Cell) and x.absence is not None:
                x.absence.use()
    if (
        not mixed_among(operands)
        or function in TELLS_MIXED
        or any(function is UFUNCS.get(ufunc) for ufunc in _COMPARISONS)
    ):
        return unchecked(function, *args, **kwargs)
    if any(function is f for ufunc, f in UFUNCS.items() if type(ufunc) is not tuple) and has_mixed(*args):
        return computed(lambda *given: unchecked(function, *given, **kwargs), args)
    check_dtypes(operands, gives_way=function in (FUNCTIONS[np.where], FUNCTIONS[np.clip]))
    return unchecked(function, *args, **kwargs)


def unchecked(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """The same; whether mixed numbers make a difference is seen to."""
    if not args and kwargs:
        args, kwargs = _first_by_place(function, kwargs)
    if "out" in kwargs or len(args) > 1:
        args, kwargs, out = _without_out(function, args, kwargs)
        if out is not None:
            if (
                isinstance(out, Cell)
                and out.dtype.kind in "iu"
                and out.dtype.itemsize < LEAST_INTO_INTEGERS.get(function, 0)
            ):
                raise UnsupportedError(
                    f"np.{function.__name__} into out= of {out.dtype} is not supported: NumPy keeps its sums there; "
                    "convert the result",
                    location=user_location(),
                )
            kwargs = _begun_in(out, kwargs)
            rule = IN_DTYPE_OF_OUT.get(function)
            if rule is not None:
                args, kwargs = _in_dtype_of_out(function, args, kwargs, out, rule)
            casting = OUT_CASTING.get(function, "")
            casting = casting(*args, **kwargs) if callable(casting) else casting
            return _write_out(out, _named_in_errors(function, args, kwargs), function, casting)
    try:
        result = _named_in_errors(function, args, kwargs)
    except TypeError as error:
        # the call itself: arguments that it does not take
        inner = error.__traceback__ and error.__traceback__.tb_next
        if not isinstance(error, TracejitError) and inner is not None and inner.tb_next is None:
            raise UnsupportedError(f"in traced code {error}", location=user_location()) from None
        raise
    if function in AS_IS or (function in HANDED_BACK and any(result is x for x in (*args, *kwargs.values()))):
        return result
    if isinstance(result, Cell):
        return _own(function, result, args, kwargs)
    if type(result) in (list, tuple):
        return type(result)(
            [_own(function, x, args, kwargs) if isinstance(x, Cell) else x for x in cast("list[Any]", result)]
        )
    return result


def _named_in_errors(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function gives; an error of a primitive in it names the function, which is what the user has written."""
    try:
        return function(*args, **kwargs)
    except (DtypeError, ShapeError) as error:
        begin, _, rest = error.message.partition("] ")
        if begin.startswith("[") and begin[1:].isidentifier() and function.__module__.startswith("tracejit.numpy"):
            name = _name_of(function)
            error.message = f"{name} {rest}" if rest.startswith(("does not ", "takes ")) else f"{name}: {rest}"
        raise


def _name_of(function: Callable[..., Any]) -> str:
    """What the user calls a function of the tables."""
    for table in (FUNCTIONS, UFUNCS):
        for known, ours in table.items():
            if ours is function and (isinstance(known, (tuple, str)) or getattr(np, known.__name__, None) is known):
                if isinstance(known, str):
                    return known
                return "np." + (f"{known[0].__name__}.{known[1]}" if isinstance(known, tuple) else known.__name__)
    return function.__qualname__.rpartition(">.")[2]


def _own(function: Callable[..., Any], result: Cell, args: Sequence[Any], kwargs: dict[str, Any]) -> Cell:
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
        if isinstance(x, (Cell, np.ndarray)):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            pending += cast("list[Any]", x)[::-1]
    return found


def _is_regular(x: Any) -> bool:
    """Whether the axes of an array walk through memory in C order, as far as the way it was made tells."""
    if not isinstance(x, Cell):
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
        if not isinstance(x, Cell):
            return x
        known = x.known()
        if known is None:
            raise refused("")
        lent = np.asarray(known).view()
        lent.flags.writeable = False  # a change of it would be lost
        return lent

    def refused(why: str) -> UnsupportedError:
        from tracejit.tracer.advice import for_function, full_name

        name = full_name(named) + method
        return UnsupportedError(
            f"{name} is not supported in traced code{why}; {for_function(name)}", location=user_location()
        )

    if method == ".at" and args and isinstance(args[0], Cell):  # NumPy does not look whether it may write
        raise refused("")
    operands, named_ones = [value(x) for x in args], {key: value(x) for key, x in kwargs.items()}
    try:
        return function(*operands, **named_ones)
    except ValueError as error:
        if "read-only" in str(error):
            raise refused(" where it changes an array that is given") from error
        raise


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


def _computed_in(out: Any, operands: Sequence[Any], rule: Callable[..., Any]) -> np.dtype[Any] | None:
    """The dtype for what goes into out=, None where that makes no difference."""
    dtypes = [x.dtype for x in operands if hasattr(x, "dtype")]
    if not isinstance(out, Cell) or not dtypes or out.dtype.kind not in "iufc":
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
    """The operands of a ufunc by another rule than "same_kind".

    Raises: DtypeError where it forbids what has to be converted.
    """
    dtype = kwargs.get("dtype")
    if casting == "unsafe":  # which allows any conversion to dtype=
        return [x if dtype is None or not isinstance(x, Cell) else METHODS["astype"](x, dtype) for x in inputs]
    examples = [_example(x) for x in inputs]
    try:  # NumPy is asked by a call; `resolve_dtypes` may end the process
        with np.errstate(all="ignore"):
            ufunc(*examples, casting=casting, **({} if dtype is None else {"dtype": dtype}))
    except TypeError:
        names = ", ".join([str(x.dtype) if isinstance(x, np.ndarray) else type(x).__name__ for x in examples])
        raise DtypeError(
            f"np.{ufunc.__name__} of {names} converts, which casting={casting!r} forbids", location=user_location()
        ) from None
    return list(inputs)


def _example(x: Any) -> Any:
    """A number of Python's, or an array of one number, as an operand is."""
    have = aval_of_argument(np.asarray(x) if isinstance(x, (list, tuple)) else x)
    one = np.ones(1, have.dtype)
    return one[0].item() if have.weak else one


def _write_out(out: Any, result: Any, function: Any = None, casting: str = "", *, exact: bool = False) -> Any:
    """The array given as out=, filled with a result; `function` is None for a ufunc.  exact: the result is not spread.

    Raises: DtypeError, ShapeError where NumPy does.
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
    if isinstance(out, Cell) and out.is_scalar:
        check_is_number(out)
        raise DtypeError("out= is a number, which cannot be changed; it takes an array", location=user_location())
    if not isinstance(out, Cell):
        raise UnsupportedError(
            "an array that the trace did not make is changed in place (or is out=) by traced values; make it in the "
            "function, by np.zeros, "
            "np.empty or np.array",
            location=user_location(),
        )
    shape = np.shape(result)
    if len(shape) > out.ndim or (
        (exact or (function is not None and function not in SPREADING)) and not _fits_exactly(shape, out.shape)
    ):
        raise ShapeError(
            f"a result of shape {shape} does not go into out= of shape {out.shape}", location=user_location()
        )
    casting = casting or ("same_kind" if function is None or function in SPREADING else "unsafe")
    if casting == "back":
        have = aval_of_argument(result).dtype
        if not np.can_cast(out.dtype, have):
            raise DtypeError(
                f"out= of {out.dtype} is not safely converted to {have}, in which it is filled",
                location=user_location(),
            )
        casting = "unsafe"
    OPERATORS.setitem(out, Ellipsis, result, casting=casting)
    return out


def _fits_exactly(shape: Sequence[Any], out: Sequence[Any]) -> bool:
    return len(shape) == len(out) and all(m == n for m, n in zip(shape, out, strict=True))
