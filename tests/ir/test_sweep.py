"""One pass over a matrix for its rows and its columns: NumPy's sums for any block, grain and vectors."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tracejit as tj
from tracejit.backends.cpu.runtime import pool
from tracejit.backends.registry import get_backend
from tracejit.compiler import share
from tracejit.compiler.pipeline import lower_jaxpr
from tracejit.ir.schedule import Schedule, Sweep, apply
from tracejit.support.errors import ScheduleError


def atax(A, x):
    return (A @ x) @ A


def bicg(A, x, r):
    return r @ A, A @ x


def logistic(A, x, t):
    z = A @ x
    p = 1 / (1 + np.exp(-z / 64))
    return np.sum(np.log1p(np.exp(-np.abs(z / 64)))), A.T @ (p - t) / len(t), p


def greatest(A, x):
    high = (A + x).max(1)
    return (A - high[:, None]).min(0), high


def two_folds(A, x):
    shifted = A - A.max(1)[:, None]
    total = np.exp(shifted / 8).sum(1)
    return np.log(total), (A * total[:, None]).sum(0)


def masked(A, x):
    wanted = (A > 0).sum(1) > A.shape[1] // 2
    return np.where(wanted[:, None], A, 0).sum(0), wanted


EXACT = [(atax, 2), (bicg, 3), (greatest, 2), (masked, 2)]
FUNCTIONS = [*EXACT, (logistic, 3), (two_folds, 2)]


def operands(count, rows, columns, dtype=np.float64):
    rng = np.random.default_rng(rows * 1000 + columns)
    made = [rng.integers(-4, 5, s).astype(dtype) for s in ((rows, columns), columns, rows)]
    return made[:count]


def swept(function, args, sweep, dynamic=False):
    """The results of a function whose kernel runs under this directive, alone."""
    f = tj.jit(function, dynamic_shapes=dynamic)
    f(*args)
    (version,) = f._state.versions.values()
    jaxpr = version.lowered.jaxpr
    picked = []

    def pick(kernel):
        loops = [name for name in ("L0", "L1", "L2", "L3", "L4") if is_top(kernel, name)]
        if len(loops) != 2:
            return Schedule()
        picked.append(Schedule((Sweep(*loops, *sweep),)))
        return picked[-1]

    lowered = lower_jaxpr(jaxpr, get_backend("cpu"), ["C"] * len(args), schedule=pick)
    assert picked, lowered.text("kernel")
    dims = {}
    for v, a in zip(jaxpr.inputs, args, strict=True):
        dims |= {str(n): x for n, x in zip(v.aval.shape, a.shape, strict=True) if not isinstance(n, int)}
    return lowered.compile().run(args, dims)


def is_top(kernel, name):
    from tracejit.ir.kernel import For
    from tracejit.ir.schedule import name_loops

    names = name_loops(kernel.body)
    return any(isinstance(s, For) and names[s.index] == name for s in kernel.body)


@pytest.fixture(autouse=True)
def small_matrices(monkeypatch):
    monkeypatch.setattr(share, "LEAST", 0)
    monkeypatch.setattr(share, "FEW", 2)


SWEEPS = st.tuples(st.integers(1, 9), st.integers(1, 5), st.sampled_from([1, 2, 4, 8]), st.integers(1, 4)).map(
    lambda s: (s[0], s[0] * s[1], s[2], s[3])
)


@settings(max_examples=12)
@given(st.sampled_from(EXACT), SWEEPS, st.integers(9, 40), st.integers(9, 40), st.booleans())
def test_any_sweep_gives_the_sums(case, sweep, rows, columns, dynamic):
    function, count = case
    args = operands(count, rows, columns)
    expected = function(*args)
    results = swept(function, args, sweep, dynamic)
    for result, right in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_array_equal(result, right)


@settings(max_examples=8)
@given(st.sampled_from([(logistic, 3), (two_folds, 2)]), SWEEPS, st.integers(9, 40), st.integers(9, 40), st.booleans())
def test_what_follows_the_folds_of_a_row_is_computed_for_each(case, sweep, rows, columns, dynamic):
    function, count = case
    args = operands(count, rows, columns)
    for result, right in zip(swept(function, args, sweep, dynamic), function(*args), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-12, atol=1e-12 * rows)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "u2", "c16", "c8"])
@pytest.mark.parametrize(("function", "count"), [(atax, 2), (bicg, 3)])
def test_other_dtypes(function, count, dtype):
    args = operands(count, 37, 21, dtype)
    expected = function(*args)
    for result, right in zip(
        swept(function, args, (4, 8, 4, 2)), expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        np.testing.assert_array_equal(result, right)
        assert result.dtype == right.dtype


@pytest.mark.parametrize(("function", "count"), FUNCTIONS)
@pytest.mark.parametrize("shape", [(700, 64), (333, 333)])
def test_the_default_schedule_sweeps(function, count, shape):
    args = operands(count, *shape)
    f = tj.jit(function)
    for _ in range(2):
        for result, right in zip(tuple_of(f(*args)), tuple_of(function(*args)), strict=True):
            np.testing.assert_allclose(result, right, rtol=1e-11, atol=1e-11)
    text = f.lower(*args).text("schedule")
    assert "sweep L" in text
    for smaller in [(shape[0], shape[1] - 1), (0, 3), (3, 1)]:
        args = operands(count, *smaller)
        if function in (greatest, two_folds, logistic) and 0 in smaller:
            continue
        for result, right in zip(tuple_of(f(*args)), tuple_of(function(*args)), strict=True):
            np.testing.assert_allclose(result, right, rtol=1e-11, atol=1e-11)


def tuple_of(x):
    return x if isinstance(x, tuple) else (x,)


def test_one_kernel_reads_the_matrix_once(monkeypatch):
    monkeypatch.undo()
    A, x, t = operands(3, 1000, 200)
    loss = tj.value_and_grad(lambda x, A, t: np.mean(np.logaddexp(0, A @ x) - t * (A @ x)))
    lowered = tj.jit(loss).lower(x, A, t)
    assert len(lowered.program.kernels()) == 1
    assert lowered.text("schedule").count("sweep") == 1
    small = operands(3, 40, 30)
    assert len(tj.jit(bicg).lower(*small).program.kernels()) == 2  # lies in the nearest cache


def test_the_sums_are_the_same_on_any_number_of_threads():
    A, x, r = (np.random.default_rng(3).random(s) for s in ((5001, 120), 120, 5001))
    f, before, found = tj.jit(bicg), pool.pool_size(), []
    for threads in (1, 2, 5):
        try:
            pool.set_threads(threads)
            found.append(f(A, x, r))
        finally:
            pool.set_threads(before)
    assert "sweep" in f.lower(A, x, r).text("schedule")
    for result in found[1:]:
        for a, b in zip(found[0], result, strict=True):
            np.testing.assert_array_equal(a, b)


def kernels_of(function, *args):
    lowered = tj.jit(function).lower(*args)
    return [unscheduled for unscheduled, _, _ in lowered.log.kernels]


@pytest.mark.parametrize(
    "function",
    [
        lambda A, x: (A @ (A @ x), A.sum(0)),  # the second product needs all of the first
        lambda A, x: (A @ x).sum() * A.sum(0),  # so do the columns
        lambda A, x: (A.T @ x, A.sum(0)),
        lambda A, x: (A @ x)[::-1] @ A,
        lambda A, x: np.cumsum(A @ x) @ A,
    ],
)
def test_what_cannot_run_in_one_pass_does_not(function):
    A, x = np.random.default_rng(0).random((64, 64)), np.random.default_rng(1).random(64)
    for right, result in zip(tuple_of(function(A, x)), tuple_of(tj.jit(function)(A, x)), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-12)


def test_a_sweep_that_is_not_legal_is_refused():
    A, x, r = operands(3, 40, 30)
    (kernel,) = kernels_of(bicg, A, x, r)
    with pytest.raises(ScheduleError, match="no loop L7"):
        apply(kernel, Schedule((Sweep("L7", "L2", 4, 8, 4),)))
    with pytest.raises(ScheduleError, match="a multiple of the block"):
        apply(kernel, Schedule((Sweep("L0", "L2", 4, 9, 4),)))
    with pytest.raises(ScheduleError, match="does not fold, column by column"):
        apply(kernel, Schedule((Sweep("L2", "L0", 4, 8, 4),)))
    with pytest.raises(ScheduleError, match="that is not inside of another"):
        apply(kernel, Schedule((Sweep("L0", "L3", 4, 8, 4),)))
