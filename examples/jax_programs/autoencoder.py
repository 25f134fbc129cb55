"""A variational autoencoder of small pictures of bars: reparameterised samples, a bound on the likelihood, and an
estimate of the likelihood itself by importance sampling.
"""

from typing import Any

import tracejit as jax
import tracejit.numpy as jnp
from tracejit import nn, random, tree_util
from tracejit.scipy.special import logsumexp
from tracejit.scipy.stats import norm

jax.config.update("jax_enable_x64", True)

SIDE, HIDDEN, LATENT = 6, 20, 2


@jax.custom_vjp
def clip_gradient(x: Any, most: Any) -> Any:
    """x itself; no element of its gradient is greater than `most`."""
    return x


def clip_gradient_fwd(x: Any, most: Any) -> tuple[Any, Any]:
    return x, most


def clip_gradient_bwd(most: Any, cotangent: Any) -> tuple[Any, None]:
    return jnp.clip(cotangent, -most, most), None


clip_gradient.defvjp(clip_gradient_fwd, clip_gradient_bwd)


def bars(key: Any, count: int) -> Any:
    """Binary pictures with one bar, upright or not.   float[count, SIDE * SIDE]"""
    place_key, turn_key = random.split(key)
    places = random.randint(place_key, (count,), 0, SIDE)
    turned = random.bernoulli(turn_key, 0.5, (count,))
    upright = jnp.broadcast_to(nn.one_hot(places, SIDE, dtype=jnp.float64)[:, None, :], (count, SIDE, SIDE))
    pictures = jnp.where(turned[:, None, None], upright.transpose(0, 2, 1), upright)
    return pictures.reshape(count, -1)


def dense(key: Any, n_in: int, n_out: int) -> dict[str, Any]:
    return {"w": nn.initializers.xavier_normal()(key, (n_in, n_out), jnp.float64), "b": jnp.zeros(n_out)}


def init(key: Any) -> dict[str, Any]:
    k1, k2, k3, k4 = random.split(key, 4)
    pixels = SIDE * SIDE
    return {
        "encoder": (dense(k1, pixels, HIDDEN), dense(k2, HIDDEN, 2 * LATENT)),
        "decoder": (dense(k3, LATENT, HIDDEN), dense(k4, HIDDEN, pixels)),
    }


def mlp(layers: Any, x: Any) -> Any:
    first, second = layers
    return jnp.tanh(x @ first["w"] + first["b"]) @ second["w"] + second["b"]


def encode(params: Any, x: Any) -> tuple[Any, Any]:
    mean, log_scale = jnp.split(mlp(params["encoder"], x), 2, axis=-1)
    return mean, clip_gradient(log_scale, 0.1)


def log_bernoulli(x: Any, logits: Any) -> Any:
    return jnp.sum(x * nn.log_sigmoid(logits) + (1 - x) * nn.log_sigmoid(-logits), axis=-1)


def elbo(params: Any, key: Any, x: Any) -> Any:
    """The bound for one picture, of one sample."""
    mean, log_scale = encode(params, x)
    z = mean + jnp.exp(log_scale) * random.normal(key, mean.shape, jnp.float64)
    divergence = 0.5 * jnp.sum(jnp.exp(2 * log_scale) + mean**2 - 1 - 2 * log_scale)
    return log_bernoulli(x, mlp(params["decoder"], z)) - divergence


def log_likelihood(params: Any, key: Any, x: Any, samples: int) -> Any:
    """Of one picture: the logarithm of the mean weight of samples of the posterior."""
    mean, log_scale = encode(params, x)
    scale = jnp.exp(log_scale)
    z = mean + scale * random.normal(key, (samples, LATENT), jnp.float64)
    inside = log_bernoulli(x, mlp(params["decoder"], z)) + norm.logpdf(z).sum(axis=-1)
    return logsumexp(inside - norm.logpdf(z, mean, scale).sum(axis=-1)) - jnp.log(samples)


def loss(params: Any, key: Any, x: Any) -> Any:
    keys = random.split(key, x.shape[0])
    return -jnp.mean(jax.vmap(elbo, in_axes=(None, 0, 0))(params, keys, x))


@jax.jit
def train(params: Any, key: Any, x: Any) -> tuple[Any, Any]:
    """Forty steps of RMSProp, as one program."""

    def step(state: Any, key: Any) -> tuple[Any, Any]:
        params, squares = state
        value, grads = jax.value_and_grad(loss)(params, key, x)
        squares = tree_util.tree_map(lambda s, g: 0.9 * s + 0.1 * g**2, squares, grads)
        params = tree_util.tree_map(lambda p, s, g: p - 0.01 * g / jnp.sqrt(s + 1e-6), params, squares, grads)
        return (params, squares), value

    squares = tree_util.tree_map(jnp.ones_like, params)
    (params, _), losses = jax.lax.scan(step, (params, squares), random.split(key, 40))
    return params, losses


def main() -> dict[str, Any]:
    data_key, init_key, train_key, test_key = random.split(random.key(2), 4)
    x = bars(data_key, 24)
    params, losses = train(init(init_key), train_key, x)
    estimate = jax.jit(lambda params, keys, x: jax.vmap(lambda key, x: log_likelihood(params, key, x, 50))(keys, x))
    likelihood = estimate(params, random.split(test_key, 24), x)
    grads = jax.grad(loss)(params, test_key, x)
    return {
        "first": losses[0], "last": losses[-1], "bound": -loss(params, test_key, x), "likelihood": likelihood.mean(),
        "slope": jnp.sqrt(sum(jnp.sum(g**2) for g in tree_util.tree_leaves(grads))),
    }  # fmt: skip


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: {value}")
