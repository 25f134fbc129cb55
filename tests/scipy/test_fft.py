"""The names of scipy.fft against SciPy's, where it is installed, and against sums of cosines and sines."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError

ours = tj.scipy.fft
X = np.random.default_rng(0).normal(size=(3, 8))


LENGTHS = [1, 2, 3, 5, 8, 17, 30]


def cosines(x: Any, kind: int) -> Any:
    """The sums that define the transforms of each row."""
    n = x.shape[-1]
    j, k = np.arange(n), np.arange(n)[:, None]
    if kind == 1:
        weights = np.where((j == 0) | (j == n - 1), 1, 2)
        return (x[..., None, :] * weights * np.cos(np.pi * k * j / (n - 1))).sum(-1)
    if kind == 2:
        return (x[..., None, :] * 2 * np.cos(np.pi * k * (2 * j + 1) / (2 * n))).sum(-1)
    if kind == 3:
        return (x[..., None, :] * np.where(j == 0, 1, 2) * np.cos(np.pi * j * (2 * k + 1) / (2 * n))).sum(-1)
    return (x[..., None, :] * 2 * np.cos(np.pi * (2 * j + 1) * (2 * k + 1) / (4 * n))).sum(-1)


def sines(x: Any, kind: int) -> Any:
    n = x.shape[-1]
    j, k = np.arange(n), np.arange(n)[:, None]
    if kind == 1:
        return (x[..., None, :] * 2 * np.sin(np.pi * (k + 1) * (j + 1) / (n + 1))).sum(-1)
    if kind == 2:
        return (x[..., None, :] * 2 * np.sin(np.pi * (k + 1) * (2 * j + 1) / (2 * n))).sum(-1)
    if kind == 3:
        weights = np.where(j == n - 1, 1, 2)
        return (x[..., None, :] * weights * np.sin(np.pi * (j + 1) * (2 * k + 1) / (2 * n))).sum(-1)
    return (x[..., None, :] * 2 * np.sin(np.pi * (2 * j + 1) * (2 * k + 1) / (4 * n))).sum(-1)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("n", LENGTHS)
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


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("n", LENGTHS)
def test_sine_transforms_are_sums_of_sines(kind: int, n: int):
    x = np.random.default_rng(n).normal(size=(2, n))
    want = sines(x, kind)
    np.testing.assert_allclose(ours.dst(x, kind), want, rtol=0, atol=1e-14 * n)
    np.testing.assert_allclose(tj.jit(lambda x: ours.dst(x, kind))(x), want, rtol=0, atol=1e-14 * n)
    np.testing.assert_allclose(ours.idst(want, kind), x, rtol=0, atol=1e-14 * n)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("orthogonalize", [None, True, False])
def test_norms_and_scaled_ends_are_scipys(name: str, kind: int, norm: Any, orthogonalize: Any):
    theirs = pytest.importorskip("scipy.fft")
    for n in (2, 7, 8):
        x = np.random.default_rng(n).normal(size=(n, 2))
        got, want = (getattr(m, name)(x, kind, None, 0, norm, orthogonalize=orthogonalize) for m in (ours, theirs))
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-14 * np.abs(want).max())


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
    "half": lambda m: m.dst(X.astype("f2"), 4),
    "integers": lambda m: m.dct(np.arange(6)),
    "flags": lambda m: m.dst(X > 0),
    "dct of complex numbers": lambda m: m.dct(X - 2j * X[::-1], 4),
    "narrow complex numbers": lambda m: m.idst((X + 1j).astype("c8"), 1),
    "dst shorter": lambda m: m.dst(X, 2, 5, 1, "ortho"),
    "idst longer": lambda m: m.idst(X, 4, n=11, axis=0),
    "dstn": lambda m: m.dstn(X, 3, norm="ortho", orthogonalize=False),
    "dstn of last axes": lambda m: m.dstn(X, 1, s=(9,)),
    "dctn of one axis": lambda m: m.dctn(X, 4, s=5, axes=0),
    "dctn of no axes": lambda m: m.dctn(X, axes=()),
    "idstn": lambda m: m.idstn(X, s=(-1, 4), axes=(1, 0), norm="forward"),
    "hfftn": lambda m: m.hfftn(X + 1j * X[::-1], (4, 9), norm="ortho"),
    "hfft2 of real numbers": lambda m: m.hfft2(X),
    "ihfft2": lambda m: m.ihfft2(X, axes=(1, 0)),
    "ihfftn": lambda m: m.ihfftn(X, s=(6,), norm="forward"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_names_give_what_scipys_do(name: str):
    theirs = pytest.importorskip("scipy.fft")
    got, want = np.asarray(CALLS[name](ours)), CALLS[name](theirs)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=0, atol=60 * np.finfo(want.dtype).eps * np.abs(want).max())


def test_hermitian_transforms_undo_each_other():
    half = ours.ihfftn(X)
    np.testing.assert_allclose(ours.hfftn(half, X.shape), X, rtol=0, atol=1e-15 * 8)


HANKEL = {
    "even": (16, 0.1, 0.5, 0.0, 0.0),
    "odd, offset": (33, 0.05, 1.0, 0.3, 0.0),
    "biased": (64, 0.2, 0.0, -0.2, 0.4),
    "of a negative order": (20, 0.1, -0.5, 0.1, -0.3),
    "whole bias": (20, 0.1, -2.0, 0.1, 1.0),
}


@pytest.mark.parametrize("name", HANKEL)
def test_hankel_transforms(name: str):
    theirs = pytest.importorskip("scipy.fft")
    n, dln, mu, offset, bias = HANKEL[name]
    x = np.random.default_rng(n).normal(size=(3, n))
    for function in ("fht", "ifht"):
        of_scipy, of_ours = getattr(theirs, function), getattr(ours, function)
        want = of_scipy(x, dln, mu, offset, bias)
        for call in (of_ours, tj.jit(of_scipy, static_argnums=(1, 2, 3, 4))):
            got = call(x, dln, mu, offset, bias)
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * np.abs(want).max())
    np.testing.assert_allclose(ours.fhtoffset(dln, mu, 0.7, bias), theirs.fhtoffset(dln, mu, 0.7, bias), rtol=1e-12)
    there = ours.fht(x, dln, mu, offset, bias)
    np.testing.assert_allclose(ours.ifht(there, dln, mu, offset, bias), x, rtol=0, atol=1e-10)
    matrix = np.asarray(ours.fht(np.eye(n), dln, mu, offset, bias)).T
    np.testing.assert_allclose(
        tj.jacrev(lambda x: ours.fht(x, dln, mu, offset, bias))(x[0]), matrix, rtol=0, atol=1e-12 * np.abs(matrix).max()
    )


def test_singular_hankel_transforms_warn():
    theirs = pytest.importorskip("scipy.fft")
    x = np.random.default_rng(1).normal(size=16)
    for function, rest in (
        ("fht", (0.1, -1.0, 0.0, -2.0)),
        ("fht", (0.1, 0.5, 0.0, -1.5)),
        ("ifht", (0.1, 0.5, 0.0, 1.5)),
        ("ifht", (0.1, 0.0, 0.0, 1.0)),
    ):
        with pytest.warns(RuntimeWarning, match="consider changing the bias"):
            got = getattr(ours, function)(x, *rest)
        with pytest.warns(UserWarning, match="consider changing the bias"):
            want = getattr(theirs, function)(x, *rest)
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_fast_lengths():
    def is_smooth(n: int) -> bool:
        for p in (2, 3, 5):
            while n % p == 0:
                n //= p
        return n == 1

    for target in (1, 2, 7, 17, 97, 1000, 1025, 2049):
        assert ours.next_fast_len(target) == next(n for n in range(target, 2 * target + 1) if is_smooth(n))
        assert ours.prev_fast_len(target) == next(n for n in range(target, 0, -1) if is_smooth(n))
    for function in (ours.next_fast_len, ours.prev_fast_len):
        with pytest.raises(ShapeError, match="is not a length"):
            function(0)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
@pytest.mark.parametrize("n", [5, 8])
def test_derivatives_of_a_transform_are_its_matrix(name: str, kind: int, n: int):
    def f(x: Any) -> Any:
        return getattr(ours, name)(x, kind)

    matrix, x = np.asarray(f(np.eye(n))).T, np.random.default_rng(n).normal(size=n)
    np.testing.assert_allclose(tj.jacfwd(f)(x), matrix, rtol=0, atol=1e-14 * n)
    np.testing.assert_allclose(tj.jacrev(f)(x), matrix, rtol=0, atol=1e-14 * n)
    np.testing.assert_allclose(tj.hessian(lambda x: np.sum(f(x) ** 2) / 2)(x), matrix.T @ matrix, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["dct", "dst"])
def test_transforms_are_mapped_over_any_axis(name: str):
    x = np.random.default_rng(1).normal(size=(4, 3, 6))
    for at in range(3):
        got = tj.jit(tj.vmap(lambda row: getattr(ours, name)(row, 4, axis=0), in_axes=at))(x)
        want = np.stack([getattr(ours, name)(row, 4, axis=0) for row in np.moveaxis(x, at, 0)])
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ours.dct(X, 5), ShapeError, "dct: invalid type 5; there are types 1 to 4"),
        (lambda: ours.dct(X, norm="x"), ShapeError, "invalid norm 'x'"),
        (lambda: ours.idst(X, n=0), ShapeError, "idst: type 2 of 0 elements is not defined"),
        (lambda: ours.dctn(X, s=(3,), axes=(0, 1)), ShapeError, "do not fit each other"),
        (lambda: ours.dstn(X, s=(3, 3, 3)), ShapeError, "s=.* is of 3 axes, the array has 2"),
    ],
)
def test_what_there_is_not_is_refused(call: Any, error: type, text: str):
    with pytest.raises(error, match=text):
        call()
