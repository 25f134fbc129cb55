"""Instructions at which threads meet: barriers, shuffles, votes."""

from __future__ import annotations

import numpy as np

from tests.standin.arithmetic import POISON, Spelling
from tests.standin.exact import Array
from tests.standin.operands import Operands
from tests.standin.ptx import DTYPES, Instruction, Pair, PTXError, Sink
from tests.standin.simt import WARP, Frame, Gate, Lanes, Read, Run, Step

__all__ = ["activemask", "gate", "is_gate"]

_GATES = ("bar", "barrier", "shfl", "vote", "match", "redux")


def is_gate(instruction: Instruction) -> bool:
    """Whether threads wait for each other at an instruction."""
    if instruction.opcode in ("bar", "barrier"):
        return True
    return instruction.opcode in _GATES and "sync" in instruction.modifiers


def gate(ops: Operands, instruction: Instruction) -> Gate:
    """Where threads wait at an instruction, and what it does when they have come."""
    guard = ops.guard(instruction) if instruction.guard is not None else None
    if instruction.opcode in ("bar", "barrier"):
        return _barrier(ops, instruction, guard)
    rules = {"shfl": _shfl, "vote": _vote, "match": _match, "redux": _redux}
    mask = ops.read(instruction.operands[-1], "u32")
    return Gate(mask, guard, rules[instruction.opcode](ops, instruction))


def _barrier(ops: Operands, instruction: Instruction, guard: Read | None) -> Gate:
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    operands = instruction.operands
    if spelling.flag("warp"):
        spelling.flag("sync")
        spelling.done()
        return Gate(ops.read(operands[0], "u32"), guard, _pass_warp_barrier)
    spelling.flag("cta")
    spelling.flag("aligned")
    action = spelling.one_of("sync", "red")
    reduction = spelling.choice("popc", "and", "or") if action == "red" else None
    kind = spelling.type("u32", "pred") if action == "red" else None
    spelling.done()
    if action == "sync":
        if len(operands) != 1:
            raise PTXError("barriers of a number of threads are not executed")
        return Gate(None, guard, lambda frame, lanes: frame.run.barrier_passed(lanes))
    if len(operands) != 3:
        raise PTXError("barriers of a number of threads are not executed")
    read, write = ops.read(operands[2], "pred"), ops.write(operands[0], kind or "u32")

    def reduce(frame: Frame, lanes: Lanes) -> None:
        run = frame.run
        run.barrier_passed(lanes)
        there = run.threads(lanes)
        cta = run.cta[there]
        holds = np.broadcast_to(read(frame, lanes), there.shape)
        number = np.bincount(cta, holds)
        total = {"popc": number, "and": number == np.bincount(cta), "or": number > 0}[reduction or "popc"]
        write(frame, lanes, total[cta].astype(DTYPES[kind or "u32"]))

    return Gate(None, guard, reduce)


def _shfl(ops: Operands, instruction: Instruction) -> Step:
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    spelling.flag("sync")
    mode = spelling.one_of("up", "down", "bfly", "idx")
    kind = spelling.type("b32")
    spelling.done()
    first, source, offset, control, _ = instruction.operands
    target, inside = (first.first, first.second) if isinstance(first, Pair) else (first, Sink())
    read, by, limits = ops.read(source, kind), ops.read(offset, "u32"), ops.read(control, "u32")
    write, write_inside = ops.write(target, kind), ops.write(inside, "pred")

    def step(frame: Frame, lanes: Lanes) -> None:
        run = frame.run
        there = run.threads(lanes)
        value = np.broadcast_to(read(frame, lanes), there.shape)
        lane, distance = run.lane[there], (by(frame, lanes) & np.uint32(31)).astype("i8")
        packed = limits(frame, lanes).astype("i8")
        segment, clamp = packed >> 8 & 31, packed & 31
        least, most = lane & segment, (lane & segment) | (clamp & ~segment)
        origin = {
            "up": lane - distance,
            "down": lane + distance,
            "bfly": lane ^ distance,
            "idx": least | (distance & ~segment),
        }[mode]
        valid = np.broadcast_to(origin >= most if mode == "up" else origin <= most, there.shape)
        origin = np.where(valid, origin, lane)
        position = np.full((run.warps, WARP), -1)
        position[run.warp[there], lane] = np.arange(there.size)
        at = position[run.warp[there], origin]
        # what a lane that takes no part would give is undefined
        result = np.where(at >= 0, value[np.maximum(at, 0)], np.uint32(POISON & 0xFFFFFFFF))
        write(frame, lanes, result)
        write_inside(frame, lanes, valid)

    return step


def _vote(ops: Operands, instruction: Instruction) -> Step:
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    spelling.flag("sync")
    mode = spelling.one_of("all", "any", "uni", "ballot")
    kind = spelling.type("pred", "b32")
    spelling.done()
    target, source, _ = instruction.operands
    read, write = ops.read(source, "pred"), ops.write(target, kind)

    def step(frame: Frame, lanes: Lanes) -> None:
        run = frame.run
        there = run.threads(lanes)
        holds = np.broadcast_to(read(frame, lanes), there.shape)
        yes = _bits_of_warps(run, there[holds])
        everyone = _bits_of_warps(run, there)
        answers = {
            "ballot": yes.astype("u4"),
            "all": yes == everyone,
            "any": yes != 0,
            "uni": (yes == everyone) | (yes == 0),
        }
        write(frame, lanes, answers[mode][run.warp[there]])

    return step


def _match(ops: Operands, instruction: Instruction) -> Step:
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    spelling.flag("sync")
    mode = spelling.one_of("any", "all")
    kind = spelling.type("b32", "b64")
    spelling.done()
    first, source, _ = instruction.operands
    target, equal = (first.first, first.second) if isinstance(first, Pair) else (first, Sink())
    read, write, write_equal = ops.read(source, kind), ops.write(target, "b32"), ops.write(equal, "pred")

    def step(frame: Frame, lanes: Lanes) -> None:
        run = frame.run
        there = run.threads(lanes)
        value = np.broadcast_to(read(frame, lanes), there.shape)
        bits = np.uint64(1) << run.lane[there].astype("u8")
        _, groups = np.unique(np.stack([run.warp[there].astype("u8"), value.astype("u8")]), axis=1, return_inverse=True)
        same = np.bincount(groups.ravel(), bits.astype("f8")).astype("u8")[groups.ravel()]
        if mode == "all":
            all_equal = same == _bits_of_warps(run, there)[run.warp[there]]
            write_equal(frame, lanes, all_equal)
            same = np.where(all_equal, same, np.uint64(0))
        write(frame, lanes, same.astype("u4"))

    return step


def _redux(ops: Operands, instruction: Instruction) -> Step:
    spelling = Spelling(instruction.opcode, instruction.modifiers)
    spelling.flag("sync")
    name = spelling.one_of("add", "min", "max", "and", "or", "xor")
    kind = spelling.type("u32", "s32", "b32")
    spelling.done()
    target, source, _ = instruction.operands
    read, write = ops.read(source, kind), ops.write(target, kind)
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
             "xor": np.bitwise_xor}[name]  # fmt: skip

    def step(frame: Frame, lanes: Lanes) -> None:
        run = frame.run
        there = run.threads(lanes)
        value = np.broadcast_to(read(frame, lanes), there.shape)
        warp = run.warp[there]
        starts = np.flatnonzero(np.diff(warp, prepend=-1))
        totals = ufunc.reduceat(value, starts)
        write(frame, lanes, totals[np.searchsorted(warp[starts], warp)])

    return step


def activemask(ops: Operands, instruction: Instruction) -> Step:
    """The lanes of the warp that are there."""
    write = ops.write(instruction.operands[0], "b32")

    def step(frame: Frame, lanes: Lanes) -> None:
        run = frame.run
        there = run.threads(lanes)
        write(frame, lanes, _bits_of_warps(run, there)[run.warp[there]].astype("u4"))

    return step


def _pass_warp_barrier(frame: Frame, lanes: Lanes) -> None:
    run = frame.run
    if run.races is not None:
        run.races.warp_barrier(run.threads(lanes))


def _bits_of_warps(run: Run, there: Array) -> Array:
    """For each warp, a bit for each of its lanes that are `there`."""
    bits = (np.uint64(1) << run.lane[there].astype("u8")).astype("f8")
    return np.bincount(run.warp[there], bits, run.warps).astype("u8")
