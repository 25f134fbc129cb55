"""Random products: every spelling, dtype, layout and tile, with what computes operands and follows,
over sequences of sizes, against NumPy.

Operands are small integers, whatever their dtype, so that every sum is exact and every tile gives NumPy's result to the
bit; only what follows with rounding (tanh, gradients) is compared within a few units.  A case is its seed:
`case(7).run()` repeats one, and

    python tests/test_random_products.py 10000 [first seed]

runs that many and prints how many calls they made.  The tile of each kernel is one of the tuner's space for vectors of
128, 256 or 512 bits, or any legal one; memory that nothing has written is NaN (see conftest.py).
"""

import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.autotune.products import product_tile, tiles_near
from tracejit.compiler import pipeline
from tracejit.ir.schedule import Schedule, Tile

CASES = int(os.environ.get("TRACEJIT_RANDOM_PRODUCTS", "120"))
WORK = 400_000  # multiply-adds of a call at most
EXTENTS = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100, 129, 257)
DTYPES = ("f8", "f8", "f4", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "u4", "u8", "?")

# How a product is written: the axes of both operands by letters, the expression, and what NumPy says for it where that
# has no such thing.
SPELLINGS: dict[str, tuple[Any, ...]] = {
    "a @ b": ("mk", "kn", lambda a, b: a @ b),
    "dot": ("mk", "kn", np.dot),
    "a @ b.T": ("mk", "nk", lambda a, b: a @ b.T),
    "a.T @ b": ("km", "kn", lambda a, b: a.T @ b),
    "a.T @ b.T": ("km", "nk", lambda a, b: a.T @ b.T),
    "(a @ b).T": ("mk", "kn", lambda a, b: (a @ b).T),
    "v @ M": ("k", "kn", lambda a, b: a @ b),
    "M @ v": ("mk", "k", lambda a, b: a @ b),
    "M.T @ v": ("km", "k", lambda a, b: a.T @ b),
    "v @ M.T": ("k", "nk", lambda a, b: a @ b.T),
    "dot of a row": ("k", "kn", np.dot),
    "v @ w": ("k", "k", lambda a, b: a @ b),
    "row @ M": ("k", "kn", lambda a, b: a[None, :] @ b),
    "M @ column": ("mk", "k", lambda a, b: a @ b[:, None]),
    "outer": ("m", "n", np.outer),
    "column @ row": ("m", "n", lambda a, b: a[:, None] @ b[None, :]),
    "inner": ("mk", "nk", np.inner),
    "tensordot 1": ("mk", "kn", lambda a, b: np.tensordot(a, b, 1)),
    "tensordot of two axes": ("mkj", "kjn", lambda a, b: np.tensordot(a, b, 2)),
    "tensordot across": ("kmj", "njk", lambda a, b: np.tensordot(a, b, ([0, 2], [2, 1]))),
    "batches": ("bmk", "bkn", np.matmul),
    "batches times one": ("bmk", "kn", np.matmul),
    "one times batches": ("mk", "bkn", np.matmul),
    "batches of batches": ("cbmk", "bkn", np.matmul),
    "batched rows": ("bk", "bkn", lambda a, b: (a[:, None, :] @ b)[:, 0]),
    "batched columns": ("bmk", "bk", lambda a, b: (a @ b[:, :, None])[..., 0]),
    "vmap of M @ v": ("bmk", "bk", lambda a, b: tj.vmap(np.matmul)(a, b), lambda a, b: np.einsum("bmk,bk->bm", a, b)),
    "vmap of v @ M": ("k", "bkn", lambda a, b: tj.vmap(np.matmul, in_axes=(None, 0))(a, b),
    lambda a, b: np.einsum("k,bkn->bn", a, b)),
    "gradient by W": ("mk", "k", lambda a, b: tj.grad(lambda w: np.sum(np.tanh(w @ b)))(a),
    lambda a, b: np.outer(slope(a @ b), b)),
    "gradient by v": ("mk", "k", lambda a, b: tj.grad(lambda v: np.sum(np.tanh(a @ v)))(b),
    lambda a, b: slope(a @ b) @ a),
    "gradient by M": ("mk", "kn", lambda a, b: tj.grad(lambda m: np.sum(np.tanh(a @ m)))(b),
    lambda a, b: a.T @ slope(a @ b)), **{
        f"einsum {text}": (*text.split("->")[0].split(","), lambda a, b, text=text: np.einsum(text, a, b))
        for text in (
            "mk,kn->mn", "mk,nk->mn", "km,kn->nm", "k,kn->n", "mk,k->m", "mk,mk->m", "mk,mk->", "m,n->mn", "m,n->nm",
            "bmk,bkn->bmn", "bmk,bnk->bnm", "bk,bkn->bn", "mbk,kn->mbn", "mkb,kn->mbn", "mjk,jkn->mn", "mjk,kjn->mn",
            "mj,jkn->mkn", "bcmk,bcnk->bcmn", "bmk,bnk->mn", "mk,kn->n", "bmk,k->bm", "bk,bk->b", "mk,nk->",
            "kmj,kjn->mn",
        )
    },
}  # fmt: skip


def slope(x: Any) -> Any:
    return 1 - np.tanh(x) ** 2


PROLOGUES: dict[str, Callable[[Any], Any]] = {
    "scaled": lambda x: x * x.dtype.type(2),
    "positive": lambda x: np.maximum(x, x.dtype.type(0)),
    "reversed": lambda x: x[::-1],
    "shifted": lambda x: np.roll(x, 1, axis=-1),
    "chosen": lambda x: np.where(x > x.dtype.type(0), x, x.dtype.type(1)),
    "widened": lambda x: x.astype(np.float64),
}

EPILOGUES: dict[str, Callable[[Any, Any], Any]] = {
    "positive": lambda p, c: np.maximum(p, p.dtype.type(0)),
    "biased": lambda p, c: p + c[: p.shape[-1]].astype(p.dtype) if p.ndim else p + p,
    "twice": lambda p, c: (p, p + p),
    "summed": lambda p, c: p.sum(axis=0) if p.ndim else p,
    "row maximum": lambda p, c: p.max(axis=-1, initial=p.dtype.type(0)) if p.ndim else p,
    "turned": lambda p, c: np.maximum(p.T, p.dtype.type(1)),
    "squared": lambda p, c: p * p,
    "tanh": lambda p, c: np.tanh(p.astype(np.float64) / 8),
    "dear": lambda p, c: np.exp(np.tanh(p.astype(np.float64) / 8)) + np.sin(p.astype(np.float64)),
    "chained": lambda p, c: p @ p.T if p.ndim == 2 else p,
    "first": lambda p, c: p[:1] if p.ndim else p,
    "without the last": lambda p, c: p[..., :-1] if p.ndim else p,
    "first half": lambda p, c: p[: p.shape[0] // 2] * p.dtype.type(2) if p.ndim else p,
    "corner": lambda p, c: p[..., :3, :2] if p.ndim > 1 else p,
    "behind": lambda p, c: p[..., 1:] if p.ndim else p,
    "itself and a part": lambda p, c: (p, p[:2]) if p.ndim else p,
    "part and positive": lambda p, c: (np.maximum(p[:2], p.dtype.type(0)), p.sum(axis=0)) if p.ndim else p,
    "every other": lambda p, c: p[..., ::2] if p.ndim else p,
    "flipped": lambda p, c: p[::-1] if p.ndim else p,
    "wrapped": lambda p, c: np.roll(p, 1, axis=-1) if p.ndim else p,
    "padded": lambda p, c: np.pad(p, 1) if p.ndim else p,
    "stacked": lambda p, c: np.stack([p, p + p]),
    "joined": lambda p, c: np.concatenate([p, p[:1]]) if p.ndim else p,
    "flat": lambda p, c: np.ravel(p),
    "spread": lambda p, c: p[None] + c[:3].astype(p.dtype).reshape((3,) + (1,) * p.ndim),
    "taken": lambda p, c: p[np.array([0, 0])] if p.ndim and p.shape[0] else p,
    "row of a column": lambda p, c: p[:, 0] + p[:, -1] if p.ndim == 2 and p.shape[1] else p,
    "written over": lambda p, c: written_over(p),
    "written into": lambda p, c: written_into(p),
    "of the diagonal": lambda p, c: np.diagonal(p) + p.dtype.type(0) if p.ndim == 2 else p,
    "lower": lambda p, c: np.tril(p) if p.ndim == 2 else p,
    "running": lambda p, c: np.cumsum(p, axis=0, dtype=p.dtype) if p.ndim else p,
}


def written_over(p: Any) -> Any:
    if p.ndim:
        p[..., :1] = p.dtype.type(1)
    return p


def written_into(p: Any) -> Any:
    if not p.ndim or not p.shape[0]:
        return p
    q = np.zeros((p.shape[0] + 1, *p.shape[1:]), p.dtype)
    q[: p.shape[0]] = p
    q[-1:] += p[:1]
    return q


ROUNDED = ("tanh", "dear")
LAYOUTS = ("C", "C", "C", "F", "reversed", "every other", "offset", "broadcast", "swapped")


def filled(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if dtype == np.bool_:
        return rng.random(shape) < 0.3
    return rng.integers(-2 if dtype.kind != "u" else 0, 3, shape).astype(dtype)


def laid_out(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, layout: str) -> np.ndarray:
    """Random elements, lying as `layout` says."""
    x = filled(rng, shape, dtype)
    if not shape:
        return x
    match layout:
        case "F":
            return np.asfortranarray(x)
        case "reversed":
            return x[::-1, ...][..., ::-1]
        case "every other":
            wide = filled(rng, (*shape[:-1], 2 * shape[-1] + 1), dtype)
            wide[..., 1::2] = x
            return wide[..., 1::2]
        case "offset":
            wide = filled(rng, tuple(n + 3 for n in shape), dtype)
            return wide[tuple(slice(1, n + 1) for n in shape)]
        case "broadcast":
            return np.broadcast_to(x[:1], shape) if shape[0] else x
        case "swapped":
            return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)
        case _:
            return x


def any_tile(rng: np.random.Generator) -> Tile:
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    width = pick(1, 2, 4, 8, 16)
    return Tile(
        int(rng.integers(1, 7)), width * int(rng.integers(1, 4)) if width > 1 else int(rng.integers(1, 6)), width,
        pick(1, 2, 5, 8, 16, 64), pick(1, 4, 8, 32, 512), pick(1, 8, 16, 64, 512), pick("none", "lhs", "rhs", "both"),
        pick("none", "tasks", "batch", "depth"), pick(1, 2, 16), pick("none", "lhs", "rhs", "lhs+rhs"),
    )  # fmt: skip


@contextmanager
def tiles_by(rng: np.random.Generator) -> Any:
    """Every product gets a tile of the tuner's space for some width of vectors, or any other;
    now and then its default."""
    usual = pipeline.choose

    def choose(kernel: Any, target: Any) -> Any:
        how = rng.random()
        if kernel.product is None or not target.vector_bits or how < 0.2:
            return usual(kernel, target)
        if how < 0.5:
            return Schedule((any_tile(rng),))
        bits = (128, 256, 512)[rng.integers(3)]
        tile = product_tile(kernel.product, bits)
        near = [] if tile is None else [tile, tile, *tiles_near(tile, kernel.product, bits)]
        return Schedule((near[rng.integers(len(near))],)) if near else usual(kernel, target)

    pipeline.choose = choose
    try:
        yield
    finally:
        pipeline.choose = usual


class Case:
    """One function and the calls made to it."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        pick = lambda options: options[rng.integers(len(options))]  # noqa: E731
        self.seed = seed
        self.spelling = pick(list(SPELLINGS))
        self.before = [pick([*PROLOGUES, *[""] * 10]) for _ in range(2)]
        self.after = pick([*EPILOGUES, *[""] * 6])
        first = np.dtype(pick(DTYPES))
        self.dtypes = (first, np.dtype(pick(DTYPES)) if rng.random() < 0.15 else first)
        self.rounded = self.spelling.startswith("gradient")
        if self.rounded:
            self.dtypes, self.before, self.after = (np.dtype(pick(["f4", "f8"])),) * 2, ["", ""], ""
        if np.bool_ in self.dtypes:  # what has no meaning for booleans, or another in NumPy's einsum
            self.before, self.after = ["", ""], ""
        self.dynamic = bool(rng.random() < 0.3)
        self.layouts = [pick(LAYOUTS) for _ in range(2)]
        self.restless = bool(rng.random() < 0.2)  # each call lays its arguments out anew
        self.backend = "reference" if rng.random() < 0.08 else "cpu"
        self.calls = [self._extents() for _ in range(4 if self.backend == "cpu" else 2)]

    def _extents(self) -> dict[str, int]:
        """An extent for each letter: often one for all, and no more work than is quick."""
        a, b = SPELLINGS[self.spelling][:2]
        letters = sorted({*a, *b})
        most = WORK if self.backend == "cpu" else WORK // 50
        while True:
            one = int(self.rng.choice(EXTENTS))
            same = self.rng.random() < 0.15
            found = {c: one if same else int(self.rng.choice(EXTENTS[:16] if c in "bcj" else EXTENTS)) for c in letters}
            if np.prod([max(n, 1) for n in found.values()]) <= most and (
                0 not in found.values() or self.rng.random() < 0.3
            ):
                return found

    def function(self, a: Any, b: Any, c: Any) -> Any:
        return self._around(SPELLINGS[self.spelling][2], a, b, c)

    def plain(self, a: Any, b: Any, c: Any) -> Any:
        return self._around(SPELLINGS[self.spelling][-1], a, b, c)

    def _around(self, product: Callable[[Any, Any], Any], a: Any, b: Any, c: Any) -> Any:
        x, y = (PROLOGUES[name](v) if name else v for name, v in zip(self.before, (a, b), strict=True))
        p = product(x, y)
        return EPILOGUES[self.after](p, c) if self.after else p

    def arguments(self, extents: dict[str, int]) -> list[np.ndarray]:
        if self.restless:
            self.layouts = [LAYOUTS[self.rng.integers(len(LAYOUTS))] for _ in range(2)]
        a, b = SPELLINGS[self.spelling][:2]
        shapes = [tuple(extents[letter] for letter in text) for text in (a, b)]
        operands = [
            laid_out(self.rng, s, d, layout) for s, d, layout in zip(shapes, self.dtypes, self.layouts, strict=True)
        ]
        return [*operands, filled(self.rng, (max([*EXTENTS, *extents.values()]) ** 2,), np.dtype("i4"))]

    def run(self) -> int:
        """Compare every call; how many there were."""
        compiled = tj.jit(self.function, dynamic_shapes=self.dynamic, backend=self.backend)
        for extents in self.calls:
            args = self.arguments(extents)
            with np.errstate(all="ignore"):
                expected = self.plain(*args)
                with tiles_by(self.rng):
                    result = compiled(*args)
            for r, e in zip(*(x if isinstance(x, tuple) else (x,) for x in (result, expected)), strict=True):
                self.compare(r, e, extents)
        return len(self.calls)

    def compare(self, result: Any, expected: Any, extents: dict[str, int]) -> None:
        what = f"case({self.seed}): {self!r} at {extents}"
        assert result.dtype == expected.dtype, f"{what}: {result.dtype}, not {expected.dtype}"
        assert np.shape(result) == np.shape(expected), f"{what}: {np.shape(result)}, not {np.shape(expected)}"
        if self.rounded:
            np.testing.assert_allclose(
                result, expected, rtol=1e-5 if expected.dtype == np.float32 else 1e-12, atol=1e-5, err_msg=what
            )
        elif self.after in ROUNDED:
            np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12, err_msg=what)
        else:
            np.testing.assert_array_equal(result, expected, err_msg=what)

    def __repr__(self) -> str:
        steps = [
            self.spelling,
            *(f"{n} {x}" for n, x in zip("ab", self.before, strict=True) if x),
            *([self.after] if self.after else []),
        ]
        how = [
            str(self.dtypes[0]),
            str(self.dtypes[1]),
            *self.layouts,
            self.backend,
            *(["dynamic"] if self.dynamic else []),
        ]
        return f"{', '.join(steps)} ({' '.join(how)})"


def case(seed: int) -> Case:
    return Case(seed)


@pytest.mark.parametrize("block", range(12))
def test_random_products_are_numpys(block):
    for seed in range(block * CASES // 12, (block + 1) * CASES // 12):
        case(seed).run()


if __name__ == "__main__":
    count, start, calls = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, 0
    wrong: list[str] = []
    for seed in range(start, start + count):
        try:
            calls += case(seed).run()
        except Exception as error:  # all are wanted, with the seed that repeats them
            wrong.append(f"{seed}: {case(seed)!r}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            print(wrong[-1], flush=True)
    print(f"{count} random products, {calls} calls, {len(wrong)} wrong")
    sys.exit(bool(wrong))
