"""Named passes, and the one loop that runs them: what a pass makes is verified, timed, dumped,
and replaced by an edited text.

`TRACEJIT_DUMP=directory` writes what each pass made, one file a pass: `directory/function.0/01-simplify.jaxpr`, where 0
counts the compilations of functions of this name in the process, and of what was compiled in the end `code.txt`, the
backend's text, and `asm.txt`.
`TRACEJIT_REPLACE=directory` takes a file of that name in place of what the pass made: dump, edit, run again.  Files
there that no pass makes are named in a warning.
`TRACEJIT_CHECKS=1` verifies after every pass.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.kernel import Kernel
from tracejit.ir.program import Program, ProgramBuffer
from tracejit.support.config import config
from tracejit.support.errors import InternalError, TracejitError, UserError, VerifyError
from tracejit.support.nodes import frozen

__all__ = [
    "Dialect",
    "Journal",
    "Pass",
    "read_jaxpr",
    "read_kernel",
    "read_program",
    "verify_jaxpr",
    "verify_kernel",
    "verify_program",
]


@frozen(eq=False)
class Dialect:
    """An IR as passes see it.  read: (text, what the text is edited from) to what it says;
    None where it cannot be read.
    """

    name: str
    show: Callable[[Any], str]
    verify: Callable[[Any], None] | None = None
    read: Callable[[str, Any], Any] | None = None


@frozen(eq=False)
class Pass:
    """A step of compilation.  run: (what was before, the compilation) to what is after, a thing of `dialect`."""

    name: str
    run: Callable[[Any, Any], Any]
    dialect: Dialect


# how often a function of this name was compiled while texts were dumped or replaced
_functions: Counter[str] = Counter()


class Journal:
    """Runs passes over what becomes of one function, and keeps the record."""

    def __init__(self, function: str) -> None:
        self._numbers = itertools.count()
        self._directory = ""
        self._made = {"code.txt", "asm.txt"}
        self._edited: dict[Path, None] = {}  # in order
        if config.dump or config.replace:
            self._directory = f"{function}.{_functions[function]}"
            _functions[function] += 1

    def run(self, passes: Sequence[Pass], thing: Any, compilation: Any, of: str = "") -> Any:
        """What is after all of them; `of` names the kernel."""
        for p in passes:
            listened = _logger()
            start = time.perf_counter() if listened is not None else 0.0
            after = p.run(thing, compilation)
            if listened is not None:
                listened.debug("%s %s: %.2f ms", p.name, of, 1e3 * (time.perf_counter() - start))
            if config.checks and p.dialect.verify is not None and after is not thing:
                _verify(p, after)
            thing = self.seen(p.name, p.dialect, after, of) if self._directory else after
        return thing

    def seen(self, name: str, dialect: Dialect, thing: Any, of: str = "") -> Any:
        """What a pass made, written to the dump; or what the edited text says.

        Raises: UserError where a text cannot take its place.
        """
        if not self._directory:
            return thing
        file = f"{next(self._numbers):02}-{name}{'.' if of else ''}{of}.{dialect.name}"
        self._made.add(file)
        edited = Path(config.replace, self._directory, file) if config.replace else None
        text = edited.read_text() if edited is not None and edited.exists() else None
        if text is not None and text.strip() != dialect.show(thing).strip():
            if dialect.read is None:
                raise UserError(
                    f"{edited}: what {name} makes cannot be replaced by a text; jaxprs, kernels, schedules, programs "
                    "and code can"
                )
            try:
                thing = dialect.read(text, thing)
                if dialect.verify is not None:
                    dialect.verify(thing)
            except TracejitError as error:
                what = error.what if isinstance(error, InternalError) else error
                raise UserError(f"{edited}: {what}") from error
            assert edited is not None
            self._edited[edited] = None
        if self.keeps_texts:
            self.keep(file, dialect.show(thing))
        return thing

    @contextmanager
    def named(self) -> Generator[None]:
        """Errors of the block name the edited texts that were taken: what comes after may not be able to use them."""
        try:
            yield
        except TracejitError as error:
            if self._edited:
                error.notes = (*error.notes, f"edited: {', '.join(map(str, self._edited))}")
            raise

    @property
    def edits(self) -> Callable[[str], str] | None:
        """What code is to go through before it is compiled."""
        return self._code if self._directory and config.replace else None

    def _code(self, text: str) -> str:
        edited = Path(config.replace, self._directory, "code.txt")
        made = edited.read_text() if edited.exists() else text
        if made.strip() != text.strip():
            self._edited[edited] = None
        return made

    def finish(self) -> None:
        """All passes have run.  Warns of edited texts that none of them made."""
        edited = Path(config.replace, self._directory) if self._directory and config.replace else None
        if edited is None or not edited.is_dir():
            return
        for file in sorted({f.name for f in edited.iterdir()} - self._made):
            warnings.warn(
                f"{edited / file}: no pass makes a text of this name, so it replaces nothing; "
                f"TRACEJIT_DUMP shows the names",
                stacklevel=2,
            )

    @property
    def keeps_texts(self) -> bool:
        """Whether texts are dumped."""
        return bool(self._directory and config.dump)

    def keep(self, file: str, text: str) -> None:
        """Write a text of this function to the dump."""
        path = Path(config.dump, self._directory, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.rstrip() + "\n")


def _logger() -> Any:
    """The logger `tracejit.passes` if somebody listens to it; who has not imported logging does not."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    logger = logging.getLogger("tracejit.passes")
    return logger if logger.isEnabledFor(logging.DEBUG) else None


def _verify(p: Pass, thing: Any) -> None:
    assert p.dialect.verify is not None
    try:
        p.dialect.verify(thing)
    except VerifyError as error:
        error.notes = (*error.notes, f"after pass {p.name}")
        raise


# -- what dialects are made of; verifiers and parsers are imported where they run
# ----------------------------------------------------
def verify_jaxpr(jaxpr: Jaxpr) -> None:
    """Raises: VerifyError."""
    from tracejit.ir.check import check_jaxpr

    check_jaxpr(jaxpr)


def verify_kernel(kernel: Kernel) -> None:
    """Raises: VerifyError."""
    from tracejit.ir.check import check_kernel

    check_kernel(kernel)


def verify_program(program: Program) -> None:
    """A program and its kernels.  Raises: VerifyError."""
    from tracejit.ir.check_program import check_program

    check_program(program)
    for kernel in program.kernels():
        verify_kernel(kernel)


def read_jaxpr(text: str, before: Jaxpr) -> Jaxpr:
    """An edited jaxpr.  Raises: UserError if its inputs or outputs are others."""
    from tracejit.ir.text import parse_jaxpr

    made = parse_jaxpr(text)
    for what in ("inputs", "outputs"):
        have, want = ([str(a.aval) for a in getattr(j, what)] for j in (made, before))
        if have != want:
            raise UserError(f"the {what} are {', '.join(have) or 'none'}; they were {', '.join(want) or 'none'}")
    return made


def read_kernel(text: str, before: Kernel) -> Kernel:
    """An edited kernel.

    Raises: UserError if its buffers are others, or what it says to multiply, which follows from the group.
    """
    from tracejit.ir.text import parse_kernel

    made = parse_kernel(text)
    have, want = (
        [f"{b.name}: {b.dtype}{list(map(str, b.shape))} {b.layout}" for b in k.buffers] for k in (made, before)
    )
    if have != want or made.outputs != before.outputs:
        raise UserError(f"the buffers are {', '.join(have)}; they were {', '.join(want)}")
    if made.product is not None and repr(made.product) != repr(before.product):
        raise UserError(
            "what product(...) says follows from the equations and cannot be edited; without it, the loops run"
        )
    return made


def read_program(text: str, before: Program) -> Program:
    """An edited program, of the same kernels.  Raises: UserError if its extents, inputs or results are others."""
    from tracejit.ir.text.program import parse_program

    def shown(buffers: Sequence[ProgramBuffer]) -> str:
        return ", ".join([f"{b.name}: {b.dtype}[{', '.join(map(str, b.shape))}] {b.layout}" for b in buffers]) or "none"

    made = parse_program(text, before)
    if made.dims != before.dims:
        raise UserError(f"the extents are ({', '.join(made.dims)}); they were ({', '.join(before.dims)})")
    for what, have, want in (("inputs", made.inputs, before.inputs), ("results", made.outputs, before.outputs)):
        if shown(have) != shown(want):
            raise UserError(f"the {what} are {shown(have)}; they were {shown(want)}")
    return made
