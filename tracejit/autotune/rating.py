"""What the loops of a kernel would cost if one of them ran in lanes: which one is chosen, how many lanes it has, and
how many vectors are in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TypeAlias, cast

from tracejit.ir.conflicts import conflicts
from tracejit.ir.extents import Extent, greatest_extent
from tracejit.ir.kernel import (
    Access,
    Const,
    For,
    If,
    Op,
    Prefix,
    Statement,
    Value,
    While,
    accesses_of,
    blocks,
    bound_in,
    is_pure,
    operands_of,
    results_of,
    walk,
)
from tracejit.ir.passes.independence import independent
from tracejit.ir.scalar import BITS, OPS, is_float
from tracejit.support.nodes import define, field

__all__ = ["Nest", "lanes_of", "natural_width", "nests_of", "strides_in", "vector_loops"]


MOST_ONE_BY_ONE = 128  # accesses of single lanes in the code of one iteration of a vector loop


FEWEST_LANES = 8


UNKNOWN_EXTENT = 1024  # what a symbolic extent is taken for when loops are compared


Strides: TypeAlias = "dict[Value, int | None]"
"""How values vary with the index of a loop: by an integer (affine), or None (any other way).  Absent: not at all."""


@define(eq=False)
class Nest:
    """One loop with what is known of it."""

    loop: For
    children: list[Nest] = field(factory=list)
    guarded: bool = False  # inside a branch or while loop
    inside: Sequence[Statement] = ()  # every statement of the body, nested ones as well

    @property
    def trips(self) -> float:
        lower, upper = self.loop.lower, self.loop.upper
        if (
            isinstance(lower, Const)
            and isinstance(upper, Const)
            and isinstance(lower.value, int)
            and isinstance(upper.value, int)
        ):
            return max(0, upper.value - lower.value)
        return UNKNOWN_EXTENT

    @property
    def most_trips(self) -> float:
        """How many iterations it has at most, as far as that is known when code is made."""
        lower, upper = self.loop.lower, self.loop.upper
        if not (isinstance(lower, Const) and isinstance(upper, Const) and isinstance(lower.value, int)):
            return inf
        most = greatest_extent(cast("Extent", upper.value))
        return max(0, most - lower.value) if isinstance(most, int) else inf

    @property
    def most_iterations(self) -> float:
        """How many iterations it and the loops inside of it have at most, one of each running through the next."""
        return self.most_trips * max([1, *[n.most_iterations for n in self.children]])


def nests_of(body: Sequence[Statement], guarded: bool = False) -> list[Nest]:
    """The loops of a block, each with those inside of it."""
    out: list[Nest] = []
    for s in body:
        if isinstance(s, For):
            out.append(Nest(s, nests_of(s.body, guarded), guarded, tuple(walk(s.body))))
        else:
            for block in blocks(s):
                out += nests_of(block, True)
    return out


def strides_in(nest: Nest) -> Strides:
    """How the values of a nest vary with the index of its loop."""
    vary: Strides = {nest.loop.index: 1}
    carries = any([isinstance(s, (For, While)) for s in nest.inside])
    for _ in range(2 if carries else 1):  # carries need a second look
        for s in nest.inside:
            if isinstance(s, Op):
                if any(isinstance(a, Value) and a in vary for a in s.args):
                    vary[s.out] = _affine(s, vary)
            elif isinstance(s, (For, While)):
                for p, r, y, i in zip(s.params, s.results, s.yields, s.inits, strict=True):
                    if any(isinstance(a, Value) and a in vary for a in (y, i)):
                        vary[p] = vary[r] = None
                if isinstance(s, While) and isinstance(s.test, Value) and s.test in vary:
                    for v in (*s.params, *s.results):
                        vary[v] = None
            elif isinstance(s, If):
                ys = (*s.then_yields, *s.else_yields, s.condition)
                if any(isinstance(a, Value) and a in vary for a in ys):
                    for r in s.results:
                        vary[r] = None
            elif any(isinstance(a, Value) and a in vary for a in operands_of(s)):
                vary.update(dict.fromkeys((*bound_in(s), *results_of(s))))
    return vary


def _affine(s: Op, vary: Strides) -> int | None:
    found = [vary.get(a, 0) if isinstance(a, Value) else 0 for a in s.args]
    parts = [p for p in found if p is not None]
    if len(parts) < len(found) or s.out.dtype != "i64":
        return None
    if s.op == "add":
        return parts[0] + parts[1]
    if s.op == "sub":
        return parts[0] - parts[1]
    if s.op == "mul":
        a, b = s.args
        if isinstance(b, Const) and isinstance(b.value, int):
            return parts[0] * b.value
        if isinstance(a, Const) and isinstance(a.value, int):
            return parts[1] * a.value
    return None


def _access_cost(access: Access, vary: Strides, width: int) -> float:
    """Instructions of one access for a whole vector."""
    steps = [vary.get(i, 0) if isinstance(i, Value) else 0 for i in access.index or ()]
    if all(s == 0 for s in steps):
        return 1.0
    contiguous = access.buffer.layout != "strided" and steps[-1] in (1, -1) and all(s == 0 for s in steps[:-1])
    return 1.0 if contiguous else float(width)


def _rate(nest: Nest, vector: For, vary: Strides, width: int) -> float:
    """Cost of one iteration of everything in `nest.loop.body`, for a whole vector of `vector`."""
    return _rate_block(nest.loop.body, vector, vary, width)


def _rate_block(body: Sequence[Statement], vector: For, vary: Strides, width: int) -> float:
    total = 0.0
    for s in body:
        if isinstance(s, Op):
            total += OPS[s.op].cost
        elif isinstance(s, Prefix):
            total += 12.0 if s.params == vector.params else 2.0
        elif isinstance(s, For):
            n = Nest(s).trips
            inner = _rate_block(s.body, vector, vary, width)
            if s is vector:
                vectors = -(-n // width)
                total += vectors * (inner + 2) + 6
            else:
                total += n * (inner + 2)
        else:
            inside = sum([_rate_block(block, vector, vary, width) for block in blocks(s)])
            total += 30 * inside if isinstance(s, While) else inside
            total += sum([_access_cost(a, vary, width) for a in accesses_of(s)])
    return total


def _scalar_cost(body: Sequence[Statement]) -> float:
    """Cost of one pass over a block without lanes."""
    total = 0.0
    for s in body:
        if isinstance(s, Op):
            total += OPS[s.op].cost
        elif isinstance(s, For):
            total += Nest(s).trips * (_scalar_cost(s.body) + 2)
        else:
            inside = sum([_scalar_cost(block) for block in blocks(s)])
            total += 30 * inside if isinstance(s, While) else inside
            total += 4.0 if isinstance(s, Prefix) else len(accesses_of(s))
    return total


def _may_be_vector(nest: Nest) -> bool:
    loop = nest.loop
    if not independent(loop, loop.index):
        return False
    return (
        (not loop.params or loop.combine is not None)
        and not any([a.writes and not a.atomic and not a.index for s in nest.inside for a in accesses_of(s)])
        and not conflicts(loop).updates
    )


def natural_width(nest: Nest, vector_bits: int) -> int:
    """Lanes of a vector loop: by the widest floating type, else by the widest element of memory."""
    kinds = {r.dtype for s in nest.inside if is_pure(s) for r in results_of(s)}
    floats = [BITS[dtype] for dtype in kinds if is_float(dtype)]
    memory = [BITS[a.buffer.dtype] for s in nest.inside for a in accesses_of(s) if not a.atomic]
    return max(2, vector_bits // max(max(floats or memory or [64]), 8))


def _factor(nest: Nest) -> int:
    """Vectors in flight: more for short bodies, whose latency would show."""
    cost = sum([OPS[s.op].cost if isinstance(s, Op) else 1.0 for s in nest.inside])
    if any([isinstance(s, While) for s in nest.inside]):
        return 1
    return 4 if cost <= 24 else (2 if cost <= 80 else 1)


def lanes_of(nest: Nest, vector_bits: int) -> tuple[int, int]:
    """Lanes and vectors in flight of a loop that becomes a vector loop.

    Narrow elements that do not lie side by side are loaded and stored one by one, each an instruction, or a branch
    where a lane may be off: fewer lanes then, so that the code stays short.
    """
    width, factor = natural_width(nest, vector_bits), _factor(nest)
    one_by_one = _one_by_one(nest.loop.body, strides_in(nest))
    if one_by_one * width * factor > MOST_ONE_BY_ONE:
        factor = 1
    while width > FEWEST_LANES and one_by_one * width * factor > MOST_ONE_BY_ONE:
        width //= 2
    return width, factor


def _one_by_one(body: Sequence[Statement], vary: Strides) -> float:
    """How many accesses of a pass over a body have no instruction for a vector of them."""
    total = 0.0
    for s in body:
        if isinstance(s, For):
            total += (Nest(s).trips if isinstance(s.upper, Const) else 1) * _one_by_one(s.body, vary)
            continue
        total += sum(_one_by_one(block, vary) for block in blocks(s))
        for access in accesses_of(s):
            total += BITS[access.buffer.dtype] < 32 and _access_cost(access, vary, 2) > 1
    return total


def vector_loops(nest: Nest, vector_bits: int) -> tuple[list[Nest], float]:
    """The loops of a nest that become vector loops (one on every path), and the cost of the nest."""
    width = min(natural_width(nest, vector_bits), 64)
    inner_loops: list[Nest] = []
    inner_cost = _scalar_cost([s for s in nest.loop.body if not isinstance(s, For)])
    for child in nest.children:
        loops, cost = vector_loops(child, vector_bits)
        inner_loops += loops
        inner_cost += cost
    best = (inner_loops, nest.trips * (inner_cost + 2))
    if not nest.guarded and nest.trips > 1 and _may_be_vector(nest):
        vary = strides_in(nest)
        cost = -(-nest.trips // width) * (_rate(nest, nest.loop, vary, width) + 2) + 6
        if cost < best[1] and not _uniform_stores(nest, vary) and _bounds_uniform(nest, vary):
            best = ([nest], cost)
    return best


def _uniform_stores(nest: Nest, vary: Strides) -> bool:
    """Whether some store inside would be to one place for all lanes."""
    return any(
        a.writes and not a.atomic and not any(isinstance(i, Value) and i in vary for i in a.index or ())
        for s in nest.inside
        for a in accesses_of(s)
    )


def _bounds_uniform(nest: Nest, vary: Strides) -> bool:
    return not any(
        isinstance(s, For) and any(isinstance(b, Value) and b in vary for b in (s.lower, s.upper)) for s in nest.inside
    )
