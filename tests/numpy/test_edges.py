"""Every elementwise function on the edges of every dtype and pair of dtypes, against NumPy:
hundreds of expressions in one function.

All pairs: `python -m tests.numpy.test_edges`.  TRACEJIT_CPU chooses the processor that code is made for.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import NegativePower, UnsupportedError

CODES = "?bhilBHILefd"
PAIRS = [*zip(CODES, CODES, strict=True), *map(tuple, "bB BL lL Ll lI ef fe fd ?l el if Ld dL hH".split())]
Function = Callable[..., Any]


def edges(code: str) -> np.ndarray[Any, Any]:
    """The numbers of a dtype at which something ends or begins."""
    dtype = np.dtype(code)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        found = {
            0,
            1,
            2,
            3,
            5,
            7,
            8,
            31,
            32,
            63,
            64,
            low,
            low + 1,
            high,
            high - 1,
            high // 2,
            high // 2 + 1,
            -1,
            -2,
            -3,
            -7,
        }
        found |= {2**24 + 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63, 2**63 + 1}
        return np.array(sorted(n for n in found if low <= n <= high), dtype)
    info = np.finfo(dtype)
    positive = [
        0.0,
        0.5,
        1.0,
        1.5,
        2.0,
        2.5,
        3.0,
        1 / 3,
        10.0,
        100.5,
        np.pi,
        np.inf,
        info.max,
        info.tiny,
        info.smallest_subnormal,
    ]
    positive += [
        info.eps,
        1 + info.eps,
        1 - info.epsneg,
        2.0**24,
        2.0**31,
        2.0**53,
        2.0**53 + 2,
        2.0**63,
        2.0**64,
        1e300,
        1e-300,
    ]
    with np.errstate(all="ignore"):
        numbers = np.array(positive, np.float64).astype(dtype)
    return np.concatenate([numbers, -numbers, np.array([np.nan], dtype)])


# How far from NumPy's answers, which have an error of their own, those may be that are not exact: in units of the last
# place.
_ROUNDED = 4
ROUNDED = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
    "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt", "power", "float_power", "arctan2", "hypot", "logaddexp",
    "logaddexp2", "deg2rad", "rad2deg", "radians", "degrees", "x ** y", "x ** 1.5", "2.0 ** x", "0.5 ** x", "x ** 3",
    "x ** 4", "x ** -2", "2 ** x", "x ** |y|", "sinc", "cumprod", "prod", "sum", "cumsum", "nansum", "isclose",
    "round 2",
}  # fmt: skip
CANCELS = {"logaddexp", "logaddexp2"}
"""They add a number to the logarithm of another: the error is one of the operands'."""

ONE: dict[str, Function] = {name: getattr(np, name) for name in (
    "negative", "positive", "absolute", "fabs", "sign", "invert", "sqrt", "cbrt", "square", "reciprocal", "exp", "exp2",
    "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
    "arcsinh", "arccosh", "arctanh", "floor", "ceil", "trunc", "rint", "conjugate", "isnan", "isinf", "isfinite",
    "signbit", "logical_not", "deg2rad", "rad2deg", "degrees", "radians", "sinc", "nan_to_num", "nanmax", "nanmin",
    "nansum", "cumsum", "cumprod", "diff", "fix", "count_nonzero",
)} | {
    "abs": abs, "x ** 2": lambda x: x**2, "x ** 3": lambda x: x**3, "x ** 1": lambda x: x**1, "x ** 0": lambda x: x**0,
    "x ** 4": lambda x: x**4, "x ** 0.5": lambda x: x**0.5, "x ** -1": lambda x: x**-1, "x ** -2": lambda x: x**-2,
    "x ** -1.0": lambda x: x**-1.0, "x ** 2.0": lambda x: x**2.0, "x ** 1.0": lambda x: x**1.0,
    "x ** 0.0": lambda x: x**0.0, "x ** 1.5": lambda x: x**1.5, "2 ** x": lambda x: 2**x, "2.0 ** x": lambda x: 2.0**x,
    "0.5 ** x": lambda x: 0.5**x, "power 2": lambda x: np.power(x, 2), "x % 3": lambda x: x % 3,
    "x // 3": lambda x: x // 3, "x // 0": lambda x: x // 0, "x % 0": lambda x: x % 0, "5 // x": lambda x: 5 // x,
    "5 % x": lambda x: 5 % x, "x / 2": lambda x: x / 2, "1 / x": lambda x: 1 / x, "x / 0": lambda x: x / 0,
    "x // 2.5": lambda x: x // 2.5, "x % 2.5": lambda x: x % 2.5, "x << 1": lambda x: x << 1,
    "x >> 1": lambda x: x >> 1, "x >> 63": lambda x: x >> 63, "x << 63": lambda x: x << 63, "1 << x": lambda x: 1 << x,
    "x & 1": lambda x: x & 1, "x + 1.5": lambda x: x + 1.5, "x + True": lambda x: x + True,
    "x * True": lambda x: x * True, "x - 1": lambda x: x - 1, "sum": lambda x: x.sum(), "prod": lambda x: x.prod(),
    "max": lambda x: x.max(), "min": lambda x: x.min(), "any": lambda x: x.any(), "all": lambda x: x.all(),
    "argmax": lambda x: x.argmax(), "argmin": lambda x: x.argmin(), "zeros": lambda x: np.max(x * 0), "round": np.round,
    "round 2": lambda x: np.round(x, 2), "clip": lambda x: np.clip(x, 0, 1),
    "clip from zero": lambda x: np.clip(x, 0.0, None), "clip to zero": lambda x: x.clip(max=0),
    "conj": lambda x: x.conj(), "half": lambda x: np.heaviside(x, 0.5), "ldexp": lambda x: np.ldexp(x, 2000),
    "ldexp back": lambda x: np.ldexp(x, -2000), "ldexp far": lambda x: np.ldexp(x, 2**31 - 1),
    "ldexp near": lambda x: np.ldexp(x, -3), "copysign": lambda x: np.copysign(x, -1),
    "isclose": lambda x: np.isclose(x, 1), "where": lambda x: np.where(x, x, 1), "bool": lambda x: x.astype(bool),
    **{f"astype {t}": lambda x, t=t: x.astype(t) for t in ("f2", "f4", "f8")},
}  # fmt: skip
# a float beyond them is anything in C
OF_INTEGERS: dict[str, Function] = {f"astype {t}": lambda x, t=t: x.astype(t) for t in "bhilBHIL"}

TWO: dict[str, Function] = {name: getattr(np, name) for name in (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power", "float_power", "maximum",
    "minimum", "fmax", "fmin", "arctan2", "hypot", "copysign", "heaviside", "logaddexp", "logaddexp2", "bitwise_and",
    "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "logical_xor", "ldexp",
)} | {
    "divmod 0": lambda x, y: divmod(x, y)[0], "divmod 1": lambda x, y: divmod(x, y)[1],
    "where": lambda x, y: np.where(x > 0, x, y), "x ** y": lambda x, y: x**y, "x ** |y|": lambda x, y: x ** (y & 63),
    "clip": lambda x, y: np.clip(x, y, y + 1), "swapped": lambda x, y: np.maximum(y, x) + np.minimum(y, x),
}  # fmt: skip


def wrong(name: str, wanted: Any, found: Any, operands: tuple[Any, ...]) -> str | None:
    """How a result differs from NumPy's: dtype, shape, NaN, the sign of zeros, or too many units in the last place."""
    w, g = np.asarray(wanted), np.asarray(found)
    if (w.dtype, w.shape) != (g.dtype, g.shape):
        return f"{name}: {w.dtype}{list(w.shape)} is wanted, not {g.dtype}{list(g.shape)}"
    w, g = w.ravel(), g.ravel()
    if w.dtype.kind != "f":
        bad = w != g
    else:
        unlike = (np.isnan(w) != np.isnan(g)) | ((w == 0) & (g == 0) & (np.signbit(w) != np.signbit(g)))
        with np.errstate(all="ignore"):
            size = np.abs(w).astype(np.longdouble)
            if name in CANCELS:
                for x in operands:
                    size = np.maximum(size, np.minimum(np.abs(x.astype(np.longdouble)), 1e30).ravel())
            place = np.maximum(size, float(np.finfo(w.dtype).tiny)) * float(np.finfo(w.dtype).eps)
            far = ~(np.abs(w.astype(np.longdouble) - g) <= (_ROUNDED * place if name in ROUNDED else 0)) & (w != g)
        bad = unlike | (far & ~np.isnan(w) & ~np.isnan(g))
    if not bad.any():
        return None
    k = int(np.argmax(bad))
    at = [x.ravel()[k] for x in operands if x.size == w.size]
    return f"{name}{at}: {w[k]!r} is wanted, not {g[k]!r} ({bad.sum()} of {bad.size})"


def disagreements(functions: Mapping[str, Function], operands: tuple[Any, ...]) -> tuple[list[str], int]:
    """What differs from NumPy, and how many results were compared:
    all that NumPy has answers to come from one compiled function."""
    wanted: dict[str, Any] = {}
    found: list[str] = []
    with np.errstate(all="ignore"):
        for name, function in functions.items():
            try:
                wanted[name] = function(*operands)
            except (TypeError, ValueError, OverflowError) as error:
                kind = next(k for k in (OverflowError, ValueError, TypeError) if isinstance(error, k))
                with pytest.raises((kind, UnsupportedError, NegativePower)):
                    tj.jit(function)(*operands)
    results = tj.jit(lambda *xs: [functions[name](*xs) for name in wanted])(*operands)
    for (name, value), result in zip(wanted.items(), results, strict=True):
        text = wrong(name, value, result, operands)
        found += [] if text is None else [text]
    return found, sum(np.size(x) for x in wanted.values())


def of_one(code: str) -> tuple[list[str], int]:
    """The functions of one operand on the edges of a dtype."""
    functions = ONE if code in "efd" else {**ONE, **OF_INTEGERS}
    if code == "?":  # NumPy has no rounding of bools to places
        functions = {name: f for name, f in functions.items() if name != "round 2"}
    return disagreements(functions, (edges(code),))


def of_two(first: str, second: str) -> tuple[list[str], int]:
    """The functions of two operands on all pairs of edges."""
    x, y = edges(first), edges(second)
    return disagreements(TWO, (np.repeat(x, len(y)), np.tile(y, len(x))))


@pytest.mark.parametrize("code", CODES, ids=lambda c: np.dtype(c).name)
def test_functions_of_one_operand(code: str):
    found, _ = of_one(code)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("codes", PAIRS, ids=lambda p: "-".join(np.dtype(c).name for c in p))
def test_functions_of_two_operands(codes: tuple[str, str]):
    found, _ = of_two(*codes)
    assert not found, "\n".join(found)


def test_python_numbers_as_operands():
    numbers = [
        0.0,
        -0.0,
        0.5,
        2.0,
        -1.0,
        np.inf,
        -np.inf,
        np.nan,
        1e300,
        1e-320,
        2.0**53,
        16777217.0,
        1,
        2,
        3,
        100,
        True,
        False,
    ]
    functions = {name: f for name, f in TWO.items() if name not in ("ldexp", "x ** |y|", "fmax", "fmin")}
    for code in "?bLef":
        x = edges(code)
        for kind in (float, int, bool):
            jitted: dict[tuple[str, ...], Any] = {}
            for t in [t for t in numbers if type(t) is kind]:
                wanted: dict[str, Any] = {}
                with np.errstate(all="ignore"):
                    for name, function in functions.items():
                        try:
                            wanted[name] = function(x, t)
                        except (TypeError, ValueError, OverflowError):
                            continue
                names = tuple(wanted)
                f = jitted.setdefault(
                    names, tj.jit(lambda x, t, names=names: [functions[name](x, t) for name in names])
                )
                for (name, value), result in zip(wanted.items(), f(x, t), strict=True):
                    if not (name == "x ** y" and code == "?" and t == 2):  # np.square of bools, else np.power
                        assert wrong(name, value, result, (x,)) is None, (wrong(name, value, result, (x,)), t)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_ldexp_rounds_once(dtype: str):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, 20000 * np.dtype(dtype).itemsize, dtype=np.uint8)
    x, n = bits.view(dtype), rng.integers(-2200, 2200, 20000) // (8 // np.dtype(dtype).itemsize) ** 2
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(tj.jit(np.ldexp)(x, n), np.ldexp(x, n), strict=True)


def test_negative_powers_of_integers():
    f = tj.jit(lambda x, n: x**n)
    np.testing.assert_array_equal(f(np.array([2, -3]), np.array([5, 3])), [32, -27])
    for x, n in (
        (np.array([2, 3]), np.array([1, -1])),
        (np.array([1, 1]), -1),
        (np.int8(2), np.int8(-1)),
        (2, np.array([-3])),
    ):
        with pytest.raises(ValueError, match="integers to negative integer powers are not allowed") as caught:
            f(x, n)
        assert isinstance(caught.value, NegativePower)
        assert "x**n" in str(caught.value)
    literal = tj.jit(lambda x: x**-1)
    with pytest.raises(NegativePower):
        literal(np.array([2, 3]))
    np.testing.assert_array_equal(literal(np.array([2.0, 4.0])), [0.5, 0.25])
    assert not tj.jit(lambda x, n: x ** (n % 5)).lower(np.ones(3, int), np.ones(3, int)).program.checked
    assert f(np.zeros(0, int), np.zeros(0, int)).shape == (0,)


def main() -> int:
    """All pairs of dtypes; the number of disagreements."""
    count, failed = 0, 0
    for found, compared in itertools.chain(
        map(of_one, CODES), itertools.starmap(of_two, itertools.product(CODES, repeat=2))
    ):
        count += compared
        failed += len(found)
        print(*found, sep="\n", end="\n" if found else "")
    print(f"{count} results compared, {failed} expressions disagree")
    return failed


if __name__ == "__main__":
    sys.exit(main() > 0)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_running_sums_of_negative_zeros(dtype: str):
    for x in (np.array([-0.0, -0.0, 1, -1, -0.0], dtype), np.array([-0.0] * 40, dtype), np.array([0.0, -0.0], dtype)):
        assert np.signbit(tj.jit(np.cumsum)(x)).tolist() == np.signbit(np.cumsum(x)).tolist()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_roots_of_scalars_are_powers_and_of_arrays_square_roots(dtype: str):
    for value in (-np.inf, np.inf, -0.0, 0.0, np.nan, -2.0, 2.0, 65504.0):
        x, s = np.array([value, 1], dtype), np.array(value, dtype)
        for form in (
            "x**0.5",
            "x[0]**0.5",
            "x[..., 0]**0.5",
            "s**0.5",
            "s[()]**0.5",
            "(s + 0)**0.5",
            "x[0]**n",
            "x**n",
            "(s + 0)**n",
        ):
            f = eval(f"lambda x, s, n: {form}")
            with np.errstate(all="ignore"):
                want, found = np.asarray(f(x, s, 0.5)), np.asarray(tj.jit(f)(x, s, 0.5))
            np.testing.assert_allclose(found, want, rtol=2 * np.finfo(dtype).eps)
            number = ~np.isnan(want)
            assert (np.signbit(found) & number).tolist() == (np.signbit(want) & number).tolist(), form


MASKS = [None, 1, 0, [1, 0, 1], np.int64(1), np.bool_(False), [True, False, True], np.array([True, False, True]), True]


@pytest.mark.parametrize("where", MASKS)
def test_where_is_what_numpy_takes_it_for(where: Any):
    x = np.arange(1.0, 4)
    for f in (
        lambda a: a.sum(where=where),
        lambda a: np.any(a, where=where),
        lambda a: np.add(a, 1, out=a.copy(), where=where),
        lambda a: np.nansum(a, where=where),
        lambda a: np.max(a, where=where, initial=-1),
    ):
        np.testing.assert_array_equal(tj.jit(f)(x), f(x))


@pytest.mark.parametrize("where", [np.array([1, 0, 1]), np.array(1)])
def test_where_of_an_array_of_integers_is_refused_as_by_numpy(where: Any):
    x = np.arange(1.0, 4)
    for f in (lambda a: a.sum(where=where), lambda a: np.any(a, where=where), lambda a: np.mean(a, where=where)):
        with pytest.raises(TypeError):
            f(x)
        with pytest.raises(TypeError, match="where=mask != 0"):
            tj.jit(f)(x)


@pytest.mark.parametrize("k", [3, 3.0, True])
def test_a_number_is_no_dtype(k: Any):
    x = np.arange(3.0)
    for f in (
        lambda x, k: np.zeros(2, k),
        lambda x, k: np.full(2, 1, k),
        lambda x, k: x.astype(k),
        lambda x, k: x.sum(dtype=k),
    ):
        with pytest.raises(TypeError):
            f(x, k)
        with pytest.raises(TypeError, match="is not a dtype"):
            tj.jit(f)(x, k)


def test_integers_without_elements_have_negative_powers():
    def f(x: Any) -> Any:
        return (x * 2) ** -1

    assert tj.jit(f)(np.zeros(0, int)).dtype == f(np.zeros(0, int)).dtype
    with pytest.raises(ValueError, match="negative integer powers"):
        tj.jit(f)(np.ones(1, int))


def test_extents_of_which_one_may_be_1_are_broadcast():
    f = tj.jit(lambda x: x[1:] + x[2:])
    for n in (2, 3, 2, 3):
        np.testing.assert_array_equal(f(np.ones(n)), np.ones(n)[1:] + np.ones(n)[2:])
    with pytest.raises(ValueError, match="is 4 and 3"):
        f(np.ones(5))
    g = tj.jit(lambda x, y: x[:-1] + y, dynamic_shapes=True)
    for n, m in ((2, 0), (5, 4), (2, 1), (2, 3)):
        np.testing.assert_array_equal(g(np.ones(n), np.ones(m)), np.ones(n)[:-1] + np.ones(m))


def test_outer_products_of_rows_and_columns_in_a_loop_do_not_ask_for_the_memory_order():
    def f(a: Any, loop: Any) -> Any:
        m = np.hstack([a, a])
        for i in loop(3):
            m[i] /= m[i, i]
            m -= np.outer(m[:, 0], m[i])
        return m

    for a in (np.eye(3) + 1, np.asfortranarray(np.arange(9.0).reshape(3, 3) + np.eye(3))):
        np.testing.assert_allclose(tj.jit(lambda a: f(a, tj.range))(a), f(a, range), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["u1", "u8", "i1", "i8", "?"])
def test_nothing_is_taken_of_nothing(dtype: str):
    for mode in ("clip", "wrap", "raise"):
        got = tj.jit(lambda x, i, mode=mode: np.take(x, i, mode=mode))(np.zeros(0), np.zeros(0, dtype))
        assert (got.shape, got.dtype) == ((0,), np.float64)


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float64])
@pytest.mark.parametrize("initial", [np.array([5]), np.array([[4]]), np.array([1, 2])])
@pytest.mark.parametrize("name", ["max", "min", "sum", "prod"])
def test_the_initial_value_of_a_fold_is_a_number(name: str, initial: Any, dtype: Any):
    x = np.ones(3, dtype)
    with pytest.raises(ValueError, match="initial= is a number"):
        tj.jit(lambda x, y: getattr(np, name)(x, initial=y))(x, initial.astype(dtype))
    f = lambda x, y: getattr(np, name)(x, initial=y)  # noqa: E731
    for y in (dtype(1), np.array(1, dtype)):
        got, want = tj.jit(f)(x, y), f(x, y)
        assert np.shape(got) == np.shape(want)
        assert got == want


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl", "vulkan"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_floats_beyond_uint64_convert_as_numpys_do(dtype: str, backend: str):
    values = [np.inf, -np.inf, np.nan, 1.9e19, 1e30, 2.0**64, 1.8e19, 2.0**63, -9.3e18, -5.0, 3.7, -0.5] * 3
    with np.errstate(all="ignore"):
        x = np.array(values).astype(dtype)
        want = x.astype(np.uint64)
    np.testing.assert_array_equal(tj.jit(lambda x: x.astype(np.uint64), backend=backend)(x), want)


@pytest.mark.parametrize("shape", [(0,), (0, 0), (0, 3), (4, 0), (0, 5), (2, 0)])
def test_masks_of_extent_0_fit_any_axis(shape: tuple[int, ...]):
    mask = np.zeros(shape, bool)

    def change(x, m):
        x[m] = 5
        x[m] += 1
        return x.sum()

    for function in (lambda x, m: x[m].sum(), change, lambda x, m: (2 * x)[m].sum()):
        for given in (function, lambda x, m, function=function: function(x, mask)):
            x = np.ones((4, 3))
            try:
                want = function(x.copy(), mask)
            except IndexError:
                with pytest.raises(IndexError, match="does not fit axes"):
                    tj.jit(given)(x, mask)
                continue
            np.testing.assert_array_equal(tj.jit(given)(x, mask), want)
            np.testing.assert_array_equal(x, np.ones((4, 3)))


def test_masks_are_empty_at_one_call_and_not_at_the_next():
    f = tj.jit(lambda x, m: x[m].sum())
    for n, m in ((4, 4), (4, 0), (5, 5), (5, 0), (0, 0), (1, 0)):
        assert f(np.ones(n), np.ones(m, bool)) == m


def test_integers_beyond_int64_as_arguments():
    """They are part of what is compiled; an array like one has the dtype that NumPy gives it."""
    for n in (2**63, 2**64 - 1, 5):
        for function in (
            np.zeros_like, np.ones_like, lambda n: np.full_like(n, 1), lambda n: np.full_like(n, 7, shape=(2,)),
            lambda n: np.zeros_like(n, dtype=np.int8),
        ):  # fmt: skip
            got, want = tj.jit(function)(n), function(n)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    for function in (lambda n: n - 2**63, lambda n: n + 2**63, lambda n: 2**63 - n, lambda n: abs(n - 2**63)):
        for n in (5, 0, -(2**62)):  # the number is asked for: what is known is Python's own
            got = tj.jit(function)(n)
            assert got == function(n)
            assert type(got) is int
    for function in (lambda n, x: int(x[0]) + 2**63, lambda n, x: abs(int(x[n]) - 2**63)):
        with pytest.raises(UnsupportedError, match=r"more than 64 bits(.|\n)*\n  at .*test_edges.py"):
            tj.jit(function)(1, np.arange(3))


@pytest.mark.parametrize("shape", [True, (True, 2), np.True_, [False]])
def test_bools_are_no_shapes(shape):
    for function in (np.zeros, np.ones, np.empty, lambda s: np.full(s, 1.0)):
        with pytest.raises(TypeError):
            function(shape)
        with pytest.raises(TypeError, match="integer"):
            tj.jit(lambda x, function=function: function(shape) + x)(1.0)


def test_parts_by_a_condition_that_is_known():
    for x in (
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(12.0).reshape(4, 3).T,
    ):
        for function in (
            lambda x: x.compress([True, False, True], axis=0), lambda x: np.compress(np.array([0, 1, 1]), x, axis=1),
            lambda x: np.compress([1, 0, 1], x), lambda x: np.extract(x.shape[0] * [1, 0], x),
            lambda x: np.compress([1, 0, 1], x, 0).ravel(), lambda x: np.extract(x > 2, x),
        ):  # fmt: skip
            np.testing.assert_array_equal(tj.jit(function)(x), function(x))
    for function, error in (
        (lambda x: np.compress([[1]], x), ValueError), (lambda x: np.compress([0] * 6 + [1], x, axis=0), IndexError),
    ):  # fmt: skip
        with pytest.raises(error):
            tj.jit(function)(np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl", "vulkan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_running_products_multiply_from_the_left(dtype: type, backend: str):
    """Neighbours may overflow, or vanish, where the product from the start on does not."""
    big = dtype(1e30 if dtype is np.float32 else 1e200)
    some = [[0, big, big], [1e-8, big, big], [big, 1 / big, 1 / big], [0, 1, 1, 1, big, big, 1, 2, 3]]
    for values in (*some, [big, *[1 / big, big] * 3000]):
        x = np.array(values, dtype)
        for function in (np.cumprod, np.multiply.accumulate, lambda x: np.cumprod(np.stack([x, x], 1), axis=0)):
            with np.errstate(all="ignore"):
                want = function(x)
            np.testing.assert_array_equal(tj.jit(lambda x, f=function: f(x), backend=backend)(x), want)


@pytest.mark.parametrize("text", ["np.sum(x, initial=None)", "np.prod(x, initial=None)", "x.sum(initial=None)"])
def test_no_initial_value_at_all(text: str):
    """NumPy's default is another one: without it a sum of nothing has none."""
    f = eval(f"lambda x: {text}")
    assert tj.jit(f)(np.arange(4.0)) == f(np.arange(4.0))
    with pytest.raises(ValueError, match="no identity"):
        tj.jit(f)(np.arange(0.0))
    of_selected = eval(f"lambda x: {text.replace('x.', 'x[x > 9].').replace('(x,', '(x[x > 9],')}")
    with pytest.raises(ValueError, match="no identity"):
        tj.jit(of_selected)(np.arange(4.0))


@pytest.mark.parametrize("n", [0, 2, 3])
def test_the_truth_of_not_one_element(n: int):
    with pytest.raises(ValueError, match="ambiguous"):
        tj.jit(lambda x: bool(x))(np.zeros(n))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("kth", [0, 5, -1])
def test_parts_of_nothing(shape: tuple[int, ...], kth: int):
    """NumPy looks at no places where there are no elements."""
    x = np.zeros(shape)
    for f in (np.partition, np.argpartition):
        got, want = tj.jit(lambda x, f=f: f(x, kth))(x), f(x, kth)
        assert got.shape == want.shape
        assert got.dtype == want.dtype


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_places_in_nothing(mode: str):
    def f(i):
        return np.ravel_multi_index((i, i), (0, 0), mode=mode)

    with pytest.raises(ValueError):  # noqa: PT011 -- NumPy's
        f(np.array([1, 2]))
    with pytest.raises(ValueError, match=r"no elements|invalid entry"):
        tj.jit(f)(np.array([1, 2]))
