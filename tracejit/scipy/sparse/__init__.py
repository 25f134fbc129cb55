"""What solves linear systems of which products are all that is known."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracejit.scipy.sparse import linalg as linalg


def __getattr__(name: str) -> Any:
    if name == "linalg":
        return import_module("tracejit.scipy.sparse.linalg")
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
