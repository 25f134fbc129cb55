"""Forms to loops: a group of equations becomes one kernel.

The loops of each stored result are opened; its elements are demanded (`composer.py`), and stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from tracejit.ir.extents import Dim, prod
from tracejit.ir.forms import FanOut, Scan, Scatter, Update
from tracejit.ir.jaxpr import Atom, Var
from tracejit.ir.kernel import (
    Alloc,
    Buffer,
    Const,
    Kernel,
    Load,
    Op,
    Operand,
    Prefix,
    Statement,
    Store,
    Value,
    index_const,
    operands_of,
    walk,
)
from tracejit.ir.passes.composer import Composer, is_equal, value_of
from tracejit.ir.passes.dead import remove_dead
from tracejit.ir.passes.elements import ELEMENTS
from tracejit.ir.passes.groups import (
    MANY,
    FormEquation,
    Group,
    is_few_columns,
)
from tracejit.ir.passes.scopes import OpenBranch, OpenLoop, Scope, finish
from tracejit.ir.scalar import kernel_dtype

__all__ = ["compose", "numbers_of", "parameters_of"]


def parameters_of(group: Group, layout_of: Callable[[Var], str]) -> tuple[dict[Var, Buffer], tuple[str, ...]]:
    """The buffers of what a group reads and stores, and the symbolic extents it uses."""
    buffers: dict[Var, Buffer] = {}
    views = {v: e.form.view for e in group.equations if isinstance(e.form, FanOut) for v in e.outputs}
    symbols: set[str] = set()
    for n, var in enumerate(dict.fromkeys((*group.inputs, *group.outputs))):
        layout = "C" if var in group.outputs else layout_of(var)
        buffers[var] = Buffer(
            f"{'out' if var in group.outputs else 'in'}{n}",
            kernel_dtype(var.aval.dtype),
            views.get(var, var.aval.shape),
            layout,
        )
    for var in (*buffers, *(v for e in group.equations for v in e.outputs)):
        for n in var.aval.shape:
            symbols |= n.symbols() if isinstance(n, Dim) else set()
    for out, base in group.in_place.items():
        buffers[base] = buffers[out]
    return buffers, tuple(sorted(symbols))


def compose(group: Group, name: str, layout_of: Callable[[Var], str]) -> tuple[Kernel, dict[Var, Buffer]]:
    """The kernel of a group, unscheduled (every loop serial), and the buffer of each variable it reads or stores."""
    buffers, symbols = parameters_of(group, layout_of)
    composer = Composer(group, buffers, ELEMENTS)
    _store_rows(composer)
    stored: set[FormEquation] = set()
    for var in group.outputs:
        equation = composer.producer[var]
        if isinstance(equation.form, Scan):
            if equation in stored:
                continue
            stored.add(equation)
        _store(composer, var)
        if isinstance(equation.form, (Scan, Scatter, Update)):
            composer.close(composer.root)
    composer.close(composer.root)
    parameters = tuple(dict.fromkeys(buffers[v] for v in (*group.inputs, *group.outputs)))
    outputs = frozenset(buffers[v].name for v in group.outputs)
    body = finish(composer.root)
    kernel = Kernel(name, parameters, outputs, body, tuple(sorted({*symbols, *numbers_of(body)})))
    return remove_dead(kernel) if composer.ranges.folded else kernel, buffers


def _store(c: Composer, var: Var) -> None:
    """The loops and stores of one stored result."""
    equation = c.producer[var]
    buffer = c.buffers[var]
    if isinstance(equation.form, Update) and _stores_regions(c, var, equation):
        _store_update(c, var, equation, equation.form)
        return
    match equation.form:
        case Scan():
            _store_scan(c, equation, equation.form)
        case Scatter():
            _store_scatter(c, var, equation, equation.form)
        case FanOut():
            _store_several(c, var, equation, equation.form)
        case _:
            shape = var.aval.shape
            few = is_few_columns(shape) and c.reduces and c.operations <= MANY
            scope, index = c.open_all(shape[:-1] if few else shape)
            for last in [(index_const(k),) for k in range(shape[-1])] if few else [()]:  # type: ignore[arg-type]
                value = c.demand(var, (*index, *last), scope)
                scope.statements.append(Store(buffer, (*index, *last), value))


def _stores_regions(c: Composer, var: Var, e: FormEquation) -> bool:
    """Whether an update is stored as copies of boxes; otherwise it is one loop with a branch."""
    return var in c.group.in_place or all(k == 1 for k in e.form.step)  # type: ignore[union-attr]


def _store_update(c: Composer, var: Var, e: FormEquation, form: Update) -> None:
    buffer, label = c.buffers[var], f"@{var.id}"
    env: dict[Value, Operand] = {}
    c.drive(c.run(form.start.body, env, c.root, e.inputs))
    start = [value_of(env, r) for r in form.start.results]
    if var not in c.group.in_place:
        _copy_outside(c, var, e.inputs[0], form, start)
    scope, index = c.open_all(form.region, label)
    env = dict(zip(form.body.params, index, strict=True))
    c.location = e.location
    c.drive(c.run(form.body.body, env, scope, e.inputs))
    target = tuple(
        c.op(scope, "add", (c.op(scope, "mul", (i, index_const(k)), "i64"), a), "i64")
        for i, k, a in zip(index, form.step, start, strict=True)
    )
    scope.statements.append(Store(buffer, target, value_of(env, form.body.results[0])))


def _copy_outside(c: Composer, var: Var, base: Atom, form: Update, start: Sequence[Operand]) -> None:
    """Copy the base outside of the region: below and above it along each axis, inside it along the axes before.

    The loops over the region along those axes are shared with its own: a row is touched once.
    """
    buffer = c.buffers[var]
    for axis, (n, whole) in enumerate(zip(form.region, form.domain, strict=True)):
        if is_equal(n, whole):
            continue
        for side in ("below", "above"):
            lower = index_const(0) if side == "below" else c.op(c.root, "add", (start[axis], index_const(n)), "i64")
            upper = start[axis] if side == "below" else index_const(whole)
            if isinstance(lower, Const) and isinstance(upper, Const) and lower == upper:
                continue
            scope, index = c.root, []
            for d, (m, full) in enumerate(zip(form.region, form.domain, strict=True)):
                box = f"@{var.id}.{axis}{side}"
                if d < axis:
                    scope, i = c.open(scope, m, f"@{var.id}")
                    index.append(c.op(scope, "add", (i, start[d]), "i64"))
                elif d == axis:
                    scope, i = c.open(scope, upper, box, lower)
                    index.append(i)
                else:
                    scope, i = c.open(scope, full, box)
                    index.append(i)
            value = c.demand(base, tuple(index), scope)
            scope.statements.append(Store(buffer, tuple(index), value))


def _store_scan(c: Composer, e: FormEquation, form: Scan) -> None:
    outer = [n for d, n in enumerate(form.domain) if d != form.axis]
    scope, kept = c.open_all(outer, f"@{e.outputs[0].id}")
    inner = c.child(scope, extent=index_const(form.domain[form.axis]))
    assert inner.index is not None
    position: Operand = inner.index
    if form.reverse:
        position = c.op(inner, "sub", (index_const(form.domain[form.axis] - 1), inner.index), "i64")
    index = (*kept[: form.axis], position, *kept[form.axis :])
    env: dict[Value, Operand] = dict(zip(form.body.params, index, strict=True))
    c.location = e.location
    c.drive(c.run(form.body.body, env, inner, e.inputs))
    elements = tuple(value_of(env, r) for r in form.body.results)
    params, outs, results = (tuple(Value(c.dtype) for c in form.init) for _ in range(3))
    for p, o, r in zip(params, outs, results, strict=True):
        c.home[p] = c.home[o] = inner
        c.home[r] = scope
    folded: tuple[Operand, ...] = outs
    if form.ordered:
        env = dict(zip(form.combine.params, (*params, *elements), strict=True))
        c.drive(c.run(form.combine.body, env, inner, e.inputs))
        folded = tuple(value_of(env, r) for r in form.combine.results)
    else:
        inner.statements.append(Prefix(outs, params, elements))
    for var, out in zip(e.outputs, folded, strict=True):
        inner.statements.append(Store(c.buffers[var], index, out))
    combine = None if form.ordered else form.combine
    scope.statements.append(OpenLoop(inner, params, tuple(form.init), folded, results, combine))


def _store_scatter(c: Composer, var: Var, e: FormEquation, form: Scatter) -> None:
    buffer = c.buffers[var]
    if var not in c.group.in_place:
        scope, index = c.open_all(form.domain, f"@{var.id}base")
        scope.statements.append(Store(buffer, index, c.demand(e.inputs[0], index, scope)))
        c.close(c.root)
    scope, at = c.open_all(form.region, f"@{var.id}")
    env: dict[Value, Operand] = dict(zip(form.body.params, at, strict=True))
    c.location = e.location
    c.drive(c.run(form.body.body, env, scope, e.inputs))
    *target, valid, value = [value_of(env, r) for r in form.body.results]
    if isinstance(valid, Const) and not valid.value:
        return  # no element lies inside
    if not isinstance(valid, Const):
        valid = _unsigned(c, scope, valid)
        inner = c.child(scope, branch=True)
        scope.statements.append(OpenBranch(valid, inner, c.child(scope, branch=True), (), (), ()))
        scope = inner
    if form.combine is not None:
        old = Value(buffer.dtype)
        c.home[old] = scope
        scope.statements.append(Load(old, buffer, tuple(target)))
        env = dict(zip(form.combine.params, (old, value), strict=True))
        c.drive(c.run(form.combine.body, env, scope, e.inputs))
        value = value_of(env, form.combine.results[0])
    scope.statements.append(Store(buffer, tuple(target), value))


def _unsigned(c: Composer, scope: Scope, valid: Operand) -> Operand:
    """Whether a place is within an axis, by one comparison: negative numbers are the greatest unsigned ones."""
    made: dict[Operand, Op] = {}
    at: Scope | None = scope
    while at is not None:
        made.update((s.out, s) for s in at.statements if isinstance(s, Op))
        at = at.parent
    both = made.get(valid)
    if both is None or both.op != "and":
        return valid
    low, high = (made.get(a) for a in both.args)
    if low is None or high is None or (low.op, high.op) != ("ge", "lt"):
        return valid
    k, least = low.args
    if least != index_const(0) or high.args[0] is not k or high.args[1].dtype != "i64":
        return valid
    place, end = (c.op(scope, "convert", (x,), "u64") for x in (k, high.args[1]))
    return c.op(scope, "lt", (place, end), "bool")


def _store_rows(c: Composer) -> None:
    """Values that are kept row by row, each in local memory; in that of one which is not read any more, if there is."""
    equations = c.group.equations
    kept = [n for n, e in enumerate(equations) if isinstance(e.form, FanOut) and e.outputs[0] not in c.group.outputs]
    last: dict[Atom, int] = {}  # which equation is the last to read a value, by way of others of which none is kept
    for n in range(len(equations) - 1, -1, -1):
        e = equations[n]
        read = n if n in kept else max([last.get(v, len(equations)) for v in e.outputs])
        for a in e.inputs:
            last[a] = max(last.get(a, 0), read)
    free: list[tuple[Buffer, int]] = []
    for n in kept:
        e = equations[n]
        assert isinstance(e.form, FanOut)
        (var,) = e.outputs
        size, dtype = prod(e.form.domain[1:]), kernel_dtype(var.aval.dtype)
        row = next((b for b, until in free if until < n and b.dtype == dtype and b.shape == (size,)), None)
        if row is None:
            row = Buffer(f"row{n}", dtype, (size,), space="local")
            lead, _ = c.open(c.root, e.form.region[0])
            lead.statements.append(Alloc(row))
        free = [(b, until) for b, until in free if b is not row]
        free.append((row, last[var]))
        _store_several(c, var, e, e.form, row)
        c.rows[var] = row


def _store_several(c: Composer, var: Var, e: FormEquation, form: FanOut, row: Buffer | None = None) -> None:
    """The loops of a value of which several elements are made at a time; those of a row in local memory are closed."""
    scope, first = c.open(c.root, form.region[0]) if form.region else (c.root, index_const(0))
    lead, at = scope, [first] if form.region else []
    for n in form.region[1:]:
        scope, i = c.open(scope, n, f"@{var.id}")
        at.append(i)
    env: dict[Value, Operand] = dict(zip(form.body.params, at, strict=True))
    c.location = e.location
    c.drive(c.run(form.body.body, env, scope, e.inputs))
    places = itertools.product(*[range(form.view[d]) for d in form.axes])  # type: ignore[arg-type]
    stores: list[Statement] = []
    for place, result in zip(places, form.body.results, strict=True):
        fixed = dict(zip(form.axes, map(index_const, place), strict=True))
        rest = iter(at)
        index = tuple([fixed[d] if d in fixed else next(rest) for d in range(len(form.view))])
        if row is None:
            stores.append(Store(c.buffers[var], index, value_of(env, result)))
        else:
            stores.append(Store(row, (c.flat(scope, index[1:], form.view[1:]),), value_of(env, result)))
    scope.statements += stores  # one after the other, what they store lies side by side
    if row is not None:
        c.close(lead)


def numbers_of(body: tuple[Statement, ...]) -> Iterator[str]:
    """The symbolic extents that statements use as numbers; they may be those of arrays
    that the kernel does not read.
    """
    for statement in walk(body):
        for operand in operands_of(statement):
            if type(operand) is Const and type(operand.value) is Dim:
                yield from operand.value.symbols()
