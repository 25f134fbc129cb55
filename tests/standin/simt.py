"""Execution of PTX: threads of many blocks as NumPy vectors, one basic block of code at a time.

Of the threads that can run, those at the lowest place in the code run first, so that threads which took different
branches meet again.  Barriers, shuffles and votes are gates: threads wait there, and when nobody else can run those
whose partners have all come go on.  If nobody can, the barrier is divergent.

What instructions compute is `arithmetic.py`; `decode.py` makes them functions of frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.standin.arithmetic import POISON
from tests.standin.exact import Array
from tests.standin.global_races import AccessLog
from tests.standin.memory import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    AccessFault,
    GlobalMemory,
    Range,
    SlicedMemory,
    check_alignment,
    window_of,
)
from tests.standin.ptx import DTYPES, Function, Instruction, PTXError, Variable
from tests.standin.races import RaceDetector

__all__ = [
    "Block", "Code", "End", "EXIT", "Frame", "Gate", "ILLEGAL_INSTRUCTION", "LAUNCH_FAILED", "Lanes", "Launch", "Read",
    "RETURN", "Run", "Step", "ThreadFault", "Triple", "Write", "unravel", "word_type",
]  # fmt: skip

Lanes = Array | slice | None
"""Which threads: their indices, or a slice if they stand together; None is all of them."""
Read = Callable[["Frame", Lanes], Any]
Write = Callable[["Frame", Lanes, Any], None]
Step = Callable[["Frame", Lanes], None]
End = Callable[["Frame", Array], "list[tuple[int, Array]]"]
"""Gives the blocks of code that threads go to, and which of them go there."""
Triple = tuple[int, int, int]

WARP = 32
STEP_LIMIT = 2_000_000
"""Blocks of code that a launch may run: who waits for what never comes is found."""

LAUNCH_FAILED = 719
ILLEGAL_INSTRUCTION = 715
_TIMEOUT = 702

RETURN = -1
EXIT = -2


class ThreadFault(Exception):
    """What the thread of that number has done wrong."""

    def __init__(self, thread: int, reason: str, code: int) -> None:
        super().__init__(reason)
        self.thread = thread
        self.code = code


@dataclass(eq=False)
class Gate:
    """Where threads wait for each other; `mask` reads which lanes of the warp take part, None is the whole block."""

    mask: Read | None
    guard: Read | None
    run: Step


@dataclass(eq=False)
class Block:
    """Instructions without a branch between them: `gate` is before them, `end` behind; `last` is for messages."""

    steps: list[tuple[Step, Instruction]] = field(default_factory=list)
    gate: Gate | None = None
    end: End | None = None
    last: Instruction | None = None


@dataclass(eq=False)
class Code:
    function: Function
    blocks: list[Block]


class Frame:
    """A function's registers and parameters, of all threads of the run."""

    def __init__(self, run: Run, function: Function, depth: int, local_base: int) -> None:
        self.run = run
        self.function = function
        self.depth = depth
        self.local_base = local_base
        self.registers: list[Array | None] = [None] * len(function.registers)
        self.parameters: dict[Variable, Array] = {}

    def register(self, index: int, dtype: str) -> Array:
        found = self.registers[index]
        if found is None:
            # a register that no thread has written: whatever depends on it shows
            width = np.dtype(dtype).itemsize * 8
            value = True if dtype == "?" else POISON & ((1 << width) - 1)
            found = self.registers[index] = np.full(self.run.count, value, dtype)
        return found

    def parameter(self, variable: Variable) -> Array:
        """Bytes, a row for each thread."""
        found = self.parameters.get(variable)
        if found is None:
            found = self.parameters[variable] = np.full((self.run.count, variable.size), 0xA5, "u1")
        return found


def word_type(kind: str) -> str:
    """How a register of type `kind` is kept."""
    return "?" if kind == "pred" else f"u{np.dtype(DTYPES[kind]).itemsize}"


@dataclass(eq=False)
class Launch:
    """What all blocks of a launch have in common; `places` has the shared variables."""

    name: str
    codes: Mapping[str, Code]
    variables: Mapping[str, Range]
    places: Mapping[Variable, int]
    grid: Triple
    block: Triple
    static_shared: int
    dynamic_shared: int
    parameters: Array
    space: GlobalMemory
    log: AccessLog | None
    steps_left: int
    """Blocks of code that may yet be run."""


class Run:
    """Some blocks of a launch that run together."""

    def __init__(self, launch: Launch, numbers: Array) -> None:
        self.launch = launch
        self.name = launch.name
        self.grid, self.block = launch.grid, launch.block
        self.parameters = launch.parameters
        self.space = launch.space
        threads = self.threads_per_block = self.block[0] * self.block[1] * self.block[2]
        self.count = threads * numbers.size
        self.all = np.arange(self.count)
        self.thread = np.tile(np.arange(threads), numbers.size)
        self.cta = np.repeat(np.arange(numbers.size), threads)
        self.numbers = np.repeat(numbers, threads)
        self.lane = self.thread % WARP
        self.warps_per_block = -(-threads // WARP)
        self.warp = self.cta * self.warps_per_block + self.thread // WARP
        self.warps = self.warps_per_block * numbers.size
        self.alive = np.ones(self.count, bool)
        self.phase = np.zeros(numbers.size, np.int64)
        shared = launch.static_shared + launch.dynamic_shared
        self.shared = SlicedMemory("shared", numbers.size, shared, 0xAB)
        self.local = SlicedMemory("local", self.count, 0, 0xCD)
        self.races = RaceDetector(self.shared.bytes.size, self.cta, self.warp) if shared else None
        self._specials: dict[str, Array] = {}

    # -- threads

    def place_of(self, thread: int) -> tuple[Triple, Triple]:
        """The indices of a thread's block and of the thread in it."""
        return unravel(int(self.numbers[thread]), self.grid), unravel(int(self.thread[thread]), self.block)

    def selection(self, there: Array) -> Lanes:
        """Threads in the form that is read and written fastest."""
        if there.size == self.count:
            return None
        first, last = int(there[0]), int(there[-1])
        return slice(first, last + 1) if last - first + 1 == there.size else there

    def threads(self, lanes: Lanes) -> Array:
        """The indices of threads."""
        if lanes is None:
            return self.all
        return self.all[lanes] if isinstance(lanes, slice) else lanes

    def number(self, lanes: Lanes) -> int:
        """How many threads these are."""
        if lanes is None:
            return self.count
        return lanes.stop - lanes.start if isinstance(lanes, slice) else lanes.size

    def special(self, name: str) -> Array:
        """The value of a special register, in every thread or one for all."""
        found = self._specials.get(name)
        if found is None:
            found = self._specials[name] = np.asarray(self._special(name))
        return found

    def _special(self, name: str) -> Any:
        register, _, axis = name.partition(".")
        if axis:
            at = "xyz".index(axis)
            extents = self.block if "tid" == register[-3:] and register in ("%tid", "%ntid") else self.grid
            if register in ("%ntid", "%nctaid"):
                return np.int64(extents[at])
            linear = self.thread if register == "%tid" else self.numbers
            before = int(np.prod(extents[:at], initial=1))
            return linear // before % extents[at]
        one = np.uint64(1)
        bit = one << self.lane.astype("u8")
        match name:
            case "%laneid":
                return self.lane
            case "%warpid":
                return self.thread // WARP
            case "%nwarpid":
                return np.int64(self.warps_per_block)
            case "WARP_SZ":
                return np.int64(WARP)
            case "%lanemask_eq":
                return bit
            case "%lanemask_lt":
                return bit - one
            case "%lanemask_le":
                return (bit << one) - one
            case "%lanemask_gt":
                return np.uint64(0xFFFFFFFF) & ~((bit << one) - one)
            case "%lanemask_ge":
                return np.uint64(0xFFFFFFFF) & ~(bit - one)
            case "%total_smem_size":
                return np.int64(self.launch.static_shared + self.launch.dynamic_shared)
            case "%dynamic_smem_size":
                return np.int64(self.launch.dynamic_shared)
            case "%smid" | "%gridid":
                return np.int64(0)
            case "%nsmid":
                return np.int64(1)
        raise PTXError(f"the special register {name} is not executed: what it gives differs from run to run")

    # -- code

    def execute(self) -> None:
        code = self.launch.codes[self.name]
        frame = Frame(self, code.function, 0, 0)
        with np.errstate(all="ignore"):
            self.run(code, frame, self.all)

    def run(self, code: Code, frame: Frame, lanes: Array) -> Array:
        """Runs a function in the threads `lanes`; gives those that return, which excludes those that exit."""
        frame.local_base = -(-frame.local_base // 16) * 16
        size = code.function.local_size
        self.local.grow(frame.local_base + size)
        if frame.depth and size:
            self.local.forget(lanes, frame.local_base, size)
        pending: dict[int, list[Array]] = {0: [lanes]}
        waiting: dict[int, Array] = {}
        returned: list[Array] = []
        while pending or waiting:
            if not pending:
                self._open_gates(code, frame, waiting, pending)
                continue
            number = min(pending)
            there = _merged(pending.pop(number))
            block = code.blocks[number]
            if block.gate is not None:
                there = self._arrive(block, number, frame, there, pending)
                waiting[number] = _merged([waiting[number], there]) if number in waiting else there
                if not waiting[number].size:
                    del waiting[number]
                continue
            self.launch.steps_left -= 1
            if self.launch.steps_left < 0:
                raise self._error(block.last, there[0], "the kernel does not end", _TIMEOUT)
            for target, subset in self._run_block(block, number, frame, there):
                if not subset.size:
                    continue
                if target == RETURN:
                    returned.append(subset)
                elif target == EXIT:
                    self.alive[subset] = False
                else:
                    pending.setdefault(target, []).append(subset)
        done = _merged(returned)
        if not frame.depth:
            self.alive[done] = False
        return done

    def _run_block(self, block: Block, number: int, frame: Frame, there: Array) -> list[tuple[int, Array]]:
        selection = self.selection(there)
        current = block.last
        try:
            for step, instruction in block.steps:
                current = instruction
                step(frame, selection)
            current = block.last
            if block.end is None:
                return [(number + 1, there)]
            return block.end(frame, there)
        except AccessFault as fault:
            thread = int(there[fault.position]) if fault.position < there.size else int(there[0])
            raise self._error(current, thread, str(fault), fault.code, fault.address) from None
        except ThreadFault as fault:
            raise self._error(current, fault.thread, str(fault), fault.code) from None
        except PTXError as error:
            if error.block is not None or current is None:
                raise
            raise self._error(current, int(there[0]), str(error), error.code) from None

    def _error(
        self, instruction: Instruction | None, thread: int, text: str, code: int, address: int | None = None
    ) -> PTXError:
        block, index = self.place_of(int(thread))
        where = f"{self.name}, block {block}, thread {index}"
        if instruction is not None:
            where += f", line {instruction.line} ({instruction.spelling})"
        if address is not None:
            text += f" at {address:#x}"
        return PTXError(f"{where}: {text}", code, block=block, thread=index, address=address)

    # -- gates

    def _arrive(self, block: Block, number: int, frame: Frame, there: Array, pending: dict[int, list[Array]]) -> Array:
        """The threads that wait at a gate; those whose guard is false pass it."""
        assert block.gate is not None
        if block.gate.guard is None:
            return there
        waits = np.broadcast_to(block.gate.guard(frame, there), there.shape)
        if not waits.all():
            pending.setdefault(number + 1, []).append(there[~waits])
        return there[waits]

    def _open_gates(self, code: Code, frame: Frame, waiting: dict[int, Array], pending: dict[int, list[Array]]) -> None:
        for number in sorted(waiting):
            block = code.blocks[number]
            gate = block.gate
            assert gate is not None
            there = waiting[number]
            ready = self._ready(gate, frame, there)
            if not ready.any():
                continue
            through = there[ready]
            waiting[number] = there[~ready]
            if not waiting[number].size:
                del waiting[number]
            try:
                gate.run(frame, self.selection(through))
            except PTXError as error:
                raise self._error(block.last, int(through[0]), str(error), error.code) from None
            pending[number + 1] = [through]
            return
        number = min(waiting)
        there = waiting[number]
        others = [code.blocks[n].last for n in waiting if n != number]
        text = "divergent barrier: not all threads that it waits for come here"
        if others:
            text += f"; some wait at line {', '.join(str(o.line) for o in others if o is not None)}"
        exited = np.flatnonzero(~self.alive & (self.cta == self.cta[there[0]]))
        if exited.size:
            text += f"; thread {self.place_of(int(exited[0]))[1]} has exited"
        raise self._error(code.blocks[number].last, int(there[0]), text, LAUNCH_FAILED)

    def _ready(self, gate: Gate, frame: Frame, there: Array) -> Array:
        """Which of the threads `there` have all their partners with them."""
        if gate.mask is None:
            # all threads of the block: those that have exited as well, for whom GPUs may or may not wait
            come = np.bincount(self.cta[there], minlength=int(self.cta[-1]) + 1)
            return (come == self.threads_per_block)[self.cta[there]]
        bits = (np.uint64(1) << self.lane.astype("u8")).astype("f8")
        alive = np.bincount(self.warp[self.alive], bits[self.alive], self.warps).astype("u8")
        come = np.bincount(self.warp[there], bits[there], self.warps).astype("u8")
        mask = np.broadcast_to(gate.mask(frame, there), there.shape).astype("u8")
        warp = self.warp[there]
        if not ((mask >> self.lane[there].astype("u8")) & np.uint64(1)).all():
            raise PTXError("a thread is not in the mask of lanes that it names", LAUNCH_FAILED)
        return (mask & alive[warp] & ~come[warp]) == 0

    def barrier_passed(self, lanes: Lanes) -> None:
        """The threads `lanes`, all of their blocks, have met."""
        there = self.threads(lanes)
        self.phase[np.unique(self.cta[there])] += 1
        if self.races is not None:
            self.races.barrier(there)

    # -- memory

    def place(
        self, space: str, lanes: Lanes, addresses: Array, dtype: np.dtype[Any], align: int
    ) -> list[tuple[Array | None, str, Array, Array]]:
        """Where elements are: for each space that is met, the positions in `addresses` (None: all), its name, an array
        and the indices in it."""
        there = self.threads(lanes)
        match space:
            case "global":
                return [(None, space, *self.space.place(addresses, dtype, align))]
            case "shared":
                return [(None, space, *self.shared.place(addresses, dtype, align, self.cta[there]))]
            case "local":
                return [(None, space, *self.local.place(addresses, dtype, align, there))]
            case "param":
                check_alignment(addresses, align, space)
                beyond = addresses + np.uint64(dtype.itemsize) > self.parameters.size
                if beyond.any():
                    at = int(np.argmax(beyond))
                    raise AccessFault(at, int(addresses[at]), "access beyond the kernel's parameters")
                size = dtype.itemsize
                data = self.parameters[: self.parameters.size // size * size].view(dtype)
                return [(None, space, data, (addresses // np.uint64(size)).astype(np.intp))]
        return self._place_generic(there, addresses, dtype, align)

    def _place_generic(
        self, there: Array, addresses: Array, dtype: np.dtype[Any], align: int
    ) -> list[tuple[Array | None, str, Array, Array]]:
        windows = window_of(addresses)
        spaces = {SHARED_WINDOW: "shared", LOCAL_WINDOW: "local", PARAM_WINDOW: "param"}
        found: list[tuple[Array | None, str, Array, Array]] = []
        for window in np.unique(windows).tolist():
            mine = np.flatnonzero(windows == window)
            space = spaces.get(window, "global")
            inside = addresses[mine] - np.uint64(window if space != "global" else 0)
            try:
                [(_, _, data, index)] = self.place(space, there[mine], inside, dtype, align)
            except AccessFault as fault:
                fault.position = int(mine[fault.position])
                raise
            found.append((mine, space, data, index))
        return found


def unravel(number: int, extents: Triple) -> Triple:
    """The index of a block or thread of that number."""
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)


def _merged(parts: Sequence[Array]) -> Array:
    if len(parts) == 1:
        return parts[0]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.intp)
