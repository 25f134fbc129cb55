"""Images of other sizes: against sums over all elements, written out, and what is kept exactly."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import OptionError, ShapeError

RNG = np.random.default_rng(0)


def triangle(x: float) -> float:
    return max(0.0, 1 - x)


def cubic(x: float) -> float:
    if x < 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def lanczos(radius: int) -> Callable[[float], float]:
    return lambda x: float(np.sinc(x) * np.sinc(x / radius)) if x <= radius else 0.0


KERNELS = {"linear": triangle, "cubic": cubic, "lanczos3": lanczos(3), "lanczos5": lanczos(5)}


def resampled(row: Any, count: int, scale: float, shift: float, kernel: Any, antialias: bool) -> Any:
    """One axis: each new element is a weighted mean of the old ones around it."""
    out = np.zeros(count)
    width = max(1 / scale, 1.0) if antialias else 1.0
    for k in range(count):
        at = (k + 0.5 - shift) / scale - 0.5
        weights = np.array([kernel(abs(at - i) / width) for i in range(len(row))])
        if -0.5 <= at <= len(row) - 0.5 and abs(weights.sum()) > 1e-4:
            out[k] = weights @ row / weights.sum()
    return out


@pytest.mark.parametrize("method", KERNELS)
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", [3, 6, 7, 13])
def test_axes_become_longer_and_shorter(size: int, antialias: bool, method: str):
    x = RNG.standard_normal((6, 2))
    want = np.stack([resampled(r, size, size / 6, 0.0, KERNELS[method], antialias) for r in x.T], 1)

    def f(x: Any) -> Any:
        return tj.image.resize(x, (size, 2), method, antialias)

    for call in (f, tj.jit(f)):
        np.testing.assert_allclose(call(x), want, atol=1e-12)
    np.testing.assert_allclose(tj.vmap(f)(np.stack([x, 2 * x])), np.stack([want, 2 * want]), atol=1e-12)


@pytest.mark.parametrize("method", KERNELS)
def test_images_are_scaled_and_moved(method: str):
    x = RNG.standard_normal((5, 3))
    for scale, shift in ((1.5, 0.25), (0.4, -1.0), (1.0, 2.0)):
        want = np.stack([resampled(r, 7, scale, shift, KERNELS[method], True) for r in x.T], 1)
        got = tj.jit(lambda x, s, t: tj.image.scale_and_translate(x, (7, 3), (0,), s, t, method))(
            x, np.array([scale]), np.array([shift])
        )
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_there_are_derivatives_of_image_and_scale():
    x, s, t = RNG.standard_normal(6), np.array([1.3]), np.array([0.4])

    def f(x: Any, s: Any, t: Any) -> Any:
        return tj.image.scale_and_translate(x, (5,), (0,), s, t, "cubic") @ np.arange(5.0)

    got = tj.grad(f, (0, 1, 2))(x, s, t)
    for k, g in enumerate(got):
        args, step = [x, s, t], 1e-6
        d = np.zeros_like(args[k])
        d[0] = step
        ends = [f(*[a + sign * d if j == k else a for j, a in enumerate(args)]) for sign in (1, -1)]
        np.testing.assert_allclose(g[0], (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


def test_the_nearest_element_keeps_the_dtype():
    x = np.arange(12).reshape(3, 4)
    got = tj.image.resize(x, (6, 2), tj.image.ResizeMethod.NEAREST)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, x[[0, 0, 1, 1, 2, 2]][:, [1, 3]])
    assert tj.image.resize(x, (6, 4), "linear").dtype == np.float64
    z = x + 1j
    np.testing.assert_allclose(tj.image.resize(z, (6, 4), "linear"), tj.image.resize(x, (6, 4), "linear") + 1j)


def test_what_does_not_fit_is_refused():
    x = np.ones((3, 4))
    with pytest.raises(OptionError, match="method is one of"):
        tj.image.resize(x, (2, 2), "sharp")
    with pytest.raises(ShapeError, match="another rank"):
        tj.image.resize(x, (2,), "linear")
    with pytest.raises(OptionError, match="nearest is not among"):
        tj.image.scale_and_translate(x, (2, 4), (0,), np.ones(1), np.ones(1), "nearest")
    with pytest.raises(ShapeError, match="not among those that change"):
        tj.image.scale_and_translate(x, (2, 5), (0,), np.ones(1), np.ones(1), "linear")
