"""A drop of argon-like atoms: forces as the gradient of the energy, a relaxation that stops by itself, vibrations from
the Hessian, and how the motion depends on where it begins.
"""

from functools import partial
from typing import Any

import tracejit as jax
import tracejit.numpy as jnp
from tracejit import lax, random

jax.config.update("jax_enable_x64", True)


def pair_energy(a: Any, b: Any) -> Any:
    """Lennard-Jones of two atoms, smooth and 0 beyond a distance of 3."""
    square = jnp.sum((a - b) ** 2)
    safe = jnp.where(square > 0, square, 1.0)  # an atom and itself
    sixth = safe**-3
    taper = jnp.clip(1 - safe / 9.0, 0.0, 1.0) ** 2
    return jnp.where(square > 0, 4 * (sixth**2 - sixth) * taper, 0.0)


def energy(positions: Any) -> Any:
    """Of all pairs, and of a weak trap.   float[atoms, 2] -> float"""
    pairs = jax.vmap(jax.vmap(pair_energy, (None, 0)), (0, None))(positions, positions)
    return 0.5 * jnp.sum(pairs) + 0.05 * jnp.sum(positions**2)


def force(positions: Any) -> Any:
    return -jax.grad(energy)(positions)


@partial(jax.jit, static_argnames="steps")
def simulate(positions: Any, velocities: Any, steps: int, dt: Any = 0.005) -> tuple[Any, Any]:
    """Velocity Verlet."""

    def step(_: Any, state: Any) -> Any:
        x, v, f = state
        v = v + 0.5 * dt * f
        x = x + dt * v
        f = force(x)
        return x, v + 0.5 * dt * f, f

    x, v, _ = lax.fori_loop(0, steps, step, (positions, velocities, force(positions)))
    return x, v


@jax.jit
def relax(positions: Any) -> tuple[Any, Any]:
    """Steepest descent whose step grows while the energy falls and shrinks where it rises."""

    def goes_on(state: Any) -> Any:
        x, _, _, count = state
        return jnp.logical_and(jnp.max(jnp.abs(force(x))) > 1e-7, count < 5000)

    def step(state: Any) -> Any:
        x, e, rate, count = state
        trial = x + rate * force(x)
        e_trial = energy(trial)
        x, e, rate = lax.cond(e_trial <= e, lambda: (trial, e_trial, 1.1 * rate), lambda: (x, e, 0.5 * rate))
        return x, e, rate, count + 1

    x, e, _, _ = lax.while_loop(goes_on, step, (positions, energy(positions), 1e-3, 0))
    return x, e


def thermostat(velocities: Any, wanted: float) -> Any:
    """Velocities as they are below a temperature, scaled down above it."""
    temperature = jnp.mean(velocities**2)
    return lax.cond(
        temperature > wanted,
        lambda v: v * jnp.sqrt(wanted / temperature),
        lambda v: v,
        velocities,
    )


def main() -> dict[str, Any]:
    place_key, speed_key = random.split(random.PRNGKey(3))
    row = jnp.arange(3.0) - 1.0
    grid = 1.15 * jnp.stack(jnp.meshgrid(row, row, indexing="ij"), axis=-1).reshape(-1, 2)
    positions = grid + 0.05 * random.normal(place_key, grid.shape)
    velocities = thermostat(random.normal(speed_key, grid.shape), 0.3)
    velocities = velocities - velocities.mean(axis=0)

    still, lowest = relax(positions)
    hessian = jax.jit(jax.hessian(energy))(still).reshape(still.size, still.size)
    frequencies = jnp.sqrt(jnp.linalg.eigvalsh(hessian)[-3:])

    total = lambda x, v: energy(x) + 0.5 * jnp.sum(v**2)  # noqa: E731
    after, speeds = simulate(positions, velocities, 300)
    jacobian = jax.jacfwd(lambda x: simulate(x, velocities, 50)[0])(positions)
    growth = jnp.linalg.norm(jacobian.reshape(still.size, still.size), ord=2)
    nudge = jax.grad(lambda v: jnp.sum(simulate(positions, v, 50)[0][0] ** 2))(velocities)
    return {
        "before": total(positions, velocities), "after": total(after, speeds), "lowest": lowest,
        "frequencies": frequencies, "growth": growth, "nudge": nudge[0], "radius": jnp.sqrt(jnp.mean(after**2)),
    }  # fmt: skip


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: {value}")
