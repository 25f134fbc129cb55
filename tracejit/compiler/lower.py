"""Primitives to forms: the one place where the (primitive, backend, predicate) rules are looked up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from tracejit.backends.base import LoweringRule
from tracejit.backends.registry import backend_reason, check_known, get_backend, list_backends
from tracejit.ir.forms import Expand, Form, FormBuilder, Operand
from tracejit.ir.jaxpr import Atom, Equation, Jaxpr, Var
from tracejit.ir.passes.groups import FormEquation
from tracejit.ir.primitive import Primitive, primitives
from tracejit.ir.types import ShapedArray
from tracejit.primitives.shape import BroadcastInDim
from tracejit.support.errors import OptionError, TracejitError, UserError
from tracejit.support.source import user_location
from tracejit.tracer.stage import stage

__all__ = [
    "LoweringRule",
    "check_alternatives",
    "lower",
    "lowering_rules",
    "own_outputs",
    "register_lowering",
    "unregister_lowering",
]


_RULES: dict[tuple[str, str], list[LoweringRule]] = {}  # (primitive, backend) -> what users registered


def register_lowering(
    primitive: str, *, backend: str, predicate: Callable[..., bool] | None = None, alternative: str = ""
) -> Callable[[Callable[..., Form]], Callable[..., Form]]:
    """Decorator: `rule(primitive, builder, *operands) -> form` overrides the primitive's own form on `backend`.

    `predicate(primitive, *avals)` says for which parameters, dtypes and shapes; None: for all.  Later registrations are
    asked first. With `alternative="name"` only functions compiled by `tj.jit(alternatives=("name",))` use the rule.
    Functions that are compiled already keep their code until `clear_cache()`.

    Raises: UserError for an unknown primitive or backend.

    >>> import numpy as np, tracejit as tj
    >>> @tj.register_lowering("neg", backend="reference", predicate=lambda neg, x: x.dtype.kind == "f")
    ... def by_subtraction(neg, b, x):
    ...     return b.map(x.shape, lambda i: b.op("sub", b.const(-0.0, x.dtype), x[i]))
    >>> tj.jit(lambda x: -x, backend="reference")(np.ones(2))
    array([-1., -1.])
    >>> from tracejit.compiler.lower import unregister_lowering
    >>> unregister_lowering(by_subtraction)
    """
    if primitive not in primitives():
        raise UserError(f"register_lowering: there is no primitive {primitive!r}; see `python -m tracejit.primitives`")
    check_known(backend, "register_lowering")

    def register(rule: Callable[..., Form]) -> Callable[..., Form]:
        _RULES.setdefault((primitive, backend), []).insert(0, LoweringRule(primitive, rule, predicate, alternative))
        _FORMS.clear()
        return rule

    return register


def unregister_lowering(rule: Callable[..., Form]) -> None:
    """Take a rule back."""
    for rules in _RULES.values():
        rules[:] = [r for r in rules if r.rule is not rule]
    _FORMS.clear()


def lowering_rules() -> list[LoweringRule]:
    """Every override, in the order they are asked: those of users, then those of backends that work here."""
    own = [r for name in list_backends() if not backend_reason(name) for r in get_backend(name).lowerings]
    return [*[r for rules in _RULES.values() for r in rules], *own]


def _rules_of(primitive: Primitive, backend: str) -> list[LoweringRule]:
    own = [r for r in get_backend(backend).lowerings if r.primitive == primitive.name]
    return [*_RULES.get((primitive.name, backend), ()), *own]


_FORMS: dict[Hashable, Form] = {}
_FORMS_LIMIT = 4096


def check_alternatives(names: Sequence[str]) -> tuple[str, ...]:
    """The names as a tuple.  Raises: OptionError where no rule is registered under one."""
    wanted = (names,) if isinstance(names, str) else tuple(names)
    known = sorted({r.alternative for r in lowering_rules()} - {""})
    for name in wanted:
        if name not in known:
            raise OptionError(
                f"there is no alternative {name!r}; registered are {', '.join(known)}", location=user_location()
            )
    return wanted


def form_of(
    primitive: Primitive,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    backend: str,
    alternatives: tuple[str, ...] = (),
) -> Form:
    """The form of one equation on a backend; loops and branches ask for those that they write into their bodies."""
    return _form_of(primitive, in_avals, out_avals, backend, alternatives)[0]


def _form_of(
    primitive: Primitive,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    backend: str,
    alternatives: tuple[str, ...],
) -> tuple[Form, bool]:
    """The form, and whether it depends on the processor."""
    key = (primitive, tuple(in_avals), backend, alternatives)
    form = _FORMS.get(key)
    if form is not None:
        return form, False
    depends = False  # a form that depends on the processor is not kept: code may be emitted for another one

    def fuses() -> bool:
        nonlocal depends
        depends = True
        return get_backend(backend).target().fma

    def nested(inner: Primitive, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> Form:
        nonlocal depends
        form, depends_too = _form_of(inner, ins, outs, backend, alternatives)
        depends = depends or depends_too
        return form

    builder = FormBuilder(out_avals, fuses, nested)
    operands = [Operand(builder.recorder, n, a) for n, a in enumerate(in_avals)]
    for rule in _rules_of(primitive, backend):
        if rule.alternative and rule.alternative not in alternatives:
            continue
        if rule.predicate is None or rule.predicate(primitive, *in_avals):
            form = rule.rule(primitive, builder, *operands)
            break
    else:
        form = primitive.lower(builder, *operands)
    if not depends:
        if len(_FORMS) >= _FORMS_LIMIT:
            _FORMS.clear()
        _FORMS[key] = form
    return form, depends


def own_outputs(jaxpr: Jaxpr, kept: Mapping[int, int] = MappingProxyType({})) -> Jaxpr:
    """Every output a distinct variable that an equation computes:
    arguments, literals and repeated outputs are copied.

    kept: outputs that may be an argument as it is, and which.
    """
    made = {v for e in jaxpr.equations for v in e.outputs}
    seen: set[Var] = set()
    extra: list[Equation] = []
    outputs: list[Var] = []
    for n, a in enumerate(jaxpr.outputs):
        if isinstance(a, Var) and a not in seen and (a in made or (n in kept and a is jaxpr.inputs[kept[n]])):
            seen.add(a)
            outputs.append(a)
            continue
        copy = Var(a.aval)
        extra.append(Equation(BroadcastInDim(a.aval.shape, tuple(range(a.aval.ndim))), (a,), (copy,)))
        outputs.append(copy)
    return Jaxpr(jaxpr.inputs, [*jaxpr.equations, *extra], outputs)


def lower(jaxpr: Jaxpr, backend: str, alternatives: tuple[str, ...] = ()) -> tuple[list[FormEquation], list[Atom]]:
    """Form equations of a jaxpr and its outputs.  `Expand` forms are traced and lowered in place,
    on an explicit stack.
    """
    out: list[FormEquation] = []
    rename: dict[Var, Atom] = {}
    stack: list[tuple[Iterator[Equation], Equation | None]] = [(iter(jaxpr.equations), None)]
    while stack:
        equations, outer = stack[-1]
        e: Equation | None = next(equations, None)
        if e is None:
            stack.pop()
            continue
        inputs = tuple([rename.get(a, a) if isinstance(a, Var) else a for a in e.inputs])
        outputs = tuple([cast("Var", rename.get(v, v)) for v in e.outputs])
        try:
            form = form_of(e.primitive, [a.aval for a in inputs], [v.aval for v in outputs], backend, alternatives)
        except TracejitError as error:
            error.at(e.location).about(backend=backend, primitive=e.primitive.name)
            raise
        if not isinstance(form, Expand):
            name, location = (e.primitive.name, e.location) if outer is None else (outer.primitive.name, outer.location)
            out.append(FormEquation(form, inputs, outputs, name, location))
            continue
        inner = own_outputs(expanded(form, inputs))
        rename.update(zip(inner.inputs, inputs, strict=True))
        rename.update(zip(cast("Sequence[Var]", inner.outputs), outputs, strict=True))
        stack.append((iter(inner.equations), e if outer is None else outer))
    return out, list(jaxpr.outputs)


def expanded(form: Expand, inputs: Sequence[Atom]) -> Jaxpr:
    """The jaxpr of an `Expand` form; it captures nothing."""
    if isinstance(form.function, Jaxpr):
        return form.function

    def flat(*args: Any) -> Sequence[Any]:
        result = form.function(*args)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    staged = stage(flat, [a.aval for a in inputs])
    if staged.constants:
        raise TracejitError("an Expand form captured an array")
    return staged.jaxpr
