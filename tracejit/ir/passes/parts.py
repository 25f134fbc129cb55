"""Complex numbers in kernels: each becomes two numbers, its real and imaginary part, and an array of them one that is
longer by an axis of two.

This comes last, after scheduling: until then a complex number is one value.  The two parts of an element lie side by
side in memory, as NumPy has them.  What a function of complex numbers is in terms of the parts is in
`ir/math/complex.py`; here are the operations that loops, reductions and stores are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tracejit.ir.builder import fold_constants
from tracejit.ir.kernel import (
    Atomic,
    Block,
    Buffer,
    Const,
    Kernel,
    Lambda,
    Load,
    Op,
    Operand,
    Statement,
    Store,
    Value,
    allocated_by,
    fields_by_role,
    index_const,
    operands_of,
    results_of,
    roles_of,
    walk,
)
from tracejit.ir.program import Launch, Program, Steps, nested, parts_of, walk_steps
from tracejit.ir.rewrite import map_accesses, map_allocated
from tracejit.ir.scalar import is_complex, part_dtype
from tracejit.support.errors import InternalError, UnsupportedError
from tracejit.support.nodes import evolve

__all__ = ["parts_of_kernel", "parts_of_program"]

Pair = tuple[Operand, Operand]


def parts_of_program(program: Program) -> Program:
    """The program with kernels of real numbers only.  Its own buffers stay what they are."""
    made: dict[int, Kernel] = {}
    if not any(_has_complex(s.kernel) for s in walk_steps(program.steps) if isinstance(s, Launch)):
        return program

    def run(steps: Steps) -> Steps:
        out: list[Any] = []
        for s in steps:
            if isinstance(s, Launch):
                kernel = made.get(id(s.kernel))
                if kernel is None:
                    kernel = made[id(s.kernel)] = parts_of_kernel(s.kernel)
                out.append(s if kernel is s.kernel else evolve(s, kernel=kernel, product=None))
            elif nested(s):
                names = [name for name, part in parts_of(type(s)).items() if part.role == "inside"]
                out.append(evolve(s, **{name: run(getattr(s, name)) for name in names}))
            else:
                out.append(s)
        return tuple(out)

    return evolve(program, steps=run(program.steps))


def parts_of_kernel(kernel: Kernel) -> Kernel:
    """The kernel on real numbers; itself if it has no others."""
    if not _has_complex(kernel):
        return kernel
    split = _Split()
    buffers = tuple([split.buffer(b) for b in kernel.buffers])
    return evolve(kernel, buffers=buffers, body=split.block(kernel.body))


def _has_complex(kernel: Kernel) -> bool:
    if any(is_complex(b.dtype) for b in kernel.buffers):
        return True
    for s in walk(kernel.body):
        if any(is_complex(x.dtype) for x in (*results_of(s), *operands_of(s), *allocated_by(s))):
            return True
    return False


class _Split:
    """Writes statements on parts."""

    def __init__(self) -> None:
        self.pairs: dict[Value, Pair] = {}
        self.same: dict[Value, Operand] = {}  # of real numbers that were taken out of complex ones
        self.buffers: dict[Buffer, Buffer] = {}
        self.functions: dict[int, Lambda] = {}  # combiners by identity: several loops may share one

    def buffer(self, b: Buffer) -> Buffer:
        """The array of the parts."""
        if not is_complex(b.dtype):
            return b
        made = self.buffers.get(b)
        if made is None:
            layout = "C" if b.layout == "C" else "unit"
            made = Buffer(b.name, part_dtype(b.dtype), (*b.shape, 2), layout, b.space, b.alignment)
            self.buffers[b] = made
        return made

    def pair(self, x: Operand) -> Pair:
        """The parts of an operand."""
        if isinstance(x, Const):
            dtype, value = part_dtype(x.dtype), complex(x.value)
            return Const(value.real, dtype), Const(value.imag, dtype)
        return self.pairs[x]

    def operand(self, x: Operand) -> Operand:
        """One that is no complex number."""
        return self.same.get(x, x) if isinstance(x, Value) else x

    def uses(self, xs: tuple[Operand, ...]) -> tuple[Operand, ...]:
        out: list[Operand] = []
        for x in xs:
            out += self.pair(x) if is_complex(x.dtype) else (self.operand(x),)
        return tuple(out)

    def defines(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        out: list[Value] = []
        for v in values:
            out += self.define(v) if is_complex(v.dtype) else (v,)
        return tuple(out)

    def define(self, v: Value) -> tuple[Value, Value]:
        """New values for the parts of one."""
        dtype = part_dtype(v.dtype)
        made = Value(dtype), Value(dtype)
        self.pairs[v] = made
        return made

    def block(self, statements: Block) -> Block:
        out: list[Statement] = []
        for s in statements:
            match s:
                case Op() if is_complex(s.out.dtype) or any(is_complex(a.dtype) for a in s.args):
                    self._op(s, out)
                case Load() if is_complex(s.out.dtype):
                    buffer, index = self.buffer(s.buffer), self.uses(s.index)
                    for k, v in enumerate(self.define(s.out)):
                        out.append(Load(v, buffer, (*index, index_const(k))))
                case Store() if is_complex(s.buffer.dtype):
                    buffer, index = self.buffer(s.buffer), self.uses(s.index)
                    for k, x in enumerate(self.pair(s.value)):
                        out.append(Store(buffer, (*index, index_const(k)), x))
                case Atomic() if is_complex(s.buffer.dtype):
                    if s.op != "add":
                        raise UnsupportedError(f"parallel {s.op} of complex numbers")
                    buffer, index = self.buffer(s.buffer), self.uses(s.index)
                    for k, x in enumerate(self.pair(s.value)):
                        out.append(Atomic(s.op, buffer, (*index, index_const(k)), x))
                case _:
                    out.append(self._other(s))
        return tuple(out)

    def _other(self, s: Statement) -> Statement:
        """A statement that only hands complex numbers on."""
        changes: dict[str, Any] = {}
        blocks = dict(fields_by_role(type(s), "nested"))
        order = (*fields_by_role(type(s), "used", "bound"), *_with_ends(type(s)), *fields_by_role(type(s), "defined"))
        roles = roles_of(type(s))
        for name, several in order:
            have = getattr(s, name)
            if name in blocks:
                changes[name] = self.block(have)
            elif roles[name][0] in ("used", "yielded"):
                changes[name] = self.uses(have) if several else self.operand(have)
            elif several:
                changes[name] = self.defines(have)
        combine: Lambda | None = getattr(s, "combine", None)
        if combine is not None:
            changes["combine"] = self._function(combine)
        made = evolve(s, **changes) if changes else s
        made = map_accesses(made, lambda buffer, index: (self.buffer(buffer), index))
        return map_allocated(made, {b: self.buffer(b) for b in allocated_by(s)})

    def _function(self, f: Lambda) -> Lambda:
        made = self.functions.get(id(f))
        if made is None:
            params = self.defines(f.params)
            body = self.block(f.body)
            made = self.functions[id(f)] = Lambda(params, body, self.uses(f.results))
        return made

    # -- operations ----------------------------------------------------------------------------------------------------
    def _op(self, s: Op, out: list[Statement]) -> None:
        def op(name: str, *args: Operand, dtype: str = "") -> Operand:
            result = dtype or args[-1].dtype
            folded = fold_constants(name, args, result)
            if folded is not None:
                return folded
            if name == "convert" and args[0].dtype == result:
                return args[0]
            v = Value(result)
            out.append(Op(v, name, args, s.location))
            return v

        match s.op:
            case "complex":
                a, b = self.uses(s.args)
                self.pairs[s.out] = a, b
            case "real" | "imag":
                self.same[s.out] = self.pair(s.args[0])[s.op == "imag"]
            case "eq" | "ne":
                (a, b), (c, d) = map(self.pair, s.args)
                both = op("and" if s.op == "eq" else "or", op(s.op, a, c, dtype="bool"), op(s.op, b, d, dtype="bool"))
                self.same[s.out] = both
            case "convert":
                self._convert(s, op)
            case "select":
                condition = self.operand(s.args[0])
                (a, b), (c, d) = map(self.pair, s.args[1:])
                self.pairs[s.out] = op("select", condition, a, c), op("select", condition, b, d)
            case "add" | "sub":
                (a, b), (c, d) = map(self.pair, s.args)
                self.pairs[s.out] = op(s.op, a, c), op(s.op, b, d)
            case "neg":
                a, b = self.pair(s.args[0])
                self.pairs[s.out] = op("neg", a), op("neg", b)
            case "mul":
                (a, b), (c, d) = map(self.pair, s.args)
                real = op("sub", op("mul", a, c), op("mul", b, d))
                self.pairs[s.out] = real, op("add", op("mul", a, d), op("mul", b, c))
            case name:
                raise InternalError(f"{name} of complex numbers")

    def _convert(self, s: Op, op: Callable[..., Operand]) -> None:
        (x,) = s.args
        if not is_complex(s.out.dtype):
            self.same[s.out] = op("convert", self.pair(x)[0], dtype=s.out.dtype)
            return
        dtype = part_dtype(s.out.dtype)
        if is_complex(x.dtype):
            a, b = self.pair(x)
            self.pairs[s.out] = op("convert", a, dtype=dtype), op("convert", b, dtype=dtype)
        else:
            self.pairs[s.out] = op("convert", self.operand(x), dtype=dtype), Const(0.0, dtype)


def _with_ends(kind: type) -> tuple[tuple[str, bool], ...]:
    """Blocks and what is read at their ends, in the order in which they are declared."""
    roles: Mapping[str, tuple[str, bool]] = roles_of(kind)
    return tuple([(name, several) for name, (role, several) in roles.items() if role in ("nested", "yielded")])
