"""Functions whose results are compared loosely, of parts of arrays at many sizes: order statistics, sets, transforms,
decompositions, windows, histograms, polynomials, SciPy's.

What is compared exactly has templates of its own (`templates.py`).  Here an operand is a part of an argument whose
extents follow from the argument's, or from data: 0 or 1 at some sizes; a number may be off by rounding of the largest
one.  Where NumPy raises, a compiled function has to raise as well.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

import tracejit as tj
from tests.generators.harness import Tally, refused
from tracejit.support.nodes import define

__all__ = ["Family", "family", "verdict"]

VECTORS = (
    "np.median({v})", "np.nanmedian({v})", "np.quantile({v}, 0.3)", "np.percentile({v}, [5, 50, 99])", "np.nanquantile({v}, 0.7)",
    "np.quantile({v}, 0.25, method='lower')", "np.quantile({v}, 0.6, method='midpoint')", "np.partition({v}, 0)[:1]",
    "np.sort({v})", "np.argsort({v}, kind='stable')", "np.unique({v})", "np.unique({v}, return_counts=True)[1]",
    "np.unique({v}, return_inverse=True)[1]", "np.union1d({v}, {w})", "np.intersect1d({v}, {w})", "np.setdiff1d({v}, {w})",
    "np.setxor1d({v}, {w})", "np.isin({v}, {w})", "np.flatnonzero({v})", "np.argwhere({v})", "np.trim_zeros({v})",
    "np.searchsorted(np.sort({v}), {w})", "np.digitize({w}, np.sort({v}))", "np.interp({w}, np.sort({v}), {v})",
    "np.histogram({v}, 4)[0]", "np.histogram({v}, 3, range=(0, 5))[0]", "np.histogram({v}, 4)[1]", "np.bincount(np.abs({v}).astype(int), minlength=40)[:40]",
    "np.cov({v})", "np.corrcoef({v}, {v} * 2 + 1)", "np.average({v}, weights=np.abs({v}) + 1)", "np.var({v}, ddof=1)", "np.std({v})",
    "np.mean({v})", "np.nanmean({v})", "np.nanstd({v})", "np.ptp({v})", "np.argmax({v})", "np.nanargmin({v})", "np.max({v})",
    "np.min({v}, initial=3)", "np.any({v})", "np.all({v})", "np.count_nonzero({v})", "np.cumsum({v})", "np.diff({v})", "np.ediff1d({v})",
    "np.gradient({v})", "np.trapezoid({v})", "np.unwrap({v})", "np.convolve({v}, {w})", "np.correlate({v}, {w}, 'same')",
    "np.polyval({v}, 0.5)", "np.polyder({v})", "np.polyint({v})", "np.polymul({v}, {w})", "np.polyadd({v}, {w})", "np.vander({v}, 3)",
    "np.fft.fft({v})", "np.fft.rfft({v})", "np.fft.ifft({v})", "np.fft.irfft({v})", "np.fft.fft({v}, 5)", "np.fft.fftshift({v})",
    "np.fft.fftfreq(len({v}))", "np.fft.rfftfreq(len({v}))", "np.hamming(len({v}))", "np.kaiser(len({v}), 3.0)", "np.bartlett(len({v}))",
    "np.linspace(0, 1, len({v}))", "np.geomspace(1, 9, len({v}))", "np.outer({v}, {w})", "np.dot({v}, {v})", "np.kron({v}, {w})",
    "np.pad({v}, 2, 'edge')", "np.pad({v}, 1, 'reflect')", "np.pad({v}, 2, 'wrap')", "np.pad({v}, 1, 'mean')", "np.pad({v}, 1, 'linear_ramp')",
    "np.roll({v}, 2)", "np.resize({v}, 7)", "np.tile({v}, 2)", "np.repeat({v}, 3)", "np.insert({v}, 0, 5)", "np.append({v}, {w})",
    "np.delete({v}, 0)", "np.take({v}, [0], mode='wrap')", "np.take({v}, [-1])", "np.choose(np.zeros(3, int), [1.0, 2.0])", "{v}[-1]", "{v}[0]",
    "{v}[len({v}) // 2]", "{v}[::-1]", "np.array_split({v}, 3)[1]", "np.concatenate([{v}, {w}])", "np.stack([{v}, {v}])", "np.meshgrid({v}, {w})[0]",
    "np.tri(len({v}))", "np.eye(len({v}), k=1)", "np.diag({v})", "np.diagflat({v}, 1)", "np.where({v} > 1, {v}, 0)", "np.select([{v} > 2, {v} < 0], [{v}, -{v}])",
    "np.piecewise({v}, [{v} > 1], [1.0, 2.0])", "np.clip({v}, 0, 2)", "np.linalg.norm({v})", "np.linalg.norm({v}, np.inf)", "np.linalg.norm({v}, 1)",
    "np.einsum('i,i->', {v}, {v})", "np.lexsort(({v}, {v}))", "np.nancumsum({v})", "np.nanprod({v})", "np.median({v}[None], axis=0)",
    "scipy.special.logsumexp({v})", "scipy.special.softmax({v})", "np.linalg.solve(np.eye(len({v})) * 2, {v})",
    "np.linalg.lstsq(np.eye(len({v})), {v})[0]", "np.linalg.inv(np.eye(len({v})) * 3)", "np.linalg.det(np.eye(len({v})) * 2)",
    "np.linalg.matrix_power(np.eye(len({v})) * 2, 3)", "scipy.linalg.toeplitz({v})", "scipy.linalg.circulant({v})", "np.add.reduceat({w}, np.arange(len({v})) % max(len({w}), 1))",
    "np.subtract.reduce({v})", "np.logaddexp.reduce({v})", "np.maximum.accumulate({v})", "np.add.outer({v}, {w})", "np.multiply.reduce({v})",
)  # fmt: skip
MATRICES = (
    "np.median({m}, axis=0)", "np.median({m}, axis=1)", "np.quantile({m}, [0.2, 0.8], axis=0)", "np.nanquantile({m}, 0.5, axis=1)", "np.sort({m}, axis=0)",
    "np.sort({m}, axis=1)", "np.argsort({m}, axis=0, kind='stable')", "np.unique({m}, axis=0)", "np.cov({m})", "np.cov({m}, rowvar=False)", "np.mean({m}, axis=0)",
    "np.var({m}, axis=1)", "np.max({m}, axis=0)", "np.argmin({m}, axis=1)", "np.sum({m}, axis=0)", "np.prod({m}, axis=1)", "np.cumsum({m}, axis=0)",
    "np.diff({m}, axis=0)", "np.gradient({m}, axis=1)", "np.fft.fft2({m})", "np.fft.fft({m}, axis=0)", "np.fft.rfft({m}, axis=1)", "np.fft.rfft2({m})",
    "np.linalg.svd({m}, compute_uv=False)", "np.linalg.eigvalsh({m}.T @ {m})", "np.linalg.det({m} @ {m}.T + 9 * np.eye(len({m})))",
    "np.linalg.inv({m} @ {m}.T + 9 * np.eye(len({m})))", "np.linalg.cholesky({m} @ {m}.T + 9 * np.eye(len({m})))", "np.linalg.slogdet({m} @ {m}.T + 9 * np.eye(len({m})))[1]",
    "np.linalg.solve({m} @ {m}.T + 9 * np.eye(len({m})), {m})", "np.linalg.pinv({m} + 9 * np.eye(*{m}.shape))", "np.linalg.norm({m})", "np.linalg.norm({m}, axis=0)",
    "np.linalg.norm({m}, 2)", "np.linalg.norm({m}, -1)", "np.abs(np.diagonal(np.linalg.qr({m})[1]))", "np.linalg.matrix_rank({m} + 20 * np.eye(*{m}.shape))", "{m} @ {m}.T", "{m}.T @ {m}",
    "np.trace({m})", "np.diagonal({m}, 1)", "np.tril({m})", "np.rot90({m})", "np.pad({m}, 1, 'symmetric')", "np.roll({m}, 1, axis=0)", "np.flip({m}, 1)",
    "np.apply_along_axis(np.sum, 0, {m})", "np.einsum('ij,ij->i', {m}, {m})", "np.average({m}, axis=0)", "np.histogram2d({m}.ravel(), {m}.ravel(), 3)[0]", "{m}.reshape(-1)",
    "{m}.reshape(len({m}), -1)", "np.percentile({m}, 50)", "np.count_nonzero({m}, axis=1)", "np.nanmax({m}, axis=0)", "np.ptp({m}, axis=1)", "scipy.linalg.expm(({m} @ {m}.T) / 50)",
    "np.lexsort({m})", "np.nonzero({m})[0]", "np.argwhere({m} > 1)", "{m}[{m} > 1]", "np.where({m} > 1)[1]", "np.take_along_axis({m}, np.argsort({m}, axis=1, kind='stable'), axis=1)",
)  # fmt: skip
SHAPES = (
    "np.zeros(len(x) - 3)", "np.ones((len(x) - 2, 2))", "np.full(len(x) // 2 - 1, 3.0)", "np.arange(len(x) - 4)", "np.arange(5, len(x))", "np.arange(len(x), 2, -2)",
    "np.linspace(0, 1, len(x) - 2)", "np.eye(len(x) - 2)", "np.eye(len(x), len(y))", "np.tri(len(x) - 1, len(y) - 2)", "np.empty(len(x) - 3).shape", "np.identity(len(x) - 1)",
    "x.reshape(2, -1)", "x.reshape(-1, 3)", "m.reshape(len(y), -1)", "m.reshape(len(y), len(x))", "x.reshape(len(x) // 2, 2)", "np.resize(x, len(x) - 3)", "np.split(x, 2)[0]", "np.split(x, 3)[2]",
    "np.array_split(x, 4)[3]", "np.hsplit(m, 2)[1]", "np.vsplit(m, [2, 4])[1]", "np.split(x, [len(x) // 2, 5])[1]", "np.stack([x[:-1], x[1:]])", "np.stack([x[2:], y[1:]])", "np.concatenate([x[3:], y[:2]])",
    "np.vstack([x, y])", "np.column_stack([x, y])", "x + y", "x[1:] + y", "x[:2] + y[:3]", "x[1:] * x[:-1]", "x[2:] - x[:-2]", "x[: len(y)] + y", "x[: len(x) // 2] + x[len(x) // 2 :]", "m + x", "m + y", "m * x[:, None]",
    "m @ y", "m @ x", "x @ m", "x @ y", "m @ m", "m.T @ x", "np.dot(x, y)", "np.einsum('i,i->', x, y)", "np.einsum('ij,j->i', m, y)", "np.einsum('ii->', m)", "np.outer(x[3:], y[2:])", "np.inner(m, y)",
    "np.lib.stride_tricks.sliding_window_view(x, 3)", "np.lib.stride_tricks.sliding_window_view(m, (2, 2)).sum()", "np.convolve(x, y, 'valid')", "np.convolve(x, np.ones(4), 'same')", "np.correlate(x, y, 'valid')",
    "np.convolve(x, [1.0, 2, 3], 'full')", "x[3]", "x[-4]", "x[len(x) // 2]", "x[2:5]", "x[-3:-1]", "x[5:2]", "x[len(y) :]", "x[: -len(y)]", "x[:: len(y) - 1]", "x[len(y)]", "x[-len(y)]", "m[2, 3]", "m[len(y) - 1, 0]", "m[:, 2]", "m[-2]",
    "np.take(x, 3)", "np.take(x, [0, 4])", "np.take(m, 2, axis=1)", "np.insert(x, 3, 9)", "np.delete(x, 3)", "np.delete(x, [0, 2])", "np.delete(x, slice(1, 3))", "np.insert(x, [1, 2], 5)", "np.partition(x, 3)[3]", "np.argpartition(x, 2)[:1] * 0",
    "np.diagonal(m, 3)", "np.diag(x, 2)", "np.diag(m, -2)", "np.trace(m, 1)", "np.tril(m, -2)", "np.triu(m, 2)", "np.roll(x, 5)", "np.roll(x, len(y))", "np.roll(m, (1, 3), (0, 1))", "np.rot90(m, 3)", "np.pad(x, len(y) - 2)", "np.pad(x, (2, 5), 'reflect')",
    "np.pad(x, (0, 4), 'symmetric')", "np.pad(x, 3, 'wrap')", "np.tile(x, len(y) - 2)", "np.repeat(x, len(y) - 2)", "np.repeat(x, np.arange(len(x)))", "np.broadcast_to(x, (len(y), len(x)))", "np.broadcast_to(x, (2, len(y)))", "np.squeeze(m)", "np.squeeze(x[:1])",
    "np.squeeze(m, 0)", "x.reshape(1, -1).squeeze(1)", "np.swapaxes(m, 0, 1)[3:]", "np.cross(x[:3], x[-3:])", "np.cross(m[:, :3], m[:, :3])", "np.diff(x, 3)", "np.diff(m, 2, axis=1)", "np.gradient(x)", "np.gradient(m)[1]", "np.cumsum(x)[4]",
    "np.ravel_multi_index((1, 2), m.shape)", "np.unravel_index(5, m.shape)", "np.indices((len(x) - 2, 2))", "np.fromfunction(lambda i: i * 2.0, (len(x) - 1,))", "np.meshgrid(x[2:], y[3:])[0]", "np.ix_(x[:1].astype(int), [0])[0]", "np.vander(x[2:], len(y) - 3)",
    "np.searchsorted(np.sort(x), y[2:])", "np.interp(y, np.arange(len(x)), x)", "np.interp(y, np.sort(x), y)", "np.where(x[1:] > 0, x[1:], x[:-1])", "np.select([x > 0], [x], y[0])", "np.choose([0, 1, 2], [x[:3], x[-3:], x[1:4]])", "np.compress([True, False, True], x)",
    "np.extract(x > 0, x)", "np.average(x, weights=y)", "np.cov(x, y)", "np.corrcoef(x, y)", "np.polyfit(np.arange(len(x)), x, 1)", "np.polymul(x[1:] + 9, y[2:] + 9)", "np.polyadd(x, y)", "np.polysub(x[2:], y)", "np.polydiv(x + 9, y[:2] + 9)[0]", "np.kron(m, x[:2])",
    "np.linalg.solve(np.eye(len(x)) + 0, y)", "np.linalg.det(m)", "np.linalg.inv(m.T @ m + 9 * np.eye(len(y)))", "np.linalg.matrix_power(m, 2)", "np.linalg.lstsq(m, x)[0].shape", "np.fft.fft(x, len(x) - 2)", "np.fft.irfft(x)", "np.fft.ifft(x[3:])", "np.fft.rfft(x, len(y) - 3)",
    "np.histogram(x, len(y) - 2)[0]", "np.bincount(np.arange(len(x) - 2), minlength=len(y))", "np.apply_along_axis(lambda r: r[:2], 1, m)", "np.add.reduceat(x, [0, 2, 4])", "np.maximum.reduceat(x, [1, 3])", "np.add.at(x.copy(), [0, 3], 1)", "np.maximum.accumulate(x[3:])",
    "x.copy().fill(2)", "[q for q in x[2:4]]", "sum(q for q in x[1:])", "max(x[:3])", "x[list(range(len(y) - 2))]", "x[np.arange(len(x)) % 2 == 0]", "x[[True, False] * (len(x) // 2)]", "m[m[:, 0] > 0]", "m[:, x[: len(y)] > 0]", "m[x > 0][:, 0]", "np.argmax(m, axis=1)[2]",
    "x.view()[1:][2]", "x.item(3)", "x.T[-2:]", "np.flip(x)[2]", "np.array([x[0], x[-1], x[2]])", "np.array([len(x) - 3, 2.0])", "np.broadcast_arrays(x, y)[0]", "np.unwrap(x)[3:]", "np.ediff1d(x, to_end=y[:2])", "np.trim_zeros(x)[1:]", "np.digitize(x, [0.0, 2.0])[3]",
)  # fmt: skip
"""What depends on extents, and is an error at some of them."""
PARTS_OF_VECTORS = (
    "{a}", "{a}[:len({a}) // 3]", "{a}[2:]", "{a}[1:-1]", "{a}[2::2]", "{a}[::-1][1:]", "{a}[{a} > 1]", "{a}[{a} > 90]", "{a}[:len({a}) // 2]",
    "{a}[len({a}) % 3:]",
)  # fmt: skip
PARTS_OF_MATRICES = (
    "{a}", "{a}[:len({a}) // 3]", "{a}[:, 2:]", "{a}[1:-1, 1:-1]", "{a}.T[2:]", "{a}[::2, ::-1]", "{a}[{a}[:, :1].sum(axis=1) > 1]", "{a}[:len({a}) // 2, :{a}.shape[1] // 3]",
)  # fmt: skip
SIZES = ((7, 9), (10, 7), (2, 2), (1, 8), (9, 3), (2, 7), (8, 2), (3, 1), (0, 4), (4, 0), (1, 1), (2, 3), (17, 33))


@define(eq=False)
class Family:
    """A function and the calls it is compared at."""

    seed: int
    text: str
    dtype: str
    calls: list[tuple[int, int, int]]

    def function(self) -> Any:
        return eval(f"lambda x, y, m: {self.text}", {"np": np, "scipy": scipy})

    def arguments(self, call: tuple[int, int, int]) -> list[Any]:
        n, k, seed = call
        rng = np.random.default_rng(seed)
        made = [rng.integers(-4, 5, shape).astype(self.dtype) for shape in ((n,), (k,), (n, k))]
        return [a + rng.integers(0, 2, a.shape) / 2 if a.dtype.kind == "f" else a for a in made]


def family(seed: int) -> Family:
    """The function of this seed: each in turn, of other parts."""
    r = random.Random(seed)
    texts = VECTORS + MATRICES + SHAPES
    text = texts[seed % len(texts)]
    parts = {
        "v": r.choice(PARTS_OF_VECTORS).format(a="x"),
        "w": r.choice(PARTS_OF_VECTORS).format(a="y"),
        "m": r.choice(PARTS_OF_MATRICES).format(a="m"),
    }
    calls = [(n, k, r.randrange(2**32)) for n, k in (SIZES[0], *r.sample(SIZES[1:], len(SIZES) - 1))]
    return Family(seed, text.format(**parts), r.choice(["f8", "f8", "f8", "i8"]), calls)


def verdict(made: Family, tally: Tally | None = None) -> str | None:
    """A program that shows the first wrong answer."""
    plain = made.function()
    jitted = tj.jit(made.function())
    for call in made.calls:
        arguments = made.arguments(call)
        expected, error = _outcome(plain, arguments)
        got, failure = _outcome(jitted, arguments)
        if tally is not None:
            tally.calls += 1
        if failure is not None:
            if refused(failure) and tally is not None:
                tally.refuse(failure)
            if error is None and not refused(failure) and "trim_leading_zeros" not in str(failure):
                return _program(made, call, f"{type(failure).__name__}: {failure}")
            continue
        if isinstance(error, ZeroDivisionError):  # of Python's numbers, in NumPy's own code
            continue
        what = f"no exception where NumPy has {error!r}" if error is not None else _difference(got, expected)
        if what:
            return _program(made, call, what)
    return None


def _outcome(f: Any, arguments: list[Any]) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return f(*[a.copy() for a in arguments]), None
        except Exception as error:
            return None, error


def _difference(got: Any, expected: Any) -> str:
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape}, not {b.dtype}{b.shape}"
    finite = np.abs(b[np.isfinite(b)]) if b.dtype.kind in "fc" else np.abs(b)
    scale = float(np.max(finite, initial=1.0)) if b.dtype.kind in "fc" else 0.0
    with np.errstate(all="ignore"):
        if np.allclose(a, b, rtol=1e-9, atol=1e-9 * scale, equal_nan=True):
            return ""
    return f"{a.tolist()}, not {b.tolist()}"


def _program(made: Family, call: tuple[int, int, int], what: str) -> str:
    before = made.calls[: made.calls.index(call) + 1]
    lines = [
        f"# {what[:500]}",
        "import numpy as np, scipy.linalg, scipy.special, tracejit as tj",
        f"f = lambda x, y, m: {made.text}",
        "j = tj.jit(f)",
    ]
    for c in before:
        shown = ", ".join(
            f"np.array({a.tolist()!r}, '{a.dtype.str[1:]}').reshape({a.shape})" for a in made.arguments(c)
        )
        lines.append(f"a = [{shown}]")
        lines.append("for g in (f, j):\n    try: print(g(*a))\n    except Exception as e: print(repr(e))")
    return "\n".join(lines)
