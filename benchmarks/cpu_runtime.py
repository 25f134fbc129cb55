"""The CPU run time's costs: loading modules, fork and join (also with busy neighbours), waking, result arrays.

python -m benchmarks.cpu_runtime
"""

import ctypes
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from tracejit.backends.cpu.runtime import llvm, memory, pool

KERNEL = """
define void @kernel(ptr %x, ptr %y, i64 %n) {
e:
  br label %l
l:
  %i = phi i64 [ 0, %e ], [ %i1, %l ]
  %p = getelementptr float, ptr %x, i64 %i
  %v0 = load <8 x float>, ptr %p, align 4
BODY
  %q = getelementptr float, ptr %y, i64 %i
  store <8 x float> %v20, ptr %q, align 4
  %i1 = add i64 %i, 8
  %c = icmp ult i64 %i1, %n
  br i1 %c, label %l, label %r
r:
  ret void
}
""".replace("BODY", "\n".join(f"  %v{k + 1} = fadd <8 x float> %v{k}, %v{max(k - 2, 0)}" for k in range(20)))

JOBS = """
declare void @tj_parallel_for(ptr, ptr, i64)
define void @spin(ptr %arg, i64 %i) {
  %work = load i64, ptr %arg
  br label %l
l:
  %k = phi i64 [ 0, %0 ], [ %k1, %l ]
  %x = phi double [ 0.0, %0 ], [ %x1, %l ]
  %x1 = fadd double %x, 1.5
  %k1 = add i64 %k, 1
  %c = icmp ult i64 %k1, %work
  br i1 %c, label %l, label %r
r:
  %o = add i64 %i, 16
  %q = getelementptr [8 x double], ptr %arg, i64 %o
  store double %x1, ptr %q
  ret void
}
define void @many(i64 %times, ptr %arg, i64 %n) {
  br label %l
l:
  %k = phi i64 [ 0, %0 ], [ %k1, %l ]
  call void @tj_parallel_for(ptr @spin, ptr %arg, i64 %n)
  %k1 = add i64 %k, 1
  %c = icmp ult i64 %k1, %times
  br i1 %c, label %l, label %r
r:
  ret void
}
"""

ARRAYS = """
declare ptr @tj_new_array(ptr, i32, ptr)
declare void @Py_DecRef(ptr)
define void @arrays(i64 %times, ptr %descr, ptr %dims) {
  br label %l
l:
  %k = phi i64 [ 0, %0 ], [ %k1, %l ]
  %a = call ptr @tj_new_array(ptr %descr, i32 1, ptr %dims)
  call void @Py_DecRef(ptr %a)
  %k1 = add i64 %k, 1
  %c = icmp ult i64 %k1, %times
  br i1 %c, label %l, label %r
r:
  ret void
}
"""


def median(run: Callable[[], object], repeats: int = 15) -> float:
    seconds: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[repeats // 2]


def loading() -> None:
    for what, load in (("llvmlite and one empty module", lambda: llvm.load("define void @f() { ret void }")),
                       ("the pool", pool.ensure_loaded), ("the memory", memory.ensure_loaded)):  # fmt: skip
        print(f"load {what}: {median(load, 1) * 1e3:.1f} ms")
    for what, quick in (("a kernel of 20 operations", False), ("the same, quick", True)):
        print(f"load {what}: {median(lambda quick=quick: llvm.load(KERNEL, quick=quick), 30) * 1e3:.2f} ms")
    library = llvm.load(KERNEL)
    print(f"load its object: {median(lambda: llvm.load_object(library.object).address('kernel'), 30) * 1e3:.2f} ms")


def jobs(label: str) -> None:
    library = llvm.load(JOBS)
    many = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(library.address("many"))
    data = (ctypes.c_int64 * 1024)()
    for chunks, work, times in ((2, 1, 20000), (8, 1, 5000), (8, 1000, 1000), (8, 100_000, 10)):
        data[0] = work
        row: list[str] = []
        for threads in (1, pool.thread_count()):
            pool.set_threads(threads)
            pool.ensure_started()
            row.append(
                f"{threads} threads "
                f"{median(lambda t=times, c=chunks: many(t, ctypes.addressof(data), c)) / times * 1e6:9.2f} us"
            )
        print(f"{label}: {chunks} chunks of {work:6} additions: {'  '.join(row)}")
    for work in (1000, 20_000, 100_000):
        data[0] = work
        for threads in (1, pool.thread_count()):
            pool.set_threads(threads)
            pool.ensure_started()
            seconds: list[float] = []
            for _ in range(100):
                time.sleep(0.001)
                start = time.perf_counter()
                many(1, ctypes.addressof(data), 4)
                seconds.append(time.perf_counter() - start)
            print(
                f"{label}: 4 chunks of {work:6} additions after 1 ms idle, {threads} threads: "
                f"{sorted(seconds)[50] * 1e6:.1f} us"
            )


def arrays() -> None:
    library = llvm.load(ARRAYS)
    make = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.py_object, ctypes.c_void_p)(library.address("arrays"))
    for size in (10, 1000, 100_000, 1_000_000):
        dims = ctypes.c_int64(size)
        seconds = median(lambda dims=dims: make(10_000, np.dtype("f4"), ctypes.addressof(dims))) / 10_000
        print(f"make and drop an array of {size:8} float32: {seconds * 1e9:.0f} ns")
    x, one = np.ones(16 << 20, "f4"), np.float32(1)

    def fresh() -> None:
        memory.trim()
        np.add(x, one, out=memory.new_array(x.dtype, x.shape))

    print(f"64 MB of x + 1: NumPy {median(lambda: x + one) * 1e3:.1f} ms, fresh {median(fresh) * 1e3:.1f},"
          f" recycled {median(lambda: np.add(x, one, out=memory.new_array(x.dtype, x.shape))) * 1e3:.1f}")  # fmt: skip


def main() -> None:
    loading()
    arrays()
    jobs("quiet")
    neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        time.sleep(0.5)
        jobs("two busy neighbours")
    finally:
        for neighbour in neighbours:
            neighbour.kill()


if __name__ == "__main__":
    main()
