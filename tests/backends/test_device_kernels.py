"""Kernels bound, printed, compiled and run on a device of each driver, against NumPy."""

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

from tracejit.backends.device.device import Device
from tracejit.backends.device.memory import DeviceBuffer
from tracejit.backends.grid import GridSchedule, bind_grid
from tracejit.ir.check import check_kernel
from tracejit.ir.extents import evaluate
from tracejit.ir.kernel import For, Load, walk
from tracejit.ir.scalar import numpy_dtype
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import LaunchError, OutOfMemory


def run(
    device: Device,
    text: str,
    schedule: GridSchedule | None = None,
    dims: dict[str, int] | None = None,
    **arrays: np.ndarray,
) -> Any:
    """Launch a kernel on `arrays`, given by buffer name; its outputs,
    one or a tuple.  Outputs that are not given start as garbage."""
    kernel, dims = parse_kernel(text), dims or {}
    check_kernel(kernel)
    for launch in bind_grid(kernel, schedule).launches:
        check_kernel(launch.kernel)
    shapes = [tuple(evaluate(n, dims) for n in b.shape) for b in kernel.buffers]
    garbage = [np.full(shape, 77, numpy_dtype(b.dtype)) for b, shape in zip(kernel.buffers, shapes, strict=True)]
    buffers = [upload(device, arrays.get(b.name, g)) for b, g in zip(kernel.buffers, garbage, strict=True)]
    device.compile_kernel(kernel, schedule).launch(buffers, dims)
    outs = [
        device.to_host(d, numpy_dtype(b.dtype), shape)
        for b, d, shape in zip(kernel.buffers, buffers, shapes, strict=True)
        if b.name in kernel.outputs
    ]
    return outs[0] if len(outs) == 1 else tuple(outs)


def upload(device: Device, array: np.ndarray) -> DeviceBuffer:
    """A device copy that keeps the strides of `array`: the bytes it spans, and where its first element lies."""
    if array.flags.c_contiguous:
        return device.from_host(array)
    low, high = np.lib.array_utils.byte_bounds(array)
    span = np.frombuffer((ctypes.c_ubyte * (high - low)).from_address(low), np.uint8)
    return device.from_host(span).view(array.__array_interface__["data"][0] - low, array.strides)


def normal(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(11).standard_normal(shape).astype(dtype)


def names(text: str, schedule: GridSchedule | None = None) -> list[tuple[str, bool]]:
    """(name, one group an iteration) of each device kernel."""
    return [(a.kernel.name, a.grouped) for a in bind_grid(parse_kernel(text), schedule).launches]


BROADCAST = """
kernel scale(x: f32[5, n, 7] C, row: f32[7] C, column: f64[n, 1] C, out: f64[5, n, 7] C out) dims(n) {
  for %i in 0..5 {
    for %j in 0..n {
      %c = load column[%j, 0]
      for %k in 0..7 {
        %a = load x[%i, %j, %k]
        %b = load row[%k]
        %p = mul %a %b
        %q: f64 = convert %p
        %s = add %q %c
        store out[%i, %j, %k] = %s
      }
    }
  }
}
"""


def test_elementwise_with_broadcasting_over_symbolic_extents(device: Device):
    for n in (1, 3, 40):
        x, row, column = normal(5, n, 7), normal(7), normal(n, 1, dtype="f8")
        out = run(device, BROADCAST, dims={"n": n}, x=x, row=row, column=column)
        assert np.array_equal(out, (x * row).astype("f8") + column)


def test_an_empty_extent_launches_nothing(device: Device):
    out = run(device, BROADCAST, dims={"n": 0}, x=normal(5, 0, 7), row=normal(7), column=normal(0, 1, dtype="f8"))
    assert out.shape == (5, 0, 7)


def test_a_multiply_and_an_add_of_the_user_are_never_contracted(device: Device):
    text = """
    kernel f(x: f32[4096] C, y: f32[4096] C, z: f32[4096] C, out: f32[4096] C out) {
      for %i in 0..4096 {
        %a = load x[%i]
        %b = load y[%i]
        %c = load z[%i]
        %p = mul %a %b
        %s = add %p %c
        store out[%i] = %s
      }
    }
    """
    x, y, z = normal(3, 4096)
    z = -(x * y) * np.float32(1 + 2**-20)
    assert np.array_equal(run(device, text, x=x, y=y, z=z), x * y + z)


SOFTMAX = """
kernel softmax(x: f32[n, m] C, out: f32[n, m] C out) dims(m, n) {
  for %i in 0..n {
    alloc row: f32[m] C local
    %top = for %j in 0..m carry(%a = -inf:f32) combine(%p, %q) { %r = max %p %q; yield %r } {
      %v = load x[%i, %j]
      %w = max %a %v
      yield %w
    }
    %sum = for %k in 0..m carry(%b = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
      %v = load x[%i, %k]
      %d = sub %v %top
      %e = exp %d
      store row[%k] = %e
      %w = add %b %e
      yield %w
    }
    for %l in 0..m {
      %e = load row[%l]
      %s = div %e %sum
      store out[%i, %l] = %s
    }
  }
}
"""


@pytest.mark.parametrize("rows", ["item", "group"])
@pytest.mark.parametrize("constant", [False, True], ids=["symbolic", "constant"])
def test_row_softmax_with_a_kept_row(device: Device, rows: str, constant: bool):
    n, m = 13, 333
    text = (
        SOFTMAX.replace(" dims(m, n)", "").replace("[m]", f"[{m}]").replace("n, m]", f"{n}, {m}]")
        if constant
        else SOFTMAX
    )
    text = text.replace("..m", f"..{m}").replace("..n", f"..{n}") if constant else text
    schedule = GridSchedule(rows=rows, work_group=32)
    x = normal(n, m) * 10
    out = run(device, text, schedule, dims={} if constant else {"n": n, "m": m}, x=x)
    e = np.exp((x - x.max(1, keepdims=True)).astype("f8"))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=2e-6)


def test_a_row_of_constant_length_takes_a_group_and_shared_memory():
    text = SOFTMAX.replace(" dims(m, n)", " dims(n)").replace("m]", "512]").replace("..m", "..512")
    (launch,) = bind_grid(parse_kernel(text)).launches
    assert launch.grouped
    assert launch.items({"n": 10}) == 10 * GridSchedule().work_group
    assert "shared" in str(launch.kernel)
    short = text.replace("512", "16")
    assert names(short) == [("softmax", False)]


PACKED = """
kernel mixed(x: f32[n] C, h: f16[n] C, m: bool[n] C, k: i8[n] C, at: i64[n] C, t: f64[7] C, y: f64[n] C out,
  g: f16[n] C out, f: bool[n] C out, z: i64[n] C out) dims(n) {
  %s = load t[3]
  for %i in 0..n {
    %a = load x[%i]; %b = load h[%i]; %c = load m[%i]; %d = load k[%i]; %p = load at[%i]; %q = load t[%p]
    %old = load z[%i]
    %w: f64 = convert %a
    %u = mul %w %q
    %v = add %u %s
    store y[%i] = %v
    %e = exp %b
    store g[%i] = %e
    %l: bool = convert %d
    %o = and %c %l
    store f[%i] = %o
    %j = add %i %old
    store z[%i] = %j
  }
}
"""


@pytest.mark.parametrize("constant", [False, True], ids=["symbolic", "constant"])
@pytest.mark.parametrize("pack", [2, 4, 8])
def test_a_work_item_may_take_several_neighbours(device: Device, pack: int, constant: bool):
    schedule = GridSchedule(work_group=8, pack=pack, pack_extent=1)
    for n in (8, 64, 99) if constant else (0, 1, 7, 64, 100):
        text = PACKED.replace(" dims(n)", "").replace("[n]", f"[{n}]").replace("..n", f"..{n}") if constant else PACKED
        rng = np.random.default_rng(n)
        x, h, m = normal(n), normal(n, dtype="f2"), rng.random(n) < 0.5
        k, at, t = rng.integers(-1, 2, n).astype("i1"), rng.integers(0, 7, n), normal(7, dtype="f8")
        z = rng.integers(0, 9, n)
        y, g, f, new = run(device, text, schedule, {} if constant else {"n": n}, x=x, h=h, m=m, k=k, at=at, t=t, z=z)
        (launch,) = bind_grid(parse_kernel(text), schedule).launches
        assert launch.packed == pack
        assert launch.items({"n": n}) == -(-n // (8 * pack)) * 8
        assert np.array_equal(y, x.astype("f8") * t[at] + t[3])
        np.testing.assert_allclose(g, np.exp(h), rtol=2e-3)
        assert np.array_equal(f, m & (k != 0))
        assert np.array_equal(new, np.arange(n) + z)


@pytest.mark.parametrize(
    ("case", "body"),
    [
        ("a store elsewhere", "%j = sub 99 %i; %v = load x[%i]; store y[%j] = %v"),
        ("a load of what others store", "%j = sub 99 %i; %v = load y[%j]; %w = load x[%i]; store y[%i] = %v"),
        ("a load after a store", "%v = load x[%i]; store y[%i] = %v; %w = load y[%i]; store y[%i] = %w"),
    ],
)
def test_a_work_item_takes_one_element_where_order_matters(case: str, body: str):
    text = f"kernel f(x: f32[100] C, y: f32[100] C out) {{ for %i in 0..100 {{ {body} }} }}"
    launches = bind_grid(parse_kernel(text), GridSchedule(pack=4, pack_extent=1)).launches
    assert all(a.packed == 1 for a in launches), case


def test_short_loops_are_not_packed():
    text = "kernel f(x: f32[100] C, y: f32[100] C out) { for %i in 0..100 { %v = load x[%i]; store y[%i] = %v } }"
    assert [
        bind_grid(parse_kernel(text), GridSchedule(pack=4, pack_extent=n)).launches[0].packed for n in (100, 101)
    ] == [4, 1]


FULL_SUM = """
kernel total(x: f32[n, 1000] C, out: f32[] C out) dims(n) {
  %s = for %i in 0..n carry(%a = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
    %t = for %j in 0..1000 carry(%b = %a) combine(%p, %q) { %r = add %p %q; yield %r } {
      %v = load x[%i, %j]
      %w = add %b %v
      yield %w
    }
    yield %t
  }
  %h = mul %s 0.5:f32
  store out[] = %h
}
"""


def test_a_full_sum_runs_in_two_stages_and_is_exact_to_a_few_roundings(device: Device):
    assert names(FULL_SUM) == [("total_0", True), ("total_1", True)]
    for n in (0, 1, 700):
        x = (normal(n, 1000) + 3).astype("f4")
        out = run(device, FULL_SUM, dims={"n": n}, x=x)
        assert abs(float(out) - 0.5 * x.astype("f8").sum()) <= 1e-6 * abs(x).astype("f8").sum()


def test_a_full_sum_is_bitwise_the_same_each_time(device: Device):
    x = normal(700, 1000)
    results = {float(run(device, FULL_SUM, dims={"n": 700}, x=x)) for _ in range(3)}
    assert len(results) == 1


COLUMN_SUM = """
kernel columns(x: f32[5000, 70] C, out: f32[70] C out) {
  for %j in 0..70 {
    %s = for %i in 0..5000 carry(%a = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
      %v = load x[%i, %j]
      %w = add %a %v
      yield %w
    }
    store out[%j] = %s
  }
}
"""


@pytest.mark.parametrize("rows", ["item", "group"])
def test_axis_0_sum_is_as_accurate_as_pairwise_summation(device: Device, rows: str):
    x = np.full((5000, 70), 0.1, "f4")
    out = run(device, COLUMN_SUM, GridSchedule(rows=rows), x=x)
    exact = x.astype("f8").sum(0)
    naive = np.zeros(70, "f4")
    for row in x:
        naive += row
    assert abs(out - exact).max() < 2e-3 < abs(naive - exact).max()


def test_columns_are_folded_in_parts(device: Device):
    assert names(COLUMN_SUM) == [("columns_0", False), ("columns_1", False)]
    (parts, _) = bind_grid(parse_kernel(COLUMN_SUM)).launches
    assert parts.extents == (78, 70)
    x = np.full((5000, 70), 0.1, "f4")
    assert abs(run(device, COLUMN_SUM, x=x) - x.astype("f8").sum(0)).max() < 2e-3
    best = """
    kernel best(x: f64[5, 640, 9] C, s: f64[9] C, out: f64[5, 9] C out, at: i64[5, 9] C out) {
      for %h in 0..5 { for %j in 0..9 {
        %scale = load s[%j]
        %best, %where = for %i in 0..640 carry(%a = -inf:f64, %b = 9223372036854775807) combine(%p, %m, %q, %n) {
          %gt = gt %p %q; %eq = eq %p %q; %lt = lt %m %n; %tie = and %eq %lt; %left = or %gt %tie
          %r = select %left %p %q; %o = select %left %m %n; yield %r %o } {
          %u = load x[%h, %i, %j]; %v = mul %u %scale
          %gt = gt %a %v; %eq = eq %a %v; %lt = lt %b %i; %tie = and %eq %lt; %left = or %gt %tie
          %r = select %left %a %v; %o = select %left %b %i
          yield %r %o
        }
        %twice = add %best %scale
        store out[%h, %j] = %twice
        store at[%h, %j] = %where
      } }
    }"""
    assert len(names(best)) == 2
    x, s = np.random.default_rng(3).integers(0, 9, (5, 640, 9)).astype("f8"), np.arange(1.0, 10.0)
    out, at = run(device, best, x=x, s=s)
    assert np.array_equal(out, (x * s).max(1) + s)
    assert np.array_equal(at, x.argmax(1))


TOTAL = """
kernel total(x: f32[60, 1000] C, out: f32[] C out) {
  %s = for %i in 0..60 carry(%a = 0.0:f32) combine(%p, %q) { %r = OUTER %p %q; yield %r } {
    %t = for %j in 0..1000 carry(%b = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
      %v = load x[%i, %j]
      %w = add %b %v
      yield %w
    }
    %u = OUTER %a %t
    yield %u
  }
  store out[] = %s
}
"""


def test_the_sum_of_a_matrix_is_one_loop_over_all_elements(device: Device):
    text = TOTAL.replace("OUTER", "add")
    parts, _ = bind_grid(parse_kernel(text)).launches
    assert parts.extents == (58,)  # of 60,000 elements 1024 a group
    x = normal(60, 1000)
    np.testing.assert_allclose(run(device, text, x=x), x.astype("f8").sum(), rtol=1e-4)


def test_sums_of_rows_start_anew_where_the_greatest_is_wanted(device: Device):
    text = TOTAL.replace("OUTER", "max")
    assert len(names(text)) == 1
    x = normal(60, 1000)
    np.testing.assert_allclose(run(device, text, x=x), max(0, x.sum(1).max()), rtol=1e-4)


PRODUCT = """
kernel product(a: f32[6, 16, 300] C, b: f32[300, 24] C, c: f32[24] C, out: f32[6, 16, 24] C out) {
  for %h in 0..6 { for %i in 0..16 { for %j in 0..24 {
    %shift = load c[%j]
    %sum = for %k in 0..300 carry(%s = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
      %x = load a[%h, %i, %k]; %y = load b[%k, %j]
      %z = fma %x %y %s
      yield %z
    }
    %w = add %sum %shift
    store out[%h, %i, %j] = %w
  } } }
}
"""


@pytest.mark.parametrize(("jam", "extents"), [(1, (6, 16, 24)), (2, (6, 8, 12)), (4, (6, 4, 6)), (8, (6, 2, 3))])
def test_a_work_item_may_take_a_tile_of_a_product(device: Device, jam: int, extents: tuple[int, ...]):
    schedule = GridSchedule(jam=jam, groups=1, rows="item", work_group=8)
    (launch,) = bind_grid(parse_kernel(PRODUCT), schedule).launches
    assert launch.extents == extents
    loads = [s for s in walk(launch.kernel.body) if isinstance(s, Load) and s.buffer.name == "a"]
    assert len(loads) == 16 // extents[1]
    a, b, c = normal(6, 16, 300), normal(300, 24), normal(24)
    want = a.astype("f8") @ b.astype("f8") + c
    np.testing.assert_allclose(run(device, PRODUCT, schedule, a=a, b=b, c=c), want, rtol=1e-4, atol=1e-4)


STAGED = """
kernel product(a: {dtype}[{a_shape}] C, b: {dtype}[{b_shape}] C, c: {dtype}[{n}] C,
               out: {dtype}[2, {m}, {n}] C out) {dims} {{
  for %h in 0..2 {{ for %i in 0..{m} {{ for %j in 0..{n} {{
    %shift = load c[%j]
    %sum = for %k in 0..{k} carry(%s = {zero}:{dtype}) combine(%p, %q) {{ %r = add %p %q; yield %r }} {{
      %x = load a[{a}]; %y = load b[{b}]
      %t = neg %x; %u = mul %t %y; %z = add %s %u
      yield %z
    }}
    %w = add %sum %shift
    store out[%h, %i, %j] = %w
  }} }} }}
}}
"""


def staged_text(m: object, n: object, k: object, dtype: str = "f32", across: str = "", dims: str = "") -> str:
    """-a @ b + c of two matrices a; `across`: which operands lie the other way round."""
    a, b = ("%h, %k, %i" if "a" in across else "%h, %i, %k"), ("%j, %k" if "b" in across else "%k, %j")
    a_shape, b_shape = (
        (f"2, {k}, {m}" if "a" in across else f"2, {m}, {k}"),
        (f"{n}, {k}" if "b" in across else f"{k}, {n}"),
    )
    zero = "0" if dtype == "i32" else "0.0"
    return STAGED.format(m=m, n=n, k=k, dtype=dtype, a=a, b=b, a_shape=a_shape, b_shape=b_shape, zero=zero, dims=dims)


STAGE = GridSchedule(work_group=64, groups=8, jam=4, stage=32, fold=32)  # PoCL takes a minute for tiles of 8 x 8


@pytest.mark.parametrize(
    ("sizes", "dtype", "across", "extents"),
    [
        ((128, 64, 64), "f32", "", (2, 4, 2)),
        ((100, 130, 300), "f32", "", (2, 4, 5)),  # ragged, and sums of sums
        ((130, 70, 40), "f32", "ab", (2, 5, 3)),
        ((65, 9, 17), "f32", "b", (2, 3, 1)),  # a narrow tile, a last block of one
        ((64, 64, 64), "f64", "a", (2, 2, 2)),
        ((40, 200, 16), "i32", "", (2, 2, 7)),
    ],
)
def test_a_group_stages_both_operands_of_a_product(
    device: Device, sizes: tuple[int, int, int], dtype: str, across: str, extents: tuple[int, ...]
):
    m, n, k = sizes
    text = staged_text(m, n, k, dtype, across)
    (launch,) = bind_grid(parse_kernel(text), STAGE).launches
    assert (launch.extents, launch.grouped) == (extents, True)
    check_product(device, text, sizes, dtype, across)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (64, 64, 64), (100, 3, 33), (5, 70, 16), (129, 65, 700), (3, 3, 0)])
def test_a_group_stages_products_of_any_size(device: Device, sizes: tuple[int, int, int]):
    text = staged_text("m", "n", "k", dims="dims(m, n, k)")
    (launch,) = bind_grid(parse_kernel(text), STAGE).launches
    assert launch.grouped
    check_product(device, text, sizes, "f32", "", dict(zip("mnk", sizes, strict=True)))


def check_product(
    device: Device,
    text: str,
    sizes: tuple[int, int, int],
    dtype: str,
    across: str,
    dims: dict[str, int] | None = None,
) -> None:
    m, n, k = sizes
    kind = {"f32": "f4", "f64": "f8", "i32": "i4"}[dtype]
    rng = np.random.default_rng(3)
    a, b, c = ((rng.standard_normal(s) * 5).astype(kind) for s in ((2, m, k), (k, n), n))
    given = {"a": a.swapaxes(1, 2) if "a" in across else a, "b": b.T if "b" in across else b}
    out = run(device, text, STAGE, dims, c=c, **{name: np.ascontiguousarray(x) for name, x in given.items()})
    want = c - a.astype("f8") @ b.astype("f8")
    unit = 0.0 if dtype == "i32" else float(np.finfo(kind).eps)
    bound = 8 * unit * (np.abs(a).astype("f8") @ np.abs(b).astype("f8") + np.abs(c))
    assert np.all(np.abs(out - want) <= bound)


def test_a_staged_product_reads_each_element_once_for_a_tile():
    """A tile of 64 x 64 has 64 times fewer reads of memory than products, a work-item of 8 x 8 eight times fewer."""
    schedule = GridSchedule(work_group=64, groups=8, jam=8, stage=64)
    (launch,) = bind_grid(parse_kernel(staged_text(128, 128, 64)), schedule).launches
    (lanes,) = (s for s in walk(launch.kernel.body) if isinstance(s, For) and s.axis.kind == "block")
    (blocks,) = (s for s in lanes.body if isinstance(s, For))
    reads = [s for s in walk(blocks.body) if isinstance(s, Load) and s.buffer.space == "global"]
    assert len(reads) == 2 * 64 * 16 // 64  # by 64 lanes, for a block of 16
    (sums,) = (s for s in blocks.body if isinstance(s, For))
    assert len([s for s in sums.body if isinstance(s, Load)]) == 8 + 8
    assert len(sums.params) == 64


TRANSPOSED = """
kernel transposed(x: f32[{shape}] C, y: f32[{m}, {n}] C, out: f32[{m}, 3, {n}] C out) {dims} {{
  for %i in 0..{m} {{ for %h in 0..3 {{ for %j in 0..{n} {{
    %a = load x[{at}]; %b = load y[%i, %j]; %c = load x[{same}]
    %d = mul %a %b; %e = add %d %c
    store out[%i, %h, %j] = %e
  }} }} }}
}}
"""


@pytest.mark.parametrize("sizes", [(64, 96), (33, 100), (130, 32)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_group_transposes_tiles_in_shared_memory(device: Device, sizes: tuple[int, int], symbolic: bool):
    m, n = sizes
    dims = dict(zip("mn", sizes, strict=True)) if symbolic else {}
    names = ("m", "n") if symbolic else sizes
    text = TRANSPOSED.format(
        m=names[0], n=names[1], shape=f"3, {names[1]}, {names[0]}", at="%h, %j, %i", same="%h, %j, 0",
        dims="dims(m, n)" if symbolic else "",
    )  # fmt: skip
    (launch,) = bind_grid(parse_kernel(text), STAGE).launches
    assert launch.grouped
    assert [evaluate(n, dims) for n in launch.extents] == [3, -(-m // 32), -(-n // 32)]
    (lanes,) = (s for s in walk(launch.kernel.body) if isinstance(s, For) and s.axis.kind == "block")
    assert len([s for s in lanes.body if isinstance(s, Load) and s.buffer.space == "shared"]) == 16
    x, y = normal(3, n, m), normal(m, n)
    out = run(device, text, STAGE, dims, x=x, y=y)
    np.testing.assert_array_equal(out, x.transpose(2, 0, 1) * y[:, None, :] + x[:, :, 0])


ARGMAX = """
kernel argmax(x: f64[6, 4000] C, out: i64[6] C out) {
  for %i in 0..6 {
    %best, %at = for %j in 0..4000 carry(%a = -inf:f64, %b = 9223372036854775807) combine(%p, %m, %q, %n) {
      %gt = gt %p %q; %eq = eq %p %q; %lt = lt %m %n; %tie = and %eq %lt; %left = or %gt %tie
      %r = select %left %p %q; %o = select %left %m %n; yield %r %o } {
      %v = load x[%i, %j]
      %gt = gt %a %v; %eq = eq %a %v; %lt = lt %b %j; %tie = and %eq %lt; %left = or %gt %tie
      %r = select %left %a %v
      %o = select %left %b %j
      yield %r %o
    }
    store out[%i] = %at
  }
}
"""


@pytest.mark.parametrize("rows", ["item", "group"])
def test_argmax_takes_the_first_of_equal_elements(device: Device, rows: str):
    x = np.random.default_rng(3).integers(0, 9, (6, 4000)).astype("f8")
    assert np.array_equal(run(device, ARGMAX, GridSchedule(rows=rows, work_group=64), x=x), x.argmax(1))


def test_mandelbrot_counts_by_a_while_loop(device: Device):
    text = """
    kernel mandelbrot(re: f64[40] C, im: f64[30] C, out: i32[30, 40] C out) {
      for %i in 0..30 {
        %y = load im[%i]
        for %j in 0..40 {
          %x = load re[%j]
          %n, %u, %v = while carry(%k = 0:i32, %a = 0.0:f64, %b = 0.0:f64) {
            %aa = mul %a %a; %bb = mul %b %b; %r = add %aa %bb
            %small = le %r 4.0:f64; %more = lt %k 50:i32; %t = and %small %more
            test %t
          } do {
            %ab = mul %a %b; %a2 = mul %a %a; %b3 = mul %b %b; %d = sub %a2 %b3; %na = add %d %x
            %b2 = add %ab %ab; %nb = add %b2 %y
            %kk = add %k 1:i32
            yield %kk %na %nb
          }
          store out[%i, %j] = %n
        }
      }
    }
    """
    re, im = np.linspace(-2, 1, 40), np.linspace(-1.2, 1.2, 30)
    want = np.zeros((30, 40), "i4")
    for i, y in enumerate(im):
        for j, x in enumerate(re):
            a = b = 0.0
            while a * a + b * b <= 4 and want[i, j] < 50:
                a, b = (a * a - b * b) + x, (a * b + a * b) + y
                want[i, j] += 1
    assert np.array_equal(run(device, text, re=re, im=im), want)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2, ::-1],
        lambda a: a[::-3, 1:],
        lambda a: np.broadcast_to(a[3], a.shape),
        lambda a: a.T[4:8, :6],
        lambda a: a[1:5, 2:9],
    ],
    ids=["step", "negative", "zero", "transposed", "slice"],
)
def test_strided_inputs(device: Device, view: Any):
    array = view(np.arange(120, dtype="i2").reshape(10, 12))
    text = f"""
    kernel copy(x: i16[n, {array.shape[1]}] strided, out: i16[n, {array.shape[1]}] C out) dims(n) {{
      for %i in 0..n {{ for %j in 0..{array.shape[1]} {{ %v = load x[%i, %j]; store out[%i, %j] = %v }} }}
    }}"""
    assert np.array_equal(run(device, text, dims={"n": array.shape[0]}, x=array), array)


def test_an_empty_loop_around_one_with_bounds_that_depend_on_data_runs_nothing(device: Device):
    text = """
    kernel f(at: i64[] C, x: f64[6] C, out: f64[2, 6] C out) {
      %n = load at[]
      for %i in 0..ROWS { for %j in 0..%n { %v = load x[%j]; store out[%i, %j] = %v } }
    }"""
    for rows in (0, 1, 2):
        found = run(device, text.replace("ROWS", str(rows)), at=np.array(4), x=np.arange(6.0))
        want = np.full((2, 6), 77.0)
        want[:rows, :4] = np.arange(4.0)
        assert np.array_equal(found, want)
    (launch,) = bind_grid(parse_kernel(text.replace("ROWS", "0"))).launches
    assert launch.items({}) == 0


def test_unit_inner_stride_and_storing_through_strides(device: Device):
    text = """
    kernel f(x: f32[4, 5] unit, out: f32[4, 5] strided out) {
      for %i in 0..4 { for %j in 0..5 { %v = load x[%i, %j]; %w = neg %v; store out[%i, %j] = %w } }
    }"""
    kernel = parse_kernel(text)
    base = normal(8, 9)
    out = device.from_host(np.zeros(40, "f4"))
    given = [upload(device, base[::2, 2:7]), out.view(4 * 39, (-40, -8))]
    device.compile_kernel(kernel).launch(given)
    assert np.array_equal(device.to_host(out, "f4", (40,))[::-1].reshape(4, 10)[:, ::2], -base[::2, 2:7])


def test_half_precision_bool_and_int8_arrays(device: Device):
    text = """
    kernel f(x: f16[300] C, m: bool[300] C, k: i8[300] C, out: f16[300] C out, flag: bool[300] C out) {
      for %i in 0..300 {
        %v = load x[%i]; %b = load m[%i]; %n = load k[%i]
        %h: f16 = convert %n
        %p = mul %v %h
        %q = add %p 0.1:f16
        %e = exp %v
        %s = select %b %q %e
        store out[%i] = %s
        %c = not %b
        store flag[%i] = %c
      }
    }"""
    x, m = normal(300, dtype="f2"), np.arange(300) % 3 == 0
    k = np.arange(300).astype("i1")
    out, flag = run(device, text, x=x, m=m, k=k)
    want = np.where(m, x * k.astype("f2") + np.float16(0.1), np.exp(x.astype("f4")).astype("f2"))
    assert np.array_equal(out[m], want[m])
    np.testing.assert_allclose(out[~m].astype("f8"), want[~m].astype("f8"), rtol=1e-3)
    assert np.array_equal(flag, ~m)


CUMSUM = """
kernel cumsum(x: f32[n] C, out: f32[n] C out, last: f32[] C out) dims(n) {
  %total = for %i in 0..n carry(%a = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
    %v = load x[%i]
    %w = prefix(%a) %v
    store out[%i] = %w
    yield %w
  }
  store last[] = %total
}
"""


def test_a_long_scan_runs_in_shares(device: Device):
    assert [n for n, _ in names(CUMSUM)] == ["cumsum_0", "cumsum_1", "cumsum_2", "cumsum_3"]
    for n in (1, 5, 5000, 100_000):
        x = np.random.default_rng(2).integers(-9, 10, n).astype("f4")
        out, last = run(device, CUMSUM, dims={"n": n}, x=x)
        assert np.array_equal(out, np.cumsum(x))
        assert last == x.sum()


def test_the_results_of_many_shares_are_scanned_by_blocks(device: Device):
    schedule = GridSchedule(shares=100, in_order=50, work_group=16)
    assert len(names(CUMSUM, schedule)) == 6
    for n in (1, 5, 99, 5000, 20_011):
        x = np.random.default_rng(2).integers(-9, 10, n).astype("f4")
        out, last = run(device, CUMSUM, schedule, dims={"n": n}, x=x)
        assert np.array_equal(out, np.cumsum(x))
        assert last == x.sum()


SCANS = """
kernel scans(x: f32[{m}, {n}] C, out: f32[{m}, {n}] C out, last: f32[{m}] C out) {dims} {{
  for %i in 0..{m} {{
    %total = for %j in 0..{n} carry(%a = 1.0:f32) combine(%p, %q) {{ %r = mul %p %q; yield %r }} {{
      %v = load x[%i, %j]; %t = add %v 1.0:f32
      %w = prefix(%a) %t
      %u = sub %w %v
      store out[%i, %j] = %u
      yield %w
    }}
    store last[%i] = %total
  }}
}}
"""


@pytest.mark.parametrize("size", [(3, 512), (2, 1031)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_group_scans_a_row(device: Device, size: tuple[int, int], symbolic: bool):
    dims = dict(zip("mn", size, strict=True)) if symbolic else {}
    m, n = ("m", "n") if symbolic else size
    text = SCANS.format(m=m, n=n, dims="dims(m, n)" if symbolic else "")
    (launch,) = bind_grid(parse_kernel(text), STAGE).launches
    assert launch.grouped
    (chunks,) = (s for s in walk(launch.kernel.body) if isinstance(s, For) and s.step > 1)
    assert chunks.step == 64 * 8  # so many elements at once, neighbours by neighbours
    x = (np.random.default_rng(1).integers(0, 2, size) * -2.0).astype("f4")  # products of signs: exact
    out, last = run(device, text, STAGE, dims, x=x)
    want = np.cumprod(x + 1, axis=1)
    np.testing.assert_array_equal(out, want - x)
    np.testing.assert_array_equal(last, want[:, -1])


def test_a_group_scans_each_share_of_a_long_scan(device: Device):
    launches = bind_grid(parse_kernel(CUMSUM), STAGE).launches
    assert [launch.grouped for launch in launches] == [True, False, True, False]
    for n in (1, 300, 5000):
        x = np.random.default_rng(n).integers(-5, 6, n).astype("f4")
        out, last = run(device, CUMSUM, STAGE, {"n": n}, x=x)
        np.testing.assert_array_equal(out, np.cumsum(x))
        assert last == x.sum()


def test_a_short_scan_and_one_of_rows_run_in_order(device: Device):
    rows = """
    kernel cumprod(x: f64[9, 20] C, out: f64[9, 20] C out) {
      for %i in 0..9 {
        %t = for %j in 0..20 carry(%a = 1.0:f64) combine(%p, %q) { %r = mul %p %q; yield %r } {
          %v = load x[%i, %j]; %w = prefix(%a) %v
          store out[%i, %j] = %w
          yield %w
        }
      }
    }"""
    assert names(rows) == [("cumprod", False)]
    x = normal(9, 20, dtype="f8")
    assert np.array_equal(run(device, rows, x=x), np.cumprod(x, 1))


def test_a_recurrence_through_memory_keeps_its_order(device: Device):
    text = """
    kernel smooth(x: f32[50, 30] C out) {
      for %i in 1..50 {
        for %j in 0..30 {
          %k = sub %i 1; %a = load x[%k, %j]; %b = load x[%i, %j]; %s = add %a %b; store x[%i, %j] = %s
        }
      }
    }"""
    (launch,) = bind_grid(parse_kernel(text)).launches
    assert launch.extents == (30,)  # columns are independent, rows are not
    x = np.arange(1500, dtype="f4").reshape(50, 30)
    assert np.array_equal(run(device, text, x=x), np.cumsum(x, 0, dtype="f4"))


def test_a_scatter_whose_targets_may_meet_runs_in_order(device: Device):
    text = """
    kernel scatter(at: i64[100] C, v: f32[100] C, x: f32[8] C out) {
      for %i in 0..100 { %t = load at[%i]; %a = load x[%t]; %b = load v[%i]; %s = add %a %b; store x[%t] = %s }
    }"""
    assert [a.items({}) for a in bind_grid(parse_kernel(text)).launches] == [1]
    at, v, x = np.random.default_rng(5).integers(0, 8, 100), normal(100), np.zeros(8, "f4")
    want = x.copy()
    np.add.at(want, at, v)
    assert np.array_equal(run(device, text, at=at, v=v, x=x), want)


@pytest.mark.parametrize(
    ("op", "dtype"), [("add", "f32"), ("add", "i64"), ("max", "f64"), ("min", "u32"), ("xor", "i32"), ("mul", "u64")]
)
def test_atomics_from_all_work_items(device: Device, op: str, dtype: str):
    text = f"""
    kernel hist(v: {dtype}[3000] C, out: {dtype}[4] C out) {{
      for %i in 0..3000 {{ %k = irem %i 4; %x = load v[%i]; atomic {op} out[%k] %x }}
    }}"""
    kind = numpy_dtype(dtype)
    v = np.random.default_rng(1).integers(1, 200, 3000).astype(kind)
    start = np.full(4, 100, kind)
    want = start.copy()
    ufunc = {"add": np.add, "max": np.maximum, "min": np.minimum, "xor": np.bitwise_xor, "mul": np.multiply}[op]
    ufunc.at(want, np.arange(3000) % 4, v)
    assert np.array_equal(run(device, text, v=v, out=start), want)


def test_several_nests_and_scalars_between_them_run_in_order(device: Device):
    text = """
    kernel standardize(x: f32[2000] C, out: f32[2000] C out, mean: f32[] C out) {
      alloc kept: f32[2000] C local
      %s = for %i in 0..2000 carry(%a = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
        %v = load x[%i]; %w = add %a %v
        yield %w
      }
      %m = div %s 2000.0:f32
      store mean[] = %m
      for %j in 0..2000 { %v = load x[%j]; %d = sub %v %m; store kept[%j] = %d }
      %t = for %k in 0..2000 carry(%a = 0.0:f32) combine(%p, %q) { %r = add %p %q; yield %r } {
        %v = load kept[%k]; %vv = mul %v %v; %w = add %a %vv
        yield %w
      }
      %u = div %t 2000.0:f32
      %big = gt %u 0.0:f32
      %root = if %big { %z = sqrt %u; yield %z } else { yield 1.0:f32 }
      for %l in 0..2000 { %d = load kept[%l]; %e = div %d %root; store out[%l] = %e }
    }"""
    x = normal(2000) * 3 + 1
    out, mean = run(device, text, x=x)
    np.testing.assert_allclose(mean, x.mean(dtype="f8"), rtol=1e-6)
    np.testing.assert_allclose(out, (x - x.mean(dtype="f8")) / x.std(dtype="f8"), rtol=1e-4, atol=1e-5)


def test_bounds_that_depend_on_data_are_strided_over(device: Device):
    text = """
    kernel fill(at: i64[2] C, out: i32[40000, 3] C out) {
      %a = load at[0]
      %b = load at[1]
      for %i in %a..%b { for %j in 0..3 { %s = add %i %j; %v: i32 = convert %s; store out[%i, %j] = %v } }
    }"""
    out = np.zeros((40000, 3), "i4")
    want = out.copy()
    want[7:39000] = np.arange(7, 39000)[:, None] + np.arange(3)
    assert np.array_equal(run(device, text, at=np.array([7, 39000]), out=out), want)
    assert np.array_equal(run(device, text, at=np.array([9, 3]), out=out), out)


def test_a_scheduled_kernel_with_shared_memory_runs_as_it_is(device: Device):
    text = """
    kernel reverse(x: i32[12, 64] C, out: i32[12, 64] C out) {
      for %b in 0..12 grid {
        alloc tile: i32[64] C shared
        for %l in 0..64 block { %v = load x[%b, %l]; store tile[%l] = %v }
        barrier
        for %m in 0..64 block { %k = sub 63 %m; %v = load tile[%k]; store out[%b, %m] = %v }
      }
    }"""
    (launch,) = bind_grid(parse_kernel(text)).launches
    assert (launch.items({}), launch.work_group) == (12 * 64, 64)
    x = np.arange(768, dtype="i4").reshape(12, 64)
    assert np.array_equal(run(device, text, x=x), x[:, ::-1])


def test_large_private_arrays_become_slices_of_global_memory(device: Device):
    text = """
    kernel sort(x: i32[6, n] C, out: i32[6, n] C out) dims(n) {
      for %i in 0..6 {
        alloc rank: i64[n] C local
        for %j in 0..n {
          %v = load x[%i, %j]
          %r = for %k in 0..n carry(%a = 0) {
            %w = load x[%i, %k]
            %l = lt %w %v; %one: i64 = convert %l; %b = add %a %one
            yield %b
          }
          store rank[%j] = %r
        }
        for %j in 0..n { %v = load x[%i, %j]; %r = load rank[%j]; store out[%i, %r] = %v }
      }
    }"""
    program = bind_grid(parse_kernel(text), GridSchedule(rows="item"))
    assert [len(t.shape) for t in program.temporaries] == [2]
    x = np.stack([np.random.default_rng(n).permutation(50) for n in range(6)]).astype("i4")
    assert np.array_equal(run(device, text, GridSchedule(rows="item"), dims={"n": 50}, x=x), np.sort(x, 1))


def test_extents_with_floor_division_and_maximum(device: Device):
    text = """
    kernel pool(x: f32[n] C, out: f32[floordiv(n, 2)] C out) dims(n) {
      for %i in 0..(floordiv(n, 2)) {
        %j = mul %i 2; %k = add %j 1
        %a = load x[%j]; %b = load x[%k]; %m = max %a %b
        store out[%i] = %m
      }
    }"""
    for n in (2, 7, 300):
        x = normal(n)
        assert np.array_equal(run(device, text, dims={"n": n}, x=x), x[: n // 2 * 2].reshape(-1, 2).max(1))


def test_relaunching_with_other_buffers_and_extents(device: Device):
    kernel = parse_kernel(
        "kernel inc(x: i64[n] C, out: i64[n] C out) dims(n) { for %i in 0..n { %v = load x[%i]; %w = add %v 1; store "
        "out[%i] = %w } }"
    )
    compiled = device.compile_kernel(kernel)
    out = device.alloc(8 * 1000)
    for n in (10, 1000, 10):
        x = device.from_host(np.arange(n))
        compiled.launch([x, out], {"n": n})
        compiled.launch([out, out], {"n": n})
        assert np.array_equal(device.to_host(out, "i8", (n,)), np.arange(n) + 2)


def test_copies_on_the_device_and_memory_accounting(device: Device):
    gc.collect()
    before = device.in_use
    a, b = device.from_host(np.arange(100)), device.alloc(800)
    device.copy(a, b)
    assert np.array_equal(device.to_host(b, "i8", (10, 10)), np.arange(100).reshape(10, 10))
    assert device.in_use == before + 1600 <= device.peak
    del a, b
    gc.collect()
    assert device.in_use == before
    assert device.pool.held >= 800
    with pytest.raises(LaunchError, match="a copy of 900 bytes"):
        device.copy(device.alloc(900), device.alloc(800))


def test_too_much_memory_says_how_much_was_asked(device: Device):
    with pytest.raises(OutOfMemory, match=f"requested {1 << 50} bytes"):
        device.alloc(1 << 50)


SMALL = (
    "kernel f(x: f32[n, 4] unit, out: f32[n] C out) dims(n) { for %i in 0..n { %v = load x[%i, 3]; store out[%i] "
    "= %v } }"
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, out: ([x], {"n": 4}), "takes 2 buffers and the extents n"),
        (lambda x, out: ([x, out], {}), "takes 2 buffers and the extents n"),
        (lambda x, out: ([x, out], {"n": 9}), "buffer x reaches from byte 0 to 144 of 64"),
        (lambda x, out: ([x.view(-4, (16, 4)), out], {"n": 4}), "buffer x reaches from byte -4"),
        (lambda x, out: ([x.view(0, (4, 16)), out], {"n": 4}), "the last stride of buffer x is 16 bytes, not 4"),
        (lambda x, out: ([x.view(0, (4,)), out], {"n": 4}), "was given 1 strides"),
        (lambda x, out: ([x, out.view(4, (4,))], {"n": 2}), "buffer out must be row-major"),
        (lambda x, out: ([x.view(0, (0, 4)), out], {"n": 9}), "buffer out needs 36 bytes, not 16"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_a_launch_never_leaves_its_buffers(device: Device, change: Any, message: str):
    compiled = device.compile_kernel(parse_kernel(SMALL))
    x, out = device.from_host(normal(4, 4)), device.alloc(16)
    buffers, dims = change(x, out)
    with pytest.raises(LaunchError, match=message):
        compiled.launch(buffers, dims)
