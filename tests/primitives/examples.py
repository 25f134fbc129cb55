"""For every primitive, instances and arguments that exercise each of its rules: the table `test_registry` walks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from tracejit.ir.extents import Count
from tracejit.ir.forms import KernelSources
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.primitive import Primitive
from tracejit.ir.types import ShapedArray
from tracejit.primitives import (
    arithmetic,
    bits,
    branch,
    butterflies,
    callback,
    comparison,
    complex_numbers,
    contraction,
    convolution,
    counted_loop,
    creation,
    cumulative,
    custom,
    eigen,
    elementwise,
    float_parts,
    fourier,
    hessenberg,
    hypergeometric,
    implicit,
    indexing,
    integers,
    integrals,
    lu,
    matrix_exponential,
    matrix_root,
    native,
    native_kernel,
    qr,
    radix,
    random,
    reduction,
    schur,
    shape,
    slicing,
    sorting,
    special,
    spectral,
    sylvester,
    transcendental,
    triangular,
    tridiagonal,
    while_loop,
    windows,
)
from tracejit.support.dtypes import complex_dtype
from tracejit.tracer.stage import stage

FLOATS = ("f2", "f4", "f8")
INTS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
COMPLEX = ("c8", "c16")
FIELDS = (*COMPLEX, *FLOATS)
NUMBERS = (*COMPLEX, *FLOATS, *INTS)
ALL = ("?", *NUMBERS)
REAL = ("?", *FLOATS, *INTS)


@frozen
class Array:
    """An operand: `shape`, values in [low, high] where floating-point.  dtype "T" is the example's."""

    shape: tuple[int, ...] = (3, 4)
    dtype: str = "T"
    low: float = -2.0
    high: float = 2.0
    distinct: bool = False

    def make(self, rng: np.random.Generator, dtype: str) -> np.ndarray[Any, Any]:
        kind = np.dtype(dtype if self.dtype == "T" else self.dtype)
        size = int(np.prod(self.shape))
        if kind.kind == "b":
            values = rng.integers(0, 2, size)
        elif kind.kind in "iu":
            low, high = (int(self.low), int(self.high)) if self.dtype != "T" else (0 if kind.kind == "u" else -5, 5)
            values = rng.integers(low, high + 1, size)
        elif self.distinct:
            values = rng.permutation(np.linspace(self.low, self.high, size))
        else:
            values = rng.uniform(self.low, self.high, size)
        if kind.kind == "c":
            values = values + 1j * rng.uniform(self.low, self.high, size)
        return values.reshape(self.shape).astype(kind)


@frozen
class Matrix(Array):
    """Matrices with 1, 2, 3, ... times `diagonal` added on theirs: well conditioned, eigenvalues apart."""

    diagonal: float = 4.0

    def make(self, rng: np.random.Generator, dtype: str) -> np.ndarray[Any, Any]:
        rows, columns = self.shape[-2:]
        heavy = self.diagonal * np.eye(rows, columns) * np.arange(1, rows + 1)[:, None]
        return super().make(rng, dtype) + heavy.astype(dtype)


@frozen
class Table(Array):
    """What a Fourier transform multiplies by: always the same numbers.  kind, n: of `fft_table`."""

    kind: str = "fft"
    n: int = 12

    def make(self, rng: np.random.Generator, dtype: str) -> np.ndarray[Any, Any]:
        return fourier.fft_table(self.kind, self.n, str(complex_dtype(np.dtype(dtype)))).copy()


@frozen
class Example:
    """One instance with arguments.

    close: how far results may be from `impl`: 0 equal bits, "ulp" elementwise in units in the last place, "sum"
    relative to the magnitude of the result, for sums in another order.
    """

    primitive: Primitive | Callable[[np.dtype[Any]], Primitive]
    operands: tuple[Array, ...]
    dtypes: tuple[str, ...] = NUMBERS
    close: str = "equal"
    ulp: int = 5
    units: int = 32  # of rounding, by which sums in another order may differ
    edges: bool = False  # whether the elementwise extremes (infinities, NaN, the least integer) are tried as well
    step: float = 1e-6  # of central differences
    # how far derivatives may be from central differences, and inner products from each other (at most 1e-10)
    near: float = 1e-6

    def instance(self, dtype: str) -> Primitive:
        return self.primitive if isinstance(self.primitive, Primitive) else self.primitive(np.dtype(dtype))

    def arguments(self, dtype: str, seed: int = 0) -> list[np.ndarray[Any, Any]]:
        rng = np.random.default_rng(seed)
        return [o.make(rng, dtype) for o in self.operands]


def _written(fallback: Callable[..., Any], results: int) -> native_kernel.WrittenKernel:
    """A kernel without sources, whose results are like its first operand."""
    sources = KernelSources("f.0", "f", 1, {})
    return native_kernel.WrittenKernel(
        "f", sources, lambda avals: (avals[0].strong(),) * results, lambda avals: (), lambda avals: 1, fallback
    )


_COUNTED = callback.Called(
    "counted",
    lambda x: [np.asarray(np.count_nonzero(x)), np.asarray([x.size > 5, x.ndim == 1])],
    [ShapedArray((), np.dtype(np.int64)), ShapedArray((2,), np.dtype(np.bool_))],
)


def _elementwise() -> dict[str, list[Example]]:
    t = transcendental
    scalar = Array(())
    out: dict[str, list[Example]] = {}

    def unary(
        p: Primitive, low: float, high: float, dtypes: tuple[str, ...] = FLOATS, close: str = "ulp", **more: Any
    ) -> None:
        out[p.name] = [Example(p, (Array(low=low, high=high),), dtypes, close, edges=True, **more)]

    def binary(
        p: Primitive, dtypes: tuple[str, ...], close: str = "equal", a: Array = Array(), b: Array = Array(), **more: Any
    ) -> None:
        out[p.name] = [
            Example(p, (a, b), dtypes, close, edges=True, **more),
            Example(p, (evolve(a, shape=()), b), dtypes[-1:], close, **more),
            Example(p, (a, evolve(b, shape=())), dtypes[-1:], close, **more),
        ]

    for p in (elementwise.Add(), elementwise.Mul()):
        binary(p, ALL[::-1][::-1])
    for p in (elementwise.Sub(),):
        binary(p, (*COMPLEX, *INTS, *FLOATS))
    binary(elementwise.Div(), FIELDS, "ulp", b=Array(low=0.5, high=2.0))
    for p in (arithmetic.FloorDivide(), arithmetic.Remainder()):
        binary(p, (*INTS, *FLOATS), a=Array(low=-9.0, high=9.0), b=Array(low=0.7, high=2.3))
    binary(
        arithmetic.Power(), (*COMPLEX, *INTS, *FLOATS), "ulp", a=Array(low=0.3, high=2.5), b=Array(low=-2.0, high=3.0)
    )
    binary(arithmetic.Maximum(), (*ALL,), a=Array(distinct=True), b=Array(distinct=True, low=-1.7, high=1.9))
    binary(arithmetic.Minimum(), (*ALL,), a=Array(distinct=True), b=Array(distinct=True, low=-1.7, high=1.9))
    binary(t.Atan2(), FLOATS, "ulp", a=Array(low=0.3, high=2.0), b=Array(low=-2.0, high=-0.3))
    binary(arithmetic.Fmod(), FLOATS, "equal", a=Array(low=2.2, high=2.8), b=Array(low=1.2, high=1.8))
    for p in (comparison.Eq(), comparison.Ne(), comparison.Lt(), comparison.Le(), comparison.Gt(), comparison.Ge()):
        binary(p, ALL)
    for p in (comparison.And(), comparison.Or(), comparison.Xor()):
        binary(p, ("?", *INTS))
    for p in (comparison.ShiftLeft(), comparison.ShiftRight(), integers.Gcd(), integers.Lcm()):
        binary(p, INTS)
    binary(float_parts.NextAfter(), FLOATS, a=Array(low=0.5, high=0.9), b=Array(low=1.5, high=1.9))

    unary(elementwise.Neg(), -2, 2, (*COMPLEX, *INTS, *FLOATS), "equal")
    unary(arithmetic.Abs(), 0.2, 2, (*ALL,), "equal")
    unary(arithmetic.Sign(), 0.2, 2, (*COMPLEX, *INTS, *FLOATS), "equal")
    for p in (complex_numbers.Real(), complex_numbers.Imag(), complex_numbers.Conj()):
        unary(p, -2, 2, COMPLEX, "equal")
    binary(complex_numbers.MakeComplex(), ("f4", "f8"))
    unary(comparison.Not(), 0, 1, ("?", *INTS), "equal")
    unary(comparison.IsFinite(), -2, 2, FIELDS, "equal")
    for p in (arithmetic.Floor(), arithmetic.Ceil(), arithmetic.Trunc()):
        unary(p, 0.2, 0.8, FLOATS, "equal")
    unary(arithmetic.Rint(), 0.1, 0.4, FLOATS, "equal")
    unary(t.Sqrt(), 0.3, 3, FIELDS, close="equal")
    unary(float_parts.FrexpFraction(), 0.6, 0.9, FLOATS, "equal")
    unary(float_parts.FrexpExponent(), 0.6, 0.9, FLOATS, "equal")
    for p, low, high in (
        (t.Cbrt(), 0.3, 3), (t.Exp(), -2, 2), (t.Exp2(), -2, 2), (t.Expm1(), -2, 2), (t.Log(), 0.3, 3),
        (t.Log2(), 0.3, 3), (t.Log10(), 0.3, 3), (t.Log1p(), -0.5, 2), (t.Sin(), -2, 2), (t.Cos(), -2, 2),
        (t.Tan(), -1, 1), (t.Asin(), -0.8, 0.8), (t.Acos(), -0.8, 0.8), (t.Atan(), -2, 2), (t.Sinh(), -2, 2),
        (t.Cosh(), -2, 2), (t.Tanh(), -2, 2), (t.Erf(), -2, 2), (t.Asinh(), -2, 2), (t.Acosh(), 1.3, 3),
        (t.Atanh(), -0.8, 0.8),
    ):  # fmt: skip
        unary(p, low, high, FLOATS if isinstance(p, t.Cbrt | t.Erf) else FIELDS)

    flag = Array(dtype="?")
    out["select"] = [
        Example(elementwise.Select(), (flag, Array(), Array()), ALL),
        Example(elementwise.Select(), (Array((), "?"), Array(), Array()), ("f8",)),
        Example(elementwise.Select(), (flag, scalar, Array()), ("f8",)),
        Example(elementwise.Select(), (flag, Array(), scalar), ("f8",)),
    ]
    # Rounding to a narrower type is linear only up to its precision: a large step, and little asked for.
    coarse = {"f2": (0.25, 2e-2), "f4": (0.25, 1e-6), "c8": (0.25, 1e-6)}
    out["convert"] = [
        Example(
            elementwise.Convert(np.dtype(to)),
            (Array(),),
            ALL,
            edges=True,
            step=coarse.get(to, (1e-6, 1e-6))[0],
            near=coarse.get(to, (1e-6, 1e-6))[1],
        )
        for to in ALL
    ]
    return out


def _shape() -> dict[str, list[Example]]:
    s = shape
    x = Array()
    return {
        "broadcast_in_dim": [
            Example(s.BroadcastInDim((2, 3, 5, 4), (1, 3)), (x,), ALL),
            Example(s.BroadcastInDim((3, 5), (0, 1)), (Array((3, 1)),), ("f8",)),
            Example(s.BroadcastInDim((3, 2), ()), (Array(()),), ("f8",)),
        ],
        "reshape": [
            Example(s.Reshape((2, 6)), (x,), ALL),
            Example(s.Reshape((4, 1, 3)), (x,), ("f8",)),
            Example(s.Reshape(()), (Array((1, 1)),), ("f8",)),
        ],
        "transpose": [
            Example(s.Transpose((1, 0)), (x,), ALL),
            Example(s.Transpose((2, 0, 1)), (Array((2, 3, 4)),), ("f8",)),
        ],
        "slice": [
            Example(s.Slice((1, 0), (2, 2), (1, 2)), (x,), ALL),
            Example(s.Slice((2, 3), (3, 2), (-1, -2)), (x,), ("f8",)),
        ],
        "concatenate": [
            Example(s.Concatenate(0), (x, Array((2, 4))), ALL),
            Example(s.Concatenate(1), (x, Array((3, 1)), Array((3, 2))), ("f8",)),
        ],
        "pad": [
            Example(s.Pad((1, 0), (2, 3)), (x, Array(())), ALL),
            Example(s.Pad((2,), (0,)), (Array((3,)), Array(())), ("f8",)),
        ],
    }


def _reductions() -> dict[str, list[Example]]:
    r = reduction
    x = Array((3, 4, 5))
    distinct = Array((3, 4, 5), distinct=True)
    out: dict[str, list[Example]] = {
        "reduce_sum": [
            Example(r.ReduceSum(a), (x,), NUMBERS if a == (1,) else ("f8", "f4"), "sum")
            for a in ((1,), (0, 2), (2,), (0, 1, 2))
        ],
        "reduce_prod": [
            Example(r.ReduceProd(a), (Array((3, 4), low=0.5, high=1.5),), ALL if a == (1,) else ("f8",), "sum")
            for a in ((1,), (0,), (0, 1))
        ],
    }
    out["reduce_prod"].append(Example(r.ReduceProd((0,)), (Array((1, 4)),), ("f8",), "sum"))
    for c in (r.ReduceMax, r.ReduceMin):
        out[c.name] = [Example(c(a), (distinct,), ALL if a == (1,) else ("f8",)) for a in ((1,), (0, 2), (0, 1, 2))]
    for c in (r.ArgMax, r.ArgMin):
        out[c.name] = [Example(c(a), (x,), ALL if a == 1 else ("f8", "i4")) for a in (0, 1, 2)]
    for c in (cumulative.CumSum, cumulative.CumProd):
        out[c.name] = [
            Example(c(a, back), (Array(low=0.5, high=1.5),), NUMBERS if a == 1 else ("f8",), "sum")
            for a in (0, 1)
            for back in (False, True)
        ]
    for c in (cumulative.CumMax, cumulative.CumMin):
        out[c.name] = [
            Example(c(a, back), (Array(distinct=True),), NUMBERS if a == 1 else ("f8",))
            for a in (0, 1)
            for back in (False, True)
        ]
    out["cumlogsumexp"] = [
        Example(cumulative.CumLogSumExp(a, back), (Array((4, 5)),), ("f8", "f4"), "sum")
        for a in (0, 1)
        for back in (False, True)
    ]
    out["cumprod"] += [
        Example(cumulative.CumProd(a, back), (Array((20, 19), low=0.7, high=1.3),), ("f8",), "sum")
        for a in (0, 1)
        for back in (False, True)
    ]
    return out


def _indexing() -> dict[str, list[Example]]:
    i = indexing
    x = Array((5, 4))

    def at(high: int, *s: int, low: int = 0, dtype: str = "i8") -> Array:
        return Array(s, dtype, low, high)

    return {
        "update_slice": [
            Example(slicing.UpdateSlice((1, 0), (2, 1)), (x, Array((2, 3))), ALL),
            Example(slicing.UpdateSlice((4, 3), (-1, -2)), (x, Array((3, 2))), ("f8",)),
        ],
        "dynamic_slice": [
            Example(slicing.DynamicSlice((2, 3)), (x, at(6), at(2, low=-2)), ALL),
            Example(slicing.DynamicSlice((2,)), (Array((7,)), at(6, dtype="u1")), ("f8",)),
        ],
        "dynamic_update_slice": [
            Example(slicing.DynamicUpdateSlice(), (x, Array((2, 3)), at(6), at(2, low=-2)), ALL),
            Example(slicing.DynamicUpdateSlice(), (Array((7,)), Array((3,)), at(9, low=-9, dtype="i4")), ("f8",)),
        ],
        "gather": [
            Example(i.Gather((0,)), (x, at(6, 3, low=-2)), ALL),
            Example(i.Gather((1, 0), True), (x, at(4, 2, 3, low=-1), at(5, 2, 3, low=-1)), ("f8", "i4")),
            Example(i.Gather((0, 1)), (x, at(4, dtype="u1"), at(3, dtype="u1")), ("f8",)),
        ],
        "scatter": [
            Example(i.Scatter((0,), "set"), (x, Array((6, 4)), at(5, 6, low=-1)), ALL),
            Example(i.Scatter((0,), "add"), (x, Array((6, 4)), at(5, 6, low=-1)), NUMBERS, "sum"),
            *[
                Example(i.Scatter((1, 0), op), (x, Array((2, 3)), at(3, 2, 3), at(4, 2, 3)), ("f8",), "sum")
                for op in ("set", "add", "mul", "min", "max")
            ],
            *[
                Example(i.Scatter((0,), op), (x, Array((6, 4), distinct=True), at(5, 6, low=-1)), dtypes, "sum")
                for op, dtypes in (("mul", ALL), ("min", REAL), ("max", REAL))
            ],
            *[Example(i.Scatter((0,), op), (x, Array((6, 4)), at(3, 6)), ("?", *INTS)) for op in ("and", "or", "xor")],
            *[
                Example(i.Scatter((1,), op, True), (x, Array((1, 5)), at(5, 1, low=-1)), ("f8",), "sum")
                for op in ("set", "add", "mul", "min", "max")
            ],
        ],
    }  # fmt: skip


def _contractions() -> dict[str, list[Example]]:
    def dot(
        contract: Any, batch: Any, a: tuple[int, ...], b: tuple[int, ...], dtypes: tuple[str, ...] = ("f8",)
    ) -> Example:
        return Example(contraction.DotGeneral(contract, batch), (Array(a), Array(b)), dtypes, "sum")

    return {
        "dot_general": [
            dot(((1,), (0,)), ((), ()), (3, 4), (4, 5), ALL),
            dot(((0,), (0,)), ((), ()), (4,), (4,)),
            dot(((1, 0), (0, 2)), ((), ()), (3, 4, 2), (4, 5, 3)),
            dot(((2,), (1,)), ((0,), (2,)), (2, 3, 4), (5, 4, 2)),
            dot(((), ()), ((), ()), (2,), (3,)),
            dot(((), ()), ((0,), (0,)), (3,), (3, 2)),
        ]
    }


def _windows() -> dict[str, list[Example]]:
    def conv(
        x: tuple[int, ...], w: tuple[int, ...], dtypes: tuple[str, ...], *parameters: Any, **groups: int
    ) -> Example:
        made = convolution.ConvGeneralDilated(*parameters, **groups)
        return Example(made, (Array(x), Array(w)), dtypes, "sum")

    straight, last = ((0, 1, 2),) * 3, ((0, 2, 1), (2, 1, 0), (0, 2, 1))
    slid = ((1,), (2,), (2,), (2,))
    return {
        "windows": [
            Example(windows.Windows((1,), (2,), (1,), (1,)), (Array(),), ALL),
            Example(windows.Windows((2, 0), (2, 3), (2, 1), (1, 2)), (Array((6, 2, 5)),), ("f8", "i4")),
            Example(windows.Windows((0,), (4,), (1,), (1,)), (Array((3,)),), ("f8",)),
        ],
        "window_sum": [
            Example(windows.WindowSum((1,), (2,), (1,), (1,), (4,)), (Array((3, 3, 2)),), NUMBERS, "sum"),
            Example(windows.WindowSum(*slid, (6,)), (Array((2, 2, 2)),), ("f8",), "sum"),
            Example(windows.WindowSum(*slid, (4,)), (Array((2, 1, 2)),), ("f8",), "sum"),
        ],
        "first_max": [Example(windows.FirstMax((1,)), (Array(distinct=True),), ALL)],
        "first_min": [Example(windows.FirstMin((0, 2)), (Array((3, 2, 4), distinct=True),), ALL)],
        "conv_general_dilated": [
            conv((2, 2, 5), (3, 2, 2), ALL, (1,), ((0, 0),), (1,), (1,), *straight),
            conv((2, 5, 2), (2, 2, 3), ("f8", "i4"), (2,), ((2, 1),), (1,), (2,), *last),
            conv((2, 3, 2), (3, 2, 4), ("f8",), (1,), ((-1, 2),), (2,), (1,), *last),
            conv((2, 4, 5), (4, 2, 2), ("f8",), (1,), ((1, 0),), (1,), (1,), *straight, feature_groups=2),
            conv((2, 2, 30), (2, 1, 3), ("f8", "?"), (1,), ((1, 1),), (1,), (1,), *straight, feature_groups=2),
            conv((4, 2, 5), (4, 2, 2), ("f8",), (2,), ((1, 0),), (1,), (1,), *straight, batch_groups=2),
            conv((3, 4), (2, 4), ("f8",), (), (), (), (), *((0, 1),) * 3),
        ],
    }  # fmt: skip


def jaxpr_of(function: Callable[..., Sequence[Any]], *avals: ShapedArray) -> Jaxpr:
    staged = stage(function, avals)
    assert not staged.constants
    return staged.jaxpr


def _control_flow() -> dict[str, list[Example]]:
    number = ShapedArray((), np.int64)

    def bodies(inner: tuple[int, ...]) -> Callable[[np.dtype[Any]], dict[str, Primitive]]:
        def make(dtype: np.dtype[Any]) -> dict[str, Primitive]:
            a = ShapedArray(inner, dtype)
            steps = jaxpr_of(lambda n, k, x: [k < n], number, number, a)
            step = jaxpr_of(lambda w, k, x: [k + 1, np.sin(x) * w + x], a, number, a)
            scanned = jaxpr_of(
                lambda w, i, x, row: [x * w + np.sin(row) + i.astype(x.dtype), np.cos(x) * row], a, number, a, a
            )
            plain = jaxpr_of(lambda w, i, x: [x * w + np.sin(x)], a, number, a)
            one = jaxpr_of(lambda x, y: [np.sin(x) * y, x + 1.0], a, a)
            other = jaxpr_of(lambda x, y: [x - y * y, y], a, a)
            return {
                "while": while_loop.While(steps, step, 1, 1),
                "scan": counted_loop.Loop(scanned, 3, 1, 1),
                "back": counted_loop.Loop(scanned, 3, 1, 1, True),
                "for": counted_loop.Loop(plain, 3, 1, 1),
                "cond": branch.Cond((one, other)),
            }

        return make

    def example(which: str, inner: tuple[int, ...], *operands: Array) -> Example:
        return Example(lambda dtype: bodies(inner)(dtype)[which], operands, ("f8", "f4"), "sum")

    whiles: list[Example] = []
    loops: list[Example] = []
    conds: list[Example] = []
    for inner in ((), (4,)):
        x = Array(inner)
        whiles.append(example("while", inner, Array((), "i8", 3, 3), x, Array((), "i8", 0, 2), x))
        loops += [example(n, inner, x, x, Array((3, *inner))) for n in ("scan", "back")]
        loops.append(example("for", inner, x, x))
        conds.append(example("cond", inner, Array((), "?"), x, x))
    return {"while": whiles, "loop": loops, "cond": conds}


def _decompositions() -> dict[str, list[Example]]:
    floats = ("f8", "f4", "c16", "c8")
    square, stack, wide, tall = (Matrix(s, low=-1.0, high=1.0) for s in ((3, 3), (2, 4, 4), (3, 4), (4, 3)))

    small = [Array(s, low=-0.5, high=0.5) for s in ((3, 3), (2, 4, 4))]

    def all_of(primitives: Sequence[Primitive], *operands: Array) -> list[Example]:
        return [Example(p, (x,), floats, "sum", near=2e-6) for p in primitives for x in operands]

    def iterated(primitives: Sequence[Primitive], *operands: Array) -> list[Example]:
        return [evolve(e, units=1000) for e in all_of(primitives, *operands)]

    return {
        "triangular_solve": [
            Example(triangular.TriangularSolve(lower, transposed, lower is transposed), operands, floats, "sum")
            for lower, transposed in itertools.product((False, True), repeat=2)
            for operands in ((square, Array((3, 2))), (stack, Array((2, 4, 2))))[: 1 + lower]
        ],
        "cholesky": all_of([triangular.Cholesky()], square, stack),  # symmetrized: of symmetric matrices alone
        "lu": all_of([lu.LU()], stack, wide, tall),
        "expm": all_of([matrix_exponential.Expm()], *small),
        "expm_frechet": [Example(matrix_exponential.ExpmFrechet(), (x, x), floats, "sum", near=2e-6) for x in small],
        "column_order": all_of([qr.ColumnOrder()], stack, wide, tall),
        "qr": [*all_of([qr.QR()], stack, wide, tall), *all_of([qr.QR(True)], wide)],
        "hessenberg": iterated([hessenberg.Hessenberg()], stack, square),
        "packed_hessenberg": iterated([hessenberg.PackedHessenberg()], stack, square),
        "schur": iterated([schur.Schur()], stack, square),
        "eig": [*iterated([eigen.Eig()], stack), *iterated([eigen.Eig(False)], square)],
        "tridiagonal": [
            *iterated([tridiagonal.Tridiagonal()], stack),
            *iterated([tridiagonal.Tridiagonal(False)], square),
        ],
        "sqrtm": iterated([matrix_root.Sqrtm()], stack),
        "sylvester": [
            Example(sylvester.Sylvester(), x, floats, "sum", units=1000, near=2e-6)
            for x in ((square, Matrix((2, 2)), Array((3, 2))), (stack, stack, stack))
        ],
        "eigh": [*all_of([spectral.Eigh()], stack), *all_of([spectral.Eigh(False, False)], square)],
        "svd": [*all_of([spectral.SVD()], stack, wide, tall), *all_of([spectral.SVD(vectors=False)], tall)],
    }


def _fourier() -> dict[str, list[Example]]:
    """Lengths of one pass and of several, even and odd ones, and a prime that is a convolution."""

    def example(kind: str, shape: tuple[int, ...], axis: int, n: int, scale: float = 1.0) -> Example:
        table = Table(kind=kind, n=n)
        dtypes = ("f8", "f4") if kind == "rfft" else ("c16", "c8")
        return Example(fourier.FFT(kind, n, axis, scale), (Array(shape), table), dtypes, "sum")

    def passes(shape: tuple[int, ...], *parameters: Any) -> Example:
        x, dtypes = Array((2, 6, 3)), ("c16", "c8")
        return Example(
            butterflies.Butterflies(*parameters[:3], shape, *parameters[3:]), (x, Table(n=60)), dtypes, "sum"
        )

    return {
        "fft": [
            example("fft", (2, 12, 3), 1, 12, 0.5),
            example("ifft", (40,), 0, 40),
            example("fft", (17, 2), 0, 17),
            *[example("rfft", (2, n), 1, n) for n in (1, 2, 9, 24)],
            *[example("irfft", (n // 2 + 1, 2), 0, n, 1 / n) for n in (1, 2, 9, 24)],
        ],
        "butterflies": [
            passes((12, 3), 3, 1, -1, 0, 0.5),
            passes((2, 2, 3, 3), 2, 1, 1),
            passes((2, 6, 3, 2), 3, 1, 1, 0, 1.0, 1),
            passes((36,), 1, 1, -1),
        ],
    }


def _custom() -> dict[str, list[Example]]:
    def checkpoint(dtype: np.dtype[Any]) -> Primitive:
        a = ShapedArray((4,), dtype)
        return custom.Checkpoint(jaxpr_of(lambda x, y: [x * y], a, a), 1)

    x = Array((4,))
    forward, reverse = custom.ForwardRule("f"), custom.ReverseRule("f")
    return {
        "checkpoint": [Example(checkpoint, (x, x, x), FLOATS)],
        "custom_jvp": [
            Example(custom.CustomJVP(forward, 1), (x, Array(())), ALL),
            Example(custom.CustomJVP(forward, 2), (x, Array((2, 3)), x), FLOATS),
        ],
        "implicit": [
            Example(implicit.Implicit(implicit.ImplicitRule(), 1), (x, Array(())), ALL),
            Example(implicit.Implicit(implicit.ImplicitRule(), 2), (x, Array((2, 3)), x), FLOATS),
        ],
        "custom_vjp": [
            Example(custom.CustomVJP(reverse, 1), (Array(()), x), ALL),
            Example(custom.CustomVJP(reverse, 2), (x, x, x), FLOATS),
        ],
        "stop_gradient": [Example(custom.StopGradient(), (x,), ALL)],
        "native": [
            Example(native.Native(native.NativeExpression("f", "", frozenset(), None, np.square)), (x,), FLOATS),
            Example(native.Native(native.NativeExpression("f", "", frozenset(), None, np.multiply)), (x, x), FLOATS),
        ],
        "callback": [
            Example(callback.Callback(_COUNTED), (Array((), "i8", 0, 0), x), NUMBERS),
            Example(callback.Callback(_COUNTED, (2,)), (Array((2,), "i8", 0, 0), Array((2, 3))), FLOATS),
        ],
        "native_kernel": [
            Example(native_kernel.NativeKernel(_written(np.square, 1)), (x,), FLOATS),
            Example(native_kernel.NativeKernel(_written(lambda a, b: (a * b, a + b), 2)), (x, x), FLOATS),
            Example(native_kernel.NativeKernel(_written(np.square, 1), (2,)), (Array((2, 3)),), FLOATS),
        ],
    }


def _special() -> dict[str, list[Example]]:
    out: dict[str, list[Example]] = {}

    def of(p: Primitive, *ranges: tuple[float, float], **more: Any) -> None:
        operands = [Array((5,), low=low, high=high) for low, high in ranges]
        # half precision is single precision rounded; what is slow to compile is tried once less
        out[p.name] = [Example(p, tuple(operands), FLOATS if len(ranges) < 3 else FLOATS[1:], "ulp", **more)]
        if len(ranges) == 2:
            out[p.name].append(Example(p, (evolve(operands[0], shape=()), *operands[1:]), ("f8",), "ulp", **more))

    s = special
    for p in (s.LGamma(), s.Digamma(), s.Gamma()):
        of(p, (0.3, 12.0), edges=True)
    for p in (s.Erfc(), s.Erfcx(), s.LogNdtr(), s.Logistic(), s.BesselI0e(), s.BesselI1e()):
        of(p, (-3.0, 4.0), edges=True)
    of(s.ErfInv(), (-0.9, 0.9), edges=True)
    of(s.ErfcInv(), (0.1, 1.9), edges=True)
    of(s.Logit(), (0.05, 0.95), edges=True)
    for p in (s.XLogY(), s.XLog1PY()):
        of(p, (0.3, 2.0), (0.5, 3.0), edges=True)
    for p in (s.IGamma(), s.IGammaC(), s.IGammaGradA(), s.RandomGammaGrad()):
        of(p, (0.5, 6.0), (0.3, 8.0), ulp=60)
    of(s.RegularizedIncompleteBeta(), (0.5, 6.0), (0.5, 6.0), (0.1, 0.9), ulp=60)
    of(s.Zeta(), (1.5, 6.0), (0.4, 5.0), ulp=20)
    i, h = integrals, hypergeometric
    for p in (i.Expi(), i.Spence(), i.CosineIntegral()):
        of(p, (0.5, 6.0), ulp=100)
    for p in (i.SineIntegral(), i.FresnelS(), i.FresnelC(), i.Dawsn()):
        of(p, (-2.5, 2.5), ulp=100)
    of(i.OwensT(), (-2.0, 2.0), (0.3, 2.5), ulp=100)
    of(h.Hyp1F1(), (0.5, 2.0), (1.0, 3.0), (-3.0, 3.0), ulp=100)
    of(h.Hyp2F1(), (0.5, 2.0), (0.5, 2.0), (1.0, 3.0), (-2.0, 0.7), ulp=100)
    out["expn"] = [
        Example(i.Expn(), (Array((5,), "T", 3.0, 3.0), Array((5,), low=0.4, high=3.0)), FLOATS, "ulp", 100),
        Example(i.Expn(), (Array((), "T", 0.0, 0.0), Array((5,), low=0.4, high=3.0)), ("f8",), "ulp", 100),
    ]
    out["complex_polygamma"] = [
        Example(s.ComplexPolygamma(n), (Array((5,), low=-4.0, high=4.0),), COMPLEX, units=64) for n in (-1, 0, 1, 2)
    ]
    out["polygamma"] = [
        Example(s.Polygamma(), (Array((5,), "T", 1.0, 1.0), Array((5,), low=0.4, high=5.0)), FLOATS, "ulp", 20),
        Example(s.Polygamma(), (Array((), "T", 3.0, 3.0), Array((5,), low=0.4, high=5.0)), ("f8",), "ulp", 20),
    ]
    return out


def _random() -> dict[str, list[Example]]:
    """Words of keys, counters and elements, and parameters on both sides of where an algorithm changes."""
    word, one = Array((12,), "u4", 0, 2**32 - 1), Array((), "u4", 0, 2**32 - 1)

    def of(p: Primitive, *ranges: tuple[float, float], dtypes: tuple[str, ...] = FLOATS) -> list[Example]:
        parameters = tuple(Array((12,), low=low, high=high) for low, high in ranges)
        found = [Example(p, (word, word, *parameters), dtypes, "ulp", 40)]
        if len(dtypes) > 1:
            single = tuple(evolve(a, shape=()) for a in parameters)
            found.append(Example(p, (word, one, *single), ("f4",), "ulp", 40))
        return found

    return {
        "threefry2x32": [
            Example(random.Threefry2x32(), (word,) * 4, ("u4",)),
            Example(random.Threefry2x32(), (one, one, one, word), ("u4",)),
            Example(random.Threefry2x32(), (one,) * 4, ("u4",)),
        ],
        "unit_float": [
            Example(lambda dtype: random.UnitFloat(dtype), (word, word), FLOATS),
            Example(lambda dtype: random.UnitFloat(dtype), (one, one), ("f8",)),
        ],
        "random_gamma": [
            *of(random.RandomGamma(), (0.05, 4.0)),
            *of(random.RandomGamma(True), (0.05, 4.0), dtypes=("f8",)),
        ],
        "random_poisson": [
            *of(random.RandomPoisson(), (0.1, 9.0)),
            *of(random.RandomPoisson(), (8.0, 60.0), dtypes=("f8",)),
        ],
        "random_binomial": [
            *of(random.RandomBinomial(), (1.0, 40.0), (0.01, 0.99)),
            *of(random.RandomBinomial(), (100.0, 900.0), (0.2, 0.9), dtypes=("f8",)),
        ],
    }


CONSTANT = {
    "hessenberg": {0}, "packed_hessenberg": {0}, "schur": {0}, "tridiagonal": {0},
    "butterflies": {1}, "fft": {1},
    "expn": {0}, "hyp1f1": {0, 1}, "hyp2f1": {0, 1, 2},
    "igamma_grad_a": {0}, "polygamma": {0}, "random_gamma_grad": {0}, "regularized_incomplete_beta": {0, 1},
    "zeta": {0},
}  # fmt: skip
"""Operands with respect to which there is no derivative: the error says so."""

CONSTANT_IN_SLOPES = {"igamma": {0}, "igammac": {0}}
"""Those with respect to which there is no second one."""


EXAMPLES: dict[str, list[Example]] = {
    **_custom(),
    **_elementwise(),
    **_special(),
    **_random(),
    **_shape(),
    **_reductions(),
    **_indexing(),
    **_contractions(),
    **_windows(),
    **_control_flow(),
    **_decompositions(),
    **_fourier(),
    "sort": [
        Example(sorting.Sort(0), (Array((5,), distinct=True),), ALL),
        *[Example(sorting.Sort(a), (Array(distinct=True), Array()), ("f8", "i4")) for a in (0, 1)],
        Example(sorting.Sort(1), (Array((2, 150), distinct=True),), ("f4", "i2")),
        Example(sorting.Sort(0, 2), (Array((6,), "i1", 0, 1), Array((6,), distinct=True), Array((6,))), ("f8",)),
    ],
    "population_count": [Example(bits.PopulationCount(), (Array(),), INTS, edges=True)],
    "clz": [Example(bits.Clz(), (Array(),), INTS, edges=True)],
    "bitcast": [
        Example(lambda dtype: bits.Bitcast(np.dtype(f"i{dtype.itemsize}")), (Array(),), REAL[1:]),
        Example(bits.Bitcast(np.dtype("f4")), (Array((3, 2)),), ("u4", "i4", "f4"), edges=True),
        Example(bits.Bitcast(np.dtype("f2")), (Array((4,)),), ("u2", "i2"), edges=True),
        Example(bits.Bitcast(np.dtype("f8")), (Array(()),), ("u8", "i8"), edges=True),
    ],
    "reduce_precision": [
        Example(bits.ReducePrecision(e, m), (Array(),), FLOATS, edges=True)
        for e, m in ((5, 3), (8, 7), (11, 52), (4, 0), (5, 23), (8, 23))
    ],
    "sort_key": [Example(radix.SortKey(), (Array(),), REAL, edges=True)],
    "as_extent": [Example(creation.AsExtent(Count(1, 9)), (Array((), "i8", 0, 9),), ("i8",))],
    "extent": [Example(lambda dtype: creation.ExtentValue(7, dtype), (), NUMBERS)],
    "iota": [
        Example(lambda dtype: creation.Iota((3, 4), 1, dtype), (), NUMBERS),
        Example(creation.Iota((5,), 0, np.dtype("i8")), (), ("i8",)),
    ],
}

NOT_DIFFERENTIABLE = frozenset({
    "and", "argmax", "argmin", "as_extent", "bitcast", "callback", "clz", "column_order", "eq", "extent",
    "frexp_exponent", "gcd", "ge", "gt", "iota", "is_finite", "lcm", "le", "lt", "ne", "not", "or",
    "population_count", "shift_left", "shift_right", "sort_key", "unit_float", "xor",
})  # fmt: skip
"""Primitives whose results are integers or booleans, or that have no floating-point operands."""

ONE_FOR_ALL = frozenset({"as_extent"})
"""Primitives whose operand is the same for all elements of a batch: the error says so."""

FORWARD_ONLY = frozenset({"while"})
"""Primitives without a reverse-mode derivative: the error says so."""

WITH_ITS_OWN_DERIVATIVE = frozenset({
    "checkpoint", "custom_jvp", "custom_vjp", "hessenberg", "implicit", "packed_hessenberg", "random_gamma",
    "reduce_precision", "schur", "stop_gradient", "tridiagonal",
})  # fmt: skip
"""Primitives whose derivative is another than that of what they compute."""
