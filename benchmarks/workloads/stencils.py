"""Explicit heat equations: every step reads neighbours and writes the interior in place."""

import numpy as np

from benchmarks.workload import Workload

STEPS_2D = 100
STEPS_3D = 20


def step_2d(u):
    u[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    return u


def heat_2d(u):
    u = u.copy()
    for _ in range(STEPS_2D):
        step_2d(u)
    return u


def step_roll(u):
    """The same on a torus, by rolling the array."""
    return u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)


def heat_2d_roll(u):
    for _ in range(STEPS_2D):
        u = step_roll(u)
    return u


def step_3d(u):
    c = u[1:-1, 1:-1, 1:-1]
    neighbours = (
        u[:-2, 1:-1, 1:-1]
        + u[2:, 1:-1, 1:-1]
        + u[1:-1, :-2, 1:-1]
        + u[1:-1, 2:, 1:-1]
        + u[1:-1, 1:-1, :-2]
        + u[1:-1, 1:-1, 2:]
    )
    u[1:-1, 1:-1, 1:-1] += 0.1 * (neighbours - 6 * c)
    return u


def heat_3d(u):
    u = u.copy()
    for _ in range(STEPS_3D):
        step_3d(u)
    return u


def tracejit_loop(step, steps):
    """The step as written above, repeated by one loop inside the compiled program."""

    def build():
        import tracejit as tj

        return tj.jit(lambda u: tj.lax.fori_loop(0, steps, lambda _, u: step(u), u))

    return build


def jax_heat_2d():
    import jax

    def step(_, u):
        change = 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        return u.at[1:-1, 1:-1].add(change)

    return jax.jit(lambda u: jax.lax.fori_loop(0, STEPS_2D, step, u))


def jax_heat_2d_roll():
    import jax

    def step(_, u):
        roll = jax.numpy.roll
        return u + 0.1 * (roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u)

    return jax.jit(lambda u: jax.lax.fori_loop(0, STEPS_2D, step, u))


def jax_heat_3d():
    import jax

    def step(_, u):
        c = u[1:-1, 1:-1, 1:-1]
        around = (
            u[:-2, 1:-1, 1:-1]
            + u[2:, 1:-1, 1:-1]
            + u[1:-1, :-2, 1:-1]
            + u[1:-1, 2:, 1:-1]
            + u[1:-1, 1:-1, :-2]
            + u[1:-1, 1:-1, 2:]
        )
        return u.at[1:-1, 1:-1, 1:-1].add(0.1 * (around - 6 * c))

    return jax.jit(lambda u: jax.lax.fori_loop(0, STEPS_3D, step, u))


def numba_heat_2d():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def heat(start):
        u, new = start.copy(), start.copy()
        rate, four = start.dtype.type(0.1), start.dtype.type(4)
        for _ in range(STEPS_2D):
            for i in numba.prange(1, u.shape[0] - 1):
                for j in range(1, u.shape[1] - 1):
                    new[i, j] = u[i, j] + rate * (
                        u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - four * u[i, j]
                    )
            u, new = new, u
        return u

    return heat


def numba_heat_2d_roll():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def heat(start):
        u, new = start.copy(), start.copy()
        rate, four = start.dtype.type(0.1), start.dtype.type(4)
        n, m = u.shape
        for _ in range(STEPS_2D):
            for i in numba.prange(n):
                up, down = (i - 1 if i else n - 1), (i + 1 if i < n - 1 else 0)
                new[i, 0] = u[i, 0] + rate * (u[up, 0] + u[down, 0] + u[i, m - 1] + u[i, 1] - four * u[i, 0])
                for j in range(1, m - 1):
                    new[i, j] = u[i, j] + rate * (u[up, j] + u[down, j] + u[i, j - 1] + u[i, j + 1] - four * u[i, j])
                new[i, m - 1] = u[i, m - 1] + rate * (
                    u[up, m - 1] + u[down, m - 1] + u[i, m - 2] + u[i, 0] - four * u[i, m - 1]
                )
            u, new = new, u
        return u

    return heat


def numba_heat_3d():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def heat(start):
        u, new = start.copy(), start.copy()
        rate, six = start.dtype.type(0.1), start.dtype.type(6)
        for _ in range(STEPS_3D):
            for i in numba.prange(1, u.shape[0] - 1):
                for j in range(1, u.shape[1] - 1):
                    for k in range(1, u.shape[2] - 1):
                        around = (
                            u[i - 1, j, k]
                            + u[i + 1, j, k]
                            + u[i, j - 1, k]
                            + u[i, j + 1, k]
                            + u[i, j, k - 1]
                            + u[i, j, k + 1]
                        )
                        new[i, j, k] = u[i, j, k] + rate * (around - six * u[i, j, k])
            u, new = new, u
        return u

    return heat


def grid(axes):
    return lambda rng, n, dtype: (rng.random((n,) * axes, np.float32).astype(dtype),)


WORKLOADS = [
    Workload(
        "heat_2d_100",
        {"128^2": 128, "512^2": 512, "2048^2": 2048},
        grid(2),
        heat_2d,
        {"numba": numba_heat_2d, "jax": jax_heat_2d, "tracejit": tracejit_loop(step_2d, STEPS_2D)},
        ("f4",),
    ),
    Workload(
        "heat_2d_roll_100",
        {"512^2": 512},
        grid(2),
        heat_2d_roll,
        {"numba": numba_heat_2d_roll, "jax": jax_heat_2d_roll, "tracejit": tracejit_loop(step_roll, STEPS_2D)},
        ("f4",),
    ),
    Workload(
        "heat_3d_20",
        {"48^3": 48, "192^3": 192},
        grid(3),
        heat_3d,
        {"numba": numba_heat_3d, "jax": jax_heat_3d, "tracejit": tracejit_loop(step_3d, STEPS_3D)},
        ("f4",),
    ),
]
