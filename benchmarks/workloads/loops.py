"""Loops whose length or carry resists vectorising: escape times, and a long chain of scalar steps."""

import numpy as np

from benchmarks.workload import Workload

MOST = 200
GAIN = 0.01


def mandelbrot(cr, ci):
    """Escape times in NumPy: the points that are still inside are kept packed."""
    count = np.full(cr.size, MOST, np.int32)
    alive = np.arange(cr.size)
    pr, pi = cr.ravel(), ci.ravel()
    zr, zi = np.zeros_like(pr), np.zeros_like(pi)
    for step in range(MOST):
        squares = zr * zr + zi * zi
        gone = squares >= 4
        if gone.any():
            count[alive[gone]] = step
            stay = ~gone
            alive, pr, pi, zr, zi = alive[stay], pr[stay], pi[stay], zr[stay], zi[stay]
        zr, zi = zr * zr - zi * zi + pr, 2 * zr * zi + pi
    return count.reshape(cr.shape)


def one_point(lax):
    """Escape time of one point, for frameworks with `vmap` and `while_loop`."""

    def inside(state):
        step, zr, zi = state
        return (step < MOST) & (zr * zr + zi * zi < 4)

    def escape(cr, ci):
        def advance(state):
            step, zr, zi = state
            return step + 1, zr * zr - zi * zi + cr, 2 * zr * zi + ci

        return lax.while_loop(inside, advance, (np.int32(0), cr * 0, ci * 0))[0]

    return escape


def jax_mandelbrot():
    import jax

    return jax.jit(jax.vmap(jax.vmap(one_point(jax.lax))))


def tracejit_mandelbrot():
    import tracejit as tj

    return tj.jit(tj.vmap(tj.vmap(one_point(tj.lax))))


def numba_mandelbrot():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def escape(cr, ci):
        out = np.empty(cr.shape, np.int32)
        two, four = cr.dtype.type(2), cr.dtype.type(4)
        for i in numba.prange(cr.shape[0]):
            for j in range(cr.shape[1]):
                a, b = cr[i, j], ci[i, j]
                x = y = cr.dtype.type(0)
                step = 0
                while step < MOST and x * x + y * y < four:
                    x, y = x * x - y * y + a, two * x * y + b
                    step += 1
                out[i, j] = step
        return out

    return escape


def plane(rng, n, dtype):
    ci, cr = np.meshgrid(np.linspace(-1.25, 1.25, n), np.linspace(-2, 0.5, n), indexing="ij")
    return cr.astype(dtype), ci.astype(dtype)


def smoothed_last(x):
    """The last value of an exponential moving average: each step needs the one before."""
    s = 0.0
    for value in x.tolist():
        s = s + GAIN * (value - s)
    return np.asarray(s, x.dtype)


def fori_smoothed(lax):
    def last(x):
        return lax.fori_loop(0, x.shape[0], lambda i, s: s + GAIN * (x[i] - s), x[0] * 0)

    return last


def jax_smoothed():
    import jax

    return jax.jit(fori_smoothed(jax.lax))


def tracejit_smoothed():
    import tracejit as tj

    return tj.jit(fori_smoothed(tj.lax))


def numba_smoothed():
    import numba

    @numba.njit(fastmath=True)
    def last(x):
        s, gain = x.dtype.type(0), x.dtype.type(GAIN)
        for i in range(x.size):
            s = s + gain * (x[i] - s)
        return s

    return last


def smoothed(x):
    """All values of the moving average."""
    out = np.empty_like(x)
    s = x.dtype.type(0)
    for i, value in enumerate(x):
        s = s + x.dtype.type(GAIN) * (value - s)
        out[i] = s
    return out


def scanned(lax):
    def run(x):
        def step(s, value):
            s = s + GAIN * (value - s)
            return s, s

        return lax.scan(step, x[0] * 0, x)[1]

    return run


def jax_scanned():
    import jax

    return jax.jit(scanned(jax.lax))


def tracejit_scanned():
    import tracejit as tj

    return tj.jit(scanned(tj.lax))


def numba_scanned():
    import numba

    return numba.njit(fastmath=True)(smoothed)


WORKLOADS = [
    Workload(
        "mandelbrot_200",
        {"512^2": 512},
        plane,
        mandelbrot,
        {"numba": numba_mandelbrot, "jax": jax_mandelbrot, "tracejit": tracejit_mandelbrot},
        # fractions of pixels: points at the edge of the set, where rounding decides
        tolerance={"f4": 0.02, "f8": 0.002},
    ),
    Workload(
        "scalar_loop",
        {"1e6": 1_000_000},
        lambda rng, n, dtype: (rng.random(n).astype(dtype),),
        smoothed_last,
        {"numba": numba_smoothed, "jax": jax_smoothed, "tracejit": tracejit_smoothed},
    ),
    Workload(
        "scalar_scan",
        {"1e6": 1_000_000},
        lambda rng, n, dtype: (rng.random(n).astype(dtype),),
        smoothed,
        {"numba": numba_scanned, "jax": jax_scanned, "tracejit": tracejit_scanned},
    ),
    Workload(
        "scalar_scan_by_elements",
        {"1e6": 1_000_000},
        lambda rng, n, dtype: (rng.random(n).astype(dtype),),
        smoothed,
        {"numba": numba_scanned, "jax": jax_scanned},
    ),
]
