"""A backend for tracejit in one file: kernels as plain C, compiled by gcc, called by ctypes.

`pip install` makes it known under the name `plain_c`, by the entry point in pyproject.toml; docs/add_a_backend.md of
tracejit goes through it step by step.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tracejit.backends.base import Backend, Target
from tracejit.backends.c_like import print_kernels
from tracejit.backends.c_scalar import Dialect, scalar_intrinsics
from tracejit.backends.multicore import Multicore
from tracejit.backends.nest import printable
from tracejit.backends.runner import plan_of, run_program
from tracejit.backends.spellings import fault_of_template
from tracejit.ir.program import Launch, Program, walk_steps
from tracejit.ir.scalar import numpy_dtype
from tracejit.support.errors import BackendUnavailable, CompileError, UnsupportedError

__all__ = ["PlainC", "plain_c"]

Array = np.ndarray[Any, Any]

_TYPES = {
    "bool": "_Bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t",
    "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f16": "float", "f32": "float", "f64": "double",
}  # fmt: skip
_C = Dialect(
    name="C",
    backend="plain_c",
    types=_TYPES,
    storage={**_TYPES, "bool": "uint8_t", "f16": "uint16_t"},
    suffixes={"i64": "L", "u64": "UL", "u32": "u"},
    spaces={"global": "", "shared": "", "local": ""},
    function_prefix="static inline",
    kernel_prefix="void",
    bitcast="((union {{ {source} a; {type} b; }}){{ {0} }}).b",
    header="#include <stdint.h>\n#include <math.h>\n#define true 1\n#define false 0",
)
_OPTIONS = ("-O1", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-shared", "-fPIC", "-w")


class CompiledC:
    """A program whose kernels are functions of a shared library."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._plan = plan_of(program)
        steps = [s for s in walk_steps(program.steps) if isinstance(s, Launch)]
        kernels = [(s.kernel.with_body(printable(s.kernel.body)), 1) for s in steps]
        printed = print_kernels(kernels, _C, scalar_intrinsics(_C))
        self.source = program.code(printed.source)
        library = _built(self.source)
        self._entries = {id(s): (library[e.name], e) for s, e in zip(steps, printed.entries, strict=True)}

    def run(self, inputs: Sequence[Array], dims: dict[str, int]) -> list[Any]:
        return run_program(self._plan, self, inputs, dims)

    def text(self, stage: str) -> str:
        if stage == "asm":
            raise UnsupportedError("plain C has no machine code to show")
        return self.source

    # What the runner asks for

    def allocate(self, dtype: str, shape: tuple[int, ...]) -> Array:
        return shared(dtype, shape)

    def upload(self, array: Array, layout: str) -> Array:
        return np.ascontiguousarray(array).reshape(array.shape) if layout == "C" else array

    def download(self, memory: Array, dtype: str, shape: tuple[int, ...]) -> Array:
        return memory

    def copy(self, target: Array, source: Array) -> None:
        np.copyto(target, source)

    def launch(self, step: Launch, arguments: Sequence[Array], dims: Mapping[str, int]) -> None:
        function, entry = self._entries[id(step)]
        arrays = {b.name: a for b, a in zip(step.kernel.buffers, arguments, strict=True)}
        given: list[Any] = []
        for a in entry.arguments:
            match a.kind:
                case "buffer":
                    given.append(ctypes.c_void_p(arrays[a.name].ctypes.data))
                case "offset":
                    given.append(ctypes.c_int64(0))
                case "stride":
                    given.append(ctypes.c_int64(arrays[a.name].strides[a.axis]))
                case _:
                    given.append(ctypes.c_int64(dims[a.name]))
        function(*given)


def shared(dtype: str, shape: tuple[int, ...]) -> Array:
    """A row-major array, which C and NumPy both see."""
    return np.empty(shape, numpy_dtype(dtype))


def _built(source: str) -> ctypes.CDLL:
    """The library of a text.  Raises: CompileError."""
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder, "kernels.c"), Path(folder, "kernels.so")
        text.write_text(source)
        command = ["gcc", *_OPTIONS, "-o", str(library), str(text), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileError("gcc rejected generated code", source=source, log=done.stderr)
        return ctypes.CDLL(str(library))


class PlainC(Backend):
    """Kernels as plain C, by gcc."""

    name: ClassVar[str] = "plain_c"
    zero_copy: ClassVar[bool] = True

    def __init__(self) -> None:
        if shutil.which("gcc") is None:
            raise BackendUnavailable("plain_c compiles with gcc, which is not on the PATH; install it")

    def alloc_zero_copy(self, dtype: str, shape: tuple[int, ...]) -> Array:
        return shared(dtype, shape)

    def fault_of_spelling(self, spelling: object, arity: int) -> str:
        return fault_of_template(spelling, arity, "expressions of C")

    def target(self) -> Target:
        return Target("plain_c")

    def compile(self, program: Program) -> CompiledC:
        return CompiledC(program)


def plain_c() -> Multicore:
    """The backend on all processors: two devices, "plain_c:0" and "plain_c:1"."""
    return Multicore(PlainC(), devices=2)
