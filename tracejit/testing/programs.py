"""Whole programs, their derivatives and batches, and functions that are called at many sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.api.autodiff import grad, jvp
from tracejit.api.vmap import vmap
from tracejit.testing.case import Case

__all__ = ["PROGRAMS"]

_RNG = np.random.default_rng(11)


def _normal(*shape: int, dtype: str = "f4") -> Any:
    return _RNG.standard_normal(shape).astype(dtype)


def _mandelbrot(re: Any, im: Any) -> Any:
    x = y = inside = np.zeros((len(im), len(re)), re.dtype)
    for _ in range(20):
        x, y = x * x - y * y + re, 2 * x * y + im[:, None]
        inside = inside + (x * x + y * y < 4)
        x, y = np.clip(x, -4, 4), np.clip(y, -4, 4)
    return inside


def _bodies(place: Any, velocity: Any, mass: Any) -> Any:
    for _ in range(4):
        apart = place[None] - place[:, None]
        distance = np.sqrt((apart**2).sum(-1) + 0.01)
        velocity = velocity + 0.01 * (apart * (mass / distance**3)[..., None]).sum(1)
        place = place + 0.01 * velocity
    return place, velocity


def _means(x: Any, centres: Any) -> Any:
    for _ in range(3):
        nearest = ((x[:, None] - centres[None]) ** 2).sum(-1).argmin(1)
        one = nearest[:, None] == np.arange(len(centres))[None]
        centres = (one[..., None] * x[:, None]).sum(0) / np.maximum(one.sum(0), 1)[:, None]
    return centres


def _heat(u: Any) -> Any:
    for _ in range(10):
        u[1:-1, 1:-1, 1:-1] = u[1:-1, 1:-1, 1:-1] + 0.1 * (
            u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
            + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:] - 6 * u[1:-1, 1:-1, 1:-1]
        )  # fmt: skip
    return u


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layer_norm(x: Any, scale: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def _network(x: Any, v: Any, w: Any) -> Any:
    return np.tanh(x @ v) @ w


def _loss(w: Any, x: Any, y: Any) -> Any:
    return np.mean(np.logaddexp(0.0, -y * (x @ w)))


def _gradient_of_loss(w: Any, x: Any, y: Any) -> Any:
    return x.T @ (-y / (1 + np.exp(y * (x @ w)))) / len(y)


def _lstm(x: Any, w: Any, u: Any) -> Any:
    h = c = np.zeros((x.shape[1], u.shape[0]), x.dtype)
    for t in range(len(x)):
        gates = x[t] @ w + h @ u
        i, f, o, g = (gates[:, k * u.shape[0] : (k + 1) * u.shape[0]] for k in range(4))
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    return h


def _sparse_product(values: Any, columns: Any, starts: Any, x: Any) -> Any:
    out = np.zeros(len(starts) - 1, x.dtype)
    for row in range(len(starts) - 1):
        for k in range(starts[row], starts[row + 1]):
            out[row] += values[k] * x[columns[k]]
    return out


def _collatz(start: Any) -> Any:
    n, steps = start, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps = steps + 1
    return steps


def _newton(x: Any) -> Any:
    y = x
    for _ in range(60):
        step = (y * y - x) / (2 * y)
        y = y - step
        if np.abs(step).max() < 1e-9:
            break
    return y


def _jvp(f: Any) -> Any:
    return lambda x, t: jvp(f, (x,), (t,))[1]


_ROWS = np.array([0, 2, 2, 5, 9, 10])
_COLUMNS = np.array([1, 4, 0, 2, 3, 1, 2, 3, 4, 0])
_LABELS = np.where(_normal(50) > 0, 1.0, -1.0).astype("f4")
_LENGTHS = (1, 2, 3, 5, 8, 17, 64, 100, 257, 1000)

PROGRAMS = [
    Case("4", "mandelbrot", _mandelbrot, [(np.linspace(-2, 1, 60), np.linspace(-1, 1, 40))]),
    Case("4", "n_body", _bodies, [(_normal(40, 3), _normal(40, 3), np.abs(_normal(40)))], 1e-4),
    Case("4", "k_means", _means, [(_normal(300, 4, dtype="f8"), _normal(5, 4, dtype="f8"))], 1e-10),
    Case("4", "heat_3d", _heat, [(_normal(12, 13, 14),)], 1e-5),
    Case("4", "softmax", _softmax, [(_normal(65, 130),), (_normal(3, 1000),)], 1e-5),
    Case("4", "layer_norm", _layer_norm, [(_normal(65, 130), _normal(130))], 1e-5),
    Case("4", "network", _network, [(_normal(33, 20), _normal(20, 30), _normal(30, 10))], 1e-5),
    Case("4", "lstm", _lstm, [(_normal(6, 4, 5), _normal(5, 28), _normal(7, 28))], 1e-4),
    Case("4", "sparse_product", _sparse_product, [(_normal(10), _COLUMNS, _ROWS, _normal(5))], 1e-5),
    Case("4", "fourier", lambda x: np.fft.fft(x), [(_normal(64, dtype="f8"),)], 1e-12),
    Case("4", "collatz", _collatz, [(27,), (97,)]),
    Case("4", "newton", _newton, [(np.abs(_normal(50, dtype="f8")) + 1,)], 1e-12),
    Case("derivatives", "gradient_of_loss", grad(_loss), [(_normal(7), _normal(50, 7), _LABELS)], 1e-4, _gradient_of_loss),
    Case("derivatives", "gradient_of_a_stencil", grad(lambda u: (u[1:] * u[:-1]).sum()), [(_normal(60),)], 1e-5,
         lambda u: np.concatenate([u[1:2], u[2:] + u[:-2], u[-2:-1]])),
    Case("derivatives", "batch_of_sorts", vmap(np.sort), [(_normal(9, 33),)], 0, lambda x: np.sort(x, 1)),
    Case("derivatives", "batch_of_loops", vmap(_collatz), [(np.arange(1, 40),)], 0,
         lambda n: np.array([_collatz(int(k)) for k in n])),
    Case("derivatives", "jvp_of_tanh", _jvp(np.tanh), [(_normal(70), _normal(70))], 1e-5,
         lambda x, t: t / np.cosh(x) ** 2),
    Case("sizes", "elements_and_sums", lambda x: (x * 2 - 1, x.sum(), np.cumsum(x)),
         [(np.arange(1.0, n + 1),) for n in _LENGTHS], 1e-12),
    Case("sizes", "products", lambda a, b: a @ b, [(_normal(n, n + 1, dtype="f8"), _normal(n + 1, 3, dtype="f8"))
         for n in (1, 2, 3, 7, 16, 33, 70)], 1e-11),
]  # fmt: skip
