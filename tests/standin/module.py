"""Modules of PTX: their variables, and launches of their kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tests.standin import simt
from tests.standin.decode import decode
from tests.standin.exact import Array
from tests.standin.global_races import AccessLog
from tests.standin.memory import GlobalMemory, Range
from tests.standin.operands import bits_of
from tests.standin.ptx import DTYPES, Address, Function, Module, Name, PTXError, Variable, parse
from tests.standin.simt import LAUNCH_FAILED, Code, Launch, Run, Triple, unravel

__all__ = ["Allocate", "Loaded", "load"]

Allocate = Callable[[int], Range]
"""Gives room for so many bytes of a module's variables."""

MAX_THREADS = 1024
CHUNK = 16384
"""Blocks run together up to so many threads,"""
SHARED_CHUNK = 1 << 19
"""and so many bytes of shared memory."""
_INVALID_VALUE = 1
_NOT_FOUND = 500


@dataclass(frozen=True, eq=False)
class _Program:
    """What does not depend on where a module is loaded; `shared` has for each kernel its variables' places and size."""

    module: Module
    codes: Mapping[str, Code]
    shared: Mapping[str, tuple[Mapping[Variable, int], int]]


@lru_cache(maxsize=256)
def _program(text: str) -> _Program:
    module = parse(text)
    codes = {f.name: decode(f, module.functions) for f in module.functions.values() if f.defined}
    shared = {name: _shared_layout(name, module.functions) for name, c in codes.items() if c.function.entry}
    return _Program(module, codes, shared)


def load(text: str, allocate: Allocate | None = None) -> Loaded:
    """Parses and decodes PTX.

    Raises: PTXError, also for instructions that are not known."""
    return Loaded(_program(text), allocate or _allocate_here())


def _allocate_here() -> Allocate:
    kept: list[Array] = []

    def allocate(size: int) -> Range:
        kept.append(np.zeros(size + 256, "u1"))
        address = (kept[-1].ctypes.data + 255) & ~255
        return Range(address, size, address)

    return allocate


class Loaded:
    """A module whose kernels can be launched; `variables` says where its variables are."""

    def __init__(self, program: _Program, allocate: Allocate) -> None:
        self.module = program.module
        self.variables: dict[str, Range] = {}
        self._codes = program.codes
        self._shared = program.shared
        # kept: it may own the memory that it gives
        self._allocate = allocate
        self._allocate_variables(allocate)

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
            self.variables[variable.name] = allocate(variable.size)
        for variable in placed:
            there = self.variables[variable.name]
            octets = (ctypes.c_uint8 * variable.size).from_address(there.host)
            np.frombuffer(octets, "u1")[:] = _initial_bytes(variable, self.variables)

    # -- launch

    def launch(
        self,
        name: str,
        grid: Triple,
        block: Triple,
        shared: int,
        parameters: bytes,
        memory: Iterable[Range],
        *,
        global_races: bool = False,
    ) -> None:
        """Runs a kernel to its end; `global_races` finds those on global memory, afterwards.

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
        launch = Launch(
            name=name,
            codes=self._codes,
            variables=self.variables,
            places=places,
            grid=grid,
            block=block,
            static_shared=static,
            dynamic_shared=shared,
            parameters=np.frombuffer(parameters, "u1"),
            space=GlobalMemory([*memory, *self.variables.values()]),
            log=AccessLog() if global_races else None,
            steps_left=simt.STEP_LIMIT,
        )
        blocks = grid[0] * grid[1] * grid[2]
        together = max(1, min(CHUNK // threads, SHARED_CHUNK // max(1, static + shared)))
        for first in range(0, blocks, together):
            Run(launch, np.arange(first, min(first + together, blocks))).execute()
        if launch.log is not None and (race := launch.log.race()) is not None:
            places = [(unravel(b, grid), unravel(t, block)) for b, t in (race.first, race.second)]
            address = launch.space.address_of(race.place)
            texts = [f"thread {t} of block {b}" for b, t in places]
            text = (
                f"{name}: race on global memory at {address:#x}: {texts[0]} writes, {texts[1]} is not ordered with it"
            )
            raise PTXError(text, LAUNCH_FAILED, block=places[0][0], thread=places[0][1], address=address)


def _shared_layout(name: str, functions: Mapping[str, Function]) -> tuple[dict[Variable, int], int]:
    """Where the shared variables are that a kernel and the functions it calls name; extern ones come last."""
    seen: set[str] = set()
    names = [name]
    used: dict[Variable, None] = {}
    while names:
        current = names.pop()
        if current in seen or current not in functions:
            continue
        seen.add(current)
        for instruction in functions[current].body:
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


def _initial_bytes(variable: Variable, variables: Mapping[str, Range]) -> Array:
    dtype = np.dtype(DTYPES[variable.type])
    word = np.dtype(f"u{dtype.itemsize}")
    values = np.zeros(variable.count, word)
    for i, value in enumerate(variable.initial):
        if isinstance(value, tuple):
            name, offset = value
            if name not in variables:
                raise PTXError(f"{variable.name} holds the address of {name}, which is not a variable")
            bits = variables[name].device + offset
        else:
            bits = bits_of(value, variable.type)
        values[i] = bits & ((1 << (8 * dtype.itemsize)) - 1)
    return values.view("u1")
