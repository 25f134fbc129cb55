"""The run time's own modules as object files of the user's cache folder:
their text is constant, so most processes need not compile them.

An entry is named after the hash of the text and of everything the code depends on, starts with a checksum, and is
written to a temporary name first.  An entry that is damaged, of another owner or not readable is a miss; a folder that
cannot be written is no error. `TRACEJIT_CACHE_DIR` names the folder; empty switches the cache off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tracejit.backends.cpu.runtime import llvm, processor
from tracejit.support.digest import checksum, fingerprint
from tracejit.support.errors import CompileError
from tracejit.support.platform import cache_folder

__all__ = ["load_cached"]

# names a module takes from outside
_DECLARED = re.compile(r"^(?:declare [^@\n]*|(?=@[\w.$]+ = external ))@([\w.$]+)", re.MULTILINE)
_CHECKSUM = 32  # bytes in front of the object


def load_cached(text: str, *, symbols: Mapping[str, int] | None = None, passes: str | None = None) -> llvm.Library:
    """`llvm.load(text, quick=True)`, from the cache where it has it,
    and never unloaded.   Raises CompileError as `load` does.
    """
    library = _load(text, symbols, passes)
    library.keep()
    return library


def _load(text: str, symbols: Mapping[str, int] | None, passes: str | None) -> llvm.Library:
    folder = cache_folder()
    if folder is None:
        return llvm.load(text, passes=passes, symbols=symbols, quick=True)
    key = fingerprint("\0".join((processor.fingerprint(), passes or "", text)))
    path = folder / f"{key[:40]}.o"
    code = _read(path)
    if code is not None:
        try:
            return llvm.load_object(code, symbols=symbols, declared=_DECLARED.findall(text))
        except CompileError:
            pass  # written by a system that looked the same and was not: compile and replace it
    library = llvm.load(text, passes=passes, symbols=symbols, quick=True)
    _write(path, library.object)
    return library


def _read(path: Path) -> bytes | None:
    """The checked contents of an entry of our own; None for anything else."""
    try:
        with path.open("rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            data = file.read()
    except OSError:
        return None
    body = data[_CHECKSUM:]
    return body if data[:_CHECKSUM] == checksum(body) else None


def _write(path: Path, code: bytes) -> None:
    """Write an entry so that a reader sees all of it or nothing."""
    import tempfile

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix="new-")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(checksum(code) + code)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            return
