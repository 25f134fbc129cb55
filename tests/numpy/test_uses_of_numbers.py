"""A number stays what it is, whatever it is used for: as an index, an extent, an end of a loop, a branch's condition.
What is computed from it before and after has NumPy's dtype, and it is returned as it came.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import operator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError


@dataclasses.dataclass
class P:
    v: object


USES = """
    a[n]
    a[n:]
    a[:n]
    a[n] + 0
    a[-n]
    a[[n, 0]]
    a[np.array([n])]
    range(n) and 0
    [i for i in range(n)]
    np.arange(n)
    np.arange(0, n)
    np.arange(n, 9)
    np.zeros(n)
    np.zeros((2, n))
    np.full(n, n)
    np.full(3, n)
    np.full_like(a, n)
    np.eye(n)
    np.tri(n)
    np.linspace(0, 1, n)
    np.linspace(0, n, 3)
    np.roll(a, n)
    np.repeat(a, n)
    np.tile(a, n)
    np.pad(a, n)
    np.pad(a, 1, constant_values=n)
    a.reshape(n - n + 1, -1)
    np.clip(a, 0, n)
    np.clip(a, n, None)
    np.minimum(a, n)
    np.where(a > n, a, n)
    a.astype("i8") >> n
    1 << n
    n << 1
    n ** 2
    2 ** n
    a ** n
    n // 2
    divmod(n, 2)
    -n
    ~n if n.__class__ is not bool else 0
    abs(n)
    n + 1
    n + 1.5
    n * True
    n == 2
    n > 1
    n & 3
    n | 1
    bool(n)
    int(n)
    float(n)
    round(n)
    str(n)
    hash(n)
    f"{n}"
    {n: 1}
    [n].index(n)
    n in (1, 2)
    sum([n, n])
    max(n, 1)
    min(n, 9)
    max(a[0], n)
    sorted([n, 1])
    np.array(n)
    np.array([n, 1])
    np.array([n, 1.5])
    np.asarray(n)
    np.stack([n, n])
    np.sum(n)
    np.max([n, 1])
    np.float32(n)
    np.int64(n)
    np.int8(n)
    np.add(n, 1)
    np.power(2, n)
    np.shape(n)
    np.ndim(n)
    np.diff(a, n - n)
    np.rot90(a[None], n - n)
    np.expand_dims(a, n - n)
    np.sum(a[None], axis=n - n)
    np.take(a, n)
    np.delete(a, 1)
    np.insert(a, 1, n)
    np.append(a, n)
    np.searchsorted(a, n)
    np.split(a, [n - n + 1])
    np.array_split(a, n - n + 2)
    np.cumsum(a * n)
    np.interp(n, a, a)
    np.isclose(a, n)
    np.equal(a, n)
    np.einsum("i,->i", a, n)
    np.dot(a, n)
    np.kron(n, a)
    np.polyval([1, n], a)
    np.convolve(a, [n])
    np.select([a > n], [n], n)
    np.copyto(a.copy(), n)
    a.copy().fill(n)
    a.copy().__setitem__(0, n)
    a.copy().__setitem__(slice(n), n)
    a.copy().__iadd__(n)
    np.linalg.matrix_power(np.eye(2), n)
    np.round(a, n - n)
    np.triu(a[None], n - n)
    np.diag(a, n - n)
    np.trace(np.eye(3), n - n)
    np.broadcast_to(n, (3,))
    np.broadcast_to(a, (n + 1, a.shape[0]))
    np.ones((n,)).sum()
    np.ones(3, dtype=a.dtype) * n
    tj.lax.fori_loop(0, n, lambda i, c: c + 1, a)
    tj.lax.fori_loop(n, 9, lambda i, c: c + 1, a)
    tj.lax.fori_loop(n, n, lambda i, c: c + i, a)
    tj.lax.fori_loop(0, 3, lambda i, c: c + n, n)
    tj.lax.while_loop(lambda c: c < n, lambda c: c + 1, 0)
    tj.lax.while_loop(lambda c: c < 9, lambda c: c + n, n + 1)
    tj.lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1]), (n, n))
    tj.lax.scan(lambda c, x: (c, x * n), n, a)
    tj.lax.map(lambda x: x * n, a)
    tj.lax.cond(n > 1, lambda: n, lambda: n)
    tj.lax.cond(n > 1, lambda m: m + 1, lambda m: m - 1, n)
    tj.lax.cond(n, lambda m: m + 1, lambda m: m - 1, n)
    tj.lax.switch(n, [lambda m: m, lambda m: m], n)
    tj.vmap(lambda x: x * n)(a)
    tj.vmap(lambda x, m: x * m, in_axes=(0, None))(a, n)
    tj.grad(lambda x: (x * n).sum())(a * 1.0)
    tj.jvp(lambda x: x * n, (a * 1.0,), (a * 1.0,))
    tj.jit(lambda x, m: x * m)(a, n)
    tj.jit(lambda m: m + 1)(n)
    (lambda k: [k for i in tj.range(k)])(n)
    [None for i in tj.range(n)]
    [None for i in tj.range(0, n)]
    [None for i in tj.range(n, 9)]
    [None for i in tj.range(9, n, -1)]
    n in tj.range(5)
    tj.range(n) == tj.range(2)
    slice(n)
    a[slice(n, None)]
    a[::n]
    a[n - 1:n + 1]
    a[n,]
    isinstance(n, int)
    isinstance(n, np.integer)
    type(n)
    getattr(n, "dtype", None)
    n.bit_length() if hasattr(n, "bit_length") else 0
    n.real
    n.item() if hasattr(n, "item") else 0
    n.astype(float) if hasattr(n, "astype") else 0
    np.issubdtype(getattr(n, "dtype", int), np.integer)
    np.result_type(n, a)
    np.can_cast(getattr(n, "dtype", int), "f8")
    np.promote_types("i1", np.asarray(n).dtype)
    np.zeros_like(n)
    np.ones_like(n, shape=(2,))
    np.size(a, n - n)
    a.sum(axis=n - n)
    a.take(n)
    a.repeat(n)
    a.swapaxes(n - n, 0)
    a.clip(n)
    math.sqrt(n)
    math.floor(n)
    operator.index(n)
    copy.copy(n)
    copy.deepcopy(n)
    (n, n)[0]
    {"k": n}["k"]
    dataclasses.replace(P(1), v=n).v
""".split("\n")[1:-1]
KINDS: dict[str, Any] = {
    "np.int64": np.int64,
    "np.int32": np.int32,
    "int": int,
    "rank 0": lambda v: np.array(v),
    "np.bool": lambda v: np.bool_(v > 1),
    "float": float,
}
RESULTS = "a + n, n, n * 1, a / n, [n, 2]"


def made(body: str) -> Any:
    names: dict[str, Any] = {
        "np": np, "tj": tj, "math": math, "operator": operator, "copy": copy, "dataclasses": dataclasses, "P": P,
    }  # fmt: skip
    exec("def f(a, n):\n" + body, names)
    return names["f"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", [use.strip() for use in USES])
def test_a_number_stays_what_it_is(use: str):
    plain = made(f"    return a + n, n * 1, {RESULTS}")
    jitted = tj.jit(made(f"    before = a + n, n * 1\n    {use}\n    return *before, {RESULTS}"))
    answered = 0
    for kind in KINDS.values():
        a = np.arange(4, dtype=np.float32)
        with np.errstate(all="ignore"):
            expected = plain(a, kind(2))
            try:
                made(f"    {use}")(a.copy(), kind(2))
            except Exception:  # NumPy does not take such a number there
                continue
            try:
                found = jitted(a, kind(2))
            except (TracejitError, TypeError):  # refused, with the line
                continue
        answered += 1
        for got, want in zip(found, expected, strict=True):
            got, want = (x[0] if isinstance(x, list) else x for x in (got, want))
            got, want = (x[()] if isinstance(x, np.ndarray) and not x.ndim else x for x in (got, want))
            assert type(got) is type(want), use
            assert np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-6)
    assert answered, use
