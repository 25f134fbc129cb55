"""What `jit` was told: the options of a compiled function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracejit.api.option_checks import expect, flag, flag_or_none, known_backend, positions
from tracejit.support.errors import OptionError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.source import user_location

__all__ = ["Options", "checked_options"]


@frozen
class Options:
    """See `jit`.  backend: None is the default of the moment.  donate: positional arguments that are given up."""

    backend: str | None = None
    dynamic_shapes: bool | None = None
    writeback: bool = True
    redirect: bool = True
    alternatives: tuple[str, ...] = ()
    donate: tuple[int, ...] = ()

    def without_donation(self) -> Options:
        """Those of another function of the same body, whose arguments are not given up."""
        return evolve(self, donate=())


def checked_options(
    what: str,
    backend: Any = None,
    dynamic_shapes: Any = None,
    writeback: Any = True,
    redirect: Any = True,
    alternatives: Any = (),
    donate_argnums: Any = (),
) -> Options:
    """What a user has given `what`, each as it may be.   Raises: OptionError; UnknownBackend."""
    known_backend(what, backend)
    flag_or_none(what, "dynamic_shapes", dynamic_shapes)
    flag(what, "writeback", writeback)
    flag(what, "redirect", redirect)
    donate = positions(what, "donate_argnums", donate_argnums)
    if any(n < 0 for n in donate):
        raise OptionError(
            f"{what}: donate_argnums are numbers of positional arguments from 0 on, not {donate_argnums!r}",
            location=user_location(),
        )
    return Options(backend, dynamic_shapes, writeback, redirect, _alternatives(what, alternatives), donate)


def _alternatives(what: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    fits = isinstance(names, Sequence) and all(isinstance(n, str) for n in names)
    expect(fits, what, "alternatives", given, "a sequence of names of lowering rules")
    if not names:
        return ()
    from tracejit.compiler.lower import check_alternatives

    return check_alternatives(names)
