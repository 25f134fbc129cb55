"""vmap, jvp, vjp, grad, linearize and Jacobians: random programs against finite differences and loops, nested;
and their edges."""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from hypothesis import assume, given, settings, strategies as st

import tracejit as tj
from tracejit.support.errors import TracejitError, UnsupportedError, UserError

# -- random programs ---------------------------------------------------------------------------------------------------
UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": np.sin,
    "tanh": np.tanh,
    "exp": lambda x: np.exp(np.tanh(x)),
    "log": lambda x: np.log(x * x + 1.0),
    "sqrt": lambda x: np.sqrt(x * x + 0.5),
    "square": lambda x: 0.5 * x**2,
    "abs": lambda x: np.abs(x + 0.1),
    "negative": lambda x: -x,
    "power": lambda x: (np.abs(x) + 0.5) ** 1.5,
    "reciprocal": lambda x: 1.0 / (2.0 + np.cos(x)),
    "center": lambda x: x - np.mean(x, axis=-1, keepdims=True),
    "softmax": lambda x: (
        np.exp(x - x.max(axis=-1, keepdims=True))
        / np.exp(x - x.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)
    ),
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "reverse": lambda x: x[::-1],
    "shift": lambda x: np.concatenate([x[1:], x[:1]]),
    "transpose": lambda x: x.T.reshape(x.shape),
    "spread": lambda x: x + x.sum(axis=0),
    "first": lambda x: x * x[0],
    "pick": lambda x: x[np.array([0, -1, 0])].sum(axis=0) + x,
    "gram": lambda x: (x @ x.T) @ x if x.ndim == 2 else x * (x @ x),
    "fill": lambda x: _filled(x),
    "sign": lambda x: np.where(x > 0.05, x * x, 2.0 * x),
    "float": lambda x: x.astype(np.float64) * 0.7 + float(3),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - 2.0 * y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (1.0 + y * y),
    "maximum": lambda x, y: np.maximum(x, y + 0.03),
    "where": lambda x, y: np.where(x < y + 0.01, np.sin(y), x),
    "hypot": lambda x, y: np.hypot(x, y + 1.5),
    "arctan2": lambda x, y: np.arctan2(x + 3.0, y),
    "outer": lambda x, y: x * y.sum(),
}


def _filled(x: Any) -> Any:
    """In-place writes into an array made here."""
    out = np.zeros_like(x)
    out[1:] = x[:-1] * 2.0
    out[0] += np.sin(x[-1])
    out *= 0.5
    return out


@frozen
class RandomProgram:
    """Steps (operation, operands): each adds a value of the argument's shape; the result is made of the last ones."""

    steps: tuple[tuple[str, tuple[int, ...]], ...]

    def values(self, x: Any) -> list[Any]:
        made = [x]
        for name, places in self.steps:
            operands = [made[p % len(made)] for p in places]
            made.append((UNARY[name] if len(operands) == 1 else BINARY[name])(*operands))
        return made

    def __call__(self, x: Any) -> Any:
        """A number."""
        made = self.values(x)
        return np.sum(np.tanh(made[-1]) * 1.5) + np.mean(np.sin(made[len(made) // 2]))

    def array(self, x: Any) -> Any:
        return np.tanh(self.values(x)[-1])


PLACES = st.integers(0, 20)
STEPS = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.tuples(PLACES)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.tuples(PLACES, PLACES)),
)
PROGRAMS = st.lists(STEPS, min_size=1, max_size=7).map(lambda steps: RandomProgram(tuple(steps)))
SHAPES = st.sampled_from([(3,), (5,), (2, 3), (3, 2), (4, 4)])
SEEDS = st.integers(0, 2**32 - 1)


def point(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(-1.5, 1.5, shape)


def difference(f: Callable[..., Any], x: Any, t: Any, h: float = 1e-6) -> Any:
    """The derivative along t by central differences, Richardson's extrapolation of two steps."""
    coarse, fine = ((np.asarray(f(x + s * t)) - np.asarray(f(x - s * t))) / (2 * s) for s in (2 * h, h))
    return (4 * fine - coarse) / 3


def settle(program: RandomProgram, x: Any) -> None:
    """Leave out programs whose values grow so large that differences cannot tell their derivatives."""
    assume(max(float(np.max(np.abs(v))) for v in program.values(x)) < 1e3)


def check(got: Any, want: Any, tolerance: float) -> None:
    np.testing.assert_allclose(
        got, want, rtol=tolerance, atol=tolerance * max(1.0, float(np.max(np.abs(want), initial=0.0)))
    )


@settings(max_examples=60)
@given(PROGRAMS, SHAPES, SEEDS)
def test_gradients_agree_with_finite_differences(program: RandomProgram, shape: tuple[int, ...], seed: int):
    x, t = point(shape, seed), point(shape, seed + 1)
    settle(program, x)
    value, gradient = tj.value_and_grad(program)(x)
    assert gradient.shape == x.shape
    assert gradient.dtype == x.dtype
    check(value, program(x), 1e-13)
    check(np.sum(gradient * t), difference(program, x, t), 2e-6)


@settings(max_examples=20)
@given(PROGRAMS, SHAPES, SEEDS)
def test_gradients_are_the_same_in_and_around_jit(program: RandomProgram, shape: tuple[int, ...], seed: int):
    x = point(shape, seed)
    want = tj.grad(program)(x)
    check(tj.jit(tj.grad(program))(x), want, 1e-10)
    check(tj.grad(tj.jit(program))(x), want, 1e-10)
    check(tj.jit(tj.grad(tj.jit(program)))(x), want, 1e-10)


@settings(max_examples=20)
@given(PROGRAMS, SHAPES, SEEDS)
def test_forward_and_reverse_mode_are_adjoint(program: RandomProgram, shape: tuple[int, ...], seed: int):
    x, t, ct = (point(shape, seed + k) for k in range(3))
    settle(program, x)
    out, slope = tj.jvp(program.array, (x,), (t,))
    again, pullback = tj.vjp(program.array, x)
    np.testing.assert_array_equal(out, again)
    check(np.sum(slope * ct), np.sum(pullback(ct)[0] * t), 1e-11)
    _, pushforward = tj.linearize(program.array, x)
    check(pushforward(t), slope, 1e-12)
    check(slope, difference(program.array, x, t), 2e-6)


@settings(max_examples=20)
@given(PROGRAMS, SHAPES, SEEDS, st.integers(0, 2), st.integers(0, 2))
def test_vmap_agrees_with_a_loop(program: RandomProgram, shape: tuple[int, ...], seed: int, at: int, to: int):
    rows = [point(shape, seed + k) for k in range(3)]
    at, to = at % (len(shape) + 1), to % (len(shape) + 1)
    got = tj.vmap(program.array, in_axes=at, out_axes=to)(np.stack(rows, axis=at))
    check(got, np.stack([program.array(r) for r in rows], axis=to), 1e-13)
    check(tj.jit(tj.vmap(tj.jit(program.array), in_axes=at, out_axes=to))(np.stack(rows, axis=at)), got, 1e-12)


@settings(max_examples=12)
@given(PROGRAMS, SHAPES, SEEDS)
def test_vmap_and_grad_commute(program: RandomProgram, shape: tuple[int, ...], seed: int):
    rows = np.stack([point(shape, seed + k) for k in range(3)])
    want = np.stack([tj.grad(program)(r) for r in rows])
    check(tj.vmap(tj.grad(program))(rows), want, 1e-12)
    check(tj.grad(lambda xs: np.sum(tj.vmap(program)(xs)))(rows), want, 1e-12)
    check(tj.jit(tj.vmap(tj.grad(program)))(rows), want, 1e-11)


@settings(max_examples=12)
@given(PROGRAMS, st.sampled_from([(3,), (2, 2)]), SEEDS)
def test_hessians_are_symmetric_and_agree_with_finite_differences(
    program: RandomProgram, shape: tuple[int, ...], seed: int
):
    x, t = point(shape, seed), point(shape, seed + 1)
    settle(program, x)
    hessian = tj.hessian(program)(x)
    n = x.size
    assert hessian.shape == shape * 2
    square = hessian.reshape(n, n)
    check(square, square.T, 1e-10)
    check(square @ t.ravel(), difference(tj.grad(program), x, t).ravel(), 2e-5)
    check(tj.jacrev(tj.grad(program))(x), hessian, 1e-10)
    check(tj.jacfwd(tj.jacfwd(program))(x), hessian, 1e-10)


@settings(max_examples=12)
@given(PROGRAMS, SHAPES, SEEDS)
def test_jacobians_by_both_modes_agree(program: RandomProgram, shape: tuple[int, ...], seed: int):
    x, t = point(shape, seed), point(shape, seed + 1)
    settle(program, x)
    forward, reverse = tj.jacfwd(program.array)(x), tj.jacrev(program.array)(x)
    assert forward.shape == shape * 2
    check(forward, reverse, 1e-11)
    check(np.tensordot(forward, t, len(shape)), difference(program.array, x, t), 2e-6)
    check(tj.jit(tj.jacrev(program.array))(x), forward, 1e-11)


# -- nesting -----------------------------------------------------------------------------------------------------------
def test_derivatives_of_two_levels_do_not_mix():
    assert tj.grad(lambda x: x * tj.grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert tj.grad(lambda x: x * tj.grad(lambda y: x * y * y)(3.0))(2.0) == 24.0
    out, slope = tj.jvp(lambda x: x * tj.jvp(lambda y: x * y, (2.0,), (1.0,))[1], (3.0,), (1.0,))
    assert (out, slope) == (9.0, 6.0)


def test_many_levels():
    f: Any = np.sin
    for want in (np.cos(0.3), -np.sin(0.3), -np.cos(0.3), np.sin(0.3), np.cos(0.3)):
        f = tj.grad(f)
        assert f(0.3) == pytest.approx(want, abs=1e-12)
        assert tj.jit(f)(0.3) == pytest.approx(want, abs=1e-12)


def test_vmap_of_vmap_over_different_axes():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(20.0).reshape(4, 5)
    table = tj.vmap(tj.vmap(lambda x, y: x * y, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_array_equal(table(a.ravel(), b.ravel()), np.outer(a, b))
    assert tj.vmap(tj.vmap(lambda x: x.sum(), in_axes=1))(np.ones((2, 3, 4))).tolist() == [[3.0] * 4] * 2


def test_values_of_an_outer_transformation_are_constants_inside():
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(tj.vmap(lambda a: tj.grad(lambda b: np.sum(a * b**2))(2.0))(x), 4 * x)
    np.testing.assert_allclose(tj.grad(lambda a: np.sum(tj.vmap(lambda b: a * b)(x)))(2.0), 6.0)
    np.testing.assert_allclose(tj.jit(lambda a: tj.grad(lambda b: np.sum(a * b**2))(2.0))(x), 4 * x.sum())


def test_a_jitted_function_serves_calls_and_transformations_alike():
    f = tj.jit(lambda x: np.sum(x**3))
    x = np.array([1.0, 2.0])
    assert f(x) == 9.0
    np.testing.assert_array_equal(tj.grad(f)(x), 3 * x**2)
    np.testing.assert_array_equal(tj.vmap(f)(np.stack([x, x])), [9.0, 9.0])
    np.testing.assert_array_equal(tj.hessian(f)(x), np.diag(6 * x))
    assert f(x) == 9.0
    assert f.compilations == 1


def test_transformations_of_jitted_functions_are_compiled():
    f = tj.jit(lambda x: np.sum(np.exp(x) * x))
    x = np.array([0.1, 0.2])
    for transformed in (
        tj.grad(f),
        tj.value_and_grad(f),
        tj.vmap(tj.vmap(f)),
        tj.hessian(f),
        tj.jacrev(tj.grad(f)),
        tj.grad(tj.vmap(f)),
    ):
        assert type(transformed) is type(f)
    slope = tj.grad(f)
    np.testing.assert_allclose(slope(x), np.exp(x) * (1 + x), rtol=1e-14)
    np.testing.assert_allclose(slope(2 * x), np.exp(2 * x) * (1 + 2 * x), rtol=1e-14)
    assert slope.compilations == 1
    assert "grad" in repr(slope)


def test_tj_arrays_give_tj_arrays():
    x = tj.Array([1.0, 2.0, 3.0])
    f = lambda x: np.sum(np.sin(x) * x)  # noqa: E731
    ones = np.ones(3)
    results = [
        tj.grad(f)(x), tj.vmap(np.sin)(x), tj.jacrev(np.sin)(x), tj.jacfwd(np.sin)(x), tj.hessian(f)(x),
        tj.vjp(np.sin, x)[1](ones)[0], *tj.jvp(np.sin, (x,), (ones,)), tj.linearize(np.sin, x)[1](ones),
        tj.grad(lambda a, b: np.sum(a * b))(ones, x), *tj.value_and_grad(f)(x),
    ]  # fmt: skip
    assert {type(r) for r in results} == {tj.Array}
    np.testing.assert_array_equal(results[0], tj.grad(f)(np.asarray(x)))


def test_gradients_under_jit_serve_every_size():
    f = tj.jit(tj.grad(lambda x: np.sum(np.sin(x) ** 2)))
    for n in (3, 5, 8, 13):
        x = np.linspace(0.0, 1.0, n)
        np.testing.assert_allclose(f(x), np.sin(2 * x), atol=1e-14)
    assert f.compilations == 2


SIZES: dict[str, Callable[[Any], Any]] = {
    "jacrev": tj.jacrev(lambda x: np.sin(x) * np.sum(x)),
    "jacfwd": tj.jacfwd(lambda x: np.sin(x) * np.sum(x)),
    "hessian": tj.hessian(lambda x: np.sum(np.sin(x)) * np.sum(x)),
    "max": tj.grad(lambda x: np.max(x) * np.sum(x)),
    "cumsum": tj.grad(lambda x: np.sum(np.cumsum(x, axis=0) ** 2)),
    "cumprod": tj.grad(lambda x: np.sum(np.cumprod(x, axis=0) ** 2)),
    "accumulate": tj.grad(lambda x: np.sum(np.maximum.accumulate(np.sin(5 * x)) ** 2)),
    "prod": tj.grad(np.prod),
    "slices": tj.grad(lambda x: np.sum(x[1:] * x[:-1])),
    "fill": tj.grad(lambda x: np.sum(_filled(x) ** 2)),
    "products": tj.grad(lambda x: np.sum(x @ x.T)),
    "softmax": tj.grad(lambda x: np.sum(UNARY["softmax"](x) * x)),
    "variance": tj.grad(lambda x: np.var(x) + np.mean(x**3)),
    "gather": tj.grad(lambda x: np.sum(x[np.array([0, 1, 0])]) * np.sum(x[-1])),
    "concatenate": tj.grad(lambda x: np.sum(np.concatenate([x, x * 2]) ** 2)),
    "reshape": tj.grad(lambda x: np.sum(x.reshape(-1) ** 2)),
    "vmap": tj.vmap(lambda row: np.sin(row) / np.sum(row)),
    "vmap grad": tj.vmap(tj.grad(lambda row: np.sum(np.exp(row)) / np.sum(row))),
}


@pytest.mark.parametrize("name", sorted(SIZES))
def test_transformed_functions_compile_twice_for_all_sizes(name: str):
    f, wanted = tj.jit(SIZES[name]), SIZES[name]
    for n in (3, 5, 8, 13, 2):
        x = np.linspace(0.1, 1.0, 3 * n).reshape(n, 3)
        if name in ("jacrev", "jacfwd", "hessian", "prod"):
            x = x[:, 0].copy()
        check(f(x), wanted(x), 1e-11)
    assert f.compilations == 2


def test_derived_operations_point_to_the_line_they_come_from():
    def f(x: Any) -> Any:
        y = np.sin(x)
        return np.sum(y)

    jaxpr = tj.jit(tj.grad(f)).lower(np.ones(3)).jaxpr
    lines = {e.primitive.name: e.location.show() for e in jaxpr.equations if e.location is not None}
    assert "y = np.sin(x)" in lines["cos"]
    assert "return np.sum(y)" in lines["broadcast_in_dim"]


def test_captured_values_are_not_confused_when_memory_is_reused():
    """Residuals are temporaries: the identity of one that is gone must not stand for the next."""

    def f(x: Any) -> Any:
        for _ in range(30):
            x = np.sin(x) * np.cos(x + 0.1) + x
        return np.sum(x)

    x = np.array([0.3, -0.2])
    second = tj.grad(lambda y: np.sum(tj.grad(f)(y) ** 2))
    t = np.array([0.7, 0.4])
    check(np.sum(second(x) * t), difference(lambda y: np.sum(tj.grad(f)(y) ** 2), x, t), 1e-5)


# -- special points ----------------------------------------------------------------------------------------------------
def test_powers_at_zero():
    x = np.array([0.0, 0.0, 2.0])
    y = np.array([0.0, 2.0, 0.0])
    dx, dy = tj.grad(lambda x, y: np.sum(x**y), argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(dx, [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(dy, [0.0, 0.0, np.log(2.0)])


@pytest.mark.parametrize("n", [4, 40])
def test_running_products_through_zero(n: int):
    x = np.linspace(0.5, 1.5, n)
    x[n // 2] = 0.0
    t = np.cos(np.arange(n))
    for f in (np.cumprod, lambda v: np.cumprod(v[::-1])[::-1], np.prod):
        slope = tj.jvp(f, (x,), (t,))[1]
        check(slope, difference(f, x, t), 1e-7)
        check(tj.jit(lambda v, f=f: tj.jvp(f, (v,), (t,))[1])(x), slope, 1e-12)
        ct = np.sin(np.arange(np.size(slope))).reshape(np.shape(slope))
        check(np.sum(tj.vjp(f, x)[1](ct)[0] * t), np.sum(slope * ct), 1e-12)


def test_running_extrema_take_the_first_of_equal_elements():
    x = np.array([1.0, 3.0, 3.0, 2.0, 4.0])
    np.testing.assert_array_equal(tj.jacrev(np.maximum.accumulate)(x), np.eye(5)[[0, 1, 1, 1, 4]])
    np.testing.assert_array_equal(tj.jacrev(np.minimum.accumulate)(-x), np.eye(5)[[0, 1, 1, 1, 4]])


def test_equal_extrema_share_the_derivative():
    np.testing.assert_array_equal(tj.grad(np.max)(np.array([2.0, 5.0, 5.0])), [0.0, 0.5, 0.5])
    assert tj.grad(lambda x: np.maximum(x, 1.0))(1.0) == 0.5


def test_saturated_functions_keep_their_small_derivatives():
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(tj.grad(np.tanh)(8.0), 1 / np.cosh(8.0) ** 2, rtol=1e-9)
    x = 1 - 1e-12
    np.testing.assert_allclose(tj.grad(np.arcsin)(x), 1 / np.sqrt((1 - x) * (1 + x)), rtol=1e-14)


# -- Python in the function
# ---------------------------------------------------------------------------------------------------------------
def test_branches_on_values_are_taken_where_values_are_known():
    def f(x: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            if x[i] > 0:
                total += x[i] ** 2
        return total

    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(tj.grad(f)(x), [2.0, 0.0, 6.0])
    assert tj.grad(lambda x, n: x**n, argnums=0)(2.0, 3) == 12.0
    np.testing.assert_array_equal(tj.vmap(lambda x: x if x > 0 else -x)(x), [1, 2, 3])  # compiled


def test_a_number_made_of_a_differentiated_value_is_refused():
    with pytest.raises(TypeError, match="would drop its derivative"):
        tj.grad(lambda x: x * x.__float__())(2.0)
    assert tj.grad(lambda x: x * np.floor(x).__float__())(2.5) == 2.0
    # what stands for float() in a traced function keeps the derivative
    assert tj.grad(lambda x: x * float(x))(2.0) == 4.0


def test_arrays_made_inside_are_filled_in_place():
    def f(x: Any) -> Any:
        out = np.zeros(4)
        for i in range(3):
            out[i + 1] = out[i] + x[i] ** 2
        out[1:] *= 2.0
        return np.sum(out)

    x = np.array([1.0, 2.0, 3.0])
    want = np.array([12.0, 16.0, 12.0])
    np.testing.assert_array_equal(tj.grad(f)(x), want)
    np.testing.assert_array_equal(tj.jit(tj.grad(f))(x), want)
    np.testing.assert_array_equal(tj.vmap(f)(np.stack([x, 2 * x])), [f(x), f(2 * x)])


def test_rank_0_results_are_values_not_cells():
    def f(x: Any) -> Any:
        a = np.sum(x)
        b = a
        a += 1.0
        return a * b

    assert tj.jit(f)(np.array([1.0, 2.0])) == f(np.array([1.0, 2.0])) == 12.0
    np.testing.assert_array_equal(tj.grad(f)(np.array([1.0, 2.0])), [7.0, 7.0])


def test_python_numbers_stay_python_numbers_in_operators():
    """As in NumPy: what Python makes of Python numbers gives way to an array's dtype,
    what NumPy's functions make of them does not."""
    x = np.ones(3, np.float32)

    def step(x: Any, rate: Any, n: Any) -> Any:
        scale = -(rate * 0.5) / (n + 1) ** 2
        rate += 1.0
        return x * scale * rate * n

    assert step(x, 2.0, 3).dtype == np.float32
    np.testing.assert_array_equal(tj.jit(step)(x, 2.0, 3), step(x, 2.0, 3), strict=True)
    assert tj.grad(lambda x: np.sum(step(x, 2.0, 3)))(x).dtype == np.float32
    slope = tj.grad(lambda rate: np.sum(step(x, rate, 3)))(2.0)
    assert slope == pytest.approx(-9 * 0.5 * 5 / 16)
    wide = lambda x, rate: x * np.sqrt(rate)  # noqa: E731
    assert wide(x, 2.0).dtype == tj.jit(wide)(x, 2.0).dtype == np.float64


def changes(x: Any) -> Any:
    x[0] = 1.0
    return np.sum(x)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "vmap", "jacfwd", "jacrev"])
def test_changing_an_argument_is_refused_by_name(name: str):
    x = np.ones((2, 3))
    with pytest.raises(TypeError) as error:
        getattr(tj, name)(changes)(x)
    assert str(error.value).splitlines()[0] == (
        f"{name}: argument 1 is changed in place, which has no meaning under {name}; copy it first (x = x.copy()) and "
        "return the new value"
    )
    assert "x[0] = 1.0" in str(error.value)
    np.testing.assert_array_equal(x, 1.0)


def test_the_changed_argument_is_named_in_containers():
    def f(a: Any, params: Any) -> Any:
        params["w"][1][:] = 0.0
        return np.sum(a)

    with pytest.raises(TypeError, match=r"argument 2\['w'\]\[1\] is changed in place"):
        tj.grad(f, argnums=(0, 1))(np.ones(2), {"w": [np.ones(2), np.ones(2)]})


def test_a_copy_may_be_changed():
    def f(x: Any) -> Any:
        y = x.copy()
        y[0] = 3.0 * y[0]
        y += 1.0
        return np.sum(y**2)

    np.testing.assert_array_equal(tj.grad(f)(np.array([1.0, 2.0])), [24.0, 6.0])


# -- arguments and results
# ----------------------------------------------------------------------------------------------------------------
Pair = namedtuple("Pair", "left right")


def test_pytrees_in_and_out():
    params = {
        "w": np.array([1.0, 2.0]),
        "b": (3.0, [np.float32(2.0)]),
        "p": Pair(np.ones(2, np.float32), 1.0),
        "none": None,
    }

    def f(p: Any) -> Any:
        return np.sum(p["w"]) * p["b"][0] + p["b"][1][0] ** 2 * p["p"].right + np.sum(p["p"].left)

    slope = tj.grad(f)(params)
    assert slope["none"] is None
    assert isinstance(slope["p"], Pair)
    np.testing.assert_array_equal(slope["w"], [3.0, 3.0])
    assert (slope["b"][0], slope["b"][1][0], slope["p"].right) == (3.0, 4.0, 4.0)
    np.testing.assert_array_equal(slope["p"].left, np.ones(2, np.float32))
    assert [np.asarray(v).dtype for v in (slope["w"], slope["b"][1][0], slope["p"].left)] == [
        np.float64,
        np.float32,
        np.float32,
    ]


def test_argnums_choose_arguments():
    f = lambda a, b, c: a * b**2 * c**3  # noqa: E731
    assert tj.grad(f)(2.0, 3.0, 1.0) == 9.0
    assert tj.grad(f, argnums=-1)(2.0, 3.0, 1.0) == 54.0
    assert tj.grad(f, argnums=(2, 0))(2.0, 3.0, 1.0) == (54.0, 9.0)
    assert tj.value_and_grad(f, argnums=(1,))(2.0, 3.0, 1.0) == (18.0, (12.0,))
    assert tj.grad(lambda a, *, k: a * k)(2.0, k=5.0) == 5.0


def test_has_aux_passes_anything_through():
    f = lambda x: (np.sum(x**2), {"twice": 2 * x, "name": "loss", "shape": x.shape})  # noqa: E731
    x = np.array([1.0, 2.0])
    slope, aux = tj.grad(f, has_aux=True)(x)
    np.testing.assert_array_equal(slope, 2 * x)
    np.testing.assert_array_equal(aux["twice"], 2 * x)
    assert (aux["name"], aux["shape"]) == ("loss", (2,))
    (value, _), _ = tj.value_and_grad(f, has_aux=True)(x)
    assert value == 5.0
    assert tj.vjp(f, x, has_aux=True)[2]["name"] == "loss"
    assert tj.jvp(f, (x,), (x,), has_aux=True)[2]["name"] == "loss"
    assert tj.jacrev(f, has_aux=True)(x)[1]["name"] == "loss"
    assert tj.linearize(f, x, has_aux=True)[2]["name"] == "loss"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes_are_kept(dtype: Any):
    x = np.array([1.0, 2.0], dtype)
    f = lambda x: np.sum(x * 3 + np.sin(x) * 2.0)  # noqa: E731
    assert tj.grad(f)(x).dtype == dtype
    assert tj.jit(tj.grad(f))(x).dtype == dtype
    assert tj.jvp(np.sin, (x,), (x,))[1].dtype == dtype
    assert tj.jacfwd(np.sin)(x).dtype == tj.jacrev(np.sin)(x).dtype == dtype
    assert type(tj.grad(lambda s: s * dtype(2))(dtype(1))) is dtype
    mixed = tj.grad(lambda x: np.sum(x.astype(np.float64) ** 2))(x)
    assert mixed.dtype == dtype


def test_results_belong_to_the_caller():
    x = np.array([1.0, 2.0])
    for result in (
        tj.grad(np.sum)(x),
        tj.vjp(lambda x: x, x)[0],
        tj.vjp(lambda x: x, x)[1](x)[0],
        tj.jvp(lambda x: x, (x,), (x,))[1],
        tj.vmap(lambda r: 1.0)(x),
        tj.vmap(lambda r: r)(x),
        tj.jacfwd(lambda x: x[::-1])(x),
    ):
        assert result.flags.writeable
        assert result.flags.c_contiguous
        assert not np.shares_memory(result, x)
    assert type(tj.grad(lambda s: s * s)(2.0)) is np.float64
    a, b = tj.vmap(lambda r: (r, r))(x)
    assert not np.shares_memory(a, b)


def test_linear_functions_outlive_changes_of_the_arguments():
    x, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    _, pullback = tj.vjp(lambda x: x * x * w, x)
    _, pushforward = tj.linearize(lambda x: x * w, x)
    x[:] = 100.0
    w[:] = 100.0
    np.testing.assert_array_equal(pullback(np.ones(2))[0], [6.0, 16.0])
    np.testing.assert_array_equal(pushforward(np.ones(2)), [3.0, 4.0])


def test_results_that_do_not_depend_on_the_argument_have_zero_derivatives():
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(tj.grad(lambda x: 3.0)(x), [0.0, 0.0])
    np.testing.assert_array_equal(tj.grad(lambda x, y: np.sum(x))(x, x), [1.0, 1.0])
    np.testing.assert_array_equal(tj.grad(lambda x, y: np.sum(x), argnums=1)(x, x), [0.0, 0.0])
    np.testing.assert_array_equal(tj.jacfwd(lambda x: np.ones(3))(x), np.zeros((3, 2)))
    np.testing.assert_array_equal(tj.jacrev(lambda x: np.ones(3))(x), np.zeros((3, 2)))
    assert tj.jvp(lambda x: (x, np.floor(x)), (1.5,), (1.0,))[1] == (1.0, 0.0)


def test_integers_have_derivatives_of_dtype_float0():
    n = np.array([1, 2])
    x = np.array([1.0, 2.0])
    _, pullback = tj.vjp(lambda x, n: x * n, x, n)
    cx, cn = pullback(np.ones(2))
    np.testing.assert_array_equal(cx, [1.0, 2.0])
    assert (cn.dtype, cn.shape) == (tj.float0, (2,))
    assert tj.grad(lambda p: np.sum(p["x"] * p["n"]), allow_int=True)({"x": x, "n": n})["n"].dtype == tj.float0
    _, slope = tj.jvp(lambda x, n: (x * n, n), (x, n), (x, np.zeros(2, tj.float0)))
    np.testing.assert_array_equal(slope[0], x * n)
    assert slope[1].dtype == tj.float0


def test_jacobians_of_pytrees():
    def f(p: Any) -> Any:
        return {"y": p["a"] * p["b"], "s": np.sum(p["a"])}

    p = {"a": np.array([1.0, 2.0, 3.0]), "b": np.float64(2.0)}
    for jacobian in (tj.jacfwd, tj.jacrev):
        j = jacobian(f)(p)
        np.testing.assert_array_equal(j["y"]["a"], 2 * np.eye(3))
        np.testing.assert_array_equal(j["y"]["b"], p["a"])
        np.testing.assert_array_equal(j["s"]["a"], np.ones(3))
        assert j["s"]["b"] == 0.0
    both = tj.jacrev(lambda a, b: a[:, None] * b, argnums=(0, 1))(np.ones(2), np.ones(3))
    assert [part.shape for part in both] == [(2, 3, 2), (2, 3, 3)]
    blocks = tj.hessian(lambda p: np.sum(p["a"] ** 2) * p["b"])(p)
    np.testing.assert_array_equal(blocks["a"]["b"], 2 * p["a"])
    np.testing.assert_array_equal(blocks["b"]["a"], 2 * p["a"])


# -- vmap's axes -------------------------------------------------------------------------------------------------------
def test_in_axes_are_prefixes_of_the_arguments():
    w, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    f = lambda p, scale: p["w"] * scale + p["b"]  # noqa: E731
    want = np.stack([w[:, k] * 2.0 + b[k] for k in range(3)])
    np.testing.assert_array_equal(tj.vmap(f, in_axes=({"w": 1, "b": 0}, None))({"w": w, "b": b}, 2.0), want)
    np.testing.assert_array_equal(
        tj.vmap(f, in_axes=({"w": -1, "b": 0}, None), out_axes=1)({"w": w, "b": b}, 2.0), want.T
    )
    np.testing.assert_array_equal(tj.vmap(lambda xs: xs[0] - xs[1], in_axes=([0, None],))([b, 1.0]), b - 1)
    np.testing.assert_array_equal(tj.vmap(lambda x, *, y: x + y)(b, y=b), 2 * b)
    np.testing.assert_array_equal(
        tj.vmap(lambda x, how: x * (2 if how == "twice" else 1), in_axes=(0, None))(b, "twice"), 2 * b
    )


def test_out_axes_place_the_mapped_axis():
    x = np.arange(6.0).reshape(2, 3)
    a, b, c = tj.vmap(lambda r: (r, {"s": r.sum()}, 5.0), out_axes=(1, 0, None))(x)
    np.testing.assert_array_equal(a, x.T)
    np.testing.assert_array_equal(b["s"], x.sum(1))
    assert c == 5.0
    np.testing.assert_array_equal(tj.vmap(lambda: np.arange(2.0), axis_size=3)(), np.tile(np.arange(2.0), (3, 1)))
    np.testing.assert_array_equal(tj.vmap(lambda r: r, out_axes=-1)(x), x.T)


# -- errors ------------------------------------------------------------------------------------------------------------
X = np.array([1.0, 2.0, 3.0])
ERRORS = [
    ("integer", lambda: tj.grad(np.sum)(np.arange(3)), TypeError,
     "grad: argument 1 is i64[3], and derivatives are taken with respect to floating-point numbers; "
     "pass x.astype(float), or choose other arguments with argnums="),
    ("Python integer", lambda: tj.grad(lambda x: x * x)(3), TypeError,
     "grad: argument 1 is the number 3, and derivatives are taken with respect to floating-point "
     "numbers; pass 3.0, or choose other arguments with argnums="),
    ("complex", lambda: tj.grad(lambda x: x)(1j), TypeError,
    "grad: the result is c128~[]; the derivative of a holomorphic function is asked for by "
     "holomorphic=True, "
     "others are those of two real functions: take np.real and np.imag apart"),
     ("complex array", lambda: tj.grad(np.sum)(np.ones(2, complex)), TypeError,
    "grad: the result is c128[]; the derivative of a holomorphic function is asked for by "
     "holomorphic=True, "
     "others are those of two real functions: take np.real and np.imag apart"),
    ("array result", lambda: tj.grad(square)(X), ValueError,
     "grad wants a function whose result is one real number; square returned f64[3]; reduce it (result.sum()), or use "
     "tj.jacrev or tj.vjp"),
    ("integer result", lambda: tj.grad(count)(X), TypeError,
     "grad wants a function whose result is one real number; count returned i64[], which has no derivative; compute "
     "in floating point"),
    ("two results", lambda: tj.grad(both)(X), TypeError,
     "grad wants a function whose result is one real number; both returned a tuple; pass has_aux=True if the second "
     "is extra output"),
    ("no array", lambda: tj.grad(word)(X), TypeError,
     "grad: word returned str; results are arrays, numbers, or containers of them (return other "
     "things with has_aux=True where the transformation takes it)"),
    ("no pair", lambda: tj.grad(square, has_aux=True)(X), TypeError,
     "grad: with has_aux=True square returns a pair (result, aux), not Tracer"),
    ("string argument", lambda: tj.grad(square)("x"), TypeError, "grad: argument 1 is a str, not an array or a number"),
    ("argnums", lambda: tj.grad(square, argnums=1)(X), UserError, "grad: argnums 1 with 1 positional arguments"),
    ("argnums twice", lambda: tj.grad(square, argnums=(0, 0))(X), UserError,
    "grad: argnums (0, 0) names an argument twice"),
    ("no function", lambda: tj.grad(3), UserError, "tj.grad wants a function, not int"),
    ("tangent shape", lambda: tj.jvp(square, (X,), (X[:2],)), ValueError,
     "jvp: the tangent of argument 1 has shape (2,); the value has (3,)"),
    ("tangent dtype", lambda: tj.jvp(square, (X,), (X.astype("f4"),)), TypeError,
     "jvp: the tangent of argument 1 is f32; the value is f64"),
    ("tangent tree", lambda: tj.jvp(square, (X,), ((X,),)), TypeError, "jvp: primals and tangents differ in structure"),
    ("primals", lambda: tj.jvp(square, X, X), TypeError,
    "jvp: primals is a ndarray; it is a tuple with one entry for each argument"),
    ("cotangent shape", lambda: tj.vjp(square, X)[1](1.0), ValueError,
    "vjp: the cotangent of the result has shape (); the value has (3,)"),
    ("cotangent tree", lambda: tj.vjp(square, X)[1]((X,)), TypeError,
    "vjp: the cotangent differs in structure from the result"),
    ("jacobian", lambda: tj.jacfwd(count)(X), TypeError, "jacfwd: count returned i64[], which has no derivative"),
    ("no axis", lambda: tj.vmap(square)(1.0), ValueError,
     "vmap: argument 1 is a number, which has no axis to map over; use None in in_axes for it"),
    ("axis", lambda: tj.vmap(square, in_axes=2)(X), ValueError,
    "vmap: argument 1 has shape (3,) and no axis 2 to map over"),
     ("extents", lambda: tj.vmap(lambda a, b: a)(X, {"b": X[:2]}), ValueError,
    "vmap: mapped axes differ in extent: axis 0 of argument 1 has 3, axis 0 of argument 2['b'] has 2"),
     ("nothing mapped", lambda: tj.vmap(square, in_axes=None)(X), ValueError,
    "vmap needs at least one argument with a mapped axis, or axis_size="),
     ("in_axes", lambda: tj.vmap(square, in_axes="a"), UserError,
    "vmap: in_axes is 'a'; it is an integer, None, or a tuple with an entry for each argument"),
    ("in_axes count", lambda: tj.vmap(square, in_axes=(0, 1))(X), UserError,
    "vmap: in_axes has 2 entries for 1 positional arguments"),
     ("in_axes tree", lambda: tj.vmap(square, in_axes=((0, 0),))(X), UserError,
    "vmap: in_axes (0, 0) does not fit the structure of the arguments"),
    ("out_axes", lambda: tj.vmap(square, out_axes=1)(X), ValueError,
    "vmap: out_axes 1 is not an axis of a result of rank 1"),
     ("out_axes None", lambda: tj.vmap(square, out_axes=None)(X), ValueError,
    "vmap: out_axes is None for a result that varies over the mapped axis; give the axis it goes to"),
     ("vmap result", lambda: tj.vmap(word)(X), TypeError,
     "vmap: word returned str; results are arrays, numbers, or containers of them (return other "
     "things with has_aux=True where the transformation takes it)"),
]  # fmt: skip


def square(x: Any) -> Any:
    return x * x


def count(x: Any) -> Any:
    return np.argmax(x)


def both(x: Any) -> Any:
    return np.sum(x), x


def word(x: Any) -> Any:
    return "a"


@pytest.mark.parametrize(("call", "kind", "message"), [pytest.param(*e[1:], id=e[0]) for e in ERRORS])
def test_errors_say_what_is_wrong_and_what_to_do(call: Callable[[], Any], kind: type[Exception], message: str):
    with pytest.raises(kind) as error:
        call()
    first, _, place = str(error.value).partition("\n")
    assert first == message
    assert "test_transformations.py" in place  # the user's line


def test_values_that_outlive_their_trace_are_refused():
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return np.sum(x)

    with pytest.raises(
        UnsupportedError, match="is stored outside of the traced function, in 'kept' of an enclosing function, a list"
    ):
        tj.grad(keep)(X)
    assert not kept

    def keeping() -> Any:
        while True:
            kept.append((yield))

    keeper = keeping()
    next(keeper)
    with pytest.warns(UserWarning, match="where a generator from outside stands is not followed"):
        tj.grad(lambda x: keeper.send(x) or np.sum(x))(X)
    for use in (
        lambda: np.sin(kept[0]),
        lambda: tj.grad(lambda y: np.sum(y * kept[0]))(X),
        lambda: tj.jit(lambda y: y * kept[0])(X),
    ):
        with pytest.raises(TypeError, match="trace"):
            use()
    with pytest.raises(TypeError, match="after the function that was traced had returned"):
        bool(kept[0])


def test_what_vmap_does_not_map_can_still_be_looked_into():
    """Without jit its elements are known: masks, functions that NumPy computes, lists;
    arrays of no numbers are the function's own."""
    x = np.arange(6.0).reshape(2, 3)
    mask, words = np.array([True, False, True]), np.array(["a", "b"])
    np.testing.assert_array_equal(tj.vmap(lambda row, m: row[m], in_axes=(0, None))(x, mask), x[:, mask])
    np.testing.assert_array_equal(tj.vmap(lambda row, w: row * np.sort(w), in_axes=(0, None))(x, x[0]), x * x[0])
    np.testing.assert_array_equal(tj.vmap(lambda row, w: row * w.tolist()[1], in_axes=(0, None))(x, x[1]), x * 4)
    np.testing.assert_array_equal(tj.vmap(lambda row, w: row if w[0] == "a" else -row, in_axes=(0, None))(x, words), x)
    np.testing.assert_array_equal(tj.grad(lambda row: np.sum(row[row > 0] ** 2))(np.array([1.0, -1, 2])), [2, 0, 4])
    for unknown in (
        lambda row: row[row > 1],
        lambda row: np.lib.stride_tricks.as_strided(row),
        lambda row: row.tolist(),
    ):
        with pytest.raises(TracejitError):
            tj.vmap(unknown)(x)
    with pytest.raises(TracejitError, match=r"np\.savetxt is not supported"):
        tj.grad(lambda row: np.sum(np.savetxt("row.txt", row)))(x[0])


TIES = {
    "logaddexp": (lambda x: np.logaddexp(x, -x), lambda x: np.tanh(x), lambda x: 1 / np.cosh(x) ** 2, (0.0, 0.5, -2.0)),
    "logaddexp 0": (lambda x: np.logaddexp(0, x), lambda x: 1 / (1 + np.exp(-x)), lambda x: 1 / (2 + 2 * np.cosh(x)),
    (0.0, 1.0, -1.0)), "logaddexp2": (
        lambda x: np.logaddexp2(x, 0), lambda x: 1 / (1 + 2.0**-x), lambda x: np.log(2) * 2.0**x / (1 + 2.0**x) ** 2,
        (0.0, 1.0, -1.0),
    ),
    "hypot 0": (lambda x: np.hypot(x, 1.0), lambda x: x / np.sqrt(1 + x * x), lambda x: (1 + x * x) ** -1.5,
    (0.0, 1.0, -1.0, 3.0)), "sinc": (np.sinc, lambda x: -(np.pi**2) * x / 3, lambda x: -(np.pi**2) / 3, (0.0, 1e-9,
    -1e-7)),
}  # fmt: skip


@pytest.mark.parametrize("name", TIES)
def test_derivatives_where_formulas_change(name: str):
    f, first, second, points = TIES[name]
    for x in points:
        for grad in (tj.grad(f), tj.jit(tj.grad(f))):
            np.testing.assert_allclose(grad(x), first(x), rtol=1e-12, atol=1e-15)
        for grad in (tj.grad(tj.grad(f)), tj.jit(tj.grad(tj.grad(f)))):
            np.testing.assert_allclose(grad(x), second(x), rtol=1e-9)


def test_a_logistic_regression_that_starts_at_zero():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(20, 3)), rng.integers(0, 2, 20).astype(float)

    def loss(w: Any) -> Any:
        z = x @ w
        return np.mean(np.logaddexp(0, z) - y * z)

    np.testing.assert_allclose(tj.grad(loss)(np.zeros(3)), x.T @ (0.5 - y) / 20, rtol=1e-12)


def test_arguments_that_are_not_differentiated_are_arrays_like_others():
    def f(a: Any, b: Any) -> Any:
        c = a.copy()
        c[0] = b[0] * a[1]
        c[1:] = b[:-1] * a[0]
        np.add.at(c, [0, 0], b[:2])
        return (c * b).sum()

    a, b = np.arange(1.0, 4.0), np.ones(3)
    for grad in (
        tj.grad(f, argnums=1),
        tj.jit(tj.grad(f, argnums=1)),
        lambda a, b: tj.grad(f, argnums=(0, 1))(a, b)[1],
    ):
        assert grad(a, b).tolist() == [8, 3, 1]
    assert a.tolist() == [1, 2, 3]
    assert tj.grad(lambda x, y: x.sum() if y[0] > 0 else (2 * x).sum())(b, a).tolist() == [1, 1, 1]
    assert tj.grad(lambda x, y: x[np.argsort(y)].sum() * len(np.unique(y)) * y.tolist()[2])(b, a).tolist() == [9, 9, 9]

    def changes(x: Any, y: Any) -> Any:
        y[0] = x[0]
        return (x * y).sum()

    with pytest.raises(UnsupportedError, match="changed in place"):
        tj.grad(changes)(b, a)


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_gradients_at_the_smallest_extents(n: int):
    x = np.arange(1.0, n + 1) / 3
    forms: list[Callable[[Any], Any]] = [
        np.prod, np.nanprod, np.sum, lambda x: np.maximum.accumulate(x).sum(), lambda x: np.diff(np.pad(x, 1)).prod(),
        lambda x: x @ x, lambda x: np.prod(x.reshape(-1, 1), axis=0).sum(), lambda x: np.cumprod(x).sum(),
        lambda x: np.cumsum(x).prod(), lambda x: np.max(x, initial=0.1), lambda x: (x[:, None] @ x[None]).sum(),
        lambda x: np.pad(x, 1).prod(), np.trapezoid, lambda x: np.repeat(x, 2).prod(), lambda x: np.outer(x, x).sum(),
        lambda x: np.roll(x, 1).prod(),
    ]  # fmt: skip
    for f in forms:
        numeric = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(n)]
        for gradient in (tj.grad(f), tj.jit(tj.grad(f)), tj.jacfwd(f)):
            np.testing.assert_allclose(gradient(x), np.array(numeric).reshape(n), rtol=1e-6, atol=1e-8)
        assert tj.jit(tj.hessian(f))(x).shape == (n, n)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "part": lambda x: x[1:4, :2], "reversed": lambda x: x[::-1, 1:][:3, :2], "more axes": lambda x: x[None, 1:4, :2][0],
    "T": lambda x: x.T[:3, 1:3], "reshape": lambda x: x.reshape(6, 2)[2:5],
    "ravel": lambda x: x.ravel()[3:9].reshape(3, 2), "swapped": lambda x: np.swapaxes(x, 0, 1)[:3, 1:3],
    "row": lambda x: x[2][:2], "element": lambda x: x[1, 1], "of rank 0": lambda x: x[1, 1, ...],
    "broadcast": lambda x: np.broadcast_to(x[0, :2], (3, 2)), "diagonal": lambda x: np.diagonal(x)[:2],
    "flip": lambda x: np.flip(x)[:3, :2], "split": lambda x: np.split(x, 2)[1][:1, :2],
}  # fmt: skip
OF_VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "times": lambda q, v: (q * v).sum(), "by": lambda q, v: (v / (q * q + 2)).sum(),
    "product": lambda q, v: (q @ (v + np.zeros((3, 2))).T).sum(),
    "twice": lambda q, v: (q * q * v + v * q).sum(), "only": lambda q, v: (np.sin(v) + q).sum() * q[0, 0],
}  # fmt: skip


def _here(g: Callable[[Any, Any], Any], view: Callable[[Any], Any], x: Any, q: Any) -> Any:
    v = view(x)
    return g(q, v)


def _closed_over_after_a_write(g: Callable[[Any, Any], Any], view: Callable[[Any], Any], x: Any, q: Any) -> Any:
    v = view(x)
    x += 1.5
    return g(q, v)


def _in_a_loop(g: Callable[[Any, Any], Any], view: Callable[[Any], Any], x: Any, q: Any) -> Any:
    out = np.zeros(q.shape)
    for _ in tj.range(2):
        v = view(x)
        out += g(q, v)
        x[1:] *= 0.5
    return out


def _of_an_outer_view_in_a_loop(g: Callable[[Any, Any], Any], view: Callable[[Any], Any], x: Any, q: Any) -> Any:
    v, out = view(x), np.zeros(q.shape)
    for _ in tj.range(3):
        out += g(q, v)
        x *= 0.5
    return out


def _of_a_part(g: Callable[[Any, Any], Any], view: Callable[[Any], Any], x: Any, q: Any) -> Any:
    bigger = np.concatenate([q, q])
    bigger[:3] -= g(bigger[3:], view(x))
    return bigger


@pytest.mark.parametrize(
    "place", [_here, _closed_over_after_a_write, _in_a_loop, _of_an_outer_view_in_a_loop, _of_a_part]
)
@pytest.mark.parametrize("name", OF_VIEWS)
def test_derivatives_take_views_of_arrays_around(place: Any, name: str):
    f = OF_VIEWS[name]
    kinds: list[Callable[[Any, Any], Any]] = [
        lambda q, v: tj.grad(lambda q: f(q, v))(q), lambda q, v: tj.grad(f)(q, v),
        lambda q, v: tj.linearize(lambda q: f(q, v), q)[1](q + 1) + 0 * q,
        lambda q, v: tj.jit(lambda q: tj.grad(lambda q: f(q, v))(q))(q),
    ]  # fmt: skip

    def numeric(q: Any, v: Any) -> Any:
        return np.array(
            [[(f(q + 1e-6 * e, v) - f(q - 1e-6 * e, v)) / 2e-6 for e in row] for row in np.eye(6).reshape(3, 2, 3, 2)]
        )

    def along(q: Any, v: Any) -> Any:
        return (numeric(q, v) * (q + 1)).sum() + 0 * q

    q = np.linspace(-1, 1.5, 6).reshape(3, 2)
    for view in VIEWS.values():
        for kind, g in enumerate(kinds):
            x = np.arange(12.0).reshape(4, 3) / 7
            expected = place(along if kind == 2 else numeric, view, x.copy(), q.copy())
            found = tj.jit(lambda x, q: place(g, view, x, q))(x.copy(), q.copy())  # noqa: B023
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_a_pullback_keeps_the_values_that_the_views_had():
    def f(x: Any, y: Any) -> Any:
        v, w = y[::-1], x[1:]
        out, pullback = tj.vjp(lambda q: np.sin(q) * q * w[0], v)
        y[:] = 0
        w[:] = 7
        return out, pullback(np.ones(3))

    x, y = np.array([2.0, 3.0, 5.0]), np.array([0.1, 0.2, 0.3])
    out, (cotangent,) = tj.jit(f)(x.copy(), y.copy())
    q = y[::-1]
    np.testing.assert_allclose(out, np.sin(q) * q * 3)
    np.testing.assert_allclose(cotangent, (np.cos(q) * q + np.sin(q)) * 3)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("derive", [
    lambda h, x: tj.grad(lambda a: ((a**2).sum(), h()), has_aux=True)(x)[1], lambda h, x: tj.vjp(lambda a: h(), x)[0],
    lambda h, x: tj.value_and_grad(lambda a: ((a**2).sum(), [h()]), has_aux=True)(x)[0][1][0],
    lambda h, x: tj.jvp(lambda a: h(), (x,), (x,))[0],
    lambda h, x: tj.linearize(lambda a: h(), x)[0], lambda h, x: tj.jacfwd(lambda a: (a * 2, h()), has_aux=True)(x)[1],
    lambda h, x: tj.jacrev(lambda a: (a * 2, h()), has_aux=True)(x)[1],
    lambda h, x: tj.vmap(lambda a: (a, h()))(x)[1][0],
])  # fmt: skip
@pytest.mark.parametrize("how", [lambda y: y, lambda y: y.copy(), lambda y: y[:], lambda y: y.T])
def test_results_of_transformations_share_no_memory_with_arrays_from_outside(how: Any, derive: Any, jitted: bool):
    def f(x: Any) -> Any:
        y = x.copy()
        got = derive(lambda: how(y), x)
        got[0] = 99
        return y, got

    y, got = (tj.jit(f) if jitted else f)(X)
    np.testing.assert_array_equal(y, X)
    assert got[0] == 99
