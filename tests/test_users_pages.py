"""The pages for users say what is so: names of JAX's, variables, settings, errors; and the ported programs agree."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tracejit as tj
from tests.test_readme import python_source
from tracejit.support import errors
from tracejit.support.config import VARIABLES, Config
from tracejit.support.nodes import fields_of
from tracejit.support.not_here import NOT_HERE, reason_for

DOCS = Path(__file__).resolve().parent.parent / "docs"
FOREIGN = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
TJ_NAME = re.compile(r"`tj((?:\.\w+)+)")


def text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text()


def section(page: str, title: str) -> str:
    return text_of(page).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def found(path: str) -> Any:
    thing: Any = tj
    for name in path.strip(".").split("."):
        thing = getattr(thing, name)
    return thing


@pytest.mark.parametrize("page", ["guide", "from_jax", "from_numba", "troubleshooting", "limits", "scipy"])
def test_every_name_of_the_package_that_a_page_uses_is_there(page: str):
    names = set(TJ_NAME.findall(text_of(page)))
    assert names
    for name in names:
        found(name)


def test_what_the_page_calls_the_same_has_the_name_of_jax():
    same = TJ_NAME.findall(section("from_jax", "Names").partition("\n| JAX")[0])
    assert len(same) > 20
    script = f"""
import jax, jax.flatten_util, jax.scipy.optimize, jax.scipy.spatial.transform, operator
lacking = []
for name in {[name.strip(".") for name in same]}:
    try:
        operator.attrgetter(name)(jax)
    except AttributeError:
        lacking.append(name)
assert not lacking, lacking
"""
    run_apart("jax", script)


def run_apart(package: str, script: str, *folders: Path) -> None:
    """Run a program that imports a package, in a process of its own: JAX objects to forks in a process that has it."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    paths = [*map(str, folders), str(DOCS.parent)]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {paths}\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_what_the_page_says_is_not_there_is_not_and_says_why():
    listed = re.search(r"^Not there, .*?:(.*?)\n\n", section("from_jax", "Names"), re.MULTILINE | re.DOTALL)
    assert listed
    assert set(re.findall(r"`(\w+)`", listed[1])) == set(NOT_HERE)
    for name in NOT_HERE:
        assert not hasattr(tj, name)
        assert not hasattr(tj.lax, name)
        assert len(reason_for(name, "tracejit")) > 60


def test_the_errors_of_the_guide_are_classes():
    rows = re.findall(r"^\| (`\w+Error`.*?) \|(.*)\|$", section("guide", "Errors"), re.MULTILINE)
    names = {name for row in rows for cell in row for name in re.findall(r"`(\w+)`", cell)}
    assert {"UserError", "InternalError", "BackendUnavailable"} <= names
    assert all(issubclass(getattr(errors, name), errors.TracejitError) for name in names)


def test_the_page_has_every_variable_and_every_setting():
    text = section("troubleshooting", "Variables and switches")
    assert sorted(re.findall(r"^\| `TRACEJIT_(\w+)`", text, re.MULTILINE)) == sorted(VARIABLES)
    rows = re.findall(r"^\| (`[a-z_]+`.*?) \|", text, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(
        f.name for f in fields_of(Config)
    )


PORTED = {
    "from_jax": ("jax", "fit(np.log(np.array([0.9, 0.5, 0.12, 0.3])), start, seen, 0.05, 1e-9, 2000)[0]", "rates"),
    "from_numba": ("numba", "all_pairs(series, 0.1)", "apart"),
}
"""Page to the package that the first program is for, how that is called with the values of the page, and the page's
name for the result.
"""


@pytest.mark.parametrize("page", PORTED)
def test_a_ported_program_computes_what_the_original_does(page: str, tmp_path: Path):
    package, call, result = PORTED[page]
    (original,) = FOREIGN.findall(text_of(page))
    (tmp_path / "original.py").write_text(original)
    (tmp_path / "ported.py").write_text(python_source(text_of(page)))
    script = f"""
import numpy as np
from ported import *
from original import *
np.testing.assert_allclose(np.asarray({call}), {result}, rtol=1e-6, atol=1e-9)
"""
    run_apart(package, script, tmp_path)
