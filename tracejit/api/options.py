"""What `jit` was told: the options of a compiled function."""

from __future__ import annotations

from tracejit.support.nodes import evolve, frozen

__all__ = ["Options"]


@frozen
class Options:
    """See `jit`.  backend: None is the default of the moment.  donate: positional arguments that are given up."""

    backend: str | None = None
    dynamic_shapes: bool | None = None
    writeback: bool = True
    redirect: bool = True
    alternatives: tuple[str, ...] = ()
    donate: tuple[int, ...] = ()

    def without_donation(self) -> Options:
        """Those of another function of the same body, whose arguments are not given up."""
        return evolve(self, donate=())
