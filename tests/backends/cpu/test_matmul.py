"""Matrix products on the CPU against NumPy in double precision:
every class of shape, layout, dtype, fusion and schedule."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tracejit as tj

EDGES = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 65)


def values(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.3
    if dtype.kind in "iu":
        low = -9 if dtype.kind == "i" else 0
        return rng.integers(low, 10, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def exact(a, b, product=np.matmul):
    """The product of the same numbers in float64 (or int64)."""
    wide = np.float64 if a.dtype.kind == "f" else np.int64
    return product(a.astype(wide), b.astype(wide))


def close(result, expected, dtype, depth, scale=1.0):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        np.testing.assert_array_equal(result, expected != 0)
    elif dtype.kind in "iu":
        np.testing.assert_array_equal(result, expected.astype(dtype))
    else:
        eps = np.finfo(dtype).eps
        rounding = np.finfo(np.float32 if dtype == np.float16 else dtype).eps
        np.testing.assert_allclose(result, expected, rtol=8 * eps, atol=scale * (8 * rounding * max(depth, 1)))
    assert result.dtype == dtype


def matmul(a, b):
    return a @ b


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("depth", [1, 4, 63, 300])
def test_every_edge_of_the_tile(dtype, depth):
    rng = np.random.default_rng(depth)
    for m, n in itertools.product((1, 3, 8, 17, 65), EDGES):
        a, b = values(rng, (m, depth), dtype), values(rng, (depth, n), dtype)
        close(tj.jit(matmul)(a, b), exact(a, b), dtype, depth)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "?"])
@pytest.mark.parametrize("shape", [(8, 16, 16), (37, 41, 43), (64, 64, 64), (3, 200, 70)])
def test_every_dtype(dtype, shape):
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = values(rng, (m, k), dtype), values(rng, (k, n), dtype)
    close(tj.jit(matmul)(a, b), exact(a, b), dtype, k)


def test_half_precision_accumulates_in_single():
    a, b = np.full((16, 4096), 0.5, np.float16), np.full((4096, 16), 0.5, np.float16)
    # a half-precision sum stops at 512
    np.testing.assert_array_equal(tj.jit(matmul)(a, b), np.full((16, 16), 1024, np.float16))


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (5, 3, 0), (0, 0, 0), (64, 64, 0), (64, 0, 64)])
def test_extents_of_zero(shape):
    m, n, k = shape
    result = tj.jit(matmul)(np.ones((m, k), "f4"), np.ones((k, n), "f4"))
    np.testing.assert_array_equal(result, np.zeros((m, n), "f4"))


@pytest.mark.parametrize(
    "shape", [(1, 300, 200), (300, 1, 200), (1, 1, 5000), (2, 2, 5000), (300, 200, 1), (5000, 3, 4), (3, 5000, 4)]
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_thin_products(shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = values(rng, (m, k), dtype), values(rng, (k, n), dtype)
    close(tj.jit(matmul)(a, b), exact(a, b), dtype, k)


def test_several_blocks_of_the_contracted_axis():
    rng = np.random.default_rng(3)
    for dtype, k in (("f4", 2500), ("f4", 3072), ("f8", 2100)):
        a, b = values(rng, (50, k), dtype), values(rng, (k, 45), dtype)
        close(tj.jit(matmul)(a, b), exact(a, b), dtype, k)


@pytest.mark.parametrize("view", ["transposed", "reversed", "every other", "column slice", "broadcast"])
@pytest.mark.parametrize("side", [0, 1])
def test_views_as_arguments_and_inside_the_function(view, side):
    rng = np.random.default_rng(5)
    whole = values(rng, (140, 140), "f4")
    cut = {
        "transposed": lambda x: x[:70, :60].T, "reversed": lambda x: x[59::-1, 69::-1],
        "every other": lambda x: x[:120:2, :140:2], "column slice": lambda x: x[5:65, 7:77],
        "broadcast": lambda x: np.broadcast_to(x[0, :70], (60, 70)),
    }[view]  # fmt: skip
    other = values(rng, (70, 50) if side == 0 else (50, 60), "f4")
    outside = tj.jit(lambda x, y: x @ y if side == 0 else y @ x)
    inside = tj.jit(lambda x, y: cut(x) @ y if side == 0 else y @ cut(x))
    expected = exact(cut(whole), other) if side == 0 else exact(other, cut(whole))
    close(outside(cut(whole), other), expected, "f4", 70)
    close(inside(whole, other), expected, "f4", 70)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_both_operands_transposed_inside(dtype):
    rng = np.random.default_rng(6)
    for m, n, k in ((33, 65, 40), (64, 64, 64), (100, 17, 130)):
        a, b = values(rng, (k, m), dtype), values(rng, (n, k), dtype)
        close(tj.jit(lambda a, b: a.T @ b.T)(a, b), exact(a.T, b.T), dtype, k)
        close(tj.jit(lambda a, b: (b @ a).T)(a, b), exact(b, a).T, dtype, k)
        close(tj.jit(lambda a: a.T @ a)(a), exact(a.T, a), dtype, k)


def test_batches():
    rng = np.random.default_rng(7)
    for x, y in (
        ((40, 16, 16), (40, 16, 16)),
        ((3, 70, 40), (3, 40, 30)),
        ((2, 5, 33, 20), (5, 20, 18)),
        ((4, 20, 30), (30, 25)),
        ((20, 30), (6, 30, 17)),
    ):
        a, b = values(rng, x, "f4"), values(rng, y, "f4")
        close(tj.jit(np.matmul)(a, b), exact(a, b), "f4", x[-1])


@pytest.mark.parametrize(
    ("text", "x", "y"),
    [
        ("abk,kc->abc", (7, 9, 30), (30, 40)), ("akb,kc->abc", (7, 30, 9), (30, 40)),
        ("ij,jkl->ikl", (20, 30), (30, 5, 24)), ("ijk,jkl->il", (20, 6, 30), (6, 30, 24)),
        ("bijk,bjkl->bil", (3, 20, 6, 30), (3, 6, 30, 24)), ("ij,kj->ki", (40, 30), (50, 30)),
        ("ijk,kjl->il", (20, 6, 30), (30, 6, 24)), ("bhid,bhjd->bhij", (2, 3, 20, 16), (2, 3, 22, 16)),
    ],
)  # fmt: skip
def test_contractions_of_several_axes(text, x, y):
    rng = np.random.default_rng(8)
    a, b = values(rng, x, "f4"), values(rng, y, "f4")
    expected = np.einsum(text, a.astype("f8"), b.astype("f8"))
    close(tj.jit(lambda a, b: np.einsum(text, a, b))(a, b), expected, "f4", 180)


def gelu(h):
    return 0.5 * h * (1 + np.tanh(0.7978845608028654 * (h + 0.044715 * h * h * h)))


FUSED = {
    "bias": lambda x, w, b: x @ w + b,
    "bias and gelu": lambda x, w, b: gelu(x @ w + b),
    "raw and activated": lambda x, w, b: (x @ w, np.maximum(x @ w + b, 0)),
    "scaled operands": lambda x, w, b: (x * 2 + 1) @ (w * b),
    "activated operand": lambda x, w, b: np.exp(-x * x) @ w,
    "residual": lambda x, w, b: np.maximum(x @ w, 0) + b * (x @ w),
    "row scale": lambda x, w, b: (x @ w) * x.sum(axis=1, keepdims=True),
    "softmax": lambda x, w, b: np.exp(x @ w - (x @ w).max(axis=1, keepdims=True)),
    "transposed result": lambda x, w, b: np.tanh((x @ w + b).T),
    "two layers": lambda x, w, b: np.tanh(x @ w + b) @ w.T,
    "sum of two": lambda x, w, b: x @ w + (2 * x) @ (w - b),
    "gram": lambda x, w, b: (x @ w) @ (x @ w).T,
    "reduced": lambda x, w, b: (x @ w + b).sum(axis=0),
    "normalised operand": lambda x, w, b: ((x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)) @ w,
}


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("shape", [(40, 48, 32), (37, 29, 50), (130, 70, 90)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_fused_around_a_product(name, shape, dynamic):
    m, n, k = shape
    rng = np.random.default_rng(9)
    args = values(rng, (m, k), "f8"), values(rng, (k, n), "f8") / np.sqrt(k), values(rng, n, "f8")
    results, expected = tj.jit(FUSED[name], dynamic_shapes=dynamic)(*args), FUSED[name](*args)
    for r, e in zip(
        results if isinstance(results, tuple) else [results],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        np.testing.assert_allclose(r, e, rtol=1e-10, atol=1e-10)


def test_one_symbolic_version_serves_every_shape():
    f = tj.jit(lambda x, w, b: gelu(x @ w + b), dynamic_shapes=True)
    rng = np.random.default_rng(10)
    for m, n, k in itertools.product((2, 5, 6, 7, 50, 131), (2, 7, 8, 9, 16, 33, 100), (2, 30, 600)):
        x, w, b = values(rng, (m, k), "f8"), values(rng, (k, n), "f8"), values(rng, n, "f8")
        np.testing.assert_allclose(f(x, w, b), gelu(x @ w + b), rtol=1e-9, atol=1e-9)


@settings(max_examples=60)
@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(0, 70),
    st.sampled_from(["f4", "f8", "i4"]),
    st.integers(0, 3),
    st.integers(0, 2**32),
)
def test_random_shapes_and_orders(m, n, k, dtype, order, seed):
    rng = np.random.default_rng(seed)
    a, b = values(rng, (k, m) if order & 1 else (m, k), dtype), values(rng, (n, k) if order & 2 else (k, n), dtype)
    turn = lambda a, b: (a.T if order & 1 else a, b.T if order & 2 else b)  # noqa: E731
    result = tj.jit(lambda a, b: np.matmul(*turn(a, b)))(a, b)
    close(result, exact(*turn(a, b)), dtype, k)


def test_special_values_stay_where_they_are():
    a, b = np.ones((40, 30)), np.ones((30, 50))
    a[3, 4], a[39, 29], b[7, 49] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(tj.jit(matmul)(a, b), a @ b)


def test_results_do_not_depend_on_the_number_of_threads():
    from tracejit.backends.cpu.runtime import pool

    rng = np.random.default_rng(11)
    for m, n, k in ((300, 200, 1500), (40, 3000, 100), (3000, 40, 100)):
        f, a, b = tj.jit(matmul), values(rng, (m, k), "f4"), values(rng, (k, n), "f4")
        many = f(a, b)
        before = pool.pool_size()
        try:
            pool.set_threads(1)
            np.testing.assert_array_equal(f(a, b), many)
        finally:
            pool.set_threads(before)
