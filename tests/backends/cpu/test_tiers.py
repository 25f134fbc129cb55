"""Machine code in two tiers: the same bits, quickly at first and well in the background."""

import gc
import math
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators import expressions, harness, programs
from tracejit.backends.cpu import tiers
from tracejit.backends.cpu.codegen.work import work
from tracejit.backends.cpu.runtime import llvm, processor
from tracejit.support.config import config
from tracejit.support.errors import CompileError

X = np.linspace(-2.0, 3.0, 1000)


@pytest.fixture(autouse=True)
def tiered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(config, "tiers", True)
    yield
    wait()


def wait() -> None:
    """Until nothing is compiled in the background."""
    for thread in threading.enumerate():
        if thread.name == "tracejit":
            thread.join()


def loads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each library that is loaded from now on was made quickly."""
    made: list[bool] = []
    load = llvm.load

    def noted(text: str, **options: Any) -> Any:
        made.append(bool(options.get("quick")))
        return load(text, **options)

    monkeypatch.setattr(llvm, "load", noted)
    return made


def entries(f: Any) -> int:
    """How many native entries a function has."""
    return 0 if f._dispatcher is None else len(f._dispatcher)


def test_a_function_that_is_called_once_is_compiled_quickly_and_no_more(monkeypatch: pytest.MonkeyPatch):
    made = loads(monkeypatch)
    tj.jit(lambda x: np.exp(x) + 1)(X)
    wait()
    assert made == [True]


def test_the_second_call_asks_for_better_code_which_later_calls_run(monkeypatch: pytest.MonkeyPatch):
    f = tj.jit(lambda x: np.exp(x) + 1)
    first = f(X)
    made = loads(monkeypatch)
    second = f(X)
    wait()
    assert made[-1] is False
    third = f(X)
    assert entries(f) == 1
    monkeypatch.setattr("tracejit.api.jit._miss", pytest.fail)
    fourth = f(X)
    np.testing.assert_allclose(first, np.exp(X) + 1, rtol=1e-15)
    assert first.tobytes() == second.tobytes() == third.tobytes() == fourth.tobytes()


def test_finish_compiles_at_once_and_calls_go_to_native_entries(monkeypatch: pytest.MonkeyPatch):
    f = tj.jit(lambda x, n: x * n)
    f(X, 2)
    f(X, 2.5)
    f.finish()
    assert entries(f) == 2
    monkeypatch.setattr("tracejit.api.jit._miss", pytest.fail)
    np.testing.assert_array_equal(f(X, 3.5), X * 3.5)


def test_what_has_much_to_do_is_compiled_well_at_once(monkeypatch: pytest.MonkeyPatch):
    made = loads(monkeypatch)
    big = np.ones((6000, 6000), np.float32)
    tj.jit(lambda x: x + 1)(big)
    assert True not in made
    made.clear()
    x = np.ones(10)

    def search(x: Any) -> Any:
        return tj.lax.while_loop(lambda s: s[0] < 5, lambda s: s * 2, x)

    tj.jit(search)(x)  # nobody knows how long
    assert True not in made


def test_a_larger_size_of_a_quickly_compiled_version_is_compiled_well_before_it_runs(monkeypatch: pytest.MonkeyPatch):
    f = tj.jit(lambda x: np.sqrt(x) + 1)
    f(np.ones(10))
    made = loads(monkeypatch)
    f(np.ones(20))  # of all sizes
    assert True in made
    made.clear()
    f(np.ones(30_000_000, np.float64))
    assert made
    assert True not in made


@pytest.mark.parametrize(
    ("f", "args", "at_least"),
    [
        (lambda x: x + 1, (np.ones((30, 40)),), 1200),
        (lambda x: np.exp(x), (np.ones(100),), 1600),
        (lambda x, y: x @ y, (np.ones((16, 16)), np.ones((16, 16))), 16**3),
        (lambda x: np.cumsum(x), (np.ones(500),), 500),
    ],
)
def test_work_counts_the_scalar_operations(f: Callable[..., Any], args: tuple[Any, ...], at_least: int):
    found = work(tj.jit(f).lower(*args).program, {})
    assert at_least <= found <= 20 * at_least


def test_work_counts_extents():
    f = tj.jit(lambda x, y: np.tanh(x[:, None] * y))
    f(np.ones(4), np.ones(5))
    f(np.ones(6), np.ones(8))
    program = list(f._state.versions.values())[-1].lowered.program
    small, large = (work(program, dict(zip(program.dims, (n, m), strict=True))) for n, m in ((10, 10), (100, 200)))
    assert 100 * small < large < 400 * small


def test_captured_arrays_and_names_are_followed_while_a_function_is_in_the_first_tier_and_after(
    monkeypatch: pytest.MonkeyPatch,
):
    state = {"a": np.arange(3.0), "k": 2}

    def f(x):
        return x * state["k"] + state["a"]

    g, x = tj.jit(f), np.ones(3)
    for n in range(8):
        if n == 2:
            wait()
        if n % 3 == 1:
            state["a"] = state["a"] + 1
        if n % 3 == 2:
            state["k"] += 1
        np.testing.assert_array_equal(g(x), f(x))
        state["a"][0] += 5
        np.testing.assert_array_equal(g(x), f(x))


def test_in_place_writes_and_results_in_both_tiers():
    def f(x, n):
        x[1:] += n
        return x[:2].copy(), n * 2

    g = tj.jit(f)
    for k in range(6):
        x, y = np.arange(5.0) + k, np.arange(5.0) + k
        for got, want in zip(g(x, k), f(y, k), strict=True):
            np.testing.assert_array_equal(got, want)
            assert type(got) is type(want)
        np.testing.assert_array_equal(x, y)
        if k == 3:
            wait()


def test_errors_of_the_first_tier_are_those_of_the_second():
    def f(x, k):
        return x[k] * 2

    g = tj.jit(f)
    for n in range(6):
        with pytest.raises(IndexError, match="index 7 is out of bounds"):
            g(np.arange(5.0), 7)
        assert g(np.arange(5.0), 2) == 4
        if n == 3:
            wait()


def test_threads_may_call_a_function_while_it_rises():
    f = tj.jit(lambda x, y: np.sin(x) @ y + np.exp(x).sum())
    x, y = np.linspace(0, 1, 50), np.ones((50, 3))
    want = np.sin(x) @ y + np.exp(x).sum()
    wrong: list[Any] = []

    def call() -> None:
        for _ in range(200):
            got = f(x, y)
            if not np.allclose(got, want, rtol=1e-13):
                wrong.append(got)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    wait()
    f(x, y)
    assert f._dispatcher is not None


def test_a_function_that_is_gone_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch):
    f = tj.jit(lambda x: np.cos(x) * 3)
    f(X)
    made = loads(monkeypatch)
    with processor.lock:  # the background waits
        g = tj.jit(lambda x: np.cos(x) * 4)
        g(X), g(X)
        f(X)
        gone = weakref.ref(f)
        del f
        gc.collect()
        assert gone() is None
        before = made.count(False)
    wait()
    assert made.count(False) - before == 1  # g's


def test_the_code_of_the_first_tier_goes_with_it():
    before = llvm.loaded_count()
    f = tj.jit(lambda x: np.cos(x) * 5)
    f(X), f(X)
    wait()
    f(X)
    assert llvm.loaded_count() == before + 1


def test_what_cannot_be_made_well_goes_on_as_it_is(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    f = tj.jit(lambda x: np.cos(x) * 6)
    f(X)
    load = llvm.load

    def refusing(text: str, **options: Any) -> Any:
        if not options.get("quick"):
            raise CompileError("no room")
        return load(text, **options)

    monkeypatch.setattr(llvm, "load", refusing)
    f(X)
    wait()
    assert "no room" in caplog.text
    np.testing.assert_allclose(f(X), np.cos(X) * 6, rtol=1e-15)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_process_rises_by_itself():
    f = tj.jit(lambda x: np.cos(x) * 7)
    before = f(X)
    f(X)
    child = os.fork()
    if child == 0:
        ok = False
        try:
            for _ in range(3):
                f(X)
                wait()
            ok = next(iter(f._state.versions.values())).run._entry.compiled.is_final and bool((f(X) == before).all())
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0


ENDS = """
import numpy as np, tracejit as tj
f = tj.jit(lambda x: np.exp(x) @ x.T + sum(np.sin(x * k) for k in range(20)))
x = np.ones((20, 20))
f(x); f(x)
print("done", flush=True)
"""


def test_a_process_ends_while_better_code_is_made():
    started = time.monotonic()
    environment = {**os.environ, "TRACEJIT_TIERS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert time.monotonic() - started < 60


def test_with_the_switch_off_there_is_one_tier(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "tiers", False)
    made = loads(monkeypatch)
    f = tj.jit(lambda x: np.cos(x) * 8)
    f(X)
    assert entries(f) == 1
    assert False in made


def test_text_and_assembly_are_those_of_the_second_tier():
    f = tj.jit(lambda x: np.cos(x) * 9)
    f(X)
    lowered = next(iter(f._state.versions.values())).lowered
    assert "define" in lowered.text("code")
    assert lowered.text("asm") == tj.jit(lambda x: np.cos(x) * 9).lower(X).text("asm")


def results(made: expressions.Group, nodes: list[Any]) -> dict[str, Any]:
    """The results of those expressions that do not fail, by their texts."""
    try:
        found, errors = expressions.run(made, nodes)
    except Exception:
        middle = len(nodes) // 2  # one of them fails when all run
        return results(made, nodes[:middle]) | results(made, nodes[middle:]) if middle else {}
    return {node.text: np.asarray(x) for n, (node, x) in enumerate(zip(nodes, found, strict=True)) if n not in errors}


@pytest.mark.parametrize("seed", range(10))
def test_random_expressions_give_the_same_bits_in_both_tiers(seed: int, monkeypatch: pytest.MonkeyPatch):
    made = expressions.group(7_000_000 + seed, 60)
    monkeypatch.setattr(tiers, "_MOST", math.inf)
    quick = results(made, made.nodes)
    monkeypatch.setattr(config, "tiers", False)
    well = results(made, made.nodes)
    assert quick.keys() == well.keys()
    assert len(quick) > 20
    for text, x in quick.items():
        y = well[text]
        assert x.dtype == y.dtype
        numbers = x == x  # NaN are of any sign
        np.testing.assert_array_equal(x, y, err_msg=text)
        assert x[numbers].tobytes() == y[numbers].tobytes(), text


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_are_right_while_they_rise(seed: int):
    case = programs.program(7_000_000 + seed)
    case.calls = case.calls * 3
    assert harness.verdict(case) is None
