"""The conformance suite: the same programs for every backend, against plain Python on NumPy.

    pytest -p tracejit.testing.plugin --pyargs tracejit.testing --backend NAME
    python -m tracejit.testing [--backend NAME ...] [--output FILE]

A backend is experimental when it passes tier 1, stable when it passes all.  What it refuses by name
(UnsupportedError) is no failure, and is shown with its reason.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.api.jit import jit
from tracejit.support.config import config
from tracejit.support.errors import BackendError, InternalError, TracejitError
from tracejit.support.nodes import frozen
from tracejit.support.tree import flatten, map_tree
from tracejit.testing.case import TIERS, Case
from tracejit.testing.operations import OPERATIONS
from tracejit.testing.programs import PROGRAMS

__all__ = ["CASES", "TIERS", "Case", "Verdict", "verdict"]


CASES: list[Case] = [*OPERATIONS, *PROGRAMS]


@frozen
class Verdict:
    """What became of a case: "pass", "refused", "fail" or "left out" (none of its calls was small enough), and why."""

    outcome: str
    reason: str = ""


def verdict(case: Case, backend: str, largest: float = math.inf) -> Verdict:
    """Run a case on a backend.

    largest: calls with an array of more elements are left out, for backends that interpret each of them.  Memory is filled with a pattern before it is used, so that what a kernel leaves out shows.

    >>> from tracejit.testing import CASES, verdict
    >>> verdict(CASES[0], "cpu").outcome
    'pass'
    """
    calls = [a for a in case.calls if all(np.size(x) <= largest for x in flatten(a)[0])]
    if not calls:
        return Verdict("left out", f"its arrays have more than {largest} elements")
    poison, config.poison = config.poison, True
    try:
        compiled = jit(case.function, backend=backend)
        for arguments in calls:
            found = compiled(*map_tree(_copied, arguments))
            wide = map_tree(_wide, arguments)
            with np.errstate(all="ignore"):
                want = (case.reference or case.function)(*wide)
                plain = (case.reference or case.function)(*map_tree(_copied, arguments))
            wrong = _difference(found, want, plain, case.rtol)
            if wrong:
                return Verdict("fail", wrong)
    except (InternalError, BackendError) as error:
        return Verdict("fail", f"{type(error).__name__}: {error}")
    except TracejitError as error:
        return Verdict("refused", error.message)
    except Exception as error:
        return Verdict("fail", f"{type(error).__name__}: {error}")
    finally:
        config.poison = poison
    return Verdict("pass")


def _copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _wide(x: Any) -> Any:
    """An argument in double precision."""
    if not isinstance(x, np.ndarray):
        return x
    return x.astype({"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype))


def _difference(found: Any, want: Any, plain: Any, rtol: float) -> str:
    """How results differ; empty if they do not.  plain: NumPy's in the arguments' own dtypes."""
    if not rtol:
        want = plain
    got, wanted, like = (flatten(x)[0] for x in (found, want, plain))
    if len(got) != len(wanted):
        return f"{len(got)} results, not {len(wanted)}"
    for n, (g, w, p) in enumerate(zip(got, wanted, like, strict=True)):
        g, w, p = np.asarray(g), np.asarray(w), np.asarray(p)
        if g.shape != p.shape or g.dtype != p.dtype:
            return f"result {n} is {g.dtype}{g.shape}, not {p.dtype}{p.shape}"
        if p.dtype.kind not in "fc" or not rtol:
            if not np.array_equal(g, p, equal_nan=p.dtype.kind in "fc"):
                return f"result {n} differs in {int(np.sum(g != p))} of {g.size} elements"
            continue
        with np.errstate(all="ignore"):
            scale = np.max(np.abs(w), initial=0.0, where=np.isfinite(w))
            off = np.max(np.abs(g - w), initial=0.0, where=np.isfinite(w))
        if not np.array_equal(np.isfinite(g), np.isfinite(w)) or off > rtol * max(scale, 1e-30):
            return f"result {n} is off by {off:.1e}, of {scale:.1e}"
    return ""
