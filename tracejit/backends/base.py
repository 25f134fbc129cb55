"""The contract of a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from tracejit.support.nodes import field, frozen

if TYPE_CHECKING:
    from tracejit.ir.program import Program

__all__ = ["Backend", "Compiled", "Target", "Timed"]


@frozen
class Target:
    """What code generation may use.  `capabilities` maps a name ("f64", "f16", "atomics") to True, a reason, or (absent) unknown.

    device: the processor in words.  driver: versions of what compiles for it.  Tuned schedules are kept for both.
    """

    name: str
    vector_bits: int = 0
    threads: int = 1
    capabilities: dict[str, Any] = field(factory=dict)
    device: str = ""
    driver: str = ""

    def supports(self, name: str) -> tuple[bool, str]:
        """(available, reason); what is unknown is refused."""
        have = self.capabilities.get(name)
        if have is True:
            return True, ""
        return False, have if isinstance(have, str) else f"it is unknown whether {self.name} supports {name}"


class Compiled(Protocol):
    """A compiled program: `run` takes the leaves in signature order and returns the results.

    What it reads, writes and takes over of its arguments is `effects_of(program)` (`ir.effects`).
    """

    program: Program

    def run(self, inputs: Sequence[np.ndarray[Any, Any]], dims: dict[str, int]) -> list[Any]: ...

    def text(self, stage: str) -> str: ...


class Timed(Protocol):
    """A compiled program that can be measured: backends whose schedules are tuned return such from `compile`."""

    def prepare(self, inputs: Sequence[np.ndarray[Any, Any]], dims: dict[str, int]) -> Callable[[], None]:
        """A function that runs the program once on arguments that are in place, and waits for the end.  It may be called many times."""
        ...

    def identity(self) -> str | bytes:
        """What runs: equal for two programs only if their code and the way it is launched are equal."""
        ...


class Backend:
    """One backend: a folder with a subclass of this, registered by name."""

    name: ClassVar[str]
    execution_model: ClassVar[str]  # "direct", "jit" or "interpret"

    def target(self) -> Target:
        raise NotImplementedError

    def compile(self, program: Program) -> Compiled:
        """The scheduled program as an executable.  Raises CompileError, UnsupportedError."""
        raise NotImplementedError
