"""What the entry of a compiled program checks, passes and returns, as values.

A call matches an `EntrySpec` when its arguments fit the `Signature`: a tree of guards over positional arguments and
keywords. Guards at the ends of the tree are *leaves*, numbered from 0 in order (positional first, then keywords as
listed; `leaves` gives them). A matching call fills the `slots`, allocates the outputs, calls `i32 program(ptr slots)`,
and builds the result. On the CPU `entry_emit` writes this as LLVM IR, `dispatch_python` does it in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import numpy as np

from tracejit.support.nodes import field, frozen

__all__ = [
    "Watch",
    "GIL_WORK", "ArrayGuard", "Condition", "ConstSlot", "DataSlot", "DictGuard", "DimSlot", "EntrySpec", "Extent",
    "Guard", "Leaf", "ListGuard", "NumpyScalarGuard", "ObjectGuard", "OutArg", "OutCall", "OutConst", "OutDict",
    "OutLeaf", "OutList", "OutObject", "OutSlot", "OutTuple", "OutputSpec", "ProgramSlot", "Result", "ScalarGuard",
    "ScalarSlot", "Signature", "Slot", "StaticGuard", "StrideSlot", "TupleGuard", "bound_names", "children",
    "is_builtin_number", "leaves", "names_in", "nodes", "result_nodes",
]  # fmt: skip

Extent: TypeAlias = "int | str | tuple[str, Extent, Extent]"
"""An extent: a number, the name of one bound by an `ArrayGuard`, or (operation, a, b) with Python's meaning
of the operation: add sub mul floordiv mod max min. A call for which it divides by 0 or leaves 64 bits does not
match."""

_OPERATIONS = frozenset({"add", "sub", "mul", "floordiv", "mod", "max", "min"})


def _numeric(value: Any) -> np.dtype[Any]:
    dtype = np.dtype(value)
    if dtype.hasobject or not dtype.isnative:
        raise ValueError(f"A compiled program takes and returns native dtypes without objects, not {dtype!r}.")
    return dtype


@frozen
class ArrayGuard:
    """An `np.ndarray`, exactly (a subclass does not match), of this dtype and shape.

    shape: a number, or a name that is bound where it first occurs and must be equal afterwards. An extent of 1 never
    matches a name.
    layout: "C" is C-contiguous, "strided" any byte strides; both aligned.
    scattered: not C-contiguous, which another entry is for.
    writeable: the program writes into it: it must be writeable, must not overlap itself,
    nor any other array among the arguments.
    """

    dtype: np.dtype[Any] = field(converter=_numeric)
    shape: tuple[int | str, ...] = field(converter=tuple)
    layout: Literal["C", "strided"] = "C"
    writeable: bool = False
    scattered: bool = False


@frozen
class NumpyScalarGuard:
    """A NumPy scalar of this dtype, exactly. Its `DataSlot` points at the value inside the object."""

    dtype: np.dtype[Any] = field(converter=_numeric)


@frozen
class ScalarGuard:
    """A Python number of exactly this type, a run-time value. An `int` outside of `ranges.ARGUMENTS` does not match."""

    kind: Literal["float", "int", "bool", "complex"]


@frozen(eq=False)
class StaticGuard:
    """This object, or one of exactly its type that is equal (tuples item by item, floats bit by bit). Errors
    of `==` mean no match.

    identical: this very object only, because equal ones may hold something else.
    """

    value: Any
    identical: bool = False


@frozen
class TupleGuard:
    """Exactly a tuple of these."""

    items: tuple[Guard, ...] = field(converter=tuple)


@frozen
class ListGuard:
    """Exactly a list of these."""

    items: tuple[Guard, ...] = field(converter=tuple)


@frozen
class DictGuard:
    """Exactly a dict with these string keys, inserted in this order, and no others."""

    keys: tuple[str, ...] = field(converter=tuple)
    items: tuple[Guard, ...] = field(converter=tuple)

    def __post_init__(self) -> None:
        if len(self.keys) != len(self.items) or len(set(self.keys)) != len(self.keys):
            raise ValueError(
                f"A dict needs one guard for each of its distinct keys, got {len(self.items)} for {self.keys}."
            )


@frozen
class ObjectGuard:
    """Exactly an instance of `kind`, a class with `__slots__`, these of which hold these."""

    kind: type
    slots: tuple[str, ...] = field(converter=tuple)
    items: tuple[Guard, ...] = field(converter=tuple)


Leaf: TypeAlias = ArrayGuard | NumpyScalarGuard | ScalarGuard | StaticGuard
Guard: TypeAlias = Leaf | TupleGuard | ListGuard | DictGuard | ObjectGuard


@frozen
class Signature:
    """Guards of a call: `args` by position, `kwargs` by name. Keywords may come in any order,
    or only in this one if they are `ordered`.
    """

    args: tuple[Guard, ...] = field(default=(), converter=tuple)
    kwargs: tuple[tuple[str, Guard], ...] = field(default=(), converter=tuple)
    ordered: bool = False


@frozen
class DataSlot:
    """The address of an array's first element (of a NumPy scalar's value)."""

    leaf: int


@frozen
class StrideSlot:
    """An array's stride along `axis`, in bytes."""

    leaf: int
    axis: int


@frozen
class DimSlot:
    """An extent."""

    extent: Extent


@frozen
class ScalarSlot:
    """A Python number: the bits of a float64, an int64, 0 or 1. Of a complex, `part` 0 is the real part,
    1 the imaginary.
    """

    leaf: int
    part: Literal[0, 1] = 0


@frozen
class OutSlot:
    """The address of output `index`."""

    index: int


@frozen
class ConstSlot:
    """A word known when the entry is added: an address that is not in the compiled code."""

    word: int


Slot: TypeAlias = DataSlot | StrideSlot | DimSlot | ScalarSlot | OutSlot | ConstSlot


@frozen
class ProgramSlot:
    """What a program wants in one word of its argument block.

    kind: "data" (address of input n), "scalar" (input n itself; of a complex number the part `axis`), "stride"
    (input n, axis), "dim" (name), "out" (output n), "failure" (what a check has found, written by the program).
    """

    kind: Literal["data", "scalar", "stride", "dim", "out", "failure"]
    number: int = 0
    axis: int = 0
    name: str = ""


@frozen
class OutputSpec:
    """An array to allocate for the program to fill, C-contiguous. Rank 0 is returned as a NumPy scalar,
    as NumPy's ufuncs do.
    """

    dtype: np.dtype[Any] = field(converter=_numeric)
    shape: tuple[Extent, ...] = field(converter=tuple)


@frozen
class OutLeaf:
    """Output `index`.  number: of rank 0, as a Python number."""

    index: int
    number: bool = False


@frozen
class OutArg:
    """The argument at leaf `leaf`, itself."""

    leaf: int


@frozen(eq=False)
class OutConst:
    """This object."""

    value: Any


@frozen
class OutTuple:
    """A tuple of these."""

    items: tuple[Result, ...] = field(converter=tuple)


@frozen
class OutList:
    """A list of these."""

    items: tuple[Result, ...] = field(converter=tuple)


@frozen
class OutDict:
    """A dict with these keys, in this order."""

    keys: tuple[str, ...] = field(converter=tuple)
    items: tuple[Result, ...] = field(converter=tuple)


@frozen
class OutCall:
    """What `function(*items)` returns: a named tuple, a registered class."""

    function: Callable[..., Any]
    items: tuple[Result, ...] = field(converter=tuple)


@frozen
class OutObject:
    """A new instance of `kind`, a class with `__slots__`, made without `__init__`; these slots hold these."""

    kind: type
    slots: tuple[str, ...] = field(converter=tuple)
    items: tuple[Result, ...] = field(converter=tuple)


Result: TypeAlias = OutLeaf | OutArg | OutConst | OutTuple | OutList | OutDict | OutCall | OutObject


@frozen
class Condition:
    """A relation between extents that a call must satisfy to match."""

    relation: Literal["eq", "ne", "lt", "le", "gt", "ge"]
    left: Extent
    right: Extent


@frozen(eq=False)
class Watch:
    """What else must be as it was when the program was made: the names outside of its function, arrays behind them.

    address: of words for compiled entries: how many checks there are, then for each the address of a word, a mask, and
    what the masked word must be. 0 if there are none such: compiled entries then never match.
    holds: the same in Python.
    """

    address: int
    holds: Callable[[], bool]


@frozen
class EntrySpec:
    """One compiled program's way in.

    program: the name of `i32 program(ptr slots)` in its module; `slots` holds one 64-bit word for each of `slots`. It
    returns 0; -1 with a Python exception set; or another status, which goes to the entry's status handler.
    release_gil: whether other threads may run during the program. An extent decides by call: released where it is at
    least `GIL_WORK`.

    Raises: ValueError if a part refers to a leaf, name or output that is not there.
    """

    signature: Signature
    slots: tuple[Slot, ...] = field(converter=tuple)
    outputs: tuple[OutputSpec, ...] = field(converter=tuple)
    result: Result
    program: str
    release_gil: bool | Extent = False
    conditions: tuple[Condition, ...] = field(default=(), converter=tuple)
    watch: Watch | None = None

    def __post_init__(self) -> None:
        problem = next(_problems(self), None)
        if problem:
            raise ValueError(f"The entry of {self.program!r} {problem}.")


GIL_WORK = 1 << 15
"""The extent from which on an `EntrySpec.release_gil` given as an extent lets other threads run;
releasing costs some 40 ns."""


def children(node: Guard | Result) -> tuple[Any, ...]:
    """The guards or results directly below `node`."""
    match node:
        case TupleGuard(items) | ListGuard(items) | OutTuple(items) | OutList(items):
            return items
        case DictGuard(_, items) | OutDict(_, items) | OutCall(_, items):
            return items
        case ObjectGuard(_, _, items) | OutObject(_, _, items):
            return items
        case _:
            return ()


def _preorder(roots: tuple[Any, ...]) -> Iterator[Any]:
    pending = list(reversed(roots))
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(children(node))


def nodes(signature: Signature) -> tuple[Guard, ...]:
    """All guards, each before what is below it."""
    return tuple(_preorder((*signature.args, *(guard for _, guard in signature.kwargs))))


def leaves(signature: Signature) -> tuple[Leaf, ...]:
    """The leaf guards in the order of their numbers."""
    return tuple(
        node for node in nodes(signature) if not isinstance(node, TupleGuard | ListGuard | DictGuard | ObjectGuard)
    )


def result_nodes(result: Result) -> tuple[Result, ...]:
    """All nodes of a result, each before what is below it."""
    return tuple(_preorder((result,)))


def names_in(extent: Extent) -> Iterator[str]:
    """The names an extent depends on."""
    pending: list[Any] = [extent]
    while pending:
        match pending.pop():
            case str(name):
                yield name
            case (_, left, right):
                pending += (left, right)
            case _:
                pass


def bound_names(signature: Signature) -> tuple[str, ...]:
    """The extents that a matching call binds, in the order of their first occurrence."""
    shapes = (leaf.shape for leaf in leaves(signature) if isinstance(leaf, ArrayGuard))
    return tuple(dict.fromkeys(extent for shape in shapes for extent in shape if isinstance(extent, str)))


def is_builtin_number(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy's type number alone says everything about a native dtype (not so for datetimes, strings,
    structures, users' types).
    """
    return dtype.num <= np.dtype(np.clongdouble).num or dtype.num == np.dtype(np.float16).num


def _problems(spec: EntrySpec) -> Iterator[str]:
    found = leaves(spec.signature)
    names = {name for leaf in found if isinstance(leaf, ArrayGuard) for name in leaf.shape if isinstance(name, str)}
    extents: list[Extent] = [extent for output in spec.outputs for extent in output.shape]
    extents += [side for condition in spec.conditions for side in (condition.left, condition.right)]
    extents += [slot.extent for slot in spec.slots if isinstance(slot, DimSlot)]
    if not isinstance(spec.release_gil, bool):
        extents.append(spec.release_gil)
    for extent in extents:
        yield from (f"uses the extent {name!r}, which no array binds" for name in names_in(extent) if name not in names)
        if not _is_extent(extent):
            yield f"uses an extent that is not one: {extent!r}"
    for slot in spec.slots:
        yield from _slot_problems(slot, found, len(spec.outputs))
    for part in result_nodes(spec.result):
        match part:
            case OutLeaf(index) if not 0 <= index < len(spec.outputs):
                yield f"returns output {index} of {len(spec.outputs)}"
            case OutArg(leaf) if not 0 <= leaf < len(found):
                yield f"returns argument leaf {leaf} of {len(found)}"
            case OutDict(keys, items) | OutObject(_, keys, items) if len(keys) != len(items):
                yield f"returns an object of {len(keys)} keys or slots and {len(items)} values"
            case _:
                pass


def _is_extent(extent: Any) -> bool:
    match extent:
        case int() | str():
            return True
        case (operation, left, right):
            return operation in _OPERATIONS and _is_extent(left) and _is_extent(right)
        case _:
            return False


def _slot_problems(slot: Slot, found: tuple[Leaf, ...], outputs: int) -> Iterator[str]:
    leaf = (
        found[slot.leaf]
        if isinstance(slot, DataSlot | StrideSlot | ScalarSlot) and 0 <= slot.leaf < len(found)
        else None
    )
    match slot, leaf:
        case (DataSlot(), ArrayGuard() | NumpyScalarGuard()) | (ConstSlot() | DimSlot(), _):
            return
        case StrideSlot(_, axis), ArrayGuard(_, shape) if 0 <= axis < len(shape):
            return
        case ScalarSlot(_, part), ScalarGuard(kind) if part == 0 or kind == "complex":
            return
        case OutSlot(index), _ if 0 <= index < outputs:
            return
        case _:
            yield f"cannot fill {slot}: there is no such thing among its arguments and outputs"
