"""Loops and branches whose bodies are jaxprs: `while`, `loop` (a counted loop, with scanned inputs and outputs),
`cond`.

A body over scalars becomes part of one kernel: a loop of scalars runs in registers, and mapped over axes (`domain`, by
vmap) it is one loop per element, which ends when that element is done.  All others are loops of the program around
kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.forms import Form, FormBuilder, Loop as LoopForm, Operand
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.kernel import index_const
from tracejit.ir.passes.scalarize import is_scalar_program, run_scalars
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import Extent, Shape, ShapedArray
from tracejit.primitives.creation import full
from tracejit.primitives.elementwise import convert, select
from tracejit.primitives.indexing import dynamic_slice, dynamic_update_slice
from tracejit.primitives.shape import broadcast_in_dim, reshape, transpose
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.batch import batch as batch_function, move_to_front
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp as jvp_function
from tracejit.tracer.linearize import evaluate_jaxpr, linearize
from tracejit.tracer.operators import ARITHMETIC, OPERATORS
from tracejit.tracer.stage import aval_of_argument, stage
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transpose import UndefinedPrimal, backward_pass, shape_of

__all__ = ["Cond", "Loop", "While"]


def _staged(function: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str) -> Jaxpr:
    """The jaxpr of a rule's function; rules capture nothing."""
    result = stage(function, avals)
    if result.constants:
        raise AssertionError(f"[{name}] a rule captured a value")
    return result.jaxpr


def _differentiable(aval: ShapedArray) -> bool:
    return aval.dtype.kind == "f"


def _linearizing(tangents: Sequence[ArrayLike]) -> bool:
    """Whether tangents are being recorded apart from primals (by linearize)."""
    return any(isinstance(t, Tracer) and t.interpreter.partial for t in tangents)


def _described(aval: ShapedArray) -> str:
    """A Python number by the name of its type, an array by dtype and shape."""
    return f"a Python {_PYTHON_TYPES[aval.dtype.kind]}" if aval.weak and not aval.shape else str(aval)


_PYTHON_TYPES = {"b": "bool", "i": "int", "f": "float"}


def _zeros(aval: ShapedArray) -> Result:
    return full(aval.shape, aval.dtype.type(0))


def _zero_tangent(x: ArrayLike) -> Result:
    return _zeros(aval_of_argument(x))


def _spread(x: ArrayLike, axis: int | None, size: Extent) -> Result:
    if axis is not None:
        return move_to_front(x, axis)
    shape = shape_of(x)
    return broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))


def _scalar_operands(
    operands: Sequence[Operand], avals: Sequence[ShapedArray], mapped: Sequence[bool], index: Sequence[IndexLike]
) -> list[Result]:
    """Operands as scalar arguments for one element of the domain:
    scalars read at it, arrays as functions that read them.
    """
    out: list[Any] = []
    for x, aval, m in zip(operands, avals, mapped, strict=True):
        at = tuple(index) if m else ()
        if not aval.shape:
            out.append(x[at])
        elif all(isinstance(n, int) and n == 1 for n in aval.shape):
            out.append(x[(*at, *[index_const(0)] * len(aval.shape))])
        else:
            out.append(lambda inner, x=x, at=at: x[(*at, *inner)])
    return out


# -- while -------------------------------------------------------------------------------------------------------------
@frozen(eq=False)
class While(Primitive):
    """`while cond(consts, carries): carries = body(consts, carries)`.

    Operands: cond_consts, body_consts, carries -> carries.  cond: Jaxpr -> bool[]; body: Jaxpr -> avals of the carries.
    domain: axes one such loop per element is mapped over; mapped[k] says whether operand k has these axes in front.
    """

    name = "while"
    multiple_results = True
    cond: Jaxpr
    body: Jaxpr
    cond_consts: int
    body_consts: int
    domain: Shape = ()
    mapped: tuple[bool, ...] = ()

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
                    f"[while] carry {k} is {_described(c)} before and {_described(w)} after an iteration; "
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

    def per_element(self) -> bool:
        """Whether one loop can live inside a kernel."""
        carries = self.body.out_avals
        return all(not c.shape for c in carries) and is_scalar_program(self.cond) and is_scalar_program(self.body)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        mapped = self.mapped or (False,) * len(operands)
        if not self.per_element():
            if self.domain:
                raise UnsupportedError("[while] a mapped loop whose body is not a scalar program")
            return LoopForm(
                "while", (self.cond, self.body), (("cond_consts", self.cond_consts), ("body_consts", self.body_consts))
            )
        inner = (*self.cond.in_avals[: self.cond_consts], *self.body.in_avals)

        def element(i: Sequence[ArrayLike]) -> Result:
            args = _scalar_operands(operands, inner, mapped, i)
            cond_consts, body_consts, carries = self._split(args)
            r = b.recorder()
            return r.while_loop(
                carries,
                lambda c: run_scalars(r, self.cond, [*cond_consts, *c])[0],
                lambda c: run_scalars(r, self.body, [*body_consts, *c]),
            )

        return b.map(self.domain, element)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        if all(t is None for t in tangents):
            outs = bind(self, *primals)
            return outs, [None] * len(outs)
        if _linearizing(tangents):
            raise UnsupportedError(
                "a loop whose number of iterations is not known while tracing has no reverse-mode derivative; use "
                "tj.range, "
                "tj.lax.fori_loop or tj.lax.scan with a constant count, or forward mode (tj.jvp)"
            )
        if self.domain:
            raise UnsupportedError("the derivative of a loop mapped by vmap: take the derivative first, vmap(jvp(f))")
        _, body_consts, carries = self._split(primals)
        _, body_tangents, carry_tangents = self._split(tangents)
        outs = self.body.out_avals
        live = _fixpoint(
            [t is not None for t in carry_tangents],
            lambda on: _tangents_out(self.body, [t is not None for t in body_tangents], on, 0),
        )
        dots = [
            _zero_tangent(c) if t is None else t for c, t, on in zip(carries, carry_tangents, live, strict=True) if on
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
                *[_zero_tangent(p) if d is None else d for p, d, on in zip(new, dnew, live, strict=True) if on],
            ]

        dot_avals = [o for o, on in zip(outs, live, strict=True) if on]
        const_dot_avals = [a for a, t in zip(self.body.in_avals, body_tangents, strict=False) if t is not None]
        new_body = _staged(body, [*self.body.in_avals[:nb], *const_dot_avals, *outs, *dot_avals], "while")
        nk = self.cond_consts

        def cond(*args: ArrayLike) -> Sequence[Result]:
            return evaluate_jaxpr(self.cond, args[: nk + nc])

        new_cond = _staged(cond, [*self.cond.in_avals, *dot_avals], "while")
        results = bind(
            While(new_cond, new_body, nk, nb + len(const_dots)), *primals[: nk + nb], *const_dots, *carries, *dots
        )
        rest = iter(results[nc:])
        return list(results[:nc]), [next(rest) if on else None for on in live]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, Result]:
        if self.per_element():
            mapped = tuple(d is not None for d in dims)
            rank = len(self.domain)
            old = self.mapped or (False,) * len(args)
            new_args: list[Any] = []
            flags: list[bool] = []
            for a, d, was, now in zip(args, dims, old, mapped, strict=True):
                x = move_to_front(a, d)
                if now and not was and rank:
                    shape = shape_of(x)
                    x = broadcast_in_dim(x, (size, *self.domain, *shape[1:]), (0, *range(1 + rank, len(shape) + rank)))
                elif was and not now:
                    x = _spread(x, None, size)
                new_args.append(x)
                flags.append(was or now)
            outs = bind(
                While(self.cond, self.body, self.cond_consts, self.body_consts, (size, *self.domain), tuple(flags)),
                *new_args,
            )
            return outs, [0] * len(outs)
        return self._batch_masked(args, dims, size)

    def _batch_masked(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[Result, Result]:
        """All elements run until the last is done; those that are done keep their carries."""
        if self.domain:
            raise UnsupportedError("[while] a nested mapped loop whose body is not a scalar program")
        cond_consts, body_consts, carries = self._split(args)
        cond_dims, body_dims, carry_dims = self._split(dims)
        nk, nb, nc = len(cond_consts), len(body_consts), len(carries)
        cond_consts = [move_to_front(x, d) for x, d in zip(cond_consts, cond_dims, strict=True)]
        body_consts = [move_to_front(x, d) for x, d in zip(body_consts, body_dims, strict=True)]
        carries = [_spread(x, d, size) for x, d in zip(carries, carry_dims, strict=True)]
        kd = [0 if d is not None else None for d in cond_dims]
        bd = [0 if d is not None else None for d in body_dims]

        def tests(consts: Sequence[ArrayLike], c: Sequence[ArrayLike]) -> Result:
            return batch_function(lambda *a: evaluate_jaxpr(self.cond, a), [*consts, *c], [*kd, *[0] * nc])[0]

        def cond(*a: ArrayLike) -> Sequence[Result]:
            return [OPERATORS.reduce_any(tests(a[:nk], a[nk:]), (0,))]

        def body(*a: ArrayLike) -> Sequence[Result]:
            ck, cb, c = a[:nk], a[nk : nk + nb], a[nk + nb :]
            on = tests(ck, c)
            new = batch_function(lambda *x: evaluate_jaxpr(self.body, x), [*cb, *c], [*bd, *[0] * nc])
            return [select(broadcast_in_dim(on, shape_of(n), (0,)), n, o) for n, o in zip(new, c, strict=True)]

        ka = [aval_of_argument(x) for x in cond_consts]
        ba = [aval_of_argument(x) for x in body_consts]
        ca = [aval_of_argument(x).strong() for x in carries]
        new = While(_staged(cond, [*ka, *ca], "while"), _staged(body, [*ka, *ba, *ca], "while"), nk, nk + nb)
        outs = bind(new, *cond_consts, *cond_consts, *body_consts, *carries)
        return outs, [0] * len(outs)


def _fixpoint(start: list[bool], step: Callable[[list[bool]], list[bool]]) -> list[bool]:
    """The least superset of `start` that an iteration maps into itself."""
    on = start
    while True:
        more = [a or b for a, b in zip(on, step(on), strict=True)]
        if more == on:
            return on
        on = more


def _tangents_out(body: Jaxpr, const_on: Sequence[bool], carry_on: Sequence[bool], skip: int) -> list[bool]:
    """Which outputs of a body have tangents when these inputs have: by dependence through floating-point values."""
    live = {v for v, on in zip(body.inputs[: len(const_on)], const_on, strict=True) if on}
    live |= {v for v, on in zip(body.inputs[len(const_on) + skip :], carry_on, strict=False) if on}
    for e in body.equations:
        if any(a in live for a in e.inputs):
            live |= {v for v in e.outputs if _differentiable(v.aval)}
    return [a in live for a in body.outputs]


# -- counted loops -----------------------------------------------------------------------------------------------------
@frozen(eq=False)
class Loop(Primitive):
    """A counted loop: `for i in range(count): carries, y[i] = body(consts, i, carries, x[i])`;
    from the last i with `reverse`.

    Operands: consts, carries, xs (leading axis `count`) -> carries, ys (leading axis `count`).
    body: Jaxpr of (consts..., i: i64[], carries..., slices of xs...) -> (carries..., slices of ys...).
    """

    name = "loop"
    multiple_results = True
    body: Jaxpr
    count: Extent
    consts: int
    carries: int
    reverse: bool = False

    def _split(self, args: Sequence[ArrayLike]) -> tuple[list[Result], list[Result], list[Result]]:
        a, b = self.consts, self.consts + self.carries
        return list(args[:a]), list(args[a:b]), list(args[b:])

    def abstract_eval(self, *avals: ShapedArray) -> Result:
        _, carries, xs = self._split(avals)
        outs = self.body.out_avals
        for k, (c, w) in enumerate(zip(carries, outs, strict=False)):
            if c.shape != w.shape or c.dtype != w.dtype:
                raise ShapeError(
                    f"[loop] carry {k} is {_described(c)} before and {_described(w)} after an iteration; "
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
            out = evaluate_jaxpr(self.body, [*consts, np.int64(i), *carries, *[x[i] for x in xs]])
            carries = out[: self.carries]
            for y, o in zip(ys, out[self.carries :], strict=True):
                y.append(o)
        outs = [np.asarray(c, a.dtype) for c, a in zip(carries, self.body.out_avals, strict=False)]
        for y, a in zip(ys, self.body.out_avals[self.carries :], strict=True):
            stacked = np.stack(y[::-1] if self.reverse else y) if y else np.zeros((0, *a.shape), a.dtype)  # type: ignore[arg-type]
            outs.append(stacked)
        return outs

    def per_element(self) -> bool:
        return (
            len(self.body.outputs) == self.carries
            and all(not w.shape for w in self.body.out_avals)
            and is_scalar_program(self.body)
        )

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        consts, carries, xs = self._split(operands)
        if self.per_element() and all(len(x.shape) == 1 for x in xs):
            return b.map((), lambda _: self._scalar_loop(b, consts, carries, xs))
        return self._program_loop([x.aval for x in operands])

    def _scalar_loop(
        self, b: FormBuilder, consts: Sequence[Operand], carries: Sequence[Operand], xs: Sequence[Operand]
    ) -> Result:
        r = b.recorder()
        values = _scalar_operands(consts, [x.aval for x in consts], [False] * len(consts), ())

        def once(k: ArrayLike, c: Sequence[ArrayLike]) -> Result:
            i = b.op("sub", index_const(self.count - 1), k) if self.reverse else k
            return run_scalars(r, self.body, [*values, i, *c, *[x[i] for x in xs]])

        return r.loop(index_const(self.count), [c[()] for c in carries], once)

    def _program_loop(self, avals: Sequence[ShapedArray]) -> Form:
        """The loop around kernels: the index and the outputs become carries, scanned inputs are sliced inside."""
        consts, carries, xs = self._split(avals)
        ys = [ShapedArray((self.count, *w.shape), w.dtype) for w in self.body.out_avals[self.carries :]]
        nk, nc, nx = len(consts), len(carries), len(xs)

        def body(*args: ArrayLike) -> Sequence[Result]:
            ks, xa, step, cs, ya = (
                args[:nk],
                args[nk : nk + nx],
                args[nk + nx],
                args[nk + nx + 1 : nk + nx + 1 + nc],
                args[nk + nx + 1 + nc :],
            )
            i = ARITHMETIC["sub"](OPERATORS.extent(self.count - 1), step) if self.reverse else step
            rows = [_row(x, i) for x in xa]
            out = evaluate_jaxpr(self.body, [*ks, i, *cs, *rows])
            new_ys = [_put_row(y, o, i) for y, o in zip(ya, out[nc:], strict=True)]
            return [OPERATORS.raw_add(step, np.int64(1)), *out[:nc], *new_ys]

        index = ShapedArray((), np.int64)
        jaxpr = _staged(body, [*consts, *xs, index, *[c.strong() for c in carries], *ys], "loop")
        return LoopForm(
            "for",
            (jaxpr,),
            (("consts", nk), ("scanned", nx), ("carries", nc), ("stacked", len(ys)), ("count", self.count)),
        )

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        if all(t is None for t in tangents):
            outs = bind(self, *primals)
            return outs, [None] * len(outs)
        live_in = [t is not None for t in tangents]
        live = self._live(live_in)
        if _linearizing(tangents):
            return self._linearized(primals, tangents, live)
        return self._fused_jvp(primals, tangents, live)

    def _live(self, on: Sequence[bool]) -> list[bool]:
        """Which outputs have tangents."""
        k, c, x = self._split(on)

        def outs(carry_on: list[bool]) -> list[bool]:
            live = {v for v, f in zip(self.body.inputs, [*k, False, *carry_on, *x], strict=True) if f}
            for e in self.body.equations:
                if any(a in live for a in e.inputs):
                    live |= {v for v in e.outputs if _differentiable(v.aval)}
            return [a in live for a in self.body.outputs]

        carry_on = _fixpoint(c, lambda now: outs(now)[: self.carries])
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
                (_zero_tangent(c) if t is None else t) if on else None
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
            ts = [*_place(dks, on_k), None, *_place(dcs, on_c), *_place(drows, on_x)]
            new, dnew = jvp_function(lambda *a: evaluate_jaxpr(self.body, a), [*ks, i, *cs, *rows], ts)
            dots = [_zero_tangent(p) if d is None else d for p, d, f in zip(new, dnew, live, strict=True) if f]
            n_live = sum(live[:nc])
            return [*new[:nc], *dots[:n_live], *new[nc:], *dots[n_live:]]

        inner = self.body.in_avals
        ka, ia, ca, xa = inner[:nk], inner[nk], inner[nk + 1 : nk + 1 + nc], inner[nk + 1 + nc :]
        pick = lambda avals, on: [a.strong() for a, f in zip(avals, on, strict=True) if f]  # noqa: E731
        jaxpr = _staged(body, [*ka, *pick(ka, on_k), ia, *ca, *pick(ca, on_c), *xa, *pick(xa, on_x)], "loop")
        new = Loop(jaxpr, self.count, nk + n_dk, nc + n_dc, self.reverse)
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
            return [*lin.outputs, *[r for r, c in zip(lin.residuals, found["consts"], strict=True) if c is None]]

        fw = _staged(forward, [a.strong() for a in self.body.in_avals], "loop")
        outs = bind(Loop(fw, self.count, nk, nc, self.reverse), *consts, *carries, *xs)
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
            a, b = iter(fixed), iter(rows)
            residuals = [next(a) if c is not None else next(b) for c in const_at]
            given = iter(evaluate_jaxpr(lin, [*dks, *dcs, *dxs, *residuals]))
            dots = [None if z else next(given) for z in zero]
            return [
                _zeros(w.strong()) if d is None else d
                for d, w, f in zip(dots, self.body.out_avals, live, strict=True)
                if f
            ]

        ins = [v.aval for v in lin.inputs]
        fixed_avals = [a for a, c in zip(res_avals, const_at, strict=True) if c is not None]
        row_avals = [a for a, c in zip(res_avals, const_at, strict=True) if c is None]
        avals = [
            *ins[:n_dk],
            *fixed_avals,
            ShapedArray((), np.int64),
            *ins[n_dk : n_dk + n_dc],
            *ins[n_dk + n_dc : n_linear],
            *row_avals,
        ]
        jaxpr = _staged(linear, [a.strong() for a in avals], "loop")
        some = lambda ts: [t for t in ts if t is not None]  # noqa: E731
        dots = bind(
            Loop(jaxpr, self.count, n_dk + len(const_res), n_dc, self.reverse),
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
            _zeros(w) if c is None else c
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
            full_parts = [_zeros(v.aval) if p is None else p for p, v in zip(parts, linear_first.inputs, strict=False)]
            new_sums = [OPERATORS.raw_add(s, p) for s, p in zip(sums, full_parts[:n_lk], strict=True)]
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
        jaxpr = _staged(body, avals, "loop")
        zeros = [_zeros(a) for a in pick(ka, lin_k, True)]
        new = Loop(jaxpr, self.count, len(known_k), n_lk + nc, not self.reverse)
        outs = bind(new, *known_k, *zeros, *ct_c, *ct_y, *known_x)
        k_cts, c_cts, x_cts = iter(outs[:n_lk]), outs[n_lk : n_lk + nc], iter(outs[n_lk + nc :])
        return [*[next(k_cts) if f else None for f in lin_k], *c_cts, *[next(x_cts) if f else None for f in lin_x]]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, Result]:
        consts, carries, xs = self._split(args)
        dk, dc, dx = self._split(dims)
        nk, nc = len(consts), len(carries)
        consts = [move_to_front(x, d) for x, d in zip(consts, dk, strict=True)]
        kd = [0 if d is not None else None for d in dk]
        xd = [0 if d is not None else None for d in dx]
        xs = [_second(x, d) for x, d in zip(xs, dx, strict=True)]
        on = self._batched_outputs(kd, [d is not None for d in dc], xd)
        carries = [_spread(x, d, size) if f else x for x, d, f in zip(carries, dc, on, strict=False)]
        cd = [0 if f else None for f in on[:nc]]

        def body(*a: ArrayLike) -> Sequence[Result]:
            outs = batch_function(lambda *z: evaluate_jaxpr(self.body, z), a, [*kd, None, *cd, *xd])
            return [o if f else _first(o) for o, f in zip(outs, on, strict=True)]

        avals = [aval_of_argument(x).strong() for x in (*consts,)]
        rows = [ShapedArray(shape_of(x)[1:], aval_of_argument(x).dtype) for x in xs]
        jaxpr = _staged(
            body, [*avals, ShapedArray((), np.int64), *[aval_of_argument(c).strong() for c in carries], *rows], "loop"
        )
        outs = bind(Loop(jaxpr, self.count, nk, nc, self.reverse), *consts, *carries, *xs)
        axes = [0 if f else None for f in on[:nc]] + [1 if f else None for f in on[nc:]]
        return outs, axes

    def _batched_outputs(self, kd: Sequence[ArrayLike], carry_on: list[bool], xd: Sequence[ArrayLike]) -> list[bool]:
        def outs(now: list[bool]) -> list[bool]:
            live = {
                v
                for v, f in zip(
                    self.body.inputs,
                    [*[d is not None for d in kd], False, *now, *[d is not None for d in xd]],
                    strict=True,
                )
                if f
            }
            for e in self.body.equations:
                if any(a in live for a in e.inputs):
                    live.update(e.outputs)
            return [a in live for a in self.body.outputs]

        carry = _fixpoint(carry_on, lambda now: outs(now)[: self.carries])
        return [*carry, *outs(carry)[self.carries :]]


def _aval(x: ArrayLike) -> ShapedArray:
    return x.aval if isinstance(x, UndefinedPrimal) else aval_of_argument(x)


def _same_value(a: ArrayLike, r: ArrayLike) -> bool:
    return a is r or (
        isinstance(a, Tracer) and isinstance(r, Tracer) and a.interpreter is r.interpreter and a.value is r.value
    )


def _place(given: Sequence[ArrayLike], on: Sequence[bool]) -> list[Result]:
    it = iter(given)
    return [next(it) if f else None for f in on]


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


# -- branches ----------------------------------------------------------------------------------------------------------
@frozen(eq=False)
class Cond(Primitive):
    """`branches[1](*operands) if flag else branches[0](*operands)`.   flag: bool[], operands -> results

    domain: axes it is mapped over element by element; mapped[k] says whether operand k (the flag is 0) has them.
    """

    name = "cond"
    multiple_results = True
    branches: tuple[Jaxpr, Jaxpr]
    domain: Shape = ()
    mapped: tuple[bool, ...] = ()

    def abstract_eval(self, *avals: ShapedArray) -> Result:
        no, yes = (b.out_avals for b in self.branches)
        for k, (a, c) in enumerate(zip(no, yes, strict=True)):
            if a.shape != c.shape or a.dtype != c.dtype:
                raise ShapeError(
                    f"[cond] result {k} is {_described(c)} in the true branch and {_described(a)} in the false branch; "
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

    def per_element(self) -> bool:
        return all(not a.shape for a in self.branches[0].out_avals) and all(is_scalar_program(b) for b in self.branches)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        if not self.per_element():
            if self.domain:
                raise UnsupportedError("[cond] a mapped branch that is not a scalar program")
            return LoopForm("cond", self.branches)
        mapped = self.mapped or (False,) * len(operands)
        inner = (ShapedArray((), np.bool_), *self.branches[0].in_avals)

        def element(i: Sequence[ArrayLike]) -> Result:
            flag, *args = _scalar_operands(operands, inner, mapped, i)
            r = b.recorder()
            return r.branch(
                flag, lambda: run_scalars(r, self.branches[1], args), lambda: run_scalars(r, self.branches[0], args)
            )

        return b.map(self.domain, element)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        flag, *ops = primals
        dots = list(tangents[1:])
        if all(t is None for t in dots):
            outs = bind(self, *primals)
            return outs, [None] * len(outs)
        if self.domain:
            raise UnsupportedError("the derivative of a branch mapped by vmap: take the derivative first, vmap(jvp(f))")
        on = [t is not None for t in dots]
        live = [a or c for a, c in zip(*(_tangents_out(b, on, [], 0) for b in self.branches), strict=True)]
        if _linearizing(tangents):
            return self._linearized(flag, ops, dots, on, live)
        n = len(ops)

        def branch(body: Jaxpr) -> Jaxpr:
            def run(*args: ArrayLike) -> Sequence[Result]:
                new, dnew = jvp_function(lambda *a: evaluate_jaxpr(body, a), args[:n], _place(args[n:], on))
                return [
                    *new,
                    *[_zero_tangent(p) if d is None else d for p, d, f in zip(new, dnew, live, strict=True) if f],
                ]

            return _staged(
                run, [*body.in_avals, *[a.strong() for a, f in zip(body.in_avals, on, strict=True) if f]], "cond"
            )

        outs = bind(
            Cond((branch(self.branches[0]), branch(self.branches[1]))), flag, *ops, *[t for t in dots if t is not None]
        )
        k = len(self.branches[0].outputs)
        return list(outs[:k]), _place(outs[k:], live)

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

                found["lin"] = linearize(only, [a for a, f in zip(args, on, strict=True) if f])
                return [*found["lin"].outputs, *found["lin"].residuals]

            jaxpr = _staged(forward, [a.strong() for a in body.in_avals], "cond")
            lin = found["lin"]
            linear.append((jaxpr, lin.jaxpr, lin.zero))
            avals.append([v.aval for v in lin.jaxpr.inputs[sum(on) :]])
        k = len(self.branches[0].outputs)

        def with_all(which: int) -> Jaxpr:
            def run(*args: ArrayLike) -> Sequence[Result]:
                out = evaluate_jaxpr(linear[which][0], args)
                blank = [_zeros(a) for a in avals[1 - which]]
                return [*out[:k], *out[k:], *blank] if which == 0 else [*out[:k], *blank, *out[k:]]

            return _staged(run, [a.strong() for a in self.branches[which].in_avals], "cond")

        outs = bind(Cond((with_all(0), with_all(1))), flag, *ops)
        residuals = outs[k:]
        given = [t for t in dots if t is not None]
        dot_avals = [aval_of_argument(t) for t in given]

        def linear_branch(which: int) -> Jaxpr:
            def run(*args: ArrayLike) -> Sequence[Result]:
                ts, rs = args[: len(given)], args[len(given) :]
                own = rs[: len(avals[0])] if which == 0 else rs[len(avals[0]) :]
                out = iter(evaluate_jaxpr(linear[which][1], [*ts, *own]))
                full_out = [None if z else next(out) for z in linear[which][2]]
                return [
                    _zeros(w.strong()) if d is None else d
                    for d, w, f in zip(full_out, self.branches[0].out_avals, live, strict=True)
                    if f
                ]

            return _staged(run, [*dot_avals, *avals[0], *avals[1]], "cond")

        douts = bind(Cond((linear_branch(0), linear_branch(1))), flag, *given, *residuals)
        return list(outs[:k]), _place(douts, live)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        flag, *ops = args
        lin = [isinstance(a, UndefinedPrimal) for a in ops]
        known = [a for a, f in zip(ops, lin, strict=True) if not f]
        cts = [_zeros(w) if c is None else c for c, w in zip(ct, self.branches[0].out_avals, strict=True)]

        def branch(body: Jaxpr) -> Jaxpr:
            linear = [v for v, f in zip(body.inputs, lin, strict=True) if f]
            others = [v for v, f in zip(body.inputs, lin, strict=True) if not f]
            order = Jaxpr(linear + others, body.equations, body.outputs)

            def run(*a: ArrayLike) -> Sequence[Result]:
                parts = backward_pass(order, a[: len(known)], a[len(known) :], sum(lin))
                return [_zeros(v.aval) if p is None else p for p, v in zip(parts, order.inputs, strict=False)]

            return _staged(
                run,
                [
                    *[v.aval for v, f in zip(body.inputs, lin, strict=True) if not f],
                    *[w.strong() for w in body.out_avals],
                ],
                "cond",
            )

        outs = iter(bind(Cond((branch(self.branches[0]), branch(self.branches[1]))), flag, *known, *cts))
        return [None, *[next(outs) if f else None for f in lin]]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, Result]:
        flag, *ops = args
        df, *do = dims
        if df is None and not self.domain:
            moved = [move_to_front(x, d) for x, d in zip(ops, do, strict=True)]
            od = [0 if d is not None else None for d in do]

            def branch(body: Jaxpr) -> Jaxpr:
                return _staged(
                    lambda *a: batch_function(lambda *z: evaluate_jaxpr(body, z), a, od),
                    [aval_of_argument(x).strong() for x in moved],
                    "cond",
                )

            outs = bind(Cond((branch(self.branches[0]), branch(self.branches[1]))), flag, *moved)
            return outs, [0] * len(outs)
        if self.per_element():
            rank = len(self.domain)
            old = self.mapped or (False,) * len(args)
            new_args: list[Any] = []
            flags: list[bool] = []
            for a, d, was in zip(args, dims, old, strict=True):
                x = move_to_front(a, d)
                if d is not None and not was and rank:
                    shape = shape_of(x)
                    x = broadcast_in_dim(x, (size, *self.domain, *shape[1:]), (0, *range(1 + rank, len(shape) + rank)))
                elif was and d is None:
                    x = _spread(x, None, size)
                new_args.append(x)
                flags.append(was or d is not None)
            outs = bind(Cond(self.branches, (size, *self.domain), tuple(flags)), *new_args)
            return outs, [0] * len(outs)
        # Whole arrays per element: both branches run, and each element picks its own.
        test = move_to_front(flag, df)
        moved = [move_to_front(x, d) for x, d in zip(ops, do, strict=True)]
        od = [0 if d is not None else None for d in do]
        both: list[list[Any]] = []
        for body in self.branches:
            if any(d is not None for d in od):
                both.append(batch_function(lambda *z, body=body: evaluate_jaxpr(body, z), moved, od))
            else:
                both.append([_spread(o, None, size) for o in evaluate_jaxpr(body, moved)])
        outs = [select(broadcast_in_dim(test, shape_of(y), (0,)), y, n) for n, y in zip(*both, strict=True)]
        return outs, [0] * len(outs)


def to_flag(x: ArrayLike) -> Result:
    """A condition as a bool scalar."""
    aval = aval_of_argument(x)
    if aval.shape:
        raise ShapeError(
            f"a condition is {aval}, not a scalar; use np.where for elementwise choice, or reduce it with .all() or "
            ".any()"
        )
    return x if aval.dtype == np.bool_ else convert(x, np.bool_)
