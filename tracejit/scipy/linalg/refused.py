"""Functions of `scipy.linalg` that there are not here, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracejit.support.errors import UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import Result
from tracejit.tracer.tracer import Tracer

__all__ = ["reason_against", "refusing"]

_OUTSIDE = "call it before or after the compiled function"
_COMPLEX = f"what it gives of real matrices may be complex; use eigh for symmetric ones, or {_OUTSIDE}"
_EQUATION = (
    "write the equation as a linear system (np.kron(a, np.eye(n)) + np.kron(np.eye(m), b.T) times x.ravel()) for "
    f"small matrices, or {_OUTSIDE}"
)

_REASONS: dict[str, str] = {
    **dict.fromkeys(
        ("logm", "signm", "fractional_matrix_power", "qz", "ordqz", "cdf2rdf"), _COMPLEX
    ),
    **dict.fromkeys(
        ("solve_continuous_lyapunov", "solve_lyapunov", "solve_discrete_lyapunov", "solve_continuous_are",
         "solve_discrete_are"), _EQUATION
    ),
    **dict.fromkeys(("eig_banded", "eigvals_banded"), f"use eigh of the full matrix, or {_OUTSIDE}"),
    **dict.fromkeys(("qr_delete", "qr_insert", "qr_update"), "use qr of the changed matrix"),
    **dict.fromkeys(("issymmetric", "ishermitian"), "use np.allclose(a, a.T)"),
    "expm_cond": f"use expm_frechet, or {_OUTSIDE}",
    "rq": "use qr of the matrix with its rows in the opposite order, transposed",
    "ldl": "use cholesky for positive definite matrices, or lu",
    **dict.fromkeys(("cossin", "bandwidth", "matrix_balance", "clarkson_woodruff_transform"), _OUTSIDE),
}  # fmt: skip


def reason_against(name: str) -> str | None:
    """What to do instead of a function that there is not, None for one that SciPy has not either."""
    return _REASONS.get(name)


def refusing(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's function for values that the trace knows.  Raises: UnsupportedError for others."""

    def call(*args: Any, **kwargs: Any) -> Result:
        given = [known(x) for x in args]
        named = {key: known(x) for key, x in kwargs.items()}
        return original(*given, **named)

    def known(x: Any) -> Any:
        if not isinstance(x, Tracer):
            return x
        value = x.known()
        if value is None:
            raise UnsupportedError(
                f"scipy.linalg.{name} is not supported in traced code; {reason_against(name)}", location=user_location()
            )
        return value

    return call
