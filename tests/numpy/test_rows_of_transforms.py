"""Transforms of rows beside what follows them: elementwise functions, then parts and orders of rows that are not as the
transform has made them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "fft": np.fft.fft,
    "rfft": lambda a: np.fft.rfft(a.real),
    "ifft of fft": lambda a: np.fft.ifft(np.fft.fft(a)),
    "first axis": lambda a: np.fft.fft(a, axis=0),
    "fft2": lambda a: np.fft.fft2(a),
    "hfft": lambda a: np.fft.hfft(a),
}
FOLLOWED: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda f, a: f,
    "twice": lambda f, a: f * 2,
    "a part": lambda f, a: f.real,
    "size": lambda f, a: np.abs(f),
    "beside itself": lambda f, a: f * f[::-1] + 1,
    "a choice": lambda f, a: np.where(f.real > f.real[::-1], f, 0),
    "a row": lambda f, a: f * a.real[:, :1],
}
THEN: dict[str, Callable[[Any], Any]] = {
    "reversed rows": lambda g: g[::-1],
    "reversed columns": lambda g: g[..., ::-1],
    "reversed": lambda g: np.flip(g),
    "rolled rows": lambda g: np.roll(g, 1, axis=0),
    "shifted rows": lambda g: g[1:] - g[:-1],
    "every other row": lambda g: g[::2],
    "transposed": lambda g: g.T,
    "rows again": lambda g: np.concatenate([g, g[::-1]]),
    "the first row": lambda g: g - g[:1],
    "rows by number": lambda g: g[np.array([1, 0, 1])],
    "sum of reversed rows": lambda g: np.cumsum(g[::-1], axis=0),
    "sum of rows": lambda g: g[::-1].sum(axis=-1),
    "reversed, then elementwise": lambda g: g[::-1] * 3 + g,
    "padded": lambda g: np.pad(g, 1)[:-1, 1:],
    "flat": lambda g: g.reshape(-1)[::-1],
    "in place": lambda g: _stored(g),
}


def _stored(g: Any) -> Any:
    out = np.zeros_like(g)
    out[1:] = g[:-1][::-1]
    return out


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("followed", FOLLOWED)
def test_what_follows_a_transform(transform: str, followed: str):
    follow, make = FOLLOWED[followed], TRANSFORMS[transform]

    def f(a: Any) -> Any:
        made = follow(make(a), a)
        return tuple(then(made) for then in THEN.values())

    rng = np.random.default_rng(0)
    whole = [tj.jit(lambda a, then=then: then(follow(make(a), a))) for then in THEN.values()]
    for shape in ((4, 5), (3, 8)):
        a = rng.normal(size=shape) + 1j * rng.normal(size=shape)
        for name, got, want in zip(THEN, tj.jit(f)(a), f(a), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12, err_msg=name)
        for name, one, want in zip(THEN, whole, f(a), strict=True):
            np.testing.assert_allclose(one(a), want, atol=1e-12, err_msg=name)
