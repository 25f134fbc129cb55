"""Functions of PTX as basic blocks of steps: what is decided once for each instruction, however often it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tests.standin.accesses import atomic, load, space_of, store
from tests.standin.arithmetic import Operation, Spelling, operation
from tests.standin.exact import Array
from tests.standin.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, AccessFault, window_of
from tests.standin.operands import Operands
from tests.standin.ptx import (
    CARRY,
    DTYPES,
    Function,
    Group,
    Instruction,
    Name,
    Operand,
    Pair,
    PTXError,
    Register,
    Variable,
    Vector,
)
from tests.standin.simt import (
    EXIT,
    ILLEGAL_INSTRUCTION,
    LAUNCH_FAILED,
    RETURN,
    Block,
    Code,
    End,
    Frame,
    Lanes,
    Step,
    ThreadFault,
)
from tests.standin.warps import activemask, gate, is_gate

__all__ = ["decode"]

MAX_DEPTH = 64
"""Calls within calls."""

_BRANCHES = ("bra", "brx", "ret", "exit", "trap", "call")
_NOTHING = ("membar", "fence", "prefetch", "prefetchu", "nanosleep", "discard", "applypriority", "griddepcontrol")


def decode(function: Function, functions: Mapping[str, Function]) -> Code:
    """The blocks of a function; `functions` are those that it may call.

    Raises: PTXError."""
    return _Decoder(function, functions).code()


class _Decoder:
    def __init__(self, function: Function, functions: Mapping[str, Function]) -> None:
        self._function = function
        self._functions = functions
        self._operands = Operands(function)
        self._starts: dict[int, int] = {}

    def code(self) -> Code:
        body = self._function.body
        leaders = {0, *self._function.labels.values()}
        for i, instruction in enumerate(body):
            if is_gate(instruction):
                leaders |= {i, i + 1}
            elif instruction.opcode in _BRANCHES:
                leaders.add(i + 1)
        starts = sorted(i for i in leaders if i <= len(body))
        self._starts = {start: number for number, start in enumerate(starts)}
        ends = [*starts[1:], len(body)]
        blocks = [self._block(body[a:b], n) for n, (a, b) in enumerate(zip(starts, ends, strict=True))]
        # the end of a body is a return
        blocks.append(Block(end=lambda frame, there: [(RETURN, there)]))
        return Code(self._function, blocks)

    def _block(self, body: Sequence[Instruction], number: int) -> Block:
        block = Block(last=body[-1] if body else None)
        for instruction in body:
            try:
                if is_gate(instruction):
                    block.gate = gate(self._operands, instruction)
                elif instruction.opcode in _BRANCHES:
                    block.end = self._end(instruction, number)
                else:
                    step = self._step(instruction)
                    block.steps.append((self._guarded(instruction, step), instruction))
            except PTXError as error:
                where = f"{self._function.name}, line {instruction.line} ({instruction.spelling})"
                raise PTXError(f"{where}: {error}", error.code) from None
        return block

    def _guarded(self, instruction: Instruction, step: Step) -> Step:
        if instruction.guard is None:
            return step
        guard = self._operands.guard(instruction)

        def guarded(frame: Frame, lanes: Lanes) -> None:
            there = frame.run.threads(lanes)
            chosen = guard(frame, lanes)
            if chosen.all():
                step(frame, lanes)
            elif chosen.any():
                try:
                    step(frame, frame.run.selection(there[chosen]))
                except AccessFault as fault:
                    fault.position = int(np.flatnonzero(chosen)[fault.position])
                    raise

        return guarded

    def _step(self, instruction: Instruction) -> Step:
        opcode = instruction.opcode
        if opcode in _NOTHING:
            return lambda frame, lanes: None
        found = operation(instruction)
        if found is not None:
            return _pure(self._operands, instruction, found)
        if opcode not in _RULES:
            raise PTXError(f"the instruction {instruction.spelling} is not known")
        return _RULES[opcode](self._operands, instruction)

    def _target(self, operand: Operand) -> int:
        if not isinstance(operand, Name) or operand.name not in self._function.labels:
            raise PTXError(f"{operand} is not a label of {self._function.name}")
        return self._starts[self._function.labels[operand.name]]

    def _end(self, instruction: Instruction, number: int) -> End:
        match instruction.opcode:
            case "bra":
                target = self._target(instruction.operands[-1])
                taken: End = lambda frame, there: [(target, there)]  # noqa: E731
            case "ret":
                taken = lambda frame, there: [(RETURN, there)]  # noqa: E731
            case "exit":
                taken = lambda frame, there: [(EXIT, there)]  # noqa: E731
            case "trap":
                taken = _trap
            case "brx":
                taken = self._branch_by_table(instruction)
            case _:
                taken = self._call(instruction, number)
        if instruction.guard is None:
            return taken
        guard = self._operands.guard(instruction)

        def end(frame: Frame, there: Array) -> list[tuple[int, Array]]:
            chosen = guard(frame, frame.run.selection(there))
            if chosen.all():
                return taken(frame, there)
            if not chosen.any():
                return [(number + 1, there)]
            return [*taken(frame, there[chosen]), (number + 1, there[~chosen])]

        return end

    def _branch_by_table(self, instruction: Instruction) -> End:
        if "idx" not in instruction.modifiers:
            raise PTXError(f"the instruction {instruction.spelling} is not known")
        index, table = instruction.operands
        names = self._function.tables.get(table.name) if isinstance(table, Name) else None
        if names is None:
            raise PTXError(f"{table} is not a table of labels")
        targets = np.array([self._target(Name(n)) for n in names])
        read = self._operands.read(index, "u32")

        def end(frame: Frame, there: Array) -> list[tuple[int, Array]]:
            chosen = np.broadcast_to(read(frame, there), there.shape)
            beyond = chosen >= targets.size
            if beyond.any():
                text = f"brx.idx beyond a table of {targets.size} labels"
                raise ThreadFault(int(there[np.argmax(beyond)]), text, ILLEGAL_INSTRUCTION)
            places = targets[chosen]
            return [(int(t), there[places == t]) for t in np.unique(places)]

        return end

    def _call(self, instruction: Instruction, number: int) -> End:
        operands = list(instruction.operands)
        results = _group(operands)
        callee, *rest = operands
        arguments = _group(rest)
        if not isinstance(callee, Name) or rest:
            raise PTXError("calls of functions by their address are not executed")
        function = self._functions.get(callee.name)
        if function is None or not function.defined:
            raise PTXError(f"the function {callee.name} is called and not defined")
        if len(arguments) != len(function.parameters) or len(results) != len(function.results):
            raise PTXError(f"{callee.name} takes {len(function.parameters)} arguments")
        given: list[Variable] = []
        for operand in (*arguments, *results):
            if not isinstance(operand, Variable):
                raise PTXError("arguments that are not variables of .param are not executed")
            given.append(operand)
        formals = [*function.parameters, *function.results]
        own_size = self._function.local_size

        def end(frame: Frame, there: Array) -> list[tuple[int, Array]]:
            run = frame.run
            if frame.depth >= MAX_DEPTH:
                raise PTXError(f"calls are nested more than {MAX_DEPTH} deep", LAUNCH_FAILED)
            inner = Frame(run, function, frame.depth + 1, frame.local_base + own_size)
            # caller and callee see the same bytes
            for formal, actual in zip(formals, given, strict=True):
                inner.parameters[formal] = frame.parameter(actual)
            return [(number + 1, run.run(run.launch.codes[function.name], inner, there))]

        return end


def _group(operands: list[Operand]) -> tuple[Operand, ...]:
    """The parts of the group that comes first, which is taken off; none if there is no group."""
    if not operands or not isinstance(operands[0], Group):
        return ()
    first = operands[0]
    del operands[0]
    return first.parts


def _pure(ops: Operands, instruction: Instruction, found: Operation) -> Step:
    first, *rest = instruction.operands
    targets = [first.first, first.second] if isinstance(first, Pair) else [first]
    results = found.results[: len(targets)]
    if len(rest) != len(found.sources) or len(targets) > len(found.results):
        raise PTXError(f"{len(found.sources) + 1} operands expected")
    if instruction.opcode != "cvt":
        for operand, kind in (*zip(rest, found.sources, strict=True), *zip(targets, results, strict=True)):
            _check_width(operand, kind)
    reads = [ops.read(o, k) for o, k in zip(rest, found.sources, strict=True)]
    carry = Register(CARRY, "pred", "CC.CF")
    if found.reads_carry:
        reads.append(ops.read(carry, "pred"))
    writes = [ops.write(o, k) for o, k in zip(targets, results, strict=True)]
    if found.writes_carry:
        writes.append(ops.write(carry, "pred"))
    several = len(found.results) > 1 or found.writes_carry
    compute, write = found.compute, writes[0]

    def one(frame: Frame, lanes: Lanes) -> None:
        write(frame, lanes, compute(*[read(frame, lanes) for read in reads]))

    def many(frame: Frame, lanes: Lanes) -> None:
        values = compute(*[read(frame, lanes) for read in reads])
        for each, value in zip(writes, values, strict=False):
            each(frame, lanes, value)

    return many if several else one


def _check_width(operand: Operand, kind: str) -> None:
    """Only `ld`, `st` and `cvt` take registers that are wider than the type."""
    if isinstance(operand, Register) and np.dtype(DTYPES[operand.type]).itemsize > np.dtype(DTYPES[kind]).itemsize:
        raise PTXError(f"{operand.name} is wider than {kind}")


def _mov(ops: Operands, instruction: Instruction) -> Step:
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    spelling.flag("v2", "v4")
    kind = spelling.type()
    spelling.done()
    target, source = instruction.operands
    if isinstance(target, Vector) and not isinstance(source, Vector):
        return _unpack(ops, target, source, kind)
    if isinstance(source, Vector) and not isinstance(target, Vector):
        return _pack(ops, target, source, kind)
    if isinstance(source, Vector) and isinstance(target, Vector):
        raise PTXError("mov between vectors is not executed")
    _check_width(source, kind)
    _check_width(target, kind)
    read, write = ops.read(source, kind), ops.write(target, kind)
    return lambda frame, lanes: write(frame, lanes, read(frame, lanes))


def _part_kind(kind: str, count: int) -> str:
    bits = 8 * np.dtype(DTYPES[kind]).itemsize // count
    if f"b{bits}" not in DTYPES:
        raise PTXError(f"{kind} does not divide into {count}")
    return f"b{bits}"


def _unpack(ops: Operands, target: Vector, source: Operand, kind: str) -> Step:
    count = len(target.parts)
    part = _part_kind(kind, count)
    read = ops.read(source, kind)
    writes = [ops.write(p, part) for p in target.parts]

    def step(frame: Frame, lanes: Lanes) -> None:
        value = np.ascontiguousarray(read(frame, lanes)).reshape(-1, 1).view(DTYPES[part])
        for at, write in enumerate(writes):
            write(frame, lanes, np.ascontiguousarray(value[:, at]))

    return step


def _pack(ops: Operands, target: Operand, source: Vector, kind: str) -> Step:
    part = _part_kind(kind, len(source.parts))
    reads = [ops.read(p, part) for p in source.parts]
    write = ops.write(target, kind)

    def step(frame: Frame, lanes: Lanes) -> None:
        parts = np.broadcast_arrays(*[np.atleast_1d(read(frame, lanes)) for read in reads])
        write(frame, lanes, np.ascontiguousarray(np.stack(parts, -1)).view(DTYPES[kind])[:, 0])

    return step


def _cvta(ops: Operands, instruction: Instruction) -> Step:
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    kind = spelling.type("u64", "u32")
    to_space = spelling.flag("to")
    space = space_of(spelling)
    spelling.done()
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "global": 0}[space]
    change = np.array((-window if to_space else window) & ((1 << 64) - 1), "u8")
    target, source = instruction.operands
    read, write = ops.read(source, kind), ops.write(target, kind)
    return lambda frame, lanes: write(frame, lanes, read(frame, lanes) + change)


def _isspacep(ops: Operands, instruction: Instruction) -> Step:
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    space = space_of(spelling)
    spelling.done()
    windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
    target, source = instruction.operands
    read, write = ops.read(source, "u64"), ops.write(target, "pred")

    def step(frame: Frame, lanes: Lanes) -> None:
        window = window_of(read(frame, lanes))
        inside = ~np.isin(window, list(windows.values())) if space == "global" else window == windows[space]
        write(frame, lanes, inside)

    return step


def _trap(frame: Frame, there: Array) -> list[tuple[int, Array]]:
    raise ThreadFault(int(there[0]), "trap", ILLEGAL_INSTRUCTION)


_RULES: Mapping[str, Callable[[Operands, Instruction], Step]] = {
    "mov": _mov,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "activemask": activemask,
    "ld": load,
    "ldu": load,
    "st": store,
    "atom": atomic,
    "red": atomic,
}
