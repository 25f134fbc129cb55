"""Execution of PTX: threads of many blocks as NumPy vectors, one basic block of code at a time.

Of the threads that can run, those at the lowest place in the code run first, so that threads which took different branches
meet again.  Barriers, shuffles and votes are gates: threads wait there, and when nobody else can run those whose partners
have all come go on.  If nobody can, the barrier is divergent.

What instructions compute is `arithmetic.py`; here is what they do to threads and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.standin.arithmetic import POISON, Operation, Spelling, operation
from tests.standin.exact import Array
from tests.standin.memory import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    AccessFault,
    GlobalMemory,
    Range,
    SlicedMemory,
    window_of,
)
from tests.standin.ptx import (
    CARRY,
    DTYPES,
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Module,
    Name,
    Negated,
    Operand,
    Pair,
    PTXError,
    Register,
    Sink,
    Special,
    Variable,
    Vector,
    parse,
)
from tests.standin.races import RaceDetector

__all__ = ["Allocate", "Loaded", "load"]

Lanes = Array | None
"""Indices of threads; None is all of them."""
Read = Callable[["_Frame", Lanes], Any]
Write = Callable[["_Frame", Lanes, Any], None]
Step = Callable[["_Frame", Lanes], None]
End = Callable[["_Frame", Array], "list[tuple[int, Array]]"]
Allocate = Callable[[int], Range]
"""Gives room for so many bytes of a module's variables."""
Triple = tuple[int, int, int]

WARP = 32
MAX_THREADS = 1024
CHUNK = 16384
"""Blocks run together up to so many threads."""
STEP_LIMIT = 2_000_000
"""Basic blocks that a launch may run: whoever waits for what never comes is found."""
MAX_DEPTH = 64

_LAUNCH_FAILED = 719
_TIMEOUT = 702
_ILLEGAL_INSTRUCTION = 715
_INVALID_VALUE = 1
_NOT_FOUND = 500

_RETURN = -1
_EXIT = -2


@dataclass(eq=False)
class _Gate:
    """Where threads wait for each other; `mask` reads which lanes of the warp take part, None is the whole block."""

    mask: Read | None
    guard: Read | None
    run: Step


@dataclass(eq=False)
class _Block:
    """Instructions without a branch between them; `at` numbers the first, for messages."""

    steps: list[tuple[Step, Instruction]] = field(default_factory=list)
    gate: _Gate | None = None
    end: End | None = None
    last: Instruction | None = None


@dataclass(eq=False)
class _Code:
    function: Function
    blocks: list[_Block]


class _Frame:
    """A function's registers and parameters, of all threads of the run."""

    def __init__(self, run: _Run, function: Function, depth: int, local_base: int) -> None:
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


def _word_type(kind: str) -> str:
    """How a register of type `kind` is kept."""
    return "?" if kind == "pred" else f"u{np.dtype(DTYPES[kind]).itemsize}"


def load(text: str, allocate: Allocate | None = None) -> Loaded:
    """Parses and decodes PTX.

    Raises: PTXError, also for instructions that are not known."""
    return Loaded(parse(text), allocate or _allocate_here())


def _allocate_here() -> Allocate:
    kept: list[Array] = []

    def allocate(size: int) -> Range:
        kept.append(np.zeros(size + 256, "u1"))
        address = (kept[-1].ctypes.data + 255) & ~255
        return Range(address, size, address)

    return allocate


class Loaded:
    """A module whose kernels can be launched."""

    def __init__(self, module: Module, allocate: Allocate) -> None:
        self.module = module
        self.globals: dict[str, Range] = {}
        self._allocate_variables(allocate)
        self._codes = {f.name: _Decoder(self, f).code() for f in module.functions.values() if f.defined}
        self._shared = {name: self._shared_layout(name) for name, c in self._codes.items() if c.function.entry}

    def code(self, name: str) -> _Code:
        found = self._codes.get(name)
        if found is None:
            raise PTXError(f"the function {name} is called and not defined")
        return found

    def kernel(self, name: str) -> Function:
        """The kernel of that name.

        Raises: PTXError."""
        if name not in self._shared:
            raise PTXError(f"there is no kernel {name}", _NOT_FOUND)
        return self._codes[name].function

    def shared_size(self, name: str) -> int:
        """Bytes of shared memory that a kernel declares."""
        return self._shared[name][1]

    def thread_limit(self, name: str) -> int:
        """How many threads a block of a kernel may have."""
        limits = self.kernel(name).limits
        declared = limits.get("reqntid") or limits.get("maxntid")
        return min(MAX_THREADS, int(np.prod(declared))) if declared else MAX_THREADS

    # -- variables

    def _allocate_variables(self, allocate: Allocate) -> None:
        placed = [v for v in self.module.variables.values() if v.space in ("global", "const") and v.size]
        for variable in placed:
            self.globals[variable.name] = allocate(variable.size)
        for variable in placed:
            there = self.globals[variable.name]
            data = np.asarray(_initial_bytes(self, variable), "u1")
            GlobalMemory([there]).place(np.array([there.device], "u8"), np.dtype("u1"), 1)
            target = (np.ctypeslib.ctypes.c_uint8 * variable.size).from_address(there.host)
            np.frombuffer(target, "u1")[:] = data

    def _shared_layout(self, name: str) -> tuple[dict[Variable, int], int]:
        """Where the shared variables are that a kernel and the functions it calls name; extern ones come last."""
        seen: set[str] = set()
        names = [name]
        used: dict[Variable, None] = {}
        while names:
            current = names.pop()
            if current in seen or current not in self._codes:
                continue
            seen.add(current)
            for instruction in self._codes[current].function.body:
                for operand in instruction.operands:
                    if isinstance(operand, Address) and isinstance(operand.base, Variable):
                        if operand.base.space == "shared":
                            used[operand.base] = None
                    elif isinstance(operand, Name) and instruction.opcode == "call":
                        names.append(operand.name)
        offset = 0
        places: dict[Variable, int] = {}
        for variable in sorted(used, key=lambda v: v.count == 0):
            offset = -(-offset // variable.align) * variable.align
            places[variable] = offset
            offset += variable.size
        return places, offset

    # -- launch

    def launch(
        self, name: str, grid: Triple, block: Triple, shared: int, parameters: bytes, memory: Iterable[Range]
    ) -> None:
        """Runs a kernel to its end.

        Raises: PTXError, with the thread and the address where it has them."""
        function = self.kernel(name)
        threads = block[0] * block[1] * block[2]
        if not 0 < threads <= self.thread_limit(name) or 0 in grid:
            raise PTXError(f"{name} cannot be launched with blocks of {block} and a grid of {grid}", _INVALID_VALUE)
        if "reqntid" in function.limits and threads != int(np.prod(function.limits["reqntid"])):
            raise PTXError(f"{name} requires blocks of {function.limits['reqntid']}, not {block}", _INVALID_VALUE)
        if len(parameters) < function.parameter_size:
            raise PTXError(f"{name} takes {function.parameter_size} bytes, not {len(parameters)}", _INVALID_VALUE)
        places, static = self._shared[name]
        space = GlobalMemory([*memory, *self.globals.values()])
        blocks = grid[0] * grid[1] * grid[2]
        together = max(1, CHUNK // threads)
        budget = [STEP_LIMIT]
        for first in range(0, blocks, together):
            numbers = np.arange(first, min(first + together, blocks))
            run = _Run(self, name, numbers, grid, block, places, static + shared, parameters, space, budget)
            run.execute()


def _initial_bytes(loaded: Loaded, variable: Variable) -> Array:
    dtype = np.dtype(DTYPES[variable.type])
    word = np.dtype(f"u{dtype.itemsize}")
    values = np.zeros(variable.count, word)
    for i, value in enumerate(variable.initial):
        if isinstance(value, tuple):
            name, offset = value
            if name not in loaded.globals:
                raise PTXError(f"{variable.name} holds the address of {name}, which is not a variable")
            bits = loaded.globals[name].device + offset
        else:
            bits = _bits_of(value, variable.type)
        values[i] = bits & ((1 << (8 * dtype.itemsize)) - 1)
    return values.view("u1")


def _bits_of(value: Immediate, kind: str) -> int:
    """A constant's bits as type `kind`: floating-point ones are those of their form, converted if need be."""
    size = np.dtype(DTYPES[kind]).itemsize
    if value.form == "int":
        if kind in ("f32", "f64"):
            return int(np.array(value.value, DTYPES[kind]).view(f"u{size}"))
        return value.value & ((1 << (8 * size)) - 1)
    if value.form == "f64" and kind == "f32":
        return int(np.array(value.value, "u8").view("f8").astype("f4").view("u4"))
    if size != {"f32": 4, "f64": 8}[value.form]:
        raise PTXError(f"a constant of {value.form} stands for a value of {kind}")
    return value.value


class _Run:
    """Some blocks of a launch that run together."""

    def __init__(
        self,
        loaded: Loaded,
        name: str,
        numbers: Array,
        grid: Triple,
        block: Triple,
        places: dict[Variable, int],
        shared: int,
        parameters: bytes,
        space: GlobalMemory,
        budget: list[int],
    ) -> None:
        self.loaded = loaded
        self.name = name
        self.grid, self.block = grid, block
        self.places = places
        self.dynamic_shared, self.total_shared = shared, shared
        self.parameters = np.frombuffer(parameters + bytes(16), "u1")
        self.space = space
        self._budget = budget
        threads = self.threads_per_block = block[0] * block[1] * block[2]
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
        self.shared = SlicedMemory("shared", numbers.size, shared, 0xAB)
        self.local = SlicedMemory("local", self.count, 0, 0xCD)
        self.races = RaceDetector(self.shared.bytes.size, self.cta, self.warp) if shared else None
        self._specials: dict[str, Array] = {}

    # -- threads

    def place_of(self, thread: int) -> tuple[Triple, Triple]:
        """The indices of a thread's block and of the thread in it."""
        return _unravel(int(self.numbers[thread]), self.grid), _unravel(int(self.thread[thread]), self.block)

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
                return np.int64(self.total_shared)
            case "%dynamic_smem_size":
                static = max((at + v.size for v, at in self.places.items()), default=0)
                return np.int64(self.total_shared - static)
            case "%smid" | "%gridid":
                return np.int64(0)
            case "%nsmid":
                return np.int64(1)
        raise PTXError(f"the special register {name} is not executed: what it gives differs from run to run")

    # -- code

    def execute(self) -> None:
        code = self.loaded.code(self.name)
        frame = _Frame(self, code.function, 0, 0)
        with np.errstate(all="ignore"):
            self.run(code, frame, self.all)

    def run(self, code: _Code, frame: _Frame, lanes: Array) -> Array:
        """Runs a function in the threads `lanes`; gives those that return, which excludes those that exit."""
        frame.local_base = -(-frame.local_base // 16) * 16
        self.local.grow(frame.local_base + code.function.local_size)
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
            self._budget[0] -= 1
            if self._budget[0] < 0:
                raise self._error(block.last, there[0], "the kernel does not end", _TIMEOUT)
            for target, subset in self._run_block(block, number, frame, there):
                if not subset.size:
                    continue
                if target == _RETURN:
                    returned.append(subset)
                elif target == _EXIT:
                    self.alive[subset] = False
                else:
                    pending.setdefault(target, []).append(subset)
        done = _merged(returned)
        if not frame.depth:
            self.alive[done] = False
        return done

    def _run_block(self, block: _Block, number: int, frame: _Frame, there: Array) -> list[tuple[int, Array]]:
        selection = None if there.size == self.count else there
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

    def _arrive(
        self, block: _Block, number: int, frame: _Frame, there: Array, pending: dict[int, list[Array]]
    ) -> Array:
        """The threads that wait at a gate; those whose guard is false pass it."""
        assert block.gate is not None
        if block.gate.guard is None:
            return there
        waits = np.broadcast_to(block.gate.guard(frame, there), there.shape)
        if not waits.all():
            pending.setdefault(number + 1, []).append(there[~waits])
        return there[waits]

    def _open_gates(
        self, code: _Code, frame: _Frame, waiting: dict[int, Array], pending: dict[int, list[Array]]
    ) -> None:
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
                gate.run(frame, None if through.size == self.count else through)
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
        raise self._error(code.blocks[number].last, int(there[0]), text, _LAUNCH_FAILED)

    def _ready(self, gate: _Gate, frame: _Frame, there: Array) -> Array:
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
            raise PTXError("a thread is not in the mask of lanes that it names", _LAUNCH_FAILED)
        return (mask & alive[warp] & ~come[warp]) == 0

    def barrier_passed(self, lanes: Lanes) -> None:
        if self.races is not None:
            self.races.barrier(self.all if lanes is None else lanes)

    # -- memory

    def place(
        self, space: str, lanes: Lanes, addresses: Array, dtype: np.dtype[Any], align: int
    ) -> list[tuple[Array | None, str, Array, Array]]:
        """Where elements are: for each space that is met, the positions in `addresses` (None: all), its name, an array
        and the indices in it."""
        there = self.all if lanes is None else lanes
        match space:
            case "global":
                return [(None, space, *self.space.place(addresses, dtype, align))]
            case "shared":
                return [(None, space, *self.shared.place(addresses, dtype, align, self.cta[there]))]
            case "local":
                return [(None, space, *self.local.place(addresses, dtype, align, there))]
            case "param":
                if (addresses + np.uint64(dtype.itemsize) > self.parameters.size - 16).any():
                    at = int(np.argmax(addresses + np.uint64(dtype.itemsize) > self.parameters.size - 16))
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


def _unravel(number: int, extents: Triple) -> Triple:
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)


def _merged(parts: Sequence[Array]) -> Array:
    if len(parts) == 1:
        return parts[0]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.intp)


# -- decoding

_BRANCHES = ("bra", "brx", "ret", "exit", "trap", "call")
_GATES = ("bar", "barrier", "shfl", "vote", "match", "redux")
_NOTHING = ("membar", "fence", "prefetch", "prefetchu", "nanosleep", "discard", "applypriority", "griddepcontrol")
_CACHE_HINTS = ("nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::evict_last", "L1::evict_first", "L1::no_allocate",
                "L1::evict_normal", "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B")  # fmt: skip
_ORDERS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_SPACES = ("global", "shared", "shared::cta", "local", "const", "param", "param::entry", "param::func")


def _space_of(spelling: Spelling) -> str:
    """ "global" for constants as well; "generic" if none is named."""
    found = (spelling.choice(*_SPACES) or "generic").partition("::")[0]
    return "global" if found == "const" else found


class _Decoder:
    """Makes a function's instructions functions of frames and lanes."""

    def __init__(self, loaded: Loaded, function: Function) -> None:
        self._loaded = loaded
        self._function = function
        self._starts: dict[int, int] = {}

    def code(self) -> _Code:
        body = self._function.body
        leaders = {0, *self._function.labels.values()}
        for i, instruction in enumerate(body):
            if self._is_gate(instruction):
                leaders |= {i, i + 1}
            elif instruction.opcode in _BRANCHES:
                leaders.add(i + 1)
        starts = sorted(i for i in leaders if i <= len(body))
        self._starts = {start: number for number, start in enumerate(starts)}
        blocks = [
            self._block(body[a:b], n) for n, (a, b) in enumerate(zip(starts, [*starts[1:], len(body)], strict=True))
        ]
        # the end of a body is a return
        blocks.append(_Block(end=lambda frame, there: [(_RETURN, there)]))
        return _Code(self._function, blocks)

    @staticmethod
    def _is_gate(instruction: Instruction) -> bool:
        if instruction.opcode in ("bar", "barrier"):
            return True
        return instruction.opcode in _GATES and "sync" in instruction.modifiers

    def _block(self, body: Sequence[Instruction], number: int) -> _Block:
        block = _Block(last=body[-1] if body else None)
        for instruction in body:
            try:
                if self._is_gate(instruction):
                    block.gate = self._gate(instruction)
                elif instruction.opcode in _BRANCHES:
                    block.end = self._end(instruction, number)
                else:
                    step = self._step(instruction)
                    block.steps.append((self._guarded(instruction, step), instruction))
            except PTXError as error:
                where = f"{self._function.name}, line {instruction.line} ({instruction.spelling})"
                raise PTXError(f"{where}: {error}", error.code) from None
        return block

    # -- operands

    def _read(self, operand: Operand, kind: str) -> Read:
        match operand:
            case Register():
                return self._read_register(operand, kind)
            case Negated(register):
                positive = self._read_register(register, "pred")
                return lambda frame, lanes: ~positive(frame, lanes)
            case Immediate():
                if kind == "pred":
                    truth = np.array(operand.value != 0)
                    return lambda frame, lanes: truth
                dtype = DTYPES[kind]
                word = f"u{np.dtype(dtype).itemsize}"
                value = np.array(_bits_of(operand, kind), word).view(dtype)
                return lambda frame, lanes: value
            case Special(name):
                return self._read_special(name, kind)
            case Address(base, offset) if isinstance(base, Variable):
                return self._read_address(base, offset, kind)
            case Variable(space="param"):
                return self._read_address(operand, 0, kind)
        raise PTXError(f"the operand {operand} has no value")

    def _read_register(self, register: Register, kind: str) -> Read:
        index, word = register.index, _word_type(register.type)
        dtype = np.dtype(DTYPES[kind])
        if (word == "?") != (kind == "pred"):
            raise PTXError(f"{register.name} is of type {register.type} and is read as {kind}")
        width = np.dtype(word).itemsize
        if width < dtype.itemsize:
            raise PTXError(f"{register.name} is narrower than {kind}")
        narrow = np.dtype(f"u{dtype.itemsize}") if width > dtype.itemsize else None

        def read(frame: _Frame, lanes: Lanes) -> Array:
            value = frame.register(index, word)
            if lanes is not None:
                value = value[lanes]
            if narrow is not None:
                value = value.astype(narrow)
            return value.view(dtype)

        return read

    def _read_special(self, name: str, kind: str) -> Read:
        dtype = DTYPES[kind]

        def read(frame: _Frame, lanes: Lanes) -> Array:
            value = frame.run.special(name)
            return (value[lanes] if value.ndim and lanes is not None else value).astype(dtype)

        return read

    def _read_address(self, variable: Variable, offset: int, kind: str) -> Read:
        dtype = DTYPES[kind]
        entry = self._function.entry

        def read(frame: _Frame, lanes: Lanes) -> Array:
            match variable.space:
                case "shared":
                    base = frame.run.places[variable]
                case "local":
                    base = frame.local_base + variable.offset
                case "param":
                    if not entry or variable not in frame.function.parameters:
                        raise PTXError(f"the address of the parameter {variable.name} of a function is not executed")
                    base = variable.offset
                case _:
                    base = frame.run.loaded.globals[variable.name].device
            return np.array((base + offset) & ((1 << 64) - 1), "u8").astype(dtype)

        return read

    def _addresses(self, operand: Operand) -> Callable[[_Frame, Lanes], Array]:
        """Reads `[base + offset]` as an address of each thread."""
        if not isinstance(operand, Address):
            raise PTXError(f"an address expected, not {operand}")
        base = operand.base
        if isinstance(base, Register):
            wide = np.dtype(DTYPES[base.type]).itemsize == 8
            read = self._read(base, "u64" if wide else "u32")
            offset = np.array(operand.offset & ((1 << 64) - 1), "u8")
        elif isinstance(base, Immediate):
            read = self._read(base, "u64")
            wide, offset = True, np.array(operand.offset & ((1 << 64) - 1), "u8")
        else:
            read = self._read_address(base, operand.offset, "u64")
            wide, offset = True, np.array(0, "u8")

        def addresses(frame: _Frame, lanes: Lanes) -> Array:
            value = read(frame, lanes).astype("u8") + offset
            if not wide:
                value = value & np.uint64(0xFFFFFFFF)
            count = frame.run.count if lanes is None else lanes.size
            return np.broadcast_to(value, count)

        return addresses

    def _write(self, operand: Operand, kind: str) -> Write:
        if isinstance(operand, Sink):
            return lambda frame, lanes, value: None
        if not isinstance(operand, Register):
            raise PTXError(f"a register expected for the result, not {operand}")
        index, word = operand.index, np.dtype(_word_type(operand.type))
        dtype = np.dtype(DTYPES[kind])
        if (operand.type == "pred") != (kind == "pred"):
            raise PTXError(f"{operand.name} is of type {operand.type} and is given {kind}")
        if word.itemsize < dtype.itemsize:
            raise PTXError(f"{operand.name} is narrower than {kind}")
        extended = None
        if word.itemsize > dtype.itemsize:
            extended = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{word.itemsize}")
        own = np.dtype(f"u{dtype.itemsize}") if extended is not None and kind[0] != "s" else dtype

        def write(frame: _Frame, lanes: Lanes, value: Any) -> None:
            value = np.asarray(value)
            if value.dtype != dtype:
                value = value.view(dtype) if value.dtype.itemsize == dtype.itemsize else value.astype(dtype)
            if extended is not None:
                value = value.view(own).astype(extended)
            value = value.view(word)
            if lanes is None:
                if value.shape != (frame.run.count,):
                    value = np.broadcast_to(value, frame.run.count).copy()
                frame.registers[index] = value
            else:
                # a copy: registers share arrays after `mov`
                changed = frame.register(index, word.char if word.char == "?" else f"u{word.itemsize}").copy()
                changed[lanes] = value
                frame.registers[index] = changed

        return write

    # -- straight instructions

    def _guarded(self, instruction: Instruction, step: Step) -> Step:
        if instruction.guard is None:
            return step
        guard = self._guard(instruction)

        def guarded(frame: _Frame, lanes: Lanes) -> None:
            there = frame.run.all if lanes is None else lanes
            chosen = guard(frame, lanes)
            if chosen.all():
                step(frame, lanes)
            elif chosen.any():
                step(frame, there[chosen])

        return guarded

    def _guard(self, instruction: Instruction) -> Read:
        guard = instruction.guard
        assert guard is not None
        return self._read(Negated(guard.register) if guard.negated else guard.register, "pred")

    def _step(self, instruction: Instruction) -> Step:
        opcode = instruction.opcode
        if opcode in _NOTHING:
            return lambda frame, lanes: None
        found = operation(instruction)
        if found is not None:
            return self._pure(instruction, found)
        rules: dict[str, Callable[[Instruction], Step]] = {
            "mov": self._mov, "cvta": self._cvta, "isspacep": self._isspacep, "ld": self._ld, "ldu": self._ld,
            "st": self._st, "atom": self._atom, "red": self._atom, "activemask": self._activemask,
        }  # fmt: skip
        if opcode not in rules:
            raise PTXError(f"the instruction {instruction.spelling} is not known")
        return rules[opcode](instruction)

    def _pure(self, instruction: Instruction, found: Operation) -> Step:
        first, *rest = instruction.operands
        targets = [first.first, first.second] if isinstance(first, Pair) else [first]
        results = found.results[: len(targets)]
        if len(rest) != len(found.sources) or len(targets) > len(found.results):
            raise PTXError(f"{len(found.sources) + 1} operands expected")
        reads = [self._read(o, k) for o, k in zip(rest, found.sources, strict=True)]
        carry = Register(CARRY, "pred", "CC.CF")
        if found.reads_carry:
            reads.append(self._read(carry, "pred"))
        writes = [self._write(o, k) for o, k in zip(targets, results, strict=True)]
        if found.writes_carry:
            writes.append(self._write(carry, "pred"))
        several = len(found.results) > 1 or found.writes_carry
        compute, write = found.compute, writes[0]

        def one(frame: _Frame, lanes: Lanes) -> None:
            write(frame, lanes, compute(*[read(frame, lanes) for read in reads]))

        def many(frame: _Frame, lanes: Lanes) -> None:
            values = compute(*[read(frame, lanes) for read in reads])
            for each, value in zip(writes, values, strict=False):
                each(frame, lanes, value)

        return many if several else one

    def _mov(self, instruction: Instruction) -> Step:
        spelling = Spelling(instruction)
        spelling.flag("v2", "v4")
        kind = spelling.type()
        spelling.done()
        target, source = instruction.operands
        if isinstance(target, Vector) and not isinstance(source, Vector):
            return self._unpack(target, source, kind)
        if isinstance(source, Vector) and not isinstance(target, Vector):
            return self._pack(target, source, kind)
        if isinstance(source, Vector) and isinstance(target, Vector):
            raise PTXError("mov between vectors is not executed")
        read, write = self._read(source, kind), self._write(target, kind)
        return lambda frame, lanes: write(frame, lanes, read(frame, lanes))

    @staticmethod
    def _part_kind(kind: str, count: int) -> str:
        bits = 8 * np.dtype(DTYPES[kind]).itemsize // count
        if f"b{bits}" not in DTYPES:
            raise PTXError(f"{kind} does not divide into {count}")
        return f"b{bits}"

    def _unpack(self, target: Vector, source: Operand, kind: str) -> Step:
        count = len(target.parts)
        part = self._part_kind(kind, count)
        read = self._read(source, kind)
        writes = [self._write(p, part) for p in target.parts]

        def step(frame: _Frame, lanes: Lanes) -> None:
            value = np.ascontiguousarray(read(frame, lanes)).reshape(-1, 1).view(DTYPES[part])
            for at, write in enumerate(writes):
                write(frame, lanes, np.ascontiguousarray(value[:, at]))

        return step

    def _pack(self, target: Operand, source: Vector, kind: str) -> Step:
        part = self._part_kind(kind, len(source.parts))
        reads = [self._read(p, part) for p in source.parts]
        write = self._write(target, kind)

        def step(frame: _Frame, lanes: Lanes) -> None:
            parts = np.broadcast_arrays(*[np.atleast_1d(read(frame, lanes)) for read in reads])
            write(frame, lanes, np.ascontiguousarray(np.stack(parts, -1)).view(DTYPES[kind])[:, 0])

        return step

    def _cvta(self, instruction: Instruction) -> Step:
        spelling = Spelling(instruction)
        kind = spelling.type("u64", "u32")
        to_space = spelling.flag("to")
        space = _space_of(spelling)
        spelling.done()
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "global": 0}[space]
        change = np.array((-window if to_space else window) & ((1 << 64) - 1), "u8")
        target, source = instruction.operands
        read, write = self._read(source, kind), self._write(target, kind)
        return lambda frame, lanes: write(frame, lanes, read(frame, lanes) + change)

    def _isspacep(self, instruction: Instruction) -> Step:
        spelling = Spelling(instruction)
        space = _space_of(spelling)
        spelling.done()
        windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
        target, source = instruction.operands
        read, write = self._read(source, "u64"), self._write(target, "pred")

        def step(frame: _Frame, lanes: Lanes) -> None:
            window = window_of(read(frame, lanes))
            inside = ~np.isin(window, list(windows.values())) if space == "global" else window == windows[space]
            write(frame, lanes, inside)

        return step

    def _activemask(self, instruction: Instruction) -> Step:
        write = self._write(instruction.operands[0], "b32")

        def step(frame: _Frame, lanes: Lanes) -> None:
            run = frame.run
            there = run.all if lanes is None else lanes
            write(frame, lanes, _bits_of_warps(run, there)[run.warp[there]].astype("u4"))

        return step

    # -- memory

    def _access(self, instruction: Instruction) -> tuple[str, int, str]:
        """The space, the number of elements, and their type."""
        spelling = Spelling(instruction)
        for names in (_ORDERS, _SCOPES):
            spelling.flag(*names)
        while spelling.flag(*_CACHE_HINTS):
            pass
        space = _space_of(spelling)
        count = int((spelling.choice("v2", "v4", "v8") or "v1")[1:])
        kind = spelling.type()
        spelling.done()
        if kind == "pred":
            raise PTXError("predicates are not kept in memory")
        return space, count, kind

    @staticmethod
    def _parts(operand: Operand, count: int) -> tuple[Operand, ...]:
        parts = operand.parts if isinstance(operand, Vector) else (operand,)
        if len(parts) != count:
            raise PTXError(f"{count} elements expected, not {len(parts)}")
        return parts

    def _ld(self, instruction: Instruction) -> Step:
        space, count, kind = self._access(instruction)
        target, source = instruction.operands
        writes = [self._write(p, kind) for p in self._parts(target, count)]
        if space == "param" and isinstance(source, Address) and isinstance(source.base, Variable):
            return self._ld_param(source.base, source.offset, kind, writes)
        addresses = self._addresses(source)
        dtype = np.dtype(DTYPES[kind])
        size = dtype.itemsize

        def step(frame: _Frame, lanes: Lanes) -> None:
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
                    _note_access(run, kept, index, size, lanes, None, writes=False)
                else:
                    value = np.empty(there.size, dtype)
                    for mine, kept, data, index in placed:
                        value[mine] = data[index]
                        _note_access(run, kept, index, size, lanes, mine, writes=False)
                values.append(value)
            for write, value in zip(writes, values, strict=True):
                write(frame, lanes, value)

        return step

    def _ld_param(self, variable: Variable, offset: int, kind: str, writes: Sequence[Write]) -> Step:
        dtype = np.dtype(DTYPES[kind])
        size = dtype.itemsize
        if offset < 0 or offset + size * len(writes) > variable.size:
            raise PTXError(f"the parameter {variable.name} has {variable.size} bytes")
        of_kernel = self._function.entry and variable in self._function.parameters

        def step(frame: _Frame, lanes: Lanes) -> None:
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

    def _st(self, instruction: Instruction) -> Step:
        space, count, kind = self._access(instruction)
        target, source = instruction.operands
        reads = [self._read(p, kind) for p in self._parts(source, count)]
        if space == "param":
            if not isinstance(target, Address) or not isinstance(target.base, Variable):
                raise PTXError("parameters are written by name")
            return self._st_param(target.base, target.offset, kind, reads)
        addresses = self._addresses(target)
        dtype = np.dtype(DTYPES[kind])
        size = dtype.itemsize

        def step(frame: _Frame, lanes: Lanes) -> None:
            run = frame.run
            there = addresses(frame, lanes)
            for at, read in enumerate(reads):
                where = there + np.uint64(at * size)
                value = np.broadcast_to(read(frame, lanes), there.shape)
                for mine, kept, data, index in run.place(space, lanes, where, dtype, size if at else size * count):
                    if kept == "param":
                        raise PTXError("a kernel's parameters cannot be written", _LAUNCH_FAILED)
                    stored = value if mine is None else value[mine]
                    _note_access(run, kept, index, size, lanes, mine, writes=True, value=stored)
                    data[index] = stored

        return step

    def _st_param(self, variable: Variable, offset: int, kind: str, reads: Sequence[Read]) -> Step:
        dtype = np.dtype(DTYPES[kind])
        size = dtype.itemsize
        if offset < 0 or offset + size * len(reads) > variable.size:
            raise PTXError(f"the parameter {variable.name} has {variable.size} bytes")

        def step(frame: _Frame, lanes: Lanes) -> None:
            rows = frame.parameter(variable)
            count = frame.run.count if lanes is None else lanes.size
            for at, read in enumerate(reads):
                start = offset + at * size
                value = np.broadcast_to(read(frame, lanes), count).copy()
                octets = value.view("u1").reshape(count, size)
                rows[slice(None) if lanes is None else lanes, start : start + size] = octets

        return step

    # -- atomics

    def _atom(self, instruction: Instruction) -> Step:
        spelling = Spelling(instruction)
        for names in (_ORDERS, _SCOPES, ("noftz",)):
            spelling.flag(*names)
        space = _space_of(spelling)
        kind = spelling.type()
        name = spelling.one_of("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
        spelling.done()
        gives = instruction.opcode == "atom"
        operands = instruction.operands if gives else (Sink(), *instruction.operands)
        target, place, *sources = operands
        if len(sources) != (2 if name == "cas" else 1):
            raise PTXError("the operands are not those of an atomic operation")
        write, addresses = self._write(target, kind), self._addresses(place)
        reads = [self._read(s, kind) for s in sources]
        update = _update_of(name, kind)
        dtype = np.dtype(DTYPES[kind])

        def step(frame: _Frame, lanes: Lanes) -> None:
            run = frame.run
            there = addresses(frame, lanes)
            values = [np.broadcast_to(read(frame, lanes), there.shape) for read in reads]
            old = np.empty(there.shape, dtype)
            for mine, kept, data, index in run.place(space, lanes, there, dtype, dtype.itemsize):
                if kept not in ("global", "shared"):
                    raise PTXError(f"atomic operations on {kept} memory are not executed", _LAUNCH_FAILED)
                where = slice(None) if mine is None else mine
                _note_access(run, kept, index, dtype.itemsize, lanes, mine, writes=True, atomic=True)
                chosen = [v[where] for v in values]
                old[where] = (
                    _exchange(data, index, *chosen) if name == "cas" else _apply(data, index, chosen[0], update)
                )
            write(frame, lanes, old)

        return step

    # -- branches and calls

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
                taken = lambda frame, there: [(_RETURN, there)]  # noqa: E731
            case "exit":
                taken = lambda frame, there: [(_EXIT, there)]  # noqa: E731
            case "trap":
                taken = _trap
            case "brx":
                taken = self._branch_by_table(instruction)
            case _:
                taken = self._call(instruction, number)
        if instruction.guard is None:
            return taken
        guard = self._guard(instruction)

        def end(frame: _Frame, there: Array) -> list[tuple[int, Array]]:
            chosen = guard(frame, None if there.size == frame.run.count else there)
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
        read = self._read(index, "u32")

        def end(frame: _Frame, there: Array) -> list[tuple[int, Array]]:
            chosen = np.broadcast_to(read(frame, there), there.shape)
            if (chosen >= targets.size).any():
                raise PTXError(f"brx.idx beyond a table of {targets.size} labels", _ILLEGAL_INSTRUCTION)
            places = targets[chosen]
            return [(int(t), there[places == t]) for t in np.unique(places)]

        return end

    def _call(self, instruction: Instruction, number: int) -> End:
        operands = list(instruction.operands)
        results = operands.pop(0).parts if isinstance(operands[0], Group) else ()
        callee = operands.pop(0)
        arguments = operands.pop(0).parts if operands and isinstance(operands[0], Group) else ()
        if not isinstance(callee, Name) or operands:
            raise PTXError("calls of functions by their address are not executed")
        function = self._loaded.module.functions.get(callee.name)
        if function is None or (not function.defined and not self._is_defined_later(callee.name)):
            raise PTXError(f"the function {callee.name} is called and not defined")
        if len(arguments) != len(function.parameters) or len(results) != len(function.results):
            raise PTXError(f"{callee.name} takes {len(function.parameters)} arguments")
        for given in (*arguments, *results):
            if not isinstance(given, Variable):
                raise PTXError("arguments that are not variables of .param are not executed")
        name = callee.name
        own_size = self._function.local_size

        def end(frame: _Frame, there: Array) -> list[tuple[int, Array]]:
            run = frame.run
            if frame.depth >= MAX_DEPTH:
                raise PTXError(f"calls are nested more than {MAX_DEPTH} deep", _LAUNCH_FAILED)
            code = run.loaded.code(name)
            inner = _Frame(run, code.function, frame.depth + 1, frame.local_base + own_size)
            for formal, given in zip(
                [*code.function.parameters, *code.function.results], [*arguments, *results], strict=True
            ):
                inner.parameters[formal] = frame.parameter(given)  # type: ignore[arg-type]
            return [(number + 1, run.run(code, inner, there))]

        return end

    def _is_defined_later(self, name: str) -> bool:
        return any(f.name == name and f.defined for f in self._loaded.module.functions.values())

    # -- gates

    def _gate(self, instruction: Instruction) -> _Gate:
        guard = self._guard(instruction) if instruction.guard is not None else None
        if instruction.opcode in ("bar", "barrier"):
            return self._barrier(instruction, guard)
        rules = {"shfl": self._shfl, "vote": self._vote, "match": self._match, "redux": self._redux}
        mask = self._read(instruction.operands[-1], "u32")
        return _Gate(mask, guard, rules[instruction.opcode](instruction))

    def _barrier(self, instruction: Instruction, guard: Read | None) -> _Gate:
        spelling = Spelling(instruction)
        operands = instruction.operands
        if spelling.flag("warp"):
            spelling.flag("sync")
            spelling.done()
            return _Gate(self._read(operands[0], "u32"), guard, _pass_warp_barrier)
        spelling.flag("cta")
        spelling.flag("aligned")
        action = spelling.one_of("sync", "red")
        reduction = spelling.choice("popc", "and", "or") if action == "red" else None
        kind = spelling.type("u32", "pred") if action == "red" else None
        spelling.done()
        if action == "sync":
            if len(operands) != 1:
                raise PTXError("barriers of a number of threads are not executed")
            return _Gate(None, guard, lambda frame, lanes: frame.run.barrier_passed(lanes))
        if len(operands) != 3:
            raise PTXError("barriers of a number of threads are not executed")
        read, write = self._read(operands[2], "pred"), self._write(operands[0], kind or "u32")

        def reduce(frame: _Frame, lanes: Lanes) -> None:
            run = frame.run
            run.barrier_passed(lanes)
            there = run.all if lanes is None else lanes
            cta = run.cta[there]
            holds = np.broadcast_to(read(frame, lanes), there.shape)
            number = np.bincount(cta, holds)
            total = {"popc": number, "and": number == np.bincount(cta), "or": number > 0}[reduction or "popc"]
            write(frame, lanes, total[cta].astype(DTYPES[kind or "u32"]))

        return _Gate(None, guard, reduce)

    def _shfl(self, instruction: Instruction) -> Step:
        spelling = Spelling(instruction)
        spelling.flag("sync")
        mode = spelling.one_of("up", "down", "bfly", "idx")
        kind = spelling.type("b32")
        spelling.done()
        first, source, offset, control, _ = instruction.operands
        target, inside = (first.first, first.second) if isinstance(first, Pair) else (first, Sink())
        read, by, limits = self._read(source, kind), self._read(offset, "u32"), self._read(control, "u32")
        write, write_inside = self._write(target, kind), self._write(inside, "pred")

        def step(frame: _Frame, lanes: Lanes) -> None:
            run = frame.run
            there = run.all if lanes is None else lanes
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

    def _vote(self, instruction: Instruction) -> Step:
        spelling = Spelling(instruction)
        spelling.flag("sync")
        mode = spelling.one_of("all", "any", "uni", "ballot")
        kind = spelling.type("pred", "b32")
        spelling.done()
        target, source, _ = instruction.operands
        read, write = self._read(source, "pred"), self._write(target, kind)

        def step(frame: _Frame, lanes: Lanes) -> None:
            run = frame.run
            there = run.all if lanes is None else lanes
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

    def _match(self, instruction: Instruction) -> Step:
        spelling = Spelling(instruction)
        spelling.flag("sync")
        mode = spelling.one_of("any", "all")
        kind = spelling.type("b32", "b64")
        spelling.done()
        first, source, _ = instruction.operands
        target, equal = (first.first, first.second) if isinstance(first, Pair) else (first, Sink())
        read, write, write_equal = self._read(source, kind), self._write(target, "b32"), self._write(equal, "pred")

        def step(frame: _Frame, lanes: Lanes) -> None:
            run = frame.run
            there = run.all if lanes is None else lanes
            value = np.broadcast_to(read(frame, lanes), there.shape)
            bits = np.uint64(1) << run.lane[there].astype("u8")
            _, groups = np.unique(
                np.stack([run.warp[there].astype("u8"), value.astype("u8")]), axis=1, return_inverse=True
            )
            same = np.bincount(groups.ravel(), bits.astype("f8")).astype("u8")[groups.ravel()]
            if mode == "all":
                all_equal = same == _bits_of_warps(run, there)[run.warp[there]]
                write_equal(frame, lanes, all_equal)
                same = np.where(all_equal, same, np.uint64(0))
            write(frame, lanes, same.astype("u4"))

        return step

    def _redux(self, instruction: Instruction) -> Step:
        spelling = Spelling(instruction)
        spelling.flag("sync")
        name = spelling.one_of("add", "min", "max", "and", "or", "xor")
        kind = spelling.type("u32", "s32", "b32")
        spelling.done()
        target, source, _ = instruction.operands
        read, write = self._read(source, kind), self._write(target, kind)
        ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
                 "xor": np.bitwise_xor}[name]  # fmt: skip

        def step(frame: _Frame, lanes: Lanes) -> None:
            run = frame.run
            there = run.all if lanes is None else lanes
            value = np.broadcast_to(read(frame, lanes), there.shape)
            warp = run.warp[there]
            starts = np.flatnonzero(np.diff(warp, prepend=-1))
            totals = ufunc.reduceat(value, starts)
            write(frame, lanes, totals[np.searchsorted(warp[starts], warp)])

        return step


def _trap(frame: _Frame, there: Array) -> list[tuple[int, Array]]:
    raise PTXError("trap", _ILLEGAL_INSTRUCTION)


def _pass_warp_barrier(frame: _Frame, lanes: Lanes) -> None:
    run = frame.run
    if run.races is not None:
        run.races.warp_barrier(run.all if lanes is None else lanes)


def _bits_of_warps(run: _Run, there: Array) -> Array:
    """For each warp, a bit for each of its lanes that are `there`."""
    bits = (np.uint64(1) << run.lane[there].astype("u8")).astype("f8")
    return np.bincount(run.warp[there], bits, run.warps).astype("u8")


def _note_access(
    run: _Run,
    space: str,
    index: Array,
    size: int,
    lanes: Lanes,
    mine: Array | None,
    *,
    writes: bool,
    atomic: bool = False,
    value: Array | None = None,
) -> None:
    """Tells the detector of races about an access to shared memory."""
    if space != "shared" or run.races is None:
        return
    there = run.all if lanes is None else lanes
    if mine is not None:
        there = there[mine]
    race = run.races.access(there, index * size, size, writes=writes, atomic=atomic, value=value)
    if race is None:
        return
    position, other = race
    _, theirs = run.place_of(other)
    text = f"race on shared memory: thread {theirs} accesses the same byte and no barrier is between"
    at = position if mine is None else int(mine[position])
    raise AccessFault(at, int(index[position] * size % run.shared.stride), text, _LAUNCH_FAILED)


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
