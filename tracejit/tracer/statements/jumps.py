"""`break`, `continue` and early `return` as flags: afterwards a block runs from its first statement to its last.

A name made here holds a character that no program can write (`break@12`), so it never meets one of the user's.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from tracejit.tracer.statements.names import has

__all__ = ["NotRewritten", "OfOneFunction", "at", "name", "put", "without_jumps"]

_JUMPS = (ast.Return, ast.Break, ast.Continue)
_MOST_COPIES = 16
"""So many times a statement is written out at most, on the ways that lead to it past branches which may return."""

N = TypeVar("N", bound=ast.AST)


class NotRewritten(Exception):
    """Why a function is traced as it is."""


def at(where: Any, node: N) -> N:
    """Gives new nodes the place of another: of a statement over many lines, its first
    (a call counts as where the name of its function ends).
    """
    line, first = where.lineno, where.col_offset
    last = where.end_col_offset if where.end_lineno == line else first + 1
    for part in ast.walk(node):
        if "lineno" in part._attributes and not hasattr(part, "lineno"):
            made: Any = part
            made.lineno, made.end_lineno, made.col_offset, made.end_col_offset = line, line, first, last
    return node


def name(text: str, context: type[ast.expr_context] = ast.Load) -> ast.Name:
    """The name, read or bound."""
    return ast.Name(text, context())


def put(where: Any, text: str, value: ast.expr) -> ast.Assign:
    """The statement `text = value`."""
    return at(where, ast.Assign([name(text, ast.Store)], value))


class OfOneFunction(ast.NodeTransformer):
    """Changes statements, not functions and classes among them."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node


def _any_of(where: Any, flags: set[str]) -> ast.expr:
    names: list[ast.expr] = [name(f) for f in sorted(flags)]
    return at(where, names[0] if len(names) == 1 else ast.BoolOp(ast.Or(), names))


def without_jumps(body: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a function with no `break` and `continue`, and `return` only as the last statement of the function or
    of branches that end it (`is_end`).  Loops have `stop`, an expression or None: they end where it holds; and `tail`,
    the last of their statements if these are what follows a `break`, in an `if` that asks just for that, else None.

    Raises: NotRewritten.
    """
    new, flags = _Jumps(body).block(body, None, top=True)
    return [*[put(body[0], f, ast.Constant(False)) for f in sorted(flags)], *new]


class _Jumps:
    """The jumps of a function.

    An early `return` of an array that the function changes in place, or of a part of one, or of a dict or list, which
    loops do not hand on, is evaluated only where the function ends: after it nothing is done, so that the names have
    what they had, and no other name stands for the array.
    """

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.changed = _changed_in_place(body)
        self.returned: dict[str, ast.expr] = {}  # by the flag of the statement
        self.guarded = 0  # statements around that may do something on the way out
        self.copies = 1  # of the statements at hand

    def block(self, statements: Sequence[ast.stmt], loop: str | None, *, top: bool) -> tuple[list[ast.stmt], set[str]]:
        """Statements and the flags that they may set.

        loop: the innermost one; top: outside of loops, `try` and `with`.
        """
        new: list[ast.stmt] = []
        raised: set[str] = set()
        for k, s in enumerate(statements):
            rest = statements[k + 1 :]
            if top and isinstance(s, ast.If) and has(s, ast.Return) and self.may_be_divided(s):
                goes_on = not _leaves(s.body) and not _leaves(s.orelse)
                self.copies *= 1 + goes_on
                again = copy.deepcopy(rest)  # now: what is rewritten has no jumps any more
                yes, a = self.block([*s.body, *rest], loop, top=top)
                no, b = self.block([*s.orelse, *again], loop, top=top)
                self.copies //= 1 + goes_on
                end: Any = at(s, ast.If(s.test, yes, no))
                end.is_end = True
                return [*new, end], raised | a | b
            if top and isinstance(s, ast.Return):
                return [*new, s], raised
            done, flags = self.statement(s, loop)
            new += done
            raised |= flags
            if not flags:
                continue
            if top:  # only a return can leave a statement at the top
                checks = [
                    at(s, ast.If(name(f), [ast.Return(copy.deepcopy(self.returned.get(f, name("value@"))))], []))
                    for f in sorted(flags)
                ]
                behind, more = self.block([*checks, *rest], loop, top=top)
                return [*new, *behind], raised | more
            if rest:
                behind, more = self.block(rest, loop, top=top)
                goes_on = at(rest[0], ast.UnaryOp(ast.Not(), _any_of(rest[0], flags)))
                unless: Any = at(rest[0], ast.If(goes_on, behind, []))
                unless.is_rest = not more  # what may leave the loop itself is no end of an iteration
                new.append(unless)
                raised |= more
            return new, raised
        return new, raised

    def may_be_divided(self, s: ast.If) -> bool:
        """Whether both sides of a branch get what follows it; else a flag tells whether it has returned."""
        return self.copies < _MOST_COPIES or _leaves(s.body) or _leaves(s.orelse)

    def statement(self, s: ast.stmt, loop: str | None) -> tuple[list[ast.stmt], set[str]]:
        match s:
            case ast.Return():
                value = s.value or ast.Constant(None)
                if isinstance(value, ast.Constant) and value.value is None:  # which is handed on by the flag
                    self.returned["return@none"] = value
                    return [put(s, "return@none", ast.Constant(True))], {"return@none"}
                is_late = has([value], ast.Dict, ast.List) or not self.changed.isdisjoint(_names_in(value))
                if not self.guarded and is_late and _of_names(value):
                    flag = f"return@{s.lineno}:{s.col_offset}"
                    self.returned[flag] = value
                    return [put(s, flag, ast.Constant(True))], {flag}
                return [put(s, "value@", value), put(s, "return@", ast.Constant(True))], {"return@"}
            case ast.Break():
                return [put(s, f"break@{loop}", ast.Constant(True))], {f"break@{loop}"}
            case ast.Continue():
                return [put(s, f"continue@{loop}", ast.Constant(True))], {f"continue@{loop}"}
            case ast.For() | ast.While():
                return self.loop(s, loop)
            case ast.If() | ast.With() | ast.Try() | ast.TryStar() | ast.Match():
                return self.compound(s, loop)
            case _:
                return [s], set()

    def loop(self, s: Any, loop: str | None) -> tuple[list[ast.stmt], set[str]]:
        here = f"{s.lineno}:{s.col_offset}"
        s.body, flags = self.block(s.body, here, top=False)
        if f"continue@{here}" in flags:
            s.body.insert(0, put(s, f"continue@{here}", ast.Constant(False)))
        ends = flags - {f"continue@{here}"}
        s.stop = _any_of(s, ends) if ends else None
        s.tail = s.body[-1] if ends == flags and getattr(s.body[-1], "is_rest", False) else None
        before = [put(s, f, ast.Constant(False)) for f in sorted(ends) if f.startswith("break@")]
        orelse, more = self.block(s.orelse, loop, top=False)
        s.orelse = []
        if orelse and ends:
            orelse = [at(s, ast.If(ast.UnaryOp(ast.Not(), _any_of(s, ends)), orelse, []))]
        return [*before, s, *orelse], {f for f in ends if f.startswith("return@")} | more

    def compound(self, s: Any, loop: str | None) -> tuple[list[ast.stmt], set[str]]:
        raised: set[str] = set()
        if has(getattr(s, "finalbody", []), *_JUMPS):
            raise NotRewritten("a jump in `finally`")
        guards = isinstance(s, ast.Try | ast.TryStar | ast.With)
        self.guarded += guards
        for owner in [s, *getattr(s, "handlers", ()), *getattr(s, "cases", ())]:
            for part in ("body", "orelse", "finalbody"):
                if getattr(owner, part, None):
                    inner, flags = self.block(getattr(owner, part), loop, top=False)
                    setattr(owner, part, inner)
                    if part == "body" and isinstance(owner, ast.Try | ast.TryStar) and flags:
                        self.forgotten(owner, flags)
                    raised |= flags
        self.guarded -= guards
        return [s], raised

    def forgotten(self, s: ast.Try | ast.TryStar, flags: set[str]) -> None:
        """After a jump out of a `try` its `else` does not run; where an error comes after it, of a `finally` within,
        the jump is not made.
        """
        if s.orelse:
            rest: list[ast.stmt] = s.orelse
            s.orelse = [at(s, ast.If(ast.UnaryOp(ast.Not(), _any_of(s, flags)), rest, []))]
        if any(isinstance(part, ast.Try | ast.TryStar) and part.finalbody for b in s.body for part in ast.walk(b)):
            for handler in s.handlers:
                handler.body = [*[put(s, f, ast.Constant(False)) for f in sorted(flags)], *handler.body]


def _leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether a block always returns or raises."""
    return any(
        isinstance(s, ast.Return | ast.Raise) or (isinstance(s, ast.If) and _leaves(s.body) and _leaves(s.orelse))
        for s in statements
    )


def _changed_in_place(body: Sequence[ast.stmt]) -> set[str]:
    """The names through which arrays are changed in place, those of objects that hold them too; also what is handed to
    a function, or to a method, whose result nobody takes.
    """
    found: set[str] = set()
    for s in body:
        for x in ast.walk(s):
            if isinstance(x, ast.Expr) and isinstance(x.value, ast.Call):
                found |= _names_in(x.value)
            if isinstance(x, ast.AugAssign) and isinstance(x.target, ast.Name):
                found.add(x.target.id)
            if isinstance(x, ast.Subscript) and isinstance(x.ctx, ast.Store):
                base: ast.AST = x
                while isinstance(base, ast.Subscript | ast.Attribute):
                    base = base.value
                if isinstance(base, ast.Name):
                    found.add(base.id)
    return found


def _names_in(value: ast.expr) -> set[str]:
    return {x.id for x in ast.walk(value) if isinstance(x, ast.Name)}


_OF_NAMES = (
    ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.UnaryOp, ast.BinOp, ast.Subscript, ast.Slice,
    ast.Attribute, ast.Call, ast.keyword, ast.Starred, ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip


def _of_names(value: ast.expr) -> bool:
    """Whether an expression has arithmetic, parts and calls of names and constants, and binds no names itself."""
    return all(isinstance(x, _OF_NAMES) for x in ast.walk(value))
