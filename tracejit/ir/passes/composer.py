"""What a kernel is composed of: elements of the values of a group, each computed once, where it is needed.

A demand `(variable, index)` runs the variable's
form once in the scope where its index is bound and is remembered there, so that what depends on fewer loops stands
outside the others by itself. An expensive row that is demanded again by a later loop is kept in local memory.  Demands
run on an explicit stack: the depth of the program is never the depth of Python's.

Note [scopes]: a scope is a loop body or a branch.  A pure operation is placed in the deepest scope that binds one of
its operands, but never outside of the innermost branch around it: what a branch guards must not run unguarded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

from tracejit.ir.builder import fold_constants, fold_index
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.forms import Map, Reduce
from tracejit.ir.jaxpr import Atom, Literal, Var
from tracejit.ir.kernel import (
    Alloc,
    Buffer,
    Const,
    For,
    If,
    Load,
    Op,
    Operand,
    Read,
    Statement,
    Store,
    Value,
    While,
    index_const,
)
from tracejit.ir.passes.groups import (
    FormEquation,
    Group,
    form_cost,
    statement_count,
)
from tracejit.ir.passes.scopes import ZERO, OpenBranch, OpenLoop, OpenWhile, Scope, is_ancestor
from tracejit.ir.ranges import IndexRanges
from tracejit.ir.scalar import kernel_dtype
from tracejit.support.errors import InternalError
from tracejit.support.nodes import define
from tracejit.support.source import Location

__all__ = ["Composer", "Demand", "Elements", "is_const", "is_equal", "value_of"]


KEEP_ROW_COST = 8.0  # a row whose elements cost more than this (in vector adds) is stored rather than computed twice


@define(eq=False)
class _Made:
    """Where a variable's element was computed: for keeping rows."""

    index: tuple[Operand, ...]
    scope: Scope
    operand: Operand
    buffer: Buffer | None = None


Demand = Generator[tuple[Atom, tuple[Operand, ...], Scope], Operand, Any]
Elements: TypeAlias = "Mapping[type, Callable[[Composer, FormEquation, Any, tuple[Operand, ...], Scope], Demand]]"
"""How the elements of a form are computed."""


class Composer:
    """The loop nest of one group: forms are asked for single elements,
    and their statements go where those are needed.
    """

    def __init__(self, group: Group, buffers: dict[Var, Buffer], elements: Elements) -> None:
        self.group = group
        self.elements = elements
        self.buffers = buffers
        self.root = Scope(None, 0, None)
        self.home: dict[Value, Scope] = {}
        self.bit: dict[Var, int] = {}
        self.producer: dict[Var, FormEquation] = {v: e for e in group.equations for v in e.outputs}
        self.cost: dict[Var, float] = {}
        self.made: dict[Var, list[_Made]] = {}
        self.locals = 0
        self.rows: dict[Var, Buffer] = {}  # what is kept row by row of the outermost loop, flat
        self.ranges = IndexRanges()
        self.operations = sum(statement_count(e.form) for e in group.equations)
        self.reduces = any(isinstance(e.form, Reduce) for e in group.equations)
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
            elif type(s) is For and s.step == 1 and s.combine is None:
                yield from self._for(s, env, scope, inputs)
            elif type(s) is While:
                yield from self._while(s, env, scope, inputs)
            else:
                raise InternalError(f"in a form: {s!r}")

    def _results(self, values: Sequence[Value], scope: Scope, env: dict[Value, Operand]) -> tuple[Value, ...]:
        fresh = tuple(Value(v.dtype) for v in values)
        for old, new in zip(values, fresh, strict=True):
            self.home[new] = scope
            env[old] = new
        return fresh

    def _if(self, s: If, env: dict[Value, Operand], scope: Scope, inputs: Sequence[Atom]) -> Demand:
        condition = value_of(env, s.condition)
        if isinstance(condition, Const):
            taken, yields = (s.then, s.then_yields) if condition.value else (s.orelse, s.else_yields)
            yield from self.run(taken, env, scope, inputs)
            for r, y in zip(s.results, yields, strict=True):
                env[r] = value_of(env, y)
            return
        sides: list[tuple[Scope, tuple[Operand, ...]]] = []
        for block, yields in ((s.then, s.then_yields), (s.orelse, s.else_yields)):
            inner, inner_env = self.child(scope, branch=True), dict(env)
            yield from self.run(block, inner_env, inner, inputs)
            sides.append((inner, tuple(value_of(inner_env, y) for y in yields)))
        results = self._results(s.results, scope, env)
        (then, then_yields), (orelse, else_yields) = sides
        scope.statements.append(OpenBranch(condition, then, orelse, then_yields, else_yields, results))

    def _for(self, s: For, env: dict[Value, Operand], scope: Scope, inputs: Sequence[Atom]) -> Demand:
        inner = self.child(scope, extent=value_of(env, s.upper), lower=value_of(env, s.lower))
        inner_env = dict(env)
        assert inner.index is not None
        inner_env[s.index] = inner.index
        params = self._results(s.params, inner, inner_env)
        yield from self.run(s.body, inner_env, inner, inputs)
        loop = OpenLoop(
            inner,
            params,
            tuple(value_of(env, i) for i in s.inits),
            tuple(value_of(inner_env, y) for y in s.yields),
            lower=value_of(env, s.lower),
        )
        loop.results = self._results(s.results, scope, env)
        scope.statements.append(loop)

    def _while(self, s: While, env: dict[Value, Operand], scope: Scope, inputs: Sequence[Atom]) -> Demand:
        # The carries are bound in a scope of their own: what does not depend on them stands before the loop.
        head = self.child(scope)
        env_head = dict(env)
        params = self._results(s.params, head, env_head)
        yield from self.run(s.condition, env_head, head, inputs)
        test = value_of(env_head, s.test)
        body = self.child(head)
        env_body = dict(env_head)
        yield from self.run(s.body, env_body, body, inputs)
        yields = tuple(value_of(env_body, y) for y in s.yields)
        inits = tuple(value_of(env, i) for i in s.inits)
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
        row = self.rows.get(atom)
        if row is not None:
            return self.load(row, (self.flat(scope, index[1:], atom.aval.shape[1:]),), target, key)
        kept = self._kept_row(atom, index, target)
        if kept is not None:
            return self.load(kept, (self._row_index(target),), target, key)
        self.location = equation.location
        element = self.elements.get(type(equation.form))
        if element is None:
            raise InternalError(f"{type(equation.form).__name__} of {equation.name} cannot be computed by elements")
        results = yield from element(self, equation, equation.form, index, target)
        for var, result in zip(equation.outputs, results, strict=True):
            target.memo[(var, index)] = result
        result = target.memo[key]
        if self.cost[atom] >= KEEP_ROW_COST and target.index is not None and target.index in index:
            self.made.setdefault(atom, []).append(_Made(index, target, result))
        return result

    def flat(self, scope: Scope, index: Sequence[Operand], shape: Sequence[Extent]) -> Operand:
        """The place of an element in row-major order.  What is constant comes last, so that stores of one iteration at
        several places differ in that alone.
        """
        found: Operand = index_const(0)
        step: Extent = 1
        fixed: Extent = 0
        terms: list[tuple[Operand, Extent]] = []
        for i, n in reversed(list(zip(index, shape, strict=True))):
            if isinstance(i, Const):
                fixed = fixed + i.value * step
            else:
                terms.append((i, step))
            step = step * n
        for i, by in reversed(terms):
            found = self.op(scope, "add", (found, self.op(scope, "mul", (i, index_const(by)), "i64")), "i64")
        return self.op(scope, "add", (found, index_const(fixed)), "i64")

    def load(self, buffer: Buffer, index: tuple[Operand, ...], target: Scope, key: Hashable) -> Operand:
        value = Value(buffer.dtype)
        self.home[value] = target
        target.memo[key] = value
        target.statements.append(Load(value, buffer, index))
        return value

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

    def open_all(self, shape: Sequence[Extent], label: str = "") -> tuple[Scope, tuple[Operand, ...]]:
        scope, index = self.root, []
        for n in shape:
            scope, i = self.open(scope, n, label)
            index.append(i)
        return scope, tuple(index)


def value_of(env: dict[Value, Operand], x: Operand) -> Operand:
    """What stands for a value of a form."""
    return env.get(x, x) if type(x) is Value else x


def is_equal(a: object, b: object) -> bool:
    """Known to be equal."""
    return a == b if isinstance(a, int) and isinstance(b, int) else (isinstance(a, Dim) and a.same(b))


def is_const(x: Operand, value: int) -> bool:
    """Known to be this number."""
    return isinstance(x, Const) and is_equal(x.value, value)
