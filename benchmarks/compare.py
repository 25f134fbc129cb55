"""Times workloads in several frameworks at once: a process each, short batches in rotating order,
medians of per-round ratios.

What a busy or throttled machine does to one batch it does to its neighbours in time, so ratios within a round are
steadier than times; the rotation takes away what is left of the order.
"""

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen

from benchmarks.workload import Case
from benchmarks.workloads import ALL

ROOT = Path(__file__).resolve().parent.parent
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TRACEJIT_NUM_THREADS",
)


@frozen
class Settings:
    """frameworks in the order of the columns; rounds of one batch each; seconds a batch should take;
    cores all may use.
    """

    frameworks: tuple[str, ...]
    rounds: int = 9
    batch_seconds: float = 0.03
    cores: int = 2
    # threads of the batch before stop spinning: OpenBLAS's after 100 ms, in which they take a core
    pause_seconds: float = 0.12
    time_limit: float = 240.0  # for building and checking one case


@define
class Row:
    """One case: per framework the seconds a call in every round, or why there are none."""

    case: Case
    seconds: dict[str, list[float]] = field(factory=dict)
    failures: dict[str, str] = field(factory=dict)
    first: dict[str, dict[str, float]] = field(factory=dict)

    def median(self, framework: str) -> float:
        return statistics.median(self.seconds[framework])

    def best_peer(self) -> str | None:
        peers = [name for name in self.seconds if name != "tracejit"]
        return min(peers, key=self.median, default=None)

    def ratio(self, framework: str) -> float | None:
        """Median over the rounds of this framework's time over the best peer's in the same round."""
        best = self.best_peer()
        if best is None or framework not in self.seconds:
            return None
        return statistics.median(a / b for a, b in zip(self.seconds[framework], self.seconds[best], strict=True))

    def fastest(self) -> str | None:
        """By the ratios, so that the table's smallest number and its winner are the same."""
        ratios = {name: ratio for name in self.seconds if (ratio := self.ratio(name)) is not None}
        return min(ratios, key=ratios.__getitem__, default=None)


class WorkerFailed(Exception):
    """The worker died or did not answer in time."""


class Worker:
    """The other end of `benchmarks.worker`."""

    def __init__(self, framework: str, settings: Settings) -> None:
        self.framework = framework
        limits = dict.fromkeys(THREAD_VARIABLES, str(settings.cores))
        command = [sys.executable, "-m", "benchmarks.worker", framework]
        log = None if os.environ.get("BENCHMARK_LOG") else subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **limits}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
        self.version = str(self.receive(120).get("version", ""))

    def receive(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            self.close()
            raise WorkerFailed(f"no answer in {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.close()
            raise WorkerFailed(f"the process died ({f'signal {-code}' if code < 0 else f'status {code}'})")
        return json.loads(line)

    def ask(self, seconds: float, **request: Any) -> dict[str, Any]:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise WorkerFailed("the process died") from error
        return self.receive(seconds)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


class Team:
    """One worker per framework. A worker that fails is replaced, and its failure is a result."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.workers: dict[str, Worker] = {}
        self.absent: dict[str, str] = {}
        for name in settings.frameworks:
            self.start(name)

    def start(self, name: str) -> None:
        try:
            self.workers[name] = Worker(name, self.settings)
        except WorkerFailed as error:
            self.absent[name] = f"cannot be imported: {error}"

    def replace(self, name: str) -> None:
        self.workers.pop(name).close()
        self.start(name)

    def versions(self) -> dict[str, str]:
        return {name: worker.version for name, worker in self.workers.items()}

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()

    def prepare(self, row: Row, reference: Path) -> list[str]:
        """Frameworks whose result is right and which are ready to be timed."""
        request = {
            "op": "prepare",
            "workload": row.case.workload,
            "case": row.case.name,
            "reference": str(reference),
            "batch_seconds": self.settings.batch_seconds,
        }
        ready: list[str] = []
        row.failures |= self.absent
        for name in list(self.workers):
            try:
                answer = self.workers[name].ask(self.settings.time_limit, **request)
            except WorkerFailed as error:
                row.failures[name] = str(error)
                self.replace(name)
                continue
            if answer["ok"]:
                ready.append(name)
                row.first[name] = {key: answer[key] for key in ("first_wall", "first_cpu")}
            else:
                row.failures[name] = answer["message"]
        return ready

    def time(self, row: Row, ready: Sequence[str]) -> None:
        """Rounds of one batch per framework; whoever fails leaves the row."""
        going = list(ready)
        times: dict[str, list[float]] = {name: [] for name in ready}
        for turn in range(self.settings.rounds):
            for name in rotated(going, turn):
                time.sleep(self.settings.pause_seconds)
                try:
                    answer = self.workers[name].ask(60, op="batch")
                except WorkerFailed as error:
                    answer = {"ok": False, "message": str(error)}
                    self.replace(name)
                if answer["ok"]:
                    times[name].append(answer["seconds"])
                else:
                    row.failures[name] = answer["message"]
                    going.remove(name)
        row.seconds = {name: times[name] for name in going}


def rotated(names: Sequence[str], turn: int) -> list[str]:
    first = turn % len(names) if names else 0
    return [*names[first:], *names[:first]]


def compare(cases: Sequence[Case], settings: Settings, team: Team) -> Iterator[Row]:
    """One row per case, as it is measured."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        for case in cases:
            row = Row(case)
            reference = Path(folder) / "expected.npz"
            np.savez(reference, *ALL[case.workload].expected(case))
            team.time(row, team.prepare(row, reference))
            yield row


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """`count` other processes that want the same cores all the time."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def use_cores(count: int) -> int:
    """Confine this process and its children to `count` cores where the system allows it; how many that gives."""
    if not hasattr(os, "sched_setaffinity"):
        return min(count, os.cpu_count() or 1)
    allowed = sorted(os.sched_getaffinity(0))[:count]
    os.sched_setaffinity(0, allowed)
    return len(allowed)
