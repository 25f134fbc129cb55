"""Matrix products, alone and with what neural networks put around them."""

import numpy as np

from benchmarks.workload import Workload


def matmul(a, b):
    return a @ b


def gelu(h):
    return 0.5 * h * (1 + np.tanh(0.7978845608028654 * (h + 0.044715 * h * h * h)))


def bias_gelu(x, w, b):
    return gelu(x @ w + b)


def mlp(x, w1, b1, w2, b2):
    return gelu(x @ w1 + b1) @ w2 + b2


def batched(a, b):
    return np.matmul(a, b)


def numba_matmul():
    import numba

    return numba.njit(lambda a, b: np.dot(a, b))


def numba_gelu_in_place():
    """Overwrite h with gelu(h + b), in parallel over rows."""
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def finish(h, b):
        half, one = h.dtype.type(0.5), h.dtype.type(1)
        c1, c3 = h.dtype.type(0.7978845608028654), h.dtype.type(0.044715)
        for i in numba.prange(h.shape[0]):
            for j in range(h.shape[1]):
                x = h[i, j] + b[j]
                h[i, j] = half * x * (one + np.tanh(c1 * (x + c3 * x * x * x)))
        return h

    return finish


def numba_bias_gelu():
    import numba

    finish = numba_gelu_in_place()
    return numba.njit(lambda x, w, b: finish(np.dot(x, w), b))


def numba_mlp():
    import numba

    finish = numba_gelu_in_place()
    return numba.njit(lambda x, w1, b1, w2, b2: np.dot(finish(np.dot(x, w1), b1), w2) + b2)


def numba_batched():
    import numba

    @numba.njit
    def products(a, b):
        out = np.empty((a.shape[0], a.shape[1], b.shape[2]), a.dtype)
        for i in range(a.shape[0]):
            np.dot(a[i], b[i], out[i])
        return out

    return products


def scaled(rng, shape, dtype):
    return (rng.normal(size=shape) / np.sqrt(shape[-2] if len(shape) > 1 else 1)).astype(dtype)


def pair(rng, n, dtype):
    return scaled(rng, (n, n), dtype), scaled(rng, (n, n), dtype)


def layer(rng, size, dtype):
    rows, inner, width = size
    return scaled(rng, (rows, inner), dtype), scaled(rng, (inner, width), dtype), scaled(rng, (width,), dtype)


def two_layers(rng, size, dtype):
    rows, width, hidden = size
    shapes = [(rows, width), (width, hidden), (hidden,), (hidden, width), (width,)]
    return tuple(scaled(rng, shape, dtype) for shape in shapes)


def many(rng, size, dtype):
    count, n = size
    return scaled(rng, (count, n, n), dtype), scaled(rng, (count, n, n), dtype)


WORKLOADS = [
    Workload("matmul", {"64": 64, "256": 256, "1024": 1024}, pair, matmul, {"numba": numba_matmul}),
    Workload("matmul_bias_gelu", {"256x512x2048": (256, 512, 2048)}, layer, bias_gelu, {"numba": numba_bias_gelu}),
    Workload(
        "mlp_gelu",
        {"32x64x128": (32, 64, 128), "256x512x2048": (256, 512, 2048)},
        two_layers,
        mlp,
        {"numba": numba_mlp},
        ("f4",),
    ),
    Workload(
        "batched_matmul",
        {"64x128^3": (64, 128), "512x16^3": (512, 16)},
        many,
        batched,
        {"numba": numba_batched},
        ("f4",),
    ),
]
