"""Names, constants, extents, addresses and memory accesses in C-family text: what statements are made of."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from attrs import define, field

from tracejit.backends.c_scalar import Dialect, Intrinsics
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.kernel import Buffer, Operand, Value
from tracejit.ir.scalar import is_float, numpy_dtype
from tracejit.support.errors import InternalError, UnsupportedError

__all__ = ["Emitter", "ProgramText", "dim_name"]


@define(eq=False)
class ProgramText:
    """What the kernels of one program share: helpers used, functions expanded, dtypes seen.  own: what users spell."""

    dialect: Dialect
    intrinsics: Intrinsics
    own: frozenset[str] = frozenset()
    helpers: dict[str, None] = field(factory=dict[str, None])
    functions: dict[str, str] = field(factory=dict[str, str])
    uses: set[str] = field(factory=set[str])
    taken: set[str] = field(factory=set[str])

    def entry_name(self, name: str) -> str:
        """A kernel's name as an identifier that no other kernel and no function of the language has."""
        stem = found = "kernel_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        while found in self.taken:
            found = f"{stem}_{len(self.taken)}"
        self.taken.add(found)
        return found

    def spell(self, keys: tuple[str, ...], *args: str) -> str | None:
        """The spelling of the first of `keys` that the table has; None if it has none."""
        entry = self.intrinsics.find(*keys)
        if entry is None:
            return None
        self.helpers.update(dict.fromkeys(entry.needs))
        return entry.template.format(*args)


class Emitter:
    """The text of one function, and how its operands are spelled.

    Names are numbered in the order of the text, so that equal kernels give equal text.
    """

    def __init__(self, program: ProgramText) -> None:
        self.program = program
        self.dialect = program.dialect
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.buffers: dict[Buffer, str] = {}
        self.extents: dict[Dim, str] = {}
        self.written: set[Buffer] = set()
        self.count = 0
        self.indent = 0

    # Text

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def type_of(self, dtype: str) -> str:
        self.program.uses.add(dtype)
        return self.dialect.types[dtype]

    def declare(self, value: Value, prefix: str = "v") -> str:
        """`type name` of a new variable for `value`."""
        self.names[value] = self.fresh(prefix)
        return f"{self.type_of(value.dtype)} {self.names[value]}"

    def spell(self, keys: tuple[str, ...], *args: str) -> str:
        text = self.program.spell(keys, *args)
        if text is None:
            raise UnsupportedError(f"{self.dialect.name} has no spelling of {keys[0]}; define one in its intrinsics")
        return text

    # Operands and addresses

    def operand(self, x: Operand) -> str:
        if isinstance(x, Value):
            return self.names[x]
        return self.extent(x.value) if isinstance(x.value, Dim) else self.literal(x.value, x.dtype)

    def literal(self, value: float, dtype: str) -> str:
        """A constant, exact for every value of its dtype."""
        self.program.uses.add(dtype)
        with np.errstate(all="ignore"):
            scalar = np.asarray(value).astype(numpy_dtype(dtype))[()]
        if dtype == "bool":
            return "true" if scalar else "false"
        if is_float(dtype):
            return self._float_literal(scalar, dtype)
        number, kind = int(scalar), self.dialect.types[dtype]
        if dtype in ("i64", "u64"):
            suffix = self.dialect.suffixes[dtype]
            least = f"(-9223372036854775807{suffix} - 1)"
            return least if number == -(2**63) else f"({number}{suffix})" if number < 0 else f"{number}{suffix}"
        return (
            "(-2147483647 - 1)" if number == -(2**31) else f"({kind}){number}" if number >= 0 else f"({kind})({number})"
        )

    def _float_literal(self, scalar: Any, dtype: str) -> str:
        if np.isfinite(scalar):
            text = re.sub(r"\.?0*p", "p", float(scalar).hex()) + ("" if dtype == "f64" else "f")
            return f"({text})" if text.startswith("-") else text
        wide = np.float64(scalar) if dtype == "f64" else np.float32(scalar)
        bits, word = (int(wide.view(np.uint64)), "u64") if dtype == "f64" else (int(wide.view(np.uint32)), "u32")
        target = "f64" if dtype == "f64" else "f32"
        return self.spell((f"bitcast.{word}.{target}",), f"0x{bits:x}{self.dialect.suffixes[word]}")

    def extent(self, n: Extent) -> str:
        """An integer, or the name of an extent that is computed at the head of the function."""
        return self.extents[n] if isinstance(n, Dim) else self.literal(n, "i64")

    def address(self, buffer: Buffer, index: tuple[Operand, ...]) -> str:
        """An lvalue: element `index` of `buffer`."""
        name = self.buffers[buffer]
        if len(index) != len(buffer.shape):
            raise InternalError(f"buffer {buffer.name} of rank {len(buffer.shape)} indexed with {len(index)} operands")
        if buffer.layout == "C":
            return f"{name}[{self._linear(buffer, index)}]"
        last = str(numpy_dtype(buffer.dtype).itemsize)
        terms = [f"{name}_offset"]
        for axis, i in enumerate(index):
            unit = buffer.layout == "unit" and axis == len(index) - 1
            terms.append(f"{self.operand(i)} * {last if unit else f'{name}_stride{axis}'}")
        space = self.dialect.space(buffer.space)
        constant = "" if buffer in self.written else "const "
        cast = f"({space} {constant}{self.dialect.storage[buffer.dtype]}*)".replace("( ", "(")
        return f"*{cast}(({space} {constant}char*){name} + {' + '.join(terms)})".replace("( ", "(")

    def _linear(self, buffer: Buffer, index: tuple[Operand, ...]) -> str:
        if not index:
            return "0"
        text = self.operand(index[0])
        for i, n in zip(index[1:], buffer.shape[1:], strict=True):
            text = f"({text}) * {self.extent(n)} + {self.operand(i)}"
        return text

    def load(self, buffer: Buffer, index: tuple[Operand, ...]) -> str:
        """A register value out of memory."""
        return self.loaded(buffer.dtype, self.address(buffer, index))

    def loaded(self, dtype: str, text: str) -> str:
        """The register value of what memory holds: f16 is widened, a bool byte tested."""
        match dtype:
            case "f16":
                return self.spell(("load.f16",), text)
            case "bool":
                return f"{text} != 0"
            case _:
                return text

    def stored(self, dtype: str, value: str) -> str:
        """What is written to memory for a register value."""
        match dtype:
            case "f16":
                return self.spell(("store.f16",), value)
            case "bool":
                return f"({self.dialect.storage['bool']})({value})"
            case _:
                return value


def dim_name(symbol: str) -> str:
    """A symbol as a C identifier; distinct symbols stay distinct."""
    return "n_" + "".join(c if c.isalnum() and c.isascii() else f"_{ord(c):x}_" for c in symbol)
