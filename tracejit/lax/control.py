"""Control flow under JAX's names."""

from tracejit.api.control import cond, fori_loop, scan, switch, while_loop
from tracejit.api.implicit import custom_linear_solve, custom_root
from tracejit.lax.derivatives import stop_gradient
from tracejit.lax.scans import associative_scan, map

__all__ = [
    "associative_scan", "cond", "custom_linear_solve", "custom_root", "fori_loop", "map", "scan", "stop_gradient",
    "switch", "while_loop",
]  # fmt: skip
