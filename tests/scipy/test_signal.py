"""The names of scipy.signal against sums of shifted arrays, least squares and recurrences in NumPy."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError

signal = tj.scipy.signal
RNG = np.random.default_rng(0)
MODES = ("full", "same", "valid")
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((9,), (3,)), ((3,), (9,)), ((5, 6), (3, 2)), ((3, 2), (5, 6)), ((5, 2), (3, 4)), ((4, 3, 5), (2, 3, 2)), ((), ()),
]  # fmt: skip


def written_out(x: Any, y: Any, mode: str) -> Any:
    """All products, added where they belong, and the part that a mode keeps."""
    out = np.zeros([n + m - 1 for n, m in zip(x.shape, y.shape, strict=True)], np.result_type(x, y))
    for k in np.ndindex(*y.shape):
        out[tuple(slice(j, j + n) for j, n in zip(k, x.shape, strict=True))] += x * y[k]
    if mode == "full":
        return out
    sizes = x.shape if mode == "same" else [abs(n - m) + 1 for n, m in zip(x.shape, y.shape, strict=True)]
    starts = [(n - m) // 2 for n, m in zip(out.shape, sizes, strict=True)]
    return out[tuple(slice(a, a + n) for a, n in zip(starts, sizes, strict=True))]


def fits(x: Any, y: Any) -> bool:
    pairs = list(zip(x.shape, y.shape, strict=True))
    return all(n >= m for n, m in pairs) or all(m >= n for n, m in pairs)


def near(got: Any, want: Any) -> None:
    assert np.asarray(got).dtype == np.asarray(want).dtype
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("one", "other"), SHAPES)
def test_convolutions_and_correlations(one: tuple[int, ...], other: tuple[int, ...], mode: str):
    x, y = np.asarray(RNG.standard_normal(one)), np.asarray(RNG.standard_normal(other))
    for name in ("convolve", "correlate", "fftconvolve", "oaconvolve"):
        f = getattr(signal, name)
        if mode == "valid" and not fits(x, y):
            with pytest.raises(ShapeError, match="neither is at least as long"):
                f(x, y, mode=mode)
            continue
        want = written_out(x, np.flip(y) if name == "correlate" else y, mode)
        near(f(x, y, mode=mode), want)
        near(tj.jit(lambda x, y: f(x, y, mode=mode))(x, y), want)  # noqa: B023


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("boundary", "pad"), [("fill", "constant"), ("wrap", "wrap"), ("symm", "symmetric")])
def test_convolutions_of_matrices_with_something_beside_them(boundary: str, pad: str, mode: str):
    x, y, beside = RNG.standard_normal((5, 6)), RNG.standard_normal((4, 3)), 2.5 if boundary == "fill" else 0
    wide = np.pad(x, [(3, 3), (2, 2)], pad, **({"constant_values": beside} if boundary == "fill" else {}))
    whole = x if mode == "valid" else wide
    options = {"mode": mode, "boundary": boundary, "fillvalue": beside}
    for name, turned in (("convolve2d", True), ("correlate2d", False)):
        taps = y if turned else np.flip(y)
        want = written_out(whole, taps, "valid")
        if mode == "same":
            first = [(k - 1) // 2 if turned else k - 1 - (k - 1) // 2 for k in y.shape]
            want = want[first[0] : first[0] + 5, first[1] : first[1] + 6]
        f = getattr(signal, name)
        near(f(x, y, **options), want)
        near(tj.jit(lambda x, y: f(x, y, **options))(x, y), want)  # noqa: B023
    near(signal.correlate2d(y[:2], x, mode="valid"), written_out(y[:2], np.flip(x), "valid"))


def test_integers_stay_integers_unless_sums_are_of_floats():
    x, y = np.arange(5), np.arange(3)
    near(signal.convolve(x, y), np.convolve(x, y))
    near(signal.fftconvolve(x, y), np.convolve(x, y).astype(float))
    assert signal.fftconvolve(x.astype(np.float32), y.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("mode", MODES)
def test_convolutions_along_some_axes(mode: str):
    x, y = RNG.standard_normal((3, 4, 5)), RNG.standard_normal((3, 1, 2))
    want = np.stack([[written_out(row, taps[0], mode) for row in rows] for rows, taps in zip(x, y, strict=True)])
    near(tj.jit(lambda x, y: signal.fftconvolve(x, y, mode, axes=-1))(x, y), want)
    near(
        signal.oaconvolve(x[:, 0], y[:1, 0], mode, axes=(1,)),
        np.stack([written_out(r, y[0, 0], mode) for r in x[:, 0]]),
    )


@pytest.mark.parametrize(("n", "m"), [(5, 3), (3, 5), (4, 4)])
def test_lags_say_where_a_shifted_copy_correlates(n: int, m: int):
    lags = signal.correlation_lags(n, m)
    for mode in MODES:
        found = signal.correlation_lags(n, m, mode)
        x, y = np.arange(1.0, n + 1), np.eye(m)[0]
        got = dict(zip(found.tolist(), signal.correlate(x, y, mode).tolist(), strict=True))
        assert got == {k: x[k] if 0 <= k < n else 0.0 for k in got}
    assert lags.tolist() == list(range(1 - m, n))


@pytest.mark.parametrize("axis", [0, -1])
def test_trends_are_lines_of_least_squares(axis: int):
    f, compiled = signal.detrend, tj.jit(lambda x: signal.detrend(x, axis=axis))
    for shape in ((7, 4), (3, 9), (30, 2), (2, 1), (1, 1)):
        x = RNG.standard_normal(shape)
        rows = np.moveaxis(x, axis, 0)
        basis = np.stack([np.arange(len(rows)), np.ones(len(rows))], 1)
        want = np.moveaxis(rows - basis @ np.linalg.lstsq(basis, rows, rcond=None)[0], 0, axis)
        near(f(x, axis=axis), want)
        near(compiled(x), want)
        near(f(x, axis=axis, type="constant"), x - x.mean(axis, keepdims=True))
    broken = signal.detrend(np.r_[np.arange(4.0), 7.0, 5.0, 3.0], bp=4)
    np.testing.assert_allclose(broken, 0, atol=1e-12)
    assert f(np.arange(3)).dtype == np.float64


FILTERS = [([1.0, 2.0], [1.0, -0.5]), ([0.5], [2.0, 0.1, 0.2]), ([1.0, 2.0, 3.0], [2.0]), ([2.0], [4.0])]


@pytest.mark.parametrize(("b", "a"), FILTERS)
def test_filters_are_recurrences(b: list[float], a: list[float]):
    x = RNG.standard_normal((2, 9))
    want = np.zeros_like(x)
    for n in range(9):
        new = sum(b[k] * x[:, n - k] for k in range(len(b)) if n >= k)
        want[:, n] = (new - sum(a[k] * want[:, n - k] for k in range(1, len(a)) if n >= k)) / a[0]
    f = tj.jit(lambda x: signal.lfilter(b, a, x))
    near(f(x), want)
    near(signal.lfilter(b, a, x.T, axis=0), want.T)
    state = np.zeros((2, max(len(a), len(b)) - 1))
    first, state = signal.lfilter(b, a, x[:, :4], zi=state)
    second, _ = signal.lfilter(b, a, x[:, 4:], zi=np.asarray(state))
    near(np.concatenate([first, second], 1), want)
    slope = tj.jit(tj.grad(lambda x: signal.lfilter(b, a, x)[..., -1].sum()))(x)
    np.testing.assert_allclose((slope * x).sum(), want[:, -1].sum(), rtol=1e-11)


def test_medians_of_windows():
    x = RNG.standard_normal((6, 7))
    rows = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(1, 1), (2, 2)]), (3, 5))
    want = np.median(rows, (2, 3))
    near(signal.medfilt(x, (3, 5)), want)
    near(tj.jit(lambda x: signal.medfilt2d(x, (3, 5)))(x), want)
    near(signal.medfilt(np.array([5, 1, 9])), np.array([1, 5, 1]))


@pytest.mark.parametrize(("up", "down"), [(1, 1), (2, 1), (3, 2), (2, 5)])
def test_upfirdn_fills_filters_and_keeps_some(up: int, down: int):
    h, x = RNG.standard_normal(4), RNG.standard_normal((2, 7))
    filled = np.zeros((2, 6 * up + 1))
    filled[:, ::up] = x
    want = np.stack([np.convolve(row, h)[::down] for row in filled])
    near(tj.jit(lambda h, x: signal.upfirdn(h, x, up, down))(h, x), want)
    near(signal.upfirdn(h, x.T, up, down, axis=0), want.T)


X = np.ones((3, 4))
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: signal.convolve(X, X[0]), ShapeError, "ranks 2 and 1"),
    (lambda: signal.convolve(X, X, "most"), ShapeError, "'most'"),
    (lambda: signal.convolve(X, X, method="magic"), ShapeError, "'magic'"),
    (lambda: signal.convolve2d(X[0], X[0]), ShapeError, "rank 1"),
    (lambda: signal.convolve2d(X, X, boundary="mirror"), ShapeError, "'mirror'"),
    (lambda: signal.fftconvolve(X, X, axes=(0, -2)), ShapeError, "twice"),
    (lambda: signal.fftconvolve(X, X[:2], axes=1), ShapeError, "axis 0"),
    (lambda: signal.detrend(X, type="square"), ShapeError, "'square'"),
    (lambda: signal.detrend(X, bp=5), ShapeError, "bp=5"),
    (lambda: signal.lfilter([], [1.0], X), ShapeError, "vectors"),
    (lambda: signal.lfilter([1.0, 2.0], [1.0], X, zi=np.ones((3, 2))), ShapeError, "zi"),
    (lambda: signal.medfilt(X, 4), ShapeError, "odd"),
    (lambda: signal.medfilt(X.astype(np.float16)), DtypeError, "float16|f16"),
    (lambda: signal.upfirdn([1.0], X, up=0), ShapeError, "at least 1"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_what_is_no_filter_is_refused(call: Callable[[], Any], error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        call()


# -- spectra -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        {"nperseg": 17, "noverlap": 5, "nfft": 20},
        {"window": "hamming", "nperseg": 16, "scaling": "spectrum", "fs": 100.0},
        {"window": "boxcar", "detrend": False, "return_onesided": False, "nperseg": 40},
        {"window": np.linspace(1, 2, 9), "detrend": "linear", "axis": 0},
    ],
)
def test_cross_spectra_agree_with_scipys(options: Any):
    signal: Any = pytest.importorskip("scipy.signal")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 40)), rng.normal(size=(50, 40))
    for dtype in ("f8", "f4", "c16"):
        args = [z.astype(dtype) for z in (x, y)]
        given = {**options, "return_onesided": False} if dtype == "c16" else options
        f, p = tj.jit(lambda x, y, given=given: tj.scipy.signal.csd(x, y, **given))(*args)
        want_f, want = signal.csd(*args, **given)
        np.testing.assert_allclose(f, want_f)
        assert p.dtype == want.dtype
        np.testing.assert_allclose(p, want, rtol=1e-4 if dtype == "f4" else 1e-10, atol=1e-5 * np.abs(want).max())


def test_the_shorter_signal_has_zeros_behind():
    signal: Any = pytest.importorskip("scipy.signal")
    x, y = np.arange(30.0) % 7, np.arange(13) % 4
    for average in ("mean", "median"):
        _, p = tj.scipy.signal.csd(x, y, nperseg=8, average=average)
        np.testing.assert_allclose(p, signal.csd(x, y, nperseg=8, average=average)[1], atol=1e-12)
    for options in ({"noverlap": 9}, {"nfft": 3}, {"window": "kaiser"}, {"average": "mode"}, {"scaling": "other"}):
        with pytest.raises(ShapeError):
            tj.scipy.signal.csd(x, y, nperseg=8, **options)


def filtered(b: Any, a: Any, x: Any) -> Any:
    """The recurrence of a filter with a[0] = 1, element by element."""
    out = np.zeros(len(x), np.result_type(b, a, x))
    for n in range(len(x)):
        out[n] = sum(b[k] * x[n - k] for k in range(len(b)) if n >= k)
        out[n] -= sum(a[k] * out[n - k] for k in range(1, len(a)) if n >= k)
    return out


COMPLEX = RNG.standard_normal(9) + 1j * RNG.standard_normal(9)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("which", range(3))
def test_filters_of_complex_numbers(which: int, dtype: Any):
    args: list[Any] = [np.array([1.0, 0.5]), np.array([1.0, -0.25, 0.5]), RNG.standard_normal(9)]
    args[which] = (args[which] + 1j * (np.arange(len(args[which])) > 0)).astype(dtype)
    args = [x if x.dtype == dtype or dtype == np.complex128 else x.astype(np.float32) for x in args]
    want = filtered(*args)
    for call in (signal.lfilter, tj.jit(signal.lfilter)):
        found = call(*args)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, want, rtol=1e-5 if dtype == np.complex64 else 1e-12)


def test_a_complex_state_of_a_filter():
    x, start = RNG.standard_normal(6), np.array([0.5 - 2j])
    whole = filtered(np.ones(1), np.array([1.0, -0.5]), np.array([start[0], *x]))
    found, end = signal.lfilter(np.ones(1), np.array([1.0, -0.5]), x, zi=start * 0.5)
    np.testing.assert_allclose(found, whole[1:], rtol=1e-12)
    np.testing.assert_allclose(end, whole[-1:] * 0.5, rtol=1e-12)


@pytest.mark.parametrize("taps", [np.array([1.0, 2.0, -1.0]), np.array([1.0, 2j, -1.0 + 1j])])
def test_complex_samples_between_samples(taps: Any):
    spread = np.zeros(17, complex)
    spread[::2] = COMPLEX
    np.testing.assert_allclose(signal.upfirdn(taps, COMPLEX, up=2), np.convolve(spread, taps), rtol=1e-12)
    np.testing.assert_allclose(signal.upfirdn(taps, COMPLEX.real, up=2), np.convolve(spread.real, taps), rtol=1e-12)


def test_the_second_matrix_of_a_correlation_is_conjugated():
    x, y = COMPLEX.reshape(3, 3), (COMPLEX[:4] * 1j).reshape(2, 2)
    want = written_out(x, y[::-1, ::-1].conj(), "full")
    for call in (signal.correlate2d, tj.jit(signal.correlate2d)):
        np.testing.assert_allclose(call(x, y), want, rtol=1e-12)
    np.testing.assert_allclose(signal.correlate(x, y), want, rtol=1e-12)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_lags_are_scipys(mode: str):
    signal = pytest.importorskip("scipy.signal")
    for n, m in itertools.product(range(1, 8), range(1, 8)):
        np.testing.assert_array_equal(tj.scipy.signal.correlation_lags(n, m, mode), signal.correlation_lags(n, m, mode))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_correlations_of_complex_matrices_are_scipys(mode: str):
    signal, rng = pytest.importorskip("scipy.signal"), np.random.default_rng(0)
    for n, m in ((3, 4), (4, 3), (3, 3)):
        a, b = (rng.normal(size=(k, k)) + 1j * rng.normal(size=(k, k)) for k in (n, m))
        for x, y in ((a, b), (a, b.real), (a.real, b)):
            want = signal.correlate2d(x, y, mode)
            np.testing.assert_allclose(tj.scipy.signal.correlate2d(x, y, mode), want, rtol=1e-12, atol=1e-12)
