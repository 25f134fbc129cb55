"""Functions of the standard library that read or copy what is outside, as a traced function sees them."""

import copy
import importlib
import sys
from typing import Any

from tracejit.tracer.captured import CellTracer
from tracejit.tracer.copies import deep_copy, shallow_copy
from tracejit.tracer.current import current_trace
from tracejit.tracer.ownership import is_users_module
from tracejit.tracer.substitutes import REDIRECTED, Redirected
from tracejit.tracer.substitution import substitution

__all__: list[str] = []


def _import_module(name: str, package: str | None = None) -> Any:
    module = importlib.import_module(name, package)
    if current_trace() is not None and is_users_module(module):
        substitution.name(sys.modules, module.__name__, module)
    return substitution.value(module)


def _copy(x: Any) -> Any:
    trace = current_trace()
    return copy.copy(x) if trace is None else shallow_copy(trace.reads, x)


def _deepcopy(x: Any, memo: dict[int, Any] | None = None) -> Any:
    trace = current_trace()
    return copy.deepcopy(x, memo) if trace is None else deep_copy(trace.reads, trace.changes.changed_copy, x, memo)


def _id(x: Any) -> int:
    """The identity of what a value stands for."""
    trace = current_trace()
    if trace is not None:
        x = x.array if isinstance(x, CellTracer) else trace.changes.stand_ins.original(x)
    return id(x)


REDIRECTED[id(id)] = Redirected(id, _id)
REDIRECTED[id(importlib.import_module)] = Redirected(importlib.import_module, _import_module)
REDIRECTED[id(copy.copy)] = Redirected(copy.copy, _copy)
REDIRECTED[id(copy.deepcopy)] = Redirected(copy.deepcopy, _deepcopy)
