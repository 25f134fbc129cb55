"""Products of parts of arrays that begin at the index of a loop, at sizes that differ from call to call."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj

BODIES = {
    "left": lambda z, g, i: (g @ z[i : i + 2]).sum(),
    "right": lambda z, g, i: (z[i : i + 2].T @ g).sum(),
    "columns": lambda z, g, i: (z[:, i : i + 2] @ g).sum() if z.shape[1] > 40 else (g @ z[i : i + 2]).max(),
    "itself": lambda z, g, i: (z[i : i + 2] @ z[i : i + 2].T + g).sum(),
    "turned": lambda z, g, i: (z[i : i + 2].T @ z[i : i + 2]).trace(),
    "tensordot": lambda z, g, i: np.tensordot(g, z[i : i + 2], 1).sum(),
    "einsum": lambda z, g, i: np.einsum("ab,bc->ac", g, z[i : i + 2]).sum(),
    "covariance": lambda z, g, i: np.cov(z[i : i + 2]).sum() + g[0, 0],
}


@pytest.mark.parametrize("name", BODIES)
def test_sums(name: str):
    body = BODIES[name]

    def f(z: Any, g: Any) -> Any:
        s = 0.0
        for i in range(len(z) - 1):
            s = s * 0.5 + body(z, g, i)
        return s

    jitted: Any = tj.jit(f)
    rng = np.random.default_rng(0)
    g = rng.normal(size=(2, 2))
    for shape in ((40, 2), (19, 3), (41, 5), (33, 8), (12, 37), (40, 2)):
        z = rng.normal(size=shape)
        assert jitted(z, g) == pytest.approx(f(z, g), rel=1e-10)


def test_in_place():
    def f(z: Any, g: Any) -> Any:
        for i in range(len(z) - 1):
            z[i : i + 2] = g @ z[i : i + 2]
        for i in range(1, len(z)):
            z[i - 1 : i + 1] = z[i - 1 : i + 1] @ z[i - 1 : i + 1].T @ z[i - 1 : i + 1] * 0.01
        return z

    jitted: Any = tj.jit(f)
    rng = np.random.default_rng(1)
    g = np.array([[0.8, -0.6], [0.6, 0.8]])
    for shape in ((40, 2), (19, 3), (41, 5), (33, 8), (12, 37)):
        z = rng.normal(size=shape)
        want, got = z.copy(), z.copy()
        f(want, g)
        jitted(got, g)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-14)
