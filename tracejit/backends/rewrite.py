"""Copies of kernel statements with values, buffers or statements replaced: what binding passes are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tracejit.ir.kernel import Alloc, Atomic, Buffer, Call, For, If, Lambda, Load, Op, Operand, Prefix, Store, Value, While, results_of
from tracejit.support.nodes import evolve

__all__ = ["inline", "with_buffers", "with_fresh_values", "with_nested"]

S = TypeVar("S")


def inline(function: Lambda, args: Sequence[Operand]) -> tuple[tuple[Any, ...], tuple[Operand, ...]]:
    """The statements of `function` applied to `args`, every value fresh, and its results."""
    values: dict[Value, Operand] = dict(zip(function.params, args, strict=True))
    body = _copy(function.body, values)
    return body, tuple(_get(values, r) for r in function.results)


def with_fresh_values(loop: For) -> For:
    """A copy of `loop` whose values are all new: both may stand in one kernel."""
    return _copy_statement(loop, {})


def _get(values: Mapping[Value, Operand], x: Operand) -> Operand:
    return values.get(x, x) if isinstance(x, Value) else x


def _all(values: Mapping[Value, Operand], xs: Sequence[Operand]) -> tuple[Operand, ...]:
    return tuple(_get(values, x) for x in xs)


def _fresh(values: dict[Value, Operand], xs: Sequence[Value]) -> tuple[Value, ...]:
    made = tuple(Value(x.dtype) for x in xs)
    values.update(zip(xs, made, strict=True))
    return made


def _copy(body: Sequence[Any], values: dict[Value, Operand]) -> tuple[Any, ...]:
    return tuple(_copy_statement(s, values) for s in body)


def _copy_statement(s: Any, values: dict[Value, Operand]) -> Any:
    match s:
        case For():
            lower, upper, inits = _get(values, s.lower), _get(values, s.upper), _all(values, s.inits)
            (index,), params = _fresh(values, (s.index,)), _fresh(values, s.params)
            body = _copy(s.body, values)
            yields = _all(values, s.yields)
            return evolve(
                s,
                index=index,
                lower=lower,
                upper=upper,
                inits=inits,
                params=params,
                body=body,
                yields=yields,
                results=_fresh(values, s.results),
            )
        case While():
            inits, params = _all(values, s.inits), _fresh(values, s.params)
            condition = _copy(s.condition, values)
            test, body = _get(values, s.test), _copy(s.body, values)
            yields = _all(values, s.yields)
            return evolve(
                s, inits=inits, params=params, condition=condition, test=test, body=body, yields=yields, results=_fresh(values, s.results)
            )
        case If():
            condition, then, orelse = _get(values, s.condition), _copy(s.then, values), _copy(s.orelse, values)
            then_yields, else_yields = _all(values, s.then_yields), _all(values, s.else_yields)
            results = _fresh(values, s.results)
            return evolve(
                s, condition=condition, then=then, orelse=orelse, then_yields=then_yields, else_yields=else_yields, results=results
            )
        case Op():
            return evolve(s, args=_all(values, s.args), out=_fresh(values, (s.out,))[0])
        case Load():
            return evolve(s, index=_all(values, s.index), out=_fresh(values, (s.out,))[0])
        case Store() | Atomic():
            return evolve(s, index=_all(values, s.index), value=_get(values, s.value))
        case Prefix():
            params, elements = _all(values, s.params), _all(values, s.elements)
            return Prefix(_fresh(values, s.outs), tuple(p for p in params if isinstance(p, Value)), elements)
        case Call():
            return evolve(s, args=_all(values, s.args), outs=_fresh(values, s.outs))
        case _:
            assert not results_of(s), f"{type(s).__name__} cannot be copied"
            return s


def with_nested(s: Any, rewrite: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    """`s` with `rewrite` applied to each of its blocks."""
    match s:
        case For():
            return evolve(s, body=rewrite(s.body))
        case While():
            return evolve(s, condition=rewrite(s.condition), body=rewrite(s.body))
        case If():
            return evolve(s, then=rewrite(s.then), orelse=rewrite(s.orelse))
        case _:
            return s


def with_buffers(body: tuple[Any, ...], buffers: Mapping[Buffer, Buffer], prefix: tuple[Operand, ...] = ()) -> tuple[Any, ...]:
    """`body` with buffers replaced, and `prefix` put before the indices of those; their `Alloc` statements are dropped."""

    def run(block: tuple[Any, ...]) -> tuple[Any, ...]:
        out: list[Any] = []
        for s in block:
            match s:
                case Alloc() if s.buffer in buffers:
                    continue
                case Load() | Store() | Atomic() if s.buffer in buffers:
                    out.append(evolve(s, buffer=buffers[s.buffer], index=prefix + s.index))
                case _:
                    out.append(with_nested(s, run))
        return tuple(out)

    return run(body) if buffers else body
