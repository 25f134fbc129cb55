"""Loads, stores and atomic operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.standin.arithmetic import Spelling, operation
from tests.standin.exact import Array
from tests.standin.global_races import READ, STRONG, WRITE
from tests.standin.memory import AccessFault
from tests.standin.operands import Operands
from tests.standin.ptx import DTYPES, Address, Instruction, Operand, PTXError, Sink, Variable, Vector
from tests.standin.simt import LAUNCH_FAILED, Frame, Lanes, Read, Run, Step, Write

__all__ = ["atomic", "load", "space_of", "store"]

_CACHE_HINTS = ("nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::evict_last", "L1::evict_first", "L1::no_allocate",
                "L1::evict_normal", "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B")  # fmt: skip
_ORDERS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_SPACES = ("global", "shared", "shared::cta", "local", "const", "param", "param::entry", "param::func")


def space_of(spelling: Spelling) -> str:
    """The space that an instruction names: constants are in the global one; without a name it is "generic"."""
    found = (spelling.choice(*_SPACES) or "generic").partition("::")[0]
    return "global" if found == "const" else found


def _access(instruction: Instruction) -> tuple[str, int, str, bool]:
    """The space, the number of elements, their type, and whether other threads may access them at the same time."""
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    strong = spelling.choice(*_ORDERS) not in (None, "weak")
    spelling.flag(*_SCOPES)
    while spelling.flag(*_CACHE_HINTS):
        pass
    space = space_of(spelling)
    count = int((spelling.choice("v2", "v4", "v8") or "v1")[1:])
    kind = spelling.type()
    spelling.done()
    if kind == "pred":
        raise PTXError("predicates are not kept in memory")
    return space, count, kind, strong


def _parts(operand: Operand, count: int) -> tuple[Operand, ...]:
    parts = operand.parts if isinstance(operand, Vector) else (operand,)
    if len(parts) != count:
        raise PTXError(f"{count} elements expected, not {len(parts)}")
    return parts


def load(ops: Operands, instruction: Instruction) -> Step:
    """`ld`."""
    space, count, kind, strong = _access(instruction)
    target, source = instruction.operands
    writes = [ops.write(p, kind) for p in _parts(target, count)]
    if space == "param" and isinstance(source, Address) and isinstance(source.base, Variable):
        return _ld_param(ops, source.base, source.offset, kind, writes)
    addresses = ops.addresses(source)
    dtype = np.dtype(DTYPES[kind])
    size = dtype.itemsize

    def step(frame: Frame, lanes: Lanes) -> None:
        run = frame.run
        there = addresses(frame, lanes)
        values = []
        for at in range(count):
            where = there + np.uint64(at * size)
            # a vector is aligned as a whole
            placed = run.place(space, lanes, where, dtype, size if at else size * count)
            if len(placed) == 1:
                _, kept, data, index = placed[0]
                value = data[index]
                _note_access(run, kept, index, size, lanes, None, writes=False, strong=strong)
            else:
                value = np.empty(there.size, dtype)
                for mine, kept, data, index in placed:
                    value[mine] = data[index]
                    _note_access(run, kept, index, size, lanes, mine, writes=False, strong=strong)
            values.append(value)
        for write, value in zip(writes, values, strict=True):
            write(frame, lanes, value)

    return step


def _ld_param(ops: Operands, variable: Variable, offset: int, kind: str, writes: Sequence[Write]) -> Step:
    dtype = np.dtype(DTYPES[kind])
    size = dtype.itemsize
    if offset < 0 or offset + size * len(writes) > variable.size:
        raise PTXError(f"the parameter {variable.name} has {variable.size} bytes")
    of_kernel = ops.function.entry and variable in ops.function.parameters

    def step(frame: Frame, lanes: Lanes) -> None:
        for at, write in enumerate(writes):
            start = offset + at * size
            if of_kernel:
                start += variable.offset
                write(frame, lanes, frame.run.parameters[start : start + size].copy().view(dtype))
                continue
            rows = frame.parameter(variable)
            rows = rows[:, start : start + size] if lanes is None else rows[lanes, start : start + size]
            write(frame, lanes, np.ascontiguousarray(rows).view(dtype)[:, 0])

    return step


def store(ops: Operands, instruction: Instruction) -> Step:
    """`st`."""
    space, count, kind, strong = _access(instruction)
    target, source = instruction.operands
    reads = [ops.read(p, kind) for p in _parts(source, count)]
    if space == "param":
        if not isinstance(target, Address) or not isinstance(target.base, Variable):
            raise PTXError("parameters are written by name")
        return _st_param(ops, target.base, target.offset, kind, reads)
    addresses = ops.addresses(target)
    dtype = np.dtype(DTYPES[kind])
    size = dtype.itemsize

    def step(frame: Frame, lanes: Lanes) -> None:
        run = frame.run
        there = addresses(frame, lanes)
        for at, read in enumerate(reads):
            where = there + np.uint64(at * size)
            value = np.broadcast_to(read(frame, lanes), there.shape)
            for mine, kept, data, index in run.place(space, lanes, where, dtype, size if at else size * count):
                if kept == "param":
                    raise PTXError("a kernel's parameters cannot be written", LAUNCH_FAILED)
                stored = value if mine is None else value[mine]
                _note_access(run, kept, index, size, lanes, mine, writes=True, strong=strong, value=stored)
                data[index] = stored

    return step


def _st_param(ops: Operands, variable: Variable, offset: int, kind: str, reads: Sequence[Read]) -> Step:
    dtype = np.dtype(DTYPES[kind])
    size = dtype.itemsize
    if offset < 0 or offset + size * len(reads) > variable.size:
        raise PTXError(f"the parameter {variable.name} has {variable.size} bytes")

    def step(frame: Frame, lanes: Lanes) -> None:
        rows = frame.parameter(variable)
        count = frame.run.number(lanes)
        for at, read in enumerate(reads):
            start = offset + at * size
            value = np.broadcast_to(read(frame, lanes), count).copy()
            octets = value.view("u1").reshape(count, size)
            rows[slice(None) if lanes is None else lanes, start : start + size] = octets

    return step


def atomic(ops: Operands, instruction: Instruction) -> Step:
    """`atom` and `red`: one thread after the other, in their order."""
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    for names in (_ORDERS, _SCOPES, ("noftz",)):
        spelling.flag(*names)
    space = space_of(spelling)
    kind = spelling.type()
    name = spelling.one_of("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
    spelling.done()
    gives = instruction.opcode == "atom"
    operands = instruction.operands if gives else (Sink(), *instruction.operands)
    target, place, *sources = operands
    if len(sources) != (2 if name == "cas" else 1):
        raise PTXError("the operands are not those of an atomic operation")
    write, addresses = ops.write(target, kind), ops.addresses(place)
    reads = [ops.read(s, kind) for s in sources]
    update = _update_of(name, kind)
    dtype = np.dtype(DTYPES[kind])

    def step(frame: Frame, lanes: Lanes) -> None:
        run = frame.run
        there = addresses(frame, lanes)
        values = [np.broadcast_to(read(frame, lanes), there.shape) for read in reads]
        old = np.empty(there.shape, dtype)
        for mine, kept, data, index in run.place(space, lanes, there, dtype, dtype.itemsize):
            if kept not in ("global", "shared"):
                raise PTXError(f"atomic operations on {kept} memory are not executed", LAUNCH_FAILED)
            where = slice(None) if mine is None else mine
            _note_access(run, kept, index, dtype.itemsize, lanes, mine, writes=True, strong=True)
            chosen = [v[where] for v in values]
            if name == "cas":
                old[where] = _exchange(data, index, *chosen)
            else:
                old[where] = _apply(data, index, chosen[0], update)
        write(frame, lanes, old)

    return step


def _note_access(
    run: Run,
    space: str,
    index: Array,
    size: int,
    lanes: Lanes,
    mine: Array | None,
    *,
    writes: bool,
    strong: bool,
    value: Array | None = None,
) -> None:
    """Tells the detectors of races about an access."""
    if space == "shared" and run.races is not None:
        there = _positions(run, lanes, mine)
        race = run.races.access(there, index * size, size, writes=writes, strong=strong, value=value)
        if race is not None:
            position, other = race
            text = f"race on shared memory: thread {run.place_of(other)[1]} accesses the same byte, without a barrier"
            at = position if mine is None else int(mine[position])
            raise AccessFault(at, int(index[position] * size % run.shared.stride), text, LAUNCH_FAILED)
    elif space == "global" and run.launch.log is not None and (writes or not strong):
        there = _positions(run, lanes, mine)
        kind = STRONG if strong else WRITE if writes else READ
        phase = run.phase[run.cta[there]]
        run.launch.log.note(index * size, size, run.numbers[there], run.thread[there], phase, kind, value)


def _positions(run: Run, lanes: Lanes, mine: Array | None) -> Array:
    there = run.threads(lanes)
    return there if mine is None else there[mine]


def _update_of(name: str, kind: str) -> Callable[[Array, Array], Array]:
    """What an atomic operation stores, of what is there and its operand."""
    if name in ("exch", "cas"):
        return lambda old, value: value
    if name == "inc":
        return lambda old, value: np.where(old >= value, old.dtype.type(0), old + old.dtype.type(1))
    if name == "dec":
        return lambda old, value: np.where((old == 0) | (old > value), value, old - old.dtype.type(1))
    rule = operation(Instruction(name, (*(("rn",) if name == "add" and "f" in kind else ()), kind), (), None, 0))
    assert rule is not None
    return rule.compute


def _apply(data: Array, index: Array, value: Array, update: Callable[[Array, Array], Array]) -> Array:
    """Applies `update` one thread after the other; gives what each found."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    if first.size == index.size:
        old = data[index]
        data[index] = update(old, value)
        return old
    lengths = np.diff(first, append=index.size)
    rank = np.arange(index.size) - np.repeat(first, lengths)
    by_rank = order[np.argsort(rank, kind="stable")]
    old = np.empty(index.size, data.dtype)
    start = 0
    # the first thread at every address, the second, and so on
    for number in np.bincount(rank).tolist():
        turn = by_rank[start : start + number]
        start += number
        old[turn] = data[index[turn]]
        data[index[turn]] = update(old[turn], value[turn])
    return old


def _exchange(data: Array, index: Array, compare: Array, value: Array) -> Array:
    """Compare and swap, one thread after the other; gives what each found."""
    old = np.empty(index.size, data.dtype)
    left = np.arange(index.size)
    while left.size:
        old[left] = data[index[left]]
        hits = left[compare[left] == old[left]]
        if not hits.size:
            break
        places, first = np.unique(index[hits], return_index=True)
        winners = hits[first]
        data[index[winners]] = value[winners]
        # those behind a winner at its address see what it has stored
        at = np.minimum(np.searchsorted(places, index[left]), places.size - 1)
        left = left[(places[at] == index[left]) & (left > winners[at])]
    return old
