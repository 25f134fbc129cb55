"""A multilayer perceptron tells spiral arms apart: initializers, minibatches, and Adam over trees of parameters."""

from functools import partial
from typing import Any, NamedTuple

import tracejit as jax
import tracejit.numpy as jnp
from tracejit import nn, random, tree_util

jax.config.update("jax_enable_x64", True)


class Adam(NamedTuple):
    """The state of the optimiser: running means of the gradients and of their squares, and how many there were."""

    mean: Any
    square: Any
    count: Any


def spirals(key: Any, per_arm: int, arms: int = 3) -> tuple[Any, Any]:
    """Points of spiral arms with noise, and which arm each belongs to."""
    radius = jnp.linspace(0.1, 1.0, per_arm)
    label = jnp.repeat(jnp.arange(arms), per_arm)
    angle = jnp.tile(4.0 * radius, arms) + label * (2 * jnp.pi / arms)
    points = jnp.tile(radius, arms)[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    return points + 0.02 * random.normal(key, points.shape), label


def init_params(key: Any, sizes: list[int]) -> list[dict[str, Any]]:
    """Weights of He's and Glorot's distributions, and zeros."""
    hidden, last = nn.initializers.he_normal(), nn.initializers.glorot_uniform()
    keys = random.split(key, len(sizes) - 1)
    params: list[dict[str, Any]] = []
    for k, n_in, n_out in zip(keys, sizes[:-1], sizes[1:], strict=True):
        make = last if n_out == sizes[-1] else hidden
        params.append({"w": make(k, (n_in, n_out), jnp.float64), "b": nn.initializers.zeros(k, (n_out,), jnp.float64)})
    return params


def logits_of(params: list[dict[str, Any]], x: Any) -> Any:
    for layer in params[:-1]:
        x = nn.relu(jnp.dot(x, layer["w"]) + layer["b"])
    return jnp.dot(x, params[-1]["w"]) + params[-1]["b"]


def loss(params: Any, x: Any, labels: Any, classes: int, decay: float) -> tuple[Any, Any]:
    """Cross entropy with a penalty on weights, and which part of the labels is found."""
    logits = logits_of(params, x)
    entropy = -jnp.mean(jnp.sum(nn.one_hot(labels, classes) * nn.log_softmax(logits), axis=-1))
    penalty = sum(jnp.sum(jnp.square(layer["w"])) for layer in params)
    return entropy + decay * penalty, jnp.mean(jnp.argmax(logits, axis=-1) == labels)


def init_adam(params: Any) -> Adam:
    zeros = tree_util.tree_map(jnp.zeros_like, params)
    return Adam(zeros, tree_util.tree_map(jnp.zeros_like, params), jnp.zeros((), jnp.int32))


@partial(jax.jit, static_argnums=(4, 5), donate_argnums=(0, 1))
def update(params: Any, state: Adam, x: Any, labels: Any, classes: int, rate: float) -> tuple[Any, Adam, Any]:
    """One step of Adam."""
    (value, accuracy), grads = jax.value_and_grad(loss, has_aux=True)(params, x, labels, classes, 1e-4)
    count = state.count + 1
    mean = tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
    square = tree_util.tree_map(lambda v, g: 0.99 * v + 0.01 * g * g, state.square, grads)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return p - rate * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.99**count)) + 1e-8)

    params = tree_util.tree_map(moved, params, mean, square)
    return params, Adam(mean, square, count), {"loss": value, "accuracy": accuracy}


def main() -> dict[str, Any]:
    data_key, init_key, order_key = random.split(random.PRNGKey(0), 3)
    x, labels = spirals(data_key, 40)
    params = init_params(init_key, [2, 16, 16, 3])
    state = init_adam(params)
    before, _ = jax.jit(loss, static_argnums=(3, 4))(params, x, labels, 3, 1e-4)
    for epoch in range(30):
        order = random.permutation(random.fold_in(order_key, epoch), x.shape[0])
        for batch in jnp.split(order, 4):
            params, state, metrics = update(params, state, x[batch], labels[batch], 3, 0.02)
    after, accuracy = loss(params, x, labels, 3, 1e-4)
    norm = jnp.sqrt(sum(jnp.vdot(p, p) for p in tree_util.tree_leaves(params)))
    return {
        "before": before, "after": after, "accuracy": accuracy, "norm": norm, "last": metrics["loss"],
        "steps": state.count,
    }  # fmt: skip


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: {value}")
