"""tj.ops: sums, products and extrema of segments, against loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ConcretizationError, DtypeError, ShapeError

OPS: dict[str, tuple[Any, Any]] = {
    "segment_sum": (np.add, 0), "segment_prod": (np.multiply, 1),
    "segment_min": (np.minimum, np.inf), "segment_max": (np.maximum, -np.inf),
}  # fmt: skip


def expected(name: str, data: np.ndarray, ids: Any, count: int, clip: bool = False) -> np.ndarray:
    f, none = OPS[name]
    if data.dtype.kind in "iu" and not np.isfinite(none):
        none = np.iinfo(data.dtype).max if none > 0 else np.iinfo(data.dtype).min
    out = np.full((count, *data.shape[1:]), none, data.dtype)
    for row, k in zip(data, ids, strict=True):
        k = min(max(k, 0), count - 1) if clip else k
        if 0 <= k < count:
            out[k] = f(out[k], row)
    return out


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1"])
def test_segments(name: str, dtype: str):
    rng = np.random.default_rng(0)
    run = getattr(tj.ops, name)
    f = tj.jit(lambda x, k: (run(x, k, 5), run(x, k, num_segments=5, bucket_size=3), run(x, k, 5, mode="clip")))
    for shape in ((8,), (7, 2), (1, 3)):
        x, k = rng.integers(0, 4, shape).astype(dtype), rng.integers(-1, 7, shape[0])
        want = expected(name, x, k, 5)
        for got, w in zip(f(x, k), (want, want, expected(name, x, k, 5, clip=True)), strict=True):
            assert np.asarray(got).dtype == x.dtype
            np.testing.assert_allclose(got, w, rtol=1e-6)
        kept = np.abs(k)
        np.testing.assert_allclose(run(tj.Array(x), kept), expected(name, x, kept, int(kept.max()) + 1), rtol=1e-6)


def test_extrema_of_bool():
    x, k = np.array([True, False, True, False]), np.array([0, 0, 2, 3])
    np.testing.assert_array_equal(tj.ops.segment_max(x, k, 5), [True, False, True, False, False])
    np.testing.assert_array_equal(tj.ops.segment_min(x, k, 5), [False, True, True, False, True])
    with pytest.raises(DtypeError, match="does not accept bool"):
        tj.ops.segment_sum(x, k)


def test_one_program_serves_arrays_of_many_sizes():
    f = tj.jit(lambda x, k: tj.ops.segment_prod(x, k, num_segments=4))
    for n in (6, 6, 2, 11, 1, 0):
        x, k = np.linspace(0.5, 2.0, n), np.arange(n) * 3 % 4
        np.testing.assert_allclose(f(x, k), expected("segment_prod", x, k, 4))


@pytest.mark.parametrize("name", OPS)
def test_derivatives_and_batches(name: str):
    rng = np.random.default_rng(1)
    run, k = getattr(tj.ops, name), np.array([0, 2, 0, 1, 0])
    x, w = rng.uniform(0.5, 2.0, (2, 5)), rng.standard_normal(3)
    slope = np.asarray(tj.grad(lambda x: (run(x, k, 3) * w).sum())(x[0]))
    for n in range(5):
        e = np.eye(5)[n] * 1e-6
        ends = [(expected(name, x[0] + s * e, k, 3) * w).sum() for s in (1, -1)]
        np.testing.assert_allclose(slope[n], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
    np.testing.assert_allclose(tj.vmap(lambda x: run(x, k, 3))(x), [expected(name, row, k, 3) for row in x])
    both = tj.vmap(lambda x, k: run(x, k, 3))(x, np.stack([k, k[::-1]]))
    np.testing.assert_allclose(both, [expected(name, x[0], k, 3), expected(name, x[1], k[::-1], 3)])


def test_what_does_not_fit_is_refused():
    x, k = np.arange(4.0), np.array([0, 1, 1, 2])
    for call, error in (
        (lambda: tj.ops.segment_sum(x, k[:2]), ShapeError),
        (lambda: tj.ops.segment_sum(x, k[:, None]), ShapeError),
        (lambda: tj.ops.segment_sum(x, k * 1.0), DtypeError),
        (lambda: tj.ops.segment_sum(x, k, -1), ShapeError),
        (lambda: tj.jit(tj.ops.segment_sum)(x, k), ConcretizationError),
    ):
        with pytest.raises(error):
            call()


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.opencl
def test_other_backends_agree(backend: str, record_backend: Callable[[str], None]):
    record_backend(backend)
    x, k = np.arange(1, 9), np.array([0, 2, 0, 1, 0, 3, 9, -1])
    f = tj.jit(lambda x, k: [getattr(tj.ops, name)(x, k, 5) for name in OPS], backend=backend)
    for name, got in zip(OPS, f(x, k), strict=True):
        np.testing.assert_array_equal(got, expected(name, x, k, 5))
