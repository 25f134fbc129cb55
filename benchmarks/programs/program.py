"""What a program is here: a plain function with loops, its arguments at a size, and whether Numba takes it as it is."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

Arguments = Callable[[np.random.Generator, int], tuple[Any, ...]]
PROGRAMS: dict[str, "Program"] = {}


@frozen
class Program:
    """A function of plain Python on NumPy arrays.

    arguments: (generator, n) -> the positional arguments at size n. size: the n that is timed. numba: False where
    Numba refuses the text.
    tolerance: largest error over the largest value of the answer; sums in another order differ by some ulp.
    """

    function: Callable[..., Any]
    arguments: Arguments
    size: int
    numba: bool
    tolerance: float

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def family(self) -> str:
        return self.function.__module__.rsplit(".", 1)[1]

    def inputs(self, n: int) -> tuple[Any, ...]:
        """The arguments at size n: the same in every process."""
        return self.arguments(np.random.default_rng(20240), n)


def program(
    arguments: Arguments, size: int, *, numba: bool = True, tolerance: float = 1e-11
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Lists a function among the programs, and leaves it as it is."""

    def listed(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(function, arguments, size, numba, tolerance)
        return function

    return listed
