"""The kernel IR: structured single-assignment loops over buffers.  The narrow waist:
every form becomes it, every backend prints it.

    kernel    = name, parameters (buffers, dims), block
    statement = out = op(args)                      a scalar operation of `ir.scalar`
              | out = load buffer[index]
              | store buffer[index] = value
              | alloc buffer                        in a memory space; lives to the end of the enclosing block
              | for index in lower..upper axis carry(params = inits) { block; yield } -> results   [combine]
              | while carry(params = inits) test { block } do { block; yield } -> results
              | if condition { block; yield } else { block; yield } -> results
              | atomic op buffer[index] value | barrier
              | outs = prefix(elements)             the running fold of the enclosing scan loop, this iteration included
    operand   = value | constant (a number, or a polynomial of dims)

`for` with `combine` is a reduction: iterations may be partitioned over lanes, threads or blocks, each part starting
from the identity `inits`, and joined by `combine`.  A `for` whose body has a `prefix` is a scan: its `combine` says
how, its params enter only there, its yields are the prefix's outs.  `for` without `combine` and with carries is a
recurrence.  Indices are i64.

A statement is a class that says of each field what it is to data flow (`used`, `defined`, `bound`, `nested`,
`yielded`) and to memory (`loaded`, `stored`, `updated`, `allocated`); any other field is data of the statement's own.
`operands_of`, `results_of`, `blocks`, `accesses_of`, `allocated_by`, `walk` below, the copies of `ir.rewrite`, the
verifier, what passes and backends know of effects and, where a statement has a `syntax` (and says by `like` which field
its results have their dtypes from), printer and parser follow from that: a new statement is a class here and an entry
in `Statement`, and a rule of each code generator that takes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, dataclass_transform

from tracejit.ir.extents import Dim, Extent
from tracejit.support.nodes import evolve, field, fields_of, frozen
from tracejit.support.source import Location

__all__ = [
    "Access", "accesses_of", "Alloc", "allocated", "allocated_by", "allocated_in", "Atomic", "Axis", "Barrier",
    "Block", "blocks", "bound", "bound_in", "Buffer", "Const", "const", "defined", "Factor", "For", "If",
    "index_const", "is_opaque", "is_pure", "Kernel", "Lambda", "Load", "loaded", "MatrixProduct", "memory_of",
    "nested", "Op", "Operand", "operands_of", "PARALLEL", "Prefix", "Read", "results_of", "Role", "ROLES",
    "roles_of", "SERIAL", "statement", "Statement", "STATEMENTS", "Store", "stored", "updated", "used", "Value",
    "walk", "While", "yielded",
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


@frozen
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


@frozen(eq=False)
class Buffer:
    """Memory with a shape.

    layout: "C" (row-major, contiguous), "unit" (any byte strides, the last one the item size), "strided" (any byte
    strides, zero and negative included; stride values are run-time arguments).  space: "global", "shared", "local".
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...] = field(
        converter=lambda shape: tuple(n.value if isinstance(n, Const) else n for n in shape)
    )
    layout: str = "C"
    space: str = "global"
    alignment: int = 0


@frozen
class Axis:
    """How a loop runs.  kind: serial, parallel, vector, unroll, grid, block.

    vector: `width` lanes, `factor` vectors in flight.  unroll: `factor` copies, jammed.  parallel: `factor` iterations
    a chunk at least.
    """

    kind: str = "serial"
    width: int = 1
    factor: int = 1


SERIAL = Axis()
PARALLEL = Axis("parallel")

Role: TypeAlias = Literal["used", "bound", "nested", "yielded", "defined"]
ROLES: tuple[Role, ...] = ("used", "bound", "nested", "yielded", "defined")
"""What a field can be to data flow, in the order in which a statement comes to it.

used: operands read before anything else.  bound: values that the nested blocks see.  nested: a block.  yielded:
operands read at the end of a nested block, whose values they see.  defined: values that the statements after this one
see.
"""
T = TypeVar("T")


def used(**options: Any) -> Any:
    """A field: operands that the statement reads."""
    return field(metadata={"role": "used"}, **options)


def bound(**options: Any) -> Any:
    """A field: values that the statement's blocks see and nothing else does."""
    return field(metadata={"role": "bound"}, **options)


def nested(**options: Any) -> Any:
    """A field: a block."""
    return field(metadata={"role": "nested"}, **options)


def yielded(**options: Any) -> Any:
    """A field: operands read at the end of a block."""
    return field(metadata={"role": "yielded"}, **options)


def defined(**options: Any) -> Any:
    """A field: values that the statement defines for those after it."""
    return field(metadata={"role": "defined"}, **options)


def loaded(at: str | None = None, **options: Any) -> Any:
    """A field: a buffer that the statement reads.  at: the field that has the index; None where it may be any element,
    so that nothing is known of the order of indices or of iterations.
    """
    return field(metadata={"memory": _Memory(at, reads=True)}, **options)


def stored(at: str | None = None, **options: Any) -> Any:
    """A field: a buffer that the statement writes; `at` as in `loaded`."""
    return field(metadata={"memory": _Memory(at, writes=True)}, **options)


def updated(at: str | None = None, op: str | None = None, **options: Any) -> Any:
    """A field: a buffer that the statement reads and writes; `at` as in `loaded`.  op: the field that has the operation
    where parallel iterations may do it to one element, undivided.
    """
    return field(metadata={"memory": _Memory(at, reads=True, writes=True, op=op)}, **options)


def allocated(**options: Any) -> Any:
    """A field: a buffer that lives from the statement to the end of its block."""
    return field(metadata={"allocated": True}, **options)


@frozen
class _Memory:
    """What a field that is a buffer is to memory."""

    at: str | None
    reads: bool = False
    writes: bool = False
    op: str | None = None


@frozen(eq=False)
class Access:
    """What a statement does itself to one buffer.

    index: which element; None: any.  atomic: the operation that parallel iterations may do to one element; "" else.
    """

    buffer: Buffer
    index: tuple[Operand, ...] | None
    reads: bool
    writes: bool
    atomic: str = ""


STATEMENTS: list[type] = []
"""The classes of statements, in the order of their definition."""
_ONE = frozenset({"Value", "Operand", "Block"})
_SEVERAL = frozenset({"tuple[Value, ...]", "tuple[Operand, ...]"})
_ROLES: dict[type, dict[str, tuple[Role, bool]]] = {}
_MEMORY: dict[type, dict[str, _Memory]] = {}
_ALLOCATED: dict[type, tuple[str, ...]] = {}
_PURE: dict[type, bool] = {}
_OPERANDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
_RESULTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
_BOUND: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
_BLOCKS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}


@dataclass_transform(
    frozen_default=True,
    eq_default=False,
    field_specifiers=(field, used, bound, nested, yielded, defined, loaded, stored, updated, allocated),
)
def statement(cls: type[T]) -> type[T]:
    """A class of statements: a node whose fields say what they are to data flow and to memory.

    `opaque` as a class attribute says that it does what no field tells (waits for others, belongs to the loop around
    it): it is not dropped, moved, repeated or shared out.

    Raises: TypeError for a field in data flow whose annotation does not say whether it holds one or several.
    """
    made = frozen(eq=False)(cls)
    roles: dict[str, tuple[Role, bool]] = {}
    memory: dict[str, _Memory] = {}
    for f in fields_of(made):
        if role := f.metadata.get("role"):
            annotation = cls.__annotations__[f.name]
            if annotation not in _ONE | _SEVERAL:
                known = ", ".join(sorted(_ONE | _SEVERAL))
                raise TypeError(f"{cls.__name__}.{f.name} is {role}: its annotation must be one of {known}")
            roles[f.name] = role, annotation in _SEVERAL
        elif found := f.metadata.get("memory"):
            memory[f.name] = found
    _ROLES[made] = roles
    if memory:
        _MEMORY[made] = memory
    if buffers := tuple([f.name for f in fields_of(made) if f.metadata.get("allocated")]):
        _ALLOCATED[made] = buffers
    kinds = {role for role, _ in roles.values()}
    changes = bool(buffers) or any(m.writes for m in memory.values()) or getattr(made, "opaque", False)
    _PURE[made] = "defined" in kinds and not changes and not kinds & {"nested", "bound", "yielded"}
    _OPERANDS[made] = _gatherer(roles, "used", "yielded")
    _RESULTS[made] = _gatherer(roles, "defined")
    _BOUND[made] = _gatherer(roles, "bound")
    if any(role == "nested" for role, _ in roles.values()):
        _BLOCKS[made] = _gatherer(roles, "nested")
    STATEMENTS.append(made)
    return made


def _gatherer(roles: dict[str, tuple[Role, bool]], *wanted: Role) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives what a statement has in the fields of these roles."""
    fields = [(attrgetter(name), many) for name, (role, many) in roles.items() if role in wanted]
    match fields:
        case []:
            return lambda _: ()
        case [(get, True)]:
            return get
        case [(get, False)]:
            return lambda s: (get(s),)
        case _ if not any(many for _, many in fields):
            return attrgetter(*[name for name, (role, _) in roles.items() if role in wanted])
        case _:
            return lambda s: tuple([x for get, many in fields for x in (get(s) if many else (get(s),))])


def roles_of(kind: type) -> dict[str, tuple[Role, bool]]:
    """The fields of a class of statements that take part in data flow: role, and whether the field holds several."""
    return _ROLES[kind]


def blocks(s: Statement) -> tuple[Block, ...]:
    """The nested blocks of a statement, in order."""
    found = _BLOCKS.get(type(s))
    return () if found is None else found(s)


def results_of(s: Statement) -> tuple[Value, ...]:
    """The values a statement defines for the statements after it."""
    return _RESULTS[type(s)](s)


def bound_in(s: Statement) -> tuple[Value, ...]:
    """The values that only the nested blocks of a statement see."""
    return _BOUND[type(s)](s)


def operands_of(s: Statement) -> tuple[Operand, ...]:
    """The operands a statement reads itself (not those of its nested blocks, but their yields)."""
    return _OPERANDS[type(s)](s)


def memory_of(kind: type) -> dict[str, _Memory]:
    """The fields of a class of statements that are buffers it reads or writes."""
    return _MEMORY.get(kind, {})


def allocated_in(kind: type) -> tuple[str, ...]:
    """The fields of a class of statements that are buffers it allocates."""
    return _ALLOCATED.get(kind, ())


def accesses_of(s: Statement) -> tuple[Access, ...]:
    """What a statement does to memory itself, its blocks left out."""
    found = _MEMORY.get(type(s))
    if found is None:
        return ()
    return tuple(
        [
            Access(
                getattr(s, name),
                None if m.at is None else getattr(s, m.at),
                m.reads,
                m.writes,
                "" if m.op is None else getattr(s, m.op),
            )
            for name, m in found.items()
        ]
    )


def allocated_by(s: Statement) -> tuple[Buffer, ...]:
    """The buffers that live from this statement to the end of its block."""
    found = _ALLOCATED.get(type(s))
    return () if found is None else tuple([getattr(s, name) for name in found])


def is_pure(s: Statement) -> bool:
    """Whether a statement only defines values, by its operands and the memory it reads: where that memory does not
    change it may be dropped, moved and repeated.
    """
    return _PURE[type(s)]


def is_opaque(s: Statement) -> bool:
    """Whether a statement does what none of its fields tells."""
    return getattr(s, "opaque", False)


def walk(body: Block) -> Iterator[Statement]:
    """Every statement of a block, nested ones after their parent, without recursion."""
    stack = [iter(body)]
    while stack:
        for s in stack[-1]:
            yield s
            if (nested_in := _BLOCKS.get(type(s))) is not None:
                stack += [iter(block) for block in reversed(nested_in(s))]
                break
        else:
            stack.pop()


@frozen(eq=False)
class Lambda:
    """Index variables (or scalars) to scalars: the body of a form, a combiner, an expanded function."""

    params: tuple[Value, ...]
    body: Block
    results: tuple[Operand, ...]


@statement
class Op:
    """One scalar operation of `ir.scalar`."""

    out: Value = defined()
    op: str
    args: tuple[Operand, ...] = used()
    location: Location | None = None


@statement
class Read:
    """Inside a form only: element `index` of operand number `operand`."""

    syntax: ClassVar = "read {operand}[{index}]"

    out: Value = defined()
    operand: int
    index: tuple[Operand, ...] = used()


@statement
class Load:
    """Element `index` of `buffer`."""

    syntax: ClassVar = "load {buffer}[{index}]"
    like: ClassVar = "buffer"

    out: Value = defined()
    buffer: Buffer = loaded(at="index")
    index: tuple[Operand, ...] = used()


@statement
class Store:
    """Write `value` to element `index` of `buffer`."""

    syntax: ClassVar = "store {buffer}[{index}] = {value}"

    buffer: Buffer = stored(at="index")
    index: tuple[Operand, ...] = used()
    value: Operand = used()


@statement
class Alloc:
    """A buffer of the kernel's own, from here to the end of the block."""

    syntax: ClassVar = "alloc {buffer:declared}"

    buffer: Buffer = allocated()


@statement
class For:
    """`index` from `lower` up to `upper`, not included.  `params` are carried: first `inits`, then `yields`;
    `results` are the last ones.

    combine: how the results of parts of the range are joined; a loop with carries and without it runs in order.
    """

    index: Value = bound()
    lower: Operand = used()
    upper: Operand = used()
    body: Block = nested()
    axis: Axis = SERIAL
    params: tuple[Value, ...] = bound(default=())
    inits: tuple[Operand, ...] = used(default=())
    yields: tuple[Operand, ...] = yielded(default=())
    results: tuple[Value, ...] = defined(default=())
    combine: Lambda | None = None
    step: int = 1


@statement
class While:
    """Computes `condition` and, while `test` holds, `body`.  Both see `params`: first `inits`, then `yields`."""

    params: tuple[Value, ...] = bound()
    inits: tuple[Operand, ...] = used()
    condition: Block = nested()
    test: Operand = yielded()
    body: Block = nested()
    yields: tuple[Operand, ...] = yielded()
    results: tuple[Value, ...] = defined()
    unroll: int = 1


@statement
class If:
    """One of two blocks; `results` are what it yields."""

    condition: Operand = used()
    then: Block = nested()
    orelse: Block = nested(default=())
    then_yields: tuple[Operand, ...] = yielded(default=())
    else_yields: tuple[Operand, ...] = yielded(default=())
    results: tuple[Value, ...] = defined(default=())


@statement
class Atomic:
    """`buffer[index] = op(buffer[index], value)`, undivided among parallel iterations."""

    syntax: ClassVar = "atomic {op} {buffer}[{index}] {value}"

    op: str
    buffer: Buffer = updated(at="index", op="op")
    index: tuple[Operand, ...] = used()
    value: Operand = used()


@statement
class Barrier:
    """Waits for all iterations of the enclosing block loop, and makes their writes seen."""

    syntax: ClassVar = "barrier"
    opaque: ClassVar = True


@statement
class Prefix:
    """`outs = combine(params, elements)` of the enclosing scan loop;
    over lanes or chunks each gets the fold up to its own iteration.
    """

    syntax: ClassVar = "prefix({params}) {elements}"
    like: ClassVar = "params"
    opaque: ClassVar = True

    outs: tuple[Value, ...] = defined()
    params: tuple[Value, ...] = used()
    elements: tuple[Operand, ...] = used()


Statement: TypeAlias = Op | Read | Load | Store | Alloc | For | While | If | Atomic | Barrier | Prefix
Block: TypeAlias = tuple[Statement, ...]


@frozen
class Factor:
    """How the elements of a matrix that is multiplied are reached.

    along: the axis along which it lies contiguously in memory, "m", "n" or "k"; "x" for none.  computed: an element is
    more than one load.
    """

    along: str
    computed: bool = False


@frozen
class MatrixProduct:
    """What a kernel multiplies: `outer` times (m x k) by (k x n).  epilogue:
    what follows costs so many vector adds an element.
    """

    dtype: str
    outer: Extent
    m: Extent
    n: Extent
    k: Extent
    lhs: Factor
    rhs: Factor
    epilogue: int = 0


@frozen(eq=False)
class Kernel:
    """A named loop nest.

    `buffers` in argument order; `outputs` are the names of those written; `dims` the symbolic extents used; `product`
    says what it multiplies if it is the plain loops of a matrix product.
    """

    name: str
    buffers: tuple[Buffer, ...]
    outputs: frozenset[str]
    body: Block
    dims: tuple[str, ...] = ()
    product: MatrixProduct | None = None

    def with_body(self, body: Block) -> Kernel:
        return evolve(self, body=body)

    def __str__(self) -> str:
        from tracejit.ir.text import print_kernel  # printers know what they print

        return print_kernel(self)
