"""The reference backend: kernels interpreted with NumPy, every access checked.  Slow;
it is what other backends are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tracejit.backends.base import Backend, Target
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.backends.reference.memory import poison
from tracejit.backends.runner import plan_of, run_program, seen_as
from tracejit.backends.spellings import fault_of_function
from tracejit.ir.forms import KernelSources
from tracejit.ir.program import Call, Launch, Program, ProgramBuffer
from tracejit.ir.scalar import numpy_dtype
from tracejit.support.errors import UnsupportedError

__all__ = ["InterpretedProgram", "ReferenceBackend"]

Array = np.ndarray[Any, Any]


class InterpretedProgram:
    """A program whose kernels are interpreted.  Memory is arrays; fresh memory is poisoned, so that an element nothing
    wrote shows.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._plan = plan_of(program)

    def run(self, inputs: Sequence[Array], dims: dict[str, int]) -> list[Array]:
        """The results, in the order of the signature.  Raises InternalError where a kernel breaks a rule of the IR."""
        return run_program(self._plan, self, inputs, dims)

    def text(self, stage: str) -> str:
        """The kernels it interprets.  Raises UnsupportedError for "asm"."""
        if stage == "asm":
            raise UnsupportedError(
                'the reference backend interprets kernels and has no machine code; text("code") shows the kernels'
            )
        return "\n\n".join(map(str, self.program.kernels()))

    # What the runner asks for

    def allocate(self, dtype: str, shape: tuple[int, ...]) -> Array:
        return poison(shape, numpy_dtype(dtype))

    def upload(self, array: Array, layout: str) -> Array:
        return np.ascontiguousarray(array).reshape(array.shape) if layout == "C" else array

    def download(self, memory: Array, dtype: str, shape: tuple[int, ...]) -> Array:
        return memory

    def copy(self, target: Array, source: Array) -> None:
        np.copyto(target, source)

    def call(self, step: Call, memory: Mapping[ProgramBuffer, Array], dims: Mapping[str, int]) -> None:
        """A user's kernel: a function of NumPy arrays."""
        assert isinstance(step.environment, KernelSources)
        made = step.environment.sources["reference"](*[memory[b].copy() for b in step.buffers if b not in step.writes])
        for b, x in zip(step.writes, made if isinstance(made, (tuple, list)) else (made,), strict=True):
            np.copyto(memory[b], x, casting="same_kind")

    def launch(self, step: Launch, arguments: Sequence[Array], dims: Mapping[str, int]) -> None:
        run_kernel(
            step.kernel,
            {b.name: seen_as(b, a, dims) for b, a in zip(step.kernel.buffers, arguments, strict=True)},
            dims,
        )


class ReferenceBackend(Backend):
    """Executable meaning of the kernel IR."""

    name: ClassVar[str] = "reference"

    def fault_of_kernel(self, source: object) -> str:
        return "" if callable(source) else f"is a function of NumPy arrays, not {source!r:.60}"

    def fault_of_spelling(self, spelling: object, arity: int) -> str:
        return fault_of_function(spelling, arity)

    def target(self) -> Target:
        return Target("reference")

    def compile(self, program: Program) -> InterpretedProgram:
        return InterpretedProgram(program)
