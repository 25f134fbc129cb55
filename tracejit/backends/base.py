"""The contract of a backend."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from tracejit.support.errors import BackendUnavailable, UnsupportedError
from tracejit.support.members import Member, Members
from tracejit.support.nodes import field, frozen

if TYPE_CHECKING:
    from tracejit.backends.callable import CompiledFunction
    from tracejit.backends.entry import EntrySpec, ProgramSlot, Slot
    from tracejit.ir.forms import Form
    from tracejit.ir.program import Program
    from tracejit.tracer.captured import Dependencies

__all__ = [
    "DEVICE_KINDS",
    "Backend",
    "Compiled",
    "Dispatcher",
    "Entered",
    "Entry",
    "KeepsResults",
    "LoweringRule",
    "NativeCalls",
    "Pending",
    "Resident",
    "Target",
    "Timed",
]


DEVICE_KINDS = Members("device kind", "cpu", "gpu")
"""What a device is: the host's processor, or something else.  Packages add their own."""


@frozen
class Target:
    """What code generation may use, and is asked before code is made.

    vector_bits: of its vectors; schedules say which loops become lanes.  grid: it shares loops out over a grid itself;
    schedules set options of that.  threads: schedules say which loops are parallel where there are several.  A target
    with none of these gets its loops as they are.
    fma: products and sums are rounded once in one instruction (where not, elementary functions do without).
    lacks: what it cannot compute, with the reason and what to do instead: a dtype ("f64"), a scalar operation ("exp"),
    or one of a dtype ("exp.f16").
    device: the processor in words.  driver: versions of what compiles for it.  Tuned schedules are kept for both.
    """

    name: str
    vector_bits: int = 0
    threads: int = 1
    grid: bool = False
    fma: bool = True
    lacks: Mapping[str, str] = field(factory=dict[str, str])
    device: str = ""
    driver: str = ""

    def reason(self, op: str, dtype: str) -> str:
        """Why it lacks an operation on a dtype; empty if it does not."""
        asked = (self.lacks.get(name) for name in (dtype, op, f"{op}.{dtype}"))
        return next((why for why in asked if why), "")


class Compiled(Protocol):
    """A compiled program: `run` takes the leaves in signature order and returns the results; `text` gives "code" and
    "asm", or raises UnsupportedError where it has none.

    What it reads, writes and takes over of its arguments is `effects_of(program)` (`ir.effects`).
    """

    program: Program

    def run(self, inputs: Sequence[np.ndarray[Any, Any]], dims: dict[str, int]) -> list[Any]: ...

    def text(self, stage: str) -> str: ...


class Pending:
    """A check of a program that is not waited for: nobody has looked yet whether it has failed.

    read: gives the failure, 0 where there is none, once the program has run.  explain: the error of a failure.
    """

    __slots__ = ("_explain", "_failure", "_read")

    def __init__(self, read: Callable[[], int], explain: Callable[[int], Exception]) -> None:
        self._read: Callable[[], int] | None = read
        self._explain = explain
        self._failure = 0

    @property
    def passed(self) -> bool:
        """Whether it is known that nothing has failed."""
        return self._read is None and not self._failure

    def look(self) -> None:
        """Wait for the check.   Raises: the error where it has failed, each time a new one."""
        read = self._read
        if read is not None:
            self._failure = read()
            self._read = None
        if self._failure:
            raise self._explain(self._failure)


class Resident(ABC):
    """An array in the memory of a device, which never changes.

    place: of the device, "opencl:0".  kind: equal for two arrays that the same programs take.  pending: checks on which
    its values depend; they are looked at before these are.
    """

    __slots__ = ("dtype", "kind", "pending", "place", "shape")

    def __init__(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], place: str, pending: tuple[Pending, ...] = ()
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.place = place
        self.kind = (place, dtype, shape)
        self.pending = pending

    def look(self) -> None:
        """Wait for the checks on which the values depend.   Raises: the error of one that has failed."""
        for check in self.pending:
            check.look()
        self.pending = ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @abstractmethod
    def host(self) -> Any:
        """A NumPy array with its elements, which must not be written; a NumPy scalar for rank 0.

        Raises: what the computation of them has raised.
        """

    @abstractmethod
    def part(self, index: tuple[Any, ...]) -> Resident:
        """The elements that an index of integers, slices, None and an ellipsis takes, on the same device.

        Raises: IndexError.
        """

    @abstractmethod
    def wait(self) -> None:
        """Return once it is computed."""

    def cuda_address(self) -> int | None:
        """Where its elements are, once they are computed, for others that use CUDA; None on other devices.

        Raises: what the computation of them has raised.
        """
        return None


@runtime_checkable
class KeepsResults(Protocol):
    """A compiled program that takes arrays on its device, and can leave its results there.

    A check of the program is not waited for: it is `pending` on the results, and `explain` makes its error.  So are the
    checks that are pending on the arguments.

    straight: what runs it, without any checks, for arguments of the same kinds as these, which all lie on the device;
    None where it takes more than launches and checks.
    """

    def run_resident(
        self,
        inputs: Sequence[np.ndarray[Any, Any] | Resident],
        dims: dict[str, int],
        explain: Callable[[int], Exception],
    ) -> list[Resident]: ...

    def straight(
        self, inputs: Sequence[Resident], dims: Mapping[str, int], explain: Callable[[int], Exception]
    ) -> Callable[[Sequence[Resident]], list[Resident]] | None: ...


class Timed(Protocol):
    """A compiled program that can be measured: backends whose schedules are tuned return such from `compile`."""

    def prepare(self, inputs: Sequence[np.ndarray[Any, Any]], dims: dict[str, int]) -> Callable[[], None]:
        """A function that runs the program once on arguments that are in place,
        and waits for the end.  It may be called many times.
        """
        ...

    def identity(self) -> str | bytes:
        """What runs: equal for two programs only if their code and the way it is launched are equal."""
        ...


class Dispatcher(Protocol):
    """What a compiled function's calls go to: entries tried in turn."""

    @property
    def callable(self) -> Callable[..., Any]:
        """What is to be called in the function's place."""
        ...

    def clear(self) -> None:
        """Forget all entries.  Calls in progress finish."""
        ...


class Entry(Protocol):
    """The entry of one version among those of its function."""

    @property
    def compiled(self) -> Compiled:
        """The program that it runs."""
        ...

    def install(self, dependencies: Dependencies, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Serve calls with these captured arrays, as long as the dependencies hold."""
        ...

    def holds(self) -> bool:
        """Whether all is as it should be: the entry would match, as far as names outside of the function go,
        or is not yet there.
        """
        ...

    def finish(self) -> None:
        """Have the program in its final form now, where the backend would take its time.   Raises: CompileError."""
        ...

    def remove(self) -> None:
        """Serve no more calls."""
        ...


@frozen(eq=False)
class Entered:
    """What an entry runs, and on what it depends.

    numbers: inputs that are Python numbers.  dims: the extents of the call that it is made for.  arrays: those that the
    function reads from outside.  again: what makes a call whose program has failed a check once more, from Python.
    """

    program: Program
    numbers: frozenset[int]
    dims: Mapping[str, int]
    dependencies: Dependencies
    arrays: Sequence[np.ndarray[Any, Any]]
    again: Callable[..., Any]


class NativeCalls(Protocol):
    """How calls of compiled functions reach programs of this process without Python."""

    def slots(self, program: Program, numbers: frozenset[int]) -> Sequence[ProgramSlot]:
        """The argument block of a program."""
        ...

    def dispatcher(self, function: CompiledFunction, miss: Callable[..., Any], name: str) -> Dispatcher:
        """What calls of `function` go to from now on; those that no entry serves go to `miss`."""
        ...

    def enter(
        self,
        dispatcher: Callable[[], Any],
        spec: EntrySpec,
        slots: Callable[[Sequence[Any]], tuple[Slot, ...]],
        entered: Entered,
    ) -> Entry:
        """Compile a program with its entry, and have the dispatcher try it, at once or after some calls.

        dispatcher: gives the function's.  slots: what fills the block, given the captured arrays.

        Raises: CompileError.
        """
        ...

    def compile(self, program: Program, dims: Mapping[str, int]) -> Compiled:
        """Compile a program that is called from Python only, first with these extents.   Raises: CompileError."""
        ...


@frozen(eq=False)
class LoweringRule:
    """A backend's own form of a primitive: `rule(primitive, builder, *operands)`, used where `predicate(primitive,
    *avals)` holds.

    alternative: its name, if only functions that ask for it by `jit(alternatives=...)` use the rule.
    """

    primitive: str
    rule: Callable[..., Form]
    predicate: Callable[..., bool] | None = None
    alternative: str = ""


class Backend:
    """One backend: a folder with a subclass of this, registered by name.  What it says it can do is asked for;
    its name is not.
    """

    name: ClassVar[str]
    donates: ClassVar[bool] = False
    """Whether programs may write into arguments that the caller gives up; else they work on copies."""
    calls_libraries: ClassVar[bool] = False
    """Whether programs may call functions of libraries that are loaded into this process."""
    is_scheduled: ClassVar[bool] = False
    """Whether schedules change how fast kernels are, so that `tj.tune` searches them; then compiled programs are
    `Timed`."""
    lowerings: ClassVar[tuple[LoweringRule, ...]] = ()
    """Its own forms of primitives."""
    zero_copy: ClassVar[bool] = False
    """Whether its programs work in memory that the host shares: NumPy's arrays are used in place, and those of
    `alloc_zero_copy` are its own.
    """

    def alloc_zero_copy(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """A row-major array in memory that host and device share; what is in it does not matter.  dtype: as kernels
        name it, "f32".

        Raises: UnsupportedError where none is shared, OutOfMemory.
        """
        raise UnsupportedError(f"the {self.name} backend shares no memory with the host; tj.device_put copies arrays")

    def fault_of_spelling(self, spelling: object, arity: int) -> str:
        """Why something is no spelling of a scalar operation of so many operands (`backends.intrinsics`), as the rest
        of a sentence; empty if it is one.
        """
        return ""

    def fault_of_kernel(self, source: object) -> str:
        """Why something is no source of a whole kernel (`tj.native.kernel`), as the rest of a sentence; empty if it is
        one.
        """
        return f"is not taken: the {self.name} backend runs no kernels of users"

    def places(self) -> Mapping[str, str]:
        """The devices that arrays can lie on, "opencl:0", with their names in words; none where programs work on the
        host's memory.
        """
        return {}

    @property
    def place(self) -> str:
        """The one of `places` where its programs run; empty: the host."""
        return ""

    @property
    def kind(self) -> Member:
        """What its device is, one of `DEVICE_KINDS`."""
        return DEVICE_KINDS("cpu")

    @property
    def accelerates(self) -> bool:
        """Whether its device is something else than the processor of the host, so that `backend="auto"` takes it."""
        return self.kind != "cpu"

    def at(self, place: str) -> Backend:
        """The same backend for another of its `places`.  Raises BackendUnavailable where that is none."""
        raise BackendUnavailable(f"the {self.name} backend has no device {place!r}")

    def put(self, array: np.ndarray[Any, Any], place: str) -> Resident:
        """A copy of a contiguous array on one of `places`.  Raises OutOfMemory."""
        raise NotImplementedError

    def put_from_cuda(self, interface: Mapping[str, Any], place: str) -> Resident:
        """A copy, on one of `places`, of what another package has on a CUDA device, as its `__cuda_array_interface__`
        tells.

        Raises: UnsupportedError where it cannot be reached, and for elements that do not lie one behind another.
        """
        raise UnsupportedError(
            f"an array on a CUDA device goes to a device of the backend 'cuda', not to {place!r}; copy it to the host "
            "first"
        )

    def native_calls(self) -> NativeCalls | None:
        """How calls reach its programs without Python, None if they do not."""
        return None

    def target(self) -> Target:
        raise NotImplementedError

    def compile(self, program: Program) -> Compiled:
        """The scheduled program as an executable.  Raises CompileError, UnsupportedError.

        One that launches kernels one by one offers a `runner.Machine`, and leaves the walk of the program to it, which
        also poisons memory where TRACEJIT_POISON asks for it; one that allocates by itself does.  One that prints them
        as C gives `c_like.print_kernels` what `grid.bind_grid` (a grid) or `nest.printable` (one thread) makes of each;
        the printer takes what users spell for the backend.  A printer of another language asks
        `intrinsics.intrinsics_of(name)` for that first.  The text to compile is `program.code(printed)`.
        """
        raise NotImplementedError
