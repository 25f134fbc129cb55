"""Which backends there are: by name, with a priority; one that cannot load stays listed with its reason."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from importlib import import_module

from tracejit.backends.base import Backend
from tracejit.support.errors import BackendUnavailable
from tracejit.support.nodes import define

__all__ = ["BackendInfo", "backend_reason", "get_backend", "list_backends", "register_backend", "temporary_backend"]


@define(eq=False)
class BackendInfo:
    """A known backend: how it is made, its place in lists (hidden if negative), and the instance once made."""

    name: str
    factory: Callable[[], Backend] | str
    priority: int
    instance: Backend | None = None
    reason: str = ""


_BACKENDS: dict[str, BackendInfo] = {}


def register_backend(name: str, factory: Callable[[], Backend] | str, *, priority: int) -> None:
    """Make a backend known.

    factory: what makes it, a class or a function, or its name, "module:class", so that the module is loaded at first
    use.  It raises BackendUnavailable with the reason if the backend cannot work here.
    """
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
            info.instance = _factory(info)()
        except BackendUnavailable as error:
            info.reason = error.message
            raise
    return info.instance


def _factory(info: BackendInfo) -> Callable[[], Backend]:
    if not isinstance(info.factory, str):
        return info.factory
    module, _, name = info.factory.partition(":")
    return getattr(import_module(module), name)


register_backend("opencl", "tracejit.backends.opencl.backend:OpenCLBackend", priority=90)
register_backend("cpu", "tracejit.backends.cpu.backend:CPUBackend", priority=50)
register_backend("reference", "tracejit.backends.reference.backend:ReferenceBackend", priority=5)
