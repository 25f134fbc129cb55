"""Kernels run with NumPy: the executable meaning of the kernel IR, and a bounds and race checker.

Loops whose iterations are free of order run in step: a value is an array with an axis for each such loop
(`memory.Lanes`), and an operation is one NumPy call.  Branches and loops of varying length run under a mask.
Recurrences, and loops that read what they write, run one iteration after the other, still in step over the loops around
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tracejit.backends.intrinsics import intrinsics_of
from tracejit.backends.reference.dependence import depends_on_order
from tracejit.backends.reference.memory import Array, Indices, Lanes, Lanewise, Mask, Storage, poison
from tracejit.ir import kernel as k
from tracejit.ir.extents import Dim, evaluate, held
from tracejit.ir.kernel import Block, Buffer, Const, Kernel, Lambda, Operand, Value
from tracejit.ir.scalar import DTYPES, OPS
from tracejit.ir.text.kernel import show_statement
from tracejit.support.errors import InternalError, UserError

__all__ = ["RUNNERS", "run_kernel"]

_LANES = 1 << 15  # lanes in step at most: values stay in cache, and an operation is long against a NumPy call
_BLOCK = 256  # lanes of a block whose extent is known only inside
_ELEMENTS = 1 << 24  # values and private memory held at a time, in elements


Arrays: TypeAlias = Mapping[str, Array]


def run_kernel(kernel: Kernel, arrays: Arrays, dims: Mapping[str, int]) -> None:
    """Run `kernel` on `arrays` (by buffer name, any strides), writing its outputs in place.

    dims: the values of the symbolic extents.
    Raises: InternalError for an access out of bounds, for two parallel iterations that store to one place, for
    arguments that do not fit; UnsupportedError for an unknown symbol.
    """
    _Machine(kernel, arrays, dims).run()


class _Machine:
    def __init__(self, kernel: Kernel, arrays: Arrays, dims: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.dims = dims
        self.own = intrinsics_of("reference")
        self.env: dict[Value, Any] = {}
        self.lanes: Lanes = Lanes()
        self.mask: Mask | None = None
        self.current: k.Statement | None = None
        missing = set(kernel.dims) - set(dims)
        if missing:
            self.fail(f"the extents {', '.join(sorted(missing))} are not given")
        self.in_order: dict[int, bool] = {}
        self.weights: dict[int, tuple[int, int]] = {}
        self.scans: list[tuple[k.For, bool]] = []
        self.memory: dict[int, Storage] = {id(b): Storage(b, self._argument(b, arrays)) for b in kernel.buffers}
        self.places = self._places()

    def _argument(self, buffer: Buffer, arrays: Arrays) -> Array:
        if buffer.name not in arrays:
            self.fail(f"there is no array for buffer {buffer.name}")
        array, shape = arrays[buffer.name], self._shape(buffer)
        if array.dtype != DTYPES[buffer.dtype] or array.shape != shape:
            self.fail(
                f"buffer {buffer.name} is {buffer.dtype}{list(shape)}, the array {array.dtype}{list(array.shape)}"
            )
        if buffer.layout == "C" and not array.flags.c_contiguous:
            self.fail(f"buffer {buffer.name} is contiguous, the array has strides {array.strides}")
        if (
            buffer.layout == "unit"
            and array.size
            and array.ndim
            and array.shape[-1] > 1
            and array.strides[-1] != array.itemsize
        ):
            self.fail(f"the last axis of buffer {buffer.name} is contiguous, the array has strides {array.strides}")
        return array

    def _shape(self, buffer: Buffer) -> tuple[int, ...]:
        return tuple([held(n, self.dims) for n in buffer.shape])

    def _places(self) -> dict[int, tuple[int, bool]]:
        """Buffers that share memory get one number."""
        found: dict[int, tuple[int, bool]] = {}
        storages = [self.memory[id(b)] for b in self.kernel.buffers]
        for n, one in enumerate(storages):
            partners = [m for m, other in enumerate(storages) if m != n and np.may_share_memory(one.array, other.array)]
            found[id(one.buffer)] = (min([n, *partners]), not partners)
        return found

    def _place(self, buffer: Buffer) -> tuple[int, bool]:
        return self.places.get(id(buffer)) or (id(buffer), True)

    def fail(self, what: str) -> NoReturn:
        context = show_statement(self.kernel, self.current)
        raise InternalError(
            f"kernel {self.kernel.name}: {what}\n{context}", location=getattr(self.current, "location", None)
        )

    def run(self) -> None:
        self._block(self.kernel.body)

    def _block(self, block: Block) -> None:
        for statement in block:
            self.current = statement
            run = RUNNERS.get(type(statement))
            if run is None:
                self.fail(f"the reference backend has no {type(statement).__name__}")
            run(self, statement)

    def _forget(self, block: Block) -> None:
        for statement in block:
            for value in k.results_of(statement):
                self.env.pop(value, None)

    def _value(self, operand: Operand) -> Any:
        if isinstance(operand, Value):
            return self.env[operand]
        return self._constant(operand)

    def _constant(self, const: Const) -> Lanewise:
        value = evaluate(const.value, self.dims) if isinstance(const.value, Dim) else const.value
        with np.errstate(all="ignore"):
            return DTYPES[const.dtype].type(value)

    def _values(self, operands: Sequence[Operand]) -> list[Any]:
        return [self._value(o) for o in operands]

    def op(self, s: k.Op) -> None:
        args = self._values(s.args)
        dtype = DTYPES[s.out.dtype]
        own = self.own.get(f"{s.op}.{s.args[-1].dtype}") if self.own else None
        out = OPS[s.op].impl(dtype, *args) if own is None else self._spelled(s.op, own, dtype, args)
        rank = max([np.ndim(a) for a in args])
        if np.ndim(out) > rank:  # an implementation made an array of one out of scalars
            out = out.reshape(out.shape[np.ndim(out) - rank :])
        if out.dtype != dtype:
            self.fail(f"{s.op} gave {out.dtype}, not {s.out.dtype}")
        self.env[s.out] = out

    def _spelled(self, op: str, own: object, dtype: np.dtype[Any], args: Sequence[Lanewise]) -> Array:
        """An operation as the user spells it for this backend."""
        if not callable(own):
            raise UserError(
                f"the spelling of {op} for the reference backend is a function of NumPy arrays, not {own!r}"
            )
        with np.errstate(all="ignore"):
            return np.asarray(own(*args)).astype(dtype)

    def load(self, s: k.Load) -> None:
        self.env[s.out] = self.memory[id(s.buffer)].load(self._values(s.index), self.lanes, self.mask, self.fail)

    def store(self, s: k.Store) -> None:
        self.memory[id(s.buffer)].store(self._values(s.index), self._value(s.value), self.lanes, self.mask, self.fail)

    def atomic(self, s: k.Atomic) -> None:
        self.memory[id(s.buffer)].atomic(
            s.op, self._values(s.index), self._value(s.value), self.lanes, self.mask, self.fail
        )

    def alloc(self, s: k.Alloc) -> None:
        lanes = self.lanes
        owners = [a for a in range(len(lanes.sizes)) if not (s.buffer.space == "shared" and lanes.cooperative[a])]
        shape = (*(lanes.sizes[a] for a in owners), *self._shape(s.buffer))
        self.memory[id(s.buffer)] = Storage(s.buffer, poison(shape, DTYPES[s.buffer.dtype]), owners)

    def barrier(self, s: k.Barrier) -> None:
        """Lanes run in step: each statement is a barrier already."""

    def _apply(self, function: Lambda, args: Sequence[Lanewise]) -> list[Lanewise]:
        """The results of a combiner on arrays of the current lanes."""
        outer, self.mask = self.mask, None
        self.env.update(zip(function.params, args, strict=True))
        self._block(function.body)
        results = self._values(function.results)
        self._forget(function.body)
        self.mask = outer
        return results

    # -- branches and while loops

    def _narrowed(self, condition: Mask) -> tuple[Mask | None, bool]:
        """(mask, whether a lane is on) of the current mask and a condition."""
        mask = condition if self.mask is None else condition & self.mask
        if np.all(mask):
            return None, True
        return mask, bool(np.any(mask))

    def branch(self, s: k.If) -> None:
        condition = self._value(s.condition)
        if np.ndim(condition) == 0:
            taken, yields = (s.then, s.then_yields) if condition else (s.orelse, s.else_yields)
            self._block(taken)
            self.env.update(zip(s.results, self._values(yields), strict=True))
            self._forget(taken)
            return
        outer = self.mask
        then = self._branch(s.then, s.then_yields, condition)
        orelse = self._branch(s.orelse, s.else_yields, ~condition)
        self.mask = outer
        if then is None and orelse is None:
            self._nothing(s.results)
        elif then is None or orelse is None:
            self.env.update(zip(s.results, then or orelse or (), strict=True))
        else:
            for result, a, b in zip(s.results, then, orelse, strict=True):
                self.env[result] = np.where(condition, a, b)

    def _nothing(self, results: Sequence[Value]) -> None:
        """No lane is on: any value will do."""
        self.env.update({r: DTYPES[r.dtype].type(0) for r in results})

    def _branch(self, block: Block, yields: Sequence[Operand], condition: Mask) -> list[Lanewise] | None:
        """The yields of a block under a condition; None, and nothing run, where no lane takes it."""
        outer = self.mask
        self.mask, some = self._narrowed(condition)
        found = None
        if some:
            self._block(block)
            found = self._values(yields)
            self._forget(block)
        self.mask = outer
        return found

    def while_loop(self, s: k.While) -> None:
        outer = self.mask
        carried = self._values(s.inits)
        while True:
            self.env.update(zip(s.params, carried, strict=True))
            self._block(s.condition)
            self.mask, some = self._narrowed(self._value(s.test))
            if not some:
                break
            self._block(s.body)
            carried = _merged(self.mask, self._values(s.yields), carried)
            self._forget(s.body)
        self._forget(s.condition)
        self.mask = outer
        self.env.update(zip(s.results, carried, strict=True))

    # -- counted loops

    def loop(self, s: k.For) -> None:
        lower, upper = self._value(s.lower), self._value(s.upper)
        counts = np.maximum(0, -((lower - upper) // s.step))
        uniform = np.ndim(counts) == 0
        if not uniform and self.mask is not None:
            counts = np.where(self.mask, counts, 0)
        trips = int(np.max(counts))
        # Trips that all lanes make need no mask.
        bound = None if uniform or (self.mask is None and int(np.min(counts)) == trips) else upper
        if trips == 0:
            self.env.update(zip(s.results, self._values(s.inits), strict=True))
        elif trips == 1 or self._is_in_order(s):
            self._run_in_order(s, lower, bound, trips)
        else:
            self._run_in_step(s, lower, bound, trips)

    def _is_in_order(self, s: k.For) -> bool:
        known = self.in_order.get(id(s))
        if known is None:
            known = bool(s.params) and s.combine is None
            if not known and s.axis.kind in ("serial", "unroll"):
                known = depends_on_order(s, self._place, self.dims)
            self.in_order[id(s)] = known
        return known

    def _run_in_order(self, s: k.For, lower: Indices, bound: Indices | None, trips: int) -> None:
        outer = self.mask
        carried = self._values(s.inits)
        self.scans.append((s, False))
        for trip in range(trips):
            index = lower + np.int64(trip * s.step)
            if bound is not None:
                self.mask = outer
                self.mask, some = self._narrowed(index < bound)
                if not some:
                    break
            self.env[s.index] = index
            self.env.update(zip(s.params, carried, strict=True))
            self._block(s.body)
            new = self._values(s.yields)
            self._forget(s.body)
            carried = new if bound is None else _merged(self.mask, new, carried)
        self.scans.pop()
        self.mask = outer
        self.env.update(zip(s.results, carried, strict=True))

    def _run_in_step(self, s: k.For, lower: Indices, bound: Indices | None, trips: int) -> None:
        outer_mask, outer = self.mask, self.lanes
        scan = any(isinstance(inner, k.Prefix) for inner in s.body)
        inits = self._values(s.inits)
        carried = inits
        chunk = self._chunk(s, trips)
        for start in range(0, trips, chunk):
            count = min(chunk, trips - start)
            self.lanes = outer.opened(count, s.axis.kind)
            numbers = start + np.arange(count).reshape((count,) + (1,) * len(outer.sizes))
            index = lower + numbers * s.step
            some = True
            if bound is not None:
                self.mask, some = self._narrowed(index < bound)
            if some:
                self.env[s.index] = index
                self.env.update(zip(s.params, carried if scan else inits, strict=True))
                self.scans.append((s, True))
                self._block(s.body)
                self.scans.pop()
                if s.params:
                    carried = self._last(s) if scan else self._joined(s, inits, carried if start else None)
                self._forget(s.body)
            self.mask, self.lanes = outer_mask, outer
        self.env.update(zip(s.results, carried, strict=True))

    def _chunk(self, s: k.For, trips: int) -> int:
        """How many iterations run in step: all those of lanes that meet at a barrier, else what memory allows."""
        if _meets(s):
            return trips
        weight = self.weights.get(id(s))
        if weight is None:
            weight = self.weights[id(s)] = self._weight(s)
        lanes, elements = weight
        return max(1, min(_LANES // lanes, _ELEMENTS // (lanes * elements)) // self.lanes.count)

    def _weight(self, s: k.For) -> tuple[int, int]:
        """(lanes that one iteration must open together, elements that a lane may hold at a time)."""
        lanes = elements = 1
        for inner in k.walk(s.body):
            sizes = [int(np.prod(self._shape(b), dtype=np.int64)) for b in k.allocated_by(inner)]
            elements += sum(sizes) if sizes else 1
            if isinstance(inner, k.For) and _meets(inner):
                bounds = (inner.lower, inner.upper)
                lower, upper = (evaluate(b.value, self.dims) if isinstance(b, Const) else None for b in bounds)
                lanes *= _BLOCK if lower is None or upper is None else max(1, (upper - lower) // inner.step)
        return lanes, elements

    def _spread(self, values: Sequence[Lanewise]) -> list[Array]:
        """Values with an axis of full length for the innermost loop."""
        rank, count = len(self.lanes.sizes), self.lanes.sizes[-1]
        out: list[Array] = []
        for value in values:
            shape = np.shape(value)
            shape = (1,) * (rank - len(shape)) + shape
            out.append(np.broadcast_to(np.reshape(value, shape), (count, *shape[1:])))
        return out

    def _neutral_where_off(self, values: Sequence[Lanewise], inits: Sequence[Lanewise]) -> list[Lanewise]:
        return _merged(self.mask, values, inits)

    def _joined(self, s: k.For, inits: Sequence[Lanewise], before: Sequence[Lanewise] | None) -> list[Lanewise]:
        """The fold of all lanes' yields, in order, in a tree."""
        assert s.combine is not None
        parts = self._spread(self._neutral_where_off(self._values(s.yields), inits))
        kind, outer = s.axis.kind, Lanes(self.lanes.sizes[:-1], self.lanes.ordered[:-1], self.lanes.cooperative[:-1])
        inner = self.lanes
        while (count := len(parts[0])) > 1:
            half = count // 2
            self.lanes = outer.opened(half, kind)
            joined = self._apply(s.combine, [p[0 : 2 * half : 2] for p in parts] + [p[1 : 2 * half : 2] for p in parts])
            # Of an odd number the last lane joins in the next round.
            parts = [_stacked(j, p[2 * half :]) for p, j in zip(parts, self._spread(joined), strict=True)]
        self.lanes = outer
        found = [p[0] for p in parts]
        found = found if before is None else self._apply(s.combine, [*before, *found])
        self.lanes = inner
        return found

    def _last(self, s: k.For) -> list[Lanewise]:
        """What a scan carries on: the fold up to the last lane (lanes that are off have added nothing)."""
        return [v[-1] for v in self._spread(self._values(s.yields))]

    def prefix(self, s: k.Prefix) -> None:
        loop, in_step = self.scans[-1]
        assert loop.combine is not None
        carried, parts = self._values(s.params), self._values(s.elements)
        if in_step:
            parts = self._running(loop, self._spread(self._neutral_where_off(parts, self._values(loop.inits))))
        self.env.update(zip(s.outs, self._apply(loop.combine, [*carried, *parts]), strict=True))

    def _running(self, loop: k.For, parts: list[Array]) -> list[Array]:
        """Folds up to each lane, by doubling distances (Hillis and Steele 1986)."""
        assert loop.combine is not None
        inner, count, distance = self.lanes, self.lanes.sizes[-1], 1
        outer = Lanes(inner.sizes[:-1], inner.ordered[:-1], inner.cooperative[:-1])
        while distance < count:
            self.lanes = outer.opened(count - distance, loop.axis.kind)
            joined = self._apply(loop.combine, [p[:-distance] for p in parts] + [p[distance:] for p in parts])
            parts = [_stacked(p[:distance], j) for p, j in zip(parts, self._spread(joined), strict=True)]
            distance *= 2
        self.lanes = inner
        return parts


RUNNERS: dict[type, Callable[[_Machine, Any], None]] = {
    k.Op: _Machine.op, k.Load: _Machine.load, k.Store: _Machine.store, k.Alloc: _Machine.alloc,
    k.For: _Machine.loop, k.While: _Machine.while_loop, k.If: _Machine.branch, k.Atomic: _Machine.atomic,
    k.Barrier: _Machine.barrier, k.Prefix: _Machine.prefix,
}  # fmt: skip
"""What runs a statement of a kernel."""


def _meets(s: k.For) -> bool:
    """Whether the iterations of a loop wait for each other, so that all of them must run in step."""
    return s.axis.kind in ("block", "vector") and any(isinstance(inner, k.Barrier) for inner in k.walk(s.body))


def _merged(mask: Mask | None, on: Sequence[Lanewise], off: Sequence[Lanewise]) -> list[Lanewise]:
    """The values `on` in the lanes of a mask, `off` in the others."""
    return list(on) if mask is None else [np.where(mask, a, b) for a, b in zip(on, off, strict=True)]


def _stacked(first: Array, second: Array) -> Array:
    """Lanes of `first`, then those of `second`; the axes of outer loops broadcast."""
    if len(second) == 0:
        return first
    inner = np.broadcast_shapes(first.shape[1:], second.shape[1:])
    return np.concatenate(
        [np.broadcast_to(first, (len(first), *inner)), np.broadcast_to(second, (len(second), *inner))]
    )
