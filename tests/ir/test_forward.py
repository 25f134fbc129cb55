"""Copies that need not be made, in kernels that loops of a program have become."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir.check import check_kernel
from tracejit.ir.kernel import Kernel, walk
from tracejit.ir.passes.forward import without_copies
from tracejit.ir.text import parse_kernel

HEAD = "kernel k(x: f64[9] C out, t: f64[9] C out, y: f64[3, 9] C, z: f64[3, 9] C out)"
DOT = """
    %6 = for %j in 0..%i carry(%c = 0.0:f64) {
      %4 = load y[0, %j]
      %5 = load t[%j]
      %7 = fma %4 %5 %c
      yield %7
    }
"""


def kernel(body: str, head: str = HEAD) -> Kernel:
    made = parse_kernel(head + " {" + body + "}")
    check_kernel(made)
    return made


def without(made: Kernel) -> Kernel:
    own = [b for b in made.buffers if b.name == "t"]
    found = without_copies(made, own)
    check_kernel(found)
    return found


def copies(made: Kernel) -> bool:
    return any(getattr(getattr(s, "buffer", None), "name", "") == "t" for s in walk(made.body))


def results(made: Kernel) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = [rng.random(9), rng.random(9), rng.random((3, 9)), rng.random((3, 9))]
    run_kernel(made, dict(zip([b.name for b in made.buffers], arrays, strict=True)), {})
    return [arrays[0], arrays[3]]


def solve(between: str = "", inside: str = "", copied: str = "%k", after: str = "") -> str:
    return f"""
  for %i in 0..9 {{
    for %k in 0..%i vector(4, 2) {{
      %0 = sub 8 %k
      %1 = load x[{copied}]
      store t[%k] = %1
    }}
    {between}
    {DOT.replace("yield %7", inside + chr(10) + "yield %7")}
    store x[%i] = %6
    {after}
  }}
"""


@pytest.mark.parametrize(
    "body",
    [
        solve(),
        solve(copied="%0"),
        solve(between="store z[0, %i] = 1.0:f64"),
        solve(after="for %m in 0..%i { %8 = load y[1, %m]\n store x[%m] = %8 }"),
        """
  for %i in 0..9 {
    for %k in 0..%i {
      %0 = load x[%k]
      store t[%k] = %0
    }
    for %j in 0..%i {
      %2 = load t[%j]
      store z[2, %j] = %2
    }
    store x[%i] = 2.0:f64
  }
""",
    ],
)
def test_a_copy_is_not_made_where_its_source_stays(body: str) -> None:
    made = kernel(body)
    less = without(made)
    assert copies(made)
    assert not copies(less)
    for a, b in zip(results(made), results(less), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "body",
    [
        solve(between="store x[0] = 1.0:f64"),  # changed before it is read
        solve(inside="store x[%j] = %7"),  # changed while it is read
        # its places are loaded
        solve(copied="%13").replace("%0 = sub 8 %k", "%11 = load y[0, %k]\n%12: i64 = convert %11\n%13 = max %12 0"),
        solve(after="%8 = load t[0]\n store z[0, 0] = %8"),  # read once more, behind the change
        DOT.replace("0..%i", "0..9")
        + "for %k in 0..9 { %1 = load x[%k]\n store t[%k] = %1 }\n store z[0, 0] = %6",  # read before
        solve().replace("%j in 0..%i", "%j in 0..9"),  # further than it was copied
        solve().replace("load t[%j]", "load t[0]"),
        solve().replace("store t[%k] = %1", "store t[%k] = %1\nstore x[%k] = 0.0:f64"),
        """
  for %i in 0..9 {
    for %k in 0..9 {
      %0 = load x[%k]
      store t[%k] = %0
    }
    for %m in 0..3 {
      for %j in 0..9 {
        %2 = load t[%j]
        store z[%m, %j] = %2
      }
    }
    store x[%i] = 2.0:f64
  }
""",  # read many times: the copy may lie better
    ],
)
def test_a_copy_is_made_where_it_has_to_be(body: str) -> None:
    made = kernel(body)
    less = without(made)
    assert copies(less)
    for a, b in zip(results(made), results(less), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_others_read_is_copied() -> None:
    made = kernel(solve())
    assert without_copies(made, ()) is made


def cholesky(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[j, :j]
            a[i, j] /= a[j, j]
        a[i, i] = np.sqrt(a[i, i] - a[i, :i] @ a[i, :i])


def triangular(a, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
    return x


def durbin(r):
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = alpha
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def rows(starts, columns, values, x):
    y = np.empty(starts.size - 1)
    for i in range(starts.size - 1):
        at = columns[starts[i] : starts[i + 1]]
        y[i] = values[starts[i] : starts[i + 1]] @ x[at]
    return y


def test_a_sparse_product_is_one_kernel() -> None:
    """Its rows are too short for threads, which is known although data decide how long they are."""
    rng = np.random.default_rng(2)
    starts = np.sort(rng.integers(0, 600, 301)).astype(np.uint32)
    columns = rng.integers(0, 400, 600).astype(np.uint32)
    values, x = rng.random(600), rng.random(400)
    compiled = tj.jit(rows)
    np.testing.assert_allclose(compiled(starts, columns, values, x), rows(starts, columns, values, x), rtol=1e-12)
    program = compiled.lower(starts, columns, values, x).text("program")
    assert "launch loop_0" in program
    assert "for _ in" not in program
    with pytest.raises(IndexError):
        compiled(starts, columns + np.uint32(1), values, x)


@pytest.mark.parametrize("backend", ["cpu", "opencl", "reference"])
def test_factorisations(backend: str) -> None:
    rng = np.random.default_rng(1)
    m = rng.random((40, 40))
    spd = m @ m.T + 40 * np.eye(40)
    for function, arguments in [
        (cholesky, (spd,)), (triangular, (spd, m[0].copy())), (durbin, (m[:, 0] * 0.01,)),
    ]:  # fmt: skip
        ours, numpys = [[a.copy() for a in arguments] for _ in range(2)]
        compiled = tj.jit(function, backend=backend)
        got, expected = compiled(*ours), function(*numpys)
        for a, b in [*zip(ours, numpys, strict=True), *([] if got is None else [(got, expected)])]:
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
        if function is not durbin and backend == "cpu":
            texts = compiled.lower(*arguments).text("scheduled")
            loop = texts[texts.index("kernel loop_") :]
            products = loop.count("fma") + loop.count(" mul ")  # by the processor one or the other
            assert loop.count("vector(") == products > 0, "vectors only where products are summed"
