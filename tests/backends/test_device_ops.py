"""Every scalar operation on every dtype, on edge values, against its definition in `ir.scalar.OPS`."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tracejit.backends.device.device import Device
from tracejit.ir.kernel import Buffer, For, Kernel, Load, Op, Store, Value, index_const
from tracejit.ir.scalar import BITS, DTYPES, OPS, is_float, is_integer
from tracejit.ir.text import parse_kernel

COUNT = 1024
INTEGER_ONLY = {"idiv", "irem", "shl", "shr", "lshr"}
FLOAT_ONLY = {"div", "fma", "sqrt", "floor", "ceil", "trunc", "roundeven", "copysign"}
NOT_FLOAT = {"and", "or", "xor", "not"}
NOT_BOOL = {"sub", "neg"}


def applies(op: str, dtype: str) -> bool:
    """Whether the table gives `op` a meaning on `dtype`."""
    if OPS[op].math or OPS[op].result in ("part", "whole"):  # there are no complex numbers in what devices run
        return False
    if op in INTEGER_ONLY:
        return is_integer(dtype)
    if op in FLOAT_ONLY:
        return is_float(dtype)
    if op in NOT_FLOAT:
        return not is_float(dtype)
    return not (op in NOT_BOOL and dtype == "bool")


def cases() -> list[tuple[str, str, str]]:
    """(operation, operand dtype, result dtype), conversions and bit casts to every dtype they have."""
    found: list[tuple[str, str, str]] = []
    for dtype in DTYPES:
        for op, spec in OPS.items():
            if op == "convert":
                found += [(op, dtype, out) for out in DTYPES if out != dtype]
            elif op == "bitcast":
                found += [
                    (op, dtype, out) for out in DTYPES if out != dtype and BITS[out] == BITS[dtype] and out != "bool"
                ]
            elif applies(op, dtype):
                found.append((op, dtype, "bool" if spec.result == "bool" else dtype))
    return found


def edges(dtype: str) -> np.ndarray:
    """Values at which operations go wrong."""
    kind = DTYPES[dtype]
    if dtype == "bool":
        return np.array([False, True])
    if is_integer(dtype):
        info = np.iinfo(kind)
        return np.unique(
            np.array(
                [
                    info.min,
                    info.min + 1,
                    -1 if info.min else 5,
                    0,
                    1,
                    2,
                    3,
                    7,
                    8,
                    15,
                    16,
                    31,
                    32,
                    63,
                    64,
                    100,
                    info.max - 1,
                    info.max,
                ],
                kind,
            )
        )
    info = np.finfo(kind)
    base = [
        0.0,
        0.5,
        1.0,
        1.5,
        2.5,
        3.0,
        1 / 3,
        0.1,
        255.5,
        1000.0,
        float(info.tiny),
        float(info.smallest_subnormal),
        float(info.max),
        np.inf,
    ]
    bounds = [2.0**k for k in (7, 8, 15, 16, 31, 32, 53, 63, 64) if 2.0**k < float(info.max)]
    near = [np.nextafter(kind.type(b), kind.type(0)) for b in bounds]
    beyond = [np.nextafter(kind.type(b), kind.type(np.inf)) for b in bounds]
    magnitudes = np.array([*base, *bounds, *near, *beyond, 2.0**31 - 0.5 if dtype == "f64" else 6.5], kind)
    return np.concatenate([magnitudes, -magnitudes, np.array([np.nan], kind)])


def operands(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Three rows of operands: pairs of edge values, random bits, and magnitudes at which rounding matters."""
    values = edges(dtype)
    pairs = rng.choice(values, (3, COUNT))
    grid = np.array(np.meshgrid(values[:: max(1, len(values) // 22)], values[:: max(1, len(values) // 22)])).reshape(
        2, -1
    )[:, : COUNT // 2]
    pairs[:2, : grid.shape[1]] = grid
    if is_float(dtype):
        span = COUNT // 8
        pairs[:, -span:] = (rng.standard_normal((3, span)) * 10.0 ** rng.integers(-3, 3, (3, span))).astype(
            DTYPES[dtype]
        )
    elif is_integer(dtype):
        pairs[:, -COUNT // 8 :] = rng.integers(0, 256, (3, COUNT // 8 * BITS[dtype] // 8), np.uint8).view(DTYPES[dtype])
    pairs[0, : len(values)] = values
    return pairs


def one_kernel(found: list[tuple[str, str, str]]) -> Kernel:
    """out_<dtype>[case, i] = op(x[0, i], x[1, i], x[2, i]) for all cases at once: one compilation."""
    i = Value("i64")
    inputs = {d: Buffer(f"x_{d}", d, (3, COUNT)) for d in DTYPES}
    rows = {d: sum(out == d for _, _, out in found) for d in DTYPES}
    outputs = {d: Buffer(f"out_{d}", d, (max(1, rows[d]), COUNT)) for d in DTYPES}
    body: list[Any] = []
    args = {d: [Value(d) for _ in range(3)] for d in DTYPES}
    for d in DTYPES:
        body += [Load(v, inputs[d], (index_const(n), i)) for n, v in enumerate(args[d])]
    used = dict.fromkeys(DTYPES, 0)
    for op, dtype, out in found:
        values = [args["bool"][2], *args[dtype][:2]] if op == "select" else args[dtype][: OPS[op].arity]
        result = Value(out)
        body += [Op(result, op, tuple(values)), Store(outputs[out], (index_const(used[out]), i), result)]
        used[out] += 1
    loop = For(i, index_const(0), index_const(COUNT), tuple(body))
    return Kernel(
        "all_ops", (*inputs.values(), *outputs.values()), frozenset(b.name for b in outputs.values()), (loop,)
    )


def expected(op: str, dtype: str, out: str, data: dict[str, np.ndarray]) -> np.ndarray:
    x = data[dtype]
    args = [data["bool"][2], x[0], x[1]] if op == "select" else list(x[: OPS[op].arity])
    if (op, dtype) == ("fma", "f64"):
        with np.errstate(all="ignore"):
            return np.array([exact_fma(*map(float, row)) for row in zip(*args, strict=True)])
    return np.asarray(OPS[op].impl(DTYPES[out], *args)).astype(DTYPES[out])


def exact_fma(x: float, y: float, z: float) -> float:
    """x * y + z rounded once, by rational arithmetic: the table's own is not exact near the greatest number."""
    if not (np.isfinite(x) and np.isfinite(y)):
        return x * y + z
    if not np.isfinite(z):
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact) or x * y + z
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


def wrong(op: str, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where results differ; any NaN equals any NaN, and min and max may give either zero."""
    if got.dtype.kind != "f":
        return got != want
    different = ~((got == want) | (np.isnan(got) & np.isnan(want)))
    if op not in ("min", "max"):
        different |= (np.signbit(got) != np.signbit(want)) & ~np.isnan(want)
    return different


def test_every_operation_on_every_dtype_is_what_the_table_says(device: Device):
    found = cases()
    assert len(found) > 400
    rng = np.random.default_rng(7)
    data = {d: operands(d, rng) for d in DTYPES}
    kernel = one_kernel(found)
    compiled = device.compile_kernel(kernel)
    buffers = [device.from_host(data[d]) for d in DTYPES] + [
        device.alloc(b.shape[0] * COUNT * 8) for b in kernel.buffers[len(DTYPES) :]
    ]
    compiled.launch(buffers)
    results = {
        d: device.to_host(buffer, DTYPES[d], spec.shape)
        for d, buffer, spec in zip(DTYPES, buffers[len(DTYPES) :], kernel.buffers[len(DTYPES) :], strict=True)
    }
    used = dict.fromkeys(DTYPES, 0)
    failures: list[str] = []
    for op, dtype, out in found:
        got, want = results[out][used[out]], expected(op, dtype, out, data)
        used[out] += 1
        bad = np.flatnonzero(wrong(op, got, want))
        if len(bad):
            n = bad[0]
            failures.append(
                f"{op} {dtype}->{out}: {len(bad)} wrong; {[r[n] for r in data[dtype]]} gives {got[n]}, not {want[n]}"
            )
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("source", DTYPES)
def test_converted_numbers_are_compared_with_constants(device: Device, source: str):
    """Compilers know what ranges conversions have, and lavapipe's is wrong about one."""
    x, kernels = edges(source), []
    cases = {target: comparisons(target) for target in DTYPES if target not in (source, "bool")}
    for target, found in cases.items():
        body = ""
        for n, (op, c, first) in enumerate(found):
            literal = f"{c.item()!r}:{target}"
            body += f"%r{n} = {op} {f'{literal} %a' if first else f'%a {literal}'}; store out[{n}, %i] = %r{n}; "
        text = f"""
        kernel f(x: {source}[{len(x)}] C, out: bool[{len(found)}, {len(x)}] C out) {{
          for %i in 0..{len(x)} {{ %z = load x[%i]; %a: {target} = convert %z; {body} }}
        }}"""
        kernels.append(parse_kernel(text))
    given = device.from_host(x)
    for (target, found), compiled in zip(cases.items(), device.compile_kernels(kernels), strict=True):
        out = device.alloc(len(found) * len(x), "bool")
        compiled.launch([given, out])
        a = np.asarray(OPS["convert"].impl(DTYPES[target], x))
        for (op, c, first), row in zip(found, device.to_host(out, "?", (len(found), len(x))), strict=True):
            want = OPS[op].impl(np.dtype(bool), *((c, a) if first else (a, c)))
            np.testing.assert_array_equal(row, want, f"{source} as {target} {op} {c}, first {first}")


def comparisons(dtype: str) -> list[tuple[str, Any, bool]]:
    """(operation, constant, whether it comes first)"""
    values = edges(dtype)[[0, 1, 2, 3, 8, -2, -1]] if is_integer(dtype) else np.array([-3, 0, 100], DTYPES[dtype])
    return [(op, c, first) for c in values for op in ("eq", "lt", "ge") for first in (False, True)]
