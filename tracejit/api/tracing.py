"""From a function and the signature of a call to a lowered program:
one run of the function on traced arrays, then the passes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.api.array import Array
from tracejit.api.options import Options
from tracejit.api.signature import MOST_LEAVES, ArrayLeaf, CallSignature, Leaf, NumberLeaf, StaticLeaf, leaf_paths
from tracejit.api.writeback import refuse_impossible_writes
from tracejit.backends.registry import get_backend
from tracejit.ir.extents import Count, Dim, DimDependent, has_count
from tracejit.ir.ranges import ARGUMENTS
from tracejit.support.config import config
from tracejit.support.errors import TracejitError, TracerError, UnsupportedError, UserError, name_in
from tracejit.support.nodes import evolve, frozen
from tracejit.support.source import Location, frames_of, raised_at
from tracejit.support.tree import TreeDef, flatten, split_node, unflatten
from tracejit.tracer.absence import absence_of, unmarked, used
from tracejit.tracer.bytecode import raises
from tracejit.tracer.captured import Dependencies
from tracejit.tracer.cell import is_number
from tracejit.tracer.failures import Raised, Reason, failures_noted, with_numbers
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.layout import Layout, Open
from tracejit.tracer.numpys_errors import numpys_own
from tracejit.tracer.operators import OPERATORS, PRIMITIVES
from tracejit.tracer.ownership import is_installed
from tracejit.tracer.redirect import tracing
from tracejit.tracer.restarts import ChangedLater, MasksByValue, NeedStrides, NeedValue
from tracejit.tracer.stage import Staged, stage
from tracejit.tracer.statements.decisions import AsPython
from tracejit.tracer.trace import Trace
from tracejit.tracer.traced_text import MARK, TracedText, plain_text
from tracejit.tracer.tracer import Tracer

if TYPE_CHECKING:
    from tracejit.compiler.lowered import Lowered

__all__ = ["WHOLE", "Traced", "staged_at_last", "trace_call"]


WHOLE = -1


@frozen(eq=False)
class Traced:
    """What one trace gives.

    out_tree, out_leaves: how results are assembled, each leaf an output's number or a `Constant`.  dependencies: on
    what outside of the function the program depends.
    """

    staged: Staged
    lowered: Lowered
    out_tree: TreeDef
    out_leaves: tuple[Any, ...]
    dependencies: Dependencies
    counts: Mapping[Dim, int]  # the extents of results that the program computes, and which output each of them is
    # results that are None where an output holds: which result (`WHOLE`: the tuple of all), and which output
    absent: Mapping[int, int]


@frozen(eq=False)
class Constant:
    """A result that the function gives whatever its arguments are."""

    value: Any


def _refuse_changed_containers(name: str, tree: TreeDef, arguments: Any, passed: Sequence[Any]) -> None:
    """Raises: UserError if the function has changed a list or dict among its arguments; what it got were copies."""
    now, structure = flatten(arguments)
    if structure != tree or any(a is not b for a, b in zip(now, passed, strict=True)):
        raise UserError(
            f"{name} changes a list or dict that it was given, which the caller would not see; copy it first (d = "
            "dict(d)) and "
            "return the copy, or change the arrays in it in place (d['x'][...] = v)"
        )


def _a(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def _counts_of(results: Sequence[Any]) -> list[Dim]:
    """The extents of results which the program computes."""
    shapes = [v.shape for v in results if type(v) is Tracer]
    return list({str(n): n for shape in shapes for n in shape if isinstance(n, Dim) and has_count(n)}.values())


def _with_known_keys(tree: TreeDef) -> TreeDef:
    """The structure of results; keys of dicts that are traced numbers are their values,
    which looking them up has asked for.
    """
    if tree.kind == "leaf":
        return tree
    data = tuple(map(_known_key, tree.data)) if tree.kind == "dict" else tree.data
    return TreeDef(tree.kind, data, tuple(map(_with_known_keys, tree.children)))


def _known_key(key: Any) -> Any:
    if type(key) is tuple:
        return tuple(map(_known_key, key))
    known = key.known() if isinstance(key, Tracer) else None
    return key if known is None else known.item() if key.aval.weak else known[()]


def may_come_of_extents(signature: CallSignature, error: BaseException) -> bool:
    """Whether an exception may come of it that somebody who wants a number was given a symbolic extent: the function is
    then traced again with numbers.  Not refusals, bugs that are known for such, and what a `raise` or `assert` of the
    user's functions made.
    """
    if not signature.symbols or not isinstance(error, Exception) or isinstance(error, TracejitError):
        return False
    code, place = frames_of(error)[-1]
    return is_installed(code.co_filename) or not raises(code, place)


def _check_tuples_within(value: Any) -> None:
    """The program fails where a tuple within a container is None: a result has arrays in its place."""
    for x in (split_node(value) or ((), (), ()))[2]:
        absence = absence_of(x) if isinstance(x, tuple) else None
        if absence is not None and absence.none:
            why = f"a tuple is returned within a container, and {absence.name!r} is None here; return it alone"
            OPERATORS.check_none(absence.flag, Reason(UnsupportedError, why))
        _check_tuples_within(x)


def _flag_of_none(value: Any) -> Any:
    """The flag that tells where a result is None; without one, it is used here."""
    absence = absence_of(value)
    if absence is not None and absence.none and not absence.whole:
        return absence.flag
    used(value)
    return None


def _results(name: str, values: Sequence[Any], wrapped: bool) -> tuple[list[Any], tuple[Any, ...], set[int]]:
    """(the results that a program computes, for each of all results which of these it is or a constant, those that are
    Python numbers).

    Raises: TracerError for what cannot be a result.
    """
    kept: list[Any] = []
    slots: list[Any] = []
    numbers: set[int] = set()
    for v in values:
        if isinstance(v, Dim) and not has_count(v):
            v = int(v)  # a number of this size: the trace starts again with it fixed
        elif isinstance(v, Tracer) and type(v) is not Tracer:
            v.returned()
        if isinstance(v, (Tracer, np.ndarray, np.generic, Array)):
            if type(v) is Tracer and is_number(v) and not wrapped:
                numbers.add(len(kept))
            slots.append(len(kept))
            kept.append(v)
        elif isinstance(v, Dim):  # how many elements there are is computed: a number like others
            slots.append(len(kept))
            numbers.add(len(kept))
            kept.append(OPERATORS.number_of_extents(v))
        elif type(v) is TracedText or (isinstance(v, str) and MARK in v):
            raise TracerError(
                f"{name} returned {plain_text(v)!r}, a string made of an array whose value is not known; return the "
                "array and format it outside"
            )
        elif isinstance(v, (bool, int, float, complex, str, bytes)) or v is None:
            slots.append(Constant(v))
        else:
            raise TracerError(
                f"{name} returned {_a(type(v).__name__)}; results are arrays, numbers, strings, None or "
                "containers of them"
            )
    return kept, tuple(slots), numbers


def trace_call(
    function: Callable[..., Any],
    options: Options,
    signature: CallSignature,
    check: Callable[[Staged, Sequence[Any]], None] = lambda _staged, _taken: None,
) -> Traced:
    """Stage the function for a signature and run the passes.

    check: is called with what was staged, and the arrays from outside whose elements became part of it; where it raises
    a Restart, nothing is changed outside.

    Raises: NeedValue, NeedStrides, DimDependent where it has to start again with another signature; what tracing and
    compiling raise.
    """
    from tracejit.compiler.pipeline import lower_jaxpr

    redirected = options.redirect
    name = getattr(function, "__name__", "main")
    traced = signature.traced()
    out: dict[str, Any] = {}
    numbers: set[int] = set()

    def need_booleans() -> None:
        for position, n in enumerate(traced):
            leaf = signature.leaves[n]
            if isinstance(leaf, NumberLeaf) and leaf.kind == "bool":
                raise NeedValue(position)

    def flat(*tracers: Any) -> Sequence[Any]:
        argument = trace.argument if redirected else lambda value: value
        filled: list[Any] = [
            argument(leaf.value) if isinstance(leaf, StaticLeaf) else None for leaf in signature.leaves
        ]
        for n, t in zip(traced, tracers, strict=True):
            filled[n] = t
        for n in traced:
            leaf = signature.leaves[n]
            filled[n].is_array = isinstance(leaf, ArrayLeaf) and not leaf.scalar
            filled[n].fixed = isinstance(leaf, ArrayLeaf) and leaf.wrapped
        for first, again in signature.aliases:
            filled[traced[again]] = filled[traced[first]]
        args, kwargs = unflatten(signature.tree, filled)
        with trace.changing(again=functools.partial(may_come_of_extents, signature)):
            try:
                result = (trace.function(function) if redirected else function)(*args, **kwargs)
            except Exception as error:
                trace.loops.given.check()  # what has changed unseen may be why
                dropped = isinstance(error, NameError) and name_in(error) in trace.loops.dropped
                if dropped or not failures_noted() or may_come_of_extents(signature, error):
                    raise
                # it raises on every way, and data decide whether something before it is the error
                raised = numpys_own(error) if isinstance(error, TracejitError) else error
                OPERATORS.check_none(PRIMITIVES.full((), np.True_), Raised(with_numbers(raised)))
                result = None
        refused = current_interpreter().refused
        if refused is not None:  # the function has caught it: what it did then has not happened
            raise refused
        _refuse_changed_containers(name, signature.tree, (args, kwargs), filled)
        values, tree = flatten(result)
        whole = absence_of(result)
        _check_tuples_within(result)
        if whole is not None and whole.none and any(x is result for x in whole.whole):
            nothing, flags = [whole.flag], [whole.flag for _ in values]
        else:
            nothing, flags = [], [_flag_of_none(v) for v in values]
        values = [v if flag is None else unmarked(v) for v, flag in zip(values, flags, strict=True)]
        out["tree"] = _with_known_keys(tree)
        if len(values) > MOST_LEAVES:
            raise UserError(
                f"{name} returned {len(values):,} arrays and numbers, more than the {MOST_LEAVES:,} that are compiled "
                "one by one; return "
                "them in one array (np.stack, np.concatenate)"
            )
        kept, out["slots"], found = _results(name, values, signature.wrapped)
        numbers.clear()
        numbers.update(found)
        extents = _counts_of(kept)
        out["counts"] = {n: len(kept) + k for k, n in enumerate(extents)}
        absent = [(n, flag) for n, flag in zip(out["slots"], flags, strict=True) if flag is not None]
        absent = [(WHOLE, flag) for flag in nothing] or absent
        out["absent"] = {n: len(kept) + len(extents) + k for k, (n, _) in enumerate(absent)}
        return [*kept, *map(OPERATORS.extent, extents), *[flag for _, flag in absent]]

    def finish(staged: Staged) -> None:
        refuse_impossible_writes(signature, staged, name, options.writeback)
        check(staged, (*staged.looked_into, *trace.reads.frozen.values()))
        trace.keep()

    def specialise(position: int) -> bool:
        return isinstance(signature.leaves[traced[position]], NumberLeaf)

    avals = [signature.leaves[n].aval for n in traced]  # type: ignore[union-attr]
    lies = [_layout(k, signature.leaves[n]) for k, n in enumerate(traced)]
    integers = {k: ARGUMENTS for k, n in enumerate(traced) if signature.leaves[n] == NumberLeaf("int")}
    # where its arrays lie, if nobody has said otherwise
    backend = get_backend(signature.backend or options.backend or config.backend)
    with tracing() as trace:
        trace.need_booleans = need_booleans
        trace.backend = backend.name
        once = functools.partial(
            stage,
            flat,
            avals,
            specialise=specialise,
            writeback=True,
            program=True,
            layouts=lies,
            ranges=integers,
            finish=finish,
        )
        staged = staged_at_last(once, trace)
    by_python = tuple((site.what, Location(site.code, site.place), why) for site, why in trace.loops.python.items())
    staged = evolve(staged, numbers=frozenset(numbers), by_python=by_python)
    dependencies = trace.reads.dependencies(staged.constants, staged.looked_into)
    layouts = [leaf.layout if isinstance(leaf, ArrayLeaf) else "C" for leaf in (signature.leaves[n] for n in traced)]
    layouts += ["C" if np.asarray(c).flags.c_contiguous else "strided" for c in staged.constants]
    donated = _donated(options.donate, signature, staged, name)
    lowered = lower_jaxpr(
        staged.jaxpr,
        backend,
        layouts,
        name if name.isidentifier() else "main",
        staged.constants,
        alternatives=options.alternatives,
        donated=donated,
        checked=staged.sites is not None,
    )
    paths = leaf_paths(signature.tree)
    names = [paths[n] for n in traced] + [f"captured {n + 1}" for n in range(len(staged.constants))]
    lowered = evolve(lowered, arguments=tuple(names), written=tuple(n for n, _ in staged.written))
    return Traced(staged, lowered, out["tree"], out["slots"], dependencies, out["counts"], out["absent"])


def _of_unknown_shape(count: Count, location: Location | None) -> UnsupportedError:
    """What is wanted of an extent while tracing, which the program computes."""
    return UnsupportedError(
        f"how many elements {count.what} has is known when the program runs, and decides what is done here: arrays "
        "that are computed with one another are selected by one mask (m = x > 0, then x[m] and y[m]), or one of them "
        "is np.where(mask, x, other); np.unique, np.nonzero and their like give such arrays too, and with size= of "
        "tj.numpy ones of a length that is known",
        location=location,
    )


def staged_at_last(once: Callable[..., Staged], trace: Trace) -> Staged:
    """What was staged, of a trace that starts again as often as it has to."""
    careful = by_value = False
    while True:
        trace.loops.given.clear()
        try:
            return once(careful=careful, masks_by_value=by_value)
        except ChangedLater:
            careful = True
        except MasksByValue:
            by_value = True
        except AsPython as loop:
            trace.loops.leave(loop)
        except DimDependent as error:
            counts = [s for s in error.symbols if isinstance(s, Count)]
            if not counts:
                raise
            refusal = _of_unknown_shape(counts[0], raised_at(error))
            if not trace.loops.shorten(str(refusal)):
                raise refusal from error
        except NameError as error:
            if not trace.loops.is_wanted(name_in(error)):
                raise
        except TracejitError as error:
            if not trace.loops.shorten(str(error).partition("\n")[0]):
                raise
        except Exception as error:
            with_numbers(error, leaves=True)
            raise
        trace.restart()


def _layout(position: int, leaf: Leaf) -> Layout:
    """How a traced argument lies in memory: what is not in C order is asked for where it matters."""
    if not isinstance(leaf, ArrayLeaf) or leaf.layout == "C":
        return None
    return Open(NeedStrides(position)) if leaf.strides is None else leaf.strides


def _donated(positions: Sequence[int], signature: CallSignature, staged: Staged, name: str) -> list[int]:
    """The inputs in arguments that the caller gives up; none where the function changes arguments or reads arrays from
    outside.

    (Those may share memory with what is given up, which no check at the call would see.)  Neither where the program can
    fail: an exception leaves the arguments as they were.  A tj.Array never changes.
    """
    count, wanted = 0, set[int]()
    arguments = signature.tree.children[0].children
    for n in positions:
        if n >= len(arguments):
            raise UserError(f"donate_argnums={n}: {name} was called with {len(arguments)} positional arguments")
    for n, child in enumerate(arguments):
        if n in positions:
            wanted |= set(range(count, count + child.leaves))
        count += child.leaves
    traced = signature.traced()
    arrays = [(k, signature.leaves[n]) for k, n in enumerate(traced) if n in wanted]
    if staged.written or staged.constants or staged.sites is not None:
        return []
    return [k for k, leaf in arrays if isinstance(leaf, ArrayLeaf) and not leaf.scalar and not leaf.wrapped]
