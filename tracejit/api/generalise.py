"""Signatures with symbolic extents: when one is made, of which extents, and which calls it serves."""

from __future__ import annotations

from typing import Any

from tracejit.api.signature import ArrayLeaf, CallSignature
from tracejit.ir.extents import LARGE, Dim, DimDependent, Index, affine, least_extent, solved
from tracejit.support.errors import InternalError
from tracejit.support.nodes import evolve

__all__ = ["bind_dims", "decide", "generalise", "pattern_of", "with_other_extents"]


def pattern_of(signature: CallSignature) -> Any:
    """The signature without extents (0 and 1 stay: they broadcast)."""
    parts: list[Any] = []
    for leaf in signature.leaves:
        if isinstance(leaf, ArrayLeaf):
            shape = tuple(n if isinstance(n, int) and n < 2 else -1 for n in leaf.shape)
            parts.append((leaf.dtype, shape, leaf.layout, leaf.scalar, leaf.wrapped, leaf.strides))
        else:
            parts.append(leaf)
    return signature.tree, tuple(parts), signature.aliases, signature.backend


def bind_dims(symbolic: CallSignature, concrete: CallSignature) -> dict[str, int] | None:
    """The extents that make `symbolic` equal `concrete`, or None."""
    dims: dict[str, int] = {}
    for a, b in zip(symbolic.leaves, concrete.leaves, strict=True):
        if not isinstance(a, ArrayLeaf):
            continue
        for n, m in zip(a.shape, b.shape, strict=True):  # type: ignore[union-attr]
            if isinstance(n, Dim):
                found = solved(n, m)
                if found is None or dims.setdefault(*found) != found[1]:
                    return None
            elif n != m:
                return None
    return dims


def generalise(old: CallSignature, new: CallSignature) -> CallSignature:
    """Symbols where two signatures differ; axes that changed alike share one."""
    names: dict[Any, Dim] = {}
    leaves: list[Any] = []
    for a, b in zip(old.leaves, new.leaves, strict=True):
        if isinstance(b, ArrayLeaf) and isinstance(a, ArrayLeaf):
            shape: list[Any] = []
            for n, m in zip(a.shape, b.shape, strict=True):
                if m < 2 or (isinstance(n, int) and n == m):
                    shape.append(m)
                else:
                    shape.append(
                        names.setdefault((n if isinstance(n, int) else str(n), m), Dim.symbol(f"n{len(names)}"))
                    )
            b = evolve(b, shape=tuple(shape))
        leaves.append(b)
    return evolve(new, leaves=tuple(leaves))


def with_other_extents(signature: CallSignature) -> CallSignature:
    """A signature that differs from this one in every extent that may differ."""
    leaves = [
        evolve(x, shape=tuple(n if n < 2 else -n for n in x.shape)) if isinstance(x, ArrayLeaf) else x
        for x in signature.leaves
    ]
    return evolve(signature, leaves=tuple(leaves))


def decide(wanted: CallSignature, concrete: CallSignature, error: DimDependent) -> CallSignature:
    """Symbols on which a decision of the trace depends.

    Where remainders decide, an extent becomes a multiple of a symbol plus the remainder that it has.  Else symbols
    become those of large extents, if they are; then constants.
    """
    symbols, found = {s for s in error.symbols if not isinstance(s, Index)}, bind_dims(wanted, concrete) or {}
    if not symbols:
        raise InternalError(f"a decision depends on {error.difference}, which a trace cannot know") from error
    periods = {s: k for s, k in error.periods.items() if found.get(s, 0) // k >= least_extent(s)}
    enlarge = not any(s.startswith("large") for s in symbols) and all(found.get(s, 0) >= LARGE for s in symbols)

    def replaced(n: Any, m: Any) -> Any:
        if not isinstance(n, Dim) or not n.symbols() & symbols:
            return n
        symbol, factor, offset = affine(n)
        if periods:
            k = periods.get(symbol)
            return n if k is None else factor * (k * Dim.symbol(symbol) + found[symbol] % k) + offset
        return factor * Dim.symbol(f"large{symbol[1:]}") + offset if enlarge else m

    leaves: list[Any] = []
    for a, b in zip(wanted.leaves, concrete.leaves, strict=True):
        if isinstance(a, ArrayLeaf) and isinstance(b, ArrayLeaf):
            a = evolve(a, shape=tuple([replaced(n, m) for n, m in zip(a.shape, b.shape, strict=True)]))
        leaves.append(a)
    return evolve(wanted, leaves=tuple(leaves))
