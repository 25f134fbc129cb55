"""What the user wrote around an instruction: an `if`, a `while`, a call of `any`;
read from the source when an error is shown.
"""

from __future__ import annotations

import ast
import linecache

from tracejit.support.source import Location

__all__ = ["construct"]


def construct(location: Location | None) -> str:
    """The statement or expression that asks for a value at a location; empty if the source is not to be had.

    "if", "break" (an `if` that leaves a loop), "while", "assert", "and" (a value of `and`, `or`, `not`), "chain"
    (`a < x < b`), "in", "filter" (the `if` of a comprehension), "index" (`items[i]`), "slice", "format" (`"%f" % x`),
    or "any()": the call of a function of that name.
    """
    if location is None:
        return ""
    positions = list(location.code.co_positions())
    place = positions[location.lasti // 2] if location.lasti // 2 < len(positions) else (None,) * 4
    if None in place:
        return ""
    try:
        tree = ast.parse("".join(linecache.getlines(location.code.co_filename)))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    line, end, first, last = place
    calls = _opname(location).startswith(("CALL", "PRECALL"))
    for node in parents:
        if not isinstance(node, (ast.expr, ast.stmt)):
            continue
        if (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == (line, end, first, last):
            return _kind(node, parents, calls)
    return ""


def _opname(location: Location) -> str:
    import dis

    code, place = location.code.co_code, location.lasti
    # while it calls Python, a frame may stand on the caches behind the instruction
    while place > 0 and not code[place]:
        place -= 2
    return dis.opname[code[place]]


def _kind(node: ast.AST, parents: dict[ast.AST, ast.AST], calls: bool) -> str:
    match node:  # a jump may have the place of its statement
        case ast.If():
            return "break" if _leaves(node) else "if"
        case ast.While():
            return "while"
        case ast.Assert():
            return "assert"
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str())):
            return "format"
        case _:
            pass
    if isinstance(node, ast.Call) and calls:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return f"{name}()" if name else ""
    if isinstance(node, ast.Subscript):
        return "slice" if any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)) else "index"
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        return "chain"
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return "in"
    joined = isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
    while True:
        parent = parents.get(node)
        match parent:
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                joined, node = True, parent
                continue
            case ast.If(test=test) | ast.IfExp(test=test) if test is node:
                return "break" if isinstance(parent, ast.If) and _leaves(parent) else "if"
            case ast.While():
                return "while"
            case ast.Assert():
                return "assert"
            case ast.comprehension() if node in parent.ifs:
                return "filter"
            case _:
                return "and" if joined else ""


def _leaves(branch: ast.If) -> bool:
    """Whether a branch ends the loop that it is in."""
    pending: list[ast.AST] = [*branch.body, *branch.orelse]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Break, ast.Continue)):
            return True
        if not isinstance(node, (ast.For, ast.While, ast.FunctionDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    return False
