"""Rotations in space."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracejit.scipy.spatial import transform as transform


def __getattr__(name: str) -> Any:
    if name == "transform":
        return import_module("tracejit.scipy.spatial.transform")
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
