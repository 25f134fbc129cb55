"""A compiled program: machine code of this process, its argument block, and what its status means."""

from __future__ import annotations

import copy
import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.backends.cpu.codegen.program import FAILED_CHECK, OUT_OF_MEMORY, emit_program, slots_of
from tracejit.backends.cpu.codegen.work import is_scalar_code
from tracejit.backends.cpu.runtime import llvm
from tracejit.ir.extents import evaluate
from tracejit.ir.program import Program
from tracejit.ir.scalar import numpy_dtype
from tracejit.support.config import config
from tracejit.support.errors import FailedCheck, InternalError

__all__ = ["CompiledProgram", "status_error"]

_WORD = {"b": np.int64, "i": np.int64, "f": np.float64}


def join_modules(program: str, entry: str) -> str:
    """Two module texts as one: each external function is declared once, and none that is defined."""
    if not entry:
        return program
    seen: set[str] = set()
    out: list[str] = []
    for line in (program + "\n" + entry).splitlines():
        if line.startswith("declare "):
            name = line[line.index("@") :].split("(", 1)[0]
            if name in seen or name == "@program":
                continue
            seen.add(name)
        out.append(line)
    return "\n".join(out)


def status_error(status: int) -> Exception:
    """What a program's status means that is neither 0 nor -1 (an exception is set)."""
    if status == OUT_OF_MEMORY:
        return MemoryError(
            "no memory for the intermediate arrays of a compiled function; have it work on parts of its arguments"
        )
    return InternalError(f"a compiled program returned status {status}")


_GUARD = 512
"""Bytes before and after a result that are watched where `config.poison` is on."""


class _Guarded(np.ndarray):
    """A result between two guards: `base` has both."""


def _new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if not config.poison:
        return np.empty(shape, dtype)
    nbytes = dtype.itemsize * math.prod(shape)
    memory = np.full(nbytes + 2 * _GUARD, 0xC3, np.uint8)
    return np.ndarray.__new__(_Guarded, shape, dtype, memory, _GUARD)


def _taken(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A result, without guards.   Raises: InternalError if a program has written to them."""
    if type(x) is not _Guarded:
        return x
    memory: Any = x.base
    if (memory[:_GUARD] != 0xC3).any() or (memory[memory.size - _GUARD :] != 0xC3).any():
        raise InternalError(f"a compiled program has written outside of its result {x.dtype}{list(x.shape)}")
    return np.array(x)


class CompiledProgram:
    """Machine code of one program, and of the native entry that calls it if its text is given.

    quick: whether it was made quickly rather than well.
    """

    def __init__(
        self, program: Program, scalars: frozenset[int] = frozenset(), entry: str = "", *, quick: bool = False
    ) -> None:
        self.program = program
        self.slots = slots_of(program, scalars)
        self._load(program.code(join_modules(emit_program(program, scalars=scalars), entry)), quick)

    def _load(self, code: str, quick: bool) -> None:
        self.code = code
        self.quick = quick
        passes = "O2" if not quick and is_scalar_code(self.program) else None
        self.library = llvm.load(code, passes=passes, quick=quick)
        self.address = self.library.address("program")
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self.address)

    def final(self, entry: str) -> CompiledProgram:
        """The same, made well, with the text of a native entry beside it.   Raises: CompileError."""
        made = copy.copy(self)
        made._load(join_modules(self.code, entry), quick=False)
        return made

    def text(self, stage: str) -> str:
        return self.library.assembly() if stage == "asm" else self.code

    def run(self, inputs: Sequence[np.ndarray[Any, Any]], dims: dict[str, int]) -> list[Any]:
        """Call the program through ctypes: for the compiler's own use and tests;
        functions are called through their native entry.
        """
        words, outputs = self._arguments(inputs, dims)
        self._call(words)
        return [_taken(x) for x in outputs]

    def _call(self, words: Any) -> None:
        try:
            status = self._function(ctypes.addressof(words))
        # ctypes does not expect a function called without the GIL to set an exception: Ctrl-C did
        except SystemError as error:
            if error.__cause__ is None:
                raise
            status, cause = -1, error.__cause__
        else:
            cause = FailedCheck(words[len(self.slots) - 1]) if status == FAILED_CHECK else status_error(status)
        try:
            if status:
                raise cause  # outside the handler: otherwise the two errors would refer to each other
        finally:
            del cause  # its traceback holds this frame

    def prepare(self, inputs: Sequence[np.ndarray[Any, Any]], dims: dict[str, int]) -> Callable[[], None]:
        """Runs on fixed arguments, for measuring."""
        words, outputs = self._arguments(inputs, dims)
        address, function = ctypes.addressof(words), self._function

        def call(keep: Any = (self, words, outputs, inputs)) -> None:
            function(address)

        return call

    def identity(self) -> bytes:
        """The object code."""
        return self.library.object

    def _arguments(self, inputs: Sequence[np.ndarray[Any, Any]], dims: dict[str, int]) -> tuple[Any, list[Any]]:
        """The argument block, and the arrays that receive the results."""
        outputs = [
            inputs[self.program.inputs.index(b)]  # donated
            if b.role == "input"
            else _new(tuple(evaluate(n, dims) for n in b.room), numpy_dtype(b.dtype))
            for b in self.program.outputs
        ]
        words = (ctypes.c_int64 * max(1, len(self.slots)))()
        for n, slot in enumerate(self.slots):
            match slot.kind:
                case "data":
                    words[n] = inputs[slot.number].ctypes.data
                case "scalar":
                    x: Any = np.asarray(inputs[slot.number])
                    if x.dtype.kind == "c":
                        x = np.asarray((x.real, x.imag)[slot.axis])
                    words[n] = int(x.astype(_WORD[x.dtype.kind]).view(np.int64)[()])
                case "stride":
                    words[n] = inputs[slot.number].strides[slot.axis]
                case "dim":
                    words[n] = dims[slot.name]
                case "failure":
                    words[n] = 0
                case _:
                    words[n] = outputs[slot.number].ctypes.data
        return words, outputs
