"""The order in which groups run: what one reads of another comes before, and so does who reads an array before who
changes it.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from tracejit.ir.jaxpr import Atom, Var
from tracejit.ir.passes.groups import Group

if TYPE_CHECKING:
    from tracejit.ir.passes.fuse import Fuser

__all__ = ["in_order"]


def in_order(fuser: Fuser) -> list[Group]:
    """The groups that fusion has made, in an order that respects what they read from each other."""
    stored = {v: g for g, node in fuser.nodes.items() for v in node.outputs}
    groups: dict[int, Group] = {}
    needs: dict[int, set[int]] = {}
    for g, made in fuser.nodes.items():
        members = sorted(set(made.members))
        inside = {v for m in members for v in fuser.equations[m].outputs}
        inputs = dict.fromkeys(
            a for m in members for a in fuser.equations[m].inputs if isinstance(a, Var) and a not in inside
        )
        groups[g] = Group(tuple(fuser.equations[m] for m in members), tuple(inputs), tuple(dict.fromkeys(made.outputs)))
        needs[g] = {stored[v] for v in inputs if v in stored}
    early = _early_readers(fuser, groups)
    waiting: dict[int, list[int]] = {}
    for g, need in needs.items():
        for h in need:
            waiting.setdefault(h, []).append(g)
    ready = [g for g, need in needs.items() if not need and g not in early]
    held = [g for g, need in needs.items() if not need and g in early]
    heapq.heapify(ready)
    heapq.heapify(held)
    blocks: dict[int, list[int]] = {}
    for g, others in early.items():
        for h in others:
            blocks.setdefault(h, []).append(g)
    done: set[int] = set()
    order: list[Group] = []
    while ready or held:
        g = heapq.heappop(ready or held)  # of groups that wait for each other one goes first, and copies
        if g in done:
            continue
        done.add(g)
        order.append(groups[g])
        for w in waiting.get(g, ()):
            needs[w].discard(g)
            if not needs[w]:
                heapq.heappush(held if w in early else ready, w)
        for w in blocks.get(g, ()):
            if w in early:
                early[w].discard(g)
                if not early[w]:
                    del early[w]
                    if not needs[w]:
                        heapq.heappush(ready, w)
    assert len(order) == len(groups), "fusion made a cycle"
    return order


def _early_readers(fuser: Fuser, groups: dict[int, Group]) -> dict[int, set[int]]:
    """For each group that changes a small part of an array those that read it as it was and may run before: if
    they do, the group can take over the memory.
    """
    readers: dict[Atom, list[int]] = {}
    for h, other in groups.items():
        for a in other.inputs:
            readers.setdefault(a, []).append(h)
    found: dict[int, set[int]] = {}
    for g, made in fuser.nodes.items():
        early = {h for a in made.changed for h in readers.get(a, ()) if h != g and not fuser.after[g] >> h & 1}
        if early:
            found[g] = early
    return found
