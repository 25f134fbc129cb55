"""The one command: `python -m benchmarks`.

python -m benchmarks                                   everything; writes docs/benchmarks.md
python -m benchmarks softmax_rows heat                 rows whose name starts with one of these; prints only
python -m benchmarks softmax_rows --frameworks numpy,tracejit --rounds 5
python -m benchmarks --cold                            fresh processes: import, first calls, new sizes
python -m benchmarks layernorm --neighbours 2          the same with two busy processes beside it
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import asdict

from benchmarks import cold_start, report
from benchmarks.compare import ROOT, Row, Settings, Team, compare, neighbours, use_cores
from benchmarks.workload import FRAMEWORKS, Case
from benchmarks.workloads import ALL

RAW = ROOT / "out" / "benchmarks.json"
DOCUMENT = ROOT / "docs" / "benchmarks.md"
# Small parallel kernels: where a pool that waits for a descheduled thread shows.
SENSITIVE = (
    "sum_all 512",
    "softmax_rows 512",
    "layernorm 512",
    "heat_2d_100 128",
    "black_scholes 1e5 f4",
    "n_body 1000 f4",
)

METHOD = """One process per framework; batches of about 30 ms are interleaved in rotating order, with pauses in which
the threads of the one before fall asleep, and every ratio is the median over the rounds of the ratio within one round.
Before a time counts, the result is compared with NumPy in float64, random numbers with their distribution. All
frameworks have the same cores. JAX gets its own arrays as inputs and is waited for; Numba's versions are explicit loops
with `prange` and `fastmath`; tracejit's are the NumPy functions under `tj.jit`, with `tj.lax.fori_loop`,
`tj.lax.while_loop` and `tj.vmap` for loops."""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=plain)
    parser.add_argument("names", nargs="*", help="rows to run: beginnings of their names; without any, all of them")
    parser.add_argument("--frameworks", default=",".join(FRAMEWORKS), help="comma separated; default %(default)s")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--neighbours", type=int, default=0, help="busy processes to run beside a second pass")
    parser.add_argument("--cold", action="store_true", help="cold starts only")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument(
        "--output", type=Path, help="write the document here; default docs/benchmarks.md when everything runs"
    )
    return parser.parse_args(argv)


def chosen_cases(names: Sequence[str]) -> list[Case]:
    cases = [case for workload in ALL.values() for case in workload.cases]
    return [case for case in cases if not names or any(case.name.startswith(name) for name in names)]


def measure(cases: Sequence[Case], settings: Settings, team: Team) -> list[Row]:
    rows: list[Row] = []
    for row in compare(cases, settings, team):
        rows.append(row)
        shown = "  ".join(f"{name} {report.cell(row, name).strip('*')}" for name in settings.frameworks)
        best = row.best_peer()
        print(
            f"{row.case.name:32} {best or '-':6} {report.readable(row.median(best)) if best else '-':>9}   {shown}",
            flush=True,
        )
        for name, message in row.failures.items():
            print(f"    {name}: {message}", flush=True)
    return rows


def document(sections: Sequence[tuple[str, str]], about: str) -> str:
    note = "Written by `python -m benchmarks`. Run it on your own machine: ratios carry over, times do not."
    parts = ["# Benchmarks", note, about, METHOD]
    return "\n\n".join(parts + [f"## {title}\n\n{text}" for title, text in sections]) + "\n"


def warm(
    options: argparse.Namespace, frameworks: tuple[str, ...], cores: int
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Sections on repeated calls, and the versions that were measured."""
    settings = Settings(frameworks, options.rounds, cores=cores)
    team = Team(settings)
    try:
        rows = measure(chosen_cases(options.names), settings, team)
        save(rows)
        sections = [
            (
                "Repeated calls: time over the best peer's",
                report.table(rows, frameworks) + "\n\n" + report.summary(rows, frameworks),
            ),
        ]
        if failed := report.failures(rows):
            sections.append(("What did not run", failed))
        count = options.neighbours or (0 if options.names else 2)
        if count:
            sections.append(beside(count, rows, settings, team, frameworks))
        return sections, team.versions()
    finally:
        team.close()


def beside(
    count: int, rows: Sequence[Row], settings: Settings, team: Team, frameworks: Sequence[str]
) -> tuple[str, str]:
    """The section on busy neighbours: the sensitive rows again, in company."""
    quiet = [row for row in rows if row.case.name.startswith(SENSITIVE)] or list(rows)
    print(f"-- again, beside {count} busy processes", flush=True)
    with neighbours(count):
        busy = measure([row.case for row in quiet], settings, team)
    return f"Beside {count} busy processes: time over the time without them", report.slowdowns(quiet, busy, frameworks)


def save(rows: Sequence[Row]) -> None:
    """Every batch of the run, for whoever wants more than medians."""
    RAW.parent.mkdir(exist_ok=True)
    RAW.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(argv)
    if options.list:
        print("\n".join(case.name for case in chosen_cases(options.names)))
        return 0
    if not chosen_cases(options.names):
        print(
            f"no row starts with {' or '.join(options.names)}; python -m benchmarks --list shows them", file=sys.stderr
        )
        return 2
    frameworks = tuple(options.frameworks.split(","))
    cores = use_cores(options.cores)
    sections: list[tuple[str, str]] = []
    versions: dict[str, str] = {}
    if not options.cold:
        sections, versions = warm(options, frameworks, cores)
    if options.cold or not options.names:
        sections.append(("Cold start: fresh processes, CPU milliseconds", cold_start.measure(frameworks)))
    text = document(sections, report.machine(cores, versions))
    complete = not options.names and not options.cold
    target = options.output or (DOCUMENT if complete else None)
    if target is None:
        print("\n\n".join(f"## {title}\n\n{body}" for title, body in sections))
    else:
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
        print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
