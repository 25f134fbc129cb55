"""`any`, `all` and `sum` of a generator expression as calls of a function with a loop: `any(v > 5 for v in x)` stops
where it knows, and what it goes over may be an array.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import Any

from tracejit.tracer.statements.jumps import at, name
from tracejit.tracer.statements.names import has

__all__ = ["without_generators"]

_REDUCTIONS = frozenset({"any", "all", "sum"})
_SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp,
)  # fmt: skip
_OWN = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
"""What belongs to the function around a generator expression."""


def without_generators(
    body: Sequence[ast.stmt], define: Callable[[str, list[str], list[ast.stmt]], ast.FunctionDef], called: Any
) -> list[ast.stmt]:
    """The statements of a function, in front of each the functions that its reductions call.

    define: the definition of a function of that name, with these parameters and this body.  called: the call of
    `reduces` with these arguments (`calls.py`).
    """
    taken = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
    total = "total"
    while total in taken:
        total += "_"
    return _Generators(define, called, total).block(body)


class _Generators(ast.NodeTransformer):
    def __init__(self, define: Any, called: Any, total: str) -> None:
        self.define, self.called, self.total = define, called, total
        self.definitions: list[ast.stmt] = []

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        new: list[ast.stmt] = []
        for s in statements:
            if isinstance(s, _SCOPES):
                new.append(s)
                continue
            around, self.definitions = self.definitions, []
            self.generic_visit(s)
            new += [*self.definitions, s]
            self.definitions = around
        return new

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, _SCOPES):
            return node
        for part, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, part, self.block(value))
            elif isinstance(value, list):
                setattr(node, part, [self.visit(x) if isinstance(x, ast.AST) else x for x in value])
            elif isinstance(value, ast.AST):
                setattr(node, part, self.visit(value))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id=kind), args=[ast.GeneratorExp() as generator, *start], keywords=[]) if (
                kind in _REDUCTIONS and len(start) <= (kind == "sum") and not has([generator], *_OWN)
            ):
                pass
            case _:
                return self.generic_visit(node)
        if any(c.is_async for c in generator.generators):
            return node
        plain = copy.deepcopy(node)
        text = f"{kind}@{node.lineno}:{node.col_offset}"
        first = generator.generators[0]
        bound = {n.id for c in generator.generators for n in ast.walk(c.target) if isinstance(n, ast.Name)}
        given: dict[str, ast.expr] = {}
        if any(isinstance(n, ast.Name) and n.id in bound for n in ast.walk(first.iter)):  # any(x > 0 for x in x)
            given["items@"], first.iter = first.iter, name("items@")
        if start:
            given["start@"] = start[0]
        body = self.body(kind, generator, start)
        self.definitions.append(at(node, self.define(text, [*given], body)))
        call = ast.Call(name(text), [self.visit(x) for x in given.values()], [])
        return at(node, ast.IfExp(self.called(node, "reduces", node.func, ast.Constant(kind)), call, plain))

    def body(self, kind: str, generator: ast.GeneratorExp, start: Sequence[ast.expr]) -> list[ast.stmt]:
        """What the function does."""
        element, total = generator.elt, self.total
        inner: list[ast.stmt]
        match kind:
            case "any":
                inner = [ast.If(element, [ast.Return(ast.Constant(True))], [])]
            case "all":
                inner = [ast.If(ast.UnaryOp(ast.Not(), element), [ast.Return(ast.Constant(False))], [])]
            case _:
                inner = [ast.Assign([name(total, ast.Store)], ast.BinOp(name(total), ast.Add(), element))]
        for part in reversed(generator.generators):
            for condition in reversed(part.ifs):
                inner = [ast.If(condition, inner, [])]
            inner = [ast.For(part.target, part.iter, inner, [])]
        if kind != "sum":
            return [*inner, ast.Return(ast.Constant(kind == "all"))]
        begin = name("start@") if start else ast.Constant(0)
        return [ast.Assign([name(total, ast.Store)], begin), *inner, ast.Return(name(total))]
