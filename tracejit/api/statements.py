"""What rewritten functions call (`tracer/statements/calls.py`)."""

from __future__ import annotations

from tracejit.api.branches import branch
from tracejit.api.conditions import (
    all_of,
    among,
    any_of,
    both,
    chain,
    choose,
    claim,
    compared,
    either,
    held_by,
    identical,
    selects,
    subject,
)
from tracejit.api.deciding import negation
from tracejit.api.iterated import held, items, reduces
from tracejit.api.looked_up import item
from tracejit.api.loops import iteration, repetition
from tracejit.tracer.catching import caught, ended, leaving, managed
from tracejit.tracer.numpys_errors import numpys
from tracejit.tracer.statements.calls import Statements
from tracejit.tracer.traced_text import formatted, formatter, given_text, joined, joiner, percent

__all__ = ["STATEMENTS"]

STATEMENTS = Statements(
    branch=branch,
    iteration=iteration,
    repetition=repetition,
    items=items,
    reduces=reduces,
    held=held,
    choose=choose,
    both=both,
    either=either,
    all_of=all_of,
    any_of=any_of,
    negation=negation,
    among=among,
    held_by=held_by,
    identical=identical,
    item=item,
    compared=compared,
    subject=subject,
    chain=chain,
    selects=selects,
    claim=claim,
    caught=caught,
    numpys=numpys,
    everything=BaseException,
    ended=ended,
    leaving=leaving,
    managed=managed,
    joined=joined,
    formatted=formatted,
    percent=percent,
    formatter=formatter,
    given_text=given_text,
    joiner=joiner,
)
