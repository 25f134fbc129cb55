"""The option of `pytest -p tracejit.testing.plugin --pyargs tracejit.testing`."""

from __future__ import annotations

from typing import Any

from tracejit.backends.registry import backend_reason, list_backends


def pytest_addoption(parser: Any) -> None:
    """--backend NAME, as often as wanted."""
    parser.addoption("--backend", action="append", help="what to run on; by default every backend that works here")


def pytest_generate_tests(metafunc: Any) -> None:
    """Every case on each of them."""
    if "conforming_backend" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--backend")
        names = chosen or [name for name in list_backends() if not backend_reason(name)]
        metafunc.parametrize("conforming_backend", names)
