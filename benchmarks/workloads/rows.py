"""Reductions and row operations, in the caches (512^2) and out of them (4096^2)."""

import math

import numpy as np

from benchmarks.workload import Workload

SQUARES = {"512^2": 512, "4096^2": 4096}


def sum_all(x):
    return np.sum(x)


def sum_axis0(x):
    return np.sum(x, axis=0)


def variance(x):
    return np.var(x, axis=1)


def layernorm(x, gain, bias):
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + 1e-5) * gain + bias


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def logsumexp(x):
    top = np.max(x, axis=1)
    return top + np.log(np.sum(np.exp(x - top[:, None]), axis=1))


def argmax_axis1(x):
    return np.argmax(x, axis=1)


def argmax_axis0(x):
    return np.argmax(x, axis=0)


def cumsum(x):
    return np.cumsum(x, axis=1)


def numba_sum_all():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def total(x):
        sums = np.zeros(x.shape[0], x.dtype)
        for i in numba.prange(x.shape[0]):
            s = x.dtype.type(0)
            for j in range(x.shape[1]):
                s += x[i, j]
            sums[i] = s
        return sums.sum()

    return total


def numba_sum_axis0():
    """Each thread owns a band of columns, so that no partial sums need merging."""
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def columns(x):
        rows, width = x.shape
        out = np.zeros(width, x.dtype)
        bands = (width + 255) // 256
        for band in numba.prange(bands):
            low, high = band * 256, min(width, band * 256 + 256)
            for i in range(rows):
                for j in range(low, high):
                    out[j] += x[i, j]
        return out

    return columns


def numba_variance():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def rows(x):
        n = x.shape[1]
        out = np.empty(x.shape[0], x.dtype)
        for i in numba.prange(x.shape[0]):
            s = x.dtype.type(0)
            for j in range(n):
                s += x[i, j]
            mean = s / x.dtype.type(n)
            q = x.dtype.type(0)
            for j in range(n):
                q += (x[i, j] - mean) * (x[i, j] - mean)
            out[i] = q / x.dtype.type(n)
        return out

    return rows


def numba_layernorm():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def rows(x, gain, bias):
        n = x.shape[1]
        out = np.empty_like(x)
        for i in numba.prange(x.shape[0]):
            s = x.dtype.type(0)
            for j in range(n):
                s += x[i, j]
            mean = s / x.dtype.type(n)
            q = x.dtype.type(0)
            for j in range(n):
                q += (x[i, j] - mean) * (x[i, j] - mean)
            scale = x.dtype.type(1) / math.sqrt(q / x.dtype.type(n) + x.dtype.type(1e-5))
            for j in range(n):
                out[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]
        return out

    return rows


def numba_softmax():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def rows(x):
        n = x.shape[1]
        out = np.empty_like(x)
        for i in numba.prange(x.shape[0]):
            top = x[i, 0]
            for j in range(n):
                top = max(top, x[i, j])
            s = x.dtype.type(0)
            for j in range(n):
                e = math.exp(x[i, j] - top)
                out[i, j] = e
                s += e
            scale = x.dtype.type(1) / s
            for j in range(n):
                out[i, j] *= scale
        return out

    return rows


def numba_logsumexp():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def rows(x):
        n = x.shape[1]
        out = np.empty(x.shape[0], x.dtype)
        for i in numba.prange(x.shape[0]):
            top = x[i, 0]
            for j in range(n):
                top = max(top, x[i, j])
            s = x.dtype.type(0)
            for j in range(n):
                s += math.exp(x[i, j] - top)
            out[i] = top + math.log(s)
        return out

    return rows


def numba_argmax_axis1():
    import numba

    @numba.njit(parallel=True)
    def rows(x):
        out = np.empty(x.shape[0], np.int64)
        for i in numba.prange(x.shape[0]):
            best, where = x[i, 0], 0
            for j in range(1, x.shape[1]):
                if x[i, j] > best:
                    best, where = x[i, j], j
            out[i] = where
        return out

    return rows


def numba_argmax_axis0():
    import numba

    @numba.njit(parallel=True)
    def columns(x):
        rows, width = x.shape
        best, where = x[0].copy(), np.zeros(width, np.int64)
        bands = (width + 255) // 256
        for band in numba.prange(bands):
            low, high = band * 256, min(width, band * 256 + 256)
            for i in range(1, rows):
                for j in range(low, high):
                    if x[i, j] > best[j]:
                        best[j] = x[i, j]
                        where[j] = i
        return where

    return columns


def numba_cumsum():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def rows(x):
        out = np.empty_like(x)
        for i in numba.prange(x.shape[0]):
            s = x.dtype.type(0)
            for j in range(x.shape[1]):
                s += x[i, j]
                out[i, j] = s
        return out

    return rows


def square(rng, n, dtype):
    return (rng.standard_normal((n, n), np.float32).astype(dtype),)


def positive_square(rng, n, dtype):
    """Away from zero, so that the error of a sum is measured against a sum that does not cancel."""
    return (rng.random((n, n), np.float32).astype(dtype),)


def square_with_parameters(rng, n, dtype):
    return (*square(rng, n, dtype), rng.normal(size=n).astype(dtype), rng.normal(size=n).astype(dtype))


SINGLE = ("f4",)
INDICES = {"f4": 0.0, "f8": 0.0}

WORKLOADS = [
    Workload("sum_all", SQUARES, positive_square, sum_all, {"numba": numba_sum_all}),
    Workload("sum_axis0", SQUARES, positive_square, sum_axis0, {"numba": numba_sum_axis0}, SINGLE),
    Workload("var_axis1", SQUARES, square, variance, {"numba": numba_variance}, SINGLE),
    Workload("logsumexp_axis1", SQUARES, square, logsumexp, {"numba": numba_logsumexp}, SINGLE),
    Workload("softmax_rows", SQUARES, square, softmax, {"numba": numba_softmax}, SINGLE),
    Workload("layernorm", SQUARES, square_with_parameters, layernorm, {"numba": numba_layernorm}, SINGLE),
    Workload("argmax_axis1", SQUARES, square, argmax_axis1, {"numba": numba_argmax_axis1}, SINGLE, INDICES),
    Workload("argmax_axis0", SQUARES, square, argmax_axis0, {"numba": numba_argmax_axis0}, SINGLE, INDICES),
    Workload("cumsum_axis1", SQUARES, square, cumsum, {"numba": numba_cumsum}, SINGLE),
]
