"""The functions of `tracejit.nn` against their formulae in NumPy, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError

nn = tj.nn


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (nn.relu, lambda x: np.maximum(x, 0)),
    "relu6": (nn.relu6, lambda x: np.clip(x, 0, 6)),
    "sigmoid": (nn.sigmoid, sigmoid),
    "softplus": (nn.softplus, softplus),
    "sparse_plus": (nn.sparse_plus, lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4))),
    "sparse_sigmoid": (nn.sparse_sigmoid, lambda x: np.clip((x + 1) / 2, 0, 1)),
    "soft_sign": (nn.soft_sign, lambda x: x / (1 + np.abs(x))),
    "silu": (nn.silu, lambda x: x * sigmoid(x)),
    "log_sigmoid": (nn.log_sigmoid, lambda x: -softplus(-x)),
    "elu": (lambda x: nn.elu(x, 0.75), lambda x: np.where(x > 0, x, 0.75 * np.expm1(np.minimum(x, 0)))),
    "celu": (lambda x: nn.celu(x, 0.75), lambda x: np.where(x > 0, x, 0.75 * np.expm1(np.minimum(x, 0) / 0.75))),
    "selu": (
        nn.selu,
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    ),
    "gelu": (nn.gelu, lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
    "exact gelu": (
        lambda x: nn.gelu(x, approximate=False),
        lambda x: x * np.vectorize(lambda y: math.erfc(-y / math.sqrt(2)), otypes=[float])(x) / 2,
    ),
    "leaky_relu": (nn.leaky_relu, lambda x: np.where(x >= 0, x, 0.01 * x)),
    "hard_tanh": (nn.hard_tanh, lambda x: np.clip(x, -1, 1)),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: np.clip(x + 3, 0, 6) / 6),
    "hard_silu": (nn.hard_silu, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "squareplus": (nn.squareplus, lambda x: (x + np.sqrt(x * x + 4)) / 2),
    "mish": (nn.mish, lambda x: x * np.tanh(softplus(x))),
    "tanh": (nn.tanh, np.tanh),
    "identity": (nn.identity, lambda x: x),
}
X = np.array([-30.0, -4.5, -2.75, -0.7, -1e-3, 0.3, 0.8, 2.5, 5.5, 7.5, 40.0])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_have_their_formulae(name: str):
    ours, formula = ACTIVATIONS[name]
    f = tj.jit(lambda x: ours(x))
    for size in (len(X), 0, 1, 2, 30):
        x = np.resize(X, size)
        np.testing.assert_allclose(ours(x), formula(x), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(f(x), formula(x), rtol=1e-12, atol=1e-14)
    got = f(X.astype(np.float32))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, formula(X), rtol=3e-6, atol=2e-6)
    assert f(X.astype(np.float16)).dtype == np.float16


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_have_derivatives_of_both_orders(name: str):
    ours, formula = ACTIVATIONS[name]
    x, h = X[1:-1], 1e-6
    slope = tj.vmap(tj.grad(lambda y: ours(y)))(x)
    np.testing.assert_allclose(slope, (formula(x + h) - formula(x - h)) / (2 * h), rtol=2e-6, atol=1e-8)
    second = tj.vmap(tj.grad(tj.grad(lambda y: ours(y))))(x)
    steps = np.asarray(tj.vmap(tj.grad(lambda y: ours(y)))(x + h)) - np.asarray(
        tj.vmap(tj.grad(lambda y: ours(y)))(x - h)
    )
    np.testing.assert_allclose(second, steps / (2 * h), rtol=2e-5, atol=1e-7)


def test_derivatives_at_the_corners_are_jax_s():
    assert tj.grad(nn.relu)(0.0) == 0
    assert tj.grad(nn.leaky_relu)(0.0) == 1
    assert tj.grad(nn.elu)(0.0) == 1
    assert tj.grad(nn.hard_tanh)(1.0) == 1
    assert tj.grad(nn.softplus)(0.0) == 0.5


def test_derivatives_do_not_overflow_far_out():
    for name in ("sigmoid", "softplus", "silu", "log_sigmoid", "mish", "gelu", "celu"):
        for x in (-1000.0, 1000.0):
            assert np.isfinite(tj.grad(ACTIVATIONS[name][0])(x)), (name, x)


def test_nan_is_handed_on():
    for name, (ours, _) in ACTIVATIONS.items():
        assert np.isnan(ours(np.array([np.nan]))).all(), name


def test_integers_stay_integers_where_nothing_is_rounded():
    x = np.array([-2, 0, 3], np.int32)
    for ours in (nn.relu, nn.hard_tanh, nn.identity):
        assert ours(x).dtype == np.int32
    assert nn.sigmoid(x).dtype == np.float64


def test_glu_multiplies_halves():
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    for axis, (a, b) in ((1, np.split(x, 2, 1)), (-2, np.split(x, 2, 1))):
        np.testing.assert_allclose(nn.glu(x, axis), a * sigmoid(b), rtol=1e-13)
    with pytest.raises(ValueError, match="axis -1 has 5 elements, which two do not divide"):
        nn.glu(x)


def softmax(x: Any, axis: Any, where: Any = True) -> Any:
    e = np.where(where, np.exp(x), 0)
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("axis", [-1, 0, 1, (0, 2), None])
def test_softmax_and_its_logarithm(axis: Any):
    x = np.random.default_rng(1).normal(size=(3, 4, 5))
    mask = np.random.default_rng(2).random((3, 4, 5)) < 0.7
    mask[0] = mask[:, 0] = mask[:, :, 0] = True
    np.testing.assert_allclose(nn.softmax(x, axis), softmax(x, axis), rtol=1e-13)
    np.testing.assert_allclose(tj.jit(lambda y: nn.log_softmax(y, axis))(x), np.log(softmax(x, axis)), rtol=1e-12)
    np.testing.assert_allclose(nn.softmax(x, axis, where=mask), softmax(x, axis, mask), rtol=1e-13)
    with np.errstate(divide="ignore"):
        want = np.log(softmax(x, axis, mask))
    np.testing.assert_allclose(nn.log_softmax(x, axis, where=mask), want, rtol=1e-12)


def test_softmax_of_large_infinite_and_no_numbers():
    np.testing.assert_array_equal(nn.softmax(np.array([1e300, 0.0])), [1, 0])
    np.testing.assert_array_equal(nn.softmax(np.array([-np.inf, 0.0])), [0, 1])
    assert nn.softmax(np.zeros((0, 3))).shape == (0, 3)
    assert nn.softmax(np.zeros((3, 0))).shape == (3, 0)
    assert nn.softmax(np.array([1, 2])).dtype == np.float64
    with pytest.raises(ValueError, match="axis 1 is out of bounds"):
        nn.softmax(np.zeros(3), axis=1)


def test_the_gradient_of_softmax_is_its_jacobian():
    x, w = np.array([0.3, -1.0, 2.0]), np.array([1.0, 2.0, -0.5])
    y = softmax(x, 0)
    want = (np.diag(y) - np.outer(y, y)) @ w
    np.testing.assert_allclose(tj.grad(lambda z: (nn.softmax(z) * w).sum())(x), want, rtol=1e-12)
    np.testing.assert_allclose(tj.jacfwd(nn.softmax)(x) @ w, want, rtol=1e-12)


def test_logsumexp_has_axes_factors_and_signs():
    rng = np.random.default_rng(3)
    x, b = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    np.testing.assert_allclose(nn.logsumexp(x), np.log(np.exp(x).sum()), rtol=1e-13)
    np.testing.assert_allclose(
        nn.logsumexp(x + 1000, axis=1, keepdims=True), 1000 + np.log(np.exp(x).sum(1, keepdims=True))
    )
    total = (b * np.exp(x)).sum(0)
    value, sign = nn.logsumexp(x, axis=0, b=b, return_sign=True)
    np.testing.assert_allclose(sign * np.exp(value), total, rtol=1e-12)
    with np.errstate(divide="ignore"):
        want = np.log(np.where(b > 0, np.exp(x), 0).sum(0))
    np.testing.assert_allclose(nn.logsumexp(x, axis=0, where=b > 0), want)
    assert nn.logsumexp(np.array([-np.inf, -np.inf])) == -np.inf
    assert nn.logsumexp(np.array([np.inf, 0.0])) == np.inf
    assert nn.logsumexp(np.zeros(0)) == -np.inf
    np.testing.assert_allclose(nn.logmeanexp(x, axis=1), np.log(np.exp(x).mean(1)), rtol=1e-12)
    slope = tj.grad(lambda y: nn.logsumexp(y))(x)
    np.testing.assert_allclose(slope, softmax(x, None), rtol=1e-12)


def test_log1mexp_does_not_cancel():
    for x in (1e-18, 0.5, 0.7, 30.0):
        want = math.log(-math.expm1(-x)) if x < 1 else math.log1p(-math.exp(-x))
        np.testing.assert_allclose(nn.log1mexp(x), want, rtol=1e-14)


def test_standardize():
    x = np.random.default_rng(4).normal(2, 3, size=(4, 6))
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.standardize(x), want, rtol=1e-10)
    np.testing.assert_allclose(nn.standardize(x, algorithm="twopass"), want, rtol=1e-12)
    np.testing.assert_allclose(nn.standardize(x, mean=1.0, variance=4.0, epsilon=0), (x - 1) / 2, rtol=1e-13)
    mask = x > 0
    rest = np.where(mask, x, np.nan)
    want = (x - np.nanmean(rest, 0)) / np.sqrt(np.nanvar(rest, 0) + 1e-5)
    np.testing.assert_allclose(nn.standardize(x, axis=0, where=mask), want, rtol=1e-9)
    with pytest.raises(NotImplementedError, match="algorithm is 'fast' or 'twopass'"):
        nn.standardize(x, algorithm="slow")


def test_one_hot():
    x = np.array([[0, 2], [-1, 5]])
    want = (x[..., None] == np.arange(4)).astype(np.float64)
    np.testing.assert_array_equal(nn.one_hot(x, 4), want)
    np.testing.assert_array_equal(nn.one_hot(x, 4, axis=0), np.moveaxis(want, -1, 0))
    got = tj.jit(lambda y: nn.one_hot(y, 4, dtype=np.int8, axis=1))(x.astype(np.int16))
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, np.moveaxis(want, -1, 1))
    np.testing.assert_array_equal(nn.one_hot(2, 3), [0, 0, 1])
    with pytest.raises(ValueError, match="is not an axis"):
        nn.one_hot(x, 4, axis=3)


def attention(q: Any, k: Any, v: Any, seen: Any, bias: Any = 0.0) -> Any:
    """One head at a time: q [B, T, N, H], k and v [B, S, K, H], seen and bias [B, N, T, S]."""
    heads, groups = q.shape[2], k.shape[2]
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for b in range(q.shape[0]):
        for n in range(heads):
            g = n // (heads // groups)
            logits = q[b, :, n] @ k[b, :, g].T / math.sqrt(q.shape[3]) + (bias[b, n] if np.ndim(bias) else bias)
            weights = softmax(np.where(seen[b, n], logits, -np.inf), -1)
            out[b, :, n] = weights @ v[b, :, g]
    return out


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_attention_is_softmax_of_products(groups: int):
    rng = np.random.default_rng(5)
    q, k, v = rng.normal(size=(2, 5, 4, 3)), rng.normal(size=(2, 6, groups, 3)), rng.normal(size=(2, 6, groups, 3))
    all_ = np.ones((2, 4, 5, 6), bool)
    at, of = np.arange(5)[:, None], np.arange(6)
    np.testing.assert_allclose(nn.dot_product_attention(q, k, v), attention(q, k, v, all_), rtol=1e-11)
    got = tj.jit(lambda *xs: nn.dot_product_attention(*xs, is_causal=True))(q, k, v)
    np.testing.assert_allclose(got, attention(q, k, v, all_ & (of <= at)), rtol=1e-11)
    bias, mask = rng.normal(size=(2, 4, 5, 6)), (rng.random((2, 4, 5, 6)) < 0.6) | (of == 0)
    got = nn.dot_product_attention(q, k, v, bias, mask)
    np.testing.assert_allclose(got, attention(q, k, v, mask, bias), rtol=1e-10)
    got = nn.dot_product_attention(q, k, v, key_value_seq_lengths=np.array([2, 6]))
    seen = all_ & (of < np.array([2, 6])[:, None, None, None])
    np.testing.assert_allclose(got, attention(q, k, v, seen), rtol=1e-11)
    got = nn.dot_product_attention(q, k, v, local_window_size=(1, 2))
    np.testing.assert_allclose(got, attention(q, k, v, all_ & (at - of <= 1) & (of - at <= 2)), rtol=1e-11)
    got = nn.dot_product_attention(q[0], k[0], v[0], scale=1 / math.sqrt(3))
    np.testing.assert_allclose(got, attention(q, k, v, all_)[0], rtol=1e-11)


def test_attention_has_a_gradient_and_refuses_what_does_not_fit():
    rng = np.random.default_rng(6)
    q, k, v, w = (rng.normal(size=(1, 3, 2, 2)) for _ in range(4))
    loss = lambda x: (nn.dot_product_attention(x, k, v) * w).sum()  # noqa: E731
    slope, h = np.asarray(tj.grad(loss)(q)), 1e-6
    step = np.zeros_like(q)
    step[0, 1, 1, 0] = h
    np.testing.assert_allclose(slope[0, 1, 1, 0], (loss(q + step) - loss(q - step)) / (2 * h), rtol=1e-6)
    with pytest.raises(ValueError, match="3 heads of keys do not divide 2 of queries"):
        nn.dot_product_attention(q, np.zeros((1, 3, 3, 2)), np.zeros((1, 3, 3, 2)))
    with pytest.raises(NotImplementedError, match="there is no implementation 'cudnn'"):
        nn.dot_product_attention(q, k, v, implementation="cudnn")


@pytest.mark.parametrize("backend", ["reference", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_networks_run_on_other_backends(backend: str):
    x = np.random.default_rng(7).normal(size=(4, 6)).astype(np.float32)
    f = lambda y: nn.softmax(nn.gelu(y, approximate=False) + nn.silu(y) + nn.mish(y), axis=1)  # noqa: E731
    np.testing.assert_allclose(tj.jit(f, backend=backend)(x), f(x), rtol=1e-5)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'tracejit.nn' has no attribute 'initialisers'"):
        _ = nn.initialisers


def test_products_of_rows_with_scales_of_blocks():
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 5, 6))
    a, b = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 5, 3))
    want = np.einsum("bmk,bnk->bmn", x * np.repeat(a, 3, 2), y * np.repeat(b, 2, 2))
    np.testing.assert_allclose(tj.nn.scaled_matmul(x, y, a, b, np.float64), want)
    got = tj.jit(lambda *v: tj.nn.scaled_matmul(*v))(x.astype("f2"), y, a, b)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=0.02, atol=0.02)
    with pytest.raises(ShapeError, match="takes arrays of rank 3"):
        tj.nn.scaled_matmul(x[0], y, a, b)
