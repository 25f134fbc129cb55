"""Recording scalar statements: what lowering rules, the elementary functions and control-flow bodies write with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tracejit.ir.extents import Dim, Extent, operations
from tracejit.ir.kernel import Block, Const, For, If, Lambda, Op, Operand, Read, Statement, Value, While, index_const
from tracejit.ir.scalar import ALL_DTYPES, EXACT, OPS, result_dtype
from tracejit.support.errors import UserError

__all__ = ["ScalarRecorder", "extent_function", "fold_constants", "fold_index", "make_lambda"]

T = TypeVar("T")

_FOLD: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def fold_index(name: str, args: tuple[Operand, ...]) -> Operand | None:
    """Constant folding and the identities x+0, x-0, x*1, x*0 on i64; None where nothing folds."""
    if name not in _FOLD or len(args) != 2 or args[0].dtype != "i64":
        return None
    a, b = args
    if isinstance(a, Const) and isinstance(b, Const):
        value = _FOLD[name](a.value, b.value)
        return Const(value if isinstance(value, Dim) else (value + 2**63) % 2**64 - 2**63, "i64")  # numbers wrap around
    if isinstance(b, Const) and not isinstance(b.value, Dim):
        if b.value == 0:
            return b if name == "mul" else a
        if b.value == 1 and name == "mul":
            return a
    if isinstance(a, Const) and not isinstance(a.value, Dim):
        if a.value == 0 and name == "add":
            return b
        if a.value == 0 and name == "mul":
            return a
        if a.value == 1 and name == "mul":
            return b
    return None


def fold_constants(name: str, args: tuple[Operand, ...], dtype: str) -> Const | None:
    """What an exact operation on numbers gives; None where an operand is not one."""
    for a in args:
        if type(a) is not Const or isinstance(a.value, Dim):
            return None
    if name not in EXACT:
        return None
    numbers = [ALL_DTYPES[a.dtype].type(a.value) for a in args]  # type: ignore[union-attr]
    return Const(OPS[name].impl(ALL_DTYPES[dtype], *numbers).item(), dtype)


class ScalarRecorder:
    """Appends statements to a list; equal scalar operations on the same block level are recorded once."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self._known: dict[tuple[object, ...], Value] = {}

    def const(self, value: Any, dtype: str) -> Const:
        return Const(value, dtype)

    def extent(self, n: Extent) -> Const:
        """An integer or symbolic extent as an i64 operand."""
        return index_const(n)

    def op(self, name: str, *args: Operand, dtype: str | None = None) -> Operand:
        """One scalar operation; `dtype` states the result of convert and bitcast."""
        spec = OPS.get(name)
        if spec is None:
            raise UserError(f"there is no scalar operation {name!r}; register_scalar_op makes one")
        if len(args) != spec.arity:
            raise TypeError(f"scalar operation {name} takes {spec.arity} operands, not {len(args)}")
        result = result_dtype(spec, args[-1].dtype, dtype)
        assert result is not None, name
        if name == "convert" and args[0].dtype == result:
            return args[0]
        folded = fold_index(name, args)
        if folded is not None:
            return folded
        key = (name, result, *args)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Value(result)
            self.statements.append(Op(known, name, args))
        return known

    def read(self, operand: int, index: Sequence[Operand], dtype: str) -> Value:
        key = ("read", operand, *index)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Value(dtype)
            self.statements.append(Read(known, operand, tuple(index)))
        return known

    def _nested(self, record: Callable[[], T]) -> tuple[Block, T]:
        """Run `record` into a fresh block; what it shares with the block around it stays known."""
        outer, known = self.statements, dict(self._known)
        self.statements = []
        try:
            result = record()
            return tuple(self.statements), result
        finally:
            self.statements, self._known = outer, known

    def branch(
        self, condition: Operand, then: Callable[[], Sequence[Operand]], orelse: Callable[[], Sequence[Operand]]
    ) -> tuple[Operand, ...]:
        """A real branch with results."""
        if isinstance(condition, Const):
            return tuple(then() if condition.value else orelse())
        then_block, then_results = self._nested(lambda: tuple(then()))
        else_block, else_results = self._nested(lambda: tuple(orelse()))
        results = tuple(Value(r.dtype) for r in then_results)
        self.statements.append(If(condition, then_block, else_block, then_results, else_results, results))
        return results

    def rare(self, condition: Operand, then: Callable[[], Operand], otherwise: Operand) -> Operand:
        """`then()` where `condition` holds, else `otherwise`; on a vector axis skipped when no lane needs it."""
        return self.branch(condition, lambda: (then(),), lambda: (otherwise,))[0]

    def loop(
        self, extent: Operand, inits: Sequence[Operand], body: Callable[[Operand, tuple[Value, ...]], Sequence[Operand]]
    ) -> tuple[Value, ...]:
        """A counted recurrence: `body(index, carries) -> carries`."""
        index, params = Value("i64"), tuple(Value(i.dtype) for i in inits)
        block, yields = self._nested(lambda: tuple(body(index, params)))
        results = tuple(Value(p.dtype) for p in params)
        self.statements.append(
            For(index, index_const(0), extent, block, params=params, inits=tuple(inits), yields=yields, results=results)
        )
        return results

    def while_loop(
        self,
        inits: Sequence[Operand],
        test: Callable[[tuple[Value, ...]], Operand],
        body: Callable[[tuple[Value, ...]], Sequence[Operand]],
    ) -> tuple[Value, ...]:
        """`while test(carries): carries = body(carries)`."""
        params = tuple(Value(i.dtype) for i in inits)
        condition, flag = self._nested(lambda: test(params))
        block, yields = self._nested(lambda: tuple(body(params)))
        results = tuple(Value(p.dtype) for p in params)
        self.statements.append(While(params, tuple(inits), condition, flag, block, yields, results))
        return results


def make_lambda(dtypes: Sequence[str], function: Callable[..., Any]) -> Lambda:
    """Record `function(recorder, *params)` as a Lambda."""
    recorder = ScalarRecorder()
    params = tuple(Value(d) for d in dtypes)
    results = function(recorder, *params)
    results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
    return Lambda(params, tuple(recorder.statements), results)


def extent_function(*extents: Dim) -> tuple[tuple[str, ...], Lambda]:
    """The symbols of extents, and the extents as scalar operations on the values of these: what is printed of them."""
    symbols = tuple(sorted(frozenset[str]().union(*[n.symbols() for n in extents])))

    def record(r: ScalarRecorder, *values: Value) -> list[Operand]:
        value_of = dict(zip(symbols, values, strict=True))

        def apply(name: str, a: Operand, b: Operand) -> Operand:
            if name not in ("floordiv", "mod"):
                return r.op(name, a, b)
            # Rounded to minus infinity: the divisor, an extent, is positive; the dividend need not be.
            rest = r.op("irem", a, b)
            less = r.op("lt", rest, index_const(0))
            if name == "mod":
                return r.op("add", rest, r.op("select", less, b, index_const(0)))
            return r.op("sub", r.op("idiv", a, b), r.op("convert", less, dtype="i64"))

        return [operations(n, lambda a: value_of[a] if isinstance(a, str) else index_const(a), apply) for n in extents]

    return symbols, make_lambda(["i64"] * len(symbols), record)
