"""OpenCL C 1.2: its words, its intrinsics, and what a device can do.

Source: OpenCL C 1.2 specification, sections 6.1 (types), 6.12.1 (work-items), 6.12.8 (barriers), 6.12.11 (atomics) and
the cl_khr_fp64, cl_khr_int64_base_atomics and cl_khr_int64_extended_atomics extensions.
"""

from __future__ import annotations

from tracejit.backends.c_scalar import Dialect, Intrinsics, scalar_intrinsics
from tracejit.ir.scalar import BITS, DTYPES, OPS, is_float
from tracejit.support.nodes import frozen

__all__ = ["Capabilities", "dialect", "intrinsics"]

_TYPES = {
    "bool": "bool", "i8": "char", "i16": "short", "i32": "int", "i64": "long", "u8": "uchar", "u16": "ushort",
    "u32": "uint", "u64": "ulong", "f16": "float", "f32": "float", "f64": "double",
}  # fmt: skip
_STORAGE = {**_TYPES, "bool": "uchar", "f16": "ushort"}
_SPACES = {"global": "__global", "shared": "__local", "local": ""}


@frozen
class Capabilities:
    """What code generation must know of a device.

    fp64, int64_atomics: available.  more_int64_atomics: minima, maxima and bits too.  correct_divide: f32 division and
    square root are correctly rounded when asked.  group: the largest work-group.  shared: bytes of local memory.
    software: runs on the host's processor.  clang_builtins: the compiler is Clang for a processor with these
    instructions.  vector_bits: of that processor's vectors, which kernels are then written for; 0 where the compiler
    makes them.
    """

    fp64: bool = True
    int64_atomics: bool = True
    more_int64_atomics: bool = True
    correct_divide: bool = True
    group: int = 256
    shared: int = 32768
    software: bool = False
    clang_builtins: bool = False
    vector_bits: int = 0

    @property
    def build_options(self) -> list[str]:
        """Compiler options that make arithmetic IEEE where the device can;
        warnings are for authors of the text, not for users.
        """
        return ["-cl-std=CL1.2", "-w"] + (["-cl-fp32-correctly-rounded-divide-sqrt"] if self.correct_divide else [])


def dialect(capabilities: Capabilities) -> Dialect:
    """OpenCL C for a device.  Contraction is off: a user's multiply and add are never one operation.

    A GPU's compiler is told how large groups are: on an H200 the sums of rows are then 17 % faster.
    """
    lines = ["#pragma OPENCL FP_CONTRACT OFF"]
    if capabilities.fp64:
        lines.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
    if capabilities.int64_atomics:
        lines.append("#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable")
    if capabilities.more_int64_atomics:
        lines.append("#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable")
    return Dialect(
        name="OpenCL C",
        backend="opencl",
        types=_TYPES,
        storage=_STORAGE,
        suffixes={"i64": "L", "u64": "UL", "u32": "u"},
        spaces=_SPACES,
        function_prefix="static inline",
        kernel_prefix="__kernel void",
        bitcast="as_{type}({0})",
        header="\n".join(lines),
        unroll="#pragma unroll {0}",
        correct_divide=capabilities.correct_divide,
        divide_through_f64=capabilities.fp64,
        group_guard=capabilities.software,
        vector="{type}{width}",
        lanes=capabilities.vector_bits > 0,
        group="" if capabilities.software else "__attribute__((reqd_work_group_size({size}, 1, 1)))",
    )


def intrinsics(capabilities: Capabilities) -> Intrinsics:
    """The table for a device: total scalar operations, work-item functions, barriers and atomics."""
    table = scalar_intrinsics(dialect(capabilities))
    table.define("global_id", "(long)get_global_id(0)")
    table.define("global_size", "(long)get_global_size(0)")
    table.define("group_id", "(long)get_group_id(0)")
    table.define("lane_id", "(long)get_local_id(0)")
    table.define("group_size", "(long)get_local_size(0)")
    table.define("barrier", "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)")
    _atomics(table, capabilities)
    if capabilities.clang_builtins:
        _clang_builtins(table)
    return table


_ONE_INSTRUCTION = {
    "fma": "fma", "abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "roundeven": "rint", "copysign": "copysign",
}  # fmt: skip


def _clang_builtins(table: Intrinsics) -> None:
    """PoCL's own functions are calls that it neither inlines nor vectorizes:
    measured, 6 to 40 times slower than the instruction.
    """
    for op, name in _ONE_INSTRUCTION.items():
        args = ", ".join(f"{{{n}}}" for n in range(OPS[op].arity))
        table.define(f"{op}.f32", f"__builtin_{name}f({args})")
        table.define(f"{op}.f64", f"__builtin_{name}({args})")


_ATOMIC_OPS = ("add", "mul", "min", "max", "and", "or", "xor")
_ATOMIC_HELPER = """static inline void {name}(volatile {space} {T}* p, const {T} x) {{
  volatile {space} {W}* q = (volatile {space} {W}*)p;
  {W} old = {exchange}(q, 0, 0), seen;
  do {{
    seen = old;
    const {T} now = {decode};
    const {T} next = {result};
    old = {exchange}(q, seen, {encode});
  }} while (old != seen);
}}"""


def _atomics(table: Intrinsics, capabilities: Capabilities) -> None:
    """Every combiner on 4- and 8-byte types by compare-and-swap, which also reads the first value: a plain load would
    race.  Integers use the device's own where there is one.
    """
    for dtype in DTYPES:
        if BITS[dtype] < 32 or (BITS[dtype] == 64 and not capabilities.int64_atomics):
            continue
        for space in ("global", "shared"):
            for op in _ATOMIC_OPS:
                combine = table.find(f"{op}.{dtype}")
                if combine is not None:
                    own = op == "add" or (op != "mul" and (BITS[dtype] == 32 or capabilities.more_int64_atomics))
                    _atomic(table, op, dtype, space, combine.template.format("now", "x"), own and not is_float(dtype))


def _atomic(table: Intrinsics, op: str, dtype: str, space: str, result: str, own: bool) -> None:
    key, T, W = f"atomic.{op}.{dtype}.{space}", _TYPES[dtype], _TYPES["u64" if BITS[dtype] == 64 else "u32"]
    prefix = "atomic" if BITS[dtype] == 32 else "atom"
    if own:
        table.define(key, f"{prefix}_{op}({{0}}, {{1}})")
        return
    name, exchange = f"tj_{key.replace('.', '_')}", f"{prefix}_cmpxchg"
    decode, encode = f"as_{T}(seen)", f"as_{W}(next)"
    words = {
        "name": name,
        "T": T,
        "W": W,
        "space": _SPACES[space],
        "decode": decode,
        "encode": encode,
        "result": result,
    }
    table.define_helper(name, _ATOMIC_HELPER.format(**words, exchange=exchange))
    table.define(key, f"{name}({{0}}, {{1}})", name)
