"""First values of parameters: JAX's numbers for the same key, and what these are for."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import initializers
from tracejit.support.errors import DtypeError, OptionError, ShapeError

KEY = tj.random.key(7)

# Of JAX 0.10.2, in float64: the first and the last element, and the sum of squares.
BY_JAX = {
    "uniform(3.0)": (2.53232083525, 1.95365322599, 41.5315314727),
    "normal(0.5)": (0.50574066778, 0.194305102856, 3.84608881766),
    "truncated_normal(2.0, lower=-1.0)": (2.0697525568, 1.00156893076, 30.5667731559),
    "glorot_uniform()": (0.637162252457, 0.280000849963, 4.35574053485),
    "glorot_normal()": (0.576106677385, 0.224884603572, 4.43794847417),
    "lecun_uniform()": (0.688213890165, 0.302435483991, 5.08169729066),
    "lecun_normal()": (0.622266331793, 0.242903133803, 5.1776065532),
    "he_uniform()": (0.973281417284, 0.427708363203, 10.1633945813),
    "he_uniform(in_axis=0, out_axis=2, batch_axis=1)": (0.435264682057, 0.294060117714, 15.6838833736),
    "he_normal()": (0.880017485829, 0.343516906167, 10.3552131064),
    "he_normal(in_axis=0, out_axis=2, batch_axis=1)": (0.393555783941, 0.244291488535, 15.7233572625),
    "xavier_uniform()": (0.637162252457, 0.280000849963, 4.35574053485),
    "xavier_normal()": (0.576106677385, 0.224884603572, 4.43794847417),
    "kaiming_uniform()": (0.973281417284, 0.427708363203, 10.1633945813),
    "kaiming_normal()": (0.880017485829, 0.343516906167, 10.3552131064),
    'variance_scaling(2.0, "fan_in", "truncated_normal")': (0.622266331793, -0.770338719658, 7.76154783349),
    'variance_scaling(2.0, "fan_in", "normal")': (0.583979021365, -0.732836852691, 7.59466159295),
    'variance_scaling(2.0, "fan_in", "uniform")': (0.688213890165, -0.795669715052, 7.72377833992),
    'variance_scaling(2.0, "fan_out", "truncated_normal")': (0.538898451252, -0.667132900742, 5.82116087512),
    'variance_scaling(2.0, "fan_out", "normal")': (0.50574066778, -0.63465533126, 5.69599619471),
    'variance_scaling(2.0, "fan_out", "uniform")': (0.59601071212, -0.689070186257, 5.79283375494),
    'variance_scaling(2.0, "fan_avg", "truncated_normal")': (0.576106677385, -0.713195070292, 6.65275528585),
    'variance_scaling(2.0, "fan_avg", "normal")': (0.540659515826, -0.678475088075, 6.50970993681),
    'variance_scaling(2.0, "fan_avg", "uniform")': (0.637162252457, -0.736647014975, 6.62038143422),
    'variance_scaling(2.0, "fan_geo_avg", "truncated_normal")': (0.579084072022, -0.716880955668, 6.72169759649),
    'variance_scaling(2.0, "fan_geo_avg", "normal")': (0.543453714896, -0.681981536043, 6.57716987264),
    'variance_scaling(2.0, "fan_geo_avg", "uniform")': (0.640455190289, -0.740454103067, 6.68898825557),
    "orthogonal(2.0)": (1.06758769756, 0.772436342492, 12),
    "orthogonal(column_axis=0)": (0.368827528795, -0.521260953328, 3),
    "delta_orthogonal()": (0, 0, 3),
}


def shape_of(name: str) -> tuple[int, ...]:
    if "batch_axis" in name:
        return 3, 2, 4, 5
    if "delta" in name:
        return 3, 2, 3, 4
    if "variance" in name:
        return 2, 3, 4
    return {"orthogonal(2.0)": (4, 3), "orthogonal(column_axis=0)": (3, 2, 4)}.get(name, (3, 4))


@pytest.mark.parametrize("name", BY_JAX)
def test_the_numbers_are_jax_s(name: str):
    init = eval(f"initializers.{name}", {"initializers": initializers})
    x = init(KEY, shape_of(name))
    assert isinstance(x, tj.Array)
    assert x.shape == shape_of(name)
    assert x.dtype == np.float64
    flat = np.asarray(x).ravel()
    np.testing.assert_allclose([flat[0], flat[-1], np.sum(flat**2)], BY_JAX[name], rtol=1e-10)
    compiled = tj.jit(lambda key: init(key, shape_of(name)))(KEY)
    np.testing.assert_allclose(compiled, x, rtol=1e-13, atol=1e-15)
    single = init(KEY, shape_of(name), np.float32)
    assert single.dtype == np.float32


def test_constants_need_no_key():
    assert np.asarray(initializers.zeros(KEY, (2, 3), np.float32)).tolist() == [[0.0] * 3] * 2
    assert initializers.ones(KEY, 2).dtype == np.float64
    rows = initializers.constant(np.array([1.0, 2.0]))(KEY, (3, 2))
    assert np.asarray(rows).tolist() == [[1.0, 2.0]] * 3
    assert initializers.constant(7, np.int32)(KEY, (1,)).dtype == np.int32


def test_variances_are_what_is_asked_for():
    for distribution in ("truncated_normal", "normal", "uniform"):
        x = np.asarray(initializers.variance_scaling(3.0, "fan_out", distribution)(KEY, (300, 400)))
        assert abs(x.mean()) < 3e-4
        np.testing.assert_allclose(x.var(), 3.0 / 400, rtol=1e-2)
    window = np.asarray(initializers.he_normal()(KEY, (5, 5, 30, 40)))
    np.testing.assert_allclose(window.var(), 2 / (25 * 30), rtol=2e-2)


def test_orthogonal_matrices_are():
    tall = np.asarray(initializers.orthogonal()(KEY, (5, 3)))
    np.testing.assert_allclose(tall.T @ tall, np.eye(3), atol=1e-14)
    wide = np.asarray(initializers.orthogonal(2.0)(KEY, (2, 2, 6)))
    np.testing.assert_allclose(wide.reshape(4, 6) @ wide.reshape(4, 6).T, 4 * np.eye(4), atol=1e-13)
    for shape in ((4, 2, 3), (4, 3, 2, 3), (2, 3, 2, 2, 3)):
        w = np.asarray(initializers.delta_orthogonal()(KEY, shape))
        middle = w[tuple((n - 1) // 2 for n in shape[:-2])]
        np.testing.assert_allclose(middle @ middle.T, np.eye(2), atol=1e-14)
        np.testing.assert_allclose(np.sum(w**2), 2, rtol=1e-13)
    assert initializers.orthogonal()(KEY, (0, 3)).shape == (0, 3)


def test_initializers_are_mapped_over_keys():
    keys = tj.random.split(KEY, 3)
    init = initializers.lecun_normal()
    got = tj.jit(tj.vmap(lambda key: init(key, (2, 3))))(keys)
    for k, x in zip(keys, got, strict=True):
        np.testing.assert_allclose(x, init(k, (2, 3)), rtol=1e-12)


def test_what_does_not_fit_is_refused():
    def refused(error: Any, match: str, init: Any, shape: Any, *dtype: Any) -> None:
        with pytest.raises(error, match=match):
            init(KEY, shape, *dtype)

    refused(ShapeError, r"tells inputs from outputs, and \(3,\) has 1; give in_axis=", initializers.he_normal(), (3,))
    refused(ShapeError, r"\(3, 4\) has no axis 5", initializers.he_normal(in_axis=5), (3, 4))
    refused(ShapeError, "an axis of .* is empty", initializers.he_normal(), (0, 4))
    refused(ShapeError, "two axes and more", initializers.orthogonal(), (3,))
    refused(ShapeError, "3, 4 or 5 axes", initializers.delta_orthogonal(), (3, 3))
    refused(ShapeError, "more inputs than outputs", initializers.delta_orthogonal(), (3, 3, 2))
    refused(DtypeError, "gives floats, not int64", initializers.normal(), (3,), np.int64)
    with pytest.raises(OptionError, match=r"mode is one of 'fan_in', .* not 'fan'"):
        initializers.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(OptionError, match="distribution is one of"):
        initializers.variance_scaling(1.0, "fan_in", "gamma")


def test_shapes_of_arguments_are_shapes():
    f = tj.jit(lambda x: initializers.normal(1.0)(KEY, x.shape))
    for n in (2, 3, 5):
        np.testing.assert_allclose(f(np.zeros((n, 4))), tj.random.normal(KEY, (n, 4)), rtol=1e-12)
