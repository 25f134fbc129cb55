"""The processor that code is made for, and LLVM's machines for it: this one, a level (`TRACEJIT_CPU`), another."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from tracejit.support.config import config
from tracejit.support.errors import BackendUnavailable, CompileError
from tracejit.support.forks import at_fork
from tracejit.support.signals import undisturbed

__all__ = [
    "Elsewhere",
    "Engine",
    "LEVELS",
    "Session",
    "alone",
    "attributes",
    "cpu_name",
    "elsewhere",
    "engine_of_process",
    "features",
    "fingerprint",
    "has_fma",
    "is_x86",
    "level_features",
    "lock",
    "other_processor",
    "parsed",
    "start",
    "vector_bits",
]


# LLVM's objects here are shared; compilation is serial anyway, llvmlite has one lock of its own. The run time's modules
# load under it too.
lock = threading.RLock()

LEVELS: Mapping[str, tuple[str, ...]] = {
    "x86-64-v2": (
        "64bit",
        "cmov",
        "cx8",
        "fxsr",
        "mmx",
        "sse",
        "sse2",
        "sse3",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "cx16",
        "sahf",
        "popcnt",
    ),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""What TRACEJIT_CPU may say, and what each level adds to the one before."""

# Other processors that code can be emitted for: triple, LLVM's name, features.
_ELSEWHERE: Mapping[str, tuple[str, str, frozenset[str]]] = {
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", frozenset({"fp-armv8", "neon"})),
}


other_processor: ContextVar[Elsewhere | None] = ContextVar("tracejit_elsewhere", default=None)


class Engine:
    """The process's target machine and JIT."""

    def __init__(self) -> None:
        binding = self.binding = import_module("llvmlite.binding")
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self.cpu, self.features = _processor(binding, config.cpu)
        self.machine = self._create_machine(binding, level=3)
        self.quick_machine = self._create_machine(binding, level=0)
        self.sessions: list[Session] = []  # all but the last one are full

    def session(self) -> Session:
        """The JIT that loads the next library."""
        if not self.sessions or self.sessions[-1].full:
            host = self._create_machine(self.binding, level=3)
            # JITLink has no production-quality COFF loader; there, as MCJIT users do, ELF objects go through
            # RuntimeDyld.
            jit = self.binding.create_lljit_compiler(host, use_jit_link=os.name != "nt", suppress_errors=True)
            self.sessions.append(Session(jit))
        return self.sessions[-1]

    def _create_machine(self, binding: ModuleType, level: int) -> Any:
        flags = ",".join(("+" if on else "-") + name for name, on in sorted(self.features.items()))
        layout = {"codemodel": "jitdefault"} if os.name == "nt" else {"reloc": "pic", "codemodel": "small"}
        target = binding.Target.from_triple(binding.get_process_triple())
        return target.create_target_machine(cpu=self.cpu, features=flags, opt=level, jit=True, **layout)


class Session:
    """One ORC JIT. LLVM keeps about 8 KB of every library that it has unloaded:
    a JIT loads a number of them, and goes with the last.
    """

    __slots__ = ("jit", "live", "loaded")
    most = 256

    def __init__(self, jit: Any) -> None:
        self.jit = jit
        self.loaded = 0
        self.live = 0

    @property
    def full(self) -> bool:
        return self.loaded >= self.most


def _processor(binding: ModuleType, level: str) -> tuple[str, dict[str, bool]]:
    """LLVM's name of the processor that code is made for, and its features:
    the host's, or those of a level of x86-64 that it has.

    Raises: BackendUnavailable for a level that does not exist, or that this processor does not reach.
    """
    host = _host_features(binding)
    if level == "native":
        return binding.get_host_cpu_name(), host
    if level not in LEVELS:
        raise BackendUnavailable(f"TRACEJIT_CPU={level!r} is no level of x86-64; known: {', '.join(LEVELS)}, native")
    wanted = level_features(level)
    missing = sorted(name for name in wanted if not host.get(name))
    if missing:
        raise BackendUnavailable(
            f"TRACEJIT_CPU={level}: this processor has no {', '.join(missing)}; take a lower level, or native"
        )
    return level, {name: name in wanted for name in host}


def level_features(level: str) -> frozenset[str]:
    """What a level of x86-64 has, in LLVM's spelling.   Source: x86-64 psABI, micro-architecture levels."""
    names = list(LEVELS)
    return frozenset(name for k in names[: names.index(level) + 1] for name in LEVELS[k])


def _host_features(binding: ModuleType) -> dict[str, bool]:
    try:
        return dict(binding.get_host_cpu_features())
    except RuntimeError:  # LLVM cannot list them on this system: the processor's name alone decides
        return {}


@cache
def start() -> Engine:
    """LLVM, made ready once a process.  The lock is held."""
    engine = Engine()
    # A fork in the middle of another thread's compilation would leave the child a lock that nobody releases.
    at_fork(lock.acquire, lock.release, lock.release)
    return engine


@contextmanager
def alone() -> Generator[None]:
    """A block that uses LLVM's objects: of one thread at a time, and never left in the middle of llvmlite by Ctrl-C."""
    with lock, undisturbed():
        yield


def engine_of_process() -> Engine:
    """LLVM for this process."""
    with alone():
        return start()


class Elsewhere:
    """A processor that code is made for, to be looked at or carried there:
    this machine need not be one, and nothing is loaded.
    """

    def __init__(self, name: str) -> None:
        self.binding = engine_of_process().binding
        self.binding.initialize_all_targets()
        self.binding.initialize_all_asmprinters()
        triple, self.cpu, on = (
            _ELSEWHERE[name] if name in _ELSEWHERE else ("x86_64-unknown-linux-gnu", name, level_features(name))
        )
        self.features = dict.fromkeys(sorted(on), True)
        flags = ",".join("+" + feature for feature in self.features)
        target = self.binding.Target.from_triple(triple)
        self.machine = target.create_target_machine(cpu=self.cpu, features=flags, opt=3, reloc="pic", codemodel="small")

    def assembly(self, text: str) -> str:
        """The machine code of IR text, as text.   Raises: CompileError if the text does not parse or verify."""
        with alone(), parsed(self, text) as module:
            return str(self.machine.emit_assembly(module))

    def object(self, text: str) -> bytes:
        """The machine code of IR text as a relocatable object.   Raises: CompileError as `assembly` does."""
        with alone(), parsed(self, text) as module:
            return bytes(self.machine.emit_object(module))


@contextmanager
def elsewhere(name: str) -> Generator[Elsewhere]:
    """Within it this thread emits code as for another processor:
    a level of `LEVELS`, or "aarch64".  It can be printed, not loaded.
    """
    with alone():
        other = Elsewhere(name)
    token = other_processor.set(other)
    try:
        yield other
    finally:
        other_processor.reset(token)


def _code_is_for() -> Elsewhere | Engine:
    return other_processor.get() or engine_of_process()


def cpu_name() -> str:
    """The processor that code is made for in LLVM's spelling, such as "znver4"."""
    return _code_is_for().cpu


def features() -> frozenset[str]:
    """Its features in LLVM's spelling, such as "avx2"; only those that are on."""
    return frozenset(name for name, on in _code_is_for().features.items() if on)


def fingerprint() -> str:
    """All that object code depends on beside its IR (LLVM's version, triple, processor, features):
    part of a disk cache's key.
    """
    engine = _code_is_for()
    version = ".".join(map(str, engine.binding.llvm_version_info))
    with lock:  # llvmlite takes one of its own, which a fork must not meet
        triple = engine.machine.triple
    return f"llvm {version} {triple} {engine.cpu} {' '.join(sorted(features()))}"


def vector_bits() -> int:
    """The natural vector width in bits: 512 with AVX-512 (f, vl, bw, dq), 256 with AVX2, otherwise 128 (SSE2, NEON)."""
    return _vector_bits(other_processor.get())


@cache
def _vector_bits(_: Elsewhere | None) -> int:
    on = features()
    if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= on:
        return 512
    return 256 if "avx2" in on else 128


def is_x86() -> bool:
    """Whether code is made for x86-64."""
    return _is_x86(other_processor.get())


@cache
def _is_x86(_: Elsewhere | None) -> bool:
    with lock:
        return _code_is_for().machine.triple.startswith("x86_64")


def has_fma() -> bool:
    """Whether the processor multiplies and adds in one instruction: all of aarch64, and x86-64 from x86-64-v3 on."""
    return "fma" in features() or not is_x86()


def attributes() -> str:
    """The function attributes that vector code needs: `define void @f(ptr %x) <attributes()> {`.

    For some AVX-512 processors LLVM prefers 256-bit registers and would split wider values; the width attributes ask
    for the full width.
    """
    bits = vector_bits()
    return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


@contextmanager
def parsed(engine: Engine | Elsewhere, text: str) -> Generator[Any]:
    """A module of IR text, for the block.   Raises: CompileError if the text does not parse or verify."""
    # Closed by hand, the module before its context: the collector, after an error, would take any order.
    context = engine.binding.create_context()
    module: Any = None
    try:
        try:
            module = engine.binding.parse_assembly(text, context)
            module.verify()
        except RuntimeError as error:
            raise CompileError("LLVM refuses the generated IR.", source=text, log=str(error)) from None
        module.triple = engine.machine.triple
        module.data_layout = str(engine.machine.target_data)
        yield module
    finally:
        if module is not None:
            module.close()
        context.close()
