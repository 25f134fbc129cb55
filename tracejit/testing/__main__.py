"""The matrix of backends and tiers: `python -m tracejit.testing [--backend NAME ...] [--output FILE]`."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tracejit.backends.registry import backend_reason, list_backends
from tracejit.testing import CASES, TIERS, Verdict, verdict

__all__ = ["main", "matrix"]


def matrix(backends: Sequence[str]) -> tuple[str, bool]:
    """The table as Markdown, and whether nothing failed."""
    found = {name: [verdict(case, name) for case in CASES] for name in backends}
    lines = ["| tier |" + "".join(f" {name} |" for name in backends), "|:-----|" + "-----|" * len(backends)]
    for tier, what in TIERS.items():
        cells = [_counted([v for c, v in zip(CASES, found[name], strict=True) if c.tier == tier]) for name in backends]
        lines.append(f"| {tier}: {what} |" + "".join(f" {cell} |" for cell in cells))
    notes = [
        f"* {name}, tier {case.tier}, {case.name}: {v.outcome}: {v.reason.splitlines()[0]}"
        for name in backends
        for case, v in zip(CASES, found[name], strict=True)
        if v.outcome != "pass"
    ]
    return "\n".join([*lines, "", *(notes or ["Nothing was refused."])]), all(
        v.outcome != "fail" for verdicts in found.values() for v in verdicts
    )


def _counted(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(v.outcome for v in verdicts)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("pass", "refused", "fail") if counts[outcome])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tracejit.testing", description=__doc__)
    parser.add_argument("--backend", action="append", help="what to run on; by default every backend that works here")
    parser.add_argument("--output", type=Path, help="write the table to this file as well")
    options = parser.parse_args(arguments)
    missing = {name: backend_reason(name) for name in options.backend or list_backends()}
    table, fine = matrix([name for name, reason in missing.items() if not reason])
    absent = [f"* {name} does not work here: {reason.splitlines()[0]}" for name, reason in missing.items() if reason]
    text = "\n".join([table, *absent])
    print(text)
    if options.output:
        options.output.write_text(f"# Backends\n\n{_ABOUT}\n\n{text}\n")
    return 0 if fine and not (options.backend and absent) else 1


_ABOUT = """What `python -m tracejit.testing` found, by tier: every program runs on each backend with the arguments and tolerances
of `tracejit/testing/`, against plain Python on NumPy in float64, with poisoned memory. The same suite serves backends of other packages
([add_a_backend.md](add_a_backend.md))."""


if __name__ == "__main__":
    raise SystemExit(main())
