"""Solvers: factorisations, iterations that stop at a residual, roots."""

import numpy as np

from benchmarks.programs.program import program


def system(rng, n):
    return rng.random((n, n)) + n * np.eye(n), rng.random(n)


def positive(rng, n):
    a = rng.random((n, n))
    return (a @ a.T + n * np.eye(n),)


@program(system, 120, tolerance=1e-9)
def gauss(A, b):
    """Elimination with partial pivoting, on copies."""
    A = A.copy()
    x = b.copy()
    n = len(b)
    for k in range(n - 1):
        p = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[p, k]):
                p = i
        if p != k:
            for j in range(n):
                A[k, j], A[p, j] = A[p, j], A[k, j]
            x[k], x[p] = x[p], x[k]
        for i in range(k + 1, n):
            f = A[i, k] / A[k, k]
            for j in range(k, n):
                A[i, j] -= f * A[k, j]
            x[i] -= f * x[k]
    for i in range(n - 1, -1, -1):
        s = x[i]
        for j in range(i + 1, n):
            s -= A[i, j] * x[j]
        x[i] = s / A[i, i]
    return x


@program(positive, 120, tolerance=1e-9)
def cholesky(A):
    """L with L L.T = A, element by element."""
    n = A.shape[0]
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                L[i, j] = np.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return L


@program(positive, 120, tolerance=1e-9)
def cholesky_rows(A):
    """The same with the inner loop as a product."""
    n = A.shape[0]
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            L[i, j] = (A[i, j] - L[i, :j] @ L[j, :j]) / L[j, j]
        L[i, i] = np.sqrt(A[i, i] - L[i, :i] @ L[i, :i])
    return L


@program(lambda rng, n: (rng.random((n, n)) + np.eye(n),), 80, tolerance=1e-8)
def gram_schmidt(A):
    """Q and R, column by column."""
    n = A.shape[1]
    Q = np.zeros(A.shape)
    R = np.zeros((n, n))
    for j in range(n):
        v = A[:, j].copy()
        for i in range(j):
            R[i, j] = np.sum(Q[:, i] * A[:, j])
            v = v - R[i, j] * Q[:, i]
        R[j, j] = np.sqrt(np.sum(v * v))
        Q[:, j] = v / R[j, j]
    return Q, R


@program(system, 200, tolerance=1e-9)
def gauss_seidel(A, b):
    """Sweeps until the residual is small."""
    n = len(b)
    x = np.zeros(n)
    sweeps = 0
    for _ in range(200):
        change = 0.0
        for i in range(n):
            s = b[i]
            for j in range(n):
                if j != i:
                    s -= A[i, j] * x[j]
            new = s / A[i, i]
            change = max(change, abs(new - x[i]))
            x[i] = new
        sweeps += 1
        if change < 1e-12:
            break
    return x, sweeps


@program(lambda rng, n: (*positive(rng, n), rng.random(n)), 200, tolerance=1e-9)
def conjugate_gradient(A, b):
    """Until the residual is small."""
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rs = r @ r
    steps = 0
    while np.sqrt(rs) > 1e-10 and steps < 1000:
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        new = r @ r
        p = r + (new / rs) * p
        rs = new
        steps += 1
    return x, steps


@program(system, 150, tolerance=1e-9)
def power_iteration(A, v):
    """The largest eigenvalue."""
    value = 0.0
    for _ in range(500):
        w = A @ v
        norm = np.sqrt(np.sum(w * w))
        v = w / norm
        if abs(norm - value) < 1e-12 * norm:
            break
        value = norm
    return norm, v


@program(lambda rng, n: (rng.random(n) * 10 + 0.1,), 20_000)
def newton_roots(a):
    """A cube root for each element, each with its own number of steps."""
    out = np.zeros_like(a)
    for i in range(len(a)):
        x = a[i]
        for _ in range(60):
            new = x - (x * x * x - a[i]) / (3 * x * x)
            done = abs(new - x) < 1e-14 * abs(new)
            x = new
            if done:
                break
        out[i] = x
    return out


@program(lambda rng, n: (rng.random(n) * 3,), 20_000)
def bisection(c):
    """The root of x**3 + x = c for each c."""
    out = np.zeros(len(c))
    for i in range(len(c)):
        low = 0.0
        high = 2.0
        while high - low > 1e-12:
            middle = 0.5 * (low + high)
            if middle * middle * middle + middle < c[i]:
                low = middle
            else:
                high = middle
        out[i] = 0.5 * (low + high)
    return out


@program(lambda rng, n: (rng.random((n, n)), 50), 100)
def relaxation(u, steps):
    """Successive over-relaxation of Laplace's equation, in place."""
    u = u.copy()
    n, m = u.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                u[i, j] += 1.5 * (around / 4 - u[i, j])
    return u


@program(lambda rng, n: (*positive(rng, n),), 24, tolerance=1e-8)
def jacobi_eigenvalues(A):
    """Rotations until the matrix is diagonal."""
    A = A.copy()
    n = A.shape[0]
    for _ in range(30):
        off = 0.0
        for p in range(n):
            for q in range(p + 1, n):
                off += A[p, q] ** 2
        if off < 1e-22:
            break
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(A[p, q]) > 1e-300:
                    theta = (A[q, q] - A[p, p]) / (2 * A[p, q])
                    t = (1.0 if theta >= 0 else -1.0) / (abs(theta) + np.sqrt(theta * theta + 1))
                    c = 1 / np.sqrt(t * t + 1)
                    s = t * c
                    for k in range(n):
                        a = A[k, p]
                        b = A[k, q]
                        A[k, p] = c * a - s * b
                        A[k, q] = s * a + c * b
                    for k in range(n):
                        a = A[p, k]
                        b = A[q, k]
                        A[p, k] = c * a - s * b
                        A[q, k] = s * a + c * b
    values = np.zeros(n)
    for i in range(n):
        values[i] = A[i, i]
    return values
