"""Long runs of the generators: `python -m tests.generators expressions --count 1000000`.

Work is cut into chunks, each run by a process of its own, so that a crash or a hang is a finding and not the end.
Every finding is printed as a program that shows it.  TRACEJIT_CPU chooses the processor that code is made for;
`--quick` has LLVM translate it to machine code at its level 0, which takes a fifth of the time and is enough where our
own code is in question and not LLVM's.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from tests.generators import (
    calling,
    containers,
    expressions,
    failing,
    families,
    harness,
    identities,
    integers,
    looked,
    making,
    mapped,
    narrowing,
    onlytraced,
    orders,
    programs,
    rebinding,
    renewed,
    sizes,
)
from tests.generators.harness import Tally
from tests.generators.thresholds import lowered
from tracejit.backends.cpu import compiled
from tracejit.backends.cpu.runtime import processor

CHUNKS = {
    "branching": 100,
    "calling": 50,
    "containers": 100,
    "expressions": 24,
    "failing": 50,
    "families": 50,
    "handing": 50,
    "held": 100,
    "integers": 25,
    "looked": 100,
    "renewed": 100,
    "identities": 100,
    "making": 100,
    "mapped": 25,
    "narrowing": 100,
    "onlytraced": 100,
    "orders": 500,
    "pairs": 200,
    "programs": 200,
    "rebinding": 100,
    "sizes": 25,
    "vanishing": 100,
}  # seeds of one process
GROUP = 500  # expressions of one function
PAIRS = 8  # that read the same few
HANG = 600  # seconds after which a seed counts as one that never ends


def _expressions(seed: int, tally: Tally) -> None:
    group = expressions.group(seed, GROUP)
    tally.cases += len(group.nodes)
    found = expressions.verdicts(group, tally)
    for node, what in found:
        # else it is wrong by what it is made of
        if not any(other is not node and other.text in node.text for other, _ in found):
            tally.wrong.append(group.alone(node, what))


def _pairs(seed: int, tally: Tally) -> None:
    made = expressions.pairs(seed, PAIRS)
    tally.cases += len(made.nodes)
    for node, what in expressions.verdicts(made, tally):
        tally.wrong.append(made.alone(node, what))


def _failing(seed: int, tally: Tally) -> None:
    _case(failing.failing(seed), tally)


def _narrowing(seed: int, tally: Tally) -> None:
    _case(narrowing.narrowing(seed), tally)


def _orders(seed: int, tally: Tally) -> None:
    _case(orders.order(seed), tally)


def _programs(seed: int, tally: Tally) -> None:
    _case(programs.program(seed), tally)


def _rebinding(seed: int, tally: Tally) -> None:
    _case(rebinding.rebinding(seed), tally)


def _branching(seed: int, tally: Tally) -> None:
    _case(rebinding.branching(seed), tally)


def _handing(seed: int, tally: Tally) -> None:
    _case(rebinding.handing(seed), tally)


def _containers(seed: int, tally: Tally) -> None:
    _case(containers.containers(seed), tally)


def _held(seed: int, tally: Tally) -> None:
    _case(rebinding.held(seed), tally)


def _integers(seed: int, tally: Tally) -> None:
    _case(integers.integers(seed), tally)


def _looked(seed: int, tally: Tally) -> None:
    _case(looked.looked(seed), tally)


def _identities(seed: int, tally: Tally) -> None:
    _case(identities.identities(seed), tally)


def _renewed(seed: int, tally: Tally) -> None:
    _case(renewed.renewed(seed), tally)


def _making(seed: int, tally: Tally) -> None:
    _case(making.making(seed), tally)


def _onlytraced(seed: int, tally: Tally) -> None:
    _case(onlytraced.onlytraced(seed), tally)


def _calling(seed: int, tally: Tally) -> None:
    case = calling.calling(seed)
    tally.cases += 1
    if calling.verdict(case, tally):
        tally.wrong.append(harness.Case.alone(*harness.reduced(case, calling.verdict)))


def _case(case: harness.Case, tally: Tally) -> None:
    tally.cases += 1
    if harness.verdict(case, tally):
        tally.wrong.append(harness.Case.alone(*harness.reduced(case)))


def _families(seed: int, tally: Tally) -> None:
    found = families.verdict(families.family(seed), tally)
    tally.cases += tally.calls
    if found:
        tally.wrong.append(found)


def _sizes(seed: int, tally: Tally) -> None:
    _sequence(sizes.sequence(seed), tally)


def _vanishing(seed: int, tally: Tally) -> None:
    _sequence(sizes.vanishing(seed), tally)


def _sequence(made: sizes.Sequence, tally: Tally) -> None:
    before = tally.calls
    found = sizes.verdict(made, tally)
    tally.cases += tally.calls - before
    if found:
        tally.wrong.append(sizes.alone(made, *found))


def _mapped(seed: int, tally: Tally) -> None:
    made = mapped.mapped(seed)
    tally.cases += 1
    found = mapped.verdict(made, tally)
    if found:
        tally.wrong.append(mapped.alone(made, *found))


KINDS: dict[str, Callable[[int, Tally], None]] = {
    "branching": _branching, "calling": _calling, "containers": _containers, "expressions": _expressions,
    "failing": _failing, "families": _families,
    "handing": _handing, "held": _held, "identities": _identities, "integers": _integers, "looked": _looked,
    "renewed": _renewed, "making": _making, "mapped": _mapped,
    "narrowing": _narrowing,
    "onlytraced": _onlytraced, "orders": _orders, "pairs": _pairs,
    "programs": _programs, "rebinding": _rebinding, "sizes": _sizes, "vanishing": _vanishing,
}  # fmt: skip


def _chunk(kind: str, first: int, count: int, quick: bool, low: bool) -> None:
    """What a process does: one line for each seed that it is done with."""
    warnings.simplefilter("ignore")
    gc.set_threshold(100_000, 20, 20)  # a collection per seed, not hundreds
    if quick:
        engine = processor.engine_of_process()
        engine.machine = engine.quick_machine
        # as a first tier: at level 0 LLVM goes wrong on what its own passes have made (a conversion to an
        # integer whose operand they have moved to another block)
        compiled.is_scalar_code = lambda _: False
    for seed in range(first, first + count):
        tally = Tally()
        with lowered(seed) if low else nullcontext():
            KINDS[kind](seed, tally)
        said = {
            "seed": seed,
            "cases": tally.cases,
            "calls": tally.calls,
            "refusals": tally.refusals,
            "wrong": tally.wrong,
        }
        print(json.dumps(said), flush=True)


class Run:
    """A long run: what was counted and found."""

    def __init__(self, kind: str, options: argparse.Namespace) -> None:
        self.kind = kind
        self.options = options
        self.cases = self.calls = self.seeds = 0
        self.refusals: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.until = time.monotonic() + 60 * options.minutes

    def finished(self) -> bool:
        return self.cases >= self.options.count or time.monotonic() > self.until

    def note(self, line: str) -> int:
        """Count what a process says of a seed."""
        said: dict[str, Any] = json.loads(line)
        self.seeds += 1
        self.cases += said["cases"]
        self.calls += said["calls"]
        self.refusals.update(said["refusals"])
        for text in said["wrong"]:
            self.found(f"# {self.kind}, seed {said['seed']}\n{text}")
        return int(said["seed"])

    def found(self, text: str) -> None:
        self.wrong.append(text)
        print(f"\n{text}\n", flush=True)

    def work(self, first: int) -> None:
        """A chunk of seeds, in a process that is started anew behind a seed that ends it."""
        end = first + CHUNKS[self.kind]
        while first < end and not self.finished():
            command = [sys.executable, "-m", "tests.generators", self.kind, "--chunk", str(first), str(end - first)]
            command += ["--quick"] if self.options.quick else []
            command += ["--low"] if self.options.low else []
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TRACEJIT_TUNE_DB": ""}
            ) as process:
                assert process.stdout is not None
                watch = _watch(process)
                for line in process.stdout:
                    watch.cancel()
                    watch = _watch(process)
                    first = self.note(line) + 1
                    if self.finished():
                        watch.cancel()
                        process.kill()
                        return
                watch.cancel()
                code = process.wait()
            if first < end:
                self.found(f"# {self.kind}, seed {first}: the process ended with {code}")
                first += 1

    def run(self) -> int:
        start = time.monotonic()
        seeds = iter(range(self.options.first, 2**31, CHUNKS[self.kind]))

        def worker(_: int) -> None:
            while not self.finished():
                self.work(next(seeds))

        with ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(worker, range(self.options.jobs)))
        for message, count in self.refusals.most_common(self.options.refusals):
            print(f"refused {count}: {message}")
        print(
            f"{self.kind}: {processor.cpu_name()}, {processor.vector_bits()}-bit vectors, {self.seeds} seeds from "
            f"{self.options.first}, "
            f"{self.calls} calls, {sum(self.refusals.values())} refused, {time.monotonic() - start:.0f} s"
        )
        print(f"{self.cases} cases, {len(self.wrong)} wrong")
        return 1 if self.wrong else 0


def _watch(process: subprocess.Popen[str]) -> threading.Timer:
    """What ends a process that says nothing for too long."""
    timer = threading.Timer(HANG, process.kill)
    timer.daemon = True
    timer.start()
    return timer


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.generators", description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument(
        "--count", type=int, default=10_000, help="cases: expressions, programs, or calls of size sequences"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=1e6, help="the time after which it ends")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument(
        "--refusals", type=int, default=0, help="how many messages of refusals to print, the most frequent first"
    )
    parser.add_argument(
        "--low", action="store_true", help="sizes from which on more is done are low: see thresholds.py"
    )
    parser.add_argument("--quick", action="store_true", help="LLVM at level 0")
    parser.add_argument("--chunk", type=int, nargs=2, metavar=("FIRST", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.chunk:
        _chunk(options.kind, *options.chunk, options.quick, options.low)
        return 0
    return Run(options.kind, options).run()


if __name__ == "__main__":
    sys.exit(main())
