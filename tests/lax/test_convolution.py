"""Convolutions against sums written out in Python: eagerly, compiled, in batches, with derivatives, at all sizes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import lax
from tracejit.support.errors import DtypeError, OptionError, ShapeError, TracejitError, TracerError

RNG = np.random.default_rng(0)


def written_out(
    x: Any,
    w: Any,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    numbers: Any = None,
    features: int = 1,
    batches: int = 1,
) -> Any:
    """What a convolution is, element by element: elements of x that are not there count as nothing."""
    specs = numbers or (tuple(range(x.ndim)),) * 3
    x, w = np.transpose(x, specs[0]), np.transpose(w, specs[1])
    rank = x.ndim - 2
    apart, further = lhs_dilation or (1,) * rank, rhs_dilation or (1,) * rank
    places = []
    for d in range(rank):
        n = (x.shape[2 + d] - 1) * apart[d] + 1 if x.shape[2 + d] else 0
        span = (w.shape[2 + d] - 1) * further[d] + 1
        places.append(max(0, (n + sum(padding[d]) - span) // strides[d] + 1))
    (n, c), o = x.shape[:2], w.shape[0]
    out = np.zeros((n // batches, o, *places), x.dtype)
    groups = features * batches
    for b, f, *p in np.ndindex(*out.shape):
        g = f // (o // groups)
        row = b + (n // batches) * (g if batches > 1 else 0)
        for i, *k in np.ndindex(w.shape[1], *w.shape[2:]):
            at = [q * s + j * e - low for q, s, j, e, (low, _) in zip(p, strides, k, further, padding, strict=True)]
            if all(a % e == 0 and 0 <= a // e < m for a, e, m in zip(at, apart, x.shape[2:], strict=True)):
                channel = i + (c // features) * (g if features > 1 else 0)
                place = tuple(a // e for a, e in zip(at, apart, strict=True))
                out[(b, f, *p)] += x[(row, channel, *place)] * w[(f, i, *k)]
    return np.transpose(out, np.argsort(specs[2]))


def drawn(rng: np.random.Generator) -> tuple[Any, Any, tuple[Any, ...]]:
    """An array, a filter and the parameters of a convolution."""
    rank = int(rng.integers(0, 4))
    few = lambda low, high: [int(n) for n in rng.integers(low, high + 1, rank)]  # noqa: E731
    features = int(rng.integers(1, 4)) if rng.random() < 0.5 else 1
    batches = int(rng.integers(1, 3)) if features == 1 else 1
    specs = [tuple(int(a) for a in rng.permutation(rank + 2)) for _ in range(3)]
    inner = int(rng.integers(1, 3))
    full = [
        (batches * int(rng.integers(1, 3)), features * inner, *few(1, 6)),
        (features * batches * int(rng.integers(1, 3)), inner, *few(1, 3)),
    ]
    x, w = (rng.standard_normal([shape[k] for k in np.argsort(spec)]) for shape, spec in zip(full, specs, strict=False))
    padding = list(zip(few(-1, 2), few(0, 2), strict=True))
    numbers = lax.ConvDimensionNumbers(*specs)
    return x, w, (few(1, 3), padding, few(1, 2), few(1, 2), numbers, features, batches)


@pytest.mark.parametrize("seed", range(16))
def test_any_convolution_is_the_sum_written_out(seed: int):
    x, w, parameters = drawn(np.random.default_rng(seed))
    want = written_out(x, w, *parameters)
    f = lambda x, w: lax.conv_general_dilated(x, w, *parameters)  # noqa: E731
    np.testing.assert_allclose(f(x, w), want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tj.jit(f)(x, w), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(100, 112))
def test_gradients_of_any_convolution_are_its_transposes(seed: int):
    rng = np.random.default_rng(seed)
    x, w, parameters = drawn(rng)
    f = lambda x, w: lax.conv_general_dilated(x, w, *parameters)  # noqa: E731
    ct = rng.standard_normal(f(x, w).shape)
    to_x, to_w = tj.jit(lambda x, w, ct: tj.vjp(f, x, w)[1](ct))(x, w, ct)
    s, t = rng.standard_normal(x.shape), rng.standard_normal(w.shape)
    np.testing.assert_allclose((to_x * s).sum(), (ct * f(s, w)).sum(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose((to_w * t).sum(), (ct * f(x, t)).sum(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_convolutions_of_spread_arrays_leave_the_zeros_out(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tracejit.primitives.convolution.PHASED_WORK", 0)
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((2, 2, *rng.integers(1, 6, 2))), rng.standard_normal((3, 2, *rng.integers(1, 5, 2)))
    apart, padding = (
        [int(n) for n in rng.integers(1, 4, 2)],
        [tuple(int(n) for n in rng.integers(-1, 5, 2)) for _ in "hw"],
    )
    got = tj.jit(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), padding, apart))(x, w)
    np.testing.assert_allclose(got, written_out(x, w, (1, 1), padding, apart), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (-1, 1)])
@pytest.mark.parametrize("seed", range(200, 204))
def test_a_batch_of_convolutions_is_each_of_them(seed: int, axes: tuple[Any, Any]):
    x, w, parameters = drawn(np.random.default_rng(seed))
    f = lambda x, w: lax.conv_general_dilated(x, w, *parameters)  # noqa: E731
    many = [np.stack([z, 2 * z, z - 1], a) if a is not None else z for z, a in zip((x, w), axes, strict=True)]
    one = lambda z, a, k: z if a is None else np.take(z, k, a)  # noqa: E731
    want = [f(*[one(z, a, k) for z, a in zip(many, axes, strict=True)]) for k in range(3)]
    np.testing.assert_allclose(tj.jit(tj.vmap(f, in_axes=axes))(*many), np.stack(want), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("numbers", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("CWNH", "IHOW", "HCNW")])
@pytest.mark.parametrize(("size", "strides"), [(40, (1, 1)), (33, (2, 3)), (12, (1, 2))])
def test_large_convolutions_are_products(numbers: tuple[str, str, str], size: int, strides: tuple[int, int]):
    named = lambda text, of: tuple(of[letter] for letter in text)  # noqa: E731
    x = RNG.standard_normal(named(numbers[0], {"N": 2, "C": 5, "H": size, "W": size + 1}))
    w = RNG.standard_normal(named(numbers[1], {"O": 7, "I": 5, "H": 3, "W": 2}))
    f = lambda x, w: lax.conv_general_dilated(x, w, strides, "SAME", dimension_numbers=numbers)  # noqa: E731
    dims = lax.conv_dimension_numbers(x.shape, w.shape, numbers)
    p = lax.padtype_to_pads(
        [x.shape[a] for a in dims.lhs_spec[2:]], [w.shape[a] for a in dims.rhs_spec[2:]], strides, "SAME"
    )
    canonical = np.einsum("nchwij,ocij->nohw", *windows_and_filter(x, w, dims, strides, p))
    np.testing.assert_allclose(
        tj.jit(f)(x, w), np.transpose(canonical, np.argsort(dims.out_spec)), rtol=1e-11, atol=1e-11
    )


def windows_and_filter(x: Any, w: Any, dims: Any, strides: Any, padding: Any) -> tuple[Any, Any]:
    around = np.pad(np.transpose(x, dims.lhs_spec), [(0, 0), (0, 0), *padding])
    taps = np.transpose(w, dims.rhs_spec)
    found = np.lib.stride_tricks.sliding_window_view(around, taps.shape[2:], (2, 3))
    return found[:, :, :: strides[0], :: strides[1]], taps


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i4", "u8", "f2", "f4"])
def test_convolutions_of_every_dtype(dtype: str):
    x, w = RNG.integers(0, 3, (2, 3, 8)).astype(dtype), RNG.integers(0, 2, (4, 3, 3)).astype(dtype)
    want = written_out(x.astype("i8"), w.astype("i8"), (1,), [(1, 0)]).astype(dtype)
    f = lambda x, w: lax.conv_with_general_padding(x, w, (1,), [(1, 0)], None, None)  # noqa: E731
    for got in (f(x, w), tj.jit(f)(x, w)):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_preferred_element_type_is_that_of_sums_and_result():
    x, w = np.full((1, 1, 4), 100, np.int8), np.full((1, 1, 4), 100, np.int8)
    got = tj.jit(lambda x, w: lax.conv(x, w, (1,), "VALID", preferred_element_type=np.int32))(x, w)
    assert got.dtype == np.int32
    assert got.item() == 40_000


def test_half_precision_accumulates_in_single():
    x, w = np.full((1, 4000), 1, np.float16), np.ones((1, 4000), np.float16)
    f = lambda x, w: lax.conv_general_dilated(x, w, (), "VALID")  # noqa: E731
    assert tj.jit(f)(x, w).item() == f(x, w).item() == 4000


# -- sizes -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("strides", "padding"), [((1, 1), "SAME"), ((2, 2), "SAME"), ((2, 1), [(1, 0), (2, 1)])])
def test_one_function_serves_all_sizes(strides: tuple[int, int], padding: Any):
    w = RNG.standard_normal((3, 2, 3, 2))
    f = lambda x, w: lax.conv_general_dilated(x, w, strides, padding)  # noqa: E731
    compiled, gradient = tj.jit(f), tj.jit(tj.grad(lambda x, w: (f(x, w) ** 2).sum(), argnums=(0, 1)))
    for n, h in ((2, 6), (2, 7), (3, 30), (2, 1), (0, 5)):
        x = RNG.standard_normal((n, 2, h, h + 1))
        np.testing.assert_allclose(compiled(x, w), f(x, w), rtol=1e-12, atol=1e-12)
        if h not in (6, 7, 30):
            continue
        to_x, to_w = gradient(x, w)
        s = RNG.standard_normal(x.shape)
        np.testing.assert_allclose((to_x * s).sum(), (2 * f(x, w) * f(s, w)).sum(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose((to_w * w).sum(), (2 * f(x, w) ** 2).sum(), rtol=1e-9, atol=1e-9)


def test_a_version_with_symbolic_extents_serves_further_sizes():
    f = tj.jit(lambda x, w: lax.conv(x, w, (1, 1), "SAME"))
    w = np.ones((1, 1, 3, 3))
    for h in (8, 9, 20, 50):
        f(np.ones((2, 1, h, h + 3)), w)
    assert "version 1" in f.explain()
    assert "version 2" not in f.explain()


@pytest.mark.parametrize(
    ("x", "w"), [((0, 2, 5), (3, 2, 2)), ((2, 0, 5), (3, 0, 2)), ((2, 2, 5), (0, 2, 2)), ((2, 2, 1), (3, 2, 2))]
)
def test_empty_convolutions(x: tuple[int, ...], w: tuple[int, ...]):
    a, b = np.ones(x), np.ones(w)
    f = lambda x, w: lax.conv(x, w, (1,), "VALID")  # noqa: E731
    want = written_out(a, b, (1,), [(0, 0)])
    np.testing.assert_array_equal(f(a, b), want)
    np.testing.assert_array_equal(tj.jit(f)(a, b), want)
    to_x, to_w = tj.jit(tj.grad(lambda x, w: f(x, w).sum(), argnums=(0, 1)))(a, b)
    assert (to_x.shape, to_w.shape) == (x, w)


# -- where they stand --------------------------------------------------------------------------------------------------
def test_second_derivatives():
    x, w = RNG.standard_normal((1, 2, 6)), RNG.standard_normal((2, 2, 3))
    f = lambda x, w: np.sin(lax.conv(x, w, (1,), "SAME")).sum()  # noqa: E731
    s, h = RNG.standard_normal(x.shape), 1e-5
    slope = tj.grad(f, argnums=(0, 1))
    _, got = tj.jit(lambda x, w, s: tj.jvp(lambda x: slope(x, w), (x,), (s,)))(x, w, s)
    for a, ahead, behind in zip(got, slope(x + h * s, w), slope(x - h * s, w), strict=True):
        np.testing.assert_allclose(a, (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-8)


def test_in_loops_and_branches():
    def smoothed(x: Any, taps: Any) -> Any:
        for _ in range(20):
            if x.sum() > 0:
                x = lax.conv(x, taps, (1,), "SAME")
            else:
                x = x + 0.5
        return x

    x, taps = np.abs(RNG.standard_normal((1, 1, 30))), np.array([[[0.25, 0.5, 0.25]]])
    np.testing.assert_allclose(tj.jit(smoothed)(x, taps), smoothed(x, taps), rtol=1e-12)
    slope = tj.jit(tj.grad(lambda x, taps: smoothed(x, taps)[0, 0, 7]))(x, taps)
    h, s = 1e-6, RNG.standard_normal(x.shape)
    want = (smoothed(x + h * s, taps) - smoothed(x - h * s, taps))[0, 0, 7] / (2 * h)
    np.testing.assert_allclose((slope * s).sum(), want, rtol=1e-7)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.parametrize("seed", [4, 6])
def test_on_other_backends(backend: str, seed: int, record_backend: Callable[[str], None]):
    record_backend(backend)
    x, w, parameters = drawn(np.random.default_rng(seed))
    f = lambda x, w: lax.conv_general_dilated(x, w, *parameters)  # noqa: E731
    want = f(x, w)
    np.testing.assert_allclose(tj.jit(f, backend=backend)(x, w), want, rtol=1e-12, atol=1e-12)
    gradient = tj.jit(lambda x, w, ct: tj.vjp(f, x, w)[1](ct)[1], backend=backend)(x, w, np.asarray(want))
    np.testing.assert_allclose((gradient * w).sum(), (want * want).sum(), rtol=1e-10)


# -- the other names ---------------------------------------------------------------------------------------------------
TRANSPOSED = [
    (n, k, s, d, p)
    for n, k, s, d in ((5, 3, 2, 1), (4, 2, 3, 2), (3, 4, 1, 1), (1, 1, 2, 1))
    for p in ("SAME", "VALID")
]


@pytest.mark.parametrize(("n", "k", "s", "d", "padding"), TRANSPOSED)
def test_conv_transpose_is_the_gradient_of_a_convolution(n: int, k: int, s: int, d: int, padding: str):
    x, w = RNG.standard_normal((2, n, 3)), RNG.standard_normal((k, 4, 3))
    got = tj.jit(lambda x, w: lax.conv_transpose(x, w, (s,), padding, (d,), transpose_kernel=True))(x, w)
    length = n * s if padding == "SAME" else (n - 1) * s + max((k - 1) * d + 1, s)
    assert got.shape == (2, length, 4)
    forward = lambda y: lax.conv_general_dilated(y, w, (s,), padding, None, (d,), ("NHC", "HIO", "NHC"))  # noqa: E731
    y = np.zeros((2, length, 4))
    assert forward(y).shape == x.shape
    np.testing.assert_allclose(got, tj.vjp(forward, y)[1](x)[0], rtol=1e-12, atol=1e-12)


def test_conv_transpose_with_widths():
    x, w = RNG.standard_normal((1, 4, 2)), RNG.standard_normal((3, 2, 1))
    numbers = lax.conv_dimension_numbers(x.shape, w.shape, ("NHC", "HIO", "NHC"))
    want = written_out(x, w, (1,), [(2, 1)], (2,), (1,), numbers)
    np.testing.assert_allclose(lax.conv_transpose(x, w, (2,), [(2, 1)]), want, rtol=1e-12)
    same = lax.conv_transpose(x, w, (2,), [(0, 1)], use_consistent_padding=True)
    np.testing.assert_allclose(same, want, rtol=1e-12)


@pytest.mark.parametrize("numbers", [None, ("NHWC", "OIHW", "CNHW"), ("WNCH", "OWHI", "NHWC")])
def test_patches_times_a_filter_are_a_convolution(numbers: Any):
    spec = lax.conv_dimension_numbers((0,) * 4, (0,) * 4, numbers)
    x = np.transpose(RNG.standard_normal((2, 3, 6, 7)), np.argsort(spec.lhs_spec))
    w = RNG.standard_normal((4, 3, 2, 3))
    window = ((2, 3), (2, 1), [(1, 0), (0, 2)], (1, 2), (2, 1), numbers)
    found = tj.jit(lambda x: lax.conv_general_dilated_patches(x, *window))(x)
    rows = np.transpose(found, spec.out_spec)
    want = lax.conv_general_dilated(np.transpose(x, spec.lhs_spec), w, *window[1:5])
    np.testing.assert_allclose(np.einsum("nkhw,ok->nohw", rows, w.reshape(4, -1)), want, rtol=1e-12, atol=1e-12)


def test_local_convolutions_have_a_filter_for_each_place():
    x, w = RNG.standard_normal((2, 3, 7)), RNG.standard_normal((4, 6, 6))
    got = tj.jit(lambda x, w: lax.conv_general_dilated_local(x, w, (1,), "VALID", (2,)))(x, w)
    rows = lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")
    np.testing.assert_allclose(got, np.einsum("nkp,okp->nop", rows, w), rtol=1e-12)
    with pytest.raises(ShapeError, match="rhs is"):
        lax.conv_general_dilated_local(x, w[:, :5], (1,), "VALID", (2,))


def test_shapes_of_convolutions():
    shape, taps, numbers = (2, 9, 8, 3), (3, 2, 3, 5), ("NHWC", "HWIO", "NHWC")
    for padding in ("SAME", "VALID", [(1, 2), (0, 1)]):
        want = lax.conv_general_dilated(np.ones(shape), np.ones(taps), (2, 1), padding, dimension_numbers=numbers).shape
        assert lax.conv_general_shape_tuple(shape, taps, (2, 1), padding, numbers) == want
        want = lax.conv_transpose(np.ones(shape), np.ones(taps), (2, 1), padding).shape
        assert lax.conv_transpose_shape_tuple(shape, taps, (2, 1), padding, numbers) == want
    assert lax.conv_shape_tuple((4, 3, 9), (2, 3, 2), (2,), "VALID", 2) == (2, 2, 4)
    assert lax.conv_general_permutations(("NCHW", "OIHW", "NHWC")) == ((0, 1, 2, 3), (0, 1, 2, 3), (0, 3, 1, 2))


def test_padding_by_name():
    assert lax.padtype_to_pads((7, 6), (3, 4), (2, 1), "same") == [(1, 1), (1, 2)]
    assert lax.padtype_to_pads((7, 6), (3, 4), (2, 1), "SAME_LOWER") == [(1, 1), (2, 1)]
    assert lax.padtype_to_pads((7, 1), (3, 1), (2, 5), "VALID") == [(0, 0), (0, 0)]
    x, w = RNG.standard_normal((1, 1, 6)), RNG.standard_normal((1, 1, 4))
    np.testing.assert_allclose(lax.conv(x, w, (1,), "SAME_LOWER"), written_out(x, w, (1,), [(2, 1)]), rtol=1e-12)


X, W = np.ones((1, 2, 4)), np.ones((3, 2, 2))
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lax.conv(X, np.ones((3, 3, 2)), (1,), "SAME"), ShapeError, "2 channels, the filter .* takes 3"),
    (lambda: lax.conv(X, W, (1, 1), "SAME"), ShapeError, "window_strides has 2 entries for 1"),
    (lambda: lax.conv(X, W, (0,), "SAME"), ShapeError, "at least 1"),
    (lambda: lax.conv(X, W, (1.5,), "SAME"), TracerError, "sequence of integers"),  # type: ignore[arg-type]
    (lambda: lax.conv(X, W, 1, "SAME"), TracerError, "sequence of integers"),  # type: ignore[arg-type]
    (lambda: lax.conv(X, W, (1,), "MANY"), OptionError, "'MANY'"),
    (lambda: lax.conv(X, W[0], (1,), "SAME"), ShapeError, "rank 3 with a filter of rank 2"),
    (lambda: lax.conv(X, W.astype("f4"), (1,), "SAME"), DtypeError, "differ in dtype"),
    (lambda: lax.conv_general_dilated(X, W, (1,), "SAME", (2,)), ShapeError, "use conv_transpose"),
    (lambda: lax.conv_general_dilated(X, W, (1,), [(0, 0), (0, 0)]), ShapeError, "2 pairs for 1"),
    (lambda: lax.conv_general_dilated(X, W, (1,), [1]), TracerError, "pairs of widths"),
    (lambda: lax.conv_general_dilated(X, W, (1,), "SAME", feature_group_count=0), ShapeError, "above 0"),
    (lambda: lax.conv_general_dilated(X, W[:, :1], (1,), "SAME", feature_group_count=2), ShapeError, "cannot be"),
    (
        lambda: lax.conv_general_dilated(X, W, (1,), "SAME", feature_group_count=2, batch_group_count=2),
        ShapeError,
        "one of them is 1",
    ),
    (lambda: lax.conv_general_dilated(X, W, (1,), "SAME", None, None, ("NCH", "OIH")), TracerError, "three strings"),
    (lambda: lax.conv_general_dilated(X, W, (1,), "SAME", None, None, ("NCH", "OIW", "NCH")), TracerError, "letters"),
    (lambda: lax.conv_general_dilated(X, W, (1,), "SAME", None, None, ("NCC", "OIH", "NCH")), TracerError, "once"),
    (lambda: lax.conv_transpose(X, W, (1,), "SAME_LOWER"), ShapeError, "'SAME', 'VALID' or pairs"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_what_is_no_convolution_is_refused(call: Callable[[], Any], error: type[Exception], text: str):
    with pytest.raises(error, match=text) as caught:
        call()
    assert isinstance(caught.value, TracejitError)
    assert caught.value.location is not None or "conv_general_dilated" in str(caught.value)
