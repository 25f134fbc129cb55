"""Programs as users write them, run by tracejit and by plain Python on NumPy:
results, arguments, outer state and dtypes are the same.

Each program does all that a user's would: it makes its arrays, calls its compiled functions at several sizes (0, 1 and
2 among them), uses results as arguments, changes objects between calls, and returns everything there is to see.
"""
# ruff: noqa: B007, B905, E731, RUF059

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit

PROGRAMS: dict[str, tuple[Callable[[Any], Any], float]] = {}


def program(rtol: float = 0.0) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Registers a function of tracejit, or of what stands for it;
    `rtol` where the plain program takes differences for derivatives."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        PROGRAMS[function.__name__] = function, rtol
        return function

    return register


def R(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@program()
def jacobi_swap(tj: Any) -> Any:
    @tj.jit
    def solve(u, f, h):
        v = u.copy()
        for _ in tj.range(20):
            v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - h * h * f[1:-1, 1:-1])
            t = u.copy()
            u[...] = v
            v[...] = t
        return u, np.abs(u - v).max()

    out = []
    for n in (3, 8, 17, 2, 33):
        u, f = R(n).normal(size=(n, n + 1)), R(n + 1).normal(size=(n, n + 1))
        r = solve(u, f, 0.1)
        out.append((r, u, f))
    return out


@program()
def jacobi_unrolled_swap(tj: Any) -> Any:
    @tj.jit
    def solve(u, f, steps_odd=True):
        v = u.copy()
        for k in range(5 if steps_odd else 4):
            v[1:-1] = 0.5 * (u[:-2] + u[2:] - f[1:-1])
            u, v = v, u
        u[0] += 1
        return v.sum()

    out = []
    for n in (3, 8, 1, 2, 33):
        for odd in (True, False):
            u, f = R(n).normal(size=n), R(n + 1).normal(size=n)
            r = solve(u, f, odd)
            out.append((r, u, f))
    return out


@program()
def gauss_seidel(tj: Any) -> Any:
    @tj.jit
    def gs(A, b, x):
        n = A.shape[0]
        for _ in range(3):
            for i in tj.range(n):
                x[i] = (b[i] - A[i] @ x + A[i, i] * x[i]) / A[i, i]
        return np.linalg.norm(A @ x - b)

    out = []
    for n in (1, 2, 5, 9, 16):
        A = R(n).normal(size=(n, n)) + 3 * n * np.eye(n)
        b = R(1).normal(size=n)
        x = np.zeros(n)
        out.append((gs(A, b, x), x, A, b))
    return out


@program()
def red_black(tj: Any) -> Any:
    @tj.jit
    def sweep(u, rhs):
        for colour in (0, 1):
            for i in (1, 2):
                s = (i + colour) % 2 + 1
                u[i:-1:2, s:-1:2] = 0.25 * (
                    u[i - 1 : -2 : 2, s:-1:2]
                    + u[i + 1 :: 2, s:-1:2]
                    + u[i:-1:2, s - 1 : -2 : 2]
                    + u[i:-1:2, s + 1 :: 2]
                    - rhs[i:-1:2, s:-1:2]
                )
        return None

    def trial(n):
        u, r = R(n).normal(size=(n, n)), R(2).normal(size=(n, n))
        for _ in range(4):
            sweep(u, r)
        return u

    return [trial(n) for n in (10, 12, 6, 20)]


@program()
def conjugate_gradient(tj: Any) -> Any:
    @tj.jit
    def cg(A, b, tol):
        x = np.zeros_like(b)
        r = b - A @ x
        p = r.copy()
        rs = r @ r

        def go(c):
            x, r, p, rs, k = c
            return (rs > tol) & (k < 50)

        def step(c):
            x, r, p, rs, k = c
            Ap = A @ p
            alpha = rs / (p @ Ap)
            x = x + alpha * p
            r = r - alpha * Ap
            new = r @ r
            p = r + new / rs * p
            return x, r, p, new, k + 1

        x, r, p, rs, k = tj.lax.while_loop(go, step, (x, r, p, rs, 0))
        return x, k

    out = []
    for n in (1, 2, 3, 8, 15):
        M = R(n).normal(size=(n, n))
        A = M @ M.T + n * np.eye(n)
        b = R(3).normal(size=n)
        out.append(cg(A, b, 1e-16)[0])
    return out


@program()
def thomas(tj: Any) -> Any:
    @tj.jit
    def thomas(a, b, c, d):
        n = d.shape[0]
        cp = np.empty_like(d)
        dp = np.empty_like(d)
        cp[0] = c[0] / b[0]
        dp[0] = d[0] / b[0]
        for i in tj.range(1, n):
            m = b[i] - a[i] * cp[i - 1]
            cp[i] = c[i] / m
            dp[i] = (d[i] - a[i] * dp[i - 1]) / m
        x = np.empty_like(d)
        x[-1] = dp[-1]
        for i in tj.range(n - 2, -1, -1):
            x[i] = dp[i] - cp[i] * x[i + 1]
        return x

    return [thomas(*(R(n + k).normal(size=n) + (6 if k == 1 else 0) for k in range(4))) for n in (1, 2, 3, 4, 100)]


@program()
def thomas_overwrite(tj: Any) -> Any:
    @tj.jit
    def thomas(a, b, c, d):
        n = len(d)
        for i in tj.range(1, n):
            w = a[i] / b[i - 1]
            b[i] -= w * c[i - 1]
            d[i] -= w * d[i - 1]
        d[n - 1] /= b[n - 1]
        for k in tj.range(n - 1):
            i = n - 2 - k
            d[i] = (d[i] - c[i] * d[i + 1]) / b[i]

    out = []
    for n in (1, 2, 3, 50):
        args = [R(n + k).normal(size=n) + (6 if k == 1 else 0) for k in range(4)]
        thomas(*args)
        out.append(args)
    return out


@program()
def lu_inplace(tj: Any) -> Any:
    @tj.jit
    def lu(A):
        n = A.shape[0]
        for k in tj.range(n - 1):
            for i in tj.range(k + 1, n):
                A[i, k] /= A[k, k]
                for j in tj.range(k + 1, n):
                    A[i, j] -= A[i, k] * A[k, j]
        return A

    out = []
    for n in (1, 2, 3, 7):
        A = R(n).normal(size=(n, n)) + 2 * n * np.eye(n)
        out.append((lu(A), A))
    return out


@program()
def lu_pivot_unrolled(tj: Any) -> Any:
    @tj.jit
    def lu(A):
        A = A.copy()
        n = A.shape[0]
        perm = np.arange(n)
        for k in range(n - 1):
            p = k + np.argmax(np.abs(A[k:, k]))
            row = A[p].copy()
            A[p] = A[k]
            A[k] = row
            t = perm[p].copy()
            perm[p] = perm[k]
            perm[k] = t
            A[k + 1 :, k] /= A[k, k]
            A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
        return A, perm

    return [lu(R(n).normal(size=(n, n))) for n in (1, 2, 3, 5, 6)]


@program()
def cholesky(tj: Any) -> Any:
    @tj.jit
    def chol(A):
        n = A.shape[0]
        L = np.zeros_like(A)
        for j in tj.range(n):
            L[j, j] = np.sqrt(A[j, j] - np.sum(L[j, :] ** 2))
            for i in tj.range(j + 1, n):
                L[i, j] = (A[i, j] - np.dot(L[i], L[j])) / L[j, j]
        return L

    out = []
    for n in (1, 2, 4, 7):
        M = R(n).normal(size=(n, n))
        out.append(chol(M @ M.T + n * np.eye(n)))
    return out


@program()
def gram_schmidt_loop(tj: Any) -> Any:
    @tj.jit
    def qr(A):
        m, n = A.shape
        Q = A.T.copy()
        Rm = np.zeros((n, n))
        for j in tj.range(n):
            v = Q[j]
            for i in tj.range(j):
                Rm[i, j] = Q[i] @ v
                v -= Rm[i, j] * Q[i]
            Rm[j, j] = np.sqrt(v @ v)
            v /= Rm[j, j]
        return Q.T, Rm

    return [qr(R(n).normal(size=(n + 2, n))) for n in (1, 2, 4, 5)]


@program()
def householder(tj: Any) -> Any:
    @tj.jit
    def qr(A):
        Rm = A.copy()
        m, n = A.shape
        Q = np.eye(m)
        for k in range(min(m - 1, n)):
            x = Rm[k:, k].copy()
            x[0] += np.copysign(np.sqrt(np.sum(x * x)), x[0])
            x /= np.linalg.norm(x)
            Rm[k:, :] -= 2 * np.outer(x, x @ Rm[k:, :])
            Q[:, k:] -= 2 * np.outer(Q[:, k:] @ x, x)
        return Q, Rm

    return [qr(R(n).normal(size=(n + 1, n))) for n in (1, 2, 4, 5)]


@program()
def multigrid(tj: Any) -> Any:
    def smooth(u, f, n=3):
        for _ in range(n):
            u[1:-1] += 0.66 * (0.5 * (u[:-2] + u[2:] - f[1:-1]) - u[1:-1])

    def residual(u, f):
        r = np.zeros_like(u)
        r[1:-1] = f[1:-1] - (u[:-2] - 2 * u[1:-1] + u[2:])
        return r

    def vcycle(u, f):
        smooth(u, f)
        if len(u) <= 3:
            return
        r = residual(u, f)
        rc = r[::2].copy()
        rc[1:-1] = 0.25 * (r[1:-3:2] + 2 * r[2:-2:2] + r[3:-1:2]) * 4
        e = np.zeros_like(rc)
        vcycle(e, rc)
        u[::2] += e
        u[1::2] += 0.5 * (e[:-1] + e[1:])
        smooth(u, f)

    g = tj.jit(vcycle)
    out = []
    for n in (3, 5, 9, 17, 33):
        u, f = np.zeros(n), R(n).normal(size=n)
        for _ in range(2):
            g(u, f)
        out.append((u, f))
    return out


@program()
def adaptive_rk(tj: Any) -> Any:
    @tj.jit
    def solve(y, t_end, tol):
        def f(t, y):
            return -2 * t * y

        def cond(c):
            return c[0] < t_end

        def body(c):
            t, y, h, acc = c
            h = np.minimum(h, t_end - t)
            k1 = f(t, y)
            k2 = f(t + h, y + h * k1)
            err = np.abs(h * (k2 - k1) / 2).max() + 1e-15
            ok = err <= tol
            return (
                np.where(ok, t + h, t),
                np.where(ok, y + h * (k1 + k2) / 2, y),
                h * np.clip(0.9 * np.sqrt(tol / err), 0.2, 2.0),
                acc + ok,
            )

        t, y, h, acc = tj.lax.while_loop(cond, body, (0.0, y, 0.1, 0))
        return y, acc

    return [solve(np.ones(n) * R(n).uniform(1, 2, n), 1.0, 1e-4) for n in (1, 2, 5)] + [solve(np.ones(1), 0.0, 1e-3)]


@program()
def leapfrog_nbody(tj: Any) -> Any:
    @tj.jit
    def step(pos, vel, mass, dt):
        d = pos[:, None, :] - pos[None, :, :]
        r2 = (d**2).sum(-1) + 0.01
        acc = -(d * (mass[None, :] / (r2 * np.sqrt(r2)))[..., None]).sum(axis=1)
        vel += dt * acc
        pos += dt * vel
        return 0.5 * (mass * (vel**2).sum(1)).sum()

    out = []
    for n in (1, 2, 3, 8):
        for dt in ("f8", "f4"):
            p, v, m = (
                R(n).normal(size=(n, 3)).astype(dt),
                R(1).normal(size=(n, 3)).astype(dt),
                R(2).uniform(size=n).astype(dt),
            )
            e = [step(p, v, m, 0.01) for _ in range(4)]
            out.append((e, p, v, m))
    return out


@program()
def bounce_event(tj: Any) -> Any:
    @tj.jit
    def run(y, v, steps):
        hits = np.zeros(y.shape, dtype=np.int64)
        for _ in tj.range(steps):
            v -= 9.81 * 0.01
            y += v * 0.01
            hit = y < 0
            y[hit] *= -1
            v[hit] = -0.8 * v[hit]
            hits += hit
        return hits

    out = []
    for n in (1, 2, 5, 0):
        y, v = R(n).uniform(0, 2, n), R(1).normal(size=n)
        out.append((run(y, v, 200), y, v))
        out.append((run(y, v, 0), y, v))
    return out


@program()
def superbee_inplace_ghost(tj: Any) -> Any:
    @tj.jit
    def run(q, nu):
        g = np.zeros(q.size + 4)
        for _ in range(3):
            g[2:-2] = q
            g[:2] = g[-4:-2]
            g[-2:] = g[2:4]
            d = np.diff(g)
            r = np.divide(d[:-1], d[1:], out=np.zeros_like(d[1:]), where=d[1:] != 0)
            phi = np.maximum(0, np.maximum(np.minimum(2 * r, 1), np.minimum(r, 2)))
            fl = g[1:-1] + 0.5 * phi * (1 - nu) * d[1:]
            q[:] = q - nu * (fl[1:-1] - fl[:-2])[: q.size]
        return q.sum()

    out = []
    for n in (2, 3, 16, 50):
        q = R(n).normal(size=n)
        out.append((run(q, 0.3), q))
    return out


@program()
def lbm(tj: Any) -> Any:
    c = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
    w = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    opp = [0, 3, 4, 1, 2, 7, 8, 5, 6]

    @tj.jit
    def step(f, solid):
        for i in range(9):
            f[i] = np.roll(f[i], tuple(c[i]), axis=(0, 1))
        rho = f.sum(0)
        u = np.tensordot(c.T.astype(float), f, axes=(1, 0)) / rho
        bounced = f[:, solid] if False else np.where(solid, f[opp], 0)
        cu = np.einsum("id,dxy->ixy", c.astype(float), u)
        feq = rho * w[:, None, None] * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (u**2).sum(0))
        f += 1.0 / 0.6 * (feq - f)
        f[:] = np.where(solid, bounced, f)
        return rho, u

    out = []
    for s in ((5, 4), (8, 8), (1, 3), (9, 7)):
        f = R(1).uniform(0.9, 1.1, size=(9,) + s)
        solid = R(2).uniform(size=s) < 0.2
        r = [step(f, solid) for _ in range(3)][-1]
        out.append((r, f, solid))
    return out


@program()
def shallow_water(tj: Any) -> Any:
    @tj.jit
    def step(h, u, v, dt):
        old = h.copy()
        h[1:-1, 1:-1] -= dt * (u[1:-1, 2:] - u[1:-1, :-2] + v[2:, 1:-1] - v[:-2, 1:-1])
        u[1:-1, 1:-1] -= dt * 9.8 * (old[1:-1, 2:] - old[1:-1, :-2])
        v[1:-1, 1:-1] -= dt * 9.8 * (old[2:, 1:-1] - old[:-2, 1:-1])
        for a in (h, u, v):
            a[0], a[-1] = a[1], a[-2]
            a[:, 0], a[:, -1] = a[:, 1], a[:, -2]
        u[:, 0] *= -1
        u[:, -1] *= -1
        v[0] *= -1
        v[-1] *= -1
        return h.sum()

    out = []
    for s in ((4, 5), (3, 3), (9, 12), (2, 2)):
        a = [R(k).normal(size=s) for k in range(3)]
        t = [step(*a, 0.01) for _ in range(3)]
        out.append((t, a))
    return out


@program()
def fdtd(tj: Any) -> Any:
    @tj.jit
    def fdtd(ez, hy, n, src):
        for t in tj.range(n):
            hy[:-1] += 0.5 * (ez[1:] - ez[:-1])
            ez[1:] += 0.5 * (hy[1:] - hy[:-1])
            ez[src] += np.exp(-((t - 10.0) ** 2) / 20)

    out = []
    for n in (2, 5, 40, 41):
        e, h = np.zeros(n), np.zeros(n)
        fdtd(e, h, 30, n // 2)
        out.append((e, h))
        fdtd(e, h, 3, -1)
        out.append((e.copy(), h.copy()))
    return out


@program(rtol=1e-06)
def mlp_manual_vs_auto(tj: Any) -> Any:
    def forward(ps, x):
        for i, (w, b) in enumerate(ps):
            x = x @ w + b
            if i < len(ps) - 1:
                x = np.maximum(x, 0)
        return x

    def loss(ps, x, y):
        z = forward(ps, x)
        z = z - z.max(axis=1, keepdims=True)
        lp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        return -lp[np.arange(len(y)), y].mean()

    g = tj.jit(tj.grad(loss))
    v = tj.jit(loss)
    out = []
    ps = [(R(0).normal(size=(4, 5)), R(1).normal(size=5)), (R(2).normal(size=(5, 3)), np.zeros(3))]
    for n in (1, 2, 6):
        x, y = R(n).normal(size=(n, 4)), R(n).integers(0, 3, n)
        out.append((v(ps, x, y), g(ps, x, y)))
        ps = [(w - 0.1 * gw, b - 0.1 * gb) for (w, b), (gw, gb) in zip(ps, out[-1][1])]
    return out, v(ps, x, y)


@program()
def kmeans(tj: Any) -> Any:
    @tj.jit
    def kmeans(X, C):
        for _ in range(4):
            d = ((X[:, None] - C[None]) ** 2).sum(-1)
            lab = d.argmin(axis=1)
            for k in range(len(C)):
                m = lab == k
                cnt = m.sum()
                C[k] = np.where(cnt > 0, (X * m[:, None]).sum(0) / np.maximum(cnt, 1), C[k])
        return lab

    out = []
    for n, k in ((10, 3), (4, 2), (1, 1), (30, 5)):
        X = R(n).normal(size=(n, 2))
        C = X[:k].copy()
        out.append((kmeans(X, C), C, X))
    return out


@program()
def em_gaussians(tj: Any) -> Any:
    @tj.jit
    def em(x, mu, sig, pi):
        for _ in range(5):
            lp = -0.5 * ((x[:, None] - mu) / sig) ** 2 - np.log(sig) + np.log(pi)
            m = lp.max(1, keepdims=True)
            r = np.exp(lp - m)
            ll = (m[:, 0] + np.log(r.sum(1))).sum()
            r /= r.sum(1, keepdims=True)
            nk = r.sum(0)
            mu = (r * x[:, None]).sum(0) / nk
            sig = np.sqrt((r * (x[:, None] - mu) ** 2).sum(0) / nk) + 1e-3
            pi = nk / len(x)
        return mu, sig, pi, ll

    return [em(R(n).normal(size=n) * 2, np.array([-1.0, 1.0]), np.ones(2), np.full(2, 0.5)) for n in (3, 10, 2, 50)]


@program()
def hmm_forward_backward(tj: Any) -> Any:
    @tj.jit
    def fb(A, B, pi, obs):
        T = len(obs)
        K = len(pi)
        al = np.zeros((T, K))
        be = np.ones((T, K))
        c = np.zeros(T)
        al[0] = pi * B[:, obs[0]]
        c[0] = al[0].sum()
        al[0] /= c[0]
        for t in tj.range(1, T):
            al[t] = (al[t - 1] @ A) * B[:, obs[t]]
            c[t] = al[t].sum()
            al[t] /= c[t]
        for t in tj.range(T - 2, -1, -1):
            be[t] = A @ (B[:, obs[t + 1]] * be[t + 1]) / c[t + 1]
        g = al * be
        return g / g.sum(1, keepdims=True), np.log(c).sum()

    A = R(0).dirichlet(np.ones(3), 3)
    B = R(1).dirichlet(np.ones(4), 3)
    pi = np.ones(3) / 3
    return [fb(A, B, pi, R(T).integers(0, 4, T)) for T in (1, 2, 5, 30)]


@program()
def viterbi(tj: Any) -> Any:
    @tj.jit
    def viterbi(lA, lB, obs):
        T, K = len(obs), len(lA)
        d = lB[:, obs[0]].copy()
        back = np.zeros((T, K), dtype=np.int32)
        for t in tj.range(1, T):
            s = d[:, None] + lA
            back[t] = s.argmax(0)
            d[:] = s.max(0) + lB[:, obs[t]]
        path = np.zeros(T, dtype=int)
        path[T - 1] = d.argmax()
        for t in tj.range(T - 1, 0, -1):
            path[t - 1] = back[t, path[t]]
        return path, d.max()

    A = np.log(R(0).dirichlet(np.ones(3), 3))
    B = np.log(R(1).dirichlet(np.ones(4), 3))
    return [viterbi(A, B, R(T).integers(0, 4, T).astype("u1")) for T in (1, 2, 5, 30)]


@program()
def lstm_cell(tj: Any) -> Any:
    class LSTM:
        def __init__(self, i, h):
            self.W = R(0).normal(size=(i + h, 4 * h))
            self.b = np.zeros(4 * h)
            self.h = h

        def __call__(self, x, state):
            h, c = state
            z = np.concatenate([x, h], axis=-1) @ self.W + self.b
            i, f, g, o = np.split(z, 4, axis=-1)
            s = lambda v: 1 / (1 + np.exp(-v))
            c = s(f) * c + s(i) * np.tanh(g)
            h = s(o) * np.tanh(c)
            return h, c

    cell = LSTM(3, 2)

    @tj.jit
    def run(xs):
        st = (np.zeros((xs.shape[1], 2)), np.zeros((xs.shape[1], 2)))
        outs = []
        for x in xs:
            st = cell(x, st)
            outs.append(st[0])
        return np.stack(outs), st

    @tj.jit
    def run2(xs):
        B = xs.shape[1]

        def body(c, x):
            c = cell(x, c)
            return c, c[0]

        st, outs = tj.lax.scan(body, (np.zeros((B, 2)), np.zeros((B, 2))), xs)
        return outs, st

    xs = [R(t).normal(size=(t, b, 3)) for t, b in ((1, 1), (4, 2), (2, 5))]
    return [run(x) for x in xs], [run2(x) for x in xs]


@program(rtol=1e-5)  # BLAS adds up in an order of the processor's
def attention(tj: Any) -> Any:
    @tj.jit
    def mha(x, Wq, Wk, Wv, heads, mask=None):
        T, D = x.shape
        d = D // heads
        q, k, v = ((x @ W).reshape(T, heads, d).transpose(1, 0, 2) for W in (Wq, Wk, Wv))
        s = q @ k.transpose(0, 2, 1) / np.sqrt(d)
        if mask is not None:
            s = np.where(mask, s, -np.inf)
        s = s - s.max(-1, keepdims=True)
        e = np.exp(s)
        p = e / e.sum(-1, keepdims=True)
        return (p @ v).transpose(1, 0, 2).reshape(T, D), p

    out = []
    for T in (1, 2, 5, 8):
        for dt in ("f4", "f8"):
            a = [R(k).normal(size=(T, 6) if k == 0 else (6, 6)).astype(dt) for k in range(4)]
            out.append(mha(*a, 2))
            out.append(mha(*a, 3, mask=np.tril(np.ones((T, T), bool))))
    return out


@program()
def pagerank(tj: Any) -> Any:
    @tj.jit
    def pr(src, dst, n_out, r, d=0.85):
        N = len(r)

        def cond(c):
            return (c[1] > 1e-10) & (c[2] < 100)

        def body(c):
            r, _, k = c
            new = np.zeros(N)
            np.add.at(new, dst, r[src] / n_out[src])
            dangling = np.where(n_out == 0, r, 0).sum() / N
            new = (1 - d) / N + d * (new + dangling)
            return new, np.abs(new - r).sum(), k + 1

        return tj.lax.while_loop(cond, body, (r, 1.0, 0))

    out = []
    for n, m in ((3, 5), (10, 20), (1, 0), (20, 60)):
        s, t = R(n).integers(0, n, m), R(m).integers(0, n, m)
        out.append(pr(s, t, np.bincount(s, minlength=n), np.full(n, 1 / n))[0])
    return out


@program()
def binomial_tree(tj: Any) -> Any:
    @tj.jit
    def american_put(S, K, r, s, T, n=50):
        dt = T / n
        u = np.exp(s * np.sqrt(dt))
        d = 1 / u
        p = (np.exp(r * dt) - d) / (u - d)
        disc = np.exp(-r * dt)
        j = np.arange(n + 1)
        v = np.maximum(K - S * u ** (2.0 * j - n), 0)
        for i in tj.range(n - 1, -1, -1):
            st = S * u ** (2.0 * j - i)
            v[:-1] = disc * (p * v[1:] + (1 - p) * v[:-1])
            v[:] = np.maximum(v, K - st)
        return v[0]

    return (
        american_put(100.0, 100.0, 0.05, 0.2, 1.0),
        american_put(100, 110, 0.05, 0.2, 1, n=1),
        american_put(90.0, 100, 0.05, 0.2, 1.0, n=20),
    )


@program()
def longstaff_schwartz_masks(tj: Any) -> Any:
    @tj.jit
    def ls(paths, K, disc):
        n, m = paths.shape
        cf = np.maximum(K - paths[:, -1], 0)
        for t in range(m - 2, 0, -1):
            cf *= disc
            s = paths[:, t]
            ex = K - s
            itm = ex > 0
            w = itm.astype(float)
            X = np.stack([np.ones_like(s), s / K], 1)
            A = (X * w[:, None]).T @ X
            b = (X * w[:, None]).T @ cf
            det = A[0, 0] * A[1, 1] - A[0, 1] ** 2 + 1e-12
            c0 = (A[1, 1] * b[0] - A[0, 1] * b[1]) / det
            c1 = (A[0, 0] * b[1] - A[1, 0] * b[0]) / det
            cont = c0 + c1 * s / K
            go = itm & (ex > cont)
            cf[go] = ex[go]
        return cf.mean() * disc, cf

    return [
        ls(100 * np.exp(np.cumsum(R(n).normal(size=(n, m)) * 0.1, 1)), 100.0, 0.99)
        for n, m in ((8, 3), (50, 5), (1, 2), (8, 1))
    ]


@program()
def life_conv_slices(tj: Any) -> Any:
    @tj.jit
    def step(Z):
        N = (
            Z[0:-2, 0:-2]
            + Z[0:-2, 1:-1]
            + Z[0:-2, 2:]
            + Z[1:-1, 0:-2]
            + Z[1:-1, 2:]
            + Z[2:, 0:-2]
            + Z[2:, 1:-1]
            + Z[2:, 2:]
        )
        birth = (N == 3) & (Z[1:-1, 1:-1] == 0)
        survive = ((N == 2) | (N == 3)) & (Z[1:-1, 1:-1] == 1)
        Z[...] = 0
        Z[1:-1, 1:-1][birth | survive] = 1
        return Z

    out = []
    for n in (2, 3, 6, 11):
        Z = R(n).integers(0, 2, (n, n))
        for _ in range(3):
            out.append(step(Z))
        out.append(Z)
    return out


@program()
def sandpile(tj: Any) -> Any:
    @tj.jit
    def topple(g):
        def cond(c):
            return (c[0] > 3).any()

        def body(c):
            g, k = c
            t = g // 4
            g = g % 4
            p = np.pad(t, 1)
            g = g + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
            return g, k + 1

        return tj.lax.while_loop(cond, body, (g, 0))

    return [topple(R(n).integers(0, 12, (n, n + 1)).astype(dt)) for n in (1, 2, 7) for dt in ("i4", "i8", "u1")]


@program()
def maze_wavefront(tj: Any) -> Any:
    @tj.jit
    def bfs(wall, start):
        d = np.full(wall.shape, -1)
        d[start[0], start[1]] = 0
        for k in tj.range(wall.size):
            f = d == k
            n = np.zeros_like(f)
            n[1:] |= f[:-1]
            n[:-1] |= f[1:]
            n[:, 1:] |= f[:, :-1]
            n[:, :-1] |= f[:, 1:]
            n &= ~wall & (d < 0)
            d[n] = k + 1
        return d

    return [bfs(R(s[0]).uniform(size=s) < 0.3, (s[0] // 2, s[1] // 2)) for s in ((1, 1), (4, 5), (9, 9))] + [
        bfs(R(5).uniform(size=(4, 4)) < 0.3, np.array([3, -1]))
    ]


@program()
def knapsack(tj: Any) -> Any:
    @tj.jit
    def knap(w, v, W=20):
        best = np.zeros(W + 1, dtype=v.dtype)
        c = np.arange(W + 1)
        for i in tj.range(len(w)):
            take = np.where(c >= w[i], best[np.maximum(c - w[i], 0)] + v[i], 0)
            best[:] = np.maximum(best, take)
        return best

    @tj.jit
    def knap2(w, v, W=20):
        best = np.zeros(W + 1, dtype=v.dtype)
        for i in tj.range(len(w)):
            for c in tj.range(W, w[i] - 1, -1):
                best[c] = np.maximum(best[c], best[c - w[i]] + v[i])
        return best

    return [
        k(R(n).integers(1, 9, n).astype(dt), R(n + 1).integers(1, 50, n).astype(dv))
        for n in (1, 0, 5, 9)
        for dt in ("i8", "i4", "u1")
        for dv in ("i8", "f4", "u1")
        for k in (knap, knap2)
    ]


@program()
def edit_distance(tj: Any) -> Any:
    @tj.jit
    def edit(a, b):
        m, n = len(a), len(b)
        D = np.zeros((m + 1, n + 1), int)
        D[:, 0] = np.arange(m + 1)
        D[0, :] = np.arange(n + 1)
        for i in tj.range(1, m + 1):
            for j in tj.range(1, n + 1):
                D[i, j] = np.minimum(
                    np.minimum(D[i - 1, j] + 1, D[i, j - 1] + 1), D[i - 1, j - 1] + (a[i - 1] != b[j - 1])
                )
        return D[m, n], D

    @tj.jit
    def edit_rows(a, b):
        prev = np.arange(len(b) + 1)
        cur = np.zeros_like(prev)
        for i in tj.range(len(a)):
            cur[0] = i + 1
            for j in tj.range(len(b)):
                cur[j + 1] = min3(prev[j + 1] + 1, cur[j] + 1, prev[j] + np.where(a[i] == b[j], 0, 1))
            prev[:] = cur
        return prev[-1]

    def min3(a, b, c):
        return np.minimum(a, np.minimum(b, c))

    e = lambda s: np.frombuffer(s.encode(), dtype=np.uint8)
    out = []
    for a, b in (
        ("kitten", "sitting"),
        ("", "abc"),
        ("a", "a"),
        ("abcdef", "azced"),
        ("", ""),
        ("intention", "execution"),
    ):
        out.append((edit(e(a), e(b)), edit_rows(e(a), e(b))))
    return out


@program()
def odd_even_sort(tj: Any) -> Any:
    @tj.jit
    def sort(x):
        n = len(x)
        for s in tj.range(n):
            for par in (0, 1):
                a = x[par : n - 1 : 2]
                b = x[par + 1 :: 2]
                m = min(len(a), len(b))
                lo, hi = np.minimum(a[:m], b[:m]), np.maximum(a[:m], b[:m])
                a[:m] = lo
                b[:m] = hi

    @tj.jit
    def bubble(x):
        n = len(x)
        for i in tj.range(n):
            for j in tj.range(n - 1 - i):
                a = x[j].copy()
                b = x[j + 1].copy()
                x[j] = np.minimum(a, b)
                x[j + 1] = np.maximum(a, b)

    @tj.jit
    def bubble_views(x):
        n = len(x)
        for i in tj.range(n):
            for j in tj.range(n - 1):
                x[j], x[j + 1] = np.minimum(x[j], x[j + 1]), np.maximum(x[j], x[j + 1])

    out = []
    for n in (1, 2, 3, 8, 15):
        for f in (sort, bubble, bubble_views):
            x = R(n).permutation(n)
            f(x)
            out.append(x)
    return out


@program()
def sieve(tj: Any) -> Any:
    @tj.jit
    def sieve(is_p):
        n = len(is_p)
        is_p[:2] = False
        i = 2
        while i * i < n:
            is_p[i * i :: i] = False
            i += 1
        return is_p.sum()

    @tj.jit
    def sieve2(p):
        n = p.size
        k = np.arange(n)
        for i in tj.range(2, n):
            p &= ~((k % i == 0) & (k > i) & p[i])

    out = []
    for n in (2, 3, 10, 50, 1, 0):
        a = np.ones(n, bool)
        out.append((sieve(a), a))
        b = np.ones(n, bool)
        sieve2(b)
        out.append(b)
    return out


@program()
def morphology(tj: Any) -> Any:
    @tj.jit
    def erode_dilate(img, r=1):
        p = np.pad(img, r, mode="edge")
        h, w = img.shape
        e = img.copy()
        d = img.copy()
        for dy in range(2 * r + 1):
            for dx in range(2 * r + 1):
                np.minimum(e, p[dy : dy + h, dx : dx + w], out=e)
                np.maximum(d, p[dy : dy + h, dx : dx + w], out=d)
        return e, d, d - e

    return [
        erode_dilate(R(s[0]).integers(0, 256, s).astype(dt), r)
        for s in ((1, 1), (4, 7), (10, 3))
        for dt in ("u1", "f4", "i2")
        for r in (1, 2)
    ]


@program()
def mandelbrot_masks(tj: Any) -> Any:
    @tj.jit
    def mandel(cr, ci, it):
        zr = np.zeros_like(cr)
        zi = np.zeros_like(ci)
        n = np.zeros(cr.shape, np.int32)
        for i in tj.range(it):
            zr2, zi2 = zr * zr, zi * zi
            alive = zr2 + zi2 <= 4
            n[alive] += 1
            t = zr2 - zi2 + cr
            zi[alive] = (2 * zr * zi + ci)[alive]
            zr[alive] = t[alive]
        return n, zr

    out = []
    for w in (1, 7, 16):
        for dt in ("f8", "f4"):
            cr, ci = (a.astype(dt) for a in np.meshgrid(np.linspace(-2, 1, w), np.linspace(-1, 1, w + 1)))
            out.append(mandel(cr, ci, 20)[0])
    return out


@program()
def sudoku_masks(tj: Any) -> Any:
    @tj.jit
    def propagate(board):
        cand = np.ones((9, 9, 9), bool)
        known = board > 0
        for v in range(9):
            pos = board == v + 1
            blk = pos.reshape(3, 3, 3, 3).any(axis=(1, 3))
            cand[v] = ~(pos.any(1)[:, None] | pos.any(0)[None] | blk.repeat(3, 0).repeat(3, 1)) & ~known
        single = cand.sum(0) == 1
        board[single] = (cand.argmax(0) + 1)[single]
        return single.sum()

    b = np.zeros((9, 9), int)
    base = np.array([[(3 * (r % 3) + r // 3 + c) % 9 + 1 for c in range(9)] for r in range(9)])
    m = R(4).uniform(size=(9, 9)) < 0.6
    b[m] = base[m]
    return [(propagate(b), b.copy()) for _ in range(4)]


@program()
def kalman(tj: Any) -> Any:
    @tj.jit
    def kalman(zs, F, H, Q, Rn, x, P):
        out = np.zeros((len(zs), len(x)))
        for t in tj.range(len(zs)):
            x[:] = F @ x
            P[:] = F @ P @ F.T + Q
            S = H @ P @ H.T + Rn
            K = P @ H.T / S
            x += K @ (zs[t] - H @ x)
            P[:] = (np.eye(len(x)) - K @ H) @ P
            out[t] = x
        return out

    r = []
    for n in (1, 2, 10):
        for d in (2, 3):
            F = np.eye(d) + np.diag(np.ones(d - 1), 1)
            H = np.eye(1, d)
            x, P = np.zeros(d), np.eye(d)
            r.append((kalman(R(n).normal(size=(n, 1)), F, H, 0.01 * np.eye(d), np.eye(1), x, P), x, P))
    return r


@program()
def row_swaps_views(tj: Any) -> Any:
    @tj.jit
    def f(A):
        A[0], A[1] = A[1], A[0]
        A[[0, 2]] = A[[2, 0]]
        A[:, 0], A[:, 1] = A[:, 1].copy(), A[:, 0].copy()
        a, b, c = A
        a += b
        c[...] = a
        for row in A:
            row /= row.sum()
        for r, s in zip(A, A[::-1]):
            r += s
        return a, c

    A = R(0).uniform(1, 2, (3, 3))
    return f(A), A


@program()
def overlap_shifts(tj: Any) -> Any:
    @tj.jit
    def f(x):
        x[1:] = x[:-1]
        x[:-1] += x[1:]
        x[::-1] += x
        x[::2] = x[1::2][: len(x[::2])] if len(x) % 2 == 0 else x[::2]
        x[2:] -= 0.5 * x[:-2]
        x[:] = x[::-1]
        return x

    out = []
    for n in (1, 2, 3, 6, 40):
        x = R(n).normal(size=n)
        out.append((f(x), x))
        y = R(n).normal(size=2 * n)[::2]
        out.append((f(y), y, y.base.copy()))
        z = R(n).normal(size=n)[::-1]
        out.append((f(z), z, z.base.copy()))
    return out


@program()
def out_args(tj: Any) -> Any:
    @tj.jit
    def f(x, y, A, B):
        np.cumsum(x, out=x)
        np.add(x[:-1], x[1:], out=x[1:])
        np.matmul(A, B, out=A)
        np.dot(A, B, out=B)
        np.clip(y, -1, 1, out=y)
        np.sqrt(np.abs(y), out=y, where=y > 0)
        np.negative(y[::2], out=y[::2])
        t = np.maximum(x, y, out=x)
        t -= 1
        np.sum(A, axis=0, out=x[: A.shape[0]])
        np.divide(x, 3, x)
        return t is x, t

    out = []
    for n in (1, 2, 3, 7):
        args = [R(k).normal(size=(n,) if k < 2 else (n, n)) for k in range(4)]
        out.append((f(*args), args))
    return out


@program()
def views_over_loop(tj: Any) -> Any:
    @tj.jit
    def f(A):
        d = A.reshape(-1)[:: A.shape[1] + 1]
        last = A[-1]
        blk = A[1:, 1:]
        for k in tj.range(4):
            d += 1
            last *= 0.5
            blk -= blk.mean()
            A[0] = last[::-1]
            A.T[0] += 1
        return d, last, blk, A[:, 0]

    out = []
    for n in (2, 3, 6):
        A = R(n).normal(size=(n, n))
        out.append((f(A), A))
    return out


@program()
def swapaxes_transposes(tj: Any) -> Any:
    @tj.jit
    def f(x):
        y = np.swapaxes(x, 0, 1)
        y[0] = 1
        z = np.moveaxis(x, -1, 0)
        z[0] *= 2
        w = x.transpose(2, 0, 1)
        w[..., 0] -= 1
        v = x[None, ..., None]
        v[0, :, 0, 0, 0] = 9
        e = np.expand_dims(x, 1)
        e += 0.5
        s = np.squeeze(e)
        s[0] = s[-1]
        b = np.atleast_2d(x[0, 0])
        b[0, 0] = -3
        r = x.reshape(x.shape[0], -1)
        r[:, -1] = 7
        fl = np.flip(x, 0)
        fl[0] += 1
        ro = np.rot90(x[0])
        ro[0] += 1
        dg = np.diagonal(x[0]).copy()
        tri = np.tril(x[0])
        sp = np.split(x, 2, axis=2)
        sp[0][:] = 0
        return y, z, w, r, fl, ro, dg, tri

    x = R(0).normal(size=(3, 4, 2))
    return f(x), x


@program()
def nested_jit_mutates(tj: Any) -> Any:
    @tj.jit
    def relax(u, f):
        u[1:-1] += 0.3 * (u[2:] - 2 * u[1:-1] + u[:-2] + f[1:-1])

    @tj.jit
    def norm(u):
        return np.sqrt((u * u).sum())

    @tj.jit
    def outer(u, f):
        a = norm(u)
        for _ in range(2):
            relax(u, f)
        relax(u[::2], f[::2])
        v = u.copy()
        relax(v, f)
        for _ in tj.range(3):
            relax(u, f)
        return a, norm(u), v

    out = []
    for n in (3, 7, 8, 20):
        u, f = R(n).normal(size=n), R(1).normal(size=n)
        out.append((outer(u, f), u, f))
        relax(u, f)
        out.append(u.copy())
    return out


@program()
def structures(tj: Any) -> Any:
    @tj.jit
    def f(state, *extra, scale=1.0, **kw):
        state["pos"] += state["vel"] * scale
        state["vel"][0] *= -1
        new = dict(state)
        new["t"] = state["t"] + 1
        for e in extra:
            e[...] = e[::-1].copy()
        return new, {k: v * 2 for k, v in kw.items()}, tuple(e.sum() for e in extra), [[state["pos"]], (state["t"],)]

    st = {"vel": np.ones(2), "pos": np.zeros(2), "t": 0}
    e1, e2 = np.arange(3.0), np.arange(2)
    out = [f(st, e1, e2, scale=0.5, b=1, a=np.ones(1)), st, e1, e2]
    out += [f(st), f(st, e1), st, e1, f(st, scale=2, z=np.float32(1))]
    new = f(st)[0]
    out.append(f(new)[0])
    return out


@program(rtol=1e-06)
def grad_heat_inplace(tj: Any) -> Any:
    def sim(u, k):
        u = u.copy()
        for _ in range(4):
            u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
        return (u**2).sum()

    def sim2(u, k):
        u = u.copy()
        for _ in tj.range(4):
            u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
        return (u**2).sum()

    out = []
    for f in (sim, sim2):
        for n in (3, 6, 2, 1):
            out.append(tj.jit(tj.grad(f, argnums=(0, 1)))(R(n).normal(size=n), 0.2))
    return out


@program(rtol=1e-06)
def grad_through_rows_views(tj: Any) -> Any:
    def f(A, w):
        A = A.copy()
        for i in range(len(A)):
            r = A[i]
            r *= w
            r[0] += r[-1] ** 2
            if i:
                A[i - 1] += r
        A.T[0] *= A[:, 1]
        return np.tanh(A).sum() * A[0, 0]

    return [
        tj.jit(tj.grad(f, argnums=(0, 1)))(R(n).normal(size=(n, 3)), R(1).normal(size=3)) for n in (1, 2, 4)
    ], tj.grad(f)(np.ones((2, 3)), np.ones(3))


@program()
def vmap_programs(tj: Any) -> Any:
    def sweep(x, k):
        x = x.copy()
        x[1:-1] = k * (x[:-2] + x[2:])
        x[0] = x[-1]
        x[x > 1] = 1
        return x, x.sum(), x.argmax()

    def while_(n):
        return tj.lax.while_loop(
            lambda c: c[0] > 1, lambda c: (np.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1), (n, 0)
        )[1]

    def thomas(a, b):
        y = np.zeros_like(b)
        y[0] = b[0]
        for i in tj.range(1, len(b)):
            y[i] = b[i] - a[i] * y[i - 1]
        return y

    def scat(idx, v):
        h = np.zeros(4)
        np.add.at(h, idx, v)
        h[idx[0]] = 9
        return h

    def condf(x):
        return tj.lax.cond(x[0] > 0, lambda v: v * 2, lambda v: v - 1, x)

    out = []
    for B in (1, 2, 5):
        for n in (2, 3, 6):
            out.append(tj.jit(tj.vmap(sweep))(R(B).normal(size=(B, n)), R(n).normal(size=B)))
            out.append(tj.jit(tj.vmap(sweep, in_axes=(1, None)))(R(B).normal(size=(n, B)), 0.5))
            out.append(tj.vmap(sweep, in_axes=(0, None))(R(B).normal(size=(B, n)), 0.5))
            out.append(tj.jit(tj.vmap(thomas))(R(B).normal(size=(B, n)), R(n).normal(size=(B, n))))
            out.append(tj.jit(tj.vmap(thomas, in_axes=(None, 0)))(R(B).normal(size=n), R(n).normal(size=(B, n))))
            out.append(tj.jit(tj.vmap(scat))(R(B).integers(-4, 4, size=(B, n)), R(n).normal(size=(B, n))))
            out.append(tj.jit(tj.vmap(condf))(R(B).normal(size=(B, n))))
        out.append(tj.jit(tj.vmap(while_))(R(B).integers(1, 30, B)))
    return out


@program()
def vmap_nested_mutation_and_outer(tj: Any) -> Any:
    W = R(0).normal(size=(3, 3))

    def f(x, y):
        t = W.copy()
        t[0] = x
        t[:, 1] += y
        t[1:] = t[:-1]
        for i in tj.range(3):
            t[i, i] = x[i] + i
        return t @ x

    g = tj.jit(tj.vmap(tj.vmap(f, in_axes=(0, None)), in_axes=(None, 0)))
    return g(R(1).normal(size=(2, 3)), R(2).normal(size=(4, 3))), tj.vmap(f, in_axes=(0, 1))(
        np.ones((2, 3)), np.ones((3, 2))
    )


@program()
def methods_and_inheritance(tj: Any) -> Any:
    class Layer:
        def __init__(self, n):
            self.w = R(n).normal(size=(n, n))
            self.calls = 0

        def __call__(self, x):
            return self.forward(x)

        def forward(self, x):
            return x @ self.w

    class Res(Layer):
        scale = 0.5

        def forward(self, x):
            return x + self.scale * super().forward(x)

    class Seq:
        def __init__(self, *ls):
            self.ls = list(ls)

        def __call__(self, x):
            for l in self.ls:
                x = l(x)
            return x

        def __iter__(self):
            return iter(self.ls)

        def __len__(self):
            return len(self.ls)

        def __getitem__(self, i):
            return self.ls[i]

        @property
        def params(self):
            return {f"{i}.w": l.w for i, l in enumerate(self)}

    net = Seq(Layer(3), Res(3), Layer(3))
    f = tj.jit(net)
    g = tj.jit(lambda x: sum(p.sum() for p in net.params.values()) * x + len(net))
    x = np.ones((2, 3))
    out = []

    def rec():
        out.append((f(x), g(x)))

    rec()
    Res.scale = 2.0
    rec()
    net[1].scale = 1.0
    rec()
    net.ls[0], net.ls[2] = net.ls[2], net.ls[0]
    rec()
    net[0].w *= 2
    rec()
    net.ls.append(Res(3))
    rec()
    net[0].forward = lambda x: x * 3
    rec()
    Layer.forward = lambda self, x: x - self.w[0]
    rec()
    del net[0].forward
    rec()
    Seq.__call__ = lambda self, x: x
    rec()
    return out


@program()
def outer_array_rebinding(tj: Any) -> Any:
    class Grid:
        pass

    g = Grid()
    g.u = np.arange(4.0)
    g.mask = np.array([1, 0, 1, 0], bool)
    g.k = {"a": [np.ones(4)]}
    f = tj.jit(lambda x: np.where(g.mask, g.u * x, g.k["a"][0]).sum())
    out = [f(2.0)]
    g.u[1:] = 9
    g.mask[:] = ~g.mask
    out.append(f(2.0))
    g.u = g.u[::-1]
    out.append(f(2.0))
    g.u = g.u.astype("f4")
    out.append(f(2.0))
    g.u = np.float64(3)
    out.append(f(2.0))
    g.u = 4
    out.append(f(2.0))
    g.u = np.arange(8.0)[::2]
    out.append(f(2))
    g.k["a"][0] = g.k["a"][0] * 3
    out.append(f(2))
    g.k["a"].insert(0, np.zeros(4))
    out.append(f(2))
    g.k = {"a": (np.full(4, 5.0),)}
    out.append(f(2))
    g.u = np.ones((3, 1))
    out.append(f(2))
    g.mask = True
    out.append(f(2))
    g.mask = np.bool_(False)
    out.append(f(2))
    del g.u
    g.u = np.ones(4, "u1")
    out.append(f(2))
    return out


@program()
def jitted_method_decorator_instances(tj: Any) -> Any:
    class Filt:
        gain = 1.0

        def __init__(self, k):
            self.k = np.asarray(k, float)
            self.state = np.zeros(2)

        @tj.jit
        def apply(self, x, mode="full"):
            return np.convolve(x, self.k, mode=mode) * self.gain

        @staticmethod
        @tj.jit
        def norm(x):
            return x / np.abs(x).max()

        @classmethod
        def make(cls, n):
            return cls(np.ones(n) / n)

        @tj.jit
        def __call__(self, x):
            return self.apply(x, "same") + self.norm(x)

    a, b = Filt([1, 2, 1]), Filt.make(2)
    x = np.arange(1, 6.0)
    out = []
    out += [a.apply(x), b.apply(x), a(x), b(x), a.norm(x)]
    a.gain = 3
    out += [a.apply(x), b(x)]
    Filt.gain = 2
    out += [a(x), b(x)]
    a.k[0] = 0
    out += [a(x)]
    a.k = np.ones(1)
    out += [a(x), a.apply(x, mode="valid")]
    return out


@program()
def ping_pong_results(tj: Any) -> Any:
    @tj.jit
    def step(a, b):
        b[1:-1] = a[:-2] + a[2:]
        return b, a

    @tj.jit
    def step2(state):
        a, b = state
        b[:] = a * 2
        return (b, a), a.sum()

    a, b = np.arange(6.0), np.zeros(6)
    r = (a, b)
    for _ in range(4):
        r = step(*r)
    s = (np.ones(3), np.zeros(3))
    acc = []
    for _ in range(4):
        s, t = step2(s)
        acc.append(t)
    return r, a, b, s, acc


@program()
def result_ownership(tj: Any) -> Any:
    @tj.jit
    def f(x):
        return x, x[1:], x.T, x.reshape(-1), [x, x]

    x = np.arange(4.0)
    r = f(x)
    x[0] = 99
    r[1][0] = 50
    r[4][0][2] = -1

    @tj.jit
    def ident(x):
        return x

    y = np.arange(3.0)
    z = ident(y)
    z[0] = 5
    w = ident(ident(y))
    w += 1
    K = np.ones(3)
    h = tj.jit(lambda: K)
    q = h()
    q += 1
    q2 = h()
    return r[0], r[1], r[4][1], y, z, w, K, q, q2


@program()
def loops_over_containers(tj: Any) -> Any:
    @tj.jit
    def f(layers, x, sched):
        hist = []
        for (w, b), act in zip(layers, sched):
            x = act(x @ w + b)
            hist.append(x.mean())
        for i, (w, b) in enumerate(layers):
            w -= 0.1 * (i + 1)
            b[:] = hist[i]
        while len(hist) > 1:
            hist = [hist[i] + hist[i + 1] for i in range(len(hist) - 1)]
        return x, hist

    L = [(R(i).normal(size=(3, 3)), np.zeros(3)) for i in range(3)]
    relu = lambda v: np.maximum(v, 0)
    return (
        f(L, np.ones((2, 3)), (np.tanh, relu, np.sin)),
        f(L[:2], np.ones((1, 3)), (relu, relu)),
        f(L[1:], np.ones((2, 3)), [np.abs, np.square]),
        L,
    )


@program()
def percolation_unionfind(tj: Any) -> Any:
    @tj.jit
    def find(parent, i):
        return tj.lax.while_loop(lambda j: parent[j] != j, lambda j: parent[j], i)

    @tj.jit
    def union_all(parent, edges):
        for k in tj.range(len(edges)):
            a, b = find(parent, edges[k, 0]), find(parent, edges[k, 1])
            parent[np.maximum(a, b)] = np.minimum(a, b)
        for i in tj.range(len(parent)):
            parent[i] = find(parent, i)
        return parent

    out = []
    for n, m in ((5, 3), (10, 20), (1, 1), (8, 0)):
        p = np.arange(n)
        e = R(n).integers(0, n, (m, 2))
        out.append((union_all(p, e), p, find(p, 0)))
    return out


# -- plain Python in place of tracejit
# ----------------------------------------------------------------------------------------------------
def own(tree: Any) -> Any:
    """A tree with arrays of its own: results of tracejit are new arrays."""
    return mapped(lambda x: x.copy() if isinstance(x, np.ndarray) else x, tree)


def mapped(f: Callable[..., Any], tree: Any, *others: Any) -> Any:
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(f, *items) for items in zip(tree, *others, strict=True))
    if isinstance(tree, dict):
        return {key: mapped(f, x, *[o[key] for o in others]) for key, x in tree.items()}
    return f(tree, *others)


class Lax:
    @staticmethod
    def while_loop(condition: Any, body: Any, state: Any) -> Any:
        state = own(state)
        while condition(state):
            state = own(body(state))
        return state

    @staticmethod
    def cond(flag: Any, yes: Any, no: Any, *operands: Any) -> Any:
        return own((yes if flag else no)(*operands))

    @staticmethod
    def scan(body: Any, state: Any, xs: Any) -> Any:
        state, results = own(state), []
        for x in xs:
            state, result = own(body(state, x))
            results.append(result)
        return state, mapped(lambda *each: np.stack(each), *results)


class Plain:
    """tracejit's functions as loops of Python and differences."""

    range = builtins.range
    lax = Lax

    @staticmethod
    def jit(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return own(function(*args, **kwargs))

        return call

    @staticmethod
    def vmap(function: Any, in_axes: Any = 0) -> Any:
        def call(*args: Any) -> Any:
            axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
            count = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
            calls = [
                own(
                    function(
                        *[x if axis is None else np.moveaxis(x, axis, 0)[k] for x, axis in zip(args, axes, strict=True)]
                    )
                )
                for k in builtins.range(count)
            ]
            return mapped(lambda *each: np.stack(each), *calls)

        return call

    @staticmethod
    def grad(function: Any, argnums: Any = 0) -> Any:
        def by(n: int, args: Any) -> Any:
            args = list(own(args))

            def leaf(x: Any) -> Any:
                x = np.asarray(x)  # an array in the arguments, which the differences change in place
                found = np.zeros(x.shape)
                for i in np.ndindex(x.shape):
                    found[i] = differences(x, i)
                return found[()]

            def differences(x: Any, i: Any) -> float:
                at, h, values = x[i], 1e-4, []
                for step in (1, -1, 2, -2):
                    x[i] = at + step * h
                    values.append(float(function(*args)))
                x[i] = at
                return (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * h)

            args[n] = mapped(lambda x: np.array(x, float), args[n])
            return mapped(leaf, args[n])

        return lambda *args: by(argnums, args) if isinstance(argnums, int) else tuple(by(n, args) for n in argnums)


def differences(expected: Any, found: Any, rtol: float, where: str = "") -> list[str]:
    """Where two trees of results differ: in structure, dtypes, shapes, values."""
    if isinstance(expected, dict):
        if not isinstance(found, dict) or list(expected) != list(found):
            return [f"{where}: {expected} and {found}"]
        return [d for key in expected for d in differences(expected[key], found[key], rtol, f"{where}[{key!r}]")]
    if isinstance(expected, (list, tuple)):
        if type(expected) is not type(found) or len(expected) != len(found):
            return [f"{where}: {expected} and {found}"]
        return [
            d
            for k, (x, y) in enumerate(zip(expected, found, strict=True))
            for d in differences(x, y, rtol, f"{where}[{k}]")
        ]
    if expected is None or isinstance(expected, str):
        return (
            []
            if expected is found or (type(found) is str and expected == found)
            else [f"{where}: {expected!r} and {found!r}"]
        )
    x, y = np.asarray(expected), np.asarray(found)
    if x.shape != y.shape or (x.dtype != y.dtype and type(expected) not in (bool, int, float)):
        return [f"{where}: {x.dtype} of {x.shape} and {y.dtype} of {y.shape}"]
    if x.dtype.kind == "f":
        rtol = max(rtol, 1e-9 if x.dtype == np.float64 else 1e-4)
        size = np.max(np.abs(x[np.isfinite(x)]), initial=0.0)
        equal = np.allclose(x, y, rtol=rtol, atol=0.1 * rtol * float(size), equal_nan=True)
    else:
        equal = np.array_equal(x, y)
    return [] if equal else [f"{where}: {expected!r} and {found!r}"]


@pytest.mark.parametrize("name", PROGRAMS)
# programs call one function with much that is new
@pytest.mark.filterwarnings("ignore:.*was compiled", "ignore::RuntimeWarning")
def test_programs_compute_what_plain_python_computes(name: str) -> None:
    function, rtol = PROGRAMS[name]
    assert differences(function(Plain), function(tracejit), rtol) == []


def halves(x):
    return np.concatenate([x[::2], x[1::2]])


OF_HALVES = [
    "y[x > 0] *= 2; return y", "y[x > 0] = x[x > 0]; return y", "x[y > 0] = y[y > 0]; return x",
    "x[y > 0] = -0.25; return x", "y += x; y[:] = x * 2; return y - x", "y[1:] = x[:-1]; return np.where(y > x, y, x)",
    "y[x > 0] = y[y > 0].sum(); return y", "np.copyto(y, x, where=x > 0); np.putmask(x, y > 0, 3.0); return x + y",
    "z = np.zeros_like(x); z[...] = y; z += halves(y); return z @ x",
    "y = np.hstack([x[: x.size // 2], x[x.size // 2 :]]); y[x > 0] += 1; x[:] = y; return x",
    "x[:] = halves(x); return x * y", "return tj.lax.fori_loop(0, 3, lambda i, s: halves(s) + x * 0.1, y)",
    "return tj.lax.cond(x.sum() > 0, lambda: y, lambda: x)", "return tj.vmap(lambda a, b: a * b)(halves(x), x)",
]  # fmt: skip


@pytest.mark.parametrize("body", OF_HALVES)
def test_an_array_joined_of_halves_has_the_shape_of_the_whole(body: str):
    names: dict[str, Any] = {"np": np, "tj": tracejit, "halves": halves}
    exec(f"def f(x):\n    y = halves(x); {body}", names)
    f = names["f"]
    jitted = tracejit.jit(f)
    for n in (20, 30, 31, 7, 2, 20):
        x, y = np.sin(np.arange(n) + 1.0), np.sin(np.arange(n) + 1.0)
        np.testing.assert_allclose(jitted(x), f(y), rtol=1e-12)
        np.testing.assert_allclose(x, y, rtol=1e-12)
