"""`match` against values, None, names and `_` as branches, which may be the program's."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tracejit.tracer.statements.jumps import OfOneFunction, at, name, put

__all__ = ["without_matches"]


def without_matches(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements with branches in place of each `match` all of whose patterns are such ones."""
    return _Matches().visit(ast.Module([*body], [])).body


class _Matches(OfOneFunction):
    def visit_Match(self, node: ast.Match) -> Any:
        self.generic_visit(node)
        if not all(_is_simple(case.pattern) and _can_be_tested(case) for case in node.cases):
            return node
        subject = f"match@{node.lineno}:{node.col_offset}"
        rest: list[ast.stmt] = []
        for case in reversed(node.cases):
            rest = _branch(case, subject, rest)
        return [put(node, subject, node.subject), *rest]


def _is_simple(pattern: ast.pattern) -> bool:
    match pattern:
        case ast.MatchValue() | ast.MatchSingleton():
            return True
        case ast.MatchAs(pattern=inner):
            return inner is None or _is_simple(inner)
        case ast.MatchOr(patterns=patterns):
            return all(isinstance(p, ast.MatchValue | ast.MatchSingleton) for p in patterns)
        case _:
            return False


def _can_be_tested(case: ast.match_case) -> bool:
    """Whether a guard does not ask for a name that is bound where the pattern matches alone."""
    return case.guard is None or _test(case.pattern, "") is None or _captured(case.pattern) is None


def _branch(case: ast.match_case, subject: str, rest: list[ast.stmt]) -> list[ast.stmt]:
    """What a case does where it matches, and `rest` where it does not."""
    where = case.pattern
    captured = _captured(where)
    bind = [] if captured is None else [put(where, captured, name(subject))]
    test = _test(where, subject)
    if test is None:
        return [*bind, *(case.body if case.guard is None else [at(where, ast.If(case.guard, case.body, rest))])]
    if case.guard is not None:
        test = at(where, ast.BoolOp(ast.And(), [test, case.guard]))
    return [at(where, ast.If(test, [*bind, *case.body], rest))]


def _captured(pattern: ast.pattern) -> str | None:
    return pattern.name if isinstance(pattern, ast.MatchAs) else None


def _test(pattern: ast.pattern, subject: str) -> ast.expr | None:
    """Whether a pattern matches, None where it always does."""
    match pattern:
        case ast.MatchValue(value=value):
            return at(pattern, ast.Compare(name(subject), [ast.Eq()], [value]))
        case ast.MatchSingleton(value=value):
            return at(pattern, ast.Compare(name(subject), [ast.Is()], [ast.Constant(value)]))
        case ast.MatchOr(patterns=patterns):
            tests = [test for p in patterns if (test := _test(p, subject)) is not None]
            return at(pattern, ast.BoolOp(ast.Or(), tests))
        case ast.MatchAs(pattern=inner) if inner is not None:
            return _test(inner, subject)
        case _:
            return None
