"""Elementwise work: option prices and the functions they are made of."""

import math

import numpy as np
from scipy.special import erf

from benchmarks.workload import Workload, reading


def normal_cdf(x):
    """Abramowitz and Stegun 26.2.17: what a NumPy user without SciPy writes."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = 0.3989422804014327 * np.exp(-0.5 * x * x)
    tail = tail * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return np.where(x < 0, tail, 1 - tail)


def black_scholes(s, k, t, r, v):
    spread = v * np.sqrt(t)
    d1 = (np.log(s / k) + (r + v * v / 2) * t) / spread
    return s * normal_cdf(d1) - k * np.exp(-r * t) * normal_cdf(d1 - spread)


def black_scholes_erf(s, k, t, r, v):
    spread = v * np.sqrt(t)
    d1 = (np.log(s / k) + (r + v * v / 2) * t) / spread
    up = 0.5 + 0.5 * erf(d1 * 0.7071067811865476)
    down = 0.5 + 0.5 * erf((d1 - spread) * 0.7071067811865476)
    return s * up - k * np.exp(-r * t) * down


def mixed(x):
    return np.exp(-x * x) + np.sin(x) * np.log1p(np.abs(x)) - np.tanh(x)


def numba_black_scholes():
    import numba

    cdf = numba.njit(fastmath=True)(scalar_cdf)

    @numba.njit(parallel=True, fastmath=True)
    def price(s, k, t, r, v):
        out = np.empty_like(s)
        for i in numba.prange(s.size):
            spread = v[i] * math.sqrt(t[i])
            d1 = (math.log(s[i] / k[i]) + (r[i] + v[i] * v[i] / s.dtype.type(2)) * t[i]) / spread
            out[i] = s[i] * cdf(d1) - k[i] * math.exp(-r[i] * t[i]) * cdf(d1 - spread)
        return out

    return price


def scalar_cdf(x):
    one = type(x)(1)
    t = one / (one + type(x)(0.2316419) * abs(x))
    poly = type(x)(-1.821255978) + t * type(x)(1.330274429)
    poly = type(x)(-0.356563782) + t * (type(x)(1.781477937) + t * poly)
    tail = type(x)(0.3989422804014327) * math.exp(-type(x)(0.5) * x * x) * t * (type(x)(0.319381530) + t * poly)
    return tail if x < type(x)(0) else one - tail


def numba_black_scholes_erf():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def price(s, k, t, r, v):
        real = s.dtype.type
        half, root = real(0.5), real(0.7071067811865476)
        out = np.empty_like(s)
        for i in numba.prange(s.size):
            spread = v[i] * math.sqrt(t[i])
            d1 = (math.log(s[i] / k[i]) + (r[i] + v[i] * v[i] * half) * t[i]) / spread
            up = half + half * math.erf(d1 * root)
            down = half + half * math.erf((d1 - spread) * root)
            out[i] = s[i] * up - k[i] * math.exp(-r[i] * t[i]) * down
        return out

    return price


def jax_black_scholes_erf():
    import jax

    return jax.jit(reading(black_scholes_erf, np=jax.numpy, erf=jax.scipy.special.erf))


def numba_mixed():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def mix(x):
        out = np.empty_like(x)
        for i in numba.prange(x.size):
            out[i] = math.exp(-x[i] * x[i]) + math.sin(x[i]) * math.log1p(abs(x[i])) - math.tanh(x[i])
        return out

    return mix


def options(rng, n, dtype):
    """spot, strike, years, rate, volatility."""
    ranges = [(50, 150), (50, 150), (0.1, 2), (0.0, 0.05), (0.1, 0.6)]
    return tuple(rng.uniform(low, high, n).astype(dtype) for low, high in ranges)


def unary(name, low, high):
    """The workload of one NumPy function alone."""
    function = getattr(np, name)

    def alone(x):
        return function(x)

    def in_numba():
        import numba

        scalar = getattr(math, name)

        @numba.njit(parallel=True, fastmath=True)
        def each(x):
            out = np.empty_like(x)
            for i in numba.prange(x.size):
                out[i] = scalar(x[i])
            return out

        return each

    def in_jax():
        import jax

        return jax.jit(getattr(jax.numpy, name))

    return Workload(
        f"each_{name}",
        {"1e5": 100_000},
        lambda rng, n, dtype: (rng.uniform(low, high, n).astype(dtype),),
        alone,
        {"numba": in_numba, "jax": in_jax},
    )


SIZES = {"1e4": 10_000, "1e5": 100_000, "1e7": 10_000_000}

WORKLOADS = [
    Workload("black_scholes", SIZES, options, black_scholes, {"numba": numba_black_scholes}),
    Workload(
        "black_scholes_erf",
        SIZES,
        options,
        black_scholes_erf,
        {"numba": numba_black_scholes_erf, "jax": jax_black_scholes_erf},
    ),
    Workload(
        "transcendental_mix",
        {"1e4": 10_000, "1e6": 1_000_000},
        lambda rng, n, dtype: (rng.uniform(-8, 8, n).astype(dtype),),
        mixed,
        {"numba": numba_mixed},
    ),
    unary("exp", -10, 10),
    unary("log", 0.01, 100),
    unary("sin", -100, 100),
    unary("tanh", -5, 5),
]
