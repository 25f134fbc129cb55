"""`minimize`: minima that are known, derivatives of where they lie."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, OptionError, ShapeError, TracerError, UnsupportedError

minimize = tj.scipy.optimize.minimize


def rosenbrock(x: Any, a: Any = 1.0) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (a - x[:-1]) ** 2)


def himmelblau(x: Any) -> Any:
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def beale(x: Any) -> Any:
    u, v = x
    return (1.5 - u + u * v) ** 2 + (2.25 - u + u * v**2) ** 2 + (2.625 - u + u * v**3) ** 2


@pytest.mark.parametrize(
    ("function", "start", "place"),
    [
        (rosenbrock, [0.0, 0.0], [1.0, 1.0]),
        (rosenbrock, [1.3, 0.7, 0.8, 1.9, 1.2], [1.0] * 5),
        (himmelblau, [1.0, 1.0], [3.0, 2.0]),
        (beale, [1.0, 1.0], [3.0, 0.5]),
        (lambda x: np.sum(np.exp(x) + x**2), [5.0, -3.0], [-0.3517337112491958] * 2),
    ],
)
def test_minima_are_found(function: Any, start: Any, place: Any):
    found = minimize(function, np.array(start), method="BFGS", options={"gtol": 1e-9})
    assert isinstance(found, tj.scipy.optimize.OptimizeResults)
    assert bool(found.success)
    assert int(found.status) == 0
    np.testing.assert_allclose(found.x, place, rtol=1e-7)
    np.testing.assert_allclose(found.fun, function(np.array(place)), atol=1e-14)
    assert np.abs(np.asarray(found.jac)).max() < 1e-9
    assert int(found.nit) < int(found.nfev) == int(found.njev)
    compiled = tj.jit(lambda x: minimize(function, x, method="bfgs", tol=1e-9))(np.array(start))
    np.testing.assert_allclose(compiled.x, place, rtol=1e-7)


def test_the_inverse_of_the_hessian_is_near():
    h = np.array([[3.0, 1.0], [1.0, 2.0]])
    found = minimize(lambda x: x @ h @ x / 2 - np.sum(x), np.ones(2), method="BFGS", tol=1e-12)
    np.testing.assert_allclose(found.x, np.linalg.solve(h, np.ones(2)), rtol=1e-10)
    np.testing.assert_allclose(found.hess_inv, np.linalg.inv(h), rtol=1e-3)


def test_minima_have_derivatives_with_respect_to_arguments():
    def found(a: Any) -> Any:
        return minimize(lambda x, a: np.sum(np.cosh(x - a) + 0.1 * x**4), np.zeros(2), (a,), method="BFGS", tol=1e-11)

    a, h = np.array([0.7, -1.2]), 1e-5
    for d in (tj.jacrev, tj.jacfwd):
        slope = tj.jit(d(lambda a: found(a).x))(a)
        for n in range(2):
            ends = [np.asarray(found(a + s * np.eye(2)[n]).x) for s in (h, -h)]
            np.testing.assert_allclose(slope[:, n], (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-8)
    value = tj.jit(tj.grad(lambda a: found(a).fun))(a)
    np.testing.assert_allclose(value, -np.sinh(np.asarray(found(a).x) - a), rtol=1e-8)
    curved = tj.jit(tj.hessian(lambda a: found(a).fun))(a)
    np.testing.assert_allclose(curved, tj.jacfwd(tj.grad(lambda a: found(a).fun))(a), rtol=1e-9)
    assert curved[0, 0] > 0


def test_each_of_a_batch_ends_by_itself():
    starts = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    places = [[3.0, 2.0], [-2.805118, 3.131313], [-3.779310, -3.283186], [3.584428, -1.848127]]
    found = tj.jit(tj.vmap(lambda x: minimize(himmelblau, x, method="BFGS", tol=1e-8).x))(starts)
    np.testing.assert_allclose(found, places, atol=1e-5)


def test_it_says_why_it_ends():
    few = minimize(rosenbrock, np.zeros(2), method="BFGS", options={"maxiter": 3})
    assert (bool(few.success), int(few.status), int(few.nit)) == (False, 1, 3)
    stuck = minimize(lambda x: np.sum(x), np.zeros(2), method="BFGS")  # without a minimum
    assert (bool(stuck.success), int(stuck.status)) == (False, 3)
    done = minimize(lambda x: np.sum(x**2), np.zeros(2), method="BFGS")
    assert (bool(done.success), int(done.nit), int(done.nfev)) == (True, 0, 1)


def test_what_does_not_fit_is_refused():
    with pytest.raises(UnsupportedError, match="method is 'BFGS', not 'Powell'"):
        minimize(rosenbrock, np.zeros(2), method="Powell")
    with pytest.raises(ShapeError, match=r"x0 is a vector, not of shape \(2, 2\); use .*ravel_pytree"):
        minimize(rosenbrock, np.zeros((2, 2)), method="BFGS")
    with pytest.raises(DtypeError, match=r"x0 is i64\[2\], not of floats"):
        minimize(rosenbrock, np.zeros(2, int), method="BFGS")
    with pytest.raises(TracerError, match="args is a tuple, not float"):
        minimize(rosenbrock, np.zeros(2), 1.0, method="BFGS")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"BFGS has the options maxiter, .*, not ftol"):
        minimize(rosenbrock, np.zeros(2), method="BFGS", options={"ftol": 1})
    with pytest.raises(ShapeError, match=r"the function returned f64\[2\], not one number"):
        minimize(lambda x: x, np.zeros(2), method="BFGS")
