"""What `tracejit.support.nodes` saves over attrs: the first call of Black-Scholes, import included, with either.

    python -m benchmarks.classes [repeats]

Fresh processes with bytecode present, in turns; CPU milliseconds, medians. In the one half of them a module with attrs'
own functions stands in the place of `nodes` before the package is imported.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from typing import Any

from benchmarks.cold_start import environment
from benchmarks.compare import ROOT


def attrs_in_its_place() -> None:
    """Have every class of the package made by attrs, with slots."""
    import attrs

    class Undecided(BaseException):
        pass

    def compared(cls: type) -> None:
        plain = cls.__dict__.get("__eq__")

        def same(a: Any, b: Any) -> bool:
            if type(a) is tuple and type(b) is tuple:
                return len(a) == len(b) and all(map(same, a, b))
            return a.same(b) if hasattr(a, "same") else bool(a == b)

        def equal(self: Any, other: object) -> Any:
            try:
                return plain(self, other)
            except Undecided:
                return all(same(getattr(self, f.name), getattr(other, f.name)) for f in attrs.fields(cls))

        cls.__eq__ = equal

    def made(maker: Any, cls: type, eq: bool) -> type:
        own = "__eq__" in cls.__dict__
        if "__post_init__" in cls.__dict__:
            cls.__attrs_post_init__ = cls.__dict__["__post_init__"]
        result = maker(cls, eq=eq and not own, repr="__repr__" not in cls.__dict__, order=False)
        if eq and not own:
            compared(result)
        return result

    def maker(function: Any) -> Any:
        def decorate(cls: type | None = None, *, eq: bool = True) -> Any:
            return (lambda c: made(function, c, eq)) if cls is None else made(function, cls, eq)

        return decorate

    module: Any = types.ModuleType("tracejit.support.nodes")
    module.Undecided = Undecided
    module.define, module.frozen = maker(attrs.define), maker(attrs.frozen)
    module.field = attrs.field
    module.evolve, module.has_fields, module.fields_of = attrs.evolve, attrs.has, attrs.fields
    module.as_dict = lambda x: attrs.asdict(x, recurse=False)
    sys.modules[module.__name__] = module


def measured(program: str) -> None:
    """In a fresh process: print the milliseconds of a first call."""
    if program == "attrs":
        attrs_in_its_place()
    from benchmarks import fresh

    started = time.process_time()
    fresh.figure("tracejit", "black_scholes")
    print((time.process_time() - started) * 1e3)


def once(which: str, bytecode: str) -> float:
    command = [sys.executable, "-c", f"from benchmarks.classes import measured; measured({which!r})"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(bytecode), capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout.splitlines()[-1])


def main(repeats: int) -> None:
    found: dict[str, list[float]] = {"nodes": [], "attrs": []}
    with tempfile.TemporaryDirectory() as bytecode:
        for which in found:
            once(which, bytecode)
        for _ in range(repeats):
            for which, times in found.items():
                times.append(once(which, bytecode))
    medians = {which: statistics.median(times) for which, times in found.items()}
    saved = [a - b for a, b in zip(found["attrs"], found["nodes"], strict=True)]
    print(", ".join(f"{which} {time:.1f} ms" for which, time in medians.items()), end="; ")
    print(f"saved {statistics.median(saved):.1f} ms ({os.cpu_count()} cores, {repeats} pairs)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
