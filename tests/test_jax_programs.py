"""Programs as one writes them for JAX: against derivatives by hand, and finite differences."""

from typing import Any

import numpy as np

import tests.jax_programs as programs
import tracejit as tj

RNG = np.random.default_rng(0)


def layers() -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [{"w": rng.standard_normal((a, b)) * 0.5, "b": np.zeros(b)} for a, b in ((3, 5), (5, 4), (4, 1))]


def by_hand(params: list[dict[str, Any]], x: Any, y: Any) -> tuple[float, list[dict[str, Any]]]:
    """The loss of the network and its gradient, by the chain rule."""
    inputs = [x]
    for layer in params[:-1]:
        inputs.append(np.tanh(inputs[-1] @ layer["w"] + layer["b"]))
    error = (inputs[-1] @ params[-1]["w"] + params[-1]["b"])[:, 0] - y
    ct = 2 * error[:, None] / len(y)
    slopes: list[dict[str, Any]] = []
    for h, layer in zip(inputs[::-1], params[::-1], strict=True):
        slopes.append({"w": h.T @ ct, "b": ct.sum(axis=0)})
        ct = (ct @ layer["w"].T) * (1 - h**2)
    return float(np.mean(error**2)), slopes[::-1]


def test_a_network_is_trained_by_adam():
    x = RNG.standard_normal((32, 3))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    losses, params = programs.train(layers(), x, y, 20)
    mine = layers()
    first = [{k: 0 * v for k, v in layer.items()} for layer in mine]
    second = [{k: 0 * v for k, v in layer.items()} for layer in mine]
    for count in range(1, 21):
        loss, slopes = by_hand(mine, x, y)
        np.testing.assert_allclose(losses[count - 1], loss, rtol=1e-9)
        for p, m, v, g in zip(mine, first, second, slopes, strict=True):
            for k in p:
                m[k] = 0.9 * m[k] + (1 - 0.9) * g[k]
                v[k] = 0.999 * v[k] + (1 - 0.999) * g[k] ** 2
                p[k] = p[k] - 0.01 * (m[k] / (1 - 0.9**count)) / (np.sqrt(v[k] / (1 - 0.999**count)) + 1e-8)
    assert losses[-1] < losses[0]
    for got, want in zip(params, mine, strict=True):
        for k in want:
            np.testing.assert_allclose(got[k], want[k], rtol=1e-7, atol=1e-9)


def test_gradients_are_clipped_on_their_way_back():
    w, xs = RNG.standard_normal((3, 3)), RNG.standard_normal((6, 3))
    states = [np.zeros(3)]
    for x in xs:
        states.append(np.tanh(w @ states[-1] + x))
    want, ct = np.zeros((3, 3)), np.zeros(3)
    for before, h in zip(states[-2::-1], states[:0:-1], strict=True):
        inside = np.clip(ct + 2 * h, -0.3, 0.3) * (1 - h**2)
        want += np.outer(inside, before)
        ct = w.T @ inside
    for made in (tj.grad(programs.recurrent_loss), tj.jit(tj.grad(programs.recurrent_loss), static_argnums=2)):
        np.testing.assert_allclose(made(w, xs, 0.3), want, rtol=1e-12)
    free = tj.grad(programs.recurrent_loss)(w, xs, 1e9)
    plain = tj.grad(lambda w: np.sum(_recurrent(w, xs)))(w)
    np.testing.assert_allclose(free, plain, rtol=1e-12)


def _recurrent(w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(w @ h + x)
        return h, np.sum(h**2)

    return tj.lax.scan(step, np.zeros(3), xs)[1]


def test_a_checkpointed_loop_has_the_same_derivatives():
    u = RNG.standard_normal(8)
    for made in (tj.grad, lambda f, n: tj.jit(tj.grad(f, n), static_argnums=(2, 3))):
        again, plain = (made(programs.heat_loss, (0, 1))(u, 0.1, 40, a) for a in (True, False))
        np.testing.assert_allclose(again[0], plain[0], rtol=1e-12)
        np.testing.assert_allclose(again[1], plain[1], rtol=1e-12)
    h = 1e-6
    ahead, behind = (programs.heat_loss(u, 0.1 + s, 40, True) for s in (h, -h))
    np.testing.assert_allclose(plain[1], (ahead - behind) / (2 * h), rtol=1e-6)


def test_the_rate_of_an_equation_is_found():
    true = {"rate": 1.2, "capacity": 2.0}
    start = np.array([0.1, 0.5])
    seen = programs.growth(true, start, 20)
    times = 0.1 * np.arange(1, 21)[:, None]
    exact = 2.0 / (1 + (2.0 / start - 1) * np.exp(-1.2 * times))
    np.testing.assert_allclose(seen, exact, rtol=1e-5)
    found = programs.fit({"rate": 0.8, "capacity": 1.5}, start, seen, 400, 0.02)
    np.testing.assert_allclose([found["rate"], found["capacity"]], [1.2, 2.0], rtol=1e-3)
    slope = tj.jit(tj.grad(programs.misfit))({"rate": 0.8, "capacity": 1.5}, start, seen)
    for k in ("rate", "capacity"):
        ends = [programs.misfit({"rate": 0.8, "capacity": 1.5, k: v}, start, seen) for v in _around(k)]
        np.testing.assert_allclose(slope[k], (ends[1] - ends[0]) / 2e-6, rtol=1e-6)


def _around(k: str) -> tuple[float, float]:
    at = {"rate": 0.8, "capacity": 1.5}[k]
    return at - 1e-6, at + 1e-6


def test_newtons_method_ends_where_the_gradient_is_zero():
    x = RNG.standard_normal((60, 3))
    y = (x @ np.array([1.0, -2.0, 0.5]) + 0.3 + RNG.standard_normal(60) > 0).astype(float)
    found = programs.newton({"w": np.zeros(3), "b": 0.0}, x, y, 8)
    p = 1 / (1 + np.exp(-(x @ found["w"] + found["b"])))
    np.testing.assert_allclose(x.T @ (p - y) / 60 + 0.1 * found["w"], np.zeros(3), atol=1e-10)
    np.testing.assert_allclose(np.mean(p - y), 0, atol=1e-10)
