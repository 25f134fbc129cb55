"""Cheap clean-up of jaxprs: identities, common subexpressions, dead equations.  Each pass is linear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracejit.ir.jaxpr import Atom, Equation, Jaxpr, Literal, Var, bound_symbols, symbols_of, symbols_used
from tracejit.support.nodes import evolve

__all__ = ["atom_key", "cse", "dce", "simplify"]


def atom_key(a: Atom) -> object:
    """What equal operands have in common: literals by dtype and bits; 0.0 and -0.0 differ, a NaN equals itself."""
    return (a.value.tobytes(), a.aval) if isinstance(a, Literal) else a


def simplify(jaxpr: Jaxpr) -> Jaxpr:
    """Replace results that equal one of their operands, as each primitive's `simplify` rule says."""
    rename: dict[Var, Atom] = {}
    equations: list[Equation] = []
    for e in jaxpr.equations:
        inputs = tuple([rename.get(a, a) if isinstance(a, Var) else a for a in e.inputs])
        same = e.primitive.simplify(*inputs)
        if same is not None and all(inputs[same + k].aval == v.aval for k, v in enumerate(e.outputs)):
            rename.update(zip(e.outputs, inputs[same:], strict=False))
            continue
        equations.append(e if inputs == e.inputs else evolve(e, inputs=inputs))
    if not rename:
        return jaxpr
    return Jaxpr(jaxpr.inputs, equations, [rename.get(a, a) if isinstance(a, Var) else a for a in jaxpr.outputs])


def cse(jaxpr: Jaxpr) -> Jaxpr:
    """Compute equal equations once."""
    rename: dict[Var, Atom] = {}
    known: dict[object, tuple[Var, ...]] = {}
    equations: list[Equation] = []
    for e in jaxpr.equations:
        inputs = tuple([rename.get(a, a) if isinstance(a, Var) else a for a in e.inputs])
        key = (e.primitive, *[atom_key(a) for a in inputs])
        before = known.get(key)
        if before is not None:
            rename.update(zip(e.outputs, before, strict=True))
            continue
        known[key] = e.outputs
        equations.append(e if inputs == e.inputs else evolve(e, inputs=inputs))
    if not rename:
        return jaxpr
    return Jaxpr(jaxpr.inputs, equations, [rename.get(a, a) if isinstance(a, Var) else a for a in jaxpr.outputs])


def _binders(symbols: Iterable[str], binding: Mapping[str, Equation]) -> list[Var]:
    """The results of the equations that bind these symbols."""
    return [v for s in symbols if s in binding for v in binding[s].outputs]


def _trimmed(e: Equation, wanted: list[bool]) -> Equation:
    """The equation with the results that are wanted."""
    found = e.primitive.trimmed(e.inputs, wanted)
    if found is None:
        return e
    primitive, inputs, kept = found
    outputs = tuple([v for v, keep in zip(e.outputs, kept, strict=True) if keep])
    return evolve(e, primitive=primitive, inputs=tuple(inputs), outputs=outputs)


def dce(jaxpr: Jaxpr) -> Jaxpr:
    """Drop equations whose results nobody reads, and of others those results that their primitives can do without."""
    live = {a for a in jaxpr.outputs if isinstance(a, Var)}
    binding = bound_symbols(jaxpr.equations)
    if binding:
        live.update(_binders(symbols_of(Jaxpr([], [], jaxpr.outputs)), binding))
    kept: list[Equation] = []
    changed = False
    for e in reversed(jaxpr.equations):
        if any(v in live for v in e.outputs):
            if e.primitive.runs_jaxprs:
                whole, e = e, _trimmed(e, [v in live for v in e.outputs])
                changed = changed or e is not whole
            kept.append(e)
            live.update(a for a in e.inputs if isinstance(a, Var))
            if binding:
                live.update(_binders(symbols_used(e), binding))
    return (
        jaxpr
        if len(kept) == len(jaxpr.equations) and not changed
        else Jaxpr(jaxpr.inputs, reversed(kept), jaxpr.outputs)
    )
