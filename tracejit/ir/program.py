"""The program IR: the order of kernels over buffers, with the loops and branches between them.

    program = buffers, steps
    step    = launch kernel(buffers) | call symbol(buffers, constants) | copy target <- source | swap a, b
            | while { steps } flag { steps }    the second block as long as the flag (a buffer: bool, rank 0) is true
            | for count { steps }               a constant or symbolic number of times
            | if flag { steps } else { steps }
            | check failure                     ends the program with an error if the buffer (i64, rank 0) is not 0

A buffer is input, output or temporary; an input among the outputs is donated: that result lies in the argument.
`swap` exchanges what two buffers stand for, so that carries double-buffer without copies.  Every backend runs programs:
the CPU compiles them, others walk them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, assert_never

from tracejit.ir.extents import Extent, Shape, prod
from tracejit.ir.forms import Environment
from tracejit.ir.kernel import Const, Kernel
from tracejit.ir.passes.contract import ProductGroup
from tracejit.ir.schedule import Schedule
from tracejit.support.nodes import frozen

__all__ = [
    "Branch", "Call", "Check", "Copy", "CountedLoop", "Launch", "Program", "ProgramBuffer", "Step", "Steps", "Swap",
    "WhileLoop", "nested", "show_steps", "walk_steps",
]  # fmt: skip


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


@frozen(eq=False)
class Launch:
    """Run a kernel; `arguments` are in the order of its parameters, `schedule` is what was applied to it.

    product: of a matrix product what its kernel is made of, for other tiles.
    """

    kernel: Kernel
    arguments: tuple[ProgramBuffer, ...]
    schedule: Schedule = Schedule()
    product: ProductGroup | None = None


@frozen(eq=False)
class Call:
    """Call `symbol` of a library: arguments are buffers (their addresses, row-major) and constants;
    all of `writes` is written.
    """

    symbol: str
    environment: Environment
    arguments: tuple[ProgramBuffer | Const, ...]
    writes: tuple[ProgramBuffer, ...]

    @property
    def buffers(self) -> tuple[ProgramBuffer, ...]:
        return tuple(a for a in self.arguments if isinstance(a, ProgramBuffer))


@frozen(eq=False)
class Copy:
    """All elements of `source` into `target`; nothing where both stand for the same memory."""

    target: ProgramBuffer
    source: ProgramBuffer


@frozen(eq=False)
class Swap:
    """Exchanges what two buffers of one shape and dtype stand for."""

    a: ProgramBuffer
    b: ProgramBuffer


@frozen(eq=False)
class WhileLoop:
    """Runs `condition`, which sets `flag`, and `body` while it is true."""

    condition: Steps
    flag: ProgramBuffer
    body: Steps


@frozen(eq=False)
class CountedLoop:
    """Runs `body` `count` times."""

    count: Extent
    body: Steps


@frozen(eq=False)
class Branch:
    """Runs `then` if `flag` is true, `orelse` if not."""

    flag: ProgramBuffer
    then: Steps
    orelse: Steps


@frozen(eq=False)
class Check:
    """Ends the program if `failure` (i64, rank 0) is not 0: what it has written so far counts for nothing."""

    failure: ProgramBuffer


Step: TypeAlias = Launch | Call | Copy | Swap | WhileLoop | CountedLoop | Branch | Check
Steps: TypeAlias = tuple[Step, ...]


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
        lines = [f"program {self.name}({', '.join(self.dims)}) {{"]
        for b in dict.fromkeys((*self.inputs, *self.outputs, *self.temporaries)):
            layout = ("" if b.layout == "C" else " " + b.layout) + (
                " donated" if b.role == "input" and b in self.outputs else ""
            )
            lines.append(f"  {b.role} {b.name}: {b.dtype}[{', '.join(map(str, b.shape))}]{layout}")
        lines += show_steps(self.steps, 1)
        return "\n".join([*lines, "}"])

    @property
    def checked(self) -> bool:
        """Whether it may end with a failure."""
        return any(isinstance(s, Check) for s in self.steps)

    def kernels(self) -> list[Kernel]:
        return [s.kernel for s in walk_steps(self.steps) if isinstance(s, Launch)]


def nested(step: Step) -> tuple[Steps, ...]:
    """The blocks of steps inside of a step."""
    match step:
        case WhileLoop():
            return (step.condition, step.body)
        case CountedLoop():
            return (step.body,)
        case Branch():
            return (step.then, step.orelse)
        case Launch() | Call() | Copy() | Swap() | Check():
            return ()
        case _:
            assert_never(step)


def walk_steps(steps: Steps) -> Iterator[Step]:
    """Every step, nested ones after their parent."""
    stack = list(reversed(steps))
    while stack:
        s = stack.pop()
        yield s
        for block in reversed(nested(s)):
            stack.extend(reversed(block))


def show_steps(steps: Steps, depth: int = 0) -> list[str]:
    """The lines of steps."""
    pad, out = "  " * depth, []
    for s in steps:
        match s:
            case Launch():
                out.append(f"{pad}launch {s.kernel.name}({', '.join(a.name for a in s.arguments)})")
            case Call():
                arguments = ", ".join(a.name if isinstance(a, ProgramBuffer) else repr(a) for a in s.arguments)
                out.append(f"{pad}call {s.environment.name}.{s.symbol}({arguments})")
            case Copy():
                out.append(f"{pad}copy {s.target.name} <- {s.source.name}")
            case Swap():
                out.append(f"{pad}swap {s.a.name}, {s.b.name}")
            case WhileLoop():
                out += [
                    f"{pad}while {{",
                    *show_steps(s.condition, depth + 1),
                    f"{pad}}} {s.flag.name} {{",
                    *show_steps(s.body, depth + 1),
                    f"{pad}}}",
                ]
            case CountedLoop():
                out += [f"{pad}for {s.count} {{", *show_steps(s.body, depth + 1), f"{pad}}}"]
            case Branch():
                out += [
                    f"{pad}if {s.flag.name} {{",
                    *show_steps(s.then, depth + 1),
                    f"{pad}}} else {{",
                    *show_steps(s.orelse, depth + 1),
                    f"{pad}}}",
                ]
            case Check():
                out.append(f"{pad}check {s.failure.name}")
            case _:
                assert_never(s)
    return out
