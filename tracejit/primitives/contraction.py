"""Sums of products over shared axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracejit.ir.builder import make_lambda
from tracejit.ir.extents import Extent, has_index, is_empty, prod, surely_at_most
from tracejit.ir.forms import Contract, Expand, Form, FormBuilder, Operand, Reduce
from tracejit.ir.kernel import Const
from tracejit.ir.primitive import Primitive
from tracejit.ir.scalar import is_complex, is_float
from tracejit.ir.types import ShapedArray
from tracejit.primitives.reduction import wider
from tracejit.primitives.shape import transpose
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of

__all__ = ["DotGeneral", "dot_general"]

_FEW = 4096  # products of complex numbers that are computed as such; more are products of their parts


@frozen(eq=False)
class DotGeneral(Primitive):
    """The sum of products over `contract` axes, for each index of `batch` axes.

    x: [..], y: [..]; contract and batch name pairs of axes (those of x, those of y) -> [*batch, *free of x, *free of
    y]. Floating-point sums are of fused multiply-adds; float16 accumulates in float32.
    Source: XLA DotGeneral.
    """

    name = "dot_general"
    contract: tuple[tuple[int, ...], tuple[int, ...]]
    batch_axes: tuple[tuple[int, ...], tuple[int, ...]]

    def _free(self, ranks: tuple[int, int]) -> tuple[list[int], list[int]]:
        x = [d for d in range(ranks[0]) if d not in self.contract[0] and d not in self.batch_axes[0]]
        y = [d for d in range(ranks[1]) if d not in self.contract[1] and d not in self.batch_axes[1]]
        return x, y

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        x, y = avals
        if x.dtype != y.dtype:
            raise DtypeError(f"[{self.name}] operands differ in dtype: {x} and {y}")
        for what, (a, b) in (("contracted", self.contract), ("batch", self.batch_axes)):
            for i, j in zip(a, b, strict=True):
                if x.shape[i] != y.shape[j]:
                    raise ShapeError(
                        f"[{self.name}] {what} axes differ: axis {i} of {x} is {x.shape[i]}, axis {j} of {y} is "
                        f"{y.shape[j]}"
                    )
        for d in self.contract[0]:
            # symbolic ones are to be surely not: kernels of products add to what the first part of a sum has stored
            if not has_index(x.shape[d]):
                is_empty(x.shape[d])
        fx, fy = self._free((x.ndim, y.ndim))
        return ShapedArray(
            (*[x.shape[d] for d in self.batch_axes[0]], *[x.shape[d] for d in fx], *[y.shape[d] for d in fy]), x.dtype
        )

    def impl(self, *args: ArrayLike) -> Result:
        x, y = map(np.asarray, args)
        fx, fy = self._free((x.ndim, y.ndim))
        a = np.transpose(x, (*self.batch_axes[0], *fx, *self.contract[0]))
        b = np.transpose(y, (*self.batch_axes[1], *self.contract[1], *fy))
        nb = len(self.batch_axes[0])
        batch = a.shape[:nb]
        k = int(np.prod([x.shape[d] for d in self.contract[0]], dtype=np.int64))
        m, n = (
            int(np.prod(s, dtype=np.int64)) for s in (a.shape[nb : nb + len(fx)], b.shape[nb + len(self.contract[1]) :])
        )
        wide = np.float32 if x.dtype == np.float16 else x.dtype
        out = np.matmul(a.reshape(*batch, m, k).astype(wide), b.reshape(*batch, k, n).astype(wide))
        shape = (*batch, *[x.shape[d] for d in fx], *[y.shape[d] for d in fy])
        return out.reshape(shape).astype(x.dtype)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        x, y = operands
        fx, fy = self._free((len(x.shape), len(y.shape)))
        nb, nm = len(self.batch_axes[0]), len(fx)
        domain = b.out_avals[0].shape
        over = tuple(x.shape[d] for d in self.contract[0])
        roles: list[list[tuple[str, int]]] = []
        for axes, shared, free, letter in (
            (len(x.shape), (self.batch_axes[0], self.contract[0]), fx, "m"),
            (len(y.shape), (self.batch_axes[1], self.contract[1]), fy, "n"),
        ):
            role: list[tuple[str, int]] = []
            for d in range(axes):
                if d in shared[0]:
                    role.append(("b", shared[0].index(d)))
                elif d in shared[1]:
                    role.append(("k", shared[1].index(d)))
                else:
                    role.append((letter, free.index(d)))
            roles.append(role)
        offset = {"b": 0, "m": nb, "n": nb + nm, "k": len(domain)}
        wide = wider(x.dtype)
        if is_complex(wide) and not surely_at_most(prod((*domain, *over)), _FEW):
            return Expand(self._by_parts)

        def body(p: Sequence[ArrayLike]) -> Result:
            u = x[tuple(p[offset[r] + k] for r, k in roles[0])]
            v = y[tuple(p[offset[r] + k] for r, k in roles[1])]
            return b.op("convert", u, dtype=wide), b.op("convert", v, dtype=wide)

        def step(r: ArrayLike, acc: ArrayLike, u: ArrayLike, v: ArrayLike) -> Result:
            if is_float(wide) and b.fuses():
                return r.op("fma", u, v, acc)
            return r.op("or", acc, r.op("and", u, v)) if wide == "bool" else r.op("add", acc, r.op("mul", u, v))

        joined = b.combiner([wide], lambda r, acc, e: r.op("or" if wide == "bool" else "add", acc[0], e[0]))
        finish = None if wide == x.dtype else make_lambda([wide], lambda r, acc: r.op("convert", acc, dtype=x.dtype))
        elements, init, fold = b.body(len(domain) + len(over), body), (Const(0, wide),), make_lambda([wide] * 3, step)
        if not all(surely_at_most(1, n) for n in over):
            return Reduce(domain, over, elements, init, joined, finish, fold)
        return Contract(
            domain, over, elements, init, joined, finish, fold, tuple(roles[0]), tuple(roles[1]), (nb, nm, len(fy))
        )

    def _by_parts(self, x: ArrayLike, y: ArrayLike) -> Result:
        """Of complex numbers: four products of their parts."""
        from tracejit.primitives.complex_numbers import imag, make_complex, real
        from tracejit.primitives.elementwise import add, sub

        (a, b), (c, d) = (real(x), imag(x)), (real(y), imag(y))
        first = sub(bind(self, a, c), bind(self, b, d))
        return make_complex(first, add(bind(self, a, d), bind(self, b, c)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        from tracejit.primitives.elementwise import add

        (x, y), (s, t) = primals, tangents
        out = bind(self, x, y)
        parts = [
            p
            for p in (None if s is None else bind(self, s, y), None if t is None else bind(self, x, t))
            if p is not None
        ]
        return out, None if not parts else (parts[0] if len(parts) == 1 else add(*parts))

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, y = args
        rank_x, rank_y = len(shape_of(x)), len(shape_of(y))
        fx, fy = self._free((rank_x, rank_y))
        nb = len(self.batch_axes[0])
        batch = tuple(range(nb))
        if isinstance(x, UndefinedPrimal):
            # ct[b, m, n] with y over n gives [b, m, k in y's order]; then back to x's axes.
            part = dot_general(
                ct, y, (tuple(range(nb + len(fx), nb + len(fx) + len(fy))), tuple(fy)), (batch, self.batch_axes[1])
            )
            kept = sorted(self.contract[1])
            order = [*self.batch_axes[0], *fx, *[self.contract[0][self.contract[1].index(k)] for k in kept]]
            return [transpose(part, [order.index(d) for d in range(rank_x)]), None]
        part = dot_general(x, ct, (tuple(fx), tuple(range(nb, nb + len(fx)))), (self.batch_axes[0], batch))
        # part: [b, k in x's order, n]
        kept = sorted(self.contract[0])
        order = [*self.batch_axes[1], *[self.contract[1][self.contract[0].index(k)] for k in kept], *fy]
        return [None, transpose(part, [order.index(d) for d in range(rank_y)])]

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        x, y = (move_to_front(a, d) for a, d in zip(args, dims, strict=True))
        (ca, cb), (ba, bb) = self.contract, self.batch_axes
        up = lambda axes: tuple(a + 1 for a in axes)  # noqa: E731
        if dims[0] is not None and dims[1] is not None:
            return bind(DotGeneral((up(ca), up(cb)), ((0, *up(ba)), (0, *up(bb)))), x, y), 0
        if dims[0] is not None:  # the mapped axis is the first free one of x
            return bind(DotGeneral((up(ca), cb), (up(ba), bb)), x, y), len(ba)
        free = len(self._free((len(shape_of(x)), len(shape_of(y)) - 1))[0])
        return bind(DotGeneral((ca, up(cb)), (ba, up(bb))), x, y), len(ba) + free


def dot_general(
    x: ArrayLike,
    y: ArrayLike,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Result:
    """Contract x with y over pairs of axes, mapping over pairs of batch axes."""
    return bind(DotGeneral((tuple(contract[0]), tuple(contract[1])), (tuple(batch[0]), tuple(batch[1]))), x, y)
