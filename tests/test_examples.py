"""The examples run as their users run them: in a fresh process, with warnings as errors."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "examples" / "demo.py"


def run_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(DEMO), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("part", "picture"), [("portfolio", "portfolio.png"), ("photograph", "photograph.png")])
def test_demo_checks_itself_and_writes_its_picture(part: str, picture: str, tmp_path: Path):
    done = run_demo(tmp_path, "--part", part, "--options", "20000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout
    assert (tmp_path / "out" / picture).read_bytes().startswith(b"\x89PNG")


def test_demo_fails_on_a_wrong_result(tmp_path: Path):
    """The same script with a compiler that is wrong in the sixth digit."""
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import runpy, sys, tracejit as tj\n"
        "tj.jit = lambda f: lambda *args: f(*args) * 1.000001\n"
        f"sys.argv = ['demo.py', '--part', 'portfolio', '--options', '1000']\nrunpy.run_path({str(DEMO)!r}, "
        "run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, str(broken)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "WRONG" in done.stdout


def test_digits_are_learned(tmp_path: Path):
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "digits.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
