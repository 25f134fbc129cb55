"""Which functions give views, operands themselves, or arrays of their own: for every way to name an array
(degenerate arguments too: an order of 0, no axes, one part, a full slice), what is written before and after is seen
where NumPy shows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError

WAYS = """
    np.diff(x, n=0)
    np.diff(x, 0, axis=0)
    np.real(x)
    np.imag(x)
    np.rot90(x, 0)
    np.rot90(x, 4)
    np.rot90(x, 2)
    np.rot90(x, 1)
    np.rot90(x, -1)
    np.linalg.matrix_power(x, 1)
    np.linalg.matrix_power(x, 2)
    np.nan_to_num(x, copy=False)
    np.nan_to_num(x)
    np.diag(x)
    np.diagonal(x)
    np.diag(x, 1)
    np.diagonal(x, -1)
    x.diagonal()
    np.einsum("ij->ij", x)
    np.einsum("ij->ji", x)
    np.einsum("ii->i", x)
    np.einsum("ij", x)
    np.einsum("ji", x)
    np.einsum(x, [0, 1])
    np.einsum(x, [0, 1], [1, 0])
    np.einsum("...", x)
    np.einsum("i...->...i", x)
    np.meshgrid(x[0], x[1], copy=False)[0]
    np.meshgrid(x[0], x[1])[0]
    np.meshgrid(x[0], x[1], sparse=True, copy=False)[1]
    np.meshgrid(x[0], x[1], sparse=True)[1]
    np.broadcast_arrays(x, x[:1])[0]
    np.broadcast_arrays(x, x[:1])[1]
    np.broadcast_to(x, x.shape)
    np.broadcast_to(x, (2,) + x.shape)
    np.atleast_1d(x)
    np.atleast_2d(x)
    np.atleast_3d(x)
    np.asarray(x)
    np.asarray(x, dtype=x.dtype)
    np.asanyarray(x)
    np.asarray(x, order="F")
    np.asarray(x, order="C")
    np.array(x, ndmin=3)
    np.require(x)
    np.squeeze(x)
    np.squeeze(x[None])
    np.squeeze(x[None], axis=0)
    np.expand_dims(x, ())
    np.expand_dims(x, 0)
    np.moveaxis(x, 0, 0)
    np.moveaxis(x, 0, 1)
    np.rollaxis(x, 0)
    np.rollaxis(x, 1)
    np.swapaxes(x, 0, 0)
    np.transpose(x)
    np.transpose(x, (0, 1))
    np.flip(x)
    np.flip(x, ())
    np.flip(x, 0)
    np.fliplr(x)
    np.flipud(x)
    np.ravel(x)
    np.ravel(x, order="F")
    np.ravel(x, order="K")
    np.ravel(x, order="A")
    x.ravel()
    x.flatten()
    np.reshape(x, x.shape)
    np.reshape(x, -1)
    np.reshape(x, x.shape, order="F")
    x.reshape(-1, 1)
    x.reshape(x.shape[1], -1)
    np.resize(x, x.shape)
    np.roll(x, 0)
    np.roll(x, (), ())
    np.pad(x, 0)
    np.tile(x, 1)
    np.tile(x, ())
    np.repeat(x, 1)
    np.repeat(x, 1, axis=0)
    np.concatenate([x])
    np.stack([x])
    np.vstack([x])
    np.hstack([x])
    np.block([x])
    np.block(x)
    np.append(x, np.zeros((0, x.shape[1]), x.dtype), axis=0)
    np.delete(x, [], axis=0)
    np.clip(x, None, 100)
    np.clip(x, -100, 100)
    x.clip(-99)
    np.round(x)
    np.round(x, 3)
    x.round()
    np.around(x, 2)
    np.fix(x)
    np.floor(x)
    np.rint(x)
    np.trunc(x)
    np.conj(x)
    np.conjugate(x)
    x.conj()
    x.conjugate()
    +x
    np.positive(x)
    np.abs(x)
    x.real
    x.imag
    x.T
    x.astype(x.dtype)
    x.astype(x.dtype, copy=False)
    x.astype(float, copy=False)
    x.astype("f4", copy=False)
    x.view()
    x.squeeze()
    x.swapaxes(0, 1)
    x.transpose()
    x[...]
    x[:]
    x[()]
    x[None]
    x[::1]
    x[::-1][::-1]
    x[:, None]
    x[0:]
    x[np.newaxis, ..., np.newaxis]
    x[[0, 1]]
    x[np.arange(x.shape[0])]
    x.take([0], 0)
    np.take(x, [0, 1], axis=0)
    np.take_along_axis(x, np.zeros_like(x, dtype=int), axis=0)
    np.split(x, 1)[0]
    np.split(x, [1])[1]
    np.array_split(x, 2)[0]
    np.array_split(x, 2, axis=1)[1]
    np.vsplit(x, [1])[0]
    np.hsplit(x, [1])[1]
    list(x)[0]
    tuple(x)[1]
    [r for r in x][1]
    next(iter(x))
    dict(enumerate(x))[0]
    list(x.flat)[0]
    x.flat[0:2]
    np.triu(x, -100)
    np.tril(x, 100)
    np.where(True, x, 0)
    np.where(x == x, x, 0)
    np.select([x == x], [x])
    np.maximum(x, -1000)
    np.minimum(x, 1000)
    np.add(x, 0)
    x * 1
    x ** 1
    x - 0
    x / 1
    np.sum(x, axis=())
    np.mean(x, axis=())
    np.max(x, axis=())
    np.prod(x, axis=())
    np.any(x, axis=())
    np.sum(x[None], axis=0)
    np.cumsum(x, axis=0)
    np.cumsum(x[:1], axis=0)
    np.copy(x)
    np.copy(x, order="K")
    x.copy()
    np.ascontiguousarray(x)
    np.asfortranarray(x)
    np.array(x)
    np.array([x])[0]
    np.array(list(x))
    np.unwrap(x)
    np.gradient(x)[0]
    np.ediff1d(x)
    np.ix_(np.arange(x.shape[0]), np.arange(x.shape[1]))[0] + x[:1, :1]
    np.dsplit(x[..., None], 1)[0]
    np.column_stack([x])
    np.dstack([x])
    np.interp(x, np.arange(5.0), np.arange(5.0))
    np.heaviside(x, 0)
    np.ptp(x, axis=0)
    np.tensordot(x, np.eye(x.shape[1]), 1)
    np.dot(x, 1)
    np.kron(1, x)
    np.outer(x[0], 1)
    np.inner(x, 1)
    np.multiply(x, 1, out=None)
    np.cbrt(x)
    np.linalg.norm(x, axis=0)
    max(x, key=lambda r: 0)
    sorted(x, key=lambda r: 0)[0]
    (lambda *r: r)(*x)[0]
    x[0]
    x[0, 0:]
    x[-1, ...]
    np.array(x, order="F")
    np.array(x, order="A")
    np.array(x, order="K")
    np.full_like(x, x[0, 0])
    np.broadcast_to(x[0], x.shape)
    np.rot90(x[None], 0, (1, 2))
    np.vander(x[0], 1)
    x.swapaxes(0, 1).swapaxes(0, 1)
    x.T.T
    x.reshape(-1).reshape(x.shape)
    np.asarray(x.T)
    np.ravel(x.T)
    x.T.reshape(-1)
    x[:, :0]
    x[:0]
""".split("\n")[1:-1]
USES = {
    "read after the array has changed": "t = {way}; x[...] = x + 1; return t",
    "written": "t = {way}; t[...] = 5; return x",
    "changed in place": "t = {way}; t += 3; return x, t",
}
READ_ONLY = ("np.meshgrid(x[0], x[1], copy=False)[0]", "np.broadcast_arrays(x, x[:1])[1]")
"""NumPy warns of writes to these; here they are refused."""


def laid_out(order: str) -> np.ndarray[Any, Any]:
    x = np.arange(1.0, 10.0).reshape(3, 3)
    wide = np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)
    return {"C": x, "F": np.array(x, order="F"), "strided": wide[::2, ::2], "reversed": x[::-1].copy()[::-1]}[order]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("way", [way.strip() for way in WAYS])
def test_writes_are_seen_where_numpy_shows_them(way: str, use: str):
    namespace: dict[str, Any] = {"np": np}
    exec("def f(x):\n    " + USES[use].format(way=way), namespace)
    f = namespace["f"]
    compiled = tj.jit(f)
    for order in ("C", "F", "strided", "reversed"):
        mine, theirs = laid_out(order), laid_out(order)
        try:
            expected = f(theirs)
        except (TypeError, ValueError):  # what is for reading only, and numbers
            with pytest.raises((TypeError, ValueError, TracejitError)):
                compiled(mine)
            continue
        if way in READ_ONLY and use != "read after the array has changed":
            with pytest.raises(TracejitError):
                compiled(mine)
            continue
        found = compiled(mine)
        np.testing.assert_array_equal(mine, theirs)
        pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
        for got, want in pairs:
            np.testing.assert_allclose(got, want, rtol=1e-14)
