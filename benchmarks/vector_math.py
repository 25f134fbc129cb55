"""Compiles an expansion of `tracejit.ir.math` alone into a vector loop: the fast way to test it densely and to time it.

`VectorBuilder` writes LLVM IR for `width` lanes; `compile_function("exp", "f32")` is a callable over contiguous arrays.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from attrs import define, field, frozen

from tracejit.ir.math import expand
from tracejit.ir.scalar import BITS, is_float, is_signed, numpy_dtype

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

INTRINSICS = {"abs": "fabs"} | {
    name: name for name in ("fma", "sqrt", "floor", "ceil", "trunc", "roundeven", "copysign")
}
FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "neg": "fneg"}
INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "irem": "srem"}
FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
SHIFTS = {"shl": "shl", "shr": "ashr", "lshr": "lshr"}


@frozen
class Lane:
    """An operand: its LLVM name and its kernel dtype."""

    text: str
    dtype: str


def scalar_type(dtype: str) -> str:
    return {"bool": "i1", "f16": "half", "f32": "float", "f64": "double"}.get(dtype) or f"i{BITS[dtype]}"


def literal(value: float | int, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return str(int(value))
    rounded = float(numpy_dtype(dtype).type(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


@define
class VectorBuilder:
    """A ScalarBuilder whose operands are LLVM vectors of `width` lanes."""

    width: int
    lines: list[str] = field(factory=list)
    declared: set[str] = field(factory=set)
    count: int = 0
    block: str = "loop"
    operations: int = 0

    def vector(self, dtype: str) -> str:
        return f"<{self.width} x {scalar_type(dtype)}>"

    def emit(self, text: str, dtype: str) -> Lane:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return Lane(f"%v{self.count}", dtype)

    def const(self, value: float | int, dtype: str) -> Lane:
        return Lane(f"splat ({scalar_type(dtype)} {literal(value, dtype)})", dtype)

    def op(self, name: str, *args: Lane, dtype: str | None = None) -> Lane:
        self.operations += name != "bitcast"
        last = args[-1].dtype
        kind = self.vector(last)
        names = [a.text for a in args]
        if name in FLOAT_COMPARE:
            sign = "" if name in ("eq", "ne") else "s" if is_signed(last) else "u"
            predicate = FLOAT_COMPARE[name] if is_float(last) else sign + name
            return self.emit(
                f"{'fcmp' if is_float(last) else 'icmp'} {predicate} {kind} {names[0]}, {names[1]}", "bool"
            )
        if name == "select":
            return self.emit(f"select {self.vector('bool')} {names[0]}, {kind} {names[1]}, {kind} {names[2]}", last)
        if name == "bitcast":
            assert dtype is not None
            return self.emit(f"bitcast {kind} {names[0]} to {self.vector(dtype)}", dtype)
        if name == "convert":
            assert dtype is not None
            return self.convert(args[0], dtype)
        if name in SHIFTS:
            return self.shift(name, args)
        if name == "not":
            return self.emit(
                f"xor {kind} {names[0]}, splat ({scalar_type(last)} {'true' if last == 'bool' else -1})", last
            )
        if is_float(last) and name in INTRINSICS:
            return self.intrinsic(INTRINSICS[name], args)
        if is_float(last):
            return self.emit(f"{FLOAT[name]} {kind} " + ", ".join(names), last)
        if name == "neg":
            return self.emit(f"sub {kind} zeroinitializer, {names[0]}", last)
        return self.emit(f"{INTEGER[name]} {kind} {names[0]}, {names[1]}", last)

    def intrinsic(self, name: str, args: tuple[Lane, ...]) -> Lane:
        kind = self.vector(args[-1].dtype)
        symbol = f"@llvm.{name}.v{self.width}{args[-1].dtype}"
        self.declared.add(f"declare {kind} {symbol}({', '.join([kind] * len(args))})")
        return self.emit(f"call {kind} {symbol}({', '.join(f'{kind} {a.text}' for a in args)})", args[-1].dtype)

    def shift(self, name: str, args: tuple[Lane, ...]) -> Lane:
        kind, bits = self.vector(args[0].dtype), BITS[args[0].dtype]
        if args[1].text.startswith("splat"):
            return self.emit(f"{SHIFTS[name]} {kind} {args[0].text}, {args[1].text}", args[0].dtype)
        limit = self.const(bits, args[0].dtype).text
        inside = self.emit(f"icmp ult {kind} {args[1].text}, {limit}", "bool")
        moved = self.emit(f"{SHIFTS[name]} {kind} {args[0].text}, {args[1].text}", args[0].dtype)
        return self.emit(
            f"select {self.vector('bool')} {inside.text}, {kind} {moved.text}, {kind} zeroinitializer", args[0].dtype
        )

    def convert(self, x: Lane, dtype: str) -> Lane:
        source, target = is_float(x.dtype), is_float(dtype)
        if source and target:
            word = "fpext" if BITS[dtype] > BITS[x.dtype] else "fptrunc"
        elif target:
            word = "sitofp" if is_signed(x.dtype) else "uitofp"
        elif source:
            word = "fptosi" if is_signed(dtype) else "fptoui"
        elif BITS[dtype] == BITS[x.dtype]:
            word = "bitcast"
        else:
            word = (
                "trunc"
                if BITS[dtype] < BITS[x.dtype]
                else "sext"
                if is_signed(x.dtype) and x.dtype != "bool"
                else "zext"
            )
        return self.emit(f"{word} {self.vector(x.dtype)} {x.text} to {self.vector(dtype)}", dtype)

    def rare(self, condition: Lane, then: Callable[[], Lane], otherwise: Lane) -> Lane:
        self.count += 1
        tag = self.count
        start, masks = self.block, f"i{self.width}"
        self.lines.append(f"  %m{tag} = bitcast {self.vector('bool')} {condition.text} to {masks}")
        self.lines.append(f"  %any{tag} = icmp ne {masks} %m{tag}, 0")
        self.lines.append(f"  br i1 %any{tag}, label %rare{tag}, label %join{tag}, !prof !0\nrare{tag}:")
        self.block = f"rare{tag}"
        chosen = self.op("select", condition, then(), otherwise)
        self.lines.append(f"  br label %join{tag}\njoin{tag}:")
        inner, self.block = self.block, f"join{tag}"
        return self.emit(
            f"phi {self.vector(otherwise.dtype)} [ {chosen.text}, %{inner} ], [ {otherwise.text}, %{start} ]",
            otherwise.dtype,
        )


def module_text(name: str, dtype: str, arity: int, width: int) -> tuple[str, int]:
    """LLVM IR of `void kernel(out, in..., n)`, n a multiple of `width`, and the number of operations written."""
    b = VectorBuilder(width)
    kind, size = b.vector(dtype), BITS[dtype] // 8
    pointers = ["%out", *(f"%in{k}" for k in range(arity))]
    for k in range(arity):
        b.lines.append(
            f"  %p{k} = getelementptr {scalar_type(dtype)}, ptr %in{k}, i64 %i\n  %x{k} = load {kind}, ptr %p{k}, "
            f"align {size}"
        )
    result = expand(name, b, *(Lane(f"%x{k}", dtype) for k in range(arity)))
    body = "\n".join(b.lines)
    return (
        f"define void @kernel({', '.join(f'ptr noalias {p}' for p in pointers)}, i64 %n) {{\n"
        f"entry:\n  br label %head\nhead:\n  %i = phi i64 [ 0, %entry ], [ %next, %{b.block} ]\n"
        f"  br label %loop\nloop:\n{body}\n"
        f"  %po = getelementptr {scalar_type(dtype)}, ptr %out, i64 %i\n  store {kind} {result.text}, ptr %po, align "
        f"{size}\n"
        f"  %next = add i64 %i, {width}\n  %more = icmp ult i64 %next, %n\n  br i1 %more, label %head, label "
        "%exit\nexit:\n  ret void\n}\n"
        + "\n".join(sorted(b.declared))
        + '\n!0 = !{!"branch_weights", i32 1, i32 2000}\n'
    ), b.operations


@define
class VectorFunction:
    """A compiled expansion: `f(x, ...)` over contiguous arrays of one length, any length."""

    arity: int
    dtype: np.dtype[Any]
    width: int
    operations: int
    assembly: str
    _call: Any
    _engine: Any

    def prepared(self, out: np.ndarray, *args: np.ndarray) -> Callable[[], None]:
        """A call that fills `out`; every length is a multiple of the width."""
        pointers = [a.ctypes.data for a in (out, *args)]
        return lambda: self._call(*pointers, out.size)

    def __call__(self, *args: Any) -> np.ndarray:
        arrays = np.broadcast_arrays(*(np.asarray(a, self.dtype) for a in args))
        shape, size = arrays[0].shape, arrays[0].size
        padded = [np.resize(a.ravel(), max(self.width, -(-size // self.width) * self.width)) for a in arrays]
        out = np.empty_like(padded[0])
        self.prepared(out, *padded)()
        return out[:size].reshape(shape)


def compile_function(
    name: str, dtype: str, arity: int = 1, width: int | None = None, cpu: str | None = None
) -> VectorFunction:
    """The expansion of `name` compiled for this machine, 512-bit vectors where it has them, else 256."""
    features = llvm.get_host_cpu_features()
    if width is None:
        width = (512 if features.get("avx512f") and cpu is None else 256) // BITS[dtype]
    text, operations = module_text(name, dtype, arity, width)
    module = llvm.parse_assembly(text)
    module.verify()
    flags = features.flatten() + (",-prefer-256-bit" if width * BITS[dtype] == 512 else "")
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=cpu or llvm.get_host_cpu_name(), features="" if cpu else flags, opt=3)
    assembly = machine.emit_assembly(module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)
    return VectorFunction(
        arity, numpy_dtype(dtype), width, operations, assembly, prototype(engine.get_function_address("kernel")), engine
    )
