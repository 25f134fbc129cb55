"""A long scan in parallel: each share is folded, the shares' results are scanned in order,
each share is scanned from there.  The results of many shares are scanned likewise, by blocks of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.backends.nest import constant_bounds, values_like
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Extent
from tracejit.ir.kernel import PARALLEL, Buffer, For, Load, Op, Operand, Prefix, Statement, Store, Value, index_const
from tracejit.ir.passes.independence import accesses, independent
from tracejit.ir.rewrite import fresh_statement, inline
from tracejit.support.nodes import evolve

__all__ = ["block_count", "share_count", "split_scan", "splits"]


_LONG = 4096  # a scan of fewer elements is not cut
_SHARE = 64  # elements that a share has at least
_OPEN = 4096  # shares at most, where it is not known how many elements there are


def share_count(count: Extent, most: int) -> int:
    """In how many shares a scan of `count` elements is cut; 1: it is not."""
    if not isinstance(count, int):
        return min(most, _OPEN)
    return max(1, min(most, count // _SHARE)) if count >= _LONG else 1


def block_count(shares: int) -> int:
    """In how many blocks shares are joined: as many as there are shares in one."""
    return 1 << shares.bit_length() // 2


def split_scan(scan: For, partials: Sequence[Buffer], blocks: Sequence[Buffer], count: Extent) -> tuple[For, ...]:
    """Loops that do what `scan` of `count` iterations does; `partials`, one a carry, have one element a share.

    blocks: where there are many shares, one element a block of them; otherwise nothing.
    """
    fold, finish = _fold_shares(scan, partials, count), _finish_shares(scan, partials, count)
    if not blocks:
        return fold, _scan_shares(scan, partials), finish
    return (
        fold,
        _fold_blocks(scan, partials, blocks),
        _scan_shares(scan, blocks),
        _finish_blocks(scan, partials, blocks),
        finish,
    )


def splits(scan: For) -> bool:
    """Whether the scan's elements can be computed twice, and in any order of shares."""
    touched = accesses((scan,))
    flat = all(isinstance(s, (Load, Op, Store, Prefix)) for s in scan.body)
    return flat and not touched.reads & touched.writes and independent(scan, scan.index) and constant_bounds(scan)


def _share(scan: For, count: Extent, shares: Extent) -> tuple[Value, ScalarRecorder, Operand, Operand]:
    """A share's number, the statements that find its bounds, and those."""
    t, r = Value("i64"), ScalarRecorder()
    size = index_const((count + (shares - 1)) // shares * scan.step)
    start = r.op("min", r.op("add", scan.lower, r.op("mul", t, size)), scan.upper)
    return t, r, start, r.op("min", r.op("add", start, size), scan.upper)


def _fold_shares(scan: For, partials: Sequence[Buffer], count: Extent) -> For:
    assert scan.combine is not None
    shares = partials[0].shape[0]
    t, r, start, stop = _share(scan, count, shares)
    clone = fresh_statement(scan, {})
    body: list[Statement] = []
    yields: tuple[Operand, ...] = ()
    for s in clone.body:
        if isinstance(s, Prefix):
            statements, yields = inline(scan.combine, (*s.params, *s.elements))
            body += statements
        elif not isinstance(s, Store):
            body.append(s)
    own = evolve(clone, lower=start, upper=stop, body=tuple(body), yields=yields)
    stores = (Store(b, (t,), v) for b, v in zip(partials, own.results, strict=True))
    return For(t, index_const(0), index_const(shares), (*r.statements, own, *stores), PARALLEL)


def _scan_shares(scan: For, partials: Sequence[Buffer]) -> For:
    """Replace each share's result by the fold of the shares before it; the results are the scan's."""
    assert scan.combine is not None
    t, params = Value("i64"), tuple(Value(p.dtype) for p in scan.params)
    elements = tuple(Value(p.dtype) for p in scan.params)
    loads = (Load(v, b, (t,)) for v, b in zip(elements, partials, strict=True))
    stores = (Store(b, (t,), p) for b, p in zip(partials, params, strict=True))
    body, yields = inline(scan.combine, (*params, *elements))
    upper = index_const(partials[0].shape[0])
    block = (*loads, *stores, *body)
    return For(t, index_const(0), upper, block, params=params, inits=scan.inits, yields=yields, results=scan.results)


def _block(partials: Sequence[Buffer], blocks: Sequence[Buffer]) -> tuple[Value, ScalarRecorder, Operand, Operand]:
    """A block's number, the statements that find its first and last share, and those."""
    (shares,), (count,) = partials[0].shape, blocks[0].shape
    t, r = Value("i64"), ScalarRecorder()
    size = index_const((shares + (count - 1)) // count)
    start = r.op("min", r.op("mul", t, size), index_const(shares))
    return t, r, start, r.op("min", r.op("add", start, size), index_const(shares))


def _fold_blocks(scan: For, partials: Sequence[Buffer], blocks: Sequence[Buffer]) -> For:
    """Each block's fold of its shares' results."""
    assert scan.combine is not None
    t, r, start, stop = _block(partials, blocks)
    i, params, results = Value("i64"), values_like(scan.params), values_like(scan.params)
    elements = values_like(scan.params)
    loads = (Load(v, b, (i,)) for v, b in zip(elements, partials, strict=True))
    body, yields = inline(scan.combine, (*params, *elements))
    fold = For(
        i, start, stop, (*loads, *body), params=params, inits=scan.inits, yields=yields, results=results,
        combine=scan.combine,
    )  # fmt: skip
    stores = (Store(b, (t,), v) for b, v in zip(blocks, results, strict=True))
    return For(t, index_const(0), index_const(blocks[0].shape[0]), (*r.statements, fold, *stores), PARALLEL)


def _finish_blocks(scan: For, partials: Sequence[Buffer], blocks: Sequence[Buffer]) -> For:
    """Replace each share's result by the fold of the shares before it, from what `blocks` says."""
    assert scan.combine is not None
    t, r, start, stop = _block(partials, blocks)
    i, before, params, elements = (
        Value("i64"),
        values_like(scan.params),
        values_like(scan.params),
        values_like(scan.params),
    )
    first = (Load(v, b, (t,)) for v, b in zip(before, blocks, strict=True))
    loads = (Load(v, b, (i,)) for v, b in zip(elements, partials, strict=True))
    stores = (Store(b, (i,), p) for b, p in zip(partials, params, strict=True))
    body, yields = inline(scan.combine, (*params, *elements))
    block = (*loads, *stores, *body)
    own = For(i, start, stop, block, params=params, inits=before, yields=yields, results=values_like(scan.params))
    return For(t, index_const(0), index_const(blocks[0].shape[0]), (*r.statements, *first, own), PARALLEL)


def _finish_shares(scan: For, partials: Sequence[Buffer], count: Extent) -> For:
    shares = partials[0].shape[0]
    t, r, start, stop = _share(scan, count, shares)
    before = tuple(Value(p.dtype) for p in scan.params)
    loads = (Load(v, b, (t,)) for v, b in zip(before, partials, strict=True))
    own = evolve(scan, lower=start, upper=stop, inits=before, results=tuple(Value(p.dtype) for p in scan.params))
    return For(t, index_const(0), index_const(shares), (*r.statements, *loads, own), PARALLEL)
