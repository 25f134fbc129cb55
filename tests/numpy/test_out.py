"""`out=` as a keyword, at its place among the arguments, of functions and of methods;
what does not fit is refused as NumPy refuses it."""

from __future__ import annotations

import itertools
import random
import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError, UnsupportedError

M = np.arange(12.0).reshape(3, 4)

ELEMENTWISE = [
    "x.clip(1, 5, out=z)", "x.clip(1, 5, z)", "x.clip(min=1, out=z)", "np.clip(x, 1, 5, z)", "np.clip(x, 1, 5, x)",
    "x.clip(1, 5, x)", "x.round(0, z)", "x.round(out=z)", "np.round(x, 0, z)", "np.around(x, 0, z)", "np.fix(x, z)",
    "np.add(x, 1, out=z)", "np.add(x, 1, z)", "np.add(1, 2, out=z)", "np.add(x[0], 2, out=z)",
    "np.clip(x[0], 1, 3, out=z)", "np.add(x[None], 1, out=z)", "np.add(x[:1], 1, out=z)", "x.cumsum(0, out=z)",
    "x.cumsum(0, None, z)", "x.cumprod(1, out=z)", "np.cumsum(x, 0, None, z)", "np.nancumsum(x, 0, None, z)",
    "np.concatenate([x[:1], x[1:]], out=z)", "np.stack([x[0], x[1], x[2]], out=z)", "np.negative(x, z)",
    "np.mean(x, 0, out=z)", "np.divmod(x, 2, out=(z, x))", "np.take(x, [2, 0, 1], 0, z)", "x.take([2, 0, 1], 0, z)",
    "np.outer(x[:, 0], x[0], z)",
]  # fmt: skip
FOLDS = [
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "std",
    "var",
    "any",
    "all",
    "cumsum",
    "ptp",
    "nansum",
    "nanmax",
    "nanmean",
    "nanstd",
]
OF_ROWS = [
    "x.max(0, z)", "x.min(0, z)", "x.take([1], 0, z)", "x.sum(0, None, z)", "x.mean(0, None, z)", "np.max(x, 0, z)",
    "np.std(x, 0, None, z)",
    "np.take(x, 1, 0, z)", "x.max(0, None, True)", "np.max(x, 0, None, True)", "x.argmax(0)",
    "np.ptp(x, 0, z)", "np.any(x, 0, z)",
]  # fmt: skip


def agrees(text: str, *arguments: Any) -> None:
    """The call gives NumPy's result and fills the same arrays with the same, or raises where NumPy raises."""
    f = eval(f"lambda x, z: {text}")
    plain, traced = [a.copy() for a in arguments], [a.copy() for a in arguments]
    try:
        want = f(*plain)
    except Exception:  # whatever it is
        with pytest.raises((ValueError, TypeError, TracejitError)):
            tj.jit(f)(*traced)
        return
    found = tj.jit(f)(*traced)
    np.testing.assert_allclose(found, want, rtol=1e-14, err_msg=text)
    assert np.shape(found) == np.shape(want), text
    for a, b in zip(traced, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14, err_msg=text)


@pytest.mark.filterwarnings("ignore:Implicit casting of output:DeprecationWarning")  # NumPy 2.5
@pytest.mark.parametrize("text", ELEMENTWISE)
def test_elementwise(text: str):
    for dtype in ("f8", "i4"):
        agrees(text, M, np.zeros((3, 4), dtype))
    agrees(text, M, np.zeros(4))


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("shape", [(4,), (1, 4), (3,), ()])
def test_folds(name: str, shape: tuple[int, ...]):
    for dtype in ("i8", "f8", "f4", "?"):
        if name == "var" and dtype == "i8" and shape in ((4,), (1, 4)):
            with pytest.raises(UnsupportedError, match="NumPy keeps its sums there"):
                tj.jit(lambda x, z: np.var(x, 0, out=z))(M, np.zeros(4, dtype))
            continue
        agrees(f"(np.{name}(x, axis=0, out=z), z)[1]", M, np.zeros(shape, dtype))
        if hasattr(M, name) and (name not in ("any", "all") or dtype in ("f8", "?")):
            agrees(f"(x.{name}(0, out=z), z)[1]", M, np.zeros(shape, dtype))


@pytest.mark.parametrize("text", OF_ROWS)
def test_places(text: str):
    agrees(text, M, np.zeros(4))
    agrees(text, M, np.zeros(()))


def test_places_of_extrema():
    agrees("x.argmax(0, z)", M, np.zeros(4, int))
    agrees("np.argmin(x, 1, out=z)", M, np.zeros(3, int))
    agrees("np.argmax(x, axis=0, out=z)", M, np.zeros(4))


def test_products_take_their_own_dtype_only():
    agrees("x.dot(x.T, z)", M, np.zeros((3, 3)))
    agrees("np.dot(x, x.T, z)", M, np.zeros((3, 3)))
    agrees("np.dot(x, x.T, out=z)", M, np.zeros((3, 3), "f4"))


@pytest.mark.parametrize("text", ["x.__iadd__(z)", "x[:].__iadd__(z)", "x[1:].__imul__(z[:, 1:])"])
def test_operands_of_more_axes_do_not_go_in_place(text: str):
    agrees(text, np.ones(3), np.ones((1, 3)))
    agrees("x.__iadd__(z)", np.ones((1, 3)), np.ones((2, 3)))
    agrees("x.__iadd__(z)", np.ones((2, 3)), np.ones(3))


def test_attributes_that_are_set():
    def real(x: Any, z: Any) -> Any:
        x.real = z
        return x

    def flat(x: Any, z: Any) -> Any:
        x.flat = z
        return x

    for f in (real, flat):
        for z in (np.arange(4.0), np.array(7)):
            np.testing.assert_array_equal(tj.jit(f)(M.copy(), z), f(M.copy(), z))
    np.testing.assert_array_equal(tj.jit(flat)(M.copy(), np.arange(5)), flat(M.copy(), np.arange(5)))


DTYPES = [
    "np.multiply(x, x, dtype='i1')",
    "np.add(x, 1.5, dtype='i8')",
    "np.sin(x, dtype='i4')",
    "np.add(x, z, dtype='f4')",
]


@pytest.mark.parametrize("text", DTYPES)
def test_dtype_of_a_ufunc(text: str):
    agrees(text, np.ones(3), np.ones(3))


@pytest.mark.parametrize("value", [0.5, 3, True, -1, 300])
@pytest.mark.parametrize("dtype", ["i8", "i1", "?", "f4", "u1"])
def test_numbers_that_are_copied_in(value: Any, dtype: str):
    for text in (
        "np.copyto(x, {v})",
        "np.copyto(x, {v}, where=z > 0)",
        "np.place(x, z > 0, [{v}])",
        "np.putmask(x, z > 0, [{v}])",
    ):
        agrees(f"({text.format(v=value)}, x)[1]", np.zeros(3, dtype), np.ones(3))
    f = eval("lambda x, z, v: (np.copyto(x, v), x)[1]")
    try:
        want = f(np.zeros(3, dtype), None, value)
    except (TypeError, OverflowError) as error:
        with pytest.raises(OverflowError if isinstance(error, OverflowError) else TypeError):
            tj.jit(f)(np.zeros(3, dtype), None, value)
    else:
        assert tj.jit(f)(np.zeros(3, dtype), None, value).tolist() == want.tolist()


@pytest.mark.parametrize("value", [300, 1e300, 2.5, -1, True])
@pytest.mark.parametrize("dtype", ["i1", "u1", "f4", "?"])
def test_constants_that_are_padded_with(value: Any, dtype: str):
    with np.errstate(all="ignore"):
        agrees(f"np.pad(x, 1, constant_values={value})", np.ones(3, dtype), np.zeros(1))


CASTINGS = ["", ", casting='no'", ", casting='safe'", ", casting='unsafe'", ", dtype='f8'", ", dtype='f2', "
                                                                                            "casting='safe'",
            ", dtype='i4', casting='unsafe'"]  # fmt: skip


@pytest.mark.parametrize("options", CASTINGS)
@pytest.mark.parametrize(
    "call", ["np.add(x, z{})", "np.subtract.outer(x, z{})", "np.greater(x, z{})", "np.add(x, z, out=x{})"]
)
def test_rules_of_conversion(call: str, options: str):
    with np.errstate(all="ignore"):
        for one in ("f2", "f4", "f8", "i1", "i4", "u1"):
            for other in ("f4", "i4", "u1"):
                agrees(call.format(options), np.array([1, 2, 3]).astype(one), np.array([3, 1, 2]).astype(other))


SUMS = [
    "np.sum(x, out=z)", "x.prod(out=z)", "np.mean(x, out=z)", "np.sum(x, None, None, z)", "np.nansum(x, out=z)",
    "np.add.reduce(x, out=z)", "np.multiply.reduce(x, out=z)",
]  # fmt: skip


@pytest.mark.parametrize("call", SUMS)
def test_sums_are_computed_in_the_dtype_of_out(call: str):
    f = eval(f"lambda x, z: ({call}, z)[1]")
    for dtype, out in (
        ("i1", "f8"),
        ("u1", "f8"),
        ("f2", "f8"),
        ("f4", "f8"),
        ("i8", "f8"),
        ("?", "f8"),
        ("f8", "f4"),
        ("i1", "f4"),
    ):
        x = np.full(40, 100).astype(dtype)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(tj.jit(f)(x, np.zeros((), out)), f(x, np.zeros((), out)), rtol=1e-6)
    running = eval("lambda x, z: (np.cumprod(x, out=z), np.cumsum(x, 0, None, z), z)")
    for got, want in zip(tj.jit(running)(x, np.zeros(40)), running(x, np.zeros(40)), strict=True):
        np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("dtype", ["i8", "f4", "f8"])
@pytest.mark.parametrize("of", ["f4", "f8"])
def test_einsum_casts_into_out_by_the_rule_safe(of: str, dtype: str):
    a = np.arange(4.0).reshape(2, 2).astype(of)

    def f(a: Any) -> Any:
        out = np.zeros((2, 2), dtype)
        np.einsum("ij,jk->ik", a, a, out=out)
        return out

    if np.can_cast(of, dtype):
        np.testing.assert_array_equal(tj.jit(f)(a), f(a))
        return
    for function in (f, tj.jit(f)):
        with pytest.raises(TypeError):
            function(a)


WIDE_AND_NARROW = [
    "np.sum(x, 0, out=z)", "np.prod(x, 0, out=z)", "np.mean(x, 0, out=z)", "np.var(x, 0, out=z)", "np.std(x, 0, out=z)",
    "np.ptp(x, 0, out=z)",
    "np.einsum('ij->j', x, out=z)", "np.einsum('ij,ij->j', x, x, out=z)", "np.nansum(x, 0, out=z)",
    "np.nanvar(x, 0, out=z)", "x.ptp(0, z) if hasattr(x, 'ptp') else x.sum(0, None, z)", "x.trace(out=z[0, ...])",
    "np.trace(x, out=z[0, ...])", "np.add.reduce(x, 0, out=z)", "np.max(x, 0, out=z)", "np.dot(x[0], x, out=z)",
    "np.average(x, 0)",
]  # fmt: skip


@pytest.mark.parametrize("text", WIDE_AND_NARROW)
@pytest.mark.filterwarnings("ignore")
def test_what_goes_into_another_dtype_is_computed_in_numpys(text: str):
    values = np.array([[-100.0, 100.0, 7.5], [100.0, 90.0, -3.25], [27.0, 111.0, 0.0]])
    f = eval(f"lambda x, z: {text}")
    for dtype in ("i1", "u1", "i2", "i8", "f2", "f4", "f8"):
        for out in ("i1", "i8", "f4", "f8"):
            x = (np.abs(values) if dtype == "u1" else values).astype(dtype)
            if "max" in text and not np.can_cast(x.dtype, out, "same_kind"):
                continue  # NumPy brings the first element, and no other, to the dtype of out= first
            plain, traced = np.zeros(3, out), np.zeros(3, out)
            try:
                f(x, plain)
            except (TypeError, ValueError):
                with pytest.raises((TypeError, ValueError, TracejitError)):
                    tj.jit(f)(x, traced)
                continue
            try:
                tj.jit(f)(x, traced)
            except UnsupportedError:
                assert np.dtype(out).kind in "iu", (dtype, out)
                continue
            narrow = (
                max(np.finfo(d).resolution for d in (dtype, out) if np.dtype(d).kind == "f")
                if "f" in dtype + out
                else 0
            )
            np.testing.assert_allclose(
                traced, plain, rtol=max(8 * narrow, 1e-12), err_msg=f"{text}, {dtype} into {out}"
            )


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("np.add.reduce(x, out=b)", (4, 3)),
        ("np.add.reduce(x, out=b)", (1, 3)),
        ("np.maximum.reduce(x, axis=1, out=b)", (2, 2)),
        ("np.add.accumulate(x, out=b)", (4, 2, 3)),
        ("np.multiply.accumulate(x, out=b)", (1, 2, 3)),
        ("np.add.reduceat(x, [0, 1], out=b)", (2, 2, 3)),
    ],
)
def test_what_methods_of_ufuncs_give_is_not_spread(text: str, shape: tuple[int, ...]):
    f = eval(f"lambda x, b: {text}", {"np": np})
    x = np.arange(6.0).reshape(2, 3)
    for call in (f, tj.jit(f)):
        with pytest.raises(ValueError, match=r"out|remapped"):
            call(x, np.zeros(shape))


def test_a_mask_beside_out_is_of_what_is_folded():
    m = np.array([[True, False, True], [False, True, True]])

    def f(x: Any, b: Any, c: Any) -> Any:
        np.add.reduce(x, out=b, where=m)
        return np.maximum.reduce(x, axis=1, out=c[:2], where=m, initial=-1)

    x = np.arange(6.0).reshape(2, 3)
    mine, theirs = [np.zeros(3), np.zeros(3)], [np.zeros(3), np.zeros(3)]
    np.testing.assert_array_equal(tj.jit(f)(x, *mine), f(x, *theirs))
    np.testing.assert_array_equal(mine, theirs)


OF_SELECTED = [
    "np.sum(x[x > 4], out=z)", "np.sum(x[x > 4], None, None, z)", "x[x > 4].sum(None, None, z)", "x[x > 4].sum(out=z)",
    "x[x > 4].mean(0, None, z)", "np.mean(x[x > 4], out=z)", "x[x > 4].max(out=z)", "np.min(x[x > 4], None, z)",
    "np.amax(x[x > 4], out=z)", "x[x > 4].prod(out=z)", "np.std(x[x > 4], None, None, z)", "x[x > 4].var(out=z)",
    "np.any(x[x > 4], None, z)", "np.all(x[x > 4], out=z)", "x[x > 4].any(out=z)",
]  # fmt: skip
OF_SELECTED_ROWS = [
    "np.sum(x[x[:, 0] > 2], 0, out=z)", "np.max(x[x[:, 0] > 2], axis=0, out=z)", "x[x[:, 0] > 2].mean(0, out=z)",
    "x[x[:, 0] > 2].min(0, z)", "np.any(x[x[:, 0] > 2], 0, z)", "x[x[:, 0] > 2].std(0, None, z)",
]  # fmt: skip
ELEMENTS_SELECTED = [
    "x[x > 4].clip(5, 7, z)", "x[x > 4].clip(5, 7, out=z)", "np.clip(x[x > 4], 5, 7, out=z)",
    "np.clip(x[x > 4], 5, 7, z)", "np.fix(x[x > 4], z)", "np.add(x[x > 4], 1, out=z)", "np.conj(x[x > 4], z)",
]  # fmt: skip


@pytest.mark.parametrize("text", OF_SELECTED)
@pytest.mark.parametrize("shape", [(), (1,), (3, 2)])
def test_a_reduction_of_selected_elements_fills_its_array(text: str, shape: tuple[int, ...]) -> None:
    agrees(text, M, np.full(shape, -9.0))


@pytest.mark.parametrize("text", OF_SELECTED_ROWS)
@pytest.mark.parametrize("shape", [(4,), (1,), (2, 4)])
def test_a_reduction_of_selected_rows_fills_its_array(text: str, shape: tuple[int, ...]) -> None:
    agrees(text, M, np.full(shape, -9.0))


@pytest.mark.parametrize("text", ELEMENTS_SELECTED)
def test_functions_of_selected_elements_fill_their_array(text: str) -> None:
    agrees(text, M, np.full(7, -9.0))


OPERANDS = [
    "x", "x.T", "x[::-1]", "x[:, 1:]", "x[x > 4]", "x[x[:, 0] > 2]", "x[[2, 0]]", "np.sort(x)", "(x * 2)", "x[:0]",
    "x[np.flatnonzero(x[:, 0] > 2)]", "x[1]", "x.ravel()[::2]", "x[x > 90]", "(x + 1)[x > 4]",
]  # fmt: skip
TARGETS = ["z", "z[0]", "z[0, ...]", "z[0, 0, ...]", "z.T", "z[:, 0]", "z[0, :1]", "z[::-1][:, 1]"]
CALLS = ["np.{0}({1}, {2}, out={3})", "{1}.{0}({2}, out={3})", "np.{0}({1}, axis={2}, out={3})"]
EVERY_WAY = [
    call.format(name, operand, axis, target)
    for name in [*FOLDS, "argmax", "median", "nanmin"]
    if name != "cumsum"  # NumPy does not look where it writes these
    for call in CALLS
    if "{1}." not in call or hasattr(M, name)
    for operand in OPERANDS
    for axis in ("None", "0", "-1")
    for target in TARGETS
]


def answered(text: str) -> bool:
    """Whether NumPy fills the array, rather than refuse to."""
    try:
        eval(f"lambda x, z: {text}")(M.copy(), np.zeros((3, 4)))
    except Exception:  # whatever it is
        return False
    return True


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    SAMPLE = random.Random(11).sample(EVERY_WAY, 1200)
    ANSWERED = list(filter(answered, SAMPLE))


@pytest.mark.parametrize("text", [*ANSWERED, *[text for text in SAMPLE if text not in ANSWERED][:40]])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_way_to_say_where_a_result_goes(text: str) -> None:
    agrees(text, M, np.full((3, 4), -9.0))


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        ((3, 3), (3, 1), (3, 3)), ((3, 3), (3, 2), (3, 2)), ((3,), (3, 2), (2,)), ((3,), (3, 2), (5, 2)),
        ((3,), (3, 2), (1,)), ((2, 3), (3,), (2,)), ((3, 3), (3, 2), (4, 3, 2)), ((3,), (3,), (4,)), ((3,), (3,), ()),
    ],
)  # fmt: skip
def test_products_go_into_arrays_of_their_own_rows_and_columns(a: Any, b: Any, out: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        made = np.zeros(out)
        np.matmul(x, y, out=made)
        return made

    x, y = np.arange(1.0, 1 + np.prod(a)).reshape(a), np.arange(2.0, 2 + np.prod(b)).reshape(b)
    try:
        want = f(x, y)
    except ValueError:
        with pytest.raises(ValueError, match="out="):
            tj.jit(f)(x, y)
    else:
        np.testing.assert_array_equal(tj.jit(f)(x, y), want)


METHODS = ["reduce(x, out=z[0])", "accumulate(x, out=z)", "reduceat(x, [0, 2], out=z[:2])"]
KINDS = ["?", "i1", "i4", "i8", "u1", "u8", "f4", "f8", "c8", "c16"]
BINARY = [
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "maximum", "fmin", "logical_and",
    "bitwise_or", "left_shift", "arctan2", "gcd", "float_power", "logaddexp", "copysign", "hypot",
]  # fmt: skip
FOLDED = [*itertools.product(BINARY, METHODS, KINDS, KINDS)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(6))
def test_methods_of_ufuncs_compute_in_the_dtype_that_numpy_takes(part: int) -> None:
    values = np.array([100, 3, 2, 120, 0])
    for name, call, of, to in random.Random(part).sample(FOLDED, 60):
        x = values if name not in ("power", "left_shift") else values % 3
        x, z = (x > 1 if of == "?" else x.astype(of)), np.zeros((5, 1) if "z[0]" in call else 5, to)
        f = eval(f"lambda x, z: np.{name}.{call.replace('z[0]', 'z[0, ...].reshape(())')}")
        agrees_in(f, x, z, (name, call, of, to))


def agrees_in(f: Any, x: Any, z: Any, what: Any) -> None:
    """The call fills the array as NumPy's does, to a few units of the larger of both dtypes, or raises as it does."""
    want, found = z.copy(), z.copy()
    try:
        f(x, want)
    except TypeError:
        with pytest.raises((TypeError, TracejitError)):
            tj.jit(f)(x, found)
        return
    try:
        tj.jit(f)(x, found)
    except TracejitError as error:
        if "would lose the imaginary part" not in str(error):
            raise
        return
    kinds = [np.dtype(d).type(0).real.dtype for d in (x.dtype, z.dtype) if d.kind in "fc"]
    tolerance = max([64 * float(np.finfo(d).eps) for d in kinds], default=0)
    np.testing.assert_allclose(found, want, rtol=tolerance, err_msg=str(what))


@pytest.mark.parametrize(("dtype", "to"), [("i4", "i8"), ("i4", "f8"), ("f8", "f4"), ("f4", "f8"), ("?", "f8")])
def test_what_is_rounded_to_whole_numbers_goes_into_other_dtypes_of_its_kind(dtype: str, to: str) -> None:
    agrees_in(lambda x, z: np.round(x, out=z), np.array([1.5, 0, 2.25]).astype(dtype), np.zeros(3, to), "")
    agrees_in(lambda x, z: np.round(x, out=z), np.array([1.5, 0, 2.25]).astype(dtype), np.zeros(3, "i1"), "")


@pytest.mark.parametrize("call", ["np.quantile(x, 0.3, out=z)", "np.percentile(x, 30, out=z)"])
@pytest.mark.parametrize("to", ["i8", "f4", "f8", "c16"])
def test_quantiles_do_not_go_into_integers(call: str, to: str) -> None:
    agrees_in(eval(f"lambda x, z: {call}"), np.array([1.0, 5.0, 2.0]), np.zeros((), to), call)


@pytest.mark.parametrize("to", ["i8", "f8", "u2"])
def test_sums_of_small_integers_beside_a_mask(to: str) -> None:
    x = np.arange(5, dtype="u8")
    agrees_in(lambda x, z: np.add(x, x, out=z, where=x > 2), x, np.zeros(5, to), to)


@pytest.mark.parametrize("dtype", ["i4", "u2", "f4", "u1"])
def test_lengths_are_numbers_of_pythons_where_a_mask_puts_them(dtype: str) -> None:
    def f(x):
        y, z, w = x.copy(), x.copy(), x.copy()
        np.putmask(y, x > 1, len(x))
        np.copyto(z, len(x) - 1)
        np.copyto(w, len(x), where=x > 1)
        return y, z, w

    jitted = tj.jit(f)
    for n in (3, 4, 5):
        x = np.arange(n).astype(dtype)
        np.testing.assert_array_equal(jitted(x), f(x))


@pytest.mark.parametrize("initial", [-0.5, 0.5, 1.7, 2, np.float32(2.5)])
@pytest.mark.parametrize("into", [np.int32, np.uint8, np.int64, np.float32])
@pytest.mark.parametrize("fold", [np.sum, np.prod, np.add.reduce, np.multiply.reduce])
def test_folds_begin_in_the_dtype_of_out(fold, into, initial):
    def f(x, out):
        return fold(x, out=out, initial=initial)

    for x in (np.array([1.5, 3.0], np.float32), np.array([1.5, 3.0]), np.array([1, 2])):
        outs = [np.zeros((), into) for _ in range(2)]
        np.testing.assert_allclose(tj.jit(f)(x, outs[1]), f(x, outs[0]), rtol=1e-6)
        np.testing.assert_allclose(outs[1], outs[0], rtol=1e-6)
