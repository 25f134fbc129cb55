"""One suite for every backend: what traced NumPy programs compute against NumPy itself,
and that all of it ran in generated code.

A backend that cannot run here fails its tests with the reason; nothing is skipped.
"""

import contextlib
import doctest
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen

import tracejit as tj
from tests.backends.drivers import DRIVERS
from tests.backends.plain_c import EVERY_BACKEND
from tracejit.backends import registry
from tracejit.backends.device.backend import named_device
from tracejit.backends.device.program import DeviceProgram, grid_schedule
from tracejit.backends.opencl.runtime import OpenCLDevice
from tracejit.backends.reference.backend import ReferenceBackend
from tracejit.backends.registry import backend_reason, get_backend
from tracejit.ir.schedule import parse_schedule
from tracejit.primitives import shape as p
from tracejit.primitives.indexing import scatter
from tracejit.support import nodes
from tracejit.support.errors import BackendUnavailable, ScheduleError, UnsupportedError, UserError

BACKENDS = EVERY_BACKEND
FLOATS = ["f2", "f4", "f8"]
INTS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]

pytestmark = [pytest.mark.opencl, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


@frozen
class Checker:
    """Runs functions on one backend and compares what they return with NumPy."""

    backend: str

    def run(self, f: Callable[..., Any], *args: Any) -> list[np.ndarray]:
        """Results of the compiled function; every equation must lie in a kernel that the program launches."""
        compiled = tj.jit(f, backend=self.backend)
        lowered = compiled.lower(*args)
        kernels = {k.name for k in lowered.program.kernels()}
        outside = [e for e, where in lowered.report if where not in kernels | {"program"}]
        assert not outside, f"{outside} did not run in generated code"
        assert len(lowered.report) >= len(lowered.jaxpr.equations) > 0
        return leaves(compiled(*args))

    def check(self, f: Callable[..., Any], *args: Any, ulp: float = 0, exact: Callable[..., Any] | None = None) -> None:
        """Shapes and dtypes as NumPy's; values within `ulp` units in the last place
        of what NumPy computes in a wider type.

        `ulp=0` asks for NumPy's own values, bit for bit but for the payloads of NaNs.
        """
        got, own = self.run(f, *args), leaves(f(*args))
        precise = leaves((exact or f)(*map(widened, args))) if ulp else own
        assert len(got) == len(own)
        for n, (g, o, e) in enumerate(zip(got, own, precise, strict=True)):
            assert (g.dtype, g.shape) == (o.dtype, o.shape), f"result {n}"
            assert g.flags.c_contiguous
            if ulp and g.dtype.kind == "f":
                assert_within(g, e, ulp, f"result {n}")
            else:
                np.testing.assert_array_equal(g, o, err_msg=f"result {n}", strict=True)


def leaves(result: Any) -> list[np.ndarray]:
    flat = list(
        itertools.chain.from_iterable(
            r if isinstance(r, list) else [r] for r in (result if isinstance(result, (tuple, list)) else [result])
        )
    )
    return [np.asarray(r) for r in flat]


def widened(x: Any) -> Any:
    """A floating array in more digits than it has (float64 in as many as NumPy has here)."""
    return (
        x.astype(np.longdouble if x.dtype == np.float64 else np.float64)
        if isinstance(x, np.ndarray) and x.dtype.kind == "f"
        else x
    )


def assert_within(got: np.ndarray, exact: np.ndarray, ulp: float, what: str) -> None:
    """NaN and inf in the same places, the rest at most `ulp` units of the result's dtype away."""
    rounded = exact.astype(got.dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite], err_msg=what)
    unit = np.spacing(np.maximum(np.abs(rounded[finite]), np.finfo(got.dtype).tiny)).astype(np.float64)
    error = np.abs(got[finite].astype(exact.dtype) - exact[finite]) / unit
    assert error.max(initial=0) <= ulp, f"{what}: {error.max()} ulp"


@pytest.fixture(params=BACKENDS)
def on(request: pytest.FixtureRequest, record_backend: Callable[[str], None]) -> Checker:
    record_backend(request.param)
    if request.param in DRIVERS:
        request.getfixturevalue(f"{request.param}_devices")
    assert not (reason := backend_reason(request.param)), reason
    assert get_backend(request.param).name == request.param
    return Checker(request.param)


def normal(*shape: int, dtype: str = "f8", seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def integers(*shape: int, dtype: str = "i4", seed: int = 7) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


# -- programs


def black_scholes(price: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    def cdf(x: Any) -> Any:
        # Abramowitz and Stegun 26.2.17
        k = 1.0 / (1.0 + 0.2316419 * np.abs(x))
        poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
        w = 1.0 - 0.3989422804014327 * np.exp(-0.5 * x * x) * poly
        return np.where(x < 0, 1.0 - w, w)

    root = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + 0.5 * volatility * volatility) * years) / root
    d2 = d1 - root
    discounted = strike * np.exp(-rate * years)
    return price * cdf(d1) - discounted * cdf(d2), discounted * cdf(-d2) - price * cdf(-d1)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * scale + shift


def test_black_scholes(on: Checker):
    rng = np.random.default_rng(0)
    price, strike, years = rng.uniform(5, 30, 1003), rng.uniform(1, 100, 1003), rng.uniform(0.25, 10, 1003)
    for got, want in zip(
        on.run(black_scholes, price, strike, years, 0.02, 0.3),
        black_scholes(price, strike, years, 0.02, 0.3),
        strict=True,
    ):
        # Differences of nearby terms: the error is one of the terms', not of the result.
        assert np.abs(got - want).max() < 16 * np.spacing(100.0)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_softmax(on: Checker, dtype: str):
    x = (4 * normal(37, 301, dtype=dtype)).astype(dtype)
    (got,) = on.run(softmax, x)
    exact = softmax(x.astype("f8"))
    # exp turns the rounding of its argument (up to about 30) into a relative error.
    assert np.max(np.abs(got - exact) / exact) < 40 * np.finfo(dtype).eps
    assert got.dtype == x.dtype


def test_softmax_of_rows_with_infinities_and_nan(on: Checker):
    x = normal(4, 9)
    x[0, 3], x[1, 2], x[2, 5], x[3] = np.inf, -np.inf, np.nan, -np.inf
    on.check(softmax, x, ulp=8)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_layernorm(on: Checker, dtype: str):
    x, scale, shift = normal(29, 130, dtype=dtype), normal(130, dtype=dtype, seed=1), normal(130, dtype=dtype, seed=2)
    (got,) = on.run(layernorm, x, scale, shift)
    exact = layernorm(*(a.astype("f8") for a in (x, scale, shift)))
    assert got.dtype == x.dtype
    assert np.abs(got - exact).max() < 32 * np.finfo(dtype).eps * np.abs(exact).max()


# -- reductions and scans


def subsets(rank: int) -> list[tuple[int, ...]]:
    return [axes for n in range(1, rank + 1) for axes in itertools.combinations(range(rank), n)]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u2", "?"])
def test_sums_over_every_subset_of_axes(on: Checker, dtype: str):
    x = (
        normal(5, 17, 33, dtype=dtype)
        if dtype[0] == "f"
        else normal(5, 17, 33) > 0
        if dtype == "?"
        else integers(5, 17, 33, dtype=dtype)
    )

    def sums(x: Any) -> Any:
        return [np.sum(x, axis=axes) for axes in subsets(3)]

    got, own = on.run(sums, x), leaves(sums(x))
    for axes, g, o in zip(subsets(3), got, own, strict=True):
        assert (g.dtype, g.shape) == (o.dtype, o.shape), axes
        if dtype[0] != "f":
            np.testing.assert_array_equal(g, o, err_msg=str(axes))
            continue
        exact, terms = np.sum(x.astype("f8"), axis=axes), np.sum(np.abs(x.astype("f8")), axis=axes)
        # Blocked or pairwise: a few roundings deep, not one for each element.
        assert np.max(np.abs(g - exact) / terms) < 20 * np.finfo(dtype).eps, axes


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_long_sum_is_as_accurate_as_a_pairwise_one(on: Checker, symbolic: bool):
    x = np.full(400_000, 0.1, "f4")
    total = tj.jit(lambda x: np.sum(x), backend=on.backend)
    if symbolic:
        total(x[:300_000])
    got = total(x)
    exact = float(x[0]) * x.size
    assert abs(float(got) - exact) / exact < 32 * np.finfo("f4").eps


def test_other_reductions(on: Checker):
    x = normal(7, 40, 3)
    x[3, 5, 1], x[4, :, 2] = np.nan, 1.0

    def reductions(x: Any) -> Any:
        return [g(x, axis=axis) for g in (np.max, np.min, np.argmax, np.argmin) for axis in (0, 1, 2, None)]

    on.check(reductions, x)
    on.check(lambda b: [np.any(b, axis=0), np.all(b, axis=1), np.any(b), np.count_nonzero(b, axis=1)], x > 0.5)
    on.check(lambda x: [np.prod(x, axis=0), np.mean(x, axis=1), np.var(x, axis=2)], normal(7, 40, 3), ulp=64)


@pytest.mark.parametrize("n", [1, 5, 64, 1000])
def test_any_byte_but_zero_is_true(on: Checker, n: int):
    """Bools as other programs leave them: labels seen as a mask."""
    m = np.resize(np.array([0, 2, 4, 0, 255, 1, 254], np.uint8), n).view(bool)
    x, places = normal(n), np.array([0, n - 1, n // 2])

    def uses(m: Any, x: Any, places: Any) -> Any:
        counts = [m.sum(), m.any(), m.all(), np.count_nonzero(m), np.argmax(m), m[1:3].any()]
        return [*counts, m[-1] * 3, m[places], ~m, np.where(m, x, 0), x * m, x[m].sum() + 1, m & (x > 0)]

    on.check(uses, m, x, places, ulp=8)


@pytest.mark.parametrize("dtype", ["f4", "i8", "u1"])
def test_argmax_takes_the_first_of_equals(on: Checker, dtype: str):
    x = np.random.default_rng(2).integers(0, 5, (50, 200)).astype(dtype)
    on.check(lambda x: [np.argmax(x, axis=0), np.argmax(x, axis=1), np.argmin(x, axis=1), np.argmax(x)], x)


@pytest.mark.parametrize("dtype", ["?", *FLOATS, *INTS])
@pytest.mark.parametrize("n", [3, 40, 129])
def test_extrema_that_tie_and_those_that_are_the_least_or_greatest_values(on: Checker, dtype: str, n: int):
    info = None if dtype == "?" else np.finfo(dtype) if dtype[0] == "f" else np.iinfo(dtype)
    values = [False, True] if info is None else [info.min, 0, 1, info.max]
    if dtype[0] == "f":
        values = [-np.inf, -0.0, 0.0, 1.0, np.inf, np.nan]
    few = np.array(values, dtype)
    rows = [np.full(n, v, dtype) for v in few]  # all equal
    # one or two values at random places: of -0.0 and 0.0, of infinities and of NaNs the first wins
    for seed in range(24):
        rng = np.random.default_rng(seed)
        rows.append(rng.choice(rng.choice(few, 2), n))
        rows[-1][rng.integers(n, size=2)] = rng.choice(few, 2)
    x = np.stack(rows)
    on.check(lambda x: [np.argmax(x, axis=1), np.argmin(x, axis=1)], x)
    on.check(lambda x: [np.argmax(x, axis=0), np.argmin(x, axis=0)], x.T.copy())


@pytest.mark.parametrize("place", [0, 1, 70_000, 131_071, 131_072, 199_999])
def test_the_first_nan_of_a_long_array_is_its_extremum(on: Checker, place: int):
    x = normal(200_000, dtype="f4")
    x[[place, -1]] = np.nan
    on.check(lambda x: [np.argmax(x), np.argmin(x)], x)
    x[:] = -np.inf  # nothing is greater than where a search begins
    x[place:] = np.inf
    on.check(lambda x: [np.argmax(x), np.argmin(x)], x)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u8"])
def test_cumulative_sums(on: Checker, dtype: str):
    x = normal(23, 700, dtype=dtype) if dtype[0] == "f" else integers(23, 700, dtype=dtype)

    def scans(x: Any) -> Any:
        return [np.cumsum(x, axis=0), np.cumsum(x, axis=1), np.cumsum(x)]

    got, own = on.run(scans, x), leaves(scans(x))
    precise = leaves(scans(widened(x)))
    for g, o, e in zip(got, own, precise, strict=True):
        assert (g.dtype, g.shape) == (o.dtype, o.shape)
        if dtype[0] == "f":
            assert np.abs(g - e).max() < 64 * np.finfo(dtype).eps * np.abs(x).sum() ** 0.5 * 4
        else:
            np.testing.assert_array_equal(g, o)


def test_a_cumulative_product_and_running_extremes(on: Checker):
    x = np.random.default_rng(3).uniform(0.9, 1.1, (6, 50))
    on.check(lambda x: np.cumprod(x, axis=1), x, ulp=100)


# -- shapes


def test_concatenate_pad_and_roll(on: Checker):
    x, y = normal(5, 7), normal(3, 7)

    def roll(x: Any, by: int, axis: int) -> Any:
        n = x.shape[axis]
        start, shape = [0] * x.ndim, list(x.shape)
        start[axis], shape[axis] = n - by, by
        tail = p.slice_array(x, tuple(start), tuple(shape))
        shape[axis] = n - by
        return p.concatenate([tail, p.slice_array(x, (0,) * x.ndim, tuple(shape))], axis)

    def shaped(x: Any, y: Any) -> Any:
        joined = p.concatenate([x, y, x], 0)
        return (
            joined,
            p.pad(x, 3.5, (2, 0), (1, 4)),
            roll(x, 2, 0),
            roll(joined, 3, 1) * 2,
            p.pad(joined, 0.0, (0, 1), (0, 0)) + 1,
        )

    joined = np.concatenate([x, y, x])
    want = [
        joined,
        np.pad(x, ((2, 1), (0, 4)), constant_values=3.5),
        np.roll(x, 2, 0),
        np.roll(joined, 3, 1) * 2,
        np.pad(joined, ((0, 0), (1, 0))) + 1,
    ]
    for got, w in zip(on.run(shaped, x, y), want, strict=True):
        np.testing.assert_array_equal(got, w, strict=True)


@pytest.mark.parametrize("dtype", ["f4", "u1", "?"])
def test_transposes_reshapes_and_reversals(on: Checker, dtype: str):
    x = (100 * normal(4, 6, 5)).astype(dtype) if dtype != "?" else normal(4, 6, 5) > 0

    def shaped(x: Any) -> Any:
        turned = [p.transpose(x, perm) for perm in itertools.permutations(range(3))]
        return [
            *turned,
            p.reshape(turned[3], (15, 8)),
            p.reverse(x, (0, 2)),
            p.slice_array(x, (1, 5, 0), (2, 2, 5), (2, -3, 1)),
        ]

    turned = [np.transpose(x, perm) for perm in itertools.permutations(range(3))]
    want = [*turned, turned[3].reshape(15, 8), x[::-1, :, ::-1], x[1::2, 5:1:-3]]
    for got, w in zip(on.run(shaped, x)[1:], want[1:], strict=True):
        np.testing.assert_array_equal(got, w, strict=True)


STRIDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "every third": lambda x: x[:, ::3],
    "reversed": lambda x: x[::-1, ::-1],
    "transposed": lambda x: x.T,
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "inner": lambda x: x[2:-2, 3:-3],
    "backwards and sparse": lambda x: x[10:2:-2, -1::-5],
}


@pytest.mark.parametrize("view", STRIDED, ids=str)
def test_strided_arguments(on: Checker, view: str):
    x = STRIDED[view](normal(12, 31))
    assert not x.flags.c_contiguous
    on.check(lambda x, y: (x * 2 + y, np.max(x, axis=0), np.max(x, axis=1)), x, np.ascontiguousarray(x)[::-1])


def test_fields_of_records_and_odd_strides(on: Checker):
    records = np.zeros(40, np.dtype([("flag", "i1"), ("value", "f8"), ("count", "i4")]))
    records["value"], records["count"] = normal(40), np.arange(40)
    on.check(lambda v, c: v * c, records["value"], records["count"])


def test_scalars_and_rank_0(on: Checker):
    x = np.array(1.5)
    on.check(lambda x, y, k: (x + y, x * k, np.sum(x), np.maximum(x, k)), x, np.float32(0.25), 3)
    on.check(lambda a, b, c: (a * 2, b + 1.5, c), True, 7, 2.5)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (3, 0, 2)], ids=str)
def test_empty_arrays(on: Checker, shape: tuple[int, ...]):
    x = np.empty(shape, "f4")
    last = x.ndim - 1
    on.check(
        lambda x: (
            x + 1,
            np.sum(x),
            np.sum(x, axis=last),
            np.prod(x, axis=0),
            np.cumsum(x, axis=last),
            np.any(x > 0),
            np.ravel(x),
        ),
        x,
    )


def test_one_program_serves_many_extents(on: Checker):
    f = tj.jit(lambda x, y: (x * y, np.sum(x, axis=0), np.cumsum(y, axis=1)), backend=on.backend)
    for rows, columns in ((3, 5), (4, 6), (70, 9), (2, 1000), (0, 3)):
        if not rows:
            assert f.compilations == 2  # one for the first extents, one for all others
        x, y = integers(rows, columns, dtype="i8"), integers(rows, columns, dtype="i8", seed=1)
        for got, want in zip(f(x, y), (x * y, np.sum(x, axis=0), np.cumsum(y, axis=1)), strict=True):
            np.testing.assert_array_equal(got, want, strict=True)


# -- dtypes


def arithmetic(x: Any, y: Any) -> Any:
    return x + y, x - y, x * y, np.maximum(x, y), x < y, x == y, np.where(x > y, x, y), np.abs(x), -x


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_arithmetic_in_every_dtype(on: Checker, dtype: str):
    make = integers if dtype in INTS else normal
    on.check(arithmetic, make(3, 67, dtype=dtype), make(3, 67, dtype=dtype, seed=9))


@pytest.mark.parametrize("dtype", INTS)
def test_bits_and_shifts_in_every_integer_dtype(on: Checker, dtype: str):
    x, y = integers(130, dtype=dtype), integers(130, dtype=dtype, seed=9)
    shift = (np.arange(130) % (8 * x.itemsize)).astype(dtype)
    on.check(lambda x, y, s: (x & y, x | y, x ^ y, ~x, x << s, x >> s), x, y, shift)


def test_bools(on: Checker):
    a, b = normal(70) > 0, normal(70, seed=1) > 0
    on.check(
        lambda a, b: (a & b, a | b, a ^ b, ~a, np.logical_and(a, b), a == b, a < b, np.sum(a), a * 2.5, a + 1), a, b
    )


@pytest.mark.parametrize("dtype", ["?", "i1", "u4", "i8", "u8", "f2", "f4"])
def test_mixed_dtypes_promote_as_in_numpy(on: Checker, dtype: str):
    x = np.arange(-3, 6).astype(dtype)
    others = [np.arange(4, 13).astype(d) for d in ("?", "i1", "u1", "i4", "u4", "i8", "u8", "f4", "f8")]
    on.check(lambda x, *others: [(x + y) * y for y in others], x, *others)
    on.check(lambda x, *others: [x / y for y in others if y.dtype.itemsize > 2], x, *others)


def test_conversions(on: Checker):
    x = np.array([0.0, -0.0, 1.5, -2.5, 100.75, -100.25, 3e4, 0.1])
    targets = ["?", "i1", "i2", "i4", "i8", "u8", "f2", "f4"]
    on.check(lambda x: [x.astype(d) for d in targets if d not in ("i1", "u8")], x)
    on.check(lambda x: [x.astype(d) for d in [*targets, "u1", "u2", "u4", "f8"]], integers(200, dtype="i4"))


def test_doubles_round_once_on_their_way_to_half_precision(on: Checker):
    halves = np.arange(1 << 16, dtype=np.uint16).view("f2")
    halves = np.sort(halves[np.isfinite(halves)]).astype("f8")
    ties = (halves[:-1] + halves[1:]) / 2
    near = [ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), ties * (1 + 2.0**-26), ties * (1 - 2.0**-26)]
    corners = np.array([np.inf, -np.inf, np.nan, 65519.99, 65520, 1e300, -1e300, 1e-300, 0.0, -0.0])
    on.check(lambda x: x.astype("f2"), np.concatenate([halves, *near, corners]))


def test_half_precision_rounds_every_operation(on: Checker):
    x, y = normal(500, dtype="f2"), normal(500, dtype="f2", seed=1)
    on.check(lambda x, y: (x * y + x, (x + y) - x, x / y, np.sqrt(np.abs(x))), x, y)
    on.check(lambda x: np.exp(x), x, ulp=0.51)


# -- corners


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_by_zero_and_of_the_least(on: Checker, dtype: str):
    info = np.iinfo(dtype)
    values = np.array(
        [info.min, info.min + 1, 0, 1, 2, 7, info.max - 1, info.max] + ([-1, -2, -7] if info.min else []), dtype
    )
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    on.check(lambda x, y: (x // y, x % y), x, y)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floating_corners(on: Checker, dtype: str):
    info = np.finfo(dtype)
    values = np.array(
        [
            0.0,
            -0.0,
            1,
            -1,
            0.5,
            -2.5,
            1e-30,
            info.tiny,
            info.smallest_subnormal,
            info.max,
            -info.max,
            np.inf,
            -np.inf,
            np.nan,
        ],
        dtype,
    )
    x, y = (a.ravel() for a in np.meshgrid(values, values))

    def corners(x: Any, y: Any) -> Any:
        both = (
            x + y,
            x - y,
            x * y,
            x / y,
            np.maximum(x, y),
            np.minimum(x, y),
            np.fmax(x, y),
            np.copysign(x, y),
            x < y,
            x == y,
            x != y,
        )
        kinds = (np.isnan(x), np.isinf(x), np.isfinite(x))
        return *both, *kinds, np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.sqrt(x), np.abs(x), np.sign(x)

    on.check(corners, x, y)
    got, own = on.run(lambda x, y: x // y + 0 * y, x, y), x // y + 0 * y
    np.testing.assert_array_equal(got[0], own)


def test_the_sign_of_zero_survives(on: Checker):
    x = np.array([0.0, -0.0, 1.0, -1.0])
    got = on.run(lambda x: (x * -0.0, -x, x + 0.0), x)
    for g, w in zip(got, (x * -0.0, -x, x + 0.0), strict=True):
        np.testing.assert_array_equal(np.signbit(g), np.signbit(w))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_zeros_of_both_signs_stay_apart_in_one_kernel(on: Checker, dtype: str):
    def f(x: Any) -> Any:
        zero, minus = x.dtype.type(0.0), x.dtype.type(-0.0)
        return (
            np.where(x > 5, -0.0, x),
            np.where(x > 5, 0.0, x),
            np.copysign(x, -0.0),
            np.copysign(x, 0.0),
            np.copysign(x, minus),
            x + zero,
        )

    x = np.array([-0.0, 0.0, 7.0, -3.0], dtype)
    for g, w in zip(on.run(f, x), f(x), strict=True):
        np.testing.assert_array_equal(g, w)
        np.testing.assert_array_equal(np.signbit(g), np.signbit(w))


ELEMENTARY = [
    "exp",
    "expm1",
    "exp2",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "cbrt",
    "sqrt",
]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_elementary_functions(on: Checker, dtype: str):
    x = np.concatenate([normal(200, dtype=dtype), np.array([0, -0.0, 1, -1, 30, -30, np.inf, -np.inf, np.nan], dtype)])
    # The reference runs the C library's functions: glibc's cbrt is off by 2.4.
    on.check(lambda x: [getattr(np, name)(x) for name in ELEMENTARY], x, ulp=3 if on.backend == "reference" else 2)


# -- control flow and indexing: expected values from plain Python and NumPy


def test_a_fori_loop_over_whole_arrays(on: Checker):
    """The body reduces over everything, so the loop stays between kernels."""
    x = np.linspace(0, 1, 600).reshape(20, 30)

    def steps(x: Any) -> Any:
        return tj.lax.fori_loop(
            0, 7, lambda i, x: x / np.sum(x, axis=1, keepdims=True) + np.max(x, axis=0) * (i + 1), x
        )

    expected = x
    for i in range(7):
        expected = expected / np.sum(expected, axis=1, keepdims=True) + np.max(expected, axis=0) * (i + 1)
    np.testing.assert_allclose(on.run(steps, x)[0], expected, rtol=1e-13)


def test_a_while_loop_with_several_carries(on: Checker):
    def halve(x: Any) -> Any:
        return tj.lax.while_loop(lambda s: np.max(s[0]) > 1.0, lambda s: (s[0] * 0.5, s[1] + 1, s[0]), (x, 0, x))

    x, count = normal(40, 5) * 100, 0
    expected, before = x, x
    while np.max(expected) > 1:
        expected, before, count = expected * 0.5, expected, count + 1
    got = on.run(halve, x)
    np.testing.assert_array_equal(got[0], expected)
    np.testing.assert_array_equal(got[2], before)
    assert int(got[1]) == count


def test_a_while_loop_that_never_runs_returns_its_start(on: Checker):
    got = on.run(lambda x: tj.lax.while_loop(lambda s: np.sum(s) < 0, lambda s: s + 1, x), np.ones(9))
    np.testing.assert_array_equal(got[0], np.ones(9))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond_takes_one_branch(on: Checker, sign: float):
    x = np.arange(1.0, 30.0) * sign
    got = on.run(lambda x: tj.lax.cond(np.sum(x) > 0, lambda x: np.cumsum(x), lambda x: x - np.min(x), x), x)
    np.testing.assert_array_equal(got[0], np.cumsum(x) if sign > 0 else x - np.min(x))


def test_a_scan_stacks_what_each_step_returns(on: Checker):
    def filtered(x: Any) -> Any:
        return tj.lax.scan(lambda s, row: (0.5 * s + row, s - row), np.zeros(6), x)

    x = normal(25, 6)
    state, rows = np.zeros(6), []
    for row in x:
        rows.append(state - row)
        state = 0.5 * state + row
    got = on.run(filtered, x)
    np.testing.assert_allclose(got[0], state, rtol=1e-14)
    np.testing.assert_allclose(got[1], np.array(rows), rtol=1e-14)


def test_basic_slices_read_and_written(on: Checker):
    def shifted(x: Any) -> Any:
        y = x * 1.0
        y[1:-1, ::2] = x[:-2, ::2] + x[2:, ::2]
        y[-1] += 10.0
        y[:, 3] = 0.5
        return y, x[::-2, 1:], x[2]

    x = normal(11, 8)
    for got, want in zip(on.run(shifted, x), shifted(x), strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_gathers_with_negative_and_repeated_indices(on: Checker, dtype: str):
    x = (100 * normal(50, 4)).astype(dtype)
    index = np.array([3, -1, 0, 3, 49, -50, 17])
    on.check(lambda x, i: (x[i], x[:, i % 4], x[i, 2]), x, index)


def test_masked_assignments(on: Checker):
    def clipped(x: Any) -> Any:
        y = x * 1.0
        y[y > 0.5] = 0.5
        y[x < -0.5] = -1.0
        return y

    x = normal(33, 7)
    np.testing.assert_array_equal(on.run(clipped, x)[0], clipped(x))


@pytest.mark.parametrize("dtype", ["i4", "i8", "f8"])
def test_scatter_adds_count_repeated_indices(on: Checker, dtype: str):
    x = np.zeros(10, dtype)
    index = np.random.default_rng(4).integers(0, 10, 500)
    values = (integers(500, dtype="i4") % 100).astype(dtype)

    def added(x: Any, index: Any, values: Any) -> Any:
        return scatter(x, values, (0,), (index,), "add")

    expected = x.copy()
    np.add.at(expected, index, values)
    np.testing.assert_array_equal(on.run(added, x, index, values)[0], expected)  # whole numbers: exact in any order


def test_arguments_changed_in_place_are_written_back(on: Checker):
    def change(x: Any, y: Any) -> Any:
        x += 1
        y[2:5] = x[:3] * 2
        return np.sum(x)

    x, y = np.zeros(6), np.ones(6)
    total = tj.jit(change, backend=on.backend)(x, y)
    assert total == 6
    np.testing.assert_array_equal(x, np.ones(6))
    np.testing.assert_array_equal(y, [1, 1, 2, 2, 2, 1])


def test_loops_over_symbolic_extents(on: Checker):
    f = tj.jit(
        lambda x: tj.lax.fori_loop(0, x.shape[0], lambda i, s: s + np.sum(x[i]) * (i + 1), 0.0), backend=on.backend
    )
    for rows in (3, 5, 9):
        x = integers(rows, 4, dtype="i2").astype("f8")
        assert float(f(x)) == float(np.sum(np.sum(x, axis=1) * (np.arange(rows) + 1)))


# -- the registry


def test_a_backend_that_is_switched_off_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACEJIT_DISABLE", "opencl, reference")
    assert backend_reason("opencl") == "backend 'opencl' is switched off by TRACEJIT_DISABLE"
    assert backend_reason("reference") == "backend 'reference' is switched off by TRACEJIT_DISABLE"
    assert backend_reason("cpu") == ""
    with pytest.raises(BackendUnavailable, match="'reference' is switched off"):
        tj.jit(lambda x: x + 1, backend="reference")(np.ones(3))
    assert {"opencl", "vulkan", "cpu", "reference"} <= set(tj.list_backends())  # listed all the same


def test_an_unknown_backend_names_those_there_are():
    known = ", ".join(tj.list_backends())
    with pytest.raises(BackendUnavailable, match=f"there is no backend 'tpu'; registered are {known}"):
        tj.jit(lambda x: x + 1, backend="tpu")(np.ones(3))


def test_a_backend_that_cannot_load_keeps_its_reason(monkeypatch: pytest.MonkeyPatch):
    tries: list[int] = []

    def fail() -> Any:
        tries.append(1)
        raise BackendUnavailable("no such device here: plug one in")

    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    registry.register_backend("broken", fail, priority=1)
    assert backend_reason("broken") == backend_reason("broken") == "no such device here: plug one in"
    assert tries == [1]


def test_a_backend_whose_modules_are_missing_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch):
    def missing() -> Any:
        raise ImportError("libdriver.so: cannot open shared object file")

    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    registry.register_backend("driverless", missing, priority=1)
    registry.register_backend("misspelled", "tracejit.backends.reference.backend:Referee", priority=1)
    assert backend_reason("driverless") == (
        "backend 'driverless' cannot be loaded: libdriver.so: cannot open shared object file"
    )
    assert "backend has no Referee" in backend_reason("misspelled")
    x = np.ones((3, 3))
    np.testing.assert_array_equal(tj.jit(lambda x: x @ x, alternatives=("blas",))(x), x @ x)


def test_a_backend_is_registered_under_the_name_that_it_has(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    registry.register_backend("slow", ReferenceBackend, priority=1)
    with pytest.raises(BackendUnavailable, match="backend 'slow' calls itself 'reference'; give register_backend the"):
        tj.jit(lambda x: x + 1, backend="slow")(np.ones(3))


def test_a_device_without_doubles_refuses_them_with_a_hint(
    opencl_devices: list[Any], record_backend: Callable[[str], None]
):
    record_backend("opencl")
    device = OpenCLDevice(opencl_devices[0].raw)
    device.capabilities = evolve(device.capabilities, fp64=False)
    lowered = tj.jit(lambda x: x * 2, backend="opencl").lower(np.ones(3))
    with pytest.raises(
        UnsupportedError, match=r"has no f64 .cl_khr_fp64., which is needed by .*; use f32 arrays on this device"
    ):
        DeviceProgram(lowered.program, device)
    single = tj.jit(lambda x: x * 2, backend="opencl").lower(np.ones(3, "f4"))
    np.testing.assert_array_equal(
        DeviceProgram(single.program, device).run([np.ones(3, "f4")], {})[0], np.full(3, 2, "f4")
    )


def test_opencl_devices_are_chosen_by_number_or_name(opencl_devices: list[Any], record_backend: Callable[[str], None]):
    record_backend("opencl")
    first = opencl_devices[0]
    assert named_device("", opencl_devices, "") is named_device("0", opencl_devices, "") is first
    assert named_device(first.name[:5].lower(), opencl_devices, "") is first
    with pytest.raises(BackendUnavailable, match=r"TRACEJIT_OPENCL_DEVICE=99 names no device; there are 0: "):
        named_device("99", opencl_devices, "TRACEJIT_OPENCL_DEVICE")


def test_grid_options_of_schedules_are_checked(opencl_devices: list[Any], record_backend: Callable[[str], None]):
    record_backend("opencl")
    default = opencl_devices[0].default_schedule
    assert grid_schedule(parse_schedule("grid work_group 64; grid rows group"), default) == evolve(
        default, work_group=64, rows="group"
    )
    for text, reason in [
        ("grid lanes 3", "the options work_group, groups, rows, stage, jam"),
        ("grid rows all", "auto, item or group"),
        ("vector L0 4 1", "may be set"),
        ("grid work_group 3", "power of two"),
    ]:
        with pytest.raises(ScheduleError, match=reason):
            grid_schedule(parse_schedule(text), default)


def test_the_texts_of_each_backend(on: Checker):
    lowered = tj.jit(lambda x: np.exp(x), backend=on.backend).lower(np.ones(3, "f4"))
    start = {"cpu": "declare", "reference": "kernel exp", "opencl": "#pragma OPENCL", "vulkan": "OpCapability"}
    assert start.get(on.backend, "") in lowered.text("code")
    with contextlib.suppress(UnsupportedError):  # not every backend makes machine code itself
        assert lowered.text("asm")
    with pytest.raises(UserError, match="there is no stage 'assembly'"):
        lowered.text("assembly")


def test_the_example_of_the_list_holds_with_another_backend(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    registry.register_backend("another", "tests.backends.plain_c:PlainC", priority=99)
    (example,) = doctest.DocTestFinder().find(registry.list_backends, globs={})
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_sum_over_an_extent_that_is_no_polynomial(
    rows: int, opencl_devices: list[Any], record_backend: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    """As a GPU is given it: as one loop over all elements, if their number is known before."""
    record_backend("opencl")
    device = opencl_devices[0]
    monkeypatch.setattr(device, "default_schedule", nodes.evolve(device.default_schedule, contiguous=False))
    f = tj.jit(lambda x: (x[:rows, ::3] * 2).sum(), backend="opencl", dynamic_shapes=True)
    for n in (11, 12, 40):
        x = np.arange(2.0 * n).reshape(2, n)
        assert f(x) == (x[:rows, ::3] * 2).sum()
