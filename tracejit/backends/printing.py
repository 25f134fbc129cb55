"""What printers of device kernels share: entry points and their arguments, the extents they name, and mathematical
functions written out in other operations.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracejit.ir.builder import ScalarRecorder, make_lambda
from tracejit.ir.extents import Dim
from tracejit.ir.kernel import Block, Buffer, Const, For, Kernel, Lambda, Operand, Value, accesses_of, operands_of, walk
from tracejit.ir.scalar import OPS
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen

__all__ = [
    "Argument", "EntryPoint", "Printed", "arguments_of", "expansion", "extents_of", "iterations_of", "own_memory",
    "view_arguments",
]  # fmt: skip


@frozen
class Argument:
    """One parameter of an entry point.  kind: "buffer", "offset" (bytes to the first element), "stride" (bytes, of
    `axis`), "dim".
    """

    kind: str
    name: str
    axis: int = 0


@frozen
class EntryPoint:
    """The name of a printed kernel and its parameters in order."""

    name: str
    arguments: tuple[Argument, ...]


@frozen
class Printed:
    """A program's text, its entry points, and the dtypes it computes with (expanded functions included)."""

    source: str
    entries: tuple[EntryPoint, ...]
    uses: frozenset[str]


def own_memory(buffer: Buffer, language: str) -> None:
    """Raises: UnsupportedError for an array in a memory space of a package, which `language` does not know."""
    if buffer.space.value is not None:
        raise UnsupportedError(f"{language} has no {buffer.space} memory, where {buffer.name} is to lie")


def arguments_of(kernel: Kernel) -> tuple[Argument, ...]:
    """The parameters of a kernel: each buffer with where its elements lie, then the symbols of extents."""
    found: list[Argument] = []
    for buffer in kernel.buffers:
        found += [Argument("buffer", buffer.name), *view_arguments(buffer)]
    return (*found, *[Argument("dim", dim) for dim in kernel.dims])


def view_arguments(buffer: Buffer) -> Iterator[Argument]:
    """Offset and byte strides of a buffer whose layout is not row-major."""
    if buffer.layout == "C":
        return
    yield Argument("offset", buffer.name)
    for axis in range(len(buffer.shape) - (buffer.layout == "unit")):
        yield Argument("stride", buffer.name, axis)


def extents_of(body: Block) -> list[Dim]:
    """The symbolic extents that statements and the places of their accesses are printed with."""
    found: dict[Dim, None] = {}
    for s in walk(body):
        found.update({x.value: None for x in operands_of(s) if isinstance(x, Const) and isinstance(x.value, Dim)})
        for access in accesses_of(s):
            if access.buffer.layout == "C":
                found.update({n: None for n in access.buffer.shape[1:] if isinstance(n, Dim)})
    return list(found)


def iterations_of(loop: For) -> int | None:
    """How many iterations a loop between numbers has."""
    if not (isinstance(loop.lower, Const) and isinstance(loop.upper, Const)):
        return None
    count = loop.upper.value - loop.lower.value
    return None if isinstance(count, Dim) else max(0, count)


def expansion(op: str, dtype: str) -> Lambda:
    """The function `op` on `dtype` (f16 through f32) written with the operations
    that are not mathematical functions.

    Raises: UnsupportedError where there is none.
    """
    from tracejit.ir import math

    def record(recorder: ScalarRecorder, *params: Value) -> Operand:
        if dtype != "f16":
            return math.expand(op, recorder, *params)
        wide = [recorder.op("convert", p, dtype="f32") for p in params]
        return recorder.op("convert", math.expand(op, recorder, *wide), dtype="f16")

    try:
        return make_lambda([dtype] * OPS[op].arity, record)
    except KeyError as error:
        raise UnsupportedError(
            f"the function {op} of {dtype} has no expansion and the target's intrinsics do not spell it; "
            "tj.register_intrinsic does"
        ) from error
