"""Linear algebra: what `scipy.linalg` has under that name, of matrices, real and complex ones, and stacks of
them.

As in SciPy float32 is computed in float32.  What is not finite, singular or not positive definite is an error with
SciPy's text when the program has run; nothing warns.  `overwrite_a` and the like change nothing.  In traced functions
SciPy's own functions of these names are these.
"""

from __future__ import annotations

import sys
from typing import Any

from numpy.linalg import LinAlgError as LinAlgError

from tracejit.api.returning import returning_arrays
from tracejit.scipy.linalg import (
    banded,
    eigenvalues,
    functions,
    orthogonal,
    schur_forms,
    singular_values,
    special_matrices,
    systems,
)
from tracejit.scipy.linalg.banded import *  # noqa: F403
from tracejit.scipy.linalg.eigenvalues import *  # noqa: F403
from tracejit.scipy.linalg.functions import *  # noqa: F403
from tracejit.scipy.linalg.orthogonal import *  # noqa: F403
from tracejit.scipy.linalg.refused import reason_against, refusing
from tracejit.scipy.linalg.schur_forms import *  # noqa: F403
from tracejit.scipy.linalg.singular_values import *  # noqa: F403
from tracejit.scipy.linalg.special_matrices import *  # noqa: F403
from tracejit.scipy.linalg.systems import *  # noqa: F403
from tracejit.tracer.substitutes import redirect_members

_MODULES = (
    banded,
    eigenvalues,
    functions,
    orthogonal,
    schur_forms,
    singular_values,
    special_matrices,
    systems,
)
_FUNCTIONS = {name: getattr(module, name) for module in _MODULES for name in module.__all__}


def enter() -> None:
    """Have SciPy's functions redirected, if they are loaded: to those of this module, or to what refuses traced
    arrays.
    """
    found = sys.modules.get("scipy.linalg")
    if found is None:
        return
    redirect_members({getattr(found, n): f for n, f in _FUNCTIONS.items() if hasattr(found, n)})
    redirect_members({original: refusing(name, original) for name, original in refused_ones(found)})


def refused_ones(module: Any) -> list[tuple[str, Any]]:
    """SciPy's functions of arrays that there are not here, by name."""
    return [(name, getattr(module, name)) for name in dir(module) if reason_against(name) and name not in _FUNCTIONS]


globals().update({_name: returning_arrays(_value) for _name, _value in _FUNCTIONS.items()})


def __getattr__(name: str) -> Any:
    from tracejit.support.not_here import reason_for  # for speed of import

    why = reason_against(name)
    text = reason_for(name, __name__)
    raise AttributeError(text if why is None or why in text else f"{text}: {why}")
