"""Graphs, sorting and searching, sparse matrices: indices that are data."""

import numpy as np

from benchmarks.programs.program import program


def sparse(rng, n):
    count = rng.integers(0, 9, n)
    indptr = np.concatenate([[0], np.cumsum(count)])
    return indptr, rng.integers(0, n, indptr[-1]), rng.random(indptr[-1])


def edges(rng, n):
    return rng.integers(0, n, 4 * n), rng.integers(0, n, 4 * n), rng.random(4 * n), n


@program(lambda rng, n: (*sparse(rng, n), rng.random(n)), 20_000)
def sparse_product(indptr, indices, data, x):
    """A sparse matrix by a vector, row by row."""
    y = np.zeros(len(indptr) - 1)
    for i in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += data[k] * x[indices[k]]
        y[i] = total
    return y


@program(lambda rng, n: (*sparse(rng, n), rng.random(n)), 20_000)
def sparse_slices(indptr, indices, data, x):
    """The same with slices between the row's bounds."""
    y = np.zeros(len(indptr) - 1)
    for i in range(len(indptr) - 1):
        y[i] = np.sum(data[indptr[i] : indptr[i + 1]] * x[indices[indptr[i] : indptr[i + 1]]])
    return y


@program(lambda rng, n: (rng.random((n, n)),), 100)
def floyd_warshall(d):
    """All shortest paths, three loops."""
    d = d.copy()
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


@program(edges, 500)
def bellman_ford(source, target, weight, n):
    """Shortest paths from node 0, until nothing changes."""
    distance = np.full(500, np.inf)
    distance[0] = 0.0
    rounds = 0
    changed = True
    while changed and rounds < n:
        changed = False
        for e in range(len(source)):
            new = distance[source[e]] + weight[e]
            if new < distance[target[e]]:
                distance[target[e]] = new
                changed = True
        rounds += 1
    return distance, rounds


@program(lambda rng, n: (rng.random((n, n)),), 150)
def dijkstra(cost):
    """Shortest paths from node 0, the dense way."""
    n = cost.shape[0]
    distance = np.full(n, np.inf)
    done = np.zeros(n, dtype=np.bool_)
    distance[0] = 0.0
    for _ in range(n):
        nearest = -1
        for i in range(n):
            if not done[i] and (nearest < 0 or distance[i] < distance[nearest]):
                nearest = i
        done[nearest] = True
        for j in range(n):
            through = distance[nearest] + cost[nearest, j]
            if through < distance[j]:
                distance[j] = through
    return distance


@program(edges, 5_000)
def union_find(source, target, weight, n):
    """The number of connected parts, with paths halved."""
    parent = np.arange(5_000)
    parts = n
    for e in range(len(source)):
        a = source[e]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        b = target[e]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b:
            parent[a] = b
            parts -= 1
    return parts


@program(lambda rng, n: (*edges(rng, n)[:2], 0.85, n), 1_000)
def page_rank(source, target, damping, n):
    """Ranks along the links, until they settle."""
    degree = np.zeros(n)
    for s in source:
        degree[s] += 1
    rank = np.full(n, 1 / n)
    steps = 0
    for _ in range(100):
        new = np.full(n, (1 - damping) / n)
        for e in range(len(source)):
            new[target[e]] += damping * rank[source[e]] / degree[source[e]]
        change = np.sum(np.abs(new - rank))
        rank = new
        steps += 1
        if change < 1e-10:
            break
    return rank, steps


@program(lambda rng, n: (rng.random(n),), 2_000)
def insertion_sort(x):
    """Sorted by insertion, on a copy."""
    x = x.copy()
    for i in range(1, len(x)):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key
    return x


@program(lambda rng, n: (np.sort(rng.random(n)), rng.random(n)), 20_000)
def binary_search(table, keys):
    """Where each key belongs in a sorted table."""
    out = np.zeros(len(keys), dtype=np.int64)
    for i in range(len(keys)):
        low = 0
        high = len(table)
        while low < high:
            middle = (low + high) // 2
            if table[middle] < keys[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low
    return out


@program(lambda rng, n: (np.ones(n, dtype=np.bool_),), 100_000)
def sieve(prime):
    """Eratosthenes: the number of primes below the length."""
    prime[:2] = False
    i = 2
    while i * i < len(prime):
        if prime[i]:
            for j in range(i * i, len(prime), i):
                prime[j] = False
        i += 1
    return np.sum(prime)


@program(lambda rng, n: (np.repeat(rng.integers(0, 3, n), 3),), 50_000)
def run_lengths(x):
    """Runs of equal values: how many, and how long."""
    values = np.zeros_like(x)
    lengths = np.zeros_like(x)
    runs = 0
    for i in range(len(x)):
        if i == 0 or x[i] != x[i - 1]:
            values[runs] = x[i]
            lengths[runs] = 1
            runs += 1
        else:
            lengths[runs - 1] += 1
    return values, lengths, runs


@program(lambda rng, n: (rng.random((n, 2)), rng.random((8, 2))), 5_000)
def k_means(points, centres):
    """Lloyd's steps until no point changes its centre."""
    centres = centres.copy()
    label = np.zeros(len(points), dtype=np.int64)
    for _ in range(50):
        moved = 0
        for i in range(len(points)):
            best = 0
            nearest = np.inf
            for k in range(len(centres)):
                dx = points[i, 0] - centres[k, 0]
                dy = points[i, 1] - centres[k, 1]
                d = dx * dx + dy * dy
                if d < nearest:
                    nearest = d
                    best = k
            if label[i] != best:
                label[i] = best
                moved += 1
        if moved == 0:
            break
        for k in range(len(centres)):
            count = 0
            x = 0.0
            y = 0.0
            for i in range(len(points)):
                if label[i] == k:
                    count += 1
                    x += points[i, 0]
                    y += points[i, 1]
            if count > 0:
                centres[k, 0] = x / count
                centres[k, 1] = y / count
    return centres, label
