"""What `jit` was told: the options of a compiled function."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from tracejit.api.option_checks import expect, flag, flag_or_none, known_backend, positions
from tracejit.api.placing import default_place
from tracejit.backends.registry import AUTO
from tracejit.support.errors import OptionError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.source import user_location

__all__ = ["Options", "checked_options", "one_of", "with_arguments"]


@frozen
class Options:
    """See `jit`.  backend: None is the default of the moment.  donate: positional arguments that are given up.
    static, static_names: arguments that are constants, by position and by name.
    """

    backend: str | None = None
    dynamic_shapes: bool | None = None
    writeback: bool = True
    redirect: bool = True
    alternatives: tuple[str, ...] = ()
    donate: tuple[int, ...] = ()
    static: tuple[int, ...] = ()
    static_names: tuple[str, ...] = ()

    @property
    def where(self) -> str | None:
        """Where the function runs if none of its arrays lies on a device, "" for what `backend` says; None: there also
        if one does.
        """
        return default_place() if self.backend is None else "" if self.backend == AUTO else None

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


def one_of(backend: Any, device: Any) -> Any:
    """What is given as `backend` or as `device`, which names one too.   Raises: OptionError where both do not agree."""
    if device is None:
        return backend
    known_backend("tj.jit", device, "device")
    agree = backend is None or backend in (AUTO, device, device.partition(":")[0])
    expect(agree, "tj.jit", "device", device, f"a device of the backend {backend!r} that is given too")
    return device


def with_arguments(
    what: str, options: Options, function: Any, static_argnums: Any, static_argnames: Any, donate_argnames: Any
) -> Options:
    """The options with arguments that a user names or numbers, each under both as far as the function's signature has
    them.   Raises: OptionError.
    """
    numbers = () if static_argnums is None else positions(what, "static_argnums", static_argnums)
    names = _names(what, "static_argnames", static_argnames)
    donated = _names(what, "donate_argnames", donate_argnames)
    if not numbers and not names and not donated:
        return options
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    positional = [p.name for p in parameters if p.kind in kinds]
    takes_more = not parameters or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    takes_names = not parameters or any(p.kind is p.VAR_KEYWORD for p in parameters)
    for n in numbers:
        expect(takes_more or -len(positional) <= n < len(positional), what, "static_argnums", static_argnums,
               f"positions of the function's {len(positional)} arguments")  # fmt: skip
    found = {n % len(positional) if n < 0 and positional else n for n in numbers}
    expect(all(n >= 0 for n in found), what, "static_argnums", static_argnums, "positions from 0 on")
    for option, given in (("static_argnames", names), ("donate_argnames", donated)):
        known = {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}
        for name in given:
            expect(takes_names or name in known, what, option, name, f"a name among {', '.join(sorted(known))}")
    by_name = {positional.index(n) for n in names if n in positional}
    by_number = {positional[n] for n in found if n < len(positional)}
    for n in donated:
        expect(n in positional, what, "donate_argnames", n, f"a positional argument: {', '.join(positional)}")
    donate = {*options.donate, *[positional.index(n) for n in donated]}
    static = found | by_name
    both = sorted(static & donate)
    expect(not both, what, "donate_argnums", both, "no argument that is static")
    return evolve(
        options,
        static=tuple(sorted(static)),
        static_names=tuple(sorted({*names, *by_number})),
        donate=tuple(sorted(donate)),
    )


def _names(what: str, option: str, given: Any) -> tuple[str, ...]:
    names = () if given is None else (given,) if isinstance(given, str) else given
    fits = isinstance(names, Sequence) and all(isinstance(n, str) for n in names)
    expect(fits, what, option, given, "a name or a sequence of names of arguments")
    return tuple(names)


def _alternatives(what: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    fits = isinstance(names, Sequence) and all(isinstance(n, str) for n in names)
    expect(fits, what, "alternatives", given, "a sequence of names of lowering rules")
    if not names:
        return ()
    from tracejit.compiler.lower import check_alternatives

    return check_alternatives(names)
