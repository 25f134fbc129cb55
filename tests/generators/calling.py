"""Random programs that call Python while they run (`tj.debug.callback`), at random places of the programs of other
generators: what is called, in which order and with which numbers is as in plain Python.
"""

from __future__ import annotations

import random

import tracejit as tj
from tests.generators import harness, programs, rebinding
from tests.generators.harness import PLAIN, Case, Statement, Tally
from tracejit.support.nodes import evolve

__all__ = ["calling", "verdict"]

PREAMBLE = """LOG = []

def note(*values):
    LOG.append([np.array(v, dtype=float).tolist() for v in values])
"""
_ENDS = ("return", "break", "continue", "raise")


def calling(seed: int) -> Case:
    """A program of another generator's that calls `note` here and there."""
    r = random.Random(seed)
    made = r.choice([rebinding.branching, rebinding.rebinding, rebinding.held, programs.program])(seed)
    count = 0

    def noted(body: list[Statement]) -> list[Statement]:
        nonlocal count
        out: list[Statement] = []
        for s in body:
            if r.random() < 0.25 and not s.line.startswith(("elif", "else", "except", "finally", "case")):
                count += 1
                values = r.sample(made.parameters, min(len(made.parameters), r.randint(0, 2)))
                out.append(Statement(f"tj.debug.callback(note, {', '.join([str(count), *values])})"))
            inside = s.body is not None and not s.line.startswith(("def", "class", "match"))
            out.append(evolve(s, body=noted(s.body)) if inside and s.body is not None else s)
        return out

    return evolve(made, preamble=f"{made.preamble}\n{PREAMBLE}", body=noted(made.body))


def verdict(case: Case, tally: Tally | None = None) -> str | None:
    """What is wrong with the compiled function's result, arguments or calls; None if nothing."""
    text = case.text()
    try:
        plain, real = harness.loaded(text, PLAIN), harness.loaded(text, tj)
    except SyntaxError:
        return None
    jitted = tj.jit(real["f"])
    for n, (arguments, changes) in enumerate(case.calls):
        for names in (plain, real):
            for change in changes:
                exec(change, names)
            names["LOG"].clear()
        want = harness.outcome(plain["f"], harness.arguments_of(case, arguments))
        got = harness.outcome(jitted, harness.arguments_of(case, arguments))
        if tally is not None:
            tally.calls += 1
        if got.error is not None and harness.refused(got.error):
            if tally is not None:
                tally.refuse(got.error)
            return None
        if want.error is not None:
            if isinstance(want.error, (NameError, SyntaxError)):
                return None
            if got.error is None:
                return f"call {n}: no exception where NumPy has {type(want.error).__name__}: {want.error}"
            # what is surely wrong is raised while tracing, and nothing is called then
            if real["LOG"] and real["LOG"] != plain["LOG"]:
                return f"call {n}: calls before the exception {real['LOG']}, not {plain['LOG']}"
            return None
        if got.error is not None:
            return f"call {n}: {type(got.error).__name__}: {str(got.error).splitlines()[0] if str(got.error) else ''}"
        for found in (harness.differs(got.result, want.result), harness.differs(got.after, want.after)):
            if found:
                return f"call {n}: result or argument {found}"
        if real["LOG"] != plain["LOG"]:
            return f"call {n}: calls {real['LOG']}, not {plain['LOG']}"
    return None
