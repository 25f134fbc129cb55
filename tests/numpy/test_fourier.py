"""`np.fft` in traced functions, against NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError

# every way to split a number: powers, products, primes below and above where a transform becomes a convolution
COUNTS = [*range(1, 20), 24, 31, 36, 49, 64, 97, 100, 128, 211, 257, 360, 422, 512, 1009]


def numbers(*shape: int) -> Any:
    rng = np.random.default_rng(sum(shape))
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def assert_transformed(got: Any, want: Any, n: int) -> None:
    """Errors grow as the logarithm of the count, relative to the greatest result."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    unit = np.finfo(want.dtype).eps
    assert np.abs(got - want).max() <= unit * (5 + 10 * np.log2(n)) * np.abs(want).max()


@pytest.mark.parametrize("n", COUNTS)
def test_transforms_of_so_many_numbers(n: int):
    def f(x: Any) -> Any:
        return np.fft.fft(x), np.fft.ifft(x), np.fft.rfft(x.real), np.fft.ihfft(x.real)

    x = numbers(3, n)
    for got, want in zip(tj.jit(f)(x), f(x), strict=True):
        assert_transformed(got, want, n)


@pytest.mark.parametrize("n", [n for n in COUNTS if n > 1][::2])
def test_real_transforms_of_halves(n: int):
    def f(x: Any) -> Any:
        return np.fft.irfft(x), np.fft.hfft(x), np.fft.irfft(x, 2 * x.shape[-1] - 1)

    x = numbers(2, n)
    for got, want in zip(tj.jit(f)(x), f(x), strict=True):
        assert_transformed(got, want, 2 * n)


OTHER_FORMS: dict[str, Callable[[Any], Any]] = {
    "fft2": lambda x: np.fft.fft2(x),
    "fftn": lambda x: np.fft.fftn(x),
    "ifft2": lambda x: np.fft.ifft2(x, axes=(0, 1)),
    "ifftn of axes": lambda x: np.fft.ifftn(x, axes=(0, 2)),
    "rfftn": lambda x: np.fft.rfftn(x.real),
    "rfft2 cut": lambda x: np.fft.rfft2(x.real, s=(3, 4)),
    "irfftn": lambda x: np.fft.irfftn(x),
    "irfft2 odd": lambda x: np.fft.irfft2(x, s=(4, 7)),
    "longer": lambda x: np.fft.fft(x, 8, axis=1, norm="ortho"),
    "shorter": lambda x: np.fft.fft(x, 3, axis=0, norm="forward"),
    "inverse forward": lambda x: np.fft.ifft(x, norm="forward"),
    "hermitian": lambda x: np.fft.hfft(x, 7, norm="ortho"),
    "hermitian inverse": lambda x: np.fft.ihfft(x.real, norm="forward"),
    "shift": lambda x: np.fft.fftshift(x),
    "shift back": lambda x: np.fft.ifftshift(x, axes=1),
    "frequencies": lambda x: np.fft.fftfreq(9, 0.1) + x[0, 0, 0],
    "half frequencies": lambda x: np.fft.rfftfreq(8) + x[0, 0, 0],
    "single": lambda x: np.fft.fft(x.astype(np.complex64)),
    "real single": lambda x: np.fft.fft(x.real.astype(np.float32)),
    "integers": lambda x: np.fft.fft(np.arange(5)) + x[0, 0],
    "columns first": lambda x: np.fft.fft(x.T),
    "an axis twice": lambda x: np.fft.fftn(x, axes=(0, -3)),
    "an axis twice, real": lambda x: np.fft.rfftn(x.real, axes=(0, 1, -3)),
    "no axes": lambda x: np.fft.fftn(x, axes=()) * 2,
    "no axes of real numbers": lambda x: np.fft.ifftn(x.real, axes=()) * 2,
}


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_axes_norms_and_dtypes(name: str):
    x = numbers(4, 6, 5)
    assert_transformed(tj.jit(OTHER_FORMS[name])(x), OTHER_FORMS[name](x), x.size)


@pytest.mark.parametrize("backend", ["reference", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("n", [12, 211])
def test_on_other_backends(backend: str, n: int):
    x = numbers(2, n)
    assert_transformed(tj.jit(lambda x: np.fft.fft(x), backend=backend)(x), np.fft.fft(x), n)


def test_the_derivative_of_a_spectrum():
    def f(x: Any) -> Any:
        return np.sum(np.abs(np.fft.fft(x)) ** 2 * np.arange(8))

    x = np.random.default_rng(0).normal(size=8)
    slopes = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(8)]
    np.testing.assert_allclose(tj.grad(f)(x), slopes, rtol=1e-7)


def test_batches():
    x = numbers(3, 8)
    np.testing.assert_allclose(tj.vmap(lambda x: np.fft.ifft(np.fft.fft(x) * 2))(x), 2 * x, rtol=1e-14)


def test_a_filter_in_a_loop():
    def f(x: Any) -> Any:
        mask = np.abs(np.fft.fftfreq(len(x))) < 0.2
        for _ in range(3):
            x = np.fft.ifft(np.fft.fft(x) * mask).real + 0.5 * x
        return x

    x = numbers(30).real
    np.testing.assert_allclose(tj.jit(f)(x), f(x), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "wrong",
    [lambda x: np.fft.fft(x, 0), lambda x: np.fft.fft(x, norm="other")],
)
def test_wrong_arguments_are_numpys_errors(wrong: Any):
    with pytest.raises((ValueError, IndexError)) as numpys:
        wrong(np.ones(4))
    with pytest.raises((ValueError, IndexError)) as ours:
        tj.jit(wrong)(np.ones(4))
    assert isinstance(ours.value, TracejitError)
    assert isinstance(ours.value, ValueError) >= isinstance(numpys.value, ValueError)
