"""Tiled matrix products: any tile gives the product, on the interpreter that checks every access and on the CPU."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tracejit as tj
from tracejit.autotune.products import product_tile
from tracejit.backends.registry import get_backend
from tracejit.compiler.pipeline import lower_jaxpr
from tracejit.ir.extents import Dim
from tracejit.ir.kernel import Axis, Factor, For, MatrixProduct, Store, walk
from tracejit.ir.schedule import Schedule, Tile, apply, parse_schedule
from tracejit.support.errors import ScheduleError


def tiled(function, args, tile, backend="cpu", dynamic=False):
    """The program of a function in which every product has this tile, and its result."""
    f = tj.jit(function, dynamic_shapes=dynamic)
    lowered = f.lower(*args)
    if dynamic:
        f(*args)
        (lowered,) = [version.lowered for version in f._state.versions.values()]
        assert any(not isinstance(n, int) for v in lowered.jaxpr.inputs for n in v.aval.shape)
    pick = lambda kernel: Schedule((tile,) if kernel.product else ())  # noqa: E731
    again = lower_jaxpr(lowered.jaxpr, get_backend(backend), ["C"] * len(args), schedule=pick)
    assert str(tile) in again.text("schedule")
    dims = {}
    for v, a in zip(again.jaxpr.inputs, args, strict=True):
        dims |= {str(n): x for n, x in zip(v.aval.shape, a.shape, strict=True) if not isinstance(n, int)}
    return again, again.compile().run(args, dims)[0]


def operands(m, n, k, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, (m, k)).astype(dtype), rng.integers(-4, 5, (k, n)).astype(dtype)


TILES = st.builds(
    Tile,
    rows=st.integers(1, 5),
    columns=st.sampled_from([2, 4, 6, 8, 16]),
    width=st.sampled_from([1, 2, 4]),
    depth=st.integers(1, 9),
    tall=st.integers(1, 12),
    wide=st.integers(1, 20),
    pack=st.sampled_from(["none", "lhs", "rhs", "both"]),
    share=st.sampled_from(["none", "tasks", "batch", "depth"]),
    grain=st.integers(1, 12),
    flip=st.sampled_from(["none", "lhs", "rhs", "lhs+rhs"]),
)


@settings(max_examples=20)
@given(TILES, st.integers(2, 13), st.integers(2, 21), st.integers(120, 140).map(lambda x: x // 8), st.booleans())
def test_any_tile_gives_the_product_when_interpreted(tile, m, n, k, dynamic):
    m += 12  # enough work to be a product
    a, b = operands(m, n + 8, k)
    np.testing.assert_array_equal(tiled(lambda a, b: a @ b, (a, b), tile, "reference", dynamic)[1], a @ b)


@settings(max_examples=25)
@given(TILES, st.integers(12, 40), st.integers(12, 40), st.integers(15, 60), st.booleans())
def test_any_tile_gives_the_product_when_compiled(tile, m, n, k, dynamic):
    a, b = operands(m, n, k)
    bias = np.arange(float(n))
    np.testing.assert_array_equal(
        tiled(lambda a, b, c: np.maximum(a @ b + c, 1), (a, b, bias), tile, "cpu", dynamic)[1],
        np.maximum(a @ b + bias, 1),
    )


@settings(max_examples=12)
@given(TILES, st.integers(2, 5), st.integers(12, 24), st.integers(12, 24), st.integers(15, 30))
def test_any_tile_gives_batches_when_compiled(tile, count, m, n, k):
    rng = np.random.default_rng(m)
    a, b = rng.integers(-4, 5, (count, m, k)).astype("f4"), rng.integers(-4, 5, (count, k, n)).astype("f4")
    np.testing.assert_array_equal(tiled(np.matmul, (a, b), tile)[1], a @ b)


@settings(max_examples=25)
@given(TILES, st.integers(8, 70), st.integers(16, 70), st.booleans(), st.booleans())
def test_any_tile_gives_rows_times_matrices(tile, n, k, turned, dynamic):
    a, b = operands(1, n, k)
    f, args, expected = (
        (lambda a, b: b.T @ a, (a[0], b), a[0] @ b) if turned else (lambda a, b: a @ b, (a[0], b), a[0] @ b)
    )
    np.testing.assert_array_equal(tiled(f, args, tile, dynamic=dynamic)[1], expected)


@pytest.mark.parametrize("share", ["none", "tasks", "batch", "depth"])
@pytest.mark.parametrize("columns", [2, 8, 64])
def test_rows_times_matrices_of_symbolic_extents_store_each_element_once(share, columns):
    a, b = operands(1, 33, 40)
    tile = Tile(1, columns, 2, 8, 1, 512, "none", share, 1, "none")
    for backend in ("cpu", "reference"):
        lowered, result = tiled(lambda a, b: np.maximum(a @ b, 1), (a[0], b), tile, backend, dynamic=True)
        np.testing.assert_array_equal(result, np.maximum(a[0] @ b, 1))
        (kernel,) = lowered.program.kernels()
        stores = [s for s in walk(kernel.body) if isinstance(s, Store) and s.buffer in kernel.buffers]
        assert len(stores) == 1  # no tile is incomplete: the vector loop ends where the columns end


def test_a_dear_epilogue_runs_once_for_each_element():
    a, b = operands(24, 32, 40)
    lowered, result = tiled(lambda a, b: np.tanh(np.exp(a @ b / 100)), (a, b), Tile(4, 8, 4, 64, 24, 32))
    np.testing.assert_allclose(result, np.tanh(np.exp(a @ b / 100)), rtol=1e-12)
    kernel = lowered.program.kernels()[0]
    assert str(kernel).count("= tanh") == 1


def test_the_micro_kernel_is_rows_around_columns_around_the_contracted_axis():
    lowered, _ = tiled(lambda a, b: a @ b, operands(24, 32, 40), Tile(6, 16, 8, 64, 24, 32, "both"))
    (kernel,) = lowered.program.kernels()
    (rows,) = [
        s
        for s in walk(kernel.body)
        if isinstance(s, For)
        and s.axis == Axis("unroll")
        and any(isinstance(x, For) and x.params for x in walk(s.body))
    ]
    (columns,) = [s for s in rows.body if isinstance(s, For)]
    (fold,) = [s for s in columns.body if isinstance(s, For)]
    assert (rows.upper.value, columns.axis, fold.upper.value) == (6, Axis("vector", 8, 2), 40)


def test_operands_that_are_computed_are_computed_while_packing():
    lowered, result = tiled(
        lambda a, b: np.maximum(a, 1) @ (b * 2).T,
        (operands(24, 0, 40)[0], operands(32, 0, 40)[0]),
        Tile(4, 8, 4, 64, 24, 32, "both", flip="rhs"),
    )
    assert len(lowered.program.kernels()) == 1
    assert not lowered.log.refusals[:-1]
    a, b = operands(24, 0, 40)[0], operands(32, 0, 40)[0]
    np.testing.assert_array_equal(result, np.maximum(a, 1) @ (b * 2).T)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda a, b: (a @ b).max(axis=1), "a matrix product runs tile by tile"),
        (lambda a, b: np.exp((a @ b).T), "what follows a matrix product there is not element by element"),
        (lambda a, b: a @ b + (2 * a) @ (b + 1), "a kernel holds one matrix product"),
        (lambda a, b: (a @ b + 1) @ (b.T @ b), "it follows another matrix product"),
        (lambda a, b: np.sin(a) @ b, "a matrix product may pack an element more than once"),
    ],
)
def test_refusals_have_a_reason(function, reason):
    args = operands(40, 40, 40)
    assert reason in tj.jit(function).lower(*args).text("fused")


def test_schedules_of_products_print_and_parse():
    tile = Tile(6, 16, 8, 256, 132, 1024, "both", "tasks", 1, "lhs+rhs")
    assert str(tile) == "tile 6 16 8 256 132 1024 both tasks 1 lhs+rhs"
    assert parse_schedule(str(tile)) == Schedule((tile,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tile 0 16 8 256 132 1024", "sizes must be positive"),
        ("tile 6 16 3 256 132 1024", "the width a power of two"),
        ("tile 6 16 8 256 132 1024 all", "pack is one of none, lhs, rhs, both"),
        ("tile 6 16 8 256 132 1024 both rows", "share is one of"),
    ],
)
def test_illegal_tiles_are_refused(text, message):
    (kernel, _, _), *_ = tj.jit(lambda a, b: a @ b).lower(*operands(40, 40, 40)).log.kernels
    with pytest.raises(ScheduleError, match=message):
        apply(kernel, parse_schedule(text))


def test_a_kernel_that_is_no_product_has_no_tile():
    (kernel, _, _), *_ = tj.jit(lambda a: a + 1).lower(np.ones(9)).log.kernels
    with pytest.raises(ScheduleError, match="is no matrix product"):
        apply(kernel, parse_schedule("tile 6 16 8 256 132 1024"))


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8"])
@pytest.mark.parametrize(
    "extents",
    [
        (64, 64, 64),
        (1024, 1024, 1024),
        (3, 5000, 40),
        (None, None, None),
        (16, 16, 16),
        (1, 4096, 4096),
        (32, 32, 100000),
    ],
)
@pytest.mark.parametrize(
    "lies",
    [(Factor("k"), Factor("n")), (Factor("m"), Factor("k")), (Factor("x", computed=True), Factor("n", computed=True))],
)
def test_default_tiles_fit_the_registers_and_cover_the_product(bits, dtype, extents, lies):
    m, n, k = (Dim.symbol(s) if x is None else x for s, x in zip("mnk", extents, strict=True))
    tile = product_tile(MatrixProduct(dtype, 1, m, n, k, *lies), bits)
    if tile is None:
        assert m == 1
        return
    vectors = tile.columns // tile.width
    assert tile.rows * vectors + (vectors + 1 if tile.rows > 1 else 1) <= (16 if bits <= 256 else 32)
    assert tile.tall >= tile.rows
    assert tile.wide >= min(tile.columns, n if isinstance(n, int) else tile.columns)
    assert parse_schedule(str(tile)) == Schedule((tile,))
