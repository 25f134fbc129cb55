"""Complex numbers: NumPy's answers, on every backend, in every order of memory, in loops, as Python's numbers."""

import cmath
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, TracejitError

RNG = np.random.default_rng(3)


def numbers(*shape: int) -> Any:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


Z, W, V = numbers(5, 7), numbers(5, 7), numbers(6)

ARRAYS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda z, w: (z + w, z - w, z * w, z / w, -z, +z, 2 * z + 1j, 1 / z, z - 3),
    "parts": lambda z, w: (z.real, w.imag, np.real(z), np.imag(w), np.abs(z), np.angle(w), np.angle(z, deg=True)),
    "conjugates": lambda z, w: (z.conj(), np.conj(w), z.T.conj() @ w, np.vdot(z, w), np.inner(z, w)),
    "sums": lambda z, w: (z.sum(), w.sum(axis=0), z.mean(axis=1), z.prod(axis=1), z.cumsum(axis=0), z.cumprod(axis=1)),
    "spread": lambda z, w: (z.var(axis=0), w.std(), np.linalg.norm(z), np.linalg.norm(w, axis=1), np.ptp(z.real)),
    "products": lambda z, w: (z @ w.T, np.outer(z[0], w[1]), np.einsum("ij,kj->ik", z, w), np.kron(z[:2, :2], w[:2])),
    "order": lambda z, w: (z < w, z >= w, z == w, z != w, np.maximum(z, w), z.max(0), z.argmax(1)),
    "sorted": lambda z, w: (np.sort(z, axis=1), np.argsort(w, axis=0)),
    "selected": lambda z, w: (np.where(np.abs(z) > 1, z, w), z[np.abs(z) > 1], z[1:3, ::-2], w[[2, 0]]),
    "joined": lambda z, w: (np.stack([z, w]), np.concatenate([z, w.real]), np.array([z[0, 0], 1.0]), np.pad(z, 1)),
    "tests": lambda z, w: (np.isfinite(z), np.isnan(w), np.isreal(z), np.iscomplex(w), np.iscomplexobj(z), np.isinf(z)),
    "close": lambda z, w: (np.isclose(z, w), np.allclose(z, z + 1e-12), np.array_equal(z, w), np.any(z), np.all(w)),
    "rounded": lambda z, w: (np.round(z, 2), np.sign(z), np.nan_to_num(w), np.unwrap(np.angle(z))),
    "differences": lambda z, w: (np.diff(z), np.gradient(w, axis=0), np.trapezoid(z), np.interp(0.5, [0, 1], [2.0, 3])),
    "exponentials": lambda z, w: (np.exp(z), np.exp2(w), np.expm1(z), np.log(z), np.log2(w), np.log10(z), np.log1p(w)),
    "powers": lambda z, w: (np.sqrt(z), z**2, z**3, z**-1, w**0.5, z**w, 2**z, np.square(z), np.reciprocal(w)),
    "circular": lambda z, w: (np.sin(z), np.cos(w), np.tan(z), np.arcsin(w), np.arccos(z), np.arctan(w)),
    "hyperbolic": lambda z, w: (np.sinh(z), np.cosh(w), np.tanh(z), np.arcsinh(w), np.arccosh(z), np.arctanh(w)),
    "dtypes": lambda z, w: (z.astype(np.complex64), z.real.astype(complex), z.astype(bool), z.real + 1j * w.imag),
    "created": lambda z, w: (np.zeros(3, complex), np.full(2, 1j), np.zeros_like(z), np.eye(2, dtype="c8"), z * 0),
}  # fmt: skip


def check(got: Any, want: Any, relative: float = 1e-12) -> None:
    if isinstance(want, tuple):
        assert type(got) is tuple
        for a, b in zip(got, want, strict=True):
            check(a, b, relative)
        return
    assert type(got) is type(want)
    if isinstance(want, np.ndarray | np.generic):
        assert got.dtype == want.dtype
        relative = 2e-5 if want.dtype == np.complex64 else relative
    np.testing.assert_allclose(got, want, relative, relative)


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
@pytest.mark.parametrize("name", ARRAYS)
def test_functions_of_arrays(name: str, backend: str, record_backend: Any):
    record_backend(backend)
    f = tj.jit(ARRAYS[name], backend=backend)
    check(f(Z, W), ARRAYS[name](Z, W))
    check(f(Z[:3, 1:], W[:3, 1:]), ARRAYS[name](Z[:3, 1:], W[:3, 1:]))


@pytest.mark.parametrize("name", ARRAYS)
def test_memory_in_other_orders(name: str):
    z, w = Z.T.copy().T, W[::-1, ::-1]
    check(tj.jit(ARRAYS[name])(z, w), ARRAYS[name](z, w))


@pytest.mark.parametrize("name", ["arithmetic", "parts", "sums", "products", "exponentials", "powers"])
def test_single_precision(name: str):
    z, w = Z.astype(np.complex64), W.astype(np.complex64)
    check(tj.jit(ARRAYS[name])(z, w), ARRAYS[name](z, w), 2e-4)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 17, 64, 1000])
def test_sizes(size: int):
    f = test_sizes.__dict__.setdefault("f", tj.jit(lambda z, w: (z * w + z.conj(), np.abs(z), z.sum(), (z * w).real)))
    z, w = numbers(size), numbers(size)
    check(f(z, w), (z * w + z.conj(), np.abs(z), z.sum(), (z * w).real), 1e-11)


# -- programs ----------------------------------------------------------------------------------------------------------
def escapes(c, most):
    z = 0j
    for k in range(most):
        if abs(z) > 2:
            return k
        z = z * z + c
    return most


def escape_times(c, most):
    z, k = np.zeros_like(c), np.zeros(c.shape, np.int64)
    for _ in range(most):
        inside = np.abs(z) <= 2
        z[inside] = z[inside] ** 2 + c[inside]
        k[inside] += 1
    return z, k


def fourier(x):
    n = len(x)
    out = np.zeros(n, complex)
    for k in range(n):
        total = 0j
        for j in range(n):
            total += x[j] * np.exp(-2j * np.pi * k * j / n)
        out[k] = total
    return out


def newton(z):
    n = 0
    while abs(z**3 - 1) > 1e-9 and n < 100:
        z = z - (z**3 - 1) / (3 * z * z)
        n += 1
    return z, n


def in_place(z, w):
    z[1:] += w[:-1] * 1j
    z[0] = 3
    z[-1] = 2.5 + 1j
    z.real = z.real + 1
    z *= 2
    return z.sum()


def branches(z, w):
    z = z * 2 if z.real.sum() > 0 else z.conj()
    s = 1j
    for v in w:
        s = s * v if v.imag > 0 else s + v
    return z, s


def pythons_own(a, b):
    return (
        a * b,
        a + 1,
        a.real,
        a.imag,
        abs(a),
        a.conjugate(),
        2 * a,
        a**2,
        a == b,
        a / 2,
        -a,
        complex(b),
        complex(b, 2),
    )


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
@pytest.mark.parametrize(
    ("program", "args"),
    [
        (escapes, (-0.5 + 0.5j, 50)), (escapes, (0.3 + 0.6j, 50)), (escape_times, (numbers(6, 5), 20)),
        (fourier, (RNG.normal(size=9),)), (newton, (1.3 + 0.5j,)), (in_place, (V, numbers(6))),
        (branches, (V, numbers(7))),
        (pythons_own, (1 + 2j, 0.5)),
    ],
    ids=lambda x: x.__name__ if callable(x) else None,
)  # fmt: skip
def test_programs(program: Any, args: tuple[Any, ...], backend: str, record_backend: Any):
    record_backend(backend)
    mine = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    ours = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    want = program(*mine)
    f = tj.jit(program, backend=backend)
    check(f(*ours), want)
    for a, b in zip(ours, mine, strict=True):
        np.testing.assert_allclose(a, b)
    check(f(*[x.copy() if isinstance(x, np.ndarray) else x for x in args]), want)


def test_every_equation_runs_in_generated_code():
    lowered = tj.jit(lambda z, w: (np.exp(z) @ w.T).sum(axis=0)).lower(Z, W)
    names = {e.primitive.name for e in lowered.jaxpr.equations}
    kernels = {k.name for k in lowered.program.kernels()}
    assert {"exp", "dot_general", "reduce_sum"} <= names
    assert {where for name, where in lowered.report if name in names} <= kernels


def test_the_kernels_have_real_numbers_only():
    lowered = tj.jit(lambda z: z * z + 1j).lower(Z)
    assert "c128" in lowered.text("scheduled")
    assert "c128" not in "".join(str(k) for k in lowered.program.kernels())


# -- derivatives -------------------------------------------------------------------------------------------------------
REAL: dict[str, Callable[[Any], Any]] = {
    "size": lambda z: np.sum(np.abs(z)), "square": lambda z: np.sum(np.abs(z) ** 2),
    "real": lambda z: np.sum((z * z).real),
    "quotient": lambda z: np.sum((1 / z + z / (2 + 1j)).imag), "conj": lambda z: np.sum((np.exp(z) * np.conj(z)).real),
    "product": lambda z: np.real(np.vdot(z, W[:4, :4] @ z)), "angle": lambda z: np.sum(np.angle(z)),
    "where": lambda z: np.sum(np.abs(np.where(z.real > 0, z, z * 1j + 1))), "norm": lambda z: np.linalg.norm(z),
    "power": lambda z: np.real(np.sum(z ** (1.5 + 0.5j))), "cumprod": lambda z: np.sum(np.cumprod(z).real),
    "sign": lambda z: np.sum((np.sign(z) * W[0, :4]).real), "greatest": lambda z: np.max(z).real,
    "spread": lambda z: np.var(z),
    "element": lambda z: np.abs(z[1] * z[2]), "joined": lambda z: np.sum(np.abs(np.concatenate([z, z * z]))),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_gradients_of_real_results(name: str):
    f, z, h = REAL[name], numbers(4), 1e-6
    got = tj.grad(f)(z)
    assert got.dtype == np.complex128
    want = np.zeros(4, complex)
    for k in range(4):
        e = np.zeros(4)
        e[k] = h
        want[k] = (f(z + e) - f(z - e)) / (2 * h) - 1j * (f(z + 1j * e) - f(z - 1j * e)) / (2 * h)
    np.testing.assert_allclose(got, want, 1e-6, 1e-6)
    np.testing.assert_allclose(tj.jit(tj.grad(f))(z), got, 1e-12, 1e-12)
    t = numbers(4)
    slope = (f(z + h * t) - f(z - h * t)) / (2 * h)
    np.testing.assert_allclose(tj.jvp(f, (z,), (t,))[1], slope, 1e-6, 1e-6)
    many = numbers(3, 4)
    np.testing.assert_allclose(tj.vmap(tj.grad(f))(many), [tj.grad(f)(row) for row in many], 1e-11, 1e-11)


@pytest.mark.parametrize(
    "f", [lambda z: np.exp(z) * z, lambda z: z**2 + 1 / z, lambda z: np.log(np.sin(z)) + np.sqrt(z)]
)
def test_holomorphic_functions(f: Callable[[Any], Any]):
    z, h = 0.7 + 0.4j, 1e-6
    want = (f(z + h) - f(z - h)) / (2 * h)
    np.testing.assert_allclose(tj.grad(f, holomorphic=True)(z), want, 1e-8)
    v = numbers(3)
    diagonal = np.diag((f(v + h) - f(v - h)) / (2 * h))
    for jacobian in (tj.jacfwd, tj.jacrev):
        np.testing.assert_allclose(jacobian(f, holomorphic=True)(v), diagonal, 1e-6, 1e-7)
    second = (f(z + 1e-4) - 2 * f(z) + f(z - 1e-4)) / 1e-8
    np.testing.assert_allclose(tj.hessian(f, holomorphic=True)(z), second, 1e-5)


def test_what_has_no_derivative_says_how_to_ask():
    with pytest.raises(DtypeError, match="holomorphic=True"):
        tj.grad(lambda z: z * z)(1 + 1j)
    with pytest.raises(DtypeError, match="for complex numbers"):
        tj.grad(lambda x: x * x, holomorphic=True)(1.0)
    with pytest.raises(DtypeError, match="holomorphic=True"):
        tj.jacfwd(lambda z: np.abs(z))(1 + 1j)


# -- what differs, and what is refused ---------------------------------------------------------------------------------
def test_an_imaginary_part_is_not_lost():
    for f in (lambda x, z: np.add(x, z, out=x), lambda x, z: x.__setitem__(0, z[0]), lambda x, z: x.fill(z[0])):
        with pytest.raises((TracejitError, TypeError)):
            tj.jit(f)(np.ones(6), V.copy())


def test_pythons_complex_numbers_have_no_order():
    with pytest.raises(TypeError):
        tj.jit(lambda a, b: a < b)(1j, 2.0)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 30.0, math.inf, -math.inf, math.nan, 1e-300, -1e300]
GRID = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL])


@pytest.mark.parametrize(
    "function", [np.abs, np.log, np.sqrt, np.exp, np.conj, np.isfinite, np.isinf, np.isnan, np.negative]
)
@pytest.mark.filterwarnings("ignore")
def test_special_values(function: Any):
    got, want = tj.jit(lambda z: function(z))(GRID), function(GRID)
    for part in ("real", "imag"):
        a, b = getattr(got, part), getattr(want, part)
        np.testing.assert_allclose(a, b, 1e-14)
        zero = b == 0
        np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))


@pytest.mark.filterwarnings("ignore")
def test_special_quotients():
    a, b = (x.ravel() for x in np.meshgrid(GRID[::3], GRID[::2]))
    np.testing.assert_allclose(tj.jit(lambda a, b: a / b)(a, b), a / b, 1e-13)


FUNCTIONS = [
    "sqrt", "exp", "log", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh",
]  # fmt: skip
IN_NUMPY = {"a" + name: "arc" + name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_exact_to_a_few_units(name: str):
    rng = np.random.default_rng(0)
    sizes = [(s, t) for s in (1e-3, 1.0, 20.0) for t in (1e-3, 1.0, 20.0)]
    z = np.concatenate([rng.normal(size=40) * s + 1j * rng.normal(size=40) * t for s, t in sizes])
    ours = getattr(np, IN_NUMPY.get(name, name))
    got = tj.jit(lambda z: ours(z))(z)
    with mpmath.workdps(40):
        want = [complex(getattr(mpmath, name)(mpmath.mpc(x.real, x.imag))) for x in z]
    worst = np.max(np.abs(got - want) / np.abs(want)) / np.finfo(float).eps
    assert worst < 6, worst
    assert getattr(cmath, name)(complex(z[50])) == pytest.approx(complex(got[50]), rel=1e-14)


@pytest.mark.parametrize(
    "of",
    [
        lambda z: z.conj(), lambda z: z.conjugate(), lambda z: np.conj(z), lambda z: z.real, lambda z: z.imag,
        lambda z: abs(z), lambda z: np.angle(z), lambda z: z * 1j, lambda z: z.copy() ** 2,
    ],
)  # fmt: skip
def test_parts_of_selected_numbers(of: Any):
    z = np.array([1 + 2j, 3, 1 - 1j])
    np.testing.assert_allclose(tj.jit(lambda z: of(z[z.imag != 0]))(z), of(z[z.imag != 0]), rtol=1e-15)
    np.testing.assert_allclose(tj.jit(lambda z: of(z[np.nonzero(z)]))(z), of(z), rtol=1e-15)
