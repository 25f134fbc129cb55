"""Fractions, exponents, neighbours, common divisors and angles, to the bit, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


def corners(dtype: str) -> Any:
    info = np.finfo(dtype)
    special = [0, -0.0, 1, -1, 0.5, -0.5, 1.5, -2.25, info.max, info.min, info.tiny, -info.tiny, info.tiny / 2]
    least = [info.smallest_subnormal, -info.smallest_subnormal, np.inf, -np.inf, np.nan]
    return np.array([*special, *least, *(np.random.default_rng(0).standard_normal(20) * 8)], dtype)


def same_bits(got: Any, want: Any) -> None:
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        assert g.shape == w.shape
        np.testing.assert_array_equal(g, w)
        if w.dtype.kind == "f":
            known = ~np.isnan(w)
            np.testing.assert_array_equal(np.signbit(g)[known], np.signbit(w)[known])


def parts(xp: Any, x: Any) -> tuple[Any, ...]:
    spread = xp.nextafter(x[:, None], x[::-1])
    return (*xp.modf(x), *xp.frexp(x), xp.spacing(x), spread, xp.angle(x), xp.angle(x, deg=True))


@pytest.mark.parametrize(
    ("backend", "dtype"), [*[("cpu", d) for d in ("f2", "f4", "f8")], ("reference", "f8"), ("opencl", "f4")]
)
@pytest.mark.filterwarnings("ignore")
def test_floats_have_numpys_parts_to_the_bit(record_backend: Callable[[str], None], dtype: str, backend: str):
    record_backend(backend)
    x = corners(dtype)
    same_bits(tj.jit(lambda x: parts(np, x), backend=backend)(x), parts(np, x))


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u1", "u8"])
def test_divisors_and_multiples_wrap_around_as_numpys(record_backend: Callable[[str], None], dtype: str, backend: str):
    record_backend(backend)
    info = np.iinfo(dtype)
    x = np.array([0, 1, 6, 12, 35, info.max, info.min, info.max - 1], dtype)
    f = tj.jit(lambda x, y: (np.gcd(x[:, None], y), np.lcm(x[:, None], y)), backend=backend)
    same_bits(f(x, x[::-1].copy()), (np.gcd(x[:, None], x[::-1]), np.lcm(x[:, None], x[::-1])))


def test_integers_are_promoted_first(agree: Callable[..., None]):
    a, b = np.array([4, -6, 9], np.int32), np.array([6, 4, 12], np.uint32)
    agree(lambda xp, a, b: (xp.gcd(a, b), xp.lcm(a, b), xp.gcd(a, 6), *xp.modf(a), *xp.frexp(b)), a, b, symbolic=True)


def test_fractions_and_exponents_have_derivatives():
    x = np.array([0.3, -1.7, 2.0, -0.0, 4.0])
    f = lambda x: np.sum(3 * np.modf(x)[0] + np.modf(x)[1]) + np.sum(np.frexp(x)[0]) + np.sum(np.spacing(x))  # noqa: E731
    np.testing.assert_array_equal(tj.jit(tj.grad(f))(x), [3 + 2, 3 + 0.5, 3 + 0.25, 3 + 1, 3 + 0.125])
    g = lambda x, y: np.sum(np.nextafter(x, y))  # noqa: E731
    np.testing.assert_array_equal(tj.jit(tj.grad(g, argnums=(0, 1)))(x, x + 1), [np.ones(5), np.zeros(5)])


def test_divisors_run_in_loops_and_batches():
    pairs = np.array([[12, 18], [7, 5], [0, 4]])
    assert list(tj.jit(tj.vmap(lambda p: np.gcd(p[0], p[1])))(pairs)) == [6, 1, 4]

    @tj.jit
    def of_all(x):
        found = x[0]
        for i in range(1, len(x)):
            found = np.gcd(found, x[i])
        return found

    assert [of_all(np.array(x)) for x in ([12, 18, 27], [8, 4], [5])] == [3, 4, 5]


def test_real_arrays_are_close_to_real(agree: Callable[..., None]):
    agree(lambda xp, x: xp.real_if_close(x) + 1, np.array([1.0, 2.0]), symbolic=True)
