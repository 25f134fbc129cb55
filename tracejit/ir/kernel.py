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
verifier and what passes and backends know of effects follow from that; printer and parser from its `syntax` (see
`ir.syntax`) and `like`, the field that its results have their dtypes from.  A new statement, with blocks or without, is
a class here and an entry in `Statement`, and a rule of each code generator that takes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, dataclass_transform

from tracejit.ir.extents import Dim, Extent
from tracejit.ir.printed import printed
from tracejit.ir.scalar import OPS
from tracejit.ir.syntax import Syntax, read_syntax
from tracejit.support.members import Member, Members
from tracejit.support.nodes import evolve, field, fields_of, frozen
from tracejit.support.source import Location

__all__ = [
    "Access", "accesses_of", "Alloc", "allocated", "allocated_by", "allocated_in", "Atomic", "Axis", "Barrier",
    "Block", "block_field", "block_fields", "BlockField", "blocks", "bound", "bound_in", "Buffer", "Const", "const",
    "defined", "Factor", "fields_by_role", "For", "GLOBAL", "If", "index_const", "is_opaque", "is_pure", "Kernel",
    "Lambda", "last_of", "Load", "loaded", "MatrixProduct", "memory_of", "nested", "Op", "Operand", "operands_of",
    "PARALLEL", "Prefix", "Read", "results_of", "Role", "ROLES", "roles_of", "SERIAL", "SPACES", "Statement",
    "statement", "statement_of", "STATEMENTS", "Store", "stored", "syntax_of", "updated", "used", "Value", "walk",
    "While", "yielded",
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
    if type(value) is complex:
        return value.real.hex(), value.imag.hex()
    return value.terms if isinstance(value, Dim) else value


@frozen
class Const:
    """A constant: a Python number, or (for i64) a polynomial of symbolic extents."""

    value: Any
    dtype: str

    def __eq__(self, other: object) -> bool:
        if type(other) is not Const or self.dtype != other.dtype:
            return False
        if isinstance(self.value, Dim) or isinstance(other.value, Dim):
            return isinstance(self.value, Dim) and self.value.same(other.value)
        return _identity(self.value) == _identity(other.value)

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


SPACES = Members("memory space", "global", "shared", "local")
"""Where memory is.  Packages add their own for `alloc`, which a printer of theirs knows."""
GLOBAL = SPACES("global")


@frozen(eq=False)
class Buffer:
    """Memory with a shape.

    layout: "C" (row-major, contiguous), "unit" (any byte strides, the last one the item size), "strided" (any byte
    strides, zero and negative included; stride values are run-time arguments).  space: one of `SPACES`, "global",
    "shared", "local" (what is neither of the first two is an array of a work-item's own).
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...] = field(
        converter=lambda shape: tuple(n.value if isinstance(n, Const) else n for n in shape)
    )
    layout: str = "C"
    space: Member = field(default=GLOBAL, converter=SPACES)
    alignment: int = 0


@frozen
class Axis:
    """How a loop runs.  kind: serial, parallel, vector, unroll, grid, block.

    vector: `width` lanes, `factor` vectors in flight.  unroll: `factor` copies, jammed.  parallel: `factor` iterations
    a chunk at least.  grid: `width` neighbouring iterations a work-item.
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


def nested(*, word: str = "yield", seen: bool = False, **options: Any) -> Any:
    """A field: a block.  word: what stands before the operands read at its end; seen: what it defines is seen in the
    statement's later blocks.
    """
    return field(metadata={"role": "nested", "word": word, "seen": seen}, **options)


def yielded(at: str | None = None, **options: Any) -> Any:
    """A field: operands read at the end of a block, `at` or the last one before this field."""
    return field(metadata={"role": "yielded", "at": at}, **options)


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


@frozen
class BlockField:
    """A field that is a block.  last: the fields of operands read at its end, and whether they hold several; `word` and
    `seen` as in `nested`.
    """

    name: str
    last: tuple[tuple[str, bool], ...]
    word: str
    seen: bool


STATEMENTS: list[type] = []
"""The classes of statements, in the order of their definition."""
_ONE = frozenset({"Value", "Operand", "Block"})
_SEVERAL = frozenset({"tuple[Value, ...]", "tuple[Operand, ...]"})
_ROLES: dict[type, dict[str, tuple[Role, bool]]] = {}
_NESTED: dict[type, tuple[BlockField, ...]] = {}
_SYNTAX: dict[type, Syntax | None] = {}
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
    it): it is not dropped, moved, repeated or shared out.  `syntax` says how it is written, `like` which field its
    results have their dtypes from.

    Raises: TypeError for a field in data flow whose annotation does not say whether it holds one or several, and for a
    `syntax` by which the statement could not be written and read.
    """
    made = frozen(eq=False)(cls)
    roles: dict[str, tuple[Role, bool]] = {}
    memory: dict[str, _Memory] = {}
    for f in fields_of(made):
        annotation: Any = cls.__annotations__[f.name]
        if not isinstance(annotation, str):
            raise TypeError(
                f"{cls.__name__}.{f.name}: the annotations of a statement are read as text; its module begins with "
                "`from __future__ import annotations`"
            )
        if role := f.metadata.get("role"):
            if annotation not in _ONE | _SEVERAL:
                known = ", ".join(sorted(_ONE | _SEVERAL))
                raise TypeError(f"{cls.__name__}.{f.name} is {role}: its annotation must be one of {known}")
            roles[f.name] = role, annotation in _SEVERAL
        elif found := f.metadata.get("memory"):
            memory[f.name] = found
    _ROLES[made] = roles
    _NESTED[made] = _block_fields(made)
    _SYNTAX[made] = _syntax(made)
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


def _block_fields(kind: type) -> tuple[BlockField, ...]:
    last: dict[str, list[tuple[str, bool]]] = {}
    found = [f for f in fields_of(kind) if f.name in _ROLES[kind]]
    for f in found:
        role, several = _ROLES[kind][f.name]
        if role == "nested":
            last[f.name] = []
        elif role == "yielded":
            at = f.metadata["at"] or next(reversed(last), None)
            if at not in last:
                raise TypeError(f"{kind.__name__}.{f.name} is yielded: there is no block before it that it could end")
            last[at].append((f.name, several))
    blocks = [f for f in found if f.name in last]
    return tuple([BlockField(f.name, tuple(last[f.name]), f.metadata["word"], f.metadata["seen"]) for f in blocks])


def _syntax(kind: type) -> Syntax | None:
    """How a statement is written; None for operations: their names begin their lines."""
    line: str | None = getattr(kind, "syntax", None)
    if line is None:
        raise TypeError(f"{kind.__name__} has no `syntax`, the line that says how it is written")
    if not line:
        return None
    ends = {b.name: [name for name, _ in b.last] for b in _NESTED[kind]}
    made = read_syntax(kind, _ROLES[kind], ends, getattr(kind, "like", ""))
    last_words = {b.word for s in STATEMENTS for b in _NESTED[s]} | {"yield"}
    if made.word in last_words or _begins_a_line(made.word):
        raise TypeError(f"{kind.__name__}.syntax begins with {made.word!r}, which begins other lines already")
    for block in _NESTED[kind]:
        if block.word == made.word or _begins_a_line(block.word):
            raise TypeError(f"{kind.__name__}.{block.name} ends with {block.word!r}, which begins other lines already")
    for fields in (fields_by_role(kind, "defined"), *[b.last for b in _NESTED[kind]]):
        if sum(several for _, several in fields) > 1:
            names = " and ".join([name for name, _ in fields])
            raise TypeError(f"{kind.__name__}: {names} hold several each, which no text tells apart")
    return made


def _begins_a_line(word: str) -> bool:
    return word in OPS or statement_of(word) is not None


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


@cache
def fields_by_role(kind: type, *wanted: Role) -> tuple[tuple[str, bool], ...]:
    """The fields of a class of statements that have one of these roles, and whether they hold several."""
    return tuple([(name, several) for name, (role, several) in _ROLES[kind].items() if role in wanted])


def block_fields(kind: type) -> tuple[BlockField, ...]:
    """The fields of a class of statements that are blocks, in order."""
    return _NESTED[kind]


def block_field(kind: type, name: str) -> BlockField:
    """The field of that name, which is a block."""
    return next(b for b in _NESTED[kind] if b.name == name)


def last_of(s: Statement, block: BlockField) -> tuple[Operand, ...]:
    """The operands read at the end of a block of a statement."""
    found: list[Operand] = []
    for name, several in block.last:
        x = getattr(s, name)
        found += x if several else (x,)
    return tuple(found)


def syntax_of(kind: type) -> Syntax:
    """How the statements of a class are written.  Operations have none."""
    found = _SYNTAX[kind]
    assert found is not None
    return found


def statement_of(word: str) -> type | None:
    """The class of statements whose line begins so."""
    return next((s for s in STATEMENTS if (line := _SYNTAX[s]) is not None and line.word == word), None)


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
    """One scalar operation of `ir.scalar`, by whose name it is written."""

    syntax: ClassVar = ""

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

    syntax: ClassVar = (
        "for {index} in {lower}..{upper}< step {step}>{axis}< carry({params=inits})>< combine{combine}> {body}"
    )
    like: ClassVar = "inits"

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

    syntax: ClassVar = "while< carry({params=inits})>< unroll({unroll})> {condition} do {body}"
    like: ClassVar = "inits"

    params: tuple[Value, ...] = bound()
    inits: tuple[Operand, ...] = used()
    condition: Block = nested(word="test", seen=True)
    test: Operand = yielded()
    body: Block = nested()
    yields: tuple[Operand, ...] = yielded()
    results: tuple[Value, ...] = defined()
    unroll: int = 1


@statement
class If:
    """One of two blocks; `results` are what it yields.  rare: 1 where the first one hardly ever runs."""

    syntax: ClassVar = "if< rare({rare})> {condition} {then}< else {orelse}>"
    like: ClassVar = "then_yields"

    condition: Operand = used()
    then: Block = nested()
    orelse: Block = nested(default=())
    then_yields: tuple[Operand, ...] = yielded("then", default=())
    else_yields: tuple[Operand, ...] = yielded("orelse", default=())
    results: tuple[Value, ...] = defined(default=())
    rare: int = 0


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
        return printed("kernel", self)
