"""Control flow under JAX's names."""

from tracejit.api.control import cond, fori_loop, map, scan, switch, while_loop
from tracejit.lax.derivatives import stop_gradient

__all__ = ["cond", "fori_loop", "map", "scan", "stop_gradient", "switch", "while_loop"]
