"""Loading LLVM IR text: addresses, symbols, passes, objects, errors."""

import ctypes
import gc
import subprocess
import sys
import threading

import pytest

from tracejit.backends.cpu.runtime import llvm, processor
from tracejit.support.errors import CompileError

ADD = "define i64 @f(i64 %x) {{ %y = add i64 %x, {}\n ret i64 %y }}"
LOOP_OF_LOADS = """
define i64 @f(i64 %n) {
entry:
  %cell = alloca i64
  store i64 0, ptr %cell
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %a = load i64, ptr %cell
  %b = add i64 %a, %i
  store i64 %b, ptr %cell
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %n
  br i1 %more, label %loop, label %out
out:
  %r = load i64, ptr %cell
  ret i64 %r
}
"""


def call(library: llvm.Library, *arguments: int, symbol: str = "f") -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))(library.address(symbol))(*arguments)


def test_modules_may_repeat_each_others_names():
    libraries = [llvm.load(ADD.format(k)) for k in range(20)]
    assert [call(library, 100) for library in libraries] == list(range(100, 120))


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("passes", [None, "sroa", "sroa,loop-rotate,instcombine,simplifycfg", "O1", "O2", "O3"])
def test_every_way_of_compiling_computes_the_same(passes, quick):
    assert call(llvm.load(LOOP_OF_LOADS, passes=passes, quick=quick), 1000) == 499500


@pytest.mark.parametrize("name", llvm.pass_names())
def test_every_pass_that_is_offered_runs(name):
    assert call(llvm.load(LOOP_OF_LOADS, passes=name), 10) == 45


def test_passes_change_the_code_and_none_runs_unasked():
    assert "(%rsp)" in llvm.load(LOOP_OF_LOADS).assembly() or "[sp" in llvm.load(LOOP_OF_LOADS).assembly()
    assert "(%rsp)" not in llvm.load(LOOP_OF_LOADS, passes="sroa").assembly()


def test_a_defined_symbol_reaches_functions_and_variables_however_far_away():
    cell = ctypes.c_int64(41)
    callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: x * 2)
    llvm.define_symbol("test_llvm_cell", ctypes.addressof(cell))
    llvm.define_symbol("test_llvm_double", ctypes.cast(callback, ctypes.c_void_p).value)
    text = """
    @test_llvm_cell = external global i64
    declare i64 @test_llvm_double(i64)
    define i64 @f() { %v = load i64, ptr @test_llvm_cell
      %w = call i64 @test_llvm_double(i64 %v)
      ret i64 %w }"""
    library = llvm.load(text)
    assert call(library) == 82
    cell.value = 4
    assert call(library) == 8
    assert call(llvm.load_object(library.object)) == 8
    assert llvm.symbols()["test_llvm_cell"] == ctypes.addressof(cell)


def test_symbols_of_one_module_come_before_the_common_ones():
    cells = [ctypes.c_int64(k) for k in (1, 2)]
    llvm.define_symbol("test_llvm_own", ctypes.addressof(cells[0]))
    text = "@test_llvm_own = external global i64\ndefine i64 @f() { %v = load i64, ptr @test_llvm_own\n ret i64 %v }"
    assert call(llvm.load(text)) == 1
    assert call(llvm.load(text, symbols={"test_llvm_own": ctypes.addressof(cells[1])})) == 2


def test_a_symbol_keeps_its_address():
    llvm.define_symbol("test_llvm_kept", 4096)
    llvm.define_symbol("test_llvm_kept", 4096)
    with pytest.raises(ValueError, match="'test_llvm_kept' cannot mean 0x2000; it is 0x1000 already"):
        llvm.define_symbol("test_llvm_kept", 8192)
    with pytest.raises(ValueError, match="cannot mean 0x0"):
        llvm.define_symbol("test_llvm_null", 0)
    assert "test_llvm_null" not in llvm.symbols()


def test_symbols_of_the_process_are_found():
    library = llvm.load("declare i64 @labs(i64)\ndefine i64 @f(i64 %x) { %y = call i64 @labs(i64 %x)\n ret i64 %y }")
    assert call(library, -5) == 5


def test_a_text_that_does_not_parse_is_an_error_with_llvms_message():
    text = "define i64 @f() { ret i32 0 }"
    with pytest.raises(CompileError, match="LLVM refuses the generated IR") as caught:
        llvm.load(text)
    assert caught.value.source == text
    assert "value doesn't match function result type 'i64'" in caught.value.log


def test_a_text_that_does_not_verify_is_an_error():
    text = "define i64 @f(i1 %c) { br i1 %c, label %a, label %b\na: %x = add i64 1, 2\n br label %b\nb: ret i64 %x }"
    with pytest.raises(CompileError) as caught:
        llvm.load(text)
    assert "does not dominate" in caught.value.log


def test_a_missing_symbol_is_named():
    text = (
        "declare i64 @test_llvm_nowhere()\ndeclare i64 @labs(i64)\ndefine i64 @f() { %y = call i64 "
        "@test_llvm_nowhere()\n ret i64 %y }"
    )
    with pytest.raises(CompileError, match=r"These symbols are not defined: test_llvm_nowhere\.\n"):
        llvm.load(text)
    assert call(llvm.load(ADD.format(1)), 1) == 2, "the JIT survives a failed link"


def test_errors_leave_nothing_that_the_collector_frees_in_a_wrong_order():
    unverified = "define i64 @f() { br label %a\na: %x = add i64 %x, 2\n ret i64 %x }"
    for _ in range(20):
        for text, passes in (("define", None), (unverified, None), (ADD.format(1), "?")):
            try:
                llvm.load(text, passes=passes)
            except CompileError as error:
                error.cycle = error
    gc.collect()


def test_an_unknown_pass_and_an_unknown_symbol_are_errors():
    with pytest.raises(CompileError, match=r"Unknown pass 'licm'\. Known: adce"):
        llvm.load(ADD.format(1), passes="licm")
    with pytest.raises(CompileError, match="defines no symbol 'g'"):
        llvm.load(ADD.format(1)).address("g")


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: b"garbage", lambda data: data[:200], lambda data: b"\0" * len(data)]
)
def test_a_damaged_object_is_an_error(damage):
    data = llvm.load(ADD.format(7)).object
    with pytest.raises(CompileError):
        llvm.load_object(damage(data)).address("f")


def test_an_object_loads_in_another_process(tmp_path):
    library = llvm.load("""
        @c = private constant [2 x i64] [i64 3, i64 39]
        define i64 @f() {
          %p = getelementptr i64, ptr @c, i64 1
          %a = load i64, ptr @c
          %b = load i64, ptr %p
          %s = add i64 %a, %b
          ret i64 %s
        }""")
    (tmp_path / "code.o").write_bytes(library.object)
    script = f"""
import ctypes, pathlib
from tracejit.backends.cpu.runtime import llvm, processor
library = llvm.load_object(pathlib.Path({str(tmp_path / "code.o")!r}).read_bytes())
print(ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("f"))(), processor.fingerprint(), sep="|", end="")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"42|{processor.fingerprint()}"


def test_threads_may_load_at_the_same_time():
    results: dict[int, int] = {}

    def work(k: int) -> None:
        for j in range(10):
            results[10 * k + j] = call(llvm.load(ADD.format(10 * k + j)), 0)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: k for k in range(40)}


def test_importing_does_not_import_llvm():
    script = (
        "import sys; from tracejit.backends.cpu.runtime import llvm, pool, memory; print('llvmlite' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_vectors_of_the_natural_width_stay_whole():
    bits = processor.vector_bits()
    assert bits in (128, 256, 512)
    lanes = bits // 32
    text = (
        f"define void @f(ptr %x) {processor.attributes()} {{ %v = load <{lanes} x float>, ptr %x, align 4\n %w = fadd "
        f"<{lanes} x float> %v, %v\n"
        f" store <{lanes} x float> %w, ptr %x, align 4\n ret void }}"
    )
    library = llvm.load(text)
    assembly = library.assembly()
    data = (ctypes.c_float * lanes)(*range(lanes))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("f"))(ctypes.addressof(data))
    assert list(data) == [2.0 * k for k in range(lanes)]
    register = {128: "xmm", 256: "ymm", 512: "zmm"}[bits]
    if "%rdi" in assembly:
        assert f"%{register}0" in assembly
        assert assembly.count("add") == 1


def test_the_assembly_of_an_object_is_refused():
    with pytest.raises(CompileError, match="neither IR nor assembly is kept"):
        llvm.load_object(llvm.load(ADD.format(1)).object).assembly()


def test_a_comparison_that_no_bool_decides_is_not_left_to_llvm():
    """LLVM 22 ends the process where it finds two equal constants behind such a comparison, one through a select,
    and spreads both."""
    text = (
        "import numpy as np, tracejit as tj\n"
        "@tj.jit\n"
        "def f(x):\n"
        "    y = np.ones(5, 'f4') + (x < -129)\n"
        "    return y, np.fmax(0, y)\n"
        "print(*f(np.array(True)))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1. 1. 1. 1. 1.] [1. 1. 1. 1. 1.]"
