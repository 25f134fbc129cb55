"""The loop over a known count, with scanned inputs and outputs, as a primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, Index
from tracejit.ir.forms import Form, FormBuilder, FormOf, Loop as LoopForm, Operand, own_form
from tracejit.ir.jaxpr import Jaxpr, with_extents
from tracejit.ir.kernel import index_const
from tracejit.ir.passes.scalarize import is_scalar_program, run_scalars
from tracejit.ir.passes.simplify import dce
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives.control_flow import (
    block_of,
    counts_inside,
    dependent_outputs,
    described,
    fixpoint,
    in_room,
    is_linearizing,
    placed,
    room_of,
    scalar_operands,
    staged_body,
    tangents_out,
)
from tracejit.primitives.creation import AsExtent, extent_value, zero_tangent, zeros_of
from tracejit.primitives.elementwise import add, sub
from tracejit.primitives.shape import reshape, transpose
from tracejit.primitives.slicing import dynamic_slice, dynamic_update_slice
from tracejit.support.errors import ShapeError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import batch as batch_function, move_to_front, spread, taking_part
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp as jvp_function
from tracejit.tracer.linearize import evaluate_jaxpr, linearize
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transpose import UndefinedPrimal, backward_pass, shape_of

__all__ = ["Loop"]


@frozen(eq=False)
class Loop(Primitive):
    """A counted loop: `for i in range(count): carries, y[i] = body(consts, i, carries, x[i])`;
    from the last i with `reverse`.

    Operands: consts, carries, xs (leading axis `count`) -> carries, ys (leading axis `count`).
    body: Jaxpr of (consts..., i: i64[], carries..., slices of xs...) -> (carries..., slices of ys...).
    index: the symbol that is `i` in the extents of the body, if there is one.
    """

    name = "loop"
    runs_jaxprs = True
    multiple_results = True
    body: Jaxpr
    count: Extent
    consts: int
    carries: int
    reverse: bool = False
    index: Index | None = None

    def _split(self, args: Sequence[ArrayLike]) -> tuple[list[Result], list[Result], list[Result]]:
        a, b = self.consts, self.consts + self.carries
        return list(args[:a]), list(args[a:b]), list(args[b:])

    def abstract_eval(self, *avals: ShapedArray) -> Result:
        _, carries, xs = self._split(avals)
        outs = self.body.out_avals
        for k, (c, w) in enumerate(zip(carries, outs, strict=False)):
            if c.shape != w.shape or c.dtype != w.dtype:
                raise ShapeError(
                    f"[loop] carry {k} is {described(c)} before and {described(w)} after an iteration; "
                    "make them equal (astype, reshape)"
                )
        for x in xs:
            if not x.shape or x.shape[0] != self.count:
                raise ShapeError(f"[loop] a scanned input is {x}, its leading axis is not {self.count}")
        ys = [ShapedArray((self.count, *w.shape), w.dtype) for w in outs[self.carries :]]
        return (*[w.strong() for w in outs[: self.carries]], *ys)

    def impl(self, *args: ArrayLike) -> Result:
        consts, carries, xs = self._split(args)
        ys: list[list[Any]] = [[] for _ in self.body.out_avals[self.carries :]]
        order = range(int(self.count))
        for i in reversed(order) if self.reverse else order:
            body = self.body if self.index is None else with_extents(self.body, {self.index: i})
            out = evaluate_jaxpr(body, [*consts, np.int64(i), *carries, *[x[i] for x in xs]])
            carries = out[: self.carries]
            for y, o in zip(ys, out[self.carries :], strict=True):
                y.append(o)
        outs = [np.asarray(c, a.dtype) for c, a in zip(carries, self.body.out_avals, strict=False)]
        for y, a in zip(ys, self.body.out_avals[self.carries :], strict=True):
            stacked = np.stack(y[::-1] if self.reverse else y) if y else np.zeros((0, *a.shape), a.dtype)  # type: ignore[arg-type]
            outs.append(stacked)
        return outs

    def trimmed(
        self, inputs: Sequence[Any], wanted: Sequence[bool]
    ) -> tuple[Primitive, Sequence[Any], Sequence[bool]] | None:
        nk, nc = self.consts, self.carries
        kept = list(wanted)  # of carries and ys: those that somebody wants, and carries that these are made of
        while True:
            body = dce(Jaxpr(self.body.inputs, self.body.equations, _where(self.body.outputs, kept)))
            used = {a for e in body.equations for a in e.inputs}.union(body.outputs)
            more = [k or v in used for k, v in zip(kept, self.body.inputs[nk + 1 : nk + 1 + nc], strict=False)]
            if more == kept[:nc]:
                break
            kept[:nc] = more
        consts = [v in used for v in self.body.inputs[:nk]]
        xs = [v in used for v in self.body.inputs[nk + 1 + nc :]]
        if all(kept) and all(consts) and all(xs):
            return None
        variables = _where(body.inputs, [*consts, True, *kept[:nc], *xs])
        new = Jaxpr(variables, body.equations, body.outputs)
        made = evolve(self, body=new, consts=sum(consts), carries=sum(kept[:nc]))
        return made, _where(inputs, [*consts, *kept[:nc], *xs]), kept

    def per_element(self, form_of: FormOf = own_form) -> bool:
        return (
            self.index is None
            and len(self.body.outputs) == self.carries
            and all(not w.shape for w in self.body.out_avals)
            and is_scalar_program(self.body, form_of)
        )

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        consts, carries, xs = self._split(operands)
        if self.per_element(b.form_of) and all(len(x.shape) == 1 for x in xs):
            return b.map((), lambda _: self._scalar_loop(b, consts, carries, xs))
        return self._program_loop([x.aval for x in operands])

    def _scalar_loop(
        self, b: FormBuilder, consts: Sequence[Operand], carries: Sequence[Operand], xs: Sequence[Operand]
    ) -> Result:
        r = b.recorder()
        values = scalar_operands(consts, [x.aval for x in consts], [False] * len(consts), ())

        def once(k: ArrayLike, c: Sequence[ArrayLike]) -> Result:
            i = b.op("sub", index_const(self.count - 1), k) if self.reverse else k
            return run_scalars(r, self.body, [*values, i, *c, *[x[i] for x in xs]], b.form_of)

        return r.loop(index_const(self.count), [c[()] for c in carries], once)

    def _program_loop(self, avals: Sequence[ShapedArray]) -> Form:
        """The loop around kernels: the index, if it is used, and the outputs become carries, scanned inputs are
        sliced inside.
        """
        consts, carries, xs = self._split(avals)
        ys = [ShapedArray((self.count, *w.shape), w.dtype) for w in self.body.out_avals[self.carries :]]
        nk, nc, nx = len(consts), len(carries), len(xs)
        counted = bool(xs or ys) or self._uses_index()
        zero = np.int64(0)
        source = self.body
        if self.index is not None and self.reverse:
            source = with_extents(source, {self.index: self.count - 1 - Dim.symbol(self.index)})

        def body(*args: ArrayLike) -> Sequence[Result]:
            at = nk + nx + counted
            ks, xa, cs, ya = args[:nk], args[nk : nk + nx], args[at : at + nc], args[at + nc :]
            step = args[nk + nx] if counted else zero
            i = sub(extent_value(self.count - 1, np.int64), step) if self.reverse else step
            rows = [_row(x, i) for x in xa]
            out = evaluate_jaxpr(source, [*ks, i, *cs, *rows])
            new_ys = [_put_row(y, o, i) for y, o in zip(ya, out[nc:], strict=True)]
            return [*([add(step, np.int64(1))] if counted else []), *out[:nc], *new_ys]

        index = [ShapedArray((), np.int64)] if counted else []
        jaxpr = staged_body(body, [*consts, *xs, *index, *[c.strong() for c in carries], *ys], "loop")
        numbers = {"consts": nk, "scanned": nx, "carries": nc, "stacked": len(ys), "counted": counted}
        return LoopForm("for", (jaxpr,), (*numbers.items(), ("count", self.count), ("index", self.index)))

    def _uses_index(self) -> bool:
        index, needed = self.body.inputs[self.consts], dce(self.body)
        return index in needed.outputs or any(index in e.inputs for e in needed.equations)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        if all(t is None for t in tangents):
            outs = bind(self, *primals)
            return outs, [None] * len(outs)
        live_in = [t is not None for t in tangents]
        live = self._live(live_in)
        if is_linearizing(tangents):
            return self._linearized(primals, tangents, live)
        return self._fused_jvp(primals, tangents, live)

    def _live(self, on: Sequence[bool]) -> list[bool]:
        """Which outputs have tangents."""
        k, c, x = self._split(on)

        def outs(carry_on: list[bool]) -> list[bool]:
            return tangents_out(self.body, [*k, False, *carry_on, *x])

        carry_on = fixpoint(c, lambda now: outs(now)[: self.carries])
        return [*carry_on, *outs(carry_on)[self.carries :]]

    def _dots(
        self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike], live: Sequence[bool]
    ) -> tuple[list[Result], list[Result], list[Result]]:
        """Tangents of consts, of live carries (zeros where none came in), of xs; None where there is none."""
        tk, tc, tx = self._split(tangents)
        _, carries, _ = self._split(primals)
        return (
            tk,
            [
                (zero_tangent(c) if t is None else t) if on else None
                for c, t, on in zip(carries, tc, live, strict=False)
            ],
            tx,
        )

    def _fused_jvp(
        self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike], live: Sequence[bool]
    ) -> tuple[Result, Result]:
        consts, carries, xs = self._split(primals)
        tk, tc, tx = self._dots(primals, tangents, live)
        nk, nc, nx = len(consts), len(carries), len(xs)
        on_k, on_c, on_x = ([t is not None for t in ts] for ts in (tk, tc, tx))
        n_dk, n_dc = sum(on_k), sum(on_c)

        def body(*args: ArrayLike) -> Sequence[Result]:
            parts: list[Sequence[Any]] = []
            at = 0
            for n in (nk, n_dk, 1, nc, n_dc, nx):
                parts.append(args[at : at + n])
                at += n
            ks, dks, (i,), cs, dcs, rows = parts
            drows = args[at:]
            ts = [*placed(dks, on_k), None, *placed(dcs, on_c), *placed(drows, on_x)]
            new, dnew = jvp_function(lambda *a: evaluate_jaxpr(self.body, a), [*ks, i, *cs, *rows], ts)
            dots = [zero_tangent(p) if d is None else d for p, d, f in zip(new, dnew, live, strict=True) if f]
            n_live = sum(live[:nc])
            return [*new[:nc], *dots[:n_live], *new[nc:], *dots[n_live:]]

        inner = self.body.in_avals
        ka, ia, ca, xa = inner[:nk], inner[nk], inner[nk + 1 : nk + 1 + nc], inner[nk + 1 + nc :]
        pick = lambda avals, on: [a.strong() for a, f in zip(avals, on, strict=True) if f]  # noqa: E731
        jaxpr = staged_body(body, [*ka, *pick(ka, on_k), ia, *ca, *pick(ca, on_c), *xa, *pick(xa, on_x)], "loop")
        new = evolve(self, body=jaxpr, consts=nk + n_dk, carries=nc + n_dc)
        some = lambda ts: [t for t in ts if t is not None]  # noqa: E731
        outs = bind(new, *consts, *some(tk), *carries, *some(tc), *xs, *some(tx))
        ny = len(self.body.outputs) - nc
        primal = [*outs[:nc], *outs[nc + n_dc : nc + n_dc + ny]]
        dots = iter([*outs[nc : nc + n_dc], *outs[nc + n_dc + ny :]])
        return primal, [next(dots) if f else None for f in live]

    def _linearized(
        self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike], live: Sequence[bool]
    ) -> tuple[Result, Result]:
        """The primal loop, which also stacks what the linear loop needs, and the linear loop over tangents."""
        consts, carries, xs = self._split(primals)
        tk, tc, tx = self._dots(primals, tangents, live)
        nk, nc = len(consts), len(carries)
        on = [*[t is not None for t in tk], False, *[t is not None for t in tc], *[t is not None for t in tx]]
        found: dict[str, Any] = {}

        def forward(*args: ArrayLike) -> Sequence[Result]:
            fixed = [None if f else a for a, f in zip(args, on, strict=True)]

            def only(*floats: ArrayLike) -> Sequence[Result]:
                given = iter(floats)
                return evaluate_jaxpr(self.body, [next(given) if f else a for a, f in zip(fixed, on, strict=True)])

            lin = linearize(only, [a for a, f in zip(args, on, strict=True) if f])
            # A residual that is one of the loop's own inputs need not be stacked: constants stay constants.
            found["jaxpr"], found["zero"] = lin.jaxpr, lin.zero
            found["consts"] = [
                next((n for n, a in enumerate(args[:nk]) if _same_value(a, r)), None) for r in lin.residuals
            ]
            stacked = [r for r, c in zip(lin.residuals, found["consts"], strict=True) if c is None]
            found["shapes"] = [shape_of(r) for r in stacked]
            found["counts"] = counts_inside(lin.jaxpr)
            numbers = [extent_value(Dim.symbol(n), np.int64) for n in found["counts"]]
            return [*lin.outputs, *[in_room(r) for r in stacked], *numbers]

        fw = staged_body(forward, [a.strong() for a in self.body.in_avals], "loop")
        outs = bind(evolve(self, body=fw), *consts, *carries, *xs)
        n_out = len(self.body.outputs)
        stacked = list(outs[n_out:])
        lin: Jaxpr = found["jaxpr"]
        zero = found["zero"]
        n_dk, n_dc, n_dx = sum(on[:nk]), sum(on[nk + 1 : nk + 1 + nc]), sum(on[nk + 1 + nc :])
        n_linear = n_dk + n_dc + n_dx
        const_at = found["consts"]
        const_res = [consts[c] for c in const_at if c is not None]
        res_avals = [v.aval for v in lin.inputs[n_linear:]]

        def linear(*args: ArrayLike) -> Sequence[Result]:
            # (const tangents, constant residuals, i, carry tangents, x tangents, stacked residuals)
            dks, args = args[:n_dk], args[n_dk:]
            fixed, args = args[: len(const_res)], args[len(const_res) :]
            _, args = args[0], args[1:]
            dcs, dxs, rows = args[:n_dc], args[n_dc : n_dc + n_dx], args[n_dc + n_dx :]
            rows, numbers = rows[: len(found["shapes"])], rows[len(found["shapes"]) :]
            for count, n in zip(found["counts"], numbers, strict=True):
                bind(AsExtent(count), n)
            a = iter(fixed)
            b = iter([block_of(row, shape) for row, shape in zip(rows, found["shapes"], strict=True)])
            residuals = [next(a) if c is not None else next(b) for c in const_at]
            given = iter(evaluate_jaxpr(lin, [*dks, *dcs, *dxs, *residuals]))
            dots = [None if z else next(given) for z in zero]
            return [
                zeros_of(w.strong()) if d is None else d
                for d, w, f in zip(dots, self.body.out_avals, live, strict=True)
                if f
            ]

        ins = [v.aval for v in lin.inputs]
        fixed_avals = [a for a, c in zip(res_avals, const_at, strict=True) if c is not None]
        row_avals = [a.with_shape(room_of(a.shape)) for a, c in zip(res_avals, const_at, strict=True) if c is None]
        avals = [
            *ins[:n_dk],
            *fixed_avals,
            ShapedArray((), np.int64),
            *ins[n_dk : n_dk + n_dc],
            *ins[n_dk + n_dc : n_linear],
            *row_avals,
            *[ShapedArray((), np.int64) for _ in found["counts"]],
        ]
        jaxpr = staged_body(linear, [a.strong() for a in avals], "loop")
        some = lambda ts: [t for t in ts if t is not None]  # noqa: E731
        dots = bind(
            evolve(self, body=jaxpr, consts=n_dk + len(const_res), carries=n_dc),
            *some(tk),
            *const_res,
            *some(tc),
            *some(tx),
            *stacked,
        )
        given = iter(dots)
        return list(outs[:n_out]), [next(given) if f else None for f in live]

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        """Of a linear loop: backwards, with the carries' cotangents as carries and those of constants summed."""
        consts, carries, xs = self._split(args)
        nk, nc = len(consts), len(carries)
        lin_k, lin_c, lin_x = ([isinstance(a, UndefinedPrimal) for a in part] for part in (consts, carries, xs))
        if not all(lin_c):
            carries = [c if isinstance(c, UndefinedPrimal) else UndefinedPrimal(aval_of_argument(c)) for c in carries]
            lin_c = [True] * nc
        ct = [
            zeros_of(w) if c is None else c
            for c, w in zip(ct, self.abstract_eval(*[_aval(a) for a in args]), strict=True)
        ]
        ct_c, ct_y = list(ct[:nc]), list(ct[nc:])
        known_k = [a for a, f in zip(consts, lin_k, strict=True) if not f]
        known_x = [a for a, f in zip(xs, lin_x, strict=True) if not f]
        inner = self.body.in_avals
        ka, ca, xa = inner[:nk], inner[nk + 1 : nk + 1 + nc], inner[nk + 1 + nc :]
        flags = [*lin_k, False, *lin_c, *lin_x]
        linear = [v for v, f in zip(self.body.inputs, flags, strict=True) if f]
        others = [v for v, f in zip(self.body.inputs, flags, strict=True) if not f]
        linear_first = Jaxpr(linear + others, self.body.equations, self.body.outputs)
        n_lk = sum(lin_k)

        def body(*args: ArrayLike) -> Sequence[Result]:
            ks, args = args[: len(known_k)], args[len(known_k) :]
            i, args = args[0], args[1:]
            sums, args = args[:n_lk], args[n_lk:]
            cc, args = args[:nc], args[nc:]
            yy, rows = args[: len(ct_y)], args[len(ct_y) :]
            parts = backward_pass(linear_first, [*ks, i, *rows], [*cc, *yy], sum(flags))
            full_parts = [
                zeros_of(v.aval) if p is None else p for p, v in zip(parts, linear_first.inputs, strict=False)
            ]
            new_sums = [add(s, p) for s, p in zip(sums, full_parts[:n_lk], strict=True)]
            return [*new_sums, *full_parts[n_lk : n_lk + nc], *full_parts[n_lk + nc :]]

        pick = lambda avals, on, want: [a.strong() for a, f in zip(avals, on, strict=True) if f is want]  # noqa: E731
        y_avals = [w.strong() for w in self.body.out_avals[nc:]]
        avals = [
            *pick(ka, lin_k, False),
            ShapedArray((), np.int64),
            *pick(ka, lin_k, True),
            *[a.strong() for a in ca],
            *y_avals,
            *pick(xa, lin_x, False),
        ]
        jaxpr = staged_body(body, avals, "loop")
        zeros = [zeros_of(a) for a in pick(ka, lin_k, True)]
        new = evolve(self, body=jaxpr, consts=len(known_k), carries=n_lk + nc, reverse=not self.reverse)
        outs = bind(new, *known_k, *zeros, *ct_c, *ct_y, *known_x)
        k_cts, c_cts, x_cts = iter(outs[:n_lk]), outs[n_lk : n_lk + nc], iter(outs[n_lk + nc :])
        return [*[next(k_cts) if f else None for f in lin_k], *c_cts, *[next(x_cts) if f else None for f in lin_x]]

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int | None]]:
        consts, carries, xs = self._split(args)
        dk, dc, dx = self._split(dims)
        nc = len(carries)
        consts = [move_to_front(x, d) for x, d in zip(consts, dk, strict=True)]
        kd = [0 if d is not None else None for d in dk]
        xd = [0 if d is not None else None for d in dx]
        xs = [_second(x, d) for x, d in zip(xs, dx, strict=True)]
        on = self._batched_outputs(kd, [d is not None for d in dc], xd)
        part = [] if (taking := taking_part()) is None else [taking]
        if part:  # what functions of Python's give depends on it
            on = [True] * len(on)
        carries = [spread(x, d, size) if f else x for x, d, f in zip(carries, dc, on, strict=False)]
        cd = [0 if f else None for f in on[:nc]]

        def body(*a: ArrayLike) -> Sequence[Result]:
            taking, a = (a[0], a[1:]) if part else (None, a)
            outs = batch_function(lambda *z: evaluate_jaxpr(self.body, z), a, [*kd, None, *cd, *xd], size, taking)
            return [o if f else _first(o) for o, f in zip(outs, on, strict=True)]

        consts = [*part, *consts]
        avals = [aval_of_argument(x).strong() for x in consts]
        rows = [ShapedArray(shape_of(x)[1:], aval_of_argument(x).dtype) for x in xs]
        jaxpr = staged_body(
            body, [*avals, ShapedArray((), np.int64), *[aval_of_argument(c).strong() for c in carries], *rows], "loop"
        )
        outs = bind(evolve(self, body=jaxpr, consts=len(consts)), *consts, *carries, *xs)
        axes = [0 if f else None for f in on[:nc]] + [1 if f else None for f in on[nc:]]
        return outs, axes

    def _batched_outputs(self, kd: Sequence[ArrayLike], carry_on: list[bool], xd: Sequence[ArrayLike]) -> list[bool]:
        def outs(now: list[bool]) -> list[bool]:
            on = [*[d is not None for d in kd], False, *now, *[d is not None for d in xd]]
            return dependent_outputs(self.body, on)

        carry = fixpoint(carry_on, lambda now: outs(now)[: self.carries])
        return [*carry, *outs(carry)[self.carries :]]


def _where(values: Sequence[Any], on: Sequence[bool]) -> list[Any]:
    return [v for v, f in zip(values, on, strict=True) if f]


def _aval(x: ArrayLike) -> ShapedArray:
    return x.aval if isinstance(x, UndefinedPrimal) else aval_of_argument(x)


def _same_value(a: ArrayLike, r: ArrayLike) -> bool:
    return a is r or (
        isinstance(a, Tracer) and isinstance(r, Tracer) and a.interpreter is r.interpreter and a.value is r.value
    )


def _row(x: ArrayLike, i: ArrayLike) -> Result:
    shape = shape_of(x)
    rest = shape[1:]
    return reshape(dynamic_slice(x, (i, *[np.int64(0)] * len(rest)), (1, *rest)), rest)


def _put_row(y: ArrayLike, row: ArrayLike, i: ArrayLike) -> Result:
    rest = shape_of(y)[1:]
    return dynamic_update_slice(y, reshape(row, (1, *rest)), (i, *[np.int64(0)] * len(rest)))


def _second(x: ArrayLike, axis: int | None) -> Result:
    """The mapped axis second, behind the loop's own."""
    if axis is None or axis == 1:
        return x
    order = [d for d in range(len(shape_of(x))) if d != axis]
    return transpose(x, (order[0], axis, *order[1:]))


def _first(x: ArrayLike) -> Result:
    """Element 0 of a value that is the same for all of the mapped axis."""
    rest = shape_of(x)[1:]
    return reshape(dynamic_slice(x, [np.int64(0)] * (len(rest) + 1), (1, *rest)), rest)
