"""SciPy's own transforms in traced functions."""

import numpy as np
import pytest

import tracejit as tj

scipy = pytest.importorskip("scipy")
dct = pytest.importorskip("scipy.fft").dct

X = np.random.default_rng(0).normal(size=(4, 12))

CALLS = {
    "fft": lambda x: scipy.fft.fft(x),
    "imported by name": lambda x: dct(x, norm="ortho"),
    "rfft": lambda x: scipy.fft.rfft(x, 8, workers=1),
    "idct": lambda x: scipy.fft.idct(x, 3, axis=0),
    "dst": lambda x: scipy.fft.dst(x, 4, norm="forward"),
    "idstn": lambda x: scipy.fft.idstn(x, 1),
    "hfft2": lambda x: scipy.fft.hfft2(x),
    "fftn": lambda x: scipy.fft.fftn(x, axes=(0, 1)),
    "there and back": lambda x: scipy.fft.ifft2(scipy.fft.fft2(x)).real,
    "fftshift": lambda x: scipy.fft.fftshift(scipy.fft.fft(x), axes=1),
    "a good length": lambda x: scipy.fft.fft(x, scipy.fft.next_fast_len(x.shape[1])),
}


@pytest.mark.parametrize("name", CALLS)
def test_scipys_own_names(name):
    got, want = tj.jit(CALLS[name])(X), CALLS[name](X)
    assert np.asarray(got).dtype == want.dtype
    np.testing.assert_allclose(got, want, atol=1e-12)
