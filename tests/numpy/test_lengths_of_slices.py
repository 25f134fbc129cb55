"""Slices whose bounds are numbers of the program: one compiled function, against Python at many sizes."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.numpy.cases import Cases
from tracejit.support.config import config


def data(generator: np.random.Generator, n: int) -> tuple[Any, ...]:
    return generator.random(n), np.array([generator.integers(0, max(n, 1)), generator.integers(0, n + 1), 2], np.int64)


CASES = Cases()
case, everywhere = CASES.case, CASES.everywhere


@everywhere
def blocks(x, k):
    a, b = k[0], k[1]
    return x[a:b], x[a:], x[:b], x[a:b].sum(), x[-2:b], x[a:b][::2], x[a - b :], x[: -k[2]]


@case
def block_of_known_length(x, k):
    a = k[0]
    return x[a : a + 3].sum(), x[a : a + 2]


@case
def length_of_a_block(x, k):
    v = x[k[0] : k[1]]
    return len(v), v[0] if len(v) else -1.0


@case
def greatest_of_a_block(x, k):
    return x[k[0] : k[1]].max()


@case
def first_of_a_block(x, k):
    return x[k[1] :][0]


@case
def first_of_a_block_of_a_part(x, k):
    return x[2:][k[1] :][0], x[2:][: k[1]][-1]


@everywhere
def changed_blocks(x, k):
    a, b = k[0], k[1]
    x[a:b] = 5
    x[a:b] *= 2
    x[a:b] += x[a:b]
    return x


@case
def rotated(x, k):
    a = k[0]
    y = np.empty_like(x)
    y[: len(x) - a] = x[a:]
    y[len(x) - a :] = x[:a]
    return np.concatenate([x[a:], x[:a]]), y


@case
def blocks_of_rank_2(x, k):
    A = np.outer(x, x)
    return A[k[0] : k[1]].sum(axis=0), A[:, k[0] : k[1]], A[k[0] : k[1], k[0] :]


@everywhere
def sparse_product(x, k):
    n = len(x)
    begin = np.minimum(np.arange(n + 1) * 2, n * 2)
    column = (np.arange(n * 2) * 7) % max(n, 1) if n else np.zeros(0, int)
    values = np.concatenate([x, x + 1])
    y = np.zeros(n)
    for i in range(n):
        c = column[begin[i] : begin[i + 1]]
        y[i] = values[begin[i] : begin[i + 1]] @ x[c]
    return y


@case
def convolution(x, k):
    w = np.array([1.0, 2.0, 1.0])
    out = np.zeros(len(x))
    for i in range(1, len(x) - 1):
        out[i] = (x[i - 1 : i + 2] * w).sum()
    return out


@case
def window(x, k):
    out = np.zeros(len(x))
    for i in range(len(x)):
        low, high = max(i - 2, 0), min(i + 3, len(x))
        out[i] = x[low:high].mean()
    return out


@everywhere
def windows_of_their_own_width(x, k):
    out = np.zeros(len(x))
    for i in range(len(x)):
        r = k[i % len(k)]
        out[i] = x[i : i + r].sum()
    return out


@case
def sum_up_to_a_place_that_is_searched(x, k):
    x = np.cumsum(x)
    if len(x) == 0:
        return 0
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < 2.0:
            low = middle + 1
        else:
            high = middle
    return x[:low].sum(), low


@everywhere
def lengths_of_runs(x, k):
    if len(x) == 0:
        return 0
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (x > 0.5).astype(int), [0]])))
    starts, ends = edges[::2], edges[1::2]
    lengths = ends - starts
    return lengths, lengths.max() if len(lengths) else 0


@pytest.mark.parametrize("f", CASES.functions, ids=lambda f: f.__name__)
def test_as_many_elements_as_the_bounds_say(agree_at_sizes, f):
    agree_at_sizes(f, data)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.parametrize("f", CASES.on_every_backend, ids=lambda f: f.__name__)
def test_on_other_backends(agree_at_sizes, f, backend):
    agree_at_sizes(f, data, backend, sizes=(9, 9, 12, 1, 0), seeds=2)


def test_a_number_of_numpys_that_is_taken_for_its_value():
    f = tj.jit(lambda x, k: x[x > 0][k:])
    with pytest.raises(TypeError):
        f(np.ones(3), 0.5)
    for n, k in ((1, np.int64(1)), (1, np.uint8(1)), (3, np.int64(2))):
        np.testing.assert_array_equal(f(np.ones(n), k), np.ones(n)[k:])


def sums_of_tiles(b):
    s = np.zeros(9)
    for k in range(9):
        s[k] = (b[k // 3 * 3 : k // 3 * 3 + 3, k % 3 * 3 : k % 3 * 3 + 3].ravel() * np.arange(9)).sum()
    return s


def middles_of_tiles(b):
    s = 0.0
    for k in range(9):
        y, x = k // 3 * 3, k % 3 * 3
        s += b[y : y + 3, x : x + 3].reshape(9)[4] * k
        for v in b[y : y + 2, x + 1 : x + 3].ravel():
            s += v * k
    return s


def beyond_the_end(b):
    s = 0.0
    for k in range(9):
        y = k // 3 * 3 + 1
        s += b[y : y + 3].sum() * k  # the last ones are shorter where there are 9 rows
    return s


@pytest.mark.parametrize("f", [sums_of_tiles, middles_of_tiles, beyond_the_end])
def test_a_slice_that_ends_so_many_elements_behind_its_start_has_a_known_length(f, monkeypatch):
    monkeypatch.setattr(config, "unroll", 0)
    compiled = tj.jit(f)
    for rows in (9, 9, 12, 10):
        b = np.random.default_rng(rows).standard_normal((rows, 9))
        np.testing.assert_allclose(compiled(b), f(b), rtol=1e-12)
    assert "left to Python" not in compiled.explain()
