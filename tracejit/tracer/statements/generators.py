"""`any`, `all` and `sum` of a generator expression as calls of a function with a loop: `any(v > 5 for v in x)` stops
where it knows, and what it goes over may be an array.  So are `min` and `max` with a key, a default, or conditions.
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
_EXTREMES = frozenset({"min", "max"})
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
    while not taken.isdisjoint((total, *_others(total))):
        total += "_"
    return _Generators(define, called, total).block(body)


def _others(total: str) -> tuple[str, str, str]:
    """The names, beside the total's, of an element, what it is compared by, and that of the one that is kept."""
    return f"{total}_element", f"{total}_by", f"{total}_most"


def _has_conditions(expression: ast.expr) -> bool:
    return isinstance(expression, ast.GeneratorExp) and any(c.ifs for c in expression.generators)


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
            case ast.Call(func=ast.Name(id=kind), args=[expression], keywords=keywords) if (
                kind in _EXTREMES
                and {k.arg for k in keywords} <= {"key", "default"}
                and not isinstance(expression, ast.Starred)
                and (keywords or _has_conditions(expression))
                and not (isinstance(expression, ast.GeneratorExp) and has([expression], *_OWN))
            ):
                start = []
                if isinstance(expression, ast.GeneratorExp):
                    generator = expression
                else:
                    element = _others(self.total)[0]
                    over = ast.comprehension(name(element, ast.Store), expression, [], 0)
                    generator = ast.GeneratorExp(name(element), [over])
            case _:
                return self.generic_visit(node)
        if any(c.is_async for c in generator.generators):
            return node
        plain = copy.deepcopy(node)
        text = f"{kind}@{node.lineno}:{node.col_offset}"
        first = generator.generators[0]
        bound = {n.id for c in generator.generators for n in ast.walk(c.target) if isinstance(n, ast.Name)}
        given: dict[str, ast.expr] = {}
        # an extreme may go over what binds names where the call stands; else as in any(x > 0 for x in x)
        if kind in _EXTREMES or any(isinstance(n, ast.Name) and n.id in bound for n in ast.walk(first.iter)):
            given["items@"], first.iter = first.iter, name("items@")
        if start:
            given["start@"] = start[0]
        given.update({f"{k.arg}@": k.value for k in node.keywords})
        body = self.extreme(kind, generator, [*given]) if kind in _EXTREMES else self.body(kind, generator, start)
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

    def extreme(self, kind: str, generator: ast.GeneratorExp, given: Sequence[str]) -> list[ast.stmt]:
        """What the function of `min` or `max` does: the first of several that are as small, or as great, is kept."""
        kept = self.total
        element, by, most = _others(kept)
        first = most if "key@" in given else kept  # None may be an element that has a key
        is_new: ast.expr = ast.Compare(name(first), [ast.Is()], [ast.Constant(None)])
        compared, with_it = (by, most) if "key@" in given else (element, kept)
        better = ast.Compare(name(compared), [ast.Lt() if kind == "min" else ast.Gt()], [name(with_it)])
        keeps: list[ast.stmt] = [ast.Assign([name(kept, ast.Store)], name(element))]
        inner: list[ast.stmt] = [ast.Assign([name(element, ast.Store)], generator.elt)]
        begin: list[ast.stmt] = [ast.Assign([name(kept, ast.Store)], ast.Constant(None))]
        if "key@" in given:
            given_none = ast.Compare(name("key@"), [ast.Is()], [ast.Constant(None)])
            key = ast.IfExp(given_none, name(element), ast.Call(name("key@"), [name(element)], []))
            inner.append(ast.Assign([name(by, ast.Store)], key))
            keeps.append(ast.Assign([name(most, ast.Store)], name(by)))
            begin.append(ast.Assign([name(most, ast.Store)], ast.Constant(None)))
        inner.append(ast.If(ast.BoolOp(ast.Or(), [is_new, better]), keeps, []))
        for part in reversed(generator.generators):
            for condition in reversed(part.ifs):
                inner = [ast.If(condition, inner, [])]
            inner = [ast.For(part.target, part.iter, inner, [])]
        text = ast.Constant(f"{kind}() iterable argument is empty")
        nothing = (
            ast.Return(name("default@"))
            if "default@" in given
            else ast.Raise(ast.Call(name("ValueError"), [text], []), None)
        )
        return [*begin, *inner, ast.If(copy.deepcopy(is_new), [nothing], []), ast.Return(name(kept))]
