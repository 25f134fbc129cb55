"""Layer 9: JAX's names for what networks are made of.

Each function does the same on traced arrays and on others, where it computes at once and returns a tj.Array.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tracejit.api.returning import returning_arrays
from tracejit.nn import activations, functions
from tracejit.nn.activations import *  # noqa: F403
from tracejit.nn.functions import *  # noqa: F403
from tracejit.numpy import exponentials
from tracejit.numpy.exponentials import (
    log_softmax as log_softmax,
    logsumexp as logsumexp,
    softmax as softmax,
)

if TYPE_CHECKING:
    from tracejit.nn import initializers as initializers

globals().update({
    _name: returning_arrays(getattr(_module, _name))
    for _module, _names in (
        (activations, activations.__all__),
        (functions, functions.__all__),
        (exponentials, ("log_softmax", "logsumexp", "softmax")),
    )
    for _name in _names
})  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "initializers":
        return import_module("tracejit.nn.initializers")
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
