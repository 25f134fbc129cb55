"""The environment of the process, as a traced function sees it."""

import os
from collections.abc import Iterator, MutableMapping
from typing import Any

from tracejit.tracer.current import current_trace
from tracejit.tracer.places import ItemPlace

__all__ = ["Environment", "getenv"]


class Environment(MutableMapping[str, str]):
    """`os.environ` as a traced function sees it: the program depends on the variables that it looks up."""

    def _place(self, key: str) -> ItemPlace:
        real: Any = os.environ
        return ItemPlace(real._data, real.encodekey(key))

    def _note(self, key: str) -> None:
        trace = current_trace()
        if trace is not None:
            place = self._place(key)
            trace.reads.note(place, place.read())

    def __getitem__(self, key: str) -> str:
        self._note(key)
        return os.environ[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._note(key)
        os.environ[key] = value

    def __delitem__(self, key: str) -> None:
        self._note(key)
        del os.environ[key]

    def _all(self) -> Any:
        trace, real = current_trace(), os.environ
        if trace is not None:
            trace.reads.reach(real._data)  # type: ignore[attr-defined]
        return real

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def copy(self) -> dict[str, str]:
        return dict(self._all())


def getenv(key: str, default: Any = None) -> Any:
    """`os.getenv` in a traced function."""
    return Environment().get(key, default)
