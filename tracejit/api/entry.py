"""How a compiled version is called: through its native entry on backends of this process, through Python on others."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tracejit.api.array import Array, adopt, data_of
from tracejit.api.signature import ArrayLeaf, CallSignature, NumberLeaf, StaticLeaf, sees_order_of_keywords
from tracejit.api.tracing import WHOLE, Traced
from tracejit.api.writeback import Writeback, with_copies, writeback_of
from tracejit.backends import entry as e
from tracejit.backends.base import Backend, Compiled, Dispatcher, Entered, Entry, KeepsResults, NativeCalls, Resident
from tracejit.backends.copies import copied
from tracejit.ir.effects import donated_inputs
from tracejit.ir.extents import Dim, Extent, affine, has_count, least_extent, operations, prod, solved
from tracejit.ir.scalar import numpy_dtype
from tracejit.support.equality import compares_wholly
from tracejit.support.errors import FailedCheck, InternalError, TracejitError, UnsupportedError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.tree import TreeDef, unflatten
from tracejit.tracer.captured import Dependencies
from tracejit.tracer.failures import failure_error

__all__ = ["Called", "Runner", "Straight", "distance", "make_runner"]

Straight: TypeAlias = Callable[[list[Any]], Any]
"""What a call on arrays of a device comes to: their data to the function's results."""


class Runner:
    """Runs one version from the leaves of a call.

    keep: the captured arrays it reads.  writeback: which arguments it changes.  entry: what serves calls without
    Python, where it can.  kept: what the program takes for a captured array.  straight: gives what runs the version for
    arguments of the same kinds, all on its device, where that needs no checks.
    """

    __slots__ = ("_entry", "_kept", "_run", "keep", "straight", "writeback")

    def __init__(
        self,
        run: Callable[..., Any],
        keep: list[Any],
        writeback: Writeback | None,
        entry: Entry | None = None,
        kept: Callable[[Any], Any] = np.asarray,
        straight: Callable[[Sequence[Any]], Straight | None] = lambda _: None,
    ) -> None:
        self._run = run
        self.keep = keep
        self.writeback = writeback
        self.straight = straight
        self._entry = entry
        self._kept = kept

    def __call__(self, values: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """values: of the call's leaves, as the program takes them; leaves: as they were passed."""
        return self._run(values, leaves)

    def follow(self, dependencies: Dependencies) -> None:
        """Use the captured arrays of these dependencies from now on."""
        arrays = [self._kept(c) for c in dependencies.constants]
        same = all(a is b for a, b in zip(arrays, self.keep, strict=True))
        self.keep[:] = arrays
        if self._entry is not None and not (same and self._entry.holds()):
            self._entry.install(dependencies, arrays)

    def finish(self) -> None:
        """Have the program in its final form now."""
        if self._entry is not None:
            self._entry.finish()

    def remove(self) -> None:
        """Serve no more calls."""
        if self._entry is not None:
            self._entry.remove()


@frozen(eq=False)
class Called:
    """The function whose calls are served.

    function: the user's.  dispatcher: what its calls go to on a backend that serves them without Python.  miss: what
    others go to.
    """

    function: Callable[..., Any]
    dispatcher: Callable[[NativeCalls], Dispatcher]
    miss: Callable[..., Any]


def make_runner(
    f: Called,
    signature: CallSignature,
    made: Traced,
    older: Sequence[CallSignature],
    dims: Mapping[str, int],
) -> Runner:
    """A function of the call's leaves that runs the version; where the backend serves calls without Python,
    with an entry for them.

    older: versions that are equal but for extents, and keep the calls that they take.  dims: the symbolic extents of
    the first call.
    """
    lowered, staged = made.lowered, made.staged
    native = lowered.backend.native_calls()
    if native is not None and not signature.backend:  # an entry does not look where its call is to run
        return _native(native, f, signature, made, older, dims)
    compiled = lowered.compile()
    kept: Callable[[Any], Any] = np.asarray
    if isinstance(compiled, KeepsResults):
        kept = functools.partial(_on_device, lowered.backend, {})
    keep = [kept(c) for c in staged.constants]
    writeback = writeback_of(staged)
    run = _python_call(compiled, signature, writeback, made, keep)
    straight = functools.partial(_straight, compiled, signature, writeback, made, keep)
    return Runner(run, keep, writeback, None, kept, straight)


def _on_device(backend: Backend, known: dict[int, tuple[Any, Any]], x: Any) -> Any:
    """What a program takes for a captured array: tj.Arrays, which never change, are copied to its device once.

    known: by identity, the arrays that were copied, and their copies.
    """
    if type(x) is not Array:
        return np.asarray(x)
    data, place = data_of(x), backend.place
    if isinstance(data, Resident) and data.place == place:
        return data
    found = known.get(id(x))
    if found is None or found[0] is not x:
        found = known[id(x)] = x, copied(data, backend, place)
    return found[1]


def _dims_of(signature: CallSignature, inputs: Sequence[Any]) -> dict[str, int]:
    """The symbolic extents of a call, by its traced arguments."""
    dims: dict[str, int] = {}
    for n, x in zip(signature.traced(), inputs, strict=True):
        leaf = signature.leaves[n]
        if isinstance(leaf, ArrayLeaf):
            pairs = zip(leaf.shape, x.shape, strict=True)
            dims.update(found for d, m in pairs if isinstance(d, Dim) and (found := solved(d, m)) is not None)
    return dims


def _straight(
    compiled: Compiled,
    signature: CallSignature,
    writeback: Writeback | None,
    made: Traced,
    keep: Sequence[Any],
    values: Sequence[Any],
) -> Straight | None:
    """What runs the version for arguments that are arrays on its device, of the same kinds as these; None where more is
    to be done.
    """
    numbers = range(len(signature.leaves))
    if (
        writeback is not None
        or made.counts
        or made.absent
        or not isinstance(compiled, KeepsResults)
        or signature.aliases
    ):
        return None
    if list(signature.traced()) != list(numbers) or donated_inputs(compiled.program):
        return None
    if not all(isinstance(x, Resident) for x in (*values, *keep)):
        return None
    dims = _dims_of(signature, values)
    run = compiled.straight([*values, *keep], dims, functools.partial(_failed, made, dims))
    if run is None:
        return None
    tree, leaves = made.out_tree, made.out_leaves
    alone = tree.kind == "leaf" and leaves == (0,)

    def call(arrays: list[Any]) -> Any:
        found = run([*arrays, *keep] if keep else arrays)
        if alone:
            return adopt(found[0])
        return unflatten(tree, [adopt(found[k]) if isinstance(k, int) else k.value for k in leaves])

    return call


def _dtype(leaf: Any) -> Any:
    return leaf.aval.dtype


def _name(n: Extent) -> Any:
    """An argument's extent in its guard: a number, a symbol, or the name of all of a*symbol + b."""
    if not isinstance(n, Dim):
        return n
    symbol, factor, offset = affine(n)
    return symbol if (factor, offset) == (1, 0) else f"all_{symbol}"


def _parts(signature: CallSignature) -> dict[str, Dim]:
    """The extents of arguments that are not symbols by themselves, by their symbols."""
    extents = [n for leaf in signature.leaves if isinstance(leaf, ArrayLeaf) for n in leaf.shape if isinstance(n, Dim)]
    return {affine(n)[0]: n for n in extents if _name(n) != affine(n)[0]}


def _extent(n: Extent, parts: Mapping[str, Dim]) -> Any:
    """An extent in the entry's terms: a number, a name, or nested operations."""

    def leaf(a: int | str) -> Any:
        if isinstance(a, int) or a not in parts:
            return a
        _, factor, offset = affine(parts[a])
        return "floordiv", ("sub", _name(parts[a]), offset), factor

    return operations(n, leaf, lambda *operation: operation)


def _guard(leaf: Any, written: bool) -> Any:
    match leaf:
        case ArrayLeaf(wrapped=True):
            return e.ObjectGuard(Array, ("_data",), (_guard(evolve(leaf, wrapped=False), written),))
        case ArrayLeaf(scalar=True):
            return e.NumpyScalarGuard(leaf.dtype)
        case ArrayLeaf():
            contiguous = leaf.layout == "C"
            shape = tuple([_name(n) for n in leaf.shape])
            return e.ArrayGuard(leaf.dtype, shape, "C" if contiguous else "strided", written, scattered=not contiguous)
        case NumberLeaf():
            return e.ScalarGuard(leaf.kind)  # type: ignore[arg-type]
        case StaticLeaf():
            return e.StaticGuard(leaf.value, identical=not compares_wholly(leaf.value))
        case _:
            raise InternalError(f"no guard for {leaf}")


def _guard_tree(tree: TreeDef, guards: Any) -> Any:
    """The guards in the structure of the arguments; raises KeyError for structures the entry does not know."""
    if tree.kind == "leaf":
        return next(guards)
    if tree.kind == "none":
        return e.StaticGuard(None)
    items = tuple(_guard_tree(child, guards) for child in tree.children)
    if tree.kind == "dict":
        if not all(type(k) is str for k in tree.data):
            raise KeyError(tree.kind)
        return e.DictGuard(tree.data, items)
    return {"tuple": e.TupleGuard, "list": e.ListGuard}[tree.kind](items)


def _result_tree(tree: TreeDef, leaves: Any, wrapped: bool, results: Sequence[Any], absent: Mapping[int, int]) -> Any:
    """The result's structure.

    results: where each output of the program lies.  absent: as a trace has it.
    """
    if tree.kind == "leaf":
        leaf = next(leaves)
        if not isinstance(leaf, int):
            return e.OutConst(leaf.value)
        found = e.OutObject(Array, ("_data",), (results[leaf],)) if wrapped else results[leaf]
        return e.OutCall(_none_where, (found, results[absent[leaf]])) if leaf in absent else found
    if tree.kind == "none":
        return e.OutConst(None)
    items = tuple(_result_tree(child, leaves, wrapped, results, absent) for child in tree.children)
    match tree.kind:
        case "tuple":
            return e.OutTuple(items)
        case "list":
            return e.OutList(items)
        case "dict" if all(type(k) is str for k in tree.data):
            return e.OutDict(tree.data, items)
        case _:
            return e.OutCall(
                lambda *children: unflatten(
                    TreeDef(tree.kind, tree.data, (TreeDef("leaf"),) * len(children)), children
                ),
                items,
            )


def _native(
    native: NativeCalls,
    f: Called,
    signature: CallSignature,
    made: Traced,
    older: Sequence[CallSignature],
    dims: Mapping[str, int],
) -> Runner:
    lowered, staged, dependencies = made.lowered, made.staged, made.dependencies
    program = lowered.program
    traced = signature.traced()
    keep = [np.asarray(c) for c in staged.constants]
    writeback = writeback_of(staged)
    written = {traced[n] for n in writeback.written} if writeback is not None else set[int]()
    copying: Any = None if signature.aliases else program  # no guard asks whether two arguments are one array
    if writeback is not None and copying is not None:
        blind = bool(dependencies.frozen_arrays) or writeback.reads_captured(len(traced))
        copying = None if blind else with_copies(program, writeback.written)
    if copying is None or not _dispatchable(signature) or program.calls_python:
        with lowered.blamed():
            compiled = lowered.kept(native.compile(lowered.program, dims))
        run = _python_call(compiled, signature, writeback, made, keep)
        return Runner(run, keep, writeback)
    program = copying
    written |= {traced[n] for n in donated_inputs(program)}
    guards = iter([_guard(leaf, n in written) for n, leaf in enumerate(signature.leaves)])
    args_tree, kwargs_tree = signature.tree.children
    args = tuple(_guard_tree(child, guards) for child in args_tree.children)
    kwargs = tuple(
        (k, _guard_tree(child, guards)) for k, child in zip(kwargs_tree.data, kwargs_tree.children, strict=True)
    )
    scalars = frozenset(k for k, n in enumerate(traced) if isinstance(signature.leaves[n], NumberLeaf))
    wanted = native.slots(program, scalars)
    parts = _parts(signature)

    numbers = _leaf_numbers(signature)
    # outputs that are allocated
    fresh = {n: k for k, n in enumerate(n for n, b in enumerate(program.outputs) if b.role == "output")}

    def slots(arrays: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(_slot(s, signature, traced, arrays, numbers, fresh) for s in wanted)

    allocated = [program.outputs[n] for n in fresh]
    outputs = tuple(e.OutputSpec(numpy_dtype(b.dtype), tuple(_extent(n, parts) for n in b.room)) for b in allocated)
    results: list[Any] = [
        e.OutLeaf(fresh[n], n in staged.numbers) if n in fresh else e.OutArg(numbers[traced[program.inputs.index(b)]])
        for n, b in enumerate(program.outputs)
    ]
    counts = [results[k] for k in made.counts.values()]
    for n, b in enumerate(program.outputs):
        if _is_counted(b.shape):
            results[n] = e.OutCall(_cut(b.shape, made.counts), (results[n], *counts))
    whole = _result_tree(made.out_tree, iter(made.out_leaves), signature.wrapped, results, made.absent)
    if WHOLE in made.absent:
        whole = e.OutCall(_none_where, (whole, results[made.absent[WHOLE]]))
    spec = e.EntrySpec(
        e.Signature(args, kwargs, len(kwargs) > 1 and sees_order_of_keywords(f.function)),
        slots(keep),
        outputs,
        whole,
        "program",
        _release(program, parts),
        conditions=(*_least_extents(signature), *_not_of(older, signature)),
    )
    with lowered.blamed():
        entered = Entered(program, scalars, dims, dependencies, keep, f.miss)
        entry = native.enter(functools.partial(f.dispatcher, native), spec, slots, entered)
        lowered.kept(entry.compiled)
    run = _python_call(entry.compiled, signature, writeback, made, keep)
    return Runner(run, keep, writeback, entry)


def _least_extents(signature: CallSignature) -> tuple[Any, ...]:
    """That extents are as large as the program was made for: it divides by them,
    and NumPy broadcasts or raises for smaller ones.
    """
    conditions: list[e.Condition] = []
    parts = _parts(signature)
    for name in sorted(signature.symbols):
        _, factor, offset = affine(parts.get(name, Dim.symbol(name)))
        extent = _name(parts.get(name, Dim.symbol(name)))
        conditions.append(e.Condition("ge", extent, factor * least_extent(name) + offset))
        if factor != 1:
            conditions.append(e.Condition("eq", ("mod", ("sub", extent, offset), factor), 0))
    return tuple(conditions)


def distance(old: CallSignature, new: CallSignature) -> Any:
    """An extent of the entry of `new` that is 0 for the calls which `old` takes as well;
    None where there are no such calls.

    The signatures are equal but for extents.
    """
    terms: list[Any] = []
    bound: dict[str, Any] = {}
    for a, b in zip(old.leaves, new.leaves, strict=True):
        for n, m in zip(a.shape, b.shape, strict=True) if isinstance(a, ArrayLeaf) and isinstance(b, ArrayLeaf) else ():
            here = _name(m)
            if isinstance(n, Dim):
                symbol, factor, offset = affine(n)
                value = here if (factor, offset) == (1, 0) else ("floordiv", ("sub", here, offset), factor)
                if factor != 1:
                    terms.append(("mod", ("sub", here, offset), factor))
                if bound.setdefault(symbol, value) == value:
                    terms.append(("max", ("sub", least_extent(symbol), value), 0))
                    continue
                n, here = bound[symbol], value
            elif isinstance(m, int):
                if n != m:
                    return None
                continue
            terms.append(("sub", ("max", here, n), ("min", here, n)))
    return functools.reduce(lambda x, y: ("add", x, y), terms) if terms else None


def _not_of(older: Sequence[CallSignature], signature: CallSignature) -> Iterator[e.Condition]:
    """That no older version takes the call: so equal arguments run the same code, whatever was compiled since."""
    for old in older:
        away = distance(old, signature)
        if away is not None:
            yield e.Condition("ne", away, 0)


def _dispatchable(signature: CallSignature) -> bool:
    """Whether every container among the arguments is one the native entry looks into, and no strides decide."""
    if any(isinstance(leaf, ArrayLeaf) and leaf.strides is not None for leaf in signature.leaves):
        return False
    stack = list(signature.tree.children)
    while stack:
        t = stack.pop()
        if t.kind not in ("leaf", "none", "tuple", "list", "dict"):
            return False
        if t.kind == "dict" and not all(type(k) is str for k in t.data):
            return False
        stack.extend(t.children)
    return True


def _slot(
    slot: Any,
    signature: CallSignature,
    traced: Sequence[int],
    keep: Sequence[Any],
    leaf: Mapping[int, int],
    fresh: Mapping[int, int],
) -> Any:
    match slot.kind:
        case "data" | "scalar" | "stride" if slot.number >= len(traced):
            array = keep[slot.number - len(traced)]
            return e.ConstSlot(array.ctypes.data if slot.kind == "data" else array.strides[slot.axis])
        case "data":
            return e.DataSlot(leaf[traced[slot.number]])
        case "scalar":
            return e.ScalarSlot(leaf[traced[slot.number]], slot.axis)
        case "stride":
            return e.StrideSlot(leaf[traced[slot.number]], slot.axis)
        case "dim":
            return e.DimSlot(_extent(Dim.symbol(slot.name), _parts(signature)))
        case "failure":
            return e.ConstSlot(0)
        case _:
            return e.OutSlot(fresh[slot.number])


def _leaf_numbers(signature: CallSignature) -> dict[int, int]:
    """Leaf positions of the call to leaf numbers of the entry, which also counts every None."""
    numbers: dict[int, int] = {}
    count = position = 0
    stack = list(reversed(signature.tree.children))
    while stack:
        t = stack.pop()
        if t.kind == "none":
            count += 1
        elif t.kind == "leaf":
            numbers[position] = count
            position, count = position + 1, count + 1
        else:
            stack.extend(reversed(t.children))
    return numbers


def _release(program: Any, parts: Mapping[str, Dim]) -> Any:
    """Other threads may run during programs that have enough to do, or loop."""
    from tracejit.ir.program import CountedLoop, WhileLoop, walk_steps

    if any(isinstance(s, (CountedLoop, WhileLoop)) for s in walk_steps(program.steps)):
        return True
    sizes = [prod(b.room) for b in (*program.inputs, *program.outputs)]
    total: Extent = 0
    for n in sizes:
        total = total + n
    return _extent(total, parts) if isinstance(total, Dim) else total >= e.GIL_WORK


def _to_give(array: np.ndarray[Any, Any], others: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """A donated argument, or a copy of one that cannot be given away:
    it is read-only or shares memory with another argument.
    """
    free = array.flags.writeable and not any(np.may_share_memory(array, x) for x in others)
    return array if free else array.copy()


def _is_counted(shape: Sequence[Extent]) -> bool:
    """Whether the program computes how many elements a result has."""
    return any(map(has_count, shape))


def _cut(shape: Sequence[Extent], counts: Mapping[Dim, int]) -> Callable[..., Any]:
    """What makes a result of the array that has room for it, with the elements at its beginning, and the values of all
    extents that are computed.
    """
    place = {str(n): k for k, n in enumerate(counts)}
    by = [place.get(str(n)) if isinstance(n, Dim) else None for n in shape]

    def cut(room: np.ndarray[Any, Any], *values: Any) -> np.ndarray[Any, Any]:
        actual = tuple([n if k is None else int(values[k]) for n, k in zip(room.shape, by, strict=True)])
        found = room.reshape(-1)[: math.prod(actual)].reshape(actual)
        return found if found.size * 2 > room.size else found.copy()

    return cut


def _failed(made: Traced, dims: Mapping[str, int], failure: int) -> Exception:
    """The error of a check of the program; `dims` are the extents of the call."""
    failed = failure_error(failure, made.staged.sites or (), dims)
    return failed.about(backend=made.lowered.backend.name) if isinstance(failed, TracejitError) else failed


def _none_where(value: Any, flag: Any) -> Any:
    return None if flag else value


def _check_places(given: Sequence[Any], backend: str) -> None:
    """Raises: UnsupportedError where an argument lies on a device."""
    for x in given:
        if isinstance(x, Resident):
            raise UnsupportedError(
                f"an argument lies on {x.place}, and the function runs on {backend}; move it: tj.device_get(x), or "
                "tj.jit without backend=, which runs where its arguments lie"
            )


def _host(x: Any) -> Any:
    return np.asarray(x.host()) if isinstance(x, Resident) else x


def _python_call(
    compiled: Compiled,
    signature: CallSignature,
    writeback: Writeback | None,
    made: Traced,
    keep: Sequence[Any],
) -> Callable[..., Any]:
    """Run the compiled program from Python: the first call, and calls the native entry does not take."""
    traced, wrapped = signature.traced(), signature.wrapped
    staged, out_leaves, backend = made.staged, made.out_leaves, made.lowered.backend.name
    donated = donated_inputs(compiled.program)
    written = writeback.written if writeback is not None else ()

    resident = compiled if wrapped and isinstance(compiled, KeepsResults) else None

    def run(values: Sequence[Any], leaves: Sequence[Any]) -> Any:
        given: list[Any] = [
            x if isinstance(x := values[n], Resident) else np.asarray(x, _dtype(signature.leaves[n])) for n in traced
        ]
        if resident is None:
            _check_places(given, backend)
        inputs = list(given)
        for n in donated:
            inputs[n] = _to_give(given[n], [*given[:n], *given[n + 1 :]])
        dims = _dims_of(signature, inputs)
        try:
            outputs: list[Any] = (
                compiled.run([*inputs, *keep], dims)
                if resident is None
                else resident.run_resident([*inputs, *keep], dims, functools.partial(_failed, made, dims))
            )
        except FailedCheck as error:
            raise _failed(made, dims, error.failure) from None
        except TracejitError as error:
            error.about(backend=backend)
            raise
        split = max(k for k in (-1, *out_leaves) if isinstance(k, int)) + 1
        after = split + len(made.counts) + len(made.absent)
        # A program that copies new values of arguments itself has put them into the inputs.
        fresh = outputs[after:] or [inputs[n] for n in written]
        for position, new in zip(written, fresh, strict=True):
            if new is not leaves[traced[position]]:
                np.copyto(leaves[traced[position]], _host(new))
        for k, b in enumerate(compiled.program.outputs):
            if _is_counted(b.shape):
                room, *counts = [_host(x) for x in (outputs[k], *[outputs[n] for n in made.counts.values()])]
                outputs[k] = _cut(b.shape, made.counts)(room, *counts)
        results = [adopt(o) if wrapped else o for o in outputs[:split]]
        if not wrapped:
            results = [o if o.ndim else o.item() if k in staged.numbers else o[()] for k, o in enumerate(results)]
        missing = {k for k, flag in made.absent.items() if _host(outputs[flag])}
        if WHOLE in missing:
            return None
        results = [None if k in missing else x for k, x in enumerate(results)]
        return unflatten(made.out_tree, [results[k] if isinstance(k, int) else k.value for k in out_leaves])

    return run
