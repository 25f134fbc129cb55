"""What a user meets before the first call: a cheap import, a small dependency list, a wheel for every platform."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Loaded at first use only. `numba`, `jax` and `torch` never: they are peers.
HEAVY = [
    "llvmlite", "pyopencl", "pycuda", "vulkan", "ml_dtypes", "scipy", "numba", "jax", "torch", "sklearn", "matplotlib",
    "asyncio", "attr",
]  # fmt: skip


def python(source: str, environment: dict[str, str] | None = None) -> str:
    return subprocess.run(
        [sys.executable, "-c", source], check=True, capture_output=True, text=True, cwd=ROOT, env=environment
    ).stdout


def test_import_loads_nothing_heavy():
    loaded = python(
        "import sys, numpy; before = set(sys.modules); import tracejit; print(*sorted(set(sys.modules) - before))"
    ).split()
    assert "tracejit" in loaded
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_a_first_call_has_no_class_made_by_attrs():
    """It takes ten times as long as ours for each, and some 200 are needed."""
    source = "import numpy, tracejit, sys; tracejit.jit(lambda x: x + 1)(numpy.ones(3)); print('attr' in sys.modules)"
    assert python(source).split() == ["False"]


def test_import_costs_little_over_numpy():
    """A seventeenth of the calls that numpy's own import makes, so about 10 ms beside 80:
    counted, so that the machine does not matter."""
    source = (
        "import sys; calls = [0]; sys.setprofile(lambda *event: calls.append(calls.pop() + 1)); "
        "import numpy; before = calls[0]; import tracejit; sys.setprofile(None); print(before, calls[0] - before)"
    )
    numpy_calls, own_calls = map(int, python(source).split())
    assert own_calls < 0.12 * numpy_calls, f"{own_calls} calls and returns over numpy's {numpy_calls}"


def test_import_starts_no_thread():
    assert python("import tracejit, threading; print(threading.active_count())").split() == ["1"]


def test_public_names_exist_and_are_documented():
    source = (
        "import tracejit as tj\nfor n in tj.__all__:\n    o = getattr(tj, n)\n    print(n if callable(o) and "
        "not o.__doc__ else '')"
    )
    assert python(source).split() == []


def test_dependencies_are_the_three_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {d.split(">")[0] for d in project["dependencies"]} == {"numpy", "llvmlite", "attrs"}
    assert {"opencl", "cuda", "vulkan", "test", "examples", "bench"} <= set(project["optional-dependencies"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    (made,) = folder.iterdir()
    return made


def test_wheel_is_pure_python(wheel: Path):
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [n for n in names if n.endswith((".so", ".pyd", ".dll", ".dylib", ".c", ".h", ".o", ".a"))]


def test_wheel_holds_the_whole_package_and_nothing_else(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names if ".dist-info" not in n} == {"tracejit"}
    assert "tracejit/py.typed" in names
    shipped = {n for n in names if n.endswith(".py")}
    assert shipped == {str(path.relative_to(ROOT)) for path in (ROOT / "tracejit").rglob("*.py")}
    assert any(n.endswith("licenses/LICENSE") for n in names)


def test_first_calls_from_many_threads():
    """What is imported before anything is traced is asked for by all of them at once."""
    python(
        "import numpy as np, tracejit as tj, threading, sys\n"
        "sys.setswitchinterval(1e-5)\n"
        "barrier, failed = threading.Barrier(6), []\n"
        "f = tj.jit(lambda x: x + 1)\n"
        "def work():\n"
        "    barrier.wait()\n"
        "    try:\n"
        "        assert f(np.arange(3.0)).tolist() == [1, 2, 3]\n"
        "    except BaseException as error:\n"
        "        failed.append(error)\n"
        "threads = [threading.Thread(target=work) for _ in range(6)]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "assert not failed, failed\n"
    )
