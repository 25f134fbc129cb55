"""Five programs as one writes them for JAX: with its names `np`, for jax.numpy, and `tj`, for jax."""

import functools
from typing import Any

import numpy as np

import tracejit as tj


# -- a network, trained by Adam ----------------------------------------------------------------------------------------
def network(params: Any, x: Any) -> Any:
    for layer in params[:-1]:
        x = np.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def network_loss(params: Any, x: Any, y: Any) -> Any:
    return np.mean((network(params, x)[:, 0] - y) ** 2)


@functools.partial(tj.jit, static_argnames=("rate", "decay"))
def adam_step(state: Any, x: Any, y: Any, rate: float = 0.01, decay: tuple[float, float] = (0.9, 0.999)) -> Any:
    params, first, second, count = state
    loss, slope = tj.value_and_grad(network_loss)(params, x, y)
    count = count + 1
    first = tj.tree.map(lambda m, g: decay[0] * m + (1 - decay[0]) * g, first, slope)
    second = tj.tree.map(lambda v, g: decay[1] * v + (1 - decay[1]) * g**2, second, slope)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return p - rate * (m / (1 - decay[0] ** count)) / (np.sqrt(v / (1 - decay[1] ** count)) + 1e-8)

    return loss, (tj.tree.map(moved, params, first, second), first, second, count)


def train(params: Any, x: Any, y: Any, steps: int) -> Any:
    zeros = tj.tree.map(lambda p: 0 * p, params)
    state = params, zeros, zeros, 0.0
    losses = []
    for _ in range(steps):
        loss, state = adam_step(state, x, y)
        losses.append(loss)
    return losses, state[0]


# -- gradients clipped on their way back through time ------------------------------------------------------------------
@functools.partial(tj.custom_vjp, nondiff_argnums=(1,))
def clip_gradient(x: Any, bound: float) -> Any:
    return x


def _clip_forward(x: Any, bound: float) -> Any:
    return x, None


def _clip_backward(bound: float, _: Any, cotangent: Any) -> Any:
    return (np.clip(cotangent, -bound, bound),)


clip_gradient.defvjp(_clip_forward, _clip_backward)


def recurrent_loss(w: Any, xs: Any, bound: float) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = clip_gradient(np.tanh(w @ h + x), bound)
        return h, np.sum(h**2)

    _, losses = tj.lax.scan(step, np.zeros(3), xs)
    return np.sum(losses)


# -- a long loop whose steps are computed again ------------------------------------------------------------------------
def heat_loss(u: Any, rate: Any, steps: int, again: bool) -> Any:
    def step(u: Any, _: Any) -> Any:
        flux = np.tanh(np.roll(u, 1) + np.roll(u, -1) - 2 * u)
        return u + rate * flux * np.cos(u), None

    last, _ = tj.lax.scan(tj.checkpoint(step) if again else step, u, None, length=steps)
    return np.sum(last**2)


# -- an equation whose rate is found -----------------------------------------------------------------------------------
def growth(theta: Any, start: Any, steps: int) -> Any:
    def slope(y: Any) -> Any:
        return theta["rate"] * y * (1 - y / theta["capacity"])

    def step(y: Any, _: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + 0.05 * k1)
        k3 = slope(y + 0.05 * k2)
        k4 = slope(y + 0.1 * k3)
        y = y + 0.1 * (k1 + 2 * k2 + 2 * k3 + k4) / 6
        return y, y

    return tj.lax.scan(step, start, None, length=steps)[1]


def misfit(theta: Any, start: Any, seen: Any) -> Any:
    return np.sum((growth(theta, start, 20) - seen) ** 2)


def fit(theta: Any, start: Any, seen: Any, steps: int, rate: float) -> Any:
    descend = tj.jit(lambda t: tj.tree.map(lambda p, g: p - rate * g, t, tj.grad(lambda t: misfit(t, start, seen))(t)))
    for _ in range(steps):
        theta = descend(theta)
    return theta


# -- Newton's method on a vector of all parameters ---------------------------------------------------------------------
def logistic_loss(params: Any, x: Any, y: Any) -> Any:
    z = x @ params["w"] + params["b"]
    return np.mean(np.log1p(np.exp(z)) - y * z) + 0.05 * np.sum(params["w"] ** 2)


def newton(params: Any, x: Any, y: Any, steps: int) -> Any:
    vector, back = tj.flatten_util.ravel_pytree(params)

    def loss(v: Any) -> Any:
        return logistic_loss(back(v), x, y)

    slope = tj.jit(tj.grad(loss))
    product = tj.jit(lambda v, t: tj.jvp(tj.grad(loss), (v,), (t,))[1])
    for _ in range(steps):
        residual = slope(vector)
        step, direction = 0 * vector, residual
        for _ in range(len(vector)):  # conjugate gradients
            along = product(vector, direction)
            length = (residual @ residual) / (direction @ along + 1e-300)
            step, after = step + length * direction, residual - length * along
            direction = after + (after @ after) / (residual @ residual + 1e-300) * direction
            residual = after
        vector = vector - step
    return back(vector)
