"""Why a function was compiled, what its trace unrolled: for `explain()`,
the log and warnings.  Loaded when it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

from tracejit.api.signature import ArrayLeaf, CallSignature, NumberLeaf, fits, leaf_path
from tracejit.ir.jaxpr import Equation, Jaxpr
from tracejit.support.nodes import fields_of
from tracejit.tracer.statements.variables import ITEM

__all__ = ["difference", "shown", "unrolled"]

_MOST = 6  # differences and loops that are told


def shown(leaf: Any) -> str:
    """A leaf of a signature: `f64[3] strided`, `int`, or the value of a constant."""
    match leaf:
        case ArrayLeaf():
            strides = "" if leaf.strides is None else f" by {leaf.strides} bytes"
            return str(leaf.aval) + ("" if leaf.layout == "C" else f" strided{strides}")
        case NumberLeaf():
            return leaf.kind
        case _:
            return repr(leaf.value)


def difference(known: Sequence[CallSignature], new: CallSignature) -> str:
    """What tells a call from those that were compiled for: from the one that is most like it."""
    alike = [s for s in known if s.tree == new.tree]
    if not alike:
        return "the arguments have another structure"
    best = min(reversed(alike), key=lambda s: sum(_distance(a, b) for a, b in zip(s.leaves, new.leaves, strict=True)))
    found = [
        f"argument {leaf_path(new.tree, n)} is {_told(b)}, not {_told(a)}"
        for n, (a, b) in enumerate(zip(best.leaves, new.leaves, strict=True))
        if not _same(a, b)
    ]
    if len(found) > _MOST:
        found[_MOST:] = [f"{len(found) - _MOST} more differ"]
    if found:
        return ", ".join(found)
    if best.aliases != new.aliases:
        return "an array that the function changes is given twice" if new.aliases else "no array is given twice"
    return "extents are related in another way"


def _same(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, ArrayLeaf) and isinstance(b, ArrayLeaf) and fits(a, b))


def _distance(a: Any, b: Any) -> int:
    """How much two leaves differ: in extents or layout, in rank, in dtype or kind."""
    if _same(a, b):
        return 0
    if not isinstance(a, ArrayLeaf) or not isinstance(b, ArrayLeaf) or a.dtype != b.dtype:
        return 4
    return 1 if len(a.shape) == len(b.shape) else 2


def _told(leaf: Any) -> str:
    if not isinstance(leaf, ArrayLeaf):
        return ("of type " if isinstance(leaf, NumberLeaf) else "") + shown(leaf)
    return ("a tj.Array of " if leaf.wrapped else "a scalar " if leaf.scalar else "") + shown(leaf)


# -- unrolled loops ----------------------------------------------------------------------------------------------------
def unrolled(jaxpr: Jaxpr) -> list[str]:
    """Loops of Python's, and functions called again and again, that the trace went through more than once,
    most equations first.
    """
    total = 0
    bodies: dict[tuple[CodeType, int, int], Counter[tuple[int, str]]] = {}
    for equation in _equations(jaxpr):
        total += 1
        location = equation.location
        if location is not None:
            begin, end = _loop_around(location.code, location.lasti)
            body = bodies.setdefault((location.code, begin, end), Counter())
            body[location.lasti, equation.primitive.name] += 1
    found: list[tuple[int, str]] = []
    for (code, begin, _), counts in bodies.items():
        # An operation of the body stands in the program once a pass, or twice if it is made of two; some stand in the
        # first pass only.
        frequent = Counter(counts.values())
        times = max(frequent, key=lambda n: (frequent[n], -n))
        if times < 2:
            continue
        file = Path(code.co_filename).name
        if begin >= 0:
            what = f"the loop at {file}:{_line(code, begin)}"
        elif ITEM in code.co_varnames:  # the block of a `for`
            what = f"the loop at {file}:{code.co_firstlineno}"
        else:
            what = f"{code.co_name} at {file}:{code.co_firstlineno}"
        found.append((sum(counts.values()), f"{what}, {times} times ({sum(counts.values())} of {total} equations)"))
    found.sort(key=lambda pair: -pair[0])
    return [text for _, text in found[:_MOST]]


def _equations(jaxpr: Jaxpr) -> Iterator[Equation]:
    """The equations of a program and of those inside of it."""
    for equation in jaxpr.equations:
        yield equation
        for f in fields_of(type(equation.primitive)):
            inner = getattr(equation.primitive, f.name)
            for part in inner if isinstance(inner, tuple) else (inner,):
                if isinstance(part, Jaxpr):
                    yield from _equations(part)


def _loop_around(code: CodeType, place: int) -> tuple[int, int]:
    """(first, last) instruction of the innermost loop around one; (-1, -1) if there is none."""
    import dis

    loops = [
        (i.argval, i.offset)
        for i in dis.get_instructions(code)
        if "JUMP_BACKWARD" in i.opname and i.argval <= place <= i.offset
    ]
    return max(loops, default=(-1, -1))


def _line(code: CodeType, place: int) -> int:
    import dis

    return max(
        (line for start, line in dis.findlinestarts(code) if start <= place and line), default=code.co_firstlineno
    )
