"""Primitives to forms: the one place where the (primitive, backend, predicate) rules are looked up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from tracejit.backends.base import LoweringRule
from tracejit.backends.registry import backend_reason, check_known, get_backend, list_backends
from tracejit.ir.forms import Expand, Form, FormBuilder, HostFunction, LibraryCall, Operand
from tracejit.ir.jaxpr import Atom, Equation, Jaxpr, Var
from tracejit.ir.passes.groups import FormEquation
from tracejit.ir.primitive import Primitive, primitives
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import OptionError, TracejitError, UserError
from tracejit.support.nodes import evolve
from tracejit.support.source import user_location
from tracejit.tracer.stage import stage

__all__ = [
    "LoweringRule",
    "check_alternatives",
    "lower",
    "lowering_rules",
    "register_lowering",
    "unregister_lowering",
    "written_out",
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

    builder = FormBuilder(out_avals, fuses, nested, backend)
    operands = [Operand(builder.recorder, n, a) for n, a in enumerate(in_avals)]
    for rule in _rules_of(primitive, backend):
        if rule.alternative and rule.alternative not in alternatives:
            continue
        if rule.predicate is None or rule.predicate(primitive, *in_avals):
            form = rule.rule(primitive, builder, *operands)
            break
    else:
        form = primitive.lower(builder, *operands)
    if isinstance(form, LibraryCall) and isinstance(form.environment, HostFunction):
        depends = True  # nor one that holds what the user may drop
    if not depends:
        if len(_FORMS) >= _FORMS_LIMIT:
            _FORMS.clear()
        _FORMS[key] = form
    return form, depends


def lower(jaxpr: Jaxpr, backend: str, alternatives: tuple[str, ...] = ()) -> tuple[list[FormEquation], list[Atom]]:
    """Form equations of a jaxpr and its outputs.  `Expand` forms are traced and lowered in place,
    on an explicit stack.
    """
    out: list[FormEquation] = []
    rename: dict[Var, Atom] = {}

    def resolve(a: Atom) -> Atom:
        while isinstance(a, Var) and a in rename:
            a = rename[a]
        return a

    stack: list[tuple[Iterator[Equation], Callable[[], None] | None]] = [(iter(jaxpr.equations), None)]
    while stack:
        equations, finish = stack[-1]
        e: Equation | None = next(equations, None)
        if e is None:
            stack.pop()
            if finish is not None:
                finish()
            continue
        inputs = tuple([resolve(a) for a in e.inputs])
        try:
            form = form_of(e.primitive, [a.aval for a in inputs], [v.aval for v in e.outputs], backend, alternatives)
        except TracejitError as error:
            error.at(e.location).about(backend=backend, primitive=e.primitive.name)
            raise
        if not isinstance(form, Expand):
            out.append(FormEquation(form, inputs, e.outputs, e.primitive.name, e.location))
            continue
        inner = expanded(form, inputs)
        for var, atom in zip(inner.inputs, inputs, strict=True):
            rename[var] = atom

        def done(inner: Jaxpr = inner, outer: Equation = e) -> None:
            for var, atom in zip(outer.outputs, inner.outputs, strict=True):
                rename[var] = resolve(atom)

        stack.append((iter(inner.equations), done))
    return out, [resolve(a) for a in jaxpr.outputs]


def written_out(
    jaxpr: Jaxpr, backend: str, alternatives: tuple[str, ...], report: Callable[[str], None] = lambda _: None
) -> Jaxpr:
    """The jaxpr with what an equation of form `Expand` is composed of in its place; `report` is told their names."""
    equations: list[Equation] = []
    rename: dict[Var, Atom] = {}

    def resolve(a: Atom) -> Atom:
        while isinstance(a, Var) and a in rename:
            a = rename[a]
        return a

    stack = [iter(jaxpr.equations)]
    found = False
    while stack:
        e = next(stack[-1], None)
        if e is None:
            stack.pop()
            continue
        inputs, inner = tuple([resolve(a) for a in e.inputs]), None
        if not e.primitive.runs_jaxprs and not e.primitive.binds:
            try:
                form = form_of(
                    e.primitive, [a.aval for a in inputs], [v.aval for v in e.outputs], backend, alternatives
                )
                inner = expanded(form, inputs) if isinstance(form, Expand) else None
            except TracejitError as error:
                error.at(e.location).about(backend=backend, primitive=e.primitive.name)
                raise
        if inner is None:
            equations.append(evolve(e, inputs=inputs))
            continue
        found = True
        report(e.primitive.name)
        fresh: dict[Var, Atom] = dict(zip(inner.inputs, inputs, strict=True))

        def own(a: Atom, fresh: dict[Var, Atom] = fresh) -> Atom:
            return fresh[a] if isinstance(a, Var) else a

        body: list[Equation] = []
        for x in inner.equations:
            taken = tuple([own(a) for a in x.inputs])
            made = tuple([Var(v.aval) for v in x.outputs])
            fresh.update(zip(x.outputs, made, strict=True))
            body.append(evolve(x, inputs=taken, outputs=made, location=e.location))
        for var, atom in zip(e.outputs, inner.outputs, strict=True):
            rename[var] = own(atom)
        stack.append(iter(body))
    return Jaxpr(jaxpr.inputs, equations, [resolve(a) for a in jaxpr.outputs]) if found else jaxpr


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
