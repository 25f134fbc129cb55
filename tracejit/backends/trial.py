"""Drivers are tried in a process of their own before this one loads them: a driver that crashes, or never answers,
takes nobody along.

That is done once: what did not crash is noted in the cache folder (TRACEJIT_CACHE_DIR), under what the answer depends
on, the packages, the files by which drivers make themselves known, and the variables that choose among them.  Whether
the backend works is not asked here: the process that wants it finds that out by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tracejit.support.config import variable
from tracejit.support.digest import fingerprint
from tracejit.support.platform import cache_folder

__all__ = ["reason_of_crash", "try_driver"]

_SECONDS = 60  # for a driver's answer
_KNOWN_BY = (
    "/etc/OpenCL/vendors", "/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d",
    "/proc/driver/nvidia/version",
)  # fmt: skip
_CHOOSING = ("OCL_", "OPENCL_", "POCL_", "VK_", "CUDA_", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_TRIED = "the driver was tried"


def reason_of_crash(name: str, factory: str, packages: Sequence[str]) -> str:
    """Why the driver behind a backend must not be loaded into this process; empty where it may be.

    factory: of the backend, "module:class".  packages: those that load the driver; without any of them there is
    nothing to try.
    """
    there = [p for p in packages if _installed(p)]
    if not there or not _can_try():
        return ""
    note = _note(name, there)
    if note is not None and note.exists():
        return ""
    fault = _tried(factory)
    if fault:
        return (
            f"the driver of backend {name!r} {fault}, tried in a process of its own; mend or remove it "
            "(TRACEJIT_PROBE=0 loads drivers without trying them)"
        )
    if note is not None:
        try:
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            note.touch()
        except OSError:
            pass  # tried again by the next process
    return ""


def _installed(package: str) -> bool:
    try:
        return package in sys.modules or find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _can_try() -> bool:
    """Whether this process can start another Python: not where Python is embedded, or frozen into a program."""
    python = Path(sys.executable or "").name.lower()
    return (variable("PROBE") or "1") != "0" and "python" in python and not getattr(sys, "frozen", False)


def _note(name: str, packages: Sequence[str]) -> Path | None:
    """The file that says that the driver did not crash."""
    folder = cache_folder()
    if folder is None:
        return None
    depends: list[str] = [name, sys.version, sys.executable]
    for package in packages:
        depends += [package, *_stamps(_place(package))]
    for place in map(Path, _KNOWN_BY):
        depends += _stamps(place)
        depends += [part for file in sorted(place.glob("*")) for part in _stamps(file)]
    depends += [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_CHOOSING)]
    return folder / f"{fingerprint(chr(0).join(depends))[:40]}.tried"


def _place(package: str) -> Path | None:
    """The folder of a package, or the file of a module."""
    spec = find_spec(package)
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    return Path(folders[0]) if folders else Path(spec.origin) if spec.origin else None


def _stamps(path: Path | None) -> list[str]:
    """What changes with a file or folder."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return []
    return [] if found is None else [str(path), str(found.st_mtime_ns), str(found.st_size)]


def _tried(factory: str) -> str:
    """What another process has died of, as the rest of a sentence; empty if it lives."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import try_driver; try_driver({factory!r})"
    environment = {**os.environ, "TRACEJIT_PROBE": "0"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"gave no answer in {_SECONDS} s"
    except OSError:
        return ""  # no processes here: nothing is known
    if done.returncode == 0 and _TRIED in done.stdout:
        return ""
    said = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    ended = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
    return f"ended the process ({ended}; {said})"


def try_driver(factory: str) -> None:
    """What the other process does: make the backend.  An exception is no crash."""
    module, _, name = factory.partition(":")
    try:
        getattr(import_module(module), name)()
    except Exception as error:
        print(error)
    print(_TRIED)
    sys.stdout.flush()
    os._exit(0)  # what a driver does when the process ends is not what was asked
