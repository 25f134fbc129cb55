"""Loops over `zip(*arrays)`, and over ranges that the program counts, backwards."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj


def coordinates(m: Any) -> Any:
    s = 0
    for y, x in zip(*np.nonzero(m), strict=False):
        s += y * 10 + x
    return s


def places(m: Any) -> Any:
    s = 0.0
    for y, x in zip(*np.where(m > 2)):  # noqa: B905
        s += m[y, x] * (y - x)
    return s


def columns(m: Any) -> Any:
    s = 0.0
    for c in zip(*m):  # noqa: B905
        s = s * 0.5 + c[0] * c[1]
    return s


def paired(m: Any) -> Any:
    s = 0.0
    for u, v in zip(*(m[0], m[1])):  # noqa: B905
        s = s * 0.5 + u * v
    return s


def grouped(m: Any) -> Any:
    s = 0.0
    for u, v in zip(*[iter(m[0])] * 2):  # noqa: B905
        s = s * 0.5 + u * v
    return s


@pytest.mark.parametrize("f", [places, columns, paired, grouped])
def test_zip_of_several(f: Any):
    jitted = tj.jit(f)
    rng = np.random.default_rng(0)
    for shape in ((4, 5), (2, 7), (4, 5), (3, 3), (2, 2)):
        m = rng.integers(0, 4, shape).astype(float)
        assert float(jitted(m)) == pytest.approx(float(f(m)))


def test_zip_with_options_is_pythons():
    m = np.eye(3)
    with pytest.raises(Exception, match="how many"):
        tj.jit(coordinates)(m)


def test_ranges_that_the_program_counts_backwards():
    def up(x: Any, k: Any) -> Any:
        s = 0.0
        for i in reversed(range(int(k[0]), int(k[1]))):
            s = s * 0.5 + x[i]
        return s

    def down(x: Any, k: Any) -> Any:
        s = 0.0
        for i in reversed(range(int(k[1]), int(k[0]), -1)):
            s = s * 0.5 + x[i]
        return s

    x = np.arange(1.0, 10.0)
    for f in (up, down):
        jitted: Any = tj.jit(f)
        for k in ((2, 5), (0, 8), (5, 2), (3, 3)):
            assert jitted(x, np.array(k)) == f(x, np.array(k))
