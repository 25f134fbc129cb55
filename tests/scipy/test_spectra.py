"""Spectra of signals, and signals made of them, against SciPy."""

import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError

scipy_signal = pytest.importorskip("scipy.signal")
signal = tj.scipy.signal
RNG = np.random.default_rng(0)
X = RNG.standard_normal(100)
Y = RNG.standard_normal((3, 64))
Z = X + 1j * RNG.standard_normal(100)


def near(got: Any, want: Any) -> None:
    for a, b in zip(got, want, strict=True):
        assert np.asarray(a).dtype == b.dtype
        np.testing.assert_allclose(a, b, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"nperseg": 16, "average": "median"},
        {"nperseg": 17, "nfft": 32, "scaling": "spectrum", "fs": 3.0},
        {"nperseg": 16, "detrend": "linear", "window": ("tukey", 0.2)},
        {"nperseg": 8, "return_onesided": False, "window": "flattop"},
    ],
)
@pytest.mark.parametrize("x", [X, Y, Z], ids=["vector", "rows", "complex"])
def test_power_is_that_of_scipy(x: Any, options: dict[str, Any]):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one side of complex signals
        want = scipy_signal.welch(x, **options)
    near(signal.welch(x, **options), want)
    near(tj.jit(lambda x: signal.welch(x, **options))(x), want)


@pytest.mark.filterwarnings("ignore:NOLA condition failed")
@pytest.mark.parametrize("boundary", ["zeros", "even", "odd", "constant", None])
@pytest.mark.parametrize("padded", [True, False])
def test_short_time_transforms_and_back(padded: bool, boundary: str | None):
    for x, options in (
        (X, {"nperseg": 15, "noverlap": 4}), (Z, {"nperseg": 16, "return_onesided": False}),
        (Y, {"nperseg": 8, "nfft": 20}), (Y.T, {"axis": 0, "nperseg": 8}),
    ):  # fmt: skip
        given: dict[str, Any] = {**options, "boundary": boundary, "padded": padded}
        want = scipy_signal.stft(x, **given)
        near(signal.stft(x, **given), want)
        near(tj.jit(lambda x: signal.stft(x, **given))(x), want)  # noqa: B023
        back: dict[str, Any] = {k: given[k] for k in ("nperseg", "noverlap", "nfft") if k in given}
        back |= {"input_onesided": not np.iscomplexobj(x), "boundary": boundary is not None}
        back |= {"freq_axis": 0} if "axis" in options else {}
        want = scipy_signal.istft(want[2], **back)
        got = signal.istft(signal.stft(x, **given)[2], **back)
        near(got[1:], want[1:])
        near(tj.jit(lambda z: signal.istft(z, **back))(scipy_signal.stft(x, **given)[2])[1:], want[1:])  # noqa: B023


def test_the_signal_comes_back_with_its_derivative():
    def there_and_back(x: Any) -> Any:
        return signal.istft(signal.stft(x, nperseg=8)[2], nperseg=8)[1]

    np.testing.assert_allclose(there_and_back(Y[0]), Y[0], atol=1e-12)
    np.testing.assert_allclose(tj.vmap(there_and_back)(Y), Y, atol=1e-12)
    weights = np.arange(64.0)
    np.testing.assert_allclose(tj.grad(lambda x: there_and_back(x) @ weights)(Y[0]), weights, atol=1e-10)


@pytest.mark.parametrize(
    "window",
    ["hann", "hamming", "blackman", "boxcar", "bartlett", "triang", "cosine", "nuttall", "blackmanharris", "flattop",
     "tukey", ("tukey", 0.3), ("kaiser", 4.0), ("gaussian", 3.0)],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_windows_are_those_of_scipy(size: int, window: Any):
    given = {"window": window, "nperseg": size, "noverlap": 0, "boundary": None, "padded": False}
    near(signal.stft(X, **given)[:1], scipy_signal.stft(X, **given)[:1])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(signal.stft(X, **given)[2], scipy_signal.stft(X, **given)[2], atol=1e-11)


def test_complex_signals_stay_complex():
    a, b = Z[:7], Z[7:10]
    np.testing.assert_allclose(signal.fftconvolve(a.real, b), np.convolve(a.real, b), atol=1e-12)
    np.testing.assert_allclose(signal.oaconvolve(a, b), np.convolve(a, b), atol=1e-12)
    np.testing.assert_allclose(signal.correlate(a, b), scipy_signal.correlate(a, b), atol=1e-12)
    np.testing.assert_allclose(
        signal.correlate(a.real, b, "same"), scipy_signal.correlate(a.real, b, "same"), atol=1e-12
    )
    np.testing.assert_allclose(signal.detrend(Z), scipy_signal.detrend(Z), atol=1e-12)


def test_what_does_not_fit_is_refused():
    for options in ({"window": "square"}, {"boundary": "left"}, {"noverlap": 8}, {"nfft": 4}, {"scaling": "density"}):
        with pytest.raises(ShapeError):
            signal.stft(X, **{"nperseg": 8, **options})
    for options in ({"time_axis": 0, "freq_axis": 0}, {"noverlap": 40}, {"nfft": 2}, {"scaling": "density"}):
        with pytest.raises(ShapeError):
            signal.istft(np.ones((5, 4)), **options)
    with pytest.raises(ShapeError, match="average"):
        signal.welch(X, average="mode")
