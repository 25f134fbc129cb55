"""Gaussian process regression: the likelihood is maximised by L-BFGS, a robust mean is found by Newton's method, and
its derivatives come from the implicit function theorem.
"""

from typing import Any, NamedTuple

import tracejit as jax
import tracejit.numpy as jnp
from tracejit import lax, random
from tracejit.flatten_util import ravel_pytree

jax.config.update("jax_enable_x64", True)


def kernel(theta: dict[str, Any], a: Any, b: Any) -> Any:
    """Squared exponential, of two numbers."""
    return jnp.exp(2 * theta["height"] - 0.5 * ((a - b) / jnp.exp(theta["length"])) ** 2)


def gram(theta: dict[str, Any], xs: Any, ys: Any) -> Any:
    return jax.vmap(lambda x: jax.vmap(lambda y: kernel(theta, x, y))(ys))(xs)


def negative_log_likelihood(theta: dict[str, Any], x: Any, y: Any) -> Any:
    k = gram(theta, x, x) + jnp.exp(2 * theta["noise"]) * jnp.eye(x.shape[0])
    factor = jnp.linalg.cholesky(k)
    white = lax.linalg.triangular_solve(factor, y[:, None], left_side=True, lower=True)
    half_log_det = jnp.sum(jnp.log(jnp.diag(factor)))
    return 0.5 * jnp.sum(white**2) + half_log_det + 0.5 * x.shape[0] * jnp.log(2 * jnp.pi)


def predict(theta: dict[str, Any], x: Any, y: Any, new: Any) -> tuple[Any, Any]:
    k = gram(theta, x, x) + jnp.exp(2 * theta["noise"]) * jnp.eye(x.shape[0])
    across = gram(theta, x, new)
    solved = jnp.linalg.solve(k, jnp.concatenate([y[:, None], across], axis=1))
    mean = across.T @ solved[:, 0]
    variance = jnp.diag(gram(theta, new, new)) - jnp.sum(across * solved[:, 1:], axis=0)
    return mean, jnp.sqrt(variance)


class Memory(NamedTuple):
    """The state of L-BFGS; the last pairs of steps and changes of the gradient are the last rows."""

    x: Any
    value: Any
    slope: Any
    steps: Any
    changes: Any
    count: Any


def direction(m: Memory) -> Any:
    """The product of the inverse Hessian, as the pairs show it, with the gradient, by two loops."""
    rows = m.steps.shape[0]
    curvature = jnp.sum(m.steps * m.changes, axis=1)
    rho = jnp.where(curvature > 0, 1 / jnp.where(curvature > 0, curvature, 1.0), 0.0)

    def backward(i: Any, carry: Any) -> Any:
        q, alphas = carry
        k = rows - 1 - i
        alpha = rho[k] * jnp.dot(m.steps[k], q)
        return q - alpha * m.changes[k], alphas.at[k].set(alpha)

    q, alphas = lax.fori_loop(0, rows, backward, (m.slope, jnp.zeros(rows)))
    size = jnp.sum(m.changes[-1] ** 2)
    q = q * jnp.where(size > 0, curvature[-1] / jnp.where(size > 0, size, 1.0), 0.1)
    return lax.fori_loop(0, rows, lambda k, r: r + m.steps[k] * (alphas[k] - rho[k] * jnp.dot(m.changes[k], r)), q)


def lbfgs(function: Any, start: Any, rows: int = 5, most: int = 200) -> Memory:
    """The minimum, with steps that are halved until they lead down far enough."""
    value_and_slope = jax.value_and_grad(function)

    def goes_on(m: Memory) -> Any:
        return (jnp.linalg.norm(m.slope) > 1e-9) & (m.count < most)

    def step(m: Memory) -> Memory:
        along = -direction(m)
        gain = jnp.dot(m.slope, along)
        size = lax.while_loop(
            lambda t: (function(m.x + t * along) > m.value + 1e-4 * t * gain + 1e-12) & (t > 1e-6), lambda t: t / 2, 1.0
        )
        x = m.x + size * along
        value, slope = value_and_slope(x)
        steps = jnp.roll(m.steps, -1, axis=0).at[-1].set(x - m.x)
        changes = jnp.roll(m.changes, -1, axis=0).at[-1].set(slope - m.slope)
        return Memory(x, value, slope, steps, changes, m.count + 1)

    zeros = jnp.zeros((rows, start.size))
    return lax.while_loop(goes_on, step, Memory(start, *value_and_slope(start), zeros, zeros, 0))


def robust_mean(y: Any, width: Any) -> Any:
    """The root of the sum of tanh((y - m) / width), by Newton's method; differentiable in y and width."""

    def slope(m: Any) -> Any:
        return jnp.sum(jnp.tanh((y - m) / width))

    def newton(f: Any, start: Any) -> Any:
        def step(state: Any) -> Any:
            m, _, count = state
            value, change = jax.jvp(f, (m,), (jnp.ones_like(m),))
            return m - value / change, jnp.abs(value), count + 1

        return lax.while_loop(lambda s: (s[1] > 1e-12) & (s[2] < 50), step, (start, jnp.inf, 0))[0]

    return lax.custom_root(slope, jnp.median(y), newton, lambda g, b: b / g(jnp.ones_like(b)))


def main() -> dict[str, Any]:
    x_key, noise_key = random.split(random.PRNGKey(4))
    x = jnp.sort(random.uniform(x_key, (25,), minval=-3.0, maxval=3.0))
    y = jnp.sin(2 * x) + 0.1 * random.normal(noise_key, x.shape)

    start, back = ravel_pytree({"height": 0.0, "length": 0.0, "noise": -1.0})
    objective = lambda v: negative_log_likelihood(back(v), x, y)  # noqa: E731
    found = jax.jit(lambda start: lbfgs(objective, start))(start)
    theta = back(found.x)
    curvature = jax.hessian(objective)(found.x)
    mean, deviation = jax.jit(predict)(theta, x, y, jnp.array([-1.0, 0.5, 4.0]))

    centre, influence = jax.jit(jax.value_and_grad(robust_mean))(y, 0.3)
    return {
        "found": found.x, "value": found.value, "spread": jnp.sqrt(jnp.diag(jnp.linalg.inv(curvature))),
        "mean": mean, "deviation": deviation, "centre": centre, "influence": influence[:5],
        "by_width": jax.grad(robust_mean, argnums=1)(y, 0.3),
    }  # fmt: skip


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: {value}")
