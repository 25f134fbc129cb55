"""What derivatives see."""

from __future__ import annotations

from typing import Any

from tracejit.api.transform import is_array
from tracejit.primitives import custom
from tracejit.support.tree import map_tree
from tracejit.tracer.tracer import Tracer

__all__ = ["stop_gradient"]


def stop_gradient(x: Any) -> Any:
    """A pytree as it is, and constant for derivatives of all modes.   Source: JAX's lax.stop_gradient.

    >>> import numpy as np, tracejit as tj
    >>> float(tj.grad(lambda x: x * tj.lax.stop_gradient(x))(3.0))
    3.0
    """
    return map_tree(lambda leaf: custom.stop_gradient(leaf) if isinstance(leaf, Tracer) or is_array(leaf) else leaf, x)
