"""`Multicore`: parts of a kernel on several threads at once, the same results for any number of them, and arrays that
lie in memory which the host shares.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.backends.plain_c import PlainC
from tracejit.backends.base import Backend
from tracejit.backends.cpu.backend import CPUBackend
from tracejit.backends.multicore import Multicore, shared_out
from tracejit.backends.reference.backend import ReferenceBackend
from tracejit.backends.registry import get_backend, temporary_backend
from tracejit.ir.check_program import check_program
from tracejit.ir.program import CountedLoop, Launch, walk_steps
from tracejit.support.errors import BackendUnavailable, UnsupportedError, UserError

X = np.random.default_rng(0).random(300_000)


def elements(x: Any) -> Any:
    return np.exp(x) * 2 + 1


def folds(x: Any) -> Any:
    return x.sum(), x.max(), x.reshape(100, -1).sum(0), x.reshape(-1, 100).sum(1), x.argmin()


def in_order(x: Any) -> Any:
    return np.cumsum(x), np.sort(x)[:10], np.bincount((x * 9).astype("i8"), x, 9)


def loops(x: Any) -> Any:
    for i in range(3):
        x = np.sin(x) + x[: 1000 * (i + 1)].sum()
        if x.max() > 3e3:
            x = x / 2
    while x.min() < 1e9:
        x = x * x + 2
    return x


def products(x: Any) -> Any:
    a = x[:90_000].reshape(300, 300)
    return a @ a.T, a @ a[0]


FUNCTIONS = (elements, folds, in_order, loops, products)


@contextmanager
def made(threads: int, backend: type[Backend] = PlainC, devices: int = 1) -> Iterator[str]:
    with temporary_backend(Multicore(backend(), threads=threads, devices=devices)) as name:
        yield name


def leaves(x: Any) -> Sequence[Any]:
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_numpys_and_the_same_for_any_number_of_threads(function: Callable[..., Any]):
    want, before = function(X), None
    for threads in (1, 2, 5):
        with made(threads) as name:
            found = leaves(tj.jit(function, backend=name)(X))
        for got, w in zip(found, leaves(want), strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-11)
        if before is not None:
            assert all(np.array_equal(a, b) for a, b in zip(found, before, strict=True))
        before = found


def test_sizes_that_are_not_known():
    with made(3) as name:
        f = tj.jit(lambda x: (x * 2 - 1, x.sum(), np.cumsum(x)), backend=name, dynamic_shapes=True)
        for n in (0, 1, 5, 1000, 60_001, 200_000):
            x = X[:n]
            for got, want in zip(f(x), (x * 2 - 1, x.sum(), np.cumsum(x)), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-11, err_msg=str(n))


class Meeting(PlainC):
    """Its first two launches wait for each other, which two threads can do and one cannot."""

    def compile(self, program: Any) -> Any:
        found = super().compile(program)
        launch, barrier, left = found.launch, threading.Barrier(2, timeout=60), [1, 2]

        def meet(*args: Any) -> None:
            if left:
                left.pop()
                barrier.wait()
            launch(*args)

        found.launch = meet  # type: ignore[method-assign]
        return found


def test_parts_of_a_kernel_run_at_the_same_time():
    with made(2, Meeting) as name:
        np.testing.assert_allclose(tj.jit(elements, backend=name)(X), elements(X))


class Failing(PlainC):
    """Its third launch fails."""

    begun = ended = 0

    def compile(self, program: Any) -> Any:
        found = super().compile(program)
        launch = found.launch

        def fail(*args: Any) -> None:
            Failing.begun += 1
            if Failing.begun == 3:
                raise RuntimeError("the third")
            launch(*args)
            Failing.ended += 1

        found.launch = fail  # type: ignore[method-assign]
        return found


def test_what_a_part_raises_is_raised_once_all_have_ended():
    with made(3, Failing) as name:
        f = tj.jit(elements, backend=name)
        with pytest.raises(RuntimeError, match="the third"):
            f(X)
        assert Failing.ended == Failing.begun - 1
        np.testing.assert_allclose(f(X), elements(X))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    with made(3) as name:
        f = tj.jit(elements, backend=name)
        f(X)
        child = os.fork()
        if child == 0:
            os._exit(0 if np.allclose(f(X), elements(X)) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_shared_program_is_one_for_any_backend():
    with made(2) as name:
        program = tj.jit(loops, backend=name).lower(X).program
    shared = shared_out(program, 8)
    check_program(shared)
    parts = [s for s in walk_steps(shared.steps) if isinstance(s, CountedLoop) and s.count == 8]
    assert len(parts) > 3
    assert all(isinstance(step, Launch) for s in parts for step in s.body)
    (out,) = PlainC().compile(shared).run([X], {})  # the parts in order
    np.testing.assert_allclose(out, loops(X), rtol=1e-11)


def test_arrays_lie_in_memory_that_the_host_shares():
    assert list(tj.devices("plain_c")) == ["plain_c:0", "plain_c:1"]
    x = tj.device_put(X, "plain_c:1")
    assert x.device == "plain_c:1"
    assert not np.shares_memory(np.asarray(x), X)  # which its owner may change
    f = tj.jit(lambda x: (x * 2, x[::3]))
    y, part = f(x)
    assert y.device == part.device == "plain_c:1"
    np.testing.assert_array_equal(tj.device_get(y), 2 * X)
    np.testing.assert_array_equal(x[5:9][::2] + part[:2], X[5:9:2] + X[:6:3])
    for array in (x, y):
        assert np.shares_memory(np.asarray(array), np.asarray(array))
        assert np.shares_memory(np.from_dlpack(array), np.asarray(array))
        assert not np.asarray(array).flags.writeable
    assert f(tj.device_put(X, "plain_c"))[0].device == "plain_c:0"
    assert tj.device_put(x, "cpu").device == "cpu"


def test_numpys_arrays_are_used_in_place(monkeypatch: pytest.MonkeyPatch):
    """Programs get the memory of arguments, and results are the memory that they were written to."""
    given: list[Any] = []
    real = PlainC.alloc_zero_copy
    backend: Any = get_backend("plain_c")
    compiled = tj.jit(elements, backend="plain_c").lower(X).compile()
    launch = compiled._machine.launch
    compiled._machine.launch = lambda step, arguments, dims: given.extend(arguments) or launch(step, arguments, dims)
    (out,) = compiled.run([X], {})
    assert any(np.shares_memory(a, X) for a in given)
    assert any(np.shares_memory(a, out) for a in given)
    monkeypatch.setattr(PlainC, "alloc_zero_copy", lambda self, *a: given.append(real(self, *a)) or given[-1])
    x = backend.put(X, "plain_c:0")
    assert x.memory is given[-1]
    (resident,) = compiled.run_resident([x], {}, ValueError)
    assert any(np.shares_memory(a, x.memory) for a in given)
    np.testing.assert_array_equal(resident.host(), out)


def test_a_result_is_never_the_memory_of_an_argument_of_the_users():
    x = X.copy()
    f = tj.jit(lambda x, y: (x, y + 1), backend="plain_c")
    same, _ = f(x, tj.device_put(X, "plain_c"))
    x[:] = 0
    np.testing.assert_array_equal(same, X)


def test_arrays_of_other_devices_are_refused():
    x, y = tj.device_put(X, "plain_c:0"), tj.device_put(X, "plain_c:1")
    with pytest.raises(UnsupportedError, match=r"lies on plain_c:\d.*tj.device_put\(x, 'plain_c:\d'\)"):
        tj.jit(lambda x, y: x + y)(x, y)
    with pytest.raises(UserError, match="there are cpu, plain_c:0, plain_c:1"):
        tj.device_put(X, "plain_c:2")
    with pytest.raises(BackendUnavailable, match="there are plain_c:0, plain_c:1"):
        get_backend("plain_c:2")


def test_checks_travel_with_results():
    x, at = tj.device_put(X, "plain_c"), tj.device_put(np.array([1, 999_999]), "plain_c")
    y = tj.jit(lambda x, at: x[at] + 1)(x, at)
    with pytest.raises(IndexError, match="999999"):
        np.asarray(y)


def test_a_backend_without_shared_memory_has_no_devices():
    plain = ReferenceBackend()
    with pytest.raises(UnsupportedError, match="reference backend shares no memory with the host"):
        plain.alloc_zero_copy("f32", (3,))
    shared = Multicore(plain, devices=2)
    assert not shared.places()
    with pytest.raises(BackendUnavailable, match="none: reference shares no memory"):
        shared.at("reference:1")
    with made(2, ReferenceBackend) as name:
        np.testing.assert_allclose(tj.jit(elements, backend=name)(X), elements(X))


def test_a_backend_that_launches_no_kernels_is_refused():
    with made(2, CPUBackend) as name, pytest.raises(UnsupportedError, match=r"what cpu compiles is no runner.Machine"):
        tj.jit(elements, backend=name)(X)
