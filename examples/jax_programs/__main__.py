"""Programs as one writes them for JAX, run here or, with other names in their import lines, by JAX itself.

python -m examples.jax_programs gaussian_process
python -m examples.jax_programs gaussian_process --package jax
"""

import argparse
import re
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def load(name: str, package: str = "tracejit") -> dict[str, Any]:
    """The names of a program whose import lines, and nothing else, name another package."""
    path = FOLDER / f"{name}.py"
    text = path.read_text()
    if package != "tracejit":
        text = re.sub(r"^(import|from) tracejit\b", rf"\1 {package}", text, flags=re.MULTILINE)
    scope: dict[str, Any] = {"__name__": name, "__file__": str(path)}
    exec(compile(text, str(path) if package == "tracejit" else f"<{name} for {package}>", "exec"), scope)
    return scope


def run() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m examples.jax_programs")
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="the programs, by default all of them")
    parser.add_argument("--package", default="tracejit", help="whose names the import lines have")
    given = parser.parse_args()
    for name in given.names or NAMES:
        begin = time.perf_counter()
        results = load(name, given.package)["main"]()
        print(f"{name} ({given.package}, {time.perf_counter() - begin:.1f} s)")
        for key, value in results.items():
            print(f"    {key}: {value}")


if __name__ == "__main__":
    run()
