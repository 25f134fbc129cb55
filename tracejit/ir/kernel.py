"""The kernel IR: structured single-assignment loops over buffers.  The narrow waist: every form becomes it, every backend prints it.

    kernel    = name, parameters (buffers, dims), block
    statement = out = op(args)                      a scalar operation of `ir.scalar`
              | out = load buffer[index]
              | store buffer[index] = value
              | alloc buffer                        in a memory space; lives to the end of the enclosing block
              | for index in lower..upper axis carry(params = inits) { block; yield } -> results   [combine]
              | while carry(params = inits) test { block } do { block; yield } -> results
              | if condition { block; yield } else { block; yield } -> results
              | atomic op buffer[index] value | barrier | out = call symbol(args)
              | outs = prefix(elements)             the running fold of the enclosing scan loop, this iteration included
    operand   = value | constant (a number, or a polynomial of dims)

`for` with `combine` is a reduction: iterations may be partitioned over lanes, threads or blocks, each part starting from the
identity `inits`, and joined by `combine`.  A `for` whose body has a `prefix` is a scan: its `combine` says how, its params enter
only there, its yields are the prefix's outs.  `for` without `combine` and with carries is a recurrence.  Indices are i64.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

from tracejit.ir.types import Dim, Extent
from tracejit.support.nodes import evolve, field, node, value
from tracejit.support.source import Location

__all__ = [
    "Alloc", "Atomic", "Axis", "Barrier", "Block", "Buffer", "Call", "Const", "For", "If", "Kernel", "Lambda", "Load", "Op",
    "Operand", "PARALLEL", "Prefix", "Read", "SERIAL", "Statement", "Store", "Value", "While", "blocks", "const", "index_const",
    "operands_of", "results_of", "walk",
]  # fmt: skip

_ids = itertools.count()


class Value:
    """One scalar of a kernel; compared by identity."""

    __slots__ = ("dtype", "id")

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.id = next(_ids)

    def __repr__(self) -> str:
        return f"%{self.id}:{self.dtype}"


def _identity(value: Any) -> Any:
    """What tells constants apart: 0.0 and -0.0 differ, a NaN equals itself, extents compare by their text."""
    if type(value) is float:
        return value.hex()
    return value.terms if isinstance(value, Dim) else value


@value
class Const:
    """A constant: a Python number, or (for i64) a polynomial of symbolic extents."""

    value: Any
    dtype: str

    def __eq__(self, other: object) -> bool:
        return type(other) is Const and self.dtype == other.dtype and _identity(self.value) == _identity(other.value)

    def __hash__(self) -> int:
        return hash((self.dtype, _identity(self.value)))

    def __repr__(self) -> str:
        return f"{self.value}:{self.dtype}"


Operand: TypeAlias = Value | Const


def const(value: Any, dtype: str) -> Const:
    """A constant of one of the kernel dtypes."""
    return Const(value, dtype)


def index_const(value: Any) -> Const:
    """An extent, offset or stride as an i64 constant."""
    return Const(value if isinstance(value, Dim) else int(value), "i64")


@node
class Buffer:
    """Memory with a shape.

    layout: "C" (row-major, contiguous), "unit" (any byte strides, the last one the item size), "strided" (any byte strides, zero and
    negative included; stride values are run-time arguments).  space: "global", "shared", "local".
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...] = field(converter=lambda shape: tuple(n.value if isinstance(n, Const) else n for n in shape))
    layout: str = "C"
    space: str = "global"
    alignment: int = 0


@value
class Axis:
    """How a loop runs.  kind: serial, parallel, vector, unroll, grid, block, lane.

    vector: `width` lanes, `factor` vectors in flight.  unroll: `factor` copies, jammed.  parallel: `factor` iterations a chunk at least.
    """

    kind: str = "serial"
    width: int = 1
    factor: int = 1


SERIAL = Axis()
PARALLEL = Axis("parallel")

Block: TypeAlias = "tuple[Statement, ...]"


@node
class Lambda:
    """Index variables (or scalars) to scalars: the body of a form, a combiner, an expanded function."""

    params: tuple[Value, ...]
    body: tuple[Any, ...]
    results: tuple[Operand, ...]


@node
class Op:
    """One scalar operation of `ir.scalar`."""

    out: Value
    op: str
    args: tuple[Operand, ...]
    location: Location | None = None


@node
class Read:
    """Inside a form only: element `index` of operand number `operand`."""

    out: Value
    operand: int
    index: tuple[Operand, ...]


@node
class Load:
    """Element `index` of `buffer`."""

    out: Value
    buffer: Buffer
    index: tuple[Operand, ...]


@node
class Store:
    """Write `value` to element `index` of `buffer`."""

    buffer: Buffer
    index: tuple[Operand, ...]
    value: Operand


@node
class Alloc:
    """A buffer of the kernel's own, from here to the end of the block."""

    buffer: Buffer


@node
class For:
    """`index` from `lower` up to `upper`, not included.  `params` are carried: first `inits`, then `yields`; `results` are the last ones.

    combine: how the results of parts of the range are joined; a loop with carries and without it runs in order.
    """

    index: Value
    lower: Operand
    upper: Operand
    body: tuple[Any, ...]
    axis: Axis = SERIAL
    params: tuple[Value, ...] = ()
    inits: tuple[Operand, ...] = ()
    yields: tuple[Operand, ...] = ()
    results: tuple[Value, ...] = ()
    combine: Lambda | None = None
    step: int = 1


@node
class While:
    """Computes `condition` and, while `test` holds, `body`.  Both see `params`: first `inits`, then `yields`."""

    params: tuple[Value, ...]
    inits: tuple[Operand, ...]
    condition: tuple[Any, ...]
    test: Operand
    body: tuple[Any, ...]
    yields: tuple[Operand, ...]
    results: tuple[Value, ...]
    unroll: int = 1


@node
class If:
    """One of two blocks; `results` are what it yields."""

    condition: Operand
    then: tuple[Any, ...]
    orelse: tuple[Any, ...] = ()
    then_yields: tuple[Operand, ...] = ()
    else_yields: tuple[Operand, ...] = ()
    results: tuple[Value, ...] = ()


@node
class Atomic:
    """`buffer[index] = op(buffer[index], value)`, undivided among parallel iterations."""

    op: str
    buffer: Buffer
    index: tuple[Operand, ...]
    value: Operand


@node
class Barrier:
    """Waits for all invocations of `scope`, and makes their writes seen."""

    scope: str = "block"


@node
class Call:
    """A function of the target or of a library on scalars; `symbol` is looked up in the target's intrinsics."""

    outs: tuple[Value, ...]
    symbol: str
    args: tuple[Operand, ...]


@node
class Prefix:
    """`outs = combine(params, elements)` of the enclosing scan loop; over lanes or chunks each gets the fold up to its own iteration."""

    outs: tuple[Value, ...]
    params: tuple[Value, ...]
    elements: tuple[Operand, ...]


Statement: TypeAlias = Op | Read | Load | Store | Alloc | For | While | If | Atomic | Barrier | Call | Prefix


@node
class Kernel:
    """A named loop nest.  `buffers` in argument order; `outputs` are the names of those written; `dims` the symbolic extents used."""

    name: str
    buffers: tuple[Buffer, ...]
    outputs: frozenset[str]
    body: tuple[Any, ...]
    dims: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def with_body(self, body: tuple[Any, ...]) -> Kernel:
        return evolve(self, body=body)

    def __str__(self) -> str:
        from tracejit.ir.text import print_kernel

        return print_kernel(self)


def blocks(statement: Any) -> tuple[tuple[Any, ...], ...]:
    """The nested blocks of a statement, in order."""
    match statement:
        case For():
            return (statement.body,)
        case While():
            return (statement.condition, statement.body)
        case If():
            return (statement.then, statement.orelse)
        case _:
            return ()


def walk(body: tuple[Any, ...]) -> Iterator[Any]:
    """Every statement of a block, nested ones after their parent, without recursion."""
    stack: list[Any] = list(reversed(body))
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, (For, While, If)):  # few are
            for block in reversed(blocks(statement)):
                stack.extend(reversed(block))


def results_of(statement: Any) -> tuple[Value, ...]:
    """The values a statement defines for the statements after it."""
    match statement:
        case Op() | Load() | Read():
            return (statement.out,)
        case For() | While() | If():
            return statement.results
        case Call() | Prefix():
            return statement.outs
        case _:
            return ()


def operands_of(statement: Any) -> tuple[Operand, ...]:
    """The operands a statement reads itself (not those of its nested blocks, but their yields)."""
    match statement:
        case Op() | Call():
            return statement.args
        case Prefix():
            return (*statement.params, *statement.elements)
        case Load() | Read():
            return statement.index
        case Store() | Atomic():
            return (*statement.index, statement.value)
        case For():
            return (statement.lower, statement.upper, *statement.inits, *statement.yields)
        case While():
            return (*statement.inits, statement.test, *statement.yields)
        case If():
            return (statement.condition, *statement.then_yields, *statement.else_yields)
        case _:
            return ()
