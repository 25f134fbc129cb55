"""The stand-in's C files as shared libraries, compiled once for each content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["build_cuda", "build_exact", "default_folder"]

_HERE = Path(__file__).resolve().parent
_OPTIONS = ("-O2", "-std=gnu11", "-w", "-shared", "-fPIC", "-pthread")


def default_folder() -> Path:
    """Where libraries go if a test names no place: one folder for each user."""
    return Path(tempfile.gettempdir()) / f"tracejit-standin-{os.getuid()}"


def build_cuda(folder: Path) -> Path:
    """`libcuda.so.1` in a folder of its own below `folder`, fit for LD_LIBRARY_PATH."""
    options = ("-fno-strict-aliasing", "-Wl,-soname,libcuda.so.1")
    return _build("libcuda.c", "libcuda.so.1", options, folder)


def build_exact(folder: Path) -> Path:
    """The arithmetic of `exact.c`."""
    return _build("exact.c", "libexact.so", ("-frounding-math", "-ffp-contract=off", "-lm"), folder)


def _build(source: str, name: str, options: tuple[str, ...], folder: Path) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("the stand-in for CUDA's driver needs a C compiler: gcc or cc")
    text = (_HERE / source).read_bytes()
    key = hashlib.sha256(b"\0".join([text, *(o.encode() for o in (*_OPTIONS, *options))])).hexdigest()[:16]
    library = folder / key / name
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        # processes that build at the same time each write a file of their own, and the last renaming wins
        unfinished = library.with_name(f"{name}.{os.getpid()}")
        files = ["-o", str(unfinished), str(_HERE / source)]
        done = subprocess.run([compiler, *_OPTIONS, *files, *options], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{compiler} does not compile {source}:\n{done.stderr}")
        unfinished.replace(library)
    return library
