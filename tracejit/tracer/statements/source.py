"""From a function's code object to its definition in the source, and back to code with the definition rewritten.

The definition is taken only if it compiles to what the function runs: a file may have changed, a function may have been
made by a program, or rewritten by another one (as pytest does with `assert`).
"""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import itertools
import linecache
import operator
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

from tracejit.support.nodes import define, field
from tracejit.support.weak import WeakMap
from tracejit.tracer.bytecode import essence
from tracejit.tracer.statements.blocks import arguments_named, function_definition, rewritten_definition
from tracejit.tracer.statements.calls import HELPERS
from tracejit.tracer.statements.guards import guarded_definition
from tracejit.tracer.statements.jumps import NotRewritten, at
from tracejit.tracer.statements.names import FUNCTIONS

__all__ = ["rewritten", "why_not"]

_FUTURE = functools.reduce(
    operator.or_, [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
)
_MAKER = "make@"
_GENERATORS = 0x20 | 0x80 | 0x200


def rewritten(code: CodeType) -> CodeType | None:
    """Code that does what `code` does by way of `HELPERS`, one more free variable; where that cannot be had (`why_not`
    tells) with `HELPERS`, a global, called by what catches errors; None if nothing does.
    """
    found = _made.get(code)
    if found is None:
        try:
            found = _rewritten(code)
        except NotRewritten as reason:
            found = _Made(None, str(reason))
        except RecursionError:
            found = _Made(None, "it is nested too deeply")
        _made[code] = found
    return found.code


def why_not(code: CodeType) -> str | None:
    """Why a function's `for`, `while` and `if` are traced as Python runs them; None if nothing stands against it."""
    if HELPERS in code.co_freevars or HELPERS in code.co_cellvars:  # it is what a function was rewritten to
        return None
    rewritten(code)
    found = _made.get(code)
    return None if found is None else found.reason


@define(eq=False)
class _Made:
    code: CodeType | None
    reason: str | None = None


_made: WeakMap[CodeType, _Made] = WeakMap()
_files: dict[str, _File] = {}


def _rewritten(code: CodeType) -> _Made:
    for node in _definitions(code):
        plain, whole = copy.deepcopy(node), copy.deepcopy(node)
        if not _is_same(_compiled(plain, code, code.co_freevars), code):
            continue
        try:
            if code.co_flags & _GENERATORS:
                raise NotRewritten("a generator or coroutine")
            made = _compiled(rewritten_definition(node), code, (HELPERS, *code.co_freevars))
            return _Made(_named(made, code.co_name, code.co_qualname))
        except NotRewritten as reason:
            why = str(reason)
        except RecursionError:
            why = "it is nested too deeply"
        except SyntaxError as error:
            why = f"Python does not take it rewritten: {error.msg}"
        node = guarded_definition(whole)
        if node is None:
            return _Made(None, why)
        return _Made(_named(_compiled(node, code, code.co_freevars), code.co_name, code.co_qualname), why)
    raise NotRewritten("its source is not known, or is not what it was made from")


# -- from code to source -----------------------------------------------------------------------------------------------
@define(eq=False)
class _File:
    """The definitions of a file, by name and first line."""

    text: str
    definitions: dict[tuple[str, int], list[Any]] = field(factory=dict[tuple[str, int], "list[Any]"])


def _definitions(code: CodeType) -> Iterator[Any]:
    """Copies of the definitions, with the names of their class, that may be those of a function."""
    lines = linecache.getlines(code.co_filename)
    owner = _owner(code)
    for node in (*_in_block(lines, code), *_in_file(lines, code)):
        node = copy.deepcopy(node)
        if owner:
            _mangle(node, owner)
        yield _bare(node)


def _in_block(lines: list[str], code: CodeType) -> Iterator[Any]:
    """The definition in the lines that the code comes from: of a large file the rest need not be parsed."""
    if code.co_name == "<lambda>" or not lines:
        return
    first, last = code.co_firstlineno, _last_line(code)
    block = lines[first - 1 : last]
    if not block:
        return
    indented = block[0][:1] in " \t"
    try:
        tree = ast.parse("".join((["if 1:\n"] if indented else []) + block))
    except (SyntaxError, ValueError):
        return
    ast.increment_lineno(tree, first - 1 - indented)
    body: Any = tree.body[0]
    if indented:
        body = body.body[0]
    if isinstance(body, FUNCTIONS) and getattr(body, "name", None) == code.co_name:
        yield body


def _last_line(code: CodeType) -> int:
    own = max((end for _, end, _, _ in code.co_positions() if end is not None), default=code.co_firstlineno)
    return max([own, *(_last_line(x) for x in code.co_consts if isinstance(x, CodeType))])


def _in_file(lines: list[str], code: CodeType) -> Iterator[Any]:
    text = "".join(lines)
    known = _files.get(code.co_filename)
    if known is None or known.text != text:
        known = _files[code.co_filename] = _File(text)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return
        for node in ast.walk(tree):
            if isinstance(node, FUNCTIONS):
                decorators: list[Any] = getattr(node, "decorator_list", [])
                first = min([node.lineno, *[d.lineno for d in decorators]])
                known.definitions.setdefault((getattr(node, "name", "<lambda>"), first), []).append(node)
    yield from known.definitions.get((code.co_name, code.co_firstlineno), ())


def _owner(code: CodeType) -> str | None:
    """The class whose private names the code spells."""
    parts = code.co_qualname.split(".")
    classes = [a for a, b in itertools.pairwise(parts) if "<locals>" not in (a, b)]
    return classes[-1] if classes else None


def _mangle(node: ast.AST, owner: str) -> None:
    """Private names of a class, as its compiler spells them.  The code of a method has the name that stands there."""

    def spelt(text: Any) -> Any:
        private = isinstance(text, str) and text.startswith("__") and not text.endswith("__")
        return f"_{owner.lstrip('_')}{text}" if private else text

    for n in ast.walk(node):
        for attribute in ("id", "attr", "arg", "name", "rest", "asname"):
            if hasattr(n, attribute) and not (n is node and attribute == "name") and not isinstance(n, ast.keyword):
                setattr(n, attribute, spelt(getattr(n, attribute)))
        if isinstance(n, ast.Global | ast.Nonlocal):
            n.names = [*map(spelt, n.names)]


def _bare(node: Any) -> Any:
    """A definition without what is evaluated where it stands: the function exists already."""
    if isinstance(node, ast.Lambda):
        _without_defaults(node.args)
        return node
    node.decorator_list, node.returns = [], None
    _without_defaults(node.args)
    for a in ast.walk(node.args):
        if isinstance(a, ast.arg):
            a.annotation = None
    if getattr(node, "type_params", None):
        node.type_params = []
    return node


def _without_defaults(arguments: ast.arguments) -> None:
    arguments.defaults = [at(d, ast.Constant(None)) for d in arguments.defaults]
    arguments.kw_defaults = [d and at(d, ast.Constant(None)) for d in arguments.kw_defaults]


# -- from source to code -----------------------------------------------------------------------------------------------
def _compiled(node: Any, code: CodeType, free: tuple[str, ...]) -> CodeType:
    """The code of a definition that stands within a function with the variables `free`."""
    inside: Any = at(node, ast.Return(node)) if isinstance(node, ast.Lambda) else node
    # A function that calls itself reads the name where it was defined: among its variables, or in its globals.
    scope: list[ast.stmt] = []
    if not isinstance(node, ast.Lambda) and node.name not in free and _calls_itself(node):
        scope.append(at(node, ast.Global([node.name])))
    maker = at(node, function_definition(_MAKER, arguments_named(free), [*scope, inside]))
    tree = ast.Module([maker], [])
    made = compile(tree, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    for wanted in (_MAKER, code.co_name):
        made = next(c for c in made.co_consts if isinstance(c, CodeType) and c.co_name == wanted)
    return _with_classes_named(made, f"{_MAKER}.<locals>.{code.co_name}", code.co_qualname)


def _with_classes_named(code: CodeType, maker: str, name: str) -> CodeType:
    """Code whose classes say that they stand in the function, and not in what it is compiled within."""
    parts: list[Any] = []
    for x in code.co_consts:
        if isinstance(x, CodeType):
            x = _with_classes_named(x, maker, name)
        elif isinstance(x, str) and x.startswith(maker):
            x = name + re.sub(r"[^.]*@[^.]*\.<locals>\.", "", x.removeprefix(maker))
        parts.append(x)
    return code.replace(co_consts=tuple(parts))


def _calls_itself(node: Any) -> bool:
    """Whether a function reads its own name."""
    return any(isinstance(x, ast.Name) and x.id == node.name for x in ast.walk(node))


def _is_same(one: CodeType, two: CodeType) -> bool:
    """Whether two code objects do the same."""
    parts = (
        "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount",
        "co_kwonlyargcount",
    )  # fmt: skip
    return (
        all(getattr(one, part) == getattr(two, part) for part in parts)
        and essence(one) == essence(two)
        and len(one.co_consts) == len(two.co_consts)
        and all(
            _is_same(a, b)
            if isinstance(a, CodeType) and isinstance(b, CodeType)
            else type(a) is type(b) and repr(a) == repr(b)
            for a, b in zip(one.co_consts, two.co_consts, strict=True)
        )
    )


def _named(code: CodeType, name: str, qualname: str) -> CodeType:
    """Code whose blocks have the name of the function that they stand in, for messages."""
    parts: list[Any] = []
    for x in code.co_consts:
        if isinstance(x, CodeType):
            is_block = "@" in x.co_name
            x = _named(x, name, qualname) if is_block else _named(x, x.co_name, f"{qualname}.<locals>.{x.co_name}")
        parts.append(x)
    return code.replace(co_name=name, co_qualname=qualname, co_consts=tuple(parts))
