"""`tj.native.kernel` and `tj.native.from_file`: whole kernels that users write in the languages of backends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracejit.api.custom import custom_jvp, custom_vjp
from tracejit.api.inspecting import ShapeDtypeStruct
from tracejit.api.option_checks import expect
from tracejit.api.transform import checked_function, name_of
from tracejit.backends.registry import backend_reason, check_known, get_backend
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.forms import KernelSources
from tracejit.ir.types import ShapedArray
from tracejit.primitives.native_kernel import NativeKernel, WrittenKernel
from tracejit.support.dtypes import canonical
from tracejit.support.errors import UserError
from tracejit.support.source import user_location
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS

__all__ = ["KernelFunction", "from_file", "kernel"]

_numbers = itertools.count()
_SUFFIXES = {".cl": "opencl", ".ptx": "cuda", ".spv": "vulkan", ".ll": "cpu"}

Sized = int | Sequence[Any] | Callable[..., Any]
Out = ShapeDtypeStruct | Sequence[ShapeDtypeStruct] | Callable[..., Any]


class KernelFunction:
    """A function of arrays that runs a user's kernel; see `kernel`."""

    def __init__(self, made: WrittenKernel, single: Callable[[], bool]) -> None:
        self.__name__ = made.name
        self._made, self._single = made, single
        self._primitive = NativeKernel(made)
        self._rule: custom_jvp | custom_vjp | None = None

    def __repr__(self) -> str:
        return f"<tj.native.kernel {self.__name__}>"

    def __call__(self, *args: Any) -> Any:
        return self._plain(*args) if self._rule is None else self._rule(*args)

    def _plain(self, *args: Any) -> Any:
        operands = [OPERATORS.to_dtype(x, aval_of_argument(x).dtype) for x in args]
        self._made.results([aval_of_argument(x) for x in operands])  # which tells whether there is one
        made = bind(self._primitive, *operands)
        return made[0] if self._single() else tuple(made)

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """The derivative: `jvp(primals, tangents) -> (results, tangents of the results)`, as `tj.custom_jvp` has it."""
        rule = custom_jvp(self._plain)
        rule.defjvp(jvp)
        self._rule = rule
        return jvp

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """The derivative in reverse mode: `fwd(*args) -> (results, residuals)`, `bwd(residuals, cotangents) ->
        cotangents of the arguments`, as `tj.custom_vjp` has it.
        """
        rule = custom_vjp(self._plain)
        rule.defvjp(fwd, bwd)
        self._rule = rule

    def def_batch(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """What `tj.vmap` does: `rule(axis_size, in_batched, *args) -> (results, out_batched)`, where arguments and
        results that are batched have the axis first.  Without a rule the kernel runs once for each element.
        Source: JAX's custom_batching.custom_vmap.
        """
        checked_function("def_batch", rule)
        self._made.rule_of_batches = rule
        return rule


def kernel(
    sources: Mapping[str, Any],
    *,
    entry: str,
    out: Out,
    grid: int | Callable[..., Any] = 1,
    block: int = 1,
    sizes: Sized = (),
    fallback: Callable[..., Any] | None = None,
    name: str | None = None,
) -> KernelFunction:
    """A function of arrays that runs a kernel written in the languages of backends: `kernel(...)(*arrays)`.

    sources: backends to what each takes: OpenCL C for "opencl", PTX or LLVM IR for "cuda", SPIR-V (bytes) for
    "vulkan", LLVM IR or a C function (of ctypes, or `numba.cfunc`) for "cpu", and a function of NumPy arrays that
    returns the results for "reference".
    entry: the name of its function. It takes the addresses of the arrays and then of the results, row-major, and then
    `sizes`, integers of 64 bits. It writes every element of every result, and nothing else. On the CPU it is called
    once.
    A Vulkan kernel finds them in its push constants, words of 64 bits: the number of groups, 0, the addresses (of
    buffers that are reached by them), the sizes; of more than 14 of both the address of a block that holds them.
    Where there are many groups they lie in two dimensions: the number of one is WorkgroupId.y * NumWorkgroups.x +
    WorkgroupId.x, and there may be some too many.
    out: the results: a `tj.ShapeDtypeStruct` or several, or a function that gives these of those of the arguments.
    grid, block: how many groups run, a number or a function of the arguments' ShapeDtypeStructs, and how many work-
    items each has (in SPIR-V the number is part of the code). sizes: numbers, or a function that gives them. Extents
    of these structs may be symbols; `+`, `*` and `//` of them work.
    fallback: a function of arrays that computes the same: traced on backends without a source, and differentiated
    where there is no `defjvp` or `defvjp`. What these functions read from outside counts when a program is compiled.

    Raises: UserError for what is no source; UnsupportedError where a backend has neither source nor fallback, and for
    derivatives without fallback or rule; CompileError, with source and log, where a driver does not take it.

    >>> import numpy as np, tracejit as tj
    >>> source = '''
    ... define void @doubled(ptr %x, ptr %y, i64 %n) {
    ... entry:
    ...   %some = icmp sgt i64 %n, 0
    ...   br i1 %some, label %loop, label %done
    ... loop:
    ...   %i = phi i64 [0, %entry], [%next, %loop]
    ...   %from = getelementptr double, ptr %x, i64 %i
    ...   %to = getelementptr double, ptr %y, i64 %i
    ...   %v = load double, ptr %from
    ...   %w = fadd double %v, %v
    ...   store double %w, ptr %to
    ...   %next = add i64 %i, 1
    ...   %more = icmp slt i64 %next, %n
    ...   br i1 %more, label %loop, label %done
    ... done:
    ...   ret void
    ... }'''
    >>> doubled = tj.native.kernel({"cpu": source}, entry="doubled", out=lambda x: x, sizes=lambda x: (x.size,),
    ...                            fallback=lambda x: x + x)
    >>> tj.jit(lambda x: doubled(x) + 1)(np.array([1.0, 2.5]))
    array([3., 6.])
    """
    what = "tj.native.kernel"
    expect(_is(sources, Mapping), what, "sources", sources, "a dict of backends and their sources")
    expect(_is(entry, str), what, "entry", entry, "the name of a function in the sources")
    expect(type(block) is int and block > 0, what, "block", block, "a number of work-items")
    expect(callable(grid) or type(grid) is int, what, "grid", grid, "a number of groups, or a function that gives it")
    if fallback is not None:
        checked_function("native.kernel", fallback)
    own = name or (name_of(fallback) if fallback is not None else entry)
    for backend, source in sources.items():
        check_known(backend, what)
        fault = "" if backend_reason(backend) else get_backend(backend).fault_of_kernel(source)
        if fault:
            raise UserError(f"{what}: the source of {own} for the {backend} backend {fault}", location=user_location())
    single = [isinstance(out, ShapeDtypeStruct)]

    def results(avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
        found = out(*_structs(avals)) if callable(out) else out
        single[0] = not isinstance(found, (tuple, list))
        several: list[Any] = list(found) if isinstance(found, (tuple, list)) else [found]
        for x in several:
            if not isinstance(x, ShapeDtypeStruct):
                raise UserError(
                    f"{what}: out= of {own} gives {type(x).__name__}; it gives a ShapeDtypeStruct, or a tuple of them",
                    location=user_location(),
                )
        return tuple([ShapedArray(x.shape, canonical(x.dtype)) for x in several])

    def numbers(avals: Sequence[ShapedArray]) -> tuple[Extent, ...]:
        found = sizes(*_structs(avals)) if callable(sizes) else sizes
        several = list(found) if isinstance(found, (tuple, list)) else [found]
        return tuple([_extent(own, "sizes", n) for n in several])

    def groups(avals: Sequence[ShapedArray]) -> Extent:
        return _extent(own, "grid", grid(*_structs(avals)) if callable(grid) else grid)

    held = KernelSources(f"{entry}.{next(_numbers)}", entry, block, dict(sources))
    made = WrittenKernel(own, held, results, numbers, groups, fallback)
    return KernelFunction(made, lambda: single[0])


def from_file(
    path: str | Path,
    entry: str,
    grid: int | Callable[..., Any] = 1,
    block: int = 1,
    *,
    out: Out,
    sizes: Sized = (),
    fallback: Callable[..., Any] | None = None,
) -> KernelFunction:
    """The same of a file: OpenCL C (.cl), PTX (.ptx), SPIR-V (.spv), LLVM IR (.ll).

    Raises: UserError for another suffix; OSError for a file that cannot be read; as `kernel` does.
    """
    file = Path(path)
    backend = _SUFFIXES.get(file.suffix)
    if backend is None:
        raise UserError(
            f"tj.native.from_file: {file.name} has a suffix that says no backend; known are {', '.join(_SUFFIXES)}",
            location=user_location(),
        )
    source = file.read_bytes() if backend == "vulkan" else file.read_text(encoding="utf-8")
    return kernel(
        {backend: source}, entry=entry, out=out, grid=grid, block=block, sizes=sizes, fallback=fallback, name=entry
    )


def _is(x: Any, kind: type) -> bool:
    return isinstance(x, kind) and bool(x)


def _structs(avals: Sequence[ShapedArray]) -> list[ShapeDtypeStruct]:
    return [ShapeDtypeStruct(a.shape, np.dtype(a.dtype)) for a in avals]


def _extent(name: str, option: str, n: Any) -> Extent:
    if isinstance(n, Dim):
        return n
    if isinstance(n, (int, np.integer)) and not isinstance(n, bool):
        return int(n)
    raise UserError(
        f"tj.native.kernel: {option}= of {name} gives {n!r}; it gives integers, made of the extents of the arguments",
        location=user_location(),
    )
