"""Pictures and automata: neighbourhoods written as loops."""

import numpy as np

from benchmarks.programs.program import program


def picture(rng, n):
    return (rng.random((n, n + 2)),)


@program(lambda rng, n: (rng.random((n, n)), rng.random((5, 5))), 128)
def convolve(image, kernel):
    """A convolution, pixel by pixel."""
    n, m = image.shape
    k, l = kernel.shape
    out = np.zeros((n - k + 1, m - l + 1))
    for i in range(n - k + 1):
        for j in range(m - l + 1):
            total = 0.0
            for a in range(k):
                for b in range(l):
                    total += image[i + a, j + b] * kernel[a, b]
            out[i, j] = total
    return out


@program(picture, 256)
def sobel(image):
    """The size of the gradient, pixel by pixel."""
    n, m = image.shape
    out = np.zeros((n, m))
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            gx = image[i - 1, j + 1] + 2 * image[i, j + 1] + image[i + 1, j + 1]
            gx -= image[i - 1, j - 1] + 2 * image[i, j - 1] + image[i + 1, j - 1]
            gy = image[i + 1, j - 1] + 2 * image[i + 1, j] + image[i + 1, j + 1]
            gy -= image[i - 1, j - 1] + 2 * image[i - 1, j] + image[i - 1, j + 1]
            out[i, j] = np.sqrt(gx * gx + gy * gy)
    return out


@program(lambda rng, n: (rng.integers(0, 2, (n, n)), 10), 64)
def life(board, steps):
    """Conway's game, cell by cell, on a torus."""
    n, m = board.shape
    for _ in range(steps):
        following = np.zeros_like(board)
        for i in range(n):
            for j in range(m):
                around = 0
                for a in range(-1, 2):
                    for b in range(-1, 2):
                        if a != 0 or b != 0:
                            around += board[(i + a) % n, (j + b) % m]
                if around == 3 or (around == 2 and board[i, j] == 1):
                    following[i, j] = 1
        board = following
    return board


@program(lambda rng, n: (rng.integers(0, 2, n), 110, 200), 500)
def elementary(cells, rule, steps):
    """Wolfram's automata: the rule's bit for three neighbours."""
    n = len(cells)
    history = np.zeros((steps + 1, n), dtype=np.int64)
    history[0] = cells
    for t in range(steps):
        for i in range(n):
            code = 4 * history[t, i - 1] + 2 * history[t, i] + history[t, (i + 1) % n]
            history[t + 1, i] = (rule >> code) & 1
    return history


@program(lambda rng, n: (rng.random((n, n)), 32), 256)
def histogram_equalised(image, levels):
    """Grey levels spread over their cumulative histogram."""
    n, m = image.shape
    counts = np.zeros(32, dtype=np.int64)
    for i in range(n):
        for j in range(m):
            counts[int(image[i, j] * levels)] += 1
    share = np.cumsum(counts) / (n * m)
    out = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            out[i, j] = share[int(image[i, j] * levels)]
    return out


@program(lambda rng, n: (rng.random((n, n)),), 128)
def error_diffusion(image):
    """Floyd and Steinberg's dithering."""
    work = image.copy()
    n, m = work.shape
    for i in range(n):
        for j in range(m):
            old = work[i, j]
            new = 1.0 if old > 0.5 else 0.0
            work[i, j] = new
            error = old - new
            if j + 1 < m:
                work[i, j + 1] += error * 7 / 16
            if i + 1 < n:
                if j > 0:
                    work[i + 1, j - 1] += error * 3 / 16
                work[i + 1, j] += error * 5 / 16
                if j + 1 < m:
                    work[i + 1, j + 1] += error * 1 / 16
    return work


@program(lambda rng, n: (rng.random((n, n)),), 256)
def integral_image(image):
    """Sums over all rectangles from the corner."""
    n, m = image.shape
    S = np.zeros((n + 1, m + 1))
    for i in range(n):
        row = 0.0
        for j in range(m):
            row += image[i, j]
            S[i + 1, j + 1] = S[i, j + 1] + row
    return S


@program(lambda rng, n: (np.linspace(-2, 1, n), np.linspace(-1.2, 1.2, n), 100), 100)
def escape_times(xs, ys, most):
    """The Mandelbrot set, point by point, with a `break`."""
    out = np.zeros((len(ys), len(xs)), dtype=np.int64)
    for i in range(len(ys)):
        for j in range(len(xs)):
            zr = 0.0
            zi = 0.0
            count = most
            for k in range(most):
                r2 = zr * zr
                i2 = zi * zi
                if r2 + i2 > 4.0:
                    count = k
                    break
                zi = 2 * zr * zi + ys[i]
                zr = r2 - i2 + xs[j]
            out[i, j] = count
    return out


@program(lambda rng, n: ((rng.random((n, n)) > 0.35).astype(np.int64),), 64)
def distance_transform(free):
    """City-block distances to the nearest zero, in two sweeps."""
    n, m = free.shape
    d = np.where(free > 0, n + m, 0)
    for i in range(n):
        for j in range(m):
            if i > 0:
                d[i, j] = min(d[i, j], d[i - 1, j] + 1)
            if j > 0:
                d[i, j] = min(d[i, j], d[i, j - 1] + 1)
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            if i < n - 1:
                d[i, j] = min(d[i, j], d[i + 1, j] + 1)
            if j < m - 1:
                d[i, j] = min(d[i, j], d[i, j + 1] + 1)
    return d
