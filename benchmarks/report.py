"""Tables in Markdown, and the machine they were made on."""

import datetime
import importlib.metadata
import math
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.compare import Row


def readable(seconds: float) -> str:
    for limit, scale, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def cell(row: Row, framework: str) -> str:
    ratio = row.ratio(framework)
    if ratio is None:
        return (
            readable(row.median(framework))
            if framework in row.seconds
            else "failed"
            if framework in row.failures
            else "-"
        )
    return f"**{ratio:.2f}**" if framework == row.fastest() else f"{ratio:.2f}"


def table(rows: Sequence[Row], frameworks: Sequence[str]) -> str:
    """Times over the best peer's; the fastest of all in bold."""
    lines = [
        "| workload | best peer | its time | " + " | ".join(frameworks) + " |",
        "|---|---|---|" + "---|" * len(frameworks),
    ]
    for row in rows:
        best = row.best_peer()
        lead = f"| {row.case.name} | {best or '-'} | {readable(row.median(best)) if best else '-'} | "
        lines.append(lead + " | ".join(cell(row, name) for name in frameworks) + " |")
    return "\n".join(lines)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(rows: Sequence[Row], frameworks: Sequence[str]) -> str:
    """Geometric means over the rows each one ran, and how often each was the fastest."""
    lines: list[str] = []
    for name in frameworks:
        ratios = [ratio for row in rows if (ratio := row.ratio(name)) is not None]
        wins = sum(row.fastest() == name for row in rows)
        mean = f"{geometric_mean(ratios):.2f}" if ratios else "-"
        lines.append(f"| {name} | {mean} | {len(ratios)} of {len(rows)} | {wins} |")
    return "\n".join(["| | geometric mean over the best peer | rows | fastest in |", "|---|---|---|---|", *lines])


def failures(rows: Sequence[Row]) -> str:
    lines = [f"* {row.case.name}, {name}: {message}" for row in rows for name, message in sorted(row.failures.items())]
    return "\n".join(lines)


def slowdowns(quiet: Sequence[Row], busy: Sequence[Row], frameworks: Sequence[str]) -> str:
    """Median time with busy neighbours over the median time without."""
    lines = ["| workload | " + " | ".join(frameworks) + " |", "|---|" + "---|" * len(frameworks)]
    for before, after in zip(quiet, busy, strict=True):
        both = [name in before.seconds and name in after.seconds for name in frameworks]
        cells = [
            f"{after.median(n) / before.median(n):.1f}" if ok else "-" for n, ok in zip(frameworks, both, strict=True)
        ]
        lines.append(f"| {before.case.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def processor() -> str:
    """The processor's name where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def vector_extensions() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set[str]()
    return next(
        (name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("asimd", "NEON")) if flag in flags), ""
    )


def memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30) if hasattr(os, "sysconf") else 0


def machine(cores: int, versions: Mapping[str, str]) -> str:
    """One paragraph that names what the figures hold for."""
    parts = [
        f"{cores} cores of {processor()}",
        vector_extensions(),
        f"{memory_gib()} GiB",
        platform.platform(terse=True),
    ]
    packages = [f"{name} {version}" for name, version in versions.items()]
    packages += [f"llvmlite {importlib.metadata.version('llvmlite')}"]
    made = datetime.date.today().isoformat()
    return f"{', '.join(p for p in parts if p)}. Python {platform.python_version()}, {', '.join(packages)}. {made}."
