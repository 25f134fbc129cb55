"""Operands of instructions as functions that read and write registers, of all threads or some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.standin.exact import Array
from tests.standin.ptx import (
    DTYPES,
    Address,
    Function,
    Immediate,
    Instruction,
    Negated,
    Operand,
    PTXError,
    Register,
    Sink,
    Special,
    Variable,
)
from tests.standin.simt import Frame, Lanes, Read, Write, word_type

__all__ = ["Operands", "bits_of"]


def bits_of(value: Immediate, kind: str) -> int:
    """A constant's bits as type `kind`: floating-point ones are those of their form, converted if need be."""
    size = np.dtype(DTYPES[kind]).itemsize
    if value.form == "int":
        if kind in ("f32", "f64"):
            return int(np.array(value.value, DTYPES[kind]).view(f"u{size}"))
        return value.value & ((1 << (8 * size)) - 1)
    if value.form == "f64" and kind == "f32":
        return int(np.array(value.value, "u8").view("f8").astype("f4").view("u4"))
    if size != {"f32": 4, "f64": 8}[value.form]:
        raise PTXError(f"a constant of {value.form} stands for a value of {kind}")
    return value.value


class Operands:
    """Reads and writes operands of the instructions of one function."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def guard(self, instruction: Instruction) -> Read:
        """Reads whether threads do an instruction that has a guard."""
        guard = instruction.guard
        assert guard is not None
        return self.read(Negated(guard.register) if guard.negated else guard.register, "pred")

    def read(self, operand: Operand, kind: str) -> Read:
        """Reads an operand as type `kind`: an array of the threads, or one value for all of them."""
        match operand:
            case Register():
                return self._read_register(operand, kind)
            case Negated(register):
                positive = self._read_register(register, "pred")
                return lambda frame, lanes: ~positive(frame, lanes)
            case Immediate():
                if kind == "pred":
                    truth = np.array(operand.value != 0)
                    return lambda frame, lanes: truth
                dtype = DTYPES[kind]
                word = f"u{np.dtype(dtype).itemsize}"
                value = np.array(bits_of(operand, kind), word).view(dtype)
                return lambda frame, lanes: value
            case Special(name):
                return self._read_special(name, kind)
            case Address(base, offset) if isinstance(base, Variable):
                return self._read_address(base, offset, kind)
            case Variable(space="param"):
                return self._read_address(operand, 0, kind)
        raise PTXError(f"the operand {operand} has no value")

    def _read_register(self, register: Register, kind: str) -> Read:
        index, word = register.index, word_type(register.type)
        dtype = np.dtype(DTYPES[kind])
        if (word == "?") != (kind == "pred"):
            raise PTXError(f"{register.name} is of type {register.type} and is read as {kind}")
        width = np.dtype(word).itemsize
        if width < dtype.itemsize:
            raise PTXError(f"{register.name} is narrower than {kind}")
        narrow = np.dtype(f"u{dtype.itemsize}") if width > dtype.itemsize else None

        def read(frame: Frame, lanes: Lanes) -> Array:
            value = frame.register(index, word)
            if lanes is not None:
                value = value[lanes]
            if narrow is not None:
                value = value.astype(narrow)
            return value.view(dtype)

        return read

    def _read_special(self, name: str, kind: str) -> Read:
        dtype = DTYPES[kind]

        def read(frame: Frame, lanes: Lanes) -> Array:
            value = frame.run.special(name)
            return (value[lanes] if value.ndim and lanes is not None else value).astype(dtype)

        return read

    def _read_address(self, variable: Variable, offset: int, kind: str) -> Read:
        dtype = DTYPES[kind]
        entry = self.function.entry

        def read(frame: Frame, lanes: Lanes) -> Array:
            match variable.space:
                case "shared":
                    base = frame.run.launch.places[variable]
                case "local":
                    base = frame.local_base + variable.offset
                case "param":
                    if not entry or variable not in frame.function.parameters:
                        raise PTXError(f"the address of the parameter {variable.name} of a function is not executed")
                    base = variable.offset
                case _:
                    base = frame.run.launch.variables[variable.name].device
            return np.array((base + offset) & ((1 << 64) - 1), "u8").astype(dtype)

        return read

    def addresses(self, operand: Operand) -> Callable[[Frame, Lanes], Array]:
        """Reads `[base + offset]` as an address of each thread."""
        if not isinstance(operand, Address):
            raise PTXError(f"an address expected, not {operand}")
        base = operand.base
        if isinstance(base, Register):
            wide = np.dtype(DTYPES[base.type]).itemsize == 8
            read = self.read(base, "u64" if wide else "u32")
            offset = np.array(operand.offset & ((1 << 64) - 1), "u8")
        elif isinstance(base, Immediate):
            read = self.read(base, "u64")
            wide, offset = True, np.array(operand.offset & ((1 << 64) - 1), "u8")
        else:
            read = self._read_address(base, operand.offset, "u64")
            wide, offset = True, np.array(0, "u8")

        def addresses(frame: Frame, lanes: Lanes) -> Array:
            value = read(frame, lanes).astype("u8") + offset
            if not wide:
                value = value & np.uint64(0xFFFFFFFF)
            count = frame.run.number(lanes)
            return np.broadcast_to(value, count)

        return addresses

    def write(self, operand: Operand, kind: str) -> Write:
        """Writes a value of type `kind`, extended to the register's width."""
        if isinstance(operand, Sink):
            return lambda frame, lanes, value: None
        if not isinstance(operand, Register):
            raise PTXError(f"a register expected for the result, not {operand}")
        index, word = operand.index, np.dtype(word_type(operand.type))
        dtype = np.dtype(DTYPES[kind])
        if (operand.type == "pred") != (kind == "pred"):
            raise PTXError(f"{operand.name} is of type {operand.type} and is given {kind}")
        if word.itemsize < dtype.itemsize:
            raise PTXError(f"{operand.name} is narrower than {kind}")
        extended = None
        if word.itemsize > dtype.itemsize:
            extended = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{word.itemsize}")
        own = np.dtype(f"u{dtype.itemsize}") if extended is not None and kind[0] != "s" else dtype

        def write(frame: Frame, lanes: Lanes, value: Any) -> None:
            value = np.asarray(value)
            if value.dtype != dtype:
                value = value.view(dtype) if value.dtype.itemsize == dtype.itemsize else value.astype(dtype)
            if extended is not None:
                value = value.view(own).astype(extended)
            value = value.view(word)
            if lanes is None:
                if value.shape != (frame.run.count,):
                    value = np.broadcast_to(value, frame.run.count).copy()
                frame.registers[index] = value
            else:
                # a copy: registers share arrays after `mov`
                changed = frame.register(index, word.char if word.char == "?" else f"u{word.itemsize}").copy()
                changed[lanes] = value
                frame.registers[index] = changed

        return write
