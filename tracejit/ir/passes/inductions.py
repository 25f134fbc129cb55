"""Counters that are the index of their loop, and what follows of the ranges of integers, in kernels of scalar loops.

A loop of the program carries its counter; as the loop of a kernel it has an index, so the counter is that.  Then it is
known between which numbers the integers lie that are computed from it: comparisons, clips and checks of indices fold
away, and branches whose condition is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

from tracejit.ir.builder import fold_constants, fold_index
from tracejit.ir.extents import Extent, surely_at_most
from tracejit.ir.kernel import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Op,
    Operand,
    Statement,
    Value,
    While,
    index_const,
    operands_of,
    walk,
)
from tracejit.ir.passes.dead import remove_dead
from tracejit.ir.ranges import IndexRanges
from tracejit.ir.rewrite import map_blocks, replace, substitute
from tracejit.support.nodes import evolve

__all__ = ["fold_inductions"]


def fold_inductions(kernel: Kernel) -> Kernel:
    """The kernel with counters as indices, and without what is known."""
    folder = _Folder(kernel)
    return remove_dead(kernel.with_body(folder.block(kernel.body)))


class _Folder:
    def __init__(self, kernel: Kernel) -> None:
        self.ranges = IndexRanges()
        self.values: dict[Value, Operand] = {}  # what stands for values that are no longer computed
        self.made: dict[Value, Op] = {}  # what computes a value
        self.uses = Counter(x for s in walk(kernel.body) for x in operands_of(s))

    def of(self, x: Operand) -> Operand:
        return replace(x, self.values)

    def block(self, body: Block) -> Block:
        out: list[Statement] = []
        for s in body:
            self.statement(s, out)
        return tuple(out)

    def statement(self, s: Statement, out: list[Statement]) -> None:
        match s:
            case Op():
                self.operation(s, out)
            case For():
                self.loop(s, out)
            case If():
                self.branch(s, out)
            case While():
                self.repetition(s, out)
            case _:
                out.append(map_blocks(self.replaced(s), self.block))

    def replaced(self, s: Statement) -> Statement:
        """A statement on what stands for its operands, those of its blocks included, at their ends too."""
        return substitute(s, self.values)

    def operation(self, s: Op, out: list[Statement]) -> None:
        args = tuple([self.of(x) for x in s.args])
        found = (
            fold_index(s.op, args)
            or fold_constants(s.op, args, s.out.dtype)
            or self.ranges.fold(s.op, args)
            or self.ranges.computed(s.out, s.op, args)
        )
        if found is not None:
            self.values[s.out] = found
            return
        made = self.made[s.out] = evolve(s, args=args)
        out.append(made)

    def loop(self, s: For, out: list[Statement]) -> None:
        s = evolve(s, lower=self.of(s.lower), upper=self.of(s.upper), inits=tuple([self.of(x) for x in s.inits]))
        self.ranges.bind(s.index, s.lower, s.upper)
        counters = self.counters(s) if s.combine is None and s.step == 1 else {}
        first: list[Statement] = []
        for k, offset in counters.items():
            self.values[s.params[k]] = self.shifted(s.index, offset, first)
        body = (*first, *self.block(s.body))
        yields = [self.of(y) for y in s.yields]
        kept = [k for k in range(len(s.params)) if k not in counters]
        out.append(
            evolve(
                s,
                body=body,
                params=tuple([s.params[k] for k in kept]),
                inits=tuple([s.inits[k] for k in kept]),
                yields=tuple([yields[k] for k in kept]),
                results=tuple([s.results[k] for k in kept]),
            )
        )
        for k, offset in counters.items():
            if self.uses[s.results[k]]:
                end = self.put("max", (s.upper, s.lower), out)
                self.values[s.results[k]] = self.shifted(end, offset, out)

    def counters(self, s: For) -> dict[int, int]:
        """The carries that are the index, and how much is to be added to it."""
        ones = {x.out: x for x in s.body if isinstance(x, Op) and x.op == "add"}
        found: dict[int, int] = {}
        for k, (p, init, y) in enumerate(zip(s.params, s.inits, s.yields, strict=True)):
            step = ones.get(y) if isinstance(y, Value) else None
            if step is None or p.dtype != "i64" or not any(step.args == x for x in ((p, _ONE), (_ONE, p))):
                continue
            if init is s.lower:
                found[k] = 0
            elif isinstance(init, Const) and isinstance(s.lower, Const):
                if isinstance(init.value, int) and isinstance(s.lower.value, int):
                    found[k] = init.value - s.lower.value
        return found

    def repetition(self, s: While, out: list[Statement]) -> None:
        s = evolve(s, inits=tuple([self.of(x) for x in s.inits]))
        for p, low, high in self.counted(s):
            self.ranges.bind_between(p, low, high)
        condition = self.block(s.condition)
        test = self.of(s.test)
        with self.given(test, holds=True):
            body = self.block(s.body)
            yields = tuple([self.of(y) for y in s.yields])
        out.append(evolve(s, condition=condition, test=test, body=body, yields=yields))

    def counted(self, s: While) -> list[tuple[Value, Extent, Extent]]:
        """(carry, least, greatest) of those that go by constant steps up to what the test allows, or down."""
        steps = {x.out: x for x in (*s.condition, *s.body) if isinstance(x, Op) and x.op in ("add", "sub")}
        tests = {x.out: x for x in s.condition if isinstance(x, Op)}
        ends = list(self.known(s.test, holds=True, made=tests))
        found: list[tuple[Value, Extent, Extent]] = []
        for p, init, y in zip(s.params, s.inits, s.yields, strict=True):
            step = steps.get(y) if isinstance(y, Value) else None
            first = self.ranges.of(init)
            if step is None or first is None or step.args[0] is not p or not isinstance(step.args[1], Const):
                continue
            by = step.args[1].value if step.op == "add" else -step.args[1].value
            if not isinstance(by, int) or not -_LONGEST < by < _LONGEST:
                continue
            for a, b, strict in ends:
                end = self.ranges.of(self.of(b if a is p else a))
                if end is None:
                    continue
                if a is p and by > 0 and surely_at_most(first[1], end[1] - strict + by):
                    found.append((p, first[0], end[1] - strict + by))
                    break
                if b is p and by < 0 and surely_at_most(end[0] + strict + by, first[0]):
                    found.append((p, end[0] + strict + by, first[1]))
                    break
        return found

    def shifted(self, x: Operand, offset: int, out: list[Statement]) -> Operand:
        return self.put("add", (x, index_const(offset)), out) if offset else x

    def put(self, name: str, args: tuple[Operand, ...], out: list[Statement]) -> Operand:
        """The value of an operation that is new."""
        made = Op(Value("i64"), name, args)
        self.operation(made, out)
        return self.of(made.out)

    def branch(self, s: If, out: list[Statement]) -> None:
        condition = self.of(s.condition)
        if isinstance(condition, Const):
            taken, yields = (s.then, s.then_yields) if condition.value else (s.orelse, s.else_yields)
            for inner in taken:
                self.statement(inner, out)
            self.values.update({r: self.of(y) for r, y in zip(s.results, yields, strict=True)})
            return
        sides: list[tuple[Block, tuple[Operand, ...]]] = []
        for holds, block, yields in ((True, s.then, s.then_yields), (False, s.orelse, s.else_yields)):
            with self.given(condition, holds):
                made = self.block(block)
                sides.append((made, tuple([self.of(y) for y in yields])))
        (then, then_yields), (orelse, else_yields) = sides
        out.append(
            evolve(s, condition=condition, then=then, orelse=orelse, then_yields=then_yields, else_yields=else_yields)
        )

    @contextmanager
    def given(self, condition: Operand, holds: bool) -> Generator[None]:
        """Where it is known whether a condition holds."""
        with self.ranges.narrowed(list(self.known(condition, holds))):
            yield

    def known(
        self, condition: Operand, holds: bool, made: Mapping[Value, Op] | None = None
    ) -> Iterable[tuple[Operand, Operand, bool]]:
        """(a, b, strict): a is less than b, or at most b.  made: what computes values."""
        made = self.made if made is None else made
        op = made.get(condition) if isinstance(condition, Value) else None
        if op is None:
            return
        if op.op == "and" and holds:
            for x in op.args:
                yield from self.known(x, holds, made)
        elif op.op == "not":
            yield from self.known(op.args[0], not holds, made)
        elif op.op in _ORDER and op.args[0].dtype == "i64":
            a, b = op.args
            less, strict = _ORDER[op.op]
            if not less:
                a, b = b, a
            yield (a, b, strict) if holds else (b, a, not strict)


_LONGEST = 2**32
_ONE = index_const(1)
_ORDER = {"lt": (True, True), "le": (True, False), "gt": (False, True), "ge": (False, False)}
"""Comparisons: whether the first operand is the lesser one, and strictly."""
