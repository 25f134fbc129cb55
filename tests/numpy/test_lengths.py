"""Arrays with as many elements as a mask selects: one compiled function, against Python at many sizes."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.numpy.cases import Cases
from tracejit.support.errors import ShapeError


def data(generator: np.random.Generator, n: int) -> tuple[Any, ...]:
    return generator.random(n), generator.random((n, 3))


CASES = Cases()
case, everywhere = CASES.case, CASES.everywhere


# -- results -----------------------------------------------------------------------------------------------------------
@everywhere
def selected(x, A):
    return x[x > 0.5]


@case
def selected_twice_by_one_mask(x, A):
    m = x > 0.5
    return x[m] * 2 + np.sqrt(x[m]), m.sum()


@case
def selections_by_two_masks(x, A):
    return x[x > 0.5][:2], x[x < 0.2], x[~(x > 0.5)]


@case
def selections_in_a_list(x, A):
    out = []
    for k in range(3):
        out.append(x[x > 0.3 * k])
    return out


@everywhere
def places(x, A):
    return np.nonzero(x > 0.5)[0], np.where(x > 0.5), np.flatnonzero(x > 0.3), np.argwhere(x > 0.3), (x > 0.9).nonzero()


@case
def places_of_rank_2(x, A):
    i, j = np.nonzero(A > 0.5)
    return i, j, A[i, j], np.argwhere(A > 0.7), np.flatnonzero(A > 0.6)


@case
def compressed(x, A):
    return np.compress(x > 0.5, x), np.extract(x > 0.2, x), x.compress(x > 0.1), np.compress(x > 0.5, A, axis=0)


@case
def of_integers(x, A):
    k = (x * 10).astype(np.int32)
    return k[k % 2 == 0], np.nonzero(k)[0], k[k > 3].sum(), k[k > 3].max(initial=0)


@case
def of_rank_2(x, A):
    return A[A > 0.5], A[x > 0.5], A[:, A.sum(axis=0) > len(A) * 0.4]


@case
def placed_by_a_filter(x, A):
    sieve = np.ones(50, bool)
    sieve[:2] = False
    for i in range(2, 8):
        if sieve[i]:
            sieve[i * i :: i] = False
    return np.nonzero(sieve)[0]


@case
def joined(x, A):
    v, w = x[x > 0.5], x[x <= 0.5]
    return np.concatenate([v, w]), np.concatenate([v, np.zeros(3), w]), np.append(v, 1.0), np.hstack([w, x])


@everywhere
def partition(x, A):
    if len(x) == 0:
        return x
    p = x[len(x) // 2]
    return np.concatenate([x[x < p], x[x == p], x[x > p]])


@case
def selected_again_and_again(x, A):
    for k in range(3):
        x = x[x > 0.1 * k]
    y = x[x < 0.9] * 2
    return x, y[y > 1]


@case
def selected_by_recursion(x, A):
    def f(x, depth):
        return x if depth == 0 else f(x[x > 0.1], depth - 1)

    return f(x, 3)


@case
def selection_of_a_selection(x, A):
    m = x > 0.3
    v = x[m]
    inner = v > 0.6
    w, i = v[inner], np.flatnonzero(m)[inner]
    y = np.zeros_like(x)
    y[i] = w
    return y, w, i, v[v < 0.8], len(v[v < 0.8])


# -- what is done with them --------------------------------------------------------------------------------------------
@everywhere
def reductions(x, A):
    v = x[x > 0.3]
    return v.sum(), v.prod(), v.min(initial=5.0), np.any(v > 0.9), np.all(v > 0.1), np.count_nonzero(v > 0.5), v @ v


@case
def moments(x, A):
    return x[x > 0.2].mean(), x[x > 0.2].std(), x[x > 2].sum(), np.linalg.norm(x[x > 0.2])


@case
def greatest(x, A):
    return x[x > 0.2].max()


@everywhere
def greatest_of_nothing(x, A):
    return x[x > 5].max()


@case
def place_of_the_greatest(x, A):
    v = x[x >= 0.1]
    return v.argmax(), v.argmin()


@case
def place_of_the_greatest_of_nothing(x, A):
    return x[x > 5].argmax()


@everywhere
def lengths(x, A):
    v = x[x > 0.5]
    return len(v), v.size, v.shape[0], v.shape, v.ndim, v.sum() / len(v) if len(v) else 0.0


@case
def lengths_in_formulas(x, A):
    v = x[x > 0.3]
    a, b = max(len(v), 1), min(len(v), 3)
    return v[:b].sum(), a, b, len(v) * 2 - 1, len(v) + len(x)


@case
def lengths_as_numbers(x, A):
    n = len(x[x > 0.5])
    numbers = float(n), bool(n), int(n), np.sqrt(n), np.maximum(n, 3), np.int64(n), n / 2, n // 2, n % 3
    return numbers, x.sum() / np.sqrt(n + 1), x[: int(n)], np.ones(int(n)), int(n) == 3, int(n) > 4


@case
def lengths_in_conditions(x, A):
    v = x[x > 0.6]
    if len(v) > 2:
        return v.sum()
    return -1.0


@case
def first_place_or_none(x, A):
    i = np.nonzero(x > 0.5)[0]
    if len(i) == 0:
        return -1
    return i[0]


@case
def mean_or_zero(x, A):
    v = x[x > 0.7]
    return v.mean() if v.size > 0 else 0.0


@case
def new_arrays(x, A):
    v = x[x > 0.5]
    return np.zeros(len(v)) + v, np.arange(len(v)) * 2, np.ones(v.shape), np.zeros_like(v), np.full(v.size, 3.0)


@case
def square_arrays(x, A):
    v = x[x > 0.5]
    n = len(v)
    z = np.zeros((n, n))
    z[np.arange(n), np.arange(n)] = v
    return z, np.eye(n), np.outer(v, v), v[:, None] - v[None, :]


@case
def scans_and_differences(x, A):
    v = x[x > 0.1]
    return np.cumsum(v), np.cumprod(v), np.diff(v), v[1:] * v[:-1]


@everywhere
def slices(x, A):
    v = x[x > 0.6]
    return v[:2], v[-2:], v[1:-1], v[::2], v[1::2], v[5:2], v[-1:], v[:-1][::2], v[::-1], v[::-2], np.flip(v)


@everywhere
def first_and_last(x, A):
    v = x[x >= 0.2]
    return v[0], v[-1], v[:3]


@case
def second_of_few(x, A):
    v = x[x > 0.9]
    return v[1:][0]


@case
def last_of_few_backwards(x, A):
    return x[x > 0.9][::-1][0]


@case
def last_place_of_few(x, A):
    return np.nonzero(x > 0.9)[0][-1]


@case
def last_but_one_of_few(x, A):
    v = x[x > 0.9]
    return v[-2:][0], v[:-1][-1]


@case
def element_at_a_traced_place(x, A):
    rows = A[x > 0.8]
    k = (x > 0.95).sum()
    return rows[k], rows[k : k + 1]


@case
def first_of_a_part(x, A):
    y = x[2:]
    return y[y > 0.9][0]


@case
def beyond_the_length(x, A):
    v = x[x > 0.9]
    return x[len(v) :][0], x[: len(v)][-1]


@case
def elements_at_places(x, A):
    v = x[x > 0.3]
    k = np.arange(len(v))
    return v[k], v[k[::-1]], x[np.flatnonzero(x > 0.3)] - v


@everywhere
def rows_at_places(x, A):
    i = np.flatnonzero(x > 0.5)
    j = np.flatnonzero(A.sum(axis=0) > len(A) * 0.4)
    return A[i], A[i, 1], A[i, :, None], A[i, 0:2], A[:, j], A.T[j], A[i][:, j], A[i[:, None], j], np.take(A, j, axis=1)


@case
def functions_of_elements(x, A):
    v = x[x > 0.3]
    w = np.where(v > 0.5, v, -v)
    w[w < 0] = 0
    return w, np.clip(v, 0.4, 0.6), v.astype(np.float32), v.reshape(-1, 1), v > 0.5, -v, v.T, v.ravel(), v.flatten()


@case
def tables(x, A):
    v, edges = x[x > 0.2], np.linspace(0, 1, 5)
    return np.interp(v, edges, np.arange(5.0)), np.searchsorted(edges, v), np.digitize(v, edges)


@case
def broadcasts(x, A):
    v = x[x > 0.5]
    return v * np.array([2.0]), v + np.float32(1), v[None, :] * np.array([[1.0], [2.0]]), v[:, None].sum(axis=1)


@case
def stacked(x, A):
    v = x[x > 0.5]
    return np.stack([v, v * 2]), np.vstack([v, v + 1]), np.tile(v, 2), np.repeat(v, 3), np.column_stack([v, v])


@case
def with_the_places_beside(x, A):
    m = x > 0.5
    v, k = x[m], np.arange(len(x))[m]
    return (v * k).sum(), v @ k, v[k > 2], np.where(k > 2, v, 0), np.stack([v, k])


@everywhere
def rows(x, A):
    B = A[x > 0.5]
    return B.sum(axis=0), B.sum(axis=1), B.mean(), B.T, B @ B.T, B.T @ B, B @ A.T, B.reshape(-1), B[:, [0, 2]]


@case
def row_and_element_of_few(x, A):
    B = A[x > 0.9]
    return B[0], B[0, 1], B[-1]


@case
def rows_and_weights(x, A):
    m = x > 0.4
    x, A = x[m], A[m]
    return (A * x[:, None]).sum(axis=0), A.T @ x, A[:, 1]


@case
def mean_taken_off(x, A):
    v = x[(x > 0.2) & (x < 0.8)]
    v = v - v.mean() if len(v) > 0 else v
    return (v**2).sum()


@case
def peaks(x, A):
    if len(x) < 3:
        return np.zeros(0, int)
    return np.flatnonzero((x[1:-1] > x[:-2]) & (x[1:-1] > x[2:])) + 1


@case
def changes(x, A):
    i = np.nonzero(np.diff((x > 0.5).astype(int)))[0]
    return i, np.diff(i)


# -- what is changed ---------------------------------------------------------------------------------------------------
@case
def changed_in_place(x, A):
    v = x[x > 0.4]
    v *= 2
    n = len(v)
    v += 1
    v[:] = v - n
    v[0:1] = 9
    v[-1:] = 3
    v[1:] += v[:-1]
    return v


@case
def copied_and_changed(x, A):
    v = x[x > 0.5].copy()
    v[::2] = 0
    w = v
    w += 1
    return v, w


@case
def changed_by_another_mask(x, A):
    v = x[x > 0.5]
    v[v > 0.7] = 0.7
    v[0:2] = 5
    return v


@case
def names_exchanged(x, A):
    a = x[x > 0.5]
    b = a + 1
    a, b = b, a
    a += 1
    return a, b


@everywhere
def argument_changed_by_masks(x, A):
    x[x > 0.5] = x[x > 0.5] * 2
    x[x < 0.3] = 0
    y = x[x > 0.1]
    x[x > 0.1] = y
    m = x > 0.6
    x[m] = x[m][::-1]
    return x


@case
def argument_changed_at_places(x, A):
    i = np.nonzero(x > 0.5)[0]
    v = x[i] - 1
    x[i] = v
    x[i] += 2
    A[i] = 0
    A[i, 1] += x[i]
    return i


@case
def rows_changed_by_a_mask(x, A):
    m = x > 0.5
    A[m] *= x[m][:, None]
    A[~m, 1] = 7
    return A[m, 1:], A[m, 1], A[:, 1][m]


@case
def more_values_than_places(x, A):
    x[x > 2] = np.array([1.0, 2.0])
    return x


@case
def filled_up_to_the_length(x, A):
    v = x[x > 0.5]
    y = np.zeros(len(x))
    y[: len(v)] = v
    y[len(v) :] = -1
    return y


# -- loops and branches ------------------------------------------------------------------------------------------------
@everywhere
def loop_over_the_elements(x, A):
    s = 0.0
    for v in x[x > 0.5]:
        s += v * v
    return s


@everywhere
def loop_over_the_places(x, A):
    i = np.flatnonzero(x > 0.5)
    s = 0.0
    for k in range(len(i)):
        s += x[i[k]] * k
    return s


@case
def loop_over_rows(x, A):
    s = 0.0
    for row in A[x > 0.5]:
        s += row[2]
    return s


@case
def loop_that_ends_early(x, A):
    s = 0.0
    for i, v in enumerate(x[x > 0.5]):
        if v > 0.8:
            s += v * i
        if s > 10:
            break
    return s


@case
def loop_that_fills(x, A):
    v = x[x > 0.5]
    out = np.zeros(len(v))
    for i in range(len(v)):
        out[i] = v[i] * 2 + (v[i - 1] if i else 0.0)
    return out


@case
def search_among_the_selected(x, A):
    v = x[x > 0.5]
    i = 0
    while i < len(v) and v[i] < 0.95:
        i += 1
    return i, v[:i]


@case
def selection_in_a_while(x, A):
    n = 0
    while len(x[x > 0.1 * n]) > 2 and n < 20:
        n += 1
    return n


@everywhere
def selection_in_a_loop(x, A):
    s = 0.0
    for r in range(len(A)):
        row = A[r]
        s += row[row > 0.5].sum() + len(row[row > 0.2])
    return s


@case
def selection_in_a_loop_that_fills(x, A):
    out = np.zeros(len(A))
    for r in range(len(A)):
        v = A[r][A[r] > 0.3]
        out[r] = (v * np.arange(len(v))).sum()
    return out


@case
def selection_of_what_follows(x, A):
    s = 0.0
    for i in range(len(x)):
        v = x[i + 1 :]
        w = v[v > x[i]]
        if len(w):
            s += w[0]
    return s


@case
def greatest_of_what_came_before(x, A):
    s = 0.0
    for i in range(len(x)):
        s += x[:i][x[:i] > 0.1].max()
    return s


@case
def last_selection_of_a_loop(x, A):
    s = 0.0
    for k in range(12):
        v = x[x > 0.05 * k]
        s += v.sum()
    return s, v


@everywhere
def means_of_clusters(x, A):
    c = np.array([0.2, 0.8])
    for _ in range(5):
        label = np.abs(x[:, None] - c[None, :]).argmin(axis=1)
        for k in range(2):
            p = x[label == k]
            if len(p) > 0:
                c[k] = p.mean()
    return c


@case
def best_threshold(x, A):
    best = 0.0
    for t in np.linspace(0, 1, 9):
        v, w = x[x > t], x[x <= t]
        if len(v) == 0 or len(w) == 0:
            continue
        g = len(v) * len(w) * (v.mean() - w.mean()) ** 2
        if g > best:
            best = g
    return best


@case
def accumulated(x, A):
    return (
        np.hypot.accumulate(x[x > 0.5]),
        np.logaddexp.accumulate(x[x > 0.9]),
        np.logical_and.accumulate(x[x > 0.2]),
        np.hypot.accumulate(A[x > 0.5], 0),
        np.add.accumulate(x[x > 0.5]),
    )


@pytest.mark.parametrize("f", CASES.functions, ids=lambda f: f.__name__)
def test_as_many_elements_as_the_mask_selects(agree_at_sizes, f):
    agree_at_sizes(f, data)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.parametrize("f", CASES.on_every_backend, ids=lambda f: f.__name__)
def test_on_other_backends(agree_at_sizes, f, backend):
    agree_at_sizes(f, data, backend, sizes=(9, 9, 12, 1, 0), seeds=2)


def test_a_selection_may_have_all_elements_or_none():
    f = tj.jit(lambda x, t: (x[x > t], np.flatnonzero(x > t)))
    x = np.arange(1.0, 6.0)
    for t, n in ((0.0, 5), (9.0, 0), (4.5, 1)):
        v, i = f(x, t)
        assert v.shape == i.shape == (n,)
        np.testing.assert_array_equal(v, x[x > t])
        np.testing.assert_array_equal(i, np.flatnonzero(x > t))


def test_results_own_their_memory():
    f = tj.jit(lambda x: x[x > 0.5])
    a, b = f(np.ones(4)), f(np.ones(4))
    a[:] = 7
    np.testing.assert_array_equal(b, 1.0)


@pytest.mark.parametrize("size", [0, 1, 3, 7])
def test_sizes_as_jax_gives_them(size: int):
    """Parts that a condition chooses, cut or filled up to a size that is known."""
    x = tj.Array(np.arange(6.0) - 2)
    chosen = np.asarray(x)[np.asarray(x) > 0]
    want = np.concatenate([chosen, np.full(size, -1.0)])[:size]
    for compress in (tj.numpy.compress, tj.jit(tj.numpy.compress, static_argnames=("size", "fill_value"))):
        got = compress(x > 0, x, size=size, fill_value=-1)
        np.testing.assert_array_equal(np.asarray(got), want)
    np.testing.assert_array_equal(np.asarray(tj.numpy.extract(x > 0, x, size=size, fill_value=-1)), want)
    (places,) = tj.numpy.where(x > 0, size=size, fill_value=9)
    np.testing.assert_array_equal(np.asarray(places), np.concatenate([[3, 4, 5], np.full(size, 9)])[:size])
    rows = tj.numpy.compress(x[:2] < 0, x.reshape(2, 3), axis=0, size=2)
    np.testing.assert_array_equal(np.asarray(rows), np.asarray(x).reshape(2, 3))


def test_places_need_a_size_without_values():
    with pytest.raises(ShapeError, match="size and fill_value are for places"):
        tj.numpy.where(np.ones(3) > 0, 1, 2, size=3)


@pytest.mark.parametrize("f", [np.sort, np.argsort, np.median, lambda x, axis: np.unique(x), np.cumsum, np.partition])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rows_that_data_choose_in_order_at_many_sizes(f: Any, axis: int):
    def chosen(x: Any) -> Any:
        rows = x[x[:, 0] > 0]
        return f(rows, 1, axis=axis) if f is np.partition else f(rows, axis=axis)

    compiled = tj.jit(chosen)
    for shape in ((5, 5), (3, 2), (4, 4), (7, 3), (2, 130), (3, 200)):
        x = np.random.default_rng(shape[0]).normal(size=shape)
        x[:2, 0] = 1.0, 1.5
        if f is not np.partition:
            np.testing.assert_allclose(compiled(x), chosen(x), rtol=1e-13, atol=1e-13)
        else:
            np.testing.assert_array_equal(np.sort(compiled(x), axis=axis), np.sort(chosen(x), axis=axis))
