"""A long scan in parallel: each share is folded, the shares' results are scanned in order,
each share is scanned from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.backends.nest import constant_bounds
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Extent
from tracejit.ir.kernel import PARALLEL, Buffer, For, Load, Op, Operand, Prefix, Statement, Store, Value, index_const
from tracejit.ir.passes.independence import accesses, independent
from tracejit.ir.rewrite import fresh_statement, inline
from tracejit.support.nodes import evolve

__all__ = ["split_scan", "splits"]


def split_scan(scan: For, partials: Sequence[Buffer], count: Extent) -> tuple[For, For, For]:
    """Three loops that do what `scan` of `count` iterations does; `partials`, one a carry, have one element a share."""
    return _fold_shares(scan, partials, count), _scan_shares(scan, partials), _finish_shares(scan, partials, count)


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


def _finish_shares(scan: For, partials: Sequence[Buffer], count: Extent) -> For:
    shares = partials[0].shape[0]
    t, r, start, stop = _share(scan, count, shares)
    before = tuple(Value(p.dtype) for p in scan.params)
    loads = (Load(v, b, (t,)) for v, b in zip(before, partials, strict=True))
    own = evolve(scan, lower=start, upper=stop, inits=before, results=tuple(Value(p.dtype) for p in scan.params))
    return For(t, index_const(0), index_const(shares), (*r.statements, *loads, own), PARALLEL)
