"""The versions of one function: which serves a call, when another is compiled, and when one is let go."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tracejit.api import notices
from tracejit.api.array import Array
from tracejit.api.generalise import bind_dims, decide, generalise, pattern_of, with_other_extents
from tracejit.api.options import Options
from tracejit.api.signature import CallSignature, in_order, leaf_path, signature_of, static_leaves
from tracejit.api.tracing import may_come_of_extents, trace_call
from tracejit.api.writeback import Writeback, writeback_of
from tracejit.backends.base import Resident
from tracejit.ir.extents import DimDependent
from tracejit.support.collector import first_call
from tracejit.support.config import config
from tracejit.support.errors import InternalError
from tracejit.support.nodes import define, evolve, field
from tracejit.support.source import Location, frames_of, is_ours, remembering_warnings
from tracejit.support.tree import TreeDef
from tracejit.tracer.captured import Dependencies
from tracejit.tracer.restarts import NeedStrides, NeedValue, SameArray
from tracejit.tracer.stage import Staged

if TYPE_CHECKING:
    from tracejit.api.entry import Runner, Straight
    from tracejit.backends.base import Dispatcher, NativeCalls
    from tracejit.compiler.lowered import Lowered

__all__ = ["Version", "Versions"]

_MANY_OUTDATED = 8
"""After how many recompilations because of rebound names a warning says which."""


@define(eq=False)
class Version:
    """One compiled version: the signature it serves, its stages, how results are assembled.

    dependencies: what it depends on, brought up to date where arrays took the place of others.
    """

    signature: CallSignature
    lowered: Lowered
    staged: Staged
    out_tree: TreeDef
    out_leaves: tuple[Any, ...]  # an output number, or a `Constant`
    static: frozenset[int]
    run: Runner
    dependencies: Dependencies
    reason: str


@define(eq=False)
class Versions:
    """What a jitted function remembers; guarded by `lock`.

    function, options: what was given to `jit`.  dispatched: what its calls go to on a backend that serves them without
    Python.  miss: what others go to.
    """

    function: Callable[..., Any]
    options: Options
    dispatched: Callable[[NativeCalls], Dispatcher]
    miss: Callable[..., Any]
    lock: threading.RLock = field(factory=threading.RLock)
    versions: dict[CallSignature, Version] = field(factory=dict)
    static: set[int] = field(factory=set)  # leaves whose values the trace has asked for
    strided: set[int] = field(factory=set)  # leaves whose strides it has asked for
    last: dict[Any, CallSignature] = field(factory=dict)  # signature without extents -> latest
    compilations: int = 0
    values: set[Any] = field(factory=set[Any])  # of numbers that it was compiled for
    warned: set[tuple[str, int, str]] = field(factory=set[tuple[str, int, str]])  # what traces have warned of
    warned_of_values: bool = False
    because: str = ""  # why the next version is compiled, where a version was dropped for it
    asked_at: dict[int, Location | None] = field(factory=dict)  # static position -> where its value was asked for
    warned_of_dtypes: bool = False
    outdated: int = 0  # versions that were dropped because of what the function reads from outside
    changes_state: bool = False  # the last trace has changed what it reads from outside
    # by the kinds of arrays that all lie on a device: what runs the call.  Emptied when versions come or go.
    straight: dict[tuple[Any, ...], tuple[Version, Straight | None]] = field(factory=dict[tuple[Any, ...], Any])

    def asked(self, signature: CallSignature, need: NeedStrides | NeedValue) -> None:
        """Remember what a trace wants to know of an argument before it starts again."""
        position = signature.traced()[need.position]
        self.straight.clear()
        if isinstance(need, NeedStrides):
            self.strided.add(position)
            return
        self.static.add(position)
        self.asked_at[position] = need.location

    def named(self, otherwise: str) -> str:
        """The function's name, for messages."""
        return getattr(self.function, "__name__", otherwise)

    def finish(self) -> None:
        """Have every version in its final form."""
        for version in self.versions.values():
            version.run.finish()
            version.run.follow(version.dependencies)

    def clear(self) -> None:
        """Forget every version."""
        self.versions.clear()
        self.straight.clear()
        self.last.clear()

    def of_call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], aliases: tuple[tuple[int, int], ...] = ()
    ) -> tuple[Version, list[Any], list[Any]]:
        """(the version for a call, compiled if there is none; values of the call's leaves; the leaves)"""
        static = static_leaves(args, in_order(self.function, kwargs), self.options)
        while True:
            asked = len(self.static), len(self.strided)
            signature, values, leaves = signature_of(
                self.function,
                args,
                kwargs,
                static | self.static,
                frozenset(self.strided),
                where=self.options.where,
            )
            signature = evolve(signature, aliases=aliases) if aliases else signature
            version = self._current(self.versions.get(signature) or self._symbolic(signature))
            if version is None:
                try:
                    with first_call():
                        version = self._compile(signature, leaves)
                except SameArray as same:
                    aliases = same.pairs
            if version is not None and (len(self.static), len(self.strided)) == asked:
                return version, values, leaves

    def learn_straight(self, args: tuple[Any, ...], version: Version, values: Sequence[Any]) -> bool:
        """Keep how calls like this one are run, where that is straightforward."""
        if len(args) != len(values) or self.options.static or version.dependencies.spent:
            return False
        if not all(isinstance(x, Resident) and type(a) is Array for a, x in zip(args, values, strict=True)):
            return False
        kinds = tuple([x.kind for x in values])
        if kinds in self.straight:
            return False
        found = version.run.straight(values)
        self.straight[kinds] = version, found
        return found is not None

    def aliases(self, version: Version, leaves: Sequence[Any]) -> tuple[tuple[int, int], ...]:
        """Which traced arguments are one array, where that matters because the function changes it."""
        taken = version.dependencies.frozen_arrays
        return self._aliases(version.signature, version.run.writeback, leaves, version.run.keep, taken)

    def _aliases(
        self,
        signature: CallSignature,
        writeback: Writeback | None,
        leaves: Sequence[Any],
        captured: Sequence[Any],
        taken: Sequence[Any],
    ) -> tuple[tuple[int, int], ...]:
        if writeback is None:
            return ()
        traced, tree = signature.traced(), signature.tree
        name = self.named("the function")

        def describe(position: int) -> str:
            return (
                f"argument {leaf_path(tree, traced[position])} of {name}"
                if position < len(traced)
                else f"an array that {name} reads from outside"
            )

        return writeback.aliases([leaves[n] for n in traced], captured, taken, describe)

    def _current(self, version: Version | None) -> Version | None:
        """The version, brought up to date with what names outside of the function hold now;
        None if it is no longer valid.
        """
        if version is None:
            return None
        renewed = version.dependencies.renewed()
        if renewed is None:
            self.outdated += 1
            if self.outdated == _MANY_OUTDATED:
                warnings.warn(
                    f"{self.named('a function')} was compiled {_MANY_OUTDATED} times anew because what it reads from "
                    "outside "
                    f"changed (now {version.dependencies.reason()}); pass what changes as an argument",
                    stacklevel=5,
                )
            self.because = f"because {version.dependencies.reason()}"
            last = dict(self.last)
            self._forget(version.signature)
            self.last.update(last)  # what the next one generalises
            return None
        version.run.follow(renewed)
        if renewed is not version.dependencies:
            version.dependencies = renewed
            self.straight.clear()
        return version

    def _symbolic(self, signature: CallSignature) -> Version | None:
        """The oldest version with symbolic extents that fits, as in the native entries:
        equal arguments always run the same code.
        """
        pattern = pattern_of(signature)
        if pattern not in self.last:
            return None
        alike = ((known, v) for known, v in self.versions.items() if pattern_of(known) == pattern)
        return next((v for known, v in alike if bind_dims(known, signature) is not None), None)

    def _compile(self, signature: CallSignature, leaves: Sequence[Any]) -> Version | None:
        """Compile for a signature: as it is the first time, with symbolic extents once only extents have changed.

        leaves: of the call.  Raises: SameArray if these are to be traced as fewer arrays.
        """

        def check(staged: Staged, taken: Sequence[Any]) -> None:
            if not signature.aliases:
                pairs = self._aliases(signature, writeback_of(staged), leaves, staged.constants, taken)
                if pairs:
                    raise SameArray(pairs)

        dynamic = self.options.dynamic_shapes
        pattern = pattern_of(signature)
        previous = self.last.get(pattern)
        wanted, began = signature, time.perf_counter()
        if dynamic is not False and previous is not None and not self.changes_state:
            wanted = generalise(previous, signature)
        elif dynamic is True:
            wanted = generalise(with_other_extents(signature), signature)
        while True:
            try:
                with remembering_warnings(self.warned):
                    made = trace_call(self.function, self.options, wanted, check)
                break
            except (NeedStrides, NeedValue) as need:
                self.asked(signature, need)
                return None
            except DimDependent as error:
                wanted = decide(wanted, signature, error)
            except Exception as error:
                if not may_come_of_extents(wanted, error):
                    raise
                if config.checks and is_ours(frames_of(error)[-1][0].co_filename):
                    raise InternalError(f"a trace with symbolic extents raised {error!r}") from error
                notices.log_retreat(self, wanted, error)
                wanted = signature
        from tracejit.api.entry import Called, make_runner

        dependencies, static = made.dependencies, frozenset(self.static)
        dependencies.spend()
        # what changes its surroundings is traced at each call, so that it gains nothing from a version for other sizes
        self.changes_state = bool(dependencies.spent)
        older = [known for known in self.versions if pattern_of(known) == pattern]
        dims = bind_dims(wanted, signature) or {}
        run = make_runner(Called(self.function, self.dispatched, self.miss), wanted, made, older, dims)
        if dependencies.spent:
            run.remove()
        reason = self._reason(signature, wanted)
        version = Version(
            wanted, made.lowered, made.staged, made.out_tree, made.out_leaves, static, run, dependencies, reason
        )
        while len(self.versions) >= max(1, config.cache_size):
            self._forget(next(iter(self.versions)))
        # arguments that hold the same by now as those of an older version
        for known in [s for s in self.versions if s == wanted]:
            self._forget(known)
        self.straight.clear()
        self.versions[wanted] = version
        self.last[pattern] = wanted
        self.compilations += 1
        notices.log(self, version, time.perf_counter() - began)
        notices.warn_of_many_values(self, version)
        notices.warn_of_many_dtypes(self, version)
        return version

    def _reason(self, signature: CallSignature, wanted: CallSignature) -> str:
        """Why a version is compiled, as the rest of a sentence."""
        because, self.because = self.because, ""
        if because:
            return because
        if not self.versions:
            return "for the first call" if not self.compilations else "for the first call after clear_cache()"
        from tracejit.api.explain import difference

        more = "; serves other sizes too" if wanted.symbols else ""
        return f"because {difference(list(self.versions), signature)}{more}"

    def _forget(self, signature: CallSignature) -> None:
        """Let a version go, and its native entry; and those made later that leave it calls."""
        from tracejit.api.entry import distance

        self.straight.clear()
        pattern = pattern_of(signature)
        known = list(self.versions.items())
        place = next((n for n, (s, _) in enumerate(known) if s is signature), len(known))
        later = [s for s, _ in known[place + 1 :] if pattern_of(s) == pattern and distance(signature, s) is not None]
        gone = {id(s) for s in (signature, *later)}
        for s, version in known:
            if id(s) in gone:
                version.run.remove()
                if self.last.get(pattern) is s:
                    del self.last[pattern]
        # A new dict, because an object among the arguments may have another hash by now, or be equal to another one.
        self.versions = {}
        for s, version in known:
            if id(s) not in gone and s in self.versions:
                version.run.remove()
            elif id(s) not in gone:
                self.versions[s] = version
