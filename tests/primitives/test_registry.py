"""Every rule of every registered primitive, on the examples of `examples.py`:
against NumPy, finite differences, inner products, loops."""

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from tests.primitives.examples import (
    CONSTANT,
    CONSTANT_IN_SLOPES,
    EXAMPLES,
    FORWARD_ONLY,
    NOT_DIFFERENTIABLE,
    ONE_FOR_ALL,
    WITH_ITS_OWN_DERIVATIVE,
    Example,
)
from tracejit.backends.registry import get_backend
from tracejit.compiler.lower import lower
from tracejit.compiler.pipeline import lower_jaxpr
from tracejit.ir import primitive as registry
from tracejit.ir.forms import Scatter, Update
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.primitive import Primitive, primitives
from tracejit.ir.text import parse_jaxpr
from tracejit.ir.types import aval_of
from tracejit.primitives.__main__ import REQUIRED, coverage, table
from tracejit.support.errors import MissingRuleError, UnsupportedError
from tracejit.tracer.batch import batch_pairs, spread
from tracejit.tracer.interpreter import bind
from tracejit.tracer.jvp import jvp
from tracejit.tracer.known import range_of_array
from tracejit.tracer.linearize import linearize
from tracejit.tracer.stage import stage

CASES = [
    pytest.param(e, d, id=f"{name}-{n}-{d}")
    for name, es in EXAMPLES.items()
    for n, e in enumerate(es)
    for d in e.dtypes
]
FLOAT = [p for p in CASES if p.values[1] in ("f8", "c16")]
SMOOTH = [
    p for p in FLOAT if p.values[0].instance(p.values[1]).name not in NOT_DIFFERENTIABLE | WITH_ITS_OWN_DERIVATIVE
]
FIRST = [
    pytest.param(e, d, id=f"{name}-{n}-{d}")
    for name, es in EXAMPLES.items()
    for n, e in enumerate(es)
    for d in dict.fromkeys((e.dtypes[-1], *[d for d in e.dtypes if d == "c16"]))
]


def test_every_example_is_of_the_primitive_that_it_is_listed_for():
    assert set(EXAMPLES) <= set(primitives())
    for name, examples in EXAMPLES.items():
        assert {e.instance(e.dtypes[0]).name for e in examples} == {name}


# -- running a primitive
# ------------------------------------------------------------------------------------------------------------
def results(p: Primitive, *args: Any) -> list[Any]:
    out = bind(p, *args)
    return list(out) if p.multiple_results else [out]


def expected(p: Primitive, *args: Any) -> list[np.ndarray[Any, Any]]:
    with np.errstate(all="ignore"):
        out = p.impl(*args)
    return [np.asarray(o) for o in (out if p.multiple_results else [out])]


def staged(p: Primitive, args: Sequence[Any]) -> Jaxpr:
    s = stage(lambda *xs: results(p, *xs), [aval_of(np.asarray(a)) for a in args])
    assert not s.constants
    return s.jaxpr


def compiled(jaxpr: Jaxpr, args: Sequence[Any], backend: str = "cpu") -> list[Any]:
    layouts = ["C" if a.flags.c_contiguous else "strided" for a in args]
    lowered = lower_jaxpr(jaxpr, get_backend(backend), layouts)
    names = [e.primitive.name for e in lowered.jaxpr.equations]
    assert sorted(set(names)) == sorted({n for n, _ in lowered.report} & set(names)), (
        "an equation is missing from the compile report"
    )
    return lowered.compile().run(list(args), {})


def as_arrays(values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(v) for v in values]


# -- comparing ---------------------------------------------------------------------------------------------------------
def check_equal(got: Any, want: np.ndarray[Any, Any], example: Example) -> None:
    got = np.asarray(got)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind == "c":
        check_complex(got, want, example)
        return
    if want.dtype.kind != "f" or (example.close == "equal" and not example_is_complex(example)):
        np.testing.assert_array_equal(got, want)
        return
    with np.errstate(all="ignore"):
        unit = np.finfo(want.dtype).eps
        if example.close == "ulp":
            allowed = example.ulp * np.spacing(np.maximum(np.abs(want), np.finfo(want.dtype).tiny))
        else:
            allowed = example.units * unit * max(1.0, float(np.max(np.abs(want), initial=0.0)))
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        wrong = ~(same | (np.abs(got.astype(np.float64) - want.astype(np.float64)) <= allowed))
    assert not wrong.any(), f"{got[wrong][:3]} instead of {want[wrong][:3]}"


def example_is_complex(example: Example) -> bool:
    """Whether all of its operands are complex: then even real results are rounded otherwise than NumPy's."""
    return set(example.dtypes) <= {"c8", "c16"}


def check_complex(got: Any, want: np.ndarray[Any, Any], example: Example) -> None:
    """Within a few units in the last place of the number; of the greatest one where sums are in another order."""
    size = np.abs(want) if example.close != "sum" else np.maximum(np.abs(want), np.max(np.abs(want), initial=1.0))
    unit = np.finfo(want.dtype).eps * (example.units if example.close == "sum" else 8)
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= unit * size
    same = [(a == b) | (np.isnan(a) & np.isnan(b)) for a, b in ((got.real, want.real), (got.imag, want.imag))]
    wrong = ~(near | (same[0] & same[1]))
    assert not wrong.any(), f"{got[wrong][:3]} instead of {want[wrong][:3]}"


def edge_arguments(example: Example, dtype: str) -> list[np.ndarray[Any, Any]]:
    """Every combination of extreme values."""
    operands: list[np.ndarray[Any, Any]] = []
    for operand in example.operands:
        kind = np.dtype(dtype if operand.dtype == "T" else operand.dtype)
        if kind.kind == "b":
            values: list[Any] = [False, True]
        elif kind.kind in "iu":
            info = np.iinfo(kind)
            values = sorted(
                {
                    int(info.min),
                    int(info.min) + 1,
                    -1 if info.min else 2,
                    0,
                    1,
                    3,
                    kind.itemsize * 8 - 1,
                    kind.itemsize * 8,
                    int(info.max),
                }
            )
        else:
            info = np.finfo(kind)
            values = [
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                2.5,
                -2.5,
                np.inf,
                -np.inf,
                np.nan,
                info.max,
                -info.max,
                info.tiny,
                info.smallest_subnormal,
            ]
        operands.append(np.array(values, kind))
    grid = np.meshgrid(*operands, indexing="ij")
    return [g.ravel().copy() for g in grid]


# -- the forward rules -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("example", "dtype"), CASES)
def test_abstract_eval_agrees_with_impl(example: Example, dtype: str):
    p, args = example.instance(dtype), example.arguments(dtype)
    avals = p.abstract_eval(*[aval_of(a) for a in args])
    for aval, want in zip(avals if p.multiple_results else (avals,), expected(p, *args), strict=True):
        assert (aval.shape, aval.dtype) == (want.shape, want.dtype)


@pytest.mark.parametrize(("example", "dtype"), CASES)
def test_the_compiled_form_agrees_with_impl(example: Example, dtype: str, record_backend: Any):
    record_backend("cpu")
    p, args = example.instance(dtype), example.arguments(dtype)
    for got, want in zip(compiled(staged(p, args), args), expected(p, *args), strict=True):
        check_equal(got, want, example)


EDGES = [c for c in CASES if c.values[0].edges and np.dtype(c.values[1]).kind != "c"]


WHOLE = [
    p
    for p in CASES
    if np.dtype(p.values[1]).kind in "biu" or p.values[0].instance(p.values[1]).name in ("iota", "extent", "argmax")
]


@pytest.mark.parametrize(("example", "dtype"), WHOLE)
@pytest.mark.parametrize("known", [True, False])
def test_integer_results_lie_in_the_range_that_is_told(example: Example, dtype: str, known: bool):
    p, args = example.instance(dtype), example.arguments(dtype)
    told: list[Any] = []

    def run(*xs: Any) -> Any:
        out = results(p, *xs)
        told.extend(x.value_range() for x in out)
        return out

    stage(
        run,
        [aval_of(np.asarray(a)) for a in args],
        ranges={n: range_of_array(a) for n, a in enumerate(args)} if known else {},
    )
    for (low, high), result in zip(told, expected(p, *args), strict=True):
        if result.dtype.kind in "biu" and result.size:
            assert low is None or low <= result.min()
            assert high is None or result.max() <= high


@pytest.mark.parametrize(("example", "dtype"), EDGES)
def test_the_compiled_form_agrees_with_impl_on_extreme_values(example: Example, dtype: str):
    p, args = example.instance(dtype), edge_arguments(example, dtype)
    for got, want in zip(compiled(staged(p, args), args), expected(p, *args), strict=True):
        check_equal(got, want, example)


@pytest.mark.parametrize(("example", "dtype"), FIRST)
def test_the_interpreted_kernels_agree_with_impl(example: Example, dtype: str, record_backend: Any):
    record_backend("reference")
    p, args = example.instance(dtype), example.arguments(dtype)
    for got, want in zip(compiled(staged(p, args), args, "reference"), expected(p, *args), strict=True):
        check_equal(got, want, example)


def scattered(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values with gaps, and backwards in memory."""
    if not x.ndim:
        return x
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    view = wide[tuple(slice(2 * n - 1, None, -2) for n in x.shape)]
    view[...] = x
    return view


@pytest.mark.parametrize(("example", "dtype"), FIRST)
def test_operands_may_lie_in_memory_in_any_order(example: Example, dtype: str):
    p, args = example.instance(dtype), example.arguments(dtype)
    moved = [scattered(a) for a in args]
    for got, want in zip(compiled(staged(p, args), moved), expected(p, *args), strict=True):
        check_equal(got, want, example)


@pytest.mark.parametrize(("example", "dtype"), FIRST)
def test_its_jaxpr_prints_and_parses_back(example: Example, dtype: str):
    jaxpr = staged(example.instance(dtype), example.arguments(dtype))
    assert str(parse_jaxpr(str(jaxpr))) == str(jaxpr)
    assert parse_jaxpr(str(jaxpr)) == jaxpr


# -- derivatives -------------------------------------------------------------------------------------------------------
@frozen
class Problem:
    """An example as a function of its floating-point operands, or of some of them."""

    p: Primitive
    args: list[Any]
    places: tuple[int, ...]

    def __call__(self, *floats: Any) -> list[Any]:
        args = list(self.args)
        for n, x in zip(self.places, floats, strict=True):
            args[n] = x
        return results(self.p, *args)

    @property
    def point(self) -> list[Any]:
        return [self.args[n] for n in self.places]

    def directions(self, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [normal(rng, x.shape, x.dtype) for x in self.point]


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Random numbers, complex ones where the dtype is."""
    x: Any = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else np.asarray(x)).astype(dtype)


def problems(
    example: Example, dtype: str = "f8", constants: Mapping[str, set[int]] = MappingProxyType({})
) -> list[Problem]:
    """The example as a function of each non-empty subset of its floating-point operands with derivatives."""
    args = example.arguments(dtype)
    name = example.instance(dtype).name
    constant = CONSTANT.get(name, set()) | constants.get(name, set())
    floats = [n for n, a in enumerate(args) if a.dtype.kind in "fc" and n not in constant]
    subsets = itertools.chain.from_iterable(itertools.combinations(floats, k) for k in range(1, len(floats) + 1))
    return [Problem(example.instance(dtype), args, s) for s in subsets]


def central_difference(f: Any, point: Sequence[Any], direction: Sequence[Any], h: float = 1e-6) -> list[Any]:
    ahead = f(*[x + h * t for x, t in zip(point, direction, strict=True)])
    behind = f(*[x - h * t for x, t in zip(point, direction, strict=True)])
    return [
        (np.asarray(a) - np.asarray(b)) / np.asarray(2 * h, np.asarray(a).dtype)
        if np.asarray(a).dtype.kind in "fc"
        else None
        for a, b in zip(ahead, behind, strict=True)
    ]


def check_near(got: Any, want: Any, scale: float = 1e-6) -> None:
    np.testing.assert_allclose(got, want, rtol=scale, atol=scale * max(1.0, float(np.max(np.abs(want), initial=0.0))))


@pytest.mark.parametrize(("example", "dtype"), SMOOTH)
def test_jvp_agrees_with_finite_differences(example: Example, dtype: str):
    for f in problems(example, dtype):
        direction = f.directions(1)
        want_slopes = central_difference(f, f.point, direction, example.step)
        outs, slopes = jvp(f, f.point, direction)
        for got, want in zip(outs, f(*f.point), strict=True):
            np.testing.assert_array_equal(got, want)
        for out, slope, want in zip(outs, slopes, want_slopes, strict=True):
            if want is None:
                assert slope is None
                continue
            assert slope is None or (np.shape(slope), np.asarray(slope).dtype) == (np.shape(out), np.asarray(out).dtype)
            check_near(np.zeros_like(want) if slope is None else slope, want, example.near)


@pytest.mark.parametrize(
    ("example", "dtype"), [p for p in FLOAT if p.values[0].instance(p.values[1]).name in NOT_DIFFERENTIABLE]
)
def test_integer_results_have_no_tangent(example: Example, dtype: str):
    for f in problems(example, dtype):
        outs, slopes = jvp(f, f.point, f.directions(1))
        assert all(np.asarray(o).dtype.kind not in "fc" for o in outs)
        assert slopes == [None] * len(outs)


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return float(
        sum(
            np.sum((np.asarray(x, np.complex128) * np.asarray(y, np.complex128)).real)
            for x, y in zip(xs, ys, strict=True)
            if x is not None and y is not None
        )
    )


REVERSE = [p for p in SMOOTH if p.values[0].instance(p.values[1]).name not in FORWARD_ONLY]


@pytest.mark.parametrize(("example", "dtype"), REVERSE)
def test_the_transpose_is_the_adjoint(example: Example, dtype: str):
    for f in problems(example, dtype):
        lin = linearize(f, f.point)
        rng = np.random.default_rng(2)
        ct = [normal(rng, np.shape(o), np.asarray(o).dtype) for o in lin.outputs]
        t = f.directions(3)
        pushed, pulled = lin.pushforward(t), lin.pullback(ct)
        _, slopes = jvp(f, f.point, t)
        for a, b in zip(pushed, slopes, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                check_near(a, b, 1e-12)
        for x, c in zip(f.point, pulled, strict=True):
            assert c is None or (np.shape(c), np.asarray(c).dtype) == (x.shape, x.dtype)
        left, right = inner(ct, pushed), inner(pulled, t)
        exact = (
            1e-10
            if example.near <= 1e-6 and all(np.asarray(o).dtype == np.float64 for o in lin.outputs)
            else example.near
        )
        assert abs(left - right) <= exact * max(1.0, abs(left))


@pytest.mark.parametrize(
    ("example", "dtype"), [p for p in SMOOTH if p.values[0].instance(p.values[1]).name in FORWARD_ONLY]
)
def test_a_missing_reverse_mode_is_an_error_that_says_so(example: Example, dtype: str):
    f = problems(example, dtype)[-1]
    with pytest.raises(UnsupportedError, match="no reverse-mode derivative"):
        linearize(f, f.point)


NARROW = [
    c
    for c in CASES
    if c.values[1] in ("f2", "f4")
    and c.values[0].instance("f4").name not in NOT_DIFFERENTIABLE | FORWARD_ONLY | WITH_ITS_OWN_DERIVATIVE
]


@pytest.mark.parametrize(("example", "dtype"), NARROW)
def test_derivatives_keep_the_dtype(example: Example, dtype: str):
    f = problems(example, dtype)[-1]
    lin = linearize(f, f.point)
    floats = [
        None if z else np.ones(np.shape(o), np.asarray(o).dtype) for o, z in zip(lin.outputs, lin.zero, strict=True)
    ]
    for x, c in zip(f.point, lin.pullback(floats), strict=True):
        assert c is None or np.asarray(c).dtype == x.dtype
    for o, t in zip(lin.outputs, lin.pushforward(f.point), strict=True):
        assert t is None or np.asarray(t).dtype == np.asarray(o).dtype


@pytest.mark.parametrize(("example", "dtype"), [p for p in FLOAT if p.values[0].instance("f8").name in CONSTANT])
def test_a_derivative_that_there_is_not_is_an_error_that_says_so(example: Example, dtype: str):
    p, args = example.instance(dtype), example.arguments(dtype)
    for n in CONSTANT[p.name]:
        f = Problem(p, args, (n,))
        with pytest.raises(UnsupportedError, match="has no derivative with respect to"):
            jvp(f, f.point, f.directions(1))


def gradient(f: Problem, weights: Sequence[Any]) -> Any:
    """The gradient of <weights, f> as a function of f's operands."""

    def run(*point: Any) -> list[Any]:
        lin = linearize(f, point)
        parts = lin.pullback([w if not z else None for w, z in zip(weights, lin.zero, strict=True)])
        return [np.zeros(np.shape(x)) if p is None else p for p, x in zip(parts, f.point, strict=True)]

    return run


@pytest.mark.parametrize(("example", "dtype"), REVERSE)
def test_second_derivatives_agree_with_finite_differences(example: Example, dtype: str):
    f = problems(example, dtype, CONSTANT_IN_SLOPES)[-1]
    rng = np.random.default_rng(4)
    weights = [normal(rng, np.shape(o), np.asarray(o).dtype) for o in f(*f.point)]
    first, direction = gradient(f, weights), f.directions(5)
    want = central_difference(first, f.point, direction)
    _, forward = jvp(first, f.point, direction)  # forward over reverse
    over = linearize(first, f.point)  # reverse over reverse: symmetric, so the pullback is the same
    backward = over.pullback([d if not z else None for d, z in zip(direction, over.zero, strict=True)])
    for got, other, w in zip(forward, backward, want, strict=True):
        check_near(np.zeros_like(w) if got is None else got, w, 3e-6)
        check_near(np.zeros_like(w) if other is None else other, w, 3e-6)


@pytest.mark.parametrize(("example", "dtype"), REVERSE)
def test_compiled_derivatives_agree_with_eager_ones(example: Example, dtype: str):
    f = problems(example, dtype)[-1]
    rng = np.random.default_rng(6)
    weights = [normal(rng, np.shape(o), np.asarray(o).dtype) for o in f(*f.point)]
    want = gradient(f, weights)(*f.point)
    s = stage(gradient(f, weights), [aval_of(x) for x in f.point])
    got = compiled(s.jaxpr, [*f.point, *as_arrays(s.constants)])
    for g, w in zip(got, want, strict=True):
        check_near(g, w, 1e-12)


# -- vmap --------------------------------------------------------------------------------------------------------------
def subsets(count: int) -> list[tuple[int, ...]]:
    """The non-empty subsets of operands; of many operands the singletons, the pairs and all."""
    sizes = range(1, count + 1) if count <= 4 else (1, 2, count)
    return list(itertools.chain.from_iterable(itertools.combinations(range(count), k) for k in sizes))


LANES = 3


def lanes_of(
    example: Example, dtype: str, mapped: Sequence[int], axis: int
) -> tuple[list[Any], list[int | None], list[list[Any]]]:
    """Arguments with a mapped axis for some, these axes, and the arguments of each element."""
    fixed = example.arguments(dtype)
    elements = [
        [x if n in mapped else fixed[n] for n, x in enumerate(example.arguments(dtype, 10 + k))] for k in range(LANES)
    ]
    args, dims = list(fixed), [None] * len(fixed)
    for n in mapped:
        dims[n] = min(axis, fixed[n].ndim) if axis >= 0 else fixed[n].ndim
        args[n] = np.stack([e[n] for e in elements], axis=dims[n])
    return args, dims, elements


def looped(p: Primitive, elements: Sequence[Sequence[Any]]) -> list[np.ndarray[Any, Any]]:
    return [np.stack(column) for column in zip(*[expected(p, *e) for e in elements], strict=True)]


OPERANDS = [p for p in FIRST if p.values[0].operands]
BATCHED = [p for p in OPERANDS if p.values[0].instance(p.values[1]).name not in ONE_FOR_ALL]


@pytest.mark.parametrize(("example", "dtype"), BATCHED)
def test_batch_agrees_with_a_loop(example: Example, dtype: str):
    p = example.instance(dtype)
    for mapped in subsets(len(example.operands)):
        for axis in (0, 1, -1):
            args, dims, elements = lanes_of(example, dtype, mapped, axis)
            pairs = batch_pairs(lambda *xs: results(p, *xs), args, dims)
            for (value, at), want in zip(pairs, looped(p, elements), strict=True):
                check_equal(spread(value, at, LANES, 0), want, example)


@pytest.mark.parametrize(("example", "dtype"), [p for p in OPERANDS if p not in BATCHED])
def test_what_is_one_for_all_elements_is_refused_for_each(example: Example, dtype: str):
    p = example.instance(dtype)
    args, dims, _ = lanes_of(example, dtype, (0,), 0)
    with pytest.raises(UnsupportedError, match="under vmap, the shape of what it selects differs from element to"):
        batch_pairs(lambda *xs: results(p, *xs), args, dims)


@pytest.mark.parametrize(("example", "dtype"), BATCHED)
def test_compiled_batches_agree_with_a_loop(example: Example, dtype: str):
    p = example.instance(dtype)
    count = len(example.operands)
    for mapped in sorted({tuple(range(count)), (0,), (count - 1,)}):
        args, dims, elements = lanes_of(example, dtype, mapped, -1)

        def run(*xs: Any, dims: Any = dims) -> list[Any]:
            pairs = batch_pairs(lambda *ys: results(p, *ys), xs, dims)
            return [spread(value, at, LANES, 0) for value, at in pairs]

        s = stage(run, [aval_of(a) for a in args])
        for got, want in zip(compiled(s.jaxpr, [*args, *as_arrays(s.constants)]), looped(p, elements), strict=True):
            check_equal(got, want, example)


# -- what is missing ---------------------------------------------------------------------------------------------------
LINEAR = {
    "add", "broadcast_in_dim", "checkpoint", "concatenate", "cond", "convert", "cumsum", "custom_jvp", "custom_vjp",
    "div", "dot_general", "dynamic_slice", "dynamic_update_slice", "collective", "expm_frechet", "gather", "implicit",
    "loop",
    "mul", "neg", "pad", "reduce_precision", "reduce_sum", "reshape", "scatter", "select",
    "slice", "stop_gradient", "sub", "sylvester", "transpose", "triangular_solve", "update_slice",
    "butterflies", "complex", "conj", "conv_general_dilated", "fft", "imag", "real", "window_sum", "windows",
}  # fmt: skip
"""Primitives that are linear in some operand: those a linear program may consist of."""


def test_the_coverage_table_lists_every_rule_of_every_primitive():
    found = coverage()
    assert set(found) == set(primitives())
    assert all(set(rules) == RULES_OF_THE_BASE_CLASS for rules in found.values())
    lines = table().splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("--")][1:] == [
        name
        for family in sorted({c.__module__ for c in primitives().values()})
        for name in sorted(primitives())
        if primitives()[name].__module__ == family
    ]


@pytest.mark.parametrize(("example", "dtype"), FIRST)
def test_it_says_whether_its_result_may_be_a_view_and_whether_it_runs_jaxprs(example: Example, dtype: str):
    p, args = example.instance(dtype), example.arguments(dtype)
    if args and any(np.shares_memory(out, args[0]) for out in expected(p, *args)):
        assert p.gives_view
    nested = [x for value in p.parameters().values() for x in (value if isinstance(value, tuple) else (value,))]
    assert any(isinstance(x, Jaxpr) for x in nested) == p.runs_jaxprs
    if p.changes_part:
        (form,) = (e.form for e in lower(staged(p, args), "reference")[0])
        assert isinstance(form, (Update, Scatter))


RULES_OF_THE_BASE_CLASS = {
    name for name, member in vars(Primitive).items() if callable(member) and name[0] != "_" and name != "parameters"
}


ONLY_MAPPED = {"collective"}
"""Primitives that are in no program: `vmap` makes others of them (tests/lax/test_named_axes.py)."""


def test_no_primitive_lacks_a_rule_or_an_example():
    missing = [f"{name}: {rule}" for name, rules in coverage().items() for rule in REQUIRED if rules[rule] == "no"]
    missing += [f"{name}: transpose" for name in LINEAR if coverage()[name]["transpose"] == "no"]
    missing += [
        f"{name}: an example in tests/primitives/examples.py"
        for name in set(primitives()) - set(EXAMPLES) - ONLY_MAPPED
    ]
    assert not missing, "\n".join(sorted(missing))


def test_what_has_a_transpose_is_listed_as_linear():
    assert {name for name, rules in coverage().items() if rules["transpose"] != "no"} == LINEAR


@pytest.fixture
def bare():
    """A primitive without rules, registered for the duration of a test."""

    @frozen
    class Bare(Primitive):
        name = "bare"

    yield Bare()
    registry._REGISTRY.pop("bare")


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        ("abstract_eval", ()),
        ("impl", ()),
        ("lower", (None,)),
        ("jvp", ((), ())),
        ("transpose", (None,)),
        ("batch", ((), (), 1)),
    ],
)
def test_a_missing_rule_names_primitive_rule_and_module(bare: Primitive, rule: str, arguments: tuple[Any, ...]):
    assert coverage()["bare"][rule] == "no"
    with pytest.raises(MissingRuleError) as error:
        getattr(bare, rule)(*arguments)
    assert error.value.message == f"primitive 'bare' has no `{rule}` rule; it belongs in class Bare of {__name__}"
