"""Tuned schedules in a text file that one can read, compare and ship.

    # tracejit tuned schedules 1
    3f0c...e1 | vector L0 8 2 | 12.40 us, was 19.75 us | cpu, znver4, 256 bits, 2 threads | add_exp: f64[1000],
    f64[1000]

A line is a key, a schedule, what it gained, and for the reader the target and the kernel.  The key is a hash of all
that a schedule depends on: the kernel's text without names and places, the target and its compiler, the search space,
the numerics.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Generator, Iterable
from pathlib import Path

from tracejit.autotune.place import database_path
from tracejit.autotune.space import SPACE_VERSION
from tracejit.backends.base import Target
from tracejit.ir.kernel import Kernel
from tracejit.ir.rewrite import replace_buffers
from tracejit.ir.schedule import Schedule, parse_schedule
from tracejit.support.digest import fingerprint
from tracejit.support.errors import ScheduleError, UserError
from tracejit.support.nodes import evolve, frozen

__all__ = ["Database", "Entry", "current_database", "database_path", "kernel_key", "kernel_summary", "parse_entry"]

HEADER = "# tracejit tuned schedules 1"
NUMERICS = "ieee"
_LOCK_SECONDS = 5.0  # a lock file older than this was left behind


@frozen(eq=False)
class Entry:
    """A schedule that beat the default of its kernel.  Times are microseconds a run."""

    key: str
    schedule: Schedule
    tuned_us: float
    default_us: float
    target: str = ""
    kernel: str = ""

    def __str__(self) -> str:
        gain = f"{self.tuned_us:.2f} us, was {self.default_us:.2f} us"
        return " | ".join([self.key, str(self.schedule), gain, _plain(self.target), _plain(self.kernel)])


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


def parse_entry(line: str) -> Entry:
    """The inverse of `str`.  Raises ValueError."""
    parts = [p.strip() for p in line.split("|")]
    if len(parts) != 5:
        raise ValueError(f"{len(parts)} fields, not 5")
    key, schedule, gain, target, kernel = parts
    if len(key) != 64 or not set(key) <= set("0123456789abcdef"):
        raise ValueError("the key is not a hash")
    try:
        tuned, default = (float(p.strip().removeprefix("was ").removesuffix(" us")) for p in gain.split(","))
        return Entry(key, parse_schedule(schedule), tuned, default, target, kernel)
    except ScheduleError as error:
        raise ValueError(error.message) from error


def kernel_key(kernel: Kernel, target: Target) -> str:
    """The key of a kernel before it is scheduled: equal for kernels
    that differ only in their names and places in the source.
    """
    names = {b: evolve(b, name=f"b{n}") for n, b in enumerate(kernel.buffers)}
    outputs = frozenset(names[b].name for b in kernel.buffers if b.name in kernel.outputs)
    body = replace_buffers(kernel.body, names)
    plain = evolve(kernel, name="kernel", buffers=tuple(names.values()), outputs=outputs, body=body, product=None)
    text = "\n".join(
        [str(plain), target.name, str(target.vector_bits), target.device, target.driver, str(SPACE_VERSION), NUMERICS]
    )
    return fingerprint(text)


def kernel_summary(kernel: Kernel) -> str:
    """Name and buffers in one line."""
    return f"{kernel.name}: " + ", ".join(f"{b.dtype}[{', '.join(map(str, b.shape))}]" for b in kernel.buffers)


class Database:
    """The entries of one file.  Reading follows changes of the file; writing merges with what others wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: dict[str, Entry] = {}
        self._seen: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._current())

    def get(self, key: str) -> Entry | None:
        return self._current().get(key)

    def entries(self) -> list[Entry]:
        return list(self._current().values())

    def update(self, entries: Iterable[Entry], remove: Iterable[str] = ()) -> None:
        """Add entries, replacing those of the same keys, and remove keys; the file is replaced at once.

        Raises: OSError; UserError if the path is something else than a file.
        """
        if self.path.exists() and not self.path.is_file():
            raise UserError(f"{self.path} is no file: tuned schedules are kept in a text file")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, _file_lock(self.path):
            merged = self._read()
            for key in remove:
                merged.pop(key, None)
            merged |= {e.key: e for e in entries}
            self._write(merged)
            self._entries, self._seen = merged, self._stamp()

    def _current(self) -> dict[str, Entry]:
        stamp = self._stamp()
        if stamp != self._seen:
            with self._lock:
                self._entries, self._seen = self._read(), stamp
        return self._entries

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _read(self) -> dict[str, Entry]:
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return {}
        found: dict[str, Entry] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                entry = parse_entry(line)
            except ValueError as error:
                warnings.warn(
                    f"{self.path}, line {number} is not a tuned schedule and is skipped: {error}",
                    RuntimeWarning,
                    stacklevel=4,
                )
            else:
                found[entry.key] = entry
        return found

    def _write(self, entries: dict[str, Entry]) -> None:
        lines = [HEADER, *sorted(map(str, entries.values()), key=lambda line: line.split("|")[3:] + [line])]
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name, suffix=".new")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write("\n".join(lines) + "\n")
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


@contextlib.contextmanager
def _file_lock(path: Path) -> Generator[None]:
    """One writer at a time among processes; a lock that was left behind is taken over."""
    lock = path.with_name(path.name + ".lock")
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            if time.monotonic() > until:
                break
            time.sleep(0.01)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()


_open: dict[Path, Database] = {}


def current_database() -> Database | None:
    """The database of `database_path()`; None where tuning is switched off."""
    path = database_path()
    if path is None:
        return None
    found = _open.get(path)
    if found is None:
        found = _open[path] = Database(path)
    return found
