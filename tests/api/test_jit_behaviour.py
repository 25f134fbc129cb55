"""What `jit` is as an object and in a process: decorating, threads, forks, pickles, Ctrl-C, its cache,
and write-back into arguments."""

import functools
import gc
import inspect
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import tracejit as tj
import tracejit.ir.text  # loaded late otherwise: Ctrl-C in the middle of an import leaves its file open
from tracejit.support.config import config
from tracejit.support.errors import ConcretizationError, ShapeError, TracejitError, TracerError, UserError, WriteError

ROOT = Path(__file__).resolve().parent.parent.parent


# -- decorating --------------------------------------------------------------------------------------------------------
def test_with_and_without_parentheses():
    @tj.jit
    def f(x: Any) -> Any:
        return x + 1

    @tj.jit()
    def g(x: Any) -> Any:
        return x + 1

    @tj.jit(backend="reference")
    def h(x: Any) -> Any:
        return x + 1

    for function in (f, g, h, tj.jit(lambda x: x + 1)):
        np.testing.assert_array_equal(function(np.zeros(2)), [1, 1])


class Model:
    scale = 2.0

    def __init__(self, w: Any) -> None:
        self.w = w

    @tj.jit
    def apply(self, x: Any) -> Any:
        """Scaled."""
        return self.w * x

    @classmethod
    @tj.jit
    def made(cls, x: Any) -> Any:
        return cls.scale * x

    @staticmethod
    @tj.jit
    def plain(x: Any, y: float = 3.0) -> Any:
        return x * y

    @property
    @tj.jit
    def doubled(self) -> Any:
        return self.w * 2


class Wider(Model):
    scale = 4.0


def test_methods_of_every_kind():
    a, b, x = Model(np.array([1.0, 2.0])), Model(np.array([10.0, 20.0])), np.ones(2)
    for _ in range(3):
        np.testing.assert_array_equal(a.apply(x), [1, 2])
        np.testing.assert_array_equal(b.apply(x), [10, 20])
        np.testing.assert_array_equal(Model.apply(a, x), [1, 2])
        np.testing.assert_array_equal(Model.made(x), [2, 2])
        np.testing.assert_array_equal(Wider.made(x), [4, 4])
        np.testing.assert_array_equal(a.plain(x), [3, 3])
        np.testing.assert_array_equal(a.plain(x, y=5.0), [5, 5])
        np.testing.assert_array_equal(a.doubled, [2, 4])
    assert a.apply.__doc__ == "Scaled."
    assert a.apply.__name__ == "apply"
    assert a.apply.__self__ is a


def test_partials_and_callable_objects():
    class Adder:
        def __init__(self, y: Any) -> None:
            self.y = y

        def __call__(self, x: Any) -> Any:
            return x + self.y

    f = tj.jit(functools.partial(lambda y, x: x + y, 2.0))
    g = tj.jit(Adder(np.array([1.0, 2.0])))
    for _ in range(2):
        np.testing.assert_array_equal(f(np.zeros(2)), [2, 2])
        np.testing.assert_array_equal(g(np.zeros(2)), [1, 2])
    assert repr(g)


def test_signature_doc_and_name_stay():
    def f(x: np.ndarray, *more: float, scale: int = 2, **rest: str) -> np.ndarray:
        """What f does."""
        return x

    jitted = tj.jit(f)
    assert inspect.signature(jitted) == inspect.signature(f)
    assert (jitted.__name__, jitted.__qualname__, jitted.__doc__, jitted.__module__) == (
        f.__name__,
        f.__qualname__,
        f.__doc__,
        f.__module__,
    )
    assert jitted.__wrapped__ is f
    assert jitted.__annotations__ == f.__annotations__
    assert repr(jitted) == f"<tj.jit of {f.__qualname__!r}>"


def test_every_kind_of_parameter():
    @tj.jit
    def f(a: Any, /, b: Any, *more: Any, c: Any = 10.0, **rest: Any) -> Any:
        return a + 2 * b + sum(3 * m for m in more) + 4 * c + sum(v * len(k) for k, v in rest.items())

    def plain(a: Any, /, b: Any, *more: Any, c: Any = 10.0, **rest: Any) -> Any:
        return a + 2 * b + sum(3 * m for m in more) + 4 * c + sum(v * len(k) for k, v in rest.items())

    x = np.arange(3.0)
    for _ in range(2):
        for args, kwargs in (
            ((x, 1), {}),
            ((x, x), {"c": 2.0}),
            ((x, 1, 2.0, x), {"c": x, "long": 1.0, "k": x}),
            ((1,), {"b": x}),
        ):
            np.testing.assert_allclose(f(*args, **kwargs), plain(*args, **kwargs))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        f(x)
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: .a."):
        f(a=x, b=x)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, "tj.jit wants a function, not int"),
        (staticmethod(len), "put @staticmethod or @classmethod above @tj.jit, not below it"),
        (
            (i for i in ()).__next__ and (lambda: (yield)),
            "tj.jit cannot compile generator or coroutine functions; return arrays instead of yielding them",
        ),
    ],
)
def test_refuses_what_is_no_function(wrong: Any, message: str):
    with pytest.raises(UserError) as error:
        tj.jit(wrong)
    assert str(error.value) == message


# -- processes ---------------------------------------------------------------------------------------------------------
def test_pickles_by_value():
    y = np.array([1.0, 2.0])

    @tj.jit
    def f(x: Any) -> Any:
        return x + y

    f(np.zeros(2))
    g = pickle.loads(cloudpickle.dumps(f))
    np.testing.assert_array_equal(g(np.ones(2)), [2, 3])
    assert g.compilations == 1


def test_runs_in_spawned_processes():
    f = tj.jit(lambda x: (np.sin(x) ** 2 + np.cos(x) ** 2).sum())
    payload = cloudpickle.dumps(f)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_unpickled, (payload, 1000)) == pytest.approx(1000)


def _unpickled(payload: bytes, n: int) -> float:
    return float(pickle.loads(payload)(np.arange(float(n))))


def python(source: str, timeout: float = 120) -> str:
    """Run a program that must end by itself; its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_works_after_fork():
    out = python(
        """
import os, numpy as np, tracejit as tj
f = tj.jit(lambda x: (np.sin(x) ** 2).sum())
x = np.random.rand(2_000_000)
want = f(x)
pid = os.fork()
if pid == 0:
    same = f(x) == want
    new = np.allclose(tj.jit(lambda x: x * 3)(x), x * 3)
    os._exit(0 if same and new else 3)
print(os.waitpid(pid, 0)[1], f(x) == want)
"""
    )
    assert out == "0 True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_during_a_compilation_leaves_no_lock_held():
    out = python(
        """
import os, threading, time, numpy as np, tracejit as tj
inside = threading.Event()
def slow(x):
    inside.set()
    time.sleep(0.3)
    return x + 1
f = tj.jit(slow)
t = threading.Thread(target=f, args=(np.ones(3),))
t.start()
inside.wait()
pid = os.fork()
if pid == 0:
    ok = np.array_equal(f(np.ones(3)), [2, 2, 2]) and np.array_equal(f(np.ones((2, 2))), [[2, 2], [2, 2]])
    os._exit(0 if ok else 3)
t.join()
print(os.waitpid(pid, 0)[1], f.compilations)
""",
        timeout=60,
    )
    assert out == "0 1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("inner", ["1", "tj.jit(lambda y: y * k)(x)"])
def test_a_fork_waits_for_no_thread_that_waits_for_it(inner: str):
    """Threads that compile all the time, each in need of LLVM, and of new functions,
    while it holds its own function."""
    out = python(
        f"""
import os, threading, time, numpy as np, tracejit as tj
x = np.ones(3)
tj.jit(lambda x: x + 1)(x)
done = []
def work(k):
    while not done:
        assert tj.jit(lambda x: x * k + {inner})(x).shape == (3,)
threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
for t in threads:
    t.start()
codes, longest = [], 0.0
for _ in range(5):
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if tj.jit(lambda x: x * 3)(x)[0] == 3 else 3)
    longest = max(longest, time.monotonic() - began)
    codes.append(os.waitpid(pid, 0)[1])
done.append(True)
for t in threads:
    t.join()
print(codes, longest < 9)  # a lock that is not to be had is given up after ten seconds
""",
        timeout=60,
    )
    assert out == "[0, 0, 0, 0, 0] True"


# -- threads -----------------------------------------------------------------------------------------------------------
def test_threads_that_call_one_function_compile_it_once():
    @tj.jit
    def f(x: Any) -> Any:
        return np.exp(x) * 2 + x.sum()

    start, wrong = threading.Barrier(16), []

    def work(seed: int) -> None:
        start.wait()
        for k in range(30):
            x = np.full(50, 0.01 * (seed + k))
            if not np.allclose(f(x), np.exp(x) * 2 + x.sum()):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert f.compilations == 1


def test_threads_that_compile_for_different_arguments_do_not_disturb_each_other():
    @tj.jit
    def f(x: Any, y: Any) -> Any:
        return x * 2 + y

    start, wrong = threading.Barrier(8), []
    dtypes = [np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8, np.float16, np.bool_]

    def work(n: int) -> None:
        start.wait()
        for k in range(1, 20):
            x = np.ones(k % 5 + 2, dtypes[n])
            got, want = f(x, k), x * 2 + k
            if got.dtype != want.dtype or not np.array_equal(got, want):
                wrong.append((n, k))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert f.compilations <= 16


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------
def interrupted(call: Callable[[], Any]) -> float:
    """Seconds from Ctrl-C until the call stopped.

    Without the garbage collector, whose callbacks (hypothesis has one) would swallow it; and sent again after two
    seconds."""
    sent: list[float] = []
    gc.disable()
    # a shell's background jobs are started with the signal ignored
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    stopped = threading.Event()

    def send() -> None:
        wait = 0.3
        while not stopped.wait(wait):
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
            wait = 2.0

    thread = threading.Thread(target=send)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        return time.perf_counter() - sent[-1]
    finally:
        stopped.set()
        thread.join()
        signal.signal(signal.SIGINT, handler)
        gc.enable()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("size", [4, 50_000])
def test_ctrl_c_stops_a_loop(size: int):
    @tj.jit
    def f(x: Any) -> Any:
        return tj.lax.fori_loop(0, 10**9, lambda i, c: np.sin(c) + 1, x)

    for _ in range(3):  # the first call comes from Python, later ones from the native entry
        assert interrupted(lambda: f(np.zeros(size))) < 2
    np.testing.assert_array_equal(tj.jit(lambda x: x + 1)(np.zeros(2)), [1, 1])


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_leaves_arguments_as_they_were():
    @tj.jit
    def f(x: Any) -> None:
        for _ in tj.range(10**9):
            x += 1

    x = np.zeros(1000)
    for _ in range(2):
        interrupted(lambda: f(x))
        np.testing.assert_array_equal(x, np.zeros(1000))


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_while_tracing_leaves_no_trace_behind():
    calls: list[int] = []

    @tj.jit
    def f(x: Any) -> Any:
        calls.append(1)
        while len(calls) == 1:
            sum(range(1000))  # of Python's: one of arrays would become a loop of the program
        return x

    assert interrupted(lambda: f(np.zeros(2))) < 2
    assert f.compilations == 0
    np.testing.assert_array_equal(f(np.zeros(2)), [0, 0])


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_is_not_lost_in_the_garbage_collector():
    """Functions that were dropped are collected while others are traced:
    no callback of ours may swallow the signal there."""
    program = """
import os, signal, sys, threading, time
import numpy as np
import tracejit as tj

signal.signal(signal.SIGINT, signal.default_int_handler)
lost = []
def note(error):
    lost.append(repr(error.object))
    print("lost in", error.object, error.exc_value)
sys.unraisablehook = note
import tracejit.ir.text
tj.jit(lambda x: x + 1)(np.zeros(2))  # loads what is loaded late
for n in range(25):
    traced, start = [], time.monotonic()

    @tj.jit
    def f(x):
        traced.append(1)
        while time.monotonic() < start + 10:
            x = x + 1
        return x

    timer = threading.Timer(0.05 + 0.005 * n, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        timer.start()
        f(np.zeros(2))
        # what is raised in an import's own callback is dropped by Python
        if not any("_get_module_lock" in where for where in lost):
            sys.exit("Ctrl-C was lost")
        lost.clear()
    except KeyboardInterrupt:
        timer.join()
print("stopped every time")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "stopped every time\n", done.stdout


# -- exceptions and nesting
# ---------------------------------------------------------------------------------------------------------------
def test_an_exception_while_tracing_leaves_the_function_usable():
    fail = [True]

    @tj.jit(redirect=False)
    def f(x: Any) -> Any:
        y = x * 2
        if fail[0]:
            raise ZeroDivisionError("mine")
        return y + 1

    kept = []
    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="mine") as error:
            f(np.ones(2))
        kept.append(error)
    assert f.compilations == 0
    fail[0] = False
    np.testing.assert_array_equal(f(np.ones(2)), [3, 3])


@pytest.mark.parametrize("how", ["fori_loop", "while_loop", "cond", "scan", "range", "grad", "vmap", "jit"])
def test_an_exception_inside_nested_tracing_leaves_no_interpreter_behind(how: str):
    def bad(*_: Any) -> Any:
        raise ZeroDivisionError("mine")

    def run(x: Any) -> Any:
        match how:
            case "fori_loop":
                return tj.lax.fori_loop(0, 3, bad, x)
            case "while_loop":
                return tj.lax.while_loop(lambda c: c[0] < 3, bad, x)
            case "cond":
                return tj.lax.cond(x[0] > 0, bad, bad, x)
            case "scan":
                return tj.lax.scan(bad, x, x)
            case "range":
                for _ in tj.range(3):
                    bad()
                return x
            case "grad":
                return tj.grad(bad)(x)
            case "vmap":
                return tj.vmap(bad)(x)
            case _:
                return tj.jit(bad)(x)

    f, good = tj.jit(run), tj.jit(lambda x: x + 1)
    kept = []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="mine") as error:
            f(np.ones(3))
        kept.append(error)  # its traceback holds the frames of the trace
        np.testing.assert_array_equal(good(np.ones(2)), [2, 2])
        assert isinstance(np.sin(np.ones(2)), np.ndarray)
        assert isinstance(tj.numpy.ones(3), tj.Array)
    kept.clear()
    gc.collect()
    assert isinstance(tj.numpy.ones(3), tj.Array)
    np.testing.assert_array_equal(tj.jit(lambda x: x * 2)(np.ones(2)), [2, 2])


def test_jit_inside_jit_and_transformations():
    @tj.jit
    def inner(x: Any) -> Any:
        return x * x

    @tj.jit
    def outer(x: Any) -> Any:
        return inner(x) + inner(x + 1)

    x = np.arange(3.0)
    for _ in range(2):
        np.testing.assert_allclose(outer(x), x * x + (x + 1) ** 2)
        np.testing.assert_allclose(inner(x), x * x)
        np.testing.assert_allclose(tj.grad(lambda x: inner(x).sum())(x), 2 * x)
        np.testing.assert_allclose(tj.jit(tj.grad(lambda x: outer(x).sum()))(x), 4 * x + 2)
        np.testing.assert_allclose(tj.vmap(inner)(x), x * x)
    assert outer.compilations == 1


def test_a_compiled_function_called_in_a_trace_on_a_captured_array_is_part_of_it():
    w = np.ones(3)
    inner = tj.jit(lambda w: w * 2)
    inner(w)
    outer = tj.jit(lambda x: x + inner(w))
    np.testing.assert_array_equal(outer(np.zeros(3)), [2, 2, 2])
    w[:] = 5
    np.testing.assert_array_equal(outer(np.zeros(3)), [10, 10, 10])


def test_recursion_that_ends_on_python_values():
    @tj.jit
    def power(x: Any, n: int) -> Any:
        return np.ones_like(x) if n == 0 else x * power(x, n - 1)

    @tj.jit
    def halves(x: Any) -> Any:
        return x[0] if x.shape[0] == 1 else halves(x[: x.shape[0] // 2]) + halves(x[x.shape[0] // 2 :])

    for _ in range(2):
        np.testing.assert_allclose(power(np.array([2.0, 3.0]), 5), [32, 243])
        assert halves(np.arange(8.0)) == 28
        assert halves(np.arange(5.0)) == 10


def test_recursion_without_end():
    @tj.jit
    def f(x: Any) -> Any:
        return f(x) + 1

    with pytest.raises(UserError) as error:
        f(np.ones(3))
    assert error.value.message == (
        "f called itself, or others each other, until Python's recursion limit while it was traced: the recursion has "
        "to end on Python "
        "values such as shapes; where it ends on the values of arrays use tj.lax.while_loop"
    )
    np.testing.assert_array_equal(tj.jit(lambda x: x + 1)(np.ones(1)), [2])


def test_recursion_on_the_value_of_an_array_names_the_branch():
    @tj.jit
    def f(x: Any) -> Any:
        return x if x.sum() > 10 else f(x + 1)

    with pytest.raises(ConcretizationError, match="data cannot say how deep a recursion goes"):
        f(np.ones(3))


# -- the cache ---------------------------------------------------------------------------------------------------------
def test_one_size_after_another_compiles_twice():
    @tj.jit
    def f(x: Any) -> Any:
        return (x * 2).sum() + x.shape[0]

    for n in range(2, 200):
        assert f(np.ones(n)) == 3 * n
    assert f.compilations == 2
    text = f.explain()
    assert text.startswith("version 0: f64[2]\n")
    assert "version 1: f64[n0]" in text


def lower_half(x: Any) -> Any:
    y = x.copy()
    y[: x.shape[0] // 2] = 0
    return y


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x.shape[0] // 2 :] + 1,
        lambda x: x[: x.shape[0] // 2] * 2,
        lambda x: x[x.shape[0] // 3 : 2 * x.shape[0] // 3],
        lambda x: x[x.shape[0] // 2 :: -1],
        lambda x: x[x.shape[0] // 2] + x[-(x.shape[0] // 2)],
        lambda x: [x[::2] * 2, x[1::2], x[::-2], x[-1 : x.shape[0] // 2 : -3]],
        lambda x: np.roll(x, x.shape[0] // 2),
        lambda x: np.roll(x, -(x.shape[0] // 2)),
        lambda x: np.roll(np.stack([x, x]), (1, (x.shape[0] + 1) // 2), (0, 1)),
        lambda x: np.roll(x[-(x.shape[0] // 2) : (x.shape[0] + 1) // 2 : -2], 3),  # nothing
        lambda x: np.concatenate([x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]),
        lambda x: np.concatenate([x[: (x.shape[0] + 1) // 2] * 2, x[(x.shape[0] + 1) // 2 :]]) + x,
        lambda x: x[: x.shape[0] // 4 * 4].reshape(-1, 4).sum(axis=1),
        lambda x: np.pad(x, (0, -x.shape[0] % 4)),
        lower_half,
    ],
)
def test_halves_and_remainders_of_an_extent_compile_once_for_all_sizes(function: Any):
    f = tj.jit(function)
    for n in range(5, 41):
        x = np.cos(np.arange(n))
        for got, want in zip(*[r if isinstance(r, list) else [r] for r in (f(x), function(x))], strict=True):
            np.testing.assert_array_equal(got, want, strict=True)
    assert f.compilations == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :],
        lambda x: x[::2] - x[1::2],
        lambda x: x.reshape(-1, 2).sum(axis=1),
    ],
)
def test_halves_that_are_equal_for_even_extents_only_are_refused_for_odd_ones(function: Any):
    f = tj.jit(function)
    for n in range(4, 24):
        x = np.cos(np.arange(n))
        if n % 2 == 0:
            np.testing.assert_array_equal(f(x), function(x))
        else:
            with pytest.raises(ShapeError):
                f(x)
    assert f.compilations == 2
    assert "f64[2*n0]" in f.explain()


def by_parity(x: Any) -> Any:
    return x[: x.shape[0] // 2] * x[x.shape[0] // 2 :] if x.shape[0] % 2 == 0 else x[x.shape[0] // 2]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_branch_on_the_parity_of_an_extent_compiles_once_for_each(backend: str):
    f = tj.jit(by_parity, backend=backend)
    for n in (5, 6, 7, 8, 9, 31, 4, 12, 64, 33, 100, 11):
        for x in (np.cos(np.arange(n)), np.cos(np.arange(2 * n))[::2]):
            np.testing.assert_array_equal(f(x), by_parity(x))
    assert f.compilations == 6  # in both layouts: one size, then even and odd ones


def test_remainders_of_several_extents_are_told_apart():
    def blocks(x: Any, y: Any) -> Any:
        rows, columns = x.shape
        parts = x.reshape(rows // 2, 2, columns // 3, 3).sum(axis=(1, 3))
        y[: rows // 2] += y[rows // 2 :]
        return [parts, *np.array_split(y, 4)]

    f = tj.jit(blocks)
    for n, m in ((6, 9), (8, 12), (10, 12), (16, 6), (40, 60), (12, 33), (6, 9), (64, 6)):
        x, y = np.cos(np.arange(n * m)).reshape(n, m), np.arange(float(n))
        mine, theirs = y.copy(), y.copy()
        for got, want in zip(f(x, mine), blocks(x, theirs), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-14)
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ShapeError):
        f(np.ones((8, 10)), np.ones(8))
    with pytest.raises(ShapeError):
        f(np.ones((7, 9)), np.ones(7))


def test_gradients_of_halves_serve_all_even_sizes():
    slope = tj.jit(tj.grad(lambda x: (x[: x.shape[0] // 2] * x[x.shape[0] // 2 :]).sum()))
    for n in range(6, 40, 2):
        x = np.cos(np.arange(n))
        np.testing.assert_array_equal(slope(x), np.roll(x, n // 2))
    assert slope.compilations == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int32, np.uint64])
def test_an_extent_is_a_python_number_whether_it_is_symbolic_or_not(dtype: Any):
    for function in (
        lambda x: x + x.shape[0],
        lambda x: x.shape[0] * 2 - x,
        lambda x: x % x.shape[0],
        lambda x: np.maximum(x, x.shape[0] - 3),
        lambda x: x @ x / x.size,
        lambda x: x * (x.shape[0] * x.shape[0]),
        lambda x: np.where(x > 1, x, x.shape[0]),
        lambda x: x + np.array(x.shape[0]),
        lambda x: tj.vmap(lambda v: v * x.shape[0])(x),
    ):
        f = tj.jit(function)
        for n in (3, 4, 5):
            x = np.arange(n).astype(dtype)
            got, want = np.asarray(f(x)), np.asarray(f.__wrapped__(x))
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-3)
        assert f.compilations == 2


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "cache_size", 4)

    @tj.jit(dynamic_shapes=False)
    def f(x: Any) -> Any:
        return x + x.shape[0]

    for _ in range(2):
        for n in range(2, 12):
            np.testing.assert_array_equal(f(np.zeros(n)), np.full(n, n))
    state = f._state  # type: ignore[attr-defined]
    assert len(state.versions) == 4
    assert len(f._dispatcher) <= 4  # type: ignore[attr-defined]
    assert len(state.last) <= 4


def test_versions_that_left_the_dispatcher_come_back():
    """The dispatcher holds 64 entries, the cache 128 versions: a call of one
    that only the cache has makes its entry anew."""

    @tj.jit(dynamic_shapes=False)
    def f(x: Any) -> Any:
        return x + 1

    for n in range(2, 75):
        f(np.zeros(n))
    assert f.compilations == 73
    f(np.zeros(2))
    f._state.function = None  # type: ignore[attr-defined]
    before = f._state.versions  # type: ignore[attr-defined]
    f._state.versions = {}  # type: ignore[attr-defined]
    np.testing.assert_array_equal(f(np.zeros(2)), [1, 1])
    f._state.versions = before  # type: ignore[attr-defined]


def test_clear_cache_forgets_everything():
    @tj.jit
    def f(x: Any) -> Any:
        return x + 1

    for n in (1, 2):
        f(np.zeros(2))
        assert f.compilations == n
        f.clear_cache()
        assert f.explain() == "nothing is compiled yet"


def test_a_function_that_nobody_holds_is_collected():
    y = np.ones(100)

    def make() -> Any:
        f = tj.jit(lambda x: x + y)
        f(np.ones(100))
        return weakref.ref(f), weakref.ref(f._state)  # type: ignore[attr-defined]

    function, state = make()
    gc.collect()
    assert function() is None
    assert state() is None


def test_many_values_of_a_static_argument_warn():
    @tj.jit
    def f(x: Any, n: int) -> Any:
        return x.reshape(n, -1).sum(axis=1)

    x = np.arange(2520.0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(1, 11):
            np.testing.assert_allclose(f(x, n), x.reshape(n, -1).sum(axis=1))
    messages = [str(w.message) for w in seen]
    assert len(messages) == 1
    assert messages[0].startswith("f was compiled for 8 values of argument 2, whose value its trace needs")
    assert "specialised on the value of argument 2" in f.explain()


# -- write-back --------------------------------------------------------------------------------------------------------
def shift(x: Any) -> Any:
    x[1:] += x[:-1] * 2
    return x.sum()


LAYOUTS: dict[str, Callable[[], Any]] = {
    "C": lambda: np.arange(6.0),
    "strided": lambda: np.arange(12.0)[::2],
    "reversed": lambda: np.arange(6.0)[::-1],
    "big-endian": lambda: np.arange(6.0).astype(">f8"),
    "misaligned": lambda: _misaligned(np.arange(6.0)),
    "float32": lambda: np.arange(6, dtype=np.float32),
    "int": lambda: np.arange(6),
    "empty": lambda: np.zeros(0),
    "one": lambda: np.ones(1),
    "rows": lambda: np.arange(24.0).reshape(6, 4),
    "columns": lambda: np.arange(24.0).reshape(4, 6).T,
    "strided view": lambda: np.arange(96.0).reshape(12, 8)[::2, 1::3],
}


def _misaligned(x: np.ndarray) -> np.ndarray:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    made = raw[1:].view(x.dtype).reshape(x.shape)
    made[...] = x
    assert not made.flags.aligned
    return made


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_changed_arguments_are_written_back(layout: str, backend: str):
    f = tj.jit(shift, backend=backend) if backend != "cpu" else tj.jit(shift)
    got, want = LAYOUTS[layout](), LAYOUTS[layout]()
    for _ in range(3):
        result, expected = f(got), shift(want)
        np.testing.assert_allclose(result, expected)
        np.testing.assert_allclose(got, want)
        assert got.dtype == want.dtype


def test_write_back_is_native():
    f = tj.jit(shift)
    f(np.ones(3))
    f._state.versions = None  # type: ignore[attr-defined]  (a call that misses would fail)
    x = np.arange(3.0)
    f(x)
    np.testing.assert_array_equal(x, [0, 1, 4])


def test_several_arguments_and_containers_are_written_back():
    def f(state: dict[str, Any], steps: Any) -> Any:
        state["x"][:] += state["v"] * steps
        state["v"] *= 0.5
        return state["x"] + 1

    got = {"x": np.arange(3.0), "v": np.ones(3)}
    want = {"x": np.arange(3.0), "v": np.ones(3)}
    jitted = tj.jit(f)
    for _ in range(3):
        np.testing.assert_allclose(jitted(got, 2.0), f(want, 2.0))
        for k in got:
            np.testing.assert_allclose(got[k], want[k])


def test_returned_arguments_are_new_arrays():
    f = tj.jit(shift_and_return)
    x = np.ones(3)
    for _ in range(2):
        y = f(x)
        np.testing.assert_array_equal(x, y)
        assert not np.shares_memory(x, y)


def shift_and_return(x: Any) -> Any:
    x[0] += 1
    return x


def test_read_only_arguments_fail_before_anything_runs():
    @tj.jit
    def f(x: Any, y: Any) -> None:
        x[0] = 1
        y[0] = 1

    x, y = np.zeros(3), np.zeros(3)
    y.flags.writeable = False
    for _ in range(2):
        with pytest.raises(WriteError) as error:
            f(x, y)
        assert error.value.message == (
            "the function changes argument 2 of f in place, but that array is read-only; pass a copy (x.copy()), or "
            "have the function work "
            "on a copy and return it"
        )
        assert isinstance(error.value, ValueError)
        np.testing.assert_array_equal(x, [0, 0, 0])
        f(x.copy(), y.copy())


def test_arrays_that_overlap_themselves_are_refused():
    @tj.jit
    def f(x: Any) -> None:
        x += 1

    with pytest.raises(WriteError, match="elements of that array share memory"):
        f(np.lib.stride_tricks.as_strided(np.zeros(5), (3, 3), (8, 8)))


def into(out: Any, x: Any) -> None:
    out[:] = x * 2


def both(x: Any, y: Any) -> None:
    x += y
    y[0] = x[-1]


def test_overlapping_arguments_where_the_order_does_not_matter():
    f = tj.jit(into)
    for _ in range(2):
        got, want = np.arange(6.0), np.arange(6.0)
        f(got[1:], got[:-1])
        into(want[1:], want[:-1])
        np.testing.assert_array_equal(got, want)
        f(got, got)
        into(want, want)
        np.testing.assert_array_equal(got, want)


def test_one_array_given_twice_is_one_array():
    f = tj.jit(both)
    for _ in range(2):
        got, want = np.arange(1.0, 5.0), np.arange(1.0, 5.0)
        f(got, got)
        both(want, want)
        np.testing.assert_array_equal(got, want)
        x, y, u, v = np.ones(3), np.arange(3.0), np.ones(3), np.arange(3.0)
        f(x, y)
        both(u, v)
        np.testing.assert_array_equal(x, u)
        np.testing.assert_array_equal(y, v)


def test_overlap_in_part_is_refused_where_the_order_matters():
    f = tj.jit(both)
    x = np.arange(5.0)
    for _ in range(2):
        with pytest.raises(WriteError) as error:
            f(x[:-1], x[1:])
        assert error.value.message == (
            "argument 1 of both and argument 2 of both overlap in memory, and the function changes one before it is "
            "done with the other; "
            "pass a copy of one of them (x.copy())"
        )
        np.testing.assert_array_equal(x, np.arange(5.0))
        f(x[:2].copy(), x[2:4].copy())
    # Interleaved, without a common element.
    got, want = np.arange(6.0), np.arange(6.0)
    f(got[::2], got[1::2])
    both(want[::2], want[1::2])
    np.testing.assert_array_equal(got, want)


def test_a_view_read_after_the_change_counts():
    def f(x: Any, y: Any) -> Any:
        tail = y[1:]
        x[:] = 0
        return tail + 1

    jitted = tj.jit(f)
    got, want = np.arange(4.0), np.arange(4.0)
    np.testing.assert_array_equal(jitted(got, got), f(want, want))
    np.testing.assert_array_equal(got, want)


def test_an_argument_that_is_also_a_captured_array():
    w = np.arange(3.0)

    def f(x: Any) -> Any:
        x[:] = x * 2
        return w + 1

    jitted = tj.jit(f)
    np.testing.assert_array_equal(jitted(np.ones(3)), w + 1)
    with pytest.raises(WriteError, match="argument 1 of f and an array that f reads from outside overlap"):
        jitted(w)
    np.testing.assert_array_equal(w, np.arange(3.0))


def test_writeback_false_refuses():
    @tj.jit(writeback=False)
    def f(x: Any) -> Any:
        y = x.copy()
        y[0] = 1
        return y

    @tj.jit(writeback=False)
    def g(x: Any) -> None:
        x[0] = 1

    np.testing.assert_array_equal(f(np.zeros(2)), [1, 0])
    with pytest.raises(WriteError) as error:
        g(np.zeros(2))
    assert (
        error.value.message
        == "g changes its argument 1 in place, which writeback=False refuses; copy it first (x = x.copy())"
    )
    assert "x[0] = 1" in str(error.value)


@pytest.mark.parametrize("number", [3.0, np.float64(3)])
def test_numbers_cannot_be_changed(number: Any):
    @tj.jit
    def f(x: Any) -> None:
        x[...] = 1

    with pytest.raises(TracerError, match="a number has no elements to change, in NumPy neither"):
        f(number)


def test_an_exception_in_the_function_changes_no_argument():
    @tj.jit
    def f(x: Any) -> None:
        x += 1
        raise ZeroDivisionError

    x = np.zeros(3)
    with pytest.raises(ZeroDivisionError):
        f(x)
    np.testing.assert_array_equal(x, np.zeros(3))


def test_errors_are_of_one_tree():
    with pytest.raises(TracejitError):
        tj.jit(3)  # type: ignore[call-overload]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_results_that_are_python_numbers_in_python_are_python_numbers(backend: str):
    @tj.jit(backend=backend)
    def step(x: Any, t: Any) -> Any:
        return (
            x * 0.5 + t,
            {"next": t + 1, "half": t / 2, "late": t > 3, "same": t, "float": float(x.sum())},
            np.sum(x) * t,
        )

    x, t = np.ones(3, np.float32), 0
    for k in range(6):  # the first call, compiled for its sizes; then the native entry
        wanted = step.__wrapped__(x, t)
        found = step(x, t)
        np.testing.assert_array_equal(found[0], wanted[0], strict=True)
        assert {key: (type(v), v) for key, v in found[1].items()} == {key: (type(v), v) for key, v in wanted[1].items()}
        assert type(found[2]) is np.float32
        x, t = found[0], found[1]["next"]
        assert t == k + 1
    assert x.dtype == np.float32


def test_what_failed_before_a_loop_ends_it():
    """The number that a `while` waits for may be one that an index out of range would have read."""

    def wait(x, i):
        s, n = x[i], 0
        while s != 7.0:
            s = 7.0 if s == 3.0 else s
            n += 1
        return n

    waiting = tj.jit(wait)
    assert waiting(np.array([7.0, 1.0, 3.0]), 2) == 1
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        waiting(np.array([7.0, 1.0, 3.0]), 5)
