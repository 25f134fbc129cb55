"""Flags of CPython's types, as `type.__flags__` has them.

Source: Include/object.h, Py_TPFLAGS_HEAPTYPE and Py_TPFLAGS_IMMUTABLETYPE.
"""

from __future__ import annotations

__all__ = ["HEAP_TYPE", "IMMUTABLE_TYPE"]

IMMUTABLE_TYPE = 1 << 8
"""Attributes of the class cannot be set."""
HEAP_TYPE = 1 << 9
"""Made at run time: by a class statement, or by an extension that makes its types so."""
