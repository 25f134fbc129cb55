"""Where compiled loops look whether the user has pressed Ctrl-C.

A loop that may run long is cut into strips of some `_WORK` operations; between two strips `tj_poll` is called, which
reads a clock and, every 50 ms in the main thread, has Python's signal handlers run. The strip itself is the loop as it
was. Left alone are loops that are known to be short, and single passes over the extent of an array: those last as long
as it takes to read it, and the loops around them look.

Whoever finds that an exception is set stores 1 to the job's stop word and leaves its function; what it has computed is
incomplete. The program asks for the word after each kernel, kernels after each parallel loop, and `tj_poll` in other
threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tracejit.ir.extents import Dim, Extent, surely_at_most
from tracejit.ir.kernel import Block, Const, For, Op, Operand, Statement, Value, While, blocks, walk
from tracejit.ir.scalar import OPS

if TYPE_CHECKING:
    from tracejit.backends.cpu.codegen.emit import FunctionEmitter

__all__ = [
    "NO_MEMORY", "Lengths", "leave_if_stopped", "leave_without_memory", "look", "rarely", "strip_of", "strip_of_chunk",
    "strip_of_while",
]  # fmt: skip

NO_MEMORY = 2
"""What the stop word is where memory was wanted and there was none, instead of 1 for an exception."""
_WORK = 1 << 14  # operations between two looks: some 5 to 20 us
_LONG = 1 << 24  # operations of a loop that is left alone
_BODY = 1 << 12  # operations for each element of an extent, in a loop that is left alone
_FEW = 64  # iterations that are left to what is inside of them
_MATH_COST = 16
_LOOKS = 64  # what a loop that looks counts for the loops around it
_UNDERSTOOD = frozenset({"add", "idiv", "irem", "max", "min", "mul", "sub"})
_WEIGHTS = '!{!"branch_weights", i32 1, i32 1048576}'


class Lengths:
    """How long the loops of a kernel may be, as far as constants, extents and the loops around them tell."""

    def __init__(self, body: Block) -> None:
        self._made: dict[Value, Op | For] = {}
        self._limits: dict[Value, Extent | None] = {}
        self._signs: dict[Value, bool] = {}
        for s in walk(body):
            if isinstance(s, For):
                self._made[s.index] = s
            elif isinstance(s, Op) and s.out.dtype == "i64" and s.op in _UNDERSTOOD:
                self._made[s.out] = s

    def trips(self, s: For) -> Extent | None:
        """The most iterations of a loop; None if that is not known."""
        if isinstance(s.lower, Const) and isinstance(s.upper, Const):
            trips = s.upper.value - s.lower.value
            return trips if isinstance(trips, Dim) else max(0, trips)
        base, offset = self._apart(s.lower)
        spans = [end - offset for start, end in map(self._apart, self._ends(s.upper)) if start is base]
        if spans:
            return max(0, min(spans))
        return self._most(s.upper) if self._not_negative(s.lower) else None

    def _op(self, x: Operand, name: str) -> tuple[Operand, ...]:
        """The operands of the operation that makes x, if it is this one."""
        made = self._made.get(x) if isinstance(x, Value) else None
        return made.args if isinstance(made, Op) and made.op == name else ()

    def _ends(self, x: Operand) -> list[Operand]:
        """x, or what it is the smallest of."""
        parts = self._op(x, "min")
        return [end for part in parts for end in self._ends(part)] if parts else [x]

    def _apart(self, x: Operand) -> tuple[Operand, int]:
        """x as a value and a number added to it."""
        match self._op(x, "add"):
            case (Value() as a, Const(int(k))) | (Const(int(k)), Value() as a):
                base, offset = self._apart(a)
                return base, offset + k
            case _:
                return x, 0

    def _most(self, x: Operand) -> Extent | None:
        """A number or extent that x does not exceed."""
        if isinstance(x, Const):
            return x.value
        if x not in self._limits:
            self._limits[x] = self._limit(x)
        return self._limits[x]

    def _limit(self, x: Value) -> Extent | None:
        made = self._made.get(x)
        if isinstance(made, For):
            return self._most(made.upper)
        if made is None:
            return None
        a, b = made.args
        first, second = self._most(a), self._most(b)
        match made.op:
            case "min":
                return first if first is not None else second
            case "sub" | "idiv":
                return first if self._not_negative(b) else None
            case "add" if first is not None and second is not None:
                return first + second
            case _:
                return None

    def _not_negative(self, x: Operand) -> bool:
        if isinstance(x, Const):
            return surely_at_most(0, x.value)
        if x not in self._signs:
            self._signs[x] = self._has_no_sign(x)
        return self._signs[x]

    def _has_no_sign(self, x: Value) -> bool:
        made = self._made.get(x)
        if isinstance(made, For):
            return self._not_negative(made.lower)
        if made is None:
            return False
        return made.op != "sub" and (any if made.op == "max" else all)([self._not_negative(a) for a in made.args])

    def cost(self, statements: Sequence[Statement]) -> Extent:
        """The operations of a block between two looks: loops that look for themselves count little."""
        total: Extent = 0
        for s in statements:
            if isinstance(s, For):
                total = total + self._cost_of_loop(s)
            elif isinstance(s, While):
                total = total + _LOOKS
            else:
                for block in blocks(s):
                    total = total + self.cost(block)
                total = total + (_MATH_COST if isinstance(s, Op) and OPS[s.op].math else 1)
        return total

    def _cost_of_loop(self, s: For) -> Extent:
        if s.axis.kind == "parallel":
            return _LOOKS  # the pool looks between chunks
        trips, body = self.trips(s), self.cost(s.body)
        if trips is None or _may_be_long(trips, body):
            return _LOOKS
        if s.axis.kind == "vector" and isinstance(body, int):
            body = max(1, body // s.axis.width)
        return trips * body


def strip_of(e: FunctionEmitter, s: For, *, lanes: int = 1, step: int = 1) -> str:
    """How far the index of a loop goes between two looks, as an operand; empty if it need not look.

    lanes: how many iterations at a time.  step: what is added to the index each time.
    """
    if e.lengths is None:
        return ""
    trips = e.lengths.trips(s)
    if isinstance(trips, int):
        trips //= lanes
    body = e.lengths.cost(s.body) * prod(e.counts.values())
    return _every(e, body, step) if _may_be_long(trips, body) else ""


def strip_of_chunk(e: FunctionEmitter, s: For, grain: int) -> str:
    """The same for the iterations of one chunk of a parallel loop, after which the pool looks."""
    if e.lengths is None:
        return ""
    body = e.lengths.cost(s.body)
    long = grain > _BODY if isinstance(body, Dim) else grain * body > _LONG
    return _every(e, body) if long else ""


def strip_of_while(e: FunctionEmitter, s: While) -> str:
    """How many iterations a `while` makes between two looks, as an operand; empty if it need not look."""
    if e.lengths is None:
        return ""
    return _every(e, e.lengths.cost((*s.condition, *s.body)) * prod(e.counts.values()) * max(1, s.unroll))


def _every(e: FunctionEmitter, body: Extent, step: int = 1) -> str:
    """`step` times the iterations that are `_WORK` operations; computed at the head of the function
    where extents decide.
    """
    if not isinstance(body, Dim):
        return str(step * max(1, _WORK // max(1, body)))
    cost = e.polynomial(body)

    def write() -> str:
        several = e.line(f"udiv i64 {_WORK}, {e.line(f'or i64 {cost}, 1')}")
        return e.line(f"mul i64 {e.line(f'or i64 {several}, 1')}, {step}")  # at least one

    return e.at(e.entry, write)


def _may_be_long(trips: Extent | None, body: Extent) -> bool:
    if isinstance(trips, int):
        return trips > _FEW if isinstance(body, Dim) else trips * body > _LONG
    one_pass = trips is not None and _degree(trips) < 2 and not isinstance(body, Dim) and body <= _BODY * _block(trips)
    return not one_pass


def _degree(n: Dim) -> int:
    return max((len(monomial) for monomial, _ in n.terms), default=0)


def _block(n: Dim) -> int:
    """By how much an extent is divided, so that it counts blocks of so many."""
    divisors = [prod(_divisor(atom) for atom in monomial) for monomial, _ in n.terms if monomial]
    return max(1, min(divisors, default=1))


def _divisor(atom: str | tuple[str, Extent, Extent]) -> int:
    return atom[2] if not isinstance(atom, str) and atom[0] == "floordiv" and isinstance(atom[2], int) else 1


def look(e: FunctionEmitter) -> None:
    """Ask, and leave the function if an exception is set."""
    e.declare("@tj_poll", "declare i32 @tj_poll(ptr)")
    _leave_if(e, e.line(f"icmp ne i32 {e.line(f'call i32 @tj_poll(ptr {e.stop_word()})')}, 0"))


def leave_if_stopped(e: FunctionEmitter, *last: str) -> None:
    """Leave the function if the job was stopped, after the lines `last`."""
    _leave_if(e, e.line(f"icmp ne i32 {e.line(f'load atomic i32, ptr {e.stop_word()} monotonic, align 4')}, 0"), *last)


def leave_without_memory(e: FunctionEmitter, pointer: str, *last: str) -> None:
    """Leave the function if an allocation has failed; the program raises MemoryError."""
    _leave_if(
        e,
        e.line(f"icmp eq ptr {pointer}, null"),
        *last,
        f"store atomic i32 {NO_MEMORY}, ptr {e.stop_word()} release, align 4",
    )


def _leave_if(e: FunctionEmitter, condition: str, *last: str) -> None:
    leave, go = e.fresh_label("leave"), e.fresh_label("go")
    e.put(f"br i1 {condition}, label %{leave}, label %{go}{rarely(e)}")
    e.start(leave)
    for text in last:
        e.put(text)
    e.return_from()
    e.start(go)


def rarely(e: FunctionEmitter) -> str:
    """What a branch says whose first label is hardly ever taken: registers are saved there, not on the usual way."""
    e.declare("!0", f"!0 = {_WEIGHTS}")
    return ", !prof !0"
