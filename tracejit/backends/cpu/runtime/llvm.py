"""LLVM inside this process: IR text in, addresses out. Nothing here knows tracejit's own IR.

One target machine (host processor and features, or those of TRACEJIT_CPU; code generation level 3) serves the whole
process. A module is parsed in a context of its own, compiled to a relocatable object by the target machine, and linked
by JITLink into a library of its own, so modules may repeat each other's names. Objects are position independent (small
code model): constants are addressed relative to the code, far symbols go through a table that the linker builds, and
the same bytes load in another process (`load_object`).

Code lives as long as its `Library`; whoever keeps an address keeps the library too. What was dropped is unloaded when
the next module is loaded; nothing is unloaded while the interpreter exits: threads may stand in it. The run time's own
modules stay for good (`Library.keep`). Constants are marked executable, so that the linker lays them into the pages of
the code: a small function takes one page instead of two, and neighbouring pages are one mapping of the process, whose
number Linux limits. Where that limit comes near, `load` raises; LLVM would end the process.

Measured (2 cores, Zen 4): importing llvmlite 30-60 ms, once; a kernel of 20 vector operations 2.6 ms (parse 0.2, code
generation 1.8, link 0.5); the 1,000th module costs what the first did. One MCJIT engine per module took 8 ms and 0.8
MB; RuntimeDyld under ORC costs the same as JITLink but needs the large code model (two more instructions per constant).
"""

from __future__ import annotations

import gc
import os
import struct
import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from typing import Any, TypeAlias

from tracejit.backends.cpu.runtime import mappings
from tracejit.backends.cpu.runtime.processor import (
    Engine,
    Session,
    alone,
    engine_of_process,
    lock,
    other_processor,
    parsed,
    start,
)
from tracejit.support.errors import CompileError, InternalError

__all__ = ["Library", "define_symbol", "load", "load_object", "loaded_count", "pass_names", "symbols"]


_symbols: dict[str, int] = {}
_library_names = (f"tracejit.{number}" for number in count())
_watched: dict[int, _Watch] = {}  # of the libraries that may be unloaded
_dropped: deque[_Watch] = deque()  # of those that are gone

# Which of LLVM's passes llvmlite can add one by one. Its only GVN is NewGVN, which compiles some loops wrongly (LLVM
# 22: `23 - (23 - i)` became a phi of two constants). There is no single licm: "O1" contains it, and GVN.
_PASSES: Mapping[str, str] = {
    "adce": "add_aggressive_dce_pass",
    "always-inline": "add_always_inliner_pass",
    "constmerge": "add_constant_merge_pass",
    "dce": "add_dead_code_elimination_pass",
    "dse": "add_dead_store_elimination_pass",
    "globaldce": "add_global_dead_code_eliminate_pass",
    "instcombine": "add_instruction_combine_pass",
    "ipsccp": "add_ipsccp_pass",
    "jump-threading": "add_jump_threading_pass",
    "lcssa": "add_lcssa_pass",
    "loop-deletion": "add_loop_deletion_pass",
    "loop-reduce": "add_loop_strength_reduce_pass",
    "loop-rotate": "add_loop_rotate_pass",
    "loop-simplify": "add_loop_simplify_pass",
    "loop-unroll": "add_loop_unroll_pass",
    "memcpyopt": "add_mem_copy_opt_pass",
    "reassociate": "add_reassociate_pass",
    "sccp": "add_sccp_pass",
    "simplifycfg": "add_simplify_cfg_pass",
    "sink": "add_sinking_pass",
    "sroa": "add_sroa_pass",
}
_PIPELINES: Mapping[str, int] = {"O1": 1, "O2": 2, "O3": 3}

# The run time's own symbols: their module is compiled when the first program that declares one is loaded.
_RUNTIME: Mapping[str, str] = {
    "tj_parallel_for": "pool",
    "tj_parallel_for_interruptible": "pool",
    "tj_check_interrupt": "pool",
    "tj_poll": "pool",
    "tj_pool_threads": "pool",
    "__truncsfhf2": "half",
    "__truncdfhf2": "half",
    "__extendhfsf2": "half",
    "tj_alloc": "memory",
    "tj_free": "memory",
    "tj_new_array": "memory",
}

# Of these LLVM calls the conversions of f16 that the processor lacks, though the module declares nothing of it.
_HALF = tuple(symbol for symbol, module in _RUNTIME.items() if module == "half")


class _Watch(weakref.ref["Library"]):
    """Tells when a library is gone. No Python code may run at that moment:
    in a collection of garbage a Ctrl-C would be lost with it.
    """

    __slots__ = ("loaded",)
    loaded: _Loaded


class Library:
    """One loaded module. Its code and data live as long as this object.

    object: the relocatable object file, for a disk cache; `load_object` takes it back.
    """

    __slots__ = ("__weakref__", "_addresses", "_assembly", "_loaded", "_passes", "_text", "_watch", "name", "object")

    def __init__(
        self, name: str, text: str, passes: str | None, object_code: bytes, addresses: dict[str, int], loaded: _Loaded
    ) -> None:
        self.name = name
        self.object = object_code
        self._text = text
        self._passes = passes
        self._addresses = addresses
        self._assembly: str | None = None
        self._loaded = loaded
        watch = _Watch(self, _dropped.append)
        watch.loaded = loaded
        _watched[id(watch)] = self._watch = watch

    def keep(self) -> None:
        """Never unload it: addresses have gone where no reference can follow."""
        _watched.pop(id(self._watch), None)
        for tracker in self._loaded[1]:
            tracker.detach()

    def address(self, symbol: str) -> int:
        """The address of a function or variable that the module defines with external linkage.

        Raises: CompileError if it defines no such symbol.
        """
        found = self._addresses.get(symbol)
        return found if found is not None else self._look_up(symbol)

    def _look_up(self, symbol: str) -> int:
        with alone():
            session, trackers = self._loaded
            try:
                tracker: Any = session.jit.lookup(self.name, symbol)
            except RuntimeError as error:
                raise CompileError(
                    f"The compiled module defines no symbol {symbol!r}.", source=self._text, log=str(error)
                ) from None
            self._addresses[symbol] = int(tracker[symbol])
            if id(self._watch) in _watched:
                trackers.append(tracker)
            else:
                tracker.detach()
        return self._addresses[symbol]

    def assembly(self) -> str:
        """The machine code as text, computed when first asked for.

        Raises: CompileError for a library that was loaded as an object.
        """
        if not self._text:
            raise CompileError(
                "This code was loaded as an object file: neither IR nor assembly is kept. Clear the cache to see it."
            )
        if self._assembly is None:
            engine = engine_of_process()
            with alone():
                with parsed(engine, self._text) as module:
                    _optimise(engine, module, self._passes)
                    with _loops_as_written(engine):
                        self._assembly = str(engine.machine.emit_assembly(module))
        return self._assembly


@contextmanager
def _loops_as_written(engine: Engine) -> Generator[None]:
    """Code generation without LLVM's strength reduction of loops, which took up to half the time:
    the emitter has hoisted addresses.

    The switch is LLVM's own, of the whole process: others who compile get it back as it was.
    """
    engine.binding.set_option("tracejit", "-disable-lsr=true")
    try:
        yield
    finally:
        engine.binding.set_option("tracejit", "-disable-lsr=false")


def load(
    text: str, *, passes: str | None = None, symbols: Mapping[str, int] | None = None, quick: bool = False
) -> Library:
    """Compile LLVM IR text and load it.

    passes: None runs no optimiser (the emitter writes the final form); otherwise names from `pass_names()`, comma
    separated, run in order.
    symbols: addresses for this module's external declarations, before those of `define_symbol`
    and of the process itself (libc, libm).

    quick: straightforward code generation, five times as fast, for code that runs rarely or does little between calls.
    (Levels 1 to 3 cost
        LLVM the same, about 0.4 ms a function and 0.1 ms a basic block.)

    Every function that holds vectors should end its `define` line with `attributes()`.

    Raises: CompileError, with text and LLVM's message, if the text does not parse or verify, a pass is unknown, or a
    symbol is missing;
        without them where the process comes near the number of memory mappings that the system allows.
    """
    if other_processor.get() is not None:
        raise InternalError("code for another processor is emitted here, not loaded")
    engine = engine_of_process()
    _make_room()
    with alone():
        _unload_dropped()
        name = next(_library_names)
        with parsed(engine, text) as module:
            _optimise(engine, module, passes)
            defined, declared = _names(module)
            with _loops_as_written(engine):
                object_code: bytes = (engine.quick_machine if quick else engine.machine).emit_object(module)
        declared += [symbol for symbol in _HALF if symbol.encode() in object_code and symbol not in defined]
        _load_runtime(declared)
        known = {**_symbols, **(symbols or {})}
        imports = {symbol: known[symbol] for symbol in declared if symbol in known}
        try:
            addresses, loaded = _link(engine, name, object_code, imports, defined)
        except RuntimeError as error:
            missing = [symbol for symbol in declared if symbol not in known and not _in_process(engine, symbol)]
            reason = (
                f"These symbols are not defined: {', '.join(missing)}." if missing else "The linker gives this reason."
            )
            raise CompileError(f"Compiled code does not link. {reason}", source=text, log=str(error)) from None
        return Library(name, text, passes, object_code, addresses, loaded)


def load_object(
    object_code: bytes, *, symbols: Mapping[str, int] | None = None, declared: Sequence[str] | None = None
) -> Library:
    """Load what `Library.object` held, perhaps in another process. Addresses come from `symbols` and `define_symbol`,
    as in `load`.

    The bytes must come from an equal `fingerprint()`. A module must not define names that are given as symbols, unless
    `declared` says which names it takes from outside.

    Raises: CompileError if the bytes are no object file of this system, or a symbol is missing.
    """
    engine = engine_of_process()
    _make_room()
    with alone():
        _unload_dropped()
        name = next(_library_names)
        wanted = set(declared) if declared is not None else None
        _load_runtime(
            [
                symbol
                for symbol in _RUNTIME
                if (symbol in wanted if wanted is not None else symbol.encode() in object_code)
            ]
        )
        known = {**_symbols, **(symbols or {})}
        imports = {s: a for s, a in known.items() if (s in wanted if wanted is not None else s.encode() in object_code)}
        try:
            addresses, loaded = _link(engine, name, object_code, imports, ())
        except RuntimeError as error:
            raise CompileError("The bytes are no object file of this system.", log=str(error)) from None
        return Library(name, "", None, object_code, addresses, loaded)


def define_symbol(name: str, address: int) -> None:
    """Make `address` known as external symbol `name` to every module loaded from now on. Names with the prefix `tj_`
    are the runtime's.

    Raises: ValueError for address 0 or if the name is already bound to another address: loaded code would disagree
    about it.
    """
    with lock:
        before = _symbols.setdefault(name, address)
        if address == 0 or before != address:
            if before == 0:
                del _symbols[name]
            raise ValueError(
                f"The symbol {name!r} cannot mean {address:#x}" + (f"; it is {before:#x} already." if before else ".")
            )


def symbols() -> Mapping[str, int]:
    """The symbols defined so far (a copy)."""
    with lock:
        return dict(_symbols)


def pass_names() -> tuple[str, ...]:
    """What `load(passes=...)` accepts: single passes, and O1, O2,
    O3 for LLVM's whole pipelines (without vectorisers).
    """
    return (*sorted(_PASSES), *_PIPELINES)


def _optimise(engine: Engine, module: Any, passes: str | None) -> None:
    names = [name.strip() for name in passes.split(",")] if passes else []
    for name in names:
        _run_pass(engine, module, name)


def _run_pass(engine: Engine, module: Any, name: str) -> None:
    binding = engine.binding
    options = binding.create_pipeline_tuning_options(speed_level=_PIPELINES.get(name, 1))
    options.loop_vectorization = options.slp_vectorization = options.loop_interleaving = False
    builder = binding.create_pass_builder(engine.machine, options)
    if name in _PIPELINES:
        manager: Any = builder.getModulePassManager()
    elif name in _PASSES:
        manager = binding.create_new_module_pass_manager()
        add: Callable[[], None] = getattr(manager, _PASSES[name])
        add()
    else:
        raise CompileError(f"Unknown pass {name!r}. Known: {', '.join(pass_names())}.")
    manager.run(module, builder)


def _names(module: Any) -> tuple[list[str], list[str]]:
    """The external names that the module defines and that it declares."""
    defined: list[str] = []
    declared: list[str] = []
    for value in (*module.functions, *module.global_variables):
        if value.is_declaration:
            declared.append(value.name)
        elif value.linkage.name == "external":
            defined.append(value.name)
    return defined, declared


def _load_runtime(declared: Sequence[str]) -> None:
    for symbol in declared:
        if symbol in _RUNTIME and symbol not in _symbols:
            import_module(f"tracejit.backends.cpu.runtime.{_RUNTIME[symbol]}").ensure_loaded()


def _in_process(engine: Engine, symbol: str) -> bool:
    return symbol.startswith("llvm.") or engine.binding.address_of_symbol(symbol) is not None


_Loaded: TypeAlias = "tuple[Session, list[Any]]"
"""Where a library is loaded, and LLVM's trackers of it: all of them must be closed."""


def _link(
    engine: Engine, name: str, object_code: bytes, imports: Mapping[str, int], exports: Sequence[str]
) -> tuple[dict[str, int], _Loaded]:
    builder = engine.binding.JITLibraryBuilder().add_object_img(_in_one_segment(object_code)).add_current_process()
    for symbol, address in imports.items():
        builder.import_symbol(symbol, address)
    for symbol in exports:
        builder.export_symbol(symbol)
    session = engine.session()
    session.loaded += 1  # LLVM keeps the name of one that fails, too
    session.live += 1
    try:
        tracker: Any = builder.link(session.jit, name)
    except RuntimeError:
        session.live -= 1
        raise
    return {symbol: int(tracker[symbol]) for symbol in exports}, (session, [tracker])


# Offsets in the header of an ELF file (64 bits, little endian) and of one of its sections.
_ELF, _SECTIONS_AT, _SECTION_SIZE, _SECTION_FLAGS = b"\x7fELF\x02\x01", 40, 58, 8
_WRITABLE, _IN_MEMORY, _EXECUTABLE = 1, 2, 4


def _in_one_segment(object_code: bytes) -> bytes:
    """The object with its constants marked executable: the linker makes one segment of sections
    that have the same rights.
    """
    if os.name == "nt" or object_code[: len(_ELF)] != _ELF:
        return object_code
    code = bytearray(object_code)
    try:
        (start,) = struct.unpack_from("<Q", code, _SECTIONS_AT)
        size, number = struct.unpack_from("<HH", code, _SECTION_SIZE)
        for section in range(number):
            place = start + section * size + _SECTION_FLAGS
            (flags,) = struct.unpack_from("<Q", code, place)
            if flags & _IN_MEMORY and not flags & _WRITABLE:
                struct.pack_into("<Q", code, place, flags | _EXECUTABLE)
    except struct.error:
        return object_code  # damaged, which the linker will say
    return bytes(code)


def _unload_dropped() -> None:
    """Unload what was dropped. The lock is held."""
    while _dropped:
        watch = _dropped.popleft()
        if _watched.pop(id(watch), None) is None:
            continue  # it is kept
        session, trackers = watch.loaded
        for tracker in trackers:
            tracker.close()
        session.live -= 1
    sessions = start().sessions
    while done := next((session for session in sessions if session.full and not session.live), None):
        sessions.remove(done)
        done.jit.close()


def loaded_count() -> int:
    """How many libraries are loaded; those that were dropped are unloaded first."""
    with alone():
        _unload_dropped()
        return sum(session.live for session in start().sessions)


_unchecked = 500  # libraries that may be loaded before the mappings are counted (again)


def _make_room() -> None:
    """Count the process's mappings now and then, the more often the nearer their limit is;
    at the limit collect garbage.

    Raises: CompileError if nine tenths are in use after that: memory and threads need some, too.
    """
    global _unchecked
    _unchecked -= 1
    if _unchecked > 0:
        return
    limit = mappings.limit()
    left = limit - limit // 10 - mappings.count()
    if left <= 0:
        gc.collect()
        with alone():
            _unload_dropped()
        left = limit - limit // 10 - mappings.count()
    _unchecked = max(1, min(500, left // 8))
    if left <= 0:
        raise CompileError(
            f"No more code is loaded: the process has {mappings.count()} of the {limit} memory mappings that the "
            f"system allows (vm.max_map_count), and {loaded_count()} compiled functions are in use. Compile fewer: "
            "pass what differs as an argument instead of jitting a function for each case, drop functions that are "
            "not needed any more, or raise the limit."
        )
