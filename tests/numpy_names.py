"""`python -m tests.numpy_names` writes docs/numpy.md: NumPy's public names, and whether traced functions have them.

All of it follows from the tables of functions (`tracejit/tracer/tables.py`), from signatures and from the texts of
refusals in the source; names that are added there appear here when the page is written anew.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tracejit as tj
import tracejit.numpy.special  # they fill the tables
from tracejit.support.dtypes import SUPPORTED
from tracejit.support.errors import TracejitError, UnsupportedError
from tracejit.tracer import advice
from tracejit.tracer.substitutes import REDIRECTED
from tracejit.tracer.tables import FUNCTIONS, METHODS, UFUNCS

__all__ = ["PAGE", "main", "page", "version"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "numpy.md"
COMMAND = "python -m tests.numpy_names"
WIDTH = 118
FOLDS = ("reduce", "accumulate", "outer", "at", "reduceat")
SAME = "np.asarray"  # what a name that only says "outside" is told apart by
REFUSALS = {"unsupported", "UnsupportedError"}
NUMPYS_OWN = "needs initial="  # which NumPy refuses too
ALWAYS = {"out", "like", "subok", "copy"}
"""Arguments that are seen to in one place for all functions, or say nothing of arrays that are traced."""


def version() -> str:
    """The release of NumPy whose names are on the page: those of another are others."""
    return ".".join(np.__version__.split(".")[:2])


# -- what NumPy has ----------------------------------------------------------------------------------------------------
def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name in sorted(dir(module)):
        thing = getattr(module, name)
        if not name.startswith("_") and name != "test" and not isinstance(thing, ModuleType):
            yield name, thing


def _parameters(function: Any) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of C, without a signature
        return None


# -- what is here ------------------------------------------------------------------------------------------------------
def _substitute(original: Any) -> Callable[..., Any] | None:
    """The function that traced functions get for one of NumPy's."""
    found = FUNCTIONS.get(original)
    if found is None and id(original) in REDIRECTED:
        return REDIRECTED[id(original)].substitute
    return found


def _is_known_only(function: Any) -> bool:
    """Whether it is NumPy's own, called where the trace knows the values."""
    return getattr(function, "__qualname__", "").startswith("data_dependent.")


def _not_taken(original: Any, function: Any) -> list[str]:
    """Arguments of NumPy's function that this one has not."""
    theirs, have = _parameters(original), _taken(function)
    if theirs is None or have is None:
        return []
    named = [p for p in theirs if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return [p.name for p in named if p.name not in have | ALWAYS]


def _taken(function: Any) -> set[str] | None:
    """The arguments that a function has by name, those of functions to which it hands `**kwargs` on included; None if
    there is no telling.
    """
    ours = _parameters(function)
    if ours is None:
        return None
    have = {p.name for p in ours}
    if all(p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in ours):
        return have
    tree, around = _tree(function), getattr(function, "__globals__", {})
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)] if tree is not None else []
    to = [c.func.id for c in calls if isinstance(c.func, ast.Name) and any(k.arg is None for k in c.keywords)]
    for name in to:
        more = _taken(around[name]) if around.get(name) not in (None, function) else None
        if more is None:
            return None
        have |= more
    return have if to else None


def _tree(function: Any) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    return tree if isinstance(tree, ast.FunctionDef) else None


def _refusals(function: Any, name: str) -> list[str]:
    """The texts of what a function refuses, and of what the helpers in its file do that it calls."""
    tree = _tree(function)
    if tree is None or not getattr(function, "__module__", "").startswith("tracejit.numpy"):
        return []
    called = [n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    around = getattr(function, "__globals__", {})
    helpers = [around.get(n) for n in dict.fromkeys(called) if n.startswith("_")]
    trees = [tree, *(t for h in helpers if h is not None and (t := _tree(h)) is not None)]
    calls = [node for t in trees for node in ast.walk(t) if isinstance(node, ast.Call)]
    refusals = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id in REFUSALS and c.args]
    texts = [_message(c.args[0], name, around) for c in refusals]
    return [t for t in dict.fromkeys(texts) if t and NUMPYS_OWN not in t]


def _message(text: ast.expr, name: str, around: dict[str, Any]) -> str:
    """The text of an error: with the function's name in place, and dots for what only a call knows."""
    match text:
        case ast.Constant(value=str(words)):
            return words
        case ast.JoinedStr(values=parts):
            return "".join(_message(p, name, around) for p in parts)
        case ast.FormattedValue(value=ast.Name(id="name" | "shown")):
            return name
        case ast.FormattedValue(value=value):
            try:
                return str(eval(ast.unparse(value), around))
            except NameError:
                return "..."
        case _:
            return ""


# -- the page ----------------------------------------------------------------------------------------------------------
def _listed(names: list[str]) -> str:
    text = ", ".join(f"`{n}`" for n in names) or "none"
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


def _sorted_out(module: ModuleType, prefix: str) -> str:
    """The functions of a module: as they are, in part, of known values alone, not at all."""
    whole: list[str] = []
    partly: list[tuple[str, str]] = []
    refused: list[tuple[str, str]] = []
    plain: list[str] = []
    for name, thing in _public(module):
        if (
            isinstance(thing, np.ufunc)
            or (isinstance(thing, type) and id(thing) not in REDIRECTED)
            or not callable(thing)
        ):
            continue
        if isinstance(thing, type) and issubclass(thing, np.generic):
            continue  # dtypes have a list of their own
        function = _substitute(thing)
        if function is None or _is_known_only(function):
            if hasattr(thing, "_implementation"):  # it hands its arguments over to arrays
                refused.append((name, advice.for_function(f"{prefix}.{name}")))
            elif not isinstance(thing, type):
                plain.append(name)
            continue
        own = inspect.unwrap(function)
        lacks = [f"no `{a}=`" for a in _not_taken(thing, own)]
        says = [_cell(text) for text in _refusals(own, name)]
        if lacks or says:
            partly.append((name, "; ".join([", ".join(lacks)] * bool(lacks) + says)))
        else:
            whole.append(name)
    out = [f"In full ({len(whole)}):", _listed(whole)]
    if partly:
        rows = [f"| `{n}` | {why} |" for n, why in partly]
        out += [f"In part ({len(partly)}):", "\n".join(["| name | what is refused |", "|---|---|", *rows])]
    instead = [(n, why) for n, why in refused if why != advice.for_function(SAME)]
    if refused:
        rest = [n for n, why in refused if why == advice.for_function(SAME)]
        out += [f"Not there ({len(refused)}):"]
        if instead:
            rows = [f"| `{n}` | {_cell(why)} |" for n, why in instead]
            out += ["\n".join(["| name | instead |", "|---|---|", *rows])]
            out += ["The others, to be called before or after the compiled function:"]
        out += [_listed(rest)]
    if plain:
        out += [
            f"NumPy's own ({len(plain)}), which take numbers, shapes, dtypes or files; a traced array is refused where "
            "they ask for its elements:",
            _listed(plain),
        ]
    return "\n\n".join(out)


def _ufuncs() -> str:
    there = {name: f for name, f in _public(np) if isinstance(f, np.ufunc)}
    yes = [name for name, f in there.items() if f in UFUNCS]
    no = [(name, advice.for_function(f"np.{name}")) for name, f in there.items() if f not in UFUNCS]
    outside = advice.for_function(SAME)
    told = [f"`{name}`" + ("" if why == outside else f" ({_cell(why)})") for name, why in no]
    out = [f"There ({len(yes)}):", _listed(yes), f"Not there ({len(no)}): {', '.join(told)}."]
    rows = []
    for method in FOLDS:
        of = [f"`{n}`" for n, f in there.items() if (f, method) in UFUNCS and f.__name__ == n]
        rows.append(f"| `{method}` | {', '.join(of) or 'none'} |")
    out += ["Methods of ufuncs:", "\n".join(["| method | of |", "|---|---|", *rows])]
    special = sorted(name for name in UFUNCS if isinstance(name, str) and "._" not in name)
    without = [n for n in yes if _refuses_dtype(there[n])]
    out += [f"`dtype=` is refused by {len(without)}:", _listed(without)]
    return "\n\n".join([*out, f"Of SciPy's: {_listed(special)}."])


def _refuses_dtype(ufunc: np.ufunc) -> bool:
    """Whether a ufunc that NumPy computes in a dtype that is asked for does not so in traced functions."""
    for dtype in (np.float64, np.int64, np.bool_):
        shape = (2, 2) if ufunc.signature else (2,)
        operands = [np.ones(shape, dtype) for _ in range(ufunc.nin)]
        try:
            with np.errstate(all="ignore"):
                ufunc(*operands, dtype=dtype)
        except TypeError:
            continue
        try:
            tj.make_jaxpr(lambda *xs, dtype=dtype: ufunc(*xs, dtype=dtype))(*operands)
        except TracejitError:
            return True
    return False


def _attribute(name: str) -> str:
    """Why a traced array lacks a method or property; empty if it has it."""

    def asks(x: Any) -> Any:
        getattr(x, name)
        return x

    try:
        tj.make_jaxpr(asks)(np.ones((2, 2)))
    except UnsupportedError as error:
        return error.message
    except TracejitError:
        return ""  # it is there, and wants to be called
    return ""


def _methods() -> str:
    names = [n for n in dir(np.ndarray) if not n.startswith("_")]
    why = {n: "" if n in METHODS else _attribute(n) for n in names}
    lacking = {n: _not_taken(getattr(np.ndarray, n), METHODS[n]) for n in names if n in METHODS}
    says = {n: [_cell(t) for t in _refusals(METHODS[n], n)] for n in names if n in METHODS}
    whole = [n for n in names if not why[n] and not lacking.get(n) and not says.get(n)]
    partly = [n for n in names if lacking.get(n) or says.get(n)]
    out = [f"In full ({len(whole)}):", _listed(whole)]
    if partly:
        rows = [f"| `{n}` | {'; '.join([f'no `{a}=`' for a in lacking[n]] + says[n])} |" for n in partly]
        out += [f"In part ({len(partly)}):", "\n".join(["| name | what is refused |", "|---|---|", *rows])]
    rows = [f"| `{n}` | {_cell(text.partition('; ')[2] or text)} |" for n, text in why.items() if text]
    return "\n\n".join([*out, f"Not there ({len(rows)}):", "\n".join(["| name | instead |", "|---|---|", *rows])])


def _elsewhere(module: ModuleType) -> str:
    there = [n for n, f in _public(module) if callable(f) and not isinstance(f, type)]
    have = [n for n in there if _substitute(getattr(module, n)) is not None]
    lack = [n for n in there if n not in have]
    out = [f"There ({len(have)}):", _listed(have)] if have else []
    return "\n\n".join([*out, f"Not there ({len(lack)}):", _listed(lack)])


@functools.cache
def page() -> str:
    """The text of docs/numpy.md."""
    dtypes = _listed([d.name for d in SUPPORTED])
    lacks = _listed(sorted({n for n, t in _public(np) if _is_other_dtype(t)}))
    return f"""# NumPy's names

Which of NumPy {version()}'s public names traced functions have. Written by `{COMMAND}` from the tables of
functions, their signatures and the texts of refusals: do not edit it, write it anew.

* *In full*: the function takes NumPy's arguments, and fills `out=` as NumPy does.
* *In part*: with an argument left out, or a case that is refused, in the words of the error.
* *Not there*: a traced array is refused, with the line and what to write instead. Where no argument depends on those of
  the compiled function, NumPy computes the result while tracing, and it is a constant of the program.

## Functions

{_sorted_out(np, "np")}

## Ufuncs

They take `out=`, `where=` beside `out=`, and `casting=`; `order=`, `subok=` and `signature=` are refused.

{_ufuncs()}

## Methods and attributes of arrays

{_methods()}

## np.linalg

{_sorted_out(np.linalg, "np.linalg")}

## np.fft

{_sorted_out(np.fft, "np.fft")}

## np.random

{_elsewhere(np.random)}

## Dtypes

There: {dtypes}.

Not there, so arrays of these are refused: {lacks}.
"""


def _is_other_dtype(thing: Any) -> bool:
    if not isinstance(thing, type) or not issubclass(thing, np.generic):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an abstract one stands for a dtype of another name
            return np.dtype(thing) not in SUPPORTED
    except (DeprecationWarning, TypeError):
        return False


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())
    print(f"{PAGE.name}: written for NumPy {version()}")


if __name__ == "__main__":
    main()
