"""The thread pool: every chunk once, from any thread, nested, after fork, with few or many threads; interrupts;
cost."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from functools import cache

import pytest

from tracejit.backends.cpu.runtime import llvm, os_functions, pool, processor
from tracejit.support import platform

CHUNKS = """
declare void @tj_parallel_for(ptr, ptr, i64)
declare i32 @tj_parallel_for_interruptible(ptr, ptr, i64, ptr)
declare i32 @tj_check_interrupt()
declare i32 @tj_poll(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @PyThread_get_thread_ident()
declare ptr @PyLong_FromLong(i64)
@tj_pool_threads = external global i64

define void @empty(ptr %a, i64 %i) {
  ret void
}
define void @count(ptr %a, i64 %i) {                 ; a[i] += 1
  %p = getelementptr i64, ptr %a, i64 %i
  %v = load i64, ptr %p
  %v1 = add i64 %v, 1
  store i64 %v1, ptr %p
  ret void
}
define void @many(ptr %fn, ptr %arg, i64 %chunks, i64 %times) {
  br label %l
l:
  %k = phi i64 [ 0, %0 ], [ %k1, %l ]
  call void @tj_parallel_for(ptr %fn, ptr %arg, i64 %chunks)
  %k1 = add i64 %k, 1
  %c = icmp ult i64 %k1, %times
  br i1 %c, label %l, label %r
r:
  ret void
}
define void @outer(ptr %a, i64 %i) {                 ; a nested job over a[8 i], ... a[8 i + 7]
  %o = mul i64 %i, 8
  %p = getelementptr i64, ptr %a, i64 %o
  call void @tj_parallel_for(ptr @count, ptr %p, i64 8)
  ret void
}
define i64 @work(i64 %n) {
  br label %l
l:
  %k = phi i64 [ 0, %0 ], [ %k1, %l ]
  %x = phi i64 [ 1, %0 ], [ %x1, %l ]
  %y = mul i64 %x, 6364136223846793005
  %x1 = add i64 %y, 1442695040888963407
  %k1 = add i64 %k, 1
  %c = icmp ult i64 %k1, %n
  br i1 %c, label %l, label %r
r:
  ret i64 %x1
}
define void @slow(ptr %a, i64 %i) {                  ; about 2 ms; a[2 i] = thread, a[2 i + 1] *= 0.5 as a double
  %x = call i64 @work(i64 1000000)
  %j = mul i64 %i, 2
  %p = getelementptr i64, ptr %a, i64 %j
  %t = call i64 @PyThread_get_thread_ident()
  store i64 %t, ptr %p
  %q = getelementptr i64, ptr %p, i64 1
  %d = load double, ptr %q
  %h = fmul double %d, 5.0e-1
  store double %h, ptr %q
  ret void
}
define void @endless(ptr %a, i64 %i) {               ; until the job is stopped, whose stop word is a[2]
  %stop = getelementptr i64, ptr %a, i64 2
  br label %l
l:
  %x = call i64 @work(i64 100000)
  %s = call i32 @tj_poll(ptr %stop)
  %c = icmp eq i32 %s, 0
  br i1 %c, label %l, label %r
r:
  ret void
}
; with the GIL released; null if an exception is set
define ptr @interruptible(ptr %fn, ptr %arg, i64 %chunks, ptr %stop) {
  %state = call ptr @PyEval_SaveThread()
  %s = call i32 @tj_parallel_for_interruptible(ptr %fn, ptr %arg, i64 %chunks, ptr %stop)
  call void @PyEval_RestoreThread(ptr %state)
  %ok = icmp eq i32 %s, 0
  br i1 %ok, label %yes, label %no
yes:
  %r = call ptr @PyLong_FromLong(i64 0)
  ret ptr %r
no:
  ret ptr null
}
define ptr @poll_until_interrupted() {
  br label %l
l:
  %x = call i64 @work(i64 100000)
  %s = call i32 @tj_check_interrupt()
  %c = icmp eq i32 %s, 0
  br i1 %c, label %l, label %r
r:
  ret ptr null
}
define i64 @threads() {
  %v = load i64, ptr @tj_pool_threads
  ret i64 %v
}
define void @with_float_mode(i32 %mode, ptr %arg, i64 %chunks) {
  %old = call i32 @os_float_mode()
  call void @os_set_float_mode(i32 %mode)
  call void @tj_parallel_for(ptr @slow, ptr %arg, i64 %chunks)
  call void @os_set_float_mode(i32 %old)
  ret void
}
"""


@cache
def library() -> llvm.Library:
    return llvm.load(os_functions.native_text() + CHUNKS, symbols=os_functions.native_symbols())


def address(name: str) -> int:
    return library().address(name)


def run_many(name: str, argument: int, chunks: int, times: int) -> None:
    many = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address("many"))
    many(address(name), argument, chunks, times)


def counts_after(chunks: int, times: int, counters: int | None = None, name: str = "count") -> set[int]:
    """The distinct values of counters that each chunk of `times` jobs raised by one."""
    data = (ctypes.c_int64 * (counters or max(chunks, 1)))()
    run_many(name, ctypes.addressof(data), chunks, times)
    return set(data)


@pytest.fixture(autouse=True)
def _three_threads() -> Iterator[None]:
    before = pool.pool_size()
    pool.set_threads(3)  # more than this machine may have: late and preempted workers are the interesting ones
    yield
    pool.set_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 64, 1000])
def test_every_chunk_runs_once(chunks, threads):
    pool.set_threads(threads)
    assert counts_after(chunks, 500) == {500}


def test_no_chunks_run_nothing():
    for chunks in (0, -1, -(1 << 62)):
        assert counts_after(chunks, 3) == {0}


def test_more_chunks_than_one_segment_holds():
    assert counts_after((1 << 20) + 12345, 1) == {1}


def test_threads_may_load_the_pool_at_the_same_time():
    script = """
        threads = [threading.Thread(target=count, args=(5, 100)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print("done")
    """
    assert run_script(script) == "done\n"


def test_a_million_small_jobs_from_several_python_threads():
    results: dict[int, set[int]] = {}

    def work(k: int) -> None:
        results[k] = counts_after(3 + k, 250_000)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(results.values()) == [{250_000}] * 4


def test_nested_jobs_run_once():
    assert counts_after(100, 300, counters=800, name="outer") == {300}


def test_several_threads_execute_one_job():
    for _ in range(50):
        data = (ctypes.c_int64 * 32)()
        pool.parallel_for(address("slow"), ctypes.addressof(data), 16)
        if len(set(data[::2])) > 1:
            return
    pytest.fail("no chunk of 800 ran on a worker")


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine != "x86_64", reason="the mode word is of x86"
)
def test_workers_compute_in_the_callers_floating_point_mode():
    run = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(address("with_float_mode"))
    denormal = 1 << 40  # the bits of a double
    for mode, expected in ((0x9FC0, 0), (0x1F80, denormal // 2)):  # denormals are zero, or not
        halves: set[int] = set()
        threads: set[int] = set()
        for _ in range(20):
            data = (ctypes.c_int64 * 32)(*[denormal] * 32)
            run(mode, ctypes.addressof(data), 16)
            threads |= set(data[::2])
            halves |= set(data[1::2])
        assert halves == {expected}
        assert len(threads) > 1


def test_sleeping_workers_are_woken_for_long_jobs_and_left_alone_for_short_ones():
    def threads_of(function: int, work: int) -> int:
        pool.set_threads(2)
        data = (ctypes.c_int64 * 32)(work)
        seen: list[int] = []
        for _ in range(20):
            time.sleep(0.01)  # workers sleep
            pool.parallel_for(function, ctypes.addressof(data), 8)
            seen.append(len(set(data[8:16])))
        return sum(1 for threads in seen if threads > 1)

    text = """
    declare i64 @work(i64)
    declare i64 @PyThread_get_thread_ident()
    define void @timed(ptr %a, i64 %i) {
      %n = load i64, ptr %a
      %x = call i64 @work(i64 %n)
      %j = add i64 %i, 8
      %p = getelementptr i64, ptr %a, i64 %j
      %t = call i64 @PyThread_get_thread_ident()
      store i64 %t, ptr %p
      ret void
    }"""
    timed = llvm.load(text, symbols={"work": address("work")})
    function = timed.address("timed")
    assert threads_of(function, 100) <= 4  # a microsecond: not worth it, but where a late worker still spins
    assert threads_of(function, 3_000_000) >= 15  # 8 chunks of a few ms
    assert threads_of(function, 100) <= 5  # the first of these is taken for a long one


def test_threads_come_and_go():
    for threads in (1, 5, 2, 8, 1, 3, 1):
        pool.set_threads(threads)
        assert pool.pool_size() == threads
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(address("threads"))() == threads
        assert counts_after(9, 2000) == {2000}
        deadline = time.monotonic() + 10
        while sum(pool._native().alive) != threads - 1 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert sum(pool._native().alive) == threads - 1


def test_resizing_while_jobs_run_loses_nothing():
    results: list[set[int]] = []
    worker = threading.Thread(target=lambda: results.append(counts_after(6, 300_000)))
    worker.start()
    k = 0
    while worker.is_alive():
        pool.set_threads(1 + k % 5)
        k += 1
    worker.join()
    assert results == [{300_000}]


@pytest.mark.parametrize("count", [0, -1, 1025])
def test_a_bad_number_of_threads_is_an_error(count):
    with pytest.raises(ValueError, match=r"give a number of threads from 1 to 1024"):
        pool.set_threads(count)


def test_the_environment_sets_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("TRACEJIT_THREADS", "5")
    assert platform.thread_count() == 5
    for text in ("0", "-3", "many", "1.5"):
        monkeypatch.setenv("TRACEJIT_THREADS", text)
        with pytest.raises(ValueError, match="TRACEJIT_THREADS must be a positive integer"):
            platform.thread_count()
    monkeypatch.delenv("TRACEJIT_THREADS")
    assert platform.thread_count() == platform.available_cpus() >= 1


def test_a_containers_quota_counts(tmp_path):
    for text, expected in (
        ("max 100000", 1 << 30),
        ("150000 100000", 2),
        ("100000 100000", 1),
        ("5000 100000", 1),
        ("", 1 << 30),
    ):
        (tmp_path / "cpu.max").write_text(text)
        assert platform._cgroup_quota(str(tmp_path / "cpu.max")) == expected
    assert platform._cgroup_quota(str(tmp_path / "absent")) == 1 << 30


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
@pytest.mark.parametrize("system", ["linux", "darwin", "win32", "freebsd14"])
def test_the_native_text_of_every_system_verifies(system, machine):
    text = os_functions.native_text(system, machine)
    with processor.parsed(processor.engine_of_process(), text) as module:
        defined = {function.name for function in module.functions if not function.is_declaration}
    assert defined - {"os_clock"} == {
        "os_wait", "os_wake", "os_milliseconds", "os_nanoseconds", "os_spawn", "os_pause", "os_float_mode",
        "os_set_float_mode", "os_prefer_huge_pages",
    }  # fmt: skip


def test_systems_without_a_wait_on_words_still_work(monkeypatch):
    text = os_functions.native_text("freebsd14", "x86_64")
    for theirs, ours in (
        ("sigmask(i32 3", "sigmask(i32 2"),
        ("detachstate(ptr %attributes, i32 2", "detachstate(ptr %attributes, i32 1"),
    ):
        text = text.replace(theirs, ours)
    if os.uname().machine != "x86_64" or not sys.platform.startswith("linux"):
        pytest.skip("the text under test is for x86-64; the numbers replaced are Linux's")
    monkeypatch.setattr(pool, "native_text", lambda: text)
    native = pool._Native()
    native.resize(2, 1)
    data = (ctypes.c_int64 * 9)()
    for _ in range(300):
        native.parallel_for(address("count"), ctypes.addressof(data), 9)
        time.sleep(0.0002)  # let workers fall asleep now and then
    assert set(data) == {300}
    native.resize(0, 1)


# Interrupts


class HandlerError(Exception):
    pass


@pytest.fixture
def _alarm() -> Iterator[None]:
    def handler(number: int, frame: object) -> None:
        raise HandlerError

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


INTERRUPTIBLE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


def interruptible(name: str, argument: int, chunks: int) -> object:
    return INTERRUPTIBLE(address("interruptible"))(address(name), argument, chunks, ctypes.byref(ctypes.c_int32()))


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize("threads", [1, 3])
def test_a_raising_signal_handler_stops_a_long_job(threads):
    pool.set_threads(threads)
    data = (ctypes.c_int64 * 2_000_000)()
    signal.setitimer(signal.ITIMER_REAL, 0.15)
    start = time.monotonic()
    with pytest.raises(HandlerError):
        interruptible("slow", ctypes.addressof(data), 1_000_000)
    assert time.monotonic() - start < 5
    assert 0 < sum(1 for thread in data[::2] if thread) < 100_000
    assert counts_after(50, 100) == {100}, "the pool is ready for the next job"
    assert interruptible("count", ctypes.addressof(data), 1000) == 0


@pytest.mark.usefixtures("_alarm")
def test_chunks_in_execution_can_see_that_their_job_is_stopped():
    data = (ctypes.c_int64 * 4)()
    pool.set_threads(2)
    pool.ensure_started()
    # The caller's own chunk must end for it to look: chunk 0 of `mixed` is short, the worker's is endless.
    text = """
    declare void @endless(ptr, i64)
    declare i64 @work(i64)
    define void @mixed(ptr %a, i64 %i) {
      %p = getelementptr i64, ptr %a, i64 1
      %main = load i64, ptr %a
      %t = call i64 @PyThread_get_thread_ident()
      %mine = icmp eq i64 %t, %main
      br i1 %mine, label %short, label %long
    short:
      %x = call i64 @work(i64 1000000)
      ret void
    long:
      store i64 1, ptr %p
      call void @endless(ptr %a, i64 %i)
      ret void
    }
    declare i64 @PyThread_get_thread_ident()"""
    loaded = llvm.load(text, symbols={"endless": address("endless"), "work": address("work")})
    mixed = loaded.address("mixed")
    data[0] = threading.get_ident()
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    with pytest.raises(HandlerError):
        INTERRUPTIBLE(address("interruptible"))(mixed, ctypes.addressof(data), 1 << 40, ctypes.addressof(data) + 16)
    assert data[1] == 1, "the worker took no chunk in half a second"


@pytest.mark.usefixtures("_alarm")
def test_native_code_can_ask_for_interrupts():
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(HandlerError):
        ctypes.PYFUNCTYPE(ctypes.py_object)(address("poll_until_interrupted"))()


def test_handlers_that_return_do_not_stop_a_job():
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        data = (ctypes.c_int64 * 400)()
        assert interruptible("slow", ctypes.addressof(data), 200) == 0
        assert seen == [signal.SIGALRM]
        assert all(data[::2])
    finally:
        signal.signal(signal.SIGALRM, before)


def test_another_thread_is_not_asked_for_signals():
    results: list[object] = []
    data = (ctypes.c_int64 * 400)()
    thread = threading.Thread(target=lambda: results.append(interruptible("slow", ctypes.addressof(data), 100)))
    thread.start()
    thread.join()
    assert results == [0]


# Processes


def run_script(script: str, **environment: str) -> str:
    head = """
        import ctypes, os, sys, threading, time, warnings
        from tracejit.backends.cpu.runtime import llvm, pool, processor
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        TEXT = "define void @count(ptr %a, i64 %i) { %p = getelementptr i64, ptr %a, i64 %i\\n" \\
            " %v = load i64, ptr %p\\n %w = add i64 %v, 1\\n store i64 %w, ptr %p\\n ret void }\\n" \\
            "define void @spin(ptr %a, i64 %i) { br label %l\\nl: br label %l }"
        library = llvm.load(TEXT)
        def count(chunks, times):
            data = (ctypes.c_int64 * chunks)()
            for _ in range(times):
                pool.parallel_for(library.address("count"), ctypes.addressof(data), chunks)
            return set(data) == {times}
    """
    text = textwrap.dedent(head) + textwrap.dedent(script)
    environment = {**os.environ, "TRACEJIT_THREADS": "3", **environment}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_pool_of_its_own():
    script = """
        assert count(5, 1000) and sum(pool._native().alive) == 2
        pid = os.fork()
        if pid == 0:
            ok = sum(pool._native().alive) == 0 and count(5, 1000) and sum(pool._native().alive) == 2
            pid2 = os.fork()
            if pid2 == 0:
                os._exit(0 if count(7, 100) else 1)
            os._exit(0 if ok and os.waitpid(pid2, 0)[1] == 0 else 1)
        status = os.waitpid(pid, 0)[1]
        print(status, count(5, 1000), sum(pool._native().alive))
    """
    assert run_script(script) == "0 True 2\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_holds_the_pool():
    script = """
        stop = threading.Event()
        def work():
            while not stop.is_set():
                assert count(50, 50)
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if count(9, 200) else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        thread.join()
        print("done")
    """
    assert run_script(script) == "done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_leaves_its_parents_chunks_alone():
    script = """
        import mmap
        text = TEXT.replace("define void @spin", "declare i32 @usleep(i32)\\n define void @nap(ptr %a, i64 %i)"
            " { call i32 @usleep(i32 200)\\n call void @count(ptr %a, i64 %i)\\n ret void }\\n define void @spin")
        napping = llvm.load(text)
        nap = napping.address("nap")
        shared = mmap.mmap(-1, 8 * 2000)
        counters = (ctypes.c_int64 * 2000).from_buffer(shared)
        thread = threading.Thread(target=pool.parallel_for, args=(nap, ctypes.addressof(counters), 2000))
        thread.start()
        time.sleep(0.05)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if count(9, 200) else 1)
        status = os.waitpid(pid, 0)[1]
        busy = thread.is_alive()
        thread.join()
        print(status, busy, set(counters))
    """
    assert run_script(script) == "0 True {1}\n"


def test_the_interpreter_exits_while_workers_exist_or_work():
    assert run_script("pool.ensure_started(); print(count(4, 10))") == "True\n"
    script = """
        pool.ensure_started()
        threading.Thread(target=pool.parallel_for, args=(library.address("spin"), 0, 8), daemon=True).start()
        time.sleep(0.05)
        print("bye")
    """
    assert run_script(script) == "bye\n"


def test_one_thread_from_the_environment_starts_none():
    assert (
        run_script("print(count(4, 10), sum(pool._native().alive), pool.pool_size())", TRACEJIT_THREADS="1")
        == "True 0 1\n"
    )


def test_spawned_processes_work(tmp_path):
    script = tmp_path / "spawned.py"
    script.write_text(
        textwrap.dedent("""
        import ctypes, multiprocessing
        from tracejit.backends.cpu.runtime import llvm, pool, processor

        TEXT = "define void @mark(ptr %a, i64 %i) { %p = getelementptr i64, ptr %a, i64 %i\\n" \\
            " store i64 %i, ptr %p\\n ret void }"

        def work(n):
            data = (ctypes.c_int64 * n)()
            library = llvm.load(TEXT)
            pool.parallel_for(library.address("mark"), ctypes.addressof(data), n)
            return sum(data)

        if __name__ == "__main__":
            work(10)
            with multiprocessing.get_context("spawn").Pool(2) as processes:
                print(processes.map(work, [10, 100]))
    """)
    )
    environment = {**os.environ, "TRACEJIT_THREADS": "2"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, env=environment)
    assert (done.stdout, done.stderr) == ("[45, 4950]\n", "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="how often a thread slept is counted as Linux does")
def test_fork_and_join_do_not_sleep():
    """Which is what makes them cost 0.3 to 0.7 us (`benchmarks/cpu_runtime.py`): waking a thread takes some 50."""
    pool.set_threads(2)
    slept = {chunks: min(_sleeps(chunks, 5000) for _ in range(10)) for chunks in (2, 8)}
    print(f"in 5000 jobs the caller slept {slept}")
    assert max(slept.values()) < 500  # a worker that is taken off its core in the middle of a chunk is waited for


def _sleeps(chunks: int, jobs: int) -> int:
    from resource import RUSAGE_THREAD, getrusage

    before = getrusage(RUSAGE_THREAD).ru_nvcsw
    run_many("empty", 0, chunks, jobs)
    return getrusage(RUSAGE_THREAD).ru_nvcsw - before
