"""Loop bodies and branches that are being written: what composition fills, and makes statements of at the end."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from tracejit.ir.jaxpr import Var
from tracejit.ir.kernel import (
    SERIAL,
    Axis,
    For,
    If,
    Lambda,
    Operand,
    Statement,
    Value,
    While,
    index_const,
    results_of,
)
from tracejit.ir.rewrite import fresh_lambda
from tracejit.support.nodes import define, field

__all__ = ["OpenBranch", "OpenLoop", "OpenWhile", "Scope", "Written", "ZERO", "defined_by", "finish", "is_ancestor"]


ZERO = index_const(0)


@define(eq=False)
class Scope:
    """A loop body, a branch, or the root.  `statements` holds finished statements and open `OpenLoop`s."""

    parent: Scope | None
    depth: int
    guard: Scope | None  # the innermost branch scope at or above this one
    index: Value | None = None
    extent: Operand | None = None
    statements: list[Written] = field(factory=list)
    memo: dict[Hashable, Operand] = field(factory=dict)
    open_loops: dict[str, OpenLoop] = field(factory=dict)
    owner: Var | None = None  # the variable a loop is for: a reduction or a stored result


@define(eq=False)
class OpenLoop:
    """A loop under construction."""

    scope: Scope
    params: tuple[Value, ...] = ()
    inits: tuple[Operand, ...] = ()
    yields: tuple[Operand, ...] = ()
    results: tuple[Value, ...] = ()
    combine: Lambda | None = None
    lower: Operand = ZERO
    axis: Axis = SERIAL


@define(eq=False)
class OpenBranch:
    """An `If` whose blocks are being written."""

    condition: Operand
    then: Scope
    orelse: Scope
    then_yields: tuple[Operand, ...]
    else_yields: tuple[Operand, ...]
    results: tuple[Value, ...]


@define(eq=False)
class OpenWhile:
    """A `While` whose blocks are being written."""

    params: tuple[Value, ...]
    inits: tuple[Operand, ...]
    head: Scope
    test: Operand
    body: Scope
    yields: tuple[Operand, ...]
    results: tuple[Value, ...]
    unroll: int


Written: TypeAlias = Statement | OpenLoop | OpenBranch | OpenWhile


def defined_by(s: Written) -> tuple[Value, ...]:
    """The values that a statement defines; one whose blocks are being written as well."""
    return s.results if isinstance(s, (OpenLoop, OpenBranch, OpenWhile)) else results_of(s)


def is_ancestor(a: Scope, b: Scope) -> bool:
    """Whether scope b is a, or lies inside of it."""
    s: Scope | None = b
    while s is not None:
        if s is a:
            return True
        s = s.parent
    return False


def finish(scope: Scope) -> tuple[Statement, ...]:
    """The finished statements of a scope; nesting is as deep as the loops are, not as the program is long."""
    out: list[Statement] = []
    for s in scope.statements:
        if isinstance(s, OpenLoop):
            index, extent = s.scope.index, s.scope.extent
            assert index is not None and extent is not None
            # equal equations share a form, and so its combiner
            combine = None if s.combine is None else fresh_lambda(s.combine)
            out.append(
                For(
                    index,
                    s.lower,
                    extent,
                    finish(s.scope),
                    s.axis,
                    params=s.params,
                    inits=s.inits,
                    yields=s.yields,
                    results=s.results,
                    combine=combine,
                )
            )
        elif isinstance(s, OpenBranch):
            out.append(If(s.condition, finish(s.then), finish(s.orelse), s.then_yields, s.else_yields, s.results))
        elif isinstance(s, OpenWhile):
            out.append(While(s.params, s.inits, finish(s.head), s.test, finish(s.body), s.yields, s.results, s.unroll))
        else:
            out.append(s)
    return tuple(out)
