"""What a call looks like: its leaves, which of them are traced, and the key under which its program is kept."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Collection, Iterator
from inspect import CO_VARKEYWORDS
from typing import Any

import numpy as np

from tracejit.api.array import Array, data_of
from tracejit.api.options import Options
from tracejit.backends.base import Resident
from tracejit.ir.extents import Dim, solved
from tracejit.ir.ranges import ARGUMENTS
from tracejit.ir.types import ShapedArray
from tracejit.support.dtypes import canonical
from tracejit.support.equality import strictly_equal
from tracejit.support.errors import DtypeError, LeakedTracerError, UnsupportedError, UserError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, flatten
from tracejit.tracer.contents import family, namespace_of
from tracejit.tracer.ownership import is_users_type
from tracejit.tracer.tracer import Tracer

__all__ = [
    "MOST_LEAVES", "ArrayLeaf", "CallSignature", "Leaf", "NumberLeaf", "StaticLeaf", "classify", "fits", "in_order",
    "leaf_path", "leaf_paths", "sees_order_of_keywords", "signature_of", "static_leaves", "static_numbers",
]  # fmt: skip

MOST_LEAVES = 2048
"""How many arrays, numbers and other values the arguments of a call may contain, or its results:
each has code of its own."""


@frozen
class ArrayLeaf:
    """A NumPy array (or, with `scalar`, a NumPy scalar), or the one inside a tj.Array (`wrapped`): traced.

    strides: in bytes, where the program depends on them.
    """

    dtype: np.dtype[Any]
    shape: tuple[Any, ...]
    layout: str
    scalar: bool = False
    wrapped: bool = False
    strides: tuple[int, ...] | None = None

    @property
    def aval(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype)


@frozen
class NumberLeaf:
    """A Python number: traced, weakly typed."""

    kind: str

    @property
    def aval(self) -> ShapedArray:
        return ShapedArray(
            (), {"bool": np.bool_, "int": np.int64, "float": np.float64, "complex": np.complex128}[self.kind], weak=True
        )


@frozen(eq=False)
class StaticLeaf:
    """Part of the key: strings, None, dtypes, slices, callables, integers beyond 64 bits, objects: anything that is no
    number and hashable, or of which is followed what it holds.
    """

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticLeaf) and strictly_equal(self.value, other.value)

    def __hash__(self) -> int:
        value = self.value
        if isinstance(value, float):
            return hash(struct.pack("d", value))
        try:
            return hash((type(value), (value.start, value.stop, value.step) if type(value) is slice else value))
        except TypeError:  # a data class, a set
            return hash(type(value))


Leaf = ArrayLeaf | NumberLeaf | StaticLeaf


@frozen
class CallSignature:
    """The key of a specialisation: structure and leaves of (args, kwargs).

    aliases: pairs of traced positions at which one array stands, where the function changes it in place (see
    `writeback`).  backend: on which device an array lies, or `default_device` says, where that decides.
    """

    tree: TreeDef
    leaves: tuple[Leaf, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    backend: str = ""

    def traced(self) -> list[int]:
        return [n for n, leaf in enumerate(self.leaves) if not isinstance(leaf, StaticLeaf)]

    @property
    def wrapped(self) -> bool:
        """Whether a tj.Array is among the arguments: then results are tj.Arrays."""
        return any(isinstance(leaf, ArrayLeaf) and leaf.wrapped for leaf in self.leaves)

    @property
    def symbols(self) -> set[str]:
        return {
            s
            for leaf in self.leaves
            if isinstance(leaf, ArrayLeaf)
            for n in leaf.shape
            if isinstance(n, Dim)
            for s in n.symbols()
        }


def classify(x: Any, path: str) -> tuple[Leaf, Any]:
    """(leaf, value to pass) of one argument leaf: arrays that are misaligned or byte-swapped are passed as a native
    copy.

    Raises: DtypeError for dtypes there are no kernels for, UnsupportedError for ndarray subclasses and unhashable
    objects of other packages.
    """
    kind = type(x)
    if kind is np.ndarray:
        layout = "C" if x.flags.c_contiguous else "strided"  # of the array passed: the copy has no gaps
        if not x.dtype.isnative or not x.flags.aligned:
            x = x.astype(x.dtype.newbyteorder("="), copy=True)
        return ArrayLeaf(_dtype(x, path), x.shape, layout), x
    if kind is Array:
        data = data_of(x)
        layout = "C" if isinstance(data, Resident) or data.flags.c_contiguous else "strided"
        return ArrayLeaf(data.dtype, data.shape, layout, scalar=not data.shape, wrapped=True), data
    if kind in (bool, int, float, complex):
        if kind is int and not ARGUMENTS[0] <= x <= ARGUMENTS[1]:  # as if it were written in the function
            return StaticLeaf(x), x
        return NumberLeaf(kind.__name__), x
    if isinstance(x, np.ndarray):
        raise UnsupportedError(
            f"argument {path} is a {kind.__module__}.{kind.__qualname__}: subclasses of ndarray are not supported; "
            "pass np.asarray(x)"
        )
    if isinstance(x, np.generic) and kind is x.dtype.type:  # one of a derived class is an object
        return ArrayLeaf(_dtype(x, path), (), "C", scalar=True), x
    if isinstance(x, Tracer):
        raise LeakedTracerError(
            f"argument {path} is a traced array {x.aval} whose trace has ended; return it instead of storing it"
        )
    try:
        hash((x.start, x.stop, x.step) if isinstance(x, slice) else x)
    except (TypeError, ValueError):  # a ValueError of memory that may be written
        if not (is_users_type(kind) or family(kind) is not None or namespace_of(x) is not None):
            raise UnsupportedError(
                f"argument {path} is of type {kind.__name__}, which is neither an array, a number, a container of "
                "them, nor hashable; "
                "register its class with tj.tree_util.register_node, or pass it through a closure"
            ) from None
    return StaticLeaf(x), x


def _dtype(x: Any, path: str) -> np.dtype[Any]:
    try:
        return canonical(x.dtype)
    except DtypeError as error:
        raise DtypeError(f"argument {path}: {error.message}") from None


def sees_order_of_keywords(function: Any) -> bool:
    """Whether the order in which keywords are passed may mean something to a function: it takes them as a dict."""
    code = getattr(function, "__code__", None)
    return code is None or bool(code.co_flags & CO_VARKEYWORDS)


def signature_of(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    static: frozenset[int],
    strided: frozenset[int] = frozenset(),
    *,
    where: str | None = None,
) -> tuple[CallSignature, list[Any], list[Any]]:
    """The signature of a call of `function`, the values of its leaves, and the leaves themselves.

    static: leaf positions that the trace asked to be constants.  strided: those of arrays whose strides it asked for.
    where: where the function runs if no array of the call lies on a device; None: there also if one does.
    """
    kwargs = in_order(function, kwargs)
    try:
        leaves, tree = flatten((args, kwargs))
    except RecursionError:
        raise UserError(
            "an argument contains itself, or is nested deeper than Python's recursion limit; arguments are trees of "
            "arrays"
        ) from None
    out: list[Leaf] = []
    values: list[Any] = []
    if len(leaves) > MOST_LEAVES:
        raise UserError(
            f"the arguments contain {len(leaves):,} arrays, numbers and other values, more than the {MOST_LEAVES:,} "
            "that are compiled one "
            "by one; pass numbers in an array (np.array(x)) instead of a list, arrays of one shape stacked "
            "(np.stack(x))"
        )
    for n, (x, path) in enumerate(zip(leaves, _paths(tree), strict=True)):
        leaf, value = classify(x, path)
        if n in static and not isinstance(leaf, StaticLeaf) and not isinstance(value, np.ndarray):
            leaf = StaticLeaf(value.host() if isinstance(value, Resident) else value)
        elif n in strided and isinstance(leaf, ArrayLeaf) and leaf.layout != "C":
            leaf = evolve(leaf, strides=value.strides if leaf.wrapped else x.strides)
        out.append(leaf)
        values.append(value)
    lies = next((x.place for x in values if isinstance(x, Resident)), "") if where is not None else ""
    return CallSignature(tree, tuple(out), backend=lies or where or ""), values, leaves


def static_leaves(args: tuple[Any, ...], kwargs: dict[str, Any], options: Options) -> frozenset[int]:
    """The leaf positions of arguments that are constants.   Raises: UserError where one is not hashable."""
    if not options.static and not options.static_names:
        return frozenset()
    found: set[int] = set()
    at = 0
    # as `signature_of` has them: in another order keywords have other positions
    named = [(repr(name), name in options.static_names, x) for name, x in kwargs.items()]
    for path, is_static, x in [*[(str(n + 1), n in options.static, x) for n, x in enumerate(args)], *named]:
        count = flatten(x)[1].leaves
        if is_static:
            try:
                hash(x)
            except (TypeError, ValueError):
                raise UserError(
                    f"argument {path} is static (static_argnums, static_argnames) and a {type(x).__name__}, which is "
                    "not hashable; pass a tuple, or trace it",
                    location=user_location(),
                ) from None
            found.update(range(at, at + count))
        at += count
    return frozenset(found)


def in_order(function: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keywords in the order of their names, where their order means nothing to the function."""
    return dict(sorted(kwargs.items())) if len(kwargs) > 1 and not sees_order_of_keywords(function) else kwargs


def static_numbers(signature: CallSignature, static: Collection[int]) -> list[int]:
    """The positions of numbers that are constants because the trace asked for them (`static` may speak of other calls
    as well).
    """
    leaves = dict(enumerate(signature.leaves))
    return [
        n
        for n in sorted(static)
        if isinstance(x := leaves.get(n), StaticLeaf) and isinstance(x.value, (bool, int, float, complex, np.generic))
    ]


def fits(symbolic: ArrayLeaf, concrete: ArrayLeaf) -> bool:
    """Whether an array is one of those that symbolic extents stand for."""
    if evolve(symbolic, shape=()) != evolve(concrete, shape=()) or len(symbolic.shape) != len(concrete.shape):
        return False
    pairs = zip(symbolic.shape, concrete.shape, strict=True)
    return all(solved(n, m) is not None if isinstance(n, Dim) else n == m for n, m in pairs)


def leaf_path(tree: TreeDef, position: int) -> str:
    """`1[0]['w']`: where leaf `position` of (args, kwargs) stands, as the user would write it."""
    return next(itertools.islice(_paths(tree), position, None), "?")


def leaf_paths(tree: TreeDef) -> list[str]:
    """Where the leaves of (args, kwargs) stand, in order."""
    return list(_paths(tree))


def _paths(tree: TreeDef) -> Iterator[str]:
    args, kwargs = tree.children
    pending = [(repr(name), child) for name, child in zip(kwargs.data, kwargs.children, strict=True)][::-1]
    pending += [(str(n + 1), child) for n, child in enumerate(args.children)][::-1]
    while pending:
        path, t = pending.pop()
        if t.kind == "leaf":
            yield path
            continue
        keys = t.data if t.kind == "dict" else range(len(t.children))
        pending += [(f"{path}[{key!r}]", child) for key, child in zip(keys, t.children, strict=False)][::-1]
