"""The lax names against plain NumPy, eagerly, compiled, and with symbolic extents."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import lax
from tracejit.ir.program import CountedLoop, Launch
from tracejit.support.errors import DtypeError, ShapeError, TracejitError, TracerError, UnsupportedError

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
I, J = RNG.integers(-9, 9, (3, 4)), RNG.integers(1, 5, (3, 4)) * RNG.choice([-1, 1], (3, 4))
HALVES = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999999999999994, 1e17, -7.2])


def interior(x: Any) -> Any:
    out = np.zeros((6, 7))
    out[1:4, ::2] = x
    return out


CASES: list[tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = [
    (lax.add, np.add, (X, Y)),
    (lax.sub, np.subtract, (X, Y)),
    (lambda x: lax.mul(x, 2), lambda x: x * 2, (X,)),
    (lambda x: lax.sub(1.0, x), lambda x: 1 - x, (X,)),
    (lax.div, np.divide, (X, Y)),
    (lax.div, lambda i, j: np.trunc(i / j).astype(int), (I, J)),
    (lax.rem, np.fmod, (X * 9, Y)),
    (lax.rem, np.fmod, (I, J)),
    (lax.rem, np.fmod, (np.array([np.iinfo(np.int64).min, 7, -7]), np.array([3, -4, 4]))),
    (lax.rem, np.fmod, (I.astype(np.uint8), np.abs(J).astype(np.uint8))),
    (lax.pow, np.power, (np.abs(X), Y)),
    (lax.max, np.maximum, (X, Y)),
    (lax.min, np.minimum, (X, Y)),
    (lax.neg, np.negative, (X,)),
    (lax.abs, np.abs, (X,)),
    (lax.sign, np.sign, (X,)),
    (lax.floor, np.floor, (X,)),
    (lax.ceil, np.ceil, (X,)),
    (lax.round, lambda x: np.array([1, 2, 3, -1, -3, 0, 1e17, -7.0]), (HALVES,)),
    (lambda x: lax.round(x, 1), np.rint, (HALVES,)),
    (lax.rsqrt, lambda x: 1 / np.sqrt(x), (np.abs(X),)),
    (lax.logistic, lambda x: 1 / (1 + np.exp(-x)), (X,)),
    (lambda x: lax.integer_pow(x, 5), lambda x: x**5, (X,)),
    (lambda x: lax.integer_pow(x, -3), lambda x: x**-3.0, (X,)),
    (lambda x: lax.integer_pow(x, 0), np.ones_like, (X,)),
    (lambda x: lax.integer_pow(x, 4), lambda x: x**4, (I,)),
    (lax.square, np.square, (X,)),
    (lax.reciprocal, lambda x: 1 / x, (X,)),
    (lax.atan2, np.arctan2, (X, Y)),
    (lax.is_finite, np.isfinite, (np.array([1.0, np.inf, np.nan]),)),
    (lax.lt, np.less, (X, Y)),
    (lax.bitwise_not, np.invert, (I,)),
    (lax.bitwise_xor, np.bitwise_xor, (I, J)),
    (
        lax.shift_right_logical,
        lambda i, j: (i.astype(np.uint64) >> j.astype(np.uint64)).astype(np.int64),
        (I, np.abs(J)),
    ),
    (lax.shift_right_arithmetic, np.right_shift, (I, np.abs(J))),
    (
        lax.shift_right_arithmetic,
        lambda i, j: (i.view(np.int8) >> j.view(np.int8)).view(np.uint8),
        (np.array([200, 100], np.uint8), np.array([1, 2], np.uint8)),
    ),
    (lax.select, np.where, (X > 0, X, Y)),
    (lax.select_n, lambda c, x, y: np.where(c, y, x), (X > 0, X, Y)),
    (lax.select_n, lambda n, *xs: np.choose(n, xs), ((I % 3).astype(np.int32), X, Y, X * 2)),
    (lambda x: lax.clamp(-1, x, 1.0), lambda x: np.clip(x, -1, 1), (X,)),
    (lambda x: lax.convert_element_type(x, np.float32), lambda x: x.astype(np.float32), (X,)),
    (lambda: lax.full((2, 3), 1.5), lambda: np.full((2, 3), 1.5), ()),
    (lambda x: lax.full_like(x, 7), lambda x: np.full_like(x, 7), (X,)),
    (lambda: lax.iota(np.int32, 5), lambda: np.arange(5, dtype=np.int32), ()),
    (
        lambda: lax.broadcasted_iota(np.float32, (2, 3), 1),
        lambda: np.broadcast_to(np.arange(3, dtype=np.float32), (2, 3)),
        (),
    ),
    (lambda x: lax.broadcast(x, (2,)), lambda x: np.broadcast_to(x, (2, *x.shape)), (X,)),
    (
        lambda x: lax.broadcast_in_dim(x, (2, 3, 5, 4), (1, 3)),
        lambda x: np.broadcast_to(x[:, None], (2, 3, 5, 4)),
        (X,),
    ),
    (lambda x: lax.reshape(x, (6, 2)), lambda x: x.reshape(6, 2), (X,)),
    (lambda x: lax.reshape(x, (12,), (1, 0)), lambda x: x.T.reshape(12), (X,)),
    (lambda x: lax.collapse(x, 0, 2), np.ravel, (X,)),
    (lambda x: lax.expand_dims(x, (0, -1)), lambda x: x[None, :, :, None], (X,)),
    (lambda x: lax.squeeze(lax.expand_dims(x, (1,)), (1,)), lambda x: x, (X,)),
    (lambda x: lax.transpose(x, (1, 0)), np.transpose, (X,)),
    (lambda x: lax.rev(x, (0,)), np.flipud, (X,)),
    (lambda x, y: lax.concatenate([x, y], -1), lambda x, y: np.hstack([x, y]), (X, Y)),
    (lambda x: lax.pad(x, 0.0, [(1, 2, 0), (0, 0, 1)]), interior, (X,)),
    (lambda x: lax.pad(x, 0.0, [(-1, 2, 0), (0, -2, 1)]), lambda x: interior(x)[2:, :5][[0, 1, 2, 3]], (X,)),
    (lambda x: lax.slice(x, (0, 1), (3, 4), (2, 2)), lambda x: x[0:3:2, 1:4:2], (X,)),
    (lambda x: lax.slice_in_dim(x, 1, None), lambda x: x[1:], (X,)),
    (lambda x: lax.slice_in_dim(x, 0, -1, 2, axis=1), lambda x: x[:, 0:-1:2], (X,)),
    (lambda x: lax.index_in_dim(x, -1, keepdims=False), lambda x: x[-1], (X,)),
    (lambda x: lax.dynamic_slice(x, (1, 7), (2, 2)), lambda x: x[1:3, 2:4], (X,)),
    (lambda x: lax.dynamic_slice(x, (-1, -2), (1, 2)), lambda x: x[-1:, -2:], (X,)),
    (lambda x, n: lax.dynamic_slice_in_dim(x, n, 2, axis=1), lambda x, n: x[:, 1:3], (X, np.array(1))),
    (lambda x, n: lax.dynamic_index_in_dim(x, n, keepdims=False), lambda x, n: x[2], (X, np.array(-1))),
    (
        lambda x, y: lax.dynamic_update_slice(x, y[:1, :2], (2, 1)),
        lambda x, y: np.concatenate([x[:2], np.concatenate([x[2:, :1], y[:1, :2], x[2:, 3:]], 1)]),
        (X, Y),
    ),
    (
        lambda x, y, n: lax.dynamic_update_index_in_dim(x, y[0], n, 0),
        lambda x, y, n: np.stack([x[0], x[1], y[0]]),
        (X, Y, np.array(2, np.int32)),
    ),
    (lambda x, y: lax.dot(x, lax.transpose(y, (1, 0))), lambda x, y: x @ y.T, (X, Y)),
    (lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,)))), lambda x, y: (x * y).sum(1), (X, Y)),
    (lambda x: lax.reduce_sum(x, (0,)), lambda x: x.sum(0), (X,)),
    (lambda x: lax.reduce_max(x, (1, 0)), np.max, (X,)),
    (lambda x: lax.reduce_or(lax.gt(x, 0.0), (1,)), lambda x: (x > 0).any(1), (X,)),
    (lambda x: lax.reduce_and(lax.gt(x, -9.0), (1,)), lambda x: (x > -9).all(1), (X,)),
    (lambda x: lax.cumsum(x, 0, reverse=True), lambda x: x[::-1].cumsum(0)[::-1], (X,)),
    (lambda x: lax.cummax(x, 1), lambda x: np.maximum.accumulate(x, 1), (X,)),
    (lambda x: lax.argmax(x, -1, np.int32), lambda x: x.argmax(1).astype(np.int32), (X,)),
    (lambda x: lax.argmin(x, 0), lambda x: x.argmin(0), (X,)),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_agrees_with_numpy(number: int):
    f, reference, args = CASES[number]
    want = np.asarray(reference(*args))
    for g in (f, tj.jit(f), tj.jit(dynamic_shapes=True)(lambda *xs: f(*xs))):
        got = np.asarray(g(*args))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.add(x, 1.0),
        lambda x: lax.transpose(x, (1, 0)),
        lambda x: lax.reduce_sum(x, (0,)),
        lambda x: lax.dynamic_index_in_dim(x, 0),
        lambda x: lax.concatenate([x, x], 0),
        lambda x: lax.pad(x, 0.0, [(1, 1, 0), (0, 0, 1)]),
        lambda x: lax.slice_in_dim(x, 0, -1),
        lambda x: lax.rev(x, (0, 1)),
    ],
)
def test_no_extent_is_needed(f: Any):
    g = tj.jit(dynamic_shapes=True)(lambda x: f(x))
    g(X)
    assert "n0" in g.explain().splitlines()[0]


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: lax.add(x, x.astype(np.float32)), DtypeError, "does not promote"),
        (lambda x: lax.add(x, np.ones(4)), ShapeError, "differ in shape"),
        (lambda x: lax.add(x.astype(int), 1.5), DtypeError, "meets an array of int64"),
        (lambda x: lax.transpose(x, (0, 0)), ShapeError, "not a permutation"),
        (lambda x: lax.reduce_and(x, (0,)), DtypeError, "takes bool"),
        (lambda x: lax.slice(x, (0, 0), (4, 4)), ShapeError, "not a slice of axis 0"),
        (lambda x: lax.squeeze(x, (0,)), ShapeError, "extent 3, not 1"),
        (lambda x: lax.dot(x, x), ShapeError, "contracted axes differ"),
        (lambda x: lax.pad(x, 0.0, [(0, 0, 0)]), ShapeError, "1 entries"),
        (lambda x: lax.reduce_sum(x, (2,)), ShapeError, "axis 2 is out of bounds"),
        (lambda x: lax.integer_pow(x.astype(int), -1), DtypeError, "no negative power"),
        (lambda x: lax.sqrt(x.astype(int)), DtypeError, "does not accept"),
    ],
)  # fmt: skip
def test_errors_name_the_fault_and_the_line(f: Any, error: Any, message: str):
    with pytest.raises(error, match=message) as caught:
        tj.jit(f)(X)
    assert "test_lax.py" in str(caught.value)


@pytest.mark.parametrize("jit", [False, True])
def test_axes_of_extent_1_are_repeated(jit: bool):
    run = tj.jit if jit else lambda f: f
    x, y = np.arange(12.0).reshape(3, 4), np.array([[1.0, 2.0, 4.0, 8.0]])
    for f, want in ((lax.add, x + y), (lax.lt, x < y), (lax.rem, x % y), (lax.div, x / y), (lax.pow, x**y)):
        np.testing.assert_allclose(run(f)(x, y), want)
        np.testing.assert_array_equal(
            run(f)(y.T, y), {lax.add: y.T + y, lax.lt: y.T < y, lax.rem: y.T % y, lax.div: y.T / y, lax.pow: y.T**y}[f]
        )
    with pytest.raises(ShapeError, match=r"\[add\] operands differ in shape: f64\[3,4\], f64\[4\]"):
        run(lax.add)(x, y[0])


FIRST_CALLS = [
    "tj.lax.fori_loop(0, 3, lambda i, s: s + i, np.zeros(2))",
    "tj.lax.while_loop(lambda s: s < 5, lambda s: s + 1.0, 0.0)", "tj.lax.pad(np.ones(2), 0.0, [(1, 1, 0)])",
    "tj.lax.scan(lambda c, x: (c + x, c * x), 0.0, np.arange(3.0))",
    "tj.lax.map(lambda v: np.array([v, v]), np.arange(3.0))",
    "tj.lax.switch(1, [lambda x: x, lambda x: -x], np.ones(2))",
]  # fmt: skip


@pytest.mark.parametrize("call", FIRST_CALLS)
def test_without_jit_and_before_anything_was_traced(call: str):
    source = f"import numpy as np, tracejit as tj; print(repr({call}))"
    found = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    assert found.strip() == repr(eval(call))


def test_the_function_of_map_is_traced_as_that_of_scan():
    log = np.zeros(2)

    def counts(v: Any) -> Any:
        log[0] += 1
        return v * 2

    with pytest.raises(UnsupportedError, match="changed in place"):
        tj.lax.map(counts, np.arange(3.0))

    def fills(v: Any) -> Any:
        z = np.zeros(2)
        z[0] = v
        return z + np.full(2, v) + max(v, 2.0)

    np.testing.assert_array_equal(tj.lax.map(fills, np.arange(4.0)), [fills(v) for v in np.arange(4.0)])


OWN_RESULTS: dict[str, Callable[[Any], Any]] = {
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (1, 0), (2, 4)), "slice": lambda x: lax.slice(x, (0, 0), (2, 4)),
    "slice_in_dim": lambda x: lax.slice_in_dim(x, 0, 3), "index_in_dim": lambda x: lax.index_in_dim(x, 1),
    "reshape": lambda x: lax.reshape(x, (12,)), "the same shape": lambda x: lax.reshape(x, (3, 4)),
    "transpose": lambda x: lax.transpose(x, (1, 0)), "expand_dims": lambda x: lax.expand_dims(x, (0,)),
    "squeeze": lambda x: lax.squeeze(x[None], (0,)), "rev": lambda x: lax.rev(x, (0,)),
    "broadcast": lambda x: lax.broadcast(x, (2,)), "collapse": lambda x: lax.collapse(x, 0, 2),
    "pad": lambda x: lax.pad(x, 0.0, ((0, 0, 0), (0, 0, 0))), "iota": lambda x: lax.iota("f8", 4),
    "full_like": lambda x: lax.full_like(x, 2.0), "dynamic_index_in_dim": lambda x: lax.dynamic_index_in_dim(x, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN_RESULTS)
def test_results_share_no_memory_with_operands_jitted_or_not(name: str):
    def f(x: Any) -> Any:
        y = OWN_RESULTS[name](x)
        z = y.copy()
        y[...] = 77
        x[...] = -1
        return x, y, z

    x = np.arange(12.0).reshape(3, 4)
    for found, expected in zip(tj.jit(f)(x.copy()), f(x.copy()), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert np.all(f(x.copy())[1] == 77)
    assert np.all(f(x.copy())[0] == -1)


@pytest.mark.parametrize("xs", [3.0, np.float64(3.0), np.array(3.0), (np.ones(3), 2)])
def test_scan_and_map_over_a_number_are_refused(xs):
    for run in (lambda: tj.lax.scan(lambda c, x: (c, c), 0.0, xs), lambda: tj.lax.map(lambda x: x, xs)):
        with pytest.raises(ShapeError, match="leading axis of xs"):
            run()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_the_index_of_a_loop_does_not_turn_around(dtype):
    programs = [
        lambda b, x: lax.fori_loop(b[0], b[1], lambda i, s: s + i * i * 1000, np.int64(0)),
        lambda b, x: lax.fori_loop(b[0], x.shape[0], lambda i, s: s + x[i], 0.0),
        lambda b, x: lax.fori_loop(b[0], b[1] + 5, lambda i, s: s + x[i - 1] * i, 0.0),
        lambda b, x: lax.fori_loop(2, b[1], lambda i, s: s * 3 % 1009 + i, np.int64(1)),
    ]
    b, x = np.array([3, 100], dtype), np.arange(300.0)
    for f in programs:
        np.testing.assert_array_equal(tj.jit(f)(b, x), f(b, x))
    once = lambda q: lax.fori_loop(q, 200, lambda i, s: s + i * 20, np.int64(0))  # noqa: E731
    np.testing.assert_array_equal(tj.jit(tj.vmap(once))(b), [once(int(q)) for q in b])
    assert tj.jit(once)(b[1]) == once(int(b[1]))


@pytest.mark.filterwarnings("ignore:.* was compiled for")
@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_the_ends_of_a_loop_stay_what_they_are(dtype: str, as_array: bool):
    """Both before and after the loop, and in its body; NumPy's scalars are no Python numbers."""
    programs: list[Callable[..., Any]] = [
        lambda a, n: (lax.fori_loop(0, n, lambda i, c: c + 1, a) / n, n),
        lambda a, n: (n, a * n, lax.fori_loop(n, 9, lambda i, c: c + i, a), a * n),
        lambda a, n: lax.fori_loop(n, n + n, lambda i, c: c + n, np.float64(0)),
        lambda a, n: [a + n for _ in [lax.fori_loop(0, n, lambda i, c: c, a)]],
    ]

    def ranges(a: Any, n: Any) -> Any:
        for i in tj.range(n):
            a[i % 3] += n
        return a / n, n

    for f in (*programs, ranges):
        jitted = tj.jit(f)
        for a in (np.ones(3, np.float32), np.ones(3, np.int16)):
            if f is ranges and (a.dtype.kind == "i" or as_array):
                continue
            for n in (3, 4, 0):
                end = np.array(n, dtype) if as_array else np.dtype(dtype).type(n)
                with np.errstate(all="ignore"):
                    found, expected = jitted(a.copy(), end), f(a.copy(), end)
                pairs = (
                    [(found, expected)]
                    if isinstance(expected, np.ndarray | np.generic)
                    else zip(found, expected, strict=True)
                )
                for got, want in pairs:
                    assert np.asarray(got).dtype == np.asarray(want).dtype
                    assert as_array or type(got) is type(want)
                    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_an_index_that_a_loop_does_not_use_is_not_counted():
    x = np.arange(40.0)
    for use, launches in ((lambda i, u: np.roll(u, 1) * 2, 1), (lambda i, u: np.roll(u, 1) * i, 2)):
        f = lambda u, use=use: tj.lax.fori_loop(0, 7, use, u)  # noqa: E731
        (loop,) = [s for s in tj.jit(f).lower(x).program.steps if isinstance(s, CountedLoop)]
        assert sum(isinstance(s, Launch) for s in loop.body) == launches
        np.testing.assert_array_equal(tj.jit(f)(x), f(x))


def test_the_body_of_a_loop_does_not_move_its_end():
    def f(a: Any, n: Any) -> Any:
        m = np.full((), n)

        def body(i: Any, c: Any) -> Any:
            m[...] = 0
            return c + 1

        return lax.fori_loop(0, m, body, a), m

    for dtype in (np.int64, np.int32, int):
        a, m = tj.jit(f)(np.zeros(2), dtype(3))
        assert a.tolist() == [3, 3]
        assert m == 0


def test_ends_beyond_64_bits_are_refused():
    def f(a: Any, n: Any, m: Any) -> Any:
        for i in tj.range(n, m):
            a[i % 3] = 7
        return a

    for n, m in ((np.uint64(2**64 - 1), 6), (np.uint64(2**63), np.uint64(2**63 + 2))):
        with pytest.raises((TracejitError, OverflowError)):
            tj.jit(f)(np.arange(3), n, m)
        with pytest.raises((TracejitError, OverflowError)):
            tj.jit(lambda a, n, m: lax.fori_loop(n, m, lambda i, c: c + 1, a))(np.arange(3), n, m)
    with pytest.raises(UnsupportedError, match="64 bits"):
        tj.jit(lambda a, m: f(a, -(2**64), m))(np.arange(3), np.int64(6))


@pytest.mark.filterwarnings("ignore:f was compiled for")
@pytest.mark.parametrize("step", [1, 2, 3, -1, None])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint64])
def test_a_range_counts_in_python_integers(step: int | None, dtype: Any):
    top = min(int(np.iinfo(dtype).max), 100_000)

    def f(a, b, *rest):
        s = np.zeros(1, np.int64)
        for i in tj.range(a, b, *rest):
            s[0] += i * i + (i << 3) + i + 200
        return s

    calls: list[tuple[Any, ...]] = [(0, 5), (dtype(top - 5), dtype(top)), (dtype(top), dtype(top - 4))]
    calls += [(dtype(top - 5), top), (top - 5, dtype(top)), (0, 7), (5, 0)]
    if step is not None:
        calls = [(*c, step) for c in calls]
    for order in (calls, calls[::-1]):
        jitted = tj.jit(f)
        for call in order:
            np.testing.assert_array_equal(jitted(*call), f(*call), err_msg=str(call))


@pytest.mark.parametrize("end", [0.2, np.float64(2), np.array(2.5), np.array([2, 3])])
def test_a_counted_loop_counts_in_integers(end: Any):
    with pytest.raises(TypeError):
        tj.jit(lambda x: tj.lax.fori_loop(0, end, lambda i, c: c + 1, x))(1.0)
    with pytest.raises((TypeError, TracejitError)):
        tj.jit(lambda x, end: tj.lax.fori_loop(0, end, lambda i, c: c + 1, x))(1.0, end)


def test_masks_in_loops_of_bodies_outside_of_programs():
    def f(a, loop=tj.lax.while_loop):
        z = np.zeros_like(a)

        def step(c):
            for _ in tj.range(2):
                z[z > 2] = 1
                z[a > 0.5] += 1.5
            return c + 1

        loop(lambda c: c < 3, step, 0)
        return z

    def plain(condition, body, c):
        while condition(c):
            c = body(c)

    a = np.linspace(0.0, 1.0, 6).reshape(2, 3)
    want = np.stack([f(row, plain) for row in a])
    for got in (tj.vmap(f)(a), tj.jit(tj.vmap(f))(a), np.stack([tj.jit(f)(row) for row in a])):
        np.testing.assert_array_equal(got, want)


def test_slices_as_long_as_the_index_of_a_loop():
    @tj.jit
    def prefix_sums(x: Any) -> Any:
        return tj.lax.fori_loop(0, x.shape[0], lambda i, y: y.at[i].set(np.sum(x[:i])), np.zeros_like(x))

    for n in (9, 20, 30, 2, 1):
        x = np.arange(1.0, n + 1)
        np.testing.assert_array_equal(prefix_sums(x), np.concatenate([[0.0], np.cumsum(x)[:-1]]))
    assert prefix_sums.compilations <= 4  # 9, all others, 2 (the least), 1

    @tj.jit
    def turns(x: Any) -> Any:  # half-way the bound counts from the end
        return tj.lax.fori_loop(0, 20, lambda i, s: s + np.sum(x[: 21 - 2 * i]), 0.0)

    with pytest.raises(TracerError, match="write these iterations apart"):
        turns(np.ones(40))

    @tj.jit
    def outlives(x: Any) -> Any:
        kept = []
        tj.lax.fori_loop(0, 5, lambda i, s: (kept.append(x[:i]), s)[1], 0.0)
        return kept[0]

    with pytest.raises(TracerError):
        outlives(np.ones(6))


def test_numbers_made_of_an_index_need_no_checks():
    """Its least and greatest value tell that they fit."""

    def f(x: Any) -> Any:
        return tj.lax.fori_loop(0, 10, lambda i, s: s + x[i] * (i * i) + x[9 - i] * (3 * i) + x[i // 2], 0.0)

    x = np.arange(10.0)
    jitted = tj.jit(f)
    assert jitted(x) == sum(x[i] * (i * i) + x[9 - i] * (3 * i) + x[i // 2] for i in range(10))
    assert "check" not in jitted.lower(x).text("program")


def test_loops_of_one_body_and_other_bounds():
    """What follows from the greatest index belongs to the loop, not to others that look alike."""

    def pieces(x: Any, last: int, fori: Any) -> Any:
        return fori(1, last, lambda i, c: c + np.concatenate([x[i + 1 :], x[: i + 1]]) @ x + x[i:].max(), 0.0)

    def plainly(first: int, last: int, body: Any, carry: Any) -> Any:
        for i in range(first, last):
            carry = body(i, carry)
        return carry

    x = np.arange(1.0, 8)
    for last in (4, 6, 7, 2, 1):
        found = tj.jit(lambda x, last=last: pieces(x, last, tj.lax.fori_loop))(x)
        np.testing.assert_allclose(found, pieces(x, last, plainly))


def test_extents_that_cannot_be_compared_are_computed():
    @tj.jit
    def f(x: Any) -> Any:
        n = x.shape[0]

        def body(i: Any, s: Any) -> Any:
            return s + np.cumsum(x[n - i :] * np.hstack([x[:i], x[n - i : n - i + 1], x[i + 1 :]]).sum())[-1]

        return tj.lax.fori_loop(2, n - 1, body, 0.0)

    x = np.arange(7.0)
    want = sum(np.sum(x[7 - i :]) * np.hstack([x[:i], x[7 - i : 7 - i + 1], x[i + 1 :]]).sum() for i in range(2, 6))
    np.testing.assert_allclose(f(x), want)


def _plain_loop(first: int, last: int, body: Any, carry: Any) -> Any:
    for i in range(first, last):
        carry = body(i, carry)
    return carry


APART: dict[str, Callable[..., Any]] = {
    "known sizes decide": lambda x, n, loop: loop(2, 6, lambda i, s: s + x[:i].sum(), 0.0),
    "none, or one": lambda x, n, loop: loop(0, min(n, 5), lambda i, s: s + x[i:].mean(), 0.0),
    "past the end": lambda x, n, loop: loop(0, n + 2, lambda i, s: s + x[:i].sum(), 0.0),
    "to both sides": lambda x, n, loop: loop(0, n // 2, lambda i, s: s + x[i : n - i].sum(), 0.0),
    "a slice of a slice": lambda x, n, loop: loop(0, 2, lambda i, s: s + x[i:][i:].sum(), 0.0),
    "coefficients of one hash": lambda x, n, loop: loop(
        0, n // 2, lambda i, s: s + x[: n - i].sum() + 2 * x[: n - 2 * i].sum(), 0.0
    ),
    "numbers": lambda x, n, loop: loop(
        0, n, lambda i, s: s + len(x[:i]) * 0.5 + x[:i].size / 3 + 2.5 ** len(x[i:]) + len(x[:i]) ** 2, 0.0
    ),
    "from a number of iterations on": lambda x, n, loop: loop(
        0, n, lambda i, s: s + (x[i:] * x[: n - i][::-1]).max(), -1.0
    ),
}


@pytest.mark.parametrize("what", APART)
def test_iterations_that_differ_stand_apart(what: str):
    """By the index it may be decided in the first and last iterations alone, and by sizes in all."""
    f = APART[what]

    @tj.jit
    def compiled(x: Any) -> Any:
        return f(x, x.shape[0], tj.lax.fori_loop)

    for n in (7, 12, 15, 40, 7, 3, 2, 20):
        x = np.linspace(0.5, 1.5, n)
        np.testing.assert_allclose(compiled(x), f(x, n, _plain_loop), rtol=1e-12)


def test_changes_in_iterations_that_stand_apart():
    def shifted(x: Any, y: Any, loop: Any) -> Any:
        def body(i: Any, state: Any) -> Any:
            z, total = state
            y[i:] += x[: x.shape[0] - i]
            z[:i] = z[:i][::-1] + 1
            return z, total + z[i:].sum()

        return loop(0, 5, body, (x, 0.0))

    for n in (12, 13, 5):
        x = np.arange(1.0, n + 1)
        y, other = np.zeros(n), np.zeros(n)
        z, total = tj.jit(lambda x, y: shifted(x, y, tj.lax.fori_loop))(x, y)
        want, sums = shifted(x.copy(), other, _plain_loop)
        np.testing.assert_array_equal(x, np.arange(1.0, n + 1))  # what is handed on are copies
        np.testing.assert_array_equal(y[:1], other[:1])
        np.testing.assert_array_equal(z, want)
        assert total == sums


def test_second_derivatives_where_the_first_iterations_differ():
    def products(x: Any, loop: Any) -> Any:
        return loop(0, 7, lambda i, s: s + np.prod(x[:i]), 0.0)

    def gradient_sum(z: Any) -> Any:
        return tj.grad(lambda x: products(x, tj.lax.fori_loop))(z).sum()

    x = np.random.default_rng(0).uniform(0.5, 1.5, 7)

    def plain_sum(z: Any) -> Any:  # of all first derivatives
        return sum(np.prod(np.delete(z[:i], k)) for i in range(7) for k in range(i))

    step = 1e-5
    want = [(plain_sum(x + step * e) - plain_sum(x - step * e)) / (2 * step) for e in np.eye(7)]
    np.testing.assert_allclose(tj.jit(tj.grad(gradient_sum))(x), want, rtol=1e-7, atol=1e-9)


def test_a_value_kept_for_the_iterations_that_follow_is_refused():
    def kept(y: Any) -> Any:
        memo: dict[str, Any] = {}

        def body(i: Any, y: Any) -> Any:
            if "sum" not in memo:
                memo["sum"] = y.sum()
            return y * 0.5 + memo["sum"]

        return tj.lax.fori_loop(0, 5, body, y)

    def told_apart(y: Any) -> Any:
        memo: dict[str, Any] = {}

        def body(i: Any, y: Any) -> Any:
            first = "y" not in memo
            memo["y"] = y
            return y + (1 if first else 2)

        return tj.lax.fori_loop(0, 5, body, y)

    for f in (kept, told_apart):
        with pytest.raises(TracejitError):
            tj.jit(f)(np.arange(3.0))

    def scratch(y: Any) -> Any:  # put anew in each
        memo: dict[str, Any] = {}

        def body(i: Any, y: Any) -> Any:
            memo["sum"] = y.sum()
            return y * 0.5 + memo["sum"]

        return tj.lax.fori_loop(0, 2, body, y)

    y = np.arange(3.0)
    np.testing.assert_array_equal(tj.jit(scratch)(y), (y / 2 + 3) / 2 + 10.5)
