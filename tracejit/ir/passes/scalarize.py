"""Programs over scalars written into one body: what makes a loop of scalars, or one loop per element, a single kernel.

A jaxpr qualifies when every equation has one element per result (of any rank) and a form that says how to compute it;
arrays may be read at computed indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Extent
from tracejit.ir.forms import FormOf, Map, own_form
from tracejit.ir.jaxpr import Atom, Jaxpr, Literal, Var
from tracejit.ir.kernel import Block, Const, For, If, Lambda, Op, Operand as Scalar, Read, Value, While
from tracejit.ir.scalar import kernel_dtype
from tracejit.support.errors import InternalError, Restart, TracejitError, pass_over

__all__ = ["ScalarArgument", "inline", "is_scalar_program", "run_scalars"]

ScalarArgument: TypeAlias = "Scalar | Callable[[tuple[Scalar, ...]], Scalar]"
"""A scalar operand, or a function `index -> scalar operand` that reads an array."""
Reader: TypeAlias = "Callable[[int, tuple[Scalar, ...]], Scalar]"  # (operand, index) -> element
MAX_EQUATIONS = 300


def is_scalar_program(jaxpr: Jaxpr, form_of: FormOf = own_form) -> bool:
    """Whether `run_scalars` can write this jaxpr, its equations in the forms that `form_of` gives."""
    if len(jaxpr.equations) > MAX_EQUATIONS:
        return False
    for e in jaxpr.equations:
        if any(_many(v.aval.shape) for v in e.outputs):
            return False
        try:
            form = form_of(e.primitive, [a.aval for a in e.inputs], [v.aval for v in e.outputs])
        except TracejitError as error:
            pass_over(error)
            return False
        except Restart:
            return False
        if not isinstance(form, Map):
            return False
    arrays = {v for v in jaxpr.inputs if _many(v.aval.shape)}
    return not any(a in arrays for a in jaxpr.outputs)


def _many(shape: Sequence[Extent]) -> bool:
    return any(not isinstance(n, int) or n != 1 for n in shape)


def run_scalars(
    recorder: ScalarRecorder, jaxpr: Jaxpr, args: Sequence[ScalarArgument], form_of: FormOf = own_form
) -> list[Scalar]:
    """Write the equations of a scalar program into the recorder; the operands of its outputs."""
    env: dict[Var, ScalarArgument] = dict(zip(jaxpr.inputs, args, strict=True))

    def value(a: Atom) -> ScalarArgument:
        return Const(a.value.item(), kernel_dtype(a.aval.dtype)) if isinstance(a, Literal) else env[a]

    for e in jaxpr.equations:
        form = form_of(e.primitive, [a.aval for a in e.inputs], [v.aval for v in e.outputs])
        assert isinstance(form, Map)
        operands = [value(a) for a in e.inputs]

        def read(number: int, index: tuple[Scalar, ...], operands: list[ScalarArgument] = operands) -> Scalar:
            x = operands[number]
            return x if isinstance(x, (Value, Const)) else x(index)

        zeros = [Const(0, "i64")] * len(form.body.params)
        for var, result in zip(e.outputs, inline(recorder, form.body, zeros, read), strict=True):
            env[var] = result
    results: list[Scalar] = []
    for a in jaxpr.outputs:
        x = value(a)
        assert isinstance(x, (Value, Const))  # no array is an output
        results.append(x)
    return results


def inline(recorder: ScalarRecorder, lam: Lambda, args: Sequence[Scalar], read: Reader) -> list[Scalar]:
    """A lambda's statements over new values in the recorder, `Read`s through `read`."""
    env: dict[Value, Scalar] = dict(zip(lam.params, args, strict=True))
    _block(recorder, lam.body, env, read)
    return [env[r] if isinstance(r, Value) else r for r in lam.results]


def _block(recorder: ScalarRecorder, body: Block, env: dict[Value, Scalar], read: Reader) -> None:
    def get(x: Scalar) -> Scalar:
        return env[x] if isinstance(x, Value) else x

    def nested(block: Block, yields: Sequence[Scalar]) -> tuple[Scalar, ...]:
        _block(recorder, block, env, read)
        return tuple(get(y) for y in yields)

    for s in body:
        match s:
            case Op():
                env[s.out] = recorder.op(s.op, *[get(a) for a in s.args], dtype=s.out.dtype)
            case Read():
                env[s.out] = read(s.operand, tuple(get(i) for i in s.index))
            case If():
                results = recorder.branch(
                    get(s.condition),
                    lambda s=s: nested(s.then, s.then_yields),
                    lambda s=s: nested(s.orelse, s.else_yields),
                )
                env.update(zip(s.results, results, strict=True))
            case While():

                def test(params: Sequence[Scalar], s: While = s) -> Scalar:
                    env.update(zip(s.params, params, strict=True))
                    _block(recorder, s.condition, env, read)
                    return get(s.test)

                def step(params: Sequence[Scalar], s: While = s) -> tuple[Scalar, ...]:
                    env.update(zip(s.params, params, strict=True))
                    _block(recorder, s.condition, env, read)
                    return nested(s.body, s.yields)

                results = recorder.while_loop([get(i) for i in s.inits], test, step)
                env.update(zip(s.results, results, strict=True))
            case For(lower=Const(value=0), step=1, combine=None):

                def once(index: Scalar, params: Sequence[Scalar], s: For = s) -> tuple[Scalar, ...]:
                    env[s.index] = index
                    env.update(zip(s.params, params, strict=True))
                    return nested(s.body, s.yields)

                results = recorder.loop(get(s.upper), [get(i) for i in s.inits], once)
                env.update(zip(s.results, results, strict=True))
            case _:
                raise InternalError(f"in a scalar body: {s!r}")
