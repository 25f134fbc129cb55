"""Whether two constants are the same to whoever looks into them, which `==` does not tell:
1 == 1.0, 0.0 == -0.0, a class's `__eq__` may look at a name only.
"""

from __future__ import annotations

import struct
from types import MemberDescriptorType
from typing import Any

import numpy as np

from tracejit.support.type_flags import HEAP_TYPE

__all__ = ["compares_wholly", "strictly_equal"]

_WHOLE = frozenset({bool, int, float, complex, str, bytes, type(None), np.dtype})
_NESTED = 64
"""How deep objects are compared; what is deeper counts as different."""


def compares_wholly(value: Any) -> bool:
    """Whether equal values of exactly this type are the same (floats compared bit by bit)."""
    return type(value) in _WHOLE


def strictly_equal(one: Any, two: Any) -> bool:
    """Whether two values are one, or equal in type, by `==`, and in all that they hold;
    arrays in them only if they are one.
    """
    return _equal(one, two, set(), 0)


def _equal(a: Any, b: Any, seen: set[tuple[int, int]], depth: int) -> bool:
    kind = type(a)
    if a is b:
        return True
    if kind is not type(b) or kind is np.ndarray or depth > _NESTED:
        return False
    if kind is float:  # bit by bit: 0.0 is not -0.0 and NaN is NaN
        return struct.pack("d", a) == struct.pack("d", b)
    if kind is complex:
        return struct.pack("dd", a.real, a.imag) == struct.pack("dd", b.real, b.imag)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if kind is slice or kind is range:
        return all(_equal(x, y, seen, depth + 1) for x, y in ((a.start, b.start), (a.stop, b.stop), (a.step, b.step)))
    try:
        if not bool(a == b):
            return False
    except Exception:  # the user's `==` may raise, or give an array: then they count as different
        return False
    if kind in _WHOLE:
        return True
    if (id(a), id(b)) in seen:  # the pair is being compared
        return True
    seen.add((id(a), id(b)))
    if isinstance(a, (set, frozenset)):
        return all(any(_equal(x, y, seen, depth + 1) for y in b) for x in a) and _same_state(a, b, seen, depth)
    if isinstance(a, dict):
        pairs = [*zip(a, b, strict=True), *zip(a.values(), b.values(), strict=True)]
    elif isinstance(a, (tuple, list)):
        pairs = list(zip(a, b, strict=True))
    else:
        return _same_state(a, b, seen, depth)
    return all(_equal(x, y, seen, depth + 1) for x, y in pairs) and _same_state(a, b, seen, depth)


def _same_state(a: Any, b: Any, seen: set[tuple[int, int]], depth: int) -> bool:
    one, two = _state(a), _state(b)
    if not one and not two:
        return repr(a) == repr(b)  # Decimal("1") and Decimal("1.00")
    return one.keys() == two.keys() and all(_equal(x, two[name], seen, depth + 1) for name, x in one.items())


def _state(x: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too."""
    kind: Any = type(x)
    found: dict[str, Any] = (
        dict(object.__getattribute__(x, "__dict__")) if kind.__dictoffset__ and kind is not type else {}
    )
    for base in type.mro(kind) if kind is not type else ():
        for name, slot in vars(base).items():
            if isinstance(slot, MemberDescriptorType) and name not in found and base.__flags__ & HEAP_TYPE:
                try:
                    found[name] = slot.__get__(x, kind)
                except AttributeError:
                    continue
    return found
