"""How Fourier transforms are made: passes, rows in local memory, whole vectors; and at all kinds of places."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.primitives.butterflies import roots
from tracejit.primitives.fourier import FFT, fft_table, next_smooth
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.tracer.interpreter import bind


def numbers(*shape: int) -> Any:
    rng = np.random.default_rng(sum(shape))
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def near(got: Any, want: Any) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert np.abs(got - want).max(initial=0) <= 40 * np.finfo(want.dtype).eps * np.abs(want).max(initial=0)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 100, 1009, 4096])
def test_roots_are_rounded_correctly_but_for_few(n: int):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workprec(120):
        exact = [mpmath.expjpi(mpmath.mpf(-2 * k) / n) for k in range(n)]
        rounded = np.array([complex(z) for z in exact])
    found = roots(n)
    for a, b in ((found.real, rounded.real), (found.imag, rounded.imag)):
        assert np.abs(a - b).max() <= 2**-53
        assert np.mean(a == b) > 0.99
    assert not found.flags.writeable


@pytest.mark.parametrize("target", [1, 2, 7, 31, 250, 1921])
def test_the_next_length_without_great_prime_factors(target: int):
    n = next_smooth(target)
    assert target <= n < 2 * target or n == target
    assert 60**20 % n == 0


SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((0, 8), 1), ((5, 1), 1), ((3, 48), 1), ((48, 3), 0), ((2, 3, 40), 2), ((2, 3, 4, 27), 3), ((2, 34, 3), 1),
    ((4, 1, 26, 5), 2), ((70, 64), 1), ((2, 3, 38), 2), ((7, 2, 81, 9), 2), ((3, 529), 1), ((2, 256, 2, 5), 1),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_along_every_axis_of_every_shape(shape: tuple[int, ...], axis: int, dtype: str):
    def f(x: Any) -> Any:
        n = x.shape[axis]
        y = np.fft.fft(x * 2, axis=axis)
        return y, np.fft.ifft(y + 1, axis=axis), np.fft.rfft(x.real, axis=axis), np.fft.irfft(y, n, axis=axis)

    x = numbers(*shape).astype(dtype)
    for got, want in zip(tj.jit(f)(x), f(x), strict=True):
        near(got, want)
    strided = np.asfortranarray(np.concatenate([x, x], axis=0))[::2]
    for got, want in zip(tj.jit(f)(strided), f(strided), strict=True):
        near(got, want)


def test_a_batch_is_one_kernel_that_keeps_rows_by_turns():
    x = numbers(50, 4096)
    lowered = tj.jit(lambda x: np.fft.fft(x)).lower(x)
    text = lowered.text("scheduled")
    assert text.count("kernel ") == 1
    assert len(re.findall(r"alloc row", text)) == 2
    assert len(re.findall(r"vector\(", text)) == 4
    assert tj.jit(lambda x: np.fft.fft(x)).lower(x[0]).text("scheduled").count("kernel ") == 4


def test_other_backends_run_each_pass_by_itself():
    x = numbers(3, 64)
    f = tj.jit(lambda x: np.fft.fft(x), backend="reference")
    assert f.lower(x).text("scheduled").count("kernel ") == 2
    near(f(x), np.fft.fft(x))


@pytest.mark.parametrize("shape", [(1024,), (9, 1024)])
def test_numbers_that_lie_side_by_side_are_stored_and_loaded_so(shape: tuple[int, ...]):
    x = numbers(*shape)
    there = tj.jit(lambda x: np.fft.fft(x)).lower(x).text("code")
    back = tj.jit(lambda x: np.fft.irfft(x)).lower(x[..., :513].copy()).text("code")
    for code in (there, back):
        assert "scatter" not in code
        assert "gather" not in code


def test_one_version_serves_every_batch():
    f = tj.jit(lambda x: np.fft.ifft(np.fft.fft(x) * 2))
    for rows in (3, 5, 1, 17):
        near(f(numbers(rows, 24)), 2 * numbers(rows, 24))


def test_in_loops_branches_and_batches():
    x = numbers(6, 32)

    def f(x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            return tj.lax.cond(i % 2 == 0, lambda: np.fft.fft(x) / 5, lambda: np.fft.ifft(x) * 5)

        return tj.lax.fori_loop(0, 4, step, x)

    near(tj.jit(f)(x[0]), x[0])
    near(np.asarray(tj.jit(tj.vmap(f))(x)), x)
    near(
        np.asarray(tj.vmap(lambda x: np.fft.rfft(x, axis=0), in_axes=1, out_axes=1)(x.real)),
        np.fft.rfft(x.real, axis=0),
    )


def test_hessians_of_energies():
    def energy(x: Any) -> Any:
        return np.sum(np.abs(np.fft.rfft(x)) ** 4)

    x = np.random.default_rng(0).normal(size=7)
    found = tj.jit(tj.hessian(energy))(x)
    slope = tj.grad(energy)
    want = np.array([(slope(x + 1e-6 * e) - slope(x - 1e-6 * e)) / 2e-6 for e in np.eye(7)])
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())


def test_tables_belong_to_lengths_and_have_no_derivative():
    x, table = numbers(3, 64), fft_table("fft", 64, "complex128")
    with pytest.raises(ShapeError, match="is not the table of fft of 64 numbers"):
        bind(FFT("fft", 64, 1), x, table[1:])
    with pytest.raises(ShapeError, match=r"axis 1 of .* does not fit fft of 32 numbers"):
        bind(FFT("fft", 32, 1), x, fft_table("fft", 32, "complex128"))
    with pytest.raises(UnsupportedError, match="no derivative with respect to its table"):
        tj.jvp(lambda t: bind(FFT("fft", 64, 1), x, t), (table,), (table,))
