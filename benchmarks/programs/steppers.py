"""Steps through time: ordinary and partial differential equations, particles, chance from given numbers."""

import numpy as np

from benchmarks.programs.program import program


@program(lambda rng, n: (1.0, 1.0, 1.0, 0.005, n), 20_000, tolerance=1e-6)
def lorenz(x, y, z, dt, steps):
    """Lorenz's attractor by Euler's method; the path is kept."""
    path = np.zeros((20_000, 3))
    for i in range(len(path)):
        if i < steps:
            dx = 10.0 * (y - x)
            dy = x * (28.0 - z) - y
            dz = x * y - 8.0 / 3.0 * z
            x = x + dt * dx
            y = y + dt * dy
            z = z + dt * dz
            path[i, 0] = x
            path[i, 1] = y
            path[i, 2] = z
    return path[:100].sum()


def oscillator(t, y, v):
    return -y - 0.1 * v + np.sin(t)


@program(lambda rng, n: (1.0, 0.0, 0.01, np.zeros(n)), 20_000, numba=False)
def runge_kutta(y, v, h, path):
    """Fourth order, with a helper for the force."""
    t = 0.0
    for i in range(len(path)):
        a1 = oscillator(t, y, v)
        a2 = oscillator(t + h / 2, y + h / 2 * v, v + h / 2 * a1)
        a3 = oscillator(t + h / 2, y + h / 2 * (v + h / 2 * a1), v + h / 2 * a2)
        a4 = oscillator(t + h, y + h * (v + h / 2 * a2), v + h * a3)
        y = y + h * v + h * h / 6 * (a1 + a2 + a3)
        v = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        t = t + h
        path[i] = y
    return path


@program(lambda rng, n: (rng.random(n) * 10,), 2_000)
def adaptive_step(ends):
    """y' = y cos(t) to each end, with steps as long as the error allows."""
    out = np.zeros(len(ends))
    for i in range(len(ends)):
        t = 0.0
        y = 1.0
        h = 0.1
        while t < ends[i]:
            h = min(h, ends[i] - t)
            k1 = y * np.cos(t)
            k2 = (y + h * k1) * np.cos(t + h)
            error = abs(h * (k2 - k1) / 2)
            if error <= 1e-5 or h < 1e-6:
                t = t + h
                y = y + h * (k1 + k2) / 2
                h = h * 1.5
            else:
                h = h / 2
        out[i] = y
    return out


@program(lambda rng, n: (rng.random(n), 0.4, 500), 1_000)
def heat_rod(u, r, steps):
    """Heat in a rod, by slices, in place."""
    u = u.copy()
    for _ in range(steps):
        u[1:-1] = u[1:-1] + r * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


@program(lambda rng, n: (np.exp(-((np.linspace(-1, 1, n) * 5) ** 2)), 0.5, 500), 1_000)
def wave(u, c, steps):
    """A wave: three arrays that change places."""
    before = u.copy()
    now = u.copy()
    after = np.zeros_like(u)
    for _ in range(steps):
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + c * c * (now[2:] - 2 * now[1:-1] + now[:-2])
        before, now, after = now, after, before
    return now


@program(lambda rng, n: (rng.random((n, 3)), np.zeros((n, 3)), rng.random(n), 0.001, 5), 200)
def n_body(pos, vel, mass, dt, steps):
    """Pairs of bodies, by loops."""
    n = len(mass)
    pos = pos.copy()
    vel = vel.copy()
    for _ in range(steps):
        for i in range(n):
            ax = 0.0
            ay = 0.0
            az = 0.0
            for j in range(n):
                dx = pos[j, 0] - pos[i, 0]
                dy = pos[j, 1] - pos[i, 1]
                dz = pos[j, 2] - pos[i, 2]
                r2 = dx * dx + dy * dy + dz * dz + 0.01
                f = mass[j] / (r2 * np.sqrt(r2))
                ax += f * dx
                ay += f * dy
                az += f * dz
            vel[i, 0] += dt * ax
            vel[i, 1] += dt * ay
            vel[i, 2] += dt * az
        for i in range(n):
            for k in range(3):
                pos[i, k] += dt * vel[i, k]
    return pos


@program(lambda rng, n: (rng.standard_normal((n, 50)), 100.0, 100.0, 0.01), 5_000)
def barrier_option(z, s0, strike, rate):
    """A knock-out option by given random numbers: paths end at the barrier."""
    total = 0.0
    for i in range(z.shape[0]):
        s = s0
        alive = True
        for t in range(z.shape[1]):
            s = s * np.exp(rate / 50 + 0.03 * z[i, t])
            if s > 130.0:
                alive = False
                break
        if alive:
            total += max(s - strike, 0.0)
    return total / z.shape[0]


@program(lambda rng, n: (rng.random((n, 2)),), 200_000)
def monte_carlo_pi(points):
    """The share of given points inside the circle."""
    inside = 0
    for i in range(points.shape[0]):
        if points[i, 0] ** 2 + points[i, 1] ** 2 < 1.0:
            inside += 1
    return 4.0 * inside / points.shape[0]


@program(lambda rng, n: (2024, n), 100_000)
def congruential(seed, n):
    """A generator of random numbers of one's own, and their mean."""
    state = seed
    total = 0.0
    for _ in range(n):
        state = (1103515245 * state + 12345) % 2147483648
        total += state / 2147483648
    return state, total / n


@program(lambda rng, n: (rng.standard_normal((n, 3)), rng.random(n)), 50_000)
def metropolis(steps, chances):
    """A random walk on a density, with given proposals."""
    x = np.zeros(3)
    energy = 0.0
    accepted = 0
    mean = np.zeros(3)
    for i in range(len(chances)):
        new = x + 0.5 * steps[i]
        e = 0.5 * np.sum(new * new)
        if chances[i] < np.exp(energy - e):
            x = new
            energy = e
            accepted += 1
        mean += x
    return mean / len(chances), accepted


@program(lambda rng, n: (rng.integers(0, 2, (n, n)) * 2 - 1, rng.random((10, n, n)), 0.4), 64)
def ising(spins, chances, beta):
    """Sweeps over spins on a torus."""
    s = spins.copy()
    n, m = s.shape
    for sweep in range(chances.shape[0]):
        for i in range(n):
            for j in range(m):
                around = s[i - 1, j] + s[(i + 1) % n, j] + s[i, j - 1] + s[i, (j + 1) % m]
                cost = 2 * s[i, j] * around
                if cost <= 0 or chances[sweep, i, j] < np.exp(-beta * cost):
                    s[i, j] = -s[i, j]
    return s
