"""SPIR-V as text, one instruction a line, and the words that a driver takes.

The text is what `spirv-as` reads, in the subset that `INSTRUCTIONS` and `WORDS` list:

    %12 = OpIAdd %u64 %10 %11      an instruction with a result: its type first
    OpStore %7 %12 Aligned 8       one without
    ; a remark

An id is any name; numbers are given to names in the order in which they appear.

Source: SPIR-V specification 1.5, sections 2.3 (physical layout), 3 (numbers of instructions and enumerants); the
extended instruction set GLSL.std.450.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from tracejit.support.errors import CompileError

__all__ = ["INSTRUCTIONS", "WORDS", "assemble", "entry_points"]

_MAGIC = 0x07230203
_VERSION = 0x00010500  # the highest that Vulkan 1.2 takes

INSTRUCTIONS: dict[str, tuple[int, str]] = {
    **{f"Op{name}": (number, "") for name, number in {
        "Extension": 10, "MemoryModel": 14, "EntryPoint": 15, "ExecutionMode": 16, "Capability": 17, "FunctionEnd": 56,
        "Store": 62, "Decorate": 71, "MemberDecorate": 72, "ControlBarrier": 224, "MemoryBarrier": 225,
        "AtomicStore": 228, "LoopMerge": 246, "SelectionMerge": 247, "Branch": 249, "BranchConditional": 250,
        "Return": 253, "ReturnValue": 254, "Unreachable": 255,
    }.items()},
    **{f"Op{name}": (number, "r") for name, number in {
        "ExtInstImport": 11, "TypeVoid": 19, "TypeBool": 20, "TypeInt": 21, "TypeFloat": 22, "TypeVector": 23,
        "TypeArray": 28, "TypeStruct": 30, "TypePointer": 32, "TypeFunction": 33, "Label": 248,
    }.items()},
    **{f"Op{name}": (number, "tr") for name, number in {
        "Undef": 1, "ExtInst": 12, "ConstantTrue": 41, "ConstantFalse": 42, "Constant": 43, "ConstantComposite": 44,
        "ConstantNull": 46, "Function": 54, "FunctionParameter": 55, "FunctionCall": 57, "Variable": 59, "Load": 61,
        "AccessChain": 65, "InBoundsAccessChain": 66, "VectorShuffle": 79, "CompositeConstruct": 80,
        "CompositeExtract": 81, "CopyObject": 83, "ConvertFToU": 109, "ConvertFToS": 110, "ConvertSToF": 111,
        "ConvertUToF": 112, "UConvert": 113, "SConvert": 114, "FConvert": 115, "QuantizeToF16": 116,
        "ConvertPtrToU": 117, "ConvertUToPtr": 120, "Bitcast": 124, "SNegate": 126, "FNegate": 127, "IAdd": 128,
        "FAdd": 129, "ISub": 130, "FSub": 131, "IMul": 132, "FMul": 133, "UDiv": 134, "SDiv": 135, "FDiv": 136,
        "UMod": 137, "SRem": 138, "SMod": 139, "FRem": 140, "FMod": 141, "UMulExtended": 151, "SMulExtended": 152,
        "Any": 154, "All": 155, "IsNan": 156, "IsInf": 157, "LogicalEqual": 164, "LogicalNotEqual": 165,
        "LogicalOr": 166, "LogicalAnd": 167, "LogicalNot": 168, "Select": 169, "IEqual": 170, "INotEqual": 171,
        "UGreaterThan": 172, "SGreaterThan": 173, "UGreaterThanEqual": 174, "SGreaterThanEqual": 175, "ULessThan": 176,
        "SLessThan": 177, "ULessThanEqual": 178, "SLessThanEqual": 179, "FOrdEqual": 180, "FUnordEqual": 181,
        "FOrdNotEqual": 182, "FUnordNotEqual": 183, "FOrdLessThan": 184, "FUnordLessThan": 185, "FOrdGreaterThan": 186,
        "FUnordGreaterThan": 187, "FOrdLessThanEqual": 188, "FUnordLessThanEqual": 189, "FOrdGreaterThanEqual": 190,
        "FUnordGreaterThanEqual": 191, "ShiftRightLogical": 194, "ShiftRightArithmetic": 195, "ShiftLeftLogical": 196,
        "BitwiseOr": 197, "BitwiseXor": 198, "BitwiseAnd": 199, "Not": 200, "BitFieldInsert": 201,
        "BitFieldSExtract": 202, "BitFieldUExtract": 203, "BitReverse": 204, "BitCount": 205, "AtomicLoad": 227,
        "AtomicExchange": 229, "AtomicCompareExchange": 230, "AtomicIAdd": 234, "AtomicISub": 235, "AtomicSMin": 236,
        "AtomicUMin": 237, "AtomicSMax": 238, "AtomicUMax": 239, "AtomicAnd": 240, "AtomicOr": 241, "AtomicXor": 242,
        "Phi": 245,
    }.items()},
}  # fmt: skip
"""Each instruction: its number, and whether its line begins with a result ("r"), or with one that has a type ("tr")."""

WORDS: dict[str, int] = {
    "None": 0,
    # capabilities
    "Shader": 1, "Float16": 9, "Float64": 10, "Int64": 11, "Int64Atomics": 12, "Int16": 22, "Int8": 39,
    "StorageBuffer16BitAccess": 4433, "StorageBuffer8BitAccess": 4448, "DenormPreserve": 4464,
    "SignedZeroInfNanPreserve": 4466, "RoundingModeRTE": 4467, "VulkanMemoryModel": 5345,
    "PhysicalStorageBufferAddresses": 5347,
    # addresses, memory, execution; three of the capabilities above are execution modes (`_MODES`)
    "PhysicalStorageBuffer64": 5348, "Vulkan": 3, "GLCompute": 5, "LocalSize": 17,
    # storage classes
    "Input": 1, "Workgroup": 4, "Private": 6, "Function": 7, "PushConstant": 9, "StorageBuffer": 12,
    "PhysicalStorageBuffer": 5349,
    # decorations and built-in variables
    "Block": 2, "ArrayStride": 6, "BuiltIn": 11, "Offset": 35, "NoContraction": 42,
    "NumWorkgroups": 24, "WorkgroupId": 26, "LocalInvocationId": 27, "LocalInvocationIndex": 29,
    # accesses, functions, loops and branches
    "Volatile": 1, "Aligned": 2, "NonPrivatePointer": 32, "Inline": 1, "DontInline": 2, "Unroll": 1, "DontUnroll": 2,
    "Flatten": 1, "DontFlatten": 2,
}  # fmt: skip
"""The words of operands; `A|B` is both."""

_MODES = {"DenormPreserve": 4459, "SignedZeroInfNanPreserve": 4461, "RoundingModeRTE": 4462}

_FUNCTIONS = {
    "Round": 1, "RoundEven": 2, "Trunc": 3, "FAbs": 4, "SAbs": 5, "FSign": 6, "SSign": 7, "Floor": 8, "Ceil": 9,
    "Fract": 10, "Sin": 13, "Cos": 14, "Tan": 15, "Asin": 16, "Acos": 17, "Atan": 18, "Sinh": 19, "Cosh": 20,
    "Tanh": 21, "Asinh": 22, "Acosh": 23, "Atanh": 24, "Atan2": 25, "Pow": 26, "Exp": 27, "Log": 28, "Exp2": 29,
    "Log2": 30, "Sqrt": 31, "InverseSqrt": 32, "FMin": 37, "UMin": 38, "SMin": 39, "FMax": 40, "UMax": 41, "SMax": 42,
    "FClamp": 43, "FMix": 46, "Step": 48, "Fma": 50, "PackHalf2x16": 58, "UnpackHalf2x16": 62, "FindILsb": 73,
    "FindSMsb": 74, "FindUMsb": 75, "NMin": 79, "NMax": 80, "NClamp": 81,
}  # fmt: skip
"""Of GLSL.std.450."""


def assemble(text: str) -> bytes:
    """The module of a text.  Raises CompileError, naming the line."""
    return _Assembler(text).module()


def entry_points(module: bytes) -> list[str]:
    """The names of the functions that a driver can run.   Raises: CompileError for what is no module.

    Source: SPIR-V specification 1.5, section 2.3.
    """
    words = struct.unpack(f"<{len(module) // 4}I", module[: len(module) // 4 * 4])
    if not words or words[0] != _MAGIC:
        raise CompileError("this is no SPIR-V: the first word is another one")
    found: list[str] = []
    at = 5
    while at < len(words):
        count, number = words[at] >> 16, words[at] & 0xFFFF
        if not count:
            raise CompileError(f"this is no SPIR-V: an instruction of no words at word {at}")
        if number == INSTRUCTIONS["OpEntryPoint"][0]:
            found.append(module[4 * (at + 3) : 4 * (at + count)].split(b"\0")[0].decode(errors="replace"))
        at += count
    return found


class _Assembler:
    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[int] = []
        self.ids: dict[str, int] = {}
        self.types: dict[str, tuple[str, int]] = {}  # of numbers: OpTypeInt or OpTypeFloat, bits
        self.line = 0

    def module(self) -> bytes:
        for number, line in enumerate(self.text.splitlines(), 1):
            self.line = number
            line = line.strip()
            if line and line[0] != ";":
                self.instruction(line)
        head = (_MAGIC, _VERSION, 0, len(self.ids) + 1, 0)
        return struct.pack(f"<{len(self.words) + 5}I", *head, *self.words)

    def fail(self, what: str) -> NoReturn:
        line = self.text.splitlines()[self.line - 1].strip()
        raise CompileError(f"line {self.line} of the SPIR-V text: {what}", source=self.text, log=line)

    def instruction(self, line: str) -> None:
        tokens = line.split() if '"' not in line else _with_strings(line)
        result = ""
        if len(tokens) > 2 and tokens[1] == "=":
            result, tokens = tokens[0], tokens[2:]
        name = tokens[0]
        known = INSTRUCTIONS.get(name)
        if known is None:
            self.fail(f"{name} is no instruction that there is here")
        number, shape = known
        if bool(shape) != bool(result) or (shape == "tr" and len(tokens) < 2):
            self.fail(f"{name} has {'a' if shape else 'no'} result{' and its type' if shape == 'tr' else ''}")
        operands = tokens[1:]
        words = [0]
        if shape == "tr":
            words.append(self.id(operands[0]))
            operands = operands[1:]
        if shape:
            words.append(self.id(result))
        match name:
            case "OpConstant":
                words += self.constant(tokens[1], operands)
            case "OpExtInst":
                words += [self.id(operands[0]), self.word(operands[1], _FUNCTIONS), *map(self.id, operands[2:])]
            case "OpExecutionMode":
                modes = WORDS | _MODES
                words += [self.id(operands[0]), *[self.word(x, modes) for x in operands[1:]]]
            case _:
                for x in operands:
                    words += self.operand(x)
        if name in ("OpTypeInt", "OpTypeFloat"):
            self.types[result] = name, int(operands[0])
        words[0] = len(words) << 16 | number
        self.words += words

    def id(self, token: str) -> int:
        if token[0] != "%" or len(token) == 1:
            self.fail(f"{token} stands where an id should, %name")
        found = self.ids.get(token)
        if found is None:
            found = self.ids[token] = len(self.ids) + 1
        return found

    def operand(self, token: str) -> list[int]:
        if token[0] == "%":
            return [self.id(token)]
        if token[0] == '"':
            data = token[1:-1].encode() + b"\0"
            data += b"\0" * (-len(data) % 4)
            return list(struct.unpack(f"<{len(data) // 4}I", data))
        return [self.word(token, WORDS)]

    def word(self, token: str, known: dict[str, int]) -> int:
        found = known.get(token)
        if found is not None:
            return found
        if token.isdigit():
            return int(token)
        found = 0
        for part in token.split("|"):
            if part not in known:
                self.fail(f"{part} is no word that there is here")
            found |= known[part]
        return found

    def constant(self, kind: str, operands: list[str]) -> list[int]:
        """The words of a number of a type that stands above."""
        if kind not in self.types or len(operands) != 1:
            self.fail("a constant is one number, of a type that stands above")
        name, bits = self.types[kind]
        try:
            pattern = int(operands[0]) if name == "OpTypeInt" else _float_bits(operands[0], bits)
        except ValueError:
            self.fail(f"{operands[0]} is no number")
        low, high = pattern & 0xFFFFFFFF, pattern >> 32 & 0xFFFFFFFF
        return [low, high] if bits == 64 else [low]


def _with_strings(line: str) -> list[str]:
    """The tokens of a line in which quoted text may hold blanks."""
    found: list[str] = []
    for n, piece in enumerate(line.split('"')):
        found += [f'"{piece}"'] if n % 2 else piece.split()
    return found


def _float_bits(text: str, bits: int) -> int:
    """The representation of a number in hexadecimal; one with the exponent behind the largest is infinity or a NaN,
    whose fraction it has.
    """
    fraction, bias, pack = (52, 1023, "<d") if bits == 64 else (23, 127, "<f")
    digits, _, exponent = text.lower().partition("p")
    if exponent and int(exponent) == bias + 1:
        one = float.fromhex(digits)
        sign = 1 if one < 0 else 0
        return sign << (bits - 1) | (2 * bias + 1) << fraction | int((abs(one) - 1) * 2**fraction)
    number = float.fromhex(text) if "x" in digits else float(text)
    return int.from_bytes(struct.pack(pack, number), "little")
