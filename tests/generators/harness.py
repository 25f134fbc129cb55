"""What the generators share: source text run by plain Python on NumPy and compiled, the comparison,
the search for a smaller program.

A generated case is the text of a module.  It is executed twice: once where `tj` is plain Python (`PLAIN`), which is the
oracle, and once with the real package, whose function is compiled.  Both get the same arguments, laid out in the same
way.
"""

from __future__ import annotations

import builtins
import linecache
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import tracejit as tj
from tracejit.support.errors import BackendError, InternalError, TracejitError
from tracejit.support.nodes import define, evolve, field

__all__ = [
    "PLAIN", "Case", "Outcome", "Statement", "Tally", "arguments_of", "differs", "loaded", "outcome", "reduced",
    "refused", "shrink", "source", "verdict",
]  # fmt: skip


# -- tj in plain Python
# ---------------------------------------------------------------------------------------------------------------
def _fresh(tree: Any) -> Any:
    """What a loop or branch hands on: values, never the arrays themselves."""
    if isinstance(tree, (tuple, list)):
        return type(tree)(map(_fresh, tree))
    if isinstance(tree, dict):
        return {key: _fresh(value) for key, value in tree.items()}
    return np.array(tree) if isinstance(tree, np.ndarray) else tree


def _fori_loop(lower: int, upper: int, body: Callable[..., Any], init: Any) -> Any:
    carry = _fresh(init)
    for i in range(lower, upper):
        carry = _fresh(body(i, carry))
    return carry


def _while_loop(condition: Callable[..., Any], body: Callable[..., Any], init: Any) -> Any:
    carry = _fresh(init)
    while condition(carry):
        carry = _fresh(body(carry))
    return carry


def _cond(flag: Any, yes: Callable[..., Any], no: Callable[..., Any], *operands: Any) -> Any:
    return _fresh((yes if flag else no)(*map(_fresh, operands)))


def _switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    return _fresh(branches[min(max(int(index), 0), len(branches) - 1)](*map(_fresh, operands)))


def _scan(body: Callable[..., Any], init: Any, xs: Any) -> Any:
    carry, rows = _fresh(init), list[Any]()
    for x in xs:
        carry, row = body(carry, x)
        carry = _fresh(carry)
        rows.append(_fresh(row))
    return carry, np.array(rows)


PLAIN = types.SimpleNamespace(
    range=builtins.range,
    debug=types.SimpleNamespace(callback=lambda function, *args: function(*args)),
    lax=types.SimpleNamespace(fori_loop=_fori_loop, while_loop=_while_loop, cond=_cond, switch=_switch, scan=_scan),
)
"""What `tracejit` does, in plain Python: loops are loops, branches branches."""


# -- running text ------------------------------------------------------------------------------------------------------
_loaded = 0


def loaded(text: str, tj_: Any = tj, *, source: bool = True) -> dict[str, Any]:
    """The names of a module of this text.  Errors show its lines, unless its source is not to be had."""
    global _loaded
    _loaded += 1
    file = f"generated_{_loaded}.py"
    if source:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"np": np, "tj": tj_, "__name__": "generated", "__file__": file}
    exec(compile(text, file, "exec"), names)
    return names


@define(eq=False)
class Outcome:
    """What a call came to: its result or the exception, and the arguments after it."""

    result: Any = None
    error: BaseException | None = None
    after: list[Any] = field(factory=list[Any])


def outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> Outcome:
    """Call and see.  `arguments` are changed as the function changes them."""
    try:
        with np.errstate(all="ignore"):
            result = function(*arguments)
    except Exception as error:
        return Outcome(None, error, list(arguments))
    return Outcome(result, None, list(arguments))


def refused(error: BaseException | None) -> bool:
    """Whether tracejit says that it cannot do something, which is not an answer and so not a wrong one."""
    return isinstance(error, TracejitError) and not isinstance(error, (InternalError, BackendError))


# -- comparison --------------------------------------------------------------------------------------------------------
def differs(got: Any, want: Any, tolerance: Any = None, zeros: bool = True) -> str | None:
    """How a result differs from the one expected, None if it is the same:
    structure, dtype, shape and every bit but those of NaN.

    tolerance: an absolute error allowed, of the result's shape or a number.  zeros: whether signs of zeros count.
    """
    if isinstance(want, (tuple, list)):
        if type(got) is not type(want) or len(got) != len(want):
            return f"{type(got).__name__} where NumPy has {type(want).__name__}"
        for n, (g, w) in enumerate(zip(got, want, strict=True)):
            found = differs(g, w, tolerance[n] if isinstance(tolerance, (list, tuple)) else tolerance, zeros)
            if found:
                return f"[{n}]: {found}"
        return None
    if isinstance(want, dict):
        if not isinstance(got, dict) or list(got) != list(want):
            return f"keys {list(got) if isinstance(got, dict) else got!r}, not {list(want)}"
        return next((f"[{k!r}]: {d}" for k in want if (d := differs(got[k], want[k], tolerance, zeros))), None)
    if want is None or got is None:
        return None if want is got else f"{got!r}, not {want!r}"
    g, w = np.asarray(got), np.asarray(want)
    if g.shape != w.shape:
        return f"shape {g.shape}, not {w.shape}"
    if g.dtype != w.dtype:
        return f"dtype {g.dtype}, not {w.dtype}"
    if g.dtype.kind not in "fc":
        return None if np.array_equal(g, w) else _first(g, w, g != w)
    wrong = (g != w) & ~((g != g) & (w != w))
    if zeros:
        wrong |= (g == 0) & (w == 0) & (np.signbit(g) != np.signbit(w))
    if tolerance is not None and wrong.any():
        with np.errstate(all="ignore"):
            wrong &= ~(np.abs(g.astype(np.float64) - w.astype(np.float64)) <= tolerance)
    return _first(g, w, wrong) if wrong.any() else None


def _first(g: Any, w: Any, wrong: Any) -> str:
    place = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    return (
        f"at {place}: {np.atleast_1d(g)[place]!r}, not {np.atleast_1d(w)[place]!r} "
        f"({int(np.count_nonzero(wrong))} of {wrong.size})"
    )


# -- programs as trees of statements
# ----------------------------------------------------------------------------------------------------
@define(eq=False)
class Statement:
    """A line, and for a compound one the lines under it.  `fixed`: the search for a smaller program leaves it."""

    line: str
    body: list[Statement] | None = None
    fixed: bool = False


def source(statements: Sequence[Statement], depth: int = 0) -> str:
    """The text of statements."""
    lines: list[str] = []
    for s in statements:
        lines.append("    " * depth + s.line)
        if s.body is not None:
            lines.append(source(s.body, depth + 1) if s.body else "    " * (depth + 1) + "pass")
    return "\n".join(lines)


def _smaller(statements: list[Statement]) -> Iterator[list[Statement]]:
    """Every way to leave something out: runs of statements, halves first, then what is inside."""
    count = len(statements)
    size = count
    while size:
        for start in range(0, count, size):
            part = statements[start : start + size]
            if part and not any(s.fixed for s in part):
                yield statements[:start] + statements[start + size :]
        size //= 2
    for n, s in enumerate(statements):
        if s.body is None:
            continue
        if not s.fixed and not s.line.startswith("def "):
            yield statements[:n] + s.body + statements[n + 1 :]
        for body in _smaller(s.body):
            yield [*statements[:n], Statement(s.line, body, s.fixed), *statements[n + 1 :]]


def shrink(statements: list[Statement], fails: Callable[[list[Statement]], bool], most: int = 400) -> list[Statement]:
    """The smallest list found for which `fails` holds, by leaving out one part after the other."""
    tries, again = 0, True
    while again and tries < most:
        again = False
        for smaller in _smaller(statements):
            tries += 1
            if tries > most:
                break
            if fails(smaller):
                statements, again = smaller, True
                break
    return statements


# -- counting ----------------------------------------------------------------------------------------------------------
@define(eq=False)
class Tally:
    """What a run counts.  `refusals`: message to how often; `wrong`: stand-alone programs."""

    cases: int = 0
    calls: int = 0
    refusals: dict[str, int] = field(factory=dict[str, int])
    wrong: list[str] = field(factory=list[str])

    def refuse(self, error: BaseException) -> None:
        text = str(error).split("\n")[0][:150]
        self.refusals[text] = self.refusals.get(text, 0) + 1


# -- cases -------------------------------------------------------------------------------------------------------------
@define(eq=False)
class Case:
    """A function and how it is called.

    calls: for each the texts of its arguments, which may name parameters before them, and statements that change the
    module before it.  independent: the function leaves nothing behind, so that there are calls after one that raises.
    """

    preamble: str
    parameters: list[str]
    body: list[Statement]
    calls: list[tuple[list[str], list[str]]]
    independent: bool = False

    def text(self) -> str:
        """The module."""
        return f"{self.preamble}\n\ndef f({', '.join(self.parameters)}):\n{source(self.body, 1)}\n"

    def alone(self, what: str) -> str:
        """A program that shows the difference: the oracle's answer, then tracejit's."""
        lines = [f"# {what}", "import numpy as np, tracejit as tj", self.text().strip(), "", "jitted = tj.jit(f)"]
        for arguments, changes in self.calls:
            lines += changes
            for g in ("f", "jitted"):
                lines += [f"{p} = {a}" for p, a in zip(self.parameters, arguments, strict=True)]
                lines.append(f"print({g}({', '.join(self.parameters)}), {', '.join(self.parameters)})")
        return "\n".join(lines)


def arguments_of(case: Case, texts: list[str]) -> list[Any]:
    """The arguments of a call."""
    names: dict[str, Any] = {"np": np}
    for parameter, text in zip(case.parameters, texts, strict=True):
        names[parameter] = eval(text, names)
    return [names[p] for p in case.parameters]


def verdict(case: Case, tally: Tally | None = None) -> str | None:
    """What is wrong with the compiled function, None if nothing.  A case that tracejit refuses is counted as that."""
    text = case.text()
    try:
        plain, real = loaded(text, PLAIN), loaded(text, tj)
    except SyntaxError:
        return None
    jitted = tj.jit(real["f"])
    held: list[tuple[Any, Any]] = []
    for n, (arguments, changes) in enumerate(case.calls):
        for change in changes:
            exec(change, plain)
            exec(change, real)
        want, got = outcome(plain["f"], arguments_of(case, arguments)), outcome(jitted, arguments_of(case, arguments))
        if tally is not None:
            tally.calls += 1
        if want.error is not None:
            if isinstance(want.error, (NameError, SyntaxError)):
                return None  # no program at all
            if got.error is None:
                return f"call {n}: no exception where NumPy has {type(want.error).__name__}: {want.error}"
            if case.independent:
                continue
            return None
        if got.error is not None:
            if refused(got.error):
                if tally is not None:
                    tally.refuse(got.error)
                return None
            return f"call {n}: {type(got.error).__name__}: {str(got.error).splitlines()[0] if str(got.error) else ''}"
        found = differs(got.result, want.result)
        if found:
            return f"call {n}: result {found}"
        found = differs(got.after, want.after)
        if found:
            return f"call {n}: argument {found}"
        held.append((got.result, _fresh(got.result)))
    for n, (kept, before) in enumerate(held):
        if found := differs(kept, before):
            return f"call {n}: result after later calls {found}"
    return None


def reduced(case: Case, verdict: Callable[[Case], str | None] = verdict) -> tuple[Case, str]:
    """The smallest case found that is wrong in the same way (a wrong value stays one, an exception its class),
    and its verdict."""

    def kind(found: str | None) -> str | None:
        return None if found is None else found.split(": ")[1].split(" ")[0]

    first = kind(verdict(case))
    if first is None:
        return case, "not every time"

    def fails(body: list[Statement]) -> bool:
        return kind(verdict(evolve(case, body=body))) == first

    for n in range(len(case.calls)):
        fewer = evolve(case, calls=case.calls[n : n + 1])
        if kind(verdict(fewer)) == first:
            case = fewer
            break
    case = evolve(case, body=shrink(case.body, fails))
    return case, verdict(case) or ""
