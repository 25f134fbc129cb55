"""Functions of Python's that compiled programs call: `pure_callback`, `io_callback`, and those of `tj.debug`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any

import numpy as np

from tracejit.api.option_checks import expect, flag
from tracejit.api.transform import checked_function, is_array, name_of
from tracejit.ir.extents import Dim
from tracejit.ir.types import ShapedArray
from tracejit.primitives.callback import Callback, Called, raised
from tracejit.primitives.comparison import Ne, Or
from tracejit.primitives.elementwise import select
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError, TracejitError, UserError
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, flatten, unflatten
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.current import current_trace
from tracejit.tracer.failures import INDEX_BITS, Thrown, failures_here, note_failure
from tracejit.tracer.interpreter import bind, prepare
from tracejit.tracer.operators import OPERATORS

__all__ = ["debug_callback", "debug_print", "io_callback", "pure_callback"]

_THROWN = Thrown(TracejitError, "a function that the program calls has raised an exception", raised)
_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """What a function of Python's gives for arrays that only the program has: `callback(*args, **kwargs)`.

    The compiled program calls it, with NumPy arrays (scalars for those of rank 0, Python's numbers for these) of its
    own in the place of traced ones.  This costs some microseconds a call, and arrays on a device are brought here
    and back.
    result_shape_dtypes: what it gives: something with `shape` and `dtype` (`tj.ShapeDtypeStruct`, an array), or a
    pytree of these.
    vmap_method: what `tj.vmap` does: "sequential" (also None) calls it for one element after the other, "expand_dims"
    and "broadcast_all" once, with an axis in front of all arguments, of length 1 (or of the whole length) where they
    have none; "legacy_vectorized" leaves those out.
    It has no derivative: give it one by `tj.custom_jvp` or `tj.custom_vjp`.

    Raises: what the callback raises, where the compiled function is called; ShapeError, DtypeError for results that are
    not what was said.

    Source of the interface: JAX's pure_callback.

    >>> import bisect
    >>> import numpy as np, tracejit as tj
    >>> steps = [0.5, 1.5, 4.0]
    >>> @tj.jit
    ... def rated(x):
    ...     grade = tj.pure_callback(lambda v: np.int64(bisect.bisect(steps, v)), tj.ShapeDtypeStruct((), np.int64), x)
    ...     return 10 * grade
    >>> rated(1.75), rated(0.25)
    (np.int64(20), np.int64(0))
    """
    what = "tj.pure_callback"
    expect(vmap_method is None or vmap_method in _METHODS, what, "vmap_method", vmap_method, f"one of {_METHODS}")
    expect(sharding is None, what, "sharding", sharding, "None: a program runs on one device")
    method = "sequential" if vmap_method is None else vmap_method.removesuffix("_unrolled")
    return _called(what, _outside(what, callback), result_shape_dtypes, args, kwargs, method)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """The same of a function with effects: files, drawing, random numbers, other programs.

    Calls are in the order of the program, whether `ordered` or not, as often as it says.  `tj.vmap` calls it for one
    element after the other.   Source of the interface: JAX's experimental.io_callback.

    >>> import numpy as np, tracejit as tj
    >>> seen = []
    >>> @tj.jit
    ... def total(x):
    ...     s = 0.0
    ...     for v in x:
    ...         s = s + v
    ...         tj.io_callback(lambda s: seen.append(float(s)), None, s)
    ...     return s
    >>> total(np.array([1.0, 2.0, 4.0])), seen
    (np.float64(7.0), [1.0, 3.0, 7.0])
    """
    flag("tj.io_callback", "ordered", ordered)
    expect(sharding is None, "tj.io_callback", "sharding", sharding, "None: a program runs on one device")
    what = "tj.io_callback"
    return _called(what, _outside(what, callback), result_shape_dtypes, args, kwargs)


def debug_callback(
    callback: Callable[..., Any], *args: Any, ordered: bool = False, partitioned: bool = False, **kwargs: Any
) -> None:
    """Calls a function when the program gets there, and ignores what it gives.  Derivatives pass it by.

    A method of a list that is filled (`seen.append`) is read while tracing, and with it the list: each call finds
    another one, and is traced anew.  A function around it (`lambda v: seen.append(v)`) is not.

    Source of the interface: JAX's debug.callback.

    >>> import numpy as np, tracejit as tj
    >>> seen = []
    >>> _ = tj.jit(lambda x: tj.debug.callback(seen.append, x.sum()))(np.ones(3))
    >>> seen
    [np.float64(3.0)]
    """
    own = _outside("tj.debug.callback", callback)

    def ignored(*given: Any, **named: Any) -> None:
        own(*given, **named)

    _called("tj.debug.callback", ignored, None, args, kwargs)


def debug_print(fmt: str, *args: Any, ordered: bool = False, partitioned: bool = False, **kwargs: Any) -> None:
    """Prints `fmt.format(*args, **kwargs)` when the program gets there, with the numbers that it has there.

    Python's own `print` in a compiled function prints once, while it is traced.

    Raises: UserError for a text that names arguments there are not.   Source of the interface: JAX's debug.print.

    >>> import numpy as np, tracejit as tj
    >>> @tj.jit
    ... def root(a):
    ...     x = a
    ...     while abs(x * x - a) > 1e-3:
    ...         x = (x + a / x) / 2
    ...         tj.debug.print("x = {x:.4f}", x=x)
    ...     return x
    >>> _ = root(2.0)
    x = 1.5000
    x = 1.4167
    x = 1.4142
    """
    if not isinstance(fmt, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"tj.debug.print: the first argument is a text, not {fmt!r}", location=user_location())
    try:
        _check_names(fmt, args, kwargs)
    except (ValueError, IndexError, KeyError) as error:
        missing = "" if isinstance(error, ValueError) else "no argument "
        raise UserError(
            f"tj.debug.print: {fmt!r} does not fit its arguments: {missing}{error}", location=user_location()
        ) from None

    def printed(*given: Any, **named: Any) -> None:
        print(fmt.format(*given, **named))

    _called("tj.debug.print", printed, None, args, kwargs)


def _outside(what: str, callback: Callable[..., Any]) -> Callable[..., Any]:
    """The function as Python has it where nothing is traced."""
    checked_function(what.removeprefix("tj."), callback)
    trace = current_trace()
    return callback if trace is None else trace.changes.called_later(callback, f"{name_of(callback)} ({what})")


def _check_names(fmt: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raises: ValueError, IndexError, KeyError where a text names what is not given."""
    at = 0
    for _, field, _, _ in Formatter().parse(fmt):
        if field is None:
            continue
        name = field.partition(".")[0].partition("[")[0]
        if not name:
            name, at = str(at), at + 1
        if name.isdecimal() and int(name) >= len(args):
            raise IndexError(int(name))
        if not name.isdecimal() and name not in kwargs:
            raise KeyError(name)


def _called(
    what: str,
    callback: Callable[..., Any],
    wanted: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    mapped: str = "sequential",
) -> Any:
    """Bind the primitive for the leaves that are arrays; others are handed to the callback as they are."""
    structs, out_tree = flatten(wanted)
    results = [_result(what, x) for x in structs]
    leaves, tree = flatten((tuple(args), kwargs))
    leaves = [OPERATORS.number_of_extents(x) if isinstance(x, Dim) else x for x in leaves]
    places = [k for k, x in enumerate(leaves) if is_array(x)]
    constant = [None if k in places else x for k, x in enumerate(leaves)]
    avals = [aval_of_argument(leaves[k]) for k in places]
    name = f"{name_of(callback)} ({what})"

    def function(*arrays: Any) -> list[Any]:
        filled = list(constant)
        for k, x, aval in zip(places, arrays, avals, strict=True):
            filled[k] = x.item() if aval.weak and not x.shape else x
        given, named = unflatten(tree, filled)
        return _fitting(name, callback(*given, **named), results, out_tree)

    prepare()
    operands = [OPERATORS.to_dtype(leaves[k], aval.dtype) for k, aval in zip(places, avals, strict=True)]
    failures = failures_here()
    *outs, number = bind(Callback(Called(name, function, results, mapped)), failures.cell, *operands)
    site = np.int64((failures.site(_THROWN) + 1) << INDEX_BITS)
    note_failure(select(bind(Ne(), number, np.int64(0)), bind(Or(), number, site), np.int64(0)))
    return unflatten(out_tree, outs)


def _result(what: str, struct: Any) -> ShapedArray:
    """The aval of what has a shape and a dtype."""
    try:
        shape = tuple(struct.shape)
        return ShapedArray(shape, canonical(np.dtype(struct.dtype)))
    except (AttributeError, TypeError):
        raise UserError(
            f"{what}: a result is said to be {struct!r:.60}; say tj.ShapeDtypeStruct(shape, dtype), or give an array "
            "that is like it",
            location=user_location(),
        ) from None


def _fitting(name: str, made: Any, results: Sequence[ShapedArray], tree: TreeDef) -> list[Any]:
    """The results of a call, as arrays of the dtypes that were said.  Raises: UserError, DtypeError."""
    found, structure = flatten(made)
    if structure != tree:
        raise UserError(f"{name} gives {structure}; it was said to give {tree}")
    out: list[Any] = []
    for x, want in zip(found, results, strict=True):
        array = np.asarray(x)
        if not np.can_cast(array.dtype, want.dtype, "same_kind"):
            raise DtypeError(f"{name} gives {array.dtype}; it was said to give {want.dtype}")
        out.append(array)
    return out
