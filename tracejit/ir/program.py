"""The program IR: the order of kernels over buffers, with the loops and branches between them.

    program = buffers, steps
    step    = launch kernel(buffers) | call symbol(buffers, constants) | python function(buffers)
            | copy target <- source | swap a, b
            | while { steps } flag { steps }    the second block as long as the flag (a buffer: bool, rank 0) is true
            | for index in count { steps }      a constant or symbolic number of times; extents may have the index
            | if flag { steps } else { steps }
            | extent index is count     from here to the end of the block a symbol of extents is a buffer (i64, rank 0)
            | check failure                     ends the program with an error if the buffer (i64, rank 0) is not 0

A buffer is input, output or temporary; an input among the outputs is donated: that result lies in the argument.
`swap` exchanges what two buffers stand for, so that carries double-buffer without copies.  Every backend runs programs:
the CPU compiles them, others walk them.

A step is a class that says of each field what it is to memory (`read`, `written`, `exchanged`, `passed`) and to the
order of steps (`inside`), and by `syntax` how it is written.  `mentions`, `step_effects`, `nested`, `walk_steps`,
`replace_in_step` below, the verifier, printer and parser follow from that: a new step is a class here and an entry in
`Step`, what runs it in `backends/runner.py` and the CPU's `codegen/program.py` (and `work.py` there, how much it does),
and who makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, dataclass_transform

from tracejit.ir.extents import Extent, Shape, greater_extent, greatest_extent, has_count, prod, surely_at_most
from tracejit.ir.forms import Environment, HostFunction, KernelSources
from tracejit.ir.kernel import Buffer, Const, Kernel, accesses_of, walk
from tracejit.ir.passes.contract import ProductGroup
from tracejit.ir.printed import printed
from tracejit.ir.schedule import Schedule
from tracejit.support.nodes import evolve, field, fields_of, frozen

__all__ = [
    "BindExtent", "Branch", "Call", "Check", "Copy", "CountedLoop", "HostCall", "KernelCall", "Launch", "Program",
    "ProgramBuffer", "Part", "STEPS", "Step", "Steps", "Swap", "WhileLoop", "kernel_effects", "mentions",
    "nested", "parts_of", "replace_in_step", "step_effects", "walk_steps",
]  # fmt: skip

T = TypeVar("T")


@frozen(eq=False)
class ProgramBuffer:
    """Memory a program works on.  role: "input", "output", "temporary"; layout as in kernels (inputs only)."""

    name: str
    dtype: str
    shape: Shape
    role: str
    layout: str = "C"

    @property
    def size(self) -> Extent:
        return prod(self.shape)

    @property
    def room(self) -> Shape:
        """Its shape where it is largest: the index of a loop may be in its extents.

        Where the program computes an extent there is one element at least: an index that is outside reads it.
        """
        least = [1 if has_count(n) else 0 for n in self.shape]
        most = [greatest_extent(n) for n in self.shape]
        return tuple([n if surely_at_most(k, n) else greater_extent(n, k) for n, k in zip(most, least, strict=True)])


# -- what the fields of a step are -------------------------------------------------------------------------------------
Runs: TypeAlias = Literal["once", "perhaps", "either"]


@frozen
class Part:
    """What a field of a step is.

    role: "read", "written", "exchanged" (both), "passed", "inside", "extent".  dtype: of a scalar that is read.  runs:
    of a block inside, whether it runs once at least, perhaps never, or it is one of those that the step chooses from.
    """

    role: str
    dtype: str = ""
    runs: Runs = "once"


def read(dtype: str = "") -> Any:
    """A field: a buffer that the step reads.  dtype: where it must be a scalar, its dtype."""
    return field(metadata={"part": Part("read", dtype)})


def written() -> Any:
    """A field: a buffer that the step fills, or several."""
    return field(metadata={"part": Part("written")})


def exchanged() -> Any:
    """A field: a buffer that stands for other memory afterwards."""
    return field(metadata={"part": Part("exchanged")})


def passed() -> Any:
    """A field: arguments, buffers among them.  The step has a method `accesses`: (those it reads, those it writes)."""
    return field(metadata={"part": Part("passed")})


def inside(runs: Runs) -> Any:
    """A field: a block of steps.  Blocks and what is read come in the order in which the fields stand."""
    return field(metadata={"part": Part("inside", runs=runs)})


def extent() -> Any:
    """A field: a number, constant or symbolic."""
    return field(metadata={"part": Part("extent")})


STEPS: list[type] = []
"""The classes of steps, in the order of their definition."""
_PARTS: dict[type, dict[str, Part]] = {}
_BLOCKS: dict[type, tuple[str, ...]] = {}


@dataclass_transform(
    frozen_default=True, eq_default=False, field_specifiers=(field, read, written, exchanged, passed, inside, extent)
)
def step(cls: type[T]) -> type[T]:
    """A class of steps: a node whose fields say what they are."""
    made = frozen(eq=False)(cls)
    _PARTS[made] = {f.name: f.metadata["part"] for f in fields_of(made) if "part" in f.metadata}
    _BLOCKS[made] = tuple([name for name, part in _PARTS[made].items() if part.role == "inside"])
    STEPS.append(made)
    return made


# -- the steps ---------------------------------------------------------------------------------------------------------
@step
class Launch:
    """Run a kernel; `arguments` are in the order of its parameters, `schedule` is what was applied to it.

    product: of a matrix product what its kernel is made of, for other tiles.
    """

    syntax: ClassVar = "launch {kernel}({arguments})"

    kernel: Kernel
    arguments: tuple[ProgramBuffer, ...] = passed()
    schedule: Schedule = Schedule()
    product: ProductGroup | None = None

    def accesses(self) -> tuple[list[ProgramBuffer], list[ProgramBuffer]]:
        """(the buffers it reads, those it writes)"""
        reads, writes = kernel_effects(self.kernel)
        pairs = list(zip(self.kernel.buffers, self.arguments, strict=True))
        return [a for b, a in pairs if b in reads], [a for b, a in pairs if b in writes]


@step
class Call:
    """Call `symbol` of a library: arguments are buffers (their addresses, row-major) and constants;
    all of `writes` is written.
    """

    syntax: ClassVar = "call {function}({arguments}) writes {writes}"

    symbol: str
    environment: Environment | KernelSources | HostFunction
    arguments: tuple[ProgramBuffer | Const, ...] = passed()
    writes: tuple[ProgramBuffer, ...] = written()

    @property
    def function(self) -> str:
        """The symbol and where it is found."""
        return f"{self.environment.name}.{self.symbol}"

    @property
    def buffers(self) -> tuple[ProgramBuffer, ...]:
        return tuple(a for a in self.arguments if isinstance(a, ProgramBuffer))

    def accesses(self) -> tuple[list[ProgramBuffer], list[ProgramBuffer]]:
        """(the buffers it reads, those it writes)"""
        return [a for a in self.buffers if a not in self.writes], [*self.writes]


@step
class KernelCall(Call):
    """The same of a kernel that a user has written, `grid` groups of it; on one thread it is called once."""

    syntax: ClassVar = "run {function}({arguments}) on {grid} writes {writes}"

    grid: Extent = extent()


@step
class HostCall(Call):
    """Calls a function of Python's and waits for it; it gets arrays of the shapes that the buffers have."""

    syntax: ClassVar = "python {function}({arguments}) writes {writes}"


@step
class Copy:
    """All elements of `source` into `target`; nothing where both stand for the same memory."""

    syntax: ClassVar = "copy {target} <- {source}"
    alike: ClassVar = ("target", "source")

    target: ProgramBuffer = written()
    source: ProgramBuffer = read()


@step
class Swap:
    """Exchanges what two buffers of one shape and dtype stand for."""

    syntax: ClassVar = "swap {a}, {b}"
    alike: ClassVar = ("a", "b")

    a: ProgramBuffer = exchanged()
    b: ProgramBuffer = exchanged()


@step
class WhileLoop:
    """Runs `condition`, which sets `flag`, and `body` while it is true."""

    syntax: ClassVar = "while {condition} {flag} {body}"

    condition: Steps = inside("once")
    flag: ProgramBuffer = read("bool")
    body: Steps = inside("perhaps")


@step
class CountedLoop:
    """Runs `body` `count` times.  index: the symbol that is the number of the iteration there, `_` if none is."""

    syntax: ClassVar = "for {index} in {count} {body}"

    count: Extent = extent()
    body: Steps = inside("once")  # stacked results have no elements where it does not run
    index: str = "_"


@step
class Branch:
    """Runs `then` if `flag` is true, `orelse` if not."""

    syntax: ClassVar = "if {flag} {then} else {orelse}"

    flag: ProgramBuffer = read("bool")
    then: Steps = inside("either")
    orelse: Steps = inside("either")


@step
class BindExtent:
    """From here to the end of the block the symbol `index` of extents is `count`, which is `most` at most."""

    syntax: ClassVar = "extent {index} is {count} most {most}"

    count: ProgramBuffer = read("i64")
    index: str
    most: Extent = extent()


@step
class Check:
    """Ends the program if `failure` (i64, rank 0) is not 0: what it has written so far counts for nothing."""

    syntax: ClassVar = "check {failure}"

    failure: ProgramBuffer = read("i64")


Step: TypeAlias = (
    Launch | Call | KernelCall | HostCall | Copy | Swap | WhileLoop | CountedLoop | Branch | BindExtent | Check
)
Steps: TypeAlias = tuple[Step, ...]


# -- what follows from that --------------------------------------------------------------------------------------------
def parts_of(kind: type) -> dict[str, Part]:
    """The fields of a class of steps that are buffers, blocks and extents, in order."""
    return _PARTS[kind]


def _buffers(value: Any) -> tuple[ProgramBuffer, ...]:
    """Those of a field."""
    return tuple([x for x in (value if isinstance(value, tuple) else (value,)) if isinstance(x, ProgramBuffer)])


def mentions(s: Step) -> tuple[ProgramBuffer, ...]:
    """The buffers one step names, without those of nested blocks."""
    fields = [getattr(s, name) for name, part in _PARTS[type(s)].items() if part.role != "inside"]
    return tuple(dict.fromkeys([b for value in fields for b in _buffers(value)]))


def kernel_effects(kernel: Kernel) -> tuple[set[Buffer], set[Buffer]]:
    """(the parameters a kernel reads, those it writes)"""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    for s in walk(kernel.body):
        for access in accesses_of(s):
            if access.reads:
                reads.add(access.buffer)
            if access.writes:
                writes.add(access.buffer)
    parameters = set(kernel.buffers)
    return reads & parameters, writes & parameters


def step_effects(s: Step) -> tuple[set[ProgramBuffer], set[ProgramBuffer]]:
    """(the buffers one step reads, those it writes), without the steps inside of it; a swap does both to both."""
    reads: set[ProgramBuffer] = set()
    writes: set[ProgramBuffer] = set()
    for name, part in _PARTS[type(s)].items():
        match part.role:
            case "read":
                reads.add(getattr(s, name))
            case "written":
                writes.update(_buffers(getattr(s, name)))
            case "exchanged":
                reads.add(getattr(s, name))
                writes.add(getattr(s, name))
            case "passed":
                own_reads, own_writes = s.accesses()  # type: ignore[union-attr]
                reads.update(own_reads)
                writes.update(own_writes)
            case _:
                pass
    return reads, writes


def nested(s: Step) -> tuple[Steps, ...]:
    """The blocks of steps inside of a step."""
    return tuple([getattr(s, name) for name in _BLOCKS[type(s)]])


def walk_steps(steps: Steps) -> Iterator[Step]:
    """Every step, nested ones after their parent."""
    stack = list(reversed(steps))
    while stack:
        s = stack.pop()
        yield s
        for block in reversed(nested(s)):
            stack.extend(reversed(block))


def replace_in_step(s: Step, buffers: Mapping[ProgramBuffer, ProgramBuffer]) -> Step:
    """The step, and those inside of it, on other buffers."""

    def replaced(x: Any, part: Part) -> Any:
        if part.role == "inside":
            return tuple([replace_in_step(inner, buffers) for inner in x])
        return tuple([buffers.get(y, y) for y in x]) if isinstance(x, tuple) else buffers.get(x, x)

    parts = {name: part for name, part in _PARTS[type(s)].items() if part.role != "extent"}
    return evolve(s, **{name: replaced(getattr(s, name), part) for name, part in parts.items()})


@frozen(eq=False)
class Program:
    """Steps over buffers.  `inputs` and `outputs` in the order of the signature; `dims` are the symbolic extents.

    edit: what the text of its code becomes before it is compiled, where that is asked for.
    """

    name: str
    inputs: tuple[ProgramBuffer, ...]
    outputs: tuple[ProgramBuffer, ...]
    temporaries: tuple[ProgramBuffer, ...]
    steps: Steps
    dims: tuple[str, ...] = ()
    edit: Callable[[str], str] | None = None

    def code(self, text: str) -> str:
        """The code to compile where a backend has printed `text`."""
        return text if self.edit is None else self.edit(text)

    def __str__(self) -> str:
        return printed("program", self)

    @property
    def checked(self) -> bool:
        """Whether it may end with a failure."""
        return any(isinstance(s, Check) for s in self.steps)

    @property
    def calls_python(self) -> bool:
        """Whether it may call functions of Python's: it must not run again to find out how it has failed."""
        return any(isinstance(s, HostCall) for s in walk_steps(self.steps))

    def kernels(self) -> list[Kernel]:
        return [s.kernel for s in walk_steps(self.steps) if isinstance(s, Launch)]
