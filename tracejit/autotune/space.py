"""The schedules a kernel may be tuned over: variations of the default along a few axes, all of them legal.

On a CPU: vector width (1/2, 1, 2 times the natural one), vectors in flight (1, 2, 4, 8), which loop is shared among
threads and how finely (not at all, 1/4, 1, 4 times the default), how often a varying while loop looks at its mask, and
which loop becomes lanes, how many rows are swept at a time. Of a matrix product: the tile (see `products.tiles_near`),
and none.
On a grid: the size of a work-group, the number of partial results, whether a row is taken by an item or by a group, and
how large the tiles are that groups keep in shared memory (or none).
Other kinds of directives propose their own (`Directive.candidates`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tracejit.autotune.heuristic import heuristic_schedule
from tracejit.autotune.products import product_tile, tiles_near
from tracejit.backends.base import Target
from tracejit.ir.kernel import Const, For, Kernel, While, walk
from tracejit.ir.schedule import (
    Directive,
    Grid,
    Parallel,
    Schedule,
    Split,
    Sweep,
    Tile,
    Vector,
    WhileUnroll,
    apply,
    name_loops,
)
from tracejit.support.errors import ScheduleError
from tracejit.support.nodes import evolve

__all__ = ["SPACE_VERSION", "candidates"]

SPACE_VERSION = 4  # part of every key: raised when the space, or what a directive means, changes

_WIDTHS = (1.0, 0.5, 2.0)
_FACTORS = (1, 2, 4, 8)
_GRAINS = (1.0, 0.25, 4.0, None)  # None: not parallel
_UNROLLS = (4, 1, 2, 8)
_BLOCKS = (4, 8, 16, 32)  # rows at a time
_STAGES = (1, 32, 64)  # sides of tiles in shared memory, besides the usual ones
_GROUPS = (64, 128, 256, 32, 512, 16, 1024)


def candidates(kernel: Kernel, target: Target, default: Schedule) -> list[Schedule]:
    """Legal schedules of a kernel, the default first, each once."""
    usual: Iterator[Schedule] = iter(())
    if target.grid:
        usual = _on_grid(default)
    elif target.vector_bits:
        usual = _on_processor(kernel, target, default)
    found = dict.fromkeys(itertools.chain([default], _proposed(kernel, target, default), usual))
    return [s for s in found if _legal(kernel, s)]


def _proposed(kernel: Kernel, target: Target, default: Schedule) -> Iterator[Schedule]:
    """The default with what kinds of directives propose themselves, one at a time."""
    for kind in Directive.kinds.values():
        rest = tuple(d for d in default.directives if not isinstance(d, kind))
        yield from (Schedule((*rest, d)) for d in kind.candidates(kernel, target))


def _legal(kernel: Kernel, schedule: Schedule) -> bool:
    try:
        apply(kernel, schedule)
    except ScheduleError:
        return False
    return True


def _on_grid(default: Schedule) -> Iterator[Schedule]:
    rest = tuple(d for d in default.directives if not isinstance(d, Grid))
    for size, rows, groups in itertools.product(_GROUPS, ("auto", "item", "group"), (None, 16, 256)):
        options: list[Directive] = [Grid("work_group", size)]
        options += [] if rows == "auto" else [Grid("rows", rows)]
        options += [] if groups is None else [Grid("groups", groups)]
        yield Schedule((*rest, *options))
    for side, jam in itertools.product(_STAGES, (None, 4)):
        options = [Grid("stage", side)]
        options += [] if jam is None else [Grid("jam", jam)]
        yield Schedule((*rest, *options))


def _on_processor(kernel: Kernel, target: Target, default: Schedule) -> Iterator[Schedule]:
    product = kernel.product
    if product is not None:
        given = [d for d in default.directives if isinstance(d, Tile)]
        usual = product_tile(product, target.vector_bits)
        for tile in [*given, *([usual] if usual is not None and usual not in given else [])]:
            yield from (Schedule((t,)) for t in tiles_near(tile, product, target.vector_bits))
        kernel = evolve(kernel, product=None)
        yield heuristic_schedule(kernel, target.vector_bits)
        if given:
            return
    yield from _swept(default)
    yield from _of_loops(kernel, target, default)


def _swept(default: Schedule) -> Iterator[Schedule]:
    """The default with rows in other blocks, and other tasks."""
    swept = [d for d in default.directives if isinstance(d, Sweep)]
    for d, block, grain in itertools.product(swept, _BLOCKS, _GRAINS):
        if grain is not None:
            rows = max(1, int(d.grain * grain) // block) * block
            changed = evolve(d, block=block, grain=rows)
            yield Schedule(tuple([changed if x is d else x for x in default.directives]))


def _of_loops(kernel: Kernel, target: Target, default: Schedule) -> Iterator[Schedule]:
    for base in dict.fromkeys([default, *_natural(default, target, kernel), *_other_loops(kernel, target)]):
        bases = [base, *_shared(kernel, base, target)]
        for shared, width, factor, grain in itertools.product(bases, _WIDTHS, _FACTORS, _GRAINS):
            varied = _varied(shared, width, factor, grain)
            if any(isinstance(s, While) for s in walk(kernel.body)):
                rest = tuple(d for d in varied.directives if not isinstance(d, WhileUnroll))
                yield from (Schedule((*rest, WhileUnroll(n))) for n in _UNROLLS)
            else:
                yield varied


def _varied(base: Schedule, width: float, factor: int, grain: float | None) -> Schedule:
    """`base` with other vectors and another grain; blocks stay multiples of what is done at once."""
    out: list[Directive] = []
    once: dict[str, int] = {}
    for d in base.directives:
        if isinstance(d, Vector):
            lanes = max(2, int(d.width * width))
            once[d.loop] = lanes * factor
            out.append(Vector(d.loop, lanes, factor))
        else:
            out.append(d)
    return Schedule(tuple(_regrained(out, once, grain)))


def _regrained(directives: Sequence[Directive], once: dict[str, int], grain: float | None) -> Iterator[Directive]:
    """Parallel directives scaled or dropped; the grain of a split loop with one block a chunk is the size
    of its blocks.
    """
    parallel = {d.loop: d for d in directives if isinstance(d, Parallel)}
    split = {d.loop for d in directives if isinstance(d, Split)}
    for d in directives:
        match d:
            case Split(loop=loop, size=size):
                block = once.get(f"{loop}.i", 1)
                outer = parallel.get(f"{loop}.o")
                if outer is not None and outer.grain == 1 and grain is not None:
                    size = int(size * grain)
                yield Split(loop, max(block, -(-size // block) * block))
            case Parallel() if grain is None:
                pass
            case Parallel(loop=loop, grain=old) if grain is not None and not (
                old == 1 and loop.endswith(".o") and loop[:-2] in split
            ):
                yield Parallel(loop, max(1, int(old * grain)))
            case _:
                yield d


def _natural(default: Schedule, target: Target, kernel: Kernel) -> Iterator[Schedule]:
    """The default with vectors of the heuristic's width, where it has others, and the heuristic itself."""
    heuristic = heuristic_schedule(kernel, target.vector_bits)
    widths = {d.loop: d.width for d in heuristic.directives if isinstance(d, Vector)}
    usual = max(widths.values(), default=max(2, target.vector_bits // 64))
    yield Schedule(
        tuple(evolve(d, width=widths.get(d.loop, usual)) if isinstance(d, Vector) else d for d in default.directives)
    )
    yield heuristic


def _other_loops(kernel: Kernel, target: Target) -> Iterator[Schedule]:
    """For each loop the schedule that makes it, alone, the vector loop."""
    names = name_loops(kernel.body)
    if len(names) > 8:
        return
    width = max(2, target.vector_bits // 64)
    yield from (Schedule((Vector(name, width, 1),)) for name in names.values())


def _shared(kernel: Kernel, base: Schedule, target: Target) -> Iterator[Schedule]:
    """`base` with its largest top-level loop shared among threads, where it shares none."""
    if target.threads < 2 or any(isinstance(d, Parallel) for d in base.directives):
        return
    names = name_loops(kernel.body)
    tops = [(t, names[s.index]) for s in kernel.body if isinstance(s, For) and (t := _trips(s)) is not None]
    if not tops:
        return
    trips, name = max(tops)
    vector = next((d for d in base.directives if isinstance(d, Vector) and d.loop == name), None)
    split = next((d for d in base.directives if isinstance(d, Split) and d.loop == name), None)
    if split is not None:
        yield Schedule((*base.directives, Parallel(f"{name}.o", max(1, trips // split.size // (4 * target.threads)))))
    elif vector is None:
        yield Schedule((*base.directives, Parallel(name, max(1, trips // (4 * target.threads)))))
    else:
        block = vector.width * vector.factor
        size = max(block, trips // (4 * target.threads) // block * block)
        rest = tuple(d for d in base.directives if d is not vector)
        yield Schedule((*rest, Split(name, size), Parallel(f"{name}.o", 1), evolve(vector, loop=f"{name}.i")))


def _trips(loop: For) -> int | None:
    """The iterations of a loop of constant extent; a symbolic one counts as long."""
    if not (isinstance(loop.lower, Const) and isinstance(loop.upper, Const)):
        return None
    lower, upper = loop.lower.value, loop.upper.value
    return upper - lower if isinstance(lower, int) and isinstance(upper, int) else 1 << 16
