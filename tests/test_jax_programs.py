"""Programs as one writes them for JAX: against derivatives by hand, and finite differences; those of
`examples/jax_programs` against JAX's numbers too, which 0.10.2 gave on a CPU.
"""

import functools
from typing import Any

import numpy as np
import pytest

import tests.jax_programs as programs
import tracejit as tj
from examples.jax_programs.__main__ import FOLDER, NAMES, load

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


# -- the programs of `examples/jax_programs` ---------------------------------------------------------------------------
BY_JAX: dict[str, dict[str, Any]] = {
    "autoencoder": {
        "first": 25.870857075,
        "last": 18.482104534,
        "bound": -18.186428476,
        "likelihood": -17.8415349262,
        "slope": 2.01706010135,
    },
    "gaussian_process": {
        "found": [-0.00395896129429, -0.0873478906058, -2.52824727353],
        "value": -6.77241653679,
        "spread": [0.379516348831, 0.175091328204, 0.177154235019],
        "mean": [-0.887968207703, 0.931259190081, -0.143586232168],
        "deviation": [0.0373958234003, 0.0376352027828, 0.879270824272],
        "centre": 0.0256567772144,
        "influence": [0.0295320218492, 0.00898968664051, 0.0012125056432, 0.00802322057653, 0.0158261098154],
        "by_width": -0.156860632451,
    },
    "language_model": {
        "first": 3.56260573733,
        "tenth": 2.35408777702,
        "last": 0.652852937308,
        "written": [7, 16, 24, 15, 0, 7, 16, 25, 0, 7, 16, 25],
        "count": 15072,
    },
    "mlp_classifier": {
        "before": 1.15233449509,
        "after": 0.0353033576567,
        "accuracy": 1.0,
        "norm": 13.8842152231,
        "last": 0.0346188541027,
        "steps": 120,
    },
    "molecules": {
        "before": -5.77044508806,
        "after": -5.77049559761,
        "lowest": -11.4760134872,
        "frequencies": [15.4243293423, 15.7232838573, 15.7979949978],
        "growth": 2.15367024702,
        "nudge": [-0.552759486056, -0.279164974525],
        "radius": 1.00283675066,
    },
}


@functools.cache
def scope(name: str) -> dict[str, Any]:
    return load(name)


@pytest.mark.parametrize("name", BY_JAX)
def test_a_program_for_jax_has_jax_s_numbers(name: str):
    found = scope(name)["main"]()
    assert found.keys() == BY_JAX[name].keys()
    for key, want in BY_JAX[name].items():
        np.testing.assert_allclose(found[key], want, rtol=1e-8, atol=1e-9, err_msg=key)


def test_every_program_is_compared_with_jax():
    assert sorted(BY_JAX) == [n for n in NAMES if not n.startswith("_")]


def test_only_the_import_lines_of_a_program_name_a_package():
    for name in BY_JAX:
        with pytest.raises(ModuleNotFoundError, match="no_such_package"):
            load(name, "no_such_package")
        assert "tracejit" not in (FOLDER / f"{name}.py").read_text().partition("jax.config")[2]


def test_the_classifier_s_gradient_is_that_of_its_loss():
    p = scope("mlp_classifier")
    x, labels = p["spirals"](tj.random.key(0), 5)
    params = p["init_params"](tj.random.key(1), [2, 4, 3])
    slope = tj.grad(p["loss"], has_aux=True)(params, x, labels, 3, 1e-2)[0]
    weights = [{k: np.array(v) for k, v in layer.items()} for layer in params]

    def value(params: Any) -> float:
        hidden = np.maximum(np.asarray(x) @ params[0]["w"] + params[0]["b"], 0)
        logits = hidden @ params[1]["w"] + params[1]["b"]
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        penalty = sum((layer["w"] ** 2).sum() for layer in params)
        return -logs[np.arange(15), np.asarray(labels)].mean() + 1e-2 * penalty

    np.testing.assert_allclose(p["loss"](params, x, labels, 3, 1e-2)[0], value(weights), rtol=1e-12)
    for n, k, at in ((0, "w", (1, 2)), (0, "b", (1,)), (1, "w", (3, 0)), (1, "b", (2,))):
        ends = []
        for h in (1e-6, -1e-6):
            moved = [{k: v.copy() for k, v in layer.items()} for layer in weights]
            moved[n][k][at] += h
            ends.append(value(moved))
        np.testing.assert_allclose(slope[n][k][at], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-9)


def test_the_language_model_is_its_formula():
    p = scope("language_model")
    params = tj.tree.map(np.asarray, p["init"](tj.random.key(0)))
    tokens = np.asarray(p["encode"]("the quick brown "))
    x = params["embed"][tokens] + params["place"]

    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    for n in range(p["LAYERS"]):
        layer = {k: v[n] for k, v in params["layers"].items()}
        q, k, v = np.split(norm(x) @ layer["qkv"], 3, axis=-1)
        heads = []
        for h in range(p["HEADS"]):
            part = slice(8 * h, 8 * h + 8)
            scores = np.where(np.tri(16, dtype=bool), np.exp(q[:, part] @ k[:, part].T / np.sqrt(8)), 0)
            heads.append(scores / scores.sum(-1, keepdims=True) @ v[:, part])
        x = x + np.concatenate(heads, axis=-1) @ layer["out"]
        hidden = norm(x) @ layer["up"]
        hidden = hidden * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3))) / 2
        x = x + hidden @ layer["down"]
    np.testing.assert_allclose(p["model"](params, tokens), x @ params["embed"].T, rtol=1e-10, atol=1e-12)


def test_the_autoencoder_s_gradient_is_clipped_where_it_says():
    p = scope("autoencoder")
    x = p["bars"](tj.random.key(0), 4)
    assert np.asarray(x).sum(axis=1).tolist() == [6.0] * 4
    params = p["init"](tj.random.key(1))

    def bound(params: Any) -> Any:
        mean, log_scale = np.split(np.asarray(p["mlp"](params["encoder"], x)), 2, axis=-1)
        keys = tj.random.split(tj.random.key(2), 4)
        noise = np.stack([tj.random.normal(k, (2,)) for k in keys])
        logits = np.asarray(p["mlp"](params["decoder"], mean + np.exp(log_scale) * noise))
        likelihood = (np.asarray(x) * logits - np.log1p(np.exp(logits))).sum(axis=-1)
        return -(likelihood - 0.5 * (np.exp(2 * log_scale) + mean**2 - 1 - 2 * log_scale).sum(axis=-1)).mean()

    np.testing.assert_allclose(p["loss"](params, tj.random.key(2), x), bound(params), rtol=1e-12)
    slope = tj.grad(p["clip_gradient"])(3.0, 0.1)
    assert slope == 0.1


def test_the_forces_between_atoms_are_lennard_and_jones_s():
    p = scope("molecules")
    a = np.random.default_rng(0).uniform(-2, 2, (4, 2))
    got = np.asarray(p["force"](a))
    for n in range(4):
        for d in range(2):
            ends = []
            for h in (1e-6, -1e-6):
                moved = a.copy()
                moved[n, d] += h
                apart = np.sqrt(((moved[:, None] - moved[None]) ** 2).sum(-1))[np.triu_indices(4, 1)]
                taper = np.clip(1 - apart**2 / 9, 0, 1) ** 2
                ends.append((4 * (apart**-12 - apart**-6) * taper).sum() + 0.05 * (moved**2).sum())
            np.testing.assert_allclose(got[n, d], -(ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-6)


def test_the_process_is_gauss_s_and_its_root_moves_with_the_data():
    p = scope("gaussian_process")
    rng = np.random.default_rng(0)
    x, y = np.sort(rng.uniform(-2, 2, 8)), rng.normal(size=8)
    theta = {"height": 0.3, "length": -0.2, "noise": -1.5}
    k = np.exp(0.6 - 0.5 * ((x[:, None] - x) / np.exp(-0.2)) ** 2) + np.exp(-3.0) * np.eye(8)
    want = 0.5 * y @ np.linalg.solve(k, y) + 0.5 * np.linalg.slogdet(k)[1] + 4 * np.log(2 * np.pi)
    np.testing.assert_allclose(p["negative_log_likelihood"](theta, x, y), want, rtol=1e-10)

    found, slope = tj.value_and_grad(p["robust_mean"])(y, 0.4)
    np.testing.assert_allclose(np.tanh((y - found) / 0.4).sum(), 0, atol=1e-10)
    steep = 1 / np.cosh((y - found) / 0.4) ** 2
    np.testing.assert_allclose(slope, steep / steep.sum(), rtol=1e-9)
