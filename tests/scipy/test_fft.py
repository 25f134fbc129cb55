"""The names of scipy.fft against SciPy's, where it is installed, and against sums of cosines."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError

ours = tj.scipy.fft
X = np.random.default_rng(0).normal(size=(3, 8))


def cosines(x: Any, kind: int) -> Any:
    """The sums that define the transforms of each row."""
    n = x.shape[-1]
    j, k = np.arange(n), np.arange(n)[:, None]
    if kind == 1:
        weights = np.where((j == 0) | (j == n - 1), 1, 2)
        return (x[..., None, :] * weights * np.cos(np.pi * k * j / (n - 1))).sum(-1)
    if kind == 2:
        return (x[..., None, :] * 2 * np.cos(np.pi * k * (2 * j + 1) / (2 * n))).sum(-1)
    return (x[..., None, :] * np.where(j == 0, 1, 2) * np.cos(np.pi * j * (2 * k + 1) / (2 * n))).sum(-1)


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 17, 30])
def test_cosine_transforms_are_sums_of_cosines(kind: int, n: int):
    x = np.random.default_rng(n).normal(size=(2, n))
    if kind == 1 and n == 1:
        with pytest.raises(ShapeError, match="type 1 of 1 elements is not defined"):
            ours.dct(x, 1)
        return
    want = cosines(x, kind)
    np.testing.assert_allclose(ours.dct(x, kind), want, rtol=0, atol=1e-14 * n)
    np.testing.assert_allclose(tj.jit(lambda x: ours.dct(x, kind))(x), want, rtol=0, atol=1e-14 * n)
    np.testing.assert_allclose(ours.idct(want, kind), x, rtol=0, atol=1e-14 * n)


CALLS: dict[str, Any] = {
    "fft": lambda m: m.fft(X, 6, 1, "ortho", workers=2),
    "fftn": lambda m: m.fftn(X, axes=(0,)),
    "irfft2": lambda m: m.irfft2(X + 1j),
    "rfftn": lambda m: m.rfftn(X),
    "hfft": lambda m: m.hfft(X),
    "shift": lambda m: m.fftshift(m.fftfreq(9, 0.1)),
    "dct forward": lambda m: m.dct(X, norm="forward"),
    "dct ortho": lambda m: m.dct(X, norm="ortho"),
    "dct 3 ortho": lambda m: m.dct(X, 3, norm="ortho"),
    "dct 1 ortho": lambda m: m.dct(X, 1, norm="ortho"),
    "dct not orthogonal": lambda m: m.dct(X, norm="ortho", orthogonalize=False),
    "dct orthogonal": lambda m: m.dct(X, 3, orthogonalize=True),
    "idct 1 ortho": lambda m: m.idct(X, 1, norm="ortho"),
    "idct longer": lambda m: m.idct(X, n=11, axis=0),
    "idct 3": lambda m: m.idct(X, 3, norm="forward"),
    "dctn": lambda m: m.dctn(X, norm="ortho"),
    "idctn of axes": lambda m: m.idctn(X, s=(5,), axes=(1,)),
    "narrow": lambda m: m.dct(X.astype("f4")),
    "integers": lambda m: m.dct(np.arange(6)),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_names_give_what_scipys_do(name: str):
    theirs = pytest.importorskip("scipy.fft")
    got, want = np.asarray(CALLS[name](ours)), CALLS[name](theirs)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=0, atol=60 * np.finfo(want.dtype).eps * np.abs(want).max())


def test_fast_lengths():
    def is_smooth(n: int) -> bool:
        for p in (2, 3, 5):
            while n % p == 0:
                n //= p
        return n == 1

    for target in (1, 2, 7, 17, 97, 1000, 1025, 2049):
        assert ours.next_fast_len(target) == next(n for n in range(target, 2 * target + 1) if is_smooth(n))
    with pytest.raises(ShapeError, match="is not a length"):
        ours.next_fast_len(0)


def test_the_gradient_of_a_cosine_transform():
    def f(x: Any) -> Any:
        return np.sum(ours.dct(x) ** 2 * np.arange(8.0))

    x = X[0]
    slopes = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(8)]
    np.testing.assert_allclose(tj.grad(f)(x), slopes, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ours.dct(X, 4), UnsupportedError, "type 4 is not there"),
        (lambda: ours.dct(X, 5), ShapeError, "invalid type 5"),
        (lambda: ours.dct(X, norm="x"), ShapeError, "invalid norm 'x'"),
        (lambda: ours.dct(X + 1j), DtypeError, "takes real numbers, not c128"),
        (lambda: ours.dctn(X, s=(3,), axes=(0, 1)), ShapeError, "do not fit each other"),
    ],
)
def test_what_there_is_not_is_refused(call: Any, error: type, text: str):
    with pytest.raises(error, match=text):
        call()
