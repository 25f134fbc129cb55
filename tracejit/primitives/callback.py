"""Functions of the user's that a compiled program calls (`tj.pure_callback`, `tj.io_callback`, `tj.debug`)."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape
from tracejit.ir.forms import Form, FormBuilder, HostFunction, LibraryCall, Operand, Whole
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives.elementwise import select
from tracejit.primitives.reduction import reduce_max
from tracejit.primitives.shape import broadcast_in_dim
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front, taking_part
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind

__all__ = ["Callback", "Called", "raised"]

_numbers = itertools.count(1)
_kept: OrderedDict[int, BaseException] = OrderedDict()
"""What functions have raised, by number, until the program has ended."""
_MOST = 256  # of programs that fail in another way are never asked for


def raised(number: int) -> BaseException:
    """The exception of a failure's number."""
    return _kept.pop(number, None) or RuntimeError("a function that the program calls has raised an exception")


def _keep(error: BaseException) -> int:
    number = next(_numbers)
    _kept[number] = error
    while len(_kept) > _MOST:
        _kept.popitem(last=False)
    return number


class Called:
    """What the user gave: equal to itself only.

    function: of NumPy arrays and scalars; it gives a list of arrays of the shapes and dtypes of `results`.
    mapped: what `tj.vmap` does, as `vmap_method` of `tj.pure_callback` says.
    """

    __slots__ = ("__weakref__", "function", "mapped", "name", "results")

    def __init__(
        self, name: str, function: Callable[..., list[Any]], results: Sequence[ShapedArray], mapped: str = "sequential"
    ) -> None:
        self.name, self.function, self.results, self.mapped = name, function, tuple(results), mapped

    def over(self, size: Extent) -> Called:
        """The same of arrays that have an axis in front."""
        grown = [ShapedArray((size, *a.shape), a.dtype) for a in self.results]
        return Called(self.name, self.function, grown, self.mapped)

    def run(self, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Fills the results, for each element along the axes of the first operand: what has failed before.

        The last result is the number of what the function has raised, 0 where it has not: it is not called any more
        then, and the other results are 0.
        """
        failed, *arrays = operands
        *outs, key = results
        over = False
        for place in np.ndindex(*key.shape):
            key[place] = 0
            if not (over or failed[place]):
                try:
                    self._call(place, arrays, outs)
                    continue
                except BaseException as error:  # of whatever class: the program hands it on
                    key[place], over = _keep(error), True
            for out in outs:
                out[place] = 0

    def _call(self, place: tuple[int, ...], arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        # Copies: the memory is the program's, the function may keep what it gets.
        made = self.function(*[np.array(x[place])[()] for x in arrays])
        for out, x in zip(outs, made, strict=True):
            wanted = out.shape[len(place) :]
            if x.shape != wanted:
                raise ShapeError(f"{self.name} gives an array of shape {x.shape}; it was said to give {wanted}")
            out[place] = x


@frozen(eq=False)
class Callback(Primitive):
    """Calls a function of Python's with its operands but the first, which is what has failed before: nothing is called
    then.  So calls are in the order of the program, and none is dropped, done twice or done before its time.

    lead: leading axes of all operands and results, for each of whose elements it is called.
    """

    name = "callback"
    multiple_results = True
    calls_python = True
    called: Called
    lead: Shape = ()

    def abstract_eval(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        outs = [ShapedArray((*self.lead, *a.shape), a.dtype) for a in self.called.results]
        return (*outs, ShapedArray(self.lead, np.dtype(np.int64)))

    def impl(self, *args: ArrayLike) -> list[Result]:
        arrays = [np.asarray(x) for x in args]
        outs = [np.empty(tuple(map(int, a.shape)), a.dtype) for a in self.abstract_eval(*map(aval_of_argument, arrays))]
        self.called.run(arrays, outs)
        for number in outs[-1][outs[-1] != 0]:
            raise raised(int(number))
        return [x[()] for x in outs]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        number = next(_numbers)
        arrays = [Whole("operand", n) for n in range(len(operands))]
        results = [Whole("result", n) for n in range(len(self.called.results) + 1)]
        return LibraryCall("call", HostFunction(f"callback{number}", self.called.run), (*arrays, *results))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        outs = list(bind(self, *primals))
        if any(t is not None for t in tangents) and any(a.dtype.kind in "fc" for a in self.called.results):
            raise UnsupportedError(
                f"{self.called.name} has no derivative; call it in a function with a rule of its own (tj.custom_jvp, "
                "tj.custom_vjp), or give it tj.lax.stop_gradient(x)",
                location=user_location(),
            )
        return outs, [None] * len(outs)

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int | None]]:
        on = taking_part()
        if on is not None:  # for others something has failed, as far as it knows
            (failed, *rest), (axis, *axes) = args, dims
            failed = _spread(failed, axis, size)
            taken = broadcast_in_dim(on, (size, *self.lead), (0,))
            args, dims = [select(taken, failed, np.int64(-1)), *rest], [0, *axes]
        method = self.called.mapped
        if method != "sequential":
            return self._at_once(args, dims, size, method)
        moved = [_spread(x, d, size) for x, d in zip(args, dims, strict=True)]
        outs = list(bind(Callback(self.called, (size, *self.lead)), *moved))
        return outs, [0] * len(outs)

    def _at_once(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent, method: str
    ) -> tuple[list[Result], Sequence[int | None]]:
        """One call with the whole axis: it is as long as 1 in operands without it, or they are repeated."""
        (failed, *arrays), (axis, *axes) = args, dims
        if axis is not None:  # where one element calls it, all do
            failed = reduce_max(failed, (axis,))
        length: Extent = size if method == "broadcast_all" else 1
        if method == "legacy_vectorized":
            moved = [x if d is None else move_to_front(x, d) for x, d in zip(arrays, axes, strict=True)]
        else:
            moved = [_spread(x, d, length) for x, d in zip(arrays, axes, strict=True)]
        outs = list(bind(Callback(self.called.over(size)), failed, *moved))
        return outs, [*[0] * len(self.called.results), None]


def _spread(x: ArrayLike, axis: int | None, size: Extent) -> ArrayLike:
    """An operand with the axis in front, repeated `size` times along it if it has none."""
    if axis is not None:
        return move_to_front(x, axis)
    shape = aval_of_argument(x).shape
    return broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))
