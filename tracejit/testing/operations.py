"""What the conformance suite asks of single operations, with their arguments.

Arguments are random, never zeros.  Each program is plain Python on NumPy arrays, which is what its results are compared
with, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.testing.case import Case

__all__ = ["OPERATIONS"]


def _floats(*shape: int, dtype: str = "f4", seed: int = 1, low: float = -2.0, high: float = 2.0) -> Any:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def _integers(*shape: int, dtype: str = "i4", seed: int = 2, low: int = 1, high: int = 100) -> Any:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


_SIZES = (1, 255, 256, 257, 1000)
_UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan", "arcsin", "arccos",
    "arctan", "sinh", "cosh", "tanh", "arcsinh", "arctanh", "floor", "ceil", "trunc", "rint", "absolute", "sign",
)  # fmt: skip
_DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def _elements() -> list[Case]:
    found = [
        Case("1", "vector_add", lambda x, y: x + y, [(_floats(n), _floats(n, seed=3)) for n in (0, *_SIZES)], 1e-6),
        Case("1", "saxpy", lambda x, y: 2.5 * x + y, [(_floats(1 << 20), _floats(1 << 20, seed=3))], 1e-6),
        Case("1", "triad_f64", lambda x, y, z: x + y * z, [tuple(_floats(n, dtype="f8", seed=s) for s in (1, 2, 3)) for n in _SIZES], 1e-15),
        Case("1", "transpose", lambda x: x.T.copy(), [(_floats(33, 65),), (_floats(1024, 1024),)]),
        Case("1", "where", lambda x, y: np.where(x > y, x, -y), [(_floats(n), _floats(n, seed=3)) for n in _SIZES]),
        Case("1", "compare", lambda x, y: (x < y, x <= y, x == y, (x != y) & (x > 0)), [(_floats(257), _floats(257, seed=3))]),
        Case("1", "broadcast", lambda x, y: x[:, None] * y[None] - x[0], [(_floats(37), _floats(53, seed=3))], 1e-6),
        Case("1", "views", lambda x: (x[::2, ::-1] + 1, x[3:-2, 5], x.T[1:]), [(_floats(33, 65),)], 1e-6),
        Case("1", "special_values", lambda x: (x + 1, np.maximum(x, 0), np.isnan(x), np.abs(x)),
             [(np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, 3e38], "f4"),)]),
    ]  # fmt: skip
    for name in _UNARY:
        function = getattr(np, name)
        low, high = (0.1, 0.9) if name.startswith(("log", "sqrt", "arc")) else (-1.9, 1.9)
        for dtype, rtol in (("f4", 1e-6), ("f8", 1e-14)):
            x = _floats(1000, dtype=dtype, low=low, high=high)
            found.append(Case("1", f"{name}_{dtype}", lambda x, f=function: f(x), [(x,)], rtol))
    for dtype in _DTYPES:
        x, y = _integers(1000, dtype=dtype), _integers(1000, dtype=dtype, seed=5, high=7)
        found.append(Case("1", f"arithmetic_{dtype}", lambda x, y: (x + y, x - y, x * y, x // y, x % y), [(x, y)]))
        found.append(Case("1", f"bitwise_{dtype}", lambda x, y: (x & y, x | y, x ^ y, ~x, x << y, x >> y), [(x, y)]))
        found.append(
            Case("1", f"conversions_{dtype}", lambda x: (x.astype("f4"), x.astype("i2"), x.astype(bool)), [(x,)])
        )
    return found


_LONG = (1, 257, 2048, 1 << 20)


def _tables() -> list[Case]:
    table, cube = _floats(257, 130), _floats(7, 33, 19)
    at = _integers(5000, high=1000, low=0)
    sides = (1, 16, 17, 256)
    found = [
        Case("2", "sum", lambda x: x.sum(), [(_floats(n, low=0),) for n in _LONG], 1e-5),
        Case("2", "sum_f64", lambda x: x.sum(), [(_floats(n, dtype="f8", low=0),) for n in _LONG], 1e-12),
        Case("2", "max_and_places", lambda x: (x.max(), x.min(), x.argmax(), x.argmin()), [(_floats(n),) for n in _LONG]),
        Case("2", "dot", lambda x, y: x @ y, [(_floats(n, low=0), _floats(n, low=0, seed=3)) for n in _LONG], 1e-5),
        Case("2", "scan", np.cumsum, [(_integers(n, dtype="i8"),) for n in _LONG]),
        Case("2", "scan_of_rows", lambda x: (np.cumsum(x, 0), np.cumsum(x, 1)), [(table,)], 1e-5),
        Case("2", "sort", lambda x: (np.sort(x), np.argsort(x, kind="stable")), [(_floats(n),) for n in (1, 257, 2048)]),
        Case("2", "sort_of_rows", lambda x: np.sort(x, 1), [(table,)]),
        Case("2", "histogram", lambda i, w: np.bincount(i, w, 1000), [(at, _floats(5000, low=0))], 1e-5),
        Case("2", "counts", lambda i: np.bincount(i, minlength=1000), [(at,)]),
        Case("2", "gather", lambda x, i: x[i], [(_floats(1000), at)]),
        Case("2", "scatter", _scattered, [(_floats(1000), _integers(300, low=0, high=1000))]),
        Case("2", "masked", lambda x: (x[x > 0], np.where(x > 0, x, 0).sum()), [(_floats(1000),)], 1e-5),
        Case("2", "convolution", lambda x, k: np.convolve(x, k, "valid"), [(_floats(1000), _floats(17, seed=3))], 1e-5),
        Case("2", "stencil", lambda u: 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]), [(table,)], 1e-6),
        Case("2", "batched_products", lambda a, b: a @ b, [(_floats(5, 17, 9), _floats(5, 9, 23, seed=3))], 1e-5),
        *[
            Case("2", f"products_{name}", f, [(_floats(n, n), _floats(n, n, seed=3)) for n in sides], 1e-5)
            for name, f in (("plain", lambda a, b: a @ b), ("right", lambda a, b: a @ b.T), ("left", lambda a, b: a.T @ b))
        ],
    ]  # fmt: skip
    for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        found.append(
            Case("2", f"axes_{''.join(map(str, axes))}", lambda x, a=axes: (x.sum(a), x.max(a)), [(cube,)], 1e-5)
        )
    return found


def _scattered(x: Any, at: Any) -> Any:
    y = x.copy()
    y[at] = -1.0
    np.add.at(y, at, 0.5)
    return y


def _kinds() -> list[Case]:
    z = _floats(300) + 1j * _floats(300, seed=3)
    polymorphic = [(_floats(9),), (_floats(9, dtype="f8"),), (_integers(9),), (_floats(3, 4),), (_floats(2, 3, 4),)]
    return [
        Case("3", "complex", lambda z: (z * z + 1, np.abs(z), z.conj() / (z + 2), np.exp(z)), [(z.astype("c8"),)], 1e-5),
        Case("3", "complex_sums", lambda z: (z.sum(), z @ z), [(z.astype("c16"),)], 1e-12),
        Case("3", "polymorphic", lambda x: (x * 2 + 1, x.sum()), polymorphic, 1e-5),
        Case("3", "containers", lambda d: {"sum": d["a"] + d["b"][0], "pair": (d["a"], d["b"][1] * 2)},
             [({"a": _floats(40), "b": [_floats(40, seed=3), _floats(40, seed=4)]},)], 1e-6),
    ]  # fmt: skip


OPERATIONS: list[Case] = [*_elements(), *_tables(), *_kinds()]
