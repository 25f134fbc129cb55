"""lax.gather and lax.scatter with all their dimension numbers, against loops over indices."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import frozen

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError

lax = tj.lax
MODES = ["clip", "fill", "promise_in_bounds"]
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "scatter": lambda old, new: new,
    "scatter_add": np.add,
    "scatter_sub": np.subtract,
    "scatter_mul": np.multiply,
    "scatter_min": np.minimum,
    "scatter_max": np.maximum,
}


@frozen
class Case:
    """An operand's shape, indices, and which axes are what, as for a gather; those of results are those of updates."""

    shape: tuple[int, ...]
    indices: np.ndarray
    sizes: tuple[int, ...]
    mapped: tuple[int, ...]
    single: tuple[int, ...]
    batching: tuple[int, ...]
    of_indices: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def windows(self) -> list[int]:
        return [d for d in range(len(self.shape)) if d not in (*self.single, *self.batching)]

    @property
    def of_gather(self) -> Any:
        return lax.GatherDimensionNumbers(self.offsets, self.single, self.mapped, self.batching, self.of_indices)

    @property
    def of_scatter(self) -> Any:
        return lax.ScatterDimensionNumbers(self.offsets, self.single, self.mapped, self.batching, self.of_indices)

    @property
    def out_shape(self) -> tuple[int, ...]:
        batch, windows = iter(self.indices.shape[:-1]), iter([self.sizes[d] for d in self.windows])
        rank = self.indices.ndim - 1 + len(self.windows)
        return tuple(next(windows) if k in self.offsets else next(batch) for k in range(rank))

    def places(self, clip: bool) -> Any:
        """(place in the operand, place in the result, whether the window lies inside) of every element of a window."""
        axes = [k for k in range(len(self.out_shape)) if k not in self.offsets]
        for b in itertools.product(*map(range, self.indices.shape[:-1])):
            start = [0] * len(self.shape)
            for d, s in zip(self.mapped, self.indices[b], strict=True):
                start[d] = int(s)
            for d, k in zip(self.batching, self.of_indices, strict=True):
                start[d] = b[k]
            last = [n - m for n, m in zip(self.shape, self.sizes, strict=True)]
            inside = all(0 <= s <= e for s, e in zip(start, last, strict=True))
            if clip:
                start = [min(max(s, 0), e) for s, e in zip(start, last, strict=True)]
            for w in itertools.product(*[range(self.sizes[d]) for d in self.windows]):
                place, there = list(start), [0] * len(self.out_shape)
                for d, k, o in zip(self.windows, w, self.offsets, strict=True):
                    place[d] += k
                    there[o] = k
                for a, k in zip(axes, b, strict=True):
                    there[a] = k
                yield tuple(place), tuple(there), inside or clip

    def gathered(self, x: np.ndarray, mode: str, fill: Any) -> np.ndarray:
        out = np.full(self.out_shape, fill, x.dtype)
        for place, there, inside in self.places(mode != "fill"):
            if inside:
                out[there] = x[place]
        return out

    def scattered(self, x: np.ndarray, updates: np.ndarray, name: str, mode: str) -> np.ndarray:
        out = x.copy()
        for place, there, inside in self.places(mode == "clip"):
            if inside:
                out[place] = COMBINE[name](out[place], updates[there])
        return out


def case(seed: int, apart: bool = False) -> Case:
    """apart: no two windows share an element."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, 5, rank))
    batch = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
    axes = rng.permutation(rank).tolist()
    batching: list[int] = []
    of_indices: list[int] = []
    if batch and rng.random() < 0.4:
        k = int(rng.integers(len(batch)))
        d = axes.pop()
        batching, of_indices = [d], [k]
        batch[k] = shape[d]
    mapped = axes[: int(rng.integers(0, len(axes) + 1))]
    sizes = [int(rng.integers(0 if n > 2 else 1, n + 1)) for n in shape]
    single = sorted(d for d in axes if rng.random() < 0.5)
    for d in (*single, *batching):
        sizes[d] = 1
    indices = rng.integers(-1, max(shape) + 1, (*batch, len(mapped)))
    windows = rank - len(single) - len(batching)
    offsets = sorted(rng.permutation(len(batch) + windows)[:windows].tolist())
    return Case(
        shape, indices, tuple(sizes), tuple(mapped), tuple(single), tuple(batching), tuple(of_indices), tuple(offsets)
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seeds", range(4))
def test_gather_takes_the_windows_that_loops_take(seeds: int, mode: str):
    for seed in range(20 * seeds, 20 * seeds + 20):
        c = case(seed)
        x = np.random.default_rng(seed).standard_normal(c.shape)
        want = c.gathered(x, mode, np.nan)
        got = lax.gather(x, c.indices, c.of_gather, c.sizes, mode=mode)
        np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}")
        if seed % 4 == 0:
            f = tj.jit(lambda x, i, c=c: lax.gather(x, i, c.of_gather, c.sizes, mode=mode))
            np.testing.assert_array_equal(f(x, c.indices), want, err_msg=f"seed {seed}")


@pytest.mark.parametrize("name", COMBINE)
@pytest.mark.parametrize("mode", MODES)
def test_scatter_changes_what_loops_change(name: str, mode: str):
    for seed in range(25):
        c = case(seed)
        rng = np.random.default_rng(seed)
        x, updates = rng.integers(1, 9, c.shape).astype("f8"), rng.integers(1, 9, c.out_shape).astype("f8")
        want = c.scattered(x, updates, name, mode)
        got = getattr(lax, name)(x, c.indices, updates, c.of_scatter, mode=mode)
        np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}")
        if seed % 6 == 0:
            f = tj.jit(lambda x, i, u, c=c: getattr(lax, name)(x, i, u, c.of_scatter, mode=mode))
            np.testing.assert_array_equal(f(x, c.indices, updates), want, err_msg=f"seed {seed}")


ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
INTO_ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.opencl
def test_other_backends_agree(backend: str, record_backend: Callable[[str], None]):
    record_backend(backend)
    rng = np.random.default_rng(0)
    x, u = rng.integers(1, 9, (4, 3)), rng.integers(1, 9, (6, 3))
    i = np.array([[0], [2], [2], [7], [-1], [3]])

    def f(x: Any, i: Any, u: Any) -> Any:
        return (
            lax.gather(x, i, ROWS, (1, 3), mode="fill", fill_value=-7),
            *[getattr(lax, name)(x, i, u, INTO_ROWS) for name in COMBINE],
            lax.scatter_apply(x, i, lambda v: v * 2 + 1, INTO_ROWS, update_shape=u.shape),
        )

    for got, want in zip(tj.jit(f, backend=backend)(x, i, u), f(x, i, u), strict=True):
        np.testing.assert_array_equal(got, want)


def test_one_program_serves_arrays_of_many_sizes():
    def f(x: Any, i: Any, u: Any) -> Any:
        n = x.shape[1]
        return (
            lax.gather(x, i, ROWS, (1, n), mode="fill"),
            lax.scatter_mul(x, i, u, INTO_ROWS),
            lax.scatter(x, i, u, INTO_ROWS, mode="clip"),
        )

    g = tj.jit(f)
    for m, n, k in ((4, 3, 5), (2, 3, 2), (3, 7, 4), (1, 1, 1), (5, 2, 0), (6, 4, 9)):
        rng = np.random.default_rng(m)
        x, u, i = rng.standard_normal((m, n)), rng.standard_normal((k, n)), rng.integers(-1, m + 1, (k, 1))
        for got, want in zip(g(x, i, u), f(x, i, u), strict=True):
            np.testing.assert_array_equal(got, want)


# -- derivatives -------------------------------------------------------------------------------------------------------
def slope(f: Callable[..., Any], args: list[Any], directions: list[Any], h: float = 1e-6) -> Any:
    ahead = f(*[a + h * t for a, t in zip(args, directions, strict=True)])
    behind = f(*[a - h * t for a, t in zip(args, directions, strict=True)])
    return (np.asarray(ahead) - np.asarray(behind)) / (2 * h)


def check_derivatives(f: Callable[..., Any], args: list[Any]) -> None:
    """Forward mode against central differences, reverse mode against forward mode."""
    rng = np.random.default_rng(5)
    t = [rng.standard_normal(a.shape) for a in args]
    out, tangent = tj.jvp(f, tuple(args), tuple(t))
    np.testing.assert_allclose(tangent, slope(f, args, t), rtol=1e-6, atol=1e-6)
    ct = rng.standard_normal(np.shape(out))
    pulled = tj.vjp(f, *args)[1](ct)
    left = np.sum(ct * np.asarray(tangent))
    right = sum(np.sum(np.asarray(p) * d) for p, d in zip(pulled, t, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", COMBINE)
@pytest.mark.parametrize("unique", [False, True])
def test_derivatives_of_scatters(name: str, unique: bool):
    rng = np.random.default_rng(1)
    x = rng.permutation(np.linspace(-2.0, 2.0, 12)).reshape(4, 3)
    i = np.array([[0], [3], [9]] if unique else [[0], [3], [3], [9], [0]])
    u = rng.permutation(np.linspace(-1.9, 1.7, 3 * len(i))).reshape(len(i), 3)
    run = getattr(lax, name)
    check_derivatives(lambda x, u: run(x, i, u, INTO_ROWS, unique_indices=unique), [x, u])


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_of_gather(mode: str):
    x = np.random.default_rng(1).standard_normal((4, 3))
    i = np.array([[0], [3], [3], [9], [-2]])
    check_derivatives(lambda x: lax.gather(x, i, ROWS, (1, 3), mode=mode, fill_value=0.5), [x])


def test_products_with_zeros_have_derivatives_of_second_order_too():
    i = np.array([[1], [0], [1], [1]])
    each = lax.ScatterDimensionNumbers((), (0,), (0,))

    def f(u: Any) -> Any:
        return lax.scatter_mul(np.array([2.0, 3.0]), i, u, each).sum()

    u = np.array([0.0, 5.0, 0.0, 7.0])  # 2 * u1 + 3 * u0 * u2 * u3
    np.testing.assert_allclose(tj.grad(f)(u), [0.0, 2.0, 0.0, 0.0])
    want = np.zeros((4, 4))
    want[0, 2] = want[2, 0] = 3 * 7.0
    np.testing.assert_allclose(tj.hessian(f)(u), want)
    v = np.array([0.0, 5.0, 4.0, 7.0])
    np.testing.assert_allclose(tj.grad(f)(v), [84.0, 2.0, 0.0, 0.0])
    np.testing.assert_allclose(tj.jit(tj.grad(f))(v), [84.0, 2.0, 0.0, 0.0])


def test_extrema_that_are_equal_share_the_derivative():
    each = lax.ScatterDimensionNumbers((), (0,), (0,))
    i = np.array([[0], [0], [1]])
    of = tj.grad(lambda x, u: lax.scatter_max(x, i, u, each).sum(), argnums=(0, 1))
    of_x, of_u = of(np.array([2.0, 1.0]), np.array([2.0, 2.0, 5.0]))
    np.testing.assert_allclose(of_x, [1 / 3, 0])
    np.testing.assert_allclose(of_u, [1 / 3, 1 / 3, 1])


@pytest.mark.parametrize("name", ["gather", *COMBINE])
def test_batches_agree_with_a_loop(name: str):
    for seed in range(12):
        c = case(seed)
        rng = np.random.default_rng(seed)
        x, u = rng.integers(1, 9, (3, *c.shape)), rng.integers(1, 9, (3, *c.out_shape))
        i = np.stack([c.indices, np.roll(c.indices, 1), c.indices + 1])

        def f(x: Any, i: Any, u: Any, c: Case = c) -> Any:
            if name == "gather":
                return lax.gather(x, i, c.of_gather, c.sizes, mode="fill", fill_value=-1)
            return getattr(lax, name)(x, i, u, c.of_scatter)

        for axes in ((0, 0, 0), (0, None, 0), (None, 0, None)):
            args = [a if d == 0 else a[0] for a, d in zip((x, i, u), axes, strict=True)]
            want = np.stack([f(*[a[k] if d == 0 else a for a, d in zip(args, axes, strict=True)]) for k in range(3)])
            np.testing.assert_array_equal(tj.vmap(f, in_axes=axes)(*args), want, err_msg=f"seed {seed}, {axes}")


# -- single functions --------------------------------------------------------------------------------------------------
def test_scatter_apply_applies_as_often_as_an_element_is_named():
    each = lax.ScatterDimensionNumbers((), (0,), (0,))
    x, i = np.array([1.0, 2.0, 3.0]), np.array([[0], [0], [2], [5]])

    def f(x: Any) -> Any:
        return lax.scatter_apply(x, i, np.square, each, update_shape=(4,))

    np.testing.assert_array_equal(f(x + 1), [16.0, 3.0, 16.0])
    np.testing.assert_array_equal(tj.jit(f)(x + 1), [16.0, 3.0, 16.0])
    np.testing.assert_allclose(tj.grad(lambda x: f(x).sum())(x + 1), [4 * 8.0, 1.0, 8.0])
    apart = tj.jit(lambda x: lax.scatter_apply(x, i[1:], np.exp, each, update_shape=(3,), unique_indices=True))
    np.testing.assert_allclose(apart(x), [np.exp(1.0), 2.0, np.exp(3.0)])


def test_windows_that_lie_inside_in_part_are_left_out_whole():
    pairs = lax.ScatterDimensionNumbers((1,), (), (0,))
    x, i, u = np.zeros(4), np.array([[3], [-1], [1]]), np.ones((3, 2))
    np.testing.assert_array_equal(lax.scatter(x, i, u, pairs), [0, 1, 1, 0])
    np.testing.assert_array_equal(lax.scatter(x, i, u, pairs, mode="clip"), [1, 1, 1, 1])


def test_index_take_goes_around_the_ends():
    x = np.arange(24.0).reshape(2, 3, 4)
    i, j = np.array([0, -1, 5]), np.array([1, 7, -2])
    np.testing.assert_array_equal(lax.index_take(x, (i, j), (0, 2)), x[i % 2, :, j % 4])
    np.testing.assert_array_equal(tj.jit(lambda x, i: lax.index_take(x, (i,), (1,)))(x, i), x[:, i % 3].swapaxes(0, 1))


def test_split_gives_the_parts():
    x = np.arange(10.0).reshape(2, 5)
    f = tj.jit(lambda x: lax.split(x, (1, 0, 4), axis=1))
    for got, want in zip(f(x), (x[:, :1], x[:, 1:1], x[:, 1:]), strict=True):
        np.testing.assert_array_equal(got, want)
    back = tj.grad(lambda x: lax.split(x, (1, 4), axis=-1)[1].sum())(x)
    np.testing.assert_array_equal(back, [[0, 1, 1, 1, 1]] * 2)
    with pytest.raises(ShapeError, match="are not those of axis"):
        lax.split(x, (2, 2))
    with pytest.raises(ValueError, match="-1 is no size"):
        lax.split(x, (3, -1), axis=0)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((1,), (0,), (0, 1)), (1, 3)),
            ShapeError,
            "1 numbers",
        ),
        (lambda x, i: lax.gather(x, i, ROWS, (2, 3)), ShapeError, "no window has 2"),
        (lambda x, i: lax.gather(x, i, ROWS, (1, 4)), ShapeError, "no window has 4"),
        (lambda x, i: lax.gather(x, i, ROWS, (1, 3), mode="wrap"), ValueError, "not 'wrap'"),
        (lambda x, i: lax.gather(x, i * 1.0, ROWS, (1, 3)), DtypeError, "indices are integers"),
        (
            lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((0, 1), (0,), (0,)), (1, 3)),
            ShapeError,
            "offset_dims",
        ),
        (lambda x, i: lax.scatter(x, i, np.ones((2, 3), int), INTO_ROWS), DtypeError, "differ in dtype"),
        (lambda x, i: lax.scatter(x, i, np.ones((4, 3)), INTO_ROWS), ShapeError, "updates of shape"),
        (lambda x, i: lax.scatter_add(x > 0, i, np.ones((2, 3), bool), INTO_ROWS), DtypeError, "does not accept bool"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[..., Any], error: type[Exception], text: str):
    x, i = np.arange(12.0).reshape(4, 3), np.array([[0], [1]])
    for f in (call, tj.jit(call)):
        with pytest.raises(error, match=text):
            f(x, i)
