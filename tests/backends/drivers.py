"""The drivers that tests run kernels on, and what is checked of the code that they are given."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tracejit.backends.vulkan.assembly import assemble

DRIVERS = ["cuda", "opencl", "vulkan"]


@contextmanager
def cache(variable: str, path: str) -> Iterator[None]:
    before = os.environ.get(variable)
    os.environ[variable] = path
    yield
    if before is None:
        del os.environ[variable]
    else:
        os.environ[variable] = before


def devices(driver: str) -> list[Any]:
    """Those of a driver, none where it does not work."""
    runtime = import_module(f"tracejit.backends.{driver}.runtime")
    return [] if runtime.unavailable_reason() else runtime.devices()


def validated(source: str) -> str:
    """A text of SPIR-V whose words are valid for Vulkan 1.2, as far as there is a validator."""
    if shutil.which("spirv-val"):
        command = ["spirv-val", "--target-env", "vulkan1.2", "-"]
        checked = subprocess.run(command, input=assemble(source), capture_output=True, check=False)
        assert checked.returncode == 0, f"{checked.stdout.decode()}{checked.stderr.decode()}\n{source}"
    return source
