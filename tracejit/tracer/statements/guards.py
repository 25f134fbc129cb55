"""What errors meet in a traced function: an `except`, a `finally` that leaves by a jump, a `with` whose manager may
swallow them.  Each tells that it has caught something: that may be a refusal, or what a trace begins again by.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tracejit.tracer.statements.calls import HELPERS
from tracejit.tracer.statements.jumps import at, name
from tracejit.tracer.statements.names import has

__all__ = ["called", "guarded", "guarded_definition", "guarded_with", "with_numpys_errors"]


def called(where: Any, helper: str, *args: Any) -> ast.Call:
    """A call of one of the `Statements`; sets of names become tuples."""
    made: list[Any] = [ast.Constant(tuple(sorted(a))) if isinstance(a, set) else a for a in args]  # type: ignore[arg-type]
    return at(where, ast.Call(ast.Attribute(name(HELPERS), helper, ast.Load()), made, []))


def guarded(node: Any, block_of: Callable[[list[ast.stmt]], list[ast.stmt]]) -> Any:
    """A `try`.   block_of: what becomes of its blocks."""
    for handler in node.handlers:
        handler.body = [at(handler, ast.Expr(called(handler, "caught"))), *handler.body]
    leaves = has(node.finalbody, ast.Return, ast.Break, ast.Continue)
    if leaves:
        node.finalbody = [at(node, ast.Expr(called(node, "leaving"))), *node.finalbody]
    for part in [node, *node.handlers]:
        for block in ("body", "orelse", "finalbody"):
            if getattr(part, block, None):
                setattr(part, block, block_of(getattr(part, block)))
    if node.handlers or leaves:
        node.body = [with_numpys_errors(node, node.body)]
    if node.finalbody:
        node.finalbody = [_telling(node, node.finalbody, "ended")]
    return node


def with_numpys_errors(node: Any, body: list[ast.stmt]) -> ast.stmt:
    """What a `try` tries, with errors as NumPy raises them; of `except*` what it leaves, alone."""
    return _telling(node, body, "numpys")


def _telling(node: Any, body: Any, helper: str) -> ast.stmt:
    """Statements whose errors one is told of."""
    told: list[ast.stmt] = [ast.Expr(called(node, helper)), ast.Raise(None, None)]
    every = ast.Attribute(name(HELPERS), "everything", ast.Load())  # no bare `except`, which would look like the user's
    return at(node, ast.Try(body, [ast.ExceptHandler(every, None, told)], [], []))


def guarded_with(node: ast.With) -> ast.With:
    """A `with`, whose managers are watched."""
    for item in node.items:
        item.context_expr = called(node, "managed", item.context_expr)
    return node


class _Guards(ast.NodeTransformer):
    def __init__(self) -> None:
        self.found = False

    def visit_Try(self, node: Any) -> Any:
        self.found = True
        return guarded(node, self.block)

    def visit_TryStar(self, node: Any) -> Any:
        return with_numpys_errors(node, [self.visit_Try(node)])

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(s) for s in statements]

    def visit_With(self, node: ast.With) -> Any:
        self.found = True
        self.generic_visit(node)
        return guarded_with(node)


def guarded_definition(node: Any, *, within: bool = False) -> Any:
    """A function whose statements are Python's own but for these; None if it has none of them.

    within: it stands in one that is rewritten.  The helpers are global names for it, as it may ask for its variables.
    """
    guards = _Guards()
    guards.generic_visit(node)
    if within and guards.found:
        place = 0 if ast.get_docstring(node, clean=False) is None else 1
        node.body.insert(place, at(node, ast.Global([HELPERS])))
    return node if guards.found else None
