"""Recurrences: what an element needs is the one before it."""

import numpy as np

from benchmarks.programs.program import program


def signal(rng, n):
    return (rng.standard_normal(n),)


@program(lambda rng, n: (rng.standard_normal(n), 0.1), 100_000)
def exponential_smoothing(x, alpha):
    """s[i] = alpha x[i] + (1 - alpha) s[i-1]."""
    s = np.empty_like(x)
    level = 0.0
    for i in range(len(x)):
        level = alpha * x[i] + (1 - alpha) * level
        s[i] = level
    return s


@program(lambda rng, n: (rng.standard_normal(n), np.array([0.2, 0.3, 0.2]), np.array([1.0, -0.5, 0.25])), 100_000)
def biquad(x, b, a):
    """A second-order filter, direct form II transposed."""
    y = np.zeros_like(x)
    z1 = 0.0
    z2 = 0.0
    for i in range(x.shape[0]):
        v = b[0] * x[i] + z1
        z1 = b[1] * x[i] - a[1] * v + z2
        z2 = b[2] * x[i] - a[2] * v
        y[i] = v
    return y


@program(lambda rng, n: (rng.standard_normal(n), 0.01, 0.3), 50_000)
def kalman(z, q, r):
    """A Kalman filter of a constant seen through noise."""
    estimate = 0.0
    variance = 1.0
    out = np.zeros(z.shape)
    for i in range(len(z)):
        variance = variance + q
        gain = variance / (variance + r)
        estimate = estimate + gain * (z[i] - estimate)
        variance = (1 - gain) * variance
        out[i] = estimate
    return out


@program(lambda rng, n: (rng.random(n), 4 + rng.random(n), rng.random(n), rng.standard_normal(n)), 50_000)
def thomas(a, b, c, d):
    """The solution of a tridiagonal system."""
    n = len(d)
    cp = np.zeros(n)
    dp = np.zeros(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x = np.zeros(n)
    x[n - 1] = dp[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return x


@program(signal, 100_000)
def largest_sum(x):
    """Kadane: the largest sum of neighbours, and where it lies."""
    best = x[0]
    here = x[0]
    start = 0
    first = 0
    last = 0
    for i in range(1, len(x)):
        if here < 0:
            here = x[i]
            start = i
        else:
            here = here + x[i]
        if here > best:
            best = here
            first = start
            last = i
    return best, first, last


@program(lambda rng, n: (100 * np.exp(np.cumsum(0.01 * rng.standard_normal(n))),), 100_000)
def drawdown(prices):
    """The largest loss from a peak."""
    peak = prices[0]
    worst = 0.0
    for p in prices:
        if p > peak:
            peak = p
        loss = (peak - p) / peak
        if loss > worst:
            worst = loss
    return worst


@program(lambda rng, n: (100 * np.exp(np.cumsum(0.01 * rng.standard_normal(n))), 14), 50_000)
def relative_strength(prices, period):
    """Wilder's index of ups and downs."""
    up = 0.0
    down = 0.0
    out = np.zeros(len(prices))
    for i in range(1, len(prices)):
        change = prices[i] - prices[i - 1]
        gain = max(change, 0.0)
        loss = max(-change, 0.0)
        up = (up * (period - 1) + gain) / period
        down = (down * (period - 1) + loss) / period
        out[i] = 100.0 if down == 0 else 100 - 100 / (1 + up / down)
    return out


@program(lambda rng, n: (rng.random(n), 0.1, 0.8), 50_000)
def garch(r2, alpha, beta):
    """The likelihood of a GARCH(1, 1) model."""
    variance = r2.mean()
    total = 0.0
    for i in range(len(r2)):
        total += np.log(variance) + r2[i] / variance
        variance = 0.05 + alpha * r2[i] + beta * variance
    return total


@program(lambda rng, n: (rng.random((n, 40)), rng.random((40,))), 2_000)
def columns(x, w):
    """A recurrence along the rows, for all columns at once."""
    y = x.copy()
    for i in range(1, y.shape[0]):
        y[i] = y[i] + w * y[i - 1]
    return y


@program(lambda rng, n: (rng.standard_normal(n), 4), 20_000)
def moving_median(x, w):
    """The median of each window of 2 w + 1, by insertion."""
    n = len(x)
    out = np.zeros(n)
    window = np.zeros(2 * w + 1)
    for i in range(w, n - w):
        for j in range(2 * w + 1):
            window[j] = x[i - w + j]
        for j in range(1, 2 * w + 1):
            key = window[j]
            k = j - 1
            while k >= 0 and window[k] > key:
                window[k + 1] = window[k]
                k -= 1
            window[k + 1] = key
        out[i] = window[w]
    return out
