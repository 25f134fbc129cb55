"""`tj.lax.fft` against NumPy's transforms."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.lax import FftType
from tracejit.support.errors import DtypeError, ShapeError

X = np.random.default_rng(0).normal(size=(3, 4, 6)) + 1j * np.random.default_rng(1).normal(size=(3, 4, 6))

CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "FFT": (X, FftType.FFT, 6, np.fft.fft(X)),
    "by name": (X, "ifft", (6,), np.fft.ifft(X)),
    "of two axes": (X, "FFT", (4, 6), np.fft.fft2(X)),
    "inverse of three": (X, FftType.IFFT, (3, 4, 6), np.fft.ifftn(X)),
    "real": (X.real, FftType.RFFT, [6], np.fft.rfft(X.real)),
    "real of two": (X.real, FftType.RFFT, (4, 6), np.fft.rfft2(X.real)),
    "back": (X, FftType.IRFFT, 10, np.fft.irfft(X)),
    "back to an odd number": (X, FftType.IRFFT, (4, 11), np.fft.irfft2(X, (4, 11))),
    "of real numbers": (X.real.astype("f4"), 0, 6, np.fft.fft(X.real.astype("f4"))),
    "of integers": (np.arange(6), FftType.RFFT, 6, np.fft.rfft(np.arange(6))),
    "of no axis": (X, FftType.FFT, (), X),
}


@pytest.mark.parametrize("name", CASES)
def test_transforms_of_the_last_axes(name: str):
    x, kind, lengths, want = CASES[name]
    for got in (tj.lax.fft(x, kind, lengths), tj.jit(lambda x: tj.lax.fft(x, kind, lengths))(x)):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=0, atol=30 * np.finfo(want.dtype).eps * np.abs(want).max())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tj.lax.fft(X, "FFT", 5), ShapeError, "are not those that FFT of fft_lengths=\\[5\\] takes"),
        (lambda: tj.lax.fft(X, "IRFFT", 6), ShapeError, "are not those that IRFFT"),
        (lambda: tj.lax.fft(X, "FFT", (3, 3, 4, 6)), ShapeError, "are not those"),
        (lambda: tj.lax.fft(X, "RFFT", 6), DtypeError, "RFFT takes real numbers, not c128"),
        (lambda: tj.lax.fft(X, "dct", 6), ShapeError, "there is no transform 'dct'; there are FFT, IFFT, RFFT, IRFFT"),
        (lambda: tj.lax.fft(X, "FFT", 6.0), DtypeError, "fft_lengths are integers"),
        (lambda: tj.lax.fft(np.zeros((2, 0)), "FFT", 0), ShapeError, "no transform of no numbers"),
    ],
)
def test_what_cannot_be_transformed_is_refused(call: Any, error: type, text: str):
    with pytest.raises(error, match=text):
        call()


def test_the_gradient_of_a_real_transform():
    def f(x: Any) -> Any:
        y = tj.lax.fft(x, FftType.RFFT, 6)
        z = tj.lax.fft(y * y, FftType.IRFFT, 6)
        return np.sum(z * np.arange(6.0))

    x = np.random.default_rng(2).normal(size=6)
    slopes = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(6)]
    np.testing.assert_allclose(tj.grad(f)(x), slopes, rtol=1e-7)
