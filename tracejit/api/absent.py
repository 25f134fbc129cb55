"""Names that a side of a branch, or an iteration, leaves without a value, or with None, and another one with a value:
what is handed on is a flag and the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tracejit.api.bodies import Again
from tracejit.api.carries import can_be_carried
from tracejit.api.handing_on import Like, not_handed_on
from tracejit.support.errors import TracerError
from tracejit.support.source import user_location
from tracejit.tracer.absence import handed_on_absence, perhaps, unmarked
from tracejit.tracer.statements.variables import RETURNED, UNBOUND

__all__ = ["VALUE", "AbsentThere", "MayBeAbsent", "kind_of"]

VALUE = "the value"
"""The name, among those of variables, of what an expression or a block gives."""


class AbsentThere(Again):
    """A name has turned out to be one that may have no value: the block is to be traced again."""


def kind_of(value: Any) -> Any:
    """UNBOUND, None, or of what kind a value is; one that cannot be handed on itself."""
    if value is UNBOUND or value is None or not can_be_carried(value):
        return value
    return Like.of(value)


def _is_absent(kind: Any) -> bool:
    return kind is UNBOUND or kind is None


class MayBeAbsent:
    """Of the names of a statement those that may have no value afterwards: what stands for the value where there is
    none, and names that certainly have none.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.likes: dict[str, Like | None] = dict.fromkeys(names)  # None: as what was there before
        self.none: dict[str, bool] = {}
        self.constant: dict[str, Any] = {}

    def settle(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
        """What two ways leave is known.  Raises: AbsentThere where that is news, TracerError for what has no common
        kind.
        """
        news = False
        for n, a in one.items():
            b = other[n]
            if _is_absent(a) and _is_absent(b):
                if a is not b and n != RETURNED:
                    raise TracerError(f"{n!r} is either None or has no value in a branch", location=user_location())
                # Without an absence that is known, 0 was handed on as for a constant: nothing is to be traced again.
                news = news or (n in self.none and n not in self.constant)
                self.constant[n] = a if a is b else None
                continue
            if n in self.constant:  # it is no longer
                del self.constant[n]
                news = True
            like, none = (b, a) if _is_absent(a) else (a, b)
            marked = [k.absence for k in (a, b) if isinstance(k, Like) and k.absence is not None]
            if not _is_absent(none) and not marked:
                continue
            if not isinstance(like, Like):
                raise TracerError(not_handed_on(n, like), location=user_location())
            is_none = {absence.none for absence in marked} | ({none is None} if _is_absent(none) else set[bool]())
            if len(is_none) > 1:
                raise TracerError(f"{n!r} is either None or has no value in a branch", location=user_location())
            news = news or n not in self.likes or n not in self.none
            self.likes[n], self.none[n] = like, is_none.pop()
        if news:
            raise AbsentThere

    def pair(self, name: str, value: Any) -> Any:
        """What a block hands on for a value: itself, or whether it is absent, and it."""
        if name in self.constant:
            return 0
        if name not in self.none:
            # where it is not known yet what the other way leaves, nobody sees what this one hands on
            return 0 if value is UNBOUND or value is None else value
        if value is UNBOUND or value is None:
            like = self.likes[name]
            assert like is not None
            return True, like.zeros()
        absence = handed_on_absence(value)
        return (False if absence is None else absence.flag), unmarked(value)

    def value(self, name: str, handed: Any) -> Any:
        """What a name has of what was handed on."""
        if name in self.constant:
            return self.constant[name]
        if name not in self.none:
            return handed
        flag, value = handed
        return perhaps(value, flag, name, none=self.none[name])
