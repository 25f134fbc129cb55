"""What rewritten functions call (`tracer/statements/calls.py`)."""

from __future__ import annotations

from tracejit.api.branches import branch
from tracejit.api.conditions import both, chain, choose, claim, either, is_none, negation
from tracejit.api.iterated import items
from tracejit.api.loops import iteration, repetition
from tracejit.tracer.statements.calls import Statements

__all__ = ["STATEMENTS"]

STATEMENTS = Statements(
    branch=branch,
    iteration=iteration,
    repetition=repetition,
    items=items,
    choose=choose,
    both=both,
    either=either,
    negation=negation,
    is_none=is_none,
    chain=chain,
    claim=claim,
)
