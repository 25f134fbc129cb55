"""Arrays in memory that the host and a device share: both look at them in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.backends.base import Pending, Resident

__all__ = ["SharedArray"]


class SharedArray(Resident):
    """An array of a backend that says `zero_copy`.  memory: its elements, which nobody writes any more."""

    __slots__ = ("memory",)

    def __init__(self, memory: np.ndarray[Any, Any], place: str, pending: Sequence[Pending] = ()) -> None:
        super().__init__(memory.dtype, memory.shape, place, tuple(pending))
        self.memory = memory

    def host(self) -> Any:
        self.look()
        if not self.shape:
            return self.memory[()]
        seen = self.memory.view()
        seen.flags.writeable = False
        return seen

    def part(self, index: tuple[Any, ...]) -> SharedArray:
        taken = self.memory[index if any(i is ... for i in index) else (*index, ...)]
        return SharedArray(taken, self.place, self.pending)

    def wait(self) -> None:
        self.look()
