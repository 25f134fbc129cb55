"""Ctrl-C in every kind of loop that compiled code has: it is served soon, and everything works as before afterwards."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
MANY = 10**11  # steps: minutes


def scalar_while(x: Any) -> Any:
    return tj.lax.while_loop(lambda c: c[0] < MANY, lambda c: (c[0] + 1, c[1] * 0.5 + 1.0), (0, x[0]))[1]


def scalar_fori(x: Any) -> Any:
    return tj.lax.fori_loop(0, MANY, lambda i, c: c * 0.5 + 1.0, x[0])


def fori_of_a_length_that_is_known_late(x: Any) -> Any:
    n = (x[0] * 0 + MANY).astype(np.int64)
    return tj.lax.fori_loop(0, n, lambda i, c: c * 0.5 + i, x[0])


def python_range(x: Any) -> Any:
    y = x[:1].copy()
    for _ in tj.range(MANY):
        y[0] = y[0] * 0.5 + 1.0
    return y


def nested_short_in_long(x: Any) -> Any:
    return tj.lax.fori_loop(0, MANY, lambda i, c: tj.lax.fori_loop(0, 3, lambda j, d: d * 0.5 + j, c), x[0])


def nested_unknown(x: Any) -> Any:
    n = (x[0] * 0 + 40_000).astype(np.int64)
    outer = lambda i, c: tj.lax.fori_loop(0, n, lambda j, d: tj.lax.fori_loop(0, n, lambda k, e: e * 0.5 + k, d), c)  # noqa: E731
    return tj.lax.fori_loop(0, n, outer, x[0])


def while_in_while(x: Any) -> Any:
    inner = lambda c: tj.lax.while_loop(lambda d: d < 5.0, lambda d: d + 1.0, c * 0.0)  # noqa: E731
    return tj.lax.while_loop(lambda c: c > -1.0, inner, x[0])


def whole_arrays(x: Any) -> Any:
    return tj.lax.fori_loop(0, MANY, lambda i, u: u * 0.5 + u[::-1], x)


def whole_arrays_while(x: Any) -> Any:
    return tj.lax.while_loop(lambda u: u.sum() > -1.0, lambda u: u * 0.5 + 1.0, x)


def mapped_while(x: Any) -> Any:
    return tj.vmap(lambda a: tj.lax.while_loop(lambda c: c > -1.0, lambda c: c * 0.5 + a, a))(x)


def mapped_fori(x: Any) -> Any:
    return tj.vmap(lambda a: tj.lax.fori_loop(0, MANY, lambda i, c: c * 0.5 + a, a))(x)


def mapped_rows(x: Any) -> Any:
    n = len(x)
    row = lambda a: tj.lax.fori_loop(0, n * n * n * n, lambda i, c: c * 0.5 + a, a)  # noqa: E731
    return tj.vmap(row)(x)


def sums_of_many_pairs(x: Any) -> Any:
    i = np.arange(20_000.0)
    return np.exp(np.sin(x[:, None, None] * i[None, :, None]) - i[None, None, :]).sum(axis=(1, 2))


def one_large_reduction(x: Any) -> Any:
    n = 10 * len(x) ** 2
    return np.sqrt(x[0] + np.arange(n)[:, None] * np.arange(n)[None, :]).sum()


def pairs(x: Any) -> Any:
    return np.sqrt(np.abs(x[:, None] - x[None, :])).sum(axis=1)


def triples(x: Any) -> Any:
    return np.sqrt(x[:, None, None] * x[None, :, None] + x[None, None, :]).sum()


def rows_of_recurrences(x: Any) -> Any:
    step = lambda j, c: c * 0.5 + x[j]  # noqa: E731
    return tj.vmap(lambda a: tj.lax.fori_loop(0, len(x), step, a))(x)


LOOPS = [
    scalar_while, scalar_fori, fori_of_a_length_that_is_known_late, python_range, nested_short_in_long, nested_unknown,
    while_in_while, whole_arrays, whole_arrays_while, mapped_while, mapped_fori, mapped_rows, sums_of_many_pairs,
    one_large_reduction,
]  # fmt: skip


def interrupted(call: Callable[[], Any], seconds: float = 0.3) -> float:
    """When Ctrl-C had its exception. The signal comes from another process, whatever this one is doing.

    It comes again and again: where the garbage collector calls back there is none.
    """
    global _wanted
    with subprocess.Popen(["sh", "-c", f"sleep {seconds}; while kill -INT {os.getpid()}; do sleep 3; done"]) as sender:
        try:
            _wanted = True
            call()
        except KeyboardInterrupt:
            _wanted = False
        else:
            raise AssertionError("the loop ended before the signal, or ignored it")
        finally:
            _wanted = False
            sender.kill()
    return time.monotonic()


_wanted = False
_PATIENCE = 60.0  # seconds, on the busiest machine; a loop that does not look runs for hours


def _interrupt(number: int, frame: Any) -> None:
    if _wanted and frame.f_code.co_name != "gc_callback":  # hypothesis', whose exceptions Python drops with a warning
        raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _handler():
    before = signal.signal(signal.SIGINT, _interrupt)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_ctrl_c_ends_every_kind_of_loop(loop, dynamic):
    f = tj.jit(loop, dynamic_shapes=dynamic)
    x = np.linspace(1.0, 2.0, 600)
    before = x.copy()
    for _ in range(2):  # the first may meet the compiler
        start = time.monotonic()
        assert interrupted(lambda: f(x)) - start < _PATIENCE
        np.testing.assert_array_equal(x, before)
        big = tj.jit(lambda x: np.sqrt(x) + 1)(np.ones((1000, 1000)))  # the pool and the allocator serve as before
        assert (big == 2).all()


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize(("loop", "size"), [(pairs, 1_000_000), (triples, 9_000), (rows_of_recurrences, 1_000_000)])
def test_ctrl_c_ends_loops_over_extents_in_loops_over_extents(loop, size, dynamic):
    f = tj.jit(loop, dynamic_shapes=dynamic)
    x = np.linspace(0.1, 1.0, size)
    for few in (60, 70) if dynamic else ():
        f(x[:few])
    for _ in range(2):
        start = time.monotonic()
        assert interrupted(lambda: f(x)) - start < _PATIENCE
    assert np.isfinite(f(x[:50])).all()


def test_a_handler_that_returns_does_not_disturb_the_loop():
    f = tj.jit(lambda x: tj.lax.fori_loop(0, 400_000_000, lambda i, c: c * 0.5 + 1.0, x))
    seen = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    with subprocess.Popen(["sh", "-c", f"sleep 0.4; kill -INT {os.getpid()}"]):
        assert f(3.0) == 2.0
    assert seen == [signal.SIGINT]


def test_a_program_in_another_thread_lets_the_main_thread_run():
    f = tj.jit(lambda x: tj.lax.fori_loop(0, 800_000_000, lambda i, c: c * 0.5 + 1.0, x))
    results = []
    thread = threading.Thread(target=lambda: results.append(f(3.0)))
    thread.start()
    interrupted(lambda: [time.sleep(0.01) for _ in range(1000)])
    assert thread.is_alive()  # its loop goes on
    thread.join()
    assert results == [2.0]


def test_arguments_that_are_changed_in_place_are_as_they_were():
    def f(u):
        for _ in tj.range(MANY):
            u[1:-1] = 0.5 * (u[:-2] + u[2:]) + 1.0
        return u.sum()

    u = np.linspace(0.0, 1.0, 50)
    g = tj.jit(f)
    for _ in range(2):
        interrupted(lambda: g(u))
        np.testing.assert_array_equal(u, np.linspace(0.0, 1.0, 50))


def test_ctrl_c_does_not_leave_llvmlite_in_the_middle(monkeypatch):
    """llvmlite's strings are freed, and then noted as freed: an exception between would free them again."""
    global _wanted
    from tracejit.backends.cpu.runtime import llvm

    names, seen = llvm._names, []

    def interrupted_here(module: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        seen.append(sum(range(1000)))  # time for a handler to run
        return names(module)

    f = tj.jit(lambda x: x * 3 + 1)
    _wanted = True
    monkeypatch.setattr(llvm, "_names", interrupted_here)
    with pytest.raises(KeyboardInterrupt):
        f(np.ones(3))
    monkeypatch.undo()
    _wanted = False
    assert seen
    assert signal.getsignal(signal.SIGINT) is _interrupt
    assert f(np.ones(3)).tolist() == [4.0] * 3


def test_handlers_wait_and_run_in_order():
    from tracejit.support.signals import undisturbed

    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        with undisturbed():
            with undisturbed():
                os.kill(os.getpid(), signal.SIGUSR1)
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGUSR1)
            assert came == []
        assert came == [signal.SIGUSR1, signal.SIGINT, signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_a_block_raises_comes_through():
    from tracejit.support.signals import undisturbed

    with pytest.raises(ZeroDivisionError), undisturbed():
        print(1 // 0)
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(len(list(_in_block()))))
    thread.start()
    thread.join()
    assert done == [1]


def _in_block():
    from tracejit.support.signals import undisturbed

    with undisturbed():
        yield 1
