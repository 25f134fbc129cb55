"""Build the wheel and the sdist, install each in an empty environment and run a smoke test there,
away from the checkout.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMOKE = Path(__file__).resolve().parent / "smoke.py"


def clean_environment() -> dict[str, str]:
    """This process's environment without what could lead an import back to the checkout."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "TRACEJIT_"))
    }


def run(*command: str | Path, cwd: Path) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=cwd, env=clean_environment())


def build(kind: str, into: Path) -> Path:
    """One distribution, built by hatchling as `pip` would build it."""
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", into, cwd=ROOT)
    (made,) = into.iterdir()
    return made


def check(distribution: Path, folder: Path) -> None:
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", distribution, cwd=folder)
    run(python, SMOKE, ROOT, cwd=folder)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tracejit-install-") as name:
        for kind in ("wheel", "sdist"):
            folder = Path(name) / kind
            (folder / "dist").mkdir(parents=True)
            made = build(kind, folder / "dist")
            if kind == "wheel" and not made.name.endswith("-py3-none-any.whl"):
                sys.exit(f"{made.name} is not a pure-Python wheel")
            check(made, folder)
            print(f"{made.name}: installs and runs")


if __name__ == "__main__":
    main()
