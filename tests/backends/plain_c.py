"""The backend of examples/backend_plugin, as a newcomer would write it.

It proves that a backend needs no line of `compiler/` or `api/`; the tests that are about any backend run on it.  It is
registered by `tests/conftest.py` and hidden from lists, which are those of the package.
"""

import sys
from pathlib import Path

from tracejit.backends.registry import list_backends

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "backend_plugin"))

from tracejit_plain_c import PlainC, plain_c

__all__ = ["EVERY_BACKEND", "PlainC", "plain_c"]

EVERY_BACKEND = [*list_backends(), "plain_c"]
"""What tests of any backend run on."""
