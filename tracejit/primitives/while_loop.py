"""The loop that runs as long as its condition says, as a primitive.

A body over scalars becomes part of one kernel: mapped over axes (`domain`, by vmap) it is one loop per element, which
ends when that element is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape
from tracejit.ir.forms import Form, FormBuilder, FormOf, Loop as LoopForm, Operand, own_form
from tracejit.ir.jaxpr import Jaxpr, calls_python
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.passes.scalarize import is_scalar_program, run_scalars
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives.branch import Cond
from tracejit.primitives.comparison import And
from tracejit.primitives.control_flow import (
    described,
    fixpoint,
    is_linearizing,
    scalar_operands,
    staged_body,
    tangents_out,
)
from tracejit.primitives.counted_loop import Loop
from tracejit.primitives.creation import zero_tangent
from tracejit.primitives.elementwise import select
from tracejit.primitives.mapped import as_those_on, may_not_end, over_domain, remapped
from tracejit.primitives.reduction import reduce_max
from tracejit.primitives.shape import broadcast_in_dim
from tracejit.support.errors import NoReverseMode, ShapeError, UnsupportedError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import batch as batch_function, move_to_front, spread, taking_part
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp as jvp_function
from tracejit.tracer.linearize import evaluate_jaxpr
from tracejit.tracer.statements.decisions import Site, as_python
from tracejit.tracer.transpose import shape_of

__all__ = ["While"]


@frozen(eq=False)
class While(Primitive):
    """`while cond(consts, carries): carries = body(consts, carries)`.

    Operands: cond_consts, body_consts, carries -> carries.  cond: Jaxpr -> bool[]; body: Jaxpr -> avals of the carries.
    domain: axes one such loop per element is mapped over; mapped[k] says whether operand k has these axes in front.
    most: how many iterations it has at most, if that is known.  counted: the `for` that it is of, which a trace that
    starts again can make a counted loop of.
    """

    name = "while"
    runs_jaxprs = True
    multiple_results = True
    cond: Jaxpr
    body: Jaxpr
    cond_consts: int
    body_consts: int
    domain: Shape = ()
    mapped: tuple[bool, ...] = ()
    most: Extent | None = None
    counted: Site | None = None

    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in super().parameters().items() if name != "counted"}

    def _split(self, args: Sequence[ArrayLike]) -> tuple[list[Result], list[Result], list[Result]]:
        a, b = self.cond_consts, self.cond_consts + self.body_consts
        return list(args[:a]), list(args[a:b]), list(args[b:])

    def abstract_eval(self, *avals: ShapedArray) -> Result:
        _, _, carries = self._split(avals)
        wanted = self.body.out_avals
        for k, (c, w) in enumerate(zip(carries, wanted, strict=True)):
            inner = (
                c.shape[len(self.domain) :] if self.mapped and self.mapped[len(avals) - len(carries) + k] else c.shape
            )
            if inner != w.shape or c.dtype != w.dtype:
                raise ShapeError(
                    f"[while] carry {k} is {described(c)} before and {described(w)} after an iteration; "
                    "make them equal (astype, reshape)"
                )
        return tuple(ShapedArray((*self.domain, *w.shape), w.dtype) for w in wanted)

    def impl(self, *args: ArrayLike) -> Result:
        if self.domain:
            return self._impl_mapped(*args)
        cond_consts, body_consts, carries = self._split(args)
        while bool(evaluate_jaxpr(self.cond, [*cond_consts, *carries])[0]):
            carries = evaluate_jaxpr(self.body, [*body_consts, *carries])
        return [np.asarray(c) for c in carries]

    def _impl_mapped(self, *args: ArrayLike) -> Result:
        out = [np.empty((*self.domain, *w.shape), w.dtype) for w in self.body.out_avals]
        one = While(self.cond, self.body, self.cond_consts, self.body_consts)
        for index in np.ndindex(*self.domain):  # type: ignore[arg-type]
            result = one.impl(*[a[index] if m else a for a, m in zip(args, self.mapped, strict=True)])
            for o, r in zip(out, result, strict=True):
                o[index] = r
        return out

    def per_element(self, form_of: FormOf = own_form) -> bool:
        """Whether one loop can live inside a kernel."""
        carries = self.body.out_avals
        return all(not c.shape for c in carries) and all(is_scalar_program(p, form_of) for p in (self.cond, self.body))

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        mapped = self.mapped or (False,) * len(operands)
        if not self.per_element(b.form_of):
            if self.domain:
                raise UnsupportedError(
                    "[while] a loop mapped by vmap is one kernel: the rules of its primitives must give `map` forms"
                )
            return LoopForm(
                "while", (self.cond, self.body), (("cond_consts", self.cond_consts), ("body_consts", self.body_consts))
            )
        inner = (*self.cond.in_avals[: self.cond_consts], *self.body.in_avals)

        def element(i: Sequence[Scalar]) -> Any:
            args = scalar_operands(operands, inner, mapped, i)
            cond_consts, body_consts, carries = self._split(args)
            r = b.recorder()
            return r.while_loop(
                carries,
                lambda c: run_scalars(r, self.cond, [*cond_consts, *c], b.form_of)[0],
                lambda c: run_scalars(r, self.body, [*body_consts, *c], b.form_of),
            )

        return b.map(self.domain, element)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        if all(t is None for t in tangents):
            outs = bind(self, *primals)
            return outs, [None] * len(outs)
        if is_linearizing(tangents):
            if self.most is not None:
                loop, mapped = self._counted(self.most), self.mapped
                if not self.domain:
                    return loop.jvp(primals, tangents)
                return jvp_function(lambda *a: over_domain(loop, self.domain, mapped, a), primals, tangents)
            why = "a loop whose number of iterations is not known while tracing has no reverse-mode derivative"
            if self.counted is not None:
                as_python(self.counted, why, counted=True)
            raise NoReverseMode(
                f"{why}; use tj.range, tj.lax.fori_loop or tj.lax.scan with a constant count, or forward mode (tj.jvp)"
            )
        _, body_consts, carries = self._split(primals)
        _, body_tangents, carry_tangents = self._split(tangents)
        outs = self.body.out_avals
        live = fixpoint(
            [t is not None for t in carry_tangents],
            lambda on: tangents_out(self.body, [*[t is not None for t in body_tangents], *on]),
        )
        dots = [
            zero_tangent(c) if t is None else t for c, t, on in zip(carries, carry_tangents, live, strict=True) if on
        ]
        const_dots = [t for t in body_tangents if t is not None]
        nb, nc = len(body_consts), len(outs)

        def body(*args: ArrayLike) -> Sequence[Result]:
            consts, args = args[:nb], args[nb:]
            dconsts, args = args[: len(const_dots)], args[len(const_dots) :]
            c, dc = args[:nc], args[nc:]
            given = iter(dconsts)
            t_consts = [next(given) if t is not None else None for t in body_tangents]
            ts = iter(dc)
            t_carries = [next(ts) if on else None for on in live]
            new, dnew = jvp_function(lambda *a: evaluate_jaxpr(self.body, a), [*consts, *c], [*t_consts, *t_carries])
            return [
                *new,
                *[zero_tangent(p) if d is None else d for p, d, on in zip(new, dnew, live, strict=True) if on],
            ]

        dot_avals = [o for o, on in zip(outs, live, strict=True) if on]
        const_dot_avals = [a for a, t in zip(self.body.in_avals, body_tangents, strict=False) if t is not None]
        new_body = staged_body(body, [*self.body.in_avals[:nb], *const_dot_avals, *outs, *dot_avals], "while")
        nk = self.cond_consts

        def cond(*args: ArrayLike) -> Sequence[Result]:
            return evaluate_jaxpr(self.cond, args[: nk + nc])

        new_cond = staged_body(cond, [*self.cond.in_avals, *dot_avals], "while")
        mapped = self.mapped or (False,) * len(primals)
        fixed, varies = mapped[: nk + nb], mapped[nk + nb :]
        results = over_domain(
            While(new_cond, new_body, nk, nb + len(const_dots), most=self.most, counted=self.counted),
            self.domain,
            [
                *fixed,
                *[m for m, t in zip(fixed[nk:], body_tangents, strict=True) if t is not None],
                *varies,
                *[m for m, on in zip(varies, live, strict=True) if on],
            ],
            [*primals[: nk + nb], *const_dots, *carries, *dots],
        )
        rest = iter(results[nc:])
        return list(results[:nc]), [next(rest) if on else None for on in live]

    def _counted(self, most: Extent) -> Loop:
        """The loop over its greatest number of iterations, of which those after the last one change nothing: a counted
        loop has a derivative in reverse.
        """
        nk, nb, nc = self.cond_consts, self.body_consts, len(self.body.out_avals)

        def once(*args: ArrayLike) -> Sequence[Result]:
            consts, carries = args[: nk + nb], args[nk + nb + 1 :]  # between them is the index
            (goes_on,) = evaluate_jaxpr(self.cond, [*consts[:nk], *carries])
            return bind(Cond((untouched, iteration)), goes_on, *consts[nk:], *carries)

        iteration = self.body
        untouched = staged_body(lambda *args: list(args[nb:]), [a.strong() for a in iteration.in_avals], "while")
        avals = [*self.cond.in_avals[:nk], *iteration.in_avals[:nb], ShapedArray((), np.int64)]
        body = staged_body(once, [a.strong() for a in (*avals, *iteration.in_avals[nb:])], "while")
        return Loop(body, most, nk + nb, nc)

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int | None]]:
        if self.per_element():
            old = self.mapped or (False,) * len(args)
            new_args, mapped = remapped(args, dims, old, self.domain, size)
            new = evolve(self, domain=(size, *self.domain), mapped=mapped)
            outs = bind(new, *new_args)
            return outs, [0] * len(outs)
        return self._batch_masked(args, dims, size)

    def _batch_masked(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int | None]]:
        """All elements run until the last is done; those that are done keep their carries."""
        if self.domain:
            raise UnsupportedError("[while] a nested mapped loop whose body is not a scalar program")
        cond_consts, body_consts, carries = self._split(args)
        cond_dims, body_dims, carry_dims = self._split(dims)
        nk, nb, nc = len(cond_consts), len(body_consts), len(carries)
        cond_consts = [move_to_front(x, d) for x, d in zip(cond_consts, cond_dims, strict=True)]
        body_consts = [move_to_front(x, d) for x, d in zip(body_consts, body_dims, strict=True)]
        carries = [spread(x, d, size) for x, d in zip(carries, carry_dims, strict=True)]
        if isinstance(size, int) and size == 0:  # no element goes on
            return carries, [0] * len(carries)
        nested = may_not_end(self.body)  # for elements that are done
        kd = [0 if d is not None else None for d in cond_dims]
        bd = [0 if d is not None else None for d in body_dims]
        part = [] if (around := taking_part()) is None else [around]
        called = any(calls_python(e.primitive) for e in self.body.equations)

        def tests(consts: Sequence[ArrayLike], c: Sequence[ArrayLike]) -> Result:
            return batch_function(lambda *a: evaluate_jaxpr(self.cond, a), [*consts, *c], [*kd, *[0] * nc])[0]

        def cond(*a: ArrayLike) -> Sequence[Result]:
            return [reduce_max(tests(a[:nk], a[nk:]), (0,))]

        def body(*a: ArrayLike) -> Sequence[Result]:
            around, a = (a[0], a[1:]) if part else (None, a)
            ck, cb, c = a[:nk], a[nk : nk + nb], a[nk + nb :]
            on = tests(ck, c)
            some = on if around is None else bind(And(), on, around)
            args, dims = [*cb, *c], [*bd, *[0] * nc]
            given = as_those_on(on, args, dims) if nested else args
            new = batch_function(lambda *x: evaluate_jaxpr(self.body, x), given, dims, size, some if called else None)
            return [select(broadcast_in_dim(on, shape_of(n), (0,)), n, o) for n, o in zip(new, c, strict=True)]

        ka = [aval_of_argument(x) for x in cond_consts]
        pa, ba = ([aval_of_argument(x) for x in xs] for xs in (part, body_consts))
        ca = [aval_of_argument(x).strong() for x in carries]
        new_cond, new_body = staged_body(cond, [*ka, *ca], "while"), staged_body(body, [*pa, *ka, *ba, *ca], "while")
        new = While(new_cond, new_body, nk, len(part) + nk + nb, most=self.most, counted=self.counted)
        outs = bind(new, *cond_consts, *part, *cond_consts, *body_consts, *carries)
        return outs, [0] * len(outs)
