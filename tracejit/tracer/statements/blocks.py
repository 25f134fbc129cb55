"""Blocks become functions over the variables of the function around them (`nonlocal`), statements and expressions that
decide become calls of what `Statements` lists.

A call that is made here carries the place of one line, that of its statement, so that errors show the user's line.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from tracejit.support.nodes import define, field
from tracejit.tracer.bytecode import GIVE_TEXT
from tracejit.tracer.statements.generators import without_generators
from tracejit.tracer.statements.guards import called, guarded, guarded_definition, guarded_with, with_numpys_errors
from tracejit.tracer.statements.jumps import NotRewritten, OfOneFunction, at, name, put, without_jumps
from tracejit.tracer.statements.matches import without_matches
from tracejit.tracer.statements.names import (
    bound,
    changed,
    hands_round,
    has,
    holds,
    live,
    live_in_loop,
    only_augmented,
    own,
    read,
    surely_bound,
)
from tracejit.tracer.statements.variables import ITEM, is_flag

__all__ = ["rewritten_definition"]

_SEES_LOCALS = frozenset({"locals", "vars", "exec", "eval", "dir"})
_MAY_BE_TOLD = frozenset({"vars", "dir"})  # of what, and are not about variables then
_NEW_ARGUMENTS: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
_ITERATORS = frozenset({"range", "enumerate", "zip", "reversed"})


def rewritten_definition(node: Any) -> Any:
    """The definition of a function, or a lambda, with calls in place of what decides.  The node is changed.

    Raises: NotRewritten.
    """
    return _Calls().definition(node)


def function_definition(text: str, arguments: ast.arguments, body: Sequence[ast.stmt]) -> ast.FunctionDef:
    """The definition of a function without defaults and decorators."""
    return ast.FunctionDef(text, arguments, list(body), [], None, **_NEW_ARGUMENTS)


def arguments_named(names: Iterable[str]) -> ast.arguments:
    """Parameters without defaults."""
    return ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])


@define(eq=False)
class _Function:
    """What the blocks of one function have to know of it."""

    declared: dict[str, type[ast.stmt]]  # by `global` and `nonlocal`
    captured: set[str]  # what functions and classes within it may read at any time
    first: str | None  # its first parameter: that of `super()`
    moved: set[str] = field(factory=set[str])  # variables that blocks bind


class _Calls(ast.NodeTransformer):
    def __init__(self) -> None:
        self.function: _Function | None = None
        self.after: set[str] = set()
        # whether an exception may end the statements at hand and be caught: names keep their values then
        self.may_end = False

    # -- functions -----------------------------------------------------------------------------------------------------
    def definition(self, node: Any) -> Any:
        parts: list[Any] = [node.body] if isinstance(node, ast.Lambda) else node.body
        if isinstance(node, ast.AsyncFunctionDef) or has(
            parts, ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith
        ):
            raise NotRewritten("a generator or coroutine")
        nodes = list(own(parts))
        told = {id(n.func) for n in nodes if isinstance(n, ast.Call) and n.args}
        if any(
            isinstance(n, ast.Name) and n.id in _SEES_LOCALS and not (n.id in _MAY_BE_TOLD and id(n) in told)
            for n in nodes
        ):
            raise NotRewritten("it asks for its own variables")
        outer, may_end = self.function, self.may_end
        if isinstance(node, ast.Lambda):
            self.function = _Function({}, set(), None) if outer is None else outer
            node.body = self.visit(node.body)
            self.function = outer
            return node
        every = [*node.args.posonlyargs, *node.args.args]
        parameters = {
            a.arg for a in (*every, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg) if a is not None
        }
        doc = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
        body = node.body[len(doc) :]
        scopes = [s for s in body if isinstance(s, (ast.Global, ast.Nonlocal))]
        body = [_plain(s) for s in body if s not in scopes]
        declared: dict[str, type[ast.stmt]] = {n: type(s) for s in scopes for n in s.names}
        if node.name in GIVE_TEXT:
            for statement in [s for s in own(body) if isinstance(s, ast.Return) and s.value is not None]:
                statement.value = called(statement.value, "given_text", statement.value)
        if has(body, ast.Global, ast.Nonlocal):
            raise NotRewritten("`global` or `nonlocal` inside of a block")
        body = without_generators(without_matches(body), self.reduction, called)
        body = _WithoutBindingTests().visit(ast.Module(body, [])).body
        body = without_jumps(body) if body else body
        self.function = _Function(declared, holds(body) | set(declared), every[0].arg if every else None)
        self.may_end = False
        body = self.block(body, set())
        self.may_end = may_end
        moved = sorted(self.function.moved - set(declared) - parameters)
        self.function = outer
        if moved:  # never runs: tells the compiler that the variables belong to this function
            never = ast.Assign([name(m, ast.Store) for m in moved], ast.Constant(None))
            body.insert(0, at(node, ast.If(ast.Constant(False), [never], [])))
        node.body = [*doc, *scopes, *body] or [at(node, ast.Pass())]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [None if d is None else self.visit(d) for d in node.args.kw_defaults]
        return self.definition_within(node)

    def definition_within(self, node: ast.FunctionDef) -> Any:
        """The definition of a function within the one that is rewritten."""
        whole = copy.deepcopy(node)
        try:
            return self.definition(node)
        except NotRewritten:
            return guarded_definition(whole, within=True) or whole

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        whole = copy.deepcopy(node)
        try:
            return self.definition(node)
        except NotRewritten:
            return whole

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return guarded_definition(node, within=True) or node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.body = [self.of_a_class(s) for s in node.body]
        return node

    def of_a_class(self, statement: ast.stmt) -> ast.stmt:
        """A statement of the body of a class, with the methods rewritten that it defines."""
        if isinstance(statement, ast.ClassDef):
            return self.visit_ClassDef(statement)
        if isinstance(statement, ast.Try | ast.TryStar):
            return guarded(statement, lambda block: [self.of_a_class(s) for s in block])
        if isinstance(statement, ast.With):
            statement.body = [self.of_a_class(s) for s in statement.body]
            return guarded_with(statement)
        if not isinstance(statement, ast.FunctionDef):
            return statement
        return self.definition_within(statement)

    # -- blocks --------------------------------------------------------------------------------------------------------
    def block(self, statements: Sequence[ast.stmt], after: set[str]) -> list[ast.stmt]:
        """Statements behind which the names `after` are read."""
        assert self.function is not None
        new: list[ast.stmt] = []
        for s in reversed(statements):
            before = live([s], after) | (after if self.may_end else set[str]())
            self.after = after | self.function.captured
            done = self.visit(s)
            new = [*(done if isinstance(done, list) else [done]), *new]
            after = before
        return new

    def local(self, where: Any, body: Sequence[ast.stmt], arguments: Sequence[str] = ()) -> tuple[ast.expr, ast.stmt]:
        """(what it is called, its definition): a block as a function."""
        assert self.function is not None
        names = {n for n in bound(body) if "@" not in n or is_flag(n)}
        declared = self.function.declared
        self.function.moved |= names
        outside = {n for n in names if declared.get(n) is ast.Global}
        scope: list[ast.stmt] = []
        if outside:
            scope.append(at(where, ast.Global(sorted(outside))))
        if names - outside - set(arguments):
            scope.append(at(where, ast.Nonlocal(sorted(names - outside - set(arguments)))))
        text = f"block@{where.lineno}:{where.col_offset}:{len(arguments)}"
        made = function_definition(text, arguments_named(arguments), [*scope, *(body or [ast.Pass()])])
        return name(text), at(where, made)

    def reduction(self, text: str, parameters: Sequence[str], body: Sequence[ast.stmt]) -> ast.FunctionDef:
        """The definition of what a reduction of a generator expression calls."""
        return function_definition(text, arguments_named(parameters), body)

    def later(self, value: ast.expr) -> ast.Lambda:
        return at(value, ast.Lambda(arguments_named(()), value))

    # -- statements ----------------------------------------------------------------------------------------------------
    def visit_Expr(self, node: ast.Expr) -> Any:
        """`c and f()` as a statement, whose value nobody takes, is an `if`."""
        match node.value:
            case ast.BoolOp(op=op, values=[*first, last]):
                test = first[0] if len(first) == 1 else at(node, ast.BoolOp(op, first))
                test = test if isinstance(op, ast.And) else at(node, ast.UnaryOp(ast.Not(), test))
                return self.visit(at(node, ast.If(test, [ast.Expr(last)], [])))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.visit(at(node, ast.If(test, [ast.Expr(body)], [ast.Expr(orelse)])))
            case _:
                return self.generic_visit(node)

    def visit_If(self, node: Any) -> Any:
        assert self.function is not None
        after, is_end = self.after, getattr(node, "is_end", False)
        if is_end:  # only variables of others are there behind it
            after = set(self.function.declared)
        both = [*node.body, *node.orelse]
        assigned, augmented = bound(both), only_augmented(both)
        sure = surely_bound(node.body) & surely_bound(node.orelse)
        _mark_tests(node.test)
        test = self.visit(node.test)
        branches = [self.block(part, after) for part in (node.body, node.orelse)]
        then, first = self.local(node, branches[0])
        # another name: both may stand at one place, as those of a statement behind an early return do
        orelse, second = self.local(node, branches[1])
        assert isinstance(orelse, ast.Name) and isinstance(second, ast.FunctionDef)
        orelse.id = second.name = second.name + ":else"
        known = assigned & after
        call = called(node, "branch", test, then, orelse, assigned, known, known & augmented, sure)
        return [first, second, at(node, ast.Return(call) if is_end else ast.Expr(call))]

    def visit_For(self, node: Any) -> Any:
        after = self.after
        again = live_in_loop(node, after)
        loop = [node.target, *node.body]
        assigned, augmented, written = bound(loop), only_augmented(loop), changed(loop)
        carry = assigned & (after | again)
        source = self.source(node.iter)
        bind = at(node.target, ast.Assign([node.target], name(ITEM)))
        head, tail, definitions = node.body, at(node, ast.Constant(None)), list[ast.stmt]()
        known = set[str]()
        if node.tail is not None and hands_round(node.tail.body, node):
            head = node.body[:-1]
            between = live(node.tail.body, after | again | read(node.tail.test))
            known = assigned & (after | again | between)
            tail, definition = self.local(node.tail, self.block(node.tail.body, after | again))
            definitions.append(definition)
            again = again | between
        body, definition = self.local(node, [bind, *self.block(head, after | again)], (ITEM,))
        names = (assigned, carry, augmented, known, written)
        call = called(node, "iteration", source, body, tail, self.stop(node), *names)
        return [*definitions, definition, at(node, ast.Expr(call))]

    def source(self, node: ast.expr) -> ast.expr:
        """What a `for` goes over."""
        if _is_iterator(node):
            return called(node, "items", node.func, *[self.part(a) for a in _arguments(node)])
        is_new = isinstance(node, (ast.Call, ast.List, ast.Tuple, ast.Constant))
        found = self.visit(node)
        return found if is_new else called(found, "held", found)

    def part(self, node: ast.expr) -> ast.expr:
        """An argument of `zip` and its like."""
        return self.source(node) if _is_iterator(node) else self.visit(node)

    def visit_While(self, node: Any) -> Any:
        after = self.after
        again = live_in_loop(node, after)
        assigned, augmented = bound([*node.body, node.test]), only_augmented(node.body)
        written = changed([*node.body, node.test])
        carry = assigned & (after | again)
        _mark_tests(node.test)
        test, first = self.local(node, [at(node.test, ast.Return(self.visit(node.test)))])
        body, second = self.local(node, self.block(node.body, after | again))
        assert isinstance(body, ast.Name) and isinstance(second, ast.FunctionDef)
        body.id = second.name = second.name + ":do"
        call = called(node, "repetition", test, body, self.stop(node), assigned, carry, augmented, written)
        return [first, second, at(node, ast.Expr(call))]

    def stop(self, s: Any) -> ast.expr:
        return at(s, ast.Constant(None)) if s.stop is None else self.later(self.visit(s.stop))

    def visit_Try(self, node: Any) -> Any:
        after, around = self.after | read(node), self.may_end
        self.may_end = True
        node = guarded(node, lambda block: self.block(block, after))
        self.may_end = around
        return node

    def visit_TryStar(self, node: Any) -> Any:
        return with_numpys_errors(node, [self.visit_Try(node)])

    def visit_With(self, node: ast.With) -> Any:
        after, around = self.after, self.may_end
        node.items = [self.visit(i) for i in node.items]
        guarded_with(node)
        self.may_end = True
        node.body = self.block(node.body, after)
        self.may_end = around
        return node

    def visit_Match(self, node: ast.Match) -> Any:
        after = self.after
        node.subject = self.visit(node.subject)
        if has([c.pattern for c in node.cases], ast.MatchSingleton):
            node.subject = called(node, "subject", node.subject)
        for case in node.cases:
            case.body = self.block(case.body, after)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = at(node, ast.Constant(None)) if node.msg is None else self.later(self.visit(node.msg))
        _mark_tests(node.test)
        node.test = called(node, "claim", self.visit(node.test), message)
        return node

    # -- expressions ---------------------------------------------------------------------------------------------------
    def visit_IfExp(self, node: ast.IfExp) -> Any:
        _mark_tests(node.test)
        self.generic_visit(node)
        if not _movable(node.body, node.orelse):
            return node
        return called(node, "choose", node.test, self.later(node.body), self.later(node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        if not _movable(*node.values[1:]):
            return node
        helper = "both" if isinstance(node.op, ast.And) else "either"
        if hasattr(node, "is_test"):
            helper = "all_of" if isinstance(node.op, ast.And) else "any_of"
        return called(node, helper, node.values[0], *[self.later(v) for v in node.values[1:]])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            _mark_tests(node.operand)
        self.generic_visit(node)
        return called(node, "negation", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1:
            op, other = node.ops[0], node.comparators[0]
            if isinstance(op, (ast.Is, ast.IsNot)):
                call = called(node, "identical", node.left, other)
                return call if isinstance(op, ast.Is) else called(node, "negation", call)
            if isinstance(op, (ast.In, ast.NotIn)):
                call = self.among(node, other) if _is_display(other) else called(node, "held_by", node.left, other)
                return call if isinstance(op, ast.In) else called(node, "negation", call)
            if not any(isinstance(x, ast.Constant) and x.value is not None for x in (node.left, other)):
                return called(node, "compared", at(node, ast.Constant(type(op).__name__)), node.left, other)
        if len(node.ops) == 1 or not _movable(*node.comparators):
            return node
        pairs = [
            at(node, ast.Tuple([ast.Constant(type(o).__name__), self.later(v)], ast.Load()))
            for o, v in zip(node.ops, node.comparators, strict=True)
        ]
        return called(node, "chain", node.left, *pairs)

    def among(self, node: ast.Compare, display: Any) -> ast.Call:
        """`x in (a, b)`, whose elements stand in the code."""
        elements = [self.later(copy.deepcopy(x)) for x in display.elts]
        asked = ast.Compare(name(ITEM), [ast.In()], [display])
        return called(node, "among", node.left, at(node, ast.Lambda(arguments_named((ITEM,)), asked)), *elements)

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        named = (ast.Name, ast.Attribute, ast.Subscript)
        node.ifs = [called(i, "selects", i) if isinstance(i, named) else i for i in node.ifs]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        place = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
        plain = isinstance(place, (ast.Constant, ast.Slice, ast.Tuple, ast.Starred))
        if plain or not isinstance(node.ctx, ast.Load) or not _movable(node.value, node.slice):
            return node
        return called(node, "item", node.value, node.slice, self.later(at(node, ast.Constant(None))))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        if not any(isinstance(x, ast.FormattedValue) for x in node.values):
            return node
        return called(node, "joined", *map(self.visit, node.values))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        conversion = at(node, ast.Constant("" if node.conversion < 0 else chr(node.conversion)))
        spec = at(node, ast.Constant("")) if node.format_spec is None else self.visit(node.format_spec)
        if isinstance(spec, ast.JoinedStr):
            spec = at(node, ast.Constant("".join([x.value for x in spec.values])))  # pyright: ignore[reportAttributeAccessIssue]
        return called(node, "formatted", self.visit(node.value), conversion, spec)

    def visit_Interpolation(self, node: Any) -> Any:
        """A part of a template, from Python 3.14 on: its specification stays text."""
        node.value = self.visit(node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        return (
            called(node, "percent", node.left, node.right)
            if isinstance(node.op, ast.Mod) and _may_be_text(node.left)
            else node
        )

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        f = node.func
        if isinstance(f, ast.Attribute) and f.attr in ("format", "join") and _may_be_text(f.value):
            node.func = called(f, "formatter" if f.attr == "format" else "joiner", f.value)
        first = None if self.function is None else self.function.first
        if isinstance(f, ast.Name) and f.id == "super" and not node.args and not node.keywords and first is not None:
            node.args = [at(node, name("__class__")), at(node, name(first))]
        return node


def _may_be_text(node: ast.expr) -> bool:
    return isinstance(node.value, str) if isinstance(node, ast.Constant) else isinstance(node, ast.Name | ast.Attribute)


def _is_iterator(node: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression is a call by name of a builtin that a loop can be made of."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _ITERATORS
        and not (node.func.id != "zip" and any(isinstance(a, ast.Starred) for a in node.args))
        and (not node.keywords or (node.func.id == "enumerate" and [k.arg for k in node.keywords] == ["start"]))
    )


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *[k.value for k in node.keywords]]


class _WithoutBindingTests(OfOneFunction):
    """Tests that bind names (`:=`) as statements: a `while` is a loop that is left, so that the name is one of its
    body's, and operands of `and` and `or` behind the first, which may not be evaluated, are branches.
    """

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        return self.split(node)

    def split(self, node: ast.If) -> list[ast.stmt]:
        """A branch whose operands bind no names where another one decides whether they are evaluated."""
        match node.test:
            case ast.UnaryOp(op=ast.Not(), operand=ast.BoolOp() as operand) if has(operand.values[1:], ast.NamedExpr):
                return self.split(at(node, ast.If(operand, node.orelse or [at(node, ast.Pass())], node.body)))
            case ast.BoolOp(values=[first, *others]) if has(others, ast.NamedExpr):
                pass
            case _:
                return [node]
        rest = others[0] if len(others) == 1 else at(others[0], ast.BoolOp(node.test.op, others))
        is_and = isinstance(node.test.op, ast.And)
        if is_and and not node.orelse:
            return self.split(at(node, ast.If(first, self.split(at(rest, ast.If(rest, node.body, []))), [])))
        flag = f"test@{node.test.lineno}:{node.test.col_offset}"
        if not is_and:
            first, rest = (at(x, ast.UnaryOp(ast.Not(), x)) for x in (first, rest))
        decided = put(node, flag, ast.Constant(is_and))
        inner = self.split(at(rest, ast.If(rest, [decided], [])))
        return [
            put(node, flag, ast.Constant(not is_and)),
            *self.split(at(node, ast.If(first, inner, []))),
            at(node, ast.If(name(flag), node.body, node.orelse)),
        ]

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        if not has([node.test], ast.NamedExpr):
            return node
        if node.orelse:
            raise NotRewritten("`else` of a `while` whose test binds a name")
        leave = at(node.test, ast.If(at(node.test, ast.UnaryOp(ast.Not(), node.test)), [ast.Break()], []))
        body = [*self.split(ast.fix_missing_locations(leave)), *node.body]
        node.test, node.body = at(node.test, ast.Constant(True)), body
        return node


def _plain(s: ast.stmt) -> ast.stmt:
    """A statement without annotations of variables, which `nonlocal` does not allow; functions do not evaluate them."""
    return _Unannotated().visit(s)


class _Unannotated(OfOneFunction):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return node
        return at(node, ast.Pass() if node.value is None else ast.Assign([node.target], node.value))


def _mark_tests(node: ast.expr) -> None:
    """Mark `and` and `or` of which only the truth is asked for."""
    match node:
        case ast.BoolOp(values=values):
            node.is_test = True  # type: ignore[attr-defined]
            for x in values:
                _mark_tests(x)
        case ast.UnaryOp(op=ast.Not(), operand=x):
            _mark_tests(x)
        case _:
            pass


def _is_display(node: ast.expr) -> bool:
    """Whether it is a tuple, list or set of elements that stand in the code."""
    return (
        isinstance(node, (ast.Tuple, ast.List, ast.Set))
        and not any(isinstance(x, ast.Starred) for x in node.elts)
        and _movable(node)
    )


def _movable(*nodes: ast.expr) -> bool:
    """Whether expressions may stand in a lambda: what `:=` binds stays in its own scope."""
    return not has(list(nodes), ast.NamedExpr)
