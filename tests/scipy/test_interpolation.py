"""Values between elements and samples, nearest points and integrals, against SciPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError, UnsupportedError

ndimage = pytest.importorskip("scipy.ndimage")
interpolate = pytest.importorskip("scipy.interpolate")
cluster = pytest.importorskip("scipy.cluster.vq")
RNG = np.random.default_rng(0)
MODES = {
    "constant": "grid-constant",
    "nearest": "nearest",
    "wrap": "grid-wrap",
    "mirror": "mirror",
    "reflect": "reflect",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [0, 1])
def test_elements_between_elements(order: int, mode: str):
    x = RNG.standard_normal((4, 5))
    places = [RNG.uniform(-9, 13, (6, 7)) for _ in range(2)]

    def f(x: Any, p: Any, q: Any) -> Any:
        return tj.scipy.ndimage.map_coordinates(x, [p, q], order, mode=mode, cval=0.5)

    want = ndimage.map_coordinates(x, places, order=order, mode=MODES[mode], cval=0.5)
    for call in (f, tj.jit(f)):
        np.testing.assert_allclose(call(x, *places), want, atol=1e-12)
    np.testing.assert_allclose(tj.vmap(f, in_axes=(None, 0, 0))(x, *places), want, atol=1e-12)


def test_whole_numbers_are_rounded_and_derivatives_are_there():
    x = np.array([0, 1, 4, -4, -9])
    got = tj.scipy.ndimage.map_coordinates(x, [np.array([0.5, 1.5, 3.5])], 1)
    assert got.dtype == np.int64 and list(got) == [1, 3, -7]  # noqa: PT018
    g = tj.grad(lambda p: tj.scipy.ndimage.map_coordinates(x * 1.0, [p], 1).sum())(np.array([0.25, 2.5]))
    np.testing.assert_allclose(g, [1.0, -8.0])


def test_splines_and_other_modes_are_refused():
    x = np.ones((2, 2))
    with pytest.raises(UnsupportedError, match="order=3"):
        tj.scipy.ndimage.map_coordinates(x, [x, x], 3)
    with pytest.raises(ShapeError, match="mode is one of"):
        tj.scipy.ndimage.map_coordinates(x, [x, x], 1, mode="grid")
    with pytest.raises(ShapeError, match="1 coordinates for an input of rank 2"):
        tj.scipy.ndimage.map_coordinates(x, [x], 1)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 7.0, None])
def test_functions_on_grids(fill: Any, method: str):
    grids = np.sort(RNG.uniform(-2, 2, 5)), np.sort(RNG.uniform(-2, 2, 4))[::-1].copy()
    values, points = RNG.standard_normal((5, 4, 2)), RNG.uniform(-2.5, 2.5, (20, 2))
    options = {"method": method, "bounds_error": False, "fill_value": fill}
    want = interpolate.RegularGridInterpolator(grids, values, **options)(points)

    def f(values: Any, points: Any) -> Any:
        return tj.scipy.interpolate.RegularGridInterpolator(grids, values, **options)(points)

    for call in (f, tj.jit(f)):
        np.testing.assert_allclose(call(values, points), want, atol=1e-12)
    made = tj.scipy.interpolate.RegularGridInterpolator(grids, values, **options)
    np.testing.assert_allclose(tj.jit(lambda g, p: g(p))(made, points), want, atol=1e-12)
    np.testing.assert_allclose(made(tuple(points.T)), want, atol=1e-12)
    assert made(points[0]).shape == (1, 2)


def test_grids_have_to_be_in_order():
    with pytest.raises(ShapeError, match="neither ascend nor descend"):
        tj.scipy.interpolate.RegularGridInterpolator(([0.0, 2.0, 1.0],), np.ones(3))
    with pytest.raises(ShapeError, match="values have 4"):
        tj.scipy.interpolate.RegularGridInterpolator(([0.0, 2.0],), np.ones(4))
    with pytest.raises(UnsupportedError, match="bounds_error"):
        tj.scipy.interpolate.RegularGridInterpolator(([0.0, 2.0],), np.ones(2), bounds_error=True)


def test_the_nearest_of_points():
    points, codes = RNG.standard_normal((9, 3)), RNG.standard_normal((4, 3))
    for a, b in ((points, codes), (points[:, 0], codes[:, 0])):
        for call in (tj.scipy.cluster.vq.vq, tj.jit(lambda a, b: tj.scipy.cluster.vq.vq(a, b))):
            for got, want in zip(call(a, b), cluster.vq(a, b), strict=True):
                np.testing.assert_allclose(got, want, atol=1e-12)
    with pytest.raises(ShapeError, match="not points of one space"):
        tj.scipy.cluster.vq.vq(points, codes[:, :2])


def test_integrals_of_samples():
    y, x = RNG.standard_normal((3, 5)), np.sort(RNG.standard_normal(5))
    np.testing.assert_allclose(tj.scipy.integrate.trapezoid(y, x), np.trapezoid(y, x))
    np.testing.assert_allclose(tj.scipy.integrate.trapezoid(y, dx=2.0, axis=0), np.trapezoid(y, dx=2.0, axis=0))
    for module in (tj.scipy.integrate, tj.scipy.interpolate, tj.scipy.ndimage, tj.scipy.cluster, tj.scipy.cluster.vq):
        assert not hasattr(module, "nothing")


@pytest.mark.parametrize("down", [(False, False), (True, False), (False, True), (True, True)])
def test_points_that_are_arguments_may_descend(down: tuple[bool, bool]):
    axes = [np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 3.0, 7.0])]
    axes = [x[::-1].copy() if turned else x for x, turned in zip(axes, down, strict=True)]
    values, at = RNG.standard_normal((3, 4, 2)), RNG.uniform(-1, 8, (9, 2))
    for fill in (np.nan, None):

        def f(x: Any, y: Any, v: Any, p: Any, fill: Any = fill) -> Any:
            return tj.scipy.interpolate.RegularGridInterpolator((x, y), v, bounds_error=False, fill_value=fill)(p)

        want = interpolate.RegularGridInterpolator(axes, values, bounds_error=False, fill_value=fill)(at)
        for call in (f, tj.jit(f)):
            np.testing.assert_allclose(call(*axes, values, at), want, rtol=1e-12)


def test_points_that_do_neither_are_an_error_of_the_program():
    f = tj.jit(lambda x, v, p: tj.scipy.interpolate.RegularGridInterpolator((x,), v)(p))
    f(np.array([2.0, 1.0, 0.0]), np.ones(3), np.ones((1, 1)))
    with pytest.raises(ValueError, match="strictly ascending or descending"):
        f(np.array([2.0, 3.0, 0.0]), np.ones(3), np.ones((1, 1)))
