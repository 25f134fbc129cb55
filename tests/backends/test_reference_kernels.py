"""Hand-written kernels under the reference interpreter, against NumPy, and what it must refuse."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tracejit.backends.reference import interpreter
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir.check import check_kernel
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import InternalError


@pytest.fixture(autouse=True, params=[200, interpreter._LANES], ids=["few_lanes", "many_lanes"])
def _lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, record_backend: Callable[[str], None]):
    """Every kernel runs in many pieces and, where its extents allow, in one."""
    monkeypatch.setattr(interpreter, "_LANES", request.param)
    record_backend("reference")


def run(text: str, dims: dict[str, int] | None = None, **arrays: Any) -> None:
    kernel = parse_kernel(textwrap.dedent(text))
    check_kernel(kernel)
    run_kernel(kernel, arrays, dims or {})


def numbers(*shape: int, dtype: str = "f4", seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


SOFTMAX = """
kernel softmax(x: f32[n0, n1] {layout}, y: f32[n0, n1] {layout} out) dims(n0, n1) {{
  for %i in 0..n0 parallel {{
    alloc row: f32[n1] C local
    %m = for %k in 0..n1 {axis} carry(%a = -inf:f32) combine(%p, %q) {{ %r = max %p %q; yield %r }} {{
      %v = load x[%i, %k]
      store row[%k] = %v
      %w = max %a %v
      yield %w
    }}
    %s = for %k in 0..n1 {axis} carry(%a = 0.0:f32) combine(%p, %q) {{ %r = add %p %q; yield %r }} {{
      %v = load row[%k]
      %d = sub %v %m
      %e = exp %d
      store row[%k] = %e
      %w = add %a %e
      yield %w
    }}
    for %k in 0..n1 {axis} {{
      %v = load row[%k]
      %o = div %v %s
      store y[%i, %k] = %o
    }}
  }}
}}
"""


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("axis", ["serial", "vector(8, 2)", "block"])
@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (700, 129)])
def test_softmax(axis: str, shape: tuple[int, int]):
    x, y = numbers(*shape), np.zeros(shape, np.float32)
    run(SOFTMAX.format(axis=axis, layout="C"), {"n0": shape[0], "n1": shape[1]}, x=x, y=y)
    np.testing.assert_allclose(y, softmax(x), rtol=1e-5)


def test_softmax_on_negative_zero_and_transposed_strides():
    base = numbers(40, 60)
    out = np.zeros((30, 80), np.float32)
    x, y = base[::-2, ::3].T, out[:20, ::-4].copy()[:, ::-1]
    run(SOFTMAX.format(axis="vector(8, 2)", layout="strided"), {"n0": 20, "n1": 20}, x=x, y=y)
    np.testing.assert_allclose(y, softmax(x), rtol=1e-5)
    broadcast = np.broadcast_to(numbers(1, 20), (20, 20))
    run(SOFTMAX.format(axis="vector(8, 2)", layout="strided"), {"n0": 20, "n1": 20}, x=broadcast, y=y)
    np.testing.assert_allclose(y, softmax(broadcast), rtol=1e-5)


MATMUL = """
kernel matmul(a: f64[m, k] C, b: f64[k, n] strided, c: f64[m, n] C out) dims(m, n, k) {
  for %i in 0..m parallel {
    for %j in 0..n vector(8, 1) {
      %s = for %l in 0..k carry(%acc = 0.0:f64) combine(%p, %q) { %r = add %p %q; yield %r } {
        %x = load a[%i, %l]
        %y = load b[%l, %j]
        %z = fma %x %y %acc
        yield %z
      }
      store c[%i, %j] = %s
    }
  }
}
"""


@pytest.mark.parametrize(("m", "n", "k"), [(3, 4, 5), (1, 1, 1), (70, 33, 500), (2, 3, 0)])
def test_matmul(m: int, n: int, k: int):
    a, b, c = numbers(m, k, dtype="f8"), numbers(n, k, dtype="f8").T, np.full((m, n), np.nan)
    run(MATMUL, {"m": m, "n": n, "k": k}, a=a, b=b, c=c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-12, atol=1e-12)


def test_sum_over_the_first_axis():
    text = """
    kernel columns(x: i32[n, 7] C, y: i32[7] C out) dims(n) {
      for %j in 0..7 vector(4, 1) {
        %s = for %i in 0..n carry(%a = 0:i32) combine(%p, %q) { %r = add %p %q; yield %r } {
          %v = load x[%i, %j]
          %w = add %a %v
          yield %w
        }
        store y[%j] = %s
      }
    }
    """
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (100_001, 7)).astype(np.int32)
    y = np.zeros(7, np.int32)
    run(text, {"n": len(x)}, x=x, y=y)
    assert (y == x.sum(0, dtype=np.int32)).all()


ARGMAX = """
kernel argmax(x: f32[n] C, i: i64[] C out, m: f32[] C out) dims(n) {
  %best, %at = for %k in 0..n %AXIS% carry(%a = -inf:f32, %b = 0) combine(%p, %pi, %q, %qi) {
    %g = gt %q %p
    %r = max %p %q
    %ri = if %g {
      yield %qi
    } else {
      yield %pi
    }
    yield %r %ri
  } {
    %v = load x[%k]
    %g = gt %v %a
    %r = select %g %v %a
    %ri = select %g %k %b
    yield %r %ri
  }
  store i[] = %at
  store m[] = %best
}
"""


@pytest.mark.parametrize("n", [1, 2, 7, 100_003])
@pytest.mark.parametrize("axis", ["", "vector(16, 2)"])
def test_argmax_with_two_carriers_keeps_the_first_of_equals(n: int, axis: str):
    x = np.random.default_rng(n).integers(0, 50, n).astype(np.float32)
    i, m = np.zeros((), np.int64), np.zeros((), np.float32)
    run(ARGMAX.replace("%AXIS%", axis), {"n": n}, x=x, i=i, m=m)
    assert i == np.argmax(x)
    assert m == x.max()


CUMSUM = """
kernel cumsum(x: i64[n0, n1] C, y: i64[n0, n1] C out) dims(n0, n1) {
  for %i in 0..n0 parallel {
    %t = for %k in 0..n1 carry(%a = 0) {
      %v = load x[%i, %k]
      %w = add %a %v
      store y[%i, %k] = %w
      yield %w
    }
  }
}
"""

SCAN = """
kernel scan(x: i64[n0, n1] C, y: i64[n0, n1] C out, last: i64[n0] C out) dims(n0, n1) {
  for %i in 0..n0 parallel {
    %t = for %k in 0..n1 vector(8, 1) carry(%a = 0) combine(%p, %q) { %r = add %p %q; yield %r } {
      %v = load x[%i, %k]
      %w = prefix(%a) %v
      store y[%i, %k] = %w
      yield %w
    }
    store last[%i] = %t
  }
}
"""


@pytest.mark.parametrize("shape", [(3, 1), (1, 7), (5, 64), (2, 50_000)])
def test_cumulative_sum_as_recurrence_and_as_scan(shape: tuple[int, int]):
    x = np.random.default_rng(1).integers(-100, 100, shape)
    dims = dict(zip(("n0", "n1"), shape, strict=True))
    y = np.zeros_like(x)
    last = np.zeros(shape[0], np.int64)
    run(SCAN, dims, x=x, y=y, last=last)
    assert (y == x.cumsum(1)).all()
    assert (last == x.sum(1)).all()
    if shape[1] < 1000:
        y[:] = 0
        run(CUMSUM, dims, x=x, y=y)
        assert (y == x.cumsum(1)).all()


def test_scan_under_a_mask_and_over_triangles():
    text = """
    kernel triangle(x: i64[n, n] C, y: i64[n, n] C out, last: i64[n] C out) dims(n) {
      for %i in 0..n parallel {
        %t = for %k in 0..%i vector(8, 1) carry(%a = 0) combine(%p, %q) { %r = add %p %q; yield %r } {
          %v = load x[%i, %k]
          %w = prefix(%a) %v
          store y[%i, %k] = %w
          yield %w
        }
        store last[%i] = %t
      }
    }
    """
    x = np.random.default_rng(1).integers(-100, 100, (300, 300))
    y, last = np.full_like(x, 7), np.zeros(300, np.int64)
    run(text, {"n": 300}, x=x, y=y, last=last)
    low = np.tril(np.ones_like(x), -1) == 1
    assert (y == np.where(low, np.where(low, x, 0).cumsum(1), 7)).all()
    assert (last == np.where(low, x, 0).sum(1)).all()


MANDELBROT = """
kernel mandelbrot(re: f64[n] C, im: f64[m] C, count: i32[m, n] C out) dims(m, n) {
  for %i in 0..m parallel {
    for %j in 0..n vector(8, 1) {
      %x = load re[%j]
      %y = load im[%i]
      %zx, %zy, %k = while carry(%a = 0.0:f64, %b = 0.0:f64, %c = 0:i32) unroll(2) {
        %aa = mul %a %a
        %bb = mul %b %b
        %r = add %aa %bb
        %inside = le %r 4.0:f64
        %more = lt %c 200:i32
        %go = and %inside %more
        test %go
      } do {
        %aa = mul %a %a
        %bb = mul %b %b
        %d = sub %aa %bb
        %na = add %d %x
        %ab = mul %a %b
        %ab2 = add %ab %ab
        %nb = add %ab2 %y
        %nc = add %c 1:i32
        yield %na %nb %nc
      }
      store count[%i, %j] = %k
    }
  }
}
"""


def test_mandelbrot_while_runs_each_lane_to_its_own_end():
    re, im = np.linspace(-2, 1, 61), np.linspace(-1.2, 1.2, 41)
    count = np.zeros((41, 61), np.int32)
    run(MANDELBROT, {"m": 41, "n": 61}, re=re, im=im, count=count)
    expected = np.zeros_like(count)
    for i, y in enumerate(im):
        for j, x in enumerate(re):
            a = b = 0.0
            while a * a + b * b <= 4 and expected[i, j] < 200:
                a, b = a * a - b * b + x, a * b + a * b + y
                expected[i, j] += 1
    assert (count == expected).all()
    assert len(np.unique(count)) > 10


@pytest.mark.parametrize(("op", "function"), [("add", np.add), ("max", np.maximum), ("xor", np.bitwise_xor)])
def test_atomic_scatter_with_repeated_targets_and_a_mask(op: str, function: np.ufunc):
    text = """
    kernel scatter(at: i64[n] C, v: i64[n] C, y: i64[10] C out) dims(n) {
      for %i in 0..n parallel {
        %t = load at[%i]
        %ok = lt %t 10
        if %ok {
          %x = load v[%i]
          atomic OP y[%t] %x
        }
      }
    }
    """.replace("OP", op)
    rng = np.random.default_rng(0)
    at, v, y = rng.integers(0, 14, 1000), rng.integers(0, 1000, 1000), np.zeros(10, np.int64)
    run(text, {"n": 1000}, at=at, v=v, y=y)
    expected = np.zeros(10, np.int64)
    function.at(expected, at[at < 10], v[at < 10])
    assert (y == expected).all()


COPY = """
kernel copy(x: f32[n] C, y: f32[n] C out) dims(n) {
  for %i in 0..n AXIS {
    %j = add %i SHIFT
    BODY
  }
}
"""


def copy_kernel(axis: str, shift: int, body: str) -> str:
    return COPY.replace("AXIS", axis).replace("SHIFT", str(shift)).replace("BODY", body)


def test_an_access_out_of_bounds_is_an_error_that_names_buffer_index_and_statement():
    x, y = numbers(5), np.zeros(5, np.float32)
    with pytest.raises(InternalError, match=r"buffer x of shape \(5,\) is accessed at 5 on axis 0") as caught:
        run(copy_kernel("", 1, "%v = load x[%j]; store y[%i] = %v"), {"n": 5}, x=x, y=y)
    assert "%1 = load x[%0]\n      |     ^^^" in str(caught.value)
    with pytest.raises(InternalError, match="accessed at -1 on axis 0"):
        run(copy_kernel("", -1, "%v = load x[%i]; store y[%j] = %v"), {"n": 5}, x=x, y=y)
    with pytest.raises(InternalError, match="accessed at 5 on axis 0"):
        run(copy_kernel("", 1, "atomic add y[%j] 1.0:f32"), {"n": 5}, x=x, y=y)


def test_lanes_that_are_off_touch_no_memory():
    body = """
    %ok = lt %j n
    if %ok {
      %v = load x[%j]
      store y[%j] = %v
    }
    """
    x, y = numbers(5), np.zeros(5, np.float32)
    run(copy_kernel("vector(4, 1)", 2, body), {"n": 5}, x=x, y=y)
    assert (y == [0, 0, x[2], x[3], x[4]]).all()


def test_a_masked_load_from_an_empty_buffer_is_harmless():
    text = """
    kernel empty(x: f32[0] C, c: bool[n] C, y: f32[n] C out) dims(n) {
      for %i in 0..n {
        %b = load c[%i]
        %r = if %b {
          %v = load x[%i]
          yield %v
        } else {
          yield 2.0:f32
        }
        store y[%i] = %r
      }
    }
    """
    y, empty = np.zeros(3, np.float32), np.zeros(0, np.float32)
    run(text, {"n": 3}, x=empty, c=np.zeros(3, bool), y=y)
    assert (y == 2).all()
    with pytest.raises(InternalError, match="accessed at 1 on axis 0"):
        run(text, {"n": 3}, x=empty, c=np.array([False, True, False]), y=y)


def test_two_parallel_iterations_that_store_to_one_place_are_refused():
    x, y = numbers(6), np.zeros(6, np.float32)
    with pytest.raises(InternalError, match=r"iterations \d and \d of parallel loop number 0 both store to y\[0\]"):
        run(copy_kernel("parallel", 0, "%v = load x[%i]; store y[0] = %v"), {"n": 6}, x=x, y=y)
    with pytest.raises(InternalError, match="both store to y"):
        run(copy_kernel("vector(4, 1)", 0, "%k = idiv %i 2; store y[%k] = 1.0:f32"), {"n": 6}, x=x, y=y)


def test_the_last_of_serial_iterations_wins():
    x, y = numbers(6), np.zeros(6, np.float32)
    run(copy_kernel("", 0, "%v = load x[%i]; %k = idiv %i 4; store y[%k] = %v"), {"n": 6}, x=x, y=y)
    assert (y == [x[3], x[5], 0, 0, 0, 0]).all()


def test_serial_iterations_that_store_through_two_statements_keep_their_order():
    body = "%v = load x[%i]; %k = sub 4 %i; store y[%k] = %v; store y[%i] = 1.0:f32"
    x, y = numbers(5), np.zeros(5, np.float32)
    run(copy_kernel("", 0, body), {"n": 5}, x=x, y=y)
    expected = np.zeros(5, np.float32)
    for i in range(5):
        expected[4 - i] = x[i]
        expected[i] = 1
    assert (y == expected).all()


def test_a_store_in_an_inner_recurrence_keeps_the_order_of_the_outer_loop():
    text = """
    kernel late(y: i64[8] C out) {
      for %i in 0..5 {
        %t = for %k in 0..4 carry(%a = 0) {
          %j = add %i %k
          %h = mul %i 10
          %v = add %h %k
          store y[%j] = %v
          yield %v
        }
      }
    }
    """
    y = np.zeros(8, np.int64)
    run(text, y=y)
    assert (y == [0, 10, 20, 30, 40, 41, 42, 43]).all()


def test_a_loop_that_reads_what_it_writes_runs_in_order():
    body = "%a = load y[%i]; %b = load x[%j]; %c = add %a %b; store y[%j] = %c"
    x = np.arange(6, dtype=np.float32)
    y = np.zeros(6, np.float32)
    text = copy_kernel("", 1, body).replace("0..n", "0..(n-1)")
    run(text, {"n": 6}, x=x, y=y)
    assert (y == x.cumsum()).all()


def test_buffers_in_one_memory_are_seen_as_one():
    body = "%a = load x[%i]; %b = add %a 1.0:f32; store y[%j] = %b"
    memory = np.zeros(9, np.float32)
    text = copy_kernel("", 1, body).replace("0..n", "0..(n-1)")
    run(text, {"n": 8}, x=memory[:8], y=memory[:8])
    assert (memory == [*range(8), 0]).all()


def test_an_in_place_update_runs_in_step(monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []
    original = interpreter.OPS["mul"].impl
    spec = interpreter.OPS["mul"]
    monkeypatch.setitem(
        interpreter.OPS, "mul", type(spec)("mul", 2, "same", 1, lambda *a: calls.append(1) or original(*a))
    )
    x, y = numbers(20_000), numbers(20_000, seed=1)
    expected = x * y
    run(
        copy_kernel("", 0, "%a = load y[%j]; %b = load x[%i]; %c = mul %a %b; store y[%j] = %c"),
        {"n": 20_000},
        x=x,
        y=y,
    )
    assert (y == expected).all()
    assert len(calls) == -(-20_000 // interpreter._LANES)


def test_private_memory_is_private_and_starts_poisoned():
    text = """
    kernel private(y: f32[n] C out, z: f32[n] C out) dims(n) {
      for %i in 0..n parallel {
        alloc t: f32[2] C local
        %f: f32 = convert %i
        store t[0] = %f
        %a = load t[0]
        store y[%i] = %a
        %b = load t[1]
        store z[%i] = %b
      }
    }
    """
    y, z = np.zeros(9, np.float32), np.zeros(9, np.float32)
    run(text, {"n": 9}, y=y, z=z)
    assert (y == np.arange(9)).all()
    assert np.isnan(z).all()


def test_a_block_shares_memory_and_meets_at_barriers():
    text = """
    kernel block_sum(x: f32[n, 8] C, y: f32[n] C out) dims(n) {
      for %g in 0..n grid {
        alloc s: f32[8] C shared
        for %t in 0..8 block {
          %v = load x[%g, %t]
          store s[%t] = %v
          barrier
          %end = for %k in 0..3 carry(%w = 4) {
            %on = lt %t %w
            if %on {
              %u = add %t %w
              %a = load s[%t]
              %b = load s[%u]
              %c = add %a %b
              store s[%t] = %c
            }
            barrier
            %h = idiv %w 2
            yield %h
          }
          %first = eq %t 0
          if %first {
            %r = load s[0]
            store y[%g] = %r
          }
        }
      }
    }
    """
    x = np.random.default_rng(0).integers(0, 100, (6000, 8)).astype(np.float32)
    y = np.zeros(6000, np.float32)
    run(text, {"n": 6000}, x=x, y=y)
    assert (y == x.sum(1)).all()


def test_triangular_loops_and_steps():
    text = """
    kernel triangular(x: i64[n, n] C, y: i64[n] C out) dims(n) {
      for %i in 0..n parallel {
        %s = for %k in %i..n step 3 carry(%a = 0) combine(%p, %q) { %r = add %p %q; yield %r } {
          %v = load x[%i, %k]
          %w = add %a %v
          yield %w
        }
        store y[%i] = %s
      }
    }
    """
    x = np.random.default_rng(0).integers(0, 100, (50, 50))
    y = np.zeros(50, np.int64)
    run(text, {"n": 50}, x=x, y=y)
    assert (y == [x[i, i::3].sum() for i in range(50)]).all()


def test_a_recurrence_of_varying_length_keeps_each_lanes_last_value():
    text = """
    kernel powers(y: i64[n] C out) dims(n) {
      for %i in 0..n parallel {
        %s = for %k in 0..%i carry(%a = 1) {
          %w = mul %a 3
          yield %w
        }
        store y[%i] = %s
      }
    }
    """
    y = np.zeros(12, np.int64)
    run(text, {"n": 12}, y=y)
    assert (y == 3 ** np.arange(12)).all()


def test_a_sum_of_what_does_not_depend_on_the_index_counts_every_iteration():
    text = """
    kernel count(x: i64[] C, y: i64[] C out) dims(n) {
      %s = for %k in 0..n vector(8, 1) carry(%a = 0) combine(%p, %q) { %r = add %p %q; yield %r } {
        %v = load x[]
        %w = add %a %v
        yield %w
      }
      store y[] = %s
    }
    """
    y = np.zeros((), np.int64)
    run(text, {"n": 99_999}, x=np.array(3), y=y)
    assert y == 299_997


def test_branches_give_each_lane_its_own_result():
    text = """
    kernel branch(x: f64[n] C, y: f64[n] C out) dims(n) {
      for %i in 0..n vector(4, 1) {
        %v = load x[%i]
        %neg = lt %v 0.0:f64
        %r, %unused = if %neg {
          %a = neg %v
          %b = sqrt %a
          yield %b 0
        } else {
          %c = mul %v 2.0:f64
          yield %c %i
        }
        store y[%i] = %r
      }
    }
    """
    x = numbers(1000, dtype="f8")
    y = np.zeros_like(x)
    run(text, {"n": 1000}, x=x, y=y)
    np.testing.assert_array_equal(y, np.where(x < 0, np.sqrt(np.abs(x)), 2 * x))
    run(text, {"n": 4}, x=-np.ones(4), y=y[:4])
    assert (y[:4] == 1).all()


def test_arguments_that_do_not_fit_are_refused():
    text = copy_kernel("", 0, "%v = load x[%j]; store y[%j] = %v")
    x, y = numbers(5), np.zeros(5, np.float32)
    with pytest.raises(InternalError, match="there is no array for buffer y"):
        run(text, {"n": 5}, x=x)
    with pytest.raises(InternalError, match=r"buffer x is f32\[4\], the array float32\[5\]"):
        run(text, {"n": 4}, x=x, y=y)
    with pytest.raises(InternalError, match="buffer x is contiguous, the array has strides"):
        run(text, {"n": 5}, x=x[::-1], y=y)
    with pytest.raises(InternalError, match="the extents n are not given"):
        run(text, x=x, y=y)


@pytest.mark.parametrize(
    ("op", "args", "dtype"),
    [
        ("fma", "%f 2.0:f32 1.0:f32", "f32"),
        ("bitcast", "%f", "i32"),
        ("erf", "%f", "f32"),
        ("select", "True %f 1.0:f32", "f32"),
    ],
)
def test_operations_on_single_values_stay_single(op: str, args: str, dtype: str):
    text = f"kernel one(y: {dtype}[] C out) {{\n%f: f32 = convert 3\n%v: {dtype} = {op} {args}\nstore y[] = %v\n}}"
    y = np.zeros((), {"f32": "f4", "i32": "i4"}[dtype])
    run(text, y=y)
    expected = {"fma": 7.0, "bitcast": np.float32(3).view(np.int32), "erf": np.float32(0.9999779), "select": 3.0}[op]
    assert y == expected


def test_a_while_at_the_top_is_a_plain_loop():
    text = """
    kernel gcd(a: i64[] C, b: i64[] C, y: i64[] C out) {
      %a = load a[]
      %b = load b[]
      %x, %z = while carry(%p = %a, %q = %b) {
        %r = irem %p %q
        %t = ne %q 0
        test %t
      } do {
        yield %q %r
      }
      store y[] = %x
    }
    """
    y = np.zeros((), np.int64)
    run(text, a=np.array(462), b=np.array(1071), y=y)
    assert y == 21
