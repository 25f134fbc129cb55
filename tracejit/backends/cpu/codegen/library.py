"""Calls of library functions from generated code: declared, resolved when the program is loaded,
called without Python.
"""

from __future__ import annotations

from tracejit.backends.cpu.codegen.emit import FunctionEmitter
from tracejit.backends.cpu.runtime import host_functions, kernels, llvm
from tracejit.backends.llvm_like import constant, llvm_type
from tracejit.ir.extents import Dim
from tracejit.ir.forms import Environment, HostFunction
from tracejit.ir.kernel import Const
from tracejit.ir.program import Call

__all__ = ["call"]


def call(e: FunctionEmitter, step: Call, pointers: list[str]) -> None:
    """Write the call of a step; `pointers` has the address of every argument that is a buffer."""
    symbol = f"{step.environment.name}.{step.symbol}"  # two libraries may have functions of one name
    llvm.define_symbol(symbol, _address(step))
    types: list[str] = []
    values: list[str] = []
    for argument, pointer in zip(step.arguments, pointers, strict=True):
        types.append(llvm_type(argument.dtype, 1) if isinstance(argument, Const) else "ptr")
        values.append(_value(e, argument) if isinstance(argument, Const) else pointer)
    if isinstance(step.environment, HostFunction):  # which is told the shapes too
        extents = [n for b in step.buffers for n in b.shape]
        types += ["i64"] * len(extents)
        values += [_value(e, Const(n, "i64")) for n in extents]
    e.declare(f'@"{symbol}"', f'declare void @"{symbol}"({", ".join(types)})')
    e.put(f'call void @"{symbol}"({", ".join(f"{t} {v}" for t, v in zip(types, values, strict=True))})')


def _address(step: Call) -> int:
    """Where the function is in this process.   Raises: BackendUnavailable; CompileError for a user's source."""
    environment = step.environment
    if isinstance(environment, HostFunction):
        return host_functions.address(environment, [(b.dtype, len(b.shape)) for b in step.buffers], len(step.writes))
    return environment.find(step.symbol) if isinstance(environment, Environment) else kernels.address(environment)


def _value(e: FunctionEmitter, c: Const) -> str:
    """A constant or extent in the type the function takes."""
    if not isinstance(c.value, Dim):
        return constant(c.value, c.dtype)
    extent = e.polynomial(c.value)
    return extent if c.dtype == "i64" else e.line(f"trunc i64 {extent} to {llvm_type(c.dtype, 1)}")
