"""Looking into a compiled program while it runs, under the names of `jax.debug`."""

from tracejit.api.callbacks import debug_callback as callback, debug_print as print

__all__ = ["callback", "print"]
