"""How exactly products are computed: names of JAX's, as everything here is computed with all bits."""

from __future__ import annotations

from enum import Enum

__all__ = ["Precision"]


class Precision(Enum):
    """How many bits of the operands a product may leave out; here none are, whichever is given.

    >>> Precision("highest") is Precision.HIGHEST
    True
    """

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"
