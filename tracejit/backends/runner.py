"""Walks a program's steps on backends that launch kernels one by one: the reference interpreter and GPU runtimes.

A backend offers a `Machine`: memory, copies and launches.  The walk keeps which memory each buffer stands for, so that
`swap` costs nothing; it allocates a temporary right before the first step that mentions it and lets it go right after
the last one.  What it allocates is poisoned under TRACEJIT_POISON.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, assert_never, runtime_checkable

import numpy as np
from attrs import define

from tracejit.backends.base import Pending
from tracejit.ir.extents import evaluate, has_count, held
from tracejit.ir.forms import HostFunction
from tracejit.ir.kernel import Buffer
from tracejit.ir.program import (
    BindExtent,
    Branch,
    Call,
    Check,
    Copy,
    CountedLoop,
    HostCall,
    Launch,
    Program,
    ProgramBuffer,
    Steps,
    Swap,
    WhileLoop,
    mentions,
    walk_steps,
)
from tracejit.ir.scalar import is_complex, numpy_dtype, poison_value
from tracejit.support.config import config
from tracejit.support.errors import FailedCheck, InternalError, UnsupportedError
from tracejit.support.nodes import frozen

__all__ = [
    "CallsLibraries", "Later", "Machine", "Plan", "plan_of", "run_arguments",
    "run_in_memory", "run_program", "seen_as",
]  # fmt: skip

M = TypeVar("M")


@runtime_checkable
class Machine(Protocol[M]):
    """What a backend offers for running programs; `M` is its memory.  Calls take effect in order,
    only `download` waits.

    allocate: memory for a row-major array; what is in it does not matter.  upload: that of an argument, a NumPy array
    or one that is there already, which the program does not change unless the backend `donates`; row-major where
    `layout` is "C", else as it is or row-major.
    download: the array that memory holds.  copy: all elements.  launch: run the step's kernel on these buffers.
    """

    def allocate(self, dtype: str, shape: tuple[int, ...]) -> M: ...

    def upload(self, array: Any, layout: str) -> M: ...

    def download(self, memory: M, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]: ...

    def copy(self, target: M, source: M) -> None: ...

    def launch(self, step: Launch, arguments: Sequence[M], dims: Mapping[str, int]) -> None: ...


@runtime_checkable
class CallsLibraries(Protocol):
    """A machine that calls functions of libraries too."""

    def call(self, step: Call, memory: Mapping[ProgramBuffer, Any], dims: Mapping[str, int]) -> None: ...


@frozen(eq=False)
class Plan:
    """For each top-level step the buffers that begin and the temporaries that end there."""

    program: Program
    begins: tuple[tuple[ProgramBuffer, ...], ...]
    ends: tuple[tuple[ProgramBuffer, ...], ...]
    unused: tuple[ProgramBuffer, ...]  # results no step writes: those of empty programs


def plan_of(program: Program) -> Plan:
    """When each buffer of a program is needed."""
    first: dict[ProgramBuffer, int] = {}
    last: dict[ProgramBuffer, int] = {}
    for n, top in enumerate(program.steps):
        for step in walk_steps((top,)):
            for b in mentions(step):
                first.setdefault(b, n)
                last[b] = n
    begins: list[list[ProgramBuffer]] = [[] for _ in program.steps]
    ends: list[list[ProgramBuffer]] = [[] for _ in program.steps]
    for b, n in first.items():
        if b.role != "input":
            begins[n].append(b)
    for b, n in last.items():
        if b.role == "temporary":
            ends[n].append(b)
    unused = tuple(b for b in program.outputs if b not in first and b.role == "output")
    return Plan(program, tuple(map(tuple, begins)), tuple(map(tuple, ends)), unused)


@frozen(eq=False)
class Later:
    """The checks of a run that are not waited for.

    explain: makes the error of a failure.  checks: those that the arguments depend on, then those of the program.
    """

    explain: Callable[[int], Exception]
    checks: list[Pending]

    def look(self) -> None:
        """Wait for all so far.   Raises: the error of one that has failed."""
        for check in self.checks:
            check.look()


def run_program(
    plan: Plan, machine: Machine[Any], inputs: Sequence[Any], dims: Mapping[str, int]
) -> list[np.ndarray[Any, Any]]:
    """The results of a program for `inputs` in the order of the signature.

    Raises: what the machine raises; FailedCheck by a check of the program; InternalError where the arguments do not fit
    the program.
    """
    found = run_arguments(plan, machine, inputs, dims)
    return [machine.download(memory, b.dtype, shape) for memory, b, shape in found]


def run_arguments(
    plan: Plan, machine: Machine[M], inputs: Sequence[Any], dims: Mapping[str, int], later: Later | None = None
) -> list[tuple[M, ProgramBuffer, tuple[int, ...]]]:
    """The same, results where they are: (memory, buffer of the program, shape) each.

    later: takes the checks between the steps of the program; None if each is waited for.
    """
    program = plan.program
    if len(inputs) != len(program.inputs):
        raise InternalError(f"program {program.name} takes {len(program.inputs)} inputs, not {len(inputs)}")
    arguments = [machine.upload(x, b.layout) for b, x in zip(program.inputs, inputs, strict=True)]
    results = run_in_memory(plan, machine, arguments, dims, later)
    shapes = [tuple([evaluate(n, dims) for n in b.room]) for b in program.outputs]
    return list(zip(results, program.outputs, shapes, strict=True))


def run_in_memory(
    plan: Plan, machine: Machine[M], arguments: Sequence[M], dims: Mapping[str, int], later: Later | None = None
) -> list[M]:
    """The memory of the results of a program whose arguments are in place."""
    program = plan.program
    walk = _Walk(machine, dims, dict(zip(program.inputs, arguments, strict=True)), later)
    for b in plan.unused:
        walk.begin(b)
    for step, begins, ends in zip(program.steps, plan.begins, plan.ends, strict=True):
        for b in begins:
            walk.begin(b)
        if later is not None and isinstance(step, Check):
            read = functools.partial(_number, machine, walk.memory[step.failure], step.failure.dtype)
            later.checks.append(Pending(read, later.explain))
        else:
            walk.run((step,))
        for b in ends:
            del walk.memory[b]
    return [walk.memory[b] for b in program.outputs]


def _shape(b: ProgramBuffer, dims: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a buffer where the symbolic extents are `dims`."""
    return tuple(evaluate(n, dims) for n in b.shape)


@define(eq=False)
class _Walk:
    """One run: what each buffer stands for now."""

    machine: Machine[Any]
    dims: Mapping[str, int]
    memory: dict[ProgramBuffer, Any]
    later: Later | None

    def begin(self, b: ProgramBuffer) -> None:
        """Give a buffer memory, poisoned if the switches ask for it."""
        shape = tuple([evaluate(n, self.dims) for n in b.room])
        fresh = self.memory[b] = self.machine.allocate(b.dtype, shape)
        if config.poison:
            poison = np.full(shape, poison_value(b.dtype), numpy_dtype(b.dtype))
            self.machine.copy(fresh, self.machine.upload(poison, "C"))

    def number(self, b: ProgramBuffer) -> int:
        """An integer, read back.  What depends on a check that has failed decides nothing."""
        if self.later is not None:
            self.later.look()
        return _number(self.machine, self.memory[b], b.dtype)

    def flag(self, b: ProgramBuffer) -> bool:
        """A condition, read back."""
        if self.later is not None:
            self.later.look()
        found = self.machine.download(self.memory[b], b.dtype, _shape(b, self.dims))
        if numpy_dtype(b.dtype) != np.bool_ or found.shape != ():
            raise InternalError(f"flag {b.name} is {b.dtype}{list(b.shape)}; flags are bool of rank 0")
        return bool(found)

    def host(self, step: HostCall) -> None:
        """Arrays are brought here, and its results there."""
        assert isinstance(step.environment, HostFunction)
        read, written = step.accesses()
        operands = [self.here(b) for b in read]
        results = [self.here(b) if any(map(has_count, b.shape)) else self.fresh(b) for b in written]
        step.environment.run(list(map(self.filled, read, operands)), list(map(self.filled, written, results)))
        for b, made in zip(written, results, strict=True):
            self.machine.copy(self.memory[b], self.machine.upload(made, "C"))

    def here(self, b: ProgramBuffer) -> np.ndarray[Any, Any]:
        """What is in a buffer's memory: of some machines' all of it, which may be for more elements than there are."""
        return self.machine.download(self.memory[b], b.dtype, _shape(b, self.dims))

    def fresh(self, b: ProgramBuffer) -> np.ndarray[Any, Any]:
        return np.zeros(_shape(b, self.dims), numpy_dtype(b.dtype))

    def filled(self, b: ProgramBuffer, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """As many elements of it as there are."""
        shape = _shape(b, self.dims)
        return array if array.shape == shape else array.reshape(-1)[: math.prod(shape)].reshape(shape)

    def run(self, steps: Steps) -> None:
        """Steps in order; recursion follows the nesting of loops and branches."""
        memory = self.memory
        for step in steps:
            match step:
                case Launch():
                    self.machine.launch(step, [memory[b] for b in step.arguments], self.dims)
                case HostCall():
                    self.host(step)
                case Call() if isinstance(self.machine, CallsLibraries):
                    self.machine.call(step, memory, self.dims)
                case Call():
                    raise UnsupportedError(
                        f"{step.environment.name}.{step.symbol}: this backend calls no libraries of the process"
                    )
                case Copy():
                    if memory[step.target] is not memory[step.source]:
                        self.machine.copy(memory[step.target], memory[step.source])
                case Swap():
                    memory[step.a], memory[step.b] = memory[step.b], memory[step.a]
                case WhileLoop():
                    self.run(step.condition)
                    while self.flag(step.flag):
                        self.run(step.body)
                        self.run(step.condition)
                case CountedLoop():
                    outer = self.dims
                    for n in range(evaluate(step.count, outer)):
                        self.dims = outer if step.index == "_" else {**outer, step.index: n}
                        self.run(step.body)
                    self.dims = outer
                case BindExtent():
                    self.dims = {**self.dims, step.index: self.number(step.count)}
                case Branch():
                    self.run(step.then if self.flag(step.flag) else step.orelse)
                case Check():
                    failure = self.number(step.failure)
                    if failure:
                        raise FailedCheck(failure)
                case _:
                    assert_never(step)


def _number(machine: Machine[M], memory: M, dtype: str) -> int:
    return int(machine.download(memory, dtype, ()))


def seen_as(buffer: Buffer, array: np.ndarray[Any, Any], dims: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """The same memory in the shape a kernel gives it: kernels may see adjacent axes of contiguous memory as one, and
    the beginning of memory that another iteration needs whole.
    """
    shape = tuple([held(n, dims) for n in buffer.shape])
    if array.dtype.kind == "c" and not is_complex(buffer.dtype):  # the two parts of each element lie side by side
        part = array.real
        array = np.lib.stride_tricks.as_strided(part, (*array.shape, 2), (*array.strides, part.itemsize))
    if array.shape == shape:
        return array
    if not array.flags.c_contiguous:
        raise InternalError(
            f"buffer {buffer.name} is {buffer.dtype}{list(shape)}, the array of shape {array.shape} is not contiguous"
        )
    return array.reshape(-1)[: math.prod(shape)].reshape(shape)
