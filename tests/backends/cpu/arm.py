"""Compiled programs on aarch64, emulated: code emitted by `processor.elsewhere`, linked with a run time of its own,
run by qemu.

What it needs: qemu-aarch64-static (or qemu-aarch64) and aarch64-linux-gnu-ld (or ld.lld) on the path.  There is no C
library: the run time below is LLVM IR over four system calls.  A program reads an image from its standard input (the
argument block, then the arrays), runs, and writes the image to its standard output.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tracejit.backends.base import Backend, Target
from tracejit.backends.cpu.codegen.program import emit_program, slots_of
from tracejit.backends.cpu.runtime import processor
from tracejit.backends.registry import get_backend
from tracejit.ir.extents import evaluate
from tracejit.ir.program import Program
from tracejit.ir.scalar import numpy_dtype

__all__ = ["ArmBackend", "missing"]

IMAGE = 16 << 20  # bytes for arguments and results
ARENA = 64 << 20  # bytes that programs may allocate
SLOTS = 500

_SYSTEM_CALL = (0xAA0003E8, 0xAA0103E0, 0xAA0203E1, 0xAA0303E2, 0xD4000001, 0xD65F03C0)
_RUNTIME = f"""
@image = internal global [{IMAGE} x i8] zeroinitializer, align 64
@arena = internal global [{ARENA} x i8] zeroinitializer, align 64
@slots = internal global [{SLOTS} x i64] zeroinitializer
@used = internal global i64 0
declare i32 @program(ptr)

; i64 @system(i64 %number, i64 %a, ptr %b, i64 %c), as machine code, since llvmlite cannot assemble text for other
; processors:
; mov x8, x0; mov x0, x1; mov x1, x2; mov x2, x3; svc 0; ret
@system = internal constant [6 x i32] [{", ".join(f"i32 {word}" for word in _SYSTEM_CALL)}]

define ptr @tj_alloc(i64 %bytes) {{
  %at = load i64, ptr @used
  %more = add i64 %bytes, 63
  %whole = and i64 %more, -64
  %next = add i64 %at, %whole
  store i64 %next, ptr @used
  %full = icmp ugt i64 %next, {ARENA}
  %p = getelementptr i8, ptr @arena, i64 %at
  %result = select i1 %full, ptr null, ptr %p
  ret ptr %result
}}

define void @tj_free(ptr %block, i64 %bytes) {{
  ret void
}}

define i32 @tj_check_interrupt() {{
  ret i32 0
}}

define void @tj_parallel_for(ptr %function, ptr %argument, i64 %count) {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %out
body:
  call void %function(ptr %argument, i64 %i)
  %j = add i64 %i, 1
  br label %head
out:
  ret void
}}

define i32 @tj_poll(ptr %stop) {{
  ret i32 0
}}

define i32 @tj_parallel_for_interruptible(ptr %function, ptr %argument, i64 %count, ptr %stop) {{
  call void @tj_parallel_for(ptr %function, ptr %argument, i64 %count)
  ret i32 0
}}

define ptr @memset(ptr %p, i32 %value, i64 %n) {{
entry:
  %byte = trunc i32 %value to i8
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %body, label %out
body:
  %q = getelementptr i8, ptr %p, i64 %i
  store volatile i8 %byte, ptr %q
  %j = add i64 %i, 1
  br label %head
out:
  ret ptr %p
}}

define ptr @memcpy(ptr %p, ptr %from, i64 %n) {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %body, label %out
body:
  %q = getelementptr i8, ptr %p, i64 %i
  %r = getelementptr i8, ptr %from, i64 %i
  %byte = load volatile i8, ptr %r
  store volatile i8 %byte, ptr %q
  %j = add i64 %i, 1
  br label %head
out:
  ret ptr %p
}}

define void @_start() {{
entry:
  br label %read
read:                                                        ; until the end of the input
  %at = phi i64 [ 0, %entry ], [ %next, %read ]
  %left = sub i64 {IMAGE}, %at
  %p = getelementptr i8, ptr @image, i64 %at
  %got = call i64 @system(i64 63, i64 0, ptr %p, i64 %left)
  %next = add i64 %at, %got
  %some = icmp sgt i64 %got, 0
  br i1 %some, label %read, label %place
place:                              ; a word of the block is a number, or the place of an array in the image
  %count = load i64, ptr @image
  br label %slot
slot:
  %k = phi i64 [ 0, %place ], [ %k1, %filled ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %fill, label %go
fill:
  %even = mul i64 %k, 2
  %word = add i64 %even, 1
  %kindp = getelementptr i64, ptr @image, i64 %word
  %valuep = getelementptr i64, ptr %kindp, i64 1
  %kind = load i64, ptr %kindp
  %value = load i64, ptr %valuep
  %array = getelementptr i8, ptr @image, i64 %value
  %address = ptrtoint ptr %array to i64
  %plain = icmp eq i64 %kind, 0
  %filling = select i1 %plain, i64 %value, i64 %address
  %target = getelementptr i64, ptr @slots, i64 %k
  store i64 %filling, ptr %target
  br label %filled
filled:
  %k1 = add i64 %k, 1
  br label %slot
go:
  %status = call i32 @program(ptr @slots)
  %wide = zext i32 %status to i64
  br label %write
write:
  %done = phi i64 [ 0, %go ], [ %done1, %write ]
  %from = getelementptr i8, ptr @image, i64 %done
  %rest = sub i64 %at, %done
  %put = call i64 @system(i64 64, i64 1, ptr %from, i64 %rest)
  %done1 = add i64 %done, %put
  %unwritten = icmp slt i64 %done1, %at
  br i1 %unwritten, label %write, label %leave
leave:
  %never = call i64 @system(i64 93, i64 %wide, ptr null, i64 0)
  unreachable
}}
"""


def _tool(*names: str) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)


def missing() -> str:
    """Why programs for aarch64 cannot run here; empty if they can."""
    wanted = {"qemu-aarch64-static": _tool("qemu-aarch64-static", "qemu-aarch64"), "aarch64-linux-gnu-ld": _linker()}
    return ", ".join(name for name, found in wanted.items() if found is None)


def _linker() -> str | None:
    return _tool("aarch64-linux-gnu-ld", "ld.lld")


@cache
def _runtime_object() -> bytes:
    with processor.elsewhere("aarch64") as other:
        return other.object(_RUNTIME)


class ArmProgram:
    """A program that an emulator runs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        with processor.elsewhere("aarch64") as other:
            self.code = emit_program(program)
            self.object = other.object(self.code)

    def run(self, inputs: Sequence[np.ndarray[Any, Any]], dims: dict[str, int]) -> list[np.ndarray[Any, Any]]:
        """The results, in the order of the signature."""
        slots = slots_of(self.program)
        assert len(slots) <= SLOTS
        image = bytearray(8 * (1 + 2 * SLOTS))
        places: list[int] = []

        def place(data: bytes) -> int:
            image.extend(bytes(-len(image) % 64))
            places.append(len(image))
            image.extend(data)
            return places[-1]

        shapes = [tuple(evaluate(n, dims) for n in b.shape) for b in self.program.outputs]
        arrays = [np.ascontiguousarray(a) for a in inputs]
        at = {("data", n): place(a.tobytes()) for n, a in enumerate(arrays)}
        for n, b in enumerate(self.program.outputs):
            size = int(np.prod(shapes[n], dtype=np.int64)) * numpy_dtype(b.dtype).itemsize
            at["out", n] = at["data", self.program.inputs.index(b)] if b.role == "input" else place(bytes(size))
        words = [len(slots)]
        for s in slots:
            match s.kind:
                case "data" | "out":
                    words += [1, at[s.kind, s.number]]
                case "stride":
                    words += [0, arrays[s.number].strides[s.axis]]
                case "dim":
                    words += [0, dims[s.name]]
                case _:
                    words += [0, 0]
        image[: 8 * len(words)] = np.array(words, "<i8").tobytes()
        assert len(image) <= IMAGE
        after = self._emulated(bytes(image))
        return [
            np.frombuffer(after, numpy_dtype(b.dtype), int(np.prod(shape, dtype=np.int64)), at["out", n]).reshape(shape)
            for n, (b, shape) in enumerate(zip(self.program.outputs, shapes, strict=True))
        ]

    def _emulated(self, image: bytes) -> bytes:
        linker, emulator = _linker(), _tool("qemu-aarch64-static", "qemu-aarch64")
        assert linker is not None
        assert emulator is not None
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("program.o", "runtime.o", "program")]
            files[0].write_bytes(self.object)
            files[1].write_bytes(_runtime_object())
            subprocess.run(
                [linker, "-m", "aarch64linux", "-static", "--omagic", "-o", *map(str, (files[2], *files[:2]))],
                check=True,
            )
            done = subprocess.run([emulator, str(files[2])], input=image, capture_output=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"the program ended with status {done.returncode}: {done.stderr.decode()}")
        return done.stdout

    def text(self, stage: str) -> str:
        if stage != "asm":
            return self.code
        with processor.elsewhere("aarch64") as other:
            return other.assembly(self.code)


class ArmBackend(Backend):
    """The CPU backend of a processor that this machine is not."""

    name: ClassVar[str] = "cpu"

    def target(self) -> Target:
        with processor.elsewhere("aarch64"):
            return get_backend("cpu").target()

    def compile(self, program: Program) -> Any:
        return ArmProgram(program)
