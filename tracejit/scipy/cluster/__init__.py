"""Layer 9: clusters of points, under the names of `scipy.cluster`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracejit.scipy.cluster import vq as vq


def __getattr__(name: str) -> Any:
    if name == "vq":
        return import_module("tracejit.scipy.cluster.vq")
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
