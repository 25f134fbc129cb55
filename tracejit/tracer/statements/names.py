"""What a syntax tree says about names: which ones statements bind and read, and whose values are still wanted."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

__all__ = [
    "FUNCTIONS", "Nodes", "bound", "changed", "hands_round", "has", "holds", "live", "live_in_loop", "only_augmented",
    "own", "read", "surely_bound",
]  # fmt: skip

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Nodes = ast.AST | Sequence[ast.AST]


def _each(nodes: Nodes) -> Sequence[ast.AST]:
    return [nodes] if isinstance(nodes, ast.AST) else nodes


def own(nodes: Nodes) -> Iterator[ast.AST]:
    """The nodes of a scope: not what is inside of functions and classes."""
    for node in _each(nodes):
        yield node
        if not isinstance(node, _SCOPES):
            yield from own(list(ast.iter_child_nodes(node)))


def has(nodes: Nodes, *kinds: type[ast.AST]) -> bool:
    """Whether a scope has nodes of some kinds."""
    return any(isinstance(node, kinds) for node in own(nodes))


def holds(nodes: Nodes) -> set[str]:
    """The names that functions and classes among nodes have of those around them: they may read or bind them at any
    time.
    """
    return {text for scope in own(nodes) if isinstance(scope, _SCOPES) for text in _free(scope)}


def _free(scope: Any) -> set[str]:
    """The names that a function or class has not of its own, and perhaps some more."""
    parts = [part for part in ast.iter_child_nodes(scope) if not isinstance(part, ast.arguments)]
    inside = list(own(parts))
    found = {n.id for n in inside if isinstance(n, ast.Name)} | {
        t for n in inside if isinstance(n, _SCOPES) for t in _free(n)
    }
    if isinstance(scope, ast.ClassDef):  # its methods do not see its names
        return found
    given = scope.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    declared = {text for n in inside if isinstance(n, (ast.Global, ast.Nonlocal)) for text in n.names}
    targets = {id(t) for n in inside if isinstance(n, ast.comprehension) for t in ast.walk(n.target)}
    bound_here = {
        n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in targets
    }
    of_its_own = ({a.arg for a in arguments if a is not None} | bound_here) - declared
    around = [*given.defaults, *[d for d in given.kw_defaults if d is not None], *getattr(scope, "decorator_list", ())]
    return (found - of_its_own) | {n.id for d in around for n in ast.walk(d) if isinstance(n, ast.Name)}


class _Names:
    """Of a node: names bound or deleted in its scope, read, bound by `x += ...`, bound otherwise."""

    __slots__ = ("augmented", "bound", "otherwise", "read")

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.read: set[str] = set()
        self.augmented: set[str] = set()
        self.otherwise: set[str] = set()


def _names_of(node: Any) -> _Names:
    """Kept with the node, whose children do not change as long as anybody asks."""
    known = getattr(node, "found_names", None)
    if known is not None:
        return known
    found = node.found_names = _Names()
    if isinstance(node, _SCOPES):
        found.read |= _free(node)
    else:
        for child in ast.iter_child_nodes(node):
            inner = _names_of(child)
            found.bound |= inner.bound
            found.read |= inner.read
            found.augmented |= inner.augmented
            found.otherwise |= inner.otherwise
    match node:
        case ast.Name(id=text, ctx=ast.Load()):
            found.read.add(text)
        case ast.Name(id=text, ctx=context):
            found.bound.add(text)
            found.otherwise.add(text)
            if isinstance(context, ast.Del):  # which wants it to have a value
                found.read.add(text)
        case ast.AugAssign(target=ast.Name(id=text)):
            found.read.add(text)
            found.augmented.add(text)
            if text not in _names_of(node.value).otherwise:
                found.otherwise.discard(text)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
            found.bound -= targets
            found.otherwise -= targets
        case ast.alias():
            text = (node.asname or node.name).split(".")[0]
            found.bound.add(text)
            found.otherwise.add(text)
        case _:
            text = getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name", None)
            if isinstance(text, str):
                found.bound.add(text)
                found.otherwise.add(text)
    return found


def bound(nodes: Nodes) -> set[str]:
    """The names that are bound or deleted."""
    return set[str]().union(*(_names_of(n).bound for n in _each(nodes)))


def read(nodes: Nodes) -> set[str]:
    """The names that may be read."""
    return set[str]().union(*(_names_of(n).read for n in _each(nodes)))


def only_augmented(nodes: Nodes) -> set[str]:
    """The names bound by `x += ...` alone: an array is changed in place, only a number is bound anew."""
    found = [_names_of(n) for n in _each(nodes)]
    return set[str]().union(*(n.augmented for n in found)) - set[str]().union(*(n.otherwise for n in found))


def changed(nodes: Nodes) -> set[str]:
    """The names whose arrays are changed in place, as far as that can be seen: `x[...] = `, `x += `."""
    found: set[str] = set()
    for node in own(nodes):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            base: ast.expr = node.value
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            if isinstance(base, ast.Name):
                found.add(base.id)
    return found


def hands_round(statements: Sequence[ast.stmt], loop: ast.AST) -> bool:
    """Whether names get what other names have (`u, v = v, u`), and a loop seems to change one of these in place."""
    moved: set[str] = set()
    for node in own(statements):
        if isinstance(node, ast.Assign):
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            moved |= {p.id for p in parts if isinstance(p, ast.Name)}
    changed: set[str] = set()
    for node in own(loop) if moved else ():
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                parts = ast.walk(target) if isinstance(target, ast.Subscript) else ()
                changed |= {n.id for n in parts if isinstance(n, ast.Name)}
    return not moved.isdisjoint(changed)


def live(statements: Iterable[ast.stmt], after: set[str]) -> set[str]:
    """The names whose values statements may read, if `after` are read behind them.  Jumps are flags by now."""
    for s in reversed(list(statements)):
        match s:
            case ast.If():
                after = read(s.test) | live(s.body, after) | live(s.orelse, after)
            case ast.For():
                after = read(s.iter) | after | live_in_loop(s, after)
            case ast.While():
                after = after | live_in_loop(s, after)
            case ast.Return():
                after = read(s)
            case ast.Assign(targets=targets):
                after = (after - _bound_by(targets)) | read(s)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                after = (after - _bound_by([target])) | read(s)
            case ast.FunctionDef() | ast.ClassDef():
                after = (after - {s.name}) | read(s)
            case _:
                after = after | read(s)
    return after


def live_in_loop(loop: ast.For | ast.While, after: set[str]) -> set[str]:
    """What an iteration may read of the one before, or of what was before the loop."""
    targets = _bound_by([loop.target]) if isinstance(loop, ast.For) else set[str]()
    test = read(loop.test) if isinstance(loop, ast.While) else set[str]()
    stop = getattr(loop, "stop", None)
    if stop is not None:
        test |= read(stop)
    return test | (live(loop.body, after | test) - targets)


def _bound_by(targets: Iterable[ast.expr]) -> set[str]:
    return {text for t in targets for text in _plain_targets(t)}


def _plain_targets(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=text):
            yield text
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _plain_targets(part)
        case ast.Starred(value=value):
            yield from _plain_targets(value)
        case _:
            return


def surely_bound(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that are bound whichever way statements go."""
    found: set[str] = set()
    for s in statements:
        match s:
            case ast.If():
                found |= surely_bound(s.body) & surely_bound(s.orelse)
            case ast.With():
                found |= surely_bound(s.body)
            case ast.Delete():
                found -= bound(s)
            case ast.For() | ast.While() | ast.Try() | ast.TryStar() | ast.Match():
                pass
            case _:
                found |= bound(s)
    return found
