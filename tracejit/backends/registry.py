"""Which backends there are: by name, with a priority; one that cannot load stays listed with its reason."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from importlib import import_module

from tracejit.backends.base import Backend
from tracejit.backends.trial import reason_of_crash
from tracejit.support.config import variable
from tracejit.support.errors import BackendUnavailable, UnknownBackend
from tracejit.support.nodes import define

__all__ = [
    "AUTO", "BackendInfo", "backend_reason", "best_backend", "check_known",
    "get_backend", "list_backends", "register_backend",
    "temporary_backend", "try_again",
]  # fmt: skip


@define(eq=False)
class BackendInfo:
    """A known backend: how it is made, its place in lists (hidden if negative), the packages that load its driver, and
    the instance once made.
    """

    name: str
    factory: Callable[[], Backend] | str
    priority: int
    packages: tuple[str, ...] = ()
    instance: Backend | None = None
    reason: str = ""


_BACKENDS: dict[str, BackendInfo] = {}
AUTO = "auto"
"""What stands for the best backend there is, among names."""
GROUP = "tracejit.backends"
"""The entry points by which other packages make backends known: a name, and the class, as "module:class"."""
_PRIORITY = 40  # of those: behind the CPU, so that nothing changes for whom a package is merely installed


def register_backend(
    name: str, factory: Callable[[], Backend] | str, *, priority: int, packages: tuple[str, ...] = ()
) -> None:
    """Make a backend known.

    factory: what makes it, a class or a function, or its name, "module:class", so that the module is loaded at first
    use.  It raises BackendUnavailable with the reason if the backend cannot work here; a module that is missing is one
    too.  packages: those that load a driver into the process, where some do; it is tried in another process first, once
    (`backends/trial.py`), and one that crashes there makes the backend unavailable.
    """
    _BACKENDS[name] = BackendInfo(name, factory, priority, packages)


@functools.cache
def _know_of_packages() -> None:
    """Make the backends of installed packages known.  Their modules are loaded when they are used."""
    from importlib.metadata import entry_points  # for speed of import: only where names are asked for that are not ours

    for point in entry_points(group=GROUP):
        if point.name not in _BACKENDS:
            register_backend(point.name, point.value, priority=_PRIORITY)


@contextlib.contextmanager
def temporary_backend(backend: Backend) -> Generator[str]:
    """A name under which `backend` can be asked for meanwhile."""
    name = f"{backend.name}#{id(backend)}"
    _BACKENDS[name] = BackendInfo(name, lambda: backend, -1, instance=backend)
    try:
        yield name
    finally:
        del _BACKENDS[name]


def list_backends() -> list[str]:
    """Every registered backend, highest priority first, available or not.

    >>> import tracejit as tj
    >>> {"opencl", "vulkan", "cpu", "reference"} <= {*tj.list_backends()}
    True
    """
    _know_of_packages()
    return [b.name for b in sorted(_BACKENDS.values(), key=lambda b: -b.priority) if b.priority >= 0]


def check_known(name: str, what: str = "") -> None:
    """Raises: UnknownBackend, in the name of `what`, where no backend of this name is registered.  One that cannot work
    here is known.
    """
    name = name.partition(":")[0]
    if name == AUTO:
        return
    if name not in _BACKENDS:
        _know_of_packages()
    if name not in _BACKENDS:
        known = ", ".join(list_backends())
        error = UnknownBackend(f"{what and f'{what}: '}there is no backend {name!r}; registered are {known}")
        raise error.about(backend=name)


def backend_reason(name: str) -> str:
    """Why a backend is not available; empty if it is."""
    try:
        get_backend(name)
    except BackendUnavailable as error:
        return error.message
    return ""


def _disabled() -> set[str]:
    return {n.strip() for n in (variable("DISABLE") or "").split(",") if n.strip()}


def try_again(name: str) -> None:
    """Forget why a backend was not available: what was missing may be there now."""
    check_known(name, "try_again")
    _BACKENDS[name].reason = ""


def best_backend() -> str:
    """The backend of the fastest device here: the one with the highest priority whose device is not the processor, and
    "cpu" where there is none.
    """
    there = (n for n in list_backends() if not backend_reason(n) and get_backend(n).accelerates)
    return next(there, "cpu")


def get_backend(name: str) -> Backend:
    """The backend: of this name, for one of its devices ("opencl:1"), or the best one ("auto").

    Raises BackendUnavailable: unknown, disabled, or with the reason its factory gave.
    """
    name, _, number = (best_backend() if name == AUTO else name).partition(":")
    try:
        found = _loaded(name)
        return found.at(f"{name}:{number}") if number else found
    except BackendUnavailable as error:
        error.about(backend=name)
        raise


def _loaded(name: str) -> Backend:
    check_known(name)
    info = _BACKENDS[name]
    if name in _disabled():
        raise BackendUnavailable(f"backend {name!r} is switched off by TRACEJIT_DISABLE")
    if info.instance is None:
        if info.reason:
            raise BackendUnavailable(info.reason)
        try:
            info.instance = _made(info)
        except BackendUnavailable as error:
            info.reason = error.message
            raise
    return info.instance


def _made(info: BackendInfo) -> Backend:
    """What the factory gives.  Raises BackendUnavailable: its own, where a module is missing, or where the backend has
    another name, under which its rules and spellings would not be found, or where its driver crashes.
    """
    if info.packages and isinstance(info.factory, str):
        crash = reason_of_crash(info.name, info.factory, info.packages)
        if crash:
            raise BackendUnavailable(crash)
    try:
        made = _factory(info)()
    except ImportError as error:
        raise BackendUnavailable(f"backend {info.name!r} cannot be loaded: {error}") from error
    if made.name != info.name:
        raise BackendUnavailable(
            f"backend {info.name!r} calls itself {made.name!r}; give register_backend the name that its class has"
        )
    return made


def _factory(info: BackendInfo) -> Callable[[], Backend]:
    if not isinstance(info.factory, str):
        return info.factory
    module, _, name = info.factory.partition(":")
    found = getattr(import_module(module), name, None)
    if found is None:
        raise ImportError(f"module {module} has no {name}")
    return found


register_backend("cuda", "tracejit.backends.cuda.backend:CudaBackend", priority=100, packages=("pycuda", "cuda"))
register_backend("opencl", "tracejit.backends.opencl.backend:OpenCLBackend", priority=90, packages=("pyopencl",))
register_backend("vulkan", "tracejit.backends.vulkan.backend:VulkanBackend", priority=80, packages=("vulkan",))
register_backend("cpu", "tracejit.backends.cpu.backend:CPUBackend", priority=50)
register_backend("reference", "tracejit.backends.reference.backend:ReferenceBackend", priority=5)
