"""Which backends there are: by name, with a priority; one that cannot load stays listed with its reason."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator

from tracejit.backends.base import Backend
from tracejit.support.errors import BackendUnavailable
from tracejit.support.nodes import define

__all__ = ["BackendInfo", "backend_reason", "get_backend", "list_backends", "register_backend", "temporary_backend"]


@define(eq=False)
class BackendInfo:
    """A known backend: how it is made, its place in the order of choice, and the instance once made."""

    name: str
    factory: Callable[[], Backend]
    priority: int
    instance: Backend | None = None
    reason: str = ""


_BACKENDS: dict[str, BackendInfo] = {}


def register_backend(name: str, factory: Callable[[], Backend], *, priority: int) -> None:
    """Make a backend known.  `factory` is called at first use and raises BackendUnavailable with the reason if it cannot work here."""
    _BACKENDS[name] = BackendInfo(name, factory, priority)


@contextlib.contextmanager
def temporary_backend(backend: Backend) -> Generator[str]:
    """A name under which `backend` can be asked for meanwhile."""
    name = f"{backend.name}#{id(backend)}"
    _BACKENDS[name] = BackendInfo(name, lambda: backend, -1, backend)
    try:
        yield name
    finally:
        del _BACKENDS[name]


def list_backends() -> list[str]:
    """Every registered backend, highest priority first, available or not.

    >>> import tracejit as tj
    >>> tj.list_backends()
    ['opencl', 'cpu', 'reference']
    """
    return [b.name for b in sorted(_BACKENDS.values(), key=lambda b: -b.priority) if b.priority >= 0]


def backend_reason(name: str) -> str:
    """Why a backend is not available; empty if it is."""
    try:
        get_backend(name)
    except BackendUnavailable as error:
        return error.message
    return ""


def _disabled() -> set[str]:
    return {n.strip() for n in os.environ.get("TRACEJIT_DISABLE", "").split(",") if n.strip()}


def get_backend(name: str) -> Backend:
    """The backend.  Raises BackendUnavailable: unknown, disabled, or with the reason its factory gave."""
    try:
        return _loaded(name)
    except BackendUnavailable as error:
        error.about(backend=name)
        raise


def _loaded(name: str) -> Backend:
    info = _BACKENDS.get(name)
    if info is None:
        raise BackendUnavailable(f"there is no backend {name!r}; registered are {', '.join(list_backends())}")
    if name in _disabled():
        raise BackendUnavailable(f"backend {name!r} is switched off by TRACEJIT_DISABLE")
    if info.instance is None:
        if info.reason:
            raise BackendUnavailable(info.reason)
        try:
            info.instance = info.factory()
        except BackendUnavailable as error:
            info.reason = error.message
            raise
    return info.instance


def _cpu() -> Backend:
    from tracejit.backends.cpu.backend import CPUBackend

    return CPUBackend()


def _reference() -> Backend:
    from tracejit.backends.reference.backend import ReferenceBackend

    return ReferenceBackend()


def _opencl() -> Backend:
    from tracejit.backends.opencl.backend import OpenCLBackend

    return OpenCLBackend()


register_backend("opencl", _opencl, priority=90)
register_backend("cpu", _cpu, priority=50)
register_backend("reference", _reference, priority=5)
