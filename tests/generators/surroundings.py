"""Programs that use what is outside of them, run as plain Python and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = tuple[Callable[..., Any], Callable[[int], Any], Callable[[], Any]]
"""A function of an array and the number 3, what changes its surroundings between calls, and what is seen of them."""


def results(program: Callable[[], Program], wrap: Callable[..., Any]) -> list[Any]:
    """What four calls at four sizes give, and what is to be seen after each."""
    function, change, state = program()
    call = wrap(function)
    found: list[Any] = []
    for i in range(4):
        found += [np.asarray(call(np.ones(2 + i), 3)).tolist(), repr(state())]
        change(i)
    return found
