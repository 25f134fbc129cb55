"""`Multicore`: a backend that runs a kernel on one thread becomes one that shares its parallel loops out among several.

A program is rewritten before the backend compiles it.  A parallel loop has a fixed number of items
(`cores.bind_cores`), each with neighbouring iterations, and the kernel takes a range of them: the part that the index
of a loop around its launch names.

    launch k(x, y)        for index0 in 8 { launch k_part(x, y) }

So the backend sees nothing new.  Of such a loop all iterations run at once, each on a thread of a pool.  Which thread
runs which, and how many there are, changes no result.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, cast

import numpy as np

from tracejit.backends.base import Backend, Compiled, LoweringRule, Resident, Target
from tracejit.backends.copies import register_copy
from tracejit.backends.cores import bind_cores
from tracejit.backends.device.resident import at_most, pending_on
from tracejit.backends.grid import GridSchedule
from tracejit.backends.nest import trip_count
from tracejit.backends.runner import Later, Machine, plan_of, run_arguments, run_program
from tracejit.backends.shared_arrays import SharedArray
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, Extent, Index, evaluate, index_number
from tracejit.ir.kernel import SERIAL, Block, For, Kernel, index_const
from tracejit.ir.program import (
    BindExtent,
    CountedLoop,
    Launch,
    Program,
    ProgramBuffer,
    Step,
    Steps,
    parts_of,
    walk_steps,
)
from tracejit.ir.rewrite import map_blocks
from tracejit.ir.scalar import kernel_dtype
from tracejit.ir.schedule import Schedule
from tracejit.support.errors import BackendUnavailable, UnsupportedError, UserError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.platform import thread_count

__all__ = ["Multicore", "shared_out"]

_PARTS_A_THREAD = 4  # so that threads that are held up leave the rest to others
_SCHEDULE = GridSchedule(cores=True)


class Multicore(Backend):
    """A backend that compiles serial code, on as many threads as the process may use.

    backend: its programs run kernels one by one, by `runner.run_program`: what `compile` returns is a `runner.Machine`,
    whose `launch` may be called from several threads at once, and does not hold the interpreter's lock while a kernel
    runs (as ctypes does not).  The schedules of its target mark parallel loops.
    devices: how many places arrays can lie on, "name:0", "name:1"; they need `zero_copy` of the backend.
    threads: of each device, the caller of a function among them; by default TRACEJIT_THREADS, or all processors.

    >>> import numpy as np, tracejit as tj
    >>> from tracejit.backends.multicore import Multicore
    >>> from tracejit.backends.reference.backend import ReferenceBackend
    >>> from tracejit.backends.registry import temporary_backend
    >>> with temporary_backend(Multicore(ReferenceBackend(), threads=2)) as name:
    ...     tj.jit(lambda x: np.sin(x).sum(), backend=name)(np.ones(100_000)).round(3)
    np.float64(84147.098)
    """

    def __init__(self, backend: Backend, *, devices: int = 1, threads: int = 0) -> None:
        self.name = backend.name  # pyright: ignore[reportAttributeAccessIssue]
        self.backend = backend
        self.devices = devices
        self.threads = threads or thread_count()
        self.number = 0
        self._others: dict[int, Multicore] = {0: self}
        self._pool = _Pool(self.threads)
        if self.zero_copy and devices > 1:
            with contextlib.suppress(UserError):  # known already
                register_copy(self.name, self.name)(_seen_from)

    @property
    def donates(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.backend.donates

    @property
    def calls_libraries(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.backend.calls_libraries

    @property
    def lowerings(self) -> tuple[LoweringRule, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.backend.lowerings

    @property
    def zero_copy(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.backend.zero_copy

    def alloc_zero_copy(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return self.backend.alloc_zero_copy(dtype, shape)

    def fault_of_spelling(self, spelling: object, arity: int) -> str:
        return self.backend.fault_of_spelling(spelling, arity)

    def fault_of_kernel(self, source: object) -> str:
        return self.backend.fault_of_kernel(source)

    def target(self) -> Target:
        return evolve(self.backend.target(), threads=max(2, self.threads))  # the same loops, however many there are

    def places(self) -> Mapping[str, str]:
        if not self.zero_copy:
            return {}
        return {f"{self.name}:{n}": f"{self.threads} threads of this processor" for n in range(self.devices)}

    @property
    def place(self) -> str:
        return f"{self.name}:{self.number}" if self.zero_copy else ""

    def at(self, place: str) -> Multicore:
        for number, known in enumerate(self.places()):
            if known == place:
                if number not in self._others:
                    found = Multicore(self.backend, devices=self.devices, threads=self.threads)
                    found.number, found._others = number, self._others
                    self._others.setdefault(number, found)
                return self._others[number]
        known = ", ".join(self.places()) or f"none: {self.name} shares no memory with the host (`zero_copy`)"
        raise BackendUnavailable(f"there is no device {place!r}; there are {known}")

    def put(self, array: np.ndarray[Any, Any], place: str) -> Resident:
        memory = self.alloc_zero_copy(kernel_dtype(array.dtype), array.shape)
        np.copyto(memory, array)
        return SharedArray(memory, place)

    def compile(self, program: Program) -> Compiled:
        kind = _Resident if self.zero_copy else _Shared
        return kind(self.backend, program, self._pool, self.place)


def _seen_from(x: Any, backend: Backend | None, place: str) -> SharedArray:
    """The same memory, as of another device of the processor."""
    return SharedArray(x.memory, place, x.pending)


# -- programs ----------------------------------------------------------------------------------------------------------
@frozen(eq=False)
class _Share:
    """A launch that is part of a loop that was shared out.

    index: the symbol that says which part.  parts: how many there are.  iterations: of the loop.  least: of an item.
    items: of the loop, of which `share` make a part.  folds: each item leaves a result, without iterations too.
    """

    index: Index
    parts: int
    iterations: Extent | None
    least: int
    items: int
    share: int
    folds: bool

    def count(self, dims: Mapping[str, int]) -> int:
        """How many parts have something to do."""
        if self.iterations is None or self.folds:
            return self.parts
        iterations = evaluate(self.iterations, dims)
        of_an_item = max(self.least, -(-iterations // self.items))
        return min(self.parts, max(1, -(-iterations // (of_an_item * self.share))))


def shared_out(program: Program, parts: int) -> Program:
    """The program with a loop of so many iterations at most around each launch of a kernel that has a parallel loop."""
    return _SharedOut(program, parts).program


class _SharedOut:
    """A program whose parallel loops are loops around launches of a part.

    launched: the same with these launches instead of the loops.  shares: of these launches, by identity.
    """

    def __init__(self, program: Program, parts: int) -> None:
        indices = [s.index for s in walk_steps(program.steps) if isinstance(s, (CountedLoop, BindExtent))]
        self._number = 1 + max((index_number(n) for n in indices if n != "_"), default=-1)
        self._most = parts
        self._names = {b.name for b in (*program.inputs, *program.outputs, *program.temporaries)}
        self._temporaries: list[ProgramBuffer] = []
        self._launches: dict[int, list[Launch]] = {}
        self.shares: dict[int, _Share] = {}
        loops, launches = self._steps(program.steps, loops=True), self._steps(program.steps, loops=False)
        temporaries = (*program.temporaries, *self._temporaries)
        self.program = evolve(program, steps=loops, temporaries=temporaries)
        self.launched = evolve(program, steps=launches, temporaries=temporaries)

    def _steps(self, steps: Steps, loops: bool) -> Steps:
        found: list[Step] = []
        for s in steps:
            if isinstance(s, Launch):
                known = self._launches.get(id(s))
                if known is None:
                    known = self._launches[id(s)] = self._bound(s)
                for launch in known:
                    share = self.shares.get(id(launch)) if loops else None
                    found.append(launch if share is None else CountedLoop(share.parts, (launch,), share.index))
            else:
                inside = [name for name, part in parts_of(type(s)).items() if part.role == "inside"]
                changed = {name: self._steps(getattr(s, name), loops) for name in inside}
                found.append(evolve(s, **changed) if inside else s)
        return tuple(found)

    def _bound(self, step: Launch) -> list[Launch]:
        """The launches in place of one."""
        loops = [s for s in step.kernel.body if isinstance(s, For) and s.axis.kind == "parallel"]
        if not loops:
            return [step]
        bound = bind_cores(step.kernel, _SCHEDULE)
        arguments = {b.name: a for b, a in zip(step.kernel.buffers, step.arguments, strict=True)}
        for t in bound.temporaries:
            name = next(n for k in range(len(self._names) + 1) if (n := f"{t.name}_{k}") not in self._names)
            self._names.add(name)
            arguments[t.name] = ProgramBuffer(name, t.dtype, t.shape, "temporary")
            self._temporaries.append(arguments[t.name])
        found: list[Launch] = []
        for launch in bound.launches:
            kernel, share = launch.kernel, None
            if launch.extents:
                kernel, share = self._part(kernel, loops)
            body = _serial(kernel.body)
            kernel = evolve(kernel, body=body, product=None)
            made = Launch(kernel, tuple(arguments[b.name] for b in kernel.buffers), Schedule())
            if share is not None:
                self.shares[id(made)] = share
            found.append(made)
        return found

    def _part(self, kernel: Kernel, loops: Sequence[For]) -> tuple[Kernel, _Share]:
        """The kernel for a part of the items of its grid loop, the last statement of its body."""
        *head, grid = kernel.body
        assert isinstance(grid, For)
        items = cast(int, grid.upper.value)  # type: ignore[union-attr]
        share = -(-items // self._most)
        parts = max(1, -(-items // share))
        index = Index(self._number, parts - 1)
        r = ScalarRecorder()
        start = r.op("mul", index_const(Dim.symbol(index)), index_const(share))
        stop = r.op("min", r.op("add", start, index_const(share)), index_const(items))
        loop = evolve(grid, lower=start, upper=stop, axis=SERIAL)
        alone = loops[0] if len(loops) == 1 else None
        iterations = None if alone is None else trip_count(alone)
        least, folds = (1, True) if alone is None else (alone.axis.factor, bool(alone.params))
        made = evolve(kernel, body=(*head, *r.statements, loop), dims=(*kernel.dims, index))
        return made, _Share(index, parts, iterations, least, items, share, folds)


def _serial(body: Block) -> Block:
    """Loops that are marked, and were not shared out, in order."""

    def run(block: Block) -> Block:
        return tuple([_in_order(map_blocks(s, run)) for s in block])

    return run(body)


def _in_order(s: Any) -> Any:
    return evolve(s, axis=SERIAL) if isinstance(s, For) and s.axis.kind in ("parallel", "grid") else s


class _Shared:
    """A program, run by the machine of the backend that has compiled it, parts of kernels on threads."""

    def __init__(self, backend: Backend, program: Program, pool: _Pool, place: str) -> None:
        self.program = program
        self.place = place
        shared = _SharedOut(program, pool.threads * _PARTS_A_THREAD)
        made = backend.compile(shared.program)
        if not isinstance(made, Machine):
            raise UnsupportedError(
                f"Multicore takes a backend whose programs launch kernels one by one; what {backend.name} compiles is "
                "no runner.Machine"
            )
        self._machine: Any = made
        self._plan = plan_of(shared.launched)
        self._shares = shared.shares
        self._pool = pool

    def __getattr__(self, name: str) -> Any:  # what a machine may have besides
        if name != "call":
            raise AttributeError(name)
        return self._machine.call

    def run(self, inputs: Sequence[Any], dims: dict[str, int]) -> list[Any]:
        return run_program(self._plan, self, inputs, dims)

    def text(self, stage: str) -> str:
        return self._machine.text(stage)

    # What the runner asks for

    def allocate(self, dtype: str, shape: tuple[int, ...]) -> Any:
        return self._machine.allocate(dtype, shape)

    def upload(self, array: Any, layout: str) -> Any:
        return self._machine.upload(array, layout)

    def download(self, memory: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        return self._machine.download(memory, dtype, shape)

    def copy(self, target: Any, source: Any) -> None:
        self._machine.copy(target, source)

    def launch(self, step: Launch, arguments: Sequence[Any], dims: Mapping[str, int]) -> None:
        share = self._shares.get(id(step))
        if share is None:
            self._machine.launch(step, arguments, dims)
            return

        def part(number: int) -> None:
            self._machine.launch(step, arguments, {**dims, share.index: number})

        self._pool.run(share.count(dims), part)


class _Resident(_Shared):
    """The same, of a backend whose memory is NumPy's: arrays stay where they are."""

    def upload(self, array: Any, layout: str) -> Any:
        if isinstance(array, SharedArray) and array.place == self.place:
            array = array.memory
        elif isinstance(array, Resident):
            raise UnsupportedError(
                f"an argument lies on {array.place}, and the function runs on {self.place}; move it there: "
                f"tj.device_put(x, {self.place!r})"
            )
        return self._machine.upload(array, layout)

    def run(self, inputs: Sequence[Any], dims: dict[str, int]) -> list[Any]:
        for check in pending_on(inputs):
            check.look()
        return super().run(inputs, dims)

    def run_resident(
        self, inputs: Sequence[Any], dims: dict[str, int], explain: Callable[[int], Exception]
    ) -> list[Resident]:
        """The results, on the device; checks are looked at when somebody looks at these."""
        later = Later(explain, pending_on(inputs))
        found = run_arguments(self._plan, self, inputs, dims, later)
        pending = at_most(later.checks, bool(found))
        foreign = [x for x in inputs if isinstance(x, np.ndarray)]  # which their owners may change
        results: list[Resident] = []
        for memory, b, shape in found:
            made = np.asarray(self.download(memory, b.dtype, shape)).reshape(shape)
            made = made.copy() if any(np.may_share_memory(made, x) for x in foreign) else made
            results.append(SharedArray(made, self.place, pending))
        return results

    def straight(self, inputs: Sequence[Resident], dims: Mapping[str, int], explain: Any) -> None:
        return None


# -- threads -----------------------------------------------------------------------------------------------------------
class _Pool:
    """Threads that help the one that calls."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._executor: tuple[int, ThreadPoolExecutor] | None = None

    def run(self, count: int, work: Callable[[int], None]) -> None:
        """Call `work` with each number below `count`, and return when all calls have.  Raises: what one has raised."""
        left = list(range(count))

        def take() -> None:
            while True:
                try:
                    number = left.pop()
                except IndexError:
                    return
                work(number)

        helpers: list[Future[None]] = []
        if min(count, self.threads) > 1:
            executor = self._helpers()
            helpers = [executor.submit(take) for _ in range(min(count, self.threads) - 1)]
        try:
            take()
        finally:
            left.clear()
            wait([h for h in helpers if not h.cancel()])
        for helper in helpers:
            if not helper.cancelled():
                helper.result()

    def _helpers(self) -> ThreadPoolExecutor:
        if self._executor is None or self._executor[0] != os.getpid():  # a fork has no threads
            self._executor = os.getpid(), ThreadPoolExecutor(self.threads - 1, "tracejit")
        return self._executor[1]
