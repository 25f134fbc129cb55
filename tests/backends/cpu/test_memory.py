"""Recycled memory and result arrays: ownership, reuse, bounds, threads, fork, exit."""

import copy
import ctypes
import gc
import io
import itertools
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

from tracejit.backends.cpu.runtime import llvm, memory
from tracejit.support.errors import OutOfMemory

F32 = np.dtype("f4")
LARGE = (512, 1024)  # 2 MiB of float32


@pytest.fixture(autouse=True)
def _empty_pool() -> Iterator[None]:
    gc.collect()
    memory.ensure_loaded()
    limit = memory.limit_bytes()
    memory.set_limit(1 << 30)
    memory.trim()
    yield
    memory.set_limit(limit)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 0, 7), (16383,), (16384,), (4, 5, 6, 7), (1 << 20,), (2,) * 20])
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f2", "f4", "f8", "c16"])
def test_arrays_are_ordinary(dtype, shape):
    array = memory.new_array(np.dtype(dtype), shape)
    assert type(array) is np.ndarray
    assert (array.dtype, array.shape, array.base) == (np.dtype(dtype), shape, None)
    flags = array.flags
    assert flags.c_contiguous and flags.owndata and flags.writeable and flags.aligned  # noqa: PT018
    assert array.strides == np.empty(shape, dtype).strides
    assert array.ctypes.data % min(64, array.dtype.itemsize) == 0
    array[...] = 1
    assert (array == 1).all()


def test_large_arrays_are_recycled_and_small_ones_are_numpys():
    array = memory.new_array(F32, LARGE)
    assert get_handler_name(array) == "tracejit"
    assert array.ctypes.data % 4096 == 0
    address = array.ctypes.data
    del array
    assert memory.held_bytes() == 2 << 20
    assert memory.new_array(F32, LARGE).ctypes.data == address
    assert memory.held_bytes() == 2 << 20
    assert get_handler_name(memory.new_array(F32, (100,))) == "default_allocator"


def test_a_slightly_smaller_request_takes_a_free_block_a_much_smaller_one_does_not():
    first = memory.new_array(F32, (1 << 19,))
    address = first.ctypes.data
    del first
    assert memory.new_array(F32, ((1 << 19) - 70_000,)).ctypes.data == address
    assert memory.new_array(F32, (1 << 18,)).ctypes.data != address


def test_huge_blocks_begin_a_huge_page():
    for _ in range(3):
        kept = [memory.new_array(np.dtype("u1"), (size,)) for size in (4 << 20, (4 << 20) + 1, 17_000_001)]
        assert [array.ctypes.data % (2 << 20) for array in kept] == [0, 0, 0]


def test_users_arrays_do_not_meet_the_handler():
    mine = memory.new_array(F32, LARGE)
    mine[...] = 2
    for other in (np.empty(LARGE, "f4"), mine + 1, mine.copy(), copy.deepcopy(mine), np.sqrt(mine), mine.astype("f8")):
        assert get_handler_name(other) == "default_allocator"


def test_blocks_do_not_overlap():
    rng = random.Random(5)
    live: list[tuple[np.ndarray, int]] = []
    for k in range(3000):
        if live and rng.random() < 0.5:
            array, mark = live.pop(rng.randrange(len(live)))
            assert (array[0], array[array.size // 2], array[-1]) == (mark, mark, mark)
        array = memory.new_array(np.dtype("i4"), (rng.choice((20_000, 16_384, 30_000, 70_001, 300_000)),))
        array[0] = array[array.size // 2] = array[-1] = k
        live.append((array, k))
        if len(live) > 40:
            live.pop(0)
    spans = sorted((array.ctypes.data, array.ctypes.data + array.nbytes) for array, _ in live)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_resizing_keeps_the_values():
    array = memory.new_array(F32, (100_000,))
    array[...] = np.arange(100_000)
    for size in (110_000, 1_000_000, 50_000, 10, 40, 100_000, 0, 3, 200_000):
        kept = min(size, array.size)
        before = array[:kept].copy()
        array.resize(size, refcheck=False)
        assert array.size == size
        assert (array[:kept] == before).all()
        assert array.flags.owndata
        array[kept:] = 7
    del array
    assert memory.held_bytes() > 0


def test_copies_pickles_and_files_work():
    array = memory.new_array(np.dtype("f8"), (300, 100))
    array[...] = np.random.default_rng(0).normal(size=array.shape)
    assert (pickle.loads(pickle.dumps(array, protocol=5)) == array).all()
    assert (copy.deepcopy(array) == array).all()
    file = io.BytesIO()
    np.save(file, array)
    file.seek(0)
    assert (np.load(file) == array).all()
    view = array[::2].T
    expected = view.copy()
    del array
    assert (view == expected).all()


def test_what_is_kept_is_bounded_and_the_oldest_goes_first():
    memory.set_limit(10 << 20)
    arrays = [memory.new_array(np.dtype("u1"), (1 << 20,)) for _ in range(30)]
    addresses = [array.ctypes.data for array in arrays]
    while arrays:
        arrays.pop(0)
        assert memory.held_bytes() <= 10 << 20
    assert memory.held_bytes() == 10 << 20
    again = [memory.new_array(np.dtype("u1"), (1 << 20,)) for _ in range(10)]
    assert [array.ctypes.data for array in again] == addresses[:-11:-1]
    too_large = memory.new_array(np.dtype("u1"), (11 << 20,))
    del too_large
    assert memory.held_bytes() == 0


def test_trim_gives_back():
    arrays = [memory.new_array(F32, LARGE) for _ in range(4)]
    del arrays
    assert memory.held_bytes() == 8 << 20
    memory.trim(5 << 20)
    assert memory.held_bytes() == 4 << 20
    memory.trim()
    assert memory.held_bytes() == 0


def test_no_recycling_with_limit_zero():
    memory.set_limit(0)
    array = memory.new_array(F32, LARGE)
    array[...] = 1
    del array
    assert memory.held_bytes() == 0
    with pytest.raises(ValueError, match="give a number of bytes"):
        memory.set_limit(-1)


def test_blocks_without_use_go_after_a_while(monkeypatch):
    monkeypatch.setattr(memory, "_STALE_MILLISECONDS", 1000)
    native = memory._Native()
    native.limit.value = 1 << 30
    for size in (1 << 20, 2 << 20, 3 << 20):
        native.free(native.alloc(size), size)
    assert native.held.value == 6 << 20
    time.sleep(1.1)
    native.free(native.alloc(4 << 20), 0)
    assert native.held.value == 4 << 20
    native.trim(0)


def test_shapes_that_are_impossible_are_numpys_errors():
    with pytest.raises(ValueError, match="array is too big"):
        memory.new_array(np.dtype("f8"), (1 << 40, 1 << 40))
    with pytest.raises(ValueError, match="negative dimensions"):
        memory.new_array(np.dtype("f8"), (-5, 1_000_000))
    with pytest.raises(MemoryError):
        memory.new_array(np.dtype("f8"), (1 << 45,))
    for _ in range(1000):  # reference counts survive the errors
        with pytest.raises(ValueError, match="negative"):
            memory.new_array(np.dtype("f8"), (-5, 1_000_000))


def test_reference_counts_of_the_dtype_balance():
    dtype = np.dtype([("x", "f4"), ("y", "i2")])
    before = sys.getrefcount(dtype)
    for shape in ((10,), (100_000,)):
        arrays = [memory.new_array(dtype, shape) for _ in range(100)]
        assert sys.getrefcount(dtype) == before + 100
        del arrays
        assert sys.getrefcount(dtype) == before


def test_scratch_is_aligned_and_reused():
    for size in (0, 1, 63, 64, 1000, 65535, 65536, 65537, 1 << 20, 5 << 20):
        address = memory.alloc(size)
        assert address % 64 == 0
        assert size < 65536 or address % 4096 == 0
        ctypes.memset(address, 255, size)
        memory.free(address)
    address = memory.alloc(1 << 20)
    memory.free(address)
    assert memory.alloc(1 << 20) == address
    memory.free(address)
    memory.free(0)


@pytest.mark.parametrize("size", [1 << 46, 1 << 60, -1])
def test_scratch_beyond_the_machine_is_an_error(size):
    with pytest.raises(OutOfMemory, match=f"requested {size} bytes"):
        memory.alloc(size)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a limit on the address space")
def test_held_blocks_are_given_up_before_memory_runs_out():
    script = """
        import resource
        held = memory.alloc(600 << 20)
        memory.free(held)
        assert memory.held_bytes() >= 600 << 20
        used = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20), resource.RLIM_INFINITY))
        block = memory.alloc(700 << 20)
        print(memory.held_bytes())
        try:
            memory.alloc(700 << 20)
        except MemoryError as error:
            print(type(error).__name__)
    """
    assert run_script(script) == "0\nOutOfMemory\n"


def test_every_capacity_class_fits_and_wastes_little():
    native = memory._Native()
    for k in range(17, 26):
        for size in {(1 << k) + d for d in (-1, 0, 1)} | {
            random.Random(k).randrange(1 << k, 2 << k) for _ in range(20)
        }:
            native.limit.value = 1 << 40
            native.free(native.alloc(size), 0)
            capacity = native.held.value
            assert size <= capacity <= size * 1.13
            native.trim(0)
            assert native.held.value == 0


def test_threads_allocate_and_free_each_others_arrays():
    queue: list[tuple[np.ndarray, int]] = []
    lock = threading.Lock()
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for k in range(2000):
            array = memory.new_array(np.dtype("i4"), (rng.choice((17_000, 20_000, 70_000)),))
            array[0] = array[-1] = seed * 10_000 + k
            with lock:
                queue.append((array, seed * 10_000 + k))
                other = queue.pop(rng.randrange(len(queue))) if len(queue) > 20 else None
            if other is not None and not other[0][0] == other[0][-1] == other[1]:
                wrong.append(other[1])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


HAMMER = """
declare ptr @tj_alloc(i64)
declare void @tj_free(ptr, i64)
; blocks of varying size, marked and checked; the number of marks found destroyed
define i64 @hammer(i64 %seed, i64 %times) {
entry:
  %slots = alloca [16 x ptr]
  call void @llvm.memset.p0.i64(ptr %slots, i8 0, i64 128, i1 false)
  br label %l
l:
  %k = phi i64 [ 0, %entry ], [ %k1, %put ]
  %x = phi i64 [ %seed, %entry ], [ %x1, %put ]
  %bad = phi i64 [ 0, %entry ], [ %bad1, %put ]
  %y = mul i64 %x, 6364136223846793005
  %x1 = add i64 %y, 1442695040888963407
  %i = lshr i64 %x1, 60
  %slot = getelementptr ptr, ptr %slots, i64 %i
  %old = load ptr, ptr %slot
  %none = icmp eq ptr %old, null
  br i1 %none, label %put, label %check
check:
  %mark = load i64, ptr %old
  %expected = ptrtoint ptr %old to i64
  %same = icmp eq i64 %mark, %expected
  %wrong = select i1 %same, i64 0, i64 1
  store i64 0, ptr %old
  call void @tj_free(ptr %old, i64 0)
  br label %put
put:
  %w = phi i64 [ 0, %l ], [ %wrong, %check ]
  %bad1 = add i64 %bad, %w
  %s = lshr i64 %x1, 44
  %low = and i64 %s, 65535
  %size = add i64 %low, 64000
  %new = call ptr @tj_alloc(i64 %size)
  %word = ptrtoint ptr %new to i64
  store i64 %word, ptr %new
  store ptr %new, ptr %slot
  %k1 = add i64 %k, 1
  %c = icmp ult i64 %k1, %times
  br i1 %c, label %l, label %r
r:
  ret i64 %bad1
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def test_native_threads_share_the_pool_without_the_gil():
    library = llvm.load(HAMMER)
    hammer = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(library.address("hammer"))
    results: list[int] = []
    threads = [threading.Thread(target=lambda seed=seed: results.append(hammer(seed, 100_000))) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0, 0, 0, 0]


def run_script(script: str) -> str:
    head = "import gc, os, sys, threading, warnings, numpy as np\nfrom tracejit.backends.cpu.runtime import memory\n"
    head += "warnings.filterwarnings('ignore', category=DeprecationWarning)\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_arrays_and_the_pool_survive_a_fork():
    script = """
        stop = threading.Event()
        def work():
            while not stop.is_set():
                memory.new_array(np.dtype("f4"), (20_000,))
        thread = threading.Thread(target=work)
        thread.start()
        array = memory.new_array(np.dtype("f4"), (100_000,))
        array[:] = 3
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                ok = array.sum() == 300_000
                del array
                for _ in range(100):
                    fresh = memory.new_array(np.dtype("f4"), (100_000,))
                    fresh[:] = 1
                os._exit(0 if ok else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        thread.join()
        print(array.sum())
    """
    assert run_script(script) == "300000.0\n"


def test_arrays_outlive_the_package():
    script = """
        array = memory.new_array(np.dtype("f8"), (100_000,))
        array[:] = 2
        del memory
        for name in [name for name in sys.modules if name.startswith(("tracejit", "llvmlite"))]:
            del sys.modules[name]
        gc.collect()
        array.resize(300_000, refcheck=False)
        print(array.sum())
        class Late:
            def __del__(self):
                self.array.resize(5, refcheck=False)
                del self.array
        late = Late()
        late.array = array
        sys.late = late
    """
    assert run_script(script) == "200000.0\n"


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("123456", 123456), ("", None), (" 7 ", 7)])
def test_the_environment_sets_the_limit(monkeypatch, text, expected):
    monkeypatch.setenv("TRACEJIT_RECYCLE_BYTES", text)
    default = memory._default_limit()
    assert default == (expected if expected is not None else default)
    assert expected is not None or 1 << 20 < default <= 1 << 30


def test_a_bad_limit_in_the_environment_is_an_error(monkeypatch):
    monkeypatch.setenv("TRACEJIT_RECYCLE_BYTES", "1GB")
    with pytest.raises(ValueError, match="TRACEJIT_RECYCLE_BYTES must be a number of bytes, 0 to keep none, not '1GB'"):
        memory._default_limit()


def test_an_unknown_layout_falls_back_to_numpys_memory(monkeypatch):
    assert memory._layout_is_known(object.__basicsize__)
    monkeypatch.setattr(memory, "_layout_is_known", lambda head: False)
    native = memory._Native()
    array = native.new_array(F32, 1, (ctypes.c_int64 * 1)(1 << 20))
    assert get_handler_name(array) == "default_allocator"
    array[:] = 1
    assert array.sum() == 1 << 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="page faults are counted as Linux does")
def test_recycled_memory_costs_no_page_faults():
    x = np.ones(16 << 20, "f4")
    memory.trim()
    fresh = _page_faults(x)
    recycled = min(_page_faults(x) for _ in range(5))  # of the interpreter's own memory there may be some
    print(f"64 MB of x + 1: {fresh} page faults in fresh memory, {recycled} in recycled memory")
    assert recycled < 8 <= fresh


def _page_faults(x: np.ndarray) -> int:
    from resource import RUSAGE_THREAD, getrusage

    before = getrusage(RUSAGE_THREAD).ru_minflt
    np.add(x, np.float32(1), out=memory.new_array(x.dtype, x.shape))
    return getrusage(RUSAGE_THREAD).ru_minflt - before
