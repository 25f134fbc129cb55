"""A transformer learns to continue text, character by character: attention over heads, layers in a scan."""

from functools import partial
from typing import Any

import tracejit as jax
import tracejit.numpy as jnp
from tracejit import lax, nn, random, tree_util

jax.config.update("jax_enable_x64", True)

TEXT = "the quick brown fox jumps over the lazy dog while the lazy dog sleeps. "
VOCABULARY = sorted(set(TEXT))
CONTEXT, WIDTH, HEADS, LAYERS = 16, 24, 3, 2


def encode(text: str) -> Any:
    return jnp.array([VOCABULARY.index(c) for c in text])


def init(key: Any) -> dict[str, Any]:
    """Parameters; those of all layers are stacked, so that `scan` goes over them."""
    embed_key, place_key, layer_key = random.split(key, 3)
    dense = nn.initializers.lecun_normal(dtype=jnp.float64)

    def layer(key: Any) -> dict[str, Any]:
        k1, k2, k3, k4 = random.split(key, 4)
        return {
            "qkv": dense(k1, (WIDTH, 3 * WIDTH)), "out": dense(k2, (WIDTH, WIDTH)),
            "up": dense(k3, (WIDTH, 4 * WIDTH)), "down": dense(k4, (4 * WIDTH, WIDTH)),
            "scale": jnp.ones((2, WIDTH)), "shift": jnp.zeros((2, WIDTH)),
        }  # fmt: skip

    return {
        "embed": nn.initializers.normal(0.1)(embed_key, (len(VOCABULARY), WIDTH), jnp.float64),
        "place": nn.initializers.normal(0.1)(place_key, (CONTEXT, WIDTH), jnp.float64),
        "layers": jax.vmap(layer)(random.split(layer_key, LAYERS)),
    }


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return scale * (x - mean) * lax.rsqrt(variance + 1e-5) + shift


def head(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of one head.   [time, width]"""
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape, dtype=bool))
    return nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1) @ v


def attention(x: Any, params: dict[str, Any]) -> Any:
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
    split = [jnp.reshape(a, (a.shape[0], HEADS, -1)) for a in (q, k, v)]
    mixed = jax.vmap(head, in_axes=1, out_axes=1)(*split)
    return mixed.reshape(x.shape) @ params["out"]


def model(params: dict[str, Any], tokens: Any) -> Any:
    """Logits of the next token at every place.   int[time] -> float[time, vocabulary]"""

    @jax.checkpoint
    def block(x: Any, layer: dict[str, Any]) -> Any:
        x = x + attention(layer_norm(x, layer["scale"][0], layer["shift"][0]), layer)
        hidden = nn.gelu(layer_norm(x, layer["scale"][1], layer["shift"][1]) @ layer["up"])
        return x + hidden @ layer["down"]

    x = params["embed"][tokens] + params["place"][: tokens.shape[0]]
    x, _ = lax.scan(lambda x, layer: (block(x, layer), None), x, params["layers"])
    return x @ params["embed"].T


def loss(params: dict[str, Any], batch: Any) -> Any:
    logits = jax.vmap(partial(model, params))(batch[:, :-1])
    targets = nn.one_hot(batch[:, 1:], len(VOCABULARY))
    return -jnp.mean(jnp.sum(targets * nn.log_softmax(logits, axis=-1), axis=-1))


@jax.jit
def train_step(params: Any, momentum: Any, batch: Any) -> tuple[Any, Any, Any]:
    value, grads = jax.value_and_grad(loss)(params, batch)
    norm = jnp.sqrt(tree_util.tree_reduce(lambda total, g: total + jnp.sum(g**2), grads, 0.0))
    grads = tree_util.tree_map(lambda g: g * jnp.minimum(1.0, 1.0 / norm), grads)
    momentum = tree_util.tree_map(lambda m, g: 0.9 * m + g, momentum, grads)
    return tree_util.tree_map(lambda p, m: p - 0.1 * m, params, momentum), momentum, value


@jax.jit
def generate(params: Any, start: Any) -> Any:
    """The window after each of 12 greedy steps."""

    def step(window: Any, _: Any) -> tuple[Any, Any]:
        token = jnp.argmax(model(params, window)[-1])
        return jnp.concatenate([window[1:], token[None]]), token

    return lax.scan(step, start, None, length=12)[1]


def main() -> dict[str, Any]:
    init_key, data_key = random.split(random.PRNGKey(1))
    params = init(init_key)
    momentum = tree_util.tree_map(jnp.zeros_like, params)
    text = encode(TEXT * 2)
    losses = []
    for step in range(40):
        starts = random.randint(random.fold_in(data_key, step), (8,), 0, text.shape[0] - CONTEXT)
        batch = jax.vmap(lambda at: lax.dynamic_slice(text, (at,), (CONTEXT + 1,)))(starts)
        params, momentum, value = train_step(params, momentum, batch)
        losses.append(value)
    written = generate(params, encode(TEXT[:CONTEXT]))
    return {
        "first": losses[0], "tenth": losses[9], "last": losses[-1], "written": [int(t) for t in written],
        "count": sum(p.size for p in tree_util.tree_leaves(params)),
    }  # fmt: skip


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: {value}")
