"""Counters that are the index of their loop, and what follows of the ranges of integers, in kernels of scalar loops.

A loop of the program carries its counter; as the loop of a kernel it has an index, so the counter is that.  Then it is
known between which numbers the integers lie that are computed from it: comparisons, clips and checks of indices fold
away, and branches whose condition is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from tracejit.ir.builder import fold_constants, fold_index
from tracejit.ir.extents import Dim, Extent, fits_in_64_bits, surely_at_most
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
    results_of,
    walk,
)
from tracejit.ir.passes.dead import remove_dead
from tracejit.ir.ranges import IndexRanges
from tracejit.ir.rewrite import map_blocks, replace, substitute
from tracejit.support.nodes import evolve

__all__ = ["fold_inductions"]

L = TypeVar("L", For, While)
Order = tuple[Operand, Operand, bool]
"""(a, b, strict): a is less than b, or at most b."""


def fold_inductions(kernel: Kernel) -> Kernel:
    """The kernel with counters as indices, and without what is known."""
    folder = _Folder(kernel)
    return remove_dead(kernel.with_body(folder.block(kernel.body)))


class _Folder:
    def __init__(self, kernel: Kernel) -> None:
        self.ranges = IndexRanges()
        self.values: dict[Value, Operand] = {}  # what stands for values that are no longer computed
        self.made: dict[Value, Op | If] = {}  # what computes a value
        self.implied: dict[Value, list[Order]] = {}  # what holds of the carries of a loop where a carried flag does
        self.seen: dict[tuple[object, ...], Value] = {}  # what has been computed where this is
        self.squares: dict[Value, tuple[Extent, Extent]] = {}  # ranges of x * x where a loop is known to go on
        self.uses = Counter(x for s in walk(kernel.body) for x in operands_of(s))

    def of(self, x: Operand) -> Operand:
        return replace(x, self.values)

    def block(self, body: Block) -> Block:
        out: list[Statement] = []
        before = self.seen
        self.seen = dict(before)
        for s in body:
            self.statement(s, out)
        self.seen = before
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
            or self.flag(s.op, args)
            or self.unchanged(s.op, args)
            or self.small_product(s.op, args)
            or self.ranges.fold(s.op, args)
            or self.ranges.computed(s.out, s.op, args)
        )
        if found is not None:
            self.values[s.out] = found
            return
        key = (s.op, s.out.dtype, *args)
        if (same := self.seen.get(key)) is not None:
            self.values[s.out] = same
            return
        self.seen[key] = s.out
        if s.op == "mul" and args[0] is args[1] and args[0] in self.squares:
            self.ranges.bind_between(s.out, *self.squares[args[0]])
        made = self.made[s.out] = evolve(s, args=args)
        out.append(made)

    def flag(self, op: str, args: tuple[Operand, ...]) -> Operand | None:
        """The bool that a test asks for whose operand is one, as a number."""
        if op != "ne" or not isinstance(args[0], Value) or args[1] != _ZERO:
            return None
        made = self.made.get(args[0])
        return made.args[0] if isinstance(made, Op) and made.op == "convert" and made.args[0].dtype == "bool" else None

    def unchanged(self, op: str, args: tuple[Operand, ...]) -> Operand | None:
        """A number that is kept unless it is 0, and then 0 is: of a check that cannot fail."""
        if op != "select" or args[2] != _ZERO or not isinstance(args[0], Value):
            return None
        test = self.made.get(args[0])
        return args[1] if isinstance(test, Op) and test.op == "ne" and test.args == (args[1], _ZERO) else None

    def small_product(self, op: str, args: tuple[Operand, ...]) -> Operand | None:
        """True where a product of integers is checked, as one of floats, that surely has 64 bits."""
        if op != "lt" or args[0].dtype != "f64" or not isinstance(args[1], Const):
            return None
        most = 1
        for absolute in self.args_of("abs", args[0]):
            for factor in self.args_of("mul", absolute):
                ends = [self.ranges.of(x) for x in self.args_of("convert", factor)]
                if not ends or ends[0] is None or not isinstance(ends[0][0], int) or not isinstance(ends[0][1], int):
                    return None
                most *= max(-ends[0][0], ends[0][1])
            return Const(True, "bool") if self.args_of("mul", absolute) and most < args[1].value else None
        return None

    def args_of(self, name: str, x: Operand) -> tuple[Operand, ...]:
        """The operands of a value that is computed by the named operation."""
        made = self.made.get(x) if isinstance(x, Value) else None
        return made.args if isinstance(made, Op) and made.op == name else ()

    def loop(self, s: For, out: list[Statement]) -> None:
        s = evolve(s, lower=self.of(s.lower), upper=self.of(s.upper), inits=tuple([self.of(x) for x in s.inits]))
        self.ranges.bind(s.index, s.lower, s.upper)
        counters = self.counters(s) if s.combine is None and s.step == 1 else {}
        first: list[Statement] = []
        for k, offset in counters.items():
            self.values[s.params[k]] = self.shifted(s.index, offset, first)
        body = (*first, *self.block(s.body))
        yields = tuple([self.of(y) for y in s.yields])
        kept, same = self.constants(s, yields) if s.combine is None else (range(len(s.params)), {})
        kept = [k for k in kept if k not in counters]
        out.append(_with_carries(evolve(s, body=body, yields=yields), kept, same))
        for k, offset in counters.items():
            if self.uses[s.results[k]]:
                end = self.put("max", (s.upper, s.lower), out)
                self.values[s.results[k]] = self.shifted(end, offset, out)

    def constants(self, s: For | While, yields: tuple[Operand, ...]) -> tuple[Sequence[int], dict[Value, Operand]]:
        """(numbers of the carries that change, what the others are)."""
        kept: list[int] = []
        same: dict[Value, Operand] = {}
        for k, (p, init, y, r) in enumerate(zip(s.params, s.inits, yields, s.results, strict=True)):
            if y is p:
                same[p] = self.values[r] = init
            else:
                kept.append(k)
        return kept, same

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
        self.block(s.condition)  # once for what its test is, before it is known what that says of the carries
        self.imply(s)
        squares: dict[Value, tuple[Extent, Extent]] = {}
        for k, low, high in self.counted(s, squares):
            self.ranges.bind_between(s.params[k], low, high)
            self.ranges.bind_between(s.results[k], low, high)
        condition = self.block(s.condition)
        test = self.of(s.test)
        self.squares.update(squares)  # in the body, where the test has held
        with self.given(test, holds=True):
            body = self.block(s.body)
            yields = tuple([self.of(y) for y in s.yields])
        for p in squares:
            del self.squares[p]
        kept, same = self.constants(s, yields)
        out.append(_with_carries(evolve(s, condition=condition, test=test, body=body, yields=yields), kept, same))

    def imply(self, s: While) -> None:
        """Notes what holds of carries wherever a flag does that is carried beside them.

        `while j >= 0 and x[j] > key` looks at x[j] once before the loop and then at the end of each iteration, in
        a branch where j >= 0; what it finds is carried.
        """
        made = _makers((*s.condition, *s.body))
        changing = {x for t in walk((*s.condition, *s.body)) for x in results_of(t)}
        carried = {y: (p, init) for p, init, y in zip(s.params, s.inits, s.yields, strict=True)}

        def both(x: Operand) -> tuple[Operand, Operand] | None:
            """What is x at the end of an iteration, in the next one and in the first."""
            if x in carried:
                return carried[x]
            square = made.get(x) if isinstance(x, Value) else None
            if isinstance(square, Op) and square.op == "mul" and square.args[0] is square.args[1]:
                of = both(square.args[0])
                return None if of is None else (self.square(of[0]), self.square(of[1]))
            return None if x in changing or x in s.params else (x, self.of(x))

        for p, init, y in zip(s.params, s.inits, s.yields, strict=True):
            if p.dtype != "bool":
                continue
            with self.given(init, holds=True):
                self.implied[p] = [
                    (low[0], high[0], strict)
                    for a, b, strict in self.known(y, holds=True, made=made)
                    if (low := both(a)) and (high := both(b)) and self.ranges.in_order(low[1], high[1], strict)
                ]

    def square(self, x: Operand) -> Operand:
        """What x * x would be, where it stands nowhere."""
        before, self.seen = self.seen, {}
        found = self.put("mul", (x, x), [])
        self.seen = before
        return found

    def counted(self, s: While, squares: dict[Value, tuple[Extent, Extent]]) -> list[tuple[int, Extent, Extent]]:
        """(number, least, greatest) of the carries that go by steps up to what the test allows, or down, where no step
        leads beyond 64 bits.  squares: gets the ranges of those squares which the test is about, where it holds.
        """
        steps = {x.out: x for x in (*s.condition, *s.body) if isinstance(x, Op) and x.op in ("add", "sub")}
        ends = list(self.known(self.of(s.test), holds=True))
        found: list[tuple[int, Extent, Extent]] = []
        for k, (p, init, y) in enumerate(zip(s.params, s.inits, s.yields, strict=True)):
            step = steps.get(y) if isinstance(y, Value) else None
            first = self.ranges.of(init)
            if step is None or first is None or step.args[0] is not p:
                continue
            by = self.ranges.of(self.of(step.args[1]))
            if by is None or not isinstance(by[0], int) or not isinstance(by[1], int):
                continue
            least, most = by if step.op == "add" else (-by[1], -by[0])
            if not -_LONGEST < least <= most < _LONGEST:
                continue
            for a, b, strict in ends:
                is_square = self.is_square(a, p) and most < _SMALL and self.is_small(first)
                if least > 0 and (a is p or is_square):
                    end = self.ranges.of(self.of(b))
                    if end is None:
                        continue
                    last = end[1] - strict
                    highest = (_root(last) if is_square else last) + most
                    if not (_has_square(highest) if is_square else _has_64_bits(highest)):
                        continue
                    if surely_at_most(first[1], highest):
                        if is_square:
                            squares[p] = 0, last
                        found.append((k, first[0], highest))
                        break
                if most < 0 and b is p:
                    end = self.ranges.of(self.of(a))
                    if end is None or not _has_64_bits(end[0] + strict + least):
                        continue
                    if surely_at_most(end[0] + strict + least, first[0]):
                        found.append((k, end[0] + strict + least, first[1]))
                        break
        return found

    def is_square(self, x: Operand, p: Value) -> bool:
        """Whether x is p * p, which has 64 bits in a loop that goes on while it is less than something of them: p
        was small before its last step.
        """
        made = self.made.get(x) if isinstance(x, Value) else None
        return isinstance(made, Op) and made.op == "mul" and made.args == (p, p)

    def is_small(self, x: tuple[Extent, Extent]) -> bool:
        """Whether something is not negative and its square has 64 bits, after a step too."""
        return surely_at_most(0, x[0]) and surely_at_most(x[1], _SMALL)

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
        differ: list[int] = []
        for k, (r, x, y) in enumerate(zip(s.results, then_yields, else_yields, strict=True)):
            if x == y:
                self.values[r] = x
            elif self.uses[r]:
                differ.append(k)
        chosen = evolve(
            s,
            condition=condition,
            then=then,
            orelse=orelse,
            then_yields=tuple([then_yields[k] for k in differ]),
            else_yields=tuple([else_yields[k] for k in differ]),
            results=tuple([s.results[k] for k in differ]),
        )
        self.made.update(dict.fromkeys(chosen.results, chosen))
        out.append(chosen)

    @contextmanager
    def given(self, condition: Operand, holds: bool) -> Generator[None]:
        """Where it is known whether a condition holds."""
        with self.ranges.narrowed(list(self.known(condition, holds))):
            yield

    def known(self, condition: Operand, holds: bool, made: Mapping[Value, Op | If] | None = None) -> Iterable[Order]:
        """What follows from a condition that holds or does not.  made: what computes values."""
        made = self.made if made is None else made
        if not isinstance(condition, Value):
            return
        if holds:
            yield from self.implied.get(condition, ())
        op = made.get(condition)
        if op is None:
            return
        if isinstance(op, If):
            k = op.results.index(condition)
            sides = (op.then_yields[k], op.else_yields[k])
            for side, y, other in zip((True, False), sides, reversed(sides), strict=True):
                if isinstance(other, Const) and bool(other.value) != holds:  # so this side was taken
                    yield from self.known(op.condition, side, made)
                    yield from self.known(y, holds, made)
        elif op.op == "and" and holds:
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


def _with_carries(s: L, kept: Sequence[int], same: Mapping[Value, Operand]) -> L:
    """A loop with those of its carries only.  same: what the others are."""
    if len(kept) == len(s.params):
        return s
    names = ("params", "inits", "yields", "results")
    left = evolve(s, **{name: tuple([getattr(s, name)[k] for k in kept]) for name in names})
    return substitute(left, same) if same else left


def _makers(body: Block) -> dict[Value, Op | If]:
    """What computes the values of a block."""
    return {x: s for s in body if isinstance(s, Op | If) for x in results_of(s)}


def _root(most: Extent) -> Extent:
    """What is at most that whose square is at most something; the root of a symbolic extent is below it."""
    return most if isinstance(most, Dim) else math.isqrt(max(most, 0))


def _has_64_bits(x: Extent) -> bool:
    return fits_in_64_bits(x, [x]) if isinstance(x, Dim) else -(2**63) <= x < 2**63


def _has_square(x: Extent) -> bool:
    """Whether the square of a number up to x has 64 bits; of a symbolic one x is a step beyond the root."""
    return isinstance(x, Dim) or x * x < 2**63


_LONGEST = 2**32
_SMALL = 2**31
_ZERO = index_const(0)
_ONE = index_const(1)
_ORDER = {"lt": (True, True), "le": (True, False), "gt": (False, True), "ge": (False, False)}
"""Comparisons: whether the first operand is the lesser one, and strictly."""
