"""custom_jvp, custom_vjp, checkpoint and stop_gradient: the user's rule, wherever a derivative is taken."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import (
    DtypeError,
    LeakedTracerError,
    OptionError,
    ShapeError,
    TracejitError,
    TracerError,
    UnsupportedError,
    UserError,
)

X = np.array([0.5, -1.25, 2.0])
BACKENDS = ["cpu", "reference", pytest.param("opencl", marks=pytest.mark.opencl)]


@tj.custom_jvp
def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


@softplus.defjvp
def _softplus_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return softplus(x), t * sigmoid(x)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@tj.custom_jvp
def tenfold(x: Any, y: Any) -> Any:
    return x * y


tenfold.defjvps(lambda t, result, x, y: 10 * t * y, lambda t, result, x, y: tenfold(x, t))


@tj.custom_vjp
def clipped(x: Any) -> Any:
    return x


clipped.defvjp(lambda x: (x, None), lambda _, ct: (np.clip(ct, -1.0, 1.0),))


@tj.custom_vjp
def cubed(x: Any) -> Any:
    return x**3


cubed.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x**2 * ct,))


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: np.sum(f(*args))


# -- forward rules -----------------------------------------------------------------------------------------------------
WAYS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "grad": lambda f: tj.grad(total(f)),
    "jit grad": lambda f: tj.jit(tj.grad(total(f))),
    "grad jit": lambda f: tj.grad(tj.jit(total(f))),
    "vmap grad": lambda f: tj.vmap(tj.grad(f)),
    "grad vmap": lambda f: tj.grad(total(tj.vmap(f))),
    "jit vmap grad": lambda f: tj.jit(tj.vmap(tj.grad(f))),
    "grad jit vmap": lambda f: tj.grad(total(tj.jit(tj.vmap(f)))),
    "grad of two vmaps": lambda f: lambda x: tj.grad(total(tj.vmap(tj.vmap(f))))(x[:, None])[:, 0],
    "vjp": lambda f: lambda x: tj.vjp(f, x)[1](np.ones(len(x)))[0],
    "jacrev": lambda f: lambda x: np.diagonal(tj.jit(tj.jacrev(f))(x)),
}
FORWARD: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "jvp": lambda f: lambda x: tj.jvp(f, (x,), (np.ones(len(x)),))[1],
    "jit jvp": lambda f: tj.jit(lambda x: tj.jvp(f, (x,), (np.ones(len(x)),))[1]),
    "linearize": lambda f: lambda x: tj.linearize(f, x)[1](np.ones(len(x))),
    "jacfwd": lambda f: lambda x: np.diagonal(tj.jit(tj.jacfwd(f))(x)),
    "vmap jvp": lambda f: tj.vmap(lambda x: tj.jvp(f, (x,), (1.0,))[1]),
}


@pytest.mark.parametrize("way", [*WAYS, *FORWARD])
def test_a_forward_rule_serves_all_modes(way: str):
    x = np.array([0.5, -1.25, 1000.0])  # where exp(x) is infinite
    with np.errstate(over="ignore"):
        np.testing.assert_allclose({**WAYS, **FORWARD}[way](softplus)(x), sigmoid(x), rtol=1e-14)


@pytest.mark.parametrize("way", WAYS)
def test_second_derivatives_differentiate_the_rule(way: str):
    slope = WAYS[way](softplus)
    direction = np.array([1.0, 2.0, -0.5])
    got = tj.jvp(slope, (X,), (direction,))[1]
    np.testing.assert_allclose(got, sigmoid(X) * (1 - sigmoid(X)) * direction, rtol=1e-13)
    again = tj.vjp(slope, X)[1](direction)[0]
    np.testing.assert_allclose(again, got, rtol=1e-13)


def test_without_a_derivative_the_function_is_computed_alone():
    np.testing.assert_array_equal(softplus(X), np.log1p(np.exp(X)))
    text = tj.jit(lambda x: softplus(x) + tenfold(x, x)).lower(X).text("jaxpr")
    assert "custom" not in text
    assert softplus.__name__ == "softplus"


def test_rules_for_each_argument_are_summed():
    assert [float(d) for d in tj.grad(tenfold, (0, 1))(2.0, 3.0)] == [30.0, 2.0]
    value, slope = tj.jvp(tenfold, (2.0, 3.0), (1.0, 1.0))
    assert (float(value), float(slope)) == (6.0, 32.0)


def test_a_rule_of_none_is_zero():
    f = tj.custom_jvp(lambda x, y: x * y)
    f.defjvps(None, lambda t, result, x, y: x * t)
    assert [float(d) for d in tj.jit(tj.grad(f, (0, 1)))(2.0, 3.0)] == [0.0, 2.0]


def test_arguments_that_are_not_differentiated_come_first():
    @functools.partial(tj.custom_jvp, nondiff_argnums=(0, 2))
    def apply(f: Any, x: Any, name: str) -> Any:
        return f(x)

    seen: list[Any] = []

    @apply.defjvp
    def _(f: Any, name: str, primals: Any, tangents: Any) -> Any:
        seen.append(name)
        return f(primals[0]), 7.0 * tangents[0]

    np.testing.assert_array_equal(tj.grad(lambda x: np.sum(apply(np.sin, x, "s")))(X), np.full(3, 7.0))
    assert seen == ["s"]


def test_keywords_and_defaults_are_positions():
    f = tj.custom_jvp(lambda x, scale=2.0: x * scale)
    f.defjvp(lambda primals, tangents: (primals[0] * primals[1], tangents[0] * primals[1] * 5))
    assert float(tj.grad(lambda x: f(x))(1.0)) == 10.0
    assert float(tj.grad(lambda x: f(scale=3.0, x=x))(1.0)) == 15.0


def test_pytrees_and_integers_are_arguments():
    @tj.custom_jvp
    def f(d: Any, n: Any) -> Any:
        return {"y": d["a"] * d["b"][0] * n, "n": n}

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (d, n), (t, of_n) = primals, tangents
        assert of_n.dtype == tj.float0
        return f(d, n), {"y": t["a"] * 100 + t["b"][0] * 1000, "n": np.zeros((), tj.float0)}

    def loss(d: Any, n: Any) -> Any:
        return np.sum(f(d, n)["y"])

    for made in (tj.grad(loss), tj.jit(tj.grad(loss))):
        slope = made({"a": X, "b": (X,)}, 3)
        np.testing.assert_array_equal(slope["a"], np.full(3, 100.0))
        np.testing.assert_array_equal(slope["b"][0], np.full(3, 1000.0))


def test_methods_have_their_instance_as_an_argument():
    class Layer:
        def __init__(self, w: float):
            self.w = w

        @functools.partial(tj.custom_jvp, nondiff_argnums=(0,))
        def __call__(self, x: Any) -> Any:
            return self.w * x

        @__call__.defjvp
        def _(self, primals: Any, tangents: Any) -> Any:
            return self.w * primals[0], 4 * self.w * tangents[0]

    layer = Layer(0.5)
    assert float(tj.grad(lambda x: layer(x))(1.0)) == 2.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_rules_serve_in_loops(backend: str):
    def repeated(x: Any) -> Any:
        return tj.lax.fori_loop(0, 3, lambda i, c: tenfold(c, c), x).sum()

    x = np.array([1.0, 2.0, -0.5])
    want = 11**3 * x**7  # d/dc is 11 c, and c is x, x**2, x**4
    np.testing.assert_allclose(tj.jit(tj.grad(repeated), backend=backend)(x), want, rtol=1e-12)
    along = tj.jit(lambda x: tj.jvp(repeated, (x,), (np.ones(3),))[1], backend=backend)(x)
    np.testing.assert_allclose(along, want.sum(), rtol=1e-12)
    each = tj.jit(tj.vmap(tj.grad(repeated)), backend=backend)(np.stack([x, 2 * x]))
    np.testing.assert_allclose(each, [want, 2**7 * want], rtol=1e-12)


def test_rules_serve_in_branches_and_scans():
    def branching(x: Any) -> Any:
        return tenfold(x, 2.0) if x > 0 else tenfold(x, 5.0)

    slope = tj.jit(tj.grad(branching))
    assert (float(slope(1.0)), float(slope(-1.0))) == (20.0, 50.0)
    np.testing.assert_allclose(tj.jit(tj.vmap(tj.grad(branching)))(np.array([1.0, -1.0])), [20.0, 50.0])

    def scanned(xs: Any) -> Any:
        return tj.lax.scan(lambda c, x: (softplus(c * x), c), 1.0, xs)[0]

    plain = tj.grad(lambda xs: tj.lax.scan(lambda c, x: (np.log1p(np.exp(c * x)), c), 1.0, xs)[0])(X)
    np.testing.assert_allclose(tj.jit(tj.grad(scanned))(X), plain, rtol=1e-13)


def test_rules_serve_a_while_loop_in_forward_mode():
    def grown(x: Any) -> Any:
        return tj.lax.while_loop(lambda c: c < 100.0, lambda c: tenfold(c, 2.0), x)

    value, slope = tj.jit(lambda x: tj.jvp(grown, (x,), (1.0,)))(3.0)
    assert (float(value), float(slope)) == (192.0, 20.0**6)
    with pytest.raises(UnsupportedError, match="no reverse-mode derivative"):
        tj.grad(grown)(3.0)


def test_one_program_serves_all_sizes():
    slope = tj.jit(tj.grad(lambda x: np.sum(tenfold(x, x) + cubed(x) + clipped(x))))
    for n in (0, 1, 2, 5, 17, 3):
        x = np.linspace(-1, 1, n)
        np.testing.assert_allclose(slope(x), 11 * x + 3 * x**2 + 1, rtol=1e-13)


# -- reverse rules -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", WAYS)
def test_a_reverse_rule_serves_reverse_mode(way: str):
    np.testing.assert_allclose(WAYS[way](cubed)(X), 3 * X**2, rtol=1e-14)
    np.testing.assert_array_equal(WAYS[way](lambda x: 2.5 * clipped(x))(X), np.ones(3))


def test_second_derivatives_differentiate_the_backward_rule():
    slope = tj.grad(lambda x: np.sum(cubed(x)))
    np.testing.assert_allclose(tj.jvp(slope, (X,), (np.ones(3),))[1], 6 * X)
    np.testing.assert_allclose(tj.grad(lambda x: slope(x).sum())(X), 6 * X)
    np.testing.assert_allclose(np.diagonal(tj.jit(tj.hessian(lambda x: np.sum(cubed(x))))(X)), 6 * X)


def test_all_results_reach_the_backward_rule_at_once():
    @tj.custom_vjp
    def normed(tree: Any) -> Any:
        return tree

    def backward(_: Any, ct: Any) -> Any:
        norm = np.sqrt(sum(np.sum(c**2) for c in tj.tree.leaves(ct)))
        return (tj.tree.map(lambda c: c / norm, ct),)

    normed.defvjp(lambda tree: (tree, None), backward)

    def loss(tree: Any) -> Any:
        tree = normed(tree)
        return 3 * np.sum(tree["a"]) + 4 * np.sum(tree["b"][0])

    for made in (tj.grad(loss), tj.jit(tj.grad(loss))):
        slope = made({"a": np.ones(1), "b": (np.ones((1, 1)),)})
        np.testing.assert_allclose([slope["a"][0], slope["b"][0][0, 0]], [0.6, 0.8])


def test_residuals_may_be_anything():
    f = tj.custom_vjp(lambda x, n: x * n)
    f.defvjp(lambda x, n: (x * n, {"n": n, "name": "f", "none": None}), lambda res, ct: (ct * res["n"] * 10, None))
    assert float(tj.jit(tj.grad(f))(2.0, 3)) == 30.0


def test_what_is_the_same_for_all_elements_gets_the_sum_of_their_cotangents():
    f = tj.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda res, ct: (ct * res[1], ct * res[0]))

    def loss(x: Any, y: Any) -> Any:
        return np.sum(tj.vmap(f, in_axes=(None, 0))(x, y))

    for made in (tj.grad(loss, (0, 1)), tj.jit(tj.grad(loss, (0, 1)))):
        of_x, of_y = made(2.0, X)
        np.testing.assert_allclose(of_x, X.sum())
        np.testing.assert_allclose(of_y, np.full(3, 2.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_reverse_rules_serve_in_loops_and_branches(backend: str):
    def repeated(x: Any) -> Any:
        return tj.lax.fori_loop(0, 3, lambda i, c: 3 * clipped(c), x).sum()

    np.testing.assert_allclose(tj.jit(tj.grad(repeated), backend=backend)(X), np.ones(3))

    def branching(x: Any) -> Any:
        return np.sum(cubed(x)) if x[0] > 0 else np.sum(clipped(5 * x))

    slope = tj.jit(tj.grad(branching), backend=backend)
    np.testing.assert_allclose(slope(X), 3 * X**2)
    np.testing.assert_allclose(slope(-X), np.full(3, 5.0))


def test_arrays_that_a_rule_makes_are_filled_in_place():
    f = tj.custom_vjp(lambda x: x * 1.0)

    def backward(x: Any, ct: Any) -> Any:
        out = np.zeros(3)
        out[0] = ct[0] * x[0]
        out[1:] += 2 * ct[1:]
        return (out,)

    f.defvjp(lambda x: (x * 1.0, x), backward)
    for made in (tj.grad(total(f)), tj.jit(tj.grad(total(f)))):
        np.testing.assert_array_equal(made(X), [X[0], 2.0, 2.0])


def test_a_function_of_this_kind_calls_others():
    @tj.custom_vjp
    def outer(x: Any) -> Any:
        return cubed(softplus(x))

    outer.defvjp(lambda x: (outer(x), x), lambda x, ct: (tj.grad(lambda x: cubed(softplus(x)))(x) * ct,))
    want = 3 * np.log1p(np.exp(0.5)) ** 2 * sigmoid(0.5)
    assert np.isclose(float(tj.jit(tj.grad(outer))(0.5)), want, rtol=1e-13)


# -- random programs ---------------------------------------------------------------------------------------------------
def _with_rule(plain: Callable[[Any], Any], slope: Callable[[Any], Any], kind: str) -> Callable[[Any], Any]:
    if kind == "jvp":
        f = tj.custom_jvp(plain)
        f.defjvp(lambda primals, tangents: (plain(primals[0]), slope(primals[0]) * tangents[0]))
        return f
    if kind == "vjp":
        g = tj.custom_vjp(plain)
        g.defvjp(lambda x: (plain(x), x), lambda x, ct: (slope(x) * ct,))
        return g
    return tj.checkpoint(plain)


PARTS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (np.sin, np.cos),
    (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    (lambda x: 0.5 * x * x, lambda x: x),
    (lambda x: 1 / (2 + np.cos(x)), lambda x: np.sin(x) / (2 + np.cos(x)) ** 2),
]


@pytest.mark.parametrize("seed", range(6))
def test_right_rules_change_no_derivative(seed: int):
    rng = np.random.default_rng(seed)
    steps = [(int(rng.integers(len(PARTS))), str(rng.choice(["plain", "loop", "branch"]))) for _ in range(4)]
    kinds = [str(rng.choice(["jvp", "vjp", "checkpoint"])) for _ in steps]

    def program(own: bool) -> Callable[[Any], Any]:
        parts = [_with_rule(*PARTS[n], kind) if own else PARTS[n][0] for (n, _), kind in zip(steps, kinds, strict=True)]

        def run(x: Any) -> Any:
            for f, (_, where) in zip(parts, steps, strict=True):
                if where == "loop":
                    x = tj.lax.fori_loop(0, 2, lambda i, c, f=f: f(c) + 0.1 * c, x)
                elif where == "branch":
                    x = tj.lax.cond(np.sum(x) > 0, f, lambda c, f=f: 2 * f(c), x)
                else:
                    x = f(x) + x
            return np.sum(x)

        return run

    x = rng.standard_normal(3)
    want = tj.grad(program(False))(x)
    for made in (tj.grad(program(True)), tj.jit(tj.grad(program(True))), tj.grad(tj.jit(program(True)))):
        np.testing.assert_allclose(made(x), want, rtol=1e-12)
    rows = rng.standard_normal((3, 3))
    wanted = [tj.grad(program(False))(row) for row in rows]
    np.testing.assert_allclose(tj.jit(tj.vmap(tj.grad(program(True))))(rows), wanted, rtol=1e-11)
    if "vjp" not in kinds:
        along = tj.jvp(program(True), (x,), (np.ones(3),))[1]
        np.testing.assert_allclose(along, want.sum(), rtol=1e-12)


# -- what is computed again --------------------------------------------------------------------------------------------
def layered(x: Any) -> Any:
    return np.sin(np.tanh(np.cos(x)) * x)


@pytest.mark.parametrize("way", [*WAYS, *FORWARD])
def test_a_checkpoint_changes_no_derivative(way: str):
    made = {**WAYS, **FORWARD}[way]
    np.testing.assert_allclose(made(tj.checkpoint(layered))(X), made(layered)(X), rtol=1e-14)


def test_a_checkpoint_differentiates_with_respect_to_what_it_reads_from_outside():
    def loss(w: Any, step: Any) -> Any:
        return tj.lax.scan(lambda c, x: (step(lambda c: np.sin(w * c))(c) + x, None), 0.5, X)[0]

    plain = tj.grad(lambda w: loss(w, lambda f: f))(1.5)
    for made in (tj.grad, lambda f: tj.jit(tj.grad(f))):
        assert np.isclose(float(made(lambda w: loss(w, tj.checkpoint))(1.5)), float(plain), rtol=1e-13)


def test_a_checkpointed_loop_keeps_the_carries_alone():
    def kept(step: Callable[[Any], Any]) -> int:
        made = tj.make_jaxpr(tj.grad(lambda x: tj.lax.fori_loop(0, 50, lambda i, c: step(c), x).sum()))(X)
        loop = next(e for e in made.equations if e.primitive.name == "loop")
        return sum(v.aval.shape == (50, 3) for v in loop.outputs)

    assert kept(tj.checkpoint(layered)) == 1 < kept(layered)


def test_integers_and_constants_pass_through_a_checkpoint():
    f = tj.remat(lambda x, n, name: {"y": x * n, "n": n} if name == "f" else x)
    assert float(tj.jit(tj.grad(lambda x: f(x, 3, "f")["y"]))(2.0)) == 3.0
    index = tj.checkpoint(lambda x, i: x.at[i].get() * 2)
    np.testing.assert_array_equal(tj.jit(tj.grad(index))(X, np.int64(1)), [0.0, 2.0, 0.0])


# -- what is constant --------------------------------------------------------------------------------------------------
def test_a_stopped_gradient_is_none_in_all_modes():
    def f(x: Any) -> Any:
        return np.sum(x * tj.lax.stop_gradient({"x": x, "name": "x"})["x"])

    for made in (tj.grad(f), tj.jit(tj.grad(f)), lambda x: tj.linearize(f, x)[1](np.eye(3)[0]) + 0 * x):
        got = made(X)
        assert np.allclose(got, X) or np.allclose(got, X[0])
    np.testing.assert_allclose(tj.jit(tj.vmap(tj.grad(lambda x: x * tj.lax.stop_gradient(x))))(X), X)
    in_a_loop = tj.grad(lambda x: tj.lax.fori_loop(0, 3, lambda i, c: c * tj.lax.stop_gradient(c), x))
    assert np.isclose(float(tj.jit(in_a_loop)(2.0)), 2.0 * 4.0 * 16.0)


# -- what is refused ---------------------------------------------------------------------------------------------------
def refused(error: type[TracejitError], text: str, f: Callable[[], Any]) -> None:
    with pytest.raises(error, match=text) as found:
        f()
    assert "test_custom_derivatives.py" in str(found.value)


def test_a_function_without_a_rule_is_not_called():
    refused(UserError, "f has no derivative yet: call its defjvp", lambda: tj.custom_jvp(_f)(1.0))
    refused(UserError, "f has no derivative yet: call its defvjp", lambda: tj.custom_vjp(_f)(1.0))


def _f(x: Any) -> Any:
    return x * 2


def test_reverse_rules_give_no_forward_derivative():
    text = r"cubed has a reverse derivative only \(tj.custom_vjp\)"
    refused(UnsupportedError, text, lambda: tj.jvp(cubed, (X,), (X,)))
    refused(UnsupportedError, text, lambda: tj.jit(tj.jacfwd(cubed))(X))
    refused(UnsupportedError, text, lambda: tj.linearize(cubed, X)[1](X))
    refused(
        UnsupportedError,
        text,
        lambda: tj.jvp(lambda x: tj.lax.fori_loop(0, 3, lambda i, c: cubed(c), x), (0.5,), (1.0,)),
    )


def test_a_derivative_with_respect_to_what_is_read_from_outside_is_refused():
    def loss(w: Any) -> Any:
        f = tj.custom_jvp(lambda x: x * w)
        f.defjvp(lambda primals, tangents: (primals[0] * w, tangents[0] * w))
        return f(3.0)

    refused(UnsupportedError, "reads another value from outside", lambda: tj.grad(loss)(2.0))


def test_an_array_that_a_rule_reads_from_outside_of_a_loop_is_an_argument():
    table = np.arange(3.0)
    f = tj.custom_jvp(lambda x: x * 1.0)
    f.defjvp(lambda primals, tangents: (primals[0] * 1.0, tangents[0] * table))
    np.testing.assert_array_equal(tj.jit(tj.grad(total(f)))(X), table)
    loss = tj.jit(tj.grad(lambda x: tj.lax.fori_loop(0, 3, lambda i, c: f(c), x).sum()))
    with pytest.raises((UnsupportedError, LeakedTracerError)):
        loss(X)


def _changing(x: Any) -> Any:
    x[0] = 1.0
    return x


def test_arguments_are_not_changed_in_place():
    f = tj.custom_jvp(_changing)
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    refused(TracerError, "_changing changes an argument in place", lambda: tj.jit(lambda x: f(x))(X.copy()))


def test_rules_that_do_not_fit_are_refused():
    def jvp_rule(rule: Callable[..., Any]) -> Callable[[], Any]:
        f = tj.custom_jvp(_f)
        f.defjvp(rule)
        return lambda: tj.grad(total(f))(X)

    def vjp_rule(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[[], Any]:
        f = tj.custom_vjp(_f)
        f.defvjp(forward, backward)
        return lambda: tj.grad(total(f))(X)

    refused(TracerError, "returns a pair", jvp_rule(lambda primals, tangents: tangents[0]))
    refused(TracerError, "another structure", jvp_rule(lambda primals, tangents: ((primals[0],), tangents[0])))
    refused(ShapeError, "the tangent of _f has shape", jvp_rule(lambda p, t: (p[0], t[0].sum())))
    refused(DtypeError, "the tangent of _f is f32", jvp_rule(lambda p, t: (p[0], t[0].astype(np.float32))))
    fine = lambda x: (x * 2, None)  # noqa: E731
    refused(TracerError, "the forward rule of _f", vjp_rule(lambda x: x * 2, lambda _, ct: (ct,)))
    refused(TracerError, "a tuple with one cotangent", vjp_rule(fine, lambda _, ct: ct))
    refused(TracerError, "another structure", vjp_rule(fine, lambda _, ct: ((ct, ct),)))
    refused(ShapeError, "the cotangent of an argument of _f has shape", vjp_rule(fine, lambda _, ct: (ct[0],)))


def test_calls_that_do_not_fit_are_refused():
    f = tj.custom_jvp(lambda x, name: x)
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    refused(TracerError, "argument 2 .* holds a str.*nondiff_argnums", lambda: tj.grad(lambda x: f(x, "a"))(1.0))
    g = tj.custom_jvp(_f, nondiff_argnums=(3,))
    g.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    refused(UserError, "nondiff_argnums", lambda: tj.grad(g)(1.0))
    h = tj.custom_jvp(lambda x, *, scale: x * scale)
    h.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    refused(UserError, "keyword-only", lambda: tj.grad(lambda x: h(x, scale=2.0))(1.0))


def test_options_that_are_not_supported_say_so():
    refused(UnsupportedError, "symbolic_zeros", lambda: tj.custom_jvp(_f).defjvp(_f, symbolic_zeros=True))
    refused(UnsupportedError, "policy", lambda: tj.checkpoint(_f, policy=lambda *_: True))
    refused(OptionError, "nondiff_argnums is 'x'", lambda: tj.custom_vjp(_f, nondiff_argnums="x"))
    refused(UserError, "wants a function", lambda: tj.custom_jvp(3))  # pyright: ignore[reportArgumentType]


def test_numbers_are_what_they_were():
    times = tj.custom_vjp(lambda x, y: x * y)
    times.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, ct: (ct * kept[1], ct * kept[0]))
    once = tj.custom_jvp(lambda x: x * 1)
    once.defjvp(lambda primals, tangents: (primals[0] * 1, tangents[0]))
    product = tj.jit(lambda x, y: times(x, y))(2, 3)
    assert type(product) is int
    assert product == 6
    u = np.array([200, 7], "u1")
    assert tj.jit(lambda u, x: u * times(x, x))(u, 1).dtype == np.uint8

    def either(b, n):
        p = b[0] if n > 0 else 100
        return once(p) + 100

    f = tj.jit(either)
    assert f(u, 1) == np.uint8(44)
    with pytest.raises(TracejitError, match="data decide whether a number is a Python integer"):
        tj.jit(lambda b, n: once(b[0] if n > 0 else 200) + 100)(u, 0)
