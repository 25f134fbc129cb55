"""Compiled code goes with the last thing that can call it, and not before."""

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.cpu.runtime import llvm, mappings, processor
from tracejit.support.errors import CompileError

# A constant in memory, so that the module has more than code.
SCALE = "define double @f(double %x) {{ %y = fmul double %x, {!r}\n ret double %y }}"
linux = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads /proc")


def scale(library: llvm.Library, x: float) -> float:
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(library.address("f"))(x)


def mapped() -> int:
    return Path("/proc/self/maps").read_bytes().count(b"\n")


def is_mapped(address: int) -> bool:
    spans = [line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines()]
    return any(int(low, 16) <= address < int(high, 16) for low, high in spans)


def resident_kilobytes() -> int:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


def settle() -> None:
    """Have everything unloaded that nothing holds any more."""
    gc.collect()
    llvm.load(SCALE.format(1.5))
    llvm.loaded_count()


@linux
@pytest.mark.parametrize("again", [False, True])
def test_a_library_that_is_dropped_is_unloaded_with_the_next_load(again):
    library = llvm.load(SCALE.format(2.5))
    if again:
        library = llvm.load_object(library.object)  # whose symbols are looked up one by one
    address = library.address("f")
    assert scale(library, 2.0) == 5.0
    assert is_mapped(address)
    settle()
    before = llvm.loaded_count()
    del library
    settle()
    assert llvm.loaded_count() == before - 1
    assert not is_mapped(address)
    kept = llvm.load(SCALE.format(3.5))
    assert scale(kept, 2.0) == 7.0


def test_what_is_kept_is_never_unloaded():
    library = llvm.load(SCALE.format(4.5))
    library.keep()
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(library.address("f"))
    del library
    for _ in range(5):
        settle()
    assert function(2.0) == 9.0


def test_no_python_code_runs_when_a_library_is_gone():
    """A Ctrl-C would be raised in there, where the garbage collector prints and loses it."""
    libraries = [llvm.load(SCALE.format(float(k))) for k in range(200)]
    settle()
    before = llvm.loaded_count()
    assert sum(session.live for session in processor.start().sessions) == before
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append((frame.f_code.co_name, event)))
    try:
        libraries.clear()
    finally:
        sys.setprofile(None)
    assert not [name for name, event in seen if event == "call"]
    assert llvm.loaded_count() == before - 200


@linux
def test_memory_stays_what_it_is_over_3000_functions_that_live_shortly():
    def compile_many(count: int) -> None:
        for k in range(count):
            library = llvm.load(SCALE.format(float(k)), quick=True)
            assert scale(library, 2.0) == 2.0 * k

    compile_many(600)
    at_first, resident = mapped(), resident_kilobytes()
    compile_many(3000)
    assert mapped() <= at_first + 10
    assert resident_kilobytes() <= resident + 4000  # LLVM's records of 256 libraries


@linux
def test_neighbouring_functions_share_a_mapping():
    settle()
    before = mapped()
    libraries = [llvm.load(SCALE.format(float(k)), quick=True) for k in range(300)]
    assert mapped() <= before + 200  # without sharing they are 600; others may take some meanwhile
    assert [scale(library, 1.0) for library in libraries] == list(range(300))


@linux
def test_jitted_functions_take_their_code_with_them():
    x = np.arange(4.0)

    def compile_many(count: int) -> None:
        for k in range(count):
            np.testing.assert_array_equal(tj.jit(lambda x, k=k: x * (k + 0.5))(x), x * (k + 0.5))

    compile_many(100)
    settle()
    before, loaded = mapped(), llvm.loaded_count()
    compile_many(300)
    settle()
    assert llvm.loaded_count() <= loaded + 1
    assert mapped() <= before + 10


def test_a_version_that_is_forgotten_takes_its_code_with_it():
    f = tj.jit(lambda x, n: x * n, dynamic_shapes=False)
    settle()
    before = llvm.loaded_count()
    for n in range(2, 12):
        f(np.ones(n), 2.0)
    assert llvm.loaded_count() == before + 10
    f.clear_cache()
    settle()
    assert llvm.loaded_count() == before
    assert f(np.ones(3), 2.0).tolist() == [2.0, 2.0, 2.0]


def test_what_was_taken_out_of_a_function_keeps_its_code():
    x = np.arange(3.0)
    f = tj.jit(lambda x: x + 1.25)
    f(x)
    taken, lowered = f.__call__, f.lower(x).compile()
    run = lowered.prepare([x], {})
    del f, lowered
    settle()
    for _ in range(3):
        assert taken(x).tolist() == [1.25, 2.25, 3.25]
        run()
        settle()


def test_a_function_may_drop_itself_while_it_runs():
    """What assembles the result runs inside of the entry's frame;
    here it drops every reference to the code it returns to."""
    from collections import namedtuple

    functions = {}

    class Pair(namedtuple("Pair", "a b")):
        def __new__(cls, a, b):
            if isinstance(a, np.ndarray) and functions:
                functions.pop("f").clear_cache()
                settle()
            return super().__new__(cls, a, b)

    x = np.arange(3.0)
    for _ in range(5):
        f = tj.jit(lambda x: Pair(x + 1, x * 2))
        f(x)
        functions["f"] = f
        del f
        a, b = functions["f"](x)
        assert a.tolist() == [1, 2, 3]
        assert b.tolist() == [0, 2, 4]
        functions.clear()
        settle()


def test_threads_call_and_drop_functions_while_others_compile():
    x = np.arange(20_000.0)
    shared = {k: tj.jit(lambda x, k=k: np.sin(x) * k + x) for k in range(4)}
    expected = np.sin(x)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for n in range(60):
                k = (n + seed) % 4
                np.testing.assert_allclose(shared[k](x), expected * k + x, atol=1e-12)
                if n % 7 == seed:
                    shared[k].clear_cache()
                if n % 5 == seed:
                    shared[k] = tj.jit(lambda x, k=k: np.sin(x) * k + x)
                own = tj.jit(lambda x, n=n: x[:100] + n)
                np.testing.assert_array_equal(own(x), x[:100] + n)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@linux
def test_the_limit_of_mappings_is_an_error_and_not_the_end_of_the_process():
    """The mappings are the process's own, nine tenths of what the system allows."""
    script = """
        import ctypes, numpy as np, tracejit as tj
        from tracejit.backends.cpu.runtime import llvm, mappings, processor
        from tracejit.support.errors import CompileError

        x = np.ones(3)
        tj.jit(lambda x: x + 1)(x)
        limit = min(mappings.limit(), 40_000)
        mappings.limit = lambda: limit
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
        libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
        read, write, private_anonymous = 1, 2, 0x22
        base = libc.mmap(None, 8192 * limit, read, private_anonymous, -1, 0)
        for k in range(limit * 45 // 100):  # every other page may be written: each is a mapping of its own
            assert libc.mprotect(base + 8192 * k, 4096, read | write) == 0
        error = None
        for k in range(600):
            try:
                tj.jit(lambda x: x * k)(x)
            except CompileError as found:
                error = found
                break
        print(error)
        libc.munmap(base, 8192 * limit)
        print(tj.jit(lambda x: x + 2)(x).tolist())
    """
    out = run(script)
    assert "memory mappings that the system allows (vm.max_map_count)" in out
    assert "Compile fewer: pass what differs as an argument" in out
    assert out.endswith("[3.0, 3.0, 3.0]\n")


def test_nothing_is_unloaded_while_the_interpreter_exits():
    """Daemon threads stand in compiled code, arrays are freed by it, and functions are dropped in any order."""
    script = """
        import threading, numpy as np, tracejit as tj

        f = tj.jit(lambda x: np.sin(x).sum())
        big = tj.jit(lambda x: x + 1)
        x = np.ones(1 << 22)
        f(x)
        kept = [big(x), f, big]
        cycle = [kept, f]
        cycle.append(cycle)

        def forever():
            while True:
                f(x)

        threading.Thread(target=forever, daemon=True).start()
        print("done")
    """
    assert run(script) == "done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_unloads_only_its_own():
    f = tj.jit(lambda x: x * 7.5)
    x = np.ones(3)
    f(x)
    pid = os.fork()
    if pid == 0:
        try:
            same = f
            assert same(x).tolist() == [7.5] * 3
            del same
            settle()
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    settle()
    assert f(x).tolist() == [7.5] * 3


def test_the_limit_is_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr(llvm, "_unchecked", 0)
    monkeypatch.setattr(mappings, "limit", lambda: 100)
    monkeypatch.setattr(mappings, "count", lambda: 95)
    with pytest.raises(CompileError, match=r"95 of the 100 memory mappings .* Compile fewer"):
        llvm.load(SCALE.format(1.0))
