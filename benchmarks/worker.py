"""One framework in a process of its own: builds, checks and times what the controller asks for,
one JSON line each way.
"""

import importlib.metadata
import importlib.util
import json
import os
import sys
import threading
import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define

from benchmarks.workload import Case, Workload, mapped
from benchmarks.workloads import ALL


@define
class Prepared:
    """A timer of one case and the number of calls in a batch."""

    timer: timeit.Timer
    calls: int


def as_jax(tree: Any) -> Any:
    import jax

    return mapped(jax.numpy.asarray, tree)


def statement(framework: str, arguments: int, result: Any) -> str:
    """The timed line. JAX's results arrive later and are waited for, by their own method where there is one result."""
    call = f"f({', '.join(f'a{i}' for i in range(arguments))})"
    if framework != "jax":
        return call
    return f"{call}.block_until_ready()" if hasattr(result, "block_until_ready") else f"wait({call})"


def waiting(framework: str) -> Callable[[Any], Any]:
    if framework != "jax":
        return lambda result: result
    import jax

    return jax.block_until_ready


def calibrated(timer: timeit.Timer, batch_seconds: float) -> int:
    """How many calls fill a batch; found by growing, which also warms caches and thread pools."""
    calls = 1
    while True:
        seconds = timer.timeit(calls)
        if seconds >= batch_seconds / 4:
            return max(1, round(calls * batch_seconds / seconds))
        calls *= 3


def prepare(
    framework: str, workload: Workload, case: Case, reference: str, batch_seconds: float
) -> tuple[Prepared | None, dict[str, Any]]:
    """Build, run and check one case. Without a right result there is no timer."""
    inputs = workload.inputs(case)
    if framework == "jax" and not workload.peers_take_numpy:
        inputs = as_jax(inputs)
    wait = waiting(framework)
    started, cpu = time.perf_counter(), time.process_time()
    function = workload.build(framework)
    result = wait(function(*inputs))
    first = {"first_wall": time.perf_counter() - started, "first_cpu": time.process_time() - cpu}
    with np.load(reference) as stored:
        want = [stored[name] for name in stored.files]
    error = workload.error(case, result, want)
    if not error <= 1:
        return None, {"ok": False, "message": f"wrong result: error {error:.3g} of what is allowed", **first}
    scope = {"f": function, "wait": wait, **{f"a{i}": value for i, value in enumerate(inputs)}}
    timer = timeit.Timer(statement(framework, len(inputs), result), globals=scope)
    del result
    rise(framework, lambda: wait(function(*inputs)))
    calls = calibrated(timer, batch_seconds)
    error_after = workload.error(case, wait(function(*inputs)), want)
    if not error_after <= 1:
        return None, {
            "ok": False,
            "message": f"wrong result after repeated calls: error {error_after:.3g} of what is allowed",
            **first,
        }
    return Prepared(timer, calls), {"ok": True, "error": error, "calls": calls, **first}


def rise(framework: str, call: Callable[[], Any]) -> None:
    """Call until tracejit has made its better code, in the background, and uses it."""
    if framework != "tracejit":
        return
    for _ in range(2):
        call()
        for thread in threading.enumerate():
            if thread.name == "tracejit":
                thread.join()
    call()


def version(framework: str) -> str:
    try:
        return importlib.metadata.version(framework)
    except importlib.metadata.PackageNotFoundError:  # a checkout that is on the path
        if importlib.util.find_spec(framework) is None:
            return "not installed"
        return getattr(importlib.import_module(framework), "__version__", "unknown")


def enable(framework: str) -> None:
    """Import the framework, in the mode its users compare at: JAX with float64 allowed."""
    if framework == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    __import__(framework)


def serve(framework: str, requests: Any, answers: Any) -> None:
    def answer(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    enable(framework)
    answer(ok=True, version=version(framework))
    prepared: Prepared | None = None
    for line in requests:
        request = json.loads(line)
        try:
            match request["op"]:
                case "prepare":
                    prepared = None
                    workload = ALL[request["workload"]]
                    case = next(case for case in workload.cases if case.name == request["case"])
                    prepared, message = prepare(
                        framework, workload, case, request["reference"], request["batch_seconds"]
                    )
                    answer(**message)
                case "batch" if prepared:
                    answer(ok=True, seconds=prepared.timer.timeit(prepared.calls) / prepared.calls)
                case _:
                    answer(ok=False, message=f"not prepared for {request['op']}")
        except Exception as error:
            first_line = (str(error).strip() or "no message").splitlines()[0]
            answer(ok=False, message=f"{type(error).__name__}: {first_line}"[:300])


if __name__ == "__main__":
    # Answers go out on a private descriptor: whatever a library prints must not mix with them.
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.argv[1], sys.stdin, private)
