"""Control flow under JAX's names."""

from tracejit.api.control import cond, fori_loop, map, scan, switch, while_loop

__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]
