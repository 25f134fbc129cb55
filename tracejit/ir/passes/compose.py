"""Forms to loops: a group of equations becomes one kernel.

The loops of each stored result are opened; its elements are demanded; a demand `(variable, index)` runs the variable's
form once in the scope where its index is bound and is remembered there, so that what depends on fewer loops stands
outside the others by itself. An expensive row that is demanded again by a later loop is kept in local memory.  Demands
run on an explicit stack: the depth of the program is never the depth of Python's.

Note [scopes]: a scope is a loop body or a branch.  A pure operation is placed in the deepest scope that binds one of
its operands, but never outside of the innermost branch around it: what a branch guards must not run unguarded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import Any

from tracejit.ir.builder import fold_constants, fold_index
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.forms import Map, Piece, Piecewise, Reduce, Scan, Scatter, Update
from tracejit.ir.jaxpr import Atom, Literal, Var
from tracejit.ir.kernel import (
    Alloc,
    Buffer,
    Const,
    For,
    If,
    Kernel,
    Load,
    Op,
    Operand,
    Prefix,
    Read,
    Statement,
    Store,
    Value,
    While,
    index_const,
    operands_of,
    walk,
)
from tracejit.ir.passes.dead import remove_dead
from tracejit.ir.passes.groups import (
    MANY,
    FormEquation,
    Group,
    form_cost,
    is_few_columns,
    is_written_out,
    statement_count,
)
from tracejit.ir.passes.scopes import ZERO, OpenBranch, OpenLoop, OpenWhile, Scope, finish, is_ancestor
from tracejit.ir.ranges import IndexRanges
from tracejit.ir.scalar import kernel_dtype
from tracejit.support.errors import InternalError
from tracejit.support.nodes import define
from tracejit.support.source import Location

__all__ = ["Composer", "Demand", "KEEP_ROW_COST", "MANY_PIECES", "compose", "parameters_of"]


MANY_PIECES = 16  # pieces in a row from which on the one that holds an element is looked for by halves
KEEP_ROW_COST = 8.0  # a row whose elements cost more than this (in vector adds) is stored rather than computed twice


@define(eq=False)
class _Made:
    """Where a variable's element was computed: for keeping rows."""

    index: tuple[Operand, ...]
    scope: Scope
    operand: Operand
    buffer: Buffer | None = None


Demand = Generator[tuple[Atom, tuple[Operand, ...], Scope], Operand, Any]


class Composer:
    """The loop nest of one group: forms are asked for single elements,
    and their statements go where those are needed.
    """

    def __init__(self, group: Group, buffers: dict[Var, Buffer]) -> None:
        self.group = group
        self.buffers = buffers
        self.root = Scope(None, 0, None)
        self.home: dict[Value, Scope] = {}
        self.bit: dict[Var, int] = {}
        self.producer: dict[Var, FormEquation] = {v: e for e in group.equations for v in e.outputs}
        self.cost: dict[Var, float] = {}
        self.made: dict[Var, list[_Made]] = {}
        self.locals = 0
        self.ranges = IndexRanges()
        self.operations = sum(statement_count(e.form) for e in group.equations)
        self.reduces = any(isinstance(e.form, Reduce) for e in group.equations)
        self.storing: Var | None = None
        self.after: dict[Var, int] = {}  # bit n: depends on reduction n of this group
        reductions = 0
        for e in group.equations:
            bits = 0
            for a in e.inputs:
                if isinstance(a, Var):
                    bits |= self.after.get(a, 0)
            if isinstance(e.form, Reduce):
                self.bit[e.outputs[0]] = 1 << reductions
                bits |= 1 << reductions
                reductions += 1
            for v in e.outputs:
                self.after[v] = bits
            total = form_cost(e.form) + sum(self.cost.get(a, 0.0) for a in set(e.inputs) if isinstance(a, Var))
            for v in e.outputs:
                self.cost[v] = total if isinstance(e.form, Map) else 0.0

    # -- scopes --------------------------------------------------------------------------------------------------------
    def child(
        self, parent: Scope, *, branch: bool = False, extent: Operand | None = None, lower: Operand = ZERO
    ) -> Scope:
        scope = Scope(parent, parent.depth + 1, parent.guard)
        if branch:
            scope.guard = scope
        if extent is not None:
            scope.index, scope.extent = Value("i64"), extent
            self.home[scope.index] = scope
            self.ranges.bind(scope.index, lower, extent)
        return scope

    def place(self, args: Sequence[Operand], scope: Scope) -> Scope:
        """The scope where something over `args`, wanted in `scope`, belongs (see Note [scopes])."""
        target = scope.guard or self.root
        home = self.home
        for a in args:
            if type(a) is Value:
                s = home[a]
                if s.depth > target.depth:
                    target = s
        return target

    def op(self, scope: Scope, name: str, args: tuple[Operand, ...], dtype: str) -> Operand:
        folded = fold_index(name, args) or self.ranges.fold(name, args) or fold_constants(name, args, dtype)
        if folded is not None:
            return folded
        target = self.place(args, scope)
        key = (name, dtype, args)
        known = target.memo.get(key)
        if known is None:
            known = Value(dtype)
            constant = self.ranges.computed(known, name, args)
            if constant is not None:
                target.memo[key] = constant
                return constant
            target.memo[key] = known
            self.home[known] = target
            target.statements.append(Op(known, name, args, self.location))
        return known

    # -- forms ---------------------------------------------------------------------------------------------------------
    location: Location | None = None

    def run(self, body: Sequence[Statement], env: dict[Value, Operand], scope: Scope, inputs: Sequence[Atom]) -> Demand:
        """Emit the statements of a lambda in `scope`, operands through `env`."""
        location = self.location
        for s in body:
            if type(s) is Op:
                args = tuple([env[a] if type(a) is Value else a for a in s.args])
                env[s.out] = self.op(scope, s.op, args, s.out.dtype)
            elif type(s) is Read:
                index = tuple([env[a] if type(a) is Value else a for a in s.index])
                env[s.out] = yield inputs[s.operand], index, scope
                self.location = location
            elif type(s) is If:
                yield from self._if(s, env, scope, inputs)
            elif type(s) is For:
                yield from self._for(s, env, scope, inputs)
            elif type(s) is While:
                yield from self._while(s, env, scope, inputs)
            else:
                raise InternalError(f"statement {type(s).__name__} in a form")

    def _results(self, values: Sequence[Value], scope: Scope, env: dict[Value, Operand]) -> tuple[Value, ...]:
        fresh = tuple(Value(v.dtype) for v in values)
        for old, new in zip(values, fresh, strict=True):
            self.home[new] = scope
            env[old] = new
        return fresh

    def _if(self, s: If, env: dict[Value, Operand], scope: Scope, inputs: Sequence[Atom]) -> Demand:
        condition = _get(env, s.condition)
        if isinstance(condition, Const):
            taken, yields = (s.then, s.then_yields) if condition.value else (s.orelse, s.else_yields)
            yield from self.run(taken, env, scope, inputs)
            for r, y in zip(s.results, yields, strict=True):
                env[r] = _get(env, y)
            return
        sides: list[tuple[Scope, tuple[Operand, ...]]] = []
        for block, yields in ((s.then, s.then_yields), (s.orelse, s.else_yields)):
            inner, inner_env = self.child(scope, branch=True), dict(env)
            yield from self.run(block, inner_env, inner, inputs)
            sides.append((inner, tuple(_get(inner_env, y) for y in yields)))
        results = self._results(s.results, scope, env)
        (then, then_yields), (orelse, else_yields) = sides
        scope.statements.append(OpenBranch(condition, then, orelse, then_yields, else_yields, results))

    def _for(self, s: For, env: dict[Value, Operand], scope: Scope, inputs: Sequence[Atom]) -> Demand:
        inner = self.child(scope, extent=_get(env, s.upper), lower=_get(env, s.lower))
        inner_env = dict(env)
        assert inner.index is not None
        inner_env[s.index] = inner.index
        params = self._results(s.params, inner, inner_env)
        yield from self.run(s.body, inner_env, inner, inputs)
        loop = OpenLoop(
            inner,
            params,
            tuple(_get(env, i) for i in s.inits),
            tuple(_get(inner_env, y) for y in s.yields),
            lower=_get(env, s.lower),
        )
        loop.results = self._results(s.results, scope, env)
        scope.statements.append(loop)

    def _while(self, s: While, env: dict[Value, Operand], scope: Scope, inputs: Sequence[Atom]) -> Demand:
        # The carries are bound in a scope of their own: what does not depend on them stands before the loop.
        head = self.child(scope)
        env_head = dict(env)
        params = self._results(s.params, head, env_head)
        yield from self.run(s.condition, env_head, head, inputs)
        test = _get(env_head, s.test)
        body = self.child(head)
        env_body = dict(env_head)
        yield from self.run(s.body, env_body, body, inputs)
        yields = tuple(_get(env_body, y) for y in s.yields)
        inits = tuple(_get(env, i) for i in s.inits)
        results = self._results(s.results, scope, env)
        scope.statements.append(OpenWhile(params, inits, head, test, body, yields, results, s.unroll))

    def element(self, atom: Atom, index: tuple[Operand, ...], scope: Scope) -> Demand:
        """The operand that holds `atom[index]`."""
        if isinstance(atom, Literal):
            return Const(atom.value.item(), kernel_dtype(atom.aval.dtype))
        target = self.place(index, scope)
        key = (atom, index)
        s: Scope | None = target
        while s is not None:
            known = s.memo.get(key)
            if known is not None:
                return known
            s = s.parent
        equation = self.producer.get(atom)
        if equation is None:
            return self.load(self.buffers[atom], index, target, key)
        kept = self._kept_row(atom, index, target)
        if kept is not None:
            return self.load(kept, (self._row_index(target),), target, key)
        self.location = equation.location
        results = yield from self.form(equation, index, target)
        for var, result in zip(equation.outputs, results, strict=True):
            target.memo[(var, index)] = result
        result = target.memo[key]
        if self.cost[atom] >= KEEP_ROW_COST and target.index is not None and target.index in index:
            self.made.setdefault(atom, []).append(_Made(index, target, result))
        return result

    def load(self, buffer: Buffer, index: tuple[Operand, ...], target: Scope, key: Hashable) -> Operand:
        value = Value(buffer.dtype)
        self.home[value] = target
        target.memo[key] = value
        target.statements.append(Load(value, buffer, index))
        return value

    def form(self, e: FormEquation, index: tuple[Operand, ...], scope: Scope) -> Demand:
        """The results of one equation at `index`."""
        match e.form:
            case Map(body=body):
                env: dict[Value, Operand] = dict(zip(body.params, index, strict=True))
                yield from self.run(body.body, env, scope, e.inputs)
                return tuple(_get(env, r) for r in body.results)
            case Reduce():
                return (yield from self._reduce(e.form, e.outputs[0], e.inputs, index, scope))
            case Piecewise():
                return (yield from self._pieces(e.form, e.inputs, index, scope, 0))
            case Update():
                return (yield from self._updated(e.form, e.inputs, index, scope))
            case _:
                raise InternalError(f"{type(e.form).__name__} of {e.name} cannot be computed element by element")

    def _reduce_written_out(
        self, form: Reduce, inputs: Sequence[Atom], index: tuple[Operand, ...], scope: Scope
    ) -> Demand:
        """A reduction over a few elements without a loop: what does not depend on the place then stands outside
        of the loops around.
        """
        import itertools

        values: tuple[Operand, ...] = tuple(form.init)
        fold = form.step or form.combine
        for place in itertools.product(*[range(n) for n in form.over]):  # type: ignore[arg-type]
            env: dict[Value, Operand] = dict(zip(form.body.params, (*index, *map(index_const, place)), strict=True))
            yield from self.run(form.body.body, env, scope, inputs)
            elements = [_get(env, r) for r in form.body.results]
            env = dict(zip(fold.params, (*values, *elements), strict=True))
            yield from self.run(fold.body, env, scope, inputs)
            values = tuple(_get(env, r) for r in fold.results)
        return (yield from self._finished(form, values, inputs, scope))

    def _finished(self, form: Reduce, values: tuple[Operand, ...], inputs: Sequence[Atom], scope: Scope) -> Demand:
        if form.finish is None:
            return values
        env: dict[Value, Operand] = dict(zip(form.finish.params, values, strict=True))
        yield from self.run(form.finish.body, env, scope, inputs)
        return tuple(_get(env, r) for r in form.finish.results)

    def _reduce(
        self, form: Reduce, owner: Var, inputs: Sequence[Atom], index: tuple[Operand, ...], scope: Scope
    ) -> Demand:
        if is_written_out(form) and self.operations <= MANY:
            return (yield from self._reduce_written_out(form, inputs, index, scope))
        loops: list[OpenLoop] = []
        indices: list[Operand] = []
        current, carried = scope, tuple(form.init)
        for n in form.over:
            if n == 1 if isinstance(n, int) else False:
                indices.append(index_const(0))
                continue
            inner = self.child(current, extent=index_const(n))
            inner.owner = owner
            loop = OpenLoop(inner, combine=form.combine)
            loop.params = tuple(Value(c.dtype) for c in form.init)
            loop.inits = tuple(form.init)
            for p in loop.params:
                self.home[p] = inner
            loops.append(loop)
            assert inner.index is not None
            indices.append(inner.index)
            current, carried = inner, loop.params
        env: dict[Value, Operand] = dict(zip(form.body.params, (*index, *indices), strict=True))
        yield from self.run(form.body.body, env, current, inputs)
        elements = [_get(env, r) for r in form.body.results]
        fold = form.step or form.combine
        env = dict(zip(fold.params, (*carried, *elements), strict=True))
        yield from self.run(fold.body, env, current, inputs)
        values = tuple(_get(env, r) for r in fold.results)
        for loop in reversed(loops):
            if loop is not loops[-1]:
                # An outer loop joins what the inner one found, starting from the identity, to what it has.
                env = dict(zip(form.combine.params, (*loop.params, *values), strict=True))
                yield from self.run(form.combine.body, env, loop.scope, inputs)
                values = tuple(_get(env, r) for r in form.combine.results)
            loop.yields = values
            outer = loop.scope.parent
            assert outer is not None
            loop.results = tuple(Value(c.dtype) for c in form.init)
            for r in loop.results:
                self.home[r] = outer
            outer.statements.append(loop)
            values = loop.results
        return (yield from self._finished(form, values, inputs, scope))

    def _inside(
        self,
        scope: Scope,
        index: Sequence[Operand],
        lower: Sequence[Extent],
        upper: Sequence[Extent],
        domain: Sequence[Extent],
    ) -> Operand:
        """Whether `lower <= index < upper`; only the bounds that can fail are tested."""
        tests: list[Operand] = []
        for i, a, b, n in zip(index, lower, upper, domain, strict=True):
            if not _equal(a, 0):
                tests.append(self.op(scope, "ge", (i, index_const(a)), "bool"))
            if not _equal(b, n):
                tests.append(self.op(scope, "lt", (i, index_const(b)), "bool"))
        if not tests:
            return Const(True, "bool")
        out = tests[0]
        for t in tests[1:]:
            out = self.op(scope, "and", (out, t), "bool")
        return out

    def _pieces(
        self, form: Piecewise, inputs: Sequence[Atom], index: tuple[Operand, ...], scope: Scope, first: int
    ) -> Demand:
        piece: Piece = form.pieces[first]
        last = first == len(form.pieces) - 1
        if first == 0 and len(form.pieces) > MANY_PIECES and (axis := _row_of_pieces(form)) is not None:
            return (yield from self._halves(form, inputs, index, scope, axis, 0, len(form.pieces)))
        inside = Const(True, "bool") if last else self._inside(scope, index, piece.lower, piece.upper, form.domain)
        if isinstance(inside, Const) and not inside.value:
            return (yield from self._pieces(form, inputs, index, scope, first + 1))
        if isinstance(inside, Const):
            env: dict[Value, Operand] = dict(zip(piece.body.params, index, strict=True))
            yield from self.run(piece.body.body, env, scope, inputs)
            return tuple(_get(env, r) for r in piece.body.results)
        then, orelse = self.child(scope, branch=True), self.child(scope, branch=True)
        env = dict(zip(piece.body.params, index, strict=True))
        yield from self.run(piece.body.body, env, then, inputs)
        yes = tuple(_get(env, r) for r in piece.body.results)
        no = yield from self._pieces(form, inputs, index, orelse, first + 1)
        return self._join(scope, inside, then, orelse, yes, no)

    def _halves(
        self,
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
            yield from self.run(body.body, env, scope, inputs)
            return tuple(_get(env, r) for r in body.results)
        middle = (first + end) // 2
        below = self.op(scope, "lt", (index[axis], index_const(form.pieces[middle].lower[axis])), "bool")
        if isinstance(below, Const):
            first, end = (first, middle) if below.value else (middle, end)
            return (yield from self._halves(form, inputs, index, scope, axis, first, end))
        then, orelse = self.child(scope, branch=True), self.child(scope, branch=True)
        yes = yield from self._halves(form, inputs, index, then, axis, first, middle)
        no = yield from self._halves(form, inputs, index, orelse, axis, middle, end)
        return self._join(scope, below, then, orelse, yes, no)

    def _join(
        self,
        scope: Scope,
        condition: Operand,
        then: Scope,
        orelse: Scope,
        yes: tuple[Operand, ...],
        no: tuple[Operand, ...],
    ) -> tuple[Operand, ...]:
        results = tuple(Value(y.dtype) for y in yes)
        for r in results:
            self.home[r] = scope
        scope.statements.append(OpenBranch(condition, then, orelse, yes, no, results))
        return results

    def _updated(self, form: Update, inputs: Sequence[Atom], index: tuple[Operand, ...], scope: Scope) -> Demand:
        """An update read element by element: the region's body inside, the base outside."""
        env: dict[Value, Operand] = {}
        yield from self.run(form.start.body, env, scope, inputs)
        at: list[Operand] = []
        tests: list[Operand] = []
        for i, start, k, n, whole in zip(
            index, [_get(env, r) for r in form.start.results], form.step, form.region, form.domain, strict=True
        ):
            offset = self.op(scope, "sub", (i, start), "i64")
            if k < 0:
                offset = self.op(scope, "sub", (start, i), "i64")
            if not (_is_const(start, 0) and k == 1):
                tests.append(self.op(scope, "ge", (offset, index_const(0)), "bool"))
            if abs(k) != 1:
                tests.append(
                    self.op(
                        scope,
                        "eq",
                        (self.op(scope, "irem", (offset, index_const(abs(k))), "i64"), index_const(0)),
                        "bool",
                    )
                )
                offset = self.op(scope, "idiv", (offset, index_const(abs(k))), "i64")
            if not (_equal(n, whole) and _is_const(start, 0) and k == 1):
                tests.append(self.op(scope, "lt", (offset, index_const(n)), "bool"))
            at.append(offset)
        tests = [t for t in tests if not (isinstance(t, Const) and t.value)]
        if not tests:
            env = dict(zip(form.body.params, at, strict=True))
            yield from self.run(form.body.body, env, scope, inputs)
            return tuple(_get(env, r) for r in form.body.results)
        inside = tests[0]
        for t in tests[1:]:
            inside = self.op(scope, "and", (inside, t), "bool")
        if isinstance(inside, Const) and not inside.value:
            return ((yield inputs[0], index, scope),)
        then, orelse = self.child(scope, branch=True), self.child(scope, branch=True)
        env = dict(zip(form.body.params, at, strict=True))
        yield from self.run(form.body.body, env, then, inputs)
        yes = tuple(_get(env, r) for r in form.body.results)
        base = yield inputs[0], index, orelse
        return self._join(scope, inside, then, orelse, yes, (base,))

    # -- keeping rows --------------------------------------------------------------------------------------------------
    def _row_index(self, scope: Scope) -> Operand:
        assert scope.index is not None
        return scope.index

    def _kept_row(self, var: Var, index: tuple[Operand, ...], target: Scope) -> Buffer | None:
        """A local buffer that holds the row of `var` an earlier loop over the same extent computed;
        made on the second demand.
        """
        records = self.made.get(var)
        if not records or target.index is None or target.index not in index:
            return None
        for made in records:
            source = made.scope
            mine, theirs = target.owner, source.owner
            if (
                mine is theirs
                or mine is None
                or theirs is None
                or not self.after.get(mine, 0) & self.bit.get(theirs, 0)
            ):
                continue  # independent loops are merged instead
            if (
                source is target
                or source.extent != target.extent
                or source.parent is None
                or not is_ancestor(source.parent, target)
            ):
                continue
            if any(
                a is not b and not (a is source.index and b is target.index) and a != b
                for a, b in zip(made.index, index, strict=True)
            ):
                continue
            if source.guard is not source.parent.guard or not any(
                isinstance(s, OpenLoop) and s.scope is source for s in source.parent.statements
            ):
                continue
            if made.buffer is None:
                self.locals += 1
                extent = source.extent
                assert extent is not None and source.index is not None
                made.buffer = Buffer(f"row{self.locals}", made.operand.dtype, (extent,), space="local")
                where = next(
                    n for n, s in enumerate(source.parent.statements) if isinstance(s, OpenLoop) and s.scope is source
                )
                source.parent.statements.insert(where, Alloc(made.buffer))
                source.statements.append(Store(made.buffer, (source.index,), made.operand))
            return made.buffer
        return None

    # -- driving -------------------------------------------------------------------------------------------------------
    def drive(self, generator: Generator[Any, Any, Any]) -> Any:
        """Run demands to the end on an explicit stack."""
        stack = [generator]
        send: Operand | None = None
        while stack:
            try:
                atom, index, scope = stack[-1].send(send)
            except StopIteration as stop:
                stack.pop()
                send = stop.value
                continue
            stack.append(self.element(atom, index, scope))
            send = None
        return send

    def demand(self, atom: Atom, index: tuple[Operand, ...], scope: Scope) -> Operand:
        return self.drive(self.element(atom, index, scope))

    def open(
        self, scope: Scope, upper: Extent | Operand, label: str = "", lower: Operand = ZERO
    ) -> tuple[Scope, Operand]:
        """The loop `lower..upper` directly inside `scope` that stored results with the same label share."""
        last = upper.value if isinstance(upper, Const) else upper
        if (
            isinstance(last, int)
            and isinstance(lower, Const)
            and isinstance(lower.value, int)
            and last - lower.value == 1
        ):
            return scope, lower
        bound = upper if isinstance(upper, (Value, Const)) else index_const(upper)
        key = f"{lower}{bound}{label}"
        loop = scope.open_loops.get(key)
        if loop is None:
            loop = scope.open_loops[key] = OpenLoop(self.child(scope, extent=bound, lower=lower), lower=lower)
        assert loop.scope.index is not None
        return loop.scope, loop.scope.index

    def close(self, scope: Scope) -> None:
        """Append the loops that stored results opened, innermost first."""
        order: list[Scope] = [scope]
        for s in order:
            order.extend(loop.scope for loop in s.open_loops.values())
        for s in reversed(order):
            s.statements.extend(s.open_loops.values())
            s.open_loops = {}

    def store(self, var: Var) -> None:
        """The loops and stores of one stored result."""
        equation = self.producer[var]
        buffer = self.buffers[var]
        self.storing = var
        if isinstance(equation.form, Update) and self._stores_regions(var, equation):
            self._store_update(var, equation, equation.form)
            return
        match equation.form:
            case Scan():
                self._store_scan(equation, equation.form)
            case Scatter():
                self._store_scatter(var, equation, equation.form)
            case _:
                shape = var.aval.shape
                few = is_few_columns(shape) and self.reduces and self.operations <= MANY
                scope, index = self._open_all(shape[:-1] if few else shape)
                for last in [(index_const(k),) for k in range(shape[-1])] if few else [()]:  # type: ignore[arg-type]
                    value = self.demand(var, (*index, *last), scope)
                    scope.statements.append(Store(buffer, (*index, *last), value))

    def _open_all(self, shape: Sequence[Extent], label: str = "") -> tuple[Scope, tuple[Operand, ...]]:
        scope, index = self.root, []
        for n in shape:
            scope, i = self.open(scope, n, label)
            index.append(i)
        return scope, tuple(index)

    def _stores_regions(self, var: Var, e: FormEquation) -> bool:
        """Whether an update is stored as copies of boxes; otherwise it is one loop with a branch."""
        return var in self.group.in_place or all(k == 1 for k in e.form.step)  # type: ignore[union-attr]

    def _store_update(self, var: Var, e: FormEquation, form: Update) -> None:
        buffer, label = self.buffers[var], f"@{var.id}"
        env: dict[Value, Operand] = {}
        self.drive(self.run(form.start.body, env, self.root, e.inputs))
        start = [_get(env, r) for r in form.start.results]
        if var not in self.group.in_place:
            self._copy_outside(var, e.inputs[0], form, start)
        scope, index = self._open_all(form.region, label)
        env = dict(zip(form.body.params, index, strict=True))
        self.location = e.location
        self.drive(self.run(form.body.body, env, scope, e.inputs))
        target = tuple(
            self.op(scope, "add", (self.op(scope, "mul", (i, index_const(k)), "i64"), a), "i64")
            for i, k, a in zip(index, form.step, start, strict=True)
        )
        scope.statements.append(Store(buffer, target, _get(env, form.body.results[0])))

    def _copy_outside(self, var: Var, base: Atom, form: Update, start: Sequence[Operand]) -> None:
        """Copy the base outside of the region: below and above it along each axis, inside it along the axes before.

        The loops over the region along those axes are shared with its own: a row is touched once.
        """
        buffer = self.buffers[var]
        for axis, (n, whole) in enumerate(zip(form.region, form.domain, strict=True)):
            if _equal(n, whole):
                continue
            for side in ("below", "above"):
                lower = (
                    index_const(0)
                    if side == "below"
                    else self.op(self.root, "add", (start[axis], index_const(n)), "i64")
                )
                upper = start[axis] if side == "below" else index_const(whole)
                if isinstance(lower, Const) and isinstance(upper, Const) and lower == upper:
                    continue
                scope, index = self.root, []
                for d, (m, full) in enumerate(zip(form.region, form.domain, strict=True)):
                    box = f"@{var.id}.{axis}{side}"
                    if d < axis:
                        scope, i = self.open(scope, m, f"@{var.id}")
                        index.append(self.op(scope, "add", (i, start[d]), "i64"))
                    elif d == axis:
                        scope, i = self.open(scope, upper, box, lower)
                        index.append(i)
                    else:
                        scope, i = self.open(scope, full, box)
                        index.append(i)
                value = self.demand(base, tuple(index), scope)
                scope.statements.append(Store(buffer, tuple(index), value))

    def _store_scan(self, e: FormEquation, form: Scan) -> None:
        outer = [n for d, n in enumerate(form.domain) if d != form.axis]
        scope, kept = self._open_all(outer, f"@{e.outputs[0].id}")
        inner = self.child(scope, extent=index_const(form.domain[form.axis]))
        assert inner.index is not None
        position: Operand = inner.index
        if form.reverse:
            position = self.op(inner, "sub", (index_const(form.domain[form.axis] - 1), inner.index), "i64")
        index = (*kept[: form.axis], position, *kept[form.axis :])
        env: dict[Value, Operand] = dict(zip(form.body.params, index, strict=True))
        self.location = e.location
        self.drive(self.run(form.body.body, env, inner, e.inputs))
        elements = tuple(_get(env, r) for r in form.body.results)
        params, outs, results = (tuple(Value(c.dtype) for c in form.init) for _ in range(3))
        for p, o, r in zip(params, outs, results, strict=True):
            self.home[p] = self.home[o] = inner
            self.home[r] = scope
        inner.statements.append(Prefix(outs, params, elements))
        for var, out in zip(e.outputs, outs, strict=True):
            inner.statements.append(Store(self.buffers[var], index, out))
        scope.statements.append(OpenLoop(inner, params, tuple(form.init), outs, results, form.combine))

    def _store_scatter(self, var: Var, e: FormEquation, form: Scatter) -> None:
        buffer = self.buffers[var]
        if var not in self.group.in_place:
            scope, index = self._open_all(form.domain, f"@{var.id}base")
            scope.statements.append(Store(buffer, index, self.demand(e.inputs[0], index, scope)))
            self.close(self.root)
        scope, at = self._open_all(form.region, f"@{var.id}")
        env: dict[Value, Operand] = dict(zip(form.body.params, at, strict=True))
        self.location = e.location
        self.drive(self.run(form.body.body, env, scope, e.inputs))
        *target, valid, value = [_get(env, r) for r in form.body.results]
        if isinstance(valid, Const) and not valid.value:
            return  # no element lies inside
        if not isinstance(valid, Const):
            inner = self.child(scope, branch=True)
            scope.statements.append(OpenBranch(valid, inner, self.child(scope, branch=True), (), (), ()))
            scope = inner
        if form.combine is not None:
            old = Value(buffer.dtype)
            self.home[old] = scope
            scope.statements.append(Load(old, buffer, tuple(target)))
            env = dict(zip(form.combine.params, (old, value), strict=True))
            self.drive(self.run(form.combine.body, env, scope, e.inputs))
            value = _get(env, form.combine.results[0])
        scope.statements.append(Store(buffer, tuple(target), value))


def _get(env: dict[Value, Operand], x: Operand) -> Operand:
    return env.get(x, x) if type(x) is Value else x


def _equal(a: object, b: object) -> bool:
    """Known to be equal."""
    return a == b if isinstance(a, int) and isinstance(b, int) else (isinstance(a, Dim) and a.same(b))


def _is_const(x: Operand, value: int) -> bool:
    return isinstance(x, Const) and _equal(x.value, value)


def parameters_of(group: Group, layout_of: Callable[[Var], str]) -> tuple[dict[Var, Buffer], tuple[str, ...]]:
    """The buffers of what a group reads and stores, and the symbolic extents it uses."""
    buffers: dict[Var, Buffer] = {}
    symbols: set[str] = set()
    for n, var in enumerate(dict.fromkeys((*group.inputs, *group.outputs))):
        layout = "C" if var in group.outputs else layout_of(var)
        buffers[var] = Buffer(
            f"{'out' if var in group.outputs else 'in'}{n}", kernel_dtype(var.aval.dtype), var.aval.shape, layout
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
    composer = Composer(group, buffers)
    stored: set[FormEquation] = set()
    for var in group.outputs:
        equation = composer.producer[var]
        if isinstance(equation.form, Scan):
            if equation in stored:
                continue
            stored.add(equation)
        composer.store(var)
        if isinstance(equation.form, (Scan, Scatter, Update)):
            composer.close(composer.root)
    composer.close(composer.root)
    parameters = tuple(dict.fromkeys(buffers[v] for v in (*group.inputs, *group.outputs)))
    outputs = frozenset(buffers[v].name for v in group.outputs)
    body = finish(composer.root)
    kernel = Kernel(name, parameters, outputs, body, tuple(sorted({*symbols, *_numbers_of(body)})))
    return remove_dead(kernel) if composer.ranges.folded else kernel, buffers


def _row_of_pieces(form: Piecewise) -> int | None:
    """The axis along which the pieces follow each other, each as wide as the array along the others;
    None if there is none.
    """
    for axis in range(len(form.domain)):
        begins = (0, *(p.upper[axis] for p in form.pieces[:-1]))
        others = [d for d in range(len(form.domain)) if d != axis]
        if all(_equal(p.lower[axis], begin) for p, begin in zip(form.pieces, begins, strict=True)) and all(
            _equal(p.lower[d], 0) and _equal(p.upper[d], form.domain[d]) for p in form.pieces for d in others
        ):
            return axis
    return None


def _numbers_of(body: tuple[Statement, ...]) -> Iterator[str]:
    """The symbolic extents that statements use as numbers; they may be those of arrays
    that the kernel does not read.
    """
    for statement in walk(body):
        for operand in operands_of(statement):
            if type(operand) is Const and type(operand.value) is Dim:
                yield from operand.value.symbols()
