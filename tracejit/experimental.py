"""Names of `jax.experimental` that are here: `io_callback`, which is `tj.io_callback`."""

from typing import NoReturn

from tracejit.api.callbacks import io_callback
from tracejit.support.not_here import reason_for

__all__ = ["io_callback"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(reason_for(name, "tracejit.experimental"))
