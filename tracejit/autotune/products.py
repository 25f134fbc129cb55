"""The default tiles of matrix products: registers first, then caches, then tasks; and the tiles to try beside them.

A register tile is rated by what one step along the contracted axis costs: multiply-adds (two a cycle), loads and
broadcasts (two a cycle), at least the latency of one multiply-add; and by what it costs to begin and end it; times the
tiles that cover the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tracejit.ir.kernel import Factor, MatrixProduct
from tracejit.ir.scalar import BITS
from tracejit.ir.schedule import Tile
from tracejit.support.nodes import evolve, frozen

__all__ = ["product_tile", "tiles_near"]

UNKNOWN = 512  # what a symbolic extent is taken for
NEAR = 64 << 10  # bytes of an rhs panel: it streams from the second-level cache; partial sums cost more than that
FAR = 1100 << 10  # bytes of a packed lhs block: read in order once a panel, so that the next cache may hold some of it
CACHED = 256 << 10  # bytes: an operand that stays in the second-level cache need not be packed
REUSE = 4  # nor one that is read by fewer tiles, nor an rhs for fewer rows than
FEW_ROWS = 24
# so few rows are one block: tasks then share columns out, and pack their part of a large rhs themselves
ONE_BLOCK = 160
NARROW = 512  # columns, and contracted elements, of such a task at most
LATENCY = 5.2  # cycles of a multiply-add, and what the loop adds where nothing else fills it
TASK = 1_000_000  # multiply-adds worth a task of their own: about 20 us
TASKS = 16  # that many are enough for the threads we expect
STREAM = 64 << 10  # elements of a matrix that is read once, worth a task
ROWS = 8  # of such a matrix, read together: more streams than that are not prefetched
STRAIGHT = Factor("n")  # an rhs that is read along its rows


@frozen
class _Facts:
    """What is known of a product, symbolic extents taken for UNKNOWN."""

    dtype: str
    outer: int
    m: int
    n: int
    k: int
    lhs: Factor
    rhs: Factor
    symbolic: frozenset[str]

    @staticmethod
    def of(product: MatrixProduct) -> _Facts:
        extents = {"outer": product.outer, "m": product.m, "n": product.n, "k": product.k}
        known = {name: n for name, n in extents.items() if isinstance(n, int)}
        outer, m, n, k = (known.get(name, UNKNOWN) for name in extents)
        return _Facts(product.dtype, outer, m, n, k, product.lhs, product.rhs, frozenset(extents) - frozenset(known))

    @property
    def size(self) -> int:
        return max(BITS[self.dtype] // 8, 1)


def product_tile(product: MatrixProduct, vector_bits: int) -> Tile | None:
    """The tile of a product; None where plain loops are better."""
    f = _Facts.of(product)
    width = max(1, vector_bits // (8 * f.size))
    if f.m == 1 and "m" not in f.symbolic:
        return _row_times_matrix(f, width)
    rows, vectors = _registers(f, width, 16 if vector_bits <= 256 else 32)
    columns = vectors * width
    depth = _depth(f.k, columns * f.size)
    flips = [side for side, given, axis in (("lhs", f.lhs, "k"), ("rhs", f.rhs, "n")) if given.along != axis]
    share, grain, tall, wide = _tasks(f, rows, columns, depth)
    pack_rhs = (
        f.rhs != STRAIGHT or "n" in f.symbolic or (f.m >= FEW_ROWS and share != "depth" and f.k * f.n * f.size > CACHED)
    )
    if f.k * f.n * f.size > 4 * CACHED and f.m <= ONE_BLOCK and share in ("none", "tasks") and not f.symbolic:
        tall = f.m
        wide = max(min(wide, NARROW), columns) if pack_rhs else max(wide, 2 * NARROW)
        depth = min(depth, NARROW) if pack_rhs else ROWS
    pack_lhs = (
        f.lhs.computed
        or "m" in f.symbolic
        or (min(f.n, wide) >= 4 * REUSE * columns and f.k * f.m * f.size > 2 * CACHED)
    )
    pack = {(False, False): "none", (True, False): "lhs", (False, True): "rhs", (True, True): "both"}[
        pack_lhs, pack_rhs
    ]
    return Tile(rows, columns, width, depth, tall, wide, pack, share, grain, "+".join(flips) or "none")


def tiles_near(tile: Tile, product: MatrixProduct, vector_bits: int) -> Iterator[Tile]:
    """Tiles to try for a product beside `tile`: other blocks and panels, tasks, packing,
    and other register tiles that fit.
    """
    f = _Facts.of(product)
    width = max(1, vector_bits // (8 * f.size))
    depths = sorted({max(1, tile.depth // 2), tile.depth, 2 * tile.depth}, key=lambda n: n != tile.depth)
    for depth, tall, wide in itertools.product(depths, (1, 0.5, 2), (1, 0.5, 2)):
        yield evolve(
            tile, depth=depth, tall=max(tile.rows, int(tile.tall * tall)), wide=max(tile.columns, int(tile.wide * wide))
        )
    if tile.share in ("none", "tasks"):
        share = "tasks" if tile.share == "none" else "none"
        quarter = max(tile.rows, -(-f.m // 4)), max(tile.columns, -(-f.n // 4))
        yield evolve(tile, share=share)
        yield from (
            evolve(tile, share="tasks", tall=tall, wide=wide)
            for tall, wide in ((quarter[0], f.n), (f.m, quarter[1]), quarter)
        )
    yield from (evolve(tile, grain=n) for n in (max(1, tile.grain // 2), 2 * tile.grain))
    # What lies across the way it is read must be packed; the rest may be.
    for lhs, rhs in itertools.product((False, True), repeat=2):
        if (lhs or f.lhs.along in ("k", "m")) and (rhs or f.rhs.along == "n"):
            yield evolve(
                tile,
                pack={(False, False): "none", (True, False): "lhs", (False, True): "rhs", (True, True): "both"}[
                    lhs, rhs
                ],
            )
    for depth, (rows, columns, lanes) in itertools.product(
        depths, _register_tiles(f, width, 16 if vector_bits <= 256 else 32)
    ):
        yield evolve(
            tile,
            rows=rows,
            columns=columns,
            width=lanes,
            depth=depth,
            tall=max(rows, tile.tall // rows * rows),
            wide=max(columns, tile.wide),
        )


def _register_tiles(f: _Facts, width: int, registers: int) -> Iterator[tuple[int, int, int]]:
    """(rows, columns, width) of tiles that fit the registers: by vectors, the most rows, fewer,
    and as many as share them out evenly.
    """
    for lanes, vectors in itertools.product((width, width // 2), (1, 2, 3, 4, 6, 8)):
        most = (registers - vectors - 1) // vectors if f.m > 1 else 1
        if lanes < 2 or most < 1 or (vectors > 1 and vectors * lanes > f.n):
            continue
        most = min(most, f.m)
        even = -(-f.m // -(-f.m // most))
        yield from (
            (rows, vectors * lanes, lanes)
            for rows in dict.fromkeys((most, even, max(1, most * 3 // 4), max(1, most // 2)))
        )


def _row_times_matrix(f: _Facts, width: int) -> Tile | None:
    """One row times a matrix that lies along its rows: read once, a few rows at a time."""
    if f.rhs != STRAIGHT or f.n < width or f.k * f.n < STREAM // 4:
        return None
    columns = min(8, f.n // width) * width
    tasks = max(1, min(TASKS, f.outer * f.k * f.n // STREAM))
    if tasks == 1:
        return Tile(1, columns, width, ROWS, 1, f.n, "none", "none", 1, "none")
    if f.k >= 16 * ROWS * TASKS or f.n < TASKS * columns:
        return Tile(1, columns, width, ROWS, 1, f.n, "none", "depth", -(-f.k // (tasks * ROWS)) * ROWS, "none")
    return Tile(1, columns, width, ROWS, 1, max(columns, -(-f.n // tasks)), "none", "tasks", 1, "none")


def _tasks(f: _Facts, rows: int, columns: int, depth: int) -> tuple[str, int, int, int]:
    """(share, grain, tall, wide): blocks of rows that fill the second-level cache,
    then of columns until there are tasks enough.
    """
    tall = max(rows, FAR // (depth * f.size) // rows * rows)
    wide = max(columns, 4096 // columns * columns)
    work = f.m * f.n * f.k
    if work * f.outer <= TASK // 2:
        return "none", 1, tall, wide
    if f.outer > 1 and (f.outer >= 16 or work < TASK):
        return "batch", max(1, TASK // 2 // max(work, 1)), tall, wide
    tasks = max(1, min(TASKS, work // TASK))
    blocks = -(-f.m // (8 * rows)) * -(-f.n // (4 * columns))
    if blocks < min(tasks, 4) and f.k >= 4096 and not f.symbolic:
        return "depth", -(-f.k // (tasks * depth)) * depth, f.m, f.n
    tall = max(min(tall, -(-f.m // min(tasks, 8))), 8 * rows)
    more = -(-tasks // -(-f.m // tall))
    wide = max(min(wide, -(-f.n // more)), min(4 * columns, f.n))
    return "tasks", 1, tall, wide


def _registers(f: _Facts, width: int, registers: int) -> tuple[int, int]:
    """Rows and vectors of the register tile."""
    best, chosen = float("inf"), (1, 1)
    for vectors in (1, 2, 3, 4):
        blocks = -(-f.k // _depth(f.k, vectors * width * f.size))
        for rows in range(1, registers):
            if rows * vectors + vectors + 1 > registers or (vectors > 1 and vectors * width > f.n) or rows > f.m:
                continue
            tiles = -(-f.m // rows) * -(-f.n // (vectors * width))
            step = max(rows * vectors / 2, (rows + vectors) / 2, LATENCY) + 0.05 * (rows + vectors)
            cost = tiles * (f.k * step + blocks * (20 + rows * vectors * (3 if blocks > 1 else 1)))
            if cost < best:
                best, chosen = cost, (rows, vectors)
    return chosen


def _depth(k: int, row_bytes: int) -> int:
    """Equal blocks of the contracted axis whose panel of the rhs stays near."""
    most = max(64, NEAR // row_bytes)
    blocks = -(-k // most) if k > most * 3 // 2 else 1
    return max(1, -(k // -blocks) + 7 & ~7)
