"""What one element of a reduction, of pieces put together, or of an updated array is, for `composer.py`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Contract, Map, Piece, Piecewise, Reduce, Update
from tracejit.ir.jaxpr import Atom, Var
from tracejit.ir.kernel import (
    Const,
    Operand,
    Value,
    index_const,
)
from tracejit.ir.passes.composer import Composer, Demand, Elements, is_const, is_equal, value_of
from tracejit.ir.passes.groups import (
    MANY,
    FormEquation,
    is_written_out,
)
from tracejit.ir.passes.scopes import OpenBranch, OpenLoop, Scope

__all__ = ["ELEMENTS"]

MANY_PIECES = 16  # pieces in a row from which on the one that holds an element is looked for by halves


def _reduce(
    c: Composer, form: Reduce, owner: Var, inputs: Sequence[Atom], index: tuple[Operand, ...], scope: Scope
) -> Demand:
    if is_written_out(form) and c.operations <= MANY:
        return (yield from _reduce_written_out(c, form, inputs, index, scope))
    loops: list[OpenLoop] = []
    indices: list[Operand] = []
    current, carried = scope, tuple(form.init)
    for n in form.over:
        if n == 1 if isinstance(n, int) else False:
            indices.append(index_const(0))
            continue
        inner = c.child(current, extent=index_const(n))
        inner.owner = owner
        loop = OpenLoop(inner, combine=form.combine)
        loop.params = tuple(Value(c.dtype) for c in form.init)
        loop.inits = tuple(form.init)
        for p in loop.params:
            c.home[p] = inner
        loops.append(loop)
        assert inner.index is not None
        indices.append(inner.index)
        current, carried = inner, loop.params
    env: dict[Value, Operand] = dict(zip(form.body.params, (*index, *indices), strict=True))
    yield from c.run(form.body.body, env, current, inputs)
    elements = [value_of(env, r) for r in form.body.results]
    fold = form.step or form.combine
    env = dict(zip(fold.params, (*carried, *elements), strict=True))
    yield from c.run(fold.body, env, current, inputs)
    values = tuple(value_of(env, r) for r in fold.results)
    for loop in reversed(loops):
        if loop is not loops[-1]:
            # An outer loop joins what the inner one found, starting from the identity, to what it has.
            env = dict(zip(form.combine.params, (*loop.params, *values), strict=True))
            yield from c.run(form.combine.body, env, loop.scope, inputs)
            values = tuple(value_of(env, r) for r in form.combine.results)
        loop.yields = values
        outer = loop.scope.parent
        assert outer is not None
        loop.results = tuple(Value(c.dtype) for c in form.init)
        for r in loop.results:
            c.home[r] = outer
        outer.statements.append(loop)
        values = loop.results
    return (yield from _finished(c, form, values, inputs, scope))


def _reduce_written_out(
    c: Composer, form: Reduce, inputs: Sequence[Atom], index: tuple[Operand, ...], scope: Scope
) -> Demand:
    """A reduction over a few elements without a loop: what does not depend on the place then stands outside
    of the loops around.
    """
    values: tuple[Operand, ...] = tuple(form.init)
    fold = form.step or form.combine
    for place in itertools.product(*[range(n) for n in form.over]):  # type: ignore[arg-type]
        env: dict[Value, Operand] = dict(zip(form.body.params, (*index, *map(index_const, place)), strict=True))
        yield from c.run(form.body.body, env, scope, inputs)
        elements = [value_of(env, r) for r in form.body.results]
        env = dict(zip(fold.params, (*values, *elements), strict=True))
        yield from c.run(fold.body, env, scope, inputs)
        values = tuple(value_of(env, r) for r in fold.results)
    return (yield from _finished(c, form, values, inputs, scope))


def _finished(c: Composer, form: Reduce, values: tuple[Operand, ...], inputs: Sequence[Atom], scope: Scope) -> Demand:
    if form.finish is None:
        return values
    env: dict[Value, Operand] = dict(zip(form.finish.params, values, strict=True))
    yield from c.run(form.finish.body, env, scope, inputs)
    return tuple(value_of(env, r) for r in form.finish.results)


def _pieces(
    c: Composer, form: Piecewise, inputs: Sequence[Atom], index: tuple[Operand, ...], scope: Scope, first: int
) -> Demand:
    piece: Piece = form.pieces[first]
    last = first == len(form.pieces) - 1
    if first == 0 and len(form.pieces) > MANY_PIECES and (axis := _row_of_pieces(form)) is not None:
        return (yield from _halves(c, form, inputs, index, scope, axis, 0, len(form.pieces)))
    inside = Const(True, "bool") if last else _inside(c, scope, index, piece.lower, piece.upper, form.domain)
    if isinstance(inside, Const) and not inside.value:
        return (yield from _pieces(c, form, inputs, index, scope, first + 1))
    if isinstance(inside, Const):
        env: dict[Value, Operand] = dict(zip(piece.body.params, index, strict=True))
        yield from c.run(piece.body.body, env, scope, inputs)
        return tuple(value_of(env, r) for r in piece.body.results)
    then, orelse = c.child(scope, branch=True), c.child(scope, branch=True)
    env = dict(zip(piece.body.params, index, strict=True))
    yield from c.run(piece.body.body, env, then, inputs)
    yes = tuple(value_of(env, r) for r in piece.body.results)
    no = yield from _pieces(c, form, inputs, index, orelse, first + 1)
    return _join(c, scope, inside, then, orelse, yes, no)


def _halves(
    c: Composer,
    form: Piecewise,
    inputs: Sequence[Atom],
    index: tuple[Operand, ...],
    scope: Scope,
    axis: int,
    first: int,
    end: int,
) -> Demand:
    """Pieces first to end of those in a row along an axis: the place is looked for by halves,
    so that no branch is deep.
    """
    if end == first + 1:
        body = form.pieces[first].body
        env: dict[Value, Operand] = dict(zip(body.params, index, strict=True))
        yield from c.run(body.body, env, scope, inputs)
        return tuple(value_of(env, r) for r in body.results)
    middle = (first + end) // 2
    below = c.op(scope, "lt", (index[axis], index_const(form.pieces[middle].lower[axis])), "bool")
    if isinstance(below, Const):
        first, end = (first, middle) if below.value else (middle, end)
        return (yield from _halves(c, form, inputs, index, scope, axis, first, end))
    then, orelse = c.child(scope, branch=True), c.child(scope, branch=True)
    yes = yield from _halves(c, form, inputs, index, then, axis, first, middle)
    no = yield from _halves(c, form, inputs, index, orelse, axis, middle, end)
    return _join(c, scope, below, then, orelse, yes, no)


def _updated(c: Composer, form: Update, inputs: Sequence[Atom], index: tuple[Operand, ...], scope: Scope) -> Demand:
    """An update read element by element: the region's body inside, the base outside."""
    env: dict[Value, Operand] = {}
    yield from c.run(form.start.body, env, scope, inputs)
    at: list[Operand] = []
    tests: list[Operand] = []
    for i, start, k, n, whole in zip(
        index, [value_of(env, r) for r in form.start.results], form.step, form.region, form.domain, strict=True
    ):
        offset = c.op(scope, "sub", (i, start), "i64")
        if k < 0:
            offset = c.op(scope, "sub", (start, i), "i64")
        if not (is_const(start, 0) and k == 1):
            tests.append(c.op(scope, "ge", (offset, index_const(0)), "bool"))
        if abs(k) != 1:
            tests.append(
                c.op(
                    scope,
                    "eq",
                    (c.op(scope, "irem", (offset, index_const(abs(k))), "i64"), index_const(0)),
                    "bool",
                )
            )
            offset = c.op(scope, "idiv", (offset, index_const(abs(k))), "i64")
        if not (is_equal(n, whole) and is_const(start, 0) and k == 1):
            tests.append(c.op(scope, "lt", (offset, index_const(n)), "bool"))
        at.append(offset)
    tests = [t for t in tests if not (isinstance(t, Const) and t.value)]
    if not tests:
        env = dict(zip(form.body.params, at, strict=True))
        yield from c.run(form.body.body, env, scope, inputs)
        return tuple(value_of(env, r) for r in form.body.results)
    inside = tests[0]
    for t in tests[1:]:
        inside = c.op(scope, "and", (inside, t), "bool")
    if isinstance(inside, Const) and not inside.value:
        return ((yield inputs[0], index, scope),)
    then, orelse = c.child(scope, branch=True), c.child(scope, branch=True)
    env = dict(zip(form.body.params, at, strict=True))
    yield from c.run(form.body.body, env, then, inputs)
    yes = tuple(value_of(env, r) for r in form.body.results)
    base = yield inputs[0], index, orelse
    return _join(c, scope, inside, then, orelse, yes, (base,))


def _inside(
    c: Composer,
    scope: Scope,
    index: Sequence[Operand],
    lower: Sequence[Extent],
    upper: Sequence[Extent],
    domain: Sequence[Extent],
) -> Operand:
    """Whether `lower <= index < upper`; only the bounds that can fail are tested."""
    tests: list[Operand] = []
    for i, a, b, n in zip(index, lower, upper, domain, strict=True):
        if not is_equal(a, 0):
            tests.append(c.op(scope, "ge", (i, index_const(a)), "bool"))
        if not is_equal(b, n):
            tests.append(c.op(scope, "lt", (i, index_const(b)), "bool"))
    if not tests:
        return Const(True, "bool")
    out = tests[0]
    for t in tests[1:]:
        out = c.op(scope, "and", (out, t), "bool")
    return out


def _join(
    c: Composer,
    scope: Scope,
    condition: Operand,
    then: Scope,
    orelse: Scope,
    yes: tuple[Operand, ...],
    no: tuple[Operand, ...],
) -> tuple[Operand, ...]:
    results = tuple(Value(y.dtype) for y in yes)
    for r in results:
        c.home[r] = scope
    scope.statements.append(OpenBranch(condition, then, orelse, yes, no, results))
    return results


def _row_of_pieces(form: Piecewise) -> int | None:
    """The axis along which the pieces follow each other, each as wide as the array along the others;
    None if there is none.
    """
    for axis in range(len(form.domain)):
        begins = (0, *(p.upper[axis] for p in form.pieces[:-1]))
        others = [d for d in range(len(form.domain)) if d != axis]
        if all(is_equal(p.lower[axis], begin) for p, begin in zip(form.pieces, begins, strict=True)) and all(
            is_equal(p.lower[d], 0) and is_equal(p.upper[d], form.domain[d]) for p in form.pieces for d in others
        ):
            return axis
    return None


def element_of_map(c: Composer, e: FormEquation, form: Map, index: tuple[Operand, ...], scope: Scope) -> Demand:
    """The results of the body, whose parameters are the index."""
    env: dict[Value, Operand] = dict(zip(form.body.params, index, strict=True))
    yield from c.run(form.body.body, env, scope, e.inputs)
    return tuple(value_of(env, r) for r in form.body.results)


def element_of_reduce(c: Composer, e: FormEquation, form: Reduce, index: tuple[Operand, ...], scope: Scope) -> Demand:
    """The results of a loop, or of a few steps written out."""
    return _reduce(c, form, e.outputs[0], e.inputs, index, scope)


def element_of_piecewise(
    c: Composer, e: FormEquation, form: Piecewise, index: tuple[Operand, ...], scope: Scope
) -> Demand:
    """That of the piece in which the index lies."""
    return _pieces(c, form, e.inputs, index, scope, 0)


def element_of_update(c: Composer, e: FormEquation, form: Update, index: tuple[Operand, ...], scope: Scope) -> Demand:
    """The new value inside of the region, the old one outside."""
    return _updated(c, form, e.inputs, index, scope)


ELEMENTS: Elements = {
    Map: element_of_map, Piecewise: element_of_piecewise, Reduce: element_of_reduce, Contract: element_of_reduce,
    Update: element_of_update,
}  # fmt: skip
