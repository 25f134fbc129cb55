"""Programs to one LLVM module: every kernel, loop and call between them is native code; Python is entered once a call.

The entry `i32 @program(ptr slots)` reads its arguments from 64-bit words in the order of `slots_of`.
"""

from __future__ import annotations

from typing import assert_never

from tracejit.backends.cpu.codegen import library
from tracejit.backends.cpu.codegen.arithmetic import emit_op
from tracejit.backends.cpu.codegen.branches import emit_if
from tracejit.backends.cpu.codegen.counting import counted_loop
from tracejit.backends.cpu.codegen.emit import FunctionEmitter, Module
from tracejit.backends.cpu.codegen.lanes import emit_prefix
from tracejit.backends.cpu.codegen.loops import emit_for
from tracejit.backends.cpu.codegen.memory import (
    GUARD,
    emit_alloc,
    emit_atomic,
    emit_load,
    emit_store,
    emit_stores,
    guarded,
    on_stack,
    poison,
)
from tracejit.backends.cpu.codegen.polls import NO_MEMORY, Lengths
from tracejit.backends.cpu.codegen.shared import shared_kernels
from tracejit.backends.cpu.codegen.threads import scans
from tracejit.backends.cpu.codegen.whiles import emit_while
from tracejit.backends.entry import ProgramSlot
from tracejit.backends.words import Word
from tracejit.ir.extents import Dim, Extent, prod
from tracejit.ir.kernel import Alloc, Atomic, Buffer, For, If, Kernel, Load, Op, Prefix, Store, While
from tracejit.ir.program import (
    BindExtent,
    Branch,
    Call,
    Check,
    Copy,
    CountedLoop,
    Launch,
    Program,
    ProgramBuffer,
    Steps,
    Swap,
    WhileLoop,
    walk_steps,
)
from tracejit.ir.scalar import BITS, is_complex
from tracejit.ir.schedule import Grid
from tracejit.support.config import config
from tracejit.support.errors import ScheduleError

__all__ = ["FAILED_CHECK", "OUT_OF_MEMORY", "emit_program", "slots_of"]


WRITERS = {
    Op: emit_op, Alloc: emit_alloc, Load: emit_load, Store: emit_store, Atomic: emit_atomic,
    For: emit_for, While: emit_while, If: emit_if, Prefix: emit_prefix,
}  # fmt: skip
"""What writes a statement of a kernel."""


def slots_of(program: Program, scalars: frozenset[int] = frozenset()) -> tuple[ProgramSlot, ...]:
    """The argument block of a program: inputs with their strides, extents,
    outputs.  Inputs in `scalars` lie in the block itself.
    """
    out: list[ProgramSlot] = []
    for n, b in enumerate(program.inputs):
        if n in scalars and is_complex(b.dtype):
            out += [ProgramSlot("scalar", n, part) for part in (0, 1)]
        else:
            out.append(ProgramSlot("scalar" if n in scalars else "data", n))
        if b.layout != "C":
            out += [ProgramSlot("stride", n, axis) for axis in range(len(b.shape))]
    out += [ProgramSlot("dim", name=d) for d in program.dims]
    # others lie in arguments
    out += [ProgramSlot("out", n) for n, b in enumerate(program.outputs) if b.role == "output"]
    if program.checked:
        out.append(ProgramSlot("failure"))
    return tuple(out)


def item_size(dtype: str) -> int:
    """Bytes of an element in memory, where a boolean takes one."""
    return 1 if dtype == "bool" else BITS[dtype] // 8


OUT_OF_MEMORY = 2
"""The status of a program that could not have the memory for its intermediate arrays."""
FAILED_CHECK = 3
"""The status of a program in which a check has failed."""
_NO_MACHINE = 1 << 50  # bytes


class _ProgramEmitter:
    def __init__(self, program: Program, module: Module, name: str, scalars: frozenset[int]) -> None:
        self.program = program
        self.scalars = scalars
        self.module = module
        self.e = FunctionEmitter(module, name)
        self.name = name
        self.pointers: dict[ProgramBuffer, str] = {}  # the alloca that holds the pointer
        self.strides: dict[ProgramBuffer, list[str]] = {}
        self.kernels: dict[int, tuple[str, bool]] = {}
        self.shared = shared_kernels(program)
        self.stop = ""  # the word that says that a kernel was left early
        self.moving = {b for s in walk_steps(program.steps) if isinstance(s, Swap) for b in (s.a, s.b)}
        self.fixed: dict[ProgramBuffer, str] = {}
        self.homes: dict[ProgramBuffer, str] = {}
        self.failure = ""  # where a failed check puts what it has found

    def emit(self) -> None:
        e = self.e
        for n, slot in enumerate(slots_of(self.program, self.scalars)):
            pointer = self._entry(f"getelementptr i64, ptr %slots, i64 {n}")
            match slot.kind:
                case "data":
                    self.place(self.program.inputs[slot.number], self._entry(f"load ptr, ptr {pointer}"))
                case "scalar":
                    if not slot.axis:
                        self.place(self.program.inputs[slot.number], pointer)
                case "stride":
                    self.strides.setdefault(self.program.inputs[slot.number], []).append(
                        self._entry(f"load i64, ptr {pointer}")
                    )
                case "dim":
                    e.dims[slot.name] = self._entry(f"load i64, ptr {pointer}")
                case "failure":
                    self.failure = pointer
                case _:
                    self.fresh(self.program.outputs[slot.number], self._entry(f"load ptr, ptr {pointer}"))
        for b in self.program.temporaries:
            self.allocate(b)
        self.steps(self.program.steps)
        self.settle()
        e.finish(f"i32 @{self.name}(ptr %slots)", "i32", "0", str(OUT_OF_MEMORY))

    def settle(self) -> None:
        """Outputs whose memory was exchanged with a temporary's are copied home."""
        for b in self.program.outputs:
            if b in self.pointers:
                home = ProgramBuffer(b.name, b.dtype, b.shape, b.role)
                self.fixed[home] = self.homes[b]
                self.copy(Copy(home, b))

    def _entry(self, text: str) -> str:
        return self.e.at(self.e.entry, lambda: self.e.line(text))

    def place(self, b: ProgramBuffer, register: str) -> None:
        """Bind a buffer to its pointer; one that is swapped lives in a variable."""
        if b not in self.moving:
            self.fixed[b] = register
            return
        variable = self._entry("alloca ptr")
        self.homes[b] = register
        self.e.entry.append(f"  store ptr {register}, ptr {variable}")
        self.pointers[b] = variable

    def fresh(self, b: ProgramBuffer, register: str) -> None:
        """Bind a buffer to memory that holds nothing yet."""
        self.place(b, register)
        if config.poison:
            poison(self.e, register, self.nbytes(b), b.dtype)

    def pointer(self, b: ProgramBuffer) -> str:
        fixed = self.fixed.get(b)
        return fixed if fixed is not None else self.e.line(f"load ptr, ptr {self.pointers[b]}")

    def nbytes(self, b: ProgramBuffer) -> str:
        """The size in bytes; one that no machine has where the true one might not fit 64 bits."""
        return self.bytes_of(prod(b.room) * item_size(b.dtype))

    def bytes_of(self, size: Extent) -> str:
        if not isinstance(size, Dim):
            return str(min(size, _NO_MACHINE))
        e, approximate = self.e, "0.0"
        for monomial, coefficient in size.terms:
            if all(isinstance(a, str) for a in monomial):
                term = f"{float(coefficient):e}"
                for a in monomial:
                    term = self._entry(f"fmul double {term}, {self._entry(f'sitofp i64 {e.dim(str(a))} to double')}")
                approximate = self._entry(f"fadd double {approximate}, {term}")
        huge = self._entry(f"fcmp ogt double {approximate}, {float(_NO_MACHINE):e}")
        return self._entry(f"select i1 {huge}, i64 {_NO_MACHINE}, i64 {e.polynomial(size)}")

    def allocate(self, b: ProgramBuffer) -> None:
        e, size = self.e, prod(b.room) * item_size(b.dtype)
        guards = 2 * GUARD if config.poison else 0
        if isinstance(size, int) and on_stack(e, max(size, 8) + guards, 4096 + guards):
            pointer = self._entry(f"alloca [{max(size, 8) + guards} x i8], align 64")
            self.fresh(b, guarded(e, pointer, str(max(size, 8))))
            return
        nbytes = whole = self.nbytes(b)
        if guards:
            whole = self._entry(f"add i64 {nbytes}, {guards}")
        e.declare("@tj_alloc", "declare ptr @tj_alloc(i64)")
        e.declare("@tj_free", "declare void @tj_free(ptr, i64)")
        pointer = self._entry(f"call ptr @tj_alloc(i64 {whole})")
        e.required.append(pointer)
        inside = guarded(e, pointer, nbytes)
        e.exit.append(f"  call void @tj_free(ptr {pointer}, i64 {whole})")
        self.fresh(b, inside)

    def steps(self, steps: Steps) -> None:
        """Write a block; the extents that it binds are bound in it only."""
        bound: set[str] = set()
        for s in steps:
            match s:
                case Launch():
                    self.launch(s)
                case Call():
                    library.call(
                        self.e, s, [self.pointer(a) if isinstance(a, ProgramBuffer) else "" for a in s.arguments]
                    )
                case Copy():
                    self.copy(s)
                case Swap():
                    a, b = self.pointer(s.a), self.pointer(s.b)
                    self.e.put(f"store ptr {b}, ptr {self.pointers[s.a]}")
                    self.e.put(f"store ptr {a}, ptr {self.pointers[s.b]}")
                case CountedLoop():
                    self.counted(s)
                case WhileLoop():
                    self.while_loop(s)
                case Branch():
                    self.branch(s)
                case BindExtent():
                    self.e.dims[s.index] = self.e.line(f"load i64, ptr {self.pointer(s.count)}")
                    self.e.indices |= {s.index}
                    bound.add(s.index)
                case Check():
                    self.check(s)
                case _:
                    assert_never(s)
        for index in bound:
            del self.e.dims[index]
        self.e.indices -= bound

    def launch(self, s: Launch) -> None:
        grid = next((d for d in s.schedule.directives if isinstance(d, Grid)), None)
        if grid is not None:
            raise ScheduleError(f"{grid}: the cpu backend has no grid; its loops are scheduled one by one")
        kernel, offsets = self.shared.get(id(s.kernel), (s.kernel, ()))
        found = self.kernels.get(id(kernel))
        if found is None:
            found = self.kernels[id(kernel)] = emit_kernel(self.module, kernel)
        name, polled = found
        arguments: list[str] = []
        for parameter, b in zip(s.kernel.buffers, s.arguments, strict=True):
            arguments.append(f"ptr {self.pointer(b)}")
            if parameter.layout != "C":
                arguments += [f"i64 {r}" for r in self.strides[b]]
        arguments += [f"i64 {self.e.dim(d)}" for d in s.kernel.dims]
        arguments += [f"i64 {offset}" for offset in offsets]
        if polled:
            arguments.append(f"ptr {self.stop_word()}")
        self.e.put(f"call void @{name}({', '.join(arguments)})")
        if polled:
            stopped = self.e.line(f"load atomic i32, ptr {self.stop} monotonic, align 4")
            lacking, status = (f"%{self.e.fresh_label(name)}" for name in ("lacking", "status"))
            self.leave_if(
                self.e.line(f"icmp ne i32 {stopped}, 0"), status,
                f"{lacking} = icmp eq i32 {stopped}, {NO_MEMORY}",
                f"{status} = select i1 {lacking}, i32 {OUT_OF_MEMORY}, i32 -1",
            )  # fmt: skip

    def stop_word(self) -> str:
        if not self.stop:
            self.stop = self._entry("alloca i32")
            self.e.entry.append(f"  store i32 0, ptr {self.stop}")
        return self.stop

    def copy(self, s: Copy) -> None:
        e, target, source = self.e, self.pointer(s.target), self.pointer(s.source)
        nbytes = self.nbytes(s.target)
        same = e.line(f"icmp eq ptr {target}, {source}")
        run, done = e.fresh_label("copy"), e.fresh_label("copied")
        e.put(f"br i1 {same}, label %{done}, label %{run}")
        e.start(run)
        e.declare("@llvm.memcpy.p0.p0.i64", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        e.put(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {nbytes}, i1 false)")
        e.put(f"br label %{done}")
        e.start(done)

    def interrupted(self) -> None:
        """Leave the program if the user pressed Ctrl-C; asked between iterations,
        which costs a load and rarely more.
        """
        e = self.e
        e.declare("@tj_check_interrupt", "declare i32 @tj_check_interrupt()")
        code = e.line("call i32 @tj_check_interrupt()")
        self.leave_if(e.line(f"icmp ne i32 {code}, 0"), -1)

    def check(self, s: Check) -> None:
        found = self.e.line(f"load i64, ptr {self.pointer(s.failure)}")
        self.leave_if(self.e.line(f"icmp ne i64 {found}, 0"), FAILED_CHECK, f"store i64 {found}, ptr {self.failure}")

    def leave_if(self, condition: str, status: int | str, *last: str) -> None:
        """Return `status` where the condition holds, after the lines `last` and what every way out does."""
        e = self.e
        leave, go = e.fresh_label("leave"), e.fresh_label("go")
        e.put(f"br i1 {condition}, label %{leave}, label %{go}")
        e.start(leave)
        for text in last:
            e.put(text)
        e.return_from(str(status))
        e.start(go)

    def counted(self, s: CountedLoop) -> None:
        count = self.e.polynomial(s.count) if isinstance(s.count, Dim) else str(s.count)

        def body(index: str) -> list[Word]:
            self.interrupted()
            if s.index == "_":
                self.steps(s.body)
                return []
            self.e.dims[s.index] = index
            around = self.e.indices
            self.e.indices = around | {s.index}
            self.steps(s.body)
            self.e.indices = around
            del self.e.dims[s.index]
            return []

        counted_loop(self.e, "0", count, 1, [], [], body)

    def flag(self, b: ProgramBuffer) -> str:
        byte = self.e.line(f"load i8, ptr {self.pointer(b)}")
        return self.e.line(f"trunc i8 {byte} to i1")

    def while_loop(self, s: WhileLoop) -> None:
        e = self.e
        head, body, done = e.fresh_label("while"), e.fresh_label("do"), e.fresh_label("done")
        e.enter()
        e.put(f"br label %{head}")
        e.start(head)
        self.steps(s.condition)
        e.put(f"br i1 {self.flag(s.flag)}, label %{body}, label %{done}")
        e.start(body)
        self.interrupted()
        self.steps(s.body)
        e.put(f"br label %{head}")
        e.leave()
        e.start(done)

    def branch(self, s: Branch) -> None:
        e = self.e
        then, orelse, done = e.fresh_label("then"), e.fresh_label("else"), e.fresh_label("endif")
        e.put(f"br i1 {self.flag(s.flag)}, label %{then}, label %{orelse}")
        for label, steps in ((then, s.then), (orelse, s.orelse)):
            e.enter()
            e.start(label)
            self.steps(steps)
            e.put(f"br label %{done}")
            e.leave()
        e.start(done)


def emit_kernel(module: Module, kernel: Kernel) -> tuple[str, bool]:
    """One kernel as an internal function: its name, and whether it may be left early (then it takes the address of a
    stop word).
    """
    name = module.fresh(kernel.name)
    e = FunctionEmitter(module, name)
    e.lengths = Lengths(kernel.body)
    parameters: list[str] = []
    for n, b in enumerate(kernel.buffers):
        parameters.append(f"ptr noalias %a{n}")
        strides: list[str] = []
        if b.layout != "C":
            strides = [f"%a{n}.s{axis}" for axis in range(len(b.shape) - (b.layout == "unit"))]
            parameters += [f"i64 {s}" for s in strides]
        bind_buffer(e, b, f"%a{n}", strides)
    for d in kernel.dims:
        parameters.append(f"i64 %n.{d}")
        e.dims[d] = f"%n.{d}"
    scans(e, kernel.body)
    e.block(kernel.body)
    if e.polled:
        parameters.append("ptr %stop")
    e.finish(f"internal void @{name}({', '.join(parameters)})")
    return name, e.polled


def bind_buffer(e: FunctionEmitter, b: Buffer, pointer: str, strides: list[str]) -> None:
    """Let a buffer lie where the register `pointer` says; `strides`, in bytes, are empty where it is row-major."""
    e.buffers[b] = (pointer, strides)


def emit_program(program: Program, name: str = "program", scalars: frozenset[int] = frozenset()) -> str:
    """The LLVM IR text of a program."""
    module = Module(WRITERS, emit_stores)
    _ProgramEmitter(program, module, name, scalars).emit()
    return module.text()
