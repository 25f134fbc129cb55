"""The branch, as a primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape, is_empty
from tracejit.ir.forms import Form, FormBuilder, FormOf, Loop as LoopForm, Operand, own_form
from tracejit.ir.jaxpr import Atom, Jaxpr, calls_python
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.passes.scalarize import is_scalar_program, run_scalars
from tracejit.ir.passes.simplify import atom_key, dce
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives.comparison import And, Not
from tracejit.primitives.control_flow import (
    block_of,
    counts_inside,
    described,
    has_any,
    in_room,
    is_differentiable,
    is_linearizing,
    placed,
    scalar_operands,
    staged_body,
    tangents_out,
)
from tracejit.primitives.creation import AsExtent, extent_value, zero_tangent, zeros_of
from tracejit.primitives.elementwise import select
from tracejit.primitives.mapped import as_those_on, constant_where_off, may_not_end, over_domain, remapped
from tracejit.primitives.reduction import reduce_max, reduce_sum
from tracejit.primitives.shape import broadcast_in_dim
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import batch as batch_function, move_to_front, taking_part
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp as jvp_function
from tracejit.tracer.linearize import evaluate_jaxpr, linearize
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transpose import UndefinedPrimal, backward_pass, shape_of

__all__ = ["Cond"]


def _with_operands(body: Jaxpr, places: Sequence[int | None], kept: Sequence[int]) -> Jaxpr:
    """A branch on the operands `kept`; places: which of them an operand equals."""
    rename: dict[Atom, Atom] = {v: body.inputs[p] for v, p in zip(body.inputs, places, strict=True) if p is not None}
    equations = [evolve(e, inputs=tuple([rename.get(a, a) for a in e.inputs])) for e in body.equations]
    return Jaxpr([body.inputs[k] for k in kept], equations, [rename.get(a, a) for a in body.outputs])


@frozen(eq=False)
class Cond(Primitive):
    """`branches[1](*operands) if flag else branches[0](*operands)`.   flag: bool[], operands -> results

    domain: axes it is mapped over element by element; mapped[k] says whether operand k (the flag is 0) has them.
    """

    name = "cond"
    runs_jaxprs = True
    multiple_results = True
    branches: tuple[Jaxpr, Jaxpr]
    domain: Shape = ()
    mapped: tuple[bool, ...] = ()

    def abstract_eval(self, *avals: ShapedArray) -> Result:
        no, yes = (b.out_avals for b in self.branches)
        for k, (a, c) in enumerate(zip(no, yes, strict=True)):
            if a.shape != c.shape or a.dtype != c.dtype:
                raise ShapeError(
                    f"[cond] result {k} is {described(c)} in the true branch and {described(a)} in the false branch; "
                    "make them equal (astype, reshape)"
                )
        return tuple(ShapedArray((*self.domain, *a.shape), a.dtype) for a in no)

    def impl(self, *args: ArrayLike) -> Result:
        if not self.domain:
            return [np.asarray(o) for o in evaluate_jaxpr(self.branches[bool(args[0])], args[1:])]
        out = [np.empty((*self.domain, *w.shape), w.dtype) for w in self.branches[0].out_avals]
        one = Cond(self.branches)
        for index in np.ndindex(*self.domain):  # type: ignore[arg-type]
            for o, r in zip(
                out, one.impl(*[a[index] if m else a for a, m in zip(args, self.mapped, strict=True)]), strict=True
            ):
                o[index] = r
        return out

    def trimmed(
        self, inputs: Sequence[Any], wanted: Sequence[bool]
    ) -> tuple[Primitive, Sequence[Any], Sequence[bool]] | None:
        flag, *operands = inputs
        bodies = [
            dce(Jaxpr(b.inputs, b.equations, [v for v, w in zip(b.outputs, wanted, strict=True) if w]))
            for b in self.branches
        ]
        used = {a for b in bodies for e in b.equations for a in e.inputs}.union(*[b.outputs for b in bodies])
        first: dict[object, int] = {}  # of the operands that count
        places: list[int | None] = []
        for k, a in enumerate(operands):
            counts = any(b.inputs[k] in used for b in bodies)
            places.append(first.setdefault(atom_key(a), k) if counts else None)
        kept = list(first.values())
        if all(wanted) and len(kept) == len(operands):
            return None
        merged = tuple([_with_operands(b, places, kept) for b in bodies])
        mapped = (self.mapped[0], *[self.mapped[k + 1] for k in kept]) if self.mapped else ()
        return evolve(self, branches=merged, mapped=mapped), (flag, *[operands[k] for k in kept]), wanted

    def per_element(self, form_of: FormOf = own_form) -> bool:
        return all(not a.shape for a in self.branches[0].out_avals) and all(
            is_scalar_program(b, form_of) for b in self.branches
        )

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        if not self.per_element(b.form_of):
            if self.domain:
                raise UnsupportedError(
                    "[cond] a branch mapped by vmap is one kernel: the rules of its primitives must give `map` forms"
                )
            return LoopForm("cond", self.branches)
        mapped = self.mapped or (False,) * len(operands)
        inner = (ShapedArray((), np.bool_), *self.branches[0].in_avals)

        def element(i: Sequence[Scalar]) -> Any:
            flag, *args = scalar_operands(operands, inner, mapped, i)
            r = b.recorder()
            no, yes = self.branches
            return r.branch(
                flag, lambda: run_scalars(r, yes, args, b.form_of), lambda: run_scalars(r, no, args, b.form_of)
            )

        return b.map(self.domain, element)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        flag, *ops = primals
        dots = list(tangents[1:])
        if all(t is None for t in dots):
            outs = bind(self, *primals)
            return outs, [None] * len(outs)
        on = [t is not None for t in dots]
        live = [a or c for a, c in zip(*(tangents_out(b, on) for b in self.branches), strict=True)]
        if is_linearizing(tangents):
            return self._linearized(flag, ops, dots, on, live)
        n = len(ops)

        def branch(body: Jaxpr) -> Jaxpr:
            def run(*args: ArrayLike) -> Sequence[Result]:
                new, dnew = jvp_function(lambda *a: evaluate_jaxpr(body, a), args[:n], placed(args[n:], on))
                return [
                    *new,
                    *[zero_tangent(p) if d is None else d for p, d, f in zip(new, dnew, live, strict=True) if f],
                ]

            return staged_body(
                run, [*body.in_avals, *[a.strong() for a, f in zip(body.in_avals, on, strict=True) if f]], "cond"
            )

        outs = self._of_each((branch(self.branches[0]), branch(self.branches[1])), on, primals, dots)
        k = len(self.branches[0].outputs)
        return list(outs[:k]), placed(outs[k:], live)

    def _of_each(
        self,
        branches: tuple[Jaxpr, Jaxpr],
        on: Sequence[bool],
        args: Sequence[ArrayLike],
        dots: Sequence[ArrayLike],
        more: Sequence[ArrayLike] = (),
    ) -> list[Result]:
        """Other branches with the same flag, of operands, those tangents that are `on`, and more that vary over the
        domain: for each element of it.
        """
        flag, *mapped = self.mapped or (False,) * (1 + len(on))
        moves = [m for m, f in zip(mapped, on, strict=True) if f]
        given = [t for t in dots if t is not None]
        flags = [flag, *mapped[: len(args) - 1], *moves, *[True] * len(more)]
        return over_domain(Cond(branches), self.domain, flags, [*args, *given, *more])

    def _linearized(
        self,
        flag: ArrayLike,
        ops: Sequence[ArrayLike],
        dots: Sequence[ArrayLike],
        on: Sequence[bool],
        live: Sequence[bool],
    ) -> tuple[Result, Result]:
        """Both branches hand out the residuals of both (zeros for the one not taken);
        the linear branch picks its own.
        """
        linear: list[Any] = []
        avals: list[list[ShapedArray]] = []
        for body in self.branches:
            found: dict[str, Any] = {}

            def forward(*args: ArrayLike, body: Jaxpr = body, found: dict[str, Any] = found) -> Sequence[Result]:
                def only(*floats: ArrayLike) -> Sequence[Result]:
                    given = iter(floats)
                    return evaluate_jaxpr(body, [next(given) if f else a for a, f in zip(args, on, strict=True)])

                lin = found["lin"] = linearize(only, [a for a, f in zip(args, on, strict=True) if f])
                found["counts"] = counts_inside(lin.jaxpr)
                numbers = [extent_value(Dim.symbol(n), np.int64) for n in found["counts"]]
                rooms = [in_room(r) if has_any(shape_of(r), found["counts"]) else r for r in lin.residuals]
                return [*lin.outputs, *rooms, *numbers]

            jaxpr = staged_body(forward, [a.strong() for a in body.in_avals], "cond")
            lin = found["lin"]
            linear.append((jaxpr, lin.jaxpr, lin.zero, found["counts"]))
            avals.append([v.aval for v in jaxpr.outputs[len(lin.outputs) :]])
        k = len(self.branches[0].outputs)

        def with_all(which: int) -> Jaxpr:
            def run(*args: ArrayLike) -> Sequence[Result]:
                out = evaluate_jaxpr(linear[which][0], args)
                blank = [zeros_of(a) for a in avals[1 - which]]
                return [*out[:k], *out[k:], *blank] if which == 0 else [*out[:k], *blank, *out[k:]]

            return staged_body(run, [a.strong() for a in self.branches[which].in_avals], "cond")

        outs = self._of_each((with_all(0), with_all(1)), [False] * len(on), [flag, *ops], ())
        residuals = outs[k:]
        dot_avals = [a.strong() for a, f in zip(self.branches[0].in_avals, on, strict=True) if f]

        def linear_branch(which: int) -> Jaxpr:
            def run(*args: ArrayLike) -> Sequence[Result]:
                ts, rs = args[: len(dot_avals)], args[len(dot_avals) :]
                own = rs[: len(avals[0])] if which == 0 else rs[len(avals[0]) :]
                _, jaxpr, _, counts = linear[which]
                for count, n in zip(counts, own[len(own) - len(counts) :], strict=True):
                    bind(AsExtent(count), n)
                shapes = [v.aval.shape for v in jaxpr.inputs[len(ts) :]]
                own = [block_of(x, shape) for x, shape in zip(own, shapes, strict=False)]
                out = iter(evaluate_jaxpr(jaxpr, [*ts, *own]))
                full_out = [None if z else next(out) for z in linear[which][2]]
                return [
                    zeros_of(w.strong()) if d is None else d
                    for d, w, f in zip(full_out, self.branches[0].out_avals, live, strict=True)
                    if f
                ]

            return staged_body(run, [*dot_avals, *avals[0], *avals[1]], "cond")

        douts = self._of_each((linear_branch(0), linear_branch(1)), on, [flag], dots, residuals)
        return list(outs[:k]), placed(douts, live)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        flag, *ops = args
        lin = [isinstance(a, UndefinedPrimal) for a in ops]
        known = [a for a, f in zip(ops, lin, strict=True) if not f]
        cts = [zeros_of(w) if c is None else c for c, w in zip(ct, self.branches[0].out_avals, strict=True)]

        def branch(body: Jaxpr) -> Jaxpr:
            linear = [v for v, f in zip(body.inputs, lin, strict=True) if f]
            others = [v for v, f in zip(body.inputs, lin, strict=True) if not f]
            order = Jaxpr(linear + others, body.equations, body.outputs)

            def run(*a: ArrayLike) -> Sequence[Result]:
                parts = backward_pass(order, a[: len(known)], a[len(known) :], sum(lin))
                return [zeros_of(v.aval) if p is None else p for p, v in zip(parts, order.inputs, strict=False)]

            return staged_body(
                run,
                [
                    *[v.aval for v, f in zip(body.inputs, lin, strict=True) if not f],
                    *[w.strong() for w in body.out_avals],
                ],
                "cond",
            )

        flag_varies, *mapped = self.mapped or (False,) * len(args)
        flags = [flag_varies, *[m for m, f in zip(mapped, lin, strict=True) if not f], *[c is not None for c in ct]]
        outs = over_domain(
            Cond((branch(self.branches[0]), branch(self.branches[1]))), self.domain, flags, [flag, *known, *cts]
        )
        axes = range(len(self.domain))
        moves = [m for m, f in zip(mapped, lin, strict=True) if f]
        sums = [x if m else reduce_sum(x, axes) for x, m in zip(outs, moves, strict=True)]
        return [None, *placed(sums, lin)]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int | None]]:
        flag, *ops = args
        df, *do = dims
        if df is None and not self.domain:
            moved = [move_to_front(x, d) for x, d in zip(ops, do, strict=True)]
            od = [0 if d is not None else None for d in do]
            part = [] if (on := taking_part()) is None else [on]
            moved = [*part, *moved]

            def branch(body: Jaxpr) -> Jaxpr:
                return staged_body(
                    lambda *a: batch_function(
                        lambda *z: evaluate_jaxpr(body, z), a[len(part) :], od, size, a[0] if part else None
                    ),
                    [aval_of_argument(x).strong() for x in moved],
                    "cond",
                )

            outs = bind(Cond((branch(self.branches[0]), branch(self.branches[1]))), flag, *moved)
            return outs, [0] * len(outs)
        if self.per_element():
            old = self.mapped or (False,) * len(args)
            new_args, mapped = remapped(args, dims, old, self.domain, size)
            outs = bind(Cond(self.branches, (size, *self.domain), mapped), *new_args)
            return outs, [0] * len(outs)
        # Whole arrays per element: both branches run, and each element picks its own.
        test = move_to_front(flag, df)
        moved = [move_to_front(x, d) for x, d in zip(ops, do, strict=True)]
        od = [0 if d is not None else None for d in do]
        no, yes = (
            _where_on(body, on, moved, od, size)
            for body, on in zip(self.branches, (bind(Not(), test), test), strict=True)
        )
        outs = [select(broadcast_in_dim(test, shape_of(y), (0,)), y, n) for n, y in zip(no, yes, strict=True)]
        return outs, [0] * len(outs)


def _where_on(
    body: Jaxpr, on: ArrayLike, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
) -> list[Result]:
    """A branch for all elements, of which those that are not on take another: what they get does not matter, so that it
    must only end, and leave derivatives as they are.   on: bool[size]; dims: 0, or None of what is not mapped
    """
    around = taking_part()
    on = on if around is None else bind(And(), on, around)
    called = any(calls_python(e.primitive) for e in body.equations)

    def run(on: ArrayLike, *a: ArrayLike) -> list[Result]:
        return batch_function(lambda *z: evaluate_jaxpr(body, z), a, dims, size, on if called else None)

    shared = any(
        d is None and isinstance(x, Tracer) and is_differentiable(x.aval) for x, d in zip(args, dims, strict=True)
    )
    if is_empty(size) or not (shared or may_not_end(body)):
        return run(on, *[constant_where_off(on, x, d) for x, d in zip(args, dims, strict=True)])
    avals = [aval_of_argument(x).strong() for x in (on, *args)]
    some = staged_body(lambda on, *a: run(on, *as_those_on(on, a, dims)), avals, "cond")
    none = staged_body(lambda *_: [zeros_of(v.aval) for v in some.outputs], avals, "cond")
    return list(bind(Cond((none, some)), reduce_max(on, (0,)), on, *args))
