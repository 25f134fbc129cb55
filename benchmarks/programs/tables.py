"""Dynamic programming: tables that are filled cell by cell."""

import numpy as np

from benchmarks.programs.program import program


def letters(rng, n):
    return rng.integers(0, 4, n), rng.integers(0, 4, n + 3)


@program(letters, 400)
def edit_distance(a, b):
    """Levenshtein's distance."""
    D = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for i in range(len(a) + 1):
        D[i, 0] = i
    for j in range(len(b) + 1):
        D[0, j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, D[i - 1, j - 1] + cost)
    return D[len(a), len(b)]


@program(letters, 400)
def common_subsequence(a, b):
    """The length of the longest common subsequence, with two rows."""
    before = np.zeros(len(b) + 1, dtype=np.int64)
    for i in range(len(a)):
        row = np.zeros(len(b) + 1, dtype=np.int64)
        for j in range(len(b)):
            if a[i] == b[j]:
                row[j + 1] = before[j] + 1
            else:
                row[j + 1] = max(row[j], before[j + 1])
        before = row
    return before[len(b)]


@program(letters, 300)
def smith_waterman(a, b):
    """The best local alignment."""
    H = np.zeros((len(a) + 1, len(b) + 1))
    best = 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            match = H[i - 1, j - 1] + (2.0 if a[i - 1] == b[j - 1] else -1.0)
            H[i, j] = max(0.0, match, H[i - 1, j] - 1.5, H[i, j - 1] - 1.5)
            best = max(best, H[i, j])
    return best


@program(lambda rng, n: (rng.integers(1, 40, n), rng.integers(1, 100, n), np.zeros(1001, dtype=np.int64)), 100)
def knapsack(weights, values, best):
    """The largest value that fits, in place from the back."""
    for i in range(len(weights)):
        for w in range(len(best) - 1, -1, -1):
            if w >= weights[i]:
                best[w] = max(best[w], best[w - weights[i]] + values[i])
    return best


@program(lambda rng, n: (np.array([1, 5, 10, 25, 50]), n), 5_000, numba=True)
def coin_change(coins, amount):
    """The number of ways to pay each amount."""
    ways = np.zeros(5001, dtype=np.int64)
    ways[0] = 1
    for c in coins:
        for a in range(len(ways)):
            if a >= c:
                ways[a] += ways[a - c]
    return ways[:10], ways[amount]


@program(lambda rng, n: (rng.integers(1, 50, n + 1),), 60)
def matrix_chain(p):
    """The cheapest order of a chain of products."""
    n = len(p) - 1
    m = np.zeros((n, n), dtype=np.int64)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            best = np.int64(1 << 60)
            for k in range(i, j):
                q = m[i, k] + m[k + 1, j] + p[i] * p[k + 1] * p[j + 1]
                if q < best:
                    best = q
            m[i, j] = best
    return m[0, n - 1]


@program(lambda rng, n: (rng.integers(0, 1000, n),), 400)
def increasing_subsequence(x):
    """The longest increasing subsequence, in quadratic time."""
    n = len(x)
    length = np.ones(n, dtype=np.int64)
    for i in range(n):
        for j in range(i):
            if x[j] < x[i] and length[j] + 1 > length[i]:
                length[i] = length[j] + 1
    return length.max()


@program(lambda rng, n: (rng.random((n, n)),), 300)
def cheapest_path(cost):
    """The cheapest way from corner to corner, to the right and down."""
    n, m = cost.shape
    total = np.zeros((n, m))
    total[0, 0] = cost[0, 0]
    for j in range(1, m):
        total[0, j] = total[0, j - 1] + cost[0, j]
    for i in range(1, n):
        total[i, 0] = total[i - 1, 0] + cost[i, 0]
        for j in range(1, m):
            total[i, j] = cost[i, j] + min(total[i - 1, j], total[i, j - 1], total[i - 1, j - 1])
    return total[n - 1, m - 1]


@program(
    lambda rng, n: (np.log(rng.random((8, 8))), np.log(rng.random((8, 4))), rng.integers(0, 4, n)), 5_000, numba=False
)
def viterbi(transition, emission, seen):
    """The likeliest states of a hidden Markov model."""
    n = len(seen)
    score = emission[:, seen[0]]
    back = np.zeros((n, transition.shape[0]), dtype=np.int64)
    for t in range(1, n):
        through = score[:, None] + transition
        back[t] = through.argmax(axis=0)
        score = through.max(axis=0) + emission[:, seen[t]]
    path = np.zeros(n, dtype=np.int64)
    path[n - 1] = score.argmax()
    for t in range(n - 2, -1, -1):
        path[t] = back[t + 1, path[t + 1]]
    return path


@program(lambda rng, n: (rng.standard_normal(n), rng.standard_normal(n)), 300)
def time_warping(a, b):
    """The cost of dynamic time warping."""
    n = len(a)
    m = len(b)
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            step = min(D[i, j], D[i, j + 1], D[i + 1, j])
            D[i + 1, j + 1] = abs(a[i] - b[j]) + step
    return D[n, m]
