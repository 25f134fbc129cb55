"""Scalar operations on words, and arithmetic of indices, which is done once, where its operands are known."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracejit.backends.cpu.codegen.emit import FunctionEmitter
from tracejit.backends.llvm_like import scalar_op
from tracejit.backends.words import Key, Word, copies, is_literal, literal_of, project, union
from tracejit.ir.builder import make_lambda
from tracejit.ir.kernel import (
    Lambda,
    Op,
)
from tracejit.ir.math import EXPANSIONS, expand
from tracejit.ir.scalar import OPS
from tracejit.support.errors import TracejitError, UnsupportedError

__all__ = ["apply", "emit_op", "index_op", "inline", "plus"]

_MATH: dict[tuple[str, str, Any], Lambda] = {}
_OF_INDICES = frozenset({"add", "sub", "mul", "idiv", "irem"})
_FOLDED: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "idiv": operator.floordiv, "irem": operator.mod,
}  # fmt: skip


def _math_lambda(name: str, dtype: str) -> Lambda:
    """The elementary function as scalar statements, recorded once."""
    key = (name, dtype, EXPANSIONS.get(name))
    if key not in _MATH:
        if name not in EXPANSIONS:
            raise UnsupportedError(
                f"the scalar operation {name} has no expansion and the cpu backend no spelling of it on {dtype}; "
                f"give it one: tj.register_intrinsic({name!r}, ..., backend='cpu', dtypes={dtype!r})"
            )
        _MATH[key] = make_lambda([dtype] * OPS[name].arity, lambda r, *xs: expand(name, r, *xs))
    return _MATH[key]


def apply(e: FunctionEmitter, name: str, dtype: str, args: Sequence[Word]) -> Word:
    """One scalar operation on words."""
    if OPS[name].math and not (e.own and e.spells(name, args[-1].dtype)):
        return _math(e, name, args)
    axes = union(args)
    if (
        dtype == "i64"
        and name in ("add", "sub", "mul")
        and not any(a.lanes for a in args)
        and any(a.stride for a in args)
    ):
        affine = _affine(e, name, args, axes)
        if affine is not None:
            return affine
    lanes = any(a.lanes or a.stride for a in args)
    if dtype == "i64" and not lanes and name in _OF_INDICES and not e.own:
        (a, b), depth = args, _depth_of(e, args)
        regs = {
            key: index_op(e, name, a.regs[project(key, axes, a.axes)], b.regs[project(key, axes, b.axes)], depth)
            for key in copies(axes, e.counts)
        }
        known = None if axes or not is_literal(regs[()]) else int(regs[()])
        return Word("i64", axes, regs, depth=depth, known=known)
    n = e.width if lanes else 1
    types, known = [a.dtype for a in args], [a.known for a in args]
    regs: dict[Key, str] = {}
    for key in copies(axes, e.counts):
        operands = [
            e.vector(a, project(key, axes, a.axes)) if lanes else a.regs[project(key, axes, a.axes)] for a in args
        ]
        regs[key] = scalar_op(e, name, dtype, operands, types, n, known, e.exact)
    return Word(dtype, axes, regs, lanes, depth=e.depth())


def _affine(e: FunctionEmitter, name: str, args: Sequence[Word], axes: Key) -> Word | None:
    a, b = args
    if name == "mul":
        if a.stride and b.stride:
            return None
        factor = b.known if a.stride else a.known
        if factor is None:
            return None
        stride = (a.stride or b.stride) * factor
    else:
        stride = a.stride + b.stride if name == "add" else a.stride - b.stride
    depth = _depth_of(e, args)
    regs = {
        key: index_op(e, name, a.regs[project(key, axes, a.axes)], b.regs[project(key, axes, b.axes)], depth)
        for key in copies(axes, e.counts)
    }
    return Word("i64", axes, regs, False, stride, depth)


def _depth_of(e: FunctionEmitter, args: Sequence[Word]) -> int:
    """The outermost region where what depends on these words can be computed."""
    return min(max(a.depth for a in args), e.depth())


def index_op(e: FunctionEmitter, name: str, x: str, y: str, depth: int) -> str:
    """An operation on indices of one lane, written once in the region where its operands are known."""
    a, b = literal_of(x), literal_of(y)
    if a is not None and b is not None and (name in ("add", "sub", "mul") or (a >= 0 and b > 0)):
        found = _FOLDED[name](a, b)
        if -(2**63) <= found < 2**63:
            return str(found)
    if name == "sub" and b is not None:
        name, b = "add", -b
    if name == "add":
        if a is not None:
            x, a, b = y, b, a
        if b is not None:
            base, shift = e.shifted.get(x, (x, 0))
            return plus(e, base, shift + b, depth)
    elif name == "mul" and (a in (0, 1) or b in (0, 1)):
        return "0" if 0 in (a, b) else y if a == 1 else x
    elif name == "mul" and b is not None and x in e.shifted:  # what differs by a constant goes on doing so
        base, shift = e.shifted[x]
        return plus(e, index_op(e, "mul", base, y, depth), shift * b, depth)
    if name in ("add", "sub") and (x in e.shifted or y in e.shifted):
        (x, shift), (y, other) = e.shifted.get(x, (x, 0)), e.shifted.get(y, (y, 0))
        return plus(e, index_op(e, name, x, y, depth), shift + other if name == "add" else shift - other, depth)
    if name == "add":
        x, y = sorted((x, y))
    return e.in_region(
        depth,
        (name, x, y),
        lambda: scalar_op(e, name, "i64", [x, y], ["i64", "i64"], 1, [literal_of(x), literal_of(y)]),
    )


def plus(e: FunctionEmitter, base: str, shift: int, depth: int) -> str:
    """A register plus a constant."""
    if is_literal(base):
        return str(int(base) + shift)
    if not shift:
        return base

    def write() -> str:
        register = e.line(f"add i64 {base}, {shift}")
        e.shifted[register] = base, shift
        return register

    return e.in_region(depth, ("add", base, shift), write)


def _math(e: FunctionEmitter, name: str, args: Sequence[Word]) -> Word:
    dtype = args[-1].dtype
    if dtype == "f16":
        wide = [apply(e, "convert", "f32", [a]) for a in args]
        return apply(e, "convert", "f16", [apply(e, name, "f32", wide)])
    saved, e.exact = e.exact, False
    try:
        return inline(e, _math_lambda(name, dtype), args)[0]
    finally:
        e.exact = saved


def inline(e: FunctionEmitter, lam: Lambda, args: Sequence[Word]) -> list[Word]:
    """The statements of a lambda over words; its values leave no trace in the environment."""
    saved = e.env
    e.env = dict(zip(lam.params, args, strict=True))
    try:
        e.block(lam.body)
        return [e.word(r) for r in lam.results]
    finally:
        e.env = saved


def emit_op(e: FunctionEmitter, s: Op) -> None:
    """Write the statement."""
    try:
        e.env[s.out] = apply(e, s.op, s.out.dtype, [e.word(a) for a in s.args])
    except TracejitError as error:
        error.at(s.location)
        raise
