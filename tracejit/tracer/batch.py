"""vmap: an interpreter on (value, axis); every primitive has a rule that moves the mapped axis through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from tracejit.ir.jaxpr import calls_python, primitives_of
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import ShapeError
from tracejit.support.source import user_location
from tracejit.tracer.cell import Cell, aval_of_argument
from tracejit.tracer.failures import hand_on
from tracejit.tracer.interpreter import Interpreter, bind, current_interpreter, use_interpreter
from tracejit.tracer.operators import PRIMITIVES
from tracejit.tracer.trace import leave
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transformation import Describe, Transformation, describe_position

__all__ = [
    "BatchInterpreter", "align_batched", "batch", "batch_pairs", "move_to_front", "of_stacks",
    "size_of_axis", "spread", "taking_part",
]  # fmt: skip

_mapping: ContextVar[Any] = ContextVar("tracejit_mapping", default=None)
"""The name of the axis over which a rule maps what it does again, the body of a loop for instance."""
_taking_part: ContextVar[Any] = ContextVar("tracejit_taking_part", default=None)
"""(the interpreter below, bool[size]): the elements that do what a rule maps, where not all do."""


class BatchInterpreter(Transformation):
    """Values are (value, axis), axis None where the value does not vary over the mapped axis of `size`.

    on: bool[size], where only some elements do what is mapped, and others only pretend (the side of a branch that they
    do not take): functions of Python's are not called for these.
    """

    def __init__(
        self,
        parent: Interpreter,
        size: Any,
        describe: Describe = describe_position,
        axis_name: Any = None,
        on: Any = None,
    ) -> None:
        super().__init__(parent, "vmap", describe)
        self.size = size
        self.axis_name = axis_name
        self.on = on

    def wrap(self, value: Any, extra: int | None) -> Tracer:
        aval = aval_of_argument(value)
        if extra is not None:
            aval = ShapedArray(aval.shape[:extra] + aval.shape[extra + 1 :], aval.dtype, aval.weak)
        return Tracer(self, (value, extra), aval)

    def process(self, primitive: Primitive, args: Sequence[Any]) -> tuple[Any, ...]:
        assert self.parent is not None
        values: list[Any] = []
        dims: list[int | None] = []
        mapped = False
        for a in args:
            value, dim = self.pair(a)
            values.append(value)
            dims.append(dim)
            mapped = mapped or dim is not None
        if self.axis_name is not None:
            return self._process_named(primitive, values, dims, mapped)
        if self.on is not None and calls_python(primitive):
            return self._process_some(primitive, values, dims)
        with use_interpreter(self.parent):
            if not mapped:
                return tuple([self.wrap(o, None) for o in self.parent.process(primitive, values)])
            out, axis = primitive.batch(values, dims, self.size)
        if primitive.multiple_results:
            return tuple([self.wrap(o, a) for o, a in zip(out, axis, strict=True)])
        return (self.wrap(out, axis),)

    def _process_some(self, primitive: Primitive, values: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, ...]:
        """The same of what calls functions of Python's, where not all elements do."""
        assert self.parent is not None
        with use_interpreter(self.parent):
            token = _taking_part.set((self.parent, self.on))
            try:
                out, axis = primitive.batch(values, dims, self.size)
            finally:
                _taking_part.reset(token)
        return tuple([self.wrap(o, a) for o, a in zip(out, axis, strict=True)])

    def _process_named(
        self, primitive: Primitive, values: Sequence[Any], dims: Sequence[int | None], mapped: bool
    ) -> tuple[Any, ...]:
        """The same for an axis with a name: rules map over it too."""
        assert self.parent is not None
        with use_interpreter(self.parent):
            if primitive.named_axis == self.axis_name:
                return (self.wrap(*primitive.collected(values, dims, self.size)),)  # type: ignore[attr-defined]
            if not mapped:
                if all(p.named_axis != self.axis_name for p in primitives_of(primitive)):  # not about it
                    return tuple([self.wrap(o, None) for o in self.parent.process(primitive, values)])
                values, dims = [spread(x, None, self.size) for x in values], [0] * len(values)
            token = _mapping.set(self.axis_name)
            try:
                out, axis = primitive.batch(values, dims, self.size)
            finally:
                _mapping.reset(token)
        if primitive.multiple_results:
            return tuple([self.wrap(o, a) for o, a in zip(out, axis, strict=True)])
        return (self.wrap(out, axis),)

    def mapped_axis(self, extra: Any) -> int | None:
        return extra

    def concrete(self, tracer: Cell) -> Any:
        """The value where it is the same for every element and the interpreter below computes eagerly."""
        value, axis = tracer.value
        return self.known(value) if axis is None else None

    def made_here(self, tracer: Cell) -> Any:
        return super().made_here(tracer) if tracer.value[1] is None else None

    def loses_derivative(self, tracer: Cell) -> bool:
        """Whether a Python number made of this value would silently drop its derivative."""
        value = tracer.value[0]
        return isinstance(value, Tracer) and value.interpreter.loses_derivative(value)


def taking_part() -> Any:
    """For a rule of what calls functions of Python's: bool[size], the elements that do it; None for all."""
    interpreter, on = _taking_part.get() or (None, None)
    return on if interpreter is current_interpreter() else None


def move_to_front(x: Any, axis: int | None) -> Any:
    """x with its mapped axis first; an unmapped x as it is."""
    if axis is None or axis == 0:
        return x
    ndim = len(aval_of_argument(x).shape)
    return PRIMITIVES.transpose(x, (axis, *[d for d in range(ndim) if d != axis]))


def of_stacks(primitive: Primitive, x: Any, axis: int | None) -> tuple[list[Any], Sequence[int]]:
    """What a primitive of stacks of matrices, with several results, gives for a batch: a stack of one more axis."""
    outs = list(bind(primitive, move_to_front(x, axis)))
    return outs, (0,) * len(outs)


def align_batched(args: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """Elementwise arguments with the mapped axis in front and equal ranks (rank-0 unmapped ones stay)."""
    ranks = [len(aval_of_argument(a).shape) - (d is not None) for a, d in zip(args, dims, strict=True)]
    rank = max(ranks)
    size = next(aval_of_argument(a).shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    out: list[Any] = []
    for a, d, r in zip(args, dims, ranks, strict=True):
        if d is None and r == 0:
            out.append(a)
            continue
        x = move_to_front(a, d)
        shape = aval_of_argument(x).shape
        if d is None:
            x = PRIMITIVES.broadcast_in_dim(x, (size, *shape), tuple(range(1, r + 1)))
        elif r == 0 and rank:
            full = next(aval_of_argument(b).shape for b, _, q in zip(args, dims, ranks, strict=True) if q == rank)
            e = next(e for e, q in zip(dims, ranks, strict=True) if q == rank)
            inner = full if e is None else full[:e] + full[e + 1 :]
            x = PRIMITIVES.broadcast_in_dim(x, (size, *inner), (0,))
        out.append(x)
    return out


def batch_pairs(
    function: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    dims: Sequence[int | None],
    size: Any = None,
    *,
    describe: Describe = describe_position,
    axis_name: Any = None,
    on: Any = None,
) -> list[tuple[Any, int | None]]:
    """Map a flat function over axes `dims` of its arguments: (result, its mapped axis or None if it does not vary) for
    each result.

    size: the extent of the mapped axes.  axis_name: what they are called; in a rule as what it maps over.
    on: bool[size], the elements that do it, where others only pretend.
    Raises ShapeError where the mapped extents differ or there is none.
    """
    for n, (a, d) in enumerate(zip(args, dims, strict=True)):
        if d is None:
            continue
        extent = aval_of_argument(a).shape[d]
        if size is None:
            size = extent
        elif size is not extent and size != extent:
            lines = [
                f"axis {e} of argument {describe(k)} has {aval_of_argument(b).shape[e]}"
                for k, (b, e) in enumerate(zip(args, dims, strict=True))
                if e is not None
            ]
            raise ShapeError(
                f"vmap: mapped axes differ in extent: {', '.join(lines[: max(4, n + 1)])}", location=user_location()
            )
    if size is None:
        raise ShapeError("vmap needs at least one argument with a mapped axis, or axis_size=", location=user_location())
    around = _mapping.get()
    name = around if axis_name is None else axis_name
    interpreter = BatchInterpreter(current_interpreter(), size, describe, name, on)
    tracers = [interpreter.argument(n, a, d) for n, (a, d) in enumerate(zip(args, dims, strict=True))]
    token = _mapping.set(None)
    try:
        with use_interpreter(interpreter):
            pairs = [interpreter.pair(r) for r in function(*tracers)]
        hand_on(interpreter)
        return pairs
    finally:
        _mapping.reset(token)
        leave(interpreter)
        interpreter.alive = False


def size_of_axis(name: Any) -> Any:
    """The extent of the axis that the nearest `vmap` around calls so, None where there is none."""
    found: Interpreter | None = current_interpreter()
    while found is not None:
        if isinstance(found, BatchInterpreter) and found.axis_name is not None and found.axis_name == name:
            return found.size
        found = found.parent
    return None


def batch(
    function: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    dims: Sequence[int | None],
    size: Any = None,
    on: Any = None,
) -> list[Any]:
    """`batch_pairs` with the mapped axis of every result in front; results that do not vary are repeated."""
    if size is None:
        size = next((aval_of_argument(a).shape[d] for a, d in zip(args, dims, strict=True) if d is not None), None)
    return [spread(value, axis, size, 0) for value, axis in batch_pairs(function, args, dims, size, on=on)]


def spread(value: Any, axis: int | None, size: Any, target: int = 0) -> Any:
    """A value with its mapped axis at `target`; one that does not vary is repeated."""
    if axis is None:
        shape = aval_of_argument(value).shape
        value, axis = PRIMITIVES.broadcast_in_dim(value, (size, *shape), tuple(range(1, len(shape) + 1))), 0
    ndim = len(aval_of_argument(value).shape)
    if not -ndim <= target < ndim:
        raise ShapeError(f"vmap: out_axes {target} is not an axis of a result of rank {ndim}", location=user_location())
    target %= ndim
    if axis == target:
        return value
    order = [d for d in range(ndim) if d != axis]
    order.insert(target, axis)
    return PRIMITIVES.transpose(value, tuple(order))
